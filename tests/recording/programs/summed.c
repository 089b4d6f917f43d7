/* Called from summed.f90, in a file of its own. */
double sum_of(const double *a, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++)
    sum += a[i];
  return sum;
}

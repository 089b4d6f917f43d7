/* A loop of tasks in a target region, whose last iteration leaves a value. */
int main(void) {
  int sum = 0, last = 0;
#pragma omp target map(tofrom : sum, last)
#pragma omp parallel
#pragma omp single
#pragma omp taskloop shared(sum) lastprivate(last)
  for (int i = 1; i <= 100; i++) {
#pragma omp atomic
    sum += i;
    last = i;
  }
  return sum != 5050 || last != 100;
}

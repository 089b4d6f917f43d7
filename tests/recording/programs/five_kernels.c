/* Copy, multiply, add, triad and dot product over arrays that stay on the device. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 1024, rounds = argc > 2 ? atol(argv[2]) : 1;
  double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c), dot = 0;
  for (long i = 0; i < n; i++)
    a[i] = 0.1, b[i] = 0.2, c[i] = 0;
#pragma omp target enter data map(to : a[:n], b[:n], c[:n])
  for (long round = 0; round < rounds; round++) {
#pragma omp target teams distribute parallel for
    for (long i = 0; i < n; i++)
      c[i] = a[i];
#pragma omp target teams distribute parallel for
    for (long i = 0; i < n; i++)
      b[i] = 0.4 * c[i];
#pragma omp target teams distribute parallel for
    for (long i = 0; i < n; i++)
      c[i] = a[i] + b[i];
#pragma omp target teams distribute parallel for
    for (long i = 0; i < n; i++)
      a[i] = b[i] + 0.4 * c[i];
#pragma omp target teams distribute parallel for reduction(+ : dot) map(tofrom : dot)
    for (long i = 0; i < n; i++)
      dot += a[i] * b[i];
  }
#pragma omp target exit data map(from : a[:n], b[:n], c[:n])
  printf("%.6f %.6f %.6f\n", a[n - 1], c[0], dot);
}

/* Host threads share out patches; each maps its own, runs four kernels and takes it back. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int patches = argc > 1 ? atoi(argv[1]) : 16, n = argc > 2 ? atoi(argv[2]) : 1024;
  double total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (int patch = 0; patch < patches; patch++) {
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    for (int i = 0; i < n; i++)
      a[i] = patch, b[i] = i;
#pragma omp target data map(to : b[:n]) map(tofrom : a[:n])
    for (int step = 0; step < 4; step++) {
#pragma omp target teams distribute parallel for
      for (int i = 0; i < n; i++)
        a[i] = a[i] * 0.5 + b[i] * 0.25 + 1.0;
    }
    total += a[n / 2];
    free(a);
    free(b);
  }
  printf("%g\n", total);
}

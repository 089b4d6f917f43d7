/* A stencil of three points on the device; the host sets the two ends after each step. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  long n = argc > 1 ? atol(argv[1]) : 4096, steps = argc > 2 ? atol(argv[2]) : 2;
  double *u = malloc(n * sizeof *u), *v = malloc(n * sizeof *v);
  for (long i = 0; i < n; i++)
    u[i] = v[i] = i % 7;
  for (long step = 0; step < steps; step++) {
#pragma omp target teams distribute parallel for map(to : u[:n]) map(tofrom : v[:n])
    for (long i = 1; i < n - 1; i++)
      v[i] = 0.25 * u[i - 1] + 0.5 * u[i] + 0.25 * u[i + 1];
    v[0] = v[1];
    v[n - 1] = v[n - 2];
    double *swapped = u;
    u = v;
    v = swapped;
  }
  printf("%.6f\n", u[n / 2]);
}

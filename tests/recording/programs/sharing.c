/* Threads map one array, each for itself: who is the first to copy it, and who the last, depends on their order. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int n = 4096, rounds = argc > 1 ? atoi(argv[1]) : 20;
  double *a = calloc(n, 8), t[16] = {0};
#pragma omp parallel for schedule(static, 1)
  for (int k = 0; k < 4 * rounds; k++) {
    double s = 0;
#pragma omp target teams distribute parallel for map(to : a[0 : n]) map(tofrom : s) reduction(+ : s)
    for (int i = 0; i < n; i++)
      s += a[i] + 1;
#pragma omp atomic
    t[k % 4] += s;
  }
#pragma omp target map(tofrom : a[0 : n]) nowait
  a[0] += 1;
#pragma omp target map(to : a[0 : n]) map(tofrom : t) nowait
  t[5] += a[1];
#pragma omp taskwait
  printf("%g\n", t[0]);
}

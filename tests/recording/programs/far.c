/* Eight threads, each with arrays of its own on the heap; one of them writes far outside of an array, with an argument. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, ROUNDS = 6, N = 96 };

static void work(int thread) {
  for (int round = 0; round < ROUNDS; round++) {
    int n = N * (1 + (thread + round) % 3);
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), sum = 0;
    for (int i = 0; i < n; i++)
      a[i] = i;
#pragma omp target data map(tofrom : a[0 : n]) map(from : b[0 : n])
    for (int twice = 0; twice < 2; twice++) {
#pragma omp target teams distribute parallel for
      for (int i = 0; i < n; i++)
        a[i] += 1;
#pragma omp target teams distribute parallel for
      for (int i = 0; i < n; i++)
        b[i] = 2 * a[i];
    }
    for (int i = 0; i < n; i++)
      sum += b[i] - 2 * a[i];
    if (sum != 0 || a[n - 1] != n + 1)
      printf("thread %d: wrong\n", thread);
    free(a);
    free(b);
  }
}

int main(int argc, char **argv) {
  int strays = argc > 1 ? atoi(argv[1]) : 0;
#pragma omp parallel num_threads(THREADS)
  work(omp_get_thread_num());
  double *far = calloc(N, sizeof *far);
  if (strays) {
#pragma omp target map(tofrom : far[0 : N])
    for (int i = -strays; i < 0; i++)
      far[i] = i; /* far outside */
  }
  printf("%g\n", far[0]);
  return 0;
}

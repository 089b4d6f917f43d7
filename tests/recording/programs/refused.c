/* Routines that get device memory which was freed: what a driver refuses, and the same with memory that is there.
 * OpenMP lets exit data pass over what is absent. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int which = atoi(argv[1]), n = 1024, d = omp_get_default_device(), h = omp_get_initial_device();
  double *a = calloc(n, 8), *q = omp_target_alloc(n * 8, d), *p = omp_target_alloc(n * 8, d);
#pragma omp target exit data map(delete : a[0 : n])
#pragma omp target exit data map(release : a[0 : n])
  omp_target_memcpy(p, a, n * 8, 0, 0, d, h);
  omp_target_memcpy(q, p, n * 8, 0, 0, d, d);
  if (argc > 2)
    omp_target_free(p, d);
  if (which == 0)
    omp_target_memcpy(a, p, n * 8, 0, 0, h, d);
  if (which == 1)
    omp_target_memcpy(p, a, n * 8, 0, 0, d, h);
  if (which == 2)
    omp_target_memcpy(q, p, n * 8, 0, 0, d, d);
  if (which == 3)
    omp_target_memcpy(p, q, n * 8, 0, 0, d, d);
  if (which == 4)
    omp_target_memset(p, 0, n * 8, d);
  if (which == 5) {
    omp_target_memcpy_async(a, p + 5, 64, 0, 0, h, d, 0, NULL);
#pragma omp taskwait
  }
  if (argc <= 2)
    omp_target_free(p, d);
  omp_target_free(q, d);
  printf("%g\n", a[5]);
}

// Threads that each offload their own patches, and then a chain of deferred constructs that depend on one another.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
enum { PATCHES = 24, CELLS = 512 };

int main(void) {
  static double *in[PATCHES], *out[PATCHES];
  for (int p = 0; p < PATCHES; p++) {
    in[p] = malloc(CELLS * sizeof(double));
    out[p] = malloc(CELLS * sizeof(double));
    for (int i = 0; i < CELLS; i++)
      in[p][i] = p + i;
  }
  double sum = 0;
#pragma omp parallel for schedule(dynamic)
  for (int p = 0; p < PATCHES; p++) {
    double *from = in[p], *to = out[p], scratch[256];
#pragma omp target enter data map(to : from[0 : CELLS]) map(alloc : to[0 : CELLS])
    double *on_device = omp_get_mapped_ptr(from, omp_get_default_device());
#pragma omp target is_device_ptr(on_device) map(alloc : scratch)
    for (int i = 0; i < 256; i++) {
      scratch[i] = 2 * on_device[i];
      to[i] = scratch[i];
    }
#pragma omp target exit data map(from : to[0 : CELLS]) map(release : from[0 : CELLS])
#pragma omp critical
    sum += to[p];
  }
  double *a = in[0], *b = in[1];
#pragma omp parallel
#pragma omp single
  {
#pragma omp target enter data map(to : a[0 : CELLS]) nowait depend(out : a[0])
#pragma omp target enter data map(to : b[0 : CELLS]) nowait depend(out : b[0])
#pragma omp target teams distribute parallel for nowait depend(inout : a[0]) map(alloc : a[0 : CELLS])
    for (int i = 0; i < CELLS; i++)
      a[i] += 1;
#pragma omp target teams distribute parallel for nowait depend(in : a[0]) depend(inout : b[0])                        \
    map(alloc : a[0 : CELLS], b[0 : CELLS])
    for (int i = 0; i < CELLS; i++)
      b[i] += a[i];
#pragma omp target exit data map(from : a[0 : CELLS]) nowait depend(inout : a[0])
#pragma omp target exit data map(from : b[0 : CELLS]) nowait depend(inout : b[0])
#pragma omp taskwait
  }
  printf("%g %g\n", sum, b[5]);
}

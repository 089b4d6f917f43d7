/* Copies between device memory and the host by routines: boxes, deferred copies with dependences, addresses that
 * use_device_ptr gives. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 6, COLUMNS = 10, N = ROWS * COLUMNS };

int main(void) {
  int device = omp_get_default_device(), host = omp_get_initial_device(), right = 1;
  double *a = malloc(N * sizeof *a), *b = malloc(N * sizeof *b), *mapped = malloc(N * sizeof *mapped);
  for (int i = 0; i < N; i++)
    a[i] = i, b[i] = mapped[i] = -1;
  double *block = omp_target_alloc(N * sizeof *block, device);
  const size_t box[2] = {3, 4}, corner[2] = {1, 2}, origin[2] = {0, 0}, whole[2] = {ROWS, COLUMNS}, small[2] = {3, 4};
  /* 3 rows of 4 from row 1, column 2, packed */
  omp_target_memcpy_rect(block, a, sizeof *a, 2, box, origin, corner, small, whole, device, host);
#pragma omp target is_device_ptr(block)
  for (int i = 0; i < 12; i++)
    block[i] *= 2;
  omp_depend_t copied;
#pragma omp depobj(copied) depend(inout : block)
  omp_target_memcpy_rect_async(b, block, sizeof *a, 2, box, corner, origin, whole, small, host, device, 1, &copied);
#pragma omp taskwait depend(depobj : copied)
  omp_target_memset_async(block, 0, 12 * sizeof *block, device, 1, &copied);
  omp_target_memcpy_async(a, block, 12 * sizeof *block, 0, 0, host, device, 1, &copied);
#pragma omp taskwait
#pragma omp depobj(copied) destroy
#pragma omp target data map(tofrom : mapped[0 : N])
#pragma omp target data use_device_ptr(mapped)
  omp_target_memcpy(mapped, b, 4 * COLUMNS * sizeof *b, 2 * COLUMNS * sizeof *b, 0, device, host);
  omp_target_free(block, device);
  for (int i = 0; i < N; i++) {
    int row = i / COLUMNS, column = i % COLUMNS, inside = row >= 1 && row < 4 && column >= 2 && column < 6;
    right &= b[i] == (inside ? 2 * i : -1) && a[i] == (i < 12 ? 0 : i) && mapped[i] == (i < 20 ? -1 : b[i - 20]);
  }
  printf("%s\n", right ? "right" : "wrong");
  free(a), free(b), free(mapped);
}

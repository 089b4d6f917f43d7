/* Kernels that copy in memory of omp_target_alloc, or in mapped arrays. Usage: allocated CASE */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20 };

typedef struct {
  double *values;
} owner_t;

static void copy_mapped(double *from, double *to) {
#pragma omp target teams distribute parallel for map(to : from[0 : N]) map(from : to[0 : N])
  for (int i = 0; i < N; i++)
    to[i] = from[i];
}

static void copy(double *from, double *to) {
#pragma omp target teams distribute parallel for is_device_ptr(from, to)
  for (int i = 0; i < N; i++)
    to[i] = from[i];
}

/* Nothing makes the second one wait for the first. */
static void copy_twice(double *from, double *to) {
#pragma omp target teams distribute parallel for is_device_ptr(from, to) nowait
  for (int i = 0; i < N; i++)
    to[i] = from[i];
#pragma omp target teams distribute parallel for is_device_ptr(from, to) nowait
  for (int i = 0; i < N; i++)
    to[i] = -from[i];
#pragma omp taskwait
}

/* The kernel finds the pointer in memory. */
static void fill(owner_t *owner, double value) {
#pragma omp target teams distribute parallel for map(to : owner[0 : 1])
  for (int i = 0; i < N; i++)
    owner->values[i] = value;
}

int main(int argc, char **argv) {
  int device = omp_get_default_device(), host = omp_get_initial_device(), bytes = N * sizeof(double);
  double *given = malloc(bytes), *result = malloc(bytes);
  for (int i = 0; i < N; i++)
    given[i] = i;
  double *from = omp_target_alloc(bytes, device), *to = omp_target_alloc(bytes, device);
  int number = argc > 1 ? atoi(argv[1]) : 0;
  if (number != 2)
    omp_target_memcpy(from, given, bytes, 0, 0, device, host);
  switch (number) {
  case 0: copy_mapped(given, result); break;
  case 1:
  case 2: copy(from, to); break;
  case 3: copy_twice(from, to); break;
  case 4: fill(&(owner_t){to}, 5.0);
  }
  if (number)
    omp_target_memcpy(result, to, bytes, 0, 0, host, device);
  printf("%g\n", result[5]);
  omp_target_free(from, device);
  omp_target_free(to, device);
  free(given);
  free(result);
}

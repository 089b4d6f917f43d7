// A halo exchange in device memory: the device's copy of the array is what MPI is given.
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, n = argc > 1 ? atoi(argv[1]) : 1 << 14, steps = argc > 2 ? atoi(argv[2]) : 5;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  double *a = malloc((n + 2) * sizeof *a), *b = malloc((n + 2) * sizeof *b), sum = 0, all;
  for (int i = 0; i < n + 2; i++)
    a[i] = rank, b[i] = 0;
#pragma omp target data map(tofrom : a[0 : n + 2]) map(alloc : b[0 : n + 2])
  for (int step = 0; step < steps; step++) {
    MPI_Request requests[4];
#pragma omp target data use_device_addr(a[0 : n + 2])
    {
      MPI_Irecv(&a[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
      MPI_Irecv(&a[n + 1], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[1]);
      MPI_Isend(&a[n], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[2]);
      MPI_Isend(&a[1], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[3]);
    }
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
#pragma omp target teams distribute parallel for
    for (int i = 1; i <= n; i++)
      b[i] = 0.5 * (a[i - 1] + a[i + 1]);
#pragma omp target teams distribute parallel for
    for (int i = 1; i <= n; i++)
      a[i] = b[i];
  }
  for (int i = 1; i <= n; i++)
    sum += a[i];
  MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  double *block = omp_target_alloc(n * sizeof *block, omp_get_default_device()); // memory of the device alone
#pragma omp target teams distribute parallel for is_device_ptr(block)
  for (int i = 0; i < n; i++)
    block[i] = rank;
  MPI_Bcast(block, n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  omp_target_free(block, omp_get_default_device());
  if (!rank)
    printf("%g\n", all);
  MPI_Finalize();
}

// The host's copy is not brought up to date before MPI sends from it, nor the device's after MPI has received into it.
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks, n = 1 << 16;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  double *a = malloc(n * sizeof *a);
  for (int i = 0; i < n; i++)
    a[i] = rank;
  int other = (rank + 1) % ranks, half = n / 2;
#pragma omp target data map(tofrom : a[0 : n])
  {
#pragma omp target teams distribute parallel for
    for (int i = 0; i < n; i++)
      a[i] += 1;
    MPI_Sendrecv(a, half, MPI_DOUBLE, other, 0, a + half, half, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
#pragma omp target teams distribute parallel for
    for (int i = 0; i < n; i++)
      a[i] += 1;
  }
  MPI_Finalize();
}

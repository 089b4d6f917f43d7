// A column of a mapped matrix comes from the rank to the left. With an argument, the device does not get it.
#include <mpi.h>
#include <stdio.h>

enum { ROWS = 16, COLUMNS = 18 };
static double a[ROWS * COLUMNS], sums[ROWS];

int main(int argc, char **argv) {
  int rank, ranks, sizes[] = {ROWS, COLUMNS}, parts[] = {ROWS, 1}, first[] = {0, 0};
  MPI_Datatype column, left;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &column);
  MPI_Type_create_subarray(2, sizes, parts, first, MPI_ORDER_C, MPI_DOUBLE, &left);
  MPI_Type_commit(&column);
  MPI_Type_commit(&left);
#pragma omp target data map(to : a)
  {
    MPI_Sendrecv(a + COLUMNS - 2, 1, column, (rank + 1) % ranks, 0, a, 1, left, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    if (argc == 1)
      for (int i = 0; i < ROWS; i++) {
#pragma omp target update to(a[i * COLUMNS : 1])
      }
#pragma omp target teams distribute parallel for map(from : sums)
    for (int i = 0; i < ROWS; i++)
      sums[i] = a[i * COLUMNS] + a[i * COLUMNS + 1];
  }
  printf("%g\n", sums[0]);
  MPI_Finalize();
}

// Rank 1 has room for half of the message: MPI ends the program.
#include <mpi.h>

int main(int argc, char **argv) {
  int rank, numbers[8] = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    MPI_Send(numbers, 8, MPI_INT, 1, 0, MPI_COMM_WORLD);
  else
    MPI_Recv(numbers, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}

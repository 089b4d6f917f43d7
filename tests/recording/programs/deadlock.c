// Two ranks that wait for one another: the message has another tag than the receive wants.
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, n = 1 << 20;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char *a = malloc(n), *b = malloc(n);
  int other = rank ^ 1;
  if (rank == 0)
    MPI_Recv(b, n, MPI_CHAR, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // the other one sends tag 6
  else
    MPI_Ssend(a, n, MPI_CHAR, other, 6, MPI_COMM_WORLD);
  MPI_Finalize();
}

// Comes to its end with two ranks, though each mistake is there: what is received as another type, by nobody, and what nobody waits for.
#include <mpi.h>

static double a[64], b[64];

int main(int argc, char **argv) {
  int rank, found = 0;
  MPI_Request requests[2];
  MPI_Datatype column;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Type_vector(8, 1, 8, MPI_DOUBLE, &column);
  MPI_Type_commit(&column);
  MPI_Reduce(a, b, 8, MPI_DOUBLE, MPI_SUM, 1, MPI_COMM_WORLD);
  if (rank == 0) {
    MPI_Send(a, 8, MPI_INT, 1, 1, MPI_COMM_WORLD); // received as double
    MPI_Send(a, 8, MPI_DOUBLE, 1, 2, MPI_COMM_WORLD); // as a column of doubles, which is right
    MPI_Isend(a, 8, MPI_DOUBLE, 1, 3, MPI_COMM_WORLD, &requests[0]); // never waited for
    MPI_Send(a, 4, MPI_DOUBLE, 1, 4, MPI_COMM_WORLD); // never received
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(a, 8, MPI_FLOAT, 1, 5, MPI_COMM_WORLD);
  } else {
    MPI_Recv(b, 8, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(b, 1, column, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(b, 8, MPI_DOUBLE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Irecv(b, 8, MPI_FLOAT, 0, 5, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 100000; i++) // a loop that polls, which is one call of the recording
      MPI_Test(&requests[1], &found, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    while (!found)
      MPI_Test(&requests[1], &found, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}

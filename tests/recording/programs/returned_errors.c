// Calls that MPI refuses (MPICH takes one of them), in a program that goes on; then messages that come after all.
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank, x = 1, got = -1, refused = 0;
  MPI_Request request = MPI_REQUEST_NULL, never;
  MPI_Comm half;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  refused += MPI_Send(&x, 1, MPI_INT, 77, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
  refused += MPI_Recv(&x, 1, MPI_INT, 77, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  refused += MPI_Irecv(&x, 1, MPI_INT, 77, 0, MPI_COMM_WORLD, &never) != MPI_SUCCESS;
  refused += MPI_Isend(&x, 1, MPI_INT, rank ^ 1, -5, MPI_COMM_WORLD, &never) != MPI_SUCCESS;
  refused += MPI_Send_init(&x, 1, MPI_INT, 77, 0, MPI_COMM_WORLD, &never) != MPI_SUCCESS;
  refused += MPI_Probe(77, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  refused += MPI_Bcast(&x, 1, MPI_INT, 99, MPI_COMM_WORLD) != MPI_SUCCESS;
  refused += MPI_Comm_split(MPI_COMM_WORLD, -7, 0, &half) != MPI_SUCCESS;
  refused += MPI_Sendrecv(&x, 1, MPI_INT, 55, 0, &x, 1, MPI_INT, 55, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
  MPI_Irecv(&got, 1, MPI_INT, rank ^ 1, 2, MPI_COMM_WORLD, &request);
  MPI_Send(&rank, 1, MPI_INT, rank ^ 1, 2, MPI_COMM_WORLD);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return refused >= 8 && got == (rank ^ 1) ? 0 : 1;
}

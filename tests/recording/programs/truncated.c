// Messages that are longer than the buffers of their receives, in a program that handles the errors and goes on.
#include <mpi.h>
#define LONG INTS, MPI_INT
#define SHORT 4, MPI_INT
static int x[INTS];
int main(int argc, char **argv) {
  int rank, got[4], more[4], errors = 0;
  MPI_Request requests[2], again;
  MPI_Status statuses[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (rank == 0) {
    for (int tag = 1; tag <= 4; tag++)
      MPI_Send(x, LONG, 1, tag, MPI_COMM_WORLD);
    MPI_Send(x, SHORT, 1, 6, MPI_COMM_WORLD);
    MPI_Send(x, LONG, 1, 5, MPI_COMM_WORLD);
    MPI_Sendrecv(x, LONG, 1, 7, got, 0, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    errors += MPI_Recv(got, SHORT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    MPI_Irecv(got, SHORT, 0, 2, MPI_COMM_WORLD, requests);
    errors += MPI_Wait(requests, MPI_STATUS_IGNORE) != MPI_SUCCESS;
    MPI_Irecv(got, SHORT, 0, 3, MPI_COMM_WORLD, requests);
    MPI_Irecv(more, SHORT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, requests + 1);
    errors += MPI_Recv(got, SHORT, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, statuses) != MPI_SUCCESS;
    errors += MPI_Waitall(2, requests, statuses) != MPI_SUCCESS;
    if (requests[1] != MPI_REQUEST_NULL)
      MPI_Wait(requests + 1, statuses);
    MPI_Recv_init(got, SHORT, 0, 5, MPI_COMM_WORLD, &again);
    MPI_Start(&again);
    errors += MPI_Wait(&again, statuses) != MPI_SUCCESS;
    if (again != MPI_REQUEST_NULL) // Open MPI has freed it
      MPI_Request_free(&again);
    errors += MPI_Sendrecv(x, 0, MPI_INT, 0, 7, got, SHORT, 0, 7, MPI_COMM_WORLD, statuses) != MPI_SUCCESS;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return rank && errors != 6;
}

// Buffers of messages that are under way: those that are left alone until a call finds them complete, and those that are not.
#include <mpi.h>
#include <stdlib.h>

enum { N = 512 };
static int other;
static double *a, *b;

static void add(double *x) {
#pragma omp target teams distribute parallel for map(tofrom : x[0 : N])
  for (int i = 0; i < N; i++)
    x[i] += 1;
}

static void begin(MPI_Request requests[2]) {
  MPI_Irecv(b, N, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, &requests[0]); // receives
  MPI_Isend(a, N, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, &requests[1]); // sends
}

static void right(MPI_Request requests[2]) {
  int done = 0, more, places[2];
  double sum = 0;
  begin(requests);
  for (int i = 0; i < N; i++) // others may read what is sent (MPI 3)
    sum += a[i];
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  a[0] = sum + b[0];
  begin(requests);
  while (done < 2) {
    MPI_Testsome(2, requests, &more, places, MPI_STATUSES_IGNORE);
    for (int i = 0; i < more; i++)
      add(places[i] ? a : b);
    done += more > 0 ? more : 0;
  }
  MPI_Iallreduce(MPI_IN_PLACE, a, N, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, requests);
  for (done = 0; !done;)
    MPI_Request_get_status(requests[0], &done, MPI_STATUS_IGNORE);
  add(a);
  MPI_Wait(requests, MPI_STATUS_IGNORE);
  MPI_Recv_init(b, N, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &requests[0]);
  MPI_Send_init(a, N, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, &requests[1]);
  for (int step = 0; step < 2; step++) {
    add(a);
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    add(b);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
}

static void wrong(MPI_Request requests[2]) {
  begin(requests);
  add(a); // writes what is sent
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  begin(requests);
  MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  add(b); // uses what is not there
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
#pragma omp target data map(tofrom : a[0 : N], b[0 : N])
  {
#pragma omp target data use_device_ptr(b)
    MPI_Irecv(b, N, MPI_DOUBLE, other, 2, MPI_COMM_WORLD, requests); // receives in device memory
    MPI_Send(a, N, MPI_DOUBLE, other, 2, MPI_COMM_WORLD);
    add(b); // is beside it
    MPI_Wait(requests, MPI_STATUS_IGNORE);
  }
}

int main(int argc, char **argv) {
  MPI_Request requests[2];
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  other = 1 - rank;
  a = malloc(N * sizeof *a), b = malloc(N * sizeof *b);
  for (int i = 0; i < N; i++)
    a[i] = b[i] = rank;
  (argc > 1 ? wrong : right)(requests);
  MPI_Finalize();
}

// Ranks in a line give a number to both neighbours; those at its ends have one neighbour only. With an argument, they forget MPI_Finalize.
#include <mpi.h>
#include <pthread.h>

static void *meets(void *unused) { // a thread of its own
  MPI_Barrier(MPI_COMM_WORLD);
  return unused;
}

int main(int argc, char **argv) {
  int rank, ranks, provided, given = 1, got[2] = {0, 0};
  MPI_Request requests[4];
  pthread_t thread;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int before = rank ? rank - 1 : MPI_PROC_NULL, behind = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  MPI_Irecv(&got[0], 1, MPI_INT, before, 0, MPI_COMM_WORLD, &requests[0]);
  MPI_Irecv(&got[1], 1, MPI_INT, behind, 1, MPI_COMM_WORLD, &requests[1]);
  MPI_Isend(&given, 1, MPI_INT, behind, 0, MPI_COMM_WORLD, &requests[2]);
  MPI_Isend(&given, 1, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[3]);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  pthread_create(&thread, NULL, meets, NULL);
  pthread_join(thread, NULL);
  if (argc == 1)
    MPI_Finalize();
  return 0;
}

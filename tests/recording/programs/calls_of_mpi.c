// Makes each kind of call of MPI once, and writes to FILE.RANK what it called, on which line, and the bytes that it gave and got.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *said;
static int rank, ranks;

#define SAY(name, sent, got) fprintf(said, "%s %d %ld %ld\n", name, line, (long)(sent), (long)(got))
#define CALL(name, arguments, sent, got) \
  do { int line = __LINE__; MPI_##name arguments; SAY("MPI_" #name, sent, got); } while (0)

enum { N = 100 };
static double a[N * 64], b[N * 64];

int main(int argc, char **argv) {
  int level, line = __LINE__ + 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm w = MPI_COMM_WORLD;
  MPI_Comm_rank(w, &rank);
  MPI_Comm_size(w, &ranks);
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", argv[1], rank);
  said = fopen(name, "w");
  SAY("MPI_Init_thread", 0, 0);
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks, even = rank % 2 == 0, other = rank ^ 1;
  MPI_Status status;
  MPI_Request request, requests[8];
  MPI_Message message;
  int flag, place, count, places[8];

  // blocking messages, between pairs
  if (even) {
    CALL(Send, (a, N, MPI_DOUBLE, other, 1, w), 8 * N, 0);
    CALL(Ssend, (a, N, MPI_INT, other, 2, w), 4 * N, 0);
    static char space[1 << 16];
    MPI_Buffer_attach(space, sizeof space);
    CALL(Bsend, (a, N, MPI_BYTE, other, 3, w), N, 0);
    void *given;
    int bytes;
    MPI_Buffer_detach(&given, &bytes);
    CALL(Recv, (b, 1, MPI_INT, other, 4, w, MPI_STATUS_IGNORE), 0, 4);
    CALL(Rsend, (a, N, MPI_FLOAT, other, 5, w), 4 * N, 0);
  } else {
    CALL(Recv, (b, 2 * N, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, w, &status), 0, 8 * N);
    CALL(Recv, (b, N, MPI_INT, other, 2, w, MPI_STATUS_IGNORE), 0, 4 * N);
    CALL(Recv, (b, N, MPI_BYTE, other, 3, w, &status), 0, N);
    CALL(Irecv, (b, N, MPI_FLOAT, other, 5, w, &request), 0, 0);
    CALL(Send, (a, 1, MPI_INT, other, 4, w), 4, 0);
    CALL(Wait, (&request, MPI_STATUS_IGNORE), 0, 4 * N);
  }
  CALL(Sendrecv, (a, N, MPI_DOUBLE, next, 6, b, N, MPI_DOUBLE, last, 6, w, &status), 8 * N, 8 * N);
  CALL(Sendrecv_replace, (a, N, MPI_DOUBLE, next, 7, last, 7, w, MPI_STATUS_IGNORE), 8 * N, 8 * N);
  CALL(Send, (a, N, MPI_DOUBLE, MPI_PROC_NULL, 8, w), 8 * N, 0);
  CALL(Recv, (b, N, MPI_DOUBLE, MPI_PROC_NULL, 8, w, &status), 0, 0);

  // messages that do not block, and all ways to wait for them
#define BOTH(SEND) \
  CALL(Irecv, (b, N, MPI_DOUBLE, MPI_ANY_SOURCE, 9, w, &requests[0]), 0, 0); \
  CALL(SEND, (a, N, MPI_DOUBLE, next, 9, w, &requests[1]), 8 * N, 0)
  BOTH(Isend);
  CALL(Waitall, (2, requests, MPI_STATUSES_IGNORE), 0, 8 * N);
  BOTH(Issend);
  CALL(Waitall, (2, requests, (MPI_Status[2]){0}), 0, 8 * N);
  MPI_Barrier(w), line = __LINE__, SAY("MPI_Barrier", 0, 0);
  CALL(Irecv, (b, N, MPI_DOUBLE, last, 10, w, &requests[0]), 0, 0);
  CALL(Barrier, (w), 0, 0);
  CALL(Irsend, (a, N, MPI_DOUBLE, next, 10, w, &requests[1]), 8 * N, 0);
  CALL(Wait, (&requests[0], &status), 0, 8 * N);
  CALL(Wait, (&requests[1], &status), 0, 0);
  CALL(Irecv, (b, N, MPI_DOUBLE, last, 11, w, &requests[0]), 0, 0);
  CALL(Isend, (a, N, MPI_DOUBLE, next, 11, w, &requests[1]), 8 * N, 0);
  for (int i = 0, done = 0; i < 2; i++) {
    line = __LINE__ + 1;
    MPI_Waitany(2, requests, &place, &status);
    SAY("MPI_Waitany", 0, place == 0 ? 8 * N : 0);
    done += place;
  }
  CALL(Irecv, (b, N, MPI_DOUBLE, last, 12, w, &requests[0]), 0, 0);
  CALL(Isend, (a, N, MPI_DOUBLE, next, 12, w, &requests[1]), 8 * N, 0);
  for (int done = 0; done < 2; done += count) {
    line = __LINE__ + 1;
    MPI_Waitsome(2, requests, &count, places, MPI_STATUSES_IGNORE);
    long got = 0;
    for (int i = 0; i < count; i++)
      got += places[i] == 0 ? 8 * N : 0;
    SAY("MPI_Waitsome", 0, got);
  }
  CALL(Irecv, (b, N, MPI_DOUBLE, last, 13, w, &requests[0]), 0, 0);
  CALL(Isend, (a, N, MPI_DOUBLE, next, 13, w, &requests[1]), 8 * N, 0);
  do {
    line = __LINE__ + 1;
    MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
    SAY("MPI_Testall", 0, flag ? 8 * N : 0);
  } while (!flag);
  CALL(Irecv, (b, N, MPI_DOUBLE, last, 14, w, &requests[0]), 0, 0);
  CALL(Isend, (a, N, MPI_DOUBLE, next, 14, w, &requests[1]), 8 * N, 0);
  for (int done = 0; done < 2;) {
    line = __LINE__ + 1;
    MPI_Testany(2, requests, &place, &flag, &status);
    SAY("MPI_Testany", 0, flag && place == 0 ? 8 * N : 0);
    done += flag;
  }
  CALL(Irecv, (b, N, MPI_DOUBLE, last, 15, w, &requests[0]), 0, 0);
  CALL(Isend, (a, N, MPI_DOUBLE, next, 15, w, &requests[1]), 8 * N, 0);
  for (int done = 0; done < 2; done += count) {
    line = __LINE__ + 1;
    MPI_Testsome(2, requests, &count, places, MPI_STATUSES_IGNORE);
    long got = 0;
    for (int i = 0; i < count; i++)
      got += places[i] == 0 ? 8 * N : 0;
    SAY("MPI_Testsome", 0, got);
  }
  CALL(Irecv, (b, N, MPI_DOUBLE, last, 16, w, &requests[0]), 0, 0);
  CALL(Send, (a, N, MPI_DOUBLE, next, 16, w), 8 * N, 0);
  do {
    line = __LINE__ + 1;
    MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
    SAY("MPI_Test", 0, flag ? 8 * N : 0);
  } while (!flag);
  CALL(Isend, (a, 1, MPI_DOUBLE, next, 17, w, &request), 8, 0);
  CALL(Request_free, (&request), 0, 0);
  CALL(Recv, (b, 1, MPI_DOUBLE, last, 17, w, MPI_STATUS_IGNORE), 0, 8);
  CALL(Irecv, (b, 1, MPI_DOUBLE, last, 18, w, &request), 0, 0);
  CALL(Cancel, (&request), 0, 0);
  CALL(Wait, (&request, MPI_STATUS_IGNORE), 0, 0);

  // persistent ones, three times
  CALL(Send_init, (a, N, MPI_DOUBLE, next, 20, w, &requests[0]), 0, 0);
  CALL(Recv_init, (b, N, MPI_DOUBLE, last, 20, w, &requests[1]), 0, 0);
  for (int i = 0; i < 3; i++) {
    if (i)
      CALL(Startall, (2, requests), 8 * N, 0);
    else {
      CALL(Start, (&requests[0]), 8 * N, 0);
      CALL(Start, (&requests[1]), 0, 0);
    }
    CALL(Waitall, (2, requests, MPI_STATUSES_IGNORE), 0, 8 * N);
  }
  CALL(Request_free, (&requests[0]), 0, 0);
  CALL(Request_free, (&requests[1]), 0, 0);

  // probes
  if (even)
    for (int i = 0; i < 4; i++)
      CALL(Send, (a, N - i, MPI_DOUBLE, other, 21, w), 8 * (N - i), 0);
  else {
    CALL(Probe, (MPI_ANY_SOURCE, 21, w, &status), 0, 8 * N);
    CALL(Recv, (b, N, MPI_DOUBLE, status.MPI_SOURCE, 21, w, MPI_STATUS_IGNORE), 0, 8 * N);
    do {
      line = __LINE__ + 1;
      MPI_Iprobe(other, MPI_ANY_TAG, w, &flag, MPI_STATUS_IGNORE);
      SAY("MPI_Iprobe", 0, flag ? 8 * (N - 1) : 0);
    } while (!flag);
    CALL(Recv, (b, N, MPI_DOUBLE, other, 21, w, MPI_STATUS_IGNORE), 0, 8 * (N - 1));
    CALL(Mprobe, (other, 21, w, &message, &status), 0, 8 * (N - 2));
    CALL(Mrecv, (b, N, MPI_DOUBLE, &message, MPI_STATUS_IGNORE), 0, 8 * (N - 2));
    do {
      line = __LINE__ + 1;
      MPI_Improbe(other, 21, w, &flag, &message, &status);
      SAY("MPI_Improbe", 0, flag ? 8 * (N - 3) : 0);
    } while (!flag);
    CALL(Imrecv, (b, N, MPI_DOUBLE, &message, &request), 0, 0);
    CALL(Wait, (&request, &status), 0, 8 * (N - 3));
  }

  // datatypes: a column, a pair with a gap, a block of a matrix
  MPI_Datatype column, block, pair;
  MPI_Type_vector(10, 1, 10, MPI_DOUBLE, &column);
  MPI_Type_create_subarray(2, (int[]){10, 10}, (int[]){4, 5}, (int[]){1, 2}, MPI_ORDER_C, MPI_DOUBLE, &block);
  MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 8}, (MPI_Datatype[]){MPI_INT, MPI_DOUBLE}, &pair);
  MPI_Type_commit(&column), MPI_Type_commit(&block), MPI_Type_commit(&pair);
  CALL(Sendrecv, (a, 1, column, next, 22, b, 10, MPI_DOUBLE, last, 22, w, MPI_STATUS_IGNORE), 80, 80);
  CALL(Sendrecv, (a, 1, block, next, 23, b, 20, MPI_DOUBLE, last, 23, w, MPI_STATUS_IGNORE), 160, 160);
  CALL(Sendrecv, (a, 3, pair, next, 24, b, 3, pair, last, 24, w, MPI_STATUS_IGNORE), 36, 36);

  // collective ones
  int counts[64], displacements[64], all = 0;
  for (int i = 0; i < ranks; i++)
    counts[i] = i + 1, displacements[i] = all, all += i + 1;
  long mine = rank + 1, root = rank == 0;
#define IN(...) (__VA_ARGS__)
#define LATER(...) (__VA_ARGS__, &request)
#define COLLECTIVE(NAME, NOT_WAITING, SENT, GOT, ...) \
  CALL(NAME, IN(__VA_ARGS__), SENT, GOT); \
  CALL(NOT_WAITING, LATER(__VA_ARGS__), SENT, GOT); \
  CALL(Wait, (&request, MPI_STATUS_IGNORE), 0, 0)
  COLLECTIVE(Barrier, Ibarrier, 0, 0, w);
  COLLECTIVE(Bcast, Ibcast, root ? 8 * N : 0, root ? 0 : 8 * N, a, N, MPI_DOUBLE, 0, w);
  COLLECTIVE(Gather, Igather, 8, root ? 8 * ranks : 0, a, 1, MPI_DOUBLE, b, 1, MPI_DOUBLE, 0, w);
  COLLECTIVE(Gatherv, Igatherv, 8 * mine, root ? 8 * all : 0, a, mine, MPI_DOUBLE, b, counts, displacements, MPI_DOUBLE, 0, w);
  COLLECTIVE(Scatter, Iscatter, root ? 8 * ranks : 0, 8, a, 1, MPI_DOUBLE, b, 1, MPI_DOUBLE, 0, w);
  COLLECTIVE(Scatterv, Iscatterv, root ? 8 * all : 0, 8 * mine, a, counts, displacements, MPI_DOUBLE, b, mine, MPI_DOUBLE, 0, w);
  COLLECTIVE(Allgather, Iallgather, 8, 8 * ranks, a, 1, MPI_DOUBLE, b, 1, MPI_DOUBLE, w);
  COLLECTIVE(Allgatherv, Iallgatherv, 8 * mine, 8 * all, a, mine, MPI_DOUBLE, b, counts, displacements, MPI_DOUBLE, w);
  COLLECTIVE(Alltoall, Ialltoall, 8 * ranks, 8 * ranks, a, 1, MPI_DOUBLE, b, 1, MPI_DOUBLE, w);
  int from[64], after[64];
  for (int i = 0; i < ranks; i++)
    from[i] = mine, after[i] = i * mine;
  COLLECTIVE(Alltoallv, Ialltoallv, 8 * all, 8 * mine * ranks, a, counts, displacements, MPI_DOUBLE, b, from, after, MPI_DOUBLE, w);
  MPI_Datatype types[64];
  int bytes[64];
  for (int i = 0; i < ranks; i++)
    types[i] = MPI_DOUBLE, counts[i] = 1, bytes[i] = 8 * i;
  COLLECTIVE(Alltoallw, Ialltoallw, 8 * ranks, 8 * ranks, a, counts, bytes, types, b, counts, bytes, types, w);
  COLLECTIVE(Reduce, Ireduce, 8 * N, root ? 8 * N : 0, a, b, N, MPI_DOUBLE, MPI_SUM, 0, w);
  COLLECTIVE(Allreduce, Iallreduce, 8 * N, 8 * N, a, b, N, MPI_DOUBLE, MPI_SUM, w);
  COLLECTIVE(Allreduce, Iallreduce, 8 * N, 8 * N, MPI_IN_PLACE, b, N, MPI_DOUBLE, MPI_MAX, w);
  COLLECTIVE(Reduce_scatter, Ireduce_scatter, 8 * ranks, 8, a, b, counts, MPI_DOUBLE, MPI_SUM, w);
  COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, 8 * ranks, 8, a, b, 1, MPI_DOUBLE, MPI_SUM, w);
  COLLECTIVE(Scan, Iscan, 8 * N, 8 * N, a, b, N, MPI_DOUBLE, MPI_SUM, w);
  COLLECTIVE(Exscan, Iexscan, 8 * N, 8 * N, a, b, N, MPI_DOUBLE, MPI_SUM, w);

  // communicators
  MPI_Comm twin, half, grid, line_of_grid, first, later, few;
  MPI_Group group, part;
  CALL(Comm_dup, (w, &twin), 0, 0);
  CALL(Comm_split, (twin, rank % 2, -rank, &half), 0, 0);
  CALL(Allreduce, (a, b, 1, MPI_DOUBLE, MPI_SUM, half), 8, 8);
  CALL(Comm_free, (&twin), 0, 0);
  MPI_Comm_group(w, &group);
  MPI_Group_incl(group, 1, (int[]){0}, &part);
  CALL(Comm_create, (w, part, &first), 0, 0);
  if (rank == 0)
    CALL(Comm_create_group, (w, part, 5, &few), 0, 0);
  CALL(Comm_idup, (w, &later, &request), 0, 0);
  CALL(Wait, (&request, MPI_STATUS_IGNORE), 0, 0);
  CALL(Sendrecv, (a, 1, MPI_INT, next, 1, b, 1, MPI_INT, last, 1, later, MPI_STATUS_IGNORE), 4, 4);
  CALL(Cart_create, (w, 1, &ranks, (int[]){1}, 0, &grid), 0, 0);
  CALL(Cart_sub, (grid, (int[]){1}, &line_of_grid), 0, 0);
  COLLECTIVE(Neighbor_allgather, Ineighbor_allgather, 16, 16, a, 1, MPI_DOUBLE, b, 1, MPI_DOUBLE, grid);
  COLLECTIVE(Neighbor_alltoall, Ineighbor_alltoall, 16, 16, a, 1, MPI_DOUBLE, b, 1, MPI_DOUBLE, grid);
  CALL(Barrier, (line_of_grid), 0, 0);

  fclose(said);
  MPI_Finalize();
}

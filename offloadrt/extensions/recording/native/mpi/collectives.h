/* What collective calls ask of their communicator. */
#pragma once
#include "calls.h"

typedef struct {
  const int *in, *out; /* ranks of the communicator; of this thread, until it is asked again */
  int in_count, out_count;
} neighbours_t;

int ranks_of(MPI_Comm);  /* of the other group, where there are two */
int rank_of(MPI_Comm);
bool is_root(int root, MPI_Comm); /* whether what only the root gives is this process's */
int64_t extent_of(MPI_Datatype);
neighbours_t neighbours_of(MPI_Comm);

#define PUT_EACH(KIND, BUFFER, COUNTS, PLACES, TYPE, NUMBER)                                                                   \
  for (int at = 0, end = NUMBER; at < end; at++)                                                                               \
  put_buffer(KIND, comm, at, (const char *)BUFFER + (int64_t)PLACES[at] * extent_of(TYPE), COUNTS[at], TYPE)

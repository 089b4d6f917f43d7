/* What the recorder and the library that interposes MPI tell each other, and what format/ranks.py reads of it.
 *
 * A call of MPI is a list of parts when it is made, and another one of what came of it when it returns. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum part_kind {
  PART_SEND = 1, /* to `peer` of `communicator`; blocking without a `request` */
  PART_RECEIVE,
  PART_PROBE,
  PART_MATCHED,    /* what a receive or a probe has found: `peer`, `tag`, `bytes` */
  PART_AWAITED,    /* a request that is waited for or tested */
  PART_COMPLETED,  /* one that is complete, with what was received */
  PART_COLLECTIVE, /* `peer`: the root, or -1 */
  PART_GIVES,      /* what it brings to a collective call, for `peer` or (-1) all */
  PART_TAKES,
  PART_MAKES, /* `communicator` is a new one; -1: this process is not in it */
  PART_FREES, /* `communicator` ends */
  PART_DROPS, /* MPI_Request_free */
  PART_CANCELS,
  PART_PREPARES, /* a persistent request is made */
  PART_OPAQUE,   /* of a call that is known by name only */
  PART_REFUSED   /* the call returned an error, and did nothing */
};

enum part_flag {
  PART_STRIDED = 1, /* `bytes` lie in `blocks`, with gaps */
  PART_SYNCHRONOUS = 2,
  PART_BUFFERED = 4,
  PART_READY = 8,
  PART_PERSISTENT = 16,
  PART_ANY_SOURCE = 32,
  PART_ANY_TAG = 64,
  PART_IN_PLACE = 128,
  PART_CANCELLED = 256,
  PART_EVEN = 1 << 15, /* its blocks have one length, and gaps of one length between them */
  PART_ELEMENTS = 9 /* from this bit on: the kind of the elements (0: not known, 1: integers, 2: floating-point numbers, 3: complex
                     * ones, 4: truth values), and from the third one after it the binary logarithm of their bytes; three bits each */
};

enum { NOBODY = -2 /* MPI_PROC_NULL */, EVERYBODY = -1, NO_REQUEST = -1 };

typedef struct {
  uint32_t kind, flags;
  int32_t communicator, peer;
  int64_t tag, request;
  uint64_t bytes, address, span; /* of the host or of a device: from the first byte to the last one */
  uint64_t blocks; /* pieces without gaps */
} part_t;

/* Written by the recorder (recorder/ranks.c). `caller` is an address of the program's code. */
bool offload_recorder_mpi_begin(const char *name, const void *caller, const part_t *, uint32_t count);
void offload_recorder_mpi_end(const part_t *, uint32_t count);
void offload_recorder_mpi_world(const char *library, int rank, int ranks, int level);
void offload_recorder_mpi_communicator(int number, const char *key, const int *ranks, int count, const int *remote, int remotes);

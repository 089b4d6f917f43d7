/* The raw format of a recording: what the recorder writes and offloadrt/recording/format reads.
 *
 * Each thread has a file of its own, an array of 64 byte slots, so that the hot path takes no lock and a reader needs
 * no parser. A slot's word 0 holds its kind and is written last: a slot that a crash left half written reads as kind 0.
 */
#pragma once
#include <stdint.h>

#define RAW_VERSION 1

typedef struct {
  uint64_t head; /* bits 0-7 kind, 16-31 `a`, 32-63 `b` */
  uint64_t word[7];
} slot_t;

enum slot_kind {
  SLOT_UNUSED,
  SLOT_THREAD,
  SLOT_CALL,
  SLOT_KERNEL,
  SLOT_ITEM,
  SLOT_ARG,
  SLOT_RET,
  SLOT_OUT,
  SLOT_OP,
  SLOT_SUBMIT,
  SLOT_LAUNCH,
  SLOT_COUNTS,
  SLOT_WARP,
  SLOT_ARRAY,
  SLOT_PAGES,
  SLOT_SECTORS,
  SLOT_PARALLEL_BEGIN,
  SLOT_PARALLEL_END,
  SLOT_IMPLICIT,
  SLOT_SYNC,
  SLOT_TASK_CREATE,
  SLOT_TASK_SCHEDULE,
  SLOT_DEPENDENCE,
  SLOT_MUTEX,
  SLOT_ALLOC,
  SLOT_FREE,
  SLOT_TOUCH,
  SLOT_DIMENSION,
  SLOT_RACE,
  SLOT_STRAY,
  SLOT_RANGES,
  SLOT_MPI, /* a call of MPI begins: its parts follow (ranks.h) */
  SLOT_MPI_END,
  SLOT_MPI_PART,
  SLOT_PHASE /* a range of the program's own begins or ends (phases.h) */
};

/* `a` of SLOT_CALL and SLOT_RET: the entry point of the runtime that was called. */
enum function {
  CALL_DATA_BEGIN = 1,
  CALL_DATA_END,
  CALL_DATA_UPDATE,
  CALL_DATA_BEGIN_NOWAIT,
  CALL_DATA_END_NOWAIT,
  CALL_DATA_UPDATE_NOWAIT,
  CALL_KERNEL,
  CALL_KERNEL_NOWAIT,
  CALL_MAPPER_COMPONENT,
  CALL_TARGET_ALLOC = 20,
  CALL_TARGET_FREE,
  CALL_IS_PRESENT,
  CALL_IS_ACCESSIBLE,
  CALL_MAPPED_PTR,
  CALL_ASSOCIATE,
  CALL_DISASSOCIATE,
  CALL_MEMCPY,
  CALL_MEMCPY_ASYNC,
  CALL_MEMSET,
  CALL_MEMCPY_RECT,
  CALL_MEMCPY_RECT_ASYNC,
  CALL_MEMSET_ASYNC,
  CALL_ALGORITHM = 60, /* of C++'s standard library; its kernels are calls inside of it */
  CALL_STOP            /* where the barrier of the algorithms before stays */
};

enum { LOADS = 1, STORES = 2, ATOMIC = 4, EXACT = 4 /* of SLOT_TOUCH: each byte */, SYNC = 8 /* atomic or volatile: threads may wait for one another by it */, COPIES = 16 /* of a load: a copy of a whole object */, TEXT = 32 /* of a range: as far as a byte of 0 */ };

enum { TRACKED = 4, EACH_BYTE = 8 /* each byte of the page is told apart */ }; /* of the byte of a page in the recorder's table, beside LOADS and STORES */

enum { ATOMIC_RANGE = 3 /* of SLOT_RANGES, beside LOADS and STORES: all accesses were atomic or volatile */, COPIED_RANGE = 4 /* all loads were of copies of whole objects, which have bytes that belong to no member */ };

enum { OWN_THREAD = 64 /* of SLOT_TOUCH: by a task that has asked which thread runs it, or has used a variable of that thread's own */, ATOMICALLY = 16 /* of SLOT_TOUCH: by accesses that are atomic or volatile */, MAYBE = 8 /* of SLOT_TOUCH: code that nobody watches has the address, and may store there; with LOADS: may load, now or later; with STORES: the program has just been given the block, and nobody has stored there */ };

enum { BRINGS_KNOWN = 1, BRINGS_NOTHING = 2 /* its place had the same bytes before */ }; /* `b` of SLOT_OP, of a copy whose word 0 is a digest of what it brings */

enum ending { FREES, MOVES /* realloc: what follows says whether the block has moved */, UNMAPS /* munmap */, LEAVES /* the scope of a variable of the stack */ }; /* `a` of SLOT_FREE */

enum stop { STOP_ACCESS = 1, STOP_CALL, STOP_EXIT, STOP_MEMORY /* malloc or free */ }; /* the argument of CALL_STOP */

enum { SCRATCH = 5 /* `a` of SLOT_ALLOC: memory of an algorithm's own */, LATE = 6 /* of a small block that was allocated before: a directive maps it */ };

enum stray { STRAY_AFTER = 1 /* an array's end */, STRAY_BEFORE, STRAY_HOST, STRAY_CRASH, STRAY_STACK, STRAY_FREED /* of the device, since */, STRAY_LOST /* a copy of the kernel's own, of which nobody uses what it gets */, STRAY_UNSET /* a variable of the thread's own, which nobody has written */ };

enum flag { FLAG_RELEASES = 1, FLAG_ACQUIRES, FLAG_WEAK = 4 /* only where the thread has a flush before, or behind */, FLAG_MUTEX = 8 /* of POSIX or C */, FLAG_WRITER = 16 /* of a lock of readers and writers: to write, or the end of either */, FLAG_FILE = 32 /* a message through a pipe, a socket or the like: the address is the file's number */, FLAG_OWN = 64 /* no order: the code depends on which thread runs it */, FLAG_ASKS = 128 /* no order: it is about to lock a mutex, and may wait */ }; /* of an atomic access of the host's */

enum { MUTEX_FLAG = 8, MUTEX_POSIX }; /* `b` of SLOT_MUTEX, beside OMPT's kinds: an atomic variable, or the like; word 4: how often it was released until then */
#define MUTEX_BEGIN (UINT64_C(1) << 62) /* in word 1, where no address has a bit: by this flag a thread of the program's own begins */

/* Atomic variables by which threads of the host order what they do: who has released one, and who acquires that.
 *
 * A release is written before the access, and an acquisition behind it, so that of two that belong together the release comes first. An
 * acquisition says how many releases there had been; one that brings nothing new is not written, as in a loop that waits. */
#include "recorder.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FLAGS = 4096, SEEN = 8, MOST = 1 << 18 /* slots of a thread: a program may count by atomics all day */ };

static _Atomic uint64_t addresses[FLAGS];
static atomic_uint releases[FLAGS];
static atomic_uint parties[FLAGS], former[FLAGS]; /* of a barrier: how many meet there, and its releases before it was made */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static __thread uint32_t *acquired; /* by flag: the releases that the thread knows of */
static __thread uint32_t written;
static __thread bool flushed;           /* a flush came before */
static __thread uint64_t seen[SEEN];    /* addresses that were loaded, and no flush has come since */
static __thread uint32_t seen_count;
static __thread uint32_t meeting; /* the releases of a barrier when all have come for whom the thread waits there */

static int flag_of(uint64_t address, bool add) {
  uint32_t at = (uint32_t)(address * 0x9e3779b97f4a7c15u >> 52);
  for (int tried = 0; tried < FLAGS; tried++, at = (at + 1) % FLAGS) {
    uint64_t there = atomic_load(&addresses[at]);
    if (there == address)
      return (int)at;
    if (!there && (!add || atomic_compare_exchange_strong(&addresses[at], &there, address) || there == address))
      return add ? (int)at : -1;
  }
  return -1;
}

/* Says once in the recording that some orders are not in it. */
static void leave_out(void) {
  static atomic_bool said;
  if (atomic_exchange(&said, true))
    return;
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  line_begin("orders_left_out");
  line_end();
  this_thread()->inside = was_inside;
}

static void released(uint64_t address) {
  int flag = flag_of(address, true);
  if (flag < 0 || written == MOST) {
    leave_out();
    return;
  }
  pthread_mutex_lock(&mutex);
  uint32_t before = atomic_fetch_add(&releases[flag], 1), all = atomic_load(&parties[flag]);
  put_flag(address, true, before + 1);
  pthread_mutex_unlock(&mutex);
  if (all)
    meeting = before - (before - atomic_load(&former[flag])) % all + all;
  written++;
}

/* Who goes on from a barrier comes behind those who met there, and not behind one that has come again meanwhile. */
EXPORT int pthread_barrier_init(pthread_barrier_t *, const pthread_barrierattr_t *, unsigned);
EXPORT int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attributes, unsigned count) {
  REAL(pthread_barrier_init);
  int flag = tracks_bytes() && recording() ? flag_of((uint64_t)barrier, true) : -1;
  if (flag >= 0) {
    atomic_store(&former[flag], atomic_load(&releases[flag]));
    atomic_store(&parties[flag], count);
  }
  return real(barrier, attributes, count);
}

static void acquire(uint64_t address) {
  int flag = flag_of(address, false);
  uint32_t count = flag < 0 ? 0 : atomic_load(&releases[flag]);
  if (!count)
    return;
  if (atomic_load(&parties[flag]) && meeting < count)
    count = meeting;
  if (written == MOST) {
    leave_out();
    return;
  }
  if (!acquired) {
    bool was_inside = this_thread()->inside;
    this_thread()->inside = true;
    acquired = calloc(FLAGS, sizeof *acquired);
    this_thread()->inside = was_inside;
  }
  if (acquired[flag] == count)
    return;
  acquired[flag] = count;
  put_flag(address, false, count);
  written++;
}

static void flush(void) {
  flushed = true;
  for (uint32_t i = 0; i < SEEN && i < seen_count; i++)
    acquire(seen[i]);
  seen_count = 0;
}

/* A lock of readers and writers: two flags, as a reader comes behind writers only. */
static void shared(uint64_t lock, bool is_end) {
  enum { WRITING = 8 };
  static __thread uint64_t writing[WRITING];
  uint64_t *own = &writing[lock / 64 % WRITING];
  if (is_end) {
    released(*own == lock ? lock : lock + 1);
    *own = *own == lock ? 0 : *own;
    return;
  }
  *own = lock;
  acquire(lock);
  acquire(lock + 1);
}

/* Messages between threads are one flag: which end belongs to which is not looked for. A file of data or a terminal carries none. */
static void message(int file, bool is_sent) {
  enum { MESSAGES = 2048 /* where no variable lies, and behind `flag_of_iteration` */ };
  struct stat is;
  if (fstat(file, &is) || S_ISREG(is.st_mode) || S_ISCHR(is.st_mode) || S_ISDIR(is.st_mode))
    return;
  if (is_sent)
    released(MESSAGES);
  else
    acquire(MESSAGES);
}

/* Where a mutex is free nobody waits; and a lock that looks for deadlocks itself returns. */
static void asks(const pthread_mutex_t *lock, const void *code) {
  bool returns = (lock->__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK;
  if (__atomic_load_n(&lock->__data.__lock, __ATOMIC_RELAXED) && !returns)
    put_asked((uint64_t)lock, code);
}

/* Called by instrumented code around an atomic access or what a mutex is locked by, or with no address at a fence. */
EXPORT void offload_recorder_flag(uint64_t address, uint32_t what) {
  if (!tracks_bytes() || !recording())
    return;
  if (what & FLAG_ASKS)
    asks((const pthread_mutex_t *)address, __builtin_return_address(0));
  else if (what & FLAG_OWN)
    task_asks();
  else if (what & FLAG_FILE)
    message((int)address, what & FLAG_RELEASES);
  else if (!address)
    flush();
  else if (what & FLAG_MUTEX)
    put_posix_mutex(address, what & FLAG_RELEASES);
  else if (what & FLAG_WRITER)
    shared(address, what & FLAG_RELEASES);
  else if (what & FLAG_RELEASES) {
    if (!(what & FLAG_WEAK) || flushed)
      released(address);
  } else if (!(what & FLAG_WEAK))
    acquire(address);
  else if (!seen_count || seen[(seen_count - 1) % SEEN] != address)
    seen[seen_count++ % SEEN] = address;
}

EXPORT void __kmpc_flush(void *);
EXPORT void __kmpc_flush(void *place) {
  REAL(__kmpc_flush);
  real(place);
  if (tracks_bytes() && recording())
    flush();
}

/* ---- reductions: the threads of a region combine what they have one after the other, where the runtime takes a lock for that ---- */
typedef void combine_t(void *, void *);

static int32_t combines(int32_t method, const void *lock) {
  if (method == 1 && tracks_bytes() && recording())
    acquire((uintptr_t)lock);
  return method;
}

static void combined(const void *lock) {
  if (tracks_bytes() && recording())
    released((uintptr_t)lock);
}

EXPORT int32_t __kmpc_reduce(void *, int32_t, int32_t, size_t, void *, combine_t *, void *);
EXPORT int32_t __kmpc_reduce(void *place, int32_t thread, int32_t count, size_t bytes, void *data, combine_t *combine, void *lock) {
  REAL(__kmpc_reduce);
  return combines(real(place, thread, count, bytes, data, combine, lock), lock);
}

EXPORT int32_t __kmpc_reduce_nowait(void *, int32_t, int32_t, size_t, void *, combine_t *, void *);
EXPORT int32_t __kmpc_reduce_nowait(void *place, int32_t thread, int32_t count, size_t bytes, void *data, combine_t *combine, void *lock) {
  REAL(__kmpc_reduce_nowait);
  return combines(real(place, thread, count, bytes, data, combine, lock), lock);
}

EXPORT void __kmpc_end_reduce(void *, int32_t, void *);
EXPORT void __kmpc_end_reduce(void *place, int32_t thread, void *lock) {
  REAL(__kmpc_end_reduce);
  combined(lock);
  real(place, thread, lock);
}

EXPORT void __kmpc_end_reduce_nowait(void *, int32_t, void *);
EXPORT void __kmpc_end_reduce_nowait(void *place, int32_t thread, void *lock) {
  REAL(__kmpc_end_reduce_nowait);
  combined(lock);
  real(place, thread, lock);
}

/* ---- `ordered` with dependences: each iteration is a flag, of which some may have one together ---- */
enum { ITERATIONS = 1024 };
static __thread int32_t dimensions;

static uint64_t flag_of_iteration(const int64_t *iteration) {
  uint64_t mixed = 0;
  for (int32_t i = 0; i < dimensions; i++)
    mixed = (mixed ^ (uint64_t)iteration[i]) * 0x9e3779b97f4a7c15u;
  return 1 + (mixed >> 54) % ITERATIONS; /* where no variable lies */
}

EXPORT void __kmpc_doacross_init(void *, int32_t, int32_t, const void *);
EXPORT void __kmpc_doacross_init(void *place, int32_t thread, int32_t count, const void *bounds) {
  REAL(__kmpc_doacross_init);
  dimensions = count;
  real(place, thread, count, bounds);
}

EXPORT void __kmpc_doacross_post(void *, int32_t, const int64_t *);
EXPORT void __kmpc_doacross_post(void *place, int32_t thread, const int64_t *iteration) {
  REAL(__kmpc_doacross_post);
  if (tracks_bytes() && recording())
    released(flag_of_iteration(iteration));
  real(place, thread, iteration);
}

EXPORT void __kmpc_doacross_wait(void *, int32_t, const int64_t *);
EXPORT void __kmpc_doacross_wait(void *place, int32_t thread, const int64_t *iteration) {
  REAL(__kmpc_doacross_wait);
  real(place, thread, iteration);
  if (tracks_bytes() && recording())
    acquire(flag_of_iteration(iteration));
}

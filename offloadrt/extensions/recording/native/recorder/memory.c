/* The host's allocations: which arrays the program has, before it maps them. malloc and its family, interposed.
 *
 * The real functions are glibc's own names and not dlsym's answer, for dlsym itself allocates. */
#include "recorder.h"
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { MALLOC = 1, CALLOC, REALLOC, ALIGNED };

static bool shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static host_block_t *live; /* a hash table of allocations; bytes 0: unused, or freed */
static size_t live_room, live_used;

static host_block_t *place_of(uint64_t begin) {
  size_t at = (begin * 0x9e3779b97f4a7c15u >> 32) & (live_room - 1);
  while (live[at].begin && live[at].begin != begin)
    at = (at + 1) & (live_room - 1);
  return &live[at];
}

/* Called inside the recorder. */
static void keep(uint64_t begin, uint64_t bytes) {
  pthread_mutex_lock(&mutex);
  if (live_used * 2 >= live_room) {
    host_block_t *old = live;
    size_t old_room = live_room, count = 0;
    for (size_t i = 0; i < old_room; i++)
      count += old[i].bytes != 0;
    live_room = 256;
    while (live_room < count * 4)
      live_room *= 2;
    live = __libc_calloc(live_room, sizeof *live);
    live_used = 0;
    for (size_t i = 0; i < old_room; i++)
      if (old[i].bytes) {
        *place_of(old[i].begin) = old[i];
        live_used++;
      }
    __libc_free(old);
  }
  host_block_t *place = place_of(begin);
  live_used += !place->begin;
  *place = (host_block_t){begin, bytes};
  pthread_mutex_unlock(&mutex);
}

/* ---- blocks of less than SMALLEST bytes: a bit for each 16 bytes of the heap says where one of the program's begins ---- */
enum { REGION_SHIFT = 20, GRANULE = 16, REGION_WORDS = (1 << REGION_SHIFT) / GRANULE / 64 };
#define REGIONS ((size_t)1 << (47 - REGION_SHIFT))
static _Atomic(uint64_t *) *regions;

static uint64_t *region_of(uint64_t address, bool make) {
  if (!regions || address >> 47)
    return NULL;
  _Atomic(uint64_t *) *place = &regions[address >> REGION_SHIFT];
  uint64_t *region = atomic_load_explicit(place, memory_order_acquire), *none = NULL;
  if (region || !make)
    return region;
  uint64_t *made = __libc_calloc(REGION_WORDS, sizeof *made);
  if (atomic_compare_exchange_strong(place, &none, made))
    return made;
  __libc_free(made);
  return none;
}

static void mark_small(uint64_t begin, bool is_there) {
  uint64_t *region = region_of(begin, is_there);
  if (!region)
    return;
  uint64_t granule = begin % (1 << REGION_SHIFT) / GRANULE, bit = (uint64_t)1 << granule % 64;
  _Atomic(uint64_t) *word = (_Atomic(uint64_t) *)&region[granule / 64];
  if (is_there)
    atomic_fetch_or_explicit(word, bit, memory_order_relaxed);
  else if (atomic_load_explicit(word, memory_order_relaxed) & bit)
    atomic_fetch_and_explicit(word, ~bit, memory_order_relaxed);
}

bool is_small_block(uint64_t address) {
  if (shared)
    return false;
  for (uint64_t at = address / GRANULE * GRANULE, end = at - SMALLEST; at > end; at -= GRANULE) {
    uint64_t *region = region_of(at, false), granule = at % (1 << REGION_SHIFT) / GRANULE;
    if (region && region[granule / 64] >> granule % 64 & 1)
      return address - at < malloc_usable_size((void *)at);
  }
  return false;
}

void watch_small_blocks(void) {
  if (!tracks_bytes())
    return;
  void *space = mmap(NULL, REGIONS * sizeof *regions, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  regions = space == MAP_FAILED ? NULL : space;
}

static void drop(uint64_t begin) {
  pthread_mutex_lock(&mutex);
  if (live_room)
    place_of(begin)->bytes = 0;
  pthread_mutex_unlock(&mutex);
}

static int by_begin(const void *left, const void *right) {
  const host_block_t *a = left, *b = right;
  return a->begin < b->begin ? -1 : a->begin > b->begin;
}

host_block_t *host_memory(size_t *count) {
  pthread_mutex_lock(&mutex);
  host_block_t *blocks = __libc_malloc((live_used + 1) * sizeof *blocks);
  *count = 0;
  for (size_t i = 0; i < live_room && !shared; i++)
    if (live[i].bytes)
      blocks[(*count)++] = live[i];
  pthread_mutex_unlock(&mutex);
  qsort(blocks, *count, sizeof *blocks, by_begin);
  return blocks;
}

static bool tell(const char *kind, void *address, uint64_t bytes, const char *name) {
  start_recording();
  if (!bytes)
    return false; /* a structure without members, an empty text: others may have its address */
  if (!recording())
    return false;
  this_thread()->inside = true;
  line_begin(kind);
  line_number("at", (int64_t)(uint64_t)address);
  line_number("size", (int64_t)bytes);
  line_text("name", name);
  line_end();
  this_thread()->inside = false;
  return true;
}

/* Called by a constructor of a module of the program for each of its variables. */
EXPORT void offload_recorder_variable(void *address, uint64_t bytes, const char *name);
EXPORT void offload_recorder_variable(void *address, uint64_t bytes, const char *name) {
  if (!tell("variable", address, bytes, name))
    return;
  this_thread()->inside = true;
  keep((uint64_t)address, bytes);
  if (tracks_bytes())
    track((uint64_t)address, bytes); /* it may be touched before a deferred region maps it */
  this_thread()->inside = false;
}

/* The same for those that nobody may write. */
EXPORT void offload_recorder_constant(void *address, uint64_t bytes, const char *name);
EXPORT void offload_recorder_constant(void *address, uint64_t bytes, const char *name) {
  if (!tell("constant", address, bytes, name))
    return;
  this_thread()->inside = true;
  keep((uint64_t)address, bytes);
  this_thread()->inside = false;
}

void heap_is_shared(void) { shared = true; }

bool shares_heap(void) { return shared; }

/* What the offloading runtime allocates inside a directive is not the program's, as is what the recorder allocates. */
static bool is_programs(void) { return recording() && !this_thread()->inside && !this_thread()->call; }

/* The host's plugin takes device memory from the heap. What lies behind a block is made to be nobody's. */
static size_t padded(size_t bytes) {
  return bytes + (recording() && !this_thread()->inside && this_thread()->call ? padding_of(bytes) : 0);
}

static void *allocated(void *block, size_t bytes, uint32_t how, void *caller) {
  if (!block || !is_programs())
    return block;
  if (bytes < SMALLEST) {
    if (tracks_bytes())
      mark_small((uint64_t)block, true);
    return block;
  }
  this_thread()->inside = true;
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = (uint64_t)block;
  slot->word[2] = bytes;
  slot->word[4] = (uint64_t)caller;
  end_slot(slot, SLOT_ALLOC, how, 0);
  track((uint64_t)block, bytes);
  keep((uint64_t)block, bytes);
  if (shared)
    array_allocated((uint64_t)block, (uint64_t)block, bytes, false);
  this_thread()->inside = false;
  return block;
}

/* Called by instrumented code before it frees a block. */
EXPORT void offload_recorder_frees(uint64_t block, const char *where);
EXPORT void offload_recorder_frees(uint64_t block, const char *where) {
  this_thread()->freeing = block;
  this_thread()->freed_at = where;
}

/* Returns the line where the program frees a block, NULL if it is not known: code that is not instrumented may do so. */
static const char *take_place(uint64_t block) {
  thread_t *thread = this_thread();
  bool is_known = thread->freeing == block;
  thread->freeing = 0;
  return is_known ? thread->freed_at : NULL;
}

static void put_freed(uint64_t block, uint64_t bytes, const char *place, enum ending how) {
  if (tracks_bytes())
    end_interval(); /* what was touched until now is this block's */
  uint64_t where = string_at(place);
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = block;
  slot->word[2] = bytes;
  slot->word[4] = where;
  end_slot(slot, SLOT_FREE, how, 0);
  forget(block, bytes);
}

static void freed(void *block, enum ending how) {
  mark_small((uint64_t)block, false);
  if (!block || !is_programs())
    return;
  size_t bytes = malloc_usable_size(block);
  const char *place = take_place((uint64_t)block);
  if (bytes < SMALLEST && !(may_be_mapped((uint64_t)block) && is_mapped((uint64_t)block, bytes)))
    return;
  this_thread()->inside = true;
  put_freed((uint64_t)block, bytes, place, how);
  drop((uint64_t)block);
  if (shared)
    array_freed((uint64_t)block);
  this_thread()->inside = false;
}

void note_scratch(void *block, size_t bytes, bool is_begin) {
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = (uint64_t)block;
  slot->word[2] = bytes;
  end_slot(slot, is_begin ? SLOT_ALLOC : SLOT_FREE, is_begin ? SCRATCH : FREES, 0);
  if (is_begin)
    array_allocated((uint64_t)block, (uint64_t)block, bytes, false);
  else
    array_freed((uint64_t)block);
}

EXPORT void *malloc(size_t bytes) {
  return allocated(__libc_malloc(padded(bytes)), bytes, MALLOC, __builtin_return_address(0));
}

EXPORT void *calloc(size_t count, size_t size) {
  return allocated(__libc_calloc(count, size), count * size, CALLOC, __builtin_return_address(0));
}

EXPORT void *realloc(void *block, size_t bytes) {
  freed(block, MOVES); /* before it: another thread may be given the old block at once */
  return allocated(__libc_realloc(block, bytes), bytes, REALLOC, __builtin_return_address(0));
}

/* ---- device memory that was freed: a kernel that uses it still is found, for as long as nobody else gets the memory ---- */
enum { QUARANTINE = 256 };
#define MOST_KEPT ((size_t)64 << 20)

static void free_late(void *block) {
  static void *waiting[QUARANTINE];
  static size_t sizes[QUARANTINE], kept, next;
  void *leaving[QUARANTINE + 1];
  size_t count = 0, bytes = malloc_usable_size(block);
  pthread_mutex_lock(&mutex);
  size_t place = next++ % QUARANTINE;
  if (waiting[place])
    leaving[count++] = waiting[place], kept -= sizes[place];
  waiting[place] = block, sizes[place] = bytes, kept += bytes;
  for (size_t i = next; kept > MOST_KEPT && i < next + QUARANTINE; i++)
    if (waiting[i % QUARANTINE])
      leaving[count++] = waiting[i % QUARANTINE], kept -= sizes[i % QUARANTINE], waiting[i % QUARANTINE] = NULL;
  pthread_mutex_unlock(&mutex);
  for (size_t i = 0; i < count; i++) {
    forget_gone((uint64_t)leaving[i]);
    __libc_free(leaving[i]);
  }
}

EXPORT void free(void *block) {
  freed(block, FREES);
  bool is_devices = block && this_thread()->call && !this_thread()->inside && tracks_bytes() && is_gone((uint64_t)block);
  if (is_devices)
    free_late(block);
  else
    __libc_free(block);
}

/* Of other memory only the end of what is mapped to a device is told. */
static void ends(uint64_t address, uint64_t bytes, const char *place, enum ending how) {
  if (!is_programs())
    return;
  bool was_on_stack = take_from_stack(address, bytes);
  if (!was_on_stack && !is_mapped(address, bytes))
    return;
  this_thread()->inside = true;
  put_freed(address, bytes, place, how);
  this_thread()->inside = false;
}

EXPORT int munmap(void *address, size_t bytes) {
  REAL(munmap);
  ends((uint64_t)address, bytes, take_place((uint64_t)address), UNMAPS);
  return real(address, bytes);
}

/* Called by instrumented code where the life of a variable of the stack ends that it has mapped. */
EXPORT void offload_recorder_leaves(uint64_t address, uint64_t bytes, const char *where);
EXPORT void offload_recorder_leaves(uint64_t address, uint64_t bytes, const char *where) {
  ends(address, bytes, where, LEAVES);
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
  return allocated(__libc_memalign(alignment, padded(bytes)), bytes, ALIGNED, __builtin_return_address(0));
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  return allocated(__libc_memalign(alignment, padded(bytes)), bytes, ALIGNED, __builtin_return_address(0));
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
    return EINVAL;
  void *result = __libc_memalign(alignment, padded(bytes));
  if (!result)
    return ENOMEM;
  *block = allocated(result, bytes, ALIGNED, __builtin_return_address(0));
  return 0;
}

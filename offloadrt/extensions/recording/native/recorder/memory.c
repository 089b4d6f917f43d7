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

/* ---- blocks of less than SMALLEST bytes: a byte for each 16 bytes of the heap. 0: none of the program's begins there; else KNOWN if
 * the recording has it, and 1 + the bytes that malloc gave beyond those that were asked for ---- */
enum { REGION_SHIFT = 20, GRANULE = 16, GRANULES = (1 << REGION_SHIFT) / GRANULE, KNOWN = 128 };
#define REGIONS ((size_t)1 << (47 - REGION_SHIFT))
typedef _Atomic(uint8_t) small_t;
static _Atomic(small_t *) *regions;

static small_t *mark_of(uint64_t address, bool make) {
  if (!regions || address >> 47)
    return NULL;
  _Atomic(small_t *) *place = &regions[address >> REGION_SHIFT];
  small_t *region = atomic_load_explicit(place, memory_order_acquire), *none = NULL;
  if (!region && make) {
    region = __libc_calloc(GRANULES, sizeof *region);
    if (region && !atomic_compare_exchange_strong(place, &none, region)) {
      __libc_free(region);
      region = none;
    }
  }
  return region ? &region[address % (1 << REGION_SHIFT) / GRANULE] : NULL;
}

static void mark_small(void *block, size_t bytes) {
  small_t *mark = bytes ? mark_of((uint64_t)block, true) : NULL;
  size_t beyond = malloc_usable_size(block) - bytes;
  if (mark)
    atomic_store_explicit(mark, (uint8_t)(1 + (beyond < KNOWN - 2 ? beyond : KNOWN - 2)), memory_order_relaxed);
}

/* Returns whether the recording has the block, if it is a small one. */
static bool unmark_small(uint64_t block) {
  small_t *mark = mark_of(block, false);
  return mark && atomic_load_explicit(mark, memory_order_relaxed) && atomic_exchange_explicit(mark, 0, memory_order_relaxed) & KNOWN;
}

uint64_t small_block_at(uint64_t address, uint64_t *bytes) {
  for (uint64_t at = address / GRANULE * GRANULE, end = at - SMALLEST; regions && at != end; at -= GRANULE) {
    small_t *mark = mark_of(at, false);
    uint8_t marked = mark ? atomic_load_explicit(mark, memory_order_relaxed) : 0;
    if (!marked)
      continue;
    *bytes = malloc_usable_size((void *)at) - (marked % KNOWN - 1);
    return address - at < *bytes ? at : 0;
  }
  return 0;
}

void watch_small_blocks(void) {
  if (regions)
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

void heap_is_shared(void) {
  shared = true;
  watch_small_blocks();
}

bool shares_heap(void) { return shared; }

/* What the offloading runtime allocates inside a directive is not the program's, as is what the recorder allocates. */
static bool is_programs(void) { return recording() && !this_thread()->inside && !this_thread()->call; }

/* The host's plugin takes device memory from the heap. What lies behind a block is made to be nobody's. */
static size_t padded(size_t bytes) {
  return bytes + (recording() && !this_thread()->inside && this_thread()->call ? padding_of(bytes) : 0);
}

static void put_allocated(uint64_t block, size_t bytes, uint32_t how, const char *place) {
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  uint64_t where = string_at(place);
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = block;
  slot->word[2] = bytes;
  slot->word[4] = where;
  end_slot(slot, SLOT_ALLOC, how, 0);
  track(block, bytes);
  keep(block, bytes);
  if (shared)
    array_allocated(block, block, bytes, false);
  this_thread()->inside = was_inside;
}

static bool know_small(uint64_t address, uint32_t how) {
  uint64_t bytes, block = recording() ? small_block_at(address, &bytes) : 0;
  if (!block || atomic_fetch_or_explicit(mark_of(block, false), KNOWN, memory_order_relaxed) & KNOWN)
    return false;
  put_allocated(block, bytes, how, NULL);
  return true;
}

/* Called by instrumented code before it allocates a block: all that uses it is seen, unlike one that a library allocates, and perhaps
 * hands from thread to thread. */
EXPORT void offload_recorder_makes(uint64_t bytes, const char *where);
EXPORT void offload_recorder_makes(uint64_t bytes, const char *where) {
  this_thread()->making = bytes;
  this_thread()->making_at = where ? where : "";
}

static void *allocated(void *block, size_t bytes, uint32_t how) {
  if (!block || !is_programs())
    return block;
  bool is_own = this_thread()->making == bytes, is_new = is_own && (how == MALLOC || how == ALIGNED) && tells_new(bytes);
  this_thread()->making = 0;
  if (bytes >= SMALLEST)
    put_allocated((uint64_t)block, bytes, how, is_own ? this_thread()->making_at : NULL);
  else if (regions)
    mark_small(block, bytes);
  if (is_new && (bytes >= SMALLEST || know_small((uint64_t)block, how)))
    put_new((uint64_t)block, 0);
  return block;
}

uint64_t block_bytes(uint64_t begin) {
  pthread_mutex_lock(&mutex);
  uint64_t bytes = live_room ? place_of(begin)->bytes : 0;
  pthread_mutex_unlock(&mutex);
  if (!bytes && small_block_at(begin, &bytes) != begin)
    return 0;
  return bytes;
}

bool is_given(uint64_t address, bool to_directive) { return know_small(address, to_directive ? LATE : MALLOC); }

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

/* Returns whether that is recorded. */
static bool freed(void *block, enum ending how) {
  bool is_known = unmark_small((uint64_t)block);
  if (!block || !is_programs())
    return false;
  size_t bytes = malloc_usable_size(block);
  const char *place = take_place((uint64_t)block);
  if (bytes < SMALLEST && !is_known && !(may_be_mapped((uint64_t)block) && is_mapped((uint64_t)block, bytes)))
    return false;
  this_thread()->inside = true;
  put_freed((uint64_t)block, bytes, place, how);
  drop((uint64_t)block);
  if (shared)
    array_freed((uint64_t)block);
  this_thread()->inside = false;
  return true;
}

EXPORT void *malloc(size_t bytes) {
  return allocated(__libc_malloc(padded(bytes)), bytes, MALLOC);
}

EXPORT void *calloc(size_t count, size_t size) {
  return allocated(__libc_calloc(count, size), count * size, CALLOC);
}

EXPORT void *realloc(void *block, size_t bytes) {
  uint64_t before = this_thread()->making == bytes && block && is_programs() ? block_bytes((uint64_t)block) : 0;
  bool was_known = freed(block, MOVES); /* before it: another thread may be given the old block at once */
  void *moved = allocated(__libc_realloc(block, bytes), bytes, block ? REALLOC : MALLOC);
  if (was_known)
    know_small((uint64_t)moved, REALLOC);
  if (moved && before && before < bytes && tells_new(bytes - before))
    put_new((uint64_t)moved + before, bytes - before); /* nobody has stored behind what the block had */
  return moved;
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
  bool was_on_stack = take_from_stack(address, bytes), is_block = bytes >= SMALLEST && block_bytes(address) == bytes;
  if (!was_on_stack && !is_block && !is_mapped(address, bytes))
    return;
  this_thread()->inside = true;
  put_freed(address, bytes, place, how);
  if (is_block)
    drop(address);
  this_thread()->inside = false;
}

/* Pages that the program's own code takes are a block as calloc's are; what libraries take they hand out in pieces. */
EXPORT void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
  REAL(mmap);
  bool is_own = this_thread()->making == bytes;
  void *block = real(address, bytes, protection, flags, file, offset);
  return is_own && block != MAP_FAILED ? allocated(block, bytes, CALLOC) : block;
}

EXPORT void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

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
  return allocated(__libc_memalign(alignment, padded(bytes)), bytes, ALIGNED);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  return allocated(__libc_memalign(alignment, padded(bytes)), bytes, ALIGNED);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
    return EINVAL;
  void *result = __libc_memalign(alignment, padded(bytes));
  if (!result)
    return ENOMEM;
  *block = allocated(result, bytes, ALIGNED);
  return 0;
}

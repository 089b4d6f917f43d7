/* The host's allocations: which arrays the program has, before it maps them. malloc and its family, interposed.
 *
 * The real functions are glibc's own names and not dlsym's answer, for dlsym itself allocates. */
#include "recorder.h"
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum { SMALLEST = 4096, MALLOC = 1, CALLOC, REALLOC, ALIGNED };

static bool shared;

void heap_is_shared(void) { shared = true; }

/* What the offloading runtime allocates inside a directive is not the program's, as is what the recorder allocates. */
static bool is_programs(void) { return recording() && !this_thread()->inside && !this_thread()->call; }

static void *allocated(void *block, size_t bytes, uint32_t how, void *caller) {
  if (!block || bytes < SMALLEST || !is_programs())
    return block;
  this_thread()->inside = true;
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = (uint64_t)block;
  slot->word[2] = bytes;
  slot->word[4] = (uint64_t)caller;
  end_slot(slot, SLOT_ALLOC, how, 0);
  track((uint64_t)block, bytes);
  if (shared)
    array_allocated((uint64_t)block, (uint64_t)block, bytes);
  this_thread()->inside = false;
  return block;
}

static void freed(void *block) {
  if (!block || !is_programs())
    return;
  size_t bytes = malloc_usable_size(block);
  if (bytes < SMALLEST)
    return;
  this_thread()->inside = true;
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = (uint64_t)block;
  slot->word[2] = bytes;
  end_slot(slot, SLOT_FREE, 0, 0);
  forget((uint64_t)block, bytes);
  if (shared)
    array_freed((uint64_t)block);
  this_thread()->inside = false;
}

EXPORT void *malloc(size_t bytes) { return allocated(__libc_malloc(bytes), bytes, MALLOC, __builtin_return_address(0)); }

EXPORT void *calloc(size_t count, size_t size) {
  return allocated(__libc_calloc(count, size), count * size, CALLOC, __builtin_return_address(0));
}

EXPORT void *realloc(void *block, size_t bytes) {
  freed(block); /* before it: another thread may be given the old block at once */
  return allocated(__libc_realloc(block, bytes), bytes, REALLOC, __builtin_return_address(0));
}

EXPORT void free(void *block) {
  freed(block);
  __libc_free(block);
}

EXPORT void *memalign(size_t alignment, size_t bytes) {
  return allocated(__libc_memalign(alignment, bytes), bytes, ALIGNED, __builtin_return_address(0));
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes) {
  return allocated(__libc_memalign(alignment, bytes), bytes, ALIGNED, __builtin_return_address(0));
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
    return EINVAL;
  void *result = __libc_memalign(alignment, bytes);
  if (!result)
    return ENOMEM;
  *block = allocated(result, bytes, ALIGNED, __builtin_return_address(0));
  return 0;
}

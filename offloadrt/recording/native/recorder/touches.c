/* Which pages host code touches between two directives.
 *
 * The compiler plugin lets host code look up one byte for each access: that of the access's 64 KiB of address space, in a
 * table that is reserved but for what is used. A byte says which accesses are to be reported. A report clears its bit; the
 * next directive of the thread that reported sets it again. So code that runs over the same memory reports once an interval. */
#include "recorder.h"
#include <stdlib.h>
#include <sys/mman.h>

enum { SHIFT = 16, TRACKED = 4 };
#define PAGES_OF_ADDRESSES ((size_t)1 << (47 - SHIFT))

typedef struct {
  uint64_t *touches; /* page << 2 | way, way LOADS or STORES */
  size_t count, room;
} interval_t;

static uint8_t *pages;
static bool wanted, tried;
static __thread interval_t interval;

/* What an instrumented module of the program keeps: the address of the table; NULL: nothing is reported. */
EXPORT void offload_recorder_module(uint8_t **table);
EXPORT void offload_recorder_module(uint8_t **table) {
  start_recording();
  if (!tried) {
    tried = true;
    const char *choice = getenv("OFFLOADRT_HOST_TOUCHES");
    wanted = recording() && choice && *choice == '1';
    if (wanted) {
      void *space = mmap(NULL, PAGES_OF_ADDRESSES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      pages = space == MAP_FAILED ? NULL : space;
    }
  }
  *table = pages;
}

void track(uint64_t address, uint64_t bytes) {
  if (!pages || !bytes || (address + bytes) >> 47)
    return;
  uint64_t first = address >> SHIFT, last = (address + bytes - 1) >> SHIFT;
  if ((pages[first] & TRACKED) && (pages[last] & TRACKED))
    return; /* a map item says again and again what is known */
  for (uint64_t page = first; page <= last; page++)
    if (!(pages[page] & TRACKED))
      pages[page] = TRACKED | LOADS | STORES;
}

/* Forgets the pages that lie wholly in the block. Those at its ends may belong to its neighbours as well. */
void forget(uint64_t address, uint64_t bytes) {
  if (!pages)
    return;
  uint64_t first = (address + (1 << SHIFT) - 1) >> SHIFT, end = (address + bytes) >> SHIFT;
  for (uint64_t page = first; page < end; page++)
    pages[page] = 0;
}

static void add_touch(uint64_t page, uint32_t way) {
  if (interval.count == interval.room) {
    bool was_inside = this_thread()->inside;
    this_thread()->inside = true;
    interval.room = interval.room * 2 + 1024;
    interval.touches = realloc(interval.touches, interval.room * sizeof *interval.touches);
    this_thread()->inside = was_inside;
  }
  interval.touches[interval.count++] = page << 2 | way;
}

/* Called by instrumented code when the byte of its page asks for it. `way` is LOADS or STORES. */
EXPORT void offload_recorder_touch(uint64_t address, uint32_t way);
EXPORT void offload_recorder_touch(uint64_t address, uint32_t way) {
  uint64_t page = address >> SHIFT;
  if (!pages || address >> 47 || !(pages[page] & way))
    return;
  pages[page] &= (uint8_t)~way;
  add_touch(page, way);
}

/* Called for a copy or a fill of the compiler's (memcpy, memset). */
EXPORT void offload_recorder_range(uint64_t address, uint64_t bytes, uint32_t way);
EXPORT void offload_recorder_range(uint64_t address, uint64_t bytes, uint32_t way) {
  for (uint64_t page = address >> SHIFT; bytes && page <= (address + bytes - 1) >> SHIFT; page++)
    offload_recorder_touch(page << SHIFT, way);
}

static int by_way_and_page(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  if ((a & 3) != (b & 3))
    return (a & 3) < (b & 3) ? -1 : 1;
  return a < b ? -1 : a > b;
}

void end_interval(void) {
  if (!interval.count)
    return;
  uint64_t *touches = interval.touches;
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true; /* qsort allocates */
  qsort(touches, interval.count, sizeof *touches, by_way_and_page);
  for (size_t i = 0, next; i < interval.count; i = next) {
    for (next = i + 1; next < interval.count && touches[next] - touches[next - 1] == 4; next++)
      ;
    slot_t *slot = next_slot();
    slot->word[0] = now();
    slot->word[1] = touches[i] >> 2 << SHIFT;
    slot->word[2] = (uint64_t)(next - i) << SHIFT;
    end_slot(slot, SLOT_TOUCH, touches[i] & 3, 0);
  }
  for (size_t i = 0; i < interval.count; i++)
    if (pages[touches[i] >> 2] & TRACKED)
      pages[touches[i] >> 2] |= touches[i] & 3;
  interval.count = 0;
  this_thread()->inside = was_inside;
}

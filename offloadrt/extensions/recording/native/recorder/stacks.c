/* The threads' stacks, where a recording is made for a check: which bytes of them are mapped or were, until the scope of their
 * variable ends, and which belong to the program while a kernel runs. */
#include "recorder.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint64_t low, high;
  bool used;
} region_t;

enum { STACKS = 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static region_t stacks[STACKS];
static size_t stack_count;
static host_block_t *items; /* what map items spanned there, and no scope has ended since */
static size_t item_count, item_room;
static uint64_t lowest = UINT64_MAX, highest; /* around all items */
static __thread size_t own; /* of the calling thread, plus 1 */

/* Called inside the recorder, by each thread that opens its file. */
void stack_opened(void) {
  pthread_attr_t attributes;
  void *low;
  size_t bytes;
  if (!tracks_bytes() || own || pthread_getattr_np(pthread_self(), &attributes))
    return;
  if (!pthread_attr_getstack(&attributes, &low, &bytes)) {
    pthread_mutex_lock(&mutex);
    size_t at = 0;
    while (at < stack_count && stacks[at].used)
      at++;
    if (at < STACKS) {
      stacks[at] = (region_t){(uint64_t)low, (uint64_t)low + bytes, true};
      stack_count += at == stack_count;
      own = at + 1;
    }
    pthread_mutex_unlock(&mutex);
  }
  pthread_attr_destroy(&attributes);
}

void stack_closed(void) {
  if (own)
    stacks[own - 1].used = false;
  own = 0;
}

static const region_t *stack_of(uint64_t address) {
  for (size_t i = 0; i < stack_count; i++)
    if (stacks[i].used && address - stacks[i].low < stacks[i].high - stacks[i].low)
      return &stacks[i];
  return NULL;
}

/* Notes what a map item spans, if it is on a stack. */
void note_on_stack(uint64_t address, uint64_t bytes) {
  if (!stack_count || !stack_of(address))
    return;
  pthread_mutex_lock(&mutex);
  for (size_t i = item_count; i-- > 0;)
    if (items[i].begin == address && items[i].bytes >= bytes) {
      pthread_mutex_unlock(&mutex);
      return;
    }
  if (item_count == item_room) {
    item_room = item_room * 2 + 64;
    items = realloc(items, item_room * sizeof *items);
  }
  items[item_count++] = (host_block_t){address, bytes};
  lowest = address < lowest ? address : lowest;
  highest = address + bytes > highest ? address + bytes : highest;
  pthread_mutex_unlock(&mutex);
}

/* Forgets what items spanned in these bytes of a stack; returns whether there was any. */
bool take_from_stack(uint64_t address, uint64_t bytes) {
  if (address >= highest || address + bytes <= lowest)
    return false;
  size_t kept = 0;
  pthread_mutex_lock(&mutex);
  size_t before = item_count;
  lowest = UINT64_MAX, highest = 0;
  for (size_t i = 0; i < before; i++) {
    host_block_t item = items[i];
    if (item.begin < address + bytes && address < item.begin + item.bytes)
      continue;
    items[kept++] = item;
    lowest = item.begin < lowest ? item.begin : lowest;
    highest = item.begin + item.bytes > highest ? item.begin + item.bytes : highest;
  }
  item_count = kept;
  pthread_mutex_unlock(&mutex);
  return kept < before;
}

bool is_on_own_stack(uint64_t address) {
  return own && address - stacks[own - 1].low < stacks[own - 1].high - stacks[own - 1].low;
}

void track_own_stack(void) {
  enum { MOST = 1 << 20 };
  uint64_t here = (uint64_t)__builtin_frame_address(0);
  if (own && is_on_own_stack(here))
    track(here, stacks[own - 1].high - here < MOST ? stacks[own - 1].high - here : MOST);
}

/* Whether an address that a kernel comes to lies in a frame of the program: in another thread's stack, or above `frame` in its own. */
bool is_in_frame(uint64_t address, uint64_t frame) {
  const region_t *stack = stack_of(address);
  return stack && (stack != &stacks[own - 1] || address >= frame);
}

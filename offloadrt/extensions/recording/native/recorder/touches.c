/* Which pages host code touches between two directives.
 *
 * The compiler plugin lets host code look up one byte for each access: that of the access's 64 KiB of address space, in a
 * table that is reserved but for what is used. A byte says which accesses are to be reported. A report clears its bit; the
 * next directive of the thread that reported sets it again. So code that runs over the same memory reports once an interval. */
#include "../descriptors.h"
#include "recorder.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WAYS = 4 };
enum { SHIFT = 16, WORD_BITS = 64, PAGE_WORDS = (1 << SHIFT) / WORD_BITS };
#define PAGES_OF_ADDRESSES ((size_t)1 << (47 - SHIFT))

typedef struct {
  uint64_t *touches; /* page << 2 | way, way LOADS or STORES */
  size_t count, room;
} interval_t;

static uint8_t *pages;
static bool wanted, exact, tried;
static host_block_t *of_images; /* what is to be tracked once there is a table */
static size_t image_count;
static __thread interval_t interval;

/* What an instrumented module of the program keeps: the address of the table; NULL: nothing is reported. */
EXPORT void offload_recorder_module(uint8_t **table);
EXPORT void offload_recorder_module(uint8_t **table) {
  start_recording();
  note_module(table);
  if (!tried) {
    tried = true;
    if (recording()) {
      line_begin("instrumented");
      line_end();
    }
    const char *choice = getenv("OFFLOADRT_HOST_TOUCHES");
    exact = tracks_bytes();
    wanted = recording() && choice && (*choice == '1' || exact);
    if (wanted) {
      void *space = mmap(NULL, PAGES_OF_ADDRESSES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      pages = space == MAP_FAILED ? NULL : space;
      for (size_t i = 0; i < image_count; i++)
        track(of_images[i].begin, of_images[i].bytes);
    }
  }
  *table = pages;
}

void track(uint64_t address, uint64_t bytes) {
  if (!pages || !bytes || (address + bytes) >> 47)
    return;
  uint64_t first = address >> SHIFT, last = (address + bytes - 1) >> SHIFT;
  uint8_t known = TRACKED;
  for (uint64_t page = first; page <= last; page++)
    known &= pages[page]; /* those between the ends may be forgotten, as of a freed block that lay here */
  if (known)
    return; /* a map item says again and again what is known */
  for (uint64_t page = first; page <= last; page++) {
    bool is_whole = page << SHIFT >= address && (page + 1) << SHIFT <= address + bytes;
    if (!(pages[page] & TRACKED))
      pages[page] = (uint8_t)(TRACKED | LOADS | STORES | (exact || (shares_heap() && !is_whole) ? EACH_BYTE : 0));
  }
}

/* Programs register their images and their modules in any order. Called with nobody else there: by constructors. */
void track_image(uint64_t address, uint64_t bytes) {
  if (!tracks_bytes())
    return;
  track(address, bytes);
  of_images = realloc(of_images, (image_count + 1) * sizeof *of_images);
  of_images[image_count++] = (host_block_t){address, bytes};
}

/* Forgets the pages that lie wholly in the block. Those at its ends may belong to its neighbours as well. */
void forget(uint64_t address, uint64_t bytes) {
  if (!pages)
    return;
  uint64_t first = (address + (1 << SHIFT) - 1) >> SHIFT, end = (address + bytes) >> SHIFT;
  for (uint64_t page = first; page < end; page++)
    pages[page] = 0;
}

/* ---- each byte, where the recording is made for a check; and where kernels use the heap itself, so that no array gets what its
 * neighbours in a page are touched for: pages would move with it. There it is each unit of malloc's, which keeps slots few. ---- */
typedef struct {
  uint64_t page; /* plus 1 */
  bool used;     /* in this interval: its words from `low` to before `high` */
  uint32_t low, high;
  uint64_t touched[WAYS][PAGE_WORDS]; /* bytes that were loaded before they were stored, and stored; both again, atomically */
} bytes_t;

enum { GIVEN = 16, UNIT = 16 };
static __thread uint64_t given_at[GIVEN]; /* addresses that code which nobody watches was given in this interval */
static __thread bytes_t **byte_pages; /* a hash table */
static __thread bytes_t **used_pages; /* in this interval */
static __thread size_t used_count, used_room;
static __thread size_t byte_page_count, byte_page_room;

static bytes_t **bytes_at(uint64_t page) {
  size_t at = (page * 0x9e3779b97f4a7c15u >> 32) & (byte_page_room - 1);
  while (byte_pages[at] && byte_pages[at]->page != page + 1)
    at = (at + 1) & (byte_page_room - 1);
  return &byte_pages[at];
}

static bytes_t *bytes_of(uint64_t page) {
  static __thread bytes_t *last;
  if (last && last->page == page + 1)
    return last;
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  if (byte_page_count * 2 >= byte_page_room) {
    bytes_t **old = byte_pages;
    size_t old_room = byte_page_room;
    byte_page_room = old_room ? old_room * 2 : 64;
    byte_pages = calloc(byte_page_room, sizeof *byte_pages);
    for (size_t i = 0; i < old_room; i++)
      if (old[i])
        *bytes_at(old[i]->page - 1) = old[i];
    free(old);
  }
  bytes_t **place = bytes_at(page);
  if (!*place) {
    *place = calloc(1, sizeof **place);
    (*place)->page = page + 1;
    byte_page_count++;
  }
  this_thread()->inside = was_inside;
  return last = *place;
}

static void use(bytes_t *page) {
  if (used_count == used_room) {
    bool was_inside = this_thread()->inside;
    this_thread()->inside = true;
    used_room = used_room * 2 + 64;
    used_pages = realloc(used_pages, used_room * sizeof *used_pages);
    this_thread()->inside = was_inside;
  }
  page->used = true;
  page->low = PAGE_WORDS, page->high = 0;
  used_pages[used_count++] = page;
}

static void touch_bytes(uint64_t address, uint64_t bytes, uint32_t way) {
  bytes_t *page = bytes_of(address >> SHIFT);
  if (!page->used)
    use(page);
  uint64_t *loaded = page->touched[way & ATOMICALLY ? 2 : 0], *stored = page->touched[way & ATOMICALLY ? 3 : 1];
  uint64_t first = address & ((1 << SHIFT) - 1), end = first + bytes < 1 << SHIFT ? first + bytes : 1 << SHIFT;
  uint32_t low = (uint32_t)(first / WORD_BITS), high = (uint32_t)((end + WORD_BITS - 1) / WORD_BITS);
  page->low = low < page->low ? low : page->low;
  page->high = high > page->high ? high : page->high;
  for (uint64_t byte = first; byte < end; byte++) {
    uint64_t bit = (uint64_t)1 << byte % WORD_BITS;
    if (way & STORES)
      stored[byte / WORD_BITS] |= bit;
    else if (!((page->touched[1][byte / WORD_BITS] | page->touched[3][byte / WORD_BITS]) & bit))
      loaded[byte / WORD_BITS] |= bit;
  }
}

static void put_touch(uint64_t begin, uint64_t end, uint32_t how) {
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = begin;
  slot->word[2] = end - begin;
  end_slot(slot, SLOT_TOUCH, how | (how & MAYBE || !this_thread()->asks ? 0 : OWN_THREAD), 0);
}

enum { MOST_STRETCHES = 256, MORE_STRETCHES = 8192 };
static int64_t more_stretches = MORE_STRETCHES;

/* Whether each of so many stretches is written: few always are, many as long as the process has written few such. */
bool tells_each(size_t count, size_t few, int64_t *more) {
  if (count > few && (int64_t)count > __atomic_load_n(more, __ATOMIC_RELAXED))
    return false;
  if (count > few)
    __atomic_sub_fetch(more, (int64_t)count, __ATOMIC_RELAXED);
  return true;
}

/* Moves to the next stretch of bytes that were touched in a way, behind `end`; false: there is none. */
static bool next_stretch(const bytes_t *page, int way, uint64_t *begin, uint64_t *end) {
  const uint64_t *touched = page->touched[way];
  uint64_t byte = *end, last = page->high * WORD_BITS;
  while (byte < last && !(touched[byte / WORD_BITS] >> byte % WORD_BITS & 1))
    byte += touched[byte / WORD_BITS] >> byte % WORD_BITS ? 1 : WORD_BITS - byte % WORD_BITS;
  *begin = byte;
  while (byte < last && touched[byte / WORD_BITS] >> byte % WORD_BITS & 1)
    byte++;
  *end = byte;
  return *begin < byte;
}

/* Where the stretches of a page are too many, only their extent is written. */
static void put_bytes(bytes_t *page, int way) {
  uint64_t base = (page->page - 1) << SHIFT, first = page->low * WORD_BITS, low = 0, high = 0, begin, end = first;
  size_t count = 0;
  int64_t none = 0;
  while (next_stretch(page, way, &begin, &end))
    low = count++ ? low : begin, high = end;
  uint32_t kind = (way % 2 ? STORES : LOADS) | (way / 2 ? ATOMICALLY : 0), each = exact ? EXACT : 0;
  if (!tells_each(count, MOST_STRETCHES, exact ? &more_stretches : &none))
    put_touch(base + low, base + high, kind);
  else
    for (end = first; next_stretch(page, way, &begin, &end);)
      put_touch(base + begin, base + end, kind | each);
}

/* Loads of what the interval has not stored itself come first. */
void end_bytes(void) {
  static const int order[WAYS] = {0, 2, 1, 3};
  for (int place = 0; place < WAYS; place++)
    for (size_t i = 0; i < used_count; i++)
      put_bytes(used_pages[i], order[place]);
  for (size_t i = 0; i < used_count; i++) {
    used_pages[i]->used = false;
    uint32_t low = used_pages[i]->low, high = used_pages[i]->high;
    for (int way = 0; way < WAYS && low < high; way++)
      memset(used_pages[i]->touched[way] + low, 0, (high - low) * sizeof(uint64_t));
  }
  used_count = 0;
  memset(given_at, 0, sizeof given_at);
}

/* Of a whole block without a number of bytes. */
void put_new(uint64_t address, uint64_t bytes) { put_touch(address, address + bytes, MAYBE | STORES); }

/* Blocks of less than SMALLEST bytes are written when a directive is given them, and too late for this, but for the first ones. */
bool tells_new(size_t bytes) {
  static int64_t few = 4096;
  return exact && pages && bytes && (bytes >= SMALLEST || __atomic_sub_fetch(&few, 1, __ATOMIC_RELAXED) >= 0);
}

/* Called before a variable of the stack is mapped that nobody has written. */
EXPORT void offload_recorder_new(uint64_t address, uint64_t bytes);
EXPORT void offload_recorder_new(uint64_t address, uint64_t bytes) {
  if (exact && pages)
    put_new(address, bytes);
}

static void put_given(uint64_t address) {
  if (address >> 47 || !(pages[address >> SHIFT] & TRACKED) || given_at[address / 8 % GIVEN] == address)
    return; /* a loop says so again and again */
  given_at[address / 8 % GIVEN] = address;
  put_touch(address, address, MAYBE);
}

/* Called before a call of code that may not be the plugin's, with an address that it is given. */
EXPORT void offload_recorder_given(uint64_t address);
EXPORT void offload_recorder_given(uint64_t address) {
  if (!exact || !pages)
    return;
  if (is_on_own_stack(address)) /* a descriptor of Fortran, or a structure, that begins with the address of an array */
    put_given(*(uint64_t *)(address & ~(uint64_t)7));
  put_given(address);
}

enum { SHOWN = 64, MOST_SHOWN = 4096, DEEPEST = 3 };
static __thread uint64_t shown_at[SHOWN]; /* in this interval */

/* Tells that code which nobody watches may find an address, and with it those in the block of the heap that begins there. */
static void show(uint64_t address, int depth) {
  if (address >> 47 || !(pages[address >> SHIFT] & TRACKED) || shown_at[address / 8 % SHOWN] == address)
    return;
  shown_at[address / 8 % SHOWN] = address;
  put_touch(address, address, MAYBE | LOADS);
  uint64_t bytes = depth < DEEPEST ? block_bytes(address) : 0, most = bytes < MOST_SHOWN ? bytes : MOST_SHOWN;
  for (uint64_t at = (address + 7) & ~(uint64_t)7; at + 8 <= address + most; at += 8)
    show(*(const uint64_t *)at, depth + 1);
}

/* Called before a call of code that is not the plugin's, with an address that it is given, and the variable in which that lies,
 * if any: it may hold addresses itself, as a descriptor of Fortran's does. */
EXPORT void offload_recorder_shown(uint64_t address, uint64_t variable, uint64_t bytes);
EXPORT void offload_recorder_shown(uint64_t address, uint64_t variable, uint64_t bytes) {
  if (!exact || !pages)
    return;
  show(address, 0);
  if (!bytes) /* flang's runtime is given an address of -1 where there is no stream */
    return;
  for (uint64_t at = (variable + 7) & ~(uint64_t)7; at + 8 <= variable + bytes; at += 8)
    show(*(const uint64_t *)at, 1);
}

bool tracks_bytes(void) {
  static int choice = -1;
  if (choice < 0) {
    const char *asked = getenv("OFFLOADRT_HOST_TOUCHES");
    choice = asked && *asked == '2';
  }
  return choice;
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

/* Called by instrumented code when the byte of its page asks for it. `way` is LOADS or STORES, perhaps ATOMICALLY, and how many
 * bytes << 8. */
EXPORT void offload_recorder_touch(uint64_t address, uint32_t way);
EXPORT void offload_recorder_touch(uint64_t address, uint32_t way) {
  uint64_t page = address >> SHIFT, bytes = way >> 8;
  uint32_t how = way & ATOMICALLY;
  way &= LOADS | STORES;
  if (!pages || address >> 47 || !(pages[page] & way))
    return;
  if (pages[page] & EACH_BYTE) {
    uint64_t begin = exact ? address : address / UNIT * UNIT, end = address + bytes;
    touch_bytes(begin, (exact ? end : (end + UNIT - 1) / UNIT * UNIT) - begin, exact ? way | how : way);
    return;
  }
  pages[page] &= (uint8_t)~way;
  add_touch(page, way);
}

/* Called for a copy or a fill of the compiler's (memcpy, memset), and for what a function of a library reads or writes: of a text at most
 * so many bytes. */
EXPORT void offload_recorder_range(uint64_t address, uint64_t bytes, uint32_t way);
EXPORT void offload_recorder_range(uint64_t address, uint64_t bytes, uint32_t way) {
  if (way & TEXT && bytes && address) {
    size_t letters = strnlen((const char *)address, bytes);
    bytes = letters + (letters < bytes);
  }
  way &= ~(uint32_t)TEXT;
  for (uint64_t page = address >> SHIFT; bytes && page <= (address + bytes - 1) >> SHIFT; page++) {
    uint64_t begin = page << SHIFT > address ? page << SHIFT : address, after = (page + 1) << SHIFT;
    offload_recorder_touch(begin, way | (uint32_t)((address + bytes < after ? address + bytes : after) - begin) << 8);
  }
}

static void touch_range(uint64_t address, uint64_t bytes, const void *way) { offload_recorder_range(address, bytes, *(const uint32_t *)way); }

/* Called around a routine of flang's that reads, writes or allocates an array, with its descriptor. */
EXPORT void offload_recorder_described(uint64_t descriptor, uint32_t way);
EXPORT void offload_recorder_described(uint64_t descriptor, uint32_t way) {
  const descriptor_t *array = (const descriptor_t *)descriptor;
  if (!exact || !pages || !array || !array->base)
    return;
  if (array->extra & 1) { /* of a derived type: it may have parts elsewhere, and these values from the beginning */
    put_given(array->base);
    show(array->base, 0);
  } else if (way & MAYBE) {
    is_given(array->base, false);
    if (tells_new(block_bytes(array->base)))
      put_new(array->base, 0);
    return;
  }
  way &= LOADS | STORES;
  each_range(array, array->rank - 1, array->base, touch_range, &way);
}

static int by_way_and_page(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  if ((a & 3) != (b & 3))
    return (a & 3) < (b & 3) ? -1 : 1;
  return a < b ? -1 : a > b;
}

void end_interval(void) {
  end_bytes();
  memset(shown_at, 0, sizeof shown_at);
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

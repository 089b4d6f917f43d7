/* Whose memory a kernel comes to that is no array's: the host's own, or nobody's where an array would lie of which only a section is mapped. */
#include "recorder.h"
#include <stdlib.h>
#include <string.h>

enum { KNOWN = 1 << 12, MOST_FOUND = 1 << 10, PTR_AND_OBJ = 0x10, LITERAL = 0x100, ATTACH = 0x4000, MEMBER_SHIFT = 48 };
#define NON_CONTIGUOUS 0x100000000000
static __thread launch_t *launch;
static __thread host_block_t *blocks, *known; /* what memory the host has, sorted; `known` until there is room for it */
static __thread size_t block_count;
static __thread uint64_t *unowned; /* places of 16 bytes of which no owner was found, so that they are not looked up again */
static __thread unsigned found_small; /* blocks of the shared heap that the launch came to by pointers in memory */

/* Returns the block or variable of the host in which an address lies; bytes 0: it lies in none that is listed. */
static host_block_t listed_at(uint64_t address) {
  size_t low = 0, high = block_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (blocks[middle].begin <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low && address - blocks[low - 1].begin < blocks[low - 1].bytes ? blocks[low - 1] : (host_block_t){0};
}

static bool is_host(uint64_t address) {
  uint64_t bytes;
  if (listed_at(address).bytes)
    return true;
  if (!shares_heap())
    return tracks_bytes() && (small_block_at(address, &bytes) || is_in_frame(address, this_thread()->frame));
  found_small += found_small < MOST_FOUND && is_given(address, false);
  return false;
}

/* Returns the array of which a section is mapped, and whose bytes before it, or behind it, would lie at an address of the device. */
static uint32_t section_at(uint64_t address, bool is_given) {
  for (uint32_t i = 0; i < launch->array_count; i++) {
    const array_t *array = &launch->arrays[i];
    uint64_t below = !is_given ? array->below : array->first ? array->first - 1 : 0, above = is_given ? 0 : array->above;
    if (array->device - address - 1 < below || address - (array->device + array->size) < above)
      return i;
  }
  return UINT32_MAX;
}

/* Returns how an access misses what is mapped (`launch_t.owner` explains it), and whose memory it meets instead. */
static uint32_t owner(uint64_t address, uint32_t *array) {
  uint64_t *place = &unowned[address / 16 % KNOWN];
  if (*place == address / 16)
    return 0;
  *array = section_at(address, true); /* before the host: the kernel was given the address of that array's first element */
  if (*array == UINT32_MAX && is_host(address))
    return STRAY_HOST;
  if (*array == UINT32_MAX)
    *array = section_at(address, false);
  if (*array < launch->array_count)
    return address < launch->arrays[*array].device ? STRAY_BEFORE : STRAY_AFTER;
  *place = address / 16;
  return 0;
}

/* Notes how many bytes of the host's array lie before and behind the section that is mapped. */
static void note_extent(array_t *array) {
  host_block_t block = listed_at(array->host);
  if (!block.bytes)
    block.begin = small_block_at(array->host, &block.bytes);
  if (!block.begin)
    return;
  array->below = array->host - block.begin;
  array->above = block.bytes - array->below > array->size ? block.bytes - array->below - array->size : 0;
}

/* Notes where in its array a section begins: the kernel was given the address of the array's first element. */
static void note_first(array_t *array, items_t items) {
  for (uint32_t i = 0; i < items.count; i++) {
    bool is_pointee = items.type[i] & PTR_AND_OBJ;
    if ((uint64_t)items.begin[i] != array->host || !items.size[i] || items.type[i] & (LITERAL | ATTACH | NON_CONTIGUOUS) ||
        (!is_pointee && items.type[i] >> MEMBER_SHIFT))
      continue;
    uint64_t base = is_pointee ? *(const uint64_t *)items.base[i] : (uint64_t)items.base[i];
    uint64_t skipped = array->host - base, most = array->below || array->above ? array->below : padding_of(SMALLEST);
    if (base <= array->host && skipped <= most) /* else it is an address that no element has */
      array->first = skipped + 1, array->below = array->below ? array->below : skipped;
  }
}

size_t owners_bytes(void) {
  known = host_memory(&block_count);
  return room_of(block_count * sizeof *blocks) + room_of(KNOWN * sizeof *unowned);
}

void owners_begin(launch_t *of, items_t items) {
  launch = of;
  blocks = room_for(block_count, sizeof *blocks);
  if (known)
    memcpy(blocks, known, block_count * sizeof *blocks);
  free(known);
  known = NULL;
  unowned = room_for(KNOWN, sizeof *unowned);
  found_small = 0;
  launch->owner = owner;
  for (uint32_t i = 0; i < launch->array_count; i++) {
    array_t *array = &launch->arrays[i];
    if (!array->host || array->host == array->device || array->is_gone)
      continue;
    note_extent(array);
    note_first(array, items);
  }
}

unsigned owners_end(void) {
  unsigned found = found_small;
  found_small = 0;
  return found;
}

/* Memory for what is known of a launch, apart from the program's heap, where a kernel that writes outside of its arrays may destroy
 * it. One launch at a time has it. It is never unmapped: who comes to it late, as a thread that plays a kernel of no image of ours,
 * or that dies, finds zeros. */
#include "recorder.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct {
  char *begin;
  size_t bytes, used;
} room;

enum { CLEARED = 256 << 10 /* up to so many bytes it is cheaper to clear memory than to get it anew */ };
#define FAR_AWAY ((void *)0x600000000000) /* from heap, libraries and stacks, where nothing else lies there already */

void take_room(size_t bytes) {
  if (bytes <= room.bytes)
    return;
  room.bytes = bytes < 2 * room.bytes ? 2 * room.bytes : bytes; /* parts that nobody touches never become memory */
  room.begin = mmap(FAR_AWAY, room.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room.begin == MAP_FAILED) {
    fprintf(stderr, "offloadrt: no memory for the %zu bytes that are kept of a launch\n", room.bytes);
    abort();
  }
}

size_t room_of(size_t bytes) { return (bytes + ROOM_LINE - 1) / ROOM_LINE * ROOM_LINE; }

void *room_for(size_t count, size_t bytes) {
  void *place = room.begin + room.used;
  room.used += room_of(count * bytes);
  return place;
}

void drop_room(void) {
  if (room.used > CLEARED)
    madvise(room.begin, room.used, MADV_DONTNEED);
  else if (room.used)
    memset(room.begin, 0, room.used);
  room.used = 0;
}

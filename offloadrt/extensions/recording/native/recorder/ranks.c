/* The slots of a rank's calls of MPI, which the library in mpi/ interposes. */
#include "recorder.h"
#include "../ranks.h"
#include <link.h>
#include <stdio.h>
#include <string.h>

#pragma GCC visibility push(default)
extern __typeof__(offload_recorder_mpi_begin) offload_recorder_mpi_begin;
extern __typeof__(offload_recorder_mpi_end) offload_recorder_mpi_end;
extern __typeof__(offload_recorder_mpi_world) offload_recorder_mpi_world;
extern __typeof__(offload_recorder_mpi_communicator) offload_recorder_mpi_communicator;
#pragma GCC visibility pop

uint64_t place_at(const char *kind, const void *caller) {
  Dl_info info;
  struct link_map *map;
  if (note_address((uint64_t)caller) && dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) && info.dli_fname) {
    line_begin(kind);
    line_number("at", (int64_t)(uint64_t)caller);
    line_text("module", *map->l_name ? map->l_name : info.dli_fname);
    line_number("offset", (int64_t)((uint64_t)caller - (uint64_t)map->l_addr));
    line_end();
  }
  return (uint64_t)caller;
}

static void put_parts(const part_t *parts, uint32_t count) {
  for (const part_t *part = parts; part < parts + count; part++) {
    slot_t *slot = next_slot();
    slot->word[0] = (uint64_t)(uint32_t)part->communicator | (uint64_t)(uint32_t)part->peer << 32;
    slot->word[1] = (uint64_t)part->tag;
    slot->word[2] = (uint64_t)part->request;
    slot->word[3] = part->bytes;
    slot->word[4] = part->address;
    slot->word[5] = part->span;
    slot->word[6] = part->blocks;
    end_slot(slot, SLOT_MPI_PART, part->kind, part->flags);
  }
}

static void put_call(enum slot_kind kind, uint64_t name, uint64_t place, const part_t *parts, uint32_t count) {
  slot_t *slot = next_slot();
  slot->word[1] = name;
  slot->word[2] = place;
  slot->word[0] = now();
  slot->word[3] = thread_cpu(slot->word[0]);
  end_slot(slot, kind, 0, count);
  put_parts(parts, count);
}

/* A loop that polls waits. Of polls that find nothing one is kept, up to the last one's end, where the program does nothing between
 * them: a wait of a second has millions. */
enum { LOOP_NS = 1000 };
static __thread size_t poll_slots; /* of a poll that found nothing; 0 of other calls */

static void join_polls(void) {
  slot_t *before = last_slots(2 * poll_slots);
  if (!before)
    return;
  slot_t *end = before + poll_slots - 1, *poll = end + 1;
  bool same = before->head == poll->head && before->word[1] == poll->word[1] && before->word[2] == poll->word[2] &&
              end->head == poll[poll_slots - 1].head && poll->word[0] - end->word[0] < LOOP_NS;
  if (same && !memcmp(before + 1, poll + 1, (poll_slots - 2) * sizeof *poll)) {
    *end = poll[poll_slots - 1];
    drop_slots(poll_slots);
  }
}

/* Until the call returns, what is allocated is the library's and not the program's. */
bool offload_recorder_mpi_begin(const char *name, const void *caller, const part_t *parts, uint32_t count) {
  start_recording();
  if (!recording() || this_thread()->inside)
    return false;
  end_interval();
  this_thread()->inside = true;
  uint64_t text = string_at(name);
  poll_slots = !strncmp(name, "MPI_Test", 8) || strstr(name, "probe") ? count + 2 : 0;
  put_call(SLOT_MPI, text, place_at("place", caller), parts, count);
  return true;
}

void offload_recorder_mpi_end(const part_t *parts, uint32_t count) {
  put_call(SLOT_MPI_END, 0, 0, parts, count);
  if (poll_slots && !count)
    join_polls();
  this_thread()->inside = false;
}

void offload_recorder_mpi_world(const char *library, int rank, int ranks, int level) {
  if (!recording())
    return;
  line_begin("mpi");
  line_text("library", library);
  line_number("rank", rank);
  line_number("ranks", ranks);
  line_number("level", level);
  line_end();
}

static void line_ranks(const char *name, const int *ranks, int count) {
  char text[1 << 16];
  int length = 0;
  text[0] = 0;
  for (int i = 0; i < count && length < (int)sizeof text - 16; i++)
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%d", i ? "," : "", ranks[i]);
  line_text(name, text);
}

void offload_recorder_mpi_communicator(int number, const char *key, const int *ranks, int count, const int *remote, int remotes) {
  if (!recording())
    return;
  line_begin("communicator");
  line_number("number", number);
  line_text("key", key);
  line_ranks("ranks", ranks, count);
  line_ranks("remote", remote, remotes);
  line_end();
}

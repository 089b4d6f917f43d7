/* The slots of a launch: its counters, and of a traced one what it did with each array and what it did wrong. */
#include "recorder.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint64_t page, pages, first, last; /* teams that touched the first and the last page first */
} run_t;
_Static_assert(sizeof(run_t) == RUN_BYTES, "room for each page");

static int by_team(const void *left, const void *right) {
  const run_t *a = left, *b = right;
  if (a->first != b->first)
    return a->first < b->first ? -1 : 1;
  return a->page < b->page ? -1 : a->page > b->page;
}

/* Joins neighbouring pages whose first teams are evenly spaced, up to one team: a kernel that streams has one run. */
static run_t *runs_of(const uint32_t *first_team, size_t pages, uint32_t *count) {
  run_t *runs = room_for(pages, sizeof *runs);
  int64_t step = 0;
  *count = 0;
  for (size_t page = 0; page < pages; page++) {
    if (!first_team[page])
      continue;
    uint64_t team = first_team[page] - 1;
    run_t *run = *count ? &runs[*count - 1] : NULL;
    if (run && run->page + run->pages == page) {
      int64_t delta = (int64_t)team - (int64_t)run->last;
      if (run->pages == 1)
        step = delta;
      if (delta >= step - 1 && delta <= step + 1) {
        run->pages++;
        run->last = team;
        continue;
      }
    }
    runs[(*count)++] = (run_t){page, 1, team, team};
  }
  if (*count > 1)
    qsort(runs, *count, sizeof *runs, by_team);
  return runs;
}

static uint64_t touched(const uint32_t *table, size_t entries) {
  uint64_t count = 0;
  for (size_t i = 0; i < entries; i++)
    count += table[i] != 0;
  return count;
}

static void put_array(const launch_t *launch, uint32_t index, run_t *const *runs, const uint32_t *run_count) {
  const array_t *array = &launch->arrays[index];
  size_t sectors = array->size / SECTOR + 2;
  slot_t *slot = next_slot();
  slot->word[0] = array->host;
  slot->word[1] = array->device;
  slot->word[2] = array->size;
  slot->word[3] = array->load_bytes;
  slot->word[4] = array->store_bytes;
  end_slot(slot, SLOT_ARRAY, index, array->is_gone);
  slot = next_slot();
  slot->word[0] = touched(array->last_team[0], sectors);
  slot->word[1] = touched(array->last_team[1], sectors);
  slot->word[2] = array->team_sectors[0];
  slot->word[3] = array->team_sectors[1];
  end_slot(slot, SLOT_SECTORS, index, 0);
  for (int way = 0; way < 2; way++)
    for (uint32_t i = 0; i < run_count[way]; i++) {
      slot = next_slot();
      slot->word[0] = runs[way][i].page;
      slot->word[1] = runs[way][i].pages;
      slot->word[2] = runs[way][i].first;
      slot->word[3] = runs[way][i].last;
      end_slot(slot, SLOT_PAGES, way ? STORES : LOADS, index);
    }
}

/* Stretches of bytes that were all loaded, all stored, all accessed atomically, or all loaded by copies only. Where they are too many, nothing is said of
 * them: the pages tell of them. */
enum { MOST_RANGES = 192, MORE_RANGES = 8192, RANGES_A_SLOT = 3, RANGE_KINDS = 4 };
static const int range_kinds[RANGE_KINDS] = {LOADS, STORES, ATOMIC_RANGE, COPIED_RANGE};
static int64_t more_ranges = MORE_RANGES;

/* Which bytes of four were accessed so, a bit for each. */
static unsigned bytes_of(unsigned touched, int kind) {
  unsigned loaded = touched & 15, stored = touched >> 4 & 15;
  if (kind == COPIED_RANGE)
    return loaded & ~(touched >> 12);
  return kind == LOADS ? loaded : kind == STORES ? stored : (loaded | stored) & ~(touched >> 8);
}

/* Returns the first byte from `byte` on that was accessed so, or not if `is_so` is false; the array's size if there is none. */
static uint64_t first_byte(const array_t *array, int kind, uint64_t byte, bool is_so) {
  for (; byte < array->size; byte = byte / 4 * 4 + 4) {
    unsigned bytes = bytes_of(array->touched[byte / 4], kind), left = (is_so ? bytes : ~bytes & 15) >> byte % 4;
    if (left && byte + (unsigned)__builtin_ctz(left) < array->size)
      return byte + (unsigned)__builtin_ctz(left);
  }
  return array->size;
}

/* Moves to the next stretch behind `end`; false: there is none. */
static bool next_range(const array_t *array, int kind, uint64_t *begin, uint64_t *end) {
  *begin = first_byte(array, kind, *end, true);
  *end = first_byte(array, kind, *begin, false);
  return *begin < *end;
}

static uint32_t count_ranges(const array_t *array, int kind) {
  uint64_t begin, end = 0;
  uint32_t count = 0;
  while ((count <= MOST_RANGES || count <= more_ranges) && next_range(array, kind, &begin, &end))
    count++;
  return tells_each(count, MOST_RANGES, &more_ranges) ? count : 0;
}

static uint32_t ranges_slots(uint32_t count) { return (count + RANGES_A_SLOT - 1) / RANGES_A_SLOT; }

static void put_ranges(uint32_t index, const array_t *array, int kind, uint32_t count) {
  uint64_t begin, end = 0;
  slot_t *slot = NULL;
  for (uint32_t i = 0; i < count && next_range(array, kind, &begin, &end); i++) {
    uint32_t place = i % RANGES_A_SLOT;
    if (!place) {
      slot = next_slot();
      memset(slot->word, 0, sizeof slot->word);
    }
    slot->word[2 * place] = begin;
    slot->word[2 * place + 1] = end;
    if (place == RANGES_A_SLOT - 1 || i == count - 1)
      end_slot(slot, SLOT_RANGES, kind, index);
  }
}

/* Says where in the program; who: its team and thread. */
static uint64_t who(const party_t *party) { return (uint64_t)party->team << 32 | party->thread; }
static uint64_t how(const party_t *party) { return (uint64_t)party->way << 32 | party->place.line; }

static void put_findings(const launch_t *launch) {
  for (uint32_t i = 0; i < launch->race_count; i++) {
    const race_t *race = &launch->races[i];
    uint64_t files[2] = {string_at(race->party[0].place.file), string_at(race->party[1].place.file)};
    const char *name = race->party[0].place.variable;
    uint64_t variable = string_at(name ? name : race->party[1].place.variable);
    slot_t *slot = next_slot();
    slot->word[0] = race->array == UINT32_MAX ? variable : race->offset;
    for (int j = 0; j < 2; j++) {
      slot->word[1 + 3 * j] = files[j];
      slot->word[2 + 3 * j] = how(&race->party[j]);
      slot->word[3 + 3 * j] = who(&race->party[j]);
    }
    end_slot(slot, SLOT_RACE, 0, race->array);
  }
  for (uint32_t i = 0; i < launch->stray_count; i++) {
    const stray_t *stray = &launch->strays[i];
    uint64_t file = string_at(stray->party.place.file);
    uint64_t name = stray->kind == STRAY_LOST || stray->kind == STRAY_UNSET ? string_at((const char *)stray->address) : 0;
    slot_t *slot = next_slot();
    slot->word[0] = name ? name : stray->address;
    slot->word[1] = file;
    slot->word[2] = how(&stray->party);
    slot->word[3] = who(&stray->party);
    slot->word[4] = stray->bytes;
    slot->word[5] = stray->array < launch->array_count ? launch->arrays[stray->array].host : 0;
    slot->word[6] = stray->array < launch->array_count ? launch->arrays[stray->array].device : 0;
    uint64_t first = stray->array < launch->array_count ? launch->arrays[stray->array].first : 0;
    end_slot(slot, SLOT_STRAY, stray->kind, (uint32_t)(first <= UINT32_MAX ? first : 0));
  }
}

static void put_launch(const launch_t *launch, uint32_t slots) {
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = this_thread()->call;
  slot->word[2] = launch->played_teams;
  slot->word[3] = launch->played_threads;
  slot->word[4] = launch->trip;
  slot->word[5] = launch->gpu_threads;
  slot->word[6] = launch->barriers;
  end_slot(slot, SLOT_LAUNCH, launch->traced, slots);
  for (uint32_t part = 0; part < COUNTS_SLOTS; part++) {
    slot = next_slot();
    for (uint32_t i = 0; i < COUNTS_PER_SLOT && part * COUNTS_PER_SLOT + i < COUNTS; i++)
      slot->word[i] = launch->counts[part * COUNTS_PER_SLOT + i];
    end_slot(slot, SLOT_COUNTS, part, 0);
  }
  if (!launch->traced)
    return;
  slot = next_slot();
  slot->word[0] = launch->warp_instructions;
  slot->word[1] = launch->warp_sectors;
  slot->word[2] = launch->warp_lanes;
  slot->word[3] = launch->other_load_bytes;
  slot->word[4] = launch->other_store_bytes;
  end_slot(slot, SLOT_WARP, 0, 0);
}

void write_launch(const launch_t *launch) {
  if (!launch->traced) {
    put_launch(launch, COUNTS_SLOTS);
    return;
  }
  uint32_t slots = COUNTS_SLOTS + 1;
  run_t *(*runs)[2] = room_for(launch->array_count + 1, sizeof *runs);
  uint32_t(*run_count)[2] = room_for(launch->array_count + 1, sizeof *run_count);
  uint32_t(*range_count)[RANGE_KINDS] = room_for(launch->array_count + 1, sizeof *range_count);
  for (uint32_t i = 0; i < launch->array_count; i++) {
    const array_t *array = &launch->arrays[i];
    if (!array->load_bytes && !array->store_bytes)
      continue;
    slots += 2;
    for (int way = 0; way < 2; way++) {
      runs[i][way] = runs_of(array->first_team[way], array->size / PAGE + 2, &run_count[i][way]);
      slots += run_count[i][way];
    }
    for (size_t kind = 0; kind < RANGE_KINDS; kind++)
      slots += ranges_slots(range_count[i][kind] = count_ranges(array, range_kinds[kind]));
  }
  put_launch(launch, slots + launch->race_count + launch->stray_count);
  for (uint32_t i = 0; i < launch->array_count; i++) {
    const array_t *array = &launch->arrays[i];
    if (array->load_bytes || array->store_bytes) {
      put_array(launch, i, runs[i], run_count[i]);
      for (size_t kind = 0; kind < RANGE_KINDS; kind++)
        put_ranges(i, array, range_kinds[kind], range_count[i][kind]);
    }
  }
  put_findings(launch);
}

/* Races inside a launch, and accesses to memory that is no array's, while a traced launch is played.
 *
 * A strand is what one thread does between two barriers of its team. Strands of one team are ordered by barriers, threads
 * of different teams by nothing, but whoever does an atomic operation knows of what was done before the bytes were last
 * released, and whoever takes a lock of what its own team did before it gave it back: OpenMP has locks and critical
 * sections exclude the threads of a contention group, which a team is. Releases are numbered (`clock`), and knowing of
 * one is taken for knowing of all before it, also by the rest of the team. So less is reported than there is, and what is
 * reported is a race: whoever came first, nothing made the other wait for it. Of four bytes the last store and two loads
 * are kept. */
#include "grid.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint32_t team, thread, phase;
} strand_t;

typedef struct {
  const void *where;
  uint32_t team; /* 0: it orders threads of all teams; else one more than the number of the team whose threads it orders */
  uint32_t released;
} lock_t;

static __thread strand_t *strands;
static __thread uint32_t strand_count, strand_room, clock;
static __thread lock_t *locks; /* a hash table of places that are no array's */
static __thread size_t lock_count, lock_room;

/* ---- variables of a team: what lies on its stack above the region that its threads run. Tiles of the stack are as arrays, but stacks
 * are used again, by other teams. ---- */
enum { TILE = 4096, SINGLE_TEAM = 512 << 10 /* how far above its region variables of a kernel without teams lie at most */ };
static __thread array_t *tiles; /* a hash table by the address */
static __thread size_t tile_count, tile_room;

static void forget_variables(void) {
  for (size_t i = 0; i < tile_room; i++)
    free(tiles[i].cells);
  free(tiles);
  tiles = NULL;
  tile_count = tile_room = 0;
}

static array_t *tile_at(uint64_t address) {
  if (tile_count * 2 >= tile_room) {
    array_t *old = tiles;
    size_t old_room = tile_room;
    tile_room = old_room ? old_room * 2 : 16;
    tiles = calloc(tile_room, sizeof *tiles);
    tile_count = 0;
    for (size_t i = 0; i < old_room; i++)
      if (old[i].cells)
        *tile_at(old[i].device) = old[i];
    free(old);
  }
  size_t at = (address / TILE * 0x9e3779b97f4a7c15u >> 32) & (tile_room - 1);
  while (tiles[at].device && tiles[at].device != address)
    at = (at + 1) & (tile_room - 1);
  tile_count += !tiles[at].device;
  tiles[at].device = address;
  return &tiles[at];
}

static bool is_of_team(const array_t *array) { return array >= tiles && array < tiles + tile_room; }

DEVICE void conflicts_begin(void) {
  grid_t *grid = this_grid();
  strand_count = 1; /* 0 is none */
  clock = 0;
  if (locks)
    memset(locks, 0, lock_room * sizeof *locks);
  forget_variables();
  lock_count = 0;
  grid->current->strand = 0;
  grid->single.seen = 0;
}

DEVICE void know_all(team_t *team) { team->seen = ++clock; }

/* The thread of OpenMP: where each iteration is played as a thread, those of one thread have the same number. */
static uint32_t thread_of(const fiber_t *fiber) {
  return fiber->team->size > 1 ? fiber->thread % fiber->team->size : fiber->thread;
}

static uint32_t strand_of(fiber_t *self) {
  strand_t now = {self->team->number, thread_of(self), self->team->phase};
  if (self->strand && self->strand < strand_count && !memcmp(&strands[self->strand], &now, sizeof now))
    return self->strand;
  if (strand_count >= strand_room) {
    strand_room = strand_room * 2 + 1024;
    strands = realloc(strands, strand_room * sizeof *strands);
  }
  strands[strand_count] = now;
  return self->strand = strand_count++;
}

static lock_t *lock_at(const void *where, uint32_t team) {
  if (lock_count * 2 >= lock_room) {
    lock_t *old = locks;
    size_t old_room = lock_room;
    lock_room = old_room ? old_room * 2 : 64;
    locks = calloc(lock_room, sizeof *locks);
    lock_count = 0;
    for (size_t i = 0; i < old_room; i++)
      if (old[i].where)
        *lock_at(old[i].where, old[i].team) = old[i];
    free(old);
  }
  size_t at = (((uint64_t)where + team) * 0x9e3779b97f4a7c15u >> 32) & (lock_room - 1);
  while (locks[at].where && (locks[at].where != where || locks[at].team != team))
    at = (at + 1) & (lock_room - 1);
  lock_count += !locks[at].where;
  locks[at].where = where;
  locks[at].team = team;
  return &locks[at];
}

static void meet(uint32_t *released, bool acquires, bool releases) {
  team_t *team = this_team();
  if (acquires && *released > team->seen)
    team->seen = *released;
  if (releases)
    *released = ++clock;
}

/* An atomic operation or a reduction: whoever acquires knows of what was done before the last release. */
DEVICE void synchronize(void *where, bool acquires, bool releases) {
  if (this_grid()->launch->traced)
    meet(&lock_at(where, 0)->released, acquires, releases);
}

/* The same of a lock or a critical section, which orders the threads of one team. */
DEVICE void synchronize_team(void *where, bool acquires, bool releases) {
  if (this_grid()->launch->traced)
    meet(&lock_at(where, this_team()->number + 1)->released, acquires, releases);
}

static bool is_ordered(const array_t *array, const mark_t *mark, uint32_t strand, uint32_t seen) {
  const strand_t *before = &strands[mark->strand], *now = &strands[strand];
  if (mark->when < seen || (is_of_team(array) && before->team != now->team))
    return true;
  return before->team == now->team && (before->thread == now->thread || before->phase != now->phase);
}

static party_t party_of(const mark_t *mark, uint32_t way) {
  const strand_t *strand = &strands[mark->strand];
  return (party_t){place_of(mark->site), mark->site, way | (mark->synchronizes ? SYNC : 0), strand->team, strand->thread};
}

/* Whether it is told already that what is written there is a copy that nobody uses. */
static bool is_lost(uint32_t site) {
  const launch_t *launch = this_grid()->launch;
  for (uint32_t i = 0; i < launch->stray_count; i++)
    if (launch->strays[i].kind == STRAY_LOST && launch->strays[i].party.place.line == place_of(site).line)
      return true;
  return false;
}

/* The last race that is not the only one of its array; FINDINGS: there is none. */
static uint32_t last_of_several(const launch_t *launch) {
  for (uint32_t last = FINDINGS; last-- > 1;)
    for (uint32_t i = 0; i < last; i++)
      if (launch->races[i].array == launch->races[last].array)
        return last;
  return FINDINGS;
}

static void report(array_t *array, uint64_t offset, uint64_t bytes, const mark_t *before, uint32_t way, const mark_t *now,
                   uint32_t now_way) {
  launch_t *launch = this_grid()->launch;
  uint32_t index = is_of_team(array) ? UINT32_MAX : (uint32_t)(array - launch->arrays);
  if (index == UINT32_MAX && (is_lost(before->site) || is_lost(now->site)))
    return;
  bool is_first = true;
  for (uint32_t i = 0; i < launch->race_count; i++) {
    const race_t *race = &launch->races[i];
    is_first &= race->array != index;
    uint32_t first = race->party[0].site, second = race->party[1].site;
    if (race->array == index && ((first == before->site && second == now->site) || (first == now->site && second == before->site)))
      return;
  }
  uint32_t at = launch->race_count < FINDINGS ? launch->race_count++ : is_first ? last_of_several(launch) : FINDINGS;
  if (at < FINDINGS) /* where there is no room, the first race of an array takes the place of a further one of another */
    launch->races[at] = (race_t){index, offset, bytes, {party_of(before, way), party_of(now, now_way)}};
}

static void compare(array_t *array, uint64_t cell, const mark_t *mark, uint32_t way, const mark_t *now, uint32_t now_way) {
  if (!mark->strand || !(mark->bytes & now->bytes) || (mark->synchronizes && now->synchronizes) ||
      mark->strand == now->strand || is_ordered(array, mark, now->strand, this_team()->seen))
    return;
  report(array, cell * 4, 4, mark, way, now, now_way);
}

static void keep(mark_t *mark, const mark_t *now) {
  uint8_t bytes = mark->strand == now->strand ? mark->bytes : 0;
  *mark = *now;
  mark->bytes |= bytes;
}

static void keep_load(const array_t *array, cell_t *cell, const mark_t *now) {
  mark_t *first = &cell->read[0];
  bool replaces = !first->strand || first->strand == now->strand || is_ordered(array, first, now->strand, this_team()->seen);
  keep(replaces ? first : &cell->read[1], now);
}

DEVICE void find_conflicts(array_t *array, uint64_t offset, uint64_t bytes, uint32_t way, uint32_t site) {
  if (!array->cells || !bytes) {
    if (way & SYNC)
      synchronize((char *)array->device + offset, way & LOADS, way & STORES);
    return;
  }
  fiber_t *self = this_grid()->current;
  uint32_t strand = strand_of(self);
  cell_t *of_all = &array->cells[offset / 4];
  if (way & SYNC)
    meet(&of_all->released, way & LOADS, false);
  for (uint64_t number = offset / 4; number <= (offset + bytes - 1) / 4; number++) {
    cell_t *cell = &array->cells[number];
    uint64_t low = number * 4 < offset ? offset - number * 4 : 0;
    uint64_t high = number * 4 + 4 > offset + bytes ? offset + bytes - number * 4 : 4;
    mark_t now = {strand, clock, site, (uint8_t)((1 << high) - (1 << low)), (way & SYNC) != 0};
    compare(array, number, &cell->write, STORES, &now, way);
    if (!(way & STORES)) {
      keep_load(array, cell, &now);
      continue;
    }
    compare(array, number, &cell->read[0], LOADS, &now, way);
    compare(array, number, &cell->read[1], LOADS, &now, way);
    keep(&cell->write, &now);
  }
  if (way & SYNC)
    meet(&of_all->released, false, way & STORES);
}

/* Returns whether the address is one of a variable that the threads of the region share. */
static bool find_in_team(uint64_t address, uint64_t bytes, uint32_t way, uint32_t site) {
  const team_t *team = this_team();
  uint64_t top = team->top ? team->top : team->frame + SINGLE_TEAM;
  if (!this_grid()->current->level || !team->frame || address < team->frame || address >= top)
    return false;
  for (uint64_t at = address, end = address + bytes, next; at < end; at = next) {
    array_t *tile = tile_at(at / TILE * TILE);
    if (!tile->cells)
      tile->cells = calloc(TILE / 4, sizeof *tile->cells);
    next = (at / TILE + 1) * TILE < end ? (at / TILE + 1) * TILE : end;
    find_conflicts(tile, at - tile->device, next - at, way, site);
  }
  return true;
}

/* ---- memory that is no array's ---- */

/* Room for a further one; where there is none, the first one of a kind and an array takes that of one which is not the only one of its. */
static void put_stray(stray_t stray) {
  launch_t *launch = this_grid()->launch;
  uint32_t count = launch->stray_count;
  bool is_first = true;
  for (uint32_t i = 0; i < count; i++)
    is_first &= launch->strays[i].kind != stray.kind || launch->strays[i].array != stray.array;
  if (count < FINDINGS)
    launch->strays[launch->stray_count++] = stray;
  for (uint32_t last = count; count == FINDINGS && is_first && last-- > 1;)
    for (uint32_t i = 0; is_first && i < last; i++)
      if (launch->strays[i].kind == launch->strays[last].kind && launch->strays[i].array == launch->strays[last].array)
        launch->strays[last] = stray, is_first = false;
}

static void add_stray(uint32_t kind, const array_t *array, uint64_t address, uint64_t bytes, uint32_t way, uint32_t site) {
  launch_t *launch = this_grid()->launch;
  for (uint32_t i = 0; i < launch->stray_count; i++)
    if (launch->strays[i].party.site == site && launch->strays[i].kind == kind)
      return;
  put_stray((stray_t){kind, array ? (uint32_t)(array - launch->arrays) : UINT32_MAX, address, bytes,
                      {place_of(site), site, way, this_team()->number, thread_of(this_grid()->current)}});
}

/* How many bytes at an array are nobody's. Of a block of the host's own heap it is the word that the heap has between any two. */
static bool is_of_heap(const array_t *array) { return array->host && array->host == array->device; }
static uint64_t room_behind(const array_t *array) {
  return array->padded ? padding_of(array->size) : is_of_heap(array) ? sizeof(size_t) : 0;
}
static uint64_t room_before(const array_t *array) {
  return array->padded ? 2 * sizeof(size_t) : is_of_heap(array) ? sizeof(size_t) : 0;
}

DEVICE void find_stray(const array_t *before, const array_t *after, uint64_t address, uint64_t bytes, uint32_t way,
                       uint32_t site) {
  launch_t *launch = this_grid()->launch;
  uint32_t kind = 0, index = UINT32_MAX;
  const array_t *array = NULL;
  if (before && address - (before->device + before->size) < room_behind(before))
    kind = STRAY_AFTER, array = before;
  else if (after && after->device - address <= room_before(after))
    kind = STRAY_BEFORE, array = after;
  else if (launch->owner && (kind = launch->owner(address, &index)))
    array = index == UINT32_MAX ? NULL : &launch->arrays[index];
  else if (find_in_team(address, bytes, way, site))
    return;
  if (way & SYNC && !kind)
    synchronize((void *)address, way & LOADS, way & STORES);
  if (kind)
    add_stray(kind, array, address, bytes, way, site);
}

/* An access beside several arrays is put down to the one that its instruction uses elsewhere in the launch, and no other. */
DEVICE void settle_strays(uint32_t (*only_array)(uint32_t site)) {
  launch_t *launch = this_grid()->launch;
  for (uint32_t i = 0; i < launch->stray_count; i++) {
    stray_t *stray = &launch->strays[i];
    uint32_t index = stray->kind <= STRAY_HOST ? only_array(stray->party.site) : UINT32_MAX;
    if (index == UINT32_MAX)
      continue;
    const array_t *array = &launch->arrays[index];
    uint64_t low = array->device - array->below - room_before(array);
    if (stray->address - low < array->device + array->size + array->above + room_behind(array) - low)
      stray->array = index, stray->kind = stray->address < array->device ? STRAY_BEFORE : STRAY_AFTER;
    for (uint32_t j = 0; j < i; j++)
      if (launch->strays[j].party.site == stray->party.site && launch->strays[j].kind == stray->kind) {
        *stray = launch->strays[--launch->stray_count];
        i--;
        break;
      }
  }
}

static void add_variable(uint32_t kind, const char *name, party_t party) {
  launch_t *launch = this_grid()->launch;
  for (uint32_t i = 0; i < launch->stray_count; i++)
    if (launch->strays[i].kind == kind && launch->strays[i].address == (uintptr_t)name && launch->strays[i].party.place.line == party.place.line)
      return;
  put_stray((stray_t){kind, UINT32_MAX, (uintptr_t)name, 0, party});
}

/* The kernel, in all its threads, computes something that nobody uses: see lost.cpp of the plugin. */
DEVICE void __offload_lost(const char *name, const char *file, uint32_t line);
DEVICE void __offload_lost(const char *name, const char *file, uint32_t line) {
  if (this_grid()->launch && this_grid()->launch->traced)
    add_variable(STRAY_LOST, name, (party_t){{file, line, NULL}, 0, STORES, 0, 0});
}

/* The thread reads a variable of its own that nobody has written: see unset.cpp of the plugin. */
DEVICE void __offload_unset(const char *name, const char *file, uint32_t line);
DEVICE void __offload_unset(const char *name, const char *file, uint32_t line) {
  if (this_grid()->launch && this_grid()->launch->traced)
    add_variable(STRAY_UNSET, name, (party_t){{file, line, NULL}, 0, LOADS, this_team()->number, thread_of(this_grid()->current)});
}

DEVICE void find_freed(const array_t *array, uint64_t address, uint64_t bytes, uint32_t way, uint32_t site) {
  add_stray(STRAY_FREED, array, address, bytes, way, site);
}

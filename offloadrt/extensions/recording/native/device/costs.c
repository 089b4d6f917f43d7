/* The costs of a launch: the counters of the plugin's table, and in a traced launch each access put down to its array. */
#define _GNU_SOURCE
#include "../descriptors.h"
#include "grid.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct module {
  uint64_t *counters;
  const int64_t *rows;
  uint64_t count;
  const place_t *places; /* of its sites */
  uint32_t first_site, site_count;
  struct module *next;
} module_t;

/* A variable of the image, as the compiler's plugin lists them. */
typedef struct {
  void *address;
  uint64_t bytes;
  const char *name;
} variable_t;

/* The accesses of one warp by one instruction. A lane that runs it again (a loop) begins the next round. */
enum { ROUNDS = 16 };
typedef struct {
  uint32_t team, warp, phase; /* of the warp that is seen */
  uint32_t lane, round;
  uint32_t lanes[ROUNDS], sector_count[ROUNDS];
  uint64_t sectors[ROUNDS][WARP];
  bool used;
  uint32_t array; /* that was met last */
  uint32_t only;  /* 1 + the array that it has met; 0: none; UINT32_MAX: several */
} site_t;

DEVICE int32_t __offload_traced, __offload_entered;
static module_t *modules;
static uint32_t site_count = 1, site_room;
static site_t *sites;

DEVICE void __offload_register(uint64_t *counters, const int64_t *rows, uint64_t count, uint32_t *first_site, uint64_t accesses,
                               const place_t *places, const variable_t *variables, uint64_t variable_count);
DEVICE void __offload_access(void *, uint32_t, uint32_t);
DEVICE void __offload_count_range(void *, uint64_t, uint32_t);
DEVICE void __offload_access_range(void *, uint64_t, uint32_t, uint32_t);
DEVICE void __offload_described(const descriptor_t *, uint32_t, uint32_t);

static void count_warp(site_t *site) {
  launch_t *launch = this_grid()->launch;
  for (int round = 0; round < ROUNDS && site->lanes[round]; round++) {
    launch->warp_instructions++;
    launch->warp_lanes += site->lanes[round];
    launch->warp_sectors += site->sector_count[round];
    site->lanes[round] = site->sector_count[round] = 0;
  }
}

/* ---- the recorder's calls ---- */
static void begin(launch_t *launch) {
  grid_t *grid = this_grid();
  grid->launch = launch;
  grid->threads = launch->threads ? launch->threads : DEFAULT_THREADS;
  grid->shortened = false;
  grid->asked_teams = grid->asked_limit = 0;
  for (module_t *module = modules; module; module = module->next)
    memset(module->counters, 0, module->count * sizeof *module->counters);
  if (launch->traced && site_room < site_count) {
    sites = realloc(sites, site_count * sizeof *sites);
    memset(sites + site_room, 0, (site_count - site_room) * sizeof *sites);
    site_room = site_count;
  }
  if (launch->traced)
    conflicts_begin();
  __offload_traced = (int32_t)launch->traced;
  __offload_entered = 0;
}

static uint32_t only_array(uint32_t site) { return sites[site].only < UINT32_MAX ? sites[site].only - 1 : UINT32_MAX; }

static void end(void) {
  grid_t *grid = this_grid();
  launch_t *launch = grid->launch;
  launch->entered |= (uint32_t)__offload_entered;
  for (module_t *module = modules; module; module = module->next)
    for (uint64_t block = 0; block < module->count; block++)
      for (int column = 0; module->counters[block] && column < COUNTS; column++)
        launch->counts[column] += module->counters[block] * (uint64_t)module->rows[block * COUNTS + (uint64_t)column];
  if (launch->traced)
    settle_strays(only_array);
  for (uint32_t i = 1; launch->traced && i < site_count; i++) {
    count_warp(&sites[i]);
    sites[i].used = false;
    sites[i].only = 0;
  }
  /* A kernel without teams and regions has one thread. */
  launch->played_teams += !launch->played_teams;
  launch->played_threads += !launch->played_threads;
  if (launch->gpu_threads < launch->played_teams)
    launch->gpu_threads = launch->played_teams;
  __offload_traced = 0;
  grid->launch = &grid->unrecorded;
}

/* Called by a constructor of each module of the image. */
DEVICE void __offload_register(uint64_t *counters, const int64_t *rows, uint64_t count, uint32_t *first_site,
                               uint64_t accesses, const place_t *places,
                               const variable_t *variables, uint64_t variable_count) {
  module_t *module = malloc(sizeof *module);
  *module = (module_t){counters, rows, count, places, site_count, (uint32_t)accesses, modules};
  *first_site = site_count;
  site_count += (uint32_t)accesses;
  if (!modules) {
    void (*announce)(const image_t *, uint64_t) =
        (void (*)(const image_t *, uint64_t))dlsym(RTLD_DEFAULT, "offload_recorder_register");
    if (announce)
      announce(&(image_t){begin, end}, LAYOUT);
  }
  modules = module;
  void (*tell)(void *, uint64_t, const char *) =
      (void (*)(void *, uint64_t, const char *))dlsym(RTLD_DEFAULT, "offload_recorder_device_variable");
  for (uint64_t i = 0; tell && i < variable_count; i++)
    tell(variables[i].address, variables[i].bytes, variables[i].name);
}

DEVICE place_t place_of(uint32_t site) {
  for (const module_t *module = modules; module; module = module->next)
    if (site - module->first_site < module->site_count)
      return module->places[site - module->first_site];
  return (place_t){0};
}

/* ---- accesses ---- */
/* Counts the arrays that begin at or before an address. */
static uint32_t arrays_up_to(const launch_t *launch, uint64_t address) {
  uint32_t low = 0, high = launch->array_count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (launch->arrays[middle].device <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static array_t *array_at(launch_t *launch, uint64_t address, uint32_t *last) {
  if (*last < launch->array_count && address - launch->arrays[*last].device < launch->arrays[*last].size)
    return &launch->arrays[*last];
  uint32_t low = arrays_up_to(launch, address);
  if (!low || address - launch->arrays[low - 1].device >= launch->arrays[low - 1].size)
    return NULL;
  *last = low - 1;
  return &launch->arrays[low - 1];
}

static void touch(array_t *array, uint64_t address, uint64_t bytes, int way, uint32_t how, uint32_t team) {
  uint64_t offset = address - array->device;
  bool own = way == 0; /* a load of what this launch has stored: its pages are those of the store */
  for (uint64_t word = offset / 4; word <= (offset + bytes - 1) / 4; word++) {
    unsigned after = word == (offset + bytes - 1) / 4 ? 3 - (offset + bytes - 1) % 4 : 0;
    unsigned here = (15u << (word == offset / 4 ? offset % 4 : 0)) & 15u >> after, bits = array->touched[word];
    bits |= (way ? here << 4 : here & ~(bits >> 4)) | (how & SYNC ? 0 : here << 8) | (way || how & COPIES ? 0 : here << 12);
    array->touched[word] = (uint16_t)bits;
  }
  for (uint64_t sector = offset / SECTOR; sector <= (offset + bytes - 1) / SECTOR; sector++) {
    own = own && array->last_team[1][sector];
    if (array->last_team[way][sector] != team + 1) {
      array->last_team[way][sector] = team + 1;
      array->team_sectors[way]++;
    }
  }
  if (own)
    return;
  /* Pages are those of the host's array, which need not begin with a page. */
  uint64_t in_page = (array->host ? array->host : array->device) % PAGE + offset;
  for (uint64_t page = in_page / PAGE; page <= (in_page + bytes - 1) / PAGE; page++)
    if (!array->first_team[way][page])
      array->first_team[way][page] = team + 1;
}

/* What is no array's may be a variable of the image or of a stack, or the device's heap; it may also be a mistake. */
static void stray(launch_t *launch, uint64_t address, uint64_t bytes, uint32_t way, uint32_t number) {
  uint32_t low = arrays_up_to(launch, address);
  find_stray(low ? &launch->arrays[low - 1] : NULL, low < launch->array_count ? &launch->arrays[low] : NULL, address, bytes,
             way, number);
}

static array_t *put_down(uint64_t address, uint64_t bytes, uint32_t way, uint32_t *last, uint32_t number) {
  launch_t *launch = this_grid()->launch;
  array_t *array = array_at(launch, address, last);
  uint32_t met = array ? (uint32_t)(array - launch->arrays) + 1 : 0, *only = &sites[number].only;
  if (met)
    *only = *only && *only != met ? UINT32_MAX : met;
  uint32_t team = this_team()->number;
  launch->last_address = address;
  launch->last = (party_t){{0}, number, way, team, this_grid()->current->thread};
  launch->place_of = place_of;
  uint64_t inside = array ? array->device + array->size - address : 0;
  if (array && bytes > inside) {
    find_stray(array, NULL, address + inside, bytes - inside, way, number);
    bytes = inside; /* the program runs over the array's end */
  }
  if (array && array->is_gone)
    find_freed(array, address, bytes, way, number);
  if (array)
    find_conflicts(array, address - array->device, bytes, way, number);
  else
    stray(launch, address, bytes, way, number);
  if (way & LOADS) {
    *(array ? &array->load_bytes : &launch->other_load_bytes) += bytes;
    if (array)
      touch(array, address, bytes, 0, way, team);
  }
  if (way & STORES) {
    *(array ? &array->store_bytes : &launch->other_store_bytes) += bytes;
    if (array)
      touch(array, address, bytes, 1, way, team);
  }
  return array;
}

DEVICE void __offload_access(void *pointer, uint32_t bytes_and_way, uint32_t number) {
  grid_t *grid = this_grid();
  site_t *site = &sites[number];
  const fiber_t *self = grid->current;
  uint64_t address = (uint64_t)pointer;
  if (!put_down(address, bytes_and_way & 0xffff, bytes_and_way >> 16, &site->array, number))
    return;
  uint32_t warp = self->thread / WARP;
  if (!site->used || site->team != self->team->number || site->warp != warp || site->phase != self->team->phase) {
    count_warp(site);
    site->team = self->team->number;
    site->warp = warp;
    site->phase = self->team->phase;
    site->lane = self->thread;
    site->round = 0;
    site->used = true;
  } else if (site->lane != self->thread) {
    site->lane = self->thread;
    site->round = 0;
  } else if (++site->round == ROUNDS) { /* the lane goes far: this counts its rounds so far as the warp's */
    count_warp(site);
    site->round = 0;
  }
  uint32_t round = site->round, count = site->sector_count[round];
  uint64_t sector = address / SECTOR;
  site->lanes[round]++;
  for (uint32_t i = count; i-- > 0;)
    if (site->sectors[round][i] == sector)
      return;
  if (count < WARP)
    site->sectors[round][site->sector_count[round]++] = sector;
}

DEVICE void __offload_count_range(void *pointer, uint64_t bytes, uint32_t way) {
  launch_t *launch = this_grid()->launch;
  (void)pointer;
  launch->counts[way & LOADS ? COUNT_LOADS : COUNT_STORES] += (bytes + 15) / 16; /* as accesses of 16 bytes */
  launch->counts[way & LOADS ? COUNT_LOAD_BYTES : COUNT_STORE_BYTES] += bytes;
}

DEVICE void __offload_access_range(void *pointer, uint64_t bytes, uint32_t way, uint32_t number) {
  uint32_t last = 0;
  __offload_count_range(pointer, bytes, way);
  if (bytes)
    put_down((uint64_t)pointer, bytes, way, &last, number);
}

typedef struct {
  uint32_t way, number;
} described_t;

static void take_range(uint64_t address, uint64_t bytes, const void *context) {
  const described_t *access = context;
  if (access->number)
    __offload_access_range((void *)address, bytes, access->way, access->number);
  else
    __offload_count_range((void *)address, bytes, access->way);
}

/* Called around a routine of flang's runtime that reads or writes an array; number 0: in a launch that is not traced. */
DEVICE void __offload_described(const descriptor_t *array, uint32_t way, uint32_t number) {
  if (array && array->base)
    each_range(array, array->rank - 1, array->base, take_range, &(described_t){way, number});
}

/* What each launch of a kernel costs: the device runtime counts, this file decides what is traced and writes the slots.
 *
 * Every launch has counters. The first launches of each kernel and shape (OFFLOADRT_SAMPLES) are traced as well: each access is
 * put down to its array. A launch whose counters differ from those of the earlier ones has the next one traced. */
#include "recorder.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 64, TOLERANCE = 8 /* counters may differ by one part in so many */ };

typedef struct {
  void *kernel;
  int64_t teams, threads;
  uint64_t trip;
  unsigned to_trace;            /* how many launches more are traced */
  bool has_reference, asks_who;
  uint64_t reference[COUNTS];   /* of an untraced launch */
} shape_t;

typedef struct {
  uint64_t device, host, size;
} block_t;

static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER; /* blocks and shapes */
static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER; /* one kernel at a time: the counters of an image are global */
static block_t *blocks;
static size_t block_count, block_room;
static shape_t **shapes; /* pointers, for a shape stays in place while its kernel runs */
static size_t shape_count;
static image_t images[IMAGES];
static size_t image_count;
static __thread launch_t launch;
static __thread shape_t *shape; /* of the kernel call that this thread is in; NULL: none */
static __thread bool submitted;

/* Called by an image of the wrapper as it is loaded. */
EXPORT void offload_recorder_image(const image_t *image);
EXPORT void offload_recorder_image(const image_t *image) {
  pthread_mutex_lock(&tables);
  if (image_count < IMAGES)
    images[image_count++] = *image;
  else
    fprintf(stderr, "offloadrt: more than %d device images: the kernels of the others have no costs\n", IMAGES);
  pthread_mutex_unlock(&tables);
}

void array_allocated(uint64_t address, uint64_t host, uint64_t size) {
  pthread_mutex_lock(&tables);
  if (block_count == block_room) {
    block_room = block_room * 2 + 64;
    blocks = realloc(blocks, block_room * sizeof *blocks);
  }
  size_t at = block_count++;
  for (; at && blocks[at - 1].device > address; at--)
    blocks[at] = blocks[at - 1];
  blocks[at] = (block_t){address, host, size};
  pthread_mutex_unlock(&tables);
}

void array_freed(uint64_t address) {
  pthread_mutex_lock(&tables);
  for (size_t i = 0; i < block_count; i++)
    if (blocks[i].device == address) {
      memmove(blocks + i, blocks + i + 1, (--block_count - i) * sizeof *blocks);
      break;
    }
  pthread_mutex_unlock(&tables);
}

static shape_t *shape_of(void *kernel, int64_t teams, int64_t threads, uint64_t trip) {
  shape_t *found;
  pthread_mutex_lock(&tables);
  for (size_t i = 0; i < shape_count; i++) {
    found = shapes[i];
    if (found->kernel == kernel && found->teams == teams && found->threads == threads && found->trip == trip)
      goto done;
  }
  if ((shape_count & (shape_count - 1)) == 0)
    shapes = realloc(shapes, (shape_count ? shape_count * 2 : 1) * sizeof *shapes);
  found = calloc(1, sizeof *found);
  const char *samples = getenv("OFFLOADRT_SAMPLES");
  *found = (shape_t){.kernel = kernel, .teams = teams, .threads = threads, .trip = trip,
                     .to_trace = samples ? (unsigned)atoi(samples) : 1};
  shapes[shape_count++] = found;
done:
  pthread_mutex_unlock(&tables);
  return found;
}

void launch_called(void *kernel, int64_t teams, int64_t threads, uint64_t trip) {
  shape = image_count || recording() ? shape_of(kernel, teams, threads, trip) : NULL;
}

void launch_left(void) { shape = NULL; }

static void take_arrays(void) {
  pthread_mutex_lock(&tables);
  launch.arrays = calloc(block_count + 1, sizeof *launch.arrays);
  launch.array_count = (uint32_t)block_count;
  for (size_t i = 0; i < block_count; i++) {
    array_t *array = &launch.arrays[i];
    *array = (array_t){.device = blocks[i].device, .host = blocks[i].host, .size = blocks[i].size};
    for (int way = 0; way < 2; way++) { /* untouched parts of these tables never become memory */
      array->last_team[way] = calloc(array->size / SECTOR + 2, 4);
      array->first_team[way] = calloc(array->size / PAGE + 2, 4);
    }
  }
  pthread_mutex_unlock(&tables);
}

static void drop_arrays(void) {
  for (uint32_t i = 0; i < launch.array_count; i++)
    for (int way = 0; way < 2; way++) {
      free(launch.arrays[i].last_team[way]);
      free(launch.arrays[i].first_team[way]);
    }
  free(launch.arrays);
  launch.arrays = NULL;
  launch.array_count = 0;
}

void submit_begin(void) {
  if (!shape || !image_count || submitted)
    return;
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  pthread_mutex_lock(&device);
  submitted = true;
  memset(&launch, 0, sizeof launch);
  launch.teams = shape->teams > 0 ? (uint32_t)shape->teams : 0;
  launch.threads = shape->threads > 0 ? (uint32_t)shape->threads : 0;
  launch.trip = shape->trip;
  launch.traced = shape->to_trace > 0;
  launch.may_shorten = !shape->asks_who;
  if (launch.traced)
    take_arrays();
  this_thread()->inside = was_inside;
  for (size_t i = 0; i < image_count; i++)
    images[i].begin(&launch);
}

static bool differs(const uint64_t *counts, const uint64_t *reference) {
  for (int i = 0; i < COUNTS; i++) {
    uint64_t more = counts[i] > reference[i] ? counts[i] - reference[i] : reference[i] - counts[i];
    if (more > reference[i] / TOLERANCE + 64)
      return true;
  }
  return false;
}

static void plan_next(void) {
  pthread_mutex_lock(&tables);
  shape->asks_who |= launch.asked_who != 0;
  if (launch.traced)
    shape->to_trace -= shape->to_trace > 0;
  else if (!shape->has_reference || differs(launch.counts, shape->reference)) {
    shape->to_trace += shape->has_reference;
    shape->has_reference = true;
    memcpy(shape->reference, launch.counts, sizeof shape->reference);
  }
  pthread_mutex_unlock(&tables);
}

/* ---- slots ---- */
typedef struct {
  uint64_t page, pages, first, last; /* teams that touched the first and the last page first */
} run_t;

static int by_team(const void *left, const void *right) {
  const run_t *a = left, *b = right;
  if (a->first != b->first)
    return a->first < b->first ? -1 : 1;
  return a->page < b->page ? -1 : a->page > b->page;
}

/* Joins neighbouring pages whose first teams are evenly spaced, up to one team: a kernel that streams has one run. */
static run_t *runs_of(const uint32_t *first_team, size_t pages, uint32_t *count) {
  run_t *runs = NULL;
  size_t room = 0;
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
    if (*count == room) {
      room = room * 2 + 16;
      runs = realloc(runs, room * sizeof *runs);
    }
    runs[(*count)++] = (run_t){page, 1, team, team};
  }
  if (runs)
    qsort(runs, *count, sizeof *runs, by_team);
  return runs;
}

static uint64_t touched(const uint32_t *table, size_t entries) {
  uint64_t count = 0;
  for (size_t i = 0; i < entries; i++)
    count += table[i] != 0;
  return count;
}

static void put_array(uint32_t index, run_t *const *runs, const uint32_t *run_count) {
  const array_t *array = &launch.arrays[index];
  size_t sectors = array->size / SECTOR + 2;
  slot_t *slot = next_slot();
  slot->word[0] = array->host;
  slot->word[1] = array->device;
  slot->word[2] = array->size;
  slot->word[3] = array->load_bytes;
  slot->word[4] = array->store_bytes;
  end_slot(slot, SLOT_ARRAY, index, 0);
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

static void put_launch(uint32_t slots) {
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = this_thread()->call;
  slot->word[2] = launch.played_teams;
  slot->word[3] = launch.played_threads;
  slot->word[4] = launch.trip;
  slot->word[5] = launch.gpu_threads;
  slot->word[6] = launch.barriers;
  end_slot(slot, SLOT_LAUNCH, launch.traced, slots);
  for (uint32_t part = 0; part < COUNTS_SLOTS; part++) {
    slot = next_slot();
    for (uint32_t i = 0; i < COUNTS_PER_SLOT && part * COUNTS_PER_SLOT + i < COUNTS; i++)
      slot->word[i] = launch.counts[part * COUNTS_PER_SLOT + i];
    end_slot(slot, SLOT_COUNTS, part, 0);
  }
  if (!launch.traced)
    return;
  slot = next_slot();
  slot->word[0] = launch.warp_instructions;
  slot->word[1] = launch.warp_sectors;
  slot->word[2] = launch.warp_lanes;
  slot->word[3] = launch.other_load_bytes;
  slot->word[4] = launch.other_store_bytes;
  end_slot(slot, SLOT_WARP, 0, 0);
}

static void write_launch(void) {
  if (!launch.traced) {
    put_launch(COUNTS_SLOTS);
    return;
  }
  uint32_t slots = COUNTS_SLOTS + 1;
  run_t *(*runs)[2] = calloc(launch.array_count + 1, sizeof *runs);
  uint32_t(*run_count)[2] = calloc(launch.array_count + 1, sizeof *run_count);
  for (uint32_t i = 0; i < launch.array_count; i++) {
    array_t *array = &launch.arrays[i];
    if (!array->load_bytes && !array->store_bytes)
      continue;
    for (int way = 0; way < 2; way++)
      runs[i][way] = runs_of(array->first_team[way], array->size / PAGE + 2, &run_count[i][way]);
    slots += 2 + run_count[i][0] + run_count[i][1];
  }
  put_launch(slots);
  for (uint32_t i = 0; i < launch.array_count; i++) {
    if (launch.arrays[i].load_bytes || launch.arrays[i].store_bytes)
      put_array(i, runs[i], run_count[i]);
    free(runs[i][0]);
    free(runs[i][1]);
  }
  free(runs);
  free(run_count);
}

static bool was_counted(void) {
  for (int i = 0; i < COUNTS; i++)
    if (launch.counts[i])
      return true;
  return false;
}

void submit_end(void) {
  if (!submitted)
    return;
  for (size_t i = 0; i < image_count; i++)
    images[i].end();
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  if (was_counted()) /* else the kernel is of an image that the wrapper did not make */
    write_launch();
  plan_next();
  drop_arrays();
  submitted = false;
  pthread_mutex_unlock(&device);
  this_thread()->inside = was_inside;
}

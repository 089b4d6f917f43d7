/* What each launch of a kernel costs: the device runtime counts, this file decides what is traced and writes the slots.
 *
 * Every launch has counters. The first launches of each kernel and shape (OFFLOADRT_SAMPLES) are traced as well: each access is
 * put down to its array. A launch whose counters differ from those of the earlier ones has the next one traced. */
#include "recorder.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GONE = 256 /* blocks that were freed and are remembered */, IMAGES = 64, TOLERANCE = 8 /* counters may differ by one part in so many */ };

typedef struct {
  void *kernel;
  int64_t teams, threads;
  uint64_t trip;
  unsigned to_trace;            /* how many launches more are traced */
  bool has_reference, asks_who, follows_pointers;
  uint64_t reference[COUNTS];   /* of an untraced launch */
} shape_t;

typedef struct {
  uint64_t device, host, size;
  bool padded;
} block_t;

static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER; /* blocks and shapes */
static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER; /* one kernel at a time: the counters of an image are global */
static block_t *blocks;
static size_t block_count, block_room;
static block_t gone[GONE]; /* blocks that were freed, and nobody has their memory yet; size 0: none */
static size_t next_gone;
static shape_t **shapes; /* pointers, for a shape stays in place while its kernel runs */
static size_t shape_count;
static image_t images[IMAGES];
static size_t image_count;
static __thread launch_t launch;
static __thread items_t items; /* of the kernel call that this thread is in */
static __thread shape_t *shape; /* of the kernel call that this thread is in; NULL: none */
static __thread bool submitted;

/* Called by an image of the wrapper as it is loaded. */
EXPORT void offload_recorder_register(const image_t *image, uint64_t layout);
EXPORT void offload_recorder_register(const image_t *image, uint64_t layout) {
  static atomic_bool told;
  if (layout != LAYOUT) {
    if (!atomic_exchange(&told, true))
      fprintf(stderr, "offloadrt: the program was compiled by another version of offloadrt, so its kernels have no costs: "
                      "compile it again\n");
    return;
  }
  pthread_mutex_lock(&tables);
  if (image_count < IMAGES)
    images[image_count++] = *image;
  else
    fprintf(stderr, "offloadrt: more than %d device images: the kernels of the others have no costs\n", IMAGES);
  pthread_mutex_unlock(&tables);
}

/* How many mapped arrays of less than SMALLEST bytes begin in the pages of a remainder. Blocks of that size are told of when they
 * are freed only if they are mapped, and most are not. */
enum { REMAINDERS = 1 << 12, PAGE_SHIFT = 12 };
static atomic_uint small_mapped[REMAINDERS];

static atomic_uint *small_near(uint64_t host) { return &small_mapped[(host >> PAGE_SHIFT) % REMAINDERS]; }

/* A block of that size lies in one page or in two. */
bool may_be_mapped(uint64_t host) {
  return atomic_load_explicit(small_near(host), memory_order_relaxed) ||
         atomic_load_explicit(small_near(host + SMALLEST), memory_order_relaxed);
}

bool is_mapped(uint64_t host, uint64_t bytes) {
  bool found = false;
  pthread_mutex_lock(&tables);
  for (size_t i = 0; i < block_count && !found; i++)
    found = blocks[i].padded && blocks[i].host - host < bytes;
  pthread_mutex_unlock(&tables);
  return found;
}

void array_allocated(uint64_t address, uint64_t host, uint64_t size, bool padded) {
  if (padded && tracks_bytes())
    track(address, size); /* the host must not touch it */
  pthread_mutex_lock(&tables);
  for (size_t i = 0; i < GONE; i++)
    if (address < gone[i].device + gone[i].size && gone[i].device < address + size)
      gone[i].size = 0;
  if (block_count == block_room) {
    block_room = block_room * 2 + 64;
    blocks = realloc(blocks, block_room * sizeof *blocks);
  }
  size_t at = block_count++;
  for (; at && blocks[at - 1].device > address; at--)
    blocks[at] = blocks[at - 1];
  blocks[at] = (block_t){address, host, size, padded};
  if (host && size < SMALLEST)
    atomic_fetch_add_explicit(small_near(host), 1, memory_order_relaxed);
  pthread_mutex_unlock(&tables);
}

void array_freed(uint64_t address) {
  pthread_mutex_lock(&tables);
  for (size_t i = 0; i < block_count; i++)
    if (blocks[i].device == address) {
      if (blocks[i].host && blocks[i].size < SMALLEST)
        atomic_fetch_sub_explicit(small_near(blocks[i].host), 1, memory_order_relaxed);
      if (tracks_bytes() && blocks[i].padded)
        gone[next_gone++ % GONE] = blocks[i];
      memmove(blocks + i, blocks + i + 1, (--block_count - i) * sizeof *blocks);
      break;
    }
  pthread_mutex_unlock(&tables);
}

bool is_gone(uint64_t address) {
  bool found = false;
  pthread_mutex_lock(&tables);
  for (size_t i = 0; i < GONE && !found; i++)
    found = gone[i].size && gone[i].device == address;
  pthread_mutex_unlock(&tables);
  return found;
}

void forget_gone(uint64_t address) {
  pthread_mutex_lock(&tables);
  for (size_t i = 0; i < GONE; i++)
    if (gone[i].device == address)
      gone[i].size = 0;
  pthread_mutex_unlock(&tables);
}

/* ---- variables that a device image has a copy of ---- */
typedef struct {
  void *host;
  const char *name;
  uint64_t size;
} variable_t;

static variable_t *variables;
static size_t variable_count;

/* Called by constructors, with nobody else there. */
void add_entry(void *host, const char *name, uint64_t size, int64_t flags) {
  (void)flags;
  variables = realloc(variables, (variable_count + 1) * sizeof *variables);
  variables[variable_count++] = (variable_t){host, name, size};
}

/* Called by an image of the wrapper as it is loaded, for each of its variables. */
EXPORT void offload_recorder_device_variable(void *address, uint64_t bytes, const char *name);
EXPORT void offload_recorder_device_variable(void *address, uint64_t bytes, const char *name) {
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  for (size_t i = 0; i < variable_count; i++)
    if (!strcmp(variables[i].name, name))
      array_allocated((uint64_t)address, (uint64_t)variables[i].host, bytes, false);
  this_thread()->inside = was_inside;
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

void launch_called(void *kernel, int64_t teams, int64_t threads, uint64_t trip, items_t given) {
  items = given;
  shape = image_count || recording() ? shape_of(kernel, teams, threads, trip) : NULL;
}

void launch_left(void) {
  shape = NULL;
  items.count = 0;
}

/* Races are looked for in the smallest arrays, as far as this memory for what is kept of them reaches. */
enum { WATCHED = 128 << 20 };

static int by_size(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

/* The largest size of arrays that are watched. Called with the tables locked. */
static uint64_t largest_watched(void) {
  uint64_t *sizes = calloc(block_count + 1, sizeof *sizes), sum = 0, largest = 0;
  for (size_t i = 0; i < block_count; i++)
    sizes[i] = blocks[i].size;
  qsort(sizes, block_count, sizeof *sizes, by_size);
  for (size_t i = 0; i < block_count && (sum += sizes[i]) <= WATCHED; i++)
    largest = sizes[i];
  free(sizes);
  return largest;
}

static int by_device(const void *left, const void *right) {
  uint64_t a = ((const array_t *)left)->device, b = ((const array_t *)right)->device;
  return a < b ? -1 : a > b;
}

static size_t bytes_for(const block_t *block) {
  return room_of((block->size / 4 + 2) * sizeof *launch.arrays->touched) +
         room_of((block->size / 4 + 2) * sizeof *launch.arrays->cells) +
         2 * (room_of((block->size / SECTOR + 2) * 4) + room_of((block->size / PAGE + 2) * (4 + RUN_BYTES)) + ROOM_LINE);
}

static void take_arrays(void) {
  size_t for_owners = owners_bytes();
  pthread_mutex_lock(&tables);
  uint64_t watched = largest_watched();
  size_t bytes = for_owners + room_of(FINDINGS * sizeof *launch.races) + room_of(FINDINGS * sizeof *launch.strays) +
                 room_of((block_count + GONE) * sizeof *launch.arrays) + 3 * room_of((block_count + GONE + 1) * 2 * sizeof(void *));
  for (size_t i = 0; i < block_count; i++)
    bytes += bytes_for(&blocks[i]);
  for (size_t i = 0; i < GONE; i++)
    bytes += gone[i].size ? bytes_for(&gone[i]) : 0;
  take_room(bytes);
  launch.races = room_for(FINDINGS, sizeof *launch.races);
  launch.strays = room_for(FINDINGS, sizeof *launch.strays);
  launch.arrays = room_for(block_count + GONE, sizeof *launch.arrays);
  for (size_t i = 0; i < block_count + GONE; i++) {
    const block_t *block = i < block_count ? &blocks[i] : &gone[i - block_count];
    if (block->size)
      launch.arrays[launch.array_count++] = (array_t){.device = block->device, .host = block->host, .size = block->size,
                                                      .padded = block->padded && i < block_count, .is_gone = i >= block_count};
  }
  qsort(launch.arrays, launch.array_count, sizeof *launch.arrays, by_device);
  for (size_t i = 0; i < launch.array_count; i++) {
    array_t *array = &launch.arrays[i];
    array->touched = room_for(array->size / 4 + 2, sizeof *array->touched);
    array->cells = array->size <= watched && !array->is_gone ? room_for(array->size / 4 + 2, sizeof *array->cells) : NULL;
    for (int way = 0; way < 2; way++) {
      array->last_team[way] = room_for(array->size / SECTOR + 2, 4);
      array->first_team[way] = room_for(array->size / PAGE + 2, 4);
    }
  }
  pthread_mutex_unlock(&tables);
  owners_begin(&launch, items);
}

static void drop_arrays(void) {
  drop_room();
  launch.races = NULL;
  launch.strays = NULL;
  launch.arrays = NULL;
  launch.array_count = 0;
}

static void leave_kernel(void);

void submit_begin(void) {
  if (!shape || !image_count || submitted)
    return;
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  pthread_mutex_lock(&device);
  submitted = true;
  static atomic_flag watches = ATOMIC_FLAG_INIT; /* that the kernel calls exit(): from now on, before LLVM's runtime unloads its code */
  if (!atomic_flag_test_and_set(&watches))
    atexit(leave_kernel);
  memset(&launch, 0, sizeof launch);
  launch.teams = shape->teams > 0 ? (uint32_t)shape->teams : 0;
  launch.threads = shape->threads > 0 ? (uint32_t)shape->threads : 0;
  launch.trip = shape->trip;
  const char *least_teams = getenv("OFFLOADRT_LEAST_TEAMS");
  launch.least_teams = least_teams ? (uint32_t)atoi(least_teams) : 1;
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
  if (launch.traced) {
    unsigned found_small = owners_end();
    shape->to_trace -= shape->to_trace > 0 && (!found_small || shape->follows_pointers); /* once more, with what it has found */
    shape->follows_pointers |= found_small > 0;
  }
  else if (!shape->has_reference || differs(launch.counts, shape->reference)) {
    shape->to_trace += shape->has_reference;
    shape->has_reference = true;
    memcpy(shape->reference, launch.counts, sizeof shape->reference);
  }
  pthread_mutex_unlock(&tables);
}

void submit_end(void) {
  if (!submitted)
    return;
  for (size_t i = 0; i < image_count; i++)
    images[i].end();
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  if (launch.entered) /* else the kernel is of an image that the wrapper did not make */
    write_launch(&launch);
  plan_next();
  drop_arrays();
  submitted = false;
  pthread_mutex_unlock(&device);
  this_thread()->inside = was_inside;
}

/* ---- a kernel that crashes ---- */
enum { NEAR = 64, FRAME = 64 << 10 };

static void leave_kernel(void) { end_kernel(false, 0, 0); }

static bool is_near(uint64_t address, uint64_t place, uint64_t bytes) { return address + bytes - place < 2 * bytes; }

/* The program dies, or ends, in a kernel: the launch is written as far as it went, with the access that cannot be made, if one was the reason. */
void end_kernel(bool crashed, uint64_t address, uint64_t stack_pointer) {
  if (!submitted || !launch.traced || !launch.place_of)
    return;
  if (address == NO_ADDRESS && (launch.last_address + (1ull << 47)) >> 48)
    address = launch.last_address;
  enum stray kind = is_near(address, stack_pointer, FRAME)         ? STRAY_STACK
                    : is_near(address, launch.last_address, NEAR) ? STRAY_CRASH
                                                                   : 0;
  if (crashed && kind) {
    launch.last.place = launch.place_of(launch.last.site);
    launch.stray_count -= launch.stray_count == FINDINGS;
    launch.strays[launch.stray_count++] = (stray_t){kind, UINT32_MAX, address, 1, launch.last};
  }
  submit_end();
  put_submit(0);
}

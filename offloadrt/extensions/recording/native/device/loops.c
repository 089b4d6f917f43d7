/* How the iterations of loops are divided among teams and threads. */
#include "grid.h"
#include <stdlib.h>
#include <string.h>

/* kmp_sched_t of libomp, without the modifier bits */
enum {
  CHUNKED = 33,
  STATIC = 34,
  GUIDED = 36,
  BALANCED_CHUNKED = 45,
  DISTRIBUTE_CHUNKED = 91,
  DISTRIBUTE = 92,
  MODIFIERS = 0x60000000
};

typedef struct {
  int64_t lower, upper, stride;
  bool last;
} part_t;

static uint64_t trips_of(int64_t lower, int64_t upper, int64_t step) {
  if (step > 0)
    return upper < lower ? 0 : (uint64_t)(upper - lower) / (uint64_t)step + 1;
  return lower < upper ? 0 : (uint64_t)(lower - upper) / (uint64_t)-step + 1;
}

/* In `distribute parallel for`, clang passes the team's iterations as the region's first two arguments. The region is that
 * loop and nothing else, and on a GPU its threads take neighbouring iterations. Code for a host has each thread run a block
 * of them instead; so that warps access what they do on a GPU, each iteration is played as a thread of its own. */
static bool is_combined(const team_t *team, const part_t *part) {
  return this_grid()->launch->traced && this_grid()->teams && team->argument_count >= 2 &&
         (int64_t)team->arguments[0] == part->lower && (int64_t)team->arguments[1] == part->upper &&
         team->range[0] == part->lower && team->range[1] == part->upper;
}

static part_t divide(part_t all, int32_t schedule, int64_t step, int64_t chunk) {
  grid_t *grid = this_grid();
  team_t *team = grid->current->team;
  uint64_t trips = trips_of(all.lower, all.upper, step), id = grid->current->thread, parts = team->threads;
  schedule &= ~MODIFIERS;
  bool distribute = schedule == DISTRIBUTE || schedule == DISTRIBUTE_CHUNKED;
  if (distribute)
    id = team->number, parts = grid->teams ? grid->teams : 1;
  else if (grid->current->level > 1)
    id = 0, parts = 1;
  else if (schedule == STATIC && id == 0 && trips > parts && is_combined(team, &all))
    parts = team->threads = (uint32_t)trips;
  part_t part = all;
  if (schedule == CHUNKED || schedule == BALANCED_CHUNKED || schedule == DISTRIBUTE_CHUNKED) {
    int64_t span = (chunk < 1 ? 1 : chunk) * step;
    part.stride = span * (int64_t)parts;
    part.lower = all.lower + span * (int64_t)id;
    part.upper = part.lower + span - step;
    part.last = trips && (trips - 1) / (uint64_t)(chunk < 1 ? 1 : chunk) % parts == id;
  } else {
    uint64_t each = (trips + parts - 1) / parts, begin = each * id, end = begin + each < trips ? begin + each : trips;
    part.stride = (int64_t)trips * step;
    part.last = trips && begin < trips && end == trips;
    if (begin >= trips)
      part.lower = all.upper + step, part.upper = all.upper;
    else
      part.lower = all.lower + (int64_t)begin * step, part.upper = all.lower + (int64_t)(end - 1) * step;
  }
  if (distribute)
    team->range[0] = part.lower, team->range[1] = part.upper;
  return part;
}

#define STATIC_INIT(NAME, TYPE)                                                                                        \
  DEVICE void __kmpc_for_static_init_##NAME(void *location, int32_t thread, int32_t schedule, int32_t *last,           \
                                            TYPE *lower, TYPE *upper, TYPE *stride, TYPE step, TYPE chunk) {           \
    (void)location, (void)thread;                                                                                      \
    part_t part = divide((part_t){(int64_t)*lower, (int64_t)*upper, 0, false}, schedule, (int64_t)step, (int64_t)chunk); \
    *last = part.last;                                                                                                 \
    *lower = (TYPE)part.lower;                                                                                         \
    *upper = (TYPE)part.upper;                                                                                         \
    *stride = (TYPE)part.stride;                                                                                       \
  }
STATIC_INIT(4, int32_t)
STATIC_INIT(4u, uint32_t)
STATIC_INIT(8, int64_t)
STATIC_INIT(8u, uint64_t)

DEVICE void __kmpc_for_static_fini(void *location, int32_t thread) { (void)location, (void)thread; }
DEVICE void __kmpc_distribute_static_fini(void *location, int32_t thread) { (void)location, (void)thread; }

/* ---- iterations that threads fetch ---- */
static void loop_begin(int32_t schedule, int64_t lower, int64_t upper, int64_t step, int64_t chunk) {
  fiber_t *self = this_grid()->current;
  loop_t *loop = &self->team->loops[++self->loop % LOOPS];
  if (loop->number == self->loop) /* another thread of the team was here before */
    return;
  *loop = (loop_t){.number = self->loop, .trips = trips_of(lower, upper, step), .chunk = chunk < 1 ? 1 : (uint64_t)chunk,
                   .lower = lower, .stride = step, .shrinks = (schedule & ~MODIFIERS) == GUIDED};
}

static bool loop_next(part_t *part) {
  grid_t *grid = this_grid();
  fiber_t *self = grid->current;
  loop_t *loop = &self->team->loops[self->loop % LOOPS];
  /* On a GPU each thread soon has a chunk. Here the others get their turn before one fetches its second. */
  if (grid->launch->traced && loop->next)
    give_turn();
  if (loop->next >= loop->trips)
    return false;
  uint64_t left = loop->trips - loop->next, take = loop->chunk;
  if (loop->shrinks && left / (2 * self->team->threads) > take)
    take = left / (2 * self->team->threads);
  if (take > left)
    take = left;
  part->lower = loop->lower + (int64_t)loop->next * loop->stride;
  loop->next += take;
  part->upper = loop->lower + (int64_t)(loop->next - 1) * loop->stride;
  part->stride = loop->stride;
  part->last = loop->next == loop->trips;
  return true;
}

#define DISPATCH(NAME, TYPE)                                                                                           \
  DEVICE void __kmpc_dispatch_init_##NAME(void *location, int32_t thread, int32_t schedule, TYPE lower, TYPE upper,    \
                                          TYPE step, TYPE chunk) {                                                     \
    (void)location, (void)thread;                                                                                      \
    loop_begin(schedule, (int64_t)lower, (int64_t)upper, (int64_t)step, (int64_t)chunk);                               \
  }                                                                                                                    \
  DEVICE int32_t __kmpc_dispatch_next_##NAME(void *location, int32_t thread, int32_t *last, TYPE *lower, TYPE *upper,  \
                                             TYPE *stride) {                                                           \
    (void)location, (void)thread;                                                                                      \
    part_t part;                                                                                                       \
    if (!loop_next(&part))                                                                                             \
      return 0;                                                                                                        \
    *last = part.last;                                                                                                 \
    *lower = (TYPE)part.lower;                                                                                         \
    *upper = (TYPE)part.upper;                                                                                         \
    *stride = (TYPE)part.stride;                                                                                       \
    return 1;                                                                                                          \
  }                                                                                                                    \
  DEVICE void __kmpc_dispatch_fini_##NAME(void *location, int32_t thread) { (void)location, (void)thread; }
DISPATCH(4, int32_t)
DISPATCH(4u, uint32_t)
DISPATCH(8, int64_t)
DISPATCH(8u, uint64_t)

DEVICE void __kmpc_dispatch_deinit(void *location, int32_t thread) { (void)location, (void)thread; }

/* ---- `ordered` with dependences: an iteration waits for others, in order of the loop ---- */
DEVICE void __kmpc_doacross_init(void *location, int32_t thread, int32_t count, const int64_t *bounds) {
  (void)location, (void)thread;
  fiber_t *self = this_grid()->current;
  loop_t *loop = &self->team->loops[++self->loop % LOOPS];
  self->crossed = self->loop;
  if (loop->number == self->loop)
    return;
  size_t bytes = (size_t)count * 3 * sizeof *bounds, iterations = 1;
  *loop = (loop_t){.number = self->loop, .dimensions = count, .bounds = malloc(bytes)};
  memcpy(loop->bounds, bounds, bytes);
  for (int32_t i = 0; i < count; i++)
    iterations *= trips_of(bounds[3 * i], bounds[3 * i + 1], bounds[3 * i + 2]);
  loop->posted = calloc(iterations + 1, 1);
}

static loop_t *crossed_loop(void) {
  const fiber_t *self = this_grid()->current;
  return &self->team->loops[self->crossed % LOOPS];
}

/* NULL: the loop has no such iteration. */
static uint8_t *posted_of(const int64_t *iteration) {
  const loop_t *loop = crossed_loop();
  uint64_t at = 0;
  for (int32_t i = 0; i < loop->dimensions; i++) {
    const int64_t *of = &loop->bounds[3 * i];
    if (of[2] > 0 ? iteration[i] < of[0] || iteration[i] > of[1] : iteration[i] > of[0] || iteration[i] < of[1])
      return NULL;
    at = at * trips_of(of[0], of[1], of[2]) + trips_of(of[0], iteration[i], of[2]) - 1;
  }
  return &loop->posted[at];
}

DEVICE void __kmpc_doacross_post(void *location, int32_t thread, const int64_t *iteration) {
  (void)location, (void)thread;
  uint8_t *posted = posted_of(iteration);
  synchronize_team(posted, false, true);
  *posted = 1;
}

DEVICE void __kmpc_doacross_wait(void *location, int32_t thread, const int64_t *iteration) {
  (void)location, (void)thread;
  const uint8_t *posted = posted_of(iteration);
  if (!posted)
    return;
  while (!*(volatile const uint8_t *)posted)
    give_turn();
  synchronize_team((void *)(uintptr_t)posted, true, false);
}

DEVICE void __kmpc_doacross_fini(void *location, int32_t thread) {
  (void)location, (void)thread;
  loop_t *loop = crossed_loop();
  if (++loop->left_by < (this_grid()->current->level == 1 ? this_team()->threads : 1))
    return;
  free(loop->bounds);
  free(loop->posted);
  loop->bounds = NULL, loop->posted = NULL;
}

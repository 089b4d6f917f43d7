/* The entry points that flang's device code calls: it is a GPU's code even where the host is the device.
 *
 * A kernel whose threads all run the whole kernel (SPMD) is called once, and each loop runs all its iterations here, each as a
 * thread of its own. Where the main thread of a team begins parallel regions (generic), regions.c plays them. */
#include "grid.h"

typedef struct {
  uint8_t use_state_machine, may_nest, mode; /* mode: 1 generic, 2 SPMD; 3 generic that was made SPMD */
} kernel_environment_t;

static __thread bool spmd;

DEVICE int32_t __kmpc_target_init(const kernel_environment_t *environment, void *launch_environment) {
  (void)launch_environment;
  spmd = environment->mode & 2;
  return -1; /* the caller runs the kernel's code */
}

DEVICE void __kmpc_target_deinit(void) {}
DEVICE int8_t __kmpc_is_spmd_exec_mode(void) { return spmd; }

DEVICE void __kmpc_parallel_60(void *location, int32_t thread, int32_t condition, int32_t threads, int32_t bind,
                               outlined_t body, void *wrapper, void **given, int64_t count, int32_t strict) {
  (void)location, (void)thread, (void)bind, (void)wrapper, (void)strict;
  void *arguments[MOST_ARGUMENTS] = {0};
  for (int64_t i = 0; i < count && i < MOST_ARGUMENTS; i++)
    arguments[i] = given[i];
  uint32_t wanted = threads > 0 ? (uint32_t)threads : this_grid()->threads;
  run_region(this_team(), body, arguments, (int32_t)count, spmd || !condition ? 1 : wanted);
}

DEVICE void __kmpc_parallel_51(void *location, int32_t thread, int32_t condition, int32_t threads, int32_t bind,
                               outlined_t body, void *wrapper, void **given, int64_t count) {
  __kmpc_parallel_60(location, thread, condition, threads, bind, body, wrapper, given, count, 0);
}

/* How many iterations a team has in turn: one for each thread; where the program leaves the number of teams open, no more
 * than leave some for the least number. */
static uint64_t iterations_of_team(const launch_t *launch, uint32_t threads, uint64_t trips) {
  uint64_t least = launch->teams || trips < 2 ? 1 : most(launch->least_teams, 1), share = (trips + least - 1) / least;
  return share && share < threads ? share : threads;
}

/* What follows is done by another team, which knows what was done before the loop and no more. */
static void begin_team(team_t *team, uint32_t number, uint32_t seen) {
  if (team->number == number)
    return;
  team->number = number;
  team->seen = seen;
}

/* All iterations, in the order of teams and threads, each as a thread of its own. */
static void every_iteration(void (*run)(uint64_t, void *), void *context, uint64_t trips, bool distributed) {
  grid_t *grid = this_grid();
  fiber_t *self = grid->current;
  team_t *team = self->team;
  launch_t *launch = grid->launch;
  uint32_t number = team->number, thread = self->thread, level = self->level, threads = grid->threads, size = team->size;
  uint64_t each = iterations_of_team(launch, threads, trips);
  uint32_t seen = team->seen;
  team->size = threads;
  self->level = 1;
  team->phase++;
  for (uint64_t i = 0; i < trips; i++) {
    if (distributed)
      begin_team(team, (uint32_t)(i / each % (launch->teams ? launch->teams : UINT32_MAX)), seen);
    self->thread = (uint32_t)(i % (distributed ? each : threads));
    run(i, context);
  }
  team->number = number;
  team->size = size;
  self->thread = thread;
  self->level = level;
  team->phase++;
  know_all(team);
  uint32_t teams = distributed ? (uint32_t)((trips + threads - 1) / threads) : 1;
  launch->gpu_threads = launch->gpu_threads > trips ? launch->gpu_threads : trips;
  launch->played_threads = threads;
  launch->played_teams = launch->played_teams > teams ? launch->played_teams : teams ? teams : 1;
}

/* In a region of several threads, each takes every so manyth iteration. The loop's barrier is here, as flang's code has none;
 * it says no more whether there is a `nowait`. */
static void my_iterations(void (*run)(uint64_t, void *), void *context, uint64_t trips) {
  const fiber_t *self = this_grid()->current;
  if (self->team->threads == 1)
    every_iteration(run, context, trips, false);
  else {
    for (uint64_t i = self->thread; i < trips; i += self->team->threads)
      run(i, context);
    barrier(self->team);
  }
}

/* A loop of teams: each iteration is a team of its own, as in regions.c. */
static void every_team(void (*run)(uint64_t, void *), void *context, uint64_t trips) {
  team_t *team = this_team();
  uint32_t number = team->number, seen = team->seen;
  for (uint64_t i = 0; i < trips; i++) {
    begin_team(team, (uint32_t)i, seen);
    run(i, context);
  }
  begin_team(team, number, seen);
}

#define LOOPS_OF(NAME, TYPE)                                                                                           \
  typedef struct {                                                                                                     \
    void (*body)(TYPE, void *);                                                                                        \
    void *argument;                                                                                                    \
  } body_##NAME##_t;                                                                                                   \
  static void run_##NAME(uint64_t i, void *context) {                                                                  \
    const body_##NAME##_t *body = context;                                                                             \
    body->body((TYPE)i, body->argument);                                                                               \
  }                                                                                                                    \
  DEVICE void __kmpc_distribute_for_static_loop_##NAME(void *location, void (*body)(TYPE, void *), void *argument,     \
                                                       TYPE trips, ...) {                                              \
    (void)location;                                                                                                    \
    every_iteration(run_##NAME, &(body_##NAME##_t){body, argument}, (uint64_t)trips, true);                            \
  }                                                                                                                    \
  DEVICE void __kmpc_distribute_static_loop_##NAME(void *location, void (*body)(TYPE, void *), void *argument,         \
                                                   TYPE trips, ...) {                                                  \
    (void)location;                                                                                                    \
    every_team(run_##NAME, &(body_##NAME##_t){body, argument}, (uint64_t)trips);                                       \
  }                                                                                                                    \
  DEVICE void __kmpc_for_static_loop_##NAME(void *location, void (*body)(TYPE, void *), void *argument, TYPE trips,    \
                                            ...) {                                                                     \
    (void)location;                                                                                                    \
    my_iterations(run_##NAME, &(body_##NAME##_t){body, argument}, (uint64_t)trips);                                    \
  }
LOOPS_OF(4, int32_t)
LOOPS_OF(4u, uint32_t)
LOOPS_OF(8, int64_t)
LOOPS_OF(8u, uint64_t)

/* The kernel ran once, so its variables hold the whole sum already. */
DEVICE int32_t __kmpc_nvptx_parallel_reduce_nowait_v2(void *location, uint64_t bytes, void *data, void *shuffle, void *copy) {
  (void)location, (void)bytes, (void)data, (void)shuffle, (void)copy;
  return 1;
}
DEVICE int32_t __kmpc_nvptx_teams_reduce_nowait_v2(void *location, void *buffer, uint32_t count, uint64_t bytes, void *data,
                                                   ...) {
  (void)location, (void)buffer, (void)count, (void)bytes, (void)data;
  return 1;
}
DEVICE void __kmpc_nvptx_end_reduce_nowait(int32_t thread) { (void)thread; }

#include <stdlib.h>
DEVICE void *__kmpc_reduction_get_fixed_buffer(void) { return NULL; }
DEVICE void *__kmpc_alloc_shared(uint64_t bytes) { return calloc(1, bytes); }
DEVICE void __kmpc_free_shared(void *pointer, uint64_t bytes) {
  (void)bytes;
  free(pointer);
}
DEVICE void __kmpc_barrier_simple_spmd(void *location, int32_t thread) { (void)location, (void)thread; }
DEVICE uint32_t __kmpc_get_hardware_thread_id_in_block(void) { return this_grid()->current->thread; }
DEVICE uint32_t __kmpc_get_hardware_num_threads_in_block(void) { return this_grid()->threads; }

/* Teams and parallel regions, as clang's code for a host device begins them (libomp's entry points). */
#include "grid.h"
#include <stdarg.h>

#define COLLECT(arguments, count, last)                                                                                \
  void *arguments[MOST_ARGUMENTS] = {0};                                                                               \
  va_list list;                                                                                                        \
  va_start(list, last);                                                                                                \
  for (int32_t each = 0; each < (count) && each < MOST_ARGUMENTS; each++)                                              \
    arguments[each] = va_arg(list, void *);                                                                            \
  va_end(list)

/* More arguments than the function takes do no harm. */
DEVICE void call_outlined(outlined_t body, int32_t thread, int32_t second, void **a, int32_t count) {
#define EIGHT(i) a[i], a[i + 1], a[i + 2], a[i + 3], a[i + 4], a[i + 5], a[i + 6], a[i + 7]
  if (count <= 4)
    body(&thread, &second, a[0], a[1], a[2], a[3]);
  else if (count <= 16)
    body(&thread, &second, EIGHT(0), EIGHT(8));
  else
    body(&thread, &second, EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48), EIGHT(56));
}

/* The plugin calls it before the league of a `distribute` that is not combined with `parallel`. */
DEVICE void __offload_team_each(void);
DEVICE void __offload_team_each(void) { this_grid()->team_each = true; }

DEVICE void __offload_thread_each(void);
DEVICE void __offload_thread_each(void) { this_grid()->thread_each = true; }

/* Where neither a clause nor a loop says how many teams there are, more than one shows what they do to one another. */
enum { OPEN_TEAMS = 2 };

/* A kernel's grid: what the program says; else a thread for each iteration of the combined loop, a team for each iteration
 * where the loop is the teams' alone, or two teams. */
static void set_grid(grid_t *grid) {
  launch_t *launch = grid->launch;
  uint32_t limit = grid->asked_limit ? grid->asked_limit : launch->threads;
  grid->threads = limit ? limit : DEFAULT_THREADS;
  grid->teams = grid->asked_teams ? grid->asked_teams : launch->teams;
  if (!grid->teams) {
    grid->teams = !launch->trip     ? OPEN_TEAMS
                  : grid->team_each ? (uint32_t)launch->trip
                                    : (uint32_t)((launch->trip + grid->threads - 1) / grid->threads);
    if (launch->trip > launch->least_teams) /* as many teams as iterations would mean a loop of the teams' alone */
      grid->teams = most(grid->teams, launch->least_teams);
  }
  launch->played_teams = grid->teams;
  launch->played_threads = most(launch->played_threads, launch->trip && !grid->team_each ? grid->threads : 1);
  grid->shortened = launch->trip && launch->may_shorten && !launch->traced && !grid->thread_each;
  if (grid->shortened)
    grid->teams = 1;
}

DEVICE void __kmpc_fork_teams(void *location, int32_t count, outlined_t body, ...);
DEVICE void __kmpc_fork_teams(void *location, int32_t count, outlined_t body, ...) {
  (void)location;
  COLLECT(arguments, count, body);
  grid_t *grid = this_grid();
  set_grid(grid);
  grid->league_body = body;
  grid->league_arguments = arguments;
  grid->league_argument_count = count;
  grid->next_team = 0;
  know_all(&grid->single);
  play_teams();
  if (grid->live_teams)
    wait_as(&grid->joining);
  know_all(&grid->single);
  grid->teams = grid->next_team = grid->asked_teams = grid->asked_limit = 0;
  grid->team_each = grid->thread_each = false;
}

DEVICE void run_region(team_t *team, outlined_t body, void **arguments, int32_t count, uint32_t threads) {
  grid_t *grid = this_grid();
  fiber_t *self = grid->current;
  launch_t *launch = grid->launch;
  if (self->level) { /* a region inside a region has one thread */
    self->level++;
    call_outlined(body, 0, 0, arguments, count);
    self->level--;
    return;
  }
  team->body = body;
  team->arguments = arguments;
  team->argument_count = count;
  team->threads = team->size = grid->shortened ? 1 : threads;
  team->started = team->finished = team->arrived = 0;
  for (int i = 0; i < LOOPS; i++)
    team->loops[i].number = 0;
  team->phase++;
  play_threads(team);
  if (team->finished < team->threads)
    wait_as(&team->joining);
  bool stands_for_all = grid->shortened && !grid->team_each;
  launch->gpu_threads += stands_for_all ? launch->trip : grid->shortened ? threads : team->threads;
  if (!stands_for_all)
    launch->played_threads = most(launch->played_threads, threads);
  if (!launch->played_teams)
    launch->played_teams = 1;
  team->threads = team->size = team->started = 1;
  team->finished = 0;
  team->phase++;
}

static uint32_t threads_of_region(grid_t *grid, team_t *team) {
  uint32_t asked = team->asked_threads;
  team->asked_threads = 0;
  uint32_t limit = grid->teams ? grid->threads : grid->launch->threads ? grid->launch->threads : DEFAULT_THREADS;
  return asked ? asked : limit;
}

DEVICE void __kmpc_fork_call(void *location, int32_t count, outlined_t body, ...);
DEVICE void __kmpc_fork_call(void *location, int32_t count, outlined_t body, ...) {
  (void)location;
  COLLECT(arguments, count, body);
  team_t *team = this_team();
  bool is_outer = !this_grid()->current->level;
  if (is_outer)
    team->frame = (uint64_t)__builtin_frame_address(0);
  run_region(team, body, arguments, count, threads_of_region(this_grid(), team));
  if (is_outer)
    team->frame = 0;
}

DEVICE void __kmpc_fork_call_if(void *location, int32_t count, outlined_t body, int32_t condition, void *argument) {
  (void)location, (void)count;
  void *arguments[MOST_ARGUMENTS] = {argument};
  team_t *team = this_team();
  uint32_t threads = threads_of_region(this_grid(), team);
  run_region(team, body, arguments, 1, condition ? threads : 1);
}

DEVICE void __kmpc_push_num_teams(void *location, int32_t thread, int32_t teams, int32_t limit) {
  (void)location, (void)thread;
  this_grid()->asked_teams = teams > 0 ? (uint32_t)teams : 0;
  this_grid()->asked_limit = limit > 0 ? (uint32_t)limit : 0;
}

DEVICE void __kmpc_push_num_teams_51(void *location, int32_t thread, int32_t lower, int32_t upper, int32_t limit) {
  (void)lower;
  __kmpc_push_num_teams(location, thread, upper, limit);
}

DEVICE void __kmpc_set_thread_limit(void *location, int32_t thread, int32_t limit) {
  (void)location, (void)thread;
  this_grid()->asked_limit = limit > 0 ? (uint32_t)limit : 0;
}

DEVICE void __kmpc_push_num_threads(void *location, int32_t thread, int32_t threads) {
  (void)location, (void)thread;
  this_team()->asked_threads = threads > 0 ? (uint32_t)threads : 0;
}

DEVICE void __kmpc_push_proc_bind(void *location, int32_t thread, int32_t bind) { (void)location, (void)thread, (void)bind; }

DEVICE int32_t __kmpc_global_thread_num(void *location) {
  (void)location;
  return (int32_t)this_grid()->current->thread;
}

DEVICE void __kmpc_serialized_parallel(void *location, int32_t thread) {
  (void)location, (void)thread;
  this_grid()->current->level++;
}

DEVICE void __kmpc_end_serialized_parallel(void *location, int32_t thread) {
  (void)location, (void)thread;
  this_grid()->current->level--;
}

DEVICE void __kmpc_barrier(void *location, int32_t thread) {
  (void)location, (void)thread;
  barrier(this_team());
}

DEVICE int32_t __kmpc_cancel_barrier(void *location, int32_t thread) {
  (void)location, (void)thread;
  barrier(this_team());
  return 0;
}

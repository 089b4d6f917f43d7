/* The grid of a launch, played on one host thread. Open fibers.c first.
 *
 * Each GPU thread that has begun and not ended is a fiber: a stack of its own. A fiber runs until it waits (at a barrier, or
 * because it polls what another one will write); then the next one does. A thread that never waits borrows the stack of the one
 * that started it, so that a grid without barriers needs no switch at all. The order is always the same: teams and threads in the
 * order of their numbers.
 */
#pragma once
#include "../launch.h"
#include "../slots.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The image is linked with -Bsymbolic: these definitions serve the device code, the host keeps the real runtime. */
#define DEVICE __attribute__((visibility("hidden")))

enum { DEFAULT_THREADS = 128, WARP = 32, LOOPS = 16, MOST_ARGUMENTS = 64 };

typedef void (*outlined_t)(int32_t *, int32_t *, ...);
typedef struct fiber fiber_t;

/* A loop whose iterations the threads of a team fetch (schedule(dynamic) and others). */
typedef struct {
  uint64_t number; /* of the loop in the region, from 1; 0: unused */
  uint64_t next, trips, chunk;
  int64_t lower, stride;
  bool shrinks; /* guided */
  /* of `ordered` with dependences: lower and upper bound and step of each dimension, and which iterations are done */
  int64_t *bounds;
  int32_t dimensions;
  uint32_t left_by;
  uint8_t *posted;
} loop_t;

typedef struct team {
  uint32_t number;
  uint32_t threads;    /* of the region that runs; 1 between regions */
  uint32_t size;       /* what omp_get_num_threads says: `threads` unless each iteration is played as a thread */
  uint32_t started, finished, arrived;
  uint32_t phase;      /* barriers passed */
  outlined_t body;
  void **arguments;
  int32_t argument_count;
  fiber_t *waiting;    /* at the barrier */
  fiber_t *joining;    /* waits for the region's end */
  uint32_t asked_threads; /* num_threads of the next region; 0: none */
  int64_t range[2];    /* the iterations that `distribute` gave to the team: first and last */
  uint32_t seen;       /* what was done before this release is known to its threads: conflicts.c */
  void *copied;        /* the variables of a `single copyprivate`, in the thread that has run it */
  uint64_t top, frame; /* where on the stack the team began, and its region: what lies between is shared by the region's threads */
  loop_t loops[LOOPS];
} team_t;

struct fiber {
  void *stack_pointer;
  char *stack;
  fiber_t *next;
  team_t *team;
  uint32_t thread;
  uint32_t level;      /* parallel regions around; inner ones have one thread */
  uint64_t loop;       /* of the thread in its region, from 1 */
  uint64_t crossed;    /* the one with `ordered` with dependences */
  uint32_t strand;     /* conflicts.c */
};

typedef struct {
  launch_t *launch;
  launch_t unrecorded; /* stands for the launch where there is no recorder */
  fiber_t root;        /* the host thread's own stack */
  fiber_t *current, *pool;
  fiber_t *ready, **ready_end;
  fiber_t *joining;    /* waits for the league's end */
  team_t single;       /* the team of a region without teams */
  outlined_t league_body;
  void **league_arguments;
  int32_t league_argument_count;
  uint32_t teams, next_team, live_teams;
  uint32_t asked_teams, asked_limit;
  uint32_t threads;    /* of a team where nothing else is said */
  bool shortened;      /* the combined loop is played as one thread */
  bool team_each;      /* each iteration of the teams' loop is a team of its own */
  bool thread_each;    /* an iteration finds what the one before it in its thread has left */
} grid_t;

/* fibers.c */
DEVICE grid_t *this_grid(void);
DEVICE void wait_as(fiber_t **list); /* the current fiber waits in the list, others run */
DEVICE void make_ready(fiber_t *);
DEVICE void barrier(team_t *);
static inline uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }
DEVICE void give_turn(void);
DEVICE void play_threads(team_t *);
DEVICE void play_teams(void);

/* regions.c */
DEVICE void run_region(team_t *, outlined_t, void **arguments, int32_t count, uint32_t threads);
DEVICE void call_outlined(outlined_t, int32_t thread, int32_t second, void **arguments, int32_t count);

/* conflicts.c */
DEVICE void conflicts_begin(void);
DEVICE void find_conflicts(array_t *, uint64_t offset, uint64_t bytes, uint32_t way, uint32_t site);
DEVICE void find_stray(const array_t *before, const array_t *after, uint64_t address, uint64_t bytes, uint32_t way, uint32_t site);
DEVICE void settle_strays(uint32_t (*only_array)(uint32_t site)); /* it returns UINT32_MAX where there are none or several */
DEVICE void find_freed(const array_t *, uint64_t address, uint64_t bytes, uint32_t way, uint32_t site);
DEVICE void synchronize(void *where, bool acquires, bool releases);
DEVICE void synchronize_team(void *where, bool acquires, bool releases);
DEVICE void know_all(team_t *); /* all that was done in the launch so far comes before what the team does from now on */

/* costs.c */
DEVICE place_t place_of(uint32_t site);

static inline team_t *this_team(void) { return this_grid()->current->team; }

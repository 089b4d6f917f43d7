/* Fibers and the order in which they run. */
#define _GNU_SOURCE
#include "grid.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { STACK = 512 << 10, GUARD = 4096, POLLS = 256 };

DEVICE int32_t __offload_polls_left = POLLS;
DEVICE void __offload_yield(void);

static __thread grid_t *grid __attribute__((tls_model("initial-exec")));

DEVICE grid_t *this_grid(void) {
  if (!grid) {
    grid = calloc(1, sizeof *grid);
    grid->launch = &grid->unrecorded;
    grid->threads = DEFAULT_THREADS;
    grid->root.team = &grid->single;
    grid->single.threads = grid->single.size = grid->single.started = 1;
    grid->current = &grid->root;
    grid->ready_end = &grid->ready;
  }
  return grid;
}

/* Saves what the caller of a function may rely on, and goes on where the other fiber did the same. */
DEVICE void __offload_switch(void **save, void *to);
#if defined __x86_64__
__asm__(".text\n.hidden __offload_switch\n.globl __offload_switch\n__offload_switch:\n"
        " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");
enum { SAVED = 6 };
#else
#error "the device runtime knows how to switch fibers on x86-64 only"
#endif

static void fiber_main(void);

static fiber_t *new_fiber(void) {
  fiber_t *fiber = grid->pool;
  if (fiber)
    grid->pool = fiber->next;
  else {
    fiber = calloc(1, sizeof *fiber);
    fiber->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fiber->stack == MAP_FAILED) {
      fprintf(stderr, "offloadrt: no memory for one more thread of the grid\n");
      abort();
    }
    /* Where the system allows no more separate mappings, a stack goes without its guard. */
    (void)!mprotect(fiber->stack, GUARD, PROT_NONE);
  }
  void **top = (void **)(fiber->stack + STACK - 64);
  *--top = NULL;
  *--top = (void *)fiber_main;
  for (int i = 0; i < SAVED; i++)
    *--top = NULL;
  fiber->stack_pointer = top;
  fiber->next = NULL;
  fiber->thread = fiber->level = 0;
  fiber->loop = 0;
  fiber->strand = 0;
  return fiber;
}

static void switch_to(fiber_t *to) {
  fiber_t *from = grid->current;
  if (to == from)
    return;
  grid->current = to;
  __offload_polls_left = POLLS;
  __offload_switch(&from->stack_pointer, to->stack_pointer);
}

DEVICE void make_ready(fiber_t *fiber) {
  fiber->next = NULL;
  *grid->ready_end = fiber;
  grid->ready_end = &fiber->next;
}

static fiber_t *pop_ready(void) {
  fiber_t *fiber = grid->ready;
  if (fiber) {
    grid->ready = fiber->next;
    if (!grid->ready)
      grid->ready_end = &grid->ready;
  }
  return fiber;
}

/* The next fiber: one that begins threads of the team that waits, one that can go on, one that begins further teams. */
static fiber_t *next_fiber(team_t *team) {
  if (team && team->started < team->threads) {
    fiber_t *fiber = new_fiber();
    fiber->team = team;
    return fiber;
  }
  fiber_t *fiber = pop_ready();
  if (!fiber && grid->next_team < grid->teams) {
    fiber = new_fiber();
    fiber->team = NULL;
  }
  return fiber;
}

static void stuck(void) {
  fprintf(stderr, "offloadrt: every thread of the kernel waits for another one; the kernel cannot end\n");
  abort();
}

static void run_next(team_t *team) {
  fiber_t *next = next_fiber(team);
  if (!next)
    stuck();
  switch_to(next);
}

DEVICE void wait_as(fiber_t **list) {
  fiber_t *self = grid->current;
  self->next = *list;
  *list = self;
  run_next(self->team);
}

/* Lets the others run first. A team that has not begun may be the one that is waited for. */
DEVICE void give_turn(void) {
  fiber_t *self = grid->current;
  team_t *team = self->team;
  bool alone = !(team && team->started < team->threads) && !grid->ready && grid->next_team >= grid->teams;
  __offload_polls_left = POLLS;
  if (alone)
    return;
  make_ready(self);
  if (team->started >= team->threads && grid->next_team < grid->teams) {
    fiber_t *fiber = new_fiber();
    fiber->team = NULL;
    switch_to(fiber);
  } else
    run_next(team);
}

DEVICE void __offload_yield(void) {
  this_grid();
  give_turn();
}

/* Releases the barrier when all threads that have not ended are there. */
static void release(team_t *team) {
  team->phase++;
  team->arrived = 0;
  grid->launch->barriers++;
  /* The list has the last one first: turned round, so that threads go on in the order of their numbers. */
  fiber_t *ordered = NULL;
  for (fiber_t *fiber = team->waiting, *next; fiber; fiber = next) {
    next = fiber->next;
    fiber->next = ordered;
    ordered = fiber;
  }
  team->waiting = NULL;
  for (fiber_t *fiber = ordered, *next; fiber; fiber = next) {
    next = fiber->next;
    make_ready(fiber);
  }
}

DEVICE void barrier(team_t *team) {
  if (grid->current->level != 1 || team->threads == 1)
    return;
  team->arrived++;
  if (team->arrived < team->threads - team->finished) {
    wait_as(&team->waiting);
    return;
  }
  fiber_t *self = grid->current;
  self->next = team->waiting; /* the last to arrive goes on after the others: the order of numbers */
  team->waiting = self;
  release(team);
  run_next(team);
}

DEVICE void play_threads(team_t *team) {
  fiber_t *self = grid->current;
  uint32_t thread = self->thread, level = self->level;
  uint64_t loop = self->loop;
  self->level = 1;
  while (team->started < team->threads) {
    self->thread = team->started++;
    self->loop = 0;
    call_outlined(team->body, (int32_t)self->thread, (int32_t)self->thread, team->arguments, team->argument_count);
    team->finished++;
    if (team->arrived && team->arrived == team->threads - team->finished)
      release(team);
  }
  self->thread = thread;
  self->level = level;
  self->loop = loop;
  if (team->finished == team->threads && team->joining && team->joining != self) {
    make_ready(team->joining);
    team->joining = NULL;
  }
}

DEVICE void play_teams(void) {
  fiber_t *self = grid->current;
  team_t *before = self->team;
  while (grid->next_team < grid->teams) {
    team_t *team = calloc(1, sizeof *team);
    team->threads = team->size = team->started = 1;
    team->number = grid->next_team++;
    team->seen = grid->single.seen;
    team->top = (uint64_t)__builtin_frame_address(0);
    self->team = team;
    self->thread = self->level = 0;
    grid->live_teams++;
    call_outlined(grid->league_body, 0, (int32_t)team->number, grid->league_arguments, grid->league_argument_count);
    grid->live_teams--;
    free(team);
  }
  self->team = before;
  if (!grid->live_teams && grid->joining) {
    make_ready(grid->joining);
    grid->joining = NULL;
  }
}

/* A fiber begins with the team whose threads wait to begin, or with the teams that do; then its stack is free. */
static void fiber_main(void) {
  fiber_t *self = grid->current, *next;
  do {
    if (self->team)
      play_threads(self->team);
    else
      play_teams();
    self->team = NULL;
    next = pop_ready();
  } while (!next && grid->next_team < grid->teams);
  if (!next)
    stuck();
  self->next = grid->pool;
  grid->pool = self;
  switch_to(next); /* its stack begins anew when it is taken from the pool */
}

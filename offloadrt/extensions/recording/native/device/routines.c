/* Synchronization, reductions, tasks and the routines that device code may call. */
#include "grid.h"
#include <stdlib.h>
#include <string.h>

typedef void (*combine_t)(void *, void *);

/* A fiber gives its turn away only where it waits, so a thread that combines its value is alone with the result. */
DEVICE int32_t __kmpc_reduce_nowait(void *location, int32_t thread, int32_t count, size_t bytes, void *data,
                                    combine_t combine, void *lock) {
  (void)location, (void)thread, (void)count, (void)bytes, (void)data, (void)combine;
  synchronize(lock, true, false);
  return 1;
}

DEVICE void __kmpc_end_reduce_nowait(void *location, int32_t thread, void *lock) {
  (void)location, (void)thread;
  synchronize(lock, false, true);
}

DEVICE int32_t __kmpc_reduce(void *location, int32_t thread, int32_t count, size_t bytes, void *data, combine_t combine,
                             void *lock) {
  return __kmpc_reduce_nowait(location, thread, count, bytes, data, combine, lock);
}

DEVICE void __kmpc_end_reduce(void *location, int32_t thread, void *lock) {
  __kmpc_end_reduce_nowait(location, thread, lock);
  barrier(this_team());
}

/* ---- locks: a word that holds 1 while one has it ---- */
static void take(int32_t *word) {
  while (*(volatile int32_t *)word)
    give_turn();
  *word = 1;
  synchronize_team(word, true, false);
}

static void give_back(int32_t *word) {
  synchronize_team(word, false, true);
  *word = 0;
}

DEVICE void __kmpc_critical(void *location, int32_t thread, void *lock) {
  (void)location, (void)thread;
  take(lock);
}

DEVICE void __kmpc_critical_with_hint(void *location, int32_t thread, void *lock, uint32_t hint) {
  (void)hint;
  __kmpc_critical(location, thread, lock);
}

DEVICE void __kmpc_end_critical(void *location, int32_t thread, void *lock) {
  (void)location, (void)thread;
  give_back(lock);
}

DEVICE void omp_init_lock(void *lock) { *(int32_t *)lock = 0; }
DEVICE void omp_init_lock_with_hint(void *lock, uintptr_t hint) {
  (void)hint;
  omp_init_lock(lock);
}
DEVICE void omp_destroy_lock(void *lock) { (void)lock; }
DEVICE void omp_set_lock(void *lock) { take(lock); }
DEVICE void omp_unset_lock(void *lock) { give_back(lock); }
DEVICE int omp_test_lock(void *lock) {
  int32_t *word = lock;
  if (*word) {
    give_turn(); /* a loop may wait for it so */
    return 0;
  }
  take(word);
  return 1;
}

/* ---- locks that nest: who has one, and how often ---- */
typedef struct {
  uint32_t owner, depth;
} nest_lock_t;

static uint32_t oneself(void) { return this_team()->number * 1024 + this_grid()->current->thread + 1; }

DEVICE int omp_test_nest_lock(nest_lock_t *lock) {
  if (lock->owner && lock->owner != oneself()) {
    give_turn();
    return 0;
  }
  if (!lock->owner)
    synchronize_team(lock, true, false);
  lock->owner = oneself();
  return (int)++lock->depth;
}
DEVICE void omp_set_nest_lock(nest_lock_t *lock) {
  while (!omp_test_nest_lock(lock))
    ;
}
DEVICE void omp_unset_nest_lock(nest_lock_t *lock) {
  if (--lock->depth)
    return;
  synchronize_team(lock, false, true);
  lock->owner = 0;
}
DEVICE void omp_init_nest_lock(nest_lock_t *lock) { *lock = (nest_lock_t){0, 0}; }
DEVICE void omp_init_nest_lock_with_hint(nest_lock_t *lock, uintptr_t hint) {
  (void)hint;
  omp_init_nest_lock(lock);
}
DEVICE void omp_destroy_nest_lock(nest_lock_t *lock) { (void)lock; }

DEVICE void __kmpc_ordered(void *location, int32_t thread) {
  (void)location, (void)thread;
  synchronize_team(this_team(), true, false);
}
DEVICE void __kmpc_end_ordered(void *location, int32_t thread) {
  (void)location, (void)thread;
  synchronize_team(this_team(), false, true);
}
DEVICE void __kmpc_flush(void *location) { (void)location; }

static uint32_t thread_in_team(void) {
  grid_t *grid = this_grid();
  const fiber_t *self = grid->current;
  return self->level == 1 ? self->thread % self->team->size : 0;
}

DEVICE int32_t __kmpc_master(void *location, int32_t thread) {
  (void)location, (void)thread;
  return thread_in_team() == 0;
}
DEVICE void __kmpc_end_master(void *location, int32_t thread) { (void)location, (void)thread; }
DEVICE int32_t __kmpc_masked(void *location, int32_t thread, int32_t filter) {
  (void)location, (void)thread;
  return (int32_t)thread_in_team() == filter;
}
DEVICE void __kmpc_end_masked(void *location, int32_t thread) { (void)location, (void)thread; }
DEVICE int32_t __kmpc_single(void *location, int32_t thread) { return __kmpc_master(location, thread); }
DEVICE void __kmpc_end_single(void *location, int32_t thread) { (void)location, (void)thread; }

DEVICE void __kmpc_copyprivate(void *location, int32_t thread, size_t bytes, void *variables, void (*copy)(void *, void *),
                               int32_t has_run) {
  (void)location, (void)thread, (void)bytes;
  team_t *team = this_team();
  if (this_grid()->current->level > 1) /* a region of one thread, which has run it */
    return;
  if (has_run)
    team->copied = variables;
  barrier(team);
  if (!has_run)
    copy(variables, team->copied);
  barrier(team);
}

/* Nothing is cancelled unless OMP_CANCELLATION says so, and on a GPU nothing is. */
DEVICE int32_t __kmpc_cancel(void *location, int32_t thread, int32_t kind) {
  (void)location, (void)thread, (void)kind;
  return 0;
}
DEVICE int32_t __kmpc_cancellationpoint(void *location, int32_t thread, int32_t kind) { return __kmpc_cancel(location, thread, kind); }

/* ---- tasks: run where they are met, which OpenMP allows ---- */
typedef struct {
  void *shareds;
  int32_t (*routine)(int32_t, void *);
  int32_t part;
} task_t;

DEVICE void *__kmpc_omp_task_alloc(void *location, int32_t thread, int32_t flags, size_t task_bytes, size_t shared_bytes,
                                   int32_t (*routine)(int32_t, void *)) {
  (void)location, (void)thread, (void)flags;
  size_t aligned = (task_bytes + 15) / 16 * 16;
  task_t *task = calloc(1, aligned + shared_bytes);
  task->shareds = shared_bytes ? (char *)task + aligned : NULL;
  task->routine = routine;
  return task;
}

DEVICE int32_t __kmpc_omp_task(void *location, int32_t thread, task_t *task) {
  (void)location;
  task->routine(thread, task);
  free(task);
  return 0;
}

DEVICE int32_t __kmpc_omp_task_with_deps(void *location, int32_t thread, task_t *task, int32_t count, void *list,
                                         int32_t noalias_count, void *noalias) {
  (void)count, (void)list, (void)noalias_count, (void)noalias;
  return __kmpc_omp_task(location, thread, task);
}

/* As on a GPU, the whole loop is one task. Its copy of itself says that it has the last iteration. */
DEVICE void __kmpc_taskloop(void *location, int32_t thread, task_t *task, int32_t condition, uint64_t *lower,
                            uint64_t *upper, int64_t step, int32_t nogroup, int32_t schedule, uint64_t grain,
                            void (*copy)(task_t *, task_t *, int32_t)) {
  (void)condition, (void)lower, (void)upper, (void)step, (void)nogroup, (void)schedule, (void)grain;
  if (copy)
    copy(task, task, 1);
  __kmpc_omp_task(location, thread, task);
}

/* With `strict`. */
DEVICE void __kmpc_taskloop_5(void *location, int32_t thread, task_t *task, int32_t condition, uint64_t *lower,
                              uint64_t *upper, int64_t step, int32_t nogroup, int32_t schedule, uint64_t grain,
                              int32_t modifier, void (*copy)(task_t *, task_t *, int32_t)) {
  (void)modifier;
  __kmpc_taskloop(location, thread, task, condition, lower, upper, step, nogroup, schedule, grain, copy);
}

DEVICE void __kmpc_omp_task_begin_if0(void *location, int32_t thread, task_t *task) { (void)location, (void)thread, (void)task; }
DEVICE void __kmpc_omp_task_complete_if0(void *location, int32_t thread, task_t *task) {
  (void)location, (void)thread;
  free(task);
}
DEVICE int32_t __kmpc_omp_taskwait(void *location, int32_t thread) {
  (void)location, (void)thread;
  return 0;
}
DEVICE int32_t __kmpc_omp_taskyield(void *location, int32_t thread, int end) {
  (void)location, (void)thread, (void)end;
  return 0;
}
DEVICE void __kmpc_taskgroup(void *location, int32_t thread) { (void)location, (void)thread; }
DEVICE void __kmpc_end_taskgroup(void *location, int32_t thread) { (void)location, (void)thread; }

DEVICE void __kmpc_omp_wait_deps(void *location, int32_t thread, int32_t count, void *list, int32_t noalias_count, void *noalias) {
  (void)location, (void)thread, (void)count, (void)list, (void)noalias_count, (void)noalias;
}
DEVICE void __kmpc_omp_taskwait_deps_51(void *location, int32_t thread, int32_t count, void *list, int32_t noalias_count,
                                        void *noalias, int32_t nowait) {
  (void)nowait;
  __kmpc_omp_wait_deps(location, thread, count, list, noalias_count, noalias);
}

/* Task reductions: a task runs on where it began, so that it may work on the variable itself and needs no copy of its own. */
DEVICE void *__kmpc_taskred_init(int32_t thread, int32_t count, void *data) {
  (void)thread, (void)count;
  return data;
}
DEVICE void *__kmpc_taskred_modifier_init(void *location, int32_t thread, int32_t worksharing, int32_t count, void *data) {
  (void)location, (void)worksharing;
  return __kmpc_taskred_init(thread, count, data);
}
DEVICE void *__kmpc_task_reduction_get_th_data(int32_t thread, void *group, void *variable) {
  (void)thread, (void)group;
  return variable;
}
DEVICE void __kmpc_task_reduction_modifier_fini(void *location, int32_t thread, int32_t worksharing) {
  (void)location, (void)thread, (void)worksharing;
}

/* ---- memory of OpenMP's allocators: all of them take it from the heap ---- */
DEVICE void *__kmpc_aligned_alloc(int32_t thread, size_t alignment, size_t bytes, uintptr_t allocator) {
  (void)thread, (void)allocator;
  size_t aligned = alignment > sizeof(void *) ? alignment : sizeof(void *);
  return bytes ? aligned_alloc(aligned, (bytes + aligned - 1) / aligned * aligned) : NULL;
}
DEVICE void *__kmpc_alloc(int32_t thread, size_t bytes, uintptr_t allocator) {
  return __kmpc_aligned_alloc(thread, 16, bytes, allocator);
}
DEVICE void __kmpc_free(int32_t thread, void *memory, uintptr_t allocator) {
  (void)thread, (void)allocator;
  free(memory);
}
DEVICE uintptr_t __kmpc_init_allocator(int32_t thread, uintptr_t space, int32_t traits, void *list) {
  (void)thread, (void)traits, (void)list;
  return space;
}
DEVICE void __kmpc_destroy_allocator(int32_t thread, uintptr_t allocator) { (void)thread, (void)allocator; }
DEVICE void *omp_alloc(size_t bytes, uintptr_t allocator) { return __kmpc_alloc(0, bytes, allocator); }
DEVICE void *omp_aligned_alloc(size_t alignment, size_t bytes, uintptr_t allocator) {
  return __kmpc_aligned_alloc(0, alignment, bytes, allocator);
}
DEVICE void *omp_calloc(size_t count, size_t bytes, uintptr_t allocator) {
  (void)allocator;
  return calloc(count, bytes);
}
DEVICE void *omp_aligned_calloc(size_t alignment, size_t count, size_t bytes, uintptr_t allocator) {
  void *memory = __kmpc_aligned_alloc(0, alignment, count * bytes, allocator);
  return memory ? memset(memory, 0, count * bytes) : NULL;
}
DEVICE void *omp_realloc(void *memory, size_t bytes, uintptr_t allocator, uintptr_t free_allocator) {
  (void)allocator, (void)free_allocator;
  return realloc(memory, bytes);
}
DEVICE void omp_free(void *memory, uintptr_t allocator) { __kmpc_free(0, memory, allocator); }

/* ---- routines: who asks for its number can tell the threads apart ---- */
static int who(uint32_t answer) {
  this_grid()->launch->asked_who = 1;
  return (int)answer;
}

DEVICE int omp_get_thread_num(void) { return who(thread_in_team()); }
DEVICE int omp_get_num_threads(void) { return who(this_grid()->current->level == 1 ? this_team()->size : 1); }
DEVICE int omp_get_team_num(void) { return who(this_team()->number); }
DEVICE int omp_get_num_teams(void) { return who(this_grid()->teams ? this_grid()->teams : 1); }
DEVICE int omp_get_max_threads(void) { return who(this_grid()->current->level ? 1 : this_grid()->threads); }
DEVICE int omp_get_thread_limit(void) { return who(this_grid()->threads); }
DEVICE int omp_get_level(void) { return (int)this_grid()->current->level; }
DEVICE int omp_get_ancestor_thread_num(int level) {
  int innermost = omp_get_level();
  return level < 0 || level > innermost ? -1 : level == 1 ? who(this_grid()->current->thread % this_team()->size) : 0;
}
DEVICE int omp_get_team_size(int level) {
  int innermost = omp_get_level();
  return level < 0 || level > innermost ? -1 : level == 1 ? who(this_team()->size) : 1;
}
DEVICE int omp_get_active_level(void) { return this_grid()->current->level > 0; }
DEVICE int omp_in_parallel(void) { return this_grid()->current->level > 0; }
DEVICE int omp_is_initial_device(void) { return 0; }

/* Fortran's names */
DEVICE int omp_get_thread_num_(void) { return omp_get_thread_num(); }
DEVICE int omp_get_num_threads_(void) { return omp_get_num_threads(); }
DEVICE int omp_get_team_num_(void) { return omp_get_team_num(); }
DEVICE int omp_get_num_teams_(void) { return omp_get_num_teams(); }
DEVICE int omp_get_max_threads_(void) { return omp_get_max_threads(); }
DEVICE int omp_get_thread_limit_(void) { return omp_get_thread_limit(); }
DEVICE int omp_in_parallel_(void) { return omp_in_parallel(); }
DEVICE int omp_is_initial_device_(void) { return 0; }

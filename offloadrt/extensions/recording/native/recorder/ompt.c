/* The OMPT tool: the operations that the real runtime makes (what a replay is compared with), and the order of the host's
 * threads: parallel regions, barriers, tasks and their dependences, locks. */
#include "recorder.h"
#include <omp-tools.h>
#include <stdlib.h>
#include <string.h>

enum { BEGIN = 1, END = 2 };

static __thread uint64_t submit_begin_at, submit_cpu;

static uint64_t value(const ompt_data_t *data) { return data ? data->value : 0; }

/* The slots of host events have the same first words. */
static slot_t *host_slot(uint64_t second, uint64_t third) {
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = second;
  slot->word[2] = third;
  slot->word[3] = thread_cpu(slot->word[0]);
  slot->word[4] = slot->word[5] = slot->word[6] = 0;
  return slot;
}

static uint64_t id_of(ompt_data_t *data, uint64_t *counter) {
  if (data && !data->value) {
    next_slot(); /* opens the thread's file, which an id needs */
    data->value = new_id(counter);
  }
  return value(data);
}

/* ---- operations on the device ---- */
static bool allocates(ompt_target_data_op_t kind) { return kind == ompt_target_data_alloc || kind == ompt_target_data_alloc_async; }
static bool frees(ompt_target_data_op_t kind) { return kind == ompt_target_data_delete || kind == ompt_target_data_delete_async; }

static bool copies(ompt_target_data_op_t kind) {
  return kind == ompt_target_data_transfer_to_device || kind == ompt_target_data_transfer_from_device ||
         kind == ompt_target_data_transfer_to_device_async || kind == ompt_target_data_transfer_from_device_async;
}

/* ---- what a copy brings ---- */
static __thread uint64_t digest;
static __thread uint32_t brings; /* BRINGS_KNOWN, and BRINGS_NOTHING where its place had the same bytes */

static uint64_t mixed(uint64_t left, uint64_t right) {
  unsigned __int128 product = (unsigned __int128)left * right;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Four lanes, as a product takes longer than it takes to begin the next one. */
enum { LANES = 4, LANE_WORDS = 2 };
typedef struct {
  uint64_t lane[LANES];
} digest_t;

static void digest_block(digest_t *state, const unsigned char *bytes) {
  uint64_t word[LANES * LANE_WORDS];
  memcpy(word, bytes, sizeof word);
  for (int i = 0; i < LANES; i++)
    state->lane[i] = mixed(word[LANE_WORDS * i] ^ state->lane[i], word[LANE_WORDS * i + 1] ^ 0x9e3779b97f4a7c15u);
}

static uint64_t digest_of(const unsigned char *bytes, size_t count) {
  enum { BLOCK = LANES * LANE_WORDS * sizeof(uint64_t) };
  digest_t state = {{0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u}};
  size_t left = count;
  for (; left >= BLOCK; left -= BLOCK, bytes += BLOCK)
    digest_block(&state, bytes);
  unsigned char rest[BLOCK] = {0};
  memcpy(rest, bytes, left);
  digest_block(&state, rest);
  uint64_t whole = count;
  for (int i = 0; i < LANES; i++)
    whole = mixed(whole ^ state.lane[i], 0xd6e8feb86659fd93u);
  return whole;
}

/* Device memory is the host's here, so both sides can be read. Told before the copy: afterwards they are equal. */
static void look_at_copy(const void *from, const void *to, size_t bytes) {
  brings = 0;
  if (!from || !to || !recording())
    return;
  digest = digest_of(from, bytes);
  brings = BRINGS_KNOWN | (memcmp(from, to, bytes) ? 0 : BRINGS_NOTHING);
}

static void on_data_op(ompt_scope_endpoint_t at, ompt_data_t *task, ompt_data_t *target, ompt_id_t *id,
                       ompt_target_data_op_t kind, void *from, int from_device, void *to, int to_device, size_t bytes,
                       const void *code) {
  (void)task, (void)target, (void)id, (void)code;
  if (at == ompt_scope_begin) {
    if (frees(kind))
      array_freed((uint64_t)from);
    if (copies(kind))
      look_at_copy(from, to, bytes);
    return;
  }
  if (allocates(kind) && to)
    array_allocated((uint64_t)to, (uint64_t)from, bytes, true);
  if (!recording())
    return;
  slot_t *slot = next_slot();
  bool known = copies(kind) && at == ompt_scope_end && brings;
  slot->word[0] = known ? digest : 0;
  slot->word[1] = this_thread()->call;
  slot->word[2] = (uint64_t)from;
  slot->word[3] = (uint64_t)to;
  slot->word[4] = bytes;
  slot->word[5] = (uint64_t)(uint32_t)from_device << 32 | (uint32_t)to_device;
  slot->word[6] = now();
  end_slot(slot, SLOT_OP, kind, known ? brings : 0);
}

void put_submit(uint32_t teams) {
  if (!recording())
    return;
  slot_t *slot = next_slot();
  slot->word[0] = submit_begin_at;
  slot->word[1] = this_thread()->call;
  slot->word[3] = submit_cpu;
  slot->word[6] = now();
  end_slot(slot, SLOT_SUBMIT, 0, teams);
}

static void on_submit(ompt_scope_endpoint_t at, ompt_data_t *target, ompt_id_t *id, unsigned teams) {
  (void)target, (void)id;
  if (at == ompt_scope_begin) {
    submit_begin_at = now();
    submit_cpu = thread_cpu(submit_begin_at);
    submit_begin();
    return;
  }
  submit_end();
  put_submit(teams);
}

static void on_device(int device, const char *type, ompt_device_t *handle, ompt_function_lookup_t lookup,
                      const char *documentation) {
  (void)handle, (void)lookup, (void)documentation;
  line_begin("device");
  line_number("device", device);
  line_text("type", type);
  line_end();
}

/* ---- the host ---- */
static void on_task_create(ompt_data_t *parent, const ompt_frame_t *frame, ompt_data_t *task, int flags, int has_dependences,
                           const void *code) {
  (void)frame;
  end_interval(); /* what was touched until now happens before the task */
  uint64_t created = id_of(task, &this_thread()->tasks);
  slot_t *slot = host_slot(created, value(parent));
  track_own_stack(); /* the task may map variables of the stack, or touch what another task maps */
  slot->word[4] = (uint32_t)flags;
  slot->word[5] = (uint64_t)has_dependences;
  slot->word[6] = (uint64_t)code;
  end_slot(slot, SLOT_TASK_CREATE, flags & ompt_task_taskwait ? this_thread()->nowait : 0, 0);
}

/* LLVM keeps the data of a `taskwait depend` behind those of its thread, and ends the program if something is there already. But it also
 * leaves there what an implicit task had which waits at the end of its region, or has ended there; and a thread that waits may run a task
 * that does so, too. So what this thread has there is put aside meanwhile. */
static ompt_get_thread_data_t thread_data;

typedef struct {
  ompt_data_t *place, data;
} aside_t;

static aside_t put_aside(void) {
  aside_t aside = {thread_data ? thread_data() : NULL, {0}};
  if (aside.place && is_own_id((++aside.place)->value)) {
    aside.data = *aside.place;
    *aside.place = (ompt_data_t){0};
  }
  return aside;
}

static void put_back(aside_t aside) {
  if (aside.data.value)
    *aside.place = aside.data;
}

/* LLVM 22 waits at `taskwait nowait depend` as at any other, and OMPT does not tell the two apart. But OpenMP lets the thread go on: the
 * construct makes an empty task, which only orders others. */
EXPORT void __kmpc_omp_taskwait_deps_51(void *, int32_t, int32_t, void *, int32_t, void *, int32_t);
EXPORT void __kmpc_omp_taskwait_deps_51(void *place, int32_t thread, int32_t count, void *depend, int32_t noalias_count,
                                        void *noalias, int32_t nowait) {
  REAL(__kmpc_omp_taskwait_deps_51);
  aside_t aside = put_aside();
  this_thread()->nowait = nowait;
  real(place, thread, count, depend, noalias_count, noalias, nowait);
  this_thread()->nowait = false;
  put_back(aside);
}

EXPORT void __kmpc_omp_wait_deps(void *, int32_t, int32_t, void *, int32_t, void *);
EXPORT void __kmpc_omp_wait_deps(void *place, int32_t thread, int32_t count, void *depend, int32_t noalias_count, void *noalias) {
  REAL(__kmpc_omp_wait_deps);
  aside_t aside = put_aside();
  real(place, thread, count, depend, noalias_count, noalias);
  put_back(aside);
}

/* Tasks that this thread runs or has begun, and that have asked which thread runs them: it runs such tasks one after the other, so
 * what they do with what belongs to it is ordered, whatever made them. */
static __thread uint64_t *asking;
static __thread size_t asking_count, asking_room;

static size_t place_of_asking(uint64_t task) {
  size_t place = asking_count;
  while (place && asking[place - 1] != task)
    place--;
  return place; /* plus 1 */
}

void task_asks(void) {
  thread_t *thread = this_thread();
  if (thread->asks || !thread->task)
    return;
  if (asking_count == asking_room) {
    bool was_inside = thread->inside;
    thread->inside = true;
    asking_room = asking_room * 2 + 16;
    asking = realloc(asking, asking_room * sizeof *asking);
    thread->inside = was_inside;
  }
  end_interval(); /* what came before does not depend on the thread */
  asking[asking_count++] = thread->task;
  thread->asks = true;
}

static void begin_task(uint64_t task) {
  this_thread()->task = task;
  this_thread()->asks = place_of_asking(task);
}

static void end_task(uint64_t task) {
  size_t place = place_of_asking(task);
  if (place)
    asking[place - 1] = asking[--asking_count];
}

static void on_task_schedule(ompt_data_t *prior, ompt_task_status_t status, ompt_data_t *next) {
  end_interval(); /* it is the prior task's */
  if (status == ompt_task_complete || status == ompt_task_cancel)
    end_task(value(prior));
  if (next)
    begin_task(next->value);
  end_slot(host_slot(value(prior), value(next)), SLOT_TASK_SCHEDULE, status, 0);
}

static void on_dependences(ompt_data_t *task, const ompt_dependence_t *dependences, int count) {
  for (int i = 0; i < count; i++) {
    slot_t *slot = next_slot();
    slot->word[0] = now();
    slot->word[1] = value(task);
    slot->word[2] = (uint64_t)dependences[i].variable.ptr;
    end_slot(slot, SLOT_DEPENDENCE, dependences[i].dependence_type, 0);
  }
}

static void on_sync(ompt_sync_region_t kind, ompt_scope_endpoint_t at, ompt_data_t *parallel, ompt_data_t *task,
                    const void *code) {
  if (at == ompt_scope_begin)
    end_interval();
  slot_t *slot = host_slot(value(parallel), value(task));
  slot->word[5] = at == ompt_scope_begin ? waits_at(code) : (uint64_t)code;
  end_slot(slot, SLOT_SYNC, at == ompt_scope_begin ? BEGIN : END, kind);
}

/* `single copyprivate`: the runtime waits for the team twice, and does not tell the tool that these are barriers of the program's. */
typedef void copy_t(void *, void *);
EXPORT void __kmpc_copyprivate(void *, int32_t, size_t, void *, copy_t *, int32_t);
EXPORT void __kmpc_copyprivate(void *place, int32_t thread, size_t bytes, void *data, copy_t *copy, int32_t did) {
  REAL(__kmpc_copyprivate);
  if (!recording()) {
    real(place, thread, bytes, data, copy, did);
    return;
  }
  ompt_data_t task = {this_thread()->task};
  on_sync(ompt_sync_region_barrier_implicit_workshare, ompt_scope_begin, NULL, &task, NULL);
  real(place, thread, bytes, data, copy, did);
  on_sync(ompt_sync_region_barrier_implicit_workshare, ompt_scope_end, NULL, &task, NULL);
  on_sync(ompt_sync_region_barrier_implicit_workshare, ompt_scope_begin, NULL, &task, NULL);
  on_sync(ompt_sync_region_barrier_implicit_workshare, ompt_scope_end, NULL, &task, NULL);
}

static void on_parallel_begin(ompt_data_t *parent, const ompt_frame_t *frame, ompt_data_t *parallel, unsigned requested,
                              int flags, const void *code) {
  (void)frame, (void)flags;
  end_interval();
  uint64_t created = id_of(parallel, &this_thread()->tasks);
  slot_t *slot = host_slot(created, value(parent));
  track_own_stack(); /* a thread may touch its variables before another one maps them */
  slot->word[5] = (uint64_t)code;
  end_slot(slot, SLOT_PARALLEL_BEGIN, 0, requested);
}

static void on_parallel_end(ompt_data_t *parallel, ompt_data_t *parent, int flags, const void *code) {
  (void)flags, (void)code;
  begin_task(value(parent));
  end_slot(host_slot(value(parallel), value(parent)), SLOT_PARALLEL_END, 0, 0);
}

static void on_implicit_task(ompt_scope_endpoint_t at, ompt_data_t *parallel, ompt_data_t *task, unsigned size,
                             unsigned number, int flags) {
  if (at == ompt_scope_begin)
    begin_task(id_of(task, &this_thread()->tasks));
  else {
    end_interval();
    end_task(value(task));
  }
  slot_t *slot = host_slot(value(parallel), value(task));
  slot->word[4] = size;
  slot->word[5] = (uint64_t)flags;
  end_slot(slot, SLOT_IMPLICIT, at == ompt_scope_begin ? BEGIN : END, number);
}

enum { ACQUIRE = 1, ACQUIRED, RELEASED };

/* What was done with the lock comes before it is given back, and what was done without it before it is taken. */
static void put_mutex(uint32_t what, ompt_mutex_t kind, ompt_wait_id_t wait, uint64_t place) {
  if (kind != ompt_mutex_atomic)
    end_interval();
  slot_t *slot = host_slot(wait, this_thread()->task);
  slot->word[5] = place;
  end_slot(slot, SLOT_MUTEX, what, kind);
}

static void on_acquire(ompt_mutex_t kind, unsigned hint, unsigned implementation, ompt_wait_id_t wait, const void *code) {
  (void)hint, (void)implementation;
  put_mutex(ACQUIRE, kind, wait, waits_at(code));
}

static void on_acquired(ompt_mutex_t kind, ompt_wait_id_t wait, const void *code) {
  put_mutex(ACQUIRED, kind, wait, (uint64_t)code);
}

static void on_released(ompt_mutex_t kind, ompt_wait_id_t wait, const void *code) {
  put_mutex(RELEASED, kind, wait, (uint64_t)code);
}

void put_asked(uint64_t address, const void *code) { put_mutex(ACQUIRE, (ompt_mutex_t)MUTEX_POSIX, address, waits_at(code)); }
void put_posix_mutex(uint64_t address, bool is_release) { put_mutex(is_release ? RELEASED : ACQUIRED, (ompt_mutex_t)MUTEX_POSIX, address, 0); }

void put_flag(uint64_t address, bool is_release, uint32_t count) {
  end_interval();
  slot_t *slot = host_slot(address, this_thread()->task);
  slot->word[4] = count;
  end_slot(slot, SLOT_MUTEX, is_release ? RELEASED : ACQUIRED, MUTEX_FLAG);
}

static int tool_begin(ompt_function_lookup_t lookup, int device, ompt_data_t *data) {
  (void)device, (void)data;
  static const struct {
    const char *name;
    ompt_callbacks_t event;
    ompt_callback_t callback;
  } wanted[] = {
#define WANTED(event, function) {#event, ompt_callback_##event, (ompt_callback_t)function}
      WANTED(target_data_op_emi, on_data_op),
      WANTED(target_submit_emi, on_submit),
      WANTED(device_initialize, on_device),
      WANTED(task_create, on_task_create),
      WANTED(task_schedule, on_task_schedule),
      WANTED(dependences, on_dependences),
      WANTED(sync_region, on_sync),
      WANTED(parallel_begin, on_parallel_begin),
      WANTED(parallel_end, on_parallel_end),
      WANTED(implicit_task, on_implicit_task),
      WANTED(mutex_acquire, on_acquire),
      WANTED(mutex_acquired, on_acquired),
      WANTED(mutex_released, on_released),
  };
  static const char *const answers[] = {"error", "never", "impossible", "sometimes", "sometimes_paired", "always"};
  ompt_set_callback_t set = (ompt_set_callback_t)lookup("ompt_set_callback");
  thread_data = (ompt_get_thread_data_t)lookup("ompt_get_thread_data");
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    line_begin("ompt");
    line_text("callback", wanted[i].name);
    line_text("set", answers[set(wanted[i].event, wanted[i].callback)]);
    line_end();
  }
  return 1;
}

static void tool_end(ompt_data_t *data) { (void)data; }

/* Only a program that offloads is recorded: its images are registered before its OpenMP runtime begins. */
EXPORT ompt_start_tool_result_t *ompt_start_tool(unsigned version, const char *runtime) {
  static ompt_start_tool_result_t result = {tool_begin, tool_end, {0}};
  if (!recording())
    return NULL;
  line_begin("runtime");
  line_number("omp", version);
  line_text("name", runtime);
  line_end();
  return &result;
}

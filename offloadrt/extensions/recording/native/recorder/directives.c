/* The directives of a program that LLVM compiled: the entry points of libomptarget, interposed.
 *
 * They do not depend on what the runtime of this machine decides, nor on whether it has a device: a program whose
 * device is missing calls them all the same, and then runs the host's version of each kernel. */
#include "calls.h"

typedef struct {
  int32_t reserved[4];
  const char *location; /* ;file;function;line;column;; */
} ident_t;

typedef struct {
  uint32_t version, items;
  void **base, **begin;
  int64_t *size, *type;
  void **name, **mapper;
  uint64_t tripcount, flags;
  uint32_t teams[3], threads[3], dynamic_memory;
} kernel_arguments_t;

typedef struct { /* an entry of LLVM 20 and later: its first word is 0 */
  uint64_t reserved;
  uint16_t version, kind;
  uint32_t flags;
  void *address;
  char *name;
  uint64_t size, data;
  void *auxiliary;
} entry_t;

typedef struct { /* an entry of LLVM 19 and earlier */
  void *address;
  char *name;
  uint64_t size;
  int32_t flags, data;
} old_entry_t;

typedef struct {
  int32_t image_count;
  void *images;
  void *entries, *entries_end;
} library_t;

#define NON_CONTIGUOUS 0x100000000000
enum { RETURN_PARAM = 0x40, LITERAL = 0x100, LINK = 0x1, REGISTERS_REQUIRES = 0x10, SMALLEST_TRACKED = 4096, DEFAULT_DEVICE = -1 };

extern int omp_get_default_device(void) __attribute__((weak));

/* The device that a directive without a number goes to; it keeps none while that is the first one. */
static int64_t chosen_device(int64_t device) {
  int chosen = device == DEFAULT_DEVICE && omp_get_default_device ? omp_get_default_device() : 0;
  return chosen > 0 ? chosen : device;
}

call_t call_begin(enum function function, const char *location, int64_t device, uint32_t slots) {
  thread_t *thread = this_thread();
  call_t call = {.function = function, .outer = thread->call};
  if (!recording())
    return call;
  if (!call.outer) {
    thread->frame = (uint64_t)__builtin_frame_address(0);
    end_interval();
    if (function != CALL_STOP)
      count_directive();
  }
  uint64_t where = string_at(location);
  uint64_t chosen = (uint64_t)chosen_device(device); /* the OpenMP runtime may come to know this thread by it, which writes slots */
  slot_t *slot = next_slot(); /* opens the thread's file, which an id needs */
  call.id = new_id(&thread->calls);
  slot->word[1] = call.id;
  slot->word[2] = call.outer;
  slot->word[4] = where;
  slot->word[5] = chosen;
  slot->word[6] = thread->task;
  slot->word[0] = now();
  slot->word[3] = thread_cpu(slot->word[0]);
  end_slot(slot, SLOT_CALL, function, slots);
  thread->call = call.id;
  return call;
}

void call_end(call_t call, uint64_t result) {
  if (!call.id)
    return;
  this_thread()->call = call.outer;
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = call.id;
  slot->word[2] = result;
  slot->word[3] = thread_cpu(slot->word[0]);
  end_slot(slot, SLOT_RET, call.function, 0);
}

/* What the program did not allocate on the heap (its globals, its stack) is known from here on. */
void note_host_memory(uint64_t begin, uint64_t bytes) {
  if (bytes >= SMALLEST_TRACKED || tracks_bytes())
    track(begin, bytes);
  if (tracks_bytes())
    note_on_stack(begin, bytes);
}

void put_item(uint32_t index, uint64_t base, uint64_t begin, int64_t size, uint64_t type, const char *name,
              void *mapper) {
  uint64_t text = string_at(name);
  slot_t *slot = next_slot();
  slot->word[0] = base;
  slot->word[1] = begin;
  slot->word[2] = (uint64_t)size;
  slot->word[3] = type;
  slot->word[4] = text;
  slot->word[5] = (uint64_t)mapper;
  end_slot(slot, SLOT_ITEM, index, 0);
  if (size > 0 && !(type & LITERAL))
    note_host_memory(begin, (uint64_t)size);
}

/* Before a directive: what it maps. */
static void items_given(uint32_t count, void **begin, const int64_t *type) {
  for (uint32_t i = 0; i < count; i++)
    if (!(type[i] & (LITERAL | NON_CONTIGUOUS)))
      is_given((uint64_t)begin[i], true);
}

void put_arguments(const uint64_t *values, uint32_t count) {
  for (uint32_t done = 0; done < count; done += WORDS) {
    slot_t *slot = next_slot();
    for (uint32_t i = 0; i < WORDS && done + i < count; i++)
      slot->word[i] = values[done + i];
    end_slot(slot, SLOT_ARG, 0, 0);
  }
}

/* A strided section: size says how many dimensions begin points to. */
typedef struct {
  uint64_t offset, count, stride;
} dimension_t;

static uint32_t dimensions_of(uint32_t count, const int64_t *size, const int64_t *type) {
  uint32_t dimensions = 0;
  for (uint32_t i = 0; i < count; i++)
    if (type[i] & NON_CONTIGUOUS)
      dimensions += (uint32_t)size[i];
  return dimensions;
}

static void put_dimensions(uint32_t index, const dimension_t *dimensions, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    slot_t *slot = next_slot();
    slot->word[0] = dimensions[i].offset;
    slot->word[1] = dimensions[i].count;
    slot->word[2] = dimensions[i].stride;
    end_slot(slot, SLOT_DIMENSION, index, 0);
  }
}

static void put_items(uint32_t count, void **base, void **begin, int64_t *size, int64_t *type, void **name, void **mapper) {
  for (uint32_t i = 0; i < count; i++)
    put_item(i, (uint64_t)base[i], (uint64_t)begin[i], size[i], (uint64_t)type[i], name ? name[i] : NULL,
             mapper ? mapper[i] : NULL);
  for (uint32_t i = 0; i < count; i++)
    if (type[i] & NON_CONTIGUOUS)
      put_dimensions(i, begin[i], size[i]);
}

/* use_device_ptr and use_device_addr: the runtime writes the device address into the base. */
static void put_outs(call_t call, uint32_t count, void **base, int64_t *type) {
  for (uint32_t i = 0; i < count; i++)
    if (type[i] & RETURN_PARAM) {
      slot_t *slot = next_slot();
      slot->word[1] = call.id;
      slot->word[2] = (uint64_t)base[i];
      end_slot(slot, SLOT_OUT, i, 0);
    }
}

#define DATA(NAME, FUNCTION)                                                                                           \
  EXPORT void NAME(ident_t *ident, int64_t device, int32_t count, void **base, void **begin, int64_t *size,            \
                   int64_t *type, void **name, void **mapper) {                                                        \
    REAL(NAME);                                                                                                        \
    uint32_t slots = (uint32_t)count + dimensions_of((uint32_t)count, size, type);                                     \
    items_given((uint32_t)count, begin, type);                                                                         \
    call_t call = call_begin(FUNCTION, ident ? ident->location : NULL, device, slots);                                 \
    if (call.id)                                                                                                       \
      put_items((uint32_t)count, base, begin, size, type, name, mapper);                                               \
    real(ident, device, count, base, begin, size, type, name, mapper);                                                 \
    if (call.id)                                                                                                       \
      put_outs(call, (uint32_t)count, base, type);                                                                     \
    call_end(call, 0);                                                                                                 \
  }
DATA(__tgt_target_data_begin_mapper, CALL_DATA_BEGIN)
DATA(__tgt_target_data_end_mapper, CALL_DATA_END)
DATA(__tgt_target_data_update_mapper, CALL_DATA_UPDATE)

#define DATA_NOWAIT(NAME, FUNCTION)                                                                                    \
  EXPORT void NAME(ident_t *ident, int64_t device, int32_t count, void **base, void **begin, int64_t *size,            \
                   int64_t *type, void **name, void **mapper, int32_t depend_count, void *depend,                      \
                   int32_t noalias_count, void *noalias) {                                                             \
    REAL(NAME);                                                                                                        \
    uint32_t slots = (uint32_t)count + dimensions_of((uint32_t)count, size, type);                                     \
    items_given((uint32_t)count, begin, type);                                                                         \
    call_t call = call_begin(FUNCTION, ident ? ident->location : NULL, device, slots);                                 \
    if (call.id)                                                                                                       \
      put_items((uint32_t)count, base, begin, size, type, name, mapper);                                               \
    real(ident, device, count, base, begin, size, type, name, mapper, depend_count, depend, noalias_count, noalias);   \
    call_end(call, 0);                                                                                                 \
  }
DATA_NOWAIT(__tgt_target_data_begin_nowait_mapper, CALL_DATA_BEGIN_NOWAIT)
DATA_NOWAIT(__tgt_target_data_end_nowait_mapper, CALL_DATA_END_NOWAIT)
DATA_NOWAIT(__tgt_target_data_update_nowait_mapper, CALL_DATA_UPDATE_NOWAIT)

static call_t kernel_begin(enum function function, ident_t *ident, int64_t device, int32_t teams, int32_t limit,
                           void *host, kernel_arguments_t *arguments) {
  items_given(arguments->items, arguments->begin, arguments->type);
  call_t call = call_begin(function, ident ? ident->location : NULL, device, 1 + arguments->items);
  if (!call.id)
    return call;
  slot_t *slot = next_slot();
  slot->word[0] = (uint64_t)host;
  slot->word[1] = (uint64_t)(int64_t)teams;
  slot->word[2] = (uint64_t)(int64_t)limit;
  slot->word[3] = arguments->tripcount;
  slot->word[4] = arguments->flags;
  slot->word[5] = arguments->dynamic_memory;
  slot->word[6] = arguments->threads[0];
  end_slot(slot, SLOT_KERNEL, arguments->version, 0);
  put_items(arguments->items, arguments->base, arguments->begin, arguments->size, arguments->type, arguments->name,
            arguments->mapper);
  launch_called(host, teams, limit, arguments->tripcount,
                (items_t){arguments->items, arguments->base, arguments->begin, arguments->size, arguments->type});
  return call;
}

EXPORT int __tgt_target_kernel(ident_t *ident, int64_t device, int32_t teams, int32_t limit, void *host,
                               kernel_arguments_t *arguments) {
  REAL(__tgt_target_kernel);
  call_t call = kernel_begin(CALL_KERNEL, ident, device, teams, limit, host, arguments);
  int result = real(ident, device, teams, limit, host, arguments);
  launch_left();
  call_end(call, (uint64_t)(int64_t)result);
  return result;
}

EXPORT int __tgt_target_kernel_nowait(ident_t *ident, int64_t device, int32_t teams, int32_t limit, void *host,
                                      kernel_arguments_t *arguments, int32_t depend_count, void *depend,
                                      int32_t noalias_count, void *noalias) {
  REAL(__tgt_target_kernel_nowait);
  call_t call = kernel_begin(CALL_KERNEL_NOWAIT, ident, device, teams, limit, host, arguments);
  int result =
      real(ident, device, teams, limit, host, arguments, depend_count, depend, noalias_count, noalias);
  launch_left();
  call_end(call, (uint64_t)(int64_t)result);
  return result;
}

/* A mapper of the program adds an item to the directive that the thread is in. */
EXPORT void __tgt_push_mapper_component(void *handle, void *base, void *begin, int64_t size, int64_t type, void *name) {
  REAL(__tgt_push_mapper_component);
  if (recording()) {
    items_given(1, &begin, &type);
    call_t call = call_begin(CALL_MAPPER_COMPONENT, NULL, 0, 1);
    put_item(0, (uint64_t)base, (uint64_t)begin, size, (uint64_t)type, name, NULL);
    this_thread()->call = call.outer;
  }
  real(handle, base, begin, size, type, name);
}

enum { UNIFIED_SHARED_MEMORY = 8 };

static void note_requires(int64_t flags) {
  line_begin("requires");
  line_number("flags", flags);
  line_end();
  if (flags & UNIFIED_SHARED_MEMORY)
    heap_is_shared();
}

EXPORT void __tgt_register_requires(int64_t flags) {
  REAL(__tgt_register_requires);
  start_recording();
  if (recording())
    note_requires(flags);
  real(flags);
}

static void note_entry(void *address, const char *name, uint64_t size, int64_t flags, int64_t kind) {
  line_begin("entry");
  line_number("at", (int64_t)(uint64_t)address);
  line_text("name", name);
  line_number("size", (int64_t)size);
  line_number("flags", flags);
  line_number("kind", kind);
  line_end();
  if (size && !(flags & LINK)) {
    add_entry(address, name, size, flags);
    track_image((uint64_t)address, size);
  }
}

/* A constructor of the program registers its device images: here it shows that it offloads. */
EXPORT void __tgt_register_lib(library_t *library) {
  REAL(__tgt_register_lib);
  start_recording();
  if (recording() && library->entries != library->entries_end) {
    if (((entry_t *)library->entries)->reserved == 0)
      for (entry_t *entry = library->entries; entry < (entry_t *)library->entries_end; entry++) {
        if (entry->flags & REGISTERS_REQUIRES)
          note_requires((int64_t)entry->data);
        else
          note_entry(entry->address, entry->name, entry->size, entry->flags, entry->kind);
      }
    else
      for (old_entry_t *entry = library->entries; entry < (old_entry_t *)library->entries_end; entry++)
        note_entry(entry->address, entry->name, entry->size, entry->flags, 0);
  }
  real(library);
}

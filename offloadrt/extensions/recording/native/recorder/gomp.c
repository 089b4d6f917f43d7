/* The directives of a program that GCC compiled: the entry points of libgomp, interposed.
 *
 * They are written as the calls of LLVM's runtime that mean the same, so that a reader knows one set of directives. There are no
 * operations and no kernel costs: libgomp has no OMPT, and GCC's device code is not instrumented. */
#include "calls.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* include/gomp-constants.h of GCC: the low byte of a kind; the high byte is an alignment */
enum {
  ALLOC = 0,
  TO = 1,
  FROM = 2,
  TOFROM = 3,
  POINTER = 4,
  DELETE = 7,
  FIRSTPRIVATE = 12,
  FIRSTPRIVATE_INT = 13,
  USE_DEVICE_PTR = 14,
  ZERO_LENGTH = 15,
  ALWAYS = 16, /* with TO, FROM, TOFROM */
  RELEASE = 31,
  KIND = 0xff
};
enum { FLAG_NOWAIT = 1, FLAG_EXIT_DATA = 2 };
enum { ARGUMENT_TEAMS = 1, ARGUMENT_THREADS = 2 };

/* LLVM's bits of a map type */
enum {
  LLVM_TO = 1,
  LLVM_FROM = 2,
  LLVM_ALWAYS = 4,
  LLVM_DELETE = 8,
  LLVM_TARGET_PARAM = 0x20,
  LLVM_RETURN_PARAM = 0x40,
  LLVM_PRIVATE = 0x80,
  LLVM_LITERAL = 0x100
};

typedef struct {
  size_t count;
  void **host;
  size_t *size;
  unsigned short *kind;
} maps_t;

typedef struct environment {
  maps_t maps;
  struct environment *outer;
} environment_t;

static __thread environment_t *environments; /* `target data` regions that the thread is in */

/* Pointers to a mapped array follow it as items of their own. LLVM makes no operation of them, and they are left out. */
static bool is_item(unsigned short kind) {
  kind &= KIND;
  return kind != POINTER && (kind <= TOFROM || kind == DELETE || (kind >= FIRSTPRIVATE && kind <= ZERO_LENGTH) ||
                             (kind & ~TOFROM) == ALWAYS || kind == RELEASE);
}

static uint32_t items_of(const maps_t *maps) {
  uint32_t count = 0;
  for (size_t i = 0; i < maps->count; i++)
    count += is_item(maps->kind[i]);
  return count;
}

static uint64_t type_of(unsigned short kind, bool is_kernel) {
  uint64_t parameter = is_kernel ? LLVM_TARGET_PARAM : 0;
  switch (kind & KIND) {
  case DELETE:
    return LLVM_DELETE | parameter;
  case FIRSTPRIVATE:
    return LLVM_PRIVATE | LLVM_TO | parameter;
  case FIRSTPRIVATE_INT:
    return LLVM_LITERAL | parameter;
  case USE_DEVICE_PTR:
    return LLVM_RETURN_PARAM | parameter;
  case RELEASE:
  case ZERO_LENGTH:
    return parameter;
  default:
    return (kind & TOFROM) | ((kind & KIND) >= ALWAYS ? LLVM_ALWAYS : 0) | parameter;
  }
}

static void put_maps(const maps_t *maps, bool is_kernel) {
  uint32_t index = 0;
  for (size_t i = 0; i < maps->count; i++)
    if (is_item(maps->kind[i]))
      put_item(index++, (uint64_t)maps->host[i], (uint64_t)maps->host[i], (int64_t)maps->size[i],
               type_of(maps->kind[i], is_kernel), NULL, NULL);
}

static call_t data_call(enum function function, int device, const maps_t *maps) {
  start_recording();
  call_t call = call_begin(function, NULL, device, items_of(maps));
  if (call.id)
    put_maps(maps, false);
  return call;
}

EXPORT void GOMP_target_data_ext(int device, size_t count, void **host, size_t *size, unsigned short *kind) {
  REAL(GOMP_target_data_ext);
  maps_t maps = {count, host, size, kind};
  call_t call = data_call(CALL_DATA_BEGIN, device, &maps);
  real(device, count, host, size, kind);
  call_end(call, 0);
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  environment_t *environment = malloc(sizeof *environment);
  *environment = (environment_t){{count, malloc(count * sizeof *host), malloc(count * sizeof *size), malloc(count * sizeof *kind)},
                                 environments};
  memcpy(environment->maps.host, host, count * sizeof *host);
  memcpy(environment->maps.size, size, count * sizeof *size);
  memcpy(environment->maps.kind, kind, count * sizeof *kind);
  environments = environment;
  this_thread()->inside = was_inside;
}

/* The end of a region names no items: they are those of its begin. */
EXPORT void GOMP_target_end_data(void) {
  REAL(GOMP_target_end_data);
  environment_t *environment = environments;
  call_t call = {0};
  if (environment)
    call = data_call(CALL_DATA_END, -1, &environment->maps);
  real();
  call_end(call, 0);
  if (!environment)
    return;
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  environments = environment->outer;
  free(environment->maps.host);
  free(environment->maps.size);
  free(environment->maps.kind);
  free(environment);
  this_thread()->inside = was_inside;
}

EXPORT void GOMP_target_enter_exit_data(int device, size_t count, void **host, size_t *size, unsigned short *kind,
                                        unsigned flags, void **depend) {
  REAL(GOMP_target_enter_exit_data);
  static const enum function functions[] = {CALL_DATA_BEGIN, CALL_DATA_BEGIN_NOWAIT, CALL_DATA_END, CALL_DATA_END_NOWAIT};
  maps_t maps = {count, host, size, kind};
  call_t call = data_call(functions[flags & (FLAG_EXIT_DATA | FLAG_NOWAIT)], device, &maps);
  real(device, count, host, size, kind, flags, depend);
  call_end(call, 0);
}

EXPORT void GOMP_target_update_ext(int device, size_t count, void **host, size_t *size, unsigned short *kind,
                                   unsigned flags, void **depend) {
  REAL(GOMP_target_update_ext);
  maps_t maps = {count, host, size, kind};
  call_t call = data_call(flags & FLAG_NOWAIT ? CALL_DATA_UPDATE_NOWAIT : CALL_DATA_UPDATE, device, &maps);
  real(device, count, host, size, kind, flags, depend);
  call_end(call, 0);
}

/* GCC's kernels are named by their function in the program, where it has a name that can be found. */
static void note_kernel(void (*kernel)(void *)) {
  static __thread void (*known[256])(void *);
  unsigned at = (unsigned)((uint64_t)kernel >> 4) % 256;
  if (known[at] == kernel)
    return;
  known[at] = kernel;
  Dl_info found = {0};
  char name[64];
  dladdr((void *)kernel, &found);
  snprintf(name, sizeof name, "_omp_fn at 0x%llx", (unsigned long long)((uint64_t)kernel - (uint64_t)found.dli_fbase));
  line_begin("entry");
  line_number("at", (int64_t)(uint64_t)kernel);
  line_text("name", found.dli_sname ? found.dli_sname : name);
  line_number("size", 0);
  line_number("flags", 0);
  line_number("kind", 0);
  line_end();
}

/* The clauses: words that hold device (bits 0-6), identity (8-14) and a value (16 and up), or with bit 7 a value that follows. */
static int64_t clause(void **arguments, int wanted) {
  for (; arguments && *arguments; arguments++) {
    int64_t word = (int64_t)*arguments;
    bool follows = word & 0x80;
    int64_t value = follows ? (int64_t)arguments[1] : word >> 16;
    if ((word >> 8 & 0x7f) == wanted)
      return value;
    arguments += follows;
  }
  return 0;
}

EXPORT void GOMP_target_ext(int device, void (*kernel)(void *), size_t count, void **host, size_t *size,
                            unsigned short *kind, unsigned flags, void **depend, void **arguments) {
  REAL(GOMP_target_ext);
  start_recording();
  maps_t maps = {count, host, size, kind};
  call_t call = call_begin(flags & FLAG_NOWAIT ? CALL_KERNEL_NOWAIT : CALL_KERNEL, NULL, device, 1 + items_of(&maps));
  if (call.id) {
    note_kernel(kernel);
    slot_t *slot = next_slot();
    slot->word[0] = (uint64_t)kernel;
    slot->word[1] = (uint64_t)clause(arguments, ARGUMENT_TEAMS);
    slot->word[2] = (uint64_t)clause(arguments, ARGUMENT_THREADS);
    slot->word[3] = slot->word[4] = slot->word[5] = slot->word[6] = 0;
    end_slot(slot, SLOT_KERNEL, 0, 0);
    put_maps(&maps, true);
  }
  real(device, kernel, count, host, size, kind, flags, depend, arguments);
  call_end(call, 0);
}

/* Ranges that the program names itself: NVTX (as library and as headers, which ask for `InitializeInjectionNvtx2`), rocTX, Kokkos' regions, and
 * `omp_control_tool` with the commands of `enum control`. Their marks, colours, payloads and categories are not recorded.
 *
 * Declarations follow NVTX 3's nvToolsExt.h and nvtxTypes.h, ROCm's roctx.h, Kokkos Tools' interface and OpenMP 6.0's omp_control_tool. */
#include "recorder.h"
#include "../phases.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* ---- names: the same text always at the same address, for a string is noted by its address ---- */
enum { FIRST_ROOM = 256, LONGEST = 255 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char **names;
static size_t room, used;

static size_t hash_of(const char *text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *text; text++)
    hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
  return (size_t)(hash ^ hash >> 32);
}

static const char **place_of(const char *text) {
  size_t at = hash_of(text) & (room - 1);
  while (names[at] && strcmp(names[at], text))
    at = (at + 1) & (room - 1);
  return &names[at];
}

static void grow(void) {
  const char **old = names;
  size_t before = room;
  room = room ? room * 2 : FIRST_ROOM;
  names = calloc(room, sizeof *names);
  for (size_t i = 0; i < before; i++)
    if (old[i])
      *place_of(old[i]) = old[i];
  free(old);
}

static const char *name_of(const char *text) {
  char name[LONGEST + 1];
  snprintf(name, sizeof name, "%s", text ? text : "");
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  pthread_mutex_lock(&mutex);
  if (used * 2 >= room)
    grow();
  const char **place = place_of(name);
  if (!*place) {
    *place = strdup(name);
    used++;
  }
  const char *found = *place;
  pthread_mutex_unlock(&mutex);
  this_thread()->inside = was_inside;
  return found;
}

static const char *wide_name_of(const wchar_t *text) {
  char name[LONGEST + 1];
  size_t bytes = 0;
  for (; text && *text && bytes + 4 <= LONGEST; text++) { /* UTF-8, whatever the program's locale is */
    uint32_t code = (uint32_t)*text;
    if (code < 0x80)
      name[bytes++] = (char)code;
    else {
      int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      name[bytes++] = (char)((0xf0 << (3 - more) & 0xff) | code >> 6 * more);
      while (more--)
        name[bytes++] = (char)(0x80 | (code >> 6 * more & 0x3f));
    }
  }
  name[bytes] = 0;
  return name_of(name);
}

/* ---- slots ---- */
static void put(enum phase_event what, const char *name, const char *domain, uint64_t id) {
  thread_t *thread = this_thread();
  if (!recording() || thread->inside || thread->call) /* a kernel has no phases of its own */
    return;
  end_interval();
  uint64_t text = name ? string_at(name) : 0, of = domain ? string_at(domain) : 0;
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = text;
  slot->word[2] = of;
  slot->word[3] = thread_cpu(slot->word[0]);
  slot->word[4] = id;
  slot->word[5] = slot->word[6] = 0;
  end_slot(slot, SLOT_PHASE, what, 0);
}

static __thread int depth;

static int push(const char *name, const char *domain) {
  put(PHASE_PUSH, name, domain, 0);
  return depth++;
}

static int pop(const char *domain) {
  put(PHASE_POP, NULL, domain, 0);
  return depth > 0 ? --depth : -1;
}

static uint64_t start(const char *name, const char *domain) {
  static atomic_ulong ranges;
  uint64_t id = atomic_fetch_add(&ranges, 1) + 1;
  put(PHASE_START, name, domain, id);
  return id;
}

static void stop(uint64_t id) { put(PHASE_STOP, NULL, NULL, id); }

/* ---- NVTX: the handles of domains and of registered strings are their names ---- */
typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
} attributes_t;
enum { ASCII = 1, UNICODE, REGISTERED };

static const char *message_of(const attributes_t *of) {
  if (!of || !of->message || of->size < sizeof *of)
    return name_of("");
  return of->message_type == ASCII ? name_of(of->message) : of->message_type == UNICODE ? wide_name_of(of->message)
         : of->message_type == REGISTERED ? of->message : name_of("");
}

EXPORT int nvtxRangePushA(const char *);
EXPORT int nvtxRangePushA(const char *message) { return push(name_of(message), NULL); }
EXPORT int nvtxRangePushW(const wchar_t *);
EXPORT int nvtxRangePushW(const wchar_t *message) { return push(wide_name_of(message), NULL); }
EXPORT int nvtxRangePushEx(const attributes_t *);
EXPORT int nvtxRangePushEx(const attributes_t *of) { return push(message_of(of), NULL); }
EXPORT int nvtxRangePop(void);
EXPORT int nvtxRangePop(void) { return pop(NULL); }
EXPORT uint64_t nvtxRangeStartA(const char *);
EXPORT uint64_t nvtxRangeStartA(const char *message) { return start(name_of(message), NULL); }
EXPORT uint64_t nvtxRangeStartW(const wchar_t *);
EXPORT uint64_t nvtxRangeStartW(const wchar_t *message) { return start(wide_name_of(message), NULL); }
EXPORT uint64_t nvtxRangeStartEx(const attributes_t *);
EXPORT uint64_t nvtxRangeStartEx(const attributes_t *of) { return start(message_of(of), NULL); }
EXPORT void nvtxRangeEnd(uint64_t);
EXPORT void nvtxRangeEnd(uint64_t id) { stop(id); }
EXPORT int nvtxDomainRangePushEx(const char *, const attributes_t *);
EXPORT int nvtxDomainRangePushEx(const char *domain, const attributes_t *of) { return push(message_of(of), domain); }
EXPORT int nvtxDomainRangePop(const char *);
EXPORT int nvtxDomainRangePop(const char *domain) { return pop(domain); }
EXPORT uint64_t nvtxDomainRangeStartEx(const char *, const attributes_t *);
EXPORT uint64_t nvtxDomainRangeStartEx(const char *domain, const attributes_t *of) { return start(message_of(of), domain); }
EXPORT void nvtxDomainRangeEnd(const char *, uint64_t);
EXPORT void nvtxDomainRangeEnd(const char *domain, uint64_t id) {
  (void)domain;
  stop(id);
}
EXPORT const char *nvtxDomainCreateA(const char *);
EXPORT const char *nvtxDomainCreateA(const char *name) { return name_of(name); }
EXPORT const char *nvtxDomainCreateW(const wchar_t *);
EXPORT const char *nvtxDomainCreateW(const wchar_t *name) { return wide_name_of(name); }
EXPORT const char *nvtxDomainRegisterStringA(const char *, const char *);
EXPORT const char *nvtxDomainRegisterStringA(const char *domain, const char *text) {
  (void)domain;
  return name_of(text);
}
EXPORT const char *nvtxDomainRegisterStringW(const char *, const wchar_t *);
EXPORT const char *nvtxDomainRegisterStringW(const char *domain, const wchar_t *text) {
  (void)domain;
  return wide_name_of(text);
}

/* NVTX 3 is headers only. At its first call a program asks for this function, and calls what it puts into the tables. */
typedef void (*function_t)(void);
typedef struct {
  size_t size;
  int (*table)(int module, function_t ***table, unsigned *size);
} callbacks_t;
enum { CALLBACKS = 1, CORE = 1, CORE2 = 5 };

EXPORT int InitializeInjectionNvtx2(const void *(*)(uint32_t));
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t)) {
#define INTO(module, place, function) {module, place, (function_t)function}
  static const struct {
    int module;
    unsigned place; /* NvtxCallbackIdCore, NvtxCallbackIdCore2 */
    function_t function;
  } wanted[] = {
      INTO(CORE, 4, nvtxRangeStartEx), INTO(CORE, 5, nvtxRangeStartA), INTO(CORE, 6, nvtxRangeStartW), INTO(CORE, 7, nvtxRangeEnd),
      INTO(CORE, 8, nvtxRangePushEx), INTO(CORE, 9, nvtxRangePushA), INTO(CORE, 10, nvtxRangePushW), INTO(CORE, 11, nvtxRangePop),
      INTO(CORE2, 2, nvtxDomainRangeStartEx), INTO(CORE2, 3, nvtxDomainRangeEnd), INTO(CORE2, 4, nvtxDomainRangePushEx),
      INTO(CORE2, 5, nvtxDomainRangePop), INTO(CORE2, 10, nvtxDomainRegisterStringA), INTO(CORE2, 11, nvtxDomainRegisterStringW),
      INTO(CORE2, 12, nvtxDomainCreateA), INTO(CORE2, 13, nvtxDomainCreateW),
  };
  const callbacks_t *callbacks = export_table(CALLBACKS);
  if (!callbacks || callbacks->size < sizeof *callbacks)
    return 0;
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    function_t **table = NULL;
    unsigned size = 0;
    if (callbacks->table(wanted[i].module, &table, &size) && table && wanted[i].place < size && table[wanted[i].place])
      *table[wanted[i].place] = wanted[i].function;
  }
  return 1;
}

/* ---- rocTX ---- */
EXPORT int roctxRangePushA(const char *);
EXPORT int roctxRangePushA(const char *message) { return push(name_of(message), NULL); }
EXPORT int roctxRangePop(void);
EXPORT int roctxRangePop(void) { return pop(NULL); }
EXPORT uint64_t roctxRangeStartA(const char *);
EXPORT uint64_t roctxRangeStartA(const char *message) { return start(name_of(message), NULL); }
EXPORT void roctxRangeStop(uint64_t);
EXPORT void roctxRangeStop(uint64_t id) { stop(id); }

/* ---- Kokkos Tools ---- */
EXPORT void kokkosp_push_profile_region(const char *);
EXPORT void kokkosp_push_profile_region(const char *name) { push(name_of(name), NULL); }
EXPORT void kokkosp_pop_profile_region(void);
EXPORT void kokkosp_pop_profile_region(void) { pop(NULL); }

/* ---- OpenMP. LLVM's runtime calls no tool before it has begun its threads, so the function itself is taken. Fortran's has no text, so its
 * modifier is the name ---- */
enum control { CONTROL_PUSH = 64, CONTROL_POP };

EXPORT int omp_control_tool(int, int, void *);
EXPORT int omp_control_tool(int command, int modifier, void *text) {
  REAL(omp_control_tool);
  char number[32];
  if (command == CONTROL_PUSH) {
    snprintf(number, sizeof number, "range %d", modifier);
    push(name_of(text ? text : number), NULL);
  } else if (command == CONTROL_POP)
    pop(NULL);
  else
    return real ? real(command, modifier, text) : -2;
  return 0;
}

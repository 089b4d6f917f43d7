/* Threads that the program makes by itself, with pthread_create or std::thread: each is known from its beginning. It comes behind what its
 * maker had done, and before what whoever joins it does. */
#include "recorder.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef void *body_t(void *);
typedef struct {
  body_t *body;
  void *argument;
} made_t;

enum { MODULES = 256 };
static void *modules[MODULES]; /* where those of the program are loaded that the plugin compiled */
static size_t module_count;

static void *module_of(const void *address) {
  Dl_info found;
  return address && dladdr(address, &found) ? found.dli_fbase : NULL;
}

void note_module(const void *address) {
  void *module = module_of(address);
  if (module && module_count < MODULES && (!module_count || modules[module_count - 1] != module))
    modules[module_count++] = module;
}

static bool is_compiled(const void *module) {
  for (size_t i = 0; i < module_count; i++)
    if (modules[i] == module)
      return true;
  return false;
}

/* Whether it is the program that makes a thread, and no library, as OpenMP's runtime for its teams. For std::thread, the library is given
 * an object whose class lies where the program was compiled. */
static bool is_of_program(body_t *body, void *const *argument) {
  Dl_info found;
  if (!dladdr((void *)body, &found))
    return false;
  const void *module = found.dli_fbase;
  if (found.dli_fname && strstr(found.dli_fname, "libstdc++") && argument)
    module = module_of(*argument);
  return is_compiled(module);
}

/* OpenMP tells of a thread, and so of what it touches, when that first asks for something. */
static void make_known(void) {
  static int (*ask)(void);
  if (this_thread()->task)
    return;
  if (!ask)
    ask = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_max_threads");
  if (ask)
    ask();
}

/* Flags by which threads are ordered, as if these were variables: no variable of the program has these addresses. */
static uint64_t flag_of_begin(const made_t *made) { return (uint64_t)made | MUTEX_BEGIN; }
static uint64_t flag_of_end(pthread_t thread) { return (uint64_t)thread | 1; }

static void ended(void *unused) {
  (void)unused;
  offload_recorder_flag(flag_of_end(pthread_self()), FLAG_RELEASES);
}

static void *began(void *given) {
  made_t *made = given, own = *made;
  void *result;
  make_known();
  offload_recorder_flag(flag_of_begin(made), FLAG_ACQUIRES);
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  free(made);
  this_thread()->inside = was_inside;
  pthread_cleanup_push(ended, NULL);
  result = own.body(own.argument);
  pthread_cleanup_pop(1);
  return result;
}

EXPORT int pthread_create(pthread_t *, const pthread_attr_t *, body_t *, void *);
EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, body_t *body, void *argument) {
  REAL(pthread_create);
  bool was_inside = this_thread()->inside;
  if (was_inside || !tracks_bytes() || !recording() || !is_of_program(body, argument))
    return real(thread, attributes, body, argument);
  this_thread()->inside = true;
  made_t *made = malloc(sizeof *made);
  this_thread()->inside = was_inside;
  if (!made)
    return real(thread, attributes, body, argument);
  *made = (made_t){body, argument};
  make_known();
  offload_recorder_flag(flag_of_begin(made), FLAG_RELEASES);
  int error = real(thread, attributes, began, made);
  if (error) {
    this_thread()->inside = true;
    free(made);
    this_thread()->inside = was_inside;
  }
  return error;
}

EXPORT int pthread_join(pthread_t, void **);
EXPORT int pthread_join(pthread_t thread, void **result) {
  REAL(pthread_join);
  bool is_told = !this_thread()->inside && tracks_bytes() && recording();
  if (is_told)
    put_asked(flag_of_end(thread), __builtin_return_address(0));
  int error = real(thread, result);
  if (is_told)
    put_asked(0, NULL);
  if (!error && !this_thread()->inside)
    offload_recorder_flag(flag_of_end(thread), FLAG_ACQUIRES);
  return error;
}

/* Whoever comes behind it knows what the thread has done that was the first. What libraries do once is their own affair. */
typedef struct {
  void (*body)(void);
  uint64_t flag;
} once_t;
static __thread once_t once;

static void first(void) {
  once_t own = once; /* `body` may call another one */
  own.body();
  offload_recorder_flag(own.flag, FLAG_RELEASES);
}

EXPORT int pthread_once(pthread_once_t *, void (*)(void));
EXPORT int pthread_once(pthread_once_t *control, void (*body)(void)) {
  REAL(pthread_once);
  static __thread const void *asked; /* the place that called last, and whether it is the program's */
  static __thread bool is_program;
  const void *caller = __builtin_return_address(0);
  if (this_thread()->inside || !tracks_bytes() || !recording())
    return real(control, body);
  if (caller != asked)
    asked = caller, is_program = is_compiled(module_of(caller));
  if (!is_program)
    return real(control, body);
  once_t outer = once;
  once = (once_t){body, (uint64_t)control};
  int error = real(control, first);
  once = outer;
  offload_recorder_flag((uint64_t)control, FLAG_ACQUIRES);
  return error;
}

/* Where the program may wait for ever. */
uint64_t waits_at(const void *code) {
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  uint64_t place = code ? place_at("waits", code) : 0;
  this_thread()->inside = was_inside;
  return place;
}

/* The file of a process's rare lines: who it is, its kernels and strings, how it ended. JSON, one object a line. */
#include "recorder.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int file = -1;
static pid_t own; /* the process that the file is of */
static char folder[4096]; /* RECORDING/PID: the files of this process begin so */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char *line;
static size_t length, room;

const char *recording_folder(void) { return folder; }

static void put(const char *text, size_t bytes) {
  if (length + bytes + 1 > room) {
    room = (length + bytes + 1) * 2;
    line = realloc(line, room);
    if (!line)
      abort();
  }
  memcpy(line + length, text, bytes);
  length += bytes;
}

static void put_string(const char *value) {
  put("\"", 1);
  for (const unsigned char *at = (const unsigned char *)value; *at; at++) {
    char escape[8];
    if (*at == '"' || *at == '\\')
      put(escape, (size_t)snprintf(escape, sizeof escape, "\\%c", *at));
    else if (*at < 32 || *at > 126) /* bytes that are not ASCII need not be UTF-8: they are kept as Latin-1 */
      put(escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", *at));
    else
      put((const char *)at, 1);
  }
  put("\"", 1);
}

void line_begin(const char *kind) {
  pthread_mutex_lock(&mutex);
  length = 0;
  put("{\"k\":", 5);
  put_string(kind);
}

static void put_name(const char *name) {
  put(",", 1);
  put_string(name);
  put(":", 1);
}

/* Where the program loads a library that offloads by dlopen, no other one sees the OpenMP runtimes that come with it. */
static void *function_anywhere(const char *name) {
  void *program = dlopen(NULL, RTLD_LAZY), *found = NULL;
  Dl_info own, its;
  struct link_map *map = NULL;
  if (!program || dlinfo(program, RTLD_DI_LINKMAP, &map) || !dladdr((void *)function_anywhere, &own))
    return NULL;
  for (; map && !found; map = map->l_next) {
    void *library = *map->l_name ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    found = library ? dlsym(library, name) : NULL;
    if (found && dladdr(found, &its) && its.dli_fbase == own.dli_fbase)
      found = NULL;
    if (library)
      dlclose(library); /* it stays, as others have it */
  }
  return found;
}

void *next_function(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  return found ? found : function_anywhere(name);
}

void line_text(const char *name, const char *value) {
  put_name(name);
  put_string(value);
}

void line_number(const char *name, int64_t value) {
  char text[24];
  put_name(name);
  put(text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value));
}

void line_end(void) {
  put("}\n", 2);
  /* One write a line: a crash leaves whole lines. */
  if (file >= 0 && write(file, line, length) != (ssize_t)length)
    fprintf(stderr, "offloadrt: a line of the recording could not be written: %s\n", strerror(errno));
  pthread_mutex_unlock(&mutex);
}

static void put_arguments(void) {
  char text[4096];
  int arguments = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  ssize_t bytes = arguments < 0 ? 0 : read(arguments, text, sizeof text - 1);
  if (arguments >= 0)
    close(arguments);
  put(",\"argv\":[", 9);
  text[bytes > 0 ? bytes : 0] = 0;
  for (ssize_t at = 0; at < bytes; at += (ssize_t)strlen(text + at) + 1) {
    if (at)
      put(",", 1);
    put_string(text + at);
  }
  put("]", 1);
}

static void put_rank(void) {
  static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (getenv(names[i])) {
      line_number("rank", atoll(getenv(names[i])));
      return;
    }
  put(",\"rank\":null", 12);
}

void process_open(bool forked) {
  char path[4200], exe[4096];
  if (forked) { /* another thread of the parent may have held it */
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    mutex = fresh;
    close(file);
  }
  /* A process that replaces itself by exec keeps its number: its second part gets a name of its own. */
  for (int part = 1; part < 1000; part++) {
    int bytes = snprintf(folder, sizeof folder, "%s/%d", getenv("OFFLOADRT_RECORDING"), (int)getpid());
    if (part > 1)
      snprintf(folder + bytes, sizeof folder - (size_t)bytes, "-%d", part);
    snprintf(path, sizeof path, "%s.jsonl", folder);
    file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
    if (file >= 0 || errno != EEXIST)
      break;
  }
  if (file < 0)
    fprintf(stderr, "offloadrt: %s: %s\n", path, strerror(errno));
  ssize_t bytes = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[bytes > 0 ? bytes : 0] = 0;
  own = getpid();
  line_begin("process");
  line_number("version", RAW_VERSION);
  line_number("pid", getpid());
  line_number("ppid", getppid());
  line_text("exe", exe);
  put_arguments();
  line_number("t", (int64_t)now());
  put_rank();
  put(forked ? ",\"forked\":true" : ",\"forked\":false", forked ? 14 : 15);
  line_end();
}

/* ---- a program that dies: its line is made without memory of its own ---- */
static char died[8192];
static size_t died_length;

static void put_died(const char *format, ...) {
  va_list values;
  va_start(values, format);
  int bytes = vsnprintf(died + died_length, sizeof died - died_length, format, values);
  va_end(values);
  if (bytes > 0 && died_length + (size_t)bytes < sizeof died - 8)
    died_length += (size_t)bytes;
}

void died_begin(int number) {
  died_length = 0;
  put_died("{\"k\":\"died\",\"signal\":%d,\"call\":%llu,\"frames\":[0", number, (unsigned long long)this_thread()->call);
}

void died_at(const char *module, uint64_t offset) {
  for (const char *at = module; *at; at++)
    if (*at < 32 || *at > 126 || *at == '"' || *at == '\\')
      return;
  put_died(",[\"%s\",%llu]", module, (unsigned long long)offset);
}

void died_end(void) {
  died_length += (size_t)snprintf(died + died_length, sizeof died - died_length, "]}\n");
  if (file >= 0 && getpid() == own && write(file, died, died_length) < 0) /* a child of vfork has its parent's memory */
    return; /* the disk is full */
}

/* ---- a program that ends: it may do so in a handler of a signal, where no lock may be taken ---- */
void process_end(const char *how) {
  static atomic_flag has_ended = ATOMIC_FLAG_INIT;
  char end[128];
  if (file < 0 || getpid() != own || atomic_flag_test_and_set(&has_ended))
    return;
  if (recording() && !this_thread()->inside && tracks_bytes())
    end_bytes();
  int bytes = snprintf(end, sizeof end, "{\"k\":\"end\",\"call\":%llu,\"t\":%llu,\"how\":\"%s\"}\n",
                       (unsigned long long)this_thread()->call /* it ends inside of the runtime */, (unsigned long long)now(), how);
  if (write(file, end, (size_t)bytes) < 0)
    return; /* the disk is full */
}

/* exit() of libc ends in another function of that name: the destructor of stream.c has been called then. */
EXPORT void _exit(int code) {
  end_kernel(false, 0, 0);
  process_end("exit");
  syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

EXPORT void _Exit(int code) { _exit(code); }

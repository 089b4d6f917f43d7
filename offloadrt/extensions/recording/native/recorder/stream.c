/* The file of slots of each thread: written through shared memory, so that what was recorded survives a crash of the
 * program, and so that writing a slot takes no system call and no lock. */
#include "recorder.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_WINDOW = 1 << 16, LAST_WINDOW = 1 << 22, SHORT_NS = 8000 };

typedef struct {
  int file;
  slot_t *window;        /* the part of the file that is mapped */
  size_t window_bytes, used_slots;
  uint64_t offset;       /* of the window in the file */
  uint64_t *known;       /* addresses of strings that are noted: a hash set */
  size_t known_slots, known_count;
} stream_t;

static __thread thread_t thread;
static __thread stream_t stream = {.file = -1};
static __thread bool has_closed; /* this thread runs the last destructors */
static __thread slot_t scratch; /* takes what cannot be written: the disk is full, or nothing is recorded */
static pthread_key_t leaving;
static atomic_uint threads;
static atomic_ulong directives;
static unsigned long stop_after;
static atomic_int state; /* see enum */
enum { ABSENT, READY, OPENING, ON, STOPPED };

uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* The clock of CPU time takes a system call (0.2 us, in virtual machines up to 3). A thread that was last asked a few
 * microseconds ago was hardly suspended since: what passed is CPU time. */
uint64_t thread_cpu(uint64_t at) {
  static __thread uint64_t last, cpu;
  if (last && at - last < SHORT_NS)
    cpu += at - last;
  else {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    uint64_t read = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
    cpu = read > cpu ? read : cpu;
  }
  last = at;
  return cpu;
}

bool recording(void) { return atomic_load_explicit(&state, memory_order_relaxed) == ON; }

thread_t *this_thread(void) { return &thread; }

/* Called inside the recorder, for munmap is interposed. */
static void close_window(void) {
  if (stream.window)
    munmap(stream.window, stream.window_bytes);
  stream.window = NULL;
}

/* Cuts the file to what was written and forgets it. Runs at a thread's end (and, for the last one, the program's). */
static void close_stream(void *unused) {
  (void)unused;
  if (stream.file < 0)
    return;
  stack_closed();
  bool was_inside = thread.inside;
  thread.inside = true; /* what is given back here is not the program's, and nothing can be written any more */
  uint64_t bytes = stream.offset + stream.used_slots * sizeof(slot_t);
  close_window();
  if (ftruncate(stream.file, (off_t)bytes) != 0)
    perror("offloadrt: the recording's file keeps unused slots at its end");
  close(stream.file);
  free(stream.known);
  stream = (stream_t){.file = -1};
  thread.inside = was_inside;
}

static void give_up(const char *what) {
  if (atomic_exchange(&state, STOPPED) == ON)
    fprintf(stderr, "offloadrt: recording stops here: %s: %s\n", what, strerror(errno));
}

static bool next_window(void) {
  size_t bytes = stream.window ? stream.window_bytes * 4 : FIRST_WINDOW;
  if (bytes > LAST_WINDOW)
    bytes = LAST_WINDOW;
  if (stream.window)
    stream.offset += stream.window_bytes;
  close_window();
  /* Space is taken beforehand: a store into a shared mapping cannot report a full disk, it kills the program. */
  int error = posix_fallocate(stream.file, (off_t)stream.offset, (off_t)bytes);
  void *window = error ? MAP_FAILED
                       : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, stream.file, (off_t)stream.offset);
  if (window == MAP_FAILED) {
    errno = error ? error : errno;
    give_up("the recording cannot grow");
    return false;
  }
  stream.window = window;
  stream.window_bytes = bytes;
  stream.used_slots = 0;
  return true;
}

static bool open_stream(void) {
  char path[4096];
  thread.number = atomic_fetch_add(&threads, 1);
  snprintf(path, sizeof path, "%s.%u.slots", recording_folder(), thread.number);
  stream.file = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
  if (stream.file < 0) {
    give_up(path);
    return false;
  }
  pthread_setspecific(leaving, &stream);
  stack_opened();
  watch_crashes();
  if (!next_window())
    return false;
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = (uint64_t)syscall(SYS_gettid);
  slot->word[2] = thread.number;
  slot->word[3] = thread_cpu(slot->word[0]);
  slot->word[4] = (uint64_t)getpid();
  slot->word[5] = RAW_VERSION;
  end_slot(slot, SLOT_THREAD, 0, 0);
  return true;
}

slot_t *next_slot(void) {
  bool was_inside = thread.inside;
  thread.inside = true;
  bool ready = recording() && !has_closed && (stream.file >= 0 || open_stream()) &&
               (stream.used_slots < stream.window_bytes / sizeof(slot_t) || next_window());
  thread.inside = was_inside;
  return ready ? &stream.window[stream.used_slots] : &scratch;
}

void end_slot(slot_t *slot, enum slot_kind kind, uint32_t a, uint32_t b) {
  atomic_signal_fence(memory_order_seq_cst); /* a slot that has a kind is whole, wherever the program may be killed */
  slot->head = (uint64_t)kind | (uint64_t)(a & 0xffff) << 16 | (uint64_t)b << 32;
  if (slot != &scratch)
    stream.used_slots++;
}

slot_t *last_slots(size_t count) {
  return stream.window && stream.used_slots >= count ? &stream.window[stream.used_slots - count] : NULL;
}

void drop_slots(size_t count) {
  while (count--)
    stream.window[--stream.used_slots].head = 0; /* from the last one, so that what is left is whole */
}

uint64_t new_id(uint64_t *counter) { return ((uint64_t)thread.number + 1) << 40 | ++*counter; }
bool is_own_id(uint64_t id) { return id >> 40 == (uint64_t)thread.number + 1; }

bool note_address(uint64_t address) {
  if (stream.known_count * 2 >= stream.known_slots) {
    size_t old_slots = stream.known_slots;
    uint64_t *old = stream.known;
    stream.known_slots = old_slots ? old_slots * 2 : 256;
    stream.known = calloc(stream.known_slots, sizeof *stream.known);
    stream.known_count = 0;
    for (size_t i = 0; i < old_slots; i++)
      if (old[i])
        note_address(old[i]);
    free(old);
  }
  size_t at = (address * 0x9e3779b97f4a7c15u >> 32) & (stream.known_slots - 1);
  for (; stream.known[at]; at = (at + 1) & (stream.known_slots - 1))
    if (stream.known[at] == address)
      return false;
  stream.known[at] = address;
  stream.known_count++;
  return true;
}

uint64_t string_at(const char *text) {
  if (!text || !recording())
    return 0;
  bool was_inside = thread.inside;
  thread.inside = true;
  if (note_address((uint64_t)text)) {
    line_begin("string");
    line_number("at", (int64_t)(uint64_t)text);
    line_text("text", text);
    line_end();
  }
  thread.inside = was_inside;
  return (uint64_t)text;
}

void count_directive(void) {
  if (!recording() || !stop_after || atomic_fetch_add(&directives, 1) != stop_after)
    return;
  process_end("stopped");
  close_stream(NULL);
  _exit(0); /* the program is not asked: it was told to end here, and what it would write belongs to a full run */
}

/* ---- the process ---- */
static void prepare(void);

void start_recording(void) {
  prepare(); /* a library that the program is linked with may register its images before this one's constructor runs */
  int ready = READY, opening = OPENING;
  if (!atomic_compare_exchange_strong(&state, &ready, OPENING)) {
    while (atomic_load(&state) == OPENING && !thread.inside) /* slots of before would get no folder, and be lost */
      sched_yield();
    return;
  }
  bool was_inside = thread.inside;
  thread.inside = true;
  process_open(false);
  thread.inside = was_inside;
  atomic_compare_exchange_strong(&state, &opening, ON);
}

/* A child of fork has copies of its parent's files: it must not write to them, and begins its own. */
static void forked(void) {
  int opening = OPENING; /* by a thread of the parent, which the child does not have */
  atomic_compare_exchange_strong(&state, &opening, READY);
  if (atomic_load(&state) != ON)
    return;
  thread.inside = true;
  close_window();
  if (stream.file >= 0)
    close(stream.file);
  free(stream.known);
  stream = (stream_t){.file = -1};
  thread.call = 0;
  atomic_store(&threads, 0);
  atomic_store(&directives, 0);
  process_open(true);
  thread.inside = false;
}

static void left_quickly(void) { process_end("exit"); }

__attribute__((constructor)) static void prepare(void) {
  static atomic_flag is_done = ATOMIC_FLAG_INIT;
  const char *limit = getenv("OFFLOADRT_STOP_AFTER");
  if (atomic_flag_test_and_set(&is_done) || !getenv("OFFLOADRT_RECORDING"))
    return;
  if (tracks_bytes())
    watch_small_blocks();
  stop_after = limit ? strtoul(limit, NULL, 10) : 0;
  pthread_key_create(&leaving, close_stream);
  pthread_atfork(NULL, NULL, forked);
  at_quick_exit(left_quickly);
  int absent = ABSENT;
  atomic_compare_exchange_strong(&state, &absent, READY);
}

__attribute__((destructor)) static void unloaded(void) {
  if (!recording())
    return;
  thread.inside = true;
  end_interval();
  process_end("exit");
  close_stream(NULL);
  has_closed = true; /* other threads go on, as those of deferred regions, until the process is gone: they may yet die */
}

/* What the files of the recorder share. Open stream.c first: it writes the slots; calls.c and ompt.c fill them. */
#pragma once
#define _GNU_SOURCE
#include "../launch.h"
#include "../slots.h"
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Declares `real`, the function of that name in the next library, found at the first call. */
void *next_function(const char *name); /* process.c */
#define REAL(name)                                                                                                             \
  static __typeof__(&name) real;                                                                                               \
  if (!real)                                                                                                                   \
  real = (__typeof__(&name))next_function(#name)

/* ---- stream.c: files and threads ---- */
typedef struct {
  uint64_t call;        /* the runtime's entry point that this thread is in; 0: none */
  uint64_t task;        /* the OpenMP task that it runs; 0: not known */
  uint64_t calls, tasks; /* how many ids it gave */
  uint64_t freeing;     /* the block that the program is about to free at `freed_at`, "file:line" */
  const char *freed_at;
  uint64_t making;      /* the bytes of the block that the program, and no library for it, is about to allocate; 0: it is not */
  const char *making_at; /* the line where it does */
  const char *called_at; /* where it is about to call a routine: ";file;function;line;column;;" */
  uint64_t frame;       /* of the program's call of the runtime: what lies above it on the stack is the program's */
  uint32_t number;
  bool nowait;          /* it is in a `taskwait` with this clause */
  bool asks;            /* the task that it runs has asked which thread runs it */
  bool has_algorithm;   /* it has called a parallel algorithm, and no barrier for that is known yet */
  bool inside;          /* it is inside the recorder: what it allocates is not the program's */
} thread_t;

uint64_t now(void);
uint64_t thread_cpu(uint64_t now); /* CPU time of the calling thread */
bool recording(void);              /* whether this process records: it offloads, and was not stopped */
void start_recording(void);        /* called by whatever shows that the process offloads */
thread_t *this_thread(void);
slot_t *last_slots(size_t count); /* the first of this thread's last ones; NULL where they are not in one window */
void drop_slots(size_t count);
slot_t *next_slot(void);           /* an empty slot of this thread; never NULL */
void end_slot(slot_t *, enum slot_kind, uint32_t a, uint32_t b);
uint64_t new_id(uint64_t *counter); /* of the calling thread: unique in the process */
bool is_own_id(uint64_t);           /* whether the calling thread has made this id */
uint64_t string_at(const char *);  /* notes what the address spells, once; returns it */
bool note_address(uint64_t);       /* whether this thread notes it for the first time. Called inside the recorder */
void count_directive(void);        /* ends the program when --stop-after is reached */

/* ---- process.c: the process's file of rare lines ---- */
void line_begin(const char *kind);
void line_text(const char *name, const char *value);
void line_number(const char *name, int64_t value);
void line_end(void);
void process_open(bool forked);
void process_end(const char *how);
const char *recording_folder(void);
void died_begin(int signal); /* of crashes.c: how, then where, innermost first */
void died_at(const char *module, uint64_t offset);
void died_end(void);

/* ---- ranks.c ---- */
uint64_t place_at(const char *kind, const void *caller); /* notes, in a line of that kind, where the code lies; called inside the recorder */

/* ---- ompt.c ---- */
void put_flag(uint64_t address, bool is_release, uint32_t count);
void put_posix_mutex(uint64_t address, bool is_release);
void put_asked(uint64_t address, const void *code); /* it waits for a mutex, or with bit 0 for a thread's end; address 0: no longer */
void task_asks(void);

/* ---- flags.c ---- */
EXPORT void offload_recorder_flag(uint64_t address, uint32_t what); /* called by instrumented code as well: an enum flag */

/* ---- threads.c ---- */
void note_module(const void *address); /* of one that the plugin compiled */
uint64_t waits_at(const void *code);

/* ---- touches.c: pages that host code touches ---- */
void track(uint64_t address, uint64_t bytes);
void forget(uint64_t address, uint64_t bytes);
bool tracks_bytes(void);
void track_image(uint64_t address, uint64_t bytes); /* tracks a variable of a device image: its table may not be there yet */
bool tells_each(size_t count, size_t few, int64_t *more); /* whether each of so many stretches is written */
void end_bytes(void);    /* writes which bytes it touched since, where each is told apart */
void end_interval(void); /* writes what this thread touched since its last event */
void put_new(uint64_t address, uint64_t bytes); /* of the heap: nobody has stored there */
bool tells_new(size_t bytes); /* whether it is told of such a block */

/* ---- memory.c ---- */
enum { SMALLEST = 1024 }; /* the bytes of the smallest allocations that are recorded, whatever becomes of them; of others, those that a call is given */
void heap_is_shared(void); /* the program requires unified shared memory: its kernels use the heap itself */
typedef struct {
  uint64_t begin, bytes;
} host_block_t;
host_block_t *host_memory(size_t *count); /* the program's own allocations and variables, by address; the caller frees them */
uint64_t small_block_at(uint64_t address, uint64_t *bytes); /* where the block of less than SMALLEST bytes begins in which an address lies, and its bytes; 0: none */
bool is_given(uint64_t address, bool to_directive); /* or to an algorithm, or a kernel finds it: a small block there is recorded from now on; whether it is new */
uint64_t block_bytes(uint64_t begin); /* of the block of the program's that begins there; 0: none does */
bool shares_heap(void);
void watch_small_blocks(void);            /* called before the program's own code runs */

/* ---- stacks.c ---- */
void stack_opened(void);
void stack_closed(void);
void note_on_stack(uint64_t address, uint64_t bytes);
bool take_from_stack(uint64_t address, uint64_t bytes);
bool is_on_own_stack(uint64_t address);
void track_own_stack(void); /* the frames of the program that are there now */
bool is_in_frame(uint64_t address, uint64_t frame);

/* ---- launches.c: kernel costs ---- */
void array_allocated(uint64_t device, uint64_t host, uint64_t size, bool padded);
void array_freed(uint64_t device);
void forget_gone(uint64_t device);
bool is_gone(uint64_t device);                     /* whether a block of the device begins there that was freed, and none is there now */
void add_entry(void *host, const char *name, uint64_t size, int64_t flags); /* a variable that device images have as well */
bool may_be_mapped(uint64_t host);                /* whether an array of less than SMALLEST bytes that is mapped may lie near */
bool is_mapped(uint64_t host, uint64_t bytes);    /* whether a mapped array begins in these bytes of the host */
typedef struct {
  uint32_t count;
  void *const *base, *const *begin;
  const int64_t *size, *type;
} items_t; /* of a directive */
void launch_called(void *kernel, int64_t teams, int64_t threads, uint64_t trip, items_t items);
void launch_left(void);
void put_submit(uint32_t teams); /* ompt.c */
void write_launch(const launch_t *); /* launch_slots.c */
void submit_begin(void);
void submit_end(void);

/* ---- algorithms.c ---- */
void note_scratch(void *block, size_t bytes, bool is_begin); /* memory of an algorithm's own; called inside the recorder */

/* ---- owners.c: whose memory a kernel comes to that is no array's ---- */
size_t owners_bytes(void);        /* the room that it takes of a launch */
void owners_begin(launch_t *, items_t); /* when the launch has its arrays */
unsigned owners_end(void);        /* returns how many blocks of the shared heap the launch came to by pointers in memory */

/* ---- launch_room.c: memory apart from the heap ---- */
enum { ROOM_LINE = 64, RUN_BYTES = 32 /* of a page, when a launch is written */ };
void take_room(size_t bytes);               /* for all that a launch needs */
size_t room_of(size_t bytes);               /* what they take of it */
void *room_for(size_t count, size_t bytes); /* zeros */
void drop_room(void);

/* ---- crashes.c: the program dies: where, and a kernel that crashes is recorded up to there ---- */
void watch_crashes(void); /* of the calling thread: it may have no more room on its stack */
#define NO_ADDRESS UINT64_MAX /* the processor does not tell of one that no memory can have */
void end_kernel(bool crashed, uint64_t address, uint64_t stack_pointer); /* launches.c: writes the launch that this thread plays, as far as it went */

/* A program that dies says where: in which call of the runtime, and at which places of its code. A kernel that crashes takes the
 * program with it; what was recorded of its launch is written before. */
#include "recorder.h"
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

enum { STACK = 1 << 18, SIGNALS = 7, FRAMES = 32 };

static struct sigaction before[SIGNALS];
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS, SIGTRAP};

/* Nothing is allocated here: the program may have died in malloc. */
static void say_where(int number) {
  void *frames[FRAMES];
  int count = backtrace(frames, FRAMES);
  died_begin(number);
  for (int i = 0; i < count; i++) {
    Dl_info info;
    struct link_map *map;
    if (dladdr1(frames[i], &info, (void **)&map, RTLD_DL_LINKMAP) && info.dli_fname)
      died_at(info.dli_fname, (uint64_t)frames[i] - (uint64_t)map->l_addr);
  }
  died_end();
}

static bool is_programs(uint64_t instruction) {
  Dl_info info;
  struct link_map *map;
  return dladdr1((void *)instruction, &info, (void **)&map, RTLD_DL_LINKMAP) && map && !*map->l_name;
}

static void on_crash(int number, siginfo_t *info, void *context) {
  const ucontext_t *machine = context;
#if defined __x86_64__
  uint64_t stack_pointer = (uint64_t)machine->uc_mcontext.gregs[REG_RSP], instruction = (uint64_t)machine->uc_mcontext.gregs[REG_RIP];
#else
  uint64_t stack_pointer = 0, instruction = 0;
#endif
  for (int i = 0; i < SIGNALS; i++)
    if (signals[i] == number)
      sigaction(number, &before[i], NULL); /* it crashes again when this returns, as it would have without a recorder */
  uint64_t address = info->si_code == SI_KERNEL ? NO_ADDRESS : (uint64_t)info->si_addr;
  end_kernel(number == SIGSEGV || number == SIGBUS, address, stack_pointer);
  if (recording() && !this_thread()->inside && is_programs(instruction))
    end_interval(); /* what it has touched last; it may allocate, which is no harm outside of malloc */
  else if (recording() && !this_thread()->inside && tracks_bytes())
    end_bytes(); /* in a library, as by abort(): it allocates nothing */
  say_where(number);
  if (info->si_code <= 0)
    raise(number); /* somebody has sent it, and nothing that this returns to would send it again */
}

void watch_crashes(void) {
  static __thread bool has_stack;
  if (has_stack)
    return;
  has_stack = true;
  stack_t now;
  if (sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_DISABLE)
    sigaltstack(&(stack_t){.ss_sp = malloc(STACK), .ss_size = STACK}, NULL);
  void *frame;
  backtrace(&frame, 1); /* it loads what it needs the first time */
  for (int i = 0; i < SIGNALS; i++) {
    struct sigaction ours = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;
    if (sigaction(signals[i], NULL, &old) == 0 && old.sa_sigaction != on_crash) {
      before[i] = old;
      sigaction(signals[i], &ours, NULL);
    }
  }
}

/* A kernel that crashes takes the program with it. What was recorded of the launch is written before. */
#include "recorder.h"
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

enum { STACK = 1 << 18 };

static struct sigaction before[2];
static const int signals[2] = {SIGSEGV, SIGBUS};

static void on_crash(int number, siginfo_t *info, void *context) {
  const ucontext_t *machine = context;
#if defined __x86_64__
  uint64_t stack_pointer = (uint64_t)machine->uc_mcontext.gregs[REG_RSP];
#else
  uint64_t stack_pointer = 0;
#endif
  for (int i = 0; i < 2; i++)
    if (signals[i] == number)
      sigaction(number, &before[i], NULL); /* it crashes again when this returns, as it would have without a recorder */
  uint64_t address = info->si_code == SI_KERNEL ? NO_ADDRESS : (uint64_t)info->si_addr;
  if (end_crashed(address, stack_pointer))
    put_submit(0);
}

/* The stack of a kernel may be what has no more room: the handler has one of its own in each thread. */
void watch_crashes(void) {
  static __thread bool has_stack;
  if (has_stack)
    return;
  has_stack = true;
  sigaltstack(&(stack_t){.ss_sp = malloc(STACK), .ss_size = STACK}, NULL);
  for (int i = 0; i < 2; i++) {
    struct sigaction now = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;
    sigaction(signals[i], &now, &old);
    if (old.sa_sigaction != on_crash)
      before[i] = old;
  }
}

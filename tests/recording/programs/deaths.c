/* Programs that die: each case at the line that says so. */
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int a[100], which;
static sigjmp_buf safe;
typedef struct { int length, *data; } vector;
static int leave(int length) {
  if (length == 7)
    exit(5);
  if (length == 8)
    _exit(6);
  return length;
}
#pragma omp declare mapper(vector v) map(v, v.data[0 : leave(v.length)])

static int deep(volatile int *from) {
  volatile char frame[4096];
  frame[0] = *from; /* stack */
  return frame[0] + deep((volatile int *)frame);
}

static void *beside(void *unused) {
  if (which == 11)
    *(volatile int *)unused = 1; /* thread */
#pragma omp target map(tofrom : a) /* open */
  for (volatile int i = which; i;)
    a[0]++;
  return NULL;
}
__attribute__((destructor)) static void last_words(void) {
  if (which == 10)
    *(volatile int *)8 = 1; /* destructor */
}
static void back(int number) { siglongjmp(safe, number); }

int main(int count, char **arguments) {
  int *volatile null = NULL;
  volatile int zero = 0;
  omp_memspace_handle_t volatile unknown = (omp_memspace_handle_t)99;
  pthread_t other;
  which = count > 1 ? atoi(arguments[1]) : 0;
  if (which == 0 || which == 12)
    goto mapper;
  if (which == 14)
    signal(SIGSEGV, back);
#pragma omp target map(tofrom : a) /* last */
  a[0] = 1;
  switch (which) {
  case 1: *null = 1; /* null */ break;
  case 2: fprintf(stderr, "app: no input\n"); abort(); /* abort */
  case 3: a[1] = a[0] / zero; /* zero */ break;
  case 4: return deep(a);
  case 5: raise(SIGKILL); break;
  case 6:;
#pragma omp target enter data map(to : a[0 : 10])
#pragma omp target map(tofrom : a[0 : 50]) /* extends */
    a[40] = 1;
    break;
  case 7: {
#pragma omp target /* region */
    *(int *)8 = 1;
    break;
  }
  case 8: return 3;
  case 9: exit(0);
  case 11:
    pthread_create(&other, NULL, beside, NULL);
    for (;;)
      pause();
  case 13: {
#pragma omp target nowait /* helper */
    *(int *)8 = 1;
#pragma omp taskwait
    break;
  }
  case 14:
    if (!sigsetjmp(safe, 1))
      kill(getpid(), SIGSEGV);
    break;
  case 15: _exit(0);
  case 16:
    pthread_create(&other, NULL, beside, NULL);
    pthread_detach(other);
    abort(); /* beside */
  case 17: raise(SIGTERM); break;
  case 18: omp_init_allocator(unknown, 0, NULL); /* refused */ break;
  }
  return 0;
mapper:;
  vector v = {which ? 8 : 7, a};
#pragma omp target map(v) /* mapper */
  v.data[0]++;
}

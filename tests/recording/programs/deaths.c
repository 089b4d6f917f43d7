/* Programs that die: each case at the line that says so. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static int a[100];
typedef struct { int length, *data; } vector;
static int leave(int length) {
  if (length == 7)
    exit(5);
  return length;
}
#pragma omp declare mapper(vector v) map(v, v.data[0 : leave(v.length)])

static int deep(volatile int *from) {
  volatile char frame[4096];
  frame[0] = *from; /* stack */
  return frame[0] + deep((volatile int *)frame);
}

int main(int count, char **arguments) {
  int *volatile null = NULL, which = count > 1 ? atoi(arguments[1]) : 0;
  volatile int zero = 0;
  if (which == 0)
    goto mapper;
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
  }
  return 0;
mapper:;
  vector v = {7, a};
#pragma omp target map(v) /* mapper */
  v.data[0]++;
}

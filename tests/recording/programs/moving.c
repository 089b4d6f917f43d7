/* Each iteration moves the pointers of its thread on: right where a thread has one iteration, as by default on a GPU. */
#include <stdio.h>

enum { N = 300 };

static void copy(const int *restrict from, int *restrict to) {
#pragma omp target teams distribute parallel for
  for (int i = 0; i < N; i++) {
    from += i;
    to += i;
    to[0] = from[0];
  }
}

int main(void) {
  int from[N], to[N] = {0}, wrong = 0;
  for (int i = 0; i < N; i++)
    from[i] = i + 1;
#pragma omp target data map(to : from) map(tofrom : to)
  for (int launches = 0; launches < 2; launches++)
    copy(from, to);
  for (int i = 0; i < N; i++)
    wrong += to[i] != i + 1;
  printf("wrong: %d\n", wrong);
}

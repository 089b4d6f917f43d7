/* Tasks that use what belongs to the thread that runs them, which is no race whoever made them; with `wrong` also what is nobody's own. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
enum { N = 4096, LINE = 64 };
static double sums[N], shared[N], *own;
#pragma omp threadprivate(own)
static _Thread_local double *local;

static void some_work(void) {
  for (volatile int i = 0; i < 20000; i++) {
  }
}

static void sum(int k) {
  some_work();
  sums[LINE * omp_get_thread_num()] += k;
}

int main(int count, char **arguments) {
  int wrong = count > 1 && arguments[1][0] == 'w';
  double *d = malloc(8 * N), total = 0;
  for (int i = 0; i < N; i++) d[i] = i;
#pragma omp target map(tofrom : d[0 : N])
  for (int i = 0; i < N; i++) d[i] += 1;
#pragma omp parallel
  {
    int me = omp_get_thread_num();
    sums[LINE * me] = 0;
    own = malloc(8 * N), local = malloc(8 * N);
    for (int i = 0; i < N; i++) own[i] = local[i] = 0;
#pragma omp barrier
    for (int k = 0; k < 50; k++) {
#pragma omp task
      sum(k);
#pragma omp task
      {
        some_work();
        own[k] += 1;
      }
#pragma omp task
      local[k + 1] += 1;
      if (wrong) {
#pragma omp task
        shared[me] += 1; /* `me` is the maker's number */
      }
    }
#pragma omp taskwait
    sums[LINE * me] += 1;
    own[3] += 1;
#pragma omp barrier
    free(own), free(local);
  }
  for (int i = 0; i < N; i++) total += sums[i] + shared[i];
  printf("%d\n", total + d[5] > 0);
  free(d);
}

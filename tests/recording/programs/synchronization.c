// Nested regions, a thread that OpenMP did not make, tasks with dependences, a task group, turns, a strided section.
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { CELLS = 512, ARRAYS = 8 };

static void add(double *x, double value) {
#pragma omp target teams distribute parallel for map(tofrom : x[0 : CELLS])
  for (int i = 0; i < CELLS; i++)
    x[i] += value;
}

static void *other_thread(void *x) {
  add(x, 1);
  return NULL;
}

int main(void) {
  double *x[ARRAYS], grid[8][8] = {{0}};
  for (int k = 0; k < ARRAYS; k++)
    x[k] = calloc(CELLS, sizeof(double));
  omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
  {
    int outer = omp_get_thread_num();
#pragma omp parallel num_threads(2)
    add(x[2 * outer + omp_get_thread_num()], 2);
  }
  pthread_t thread;
  pthread_create(&thread, NULL, other_thread, x[5]);
  add(x[6], 1);
  pthread_join(thread, NULL);
#pragma omp parallel num_threads(3)
#pragma omp single
  for (int k = 0; k < 6; k++) {
#pragma omp task firstprivate(k) depend(inout : x[k / 2])
    add(x[k / 2], k);
  }
#pragma omp parallel for ordered num_threads(3) schedule(dynamic)
  for (int k = 0; k < 6; k++) {
#pragma omp ordered
    add(x[0], k);
  }
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp taskgroup
    for (int k = 0; k < 4; k++) {
#pragma omp task firstprivate(k)
      add(x[k], 1);
    }
    add(x[0], 1);
  }
#pragma omp target data map(to : grid)
  {
#pragma omp target update from(grid[0 : 4][0 : 4])
  }
  printf("%g %g\n", x[0][7], x[5][7]);
}

/* Copies and allocations that are for nothing, and their twins that are not: what test_recorded_waste.py expects, by array. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#define N 1024
#define EACH for (int i = 0; i < N; i++)

static double to_each[N], from_each[N], updated[N], tofrom[N], reset[N], back[N], results[N], shown[N], same[N], fresh[N];
static double half[N], always[N], flips[N], kept[N], unused[N], lost[N], copied[N], both[N], tasks[N];
struct grid { double *cells; double rim[N]; };
static struct grid grid;
#pragma omp declare target
double device_table[N];
#pragma omp end declare target

static double map_around_each(void) {
  double t = 0;
  EACH to_each[i] = i;
  for (int k = 1; k <= 3; k++) {
#pragma omp target teams distribute parallel for map(to : to_each) map(from : from_each)
    EACH from_each[i] = to_each[i] * k;
    t += from_each[7];
  }
  return t;
}

static double update_what_is_there(void) {
  EACH updated[i] = half[i] = i;
  double t = 0;
#pragma omp target data map(to : half) map(alloc : updated)
  for (int k = 0; k < 3; k++) {
#pragma omp target update to(updated)
#pragma omp target update to(half[10 : 20])
#pragma omp target map(tofrom : t)
    EACH t += updated[i] + half[i];
  }
  return t;
}

static double there_and_back(void) {
  for (int k = 0; k < 3; k++) {
#pragma omp target map(tofrom : tofrom)
    EACH tofrom[i] += i;
  }
  for (int k = 0; k < 3; k++) { /* what the device changes is sent again: a reset */
#pragma omp target data map(to : reset)
    {
#pragma omp target
      EACH reset[i] += 1;
#pragma omp target update to(reset)
#pragma omp target
      EACH reset[i] += 2;
    }
  }
  double t = 0;
#pragma omp target map(tofrom : back) map(tofrom : t) /* only read */
  EACH t += back[i];
  return tofrom[7] + t;
}

static double results_of_each(void) {
  for (int k = 0; k < 3; k++) {
#pragma omp target map(from : results, shown)
    EACH { results[i] = i + k; shown[i] = i - k; }
    FILE *null = fopen("/dev/null", "w");
    fwrite(shown, sizeof *shown, N, null);
    fclose(null);
  }
  return results[9];
}

static double same_values(void) { /* written again, with the same values; and with others in turn */
  double t = 0;
#pragma omp target data map(alloc : same, flips)
  for (int k = 0; k < 4; k++) {
    EACH { same[i] = 3 * i; flips[i] = i + k % 2; }
#pragma omp target update to(same, flips)
#pragma omp target map(tofrom : t)
    EACH t += same[i] + flips[i];
  }
  return t;
}

static double on_a_fresh_copy(void) {
  double t = 0, *heap = malloc(sizeof fresh);
  EACH heap[i] = fresh[i] = i;
  for (int k = 0; k < 3; k++) {
#pragma omp target map(to : fresh) map(to : heap[:N]) map(tofrom : t)
    EACH { fresh[i] += 1; heap[i] += 1; t += fresh[i] + heap[i]; }
  }
  free(heap);
  return t;
}

static double by_routine(void) {
  double t = 0;
  EACH copied[i] = i;
  double *there = omp_target_alloc(sizeof copied, 0);
  for (int k = 0; k < 3; k++) {
    omp_target_memcpy(there, copied, sizeof copied, 0, 0, 0, omp_get_initial_device());
#pragma omp target is_device_ptr(there) map(tofrom : t)
    EACH t += there[i];
  }
  omp_target_free(there, 0);
  return t;
}

static double by_modifiers(void) {
  double t = 0;
  EACH always[i] = kept[i] = device_table[i] = i;
#pragma omp target enter data map(to : always, kept)
  for (int k = 0; k < 3; k++) {
#pragma omp target update to(device_table)
#pragma omp target map(always, to : always) map(to : kept) map(tofrom : t)
    EACH t += always[i] + kept[i] + device_table[i];
  }
#pragma omp target exit data map(release : always, kept)
  return t;
}

static double members(void) {
  double t = 0;
  grid.cells = malloc(N * sizeof(double));
  EACH grid.cells[i] = grid.rim[i] = i;
  for (int k = 0; k < 3; k++) {
#pragma omp target map(to : grid.cells[:N]) map(tofrom : t)
    EACH t += grid.cells[i];
#pragma omp target map(to : grid.rim) map(tofrom : t)
    EACH t += grid.rim[i];
  }
  free(grid.cells);
  return t;
}

static double by_tasks(void) {
  double t[3] = {0};
  EACH tasks[i] = i;
  for (int k = 0; k < 3; k++) {
#pragma omp target enter data map(to : tasks) nowait depend(out : tasks)
#pragma omp target map(tofrom : t[k : 1]) nowait depend(inout : tasks)
    EACH t[k] += tasks[i];
#pragma omp target exit data map(release : tasks) nowait depend(inout : tasks)
  }
#pragma omp taskwait
  return t[0];
}

static double by_threads(void) {
  static double mine[2][N];
  double t = 0;
#pragma omp parallel num_threads(2) reduction(+ : t)
  {
    double *a = mine[omp_get_thread_num()];
    EACH a[i] = i;
    for (int k = 0; k < 3; k++) {
#pragma omp target map(to : a[:N]) map(tofrom : t)
      EACH t += a[i];
    }
  }
  return t;
}

static double nobody_uses(void) { /* and nobody unmaps it, which leaves no doubt */
  double t = 0;
#pragma omp target enter data map(to : both, unused)
#pragma omp target map(tofrom : t)
  EACH t += both[i];
  return t;
}

static double lost_write(void) {
  double t = 0;
#pragma omp target data map(to : lost)
  {
    EACH lost[i] = 1;
#pragma omp target update from(lost)
#pragma omp target update to(lost)
#pragma omp target map(tofrom : t)
    EACH t += lost[i];
  }
  return t;
}

int main(void) {
  double t = map_around_each() + update_what_is_there() + there_and_back() + results_of_each() + same_values();
  t += on_a_fresh_copy() + by_routine() + by_modifiers() + members() + by_tasks() + by_threads() + nobody_uses();
  printf("%g\n", t + lost_write());
}

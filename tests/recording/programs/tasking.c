/* Tasks of the host and of devices: `right` orders all that they do, in `wrong` each function leaves one array unordered. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 2048 };
typedef double array[N];
static array s, u;
static double result;
#pragma omp declare target
array global, other;
#pragma omp end declare target

static double *filled(void) {
  double *a = malloc(sizeof(array));
  for (int i = 0; i < N; i++)
    a[i] = i;
  return a;
}

static void sum(const double *a) {
  for (int i = 0; i < N; i++)
    result += a[i];
}

static void made_behind_writes(void) {
  double *a = filled();
  for (int i = 0; i < N; i++)
    s[i] = i;
#pragma omp target map(tofrom : a[0 : N], s) nowait
  for (int i = 0; i < N; i++)
    a[i] += s[i];
#pragma omp taskwait
  sum(a);
  for (int i = 0; i < N; i++)
    s[i] = i;
#pragma omp target enter data map(to : a[0 : N], s) nowait depend(out : a[0])
#pragma omp target nowait depend(inout : a[0])
  for (int i = 0; i < N; i++)
    a[i] += s[i]++;
#pragma omp target update from(a[0 : N]) nowait depend(inout : a[0])
#pragma omp target exit data map(from : s) map(release : a[0 : N]) nowait depend(inout : a[0])
#pragma omp taskwait
  sum(a), sum(s);
  free(a);
}

static void updated(void) {
  double *a = filled();
#pragma omp parallel
#pragma omp single
  {
#pragma omp target enter data map(alloc : a[0 : N])
    for (int k = 0; k < 3; k++) {
      for (int i = 0; i < N; i++)
        a[i] = global[i] = i;
#pragma omp target update to(a[0 : N], global) nowait depend(out : a[0])
#pragma omp taskwait
#pragma omp target nowait depend(inout : a[0])
      for (int i = 0; i < N; i++)
        a[i] += global[i];
#pragma omp target nowait depend(inout : a[0])
      for (int i = 0; i < N; i++)
        a[i] += 1;
#pragma omp taskwait
    }
#pragma omp target exit data map(from : a[0 : N])
  }
  sum(a);
  free(a);
}

static void grouped(void) {
  double *a = filled();
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskgroup
    {
#pragma omp task
      {
#pragma omp task
        for (int i = 0; i < N; i++)
          a[i] = i;
#pragma omp target map(from : s) nowait
        for (int i = 0; i < N; i++)
          s[i] = i;
      }
    }
    sum(a), sum(s);
#pragma omp taskloop grainsize(64)
    for (int i = 0; i < N; i++)
      a[i] = s[i] = i;
#pragma omp target map(tofrom : a[0 : N], s)
    for (int i = 0; i < N; i++)
      a[i] += s[i]++;
  }
  sum(a), sum(s);
  free(a);
}

static void chained(void) {
  double *a = filled(), *b = filled();
#pragma omp parallel
#pragma omp single
  {
#pragma omp task depend(out : a[0])
    for (int i = 0; i < N; i++)
      a[i] = 1;
#pragma omp target map(tofrom : a[0 : N]) nowait depend(inout : a[0])
    for (int i = 0; i < N; i++)
      a[i] += 1;
#pragma omp taskwait depend(in : a[0])
    sum(a);
#pragma omp target map(tofrom : a[0 : N]) nowait depend(out : a[0])
    for (int i = 0; i < N; i++)
      a[i] += 1;
#pragma omp target map(tofrom : b[0 : N]) nowait depend(out : b[0])
    for (int i = 0; i < N; i++)
      b[i] += 1;
#pragma omp taskwait nowait depend(in : a[0], b[0]) depend(out : result)
#pragma omp target map(tofrom : a[0 : N]) map(to : b[0 : N]) nowait depend(inout : result)
    for (int i = 0; i < N; i++)
      a[i] += b[i];
#pragma omp taskwait
    sum(a);
  }
  free(a), free(b);
}

static void passed(void) {
  memset(s, 0, sizeof s);
#pragma omp parallel num_threads(4)
  {
    int first = omp_get_thread_num() * N / 4;
#pragma omp target map(tofrom : s[first : N / 4]) nowait
    for (int i = first; i < first + N / 4; i++)
      s[i] += 1;
#pragma omp barrier
#pragma omp single
    {
#pragma omp task
      for (int i = 0; i < N; i++)
        s[i] += 1;
    }
#pragma omp critical
    for (int i = 0; i < N; i++)
      s[i] += 1;
#pragma omp for ordered schedule(static, 1)
    for (int k = 0; k < 4; k++)
#pragma omp ordered
    {
      for (int i = 0; i < N; i++)
        u[i] += k;
#pragma omp target map(tofrom : u)
      for (int i = 0; i < N; i++)
        u[i] += 1;
    }
  }
  sum(s), sum(u);
}

static void up(double *m, int k) {
  if (2 * k + 2 < N) {
#pragma omp task
    up(m, 2 * k + 1);
#pragma omp task if (k < N / 8)
    up(m, 2 * k + 2);
  }
#pragma omp taskwait
  m[k] = 2 * k + 2 < N ? m[2 * k + 1] + m[2 * k + 2] : 1;
}

static void trees(void) {
  double *m = filled();
#pragma omp parallel
#pragma omp single
  up(m, 0), up(s, 0);
#pragma omp target map(tofrom : m[0 : N], s)
  for (int i = 0; i < N; i++)
    m[i] += s[i]++;
  sum(m), sum(s);
  free(m);
}

static void shared_by_threads(void) {
  double total = 0;
#pragma omp parallel for num_threads(4)
  for (int i = 0; i < 16; i++) {
#pragma omp target map(tofrom : total)
    {
#pragma omp atomic update
      total += 1;
    }
  }
  result += total;
}

static void right(void) {
  made_behind_writes();
  updated();
  grouped();
  chained();
  passed();
  trees();
  shared_by_threads();
}

static void wrong(void) {
  static array read_static, written_static, twice, always, task_of_task;
  double *read_heap = filled(), *mapped_heap = filled(), *other_depend = filled(), *nowait_wait = filled(), *entered = filled();
  char unrelated;
#pragma omp target map(tofrom : read_static) nowait
  for (int i = 0; i < N; i++)
    read_static[i] += 1;
#pragma omp target map(to : written_static) map(tofrom : u) nowait
  for (int i = 0; i < N; i++)
    u[i] += written_static[i];
#pragma omp target map(tofrom : read_heap[0 : N]) nowait
  for (int i = 0; i < N; i++)
    read_heap[i] += 1;
#pragma omp target update from(other) nowait
#pragma omp target enter data map(to : entered[0 : N]) nowait
  sum(read_static), sum(read_heap), sum(other);
  for (int i = 0; i < N; i++)
    written_static[i] = entered[i] = i;
#pragma omp taskwait
#pragma omp target exit data map(release : entered[0 : N])

#pragma omp target data map(alloc : mapped_heap[0 : N])
  {
#pragma omp target update to(mapped_heap[0 : N]) nowait
    for (int i = 0; i < N; i++)
      mapped_heap[i] = i;
#pragma omp taskwait
  }
#pragma omp target map(tofrom : other_depend[0 : N]) nowait depend(out : other_depend[0])
  for (int i = 0; i < N; i++)
    other_depend[i] += 1;
#pragma omp target map(tofrom : nowait_wait[0 : N]) nowait depend(out : nowait_wait[0])
  for (int i = 0; i < N; i++)
    nowait_wait[i] += 1;
#pragma omp taskwait depend(in : unrelated)
  sum(other_depend);
#pragma omp taskwait nowait depend(in : nowait_wait[0])
  sum(nowait_wait);
#pragma omp taskwait

#pragma omp target map(tofrom : twice) nowait
  for (int i = 0; i < N; i++)
    twice[i] += 1;
#pragma omp target map(tofrom : twice) nowait
  for (int i = 0; i < N; i++)
    twice[i] += 1;
#pragma omp taskwait

#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp task
    {
#pragma omp task
      for (int i = 0; i < N; i++)
        task_of_task[i] = 1;
    }
#pragma omp taskwait /* not for the task of the task */
#pragma omp target map(to : task_of_task) map(tofrom : u)
    for (int i = 0; i < N; i++)
      u[i] += task_of_task[i];
  }

#pragma omp target data map(to : always)
#pragma omp parallel num_threads(2)
  if (omp_get_thread_num()) {
#pragma omp target map(always, to : always)
    ;
  } else {
#pragma omp target map(tofrom : u)
    for (int i = 0; i < N; i++)
      u[i] += always[i];
  }
}

int main(int count, char **words) {
  if (count > 1 && !strcmp(words[1], "right"))
    right();
  else
    wrong();
  printf("%g\n", result);
}

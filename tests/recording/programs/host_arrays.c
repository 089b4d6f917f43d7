/* Host threads and tasks on arrays that no directive names: `right` orders all that they do, in `wrong` each array is left unordered once. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 2048 };
typedef double array[N];
static array s, u, v;
static double result, total;
static int count, last;
#pragma omp threadprivate(count)
static array looped;
static array scope;
static array masked;
static array sections;
static array ordered;
static array nested_lock;
static array depobj;
static array inoutset;
static array affinity;
static array detach;
static array critical;
static array nowait;
static array single;
static array inner;
static array lock;
static array untied;
static array mutexset;

static double *filled(void) {
  double *a = malloc(sizeof(array));
  for (int i = 0; i < N; i++)
    a[i] = i;
  return a;
}

static void loops(void) {
  double *a = filled(), *b = calloc(N, 8);
#pragma omp parallel
  {
#pragma omp for
    for (int i = 0; i < N; i++) { b[i] = a[N - 1 - i]; s[i] = i; }
#pragma omp for schedule(dynamic, 7) reduction(+ : result)
    for (int i = 0; i < N; i++) result += b[i] + s[N - 1 - i];
#pragma omp for schedule(guided) lastprivate(last) nowait
    for (int i = 0; i < N; i++) last = i;
#pragma omp barrier
#pragma omp single
    { a[0] = last; result += 1; }
#pragma omp sections
    {
#pragma omp section
      a[1] = 1;
#pragma omp section
      a[2] = a[0];
#pragma omp section
      s[1] = 5;
    }
#pragma omp masked
    { a[3] = a[1] + a[2] + s[1]; }
#pragma omp barrier
#pragma omp for reduction(+ : s[0 : 16])
    for (int i = 0; i < N; i++) s[i % 16] += a[3];
#pragma omp for ordered
    for (int i = 0; i < 32; i++) {
#pragma omp ordered
      u[0] += s[i % 16];
    }
#pragma omp scope reduction(max : total)
    { total = omp_get_thread_num(); }
#pragma omp critical
    { v[0] += 1; v[1] = v[0]; }
#pragma omp atomic
    v[2] += 1;
  }
#pragma omp parallel for lastprivate(conditional : last)
  for (int i = 0; i < N; i++) if (i % 100 == 7) last = i;
  result += v[1] + v[2] + last + u[0] + total;
#pragma omp parallel for ordered(1)
  for (int i = 1; i < 200; i++) {
#pragma omp ordered depend(sink : i - 1)
    s[i] = s[i - 1] + 1;
#pragma omp ordered depend(source)
  }
#pragma omp parallel for schedule(static) 
  for (int i = 0; i < N; i++) a[i] = 1;
#pragma omp parallel
  {
#pragma omp for schedule(static) nowait
    for (int i = 0; i < N; i++) a[i] += 1;
#pragma omp for schedule(static) nowait
    for (int i = 0; i < N; i++) a[i] *= 2;
  }
  result += a[5] + s[9];
  free(a); free(b);
}

static void tasks(void) {
  double *a = filled(); double small[64];
  for (int i = 0; i < 64; i++) small[i] = i;
#pragma omp parallel
#pragma omp single
  {
    for (int k = 0; k < 40; k++) {
#pragma omp task firstprivate(small)
      { for (int i = 0; i < 32; i++) { small[i] += 1; a[32 * k + i] = small[i]; } }
    }
#pragma omp taskwait
    for (int i = 0; i < 1280; i++) result += a[i];
#pragma omp taskgroup task_reduction(+ : total)
    {
      for (int k = 0; k < 20; k++)
#pragma omp task in_reduction(+ : total)
        total += a[k];
    }
    a[7] = total;
#pragma omp taskloop grainsize(64) reduction(+ : total)
    for (int i = 0; i < N; i++) total += a[i];
    a[8] = total;
#pragma omp taskgroup
    {
#pragma omp taskloop nogroup num_tasks(8)
      for (int i = 0; i < N; i++) s[i] = a[i];
#pragma omp taskloop nogroup num_tasks(8)
      for (int i = 0; i < N; i++) u[i] = a[i];
    }
    for (int i = 0; i < N; i++) result += s[i] + u[i];
    omp_depend_t d;
#pragma omp depobj(d) depend(inout : a)
    for (int k = 0; k < 4; k++)
#pragma omp task depend(depobj : d)
      a[9] += 1;
#pragma omp depobj(d) update(in)
#pragma omp task depend(depobj : d)
    u[3] = a[9];
#pragma omp taskwait
#pragma omp depobj(d) destroy
    for (int k = 0; k < 8; k++)
#pragma omp task depend(mutexinoutset : a[0]) affinity(a[0 : N])
      a[10] += k;
#pragma omp task depend(inout : a[0])
    a[11] = a[10];
    for (int k = 0; k < 8; k++)
#pragma omp task depend(inoutset : a[0])
      s[k] = a[11];
#pragma omp task depend(in : a[0])
    for (int k = 0; k < 8; k++) result += s[k];
#pragma omp taskwait
    omp_event_handle_t event;
#pragma omp task detach(event) 
    {
      a[12] = 1;
#pragma omp task
      { a[13] = a[14]; omp_fulfill_event(event); }
    }
#pragma omp taskwait
    result += a[12];
#pragma omp task if (0)
    a[15] = 3;
    a[16] = a[15];
#pragma omp task final(1)
    {
#pragma omp task
      a[17] = 2;
      a[17] += 1;
    }
#pragma omp taskwait
    result += a[17];
  }
#pragma omp parallel
  {
#pragma omp task
    a[omp_get_thread_num() + 100 * 0] = 0;
#pragma omp barrier
#pragma omp single nowait
    a[0] = 4;
  }
  result += a[0];
  free(a);
}
static void locks(void) {
  omp_lock_t lock; omp_nest_lock_t nest; omp_init_lock(&lock); omp_init_nest_lock(&nest);
  double *a = filled();
#pragma omp parallel
  {
    for (int k = 0; k < 10; k++) {
      omp_set_lock(&lock); a[0] += 1; omp_unset_lock(&lock);
      omp_set_nest_lock(&nest); omp_set_nest_lock(&nest); s[0] += 1; omp_unset_nest_lock(&nest); s[0] += a[1]; omp_unset_nest_lock(&nest);
      if (omp_test_lock(&lock)) { a[0] += 2; omp_unset_lock(&lock); }
      while (!omp_test_nest_lock(&nest)) ;
      s[0] += 2; omp_unset_nest_lock(&nest);
    }
    count = omp_get_thread_num();
#pragma omp barrier
#pragma omp single copyprivate(count)
    count = 7;
    int flag = 0;
#pragma omp critical(x)
    { if (a[2] != -1) { a[2] = -1; flag = 1; } }
    if (flag) s[2] = 1;
  }
  result += a[0] + s[0] + count + s[2];
  omp_destroy_lock(&lock); omp_destroy_nest_lock(&nest); free(a);
}
static void nested(void) {
  double *a = filled();
#pragma omp parallel num_threads(2)
  {
    int me = omp_get_thread_num();
#pragma omp parallel num_threads(2)
    {
      int you = omp_get_thread_num();
      for (int i = 0; i < N / 4; i++) a[(me * 2 + you) * (N / 4) + i] += 1;
    }
    for (int i = 0; i < N / 2; i++) a[me * (N / 2) + i] += 1;
  }
  for (int i = 0; i < N; i++) result += a[i];
  free(a);
}
static void cancelled(void) {
  double *a = filled();
#pragma omp parallel
  {
#pragma omp for
    for (int i = 0; i < N; i++) {
      a[i] += 1;
      if (i == 100) {
#pragma omp cancel for
      }
#pragma omp cancellation point for
    }
  }
  for (int i = 0; i < N; i++)
    result += a[i];
#pragma omp parallel
  {
    int n = omp_get_thread_num();
    a[n + 1] = n;
    if (n == 0) {
#pragma omp cancel parallel
    }
#pragma omp cancellation point parallel
    a[n + 100] = 1;
  }
  for (int i = 0; i < N; i++)
    result += a[i];
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskgroup
    for (int k = 0; k < 30; k++)
#pragma omp task
    {
      for (int i = 0; i < 32; i++)
        a[32 * k + i] += 1;
      if (k == 5) {
#pragma omp cancel taskgroup
      }
#pragma omp cancellation point taskgroup
      s[k] = 1;
    }
    for (int i = 0; i < N; i++)
      result += a[i] + s[i];
  }
#pragma omp parallel sections
  {
#pragma omp section
    {
      a[0] = 1;
#pragma omp cancel sections
    }
#pragma omp section
    {
      a[1] = 1;
#pragma omp cancellation point sections
      a[2] = 1;
    }
  }
  result += a[0] + a[1] + a[2];
  free(a);
}

static void wrong(void) {
#pragma omp parallel
#pragma omp single
  {
#pragma omp taskloop nogroup num_tasks(4)
    for (int i = 0; i < 64; i++) looped[i] += 1;
    result += looped[3];
#pragma omp taskwait
    for (int k = 0; k < 4; k++)
#pragma omp task affinity(affinity)
    affinity[1] += 1;
#pragma omp taskwait
    for (int k = 0; k < 4; k++)
#pragma omp task depend(inoutset : inoutset)
    inoutset[1] += 1;
#pragma omp taskwait
    omp_depend_t dep;
#pragma omp depobj(dep) depend(in : depobj)
    for (int k = 0; k < 4; k++)
#pragma omp task depend(depobj : dep)
      depobj[9] += 1;
#pragma omp taskwait
#pragma omp depobj(dep) destroy
    omp_event_handle_t event;
#pragma omp task detach(event)
    {
#pragma omp task
      { omp_fulfill_event(event); detach[13] = 2; }
    }
#pragma omp taskwait
    result += detach[13];
#pragma omp task untied
    untied[0] = 1;
    untied[0] = 2;
#pragma omp taskwait
    for (int k = 0; k < 4; k++)
#pragma omp task depend(mutexinoutset : mutexset[k])
    mutexset[8] += 1;
#pragma omp taskwait
  }
#pragma omp parallel
  {
#pragma omp scope nowait
    { scope[0] += 1; }
#pragma omp barrier
#pragma omp masked
    masked[0] = 1;
    result += 0 * masked[0];
#pragma omp barrier
#pragma omp sections
    {
#pragma omp section
      sections[0] = 1;
#pragma omp section
      sections[0] = 2;
    }
#pragma omp for ordered
    for (int i = 0; i < 32; i++) {
      ordered[1] = i;
#pragma omp ordered
      ordered[0] += ordered[1];
    }
#pragma omp critical(one)
    critical[0] += 1;
#pragma omp critical(two)
    critical[0] += 1;
#pragma omp barrier
#pragma omp for nowait
    for (int i = 0; i < N; i++) nowait[i] = i;
#pragma omp for schedule(static, 3)
    for (int i = 0; i < N; i++) nowait[i] += 1;
#pragma omp barrier
#pragma omp single nowait
    single[1] = 2;
    if (omp_get_thread_num() < 2) result += 0 * single[1]; /* one of the two is not the thread that has written */
#pragma omp barrier
  }
  omp_nest_lock_t nest, other; omp_init_nest_lock(&nest); omp_init_nest_lock(&other);
#pragma omp parallel
  {
    omp_set_nest_lock(&nest); omp_set_nest_lock(&nest); omp_unset_nest_lock(&nest); omp_unset_nest_lock(&nest);
    nested_lock[0] += 1;
    omp_set_nest_lock(omp_get_thread_num() ? &nest : &other); lock[0] += 1; omp_unset_nest_lock(omp_get_thread_num() ? &nest : &other);
#pragma omp parallel num_threads(2)
    inner[0] += 1;
  }
  double *f = malloc(8 * N);
  for (int i = 0; i < N; i++) f[i] = 0;
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num()) { for (int i = 0; i < N; i++) f[i] = i; }
    else result += f[7];
  }
  free(f);
  double *all[] = {looped, scope, masked, sections, ordered, nested_lock, depobj, inoutset, affinity, detach, critical, nowait, single, inner, lock, untied, mutexset};
  for (int k = 0; k < (int)(sizeof all / sizeof *all); k++)
    for (int i = 0; i < N; i++)
      result += all[k][i];
}

int main(int count, char **arguments) {
  double *d = filled();
#pragma omp target map(tofrom : d[0 : N])
  for (int i = 0; i < N; i++)
    d[i] += 1;
  if (count > 1 && !strcmp(arguments[1], "wrong"))
    wrong();
  else
    loops(), tasks(), locks(), nested(), cancelled();
  printf("%d\n", result + d[5] > 0);
  free(d);
}

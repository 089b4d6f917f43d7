/* Bytes that programs have elsewhere than on the heap: each case has one mistake, at the line that says which, or none. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {} nothing, empty;
static const void *volatile keep;
#pragma omp declare target
double on_both[64];
#pragma omp end declare target
typedef struct { size_t length; double *data; } vector;
#pragma omp declare mapper(vector v) map(v.length) map(v.data[0 : v.length])

typedef struct { int length; vector *all; } vectors;
#pragma omp declare mapper(vectors l) map(l, l.all[0 : l.length])

#define ARRAY(NAME, STORAGE)                                                                                           \
  __attribute__((noinline)) static double NAME(int back, int n) {                                                      \
    STORAGE;                                                                                                           \
    double s = 0;                                                                                                      \
    for (int i = 0; i < n; i++)                                                                                        \
      t[i] = i;                                                                                                        \
    _Pragma("omp target data map(to : t[0:n])") {                                                                      \
      _Pragma("omp target map(t[0:n])") for (int i = 0; i < n; i++) t[i] += 1;                                         \
      if (back) {                                                                                                      \
        _Pragma("omp target update from(t[0:n])")                                                                      \
      }                                                                                                                \
      for (int i = 0; i < n; i++)                                                                                      \
        s += t[i];                                                                                                     \
    }                                                                                                                  \
    return s;                                                                                                          \
  }
ARRAY(local, double t[64])
ARRAY(variable_length, double t[n])
ARRAY(lasting, static double t[64])
ARRAY(allocated, double *t = malloc(n * sizeof *t))

__attribute__((noinline)) static double scalar(int writes) {
  double t;
#pragma omp target data map(from : t)
  {
#pragma omp target map(t)
    if (writes)
      t = 1;
  }
  return t; /* scalar */
}

__attribute__((noinline)) static void maps(double *t, int n) {
#pragma omp target map(to : t[0 : n])
  for (int i = 0; i < n; i++)
    t[i] += 1;
}

/* What a function has lost is not lost of the next one's variables, which lie at the same place. */
__attribute__((noinline)) static double lost(void) {
  double t[64] = {0};
  maps(t, 64);
  return 0;
}
__attribute__((noinline)) static double filled(FILE *from) {
  double u[64];
  double s = fread(u, 8, 64, from);
  for (int i = 0; i < 64; i++)
    s += u[i];
  return s;
}

int main(int count, char **arguments) {
  int n = 64, device = omp_get_default_device();
  double s = 0;
  keep = &nothing, keep = &empty;
  switch (count > 1 ? atoi(arguments[1]) : 0) {
  case 0: s = local(0, n); break;
  case 1: s = variable_length(0, n); break;
  case 2: s = lasting(0, n); break;
  case 3: s = allocated(0, n); break;
  case 4: s = scalar(0); break;
  case 5: {
    FILE *zeros = fopen("/dev/zero", "r");
    s = local(1, n) + variable_length(1, n) + lasting(1, n) + allocated(1, n) + scalar(1);
    for (int i = 0; i < 3; i++)
      s += lost() + filled(zeros);
    double x[64], largest = 0;
    int threads = 0;
#pragma omp target map(from : x) map(tofrom : s, largest, threads)
    for (int i = 0; i < 64; i++)
      x[i] = i, s += i, largest = i, threads = 0;
#pragma omp parallel for reduction(+ : s) reduction(max : largest)
    for (int i = 0; i < 64; i++)
      s += x[i], largest = x[i] > largest ? x[i] : largest;
#pragma omp parallel
    {
#pragma omp critical
      threads++;
#pragma omp atomic
      s += 1;
#pragma omp barrier
#pragma omp single
      for (int i = 0; i < 64; i++)
#pragma omp task depend(inout : s) shared(s, x)
        s += x[i];
    }
    s += threads + largest;
    break;
  }
  case 6: /* a member block of less than 1 KiB, which a mapper brings */
  case 7: {
    vector v = {64, malloc(64 * sizeof(double))};
    for (int i = 0; i < 64; i++)
      v.data[i] = i;
#pragma omp target enter data map(to : v)
#pragma omp target
    for (size_t i = 0; i < v.length; i++)
      v.data[i] += 1;
    if (atoi(arguments[1]) == 7) {
#pragma omp target update from(v.data[0 : 64])
    }
    s = v.data[5]; /* member */
#pragma omp target exit data map(release : v)
    free(v.data);
    break;
  }
  case 8: {
    double *few = malloc(24), **place = malloc(sizeof few);
    *place = few;
#pragma omp target map(to : place[0 : 1])
    place[0][1] = 1; /* few */
    break;
  }
  case 9: {
    double near[3] = {0}, *place[1] = {near};
#pragma omp target map(to : place)
    place[0][1] = 1; /* near */
    s = near[1];
    break;
  }
  case 10: /* the kernel's copy of a declare target variable */
  case 11:
    for (int i = 0; i < 64; i++)
      on_both[i] = 1;
#pragma omp target update to(on_both)
#pragma omp target
    for (int i = 0; i < 64; i++)
      on_both[i] += 1;
    if (atoi(arguments[1]) == 11) {
#pragma omp target update from(on_both)
    }
    s = on_both[5];
    break;
  case 12: {
    for (int i = 0; i < 64; i++)
      on_both[i] = 1;
#pragma omp target map(from : s)
    s = on_both[5]; /* image's */
    break;
  }
  case 13: {
    double *p = omp_target_alloc(64 * sizeof *p, device);
#pragma omp target is_device_ptr(p)
    p[0] = 1;
    omp_target_free(p, device); /* free */
#pragma omp target is_device_ptr(p) map(from : s)
    s = p[0]; /* freed */
    break;
  }
  case 14: {
    double *p = omp_target_alloc(64 * sizeof *p, device);
#pragma omp target is_device_ptr(p) nowait
    p[0] = 1;
    omp_target_free(p, device); /* free */
#pragma omp taskwait
    break;
  }
  case 15: {
    double *a = malloc(n * sizeof *a), *p;
#pragma omp target data map(alloc : a[0 : n]) use_device_addr(a[0 : n]) /* ended */
    p = a;
#pragma omp target is_device_ptr(p)
    p[0] = 1; /* outside */
    free(a);
    break;
  }
  case 16: {
    double *a = malloc(n * sizeof *a), *p;
#pragma omp target enter data map(alloc : a[0 : n])
    p = omp_get_mapped_ptr(a, device);
#pragma omp target is_device_ptr(p)
    p[0] = 1;
#pragma omp target exit data map(from : a[0 : 1])
    s = a[0];
    free(a);
    break;
  }
  case 17: {
    double *p = omp_target_alloc(64 * sizeof *p, device), here[64];
    omp_target_memcpy(here, p, sizeof here, 0, 0, omp_get_initial_device(), device); /* routine */
    s = here[1]; /* nothing there */
    omp_target_free(p, device);
    break;
  }
  case 18: { /* a mapper of members that have mappers */
    vectors l = {3, malloc(3 * sizeof(vector))};
    for (int k = 0; k < 3; k++)
      l.all[k] = (vector){20, calloc(20, sizeof(double))};
#pragma omp target map(tofrom : l)
    for (int k = 0; k < 3; k++)
      l.all[k].data[3] += 1;
    for (int k = 0; k < 3; k++)
      s += l.all[k].data[3];
    break;
  }
  case 19: /* blocks that lie where others have lain */
    for (int round = 0; round < 3; round++) {
      int many = 125000; /* 1 MB: stretches of 64 KiB between those at its ends */
      double *a = malloc(many * sizeof *a);
      for (int k = 0; k < many; k++)
        a[k] = k;
#pragma omp target map(to : a[0 : many]) map(tofrom : s)
      for (int k = 0; k < many; k += 1000)
        s += a[k];
      free(a);
    }
    break;
  case 20: { /* so many single bytes that of a page only the extent is recorded */
    enum { WIDE = 65536, FEW = 600 };
    double *wide = calloc(WIDE, sizeof *wide), *few = malloc(FEW * sizeof *few), *beside = malloc(FEW * sizeof *beside);
    for (int k = 0; k < WIDE; k += 2)
      wide[k] = k;
#pragma omp target map(to : wide[0 : WIDE]) map(tofrom : s)
    s += wide[2];
    for (int k = 0; k < FEW; k += 2)
      few[k] = beside[k] = k;
#pragma omp target map(to : few[0 : FEW], beside[0 : FEW]) map(tofrom : s)
    for (int k = 0; k < FEW; k += 2)
      s += few[k] + beside[k];
    free(wide);
    free(few);
    free(beside);
    break;
  }
  }
  printf("%g\n", s);
}

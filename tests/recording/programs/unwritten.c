/* Memory that reaches a kernel before anybody has written it: such regions end their line so; all else is written first, or not read. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  double x;
  int n; /* four bytes behind it belong to no member */
} part;
typedef struct {
  long count;
  double *values;
} owner;
static void *volatile seen;

static void unset(int n) {
  double *a = malloc(n * 8), *b = malloc(n * 8), *c = aligned_alloc(64, n * 8), *d = malloc(n * 8), s = 0;
  part *p = malloc(n * sizeof *p);
  int host = omp_get_initial_device(), device = omp_get_default_device();
#pragma omp target map(to : a[0 : n]) map(tofrom : s) /* unset */
  for (int i = 0; i < n; i++)
    s += a[i];
  for (int i = 0; i < n - 1; i++)
    b[i] = i;
#pragma omp target teams distribute parallel for map(tofrom : b[0 : n]) /* unset */
  for (int i = 0; i < n; i++)
    b[i] += 1;
  for (int i = 0; i < n; i++)
    p[i].x = i;
#pragma omp target map(to : p[0 : n]) map(tofrom : s) /* unset */
  for (int i = 0; i < n; i++)
    s += p[i].x * p[i].n;
  double *there = omp_target_alloc(n * 8, device);
  omp_target_memcpy(there, c, n * 8, 0, 0, device, host);
#pragma omp target is_device_ptr(there) map(tofrom : s) /* unset */
  for (int i = 0; i < n; i++)
    s += there[i];
  omp_target_free(there, device);
#pragma omp target enter data map(to : d[0 : n])
  for (int i = 0; i < n; i += 2)
    d[i] = i;
#pragma omp target update to(d[0 : n])
#pragma omp target map(tofrom : s) /* unset */
  for (int i = 0; i < n; i++)
    s += d[i];
#pragma omp target exit data map(release : d[0 : n])
  double local[16];
#pragma omp target map(to : local) map(tofrom : s) /* unset */
  for (int i = 0; i < 16; i++)
    s += local[i];
  printf("%d\n", s == 0 && b[1] == 0);
  free(a), free(b), free(c), free(d), free(p);
}

static void written(int n) {
  double *a = malloc(n * 8), *b = malloc(n * 8), *c = malloc(n * 4), *d = malloc(n * 8), *e = malloc((n + 2) * 8), s = 0;
  part *p = malloc(n * sizeof *p), *q = malloc(n * sizeof *q);
  owner *of = malloc(sizeof *of);
  FILE *zeros = fopen("/dev/zero", "r"), *nothing = fopen("/dev/null", "w");
  size_t got = fread(a, 8, n, zeros);
  of->values = malloc(n * 8);
  got += fwrite(of, sizeof *of, 1, nothing); /* who gets `of` finds `values` */
  fclose(zeros), fclose(nothing);
  memcpy(b, a, n * 8);
  for (int i = 0; i < n / 2; i++)
    c[i] = i;
  c = realloc(c, n * 8);
  for (int i = n / 2; i < n; i++)
    __builtin_nontemporal_store((double)i, c + i);
  __asm__ volatile("rep stosb" : : "D"(d), "a"(0), "c"(n * 8) : "memory");
  seen = e;
#pragma omp parallel for
  for (int i = 1; i <= n; i++)
    ((double *)seen)[i] = i;
  for (int i = 0; i < n; i++)
    p[i].x = i, p[i].n = 1;
  double *values = of->values;
#pragma omp target map(to : a[0 : n], b[0 : n], c[0 : n], d[0 : n], e[0 : n + 2], p[0 : n], values[0 : n]) map(from : q[0 : n]) map(tofrom : s)
  for (int i = 0; i < n; i++) {
    part one = p[i];
    q[i] = p[i];
    s += a[i] + b[i] + c[i] + d[i] + e[i + 1] + values[i] + one.x * one.n;
  }
#pragma omp target map(tofrom : q[0 : n]) map(tofrom : s)
  for (int i = 0; i < n; i++)
    s += q[i].x, q[i].n = i;
  double fresh[16], some[16], there[16];
  some[3] = 1;
  sscanf("5", "%lf", there);
#pragma omp target map(tofrom : fresh, s) map(to : some, there)
  for (int i = 0; i < 16; i++)
    fresh[i] = i, s += fresh[i] + some[3] + there[0];
#pragma omp target map(to : fresh) map(tofrom : s)
  for (int i = 0; i < 16; i++)
    s += fresh[i];
  printf("%d %zu\n", s == 0, got);
  free(a), free(b), free(c), free(d), free(e), free(p), free(q), free(values), free(of);
}

int main(int argc, char **argv) {
  (void)argv;
  for (int n = 20; n < 1000; n += 480) { /* less than 1 KiB, and more */
    written(n);
    if (argc == 1)
      unset(n);
  }
}

/* Variables of threads' own: those that are read before anybody has written them end their line so, the others are written first. */
#include <stdio.h>
#include <string.h>

struct bits {
  unsigned a : 3, b : 5;
};
typedef float four __attribute__((ext_vector_type(4)));

static void fill(double *t, int n) {
  for (int k = 0; k < n; k++)
    t[k] = k;
}

static void unset(double *a, int n) {
  double s = 0, x = 1, t[8];
  int m = 2;
#pragma omp target private(x) map(tofrom : s)
#pragma omp parallel num_threads(4)
  {
#pragma omp critical
    s += x; /* unset */
  }
#pragma omp target teams distribute parallel for private(t) map(tofrom : a[0 : n])
  for (int i = 0; i < n; i++) {
    t[i % 8] += a[i]; /* unset */
    a[i] = t[i % 8];
  }
#pragma omp target map(tofrom : s)
  {
    double u;
#pragma omp parallel for private(u) reduction(+ : s)
    for (int i = 0; i < n; i++) {
      s += u; /* unset */
      u = i;
    }
  }
#pragma omp target teams private(m) map(tofrom : s)
  {
    if (m > 1) /* unset */
#pragma omp atomic
      s += 1;
  }
#pragma omp target nowait private(m) map(tofrom : s)
  s += m; /* unset */
#pragma omp taskwait
#pragma omp parallel for private(m) reduction(+ : s)
  for (int i = 0; i < n; i++) {
    s += m; /* unset */
    m++;
  }
  printf("%d\n", s == 0);
}

static void written(double *a, int n) {
  double s = 0, x = 1, y = 2, t[8];
  int last = 0, c = 0, f = 7, j;
  struct bits b;
  four v;
#pragma omp target teams distribute parallel for private(x, j, t, b, v) lastprivate(last) firstprivate(f) reduction(+ : s) map(tofrom : a[0 : n], last)
  for (int i = 0; i < n; i++) {
    x = a[i];
    b.a = 3;
    b.b = i & 7;
    v.x = 1;
    v.y = v.z = v.w = i;
    for (j = 0; j < 8; j++)
      t[j] = j * x;
    fill(t, 8);
    s += t[3] + b.b + v.w + f;
    last = i;
  }
#pragma omp target private(x, y) map(tofrom : s)
#pragma omp parallel num_threads(4)
  {
#pragma omp single
    x = 4;
#pragma omp for lastprivate(y)
    for (int k = 0; k < n; k++)
      y = k;
#pragma omp critical
    s += x + y;
  }
#pragma omp target private(t) map(tofrom : s)
  {
    int isSet = 0;
    for (int k = 0; k < 4; k++) {
      if (!isSet)
        memset(t, 0, sizeof t);
      isSet = 1;
      s += t[k];
    }
  }
#pragma omp parallel private(x, y) num_threads(4)
  {
    x = 3, y = x;
#pragma omp atomic
    c += y;
#pragma omp task firstprivate(x) private(y)
    {
      y = x;
#pragma omp atomic
      c += y;
    }
  }
  printf("%g %d %d\n", s, last, c);
}

int main(int argc, char **argv) {
  double a[64];
  fill(a, 64);
  (void)argv;
  written(a, 64);
  if (argc == 1)
    unset(a, 64);
}

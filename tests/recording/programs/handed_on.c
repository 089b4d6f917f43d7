/* Right programs in which regions and tasks get copies of variables that nobody has written, and nobody uses the copies. */
#include <stdio.h>
#include <stdlib.h>
#include <omp.h>
#define N 1000
typedef struct { int a, b; double c; } S;
static double g[N];
int main(void) {
  double *a = malloc(N * sizeof *a);
  for (int i = 0; i < N; i++) a[i] = i;
  int i, j, k; double t; S s;
  /* the loop variable is handed to the kernel, unset */
  #pragma omp parallel num_threads(4) private(i)
  #pragma omp critical
  #pragma omp target map(tofrom: a[0:N])
  for (i = 0; i < N; i++) a[i] += 1;
  /* to a task */
  #pragma omp parallel num_threads(4) private(i, t)
  #pragma omp single
  {
    #pragma omp task
    { for (i = 0; i < N; i++) a[i] += 1; t = 3; a[0] += t; }
    #pragma omp taskwait
  }
  /* to a deferred target */
  #pragma omp parallel num_threads(4) private(j)
  #pragma omp single
  {
    #pragma omp target map(tofrom: a[0:N]) nowait
    for (j = 0; j < N; j++) a[j] += 1;
    #pragma omp taskwait
  }
  /* nested parallel in a target with firstprivate of what is unset */
  #pragma omp target teams map(tofrom: a[0:N]) private(k, t) num_teams(2)
  {
    #pragma omp parallel for firstprivate(t)
    for (k = 0; k < N; k++) { t = k; if (omp_get_team_num() == 0) a[k] += t; }
  }
  /* a taskloop */
  #pragma omp parallel num_threads(4) private(t)
  #pragma omp single
  #pragma omp taskloop firstprivate(t)
  for (int q = 0; q < N; q++) { t = q; a[q] += t; }
  /* structure with a part set */
  #pragma omp parallel num_threads(2) private(s)
  {
    s.a = 1; S r = s; 
    #pragma omp atomic
    a[0] += r.a;
  }
  /* conditional lastprivate and linear */
  #pragma omp parallel for lastprivate(t) num_threads(3)
  for (int q = 0; q < N; q++) { t = q; a[q] -= 1; }
  int l = 0;
  #pragma omp parallel for linear(l: 1)
  for (int q = 0; q < N; q++) { a[q] += l; l++; }
  /* array private */
  #pragma omp target teams distribute parallel for map(tofrom: a[0:N])
  for (int q = 0; q < N; q++) { double w[4]; for (int z = 0; z < 4; z++) w[z] = z; double sum = 0; for (int z = 0; z < 4; z++) sum += w[z]; a[q] += sum; }
  /* scanf-like: address goes to a function */
  #pragma omp parallel private(t) num_threads(2)
  { sscanf("3.5", "%lf", &t);
    #pragma omp atomic
    a[1] += t; }
  printf("%g %g %g\n", a[3], t, a[1]);
  free(a);
  return 0;
}

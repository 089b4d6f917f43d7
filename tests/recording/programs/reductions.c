/* Reductions of the host, of many variables: the runtime takes a lock for each thread. What they are of was on the device before. */
#include <stdio.h>

typedef struct {
  double of[40];
} many;
#pragma omp declare reduction(add : many : omp_out.of[0] += omp_in.of[0]) initializer(omp_priv = (many){{0}})

int main(void) {
  static double s, t, u;
  static many m;
#pragma omp target map(tofrom : s, t, u, m)
  {
    s = t = u = 1;
    m.of[0] = 0;
  }
#pragma omp parallel for reduction(+ : s, t, u) reduction(add : m)
  for (int i = 0; i < 100; i++) {
    s += i, t += i, u += i;
    m.of[0] += 1;
  }
  printf("%g %g %g %g\n", s, t, u, m.of[0]);
}

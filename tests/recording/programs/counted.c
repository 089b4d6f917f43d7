/* Two threads hand a block to and fro by an atomic variable, and release that N times each, of argv[1]: more often than a recording tells.
 * Most of these releases hand over nothing, as one thread would wait too long for the other where both share a core. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  enum { TURNS = 100 };
  long releases = argc > 1 ? atol(argv[1]) : TURNS, turn = 0;
  double *a = calloc(512, sizeof *a);
#pragma omp parallel num_threads(2) shared(a, turn)
  {
    long now, me;
#pragma omp master
    {
#pragma omp target map(tofrom : a[0 : 512])
      a[0] += 1;
    }
#pragma omp barrier
#pragma omp for schedule(static, 1)
    for (me = 0; me < 2; me++)
      for (long i = 0; i < TURNS; i++) {
        do {
#pragma omp atomic read acquire
          now = turn;
        } while (now % 2 != me);
        a[1] += 1;
        for (long k = 1; k < releases / TURNS; k++) {
#pragma omp atomic write release
          turn = now;
        }
#pragma omp atomic write release
        turn = now + 1;
      }
  }
  printf("%g\n", a[1]);
  free(a);
}

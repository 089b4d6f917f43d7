/* Two threads hand a block to and fro by an atomic variable, more often than a recording tells: N of argv[1]. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 1, turn = 0;
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
      for (long i = 0; i < rounds; i++) {
        do {
#pragma omp atomic read acquire
          now = turn;
        } while (now % 2 != me);
        a[1] += 1;
#pragma omp atomic write release
        turn = now + 1;
      }
  }
  printf("%g\n", a[1]);
  free(a);
}

/* Kernels that are written as for a GPU: the team's number, barriers, teams that wait for one another. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEAMS = 24, THREADS = 64 };

static int sums[TEAMS], reversed[TEAMS * THREADS], after[TEAMS];

int main(int argc, char **argv) {
  int width = argc > 1 ? atoi(argv[1]) : THREADS; /* not known to the compiler, which would unroll the loop of barriers */
  int n = TEAMS * THREADS, arrived = 0, fetched = 0, taken[THREADS] = {0};
#pragma omp target teams num_teams(TEAMS) thread_limit(THREADS) map(from : sums, reversed)
  {
    int local[THREADS];
#pragma omp parallel num_threads(THREADS)
    {
      int thread = omp_get_thread_num(), team = omp_get_team_num();
      local[thread] = team * THREADS + thread;
#pragma omp barrier
      reversed[team * THREADS + thread] = local[THREADS - 1 - thread];
#pragma omp barrier
      for (int half = width / 2; half; half /= 2) {
        if (thread < half)
          local[thread] += local[thread + half];
#pragma omp barrier
      }
      if (thread == 0)
        sums[team] = local[0];
    }
  }
  /* Each team waits until all have arrived: they must run at the same time. */
#pragma omp target teams num_teams(TEAMS) thread_limit(1) map(tofrom : arrived) map(from : after)
  {
    int seen = 0;
#pragma omp atomic update
    arrived++;
    while (seen < TEAMS) {
#pragma omp atomic read
      seen = arrived;
    }
    after[omp_get_team_num()] = seen;
  }
#pragma omp target parallel for schedule(dynamic, 3) num_threads(THREADS) map(tofrom : fetched, taken)
  for (int i = 0; i < 1000; i++) {
#pragma omp atomic update
    fetched++;
    taken[omp_get_thread_num()] = 1;
  }
  int right = 1, threads = 0;
  for (int team = 0; team < TEAMS; team++)
    right &= sums[team] == team * THREADS * THREADS + THREADS * (THREADS - 1) / 2 && after[team] == TEAMS;
  for (int i = 0; i < n; i++)
    right &= reversed[i] == i / THREADS * THREADS + THREADS - 1 - i % THREADS;
  for (int thread = 0; thread < THREADS; thread++)
    threads += taken[thread];
  printf("%s %d %d\n", right ? "right" : "wrong", fetched, threads);
}

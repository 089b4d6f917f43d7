/* What a target region may hold besides loops: memory of OpenMP's allocators, reductions over tasks; and loops of teams. */
#include <omp.h>
#include <stdio.h>

enum { N = 512, CHUNK = 16 };

static int team_of[N], squares[N];

int main(void) {
  int local[8] = {0}, of_tasks = 0, of_group = 0, teams = 0, right = 1;
#pragma omp target parallel for num_threads(8) uses_allocators(omp_pteam_mem_alloc) allocate(omp_pteam_mem_alloc : local) \
    private(local) map(from : squares)
  for (int i = 0; i < N; i++) {
    local[i % 8] = i;
    squares[i] = local[i % 8] * i;
  }
#pragma omp target parallel num_threads(8) reduction(task, + : of_tasks) map(tofrom : of_tasks)
  {
#pragma omp task in_reduction(+ : of_tasks)
    of_tasks += 3;
  }
#pragma omp target map(tofrom : of_group)
#pragma omp taskgroup task_reduction(+ : of_group)
  for (int i = 1; i <= 10; i++) {
#pragma omp task in_reduction(+ : of_group)
    of_group += i;
  }
  /* A loop of teams alone: a team for each iteration, as on a GPU. */
#pragma omp target teams distribute dist_schedule(static, CHUNK) map(from : team_of, teams)
  for (int i = 0; i < N; i++) {
    team_of[i] = omp_get_team_num();
    if (i == 0)
      teams = omp_get_num_teams();
  }
  for (int i = 0; i < N; i++)
    right &= squares[i] == i * i && team_of[i] == i / CHUNK;
  printf("%s %d %d %d\n", right ? "right" : "wrong", of_tasks, of_group, teams);
}

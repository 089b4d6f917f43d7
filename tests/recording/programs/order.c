/* Tasks with dependences that offload, a critical section and a barrier. */
#include <stdio.h>

int main(void) {
  double x[2048], y[2048];
  int entered = 0;
  for (int i = 0; i < 2048; i++)
    x[i] = i, y[i] = 0;
#pragma omp parallel num_threads(4)
  {
#pragma omp single
    {
#pragma omp target enter data map(to : x, y) depend(out : x) nowait
#pragma omp target teams distribute parallel for depend(inout : x) nowait
      for (int i = 0; i < 2048; i++)
        y[i] = 2 * x[i];
#pragma omp target exit data map(from : y) map(release : x) depend(in : x) nowait
#pragma omp taskwait
    }
#pragma omp critical
    entered++;
#pragma omp barrier
  }
  printf("%g %d\n", y[2047], entered);
}

/* The same kernel of the same shape again and again; in the second half of its launches it does four times the work. */
#include <stdio.h>

int main(void) {
  double x[1024];
  for (int i = 0; i < 1024; i++)
    x[i] = i;
  for (int launch = 0; launch < 8; launch++) {
    int times = launch < 4 ? 8 : 32;
#pragma omp target teams distribute parallel for map(tofrom : x)
    for (int i = 0; i < 1024; i++)
      for (int k = 0; k < times; k++)
        x[i] = x[i] * 0.5 + 1.0;
  }
  printf("%.3f\n", x[1023]);
}

/* Directives on the default device, on another one that is made the default or named, and on the initial device. */
#include <omp.h>

int main(void) {
  double x[512] = {0};
#pragma omp target enter data map(to : x)
  omp_set_default_device(1);
#pragma omp target enter data map(to : x)
#pragma omp target exit data map(from : x)
  omp_set_default_device(0);
#pragma omp target update to(x) device(1)
#pragma omp target exit data map(from : x)
#pragma omp target map(tofrom : x) device(omp_get_initial_device())
  x[0] = 1;
#pragma omp target map(tofrom : x)
  x[1] = 1;
  return x[0] != 1;
}

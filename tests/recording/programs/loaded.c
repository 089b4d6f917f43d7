/* -DLIBRARY: a library with a region. Else a program that knows nothing of OpenMP: it is linked with the library (-DLINKED), or loads it. */
double doubled(double *a, int n);
#ifdef LIBRARY
double doubled(double *a, int n) {
#pragma omp target teams distribute parallel for map(tofrom : a[0 : n])
  for (int i = 0; i < n; i++)
    a[i] *= 2;
  return a[1];
}
#else
#include <dlfcn.h>
int main(int argc, char **argv) {
  double a[100] = {1, 2};
#ifdef LINKED
  return doubled(a, 100) != 4;
#else
  double (*loaded)(double *, int) = (double (*)(double *, int))dlsym(dlopen(argv[argc - 1], RTLD_NOW), "doubled");
  return loaded(a, 100) != 4;
#endif
}
#endif

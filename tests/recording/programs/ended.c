/* Programs that die, or end, right behind a mistake. */
#include <stdlib.h>
#include <unistd.h>

static double a[512], b[512];

static void stale(void (*end)(void)) {
  double s = 0;
#pragma omp target data map(to : a)
  {
#pragma omp target
    for (int i = 0; i < 512; i++)
      a[i] = i + 1;
    for (int i = 0; i < 512; i++)
      s += a[i];
    if (s < 1)
      end();
  }
}

static void leave(void) { _exit(3); }

static void in_kernel(int how) {
#pragma omp target enter data map(alloc : a) map(to : b)
  for (int i = 0; i < 512; i++)
    b[i] = i;
#pragma omp target teams distribute parallel for
  for (int i = 0; i < 512; i++) {
    a[i] += b[i];
    if (i == 400 && how == 0)
      abort();
    if (i == 400 && how == 1)
      exit(3);
    if (i == 400 && how == 2)
      _exit(3);
    if (i == 400 && how == 3)
      __builtin_trap();
  }
}

int main(int argc, char **argv) {
  int how = atoi(argv[argc - 1]);
  if (how < 2)
    stale(how ? leave : abort);
  else
    in_kernel(how - 2);
}

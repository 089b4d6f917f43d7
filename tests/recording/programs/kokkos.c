// Loads its tools as Kokkos does (Kokkos_Profiling.cpp): each library of KOKKOS_TOOLS_LIBS, and the functions that it has by their names.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*pushes)(const char *);
static void (*pops)(void);

static void load_tools(void) {
  char *names = getenv("KOKKOS_TOOLS_LIBS");
  for (char *name = names ? strtok(strdup(names), ";") : NULL; name; name = strtok(NULL, ";")) {
    void *tool = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (!tool) {
      fprintf(stderr, "%s\n", dlerror());
      exit(2);
    }
    void (*begins)(int, uint64_t, uint32_t, void *) = (void (*)(int, uint64_t, uint32_t, void *))dlsym(tool, "kokkosp_init_library");
    if (begins)
      begins(0, 20211015, 0, NULL);
    pushes = (void (*)(const char *))dlsym(tool, "kokkosp_push_profile_region");
    pops = (void (*)(void))dlsym(tool, "kokkosp_pop_profile_region");
  }
}

int main(void) {
  static double a[1000];
  load_tools();
  char name[16];
  if (pushes)
    pushes("setup");
#pragma omp target teams distribute parallel for map(tofrom : a)
  for (int i = 0; i < 1000; i++)
    a[i] = i;
  if (pops)
    pops();
  for (int step = 0; step < 2; step++) {
    snprintf(name, sizeof name, "step %d", step); // a name that is there for a moment only
    if (pushes)
      pushes(name);
#pragma omp target teams distribute parallel for map(tofrom : a)
    for (int i = 0; i < 1000; i++)
      a[i] += 1;
    if (pops)
      pops();
  }
  return a[1] != 3;
}

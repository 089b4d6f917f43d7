/* A mapper within `enter data`: LLVM counts what it maps only as the mapping is made, and so copies it again with each
   region; OpenMP does not. `kept` and `changed` waste nothing; of `sent`, the updates are needless. */
#include <stdio.h>
typedef struct {
  int size, steps;
  double values[200];
} grid;
#pragma omp declare mapper(grid g) map(g.size) map(g.values)

static grid kept[2], changed[2], sent;

static void begin(grid *g) {
  g->size = 200;
  for (int i = 0; i < 200; i++)
    g->values[i] = i;
}

int main(void) {
  double t = 0;
  begin(kept), begin(kept + 1), begin(changed), begin(changed + 1), begin(&sent);
#pragma omp target enter data map(to : kept, changed, sent)
  for (int k = 0; k < 3; k++) {
#pragma omp target map(tofrom : t)
    for (int i = 0; i < kept[k % 2].size; i++)
      t += kept[0].values[i] + kept[1].values[i];
#pragma omp target map(tofrom : changed)
    for (int i = 0; i < 200; i++) {
      changed[0].values[i] += changed[0].size;
      changed[1].values[i] += changed[1].size;
    }
#pragma omp target update to(sent.values)
#pragma omp target map(tofrom : t)
    t += sent.values[k] + sent.size;
  }
#pragma omp target update from(changed[0].values)
#pragma omp target update from(changed[1].values)
  printf("%g %g\n", t, changed[0].values[7] + changed[1].values[8]);
#pragma omp target exit data map(release : kept, changed, sent)
}

/* Scalars that no clause names are copied to each launch: those of the marked lines were meant to come back. */
#include <stdio.h>
#include <stdlib.h>
static int a[1000], b[1000];
enum { n = 1000 };
int main(void) {
  for (int i = 0; i < n; i++) a[i] = i % 17;
  int sum = 0, total = 0, found = 0, last = 0, counted = 0, shared = 0, outer = 0; double whole = 0;
  int right = 0, mapped = 0, factor = 2, used = 0, scratch, i, everything = 0, inside = 0, limit = 3, pointed = 0, place = 0, own;
  #pragma omp target teams distribute parallel for
  for (int i = 0; i < n; i++) sum += a[i]; /* lost */
  #pragma omp target
  for (int i = 0; i < n; i++) total += a[i]; /* lost */
  #pragma omp target
  for (int i = 0; i < n; i++) if (a[i] == 5) found = 1; /* lost */
  #pragma omp target map(to: a)
  for (int i = 0; i < n; i++) if (a[i] > last) last = a[i]; /* lost */
  #pragma omp target parallel for
  for (int i = 0; i < n; i++) {
    #pragma omp atomic
    counted++; /* lost */
  }
  #pragma omp target parallel for
  for (int i = 0; i < n; i++) {
    #pragma omp critical
    shared += a[i]; /* lost */
  }
  #pragma omp target
  #pragma omp parallel for reduction(+: outer) /* lost */
  for (int i = 0; i < n; i++) outer += a[i];
  #pragma omp target firstprivate(whole)
  whole = a[3] * 1.5; /* lost */

  #pragma omp target teams distribute parallel for reduction(+: right)
  for (int i = 0; i < n; i++) right += a[i];
  #pragma omp target map(tofrom: mapped)
  for (int i = 0; i < n; i++) mapped += a[i];
  #pragma omp target defaultmap(tofrom: scalar)
  for (int i = 0; i < n; i++) everything += a[i];
  #pragma omp target teams distribute parallel for
  for (int i = 0; i < n; i++) b[i] = a[i] * factor;
  #pragma omp target
  { used = used + a[3]; b[0] = used; }
  #pragma omp target
  for (i = 0; i < n; i++) { scratch = a[i]; b[i] += scratch; }
  #pragma omp target
  { for (int i = 0; i < n; i++) inside += a[i]; if (inside > 10) b[1] = 1; }
  #pragma omp target
  for (int i = 0; i < n; i++) { if (a[i] > limit) { limit = a[i]; b[i] = 0; } }
  int *to = &pointed;
  #pragma omp target map(tofrom: to[0:1])
  for (int i = 0; i < n; i++) *to += a[i];
  #pragma omp target
  { while (a[place] != 3) place++; b[2] = place; }
  #pragma omp target private(own)
  for (int i = 0; i < n; i++) { own = a[i]; b[i] += own; }
  printf("%d %d %d %d %d %d %d %g %d %d %d %d\n", sum, total, found, last, counted, shared, outer, whole, right, mapped, everything, pointed);
}

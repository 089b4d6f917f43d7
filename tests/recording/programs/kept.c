/* A region finds what LLVM has kept of a mapper's array, and makes mistakes about another array that it maps. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 512, FEW = 5 };
typedef struct {
  int a, b, c;
} part;
#pragma omp declare mapper(part p) map(to : p.a) map(from : p.c)
static part parts[FEW];
static double *other;

static void first(void) {
#pragma omp target map(tofrom : parts)
  for (int i = 0; i < FEW; i++)
    parts[i].c = parts[i].a;
}

static void again(void) {
#pragma omp target map(tofrom : parts) map(to : other[0 : N])
  for (int i = 0; i < FEW; i++) {
    parts[i].c = parts[i].a + (int)other[i]; /* unset */
    other[7] = i;
  }
}

int main(void) {
  other = malloc(N * sizeof *other);
  for (int i = 0; i < FEW; i++)
    parts[i].a = i;
  first(), again();
  printf("%d %g\n", parts[1].c, other[7]); /* stale */
  free(other);
}

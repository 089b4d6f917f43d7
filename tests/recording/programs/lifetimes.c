/* Arrays that end while they are mapped, or afterwards: what a check says of each is in test_recorded_lifetimes.py. */
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 4096 };
static void *volatile kept;

static void enter(double *a) {
#pragma omp target enter data map(to : a[0 : N]) /* enter */
}

static void leave(double *a) {
#pragma omp target exit data map(from : a[0 : N]) /* from */
}

static void release(double *a) {
#pragma omp target exit data map(release : a[0 : N]) /* release */
}

static void update(double *a) {
#pragma omp target update to(a[0 : N]) /* update */
}

static double *made(void) { return calloc(N, sizeof(double)); }

static void freed_too_early(void (*use)(double *)) {
  double *a = made();
  enter(a);
  free(a); /* free */
  use(a);
}

static void in_order(void) {
  for (int times = 0; times < 3; times++) {
    double *a = made();
    enter(a);
    leave(a);
    free(a);
  }
}

/* The device's copy is used, and the host's memory is given back. */
static void only_on_the_device(void) {
  double *a = made();
  enter(a);
  free(a); /* free at last */
#pragma omp target
  a[1] = 1;
}

static void used_again(void) {
  for (int times = 0; times < 3; times++) {
    double *a = made();
    enter(a);
    free(a); /* free */
  }
}

static void moved(void) {
  double *a = made();
  enter(a);
  kept = malloc(64); /* in its way */
  free(realloc(a, 64 * N * sizeof *a)); /* realloc */
  leave(a);
}

static void stays(void) {
  double *a = realloc(made(), 2 * N * sizeof *a);
  enter(a);
  leave(realloc(a, N * sizeof *a));
}

static void pages(void) {
  double *a = mmap(NULL, N * sizeof *a, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  enter(a);
  munmap(a, N * sizeof *a); /* munmap */
  release(a);
}

static void small(void) {
  int *a = calloc(4, sizeof *a);
#pragma omp target enter data map(to : a[0 : 4]) /* few */
  free(a); /* free */
#pragma omp target exit data map(from : a[0 : 4]) /* few back */
}

static void scope(void) {
  double a[N];
#pragma omp target enter data map(to : a[0 : N]) /* local */
  kept = a;
} /* scope */

static void by_a_team(int frees_first) {
  double *a = made();
  enter(a);
#pragma omp parallel num_threads(2)
  {
#pragma omp masked filter(1 - frees_first)
    leave(a);
#pragma omp barrier
  }
#pragma omp parallel num_threads(2)
#pragma omp masked filter(1)
  free(a);
}

static void *freeing(void *a) {
  free(a); /* elsewhere */
  return NULL;
}

static void by_a_pthread(int frees_first) {
  pthread_t thread;
  double *a = made();
  a[0] = 1;
  enter(a);
  if (!frees_first)
    leave(a);
  pthread_create(&thread, NULL, freeing, a);
  pthread_join(thread, NULL);
  if (frees_first)
    release(a);
}

static void *mapping(void *a) {
  enter(a);
  leave(a);
  return NULL;
}

static void mapped_by_a_pthread(void) {
  pthread_t thread;
  double *a = made();
  pthread_create(&thread, NULL, mapping, a);
  pthread_join(thread, NULL);
  free(a);
}

static void by_another_thread(void) {
  double *a = made();
  enter(a);
#pragma omp parallel num_threads(2)
  {
#pragma omp masked filter(1)
    free(a); /* free */
#pragma omp barrier
#pragma omp masked
    leave(a);
  }
}

static void few(int count) {
  int *a = calloc(5, sizeof *a);
#pragma omp target map(tofrom : a[0 : count]) /* more than it has */
  a[1] = 1;
  free(a);
}

static void by_nobody_ordered(void) {
  int *a = calloc(5, sizeof *a);
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num())
      usleep(50000); /* so that the mappings do not overlap */
#pragma omp target map(from : a[0 : 5]) /* by both */
    a[1] = 1;
  }
  free(a);
}

int main(int argc, char **argv) {
  switch (argc > 1 ? atoi(argv[1]) : 0) {
  case 0: freed_too_early(leave); break;
  case 1: freed_too_early(release); break;
  case 2: freed_too_early(update); break;
  case 3: in_order(); break;
  case 4: only_on_the_device(); break;
  case 5: used_again(); break;
  case 6: moved(); break;
  case 7: stays(); break;
  case 8: pages(); break;
  case 9: small(); break;
  case 10:
    scope();
    release(kept);
    break;
  case 11: by_another_thread(); break;
  case 12: by_a_team(0); break;
  case 13: by_a_team(1); break;
  case 14: by_a_pthread(0); break;
  case 15: by_a_pthread(1); break;
  case 16: mapped_by_a_pthread(); break;
  case 17: few(6); break;
  case 18:
    for (int times = 0; times < 3; times++)
      few(5);
    break;
  case 19: by_nobody_ordered(); break;
  }
}

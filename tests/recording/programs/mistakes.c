/* One mistake a function, or none: what a recording for a check says of each is in test_recorded_mistakes.py. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { N = 300 };
static int counter, table[N];
static const int weights[] = {1, 2, 3};

static void unordered(void) {
#pragma omp target teams distribute parallel for map(tofrom : counter)
  for (int i = 0; i < N; i++)
    counter++; /* race */
}

static void ordered(void) {
#pragma omp target teams distribute parallel for map(tofrom : counter)
  for (int i = 0; i < N; i++)
#pragma omp atomic
    counter++;
#pragma omp target teams distribute parallel for map(tofrom : counter) num_teams(1)
  for (int i = 0; i < N; i++)
#pragma omp critical
    counter -= 2;
#pragma omp target teams distribute parallel for map(tofrom : counter) reduction(+ : counter)
  for (int i = 0; i < N; i++)
    counter++;
}

static void neighbours(int *a) {
#pragma omp target teams distribute parallel for map(tofrom : a[0 : N])
  for (int i = 1; i < N; i++)
    a[i] = a[i - 1] + 1; /* neighbour */
}

static void phases(int *a) {
#pragma omp target parallel num_threads(4) map(tofrom : a[0 : N])
  {
    int me = omp_get_thread_num();
    a[me] = me;
#pragma omp barrier
    a[100 + me] = a[(me + 1) % 4];
  }
}

static void two_locks(int *a) {
#pragma omp target teams distribute parallel for map(tofrom : a[0 : 1]) num_teams(1)
  for (int i = 0; i < N; i++) {
#pragma omp critical(up)
    a[0]++; /* up */
#pragma omp critical(down)
    a[0]--; /* down */
  }
}

/* A critical section excludes threads of one team only: of one contention group. */
static void apart(void) {
#pragma omp target teams distribute parallel for map(tofrom : counter)
  for (int i = 0; i < 20; i++)
#pragma omp critical
    counter += 3; /* apart */
}

/* Two kernels count at the same time. */
static void in_tasks(int plainly) {
#pragma omp target data map(tofrom : counter)
  {
#pragma omp target teams distribute parallel for map(tofrom : counter) nowait
    for (int i = 0; i < N; i++)
#pragma omp atomic
      counter++; /* first */
#pragma omp target teams distribute parallel for map(tofrom : counter) nowait
    for (int i = 0; i < N; i++)
      if (i == 0 && plainly)
        counter = 5;
      else
#pragma omp atomic
        counter++;
#pragma omp taskwait
  }
}

static void beyond(int *a) {
#pragma omp target map(from : a[0 : N / 2])
  for (int i = 0; i < N; i++)
    a[i] = i; /* beyond */
}

static int not_copied_back(int *a) {
#pragma omp target map(to : a[0 : N])
  a[7] = 1;
  return a[6] + a[7]; /* stale */
}

static int written_elsewhere(int *a) {
#pragma omp target map(to : a[0 : N])
  a[7] = 1;
  sscanf("5", "%d", &a[7]);
  return a[7];
}

static void too_long(void) {
#pragma omp target enter data map(to : table[0 : N + 8]) /* long */
#pragma omp target exit data map(release : table[0 : N + 8])
}

/* A temporary on the device: what the kernel reads there it has stored itself. */
static void kept_there(int *a) {
#pragma omp target teams distribute parallel for map(alloc : a[0 : N])
  for (int i = 0; i < N; i++) {
    a[i] = i;
    for (int times = 0; times < 3; times++)
      *(volatile int *)&a[i] += times;
  }
}

static void host_threads(int *a, int atomically) {
#pragma omp target data map(tofrom : a[0 : N])
  {}
#pragma omp parallel num_threads(2)
  if (atomically) {
#pragma omp atomic
    a[5]++;
  } else
    a[5]++;
#pragma omp target map(tofrom : a[0 : N])
  a[5]++;
}

/* Two pointers into one array, each mapped for itself; nothing has written what the second one has on the device. */
static void halves(int *a) {
  int *first = a, *second = a + N / 2;
#pragma omp target map(tofrom : first[0 : 10]) map(alloc : second[0 : 10]) /* halves */
  second[2] = second[1] + first[1];
}

/* Where no clause names an array it is mapped `tofrom`; one that is mapped already is not copied back. */
static void weigh(int *a) {
#pragma omp target teams distribute parallel for map(tofrom : a[0 : N]) /* constant */
  for (int i = 0; i < N; i++)
    a[i] = weights[i % 3];
}

int main(int argc, char **argv) {
  int *a = calloc(N, sizeof *a), sum = 0;
  switch (argc > 1 ? atoi(argv[1]) : 0) {
  case 0: unordered(); break;
  case 1: ordered(); break;
  case 2: neighbours(a); break;
  case 3: phases(a); break;
  case 4: two_locks(a); break;
  case 5: beyond(a); break;
  case 6: sum = not_copied_back(a); break;
  case 7: sum = written_elsewhere(a); break;
  case 8: too_long(); break;
  case 9:
#pragma omp target is_device_ptr(a)
    a[3] = 1; /* host's */
    break;
  case 10:
#pragma omp target
    *(volatile int *)64 = 1; /* nowhere */
    break;
  case 11:
#pragma omp target
    *(volatile int *)(1L << 60) = 1; /* far */
    break;
  case 12: kept_there(a); break;
  case 13: host_threads(a, 0); break;
  case 14: host_threads(a, 1); break;
  case 15: halves(a); break;
  case 16: weigh(a); break;
  case 17:
#pragma omp target data map(to : weights)
    weigh(a);
    break;
  case 18: apart(); break;
  case 19: in_tasks(0); break;
  case 20: in_tasks(1); break;
  case 21: { /* more of one array than a recording has room for, and then one of another */
    int *b = calloc(N, sizeof *b);
#define FOUR(k) a[N + k]++, a[N + k + 1]++, a[N + k + 2]++, a[N + k + 3]++
#pragma omp target map(tofrom : a[0 : N], b[0 : N])
    FOUR(0), FOUR(4), FOUR(8), FOUR(12), FOUR(16), FOUR(20), FOUR(24), FOUR(28), FOUR(32), FOUR(36), b[N]++;
    free(b);
    break;
  }
  case 22: { /* of which the last element is mapped */
    int *b = calloc(4 * N, sizeof *b);
#pragma omp target map(tofrom : b[4 * N - 1 : 1]) map(tofrom : sum)
    for (int i = 0; i < 4 * N; i++)
      sum += b[i]; /* below */
    free(b);
    break;
  }
  case 23: { /* the element before lies where another array ends */
    int *b = calloc(N, sizeof *b);
#pragma omp target map(tofrom : a[0 : N], b[0 : N])
    for (int i = 0; i < N; i++)
      a[i] = b[i - 1]; /* before */
    free(b);
    break;
  }
  case 24: { /* pages of the system */
    int *pages = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#pragma omp target is_device_ptr(pages)
    pages[3] = 1; /* pages */
    munmap(pages, 1 << 16);
  }
  }
  printf("%d\n", sum + counter);
  free(a);
}

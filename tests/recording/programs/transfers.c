/* Transfers and allocations that are for nothing, and such that are needed though their bytes are equal; one case a run.
   test_waste_beside_peer.py has what each wastes. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N 1024
#define EACH for (int i = 0; i < N; i++)

static double a[N], b[N], c[N];
static double total; /* of the host */
static double sum = 0.5; /* of the kernels: mapped all the time */

static void fill(double *array, double value) { EACH array[i] = value + i; }

/* The same bytes again. */

static void map_around_each_kernel(void) {
  for (int k = 1; k <= 3; k++) {
#pragma omp target teams distribute parallel for map(to : a) map(from : b)
    EACH b[i] = a[i] * k;
    total += b[k];
  }
}

static void update_of_what_is_there(void) {
#pragma omp target data map(to : a)
  for (int k = 0; k < 3; k++) {
#pragma omp target update to(a)
#pragma omp target map(tofrom : sum)
    EACH sum += a[i];
  }
}

static void back_twice(void) {
#pragma omp target data map(to : a)
  {
#pragma omp target
    EACH a[i] += 1;
    for (int k = 0; k < 2; k++) {
#pragma omp target update from(a)
      total += a[k];
    }
  }
}

static void always(void) {
#pragma omp target data map(to : a)
  for (int k = 0; k < 3; k++) {
#pragma omp target map(always, to : a) map(tofrom : sum)
    EACH sum += a[i];
  }
}

static void by_routine(void) {
  double *there = omp_target_alloc(sizeof a, 0);
  for (int k = 0; k < 3; k++) {
    omp_target_memcpy(there, a, sizeof a, 0, 0, 0, omp_get_initial_device());
#pragma omp target is_device_ptr(there) map(tofrom : sum)
    EACH sum += there[i];
  }
  omp_target_free(there, 0);
}

static void written_again(void) {
#pragma omp target data map(alloc : a)
  for (int k = 0; k < 3; k++) {
    fill(a, 5);
#pragma omp target update to(a)
#pragma omp target map(tofrom : sum)
    EACH sum += a[i];
  }
}

static void table(int k) {
  double weights[N];
  fill(weights, 2);
#pragma omp target map(to : weights) map(tofrom : sum)
  EACH sum += k * weights[i];
}

static void local_table(void) {
  for (int k = 0; k < 3; k++) table(k);
}

static void private_copies(void) {
  for (int k = 0; k < 3; k++) {
#pragma omp target firstprivate(a) map(tofrom : sum)
    EACH sum += a[i];
  }
}

static void small_private_copies(void) {
  struct { double factor[8]; } scale = {{1, 2, 3, 4, 5, 6, 7, 8}};
  for (int k = 0; k < 3; k++) {
#pragma omp target firstprivate(scale) map(tofrom : sum)
    EACH sum += scale.factor[i % 8];
  }
}

static void heap_of_each(void) {
  for (int k = 0; k < 3; k++) {
    double *heap = malloc(sizeof a);
    fill(heap, 4);
#pragma omp target map(to : heap[0 : N]) map(tofrom : sum)
    EACH sum += heap[i];
    free(heap);
  }
}

static void half_of_it(void) { /* no digest of a whole copy shows it */
#pragma omp target data map(to : a)
  for (int k = 0; k < 3; k++) {
#pragma omp target update to(a[100 : 200])
#pragma omp target map(tofrom : sum)
    EACH sum += a[i];
  }
}

/* There and back. */

static void only_read(void) {
#pragma omp target map(tofrom : a) map(tofrom : sum)
  EACH sum += a[i];
}

static void kept_by_the_host(void) {
  for (int k = 0; k < 3; k++) {
#pragma omp target map(tofrom : a)
    EACH a[i] += i;
  }
  total += a[7];
}

static void back_and_forth(void) {
#pragma omp target data map(tofrom : a)
  for (int k = 0; k < 3; k++) {
#pragma omp target
    EACH a[i] += 1;
#pragma omp target update from(a)
    total += a[k];
#pragma omp target update to(a)
  }
}

/* Allocated again, or for nothing. */

static void scratch_of_each(void) {
  for (int k = 0; k < 3; k++) {
#pragma omp target map(alloc : c) map(tofrom : sum)
    {
      EACH c[i] = i * k;
      EACH sum += c[N - 1 - i];
    }
  }
}

static void block_of_each(void) {
  for (int k = 0; k < 3; k++) {
    double *block = omp_target_alloc(sizeof a, 0);
#pragma omp target is_device_ptr(block) map(tofrom : sum)
    {
      EACH block[i] = i * k;
      sum += block[k];
    }
    omp_target_free(block, 0);
  }
}

static void no_kernel(void) {
#pragma omp target data map(alloc : c)
  total += c[1];
#pragma omp target map(tofrom : sum)
  sum += 1;
}

static void not_by_this_kernel(void) { /* a kernel runs meanwhile, and does not use it */
#pragma omp target data map(alloc : c) map(to : a)
  {
#pragma omp target map(tofrom : sum)
    sum += a[5];
  }
}

/* Sent, and read by nobody. */

static void behind_the_last_kernel(void) {
#pragma omp target data map(to : a)
  {
#pragma omp target map(tofrom : sum)
    EACH sum += a[i];
    a[1] += 1;
#pragma omp target update to(a)
  }
}

static void two_before_a_kernel(void) {
#pragma omp target data map(alloc : a)
  for (int k = 0; k < 2; k++) {
    a[k] += 1;
#pragma omp target update to(a)
    a[k] += 1;
#pragma omp target update to(a)
#pragma omp target map(tofrom : sum)
    EACH sum += a[i];
  }
}

static void overwritten_by_the_kernel(void) {
#pragma omp target map(tofrom : a)
  EACH a[i] = i;
  total += a[3];
}

static void results_of_each(void) { /* of which the host reads the last */
  for (int k = 0; k < 3; k++) {
#pragma omp target map(from : b)
    EACH b[i] = i + k;
  }
  total += b[9];
}

/* Needed, though a digest is there already. */

static void equal_arrays(void) {
  memset(a, 0, sizeof a), memset(b, 0, sizeof b);
#pragma omp target map(to : a, b) map(tofrom : sum)
  EACH sum += a[i] - b[i];
}

static void reset_by_the_host(void) {
  int count = 0;
#pragma omp target data map(alloc : count) map(to : a)
  for (int k = 0; k < 3; k++) {
    count = 0;
#pragma omp target update to(count)
#pragma omp target map(tofrom : count)
    EACH count += a[i] > k;
#pragma omp target update from(count)
    total += count;
  }
}

static void in_turns(void) {
#pragma omp target data map(alloc : a)
  for (int k = 0; k < 4; k++) {
    fill(a, k % 2);
#pragma omp target update to(a)
#pragma omp target map(tofrom : sum)
    EACH sum += a[i];
  }
}

static void fresh_copies(void) {
  for (int k = 0; k < 3; k++) {
#pragma omp target map(to : a) map(tofrom : sum)
    EACH { a[i] += 1; sum += a[i]; }
  }
}

static void equal_results(void) {
#pragma omp target data map(alloc : b)
  for (int k = 0; k < 3; k++) {
#pragma omp target
    EACH b[i] = 3;
#pragma omp target update from(b)
    total += b[k];
  }
}

static void to_and_fro(void) { /* the second kernel takes back what the first has done */
#pragma omp target data map(to : a)
  for (int k = 0; k < 2; k++) {
#pragma omp target
    EACH a[i] = -a[i];
#pragma omp target update from(a)
    total += a[k];
  }
}

static void zeros_come_back(void) { /* of another array than the one that was sent */
  memset(a, 0, sizeof a);
#pragma omp target map(to : a) map(from : b)
  EACH b[i] = a[i] * 2;
  total += b[4];
}

static void more_of_it(void) { /* the second update brings a part, the first one is read */
#pragma omp target data map(alloc : a)
  {
#pragma omp target update to(a)
    a[0] = 7;
#pragma omp target update to(a[0 : 10])
#pragma omp target map(tofrom : sum)
    EACH sum += a[i];
  }
}

static void two_blocks(void) { /* of one size, at one time */
  double *one = omp_target_alloc(sizeof a, 0), *other = omp_target_alloc(sizeof a, 0);
#pragma omp target is_device_ptr(one, other) map(tofrom : sum)
  {
    EACH one[i] = other[N - 1 - i] = i;
    sum += one[1] + other[1];
  }
  omp_target_free(one, 0);
  omp_target_free(other, 0);
}

__attribute__((noinline)) static void odd(void) {
  double odds[N];
  fill(odds, 1);
#pragma omp target map(to : odds) map(tofrom : sum)
  EACH sum += odds[i];
}

__attribute__((noinline)) static void even(void) {
  double evens[N];
  fill(evens, 2);
#pragma omp target map(to : evens) map(tofrom : sum)
  EACH sum += evens[i];
}

static void one_place_of_the_stack(void) { odd(), even(); }

static void two_devices(void) {
  for (int k = 0; k < 2; k++) {
    double *result = k ? b : c;
#pragma omp target device(k) map(to : a) map(from : result[0 : N])
    EACH result[i] = a[i] + 5 + k;
    total += result[k];
  }
}

static void changed_in_one_byte(void) {
#pragma omp target data map(alloc : a)
  for (int k = 0; k < 3; k++) {
    a[k] += 1;
#pragma omp target update to(a)
#pragma omp target map(tofrom : sum)
    EACH sum += a[i];
  }
}

static void as_a_store(void) { /* no kernel ever reads it: a copy brings it back */
  double *there = omp_target_alloc(sizeof a, 0);
  omp_target_memcpy(there, a, sizeof a, 0, 0, 0, omp_get_initial_device());
  memset(a, 0, sizeof a);
  omp_target_memcpy(a, there, sizeof a, 0, 0, omp_get_initial_device(), 0);
  omp_target_free(there, 0);
  total += a[5];
}

#define CASE(name) {#name, name}
static const struct { const char *name; void (*run)(void); } CASES[] = {
  CASE(map_around_each_kernel), CASE(update_of_what_is_there), CASE(back_twice), CASE(always), CASE(by_routine),
  CASE(written_again), CASE(local_table), CASE(private_copies), CASE(small_private_copies), CASE(heap_of_each), CASE(half_of_it),
  CASE(only_read), CASE(kept_by_the_host), CASE(back_and_forth),
  CASE(scratch_of_each), CASE(block_of_each), CASE(no_kernel), CASE(not_by_this_kernel),
  CASE(behind_the_last_kernel), CASE(two_before_a_kernel), CASE(overwritten_by_the_kernel), CASE(results_of_each),
  CASE(equal_arrays), CASE(reset_by_the_host), CASE(in_turns), CASE(fresh_copies), CASE(equal_results), CASE(to_and_fro),
  CASE(zeros_come_back), CASE(more_of_it), CASE(two_blocks), CASE(one_place_of_the_stack), CASE(two_devices),
  CASE(changed_in_one_byte), CASE(as_a_store),
};

int main(int count, char **arguments) {
  fill(a, 1);
  for (int k = 0; count > 1 && k < (int)(sizeof CASES / sizeof *CASES); k++)
    if (!strcmp(arguments[1], CASES[k].name)) {
#pragma omp target enter data map(to : sum)
#pragma omp target map(tofrom : sum)
      sum += 1;
      CASES[k].run();
#pragma omp target exit data map(from : sum)
      printf("%g\n", total + sum);
      return 0;
    }
  return 1;
}

// What OpenMP's offloading costs under the runtime of a compiler, by many host threads. No cost is fitted to these times.
//
// Usage: OMP_NUM_THREADS=T offload_openmp MODE REPEATS BYTES ITEMS
// Each thread does the same REPEATS times, with arrays of its own; the time of one repetition, of all threads together, is
// printed as a line of JSON. `offloadrt cc` and `offloadrt record` make a recording of it where there is no GPU.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ITEMS 8

typedef struct {
  double *array[MOST_ITEMS];
  int n, items;
} Work;

static void add(double *a, int n) {
#pragma omp target teams distribute parallel for map(tofrom : a[0 : n])
  for (int i = 0; i < n; i++) a[i] += 1.0;
}

// A target region whose arrays are present.
static void present(Work *w, int repeats) {
  double *a = w->array[0], *b = w->array[1], *c = w->array[2], *d = w->array[3];
  int n = w->n;
  for (int r = 0; r < repeats; r++) {
    if (w->items == 1) add(a, n);
    else {
#pragma omp target teams distribute parallel for map(tofrom : a[0 : n], b[0 : n], c[0 : n], d[0 : n])
      for (int i = 0; i < n; i++) a[i] += b[i] + c[i] * d[i];
    }
  }
}

// A target region that maps its arrays: allocation, copies and release each time.
static void mapped(Work *w, int repeats) {
  for (int r = 0; r < repeats; r++) add(w->array[0], w->n);
}

// Data that goes to the device before a region and back after it.
static void updated(Work *w, int repeats) {
  double *a = w->array[0];
  int n = w->n;
  for (int r = 0; r < repeats; r++) {
#pragma omp target update to(a[0 : n])
    add(a, n);
#pragma omp target update from(a[0 : n])
  }
}

// Patches that a batch maps one by one, and one region over all of them.
static void patches(Work *w, int repeats) {
  int n = w->n, items = w->items;
  double *list[MOST_ITEMS];
  for (int r = 0; r < repeats; r++) {
    for (int p = 0; p < items; p++) {
      double *a = w->array[p];
#pragma omp target enter data map(to : a[0 : n])
      list[p] = omp_get_mapped_ptr(a, omp_get_default_device());
    }
#pragma omp target teams distribute parallel for collapse(2) map(to : list[0 : items])
    for (int p = 0; p < items; p++)
      for (int i = 0; i < n; i++) list[p][i] += 1.0;
    for (int p = 0; p < items; p++) {
      double *a = w->array[p];
#pragma omp target exit data map(from : a[0 : n])
    }
  }
}

static void run(const char *mode, Work *w, int repeats) {
  if (!strcmp(mode, "present")) present(w, repeats);
  else if (!strcmp(mode, "mapped")) mapped(w, repeats);
  else if (!strcmp(mode, "updated")) updated(w, repeats);
  else if (!strcmp(mode, "patches")) patches(w, repeats);
  else exit(2);
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: offload_openmp present|mapped|updated|patches REPEATS BYTES ITEMS\n");
    return 2;
  }
  const char *mode = argv[1];
  int repeats = atoi(argv[2]), bytes = atoi(argv[3]), items = atoi(argv[4]), threads = omp_get_max_threads();
  int held = !strcmp(mode, "present") || !strcmp(mode, "updated");
  double begin = 0.0, end = 0.0;
#pragma omp parallel num_threads(threads)
  {
    Work w = {.n = bytes / (int)sizeof(double), .items = items};
    for (int p = 0; p < MOST_ITEMS; p++) {
      w.array[p] = malloc(bytes);
      memset(w.array[p], 0, bytes);
      double *a = w.array[p];
      if (held) {
#pragma omp target enter data map(to : a[0 : w.n])
      }
    }
    run(mode, &w, repeats / 5 + 1);
#pragma omp barrier
#pragma omp master
    begin = omp_get_wtime();
    run(mode, &w, repeats);
#pragma omp barrier
#pragma omp master
    end = omp_get_wtime();
    for (int p = 0; p < MOST_ITEMS; p++) {
      double *a = w.array[p];
      if (held) {
#pragma omp target exit data map(release : a[0 : w.n])
      }
      free(w.array[p]);
    }
  }
  printf("{\"what\": \"openmp\", \"mode\": \"%s\", \"threads\": %d, \"repeats\": %d, \"bytes\": %d, \"items\": %d, "
         "\"devices\": %d, \"per_repeat_s\": %.9g}\n",
         mode, threads, repeats, bytes, items, omp_get_num_devices(), (end - begin) / repeats);
  return 0;
}

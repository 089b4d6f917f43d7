/* Each thread writes an element, and reads it again; other elements it only reads. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  long n = 1 << 14;
  volatile double *written = malloc(n * sizeof *written), *read = calloc(n, sizeof *read);
#pragma omp target teams distribute parallel for map(from : written[:n]) map(to : read[:n])
  for (long i = 0; i < n; i++) {
    written[i] = i;
    written[i] += read[i];
  }
  printf("%g\n", written[n - 1]);
}

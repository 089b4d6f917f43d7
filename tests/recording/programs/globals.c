// Globals of the program that are on the device from the start, or while they are mapped; memory of omp_target_alloc.
#include <omp.h>
#include <stdio.h>
int table[1024], linked[1024];
double factor = 0.5;
#pragma omp declare target to(table, factor)
#pragma omp declare target link(linked)

int main(void) {
  int device = omp_get_default_device(), host = omp_get_initial_device(), back[1024];
  factor = 2.5;
  for (int i = 0; i < 1024; i++)
    table[i] = linked[i] = i;
#pragma omp target update to(table, factor)
#pragma omp target teams distribute parallel for map(tofrom : linked)
  for (int i = 0; i < 1024; i++)
    linked[i] += table[i] * factor;
  int *block = omp_target_alloc(sizeof table, device);
  omp_target_memcpy(block, linked, sizeof table, 0, 0, device, host);
#pragma omp target teams distribute parallel for is_device_ptr(block)
  for (int i = 0; i < 1024; i++)
    block[i] += 1;
  omp_target_memcpy(back, block, sizeof back, 0, 0, host, device);
  omp_target_free(block, device);
  printf("%d %d\n", linked[1023], back[1023]);
}

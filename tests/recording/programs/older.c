/* Registers with the recorder as an image does that another version has compiled. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

int main(void) {
  const void *functions[2] = {0};
  ((void (*)(const void *, uint64_t))dlsym(RTLD_DEFAULT, "offload_recorder_register"))(functions, 1);
#pragma omp target
  {}
  return 0;
}

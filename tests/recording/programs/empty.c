/* Kernels of which no instruction is left when the compiler is done. */
int main(void) {
  int numbers[4] = {1, 2, 3, 4};
  for (int times = 0; times < 2; times++) {
#pragma omp target map(to : numbers)
    {
    }
  }
  return 0;
}

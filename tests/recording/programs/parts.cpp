// Two parts of an array, of each of which a kernel gets a copy of its own.
#include <cstdio>

int main() {
  int both[2][1024] = {}, sum = 0;
  int(&first)[1024] = both[0], (&second)[1024] = both[1];
#pragma omp target teams distribute parallel for map(tofrom : both)
  for (int i = 0; i < 1024; i++)
    both[0][i] = both[1][i] = i;
#pragma omp target firstprivate(first, second) map(tofrom : sum)
  for (int i = 0; i < 1024; i++)
    sum += first[i] + second[i];
  std::printf("%d\n", sum);
}

// Half of a vector is copied back from device memory that nobody has written, and all of it is read before the vector ends.
#include <cstdio>
#include <vector>

int main() {
  std::vector<double> values(1000, 0.0);
  double *data = values.data(), sum = 0;
#pragma omp target teams distribute parallel for map(from : data[0 : 1000])
  for (int i = 0; i < 500; i++)
    data[i] = i;
  for (double value : values)
    sum += value;
  std::printf("%d\n", sum >= 0);
}

// Three arrays that lie in one page: the kernels use the outer ones, and the host the one in the middle, in two places far apart.
#include <algorithm>
#include <cstdlib>
#include <execution>

int main() {
  const int n = 512;
  double *block[3];
  for (double *&each : block)
    each = static_cast<double *>(std::malloc(n * sizeof(double)));
  const auto policy = std::execution::par_unseq;
  std::fill_n(policy, block[1], n, 1.);
  for (int step = 0; step < 3; ++step) {
    std::fill_n(policy, block[0], n, 1. * step);
    std::fill_n(policy, block[2], n, 2. * step);
    block[1][100] += block[1][300];
  }
  const bool right = block[1][100] == 4.;
  for (double *each : block)
    std::free(each);
  return !right;
}

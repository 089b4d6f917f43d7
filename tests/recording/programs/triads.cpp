// A program of C++'s parallel algorithms: five triads, a sort, a scan and two sums, between which the host reads a result.
#include <algorithm>
#include <cstdio>
#include <execution>
#include <numeric>
#include <vector>

int main() {
  const int n = 1 << 16;
  std::vector<double> a(n, 1.), b(n, 2.), c(n, 0.);
  std::vector<int> key(n);
  const auto policy = std::execution::par_unseq;
  for (int step = 0; step < 5; ++step) {
    std::transform(policy, a.begin(), a.end(), b.begin(), c.begin(), [](double x, double y) { return x + 3. * y; });
    std::transform(policy, c.begin(), c.end(), a.begin(), [](double x) { return .5 * x; });
  }
  double sum = std::reduce(policy, a.begin(), a.end());
  int *keys = key.data();
  std::for_each(policy, key.begin(), key.end(), [=](int &k) { k = static_cast<int>((&k - keys) * 7919 % n); });
  std::sort(policy, key.begin(), key.end());
  std::inclusive_scan(policy, a.begin(), a.end(), b.begin());
  double largest = 0.;
  for (double x : b)
    largest = x > largest ? x : largest;
  std::fill(policy, c.begin(), c.end(), largest);
  std::printf("%g %g %d\n", sum, std::transform_reduce(policy, b.begin(), b.end(), c.begin(), 0.) / largest, key[n - 1]);
}

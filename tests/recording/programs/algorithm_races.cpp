// Elements of an algorithm that touch what others touch: each with its neighbour, and all of them one sum.
#include <algorithm>
#include <cstdio>
#include <execution>
#include <vector>

int main() {
  const long n = 4096;
  std::vector<double> a(n, 1.), b(n, 2.);
  double *pa = a.data(), *sum = b.data();
  std::for_each(std::execution::par_unseq, a.begin(), a.end(), [=](double &x) {
    long i = &x - pa;
    if (i + 1 < n)
      pa[i + 1] = x; // neighbour
  });
  std::for_each_n(std::execution::par, pa, n, [=](double x) { *sum += x; }); // sum
  std::printf("%g\n", b[0]);
}

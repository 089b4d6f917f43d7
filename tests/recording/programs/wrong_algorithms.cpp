// Algorithms of two threads at a time, beyond an array, on memory that nobody has written, and with a variable of the stack.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <execution>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

__attribute__((noinline)) static double norm(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = std::transform_reduce(std::execution::par_unseq, a.begin(), a.end(), b.begin(), 0.);
  return std::sqrt(sum);
}

int main() {
  const long n = 1024;
  const auto par = std::execution::par_unseq;
  std::vector<double> a(n, 1.), b(n);
  std::unique_ptr<double[]> raw(new double[n]);
  double *pa = a.data(), *pb = b.data(), factor = 2.;
  std::for_each_n(par, pa, n, [=](double &x) { pb[&x - pa] = (&x)[1]; }); // beyond
  std::transform(par, raw.get(), raw.get() + n, pb, [](double x) { return x + 1.; }); // unwritten
  std::for_each_n(par, pa, n, [&](double &x) { x *= factor; }); // stack
  std::thread one([=] { std::for_each_n(par, pb, n, [](double &x) { x += 1.; }); }); // one
  std::thread other([=] { std::for_each_n(par, pb, n, [](double &x) { x *= 2.; }); }); // other
  one.join(), other.join();
  std::thread third([=] { std::for_each_n(par, pb, n, [](double &x) { x -= 1.; }); }); // right
  third.join();
  std::printf("%g\n", norm(a, b));
}

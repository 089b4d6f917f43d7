// Steps three times from the value of its argument, and sums.
#include <cstdio>
#include <cstdlib>
#include <execution>
#include <numeric>
#include <vector>

void step(std::vector<double> &);
void check(std::vector<double> &);

int main(int, char **arguments) {
  std::vector<double> a(4096, std::atof(arguments[1]));
  for (int i = 0; i < 3; ++i)
    step(a);
  try {
    check(a);
  } catch (const std::exception &) {
    std::puts("caught");
  }
  std::printf("%g\n", std::reduce(std::execution::par, a.begin(), a.end()));
}

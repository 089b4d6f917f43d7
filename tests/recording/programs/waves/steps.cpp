// A library of a CMake project: an algorithm, and one whose function throws for what is negative.
#include <algorithm>
#include <execution>
#include <stdexcept>
#include <vector>

void step(std::vector<double> &a) {
  std::for_each(std::execution::par_unseq, a.begin(), a.end(), [](double &x) { x *= 2; });
}

void check(std::vector<double> &a) {
  std::for_each(std::execution::par, a.begin(), a.end(), [](double &x) {
    if (x < 0)
      throw std::range_error("negative");
  });
}

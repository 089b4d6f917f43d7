// Algorithms on small arrays of the heap: on one after the other, and on rows that only a table of pointers knows.
#include <algorithm>
#include <execution>
#include <numeric>
#include <vector>

static int filled(int count) {
  std::vector<int> v(count);
  std::for_each(std::execution::par_unseq, v.begin(), v.end(), [](int &each) { each = 7; });
  return std::reduce(std::execution::par_unseq, v.begin(), v.end());
}

static double rows(int count, int times) {
  std::vector<std::vector<double>> all(count, std::vector<double>(10));
  for (int time = 0; time < times; time++)
    std::for_each(std::execution::par_unseq, all.begin(), all.end(), [](std::vector<double> &row) { row[3] += 1; });
  return all[1][3];
}

int main() {
  int sum = 0;
  for (int time = 0; time < 3; time++)
    sum += filled(10);
  return sum == 210 && rows(40, 3) == 3 ? 0 : 1;
}

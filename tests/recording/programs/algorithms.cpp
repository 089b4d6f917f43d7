// Every parallel algorithm against the sequential one: on ranges without an element, with one, and with more than a block; with
// pointers, vectors' iterators, counting and zipping iterators, a list; of numbers and of structures. It prints what differs.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <execution>
#include <functional>
#include <list>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>
#if __cplusplus > 201703L
#include <ranges>
#endif

static int checks, failures;
static void check(bool holds, const char *what, long n) {
  ++checks;
  if (!holds) {
    ++failures;
    std::printf("differs: %s of %ld elements\n", what, n);
  }
}

struct Point {
  double x, y;
  int key;
  friend bool operator==(const Point &a, const Point &b) { return a.x == b.x && a.y == b.y && a.key == b.key; }
  friend bool operator<(const Point &a, const Point &b) { return a.key < b.key; }
};

// An iterator that counts, as programs write their own.
struct Counting {
  using iterator_category = std::random_access_iterator_tag;
  using value_type = long;
  using difference_type = std::ptrdiff_t;
  using pointer = const long *;
  using reference = long;
  long at = 0;
  long operator*() const { return at; }
  long operator[](difference_type i) const { return at + i; }
  Counting &operator++() { ++at; return *this; }
  Counting operator++(int) { Counting before = *this; ++at; return before; }
  Counting &operator--() { --at; return *this; }
  Counting &operator+=(difference_type i) { at += i; return *this; }
  friend Counting operator+(Counting a, difference_type i) { return {a.at + i}; }
  friend Counting operator-(Counting a, difference_type i) { return {a.at - i}; }
  friend difference_type operator-(Counting a, Counting b) { return a.at - b.at; }
  friend bool operator==(Counting a, Counting b) { return a.at == b.at; }
  friend bool operator!=(Counting a, Counting b) { return a.at != b.at; }
  friend bool operator<(Counting a, Counting b) { return a.at < b.at; }
};

// An iterator over two arrays at once, whose reference is no reference.
struct Zip {
  using iterator_category = std::random_access_iterator_tag;
  using value_type = std::tuple<double, long>;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = std::tuple<double &, long &>;
  double *a;
  long *b;
  reference operator*() const { return {*a, *b}; }
  Zip &operator++() { ++a; ++b; return *this; }
  friend Zip operator+(Zip z, difference_type i) { return {z.a + i, z.b + i}; }
  friend difference_type operator-(Zip p, Zip q) { return p.a - q.a; }
  friend bool operator==(Zip p, Zip q) { return p.a == q.a; }
  friend bool operator!=(Zip p, Zip q) { return p.a != q.a; }
};

static std::vector<double> numbers(long n) {
  std::vector<double> made(n);
  for (long i = 0; i < n; ++i)
    made[i] = static_cast<double>((i * 7919 + 13) % 1009);
  return made;
}

template <class Policy> static void check_all(const Policy &policy, long n) {
  const std::vector<double> a = numbers(n);
  std::vector<double> b(a), c(n, -1.), d(n, -1.), e(n), f(n);
  const auto even = [](double x) { return static_cast<long>(x) % 2 == 0; };
  const auto is_13 = [](double x) { return x == 13.; };
  const auto twice = [](double x) { return 2. * x; };
  const auto same = [&](const char *what) { check(c == d, what, n); };

  std::for_each(policy, b.begin(), b.end(), [](double &x) { x = x * x + 1.; });
  std::transform(a.begin(), a.end(), c.begin(), [](double x) { return x * x + 1.; });
  check(b == c, "for_each", n);
  double *p = d.data(), *end = std::for_each_n(policy, p, n, [](double &x) { x = 3.; });
  check(end == p + n && std::count(d.begin(), d.end(), 3.) == n, "for_each_n", n);
  double *pc = c.data();
  const double *pa = a.data();
  std::for_each(policy, Counting{0}, Counting{n}, [=](long i) { pc[i] = pa[i] + static_cast<double>(i); });
  for (long i = 0; i < n; ++i)
    d[i] = a[i] + static_cast<double>(i);
  same("for_each over counting iterators");
#if __cplusplus > 201703L
  auto indices = std::views::iota(0L, n);
  std::for_each(policy, indices.begin(), indices.end(), [=](long i) { pc[i] -= pa[i]; });
  for (long i = 0; i < n; ++i)
    d[i] -= a[i];
  same("for_each over iota");
  check(std::transform_reduce(policy, indices.begin(), indices.end(), 0L, std::plus<>(), [](long i) { return i * i; }) ==
            std::transform_reduce(indices.begin(), indices.end(), 0L, std::plus<>(), [](long i) { return i * i; }),
        "transform_reduce over iota", n);
#endif
  std::vector<long> whole(n, 1);
  std::for_each(policy, Zip{c.data(), whole.data()}, Zip{c.data() + n, whole.data() + n}, [](auto z) {
    std::get<0>(z) += 1.;
    std::get<1>(z) += static_cast<long>(std::get<0>(z));
  });
  for (long i = 0; i < n; ++i)
    d[i] += 1.;
  same("for_each over a zip");

  auto out = std::transform(policy, a.begin(), a.end(), c.begin(), twice);
  check(out == c.end(), "end of transform", n);
  std::transform(a.begin(), a.end(), d.begin(), twice);
  same("transform");
  std::transform(policy, a.begin(), a.end(), b.begin(), c.begin(), std::minus<>());
  std::transform(a.begin(), a.end(), b.begin(), d.begin(), std::minus<>());
  same("transform of two");
  std::copy(policy, a.begin(), a.end(), c.begin());
  d = a;
  same("copy");
  std::fill(policy, c.begin(), c.end(), 4);
  std::fill(d.begin(), d.end(), 4);
  same("fill");
  check(std::copy_n(policy, a.begin(), n / 2, c.begin()) == c.begin() + n / 2, "end of copy_n", n);
  std::copy_n(a.begin(), n / 2, d.begin());
  same("copy_n");
  std::move(policy, b.begin(), b.end(), c.begin());
  d = b;
  same("move");
  check(std::fill_n(policy, c.begin(), n / 3, 7.) == c.begin() + n / 3, "end of fill_n", n);
  std::fill_n(d.begin(), n / 3, 7.);
  same("fill_n");
  std::generate(policy, c.begin(), c.end(), [] { return 5.; });
  std::generate_n(policy, d.begin(), n, [] { return 5.; });
  same("generate and generate_n");
  c = d = a;
  std::replace(policy, c.begin(), c.end(), 13., 1.5);
  std::replace(d.begin(), d.end(), 13., 1.5);
  same("replace");
  std::replace_if(policy, c.begin(), c.end(), even, 2.5);
  std::replace_if(d.begin(), d.end(), even, 2.5);
  same("replace_if");
  std::replace_copy(policy, a.begin(), a.end(), c.begin(), 13., 2.);
  std::replace_copy(a.begin(), a.end(), d.begin(), 13., 2.);
  same("replace_copy");
  std::replace_copy_if(policy, a.begin(), a.end(), c.begin(), even, 0.);
  std::replace_copy_if(a.begin(), a.end(), d.begin(), even, 0.);
  same("replace_copy_if");
  std::reverse_copy(policy, a.begin(), a.end(), c.begin());
  std::reverse_copy(a.begin(), a.end(), d.begin());
  same("reverse_copy");
  std::reverse(policy, c.begin(), c.end());
  d = a;
  same("reverse");
  e = a, f = b;
  std::swap_ranges(policy, e.begin(), e.end(), f.begin());
  check(e == b && f == a, "swap_ranges", n);
  std::adjacent_difference(policy, a.begin(), a.end(), c.begin());
  std::adjacent_difference(a.begin(), a.end(), d.begin());
  same("adjacent_difference");
  auto kept = std::copy_if(policy, a.begin(), a.end(), c.begin(), even) - c.begin();
  check(kept == std::copy_if(a.begin(), a.end(), d.begin(), even) - d.begin() &&
            std::equal(c.begin(), c.begin() + kept, d.begin()), "copy_if", n);

  check(std::any_of(policy, a.begin(), a.end(), is_13) == std::any_of(a.begin(), a.end(), is_13), "any_of", n);
  check(std::all_of(policy, a.begin(), a.end(), even) == std::all_of(a.begin(), a.end(), even), "all_of", n);
  check(std::none_of(policy, a.begin(), a.end(), is_13) == std::none_of(a.begin(), a.end(), is_13), "none_of", n);
  check(std::find(policy, a.begin(), a.end(), 13) == std::find(a.begin(), a.end(), 13), "find", n);
  check(std::find_if(policy, a.begin(), a.end(), even) == std::find_if(a.begin(), a.end(), even), "find_if", n);
  check(std::find_if_not(policy, a.begin(), a.end(), even) == std::find_if_not(a.begin(), a.end(), even), "find_if_not", n);
  check(std::count(policy, a.begin(), a.end(), 13.) == std::count(a.begin(), a.end(), 13.), "count", n);
  check(std::count_if(policy, a.begin(), a.end(), even) == std::count_if(a.begin(), a.end(), even), "count_if", n);
  check(std::equal(policy, a.begin(), a.end(), b.begin()) == (a == b), "equal", n);
  check(std::equal(policy, a.begin(), a.end(), a.begin(), a.end()), "equal to itself", n);
  check(std::mismatch(policy, a.begin(), a.end(), b.begin()) == std::mismatch(a.begin(), a.end(), b.begin()), "mismatch", n);
  check(std::adjacent_find(policy, a.begin(), a.end()) == std::adjacent_find(a.begin(), a.end()), "adjacent_find", n);
  check(std::is_partitioned(policy, a.begin(), a.end(), even) == std::is_partitioned(a.begin(), a.end(), even), "is_partitioned", n);
  check(std::min_element(policy, a.begin(), a.end()) == std::min_element(a.begin(), a.end()), "min_element", n);
  check(std::max_element(policy, a.begin(), a.end()) == std::max_element(a.begin(), a.end()), "max_element", n);
  check(std::min_element(policy, a.begin(), a.end(), std::greater<>()) == std::min_element(a.begin(), a.end(), std::greater<>()),
        "min_element by another order", n);
  check(std::minmax_element(policy, a.begin(), a.end()) == std::minmax_element(a.begin(), a.end()), "minmax_element", n);

  check(std::reduce(policy, a.begin(), a.end()) == std::reduce(a.begin(), a.end()), "reduce", n);
  check(std::reduce(policy, a.begin(), a.end(), 5.) == std::reduce(a.begin(), a.end(), 5.), "reduce from 5", n);
  const auto larger = [](double x, double y) { return std::fmax(x, y); };
  check(std::reduce(policy, a.begin(), a.end(), 1.5, larger) == std::reduce(a.begin(), a.end(), 1.5, larger), "reduce by max", n);
  const auto masked = [](unsigned x, unsigned y) { return x & y; };
  check(std::transform_reduce(policy, a.begin(), a.end(), ~0u, masked, [](double x) { return static_cast<unsigned>(x) | 4u; }) ==
            std::transform_reduce(a.begin(), a.end(), ~0u, masked, [](double x) { return static_cast<unsigned>(x) | 4u; }),
        "transform_reduce by and", n);
  check(std::transform_reduce(policy, a.begin(), a.end(), b.begin(), 0.) == std::transform_reduce(a.begin(), a.end(), b.begin(), 0.),
        "transform_reduce of two", n);
  check(std::transform_reduce(policy, a.begin(), a.end(), b.begin(), 1., larger, std::plus<>()) ==
            std::transform_reduce(a.begin(), a.end(), b.begin(), 1., larger, std::plus<>()), "transform_reduce of two by max", n);
  using complex = std::complex<double>;
  const auto rotated = [](double x) { return complex(x, -x); };
  check(std::transform_reduce(policy, a.begin(), a.end(), complex(), std::plus<>(), rotated) ==
            std::transform_reduce(a.begin(), a.end(), complex(), std::plus<>(), rotated), "transform_reduce to complex", n);

  std::inclusive_scan(policy, a.begin(), a.end(), c.begin());
  std::inclusive_scan(a.begin(), a.end(), d.begin());
  same("inclusive_scan");
  std::exclusive_scan(policy, a.begin(), a.end(), c.begin(), 3.);
  std::exclusive_scan(a.begin(), a.end(), d.begin(), 3.);
  same("exclusive_scan");
  std::inclusive_scan(policy, a.begin(), a.end(), c.begin(), larger);
  std::inclusive_scan(a.begin(), a.end(), d.begin(), larger);
  same("inclusive_scan by max");
  std::inclusive_scan(policy, a.begin(), a.end(), c.begin(), std::plus<>(), 100.);
  std::inclusive_scan(a.begin(), a.end(), d.begin(), std::plus<>(), 100.);
  same("inclusive_scan from 100");
  std::transform_inclusive_scan(policy, a.begin(), a.end(), c.begin(), std::plus<>(), twice);
  std::transform_inclusive_scan(a.begin(), a.end(), d.begin(), std::plus<>(), twice);
  same("transform_inclusive_scan");
  std::transform_exclusive_scan(policy, a.begin(), a.end(), c.begin(), 1., std::plus<>(), twice);
  std::transform_exclusive_scan(a.begin(), a.end(), d.begin(), 1., std::plus<>(), twice);
  same("transform_exclusive_scan");
  c = d = a;
  std::exclusive_scan(policy, c.begin(), c.end(), c.begin(), 0.);
  std::exclusive_scan(d.begin(), d.end(), d.begin(), 0.);
  same("exclusive_scan in place");

  c = d = a;
  std::sort(policy, c.begin(), c.end());
  std::sort(d.begin(), d.end());
  same("sort");
  check(std::is_sorted(policy, c.begin(), c.end()) && std::is_sorted_until(policy, c.begin(), c.end()) == c.end(), "is_sorted", n);
  std::sort(policy, c.begin(), c.end(), std::greater<>());
  std::reverse(d.begin(), d.end());
  same("sort by another order");
  std::vector<Point> points(n), others(n);
  for (long i = 0; i < n; ++i)
    points[i] = {static_cast<double>(i), 0., static_cast<int>(i * 31 % 17)};
  others = points;
  std::stable_sort(policy, points.begin(), points.end());
  std::stable_sort(others.begin(), others.end());
  check(points == others, "stable_sort of structures", n);
  std::transform(policy, points.begin(), points.end(), others.begin(), points.begin(), [](const Point &u, const Point &v) {
    return Point{u.x + v.x, u.y - v.y, u.key};
  });
  check(std::all_of(points.begin(), points.end(), [&](const Point &u) { return u.x == 2. * others[&u - points.data()].x; }),
        "transform of structures", n);
  e = a, f = b;
  std::sort(e.begin(), e.end());
  std::sort(f.begin(), f.end());
  std::vector<double> merged(2 * n), expected(2 * n);
  std::merge(policy, e.begin(), e.end(), f.begin(), f.end(), merged.begin());
  std::merge(e.begin(), e.end(), f.begin(), f.end(), expected.begin());
  check(merged == expected, "merge", n);

  // On the host
  e = f = a;
  check(std::remove_if(policy, e.begin(), e.end(), even) - e.begin() == std::remove_if(f.begin(), f.end(), even) - f.begin(), "remove_if", n);
  check(std::unique(policy, e.begin(), e.end()) - e.begin() == std::unique(f.begin(), f.end()) - f.begin() && e == f, "unique", n);
  if (n > 1) {
    std::nth_element(policy, e.begin(), e.begin() + n / 2, e.end());
    std::nth_element(f.begin(), f.begin() + n / 2, f.end());
    check(e[n / 2] == f[n / 2], "nth_element", n);
  }
  std::list<double> listed(a.begin(), a.end());
  check(std::reduce(policy, listed.begin(), listed.end(), 0.) == std::reduce(a.begin(), a.end(), 0.), "reduce of a list", n);
  std::vector<std::string> words(static_cast<std::size_t>(n), "word");
  check(std::reduce(policy, words.begin(), words.end(), std::string()).size() == static_cast<std::size_t>(4 * n), "reduce of strings", n);
}

// More captures than go by value, captures by reference, and one that cannot be copied by its bytes.
static void check_captures() {
  const long n = 1000;
  std::vector<double> a(n), b(n), shared(n, 2.);
  double *pa = a.data();
  struct Large {
    double values[60];
  } large{};
  large.values[59] = 4.;
  double factor = 3., offset = 1.;
  std::for_each_n(std::execution::par_unseq, Counting{0}, n, [=](long i) { pa[i] = large.values[59] * static_cast<double>(i); });
  std::for_each_n(std::execution::par, Counting{0}, n, [&](long i) { b[i] = factor * a[i] + offset; });
  std::for_each_n(std::execution::par_unseq, Counting{0}, n, [=, copied = shared](long i) { pa[i] += copied[i]; });
  bool holds = true;
  for (long i = 0; i < n; ++i)
    holds = holds && b[i] == 12. * static_cast<double>(i) + 1. && a[i] == 4. * static_cast<double>(i) + 2.;
  check(holds, "captures", n);
  auto policy = std::execution::par_unseq;
  std::fill(policy, a.begin(), a.end(), 1.);
  std::fill(std::execution::parallel_policy(), b.begin(), b.end(), 1.);
  check(a == b, "policies in variables", n);
  std::sort(std::execution::seq, a.begin(), a.end());
#if __cplusplus > 201703L
  check(std::reduce(std::execution::unseq, a.begin(), a.end()) == static_cast<double>(n), "unseq", n);
#endif
}

int main() {
  for (long n : {0L, 1L, 2L, 31L, 700L}) {
    check_all(std::execution::par, n);
    check_all(std::execution::par_unseq, n);
  }
  check_captures();
  std::printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}

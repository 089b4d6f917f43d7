/* Objects of threads' own, in C++: what is read of them before anybody has written it ends its line so; all else is written first. */
#include <array>
#include <cstdio>
#include <utility>

struct Part { // its constructor leaves out `y`
  double x, y;
  Part() { x = 1; }
  double both() const { return x + y; }
};
struct Base {
  double b;
  Base() {}
};
struct Derived : Base {
  double d;
  Derived() : d(2) {}
  double product() const { return b * d; }
};
struct Sum {
  double s;
  Sum() {}
  void add(double v) { s += v; }
  Sum &operator+=(const Sum &other) {
    s += other.s;
    return *this;
  }
};
struct Nested {
  struct {
    double x, y;
  } in;
  int n;
  Nested() : n(1) {}
};
struct Maybe { // `v` is used where `has` says so
  bool has;
  double v;
  Maybe() : has(false) {}
  explicit Maybe(double x) : has(true), v(x) {}
  double get(double otherwise) const { return has ? v : otherwise; }
};
struct Few { // as many as `n` says
  double v[4];
  int n;
  Few() : n(0) {}
  void push(double x) { v[n++] = x; }
  double total() const {
    double s = 0;
    for (int i = 0; i < n; i++)
      s += v[i];
    return s;
  }
};
static Part left() {
  Part p;
  return p;
}
static Part full(bool some) {
  Part p;
  if (some)
    p.y = 3;
  else
    p.y = 4;
  return p;
}
#pragma omp declare reduction(plus : Sum : omp_out += omp_in)

static void unset(double *a, int n) {
  double s = 0;
  Part p;
  Sum total;
  total.s = 0;
#pragma omp target map(tofrom : s)
  {
    Part q;
    s += q.y; /* unset */
    Derived d;
    s += d.product(); /* unset */
    Nested e;
    s += e.in.y * e.n; /* unset */
    Part f;
    Part g = f;
    s += g.both(); /* unset */
    Part r, &of = r;
    s += of.y; /* unset */
    double t;
    auto more = [&](double v) {
      t += v; /* unset */
    };
    more(1);
    Part many[4];
    for (int k = 0; k < 4; k++)
      s += many[k].both(); /* unset */
    Part got = left();
    s += got.both(); /* unset */
    Part h;
#pragma omp parallel firstprivate(h) reduction(+ : s)
    s += h.y; /* unset */
  }
#pragma omp target teams distribute parallel for private(p) reduction(+ : s)
  for (int i = 0; i < n; i++)
    s += p.y + i; /* unset */
#pragma omp target teams distribute parallel for map(tofrom : a[0 : n])
  for (int i = 0; i < n; i++) {
    Sum c;
    for (int k = 0; k < 4; k++)
      c.add(k); /* unset */
    std::array<double, 4> t;
    for (int k = 0; k < 4; k++)
      t[k] += k; /* unset */
    a[i] += c.s + t[3];
  }
#pragma omp target teams distribute parallel for reduction(plus : total) map(tofrom : total) /* unset */
  for (int i = 0; i < n; i++)
    total.s += 1; /* unset */
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < n; i++) {
    Sum c;
    c.add(i); /* unset */
    s += c.s;
  }
  Part here;
#pragma omp parallel firstprivate(here) reduction(+ : s)
  s += here.both(); /* unset */
  std::printf("%d\n", s == 0);
}

static double by_value(Part p) { return p.x; }
#pragma omp declare target to(by_value)

static void written(double *a, int n) {
  double s = 0;
  Part p;
  p.y = 2;
#pragma omp target map(tofrom : s)
  {
    Part q;
    Part r = q, *at = &r;
    at->y = 3;
    s += r.both() + by_value(q);
    Derived d, e;
    d.b = 2;
    e = d;
    s += e.product();
    Nested f;
    f.in = {1, 2};
    s += f.in.y * f.n;
    auto set = [](Part &one) { one.y = 5; };
    set(q);
    s += q.both();
    double t;
    auto put = [&](double v) { t = v; };
    put(1);
    s += t;
    Part h;
#pragma omp parallel firstprivate(h) reduction(+ : s)
    {
      Part own = h;
      own.y = h.x;
      h.y = 1;
      s += h.both() + own.both();
    }
    Part many[4], others[4], got = full(n > 3), half = left();
    for (Part &one : many)
      one.y = 2;
    double *flat = &others[0].x;
    for (int k = 0; k < 8; k++)
      flat[k] = k;
    half.y = 1;
    for (int k = 0; k < 4; k++)
      s += many[k].both() + others[3 - k].both() + got.both() + half.both();
  }
  Part here;
#pragma omp parallel firstprivate(here) reduction(+ : s)
  {
    here.y = here.x;
    s += here.both();
  }
#pragma omp target teams distribute parallel for firstprivate(p) reduction(+ : s) map(tofrom : a[0 : n])
  for (int i = 0; i < n; i++) {
    Maybe m;
    if (i % 3 == 0)
      m = Maybe(i);
    Maybe other = m;
    Few few;
    few.push(i);
    Few more = few;
    more.push(1);
    auto pair = std::make_pair(i, 1.0);
    auto [number, one] = pair;
    std::array<double, 4> t;
    for (int k = 0; k < 4; k++)
      t[k] = k + number * one;
    s += p.both() + other.get(1) + more.total() + t[3];
  }
#pragma omp parallel for reduction(+ : s)
  for (int i = 0; i < n; i++) {
    Part q;
    q.y = i;
    Part r(q);
    s += r.both();
  }
  std::printf("%g\n", s);
}

int main(int argc, char **) {
  double a[64] = {};
  written(a, 64);
  if (argc == 1)
    unset(a, 64);
}

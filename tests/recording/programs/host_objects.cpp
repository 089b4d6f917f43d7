// Objects of C++ that no directive names, and that threads share: by mutexes, futures, atomics with and without locks, and OpenMP.
#include <omp.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <queue>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
static std::vector<double> shared_result(1024);
static double sum_all;
struct Pool {
  std::mutex m; std::condition_variable cv; std::deque<std::function<void()>> q; std::vector<std::thread> ts; bool done = false;
  char padding[2048] = {};
  explicit Pool(int n) { for (int i = 0; i < n; i++) ts.emplace_back([this] { run(); }); }
  void run() {
    for (;;) {
      std::function<void()> f;
      { std::unique_lock<std::mutex> l(m); cv.wait(l, [this] { return done || !q.empty(); }); if (q.empty()) return; f = std::move(q.front()); q.pop_front(); }
      f();
    }
  }
  std::future<double> put(std::function<double()> g) {
    auto t = std::make_shared<std::packaged_task<double()>>(std::move(g)); auto r = t->get_future();
    { std::lock_guard<std::mutex> l(m); q.push_back([t] { (*t)(); }); } cv.notify_one(); return r;
  }
  ~Pool() { { std::lock_guard<std::mutex> l(m); done = true; } cv.notify_all(); for (auto &t : ts) t.join(); }
};
template <class T, size_t N> struct Ring { std::atomic<size_t> head{0}, tail{0}; T data[N];
  bool push(T x) { size_t t = tail.load(std::memory_order_relaxed); if (t - head.load(std::memory_order_acquire) == N) return false; data[t % N] = x; tail.store(t + 1, std::memory_order_release); return true; }
  bool pop(T &x) { size_t h = head.load(std::memory_order_relaxed); if (h == tail.load(std::memory_order_acquire)) return false; x = data[h % N]; head.store(h + 1, std::memory_order_release); return true; } };
static Ring<double, 256> ring;
struct Big { double x[300]; };
static const std::vector<double> &table() { static const std::vector<double> t = [] { std::vector<double> v(500); std::iota(v.begin(), v.end(), 0.0); return v; }(); return t; }
static std::once_flag once; static std::unique_ptr<Big> lazy;
static std::atomic<Big *> published{nullptr};
struct Spin { std::atomic_flag f = ATOMIC_FLAG_INIT; void lock() { while (f.test_and_set(std::memory_order_acquire)) std::this_thread::yield(); } void unlock() { f.clear(std::memory_order_release); } };
static Spin spin; static double spun[400];
static std::shared_mutex sm; static std::map<int, std::vector<double>> cache;
static std::mutex smm;

static void threads(int n) {
  std::vector<double> local(4096);
  std::vector<std::thread> ts;
  for (int k = 0; k < n; k++) ts.emplace_back([&, k] {
    for (int i = k; i < 4096; i += n) local[i] = table()[i % 500];
    std::call_once(once, [] { lazy = std::make_unique<Big>(); lazy->x[0] = 4; });
    shared_result[k] = lazy->x[0];
    Big *p = published.load(std::memory_order_acquire);
    if (!p) { Big *b = new Big(); b->x[1] = 3; if (!published.compare_exchange_strong(p, b, std::memory_order_acq_rel, std::memory_order_acquire)) { delete b; } else p = b; }
    shared_result[k] += p->x[1];
    for (int i = 0; i < 20; i++) { std::lock_guard<Spin> l(spin); spun[i] += k; }
    for (int i = 0; i < 10; i++) {
      { std::shared_lock l(sm); auto it = cache.find(i); if (it != cache.end()) { double s = it->second[7]; shared_result[k] += s; continue; } }
      std::unique_lock l(sm); auto &v = cache[i]; if (v.empty()) v.assign(600, k); }
  });
  for (auto &t : ts) t.join();
  sum_all += std::accumulate(local.begin(), local.end(), 0.0) + spun[3];
}
static void pools(int n) {
  Pool p(n);
  std::vector<std::future<double>> fs;
  auto data = std::make_shared<std::vector<double>>(2000, 1.0);
  for (int k = 0; k < 20; k++) fs.push_back(p.put([data, k] { std::vector<double> mine(*data); for (auto &x : mine) x *= k; return std::accumulate(mine.begin(), mine.end(), 0.0); }));
  for (auto &f : fs) sum_all += f.get();
  auto a = std::async(std::launch::async, [] { std::vector<double> v(700, 2.0); return v; });
  sum_all += a.get()[5];
  std::thread producer([] { for (int i = 0; i < 1000; i++) while (!ring.push(i)) std::this_thread::yield(); });
  double x; for (int i = 0; i < 1000; i++) { while (!ring.pop(x)) std::this_thread::yield(); sum_all += x; }
  producer.join();
}
static void openmp(int n) {
  std::vector<std::vector<double>> per(n); std::vector<Big> bigs; std::map<std::string, double> names; std::vector<int> order;
#pragma omp parallel num_threads(n)
  {
    int me = omp_get_thread_num(), all = omp_get_num_threads();
    per[me].resize(900, me);
    std::mt19937 g(me); std::vector<double> w(1000); for (auto &x : w) x = g() % 100; std::sort(w.begin(), w.end());
#pragma omp critical
    { bigs.push_back(Big()); bigs.back().x[0] = w[5]; names[std::to_string(me)] = w[9]; order.push_back(me); }
#pragma omp barrier
    double s = 0; for (int k = 0; k < all; k++) s += per[k][5] + bigs[k].x[0];
#pragma omp atomic
    sum_all += s;
    auto sp = std::make_shared<Big>();
#pragma omp single
    for (int k = 0; k < 16; k++) {
#pragma omp task firstprivate(sp)
      { std::vector<double> t(500, sp->x[0]);
#pragma omp atomic
        sum_all += t[3]; }
    }
  }
#pragma omp parallel for reduction(+ : sum_all) num_threads(n)
  for (int i = 0; i < (int)shared_result.size(); i++) sum_all += shared_result[i];
#pragma omp declare reduction(cat : std::vector<double> : omp_out.insert(omp_out.end(), omp_in.begin(), omp_in.end())) initializer(omp_priv = std::vector<double>())
  std::vector<double> all;
#pragma omp parallel for reduction(cat : all) num_threads(n)
  for (int i = 0; i < 2000; i++) all.push_back(i);
  sum_all += all.size();
}
int main(int argc, char **argv) {
  std::string what = argc > 1 ? argv[1] : "";
  int n = 4;
  std::vector<double> d(2048, 1.0); double *p = d.data();
#pragma omp target map(tofrom : p[0 : 2048])
  for (int i = 0; i < 2048; i++) p[i] += 1;
  if (what == "threads") threads(n);
  if (what == "pool") pools(n);
  if (what == "openmp") openmp(n);
  std::printf("%d\n", sum_all + p[3] > 0);
}

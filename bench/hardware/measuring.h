// Timing, quantiles, host threads that start together, and the rows that `offloadrt calibrate` reads.
#pragma once
#include "portable.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using Clock = std::chrono::steady_clock;
using Samples = std::vector<double>;
constexpr size_t KIB = 1024, MIB = 1024 * KIB, GIB = 1024 * MIB;
const std::vector<int> THREADS = {1, 2, 4, 8, 16, 32};

inline double between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}
inline double since(Clock::time_point from) { return between(from, Clock::now()); }

// Writes one row; `size` is in bytes unless the variant says what else it counts.
inline void row(const char *what, const std::string &variant, double size, int threads, Samples samples) {
  if (samples.empty()) return;
  std::sort(samples.begin(), samples.end());
  auto at = [&](double part) { return std::max(0.0, samples[(size_t)(part * (samples.size() - 1) + 0.5)]); };
  std::printf("{\"what\": \"%s\", \"variant\": \"%s\", \"size\": %.0f, \"threads\": %d, \"n\": %zu, \"p10_s\": %.9g, "
              "\"median_s\": %.9g, \"p90_s\": %.9g, \"min_s\": %.9g, \"max_s\": %.9g}\n",
              what, variant.c_str(), size, threads, samples.size(), at(0.1), at(0.5), at(0.9), at(0.0), at(1.0));
  std::fflush(stdout);
}

// Says that something cannot be measured on this machine, and why.
inline void failed(const char *variant, const char *reason) {
  std::printf("{\"what\": \"failed\", \"variant\": \"%s\", \"reason\": \"%s\"}\n", variant, reason);
  std::fflush(stdout);
}

// Writes the row that describes the device.
inline DeviceProperties machine() {
  DeviceProperties device;
  CHECK(GPU(SetDevice)(0));
  CHECK(GPU(Free)(nullptr));  // makes the context
  CHECK(GPU(GetDeviceProperties)(&device, 0));
  int driver = 0, runtime = 0;
  CHECK(GPU(DriverGetVersion)(&driver));
  CHECK(GPU(RuntimeGetVersion)(&runtime));
  std::printf("{\"what\": \"machine\", \"name\": \"%s\", \"sms\": %d, \"memory\": %zu, \"driver\": %d, \"runtime\": %d, "
              "\"host_threads\": %u}\n",
              device.name, device.multiProcessorCount, device.totalGlobalMem, driver, runtime,
              std::thread::hardware_concurrency());
  std::fflush(stdout);
  return device;
}

// Times `operation` n times after a tenth as many unmeasured ones.
inline Samples timed(int n, const std::function<void()> &operation) {
  Samples samples;
  for (int i = -(n / 10 + 1); i < n; i++) {
    auto begin = Clock::now();
    operation();
    double seconds = since(begin);
    if (i >= 0) samples.push_back(seconds);
  }
  return samples;
}

// Collects n values that `measure` returns, after a tenth as many unmeasured ones.
inline Samples collected(int n, const std::function<double()> &measure) {
  Samples samples;
  for (int i = -(n / 10 + 1); i < n; i++) {
    double value = measure();
    if (i >= 0) samples.push_back(value);
  }
  return samples;
}

// Holds host threads until all have come. What they measure begins after it, so that nobody's setup is beside it.
class Gate {
 public:
  explicit Gate(int threads) : missing(threads) {}
  void pass() {
    missing--;
    while (missing > 0) std::this_thread::yield();
  }

 private:
  std::atomic<int> missing;
};

// Runs `body` on host threads, and joins their samples. A body makes what it needs, passes the gate, and measures.
inline Samples on_threads(int threads, const std::function<Samples(int, Gate &)> &body) {
  std::vector<std::thread> running;
  std::vector<Samples> found(threads);
  Gate gate(threads);
  for (int t = 0; t < threads; t++)
    running.emplace_back([&, t] {
      CHECK(GPU(SetDevice)(0));
      CHECK(GPU(Free)(nullptr));
      found[t] = body(t, gate);
    });
  for (auto &thread : running) thread.join();
  Samples all;
  for (auto &samples : found) all.insert(all.end(), samples.begin(), samples.end());
  return all;
}

inline GPU(Stream_t) new_stream() {
  GPU(Stream_t) stream;
  CHECK(GPU(StreamCreateWithFlags)(&stream, GPU(StreamNonBlocking)));
  return stream;
}

// Host memory of which every page was touched.
inline char *touched(size_t bytes) {
  char *p = (char *)std::malloc(bytes);
  if (p == nullptr) {
    std::fprintf(stderr, "no %zu bytes of host memory\n", bytes);
    std::exit(1);
  }
  std::memset(p, 1, bytes);
  return p;
}

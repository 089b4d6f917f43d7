// The device's memory: bandwidth over the number of SMs that work, from the cache into one SM, and latency.
#include "measuring.h"
#include <numeric>
#include <random>

static __global__ void triad(double *a, const double *b, const double *c, size_t n) {
  size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += step) a[i] = b[i] + 3.0 * c[i];
}

// Reads an array again and again; four loads of a thread are in flight.
static __global__ void sum(const float4 *p, size_t n, int rounds, float *result) {
  float total = 0;
  for (int round = 0; round < rounds; round++)
#pragma unroll 4
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) total += p[i].x + p[i].y + p[i].z + p[i].w;
  if (total == 0.12345f) *result = total;  // never, but the compiler does not know
}

// One thread follows a chain: each load has to wait for the one before.
static __global__ void chase(const unsigned *next, int steps, unsigned *at) {
  unsigned here = *at;
  for (int i = 0; i < steps; i++) here = next[here];
  *at = here;
}

static void over_sms(int sms, GPU(Stream_t) stream) {
  size_t n = 64 * MIB;
  double *a, *b, *c;
  for (double **p : {&a, &b, &c}) {
    CHECK(GPU(Malloc)((void **)p, n * sizeof(double)));
    CHECK(GPU(Memset)(*p, 0, n * sizeof(double)));
  }
  auto run = [&](int blocks, size_t elements) {
    return timed(20, [&] {
      triad<<<blocks, 1024, 0, stream>>>(a, b, c, elements);
      CHECK(GPU(StreamSynchronize)(stream));
    });
  };
  row("bandwidth", "all_sms", 24.0 * n, 1, run(8 * sms, n));
  // Blocks of the most threads: each goes to an SM of its own while there are SMs without one.
  std::vector<int> counts;
  for (int count = 1; count < sms; count *= 2) counts.push_back(count);
  for (int eighth = 3; eighth <= 8; eighth++) counts.push_back(eighth * sms / 8);
  for (int count : counts) {
    size_t elements = std::min(n, (size_t)count * 4 * MIB);
    row("bandwidth", "sms_" + std::to_string(count), 24.0 * elements, 1, run(count, elements));
  }
  for (double *p : {a, b, c}) CHECK(GPU(Free)(p));
}

static void cached(GPU(Stream_t) stream) {
  size_t bytes = 2 * MIB;  // more than an SM's own cache holds, less than the device's
  float4 *p;
  float *result;
  CHECK(GPU(Malloc)((void **)&p, bytes));
  CHECK(GPU(Malloc)((void **)&result, sizeof(float)));
  CHECK(GPU(Memset)(p, 0, bytes));
  constexpr int rounds = 200;
  row("bandwidth", "one_sm_cached", (double)bytes * rounds, 1, timed(20, [&] {
        sum<<<1, 1024, 0, stream>>>(p, bytes / sizeof(float4), rounds, result);
        CHECK(GPU(StreamSynchronize)(stream));
      }));
  CHECK(GPU(Free)(p));
  CHECK(GPU(Free)(result));
}

// A chain through 1 GiB in random steps of cache lines. Each chase goes on where the last one ended, so that no cache
// holds the next element: all of them together do not come round.
static void latency(GPU(Stream_t) stream) {
  constexpr size_t line = 128 / sizeof(unsigned), lines = GIB / 128;
  std::vector<unsigned> order(lines), chain(lines * line, 0);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (size_t i = 0; i < lines; i++) chain[order[i] * line] = (unsigned)(order[(i + 1) % lines] * line);
  unsigned *next, *at;
  CHECK(GPU(Malloc)((void **)&next, GIB));
  CHECK(GPU(Malloc)((void **)&at, sizeof(unsigned)));
  CHECK(GPU(Memset)(at, 0, sizeof(unsigned)));
  CHECK(GPU(Memcpy)(next, chain.data(), GIB, GPU(MemcpyHostToDevice)));
  constexpr int steps = 20000;
  auto taken = [&](int count) {
    auto begin = Clock::now();
    chase<<<1, 1, 0, stream>>>(next, count, at);
    CHECK(GPU(StreamSynchronize)(stream));
    return since(begin);
  };
  // Twice the steps less the single ones: the launch and the wait cancel.
  row("memory", "latency", 0, 1, collected(20, [&] { return (taken(2 * steps) - taken(steps)) / steps; }));
  CHECK(GPU(Free)(next));
  CHECK(GPU(Free)(at));
}

int main() {
  DeviceProperties device = machine();
  GPU(Stream_t) stream = new_stream();
  over_sms(device.multiProcessorCount, stream);
  cached(stream);
  latency(stream);
}

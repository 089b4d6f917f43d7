// What a host thread's calls wait for while another thread copies pageable memory, and what a chain of arithmetic takes.
#include "measuring.h"

constexpr size_t LARGE = 64 * MIB, SMALL = 4 * KIB;

// The calls of one thread, each in a stream of its own.
struct Calls {
  GPU(Stream_t) stream = new_stream();
  GPU(Event_t) event;
  void *device, *pinned;
  char *pageable = touched(MIB);
  Calls() {
    CHECK(GPU(EventCreateWithFlags)(&event, GPU(EventDisableTiming)));
    CHECK(GPU(Malloc)(&device, MIB));
    CHECK(pinned_alloc(&pinned, MIB));
  }
  ~Calls() {
    CHECK(GPU(StreamSynchronize)(stream));
    CHECK(GPU(EventDestroy)(event));
    CHECK(GPU(StreamDestroy)(stream));
    CHECK(GPU(Free)(device));
    CHECK(pinned_free(pinned));
    std::free(pageable);
  }
  void record() { CHECK(GPU(EventRecord)(event, stream)); }
  void launch() {
    empty<<<1, 1, 0, stream>>>();
    CHECK(GPU(StreamSynchronize)(stream));
  }
  void to_device(const void *host, size_t size) {
    CHECK(GPU(MemcpyAsync)(device, host, size, GPU(MemcpyHostToDevice), stream));
    CHECK(GPU(StreamSynchronize)(stream));
  }
  void to_host(size_t size) { CHECK(GPU(MemcpyAsync)(pageable, device, size, GPU(MemcpyDeviceToHost), stream)); }
  void allocate() {
    void *p;
    CHECK(GPU(Malloc)(&p, MIB));
    CHECK(GPU(Free)(p));
  }
};

enum class Other { nothing, to_device, to_host };

// Times a call of one thread while another one copies again and again.
static void beside(Other other, const char *call, const std::function<void(Calls &)> &operation) {
  std::atomic<bool> done{false};
  Samples samples = on_threads(2, [&](int t, Gate &gate) {
    if (t == 0) {
      Calls calls;
      gate.pass();
      Samples own = timed(100, [&] { operation(calls); });
      done = true;
      return own;
    }
    GPU(Stream_t) stream = new_stream();
    void *device;
    CHECK(GPU(Malloc)(&device, LARGE));
    char *host = touched(LARGE);
    gate.pass();
    while (!done && other != Other::nothing) {
      if (other == Other::to_device) CHECK(GPU(MemcpyAsync)(device, host, LARGE, GPU(MemcpyHostToDevice), stream));
      else CHECK(GPU(MemcpyAsync)(host, device, LARGE, GPU(MemcpyDeviceToHost), stream));
      CHECK(GPU(StreamSynchronize)(stream));
    }
    CHECK(GPU(StreamDestroy)(stream));
    CHECK(GPU(Free)(device));
    std::free(host);
    return Samples{};
  });
  const char *beside_what = other == Other::nothing ? "alone_" : other == Other::to_device ? "h2d_64MiB_" : "d2h_64MiB_";
  row("beside_pageable", beside_what + std::string(call), 0, 1, samples);
}

// Operations of one thread that each need the result of the one before.
template <typename Real>
static __global__ void chain(Real *result, int steps) {
  Real x = *result;
#pragma unroll 16
  for (int i = 0; i < steps; i++) x = x * (Real)0.9999 + (Real)1e-7;
  *result = x;
}

template <typename Real>
static void arithmetic(const char *variant) {
  GPU(Stream_t) stream = new_stream();
  Real *result;
  CHECK(GPU(Malloc)((void **)&result, sizeof(Real)));
  CHECK(GPU(Memset)(result, 0, sizeof(Real)));
  constexpr int steps = 1 << 17;
  auto taken = [&](int count) {
    auto begin = Clock::now();
    chain<Real><<<1, 1, 0, stream>>>(result, count);
    CHECK(GPU(StreamSynchronize)(stream));
    return since(begin);
  };
  // Twice the steps less the single ones: the launch and the wait cancel.
  row("arithmetic", variant, 0, 1, collected(20, [&] { return (taken(2 * steps) - taken(steps)) / steps; }));
  CHECK(GPU(Free)(result));
  CHECK(GPU(StreamDestroy)(stream));
}

int main() {
  machine();
  arithmetic<double>("fp64_chain");
  arithmetic<float>("fp32_chain");
  for (Other other : {Other::nothing, Other::to_device, Other::to_host}) {
    beside(other, "event_record", [](Calls &c) { c.record(); });
    beside(other, "launch_and_wait", [](Calls &c) { c.launch(); });
    beside(other, "h2d_pinned_4KiB", [](Calls &c) { c.to_device(c.pinned, SMALL); });
    beside(other, "h2d_pageable_4KiB", [](Calls &c) { c.to_device(c.pageable, SMALL); });
    beside(other, "h2d_pageable_1MiB", [](Calls &c) { c.to_device(c.pageable, MIB); });
    beside(other, "d2h_pageable_4KiB", [](Calls &c) { c.to_host(SMALL); });
    beside(other, "d2h_pageable_1MiB", [](Calls &c) { c.to_host(MIB); });
    beside(other, "malloc_free_1MiB", [](Calls &c) { c.allocate(); });
  }
}

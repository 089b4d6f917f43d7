// Copies between host and device: pinned and pageable over size, in a row, both ways at once, from many threads.
#include "measuring.h"

constexpr size_t MOST = GIB;

struct Buffers {
  char *device, *other, *pinned, *other_pinned, *pageable;
  Buffers() : pageable(touched(MOST)) {
    CHECK(GPU(Malloc)((void **)&device, MOST));
    CHECK(GPU(Malloc)((void **)&other, MOST));
    CHECK(pinned_alloc((void **)&pinned, MOST));
    CHECK(pinned_alloc((void **)&other_pinned, MOST));
    std::memset(pinned, 1, MOST);
    std::memset(other_pinned, 1, MOST);
  }
};

static int repetitions(size_t size) { return size > 16 * MIB ? 10 : 100; }

static void over_size(const Buffers &b) {
  auto to = GPU(MemcpyHostToDevice), from = GPU(MemcpyDeviceToHost);
  GPU(Stream_t) stream = new_stream();
  for (size_t size = 8; size <= MOST; size *= 4) {
    int n = repetitions(size);
    row("copy", "h2d_pageable", size, 1, timed(n, [&] { CHECK(GPU(Memcpy)(b.device, b.pageable, size, to)); }));
    row("copy", "d2h_pageable", size, 1, timed(n, [&] { CHECK(GPU(Memcpy)(b.pageable, b.device, size, from)); }));
    row("copy", "h2d_pinned", size, 1, timed(n, [&] { CHECK(GPU(Memcpy)(b.device, b.pinned, size, to)); }));
    row("copy", "d2h_pinned", size, 1, timed(n, [&] { CHECK(GPU(Memcpy)(b.pinned, b.device, size, from)); }));
    row("copy", "h2d_pageable_call", size, 1, collected(n, [&] {
          CHECK(GPU(StreamSynchronize)(stream));
          auto begin = Clock::now();
          CHECK(GPU(MemcpyAsync)(b.device, b.pageable, size, to, stream));
          return since(begin);
        }));
    row("copy", "h2d_pinned_call", size, 1, collected(n, [&] {
          CHECK(GPU(StreamSynchronize)(stream));
          auto begin = Clock::now();
          CHECK(GPU(MemcpyAsync)(b.device, b.pinned, size, to, stream));
          return since(begin);
        }));
    CHECK(GPU(StreamSynchronize)(stream));
  }
}

// Copies in a row show for how long each keeps the engine; a single one also has the submission and the wait.
static void in_a_row(const Buffers &b) {
  GPU(Stream_t) streams[2] = {new_stream(), new_stream()};
  auto per_copy = [&](size_t size, bool to_device, int used) {
    int copies = size > MIB ? 16 : 400;
    return collected(20, [&] {
      auto begin = Clock::now();
      for (int i = 0; i < copies; i++) {
        GPU(Stream_t) stream = streams[i % used];
        if (to_device) CHECK(GPU(MemcpyAsync)(b.device, b.pinned, size, GPU(MemcpyHostToDevice), stream));
        else CHECK(GPU(MemcpyAsync)(b.pinned, b.device, size, GPU(MemcpyDeviceToHost), stream));
      }
      CHECK(GPU(DeviceSynchronize)());
      return since(begin) / copies;
    });
  };
  for (size_t size = 64; size <= 256 * MIB; size *= 16) {
    row("engine", "h2d", size, 1, per_copy(size, true, 1));
    row("engine", "d2h", size, 1, per_copy(size, false, 1));
    row("engine", "h2d_two_streams", size, 1, per_copy(size, true, 2));
    row("engine", "d2h_two_streams", size, 1, per_copy(size, false, 2));
  }
}

static void both_ways(const Buffers &b) {
  GPU(Stream_t) up = new_stream(), down = new_stream();
  for (size_t size = 64; size <= MOST; size *= 16)
    row("copy", "both_ways_pinned", size, 1, timed(repetitions(size), [&] {
          CHECK(GPU(MemcpyAsync)(b.device, b.pinned, size, GPU(MemcpyHostToDevice), up));
          CHECK(GPU(MemcpyAsync)(b.other_pinned, b.other, size, GPU(MemcpyDeviceToHost), down));
          CHECK(GPU(StreamSynchronize)(up));
          CHECK(GPU(StreamSynchronize)(down));
        }));
}

static Samples copied(size_t size, bool pinned, bool to_device, int threads) {
  return on_threads(threads, [&](int, Gate &gate) {
    void *device, *host = nullptr;
    CHECK(GPU(Malloc)(&device, size));
    if (pinned) CHECK(pinned_alloc(&host, size));
    else host = touched(size);
    GPU(Stream_t) stream = new_stream();
    gate.pass();
    Samples samples = timed(30, [&] {
      if (to_device) CHECK(GPU(MemcpyAsync)(device, host, size, GPU(MemcpyHostToDevice), stream));
      else CHECK(GPU(MemcpyAsync)(host, device, size, GPU(MemcpyDeviceToHost), stream));
      CHECK(GPU(StreamSynchronize)(stream));
    });
    CHECK(GPU(StreamDestroy)(stream));
    CHECK(GPU(Free)(device));
    if (pinned) CHECK(pinned_free(host));
    else std::free(host);
    return samples;
  });
}

static void over_threads() {
  for (int threads : THREADS)
    for (size_t size : {4 * KIB, MIB, 32 * MIB}) {
      row("copy", "h2d_pageable_threads", size, threads, copied(size, false, true, threads));
      row("copy", "d2h_pageable_threads", size, threads, copied(size, false, false, threads));
      row("copy", "h2d_pinned_threads", size, threads, copied(size, true, true, threads));
    }
}

// What cores reach that copy within the host's memory: one alone, and all that work together.
static void within_the_host() {
  constexpr size_t size = 64 * MIB;
  std::vector<int> counts = THREADS;
  counts.push_back((int)std::max(1u, std::thread::hardware_concurrency()));
  for (int threads : counts) {
    std::vector<char *> from(threads), to(threads);
    for (int t = 0; t < threads; t++) from[t] = touched(size), to[t] = touched(size);
    auto copy = [&](int t) { std::memcpy(to[t], from[t], size); };
    if (threads == 1) row("memcpy", "host", size, 1, timed(20, [&] { copy(0); }));
    Samples samples = on_threads(threads, [&](int t, Gate &gate) {
      gate.pass();
      return timed(20, [&] { copy(t); });
    });
    row("memcpy", "host_together", (double)size * threads, threads, samples);
    for (int t = 0; t < threads; t++) std::free(from[t]), std::free(to[t]);
  }
}

int main() {
  machine();
  within_the_host();
  over_threads();
  Buffers buffers;
  over_size(buffers);
  in_a_row(buffers);
  both_ways(buffers);
}

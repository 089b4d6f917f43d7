// Launches: alone, in a chain, fenced one by one; streams and events; from 1 to 32 host threads and over as many streams.
//
// Usage: launches [blocking_sync]. The flag has threads sleep while they wait for the device, and only waits are measured.
#include "measuring.h"

static __global__ void raise_flag(volatile int *flag) {
  *flag = 1;
  __threadfence_system();
}

static __global__ void spin_then_raise(volatile int *flag, long long duration) {
  long long begin = ticks();
  while (ticks() - begin < duration) {
  }
  *flag = 1;
  __threadfence_system();
}

static __global__ void stamped_spin(long long *stamps, long long duration) {
  long long begin = ticks();
  stamps[0] = begin;
  while (ticks() - begin < duration) {
  }
  stamps[1] = ticks();
}

// From the return of the launch to the kernel's first store, as the host sees it: the store's way over the link included.
static double to_begin(volatile int *flag, GPU(Stream_t) stream) {
  *flag = 0;
  CHECK(GPU(StreamSynchronize)(stream));
  raise_flag<<<1, 1, 0, stream>>>((volatile int *)flag);
  auto returned = Clock::now();
  while (*flag == 0) {
  }
  double seconds = since(returned);
  CHECK(GPU(StreamSynchronize)(stream));
  return seconds;
}

// From a kernel's last store, as another host thread sees it, to the return of the wait for it.
static double from_end(volatile int *flag, GPU(Stream_t) stream) {
  *flag = 0;
  Clock::time_point seen;
  std::atomic<bool> watching{false};
  std::thread watcher([&] {
    watching = true;
    while (*flag == 0) {
    }
    seen = Clock::now();
  });
  while (!watching) {
  }
  spin_then_raise<<<1, 1, 0, stream>>>((volatile int *)flag, in_ticks(100e-6));
  CHECK(GPU(StreamSynchronize)(stream));
  auto returned = Clock::now();
  watcher.join();
  return std::max(0.0, between(seen, returned));
}

// Between kernels of a chain that was submitted while its first one ran: an average, since the counter may be coarse. The
// stamps lie in the device's memory: a store to the host's would delay the end of each kernel.
static double gap(long long *device_stamps, GPU(Stream_t) stream, int kernels) {
  CHECK(GPU(StreamSynchronize)(stream));
  for (int i = 0; i < kernels; i++)
    stamped_spin<<<1, 1, 0, stream>>>(device_stamps + 2 * i, in_ticks(i == 0 ? 2e-3 : 20e-6));
  CHECK(GPU(StreamSynchronize)(stream));
  std::vector<long long> stamps(2 * kernels);
  CHECK(GPU(Memcpy)(stamps.data(), device_stamps, stamps.size() * sizeof(long long), GPU(MemcpyDeviceToHost)));
  long long apart = 0;
  for (int i = 1; i < kernels; i++) apart += stamps[2 * i] - stamps[2 * i - 1];
  return std::max(0.0, apart * TICK / (kernels - 1));
}

static void alone() {
  GPU(Stream_t) stream = new_stream();
  constexpr int kernels = 100;
  void *memory;
  long long *stamps;
  CHECK(pinned_alloc(&memory, 4 * KIB));
  CHECK(GPU(Malloc)((void **)&stamps, 2 * kernels * sizeof(long long)));
  auto *flag = (volatile int *)memory;
  auto launch = [&] { empty<<<1, 1, 0, stream>>>(); };
  row("launch", "call", 0, 1, collected(2000, [&] {
        CHECK(GPU(StreamSynchronize)(stream));
        auto begin = Clock::now();
        launch();
        return since(begin);
      }));
  row("launch", "begin", 0, 1, collected(1000, [&] { return to_begin(flag, stream); }));
  row("launch", "gap", 0, 1, collected(20, [&] { return gap(stamps, stream, kernels); }));
  row("launch", "back_to_back", 0, 1, collected(20, [&] {
        auto begin = Clock::now();
        for (int i = 0; i < 1000; i++) launch();
        CHECK(GPU(StreamSynchronize)(stream));
        return since(begin) / 1000;
      }));
  row("sync", "idle", 0, 1, timed(2000, [&] { CHECK(GPU(StreamSynchronize)(stream)); }));
  row("sync", "return", 0, 1, collected(300, [&] { return from_end(flag, stream); }));
  CHECK(pinned_free(memory));
  CHECK(GPU(Free)(stamps));
  CHECK(GPU(StreamDestroy)(stream));
}

static void streams_and_events() {
  std::vector<GPU(Stream_t)> streams(200);
  size_t next = 0;
  Samples created, destroyed;
  for (auto &stream : streams) {
    auto begin = Clock::now();
    CHECK(GPU(StreamCreateWithFlags)(&stream, GPU(StreamNonBlocking)));
    created.push_back(since(begin));
  }
  row("stream", "create", 0, 1, created);
  for (auto &stream : streams) {
    auto begin = Clock::now();
    CHECK(GPU(StreamDestroy)(stream));
    destroyed.push_back(since(begin));
  }
  row("stream", "destroy", 0, 1, destroyed);
  GPU(Stream_t) first = new_stream(), second = new_stream();
  std::vector<GPU(Event_t)> events(500);
  for (auto &event : events) CHECK(GPU(EventCreateWithFlags)(&event, GPU(EventDisableTiming)));
  row("event", "record", 0, 1, timed(400, [&] { CHECK(GPU(EventRecord)(events[next++ % events.size()], first)); }));
  row("event", "wait", 0, 1, timed(400, [&] { CHECK(GPU(StreamWaitEvent)(second, events[next++ % events.size()], 0)); }));
  CHECK(GPU(DeviceSynchronize)());
  for (auto &event : events) CHECK(GPU(EventDestroy)(event));
}

static void over_streams() {
  for (int count : THREADS) {
    std::vector<GPU(Stream_t)> streams(count);
    for (auto &stream : streams) stream = new_stream();
    row("launch", "round_robin_over_streams", count, 1, collected(20, [&] {
          auto begin = Clock::now();
          for (int i = 0; i < 960; i++) empty<<<1, 1, 0, streams[i % count]>>>();
          CHECK(GPU(DeviceSynchronize)());
          return since(begin) / 960;
        }));
    for (auto &stream : streams) CHECK(GPU(StreamDestroy)(stream));
  }
}

// Each thread launches into a stream of its own and waits for each kernel, or only at the end.
static void over_threads() {
  for (int threads : THREADS) {
    for (double busy : {0.0, 100e-6}) {
      row("launch", busy > 0 ? "fenced_100us" : "fenced", 0, threads, on_threads(threads, [&](int, Gate &gate) {
            GPU(Stream_t) stream = new_stream();
            gate.pass();
            Samples samples = timed(300, [&] {
              spin<<<1, 1, 0, stream>>>(in_ticks(busy));
              CHECK(GPU(StreamSynchronize)(stream));
            });
            CHECK(GPU(StreamDestroy)(stream));
            return samples;
          }));
    }
    row("launch", "chained_call", 0, threads, on_threads(threads, [&](int, Gate &gate) {
          GPU(Stream_t) stream = new_stream();
          gate.pass();
          Samples samples = timed(500, [&] { empty<<<1, 1, 0, stream>>>(); });
          CHECK(GPU(StreamSynchronize)(stream));
          CHECK(GPU(StreamDestroy)(stream));
          return samples;
        }));
    row("launch", "fenced_100us_beside_malloc_free", 0, threads, on_threads(threads + 1, [&](int t, Gate &gate) {
          if (t == threads) {
            gate.pass();
            timed(300, [] {
              void *p;
              CHECK(GPU(Malloc)(&p, MIB));
              CHECK(GPU(Free)(p));
            });
            return Samples{};
          }
          GPU(Stream_t) stream = new_stream();
          gate.pass();
          Samples samples = timed(100, [&] {
            spin<<<1, 1, 0, stream>>>(in_ticks(100e-6));
            CHECK(GPU(StreamSynchronize)(stream));
          });
          CHECK(GPU(StreamDestroy)(stream));
          return samples;
        }));
  }
}

// Waits of a thread that sleeps until the device's interrupt.
static void asleep() {
  GPU(Stream_t) stream = new_stream();
  void *memory;
  CHECK(pinned_alloc(&memory, 4 * KIB));
  row("sync", "return_blocking", 0, 1, collected(300, [&] { return from_end((volatile int *)memory, stream); }));
  for (double busy : {0.0, 100e-6})
    row("launch", busy > 0 ? "fenced_100us_blocking" : "fenced_blocking", 0, 1, timed(300, [&] {
          spin<<<1, 1, 0, stream>>>(in_ticks(busy));
          CHECK(GPU(StreamSynchronize)(stream));
        }));
  char *pageable = touched(MIB);
  void *device;
  CHECK(GPU(Malloc)(&device, MIB));
  for (size_t size : {4 * KIB, MIB}) {
    row("copy", "h2d_pageable_blocking", size, 1, timed(100, [&] {
          CHECK(GPU(MemcpyAsync)(device, pageable, size, GPU(MemcpyHostToDevice), stream));
          CHECK(GPU(StreamSynchronize)(stream));
        }));
    row("copy", "d2h_pageable_blocking", size, 1, timed(100, [&] {
          CHECK(GPU(MemcpyAsync)(pageable, device, size, GPU(MemcpyDeviceToHost), stream));
        }));
    row("copy", "h2d_pageable_call_blocking", size, 1, collected(100, [&] {
          CHECK(GPU(StreamSynchronize)(stream));
          auto begin = Clock::now();
          CHECK(GPU(MemcpyAsync)(device, pageable, size, GPU(MemcpyHostToDevice), stream));
          return since(begin);
        }));
  }
}

int main(int argc, char **argv) {
  bool blocking = argc > 1 && std::string(argv[1]) == "blocking_sync";
  if (blocking) CHECK(GPU(SetDeviceFlags)(GPU(DeviceScheduleBlockingSync)));
  machine();
  if (blocking) {
    asleep();
    return 0;
  }
  alone();
  streams_and_events();
  over_streams();
  over_threads();
}

// Allocation and free over size, beside kernels, with many streams and from many threads; stream-ordered, pinned, managed.
#include "measuring.h"

using Allocate = std::function<GPU(Error_t)(void **, size_t)>;
using Release = std::function<GPU(Error_t)(void *)>;

// Writes a row of allocations and one of frees; `before` runs, unmeasured, before each of the two.
static void pairs(const std::string &what, const char *variant, size_t size, int n, const Allocate &allocate,
                  const Release &release, const std::function<void()> &before = [] {}) {
  Samples allocations, frees;
  for (int i = -2; i < n; i++) {
    void *p;
    before();
    auto begin = Clock::now();
    CHECK(allocate(&p, size));
    double allocated = since(begin);
    before();
    begin = Clock::now();
    CHECK(release(p));
    double freed = since(begin);
    if (i < 0) continue;
    allocations.push_back(allocated);
    frees.push_back(freed);
  }
  row(("malloc" + what).c_str(), variant, size, 1, allocations);
  row(("free" + what).c_str(), variant, size, 1, frees);
}

static GPU(Error_t) device_alloc(void **p, size_t n) { return GPU(Malloc)(p, n); }
static GPU(Error_t) device_free(void *p) { return GPU(Free)(p); }

static void over_size(size_t most) {
  GPU(Stream_t) stream = new_stream();
  for (size_t size = 256; size <= most; size *= 2) {
    int n = size > 64 * MIB ? 20 : 200;
    pairs("", "idle", size, n, device_alloc, device_free);
    pairs("", "beside_kernel_2ms", size, 20, device_alloc, device_free, [&] {
      CHECK(GPU(StreamSynchronize)(stream));
      spin<<<1, 1, 0, stream>>>(in_ticks(2e-3));
    });
    CHECK(GPU(StreamSynchronize)(stream));
  }
  // A small block that stays allocated keeps a segment of the driver's, in which others find room.
  void *kept;
  CHECK(GPU(Malloc)(&kept, 256));
  for (size_t size : {KIB / 4, 4 * KIB, 64 * KIB, 512 * KIB})
    pairs("", "within_segment", size, 200, device_alloc, device_free);
  CHECK(GPU(Free)(kept));
  // Blocks that are kept: the driver has to get new memory for them, whatever it held.
  for (size_t size : {64 * KIB, 2 * MIB, 16 * MIB}) {
    std::vector<void *> blocks(64);
    Samples allocations, frees;
    for (auto &block : blocks) {
      auto begin = Clock::now();
      CHECK(GPU(Malloc)(&block, size));
      allocations.push_back(since(begin));
    }
    for (auto &block : blocks) {
      auto begin = Clock::now();
      CHECK(GPU(Free)(block));
      frees.push_back(since(begin));
    }
    row("malloc", "kept", size, 1, allocations);
    row("free", "kept", size, 1, frees);
  }
}

// A free may look at every stream of the context.
static void with_streams() {
  for (int count : {1, 8, 32, 128, 512}) {
    std::vector<GPU(Stream_t)> streams(count);
    for (auto &stream : streams) {
      stream = new_stream();
      empty<<<1, 1, 0, stream>>>();
    }
    CHECK(GPU(DeviceSynchronize)());
    pairs("", ("idle_with_" + std::to_string(count) + "_streams").c_str(), MIB, 100, device_alloc, device_free);
    for (auto &stream : streams) CHECK(GPU(StreamDestroy)(stream));
  }
}

static void over_threads() {
  for (int threads : THREADS)
    for (size_t size : {4 * KIB, MIB, 64 * MIB})
      row("malloc_free", "pair", size, threads, on_threads(threads, [&](int, Gate &gate) {
            gate.pass();
            return timed(50, [&] {
              void *p;
              CHECK(GPU(Malloc)(&p, size));
              CHECK(GPU(Free)(p));
            });
          }));
  // The same with a block that keeps a segment, so that the driver's own work is all that there is.
  void *kept;
  CHECK(GPU(Malloc)(&kept, 256));
  for (int threads : THREADS)
    row("malloc_free", "pair_within_segment", 4 * KIB, threads, on_threads(threads, [&](int, Gate &gate) {
          gate.pass();
          return timed(200, [&] {
            void *p;
            CHECK(GPU(Malloc)(&p, 4 * KIB));
            CHECK(GPU(Free)(p));
          });
        }));
  CHECK(GPU(Free)(kept));
}

// Stream-ordered allocation: the pool gives memory back at each synchronization, or keeps all of it.
static void stream_ordered() {
  int supported = 0;
  CHECK(GPU(DeviceGetAttribute)(&supported, ATTRIBUTE(MemoryPoolsSupported), 0));
  if (!supported) return failed("stream-ordered allocation", "the device has no memory pools");
  GPU(MemPool_t) pool;
  CHECK(GPU(DeviceGetDefaultMemPool)(&pool, 0));
  for (unsigned long long threshold : {0ull, ~0ull}) {
    CHECK(GPU(MemPoolSetAttribute)(pool, GPU(MemPoolAttrReleaseThreshold), &threshold));
    std::string kept = threshold ? "_kept" : "";
    GPU(Stream_t) stream = new_stream();
    for (size_t size = 256; size <= GIB; size *= 16) {
      auto allocate = [&](void **p, size_t n) { return GPU(MallocAsync)(p, n, stream); };
      auto release = [&](void *p) { return GPU(FreeAsync)(p, stream); };
      pairs("_async", ("idle" + kept).c_str(), size, 50, allocate, release, [&] { CHECK(GPU(StreamSynchronize)(stream)); });
    }
    for (int threads : THREADS)
      row("malloc_free_async", "pair" + kept, MIB, threads, on_threads(threads, [&](int, Gate &gate) {
            GPU(Stream_t) own = new_stream();
            gate.pass();
            Samples samples = timed(100, [&] {
              void *p;
              CHECK(GPU(MallocAsync)(&p, MIB, own));
              CHECK(GPU(FreeAsync)(p, own));
              CHECK(GPU(StreamSynchronize)(own));
            });
            CHECK(GPU(StreamDestroy)(own));
            return samples;
          }));
    CHECK(GPU(StreamDestroy)(stream));
  }
}

static void of_the_host() {
  for (size_t size = 4 * KIB; size <= 256 * MIB; size *= 16) {
    pairs("_host", "idle", size, 20, pinned_alloc, pinned_free);
    pairs("_managed", "idle", size, 20, [](void **p, size_t n) { return GPU(MallocManaged)(p, n); }, device_free);
    char *memory = touched(size);
    Samples registered, unregistered;
    for (int i = 0; i < 20; i++) {
      auto begin = Clock::now();
      CHECK(GPU(HostRegister)(memory, size, 0));
      registered.push_back(since(begin));
      begin = Clock::now();
      CHECK(GPU(HostUnregister)(memory));
      unregistered.push_back(since(begin));
    }
    row("host_register", "idle", size, 1, registered);
    row("host_unregister", "idle", size, 1, unregistered);
    std::free(memory);
  }
}

int main() {
  DeviceProperties device = machine();
  over_size(std::min((size_t)4 * GIB, device.totalGlobalMem / 8));
  with_streams();
  over_threads();
  stream_ordered();
  of_the_host();
}

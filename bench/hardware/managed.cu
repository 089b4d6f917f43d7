// Managed memory: faults one by one, in order, at random, to and fro, oversubscribed; prefetches; counters of the driver.
//
// Usage: managed [oversubscribed]. A program that takes more managed memory than the device has free can hang some
// machines, so that part runs only when it is asked for. The rest takes at most 1 GiB.
#include "measuring.h"
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>

constexpr size_t SIZE = 256 * MIB;

// One thread, one page after the other. Where the next page lies depends on what was read (the bytes stay below 128), so
// that each fault is alone.
static __global__ void touch_one_by_one(unsigned char *p, size_t bytes, size_t stride) {
  for (size_t i = 0; i < bytes;) {
    unsigned char value = ++p[i];
    i += stride + (value >> 7);
  }
}

// Many threads, a page each, in the order of the pages or in that of `order`.
static __global__ void touch_together(char *p, size_t bytes, size_t stride, const int *order) {
  size_t pages = bytes / stride;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < pages; i += (size_t)gridDim.x * blockDim.x)
    p[(order == nullptr ? i : (size_t)order[i]) * stride] += 1;
}

static void touch_on_host(char *p, size_t bytes, size_t stride) {
  for (size_t i = 0; i < bytes; i += stride) ((volatile char *)p)[i] += 1;
}

// Faults and replays that the driver counted; it shows them where it was loaded with uvm_enable_debug_procfs=1.
static void counters(const std::string &when) {
  std::error_code none;
  for (auto &gpu : std::filesystem::directory_iterator("/proc/driver/nvidia-uvm/gpus", none)) {
    std::ifstream file(gpu.path() / "fault_stats");
    if (!file) continue;
    std::string text;
    for (std::string line; std::getline(file, line);) text += (text.empty() ? "" : "; ") + line;
    for (char &c : text)
      if (c == '"' || c == '\\' || (unsigned char)c < ' ') c = ' ';
    std::printf("{\"what\": \"counters\", \"variant\": \"%s\", \"gpu\": \"%s\", \"text\": \"%s\"}\n", when.c_str(),
                gpu.path().filename().c_str(), text.c_str());
    std::fflush(stdout);
  }
}

struct Managed {
  char *p;
  size_t bytes;
  explicit Managed(size_t bytes) : bytes(bytes) {
    CHECK(GPU(MallocManaged)((void **)&p, bytes));
    touch_on_host(p, bytes, 4 * KIB);
  }
  ~Managed() { CHECK(GPU(Free)(p)); }
};

static double on_device(GPU(Stream_t) stream, const std::function<void()> &launch) {
  auto begin = Clock::now();
  launch();
  CHECK(GPU(StreamSynchronize)(stream));
  return since(begin);
}

static double together(GPU(Stream_t) stream, int blocks, const Managed &m, size_t stride, const int *order = nullptr) {
  return on_device(stream, [&] { touch_together<<<blocks, 128, 0, stream>>>(m.p, m.bytes, stride, order); });
}

static double one_by_one(GPU(Stream_t) stream, const Managed &m, size_t stride) {
  return on_device(stream, [&] { touch_one_by_one<<<1, 1, 0, stream>>>((unsigned char *)m.p, m.bytes, stride); });
}

static void faults(GPU(Stream_t) stream) {
  for (size_t stride : {4 * KIB, 64 * KIB, 2 * MIB}) {
    std::string apart = "_" + std::to_string(stride / KIB) + "KiB_apart";
    size_t bytes = std::min(SIZE, 1024 * stride);
    int pages = (int)(bytes / stride);
    std::vector<int> shuffled(pages);
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(1));
    int *order;
    CHECK(GPU(Malloc)((void **)&order, pages * sizeof(int)));
    CHECK(GPU(Memcpy)(order, shuffled.data(), pages * sizeof(int), GPU(MemcpyHostToDevice)));
    Samples alone, in_order, at_random, again, back;
    counters("before" + apart);
    for (int i = 0; i < 10; i++) {
      Managed m(bytes);
      alone.push_back(one_by_one(stream, m, stride));
      again.push_back(one_by_one(stream, m, stride));
      auto begin = Clock::now();
      touch_on_host(m.p, bytes, stride);
      back.push_back(since(begin));
    }
    counters("after one by one" + apart);
    for (int i = 0; i < 10; i++) {
      Managed first(bytes), second(bytes);
      in_order.push_back(together(stream, 256, first, stride));
      at_random.push_back(together(stream, 256, second, stride, order));
    }
    counters("after all" + apart);
    row("managed", "one_by_one" + apart, bytes, 1, alone);
    row("managed", "present" + apart, bytes, 1, again);
    row("managed", "back_on_host" + apart, bytes, 1, back);
    row("managed", "in_order" + apart, bytes, 1, in_order);
    row("managed", "at_random" + apart, bytes, 1, at_random);
    CHECK(GPU(Free)(order));
  }
}

// Host and device take turns; after some turns the driver sees thrashing.
static void to_and_fro(GPU(Stream_t) stream) {
  for (size_t bytes : {12 * KIB, 64 * KIB, 2 * MIB, 64 * MIB}) {
    Managed m(bytes);
    for (int turn = 0; turn < (bytes < MIB ? 100 : 20); turn++) {
      std::string which = "_turn_" + std::to_string(turn);
      double there = together(stream, 64, m, 4 * KIB);
      auto begin = Clock::now();
      touch_on_host(m.p, bytes, 4 * KIB);
      row("managed", "to_device" + which, bytes, 1, {there});
      row("managed", "to_host" + which, bytes, 1, {since(begin)});
    }
  }
}

static void prefetches(GPU(Stream_t) stream) {
  for (size_t bytes : {64 * KIB, 2 * MIB, 64 * MIB, GIB}) {
    Samples call, done, advice;
    for (int i = 0; i < 10; i++) {
      Managed m(bytes);
      auto begin = Clock::now();
      CHECK(prefetch(m.p, bytes, 0, stream));
      call.push_back(since(begin));
      CHECK(GPU(StreamSynchronize)(stream));
      done.push_back(since(begin));
      begin = Clock::now();
      CHECK(advise_preferred(m.p, bytes, 0));
      advice.push_back(since(begin));
    }
    row("managed", "prefetch_call", bytes, 1, call);
    row("managed", "prefetch_done", bytes, 1, done);
    row("managed", "advise_call", bytes, 1, advice);
  }
}

static void over_threads() {
  constexpr size_t bytes = 16 * MIB;
  for (int threads : THREADS)
    row("managed", "in_order_threads", bytes, threads, on_threads(threads, [&](int, Gate &gate) {
          GPU(Stream_t) stream = new_stream();
          gate.pass();
          Samples samples = collected(5, [&] {
            Managed m(bytes);
            return together(stream, 16, m, 4 * KIB);
          });
          CHECK(GPU(StreamDestroy)(stream));
          return samples;
        }));
}

// Plain memory is taken until 1 GiB is free; kernels then sweep over half as much again of managed memory.
static void oversubscribed(GPU(Stream_t) stream) {
  std::vector<void *> ballast;
  for (size_t free_bytes, total;;) {
    CHECK(GPU(MemGetInfo)(&free_bytes, &total));
    if (free_bytes <= GIB + 64 * MIB) break;
    ballast.push_back(nullptr);
    CHECK(GPU(Malloc)(&ballast.back(), std::min(free_bytes - GIB, 4 * GIB)));
  }
  {
    Managed m(GIB + GIB / 2);
    for (int sweep = 0; sweep < 5; sweep++) {
      counters("before oversubscribed sweep " + std::to_string(sweep));
      row("managed", "oversubscribed_sweep_" + std::to_string(sweep), m.bytes, 1, {together(stream, 256, m, 4 * KIB)});
    }
    counters("after oversubscribed sweeps");
  }
  for (void *p : ballast) CHECK(GPU(Free)(p));
}

int main(int argc, char **argv) {
  machine();
  int concurrent = 0;
  CHECK(GPU(DeviceGetAttribute)(&concurrent, ATTRIBUTE(ConcurrentManagedAccess), 0));
  if (!concurrent) {
    failed("managed memory", "the device cannot fault on it");
    return 0;
  }
  GPU(Stream_t) stream = new_stream();
  if (argc > 1 && std::string(argv[1]) == "oversubscribed") {
    oversubscribed(stream);
    return 0;
  }
  faults(stream);
  to_and_fro(stream);
  prefetches(stream);
  over_threads();
}

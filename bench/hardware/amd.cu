// What matters on AMD's GPUs and APUs: DMA copies in a row, barrier packets, prefaults, first touches with huge pages on
// and off. It also compiles as CUDA, where the parts that need the host's own page tables run only if the device uses them.
#include "measuring.h"
#include <sys/mman.h>

constexpr size_t HUGE_PAGE = 2 * MIB, PAGE = 4 * KIB;

// One page after the other: where the next one lies depends on what was read (the bytes stay below 128).
static __global__ void touch_pages(unsigned char *p, size_t pages, size_t apart) {
  for (size_t i = 0; i < pages * apart;) {
    unsigned char value = ++p[i];
    i += apart + (value >> 7);
  }
}

// Memory of the host that nobody has touched, aligned to huge pages.
struct Untouched {
  char *p;
  size_t bytes;
  Untouched(size_t size, bool huge) : bytes(size + HUGE_PAGE) {
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
      std::perror("mmap");
      std::exit(1);
    }
    p = (char *)(((size_t)base + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  ~Untouched() { munmap(base, bytes); }

 private:
  void *base;
};

static void touch_on_host(char *p, size_t pages, size_t apart) {
  for (size_t i = 0; i < pages; i++) ((volatile char *)p)[i * apart] = 1;
}

// For how long a copy keeps its ring, and what a single one takes besides.
static void dma() {
  char *device, *pinned;
  constexpr size_t most = 256 * MIB;
  CHECK(GPU(Malloc)((void **)&device, most));
  CHECK(pinned_alloc((void **)&pinned, most));
  std::memset(pinned, 1, most);
  GPU(Stream_t) stream = new_stream();
  auto submit = [&](size_t size) { CHECK(GPU(MemcpyAsync)(device, pinned, size, GPU(MemcpyHostToDevice), stream)); };
  for (size_t size = 64; size <= most; size *= 16) {
    int copies = size > MIB ? 8 : 100;
    row("dma", "in_a_row", size, 1, collected(20, [&] {
          auto begin = Clock::now();
          for (int i = 0; i < copies; i++) submit(size);
          CHECK(GPU(StreamSynchronize)(stream));
          return since(begin) / copies;
        }));
    row("dma", "single", size, 1, timed(50, [&] {
          submit(size);
          CHECK(GPU(StreamSynchronize)(stream));
        }));
  }
  CHECK(GPU(Free)(device));
  CHECK(pinned_free(pinned));
}

// A stream that waits for another one's event gets a barrier packet in its hardware queue.
static void barriers() {
  GPU(Stream_t) first = new_stream(), second = new_stream();
  GPU(Event_t) event;
  CHECK(GPU(EventCreateWithFlags)(&event, GPU(EventDisableTiming)));
  for (bool pending : {false, true}) {
    row("barrier", pending ? "between_kernels_pending" : "between_kernels", 0, 1, collected(50, [&] {
          CHECK(GPU(DeviceSynchronize)());
          if (pending) spin<<<1, 1, 0, first>>>(in_ticks(100e-6));
          CHECK(GPU(EventRecord)(event, first));
          auto begin = Clock::now();
          for (int i = 0; i < 50; i++) {
            CHECK(GPU(StreamWaitEvent)(second, event, 0));
            empty<<<1, 1, 0, second>>>();
          }
          CHECK(GPU(StreamSynchronize)(second));
          return since(begin) / 50;
        }));
  }
  CHECK(GPU(EventDestroy)(event));
}

// Prefetching memory of the host to the device, which maps it: of pages that the host has touched or nobody has.
static void prefaults() {
  for (int threads : THREADS)
    for (bool touched_before : {true, false})
      for (size_t size : {64 * KIB, 2 * MIB, 64 * MIB})
        row("prefault", touched_before ? "present" : "new", size, threads, on_threads(threads, [&](int, Gate &gate) {
              GPU(Stream_t) stream = new_stream();
              gate.pass();
              Samples samples = collected(10, [&] {
                Untouched memory(size, true);
                if (touched_before) touch_on_host(memory.p, size / PAGE, PAGE);
                auto begin = Clock::now();
                CHECK(prefetch(memory.p, size, 0, stream));
                CHECK(GPU(StreamSynchronize)(stream));
                return since(begin);
              });
              CHECK(GPU(StreamDestroy)(stream));
              return samples;
            }));
}

static void first_touches_of_the_host() {
  constexpr size_t pages = 64;
  for (bool huge : {true, false}) {
    size_t page = huge ? HUGE_PAGE : PAGE;
    row("first_touch", huge ? "host_2m" : "host_4k", page, 1, collected(20, [&] {
          Untouched memory(pages * page, huge);
          auto begin = Clock::now();
          touch_on_host(memory.p, pages, page);
          return since(begin) / pages;
        }));
  }
}

// One GPU thread touches a page after the other, so that each fault is alone; the time without faults is taken off.
static void first_touches_of_the_device() {
  constexpr size_t pages = 64;
  GPU(Stream_t) stream = new_stream();
  auto taken = [&](char *p, size_t page) {
    auto begin = Clock::now();
    touch_pages<<<1, 1, 0, stream>>>((unsigned char *)p, pages, page);
    CHECK(GPU(StreamSynchronize)(stream));
    return since(begin);
  };
  for (bool huge : {true, false})
    for (bool present : {true, false}) {
      size_t page = huge ? HUGE_PAGE : PAGE;
      std::string variant = std::string(present ? "gpu_present_" : "gpu_new_") + (huge ? "2m" : "4k");
      row("first_touch", variant, page, 1, collected(20, [&] {
            Untouched memory(pages * page, huge);
            if (present) touch_on_host(memory.p, pages * page / PAGE, PAGE);
            double with_faults = taken(memory.p, page);
            return std::max(0.0, with_faults - taken(memory.p, page)) / pages;
          }));
    }
}

int main() {
  machine();
  dma();
  barriers();
  first_touches_of_the_host();
  int pageable = 0;
  CHECK(GPU(DeviceGetAttribute)(&pageable, ATTRIBUTE(PageableMemoryAccess), 0));
  if (!pageable) {
    failed("prefault and first_touch of the device", "the device cannot reach the host's own memory");
    return 0;
  }
  prefaults();
  first_touches_of_the_device();
}

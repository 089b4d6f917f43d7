// Hand-over of locks: of a mutex of the host's, and of those in the driver, which only its calls show.
#include "measuring.h"
#include <mutex>

static void busy(double seconds) {
  auto begin = Clock::now();
  while (since(begin) < seconds) {
  }
}

// From the release of a mutex to the return of a thread that slept in it: the holder works long enough for it to sleep.
static double handover() {
  std::mutex mutex;
  Clock::time_point released, entered;
  std::atomic<bool> waiting{false};
  mutex.lock();
  std::thread waiter([&] {
    waiting = true;
    mutex.lock();
    entered = Clock::now();
    mutex.unlock();
  });
  while (!waiting) std::this_thread::yield();
  busy(300e-6);
  released = Clock::now();
  mutex.unlock();
  waiter.join();
  return std::max(0.0, between(released, entered));
}

int main() {
  machine();
  row("lock", "handover", 0, 1, collected(500, handover));
  for (int threads : THREADS) {
    std::mutex mutex;
    row("lock", "mutex_1us_held", 0, threads, on_threads(threads, [&](int, Gate &gate) {
          gate.pass();
          return timed(500, [&] {
            std::lock_guard<std::mutex> held(mutex);
            busy(1e-6);
          });
        }));
    // Calls that do next to nothing besides taking the locks of the context and of the process.
    row("lock", "driver_event_record", 0, threads, on_threads(threads, [&](int, Gate &gate) {
          GPU(Stream_t) stream = new_stream();
          GPU(Event_t) event;
          CHECK(GPU(EventCreateWithFlags)(&event, GPU(EventDisableTiming)));
          gate.pass();
          Samples samples = timed(500, [&] { CHECK(GPU(EventRecord)(event, stream)); });
          CHECK(GPU(StreamSynchronize)(stream));
          CHECK(GPU(EventDestroy)(event));
          CHECK(GPU(StreamDestroy)(stream));
          return samples;
        }));
    row("lock", "driver_memory_info", 0, threads, on_threads(threads, [&](int, Gate &gate) {
          gate.pass();
          return timed(200, [] {
            size_t free_bytes, total;
            CHECK(GPU(MemGetInfo)(&free_bytes, &total));
          });
        }));
  }
}

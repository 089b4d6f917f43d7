/* The models M1 to M4 of bench/models.py for SimGrid's S4U: what the same threads cost in a compiled simulator.
 *
 * simgrid MODEL THREADS ITERATIONS: reads the durations that bench/models.py gives its actors from stdin, as doubles in
 * the order in which it spawns them, and prints the processor seconds that the run took and its virtual time.
 * A mailbox costs no virtual time there, so here it is a queue with a semaphore, and no communication over a link. */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <string>
#include <unistd.h>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg = simgrid::s4u;
using Delays = std::vector<double>;

struct Mailbox {
  sg::SemaphorePtr filled = sg::Semaphore::create(0);
  std::deque<sg::SemaphorePtr> items;

  void put(sg::SemaphorePtr item)
  {
    items.push_back(std::move(item));
    filled->release();
  }
  sg::SemaphorePtr get()
  {
    filled->acquire();
    sg::SemaphorePtr item = std::move(items.front());
    items.pop_front();
    return item;
  }
};

static Delays read(size_t count)
{
  Delays found(count);
  if (fread(found.data(), sizeof(double), count, stdin) != count) {
    fprintf(stderr, "simgrid: too few durations on stdin\n");
    _exit(2);
  }
  return found;
}

static void lock_user(sg::MutexPtr lock, const Delays& before, const Delays& inside, const Delays& after)
{
  for (size_t i = 0; i < before.size(); ++i) {
    sg::this_actor::sleep_for(before[i]);
    lock->lock();
    sg::this_actor::sleep_for(inside[i]);
    lock->unlock();
    sg::this_actor::sleep_for(after[i]);
  }
}

static void server(Mailbox& box, const Delays& service)
{
  for (double seconds : service) {
    sg::SemaphorePtr done = box.get();
    sg::this_actor::sleep_for(seconds);
    done->release();
  }
}

static void client(Mailbox& box, const Delays& think)
{
  for (double seconds : think) {
    sg::this_actor::sleep_for(seconds);
    sg::SemaphorePtr done = sg::Semaphore::create(0);
    box.put(done);
    done->acquire();
  }
}

static void queue(Mailbox& box, sg::SemaphorePtr copy, sg::SemaphorePtr compute, const Delays& copies,
                  const Delays& kernels)
{
  for (size_t i = 0; i < copies.size(); ++i) {
    sg::SemaphorePtr done = box.get();
    copy->acquire();
    sg::this_actor::sleep_for(copies[i]);
    copy->release();
    compute->acquire();
    sg::this_actor::sleep_for(kernels[i]);
    compute->release();
    done->release();
  }
}

static void sleeper(const Delays& pauses)
{
  for (double seconds : pauses)
    sg::this_actor::sleep_for(seconds);
}

int main(int argc, char* argv[])
{
  sg::Engine engine(&argc, argv);
  sg::Engine::set_config("surf/precision:1e-9");
  if (argc != 4) {
    fprintf(stderr, "usage: simgrid MODEL THREADS ITERATIONS\n");
    return 2;
  }
  const std::string model = argv[1];
  const size_t threads = strtoul(argv[2], nullptr, 10), iterations = strtoul(argv[3], nullptr, 10);
  sg::NetZone* zone = sg::create_full_zone("node");
  sg::Host* host = zone->create_host("host", 1e9);
  zone->seal();

  std::vector<Delays> durations;
  if (model == "M2")
    durations.push_back(read(threads * iterations));
  const size_t each = model == "M1" || model == "M3" ? 3 : 1;
  for (size_t i = 0; i < threads * each; ++i)
    durations.push_back(read(iterations));

  const clock_t begin = clock();
  std::vector<Mailbox> boxes(model == "M2" ? 1 : model == "M3" ? threads : 0);
  if (model == "M1") {
    sg::MutexPtr lock = sg::Mutex::create();
    for (size_t i = 0; i < threads; ++i)
      sg::Actor::create("user", host, [&, i, lock] {
        lock_user(lock, durations[3 * i], durations[3 * i + 1], durations[3 * i + 2]);
      });
  } else if (model == "M2") {
    sg::Actor::create("server", host, [&] { server(boxes[0], durations[0]); });
    for (size_t i = 0; i < threads; ++i)
      sg::Actor::create("client", host, [&, i] { client(boxes[0], durations[1 + i]); });
  } else if (model == "M3") {
    sg::SemaphorePtr copy = sg::Semaphore::create(2), compute = sg::Semaphore::create(4);
    for (size_t i = 0; i < threads; ++i) {
      sg::Actor::create("queue", host, [&, i, copy, compute] {
        queue(boxes[i], copy, compute, durations[3 * i], durations[3 * i + 1]);
      });
      sg::Actor::create("client", host, [&, i] { client(boxes[i], durations[3 * i + 2]); });
    }
  } else {
    for (size_t i = 0; i < threads; ++i)
      sg::Actor::create("sleeper", host, [&, i] { sleeper(durations[i]); });
  }
  engine.run();
  printf("%.9f %.9f\n", static_cast<double>(clock() - begin) / CLOCKS_PER_SEC, sg::Engine::get_clock());
  return 0;
}

// Many threads offload patches to one GPU, as a finite-volume code does. No cost is fitted to these rows: they are what an
// emulation of the machine has to predict.
//
// Usage: offload map|pool|managed THREADS BATCH PATCHES_PER_THREAD PATCH_BYTES VOLUMES FLOPS_PER_VOLUME
// `map` allocates and frees for each patch, `pool` uses blocks again, `managed` copies into managed memory.
#include "measuring.h"
#include <map>
#include <mutex>

// A team updates a patch: some work for each volume, then the results are written back.
static __global__ void update(double **patches, double *scratch, int volumes, int doubles, int flops) {
  double *patch = patches[blockIdx.x], *mine = scratch + (size_t)blockIdx.x * doubles;
  for (int v = threadIdx.x; v < volumes; v += blockDim.x) {
    double x = patch[v % doubles];
    for (int i = 0; i < flops / 2; i++) x = x * 0.9999 + 1e-7;
    mine[v % doubles] = x;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < doubles; i += blockDim.x) patch[i] = mine[i];
}

// Blocks that were given back, by size; they are never freed.
class Pool {
 public:
  explicit Pool(bool managed) : managed(managed) {}
  void *get(size_t bytes) {
    {
      std::lock_guard<std::mutex> held(mutex);
      auto found = blocks.find(bytes);
      if (found != blocks.end()) {
        void *block = found->second;
        blocks.erase(found);
        return block;
      }
    }
    void *block;
    if (managed) CHECK(GPU(MallocManaged)(&block, bytes));
    else CHECK(GPU(Malloc)(&block, bytes));
    return block;
  }
  void put(void *block, size_t bytes) {
    std::lock_guard<std::mutex> held(mutex);
    blocks.emplace(bytes, block);
  }

 private:
  bool managed;
  std::mutex mutex;
  std::multimap<size_t, void *> blocks;
};

// Seconds that the threads spent in each kind of call, and how many calls there were.
struct Spent {
  const char *name;
  std::atomic<long long> nanoseconds{0}, calls{0};
  template <typename Call>
  void in(Call call) {
    auto begin = Clock::now();
    call();
    nanoseconds += (long long)(since(begin) * 1e9);
    calls++;
  }
};

struct Run {
  std::string mode;
  int threads, batch, patches;
  size_t bytes;
  int volumes, flops;
  Pool device{false}, unified{true};
  Spent allocating{"allocate"}, freeing{"free"}, sending{"to_device"}, launching{"launch"}, waiting{"wait"}, fetching{"to_host"};

  void *take(size_t n) {
    if (mode != "map") return device.get(n);
    void *block;
    allocating.in([&] { CHECK(GPU(Malloc)(&block, n)); });
    return block;
  }
  void give(void *block, size_t n) {
    if (mode != "map") return device.put(block, n);
    freeing.in([&] { CHECK(GPU(Free)(block)); });
  }
  void to_device(void *block, const double *host, GPU(Stream_t) stream) {
    if (mode == "managed") {
      sending.in([&] { std::memcpy(block, host, bytes); });
      return;
    }
    sending.in([&] { CHECK(GPU(MemcpyAsync)(block, host, bytes, GPU(MemcpyHostToDevice), stream)); });
    if (mode == "map") waiting.in([&] { CHECK(GPU(StreamSynchronize)(stream)); });
  }
  void to_host(double *host, void *block, GPU(Stream_t) stream) {
    if (mode == "managed") {
      fetching.in([&] { std::memcpy(host, block, bytes); });
      return;
    }
    fetching.in([&] { CHECK(GPU(MemcpyAsync)(host, block, bytes, GPU(MemcpyDeviceToHost), stream)); });
    if (mode == "map") waiting.in([&] { CHECK(GPU(StreamSynchronize)(stream)); });
  }

  // Offloads n patches at once, and returns the seconds.
  double offload(std::vector<double> *host, int n, GPU(Stream_t) stream) {
    auto begin = Clock::now();
    std::vector<void *> blocks(n);
    for (int i = 0; i < n; i++) {
      blocks[i] = mode == "managed" ? unified.get(bytes) : take(bytes);
      to_device(blocks[i], host[i].data(), stream);
    }
    void *list = take(sizeof(void *) * n), *scratch = take(bytes * n);
    sending.in([&] {
      CHECK(GPU(MemcpyAsync)(list, blocks.data(), sizeof(void *) * n, GPU(MemcpyHostToDevice), stream));
    });
    launching.in([&] {
      update<<<n, 128, 0, stream>>>((double **)list, (double *)scratch, volumes, (int)(bytes / sizeof(double)), flops);
    });
    waiting.in([&] { CHECK(GPU(StreamSynchronize)(stream)); });
    if (mode == "map") give(scratch, bytes * n), give(list, sizeof(void *) * n);
    for (int i = 0; i < n; i++) {
      to_host(host[i].data(), blocks[i], stream);
      if (mode == "map") give(blocks[i], bytes);
    }
    if (mode == "map") return since(begin);
    CHECK(GPU(StreamSynchronize)(stream));
    for (void *block : blocks) (mode == "managed" ? unified : device).put(block, bytes);
    give(list, sizeof(void *) * n);
    give(scratch, bytes * n);
    return since(begin);
  }
};

int main(int argc, char **argv) {
  std::string mode = argc == 8 ? argv[1] : "";
  if (mode != "map" && mode != "pool" && mode != "managed") {
    std::fprintf(stderr, "usage: offload map|pool|managed THREADS BATCH PATCHES PATCH_BYTES VOLUMES FLOPS\n");
    return 2;
  }
  Run run{mode, atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), (size_t)atol(argv[5]), atoi(argv[6]), atoi(argv[7])};
  machine();
  std::vector<std::vector<std::vector<double>>> host(run.threads);
  for (auto &own : host) own.assign(run.patches, std::vector<double>(run.bytes / sizeof(double), 1.0));
  Samples rounds = collected(5, [&] {
    auto begin = Clock::now();
    on_threads(run.threads, [&](int t, Gate &gate) {
      gate.pass();
      GPU(Stream_t) stream = new_stream();
      for (int at = 0; at < run.patches; at += run.batch)
        run.offload(&host[t][at], std::min(run.batch, run.patches - at), stream);
      CHECK(GPU(StreamDestroy)(stream));
      return Samples{};
    });
    return since(begin);
  });
  std::sort(rounds.begin(), rounds.end());
  double median = rounds[rounds.size() / 2];
  std::printf("{\"what\": \"offload\", \"mode\": \"%s\", \"threads\": %d, \"batch\": %d, \"patches\": %d, "
              "\"patch_bytes\": %zu, \"volumes\": %d, \"flops\": %d, \"min_s\": %.9g, \"median_s\": %.9g, "
              "\"per_volume_s\": %.9g, \"mean_s\": {",
              mode.c_str(), run.threads, run.batch, run.patches, run.bytes, run.volumes, run.flops, rounds.front(), median,
              median / ((double)run.threads * run.patches * run.volumes));
  const char *comma = "";
  for (Spent *one : {&run.allocating, &run.sending, &run.launching, &run.waiting, &run.fetching, &run.freeing}) {
    if (one->calls == 0) continue;
    std::printf("%s\"%s\": %.4g", comma, one->name, one->nanoseconds * 1e-9 / one->calls);
    comma = ", ";
  }
  std::printf("}}\n");
}

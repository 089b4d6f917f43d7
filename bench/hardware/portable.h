// The few names in which CUDA and HIP differ by more than their prefix, so that each benchmark is one source for both.
#pragma once
#include <cstdio>
#include <cstdlib>

#ifdef __HIP__
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#define ATTRIBUTE(name) hipDeviceAttribute##name
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#define ATTRIBUTE(name) cudaDevAttr##name
#endif

#define CHECK(call)                                                                                                \
  do {                                                                                                             \
    GPU(Error_t) error_ = (call);                                                                                  \
    if (error_ != GPU(Success)) {                                                                                  \
      std::fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #call, GPU(GetErrorString)(error_));              \
      std::exit(1);                                                                                                \
    }                                                                                                              \
  } while (0)

#ifdef __HIP__
using DeviceProperties = hipDeviceProp_t;
constexpr double TICK = 1e-8;  // of the CDNA GPUs' real-time counter: 100 MHz
inline GPU(Error_t) pinned_alloc(void **p, size_t n) { return hipHostMalloc(p, n, hipHostMallocMapped); }
inline GPU(Error_t) pinned_free(void *p) { return hipHostFree(p); }
inline GPU(Error_t) prefetch(void *p, size_t n, int device, GPU(Stream_t) s) {
  return hipMemPrefetchAsync(p, n, device, s);
}
inline GPU(Error_t) advise_preferred(void *p, size_t n, int device) {
  return hipMemAdvise(p, n, hipMemAdviseSetPreferredLocation, device);
}
#else
using DeviceProperties = cudaDeviceProp;
constexpr double TICK = 1e-9;  // of %globaltimer, which moves on in larger steps on some GPUs
inline GPU(Error_t) pinned_alloc(void **p, size_t n) { return cudaHostAlloc(p, n, cudaHostAllocMapped); }
inline GPU(Error_t) pinned_free(void *p) { return cudaFreeHost(p); }
#if CUDART_VERSION >= 13000
inline cudaMemLocation location(int device) {
  cudaMemLocation where{};
  where.type = device < 0 ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice;
  where.id = device < 0 ? 0 : device;
  return where;
}
inline GPU(Error_t) prefetch(void *p, size_t n, int device, GPU(Stream_t) s) {
  return cudaMemPrefetchAsync(p, n, location(device), 0, s);
}
inline GPU(Error_t) advise_preferred(void *p, size_t n, int device) {
  return cudaMemAdvise(p, n, cudaMemAdviseSetPreferredLocation, location(device));
}
#else
inline GPU(Error_t) prefetch(void *p, size_t n, int device, GPU(Stream_t) s) {
  return cudaMemPrefetchAsync(p, n, device, s);
}
inline GPU(Error_t) advise_preferred(void *p, size_t n, int device) {
  return cudaMemAdvise(p, n, cudaMemAdviseSetPreferredLocation, device);
}
#endif
#endif

// Reads the device's real-time counter, in units of TICK.
static __device__ inline long long ticks() {
#ifdef __HIP__
  return __builtin_amdgcn_s_memrealtime();
#else
  long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
#endif
}

static __global__ void empty() {}

// Keeps one thread busy for so many ticks.
static __global__ void spin(long long duration) {
  long long begin = ticks();
  while (ticks() - begin < duration) {
  }
}

inline long long in_ticks(double seconds) { return (long long)(seconds / TICK); }

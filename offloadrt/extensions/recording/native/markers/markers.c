/* Stands for the libraries of NVTX and rocTX where a program is linked with one: its ranges go to the recorder, or to whoever else has the
 * functions. Without any, they do nothing. All are weak: a program that has them itself keeps its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>

#define FORWARD(name, kind, nothing, parameters, arguments)                                                                    \
  __attribute__((weak)) kind name parameters;                                                                                  \
  __attribute__((weak)) kind name parameters {                                                                                 \
    static kind(*real) parameters;                                                                                             \
    static int looked;                                                                                                         \
    if (!looked) {                                                                                                             \
      real = (kind(*) parameters)dlsym(RTLD_NEXT, #name);                                                                      \
      looked = 1;                                                                                                              \
    }                                                                                                                          \
    if (!real)                                                                                                                 \
      return nothing;                                                                                                          \
    return real arguments;                                                                                                     \
  }
#define NOTHING
#define TEXT const void *text
#define OF void *domain

FORWARD(nvtxInitialize, void, NOTHING, (const void *reserved), (reserved))
FORWARD(nvtxMarkA, void, NOTHING, (TEXT), (text))
FORWARD(nvtxMarkW, void, NOTHING, (TEXT), (text))
FORWARD(nvtxMarkEx, void, NOTHING, (TEXT), (text))
FORWARD(nvtxRangePushA, int, -2, (TEXT), (text))
FORWARD(nvtxRangePushW, int, -2, (TEXT), (text))
FORWARD(nvtxRangePushEx, int, -2, (TEXT), (text))
FORWARD(nvtxRangePop, int, -2, (void), ())
FORWARD(nvtxRangeStartA, uint64_t, 0, (TEXT), (text))
FORWARD(nvtxRangeStartW, uint64_t, 0, (TEXT), (text))
FORWARD(nvtxRangeStartEx, uint64_t, 0, (TEXT), (text))
FORWARD(nvtxRangeEnd, void, NOTHING, (uint64_t range), (range))
FORWARD(nvtxNameCategoryA, void, NOTHING, (uint32_t category, TEXT), (category, text))
FORWARD(nvtxNameCategoryW, void, NOTHING, (uint32_t category, TEXT), (category, text))
FORWARD(nvtxNameOsThreadA, void, NOTHING, (uint32_t thread, TEXT), (thread, text))
FORWARD(nvtxNameOsThreadW, void, NOTHING, (uint32_t thread, TEXT), (thread, text))
FORWARD(nvtxDomainMarkEx, void, NOTHING, (OF, TEXT), (domain, text))
FORWARD(nvtxDomainRangePushEx, int, -2, (OF, TEXT), (domain, text))
FORWARD(nvtxDomainRangePop, int, -2, (OF), (domain))
FORWARD(nvtxDomainRangeStartEx, uint64_t, 0, (OF, TEXT), (domain, text))
FORWARD(nvtxDomainRangeEnd, void, NOTHING, (OF, uint64_t range), (domain, range))
FORWARD(nvtxDomainNameCategoryA, void, NOTHING, (OF, uint32_t category, TEXT), (domain, category, text))
FORWARD(nvtxDomainNameCategoryW, void, NOTHING, (OF, uint32_t category, TEXT), (domain, category, text))
FORWARD(nvtxDomainRegisterStringA, void *, NULL, (OF, TEXT), (domain, text))
FORWARD(nvtxDomainRegisterStringW, void *, NULL, (OF, TEXT), (domain, text))
FORWARD(nvtxDomainCreateA, void *, NULL, (TEXT), (text))
FORWARD(nvtxDomainCreateW, void *, NULL, (TEXT), (text))
FORWARD(nvtxDomainDestroy, void, NOTHING, (OF), (domain))
FORWARD(nvtxDomainResourceCreate, void *, NULL, (OF, void *attributes), (domain, attributes))
FORWARD(nvtxDomainResourceDestroy, void, NOTHING, (void *resource), (resource))
FORWARD(roctxMarkA, void, NOTHING, (TEXT), (text))
FORWARD(roctxRangePushA, int, -1, (TEXT), (text))
FORWARD(roctxRangePop, int, -1, (void), ())
FORWARD(roctxRangeStartA, uint64_t, 0, (TEXT), (text))
FORWARD(roctxRangeStop, void, NOTHING, (uint64_t range), (range))

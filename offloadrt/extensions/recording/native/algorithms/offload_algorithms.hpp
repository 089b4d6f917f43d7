// The parallel algorithms of C++17 as target regions: `offloadrt cxx -stdpar` includes it before everything else.
//
// It takes the place of the library's own parallel algorithms, which it hides by their header guards (libstdc++), so that
// nothing else is needed (TBB) and no overload is ambiguous. The policies stay the library's. Each algorithm tells the recorder
// (recorder/algorithms.c) what it is, where it was called, how many elements it has and the words of its arguments, in which
// the recorder finds pointers. Then it runs kernels over unified memory. Captures go by value, as arguments of the kernel.
//
// An algorithm runs on the host, in one thread, under the policies `seq` and `unseq`, with iterators that cannot be indexed, with
// results that a kernel cannot hold (`kernel_value`), and where it is listed under "on the host".
#pragma once
#pragma GCC system_header
#if !defined(__cplusplus) || __cplusplus < 201703L
#error "-stdpar: parallel algorithms need -std=c++17 or later"
#endif
#define _PSTL_GLUE_ALGORITHM_DEFS_H
#define _PSTL_GLUE_ALGORITHM_IMPL_H
#define _PSTL_GLUE_NUMERIC_DEFS_H
#define _PSTL_GLUE_NUMERIC_IMPL_H
#define _PSTL_GLUE_MEMORY_DEFS_H
#define _PSTL_GLUE_MEMORY_IMPL_H
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execution>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <numeric>
#include <type_traits>
#include <utility>
#ifndef __GLIBCXX__
#error "-stdpar: parallel algorithms are recorded with libstdc++ (leave out -stdlib=libc++)"
#endif
#pragma omp requires unified_shared_memory

namespace offload_stdpar {
enum policy : unsigned { SEQ, PAR, PAR_UNSEQ, UNSEQ };

// Stands for the policy among an algorithm's parameters; the conversion of the argument knows the caller's place.
struct call_site {
  const char *file;
  unsigned line, policy;
  call_site(const std::execution::sequenced_policy &, const char *f = __builtin_FILE(), unsigned l = __builtin_LINE())
      : file(f), line(l), policy(SEQ) {}
  call_site(const std::execution::parallel_policy &, const char *f = __builtin_FILE(), unsigned l = __builtin_LINE())
      : file(f), line(l), policy(PAR) {}
  call_site(const std::execution::parallel_unsequenced_policy &, const char *f = __builtin_FILE(), unsigned l = __builtin_LINE())
      : file(f), line(l), policy(PAR_UNSEQ) {}
  call_site(const __pstl::execution::unsequenced_policy &, const char *f = __builtin_FILE(), unsigned l = __builtin_LINE())
      : file(f), line(l), policy(UNSEQ) {}
  bool is_parallel() const { return policy == PAR || policy == PAR_UNSEQ; }
};

// ---- what the recorder is told ----
template <class Hook> Hook *hook(const char *name) { return reinterpret_cast<Hook *>(dlsym(nullptr, name)); }

enum { MOST_WORDS = 64 };
struct words {
  unsigned long word[MOST_WORDS];
  unsigned count = 0;
  template <class T> void add(const T &value) {
    for (std::size_t at = 0; at + sizeof(long) <= sizeof(T) && count < MOST_WORDS; at += sizeof(long))
      std::memcpy(&word[count++], reinterpret_cast<const unsigned char *>(std::addressof(value)) + at, sizeof(long));
  }
};

// Addresses go to the recorder as numbers: it changes none of the program's memory, so the plugin is not to take it for code that may.
using begin_hook = unsigned long(const char *algorithm, const char *file, unsigned line, unsigned policy, unsigned on_host, long count,
                                 unsigned long words, unsigned word_count, unsigned long outer);
using end_hook = void(unsigned long call, unsigned long outer);
using scratch_hook = void(unsigned long block, std::size_t bytes, unsigned is_begin);
inline unsigned long address_of(const void *memory) { return reinterpret_cast<unsigned long>(memory); }

// One call of an algorithm, from here to the end of its scope.
class running {
  unsigned long call = 0, outer = 0;
  static begin_hook *begins() {
    static begin_hook *const found = hook<begin_hook>("offload_recorder_algorithm");
    return found;
  }

public:
  template <class... Arguments>
  running(const call_site &site, bool on_host, const char *algorithm, long count, const Arguments &...arguments) {
    if (!begins())
      return;
    words all;
    (all.add(arguments), ...);
    call = begins()(algorithm, site.file, site.line, site.policy, on_host, count, address_of(all.word), all.count, address_of(&outer));
  }
  running(const running &) = delete;
  ~running() {
    static end_hook *const ends = hook<end_hook>("offload_recorder_algorithm_end");
    if (call)
      ends(call, outer);
  }
};

// Memory of the implementation's own, as a real one has for the passes of a sort.
template <class T> class scratch {
  static void tell(void *block, std::size_t bytes, unsigned is_begin) {
    static scratch_hook *const hooked = hook<scratch_hook>("offload_recorder_scratch");
    if (hooked)
      hooked(address_of(block), bytes, is_begin);
  }

public:
  T *const data;
  const std::size_t bytes;
  explicit scratch(long count)
      : data(static_cast<T *>(std::calloc(static_cast<std::size_t>(count) + 1, sizeof(T)))), bytes(static_cast<std::size_t>(count + 1) * sizeof(T)) {
    if (!data)
      throw std::bad_alloc();
    tell(data, bytes, 1);
  }
  scratch(const scratch &) = delete;
  ~scratch() {
    tell(data, bytes, 0);
    std::free(data);
  }
};

// ---- what a kernel can work with ----
template <class It, class = void> struct indexed : std::false_type {};
template <class It>
struct indexed<It, std::void_t<decltype(*(std::declval<const It &>() + (std::declval<const It &>() - std::declval<const It &>()))),
                               decltype(static_cast<long>(std::declval<const It &>() - std::declval<const It &>()))>> : std::true_type {};
template <class... It> constexpr bool can_index = (indexed<It>::value && ...);

// A value that a kernel may keep in memory of its own: one whose bytes are all that there is of it.
template <class T> constexpr bool kernel_value = std::is_trivially_copy_constructible_v<T> && std::is_trivially_destructible_v<T>;

template <class It> using value_of = typename std::iterator_traits<It>::value_type;
template <class It> using distance_of = decltype(std::declval<const It &>() - std::declval<const It &>());
template <class It> long count_of(const It &first, const It &last) {
  long count = static_cast<long>(last - first);
  return count > 0 ? count : 0;
}
template <class It> It moved(const It &first, long i) { return first + static_cast<distance_of<It>>(i); }
template <class It> decltype(auto) at(const It &first, long i) { return *(first + static_cast<distance_of<It>>(i)); }

// A value that may be written over though it cannot be assigned to, as a lambda.
template <class T> class held {
  alignas(T) unsigned char bytes[sizeof(T)];

public:
  template <class U> void put(U &&value) { ::new (static_cast<void *>(bytes)) T(static_cast<U &&>(value)); }
  T &get() { return *std::launder(reinterpret_cast<T *>(bytes)); }
  const T &get() const { return *std::launder(reinterpret_cast<const T *>(bytes)); }
};

// ---- kernels ----
// A body of up to `Words` words goes by value; a larger one, or one that cannot be copied by its bytes, is used where it lies.
template <class Body, unsigned Words>
constexpr bool goes_by_value = std::is_trivially_copyable_v<Body> && sizeof(Body) <= Words * sizeof(long) && alignof(Body) <= 16;

template <class Body> void step(unsigned long *words, long i) {
  if constexpr (goes_by_value<Body, 32>)
    (*std::launder(reinterpret_cast<Body *>(words)))(i);
  else
    (*reinterpret_cast<Body *>(words[0]))(i);
}

#define OFFLOAD_PRAGMA(...) _Pragma(#__VA_ARGS__)
#define OFFLOAD_W4(P) P##0, P##1, P##2, P##3
#define OFFLOAD_W8(P) OFFLOAD_W4(P), P##4, P##5, P##6, P##7
#define OFFLOAD_W16(P) OFFLOAD_W8(P), P##8, P##9, P##10, P##11, P##12, P##13, P##14, P##15
#define OFFLOAD_W32(P) OFFLOAD_W16(P), P##16, P##17, P##18, P##19, P##20, P##21, P##22, P##23, P##24, P##25, P##26, P##27, P##28, P##29, P##30, P##31
#define OFFLOAD_KERNEL(N, LIST)                                                                                                    \
  template <class Body> void kernel_of_##N(long count, const unsigned long(&given)[32]) {                                          \
    unsigned long LIST(w);                                                                                                         \
    unsigned long *const all[] = {LIST(&w)};                                                                                       \
    for (unsigned i = 0; i < N; i++)                                                                                               \
      *all[i] = given[i];                                                                                                          \
    OFFLOAD_PRAGMA(omp target teams distribute parallel for firstprivate(LIST(w)))                                                 \
    for (long i = 0; i < count; ++i) {                                                                                             \
      alignas(16) unsigned long mine[] = {LIST(w)};                                                                                \
      step<Body>(mine, i);                                                                                                         \
    }                                                                                                                              \
  }
OFFLOAD_KERNEL(4, OFFLOAD_W4)
OFFLOAD_KERNEL(8, OFFLOAD_W8)
OFFLOAD_KERNEL(16, OFFLOAD_W16)
OFFLOAD_KERNEL(32, OFFLOAD_W32)

template <class Body> void packed(const Body &body, unsigned long (&given)[32]) {
  if constexpr (goes_by_value<Body, 32>) {
    std::memcpy(given, static_cast<const void *>(std::addressof(body)), sizeof body);
  } else {
    given[0] = reinterpret_cast<unsigned long>(std::addressof(body));
  }
}

template <class Body> void for_all(long count, const Body &body) {
  if (count <= 0)
    return;
  alignas(16) unsigned long given[32] = {};
  packed(body, given);
  if constexpr (goes_by_value<Body, 4> || !goes_by_value<Body, 32>)
    kernel_of_4<Body>(count, given);
  else if constexpr (goes_by_value<Body, 8>)
    kernel_of_8<Body>(count, given);
  else if constexpr (goes_by_value<Body, 16>)
    kernel_of_16<Body>(count, given);
  else
    kernel_of_32<Body>(count, given);
}

// The reduction of a kernel: the threads' partial results need no neutral element, since each knows whether it has any.
template <class T, class Join> struct partial {
  held<Join> join;
  held<T> value;
  bool has;
  void add(const T &other) {
    if (has)
      value.put(T(join.get()(value.get(), other)));
    else
      value.put(other);
    has = true;
  }
  void add(const partial &other) {
    if (other.has)
      add(other.value.get());
  }
  static partial of(const partial &original) {
    partial made;
    made.join = original.join;
    made.has = false;
    return made;
  }
};

template <class T, class Join, class Body> T reduced(long count, T init, Join join, const Body &body) {
  using partial_t = partial<T, Join>;
  partial_t sum;
  sum.join.put(join);
  sum.has = false;
  unsigned long given[32] = {};
  const Body *where = std::addressof(body);
  if constexpr (goes_by_value<Body, 16>)
    packed(body, given);
  else
    given[0] = reinterpret_cast<unsigned long>(where);
#define OFFLOAD_REDUCTION(N, LIST)                                                                                                 \
  {                                                                                                                                \
    unsigned long LIST(w);                                                                                                         \
    unsigned long *const all[] = {LIST(&w)};                                                                                       \
    for (unsigned i = 0; i < N; i++)                                                                                               \
      *all[i] = given[i];                                                                                                          \
    OFFLOAD_PRAGMA(omp declare reduction(joined : partial_t : omp_out.add(omp_in)) initializer(omp_priv = partial_t::of(omp_orig)))\
    OFFLOAD_PRAGMA(omp target teams distribute parallel for firstprivate(LIST(w)) map(tofrom : sum) reduction(joined : sum))       \
    for (long i = 0; i < count; ++i) {                                                                                             \
      alignas(16) unsigned long mine[] = {LIST(w)};                                                                                \
      if constexpr (goes_by_value<Body, 16>)                                                                                       \
        sum.add(T((*std::launder(reinterpret_cast<Body *>(mine)))(i)));                                                            \
      else                                                                                                                         \
        sum.add(T((*reinterpret_cast<Body *>(mine[0]))(i)));                                                                       \
    }                                                                                                                              \
  }
  if (count > 0) {
    if constexpr (goes_by_value<Body, 4> || !goes_by_value<Body, 16>)
      OFFLOAD_REDUCTION(4, OFFLOAD_W4)
    else
      OFFLOAD_REDUCTION(16, OFFLOAD_W16)
  }
  return sum.has ? T(join(init, sum.value.get())) : init;
}

struct least {
  long operator()(long a, long b) const { return a < b ? a : b; }
};

// The first place where a body holds, or `count`.
template <class Body> long first_where(long count, Body body) {
  auto place = [body, count](long i) mutable { return body(i) ? i : count; };
  return reduced<long>(count, count, least(), place);
}

// Blocks of elements come one after another, each from what the one before it has left in `carried`: a scan in one kernel, which
// reads and writes each element once, as one with decoupled look-back does.
enum { BLOCK = 256 };
template <class T> struct carry {
  held<T> value;
  unsigned ready;
};

template <class T, class Body> void chained(long count, const T &init, Body body, T *result) {
  long blocks = (count + BLOCK - 1) / BLOCK;
  scratch<carry<T>> carried(blocks + 1);
  carry<T> *chain = carried.data;
  chain[0].value.put(init);
  chain[0].ready = 1;
  for_all(blocks, [=](long block) mutable {
    while (!__atomic_load_n(&chain[block].ready, __ATOMIC_ACQUIRE)) {
    }
    held<T> state;
    state.put(chain[block].value.get());
    long end = (block + 1) * BLOCK < count ? (block + 1) * BLOCK : count;
    for (long i = block * BLOCK; i < end; ++i)
      body(i, state);
    chain[block + 1].value.put(state.get());
    __atomic_store_n(&chain[block + 1].ready, 1u, __ATOMIC_RELEASE);
  });
  if (result)
    *result = chain[blocks].value.get();
}

// A scan; `each` gives the value of an element.
template <class T> struct scanned {
  held<T> value;
  bool has;
};

template <bool Inclusive, class T, class Out, class Join, class Each>
void scan(long count, bool has_init, const T &init, Out out, Join join, Each each) {
  scanned<T> start;
  start.value.put(init);
  start.has = has_init;
  chained<scanned<T>>(count, start, [=](long i, held<scanned<T>> &state) mutable {
    scanned<T> &sum = state.get();
    T value(each(i));
    if constexpr (!Inclusive)
      at(out, i) = sum.value.get();
    sum.value.put(sum.has ? T(join(sum.value.get(), value)) : value);
    sum.has = true;
    if constexpr (Inclusive)
      at(out, i) = sum.value.get();
  }, nullptr);
}

// Where an element of one sorted range goes when it is merged with another: before equal ones of the second, behind those of the first.
template <class It, class T, class Less> long rank(const It &first, long count, const T &value, Less &less, bool behind_equal) {
  long low = 0, high = count;
  while (low < high) {
    long middle = low + (high - low) / 2;
    if (behind_equal ? !less(value, at(first, middle)) : less(at(first, middle), value))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// A stable merge sort: runs of RUN elements by insertion, then a kernel for each doubling, from one buffer to the other.
enum { RUN = 32 };
template <class It, class To, class Less> void merge_runs(long count, long run, It from, To to, Less less) {
  for_all(count, [=](long i) mutable {
    long begin = i / (2 * run) * (2 * run), middle = begin + run < count ? begin + run : count;
    long end = begin + 2 * run < count ? begin + 2 * run : count;
    value_of<It> value(at(from, i));
    long place = i < middle ? i + rank(moved(from, middle), end - middle, value, less, false)
                            : begin + (i - middle) + rank(moved(from, begin), middle - begin, value, less, true);
    if constexpr (std::is_pointer_v<To>)
      ::new (static_cast<void *>(to + place)) value_of<It>(value);
    else
      at(to, place) = value;
  });
}

template <class It, class Less> void sorted(It first, long count, Less less) {
  using T = value_of<It>;
  for_all((count + RUN - 1) / RUN, [=](long block) mutable {
    long begin = block * RUN, end = begin + RUN < count ? begin + RUN : count;
    for (long i = begin + 1; i < end; ++i) {
      held<T> value;
      value.put(at(first, i));
      long j = i;
      for (; j > begin && less(value.get(), at(first, j - 1)); --j)
        at(first, j) = T(at(first, j - 1));
      at(first, j) = value.get();
    }
  });
  if (count <= RUN)
    return;
  scratch<held<T>> buffer(count);
  T *other = reinterpret_cast<T *>(buffer.data);
  bool is_home = true;
  for (long run = RUN; run < count; run *= 2, is_home = !is_home)
    if (is_home)
      merge_runs(count, run, first, other, less);
    else
      merge_runs(count, run, static_cast<const T *>(other), first, less);
  if (!is_home)
    for_all(count, [=](long i) { at(first, i) = other[i]; });
}

struct equals {
  template <class A, class B> bool operator()(const A &a, const B &b) const { return a == b; }
};
struct less_than {
  template <class A, class B> bool operator()(const A &a, const B &b) const { return a < b; }
};
} // namespace offload_stdpar

// ---- the algorithms ----
// The compiler plugin knows an algorithm by its name in std and by the type of its first parameter. It is not inlined, so that the
// host code around it stays what it was.
#define OFFLOAD_ENTRY __attribute__((noinline))
#define OFFLOAD_SITE const offload_stdpar::call_site site
// The rest of an algorithm: a scope that ends with it, on the device or else on the host.
#define OFFLOAD_IF(...) if constexpr (__VA_ARGS__) if (site.is_parallel())
#define OFFLOAD_HOST(name) offload_stdpar::running host(site, true, name, 0)
#define OFFLOAD_DEVICE(...) offload_stdpar::running device(site, false, __VA_ARGS__)

namespace std {
namespace off = offload_stdpar;

template <class It, class F> OFFLOAD_ENTRY void for_each(OFFLOAD_SITE, It first, It last, F f) {
  OFFLOAD_IF(off::can_index<It>) {
    long count = off::count_of(first, last);
    OFFLOAD_DEVICE("for_each", count, first, f);
    return off::for_all(count, [=](long i) mutable { f(off::at(first, i)); });
  }
  OFFLOAD_HOST("for_each");
  std::for_each(first, last, std::move(f));
}

template <class It, class Size, class F> OFFLOAD_ENTRY It for_each_n(OFFLOAD_SITE, It first, Size n, F f) {
  OFFLOAD_IF(off::can_index<It>) {
    long count = n > 0 ? static_cast<long>(n) : 0;
    OFFLOAD_DEVICE("for_each_n", count, first, f);
    off::for_all(count, [=](long i) mutable { f(off::at(first, i)); });
    return off::moved(first, count);
  }
  OFFLOAD_HOST("for_each_n");
  return std::for_each_n(first, n, std::move(f));
}

// Algorithms that write an element for each that they read.
#define OFFLOAD_MAP(NAME, TEMPLATE, PARAMETERS, GIVEN, CALL, OUT, INDEXED, ...)                                                    \
  template <TEMPLATE> OFFLOAD_ENTRY OUT NAME PARAMETERS {                                                                          \
    OFFLOAD_IF(off::can_index<INDEXED>) {                                                                                          \
      long count = off::count_of(first, last);                                                                                     \
      OFFLOAD_DEVICE(#NAME, count, OFFLOAD_LIST GIVEN);                                                                            \
      off::for_all(count, [=](long i) mutable __VA_ARGS__);                                                                               \
      return off::moved(out, count);                                                                                               \
    }                                                                                                                              \
    OFFLOAD_HOST(#NAME);                                                                                                           \
    return std::NAME CALL;                                                                                                         \
  }
#define OFFLOAD_LIST(...) __VA_ARGS__
#define OFFLOAD_COMMA ,
OFFLOAD_MAP(transform, class It OFFLOAD_COMMA class Out OFFLOAD_COMMA class F, (OFFLOAD_SITE, It first, It last, Out out, F f),
            (first, out, f), (first, last, out, std::move(f)), Out, It OFFLOAD_COMMA Out,
            { off::at(out, i) = f(off::at(first, i)); })
OFFLOAD_MAP(transform, class It OFFLOAD_COMMA class It2 OFFLOAD_COMMA class Out OFFLOAD_COMMA class F,
            (OFFLOAD_SITE, It first, It last, It2 second, Out out, F f), (first, second, out, f),
            (first, last, second, out, std::move(f)), Out, It OFFLOAD_COMMA It2 OFFLOAD_COMMA Out,
            { off::at(out, i) = f(off::at(first, i), off::at(second, i)); })
OFFLOAD_MAP(copy, class It OFFLOAD_COMMA class Out, (OFFLOAD_SITE, It first, It last, Out out), (first, out), (first, last, out),
            Out, It OFFLOAD_COMMA Out, { off::at(out, i) = off::at(first, i); })
OFFLOAD_MAP(move, class It OFFLOAD_COMMA class Out, (OFFLOAD_SITE, It first, It last, Out out), (first, out), (first, last, out),
            Out, It OFFLOAD_COMMA Out, { off::at(out, i) = std::move(off::at(first, i)); })
OFFLOAD_MAP(replace_copy, class It OFFLOAD_COMMA class Out OFFLOAD_COMMA class T,
            (OFFLOAD_SITE, It first, It last, Out out, const T &from, const T &to), (first, out), (first, last, out, from, to), Out,
            It OFFLOAD_COMMA Out, {
              if (off::at(first, i) == from)
                off::at(out, i) = to;
              else
                off::at(out, i) = off::at(first, i);
            })
OFFLOAD_MAP(replace_copy_if, class It OFFLOAD_COMMA class Out OFFLOAD_COMMA class P OFFLOAD_COMMA class T,
            (OFFLOAD_SITE, It first, It last, Out out, P p, const T &to), (first, out, p), (first, last, out, p, to), Out,
            It OFFLOAD_COMMA Out, {
              if (p(off::at(first, i)))
                off::at(out, i) = to;
              else
                off::at(out, i) = off::at(first, i);
            })
OFFLOAD_MAP(reverse_copy, class It OFFLOAD_COMMA class Out, (OFFLOAD_SITE, It first, It last, Out out), (first, out),
            (first, last, out), Out, It OFFLOAD_COMMA Out, { off::at(out, count - 1 - i) = off::at(first, i); })
OFFLOAD_MAP(swap_ranges, class It OFFLOAD_COMMA class Out, (OFFLOAD_SITE, It first, It last, Out out), (first, out),
            (first, last, out), Out, It OFFLOAD_COMMA Out, {
              using std::swap;
              swap(off::at(first, i), off::at(out, i));
            })
OFFLOAD_MAP(adjacent_difference, class It OFFLOAD_COMMA class Out OFFLOAD_COMMA class F,
            (OFFLOAD_SITE, It first, It last, Out out, F f), (first, out, f), (first, last, out, f), Out, It OFFLOAD_COMMA Out, {
              if (i)
                off::at(out, i) = f(off::at(first, i), off::at(first, i - 1));
              else
                off::at(out, i) = off::at(first, i);
            })
template <class It, class Out> Out adjacent_difference(OFFLOAD_SITE, It first, It last, Out out) {
  return std::adjacent_difference(site, first, last, out, std::minus<>());
}

template <class It, class Size, class Out> OFFLOAD_ENTRY Out copy_n(OFFLOAD_SITE, It first, Size n, Out out) {
  OFFLOAD_IF(off::can_index<It, Out>) {
    long count = n > 0 ? static_cast<long>(n) : 0;
    OFFLOAD_DEVICE("copy_n", count, first, out);
    off::for_all(count, [=](long i) { off::at(out, i) = off::at(first, i); });
    return off::moved(out, count);
  }
  OFFLOAD_HOST("copy_n");
  return std::copy_n(first, n, out);
}

// Algorithms that write a range; `value` and others are copied into the kernel.
#define OFFLOAD_WRITE(NAME, TEMPLATE, PARAMETERS, GIVEN, CALL, COPIES, ...)                                                       \
  template <TEMPLATE> OFFLOAD_ENTRY void NAME PARAMETERS {                                                                         \
    OFFLOAD_IF(off::can_index<It>) {                                                                                               \
      long count = off::count_of(first, last);                                                                                     \
      OFFLOAD_DEVICE(#NAME, count, OFFLOAD_LIST GIVEN);                                                                            \
      return off::for_all(count, [OFFLOAD_LIST COPIES](long i) mutable __VA_ARGS__);                                                      \
    }                                                                                                                              \
    OFFLOAD_HOST(#NAME);                                                                                                           \
    std::NAME CALL;                                                                                                                \
  }
#define OFFLOAD_WRITE_N(NAME, TEMPLATE, PARAMETERS, GIVEN, CALL, COPIES, ...)                                                     \
  template <TEMPLATE> OFFLOAD_ENTRY It NAME PARAMETERS {                                                                           \
    OFFLOAD_IF(off::can_index<It>) {                                                                                               \
      long count = n > 0 ? static_cast<long>(n) : 0;                                                                               \
      OFFLOAD_DEVICE(#NAME, count, OFFLOAD_LIST GIVEN);                                                                            \
      off::for_all(count, [OFFLOAD_LIST COPIES](long i) mutable __VA_ARGS__);                                                             \
      return off::moved(first, count);                                                                                             \
    }                                                                                                                              \
    OFFLOAD_HOST(#NAME);                                                                                                           \
    return std::NAME CALL;                                                                                                         \
  }
OFFLOAD_WRITE(fill, class It OFFLOAD_COMMA class T, (OFFLOAD_SITE, It first, It last, const T &value), (first),
              (first, last, value), (=), { off::at(first, i) = value; })
OFFLOAD_WRITE(generate, class It OFFLOAD_COMMA class G, (OFFLOAD_SITE, It first, It last, G g), (first, g), (first, last, g), (=),
              { off::at(first, i) = g(); })
OFFLOAD_WRITE(replace, class It OFFLOAD_COMMA class T, (OFFLOAD_SITE, It first, It last, const T &from, const T &to), (first),
              (first, last, from, to), (=), {
                if (off::at(first, i) == from)
                  off::at(first, i) = to;
              })
OFFLOAD_WRITE(replace_if, class It OFFLOAD_COMMA class P OFFLOAD_COMMA class T,
              (OFFLOAD_SITE, It first, It last, P p, const T &to), (first, p), (first, last, p, to), (=), {
                if (p(off::at(first, i)))
                  off::at(first, i) = to;
              })
OFFLOAD_WRITE_N(fill_n, class It OFFLOAD_COMMA class Size OFFLOAD_COMMA class T, (OFFLOAD_SITE, It first, Size n, const T &value),
                (first), (first, n, value), (=), { off::at(first, i) = value; })
OFFLOAD_WRITE_N(generate_n, class It OFFLOAD_COMMA class Size OFFLOAD_COMMA class G, (OFFLOAD_SITE, It first, Size n, G g),
                (first, g), (first, n, g), (=), { off::at(first, i) = g(); })

template <class It> OFFLOAD_ENTRY void reverse(OFFLOAD_SITE, It first, It last) {
  OFFLOAD_IF(off::can_index<It>) {
    long count = off::count_of(first, last);
    OFFLOAD_DEVICE("reverse", count, first);
    return off::for_all(count / 2, [=](long i) {
      using std::swap;
      swap(off::at(first, i), off::at(first, count - 1 - i));
    });
  }
  OFFLOAD_HOST("reverse");
  std::reverse(first, last);
}

template <class It, class Out, class P> OFFLOAD_ENTRY Out copy_if(OFFLOAD_SITE, It first, It last, Out out, P p) {
  OFFLOAD_IF(off::can_index<It, Out>) {
    long count = off::count_of(first, last), kept = 0;
    OFFLOAD_DEVICE("copy_if", count, first, out, p);
    off::chained<long>(count, 0L, [=](long i, off::held<long> &place) mutable {
      if (p(off::at(first, i)))
        off::at(out, place.get()++) = off::at(first, i);
    }, &kept);
    return off::moved(out, kept);
  }
  OFFLOAD_HOST("copy_if");
  return std::copy_if(first, last, out, std::move(p));
}

// Algorithms that return what they have found.
#define OFFLOAD_FIND(NAME, RETURNS, PARAMETERS, TEMPLATE, GIVEN, CALL, INDEXED, ...)                                               \
  template <TEMPLATE> OFFLOAD_ENTRY RETURNS NAME PARAMETERS {                                                                      \
    OFFLOAD_IF(off::can_index<INDEXED>) {                                                                                          \
      long count = off::count_of(first, last);                                                                                     \
      OFFLOAD_DEVICE(#NAME, count, OFFLOAD_LIST GIVEN);                                                                            \
      __VA_ARGS__                                                                                                                  \
    }                                                                                                                              \
    OFFLOAD_HOST(#NAME);                                                                                                           \
    return std::NAME CALL;                                                                                                         \
  }
#define OFFLOAD_FIRST(...) off::first_where(count, [=](long i) mutable { return static_cast<bool>(__VA_ARGS__); })
OFFLOAD_FIND(any_of, bool, (OFFLOAD_SITE, It first, It last, P p), class It OFFLOAD_COMMA class P, (first, p), (first, last, p), It,
             return OFFLOAD_FIRST(p(off::at(first, i))) < count;)
OFFLOAD_FIND(all_of, bool, (OFFLOAD_SITE, It first, It last, P p), class It OFFLOAD_COMMA class P, (first, p), (first, last, p), It,
             return OFFLOAD_FIRST(!p(off::at(first, i))) == count;)
OFFLOAD_FIND(none_of, bool, (OFFLOAD_SITE, It first, It last, P p), class It OFFLOAD_COMMA class P, (first, p), (first, last, p), It,
             return OFFLOAD_FIRST(p(off::at(first, i))) == count;)
OFFLOAD_FIND(find, It, (OFFLOAD_SITE, It first, It last, const T &value), class It OFFLOAD_COMMA class T, (first),
             (first, last, value), It, return off::moved(first, OFFLOAD_FIRST(off::at(first, i) == value));)
OFFLOAD_FIND(find_if, It, (OFFLOAD_SITE, It first, It last, P p), class It OFFLOAD_COMMA class P, (first, p), (first, last, p), It,
             return off::moved(first, OFFLOAD_FIRST(p(off::at(first, i))));)
OFFLOAD_FIND(find_if_not, It, (OFFLOAD_SITE, It first, It last, P p), class It OFFLOAD_COMMA class P, (first, p), (first, last, p),
             It, return off::moved(first, OFFLOAD_FIRST(!p(off::at(first, i))));)
OFFLOAD_FIND(is_partitioned, bool, (OFFLOAD_SITE, It first, It last, P p), class It OFFLOAD_COMMA class P, (first, p),
             (first, last, p), It, return OFFLOAD_FIRST(i > 0 && p(off::at(first, i)) && !p(off::at(first, i - 1))) == count;)
OFFLOAD_FIND(is_sorted_until, It, (OFFLOAD_SITE, It first, It last, C c), class It OFFLOAD_COMMA class C, (first, c),
             (first, last, c), It, return off::moved(first, OFFLOAD_FIRST(i > 0 && c(off::at(first, i), off::at(first, i - 1))));)
OFFLOAD_FIND(is_sorted, bool, (OFFLOAD_SITE, It first, It last, C c), class It OFFLOAD_COMMA class C, (first, c), (first, last, c),
             It, return OFFLOAD_FIRST(i > 0 && c(off::at(first, i), off::at(first, i - 1))) == count;)
OFFLOAD_FIND(adjacent_find, It, (OFFLOAD_SITE, It first, It last, P p), class It OFFLOAD_COMMA class P, (first, p), (first, last, p),
             It, {
               long place = OFFLOAD_FIRST(i + 1 < count && p(off::at(first, i), off::at(first, i + 1)));
               return off::moved(first, place);
             })
template <class It> bool is_sorted(OFFLOAD_SITE, It first, It last) { return std::is_sorted(site, first, last, off::less_than()); }
template <class It> It is_sorted_until(OFFLOAD_SITE, It first, It last) {
  return std::is_sorted_until(site, first, last, off::less_than());
}
template <class It> It adjacent_find(OFFLOAD_SITE, It first, It last) { return std::adjacent_find(site, first, last, off::equals()); }

#define OFFLOAD_COUNT(...)                                                                                                         \
  return static_cast<typename iterator_traits<It>::difference_type>(                                                              \
      off::reduced<long>(count, 0L, std::plus<long>(), [=](long i) mutable { return static_cast<long>(__VA_ARGS__ ? 1 : 0); }));
OFFLOAD_FIND(count, typename iterator_traits<It>::difference_type, (OFFLOAD_SITE, It first, It last, const T &value),
             class It OFFLOAD_COMMA class T, (first), (first, last, value), It, OFFLOAD_COUNT((off::at(first, i) == value)))
OFFLOAD_FIND(count_if, typename iterator_traits<It>::difference_type, (OFFLOAD_SITE, It first, It last, P p),
             class It OFFLOAD_COMMA class P, (first, p), (first, last, p), It, OFFLOAD_COUNT(p(off::at(first, i))))

template <class It, class It2, class P> OFFLOAD_ENTRY bool equal(OFFLOAD_SITE, It first, It last, It2 second, It2 end, P p) {
  OFFLOAD_IF(off::can_index<It, It2>) {
    long count = off::count_of(first, last);
    OFFLOAD_DEVICE("equal", count, first, second, p);
    return count == off::count_of(second, end) && OFFLOAD_FIRST(!p(off::at(first, i), off::at(second, i))) == count;
  }
  OFFLOAD_HOST("equal");
  return std::equal(first, last, second, end, p);
}
OFFLOAD_FIND(equal, bool, (OFFLOAD_SITE, It first, It last, It2 second, P p),
             class It OFFLOAD_COMMA class It2 OFFLOAD_COMMA class P OFFLOAD_COMMA class = enable_if_t<!is_same_v<It2 OFFLOAD_COMMA P>>,
             (first, second, p), (first, last, second, p), It OFFLOAD_COMMA It2,
             return OFFLOAD_FIRST(!p(off::at(first, i), off::at(second, i))) == count;)
template <class It, class It2> bool equal(OFFLOAD_SITE, It first, It last, It2 second) {
  return std::equal(site, first, last, second, off::equals());
}
template <class It, class It2> bool equal(OFFLOAD_SITE, It first, It last, It2 second, It2 end) {
  return std::equal(site, first, last, second, end, off::equals());
}
OFFLOAD_FIND(mismatch, pair<It OFFLOAD_COMMA It2>, (OFFLOAD_SITE, It first, It last, It2 second, P p),
             class It OFFLOAD_COMMA class It2 OFFLOAD_COMMA class P OFFLOAD_COMMA class = enable_if_t<!is_same_v<It2 OFFLOAD_COMMA P>>,
             (first, second, p), (first, last, second, p), It OFFLOAD_COMMA It2, {
               long place = OFFLOAD_FIRST(!p(off::at(first, i), off::at(second, i)));
               return {off::moved(first, place), off::moved(second, place)};
             })
template <class It, class It2> pair<It, It2> mismatch(OFFLOAD_SITE, It first, It last, It2 second) {
  return std::mismatch(site, first, last, second, off::equals());
}
template <class It, class It2, class... P> OFFLOAD_ENTRY pair<It, It2> mismatch(OFFLOAD_SITE, It first, It last, It2 second, It2 end, P... p) {
  OFFLOAD_HOST("mismatch");
  return std::mismatch(first, last, second, end, p...);
}

// The smallest or largest element: the first of equal ones, but the last for the larger part of minmax_element.
#define OFFLOAD_EXTREME(NAME, BETTER)                                                                                              \
  template <class It, class C> OFFLOAD_ENTRY It NAME(OFFLOAD_SITE, It first, It last, C c) {                                       \
    OFFLOAD_IF(off::can_index<It>) {                                                                                               \
      long count = off::count_of(first, last);                                                                                     \
      OFFLOAD_DEVICE(#NAME, count, first, c);                                                                                      \
      auto better = [=](long a, long b) mutable {                                                                                  \
        if (a > b)                                                                                                                 \
          std::swap(a, b);                                                                                                         \
        return BETTER ? b : a;                                                                                                     \
      };                                                                                                                           \
      return off::moved(first, off::reduced<long>(count, 0L, better, [](long i) { return i; }));                                   \
    }                                                                                                                              \
    OFFLOAD_HOST(#NAME);                                                                                                           \
    return std::NAME(first, last, c);                                                                                              \
  }                                                                                                                                \
  template <class It> It NAME(OFFLOAD_SITE, It first, It last) { return std::NAME(site, first, last, off::less_than()); }
OFFLOAD_EXTREME(min_element, c(off::at(first, b), off::at(first, a)))
OFFLOAD_EXTREME(max_element, c(off::at(first, a), off::at(first, b)))

namespace offload_pairs {
struct extremes {
  long low, high;
};
} // namespace offload_pairs
template <class It, class C> OFFLOAD_ENTRY pair<It, It> minmax_element(OFFLOAD_SITE, It first, It last, C c) {
  OFFLOAD_IF(off::can_index<It>) {
    using offload_pairs::extremes;
    long count = off::count_of(first, last);
    OFFLOAD_DEVICE("minmax_element", count, first, c);
    auto both = [=](extremes a, extremes b) mutable {
      long low1 = a.low < b.low ? a.low : b.low, low2 = a.low < b.low ? b.low : a.low;
      long high1 = a.high < b.high ? a.high : b.high, high2 = a.high < b.high ? b.high : a.high;
      return extremes{c(off::at(first, low2), off::at(first, low1)) ? low2 : low1,
                      c(off::at(first, high2), off::at(first, high1)) ? high1 : high2};
    };
    extremes found = off::reduced<extremes>(count, extremes{0, 0}, both, [](long i) { return extremes{i, i}; });
    return {off::moved(first, found.low), off::moved(first, found.high)};
  }
  OFFLOAD_HOST("minmax_element");
  return std::minmax_element(first, last, c);
}
template <class It> pair<It, It> minmax_element(OFFLOAD_SITE, It first, It last) {
  return std::minmax_element(site, first, last, off::less_than());
}

// Sorting and merging
#define OFFLOAD_SORT(NAME)                                                                                                         \
  template <class It, class C> OFFLOAD_ENTRY void NAME(OFFLOAD_SITE, It first, It last, C c) {                                     \
    OFFLOAD_IF(off::can_index<It> &&off::kernel_value<off::value_of<It>>) {                                                        \
      long count = off::count_of(first, last);                                                                                     \
      OFFLOAD_DEVICE(#NAME, count, first, c);                                                                                      \
      return off::sorted(first, count, c);                                                                                         \
    }                                                                                                                              \
    OFFLOAD_HOST(#NAME);                                                                                                           \
    std::NAME(first, last, c);                                                                                                     \
  }                                                                                                                                \
  template <class It> void NAME(OFFLOAD_SITE, It first, It last) { std::NAME(site, first, last, off::less_than()); }
OFFLOAD_SORT(sort)
OFFLOAD_SORT(stable_sort)

template <class It, class It2, class Out, class C>
OFFLOAD_ENTRY Out merge(OFFLOAD_SITE, It first, It last, It2 second, It2 end, Out out, C c) {
  OFFLOAD_IF(off::can_index<It, It2, Out>) {
    long one = off::count_of(first, last), two = off::count_of(second, end);
    OFFLOAD_DEVICE("merge", one + two, first, second, out, c);
    off::for_all(one + two, [=](long i) mutable {
      if (i < one)
        off::at(out, i + off::rank(second, two, off::at(first, i), c, false)) = off::at(first, i);
      else
        off::at(out, i - one + off::rank(first, one, off::at(second, i - one), c, true)) = off::at(second, i - one);
    });
    return off::moved(out, one + two);
  }
  OFFLOAD_HOST("merge");
  return std::merge(first, last, second, end, out, c);
}
template <class It, class It2, class Out> Out merge(OFFLOAD_SITE, It first, It last, It2 second, It2 end, Out out) {
  return std::merge(site, first, last, second, end, out, off::less_than());
}

// Reductions
template <class It, class T, class R> OFFLOAD_ENTRY T reduce(OFFLOAD_SITE, It first, It last, T init, R r) {
  OFFLOAD_IF(off::can_index<It> &&off::kernel_value<T>) {
    long count = off::count_of(first, last);
    OFFLOAD_DEVICE("reduce", count, first, r);
    return off::reduced<T>(count, init, r, [=](long i) -> T { return T(off::at(first, i)); });
  }
  OFFLOAD_HOST("reduce");
  return std::reduce(first, last, std::move(init), r);
}
template <class It, class T> T reduce(OFFLOAD_SITE, It first, It last, T init) {
  return std::reduce(site, first, last, std::move(init), std::plus<>());
}
template <class It> typename iterator_traits<It>::value_type reduce(OFFLOAD_SITE, It first, It last) {
  return std::reduce(site, first, last, typename iterator_traits<It>::value_type{}, std::plus<>());
}

template <class It, class T, class R, class U>
OFFLOAD_ENTRY T transform_reduce(OFFLOAD_SITE, It first, It last, T init, R r, U u) {
  OFFLOAD_IF(off::can_index<It> &&off::kernel_value<T>) {
    long count = off::count_of(first, last);
    OFFLOAD_DEVICE("transform_reduce", count, first, r, u);
    return off::reduced<T>(count, init, r, [=](long i) mutable -> T { return T(u(off::at(first, i))); });
  }
  OFFLOAD_HOST("transform_reduce");
  return std::transform_reduce(first, last, std::move(init), r, u);
}
template <class It, class It2, class T, class R, class U>
OFFLOAD_ENTRY T transform_reduce(OFFLOAD_SITE, It first, It last, It2 second, T init, R r, U u) {
  OFFLOAD_IF(off::can_index<It, It2> &&off::kernel_value<T>) {
    long count = off::count_of(first, last);
    OFFLOAD_DEVICE("transform_reduce", count, first, second, r, u);
    return off::reduced<T>(count, init, r, [=](long i) mutable -> T { return T(u(off::at(first, i), off::at(second, i))); });
  }
  OFFLOAD_HOST("transform_reduce");
  return std::transform_reduce(first, last, second, std::move(init), r, u);
}
template <class It, class It2, class T> T transform_reduce(OFFLOAD_SITE, It first, It last, It2 second, T init) {
  return std::transform_reduce(site, first, last, second, std::move(init), std::plus<>(), std::multiplies<>());
}

// Scans
#define OFFLOAD_SCAN(NAME, TEMPLATE, PARAMETERS, GIVEN, CALL, TYPE, INCLUSIVE, HAS_INIT, INIT, EACH)                               \
  template <class It, class Out, TEMPLATE> OFFLOAD_ENTRY Out NAME PARAMETERS {                                                     \
    using T_ = TYPE;                                                                                                               \
    OFFLOAD_IF(off::can_index<It, Out> &&off::kernel_value<T_>) {                                                                  \
      long count = off::count_of(first, last);                                                                                     \
      OFFLOAD_DEVICE(#NAME, count, OFFLOAD_LIST GIVEN);                                                                            \
      off::scanned<T_> none;                                                                                                       \
      if constexpr (HAS_INIT)                                                                                                      \
        none.value.put(INIT);                                                                                                      \
      off::scan<INCLUSIVE, T_>(count, HAS_INIT, none.value.get(), out, r, [=](long i) mutable -> T_ { return T_(EACH); });         \
      return off::moved(out, count);                                                                                               \
    }                                                                                                                              \
    OFFLOAD_HOST(#NAME);                                                                                                           \
    return std::NAME CALL;                                                                                                         \
  }
OFFLOAD_SCAN(exclusive_scan, class T OFFLOAD_COMMA class R, (OFFLOAD_SITE, It first, It last, Out out, T init, R r), (first, out, r),
             (first, last, out, init, r), T, false, true, init, off::at(first, i))
OFFLOAD_SCAN(inclusive_scan, class R, (OFFLOAD_SITE, It first, It last, Out out, R r), (first, out, r), (first, last, out, r),
             off::value_of<It>, true, false, 0, off::at(first, i))
OFFLOAD_SCAN(inclusive_scan, class R OFFLOAD_COMMA class T, (OFFLOAD_SITE, It first, It last, Out out, R r, T init), (first, out, r),
             (first, last, out, r, init), T, true, true, init, off::at(first, i))
OFFLOAD_SCAN(transform_exclusive_scan, class T OFFLOAD_COMMA class R OFFLOAD_COMMA class U,
             (OFFLOAD_SITE, It first, It last, Out out, T init, R r, U u), (first, out, r, u), (first, last, out, init, r, u), T, false,
             true, init, u(off::at(first, i)))
OFFLOAD_SCAN(transform_inclusive_scan, class R OFFLOAD_COMMA class U, (OFFLOAD_SITE, It first, It last, Out out, R r, U u),
             (first, out, r, u), (first, last, out, r, u), decay_t<decltype(u(*first))>, true, false, 0, u(off::at(first, i)))
OFFLOAD_SCAN(transform_inclusive_scan, class R OFFLOAD_COMMA class U OFFLOAD_COMMA class T,
             (OFFLOAD_SITE, It first, It last, Out out, R r, U u, T init), (first, out, r, u), (first, last, out, r, u, init), T, true,
             true, init, u(off::at(first, i)))
template <class It, class Out, class T> Out exclusive_scan(OFFLOAD_SITE, It first, It last, Out out, T init) {
  return std::exclusive_scan(site, first, last, out, init, std::plus<>());
}
template <class It, class Out> Out inclusive_scan(OFFLOAD_SITE, It first, It last, Out out) {
  return std::inclusive_scan(site, first, last, out, std::plus<>());
}

// ---- on the host ----
#define OFFLOAD_ON_HOST(NAME)                                                                                                      \
  template <class... Arguments>                                                                                                    \
  OFFLOAD_ENTRY auto NAME(OFFLOAD_SITE, Arguments... arguments)->decltype(std::NAME(arguments...)) {                               \
    OFFLOAD_HOST(#NAME);                                                                                                           \
    return std::NAME(std::move(arguments)...);                                                                                     \
  }
OFFLOAD_ON_HOST(find_end)
OFFLOAD_ON_HOST(find_first_of)
OFFLOAD_ON_HOST(search)
OFFLOAD_ON_HOST(search_n)
OFFLOAD_ON_HOST(remove)
OFFLOAD_ON_HOST(remove_if)
OFFLOAD_ON_HOST(remove_copy)
OFFLOAD_ON_HOST(remove_copy_if)
OFFLOAD_ON_HOST(unique)
OFFLOAD_ON_HOST(unique_copy)
OFFLOAD_ON_HOST(rotate)
OFFLOAD_ON_HOST(rotate_copy)
OFFLOAD_ON_HOST(partition)
OFFLOAD_ON_HOST(stable_partition)
OFFLOAD_ON_HOST(partition_copy)
OFFLOAD_ON_HOST(partial_sort)
OFFLOAD_ON_HOST(partial_sort_copy)
OFFLOAD_ON_HOST(nth_element)
OFFLOAD_ON_HOST(inplace_merge)
OFFLOAD_ON_HOST(includes)
OFFLOAD_ON_HOST(set_union)
OFFLOAD_ON_HOST(set_intersection)
OFFLOAD_ON_HOST(set_difference)
OFFLOAD_ON_HOST(set_symmetric_difference)
OFFLOAD_ON_HOST(is_heap)
OFFLOAD_ON_HOST(is_heap_until)
OFFLOAD_ON_HOST(lexicographical_compare)
OFFLOAD_ON_HOST(uninitialized_copy)
OFFLOAD_ON_HOST(uninitialized_copy_n)
OFFLOAD_ON_HOST(uninitialized_move)
OFFLOAD_ON_HOST(uninitialized_move_n)
OFFLOAD_ON_HOST(uninitialized_fill)
OFFLOAD_ON_HOST(uninitialized_fill_n)
OFFLOAD_ON_HOST(uninitialized_default_construct)
OFFLOAD_ON_HOST(uninitialized_default_construct_n)
OFFLOAD_ON_HOST(uninitialized_value_construct)
OFFLOAD_ON_HOST(uninitialized_value_construct_n)
OFFLOAD_ON_HOST(destroy)
OFFLOAD_ON_HOST(destroy_n)
#if __cplusplus > 201703L
OFFLOAD_ON_HOST(shift_left)
OFFLOAD_ON_HOST(shift_right)
#endif
} // namespace std

/* The parallel algorithms of a C++ program: algorithms/offload_algorithms.hpp tells of each call. Its kernels are calls inside of it. */
#include "calls.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 1 << 12, MOST_POINTERS = 32, LOWEST = 1 << 16 };
#define HIGHEST (1ull << 47)

typedef struct {
  const char *algorithm, *file;
  uint64_t line;
  char *text; /* ";FILE;ALGORITHM;LINE;0;;" */
} place_name_t;

/* Returns the text of a place, always at the same address, for a string is noted by its address. Called inside the recorder. */
static const char *text_of(const char *algorithm, const char *file, uint64_t line) {
  static place_name_t known[PLACES];
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  size_t at = (((uint64_t)algorithm ^ (uint64_t)file * 31 ^ line * 0x9e3779b1u) * 0x9e3779b97f4a7c15u >> 40) % PLACES;
  pthread_mutex_lock(&mutex);
  for (size_t tried = 0; tried < PLACES && known[at].text; tried++, at = (at + 1) % PLACES)
    if (known[at].algorithm == algorithm && known[at].file == file && known[at].line == line)
      goto done;
  if (!known[at].text) {
    size_t bytes = strlen(algorithm) + strlen(file) + 32;
    known[at] = (place_name_t){algorithm, file, line, malloc(bytes)};
    snprintf(known[at].text, bytes, ";%s;%s;%llu;0;;", file, algorithm, (unsigned long long)line);
  }
done:
  pthread_mutex_unlock(&mutex);
  return known[at].text;
}

static bool is_on_stack(uint64_t address) {
  static __thread uint64_t low, high;
  if (!high) {
    pthread_attr_t attributes;
    void *begin;
    size_t bytes;
    high = 1;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
      if (!pthread_attr_getstack(&attributes, &begin, &bytes))
        low = (uint64_t)begin, high = low + bytes;
      pthread_attr_destroy(&attributes);
    }
  }
  return address >= low && address < high;
}

/* Called by an algorithm as it begins. Its first arguments are the elements, the policy, whether it runs on the host, how many
 * words of its arguments may be pointers, and a bit for each of these that points into the thread's stack; then the words. */
EXPORT uint64_t offload_recorder_algorithm(const char *algorithm, const char *file, uint32_t line, uint32_t policy, uint32_t on_host,
                                           int64_t count, uint64_t words, uint32_t word_count, uint64_t outer);
EXPORT uint64_t offload_recorder_algorithm(const char *algorithm, const char *file, uint32_t line, uint32_t policy, uint32_t on_host,
                                           int64_t count, uint64_t words_at, uint32_t word_count, uint64_t outer_at) {
  const uint64_t *words = (const uint64_t *)words_at;
  thread_t *thread = this_thread();
  if (thread->inside)
    return 0;
  thread->inside = true;
  uint64_t given[5 + MOST_POINTERS] = {(uint64_t)count, policy, on_host, 0, 0};
  uint64_t *pointers = given + 3, *stack = given + 4;
  for (uint32_t i = 0; i < word_count && *pointers < MOST_POINTERS; i++) {
    if (words[i] < LOWEST || words[i] >= HIGHEST)
      continue;
    *stack |= (uint64_t)is_on_stack(words[i]) << *pointers;
    given[5 + (*pointers)++] = words[i];
    is_given(words[i], false);
  }
  uint32_t used = 5 + (uint32_t)*pointers;
  call_t call = call_begin(CALL_ALGORITHM, text_of(algorithm, file, line), -1, (used + WORDS - 1) / WORDS);
  if (call.id)
    put_arguments(given, used);
  if (on_host) { /* what it does then is the host's own work */
    call_end(call, 0);
    call.id = 0;
  }
  thread->has_algorithm = true;
  *(uint64_t *)outer_at = call.outer;
  thread->inside = false;
  return call.id;
}

EXPORT void offload_recorder_algorithm_end(uint64_t id, uint64_t outer);
EXPORT void offload_recorder_algorithm_end(uint64_t id, uint64_t outer) {
  call_end((call_t){.id = id, .outer = outer, .function = CALL_ALGORITHM}, 0);
}

/* Memory of the algorithm's own: kernels use it, but the program did not allocate it. */
EXPORT void offload_recorder_scratch(uint64_t block, size_t bytes, uint32_t is_begin);
EXPORT void offload_recorder_scratch(uint64_t block, size_t bytes, uint32_t is_begin) {
  thread_t *thread = this_thread();
  if (!recording() || thread->inside)
    return;
  thread->inside = true;
  note_scratch((void *)block, bytes, is_begin);
  thread->inside = false;
}

/* Called where the compiler of AdaptiveCpp puts the barrier of algorithms before (plugin/elision.cpp): `what` is an enum stop. */
EXPORT void offload_recorder_stops(const char *where, uint32_t what);
EXPORT void offload_recorder_stops(const char *where, uint32_t what) {
  thread_t *thread = this_thread();
  if (!recording() || thread->inside || thread->call || !thread->has_algorithm)
    return;
  thread->has_algorithm = false;
  thread->inside = true;
  call_t call = call_begin(CALL_STOP, where, -1, 1);
  if (call.id)
    put_arguments((uint64_t[]){what}, 1);
  call_end(call, 0);
  thread->inside = false;
}

void note_scratch(void *block, size_t bytes, bool is_begin) {
  slot_t *slot = next_slot();
  slot->word[0] = now();
  slot->word[1] = (uint64_t)block;
  slot->word[2] = bytes;
  end_slot(slot, is_begin ? SLOT_ALLOC : SLOT_FREE, is_begin ? SCRATCH : FREES, 0);
  if (is_begin)
    array_allocated((uint64_t)block, (uint64_t)block, bytes, false);
  else
    array_freed((uint64_t)block);
}

/* The device memory routines of OpenMP (omp_target_alloc and others), interposed. */
#include "calls.h"
#include <stdatomic.h>

#define ARGUMENTS(...) ((uint64_t[]){__VA_ARGS__}), sizeof((uint64_t[]){__VA_ARGS__}) / 8
#define WORD(value) ((uint64_t)(int64_t)(value))
#define ADDRESS(value) ((uint64_t)(value))

/* Called by instrumented code before it calls a routine. */
EXPORT void offload_recorder_calls(const char *where);
EXPORT void offload_recorder_calls(const char *where) { this_thread()->called_at = where; }

/* Called by instrumented code at a read of a thread's own variable that nobody has written: see unset.cpp of the plugin. */
EXPORT void offload_recorder_unset(const char *name, const char *file, uint32_t line);
EXPORT void offload_recorder_unset(const char *name, const char *file, uint32_t line) {
  static _Atomic(uint64_t) noted[256]; /* a read is told once; one that has another's place again */
  uint64_t read = ((uintptr_t)name << 20) ^ ((uintptr_t)file << 8) ^ line;
  thread_t *thread = this_thread();
  if (thread->inside || !tracks_bytes() || !recording() || atomic_exchange(&noted[(read ^ read >> 20) % 256], read) == read)
    return;
  thread->inside = true;
  line_begin("unset");
  line_text("name", name);
  line_text("file", file);
  line_number("line", line);
  line_number("thread", thread->number);
  line_end();
  thread->inside = false;
}

static const char *take_place(void) {
  const char *place = this_thread()->called_at;
  this_thread()->called_at = NULL; /* code that is not instrumented may make the next call */
  return place;
}

static call_t routine_begin(enum function function, int device, const uint64_t *arguments, uint32_t count) {
  call_t call = call_begin(function, take_place(), device, 1);
  if (call.id)
    put_arguments(arguments, count);
  return call;
}

EXPORT void *omp_target_alloc(size_t size, int device) {
  REAL(omp_target_alloc);
  call_t call = routine_begin(CALL_TARGET_ALLOC, device, ARGUMENTS(size, WORD(device)));
  void *result = real(size, device);
  call_end(call, ADDRESS(result));
  return result;
}

EXPORT void omp_target_free(void *pointer, int device) {
  REAL(omp_target_free);
  call_t call = routine_begin(CALL_TARGET_FREE, device, ARGUMENTS(ADDRESS(pointer), WORD(device)));
  real(pointer, device);
  call_end(call, 0);
}

EXPORT int omp_target_is_present(const void *pointer, int device) {
  REAL(omp_target_is_present);
  call_t call = routine_begin(CALL_IS_PRESENT, device, ARGUMENTS(ADDRESS(pointer), WORD(device)));
  int result = real(pointer, device);
  call_end(call, WORD(result));
  return result;
}

EXPORT int omp_target_is_accessible(const void *pointer, size_t size, int device) {
  REAL(omp_target_is_accessible);
  call_t call = routine_begin(CALL_IS_ACCESSIBLE, device, ARGUMENTS(ADDRESS(pointer), size, WORD(device)));
  int result = real(pointer, size, device);
  call_end(call, WORD(result));
  return result;
}

EXPORT void *omp_get_mapped_ptr(const void *pointer, int device) {
  REAL(omp_get_mapped_ptr);
  call_t call = routine_begin(CALL_MAPPED_PTR, device, ARGUMENTS(ADDRESS(pointer), WORD(device)));
  void *result = real(pointer, device);
  call_end(call, ADDRESS(result));
  return result;
}

EXPORT int omp_target_associate_ptr(const void *host, const void *target, size_t size, size_t offset, int device) {
  REAL(omp_target_associate_ptr);
  call_t call = routine_begin(CALL_ASSOCIATE, device,
                              ARGUMENTS(ADDRESS(host), ADDRESS(target), size, offset, WORD(device)));
  int result = real(host, target, size, offset, device);
  call_end(call, WORD(result));
  return result;
}

EXPORT int omp_target_disassociate_ptr(const void *pointer, int device) {
  REAL(omp_target_disassociate_ptr);
  call_t call = routine_begin(CALL_DISASSOCIATE, device, ARGUMENTS(ADDRESS(pointer), WORD(device)));
  int result = real(pointer, device);
  call_end(call, WORD(result));
  return result;
}

extern int omp_get_initial_device(void) __attribute__((weak));

static void note_host_side(call_t call, const void *pointer, size_t offset, size_t length, int device) {
  if (call.id && length && (device < 0 || (omp_get_initial_device && device == omp_get_initial_device())))
    note_host_memory(ADDRESS(pointer) + offset, length);
}

EXPORT int omp_target_memcpy(void *to, const void *from, size_t length, size_t to_offset, size_t from_offset,
                             int to_device, int from_device) {
  REAL(omp_target_memcpy);
  call_t call = routine_begin(CALL_MEMCPY, to_device,
                              ARGUMENTS(ADDRESS(to), ADDRESS(from), length, to_offset, from_offset, WORD(to_device),
                                        WORD(from_device)));
  note_host_side(call, to, to_offset, length, to_device);
  note_host_side(call, from, from_offset, length, from_device);
  int result = real(to, from, length, to_offset, from_offset, to_device, from_device);
  call_end(call, WORD(result));
  return result;
}

EXPORT int omp_target_memcpy_async(void *to, const void *from, size_t length, size_t to_offset, size_t from_offset,
                                   int to_device, int from_device, int depend_count, void *depend) {
  REAL(omp_target_memcpy_async);
  call_t call = routine_begin(CALL_MEMCPY_ASYNC, to_device,
                              ARGUMENTS(ADDRESS(to), ADDRESS(from), length, to_offset, from_offset, WORD(to_device),
                                        WORD(from_device)));
  note_host_side(call, to, to_offset, length, to_device);
  note_host_side(call, from, from_offset, length, from_device);
  int result = real(to, from, length, to_offset, from_offset, to_device, from_device, depend_count, depend);
  call_end(call, WORD(result));
  return result;
}

/* Its arguments, and then volume, offsets and dimensions of each dimension. */
enum { RECT = 6, EACH = 5, MOST_DIMENSIONS = 16 };

static call_t rect_begin(enum function function, void *to, const void *from, size_t element, int dimensions,
                         const size_t *const *lists, int to_device, int from_device) {
  uint64_t words[RECT + EACH * MOST_DIMENSIONS] = {ADDRESS(to),      ADDRESS(from),   element,
                                                   WORD(dimensions), WORD(to_device), WORD(from_device)};
  uint32_t count = RECT;
  for (int i = 0; i < dimensions && i < MOST_DIMENSIONS; i++)
    for (int list = 0; list < EACH; list++)
      words[count++] = lists[list] ? lists[list][i] : 0;
  call_t call = call_begin(function, take_place(), to_device, (count + WORDS - 1) / WORDS);
  if (call.id)
    put_arguments(words, count);
  return call;
}

EXPORT int omp_target_memcpy_rect(void *to, const void *from, size_t element, int dimensions, const size_t *volume,
                                  const size_t *to_offsets, const size_t *from_offsets, const size_t *to_dimensions,
                                  const size_t *from_dimensions, int to_device, int from_device) {
  REAL(omp_target_memcpy_rect);
  const size_t *lists[EACH] = {volume, to_offsets, from_offsets, to_dimensions, from_dimensions};
  call_t call = rect_begin(CALL_MEMCPY_RECT, to, from, element, dimensions, lists, to_device, from_device);
  int result = real(to, from, element, dimensions, volume, to_offsets, from_offsets, to_dimensions, from_dimensions,
                    to_device, from_device);
  call_end(call, WORD(result));
  return result;
}

EXPORT int omp_target_memcpy_rect_async(void *to, const void *from, size_t element, int dimensions,
                                        const size_t *volume, const size_t *to_offsets, const size_t *from_offsets,
                                        const size_t *to_dimensions, const size_t *from_dimensions, int to_device,
                                        int from_device, int depend_count, void *depend) {
  REAL(omp_target_memcpy_rect_async);
  const size_t *lists[EACH] = {volume, to_offsets, from_offsets, to_dimensions, from_dimensions};
  call_t call = rect_begin(CALL_MEMCPY_RECT_ASYNC, to, from, element, dimensions, lists, to_device, from_device);
  int result = real(to, from, element, dimensions, volume, to_offsets, from_offsets, to_dimensions, from_dimensions,
                    to_device, from_device, depend_count, depend);
  call_end(call, WORD(result));
  return result;
}

EXPORT void *omp_target_memset(void *pointer, int byte, size_t size, int device) {
  REAL(omp_target_memset);
  call_t call = routine_begin(CALL_MEMSET, device, ARGUMENTS(ADDRESS(pointer), WORD(byte), size, WORD(device)));
  void *result = real(pointer, byte, size, device);
  call_end(call, ADDRESS(result));
  return result;
}

EXPORT void *omp_target_memset_async(void *pointer, int byte, size_t size, int device, int depend_count, void *depend) {
  REAL(omp_target_memset_async);
  call_t call =
      routine_begin(CALL_MEMSET_ASYNC, device, ARGUMENTS(ADDRESS(pointer), WORD(byte), size, WORD(device)));
  void *result = real(pointer, byte, size, device, depend_count, depend);
  call_end(call, ADDRESS(result));
  return result;
}

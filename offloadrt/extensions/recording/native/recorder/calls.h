/* Slots of the calls of a runtime's entry points: directives.c, routines.c and gomp.c write them. */
#pragma once
#include "recorder.h"

/* A call that is being made. `id` is 0 if nothing is recorded. */
typedef struct {
  uint64_t id, outer;
  enum function function;
} call_t;

/* Ends what the thread did before, and writes CALL. `slots` more slots of it must follow. */
call_t call_begin(enum function, const char *location, int64_t device, uint32_t slots);
void call_end(call_t, uint64_t result);
void put_item(uint32_t index, uint64_t base, uint64_t begin, int64_t size, uint64_t type, const char *name, void *mapper);
void note_host_memory(uint64_t begin, uint64_t bytes);
enum { WORDS = 7 }; /* of a slot */
void put_arguments(const uint64_t *, uint32_t count); /* WORDS of them in a slot, all slots full but for zeros */

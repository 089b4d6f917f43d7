/* The functions that the plugin has compiled and whose address others may have: what one of them touches is seen, though it is not known
 * before it is called that it will be. */
#include "recorder.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct {
  size_t room, used;
  _Atomic(uint64_t) at[]; /* a hash table of addresses */
} table_t;

static _Atomic(table_t *) functions;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static size_t place_of(table_t *table, uint64_t address) {
  size_t at = (address * 0x9e3779b97f4a7c15u >> 32) & (table->room - 1);
  for (uint64_t other; (other = atomic_load_explicit(&table->at[at], memory_order_relaxed)) && other != address;)
    at = (at + 1) & (table->room - 1);
  return at;
}

static void add(table_t *table, uint64_t address) {
  size_t at = place_of(table, address);
  table->used += !table->at[at];
  atomic_store_explicit(&table->at[at], address, memory_order_relaxed);
}

/* Called when an instrumented module is loaded. A table that became too small is kept, for other threads may look into it. */
EXPORT void offload_recorder_functions(void **list, uint64_t count);
EXPORT void offload_recorder_functions(void **list, uint64_t count) {
  bool was_inside = this_thread()->inside;
  this_thread()->inside = true;
  pthread_mutex_lock(&mutex);
  table_t *old = atomic_load(&functions), *table = old;
  if (!old || (old->used + count) * 2 >= old->room) {
    size_t room = 1024;
    while (room <= ((old ? old->used : 0) + count) * 4)
      room *= 2;
    table = calloc(1, sizeof *table + room * sizeof *table->at);
    table->room = room;
    for (size_t i = 0; old && i < old->room; i++)
      if (old->at[i])
        add(table, old->at[i]);
  }
  for (uint64_t i = 0; i < count; i++)
    add(table, (uint64_t)list[i]);
  atomic_store(&functions, table);
  pthread_mutex_unlock(&mutex);
  this_thread()->inside = was_inside;
}

/* Called before a function is called by its address. */
EXPORT bool offload_recorder_watches(uint64_t address);
EXPORT bool offload_recorder_watches(uint64_t address) {
  table_t *table = atomic_load_explicit(&functions, memory_order_acquire);
  return table && address && table->at[place_of(table, address)] == address;
}

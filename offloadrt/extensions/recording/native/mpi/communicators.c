/* Communicators by numbers: 0 is MPI_COMM_WORLD, 1 MPI_COMM_SELF. */
#include "calls.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
  uint64_t handle;
  char *key; /* the same in all of its processes: its parent's, how it was made, and as which of its parent's */
  int made;
} communicator_t;

static communicator_t *communicators;
static int communicator_count, communicator_room;
static MPI_Group world_group;

static int *world_ranks(MPI_Group group, int *count) {
  PMPI_Group_size(group, count);
  int *own = calloc((size_t)*count + 1, sizeof *own), *ranks = calloc((size_t)*count + 1, sizeof *ranks);
  if (!own || !ranks)
    abort();
  for (int i = 0; i < *count; i++)
    own[i] = i;
  PMPI_Group_translate_ranks(group, *count, own, world_group, ranks);
  for (int i = 0; i < *count; i++)
    if (ranks[i] == MPI_UNDEFINED)
      ranks[i] = EVERYBODY;
  free(own);
  return ranks;
}

static int add_communicator(MPI_Comm handle, const char *key, MPI_Comm like) {
  if (communicator_count == communicator_room) {
    communicator_room = communicator_room * 2 + 16;
    communicators = realloc(communicators, (size_t)communicator_room * sizeof *communicators);
    if (!communicators)
      abort();
  }
  int number = communicator_count++, count = 0, remotes = 0, inter = 0, *ranks, *remote = NULL;
  communicators[number] = (communicator_t){HANDLE(handle), strdup(key), 0};
  MPI_Group group;
  PMPI_Comm_group(like, &group);
  ranks = world_ranks(group, &count);
  PMPI_Group_free(&group);
  if (!PMPI_Comm_test_inter(like, &inter) && inter && !PMPI_Comm_remote_group(like, &group)) {
    remote = world_ranks(group, &remotes);
    PMPI_Group_free(&group);
  }
  offload_recorder_mpi_communicator(number, key, ranks, count, remote, remotes);
  free(ranks);
  free(remote);
  return number;
}

static int known_communicator(uint64_t handle) {
  for (int i = communicator_count - 1; i >= 0; i--)
    if (communicators[i].handle == handle)
      return i;
  return EVERYBODY;
}

int communicator_of(MPI_Comm handle) {
  if (handle == MPI_COMM_NULL)
    return EVERYBODY;
  pthread_mutex_lock(&mutex);
  int number = known_communicator(HANDLE(handle));
  if (number == EVERYBODY) /* nobody told how it was made */
    number = add_communicator(handle, "unknown", handle);
  pthread_mutex_unlock(&mutex);
  return number;
}

void put_made(MPI_Comm parent, MPI_Comm made, const char *how) {
  char key[4096];
  pthread_mutex_lock(&mutex);
  int from = known_communicator(HANDLE(parent)), number = EVERYBODY;
  int place = from == EVERYBODY ? 0 : communicators[from].made++;
  if (made != MPI_COMM_NULL) {
    snprintf(key, sizeof key, "%s/%d %s", from == EVERYBODY ? "unknown" : communicators[from].key, place, how);
    number = add_communicator(made, key, made);
  }
  pthread_mutex_unlock(&mutex);
  put_numbered(PART_MAKES, number, EVERYBODY);
}

/* It can be used when its request is complete; who is in it cannot be asked before. */
void put_idup(MPI_Comm parent, MPI_Comm made) {
  char key[4096];
  pthread_mutex_lock(&mutex);
  int from = known_communicator(HANDLE(parent));
  snprintf(key, sizeof key, "%s/%d dup", from == EVERYBODY ? "unknown" : communicators[from].key, from == EVERYBODY ? 0 : communicators[from].made++);
  int number = add_communicator(made, key, parent);
  pthread_mutex_unlock(&mutex);
  put_numbered(PART_MAKES, number, EVERYBODY);
}

/* One that some of a communicator's processes make among themselves: the others do not count it. */
void put_made_apart(MPI_Comm parent, MPI_Comm made, int tag) {
  char key[4096];
  pthread_mutex_lock(&mutex);
  int from = known_communicator(HANDLE(parent)), number = EVERYBODY;
  if (made != MPI_COMM_NULL) {
    snprintf(key, sizeof key, "%s/group %d", from == EVERYBODY ? "unknown" : communicators[from].key, tag);
    number = add_communicator(made, key, made);
  }
  pthread_mutex_unlock(&mutex);
  put_numbered(PART_MAKES, number, EVERYBODY);
}

void communicator_freed(MPI_Comm handle) {
  pthread_mutex_lock(&mutex);
  int number = known_communicator(HANDLE(handle));
  if (number > SELF)
    communicators[number].handle = 0;
  pthread_mutex_unlock(&mutex);
}

void world_begins(void) {
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length, rank = 0, ranks = 0, level = 0;
  PMPI_Get_library_version(library, &length);
  library[strcspn(library, "\n,")] = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  PMPI_Query_thread(&level);
  level = level == MPI_THREAD_MULTIPLE ? 3 : level == MPI_THREAD_SERIALIZED ? 2 : level == MPI_THREAD_FUNNELED;
  offload_recorder_mpi_world(library, rank, ranks, level);
  PMPI_Comm_group(MPI_COMM_WORLD, &world_group);
  add_communicator(MPI_COMM_WORLD, "world", MPI_COMM_WORLD);
  add_communicator(MPI_COMM_SELF, "self", MPI_COMM_SELF);
  calls_begin();
}

/* The objects of MPI by their numbers: communicators, requests and messages. Handles are given again to others, and some libraries
 * give one handle to several requests that are complete from their beginning. */
#include "calls.h"
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool active; /* between MPI_Init and MPI_Finalize */
static __thread parts_t call;
static __thread bool inside, recorded;

/* ---- which calls are the program's ---- */
enum { MODULES = 512 };
static struct {
  uintptr_t low, high;
  bool binds; /* Fortran or C++ to C: its callers are the program's */
} modules[MODULES];
static size_t module_count;

static bool is_binding(const char *name) {
  static const char *const names[] = {"libmpichf", "libmpifort", "libmpi_mpifh", "libmpi_usempi", "libmpichcxx", "libmpicxx", "libmpi_cxx", "libmpif", "libmpi_f"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strncmp(name, names[i], strlen(names[i])))
      return true;
  return false;
}

static bool is_library(const char *name) {
  static const char *const names[] = {"libmpi", "libpmpi", "libmpich", "libopen-", "libopal", "libpmix", "libprrte", "mca_", "libmca", "libucp", "libucs", "libuct", "libfabric"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strncmp(name, names[i], strlen(names[i])))
      return true;
  return false;
}

static int note_module(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)size, (void)unused;
  const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
  if (!is_library(name) && !is_binding(name))
    return 0;
  for (int i = 0; i < info->dlpi_phnum && module_count < MODULES; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
      uintptr_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
      modules[module_count].low = low;
      modules[module_count].high = low + info->dlpi_phdr[i].p_memsz;
      modules[module_count++].binds = is_binding(name);
    }
  return 0;
}

enum { PROGRAM, BINDING, LIBRARY };

static int whose(const void *address) {
  for (size_t i = 0; i < module_count; i++)
    if ((uintptr_t)address - modules[i].low < modules[i].high - modules[i].low)
      return modules[i].binds ? BINDING : LIBRARY;
  return PROGRAM;
}

extern int backtrace(void **, int);
static __thread const void *caller;

/* The innermost place that is the program's. Bindings call MPI for a program of another language. */
static const void *programs(const void *address) {
  enum { FRAMES = 16 };
  void *frames[FRAMES];
  int count = backtrace(frames, FRAMES);
  bool bound = false;
  for (int i = 0; i < count; i++) {
    int owner = whose(frames[i]);
    if (owner == LIBRARY && bound)
      break;
    bound |= owner == BINDING;
    if (bound && owner == PROGRAM)
      return frames[i];
  }
  return address;
}

bool call_enter(const void *address) {
  if (inside || !active)
    return false;
  int owner = whose(address);
  if (owner == LIBRARY)
    return false;
  inside = true;
  caller = owner == BINDING ? programs(address) : address;
  call.count = 0;
  return true;
}

void call_begin(const char *name) {
  recorded = offload_recorder_mpi_begin(name, caller, call.parts, call.count);
  call.count = 0;
}

static void requests_left(void);

int call_end(int result) {
  requests_left();
  if (recorded)
    offload_recorder_mpi_end(call.parts, call.count);
  inside = false;
  return result;
}

/* ---- parts ---- */
static part_t *put_numbered(enum part_kind kind, int communicator, int peer) {
  if (call.count == call.room) {
    call.room = call.room * 2 + 16;
    call.parts = realloc(call.parts, call.room * sizeof *call.parts);
    if (!call.parts)
      abort();
  }
  part_t *part = &call.parts[call.count++];
  *part = (part_t){.kind = kind, .communicator = communicator, .peer = peer, .request = NO_REQUEST};
  return part;
}

part_t *put_part(enum part_kind kind, MPI_Comm communicator, int peer) {
  return put_numbered(kind, communicator_of(communicator), peer);
}

/* The pieces without gaps of an element. What combines others is asked for these. */
static uint64_t pieces_of(MPI_Datatype type, bool *joins) {
  int integers, addresses, types, how;
  MPI_Aint low, extent;
  int size;
  *joins = false;
  if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &how) || PMPI_Type_size(type, &size) ||
      PMPI_Type_get_extent(type, &low, &extent))
    return 1;
  if (how == MPI_COMBINER_NAMED) {
    *joins = size == extent;
    return 1;
  }
  int *integer = calloc((size_t)integers + 1, sizeof *integer);
  MPI_Aint *address = calloc((size_t)addresses + 1, sizeof *address);
  MPI_Datatype *inner = calloc((size_t)types + 1, sizeof *inner);
  uint64_t pieces = 1;
  if (integer && address && inner && !PMPI_Type_get_contents(type, integers, addresses, types, integer, address, inner)) {
    bool inner_joins = false;
    uint64_t each = types ? pieces_of(inner[0], &inner_joins) : 1;
    uint64_t row = inner_joins ? 1 : each; /* a piece of neighbours, for each of them otherwise */
#define ROW(length) (inner_joins ? row : row * (uint64_t)(length))
    switch (how) {
    case MPI_COMBINER_CONTIGUOUS:
      pieces = ROW(integer[0]);
      break;
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
      pieces = (uint64_t)integer[0] * ROW(integer[1]);
      break;
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
      pieces = 0;
      for (int i = 0; i < integer[0]; i++)
        if (integer[1 + i])
          pieces += ROW(integer[1 + i]);
      break;
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
      pieces = (uint64_t)integer[0] * ROW(integer[1]);
      break;
    case MPI_COMBINER_STRUCT:
      pieces = 0;
      for (int i = 0; i < integer[0]; i++) {
        bool member_joins;
        uint64_t member = pieces_of(inner[i], &member_joins);
        pieces += !integer[1 + i] ? 0 : member_joins ? 1 : member * (uint64_t)integer[1 + i];
      }
      break;
    case MPI_COMBINER_SUBARRAY: {
      int dimensions = integer[0];
      const int *sizes = integer + 1, *parts = sizes + dimensions;
      bool fortran = integer[1 + 3 * dimensions] == MPI_ORDER_FORTRAN, is_whole = true;
      for (int i = 0; i < dimensions; i++) { /* the fastest dimension first */
        int at = fortran ? i : dimensions - 1 - i;
        if (!is_whole)
          pieces *= (uint64_t)parts[at];
        is_whole = is_whole && parts[at] == sizes[at];
      }
      break;
    }
    default:
      pieces = each;
    }
    for (int i = 0; i < types; i++) { /* derived types that were asked for are the caller's */
      int a, b, c, combiner;
      if (!PMPI_Type_get_envelope(inner[i], &a, &b, &c, &combiner) && combiner != MPI_COMBINER_NAMED)
        PMPI_Type_free(&inner[i]);
    }
  }
  free(integer);
  free(address);
  free(inner);
  MPI_Aint true_low, true_extent;
  if (!PMPI_Type_get_true_extent(type, &true_low, &true_extent) && true_extent == size) {
    pieces = 1;
    *joins = extent == size;
  }
  return pieces ? pieces : 1;
}

static void set_buffer(part_t *part, const void *buffer, int64_t count, MPI_Datatype type) {
  if (buffer == MPI_IN_PLACE)
    part->flags |= PART_IN_PLACE;
  MPI_Count size, low, extent, true_low, true_extent;
  if (count <= 0 || type == MPI_DATATYPE_NULL || PMPI_Type_size_x(type, &size) || size <= 0 ||
      PMPI_Type_get_extent_x(type, &low, &extent) || PMPI_Type_get_true_extent_x(type, &true_low, &true_extent))
    return;
  part->bytes = (uint64_t)(size * count);
  part->span = (uint64_t)(true_extent + (count - 1) * extent);
  part->address = part->flags & PART_IN_PLACE ? 0 : (uint64_t)buffer + (uint64_t)true_low;
  part->blocks = 1;
  if (part->span != part->bytes) {
    bool joins;
    part->flags |= PART_STRIDED;
    part->blocks = pieces_of(type, &joins) * (uint64_t)count;
  }
}

part_t *put_buffer(enum part_kind kind, MPI_Comm communicator, int peer, const void *buffer, int64_t count, MPI_Datatype type) {
  part_t *part = put_part(kind, communicator, peer);
  set_buffer(part, buffer, count, type);
  return part;
}

part_t *put_message(enum part_kind kind, unsigned flags, MPI_Comm communicator, int peer, int64_t tag, const void *buffer,
                    int64_t count, MPI_Datatype type) {
  part_t *part = put_part(kind, communicator, peer);
  part->flags = flags;
  part->tag = tag;
  if (peer == MPI_PROC_NULL)
    part->peer = NOBODY;
  if (kind != PART_SEND && peer == MPI_ANY_SOURCE)
    part->flags |= PART_ANY_SOURCE, part->peer = EVERYBODY;
  if (kind != PART_SEND && tag == MPI_ANY_TAG)
    part->flags |= PART_ANY_TAG, part->tag = EVERYBODY;
  set_buffer(part, buffer, count, type);
  return part;
}

static void set_matched(part_t *part, MPI_Status *status) {
  MPI_Count bytes;
  part->peer = status->MPI_SOURCE == MPI_PROC_NULL ? NOBODY : status->MPI_SOURCE == MPI_ANY_SOURCE ? EVERYBODY : status->MPI_SOURCE;
  part->tag = status->MPI_TAG == MPI_ANY_TAG ? EVERYBODY : status->MPI_TAG;
  if (!PMPI_Get_elements_x(status, MPI_BYTE, &bytes) && bytes != MPI_UNDEFINED)
    part->bytes = (uint64_t)bytes;
}

void put_matched(MPI_Comm communicator, MPI_Status *status) { set_matched(put_part(PART_MATCHED, communicator, EVERYBODY), status); }

/* ---- requests ---- */
typedef struct {
  uint64_t handle;
  bool used, active, persistent, receives;
  bool taken; /* a call is about it: another request of this handle is another call's */
  part_t *parts; /* of a persistent one: what it does when it is started */
  uint32_t count;
} request_t;

static request_t *requests;
static size_t request_room;
static __thread int64_t *asked; /* the numbers of the requests that the call names */
static __thread int asked_count, asked_room;

int64_t new_request(void) {
  pthread_mutex_lock(&mutex);
  size_t place = 0;
  while (place < request_room && requests[place].used)
    place++; /* the smallest number: a loop of the program has the same ones each time */
  if (place == request_room) {
    request_room = request_room * 2 + 64;
    requests = realloc(requests, request_room * sizeof *requests);
    if (!requests)
      abort();
    memset(requests + place, 0, (request_room - place) * sizeof *requests);
  }
  requests[place] = (request_t){.used = true, .taken = true};
  pthread_mutex_unlock(&mutex);
  for (uint32_t i = 0; i < call.count; i++)
    call.parts[i].request = (int64_t)place;
  return (int64_t)place;
}

static void drop_request(request_t *request) {
  free(request->parts);
  *request = (request_t){0};
}

static __thread part_t *prepared; /* what a persistent request that the call makes will do */
static __thread uint32_t prepared_count;

int64_t new_persistent_request(void) {
  int64_t number = new_request();
  prepared_count = call.count;
  prepared = calloc(call.count + 1, sizeof *prepared);
  if (!prepared)
    abort();
  for (uint32_t i = 0; i < call.count; i++) {
    prepared[i] = call.parts[i];
    prepared[i].flags |= PART_PERSISTENT;
    call.parts[i].kind = PART_PREPARES;
  }
  return number;
}

void request_made(int64_t number, MPI_Request handle, bool receives) {
  pthread_mutex_lock(&mutex);
  request_t *request = &requests[number];
  if (handle == MPI_REQUEST_NULL)
    drop_request(request);
  else
    *request = (request_t){.used = true, .handle = HANDLE(handle), .active = !prepared, .persistent = prepared != NULL,
                           .receives = receives, .parts = prepared, .count = prepared_count};
  prepared = NULL;
  pthread_mutex_unlock(&mutex);
}

/* Takes the numbers of the requests that the call names, and puts those that are active. */
void requests_named(int count, const MPI_Request *handles, enum part_kind kind) {
  if (count > asked_room) {
    asked_room = count * 2;
    asked = realloc(asked, (size_t)asked_room * sizeof *asked);
    if (!asked)
      abort();
  }
  asked_count = count;
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < count; i++) {
    asked[i] = NO_REQUEST;
    if (handles[i] == MPI_REQUEST_NULL)
      continue;
    for (size_t at = 0; at < request_room; at++)
      if (requests[at].used && !requests[at].taken && requests[at].handle == HANDLE(handles[i])) {
        asked[i] = (int64_t)at;
        requests[at].taken = true;
        break;
      }
    if (asked[i] == NO_REQUEST)
      continue;
    request_t *request = &requests[asked[i]];
    if (kind == PART_SEND)
      for (uint32_t part = 0; part < request->count; part++)
        *put_numbered(0, 0, 0) = request->parts[part], request->active = true;
    else if (request->active || kind == PART_DROPS)
      put_numbered(kind, 0, EVERYBODY)->request = asked[i];
  }
  pthread_mutex_unlock(&mutex);
}

/* The request in this place of those that the call names is complete. */
void request_completed(int place, MPI_Status *status) {
  if (place < 0 || place >= asked_count || asked[place] == NO_REQUEST)
    return;
  pthread_mutex_lock(&mutex);
  request_t *request = &requests[asked[place]];
  if (request->active) {
    part_t *part = put_numbered(PART_COMPLETED, 0, EVERYBODY);
    part->request = asked[place];
    int cancelled = 0;
    if (request->receives)
      set_matched(part, status);
    if (!PMPI_Test_cancelled(status, &cancelled) && cancelled) {
      part->flags |= PART_CANCELLED;
      part->bytes = 0;
    }
  }
  request->active = request->taken = false;
  if (!request->persistent)
    drop_request(request);
  asked[place] = NO_REQUEST;
  pthread_mutex_unlock(&mutex);
}

void request_dropped(void) {
  pthread_mutex_lock(&mutex);
  if (asked_count && asked[0] != NO_REQUEST)
    drop_request(&requests[asked[0]]);
  asked_count = 0;
  pthread_mutex_unlock(&mutex);
}

/* What the call has named and not completed can be named again. */
static void requests_left(void) {
  pthread_mutex_lock(&mutex);
  for (int i = 0; i < asked_count; i++)
    if (asked[i] != NO_REQUEST)
      requests[asked[i]].taken = false;
  asked_count = 0;
  pthread_mutex_unlock(&mutex);
}

MPI_Status *own_statuses(int count) {
  static __thread MPI_Status *statuses;
  static __thread int room;
  if (count > room) {
    free(statuses);
    statuses = calloc((size_t)count, sizeof *statuses);
    room = count;
    if (!statuses)
      abort();
  }
  return statuses;
}

enum { WORLD, SELF }; /* numbers of communicators that are there from the beginning */

/* ---- messages of matching probes ---- */
static struct message {
  uint64_t handle;
  int communicator, peer;
  int64_t tag;
  struct message *next;
} *messages;

void message_found(MPI_Message handle, MPI_Comm communicator, MPI_Status *status) {
  struct message *message = calloc(1, sizeof *message);
  if (!message)
    abort();
  *message = (struct message){HANDLE(handle), communicator_of(communicator), status->MPI_SOURCE, status->MPI_TAG, NULL};
  pthread_mutex_lock(&mutex);
  message->next = messages;
  messages = message;
  pthread_mutex_unlock(&mutex);
}

static __thread int taken_from = EVERYBODY;

/* Puts the receive of a message that a probe has found: from its source, with its tag. */
void put_taken(MPI_Message handle, const void *buffer, int64_t count, MPI_Datatype type) {
  part_t *part = put_numbered(PART_RECEIVE, SELF, NOBODY); /* MPI_MESSAGE_NO_PROC is in no list */
  pthread_mutex_lock(&mutex);
  for (struct message **at = &messages; *at; at = &(*at)->next)
    if ((*at)->handle == HANDLE(handle)) {
      struct message *message = *at;
      part->communicator = message->communicator;
      part->peer = message->peer;
      part->tag = message->tag;
      *at = message->next;
      free(message);
      break;
    }
  pthread_mutex_unlock(&mutex);
  taken_from = part->communicator;
  set_buffer(part, buffer, count, type);
}

void put_taken_matched(MPI_Status *status) { set_matched(put_numbered(PART_MATCHED, taken_from, EVERYBODY), status); }

/* ---- communicators ---- */
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
  module_count = 0; /* more have come */
  dl_iterate_phdr(note_module, NULL);
  add_communicator(MPI_COMM_WORLD, "world", MPI_COMM_WORLD);
  add_communicator(MPI_COMM_SELF, "self", MPI_COMM_SELF);
  active = true;
}

/* Before MPI_Init only that call is the program's, and after MPI_Finalize none. */
void call_enter_first(const void *address) {
  dl_iterate_phdr(note_module, NULL);
  active = true;
  call_enter(address);
  active = false;
}

void world_ends(void) { active = false; }

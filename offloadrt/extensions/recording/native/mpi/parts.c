/* A call of MPI and its parts: whether it is the program's, from where it is made, and where its buffers lie. */
#include "calls.h"
#include <link.h>
#include <stdlib.h>
#include <string.h>

static bool active; /* between MPI_Init and MPI_Finalize */
static __thread struct {
  part_t *parts;
  uint32_t count, room;
} call;
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

/* A call that returns an error has done nothing, unless a message was longer than its buffer or it is about several requests. */
bool call_did(int result) {
  int class = MPI_SUCCESS;
  if (result != MPI_SUCCESS)
    PMPI_Error_class(result, &class);
  return class == MPI_SUCCESS || class == MPI_ERR_TRUNCATE || class == MPI_ERR_IN_STATUS || class == MPI_ERR_PENDING;
}

int call_end(int result) {
  requests_left();
  if (!call_did(result)) {
    request_refused();
    put_numbered(PART_REFUSED, 0, EVERYBODY);
  }
  if (recorded)
    offload_recorder_mpi_end(call.parts, call.count);
  inside = false;
  return result;
}

/* ---- parts ---- */
part_t *put_numbered(enum part_kind kind, int communicator, int peer) {
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

/* The kind and the size of the elements, as PART_ELEMENTS has them. The names of predefined types tell both. */
static unsigned elements_of_named(MPI_Datatype type) {
  static __thread struct {
    uint64_t handle;
    unsigned bits;
  } known[16];
  size_t at = (size_t)(HANDLE(type) ^ HANDLE(type) >> 8) % 16;
  if (known[at].handle == HANDLE(type))
    return known[at].bits;
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length, size = 0;
  if (PMPI_Type_get_name(type, name, &length) || PMPI_Type_size(type, &size))
    return 0;
#define NAMED(word) (strstr(name, word) != NULL)
  bool pair = !strncmp(name, "MPI_2", 5) || NAMED("FLOAT_INT") || NAMED("DOUBLE_INT") || NAMED("SHORT_INT") || NAMED("LONG_INT");
  unsigned kind = pair                                                                    ? 0
                  : NAMED("COMPLEX")                                                      ? 3
                  : NAMED("FLOAT") || NAMED("DOUBLE") || NAMED("REAL")                    ? 2
                  : NAMED("BOOL") || NAMED("LOGICAL")                                     ? 4
                  : NAMED("INT") || NAMED("LONG") || NAMED("SHORT") || NAMED("UNSIGNED") ? 1
                                                                                          : 0;
  unsigned log2 = 0;
  while (1 << log2 < size)
    log2++;
  known[at].handle = HANDLE(type);
  known[at].bits = kind && 1 << log2 == size && log2 < 8 ? kind << PART_ELEMENTS | log2 << (PART_ELEMENTS + 3) : 0;
  return known[at].bits;
}

/* Of derived types that are made of one type alone; 0 of others. */
static unsigned elements_of(MPI_Datatype type) {
  int integers, addresses, types, how;
  if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &how))
    return 0;
  if (how == MPI_COMBINER_NAMED)
    return elements_of_named(type);
  if (types != 1)
    return 0;
  int *integer = calloc((size_t)integers + 1, sizeof *integer);
  MPI_Aint *address = calloc((size_t)addresses + 1, sizeof *address);
  MPI_Datatype inner;
  unsigned bits = 0;
  if (integer && address && !PMPI_Type_get_contents(type, integers, addresses, 1, integer, address, &inner)) {
    bits = elements_of(inner);
    if (!PMPI_Type_get_envelope(inner, &integers, &addresses, &types, &how) && how != MPI_COMBINER_NAMED)
      PMPI_Type_free(&inner);
  }
  free(integer);
  free(address);
  return bits;
}

/* Whether it is a column of a matrix, or the like: a vector, or a part of two dimensions, of a predefined type. */
static bool is_even(MPI_Datatype type) {
  int integers, addresses, types, how, inner_how, a, b, c;
  if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &how) || types != 1 || integers > 8 || addresses > 1)
    return false;
  if (how != MPI_COMBINER_VECTOR && how != MPI_COMBINER_HVECTOR && how != MPI_COMBINER_SUBARRAY)
    return false;
  int integer[8];
  MPI_Aint address;
  MPI_Datatype inner;
  if (PMPI_Type_get_contents(type, integers, addresses, 1, integer, &address, &inner) ||
      PMPI_Type_get_envelope(inner, &a, &b, &c, &inner_how))
    return false;
  if (inner_how == MPI_COMBINER_NAMED)
    return how != MPI_COMBINER_SUBARRAY || integer[0] == 2;
  PMPI_Type_free(&inner);
  return false;
}

void set_buffer(part_t *part, const void *buffer, int64_t count, MPI_Datatype type) {
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
  part->flags |= elements_of(type);
  if (part->span != part->bytes) {
    bool joins;
    part->flags |= PART_STRIDED | (count == 1 && is_even(type) ? PART_EVEN : 0);
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
  else if (peer < 0 && !(kind != PART_SEND && peer == MPI_ANY_SOURCE))
    part->peer = INT32_MAX; /* no rank: MPI refuses it */
  if (kind != PART_SEND && peer == MPI_ANY_SOURCE)
    part->flags |= PART_ANY_SOURCE, part->peer = EVERYBODY;
  if (kind != PART_SEND && tag == MPI_ANY_TAG)
    part->flags |= PART_ANY_TAG, part->tag = EVERYBODY;
  set_buffer(part, buffer, count, type);
  return part;
}

part_t *parts_of_call(uint32_t *count) {
  *count = call.count;
  return call.parts;
}

void set_matched(part_t *part, const MPI_Status *status) {
  MPI_Count bytes;
  part->peer = status->MPI_SOURCE == MPI_PROC_NULL ? NOBODY : status->MPI_SOURCE == MPI_ANY_SOURCE ? EVERYBODY : status->MPI_SOURCE;
  part->tag = status->MPI_TAG == MPI_ANY_TAG ? EVERYBODY : status->MPI_TAG;
  if (!PMPI_Get_elements_x(status, MPI_BYTE, &bytes) && bytes != MPI_UNDEFINED)
    part->bytes = (uint64_t)bytes;
}

void put_matched(MPI_Comm communicator, const MPI_Status *status) { set_matched(put_part(PART_MATCHED, communicator, EVERYBODY), status); }

/* Before MPI_Init only that call is the program's, and after MPI_Finalize none. */
void call_enter_first(const void *address) {
  dl_iterate_phdr(note_module, NULL);
  active = true;
  call_enter(address);
  active = false;
}

/* The library's modules are all there now. */
void calls_begin(void) {
  module_count = 0;
  dl_iterate_phdr(note_module, NULL);
  active = true;
}

void calls_end(void) { active = false; }

/* The calls that have no buffer: beginning and end, waits and tests, probes, communicators; and those that are known by name only. */
#include "calls.h"

/* ---- beginning and end ---- */
#define FIRST(NAME, PARAMETERS, ARGUMENTS)                                                                                     \
  EXPORT int FUNCTION(NAME)(PARAMETERS) {                                                                                          \
    REAL(NAME);                                                                                                                \
    call_enter_first(__builtin_return_address(0));                                                                             \
    call_begin(TEXT(FUNCTION(NAME)));                                                                                                 \
    int result = real(ARGUMENTS);                                                                                              \
    if (result == MPI_SUCCESS)                                                                                                 \
      world_begins();                                                                                                          \
    return call_end(result);                                                                                                   \
  }                                                                                                                            \
  AS_PMPI(NAME, LIST(PARAMETERS))
FIRST(Init, LIST(int *count, char ***words), LIST(count, words))
FIRST(Init_thread, LIST(int *count, char ***words, int wanted, int *given), LIST(count, words, wanted, given))
WRAP(Finalize, void, , , calls_end())
WRAP(Abort, LIST(MPI_Comm comm, int code), LIST(comm, code), put_part(PART_OPAQUE, comm, EVERYBODY), )

/* ---- waits and tests ---- */
#define OWN_STATUS status = status == MPI_STATUS_IGNORE ? own_statuses(1) : status
#define OWN_STATUSES statuses = statuses == MPI_STATUSES_IGNORE ? own_statuses(count) : statuses
#define ALL                                                                                                                    \
  for (int i = 0; i < count; i++)                                                                                              \
    if (result == MPI_SUCCESS || statuses[i].MPI_ERROR != MPI_ERR_PENDING)                                                     \
  request_completed(i, &statuses[i])
#define SOME                                                                                                                   \
  for (int i = 0; *done != MPI_UNDEFINED && i < *done; i++)                                                                    \
  request_completed(places[i], &statuses[i])
#define REQUESTS int count, MPI_Request requests[]
WRAP(Wait, LIST(MPI_Request *request, MPI_Status *status), LIST(request, status),
     requests_named(1, request, PART_AWAITED); OWN_STATUS, request_completed(0, status))
WRAP(Waitall, LIST(REQUESTS, MPI_Status statuses[]), LIST(count, requests, statuses),
     requests_named(count, requests, PART_AWAITED); OWN_STATUSES, ALL)
WRAP(Waitany, LIST(REQUESTS, int *place, MPI_Status *status), LIST(count, requests, place, status),
     requests_named(count, requests, PART_AWAITED); OWN_STATUS, if (*place != MPI_UNDEFINED) request_completed(*place, status))
WRAP(Waitsome, LIST(REQUESTS, int *done, int places[], MPI_Status statuses[]), LIST(count, requests, done, places, statuses),
     requests_named(count, requests, PART_AWAITED); OWN_STATUSES, SOME)
WRAP(Test, LIST(MPI_Request *request, int *flag, MPI_Status *status), LIST(request, flag, status),
     requests_named(1, request, PART_AWAITED); OWN_STATUS, if (*flag) request_completed(0, status))
WRAP(Testall, LIST(REQUESTS, int *flag, MPI_Status statuses[]), LIST(count, requests, flag, statuses),
     requests_named(count, requests, PART_AWAITED); OWN_STATUSES, if (*flag) ALL)
WRAP(Testany, LIST(REQUESTS, int *place, int *flag, MPI_Status *status), LIST(count, requests, place, flag, status),
     requests_named(count, requests, PART_AWAITED); OWN_STATUS,
     if (*flag && *place != MPI_UNDEFINED) request_completed(*place, status))
WRAP(Testsome, LIST(REQUESTS, int *done, int places[], MPI_Status statuses[]), LIST(count, requests, done, places, statuses),
     requests_named(count, requests, PART_AWAITED); OWN_STATUSES, SOME)
/* A request that it finds complete is complete for the recording; the call that frees it then names none. */
WRAP(Request_get_status, LIST(MPI_Request request, int *flag, MPI_Status *status), LIST(request, flag, status),
     requests_named(1, &request, PART_AWAITED); OWN_STATUS, if (*flag) request_completed(0, status))
WRAP(Start, LIST(MPI_Request *request), LIST(request), requests_named(1, request, PART_SEND), )
WRAP(Startall, LIST(REQUESTS), LIST(count, requests), requests_named(count, requests, PART_SEND), )
WRAP(Request_free, LIST(MPI_Request *request), LIST(request), requests_named(1, request, PART_DROPS); , request_dropped())
WRAP(Cancel, LIST(MPI_Request *request), LIST(request), requests_named(1, request, PART_CANCELS), )

/* ---- probes ---- */
#define PROBED int peer, int tag, MPI_Comm comm
#define PROBES put_message(PART_PROBE, 0, comm, peer, tag, NULL, 0, MPI_BYTE)
WRAP(Probe, LIST(PROBED, MPI_Status *status), LIST(peer, tag, comm, status), PROBES; OWN_STATUS, put_matched(comm, status))
WRAP(Iprobe, LIST(PROBED, int *flag, MPI_Status *status), LIST(peer, tag, comm, flag, status), PROBES; OWN_STATUS,
     if (*flag) put_matched(comm, status))
#define FOUND put_matched(comm, status), message_found(*message, comm, status)
WRAP(Mprobe, LIST(PROBED, MPI_Message *message, MPI_Status *status), LIST(peer, tag, comm, message, status), PROBES; OWN_STATUS,
     FOUND)
WRAP(Improbe, LIST(PROBED, int *flag, MPI_Message *message, MPI_Status *status), LIST(peer, tag, comm, flag, message, status),
     PROBES; OWN_STATUS, if (*flag) FOUND)

/* ---- communicators ---- */
#define MAKES(NAME, PARAMETERS, ARGUMENTS, PARENT, HOW)                                                                        \
  WRAP(NAME, LIST(PARAMETERS, MPI_Comm *made), LIST(ARGUMENTS, made), put_part(PART_COLLECTIVE, PARENT, EVERYBODY),            \
       if (result == MPI_SUCCESS) put_made(PARENT, *made, HOW))
MAKES(Comm_dup, LIST(MPI_Comm comm), LIST(comm), comm, "dup")
MAKES(Comm_dup_with_info, LIST(MPI_Comm comm, MPI_Info info), LIST(comm, info), comm, "dup")
MAKES(Comm_split, LIST(MPI_Comm comm, int color, int key), LIST(comm, color, key), comm, "split")
MAKES(Comm_split_type, LIST(MPI_Comm comm, int kind, int key, MPI_Info info), LIST(comm, kind, key, info), comm, "split")
MAKES(Comm_create, LIST(MPI_Comm comm, MPI_Group group), LIST(comm, group), comm, "create")
MAKES(Cart_create, LIST(MPI_Comm comm, int count, const int sizes[], const int periods[], int reorders),
      LIST(comm, count, sizes, periods, reorders), comm, "cart")
MAKES(Cart_sub, LIST(MPI_Comm comm, const int remain[]), LIST(comm, remain), comm, "sub")
MAKES(Graph_create, LIST(MPI_Comm comm, int count, const int index[], const int edges[], int reorders),
      LIST(comm, count, index, edges, reorders), comm, "graph")
MAKES(Dist_graph_create, LIST(MPI_Comm comm, int count, const int sources[], const int degrees[], const int targets[],
      const int weights[], MPI_Info info, int reorders), LIST(comm, count, sources, degrees, targets, weights, info, reorders),
      comm, "graph")
MAKES(Dist_graph_create_adjacent, LIST(MPI_Comm comm, int in, const int sources[], const int in_weights[], int out,
      const int targets[], const int out_weights[], MPI_Info info, int reorders),
      LIST(comm, in, sources, in_weights, out, targets, out_weights, info, reorders), comm, "graph")
MAKES(Intercomm_merge, LIST(MPI_Comm comm, int high), LIST(comm, high), comm, "merge")
MAKES(Intercomm_create, LIST(MPI_Comm comm, int leader, MPI_Comm peers, int remote, int tag),
      LIST(comm, leader, peers, remote, tag), comm, "inter")
WRAP(Comm_create_group, LIST(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made), LIST(comm, group, tag, made), ,
     if (result == MPI_SUCCESS) put_made_apart(comm, *made, tag))
WRAP(Comm_idup, LIST(MPI_Comm comm, MPI_Comm *made, MPI_Request *request), LIST(comm, made, request),
     put_part(PART_COLLECTIVE, comm, EVERYBODY);
     int64_t number = new_request(), request_made(number, *request, false); put_idup(comm, *made))
WRAP(Comm_free, LIST(MPI_Comm *comm), LIST(comm), put_part(PART_FREES, *comm, EVERYBODY); communicator_freed(*comm), )
WRAP(Comm_disconnect, LIST(MPI_Comm *comm), LIST(comm), put_part(PART_FREES, *comm, EVERYBODY); communicator_freed(*comm), )

/* ---- known by name only: one-sided, and processes that come later ---- */
#define OPAQUE(NAME, PARAMETERS, ARGUMENTS) WRAP(NAME, LIST(PARAMETERS), LIST(ARGUMENTS), put_part(PART_OPAQUE, MPI_COMM_WORLD, EVERYBODY), )
#define TARGETED(NAME, PARAMETERS, ARGUMENTS, BUFFER, NUMBER, TYPE)                                                            \
  WRAP(NAME, LIST(PARAMETERS), LIST(ARGUMENTS), put_buffer(PART_OPAQUE, MPI_COMM_WORLD, EVERYBODY, BUFFER, NUMBER, TYPE), )
OPAQUE(Win_create, LIST(void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win), LIST(base, size, unit, info, comm, win))
OPAQUE(Win_allocate, LIST(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), LIST(size, unit, info, comm, base, win))
OPAQUE(Win_allocate_shared, LIST(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win), LIST(size, unit, info, comm, base, win))
OPAQUE(Win_create_dynamic, LIST(MPI_Info info, MPI_Comm comm, MPI_Win *win), LIST(info, comm, win))
OPAQUE(Win_free, LIST(MPI_Win *win), LIST(win))
OPAQUE(Win_fence, LIST(int asserts, MPI_Win win), LIST(asserts, win))
OPAQUE(Win_start, LIST(MPI_Group group, int asserts, MPI_Win win), LIST(group, asserts, win))
OPAQUE(Win_post, LIST(MPI_Group group, int asserts, MPI_Win win), LIST(group, asserts, win))
OPAQUE(Win_complete, LIST(MPI_Win win), LIST(win))
OPAQUE(Win_wait, LIST(MPI_Win win), LIST(win))
OPAQUE(Win_lock, LIST(int kind, int rank, int asserts, MPI_Win win), LIST(kind, rank, asserts, win))
OPAQUE(Win_unlock, LIST(int rank, MPI_Win win), LIST(rank, win))
OPAQUE(Win_lock_all, LIST(int asserts, MPI_Win win), LIST(asserts, win))
OPAQUE(Win_unlock_all, LIST(MPI_Win win), LIST(win))
OPAQUE(Win_flush, LIST(int rank, MPI_Win win), LIST(rank, win))
OPAQUE(Win_flush_all, LIST(MPI_Win win), LIST(win))
OPAQUE(Win_sync, LIST(MPI_Win win), LIST(win))
#define REMOTE int rank, MPI_Aint place, int room, MPI_Datatype what
TARGETED(Put, LIST(const void *buffer, int count, MPI_Datatype type, REMOTE, MPI_Win win), LIST(buffer, count, type, rank, place, room, what, win), buffer, count, type)
TARGETED(Get, LIST(void *buffer, int count, MPI_Datatype type, REMOTE, MPI_Win win), LIST(buffer, count, type, rank, place, room, what, win), buffer, count, type)
TARGETED(Accumulate, LIST(const void *buffer, int count, MPI_Datatype type, REMOTE, MPI_Op op, MPI_Win win), LIST(buffer, count, type, rank, place, room, what, op, win), buffer, count, type)
TARGETED(Get_accumulate, LIST(const void *buffer, int count, MPI_Datatype type, void *into, int got, MPI_Datatype as, REMOTE, MPI_Op op, MPI_Win win),
         LIST(buffer, count, type, into, got, as, rank, place, room, what, op, win), into, got, as)
TARGETED(Fetch_and_op, LIST(const void *buffer, void *into, MPI_Datatype type, int rank, MPI_Aint place, MPI_Op op, MPI_Win win), LIST(buffer, into, type, rank, place, op, win), into, 1, type)
TARGETED(Compare_and_swap, LIST(const void *buffer, const void *with, void *into, MPI_Datatype type, int rank, MPI_Aint place, MPI_Win win),
         LIST(buffer, with, into, type, rank, place, win), into, 1, type)
TARGETED(Rput, LIST(const void *buffer, int count, MPI_Datatype type, REMOTE, MPI_Win win, MPI_Request *request), LIST(buffer, count, type, rank, place, room, what, win, request), buffer, count, type)
TARGETED(Rget, LIST(void *buffer, int count, MPI_Datatype type, REMOTE, MPI_Win win, MPI_Request *request), LIST(buffer, count, type, rank, place, room, what, win, request), buffer, count, type)
OPAQUE(Comm_spawn, LIST(const char *command, char *words[], int most, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made, int codes[]), LIST(command, words, most, info, root, comm, made, codes))
OPAQUE(Comm_accept, LIST(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made), LIST(port, info, root, comm, made))
OPAQUE(Comm_connect, LIST(const char *port, MPI_Info info, int root, MPI_Comm comm, MPI_Comm *made), LIST(port, info, root, comm, made))

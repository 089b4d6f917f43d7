/* Point to point and collective calls: counted.c has them with counts that are int, large.c with MPI_Count (MPI 4). */
#define SENT buffer, count, type, peer, tag, comm
#define SEND_PARAMETERS const void *buffer, COUNT count, MPI_Datatype type, int peer, int tag, MPI_Comm comm
#define RECEIVE_PARAMETERS void *buffer, COUNT count, MPI_Datatype type, int peer, int tag, MPI_Comm comm

/* ---- point to point ---- */
#define SENDS(NAME, SENDS_NOW, SENDS_LATER, FLAGS)                                                                             \
  WRAP(NAME, LIST(SEND_PARAMETERS), LIST(SENT), put_message(PART_SEND, FLAGS, comm, peer, tag, buffer, count, type), )      \
  WRAP(SENDS_NOW, LIST(SEND_PARAMETERS, MPI_Request *request), LIST(SENT, request),                                         \
       put_message(PART_SEND, FLAGS, comm, peer, tag, buffer, count, type);                                                    \
       int64_t number = new_request(), request_made(number, *request, false))                                                  \
  WRAP(SENDS_LATER, LIST(SEND_PARAMETERS, MPI_Request *request), LIST(SENT, request),                                       \
       put_message(PART_SEND, FLAGS, comm, peer, tag, buffer, count, type);                                                    \
       int64_t number = new_persistent_request(), request_made(number, *request, false))

SENDS(Send, Isend, Send_init, 0)
SENDS(Bsend, Ibsend, Bsend_init, PART_BUFFERED)
SENDS(Ssend, Issend, Ssend_init, PART_SYNCHRONOUS)
SENDS(Rsend, Irsend, Rsend_init, PART_READY)

WRAP(Recv, LIST(RECEIVE_PARAMETERS, MPI_Status *status), LIST(SENT, status),
     put_message(PART_RECEIVE, 0, comm, peer, tag, buffer, count, type);
     status = status == MPI_STATUS_IGNORE ? own_statuses(1) : status, put_matched(comm, status))
WRAP(Irecv, LIST(RECEIVE_PARAMETERS, MPI_Request *request), LIST(SENT, request),
     put_message(PART_RECEIVE, 0, comm, peer, tag, buffer, count, type);
     int64_t number = new_request(), request_made(number, *request, true))
WRAP(Recv_init, LIST(RECEIVE_PARAMETERS, MPI_Request *request), LIST(SENT, request),
     put_message(PART_RECEIVE, 0, comm, peer, tag, buffer, count, type);
     int64_t number = new_persistent_request(), request_made(number, *request, true))

#define EXCHANGED                                                                                                              \
  const void *buffer, COUNT count, MPI_Datatype type, int peer, int tag, void *into, COUNT room, MPI_Datatype what, int source,\
      int with, MPI_Comm comm
#define EXCHANGES                                                                                                              \
  put_message(PART_SEND, 0, comm, peer, tag, buffer, count, type);                                                             \
  put_message(PART_RECEIVE, 0, comm, source, with, into, room, what)
WRAP(Sendrecv, LIST(EXCHANGED, MPI_Status *status),
     LIST(buffer, count, type, peer, tag, into, room, what, source, with, comm, status), EXCHANGES;
     status = status == MPI_STATUS_IGNORE ? own_statuses(1) : status, put_matched(comm, status))
#define REPLACED void *buffer, COUNT count, MPI_Datatype type, int peer, int tag, int source, int with, MPI_Comm comm
#define REPLACES                                                                                                               \
  put_message(PART_SEND, 0, comm, peer, tag, buffer, count, type);                                                             \
  put_message(PART_RECEIVE, 0, comm, source, with, buffer, count, type)
WRAP(Sendrecv_replace, LIST(REPLACED, MPI_Status *status),
     LIST(buffer, count, type, peer, tag, source, with, comm, status), REPLACES;
     status = status == MPI_STATUS_IGNORE ? own_statuses(1) : status, put_matched(comm, status))
#if MPI_VERSION >= 4
WRAP(Isendrecv, LIST(EXCHANGED, MPI_Request *request),
     LIST(buffer, count, type, peer, tag, into, room, what, source, with, comm, request), EXCHANGES;
     int64_t number = new_request(), request_made(number, *request, true))
WRAP(Isendrecv_replace, LIST(REPLACED, MPI_Request *request),
     LIST(buffer, count, type, peer, tag, source, with, comm, request), REPLACES;
     int64_t number = new_request(), request_made(number, *request, true))
#endif

WRAP(Mrecv, LIST(void *buffer, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
     LIST(buffer, count, type, message, status), put_taken(*message, buffer, count, type);
     status = status == MPI_STATUS_IGNORE ? own_statuses(1) : status, put_taken_matched(status))
WRAP(Imrecv, LIST(void *buffer, COUNT count, MPI_Datatype type, MPI_Message *message, MPI_Request *request),
     LIST(buffer, count, type, message, request), put_taken(*message, buffer, count, type);
     int64_t number = new_request(), request_made(number, *request, true))

/* ---- collective: each also as one that does not wait, and (MPI 4) as a persistent one ---- */
#define COLLECTIVE_NOW(NAME, DOES_NOT_WAIT, PARAMETERS, ARGUMENTS, PARTS)                                                      \
  WRAP(NAME, LIST(PARAMETERS), LIST(ARGUMENTS), PARTS, )                                                                    \
  WRAP(DOES_NOT_WAIT, LIST(PARAMETERS, MPI_Request *request), LIST(ARGUMENTS, request), PARTS;                              \
       int64_t number = new_request(), request_made(number, *request, false))
#if MPI_VERSION >= 4
#define COLLECTIVE(NAME, DOES_NOT_WAIT, PERSISTENT, PARAMETERS, ARGUMENTS, PARTS)                                              \
  COLLECTIVE_NOW(NAME, DOES_NOT_WAIT, LIST(PARAMETERS), LIST(ARGUMENTS), PARTS)                                                \
  WRAP(PERSISTENT, LIST(PARAMETERS, MPI_Info info, MPI_Request *request), LIST(ARGUMENTS, info, request), PARTS;            \
       int64_t number = new_persistent_request(), request_made(number, *request, false))
#else
#define COLLECTIVE(NAME, DOES_NOT_WAIT, PERSISTENT, PARAMETERS, ARGUMENTS, PARTS)                                              \
  COLLECTIVE_NOW(NAME, DOES_NOT_WAIT, LIST(PARAMETERS), LIST(ARGUMENTS), PARTS)
#endif

#define GIVEN const void *buffer, COUNT count, MPI_Datatype type
#define TAKEN void *into, COUNT room, MPI_Datatype what
#define RANKS ranks_of(comm)

#ifndef LARGE
WRAP(Barrier, MPI_Comm comm, comm, put_part(PART_COLLECTIVE, comm, EVERYBODY), )
WRAP(Ibarrier, LIST(MPI_Comm comm, MPI_Request *request), LIST(comm, request), put_part(PART_COLLECTIVE, comm, EVERYBODY);
     int64_t number = new_request(), request_made(number, *request, false))
#if MPI_VERSION >= 4
WRAP(Barrier_init, LIST(MPI_Comm comm, MPI_Info info, MPI_Request *request), LIST(comm, info, request),
     put_part(PART_COLLECTIVE, comm, EVERYBODY);
     int64_t number = new_persistent_request(), request_made(number, *request, false))
#endif
#endif

COLLECTIVE(Bcast, Ibcast, Bcast_init, LIST(void *buffer, COUNT count, MPI_Datatype type, int root, MPI_Comm comm),
           LIST(buffer, count, type, root, comm), put_part(PART_COLLECTIVE, comm, root);
           put_buffer(is_root(root, comm) ? PART_GIVES : PART_TAKES, comm, EVERYBODY, buffer, count, type))

#define GATHERS(INTO)                                                                                                  \
  put_part(PART_COLLECTIVE, comm, root);                                                                                       \
  if (buffer != MPI_IN_PLACE)                                                                                                  \
    put_buffer(PART_GIVES, comm, EVERYBODY, buffer, count, type);                                                              \
  if (is_root(root, comm))                                                                                                     \
  INTO
COLLECTIVE(Gather, Igather, Gather_init, LIST(GIVEN, TAKEN, int root, MPI_Comm comm),
           LIST(buffer, count, type, into, room, what, root, comm),
           GATHERS(put_buffer(PART_TAKES, comm, EVERYBODY, into, (int64_t)room *RANKS, what)))
COLLECTIVE(Gatherv, Igatherv, Gatherv_init,
           LIST(GIVEN, void *into, const COUNT rooms[], const PLACE places[], MPI_Datatype what, int root, MPI_Comm comm),
           LIST(buffer, count, type, into, rooms, places, what, root, comm),
           GATHERS(PUT_EACH(PART_TAKES, into, rooms, places, what, RANKS)))

#define SCATTERS(FROM)                                                                                                         \
  put_part(PART_COLLECTIVE, comm, root);                                                                                       \
  if (is_root(root, comm))                                                                                                     \
    FROM;                                                                                                                      \
  if (into != MPI_IN_PLACE)                                                                                                    \
  put_buffer(PART_TAKES, comm, EVERYBODY, into, room, what)
COLLECTIVE(Scatter, Iscatter, Scatter_init, LIST(GIVEN, TAKEN, int root, MPI_Comm comm),
           LIST(buffer, count, type, into, room, what, root, comm),
           SCATTERS(put_buffer(PART_GIVES, comm, EVERYBODY, buffer, (int64_t)count *RANKS, type)))
COLLECTIVE(Scatterv, Iscatterv, Scatterv_init,
           LIST(const void *buffer, const COUNT counts[], const PLACE places[], MPI_Datatype type, TAKEN, int root, MPI_Comm comm),
           LIST(buffer, counts, places, type, into, room, what, root, comm),
           SCATTERS(PUT_EACH(PART_GIVES, buffer, counts, places, type, RANKS)))

#define GATHERS_ALL(INTO)                                                                                                      \
  put_part(PART_COLLECTIVE, comm, EVERYBODY);                                                                                  \
  if (buffer != MPI_IN_PLACE)                                                                                                  \
    put_buffer(PART_GIVES, comm, EVERYBODY, buffer, count, type);                                                              \
  INTO
COLLECTIVE(Allgather, Iallgather, Allgather_init, LIST(GIVEN, TAKEN, MPI_Comm comm),
           LIST(buffer, count, type, into, room, what, comm),
           GATHERS_ALL(put_buffer(PART_TAKES, comm, EVERYBODY, into, (int64_t)room *RANKS, what)))
COLLECTIVE(Allgatherv, Iallgatherv, Allgatherv_init,
           LIST(GIVEN, void *into, const COUNT rooms[], const PLACE places[], MPI_Datatype what, MPI_Comm comm),
           LIST(buffer, count, type, into, rooms, places, what, comm),
           GATHERS_ALL(PUT_EACH(PART_TAKES, into, rooms, places, what, RANKS)))

COLLECTIVE(Alltoall, Ialltoall, Alltoall_init, LIST(GIVEN, TAKEN, MPI_Comm comm),
           LIST(buffer, count, type, into, room, what, comm), put_part(PART_COLLECTIVE, comm, EVERYBODY);
           if (buffer != MPI_IN_PLACE) put_buffer(PART_GIVES, comm, EVERYBODY, buffer, (int64_t)count *RANKS, type);
           put_buffer(PART_TAKES, comm, EVERYBODY, into, (int64_t)room *RANKS, what))
COLLECTIVE(Alltoallv, Ialltoallv, Alltoallv_init,
           LIST(const void *buffer, const COUNT counts[], const PLACE places[], MPI_Datatype type, void *into,
                const COUNT rooms[], const PLACE targets[], MPI_Datatype what, MPI_Comm comm),
           LIST(buffer, counts, places, type, into, rooms, targets, what, comm), put_part(PART_COLLECTIVE, comm, EVERYBODY);
           if (buffer != MPI_IN_PLACE) PUT_EACH(PART_GIVES, buffer, counts, places, type, RANKS);
           PUT_EACH(PART_TAKES, into, rooms, targets, what, RANKS))
#define EACH_OF_ITS_TYPE(KIND, BUFFER, COUNTS, PLACES, TYPES, NUMBER)                                                          \
  for (int at = 0, end = NUMBER; at < end; at++)                                                                               \
  put_buffer(KIND, comm, at, (const char *)BUFFER + PLACES[at], COUNTS[at], TYPES[at])
#define ALL_OF_TYPES(PLACES)                                                                                                   \
  LIST(const void *buffer, const COUNT counts[], const PLACES places[], const MPI_Datatype types[], void *into,                \
       const COUNT rooms[], const PLACES targets[], const MPI_Datatype whats[], MPI_Comm comm)
COLLECTIVE(Alltoallw, Ialltoallw, Alltoallw_init, ALL_OF_TYPES(PLACE),
           LIST(buffer, counts, places, types, into, rooms, targets, whats, comm), put_part(PART_COLLECTIVE, comm, EVERYBODY);
           if (buffer != MPI_IN_PLACE) EACH_OF_ITS_TYPE(PART_GIVES, buffer, counts, places, types, RANKS);
           EACH_OF_ITS_TYPE(PART_TAKES, into, rooms, targets, whats, RANKS))

#define REDUCED const void *buffer, void *into, COUNT count, MPI_Datatype type, MPI_Op op
COLLECTIVE(Reduce, Ireduce, Reduce_init, LIST(REDUCED, int root, MPI_Comm comm), LIST(buffer, into, count, type, op, root, comm),
           put_part(PART_COLLECTIVE, comm, root);
           put_buffer(PART_GIVES, comm, EVERYBODY, buffer == MPI_IN_PLACE ? into : buffer, count, type);
           if (is_root(root, comm)) put_buffer(PART_TAKES, comm, EVERYBODY, into, count, type))
#define COMBINES                                                                                                               \
  put_part(PART_COLLECTIVE, comm, EVERYBODY);                                                                                  \
  put_buffer(PART_GIVES, comm, EVERYBODY, buffer == MPI_IN_PLACE ? into : buffer, count, type);                                \
  put_buffer(PART_TAKES, comm, EVERYBODY, into, count, type)
COLLECTIVE(Allreduce, Iallreduce, Allreduce_init, LIST(REDUCED, MPI_Comm comm), LIST(buffer, into, count, type, op, comm), COMBINES)
COLLECTIVE(Scan, Iscan, Scan_init, LIST(REDUCED, MPI_Comm comm), LIST(buffer, into, count, type, op, comm), COMBINES)
COLLECTIVE(Exscan, Iexscan, Exscan_init, LIST(REDUCED, MPI_Comm comm), LIST(buffer, into, count, type, op, comm), COMBINES)
COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, Reduce_scatter_block_init, LIST(REDUCED, MPI_Comm comm),
           LIST(buffer, into, count, type, op, comm), put_part(PART_COLLECTIVE, comm, EVERYBODY);
           put_buffer(PART_GIVES, comm, EVERYBODY, buffer == MPI_IN_PLACE ? into : buffer, (int64_t)count *RANKS, type);
           put_buffer(PART_TAKES, comm, EVERYBODY, into, count, type))
COLLECTIVE(Reduce_scatter, Ireduce_scatter, Reduce_scatter_init,
           LIST(const void *buffer, void *into, const COUNT counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           LIST(buffer, into, counts, type, op, comm), put_part(PART_COLLECTIVE, comm, EVERYBODY);
           const char *from = buffer == MPI_IN_PLACE ? into : buffer;
           for (int at = 0, end = RANKS; at < end; at++)
               from += put_buffer(PART_GIVES, comm, at, from, counts[at], type)->span;
           put_buffer(PART_TAKES, comm, EVERYBODY, into, counts[rank_of(comm)], type))

/* ---- with neighbours: of a cartesian grid or a graph ---- */
#define NEIGHBOURS neighbours_t near = neighbours_of(comm)
#define TO_EACH(KIND, NEAR, ADDRESS, COUNT_, TYPE)                                                                             \
  for (int at = 0; at < near.NEAR##_count; at++)                                                                               \
  put_buffer(KIND, comm, near.NEAR[at], ADDRESS, COUNT_, TYPE)
#define STEP(PLACES, TYPE) (int64_t) PLACES *extent_of(TYPE)
#define NEIGHBOURING(NAME, DOES_NOT_WAIT, PERSISTENT, PARAMETERS, ARGUMENTS, GIVES, TAKES)                                     \
  COLLECTIVE(NAME, DOES_NOT_WAIT, PERSISTENT, LIST(PARAMETERS), LIST(ARGUMENTS), put_part(PART_COLLECTIVE, comm, EVERYBODY);   \
             NEIGHBOURS; GIVES; TAKES)
#define FROM(BUFFER, OFFSET) (const char *)BUFFER + OFFSET
NEIGHBOURING(Neighbor_allgather, Ineighbor_allgather, Neighbor_allgather_init, LIST(GIVEN, TAKEN, MPI_Comm comm),
             LIST(buffer, count, type, into, room, what, comm), TO_EACH(PART_GIVES, out, buffer, count, type),
             TO_EACH(PART_TAKES, in, FROM(into, STEP(at * room, what)), room, what))
NEIGHBOURING(Neighbor_allgatherv, Ineighbor_allgatherv, Neighbor_allgatherv_init,
             LIST(GIVEN, void *into, const COUNT rooms[], const PLACE targets[], MPI_Datatype what, MPI_Comm comm),
             LIST(buffer, count, type, into, rooms, targets, what, comm), TO_EACH(PART_GIVES, out, buffer, count, type),
             TO_EACH(PART_TAKES, in, FROM(into, STEP(targets[at], what)), rooms[at], what))
NEIGHBOURING(Neighbor_alltoall, Ineighbor_alltoall, Neighbor_alltoall_init, LIST(GIVEN, TAKEN, MPI_Comm comm),
             LIST(buffer, count, type, into, room, what, comm),
             TO_EACH(PART_GIVES, out, FROM(buffer, STEP(at * count, type)), count, type),
             TO_EACH(PART_TAKES, in, FROM(into, STEP(at * room, what)), room, what))
NEIGHBOURING(Neighbor_alltoallv, Ineighbor_alltoallv, Neighbor_alltoallv_init,
             LIST(const void *buffer, const COUNT counts[], const PLACE places[], MPI_Datatype type, void *into,
                  const COUNT rooms[], const PLACE targets[], MPI_Datatype what, MPI_Comm comm),
             LIST(buffer, counts, places, type, into, rooms, targets, what, comm),
             TO_EACH(PART_GIVES, out, FROM(buffer, STEP(places[at], type)), counts[at], type),
             TO_EACH(PART_TAKES, in, FROM(into, STEP(targets[at], what)), rooms[at], what))
NEIGHBOURING(Neighbor_alltoallw, Ineighbor_alltoallw, Neighbor_alltoallw_init, ALL_OF_TYPES(MPI_Aint),
             LIST(buffer, counts, places, types, into, rooms, targets, whats, comm),
             TO_EACH(PART_GIVES, out, FROM(buffer, places[at]), counts[at], types[at]),
             TO_EACH(PART_TAKES, in, FROM(into, targets[at]), rooms[at], whats[at]))

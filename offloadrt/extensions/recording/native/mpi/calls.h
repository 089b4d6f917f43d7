/* What the files of the library that interposes MPI share. It is compiled by the program's own mpicc.
 *
 * Each function is there twice, as MPI_X for programs in C and for bindings that call it, and as PMPI_X for bindings of Fortran
 * that call that one. Nothing here is linked with MPI: the library is loaded into mpiexec and into shells as well. */
#pragma once
#define _GNU_SOURCE
#include "../ranks.h"
#include <dlfcn.h>
#include <mpi.h>
#include <stddef.h>

#ifdef OPEN_MPI /* its predefined objects are variables */
#pragma weak ompi_mpi_comm_world
#pragma weak ompi_mpi_comm_self
#pragma weak ompi_mpi_comm_null
#pragma weak ompi_mpi_group_null
#pragma weak ompi_request_null
#pragma weak ompi_message_no_proc
#pragma weak ompi_mpi_datatype_null
#pragma weak ompi_mpi_byte
#endif

#define EXPORT __attribute__((visibility("default")))
#define HANDLE(object) ((uint64_t)(uintptr_t)(object))

/* ---- parts.c ---- */
bool call_enter(const void *caller); /* whether the call is the program's, and to be recorded; its parts follow */
void call_enter_first(const void *caller);
void call_begin(const char *name);   /* writes the parts; those that follow are what comes of the call */
bool call_did(int result);            /* whether something came of the call, even if it returns an error */
int call_end(int result);
part_t *put_part(enum part_kind, MPI_Comm, int peer);
part_t *put_buffer(enum part_kind, MPI_Comm, int peer, const void *buffer, int64_t count, MPI_Datatype);
part_t *put_message(enum part_kind, unsigned flags, MPI_Comm, int peer, int64_t tag, const void *buffer, int64_t count, MPI_Datatype);
void put_matched(MPI_Comm, const MPI_Status *);
part_t *put_numbered(enum part_kind, int communicator, int peer);
void set_buffer(part_t *, const void *buffer, int64_t count, MPI_Datatype);
void set_matched(part_t *, const MPI_Status *);
part_t *parts_of_call(uint32_t *count); /* those that were put so far */
void calls_begin(void);
void calls_end(void);

/* ---- requests.c ---- */
int64_t new_request(void);            /* the number of the one that the call will make; its parts so far are what it does */
int64_t new_persistent_request(void); /* likewise, when it is started */
void request_made(int64_t number, MPI_Request, bool receives);
void request_refused(void); /* the call makes none after all */
void requests_named(int count, const MPI_Request *, enum part_kind); /* PART_SEND: they are started */
void request_completed(int place, MPI_Status *);
void requests_left(void);             /* what the call has named and not completed can be named again */
void request_dropped(void);            /* MPI_Request_free */
MPI_Status *own_statuses(int count); /* of this thread, for a program that ignores its own */
void message_found(MPI_Message, MPI_Comm, MPI_Status *);
void put_taken(MPI_Message, const void *buffer, int64_t count, MPI_Datatype);
void put_taken_matched(MPI_Status *);

/* ---- communicators.c ---- */
enum { WORLD, SELF };
int communicator_of(MPI_Comm);
void put_made(MPI_Comm parent, MPI_Comm, const char *how);
void put_made_apart(MPI_Comm parent, MPI_Comm, int tag);
void communicator_freed(MPI_Comm);
void put_idup(MPI_Comm parent, MPI_Comm made);
void world_begins(void);

/* Defines MPI_NAME and PMPI_NAME, with SUFFIX. BEFORE puts what the call asks for, AFTER what comes of it (`call_did`). */
#ifndef SUFFIX
#define SUFFIX
#endif
#define LIST(...) __VA_ARGS__
#define JOINED_(A, B, C) A##B##C
#define JOINED(A, B, C) JOINED_(A, B, C)
#define TEXT_(A) #A
#define TEXT(A) TEXT_(A)
#define FUNCTION(NAME) JOINED(MPI_, NAME, SUFFIX)
#define REAL(NAME)                                                                                                             \
  static __typeof__(&FUNCTION(NAME)) real;                                                                                     \
  if (!real)                                                                                                                   \
  real = (__typeof__(real))dlsym(RTLD_NEXT, TEXT(JOINED(PMPI_, NAME, SUFFIX)))
#define AS_PMPI(NAME, PARAMETERS)                                                                                              \
  EXPORT int JOINED(PMPI_, NAME, SUFFIX)(PARAMETERS) __attribute__((alias(TEXT(FUNCTION(NAME)))));
#define WRAP(NAME, PARAMETERS, ARGUMENTS, BEFORE, AFTER)                                                                       \
  EXPORT int FUNCTION(NAME)(PARAMETERS) {                                                                                      \
    REAL(NAME);                                                                                                                \
    if (!call_enter(__builtin_return_address(0)))                                                                              \
      return real(ARGUMENTS);                                                                                                  \
    BEFORE;                                                                                                                    \
    call_begin(TEXT(FUNCTION(NAME)));                                                                                          \
    int result = real(ARGUMENTS);                                                                                              \
    if (call_did(result)) {                                                                                                    \
      AFTER;                                                                                                                   \
    }                                                                                                                          \
    return call_end(result);                                                                                                   \
  }                                                                                                                            \
  AS_PMPI(NAME, LIST(PARAMETERS))

/* Requests and messages by numbers. Handles are given again to others, and some libraries give one handle to several requests that
 * are complete from their beginning. */
#include "calls.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

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
static __thread int64_t making = NO_REQUEST; /* the request that the call is to make */

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
  uint32_t count;
  part_t *parts = parts_of_call(&count);
  for (uint32_t i = 0; i < count; i++)
    parts[i].request = (int64_t)place;
  return making = (int64_t)place;
}

static void drop_request(request_t *request) {
  free(request->parts);
  *request = (request_t){0};
}

static __thread part_t *prepared; /* what a persistent request that the call makes will do */
static __thread uint32_t prepared_count;

int64_t new_persistent_request(void) {
  int64_t number = new_request();
  part_t *parts = parts_of_call(&prepared_count);
  prepared = calloc(prepared_count + 1, sizeof *prepared);
  if (!prepared)
    abort();
  for (uint32_t i = 0; i < prepared_count; i++) {
    prepared[i] = parts[i];
    prepared[i].flags |= PART_PERSISTENT;
    parts[i].kind = PART_PREPARES;
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
  making = NO_REQUEST;
  pthread_mutex_unlock(&mutex);
}

void request_refused(void) {
  if (making == NO_REQUEST)
    return;
  free(prepared);
  prepared = NULL;
  pthread_mutex_lock(&mutex);
  drop_request(&requests[making]);
  pthread_mutex_unlock(&mutex);
  making = NO_REQUEST;
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
void requests_left(void) {
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

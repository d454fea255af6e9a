/* Stores, from the inside: which backends there are, and what a limiter does with an open one. */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/backend.h>

#include "store/url.h"

extern const weir_backend *const weir_builtin_backends[]; /* of the library; ends with NULL */

enum { WEIR_SECRET_BYTES = 16 }; /* a key of SipHash */

/* A limiter counts under a tag in this store, for as long as the structure lives, which it owns. */
typedef struct weir_store_use {
  const char *tag;     /* which counts; NULL: not entered */
  const char *meaning; /* what all with this tag should have alike */
  const char *text;    /* what those that have it not are told of this one */
  const void *owner;   /* whose it is, for who is told of it */
  struct weir_store_use *next;
  struct weir_store_use **link; /* what points here; NULL: an equal one is the first */
  struct weir_store_use *equal; /* a ring of those with the same tag and meaning; alone: itself */
  struct weir_store_use *equal_before;
} weir_store_use;

enum { WEIR_STORE_USE_BUCKETS = 256 };

/* Where a thread sleeps until others have answered what it asks. They may still be about to tell it when
 * it has gone on: so no waiter is freed while its store is open, and a thread that tells one late touches
 * memory that is there, and wakes another for nothing. */
typedef struct weir_waiter {
  struct weir_waiter *next; /* in the store's pool */
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* by CLOCK_MONOTONIC */
  unsigned events;        /* what others did for the thread; the mutex guards it */
} weir_waiter;

struct weir_store {
  const weir_backend *backend;
  void *handle;
  char namespace_text[WEIR_NAMESPACE_MOST + 1]; /* empty: none */
  int64_t timeout_us;
  int64_t connect_us;                      /* weir_store_times.connect_timeout_us */
  unsigned process;                        /* that opened it: weir_process_number */
  bool checked;                            /* exec holds both sides to the contract */
  unsigned char secret[WEIR_SECRET_BYTES]; /* its own, for all that hashes keys of it */
  weir_waiter *_Atomic waiters;            /* that no thread has; freed with the store */
  pthread_mutex_t uses_lock;
  weir_store_use *uses[WEIR_STORE_USE_BUCKETS]; /* by their tags */
};

/* Enters a use. True where another has the same tag and another meaning: `tell` is called with that, while
 * it cannot leave. Any thread; takes no longer where there are thousands. */
bool weir_store_enter(weir_store *store, weir_store_use *use,
                      void (*tell)(void *context, const weir_store_use *other), void *context);

/* Takes back an entered use. In a child of the process that opened the store it does nothing. */
void weir_store_leave(weir_store *store, weir_store_use *use);

/* One waiter for one thread at a time, which hands it back. Any thread; NULL: no memory. */
weir_waiter *weir_store_take_waiter(weir_store *store);
void weir_store_keep_waiter(weir_store *store, weir_waiter *waiter);

/* Members that a backend was built without are not there. */
static inline bool weir_backend_reaches(const weir_backend *backend, size_t end) {
  return backend->size >= end;
}
#define WEIR_BACKEND_HAS(backend, member)                                                     \
  (weir_backend_reaches(backend, offsetof(weir_backend, member) + sizeof(backend)->member) && \
   (backend)->member != NULL)

/* The backend's exec, with both sides held to the contract of weir/backend.h where the store is
 * `checked`: always with a backend of the caller's own. The library's own backends are checked where
 * assertions are, and by tests/contract: for users that would be a tenth of a decision in memory.
 *
 * An operation that breaks it keeps the whole batch from being sent: every outcome is REFUSED. An
 * outcome that breaks it, or is missing, becomes UNKNOWN. Either way the message says which
 * operation and what is wrong with it. The outcomes that come in do not matter; `message` may be
 * NULL, and is empty when there is nothing to explain. In another process than the one that opened
 * the store every outcome is REFUSED. */
void weir_store_exec(weir_store *store, weir_operation *operations, size_t count,
                     int64_t deadline_us, weir_message *message);

/* The same by its exec_at, of operations with identities and one home. Where it has none, *now_us becomes a
 * reading of the clock after the exec. */
void weir_store_exec_at(weir_store *store, weir_operation *operations, size_t count,
                        int64_t *now_us, weir_message *message);

#endif

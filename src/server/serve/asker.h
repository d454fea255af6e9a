/* How a loop has stores asked, so that no request waits for a store that it does not need.
 *
 *     turn ──┬── a store in this process, or near: the loop asks, and waits ──────────────┐
 *            └── far: what is known is decided ──┬── all of a client's answers: they go ──┤
 *                                                └── else they are pending ──┐            v
 *        the loop goes on with other turns              threads beside it ask the store ──┴──> sent
 *
 * A hand-over costs more than the trip to a store near by: 50 clients with one request in flight each had
 * 80,000 decisions a second where the loop waited for Redis on the same machine, and 62,000 where threads did
 * (memcached: 79,000 and 63,000). So the loop waits for one itself, as long as its answers come within about
 * a millisecond; else, and as long as the store does not answer, threads wait.
 * Each store has a line and threads of its own, so that one that stops delays no other. Threads are made
 * when there is something for them to do. They take all that stands in line, up to WEIR_BATCH_MOST
 * requests: what comes while they wait leaves together.
 *
 * All but the threads' own is of the loop's thread. */
#ifndef WEIR_SERVE_ASKER_H
#define WEIR_SERVE_ASKER_H

#include <pthread.h>

#include "serve/pending.h"
#include "turn/exchange.h"

/* A store's threads, beside one loop: so many exchanges are under way at once at the most. */
enum { WEIR_ASKER_THREADS = 4 };

typedef struct weir_asker {
  struct weir_askers *all;
  struct weir_asker *next;
  const weir_store *store; /* only compared: a snapshot of those who ask keeps it */
  /* For the loop's thread alone. */
  bool is_local;  /* it never waits: it is in this process */
  bool may_stall; /* its deadline is too long for the loop to wait that long, even once */
  bool is_gone;   /* the configuration has it no more */
  bool is_near;
  bool is_asked;   /* in this turn */
  int64_t debt_us; /* for how long it was waited too long, lately */
  int64_t debt_at_us;
  size_t outstanding; /* pendings that have been sent to it and have not come back */
  weir_pending *gathered, **gathered_last; /* those that are still to be handed over */
  pthread_t threads[WEIR_ASKER_THREADS];
  size_t thread_count;
  /* The lock of all guards what follows. */
  pthread_cond_t wake;
  weir_pending *first, **last; /* in line */
  size_t idle;                 /* threads that sleep */
  bool must_end;
  /* The threads' exchanges since the loop looked last. */
  bool has_trips;
  int64_t trips_debt_us;
} weir_asker;

/* The askers of a loop. */
typedef struct weir_askers {
  pthread_mutex_t lock;
  weir_asker *first;
  weir_exchange *own; /* the loop's */
  weir_pending *done; /* the lock guards it: to be answered */
  weir_serve_counts *counts;
  size_t waiting; /* requests of pendings */
  int wake_fd;    /* is written to when there is something done */
} weir_askers;

/* False: no memory. */
bool weir_askers_init(weir_askers *askers, weir_serve_counts *counts, int wake_fd);
/* Nothing is outstanding. One of zeros is fine. */
void weir_askers_end(weir_askers *askers);

/* The turn's requests: decides what is known and what stores near by decide. The others wait for
 * stores that are far: for these each client's answers become pending. How many requests are
 * decided. */
size_t weir_askers_decide(weir_askers *askers, weir_turn *turn);

/* These go to the threads of the store that they wait for, with the next weir_askers_hand_over(). False:
 * they wait for none, so that they can be sent. Where no thread is to be had the loop waits. */
bool weir_askers_send(weir_askers *askers, weir_pending *pending);

/* Hands over all at once: a thread that is woken for the first of a turn's asks for it alone, and those
 * behind it wait for another trip. */
void weir_askers_hand_over(weir_askers *askers);

/* Waits for all that these answers of the turn need. */
void weir_askers_wait(weir_askers *askers, weir_turn *turn, uint32_t first);

/* Those that have come back since. */
weir_pending *weir_askers_collect(weir_askers *askers);

/* There is a newer configuration: stores that it has no more are let go when nothing waits for them. */
void weir_askers_follow(weir_askers *askers, const weir_registry *registry);

#endif

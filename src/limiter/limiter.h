/* Inside a limiter. The files of this folder, in the order a call passes them:
 *
 *     limiter.c   public entry points: checks arguments, makes a call
 *     options.c   the caller's options, read once
 *     clock.c     now, with the guard
 *     call.c      joins the groups of its keys; leads some, waits for the others
 *     rounds.c    drives the machines it leads, round after round, all in one exec
 */
#ifndef WEIR_LIMITER_LIMITER_H
#define WEIR_LIMITER_LIMITER_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/limiter.h>

#include "algorithm/algorithm.h"
#include "key/key.h"
#include "limiter/call.h"
#include "memo/table.h"
#include "rule/rule.h"
#include "store/store.h"

typedef struct weir_key_front {
  size_t length;
  char text[WEIR_KEY_PREFIX_MOST];
} weir_key_front;

struct weir_limiter {
  weir_store *store;
  weir_stack stack;
  weir_terms terms;
  weir_clock clock;
  int64_t deadline_us;
  size_t memo_keys;
  int64_t least_limit; /* of the stack: the most that a group charges */
  weir_key_front fronts[WEIR_RULES_MOST];
  weir_table *table;
  weir_message warning; /* empty: none */

  atomic_uint clock_steps;    /* backward steps that were followed */
  _Atomic int64_t latest_us;  /* the clock guard's */
  pthread_mutex_t idle_mutex; /* guards idle_calls */
  weir_call *idle_calls;      /* ready for reuse: nothing is allocated per decision */
};

/* Reads the given options (NULL: all defaults) into the limiter. `store_timeout_us` is the default
 * deadline. *processes goes to the layout. WEIR_BAD_ARGUMENT names the member and what is accepted.
 */
weir_status weir_limiter_configure(weir_limiter *limiter, const weir_limiter_options *given,
                                   int64_t store_timeout_us, uint32_t *processes,
                                   weir_message *message);

/* The injected clock, kept within its range, small backward steps held back. */
int64_t weir_limiter_now(weir_limiter *limiter);

#endif

/* What is done before it is needed: places that are held are paid for again (pay.c), lots that run out
 * are refilled. A thread of the limiter's own does it, or the caller's loop.
 *
 *     NONE ──> RUNS ──> ENDED       started by who needs it; it ends by itself when nothing is left
 *               ^         |
 *               └─────────┘
 */
#ifndef WEIR_LIMITER_RENEW_H
#define WEIR_LIMITER_RENEW_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/limiter.h>

typedef enum weir_renewer_state {
  WEIR_RENEWER_NONE,
  WEIR_RENEWER_RUNS,
  WEIR_RENEWER_ENDED
} weir_renewer_state;

typedef struct weir_renewer {
  pthread_mutex_t mutex; /* guards all of this, and what is held */
  pthread_cond_t wake;   /* the thread has something to do */
  _Atomic weir_renewer_state state;
  bool over; /* the limiter ends */
  pthread_t thread;
  pthread_mutex_t refills; /* held while some are on their way; no other lock is held before */
} weir_renewer;

/* After what the store did not do. */
enum { WEIR_RENEW_AGAIN_LEAST_US = 1000, WEIR_RENEW_AGAIN_MOST_US = 10000 };

/* False: the system has no memory for it. */
bool weir_renewer_init(weir_renewer *renewer);
void weir_renewer_clean_up(weir_renewer *renewer);

/* Ends the thread, which may be at it. */
void weir_renewer_stop(weir_renewer *renewer);

/* Starts the thread, unless it runs or the caller renews. False: no thread could be started. */
bool weir_renew_start(weir_limiter *limiter);

/* Pays for what is due now. *next_us is how long until something will be. The renewer's mutex is locked,
 * and let go while the store is asked. */
weir_status weir_pay_due(weir_limiter *limiter, int64_t *next_us, weir_message *message);

/* Now and then the thread looks whether the clock was set, also while nothing is due. */
int64_t weir_pay_longest_sleep_us(const weir_limiter *limiter);

/* Gives back the empty places that are kept for a next caller. */
weir_status weir_pay_return_spares(weir_limiter *limiter, weir_message *message);

/* Refills what is due now. *next_us is how long nothing may be, until there is no need to look any more;
 * WEIR_NEVER: there is none. */
weir_status weir_refill_due(weir_limiter *limiter, int64_t *next_us, weir_message *message);

/* Some key is worth a refill. */
void weir_refill_start(weir_limiter *limiter);

#endif

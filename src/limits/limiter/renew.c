/* Who renews: a thread of the limiter's own, or the caller's loop.
 *
 * The thread is there as long as there is something to do before it is needed: it is started by who
 * enters, or charges ahead, and ends by itself when it finds nothing more. It answers no signal, so that
 * the program's own threads get them all.
 */
#include "limiter/renew.h"

#include <signal.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/backoff.h>

#include "condition.h"
#include "limiter/limiter.h"

/* How often a caller looks who has lots that may run out. */
enum { LOOKS_IN_A_LEASE = 16 };

bool weir_renewer_init(weir_renewer *renewer) {
  if (pthread_mutex_init(&renewer->mutex, NULL) != 0) return false;
  if (weir_condition_init(&renewer->wake)) {
    if (pthread_mutex_init(&renewer->refills, NULL) == 0) return true;
    pthread_cond_destroy(&renewer->wake);
  }
  pthread_mutex_destroy(&renewer->mutex);
  return false;
}

void weir_renewer_clean_up(weir_renewer *renewer) {
  pthread_mutex_destroy(&renewer->refills);
  pthread_cond_destroy(&renewer->wake);
  pthread_mutex_destroy(&renewer->mutex);
}

void weir_renewer_stop(weir_renewer *renewer) {
  pthread_mutex_lock(&renewer->mutex);
  bool joins = renewer->state != WEIR_RENEWER_NONE;
  renewer->over = true;
  pthread_cond_signal(&renewer->wake);
  pthread_mutex_unlock(&renewer->mutex);
  if (joins) pthread_join(renewer->thread, NULL);
}

/* --- renewing ----------------------------------------------------------------------------------
 */

/* The renewer's mutex is locked: a caller that has something done by the thread wakes it with that. */
static weir_status renew(weir_limiter *limiter, int64_t *next_us, weir_message *message) {
  if (limiter->places != NULL) return weir_pay_due(limiter, next_us, message);
  pthread_mutex_unlock(&limiter->renewer.mutex);
  weir_status status = weir_refill_due(limiter, next_us, message);
  pthread_mutex_lock(&limiter->renewer.mutex);
  return status;
}

weir_status weir_limiter_renew(weir_limiter *limiter, int64_t *next_us, weir_message *message) {
  weir_status status = weir_limiter_check_process(limiter, message);
  *next_us = WEIR_NEVER;
  if (status != WEIR_OK || (limiter->places == NULL && !limiter->refills)) return status;
  pthread_mutex_lock(&limiter->renewer.mutex);
  status = renew(limiter, next_us, message);
  pthread_mutex_unlock(&limiter->renewer.mutex);
  int64_t look_us = limiter->lease.life_us / LOOKS_IN_A_LEASE;
  if (limiter->refills && *next_us != WEIR_NEVER && *next_us > look_us) *next_us = look_us;
  return status;
}

/* What could not be done is counted, and in time is lost, or is asked for by who needs it. */
static void *run(void *of) {
  weir_limiter *limiter = of;
  weir_renewer *renewer = &limiter->renewer;
  const int64_t longest_us =
      limiter->places != NULL ? weir_pay_longest_sleep_us(limiter) : INT64_MAX;
  pthread_mutex_lock(&renewer->mutex);
  while (!renewer->over) {
    int64_t next_us;
    bool done = renew(limiter, &next_us, NULL) == WEIR_OK;
    /* What was asked for meanwhile is done at once, unless the store did not do the last. */
    bool asked = limiter->refills && atomic_load(&limiter->leased.due.count) > 0;
    if (done && asked) continue;
    if (renewer->over || next_us == WEIR_NEVER) break;
    int64_t until_us = weir_monotonic_us() + (next_us < longest_us ? next_us : longest_us);
    weir_condition_wait_until(&renewer->wake, &renewer->mutex, until_us);
  }
  renewer->state = WEIR_RENEWER_ENDED;
  pthread_mutex_unlock(&renewer->mutex);
  return NULL;
}

bool weir_renew_start(weir_limiter *limiter) {
  weir_renewer *renewer = &limiter->renewer;
  bool started = true;
  if (limiter->caller_renews) return true;
  pthread_mutex_lock(&renewer->mutex);
  if (renewer->state == WEIR_RENEWER_ENDED) pthread_join(renewer->thread, NULL);
  if (renewer->state != WEIR_RENEWER_RUNS) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    started = pthread_create(&renewer->thread, NULL, run, limiter) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    renewer->state = started ? WEIR_RENEWER_RUNS : WEIR_RENEWER_NONE;
  }
  pthread_mutex_unlock(&renewer->mutex);
  return started;
}

void weir_refill_start(weir_limiter *limiter) {
  if (limiter->caller_renews || limiter->renewer.state == WEIR_RENEWER_RUNS) return;
  atomic_store(&limiter->refilled_us, weir_monotonic_us());
  weir_renew_start(limiter); /* without a thread requests ask for themselves */
}

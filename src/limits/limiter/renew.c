/* Who renews: a thread of the limiter's own, or the caller's loop; and how lots are refilled.
 *
 * The thread is there as long as there is something to do before it is needed: it is started by who
 * enters, or charges ahead, and ends by itself when it finds nothing more. It answers no signal, so that
 * the program's own threads get them all.
 *
 * Lots that run out are refilled before requests need them:
 *
 *     use, deny ── low ──> due ── pass ──> a group that only charges ahead ──> a lot like any other
 *
 * Requests tell which keys: a key that none asks for is not looked at. A refill leads its key like any
 * request, and those that came meanwhile are decided with it; where another leads already, that charges
 * ahead itself. All that are due leave in one exec, up to KEYS_AT_ONCE.
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

enum { KEYS_AT_ONCE = 64 };

/* After so many lives in which none was due, nothing that was charged ahead is left. */
enum { LIVES_IDLE = 2 };

bool weir_renewer_init(weir_renewer *renewer) {
  if (pthread_mutex_init(&renewer->mutex, NULL) != 0) return false;
  if (weir_condition_init(&renewer->wake)) return true;
  pthread_mutex_destroy(&renewer->mutex);
  return false;
}

void weir_renewer_clean_up(weir_renewer *renewer) {
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

/* --- refilling ---------------------------------------------------------------------------------
 */

/* Where another leads the key, that charges ahead. The entry is locked. */
static void join_refill(weir_call *call, weir_memo_entry *entry, char text[WEIR_ENCODED_MOST]) {
  const weir_leased *leased = entry->leased;
  if (entry->busy || leased->key_length == 0) return;
  memcpy(text, leased->key, leased->key_length);
  weir_request_state *refill = &call->batch[call->ask_count++];
  *refill = (weir_request_state){
      .kind = WEIR_REFILL, .call = call, .key = text, .key_length = leased->key_length};
  weir_call_queue(call->limiter, entry, refill);
}

/* The next that are due; 0: there are none. */
static size_t refill_some(weir_limiter *limiter, weir_call *call, weir_status *worst) {
  char texts[KEYS_AT_ONCE][WEIR_ENCODED_MOST];
  weir_memo_entry *entry = NULL;
  size_t looked = 0;
  weir_call_begin(call, call->batch, 0, weir_limiter_moment(limiter));
  while (call->ask_count < KEYS_AT_ONCE &&
         (entry = weir_leased_take_due(&limiter->leased)) != NULL) {
    join_refill(call, entry, texts[call->ask_count]);
    weir_lock_leave(&entry->shard->lock);
    looked++;
  }
  if (call->ask_count > 0) weir_call_run(call);
  for (size_t n = 0; n < call->ask_count; n++)
    if (*worst == WEIR_OK) *worst = call->batch[n].status;
  return looked;
}

weir_status weir_refill_due(weir_limiter *limiter, int64_t *next_us, weir_message *message) {
  weir_status status = WEIR_OK;
  atomic_store(&limiter->renewed_us, weir_monotonic_us());
  if (atomic_load(&limiter->leased.due.count) > 0) {
    weir_call *call = weir_call_acquire(limiter, KEYS_AT_ONCE);
    if (call == NULL) {
      *next_us = WEIR_RENEW_AGAIN_MOST_US;
      return weir_no_memory(message);
    }
    while (status == WEIR_OK && refill_some(limiter, call, &status) > 0)
      atomic_store(&limiter->refilled_us, weir_monotonic_us());
    if (status != WEIR_OK) weir_message_set(message, "%s", call->failure.text);
    weir_call_release(call);
  }
  int64_t since_us = weir_monotonic_us() - atomic_load(&limiter->refilled_us);
  int64_t most_us = LIVES_IDLE * limiter->lease.life_us;
  *next_us = since_us < most_us ? most_us - since_us : WEIR_NEVER;
  if (status != WEIR_OK)
    *next_us = WEIR_RENEW_AGAIN_LEAST_US +
               weir_backoff_us(0, WEIR_RENEW_AGAIN_MOST_US, WEIR_RENEW_AGAIN_MOST_US) / 2;
  return status;
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

/* Lots that run out are refilled before requests need them:
 *
 *     use, deny ── low ──> due ── pass ──> a group that only charges ahead ──> a lot like any other
 *
 * Requests tell which keys: a key that none asks for is not looked at. A refill leads its key like any
 * request, and those that came meanwhile are decided with it; where another leads already, that charges
 * ahead itself. All that are due leave in one exec, up to KEYS_AT_ONCE.
 */
#include <string.h>

#include <weir/backend.h>
#include <weir/backoff.h>

#include "limiter/limiter.h"
#include "limiter/renew.h"

enum { KEYS_AT_ONCE = 64 };

/* After so many lives in which none was due, nothing that was charged ahead is left. */
enum { LIVES_IDLE = 2 };

void weir_refill_start(weir_limiter *limiter) {
  if (limiter->caller_renews || limiter->renewer.state == WEIR_RENEWER_RUNS) return;
  atomic_store(&limiter->refilled_us, weir_monotonic_us());
  weir_renew_start(limiter); /* without a thread requests ask for themselves */
}

/* Where another leads the key, that charges ahead. The entry is locked. */
static void join(weir_call *call, weir_memo_entry *entry, char text[WEIR_ENCODED_MOST]) {
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
    join(call, entry, texts[call->ask_count]);
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

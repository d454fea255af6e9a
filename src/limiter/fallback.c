/* Falling back: the answer where the store gave none.
 *
 *     the store is away ──> policy ─┬─> DENY, ALLOW: src/policy says it
 *                                   └─> LOCAL: a limiter of its own, on a store inside this
 *                                       process, with a share of the rules
 *     the request is late ────────────> src/policy says it
 *
 * The local limiter exists from the beginning: an outage is no time to look for memory. It reads
 * the clock through its owner's guard, and remembers what it admitted for as long as the rules say,
 * so that a second outage in the same window finds the first one charged.
 */
#include <stdio.h>
#include <stdlib.h>

#include <weir/backend.h>

#include "limiter/limiter.h"

static int64_t owners_now_us(void *owner) {
  return weir_limiter_now(owner);
}

/* Every key that is remembered, with all its counters, as far as a store goes. */
static weir_status open_local_store(weir_limiter *limiter, weir_message *message) {
  enum { STORE_KEYS_MOST = 100000000 };
  char url[64];
  size_t keys = limiter->memo_keys * weir_machine_actions_most(&limiter->stack);
  if (keys > STORE_KEYS_MOST) keys = STORE_KEYS_MOST;
  snprintf(url, sizeof url, "memory:?keys=%zu", keys);
  return weir_store_open(url, &limiter->local_store, message);
}

weir_status weir_limiter_create_local(weir_limiter *limiter, weir_message *message) {
  if (limiter->fallback != WEIR_FALLBACK_LOCAL) return WEIR_OK;
  weir_status status = open_local_store(limiter, message);
  if (status != WEIR_OK) return status;
  weir_limiter *local = calloc(1, sizeof *local);
  if (local == NULL) return weir_no_memory(message);
  local->store = limiter->local_store;
  local->fallback = WEIR_FALLBACK_NONE;
  local->deadline_us = limiter->deadline_us;
  local->memo_keys = limiter->memo_keys;
  local->clock = (weir_clock){owners_now_us, limiter};
  local->terms = limiter->terms;
  local->terms.traits = limiter->local_store->backend->traits;
  weir_policy_share(&limiter->stack, limiter->peers, &local->stack);
  status = weir_limiter_finish(local, message);
  if (status == WEIR_OK) limiter->local = local;
  return status;
}

void weir_limiter_destroy_local(weir_limiter *limiter) {
  weir_limiter_destroy(limiter->local);
  weir_store_close(limiter->local_store);
}

bool weir_limiter_has_answer(const weir_limiter *limiter, const weir_ask *ask, weir_status status) {
  return ask->kind == WEIR_ASK_TAKE && weir_policy_answers(limiter->fallback, status);
}

/* False where this process is too short of time or memory for it. */
static bool ask_local(weir_limiter *local, const void *key, size_t key_length, weir_ask *ask) {
  weir_ask own = *ask;
  if (weir_limiter_settle(local, key, key_length, &own, NULL) != WEIR_OK) return false;
  *ask = own;
  weir_policy_soften(&ask->decision);
  return true;
}

void weir_limiter_fall_back(weir_limiter *limiter, const void *key, size_t key_length,
                            weir_ask *ask, const weir_ask *failed) {
  weir_source source = failed->away ? WEIR_SOURCE_FALLBACK : WEIR_SOURCE_LATE;
  bool has_local = failed->away && limiter->local != NULL;
  if (!has_local || !ask_local(limiter->local, key, key_length, ask))
    ask->decision = weir_policy_decide(limiter->fallback, source, &limiter->stack, ask->cost,
                                       ask->costs, weir_limiter_now(limiter));
  ask->decision.source = source;
  ask->decision.store_status = failed->status;
  ask->status = WEIR_OK;
}

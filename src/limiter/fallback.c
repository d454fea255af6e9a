/* Falling back: the answer where the store gave none.
 *
 *     the store is away ──> policy ─┬─> DENY, ALLOW: src/policy says it
 *                                   └─> LOCAL: a limiter of its own, on a store inside this
 *                                       process, with a share of the rules
 *     the request is late ────────────> src/policy says it
 *
 * The local limiter is made by the first request that needs it: most limiters never do, and a
 * thousand of them are to be cheap to have. Until there is memory for it, LOCAL denies. It reads
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

/* For every key that is remembered, with all its counters, as far as a store goes. NULL: no memory.
 */
static weir_store *open_local_store(const weir_limiter *limiter) {
  enum { STORE_KEYS_MOST = 100000000 };
  char url[64];
  weir_store *store;
  size_t keys = limiter->memo_keys * weir_machine_actions_most(&limiter->stack);
  if (keys > STORE_KEYS_MOST) keys = STORE_KEYS_MOST;
  snprintf(url, sizeof url, "memory:?keys=%zu", keys);
  return weir_store_open(url, &store, NULL) == WEIR_OK ? store : NULL;
}

/* Its store is its own. NULL: no memory. */
static weir_limiter *create_local(weir_limiter *owner) {
  weir_store *store = open_local_store(owner);
  weir_limiter *local = store != NULL ? calloc(1, sizeof *local) : NULL;
  if (local == NULL) goto no_limiter;
  local->store = store;
  local->fallback = WEIR_FALLBACK_NONE;
  local->deadline_us = owner->deadline_us;
  local->memo_keys = owner->memo_keys;
  local->clock = (weir_clock){owners_now_us, owner};
  local->terms = owner->terms;
  local->terms.traits = store->backend->traits;
  weir_policy_share(&owner->stack, owner->peers, &local->stack);
  if (weir_limiter_finish(local, NULL) == WEIR_OK) return local;

no_limiter:
  weir_store_close(store);
  return NULL;
}

static void destroy_local(weir_limiter *local) {
  if (local == NULL) return;
  weir_store *store = local->store;
  weir_limiter_destroy(local);
  weir_store_close(store);
}

void weir_limiter_destroy_local(weir_limiter *limiter) {
  destroy_local(limiter->local);
}

/* Without a lock, which a child could find taken: of threads that come first at once one has its
 * limiter kept, before anybody is admitted by it. */
weir_limiter *weir_limiter_local(weir_limiter *limiter) {
  weir_limiter *kept = atomic_load_explicit(&limiter->local, memory_order_acquire);
  if (kept != NULL || limiter->fallback != WEIR_FALLBACK_LOCAL) return kept;
  weir_limiter *made = create_local(limiter);
  if (made == NULL || atomic_compare_exchange_strong(&limiter->local, &kept, made)) return made;
  destroy_local(made);
  return kept;
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
  weir_limiter *local = failed->away ? weir_limiter_local(limiter) : NULL;
  if (local == NULL || !ask_local(local, key, key_length, ask))
    ask->decision = weir_policy_decide(limiter->fallback, source, &limiter->stack, ask->cost,
                                       ask->costs, weir_limiter_now(limiter));
  ask->decision.source = source;
  ask->decision.store_status = failed->status;
  ask->status = WEIR_OK;
}

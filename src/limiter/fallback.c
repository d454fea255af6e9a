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
  size_t keys = limiter->memo_keys * weir_machine_operations_most(&limiter->stack);
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
  local->settings = owner->settings;
  local->settings.traits = store->backend->traits;
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
  weir_limiter *installed = atomic_load_explicit(&limiter->local, memory_order_acquire);
  if (installed != NULL || limiter->fallback != WEIR_FALLBACK_LOCAL) return installed;
  weir_limiter *made = create_local(limiter);
  if (made == NULL || atomic_compare_exchange_strong(&limiter->local, &installed, made))
    return made;
  destroy_local(made);
  return installed;
}

bool weir_limiter_has_answer(const weir_limiter *limiter, const weir_request_state *request,
                             weir_status status) {
  return request->kind == WEIR_TAKE && weir_policy_answers(limiter->fallback, status);
}

/* The request is put anew to the local limiter: what it was cut to, and what became of it, was the
 * store's. Where this process is too short of time or memory for it the policy itself decides. */
void weir_limiter_fall_back(weir_limiter *limiter, weir_request_state *request) {
  weir_status failure = request->status;
  weir_source source = request->away ? WEIR_SOURCE_FALLBACK : WEIR_SOURCE_LATE;
  weir_limiter *local = request->away ? weir_limiter_local(limiter) : NULL;
  int64_t cost = request->up_to ? request->asked : request->cost;
  weir_request_state anew = {.kind = request->kind,
                             .alone = request->costs != NULL,
                             .up_to = request->up_to,
                             .waits = request->waits,
                             .wait_us = request->wait_us,
                             .cost = cost,
                             .costs = request->costs,
                             .ends = request->ends,
                             .key = request->key,
                             .key_length = request->key_length};
  if (local != NULL && weir_limiter_settle(local, &anew, NULL) == WEIR_OK) {
    request->decision = anew.decision;
    weir_policy_soften(&request->decision);
  } else {
    request->decision = weir_policy_decide(limiter->fallback, source, &limiter->stack, cost,
                                           request->costs, weir_limiter_now(limiter));
  }
  request->decision.source = source;
  request->decision.store_status = failure;
  request->status = WEIR_OK;
}

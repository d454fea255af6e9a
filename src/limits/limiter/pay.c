/* Paying again for what is held, in passes over all keys that hold something:
 *
 *     snapshot of up to KEYS_AT_ONCE keys ──> one exec ──> settle ──┬──> the next ones
 *          ^                                                        └──> all are through: sleep
 *          └──── what was not certain is due again, until its guard ────────────┘
 *
 * A key's snapshot and its answer are taken in under the lock of all places, the payment is sent
 * without it. It stands in the line of its key like any other request, and so do others behind it,
 * for one round trip. A pass looks at each key once, the one that was looked at longest ago first.
 */
#include <stdlib.h>

#include <weir/backend.h>
#include <weir/backoff.h>

#include "algorithm/in_flight.h"
#include "condition.h"
#include "limiter/end.h"
#include "limiter/limiter.h"
#include "limiter/place.h"
#include "limiter/renew.h"

/* As many leave in one exec: a request that comes behind them waits for no more. */
enum { KEYS_AT_ONCE = 64 };

/* So long until the next try of what is unsent. */
#define UNSENT_AGAIN_US INT64_C(50000)

/* One exec. */
typedef struct batch {
  size_t count; /* keys that pay */
  weir_held_key *keys[KEYS_AT_ONCE];
  int64_t costs[KEYS_AT_ONCE][WEIR_RULES_MOST];
  int64_t ends[KEYS_AT_ONCE][WEIR_RULES_MOST];
  size_t spare_count;
  weir_held_place *spares[KEYS_AT_ONCE];
  weir_status statuses[KEYS_AT_ONCE]; /* of the spares */
} batch;

/* --- one batch ---------------------------------------------------------------------------------
 */

/* The next keys that this pass has not seen; those behind it has, or they came meanwhile and are seen
 * to by the next. False: there is none. The table is locked, and so no more than a few are looked at. */
static bool gather(weir_limiter *limiter, batch *all) {
  weir_places *places = limiter->places;
  weir_place_clocks clocks = weir_place_read_clocks(limiter);
  all->count = 0;
  for (int looked = 0; looked < KEYS_AT_ONCE; looked++) {
    weir_held_key *key = places->first;
    size_t n = all->count;
    if (key == NULL || key->pass == places->pass) return looked > 0;
    key->pass = places->pass;
    weir_held_key_move_last(places, key);
    if (!weir_held_key_snapshot(limiter, key, clocks, all->costs[n], all->ends[n])) continue;
    key->renewing = true;
    all->keys[n] = key;
    all->count++;
  }
  return true;
}

/* Has all payments of a batch made, each of which says by its ends what is certain; or its spares
 * given back. */
static weir_status ask(weir_limiter *limiter, batch *all, weir_request_kind kind,
                       weir_message *message) {
  weir_status worst = WEIR_OK;
  bool pays = kind == WEIR_RENEW;
  weir_call *call = weir_call_acquire(limiter, KEYS_AT_ONCE);
  if (call == NULL) return weir_no_memory(message);
  weir_call_begin(call, call->batch, 0, weir_limiter_moment(limiter));
  for (size_t n = 0; n < (pays ? all->count : all->spare_count); n++) {
    weir_held_place *spare = pays ? NULL : all->spares[n];
    const weir_held_key *key = pays ? all->keys[n] : spare->key;
    weir_waiting *state = &call->batch[call->ask_count++];
    *state = (weir_waiting){.claim.ask = {.kind = kind,
                                          .alone = true,
                                          .cost = 1,
                                          .costs = pays ? all->costs[n] : spare->costs,
                                          .ends = pays ? all->ends[n] : spare->ends,
                                          .key = key->text,
                                          .key_length = key->length}};
    if (!pays) state->claim.ask.at_us = spare->at_us;
    if (!pays && spare->tried) state->claim.ask.terms = WEIR_AGAIN;
    weir_call_join(&call, limiter, state, call->at);
  }
  weir_call_run(call);
  for (size_t n = 0; n < call->ask_count; n++) {
    weir_status status = call->batch[n].claim.verdict.status;
    weir_counts_add(limiter->counts, status, NULL);
    all->statuses[n] = status;
    if (status != WEIR_OK && worst == WEIR_OK) worst = status;
  }
  if (pays) weir_counts_add_places(limiter->counts, WEIR_PLACES_RENEWALS, call->ask_count);
  if (worst != WEIR_OK) weir_message_set(message, "%s", call->explanation.text);
  weir_call_release(call);
  return worst;
}

static void settle(weir_limiter *limiter, batch *all) {
  weir_places *places = limiter->places;
  weir_place_clocks clocks = weir_place_read_clocks(limiter);
  for (size_t n = 0; n < all->count; n++) {
    weir_held_key *key = all->keys[n];
    key->renewing = false;
    weir_held_key_settle(limiter, key, clocks, all->ends[n]);
    weir_held_key_tidy(places, key);
  }
  pthread_cond_broadcast(&places->settled);
}

/* --- passes ------------------------------------------------------------------------------------
 */

/* When a pass has something to do again, if nothing fails and no place comes that is due before: at
 * the next run-up of a rule, and at its guard, to see what is lost. */
static int64_t find_next_us(const weir_limiter *limiter, int64_t now_us) {
  int64_t next_us = INT64_MAX;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    if (!weir_rule_is_held(rule)) continue;
    int64_t end_us = (now_us / rule->period_us + 1) * rule->period_us;
    int64_t run_up_us = weir_held_run_up_us(rule, &limiter->settings);
    int64_t guard_us = weir_held_guard_us(rule, &limiter->settings);
    int64_t at_us = end_us - run_up_us;
    if (at_us <= now_us) at_us = end_us - guard_us;
    if (at_us <= now_us) at_us = end_us + rule->period_us - run_up_us;
    if (at_us < next_us) next_us = at_us;
  }
  return next_us;
}

/* Looks at all keys once, and pays for what is due. The table is locked, and let go while the store
 * is asked. */
static weir_status pass(weir_limiter *limiter, weir_message *message) {
  weir_places *places = limiter->places;
  weir_status worst = WEIR_OK;
  batch all;
  places->passing = true;
  places->pass++;
  places->wake_us = INT64_MAX; /* an earlier place may come meanwhile */
  while (gather(limiter, &all)) {
    if (all.count == 0) { /* others get their turn */
      pthread_mutex_unlock(&limiter->renewer.mutex);
      pthread_mutex_lock(&limiter->renewer.mutex);
      continue;
    }
    pthread_mutex_unlock(&limiter->renewer.mutex);
    weir_status status = ask(limiter, &all, WEIR_RENEW, worst == WEIR_OK ? message : NULL);
    if (worst == WEIR_OK) worst = status;
    pthread_mutex_lock(&limiter->renewer.mutex);
    settle(limiter, &all);
  }
  int64_t now_us = weir_limiter_now(limiter);
  int64_t next_us = find_next_us(limiter, now_us);
  if (worst != WEIR_OK)
    next_us = now_us + WEIR_RENEW_AGAIN_LEAST_US +
              weir_backoff_us(0, WEIR_RENEW_AGAIN_MOST_US, WEIR_RENEW_AGAIN_MOST_US);
  if (next_us < places->wake_us) places->wake_us = next_us;
  places->passing = false;
  return worst;
}

/* Where nothing is due, nothing happens. *next_us is how long that stays so. The table is locked. */
static weir_status renew(weir_limiter *limiter, int64_t *next_us, weir_message *message) {
  weir_places *places = limiter->places;
  weir_status status = WEIR_OK;
  int64_t now_us = weir_limiter_now(limiter);
  int64_t latest_us = find_next_us(limiter, now_us);
  if (places->wake_us > latest_us) places->wake_us = latest_us; /* also after the clock was set */
  if (now_us >= places->wake_us && !places->passing) {
    status = pass(limiter, message);
    now_us = weir_limiter_now(limiter);
  }
  *next_us = places->wake_us > now_us ? places->wake_us - now_us : 0;
  if (places->passing) *next_us = WEIR_RENEW_AGAIN_LEAST_US; /* by another thread */
  return status;
}

/* --- spares ------------------------------------------------------------------------------------
 */

/* The next ones that are to go back. False: there is none. The table is locked. */
static bool gather_spares(weir_limiter *limiter, batch *out, bool all) {
  const weir_places *places = limiter->places;
  weir_place_clocks clocks = weir_place_read_clocks(limiter);
  out->spare_count = 0;
  for (weir_held_key *key = places->first; key != NULL && places->spares > 0; key = key->next) {
    weir_held_place *spare;
    while (out->spare_count < KEYS_AT_ONCE &&
           (spare = weir_held_key_drop_spare(places, key, clocks, all)) != NULL) {
      out->statuses[out->spare_count] = WEIR_NO_MEMORY; /* unless there is some to ask */
      out->spares[out->spare_count++] = spare;
    }
  }
  return out->spare_count > 0;
}

/* Tries each once: what the store cannot be told of stays out until all were tried, or the time of one
 * try is over. What got no answer may have gone back, and is never sent again. The table is locked, and
 * let go while the store is asked. */
static weir_status drop_spares(weir_limiter *limiter, bool all, weir_message *message) {
  weir_places *places = limiter->places;
  weir_status worst = WEIR_OK;
  weir_held_place *unsent = NULL;
  batch out;
  int64_t end_us = weir_monotonic_us() + limiter->deadline_us;
  while ((worst == WEIR_OK || weir_monotonic_us() < end_us) && gather_spares(limiter, &out, all)) {
    pthread_mutex_unlock(&limiter->renewer.mutex);
    weir_status status = ask(limiter, &out, WEIR_REFUND, worst == WEIR_OK ? message : NULL);
    if (worst == WEIR_OK) worst = status;
    pthread_mutex_lock(&limiter->renewer.mutex);
    for (size_t n = 0; n < out.spare_count; n++) {
      weir_held_place *spare = out.spares[n];
      if (weir_settlement_may_come_again(out.statuses[n])) {
        spare->tried = spare->tried || weir_settlement_was_tried(out.statuses[n]);
        spare->next = unsent;
        unsent = spare;
      } else {
        weir_place_settle_spare(places, spare, false);
      }
    }
  }
  for (weir_held_place *next; unsent != NULL; unsent = next) {
    next = unsent->next;
    weir_place_settle_spare(places, unsent, true);
  }
  return worst;
}

weir_status weir_pay_return_spares(weir_limiter *limiter, weir_message *message) {
  pthread_mutex_lock(&limiter->renewer.mutex);
  weir_status status = drop_spares(limiter, true, message);
  pthread_mutex_unlock(&limiter->renewer.mutex);
  return status;
}

/* --- both --------------------------------------------------------------------------------------
 */

weir_status weir_pay_due(weir_limiter *limiter, int64_t *next_us, weir_message *message) {
  const weir_places *places = limiter->places;
  *next_us = WEIR_NEVER;
  if (places->first == NULL) return WEIR_OK;
  weir_status status = renew(limiter, next_us, message);
  if (places->first == NULL) *next_us = WEIR_NEVER;
  /* A try may take two deadlines: there is none right before a payment. */
  bool pays_soon = places->held > 0 && *next_us < 2 * limiter->deadline_us;
  if (places->spares == 0 || pays_soon) return status;
  weir_status dropped = drop_spares(limiter, false, status == WEIR_OK ? message : NULL);
  int64_t look_us = limiter->stack.rules[0].lease_us / 2;
  if (dropped != WEIR_OK || look_us == 0) look_us = UNSENT_AGAIN_US;
  if (*next_us > look_us) *next_us = look_us;
  if (places->first == NULL) *next_us = WEIR_NEVER;
  return status != WEIR_OK ? status : dropped;
}

int64_t weir_pay_longest_sleep_us(const weir_limiter *limiter) {
  int64_t longest_us = INT64_MAX;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    if (weir_rule_is_held(rule) && rule->period_us / 4 < longest_us)
      longest_us = rule->period_us / 4;
  }
  return longest_us;
}

/* Waiting: the only calls that sleep on purpose.
 *
 *     take, with all the time that is left ─┬─> admitted: sleep until its start
 *          ^                                └─> denied ─┬─> there is time for another try: sleep
 *          └──────── sleep until it can fit <───────────┘   until it can fit; else hold, give up
 */
#include <weir/backend.h>

#include "limiter/limiter.h"

typedef struct weir_patience {
  weir_limiter *limiter;
  const void *key;
  size_t key_length;
  int64_t cost;
  int64_t end_us; /* weir_monotonic_us() */
} weir_patience;

/* Of the caller's own limit, which has nothing to do with the deadline of one decision. */
static int64_t left_us(const weir_patience *patience) {
  int64_t left = patience->end_us - weir_monotonic_us();
  return left > 0 ? left : 0;
}

static weir_status send_request(const weir_patience *patience, weir_request_kind kind,
                                int64_t wait_us, weir_decision *decision, weir_message *message) {
  weir_waiting one = {.claim.ask = {.kind = kind,
                                    .cost = patience->cost,
                                    .waits = true,
                                    .wait_us = wait_us,
                                    .key = patience->key,
                                    .key_length = patience->key_length}};
  weir_status status = weir_limiter_answer(patience->limiter, &one, message);
  if (status == WEIR_OK) *decision = one.claim.verdict.decision;
  return status;
}

/* Sleeps what is left of a time that began with a decision: some of it has passed since. Never
 * longer than that time, wherever the limiter's clock went meanwhile. */
static void sleep_from(weir_limiter *limiter, const weir_decision *decision, int64_t time_us) {
  int64_t sleep_us = decision->at_us + time_us - weir_limiter_now(limiter);
  if (sleep_us > time_us) sleep_us = time_us;
  if (sleep_us > 0) weir_sleep_until(weir_monotonic_us() + sleep_us);
}

/* Whether a denied caller may still be admitted in time. What retry_after_us says allows for a wait
 * after it; with a bucket among the rules, which admit into the future, the whole way is the time until
 * it would be admitted without one, which the store knows. A policy says all it knows at once; and where the store went
 * away after it denied, the next try has an answer. */
static weir_status find_hope(const weir_patience *patience, const weir_decision *denied, bool *hope,
                             weir_message *message) {
  weir_limiter *limiter = patience->limiter;
  bool by_policy = denied->source == WEIR_SOURCE_FALLBACK || denied->source == WEIR_SOURCE_LATE;
  weir_decision at_once = *denied;
  weir_message why;
  *hope = denied->retry_after_us != WEIR_NEVER && denied->retry_after_us <= left_us(patience);
  bool has_bucket = false;
  for (size_t i = 0; i < limiter->stack.count; i++)
    has_bucket = has_bucket || weir_rule_moves_in_time(&limiter->stack.rules[i]);
  if (!*hope || !has_bucket || by_policy) return WEIR_OK;
  weir_status status = send_request(patience, WEIR_PEEK, 0, &at_once, &why);
  if (weir_policy_answers(limiter->fallback, status)) return WEIR_OK;
  if (status != WEIR_OK) {
    weir_message_set(message, "%s", why.text);
    return status;
  }
  *hope = at_once.retry_after_us <= left_us(patience);
  return WEIR_OK;
}

static weir_status try_until_hopeless(const weir_patience *patience, int64_t wait_us,
                                      weir_decision *found, weir_message *message) {
  bool hope;
  for (;; wait_us = left_us(patience)) {
    weir_status status = send_request(patience, WEIR_TAKE, wait_us, found, message);
    if (status != WEIR_OK || found->allowed) return status;
    status = find_hope(patience, found, &hope, message);
    if (status != WEIR_OK || !hope) return status;
    sleep_from(patience->limiter, found, found->retry_after_us);
  }
}

weir_status weir_limiter_wait(weir_limiter *limiter, const void *key, size_t key_length,
                              int64_t cost, int64_t longest_wait_us, weir_decision *decision,
                              weir_message *message) {
  const weir_request request = {
      .key = key, .key_length = key_length, .cost = cost, .longest_wait_us = longest_wait_us};
  weir_patience patience = {limiter, key, key_length, cost, 0};
  weir_decision found;
  weir_message why; /* of a try that need not be the last */
  weir_status status = weir_request_check(limiter, &request, NULL, &why);
  if (status == WEIR_OK) {
    patience.end_us = weir_monotonic_us() + longest_wait_us;
    status = try_until_hopeless(&patience, longest_wait_us, &found, &why);
  }
  weir_counts_add(limiter->counts, status, &found);
  if (status != WEIR_OK || found.store_status != WEIR_OK) weir_message_set(message, "%s", why.text);
  if (status != WEIR_OK) return status;
  if (found.allowed) {
    sleep_from(limiter, &found, found.delay_us);
  } else { /* a refusal is held back as its rule says, while there is time */
    int64_t left = left_us(&patience);
    if (found.delay_us > left) found.delay_us = left;
    if (found.delay_us > 0) weir_sleep_until(weir_monotonic_us() + found.delay_us);
  }
  *decision = found;
  return WEIR_OK;
}

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

static int64_t left_us(const weir_patience *patience) {
  int64_t left = patience->end_us - weir_monotonic_us();
  return left > 0 ? left : 0;
}

static weir_status ask(const weir_patience *patience, weir_ask_kind kind, int64_t wait_us,
                       weir_decision *decision, weir_message *message) {
  weir_ask one = {.kind = kind, .cost = patience->cost, .waits = true, .wait_us = wait_us};
  weir_status status =
      weir_limiter_settle(patience->limiter, patience->key, patience->key_length, &one, message);
  if (status == WEIR_OK) *decision = one.decision;
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
 * after it; with a bucket among the rules the whole way is the time until it would be admitted
 * without one. */
static weir_status find_hope(const weir_patience *patience, const weir_decision *denied, bool *hope,
                             weir_message *message) {
  const weir_stack *stack = &patience->limiter->stack;
  weir_decision at_once = *denied;
  weir_status status = WEIR_OK;
  bool delays = false;
  *hope = denied->retry_after_us != WEIR_NEVER && denied->retry_after_us <= left_us(patience);
  for (size_t i = 0; i < stack->count; i++)
    delays = delays || weir_rule_is_bucket(&stack->rules[i]);
  if (!*hope || !delays) return WEIR_OK;
  status = ask(patience, WEIR_ASK_PEEK, 0, &at_once, message);
  *hope = status == WEIR_OK && at_once.retry_after_us <= left_us(patience);
  return status;
}

/* A refusal is held back as its rule says, while there is time. */
static void hold(const weir_patience *patience, weir_decision *decision) {
  int64_t left = left_us(patience);
  if (decision->delay_us > left) decision->delay_us = left;
  if (decision->delay_us > 0) weir_sleep_until(weir_monotonic_us() + decision->delay_us);
}

weir_status weir_limiter_wait(weir_limiter *limiter, const void *key, size_t key_length,
                              int64_t cost, int64_t longest_wait_us, weir_decision *decision,
                              weir_message *message) {
  const weir_request request = {
      .key = key, .key_length = key_length, .cost = cost, .longest_wait_us = longest_wait_us};
  weir_status status = weir_request_check(limiter, &request, message);
  if (status != WEIR_OK) return status;
  const weir_patience patience = {limiter, key, key_length, cost,
                                  weir_monotonic_us() + longest_wait_us};
  weir_decision found;
  bool hope;
  for (int64_t wait_us = longest_wait_us;; wait_us = left_us(&patience)) {
    status = ask(&patience, WEIR_ASK_TAKE, wait_us, &found, message);
    if (status != WEIR_OK) return status;
    if (found.allowed) break;
    status = find_hope(&patience, &found, &hope, message);
    if (status != WEIR_OK) return status;
    if (!hope) break;
    sleep_from(limiter, &found, found.retry_after_us);
  }
  if (found.allowed)
    sleep_from(limiter, &found, found.delay_us);
  else
    hold(&patience, &found);
  *decision = found;
  return WEIR_OK;
}

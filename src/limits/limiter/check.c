/* What a caller may ask for: requests to take, to look and to settle, refunds, and several keys as one decision.
 * A fault is told by a message that names it and what is accepted; nothing has been asked or charged then. */
#include <inttypes.h>
#include <string.h>

#include "limiter/end.h"
#include "limiter/limiter.h"
#include "store/process.h"

/* Others may come to mean something: until then they are refused. */
enum { SHOWN_MOST = 80 /* of a rule's text */ };
enum { REQUEST_FLAGS = WEIR_REQUEST_PEEK | WEIR_REQUEST_UP_TO };

/* --- settlements -------------------------------------------------------------------------------
 *
 * A decision is a caller's memory: nothing in it is believed.
 */

static weir_status check_taken(const weir_decision *taken, bool own_costs, weir_message *message) {
  if (!taken->allowed) {
    weir_message_set(message, "the decision is a denial: accepted is one that was allowed");
    return WEIR_BAD_ARGUMENT;
  }
  if (taken->source == WEIR_SOURCE_SETTLED) {
    weir_message_set(message, "the decision was settled before: accepted is one settlement");
    return WEIR_BAD_ARGUMENT;
  }
  if (taken->cost <= 0 && !own_costs) {
    weir_message_set(message,
                     "the decision has no cost left to give back: accepted is one that "
                     "was taken with one cost and not given back in full");
    return WEIR_BAD_ARGUMENT;
  }
  if (taken->at_us < 0 || taken->at_us > WEIR_TIME_MOST_US) {
    weir_message_set(message, "at_us of the decision is %" PRId64 ": accepted are 0 to %" PRId64,
                     taken->at_us, WEIR_TIME_MOST_US);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

/* Clocks differ by twice their error. Work that lasts longer than its windows is settled all the same;
 * a stamp that is older than that, and a day, most likely is none, or in another unit. */
static weir_status check_stamp(weir_limiter *limiter, int64_t at_us, weir_message *message) {
  const int64_t day_us = INT64_C(24) * 3600 * 1000000;
  int64_t now_us = weir_limiter_now(limiter);
  int64_t longest_us = 0;
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (limiter->stack.rules[i].period_us > longest_us)
      longest_us = limiter->stack.rules[i].period_us;
  int64_t first_us = now_us - longest_us - day_us;
  int64_t last_us = now_us + 2 * limiter->settings.clock_error_us;
  if (at_us >= first_us && at_us <= last_us) return WEIR_OK;
  weir_message_set(message,
                   "at_us of the decision is %" PRId64 ", and it is %" PRId64
                   " now: accepted are %" PRId64 " to %" PRId64,
                   at_us, now_us, first_us > 0 ? first_us : 0, last_us);
  return WEIR_BAD_ARGUMENT;
}

/* Of a rule: no request has ever been admitted more, whatever limit it brought. */
static int64_t most_taken_by(const weir_limiter *limiter, size_t i) {
  const weir_rule *rule = &limiter->stack.rules[i];
  return i == limiter->steered ? weir_rule_capacity_most(rule) : weir_rule_capacity(rule);
}

/* The least of these. */
static int64_t most_taken(const weir_limiter *limiter) {
  int64_t most = INT64_MAX;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    int64_t capacity = most_taken_by(limiter, i);
    if (capacity < most) most = capacity;
  }
  return most;
}

weir_status weir_settlement_check_real(int64_t real, size_t index, weir_message *message) {
  if (real >= 0 && real <= WEIR_COST_MOST) return WEIR_OK;
  weir_message_set(message, "a real cost of %" PRId64 " for rule %zu: accepted are 0 to %" PRId64,
                   real, index + 1, WEIR_COST_MOST);
  return WEIR_BAD_COST;
}

weir_status weir_settlement_check_rule(const weir_rule *rule, size_t index, weir_message *message) {
  if (weir_rule_settles(rule)) return WEIR_OK;
  weir_message_set(message,
                   "rule %zu (%s) cannot be settled: accepted are windows, quotas and "
                   "token-buckets",
                   index + 1, weir_rule_kind_name(rule->kind));
  return WEIR_BAD_ARGUMENT;
}

static weir_status check_costs(const weir_limiter *limiter, const weir_request *request,
                               weir_message *message) {
  size_t count = limiter->stack.count;
  int64_t largest = 0;
  for (size_t i = 0; i < count; i++) {
    int64_t real = request->costs != NULL ? request->costs[i] : request->cost;
    int64_t taken = request->costs != NULL ? request->costs[count + i] : request->decision.cost;
    int64_t most = request->costs != NULL ? most_taken_by(limiter, i) : most_taken(limiter);
    weir_status status = weir_settlement_check_real(real, i, message);
    if (status != WEIR_OK) return status;
    if (taken > largest) largest = taken;
    if (taken >= 0 && taken <= most) continue;
    weir_message_set(message,
                     "a cost of %" PRId64
                     " that was taken under rule %zu: accepted are 0 to "
                     "%" PRId64,
                     taken, i + 1, most);
    return WEIR_BAD_COST;
  }
  if (largest > 0) return WEIR_OK;
  weir_message_set(message, "every cost that was taken is 0: accepted is one above 0 at least");
  return WEIR_BAD_COST;
}

/* The process and the key have been checked. */
static weir_status check_settlement(weir_limiter *limiter, const weir_request *request,
                                    weir_message *message) {
  weir_status status = WEIR_OK;
  if (request->flags != WEIR_REQUEST_SETTLE || request->longest_wait_us != 0) {
    weir_message_set(message,
                     "WEIR_REQUEST_SETTLE with another flag or a longest_wait_us: accepted is "
                     "neither");
    return WEIR_BAD_ARGUMENT;
  }
  for (size_t i = 0; status == WEIR_OK && i < limiter->stack.count; i++)
    status = weir_settlement_check_rule(&limiter->stack.rules[i], i, message);
  if (status == WEIR_OK) status = check_taken(&request->decision, request->costs != NULL, message);
  if (status == WEIR_OK) status = check_stamp(limiter, request->decision.at_us, message);
  if (status == WEIR_OK) status = check_costs(limiter, request, message);
  return status;
}

weir_status weir_refund_check(const weir_limiter *limiter, int64_t cost, const weir_decision *taken,
                              weir_message *message) {
  weir_status status = check_taken(taken, false, message);
  if (status != WEIR_OK) return status;
  if (limiter->shared) {
    weir_message_set(message,
                     "a refund of a %s names no tenant: accepted is a settlement, which does",
                     weir_rule_kind_name(limiter->stack.rules[0].kind));
    return WEIR_BAD_ARGUMENT;
  }
  int64_t most = most_taken(limiter);
  if (taken->cost < most) most = taken->cost;
  if (cost >= 1 && cost <= most) return WEIR_OK;
  weir_message_set(message, "cost %" PRId64 " to give back: accepted are 1 to %" PRId64, cost,
                   most);
  return WEIR_BAD_COST;
}

/* --- requests ----------------------------------------------------------------------------------
 */

/* Rules that share a log count the same requests. */
static weir_status check_log_costs(const weir_limiter *limiter, const int64_t *costs,
                                   weir_message *message) {
  const weir_stack *stack = &limiter->stack;
  size_t first = 0;
  while (first < stack->count && !weir_rule_takes_one(&stack->rules[first]))
    first++;
  for (size_t i = first + 1; i < stack->count; i++) {
    if (!weir_rule_takes_one(&stack->rules[i]) || costs[i] == costs[first]) continue;
    weir_message_set(message,
                     "cost %" PRId64 " for rule %zu and %" PRId64
                     " for rule %zu (%s): accepted is one for both, as they share a log",
                     costs[first], first + 1, costs[i], i + 1,
                     weir_rule_kind_name(stack->rules[i].kind));
    return WEIR_BAD_COST;
  }
  return WEIR_OK;
}

static weir_status refuse_cost(const weir_limiter *limiter, const weir_request *request,
                               size_t rule, int64_t cost, weir_message *message) {
  const char *kind = weir_rule_kind_name(limiter->stack.rules[rule].kind);
  bool is_cost = cost >= 0 && cost <= WEIR_COST_MOST;
  if (is_cost && weir_rule_is_held(&limiter->stack.rules[rule])) {
    weir_message_set(
        message, "rule %zu: %s is entered by weir_limiter_reserve(), and left by its reservation",
        rule + 1, kind);
    return WEIR_BAD_ARGUMENT;
  }
  if (is_cost)
    weir_message_set(message, "cost %" PRId64 " for rule %zu (%s): accepted %s", cost, rule + 1,
                     kind, request->costs != NULL ? "are 0 and 1" : "is 1");
  else
    weir_message_set(message, "cost %" PRId64 " for rule %zu is outside 0 to %" PRId64, cost,
                     rule + 1, WEIR_COST_MOST);
  return WEIR_BAD_COST;
}

/* Under each rule. What is held has no cost but that of a look. */
static weir_status check_request_costs(const weir_limiter *limiter, const weir_request *request,
                                       weir_message *message) {
  int64_t largest = 0;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    int64_t cost = request->costs != NULL ? request->costs[i] : request->cost;
    bool looks = weir_rule_is_held(&limiter->stack.rules[i]) && request->flags & WEIR_REQUEST_PEEK;
    if (cost > largest) largest = cost;
    if (cost < 0 || cost > (looks ? WEIR_COST_MOST : limiter->cost_most[i]))
      return refuse_cost(limiter, request, i, cost, message);
  }
  if (largest == 0) {
    weir_message_set(message, "every cost is 0: accepted is one above 0 at least");
    return WEIR_BAD_COST;
  }
  if (request->costs == NULL || !limiter->one_by_one) return WEIR_OK;
  return check_log_costs(limiter, request->costs, message);
}

/* --- what a request says of itself -------------------------------------------------------------
 */

/* What a caller that was built with a newer header says and this version does not know is not passed over. */
static weir_status check_extra_size(const weir_extra *extra, weir_message *message) {
  enum { SIZE_MOST = 4096 }; /* a larger one was never set */
  size_t known = sizeof *extra;
  bool zero = extra->size >= known && extra->size <= SIZE_MOST;
  for (size_t i = known; zero && i < extra->size; i++)
    zero = ((const char *)extra)[i] == 0;
  if (zero) return WEIR_OK;
  weir_message_set(message,
                   "extra size is %zu: accepted is sizeof(weir_extra), %zu, and more where it is "
                   "all zero",
                   extra->size, known);
  return WEIR_BAD_ARGUMENT;
}

static weir_status refuse_without_tenant(const weir_limiter *limiter, weir_message *message) {
  weir_message_set(message, "a request of %.*s names no tenant: accepted is one of 1 byte or more",
                   SHOWN_MOST, limiter->texts[0]);
  return WEIR_BAD_ARGUMENT;
}

/* One rule has most=, up to which the limit of each request may go. */
static weir_status check_limit(weir_limiter *limiter, int64_t limit, weir_message *message) {
  const weir_stack *stack = &limiter->stack;
  if (limiter->steered == stack->count) {
    weir_message_set(message,
                     "a limit of %" PRId64
                     " for %s: accepted is a limiter with most= in one of its rules",
                     limit, limiter->texts[0]);
    return WEIR_BAD_ARGUMENT;
  }
  const weir_rule *rule = &stack->rules[limiter->steered];
  if (limit >= limiter->limit_least && limit <= rule->most) {
    if (!atomic_load_explicit(&limiter->limited, memory_order_relaxed))
      atomic_store_explicit(&limiter->limited, true, memory_order_relaxed);
    return WEIR_OK;
  }
  weir_message_set(message,
                   "a limit of %" PRId64 " for %s: accepted are %" PRId64 " to %" PRId64 "%s",
                   limit, limiter->texts[limiter->steered], limiter->limit_least, rule->most,
                   weir_rule_moves_in_time(rule) ? ", with which its burst is in proportion" : "");
  return WEIR_BAD_ARGUMENT;
}

static weir_status check_extra(weir_limiter *limiter, const weir_extra *extra,
                               weir_message *message) {
  weir_status status = check_extra_size(extra, message);
  if (status != WEIR_OK) return status;
  if (extra->class_name != NULL && weir_stack_find_class(&limiter->stack, extra->class_name) == 0) {
    char accepted[WEIR_CLASS_LIST_BYTES];
    weir_stack_list_classes(&limiter->stack, accepted);
    if (accepted[0] != '\0')
      weir_message_set(message,
                       "the class \"%.64s\" is none of this limiter: accepted are %s, or none",
                       extra->class_name, accepted);
    else
      weir_message_set(message, "the class \"%.64s\": %s has no classes, and accepted is none",
                       extra->class_name, limiter->texts[0]);
    return WEIR_BAD_ARGUMENT;
  }
  if (extra->limit != 0) status = check_limit(limiter, extra->limit, message);
  if (status != WEIR_OK) return status;
  if (limiter->shared && extra->tenant != NULL && extra->tenant_length > 0) return WEIR_OK;
  if (limiter->shared) return refuse_without_tenant(limiter, message);
  if (extra->tenant != NULL || extra->tenant_length != 0) {
    weir_message_set(message, "a tenant for %s: this rule has no tenants, and accepted is none",
                     limiter->texts[0]);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

weir_status weir_limiter_check_extra(weir_limiter *limiter, const weir_extra *extra,
                                     weir_message *message) {
  if (extra != NULL) return check_extra(limiter, extra, message);
  return limiter->shared ? refuse_without_tenant(limiter, message) : WEIR_OK;
}

void weir_request_say(const weir_limiter *limiter, const weir_extra *extra, weir_ask *ask) {
  if (extra->class_name != NULL)
    ask->class = weir_stack_find_class(&limiter->stack, extra->class_name);
  ask->limit = extra->limit;
  if (!limiter->shared) return;
  ask->tenant_number = weir_key_tenant(extra->tenant, extra->tenant_length);
  ask->weight = weir_rule_weight(&limiter->stack.rules[0], extra->tenant, extra->tenant_length);
}

weir_status weir_check_key(const void *key, size_t length, weir_message *message) {
  if (key != NULL && length > 0) return WEIR_OK;
  weir_message_set(message, "the key is empty: accepted are keys of 1 byte or more");
  return WEIR_BAD_KEY;
}

/* Comes before anything that locks: in a child of the process that created the limiter, a lock that
 * was held at the fork is never let go. */
weir_status weir_request_check_all(weir_limiter *limiter, const weir_request *request,
                                   const weir_extra *extra, weir_message *message) {
  weir_status status;
  if (limiter->process != weir_process_number) return weir_limiter_check_process(limiter, message);
  status = weir_check_key(request->key, request->key_length, message);
  if (status == WEIR_OK) status = weir_limiter_check_extra(limiter, extra, message);
  if (status != WEIR_OK) return status;
  if (request->flags & WEIR_REQUEST_SETTLE) return check_settlement(limiter, request, message);
  if (request->costs == NULL && (request->cost < 1 || request->cost > WEIR_COST_MOST)) {
    weir_message_set(message, "cost %" PRId64 " is outside 1 to %" PRId64, request->cost,
                     WEIR_COST_MOST);
    return WEIR_BAD_COST;
  }
  status = check_request_costs(limiter, request, message);
  if (status != WEIR_OK) return status;
  if (request->flags & ~(unsigned)REQUEST_FLAGS) {
    weir_message_set(message, "flags is 0x%x: accepted are those of enum weir_request_flag",
                     request->flags);
    return WEIR_BAD_ARGUMENT;
  }
  if (request->flags & WEIR_REQUEST_UP_TO && request->costs != NULL) {
    weir_message_set(message, "WEIR_REQUEST_UP_TO with a cost per rule: accepted is one cost");
    return WEIR_BAD_ARGUMENT;
  }
  if (request->longest_wait_us < 0 ||
      request->longest_wait_us > limiter->settings.longest_wait_us) {
    weir_message_set(message,
                     "longest_wait_us is %" PRId64 ": accepted are 0 to %" PRId64
                     ", the limiter's option of that name",
                     request->longest_wait_us, limiter->settings.longest_wait_us);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

/* --- many at once, and as one decision ---------------------------------------------------------
 */

weir_status weir_limiters_check(weir_limiter *const *limiters, size_t count,
                                weir_message *message) {
  for (size_t i = 0; i < count; i++) {
    if (limiters[i] != NULL) continue;
    weir_message_set(message, "limiters[%zu] is NULL: accepted are limiters", i);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

weir_status weir_check_many(weir_limiter *const *limiters, size_t count, size_t most,
                            weir_message *message) {
  if (count > 0 && count <= most)
    return limiters != NULL ? weir_limiters_check(limiters, count, message) : WEIR_OK;
  weir_message_set(message, "a %s of %zu requests: accepted are 1 to %zu",
                   most == WEIR_ALL_MOST ? "decision" : "batch", count, most);
  return WEIR_BAD_ARGUMENT;
}

/* Of a queue a place can be given back only while it is the last, of a log nothing. */
bool weir_charge_may_stay(const weir_limiter *limiter, bool waits) {
  bool stays = waits;
  for (size_t i = 0; i < limiter->stack.count; i++)
    stays = stays || weir_rule_takes_one(&limiter->stack.rules[i]) ||
            weir_rule_gives_places(&limiter->stack.rules[i]);
  return stays;
}

/* What a limiter's rules, and a request that may wait, leave of it. */
static weir_status check_rules(const weir_limiter *limiter, bool waits, weir_message *message) {
  if (limiter->shared) {
    weir_message_set(
        message,
        "a %s gives back by settling alone, and so is no member of a decision of several "
        "keys",
        weir_rule_kind_name(limiter->stack.rules[0].kind));
    return WEIR_BAD_ARGUMENT;
  }
  for (size_t i = 0; i < limiter->stack.count; i++) {
    if (!weir_rule_is_held(&limiter->stack.rules[i])) continue;
    weir_message_set(message,
                     "%s: a reservation holds what is in flight, and a decision of several "
                     "keys has none",
                     limiter->texts[i]);
    return WEIR_BAD_ARGUMENT;
  }
  bool queues = waits;
  bool swaps = limiter->settings.traits & WEIR_TRAIT_SWAP;
  for (size_t i = 0; i < limiter->stack.count; i++)
    queues = queues || weir_rule_gives_places(&limiter->stack.rules[i]);
  if (!queues || swaps) return WEIR_OK;
  weir_message_set(message,
                   "%s: a place in a queue cannot be given back in a store without "
                   "compare-and-swap, so accepted is no leaky-bucket and no wait",
                   limiter->texts[0]);
  return WEIR_BAD_ARGUMENT;
}

static weir_status refuse_two_that_stay(const weir_limiter *limiter, const weir_limiter *other,
                                        weir_message *message) {
  weir_message_set(message,
                   "%s beside %s: neither gives back what it was charged, and accepted is one such "
                   "rule",
                   limiter->texts[0], other->texts[0]);
  return WEIR_BAD_ARGUMENT;
}

static bool is_same(const weir_request *one, const weir_request *other) {
  return one->key_length == other->key_length && memcmp(one->key, other->key, one->key_length) == 0;
}

static weir_status check_member(weir_limiter *const *limiters, const weir_request *requests,
                                size_t at, const weir_extra *extra, weir_message *message) {
  weir_limiter *limiter = limiters[at];
  const weir_request *request = &requests[at];
  bool waits = request->longest_wait_us > 0;
  weir_status status = weir_request_check(limiter, request, extra, message);
  if (status != WEIR_OK) return status;
  if (request->flags != 0) {
    weir_message_set(message,
                     "flags is 0x%x: accepted in a decision of several keys are 0, or "
                     "WEIR_REQUEST_PEEK in all of them",
                     request->flags);
    return WEIR_BAD_ARGUMENT;
  }
  status = check_rules(limiter, waits, message);
  if (status != WEIR_OK) return status;
  for (size_t i = 0; i < at; i++) {
    if (weir_charge_may_stay(limiter, waits) &&
        weir_charge_may_stay(limiters[i], requests[i].longest_wait_us > 0))
      return refuse_two_that_stay(limiter, limiters[i], message);
    if (limiter == limiters[i] && is_same(request, &requests[i])) {
      weir_message_set(message, "the limiter and key of requests[%zu]: accepted is each key once",
                       i);
      return WEIR_BAD_ARGUMENT;
    }
  }
  return WEIR_OK;
}

weir_status weir_all_check(weir_limiter *const *limiters, const weir_request *requests,
                           const weir_extra *const *extras, size_t count, size_t *bad,
                           weir_message *message) {
  weir_status status = WEIR_OK;
  for (size_t i = 0; i < count && status == WEIR_OK; i++) {
    *bad = i;
    status = check_member(limiters, requests, i, weir_extra_of(extras, i), message);
  }
  return status;
}

weir_status weir_check_all(weir_limiter *const *limiters, size_t count, weir_message *message) {
  const weir_limiter *stays = NULL;
  weir_status status = weir_check_many(limiters, count, WEIR_ALL_MOST, message);
  for (size_t i = 0; i < count && status == WEIR_OK; i++) {
    const weir_limiter *limiter = limiters[i];
    status = check_rules(limiter, false, message);
    if (status != WEIR_OK || !weir_charge_may_stay(limiter, false)) continue;
    if (stays != NULL) status = refuse_two_that_stay(limiter, stays, message);
    stays = limiter;
  }
  return status;
}

/* Requests: what a caller may ask for, and having it decided. */
#include <inttypes.h>

#include <weir/backend.h>

#include "algorithm/method.h"
#include "limiter/limiter.h"

#define COST_MOST (INT64_C(1) << 31)

enum { REQUEST_FLAGS = WEIR_REQUEST_PEEK | WEIR_REQUEST_UP_TO };

/* --- checks ------------------------------------------------------------------------------------
 */

/* A log has one entry for each request. */
static weir_status check_log_cost(const weir_limiter *limiter, size_t i, int64_t cost,
                                  const char *accepted, weir_message *message) {
  const weir_rule *rule = &limiter->stack.rules[i];
  if (!weir_method_of(rule)->one_by_one || cost <= 1) return WEIR_OK;
  weir_message_set(message, "cost %" PRId64 " for rule %zu (%s): accepted %s", cost, i + 1,
                   weir_rule_kind_name(rule->kind), accepted);
  return WEIR_BAD_COST;
}

static weir_status check_cost(const weir_limiter *limiter, int64_t cost, weir_message *message) {
  if (cost < 1 || cost > COST_MOST) {
    weir_message_set(message, "cost %" PRId64 " is outside 1 to %" PRId64, cost, COST_MOST);
    return WEIR_BAD_COST;
  }
  weir_status status = WEIR_OK;
  for (size_t i = 0; i < limiter->stack.count && status == WEIR_OK; i++)
    status = check_log_cost(limiter, i, cost, "is 1", message);
  return status;
}

static weir_status check_costs(const weir_limiter *limiter, const int64_t *costs,
                               weir_message *message) {
  int64_t largest = 0;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    if (costs[i] < 0 || costs[i] > COST_MOST) {
      weir_message_set(message, "cost %" PRId64 " for rule %zu is outside 0 to %" PRId64, costs[i],
                       i + 1, COST_MOST);
      return WEIR_BAD_COST;
    }
    weir_status status = check_log_cost(limiter, i, costs[i], "are 0 and 1", message);
    if (status != WEIR_OK) return status;
    if (costs[i] > largest) largest = costs[i];
  }
  if (largest > 0) return WEIR_OK;
  weir_message_set(message, "every cost is 0: accepted is one above 0 at least");
  return WEIR_BAD_COST;
}

static weir_status check_wishes(const weir_limiter *limiter, const weir_request *request,
                                weir_message *message) {
  int64_t wait_most_us = limiter->terms.longest_wait_us;
  if (request->flags & ~(unsigned)REQUEST_FLAGS) {
    weir_message_set(message, "flags is 0x%x: accepted are those of enum weir_request_flag",
                     request->flags);
    return WEIR_BAD_ARGUMENT;
  }
  if (request->flags & WEIR_REQUEST_UP_TO && request->costs != NULL) {
    weir_message_set(message, "WEIR_REQUEST_UP_TO with a cost per rule: accepted is one cost");
    return WEIR_BAD_ARGUMENT;
  }
  if (request->longest_wait_us < 0 || request->longest_wait_us > wait_most_us) {
    weir_message_set(message,
                     "longest_wait_us is %" PRId64 ": accepted are 0 to %" PRId64
                     ", the limiter's option of that name",
                     request->longest_wait_us, wait_most_us);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

weir_status weir_request_check(const weir_limiter *limiter, const weir_request *request,
                               weir_message *message) {
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status != WEIR_OK) return status;
  if (request->key == NULL || request->key_length == 0) {
    weir_message_set(message, "the key is empty: accepted are keys of 1 byte or more");
    return WEIR_BAD_KEY;
  }
  status = request->costs != NULL ? check_costs(limiter, request->costs, message)
                                  : check_cost(limiter, request->cost, message);
  return status == WEIR_OK ? check_wishes(limiter, request, message) : status;
}

/* --- one request -------------------------------------------------------------------------------
 */

/* Costs of its own keep a request out of groups, whose sum is capped for one cost under all rules.
 */
weir_ask weir_request_ask(const weir_request *request) {
  return (weir_ask){
      .kind = request->flags & WEIR_REQUEST_PEEK ? WEIR_ASK_PEEK : WEIR_ASK_TAKE,
      .alone = request->costs != NULL,
      .up_to = (request->flags & WEIR_REQUEST_UP_TO) != 0,
      .cost = request->cost,
      .costs = request->costs,
      .waits = request->longest_wait_us > 0,
      .wait_us = request->longest_wait_us,
  };
}

weir_status weir_limiter_settle(weir_limiter *limiter, const void *key, size_t key_length,
                                weir_ask *ask, weir_message *message) {
  weir_call *call = weir_call_acquire(limiter, 1);
  if (call == NULL) return weir_no_memory(message);
  weir_call_add(call, key, key_length, ask);
  weir_call_run(call);
  const weir_ask asked = call->members[0].ask;
  if (asked.status != WEIR_OK) weir_message_set(message, "%s", call->explanation.text);
  weir_call_release(call);
  if (weir_limiter_has_answer(limiter, ask, asked.status)) {
    weir_limiter_fall_back(limiter, key, key_length, ask, &asked);
  } else {
    *ask = asked;
  }
  return ask->status;
}

/* Counts a request that is over. */
static void tally(const weir_limiter *limiter, const weir_request *request, weir_status status,
                  const weir_decision *decision) {
  weir_counts_add(limiter->counts, status, request->flags & WEIR_REQUEST_PEEK ? NULL : decision);
}

static weir_status decide_one(weir_limiter *limiter, const weir_request *request,
                              weir_decision *decision, weir_message *message) {
  weir_status status = weir_request_check(limiter, request, message);
  if (status == WEIR_OK) {
    weir_ask ask = weir_request_ask(request);
    status = weir_limiter_settle(limiter, request->key, request->key_length, &ask, message);
    if (status == WEIR_OK) *decision = ask.decision;
  }
  tally(limiter, request, status, decision);
  return status;
}

weir_status weir_limiter_take(weir_limiter *limiter, const void *key, size_t key_length,
                              int64_t cost, weir_decision *decision, weir_message *message) {
  weir_request request = {.key = key, .key_length = key_length, .cost = cost};
  return decide_one(limiter, &request, decision, message);
}

weir_status weir_limiter_take_up_to(weir_limiter *limiter, const void *key, size_t key_length,
                                    int64_t cost, weir_decision *decision, weir_message *message) {
  weir_request request = {
      .key = key, .key_length = key_length, .cost = cost, .flags = WEIR_REQUEST_UP_TO};
  return decide_one(limiter, &request, decision, message);
}

weir_status weir_limiter_peek(weir_limiter *limiter, const void *key, size_t key_length,
                              int64_t cost, weir_decision *decision, weir_message *message) {
  weir_request request = {
      .key = key, .key_length = key_length, .cost = cost, .flags = WEIR_REQUEST_PEEK};
  return decide_one(limiter, &request, decision, message);
}

weir_status weir_limiter_reset(weir_limiter *limiter, const void *key, size_t key_length,
                               weir_message *message) {
  weir_request request = {.key = key, .key_length = key_length, .cost = 1};
  weir_status status = weir_request_check(limiter, &request, message);
  weir_ask ask = {.kind = WEIR_ASK_RESET, .alone = true, .cost = 1};
  if (status == WEIR_OK) status = weir_limiter_settle(limiter, key, key_length, &ask, message);
  weir_counts_add(limiter->counts, status, NULL);
  return status;
}

/* --- many requests -----------------------------------------------------------------------------
 */

/* Carries a member's answer over to its request, or the policy's. */
static void answer(weir_limiter *limiter, const weir_member *member, weir_request *request) {
  weir_ask ask = member->ask;
  if (weir_limiter_has_answer(limiter, &ask, ask.status)) {
    ask = weir_request_ask(request);
    weir_limiter_fall_back(limiter, request->key, request->key_length, &ask, &member->ask);
  }
  request->status = ask.status;
  if (request->status == WEIR_OK) request->decision = ask.decision;
}

/* Which of several the message is about. */
static void name_request(size_t i, size_t count, weir_message *message) {
  if (count > 1) weir_message_prefix(message, "requests[%zu]: ", i);
}

/* The answers of all; the first that failed speaks for them, else the first that the store did not
 * decide. */
static weir_status collect(weir_limiter *limiter, const weir_call *call, weir_request *requests,
                           size_t count, weir_message *message) {
  weir_status first = WEIR_OK;
  const weir_member *member = call->members;
  size_t explained = 0;
  for (size_t i = 0; i < count; i++) {
    weir_request *request = &requests[i];
    bool asked = request->status == WEIR_OK;
    if (asked && first == WEIR_OK && member == call->explained) explained = i;
    if (asked) answer(limiter, member++, request);
    tally(limiter, request, request->status, &request->decision);
    if (first != WEIR_OK || request->status == WEIR_OK) continue;
    first = request->status;
    if (asked) continue;
    weir_request_check(limiter, request, message);
    name_request(i, count, message);
    explained = count;
  }
  if (call->explained != NULL && explained < count) {
    weir_message_set(message, "%s", call->explanation.text);
    name_request(explained, count, message);
  }
  return first;
}

/* Nothing was asked: so say all of them. */
static weir_status fail_all(const weir_limiter *limiter, weir_request *requests, size_t count,
                            weir_status status) {
  for (size_t i = 0; i < count; i++) {
    requests[i].status = status;
    weir_counts_add(limiter->counts, status, NULL);
  }
  return status;
}

weir_status weir_limiter_decide(weir_limiter *limiter, weir_request *requests, size_t count,
                                weir_message *message) {
  if (count == 0 || count > WEIR_BATCH_MOST) {
    weir_message_set(message, "a batch of %zu requests: accepted are 1 to %d", count,
                     WEIR_BATCH_MOST);
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status != WEIR_OK) return fail_all(limiter, requests, count, status);
  weir_call *call = weir_call_acquire(limiter, count);
  if (call == NULL) return fail_all(limiter, requests, count, weir_no_memory(message));
  for (size_t i = 0; i < count; i++) {
    weir_request *request = &requests[i];
    request->status = weir_request_check(limiter, request, NULL);
    if (request->status != WEIR_OK) continue;
    weir_ask ask = weir_request_ask(request);
    weir_call_add(call, request->key, request->key_length, &ask);
  }
  weir_call_run(call);
  status = collect(limiter, call, requests, count, message);
  weir_call_release(call);
  return status;
}

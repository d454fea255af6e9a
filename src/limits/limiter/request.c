/* Requests: what a caller may ask for, and having it decided. */
#include <inttypes.h>

#include <weir/backend.h>

#include "limiter/limiter.h"
#include "store/process.h"

/* Others may come to mean something: until then they are refused. */
enum { REQUEST_FLAGS = WEIR_REQUEST_PEEK | WEIR_REQUEST_UP_TO };

/* --- checks ------------------------------------------------------------------------------------
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

/* Comes before anything that locks: in a child of the process that created the limiter, a lock that
 * was held at the fork is never let go. */
weir_status weir_request_check(const weir_limiter *limiter, const weir_request *request,
                               weir_message *message) {
  const int64_t *costs = request->costs;
  int64_t largest = 0;
  if (limiter->process != weir_process_number) return weir_limiter_check_process(limiter, message);
  if (request->key == NULL || request->key_length == 0) {
    weir_message_set(message, "the key is empty: accepted are keys of 1 byte or more");
    return WEIR_BAD_KEY;
  }
  if (costs == NULL && (request->cost < 1 || request->cost > WEIR_COST_MOST)) {
    weir_message_set(message, "cost %" PRId64 " is outside 1 to %" PRId64, request->cost,
                     WEIR_COST_MOST);
    return WEIR_BAD_COST;
  }
  for (size_t i = 0; i < limiter->stack.count; i++) {
    int64_t cost = costs != NULL ? costs[i] : request->cost;
    if (cost > largest) largest = cost;
    if (cost >= 0 && cost <= limiter->cost_most[i]) continue;
    if (weir_rule_is_held(&limiter->stack.rules[i]) && cost >= 0 && cost <= WEIR_COST_MOST) {
      if (request->flags & WEIR_REQUEST_PEEK) continue;
      weir_message_set(
          message, "rule %zu: %s is entered by weir_limiter_reserve(), and left by its reservation",
          i + 1, weir_rule_kind_name(limiter->stack.rules[i].kind));
      return WEIR_BAD_ARGUMENT;
    }
    if (cost < 0 || cost > WEIR_COST_MOST)
      weir_message_set(message, "cost %" PRId64 " for rule %zu is outside 0 to %" PRId64, cost,
                       i + 1, WEIR_COST_MOST);
    else
      weir_message_set(message, "cost %" PRId64 " for rule %zu (%s): accepted %s", cost, i + 1,
                       weir_rule_kind_name(limiter->stack.rules[i].kind),
                       costs != NULL ? "are 0 and 1" : "is 1");
    return WEIR_BAD_COST;
  }
  if (largest == 0) {
    weir_message_set(message, "every cost is 0: accepted is one above 0 at least");
    return WEIR_BAD_COST;
  }
  if (costs != NULL && limiter->one_by_one) {
    weir_status status = check_log_costs(limiter, costs, message);
    if (status != WEIR_OK) return status;
  }
  if (request->flags & ~(unsigned)REQUEST_FLAGS) {
    weir_message_set(message, "flags is 0x%x: accepted are those of enum weir_request_flag",
                     request->flags);
    return WEIR_BAD_ARGUMENT;
  }
  if (request->flags & WEIR_REQUEST_UP_TO && costs != NULL) {
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

/* --- one request -------------------------------------------------------------------------------
 */

/* Costs of its own keep a request out of groups, whose sum is capped for one cost under all rules. To
 * a lease, costs that are all the same are one cost. */
weir_request_state weir_request_begin(const weir_limiter *limiter, const weir_request *request) {
  bool one_cost = request->costs != NULL && limiter->leases;
  for (size_t i = 1; one_cost && i < limiter->stack.count; i++)
    one_cost = request->costs[i] == request->costs[0];
  return (weir_request_state){
      .kind = request->flags & WEIR_REQUEST_PEEK ? WEIR_PEEK : WEIR_TAKE,
      .alone = request->costs != NULL,
      .up_to = (request->flags & WEIR_REQUEST_UP_TO) != 0,
      .cost = one_cost ? request->costs[0] : request->cost,
      .costs = one_cost ? NULL : request->costs,
      .waits = request->longest_wait_us > 0,
      .wait_us = request->longest_wait_us,
      .key = request->key,
      .key_length = request->key_length,
  };
}

/* In line, alone in a call. A call is only acquired where the request must see its key's entry. */
static void answer_in_line(weir_limiter *limiter, weir_request_state *request, weir_moment at,
                           weir_message *message) {
  weir_call *call = NULL;
  weir_call_join(&call, limiter, request, at);
  if (call == NULL) {
    if (request->status != WEIR_OK) weir_no_memory(message);
    return;
  }
  weir_call_begin(call, request, 1, at);
  weir_call_run(call);
  if (request->status != WEIR_OK) weir_message_set(message, "%s", call->explanation.text);
  weir_call_release(call);
}

weir_status weir_limiter_answer(weir_limiter *limiter, weir_request_state *request,
                                weir_message *message) {
  weir_moment at = weir_limiter_moment(limiter);
  if (!limiter->direct || !weir_direct_answer(limiter, request, &at, message))
    answer_in_line(limiter, request, at, message);
  if (weir_limiter_has_answer(limiter, request, request->status))
    weir_limiter_fall_back(limiter, request, message);
  return request->status;
}

/* Peeks are not counted as decisions: they admit nothing. */
static weir_status decide_one(weir_limiter *limiter, const weir_request *request,
                              weir_decision *decision, weir_message *message) {
  weir_status status = weir_request_check(limiter, request, message);
  if (status == WEIR_OK) {
    weir_request_state state = weir_request_begin(limiter, request);
    status = weir_limiter_answer(limiter, &state, message);
    if (status == WEIR_OK) *decision = state.decision;
  }
  weir_counts_add(limiter->counts, status, request->flags & WEIR_REQUEST_PEEK ? NULL : decision);
  return status;
}

/* A decision for costs of its own is told so, also where they came to one. */
weir_status weir_request_decide(weir_limiter *limiter, weir_request *request,
                                weir_message *message) {
  request->status = decide_one(limiter, request, &request->decision, message);
  if (request->status == WEIR_OK && request->costs != NULL) request->decision.cost = WEIR_OWN_COSTS;
  return request->status;
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

/* The key is checked as that of a peek of cost 1. A reset must not share its group: what others
 * charge in the same round would go with it or not, by chance. */
weir_status weir_limiter_reset(weir_limiter *limiter, const void *key, size_t key_length,
                               weir_message *message) {
  weir_request request = {
      .key = key, .key_length = key_length, .cost = 1, .flags = WEIR_REQUEST_PEEK};
  weir_status status = weir_request_check(limiter, &request, message);
  if (status == WEIR_OK) {
    weir_request_state state = weir_request_begin(limiter, &request);
    state.kind = WEIR_RESET;
    state.alone = true;
    status = weir_limiter_answer(limiter, &state, message);
  }
  weir_counts_add(limiter->counts, status, NULL);
  return status;
}

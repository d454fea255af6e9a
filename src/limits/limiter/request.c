/* Requests: having one decided. */
#include <weir/backend.h>

#include "limiter/limiter.h"

/* Costs of its own keep a request out of groups, whose sum is capped for one cost under all rules. To
 * a lease, costs that are all the same are one cost. What else stands in `cost` beside them is a caller's
 * memory that nobody has checked: it is never counted. */
void weir_request_begin(const weir_limiter *limiter, const weir_request *request,
                        const weir_extra *extra, weir_waiting *state) {
  bool one_cost = request->costs != NULL && limiter->known->one_cost;
  for (size_t i = 1; one_cost && i < limiter->stack.count; i++)
    one_cost = request->costs[i] == request->costs[0];
  int64_t cost = request->costs == NULL ? request->cost : one_cost ? request->costs[0] : 0;
  weir_ask *ask = &state->claim.ask;
  weir_waiting_begin(state, request->flags & WEIR_REQUEST_PEEK ? WEIR_PEEK : WEIR_TAKE,
                     request->key, request->key_length, cost);
  ask->alone = request->costs != NULL;
  ask->up_to = (request->flags & WEIR_REQUEST_UP_TO) != 0;
  ask->costs = one_cost ? NULL : request->costs;
  ask->waits = request->longest_wait_us > 0;
  ask->wait_us = request->longest_wait_us;
  if (extra != NULL) weir_request_say(limiter, extra, ask);
}

/* A request that may fit, and that no denial which is shown answers: where it stands, or in line,
 * alone in a call. A call is only acquired where the request must see its key's entry. */
static weir_status answer(weir_limiter *limiter, weir_waiting *request, const weir_key *key,
                          weir_moment at, weir_message *message) {
  if (!limiter->direct || !weir_direct_answer(limiter, request, key, &at, message)) {
    weir_call *call = NULL;
    weir_call_join_at(&call, limiter, request, key, at);
    if (call != NULL) {
      weir_call_begin(call, request, 1, at);
      weir_call_run(call);
      if (request->claim.verdict.status != WEIR_OK)
        weir_message_set(message, "%s", call->explanation.text);
      weir_call_release(call);
    } else if (request->claim.verdict.status != WEIR_OK) {
      weir_no_memory(message);
    }
  }
  if (weir_limiter_has_answer(limiter, request, request->claim.verdict.status))
    weir_limiter_fall_back(limiter, request, message);
  return request->claim.verdict.status;
}

/* What never fits, or is denied for longer, needs no lock. */
weir_status weir_limiter_answer(weir_limiter *limiter, weir_waiting *request,
                                weir_message *message) {
  weir_moment at = weir_limiter_moment(limiter);
  weir_key key;
  weir_limiter_find(limiter, &request->claim.ask, &key);
  if (weir_know(limiter, request, &key, at, WEIR_SHOWN, NULL)) return WEIR_OK;
  return answer(limiter, request, &key, at, message);
}

/* Peeks are not counted as decisions: they admit nothing. */
static weir_status decide_one(weir_limiter *limiter, const weir_request *request,
                              const weir_extra *extra, weir_decision *decision,
                              weir_message *message) {
  weir_status status = weir_request_check(limiter, request, extra, message);
  if (status == WEIR_OK) {
    weir_waiting state;
    weir_request_begin(limiter, request, extra, &state);
    state.uncounted = state.claim.ask.kind == WEIR_TAKE;
    status = weir_limiter_answer(limiter, &state, message);
    if (status == WEIR_OK) *decision = state.claim.verdict.decision;
    if (state.claim.ask.kind == WEIR_TAKE && !state.uncounted) return status;
  }
  weir_counts_add(limiter->counts, status, request->flags & WEIR_REQUEST_PEEK ? NULL : decision);
  return status;
}

/* A decision for costs of its own is told so, also where they came to one. */
weir_status weir_request_decide(weir_limiter *limiter, weir_request *request,
                                const weir_extra *extra, weir_message *message) {
  request->status = decide_one(limiter, request, extra, &request->decision, message);
  if (request->status == WEIR_OK && request->costs != NULL) request->decision.cost = WEIR_OWN_COSTS;
  return request->status;
}

/* Under one rule, what is shown would have told the smallest cost. */
__attribute__((noinline)) static bool knows_of_shown(weir_limiter *limiter, weir_waiting *request,
                                                     const weir_key *key, weir_moment at) {
  if (request->claim.ask.cost == 1 && limiter->stack.count == 1) return false;
  return weir_know(limiter, request, key, at, WEIR_SHOWN, NULL);
}

weir_status weir_limiter_take(weir_limiter *limiter, const void *key, size_t key_length,
                              int64_t cost, weir_decision *decision, weir_message *message) {
  if (!weir_request_is_plain(limiter, key, key_length, cost) || cost > limiter->capacity_least) {
    weir_request request = {.key = key, .key_length = key_length, .cost = cost};
    return decide_one(limiter, &request, NULL, decision, message);
  }
  weir_status status = WEIR_OK;
  weir_moment at = weir_limiter_moment(limiter);
  weir_key read;
  weir_key_read(limiter->store->secret, key, key_length, &read);
  bool shown = weir_limiter_has_denial(limiter, &read, at);
  if (!shown || cost > 1 ||
      weir_denials_read(limiter->denials, &read, at.clock_steps, at.now_us, NULL, decision) ==
          WEIR_DENIAL_NONE) {
    weir_waiting state;
    weir_waiting_begin(&state, WEIR_TAKE, key, key_length, cost);
    state.uncounted = true;
    if (!shown || !knows_of_shown(limiter, &state, &read, at))
      answer(limiter, &state, &read, at, message);
    status = state.claim.verdict.status;
    if (status == WEIR_OK) *decision = state.claim.verdict.decision;
    if (!state.uncounted) return status;
  }
  weir_counts_add(limiter->counts, status, decision);
  return status;
}

weir_status weir_limiter_take_up_to(weir_limiter *limiter, const void *key, size_t key_length,
                                    int64_t cost, weir_decision *decision, weir_message *message) {
  weir_request request = {
      .key = key, .key_length = key_length, .cost = cost, .flags = WEIR_REQUEST_UP_TO};
  return decide_one(limiter, &request, NULL, decision, message);
}

weir_status weir_limiter_peek(weir_limiter *limiter, const void *key, size_t key_length,
                              int64_t cost, weir_decision *decision, weir_message *message) {
  weir_request request = {
      .key = key, .key_length = key_length, .cost = cost, .flags = WEIR_REQUEST_PEEK};
  return decide_one(limiter, &request, NULL, decision, message);
}

/* The key is checked as that of a peek of cost 1. A reset must not share its group: what others
 * charge in the same round would go with it or not, by chance. */
weir_status weir_limiter_reset(weir_limiter *limiter, const void *key, size_t key_length,
                               weir_message *message) {
  weir_request request = {
      .key = key, .key_length = key_length, .cost = 1, .flags = WEIR_REQUEST_PEEK};
  if (limiter->shared) {
    weir_message_set(message,
                     "a %s has no reset: nobody can list its tenants, and one period ends all",
                     weir_rule_kind_name(limiter->stack.rules[0].kind));
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_request_check(limiter, &request, NULL, message);
  if (status == WEIR_OK) {
    weir_waiting state;
    weir_request_begin(limiter, &request, NULL, &state);
    state.claim.ask.kind = WEIR_RESET;
    state.claim.ask.alone = true;
    status = weir_limiter_answer(limiter, &state, message);
  }
  weir_counts_add(limiter->counts, status, NULL);
  return status;
}

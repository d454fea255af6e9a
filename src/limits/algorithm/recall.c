/* Answers without the store: by the request alone, or by what the memo remembers. */
#include "algorithm/decide.h"
#include "algorithm/method.h"

bool weir_settle_never(const weir_stack *stack, int64_t now_us, weir_request_state *request) {
  weir_request_offer(stack, request);
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    if (weir_request_cost(request, i) <= rule->capacity) continue;
    request->decision = (weir_decision){
        .source = WEIR_SOURCE_LOCAL,
        .rule = (uint32_t)i,
        .limit = rule->capacity,
        .remaining = WEIR_NOT_KNOWN,
        .retry_after_us = WEIR_NEVER,
        .reset_after_us = WEIR_NOT_KNOWN,
        .delay_us = rule->hold_us,
        .cost = request->costs != NULL ? WEIR_OWN_COSTS : request->cost,
        .at_us = now_us,
    };
    request->status = WEIR_OK;
    return request->settled = true;
  }
  return false;
}

/* What each rule says to this request by the memo alone, and which of them deny it. False: it does
 * not know enough. */
static bool recall(const weir_stack *stack, const weir_settings *settings, const weir_memo *memo,
                   int64_t now_us, const weir_request_state *request,
                   weir_decision figures[WEIR_RULES_MOST], unsigned *denying) {
  *denying = 0;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    const void *memory = weir_memo_own(stack, memo, i);
    int64_t room;
    figures[i] = (weir_decision){.cost = request->charge};
    if (!weir_method_of(rule)->recall(rule, settings, memory, now_us, request, request->charge,
                                      &room, &figures[i]))
      return false;
    if (room < request->charge) *denying |= 1U << i;
  }
  return true;
}

static void settle_by_memo(const weir_stack *stack, const weir_decision figures[], int64_t now_us,
                           unsigned denying, weir_request_state *request) {
  request->decision = weir_decide_speak(stack, figures, request, denying);
  request->decision.source = WEIR_SOURCE_LOCAL;
  request->decision.at_us = now_us;
  request->status = WEIR_OK;
  request->settled = true;
}

bool weir_settle_locally(const weir_stack *stack, const weir_settings *settings,
                         const weir_memo *memo, int64_t now_us, weir_request_state *request) {
  weir_decision figures[WEIR_RULES_MOST];
  unsigned denying;
  if (!settings->local_denial || memo->denied_cost == 0 || now_us < memo->denied_at_us ||
      now_us >= memo->denied_until_us)
    return false;
  weir_request_offer(stack, request);
  if (request->charge < memo->denied_cost) return false;
  if (stack->count_all || !weir_decide_is_plain(request)) return false;
  if (!recall(stack, settings, memo, now_us, request, figures, &denying) || denying == 0)
    return false;
  settle_by_memo(stack, figures, now_us, denying, request);
  return true;
}

/* What others have of the limit is in the memo, as far as this process knows; what it holds itself
 * counts there as charged, and is room. */
bool weir_settle_leased(const weir_stack *stack, const weir_settings *settings,
                        const weir_memo *memo, int64_t now_us, int64_t room, bool must,
                        weir_request_state *request) {
  weir_decision figures[WEIR_RULES_MOST];
  unsigned denying;
  bool known = recall(stack, settings, memo, now_us, request, figures, &denying);
  if (!known && !must) return false;
  request->decision.delay_us = 0;
  for (size_t i = 0; i < stack->count; i++) {
    if (!known) figures[i] = (weir_decision){.cost = request->charge};
    figures[i].remaining = known ? figures[i].remaining + room : WEIR_NOT_KNOWN;
    figures[i].retry_after_us = 0;
  }
  settle_by_memo(stack, figures, now_us, 0, request);
  if (!known) request->decision.reset_after_us = WEIR_NOT_KNOWN;
  return known;
}

/* A rule that denies tells its own wait; where none does, the pause is what it waits for. */
bool weir_settle_paused(const weir_stack *stack, const weir_settings *settings,
                        const weir_memo *memo, int64_t now_us, int64_t pause_us,
                        weir_request_state *request) {
  weir_decision figures[WEIR_RULES_MOST];
  unsigned denying;
  if (!settings->local_denial || !weir_decide_is_plain(request) ||
      !recall(stack, settings, memo, now_us, request, figures, &denying))
    return false;
  if (denying == 0) figures[0].retry_after_us = pause_us;
  settle_by_memo(stack, figures, now_us, denying != 0 ? denying : 1, request);
  return true;
}

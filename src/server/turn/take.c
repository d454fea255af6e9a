/* Takes, peeks and resets. */
#include <stdio.h>

#include "turn/turn.h"

weir_status weir_check_costs(weir_turn *turn, const weir_order *order, weir_meaning *found,
                             weir_message *why) {
  const weir_limiter *limiter = found->target.limiter;
  size_t rules = limiter != NULL ? weir_limiter_rules(limiter) : 0;
  (void)turn;
  if (order->costs == NULL || limiter == NULL || order->costs->count == rules) return WEIR_OK;
  snprintf(why->text, sizeof why->text,
           rules == 1 ? "there are %zu costs: one is accepted"
                      : "there are %zu costs: one, or one for each of the %zu rules, is accepted",
           order->costs->count, rules);
  return WEIR_BAD_COST;
}

weir_status weir_check_take(weir_turn *turn, const weir_order *order, weir_meaning *found,
                            weir_message *why) {
  const weir_limiter *limiter = found->target.limiter;
  if (limiter == NULL || !found->named->holds || !weir_registry_holds(limiter))
    return weir_check_costs(turn, order, found, why);
  *why = (weir_message){
      "a place of this limiter is acquired and released: nothing can be "
      "taken or settled"};
  return WEIR_BAD_ARGUMENT;
}

/* A key of a list is answered by its tier. */
void weir_fill_take(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                    size_t request) {
  (void)order;
  if (found->target.kind == WEIR_TARGET_LIMITER) return;
  bool allowed = found->target.kind == WEIR_TARGET_UNLIMITED;
  weir_turn_answer_alone(&turn->asked[request].request, allowed,
                         (weir_decision){.source = WEIR_SOURCE_LOCAL,
                                         .limit = allowed ? WEIR_NOT_KNOWN : 0,
                                         .remaining = allowed ? WEIR_NOT_KNOWN : 0,
                                         .retry_after_us = allowed ? 0 : WEIR_NEVER});
}

/* It counts what came before it before it. */
void weir_fill_reset(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                     size_t request) {
  weir_asked *asked = &turn->asked[request];
  asked->apart = WEIR_ASKED_RESETS;
  turn->has_apart = true;
  if (found->target.limiter != NULL && asked->limiter == NULL)
    asked->request.status = WEIR_TIMEOUT; /* too many wait */
  weir_fill_take(turn, order, found, request);
}

void weir_tell_decision(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                        weir_reply *reply) {
  const weir_order *order = &answer->is.request.order;
  const weir_named *named = answer->is.request.named;
  weir_serve_counts *counts = turn->counts;
  reply->of.limiter = answer->is.request.limiter;
  if (reply->status == WEIR_OK) reply->decision = decision;
  if (weir_order_never_fits(order)) {
    decision->allowed = false;
    decision->retry_after_us = WEIR_NEVER;
    decision->cost = order->cost;
  }
  reply->retry_after_us = decision->retry_after_us;
  weir_serve_count(reply->decision == NULL ? &counts->none
                   : decision->allowed     ? &counts->allowed
                                           : &counts->denied,
                   1);

  /* In shadow mode a denial is counted, and answered as allowed. */
  if (reply->status != WEIR_OK || decision->allowed || named == NULL ||
      weir_named_enforces(named, reply->of.key, reply->of.key_length))
    return;
  weir_serve_count(&counts->shadow_denied, 1);
  reply->is_shadowed = true;
  decision->allowed = true;
  decision->retry_after_us = decision->delay_us = 0;
}

/* A request that was denied in shadow mode has charged nothing; one that brought its rule is not
 * settled. */
void weir_tell_taken(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply) {
  weir_tell_decision(turn, answer, decision, reply);
  if (reply->status != WEIR_OK || reply->of.name == NULL || !decision->allowed) return;
  reply->kind = WEIR_REPLY_TAKEN;
  reply->is.stamp =
      weir_turn_stamp(turn, &turn->asked[answer->is.request.index], answer->is.request.tier,
                      reply->is_shadowed || reply->of.limiter == NULL);
}

void weir_tell_reset(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply) {
  (void)turn;
  (void)answer;
  (void)decision;
  (void)reply; /* its status says it */
}

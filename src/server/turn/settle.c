/* A request cost something else than was taken; to give back is to settle less. */
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "turn/turn.h"

/* Whether the limiter's rules can be settled: a log and a queue keep what is charged, and where a
 * window has cells, what goes back must go to its own. */
static weir_status check_rules(const weir_order *order, const weir_limiter *limiter,
                               weir_message *why) {
  for (size_t i = 0; i < weir_limiter_rules(limiter); i++) {
    weir_rule_info rule = WEIR_RULE_INFO_INIT;
    if (weir_limiter_read_rule(limiter, i, &rule) != WEIR_OK) continue;
    bool keeps =
        strcmp(rule.algorithm, "sliding-log") == 0 || strcmp(rule.algorithm, "leaky-bucket") == 0;
    bool has_cells = strcmp(rule.algorithm, "sliding-window") == 0 ||
                     strcmp(rule.algorithm, "shared-window") == 0;
    if (!keeps && (!has_cells || order->has_stamp)) continue;
    snprintf(why->text, sizeof why->text,
             keeps ? "a %s cannot be settled: what is charged stays"
                   : "stamp: a %s needs the one that the answer had when it was taken",
             rule.algorithm);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

weir_status weir_check_settle(weir_turn *turn, const weir_order *order, weir_meaning *found,
                              weir_message *why) {
  const weir_limiter *limiter = found->target.limiter;
  weir_status status = weir_check_take(turn, order, found, why);
  if (status == WEIR_OK && limiter != NULL) status = check_rules(order, limiter, why);
  if (status != WEIR_OK || !order->has_stamp) return status;
  if (weir_turn_mark(turn, found->counted, found->counted_length, found->target.tier,
                     found->extra) == order->stamp.mark)
    return WEIR_OK;
  *why = (weir_message){"stamp: it is one of another limiter, key, tier or tenant"};
  return WEIR_BAD_ARGUMENT;
}

/* Fills in the decision that is settled: the answer to its take, as far as it is known. */
static void set_taken(weir_request *request, const weir_order *order) {
  request->cost = order->cost; /* which may be 0, and is not the limiter's own then */
  request->decision = (weir_decision){
      .allowed = true,
      .source = order->has_stamp ? order->stamp.source : WEIR_SOURCE_STORE,
      .limit = WEIR_NOT_KNOWN,
      .remaining = WEIR_NOT_KNOWN,
      .reset_after_us = WEIR_NOT_KNOWN,
      .cost = order->takens != NULL ? WEIR_OWN_COSTS : order->taken,
      .at_us = order->has_stamp ? order->stamp.at_us : weir_clock_us(CLOCK_REALTIME)};
}

/* Without a limiter, or where nothing was taken, nothing is counted. */
static void settle_alone(weir_turn *turn, weir_asked *asked, const weir_order *order) {
  asked->limiter = NULL;
  weir_turn_answer_alone(&asked->request, true, asked->request.decision);
  asked->request.decision.source = WEIR_SOURCE_LOCAL;
  for (size_t i = 0; order->costs != NULL && i < order->costs->count; i++)
    turn->costs[asked->costs + order->costs->count + i] = order->costs->each[i];
}

void weir_fill_settle(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                      size_t request) {
  weir_asked *asked = &turn->asked[request];
  set_taken(&asked->request, order);
  if (found->target.limiter == NULL || (order->has_stamp && order->stamp.is_idle))
    settle_alone(turn, asked, order);
}

/* How a settlement came out: what is charged now, and how that differs from what was taken. */
void weir_tell_settled(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                       weir_reply *reply) {
  const weir_asked *asked = &turn->asked[answer->is.request.index];
  const weir_order *order = &answer->is.request.order;
  size_t count = answer->is.request.cost_count;
  reply->kind = WEIR_REPLY_SETTLED;
  reply->of.limiter = answer->is.request.limiter;
  reply->retry_after_us = decision->retry_after_us;
  if (reply->status == WEIR_OK) reply->decision = decision;
  const int64_t *real = &order->cost;
  const int64_t *charged = &asked->request.decision.cost;
  const int64_t *taken = &order->taken;
  if (reply->costs != NULL) {
    real = reply->costs;
    reply->costs = charged = real + count;
    taken = charged + count;
  }
  if (reply->status == WEIR_BAD_ARGUMENT)
    reply->why = "the stamp is of the future, or longer ago than a day and the longest period";
  if (reply->status == WEIR_BAD_COST)
    reply->why = "less is charged than should go back, or no rule ever admits the estimate";
  if (reply->status == WEIR_OK && asked->request.decision.source != WEIR_SOURCE_LOCAL)
    for (size_t i = 0; i == 0 || i < count; i++) {
      int64_t more = charged[i] - taken[i];
      reply->is.settled.up += more > 0 ? more : 0;
      reply->is.settled.down += more < 0 ? -more : 0;
      reply->is.settled.cut += real[i] > charged[i] ? real[i] - charged[i] : 0;
    }
  weir_serve_count(reply->status == WEIR_OK ? &turn->counts->settled : &turn->counts->unsettled, 1);
}

/* The limit of a key, which is set or read while the server runs. */
#include <stdio.h>

#include "turn/turn.h"

/* As the library writes it, and no longer. */
#define FOR_LEAST_US INT64_C(1000000)
#define FOR_MOST_US (INT64_C(400) * 24 * 3600 * 1000000)

static weir_status refuse(const char *text, weir_message *why) {
  snprintf(why->text, sizeof why->text, "%s", text);
  return WEIR_BAD_ARGUMENT;
}

/* It is kept where the limiter that answers for the key looks for it: that of its tier, where it has one. */
weir_status weir_check_limit(weir_turn *turn, const weir_order *order, weir_meaning *found,
                             weir_message *why) {
  const weir_limiter *limiter = found->target.limiter;
  (void)turn;
  found->limit = (weir_limit){.kind = WEIR_KEY_LIMIT_NONE, .for_us = order->for_us};
  if (!found->named->config->has_limits)
    return refuse("this limiter has no limits of keys: accepted is one with limits: store", why);
  if (limiter == NULL)
    return refuse("this key is blocked or unlimited by the configuration: no other limit holds",
                  why);
  if (order->value != NULL) {
    weir_status status =
        weir_limiter_parse_limit(limiter, order->value, order->value_length, &found->limit, why);
    if (status != WEIR_OK) return status;
  }
  if (order->for_us == WEIR_ORDER_OWN_TIME ||
      (order->for_us >= FOR_LEAST_US && order->for_us <= FOR_MOST_US))
    return WEIR_OK;
  return refuse("for: 1s to 400d is accepted", why);
}

void weir_fill_limit(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                     size_t request) {
  weir_asked *asked = &turn->asked[request];
  bool sets = weir_order_is(order, WEIR_VERB_SETS_LIMIT);
  asked->apart = sets ? WEIR_ASKED_SETS_LIMIT : WEIR_ASKED_READS_LIMIT;
  turn->has_apart = true;
  asked->store = WEIR_BESIDE_STORES;
  asked->limit_kind = found->limit.kind;
  asked->limit = found->limit.limit;
  asked->limit_for_us = found->limit.for_us;
  if (asked->limiter == NULL) asked->request.status = WEIR_TIMEOUT; /* too many wait */
}

void weir_tell_limit(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply) {
  const weir_asked *asked = &turn->asked[answer->is.request.index];
  (void)decision;
  reply->kind = WEIR_REPLY_LIMIT;
  reply->is.limit.limit =
      (weir_limit){.kind = asked->limit_kind, .limit = asked->limit, .for_us = asked->limit_for_us};
  weir_limiter_format_limit(answer->is.request.limiter, &reply->is.limit.limit,
                            reply->is.limit.text);
  if (weir_order_is(&answer->is.request.order, WEIR_VERB_SETS_LIMIT) && reply->status == WEIR_OK)
    weir_serve_count(&turn->counts->limits_set, 1);
}

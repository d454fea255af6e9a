/* From what a client asks to a request of the turn: which limiter is meant, and what its verb makes of it.
 *
 *     weir_order ──> find ──> answer ──> check ──> request ──> fill       ...decided...       reply
 *
 * check, fill and reply are the verb's own: the table below. Nothing fails once it has been checked. */
#include <stdio.h>
#include <string.h>

#include "array.h"
#include "turn/turn.h"

/* As the table of words, protocol/verb.c. */
static const weir_verb_turn turns[WEIR_VERBS] = {
    [WEIR_VERB_TAKE] = {weir_check_take, weir_fill_take, weir_tell_taken, 0},
    [WEIR_VERB_PEEK] = {weir_check_costs, weir_fill_take, weir_tell_decision, WEIR_REQUEST_PEEK},
    [WEIR_VERB_RESET] = {weir_check_costs, weir_fill_reset, weir_tell_reset, 0},
    [WEIR_VERB_SETTLE] = {weir_check_settle, weir_fill_settle, weir_tell_settled,
                          WEIR_REQUEST_SETTLE},
    [WEIR_VERB_REFUND] = {weir_check_settle, weir_fill_settle, weir_tell_settled,
                          WEIR_REQUEST_SETTLE},
    [WEIR_VERB_ACQUIRE] = {weir_check_acquire, weir_fill_acquire, weir_tell_acquired, 0},
    [WEIR_VERB_RELEASE] = {weir_check_place, weir_fill_place, weir_tell_place, 0},
    [WEIR_VERB_HELD] = {weir_check_place, weir_fill_place, weir_tell_place, 0},
    [WEIR_VERB_LIMIT_SET] = {weir_check_limit, weir_fill_limit, weir_tell_limit, 0},
    [WEIR_VERB_LIMIT_GET] = {weir_check_limit, weir_fill_limit, weir_tell_limit, 0},
    [WEIR_VERB_LIMIT_UNSET] = {weir_check_limit, weir_fill_limit, weir_tell_limit, 0},
};

static const weir_verb_turn *turn_of(const weir_order *order) {
  return &turns[order->verb - weir_verbs];
}

/* The limiter of a request that brings its rule: it lives as long as the turn, and the last one longer. Such
 * a request is a take or a peek of one cost, and has no tier, stamp or place. */
static weir_status find_throttle(weir_turn *turn, const weir_order *order, weir_meaning *found,
                                 weir_message *why) {
  weir_throttle *throttle = turn->registry->throttle;
  weir_status status = WEIR_OK;
  bool peeks = weir_order_is(order, WEIR_VERB_LOOKS) || weir_order_never_fits(order);
  if (throttle == NULL) {
    *why = (weir_message){"throttle.enabled is off"};
    return WEIR_BAD_ARGUMENT;
  }
  if (turn->last_limiter == NULL || turn->last_burst != order->burst ||
      turn->last_count != order->count || turn->last_period_s != order->period_s) {
    turn->uses_throttle = true;
    status = weir_throttle_find(throttle, turn->loop, order->burst, order->count, order->period_s,
                                turn->now_us, &turn->last_limiter, why);
    turn->last_burst = order->burst;
    turn->last_count = order->count;
    turn->last_period_s = order->period_s;
  }
  found->target = (weir_target){.kind = WEIR_TARGET_LIMITER, .limiter = turn->last_limiter};
  found->prefix = WEIR_THROTTLE_PREFIX;
  found->prefix_length = sizeof WEIR_THROTTLE_PREFIX - 1;
  found->store = turn->registry->config->throttle.store;
  found->cost = peeks ? 1 : order->cost;
  found->flags = peeks ? WEIR_REQUEST_PEEK : 0U;
  return status;
}

static weir_status refuse_unknown(const weir_order *order, weir_message *why) {
  /* A name of the configuration is printable ASCII; what is asked for may be anything. */
  char name[WEIR_CONFIG_NAME_MOST + 1] = "";
  for (size_t i = 0; i < order->limiter_length && i + 1 < sizeof name; i++) {
    char c = order->limiter[i];
    name[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
  }
  snprintf(why->text, sizeof why->text,
           "there is no limiter of this name in the configuration: %s%s", name,
           order->limiter_length >= sizeof name ? "..." : "");
  return WEIR_BAD_ARGUMENT;
}

/* A place may be asked about when its limiter has left the configuration: it stands under its name still. */
static weir_status find_named(const weir_turn *turn, const weir_order *order, weir_meaning *found,
                              weir_message *why) {
  found->prefix = order->limiter;
  found->prefix_length = order->limiter_length;
  found->target = (weir_target){.tier = ""};
  found->store = NULL;
  found->cost = 0;
  found->flags = 0;
  found->named = weir_registry_find(turn->registry, order->limiter, order->limiter_length);
  if (found->named != NULL) {
    if (!weir_order_is(order, WEIR_VERB_OF_PLACE))
      found->target = weir_named_target(found->named, order->key, order->key_length);
    found->prefix = found->named->prefix;
    found->prefix_length = found->named->prefix_length;
    found->store = found->named->config->store;
    found->cost = order->cost != WEIR_ORDER_OWN_COST ? order->cost : found->named->config->cost;
    found->flags = turn_of(order)->flags | (order->up_to ? WEIR_REQUEST_UP_TO : 0U);
    return WEIR_OK;
  }
  weir_status status = WEIR_BAD_ARGUMENT;
  bool is_group =
      weir_registry_find_group(turn->registry, order->limiter, order->limiter_length) != NULL;
  if (!is_group)
    status = refuse_unknown(order, why);
  else if (weir_order_is(order, WEIR_VERB_GROUPS))
    *why = (weir_message){"this is a group: a key for each of its members is accepted"};
  else
    *why = (weir_message){
        "this is a group: take and peek are accepted, and all else of its "
        "members, each by its own name"};
  return weir_order_is(order, WEIR_VERB_OF_PLACE) ? WEIR_OK : status;
}

/* Room for them has been made. A settlement has three: what it cost in truth, what was taken, which
 * becomes what is charged, and again what was taken. */
enum { COST_LISTS_MOST = 3 };
static void add_costs(weir_turn *turn, const weir_order *order, weir_asked *asked) {
  const weir_order_amount *lists[COST_LISTS_MOST] = {order->costs, order->takens, order->takens};
  asked->costs = turn->cost_count;
  for (size_t i = 0; i < COST_LISTS_MOST && lists[i] != NULL; i++) {
    memcpy(turn->costs + turn->cost_count, lists[i]->each, lists[i]->count * sizeof *turn->costs);
    turn->cost_count += lists[i]->count;
  }
  asked->cost_count = turn->cost_count - asked->costs;
}

/* Room for all that one request can need, and its answer; its key is written into it. NULL: no memory. */
static weir_answer *make_answer(weir_turn *turn, const weir_order *order, weir_meaning *found,
                                unsigned note) {
  bool adds_colon =
      found->named == NULL && !order->brings_rule; /* a limiter's prefix ends with it */
  size_t costs = order->costs != NULL ? COST_LISTS_MOST * order->costs->count : 0;
  size_t lead = found->prefix_length + adds_colon;
  found->counted_length = lead + order->key_length;
  char *counted = weir_bytes_room(&turn->bytes, found->counted_length);
  bool has_room = counted != NULL &&
                  weir_array_grow(&turn->asked, &turn->asked_room, turn->asked_count + 1,
                                  sizeof *turn->asked) &&
                  (!weir_order_is(order, WEIR_VERB_HOLDS | WEIR_VERB_OF_PLACE) ||
                   weir_array_grow(&turn->places, &turn->place_room, turn->place_count + 1,
                                   sizeof *turn->places)) &&
                  (costs == 0 || weir_array_grow(&turn->costs, &turn->cost_room,
                                                 turn->cost_count + costs, sizeof *turn->costs));
  if (!has_room) return NULL;
  memcpy(counted, found->prefix, found->prefix_length);
  if (adds_colon) counted[lead - 1] = ':';
  memcpy(counted + lead, order->key, order->key_length);
  found->counted = counted;
  return weir_turn_add_answer(turn, WEIR_ANSWER_REQUEST, note);
}

/* The request, of which nothing is missing now. Its place in turn->asked. */
static size_t add_request(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                          weir_answer *answer) {
  const weir_turn_key key = {turn->bytes.length, found->counted_length};
  turn->bytes.length += key.length;
  memcpy(&answer->is.request.order, order,
         offsetof(weir_order, limiter)); /* what its wording needs */
  answer->is.request.tier = found->target.tier;
  answer->is.request.cost_count = order->costs != NULL ? order->costs->count : 0;
  answer->is.request.limiter = found->target.limiter;
  answer->is.request.named = found->named;
  answer->is.request.index = answer->asked = weir_turn_add_request(
      turn, key, found->cost, found->flags, found->target.limiter, found->store);
  answer->asked_count = 1;
  return answer->asked;
}

uint32_t weir_turn_add_order(weir_turn *turn, const weir_order *order, unsigned note,
                             weir_status *status, weir_message *why) {
  weir_meaning found; /* set member by member, as this is what every request passes */
  found.named = NULL;
  found.kept = NULL;
  *status = order->brings_rule ? find_throttle(turn, order, &found, why)
                               : find_named(turn, order, &found, why);
  found.extra = WEIR_NO_EXTRA;
  if (*status == WEIR_OK && found.named != NULL && !weir_order_is(order, WEIR_VERB_ENDS_TURN))
    *status =
        weir_turn_say(turn, order->says, found.named, found.target.limiter, &found.extra, why);
  if (*status != WEIR_OK) return WEIR_NO_ANSWER;
  weir_answer *answer = make_answer(turn, order, &found, note);
  if (answer == NULL) {
    *status = weir_turn_no_memory(why);
    return WEIR_NO_ANSWER;
  }
  if (!order->brings_rule) *status = turn_of(order)->check(turn, order, &found, why);
  if (*status != WEIR_OK) {
    turn->answer_count--; /* nobody has seen it yet */
    return WEIR_NO_ANSWER;
  }
  size_t request = add_request(turn, order, &found, answer);
  if (order->costs != NULL) add_costs(turn, order, &turn->asked[request]);
  turn->asked[request].extra = found.extra;
  if (!order->brings_rule) turn_of(order)->fill(turn, order, &found, request);
  return (uint32_t)(answer - turn->answers);
}

void weir_turn_reply(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply) {
  const weir_order *order = &answer->is.request.order;
  const weir_named *named = answer->is.request.named;
  const weir_config_limiter *config = named != NULL ? named->config : NULL;
  const weir_asked *asked = &turn->asked[answer->is.request.index];
  *decision = asked->request.decision;
  *reply = (weir_reply){
      .status = asked->request.status,
      .why = weir_status_text(asked->request.status),
      .of.name = config != NULL ? config->name : NULL,
      .of.headers = config != NULL ? config->headers : WEIR_CONFIG_HEADERS_DRAFT_10,
      .of.key = turn->bytes.data + asked->key + asked->request.key_length - order->key_length,
      .of.key_length = order->key_length,
      .of.id = turn->bytes.data + answer->id,
      .of.id_length = answer->id_length,
      .costs = asked->costs != WEIR_NO_COSTS ? turn->costs + asked->costs : NULL,
      .cost_count = answer->is.request.cost_count,
  };
  weir_turn_tell_extra(turn, asked, reply);
  turn_of(order)->reply(turn, answer, decision, reply);
}

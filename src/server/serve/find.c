/* From what a client asks to a request of the turn: which limiter is meant, and what its verb makes of it.
 *
 *     weir_ask ──> find ──> answer ──> check ──> request ──> fill       ...decided...       reply
 *
 * check, fill and reply are the verb's own: the table below. Nothing fails once it has been checked. */
#include <stdio.h>
#include <string.h>

#include "array.h"
#include "serve/tick.h"

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
};

static const weir_verb_turn *turn_of(const weir_ask *ask) {
  return &turns[ask->verb - weir_verbs];
}

/* The limiter of a request that brings its rule: it lives as long as the tick, and the last one longer. Such
 * a request is a take or a peek of one cost, and has no tier, stamp or place. */
static weir_status find_throttle(weir_tick *tick, const weir_ask *ask, weir_meaning *found,
                                 weir_message *why) {
  weir_throttle *throttle = tick->registry->throttle;
  weir_status status = WEIR_OK;
  bool peeks = weir_ask_is(ask, WEIR_VERB_LOOKS) || weir_ask_never_fits(ask);
  if (throttle == NULL) {
    *why = (weir_message){"throttle.enabled is off"};
    return WEIR_BAD_ARGUMENT;
  }
  if (tick->last_limiter == NULL || tick->last_burst != ask->burst ||
      tick->last_count != ask->count || tick->last_period_s != ask->period_s) {
    tick->uses_throttle = true;
    status = weir_throttle_find(throttle, tick->loop, ask->burst, ask->count, ask->period_s,
                                tick->now_us, &tick->last_limiter, why);
    tick->last_burst = ask->burst;
    tick->last_count = ask->count;
    tick->last_period_s = ask->period_s;
  }
  found->target.kind = WEIR_TARGET_LIMITER;
  found->target.limiter = tick->last_limiter;
  found->prefix = WEIR_THROTTLE_PREFIX;
  found->prefix_length = sizeof WEIR_THROTTLE_PREFIX - 1;
  found->store = tick->registry->config->throttle.store;
  found->cost = peeks ? 1 : ask->cost;
  found->flags = peeks ? WEIR_REQUEST_PEEK : 0U;
  return status;
}

static weir_status refuse_unknown(const weir_ask *ask, weir_message *why) {
  /* A name of the configuration is printable ASCII; what is asked for may be anything. */
  char name[WEIR_CONFIG_NAME_MOST + 1] = "";
  for (size_t i = 0; i < ask->limiter_length && i + 1 < sizeof name; i++) {
    char c = ask->limiter[i];
    name[i] = c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
  }
  snprintf(why->text, sizeof why->text,
           "there is no limiter of this name in the configuration: %s%s", name,
           ask->limiter_length >= sizeof name ? "..." : "");
  return WEIR_BAD_ARGUMENT;
}

/* A place may be asked about when its limiter has left the configuration: it stands under its name still. */
static weir_status find_named(const weir_tick *tick, const weir_ask *ask, weir_meaning *found,
                              weir_message *why) {
  found->prefix = ask->limiter;
  found->prefix_length = ask->limiter_length;
  found->target.tier = "";
  found->named = weir_registry_find(tick->registry, ask->limiter, ask->limiter_length);
  if (found->named != NULL) {
    if (!weir_ask_is(ask, WEIR_VERB_OF_PLACE))
      found->target = weir_named_target(found->named, ask->key, ask->key_length);
    found->prefix = found->named->prefix;
    found->prefix_length = found->named->prefix_length;
    found->store = found->named->config->store;
    found->cost = ask->cost != WEIR_ASK_OWN_COST ? ask->cost : found->named->config->cost;
    found->flags = turn_of(ask)->flags | (ask->up_to ? WEIR_REQUEST_UP_TO : 0U);
    return WEIR_OK;
  }
  weir_status status = WEIR_BAD_ARGUMENT;
  bool is_group =
      weir_registry_find_group(tick->registry, ask->limiter, ask->limiter_length) != NULL;
  if (!is_group)
    status = refuse_unknown(ask, why);
  else if (weir_ask_is(ask, WEIR_VERB_GROUPS))
    *why = (weir_message){"this is a group: a key for each of its members is accepted"};
  else
    *why = (weir_message){
        "this is a group: take and peek are accepted, and all else of its "
        "members, each by its own name"};
  return weir_ask_is(ask, WEIR_VERB_OF_PLACE) ? WEIR_OK : status;
}

/* Room for them has been made. Of a settlement: what it cost in truth, what was taken, which becomes
 * what is charged, and again what was taken. */
enum { COST_LISTS_MOST = 3 };
static void add_costs(weir_tick *tick, const weir_ask *ask, weir_asked *asked) {
  const weir_ask_amount *lists[COST_LISTS_MOST] = {ask->costs, ask->takens, ask->takens};
  asked->costs = tick->cost_count;
  for (size_t i = 0; i < COST_LISTS_MOST && lists[i] != NULL; i++) {
    memcpy(tick->costs + tick->cost_count, lists[i]->each, lists[i]->count * sizeof *tick->costs);
    tick->cost_count += lists[i]->count;
  }
  asked->cost_count = tick->cost_count - asked->costs;
}

/* Room for all that one request can need, and its answer; its key is written into it. NULL: no memory. */
static weir_answer *make_answer(weir_tick *tick, const weir_ask *ask, weir_meaning *found,
                                unsigned note) {
  bool adds_colon = found->named == NULL && !ask->brings_rule; /* a limiter's prefix ends with it */
  size_t costs = ask->costs != NULL ? COST_LISTS_MOST * ask->costs->count : 0;
  size_t lead = found->prefix_length + adds_colon;
  found->counted_length = lead + ask->key_length;
  char *counted = weir_bytes_room(&tick->bytes, found->counted_length);
  bool has_room = counted != NULL &&
                  weir_array_grow(&tick->asked, &tick->asked_room, tick->asked_count + 1,
                                  sizeof *tick->asked) &&
                  (!weir_ask_is(ask, WEIR_VERB_HOLDS | WEIR_VERB_OF_PLACE) ||
                   weir_array_grow(&tick->places, &tick->place_room, tick->place_count + 1,
                                   sizeof *tick->places)) &&
                  (costs == 0 || weir_array_grow(&tick->costs, &tick->cost_room,
                                                 tick->cost_count + costs, sizeof *tick->costs));
  if (!has_room) return NULL;
  memcpy(counted, found->prefix, found->prefix_length);
  if (adds_colon) counted[lead - 1] = ':';
  memcpy(counted + lead, ask->key, ask->key_length);
  found->counted = counted;
  return weir_tick_add_answer(tick, WEIR_ANSWER_REQUEST, note);
}

/* The request, of which nothing is missing now. Its place in tick->asked. */
static size_t add_request(weir_tick *tick, const weir_ask *ask, const weir_meaning *found,
                          weir_answer *answer) {
  const weir_tick_key key = {tick->bytes.length, found->counted_length};
  tick->bytes.length += key.length;
  memcpy(&answer->is.request.ask, ask, offsetof(weir_ask, limiter)); /* what its wording needs */
  answer->is.request.tier = found->target.tier;
  answer->is.request.cost_count = ask->costs != NULL ? ask->costs->count : 0;
  answer->is.request.limiter = found->target.limiter;
  answer->is.request.named = found->named;
  answer->is.request.index = answer->asked = weir_tick_add_request(
      tick, key, found->cost, found->flags, found->target.limiter, found->store);
  answer->asked_count = 1;
  return answer->asked;
}

uint32_t weir_tick_add_ask(weir_tick *tick, const weir_ask *ask, unsigned note, weir_status *status,
                           weir_message *why) {
  weir_meaning found = {.named = NULL};
  *status =
      ask->brings_rule ? find_throttle(tick, ask, &found, why) : find_named(tick, ask, &found, why);
  if (*status != WEIR_OK) return WEIR_NO_ANSWER;
  weir_answer *answer = make_answer(tick, ask, &found, note);
  if (answer == NULL) {
    *status = weir_tick_no_memory(why);
    return WEIR_NO_ANSWER;
  }
  if (!ask->brings_rule) *status = turn_of(ask)->check(tick, ask, &found, why);
  if (*status != WEIR_OK) {
    tick->answer_count--; /* nobody has seen it yet */
    return WEIR_NO_ANSWER;
  }
  size_t request = add_request(tick, ask, &found, answer);
  if (ask->costs != NULL) add_costs(tick, ask, &tick->asked[request]);
  if (!ask->brings_rule) turn_of(ask)->fill(tick, ask, &found, request);
  return (uint32_t)(answer - tick->answers);
}

void weir_tick_reply(const weir_tick *tick, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply) {
  const weir_ask *ask = &answer->is.request.ask;
  const weir_named *named = answer->is.request.named;
  const weir_config_limiter *config = named != NULL ? named->config : NULL;
  const weir_asked *asked = &tick->asked[answer->is.request.index];
  *decision = asked->request.decision;
  *reply = (weir_reply){
      .status = asked->request.status,
      .why = weir_status_text(asked->request.status),
      .of.name = config != NULL ? config->name : NULL,
      .of.headers = config != NULL ? config->headers : WEIR_CONFIG_HEADERS_DRAFT_10,
      .of.key = tick->bytes.data + asked->key + asked->request.key_length - ask->key_length,
      .of.key_length = ask->key_length,
      .of.id = tick->bytes.data + answer->id,
      .of.id_length = answer->id_length,
      .costs = asked->costs != WEIR_NO_COSTS ? tick->costs + asked->costs : NULL,
      .cost_count = answer->is.request.cost_count,
  };
  turn_of(ask)->reply(tick, answer, decision, reply);
}

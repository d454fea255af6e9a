/* Places that are acquired, released and asked about. */
#include <stdio.h>

#include <weir/duration.h>

#include "array.h"
#include "turn/turn.h"

/* Memory for the place that is asked for. */
static weir_status make_place(weir_turn *turn, const weir_order *order, weir_meaning *found,
                              weir_message *why) {
  const weir_config_places *places = &turn->registry->config->places;
  weir_status status;
  if (order->for_us > places->for_most_us) {
    char most[WEIR_DURATION_BYTES];
    weir_duration_format(places->for_most_us, most, sizeof most);
    snprintf(why->text, sizeof why->text, "for: up to %s is accepted", most);
    return WEIR_BAD_ARGUMENT;
  }
  if (found->target.limiter == NULL) return WEIR_OK;
  const weir_kept_wish wish = {
      .registry = turn->registry,
      .limiter = found->target.limiter,
      .store = weir_turn_store(turn, found->store),
      .counted = found->counted,
      .length = found->counted_length,
      .prefix_length = found->prefix_length,
      .cost = found->cost,
      .for_us = order->for_us != WEIR_ORDER_OWN_TIME ? order->for_us : places->for_us,
      .client = order->client != NULL ? order->client : "",
      .holder = order->holder};
  found->kept = weir_keeper_make(turn->keeper, &wish, &status, why);
  return found->kept != NULL ? WEIR_OK : status;
}

weir_status weir_check_acquire(weir_turn *turn, const weir_order *order, weir_meaning *found,
                               weir_message *why) {
  const weir_limiter *limiter = found->target.limiter;
  if (limiter != NULL && !weir_registry_holds(limiter)) {
    *why = (weir_message){"no rule of this limiter is held: it is taken from, not acquired"};
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_check_costs(turn, order, found, why);
  return status == WEIR_OK ? make_place(turn, order, found, why) : status;
}

/* A place that is to be released is taken out of the keeper's hands here. Where nothing is held, as
 * the key was in a list, the limiter must still be there. */
weir_status weir_check_place(weir_turn *turn, const weir_order *order, weir_meaning *found,
                             weir_message *why) {
  const weir_hash_text counted = {found->counted, found->counted_length};
  bool is_named = found->named != NULL;
  weir_message lost = {""};
  bool is_known;
  found->state = (weir_kept_state){.is_held = false};
  if (order->place.is_none) {
    found->state.is_held = is_known = is_named;
  } else if (weir_order_is(order, WEIR_VERB_RELEASES)) {
    found->kept = weir_keeper_take(turn->keeper, &order->place, &counted, WEIR_KEPT_RELEASED,
                                   &found->state, &lost);
    is_known = found->kept != NULL;
  } else {
    is_known = weir_keeper_look(turn->keeper, &order->place, &counted, &found->state, &lost);
  }
  if (is_known) return WEIR_OK;
  if (is_named) *why = lost; /* else it is the name that is wrong */
  return WEIR_BAD_ARGUMENT;
}

/* Room for it has been made. */
static void set_place(weir_turn *turn, size_t index, weir_kept *kept) {
  weir_asked *asked = &turn->asked[index];
  asked->place = turn->place_count++;
  turn->places[asked->place] = (weir_asked_place){
      .request = index, .name.is_none = true, .kept = kept, .store = asked->store};
  if (kept == NULL || asked->limiter != NULL) return;
  weir_keeper_drop(turn->keeper, kept); /* it has its answer */
  turn->places[asked->place].kept = NULL;
}

void weir_fill_acquire(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                       size_t request) {
  weir_fill_take(turn, order, found, request);
  set_place(turn, request, found->kept);
}

void weir_fill_place(weir_turn *turn, const weir_order *order, const weir_meaning *found,
                     size_t request) {
  turn->asked[request].place = turn->place_count;
  turn->places[turn->place_count++] =
      (weir_asked_place){.request = request,
                         .releases = weir_order_is(order, WEIR_VERB_RELEASES),
                         .kept = found->kept,
                         .store = found->kept != NULL ? found->kept->store : NULL,
                         .name = order->place,
                         .state = found->state};
}

bool weir_turn_acquire(weir_turn *turn, size_t request, int64_t for_us, weir_message *why) {
  const weir_asked *asked = &turn->asked[request];
  weir_status status;
  if (asked->limiter == NULL) return true; /* it has its answer */
  if (!weir_array_grow(&turn->places, &turn->place_room, turn->place_count + 1,
                       sizeof *turn->places)) {
    weir_turn_no_memory(why);
    return false;
  }
  const weir_kept_wish wish = {.registry = turn->registry,
                               .limiter = asked->limiter,
                               .store = asked->store,
                               .counted = turn->bytes.data + asked->key,
                               .length = asked->request.key_length,
                               .cost = asked->request.cost,
                               .client = "",
                               .for_us = for_us};
  weir_kept *kept = weir_keeper_make(turn->keeper, &wish, &status, why);
  if (kept != NULL) set_place(turn, request, kept);
  return kept != NULL;
}

bool weir_turn_release(weir_turn *turn, size_t request, int64_t cost) {
  weir_kept *some[WEIR_KEPT_SOME];
  weir_asked *asked = &turn->asked[request];
  size_t count = WEIR_KEPT_SOME;
  if (asked->limiter == NULL) return true;
  asked->releases = turn->place_count;
  while (count == WEIR_KEPT_SOME) { /* there may be more */
    if (!weir_array_grow(&turn->places, &turn->place_room, turn->place_count + WEIR_KEPT_SOME,
                         sizeof *turn->places))
      return false;
    const weir_hash_text counted = {turn->bytes.data + asked->key, asked->request.key_length};
    count = weir_keeper_take_some(turn->keeper, asked->limiter, &counted, &cost, some);
    asked->release_count += count;
    for (size_t i = 0; i < count; i++)
      turn->places[turn->place_count++] = (weir_asked_place){
          .request = request, .kept = some[i], .store = some[i]->store, .releases = true};
  }
  return true;
}

void weir_turn_leave_out(weir_turn *turn, size_t first) {
  for (size_t i = first; i < turn->asked_count; i++)
    turn->asked[i].limiter = NULL;
  for (size_t i = turn->place_count; i-- > 0 && turn->places[i].request >= first;) {
    weir_kept *kept = turn->places[i].kept;
    turn->places[i].kept = NULL;
    if (kept == NULL) continue;
    if (turn->places[i].releases)
      weir_keeper_release_soon(turn->keeper, kept);
    else
      weir_keeper_drop(turn->keeper, kept);
  }
}

void weir_turn_give_back(weir_turn *turn, size_t request) {
  const weir_asked *asked = &turn->asked[request];
  if (asked->place == WEIR_NO_PLACE || turn->places[asked->place].name.is_none) return;
  const weir_hash_text counted = {turn->bytes.data + asked->key, asked->request.key_length};
  weir_kept_state state;
  weir_message why;
  weir_kept *kept = weir_keeper_take(turn->keeper, &turn->places[asked->place].name, &counted,
                                     WEIR_KEPT_RELEASED, &state, &why);
  if (kept != NULL) weir_keeper_release_soon(turn->keeper, kept);
}

/* Tells the place that is held; where no place is needed, that is so for ever. */
static void tell_place(const weir_asked_place *place, weir_reply *reply) {
  reply->kind = WEIR_REPLY_HELD;
  reply->is.held = (weir_reply_held){.place = place->name,
                                     .is_held = place->state.is_held,
                                     .token = place->state.token,
                                     .held_until_us = place->state.held_until_us,
                                     .store = place->released};
}

void weir_tell_acquired(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                        weir_reply *reply) {
  weir_tell_decision(turn, answer, decision, reply);
  if (!decision->allowed) return;
  tell_place(&turn->places[turn->asked[answer->is.request.index].place], reply);
  reply->is.held.is_held |= reply->is.held.place.is_none;
}

void weir_tell_place(const weir_turn *turn, const weir_answer *answer, weir_decision *decision,
                     weir_reply *reply) {
  (void)decision;
  tell_place(&turn->places[turn->asked[answer->is.request.index].place], reply);
}

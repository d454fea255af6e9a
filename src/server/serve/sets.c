/* Requests that are one decision, of a group or of Envoy's service: all are charged, or none.
 *
 *     count of them ──> weir_decide_all()
 *                            │ all are charged           │ one denies
 *                            v                           v
 *     behind them ──>      taken                    not asked; of Envoy's service looked at, with those
 *                                                   that had not to be asked
 *
 * Sets are decided one after another, each in round trips of its own; what they leave to be asked goes
 * out together. So a connection brings one of them into a turn at most. */
#include "array.h"
#include "clock.h"
#include "serve/tick.h"

size_t weir_tick_add_set(weir_tick *tick, size_t count, size_t behind, bool tells_all) {
  if (!weir_array_grow(&tick->sets, &tick->set_room, tick->set_count + 1, sizeof *tick->sets))
    return WEIR_NO_SET;
  weir_asked_set *set = &tick->sets[tick->set_count];
  *set = (weir_asked_set){.first = tick->asked_count - count - behind,
                          .store = tick->asked[tick->asked_count - count - behind].store,
                          .count = count,
                          .behind = behind,
                          .tells_all = tells_all,
                          .denied_by = count};
  for (size_t i = set->first; i < tick->asked_count; i++)
    if (tick->asked[i].store != set->store) set->store = WEIR_SEVERAL_STORES;
  for (size_t i = set->first; i < tick->asked_count; i++) {
    tick->asked[i].is_of_set = true;
    tick->asked[i].store = set->store;
  }
  return tick->set_count++;
}

/* All of it have one end, which may have come while others were decided. */
static void look_at_end(weir_tick *tick, const weir_asked_set *set) {
  weir_asked *asked = &tick->asked[set->first];
  if (set->has_mates || asked->until_us == WEIR_TICK_NO_END ||
      asked->until_us > weir_monotonic_us())
    return;
  for (size_t i = 0; i < set->count + set->behind; i++) {
    asked[i].limiter = NULL;
    asked[i].until_us = WEIR_TICK_OVER;
  }
}

/* Every request has a status of its own, which is what is answered. */
static void decide(weir_tick *tick, weir_asked_set *set) {
  weir_limiter *limiters[WEIR_ALL_MOST];
  weir_request requests[WEIR_ALL_MOST];
  weir_asked *asked = &tick->asked[set->first];
  for (size_t i = 0; i < set->count; i++) {
    limiters[i] = asked[i].limiter;
    requests[i] = asked[i].request;
    requests[i].key = tick->bytes.data + asked[i].key;
  }
  weir_status status = weir_decide_all(limiters, requests, set->count, &set->denied_by, NULL);
  for (size_t i = 0; i < set->count; i++)
    asked[i].request = requests[i];
  set->is_charged = status == WEIR_OK && set->denied_by == set->count;
}

bool weir_set_decide(weir_tick *tick, weir_asked_set *set) {
  weir_asked *asked = &tick->asked[set->first];
  bool is_whole = true;
  set->is_decided = true;
  look_at_end(tick, set);
  for (size_t i = 0; i < set->count; i++)
    is_whole = is_whole && asked[i].limiter != NULL;
  if (is_whole) decide(tick, set);
  for (size_t i = 0; i < set->count + set->behind; i++) {
    weir_asked *one = &asked[i];
    const weir_decision *decision = &one->request.decision;
    bool is_behind = i >= set->count;
    bool was_left_out = one->request.status == WEIR_OK && !decision->allowed &&
                        decision->remaining == WEIR_NOT_KNOWN && decision->retry_after_us == 0;
    bool looks = !set->is_charged && set->tells_all && (is_behind || was_left_out);
    bool is_asked = is_whole && (looks || (is_behind && set->is_charged));
    if (!is_asked)
      one->limiter = NULL;
    else if (looks)
      one->request.flags |= WEIR_REQUEST_PEEK;
  }
  return is_whole;
}

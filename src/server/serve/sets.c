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
                          .count = count,
                          .behind = behind,
                          .tells_all = tells_all,
                          .denied_by = count};
  for (size_t i = set->first; i < tick->asked_count; i++)
    tick->asked[i].is_of_set = true;
  return tick->set_count++;
}

static weir_request request_of(const weir_tick *tick, const weir_asked *one) {
  weir_request request = one->request;
  request.key = tick->bytes.data + one->key;
  return request;
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

/* False: it is not to be asked. */
static bool decide(weir_tick *tick, weir_asked_set *set) {
  weir_limiter *limiters[WEIR_ALL_MOST];
  weir_request requests[WEIR_ALL_MOST];
  weir_asked *asked = &tick->asked[set->first];
  look_at_end(tick, set);
  for (size_t i = 0; i < set->count; i++) {
    if (asked[i].limiter == NULL) return false;
    limiters[i] = asked[i].limiter;
    requests[i] = request_of(tick, &asked[i]);
  }
  /* Every request has a status of its own, which is what is answered. */
  weir_status status = weir_decide_all(limiters, requests, set->count, &set->denied_by, NULL);
  for (size_t i = 0; i < set->count; i++)
    asked[i].request = requests[i];
  set->is_charged = status == WEIR_OK && set->denied_by == set->count;
  return true;
}

/* What this set leaves to be asked goes into the batch. */
static size_t add_rest(weir_tick *tick, const weir_asked_set *set, size_t count) {
  for (size_t i = 0; i < set->count + set->behind; i++) {
    weir_asked *one = &tick->asked[set->first + i];
    const weir_decision *decision = &one->request.decision;
    bool is_behind = i >= set->count;
    bool was_left_out = one->request.status == WEIR_OK && !decision->allowed &&
                        decision->remaining == WEIR_NOT_KNOWN && decision->retry_after_us == 0;
    bool looks = !set->is_charged && set->tells_all && (is_behind || was_left_out);
    if (one->limiter == NULL || !(looks || (is_behind && set->is_charged))) continue;
    tick->batch[count] = request_of(tick, one);
    if (looks) tick->batch[count].flags |= WEIR_REQUEST_PEEK;
    tick->batch_limiters[count] = one->limiter;
    tick->batch_places[count++] = set->first + i;
  }
  return count;
}

static void ask_rest(weir_tick *tick, size_t count) {
  if (count == 0) return;
  (void)weir_decide_together(tick->batch_limiters, tick->batch, count, NULL);
  for (size_t i = 0; i < count; i++)
    tick->asked[tick->batch_places[i]].request = tick->batch[i];
}

void weir_tick_decide_sets(weir_tick *tick) {
  size_t count = 0;
  for (; tick->sets_decided < tick->set_count; tick->sets_decided++) {
    weir_asked_set *set = &tick->sets[tick->sets_decided];
    if (!decide(tick, set)) continue;
    if (count + set->count + set->behind > WEIR_BATCH_MOST) {
      ask_rest(tick, count);
      count = 0;
    }
    count = add_rest(tick, set, count);
  }
  ask_rest(tick, count);
}

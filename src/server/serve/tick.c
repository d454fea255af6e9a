/* Requests of one tick: what is asked, and what is said once they are decided. */
#include "serve/tick.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/duration.h>

#include "array.h"
#include "clock.h"

const char weir_several_stores = 0;

enum { SHED_RETRY_US = 50000, BYTES_KEPT = 1 << 20 };

void weir_tick_init(weir_tick *tick, unsigned loop, weir_serve_counts *counts,
                    weir_keeper *keeper) {
  *tick =
      (weir_tick){.keeper = keeper, .loop = loop, .counts = counts, .judged_us = WEIR_TICK_NO_END};
}

void weir_tick_free(weir_tick *tick) {
  weir_bytes_free(&tick->bytes);
  free(tick->answers);
  free(tick->asked);
  free(tick->sets);
  free(tick->members);
  free(tick->parts);
  free(tick->costs);
  free(tick->places);
}

void weir_tick_clear(weir_tick *tick) {
  weir_throttle *throttle = tick->registry->throttle;
  if (tick->uses_throttle) weir_throttle_end_tick(throttle, tick->loop);
  if (tick->uses_overrides) weir_descriptors_end_tick(tick->registry->descriptors, tick->loop);
  tick->uses_throttle = tick->uses_overrides = tick->has_resets = tick->has_ends = false;
  tick->judged_us = WEIR_TICK_NO_END;
  tick->answer_count = tick->asked_count = tick->part_count = 0;
  tick->cost_count = tick->place_count = 0;
  tick->set_count = tick->member_count = 0;
  tick->bytes.length = 0;
  if (tick->bytes.failed || tick->bytes.capacity > BYTES_KEPT) weir_bytes_free(&tick->bytes);
}

/* --- collecting ------------------------------------------------------------------------------- */

weir_answer *weir_tick_add_answer(weir_tick *tick, weir_answer_kind kind, unsigned note) {
  if (!weir_array_grow(&tick->answers, &tick->answer_room, tick->answer_count + 1,
                       sizeof *tick->answers))
    return NULL;
  weir_answer *added = &tick->answers[tick->answer_count++];
  added->next = WEIR_NO_ANSWER;
  added->kind = kind;
  added->note = note;
  added->asked = added->asked_count = 0;
  added->id = added->id_length = 0;
  return added;
}

uint32_t weir_tick_add_text(weir_tick *tick, const char *text, size_t length) {
  if (weir_bytes_room(&tick->bytes, length) == NULL) return WEIR_NO_ANSWER;
  weir_answer *added = weir_tick_add_answer(tick, WEIR_ANSWER_TEXT, 0);
  if (added == NULL) return WEIR_NO_ANSWER;
  added->is.text.begin = tick->bytes.length;
  added->is.text.length = length;
  weir_bytes_add(&tick->bytes, text, length);
  return (uint32_t)(added - tick->answers);
}

weir_part *weir_tick_part_room(weir_tick *tick, size_t count) {
  if (!weir_array_grow(&tick->parts, &tick->part_room, tick->part_count + count,
                       sizeof *tick->parts))
    return NULL;
  return tick->parts + tick->part_count;
}

const weir_store *weir_tick_store(const weir_tick *tick, const weir_config_store *store) {
  if (store == NULL) return NULL;
  return weir_registry_store_at(tick->registry, (size_t)(store - tick->registry->config->stores));
}

uint32_t weir_tick_add_parts(weir_tick *tick, size_t count, const weir_domain *domain,
                             unsigned note) {
  weir_answer *added = weir_tick_add_answer(tick, WEIR_ANSWER_PARTS, note);
  if (added == NULL) return WEIR_NO_ANSWER;
  added->is.parts.first = tick->part_count;
  added->is.parts.count = count;
  added->is.parts.domain = domain;
  added->is.parts.set = WEIR_NO_SET;
  added->is.parts.store = domain != NULL ? weir_tick_store(tick, domain->config->store) : NULL;
  added->is.parts.is_cancelled = added->is.parts.is_returned = false;
  added->is.parts.not_given = WEIR_OK;
  added->is.parts.why = added->is.parts.why_length = 0;
  tick->part_count += count;
  return (uint32_t)(added - tick->answers);
}

void weir_tick_answer_alone(weir_request *request, bool allowed, weir_decision figures) {
  request->status = WEIR_OK;
  request->decision = figures;
  request->decision.allowed = allowed;
  request->decision.cost = request->cost;
}

/* One that settles, or resets, has no policy. */
void weir_tick_shed(weir_tick *tick, weir_asked *asked) {
  bool allowed = !asked->denies_shed;
  asked->limiter = NULL;
  weir_serve_count(&tick->counts->shed, 1);
  weir_tick_answer_alone(&asked->request, allowed,
                         (weir_decision){.source = WEIR_SOURCE_LATE,
                                         .limit = WEIR_NOT_KNOWN,
                                         .remaining = WEIR_NOT_KNOWN,
                                         .retry_after_us = allowed ? 0 : SHED_RETRY_US,
                                         .reset_after_us = WEIR_NOT_KNOWN,
                                         .store_status = WEIR_TIMEOUT});
  if (asked->refuses_shed || asked->request.flags & WEIR_REQUEST_SETTLE || asked->resets)
    asked->request.status = WEIR_TIMEOUT;
}

size_t weir_tick_add_request(weir_tick *tick, weir_tick_key key, int64_t cost, unsigned flags,
                             weir_limiter *limiter, const weir_config_store *store) {
  if (!weir_array_grow(&tick->asked, &tick->asked_room, tick->asked_count + 1, sizeof *tick->asked))
    return WEIR_NO_REQUEST;
  size_t index = tick->asked_count++;
  weir_asked *added = &tick->asked[index];
  const weir_store *asks = weir_tick_store(tick, store);
  /* Member by member: all of it at once would be made elsewhere and copied. */
  added->request.key = NULL;
  added->request.key_length = key.length;
  added->request.cost = cost;
  added->request.costs = NULL;
  added->request.longest_wait_us = 0;
  added->request.flags = flags;
  added->request.status = WEIR_OK;
  added->request.decision = (weir_decision){.allowed = false};
  added->limiter = limiter;
  added->store = asks;
  added->resets = added->denies_shed = added->refuses_shed = added->is_of_set = false;
  added->key = key.begin;
  added->costs = WEIR_NO_COSTS;
  added->until_us = WEIR_TICK_NO_END;
  added->place = WEIR_NO_PLACE;
  added->cost_count = added->releases = added->release_count = 0;
  if (limiter == NULL) return index;
  added->denies_shed = store->options.fallback != WEIR_FALLBACK_ALLOW;
  added->refuses_shed = store->options.fallback == WEIR_FALLBACK_NONE;
  if (index >= (size_t)tick->registry->config->limits.waiting) weir_tick_shed(tick, added);
  return index;
}

bool weir_tick_has_room(const weir_tick *tick, size_t count) {
  return tick->asked_count + count <= (size_t)tick->registry->config->limits.waiting;
}

void weir_tick_set_id(weir_tick *tick, uint32_t answer, const char *id, size_t length) {
  if (!weir_ask_is_id(id, length) || weir_bytes_room(&tick->bytes, length) == NULL) return;
  tick->answers[answer].id = tick->bytes.length;
  tick->answers[answer].id_length = length;
  weir_bytes_add(&tick->bytes, id, length);
}

void weir_tick_set_end(weir_tick *tick, size_t request, int64_t until_us) {
  tick->asked[request].until_us = until_us;
  tick->has_ends |= until_us != WEIR_TICK_NO_END;
}

bool weir_tick_judge(weir_tick *tick, weir_asked *one, int64_t now_us) {
  if (one->until_us != tick->judged_us) tick->judged_over = one->until_us <= now_us;
  tick->judged_us = one->until_us;
  if (!tick->judged_over) return true;
  one->limiter = NULL;
  one->until_us = WEIR_TICK_OVER;
  return false;
}

bool weir_tick_is_over(const weir_tick *tick, size_t request) {
  return tick->asked[request].until_us == WEIR_TICK_OVER;
}

void weir_tick_cancel(weir_tick *tick, uint32_t answer) {
  weir_answer *asked = &tick->answers[answer];
  asked->is.parts.is_cancelled = true;
  for (size_t i = 0; i < asked->is.parts.count; i++) {
    size_t request = tick->parts[asked->is.parts.first + i].request;
    if (request != WEIR_NO_REQUEST) tick->asked[request].limiter = NULL;
  }
}

weir_take_stamp weir_tick_stamp(const weir_tick *tick, const weir_asked *asked, const char *tier,
                                bool is_idle) {
  return (weir_take_stamp){
      .at_us = asked->request.decision.at_us,
      .source = asked->request.decision.source,
      .is_idle = is_idle,
      .mark = weir_stamp_mark(tick->bytes.data + asked->key, asked->request.key_length, tier)};
}

weir_status weir_tick_no_memory(weir_message *why) {
  *why = (weir_message){"the server is short of memory"};
  return WEIR_NO_MEMORY;
}

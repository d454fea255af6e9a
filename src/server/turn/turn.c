/* Requests of one turn: what is asked, and what is said once they are decided. */
#include "turn/turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/duration.h>

#include "array.h"
#include "clock.h"

const char weir_several_stores = 0, weir_beside_stores = 0;

enum { SHED_RETRY_US = 50000, BYTES_KEPT = 1 << 20 };

void weir_turn_init(weir_turn *turn, unsigned loop, weir_serve_counts *counts,
                    weir_keeper *keeper) {
  *turn =
      (weir_turn){.keeper = keeper, .loop = loop, .counts = counts, .judged_us = WEIR_TURN_NO_END};
}

void weir_turn_free(weir_turn *turn) {
  weir_bytes_free(&turn->bytes);
  free(turn->answers);
  free(turn->asked);
  free(turn->sets);
  free(turn->members);
  free(turn->parts);
  free(turn->costs);
  free(turn->places);
  free(turn->extras);
}

void weir_turn_clear(weir_turn *turn) {
  weir_throttle *throttle = turn->registry->throttle;
  if (turn->uses_throttle) weir_throttle_end_turn(throttle, turn->loop);
  if (turn->uses_overrides) weir_descriptors_end_turn(turn->registry->descriptors, turn->loop);
  turn->uses_throttle = turn->uses_overrides = turn->has_apart = turn->has_ends = false;
  turn->judged_us = WEIR_TURN_NO_END;
  turn->answer_count = turn->asked_count = turn->part_count = 0;
  turn->cost_count = turn->place_count = 0;
  turn->set_count = turn->member_count = turn->extra_count = 0;
  turn->bytes.length = 0;
  if (turn->bytes.failed || turn->bytes.capacity > BYTES_KEPT) weir_bytes_free(&turn->bytes);
}

/* --- collecting ------------------------------------------------------------------------------- */

weir_answer *weir_turn_add_answer(weir_turn *turn, weir_answer_kind kind, unsigned note) {
  if (!weir_array_grow(&turn->answers, &turn->answer_room, turn->answer_count + 1,
                       sizeof *turn->answers))
    return NULL;
  weir_answer *added = &turn->answers[turn->answer_count++];
  added->next = WEIR_NO_ANSWER;
  added->kind = kind;
  added->note = note;
  added->asked = added->asked_count = 0;
  added->id = added->id_length = 0;
  return added;
}

uint32_t weir_turn_add_text(weir_turn *turn, const char *text, size_t length) {
  if (weir_bytes_room(&turn->bytes, length) == NULL) return WEIR_NO_ANSWER;
  weir_answer *added = weir_turn_add_answer(turn, WEIR_ANSWER_TEXT, 0);
  if (added == NULL) return WEIR_NO_ANSWER;
  added->is.text.begin = turn->bytes.length;
  added->is.text.length = length;
  weir_bytes_add(&turn->bytes, text, length);
  return (uint32_t)(added - turn->answers);
}

weir_part *weir_turn_part_room(weir_turn *turn, size_t count) {
  if (!weir_array_grow(&turn->parts, &turn->part_room, turn->part_count + count,
                       sizeof *turn->parts))
    return NULL;
  return turn->parts + turn->part_count;
}

const weir_store *weir_turn_store(const weir_turn *turn, const weir_config_store *store) {
  if (store == NULL) return NULL;
  return weir_registry_store_at(turn->registry, (size_t)(store - turn->registry->config->stores));
}

uint32_t weir_turn_add_parts(weir_turn *turn, size_t count, const weir_domain *domain,
                             unsigned note) {
  weir_answer *added = weir_turn_add_answer(turn, WEIR_ANSWER_PARTS, note);
  if (added == NULL) return WEIR_NO_ANSWER;
  added->is.parts.first = turn->part_count;
  added->is.parts.count = count;
  added->is.parts.domain = domain;
  added->is.parts.set = WEIR_NO_SET;
  added->is.parts.store = domain != NULL ? weir_turn_store(turn, domain->config->store) : NULL;
  added->is.parts.is_cancelled = added->is.parts.is_returned = false;
  added->is.parts.not_given = WEIR_OK;
  added->is.parts.why = added->is.parts.why_length = 0;
  turn->part_count += count;
  return (uint32_t)(added - turn->answers);
}

void weir_turn_answer_alone(weir_request *request, bool allowed, weir_decision figures) {
  request->status = WEIR_OK;
  request->decision = figures;
  request->decision.allowed = allowed;
  request->decision.cost = request->cost;
}

/* One that settles, or is done apart, has no policy. */
void weir_turn_shed(weir_turn *turn, weir_asked *asked) {
  bool allowed = !asked->denies_shed;
  asked->limiter = NULL;
  weir_serve_count(&turn->counts->shed, 1);
  weir_turn_answer_alone(&asked->request, allowed,
                         (weir_decision){.source = WEIR_SOURCE_LATE,
                                         .limit = WEIR_NOT_KNOWN,
                                         .remaining = WEIR_NOT_KNOWN,
                                         .retry_after_us = allowed ? 0 : SHED_RETRY_US,
                                         .reset_after_us = WEIR_NOT_KNOWN,
                                         .store_status = WEIR_TIMEOUT});
  if (asked->refuses_shed || asked->request.flags & WEIR_REQUEST_SETTLE ||
      asked->apart != WEIR_ASKED_WITH_OTHERS)
    asked->request.status = WEIR_TIMEOUT;
}

size_t weir_turn_add_request(weir_turn *turn, weir_turn_key key, int64_t cost, unsigned flags,
                             weir_limiter *limiter, const weir_config_store *store) {
  if (!weir_array_grow(&turn->asked, &turn->asked_room, turn->asked_count + 1, sizeof *turn->asked))
    return WEIR_NO_REQUEST;
  size_t index = turn->asked_count++;
  weir_asked *added = &turn->asked[index];
  const weir_store *asks = weir_turn_store(turn, store);
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
  added->apart = WEIR_ASKED_WITH_OTHERS;
  added->denies_shed = added->refuses_shed = added->is_of_set = false;
  added->key = key.begin;
  added->costs = WEIR_NO_COSTS;
  added->until_us = WEIR_TURN_NO_END;
  added->extra = WEIR_NO_EXTRA;
  added->place = WEIR_NO_PLACE;
  added->cost_count = added->releases = added->release_count = 0;
  if (limiter == NULL) return index;
  added->denies_shed = store->options.fallback != WEIR_FALLBACK_ALLOW;
  added->refuses_shed = store->options.fallback == WEIR_FALLBACK_NONE;
  if (index >= (size_t)turn->registry->config->limits.waiting) weir_turn_shed(turn, added);
  return index;
}

bool weir_turn_has_room(const weir_turn *turn, size_t count) {
  return turn->asked_count + count <= (size_t)turn->registry->config->limits.waiting;
}

void weir_turn_set_id(weir_turn *turn, uint32_t answer, const char *id, size_t length) {
  if (!weir_order_is_id(id, length) || weir_bytes_room(&turn->bytes, length) == NULL) return;
  turn->answers[answer].id = turn->bytes.length;
  turn->answers[answer].id_length = length;
  weir_bytes_add(&turn->bytes, id, length);
}

void weir_turn_set_end(weir_turn *turn, size_t request, int64_t until_us) {
  turn->asked[request].until_us = until_us;
  turn->has_ends |= until_us != WEIR_TURN_NO_END;
}

bool weir_turn_judge(weir_turn *turn, weir_asked *one, int64_t now_us) {
  if (one->until_us != turn->judged_us) turn->judged_over = one->until_us <= now_us;
  turn->judged_us = one->until_us;
  if (!turn->judged_over) return true;
  one->limiter = NULL;
  one->until_us = WEIR_TURN_OVER;
  return false;
}

bool weir_turn_is_over(const weir_turn *turn, size_t request) {
  return turn->asked[request].until_us == WEIR_TURN_OVER;
}

void weir_turn_cancel(weir_turn *turn, uint32_t answer) {
  weir_answer *asked = &turn->answers[answer];
  asked->is.parts.is_cancelled = true;
  for (size_t i = 0; i < asked->is.parts.count; i++) {
    size_t request = turn->parts[asked->is.parts.first + i].request;
    if (request != WEIR_NO_REQUEST) turn->asked[request].limiter = NULL;
  }
}

uint32_t weir_turn_mark(const weir_turn *turn, const char *counted, size_t length, const char *tier,
                        size_t extra) {
  static const weir_order_says nothing;
  const weir_order_says *says = extra != WEIR_NO_EXTRA ? &turn->extras[extra].says : &nothing;
  return weir_stamp_mark(counted, length, tier, says->tenant, says->tenant_length);
}

weir_take_stamp weir_turn_stamp(const weir_turn *turn, const weir_asked *asked, const char *tier,
                                bool is_idle) {
  return (weir_take_stamp){.at_us = asked->request.decision.at_us,
                           .source = asked->request.decision.source,
                           .is_idle = is_idle,
                           .mark = weir_turn_mark(turn, turn->bytes.data + asked->key,
                                                  asked->request.key_length, tier, asked->extra)};
}

weir_status weir_turn_no_memory(weir_message *why) {
  *why = (weir_message){"the server is short of memory"};
  return WEIR_NO_MEMORY;
}

#include "serve/pending.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

/* What answers are made of. */
typedef struct weir_pending_sizes {
  size_t answers, asked, sets, members, parts, bytes, costs, places;
} weir_pending_sizes;

/* --- room -------------------------------------------------------------------------------------- */

static size_t set_of(const weir_answer *answer) {
  if (answer->kind == WEIR_ANSWER_PARTS) return answer->is.parts.set;
  return answer->kind == WEIR_ANSWER_GROUP ? answer->is.group.set : WEIR_NO_SET;
}

static weir_pending_sizes measure(const weir_tick *tick, uint32_t first) {
  weir_pending_sizes sizes = {0};
  for (uint32_t i = first; i != WEIR_NO_ANSWER; i = tick->answers[i].next) {
    const weir_answer *answer = &tick->answers[i];
    sizes.answers++;
    sizes.bytes += answer->id_length;
    if (answer->kind == WEIR_ANSWER_TEXT) sizes.bytes += answer->is.text.length;
    sizes.asked += answer->asked_count;
    for (size_t j = 0; j < answer->asked_count; j++) {
      const weir_asked *asked = &tick->asked[answer->asked + j];
      sizes.bytes += asked->request.key_length;
      sizes.costs += asked->cost_count;
      sizes.places += (asked->place != WEIR_NO_PLACE) + asked->release_count;
    }
    sizes.sets += set_of(answer) != WEIR_NO_SET;
    if (answer->kind == WEIR_ANSWER_GROUP) sizes.members += answer->is.group.group->member_count;
    if (answer->kind != WEIR_ANSWER_PARTS) continue;
    sizes.parts += answer->is.parts.count;
    sizes.bytes += answer->is.parts.why_length;
    for (size_t j = 0; j < answer->is.parts.count; j++) {
      const weir_part *part = &tick->parts[answer->is.parts.first + j];
      if (part->request == WEIR_NO_REQUEST) sizes.bytes += part->key_length;
    }
  }
  return sizes;
}

/* NULL where nothing is to be held. False: no memory. */
static bool make(void *array, size_t *room, size_t count, size_t size) {
  void *items = count > 0 ? malloc(count * size) : NULL;
  if (count > 0 && items == NULL) return false;
  memcpy(array, &items, sizeof items); /* the pointer's own type is the caller's */
  *room = count;
  return true;
}

static bool make_room(weir_tick *tick, const weir_pending_sizes *sizes) {
  return make(&tick->answers, &tick->answer_room, sizes->answers, sizeof *tick->answers) &&
         make(&tick->asked, &tick->asked_room, sizes->asked, sizeof *tick->asked) &&
         make(&tick->sets, &tick->set_room, sizes->sets, sizeof *tick->sets) &&
         make(&tick->members, &tick->member_room, sizes->members, sizeof *tick->members) &&
         make(&tick->parts, &tick->part_room, sizes->parts, sizeof *tick->parts) &&
         make(&tick->bytes.data, &tick->bytes.capacity, sizes->bytes, 1) &&
         make(&tick->costs, &tick->cost_room, sizes->costs, sizeof *tick->costs) &&
         make(&tick->places, &tick->place_room, sizes->places, sizeof *tick->places);
}

/* --- copying: there is room ---------------------------------------------------------------------
 */

static size_t copy_bytes(weir_tick *to, const weir_tick *from, size_t at, size_t length) {
  size_t copy = to->bytes.length;
  if (length > 0) memcpy(to->bytes.data + copy, from->bytes.data + at, length);
  to->bytes.length += length;
  return copy;
}

static size_t copy_place(weir_tick *to, const weir_tick *from, size_t at, size_t request) {
  to->places[to->place_count] = from->places[at];
  to->places[to->place_count].request = request;
  return to->place_count++;
}

static void copy_asked(weir_tick *to, const weir_tick *from, size_t index) {
  const weir_asked *asked = &from->asked[index];
  size_t at = to->asked_count++;
  weir_asked *copy = &to->asked[at];
  *copy = *asked;
  copy->key = copy_bytes(to, from, asked->key, asked->request.key_length);
  to->has_resets = to->has_resets || asked->resets;
  if (asked->costs != WEIR_NO_COSTS) {
    copy->costs = to->cost_count;
    memcpy(to->costs + copy->costs, from->costs + asked->costs,
           asked->cost_count * sizeof *to->costs);
    to->cost_count += asked->cost_count;
  }
  if (asked->place != WEIR_NO_PLACE) copy->place = copy_place(to, from, asked->place, at);
  copy->releases = to->place_count;
  for (size_t i = 0; i < asked->release_count; i++)
    copy_place(to, from, asked->releases + i, at);
}

/* `asked`: where the first request of the answer stands in the copy. The same below. */
static void copy_parts(weir_tick *to, const weir_tick *from, weir_answer *answer, size_t asked) {
  size_t first = to->part_count;
  for (size_t i = 0; i < answer->is.parts.count; i++) {
    weir_part *part = &to->parts[to->part_count++];
    *part = from->parts[answer->is.parts.first + i];
    if (part->request == WEIR_NO_REQUEST) {
      part->key = copy_bytes(to, from, part->key, part->key_length);
      continue;
    }
    part->request += asked - answer->asked;
    part->key = to->asked[part->request].key;
  }
  answer->is.parts.first = first;
  answer->is.parts.why = copy_bytes(to, from, answer->is.parts.why, answer->is.parts.why_length);
}

static void copy_members(weir_tick *to, const weir_tick *from, weir_answer *answer, size_t asked) {
  size_t first = to->member_count;
  for (size_t i = 0; i < answer->is.group.group->member_count; i++) {
    weir_asked_member *member = &to->members[to->member_count++];
    *member = from->members[answer->is.group.first + i];
    member->request += asked - answer->asked;
  }
  answer->is.group.first = first;
}

static size_t copy_set(weir_tick *to, const weir_tick *from, const weir_answer *answer,
                       size_t asked) {
  if (set_of(answer) == WEIR_NO_SET) return WEIR_NO_SET;
  weir_asked_set *set = &to->sets[to->set_count];
  *set = from->sets[set_of(answer)];
  set->first += asked - answer->asked;
  return to->set_count++;
}

/* Requests of one answer of which some are decided are decided all, however late: to their client they are one. */
static void keep_together(weir_tick *tick, size_t first, size_t count) {
  bool some_are_decided = false;
  for (size_t i = first; i < first + count; i++)
    some_are_decided = some_are_decided || tick->asked[i].limiter == NULL;
  for (size_t i = first; some_are_decided && i < first + count; i++)
    if (tick->asked[i].limiter != NULL) tick->asked[i].until_us = WEIR_TICK_NO_END;
}

static void copy_answer(weir_tick *to, const weir_tick *from, weir_answer *answer) {
  size_t asked = to->asked_count;
  answer->id = copy_bytes(to, from, answer->id, answer->id_length);
  for (size_t i = 0; i < answer->asked_count; i++)
    copy_asked(to, from, answer->asked + i);
  keep_together(to, asked, answer->asked_count);
  size_t set = copy_set(to, from, answer, asked);
  if (answer->kind == WEIR_ANSWER_TEXT)
    answer->is.text.begin = copy_bytes(to, from, answer->is.text.begin, answer->is.text.length);
  if (answer->kind == WEIR_ANSWER_REQUEST) answer->is.request.index = asked;
  if (answer->kind == WEIR_ANSWER_PARTS) {
    copy_parts(to, from, answer, asked);
    answer->is.parts.set = set;
  }
  if (answer->kind == WEIR_ANSWER_GROUP) {
    copy_members(to, from, answer, asked);
    answer->is.group.set = set;
  }
  answer->asked = asked;
}

/* --- limiters on demand ------------------------------------------------------------------------- */

typedef void weir_change_holders(weir_throttle *throttle, int64_t burst, int64_t count,
                                 int64_t period_s);

/* Those that these answers have found: a tick's end would let them go. */
static void change_holders(const weir_tick *tick, weir_change_holders *change) {
  for (size_t i = 0; i < tick->answer_count; i++) {
    const weir_answer *answer = &tick->answers[i];
    const weir_ask *ask = &answer->is.request.ask;
    if (answer->kind == WEIR_ANSWER_REQUEST && ask->brings_rule)
      change(tick->registry->throttle, ask->burst, ask->count, ask->period_s);
    for (size_t j = 0; answer->kind == WEIR_ANSWER_PARTS && j < answer->is.parts.count; j++) {
      const weir_part *part = &tick->parts[answer->is.parts.first + j];
      const weir_domain *domain = answer->is.parts.domain;
      if (part->limit != WEIR_SERVED_NO_LIMIT || part->limiter == NULL) continue;
      change(weir_domain_throttle(domain, part->rate.unit), 0, part->rate.requests,
             weir_config_unit_s(domain->config, part->rate.unit));
    }
  }
}

/* --- life -------------------------------------------------------------------------------------- */

weir_pending *weir_pending_create(const weir_tick *tick, uint32_t first, void *client) {
  const weir_pending_sizes sizes = measure(tick, first);
  weir_pending *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  weir_tick_init(&made->tick, tick->loop, tick->counts, tick->keeper);
  made->tick.has_ends = tick->has_ends;
  made->client = client;
  if (!make_room(&made->tick, &sizes)) {
    weir_tick_free(&made->tick);
    free(made);
    return NULL;
  }
  made->tick.registry = weir_registry_retain(tick->registry);
  for (uint32_t i = first; i != WEIR_NO_ANSWER; i = tick->answers[i].next) {
    weir_answer *copy = &made->tick.answers[made->tick.answer_count++];
    *copy = tick->answers[i];
    if (copy->next != WEIR_NO_ANSWER) copy->next = (uint32_t)made->tick.answer_count;
    copy_answer(&made->tick, tick, copy);
  }
  change_holders(&made->tick, weir_throttle_hold);
  for (size_t i = 0; i < made->tick.asked_count; i++)
    made->left += made->tick.asked[i].limiter != NULL;
  return made;
}

void weir_pending_destroy(weir_pending *pending) {
  change_holders(&pending->tick, weir_throttle_let_go);
  weir_registry_release(pending->tick.registry);
  weir_tick_free(&pending->tick);
  free(pending);
}

void weir_pending_shed(weir_pending *pending) {
  for (size_t i = 0; i < pending->tick.asked_count; i++) {
    weir_asked *asked = &pending->tick.asked[i];
    if (asked->limiter != NULL && asked->place == WEIR_NO_PLACE)
      weir_tick_shed(&pending->tick, asked);
  }
}

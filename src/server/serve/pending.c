#include "serve/pending.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

/* The parts that answers are made of. */
typedef struct weir_pending_sizes {
  size_t answers, asked, sets, members, parts, bytes, costs, places, extras;
} weir_pending_sizes;

/* --- room -------------------------------------------------------------------------------------- */

static size_t set_of(const weir_answer *answer) {
  if (answer->kind == WEIR_ANSWER_PARTS) return answer->is.parts.set;
  return answer->kind == WEIR_ANSWER_GROUP ? answer->is.group.set : WEIR_NO_SET;
}

static weir_pending_sizes measure(const weir_turn *turn, uint32_t first) {
  weir_pending_sizes sizes = {0};
  for (uint32_t i = first; i != WEIR_NO_ANSWER; i = turn->answers[i].next) {
    const weir_answer *answer = &turn->answers[i];
    sizes.answers++;
    sizes.bytes += answer->id_length;
    if (answer->kind == WEIR_ANSWER_TEXT) sizes.bytes += answer->is.text.length;
    sizes.asked += answer->asked_count;
    for (size_t j = 0; j < answer->asked_count; j++) {
      const weir_asked *asked = &turn->asked[answer->asked + j];
      sizes.bytes += asked->request.key_length;
      sizes.costs += asked->cost_count;
      sizes.extras += asked->extra != WEIR_NO_EXTRA;
      sizes.places += (asked->place != WEIR_NO_PLACE) + asked->release_count;
    }
    sizes.sets += set_of(answer) != WEIR_NO_SET;
    if (answer->kind == WEIR_ANSWER_GROUP) sizes.members += answer->is.group.group->member_count;
    if (answer->kind != WEIR_ANSWER_PARTS) continue;
    sizes.parts += answer->is.parts.count;
    sizes.bytes += answer->is.parts.why_length;
    for (size_t j = 0; j < answer->is.parts.count; j++) {
      const weir_part *part = &turn->parts[answer->is.parts.first + j];
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

static bool make_room(weir_turn *turn, const weir_pending_sizes *sizes) {
  return make(&turn->answers, &turn->answer_room, sizes->answers, sizeof *turn->answers) &&
         make(&turn->asked, &turn->asked_room, sizes->asked, sizeof *turn->asked) &&
         make(&turn->sets, &turn->set_room, sizes->sets, sizeof *turn->sets) &&
         make(&turn->members, &turn->member_room, sizes->members, sizeof *turn->members) &&
         make(&turn->parts, &turn->part_room, sizes->parts, sizeof *turn->parts) &&
         make(&turn->bytes.data, &turn->bytes.capacity, sizes->bytes, 1) &&
         make(&turn->costs, &turn->cost_room, sizes->costs, sizeof *turn->costs) &&
         make(&turn->places, &turn->place_room, sizes->places, sizeof *turn->places) &&
         make(&turn->extras, &turn->extra_room, sizes->extras, sizeof *turn->extras);
}

/* --- copying: there is room ---------------------------------------------------------------------
 */

static size_t copy_bytes(weir_turn *to, const weir_turn *from, size_t at, size_t length) {
  size_t copy = to->bytes.length;
  if (length > 0) memcpy(to->bytes.data + copy, from->bytes.data + at, length);
  to->bytes.length += length;
  return copy;
}

static size_t copy_place(weir_turn *to, const weir_turn *from, size_t at, size_t request) {
  to->places[to->place_count] = from->places[at];
  to->places[to->place_count].request = request;
  return to->place_count++;
}

static void copy_asked(weir_turn *to, const weir_turn *from, size_t index) {
  const weir_asked *asked = &from->asked[index];
  size_t at = to->asked_count++;
  weir_asked *copy = &to->asked[at];
  *copy = *asked;
  copy->key = copy_bytes(to, from, asked->key, asked->request.key_length);
  to->has_apart = to->has_apart || asked->apart != WEIR_ASKED_WITH_OTHERS;
  if (asked->costs != WEIR_NO_COSTS) {
    copy->costs = to->cost_count;
    memcpy(to->costs + copy->costs, from->costs + asked->costs,
           asked->cost_count * sizeof *to->costs);
    to->cost_count += asked->cost_count;
  }
  if (asked->extra != WEIR_NO_EXTRA) {
    copy->extra = to->extra_count;
    to->extras[to->extra_count++] = from->extras[asked->extra];
  }
  if (asked->place != WEIR_NO_PLACE) copy->place = copy_place(to, from, asked->place, at);
  copy->releases = to->place_count;
  for (size_t i = 0; i < asked->release_count; i++)
    copy_place(to, from, asked->releases + i, at);
}

/* `asked`: where the first request of the answer stands in the copy. The same below. */
static void copy_parts(weir_turn *to, const weir_turn *from, weir_answer *answer, size_t asked) {
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

static void copy_members(weir_turn *to, const weir_turn *from, weir_answer *answer, size_t asked) {
  size_t first = to->member_count;
  for (size_t i = 0; i < answer->is.group.group->member_count; i++) {
    weir_asked_member *member = &to->members[to->member_count++];
    *member = from->members[answer->is.group.first + i];
    member->request += asked - answer->asked;
  }
  answer->is.group.first = first;
}

static size_t copy_set(weir_turn *to, const weir_turn *from, const weir_answer *answer,
                       size_t asked) {
  if (set_of(answer) == WEIR_NO_SET) return WEIR_NO_SET;
  weir_asked_set *set = &to->sets[to->set_count];
  *set = from->sets[set_of(answer)];
  set->first += asked - answer->asked;
  return to->set_count++;
}

/* Requests of one answer of which some are decided are decided all, however late: to their client they are one. */
static void keep_together(weir_turn *turn, size_t first, size_t count) {
  bool some_are_decided = false;
  for (size_t i = first; i < first + count; i++)
    some_are_decided = some_are_decided || turn->asked[i].limiter == NULL;
  for (size_t i = first; some_are_decided && i < first + count; i++)
    if (turn->asked[i].limiter != NULL) turn->asked[i].until_us = WEIR_TURN_NO_END;
}

static void copy_answer(weir_turn *to, const weir_turn *from, weir_answer *answer) {
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

/* Those that these answers have found: a turn's end would let them go. */
static void change_holders(const weir_turn *turn, weir_change_holders *change) {
  for (size_t i = 0; i < turn->answer_count; i++) {
    const weir_answer *answer = &turn->answers[i];
    const weir_order *order = &answer->is.request.order;
    if (answer->kind == WEIR_ANSWER_REQUEST && order->brings_rule)
      change(turn->registry->throttle, order->burst, order->count, order->period_s);
    for (size_t j = 0; answer->kind == WEIR_ANSWER_PARTS && j < answer->is.parts.count; j++) {
      const weir_part *part = &turn->parts[answer->is.parts.first + j];
      const weir_domain *domain = answer->is.parts.domain;
      if (part->limit != WEIR_SERVED_NO_LIMIT || part->limiter == NULL) continue;
      change(weir_domain_throttle(domain, part->rate.unit), 0, part->rate.requests,
             weir_config_unit_s(domain->config, part->rate.unit));
    }
  }
}

/* --- life -------------------------------------------------------------------------------------- */

weir_pending *weir_pending_create(const weir_turn *turn, uint32_t first, void *client) {
  const weir_pending_sizes sizes = measure(turn, first);
  weir_pending *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  weir_turn_init(&made->turn, turn->loop, turn->counts, turn->keeper);
  made->turn.has_ends = turn->has_ends;
  made->client = client;
  if (!make_room(&made->turn, &sizes)) {
    weir_turn_free(&made->turn);
    free(made);
    return NULL;
  }
  made->turn.registry = weir_registry_retain(turn->registry);
  for (uint32_t i = first; i != WEIR_NO_ANSWER; i = turn->answers[i].next) {
    weir_answer *copy = &made->turn.answers[made->turn.answer_count++];
    *copy = turn->answers[i];
    if (copy->next != WEIR_NO_ANSWER) copy->next = (uint32_t)made->turn.answer_count;
    copy_answer(&made->turn, turn, copy);
  }
  change_holders(&made->turn, weir_throttle_hold);
  for (size_t i = 0; i < made->turn.asked_count; i++)
    made->left += made->turn.asked[i].limiter != NULL;
  return made;
}

void weir_pending_destroy(weir_pending *pending) {
  change_holders(&pending->turn, weir_throttle_let_go);
  weir_registry_release(pending->turn.registry);
  weir_turn_free(&pending->turn);
  free(pending);
}

void weir_pending_shed(weir_pending *pending) {
  for (size_t i = 0; i < pending->turn.asked_count; i++) {
    weir_asked *asked = &pending->turn.asked[i];
    if (asked->limiter != NULL && asked->place == WEIR_NO_PLACE)
      weir_turn_shed(&pending->turn, asked);
  }
}

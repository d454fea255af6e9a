#include "simulate/slots.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_LEAST = 4 };

void weir_slots_clean_up(weir_slots places[WEIR_PLACES]) {
  for (int i = 0; i < WEIR_PLACES; i++) {
    free(places[i].slots);
    places[i] = (weir_slots){0};
  }
}

void weir_slots_expire(weir_slots places[WEIR_PLACES], int64_t now_us) {
  for (int i = 0; i < WEIR_PLACES; i++) {
    weir_slots *place = &places[i];
    while (place->first < place->end && place->slots[place->first].expiry_us <= now_us)
      place->first++;
  }
}

size_t weir_slots_count(const weir_slots places[WEIR_PLACES]) {
  size_t count = 0;
  for (int i = 0; i < WEIR_PLACES; i++)
    count += places[i].end - places[i].first;
  return count;
}

static bool is_before(const weir_slot *slot, const weir_action *action) {
  return slot->index != action->index ? slot->index < action->index : slot->entry < action->entry;
}

/* Where the action's entry is, or would stand. Most that are asked for are among the newest. */
static size_t locate(const weir_slots *place, const weir_action *action) {
  size_t low = place->first, high = place->end;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (is_before(&place->slots[middle], action))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool holds(const weir_slots *place, size_t at, const weir_action *action) {
  return at < place->end && place->slots[at].index == action->index &&
         place->slots[at].entry == action->entry;
}

/* Moves the entries to the front, or to a larger array where half of this one is in use. */
static bool make_room(weir_slots *place) {
  size_t count = place->end - place->first;
  if (place->end < place->room) return true;
  if (count * 2 > place->room || place->room == 0) {
    size_t room = place->room == 0 ? ROOM_LEAST : place->room * 2;
    weir_slot *larger = realloc(place->slots, room * sizeof *larger);
    if (larger == NULL) return false;
    place->slots = larger;
    place->room = room;
  }
  if (count > 0) memmove(place->slots, place->slots + place->first, count * sizeof *place->slots);
  place->first = 0;
  place->end = count;
  return true;
}

static weir_slot *insert(weir_slots *place, const weir_action *action) {
  if (!make_room(place)) return NULL;
  size_t at = locate(place, action);
  weir_slot *slot = &place->slots[at];
  if (at < place->end) memmove(slot + 1, slot, (place->end - at) * sizeof *slot);
  place->end++;
  *slot = (weir_slot){.index = action->index, .entry = action->entry};
  return slot;
}

static void erase(weir_slots *place, size_t at) {
  weir_slot *slot = &place->slots[at];
  memmove(slot, slot + 1, (place->end - at - 1) * sizeof *slot);
  place->end--;
}

static weir_outcome write_value(weir_slot *slot, int64_t value, uint64_t version,
                                weir_action *action) {
  slot->value = value;
  slot->version = version;
  action->version_out = version;
  return WEIR_DONE;
}

static weir_outcome change(weir_slot *slot, weir_action *action, uint64_t version) {
  switch (action->kind) {
    case WEIR_GET:
      action->value = slot->value;
      action->version_out = slot->version;
      return WEIR_DONE;
    case WEIR_ADD:
      action->value = slot->value + action->delta;
      return write_value(slot, action->value, version, action);
    case WEIR_SUB:
      action->value = slot->value - action->delta;
      return write_value(slot, action->value, version, action);
    case WEIR_SWAP:
      if (slot->version != action->version) return WEIR_CONFLICT;
      return write_value(slot, action->value, version, action);
    case WEIR_PUT:
      return write_value(slot, action->value, version, action);
    case WEIR_CREATE:
      return WEIR_CONFLICT;
    default: /* RAISE, which this store does not have */
      return WEIR_REFUSED;
  }
}

static bool renews(const weir_action *action) {
  return action->kind == WEIR_SWAP || action->kind == WEIR_PUT;
}

static bool creates(const weir_action *action) {
  return action->kind == WEIR_ADD || action->kind == WEIR_CREATE || action->kind == WEIR_PUT;
}

static bool create(weir_slots *place, int64_t now_us, uint64_t version, weir_action *action) {
  weir_slot *slot = insert(place, action);
  if (slot == NULL) return false;
  slot->expiry_us = now_us + action->ttl_us;
  if (action->kind == WEIR_ADD) action->value = action->delta;
  action->outcome = write_value(slot, action->value, version, action);
  return true;
}

bool weir_slots_execute(weir_slots places[WEIR_PLACES], int64_t now_us, uint64_t version,
                        weir_action *action) {
  weir_slots *place = &places[action->place];
  size_t at = locate(place, action);
  bool present = holds(place, at, action);
  if (present && place->slots[at].expiry_us <= now_us) {
    erase(place, at);
    present = false;
  }
  if (!present && creates(action)) return create(place, now_us, version, action);
  if (!present) {
    action->outcome = WEIR_ABSENT;
  } else if (action->kind == WEIR_DROP) {
    erase(place, at);
    action->outcome = WEIR_DONE;
  } else {
    action->outcome = change(&place->slots[at], action, version);
    if (renews(action) && action->outcome == WEIR_DONE)
      place->slots[at].expiry_us = now_us + action->ttl_us;
  }
  return true;
}

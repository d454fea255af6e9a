/* The counters of a simulated store, with their TTL. */
#include "simulate/slots.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_LEAST = 2, ROOM_KEPT = 64 };

void weir_slots_clean_up(weir_slots places[WEIR_PLACES]) {
  for (int i = 0; i < WEIR_PLACES; i++) {
    free(places[i].slots);
    places[i] = (weir_slots){0};
  }
}

void weir_slots_clear(weir_slots *place) {
  place->first = place->end = 0;
  if (place->room <= ROOM_KEPT) return;
  free(place->slots);
  *place = (weir_slots){0};
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

static bool is_before(const weir_slot *slot, const weir_operation *operation) {
  return slot->index != operation->counter.index ? slot->index < operation->counter.index
                                                 : slot->entry < operation->counter.entry;
}

/* Where the operation's entry is, or would stand. Most that are asked for are among the newest. */
static size_t locate(const weir_slots *place, const weir_operation *operation) {
  size_t low = place->first, high = place->end;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (is_before(&place->slots[middle], operation))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static bool holds(const weir_slots *place, size_t at, const weir_operation *operation) {
  return at < place->end && place->slots[at].index == operation->counter.index &&
         place->slots[at].entry == operation->counter.entry;
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

bool weir_slots_append(weir_slots *place, const weir_slot *slot) {
  if (!make_room(place)) return false;
  place->slots[place->end++] = *slot;
  return true;
}

static weir_slot *insert(weir_slots *place, const weir_operation *operation) {
  if (!make_room(place)) return NULL;
  size_t at = locate(place, operation);
  weir_slot *slot = &place->slots[at];
  if (at < place->end) memmove(slot + 1, slot, (place->end - at) * sizeof *slot);
  place->end++;
  *slot = (weir_slot){.index = operation->counter.index, .entry = operation->counter.entry};
  return slot;
}

static void erase(weir_slots *place, size_t at) {
  weir_slot *slot = &place->slots[at];
  memmove(slot, slot + 1, (place->end - at - 1) * sizeof *slot);
  place->end--;
}

static weir_outcome write_value(weir_slot *slot, int64_t value, uint64_t version,
                                weir_operation *operation) {
  slot->value = value;
  slot->version = version;
  operation->version_out = version;
  return WEIR_DONE;
}

static int64_t raised(int64_t value, const weir_operation *operation) {
  return (value > operation->floor ? value : operation->floor) + operation->delta;
}

static weir_outcome change(weir_slot *slot, weir_operation *operation, uint64_t version) {
  switch (operation->kind) {
    case WEIR_GET:
      operation->value = slot->value;
      operation->version_out = slot->version;
      return WEIR_DONE;
    case WEIR_ADD:
      operation->value = slot->value + operation->delta;
      return write_value(slot, operation->value, version, operation);
    case WEIR_SUB:
      operation->value = slot->value - operation->delta;
      return write_value(slot, operation->value, version, operation);
    case WEIR_SWAP:
      if (slot->version != operation->version) return WEIR_CONFLICT;
      return write_value(slot, operation->value, version, operation);
    case WEIR_PUT:
      return write_value(slot, operation->value, version, operation);
    case WEIR_RAISE:
      operation->value = raised(slot->value, operation);
      return write_value(slot, operation->value, version, operation);
    default: /* CREATE: a DROP does not come here */
      return WEIR_CONFLICT;
  }
}

static bool renews(const weir_operation *operation) {
  return operation->kind == WEIR_SWAP || operation->kind == WEIR_PUT ||
         (operation->kind == WEIR_RAISE && operation->refresh);
}

static bool creates(const weir_operation *operation) {
  return operation->kind == WEIR_ADD || operation->kind == WEIR_CREATE ||
         operation->kind == WEIR_PUT || (operation->kind == WEIR_RAISE && operation->refresh);
}

static bool create(weir_slots *place, int64_t now_us, uint64_t version, weir_operation *operation) {
  weir_slot *slot = insert(place, operation);
  if (slot == NULL) return false;
  slot->expiry_us = now_us + operation->ttl_us;
  if (operation->kind == WEIR_ADD) operation->value = operation->delta;
  if (operation->kind == WEIR_RAISE) operation->value = raised(0, operation);
  operation->outcome = write_value(slot, operation->value, version, operation);
  return true;
}

bool weir_slots_execute(weir_slots places[WEIR_PLACES], int64_t now_us, uint64_t version,
                        weir_operation *operation) {
  weir_slots *place = &places[operation->counter.place];
  size_t at = locate(place, operation);
  bool present = holds(place, at, operation);
  if (present && place->slots[at].expiry_us <= now_us) {
    erase(place, at);
    present = false;
  }
  if (!present && creates(operation)) return create(place, now_us, version, operation);
  if (!present) {
    operation->outcome = WEIR_ABSENT;
  } else if (operation->kind == WEIR_DROP) {
    erase(place, at);
    operation->outcome = WEIR_DONE;
  } else {
    operation->outcome = change(&place->slots[at], operation, version);
    if (renews(operation) && operation->outcome == WEIR_DONE)
      place->slots[at].expiry_us = now_us + operation->ttl_us;
  }
  return true;
}

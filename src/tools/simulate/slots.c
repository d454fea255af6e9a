/* The counters of a simulated store, with their TTL. */
#include "simulate/slots.h"

#include <stdlib.h>
#include <string.h>

#include "array.h"

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

/* Whether the operation's entry is there, and where, or where it would stand. */
static bool locate(const weir_slots *place, const weir_operation *operation, size_t *at) {
  int64_t index = operation->counter.index, entry = operation->counter.entry;
  size_t low = place->first, high = place->end;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const weir_stored_counter *slot = &place->slots[middle];
    if (slot->index != index ? slot->index < index : slot->entry < entry)
      low = middle + 1;
    else
      high = middle;
  }
  *at = low;
  return low < place->end && place->slots[low].index == index && place->slots[low].entry == entry;
}

static bool make_room(weir_slots *place) {
  return weir_array_make_room(&place->slots, &place->first, &place->end, &place->room,
                              sizeof *place->slots, ROOM_LEAST);
}

bool weir_slots_append(weir_slots *place, const weir_stored_counter *slot) {
  if (!make_room(place)) return false;
  place->slots[place->end++] = *slot;
  return true;
}

static void erase(weir_slots *place, size_t at) {
  weir_stored_counter *slot = &place->slots[at];
  memmove(slot, slot + 1, (place->end - at - 1) * sizeof *slot);
  place->end--;
}

bool weir_slots_execute(weir_slots places[WEIR_PLACES], int64_t now_us, uint64_t version,
                        weir_operation *operation) {
  weir_slots *place = &places[operation->counter.place];
  weir_operation_kind kind = operation->kind;
  bool refreshed = kind == WEIR_PUT || (kind == WEIR_RAISE && operation->refresh);
  size_t at;
  bool present = locate(place, operation, &at);
  if (present && place->slots[at].expiry_us <= now_us) {
    erase(place, at);
    present = false;
  }

  /* What is absent is made by some, as 0 that lives from now on. */
  if (!present && !refreshed && kind != WEIR_ADD && kind != WEIR_CREATE) {
    operation->outcome = WEIR_ABSENT;
    return true;
  }
  if (!present) {
    if (!make_room(place)) return false;
    (void)locate(place, operation, &at); /* they may have moved */
    weir_stored_counter *made = &place->slots[at];
    if (at < place->end) memmove(made + 1, made, (place->end - at) * sizeof *made);
    place->end++;
    *made = (weir_stored_counter){.index = operation->counter.index,
                                  .entry = operation->counter.entry,
                                  .expiry_us = now_us + operation->ttl_us};
  }

  weir_stored_counter *slot = &place->slots[at];
  operation->outcome = WEIR_DONE;
  switch (kind) {
    case WEIR_GET:
      operation->value = slot->value;
      operation->version_out = slot->version;
      return true;
    case WEIR_DROP:
      erase(place, at);
      return true;
    case WEIR_ADD:
      operation->value = slot->value + operation->delta;
      break;
    case WEIR_SUB:
      operation->value = slot->value - operation->delta;
      break;
    case WEIR_RAISE:
      operation->value =
          (slot->value > operation->floor ? slot->value : operation->floor) + operation->delta;
      break;
    default: /* CREATE, SWAP, PUT: to the operation's own value */
      if ((kind == WEIR_CREATE && present) ||
          (kind == WEIR_SWAP && slot->version != operation->version)) {
        operation->outcome = WEIR_CONFLICT;
        return true;
      }
      break;
  }
  slot->value = operation->value;
  slot->version = operation->version_out = version;
  if (refreshed || kind == WEIR_SWAP) slot->expiry_us = now_us + operation->ttl_us;
  return true;
}

/* What a simulated store holds for one key under one rule.
 *
 * Time only goes forward here, so the entries of a place are made in the order of their index and
 * expire in that order: sorted arrays, with what has expired cut off in front.
 */
#ifndef WEIR_SIMULATE_SLOTS_H
#define WEIR_SIMULATE_SLOTS_H

#include "algorithm/algorithm.h"

enum { WEIR_PLACES = WEIR_PLACE_ENTRY + 1 };

typedef struct weir_stored_counter {
  int64_t index;
  int64_t entry;
  int64_t value;
  uint64_t version;
  int64_t expiry_us;
} weir_stored_counter;

typedef struct weir_slots {
  weir_stored_counter *slots; /* slots[first] to slots[end - 1] */
  size_t first;
  size_t end;
  size_t room;
} weir_slots;

void weir_slots_clean_up(weir_slots places[WEIR_PLACES]);

/* Empties one place; memory for few entries stays. */
void weir_slots_clear(weir_slots *place);

/* One more entry, behind all others. False: not enough memory. */
bool weir_slots_append(weir_slots *place, const weir_stored_counter *slot);

/* Cuts off what has expired. */
void weir_slots_expire(weir_slots places[WEIR_PLACES], int64_t now_us);

/* How many entries there are. */
size_t weir_slots_count(const weir_slots places[WEIR_PLACES]);

/* Carries out one operation; `version` is one that no entry had before. False: not enough memory.
 */
bool weir_slots_execute(weir_slots places[WEIR_PLACES], int64_t now_us, uint64_t version,
                        weir_operation *operation);

#endif

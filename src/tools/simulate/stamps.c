/* Requests of the last period, by time: what an exact window keeps. */
#include "simulate/stamps.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_LEAST = 4, ROOM_KEPT = 64 };

void weir_stamps_clean_up(weir_stamps *stamps) {
  free(stamps->stamps);
  *stamps = (weir_stamps){0};
}

void weir_stamps_clear(weir_stamps *stamps) {
  stamps->first = stamps->end = 0;
  stamps->counted = stamps->admitted = 0;
  if (stamps->room > ROOM_KEPT) weir_stamps_clean_up(stamps);
}

void weir_stamps_slide(weir_stamps *stamps, int64_t now_us, int64_t period_us) {
  while (stamps->first < stamps->end) {
    const weir_stamp *oldest = &stamps->stamps[stamps->first];
    if (oldest->at_us > now_us - period_us) return;
    stamps->counted -= oldest->counted;
    stamps->admitted -= oldest->admitted;
    stamps->first++;
  }
}

/* Moves the stamps to the front, or to a larger array where more than half of this one is in use.
 */
static bool make_room(weir_stamps *stamps) {
  size_t count = stamps->end - stamps->first;
  if (stamps->end < stamps->room) return true;
  if (count * 2 > stamps->room || stamps->room == 0) {
    size_t room = stamps->room == 0 ? ROOM_LEAST : stamps->room * 2;
    weir_stamp *larger = realloc(stamps->stamps, room * sizeof *larger);
    if (larger == NULL) return false;
    stamps->stamps = larger;
    stamps->room = room;
  }
  if (count > 0)
    memmove(stamps->stamps, stamps->stamps + stamps->first, count * sizeof *stamps->stamps);
  stamps->first = 0;
  stamps->end = count;
  return true;
}

bool weir_stamps_add(weir_stamps *stamps, int64_t now_us, int64_t counted, int64_t admitted) {
  weir_stamp *last = stamps->first < stamps->end ? &stamps->stamps[stamps->end - 1] : NULL;
  stamps->counted += counted;
  stamps->admitted += admitted;
  if (last != NULL && last->at_us == now_us) {
    last->counted += counted;
    last->admitted += admitted;
    return true;
  }
  if (!make_room(stamps)) return false;
  stamps->stamps[stamps->end++] =
      (weir_stamp){.at_us = now_us, .counted = counted, .admitted = admitted};
  return true;
}

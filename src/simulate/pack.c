/* Writes subjects down in few bytes, and reads them again. */
#include "simulate/pack.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_LEAST = 256, MEMO_PART_BYTES = 32 * sizeof(int64_t) };

bool weir_subject_init(weir_subject *subject, const weir_driver *driver) {
  *subject = (weir_subject){.exact = calloc(driver->stack.count, sizeof *subject->exact)};
  if (subject->exact == NULL) return false;
  if (weir_driver_add_key(driver, &subject->driven)) return true;
  free(subject->exact);
  return false;
}

void weir_subject_clean_up(weir_subject *subject, const weir_driver *driver) {
  for (size_t i = 0; i < driver->stack.count; i++)
    weir_exact_clean_up(&subject->exact[i]);
  free(subject->exact);
  weir_driver_remove_key(driver, &subject->driven);
}

void weir_subject_clear(weir_subject *subject, const weir_driver *driver) {
  for (size_t i = 0; i < driver->stack.count; i++) {
    weir_stamps_clear(&subject->exact[i].ruled);
    weir_stamps_clear(&subject->exact[i].own);
  }
  for (size_t i = 0; i < driver->stack.count * WEIR_PLACES; i++)
    weir_slots_clear(&subject->driven.places[i]);
  memset(subject->driven.memo, 0, driver->memo_bytes);
  subject->difference = 0;
}

/* --- numbers ---------------------------------------------------------------------------------
 *
 * The first byte: whether it is a distance (one bit), how many bytes follow (four), and the lowest
 * three bits. Then the others, the lowest first. The sign is the lowest bit of all, so that small
 * negative numbers are short too. */

void weir_packer_clean_up(weir_packer *packer) {
  free(packer->bytes);
  *packer = (weir_packer){0};
}

static bool make_room(weir_packer *packer) {
  size_t room = packer->room == 0 ? ROOM_LEAST : packer->room * 2;
  unsigned char *larger = realloc(packer->bytes, room);
  packer->failed = packer->failed || larger == NULL;
  if (larger == NULL) return false;
  packer->bytes = larger;
  packer->room = room;
  return true;
}

static uint64_t lowest_first(uint64_t number) {
  return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(number) : number;
}

static uint64_t fold(uint64_t number) {
  return number << 1 ^ (number >> 63 != 0 ? UINT64_MAX : 0);
}

static uint64_t unfold(uint64_t folded) {
  return folded >> 1 ^ ((folded & 1) != 0 ? UINT64_MAX : 0);
}

/* Bytes up to the highest bit that is set. */
static unsigned bytes_of(uint64_t number) {
  return number == 0 ? 0 : (71 - (unsigned)__builtin_clzll(number)) / 8;
}

void weir_pack_number(weir_packer *packer, int64_t value, int64_t base) {
  uint64_t plain = fold((uint64_t)value), distance = fold((uint64_t)value - (uint64_t)base);
  bool near = distance < plain;
  uint64_t number = near ? distance : plain;
  unsigned count = bytes_of(number >> 3);
  if (packer->room - packer->length < WEIR_PACK_NUMBER_MOST && !make_room(packer)) return;
  unsigned char *at = packer->bytes + packer->length;
  *at++ = (unsigned char)((number & 7) << 5 | count << 1 | near);
  number >>= 3;
  number = lowest_first(number);
  memcpy(at, &number, sizeof number); /* of which `count` stay */
  packer->length += 1 + count;
}

int64_t weir_unpack_number(const unsigned char **at, int64_t base) {
  const unsigned char first = **at, *byte = *at + 1;
  unsigned count = first >> 1 & 15;
  uint64_t number;
  memcpy(&number, byte, sizeof number); /* of which `count` matter */
  number = lowest_first(number);
  if (count < 8) number &= (UINT64_C(1) << 8 * count) - 1;
  *at = byte + count;
  return (int64_t)(unfold(number << 3 | first >> 5) + ((first & 1) != 0 ? (uint64_t)base : 0));
}

/* --- what a store holds ---------------------------------------------------------------------- */

/* Entries of a log hold their time, and expire that much later; of other places each counts for
 * itself. */
static int64_t likely_expiry(const weir_slot *before, int64_t value, bool entries) {
  return before->expiry_us + (entries ? value - before->value : 0);
}

static void pack_slots(weir_packer *packer, const weir_slots *place, bool entries,
                       int64_t base_us) {
  weir_slot before = {.value = base_us, .expiry_us = base_us};
  weir_pack_number(packer, (int64_t)(place->end - place->first), 0);
  for (size_t i = place->first; i < place->end; i++) {
    const weir_slot *slot = &place->slots[i];
    weir_pack_number(packer, slot->index, before.index);
    weir_pack_number(packer, slot->entry, before.entry);
    weir_pack_number(packer, slot->value, before.value);
    weir_pack_number(packer, (int64_t)slot->version, (int64_t)before.version);
    weir_pack_number(packer, slot->expiry_us, likely_expiry(&before, slot->value, entries));
    before = *slot;
  }
}

static bool unpack_slots(const unsigned char **at, weir_slots *place, bool entries,
                         int64_t base_us) {
  weir_slot before = {.value = base_us, .expiry_us = base_us};
  for (int64_t left = weir_unpack_number(at, 0); left > 0; left--) {
    weir_slot slot = {.index = weir_unpack_number(at, before.index)};
    slot.entry = weir_unpack_number(at, before.entry);
    slot.value = weir_unpack_number(at, before.value);
    slot.version = (uint64_t)weir_unpack_number(at, (int64_t)before.version);
    slot.expiry_us = weir_unpack_number(at, likely_expiry(&before, slot.value, entries));
    if (!weir_slots_append(place, &slot)) return false;
    before = slot;
  }
  return true;
}

/* --- what exact windows hold ----------------------------------------------------------------- */

static void pack_stamps(weir_packer *packer, const weir_stamps *stamps, int64_t base_us) {
  weir_pack_number(packer, (int64_t)(stamps->end - stamps->first), 0);
  for (size_t i = stamps->first; i < stamps->end; i++) {
    const weir_stamp *stamp = &stamps->stamps[i];
    weir_pack_number(packer, stamp->at_us, base_us);
    weir_pack_number(packer, stamp->counted, 0);
    weir_pack_number(packer, stamp->admitted, stamp->counted);
    base_us = stamp->at_us;
  }
}

static bool unpack_stamps(const unsigned char **at, weir_stamps *stamps, int64_t base_us) {
  for (int64_t left = weir_unpack_number(at, 0); left > 0; left--) {
    base_us = weir_unpack_number(at, base_us);
    int64_t counted = weir_unpack_number(at, 0);
    if (!weir_stamps_add(stamps, base_us, counted, weir_unpack_number(at, counted))) return false;
  }
  return true;
}

static bool are_equal(const weir_stamps *a, const weir_stamps *b) {
  size_t count = a->end - a->first;
  if (count != b->end - b->first) return false;
  return count == 0 ||
         memcmp(a->stamps + a->first, b->stamps + b->first, count * sizeof *a->stamps) == 0;
}

static bool copy_stamps(weir_stamps *to, const weir_stamps *from) {
  for (size_t i = from->first; i < from->end; i++) {
    const weir_stamp *stamp = &from->stamps[i];
    if (!weir_stamps_add(to, stamp->at_us, stamp->counted, stamp->admitted)) return false;
  }
  return true;
}

/* Most keys are never denied, so that both histories are one. */
static void pack_exact(weir_packer *packer, const weir_exact *exact, int64_t base_us) {
  bool same = are_equal(&exact->ruled, &exact->own);
  pack_stamps(packer, &exact->ruled, base_us);
  weir_pack_number(packer, same, 0);
  if (!same) pack_stamps(packer, &exact->own, base_us);
}

static bool unpack_exact(const unsigned char **at, weir_exact *exact, int64_t base_us) {
  if (!unpack_stamps(at, &exact->ruled, base_us)) return false;
  if (weir_unpack_number(at, 0) != 0) return copy_stamps(&exact->own, &exact->ruled);
  return unpack_stamps(at, &exact->own, base_us);
}

/* --- all of it ------------------------------------------------------------------------------- */

/* A memo is made of words, many of them zero: a mask says which are not. */
static void pack_memo(weir_packer *packer, const weir_memo *memo, size_t bytes, int64_t base_us) {
  for (size_t begin = 0; begin < bytes; begin += MEMO_PART_BYTES) {
    int64_t words[MEMO_PART_BYTES / sizeof(int64_t)] = {0}, mask = 0;
    size_t part = bytes - begin < MEMO_PART_BYTES ? bytes - begin : MEMO_PART_BYTES;
    memcpy(words, (const char *)memo + begin, part);
    for (size_t i = 0; i < part / sizeof *words; i++)
      mask |= (int64_t)(words[i] != 0) << i;
    weir_pack_number(packer, mask, 0);
    for (size_t i = 0; mask >> i != 0; i++)
      if ((mask >> i & 1) != 0) weir_pack_number(packer, words[i], base_us);
  }
}

static void unpack_memo(const unsigned char **at, weir_memo *memo, size_t bytes, int64_t base_us) {
  for (size_t begin = 0; begin < bytes; begin += MEMO_PART_BYTES) {
    int64_t mask = weir_unpack_number(at, 0);
    for (size_t i = 0; mask >> i != 0; i++) {
      if ((mask >> i & 1) == 0) continue;
      int64_t word = weir_unpack_number(at, base_us);
      memcpy((char *)memo + begin + i * sizeof word, &word, sizeof word);
    }
  }
}

void weir_subject_pack(const weir_subject *subject, const weir_driver *driver, int64_t base_us,
                       weir_packer *packer) {
  pack_memo(packer, subject->driven.memo, driver->memo_bytes, base_us);
  for (size_t i = 0; i < driver->stack.count; i++)
    pack_exact(packer, &subject->exact[i], base_us);
  for (size_t i = 0; i < driver->stack.count * WEIR_PLACES; i++)
    pack_slots(packer, &subject->driven.places[i], i % WEIR_PLACES == WEIR_PLACE_ENTRY, base_us);
}

bool weir_subject_unpack(weir_subject *subject, const weir_driver *driver, int64_t base_us,
                         const unsigned char **at) {
  unpack_memo(at, subject->driven.memo, driver->memo_bytes, base_us);
  for (size_t i = 0; i < driver->stack.count; i++)
    if (!unpack_exact(at, &subject->exact[i], base_us)) return false;
  for (size_t i = 0; i < driver->stack.count * WEIR_PLACES; i++)
    if (!unpack_slots(at, &subject->driven.places[i], i % WEIR_PLACES == WEIR_PLACE_ENTRY, base_us))
      return false;
  return true;
}

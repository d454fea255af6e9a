#include "protocol/stamp.h"

#include <string.h>

#include "hash.h"
#include "number.h"
#include "protocol/bytes.h"

enum { DIGITS_MOST = 18, MARK_DIGITS = 8, WORDS = WEIR_SOURCE_LATE + 2 };

const char *weir_source_name(weir_source source) {
  static const char *const names[] = {[WEIR_SOURCE_STORE] = "store",
                                      [WEIR_SOURCE_LOCAL] = "local",
                                      [WEIR_SOURCE_FALLBACK] = "fallback",
                                      [WEIR_SOURCE_LATE] = "late",
                                      [WEIR_SOURCE_SETTLED] = "settled"};
  return names[source];
}

/* Who decided; the last one: nothing was charged. */
static const char *word(int index) {
  return index <= WEIR_SOURCE_LATE ? weir_source_name((weir_source)index) : "none";
}

/* Servers of other machines and versions must find the same. */
uint32_t weir_stamp_mark(const char *counted, size_t length, const char *tier) {
  static const unsigned char known[WEIR_HASH_SECRET_BYTES] = "weir.stamp.mark";
  uint64_t hash = weir_hash_64(known, counted, length);
  if (tier[0] != '\0') hash += weir_hash_64(known, tier, strlen(tier));
  return (uint32_t)hash;
}

size_t weir_stamp_write(const weir_take_stamp *stamp, char text[WEIR_STAMP_BYTES]) {
  static const char hex[] = "0123456789abcdef";
  const char *who = word(stamp->is_idle ? WORDS - 1 : (int)stamp->source);
  size_t who_length = strlen(who);
  char *end = weir_digits(text, stamp->at_us);
  *end++ = '.';
  memcpy(end, who, who_length);
  end += who_length;
  *end++ = '.';
  for (int shift = 4 * (MARK_DIGITS - 1); shift >= 0; shift -= 4)
    *end++ = hex[stamp->mark >> shift & 0xf];
  *end = '\0';
  return (size_t)(end - text);
}

bool weir_stamp_read(const char *text, size_t length, weir_take_stamp *stamp) {
  *stamp = (weir_take_stamp){0};
  const char *dot = memchr(text, '.', length);
  size_t digits = dot != NULL ? (size_t)(dot - text) : 0;
  if (digits < 1 || digits > DIGITS_MOST || (digits > 1 && text[0] == '0') ||
      !weir_number_read(text, digits, INT64_MAX, &stamp->at_us))
    return false;
  const char *rest = dot + 1;
  const char *end = text + length;
  int index = 0;
  for (; index < WORDS; index++) {
    size_t bytes = strlen(word(index));
    if ((size_t)(end - rest) == bytes + 1 + MARK_DIGITS && rest[bytes] == '.' &&
        memcmp(rest, word(index), bytes) == 0)
      break;
  }
  if (index == WORDS) return false;
  stamp->is_idle = index == WORDS - 1;
  if (!stamp->is_idle) stamp->source = (weir_source)index;
  for (const char *digit = end - MARK_DIGITS; digit < end; digit++) {
    bool is_letter = *digit >= 'a' && *digit <= 'f';
    if (!is_letter && (*digit < '0' || *digit > '9')) return false;
    stamp->mark = stamp->mark << 4 | (uint32_t)(is_letter ? *digit - 'a' + 10 : *digit - '0');
  }
  return true;
}

/* Whole numbers as decimal digits, without allocation, locale or printf. Reading is strict: the
 * whole text or nothing. */
#ifndef WEIR_COMMON_NUMBER_H
#define WEIR_COMMON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hash.h"

enum { WEIR_NUMBER_DIGITS_MOST = 20 }; /* of 2^64 - 1 */

/* One digit or more and nothing else, with a value from 0 to `most` (0 or more); zeros may lead.
 * False for all else, and `*number` stays as it is. */
bool weir_number_read(const char *text, size_t length, int64_t most, int64_t *number);

/* The same of eight digits, all at once, of which the first is the lowest byte: each multiplication
 * joins neighbours, the lower of which is worth more. */
static inline bool weir_number_of_word(uint64_t word, int64_t *number) {
  const uint64_t each = UINT64_MAX / 255;
  if ((((word - '0' * each) | (word + (0x7f - '9') * each) | word) & 0x80 * each) != 0)
    return false;
  word = (word & 0x0f * each) * (10 * 256 + 1) >> 8;
  word = (word & UINT64_C(0x00ff00ff00ff00ff)) * (100 * 65536 + 1) >> 16;
  word = (word & UINT64_C(0x0000ffff0000ffff)) * (UINT64_C(10000) * 65536 * 65536 + 1) >> 32;
  *number = (int64_t)word;
  return true;
}

static inline bool weir_number_read_eight(const char *text, int64_t *number) {
  return weir_number_of_word(weir_hash_word(text), number);
}

/* The digits from `at` on, 18 at the most between it and `end`: for numbers that are long as a rule.
 * Returns where they end. */
static inline const char *weir_number_scan_long(const char *at, const char *end, int64_t *number) {
  int64_t sum = 0, eight;
  for (; end - at >= 8 && weir_number_read_eight(at, &eight); at += 8)
    sum = sum * 100000000 + eight;
  for (unsigned digit; at < end && (digit = (unsigned char)*at - (unsigned)'0') <= 9; at++)
    sum = sum * 10 + digit;
  *number = sum;
  return at;
}

/* Writes the digits, without a NUL behind them. Returns where they end. */
char *weir_number_write(char *out, uint64_t number);

#endif

#include "number.h"

#include <string.h>

#define EACH(digit) ((digit) * (UINT64_MAX / 255))

/* Four to sixteen digits: those before the last eight behind zeros, which make them eight as well. */
static bool read_at_once(const char *text, size_t length, int64_t *number) {
  int64_t high = 0;
  if (length < 8) {
    char eight[8] = {'0', '0', '0', '0', '0', '0', '0', '0'};
    memcpy(eight + 8 - length, text, 4);
    memcpy(eight + 4, text + length - 4, 4);
    return weir_number_of_word(weir_hash_word(eight), number);
  }
  if (length > 8) {
    size_t zeros = 8 * (16 - length);
    uint64_t word = length < 16 ? weir_hash_word(text) << zeros | EACH('0') >> (64 - zeros)
                                : weir_hash_word(text);
    if (!weir_number_of_word(word, &high)) return false;
  }
  if (!weir_number_of_word(weir_hash_word(text + length - 8), number)) return false;
  *number += high * 100000000;
  return true;
}

/* 18 digits stay below 10^18, so only those behind them can be too many. */
bool weir_number_read(const char *text, size_t length, int64_t most, int64_t *number) {
  int64_t whole;
  if (length >= 4 && length <= 16) {
    if (!read_at_once(text, length, &whole) || whole > most) return false;
    *number = whole;
    return true;
  }
  const char *at = text, *end = text + length, *safe = length < 18 ? end : text + 18;
  int64_t sum = 0;
  for (; at < safe; at++) {
    unsigned digit = (unsigned char)*at - (unsigned)'0';
    if (digit > 9) return false;
    sum = sum * 10 + digit;
  }
  for (; at < end; at++) {
    unsigned digit = (unsigned char)*at - (unsigned)'0';
    if (digit > 9 || sum > (INT64_MAX - (int64_t)digit) / 10) return false;
    sum = sum * 10 + digit;
  }
  if (length == 0 || sum > most) return false;
  *number = sum;
  return true;
}

/* The digits of a number below 10^8 as values, the first in the lowest byte. Halves, pairs and digits
 * come apart all at once: each division is a multiplication that is exact for so few digits, and what
 * it takes from its lane goes to the next. */
static uint64_t split(uint32_t number) {
  uint64_t high = number / 10000;
  uint64_t word = high | (number - high * 10000) << 32;
  uint64_t part = word * 10486 >> 20 & UINT64_C(0x0000007f0000007f);
  word = (word << 16) - part * (100 * 65536 - 1);
  part = word * 103 >> 10 & UINT64_C(0x000f000f000f000f);
  return (word << 8) - part * (10 * 256 - 1);
}

/* The word's bytes in the order in which they stand in memory. */
static uint64_t in_order(uint64_t word) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

/* Nothing is written behind the digits: three to eight go in two steps that meet or overlap. */
char *weir_number_write(char *out, uint64_t number) {
  enum { EIGHT_DIGITS = 100000000 };
  uint64_t behind[2], bytes;
  int count = 0;
  if (number < 10) {
    *out = (char)('0' + number);
    return out + 1;
  }
  if (number < 100) {
    unsigned tens = (unsigned)number * 103 >> 10;
    out[0] = (char)('0' + tens);
    out[1] = (char)('0' + number - 10 * tens);
    return out + 2;
  }
  for (; number >= EIGHT_DIGITS; number /= EIGHT_DIGITS)
    behind[count++] = split((uint32_t)(number % EIGHT_DIGITS)) | EACH('0');
  uint64_t word = split((uint32_t)number);
  unsigned zeros = (unsigned)__builtin_ctzll(word) & ~7U;
  unsigned length = 8 - zeros / 8; /* 3 or more, or others follow */
  word = (word | EACH('0')) >> zeros;
  bytes = in_order(word);
  if (count > 0) { /* what is too much is written over */
    memcpy(out, &bytes, 8);
  } else if (length >= 4) {
    memcpy(out, &bytes, 4);
    bytes = in_order(word >> (32 - zeros));
    memcpy(out + length - 4, &bytes, 4);
  } else {
    memcpy(out, &bytes, 2);
    bytes = in_order(word >> (48 - zeros));
    memcpy(out + length - 2, &bytes, 2);
  }
  for (out += length; count > 0; out += sizeof bytes) {
    bytes = in_order(behind[--count]);
    memcpy(out, &bytes, sizeof bytes);
  }
  return out;
}

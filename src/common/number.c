#include "number.h"

#include <string.h>

/* Four to eight digits, behind zeros that make them eight. */
static bool read_padded(const char *text, size_t length, int64_t *number) {
  char eight[8] = {'0', '0', '0', '0', '0', '0', '0', '0'};
  memcpy(eight + 8 - length, text, 4);
  memcpy(eight + 4, text + length - 4, 4);
  return weir_number_read_eight(eight, number);
}

/* 18 digits stay below 10^18, so only those behind them can be too many. */
bool weir_number_read(const char *text, size_t length, int64_t most, int64_t *number) {
  int64_t padded;
  if (length >= 4 && length <= 8) {
    if (!read_padded(text, length, &padded) || padded > most) return false;
    *number = padded;
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

/* As many as its bits make, at 1233/4096 a bit, and one more from the next power of ten on. */
int weir_number_length(uint64_t number) {
  static const uint64_t powers[WEIR_NUMBER_DIGITS_MOST] = {0,
                                                           UINT64_C(10),
                                                           UINT64_C(100),
                                                           UINT64_C(1000),
                                                           UINT64_C(10000),
                                                           UINT64_C(100000),
                                                           UINT64_C(1000000),
                                                           UINT64_C(10000000),
                                                           UINT64_C(100000000),
                                                           UINT64_C(1000000000),
                                                           UINT64_C(10000000000),
                                                           UINT64_C(100000000000),
                                                           UINT64_C(1000000000000),
                                                           UINT64_C(10000000000000),
                                                           UINT64_C(100000000000000),
                                                           UINT64_C(1000000000000000),
                                                           UINT64_C(10000000000000000),
                                                           UINT64_C(100000000000000000),
                                                           UINT64_C(1000000000000000000),
                                                           UINT64_C(10000000000000000000)};
  int bits = 64 - __builtin_clzll(number | 1);
  int least = bits * 1233 >> 12;
  return least + (number >= powers[least]);
}

/* Two digits at a time, from the last on. In 32 bits, which most numbers have, a division is half as
 * long. */
char *weir_number_write(char *out, uint64_t number) {
  static const char pairs[] =
      "00010203040506070809101112131415161718192021222324"
      "25262728293031323334353637383940414243444546474849"
      "50515253545556575859606162636465666768697071727374"
      "75767778798081828384858687888990919293949596979899";
  if (number < 10) {
    *out = (char)('0' + number);
    return out + 1;
  }
  char *end = out + weir_number_length(number);
  char *at = end;
  for (; number > UINT32_MAX; number /= 100)
    memcpy(at -= 2, pairs + 2 * (number % 100), 2);
  uint32_t rest = (uint32_t)number;
  for (; rest >= 100; rest /= 100)
    memcpy(at -= 2, pairs + 2 * (rest % 100), 2);
  if (rest >= 10)
    memcpy(out, pairs + 2 * rest, 2);
  else
    *out = (char)('0' + rest);
  return end;
}

#include "number.h"

bool weir_number_read(const char *text, size_t length, int64_t most, int64_t *number) {
  int64_t sum = 0;
  if (length == 0) return false;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    int digit = text[i] - '0';
    if (sum > (most - digit) / 10 || digit > most) return false; /* sum * 10 + digit > most */
    sum = sum * 10 + digit;
  }
  *number = sum;
  return true;
}

/* Digits come last first, so they are counted before they are written. */
char *weir_number_write(char *out, uint64_t number) {
  uint64_t above = 10; /* up to 10^19, below 2^64 */
  int count = 1;
  for (; count < WEIR_NUMBER_DIGITS_MOST && number >= above; above *= 10)
    count++;
  for (int i = count - 1; i >= 0; i--, number /= 10)
    out[i] = (char)('0' + number % 10);
  return out + count;
}

/* Whole numbers in text, strictly: digits and nothing else. */
#include "number.h"

bool weir_cli_parse_integer(const char *text, size_t length, int64_t most, int64_t *value) {
  int64_t sum = 0;
  for (size_t i = 0; i < length; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    int digit = text[i] - '0';
    if (sum > most / 10 || sum * 10 > most - digit) return false;
    sum = sum * 10 + digit;
  }
  *value = sum;
  return length > 0;
}

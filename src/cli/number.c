#include "number.h"

#include <string.h>

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

bool weir_cli_parse_duration(const char *text, int64_t *us) {
  static const struct {
    const char *name;
    int64_t us;
  } units[] = {{"ms", 1000},
               {"s", INT64_C(1000000)},
               {"m", INT64_C(60000000)},
               {"h", INT64_C(3600000000)},
               {"d", INT64_C(86400000000)}};
  size_t digits = strspn(text, "0123456789");
  for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(text + digits, units[i].name) != 0) continue;
    int64_t count = 1;
    if (digits > 0 && !weir_cli_parse_integer(text, digits, INT64_MAX / units[i].us, &count))
      return false;
    *us = count * units[i].us;
    return true;
  }
  return false;
}

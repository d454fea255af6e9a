/* Durations in text: "250ms", "30d". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/duration.h>

/* From the longest down, so that the first unit that divides a duration gives its shortest text. */
static const struct unit {
  const char *name;
  int64_t us;
} units[] = {
    {"d", INT64_C(24) * 3600 * 1000000},
    {"h", INT64_C(3600) * 1000000},
    {"m", INT64_C(60) * 1000000},
    {"s", INT64_C(1000000)},
    {"ms", INT64_C(1000)},
};
enum { UNIT_COUNT = sizeof units / sizeof units[0] };

bool weir_duration_parse(const char *text, size_t length, int64_t *us) {
  size_t digits = 0;
  int64_t number = 0;
  for (; digits < length && text[digits] >= '0' && text[digits] <= '9'; digits++) {
    int digit = text[digits] - '0';
    if (number > (INT64_MAX - digit) / 10) return false;
    number = number * 10 + digit;
  }
  const struct unit *unit = NULL;
  for (size_t i = 0; i < UNIT_COUNT && unit == NULL; i++)
    if (strlen(units[i].name) == length - digits &&
        memcmp(units[i].name, text + digits, length - digits) == 0)
      unit = &units[i];
  if (digits == 0) number = 1; /* "s" is "1s" */
  if (unit == NULL || number == 0 || number > INT64_MAX / unit->us) return false;
  *us = number * unit->us;
  return true;
}

void weir_duration_format(int64_t us, char *text, size_t size) {
  const struct unit *unit = &units[UNIT_COUNT - 2]; /* nothing at all is "0s" */
  if (us != 0) {
    unit = units;
    while (unit < units + UNIT_COUNT && us % unit->us != 0)
      unit++;
  }
  if (unit < units + UNIT_COUNT)
    snprintf(text, size, "%" PRId64 "%s", us / unit->us, unit->name);
  else
    snprintf(text, size, "%" PRId64 "us", us);
}

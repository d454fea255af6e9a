/* What all protocols do alike. */
#include "protocol/ask.h"

#include <string.h>

#include "number.h"

enum { DIGITS_MOST = 18 };

const char *weir_source_name(weir_source source) {
  static const char *const names[] = {[WEIR_SOURCE_STORE] = "store",
                                      [WEIR_SOURCE_LOCAL] = "local",
                                      [WEIR_SOURCE_FALLBACK] = "fallback",
                                      [WEIR_SOURCE_LATE] = "late"};
  return names[source];
}

int64_t weir_seconds_up(int64_t us) {
  if (us < 0) return -1;
  return us / 1000000 + (us % 1000000 > 0);
}

bool weir_ask_is_id(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] < ' ' || bytes[i] > '~' || bytes[i] == '"' || bytes[i] == '\\') return false;
  return length > 0 && length <= WEIR_ASK_ID_MOST;
}

bool weir_ask_number(const char *text, size_t length, int64_t *number) {
  bool negative = length > 0 && text[0] == '-';
  size_t digits = length - negative;
  if (digits > DIGITS_MOST || !weir_number_read(text + negative, digits, INT64_MAX, number))
    return false;
  if (negative) *number = -*number;
  return true;
}

bool weir_secret_equals(const char *known, size_t known_length, const char *given,
                        size_t given_length) {
  volatile unsigned char difference = known_length != given_length;
  for (size_t i = 0; i < given_length; i++) {
    char expected = known_length > 0 ? known[i % known_length] : 1;
    difference = (unsigned char)(difference | (expected ^ given[i]));
  }
  return difference == 0;
}

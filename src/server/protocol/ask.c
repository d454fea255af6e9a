/* What all protocols do alike. */
#include "protocol/ask.h"

#include <inttypes.h>
#include <stdio.h>
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

bool weir_ask_read_amount(const char *text, size_t length, weir_ask_amount *amount) {
  const char *end = text + length;
  amount->count = 0;
  for (const char *comma; amount->count < WEIR_ASK_COSTS_MOST; text = comma + 1) {
    comma = memchr(text, ',', (size_t)(end - text));
    size_t digits = (size_t)((comma != NULL ? comma : end) - text);
    if (!weir_ask_number(text, digits, &amount->each[amount->count++])) return false;
    if (comma == NULL) return true;
  }
  return false;
}

bool weir_ask_check_amount(const weir_ask_amount *amount, const char *name, int64_t least,
                           weir_message *why) {
  bool is_list = amount->count > 1;
  bool is_enough = false;
  bool is_good = true;
  for (size_t i = 0; i < amount->count; i++) {
    is_enough |= amount->each[i] >= least;
    is_good &= amount->each[i] >= 0 && amount->each[i] <= WEIR_ASK_COST_MOST;
  }
  if (is_good && is_enough) return true;
  snprintf(why->text, sizeof why->text, "%s: %" PRId64 " to 2147483648 is accepted%s", name,
           is_list ? 0 : least,
           !is_list    ? ""
           : least > 0 ? " for each rule, and for one of them more than 0"
                       : " for each rule");
  return false;
}

void weir_ask_set_cost(weir_ask *ask, const weir_ask_amount *amount) {
  ask->cost = amount->each[0];
  ask->costs = amount->count > 1 ? amount : NULL;
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

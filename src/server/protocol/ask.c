/* What all protocols do alike. */
#include "protocol/ask.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/duration.h>

#include "number.h"

enum { DIGITS_MOST = 18 };

int64_t weir_seconds_up(int64_t us) {
  return us < 0 ? -1 : (int64_t)(((uint64_t)us + 999999) / 1000000);
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

bool weir_ask_set_settlement(weir_ask *ask, const weir_ask_amount *taken,
                             const weir_ask_amount *real, weir_message *why) {
  if (taken->count != real->count) {
    *why = (weir_message){"estimate and real: as many numbers in each are accepted"};
    return false;
  }
  weir_ask_set_cost(ask, real);
  ask->taken = taken->each[0];
  ask->takens = taken->count > 1 ? taken : NULL;
  return true;
}

bool weir_ask_read_time(weir_ask *ask, const char *text, size_t length, weir_message *why) {
  bool is_time = weir_duration_parse(text, length, &ask->for_us);
  if (!is_time) *why = (weir_message){"for: a duration such as 30s or 5m is accepted"};
  return is_time;
}

bool weir_ask_read_place(weir_ask *ask, const char *text, size_t length, weir_message *why) {
  bool is_name = weir_place_name_read(text, length, &ask->place);
  if (!is_name)
    *why = (weir_message){"place: the one that was answered when it was acquired is accepted"};
  return is_name;
}

bool weir_ask_read_stamp(weir_ask *ask, const char *text, size_t length, weir_message *why) {
  ask->has_stamp = weir_stamp_read(text, length, &ask->stamp);
  if (!ask->has_stamp)
    *why = (weir_message){"stamp: the one that the answer had when it was taken is accepted"};
  return ask->has_stamp;
}

size_t weir_reply_write_stamps(const weir_reply *reply, char text[WEIR_REPLY_STAMPS_BYTES]) {
  size_t length = reply->has_stamp ? weir_stamp_write(&reply->stamp, text) : 0;
  for (size_t i = 0; i < reply->member_count && reply->members[i].has_stamp; i++) {
    if (i > 0) text[length++] = ',';
    length += weir_stamp_write(&reply->members[i].stamp, text + length);
  }
  return length;
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

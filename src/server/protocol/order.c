/* Shared by all protocols. */
#include "protocol/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <weir/duration.h>

#include "hash.h"
#include "number.h"
#include "protocol/bytes.h"

enum { DIGITS_MOST = 18, HEX_DIGITS = 8 };
#define LIMIT_MOST (INT64_C(1) << 53)

int64_t weir_seconds_up(int64_t us) {
  return us < 0 ? -1 : (int64_t)(((uint64_t)us + 999999) / 1000000);
}

bool weir_order_is_id(const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i] < ' ' || bytes[i] > '~' || bytes[i] == '"' || bytes[i] == '\\') return false;
  return length > 0 && length <= WEIR_ORDER_ID_MOST;
}

bool weir_order_number(const char *text, size_t length, int64_t *number) {
  bool negative = length > 0 && text[0] == '-';
  size_t digits = length - negative;
  if (digits > DIGITS_MOST || !weir_number_read(text + negative, digits, INT64_MAX, number))
    return false;
  if (negative) *number = -*number;
  return true;
}

bool weir_order_read_amount(const char *text, size_t length, weir_order_amount *amount) {
  const char *end = text + length;
  amount->count = 0;
  for (const char *comma; amount->count < WEIR_ORDER_COSTS_MOST; text = comma + 1) {
    comma = memchr(text, ',', (size_t)(end - text));
    size_t digits = (size_t)((comma != NULL ? comma : end) - text);
    if (!weir_order_number(text, digits, &amount->each[amount->count++])) return false;
    if (comma == NULL) return true;
  }
  return false;
}

bool weir_order_check_amount(const weir_order_amount *amount, const char *name, int64_t least,
                             weir_message *why) {
  bool is_list = amount->count > 1;
  bool is_enough = false;
  bool is_good = true;
  for (size_t i = 0; i < amount->count; i++) {
    is_enough |= amount->each[i] >= least;
    is_good &= amount->each[i] >= 0 && amount->each[i] <= WEIR_ORDER_COST_MOST;
  }
  if (is_good && is_enough) return true;
  snprintf(why->text, sizeof why->text, "%s: %" PRId64 " to 2147483648 is accepted%s", name,
           is_list ? 0 : least,
           !is_list    ? ""
           : least > 0 ? " for each rule, and for one of them more than 0"
                       : " for each rule");
  return false;
}

void weir_order_set_cost(weir_order *order, const weir_order_amount *amount) {
  order->cost = amount->each[0];
  order->costs = amount->count > 1 ? amount : NULL;
}

bool weir_order_set_settlement(weir_order *order, const weir_order_amount *taken,
                               const weir_order_amount *real, weir_message *why) {
  if (taken->count != real->count) {
    *why = (weir_message){"estimate and real: as many numbers in each are accepted"};
    return false;
  }
  weir_order_set_cost(order, real);
  order->taken = taken->each[0];
  order->takens = taken->count > 1 ? taken : NULL;
  return true;
}

bool weir_order_read_class(weir_order_says *says, const char *text, size_t length,
                           weir_message *why) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  bool is_name = length > 0 && length < sizeof says->class_name;
  for (size_t i = 0; is_name && i < length; i++)
    is_name = memchr(accepted, text[i], sizeof accepted - 1) != NULL;
  if (is_name) {
    memcpy(says->class_name, text, length);
    says->class_name[length] = '\0';
    says->class_length = length;
  } else {
    *why = (weir_message){"class: a name of 1 to 32 of A-Z a-z 0-9 _ . - is accepted"};
  }
  return is_name;
}
_Static_assert(WEIR_CLASS_NAME_BYTES == 33, "as weir_order_read_class() says");

bool weir_order_read_limit(weir_order_says *says, const weir_order_amount *amount,
                           weir_message *why) {
  bool is_one = amount->count == 1 && amount->each[0] >= 1 && amount->each[0] <= LIMIT_MOST;
  says->limit = amount->each[0];
  if (!is_one)
    *why = (weir_message){"limit: a whole number from 1 to 9007199254740992 is accepted"};
  return is_one;
}

bool weir_order_read_tenant(weir_order_says *says, const char *text, size_t length,
                            weir_message *why) {
  bool fits = length > 0 && length <= sizeof says->tenant;
  if (fits) {
    memcpy(says->tenant, text, length);
    says->tenant_length = length;
  } else {
    *why = (weir_message){"tenant: 1 to 128 bytes are accepted"};
  }
  return fits;
}
_Static_assert(WEIR_ORDER_TENANT_MOST == 128, "as weir_order_read_tenant() says");

unsigned weir_order_claims(const weir_order_says *says) {
  if (says == NULL) return 0;
  return (says->class_length > 0 ? WEIR_CONFIG_CLASS : 0U) |
         (says->limit != 0 ? WEIR_CONFIG_LIMIT : 0U) |
         (says->tenant_length > 0 ? WEIR_CONFIG_TENANT : 0U);
}

bool weir_order_may_say(unsigned claims, const weir_config_listener *listener, weir_message *why) {
  unsigned foul = claims & ~listener->says;
  size_t which = 0;
  if (foul == 0) return true;
  while (!(foul >> which & 1))
    which++;
  const char *name = weir_config_claims[which];
  snprintf(why->text, sizeof why->text,
           "%s: no request may say it here: says: [%s] in %s of the configuration allows it", name,
           name, weir_config_listen_path(listener->protocol));
  return false;
}

bool weir_order_read_time(weir_order *order, const char *text, size_t length, weir_message *why) {
  bool is_time = weir_duration_parse(text, length, &order->for_us);
  if (!is_time) *why = (weir_message){"for: a duration such as 30s or 5m is accepted"};
  return is_time;
}

bool weir_order_read_place(weir_order *order, const char *text, size_t length, weir_message *why) {
  bool is_name = weir_place_name_read(text, length, &order->place);
  if (!is_name)
    *why = (weir_message){"place: the one that was answered when it was acquired is accepted"};
  return is_name;
}

bool weir_order_read_stamp(weir_order *order, const char *text, size_t length, weir_message *why) {
  order->has_stamp = weir_stamp_read(text, length, &order->stamp);
  if (!order->has_stamp)
    *why = (weir_message){"stamp: the one that the answer had when it was taken is accepted"};
  return order->has_stamp;
}

size_t weir_reply_write_stamps(const weir_reply *reply, char text[WEIR_REPLY_STAMPS_BYTES]) {
  bool is_group = reply->kind == WEIR_REPLY_GROUP;
  const weir_reply *each = is_group ? reply->is.group.members : reply;
  size_t count = is_group ? reply->is.group.member_count : 1;
  size_t length = 0;
  for (size_t i = 0; i < count && each[i].kind == WEIR_REPLY_TAKEN; i++) {
    if (i > 0) text[length++] = ',';
    length += weir_stamp_write(&each[i].is.stamp, text + length);
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

/* --- names of places: hexadecimal digits in front and behind, each with a dash, and decimal ones between -
 */

static char *write_hex(char *at, uint32_t number) {
  static const char hex[] = "0123456789abcdef";
  for (int shift = 4 * (HEX_DIGITS - 1); shift >= 0; shift -= 4)
    *at++ = hex[number >> shift & 0xf];
  return at;
}

static bool read_hex(const char *text, uint32_t *number) {
  *number = 0;
  for (size_t i = 0; i < HEX_DIGITS; i++) {
    bool is_letter = text[i] >= 'a' && text[i] <= 'f';
    if (!is_letter && (text[i] < '0' || text[i] > '9')) return false;
    *number = *number << 4 | (uint32_t)(is_letter ? text[i] - 'a' + 10 : text[i] - '0');
  }
  return true;
}

size_t weir_place_name_write(const weir_place_name *name, char text[WEIR_PLACE_NAME_BYTES]) {
  char *end = text;
  *end++ = '-';
  if (!name->is_none) {
    end = write_hex(text, name->server);
    *end++ = '-';
    end = weir_digits(end, (int64_t)name->number);
    *end++ = '-';
    end = write_hex(end, name->secret);
  }
  *end = '\0';
  return (size_t)(end - text);
}

bool weir_place_name_read(const char *text, size_t length, weir_place_name *name) {
  *name = (weir_place_name){.is_none = length == 1 && text[0] == '-'};
  if (name->is_none) return true;
  if (length < 2 * (HEX_DIGITS + 1) + 1 || length > 2 * (HEX_DIGITS + 1) + DIGITS_MOST ||
      text[HEX_DIGITS] != '-' || text[length - HEX_DIGITS - 1] != '-')
    return false;
  const char *digits = text + HEX_DIGITS + 1;
  size_t count = length - 2 * (HEX_DIGITS + 1);
  int64_t number;
  if ((count > 1 && digits[0] == '0') || !weir_number_read(digits, count, INT64_MAX, &number) ||
      !read_hex(text, &name->server) || !read_hex(text + length - HEX_DIGITS, &name->secret))
    return false;
  name->number = (uint64_t)number;
  return true;
}

/* --- stamps -------------------------------------------------------------------------------------
 */

enum { WORDS = WEIR_SOURCE_UNLIMITED + 2 };

const char *weir_source_name(weir_source source) {
  static const char *const names[] = {
      [WEIR_SOURCE_STORE] = "store",       [WEIR_SOURCE_LOCAL] = "local",
      [WEIR_SOURCE_FALLBACK] = "fallback", [WEIR_SOURCE_LATE] = "late",
      [WEIR_SOURCE_SETTLED] = "settled",   [WEIR_SOURCE_UNLIMITED] = "unlimited"};
  return names[source];
}

/* The name of the one who decided; the last one: nothing was charged. */
static const char *word(int index) {
  return index < WORDS - 1 ? weir_source_name((weir_source)index) : "none";
}

/* Servers of other machines and versions must find the same. */
uint32_t weir_stamp_mark(const char *counted, size_t length, const char *tier, const char *tenant,
                         size_t tenant_length) {
  static const unsigned char known[WEIR_HASH_SECRET_BYTES] = "weir.stamp.mark";
  uint64_t hash = weir_hash_64(known, counted, length);
  if (tier[0] != '\0') hash += weir_hash_64(known, tier, strlen(tier));
  if (tenant_length > 0) hash = 31 * hash + weir_hash_64(known, tenant, tenant_length);
  return (uint32_t)hash;
}

size_t weir_stamp_write(const weir_take_stamp *stamp, char text[WEIR_STAMP_BYTES]) {
  const char *who = word(stamp->is_idle ? WORDS - 1 : (int)stamp->source);
  size_t who_length = strlen(who);
  char *end = weir_digits(text, stamp->at_us);
  *end++ = '.';
  memcpy(end, who, who_length);
  end += who_length;
  *end++ = '.';
  end = write_hex(end, stamp->mark);
  *end = '\0';
  return (size_t)(end - text);
}

bool weir_stamp_read(const char *text, size_t length, weir_take_stamp *stamp) {
  *stamp = (weir_take_stamp){0};
  const char *dot = memchr(text, '.', length);
  size_t digits = dot != NULL ? (size_t)(dot - text) : 0;
  if (digits < 1 || digits > DIGITS_MOST || (digits > 1 && text[0] == '0') ||
      !weir_number_read(text, digits, INT64_MAX, &stamp->at_us))
    return false;
  const char *rest = dot + 1;
  const char *end = text + length;
  int index = 0;
  for (; index < WORDS; index++) {
    size_t bytes = strlen(word(index));
    if (index != WEIR_SOURCE_SETTLED && (size_t)(end - rest) == bytes + 1 + HEX_DIGITS &&
        rest[bytes] == '.' && memcmp(rest, word(index), bytes) == 0)
      break;
  }
  if (index == WORDS) return false;
  stamp->is_idle = index == WORDS - 1;
  if (!stamp->is_idle) stamp->source = (weir_source)index;
  return read_hex(end - HEX_DIGITS, &stamp->mark);
}

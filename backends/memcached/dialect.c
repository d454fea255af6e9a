/* Both dialects share this: numbers, lines, versions, and what errors and values say. Without
 * allocation, locale or snprintf. */
#include <sodium.h>
#include <stdlib.h>

#include "memcached/codec.h"

/* --- numbers and lines ---------------------------------------------------------------------------
 */

size_t weir_number_scan(const char *text, size_t length, uint64_t *number) {
  size_t safe = length < 19 ? length : 19; /* so many digits are below 2^64 */
  uint64_t sum = 0;
  unsigned digit = 0;
  size_t i = 0;
  for (; i < safe && (digit = (unsigned)text[i] - '0') <= 9; i++)
    sum = sum * 10 + digit;
  for (; i < length && (digit = (unsigned)text[i] - '0') <= 9; i++) {
    if (sum > (UINT64_MAX - digit) / 10) return 0;
    sum = sum * 10 + digit;
  }
  *number = sum;
  return i;
}

bool weir_number_parse(const char *text, size_t length, uint64_t *number) {
  size_t end = weir_number_scan(text, length, number);
  if (end == 0) return false;
  while (end < length && text[end] == ' ')
    end++;
  return end == length;
}

uint64_t weir_ttl_seconds(int64_t ttl_us, int64_t unix_s) {
  /* A second, as TTL N ends within its last second; and one, as the server's clock ticks once a
   * second and, on a busy machine, late. */
  int64_t seconds = (ttl_us + 999999) / 1000000 + 2;
  if (!weir_ttl_is_date(ttl_us)) return (uint64_t)seconds;
  int64_t date_s = unix_s + seconds + 24 * 3600;
  /* The server keeps dates in 32 bits. */
  return (uint64_t)(date_s < INT32_MAX ? date_s : INT32_MAX);
}

weir_line weir_line_find(const char *bytes, size_t length) {
  weir_line line = {.text = bytes};
  const char *end = length == 0 ? NULL : memchr(bytes, '\n', length);
  if (end == NULL) return line;
  line.taken = (size_t)(end - bytes) + 1;
  line.bad = line.taken < 2 || end[-1] != '\r';
  line.length = line.bad ? 0 : line.taken - 2;
  return line;
}

bool weir_line_starts(const weir_line *line, const char *text) {
  size_t length = strlen(text);
  return line->length >= length && memcmp(line->text, text, length) == 0;
}

bool weir_line_is(const weir_line *line, const char *text) {
  return line->length == strlen(text) && weir_line_starts(line, text);
}

/* --- versions ------------------------------------------------------------------------------------
 */

/* No id reaches this bit by counting: with it no version is 0. */
enum { NEVER_ZERO_BIT = 63 };

void *weir_version_mask_create(const void *settings, const void *first) {
  (void)settings;
  uint64_t *mask = sodium_init() < 0 ? NULL : malloc(sizeof *mask);
  if (mask == NULL) return NULL;
  if (first != NULL) {
    *mask = *(const uint64_t *)first;
    return mask;
  }
  randombytes_buf(mask, sizeof *mask);
  *mask |= UINT64_C(1) << NEVER_ZERO_BIT;
  return mask;
}

void weir_version_mask_destroy(void *mask) {
  free(mask);
}

static uint64_t mask_of(const weir_wire_command *command) {
  const uint64_t *mask = command->parser;
  return mask != NULL ? *mask : 0;
}

uint64_t weir_version_of_cas(const weir_wire_command *command, uint64_t cas) {
  return cas != 0 ? cas ^ mask_of(command) : 0;
}

uint64_t weir_version_to_cas(const weir_wire_command *command, uint64_t version) {
  uint64_t cas = version ^ mask_of(command);
  return cas != 0 ? cas : UINT64_MAX;
}

/* --- replies -------------------------------------------------------------------------------------
 */

void weir_value_read(weir_operation *operation, const char *text, size_t length,
                     weir_message *message) {
  uint64_t number = 0;
  if (length <= WEIR_VALUE_TEXT_MOST && weir_number_parse(text, length, &number)) {
    operation->value = (int64_t)number;
    operation->outcome = WEIR_DONE;
  } else {
    operation->outcome = WEIR_REFUSED;
    char key[WEIR_KEY_SHOWN_BYTES];
    weir_message_set(message, "key \"%s\" holds something that is not an integer",
                     weir_operation_show_key(operation, key));
  }
}

bool weir_reply_is_error(weir_operation *operation, const weir_line *line, bool stores, bool *stray,
                         weir_message *message) {
  /* SERVER_ERROR covers "did nothing" as well as "lost the answer": a proxy reports a request that
   * timed out behind it in the same words. Only these are known to come before execution. */
  static const char *const unexecuted[] = {
      "SERVER_ERROR out of memory", "SERVER_ERROR Out of memory", "SERVER_ERROR object too large",
      "SERVER_ERROR Connection refused"};
  const size_t shown_most = 200;
  bool server = weir_line_starts(line, "SERVER_ERROR ");
  bool client = weir_line_starts(line, "CLIENT_ERROR ") || weir_line_is(line, "ERROR");
  if (!server && !client) return false;
  bool executed = server && operation->kind != WEIR_GET;
  for (size_t i = 0; i < sizeof unexecuted / sizeof unexecuted[0]; i++)
    executed = executed && !weir_line_starts(line, unexecuted[i]);
  operation->outcome = executed ? WEIR_UNKNOWN : WEIR_REFUSED;
  /* A storage command that is refused for its line leaves its data to be read as a command. */
  *stray = client && stores;
  weir_message_set(message, "%.*s", (int)(line->length < shown_most ? line->length : shown_most),
                   line->text);
  return true;
}

weir_reading weir_touch_read(weir_operation *operation, const weir_line *line, const char *touched,
                             const char *absent, weir_message *message) {
  weir_operation touch = *operation;
  bool stray = false;
  if (weir_line_is(line, touched) || weir_line_is(line, absent)) return WEIR_READING_DONE;
  if (!weir_reply_is_error(&touch, line, false, &stray, message)) return WEIR_READING_BROKEN;
  if (operation->outcome == WEIR_DONE) operation->outcome = WEIR_UNKNOWN;
  return WEIR_READING_DONE;
}

weir_reading weir_look_read(weir_operation *operation, const weir_line *line, const char *found,
                            const char *absent, weir_message *message) {
  weir_operation look = *operation;
  bool stray = false;
  if (weir_line_is(line, found)) return WEIR_READING_DONE;
  if (!weir_line_is(line, absent))
    return weir_reply_is_error(&look, line, false, &stray, NULL) ? WEIR_READING_DONE
                                                                 : WEIR_READING_BROKEN;
  if (operation->outcome != WEIR_DONE) return WEIR_READING_DONE;
  operation->outcome = WEIR_REFUSED;
  weir_message_set(
      message,
      "what was stored is gone at once: its clock is ahead of this machine's, and what "
      "lives for more than 30 days is stored with a date");
  return WEIR_READING_DONE;
}

void weir_version_read(weir_wire_command *command, uint64_t cas, weir_message *message) {
  weir_operation *operation = &command->operation;
  operation->version_out = weir_version_of_cas(command, cas);
  if (cas != 0 || operation->outcome != WEIR_DONE) return;
  operation->outcome = WEIR_REFUSED;
  weir_message_set(message, "the server keeps no CAS ids: start memcached without -C");
}

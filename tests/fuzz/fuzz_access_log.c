/* Any bytes as a line of an access log, as a log's format, and as a line of that format: a time and
 * fields within the line, or a message. The format ends at the first newline. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/require.h"
#include "logs/access_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool parsed, const weir_access *access, const weir_message *message,
                  const char *text, size_t size) {
  static const int64_t most_us = INT64_C(253402300799999999); /* the end of the year 9999 */
  if (!parsed) {
    require_readable(message);
    return;
  }
  require(access->time_us >= 0 && access->time_us <= most_us);
  for (int i = 0; i < WEIR_ACCESS_ALL; i++) {
    weir_access_text field = access->fields[i];
    if (field.length == 0) continue;
    require(memchr(field.at, '\0', field.length) == NULL);
    if (text != NULL) require(field.at >= text && field.at + field.length <= text + size);
  }
}

static void parse_with_its_own_format(const char *text, size_t size) {
  const char *newline = size > 0 ? memchr(text, '\n', size) : NULL;
  weir_access access;
  weir_access_format format;
  weir_message message = {{0}};
  if (newline == NULL) return;
  char *pattern = strndup(text, (size_t)(newline - text));
  require(pattern != NULL);
  size_t left = size - (size_t)(newline + 1 - text);
  const weir_access_others others = {1, {{"%{X-Api-Key}i", 14}}};
  bool read = weir_access_format_read(pattern, &format, &message);
  if (!read || !weir_access_format_ask(&format, &others, &message)) require_readable(&message);
  message.text[0] = '\0';
  if (read)
    check(weir_access_format_parse(&format, newline + 1, left, &access, &message), &access,
          &message, newline + 1, left);
  free(pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  weir_access access;
  weir_access_json json = {0};
  weir_message message = {{0}};
  check(weir_access_log_parse(text, size, &access, &message), &access, &message, text, size);
  message.text[0] = '\0';
  check(weir_access_json_parse(&json, text, size, &access, &message), &access, &message, NULL, 0);
  weir_access_json_clean_up(&json);
  parse_with_its_own_format(text, size);
  return 0;
}

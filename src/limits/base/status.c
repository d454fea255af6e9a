/* Statuses, the messages that explain them, the clock of every deadline, and the version. */
#include <weir/status.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <weir/backend.h>
#include <weir/version.h>

#include "clock.h"

static const struct {
  const char *name;
  const char *text;
  weir_status_class class_of;
} statuses[] = {
#define WEIR_STATUS_ROW(suffix, class_suffix, text) {#suffix, text, WEIR_CLASS_##class_suffix},
    WEIR_STATUS_MAP(WEIR_STATUS_ROW)
#undef WEIR_STATUS_ROW
};

static bool is_status(weir_status status) {
  return (int)status >= 0 && (int)status < (int)WEIR_STATUS_COUNT;
}

const char *weir_status_name(weir_status status) {
  return is_status(status) ? statuses[status].name : "UNKNOWN";
}

const char *weir_status_text(weir_status status) {
  return is_status(status) ? statuses[status].text : "not a weir status";
}

weir_status_class weir_status_classify(weir_status status) {
  return is_status(status) ? statuses[status].class_of : WEIR_CLASS_BUG;
}

static void format_line(char line[WEIR_MESSAGE_BYTES], const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

/* A message quotes what callers and servers sent, and must stay one line of plain text all the
 * same: whatever is no printable ASCII may move a cursor or end the line of a log. The backslash
 * stays, so that text which passes through several messages is spelled out once. */
static void format_line(char line[WEIR_MESSAGE_BYTES], const char *format, va_list arguments) {
  static const char digits[] = "0123456789abcdef";
  char raw[WEIR_MESSAGE_BYTES]; /* the arguments may point into the message */
  size_t used = 0;
  if (vsnprintf(raw, sizeof raw, format, arguments) < 0) raw[0] = '\0';
  for (const char *text = raw; *text != '\0'; text++) {
    unsigned char byte = (unsigned char)*text;
    bool plain = byte >= ' ' && byte < 0x7f;
    if (used + (plain ? 1 : 4) >= WEIR_MESSAGE_BYTES) break;
    if (plain) {
      line[used++] = *text;
      continue;
    }
    line[used++] = '\\';
    line[used++] = 'x';
    line[used++] = digits[byte >> 4];
    line[used++] = digits[byte & 15];
  }
  line[used] = '\0';
}

void weir_message_set(weir_message *message, const char *format, ...) {
  if (message == NULL) return;
  va_list arguments;
  va_start(arguments, format);
  format_line(message->text, format, arguments);
  va_end(arguments);
}

void weir_message_prefix(weir_message *message, const char *format, ...) {
  if (message == NULL) return;
  char prefix[WEIR_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  format_line(prefix, format, arguments);
  va_end(arguments);

  size_t used = strlen(prefix);
  size_t room = WEIR_MESSAGE_BYTES - 1 - used;
  size_t kept = strlen(message->text);
  if (kept > room) kept = room;
  memmove(message->text + used, message->text, kept);
  memcpy(message->text, prefix, used);
  message->text[used + kept] = '\0';
}

const char *weir_operation_show_key(const weir_operation *operation,
                                    char text[WEIR_KEY_SHOWN_BYTES]) {
  bool cut = operation->home_length > WEIR_HOME_SHOWN_MOST;
  int end = operation->home_offset + operation->home_length;
  int shown = cut ? operation->home_offset + WEIR_HOME_SHOWN_MOST : end;
  snprintf(text, WEIR_KEY_SHOWN_BYTES, "%.*s%s%.*s", shown, operation->key, cut ? "..." : "",
           operation->key_length - end, operation->key + end);
  return text;
}

int64_t weir_monotonic_us(void) {
  return weir_clock_us(CLOCK_MONOTONIC);
}

/* Of what runs, which may not be what the caller's headers were. */
const char *weir_version(void) {
  return WEIR_VERSION_TEXT;
}

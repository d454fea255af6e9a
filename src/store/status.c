/* Statuses, the messages that explain them, and the clock of every deadline. */
#include <weir/status.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <weir/backend.h>

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

/* A message quotes what callers and servers sent, and must stay one line of text all the same. */
static void format_line(char line[WEIR_MESSAGE_BYTES], const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void format_line(char line[WEIR_MESSAGE_BYTES], const char *format, va_list arguments) {
  if (vsnprintf(line, WEIR_MESSAGE_BYTES, format, arguments) < 0) line[0] = '\0';
  for (char *at = line; *at != '\0'; at++) {
    if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
  }
}

void weir_message_set(weir_message *message, const char *format, ...) {
  if (message == NULL) return;
  char line[WEIR_MESSAGE_BYTES]; /* the arguments may point into the message */
  va_list arguments;
  va_start(arguments, format);
  format_line(line, format, arguments);
  va_end(arguments);
  memcpy(message->text, line, strlen(line) + 1);
}

void weir_message_prefix(weir_message *message, const char *format, ...) {
  if (message == NULL) return;
  char front[WEIR_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  format_line(front, format, arguments);
  va_end(arguments);

  size_t used = strlen(front);
  size_t room = WEIR_MESSAGE_BYTES - 1 - used;
  size_t kept = strlen(message->text);
  if (kept > room) kept = room;
  memmove(message->text + used, message->text, kept);
  memcpy(message->text, front, used);
  message->text[used + kept] = '\0';
}

int64_t weir_monotonic_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Installed headers offer this, and it is about no limit: statuses and the messages that explain
 * them, the clock of every deadline, the version; durations; pauses; words. */
#include <inttypes.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weir/backend.h>
#include <weir/backoff.h>
#include <weir/duration.h>
#include <weir/status.h>
#include <weir/version.h>
#include <weir/word.h>

#include "clock.h"
#include "random.h"

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

/* The version that runs, which may not be that of the caller's headers. */
const char *weir_version(void) {
  return WEIR_VERSION_TEXT;
}

/* --- durations ----------------------------------------------------------------------------------
 *
 * Durations in text: "250ms", "30d". */

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

/* --- pauses -------------------------------------------------------------------------------------
 *
 * Random pauses between tries: for rounds that others disturbed, and for callers. */

/* The calling thread's: nothing secret hangs on it, it must only differ from thread to thread. A
 * process that was forked seeds anew: else all children of one parent would pause alike, and meet
 * again and again. */
static uint64_t *own_counter(void) {
  static _Thread_local struct {
    pid_t owner;
    uint64_t counter;
  } generator;
  pid_t self = getpid();
  if (generator.owner != self) {
    /* Without the system's random numbers the time must do: pauses that are alike are better than
     * none. */
    generator.counter = (uint64_t)weir_monotonic_us();
    if (sodium_init() >= 0) randombytes_buf(&generator.counter, sizeof generator.counter);
    generator.owner = self;
  }
  return &generator.counter;
}

int64_t weir_backoff_us(unsigned attempt, int64_t base_us, int64_t most_us) {
  if (base_us <= 0 || most_us <= 0) return 0;
  bool over = attempt >= 63 || base_us > (most_us >> attempt); /* base * 2^attempt above most */
  uint64_t count = (uint64_t)(over ? most_us : base_us << attempt) + 1; /* at most 2^63 */

  /* 0 to count - 1, each as likely: numbers from the incomplete last run are thrown away. */
  uint64_t *counter = own_counter();
  uint64_t incomplete = -count % count;
  uint64_t number;
  do {
    number = weir_random_next(counter);
  } while (number < incomplete);
  return (int64_t)(number % count);
}

/* --- words --------------------------------------------------------------------------------------
 *
 * Words: which of those that are accepted a slip comes nearest to, and lists of them. */

enum { WORD_MOST = 32 };

static char lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* The distance of Damerau and Levenshtein, in its plain form, where no byte is changed twice.
 * Row by row: row[j] is the distance of the text's first i bytes to the word's first j. */
static size_t measure(const char *text, size_t length, const char *word, size_t word_length) {
  size_t rows[3][WORD_MOST + 1];
  for (size_t j = 0; j <= word_length; j++)
    rows[0][j] = j;
  for (size_t i = 1; i <= length; i++) {
    size_t *row = rows[i % 3];
    const size_t *above = rows[(i - 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= word_length; j++) {
      bool same = lower(text[i - 1]) == lower(word[j - 1]);
      row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + !same);
      bool swapped = i > 1 && j > 1 && lower(text[i - 1]) == lower(word[j - 2]) &&
                     lower(text[i - 2]) == lower(word[j - 1]);
      if (swapped) row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
    }
  }
  return rows[length % 3][word_length];
}

bool weir_word_nearer(const char *text, size_t length, const char *word, size_t *distance) {
  size_t word_length = strlen(word);
  if (length == 0 || length > WORD_MOST || word_length > WORD_MOST) return false;
  size_t most = (word_length + 2) / 3;
  size_t measured = measure(text, length, word, word_length);
  if (measured > most || measured >= *distance) return false;
  *distance = measured;
  return true;
}

void weir_word_list(char *list, size_t size, const char *word, bool last) {
  static const char cut[] = ", ...";
  size_t used = strlen(list);
  if (used >= strlen(cut) && strcmp(list + used - strlen(cut), cut) == 0) return;
  const char *separator = used == 0 ? "" : last ? " and " : ", ";
  size_t reserved = last ? 1 : sizeof cut; /* an end behind the word, or before it the dots */
  bool fits = used + strlen(separator) + strlen(word) + reserved <= size;
  snprintf(list + used, size - used, "%s%s", fits ? separator : "", fits ? word : cut);
}

#include "memcached/text.h"

#include "memcached/codec.h"

char *weir_number_put(char *out, const char *before, uint64_t number) {
  char digits[WEIR_NUMBER_MOST];
  size_t start = sizeof digits;
  while (*before != '\0')
    *out++ = *before++;
  do { /* the last digit first */
    digits[--start] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  memcpy(out, digits + start, sizeof digits - start);
  return out + (sizeof digits - start);
}

size_t weir_number_scan(const char *text, size_t length, uint64_t *number) {
  uint64_t sum = 0;
  size_t i = 0;
  for (; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
    uint64_t digit = (uint64_t)(text[i] - '0');
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

uint64_t weir_ttl_seconds(int64_t ttl_us, int64_t unix_s) {
  const int64_t longest_relative_s = 30 * 24 * 3600;
  /* A second, as TTL N ends within its last second; and one, as the server's clock ticks once a
   * second and, on a busy machine, late. */
  int64_t seconds = (ttl_us + 999999) / 1000000 + 2;
  if (seconds <= longest_relative_s) return (uint64_t)seconds;
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

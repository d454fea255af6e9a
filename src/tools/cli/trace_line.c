/* Reads one line of a trace: "TIME_MS KEY [COST]". */
#include "trace_line.h"

#include <string.h>

#include <weir/backend.h>

#include "number.h"

#define LINE_FORM "a line is TIME_MS KEY [COST]"

typedef struct field {
  const char *text;
  size_t length;
} field;

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* The next field from *at on; its length is 0 when there is none. */
static field next_field(const char **at, const char *end) {
  while (*at < end && is_blank(**at))
    (*at)++;
  field found = {.text = *at};
  while (*at < end && !is_blank(**at))
    (*at)++;
  found.length = (size_t)(*at - found.text);
  return found;
}

static bool reject(weir_message *message, const char *problem) {
  weir_message_set(message, "%s; " LINE_FORM, problem);
  return false;
}

/* Quotes the field, cut where it is long. */
static bool reject_field(weir_message *message, const char *name, field found,
                         const char *accepted) {
  enum { SHOWN_MOST = 40 };
  bool cut = found.length > SHOWN_MOST;
  weir_message_set(message, "%s \"%.*s%s\": %s", name, (int)(cut ? SHOWN_MOST : found.length),
                   found.text, cut ? "..." : "", accepted);
  return false;
}

bool weir_trace_line_parse(const char *text, size_t length, weir_cli_request *request,
                           weir_message *message) {
  *request = (weir_cli_request){.cost = 1, .cost_count = 1};
  if (length > 0 && text[length - 1] == '\r') length--;
  if (length > 0 && memchr(text, '\0', length) != NULL) return reject(message, "NUL byte");
  const char *at = text, *end = text + length;
  field time = next_field(&at, end), key = next_field(&at, end), cost = next_field(&at, end);
  field extra = next_field(&at, end);

  if (time.length == 0) return reject(message, "blank line");
  if (!weir_cli_parse_integer(time.text, time.length, WEIR_TRACE_TIME_MOST_MS, &request->time_ms))
    return reject_field(message, "TIME_MS", time,
                        "a whole number from 0 to 253402300799999 is accepted");
  if (key.length == 0) return reject(message, "no KEY");
  if (extra.length > 0) return reject_field(message, "extra field", extra, LINE_FORM);
  request->key = key.text;
  request->key_length = key.length;
  if (cost.length == 0) return true;
  if (!weir_cli_parse_integer(cost.text, cost.length, WEIR_CLI_COST_MOST, &request->cost) ||
      request->cost < 1)
    return reject_field(message, "COST", cost, "a whole number from 1 to 2147483648 is accepted");
  return true;
}

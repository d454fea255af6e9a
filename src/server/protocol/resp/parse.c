/* A parser that reads each byte once, wherever a request is cut, and notes where arguments stand as
 * it comes to them. A request that waits for more takes 20 bytes, not two numbers an argument:
 * arguments that came with earlier bytes are looked up again once the request is whole. */
#include "protocol/resp/command.h"

#include <string.h>

#include "number.h"

enum { LINE_MOST = 32 }; /* "*16\r" and "$65536\r" */
enum { DIGITS_MOST = 10 };

typedef struct reading {
  weir_resp_parser *parser;
  const weir_resp_limits *limits;
  const char *bytes;
  size_t length;
  const char **why;
} reading;

static weir_resp_reading broken(const reading *self, const char *why) {
  *self->why = why;
  return WEIR_RESP_BROKEN;
}

/* Nearly all sizes have one digit or two, then the end of the line: how many bytes that takes, and
 * the number; 0: it is something else. There are SHORT_MOST bytes. */
enum { SHORT_MOST = 4 };
static inline size_t read_short(const char *first, size_t *size) {
  unsigned digit = (unsigned char)first[0] - (unsigned)'0';
  if (digit > 9) return 0;
  *size = digit;
  if (memcmp(first + 1, "\r\n", 2) == 0) return 3;
  unsigned next = (unsigned char)first[1] - (unsigned)'0';
  *size = digit * 10 + next;
  return next <= 9 && memcmp(first + 2, "\r\n", 2) == 0 ? 4 : 0;
}

/* "<mark><number>\r\n" at `from`. `behind`: where the next thing stands. A size that is long,
 * negative or wrong is told once its line is there. */
static weir_resp_reading read_size(const reading *self, size_t from, const char *complaint,
                                   int64_t *size, size_t *behind) {
  const char *first = self->bytes + from + 1;
  size_t there = self->length - from - 1;
  const char *end = memchr(first, '\n', there < LINE_MOST ? there : LINE_MOST);
  if (end == NULL) return there < LINE_MOST ? WEIR_RESP_MORE : broken(self, complaint);
  bool negative = *first == '-';
  const char *digits = first + negative;
  if (end - digits < 2 || end - digits > DIGITS_MOST + 1 || end[-1] != '\r' ||
      !weir_number_read(digits, (size_t)(end - digits) - 1, INT64_MAX, size))
    return broken(self, complaint);
  if (negative) *size = -*size;
  *behind = (size_t)(end - self->bytes) + 1;
  return WEIR_RESP_REQUEST;
}

/* The head of an array. */
static weir_resp_reading read_count(const reading *self) {
  weir_resp_parser *parser = self->parser;
  size_t count;
  size_t line = self->length > SHORT_MOST ? read_short(self->bytes + 1, &count) : 0;
  size_t behind = 1 + line;
  if (line == 0) {
    int64_t size;
    weir_resp_reading got =
        read_size(self, 0, "Protocol error: invalid multibulk length", &size, &behind);
    if (got != WEIR_RESP_REQUEST) return got;
    count = size > 0 ? (size_t)size : 0;
  }
  if (count > self->limits->arguments) return broken(self, "Protocol error: too many arguments");
  parser->position = (uint32_t)behind;
  parser->expected = (uint32_t)count;
  return WEIR_RESP_REQUEST;
}

/* The head of an argument, at `from`. */
static weir_resp_reading read_bulk(const reading *self, size_t from, size_t *bulk, size_t *behind) {
  static const char complaint[] = "Protocol error: invalid bulk length";
  int64_t size = 0;
  if (from >= self->length) return WEIR_RESP_MORE;
  if (self->bytes[from] != '$')
    return broken(self, "Protocol error: expected '$' before each argument");
  weir_resp_reading got = read_size(self, from, complaint, &size, behind);
  if (got == WEIR_RESP_REQUEST && size < 0) return broken(self, complaint);
  *bulk = (size_t)size;
  return got;
}

/* The first `count` arguments of an array, whose form has been checked. */
static void find_arguments(const reading *self, size_t count, weir_resp_request *request) {
  const char *next = (const char *)memchr(self->bytes, '\n', self->length) + 1;
  for (size_t i = 0; i < count; i++) {
    size_t length = 0;
    for (next++; *next != '\r'; next++)
      length = length * 10 + (size_t)(*next - '0');
    request->arguments[i] = (weir_resp_argument){next + 2, length};
    next += 2 + length + 2;
  }
}

/* Arguments that are there as a whole, with short heads, as nearly all are: how many of `count`, and *at
 * goes behind them. */
static size_t read_whole(const char **at, const char *end, size_t count,
                         weir_resp_argument *arguments) {
  const char *next = *at;
  size_t found = 0;
  for (; found < count && end - next > SHORT_MOST && *next == '$'; found++) {
    size_t bulk;
    size_t line = read_short(next + 1, &bulk);
    const char *begin = next + 1 + line;
    if (line == 0 || (size_t)(end - begin) < bulk + 2 || memcmp(begin + bulk, "\r\n", 2) != 0)
      break;
    arguments[found] = (weir_resp_argument){begin, bulk};
    next = begin + bulk + 2;
  }
  *at = next;
  return found;
}

static weir_resp_reading parse_array(const reading *self, weir_resp_request *request) {
  weir_resp_parser *parser = self->parser;
  weir_resp_reading got = parser->position == 0 ? read_count(self) : WEIR_RESP_REQUEST;
  if (got != WEIR_RESP_REQUEST) return got;
  const char *next = self->bytes + parser->position;
  size_t from_before = parser->count;
  size_t most = self->limits->request_bytes;
  if (!parser->in_bulk)
    parser->count +=
        (uint32_t)read_whole(&next, self->bytes + (self->length < most ? self->length : most),
                             parser->expected - from_before, request->arguments + from_before);
  size_t at = (size_t)(next - self->bytes);
  parser->position = (uint32_t)at;
  while (parser->count < parser->expected) {
    size_t bulk = parser->bulk;
    if (!parser->in_bulk) {
      got = read_bulk(self, at, &bulk, &at);
      if (got != WEIR_RESP_REQUEST) return got;
      if (at + bulk + 2 > most) return broken(self, "Protocol error: the request is too long");
    }
    const char *begin = self->bytes + at;
    if (self->length - at < bulk + 2) {
      parser->position = (uint32_t)at;
      parser->bulk = (uint32_t)bulk;
      parser->in_bulk = true;
      return WEIR_RESP_MORE;
    }
    if (memcmp(begin + bulk, "\r\n", 2) != 0)
      return broken(self, "Protocol error: an argument is longer than it says");
    request->arguments[parser->count++] = (weir_resp_argument){begin, bulk};
    at += bulk + 2;
    parser->position = (uint32_t)at;
    parser->in_bulk = false;
  }
  if (from_before > 0) find_arguments(self, from_before, request);
  request->count = parser->expected;
  return WEIR_RESP_REQUEST;
}

/* A line of words between blanks. Quotes mean something elsewhere, so they are no part of a word. */
static weir_resp_reading parse_line(const reading *self, weir_resp_request *request) {
  weir_resp_parser *parser = self->parser;
  const char *end = memchr(self->bytes + parser->position, '\n', self->length - parser->position);
  size_t all = end != NULL ? (size_t)(end - self->bytes) + 1 : self->length;
  if (all > self->limits->request_bytes)
    return broken(self, "Protocol error: too big inline request");
  parser->position = (uint32_t)all;
  if (end == NULL) return WEIR_RESP_MORE;
  if (end > self->bytes && end[-1] == '\r') end--;
  request->count = 0;
  for (const char *next = self->bytes; next < end;) {
    size_t length = 0;
    while (next + length < end && next[length] != ' ' && next[length] != '\t')
      length++;
    if (memchr(next, '"', length) != NULL || memchr(next, '\'', length) != NULL)
      return broken(self, "Protocol error: an inline command takes no quotes; send an array");
    if (length > 0 && request->count == self->limits->arguments)
      return broken(self, "Protocol error: too many arguments");
    if (length > 0) request->arguments[request->count++] = (weir_resp_argument){next, length};
    next += length > 0 ? length : 1;
  }
  return WEIR_RESP_REQUEST;
}

weir_resp_reading weir_resp_parse(weir_resp_parser *parser, const weir_resp_limits *limits,
                                  const char *bytes, size_t length, size_t *used,
                                  weir_resp_request *request, const char **why) {
  const reading self = {parser, limits, bytes, length, why};
  if (length == 0) return WEIR_RESP_MORE;
  weir_resp_reading got =
      bytes[0] == '*' ? parse_array(&self, request) : parse_line(&self, request);
  if (got != WEIR_RESP_REQUEST) return got;
  *used = parser->position;
  *parser = (weir_resp_parser){0};
  return WEIR_RESP_REQUEST;
}

/* A parser that reads each byte once, wherever a request is cut. Where its arguments stand is
 * looked up again when it is whole: so what waits for more takes 20 bytes, not two numbers an
 * argument. */
#include "protocol/resp/parse.h"

#include <string.h>

enum { LINE_MOST = 32 }; /* "*16\r" and "$65536\r" */

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

/* "<mark><number>\r\n" at `from`. `behind`: where the next thing stands. */
static weir_resp_reading read_size(const reading *self, size_t from, const char *complaint,
                                   int64_t *size, size_t *behind) {
  const char *first = self->bytes + from + 1;
  size_t there = self->length - from - 1;
  const char *end = memchr(first, '\n', there < LINE_MOST ? there : LINE_MOST);
  if (end == NULL) return there < LINE_MOST ? WEIR_RESP_MORE : broken(self, complaint);
  bool negative = *first == '-';
  const char *digit = first + negative;
  if (end - digit < 2 || end - digit > 11 || end[-1] != '\r') return broken(self, complaint);
  *size = 0;
  for (; digit < end - 1; digit++) {
    if (*digit < '0' || *digit > '9') return broken(self, complaint);
    *size = *size * 10 + (*digit - '0');
  }
  if (negative) *size = -*size;
  *behind = (size_t)(end - self->bytes) + 1;
  return WEIR_RESP_REQUEST;
}

static weir_resp_reading read_array_size(const reading *self) {
  static const char complaint[] = "Protocol error: invalid multibulk length";
  weir_resp_parser *parser = self->parser;
  int64_t size;
  size_t behind;
  weir_resp_reading got = read_size(self, 0, complaint, &size, &behind);
  if (got != WEIR_RESP_REQUEST) return got;
  if (size > (int64_t)self->limits->arguments)
    return broken(self, "Protocol error: too many arguments");
  parser->position = (uint32_t)behind;
  parser->expected = size > 0 ? (uint32_t)size : 0;
  return WEIR_RESP_REQUEST;
}

static weir_resp_reading read_bulk_size(const reading *self) {
  static const char complaint[] = "Protocol error: invalid bulk length";
  weir_resp_parser *parser = self->parser;
  int64_t size;
  size_t behind;
  if (parser->position >= self->length) return WEIR_RESP_MORE;
  if (self->bytes[parser->position] != '$')
    return broken(self, "Protocol error: expected '$' before each argument");
  weir_resp_reading got = read_size(self, parser->position, complaint, &size, &behind);
  if (got != WEIR_RESP_REQUEST) return got;
  if (size < 0) return broken(self, complaint);
  if (behind + (size_t)size + 2 > self->limits->request_bytes)
    return broken(self, "Protocol error: the request is too long");
  parser->position = (uint32_t)behind;
  parser->bulk = (uint32_t)size;
  parser->in_bulk = true;
  return WEIR_RESP_REQUEST;
}

static weir_resp_reading read_bulk(const reading *self) {
  weir_resp_parser *parser = self->parser;
  const char *end = self->bytes + parser->position + parser->bulk;
  if (self->length - parser->position < (size_t)parser->bulk + 2) return WEIR_RESP_MORE;
  if (end[0] != '\r' || end[1] != '\n')
    return broken(self, "Protocol error: an argument is longer than it says");
  parser->position += parser->bulk + 2;
  parser->in_bulk = false;
  parser->count++;
  return WEIR_RESP_REQUEST;
}

/* Of a whole array, whose form has been checked. */
static void find_arguments(const reading *self, weir_resp_request *request) {
  const char *next = self->bytes;
  request->count = self->parser->count;
  next = (const char *)memchr(next, '\n', self->length) + 1;
  for (size_t i = 0; i < request->count; i++) {
    size_t length = 0;
    for (next++; *next != '\r'; next++)
      length = length * 10 + (size_t)(*next - '0');
    request->arguments[i] = (weir_resp_argument){next + 2, length};
    next += 2 + length + 2;
  }
}

static weir_resp_reading parse_array(const reading *self, weir_resp_request *request) {
  weir_resp_parser *parser = self->parser;
  weir_resp_reading got = WEIR_RESP_REQUEST;
  if (parser->position == 0) got = read_array_size(self);
  while (got == WEIR_RESP_REQUEST && parser->count < parser->expected)
    got = parser->in_bulk ? read_bulk(self) : read_bulk_size(self);
  if (got == WEIR_RESP_REQUEST) find_arguments(self, request);
  return got;
}

/* Words between blanks. Quotes mean something elsewhere, so they are no part of a word here. */
static weir_resp_reading find_words(const reading *self, const char *end,
                                    weir_resp_request *request) {
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

static weir_resp_reading parse_line(const reading *self, weir_resp_request *request) {
  weir_resp_parser *parser = self->parser;
  const char *end = memchr(self->bytes + parser->position, '\n', self->length - parser->position);
  size_t length = end != NULL ? (size_t)(end - self->bytes) + 1 : self->length;
  if (length > self->limits->request_bytes)
    return broken(self, "Protocol error: too big inline request");
  parser->position = (uint32_t)length;
  if (end == NULL) return WEIR_RESP_MORE;
  return find_words(self, end > self->bytes && end[-1] == '\r' ? end - 1 : end, request);
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

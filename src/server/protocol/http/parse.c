/* A parser for what programs that ask about limits send: no folded fields, one length at most, and
 * chunks for POST /json alone, without extensions or trailers. A request that is refused ends its
 * connection, so none hides behind it.
 *
 * A request is looked at when its head is there, and again when its body is. Until then the parser
 * keeps where it stopped, so that bytes are not gone through again and again as they come. */
#include "protocol/http/call.h"

#include <string.h>
#include <strings.h>

enum { BAD = 400, TOO_LONG = 413, FIELDS_TOO_LONG = 431, NO_LENGTH = 411, NO_VERSION = 505 };
enum { SIZE_DIGITS_MOST = 8, RAW_SPARE = 1024 };

typedef struct reading {
  int *status;
  const char **why;
} reading;

static bool refuse(const reading *self, int status, const char *why) {
  *self->status = status;
  *self->why = why;
  return false;
}

bool weir_http_is(weir_http_text text, const char *word) {
  return strlen(word) == text.length && strncasecmp(text.bytes, word, text.length) == 0;
}

bool weir_http_is_path(const weir_http_request *request, const char *path) {
  return request->path.length == strlen(path) &&
         memcmp(request->path.bytes, path, request->path.length) == 0;
}

int weir_http_hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

/* Names of methods and fields are tokens. */
static bool is_token(weir_http_text text) {
  static const char marks[] = "!#$%&'*+-.^_`|~";
  for (size_t i = 0; i < text.length; i++) {
    char c = text.bytes[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && (c == '\0' || strchr(marks, c) == NULL)) return false;
  }
  return text.length > 0;
}

/* The text before the next `end`, which is passed over. */
static bool cut(weir_http_text *rest, char end, weir_http_text *part) {
  const char *found = memchr(rest->bytes, end, rest->length);
  if (found == NULL) return false;
  *part = (weir_http_text){rest->bytes, (size_t)(found - rest->bytes)};
  rest->length -= part->length + 1;
  rest->bytes = found + 1;
  return true;
}

/* --- the request line ---------------------------------------------------------------------------
 */

static bool read_line(const reading *self, weir_http_text line, weir_http_request *request,
                      bool *is_1_1) {
  static const char scheme[] = "http://";
  const size_t prefix = sizeof scheme - 1;
  weir_http_text target;
  bool good = cut(&line, ' ', &request->method) && cut(&line, ' ', &target) &&
              is_token(request->method) && target.length > 0;
  for (size_t i = 0; good && i < target.length; i++)
    good = target.bytes[i] > ' ' && target.bytes[i] <= '~';
  if (!good) return refuse(self, BAD, "the first line is no METHOD TARGET HTTP/1.1");
  *is_1_1 = line.length == 8 && memcmp(line.bytes, "HTTP/1.1", 8) == 0;
  if (!*is_1_1 && (line.length != 8 || memcmp(line.bytes, "HTTP/1.0", 8) != 0))
    return refuse(self, NO_VERSION, "HTTP/1.1 and HTTP/1.0 are accepted");

  /* "http://host/path" is "/path" of this server. */
  request->host = (weir_http_text){"", 0};
  if (target.length > prefix && strncasecmp(target.bytes, scheme, prefix) == 0) {
    const char *slash = memchr(target.bytes + prefix, '/', target.length - prefix);
    if (slash != NULL) {
      request->host =
          (weir_http_text){target.bytes + prefix, (size_t)(slash - target.bytes) - prefix};
      target.length -= (size_t)(slash - target.bytes);
      target.bytes = slash;
    }
  }
  if (target.bytes[0] != '/') return refuse(self, BAD, "the target must be a path");
  request->path = target;
  request->query = (weir_http_text){"", 0};
  weir_http_text rest = target;
  if (cut(&rest, '?', &request->path)) request->query = rest;
  return true;
}

/* --- fields -------------------------------------------------------------------------------------
 */

static weir_http_text trim(weir_http_text text) {
  while (text.length > 0 && (text.bytes[0] == ' ' || text.bytes[0] == '\t')) {
    text.bytes++;
    text.length--;
  }
  while (text.length > 0 &&
         (text.bytes[text.length - 1] == ' ' || text.bytes[text.length - 1] == '\t'))
    text.length--;
  return text;
}

/* The line from *position on, without its end, and the position behind it. */
static bool next_line(weir_http_text lines, size_t *position, weir_http_text *line) {
  if (*position >= lines.length) return false;
  const char *begin = lines.bytes + *position;
  const char *end = memchr(begin, '\n', lines.length - *position);
  *line = (weir_http_text){begin, (size_t)(end - begin) - 1};
  *position = (size_t)(end - lines.bytes) + 1;
  return true;
}

bool weir_http_next_field(const weir_http_request *request, const char *name, size_t *position,
                          weir_http_text *value) {
  weir_http_text line;
  weir_http_text found = {0};
  while (next_line(request->fields, position, &line)) {
    cut(&line, ':', &found);
    if (name != NULL && !weir_http_is(found, name)) continue;
    *value = trim(line);
    return true;
  }
  return false;
}

static bool has_word(weir_http_text list, const char *word) {
  weir_http_text part;
  bool more = true;
  while (more) {
    more = cut(&list, ',', &part);
    if (weir_http_is(trim(more ? part : list), word)) return true;
  }
  return false;
}

/* How often a field stands there, and its last value; "" where it does not. */
static size_t count_field(const weir_http_request *request, const char *name,
                          weir_http_text *value) {
  size_t count = 0;
  *value = (weir_http_text){"", 0};
  for (size_t position = 0; weir_http_next_field(request, name, &position, value);)
    count++;
  return count;
}

/* How long the body is. Chunks are for clients of envoyproxy/ratelimit, some of which send nothing
 * else. Where a body has two lengths, or one that an older version does not know, two readers may read
 * it differently. */
static bool read_length(const reading *self, weir_http_request *request, bool is_1_1,
                        const weir_http_limits *limits, size_t *length) {
  weir_http_text coding;
  weir_http_text value;
  *length = 0;
  size_t codings = count_field(request, "Transfer-Encoding", &coding);
  size_t count = count_field(request, "Content-Length", &value);
  request->is_chunked = codings == 1 && count == 0 && is_1_1 &&
                        weir_http_is_path(request, "/json") &&
                        weir_http_is(request->method, "POST") && weir_http_is(coding, "chunked");
  if (codings > 0 && !request->is_chunked)
    return refuse(self, NO_LENGTH, "Transfer-Encoding is not accepted: send Content-Length");
  if (count == 0) return true;
  if (count > 1 || value.length == 0) return refuse(self, BAD, "there must be one Content-Length");
  for (size_t i = 0; i < value.length; i++) {
    if (value.bytes[i] < '0' || value.bytes[i] > '9')
      return refuse(self, BAD, "Content-Length is no number");
    *length = *length * 10 + (size_t)(value.bytes[i] - '0');
    if (*length > limits->body_bytes) return refuse(self, TOO_LONG, "the body is too long");
  }
  return true;
}

/* Fills in the request from its head, and says how long its body is. */
static bool read_head(const reading *self, const weir_http_limits *limits, const char *bytes,
                      size_t length, weir_http_request *request, size_t *body) {
  bool is_1_1;
  weir_http_text line = {0};
  weir_http_text text;
  const weir_http_text head = {bytes, length - 2}; /* without the empty line */

  /* Every line of the head ends with \r\n, and neither stands anywhere else. */
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c == '\r' && i + 1 < length && bytes[i + 1] == '\n')
      i++;
    else if ((c < 0x20 && c != '\t') || c == 0x7f)
      return refuse(self, BAD, "a control character stands in the header, or a line has no \\r\\n");
  }
  size_t position = 0;
  next_line(head, &position, &line);
  if (!read_line(self, line, request, &is_1_1)) return false;
  request->fields = (weir_http_text){bytes + position, head.length - position};
  for (position = 0; next_line(request->fields, &position, &line);)
    if (!cut(&line, ':', &text) || !is_token(text))
      return refuse(self, BAD, "a header field is no NAME: VALUE");

  if (count_field(request, "Host", &text) != 1 && is_1_1)
    return refuse(self, BAD, "there must be one Host");
  bool closes = false;
  request->keeps_alive = is_1_1;
  for (position = 0; weir_http_next_field(request, "Connection", &position, &text);) {
    closes |= has_word(text, "close");
    if (has_word(text, "keep-alive")) request->keeps_alive = true;
  }
  if (closes) request->keeps_alive = false;
  return read_length(self, request, is_1_1, limits, body);
}

/* --- chunks -------------------------------------------------------------------------------------
 */

/* "1f\r\n": the number, and how many bytes say it. */
static weir_http_reading read_size(const char *bytes, size_t length, size_t *size, size_t *line) {
  size_t digits = 0;
  *size = 0;
  for (; digits < length && weir_http_hex_value(bytes[digits]) >= 0; digits++) {
    if (digits == SIZE_DIGITS_MOST) return WEIR_HTTP_BROKEN;
    *size = *size * 16 + (size_t)weir_http_hex_value(bytes[digits]);
  }
  *line = digits + 2;
  if (digits == length) return WEIR_HTTP_MORE;
  if (digits == 0 || bytes[digits] != '\r') return WEIR_HTTP_BROKEN;
  if (digits + 1 == length) return WEIR_HTTP_MORE;
  return bytes[digits + 1] == '\n' ? WEIR_HTTP_REQUEST : WEIR_HTTP_BROKEN;
}

/* Passes over whole chunks behind a head; *body is how many bytes all of them take, once their end has
 * come. */
static weir_http_reading read_chunks(const reading *self, weir_http_parser *parser,
                                     const weir_http_limits *limits, const char *bytes,
                                     size_t length, size_t head, size_t *body) {
  size_t at = parser->chunk > 0 ? parser->chunk : head;
  size_t size = 1;
  while (size > 0) {
    size_t line;
    parser->chunk = (uint32_t)at;
    weir_http_reading got = read_size(bytes + at, length - at, &size, &line);
    if (got == WEIR_HTTP_MORE) return got;
    if (got == WEIR_HTTP_BROKEN) {
      refuse(self, BAD, "a chunk begins with its size in hexadecimal digits, and \\r\\n");
      return WEIR_HTTP_BROKEN;
    }
    if (size > limits->body_bytes - parser->decoded ||
        at - head > 2 * limits->body_bytes + RAW_SPARE) {
      refuse(self, TOO_LONG, "the body is too long");
      return WEIR_HTTP_BROKEN;
    }
    parser->whole = (uint32_t)(at + line + size + 2);
    if (length < parser->whole) return WEIR_HTTP_MORE;
    if (memcmp(bytes + at + line + size, "\r\n", 2) != 0) {
      refuse(self, BAD, "a chunk is longer than it says, or has a trailer behind it");
      return WEIR_HTTP_BROKEN;
    }
    at = parser->whole;
    parser->decoded += (uint32_t)size;
  }
  *body = at - head;
  return WEIR_HTTP_REQUEST;
}

bool weir_http_next_chunk(const weir_http_request *request, size_t *position,
                          weir_http_text *chunk) {
  size_t size = 0;
  size_t line = 0;
  const char *at = request->body.bytes + *position;
  read_size(at, request->body.length - *position, &size, &line);
  *chunk = (weir_http_text){at + line, size};
  *position += line + size + 2;
  return size > 0;
}

/* --- whole requests -----------------------------------------------------------------------------
 */

/* Where the head ends, or 0. */
static size_t find_end(const weir_http_parser *parser, const char *bytes, size_t length) {
  size_t from = parser->position;
  const char *end;
  while (from < length && (end = memchr(bytes + from, '\n', length - from)) != NULL) {
    from = (size_t)(end - bytes) + 1;
    if (from >= 4 && memcmp(end - 3, "\r\n\r", 3) == 0) return from;
    if (from >= 2 && end[-1] == '\n') return from; /* bare ends of lines: refused as a head */
  }
  return 0;
}

weir_http_reading weir_http_parse(weir_http_parser *parser, const weir_http_limits *limits,
                                  const char *bytes, size_t length, size_t *used,
                                  weir_http_request *request, int *status, const char **why) {
  const reading self = {status, why};
  weir_http_text expected;
  size_t body = 0;
  /* One empty line before a request is passed over, as some clients end a body with it. */
  size_t empty = length >= 2 && memcmp(bytes, "\r\n", 2) == 0 ? 2 : 0;
  if (length == 0 || (length == 1 && bytes[0] == '\r')) return WEIR_HTTP_MORE;
  bytes += empty;
  length -= empty;

  if (parser->whole > length) return WEIR_HTTP_MORE;
  size_t head = find_end(parser, bytes, length);
  if ((head > 0 ? head : length) > limits->header_bytes) {
    refuse(&self, FIELDS_TOO_LONG, "the header is too long");
    return WEIR_HTTP_BROKEN;
  }
  if (head == 0) {
    parser->position = (uint32_t)length;
    return WEIR_HTTP_MORE;
  }
  parser->position = (uint32_t)head - 1; /* the next call finds it at once */
  if (!read_head(&self, limits, bytes, head, request, &body)) return WEIR_HTTP_BROKEN;
  if (parser->whole == 0 && parser->chunk == 0 && count_field(request, "Expect", &expected) > 0)
    parser->wants_go_on =
        has_word(expected, "100-continue") && length < head + (request->is_chunked ? 1 : body);
  if (request->is_chunked) {
    weir_http_reading got = read_chunks(&self, parser, limits, bytes, length, head, &body);
    if (got != WEIR_HTTP_REQUEST) return got;
  }
  parser->whole = (uint32_t)(head + body);
  if (length < head + body) return WEIR_HTTP_MORE;
  request->body = (weir_http_text){bytes + head, body};
  *used = empty + head + body;
  *parser = (weir_http_parser){0};
  return WEIR_HTTP_REQUEST;
}

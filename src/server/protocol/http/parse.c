/* A parser for what programs that ask about limits send: no folded fields, one length at most, and
 * chunks for POST /json alone. A request that is refused ends its connection, so none hides behind it. */
#include "protocol/http/parse.h"

#include <string.h>
#include <strings.h>

enum { BAD = 400, TOO_LONG = 413, FIELDS_TOO_LONG = 431, NO_LENGTH = 411, NO_VERSION = 505 };

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

/* Of names of methods and fields. */
static bool is_token(weir_http_text text) {
  static const char marks[] = "!#$%&'*+-.^_`|~";
  for (size_t i = 0; i < text.length; i++) {
    char c = text.bytes[i];
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && (c == '\0' || strchr(marks, c) == NULL)) return false;
  }
  return text.length > 0;
}

/* --- the request line ---------------------------------------------------------------------------
 */

/* The text before the next `end`, which is passed over. */
static bool cut(weir_http_text *rest, char end, weir_http_text *part) {
  const char *found = memchr(rest->bytes, end, rest->length);
  if (found == NULL) return false;
  *part = (weir_http_text){rest->bytes, (size_t)(found - rest->bytes)};
  rest->length -= part->length + 1;
  rest->bytes = found + 1;
  return true;
}

static bool is_visible(weir_http_text text) {
  for (size_t i = 0; i < text.length; i++)
    if (text.bytes[i] <= ' ' || text.bytes[i] > '~') return false;
  return text.length > 0;
}

/* "http://host/path" is "/path" of this server. */
static void drop_authority(weir_http_text *target) {
  static const char scheme[] = "http://";
  if (target->length < sizeof scheme || strncasecmp(target->bytes, scheme, sizeof scheme - 1) != 0)
    return;
  const char *slash =
      memchr(target->bytes + sizeof scheme - 1, '/', target->length - (sizeof scheme - 1));
  if (slash == NULL) return;
  target->length -= (size_t)(slash - target->bytes);
  target->bytes = slash;
}

static bool read_line(const reading *self, weir_http_text line, weir_http_request *request,
                      bool *is_1_1) {
  weir_http_text target;
  if (!cut(&line, ' ', &request->method) || !cut(&line, ' ', &target) ||
      !is_token(request->method) || !is_visible(target))
    return refuse(self, BAD, "the first line is no METHOD TARGET HTTP/1.1");
  *is_1_1 = line.length == 8 && memcmp(line.bytes, "HTTP/1.1", 8) == 0;
  if (!*is_1_1 && (line.length != 8 || memcmp(line.bytes, "HTTP/1.0", 8) != 0))
    return refuse(self, NO_VERSION, "HTTP/1.1 and HTTP/1.0 are accepted");
  drop_authority(&target);
  if (target.bytes[0] != '/') return refuse(self, BAD, "the target must be a path");
  request->path = target;
  request->query = (weir_http_text){"", 0};
  weir_http_text rest = target;
  if (!cut(&rest, '?', &request->path)) return true;
  request->query = rest;
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

/* Every line of the head ends with \r\n, and neither stands anywhere else. */
static bool check_lines(const reading *self, const char *head, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)head[i];
    bool ends = c == '\r' && i + 1 < length && head[i + 1] == '\n';
    if (ends)
      i++;
    else if ((c < 0x20 && c != '\t') || c == 0x7f)
      return refuse(self, BAD, "a control character stands in the header, or a line has no \\r\\n");
  }
  return true;
}

static bool check_fields(const reading *self, const weir_http_request *request) {
  weir_http_text line;
  weir_http_text name;
  for (size_t position = 0; next_line(request->fields, &position, &line);)
    if (!cut(&line, ':', &name) || !is_token(name))
      return refuse(self, BAD, "a header field is no NAME: VALUE");
  return true;
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

static size_t count_field(const weir_http_request *request, const char *name,
                          weir_http_text *value) {
  size_t count = 0;
  for (size_t position = 0; weir_http_next_field(request, name, &position, value);)
    count++;
  return count;
}

/* Chunks are for clients of envoyproxy/ratelimit, some of which send nothing else. Where a body has
 * two lengths, or one that an older version does not know, two readers may read it differently. */
static bool may_be_chunked(const weir_http_request *request, weir_http_text coding, bool is_1_1) {
  weir_http_text ignored;
  bool is_json = request->path.length == 5 && memcmp(request->path.bytes, "/json", 5) == 0;
  return is_json && is_1_1 && weir_http_is(request->method, "POST") &&
         weir_http_is(coding, "chunked") && count_field(request, "Content-Length", &ignored) == 0;
}

/* How long the body is. */
static bool read_length(const reading *self, weir_http_request *request, bool is_1_1,
                        const weir_http_limits *limits, size_t *length) {
  weir_http_text value;
  *length = 0;
  size_t codings = count_field(request, "Transfer-Encoding", &value);
  request->is_chunked = codings == 1 && may_be_chunked(request, value, is_1_1);
  if (codings > 0 && !request->is_chunked)
    return refuse(self, NO_LENGTH, "Transfer-Encoding is not accepted: send Content-Length");
  size_t count = count_field(request, "Content-Length", &value);
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

static bool read_connection(const reading *self, weir_http_request *request, bool is_1_1) {
  weir_http_text value;
  if (count_field(request, "Host", &value) != 1 && is_1_1)
    return refuse(self, BAD, "there must be one Host");
  request->keeps_alive = is_1_1;
  for (size_t position = 0; weir_http_next_field(request, "Connection", &position, &value);) {
    if (has_word(value, "close")) {
      request->keeps_alive = false;
      return true;
    }
    if (has_word(value, "keep-alive")) request->keeps_alive = true;
  }
  return true;
}

/* --- whole requests -----------------------------------------------------------------------------
 */

/* Fills in the request from its head, and says how long its body is. */
static bool read_head(const reading *self, const weir_http_limits *limits, const char *bytes,
                      size_t length, weir_http_request *request, size_t *body) {
  bool is_1_1;
  size_t position = 0;
  weir_http_text line = {0};
  const weir_http_text head = {bytes, length - 2}; /* without the empty line */
  if (!check_lines(self, bytes, length)) return false;
  next_line(head, &position, &line);
  if (!read_line(self, line, request, &is_1_1)) return false;
  request->fields = (weir_http_text){bytes + position, head.length - position};
  return check_fields(self, request) && read_connection(self, request, is_1_1) &&
         read_length(self, request, is_1_1, limits, body);
}

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

static weir_http_reading parse(weir_http_parser *parser, const weir_http_limits *limits,
                               const char *bytes, size_t length, size_t *used,
                               weir_http_request *request, int *status, const char **why) {
  const reading self = {status, why};
  weir_http_text expected;
  size_t body = 0;
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
    weir_http_reading got =
        weir_http_read_chunks(parser, limits, bytes, length, head, &body, status, why);
    if (got != WEIR_HTTP_REQUEST) return got;
  }
  parser->whole = (uint32_t)(head + body);
  if (length < head + body) return WEIR_HTTP_MORE;
  request->body = (weir_http_text){bytes + head, body};
  *used = head + body;
  *parser = (weir_http_parser){0};
  return WEIR_HTTP_REQUEST;
}

/* One empty line before a request is passed over, as some clients end a body with it. */
weir_http_reading weir_http_parse(weir_http_parser *parser, const weir_http_limits *limits,
                                  const char *bytes, size_t length, size_t *used,
                                  weir_http_request *request, int *status, const char **why) {
  size_t empty = length >= 2 && memcmp(bytes, "\r\n", 2) == 0 ? 2 : 0;
  if (length == 0 || (length == 1 && bytes[0] == '\r')) return WEIR_HTTP_MORE;
  weir_http_reading got =
      parse(parser, limits, bytes + empty, length - empty, used, request, status, why);
  if (got == WEIR_HTTP_REQUEST) *used += empty;
  return got;
}

/* Bodies in chunks, as strictly as the rest: no extensions, no trailers. */
#include <string.h>

#include "protocol/http/parse.h"

enum { BAD = 400, TOO_LONG = 413, DIGITS_MOST = 8, RAW_SPARE = 1024 };

static int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

/* "1f\r\n": the number, and how many bytes say it. */
static weir_http_reading read_size(const char *bytes, size_t length, size_t *size, size_t *line) {
  size_t digits = 0;
  *size = 0;
  for (; digits < length && hex_value(bytes[digits]) >= 0; digits++) {
    if (digits == DIGITS_MOST) return WEIR_HTTP_BROKEN;
    *size = *size * 16 + (size_t)hex_value(bytes[digits]);
  }
  *line = digits + 2;
  if (digits == length) return WEIR_HTTP_MORE;
  if (digits == 0 || bytes[digits] != '\r') return WEIR_HTTP_BROKEN;
  if (digits + 1 == length) return WEIR_HTTP_MORE;
  return bytes[digits + 1] == '\n' ? WEIR_HTTP_REQUEST : WEIR_HTTP_BROKEN;
}

static weir_http_reading refuse(int *status, int code, const char **why, const char *text) {
  *status = code;
  *why = text;
  return WEIR_HTTP_BROKEN;
}

weir_http_reading weir_http_read_chunks(weir_http_parser *parser, const weir_http_limits *limits,
                                        const char *bytes, size_t length, size_t head, size_t *body,
                                        int *status, const char **why) {
  size_t at = parser->chunk > 0 ? parser->chunk : head;
  size_t size = 1;
  while (size > 0) {
    size_t line;
    parser->chunk = (uint32_t)at;
    weir_http_reading reading = read_size(bytes + at, length - at, &size, &line);
    if (reading == WEIR_HTTP_MORE) return reading;
    if (reading == WEIR_HTTP_BROKEN)
      return refuse(status, BAD, why,
                    "a chunk begins with its size in hexadecimal digits, and \\r\\n");
    if (size > limits->body_bytes - parser->decoded ||
        at - head > 2 * limits->body_bytes + RAW_SPARE)
      return refuse(status, TOO_LONG, why, "the body is too long");
    parser->whole = (uint32_t)(at + line + size + 2);
    if (length < parser->whole) return WEIR_HTTP_MORE;
    if (memcmp(bytes + at + line + size, "\r\n", 2) != 0)
      return refuse(status, BAD, why, "a chunk is longer than it says, or has a trailer behind it");
    at = parser->whole;
    parser->decoded += (uint32_t)size;
  }
  *body = at - head;
  return WEIR_HTTP_REQUEST;
}

bool weir_http_next_chunk(const weir_http_request *request, size_t *position,
                          weir_http_text *chunk) {
  size_t size = 0;
  size_t line;
  const char *at = request->body.bytes + *position;
  read_size(at, request->body.length - *position, &size, &line);
  *chunk = (weir_http_text){at + line, size};
  *position += line + size + 2;
  return size > 0;
}

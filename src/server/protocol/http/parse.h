/* Requests of HTTP/1.1, read strictly: what two readers might read differently is refused. */
#ifndef WEIR_PROTOCOL_HTTP_PARSE_H
#define WEIR_PROTOCOL_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_http_limits {
  size_t header_bytes; /* request line and fields */
  size_t body_bytes;
} weir_http_limits;

/* Text in the request's own bytes. */
typedef struct weir_http_text {
  const char *bytes;
  size_t length;
} weir_http_text;

typedef struct weir_http_request {
  weir_http_text method, path, query; /* as sent; the query without its "?" */
  weir_http_text fields;              /* all lines of fields */
  weir_http_text body;
  bool is_chunked; /* the body stands in chunks: weir_http_next_chunk() */
  bool keeps_alive;
} weir_http_request;

/* What has been read of a request whose end has not come. Zero it at the start of each. */
typedef struct weir_http_parser {
  uint32_t position; /* the head does not end before */
  uint32_t whole;    /* bytes of the whole request; 0: not known */
  uint32_t chunk;    /* where the first chunk that is not whole begins; 0: not known */
  uint32_t decoded;  /* bytes of the body in chunks before it */
  bool wants_go_on;  /* has sent "Expect: 100-continue", and waits for an answer */
} weir_http_parser;

typedef enum weir_http_reading {
  WEIR_HTTP_MORE,    /* the end has not come */
  WEIR_HTTP_REQUEST, /* *used bytes are one; the parser is at a new start */
  WEIR_HTTP_BROKEN   /* *status and *why are the answer, and the connection's end */
} weir_http_reading;

/* Reads one request. `bytes` begins where it begins, with the same bytes at every call for it. */
weir_http_reading weir_http_parse(weir_http_parser *parser, const weir_http_limits *limits,
                                  const char *bytes, size_t length, size_t *used,
                                  weir_http_request *request, int *status, const char **why);

/* Goes over the fields: the value of the next one of this name (NULL: of any), without blanks
 * around it. Begin with *position 0. */
bool weir_http_next_field(const weir_http_request *request, const char *name, size_t *position,
                          weir_http_text *value);

/* Whether a text is this word, in letters of either case. */
bool weir_http_is(weir_http_text text, const char *word);

/* Whether this, and nothing else, is the path. */
bool weir_http_is_path(const weir_http_request *request, const char *path);

/* Of a hexadecimal digit; -1: it is none. */
int weir_http_hex_value(char digit);

/* The chunk at a position of the body, which goes on behind it. False: it was the last, which is
 * empty. */
bool weir_http_next_chunk(const weir_http_request *request, size_t *position,
                          weir_http_text *chunk);

#endif

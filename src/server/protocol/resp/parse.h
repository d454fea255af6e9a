/* Requests of RESP, as arrays of strings or as lines of words. */
#ifndef WEIR_PROTOCOL_RESP_PARSE_H
#define WEIR_PROTOCOL_RESP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_RESP_ARGUMENTS_MOST = 1024 }; /* whatever the limits say */

typedef struct weir_resp_limits {
  size_t arguments;     /* 1 to WEIR_RESP_ARGUMENTS_MOST */
  size_t request_bytes; /* all of one request, to 2^30 */
} weir_resp_limits;

typedef struct weir_resp_argument {
  const char *bytes;
  size_t length;
} weir_resp_argument;

/* Arguments stand where they were received. An empty one (a blank line, an array of nothing) has a
 * count of 0 and wants no answer. */
typedef struct weir_resp_request {
  size_t count;
  weir_resp_argument arguments[WEIR_RESP_ARGUMENTS_MOST];
} weir_resp_request;

/* What has been read of a request whose end has not come. Zero it at the start of each. */
typedef struct weir_resp_parser {
  uint32_t position; /* all before it has been read */
  uint32_t expected; /* arguments of the array; 0: not known */
  uint32_t count;    /* arguments found */
  uint32_t bulk;     /* length of the one that comes */
  bool in_bulk;
} weir_resp_parser;

typedef enum weir_resp_reading {
  WEIR_RESP_MORE,    /* the end has not come */
  WEIR_RESP_REQUEST, /* *used bytes are one; the parser is at a new start */
  WEIR_RESP_BROKEN   /* where the next one begins is not known; *why says what was wrong */
} weir_resp_reading;

/* Reads one request. `bytes` begins where it begins, with the same bytes at every call for it. */
weir_resp_reading weir_resp_parse(weir_resp_parser *parser, const weir_resp_limits *limits,
                                  const char *bytes, size_t length, size_t *used,
                                  weir_resp_request *request, const char **why);

#endif

/* The meaning of a RESP request, and the bytes of its answer. */
#ifndef WEIR_PROTOCOL_RESP_COMMAND_H
#define WEIR_PROTOCOL_RESP_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "protocol/bytes.h"
#include "protocol/order.h"
#include "protocol/verb.h"

/* --- requests as they are parsed ----------------------------------------------------------------
 *
 * Requests of RESP, as arrays of strings or as lines of words. */

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

/* The part that has been read of a request whose end has not come. Zero it at the start of each. */
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

/* --- commands -----------------------------------------------------------------------------------
 */

enum { WEIR_RESP_NAME_MOST = 64 }; /* bytes of CLIENT SETNAME */

/* The words of CL.THROTTLE and THROTTLE behind the key: max_burst, count, period and quantity.
 * Their words are kept as they came, since a client mostly brings the same again. */
enum { WEIR_RESP_FIGURES = 4, WEIR_RESP_FIGURE_BYTES = 64 };
typedef struct weir_resp_figures {
  size_t count;  /* of arguments of the request */
  size_t length; /* of text; 0: none is kept */
  int64_t each[WEIR_RESP_FIGURES];
  char text[WEIR_RESP_FIGURE_BYTES];
} weir_resp_figures;

/* One client. */
typedef struct weir_resp_session {
  weir_resp_figures figures;
  uint64_t id;
  char name[WEIR_RESP_NAME_MOST + 1];
  bool known;    /* has shown a credential, or need not */
  bool speaks_3; /* RESP3, since HELLO 3; else RESP2 */
  bool discards; /* since MULTI: nothing is carried out before its end */
} weir_resp_session;

/* A command's view of its server. */
typedef struct weir_resp_server {
  const weir_config_credential *credentials;
  size_t credential_count; /* 0: none is asked for */
  bool throttle;           /* CL.THROTTLE */
  bool throttlecrab;       /* THROTTLE */
  bool sets_limits;        /* WEIR.LIMIT */
  size_t key_most;         /* bytes of a key */
  /* How many keys the limiter or group of this name is asked with; NULL: one each. */
  size_t (*count_keys)(const void *context, const char *name, size_t length);
  const void *context;
} weir_resp_server;

typedef enum weir_resp_outcome {
  WEIR_RESP_ANSWERED, /* the answer is in `out` */
  WEIR_RESP_STRANGER, /* so is the refusal of a credential that is none */
  WEIR_RESP_ASKS,     /* *order is to be decided */
  WEIR_RESP_INFO,     /* the server is to describe itself: a bulk string */
  WEIR_RESP_LEAVES    /* the answer is in `out`; then the connection ends */
} weir_resp_outcome;

/* Runs one request of at least one argument. The room need not be filled in. */
weir_resp_outcome weir_resp_run(weir_resp_session *session, const weir_resp_server *server,
                                const weir_resp_request *request, weir_bytes *out,
                                weir_order *order, weir_order_room *room);

/* Whether it brings a user or password. */
bool weir_resp_shows_credential(const weir_resp_request *request);

/* The answer to what a command asked. */
void weir_resp_answer(const weir_order *order, const weir_reply *reply, weir_bytes *out);

/* "-ERR text"; what is not printable ASCII becomes "?". */
void weir_resp_error(weir_bytes *out, const char *text);
void weir_resp_bulk(weir_bytes *out, const char *bytes, size_t length);

#endif

/* The question of an HTTP request, and the bytes of its answer. */
#ifndef WEIR_PROTOCOL_HTTP_CALL_H
#define WEIR_PROTOCOL_HTTP_CALL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "protocol/bytes.h"
#include "protocol/order.h"
#include "protocol/verb.h"

/* --- requests as they are parsed ----------------------------------------------------------------
 *
 * Requests of HTTP/1.1, read strictly: what two readers might read differently is refused. */

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
  weir_http_text host;                /* of a target with "http://" before it; else empty */
  weir_http_text fields;              /* all lines of fields */
  weir_http_text body;
  bool is_chunked; /* the body stands in chunks: weir_http_next_chunk() */
  bool keeps_alive;
} weir_http_request;

/* The part that has been read of a request whose end has not come. Zero it at the start of each. */
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

/* The value of a hexadecimal digit; -1: it is none. */
int weir_http_hex_value(char digit);

/* The chunk at a position of the body, which goes on behind it. False: it was the last, which is
 * empty. */
bool weir_http_next_chunk(const weir_http_request *request, size_t *position,
                          weir_http_text *chunk);

/* --- calls --------------------------------------------------------------------------------------
 */

enum { WEIR_HTTP_TEXT_MOST = 16 * 1024 }; /* of X-Forwarded-For; what is longer is no request */

/* How an answer is worded: weir_order.form. */
enum weir_http_form {
  WEIR_HTTP_CHECK,    /* by its status */
  WEIR_HTTP_DECISION, /* JSON with all there is */
  WEIR_HTTP_THROTTLE  /* JSON as throttlecrab words it */
};

/* The form that the answer must have besides: bits, kept beside what is asked. */
enum weir_http_format {
  WEIR_HTTP_CLOSES = 1 << 0,
  WEIR_HTTP_HEAD = 1 << 1,
  WEIR_HTTP_READS = 1 << 2, /* GET and HEAD are what a 405 allows; */
  WEIR_HTTP_SETS = 1 << 3   /* or GET, PUT and DELETE; else POST is */
};

/* One call. Zero it before use, and free what it holds when the request has been passed on. */
typedef struct weir_http_call {
  weir_order order;
  weir_order_room room;      /* for `order` to point to */
  weir_envoy_request *envoy; /* what is asked instead, by POST /json; else NULL */
  weir_config_key key;       /* of a check: where its key stands */
  json_t *body;              /* holds what `order` or `envoy` points to */
  weir_bytes text;           /* the same */
} weir_http_call;

void weir_http_call_free(weir_http_call *call);

/* An answer in place of a decision: a status of HTTP and a sentence. */
typedef struct weir_http_refusal {
  int status;
  weir_message why;
} weir_http_refusal;

/* Reads the question of a request from its method, path and body. For a check (form
 * WEIR_HTTP_CHECK) the key is still to be found, as the limiter has a say in where it stands.
 * False: *refusal is the answer. */
bool weir_http_read_call(const weir_http_request *request, weir_http_call *call,
                         weir_http_refusal *refusal);

/* The key of a check, behind what call->text holds by then. `peer`: the address that the connection
 * comes from. */
bool weir_http_read_key(const weir_http_request *request, const weir_config_listener *listener,
                        const weir_config_key *where, const char *peer, weir_http_call *call,
                        weir_http_refusal *refusal);

/* Where a check does not say its class or tenant, and a limiter's configuration says where they stand: reads what
 * stands there, if anything does. */
bool weir_http_read_given(const weir_http_request *request, const weir_config_listener *listener,
                          const weir_config_limiter *limiter, const char *peer,
                          weir_http_call *call, weir_http_refusal *refusal);

/* False: *refusal says why it may be from a page of another origin, in its user's browser. Where Host
 * is there, or a host in the target, which counts in its stead, it must be loopback, the address where the listener listens (`own`), or one of its hosts.
 * `may_be_opened`: also as a page of its own, by a link that stands elsewhere. */
bool weir_http_is_from_here(const weir_http_request *request, const weir_config_listener *listener,
                            const struct sockaddr_storage *own, bool may_be_opened,
                            weir_http_refusal *refusal);

/* Whether the path is one that proxies ask for, such as /check/LIMITER: with the fields of
 * the browser that asks them, so it may come from anywhere. */
bool weir_http_is_check(const weir_http_request *request);

/* Whether the path is that of a key's limit. */
bool weir_http_is_limit(const weir_http_request *request);

/* Whether the value of "Authorization" shows one of these tokens; none are needed: true. */
bool weir_http_is_token(weir_http_text shown, const weir_config_credential *tokens, size_t count);

/* --- answers ---------------------------------------------------------------------------------- */

void weir_http_answer(const weir_order *order, unsigned format,
                      const weir_config_listener *listener, const weir_reply *reply,
                      weir_bytes *out);

/* To POST /json. */
void weir_http_answer_envoy(const weir_envoy_answer *answer, unsigned format, weir_bytes *out);

/* Words a refusal, where there is no answer. */
void weir_http_word_envoy(const weir_envoy_refusal *refusal, weir_http_refusal *worded);

/* A problem of application/problem+json. */
void weir_http_refuse(const weir_http_refusal *refusal, unsigned format, weir_bytes *out);

/* Any other body. */
void weir_http_text_answer(int status, const char *type, const weir_bytes *body, unsigned format,
                           weir_bytes *out);

/* --- between the files of this folder -----------------------------------------------------------
 */

/* Fills in the refusal, of printable ASCII; false. */
bool weir_http_decline(weir_http_refusal *refusal, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A member of an object: what it is called, and where it goes. null is as if it were not there. */
typedef struct weir_http_member {
  const char *name;
  const char *other;         /* its second spelling; NULL: none */
  const char **text;         /* a string, which is not empty where it is needed, with its length: */
  size_t *length;            /* or, with its count, a list of */
  weir_order_key *texts;     /* 1 to WEIR_CONFIG_MEMBERS_MOST strings that are not empty, */
  int64_t *number;           /* or a whole number, */
  weir_order_amount *amount; /* one for every rule, or, unless is_one, a list of one for each, */
  int64_t *hits; /* one from 0 to WEIR_ORDER_COST_MOST, which stands for more, perhaps quoted, */
  bool *flag;    /* true or false, */
  const json_t **list; /* an array of objects, */
  json_t **object;     /* an object, */
  const json_t **any;  /* or whatever it is */
  bool needed, is_one;
  bool is_any_other; /* of the last one: stands for all that are not named */
} weir_http_member;

/* Whether the body says that it is JSON: no page may send that to another origin unasked. */
bool weir_http_is_json(const weir_http_request *request, weir_http_refusal *refusal);

/* Reads a request's body as an object that has these members and no other; call->body holds it then. */
bool weir_http_read_body(const weir_http_request *request, const weir_http_member *members,
                         size_t count, weir_http_call *call, weir_http_refusal *refusal);

/* Reads the body of POST /json. */
bool weir_http_read_envoy(const weir_http_request *request, weir_http_call *call,
                          weir_http_refusal *refusal);

#endif

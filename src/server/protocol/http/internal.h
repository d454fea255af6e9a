/* What the files of this folder share. */
#ifndef WEIR_PROTOCOL_HTTP_INTERNAL_H
#define WEIR_PROTOCOL_HTTP_INTERNAL_H

#include "protocol/http/call.h"

/* Fills in the refusal, of printable ASCII; false. */
bool weir_http_decline(weir_http_refusal *refusal, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A member of an object: what it is called, and where it goes. null is as if it were not there. */
typedef struct weir_http_member {
  const char *name;
  const char *other; /* its second spelling; NULL: none */
  const char **text; /* a string, which is not empty where it is needed, with its length: */
  size_t *length;
  int64_t *number; /* or a whole number, */
  int64_t *hits;   /* one from 0 to WEIR_ASK_COST_MOST, which stands for more, perhaps quoted, */
  bool *flag;      /* true or false, */
  const json_t **list; /* an array of objects, */
  json_t **object;     /* an object, */
  const json_t **any;  /* or whatever it is */
  bool needed;
  bool is_any_other; /* of the last one: stands for all that are not named */
} weir_http_member;

/* Reads an object that has these members and no other. `where`: what stands before their names in
 * messages, "descriptors[0]." */
bool weir_http_read_object(json_t *object, const char *where, const weir_http_member *members,
                           size_t count, weir_http_refusal *refusal);

/* The same of a request's body, which call->body holds then. */
bool weir_http_read_body(const weir_http_request *request, const weir_http_member *members,
                         size_t count, weir_http_call *call, weir_http_refusal *refusal);

/* Whether its type says that the body is JSON. */
bool weir_http_is_json(const weir_http_request *request, weir_http_refusal *refusal);

/* Of POST /json. */
bool weir_http_read_envoy(const weir_http_request *request, weir_http_call *call,
                          weir_http_refusal *refusal);

/* A status line, and what stands behind the fields of an answer: type, length and body. */
void weir_http_begin(int status, weir_bytes *out);
void weir_http_end(const char *type, const weir_bytes *body, unsigned format, weir_bytes *out);

/* Text that is valid UTF-8 or ASCII, as a string of JSON. */
void weir_http_write_string(weir_bytes *out, const char *text, size_t length);

#endif

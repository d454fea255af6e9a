/* What the files of this folder share. */
#ifndef WEIR_PROTOCOL_HTTP_INTERNAL_H
#define WEIR_PROTOCOL_HTTP_INTERNAL_H

#include "protocol/http/call.h"

/* Fills in the refusal, of printable ASCII; false. */
bool weir_http_decline(weir_http_refusal *refusal, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A member of an object: what it is called, and where it goes. */
typedef struct weir_http_member {
  const char *name;
  const char **text; /* a string that is not empty, with its length: */
  size_t *length;
  int64_t *number;     /* or a whole number */
  bool *flag;          /* or true or false */
  const json_t **list; /* or an array */
  const json_t **any;  /* or whatever it is */
  bool needed;
} weir_http_member;

/* Reads an object that has these members and no other. */
bool weir_http_read_object(json_t *object, const weir_http_member *members, size_t count,
                           weir_http_refusal *refusal);

/* The same of a request's body, which call->body holds then. */
bool weir_http_read_body(const weir_http_request *request, const weir_http_member *members,
                         size_t count, weir_http_call *call, weir_http_refusal *refusal);

/* A status line, and what stands behind the fields of an answer: type, length and body. */
void weir_http_begin(int status, weir_bytes *out);
void weir_http_end(const char *type, const weir_bytes *body, unsigned manner, weir_bytes *out);

#endif

/* gRPC over HTTP/2, of one client: bytes in, calls out of them, answers back as bytes.
 *
 * HTTP/2 lets a client make much of little, which is bounded here: streams, the fields of one, what
 * is kept of requests that are not whole, frames that ask for nothing, streams that are reset
 * unanswered. */
#ifndef WEIR_PROTOCOL_GRPC_SESSION_H
#define WEIR_PROTOCOL_GRPC_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/bytes.h"
#include "protocol/order.h"

/* --- messages -----------------------------------------------------------------------------------
 *
 * The messages of Envoy's rate limit service and of gRPC's health service, as protobuf writes them.
 * docs/decisions/grpc-is-read-where-it-stands.md says why they are read by hand. */

/* RateLimitRequest. Its texts point into `bytes`: any bytes, as keys of weir are. Fields that are not
 * known are passed over. False: *why says what is wrong. */
bool weir_grpc_read_request(const char *bytes, size_t length, weir_envoy_request *request,
                            weir_message *why);

/* RateLimitResponse. */
void weir_grpc_write_answer(const weir_envoy_answer *answer, weir_bytes *out);

/* HealthCheckRequest: which service is asked for, empty for all of the server. */
bool weir_grpc_read_health(const char *bytes, size_t length, const char **service,
                           size_t *service_length, weir_message *why);

/* Numbered as on the wire. */
typedef enum weir_grpc_health {
  WEIR_GRPC_SERVING = 1,
  WEIR_GRPC_NOT_SERVING = 2,
  WEIR_GRPC_SERVICE_UNKNOWN = 3
} weir_grpc_health;

/* HealthCheckResponse. */
void weir_grpc_write_health(weir_grpc_health health, weir_bytes *out);

/* --- a client's session -------------------------------------------------------------------------
 */

typedef struct weir_grpc_session weir_grpc_session;

typedef struct weir_grpc_limits {
  uint32_t streams;     /* open at once */
  size_t header_bytes;  /* of one, as HTTP/2 counts them: 32 more for each field */
  size_t message_bytes; /* of one; of all that are not whole WEIR_GRPC_UNFINISHED times so much */
} weir_grpc_limits;

enum { WEIR_GRPC_UNFINISHED = 16 };

/* Statuses that are answered, numbered as on the wire. */
typedef enum weir_grpc_status {
  WEIR_GRPC_OK = 0,
  WEIR_GRPC_INVALID_ARGUMENT = 3,
  WEIR_GRPC_DEADLINE_EXCEEDED = 4,
  WEIR_GRPC_NOT_FOUND = 5,
  WEIR_GRPC_RESOURCE_EXHAUSTED = 8,
  WEIR_GRPC_UNIMPLEMENTED = 12,
  WEIR_GRPC_INTERNAL = 13,
  WEIR_GRPC_UNAVAILABLE = 14,
  WEIR_GRPC_UNAUTHENTICATED = 16
} weir_grpc_status;

typedef enum weir_grpc_method {
  WEIR_GRPC_NO_METHOD,
  WEIR_GRPC_SHOULD_RATE_LIMIT, /* of envoy.service.ratelimit.v3.RateLimitService */
  WEIR_GRPC_CHECK,             /* of grpc.health.v1.Health, as */
  WEIR_GRPC_WATCH
} weir_grpc_method;

extern const char weir_grpc_service[]; /* RateLimitService, with its package */

/* A request that is whole. Its texts live until it is answered. */
typedef struct weir_grpc_call {
  int32_t stream;
  weir_grpc_method method;
  const char *credential; /* of the field "authorization"; NULL: it has none */
  size_t credential_length;
  const char *id;     /* of the field "x-request-id" */
  size_t id_length;   /* 0: it has none, or one that weir_order_is_id() does not know */
  int64_t timeout_us; /* INT64_MAX: it has its time */
  bool is_too_long;   /* its fields or its message: nothing of that was kept */
  const char *message;
  size_t length;
} weir_grpc_call;

/* `gone` is called with what weir_grpc_note() has said of a call whose client has reset it before it
 * was answered. Limits may be those of one moment. NULL: no memory. */
weir_grpc_session *weir_grpc_open(const weir_grpc_limits *limits,
                                  void (*gone)(void *owner, uint32_t note), void *owner);
void weir_grpc_close(weir_grpc_session *session); /* NULL is fine */

typedef enum weir_grpc_reading {
  WEIR_GRPC_MORE, /* of a frame */
  WEIR_GRPC_READ, /* *used bytes, and no call came of them */
  WEIR_GRPC_CALL, /* *used bytes, and *call is to be answered */
  WEIR_GRPC_ENDS  /* nothing more is read: what weir_grpc_write() still says is the end */
} weir_grpc_reading;

/* Reads frames off the front, up to the first call that is whole. `now_us`: a clock that does not
 * go back. A request that is no call (of another path, say) is answered without being one. */
weir_grpc_reading weir_grpc_read(weir_grpc_session *session, const char *bytes, size_t length,
                                 int64_t now_us, size_t *used, weir_grpc_call *call);

/* Whether it ended as the client broke a rule: known once weir_grpc_write() has written its end. */
bool weir_grpc_is_broken(const weir_grpc_session *session);

/* --- answers: once for each call, none for one that is gone -------------------------------------
 */

/* Whether somebody still waits for the answer. */
bool weir_grpc_is_open(weir_grpc_session *session, int32_t stream);

/* Sets the note of the call that `gone` is given. */
void weir_grpc_note(weir_grpc_session *session, int32_t stream, uint32_t note);

/* Where the answer's message is to be written: behind what is there. NULL: it is gone, or there is
 * no memory. Then it is sent. */
weir_bytes *weir_grpc_begin_answer(weir_grpc_session *session, int32_t stream);
void weir_grpc_end_answer(weir_grpc_session *session, int32_t stream);

/* `why`: printable ASCII or not, it is escaped. */
void weir_grpc_refuse(weir_grpc_session *session, int32_t stream, weir_grpc_status status,
                      const char *why);

/* To WEIR_GRPC_WATCH: it is told this now, and more when the session ends. */
void weir_grpc_watch(weir_grpc_session *session, int32_t stream, weir_grpc_health health);

/* --- time and end -------------------------------------------------------------------------------
 */

/* Refuses what has begun before and is not whole yet; how many were there. */
size_t weir_grpc_expire(weir_grpc_session *session, int64_t before_us);

/* Asks the client to begin no more. Calls that it began before it knew are read and answered. Asked
 * again, it is nothing. */
void weir_grpc_leave(weir_grpc_session *session);
bool weir_grpc_is_leaving(const weir_grpc_session *session);

/* Ends it, whatever is not answered. */
void weir_grpc_dismiss(weir_grpc_session *session);

/* Whether it has nothing to write that it could. */
bool weir_grpc_is_quiet(weir_grpc_session *session);

/* Writes the bytes to be sent, so far as the client's windows let it. False: that was the last. */
bool weir_grpc_write(weir_grpc_session *session, weir_bytes *out);

/* The bytes for a client that comes when there are too many: WEIR_GRPC_FULL_BYTES. */
extern const char weir_grpc_full[];
enum { WEIR_GRPC_FULL_BYTES = 26 };

#endif

/* gRPC over a connection: Envoy's rate limit service, and the health of the server. */
#include <string.h>

#include "serve/protocols.h"

/* Connections that began together do not all leave together. */
enum { AGE_PARTS = 1024, AGE_PARTS_LEAST = 922 };

static weir_grpc_session *session_of(const weir_connection *connection) {
  return connection->speaks.grpc.session;
}

/* The client has reset a call that is not answered. */
static void forget(void *self, uint32_t answer) {
  weir_connection *connection = self;
  weir_turn_cancel(&connection->loop->turn, answer);
}

static void begin(weir_connection *connection) {
  const weir_config_limits *limits = weir_loop_limits(connection->loop);
  const weir_grpc_limits most = {.streams = (uint32_t)limits->grpc_streams,
                                 .header_bytes = (size_t)limits->http_header_bytes,
                                 .message_bytes = (size_t)limits->grpc_message_bytes};
  connection->speaks.grpc.session = weir_grpc_open(&most, forget, connection);
  connection->speaks.grpc.began_us = connection->loop->turn.now_us;
  /* Spread evenly, whichever of them come first. */
  uint32_t spread = (uint32_t)connection->loop->connections_made * UINT32_C(0x9E3779B1);
  spread += connection->loop->index * UINT32_C(0x85EBCA6B);
  connection->speaks.grpc.parts =
      AGE_PARTS_LEAST + spread / (UINT32_MAX / (AGE_PARTS - AGE_PARTS_LEAST));
}

static void end(weir_connection *connection) {
  weir_grpc_close(session_of(connection));
}

/* --- calls ------------------------------------------------------------------------------------ */

static void refuse(weir_connection *connection, int32_t stream, const weir_envoy_refusal *refusal) {
  static const weir_grpc_status statuses[] = {[WEIR_ENVOY_WELL] = WEIR_GRPC_OK,
                                              [WEIR_ENVOY_BAD_REQUEST] = WEIR_GRPC_INVALID_ARGUMENT,
                                              [WEIR_ENVOY_NO_FILES] = WEIR_GRPC_NOT_FOUND,
                                              [WEIR_ENVOY_UNAVAILABLE] = WEIR_GRPC_UNAVAILABLE,
                                              [WEIR_ENVOY_EXPIRED] = WEIR_GRPC_DEADLINE_EXCEEDED};
  weir_grpc_refuse(session_of(connection), stream, statuses[refusal->failure], refusal->why.text);
}

static void ask(weir_connection *connection, const weir_grpc_call *call) {
  weir_envoy_request request;
  weir_envoy_refusal refusal = {.failure = WEIR_ENVOY_BAD_REQUEST};
  /* Its time is counted from when its bytes came. */
  bool has_end = call->timeout_us < WEIR_TURN_NO_END - connection->arrived_us;
  int64_t until_us = has_end ? connection->arrived_us + call->timeout_us : WEIR_TURN_NO_END;
  if (weir_grpc_read_request(call->message, call->length, &request, &refusal.why) &&
      weir_serve_ask_envoy(connection, &request, (unsigned)call->stream, until_us, &refusal)) {
    weir_grpc_note(session_of(connection), call->stream, connection->last_answer);
    weir_turn_set_id(&connection->loop->turn, connection->last_answer, call->id, call->id_length);
  } else {
    refuse(connection, call->stream, &refusal);
  }
}

/* A client of Envoy may have written so much, and Envoy lets pass whose call ends with an error: so it is over its
 * limit, as one with too long a key. Where every limiter is in shadow mode, none has a say. */
static void deny(weir_connection *connection, int32_t stream) {
  const weir_envoy_answer over = {.is_over = !connection->loop->turn.registry->config->shadow};
  weir_grpc_session *session = session_of(connection);
  weir_serve_count(&connection->loop->served.counts.too_long, 1);
  weir_bytes *message = weir_grpc_begin_answer(session, stream);
  if (message != NULL) weir_grpc_write_answer(&over, message);
  weir_grpc_end_answer(session, stream);
}

static void tell_health(weir_connection *connection, const weir_grpc_call *call) {
  weir_grpc_session *session = session_of(connection);
  weir_envoy_refusal refusal = {.failure = WEIR_ENVOY_BAD_REQUEST};
  const char *service;
  size_t length;
  if (!weir_grpc_read_health(call->message, call->length, &service, &length, &refusal.why)) {
    refuse(connection, call->stream, &refusal);
    return;
  }
  const weir_loop *loop = connection->loop;
  bool drains = loop->is_draining || atomic_load(&loop->must_drain);
  weir_grpc_health health = drains ? WEIR_GRPC_NOT_SERVING : WEIR_GRPC_SERVING;
  bool is_own =
      length == strlen(weir_grpc_service) && memcmp(service, weir_grpc_service, length) == 0;
  if (length > 0 && !is_own) health = WEIR_GRPC_SERVICE_UNKNOWN; /* empty: all of the server */
  if (call->method == WEIR_GRPC_WATCH) {
    weir_grpc_watch(session, call->stream, health);
  } else if (health == WEIR_GRPC_SERVICE_UNKNOWN) {
    weir_grpc_refuse(session, call->stream, WEIR_GRPC_NOT_FOUND, "there is no such service");
  } else {
    weir_bytes *message = weir_grpc_begin_answer(session, call->stream);
    if (message != NULL) weir_grpc_write_health(health, message);
    weir_grpc_end_answer(session, call->stream);
  }
}

/* False: its credential has to wait. */
static bool run(weir_connection *connection, const weir_grpc_call *call) {
  const weir_http_text shown = {call->credential, call->credential_length};
  weir_serve_standing standing =
      weir_serve_look_at_credential(connection, call->credential != NULL ? &shown : NULL);
  if (standing == WEIR_SERVE_HELD) return false;
  weir_serve_count(&connection->loop->served.counts.grpc, 1);
  if (standing == WEIR_SERVE_STRANGER)
    weir_grpc_refuse(session_of(connection), call->stream, WEIR_GRPC_UNAUTHENTICATED,
                     "a bearer token is needed");
  else if (call->is_too_long && call->method == WEIR_GRPC_SHOULD_RATE_LIMIT)
    deny(connection, call->stream);
  else if (call->is_too_long)
    weir_grpc_refuse(session_of(connection), call->stream, WEIR_GRPC_RESOURCE_EXHAUSTED,
                     "the message is too long");
  else if (call->method == WEIR_GRPC_SHOULD_RATE_LIMIT)
    ask(connection, call);
  else
    tell_health(connection, call);
  return true;
}

static bool go_on(weir_connection *connection) {
  weir_grpc_call held = connection->speaks.grpc.held;
  if (!connection->speaks.grpc.has_held) return true;
  connection->speaks.grpc.has_held = !run(connection, &held);
  if (!connection->speaks.grpc.has_held) weir_connection_touch(connection);
  return !connection->speaks.grpc.has_held;
}

static weir_read_result read_calls(weir_connection *connection, const char *bytes, size_t length,
                                   size_t *used) {
  weir_grpc_session *session = session_of(connection);
  weir_read_result result = WEIR_READ_ONE;
  weir_grpc_call call;
  if (session == NULL) return WEIR_READ_ENDS;
  switch (weir_grpc_read(session, bytes, length, connection->arrived_us, used, &call)) {
    case WEIR_GRPC_MORE:
      return WEIR_READ_MORE;
    case WEIR_GRPC_READ:
      break;
    case WEIR_GRPC_CALL:
      if (run(connection, &call)) break;
      connection->speaks.grpc.held = call;
      connection->speaks.grpc.has_held = true;
      result = WEIR_READ_HELD;
      break;
    case WEIR_GRPC_ENDS:
      result = WEIR_READ_ENDS;
      break;
  }
  if (!weir_grpc_is_quiet(session)) weir_connection_touch(connection);
  return result;
}

/* --- answers ---------------------------------------------------------------------------------- */

static void word_answer(weir_connection *connection, const weir_turn *turn,
                        const weir_answer *answer, weir_bytes *out) {
  weir_grpc_session *session = session_of(connection);
  int32_t stream = (int32_t)answer->note;
  weir_envoy_answer told;
  weir_envoy_refusal refusal;
  (void)out; /* which it goes into when its session is flushed */
  if (!weir_grpc_is_open(session, stream)) {
    weir_serve_count(&connection->loop->served.counts.cancelled, 1);
    return;
  }
  if (!weir_envoy_reply(turn, &connection->loop->served, answer, WEIR_SERVED_GRPC, &told,
                        &refusal)) {
    refuse(connection, stream, &refusal);
    return;
  }
  weir_bytes *message = weir_grpc_begin_answer(session, stream);
  if (message != NULL) weir_grpc_write_answer(&told, message);
  weir_grpc_end_answer(session, stream);
}

/* All that a client may not do ends in its session's last frames, whoever found out. */
static bool flush(weir_connection *connection, weir_bytes *out) {
  weir_grpc_session *session = session_of(connection);
  bool goes_on = session != NULL && weir_grpc_write(session, out);
  if (session != NULL && weir_grpc_is_broken(session)) weir_connection_note_broken(connection);
  return goes_on;
}

static bool leave(weir_connection *connection) {
  weir_grpc_session *session = session_of(connection);
  if (session == NULL || connection->is_leaving) return false;
  weir_grpc_leave(session);
  connection->is_leaving = true;
  return true;
}

/* A client stays with the server that it has found, also where there are more of them since: so one
 * that has been here for long is told to go, and comes to any of them. Calls that it has begun are
 * answered; one that goes on all the same is cut off. */
static void look_at_age(weir_connection *connection) {
  const weir_config_limits *limits = weir_loop_limits(connection->loop);
  int64_t now_us = connection->loop->turn.now_us;
  int64_t age_us = now_us - connection->speaks.grpc.began_us;
  int64_t most_us = limits->grpc_age_us / AGE_PARTS * connection->speaks.grpc.parts;
  int64_t *told_us = &connection->speaks.grpc.told_us;
  bool is_told = age_us >= most_us && leave(connection);
  bool is_over = *told_us != 0 && now_us - *told_us > limits->drain_us;
  if (is_told) *told_us = now_us;
  if (is_over) weir_grpc_dismiss(session_of(connection));
  if (is_told || is_over) weir_connection_touch(connection);
}

/* A request that does not get whole is refused, and the others of its connection go on. */
static void sweep(weir_connection *connection) {
  weir_loop *loop = connection->loop;
  weir_grpc_session *session = session_of(connection);
  if (session == NULL || connection->state != WEIR_CONNECTION_OPEN) return;
  look_at_age(connection);
  size_t count =
      weir_grpc_expire(session, loop->turn.now_us - weir_loop_limits(loop)->first_bytes_us);
  weir_serve_count(&loop->served.counts.timeouts, count);
  if (count > 0) weir_connection_touch(connection);
}

const weir_protocol weir_protocol_grpc = {
    .name = "grpc",
    .begin = begin,
    .read = read_calls,
    .answer = word_answer,
    .full = weir_grpc_full,
    .full_length = WEIR_GRPC_FULL_BYTES,
    .end = end,
    .go_on = go_on,
    .flush = flush,
    .leave = leave,
    .sweep = sweep,
};

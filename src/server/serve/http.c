/* HTTP over a connection. */
#include <string.h>

#include "protocol/http/call.h"
#include "serve/connection.h"
#include "serve/envoy.h"
#include "serve/http.h"
#include "serve/loop.h"
#include "serve/server.h"

static void queue_refusal(weir_connection *connection, const weir_http_refusal *refusal,
                          unsigned manner) {
  weir_bytes *text = &connection->loop->reply; /* free until the tick's answers are worded */
  text->length = 0;
  weir_http_refuse(refusal, manner, text);
  weir_connection_queue_text(connection, text->data, text->length);
}

weir_http_reading weir_serve_read_http(weir_connection *connection, const char *bytes,
                                       size_t length, size_t *used, weir_http_request *request) {
  static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
  const weir_config_limits *limits = weir_loop_limits(connection->loop);
  const weir_http_limits most = {(size_t)limits->http_header_bytes,
                                 (size_t)limits->http_body_bytes};
  weir_http_parser *parser = &connection->speaks.http;
  weir_http_refusal refusal = {.status = 400};
  const char *why = NULL;
  weir_http_reading reading =
      weir_http_parse(parser, &most, bytes, length, used, request, &refusal.status, &why);
  if (reading == WEIR_HTTP_MORE && parser->wants_go_on) {
    parser->wants_go_on = false;
    weir_connection_queue_text(connection, go_on, sizeof go_on - 1);
  }
  if (reading != WEIR_HTTP_BROKEN) return reading;
  weir_serve_count(&connection->loop->counts.broken, 1);
  memcpy(refusal.why.text, why, strlen(why) + 1);
  queue_refusal(connection, &refusal, WEIR_HTTP_CLOSES);
  return reading;
}

unsigned weir_serve_manner(const weir_http_request *request) {
  return (request->keeps_alive ? 0U : WEIR_HTTP_CLOSES) |
         (weir_http_is(request->method, "HEAD") ? WEIR_HTTP_HEAD : 0U);
}

bool weir_serve_is_from_here(weir_connection *connection, const weir_http_request *request,
                             bool may_be_opened, weir_http_refusal *refusal) {
  const weir_port *port = connection->port;
  const weir_socket *opened = &connection->loop->server->sockets[port->index];
  if (weir_http_is_from_here(request, port->config, &opened->address, may_be_opened, refusal))
    return true;
  weir_serve_count(&connection->loop->counts.foreign, 1);
  return false;
}

/* One that shows nothing guesses nothing. */
weir_serve_standing weir_serve_look_at_credential(weir_connection *connection,
                                                  const weir_http_text *shown) {
  const weir_config_listener *listener = connection->port->config;
  if (listener->credential_count == 0) return WEIR_SERVE_KNOWN;
  if (shown == NULL) {
    weir_serve_count(&connection->loop->counts.unauthorized, 1);
    return WEIR_SERVE_STRANGER;
  }
  if (!connection->has_shown && weir_connection_is_held(connection)) return WEIR_SERVE_HELD;
  connection->has_shown =
      weir_http_is_token(*shown, listener->credentials, listener->credential_count);
  if (!connection->has_shown) weir_connection_note_guess(connection);
  return connection->has_shown ? WEIR_SERVE_KNOWN : WEIR_SERVE_STRANGER;
}

weir_serve_standing weir_serve_look_at_token(weir_connection *connection,
                                             const weir_http_request *request) {
  weir_http_text shown;
  size_t position = 0;
  bool shows = weir_http_next_field(request, "Authorization", &position, &shown);
  return weir_serve_look_at_credential(connection, shows ? &shown : NULL);
}

static void begin(weir_connection *connection) {
  connection->speaks.http = (weir_http_parser){0};
}

/* The key of a check is where its limiter says, or else where the listener does. */
static bool find_key(weir_connection *connection, const weir_http_request *request,
                     weir_http_call *call, weir_http_refusal *refusal) {
  char peer[WEIR_CLIENT_ADDRESS_TEXT_BYTES];
  const weir_config_listener *listener = connection->port->config;
  const weir_config_key *where = &listener->key;
  if (call->ask.form == WEIR_HTTP_CHECK) {
    const weir_named *named = weir_registry_find(connection->loop->tick.registry, call->ask.limiter,
                                                 call->ask.limiter_length);
    if (named == NULL) return true; /* it will be said that there is none */
    if (weir_named_config(named)->has_key) where = &weir_named_config(named)->key;
    weir_client_address_write(&connection->peer, peer);
    if (!weir_http_read_key(request, listener, where, peer, call, refusal)) return false;
  }
  if (call->ask.key_length <= (size_t)weir_loop_limits(connection->loop)->key_bytes) return true;
  *refusal = (weir_http_refusal){400, {"the key is too long"}};
  return false;
}

/* One that stands there twice names nothing. Without a log of denials it is not looked for. */
static void note_id(weir_connection *connection, const weir_http_request *request) {
  weir_http_text id;
  weir_http_text second;
  size_t position = 0;
  if (weir_loop_limits(connection->loop)->logged_denials > 0 &&
      weir_http_next_field(request, "X-Request-Id", &position, &id) &&
      !weir_http_next_field(request, "X-Request-Id", &position, &second))
    weir_tick_set_id(&connection->loop->tick, connection->last_slot, id.bytes, id.length);
}

/* What changes counts must be meant: not sent by a page that somebody looks at. */
static bool is_meant(weir_connection *connection, const weir_http_request *request,
                     weir_http_refusal *refusal) {
  if (!weir_http_is(request->method, "POST") || weir_http_is_check(request)) return true;
  return weir_serve_is_from_here(connection, request, false, refusal);
}

static bool ask(weir_connection *connection, const weir_http_request *request, unsigned manner,
                weir_http_call *call, weir_http_refusal *refusal) {
  weir_status status;
  const weir_config *config = weir_registry_config(connection->loop->tick.registry);
  if (!is_meant(connection, request, refusal) || !weir_http_read_call(request, call, refusal))
    return false;
  if (call->envoy != NULL) {
    weir_envoy_refusal why;
    if (weir_serve_ask_envoy(connection, call->envoy, manner, WEIR_TICK_NO_END, &why)) return true;
    weir_http_word_envoy(&why, refusal);
    return false;
  }
  if (call->ask.brings_rule && !(config->throttle.enabled && config->throttle.throttlecrab)) {
    *refusal = (weir_http_refusal){404, {"/throttle is off: throttle.throttlecrab"}};
    return false;
  }
  if (!find_key(connection, request, call, refusal)) return false;
  uint32_t slot =
      weir_tick_add_ask(&connection->loop->tick, &call->ask, manner, &status, &refusal->why);
  if (status == WEIR_OK) {
    weir_connection_queue(connection, slot);
    return true;
  }
  bool unknown = status == WEIR_BAD_ARGUMENT && !call->ask.brings_rule;
  bool caller = weir_status_classify(status) == WEIR_CLASS_CALLER;
  refusal->status = unknown ? 404 : caller ? 400 : 503;
  return false;
}

/* What throttlecrab's clients ask before anything else. */
static bool asks_health(const weir_connection *connection, const weir_http_request *request) {
  const weir_config *config = weir_registry_config(connection->loop->tick.registry);
  bool is_path = request->path.length == 7 && memcmp(request->path.bytes, "/health", 7) == 0;
  return is_path && config->throttle.enabled && config->throttle.throttlecrab;
}

static void queue_health(weir_connection *connection, unsigned manner) {
  weir_bytes *text = &connection->loop->reply;
  text->length = 0;
  weir_http_text_answer(200, "text/plain; charset=utf-8", "OK", 2, manner, text);
  weir_connection_queue_text(connection, text->data, text->length);
}

static weir_progress read_request(weir_connection *connection, const char *bytes, size_t length,
                                  size_t *used) {
  weir_http_request request;
  weir_http_reading reading = weir_serve_read_http(connection, bytes, length, used, &request);
  if (reading == WEIR_HTTP_MORE) return WEIR_PROGRESS_MORE;
  if (reading == WEIR_HTTP_BROKEN) return WEIR_PROGRESS_ENDS;
  weir_serve_standing standing = weir_serve_look_at_token(connection, &request);
  if (standing == WEIR_SERVE_HELD) *used = 0;
  if (standing == WEIR_SERVE_HELD) return WEIR_PROGRESS_HELD;
  weir_serve_count(&connection->loop->counts.http, 1);
  if (connection->loop->is_draining) request.keeps_alive = false;
  unsigned manner = weir_serve_manner(&request);
  weir_http_call call = {0};
  weir_http_refusal refusal = {.status = 400};
  if (standing == WEIR_SERVE_STRANGER) {
    refusal = (weir_http_refusal){401, {"a bearer token is needed"}};
    queue_refusal(connection, &refusal, manner);
  } else if (asks_health(connection, &request)) {
    queue_health(connection, manner);
  } else if (ask(connection, &request, manner, &call, &refusal)) {
    note_id(connection, &request);
  } else {
    queue_refusal(connection, &refusal, manner);
  }
  bool resets = call.ask.verb == WEIR_ASK_RESET;
  weir_http_call_free(&call);
  if (!request.keeps_alive) return WEIR_PROGRESS_ENDS;
  return resets ? WEIR_PROGRESS_TURN : WEIR_PROGRESS_READ;
}

static void answer_envoy(weir_connection *connection, const weir_slot *slot, weir_bytes *out) {
  weir_envoy_answer answer;
  weir_envoy_refusal why;
  weir_http_refusal refusal;
  if (weir_serve_settle_envoy(connection, slot, WEIR_TALLY_HTTP, &answer, &why)) {
    weir_http_answer_envoy(&answer, slot->manner, out);
    return;
  }
  weir_http_word_envoy(&why, &refusal);
  weir_http_refuse(&refusal, slot->manner, out);
}

static void answer(weir_connection *connection, const weir_slot *slot, weir_bytes *out) {
  weir_decision decision;
  weir_reply reply;
  if (slot->part_count > 0) {
    answer_envoy(connection, slot, out);
    return;
  }
  weir_tick_reply(&connection->loop->tick, slot, &decision, &reply);
  weir_tally_note(connection->loop, slot, &reply, WEIR_TALLY_HTTP);
  weir_config_headers headers =
      slot->named != NULL ? weir_named_config(slot->named)->headers : WEIR_CONFIG_HEADERS_DRAFT_10;
  weir_http_answer(&slot->ask, slot->manner, connection->port->config, headers, &reply, out);
}

const weir_speech weir_speech_http = {
    .name = "http",
    .begin = begin,
    .read = read_request,
    .answer = answer,
    .full = WEIR_SERVE_HTTP_FULL,
    .full_length = sizeof WEIR_SERVE_HTTP_FULL - 1,
};

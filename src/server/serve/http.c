/* HTTP over a connection: what all who answer it share, then the listener for decisions. */
#include <string.h>

#include "serve/protocols.h"
#include "turn/turn.h"

/* --- every request ------------------------------------------------------------------------------
 */

unsigned weir_serve_http_format(const weir_http_request *request) {
  return (request->keeps_alive ? 0U : WEIR_HTTP_CLOSES) |
         (weir_http_is(request->method, "HEAD") ? WEIR_HTTP_HEAD : 0U);
}

void weir_serve_refuse_http(weir_connection *connection, const weir_http_refusal *refusal,
                            unsigned format) {
  weir_bytes *text = &connection->loop->reply; /* free until the turn's answers are worded */
  text->length = 0;
  weir_http_refuse(refusal, format, text);
  weir_connection_queue_text(connection, text->data, text->length);
}

void weir_serve_answer_http(weir_connection *connection, int status, const char *type,
                            const weir_bytes *body, unsigned format) {
  weir_bytes *text = &connection->loop->reply;
  text->length = 0;
  weir_http_text_answer(status, type, body, format, text);
  weir_connection_queue_text(connection, text->data, text->length);
}

bool weir_serve_is_from_here(weir_connection *connection, const weir_http_request *request,
                             bool may_be_opened, weir_http_refusal *refusal) {
  const weir_port *port = connection->port;
  const weir_socket *opened = &connection->loop->service->sockets[port->index];
  if (weir_http_is_from_here(request, port->config, &opened->address, may_be_opened, refusal))
    return true;
  weir_serve_count(&connection->loop->served.counts.foreign, 1);
  return false;
}

/* One that shows nothing guesses nothing. */
weir_serve_standing weir_serve_look_at_credential(weir_connection *connection,
                                                  const weir_http_text *shown) {
  const weir_config_listener *listener = connection->port->config;
  if (listener->credential_count == 0) return WEIR_SERVE_KNOWN;
  if (shown == NULL) {
    weir_serve_count(&connection->loop->served.counts.unauthorized, 1);
    return WEIR_SERVE_STRANGER;
  }
  uint64_t mark =
      weir_guesses_mark(&connection->loop->service->guesses, 0, shown->bytes, shown->length);
  if (!connection->has_shown && !weir_connection_may_show(connection, mark)) return WEIR_SERVE_HELD;
  connection->has_shown =
      weir_http_is_token(*shown, listener->credentials, listener->credential_count);
  if (connection->has_shown) return WEIR_SERVE_KNOWN;
  return weir_connection_may_refuse(connection, mark) ? WEIR_SERVE_STRANGER : WEIR_SERVE_HELD;
}

weir_read_result weir_serve_read_http(weir_connection *connection, const char *bytes, size_t length,
                                      size_t *used, weir_serve_opens *opens,
                                      weir_http_request *request, bool *is_known) {
  static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
  const weir_config_limits *limits = weir_loop_limits(connection->loop);
  const weir_http_limits most = {(size_t)limits->http_header_bytes,
                                 (size_t)limits->http_body_bytes};
  weir_http_parser *parser = &connection->speaks.http;
  weir_http_refusal refusal = {.status = 400};
  const char *why = NULL;
  switch (weir_http_parse(parser, &most, bytes, length, used, request, &refusal.status, &why)) {
    case WEIR_HTTP_MORE:
      if (parser->wants_go_on) weir_connection_queue_text(connection, go_on, sizeof go_on - 1);
      parser->wants_go_on = false;
      return WEIR_READ_MORE;
    case WEIR_HTTP_BROKEN:
      weir_connection_note_broken(connection);
      memcpy(refusal.why.text, why, strlen(why) + 1);
      weir_serve_refuse_http(connection, &refusal, WEIR_HTTP_CLOSES);
      return WEIR_READ_ENDS;
    case WEIR_HTTP_REQUEST:
      break;
  }
  weir_http_text shown;
  size_t position = 0;
  bool shows = weir_http_next_field(request, "Authorization", &position, &shown);
  weir_serve_standing standing =
      opens != NULL && opens(request)
          ? WEIR_SERVE_KNOWN
          : weir_serve_look_at_credential(connection, shows ? &shown : NULL);
  *is_known = standing == WEIR_SERVE_KNOWN;
  if (standing != WEIR_SERVE_HELD) return WEIR_READ_ONE;
  *used = 0;
  return WEIR_READ_HELD;
}

/* --- decisions ----------------------------------------------------------------------------------
 */

/* The key of a check is where its limiter says, or else where the listener does. */
static bool read_key(weir_connection *connection, const weir_http_request *request,
                     const weir_named *named, weir_http_call *call, weir_http_refusal *refusal) {
  char address[WEIR_CLIENT_ADDRESS_TEXT_BYTES];
  const weir_config_listener *listener = connection->port->config;
  const weir_config_key *where = named->config->has_key ? &named->config->key : &listener->key;
  weir_client_address_write(&connection->address, address);
  return weir_http_read_given(request, listener, named->config, address, call, refusal) &&
         weir_http_read_key(request, listener, where, address, call, refusal);
}

/* One for each member of a group. Their bytes may move until the last has been read. */
static bool read_keys(weir_connection *connection, const weir_http_request *request,
                      const weir_named_group *group, weir_http_call *call,
                      weir_http_refusal *refusal) {
  const char *next;
  for (size_t i = 0; i < group->member_count; i++) {
    if (!read_key(connection, request, group->members[i], call, refusal)) return false;
    call->room.keys[i].length = call->order.key_length;
  }
  next = call->text.data;
  for (size_t i = 0; i < group->member_count; i++) {
    call->room.keys[i].bytes = next;
    next += call->room.keys[i].length;
  }
  call->order.keys = call->room.keys;
  call->order.key_count = group->member_count;
  return true;
}

/* Nothing says any more where a limiter that has left the configuration had its keys. Its places have them. */
static bool find_key_of_place(const weir_turn *turn, weir_http_call *call,
                              weir_http_refusal *refusal) {
  size_t begin = call->text.length;
  if (!call->order.place.is_none)
    weir_keeper_write_key(turn->keeper, &call->order.place, &call->text);
  if (call->text.failed) {
    *refusal = (weir_http_refusal){503, {"the server is short of memory"}};
    return false;
  }
  call->order.key_length = call->text.length - begin;
  call->order.key = call->order.key_length > 0 ? call->text.data + begin : "";
  return true;
}

/* An unknown name passes here, and is refused later. */
static bool find_key(weir_connection *connection, const weir_http_request *request,
                     weir_http_call *call, weir_http_refusal *refusal) {
  const weir_registry *registry = connection->loop->turn.registry;
  size_t most = (size_t)weir_loop_limits(connection->loop)->key_bytes;
  weir_order *order = &call->order;
  if (order->form == WEIR_HTTP_CHECK) {
    const weir_named *named = weir_registry_find(registry, order->limiter, order->limiter_length);
    const weir_named_group *group =
        weir_registry_find_group(registry, order->limiter, order->limiter_length);
    if (named != NULL && !read_key(connection, request, named, call, refusal)) return false;
    if (named == NULL && weir_order_is(order, WEIR_VERB_OF_PLACE) &&
        !find_key_of_place(&connection->loop->turn, call, refusal))
      return false;
    if (group != NULL && weir_order_is(order, WEIR_VERB_GROUPS) &&
        !read_keys(connection, request, group, call, refusal))
      return false;
  }
  bool fits = order->keys != NULL || order->key_length <= most;
  for (size_t i = 0; i < order->key_count; i++)
    fits = fits && order->keys[i].length <= most;
  if (fits) return true;
  *refusal = (weir_http_refusal){400, {"the key is too long"}};
  return false;
}

/* A request that changes counts or limits must be meant: not sent by a page that a person looks at. */
static bool may_change(weir_connection *connection, const weir_http_request *request,
                       weir_http_refusal *refusal) {
  bool of_limit = weir_http_is_limit(request);
  bool changes =
      of_limit || (weir_http_is(request->method, "POST") && !weir_http_is_check(request));
  if (changes && !weir_serve_is_from_here(connection, request, false, refusal)) return false;
  if (!of_limit || connection->port->config->sets_limits) return true;
  *refusal = (weir_http_refusal){403, {"/limits is off: sets_limits of this listener"}};
  return false;
}

/* Of an order that is none. */
static int refused_status(const weir_registry *registry, const weir_order *order,
                          weir_status status) {
  bool unknown = !order->brings_rule &&
                 weir_registry_find(registry, order->limiter, order->limiter_length) == NULL &&
                 weir_registry_find_group(registry, order->limiter, order->limiter_length) == NULL;
  if (unknown) return 404;
  return weir_status_classify(status) == WEIR_CLASS_CALLER ? 400 : 503;
}

/* Queues the answer; or false: *refusal is the answer. */
static bool ask_order(weir_connection *connection, unsigned format, weir_order *order,
                      weir_http_refusal *refusal) {
  weir_turn *turn = &connection->loop->turn;
  weir_status status;
  char client[WEIR_KEPT_CLIENT_BYTES];
  if (weir_order_is(order, WEIR_VERB_HOLDS)) {
    weir_connection_describe(connection, "", client);
    order->client = client;
  }
  uint32_t answer = order->keys != NULL
                        ? weir_groups_add(turn, order, format, &status, &refusal->why)
                        : weir_turn_add_order(turn, order, format, &status, &refusal->why);
  if (status == WEIR_OK) {
    weir_connection_queue(connection, answer);
    if (order->keys != NULL) connection->share = 1; /* the last of this turn */
    return true;
  }
  refusal->status = refused_status(turn->registry, order, status);
  return false;
}

/* The same of whatever is asked. */
static bool ask(weir_connection *connection, const weir_http_request *request, unsigned format,
                weir_http_call *call, weir_http_refusal *refusal) {
  const weir_config *config = connection->loop->turn.registry->config;
  if (!may_change(connection, request, refusal) || !weir_http_read_call(request, call, refusal))
    return false;
  if (call->envoy != NULL) {
    weir_envoy_refusal why;
    if (weir_serve_ask_envoy(connection, call->envoy, format, WEIR_TURN_NO_END, &why)) return true;
    weir_http_word_envoy(&why, refusal);
    return false;
  }
  if (call->order.brings_rule && !(config->throttle.enabled && config->throttle.throttlecrab)) {
    *refusal = (weir_http_refusal){404, {"/throttle is off: throttle.throttlecrab"}};
    return false;
  }
  return weir_order_may_say(weir_order_claims(call->order.says), connection->port->config,
                            &refusal->why) &&
         find_key(connection, request, call, refusal) &&
         ask_order(connection, format, &call->order, refusal);
}

/* An id that stands there twice names nothing. Without a log of denials it is not looked for. */
static void note_id(weir_connection *connection, const weir_http_request *request) {
  weir_http_text id;
  weir_http_text second;
  size_t position = 0;
  if (weir_loop_limits(connection->loop)->logged_denials > 0 &&
      weir_http_next_field(request, "X-Request-Id", &position, &id) &&
      !weir_http_next_field(request, "X-Request-Id", &position, &second))
    weir_turn_set_id(&connection->loop->turn, connection->last_answer, id.bytes, id.length);
}

static weir_read_result read_request(weir_connection *connection, const char *bytes, size_t length,
                                     size_t *used) {
  weir_http_request request;
  bool is_known;
  weir_read_result got =
      weir_serve_read_http(connection, bytes, length, used, NULL, &request, &is_known);
  if (got != WEIR_READ_ONE) return got;
  weir_loop *loop = connection->loop;
  const weir_config *config = loop->turn.registry->config;
  weir_serve_count(&loop->served.counts.http, 1);
  if (loop->is_draining) request.keeps_alive = false;
  unsigned format = weir_serve_http_format(&request);
  if (weir_http_is_limit(&request)) format |= WEIR_HTTP_SETS;
  weir_http_call call = {0};
  weir_http_refusal refusal = {.status = 400};
  bool is_crab = config->throttle.enabled && config->throttle.throttlecrab;
  if (!is_known) {
    refusal = (weir_http_refusal){401, {"a bearer token is needed"}};
    weir_serve_refuse_http(connection, &refusal, format);
  } else if (is_crab && weir_http_is_path(&request, "/health")) {
    /* Clients of throttlecrab ask this before anything else. */
    weir_bytes_text(&call.text, "OK");
    weir_serve_answer_http(connection, 200, "text/plain; charset=utf-8", &call.text, format);
  } else if (ask(connection, &request, format, &call, &refusal)) {
    note_id(connection, &request);
  } else {
    weir_serve_refuse_http(connection, &refusal, format);
  }
  bool ends_turn = call.order.verb != NULL && weir_order_is(&call.order, WEIR_VERB_ENDS_TURN);
  weir_http_call_free(&call);
  if (!request.keeps_alive) return WEIR_READ_ENDS;
  return ends_turn ? WEIR_READ_TURN : WEIR_READ_ONE;
}

static void word_answer(weir_connection *connection, const weir_turn *turn,
                        const weir_answer *answer, weir_bytes *out) {
  weir_loop *loop = connection->loop;
  if (answer->kind == WEIR_ANSWER_PARTS) {
    weir_envoy_answer told;
    weir_envoy_refusal why;
    weir_http_refusal refusal;
    if (weir_envoy_reply(turn, &connection->loop->served, answer, WEIR_SERVED_HTTP, &told, &why)) {
      weir_http_answer_envoy(&told, answer->note, out);
    } else {
      weir_http_word_envoy(&why, &refusal);
      weir_http_refuse(&refusal, answer->note, out);
    }
    return;
  }
  const weir_config_listener *listener = connection->port->config;
  if (answer->kind == WEIR_ANSWER_GROUP) {
    weir_group_reply told;
    const weir_order order = {.verb = answer->is.group.verb, .form = answer->is.group.form};
    weir_groups_reply(turn, answer, &told);
    weir_served_note_group(&loop->served, answer->is.group.group, order.verb, &told,
                           WEIR_SERVED_HTTP, loop->turn.now_us);
    weir_http_answer(&order, answer->note, listener, &told.whole, out);
    return;
  }
  const weir_named *named = answer->is.request.named;
  const weir_order *asked = &answer->is.request.order;
  weir_decision decision;
  weir_reply reply;
  char client[WEIR_KEPT_CLIENT_BYTES];
  weir_turn_reply(turn, answer, &decision, &reply);
  weir_connection_tell_client(connection, "", client, &reply);
  weir_served_note(&loop->served, named, asked->verb, &reply, WEIR_SERVED_HTTP, loop->turn.now_us);
  weir_http_answer(asked, answer->note, listener, &reply, out);
}

const weir_protocol weir_protocol_http = {
    .name = "http",
    .full = WEIR_SERVE_HTTP_FULL,
    .full_length = sizeof WEIR_SERVE_HTTP_FULL - 1,
    .read = read_request,
    .answer = word_answer,
};

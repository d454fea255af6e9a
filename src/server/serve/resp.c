/* RESP over a connection. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "serve/protocols.h"
#include "turn/turn.h"

/* A client that has not logged in may send no more than that takes. */
enum { STRANGER_ARGUMENTS = 16, STRANGER_BYTES = 8192 };

static void begin(weir_connection *connection) {
  weir_resp_session *session = &connection->speaks.resp.session;
  session->id = (uint64_t)connection->loop->index << 48 | connection->loop->connections_made;
}

/* A client may vanish without an end, while what it holds is paid for: TCP finds out. */
static void watch_peer(weir_connection *connection) {
  enum { QUIET_S = 15, BETWEEN_S = 5, PROBES = 3 };
  static const struct {
    int level, name, value;
  } options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                 {IPPROTO_TCP, TCP_KEEPIDLE, QUIET_S},
                 {IPPROTO_TCP, TCP_KEEPINTVL, BETWEEN_S},
                 {IPPROTO_TCP, TCP_KEEPCNT, PROBES}};
  for (size_t i = 0; connection->address.is_known && i < sizeof options / sizeof *options; i++)
    setsockopt(connection->transport.fd, options[i].level, options[i].name, &options[i].value,
               sizeof options[i].value);
  connection->may_hold = true;
}

/* A server that ends leaves what is held as it is, for the one that follows. */
static void end(weir_connection *connection) {
  weir_loop *loop = connection->loop;
  if (connection->may_hold)
    weir_keeper_leave(&loop->service->keeper, &connection->holder, loop->is_draining);
}

static void write_info(const weir_connection *connection, weir_bytes *out) {
  weir_bytes text = {0};
  weir_bytes_format(&text,
                    "# Server\r\nweir_version:%s\r\nprocess_id:%ld\r\n# Clients\r\n"
                    "connected_clients:%zu\r\n"
                    "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
                    WEIR_VERSION_TEXT, (long)getpid(), connection->loop->connection_count);
  weir_resp_bulk(out, text.data != NULL ? text.data : "", text.length);
  weir_bytes_free(&text);
}

static size_t count_keys(const void *context, const char *name, size_t length) {
  const weir_registry *registry = context;
  const weir_named_group *group = weir_registry_find_group(registry, name, length);
  return group != NULL ? group->member_count : 1;
}

/* False: the refusal is in `text`. */
static bool ask_tick(weir_connection *connection, weir_order *order, weir_bytes *text) {
  weir_turn *turn = &connection->loop->turn;
  weir_status status;
  weir_message refusal;
  refusal.text[0] = '\0'; /* and no more of it: this is the common case */
  char client[WEIR_KEPT_CLIENT_BYTES];
  if (weir_order_is(order, WEIR_VERB_HOLDS)) {
    if (!connection->may_hold) watch_peer(connection);
    weir_connection_describe(connection, connection->speaks.resp.session.name, client);
    order->holder = &connection->holder;
    order->client = client;
  }
  uint32_t answer = order->keys != NULL ? weir_groups_add(turn, order, 0, &status, &refusal)
                                        : weir_turn_add_order(turn, order, 0, &status, &refusal);
  order->client = NULL;
  if (status != WEIR_OK) {
    weir_resp_error(text, refusal.text);
    return false;
  }
  weir_connection_queue(connection, answer);
  if (order->keys != NULL) connection->share = 1; /* the last of this turn: it holds up others */
  return true;
}

/* The mark of a request that shows a credential: made of all of it, as it may show several. */
static uint64_t mark_of(const weir_connection *connection, const weir_resp_request *request) {
  uint64_t mark = 0;
  for (size_t i = 0; i < request->count; i++)
    mark = weir_guesses_mark(&connection->loop->service->guesses, mark, request->arguments[i].bytes,
                             request->arguments[i].length);
  return mark;
}

/* Carries out a request that was read; `mark`: of the credential that it shows. */
static weir_read_result serve_request(weir_connection *connection, const weir_resp_request *request,
                                      uint64_t mark, size_t *used) {
  weir_loop *loop = connection->loop;
  const weir_registry *registry = loop->turn.registry;
  const weir_config_listener *listener = connection->port->config;
  const weir_resp_server server = {
      .credentials = listener->credentials,
      .credential_count = listener->credential_count,
      .throttle = registry->config->throttle.enabled,
      .throttlecrab = registry->config->throttle.throttlecrab,
      .sets_limits = listener->sets_limits,
      .key_most = (size_t)registry->config->limits.key_bytes,
      .count_keys = registry->group_count > 0 ? count_keys : NULL,
      .context = loop->turn.registry,
  };
  weir_bytes *text = &loop->reply;
  weir_order order;
  weir_order_room room;
  weir_resp_outcome outcome =
      weir_resp_run(&connection->speaks.resp.session, &server, request, text, &order, &room);
  weir_message foul;
  if (outcome == WEIR_RESP_ASKS &&
      !weir_order_may_say(weir_order_claims(order.says), listener, &foul)) {
    weir_resp_error(text, foul.text);
    outcome = WEIR_RESP_ANSWERED;
  }
  if (outcome == WEIR_RESP_STRANGER && !weir_connection_may_refuse(connection, mark)) {
    *used = 0;
    return WEIR_READ_HELD;
  }
  weir_serve_count(&loop->served.counts.resp, 1);
  if (outcome == WEIR_RESP_INFO) write_info(connection, text);
  if (outcome != WEIR_RESP_ASKS || !ask_tick(connection, &order, text))
    weir_connection_queue_text(connection, text->data, text->length);
  if (outcome == WEIR_RESP_LEAVES) return WEIR_READ_ENDS;
  bool ends_turn = outcome == WEIR_RESP_ASKS && weir_order_is(&order, WEIR_VERB_ENDS_TURN);
  return ends_turn ? WEIR_READ_TURN : WEIR_READ_ONE;
}

static weir_read_result read_request(weir_connection *connection, const char *bytes, size_t length,
                                     size_t *used) {
  const weir_config *config = connection->loop->turn.registry->config;
  const weir_config_listener *listener = connection->port->config;
  weir_resp_session *session = &connection->speaks.resp.session;
  weir_bytes *text = &connection->loop->reply; /* free until the turn's answers are worded */
  text->length = 0;

  bool stranger = listener->credential_count > 0 && !session->known;
  const weir_resp_limits most = {
      .arguments = stranger ? STRANGER_ARGUMENTS : (size_t)config->limits.resp_arguments,
      .request_bytes = stranger ? STRANGER_BYTES : (size_t)config->limits.resp_request_bytes,
  };
  weir_resp_request request;
  const char *why = NULL;
  switch (weir_resp_parse(&connection->speaks.resp.parser, &most, bytes, length, used, &request,
                          &why)) {
    case WEIR_RESP_MORE:
      return WEIR_READ_MORE;
    case WEIR_RESP_BROKEN:
      weir_resp_error(text, why);
      weir_connection_queue_text(connection, text->data, text->length);
      weir_connection_note_broken(connection);
      return WEIR_READ_ENDS;
    case WEIR_RESP_REQUEST:
      break;
  }
  if (request.count == 0) return WEIR_READ_ONE;
  bool shows = listener->credential_count > 0 && weir_resp_shows_credential(&request);
  uint64_t mark = shows ? mark_of(connection, &request) : 0;
  if (shows && !weir_connection_may_show(connection, mark)) {
    *used = 0;
    return WEIR_READ_HELD;
  }
  return serve_request(connection, &request, mark, used);
}

static void word_answer(weir_connection *connection, const weir_turn *turn,
                        const weir_answer *answer, weir_bytes *out) {
  weir_loop *loop = connection->loop;
  if (answer->kind == WEIR_ANSWER_GROUP) {
    weir_group_reply told;
    const weir_order group_ask = {.verb = answer->is.group.verb, .form = answer->is.group.form};
    weir_groups_reply(turn, answer, &told);
    weir_served_note_group(&loop->served, answer->is.group.group, group_ask.verb, &told,
                           WEIR_SERVED_RESP, loop->turn.now_us);
    weir_resp_answer(&group_ask, &told.whole, out);
    return;
  }
  const weir_order *order = &answer->is.request.order;
  weir_decision decision;
  weir_reply reply;
  char client[WEIR_KEPT_CLIENT_BYTES];
  weir_turn_reply(turn, answer, &decision, &reply);
  weir_connection_tell_client(connection, connection->speaks.resp.session.name, client, &reply);
  weir_served_note(&loop->served, answer->is.request.named, order->verb, &reply, WEIR_SERVED_RESP,
                   loop->turn.now_us);
  weir_resp_answer(order, &reply, out);
}

static const char full[] = "-ERR max number of clients reached\r\n";

const weir_protocol weir_protocol_resp = {
    .name = "resp",
    .full = full,
    .full_length = sizeof full - 1,
    .begin = begin,
    .end = end,
    .read = read_request,
    .answer = word_answer,
};

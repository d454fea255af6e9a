/* RESP over a connection. */
#include <stdatomic.h>
#include <unistd.h>

#include "serve/connection.h"
#include "serve/loop.h"

static void begin(weir_connection *connection) {
  weir_resp_session *session = &connection->speaks.resp.session;
  session->id = (uint64_t)connection->loop->index << 48 | connection->loop->connections_made;
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

static void queue_ask(weir_connection *connection, const weir_ask *ask, weir_bytes *text) {
  weir_status status;
  weir_message why = {""};
  uint32_t slot = weir_tick_add_ask(&connection->loop->tick, ask, 0, &status, &why);
  if (status == WEIR_OK) {
    weir_connection_queue(connection, slot);
    return;
  }
  weir_resp_error(text, why.text);
  weir_connection_queue_text(connection, text->data, text->length);
}

static weir_progress run(weir_connection *connection, const weir_resp_request *request) {
  const weir_loop *loop = connection->loop;
  const weir_config *config = weir_registry_config(loop->tick.registry);
  const weir_resp_server server = {
      .credentials = connection->port->config->credentials,
      .credential_count = connection->port->config->credential_count,
      .throttle = config->throttle.enabled,
      .throttlecrab = config->throttle.throttlecrab,
      .key_most = (size_t)config->limits.key_bytes,
  };
  weir_bytes *text = &connection->loop->reply; /* free until the tick's answers are worded */
  weir_ask ask;
  text->length = 0;
  weir_resp_outcome outcome =
      weir_resp_run(&connection->speaks.resp.session, &server, request, text, &ask);
  if (outcome == WEIR_RESP_STRANGER) weir_connection_note_guess(connection);
  if (outcome == WEIR_RESP_INFO) write_info(connection, text);
  if (outcome == WEIR_RESP_ASKS)
    queue_ask(connection, &ask, text);
  else
    weir_connection_queue_text(connection, text->data, text->length);
  if (outcome == WEIR_RESP_LEAVES) return WEIR_PROGRESS_ENDS;
  bool resets = outcome == WEIR_RESP_ASKS && ask.verb == WEIR_ASK_RESET;
  return resets ? WEIR_PROGRESS_TURN : WEIR_PROGRESS_READ;
}

static weir_progress break_off(weir_connection *connection, const char *why) {
  weir_bytes *text = &connection->loop->reply;
  text->length = 0;
  weir_resp_error(text, why);
  weir_connection_queue_text(connection, text->data, text->length);
  weir_serve_count(&connection->loop->counts.broken, 1);
  return WEIR_PROGRESS_ENDS;
}

/* Who has not logged in may send no more than that takes. */
enum { STRANGER_ARGUMENTS = 16, STRANGER_BYTES = 8192 };

static weir_progress read_request(weir_connection *connection, const char *bytes, size_t length,
                                  size_t *used) {
  const weir_config_limits *limits = weir_loop_limits(connection->loop);
  bool stranger =
      connection->port->config->credential_count > 0 && !connection->speaks.resp.session.known;
  const weir_resp_limits most = {
      .arguments = stranger ? STRANGER_ARGUMENTS : (size_t)limits->resp_arguments,
      .request_bytes = stranger ? STRANGER_BYTES : (size_t)limits->resp_request_bytes,
  };
  weir_resp_request request;
  const char *why = NULL;
  switch (weir_resp_parse(&connection->speaks.resp.parser, &most, bytes, length, used, &request,
                          &why)) {
    case WEIR_RESP_MORE:
      return WEIR_PROGRESS_MORE;
    case WEIR_RESP_BROKEN:
      return break_off(connection, why);
    case WEIR_RESP_REQUEST:
      break;
  }
  if (request.count == 0) return WEIR_PROGRESS_READ;
  if (connection->port->config->credential_count > 0 && weir_resp_shows_credential(&request) &&
      weir_connection_is_held(connection)) {
    *used = 0;
    return WEIR_PROGRESS_HELD;
  }
  weir_serve_count(&connection->loop->counts.resp, 1);
  return run(connection, &request);
}

static void answer(weir_connection *connection, const weir_slot *slot, weir_bytes *out) {
  weir_decision decision;
  weir_reply reply;
  weir_tick_reply(&connection->loop->tick, slot, &decision, &reply);
  weir_tally_note(connection->loop, slot, &reply, WEIR_TALLY_RESP);
  weir_resp_answer(&slot->ask, &reply, out);
}

static const char full[] = "-ERR max number of clients reached\r\n";

const weir_speech weir_speech_resp = {
    .name = "resp",
    .begin = begin,
    .read = read_request,
    .answer = answer,
    .full = full,
    .full_length = sizeof full - 1,
};

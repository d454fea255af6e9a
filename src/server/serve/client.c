/* A protocol's dealings with its client: it queues answers, and holds a credential back. */
#include "serve/client.h"

#include <stdio.h>
#include <string.h>

/* Behind the wait of an address, for a connection that has guessed before. */
enum { BEHIND_US = 20000 };

const weir_config_listener *weir_service_listener(const weir_service *service,
                                                  const weir_registry *registry, size_t index) {
  const weir_socket *socket = &service->sockets[index];
  const weir_config_listener *found = weir_socket_listener(socket, registry->config);
  if (found != NULL) return found;
  return weir_socket_listener(socket, atomic_load(&service->anchor)->config);
}

/* --- answers ---------------------------------------------------------------------------------- */

void weir_connection_touch(weir_connection *connection) {
  if (connection->is_touched) return;
  connection->is_touched = true;
  connection->next_touched = connection->loop->touched;
  connection->loop->touched = connection;
}

void weir_connection_queue(weir_connection *connection, uint32_t answer) {
  weir_connection_touch(connection);
  if (answer == WEIR_NO_ANSWER) {
    connection->output.failed = true;
    return;
  }
  if (connection->first_answer == WEIR_NO_ANSWER)
    connection->first_answer = answer;
  else
    connection->loop->turn.answers[connection->last_answer].next = answer;
  connection->last_answer = answer;
}

void weir_connection_queue_text(weir_connection *connection, const char *text, size_t length) {
  weir_connection_queue(connection, weir_turn_add_text(&connection->loop->turn, text, length));
}

void weir_connection_describe(const weir_connection *connection, const char *name,
                              char text[WEIR_KEPT_CLIENT_BYTES]) {
  char address[WEIR_CLIENT_ADDRESS_TEXT_BYTES];
  weir_client_address_write(&connection->address, address);
  snprintf(text, WEIR_KEPT_CLIENT_BYTES, "%.46s%s%s", address, name[0] != '\0' ? " " : "", name);
}

void weir_connection_tell_client(const weir_connection *connection, const char *name,
                                 char text[WEIR_KEPT_CLIENT_BYTES], weir_reply *reply) {
  if (reply->kind != WEIR_REPLY_LIMIT) return;
  weir_connection_describe(connection, name, text);
  reply->is.limit.client = text;
}

void weir_connection_note_broken(weir_connection *connection) {
  weir_serve_count(&connection->loop->served.counts.broken, !connection->is_broken);
  connection->is_broken = true;
}

/* --- credentials ------------------------------------------------------------------------------ */

static void hold(weir_connection *connection, int64_t wait_us) {
  const struct timeval wait = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};
  weir_serve_count(&connection->loop->served.counts.held, 1);
  connection->is_held = true;
  event_del(&connection->readable);
  event_add(&connection->pause, &wait);
}

/* Those that have not guessed go first: else a client that comes with the right credential would wait
 * behind every guess. */
bool weir_connection_may_show(weir_connection *connection, uint64_t mark) {
  weir_guesses *guesses = &connection->loop->service->guesses;
  int64_t now_us = weir_monotonic_us();
  int64_t wait_us = weir_guesses_until(guesses, &connection->address, mark, now_us) - now_us;
  if (wait_us <= 0 || connection->refusing == mark) return true;
  hold(connection, connection->has_guessed ? wait_us + BEHIND_US : wait_us);
  return false;
}

bool weir_connection_may_refuse(weir_connection *connection, uint64_t mark) {
  weir_loop *loop = connection->loop;
  bool is_over = connection->refusing == mark;
  connection->refusing = is_over ? 0 : mark;
  if (is_over) return true;
  connection->has_guessed = true;
  weir_serve_count(&loop->served.counts.unauthorized, 1);
  hold(connection,
       weir_guesses_note(&loop->service->guesses, &connection->address, mark, weir_monotonic_us()));
  return false;
}

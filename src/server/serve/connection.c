/* A connection's life: bytes in, requests out of them, answers back. */
#include "serve/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/loop.h"
#include "serve/server.h"

/* A record of TLS is taken as a whole: no event tells of what is left of one. */
enum { LINGER_US = 1000000, BEHIND_US = 20000 };
enum { SHARE_MOST = 1024, INPUT_ROOM = 1024, RECORD_ROOM = 16384 };

/* --- begin and end ---------------------------------------------------------------------------- */

static void on_readable(evutil_socket_t fd, short what, void *self);
static void on_writable(evutil_socket_t fd, short what, void *self);
static void on_pause_over(evutil_socket_t fd, short what, void *self);

static void link_in(weir_connection *connection) {
  weir_loop *loop = connection->loop;
  connection->next = loop->connections;
  if (loop->connections != NULL) loop->connections->previous = connection;
  loop->connections = connection;
  loop->connection_count++;
  atomic_store_explicit(&loop->counts.open, (int64_t)loop->connection_count, memory_order_relaxed);
}

static void link_out(weir_connection *connection) {
  weir_loop *loop = connection->loop;
  if (connection->previous != NULL)
    connection->previous->next = connection->next;
  else
    loop->connections = connection->next;
  if (connection->next != NULL) connection->next->previous = connection->previous;
  loop->connection_count--;
  atomic_store_explicit(&loop->counts.open, (int64_t)loop->connection_count, memory_order_relaxed);
}

void weir_connection_open(weir_port *port, int fd, const weir_client_address *peer,
                          weir_serve_tls *tls) {
  weir_loop *loop = port->loop;
  weir_connection *connection = calloc(1, sizeof *connection);
  if (connection == NULL || !weir_transport_open(&connection->transport, fd, tls)) {
    free(connection);
    close(fd);
    weir_clients_leave(loop->server->peers, peer);
    return;
  }
  connection->loop = loop;
  connection->port = port;
  connection->peer = *peer;
  connection->first_slot = connection->last_slot = WEIR_NO_SLOT;
  connection->since_us = loop->tick.now_us;
  loop->connections_made++;
  link_in(connection);
  port->speech->begin(connection);
  event_assign(&connection->readable, loop->base, fd, EV_READ | EV_PERSIST, on_readable,
               connection);
  event_assign(&connection->writable, loop->base, fd, EV_WRITE, on_writable, connection);
  evtimer_assign(&connection->pause, loop->base, on_pause_over, connection);
  weir_serve_count(&loop->counts.accepted, 1);
  if (event_add(&connection->readable, NULL) != 0) weir_connection_close(connection);
}

/* It is in none of the tick's lists. */
void weir_connection_close(weir_connection *connection) {
  event_del(&connection->readable);
  event_del(&connection->writable);
  event_del(&connection->pause);
  link_out(connection);
  if (connection->port->speech->end != NULL) connection->port->speech->end(connection);
  weir_clients_leave(connection->loop->server->peers, &connection->peer);
  weir_transport_close(&connection->transport);
  weir_bytes_free(&connection->input);
  weir_bytes_free(&connection->output);
  free(connection);
}

/* At once, or where one of the tick's lists comes to it. */
static void close_soon(weir_connection *connection) {
  event_del(&connection->readable);
  event_del(&connection->writable);
  event_del(&connection->pause);
  connection->state = WEIR_CONNECTION_ENDED;
  weir_bytes_free(&connection->output);
  weir_bytes_free(&connection->input);
  if (!connection->is_touched && !connection->is_resumed) weir_connection_close(connection);
}

/* --- answers ---------------------------------------------------------------------------------- */

void weir_connection_touch(weir_connection *connection) {
  if (connection->is_touched) return;
  connection->is_touched = true;
  connection->next_touched = connection->loop->touched;
  connection->loop->touched = connection;
}

void weir_connection_queue(weir_connection *connection, uint32_t slot) {
  weir_connection_touch(connection);
  if (slot == WEIR_NO_SLOT) {
    connection->output.failed = true;
    return;
  }
  if (connection->first_slot == WEIR_NO_SLOT)
    connection->first_slot = slot;
  else
    connection->loop->tick.slots[connection->last_slot].next = slot;
  connection->last_slot = slot;
}

void weir_connection_queue_text(weir_connection *connection, const char *text, size_t length) {
  weir_connection_queue(connection, weir_tick_add_text(&connection->loop->tick, text, length));
}

static void resume_later(weir_connection *connection) {
  if (connection->is_resumed) return;
  connection->is_resumed = true;
  connection->next_resumed = connection->loop->resumed;
  connection->loop->resumed = connection;
}

static void word_answers(weir_connection *connection, weir_bytes *out) {
  weir_tick *tick = &connection->loop->tick;
  for (uint32_t i = connection->first_slot; i != WEIR_NO_SLOT; i = tick->slots[i].next) {
    const weir_slot *slot = &tick->slots[i];
    if (slot->is_text)
      weir_bytes_add(out, tick->bytes.data + slot->text, slot->text_length);
    else
      connection->port->speech->answer(connection, slot, out);
  }
  connection->first_slot = connection->last_slot = WEIR_NO_SLOT;
  const weir_speech *speech = connection->port->speech;
  bool goes_on = speech->flush == NULL || speech->flush(connection, out);
  if (goes_on || connection->state != WEIR_CONNECTION_OPEN) return;
  connection->state = WEIR_CONNECTION_ENDING;
  event_del(&connection->readable);
}

/* Sends from the front; how much has gone, or -1 when the peer is gone. */
static ssize_t send_some(weir_connection *connection, const char *bytes, size_t length) {
  size_t sent = 0;
  while (sent < length) {
    ssize_t one = weir_transport_send(&connection->transport, bytes + sent, length - sent);
    if (one < 0 && errno == EINTR) continue;
    if (one < 0 && errno == EAGAIN) break;
    if (one <= 0) return -1;
    sent += (size_t)one;
  }
  if (sent > 0) connection->since_us = connection->loop->tick.now_us;
  weir_serve_count(&connection->loop->counts.sent_bytes, sent);
  return (ssize_t)sent;
}

/* All is sent: nothing stays behind of it, and one that ends says so. */
static void rest(weir_connection *connection) {
  weir_bytes_free(&connection->output);
  if (connection->state == WEIR_CONNECTION_OPEN) {
    event_add(&connection->readable, NULL);
    if (connection->is_parked) resume_later(connection);
    connection->is_parked = false;
    return;
  }
  if (connection->state == WEIR_CONNECTION_ENDED) return;
  connection->state = WEIR_CONNECTION_ENDED;
  connection->since_us = connection->loop->tick.now_us;
  weir_transport_finish(&connection->transport);
  event_add(&connection->readable, NULL);
}

/* What the peer did not take is kept; above the limit nothing more is read from it. */
static void keep(weir_connection *connection, const char *bytes, size_t length) {
  weir_bytes_add(&connection->output, bytes, length);
  if (connection->output.failed) {
    close_soon(connection);
    return;
  }
  event_add(&connection->writable, NULL);
  if (connection->output.length > (size_t)weir_loop_limits(connection->loop)->output_bytes)
    event_del(&connection->readable);
}

void weir_connection_answer(weir_connection *connection) {
  weir_bytes *out = &connection->loop->reply;
  connection->is_touched = false;
  out->length = 0;
  word_answers(connection, out);
  bool lost = out->failed || connection->output.failed;
  if (out->failed) weir_bytes_free(out);
  if (lost || connection->state == WEIR_CONNECTION_ENDED) {
    close_soon(connection);
    return;
  }
  ssize_t sent = connection->output.length > 0 ? 0 : send_some(connection, out->data, out->length);
  if (sent < 0)
    close_soon(connection);
  else if ((size_t)sent < out->length)
    keep(connection, out->data + sent, out->length - (size_t)sent);
  else if (connection->output.length == 0 && connection->state == WEIR_CONNECTION_ENDING)
    rest(connection);
}

static void on_writable(evutil_socket_t fd, short what, void *self) {
  weir_connection *connection = self;
  (void)fd;
  (void)what;
  weir_bytes *output = &connection->output;
  if (output->length == 0) {
    if (connection->transport.sends_to_read) on_readable(fd, EV_READ, self);
    return;
  }
  ssize_t sent = send_some(connection, output->data, output->length);
  if (sent < 0) {
    close_soon(connection);
    return;
  }
  weir_bytes_drop(output, (size_t)sent);
  if (output->length > 0)
    event_add(&connection->writable, NULL);
  else
    rest(connection);
}

void weir_connection_end(weir_connection *connection) {
  if (connection->state != WEIR_CONNECTION_OPEN) return;
  connection->state = WEIR_CONNECTION_ENDING;
  weir_bytes_free(&connection->input);
  event_del(&connection->pause);
  connection->is_held = false;
  if (!connection->is_touched && connection->output.length == 0) rest(connection);
}

void weir_connection_leave(weir_connection *connection) {
  const weir_speech *speech = connection->port->speech;
  if (speech->leave == NULL || !connection->has_read) /* it has said nothing, and hears nothing */
    weir_connection_end(connection);
  else if (speech->leave(connection))
    weir_connection_answer(connection);
}

bool weir_connection_is_at_rest(const weir_connection *connection) {
  return connection->state == WEIR_CONNECTION_OPEN && !connection->is_resumed &&
         !connection->is_parked;
}

void weir_connection_drop(weir_connection *connection) {
  close_soon(connection);
}

/* --- credentials ------------------------------------------------------------------------------ */

/* When a pause is over, those that have not guessed go first: else who comes with the right one would
 * wait behind every guess. */
bool weir_connection_is_held(weir_connection *connection) {
  weir_loop *loop = connection->loop;
  int64_t now_us = weir_serve_now_us();
  int64_t wait_us = weir_guesses_until(&loop->server->guesses, &connection->peer, now_us) - now_us;
  if (wait_us <= 0) return false;
  if (connection->has_guessed) wait_us += BEHIND_US;
  const struct timeval wait = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};
  weir_serve_count(&loop->counts.held, 1);
  connection->is_held = true;
  event_del(&connection->readable);
  event_add(&connection->pause, &wait);
  return true;
}

void weir_connection_note_guess(weir_connection *connection) {
  weir_serve_count(&connection->loop->counts.unauthorized, 1);
  connection->has_guessed = true;
  weir_guesses_note(&connection->loop->server->guesses, &connection->peer, weir_serve_now_us());
}

static void on_pause_over(evutil_socket_t fd, short what, void *self) {
  weir_connection *connection = self;
  (void)fd;
  (void)what;
  struct pollfd peer = {.fd = connection->transport.fd};
  connection->is_held = false;
  event_add(&connection->readable, NULL);
  if (poll(&peer, 1, 0) > 0) /* it is gone, and waits for no answer */
    close_soon(connection);
  else
    resume_later(connection);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Reads requests off the front; how many bytes they were. */
static size_t read_requests(weir_connection *connection, const char *bytes, size_t length) {
  size_t taken = 0;
  weir_progress progress = WEIR_PROGRESS_READ;
  const weir_speech *speech = connection->port->speech;
  if (speech->go_on != NULL && !speech->go_on(connection)) return 0;
  while (progress == WEIR_PROGRESS_READ && taken < length && connection->share > 0) {
    size_t used = 0;
    progress = speech->read(connection, bytes + taken, length - taken, &used);
    if (progress == WEIR_PROGRESS_MORE) break;
    taken += used;
    if (used == 0) break;
    connection->share--;
    connection->has_read = true;
    connection->since_us = connection->loop->tick.now_us;
  }
  if (progress == WEIR_PROGRESS_ENDS) {
    connection->state = WEIR_CONNECTION_ENDING;
    event_del(&connection->readable);
    weir_connection_touch(connection);
    return length;
  }
  if (taken < length && progress != WEIR_PROGRESS_MORE && progress != WEIR_PROGRESS_HELD)
    resume_later(connection);
  return taken;
}

/* Every connection may bring as many requests into a tick that all of them together fit. */
static void grant_share(weir_connection *connection) {
  const weir_loop *loop = connection->loop;
  size_t share = (size_t)weir_loop_limits(loop)->waiting / (loop->connection_count + 1);
  connection->share = (uint32_t)(share < 1 ? 1 : share < SHARE_MOST ? share : SHARE_MOST);
}

static void take_requests(weir_connection *connection, const char *bytes, size_t length) {
  bool is_own = bytes == connection->input.data;
  grant_share(connection);
  size_t taken = read_requests(connection, bytes, length);
  if (taken == length)
    weir_bytes_free(&connection->input);
  else if (is_own)
    weir_bytes_drop(&connection->input, taken);
  else
    weir_bytes_add(&connection->input, bytes + taken, length - taken);
  if (connection->input.failed) close_soon(connection);
}

void weir_connection_resume(weir_connection *connection) {
  connection->is_resumed = false;
  if (connection->state == WEIR_CONNECTION_ENDED && !connection->is_touched)
    weir_connection_close(connection);
  else if (connection->state == WEIR_CONNECTION_OPEN && connection->output.length > 0)
    connection->is_parked = true; /* who does not take answers is asked for no requests */
  else if (connection->state == WEIR_CONNECTION_OPEN)
    take_requests(connection, connection->input.data, connection->input.length);
}

/* Bytes go behind what there is of a request, or else into the loop's own buffer. */
static ssize_t receive(weir_connection *connection) {
  weir_loop *loop = connection->loop;
  weir_bytes *input = &connection->input;
  char *room = loop->buffer;
  size_t size = loop->buffer_bytes;
  if (input->length > 0) {
    size_t least = connection->transport.session != NULL ? RECORD_ROOM : INPUT_ROOM;
    size = input->length > least ? input->length : least;
    room = weir_bytes_room(input, size);
    if (room == NULL) return 0;
  }
  ssize_t got = weir_transport_receive(&connection->transport, room, size);
  if (got <= 0) return got;
  if (input->length > 0) input->length += (size_t)got;
  weir_serve_count(&loop->counts.received_bytes, (uint64_t)got);
  return got;
}

/* The peer sends no more; it may still wait for answers. */
static void hear_end(weir_connection *connection, bool in_order) {
  bool owes = connection->is_touched || connection->output.length > 0;
  if (in_order && owes && connection->state == WEIR_CONNECTION_OPEN) {
    event_del(&connection->readable);
    weir_connection_end(connection);
  } else {
    close_soon(connection);
  }
}

static void on_readable(evutil_socket_t fd, short what, void *self) {
  weir_connection *connection = self;
  weir_loop *loop = connection->loop;
  (void)fd;
  (void)what;
  if (connection->is_parked ||
      connection->is_held) /* until it has taken its answers, or may go on */
    event_del(&connection->readable);
  if (connection->is_resumed || connection->is_parked || connection->is_held)
    return; /* first what it has sent before */
  loop->tick.now_us = weir_serve_now_us();
  bool begins = connection->input.length == 0;
  ssize_t got = receive(connection);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (connection->transport.sends_to_read) event_add(&connection->writable, NULL);
    return;
  }
  if (got <= 0) {
    hear_end(connection, got == 0);
    return;
  }
  if (connection->state != WEIR_CONNECTION_OPEN) return;
  connection->arrived_us = loop->tick.now_us;
  if (begins && connection->has_read) connection->since_us = loop->tick.now_us;
  if (begins)
    take_requests(connection, loop->buffer, (size_t)got);
  else
    take_requests(connection, connection->input.data, connection->input.length);
}

bool weir_connection_is_late(const weir_connection *connection, int64_t now_us) {
  const weir_config_limits *limits = weir_loop_limits(connection->loop);
  int64_t waited_us = now_us - connection->since_us;
  bool within_request = !connection->has_read || connection->input.length > 0;
  if (connection->state == WEIR_CONNECTION_ENDED) return waited_us > LINGER_US;
  if (connection->is_leaving) return waited_us > limits->first_bytes_us;
  if (connection->output.length > 0 || !within_request || connection->is_resumed ||
      connection->is_parked || connection->is_held)
    return waited_us > limits->idle_us;
  return waited_us > limits->first_bytes_us;
}

void weir_connection_expire(weir_connection *connection) {
  bool is_idle = connection->state == WEIR_CONNECTION_OPEN && connection->has_read &&
                 connection->input.length == 0 && connection->output.length == 0;
  const weir_speech *speech = connection->port->speech;
  weir_serve_count(&connection->loop->counts.timeouts,
                   connection->state != WEIR_CONNECTION_ENDED && !connection->is_leaving);
  if (is_idle && speech->leave != NULL && speech->leave(connection)) {
    connection->since_us = connection->loop->tick.now_us;
    weir_connection_touch(connection);
  } else {
    weir_connection_drop(connection);
  }
}

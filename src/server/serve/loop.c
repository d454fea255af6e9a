/* The turns of one thread: the way of a request from its socket to its answer.
 *
 *     on_accept -> open_connection      a client comes
 *     on_readable -> take_requests      bytes are received; its protocol reads requests off the front,
 *                                       adds them to the turn and queues their answers
 *     finish_turn -> weir_askers_decide all that came in this turn is decided together, by what is known
 *                                       and by the stores that are near
 *     answer_connection -> send_some    each client's answers are worded in their order, and sent
 *     take_pending                      or else they are handed over to threads that wait for a store
 *     on_wake -> answer_pending         and are worded and sent when those have them
 *
 * No step waits: what a socket does not take or give now is asked for again when libevent says so, and
 * what is said of stores near by stands in asker.h. A turn is what happens between two waits for events. */
#include "serve/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ACCEPT_MOST = 16, RECEIVE_BYTES = 65536, REPLY_KEPT = 1 << 20 };
/* A record of TLS is taken as a whole: no event tells of what is left of one. */
enum { SHARE_MOST = 1024, INPUT_ROOM = 1024, RECORD_ROOM = 16384 };
enum { LINGER_US = 1000000 };
enum { ADMIN_FILES = 8 };
/* How long a loop that drains waits for a request that may be on its way, and how often it looks. */
enum { LAST_WORD_US = 1000000, DRAIN_LOOK_US = 100000 };

/* --- the end of a connection -------------------------------------------------------------------- */

/* It is in none of the turn's lists, and waits for no store. */
static void close_now(weir_connection *connection) {
  weir_loop *loop = connection->loop;
  event_del(&connection->readable);
  event_del(&connection->writable);
  event_del(&connection->pause);
  if (connection->previous != NULL)
    connection->previous->next = connection->next;
  else
    loop->connections = connection->next;
  if (connection->next != NULL) connection->next->previous = connection->previous;
  loop->connection_count--;
  atomic_store_explicit(&loop->served.counts.open, (int64_t)loop->connection_count,
                        memory_order_relaxed);
  if (connection->port->protocol->end != NULL) connection->port->protocol->end(connection);
  weir_clients_leave(loop->service->clients, &connection->address);
  weir_transport_close(&connection->transport);
  weir_bytes_free(&connection->input);
  weir_bytes_free(&connection->output);
  free(connection);
}

/* Nothing more is read of it, and what came of a request that is not whole goes: what comes from here on is
 * thrown away. It ends when its answers are sent. */
static void stop_reading(weir_connection *connection) {
  connection->state = WEIR_CONNECTION_ENDING;
  event_del(&connection->readable);
  event_del(&connection->pause);
  connection->is_held = false;
  weir_bytes_free(&connection->input);
}

/* At once, or where one of the turn's lists comes to it, or its pending answers. */
static void close_soon(weir_connection *connection) {
  event_del(&connection->readable);
  event_del(&connection->writable);
  event_del(&connection->pause);
  connection->state = WEIR_CONNECTION_ENDED;
  weir_bytes_free(&connection->output);
  weir_bytes_free(&connection->input);
  if (!connection->is_touched && !connection->is_resumed && connection->pending == NULL)
    close_now(connection);
}

static void resume_later(weir_connection *connection) {
  if (connection->is_resumed) return;
  connection->is_resumed = true;
  connection->next_resumed = connection->loop->resumed;
  connection->loop->resumed = connection;
}

/* --- answers: out ------------------------------------------------------------------------------- */

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
  if (sent > 0) connection->since_us = connection->loop->turn.now_us;
  weir_serve_count(&connection->loop->served.counts.sent_bytes, sent);
  return (ssize_t)sent;
}

/* All is sent: nothing stays behind of it, and one that ends says so. */
static void rest(weir_connection *connection) {
  weir_bytes_free(&connection->output);
  if (connection->pending != NULL) return; /* there is more to come */
  if (connection->state == WEIR_CONNECTION_OPEN) {
    event_add(&connection->readable, NULL);
    if (connection->is_parked) resume_later(connection);
    connection->is_parked = false;
    return;
  }
  if (connection->state == WEIR_CONNECTION_ENDED) return;
  connection->state = WEIR_CONNECTION_ENDED;
  connection->since_us = connection->loop->turn.now_us;
  weir_transport_finish(&connection->transport);
  event_add(&connection->readable, NULL);
}

/* Words a client's answers of this turn from `first` on, and sends what it takes. False: it has not taken all
 * of it, or is at its end; it may be gone then. */
static bool answer_connection(weir_connection *connection, const weir_turn *turn, uint32_t first) {
  weir_loop *loop = connection->loop;
  const weir_protocol *protocol = connection->port->protocol;
  weir_bytes *out = &loop->reply;
  connection->is_touched = false;
  out->length = 0;
  for (uint32_t i = first; i != WEIR_NO_ANSWER; i = turn->answers[i].next) {
    const weir_answer *answer = &turn->answers[i];
    if (answer->kind == WEIR_ANSWER_TEXT)
      weir_bytes_add(out, turn->bytes.data + answer->is.text.begin, answer->is.text.length);
    else
      protocol->answer(connection, turn, answer, out);
  }
  bool goes_on = protocol->flush == NULL || protocol->flush(connection, out);
  if (!goes_on && connection->state == WEIR_CONNECTION_OPEN) stop_reading(connection);

  bool lost = out->failed || connection->output.failed;
  if (out->failed) weir_bytes_free(out);
  if (lost || connection->state == WEIR_CONNECTION_ENDED) {
    close_soon(connection);
    return false;
  }
  ssize_t sent = connection->output.length > 0 ? 0 : send_some(connection, out->data, out->length);
  if (sent < 0) {
    close_soon(connection);
    return false;
  }
  if ((size_t)sent < out->length) {
    /* Bytes that the client did not take are kept; above the limit nothing more is read from it. */
    weir_bytes_add(&connection->output, out->data + sent, out->length - (size_t)sent);
    if (connection->output.failed) {
      close_soon(connection);
      return false;
    }
    event_add(&connection->writable, NULL);
    if (connection->output.length > (size_t)weir_loop_limits(loop)->output_bytes)
      event_del(&connection->readable);
  } else if (connection->output.length == 0 && connection->state == WEIR_CONNECTION_ENDING) {
    rest(connection);
    return false;
  }
  return connection->output.length == 0;
}

/* Answers the requests that came in this turn. */
static void answer_turn(weir_connection *connection) {
  uint32_t first = connection->first_answer;
  connection->first_answer = connection->last_answer = WEIR_NO_ANSWER;
  (void)answer_connection(connection, &connection->loop->turn, first);
}

/* Sends what is left, then says the end. The connection may be gone then. */
static void end_connection(weir_connection *connection) {
  if (connection->state != WEIR_CONNECTION_OPEN) return;
  stop_reading(connection);
  if (!connection->is_touched && connection->output.length == 0) rest(connection);
}

/* --- answers that wait for a store ---------------------------------------------------------------
 */

static void count_waiting(weir_loop *loop, size_t more, size_t less) {
  loop->askers.waiting += more - less;
  atomic_store_explicit(&loop->served.counts.waiting, (int64_t)loop->askers.waiting,
                        memory_order_relaxed);
}

/* The client goes on where it was: what it has sent meanwhile is read. */
static void go_on(weir_connection *connection) {
  if (!connection->is_held) event_add(&connection->readable, NULL);
  if (connection->is_parked) resume_later(connection);
  connection->is_parked = false;
}

/* It is in none of the turn's lists, unless it is to be resumed. */
static void answer_pending(weir_loop *loop, weir_pending *pending) {
  weir_connection *connection = pending->client;
  connection->pending = NULL;
  if (answer_connection(connection, &pending->turn, 0)) go_on(connection);
  loop->pending_count--;
  count_waiting(loop, 0, pending->left);
  bool was_outdated = pending->turn.registry != loop->turn.registry;
  weir_pending_destroy(pending);
  if (was_outdated && --loop->outdated == 0) atomic_store(&loop->is_outdated, false);
}

/* The client's answers of this turn wait for a store. Where there is no memory for that the loop waits. */
static void take_pending(weir_connection *connection) {
  weir_loop *loop = connection->loop;
  weir_pending *pending = weir_pending_create(&loop->turn, connection->first_answer, connection);
  if (pending == NULL) {
    weir_askers_wait(&loop->askers, &loop->turn, connection->first_answer);
    answer_turn(connection);
    return;
  }
  connection->first_answer = connection->last_answer = WEIR_NO_ANSWER;
  connection->is_touched = false;
  connection->pending = pending;
  loop->pending_count++;
  count_waiting(loop, pending->left, 0);
  if (loop->askers.waiting > (size_t)weir_loop_limits(loop)->waiting) weir_pending_shed(pending);
  if (!weir_askers_send(&loop->askers, pending)) answer_pending(loop, pending);
}

/* Answers those whose answers have come back since. One that waits for another store as well goes
 * on to that. */
static void answer_all_pending(weir_loop *loop) {
  for (weir_pending *next, *one = weir_askers_collect(&loop->askers); one != NULL; one = next) {
    next = one->next;
    if (!weir_askers_send(&loop->askers, one)) answer_pending(loop, one);
  }
  weir_askers_hand_over(&loop->askers);
}

/* --- requests: in ------------------------------------------------------------------------------- */

/* Reads requests off the front of these bytes, and keeps what is not whole. */
static void take_requests(weir_connection *connection, const char *bytes, size_t length) {
  const weir_loop *loop = connection->loop;
  const weir_protocol *protocol = connection->port->protocol;
  bool is_own = bytes == connection->input.data;
  size_t taken = 0;
  weir_read_result result = WEIR_READ_ONE;

  /* Every connection may bring as many requests into a turn that all of them together fit. */
  size_t share = (size_t)weir_loop_limits(loop)->waiting / (loop->connection_count + 1);
  connection->share = (uint32_t)(share < 1 ? 1 : share < SHARE_MOST ? share : SHARE_MOST);
  bool goes_on = protocol->go_on == NULL || protocol->go_on(connection);
  while (goes_on && result == WEIR_READ_ONE && taken < length && connection->share > 0) {
    size_t used = 0;
    result = protocol->read(connection, bytes + taken, length - taken, &used);
    if (result == WEIR_READ_MORE) break;
    taken += used;
    if (used == 0) break;
    connection->share--;
    connection->has_read = true;
    connection->since_us = loop->turn.now_us;
  }
  if (result == WEIR_READ_ENDS) {
    stop_reading(connection);
    weir_connection_touch(connection);
    return;
  }
  if (goes_on && taken < length && result != WEIR_READ_MORE && result != WEIR_READ_HELD) {
    resume_later(connection);
  }

  if (taken == length)
    weir_bytes_free(&connection->input);
  else if (is_own)
    weir_bytes_drop(&connection->input, taken);
  else
    weir_bytes_add(&connection->input, bytes + taken, length - taken);
  if (connection->input.failed) close_soon(connection);
}

/* Goes on with the requests that were too many for the last turn. */
static void resume(weir_connection *connection) {
  bool waits = connection->output.length > 0 || connection->pending != NULL;
  connection->is_resumed = false;
  if (connection->state == WEIR_CONNECTION_ENDED && !connection->is_touched)
    close_soon(connection);
  else if (connection->state == WEIR_CONNECTION_OPEN && waits)
    connection->is_parked =
        true; /* a client that has not taken its answers is asked for no requests */
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
  weir_serve_count(&loop->served.counts.received_bytes, (uint64_t)got);
  return got;
}

/* --- events ------------------------------------------------------------------------------------- */

/* The clock is read once a turn, when its first event is there: what comes in the same turn was there by
 * then, too. */
static void note_time(weir_loop *loop) {
  if (loop->has_time) return;
  loop->turn.now_us = weir_monotonic_us();
  loop->has_time = true;
}

static void on_readable(evutil_socket_t fd, short what, void *self) {
  weir_connection *connection = self;
  weir_loop *loop = connection->loop;
  (void)fd;
  (void)what;
  /* First what it has sent before; and nothing until it has taken its answers, or may go on. */
  bool waits = connection->is_parked || connection->is_held || connection->pending != NULL;
  if (waits) event_del(&connection->readable);
  if (waits || connection->is_resumed) return;

  note_time(loop);
  bool begins = connection->input.length == 0;
  ssize_t got = receive(connection);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    if (connection->transport.sends_to_read) event_add(&connection->writable, NULL);
    return;
  }
  if (got <= 0) {
    /* The peer sends no more; where it ended in order it may still wait for answers. */
    bool owes = connection->is_touched || connection->output.length > 0;
    if (got == 0 && owes && connection->state == WEIR_CONNECTION_OPEN) {
      end_connection(connection);
    } else {
      close_soon(connection);
    }
    return;
  }
  connection->goes_on_sending = connection->state == WEIR_CONNECTION_ENDED;
  if (connection->state != WEIR_CONNECTION_OPEN) return;
  connection->arrived_us = loop->turn.now_us;
  if (begins && connection->has_read) connection->since_us = loop->turn.now_us;
  if (begins)
    take_requests(connection, loop->buffer, (size_t)got);
  else
    take_requests(connection, connection->input.data, connection->input.length);
}

static void on_writable(evutil_socket_t fd, short what, void *self) {
  weir_connection *connection = self;
  weir_bytes *output = &connection->output;
  (void)what;
  note_time(connection->loop);
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

/* A connection that was held is read again: see weir_connection_may_show(). */
static void end_pause(weir_connection *connection) {
  event_del(&connection->pause);
  connection->is_held = false;
  event_add(&connection->readable, NULL);
  resume_later(connection);
}

static void on_pause_over(evutil_socket_t fd, short what, void *self) {
  weir_connection *connection = self;
  (void)fd;
  (void)what;
  end_pause(connection);
}

/* Whether the peer of one that is held sends no more. */
static bool has_hung_up(const weir_connection *connection) {
  struct pollfd peer = {.fd = connection->transport.fd, .events = POLLRDHUP};
  return poll(&peer, 1, 0) > 0;
}

/* --- accepting ---------------------------------------------------------------------------------- */

/* Takes the socket over; closes it where there is no memory. The client has been counted. */
static void open_connection(weir_port *port, int fd, const weir_client_address *address) {
  weir_loop *loop = port->loop;
  weir_service *service = loop->service;
  weir_connection *connection = calloc(1, sizeof *connection);
  /* A newer certificate may take the place of the listener's meanwhile. */
  pthread_mutex_lock(&service->tls_lock);
  weir_serve_tls *tls = weir_serve_tls_retain(service->tls[port->index]);
  pthread_mutex_unlock(&service->tls_lock);
  bool is_open = connection != NULL && weir_transport_open(&connection->transport, fd, tls);
  weir_serve_tls_destroy(tls);
  if (!is_open) {
    free(connection);
    close(fd);
    weir_clients_leave(service->clients, address);
    return;
  }
  connection->loop = loop;
  connection->port = port;
  connection->address = *address;
  connection->first_answer = connection->last_answer = WEIR_NO_ANSWER;
  connection->since_us = loop->turn.now_us;
  connection->next = loop->connections;
  if (loop->connections != NULL) loop->connections->previous = connection;
  loop->connections = connection;
  loop->connections_made++;
  loop->connection_count++;
  atomic_store_explicit(&loop->served.counts.open, (int64_t)loop->connection_count,
                        memory_order_relaxed);
  if (port->protocol->begin != NULL) port->protocol->begin(connection);
  event_assign(&connection->readable, loop->base, fd, EV_READ | EV_PERSIST, on_readable,
               connection);
  event_assign(&connection->writable, loop->base, fd, EV_WRITE, on_writable, connection);
  evtimer_assign(&connection->pause, loop->base, on_pause_over, connection);
  weir_serve_count(&loop->served.counts.accepted, 1);
  if (event_add(&connection->readable, NULL) != 0) close_now(connection);
}

/* Whether the listener believes what this address says of its clients. */
static bool is_proxy(const weir_port *port, const weir_client_address *client) {
  char text[WEIR_CLIENT_ADDRESS_TEXT_BYTES];
  if (port->config->trusted == NULL) return false;
  weir_client_address_write(client, text);
  return weir_http_networks_contain(port->config->trusted, text);
}

/* A client that has come is served, or refused where there are too many. */
static void welcome(weir_port *port, int fd, const struct sockaddr *address) {
  weir_loop *loop = port->loop;
  const int on = 1;
  weir_client_address client = weir_client_address_of(address);
  size_t most_of_one = (size_t)weir_loop_limits(loop)->connections_per_address;
  if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    close(fd);
    return;
  }
  client.is_proxy = is_proxy(port, &client);
  if (!weir_clients_enter(loop->service->clients, &client, most_of_one)) {
    const weir_protocol *protocol = port->protocol;
    weir_serve_count(&loop->served.counts.refused, 1);
    if (port->config->tls.certificate == NULL)
      (void)!send(fd, protocol->full, protocol->full_length, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
    return;
  }
  if (client.is_known) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  open_connection(port, fd, &client);
}

/* Whether the process has files for another client. The last few are kept for admin, whose clients come to the
 * front alone: who looks after the server must see it when it has none left. The kernel gives the lowest number that
 * is free, so the last one tells whether there is anything to look at. */
static bool has_files(const weir_loop *loop) {
  int most = atomic_load_explicit(&loop->service->files, memory_order_relaxed);
  if (loop == loop->service->front || loop->last_fd < most - 2 * ADMIN_FILES) return true;
  int next = dup(loop->wake_fd);
  if (next >= 0) close(next);
  return next >= 0 && next < most - ADMIN_FILES;
}

/* Takes up to so many of the clients that wait. False: the process has no more files for them. */
static bool accept_some(weir_port *port, size_t most) {
  for (size_t i = 0; i < most; i++) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (!has_files(port->loop)) return false;
    int fd = accept(port->fd, (struct sockaddr *)(void *)&address, &length);
    if (fd >= 0) port->loop->last_fd = fd;
    if (fd >= 0)
      welcome(port, fd, (const struct sockaddr *)(const void *)&address);
    else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
      return false;
    else if (errno != EINTR && errno != ECONNABORTED)
      break;
  }
  return true;
}

static void on_accept(evutil_socket_t listener, short what, void *self) {
  weir_port *port = self;
  weir_loop *loop = port->loop;
  (void)listener;
  (void)what;
  note_time(loop);
  if (accept_some(port, ACCEPT_MOST)) return;
  loop->accepts_paused = true; /* until the next sweep */
  weir_serve_count(&loop->served.counts.accept_pauses, 1);
  for (size_t i = 0; i < loop->port_count; i++)
    event_del(&loop->ports[i].accepts);
}

bool weir_loop_listen(weir_loop *loop, weir_port *port) {
  port->loop = loop;
  return event_assign(&port->accepts, loop->base, port->fd, EV_READ | EV_PERSIST, on_accept,
                      port) == 0 &&
         event_add(&port->accepts, NULL) == 0;
}

/* --- time --------------------------------------------------------------------------------------- */

/* Whether it is slower, or idle for longer, than the limits say. */
static bool is_late(const weir_connection *connection, int64_t now_us) {
  const weir_config_limits *limits = weir_loop_limits(connection->loop);
  int64_t waited_us = now_us - connection->since_us;
  if (connection->pending != NULL) return false; /* it is the store that is slow */
  bool within_request = !connection->has_read || connection->input.length > 0;
  if (connection->state == WEIR_CONNECTION_ENDED) return waited_us > LINGER_US;
  if (connection->is_leaving) return waited_us > limits->first_bytes_us;
  if (connection->output.length > 0 || !within_request || connection->is_resumed ||
      connection->is_parked || connection->is_held)
    return waited_us > limits->idle_us;
  return waited_us > limits->first_bytes_us;
}

/* One that is idle, and holds what its end would release. */
static bool is_needed(const weir_connection *connection) {
  return connection->may_hold && connection->state == WEIR_CONNECTION_OPEN &&
         connection->input.length == 0 && connection->output.length == 0 &&
         weir_keeper_holds(&connection->loop->service->keeper, &connection->holder);
}

/* Once a second. */
static void on_sweep(evutil_socket_t fd, short what, void *self) {
  weir_loop *loop = self;
  (void)fd;
  (void)what;
  note_time(loop);
  int64_t now_us = loop->turn.now_us;
  for (weir_connection *next, *one = loop->connections; one != NULL; one = next) {
    const weir_protocol *protocol = one->port->protocol;
    next = one->next;
    if (protocol->sweep != NULL) protocol->sweep(one);
    if (one->is_held && has_hung_up(one)) {
      /* It takes nobody's place for longer. A request that was not looked at yet is not looked
       * at. */
      if (one->refusing != 0)
        end_pause(one);
      else
        close_soon(one);
      continue;
    }
    if (!is_late(one, now_us) || is_needed(one)) continue;
    if (one->goes_on_sending && !loop->is_draining) weir_connection_note_broken(one);
    /* One that is idle may be told to leave, so that no request of it is lost. */
    bool is_idle = one->state == WEIR_CONNECTION_OPEN && one->has_read && one->input.length == 0 &&
                   one->output.length == 0;
    weir_serve_count(&loop->served.counts.timeouts,
                     one->state != WEIR_CONNECTION_ENDED && !one->is_leaving);
    if (is_idle && protocol->leave != NULL && protocol->leave(one)) {
      one->since_us = now_us;
      weir_connection_touch(one);
    } else {
      close_soon(one);
    }
  }
  for (size_t i = 0; loop->accepts_paused && i < loop->port_count; i++)
    event_add(&loop->ports[i].accepts, NULL);
  loop->accepts_paused = false;
}

static void on_wake(evutil_socket_t fd, short what, void *self) {
  uint64_t times;
  (void)what;
  (void)self;
  (void)!read(fd, &times, sizeof times);
}

void weir_loop_wake(weir_loop *loop) {
  const uint64_t once = 1;
  (void)!write(loop->wake_fd, &once, sizeof once);
}

/* --- turns -------------------------------------------------------------------------------------- */

/* Clients whose connection the kernel has made already are taken in before the listener goes, or else they
 * would be reset: no more than can wait, however fast others come. At a socket of systemd's they wait for
 * the next server. */
static void stop_listening(weir_loop *loop) {
  for (size_t i = 0; i < loop->port_count; i++) {
    weir_port *port = &loop->ports[i];
    event_del(&port->accepts);
    if (port->config->kind == WEIR_CONFIG_SYSTEMD) continue;
    /* Connections that wait at a unix socket can still be accepted behind its end; at TCP they
     * would be gone. */
    if (port->config->kind == WEIR_CONFIG_UNIX) shutdown(port->fd, SHUT_RDWR);
    if (port->config->kind == WEIR_CONFIG_TCP) weir_socket_turn_deaf(port->fd);
    accept_some(port, WEIR_SOCKET_WAITING_MOST);
    if (port->config->kind == WEIR_CONFIG_TCP) shutdown(port->fd, SHUT_RDWR);
    if (!port->is_shared) close(port->fd);
  }
  loop->accepts_paused = false; /* for good */
  atomic_store(&loop->has_stopped, true);
  weir_loop_wake(loop->service->front);
}

/* Whether a request may be on its way that nobody could tell to go elsewhere: of a client that has just come,
 * is in the middle of one, or asked a moment ago. It is answered, and the end is said behind it. */
static bool is_awaited(const weir_connection *connection, int64_t now_us) {
  const weir_loop *loop = connection->loop;
  bool has_heard = connection->has_read && connection->input.length == 0 &&
                   connection->arrived_us > loop->drain_since_us;
  return !has_heard && now_us - connection->since_us < LAST_WORD_US &&
         now_us - loop->drain_since_us < LAST_WORD_US;
}

static void begin_drain(weir_loop *loop) {
  const struct timeval often = {.tv_usec = DRAIN_LOOK_US};
  loop->is_draining = true;
  loop->drain_since_us = weir_monotonic_us();
  stop_listening(loop);
  event_add(&loop->sweeps, &often);
}

/* A loop that drains accepts no more. Each client that has all its answers is told that there will be
 * no more of them, so that no request is lost where its protocol can tell it; when the time is over,
 * all that are left are closed. */
static void drain(weir_loop *loop) {
  if (!loop->is_draining) begin_drain(loop);
  int64_t now_us = weir_monotonic_us();
  bool over = now_us - loop->drain_since_us > weir_loop_limits(loop)->drain_us;
  for (weir_connection *next, *one = loop->connections; one != NULL; one = next) {
    const weir_protocol *protocol = one->port->protocol;
    bool is_at_rest = one->state == WEIR_CONNECTION_OPEN && !one->is_resumed && !one->is_parked &&
                      one->pending == NULL;
    bool can_tell = protocol->leave != NULL && one->has_read;
    next = one->next;
    if (over)
      close_soon(one);
    else if (is_at_rest && can_tell && protocol->leave(one))
      answer_turn(one);
    else if (is_at_rest && !can_tell && !is_awaited(one, now_us))
      end_connection(one);
  }
}

/* `all_decided`: all requests of the turn are, but for places and parts. */
static void answer_touched(weir_loop *loop, bool all_decided) {
  bool some_wait = !all_decided || loop->turn.place_count > 0 || loop->turn.part_count > 0;
  weir_connection *touched = loop->touched;
  loop->touched = NULL;
  for (weir_connection *next, *one = touched; one != NULL; one = next) {
    next = one->next_touched;
    if (some_wait && weir_exchange_waits_for(&loop->turn, one->first_answer) != NULL)
      take_pending(one);
    else
      answer_turn(one);
  }
  weir_askers_hand_over(&loop->askers);
}

static void finish_turn(weir_loop *loop) {
  weir_turn *turn = &loop->turn;
  size_t decided = 0;
  if (turn->asked_count > 0) {
    int64_t began_us = weir_monotonic_us();
    decided = weir_askers_decide(&loop->askers, turn);
    if (decided > 0) weir_served_turn(&loop->served, decided, weir_monotonic_us() - began_us);
  }
  answer_touched(loop, decided == turn->asked_count);
  weir_turn_clear(turn);
  if (loop->pending_count > 0) answer_all_pending(loop);
  if (loop->reply.capacity > REPLY_KEPT) weir_bytes_free(&loop->reply);

  /* A listener's secrets and answers may change with a snapshot. */
  weir_registry *before = turn->registry;
  turn->registry = weir_registry_fetch(&loop->mailbox, before);
  if (turn->registry != before) {
    turn->last_limiter = NULL;
    weir_served_follow(&loop->served, turn->registry);
    for (size_t i = 0; i < loop->port_count; i++)
      loop->ports[i].config =
          weir_service_listener(loop->service, turn->registry, loop->ports[i].index);
    weir_askers_follow(&loop->askers, turn->registry);
    loop->outdated = loop->pending_count;
    atomic_store(&loop->is_outdated, loop->outdated > 0);
    atomic_store(&loop->in_use, turn->registry);
  }
  if (loop->is_draining || atomic_load(&loop->must_drain)) drain(loop);
}

/* A client that brings requests in a turn goes on in the next, so that none has its share of it
 * twice. */
void weir_loop_turn(weir_loop *loop) {
  weir_connection *resumed = loop->resumed;
  loop->resumed = NULL;
  loop->has_time = false;
  event_base_loop(loop->base, EVLOOP_ONCE | (resumed != NULL ? EVLOOP_NONBLOCK : 0));
  note_time(loop);
  for (weir_connection *next, *one = resumed; one != NULL; one = next) {
    next = one->next_resumed;
    resume(one);
  }
  finish_turn(loop);
}

void weir_loop_run(weir_loop *loop) {
  while (!loop->is_draining || loop->connection_count > 0)
    weir_loop_turn(loop);
  atomic_store(&loop->is_done, true);
  weir_loop_wake(loop->service->front);
}

/* --- life --------------------------------------------------------------------------------------- */

bool weir_loop_init(weir_loop *loop, weir_service *service, unsigned index,
                    weir_registry *registry) {
  const struct timeval second = {.tv_sec = 1};
  *loop = (weir_loop){.service = service, .index = index, .wake_fd = -1};
  loop->buffer_bytes = RECEIVE_BYTES;
  loop->buffer = malloc(loop->buffer_bytes);
  struct event_config *config = event_config_new();
  if (config != NULL) {
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK); /* used by one thread */
    loop->base = event_base_new_with_config(config);
    event_config_free(config);
  }
  loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  weir_turn_init(&loop->turn, index, &loop->served.counts, &service->keeper);
  bool ready = weir_askers_init(&loop->askers, &loop->served.counts, loop->wake_fd);
  loop->turn.registry = weir_registry_retain(registry);
  atomic_store(&loop->in_use, registry);
  weir_served_init(&loop->served, registry, &service->denials);
  if (!ready || loop->buffer == NULL || loop->base == NULL || loop->wake_fd < 0) return false;
  event_assign(&loop->wakes, loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
  event_assign(&loop->sweeps, loop->base, -1, EV_PERSIST, on_sweep, loop);
  return event_add(&loop->wakes, NULL) == 0 && event_add(&loop->sweeps, &second) == 0;
}

void weir_loop_free(weir_loop *loop) {
  if (loop->service == NULL) return; /* never made: its descriptors are none of its own */
  while (loop->connections != NULL)
    close_now(loop->connections);
  if (loop->base != NULL) {
    event_del(&loop->wakes);
    event_del(&loop->sweeps);
    event_base_free(loop->base);
  }
  weir_askers_end(&loop->askers);
  if (loop->wake_fd >= 0) close(loop->wake_fd);
  weir_turn_free(&loop->turn);
  weir_served_free(&loop->served);
  weir_bytes_free(&loop->reply);
  free(loop->buffer);
  free(loop->ports);
  weir_registry_mailbox_empty(&loop->mailbox);
  weir_registry_release(loop->turn.registry);
}

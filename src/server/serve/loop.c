/* The turns of one thread. */
#include "serve/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serve/server.h"

enum { ACCEPT_MOST = 16, RECEIVE_BYTES = 65536, REPLY_KEPT = 1 << 20 };

const weir_config_limits *weir_loop_limits(const weir_loop *loop) {
  return &weir_registry_config(loop->tick.registry)->limits;
}

/* --- accepting -------------------------------------------------------------------------------- */

static void refuse(weir_port *port, int fd) {
  weir_serve_count(&port->loop->counts.refused, 1);
  if (port->config->tls.certificate == NULL)
    (void)!send(fd, port->speech->full, port->speech->full_length, MSG_NOSIGNAL | MSG_DONTWAIT);
  close(fd);
}

static void welcome(weir_port *port, int fd, const struct sockaddr *address) {
  weir_loop *loop = port->loop;
  const int on = 1;
  weir_client_address peer = weir_client_address_of(address);
  size_t most_of_one = (size_t)weir_loop_limits(loop)->connections_per_address;
  if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    close(fd);
    return;
  }
  if (!weir_clients_enter(loop->server->peers, &peer, most_of_one)) {
    refuse(port, fd);
    return;
  }
  if (peer.is_known) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  weir_serve_tls *tls = weir_server_tls(loop->server, port->index);
  weir_connection_open(port, fd, &peer, tls);
  weir_serve_tls_destroy(tls);
}

static void pause_accepting(weir_loop *loop) {
  loop->accepts_paused = true;
  weir_serve_count(&loop->counts.accept_pauses, 1);
  for (size_t i = 0; i < loop->port_count; i++)
    event_del(&loop->ports[i].accepts);
}

static void on_accept(evutil_socket_t listener, short what, void *self) {
  weir_port *port = self;
  (void)what;
  port->loop->tick.now_us = weir_serve_now_us();
  for (int i = 0; i < ACCEPT_MOST; i++) {
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    int fd = accept(listener, (struct sockaddr *)(void *)&address, &length);
    if (fd >= 0) {
      welcome(port, fd, (const struct sockaddr *)(const void *)&address);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      pause_accepting(port->loop);
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

bool weir_loop_listen(weir_loop *loop, weir_port *port) {
  port->loop = loop;
  return event_assign(&port->accepts, loop->base, port->fd, EV_READ | EV_PERSIST, on_accept,
                      port) == 0 &&
         event_add(&port->accepts, NULL) == 0;
}

/* --- draining and sweeping ----------------------------------------------------------------------
 */

static void begin_drain(weir_loop *loop) {
  loop->is_draining = true;
  loop->drain_until_us = weir_serve_now_us() + weir_loop_limits(loop)->drain_us;
  for (size_t i = 0; i < loop->port_count; i++) {
    event_del(&loop->ports[i].accepts);
    if (!loop->ports[i].is_shared) close(loop->ports[i].fd);
  }
  loop->port_count = 0;
}

/* Whoever has all his answers is told that there will be no more. */
static void drain(weir_loop *loop) {
  bool over = weir_serve_now_us() > loop->drain_until_us;
  for (weir_connection *next, *one = loop->connections; one != NULL; one = next) {
    next = one->next;
    if (over)
      weir_connection_drop(one);
    else if (weir_connection_is_at_rest(one))
      weir_connection_leave(one);
  }
}

static void on_sweep(evutil_socket_t fd, short what, void *self) {
  weir_loop *loop = self;
  int64_t now_us = weir_serve_now_us();
  (void)fd;
  (void)what;
  loop->tick.now_us = now_us;
  for (weir_connection *next, *one = loop->connections; one != NULL; one = next) {
    next = one->next;
    if (one->port->speech->sweep != NULL) one->port->speech->sweep(one);
    if (weir_connection_is_late(one, now_us)) weir_connection_expire(one);
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

/* --- turns ------------------------------------------------------------------------------------ */

static void resume_all(weir_connection *resumed) {
  for (weir_connection *next, *one = resumed; one != NULL; one = next) {
    next = one->next_resumed;
    weir_connection_resume(one);
  }
}

static void answer_all(weir_loop *loop) {
  weir_connection *next, *one = loop->touched;
  loop->touched = NULL;
  for (; one != NULL; one = next) {
    next = one->next_touched;
    weir_connection_answer(one);
  }
}

static void decide_all(weir_loop *loop) {
  if (loop->tick.decided == loop->tick.request_count) return;
  size_t requests = loop->tick.request_count - loop->tick.decided;
  int64_t began_us = weir_serve_now_us();
  weir_tick_decide(&loop->tick);
  weir_serve_count(&loop->counts.ticks, 1);
  int64_t us = weir_serve_now_us() - began_us;
  weir_serve_count(&loop->counts.tick_us, (uint64_t)us);
  weir_tally_tick(&loop->tally, requests, us);
}

/* What holds for a listener may change with a snapshot: its secrets, the answers it gives. */
static void refresh(weir_loop *loop) {
  weir_registry *before = loop->tick.registry;
  loop->tick.registry = weir_registry_fetch(&loop->mailbox, before);
  if (loop->tick.registry == before) return;
  weir_tally_follow(&loop->tally, loop->tick.registry);
  loop->tick.waiting_most = (size_t)weir_loop_limits(loop)->waiting;
  for (size_t i = 0; i < loop->port_count; i++)
    loop->ports[i].config =
        weir_server_listener(loop->server, loop->tick.registry, loop->ports[i].index);
  atomic_store(&loop->in_use, loop->tick.registry);
}

static void finish_turn(weir_loop *loop) {
  decide_all(loop);
  answer_all(loop);
  weir_tick_clear(&loop->tick);
  if (loop->reply.capacity > REPLY_KEPT) weir_bytes_free(&loop->reply);
  refresh(loop);
  if (!loop->is_draining && atomic_load(&loop->must_drain)) begin_drain(loop);
  if (loop->is_draining) drain(loop);
}

/* Whoever brings requests in a turn goes on in the next, so that none has its share of it twice. */
void weir_loop_turn(weir_loop *loop) {
  weir_connection *resumed = loop->resumed;
  loop->resumed = NULL;
  loop->tick.now_us = weir_serve_now_us();
  event_base_loop(loop->base, EVLOOP_ONCE | (resumed != NULL ? EVLOOP_NONBLOCK : 0));
  resume_all(resumed);
  finish_turn(loop);
}

void weir_loop_run(weir_loop *loop) {
  while (!loop->is_draining || loop->connection_count > 0)
    weir_loop_turn(loop);
  atomic_store(&loop->is_done, true);
  weir_server_hear_end(loop->server);
}

/* --- life ------------------------------------------------------------------------------------- */

/* Used by one thread: no locks. */
static struct event_base *make_base(void) {
  struct event_config *config = event_config_new();
  if (config == NULL) return NULL;
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  struct event_base *base = event_base_new_with_config(config);
  event_config_free(config);
  return base;
}

bool weir_loop_init(weir_loop *loop, weir_server *server, unsigned index, weir_registry *registry) {
  const weir_config_limits *limits = &weir_registry_config(registry)->limits;
  const struct timeval second = {.tv_sec = 1};
  *loop = (weir_loop){.server = server, .index = index, .wake_fd = -1};
  loop->buffer_bytes = RECEIVE_BYTES;
  loop->buffer = malloc(loop->buffer_bytes);
  loop->base = make_base();
  loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  bool ready = weir_tick_init(&loop->tick, index, (size_t)limits->waiting, &loop->counts);
  loop->tick.registry = weir_registry_retain(registry);
  atomic_store(&loop->in_use, registry);
  weir_tally_init(&loop->tally, registry);
  if (!ready || loop->buffer == NULL || loop->base == NULL || loop->wake_fd < 0) return false;
  event_assign(&loop->wakes, loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
  event_assign(&loop->sweeps, loop->base, -1, EV_PERSIST, on_sweep, loop);
  return event_add(&loop->wakes, NULL) == 0 && event_add(&loop->sweeps, &second) == 0;
}

void weir_loop_free(weir_loop *loop) {
  if (loop->server == NULL) return; /* never made: its descriptors are nobody's */
  for (weir_connection *next, *one = loop->connections; one != NULL; one = next) {
    next = one->next;
    weir_connection_close(one);
  }
  if (loop->base != NULL) {
    event_del(&loop->wakes);
    event_del(&loop->sweeps);
    event_base_free(loop->base);
  }
  if (loop->wake_fd >= 0) close(loop->wake_fd);
  weir_tick_free(&loop->tick);
  weir_tally_free(&loop->tally);
  weir_bytes_free(&loop->reply);
  free(loop->buffer);
  free(loop->ports);
  weir_registry_mailbox_empty(&loop->mailbox);
  weir_registry_release(loop->tick.registry);
}

/* From a file to a running server, and back. */
#include "serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/log.h"
#include "serve/reload.h"

enum { EXIT_CONFIG = 2, EXIT_START = 3 };

/* --- signals ---------------------------------------------------------------------------------- */

/* One that comes where no handler stands would end the process as it is: SIGHUP waits until the
 * server has started, and when it ends all are too late. */
static void mask(int how, bool all) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  if (all) sigaddset(&signals, SIGTERM);
  if (all) sigaddset(&signals, SIGINT);
  pthread_sigmask(how, &signals, NULL);
}

static void drain(weir_server *server) {
  if (server->is_draining) return;
  weir_serve_log("ending: no new connections");
  server->is_draining = true;
  for (unsigned i = 0; i < server->loop_count; i++) {
    atomic_store(&server->loops[i].must_drain, true);
    weir_loop_wake(&server->loops[i]);
  }
  for (size_t i = 0; i < server->socket_count; i++)
    if (server->sockets[i].protocol != WEIR_CONFIG_ADMIN) weir_socket_stop(&server->sockets[i]);
}

void weir_server_hear_end(weir_server *server) {
  weir_loop_wake(&server->front);
}

static void on_signal(evutil_socket_t signal, short what, void *self) {
  (void)what;
  if (signal == SIGHUP)
    weir_server_reload(self);
  else
    drain(self);
}

/* Once a second: have files changed? */
static void on_tick(evutil_socket_t fd, short what, void *self) {
  weir_server *server = self;
  (void)fd;
  (void)what;
  if (!server->is_draining && server->watch != NULL && weir_config_watch_look(server->watch))
    weir_server_reload(server);
  weir_server_release_retired(server);
  weir_denial_log_look(&server->denials);
}

/* False: a signal would not be heard. */
static bool add_signals(weir_server *server) {
  static const int numbers[3] = {SIGTERM, SIGINT, SIGHUP};
  const struct timeval second = {.tv_sec = 1};
  for (size_t i = 0; i < 3; i++) {
    evsignal_assign(&server->signals[i], server->front.base, numbers[i], on_signal, server);
    if (event_add(&server->signals[i], NULL) != 0) return false;
  }
  event_assign(&server->ticks, server->front.base, -1, EV_PERSIST, on_tick, server);
  if (event_add(&server->ticks, &second) != 0) return false;
  mask(SIG_UNBLOCK, false);
  return true;
}

/* --- start ------------------------------------------------------------------------------------ */

static const weir_speech *speech_of(weir_config_protocol protocol) {
  switch (protocol) {
    case WEIR_CONFIG_RESP:
      return &weir_speech_resp;
    case WEIR_CONFIG_HTTP:
      return &weir_speech_http;
    case WEIR_CONFIG_GRPC:
      return &weir_speech_grpc;
    case WEIR_CONFIG_ADMIN:
      return &weir_speech_admin;
  }
  return NULL;
}

/* Those of admin, or those of clients. */
static bool open_sockets(weir_server *server, bool admin) {
  const weir_config *config = weir_registry_config(server->registry);
  weir_message why = {""};
  for (size_t i = 0; i < server->socket_count; i++) {
    if ((server->sockets[i].protocol == WEIR_CONFIG_ADMIN) != admin ||
        weir_socket_open(&config->listeners[i], &server->sockets[i], &why))
      continue;
    weir_serve_log("%s", why.text);
    return false;
  }
  return true;
}

static void log_sockets(const weir_server *server, bool admin) {
  for (size_t i = 0; i < server->socket_count; i++)
    if ((server->sockets[i].protocol == WEIR_CONFIG_ADMIN) == admin)
      weir_serve_log("listening at %s (%s)", server->sockets[i].name,
                     speech_of(server->sockets[i].protocol)->name);
}

/* In the order of the configuration, and none open yet. */
static bool make_sockets(weir_server *server, const weir_config *config) {
  server->sockets = calloc(config->listener_count + 1, sizeof *server->sockets);
  if (server->sockets == NULL) return false;
  for (; server->socket_count < config->listener_count; server->socket_count++)
    if (!weir_socket_init(&config->listeners[server->socket_count],
                          &server->sockets[server->socket_count]))
      return false;
  return true;
}

/* The loop's own socket of a listener; the first loop has the first one. */
static int socket_for(weir_server *server, const weir_loop *loop, size_t listener) {
  weir_socket *first = &server->sockets[listener];
  if (first->is_shared || loop == &server->front || loop->index == 0) return first->fd;
  return weir_socket_again(first);
}

static bool add_port(weir_server *server, weir_loop *loop, size_t listener) {
  const weir_config_listener *config = weir_server_listener(server, server->registry, listener);
  weir_port *port = &loop->ports[loop->port_count];
  *port = (weir_port){.speech = speech_of(config->protocol), .config = config, .index = listener};
  port->fd = socket_for(server, loop, listener);
  port->is_shared = port->fd == server->sockets[listener].fd;
  if (port->fd < 0) {
    weir_serve_log("cannot listen at %s: %s", config->address, strerror(errno));
    return false;
  }
  loop->port_count++;
  return weir_loop_listen(loop, port);
}

static bool add_ports(weir_server *server, weir_loop *loop) {
  loop->ports = calloc(server->socket_count + 1, sizeof *loop->ports);
  bool added = loop->ports != NULL;
  for (size_t i = 0; added && i < server->socket_count; i++)
    if ((server->sockets[i].protocol == WEIR_CONFIG_ADMIN) == (loop == &server->front))
      added = add_port(server, loop, i);
  return added;
}

static unsigned loops_wanted(const weir_config *config) {
  if (config->loops > 0) return (unsigned)config->loops;
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  long loops = cores / 2;
  return (unsigned)(loops < 1                          ? 1
                    : loops > WEIR_THROTTLE_LOOPS_MOST ? WEIR_THROTTLE_LOOPS_MOST
                                                       : loops);
}

static void *run_loop(void *loop) {
  weir_loop_run(loop);
  return NULL;
}

static bool start_loops(weir_server *server) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the main thread's */
  while (server->started < server->loop_count &&
         pthread_create(&server->threads[server->started], NULL, run_loop,
                        &server->loops[server->started]) == 0)
    server->started++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (server->started < server->loop_count) weir_serve_log("a thread could not be started");
  return server->started == server->loop_count;
}

static bool make_loops(weir_server *server) {
  unsigned wanted = server->front.index;
  server->loops = calloc(wanted, sizeof *server->loops);
  server->threads = calloc(wanted, sizeof *server->threads);
  if (server->loops == NULL || server->threads == NULL) return false;
  server->loop_count = wanted;
  for (unsigned i = 0; i < wanted; i++)
    if (!weir_loop_init(&server->loops[i], server, i, server->registry) ||
        !add_ports(server, &server->loops[i]))
      return false;
  return true;
}

/* Admin and signals: while stores are being connected to, the server says that it is not ready, and
 * can be ended. */
static bool start_front(weir_server *server) {
  const weir_config *config = weir_registry_config(server->registry);
  server->peers = weir_clients_create((size_t)config->limits.connections);
  server->began_us = weir_serve_now_us();
  weir_server_make_room(config);
  bool ready = server->peers != NULL && weir_denial_log_init(&server->denials) &&
               make_sockets(server, config) && open_sockets(server, true) &&
               weir_server_read_certificates(server, server->registry) &&
               weir_loop_init(&server->front, server, loops_wanted(config), server->registry) &&
               add_ports(server, &server->front) && add_signals(server);
  if (ready) log_sockets(server, true);
  return ready;
}

static bool start_serving(weir_server *server) {
  if (!open_sockets(server, false) || !make_loops(server)) return false;
  log_sockets(server, false);
  server->is_serving = start_loops(server);
  return server->is_serving;
}

/* Clients come when the stores can answer, or have had their time. */
static bool start(weir_server *server) {
  if (!start_front(server)) return false;
  server->ahead = weir_ahead_begin(server->registry, NULL, &server->front);
  while (server->ahead != NULL && !server->is_draining && !weir_ahead_is_over(server->ahead))
    weir_loop_turn(&server->front);
  weir_ahead_end(server->ahead);
  server->ahead = NULL;
  return server->is_draining || start_serving(server);
}

static bool is_over(const weir_server *server) {
  for (unsigned i = 0; i < server->started; i++)
    if (!atomic_load(&server->loops[i].is_done)) return false;
  return true;
}

/* The main thread serves admin until the last loop is done: its last turn ends with theirs. */
static void run(weir_server *server) {
  while (!server->is_draining || !is_over(server)) {
    weir_server_go_on(server);
    weir_loop_turn(&server->front);
  }
}

/* --- end -------------------------------------------------------------------------------------- */

static void finish(weir_server *server) {
  mask(SIG_BLOCK, true);
  weir_ahead_end(server->ahead);
  weir_registry_release(server->fresh);
  for (unsigned i = 0; i < server->started; i++) {
    atomic_store(&server->loops[i].must_drain, true);
    weir_loop_wake(&server->loops[i]);
    pthread_join(server->threads[i], NULL);
  }
  for (unsigned i = 0; server->loops != NULL && i < server->loop_count; i++)
    weir_loop_free(&server->loops[i]);
  weir_loop_free(&server->front);
  for (size_t i = 0; i < server->socket_count; i++) {
    weir_socket_close(&server->sockets[i]);
    if (server->tls != NULL) weir_serve_tls_destroy(server->tls[i]);
  }
  for (size_t i = 0; i < server->retired_count; i++)
    weir_registry_release(server->retired[i]);
  weir_registry_release(server->registry);
  weir_registry_release(server->anchor);
  weir_config_watch_destroy(server->watch);
  weir_clients_destroy(server->peers);
  pthread_mutex_destroy(&server->tls_lock);
  weir_guesses_free(&server->guesses);
  free(server->retired);
  free(server->sockets);
  free(server->loops);
  free(server->threads);
  free(server->tls);
}

int weir_serve_run(const char *file) {
  weir_server server = {.file = file};
  mask(SIG_BLOCK, false);
  weir_serve_log_begin();
  server.registry = weir_server_load(&server);
  if (server.registry == NULL) {
    weir_config_watch_destroy(server.watch);
    weir_serve_log_end();
    return EXIT_CONFIG;
  }
  weir_serve_log_as_json(weir_registry_config(server.registry)->log.format == WEIR_CONFIG_LOG_JSON);
  server.anchor = weir_registry_retain(server.registry);
  pthread_mutex_init(&server.tls_lock, NULL);
  weir_guesses_init(&server.guesses);
  bool started = start(&server);
  if (started)
    run(&server);
  else
    weir_serve_log("the server could not start");
  finish(&server);
  weir_serve_log_end();
  return started ? 0 : EXIT_START;
}

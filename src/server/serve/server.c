/* From a file to a running server, and back.
 *
 * The main thread reads the configuration, opens the admin listeners and connects to the stores; then it
 * opens those of clients and starts the loops. From then on it serves admin, hears signals and looks for
 * changed files, until a signal lets the loops drain: it ends when the last of them has. */
#include "serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/certificates.h"
#include "serve/protocols.h"
#include "tell/log.h"
#include "thread.h"

enum { EXIT_CONFIG = 2, EXIT_START = 3 };

/* --- signals ---------------------------------------------------------------------------------- */

/* One that comes where no handler stands would end the process as it is: SIGHUP, and those that mean nothing
 * here, wait until the server has started, and when it ends all are too late. */
static void mask(int how, bool all) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  sigaddset(&signals, SIGUSR1);
  sigaddset(&signals, SIGUSR2);
  if (all) sigaddset(&signals, SIGTERM);
  if (all) sigaddset(&signals, SIGINT);
  pthread_sigmask(how, &signals, NULL);
}

static void on_signal(evutil_socket_t signal, short what, void *self) {
  weir_server *server = self;
  weir_service *service = &server->service;
  (void)what;
  if (signal == SIGHUP) {
    weir_server_reload(server);
    return;
  }
  if (signal == SIGUSR1 || signal == SIGUSR2) {
    weir_serve_log("%s means nothing here and is ignored; SIGHUP reads the configuration again",
                   signal == SIGUSR1 ? "SIGUSR1" : "SIGUSR2");
    return;
  }
  if (service->is_draining) return;
  weir_serve_log("ending: no new connections");
  service->is_draining = true;
  for (unsigned i = 0; i < server->loop_count; i++) {
    atomic_store(&server->loops[i].must_drain, true);
    weir_loop_wake(&server->loops[i]);
  }
}

/* When each loop has taken in what waited at its listeners, the next server may begin. */
static void stop_sockets(weir_server *server) {
  weir_service *service = &server->service;
  for (unsigned i = 0; i < server->started; i++)
    if (!atomic_load(&server->loops[i].has_stopped)) return;
  for (size_t i = 0; i < service->socket_count; i++)
    if (service->sockets[i].protocol != WEIR_CONFIG_ADMIN) weir_socket_stop(&service->sockets[i]);
}

/* Once a day, at the first turn, and whenever others may be in use. */
static void look_at_certificates(weir_server *server) {
  enum { EVERY_S = 24 * 3600 };
  int64_t now_us = weir_monotonic_us();
  if (now_us < server->certificates_at_us) return;
  server->certificates_at_us = now_us + EVERY_S * INT64_C(1000000);
  weir_certificates_log(&server->service, server->registry);
}

/* Once a second: have files changed? */
static void on_tick(evutil_socket_t fd, short what, void *self) {
  weir_server *server = self;
  (void)fd;
  (void)what;
  if (!server->service.is_draining && server->watch != NULL &&
      weir_config_watch_look(server->watch))
    weir_server_reload(server);
  weir_server_look_at_stores(server);
  weir_server_release_retired(server);
  look_at_certificates(server);
  weir_denial_log_look(&server->service.denials);
}

/* False: a signal would not be heard. */
static bool add_signals(weir_server *server) {
  static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
  _Static_assert(
      sizeof numbers / sizeof *numbers == sizeof server->signals / sizeof *server->signals,
      "an event for each");
  const struct timeval second = {.tv_sec = 1};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    evsignal_assign(&server->signals[i], server->front.base, numbers[i], on_signal, server);
    if (event_add(&server->signals[i], NULL) != 0) return false;
  }
  event_assign(&server->ticks, server->front.base, -1, EV_PERSIST, on_tick, server);
  if (event_add(&server->ticks, &second) != 0) return false;
  mask(SIG_UNBLOCK, false);
  return true;
}

/* --- listeners and loops ------------------------------------------------------------------------ */

static const weir_protocol *const protocols[] = {[WEIR_CONFIG_RESP] = &weir_protocol_resp,
                                                 [WEIR_CONFIG_HTTP] = &weir_protocol_http,
                                                 [WEIR_CONFIG_GRPC] = &weir_protocol_grpc,
                                                 [WEIR_CONFIG_ADMIN] = &weir_protocol_admin};

/* Those of admin, or those of clients. */
static bool open_sockets(weir_server *server, bool admin) {
  const weir_config *config = server->registry->config;
  const weir_service *service = &server->service;
  weir_message why = {""};
  for (size_t i = 0; i < service->socket_count; i++) {
    weir_socket *socket = &service->sockets[i];
    if ((socket->protocol == WEIR_CONFIG_ADMIN) != admin ||
        weir_socket_open(&config->listeners[i], socket, &why))
      continue;
    weir_serve_log("%s", why.text);
    return false;
  }
  return true;
}

static void log_sockets(const weir_service *service, bool admin) {
  for (size_t i = 0; i < service->socket_count; i++) {
    const weir_socket *socket = &service->sockets[i];
    if ((socket->protocol == WEIR_CONFIG_ADMIN) == admin)
      weir_serve_log("listening at %s (%s)", socket->name, protocols[socket->protocol]->name);
  }
}

/* The loop's ports: of admin where it is the front's, else of clients. A socket that is not shared is
 * opened once for each loop; the first loop has the first one. */
static bool add_ports(weir_server *server, weir_loop *loop) {
  const weir_service *service = &server->service;
  bool is_front = loop == &server->front;
  loop->ports = calloc(service->socket_count + 1, sizeof *loop->ports);
  if (loop->ports == NULL) return false;
  for (size_t i = 0; i < service->socket_count; i++) {
    const weir_socket *first = &service->sockets[i];
    if ((first->protocol == WEIR_CONFIG_ADMIN) != is_front) continue;
    const weir_config_listener *config = weir_service_listener(service, server->registry, i);
    weir_port *port = &loop->ports[loop->port_count];
    *port = (weir_port){.protocol = protocols[config->protocol], .config = config, .index = i};
    port->fd =
        first->is_shared || is_front || loop->index == 0 ? first->fd : weir_socket_again(first);
    port->is_shared = port->fd == first->fd;
    if (port->fd < 0) {
      weir_serve_log("cannot listen at %s: %s", config->address, strerror(errno));
      return false;
    }
    loop->port_count++;
    if (!weir_loop_listen(loop, port)) return false;
  }
  return true;
}

static void *run_loop(void *loop) {
  weir_loop_run(loop);
  return NULL;
}

static bool start_loops(weir_server *server) {
  unsigned wanted = server->front.index;
  weir_served_all *served = &server->service.served;
  server->loops = calloc(wanted, sizeof *server->loops);
  server->threads = calloc(wanted, sizeof *server->threads);
  served->loops = calloc(wanted, sizeof(weir_served *));
  if (server->loops == NULL || server->threads == NULL || served->loops == NULL) return false;
  server->loop_count = served->count = wanted;
  for (unsigned i = 0; i < wanted; i++)
    served->loops[i] = &server->loops[i].served;
  for (unsigned i = 0; i < wanted; i++)
    if (!weir_loop_init(&server->loops[i], &server->service, i, server->registry) ||
        !add_ports(server, &server->loops[i]))
      return false;
  log_sockets(&server->service, false);

  while (server->started < wanted && weir_start_thread(&server->threads[server->started], run_loop,
                                                       &server->loops[server->started]))
    server->started++;
  if (server->started < wanted) weir_serve_log("a thread could not be started");
  return server->started == wanted;
}

/* --- start ------------------------------------------------------------------------------------ */

/* In the order of the configuration, and none open yet. */
static bool make_sockets(weir_service *service, const weir_config *config) {
  service->sockets = calloc(config->listener_count + 1, sizeof *service->sockets);
  if (service->sockets == NULL) return false;
  for (; service->socket_count < config->listener_count; service->socket_count++)
    if (!weir_socket_init(&config->listeners[service->socket_count],
                          &service->sockets[service->socket_count]))
      return false;
  return true;
}

/* Admin and signals come first: while stores are being connected to, the server says that it is not
 * ready, and can be ended. Clients come when the stores can answer, or have had their time. */
static bool start(weir_server *server) {
  weir_service *service = &server->service;
  const weir_config *config = server->registry->config;
  long loops = config->loops > 0 ? (long)config->loops : sysconf(_SC_NPROCESSORS_ONLN) / 2;
  if (loops < 1) loops = 1;
  if (config->loops <= 0 && loops > WEIR_THROTTLE_LOOPS_MOST) loops = WEIR_THROTTLE_LOOPS_MOST;
  service->clients = weir_clients_create((size_t)config->limits.connections);
  service->front = &server->front;
  service->served.front = &server->front.served;
  service->began_us = weir_monotonic_us();
  weir_server_make_room(service, config);
  if (service->clients == NULL || !weir_denial_log_init(&service->denials) ||
      !weir_keeper_start(&service->keeper) || !make_sockets(service, config) ||
      !open_sockets(server, true) || !weir_server_read_certificates(server, server->registry) ||
      !weir_loop_init(&server->front, service, (unsigned)loops, server->registry) ||
      !add_ports(server, &server->front) || !add_signals(server))
    return false;
  log_sockets(service, true);

  server->ahead = weir_ahead_begin(server->registry, NULL, &server->front);
  while (server->ahead != NULL && !service->is_draining && !weir_ahead_is_over(server->ahead))
    weir_loop_turn(&server->front);
  weir_ahead_end(server->ahead);
  server->ahead = NULL;
  if (service->is_draining) return true;
  weir_server_watch_stores(server);
  service->is_serving = open_sockets(server, false) && start_loops(server);
  return service->is_serving;
}

/* --- end -------------------------------------------------------------------------------------- */

static bool is_over(const weir_server *server) {
  for (unsigned i = 0; i < server->started; i++)
    if (!atomic_load(&server->loops[i].is_done)) return false;
  return true;
}

static void finish(weir_server *server) {
  weir_service *service = &server->service;
  mask(SIG_BLOCK, true);
  weir_ahead_end(server->ahead);
  weir_registry_release(server->fresh);
  for (unsigned i = 0; i < server->started; i++) {
    atomic_store(&server->loops[i].must_drain, true);
    weir_loop_wake(&server->loops[i]);
    pthread_join(server->threads[i], NULL);
  }
  for (unsigned i = 0; i < server->loop_count; i++)
    weir_loop_free(&server->loops[i]);
  weir_loop_free(&server->front);
  weir_keeper_end(&service->keeper);
  weir_server_forget_stores(server);
  for (size_t i = 0; i < service->socket_count; i++) {
    weir_socket_close(&service->sockets[i]);
    if (service->tls != NULL) weir_serve_tls_destroy(service->tls[i]);
  }
  for (size_t i = 0; i < server->retired_count; i++)
    weir_registry_release(server->retired[i]);
  weir_registry_release(server->registry);
  weir_registry_release(service->anchor);
  weir_config_watch_destroy(server->watch);
  weir_clients_destroy(service->clients);
  pthread_mutex_destroy(&service->tls_lock);
  weir_guesses_free(&service->guesses);
  free(server->retired);
  free(service->sockets);
  free(service->served.loops);
  free(service->tls);
  free(server->loops);
  free(server->threads);
}

int weir_serve_run(const char *file) {
  weir_server server = {.file = file};
  weir_service *service = &server.service;
  mask(SIG_BLOCK, false);
  weir_serve_log_begin();
  server.registry = weir_server_load(&server);
  if (server.registry == NULL) {
    weir_config_watch_destroy(server.watch);
    weir_serve_log_end();
    return EXIT_CONFIG;
  }
  weir_serve_log_as_json(server.registry->config->log.format == WEIR_CONFIG_LOG_JSON);
  service->anchor = weir_registry_retain(server.registry);
  pthread_mutex_init(&service->tls_lock, NULL);
  weir_guesses_init(&service->guesses);
  bool started = start(&server);
  if (!started) weir_serve_log("the server could not start");
  /* It serves admin until the last loop is done: its last turn ends with theirs. */
  while (started && (!service->is_draining || !is_over(&server))) {
    weir_server_go_on(&server);
    weir_loop_turn(&server.front);
    if (service->is_draining) stop_sockets(&server);
  }
  finish(&server);
  weir_serve_log_end();
  return started ? 0 : EXIT_START;
}

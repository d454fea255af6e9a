/* From a file to a running server, and back. */
#include "serve/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve/certificates.h"
#include "serve/log.h"

/* Files that are open beside clients: those of loops, stores and listeners. */
enum { EXIT_CONFIG = 2, EXIT_START = 3, OTHER_FILES = 512 };

/* --- the configuration ------------------------------------------------------------------------ */

static void log_faults(const weir_config_faults *faults) {
  for (size_t i = 0; i < faults->kept; i++)
    weir_serve_log("%s", faults->lines[i].text.text);
  if (faults->count > faults->kept) weir_serve_log("and %zu more", faults->count - faults->kept);
}

/* NULL: what is wrong has been said. */
static weir_registry *load(weir_server *server) {
  weir_config_faults *faults = calloc(1, sizeof *faults); /* 50 KB, for a moment */
  if (faults == NULL) {
    weir_serve_log("there is not enough memory to read %s", server->file);
    return NULL;
  }
  weir_registry *registry = weir_registry_load(server->file, server->registry,
                                               weir_certificates_look, &server->watch, faults);
  log_faults(faults);
  free(faults);
  return registry;
}

static const weir_config_listener *find_listener(const weir_registry *registry,
                                                 const weir_socket *socket) {
  const weir_config *config = weir_registry_config(registry);
  for (size_t i = 0; i < config->listener_count; i++)
    if (config->listeners[i].protocol == socket->protocol &&
        strcmp(config->listeners[i].address, socket->listener) == 0)
      return &config->listeners[i];
  return NULL;
}

const weir_config_listener *weir_server_listener(const weir_server *server,
                                                 const weir_registry *registry, size_t index) {
  const weir_config_listener *found = find_listener(registry, &server->sockets[index]);
  weir_registry *anchor = atomic_load(&server->anchor);
  return found != NULL ? found : find_listener(anchor, &server->sockets[index]);
}

static bool has_listeners(const weir_server *server, const weir_registry *registry) {
  for (size_t i = 0; i < server->socket_count; i++)
    if (find_listener(registry, &server->sockets[i]) == NULL) return false;
  return true;
}

/* --- TLS -------------------------------------------------------------------------------------- */

weir_serve_tls *weir_server_tls(weir_server *server, size_t listener) {
  pthread_mutex_lock(&server->tls_lock);
  weir_serve_tls *tls = weir_serve_tls_retain(server->tls[listener]);
  pthread_mutex_unlock(&server->tls_lock);
  return tls;
}

/* Reads the certificates of all listeners; keeps the old ones where there is any fault. */
static bool read_certificates(weir_server *server, const weir_registry *registry) {
  weir_message why = {""};
  size_t count = server->socket_count;
  weir_serve_tls **read = calloc(count + 1, sizeof *read);
  bool good = read != NULL;
  for (size_t i = 0; good && i < count; i++) {
    const weir_config_tls *tls = &weir_server_listener(server, registry, i)->tls;
    if (tls->certificate == NULL) continue;
    read[i] = weir_serve_tls_create(tls, &why);
    good = read[i] != NULL;
  }
  if (!good) weir_serve_log("tls: %s", read == NULL ? "no memory" : why.text);
  pthread_mutex_lock(&server->tls_lock);
  weir_serve_tls **old = good ? server->tls : read;
  if (good) server->tls = read;
  pthread_mutex_unlock(&server->tls_lock);
  for (size_t i = 0; old != NULL && i < count; i++)
    weir_serve_tls_destroy(old[i]);
  free(old);
  return good;
}

/* --- reload ----------------------------------------------------------------------------------- */

/* Loops may still use it: it goes when they do not. Where there is no memory to note it, it stays.
 */
static void retire(weir_server *server, weir_registry *old) {
  weir_registry **retired = realloc(server->retired, (server->retired_count + 1) * sizeof *retired);
  if (retired == NULL) return;
  server->retired = retired;
  retired[server->retired_count++] = old;
}

static void release_retired(weir_server *server) {
  for (unsigned i = 0; i < server->loop_count; i++)
    if (atomic_load(&server->loops[i].in_use) != server->registry) return;
  if (atomic_load(&server->front.in_use) != server->registry) return;
  for (size_t i = 0; i < server->retired_count; i++)
    weir_registry_release(server->retired[i]);
  server->retired_count = 0;
}

static void post(weir_loop *loop, weir_registry *fresh) {
  weir_registry_post(&loop->mailbox, fresh);
  weir_loop_wake(loop);
}

static void make_room(const weir_config *config) {
  size_t wanted = (size_t)config->limits.connections + OTHER_FILES;
  size_t room = weir_sockets_make_room(wanted);
  if (room < wanted)
    weir_serve_log("limits.connections: %lld and %d more files are not to be had: %zu are",
                   (long long)config->limits.connections, OTHER_FILES, room);
}

static void hand_out(weir_server *server, weir_registry *fresh) {
  const weir_config *config = weir_registry_config(fresh);
  bool all = has_listeners(server, fresh);
  if (!weir_peers_resize(server->peers, (size_t)config->limits.connections))
    weir_serve_log("there is not enough memory: limits.connections stays as it was");
  make_room(config);
  if (!all || config->listener_count != server->socket_count)
    weir_serve_log("listeners change with a restart only: they stay where they are");
  if (config->loops != weir_registry_config(server->registry)->loops)
    weir_serve_log("the number of loops changes with a restart only");
  if (all) {
    retire(server, server->anchor);
    atomic_store(&server->anchor, weir_registry_retain(fresh));
  }
  retire(server, server->registry);
  server->registry = fresh;
  for (unsigned i = 0; i < server->loop_count; i++)
    post(&server->loops[i], fresh);
  post(&server->front, fresh);
}

/* A listener of systemd's must not lose what it may be open for. */
static bool may_serve(const weir_server *server, const weir_registry *fresh) {
  weir_message why = {""};
  bool all = true;
  for (size_t i = 0; i < server->socket_count; i++) {
    const weir_config_listener *listener = find_listener(fresh, &server->sockets[i]);
    if (listener == NULL || weir_socket_may_serve(&server->sockets[i], listener, &why)) continue;
    weir_serve_log("%s", why.text);
    all = false;
  }
  return all;
}

static void reload(weir_server *server) {
  weir_registry *fresh = load(server);
  if (fresh == NULL || !may_serve(server, fresh) || !read_certificates(server, fresh)) {
    weir_registry_release(fresh);
    server->reload_failures++;
    weir_serve_log("%s is not used: the configuration stays as it was", server->file);
    return;
  }
  hand_out(server, fresh);
  server->reloads++;
  weir_serve_log("%s is in use now", server->file);
}

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
    reload(self);
  else
    drain(self);
}

/* Once a second: have files changed? */
static void on_tick(evutil_socket_t fd, short what, void *self) {
  weir_server *server = self;
  (void)fd;
  (void)what;
  if (!server->is_draining && server->watch != NULL && weir_config_watch_look(server->watch))
    reload(server);
  release_retired(server);
  weir_denials_look(&server->denials);
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
    case WEIR_CONFIG_ADMIN:
      return &weir_speech_admin;
  }
  return NULL;
}

static bool open_sockets(weir_server *server, const weir_config *config) {
  weir_message why = {""};
  server->sockets = calloc(config->listener_count + 1, sizeof *server->sockets);
  if (server->sockets == NULL) return false;
  for (size_t i = 0; i < config->listener_count; i++) {
    bool is_open = weir_socket_open(&config->listeners[i], &server->sockets[i], &why);
    server->socket_count++;
    if (is_open) continue;
    weir_serve_log("%s", why.text);
    return false;
  }
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
  return server->started == server->loop_count;
}

static bool make_loops(weir_server *server) {
  server->loop_count = loops_wanted(weir_registry_config(server->registry));
  server->loops = calloc(server->loop_count, sizeof *server->loops);
  server->threads = calloc(server->loop_count, sizeof *server->threads);
  if (server->loops == NULL || server->threads == NULL) return false;
  for (unsigned i = 0; i < server->loop_count; i++)
    if (!weir_loop_init(&server->loops[i], server, i, server->registry) ||
        !add_ports(server, &server->loops[i]))
      return false;
  return weir_loop_init(&server->front, server, server->loop_count, server->registry) &&
         add_ports(server, &server->front);
}

static bool start(weir_server *server) {
  const weir_config *config = weir_registry_config(server->registry);
  server->peers = weir_peers_create((size_t)config->limits.connections);
  server->began_us = weir_serve_now_us();
  make_room(config);
  bool ready = server->peers != NULL && weir_denials_init(&server->denials) &&
               open_sockets(server, config) && read_certificates(server, server->registry) &&
               make_loops(server) && add_signals(server);
  if (!ready) return false;
  for (size_t i = 0; i < server->socket_count; i++)
    weir_serve_log("listening at %s (%s)", server->sockets[i].name,
                   speech_of(server->sockets[i].protocol)->name);
  return start_loops(server);
}

static bool is_over(const weir_server *server) {
  for (unsigned i = 0; i < server->started; i++)
    if (!atomic_load(&server->loops[i].is_done)) return false;
  return true;
}

/* The main thread serves admin until the last loop is done: its last turn ends with theirs. */
static void run(weir_server *server) {
  while (!server->is_draining || !is_over(server))
    weir_loop_turn(&server->front);
}

/* --- end -------------------------------------------------------------------------------------- */

static void finish(weir_server *server) {
  mask(SIG_BLOCK, true);
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
  weir_peers_destroy(server->peers);
  pthread_mutex_destroy(&server->tls_lock);
  free(server->retired);
  free(server->sockets);
  free(server->loops);
  free(server->threads);
  free(server->tls);
}

int weir_serve_run(const char *file) {
  weir_server server = {.file = file};
  mask(SIG_BLOCK, false);
  server.registry = load(&server);
  if (server.registry == NULL) {
    weir_config_watch_destroy(server.watch);
    return EXIT_CONFIG;
  }
  server.anchor = weir_registry_retain(server.registry);
  pthread_mutex_init(&server.tls_lock, NULL);
  bool started = start(&server);
  if (started)
    run(&server);
  else
    weir_serve_log("the server could not start");
  finish(&server);
  return started ? 0 : EXIT_START;
}

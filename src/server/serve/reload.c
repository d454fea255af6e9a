/* The configuration in use, and what a newer one changes. */
#include "serve/reload.h"

#include <stdlib.h>
#include <string.h>

#include "serve/log.h"

/* Files that are open beside clients: those of loops, stores and listeners. */
enum { OTHER_FILES = 512 };

/* --- the configuration ------------------------------------------------------------------------ */

static void log_faults(const weir_config_faults *faults) {
  for (size_t i = 0; i < faults->kept; i++)
    weir_serve_log("%s", faults->lines[i].text.text);
  if (faults->count > faults->kept) weir_serve_log("and %zu more", faults->count - faults->kept);
}

weir_registry *weir_server_load(weir_server *server) {
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

bool weir_server_read_certificates(weir_server *server, const weir_registry *registry) {
  weir_message why = {""};
  size_t count = server->socket_count;
  weir_serve_tls **read = calloc(count + 1, sizeof *read);
  bool good = read != NULL;
  for (size_t i = 0; good && i < count; i++) {
    const weir_config_listener *listener = weir_server_listener(server, registry, i);
    if (listener->tls.certificate == NULL) continue;
    read[i] = weir_serve_tls_create(listener, &why);
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

void weir_server_release_retired(weir_server *server) {
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

void weir_server_make_room(const weir_config *config) {
  size_t wanted = (size_t)config->limits.connections + OTHER_FILES;
  size_t room = weir_sockets_make_room(wanted);
  if (room < wanted)
    weir_serve_log("limits.connections: %lld and %d more files are not to be had: %zu are",
                   (long long)config->limits.connections, OTHER_FILES, room);
}

static void hand_out(weir_server *server, weir_registry *fresh) {
  const weir_config *config = weir_registry_config(fresh);
  bool all = has_listeners(server, fresh);
  weir_serve_log_as_json(config->log.format == WEIR_CONFIG_LOG_JSON);
  if (!weir_clients_resize(server->peers, (size_t)config->limits.connections))
    weir_serve_log("there is not enough memory: limits.connections stays as it was");
  weir_server_make_room(config);
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

static void refuse(weir_server *server, weir_registry *fresh) {
  weir_registry_release(fresh);
  server->reload_failures++;
  weir_serve_log("%s is not used: the configuration stays as it was", server->file);
}

static void adopt(weir_server *server, weir_registry *fresh) {
  if (!weir_server_read_certificates(server, fresh)) {
    refuse(server, fresh);
    return;
  }
  hand_out(server, fresh);
  server->reloads++;
  weir_serve_log("%s is in use now", server->file);
}

/* Loops go on with the old configuration while new stores are connected to. A server that ends needs
 * no other. */
void weir_server_reload(weir_server *server) {
  if (server->is_draining) return;
  server->must_reload = server->ahead != NULL || !server->is_serving;
  if (server->must_reload) return;
  weir_registry *fresh = weir_server_load(server);
  if (fresh == NULL || !may_serve(server, fresh)) {
    refuse(server, fresh);
    return;
  }
  server->fresh = fresh;
  server->ahead = weir_ahead_begin(fresh, server->registry, &server->front);
  weir_server_go_on(server);
}

void weir_server_go_on(weir_server *server) {
  if (server->is_draining || (server->ahead != NULL && !weir_ahead_is_over(server->ahead))) return;
  weir_registry *fresh = server->fresh;
  weir_ahead_end(server->ahead);
  server->ahead = NULL;
  server->fresh = NULL;
  if (fresh != NULL) adopt(server, fresh);
  if (server->must_reload) weir_server_reload(server);
}

/* How a configuration comes into use: it is read, its new stores are connected to, so that no
 * client waits for a greeting, and then every loop is handed the snapshot. Settings that it may not
 * change (listeners, the number of loops) stay as they were, and it says so. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "array.h"
#include "serve/server.h"
#include "tell/log.h"
#include "thread.h"

/* Files that are open beside clients: those of loops, stores and listeners. */
enum { OTHER_FILES = 512 };
enum { READING_NICE = 10 };
/* The longest that a server which gives a store up may have to wait. */
enum { STEP_US = 1000000, STEP_LEAST_US = 1000 };

/* --- reading ------------------------------------------------------------------------------------ */

typedef struct reading {
  weir_server *server;
  weir_config_faults *faults;
  weir_registry *registry;
} reading;

static void *read_registry(void *self) {
  reading *one = self;
  one->registry = weir_registry_load(one->server->file, one->server->registry,
                                     weir_certificates_look, &one->server->watch, one->faults);
  return NULL;
}

/* Large files take some 10 ms of a processor. A thread of low priority takes them, so that the loops
 * go first where there are no more processors than loops; the front waits for it. */
static void *read_behind_loops(void *self) {
  setpriority(PRIO_PROCESS, 0, READING_NICE); /* of this thread, on Linux */
  return read_registry(self);
}

static void log_faults(const weir_config_faults *faults) {
  for (size_t i = 0; i < faults->kept; i++)
    weir_serve_log("%s", faults->lines[i].text.text);
  if (faults->count > faults->kept) weir_serve_log("and %zu more", faults->count - faults->kept);
}

weir_registry *weir_server_load(weir_server *server) {
  weir_config_faults *faults = calloc(2, sizeof *faults); /* 100 KB, for a moment */
  if (faults == NULL) {
    weir_serve_log("there is not enough memory to read %s", server->file);
    return NULL;
  }
  faults[0].warnings = &faults[1];
  reading one = {.server = server, .faults = faults};
  pthread_t thread;
  bool has_loops = server->registry != NULL;
  if (has_loops && weir_start_thread(&thread, read_behind_loops, &one))
    pthread_join(thread, NULL);
  else
    read_registry(&one);
  log_faults(&faults[0]);
  if (one.registry != NULL) log_faults(&faults[1]);
  free(faults);
  return one.registry;
}

bool weir_server_read_certificates(weir_server *server, const weir_registry *registry) {
  weir_service *service = &server->service;
  weir_message why = {""};
  size_t count = service->socket_count;
  weir_serve_tls **read = calloc(count + 1, sizeof *read);
  bool good = read != NULL;
  for (size_t i = 0; good && i < count; i++) {
    const weir_config_listener *listener = weir_service_listener(service, registry, i);
    if (listener->tls.certificate == NULL) continue;
    read[i] = weir_serve_tls_create(listener, &why);
    good = read[i] != NULL;
  }
  if (!good) weir_serve_log("tls: %s", read == NULL ? "no memory" : why.text);
  pthread_mutex_lock(&service->tls_lock);
  weir_serve_tls **old = good ? service->tls : read;
  if (good) service->tls = read;
  pthread_mutex_unlock(&service->tls_lock);
  for (size_t i = 0; old != NULL && i < count; i++)
    weir_serve_tls_destroy(old[i]);
  free(old);
  return good;
}

void weir_server_make_room(weir_service *service, const weir_config *config) {
  size_t wanted = (size_t)config->limits.connections + OTHER_FILES;
  size_t room = weir_sockets_make_room(wanted);
  atomic_store(&service->files, weir_sockets_most());
  if (room < wanted)
    weir_serve_log("limits.connections: %lld and %d more files are not to be had: %zu are",
                   (long long)config->limits.connections, OTHER_FILES, room);
}

/* --- connecting ahead ---------------------------------------------------------------------------
 *
 * A thread for each store, as connecting to one waits for its servers. */

typedef struct ahead_store {
  weir_ahead *ahead;
  weir_store *store;
  const char *name; /* the first of the configuration that means it */
  int64_t patience_us;
  pthread_t thread;
  bool has_thread;
  weir_status status;
  weir_message why;
} ahead_store;

struct weir_ahead {
  weir_loop *front;
  atomic_bool must_end;
  atomic_size_t under_way;
  size_t count;
  ahead_store stores[];
};

static bool has_store(const weir_registry *registry, size_t count, const weir_store *store) {
  for (size_t i = 0; i < count; i++)
    if (weir_registry_store_at(registry, i) == store) return true;
  return false;
}

static void *connect_one(void *self) {
  ahead_store *one = self;
  int64_t end_us = weir_monotonic_us() + one->patience_us;
  do {
    int64_t left_us = end_us - weir_monotonic_us();
    if (left_us > STEP_US) left_us = STEP_US;
    if (left_us < STEP_LEAST_US) left_us = STEP_LEAST_US;
    one->status = weir_store_connect(one->store, left_us, &one->why);
  } while (one->status == WEIR_UNAVAILABLE && weir_monotonic_us() < end_us &&
           !atomic_load(&one->ahead->must_end));
  weir_loop *front = one->ahead->front;
  if (atomic_fetch_sub(&one->ahead->under_way, 1) == 1) weir_loop_wake(front);
  return NULL;
}

weir_ahead *weir_ahead_begin(const weir_registry *fresh, const weir_registry *old,
                             weir_loop *front) {
  const weir_config *config = fresh->config;
  size_t old_count = old != NULL ? old->config->store_count : 0;
  weir_ahead *ahead = calloc(1, sizeof *ahead + config->store_count * sizeof ahead->stores[0]);
  if (ahead == NULL) {
    weir_serve_log("there is not enough memory to connect ahead");
    return NULL;
  }
  ahead->front = front;
  for (size_t i = 0; i < config->store_count; i++) {
    weir_store *store = weir_registry_store_at(fresh, i);
    weir_server_state state = WEIR_SERVER_STATE_INIT;
    /* A store inside this process has no name, and no server to connect to. */
    if (weir_store_read_server(store, 0, &state) != WEIR_OK || state.name == NULL) continue;
    if (has_store(fresh, i, store) || has_store(old, old_count, store)) continue;
    weir_store_times times = WEIR_STORE_TIMES_INIT;
    weir_store_read_times(store, &times);
    ahead->stores[ahead->count++] = (ahead_store){.ahead = ahead,
                                                  .store = store,
                                                  .name = config->stores[i].name,
                                                  .patience_us = times.connect_timeout_us,
                                                  .status = WEIR_UNAVAILABLE,
                                                  .why = {"there is no thread to connect by"}};
  }
  if (ahead->count == 0) {
    free(ahead);
    return NULL;
  }

  for (size_t i = 0; i < ahead->count; i++) {
    ahead_store *one = &ahead->stores[i];
    atomic_fetch_add(&ahead->under_way, 1);
    one->has_thread = weir_start_thread(&one->thread, connect_one, one);
    if (!one->has_thread) atomic_fetch_sub(&ahead->under_way, 1);
  }
  return ahead;
}

bool weir_ahead_is_over(const weir_ahead *ahead) {
  return atomic_load(&ahead->under_way) == 0;
}

void weir_ahead_end(weir_ahead *ahead) {
  if (ahead == NULL) return;
  bool was_over = weir_ahead_is_over(ahead);
  atomic_store(&ahead->must_end, true);
  for (size_t i = 0; i < ahead->count; i++) {
    ahead_store *one = &ahead->stores[i];
    if (one->has_thread) pthread_join(one->thread, NULL);
    if (was_over && one->status != WEIR_OK)
      weir_serve_log("store %s is not reached: %s; its fallback decides until it is", one->name,
                     one->why.text);
  }
  free(ahead);
}

/* --- handing out -------------------------------------------------------------------------------- */

/* Loops may still use it: it goes when they do not. Where there is no memory to note it, it stays. */
static void retire(weir_server *server, weir_registry *old) {
  if (weir_array_grow(&server->retired, &server->retired_room, server->retired_count + 1,
                      sizeof(weir_registry *)))
    server->retired[server->retired_count++] = old;
}

void weir_server_release_retired(weir_server *server) {
  for (unsigned i = 0; i < server->loop_count; i++)
    if (atomic_load(&server->loops[i].in_use) != server->registry ||
        atomic_load(&server->loops[i].is_outdated))
      return;
  if (atomic_load(&server->front.in_use) != server->registry) return;
  for (size_t i = 0; i < server->retired_count; i++)
    weir_registry_release(server->retired[i]);
  server->retired_count = 0;
}

static void post(weir_loop *loop, weir_registry *fresh) {
  weir_registry_post(&loop->mailbox, fresh);
  weir_loop_wake(loop);
}

/* All that a snapshot changes is good: it is in use from here on. */
static void hand_out(weir_server *server, weir_registry *fresh) {
  weir_service *service = &server->service;
  const weir_config *config = fresh->config;
  bool all = true; /* it has every listener that the server began with */
  for (size_t i = 0; i < service->socket_count; i++)
    all &= weir_socket_listener(&service->sockets[i], config) != NULL;
  weir_serve_log_as_json(config->log.format == WEIR_CONFIG_LOG_JSON);
  if (!weir_clients_resize(service->clients, (size_t)config->limits.connections))
    weir_serve_log("there is not enough memory: limits.connections stays as it was");
  weir_server_make_room(service, config);
  if (!all || config->listener_count != service->socket_count)
    weir_serve_log("listeners change with a restart only: they stay where they are");
  if (config->loops != server->registry->config->loops)
    weir_serve_log("the number of loops changes with a restart only");
  if (all) {
    retire(server, service->anchor);
    atomic_store(&service->anchor, weir_registry_retain(fresh));
  }
  retire(server, server->registry);
  server->registry = fresh;
  weir_server_watch_stores(server);
  for (unsigned i = 0; i < server->loop_count; i++)
    post(&server->loops[i], fresh);
  post(&server->front, fresh);
}

static void refuse(weir_server *server, weir_registry *fresh) {
  weir_registry_release(fresh);
  server->service.reload_failures++;
  weir_serve_log("%s is not used: the configuration stays as it was", server->file);
}

/* A store that stays has the files of its TLS still open that it began with: they may have been renewed
 * in place. False: some cannot be used, and the log says why. */
static bool prepare_stores(const weir_registry *fresh) {
  bool good = true;
  for (size_t i = 0; i < fresh->config->store_count; i++) {
    weir_message why = {""};
    weir_store *store = weir_registry_store_at(fresh, i);
    if (weir_store_prepare_files(store, &why) == WEIR_OK) continue;
    weir_serve_log("store %s: %s", fresh->config->stores[i].name, why.text);
    good = false;
  }
  return good;
}

static void renew_stores(const weir_registry *fresh) {
  for (size_t i = 0; i < fresh->config->store_count; i++)
    (void)weir_store_renew_files(weir_registry_store_at(fresh, i), NULL); /* they are prepared */
}

/* Loops go on with the old configuration while new stores are connected to. A server that ends needs
 * no other. */
void weir_server_reload(weir_server *server) {
  weir_service *service = &server->service;
  if (service->is_draining) return;
  server->must_reload = server->ahead != NULL || !service->is_serving;
  if (server->must_reload) return;
  weir_registry *fresh = weir_server_load(server);
  bool good = fresh != NULL;
  /* A listener of systemd's must not lose what it may be open for. */
  for (size_t i = 0; fresh != NULL && i < service->socket_count; i++) {
    weir_message why = {""};
    const weir_socket *socket = &service->sockets[i];
    const weir_config_listener *listener = weir_socket_listener(socket, fresh->config);
    if (listener == NULL || weir_socket_may_serve(socket, listener, &why)) continue;
    weir_serve_log("%s", why.text);
    good = false;
  }
  if (!good) {
    refuse(server, fresh);
    return;
  }
  server->fresh = fresh;
  server->ahead = weir_ahead_begin(fresh, server->registry, &server->front);
  weir_server_go_on(server);
}

void weir_server_go_on(weir_server *server) {
  weir_service *service = &server->service;
  if (service->is_draining || (server->ahead != NULL && !weir_ahead_is_over(server->ahead))) return;
  weir_registry *fresh = server->fresh;
  weir_ahead_end(server->ahead);
  server->ahead = NULL;
  server->fresh = NULL;
  if (fresh != NULL && (!prepare_stores(fresh) || !weir_server_read_certificates(server, fresh))) {
    refuse(server, fresh);
  } else if (fresh != NULL) {
    renew_stores(fresh);
    hand_out(server, fresh);
    server->certificates_at_us = 0;
    service->reloads++;
    weir_serve_log("%s is in use now", server->file);
  }
  if (server->must_reload) weir_server_reload(server);
}

/* The memcached backend: which server, in which rounds. */
#include "memcached/memcached.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

enum { DEFAULT_PORT = 11211, SERVERS_MOST = WEIR_DISCOVERY_SERVERS_MOST, ORDER_KEPT = 4096 };

typedef struct memcached_store {
  weir_memcached_login login;
  weir_tls *tls;   /* NULL: plain */
  weir_ring *ring; /* NULL with one server */
  size_t server_count;
  pthread_mutex_t lock;         /* guards orders */
  weir_order *orders;           /* pooled scratch memory */
  weir_memcached_clock *clocks; /* of each server */
  weir_wire *wires[];
} memcached_store;

/* One `exec`. */
typedef struct memcached_call {
  memcached_store *store;
  weir_operation *operations;
  size_t count;
  int64_t deadline_us;
  weir_message *message; /* NULL once it explains something: the first explanation stays */
} memcached_call;

/* This process had no room or no time for it. */
static void not_sent(memcached_call *call, weir_operation *operation, const char *why) {
  operation->outcome = WEIR_NOT_SENT;
  operation->late = operation->slow = true;
  weir_message_set(call->message, "%s", why);
  call->message = NULL;
}

/* Which server it is for: its home's hash picks it. */
static size_t pick(const memcached_store *store, const weir_operation *operation) {
  return store->ring == NULL ? 0
                             : weir_ring_pick(store->ring, operation->key + operation->home_offset,
                                              operation->home_length);
}

/* One round trip: sends what `order` lets go (NULL: all), to all servers at once, and collects. */
static void run_round(memcached_call *call, const weir_order *order, unsigned dialects) {
  memcached_store *store = call->store;
  weir_wire_slot *slots[SERVERS_MOST];
  const weir_wire_round round = {.dialects = dialects, .deadline_us = call->deadline_us};
  memset(slots, 0, store->server_count * sizeof *slots);
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    uint8_t attempt = order == NULL ? 0 : order->steps[i].attempt;
    if (order != NULL && !weir_order_goes(order, i)) continue;
    size_t server = pick(store, operation);
    if (slots[server] == NULL) slots[server] = weir_wire_slot_take(store->wires[server]);
    if (slots[server] == NULL || !weir_wire_slot_add(slots[server], operation, attempt))
      not_sent(call, operation, "no memory, or too many unanswered requests");
  }
  if (weir_wire_fleet_run(store->wires, slots, store->server_count, &round, call->message))
    call->message = NULL;
}

/* For servers that may speak the classic dialect; right for both. Out of line: where all speak meta an
 * exec is one round. */
__attribute__((noinline)) static void run_rounds(memcached_call *call) {
  const unsigned any = 1U << WEIR_DIALECT_META | 1U << WEIR_DIALECT_CLASSIC;
  memcached_store *store = call->store;
  pthread_mutex_lock(&store->lock);
  weir_order *order = store->orders;
  if (order != NULL) store->orders = order->next;
  pthread_mutex_unlock(&store->lock);
  if (order == NULL) order = calloc(1, sizeof *order);
  if (order == NULL || !weir_order_start(order, call->operations, call->count)) {
    for (size_t i = 0; i < call->count; i++)
      not_sent(call, &call->operations[i], "no memory");
  } else {
    while (weir_order_plan(order, call->operations, call->count)) {
      if (weir_monotonic_us() >= call->deadline_us) {
        for (size_t i = 0; i < call->count; i++)
          if (call->operations[i].outcome == WEIR_PENDING)
            not_sent(call, &call->operations[i], "not sent by the deadline");
        break;
      }
      run_round(call, order, any);
      if (weir_order_settle(order, call->operations, call->count, call->message))
        call->message = NULL;
    }
  }
  if (order != NULL && order->room > ORDER_KEPT) {
    weir_order_free(order);
  } else if (order != NULL) {
    pthread_mutex_lock(&store->lock);
    order->next = store->orders;
    store->orders = order;
    pthread_mutex_unlock(&store->lock);
  }
}

/* Before the operations are sent, and after: some write a date. */
__attribute__((noinline)) static void tend_clocks(memcached_call *call, bool after) {
  memcached_store *store = call->store;
  for (size_t i = 0; i < call->count; i++) {
    const weir_operation *operation = &call->operations[i];
    if (!weir_operation_writes_date(operation)) continue;
    size_t server = pick(store, operation);
    if (!after)
      weir_memcached_clock_tend(&store->clocks[server], store->wires[server], &store->login,
                                call->deadline_us);
    else if (operation->outcome == WEIR_REFUSED)
      weir_memcached_clock_doubt(&store->clocks[server]);
  }
}

static void memcached_exec(void *handle, weir_operation *operations, size_t count,
                           int64_t deadline_us, weir_message *message) {
  memcached_call call = {.store = handle,
                         .operations = operations,
                         .count = count,
                         .deadline_us = deadline_us,
                         .message = message};
  bool meta = true;
  bool dates = false;
  for (size_t i = 0; i < count; i++)
    dates |= weir_ttl_is_date(operations[i].ttl_us);
  if (dates) tend_clocks(&call, false);
  for (size_t i = 0; meta && i < call.store->server_count; i++)
    meta = weir_wire_dialect(call.store->wires[i]) == WEIR_DIALECT_META;
  if (meta) {
    run_round(&call, NULL, 1U << WEIR_DIALECT_META);
  } else {
    run_rounds(&call);
  }
  if (dates) tend_clocks(&call, true);
}

static size_t memcached_locate(void *handle, const char *home, size_t home_length, size_t *count,
                               const char **name) {
  const memcached_store *store = handle;
  size_t server = store->ring == NULL ? 0 : weir_ring_pick(store->ring, home, home_length);
  *count = store->server_count;
  *name = weir_wire_name(store->wires[server]);
  return server;
}

static bool memcached_connect(void *handle, int64_t deadline_us, weir_message *message) {
  const memcached_store *store = handle;
  return weir_wire_connect_all(store->wires, store->server_count, deadline_us, message);
}

static weir_status memcached_prepare(void *handle, weir_message *message) {
  const memcached_store *store = handle;
  return weir_tls_prepare(store->tls, message);
}

static weir_status memcached_renew(void *handle, weir_message *message) {
  const memcached_store *store = handle;
  return weir_tls_renew(store->tls, message);
}

static int64_t memcached_certificate_end_s(void *handle) {
  const memcached_store *store = handle;
  return weir_tls_certificate_end_s(store->tls);
}

static void memcached_inspect(void *handle, const weir_inspection *inspection) {
  const memcached_store *store = handle;
  weir_memcached_inspect(store->wires[inspection->server], &store->login, inspection);
}

static void memcached_read_server(void *handle, size_t server, weir_server_state *state) {
  const memcached_store *store = handle;
  weir_wire_read_server(store->wires[server], state);
  state->answered = weir_wire_dialect(store->wires[server]) >= 0;
}

static void memcached_close(void *handle) {
  memcached_store *store = handle;
  if (store == NULL) return;
  for (size_t i = 0; i < store->server_count; i++)
    weir_wire_close(store->wires[i]);
  weir_tls_close(store->tls);
  bool unlocked = pthread_mutex_trylock(&store->lock) == 0; /* else a parent's thread had it */
  if (unlocked) pthread_mutex_unlock(&store->lock);
  while (unlocked && store->orders != NULL) {
    weir_order *next = store->orders->next;
    weir_order_free(store->orders);
    store->orders = next;
  }
  weir_ring_destroy(store->ring);
  free(store->clocks);
  pthread_mutex_destroy(&store->lock);
  free(store);
}

/* The options that are memcached's own. */
typedef struct memcached_settings {
  size_t protocol;
  size_t distribution;
  size_t discovers;
} memcached_settings;

static weir_status read_options(const weir_url *url, memcached_settings *settings,
                                weir_message *message) {
  static const char *const protocols[] = {[WEIR_DIALECT_META] = "meta",
                                          [WEIR_DIALECT_CLASSIC] = "classic",
                                          [WEIR_DIALECT_AUTO] = "auto",
                                          NULL};
  static const char *const distributions[] = {[WEIR_KETAMA_WEIGHTED] = "ketama-weighted",
                                              [WEIR_KETAMA] = "ketama",
                                              [WEIR_MODULA] = "modula",
                                              NULL};
  static const char *const switches[] = {"off", "on", NULL};
  weir_status status =
      weir_url_word(url, "protocol", protocols, WEIR_DIALECT_AUTO, &settings->protocol, message);
  if (status == WEIR_OK)
    status = weir_url_word(url, "distribution", distributions, WEIR_KETAMA_WEIGHTED,
                           &settings->distribution, message);
  if (status == WEIR_OK)
    status = weir_url_word(url, "discovery", switches, 0, &settings->discovers, message);
  if (status == WEIR_OK && url->host_count > SERVERS_MOST) {
    weir_message_set(message, "%zu hosts; at most %d are accepted", url->host_count, SERVERS_MOST);
    return WEIR_BAD_URL;
  }
  return status;
}

static weir_wire_place place_of(const memcached_store *store, const weir_url_host *host) {
  return (weir_wire_place){
      .host = host->name, .port = host->port == 0 ? DEFAULT_PORT : host->port, .tls = store->tls};
}

static weir_status open_servers(memcached_store *store, const weir_url *url,
                                const weir_wire_options *options, weir_distribution distribution,
                                weir_message *message) {
  bool unix_socket = url->host_count == 0;
  size_t count = unix_socket ? 1 : url->host_count;
  for (size_t i = 0; i < count; i++) {
    weir_wire_place place = {.path = url->path};
    if (!unix_socket) place = place_of(store, &url->hosts[i]);
    weir_status status = weir_wire_open(&place, &weir_memcached_protocol, &store->login, options,
                                        &store->wires[i], message);
    if (status != WEIR_OK) return status;
    store->server_count++;
  }
  if (count < 2) return WEIR_OK;
  return weir_ring_create(url->hosts, count, DEFAULT_PORT, distribution, &store->ring, message);
}

static weir_status open_store(memcached_store *store, weir_url *url, int64_t timeout_us,
                              const memcached_settings *settings, weir_message *message) {
  weir_wire_options options;
  weir_discovery *discovery = NULL;
  if ((url->user == NULL) != (url->password == NULL)) {
    weir_message_set(message, "a user and a password need each other: user:password@");
    return WEIR_BAD_URL;
  }
  if (!weir_memcached_login_write(&store->login, (weir_memcached_dialect)settings->protocol,
                                  url->user, url->password)) {
    weir_message_set(message, "user and password are longer than %d bytes together",
                     WEIR_WIRE_GREETING_MOST - 100);
    return WEIR_BAD_URL;
  }
  bool secure = strcmp(url->scheme, "memcacheds") == 0;
  weir_status status = weir_tls_open(url, secure, &store->tls, message);
  if (status == WEIR_OK) status = weir_wire_read_options(url, timeout_us, &options, message);
  if (status == WEIR_OK && settings->discovers) {
    /* The servers that are discovered take the place of the host that is asked. */
    if (url->host_count != 1) {
      weir_message_set(message, "discovery=on asks one host for its servers: %zu are given",
                       url->host_count);
      return WEIR_BAD_URL;
    }
    discovery = calloc(1, sizeof *discovery);
    if (discovery == NULL) return WEIR_NO_MEMORY;
    weir_wire_place place = place_of(store, &url->hosts[0]);
    status = weir_discovery_ask(&place, &options, &store->login, discovery, message);
    url->hosts = discovery->hosts;
    url->host_count = discovery->host_count;
  }
  if (status == WEIR_OK)
    status = open_servers(store, url, &options, (weir_distribution)settings->distribution, message);
  free(discovery);
  return status;
}

static weir_status memcached_open(const weir_url *url, int64_t timeout_us, void **handle,
                                  weir_message *message) {
  memcached_settings settings;
  memcached_store *store;
  weir_url told = *url;
  *handle = NULL;
  weir_status status = read_options(url, &settings, message);
  if (status != WEIR_OK) return status;
  size_t wires = settings.discovers ? SERVERS_MOST : url->host_count + 1;
  store = calloc(1, sizeof *store + wires * sizeof(weir_wire *));
  if (store == NULL) return WEIR_NO_MEMORY;
  store->clocks = calloc(wires, sizeof *store->clocks);
  if (store->clocks == NULL || pthread_mutex_init(&store->lock, NULL) != 0) {
    free(store->clocks);
    free(store);
    return WEIR_NO_MEMORY;
  }
  status = open_store(store, &told, timeout_us, &settings, message);
  if (status != WEIR_OK) {
    memcached_close(store);
    return status;
  }
  *handle = store;
  return WEIR_OK;
}

static const weir_scheme schemes[] = {{"memcached", WEIR_URL_HOSTS | WEIR_URL_USER},
                                      {"memcached+unix", WEIR_URL_PATH | WEIR_URL_USER},
                                      {"memcacheds", WEIR_URL_HOSTS | WEIR_URL_USER},
                                      {NULL, 0}};

static const char *const options[] = {"protocol",        "distribution",   "discovery",
                                      WEIR_WIRE_OPTIONS, WEIR_TLS_OPTIONS, NULL};

const weir_backend weir_memcached_backend = {.size = sizeof(weir_backend),
                                             .name = "memcached",
                                             .schemes = schemes,
                                             .options = options,
                                             .traits = WEIR_TRAIT_SWAP,
                                             .open = memcached_open,
                                             .exec = memcached_exec,
                                             .close = memcached_close,
                                             .locate = memcached_locate,
                                             .inspect = memcached_inspect,
                                             .read_server = memcached_read_server,
                                             .connect = memcached_connect,
                                             .renew = memcached_renew,
                                             .certificate_end_s = memcached_certificate_end_s,
                                             .prepare = memcached_prepare};

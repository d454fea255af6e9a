/* The redis backend: a store's URL, its servers, its end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/store.h"

enum { DEFAULT_PORT = 6379, DATABASE_MOST = 65535, MAP_TIMEOUT_US = 500000 };

static size_t redis_locate(void *handle, const char *home, size_t home_length, size_t *count,
                           const char **name) {
  const weir_redis_store *store = handle;
  bool alone = weir_redis_nodes_count(store->nodes) == 1;
  unsigned node =
      alone ? 0 : weir_redis_nodes_route(store->nodes, weir_redis_slot(home, home_length));
  *count = weir_redis_nodes_count(store->nodes);
  *name = weir_redis_nodes_name(store->nodes, node);
  return node < *count ? node : 0;
}

/* Asks the hosts of the URL one after another. */
static weir_redis_map_answer read_map(const weir_redis_store *store, int64_t end_us,
                                      unsigned *node) {
  weir_redis_map_answer answer = WEIR_MAP_UNANSWERED;
  for (*node = 0; *node < weir_redis_nodes_seeds(store->nodes); ++*node) {
    int64_t left_us = end_us - weir_monotonic_us();
    if (left_us <= 0) break;
    answer = weir_redis_map_read(store->nodes, *node,
                                 left_us < MAP_TIMEOUT_US ? left_us : MAP_TIMEOUT_US);
    if (answer != WEIR_MAP_UNANSWERED) break;
  }
  return answer;
}

/* Of a cluster, the nodes that own slots; until they are known, the URL's. */
static bool redis_connect(void *handle, int64_t deadline_us, weir_message *message) {
  const weir_redis_store *store = handle;
  weir_wire *wires[WEIR_REDIS_NODES_MOST] = {NULL};
  unsigned held[WEIR_REDIS_NODES_MOST];
  size_t count = 0;
  unsigned asked;
  bool cluster = weir_redis_nodes_is_cluster(store->nodes);
  if (cluster || weir_redis_nodes_seeds(store->nodes) > 1)
    cluster = read_map(store, deadline_us, &asked) == WEIR_MAP_LEARNT;
  size_t known =
      cluster ? weir_redis_nodes_count(store->nodes) : weir_redis_nodes_seeds(store->nodes);
  for (unsigned i = 0; i < known; i++) {
    if (cluster && weir_redis_nodes_slots(store->nodes, i) == 0) continue;
    weir_wire *wire = weir_redis_nodes_hold(store->nodes, i);
    if (wire == NULL) continue;
    held[count] = i;
    wires[count++] = wire;
  }
  bool ready = weir_wire_connect_all(wires, count, deadline_us, message);
  for (size_t i = 0; i < count; i++)
    weir_redis_nodes_release(store->nodes, held[i]);
  return ready;
}

static void redis_inspect(void *handle, const weir_inspection *inspection) {
  const weir_redis_store *store = handle;
  unsigned node = (unsigned)inspection->server;
  weir_wire *wire = weir_redis_nodes_hold(store->nodes, node);
  if (wire != NULL) {
    weir_redis_inspect(wire, store, inspection);
    weir_redis_nodes_release(store->nodes, node);
  }
  if (store->resolver != NULL) weir_redis_sentinels_inspect(store->resolver, inspection);
}

static void redis_read_server(void *handle, size_t server, weir_server_state *state) {
  const weir_redis_store *store = handle;
  unsigned node = (unsigned)server;
  bool unasked =
      weir_redis_nodes_is_cluster(store->nodes) && weir_redis_nodes_slots(store->nodes, node) == 0;
  weir_wire *wire = weir_redis_nodes_hold_open(store->nodes, node);
  if (wire != NULL) weir_wire_read_server(wire, state);
  state->answered = unasked || (wire != NULL && weir_wire_dialect(wire) >= 0);
  if (wire != NULL) weir_redis_nodes_release(store->nodes, node);
  state->name = weir_redis_nodes_name(store->nodes, node);
  state->outages += weir_redis_nodes_outages(store->nodes, node);
}

static void redis_close(void *handle) {
  weir_redis_store *store = handle;
  weir_redis_nodes_destroy(store->nodes);
  weir_resolver_leave(store->resolver);
  weir_tls_close(store->tls);
  weir_redis_seen_destroy(store->seen);
  weir_redis_seen_destroy(store->suspects);
  free(store);
}

/* Of the user, the password and the database: "/3", or the option db=3 where the path is a
 * socket's, or a name that sentinels know. */
static weir_status write_login(const weir_url *url, weir_redis_login *login,
                               weir_message *message) {
  bool by_path = url->host_count > 0 && url->path != NULL && !weir_redis_url_has_sentinels(url);
  const weir_url_option option = {"db", by_path ? url->path + 1 : ""};
  const weir_url path = {.options = &option, .option_count = 1};
  int64_t database;
  if (by_path && weir_url_find(url, "db") != NULL) {
    weir_message_set(message, "the database is named twice, by the path and by db=");
    return WEIR_BAD_URL;
  }
  weir_status status = weir_url_integer(by_path ? &path : url, "db", 0, DATABASE_MOST, 0, &database,
                                        by_path ? NULL : message);
  /* Not quoted: it may be the end of a password whose URL lacks its '@'. */
  if (by_path && status != WEIR_OK)
    weir_message_set(message, "the path is not the number of a database: accepted are 0 to %d",
                     DATABASE_MOST);
  if (status != WEIR_OK) return status;
  if (url->user != NULL && url->password == NULL) {
    weir_message_set(message,
                     "a user without a password: accepted are user:password@ and :password@");
    return WEIR_BAD_URL;
  }
  if (weir_redis_login_write(login, url->user, url->password, database)) return WEIR_OK;
  weir_message_set(message, "user and password are longer than %d bytes together",
                   WEIR_WIRE_GREETING_MOST - 100);
  return WEIR_BAD_URL;
}

/* Several hosts are a cluster's. */
static weir_status check_hosts(const weir_url *url, const weir_redis_login *login, bool follows,
                               weir_message *message) {
  for (size_t i = 0; i < url->host_count; i++) {
    if (url->hosts[i].weight == 1) continue;
    weir_message_set(message, "%s takes no weight after the port", url->scheme);
    return WEIR_BAD_URL;
  }
  if (url->host_count < 2) return WEIR_OK;
  if (url->host_count > WEIR_REDIS_NODES_MOST) {
    weir_message_set(message, "%zu hosts; at most %d are accepted", url->host_count,
                     WEIR_REDIS_NODES_MOST);
  } else if (!follows) {
    weir_message_set(message, "several hosts are those of a cluster: leave out cluster=off");
  } else if (login->selects) {
    weir_message_set(message, "several hosts are those of a cluster, which has database 0 alone");
  } else {
    return WEIR_OK;
  }
  return WEIR_BAD_URL;
}

/* `primary` is for people: the name that sentinels know; NULL without them. */
static weir_status open_servers(const weir_url *url, const weir_redis_store *store,
                                const char *primary, weir_message *message) {
  weir_status status = WEIR_OK;
  unsigned asked;
  if (url->host_count == 0 || store->resolver != NULL) {
    /* One server, though sentinels may name another any time. */
    weir_wire_place place = {.path = url->path};
    if (store->resolver != NULL)
      place = (weir_wire_place){.host = primary, .resolver = store->resolver, .tls = store->tls};
    return weir_redis_nodes_seed(store->nodes, &place, message);
  }
  for (size_t i = 0; i < url->host_count && status == WEIR_OK; i++) {
    const weir_url_host *host = &url->hosts[i];
    const weir_wire_place place = {
        .host = host->name, .port = host->port == 0 ? DEFAULT_PORT : host->port, .tls = store->tls};
    status = weir_redis_nodes_seed(store->nodes, &place, message);
  }
  if (status != WEIR_OK || url->host_count < 2) return status;

  /* Several servers that are no cluster would each count for themselves. One that is not there to
   * be asked may be a cluster's. */
  if (read_map(store, weir_monotonic_us() + 2 * MAP_TIMEOUT_US, &asked) != WEIR_MAP_NO_CLUSTER)
    return WEIR_OK;
  weir_message_set(message,
                   "several hosts are those of a cluster, and %s is no part of one: name one host",
                   weir_redis_nodes_name(store->nodes, asked));
  return WEIR_BAD_URL;
}

static weir_status open_nodes(const weir_url *url, int64_t timeout_us, weir_redis_store *store,
                              weir_message *message) {
  enum { AUTO, OFF };
  static const char *const choices[] = {[AUTO] = "auto", [OFF] = "off", NULL};
  const char *primary = NULL;
  size_t choice = AUTO;
  weir_redis_nodes_plan plan = {
      .protocol = &weir_redis_protocol, .login = &store->login, .tls = store->tls};

  /* The password is kept from nodes that only a redirection names, unless a certificate that none
   * but the servers of this store can have proves who they are; one that any authority of the
   * system signed for the very name that was told does not. */
  bool own = weir_url_find(url, "tls-ca") != NULL || weir_url_find(url, "tls-name") != NULL;
  bool proves = own && store->tls != NULL && weir_tls_verifies(store->tls);
  plan.guarded = url->password != NULL && !proves;

  weir_status status = weir_url_word(url, "cluster", choices, AUTO, &choice, message);
  plan.follows = choice == AUTO && !weir_redis_url_has_sentinels(url);
  if (status == WEIR_OK)
    status = weir_redis_sentinels_open(url, &store->resolver, &primary, message);
  if (status == WEIR_OK) status = weir_wire_read_options(url, timeout_us, &plan.wire, message);
  if (status == WEIR_OK && store->resolver == NULL)
    status = check_hosts(url, &store->login, plan.follows, message);
  if (status != WEIR_OK) return status;
  store->nodes = weir_redis_nodes_create(&plan);
  return store->nodes != NULL ? open_servers(url, store, primary, message) : WEIR_NO_MEMORY;
}

static weir_status redis_open(const weir_url *url, int64_t timeout_us, void **handle,
                              weir_message *message) {
  *handle = NULL;
  weir_redis_store *store = calloc(1, sizeof *store);
  if (store == NULL) return WEIR_NO_MEMORY;
  weir_status status = write_login(url, &store->login, message);
  snprintf(store->user, sizeof store->user, "%s", url->user != NULL ? url->user : "");

  /* Where only the sentinels speak TLS, its options are theirs. */
  const char *sentinels = weir_url_find(url, "sentinel-tls");
  bool secure = strncmp(url->scheme, "rediss", 6) == 0;
  bool theirs = !secure && sentinels != NULL && strcmp(sentinels, "on") == 0;
  if (status == WEIR_OK && !theirs) status = weir_tls_open(url, secure, &store->tls, message);

  if (status == WEIR_OK) {
    store->seen = weir_redis_seen_create();
    store->suspects = weir_redis_seen_create();
    bool whole = store->seen != NULL && store->suspects != NULL;
    status = whole ? open_nodes(url, timeout_us, store, message) : WEIR_NO_MEMORY;
  }
  if (status != WEIR_OK) {
    redis_close(store);
    return status;
  }
  *handle = store;
  return WEIR_OK;
}

static const weir_scheme schemes[] = {
    {"redis", WEIR_URL_HOSTS | WEIR_URL_PATH | WEIR_URL_USER},
    {"redis+unix", WEIR_URL_PATH | WEIR_URL_USER},
    {"rediss", WEIR_URL_HOSTS | WEIR_URL_PATH | WEIR_URL_USER},
    {"redis+sentinel", WEIR_URL_HOSTS | WEIR_URL_PATH | WEIR_URL_USER},
    {"rediss+sentinel", WEIR_URL_HOSTS | WEIR_URL_PATH | WEIR_URL_USER},
    {NULL, 0}};

/* The sentinels' files are the same: what they cannot use is not used for the servers either. */
static weir_status redis_prepare(void *handle, weir_message *message) {
  const weir_redis_store *store = handle;
  weir_status status = weir_tls_prepare(store->tls, message);
  if (status == WEIR_OK && store->resolver != NULL)
    status = weir_redis_sentinels_prepare(store->resolver, message);
  return status;
}

static weir_status redis_renew(void *handle, weir_message *message) {
  const weir_redis_store *store = handle;
  weir_status status = weir_tls_renew(store->tls, message);
  if (status == WEIR_OK && store->resolver != NULL)
    status = weir_redis_sentinels_renew(store->resolver, message);
  return status;
}

static int64_t redis_certificate_end_s(void *handle) {
  const weir_redis_store *store = handle;
  int64_t ends_s = weir_tls_certificate_end_s(store->tls);
  bool theirs = ends_s == 0 && store->resolver != NULL;
  return theirs ? weir_redis_sentinels_certificate_end_s(store->resolver) : ends_s;
}

static const char *const options[] = {
    "db", "cluster", WEIR_WIRE_OPTIONS, WEIR_TLS_OPTIONS, WEIR_SENTINEL_OPTIONS, NULL};

extern const weir_backend weir_redis_backend;

const weir_backend weir_redis_backend = {.size = sizeof(weir_backend),
                                         .name = "redis",
                                         .schemes = schemes,
                                         .options = options,
                                         .traits = WEIR_TRAIT_RAISE | WEIR_TRAIT_BOUND,
                                         .open = redis_open,
                                         .exec = weir_redis_exec,
                                         .close = redis_close,
                                         .locate = redis_locate,
                                         .inspect = redis_inspect,
                                         .read_server = redis_read_server,
                                         .connect = redis_connect,
                                         .renew = redis_renew,
                                         .certificate_end_s = redis_certificate_end_s,
                                         .prepare = redis_prepare};

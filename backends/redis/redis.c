/* The redis backend: one server, one round trip, and more where a key must be mended. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/codec.h"
#include "redis/inspect.h"
#include "redis/seen.h"

enum { DEFAULT_PORT = 6379, DATABASE_MOST = 65535, USER_BYTES = 128 };

typedef struct redis_store {
  weir_redis_login login;
  char user[USER_BYTES];     /* for people; empty: none named */
  weir_tls *tls;             /* NULL: plain */
  weir_redis_seen *seen;     /* keys lately seen with a TTL */
  weir_redis_seen *suspects; /* keys that may hold what is no counter */
  atomic_bool barred;        /* they cannot be read with care */
  atomic_int wary;           /* so many GETs, of any key, are still to be read with care */
  weir_wire *wire;
} redis_store;

/* One `exec`. */
typedef struct redis_call {
  redis_store *store;
  weir_operation *operations;
  size_t count;
  int64_t deadline_us;
  weir_message *message;
  bool asks; /* some addition asks whether its key has a TTL */
} redis_call;

/* Whether an operation goes in this round; *attempt is 0 if for the first time. Rounds after the
 * first are for keys that must be asked about or mended, and for every GET behind the first of
 * those to which something is added, which may have read too early. */
static bool goes(const weir_operation *operation, uint8_t round, bool behind, uint8_t *attempt) {
  *attempt = operation->outcome == WEIR_PENDING ? round : 0;
  return round == 0 || *attempt != 0 || (behind && operation->kind == WEIR_GET);
}

static void run_round(const redis_call *call, uint8_t round) {
  static const char no_room[] = "no memory, or too many unanswered requests";
  weir_wire_slot *slot = weir_wire_slot_take(call->store->wire);
  bool behind = false;
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    uint8_t attempt;
    if (!goes(operation, round, behind, &attempt)) continue;
    behind |= attempt != 0 && weir_redis_owed(operation) > 0;
    if (slot != NULL && weir_wire_slot_add(slot, operation, attempt)) continue;
    operation->outcome = attempt != 0 ? WEIR_UNKNOWN : WEIR_NOT_SENT;
    operation->late = true;
    weir_message_set(call->message, no_room);
  }
  if (slot == NULL) return;
  weir_wire_submit(call->store->wire, slot, WEIR_WIRE_ANY_CONNECTION, 1, call->deadline_us);
  weir_wire_finish(call->store->wire, slot, call->message);
}

static bool any_pending(const redis_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    if (call->operations[i].outcome == WEIR_PENDING) return true;
  }
  return false;
}

/* A question or repair that was not sent leaves behind what the first attempt did. */
static void doubt_unmended(const redis_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    bool summed = operation->kind == WEIR_ADD || operation->kind == WEIR_SUB;
    bool began = (operation->version_out & (WEIR_NOTE_BARE | WEIR_NOTE_ASK)) != 0;
    if (summed && operation->outcome == WEIR_NOT_SENT && began) {
      operation->outcome = WEIR_UNKNOWN;
    }
  }
}

/* Whoever writes over one key has often written over its neighbours: a quota has three. So after
 * one was met all keys are read with care for a while. */
enum { WARY_GETS = 4096 };

static bool is_wary(redis_store *store) {
  if (atomic_load_explicit(&store->wary, memory_order_relaxed) <= 0) return false;
  atomic_fetch_sub_explicit(&store->wary, 1, memory_order_relaxed);
  return true;
}

static bool is_suspect(redis_store *store, const weir_operation *operation) {
  return operation->kind == WEIR_GET && !operation->raised &&
         (is_wary(store) || weir_redis_seen_knows(store->suspects, operation)) &&
         !atomic_load_explicit(&store->barred, memory_order_relaxed);
}

/* Lets go of the question what needs none. */
static void recall(redis_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    operation->version_out = 0;
    if (is_suspect(call->store, operation)) operation->version_out = WEIR_NOTE_SHORT;
    if (!weir_redis_may_be_seen(operation)) continue;
    if (weir_redis_seen_use(call->store->seen, operation)) {
      operation->version_out = WEIR_NOTE_SEEN;
    } else {
      call->asks = true;
    }
  }
}

/* A key that holds what is no integer is read with care until it was found in order: absent, or
 * added to. (A short GET that finds an integer proves nothing: it cannot tell zero bytes behind the
 * digits from the end.) So is one that was not answered for in time: a GET of it may be what kept
 * the server busy. */
static void suspect(const redis_call *call) {
  redis_store *store = call->store;
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    bool counter =
        operation->kind == WEIR_GET || operation->kind == WEIR_ADD || operation->kind == WEIR_SUB;
    if (!counter || operation->raised) continue;
    if ((operation->version_out & WEIR_NOTE_BARRED) != 0)
      atomic_store_explicit(&store->barred, true, memory_order_relaxed);
    bool foreign = (operation->version_out & WEIR_NOTE_FOREIGN) != 0;
    bool unanswered = operation->outcome == WEIR_UNKNOWN;
    if (foreign || (unanswered && operation->kind == WEIR_GET))
      atomic_store_explicit(&store->wary, WARY_GETS, memory_order_relaxed);
    if (foreign || unanswered)
      weir_redis_seen_note(store->suspects, operation);
    else if (operation->outcome == WEIR_ABSENT ||
             (operation->outcome == WEIR_DONE && operation->kind != WEIR_GET))
      weir_redis_seen_forget(store->suspects, operation);
    operation->version_out = 0;
  }
}

/* A sum that was answered was asked about, or mended, or needed neither. After a total of 0 the
 * next one is a delta again, and would cost a round trip to ask about. */
static void remember(const redis_call *call) {
  weir_redis_seen *seen = call->store->seen;
  for (size_t i = 0; i < call->count; i++) {
    const weir_operation *operation = &call->operations[i];
    bool sum = operation->kind == WEIR_ADD || (operation->kind == WEIR_SUB && !operation->raised);
    bool stands = sum && operation->outcome == WEIR_DONE && operation->value != 0;
    if (stands && call->asks && weir_redis_may_be_seen(operation)) {
      weir_redis_seen_note(seen, operation);
    } else if (!stands && (sum || operation->kind == WEIR_DROP)) {
      weir_redis_seen_forget(seen, operation);
    }
  }
}

static void redis_exec(void *handle, weir_operation *operations, size_t count, int64_t deadline_us,
                       weir_message *message) {
  redis_call call = {.store = handle,
                     .operations = operations,
                     .count = count,
                     .deadline_us = deadline_us,
                     .message = message};
  recall(&call);
  run_round(&call, 0);
  if (any_pending(&call)) {
    run_round(&call, 1);
    if (any_pending(&call)) run_round(&call, 2); /* what was asked about must be mended */
    doubt_unmended(&call);
  }
  remember(&call);
  suspect(&call);
}

static size_t redis_locate(void *handle, const char *home, size_t home_length, size_t *count,
                           const char **name) {
  const redis_store *store = handle;
  (void)home;
  (void)home_length;
  *count = 1;
  *name = weir_wire_name(store->wire);
  return 0;
}

static bool redis_connect(void *handle, int64_t deadline_us, weir_message *message) {
  const redis_store *store = handle;
  return weir_wire_connect_all(&store->wire, 1, deadline_us, message);
}

static void redis_inspect(void *handle, const weir_inspection *inspection) {
  const redis_store *store = handle;
  weir_redis_inspect(store->wire, &store->login, store->user[0] != '\0' ? store->user : NULL,
                     inspection);
}

static void redis_read_server(void *handle, size_t server, weir_server_state *state) {
  const redis_store *store = handle;
  (void)server;
  weir_wire_read_server(store->wire, state);
}

static void redis_close(void *handle) {
  redis_store *store = handle;
  weir_wire_close(store->wire);
  weir_tls_close(store->tls);
  weir_redis_seen_destroy(store->seen);
  weir_redis_seen_destroy(store->suspects);
  free(store);
}

/* "/3", or the option db=3 where the path is a socket's. */
static weir_status read_database(const weir_url *url, int64_t *database, weir_message *message) {
  if (url->host_count == 0 || url->path == NULL) {
    return weir_url_integer(url, "db", 0, DATABASE_MOST, 0, database, message);
  }
  if (weir_url_find(url, "db") != NULL) {
    weir_message_set(message, "the database is named twice, by the path and by db=");
    return WEIR_BAD_URL;
  }
  const weir_url_option option = {"db", url->path + 1};
  const weir_url path = {.options = &option, .option_count = 1};
  weir_status status = weir_url_integer(&path, "db", 0, DATABASE_MOST, 0, database, NULL);
  /* Not quoted: it may be the end of a password whose URL lacks its '@'. */
  if (status != WEIR_OK)
    weir_message_set(message, "the path is not the number of a database: accepted are 0 to %d",
                     DATABASE_MOST);
  return status;
}

static weir_status write_login(const weir_url *url, weir_redis_login *login,
                               weir_message *message) {
  int64_t database;
  weir_status status = read_database(url, &database, message);
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

static weir_status open_wire(const weir_url *url, int64_t timeout_us, redis_store *store,
                             weir_message *message) {
  weir_wire_options options;
  weir_status status = weir_wire_read_options(url, timeout_us, &options, message);
  if (status != WEIR_OK) return status;
  weir_wire_place place = {.path = url->path};
  if (url->host_count > 0) {
    uint16_t port = url->hosts[0].port;
    place = (weir_wire_place){.host = url->hosts[0].name, .port = port == 0 ? DEFAULT_PORT : port};
    place.tls = store->tls;
  }
  return weir_wire_open(&place, &weir_redis_protocol, &store->login, &options, &store->wire,
                        message);
}

static weir_status redis_open(const weir_url *url, int64_t timeout_us, void **handle,
                              weir_message *message) {
  *handle = NULL;
  redis_store *store = calloc(1, sizeof *store);
  if (store == NULL) return WEIR_NO_MEMORY;
  weir_status status = write_login(url, &store->login, message);
  snprintf(store->user, sizeof store->user, "%s", url->user != NULL ? url->user : "");
  bool secure = strcmp(url->scheme, "rediss") == 0;
  if (status == WEIR_OK) status = weir_tls_open(url, secure, &store->tls, message);
  if (status == WEIR_OK) {
    store->seen = weir_redis_seen_create();
    store->suspects = weir_redis_seen_create();
    bool whole = store->seen != NULL && store->suspects != NULL;
    status = whole ? open_wire(url, timeout_us, store, message) : WEIR_NO_MEMORY;
  }
  if (status != WEIR_OK) {
    redis_close(store);
    return status;
  }
  *handle = store;
  return WEIR_OK;
}

static const weir_scheme schemes[] = {{"redis", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
                                      {"redis+unix", WEIR_URL_PATH | WEIR_URL_USER},
                                      {"rediss", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
                                      {NULL, 0}};

static const char *const options[] = {"db", WEIR_WIRE_OPTIONS, WEIR_TLS_OPTIONS, NULL};

extern const weir_backend weir_redis_backend;

const weir_backend weir_redis_backend = {.size = sizeof(weir_backend),
                                         .name = "redis",
                                         .schemes = schemes,
                                         .options = options,
                                         .traits = WEIR_TRAIT_RAISE,
                                         .open = redis_open,
                                         .exec = redis_exec,
                                         .close = redis_close,
                                         .locate = redis_locate,
                                         .inspect = redis_inspect,
                                         .read_server = redis_read_server,
                                         .connect = redis_connect};

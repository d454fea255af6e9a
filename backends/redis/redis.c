/* The redis backend: one server, one round trip, and a second one where a key must be mended. */
#include <stdlib.h>

#include "redis/codec.h"

enum { DEFAULT_PORT = 6379, DATABASE_MOST = 65535 };

typedef struct redis_store {
  weir_redis_hello hello;
  weir_wire *wire;
} redis_store;

/* One `exec`. */
typedef struct redis_call {
  redis_store *store;
  weir_operation *operations;
  size_t count;
  int64_t deadline_us;
  weir_message *message;
} redis_call;

/* Whether an operation goes in this round; *attempt counts its own. The second round is for keys
 * that must be mended, and for every GET behind the first of them, which may have read too early.
 */
static bool goes(const weir_operation *operation, bool mending, bool behind, uint8_t *attempt) {
  *attempt = mending && operation->outcome == WEIR_PENDING ? 1 : 0;
  return !mending || *attempt == 1 || (behind && operation->kind == WEIR_GET);
}

static void run_round(const redis_call *call, bool mending) {
  static const char no_room[] = "no memory, or too many unanswered requests";
  weir_wire_slot *slot = weir_wire_slot_take(call->store->wire);
  bool behind = false;
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    uint8_t attempt;
    if (!goes(operation, mending, behind, &attempt)) continue;
    behind |= attempt == 1;
    if (slot != NULL && weir_wire_slot_add(slot, operation, attempt)) continue;
    operation->outcome = attempt == 1 ? WEIR_UNKNOWN : WEIR_NOT_SENT;
    weir_message_set(call->message, no_room);
  }
  if (slot == NULL) return;
  weir_wire_submit(call->store->wire, slot, 1, call->deadline_us);
  weir_wire_finish(call->store->wire, slot, call->message);
}

static bool any_pending(const redis_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    if (call->operations[i].outcome == WEIR_PENDING) return true;
  }
  return false;
}

/* A mend that was not sent leaves behind what the first attempt did. */
static void doubt_unmended(const redis_call *call) {
  for (size_t i = 0; i < call->count; i++) {
    weir_operation *operation = &call->operations[i];
    bool summed = operation->kind == WEIR_ADD || operation->kind == WEIR_SUB;
    if (summed && operation->outcome == WEIR_NOT_SENT && operation->version_out != 0) {
      operation->outcome = WEIR_UNKNOWN;
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
  for (size_t i = 0; i < count; i++)
    operations[i].version_out = 0;
  run_round(&call, false);
  if (!any_pending(&call)) return;
  run_round(&call, true);
  doubt_unmended(&call);
}

static void redis_close(void *handle) {
  redis_store *store = handle;
  weir_wire_close(store->wire);
  free(store);
}

/* "/3", or the option db=3 where the path is a socket's. */
static weir_status read_database(const weir_url *url, int64_t *database, weir_message *message) {
  if (url->host_count == 0 || url->path == NULL) {
    return weir_url_integer(url, "db", 0, DATABASE_MOST, 0, database, message);
  }
  if (weir_url_find(url, "db") != NULL) {
    weir_message_set(message, "the database is named twice, by \"%.80s\" and by db=", url->path);
    return WEIR_BAD_URL;
  }
  const weir_url_option option = {"db", url->path + 1};
  const weir_url path = {.options = &option, .option_count = 1};
  return weir_url_integer(&path, "db", 0, DATABASE_MOST, 0, database, message);
}

static weir_status write_hello(const weir_url *url, weir_redis_hello *hello,
                               weir_message *message) {
  int64_t database;
  weir_status status = read_database(url, &database, message);
  if (status != WEIR_OK) return status;
  if (url->user != NULL && url->password == NULL) {
    weir_message_set(message,
                     "a user without a password: accepted are user:password@ and :password@");
    return WEIR_BAD_URL;
  }
  if (weir_redis_hello_write(hello, url->user, url->password, database)) return WEIR_OK;
  weir_message_set(message, "user and password are longer than %d bytes together",
                   WEIR_WIRE_GREETING_MOST - 100);
  return WEIR_BAD_URL;
}

static weir_status open_wire(const weir_url *url, int64_t timeout_us, redis_store *store,
                             weir_message *message) {
  weir_wire_place place = {.path = url->path};
  if (url->host_count > 0) {
    uint16_t port = url->hosts[0].port;
    place = (weir_wire_place){.host = url->hosts[0].name, .port = port == 0 ? DEFAULT_PORT : port};
  }
  return weir_wire_open(&place, &weir_redis_protocol, &store->hello, timeout_us, &store->wire,
                        message);
}

static weir_status redis_open(const weir_url *url, int64_t timeout_us, void **handle,
                              weir_message *message) {
  *handle = NULL;
  redis_store *store = calloc(1, sizeof *store);
  if (store == NULL) return WEIR_NO_MEMORY;
  weir_status status = write_hello(url, &store->hello, message);
  if (status == WEIR_OK) status = open_wire(url, timeout_us, store, message);
  if (status != WEIR_OK) {
    free(store);
    return status;
  }
  *handle = store;
  return WEIR_OK;
}

static const weir_scheme schemes[] = {{"redis", WEIR_URL_HOST | WEIR_URL_PATH | WEIR_URL_USER},
                                      {"redis+unix", WEIR_URL_PATH | WEIR_URL_USER},
                                      {NULL, 0}};

static const char *const options[] = {"db", NULL};

extern const weir_backend weir_redis_backend;

const weir_backend weir_redis_backend = {.size = sizeof(weir_backend),
                                         .name = "redis",
                                         .schemes = schemes,
                                         .options = options,
                                         .traits = WEIR_TRAIT_RAISE,
                                         .open = redis_open,
                                         .exec = redis_exec,
                                         .close = redis_close};

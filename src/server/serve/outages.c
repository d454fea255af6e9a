/* Logs the fate of stores: a line for a server that is lost, for one that is back, for one that
 * refuses, with its own words, and for one with another address or a wrong clock. The library's
 * watch finds it out: it compares what is counted anyway, and asks no store. */
#include <inttypes.h>
#include <stdlib.h>

#include <weir/monitor.h>

#include "serve/server.h"
#include "tell/log.h"

/* A server that goes and comes all the time has two lines in so long, and what came meanwhile is in the next. */
enum { QUIET_US = 5000000 };

/* A store has its watch as long as it is in use, under whichever name: whatever is read anew, what was said to
 * be lost is said to be back. */
typedef struct watched_store {
  const weir_store *store;
  const char *name; /* the first of the configuration that means it */
  weir_watch *watch;
  bool is_lost; /* by what was said last */
} watched_store;

struct weir_outages {
  size_t count;
  watched_store stores[];
};

static void log_event(void *context, const weir_event *event) {
  watched_store *of = context;
  const char *server = event->server != NULL ? event->server : "its server";
  if (event->kind == WEIR_EVENT_SERVER_LOST)
    weir_serve_log("store %s: %s is lost: %s; the store's fallback decides until it is back",
                   of->name, server, event->text);
  else if (event->kind == WEIR_EVENT_SERVER_BACK)
    weir_serve_log("store %s: %s is back", of->name, server);
  else if (event->kind == WEIR_EVENT_REFUSED)
    weir_serve_log("store %s: %s has refused, %" PRIu64 " times since it was last said: %s",
                   of->name, server, event->count, event->text);
  else
    weir_serve_log("store %s: %s: %s", of->name, server, event->text);
  if (event->kind == WEIR_EVENT_SERVER_LOST || event->kind == WEIR_EVENT_SERVER_BACK)
    of->is_lost = event->kind == WEIR_EVENT_SERVER_LOST;
}

static void look(watched_store *of) {
  weir_watch_look(of->watch, log_event, of);
}

void weir_server_look_at_stores(weir_server *server) {
  weir_outages *outages = server->outages;
  for (size_t i = 0; outages != NULL && i < outages->count; i++)
    look(&outages->stores[i]);
}

static watched_store *find(weir_outages *outages, const weir_store *store) {
  for (size_t i = 0; outages != NULL && i < outages->count; i++)
    if (outages->stores[i].store == store) return &outages->stores[i];
  return NULL;
}

/* Goes on with the watch that `before` has, or begins one. */
static bool watch(const weir_store *store, const char *name, weir_outages *before,
                  watched_store *of, weir_message *why) {
  watched_store *known = find(before, store);
  *of = known != NULL ? *known : (watched_store){.store = store};
  of->name = name;
  if (known != NULL) known->watch = NULL;
  const weir_monitor_source source = {.name = "store", .store = store};
  return known != NULL || weir_watch_create(&source, 1, QUIET_US, &of->watch, why) == WEIR_OK;
}

/* What is not watched any more, as its store is not in use. */
static void forget(weir_outages *outages, bool goes_on) {
  for (size_t i = 0; outages != NULL && i < outages->count; i++) {
    watched_store *of = &outages->stores[i];
    if (of->watch == NULL) continue; /* it is watched on */
    look(of);
    if (goes_on && of->is_lost)
      weir_serve_log("store %s: what was lost is no longer asked", of->name);
    weir_watch_destroy(of->watch);
  }
  free(outages);
}

void weir_server_watch_stores(weir_server *server) {
  const weir_registry *registry = server->registry;
  const weir_config *config = registry->config;
  weir_outages *before = server->outages;
  weir_outages *made = calloc(1, sizeof *made + config->store_count * sizeof made->stores[0]);
  weir_message why = {"no memory"};
  bool all = made != NULL;
  for (size_t i = 0; all && i < config->store_count; i++) {
    const weir_store *store = weir_registry_store_at(registry, i);
    if (find(made, store) != NULL) continue;
    all = watch(store, config->stores[i].name, before, &made->stores[made->count], &why);
    made->count += all;
  }
  if (!all) weir_serve_log("what becomes of some stores is not logged: %s", why.text);
  server->outages = made;
  forget(before, true);
}

void weir_server_forget_stores(weir_server *server) {
  forget(server->outages, false);
  server->outages = NULL;
}

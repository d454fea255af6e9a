/* What becomes of stores, in the log: a line for a server that is lost, for one that is back, for one that
 * refuses, with its own words, and for one with another address or a wrong clock. The library's watch finds it
 * out: it compares what is counted anyway, and asks no store. */
#include <inttypes.h>

#include <weir/monitor.h>

#include "serve/server.h"
#include "tell/log.h"

/* A server that goes and comes all the time has two lines in so long, and what came meanwhile is in the next. */
enum { QUIET_US = 5000000 };

static void log_event(void *nothing, const weir_event *event) {
  const char *server = event->server != NULL ? event->server : "its server";
  (void)nothing;
  if (event->kind == WEIR_EVENT_SERVER_LOST)
    weir_serve_log("store %s: %s is lost: %s; the store's fallback decides until it is back",
                   event->source, server, event->text);
  else if (event->kind == WEIR_EVENT_SERVER_BACK)
    weir_serve_log("store %s: %s is back", event->source, server);
  else if (event->kind == WEIR_EVENT_REFUSED)
    weir_serve_log("store %s: %s has refused, %" PRIu64 " times since it was last said: %s",
                   event->source, server, event->count, event->text);
  else
    weir_serve_log("store %s: %s: %s", event->source, server, event->text);
}

void weir_server_look_at_stores(weir_server *server) {
  if (server->stores != NULL) weir_watch_look(server->stores, log_event, NULL);
}

void weir_server_watch_stores(weir_server *server) {
  const weir_registry *registry = server->registry;
  const weir_config *config = registry->config;
  weir_monitor_source sources[WEIR_MONITOR_SOURCES_MOST];
  size_t count = 0;
  weir_message why = {""};
  weir_server_forget_stores(server);
  for (size_t i = 0; i < config->store_count && count < WEIR_MONITOR_SOURCES_MOST; i++) {
    weir_store *store = weir_registry_store_at(registry, i);
    bool is_told = false; /* under the first name that means it */
    for (size_t j = 0; j < count; j++)
      is_told |= sources[j].store == store;
    if (!is_told)
      sources[count++] = (weir_monitor_source){.name = config->stores[i].name, .store = store};
  }
  if (weir_watch_create(sources, count, QUIET_US, &server->stores, &why) != WEIR_OK)
    weir_serve_log("what becomes of stores is not logged: %s", why.text);
}

void weir_server_forget_stores(weir_server *server) {
  weir_server_look_at_stores(server);
  weir_watch_destroy(server->stores);
  server->stores = NULL;
}

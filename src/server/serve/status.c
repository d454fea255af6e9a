/* /status.json: totals since the start, from which the page makes rates. */
#include "serve/status.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_SHOWN = 20 };

/* --- limiters ---------------------------------------------------------------------------------
 */

static json_int_t sum_of(const weir_tally_row *row, bool allowed) {
  uint64_t sum = 0;
  for (size_t i = 0; i < WEIR_TALLY_PROTOCOLS; i++)
    for (size_t j = 0; j < WEIR_TALLY_SOURCES; j++)
      sum += allowed ? row->by[i].allowed[j] : row->by[i].denied[j];
  return (json_int_t)sum;
}

static json_int_t from_source(const weir_tally_row *row, weir_source source) {
  uint64_t sum = 0;
  for (size_t i = 0; i < WEIR_TALLY_PROTOCOLS; i++)
    sum += row->by[i].allowed[source] + row->by[i].denied[source];
  return (json_int_t)sum;
}

static json_int_t sum_none(const weir_tally_row *row) {
  uint64_t sum = 0;
  for (size_t i = 0; i < WEIR_TALLY_PROTOCOLS; i++)
    sum += row->by[i].none;
  return (json_int_t)sum;
}

static json_t *row_of(const weir_tally_row *row, const char *rule, const char *store, bool shadow) {
  return json_pack(
      "{ss ss ss sb sI sI sI sI s{sI sI sI sI}}", "name", row->name, "rule", rule, "store", store,
      "shadow", shadow, "allowed", sum_of(row, true), "denied", sum_of(row, false), "none",
      sum_none(row), "shadow_denied", (json_int_t)row->shadow_denied, "sources", "store",
      from_source(row, WEIR_SOURCE_STORE), "local", from_source(row, WEIR_SOURCE_LOCAL), "fallback",
      from_source(row, WEIR_SOURCE_FALLBACK), "late", from_source(row, WEIR_SOURCE_LATE));
}

static json_t *limiters_of(const weir_registry *registry, const weir_tally_table *table) {
  const weir_config *config = weir_registry_config(registry);
  json_t *list = json_array();
  size_t named = weir_registry_count(registry);
  for (size_t i = 0; i < named && i < WEIR_STATUS_LIMITERS_MOST; i++) {
    const weir_config_limiter *limiter = weir_named_config(weir_registry_at(registry, i));
    json_array_append_new(list, row_of(&table->rows[i], limiter->rule, limiter->store->name,
                                       limiter->shadow || config->shadow));
  }
  for (size_t i = named; i + 1 < table->count && i < WEIR_STATUS_LIMITERS_MOST; i++) {
    const weir_descriptors *descriptors = weir_registry_descriptors(registry);
    const weir_config_domain *domain =
        weir_domain_config(weir_descriptors_at(descriptors, i - named));
    json_array_append_new(
        list, row_of(&table->rows[i], "by descriptors", domain->store->name, config->shadow));
  }
  if (config->throttle.enabled)
    json_array_append_new(list, row_of(&table->rows[table->count - 1], "brought by requests",
                                       config->throttle.store->name, false));
  return list;
}

/* --- stores ----------------------------------------------------------------------------------- */

static json_t *servers_of(const weir_store *store) {
  static const char *const breakers[] = {[WEIR_BREAKER_CLOSED] = "closed",
                                         [WEIR_BREAKER_OPEN] = "open",
                                         [WEIR_BREAKER_HALF_OPEN] = "half-open"};
  weir_server_state state = WEIR_SERVER_STATE_INIT;
  json_t *list = json_array();
  for (size_t i = 0; weir_store_read_server(store, i, &state) == WEIR_OK; i++)
    json_array_append_new(
        list,
        json_pack("{ss? ss sb sI sI ss}", "name", state.name, "breaker", breakers[state.breaker],
                  "answered", state.answered, "outages", (json_int_t)state.outages, "next_try_ms",
                  (json_int_t)state.next_try_us / 1000, "last_error", state.last_error.text));
  return list;
}

static json_t *stores_of(const weir_registry *registry) {
  const weir_config *config = weir_registry_config(registry);
  json_t *list = json_array();
  for (size_t i = 0; i < config->store_count; i++)
    json_array_append_new(list, json_pack("{ss so}", "name", config->stores[i].name, "servers",
                                          servers_of(weir_registry_store_at(registry, i))));
  return list;
}

/* --- keys ------------------------------------------------------------------------------------- */

/* How many limiters let their keys be shown, in whichever form. */
static json_int_t count_shown(const weir_registry *registry) {
  json_int_t count = 0;
  for (size_t i = 0; i < weir_registry_count(registry); i++)
    count += weir_named_config(weir_registry_at(registry, i))->log_keys != WEIR_CONFIG_LOG_KEYS_OFF;
  return count;
}

static json_t *keys_of(const weir_server *server) {
  weir_sketch merged;
  json_t *list = json_array();
  weir_tally_denied(server, &merged);
  for (size_t i = 0; i < merged.count && i < KEYS_SHOWN; i++) {
    const weir_sketch_entry *entry = &merged.entries[i];
    json_array_append_new(
        list, json_pack("{ss ss sb sI sI}", "limiter", entry->key.limiter, "key", entry->key.text,
                        "hashed", entry->key.manner == WEIR_CONFIG_LOG_KEYS_HASHED, "denied",
                        (json_int_t)entry->count, "error", (json_int_t)entry->error));
  }
  return json_pack("{si sI sI so}", "window_s", WEIR_TALLY_WINDOW_S, "limiters_shown",
                   count_shown(server->front.tick.registry), "total", (json_int_t)merged.total,
                   "top", list);
}

/* --- all --------------------------------------------------------------------------------------- */

#define TOTAL(server, member) \
  (json_int_t) weir_serve_total((server), offsetof(weir_serve_counts, member))

static json_t *totals_of(const weir_server *server) {
  return json_pack("{sI sI sI sI sI sI sI sI sI sI sI sI sI}", "resp", TOTAL(server, resp), "http",
                   TOTAL(server, http), "grpc", TOTAL(server, grpc), "allowed",
                   TOTAL(server, allowed), "denied", TOTAL(server, denied), "none",
                   TOTAL(server, none), "shadow_denied", TOTAL(server, shadow_denied), "shed",
                   TOTAL(server, shed), "broken", TOTAL(server, broken), "refused",
                   TOTAL(server, refused), "unauthorized", TOTAL(server, unauthorized), "ticks",
                   TOTAL(server, ticks), "tick_us", TOTAL(server, tick_us));
}

static json_t *status_of(const weir_server *server, const weir_tally_table *table) {
  const weir_registry *registry = server->front.tick.registry;
  int64_t now_us = weir_serve_now_us();
  return json_pack(
      "{ss sI sI sb si sI sI sI sI so so so so}", "version", WEIR_VERSION_TEXT, "at_us",
      (json_int_t)now_us, "uptime_s", (json_int_t)(now_us - server->began_us) / 1000000, "ending",
      server->is_draining, "loops", (int)server->loop_count, "connections",
      (json_int_t)weir_serve_open_connections(server), "generation",
      (json_int_t)server->reloads + 1, "reload_failures", (json_int_t)server->reload_failures,
      "limiters_in_all", (json_int_t)weir_registry_count(registry), "totals", totals_of(server),
      "limiters", limiters_of(registry, table), "stores", stores_of(registry), "denied_keys",
      keys_of(server));
}

void weir_serve_write_status(const weir_server *server, weir_bytes *out) {
  weir_tally_table *table = weir_tally_sum(server);
  json_t *status = table != NULL ? status_of(server, table) : NULL;
  char *text = status != NULL ? json_dumps(status, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
  if (text != NULL)
    weir_bytes_text(out, text);
  else
    out->failed = true;
  free(text);
  json_decref(status);
  free(table);
}

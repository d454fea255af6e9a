/* The server speaks of itself: /metrics, /status, /status.json, /healthz, /readyz; and of places
 * that are held: /places. The main thread answers, which never waits for a store.
 *
 * /status.json has totals since the start, from which the page /status makes rates. The page itself is
 * status.html, the same for every server. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "serve/protocols.h"
#include "tell/log.h"

extern const char weir_status_page[];
extern const size_t weir_status_page_length;

enum { KEYS_SHOWN = 20, HOLDERS_SHOWN = 1000 };

/* --- places: what the pages tell of them, and what is done about them ---------------------------
 */

/* The figures of one limiter. */
static json_t *row_of_places(const weir_limiter *limiter) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(limiter, &counts);
  return json_pack("{sI sI sI sI sI sI}", "held", (json_int_t)counts.places_held, "entered",
                   (json_int_t)counts.places_entered, "denied", (json_int_t)counts.places_denied,
                   "released", (json_int_t)counts.places_released, "lost",
                   (json_int_t)counts.places_lost, "renewals", (json_int_t)counts.renewals);
}

/* The key of a limiter that lets its keys be shown, in whichever form; else NULL. */
static json_t *key_of(const weir_service *service, const weir_kept_busy *busy) {
  const weir_registry *registry = service->front->turn.registry;
  const weir_named *named =
      busy->prefix_length > 0 ? weir_registry_find(registry, busy->counted, busy->prefix_length - 1)
                              : NULL;
  if (named == NULL || named->config->log_keys == WEIR_CONFIG_LOG_KEYS_OFF) return NULL;
  char text[WEIR_DENIAL_KEY_BYTES];
  const weir_reply reply = {.of.name = named->config->name,
                            .of.key = busy->counted + busy->prefix_length,
                            .of.key_length = busy->length - busy->prefix_length};
  const weir_denial_line line = {.reply = &reply,
                                 .log_keys = named->config->log_keys,
                                 .hash = weir_denial_log_hash(&service->denials, &reply)};
  weir_denial_line_show(&line, WEIR_DENIAL_ON_PAGE, text);
  return json_pack("{ss ss sb sI sI}", "limiter", named->config->name, "key", text, "hashed",
                   named->config->log_keys == WEIR_CONFIG_LOG_KEYS_HASHED, "held",
                   (json_int_t)busy->count, "cost", (json_int_t)busy->cost);
}

/* A part of /status.json: how many places there are, and the keys with most of them, as far as
 * those may be shown. NULL: no memory. */
static json_t *status_of_places(weir_service *service) {
  weir_kept_figures figures;
  weir_kept_busy busiest[KEYS_SHOWN];
  json_t *keys = json_array();
  json_t *ended = json_object();
  weir_keeper_read(&service->keeper, &figures);
  size_t count = weir_keeper_find_busiest(&service->keeper, busiest, KEYS_SHOWN);
  for (size_t i = 0; i < count; i++) {
    json_t *shown = key_of(service, &busiest[i]);
    if (shown != NULL) json_array_append_new(keys, shown);
    free(busiest[i].counted);
  }
  for (size_t i = 0; i < WEIR_KEPT_ENDS; i++)
    json_object_set_new(ended, weir_kept_end_names[i], json_integer((json_int_t)figures.ended[i]));
  return json_pack("{sI sI sI so so}", "held", (json_int_t)figures.held, "most",
                   (json_int_t)service->front->turn.registry->config->places.most, "refused",
                   (json_int_t)figures.refused, "ended", ended, "keys", keys);
}

/* --- one key ------------------------------------------------------------------------------------
 */

/* The question of an operator's client. */
typedef struct question {
  const char *limiter, *key, *place;
  size_t limiter_length, key_length, place_length;
} question;

static json_t *holder_of(const weir_kept_holder *holder, int64_t now_us) {
  char name[WEIR_PLACE_NAME_BYTES];
  json_t *token = json_sprintf("%llu", (unsigned long long)holder->state.token);
  weir_place_name_write(&holder->name, name);
  return json_pack("{ss ss sI sb so sI sI sI}", "place", name, "client", holder->client, "cost",
                   (json_int_t)holder->cost, "held", holder->state.is_held, "token", token,
                   "held_until_us", (json_int_t)holder->state.held_until_us, "since_s",
                   (json_int_t)(now_us - holder->since_us) / 1000000, "left_s",
                   (json_int_t)(holder->until_us - now_us) / 1000000);
}

static bool tell_holders(weir_keeper *keeper, const weir_hash_text *counted, weir_bytes *out) {
  weir_kept_holder *holders = calloc(HOLDERS_SHOWN, sizeof *holders);
  if (holders == NULL) return false;
  json_t *list = json_array();
  int64_t now_us = weir_monotonic_us();
  size_t count = weir_keeper_find_holders(keeper, counted, holders, HOLDERS_SHOWN);
  for (size_t i = 0; i < count && i < HOLDERS_SHOWN; i++)
    json_array_append_new(list, holder_of(&holders[i], now_us));
  free(holders);
  json_t *told = json_pack("{sI so}", "held", (json_int_t)count, "holders", list);
  char *text = told != NULL ? json_dumps(told, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
  if (text != NULL) weir_bytes_text(out, text);
  if (text != NULL) weir_bytes_text(out, "\n");
  json_decref(told);
  free(text);
  return text != NULL;
}

static bool put_out(weir_service *service, const question *asked, const weir_hash_text *counted,
                    weir_bytes *out, weir_http_refusal *refusal) {
  weir_order order = {.place = {.is_none = true}};
  refusal->status = 400;
  if (!weir_order_read_place(&order, asked->place, asked->place_length, &refusal->why))
    return false;
  weir_kept_state state;
  weir_kept *kept = weir_keeper_take(&service->keeper, &order.place, counted, WEIR_KEPT_PUT_OUT,
                                     &state, &refusal->why);
  if (kept == NULL) return false;
  weir_keeper_release_soon(&service->keeper, kept);
  weir_serve_log("an operator has put out a place of %.*s", (int)asked->limiter_length,
                 asked->limiter);
  weir_bytes_text(out, "{\"put_out\":true}\n");
  return true;
}

/* POST /places {"limiter","key"}: who holds it; POST /places/out {"limiter","key","place"}: it is released,
 * whatever its client does. False: *refusal is the answer. */
static bool answer_places(weir_service *service, const weir_http_request *request, weir_bytes *out,
                          weir_http_refusal *refusal) {
  bool puts_out = weir_http_is_path(request, "/places/out");
  question asked = {.limiter = NULL};
  const weir_http_member members[] = {
      {.name = "limiter", .text = &asked.limiter, .length = &asked.limiter_length, .needed = true},
      {.name = "key", .text = &asked.key, .length = &asked.key_length, .needed = true},
      {.name = "place", .text = &asked.place, .length = &asked.place_length, .needed = true},
  };
  if (!weir_http_is(request->method, "POST"))
    return weir_http_decline(refusal, 405, "POST is accepted here");
  weir_http_call call = {.envoy = NULL};
  weir_bytes counted = {0};
  bool done = weir_http_is_json(request, refusal) &&
              weir_http_read_body(request, members, puts_out ? 3 : 2, &call, refusal);
  if (done) {
    weir_bytes_add(&counted, asked.limiter, asked.limiter_length);
    weir_bytes_text(&counted, ":");
    weir_bytes_add(&counted, asked.key, asked.key_length);
    const weir_hash_text text = {counted.data, counted.length};
    if (puts_out && !counted.failed)
      done = put_out(service, &asked, &text, out, refusal);
    else if (counted.failed || !tell_holders(&service->keeper, &text, out))
      done = weir_http_decline(refusal, 503, "the server is short of memory");
  }
  weir_bytes_free(&counted);
  weir_http_call_free(&call);
  return done;
}

/* --- /readyz ------------------------------------------------------------------------------------
 */

/* A store that is away is no reason to send clients elsewhere: the policy answers. So it is said in
 * the body alone. */
static void write_readiness(const weir_service *service, weir_bytes *out) {
  static const char *const breakers[] = {[WEIR_BREAKER_CLOSED] = "closed",
                                         [WEIR_BREAKER_OPEN] = "open",
                                         [WEIR_BREAKER_HALF_OPEN] = "probing"};
  const weir_registry *registry = service->front->turn.registry;
  const weir_config *config = registry->config;
  weir_bytes_text(out, service->is_draining   ? "ending\n"
                       : !service->is_serving ? "connecting\n"
                                              : "ready\n");
  for (size_t i = 0; i < config->store_count; i++) {
    weir_server_state state = WEIR_SERVER_STATE_INIT;
    const weir_store *store = weir_registry_store_at(registry, i);
    for (size_t j = 0; weir_store_read_server(store, j, &state) == WEIR_OK; j++) {
      weir_bytes_format(out, "store %s: %s %s, outages %llu", config->stores[i].name,
                        state.name != NULL ? state.name : "-", breakers[state.breaker],
                        (unsigned long long)state.outages);
      if (state.refusals > 0)
        weir_bytes_format(out, ", refusals %llu", (unsigned long long)state.refusals);
      weir_bytes_text(out, state.answered ? "\n" : ", never answered\n");
    }
  }
}

/* --- /status.json -------------------------------------------------------------------------------
 */

/* `enforced`: as weir_config_limiter has it. */
static json_t *row_of(const weir_served_row *row, const char *rule, const char *store,
                      uint32_t enforced) {
  json_int_t allowed = 0, denied = 0, none = 0, sources[WEIR_SERVED_SOURCES] = {0};
  for (size_t i = 0; i < WEIR_SERVED_PROTOCOLS; i++) {
    none += (json_int_t)row->by[i].none;
    for (size_t j = 0; j < WEIR_SERVED_SOURCES; j++) {
      allowed += (json_int_t)row->by[i].allowed[j];
      denied += (json_int_t)row->by[i].denied[j];
      sources[j] += (json_int_t)(row->by[i].allowed[j] + row->by[i].denied[j]);
    }
  }
  return json_pack("{ss ss ss sb sf sI sI sI sI s{sI sI sI sI sI} s{sI sI sI}}", "name", row->name,
                   "rule", rule, "store", store, "shadow", enforced == 0, "enforce",
                   enforced * 100. / WEIR_CONFIG_ALL_KEYS, "allowed", allowed, "denied", denied,
                   "none", none, "shadow_denied", (json_int_t)row->shadow_denied, "sources",
                   "store", sources[WEIR_SOURCE_STORE], "local", sources[WEIR_SOURCE_LOCAL],
                   "fallback", sources[WEIR_SOURCE_FALLBACK], "late", sources[WEIR_SOURCE_LATE],
                   "unlimited", sources[WEIR_SOURCE_UNLIMITED], "settled", "up",
                   (json_int_t)row->settled_up, "down", (json_int_t)row->settled_down, "cut",
                   (json_int_t)row->settled_cut);
}

/* The names of the members stand in place of a rule. */
static json_t *group_of(const weir_named_group *group, const weir_served_row *row) {
  char members[WEIR_CONFIG_MEMBERS_MOST * (WEIR_CONFIG_NAME_MOST + 2) + 16];
  int length = sprintf(members, "all of");
  uint32_t enforced = 0; /* by the member that denies most */
  for (size_t i = 0; i < group->member_count; i++) {
    const weir_config_limiter *limiter = group->members[i]->config;
    length += sprintf(members + length, "%s %s", i > 0 ? "," : "", limiter->name);
    if (limiter->enforced > enforced) enforced = limiter->enforced;
  }
  return row_of(row, members, group->members[0]->config->store->name, enforced);
}

static json_t *classes_of(const weir_registry *registry, const weir_named *named,
                          const weir_class_counts *sum) {
  json_t *list = json_array();
  for (size_t i = named->first_class; i < named->first_class + named->class_count; i++)
    json_array_append_new(
        list, json_pack("{ss sI sI}", "class", registry->classes[i].name, "allowed",
                        (json_int_t)sum[i].allowed, "denied", (json_int_t)sum[i].denied));
  return list;
}

static json_t *limiters_of(const weir_registry *registry, const weir_served_table *table,
                           const weir_class_counts *classes) {
  const weir_config *config = registry->config;
  const weir_descriptors *descriptors = registry->descriptors;
  json_t *list = json_array();
  size_t named = registry->named_count;
  for (size_t i = 0; i < named && i < WEIR_STATUS_LIMITERS_MOST; i++) {
    const weir_config_limiter *limiter = registry->named[i].config;
    json_t *row = row_of(&table->rows[i], limiter->rule, limiter->store->name, limiter->enforced);
    if (registry->named[i].holds && registry->named[i].own != NULL)
      json_object_set_new(row, "places", row_of_places(registry->named[i].own));
    if (registry->named[i].needs_tenant) json_object_set_new(row, "shared", json_true());
    if (classes != NULL && registry->named[i].class_count > 0)
      json_object_set_new(row, "classes", classes_of(registry, &registry->named[i], classes));
    json_array_append_new(list, row);
  }
  for (size_t i = 0; i < registry->group_count && named + i < WEIR_STATUS_LIMITERS_MOST; i++)
    json_array_append_new(list, group_of(&registry->groups[i], &table->rows[named + i]));
  size_t first = named + registry->group_count;
  for (size_t i = first; i + 1 < table->count && i < WEIR_STATUS_LIMITERS_MOST; i++) {
    const weir_config_domain *domain = descriptors->domains[i - first].config;
    json_array_append_new(list, row_of(&table->rows[i], "by descriptors", domain->store->name,
                                       config->shadow ? 0 : WEIR_CONFIG_ALL_KEYS));
  }
  if (config->throttle.enabled)
    json_array_append_new(list, row_of(&table->rows[table->count - 1], "brought by requests",
                                       config->throttle.store->name, WEIR_CONFIG_ALL_KEYS));
  return list;
}

static json_t *warnings_of(const weir_registry *registry) {
  json_t *list = json_array();
  for (size_t i = 0; i < registry->warning_count; i++)
    json_array_append_new(list, json_string(registry->warnings[i].text));
  return list;
}

static json_t *stores_of(const weir_registry *registry) {
  static const char *const breakers[] = {[WEIR_BREAKER_CLOSED] = "closed",
                                         [WEIR_BREAKER_OPEN] = "open",
                                         [WEIR_BREAKER_HALF_OPEN] = "half-open"};
  const weir_config *config = registry->config;
  json_t *list = json_array();
  for (size_t i = 0; i < config->store_count; i++) {
    weir_server_state state = WEIR_SERVER_STATE_INIT;
    const weir_store *store = weir_registry_store_at(registry, i);
    json_t *servers = json_array();
    for (size_t j = 0; weir_store_read_server(store, j, &state) == WEIR_OK; j++)
      json_array_append_new(
          servers,
          json_pack("{ss? ss sb sI sI ss sI ss}", "name", state.name, "breaker",
                    breakers[state.breaker], "answered", state.answered, "outages",
                    (json_int_t)state.outages, "next_try_ms", (json_int_t)state.next_try_us / 1000,
                    "last_error", state.last_error.text, "refusals", (json_int_t)state.refusals,
                    "last_refusal", state.last_refusal.text));
    json_array_append_new(list,
                          json_pack("{ss so}", "name", config->stores[i].name, "servers", servers));
  }
  return list;
}

/* The keys of which there is most, and how many limiters let theirs be shown, in whichever form. */
static json_t *keys_of(const weir_service *service, weir_served_keys kind, int64_t now_us) {
  static const char *const counted[] = {[WEIR_SERVED_DENIED] = "denied",
                                        [WEIR_SERVED_OVERRUN] = "overrun",
                                        [WEIR_SERVED_TENANTS] = "admitted",
                                        [WEIR_SERVED_STOPPED] = "denied"};
  const weir_registry *registry = service->front->turn.registry;
  weir_sketch merged;
  json_t *list = json_array();
  json_int_t shown = 0;
  weir_served_merge(&service->served, kind, now_us, &merged);
  for (size_t i = 0; i < merged.count && i < KEYS_SHOWN; i++) {
    const weir_sketch_entry *entry = &merged.entries[i];
    json_t *row =
        json_pack("{ss ss sb sI sI}", "limiter", entry->key.limiter, "key", entry->key.text,
                  "hashed", entry->key.log_keys == WEIR_CONFIG_LOG_KEYS_HASHED, counted[kind],
                  (json_int_t)entry->count, "error", (json_int_t)entry->error);
    if (entry->key.pool[0] != '\0') json_object_set_new(row, "pool", json_string(entry->key.pool));
    json_array_append_new(list, row);
  }
  for (size_t i = 0; i < registry->named_count; i++)
    shown += registry->named[i].config->log_keys != WEIR_CONFIG_LOG_KEYS_OFF;
  return json_pack("{si sI sI so}", "window_s", WEIR_SERVED_WINDOW_S, "limiters_shown", shown,
                   "total", (json_int_t)merged.total, "top", list);
}

static json_t *totals_of(const weir_served_all *all) {
  static const struct {
    const char *name;
    size_t offset;
  } totals[] = {{"resp", offsetof(weir_served, counts.resp)},
                {"http", offsetof(weir_served, counts.http)},
                {"grpc", offsetof(weir_served, counts.grpc)},
                {"allowed", offsetof(weir_served, counts.allowed)},
                {"denied", offsetof(weir_served, counts.denied)},
                {"none", offsetof(weir_served, counts.none)},
                {"shadow_denied", offsetof(weir_served, counts.shadow_denied)},
                {"settled", offsetof(weir_served, counts.settled)},
                {"unsettled", offsetof(weir_served, counts.unsettled)},
                {"shed", offsetof(weir_served, counts.shed)},
                {"broken", offsetof(weir_served, counts.broken)},
                {"refused", offsetof(weir_served, counts.refused)},
                {"unauthorized", offsetof(weir_served, counts.unauthorized)},
                {"ticks", offsetof(weir_served, counts.ticks)},
                {"tick_us", offsetof(weir_served, counts.tick_us)}};
  json_t *object = json_object();
  for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
    json_object_set_new(object, totals[i].name,
                        json_integer((json_int_t)weir_served_total(all, totals[i].offset)));
  return object;
}

static void write_status(weir_service *service, weir_bytes *out) {
  const weir_registry *registry = service->front->turn.registry;
  int64_t now_us = weir_monotonic_us();
  weir_served_table *table = weir_served_sum(&service->served);
  weir_class_counts *classes = weir_served_sum_classes(&service->served);
  json_t *status = NULL;
  if (table != NULL)
    status = json_pack(
        "{ss sI sI sb si sI sI sI sI so so so so so so so so so}", "version", WEIR_VERSION_TEXT,
        "at_us", (json_int_t)now_us, "uptime_s", (json_int_t)(now_us - service->began_us) / 1000000,
        "ending", service->is_draining, "loops", (int)service->served.count, "connections",
        (json_int_t)weir_serve_open_connections(&service->served), "generation",
        (json_int_t)service->reloads + 1, "reload_failures", (json_int_t)service->reload_failures,
        "limiters_in_all", (json_int_t)registry->named_count, "totals", totals_of(&service->served),
        "limiters", limiters_of(registry, table, classes), "stores", stores_of(registry),
        "denied_keys", keys_of(service, WEIR_SERVED_DENIED, now_us), "overrun_keys",
        keys_of(service, WEIR_SERVED_OVERRUN, now_us), "tenants",
        keys_of(service, WEIR_SERVED_TENANTS, now_us), "stopped_tenants",
        keys_of(service, WEIR_SERVED_STOPPED, now_us), "places", status_of_places(service),
        "warnings", warnings_of(registry));
  char *text = status != NULL ? json_dumps(status, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
  if (text != NULL)
    weir_bytes_text(out, text);
  else
    out->failed = true;
  free(text);
  json_decref(status);
  free(classes);
  free(table);
}

/* --- requests -----------------------------------------------------------------------------------
 */

/* The page to look at: whoever asks for the port alone gets it too. */
static bool is_status_page(const weir_http_request *request) {
  return weir_http_is_path(request, "/status") || weir_http_is_path(request, "/");
}

/* The status of the answer; 0: there is no such page. */
static int write_page(weir_service *service, const weir_http_request *request, const char **type,
                      weir_bytes *out) {
  *type = "text/plain; charset=utf-8";
  if (weir_http_is_path(request, "/metrics")) {
    *type = "text/plain; version=0.0.4; charset=utf-8";
    weir_serve_write_metrics(service, out);
  } else if (is_status_page(request)) {
    *type = "text/html; charset=utf-8";
    weir_bytes_add(out, weir_status_page, weir_status_page_length);
  } else if (weir_http_is_path(request, "/status.json")) {
    *type = "application/json";
    write_status(service, out);
  } else if (weir_http_is_path(request, "/healthz")) {
    weir_bytes_text(out, "alive\n");
  } else if (weir_http_is_path(request, "/readyz")) {
    write_readiness(service, out);
    return service->is_draining || !service->is_serving ? 503 : 200;
  } else {
    return 0;
  }
  return 200;
}

/* The page /status holds no figures, and a browser cannot be told to show a token for it: the page
 * asks for one, and shows it for /status.json. */
static weir_read_result read_request(weir_connection *connection, const char *bytes, size_t length,
                                     size_t *used) {
  weir_http_request request;
  bool is_known;
  weir_read_result got =
      weir_serve_read_http(connection, bytes, length, used, is_status_page, &request, &is_known);
  if (got != WEIR_READ_ONE) return got;
  weir_serve_count(&connection->loop->served.counts.admin, 1);
  weir_bytes page = {0};
  const char *type = "application/json";
  int status = 0;
  unsigned format = weir_serve_http_format(&request);
  weir_http_refusal refusal = {
      404,
      {"there are /metrics, /status, /status.json, /healthz and /readyz, and for POST /places and "
       "/places/out"}};
  bool of_places =
      weir_http_is_path(&request, "/places") || weir_http_is_path(&request, "/places/out");
  bool opens = is_status_page(&request); /* others may link to it */
  bool reads = weir_http_is(request.method, "GET") || weir_http_is(request.method, "HEAD");
  if (weir_serve_is_from_here(connection, &request, opens, &refusal)) {
    if (!is_known)
      refusal = (weir_http_refusal){401, {"a bearer token is needed"}};
    else if (of_places)
      status = answer_places(connection->loop->service, &request, &page, &refusal) ? 200 : 0;
    else
      status = write_page(connection->loop->service, &request, &type, &page);
  }
  if (status > 0 && !of_places && !reads) {
    refusal = (weir_http_refusal){405, {"GET and HEAD are accepted"}};
    format |= WEIR_HTTP_READS;
    status = 0;
  }
  if (page.failed) refusal = (weir_http_refusal){503, {"the server is short of memory"}};
  if (status > 0 && !page.failed)
    weir_serve_answer_http(connection, status, type, &page, format);
  else
    weir_serve_refuse_http(connection, &refusal, format);
  weir_bytes_free(&page);
  connection->share = 1; /* pages are large, and this thread has signals to hear: one a turn */
  return request.keeps_alive ? WEIR_READ_ONE : WEIR_READ_ENDS;
}

const weir_protocol weir_protocol_admin = {
    .name = "admin",
    .full = WEIR_SERVE_HTTP_FULL,
    .full_length = sizeof WEIR_SERVE_HTTP_FULL - 1,
    .read = read_request, /* which queues texts alone */
};

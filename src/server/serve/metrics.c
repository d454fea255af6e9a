/* /metrics: what the library counts of each limiter and store, and what the server counts. Label
 * values come from the configuration alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/monitor.h>

#include "serve/log.h"
#include "serve/status.h"

uint64_t weir_serve_total(const weir_server *server, size_t offset) {
  uint64_t sum = 0;
  for (unsigned i = 0; i <= server->loop_count; i++) {
    const weir_loop *loop = i < server->loop_count ? &server->loops[i] : &server->front;
    const _Atomic uint64_t *count = (const void *)((const char *)&loop->counts + offset);
    sum += atomic_load_explicit(count, memory_order_relaxed);
  }
  return sum;
}

int64_t weir_serve_open_connections(const weir_server *server) {
  int64_t open = 0;
  for (unsigned i = 0; i < server->loop_count; i++)
    open += atomic_load_explicit(&server->loops[i].counts.open, memory_order_relaxed);
  return open;
}

static void write_head(const char *series, const char *type, const char *help, weir_bytes *out) {
  weir_bytes_format(out, "# HELP %s %s\n# TYPE %s %s\n", series, help, series, type);
}

static void write_one(const char *series, const char *type, const char *help, int64_t value,
                      weir_bytes *out) {
  write_head(series, type, help, out);
  weir_bytes_format(out, "%s %lld\n", series, (long long)value);
}

/* --- the library's ----------------------------------------------------------------------------
 */

typedef struct sources {
  weir_monitor_source list[WEIR_MONITOR_SOURCES_MOST];
  char names[WEIR_MONITOR_SOURCES_MOST][WEIR_MONITOR_NAME_MOST + 1];
  size_t count;
} sources;

/* One limiter may stand for several names and tiers: it is told once, under the first of them. */
static void add_limiter(sources *to, const weir_limiter *limiter, const char *name,
                        const char *tier) {
  char *text = to->names[to->count];
  if (limiter == NULL || to->count == WEIR_STATUS_LIMITERS_MOST) return;
  for (size_t i = 0; i < to->count; i++)
    if (to->list[i].limiter == limiter) return;
  int length =
      snprintf(text, sizeof to->names[0], "%s%s%s", name, tier[0] != '\0' ? "/" : "", tier);
  if ((size_t)length >= sizeof to->names[0]) /* too long for the library: by its place then */
    snprintf(text, sizeof to->names[0], "/%zu", to->count);
  to->list[to->count++] = (weir_monitor_source){.name = text, .limiter = limiter};
}

static void add_limiters(sources *to, const weir_registry *registry) {
  for (size_t i = 0; i < weir_registry_count(registry); i++) {
    const weir_named *named = weir_registry_at(registry, i);
    const weir_config_limiter *config = weir_named_config(named);
    add_limiter(to, weir_named_limiter(named), config->name, "");
    for (size_t j = 0; j < config->tier_count; j++)
      add_limiter(to, weir_named_tier_limiter(named, j), config->name, config->tiers[j].name);
  }
}

/* Those that descriptors alone have, by their place: rules are shared by many of them. */
static void add_nameless(sources *to, const weir_registry *registry) {
  char place[48];
  const char *store;
  for (size_t i = 0; i < weir_registry_limiters(registry); i++) {
    snprintf(place, sizeof place, "descriptors-%zu", i);
    add_limiter(to, weir_registry_limiter_at(registry, i, &store), "", place);
  }
}

static void add_stores(sources *to, const weir_registry *registry) {
  const weir_config *config = weir_registry_config(registry);
  for (size_t i = 0; i < config->store_count && to->count < WEIR_MONITOR_SOURCES_MOST; i++)
    to->list[to->count++] = (weir_monitor_source){.name = config->stores[i].name,
                                                  .store = weir_registry_store_at(registry, i)};
}

static int append(void *out, const char *text, size_t length) {
  weir_bytes_add(out, text, length);
  return 0;
}

static void write_library(const weir_registry *registry, weir_bytes *out) {
  sources *all = calloc(1, sizeof *all);
  if (all == NULL) {
    out->failed = true;
    return;
  }
  add_limiters(all, registry);
  add_nameless(all, registry);
  add_stores(all, registry);
  if (weir_monitor_prometheus(all->list, all->count, append, out, NULL) != WEIR_OK)
    out->failed = true;
  free(all);
}

/* --- by limiter -------------------------------------------------------------------------------
 */

static const char *const protocols[] = {
    [WEIR_TALLY_RESP] = "resp", [WEIR_TALLY_HTTP] = "http", [WEIR_TALLY_GRPC] = "grpc"};

static void write_decisions(const weir_tally_row *row, weir_bytes *out) {
  static const char line[] =
      "weir_serve_decisions_total{limiter=\"%s\",protocol=\"%s\",decision=\"%s\",source=\"%s\"} "
      "%llu\n";
  for (size_t i = 0; i < WEIR_TALLY_PROTOCOLS; i++) {
    for (int source = 0; source < WEIR_TALLY_SOURCES; source++) {
      const char *name = weir_source_name((weir_source)source);
      weir_bytes_format(out, line, row->name, protocols[i], "allowed", name,
                        (unsigned long long)row->by[i].allowed[source]);
      weir_bytes_format(out, line, row->name, protocols[i], "denied", name,
                        (unsigned long long)row->by[i].denied[source]);
    }
    weir_bytes_format(out, line, row->name, protocols[i], "none", "none",
                      (unsigned long long)row->by[i].none);
  }
}

/* The limiters that are listed, and the one for those on demand. */
static bool is_listed(const weir_tally_table *table, size_t index) {
  return index < WEIR_STATUS_LIMITERS_MOST || index + 1 == table->count;
}

static void write_table(const weir_tally_table *table, weir_bytes *out) {
  write_head("weir_serve_decisions_total", "counter",
             "Requests by limiter and protocol: what was answered, and who decided", out);
  for (size_t i = 0; i < table->count; i++)
    if (is_listed(table, i)) write_decisions(&table->rows[i], out);
  write_head("weir_serve_limiter_shadow_denied_total", "counter",
             "Denials by limiter that were answered as allowed", out);
  for (size_t i = 0; i < table->count; i++)
    if (is_listed(table, i))
      weir_bytes_format(out, "weir_serve_limiter_shadow_denied_total{limiter=\"%s\"} %llu\n",
                        table->rows[i].name, (unsigned long long)table->rows[i].shadow_denied);
}

/* KEY=VALUE/KEY: as in keys, but that a descriptor without value has none; quoted for a label. */
static void write_path(const weir_domain *domain, const weir_descriptor *node, weir_bytes *out) {
  const weir_descriptor *parent = weir_domain_node(domain, node->parent);
  if (parent->config != NULL) write_path(domain, parent, out);
  if (parent->config != NULL) weir_bytes_text(out, "/");
  const char *words[] = {node->config->key, node->config->value};
  for (size_t i = 0; i < 2 && words[i] != NULL; i++) {
    if (i == 1) weir_bytes_text(out, "=");
    for (const char *at = words[i]; *at != '\0'; at++)
      if (strchr("%/=\"\\\x7f", *at) != NULL || (unsigned char)*at < ' ')
        weir_bytes_format(out, "%%%02X", (unsigned)*at);
      else
        weir_bytes_add(out, at, 1);
  }
}

static void write_limit(const weir_domain *domain, const weir_descriptor *node,
                        const weir_tally_limit *row, weir_bytes *out) {
  const struct {
    const char *decision;
    uint64_t count;
  } columns[] = {
      {"within", row->within}, {"over", row->over}, {"shadow", row->shadow}, {"none", row->none}};
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
    weir_bytes_format(out, "weir_serve_descriptor_decisions_total{domain=\"%s\",descriptor=\"",
                      weir_domain_config(domain)->name);
    write_path(domain, node, out);
    weir_bytes_format(out, "\",decision=\"%s\"} %llu\n", columns[i].decision,
                      (unsigned long long)columns[i].count);
  }
}

static void write_near(const weir_domain *domain, const weir_descriptor *node,
                       const weir_tally_limit *row, weir_bytes *out) {
  weir_bytes_format(out, "weir_serve_descriptor_near_limit_total{domain=\"%s\",descriptor=\"",
                    weir_domain_config(domain)->name);
  write_path(domain, node, out);
  weir_bytes_format(out, "\"} %llu\n", (unsigned long long)row->near);
}

/* Of the first of each domain. */
static void write_each_limit(const weir_server *server, const weir_tally_limit *sum,
                             void (*write)(const weir_domain *domain, const weir_descriptor *node,
                                           const weir_tally_limit *row, weir_bytes *out),
                             weir_bytes *out) {
  const weir_descriptors *all = weir_registry_descriptors(server->front.tick.registry);
  for (size_t i = 0; sum != NULL && i < weir_descriptors_count(all); i++) {
    const weir_domain *domain = weir_descriptors_at(all, i);
    size_t listed = 0;
    for (size_t j = 1; j < weir_domain_nodes(domain) && listed < WEIR_STATUS_LIMITERS_MOST; j++) {
      const weir_descriptor *node = weir_domain_node(domain, j);
      if (node->config->rate == NULL || node->config->rate->is_unlimited) continue;
      write(domain, node, &sum[node->limit], out);
      listed++;
    }
  }
}

static void write_limits(const weir_server *server, weir_bytes *out) {
  weir_tally_limit *sum = weir_tally_sum_limits(server);
  out->failed |= sum == NULL;
  write_head("weir_serve_descriptor_decisions_total", "counter",
             "Requests by limit of a descriptor file, since that was read", out);
  write_each_limit(server, sum, write_limit, out);
  write_head("weir_serve_descriptor_near_limit_total", "counter",
             "Of those within the limit, those that left less than a fifth of it", out);
  write_each_limit(server, sum, write_near, out);
  free(sum);
}

static void write_detail(const char *domain, const weir_detail *detail, weir_bytes *out) {
  static const char line[] =
      "weir_serve_descriptor_detailed_decisions_total{domain=\"%s\",descriptor=\"%s\","
      "decision=\"%s\"} %llu\n";
  weir_bytes_format(out, line, domain, detail->path, "within", (unsigned long long)detail->within);
  weir_bytes_format(out, line, domain, detail->path, "over", (unsigned long long)detail->over);
  weir_bytes_format(out, line, domain, detail->path, "shadow", (unsigned long long)detail->shadow);
  weir_bytes_format(out, line, domain, detail->path, "none", (unsigned long long)detail->none);
}

static void write_detail_near(const char *domain, const weir_detail *detail, weir_bytes *out) {
  weir_bytes_format(
      out,
      "weir_serve_descriptor_detailed_near_limit_total{domain=\"%s\",descriptor=\"%s\"} %llu\n",
      domain, detail->path, (unsigned long long)detail->near);
}

static void write_each_detail(const weir_server *server,
                              void (*write)(const char *domain, const weir_detail *detail,
                                            weir_bytes *out),
                              weir_bytes *out) {
  const weir_descriptors *all = weir_registry_descriptors(server->front.tick.registry);
  for (size_t i = 0; i < weir_descriptors_count(all); i++) {
    const weir_domain *domain = weir_descriptors_at(all, i);
    const weir_detail *detail;
    for (size_t j = 0; (detail = weir_domain_detail_at(domain, j)) != NULL; j++)
      write(weir_domain_config(domain)->name, detail, out);
  }
}

static void write_details(const weir_server *server, weir_bytes *out) {
  write_head("weir_serve_descriptor_detailed_decisions_total", "counter",
             "The same by the values of requests, where the file asks so", out);
  write_each_detail(server, write_detail, out);
  write_head("weir_serve_descriptor_detailed_near_limit_total", "counter",
             "Of those within the limit, those that left less than a fifth of it", out);
  write_each_detail(server, write_detail_near, out);
}

static void write_throttle(const weir_registry *registry, weir_bytes *out) {
  weir_throttle *throttle = weir_registry_throttle(registry);
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  size_t count = 0;
  if (throttle != NULL) {
    weir_throttle_read_counts(throttle, &counts);
    count = weir_throttle_count(throttle);
  }
  write_one("weir_serve_throttle_limiters", "gauge", "Limiters on demand that are held",
            (int64_t)count, out);
  write_one("weir_serve_throttle_round_trips_total", "counter", "Round trips of limiters on demand",
            (int64_t)counts.round_trips, out);
  write_one("weir_serve_throttle_keys_lost_total", "counter",
            "Counters of limiters on demand that the store has forgotten too early",
            (int64_t)counts.keys_lost, out);
}

/* --- ticks ------------------------------------------------------------------------------------ */

static uint64_t sum_of(const weir_server *server, size_t offset) {
  uint64_t sum = 0;
  for (unsigned i = 0; i < server->loop_count; i++) {
    const _Atomic uint64_t *count = (const void *)((const char *)&server->loops[i].tally + offset);
    sum += atomic_load_explicit(count, memory_order_relaxed);
  }
  return sum;
}

/* A histogram whose counts of buckets are an array of weir_tally. */
typedef struct histogram {
  const char *name, *help;
  size_t counts; /* where in weir_tally */
  size_t buckets;
  double (*bound)(size_t bucket); /* of all but the last */
  double sum;
} histogram;

static double batch_bound(size_t bucket) {
  return (double)((size_t)1 << bucket);
}

static double wait_bound(size_t bucket) {
  return (double)weir_wait_bound_us(bucket) / 1e6;
}

static void write_histogram(const weir_server *server, const histogram *told, weir_bytes *out) {
  unsigned long long sum = 0;
  write_head(told->name, "histogram", told->help, out);
  for (size_t i = 0; i < told->buckets; i++) {
    sum += sum_of(server, told->counts + i * sizeof(uint64_t));
    weir_bytes_format(out, "%s_bucket{le=\"", told->name);
    if (i + 1 < told->buckets)
      weir_bytes_format(out, "%g", told->bound(i));
    else
      weir_bytes_text(out, "+Inf");
    weir_bytes_format(out, "\"} %llu\n", sum);
  }
  weir_bytes_format(out, "%s_sum %.15g\n%s_count %llu\n", told->name, told->sum, told->name, sum);
}

static void write_histograms(const weir_server *server, weir_bytes *out) {
  const histogram all[] = {
      {"weir_serve_batch_requests", "Requests that a turn of a loop decided together",
       offsetof(weir_tally, batches), WEIR_TALLY_BATCHES, batch_bound,
       (double)sum_of(server, offsetof(weir_tally, batched))},
      {"weir_serve_tick_seconds", "How long a turn of a loop took to decide",
       offsetof(weir_tally, waits), WEIR_WAIT_BUCKETS, wait_bound,
       (double)weir_serve_total(server, offsetof(weir_serve_counts, tick_us)) / 1e6},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    write_histogram(server, &all[i], out);
}

/* --- the server's ------------------------------------------------------------------------------
 */

static void write_counters(const weir_server *server, weir_bytes *out) {
  static const struct {
    const char *series, *labels, *help;
    size_t offset;
  } counters[] = {
#define WEIR_SERVE_COUNTER(member, series, labels, help) \
  {series, labels, help, offsetof(weir_serve_counts, member)},
      WEIR_SERVE_COUNTERS(WEIR_SERVE_COUNTER)
#undef WEIR_SERVE_COUNTER
  };
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    if (counters[i].help != NULL) write_head(counters[i].series, "counter", counters[i].help, out);
    weir_bytes_format(out, "%s%s %llu\n", counters[i].series, counters[i].labels,
                      (unsigned long long)weir_serve_total(server, counters[i].offset));
  }
}

static void write_log(weir_bytes *out) {
  write_one("weir_serve_log_lines_lost_total", "counter",
            "Lines that are not in the log, as it was not read or not to be written",
            (int64_t)weir_serve_log_lost(), out);
}

static void write_configuration(const weir_server *server, weir_bytes *out) {
  const weir_registry *registry = server->front.tick.registry;
  write_head("weir_serve_reloads_total", "counter", "Configurations read, by how it went", out);
  weir_bytes_format(out,
                    "weir_serve_reloads_total{result=\"used\"} %llu\n"
                    "weir_serve_reloads_total{result=\"refused\"} %llu\n",
                    (unsigned long long)server->reloads,
                    (unsigned long long)server->reload_failures);
  write_one("weir_serve_config_generation", "gauge",
            "Which configuration is in use: 1 at the start", (int64_t)server->reloads + 1, out);
  write_one("weir_serve_limiters", "gauge", "Limiters of the configuration",
            (int64_t)weir_registry_count(registry), out);
  write_one("weir_serve_connections", "gauge", "Connections that are open",
            weir_serve_open_connections(server), out);
  write_one("weir_serve_loops", "gauge", "Threads that serve", server->loop_count, out);
  write_one("weir_serve_uptime_seconds", "gauge", "How long it has been running",
            (weir_serve_now_us() - server->began_us) / 1000000, out);
  write_head("weir_build_info", "gauge", "The version that runs", out);
  weir_bytes_format(out, "weir_build_info{version=\"%s\"} 1\n", WEIR_VERSION_TEXT);
}

void weir_serve_write_metrics(const weir_server *server, weir_bytes *out) {
  const weir_registry *registry = server->front.tick.registry;
  weir_tally_table *table = weir_tally_sum(server);
  if (table == NULL) {
    out->failed = true;
    return;
  }
  write_library(registry, out);
  write_table(table, out);
  write_limits(server, out);
  write_details(server, out);
  write_throttle(registry, out);
  write_histograms(server, out);
  write_counters(server, out);
  write_log(out);
  write_configuration(server, out);
  free(table);
}

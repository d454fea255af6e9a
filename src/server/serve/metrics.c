/* /metrics: what the library counts of each limiter and store, and what the server counts. Label
 * values come from the configuration alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/monitor.h>

#include "serve/certificates.h"
#include "serve/protocols.h"
#include "tell/log.h"

int64_t weir_serve_open_connections(const weir_served_all *all) {
  int64_t open = 0;
  for (unsigned i = 0; i < all->count; i++)
    open += atomic_load_explicit(&all->loops[i]->counts.open, memory_order_relaxed);
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

static int append(void *out, const char *text, size_t length) {
  weir_bytes_add(out, text, length);
  return 0;
}

static void write_library(const weir_registry *registry, weir_bytes *out) {
  const weir_config *config = registry->config;
  sources *all = calloc(1, sizeof *all);
  if (all == NULL) {
    out->failed = true;
    return;
  }
  for (size_t i = 0; i < registry->named_count; i++) {
    const weir_named *named = &registry->named[i];
    const weir_config_limiter *limiter = named->config;
    add_limiter(all, named->own, limiter->name, "");
    for (size_t j = 0; j < limiter->tier_count; j++)
      add_limiter(all, named->tiers[j], limiter->name, limiter->tiers[j].name);
  }
  /* Those that descriptors alone have, by their place: rules are shared by many of them. */
  for (size_t i = 0; i < registry->limiter_count; i++) {
    char place[48];
    const char *store;
    snprintf(place, sizeof place, "descriptors-%zu", i);
    add_limiter(all, weir_registry_limiter_at(registry, i, &store), "", place);
  }
  for (size_t i = 0; i < config->store_count && all->count < WEIR_MONITOR_SOURCES_MOST; i++)
    all->list[all->count++] = (weir_monitor_source){.name = config->stores[i].name,
                                                    .store = weir_registry_store_at(registry, i)};
  if (weir_monitor_prometheus(all->list, all->count, append, out, NULL) != WEIR_OK)
    out->failed = true;
  free(all);
}

/* --- by limiter -------------------------------------------------------------------------------
 */

static const char *const protocols[] = {
    [WEIR_SERVED_RESP] = "resp", [WEIR_SERVED_HTTP] = "http", [WEIR_SERVED_GRPC] = "grpc"};

static void write_decisions(const weir_served_row *row, weir_bytes *out) {
  static const char line[] =
      "weir_serve_decisions_total{limiter=\"%s\",protocol=\"%s\",decision=\"%s\",source=\"%s\"} "
      "%llu\n";
  for (size_t i = 0; i < WEIR_SERVED_PROTOCOLS; i++) {
    for (int source = 0; source < WEIR_SERVED_SOURCES; source++) {
      if (source == WEIR_SOURCE_SETTLED) continue;
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

static void write_settled(const weir_served_row *row, weir_bytes *out) {
  const struct {
    const char *name;
    uint64_t cost;
  } ways[] = {{"up", row->settled_up}, {"down", row->settled_down}, {"cut", row->settled_cut}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    weir_bytes_format(out, "weir_serve_settled_cost_total{limiter=\"%s\",way=\"%s\"} %llu\n",
                      row->name, ways[i].name, (unsigned long long)ways[i].cost);
}

/* The limiters that are listed, and the one for those on demand. */
static bool is_listed(const weir_served_table *table, size_t index) {
  return index < WEIR_STATUS_LIMITERS_MOST || index + 1 == table->count;
}

static void write_table(const weir_served_table *table, weir_bytes *out) {
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
  write_head("weir_serve_settled_cost_total", "counter",
             "Cost by limiter that settlements charged besides (up), gave back (down), or charged "
             "nowhere (cut)",
             out);
  for (size_t i = 0; i + 1 < table->count; i++)
    if (is_listed(table, i) && table->rows[i].name[0] != '/') write_settled(&table->rows[i], out);
}

/* Of the limiters that are listed: a class is one of a rule, so there are few. */
static void write_classes(const weir_service *service, weir_bytes *out) {
  const weir_registry *registry = service->front->turn.registry;
  weir_class_counts *sum = weir_served_sum_classes(&service->served);
  out->failed |= sum == NULL;
  write_head("weir_serve_class_decisions_total", "counter",
             "Requests by limiter and class, since the configuration was read; \"\": of none", out);
  for (size_t i = 0; sum != NULL && i < registry->named_count && i < WEIR_STATUS_LIMITERS_MOST;
       i++) {
    const weir_named *named = &registry->named[i];
    for (size_t j = named->first_class; j < named->first_class + named->class_count; j++) {
      const struct {
        const char *name;
        uint64_t count;
      } decisions[] = {{"allowed", sum[j].allowed}, {"denied", sum[j].denied}};
      for (size_t k = 0; k < 2; k++)
        weir_bytes_format(out,
                          "weir_serve_class_decisions_total{limiter=\"%s\",class=\"%s\","
                          "decision=\"%s\"} %llu\n",
                          named->config->name, registry->classes[j].name, decisions[k].name,
                          (unsigned long long)decisions[k].count);
    }
  }
  free(sum);
}

/* KEY=VALUE/KEY: as in keys, but that a descriptor without value has none; quoted for a label. */
static void write_path(const weir_domain *domain, const weir_descriptor *node, weir_bytes *out) {
  const weir_descriptor *parent = &domain->nodes[node->parent];
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

/* The figures of a limit: one for each outcome, or how often that was near the limit. */
typedef enum limit_figures { REQUESTS, HITS, NEAR } limit_figures;

static const struct {
  const char *all, *detailed; /* what they are called */
  const char *help;
} told_of_limits[] = {
    [REQUESTS] = {"weir_serve_descriptor_decisions_total",
                  "weir_serve_descriptor_detailed_decisions_total",
                  "Requests by limit of a descriptor file, since that was read"},
    [HITS] = {"weir_serve_descriptor_hits_total", "weir_serve_descriptor_detailed_hits_total",
              "What these requests asked for"},
    [NEAR] = {"weir_serve_descriptor_near_limit_total",
              "weir_serve_descriptor_detailed_near_limit_total",
              "Of the requests within the limit, those that left little of it, as near_limit says"},
};

/* `labels`: its domain and descriptor. */
static void write_figures(const weir_limit_counts *counts, limit_figures figures, const char *name,
                          const weir_bytes *labels, weir_bytes *out) {
  static const char *const outcomes[] = {[WEIR_LIMIT_WITHIN] = "within",
                                         [WEIR_LIMIT_OVER] = "over",
                                         [WEIR_LIMIT_SHADOW] = "shadow",
                                         [WEIR_LIMIT_NONE] = "none"};
  for (size_t i = 0; i < (figures == NEAR ? 1 : WEIR_LIMIT_OUTCOMES); i++) {
    weir_bytes_format(out, "%s{", name);
    weir_bytes_add(out, labels->data, labels->length);
    if (figures == NEAR)
      weir_bytes_format(out, "} %llu\n", (unsigned long long)counts->near);
    else
      weir_bytes_format(
          out, ",decision=\"%s\"} %llu\n", outcomes[i],
          (unsigned long long)(figures == HITS ? counts->hits[i] : counts->requests[i]));
  }
}

/* Writes the figures of the first limits of each domain. */
static void write_limits(const weir_service *service, const weir_limit_counts *sum,
                         limit_figures figures, weir_bytes *out) {
  const weir_descriptors *all = service->front->turn.registry->descriptors;
  weir_bytes labels = {0};
  for (size_t i = 0; sum != NULL && i < all->count; i++) {
    const weir_domain *domain = &all->domains[i];
    size_t listed = 0;
    for (size_t j = 1; j < domain->node_count && listed < WEIR_STATUS_LIMITERS_MOST; j++) {
      const weir_descriptor *node = &domain->nodes[j];
      if (node->config->rate == NULL || node->config->rate->is_unlimited) continue;
      labels.length = 0;
      weir_bytes_format(&labels, "domain=\"%s\",descriptor=\"", domain->config->name);
      write_path(domain, node, &labels);
      weir_bytes_text(&labels, "\"");
      write_figures(&sum[node->limit], figures, told_of_limits[figures].all, &labels, out);
      listed++;
    }
  }
  out->failed |= labels.failed;
  weir_bytes_free(&labels);
}

/* The same by the values of requests. */
static void write_details(const weir_service *service, limit_figures figures, weir_bytes *out) {
  const weir_descriptors *all = service->front->turn.registry->descriptors;
  weir_bytes labels = {0};
  for (size_t i = 0; i < all->count; i++) {
    const weir_domain *domain = &all->domains[i];
    const weir_detail *detail;
    for (size_t j = 0; (detail = weir_domain_detail_at(domain, j)) != NULL; j++) {
      labels.length = 0;
      weir_bytes_format(&labels, "domain=\"%s\",descriptor=\"%s\"", domain->config->name,
                        detail->path);
      write_figures(&detail->counts, figures, told_of_limits[figures].detailed, &labels, out);
    }
  }
  out->failed |= labels.failed;
  weir_bytes_free(&labels);
}

static void write_descriptors(const weir_service *service, weir_bytes *out) {
  weir_limit_counts *sum = weir_served_sum_limits(&service->served);
  out->failed |= sum == NULL;
  for (limit_figures each = REQUESTS; each <= NEAR; each++) {
    write_head(told_of_limits[each].all, "counter", told_of_limits[each].help, out);
    write_limits(service, sum, each, out);
    write_head(told_of_limits[each].detailed, "counter",
               "The same by the values of requests, where the file asks so", out);
    write_details(service, each, out);
  }
  free(sum);
}

static void write_throttle(const weir_registry *registry, weir_bytes *out) {
  weir_throttle *throttle = registry->throttle;
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

/* --- turns ------------------------------------------------------------------------------------ */

/* A histogram whose counts of buckets are an array of weir_served, at `counts`. */
static void write_histogram(const weir_served_all *all, const char *name, const char *help,
                            size_t counts, const double *bounds, size_t buckets, double sum,
                            weir_bytes *out) {
  unsigned long long count = 0;
  write_head(name, "histogram", help, out);
  for (size_t i = 0; i < buckets; i++) {
    count += weir_served_total(all, counts + i * sizeof(uint64_t));
    weir_bytes_format(out, "%s_bucket{le=\"", name);
    if (i + 1 < buckets)
      weir_bytes_format(out, "%g", bounds[i]);
    else
      weir_bytes_text(out, "+Inf");
    weir_bytes_format(out, "\"} %llu\n", count);
  }
  weir_bytes_format(out, "%s_sum %.15g\n%s_count %llu\n", name, sum, name, count);
}

static void write_histograms(const weir_served_all *all, weir_bytes *out) {
  double batches[WEIR_SERVED_BATCHES], waits[WEIR_WAIT_BUCKETS];
  for (size_t i = 0; i < WEIR_SERVED_BATCHES; i++)
    batches[i] = (double)((size_t)1 << i);
  for (size_t i = 0; i < WEIR_WAIT_BUCKETS; i++)
    waits[i] = (double)weir_wait_bound_us(i) / 1e6;
  write_histogram(all, "weir_serve_batch_requests",
                  "Requests that a turn of a loop decided together", offsetof(weir_served, batches),
                  batches, WEIR_SERVED_BATCHES,
                  (double)weir_served_total(all, offsetof(weir_served, batched)), out);
  write_histogram(all, "weir_serve_tick_seconds", "How long a turn of a loop took to decide",
                  offsetof(weir_served, waits), waits, WEIR_WAIT_BUCKETS,
                  (double)weir_served_total(all, offsetof(weir_served, counts.tick_us)) / 1e6, out);
}

/* --- the server's ------------------------------------------------------------------------------
 */

static void write_counters(const weir_service *service, weir_bytes *out) {
  static const struct {
    const char *series, *labels, *help;
    size_t offset;
  } counters[] = {
#define WEIR_SERVE_COUNTER(member, series, labels, help) \
  {series, labels, help, offsetof(weir_served, counts.member)},
      WEIR_SERVE_COUNTERS(WEIR_SERVE_COUNTER)
#undef WEIR_SERVE_COUNTER
  };
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    if (counters[i].help != NULL) write_head(counters[i].series, "counter", counters[i].help, out);
    weir_bytes_format(out, "%s%s %llu\n", counters[i].series, counters[i].labels,
                      (unsigned long long)weir_served_total(&service->served, counters[i].offset));
  }
}

static void write_places(weir_keeper *keeper, weir_bytes *out) {
  weir_kept_figures figures;
  weir_keeper_read(keeper, &figures);
  write_one("weir_serve_places", "gauge", "Places that are held for clients now",
            (int64_t)figures.held, out);
  write_head("weir_serve_places_ended_total", "counter", "Places of clients, by what ended them",
             out);
  for (size_t i = 0; i < WEIR_KEPT_ENDS; i++)
    weir_bytes_format(out, "weir_serve_places_ended_total{by=\"%s\"} %llu\n",
                      weir_kept_end_names[i], (unsigned long long)figures.ended[i]);
  write_one("weir_serve_places_refused_total", "counter",
            "Requests for a place that was not to be had: places.most, or no memory",
            (int64_t)figures.refused, out);
}

/* The path of a unix socket may have any bytes, which would end the label, or the page. */
static void write_certificate(void *self, const weir_certificate *certificate) {
  weir_bytes *out = self;
  weir_bytes_format(out, "weir_serve_certificate_end_seconds{of=\"%s\",name=\"", certificate->of);
  for (const char *at = certificate->name; *at != '\0'; at++)
    if (strchr("\"\\\n", *at) == NULL)
      weir_bytes_add(out, at, 1);
    else
      weir_bytes_format(out, "\\%c", *at == '\n' ? 'n' : *at);
  weir_bytes_format(out, "\"} %lld\n", (long long)certificate->ends_s);
}

static void write_configuration(weir_service *service, weir_bytes *out) {
  const weir_registry *registry = service->front->turn.registry;
  write_head("weir_serve_reloads_total", "counter", "Configurations read, by how it went", out);
  weir_bytes_format(out,
                    "weir_serve_reloads_total{result=\"used\"} %llu\n"
                    "weir_serve_reloads_total{result=\"refused\"} %llu\n",
                    (unsigned long long)service->reloads,
                    (unsigned long long)service->reload_failures);
  write_one("weir_serve_config_generation", "gauge",
            "Which configuration is in use: 1 at the start", (int64_t)service->reloads + 1, out);
  write_head("weir_serve_certificate_end_seconds", "gauge",
             "When certificates end, in seconds since 1970: those that listeners and stores show",
             out);
  weir_certificates_in_use(service, registry, write_certificate, out);
  write_one("weir_serve_limiters", "gauge", "Limiters of the configuration",
            (int64_t)registry->named_count, out);
  write_one("weir_serve_connections", "gauge", "Connections that are open",
            weir_serve_open_connections(&service->served), out);
  write_one("weir_serve_exchanges", "gauge", "Threads beside the loops that ask a store now",
            (int64_t)weir_served_total(&service->served, offsetof(weir_served, counts.exchanging)),
            out);
  write_one("weir_serve_waiting_requests", "gauge", "Requests that wait for such a thread",
            (int64_t)weir_served_total(&service->served, offsetof(weir_served, counts.waiting)),
            out);
  write_one("weir_serve_loops", "gauge", "Threads that serve", service->served.count, out);
  write_one("weir_serve_uptime_seconds", "gauge", "How long it has been running",
            (weir_monotonic_us() - service->began_us) / 1000000, out);
  write_head("weir_build_info", "gauge", "The version that runs", out);
  weir_bytes_format(out, "weir_build_info{version=\"%s\"} 1\n", WEIR_VERSION_TEXT);
}

void weir_serve_write_metrics(weir_service *service, weir_bytes *out) {
  const weir_registry *registry = service->front->turn.registry;
  weir_served_table *table = weir_served_sum(&service->served);
  if (table == NULL) {
    out->failed = true;
    return;
  }
  write_library(registry, out);
  write_table(table, out);
  write_classes(service, out);
  write_descriptors(service, out);
  write_throttle(registry, out);
  write_histograms(&service->served, out);
  write_counters(service, out);
  write_one("weir_serve_log_lines_lost_total", "counter",
            "Lines that are not in the log, as it was not read or not to be written",
            (int64_t)weir_serve_log_lost(), out);
  write_places(&service->keeper, out);
  write_configuration(service, out);
  free(table);
}

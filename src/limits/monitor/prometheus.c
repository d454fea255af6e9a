/* The text format of Prometheus. A family's samples stand together, so each family asks all sources
 * for itself: their counts are read several times, and grow in between. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>

#include "monitor/sources.h"

enum { LINE_BYTES = 1024, LABEL_BYTES = 512 };

typedef struct page {
  const weir_monitor_source *sources;
  size_t count;
  weir_monitor_write *write;
  void *context;
  bool stopped;
} page;

static void put(page *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(page *to, const char *format, ...) {
  char line[LINE_BYTES + 1];
  va_list arguments;
  if (to->stopped) return;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  to->stopped = length < 0 || (size_t)length > LINE_BYTES ||
                to->write(to->context, line, (size_t)length) != 0;
}

/* Within quotes, where a '"', a backslash and the end of a line would end the label or the
 * sample. A name that is longer than any that a server can have is cut. */
static const char *escape(const char *text, char label[LABEL_BYTES]) {
  char *end = label;
  for (; *text != '\0' && end < label + LABEL_BYTES - 5; text++) {
    unsigned char byte = (unsigned char)*text;
    if (byte == '"' || byte == '\\') {
      *end++ = '\\';
      *end++ = (char)byte;
    } else if (byte >= ' ' && byte <= '~') {
      *end++ = (char)byte;
    } else {
      end += sprintf(end, "\\\\x%02x", byte);
    }
  }
  *end = '\0';
  return label;
}

/* --- what is put ---------------------------------------------------------------------------------
 */

/* All statuses, those with a count of 0 too: a rate over a series that begins late misses its first
 * increase. */
static void put_statuses(page *to, const char *labels, const weir_limiter_counts *counts) {
  for (int status = 0; status < WEIR_STATUS_COUNT; status++)
    put(to, "weir_requests_total{%s,status=\"%s\"} %" PRIu64 "\n", labels,
        weir_status_name((weir_status)status), counts->statuses[status]);
}

/* Buckets are cumulative there. */
static void put_waits(page *to, const char *labels, const weir_limiter_counts *counts) {
  uint64_t sum = 0;
  for (size_t i = 0; i < WEIR_WAIT_BUCKETS; i++) {
    sum += counts->waits[i];
    put(to, "weir_store_wait_seconds_bucket{%s,le=\"", labels);
    if (i + 1 < WEIR_WAIT_BUCKETS)
      put(to, "%g", (double)weir_wait_bound_us(i) / 1e6);
    else
      put(to, "+Inf");
    put(to, "\"} %" PRIu64 "\n", sum);
  }
  put(to, "weir_store_wait_seconds_sum{%s} %" PRIu64 ".%06" PRIu64 "\n", labels,
      counts->waited_us / 1000000, counts->waited_us % 1000000);
  put(to, "weir_store_wait_seconds_count{%s} %" PRIu64 "\n", labels, sum);
}

static void put_breaker(page *to, const char *labels, const weir_server_state *state) {
  static const char *const names[] = {[WEIR_BREAKER_CLOSED] = "closed",
                                      [WEIR_BREAKER_OPEN] = "open",
                                      [WEIR_BREAKER_HALF_OPEN] = "half-open"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    put(to, "weir_server_breaker{%s,state=\"%s\"} %d\n", labels, names[i], state->breaker == i);
}

/* --- families ------------------------------------------------------------------------------------
 */

/* A member of weir_limiter_counts or weir_server_state that is a sample of a family: 64 bits, 0 or more. */
typedef struct member {
  const char *value; /* of the family's second label; NULL: it has none */
  size_t offset;
} member;

/* Samples are members of a limiter's counts or of a server's state, or what a function puts. */
typedef struct family {
  const char *name, *type, *help;
  const char *label;     /* the second one of members */
  const member *members; /* ends with a NULL value, or holds one without */
  void (*put_limiter)(page *to, const char *labels, const weir_limiter_counts *counts);
  void (*put_server)(page *to, const char *labels, const weir_server_state *state);
  bool of_servers;
  bool in_millionths; /* members are, and told as what they are of one */
} family;

#define MEMBER(value, name) \
  { value, offsetof(weir_limiter_counts, name) }
#define MEMBERS_END \
  { NULL, 0 }

static const member results[] = {MEMBER("allowed", allowed), MEMBER("denied", denied), MEMBERS_END};
static const member sources_of_decisions[] = {MEMBER("store", by_store), MEMBER("local", by_local),
                                              MEMBER("fallback", by_fallback),
                                              MEMBER("late", by_late), MEMBERS_END};
static const member leases[] = {MEMBER("charged", leased), MEMBER("used", lease_used),
                                MEMBER("returned", lease_returned), MEMBER("lost", lease_lost),
                                MEMBERS_END};
static const member outages[] = {MEMBER("owed", owed), MEMBER("paid", paid),
                                 MEMBER("unpaid", unpaid), MEMBERS_END};
static const member places[] = {MEMBER("entered", places_entered), MEMBER("denied", places_denied),
                                MEMBER("released", places_released), MEMBER("lost", places_lost),
                                MEMBERS_END};
static const member places_held[] = {MEMBER(NULL, places_held)};
static const member renewals[] = {MEMBER(NULL, renewals)};
static const member settlements[] = {MEMBER("up", settled_up), MEMBER("down", settled_down),
                                     MEMBER("cut", settled_cut), MEMBERS_END};
static const member settled_costs[] = {MEMBER("up", settled_up_cost),
                                       MEMBER("down", settled_down_cost),
                                       MEMBER("cut", settled_cut_cost), MEMBERS_END};
static const member clock_steps[] = {MEMBER(NULL, clock_steps)};
static const member keys_lost[] = {MEMBER(NULL, keys_lost)};
static const member round_trips[] = {MEMBER(NULL, round_trips)};
static const member share[] = {MEMBER(NULL, share)};
static const member outages_of_a_server[] = {{NULL, offsetof(weir_server_state, outages)}};
static const member next_try[] = {{NULL, offsetof(weir_server_state, next_try_us)}};

static const family families[] = {
    {"weir_decisions_total", "counter", "Requests to take, by what was decided.", "result",
     .members = results},
    {"weir_decisions_by_source_total", "counter", "Requests to take, by who decided.", "source",
     .members = sources_of_decisions},
    {"weir_lease_cost_total", "counter", "Cost charged ahead of requests, by what became of it.",
     "fate", .members = leases},
    {"weir_outage_cost_total", "counter", "Cost admitted without the store, and what became of it.",
     "fate", .members = outages},
    {"weir_places_total", "counter", "Places of in-flight rules, by what became of them.", "fate",
     .members = places},
    {"weir_places_held", "gauge", "Places that this process holds now.", .members = places_held},
    {"weir_place_renewals_total", "counter", "Payments for places that are held on.",
     .members = renewals},
    {"weir_settlements_total", "counter",
     "Settlements that charged more, gave back, or found no room for all of it.", "way",
     .members = settlements},
    {"weir_settled_cost_total", "counter", "Cost that settlements charged, gave back, or cut.",
     "way", .members = settled_costs},
    {"weir_clock_steps_total", "counter", "How often the clock was set back.",
     .members = clock_steps},
    {"weir_keys_lost_total", "counter", "Counters that the store has forgotten too early.",
     .members = keys_lost},
    {"weir_round_trips_total", "counter", "How often operations left for the store together.",
     .members = round_trips},
    {"weir_requests_total", "counter",
     "All requests, by what they would have been answered without a policy.",
     .put_limiter = put_statuses},
    {"weir_store_wait_seconds", "histogram", "How long requests waited for servers.",
     .put_limiter = put_waits},
    {"weir_share_ratio", "gauge", "This process's own part of all that is charged, as measured.",
     .members = share, .in_millionths = true},
    {"weir_server_breaker", "gauge", "Which state the breaker of a server is in.",
     .put_server = put_breaker, .of_servers = true},
    {"weir_server_outages_total", "counter", "How often a server counted as away.",
     .members = outages_of_a_server, .of_servers = true},
    {"weir_server_next_try_seconds", "gauge",
     "How long until somebody tries a server that is away.", .members = next_try,
     .of_servers = true, .in_millionths = true},
};

static void put_members(page *to, const family *of, const char *labels, const void *from) {
  for (const member *each = of->members; each != NULL;) {
    uint64_t number;
    memcpy(&number, (const char *)from + each->offset, sizeof number);
    put(to, "%s{%s", of->name, labels);
    if (of->label != NULL) put(to, ",%s=\"%s\"", of->label, each->value);
    if (of->in_millionths)
      put(to, "} %g\n", (double)number / 1e6);
    else
      put(to, "} %" PRIu64 "\n", number);
    each = of->label != NULL && each[1].value != NULL ? each + 1 : NULL;
  }
}

/* Of every limiter; a source may be a store alone. */
static void put_of_limiters(page *to, const family *of) {
  char label[LABEL_BYTES], labels[LINE_BYTES];
  for (size_t i = 0; i < to->count && !to->stopped; i++) {
    weir_limiter_counts counts = {.size = sizeof counts};
    const weir_limiter *limiter = to->sources[i].limiter;
    if (limiter == NULL) continue;
    snprintf(labels, sizeof labels, "limiter=\"%s\"", escape(to->sources[i].name, label));
    weir_limiter_read_counts(limiter, &counts);
    if (of->put_limiter != NULL) of->put_limiter(to, labels, &counts);
    put_members(to, of, labels, &counts);
  }
}

/* Of every store; how many servers it has shows when one more cannot be read. */
static void put_of_servers(page *to, const family *of) {
  char label[LABEL_BYTES], labels[LINE_BYTES], text[WEIR_SERVER_INDEX_BYTES];
  weir_server_state state;
  for (size_t i = 0; i < to->count; i++) {
    const weir_store *store = to->sources[i].store;
    if (store == NULL) continue;
    int used =
        snprintf(labels, sizeof labels, "store=\"%s\",server=", escape(to->sources[i].name, label));
    for (size_t j = 0; !to->stopped && weir_monitor_read_server(store, j, &state, text); j++) {
      snprintf(labels + used, sizeof labels - (size_t)used, "\"%s\"", escape(state.name, label));
      if (of->put_server != NULL) of->put_server(to, labels, &state);
      put_members(to, of, labels, &state);
    }
  }
}

/* --- public ------------------------------------------------------------------------------------
 */

weir_status weir_monitor_prometheus(const weir_monitor_source *sources, size_t count,
                                    weir_monitor_write *write, void *context,
                                    weir_message *message) {
  page to = {.sources = sources, .count = count, .write = write, .context = context};
  weir_status status = weir_monitor_check(sources, count, message);
  if (status != WEIR_OK) return status;
  for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
    const family *of = &families[i];
    put(&to, "# HELP %s %s\n# TYPE %s %s\n", of->name, of->help, of->name, of->type);
    if (of->of_servers)
      put_of_servers(&to, of);
    else
      put_of_limiters(&to, of);
  }
  if (!to.stopped) return WEIR_OK;
  weir_message_set(message, "the caller's function stopped the writing");
  return WEIR_BAD_ARGUMENT;
}

typedef struct buffer {
  char *text;
  size_t size;
  size_t length;
} buffer;

static int append(void *context, const char *text, size_t length) {
  buffer *to = context;
  if (to->length < to->size && length < to->size - to->length)
    memcpy(to->text + to->length, text, length + 1);
  to->length += length;
  return 0;
}

weir_status weir_monitor_print_prometheus(const weir_monitor_source *sources, size_t count,
                                          char *text, size_t size, size_t *length,
                                          weir_message *message) {
  buffer to = {.text = text, .size = size};
  if (size > 0) text[0] = '\0';
  *length = 0;
  weir_status status = weir_monitor_prometheus(sources, count, append, &to, message);
  *length = to.length;
  if (status != WEIR_OK || to.length < size) return status;
  if (size > 0) text[0] = '\0';
  weir_message_set(message, "a buffer of %zu bytes: %zu are needed", size, to.length + 1);
  return WEIR_BAD_ARGUMENT;
}

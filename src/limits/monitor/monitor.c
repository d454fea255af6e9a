/* Sources tell two things: all that is counted of them, as a page, and what has happened to them
 * since the last look, as events. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/backend.h>
#include <weir/monitor.h>

/* --- sources ------------------------------------------------------------------------------------
 */

static const char *fault_of(const weir_monitor_source *sources, size_t i) {
  const weir_monitor_source *source = &sources[i];
  if (source->name == NULL || source->name[0] == '\0') return "has no name";
  if (strnlen(source->name, WEIR_MONITOR_NAME_MOST + 1) > WEIR_MONITOR_NAME_MOST)
    return "has a name of more than 64 bytes";
  if (source->limiter == NULL && source->store == NULL) return "has neither limiter nor store";
  for (size_t j = 0; j < i; j++) {
    const weir_monitor_source *other = &sources[j];
    bool both_limit = source->limiter != NULL && other->limiter != NULL;
    bool both_store = source->store != NULL && other->store != NULL;
    if ((both_limit || both_store) && strcmp(source->name, other->name) == 0)
      return "has the name of another";
  }
  return NULL;
}

/* WEIR_OK, or which source is not accepted and why. */
static weir_status check_sources(const weir_monitor_source *sources, size_t count,
                                 weir_message *message) {
  if (count > WEIR_MONITOR_SOURCES_MOST) {
    weir_message_set(message, "%zu sources: accepted are up to %d", count,
                     WEIR_MONITOR_SOURCES_MOST);
    return WEIR_BAD_ARGUMENT;
  }
  for (size_t i = 0; i < count; i++) {
    const char *fault = fault_of(sources, i);
    if (fault == NULL) continue;
    weir_message_set(message, "sources[%zu] %s", i, fault);
    return WEIR_BAD_ARGUMENT;
  }
  return WEIR_OK;
}

/* Reads a server; false: the store has no such server. The name of one that has none is its index,
 * written to `text`. */
enum { SERVER_INDEX_BYTES = 24 };
static bool read_server(const weir_store *store, size_t index, weir_server_state *state,
                        char text[SERVER_INDEX_BYTES]) {
  state->size = sizeof *state;
  if (weir_store_read_server(store, index, state) != WEIR_OK) return false;
  if (state->name != NULL) return true;
  snprintf(text, SERVER_INDEX_BYTES, "%zu", index);
  state->name = text;
  return true;
}

/* --- a page for Prometheus ----------------------------------------------------------------------
 *
 * A family's samples stand together, so each family asks all sources for itself: their counts are read
 * several times, and grow in between. */

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
static const member sources_of_decisions[] = {
    MEMBER("store", by_store), MEMBER("local", by_local),         MEMBER("fallback", by_fallback),
    MEMBER("late", by_late),   MEMBER("unlimited", by_unlimited), MEMBERS_END};
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
static const member limits_lost[] = {MEMBER(NULL, limits_lost)};
static const member tiers_unknown[] = {MEMBER(NULL, tiers_unknown)};
static const member round_trips[] = {MEMBER(NULL, round_trips)};
static const member share[] = {MEMBER(NULL, share)};
static const member outages_of_a_server[] = {{NULL, offsetof(weir_server_state, outages)}};
static const member addresses[] = {{NULL, offsetof(weir_server_state, addresses)}};
static const member address[] = {{NULL, offsetof(weir_server_state, address)}};
static const member clock_ahead[] = {{NULL, offsetof(weir_server_state, clock_ahead_us)}};
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
    {"weir_limits_lost_total", "counter", "Limits of keys that the store has forgotten.",
     .members = limits_lost},
    {"weir_tiers_unknown_total", "counter", "Limits of keys that named no tier of the rule.",
     .members = tiers_unknown},
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
    {"weir_server_addresses", "gauge", "Addresses of one family that the name of a server has.",
     .members = addresses, .of_servers = true},
    {"weir_server_address", "gauge",
     "Which address of its name is in use: processes with different ones count apart.",
     .members = address, .of_servers = true},
    {"weir_server_clock_ahead_seconds", "gauge",
     "How far a server's clock is ahead of this machine's, where that matters.",
     .members = clock_ahead, .of_servers = true, .in_millionths = true},
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

/* Writes a family for every limiter; a source may be a store alone. */
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

/* Writes a family for every store; how many servers it has shows when one more cannot be read. */
static void put_of_servers(page *to, const family *of) {
  char label[LABEL_BYTES], labels[LINE_BYTES], text[SERVER_INDEX_BYTES];
  weir_server_state state;
  for (size_t i = 0; i < to->count; i++) {
    const weir_store *store = to->sources[i].store;
    if (store == NULL) continue;
    int used =
        snprintf(labels, sizeof labels, "store=\"%s\",server=", escape(to->sources[i].name, label));
    for (size_t j = 0; !to->stopped && read_server(store, j, &state, text); j++) {
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
  weir_status status = check_sources(sources, count, message);
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

/* --- events for a log ---------------------------------------------------------------------------
 *
 * Events are differences: between what is counted now and what was at the last look. */

#define DAY_US INT64_C(86400000000)
#define QUIET_MOST_US DAY_US

/* A limiter's events are told from these. Those of servers have no text here. */
static const struct kind {
  const char *name;
  const char *text;
  size_t offset; /* in weir_limiter_counts */
} kinds[] = {
    [WEIR_EVENT_SERVER_LOST] = {"server-lost", NULL, 0},
    [WEIR_EVENT_SERVER_BACK] = {"server-back", NULL, 0},
    [WEIR_EVENT_CLOCK_STEP] = {"clock-step", "the clock was set back",
                               offsetof(weir_limiter_counts, clock_steps)},
    [WEIR_EVENT_KEYS_LOST] = {"keys-lost", "the store has forgotten counters",
                              offsetof(weir_limiter_counts, keys_lost)},
    [WEIR_EVENT_REFUSED] = {"refused", "the store refused operations",
                            offsetof(weir_limiter_counts, statuses[WEIR_REFUSED_BY_STORE])},
    [WEIR_EVENT_UNKNOWN] = {"unknown-outcome", "no answer came: requests may or may not be charged",
                            offsetof(weir_limiter_counts, statuses[WEIR_UNKNOWN_OUTCOME])},
    [WEIR_EVENT_FALLBACK] = {"fallback", "the policy decided in the store's stead",
                             offsetof(weir_limiter_counts, by_fallback)},
    [WEIR_EVENT_LATE] = {"late", "requests ran out of their time",
                         offsetof(weir_limiter_counts, by_late)},
    [WEIR_EVENT_CONTENDED] = {"contended", "others wrote keys faster, until the deadline",
                              offsetof(weir_limiter_counts, statuses[WEIR_CONTENDED])},
    [WEIR_EVENT_LEASE_LOST] = {"lease-lost", "cost charged ahead cannot be used any more",
                               offsetof(weir_limiter_counts, lease_lost)},
    [WEIR_EVENT_BROKEN] = {"broken", "weir or a backend broke its own contract",
                           offsetof(weir_limiter_counts, statuses[WEIR_BROKEN_BACKEND])},
    [WEIR_EVENT_CUT] = {"cut", "work cost more than its limit and debt had room for",
                        offsetof(weir_limiter_counts, settled_cut)},
    [WEIR_EVENT_ADDRESS] = {"address", NULL, 0},
    [WEIR_EVENT_SERVER_CLOCK] = {"server-clock", NULL, 0},
};
enum { KINDS = sizeof kinds / sizeof kinds[0], FIRST_OF_LIMITERS = WEIR_EVENT_CLOCK_STEP };

typedef struct server_seen {
  bool away;        /* as it was told last */
  uint64_t outages; /* at the last event */
  int64_t quiet_end_us;
  uint64_t refusals; /* the same of refusals */
  int64_t refusals_quiet_end_us;
  uint64_t address; /* as it was told last */
  int64_t address_quiet_end_us;
  bool ahead; /* its clock, the same */
  int64_t ahead_quiet_end_us;
} server_seen;

typedef struct watched {
  char name[WEIR_MONITOR_NAME_MOST + 1];
  const weir_limiter *limiter;
  const weir_store *store;
  uint64_t told[KINDS];
  int64_t quiet_end_us[KINDS];
  size_t server_count;
  server_seen *servers;
} watched;

struct weir_watch {
  int64_t quiet_us;
  size_t count;
  watched sources[];
};

/* One look. */
typedef struct look {
  const weir_watch *watch;
  int64_t now_us;
  weir_event_hook *hook;
  void *context;
  size_t told;
} look;

static uint64_t count_of(const weir_limiter_counts *counts, size_t kind) {
  uint64_t number;
  memcpy(&number, (const char *)counts + kinds[kind].offset, sizeof number);
  return number;
}

static void tell(look *at, const watched *source, weir_event_kind kind, const char *server,
                 uint64_t count, const char *text) {
  const weir_event event = {.kind = kind,
                            .kind_name = kinds[kind].name,
                            .source = source->name,
                            .server = server,
                            .count = count,
                            .text = text};
  at->told++;
  at->hook(at->context, &event);
}

/* A kind that was told keeps quiet for a while, and then all that came meanwhile is told as one. */
static void look_at_limiter(look *at, watched *source) {
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(source->limiter, &counts);
  for (size_t kind = FIRST_OF_LIMITERS; kind < KINDS; kind++) {
    if (kinds[kind].text == NULL) continue;
    uint64_t now = count_of(&counts, kind);
    uint64_t told = source->told[kind];
    if (now == told || at->now_us < source->quiet_end_us[kind]) continue;
    source->told[kind] = now;
    source->quiet_end_us[kind] = at->now_us + at->watch->quiet_us;
    if (now > told) tell(at, source, (weir_event_kind)kind, NULL, now - told, kinds[kind].text);
  }
}

static void look_at_refusals(look *at, const watched *source, const weir_server_state *state,
                             server_seen *seen) {
  uint64_t refused = state->refusals - seen->refusals;
  if (refused == 0 || at->now_us < seen->refusals_quiet_end_us) return;
  seen->refusals = state->refusals;
  seen->refusals_quiet_end_us = at->now_us + at->watch->quiet_us;
  tell(at, source, WEIR_EVENT_REFUSED, state->name, refused, state->last_refusal.text);
}

static void look_at_address(look *at, const watched *source, const weir_server_state *state,
                            server_seen *seen) {
  weir_message text;
  if (at->now_us < seen->address_quiet_end_us || state->address == seen->address) return;
  seen->address = state->address;
  seen->address_quiet_end_us = at->now_us + at->watch->quiet_us;
  if (state->address == 0)
    weir_message_set(&text, "the first address of its name is in use");
  else
    weir_message_set(&text,
                     "address %" PRIu64
                     " of its name is in use, as the first refused: processes on "
                     "another one count apart",
                     state->address + 1);
  tell(at, source, WEIR_EVENT_ADDRESS, state->name, 1, text.text);
}

static void look_at_clock(look *at, const watched *source, const weir_server_state *state,
                          server_seen *seen) {
  bool ahead = state->clock_ahead_us > (uint64_t)DAY_US;
  weir_message text;
  if (at->now_us < seen->ahead_quiet_end_us || ahead == seen->ahead) return;
  seen->ahead = ahead;
  seen->ahead_quiet_end_us = at->now_us + at->watch->quiet_us;
  if (ahead)
    weir_message_set(&text, "its clock is %.1f days ahead of this machine's",
                     (double)state->clock_ahead_us / DAY_US);
  else
    weir_message_set(&text, "its clock is right again");
  tell(at, source, WEIR_EVENT_SERVER_CLOCK, state->name, 1, text.text);
}

/* A server that was away in between, and is back already, was lost as well. One that is being tried
 * is not back yet. */
static void look_at_server(look *at, const watched *source, size_t index, server_seen *seen) {
  char text[SERVER_INDEX_BYTES];
  weir_server_state state;
  if (!read_server(source->store, index, &state, text)) return;
  look_at_refusals(at, source, &state, seen);
  look_at_address(at, source, &state, seen);
  look_at_clock(at, source, &state, seen);
  if (at->now_us < seen->quiet_end_us) return;
  bool away = state.breaker != WEIR_BREAKER_CLOSED;
  uint64_t lost = state.outages - seen->outages;
  bool was_away = seen->away;
  if (away == was_away && lost == 0) return;
  seen->outages = state.outages;
  seen->away = away;
  seen->quiet_end_us = at->now_us + at->watch->quiet_us;
  if (lost > 0 || away)
    tell(at, source, WEIR_EVENT_SERVER_LOST, state.name, lost > 0 ? lost : 1,
         state.last_error.text);
  if (!away) tell(at, source, WEIR_EVENT_SERVER_BACK, state.name, 1, "the server answers again");
}

size_t weir_watch_look(weir_watch *watch, weir_event_hook *hook, void *context) {
  look at = {.watch = watch, .now_us = weir_monotonic_us(), .hook = hook, .context = context};
  for (size_t i = 0; i < watch->count; i++) {
    watched *source = &watch->sources[i];
    if (source->limiter != NULL) look_at_limiter(&at, source);
    for (size_t j = 0; j < source->server_count; j++)
      look_at_server(&at, source, j, &source->servers[j]);
  }
  return at.told;
}

/* --- life --------------------------------------------------------------------------------------
 */

/* Counts from before the watch began are no event. False: no memory. */
static bool watch_servers(watched *source) {
  char text[SERVER_INDEX_BYTES];
  weir_server_state state;
  while (read_server(source->store, source->server_count, &state, text))
    source->server_count++;
  source->servers = calloc(source->server_count + 1, sizeof *source->servers);
  if (source->servers == NULL) return false;
  for (size_t j = 0; j < source->server_count; j++)
    if (read_server(source->store, j, &state, text)) {
      source->servers[j].outages = state.outages;
      source->servers[j].refusals = state.refusals;
    }
  return true;
}

static bool watch_source(watched *source, const weir_monitor_source *given) {
  weir_limiter_counts counts = {.size = sizeof counts};
  snprintf(source->name, sizeof source->name, "%s", given->name);
  source->limiter = given->limiter;
  source->store = given->store;
  if (given->limiter != NULL) weir_limiter_read_counts(given->limiter, &counts);
  for (size_t kind = FIRST_OF_LIMITERS; kind < KINDS; kind++)
    if (kinds[kind].text != NULL) source->told[kind] = count_of(&counts, kind);
  return given->store == NULL || watch_servers(source);
}

weir_status weir_watch_create(const weir_monitor_source *sources, size_t count, int64_t quiet_us,
                              weir_watch **watch, weir_message *message) {
  *watch = NULL;
  if (quiet_us < 0 || quiet_us > QUIET_MOST_US) {
    weir_message_set(message, "quiet_us is %" PRId64 ": accepted are 0 to %" PRId64, quiet_us,
                     QUIET_MOST_US);
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = check_sources(sources, count, message);
  if (status != WEIR_OK) return status;
  weir_watch *made = calloc(1, sizeof *made + count * sizeof made->sources[0]);
  bool whole = made != NULL;
  for (size_t i = 0; whole && i < count; i++)
    whole = watch_source(&made->sources[made->count++], &sources[i]);
  if (!whole) {
    weir_watch_destroy(made);
    weir_message_set(message, "%s", weir_status_text(WEIR_NO_MEMORY));
    return WEIR_NO_MEMORY;
  }
  made->quiet_us = quiet_us;
  *watch = made;
  return WEIR_OK;
}

void weir_watch_destroy(weir_watch *watch) {
  if (watch == NULL) return;
  for (size_t i = 0; i < watch->count; i++)
    free(watch->sources[i].servers);
  free(watch);
}

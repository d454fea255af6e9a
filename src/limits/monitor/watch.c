/* Events are differences: between what is counted now and what was at the last look. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>

#include "monitor/sources.h"

#define QUIET_MOST_US INT64_C(86400000000)

/* What a limiter's events are told from. Those of servers stand before them in the enum. */
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
};
enum { KINDS = sizeof kinds / sizeof kinds[0], FIRST_OF_LIMITERS = WEIR_EVENT_CLOCK_STEP };

typedef struct server_seen {
  bool away;        /* as it was told last */
  uint64_t outages; /* at the last event */
  int64_t quiet_end_us;
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
    uint64_t now = count_of(&counts, kind);
    uint64_t told = source->told[kind];
    if (now == told || at->now_us < source->quiet_end_us[kind]) continue;
    source->told[kind] = now;
    source->quiet_end_us[kind] = at->now_us + at->watch->quiet_us;
    if (now > told) tell(at, source, (weir_event_kind)kind, NULL, now - told, kinds[kind].text);
  }
}

/* A server that was away in between, and is back already, was lost as well. One that is being tried
 * is not back yet. */
static void look_at_server(look *at, const watched *source, size_t index, server_seen *seen) {
  char text[WEIR_SERVER_INDEX_BYTES];
  weir_server_state state;
  if (at->now_us < seen->quiet_end_us) return;
  if (!weir_monitor_read_server(source->store, index, &state, text)) return;
  bool away = state.breaker != WEIR_BREAKER_CLOSED;
  uint64_t outages = state.outages - seen->outages;
  bool was_away = seen->away;
  if (away == was_away && outages == 0) return;
  seen->outages = state.outages;
  seen->away = away;
  seen->quiet_end_us = at->now_us + at->watch->quiet_us;
  if (outages > 0 || away)
    tell(at, source, WEIR_EVENT_SERVER_LOST, state.name, outages > 0 ? outages : 1,
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

/* What was counted before the watch began is no event. False: no memory. */
static bool watch_servers(watched *source) {
  char text[WEIR_SERVER_INDEX_BYTES];
  weir_server_state state;
  while (weir_monitor_read_server(source->store, source->server_count, &state, text))
    source->server_count++;
  source->servers = calloc(source->server_count + 1, sizeof *source->servers);
  if (source->servers == NULL) return false;
  for (size_t j = 0; j < source->server_count; j++)
    if (weir_monitor_read_server(source->store, j, &state, text))
      source->servers[j].outages = state.outages;
  return true;
}

static bool watch_source(watched *source, const weir_monitor_source *given) {
  weir_limiter_counts counts = {.size = sizeof counts};
  snprintf(source->name, sizeof source->name, "%s", given->name);
  source->limiter = given->limiter;
  source->store = given->store;
  if (given->limiter != NULL) weir_limiter_read_counts(given->limiter, &counts);
  for (size_t kind = FIRST_OF_LIMITERS; kind < KINDS; kind++)
    source->told[kind] = count_of(&counts, kind);
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
  weir_status status = weir_monitor_check(sources, count, message);
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

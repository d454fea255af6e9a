/* Goes from server to server of a store: what is tried on each, in which order, and what is told of
 * the store as a whole. */
#include "doctor/inspect.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "limiter/defaults.h"
#include "store/process.h"

enum {
  SERVERS_MOST = 1024,
  HOMES_EACH = 256, /* drawn for each server: one of them is its own, however small its share */
  PATTERN_BYTES = 64
};
#define TIMEOUT_LEAST_US INT64_C(1000)
#define TIMEOUT_MOST_US INT64_C(60000000)
#define TIMEOUT_DEFAULT_US INT64_C(5000000)
#define LOOK_EVERY_US 10000 /* for keys that should have expired */

/* Everything that the store's traits allow. */
static unsigned all_needs(const weir_store *store) {
  unsigned needs = WEIR_NEED_ADD | WEIR_NEED_SUB | WEIR_NEED_GET | WEIR_NEED_CREATE |
                   WEIR_NEED_PUT | WEIR_NEED_DROP;
  if (store->backend->traits & WEIR_TRAIT_SWAP) needs |= WEIR_NEED_SWAP;
  if (store->backend->traits & WEIR_TRAIT_RAISE)
    needs |= WEIR_NEED_RAISE | WEIR_NEED_RAISED_GET | WEIR_NEED_RAISED_SUB;
  return needs;
}

/* "weir:" or "weir:NAMESPACE:". */
static int write_prefix(const weir_store *store, char *text, size_t room) {
  bool named = store->namespace_text[0] != '\0';
  return snprintf(text, room, "weir:%s%s", store->namespace_text, named ? ":" : "");
}

static void draw_home(char home[WEIR_HOME_DIGITS + 1]) {
  unsigned char bytes[WEIR_HOME_DIGITS / 2];
  randombytes_buf(bytes, sizeof bytes);
  sodium_bin2hex(home, WEIR_HOME_DIGITS + 1, bytes, sizeof bytes);
}

static weir_status no_memory(weir_message *message) {
  weir_message_set(message, "%s", weir_status_text(WEIR_NO_MEMORY));
  return WEIR_NO_MEMORY;
}

/* A store without a ring has one server, without a name. */
static size_t locate(const weir_store *store, const char *home, size_t *count, const char **name) {
  *count = 1;
  *name = NULL;
  if (!WEIR_BACKEND_HAS(store->backend, locate)) return 0;
  return store->backend->locate(store->handle, home, WEIR_HOME_DIGITS, count, name);
}

/* Gives every server of the store a home of its own, drawn until it has one, and a probe with keys
 * there: as many as *count, for free(). */
static weir_status find_servers(weir_store *store, const weir_inspect_plan *plan,
                                weir_probe **probes, size_t *count, weir_message *message) {
  char home[WEIR_HOME_DIGITS + 1];
  const char *name;
  size_t found = 0;
  draw_home(home);
  locate(store, home, count, &name);
  if (*count < 1 || *count > SERVERS_MOST) {
    weir_message_set(message, "backend %s broke its contract: locate counts %zu servers",
                     store->backend->name, *count);
    return WEIR_BROKEN_BACKEND;
  }
  *probes = calloc(*count, sizeof **probes);
  if (*probes == NULL) return no_memory(message);
  for (size_t drawn = 0; found < *count && drawn < *count * HOMES_EACH; drawn++) {
    draw_home(home);
    size_t server = locate(store, home, &(size_t){0}, &name);
    if (server >= *count || (*probes)[server].store != NULL) continue;
    weir_probe *probe = &(*probes)[server];
    *probe = (weir_probe){.store = store, .plan = plan, .server = server, .name = name};
    for (size_t i = 0; i < WEIR_PROBE_KEYS; i++) {
      char *key = probe->keys[i];
      int used = write_prefix(store, key, WEIR_PROBE_KEY_BYTES);
      used += snprintf(key + used, WEIR_PROBE_KEY_BYTES - (size_t)used, "doctor:{");
      probe->home_offset = (uint16_t)used;
      snprintf(key + used, WEIR_PROBE_KEY_BYTES - (size_t)used, "%s}:%zu", home, i);
    }
    found++;
  }
  return WEIR_OK;
}

static void ask_backend(const weir_probe *probe) {
  const weir_store *store = probe->store;
  char pattern[PATTERN_BYTES];
  int64_t left_us = probe->end_us - weir_monotonic_us();
  if (!WEIR_BACKEND_HAS(store->backend, inspect) || (probe->answers && left_us <= 0)) return;
  int used = write_prefix(store, pattern, sizeof pattern);
  snprintf(pattern + used, sizeof pattern - (size_t)used, "*");
  const weir_inspection inspection = {.server = probe->server,
                                      .name = probe->name,
                                      .answers = probe->answers,
                                      .needs = probe->plan->needs,
                                      .key = probe->keys[WEIR_PROBE_KEYS - 1],
                                      .pattern = pattern,
                                      .timeout_us = left_us,
                                      .clock_error_us = probe->plan->clock_error_us,
                                      .tell = probe->plan->tell,
                                      .context = probe->plan->context,
                                      .clock_off_us = &probe->plan->worst->clock_off_us};
  store->backend->inspect(store->handle, &inspection);
}

static void report_promise(const weir_probe *probe) {
  unsigned traits = probe->store->backend->traits;
  if (traits & WEIR_TRAIT_SWAP) {
    weir_probe_report(
        probe, WEIR_FINDING_FACT, "buckets",
        "by compare-and-swap: token-bucket:L/W,burst=B admits at most B + t L/W in any "
        "time t");
  } else if (traits & WEIR_TRAIT_RAISE) {
    weir_probe_report(
        probe, WEIR_FINDING_FACT, "buckets",
        "no compare-and-swap: by an atomic raise, token-bucket:L/W,burst=B admits at "
        "most B + t L/W + P in any time t, P what denied requests have charged and not "
        "yet given back");
  } else {
    weir_probe_report(probe, WEIR_FINDING_WARNING, "buckets",
                      "none: backend %s has neither SWAP nor RAISE, which token-bucket and "
                      "leaky-bucket need",
                      probe->store->backend->name);
  }
}

/* All trials but that of expiry, which takes its own time. They have the time of one question
 * together: the delays of a slow server must not add up. */
static void try_server(weir_probe *probe) {
  weir_probe_give_time(probe, probe->plan->timeout_us);
  probe->answers = weir_probe_connect(probe);
  if (probe->answers) weir_probe_round_trips(probe);
  ask_backend(probe);
  if (!probe->answers) return;
  weir_probe_operations(probe);
  weir_probe_order(probe);
  if (!weir_probe_is_over(probe)) {
    weir_probe_expiry_begin(probe);
    return;
  }
  weir_probe_report(probe, WEIR_FINDING_FAULT, "time",
                    "its answers take so long that not all could be tried within %.1f s",
                    (double)probe->plan->timeout_us / 1e6);
}

static weir_status check_plan(const weir_store *store, const weir_inspect_plan *plan,
                              weir_message *message) {
  if (plan->tell == NULL) {
    weir_message_set(message, "tell is NULL");
    return WEIR_BAD_ARGUMENT;
  }
  bool given = plan->timeout_us != 0;
  if (given && (plan->timeout_us < TIMEOUT_LEAST_US || plan->timeout_us > TIMEOUT_MOST_US)) {
    weir_message_set(message, "timeout_us is %lld: accepted are %lld to %lld, or 0 for the default",
                     (long long)plan->timeout_us, (long long)TIMEOUT_LEAST_US,
                     (long long)TIMEOUT_MOST_US);
    return WEIR_BAD_ARGUMENT;
  }
  return weir_process_check(store->process, "the store", message);
}

/* Every server in turn; then the end of the keys that all of them were given, which takes its time
 * once. */
static void inspect_servers(weir_probe *probes, size_t count, weir_store *store,
                            const weir_inspect_plan *plan) {
  const weir_probe all = {.store = store, .plan = plan};
  size_t idle = 0;
  for (size_t i = 0; i < count; i++) {
    if (probes[i].store != NULL)
      try_server(&probes[i]);
    else
      idle++;
  }
  for (bool waiting = true; waiting;) {
    waiting = false;
    for (size_t i = 0; i < count; i++)
      waiting |= weir_probe_expiry_look(&probes[i]);
    if (waiting) nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_US * 1000}, NULL);
  }
  for (size_t i = 0; i < count; i++) {
    weir_probe_expiry_report(&probes[i]);
    if (probes[i].answers) weir_probe_clean(&probes[i]);
  }
  /* A server with a very small weight may have no part of the ring. */
  if (idle > 0)
    weir_probe_report(
        &all, WEIR_FINDING_WARNING, "servers",
        "%zu of %zu get no keys, or so few that none was found to try them with: their "
        "weights are too small, or they are nodes of a cluster that own no slots",
        idle, count);
  if (plan->needs & (WEIR_NEED_SWAP | WEIR_NEED_RAISE) || plan->needs == all_needs(store))
    report_promise(&all);
}

weir_status weir_store_inspect_plan(weir_store *store, const weir_inspect_plan *asked,
                                    weir_message *message) {
  weir_probe *probes;
  size_t count;
  weir_inspect_plan plan = *asked;
  weir_status status = check_plan(store, asked, message);
  if (status != WEIR_OK) return status;
  if (plan.timeout_us == 0)
    plan.timeout_us =
        store->timeout_us > TIMEOUT_DEFAULT_US ? store->timeout_us : TIMEOUT_DEFAULT_US;
  if (sodium_init() < 0) return no_memory(message);
  status = find_servers(store, &plan, &probes, &count, message);
  if (status != WEIR_OK) return status;
  inspect_servers(probes, count, store, &plan);
  free(probes);
  return WEIR_OK;
}

weir_status weir_store_inspect(weir_store *store, int64_t timeout_us, weir_tell *tell,
                               void *context, weir_message *message) {
  if (store == NULL) {
    weir_message_set(message, "the store is NULL");
    return WEIR_BAD_ARGUMENT;
  }
  weir_inspect_worst worst = {0};
  const weir_inspect_plan plan = {.needs = all_needs(store),
                                  .timeout_us = timeout_us,
                                  .deadline_us = store->timeout_us,
                                  .clock_error_us = WEIR_DEFAULT_CLOCK_ERROR_US,
                                  .tell = tell,
                                  .context = context,
                                  .worst = &worst};
  weir_status status = weir_store_inspect_plan(store, &plan, message);
  if (status == WEIR_OK)
    weir_inspect_report_held(&(weir_probe){.store = store, .plan = &plan}, NULL, 0);
  return status;
}

/* Goes from server to server of a store: what is tried on each, in which order, and what is told of
 * the store as a whole. */
#include "doctor/inspect.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weir/backend.h>
#include <weir/duration.h>
#include <weir/inspect.h>

#include "algorithm/in_flight.h"
#include "algorithm/method.h"
#include "limiter/defaults.h"
#include "limiter/limiter.h"
#include "store/process.h"

enum {
  SERVERS_MOST = 1024,
  HOMES_EACH = 256, /* drawn for each server: one of them is its own, however small its share */
  PATTERN_BYTES = 64
};
#define TIMEOUT_LEAST_US INT64_C(1000)
#define TIMEOUT_MOST_US INT64_C(60000000)
#define TIMEOUT_DEFAULT_US INT64_C(5000000)
#define ANY_TTL_US (INT64_C(400) * 24 * 3600 * 1000000) /* of rules of a year, say */
#define LOOK_EVERY_US 10000                             /* for keys that should have expired */

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
                                      .ttl_us = probe->plan->ttl_us,
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
  bool sound = weir_probe_operations(probe);
  weir_probe_order(probe);
  if (sound) weir_probe_long_life(probe);
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
                                  .ttl_us = ANY_TTL_US,
                                  .tell = tell,
                                  .context = context,
                                  .worst = &worst};
  weir_status status = weir_store_inspect_plan(store, &plan, message);
  if (status == WEIR_OK)
    weir_inspect_report_held(&(weir_probe){.store = store, .plan = &plan}, NULL, 0);
  return status;
}

/* --- in-flight rules ----------------------------------------------------------------------------
 *
 * Which periods of in-flight rules the clocks, the deadline and the round trips of a store allow
 * (docs/guarantees.md, "In flight"). Their counters live for three periods and are needed for little
 * more than one, so that TTLs of whole seconds are enough for the shortest. */

enum { KEYS_EACH = 64 /* in one round trip of a renewal */, TRIPS_LEAST = 2 };

/* Whole seconds, at least what is accepted. */
static int64_t round_up(int64_t us) {
  static const int64_t second_us = 1000000;
  if (us < WEIR_HELD_LEAST_US) us = WEIR_HELD_LEAST_US;
  return (us + second_us - 1) / second_us * second_us;
}

/* The least that is accepted with such a clock error. */
static int64_t least_us(const weir_inspect_plan *plan, int64_t clock_error_us) {
  return round_up(WEIR_HELD_MARGINS * (2 * clock_error_us + plan->deadline_us));
}

/* `what`: whose period it is, "" or ending in a blank. A server's clock stands for those of other
 * processes, where these are right. */
static void warn_of_clocks(const weir_probe *all, const char *what) {
  const weir_inspect_plan *plan = all->plan;
  int64_t off_us = (plan->worst->clock_off_us + 999) / 1000 * 1000;
  int64_t needed_us = least_us(plan, off_us);
  char period[WEIR_DURATION_BYTES];
  weir_message advice;
  weir_duration_format(needed_us, period, sizeof period);
  if (needed_us <= WEIR_HELD_MOST_US)
    weir_message_set(&advice, "with a clock error of %.0f ms periods from %s on hold",
                     (double)off_us / 1000, period);
  else
    weir_message_set(&advice, "no period of up to 1h holds so far apart");
  weir_probe_report(
      all, WEIR_FINDING_WARNING, "in flight",
      "%sclocks are %.0f ms apart or more, which is too far: if this machine's is the "
      "wrong one, more than the limit may be in flight at once; %s",
      what, (double)off_us / 1000, advice.text);
}

/* All rules that there may be. */
static void report_any(const weir_probe *all) {
  const weir_inspect_plan *plan = all->plan;
  char period[WEIR_DURATION_BYTES];
  if (plan->worst->clock_off_us > plan->clock_error_us) {
    warn_of_clocks(all, "");
    return;
  }
  weir_duration_format(least_us(plan, plan->clock_error_us), period, sizeof period);
  weir_probe_report(
      all, WEIR_FINDING_FACT, "in flight",
      "periods from %s to 1h are accepted with a deadline of %.0f ms and a clock error "
      "of %.0f ms",
      period, (double)plan->deadline_us / 1000, (double)plan->clock_error_us / 1000);
}

void weir_inspect_report_held(const weir_probe *all, const weir_rule *rule, size_t number) {
  const weir_inspect_plan *plan = all->plan;
  weir_settings settings = {.clock_error_us = plan->clock_error_us};
  char period[WEIR_DURATION_BYTES];
  weir_message what;
  if (rule == NULL) {
    report_any(all);
    return;
  }
  weir_settings_set_margins(&settings, plan->deadline_us);
  int64_t guard_us = weir_held_guard_us(rule, &settings);
  int64_t payment_us = guard_us + plan->deadline_us; /* from when it is due until it is too late */
  int64_t late_us = plan->worst->late_us > 0 ? plan->worst->late_us : 1;
  weir_message_set(&what, "%zu, ", number);
  if (plan->worst->clock_off_us + plan->clock_error_us > guard_us) {
    warn_of_clocks(all, what.text);
  } else if (payment_us / late_us < TRIPS_LEAST) {
    weir_duration_format(round_up(16 * (TRIPS_LEAST * late_us - plan->deadline_us)), period,
                         sizeof period);
    weir_probe_report(all, WEIR_FINDING_WARNING, "in flight",
                      "%sa payment has %.0f ms and a round trip takes %.0f ms at times, so that "
                      "places are lost now and then; take a period of %s or more",
                      what.text, (double)payment_us / 1000, (double)late_us / 1000, period);
  } else {
    weir_duration_format(least_us(plan, plan->clock_error_us), period, sizeof period);
    weir_probe_report(all, WEIR_FINDING_FACT, "in flight",
                      "%sa payment has %.0f ms, room for %lld round trips of up to %d keys each; a "
                      "period of %s would be enough",
                      what.text, (double)payment_us / 1000, (long long)(payment_us / late_us),
                      KEYS_EACH, period);
  }
}

/* --- the rules of a limiter ---------------------------------------------------------------------
 *
 * Tells what the rules of a limiter need of its store, and what they promise there. */

static void tell(const weir_inspect_plan *plan, weir_finding_level level, const char *topic,
                 const char *text) {
  const weir_finding finding = {.level = level, .topic = topic, .text = text};
  plan->tell(plan->context, &finding);
}

/* Reports a rule's promise, in one sentence. A TTL is shown in whole seconds, rounded up. */
static void report_rule(const weir_limiter *limiter, size_t i, const weir_inspect_plan *plan) {
  const weir_rule *rule = &limiter->stack.rules[i];
  char period[WEIR_DURATION_BYTES];
  char ttl[WEIR_DURATION_BYTES];
  weir_message text;
  weir_duration_format(rule->period_us, period, sizeof period);
  weir_duration_format((weir_method_ttl_us(rule, &limiter->settings) + 999999) / 1000000 * 1000000,
                       ttl, sizeof ttl);
  if (weir_rule_moves_in_time(rule)) {
    weir_message_set(&text, "%s: at most %lld at once and %lld in %s; its keys live for up to %s",
                     weir_rule_kind_name(rule->kind), (long long)rule->burst,
                     (long long)rule->limit, period, ttl);
  } else if (weir_rule_is_held(rule)) {
    weir_message_set(&text,
                     "%s: at most %lld at once, what a dead process held free after %s; its "
                     "keys live for up to %s",
                     weir_rule_kind_name(rule->kind), (long long)rule->limit, period, ttl);
  } else {
    weir_message_set(&text, "%s: at most %lld in %s %s; its keys live for up to %s",
                     weir_rule_kind_name(rule->kind), (long long)weir_rule_bound(rule),
                     weir_rule_slides(rule) ? "any" : "a window of", period, ttl);
  }
  weir_message_prefix(&text, "%zu, ", i + 1);
  tell(plan, WEIR_FINDING_FACT, "rule", text.text);
}

weir_status weir_limiter_inspect(weir_limiter *limiter, int64_t timeout_us, weir_tell *report_to,
                                 void *context, weir_message *message) {
  if (limiter == NULL) {
    weir_message_set(message, "the limiter is NULL");
    return WEIR_BAD_ARGUMENT;
  }
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status != WEIR_OK) return status;
  weir_inspect_worst worst = {0};
  weir_inspect_plan plan = {.timeout_us = timeout_us,
                            .deadline_us = limiter->deadline_us,
                            .clock_error_us = limiter->settings.clock_error_us,
                            .tell = report_to,
                            .context = context,
                            .worst = &worst};
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    int64_t ttl_us = weir_method_ttl_us(rule, &limiter->settings);
    plan.needs |= weir_method_of(rule, limiter->settings.traits)->needs;
    if (ttl_us > plan.ttl_us) plan.ttl_us = ttl_us;
  }
  status = weir_store_inspect_plan(limiter->store, &plan, message);
  if (status != WEIR_OK) return status;
  for (size_t i = 0; i < limiter->stack.count; i++)
    report_rule(limiter, i, &plan);
  const weir_probe all = {.store = limiter->store, .plan = &plan};
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (weir_rule_is_held(&limiter->stack.rules[i]))
      weir_inspect_report_held(&all, &limiter->stack.rules[i], i + 1);
  const char *warning;
  for (size_t i = 0; (warning = weir_limiter_warning_at(limiter, i)) != NULL; i++)
    tell(&plan, WEIR_FINDING_WARNING, "rule", warning);
  return WEIR_OK;
}

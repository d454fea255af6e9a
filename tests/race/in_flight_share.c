/* in_flight_share --store URL [--rule RULE] [--seconds N] [--least PERCENT]
 *
 * Two processes want all places of an in-flight rule, all the time: as many threads of each as there are
 * places wait for one, work briefly and leave. A place that is left goes to another thread of the same
 * process for a while, so the one that has the places could keep them. Each must have had at least so
 * many of all places that were entered, 40 per cent unless given.
 *
 * URL may be the name of an environment variable. Exit code 0 only if that holds.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

#include "faults/ground.h"
#include "rule/rule.h"

enum { PROCESSES = 2, PLACES_MOST = 64, WORK_US = 10000, WAIT_US = 1000000, KEY_BYTES = 64 };

static struct {
  char key[KEY_BYTES];
  _Atomic int64_t entered[PROCESSES], handed[PROCESSES];
} * common;

static struct {
  const char *url, *rule_text;
  weir_rule rule;
  int64_t seconds, least;
} settings = {.rule_text = "in-flight:10/10s", .seconds = 60, .least = 40};

typedef struct child {
  int number;
  weir_limiter *limiter;
} child;

static void *want(void *context) {
  const child *self = context;
  uint64_t random = (uintptr_t)&random;
  for (;;) {
    weir_request request = {.key = common->key, .key_length = strlen(common->key), .cost = 1};
    weir_reservation *place;
    weir_limiter_reserve_wait(self->limiter, &request, WAIT_US, &place, NULL);
    if (place == NULL) continue;
    atomic_fetch_add(&common->entered[self->number], 1);
    if (request.decision.source == WEIR_SOURCE_LOCAL)
      atomic_fetch_add(&common->handed[self->number], 1);
    sleep_us((int64_t)(next_number(&random) % (2 * WORK_US)));
    weir_reservation_commit(place, NULL);
    weir_reservation_destroy(place);
  }
  return NULL;
}

static void run_child(void *context) {
  child self = *(child *)context;
  weir_message message = {""};
  weir_store *store;
  weir_limiter_options options = {.size = sizeof options, .fallback = WEIR_FALLBACK_NONE};
  pthread_t thread;
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, settings.rule_text, &options, &self.limiter, &message) != WEIR_OK)
    give_up("%s", message.text);
  for (int64_t i = 1; i < settings.rule.limit; i++)
    if (pthread_create(&thread, NULL, want, &self) != 0) give_up("no thread left");
  want(&self);
}

static void read_arguments(int count, char **arguments) {
  weir_message message = {""};
  weir_stack stack;
  for (int i = 1; i + 1 < count; i += 2) {
    const char *value = arguments[i + 1];
    if (strcmp(arguments[i], "--store") == 0) settings.url = value;
    if (strcmp(arguments[i], "--rule") == 0) settings.rule_text = value;
    if (strcmp(arguments[i], "--seconds") == 0) settings.seconds = strtol(value, NULL, 10);
    if (strcmp(arguments[i], "--least") == 0) settings.least = strtol(value, NULL, 10);
  }
  if (settings.url == NULL || settings.seconds < 1 || count % 2 == 0)
    give_up("usage: in_flight_share --store URL [--rule RULE] [--seconds N] [--least PERCENT]");
  if (getenv(settings.url) != NULL) settings.url = getenv(settings.url);
  if (weir_stack_parse(settings.rule_text, PROCESSES, &stack, &message) != WEIR_OK)
    give_up("--rule: %s", message.text);
  settings.rule = stack.rules[0];
  if (settings.rule.limit > PLACES_MOST) give_up("--rule: up to %d places", PLACES_MOST);
}

int main(int count, char **arguments) {
  pid_t processes[PROCESSES];
  int64_t all = 0, handed = 0, least = INT64_MAX;
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  snprintf(common->key, KEY_BYTES, "share-%ld", (long)getpid());
  for (int i = 0; i < PROCESSES; i++) {
    child made = {.number = i};
    processes[i] = start_process(run_child, &made);
  }
  sleep_us(settings.seconds * SECOND_US);
  for (int i = 0; i < PROCESSES; i++)
    end_process(processes[i]);
  for (int i = 0; i < PROCESSES; i++) {
    all += common->entered[i];
    handed += common->handed[i];
    if (common->entered[i] < least) least = common->entered[i];
  }
  if (all == 0) give_up("nothing was entered");
  printf("%s on %s: %" PRId64 " places entered in %" PRId64
         " s, %.0f %% from hand to hand; "
         "%.1f %% and %.1f %% of all\n",
         settings.rule_text, settings.url, all, settings.seconds,
         100.0 * (double)handed / (double)all, 100.0 * (double)least / (double)all,
         100.0 * (double)(all - least) / (double)all);
  return least * 100 >= all * settings.least ? 0 : 1;
}

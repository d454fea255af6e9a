/* busy --store URL [--seconds N] [--held-up] [--strict]
 *
 * 32 threads in 4 processes ask for the same keys as fast as they can, with every option at its
 * default: a policy in each process that knows nothing of the others. A new key comes every few
 * milliseconds, before the old one is anything but used up. Whatever the load, the store admits no
 * key more than its rule says. Requests that ran out of time are answered by the process's account,
 * from its share of what was left: with that a key is admitted what its rule says on average, where
 * a tenth more is a failure; by a log, which is not paid, twice as much.
 *
 *   --held-up   stops each process again and again, for longer than a deadline, in the middle of
 *               whatever its threads are at
 *   --strict    of the requests that asked the store less than 0.5 % may be late: for a machine
 *               that does nothing else
 *
 * URL may be the name of an environment variable. Exit code 0 only if all of it holds. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/backend.h>
#include <weir/weir.h>

#include "faults/ground.h"

enum {
  PROCESSES = 4,
  THREADS = 8, /* of each process */
  KEY_US = 40000,
  SECONDS_MOST = 600,
  KEYS_MOST = SECONDS_MOST * 1000000 / KEY_US,
  SOURCES = WEIR_SOURCE_LATE + 1,
  RULES = 4,
  HELD_UP_EVERY_US = 30000, /* and for up to twice as long */
  CONNECT_US = 10000000
};

static const struct {
  const char *text;
  int64_t limit;
  bool is_bucket, is_log;
} rules[RULES] = {
    {"sliding-log:300/1h,name=log", 300, false, true},
    {"token-bucket:300/1h,name=bucket", 300, true, false},
    {"quota:300/1d,name=quota", 300, false, false},
    {"fixed-window:300/400d;sliding-window:300/1h,strict,name=stack", 300, false, false}};

/* Parent and children share this. */
typedef struct shared {
  pthread_barrier_t begin;
  int64_t begin_us, end_us; /* weir_monotonic_us() */
  _Atomic int64_t by_source[SOURCES];
  _Atomic int64_t statuses[WEIR_STATUS_COUNT]; /* of those without a decision by the store */
  _Atomic uint64_t outages;
  _Atomic int32_t by_store[KEYS_MOST][RULES], admitted[KEYS_MOST][RULES];
  _Atomic int64_t away_us[KEYS_MOST]; /* when the policy last answered for the key; 0: never */
} shared;

static shared *common;
static struct {
  const char *url;
  int seconds;
  bool held_up, strict;
} settings = {.seconds = 10};

/* --- a child ------------------------------------------------------------------------------------
 */

static void take(weir_limiter *limiter, size_t rule, int64_t key) {
  char text[64];
  weir_decision decision = {0};
  int length = snprintf(text, sizeof text, "busy-%ld-%" PRId64, (long)getppid(), key);
  weir_status status = weir_limiter_take(limiter, text, (size_t)length, 1, &decision, NULL);
  if (status != WEIR_OK) give_up("%s: %s", rules[rule].text, weir_status_name(status));
  atomic_fetch_add(&common->by_source[decision.source], 1);
  if (decision.store_status != WEIR_OK)
    atomic_fetch_add(&common->statuses[decision.store_status], 1);
  bool by_policy = decision.store_status != WEIR_OK;
  if (decision.allowed) atomic_fetch_add(&common->admitted[key][rule], 1);
  if (decision.allowed && !by_policy) atomic_fetch_add(&common->by_store[key][rule], 1);
  if (decision.source == WEIR_SOURCE_FALLBACK)
    atomic_store(&common->away_us[key], weir_monotonic_us());
}

static void *hammer(void *context) {
  weir_limiter **limiters = context;
  pthread_barrier_wait(&common->begin);
  size_t rule = 0;
  for (int64_t now_us; (now_us = weir_monotonic_us()) < common->end_us; rule++)
    take(limiters[rule % RULES], rule % RULES, (now_us - common->begin_us) / KEY_US);
  return NULL;
}

/* Until the store answers: what a process does before it has a connection is another matter. */
static void connect_first(weir_limiter *limiter) {
  weir_message message = {""};
  weir_decision decision;
  for (int64_t end_us = weir_monotonic_us() + CONNECT_US;
       weir_limiter_peek(limiter, "first", 5, 1, &decision, &message) != WEIR_OK;)
    if (weir_monotonic_us() > end_us) give_up("%s: %s", settings.url, message.text);
}

static void run_child(void *context) {
  (void)context;
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiters[RULES];
  pthread_t threads[THREADS];
  weir_server_state state = {.size = sizeof state};
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK)
    give_up("%s: %s", settings.url, message.text);
  for (size_t i = 0; i < RULES; i++)
    if (weir_limiter_create(store, rules[i].text, NULL, &limiters[i], &message) != WEIR_OK)
      give_up("%s: %s", rules[i].text, message.text);
  connect_first(limiters[0]);
  for (size_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, hammer, limiters) != 0) give_up("thread: none left");
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  weir_store_read_server(store, 0, &state);
  atomic_fetch_add(&common->outages, state.outages);
  if (state.outages > 0) fprintf(stderr, "busy: away: %s\n", state.last_error.text);
  for (size_t i = 0; i < RULES; i++)
    weir_limiter_destroy(limiters[i]);
  weir_store_close(store);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

/* For anything between nothing and twice the time between two. */
static void hold_up(pid_t child, uint64_t *random) {
  *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  kill(child, SIGSTOP);
  sleep_us((int64_t)(*random >> 33) % (2 * HELD_UP_EVERY_US));
  kill(child, SIGCONT);
  sleep_us(HELD_UP_EVERY_US / PROCESSES);
}

static void run(void) {
  pid_t children[PROCESSES];
  uint64_t random = 1;
  int child_status;
  common->begin_us = weir_monotonic_us();
  common->end_us = INT64_MAX;
  for (int i = 0; i < PROCESSES; i++)
    children[i] = start_process(run_child, NULL);
  pthread_barrier_wait(&common->begin);
  common->end_us = weir_monotonic_us() + settings.seconds * INT64_C(1000000);
  while (settings.held_up && weir_monotonic_us() < common->end_us - 2 * HELD_UP_EVERY_US)
    for (int i = 0; i < PROCESSES; i++)
      hold_up(children[i], &random);
  while (wait(&child_status) > 0)
    if (child_status != 0) give_up("child: ended early");
}

/* Denied requests of a bucket that raises are charged until they are taken back. */
static int64_t bound_of(size_t rule, bool raises) {
  return rules[rule].limit + (raises && rules[rule].is_bucket ? PROCESSES * THREADS : 0);
}

static bool keeps_bound(size_t rule, bool raises) {
  int64_t most = 0;
  int64_t by_store = 0;
  int64_t sum = 0;
  int64_t spent = 0;
  for (size_t key = 0; key < KEYS_MOST; key++) {
    int64_t admitted = common->admitted[key][rule];
    if (common->by_store[key][rule] > by_store) by_store = common->by_store[key][rule];
    if (admitted > most) most = admitted;
    if (admitted < rules[rule].limit) continue;
    sum += admitted;
    spent++;
  }
  double mean = spent > 0 ? (double)sum / (double)spent / (double)rules[rule].limit : 1;
  printf("  %s: by the store at most %" PRId64 " of %" PRId64
         " for one key; with the policy %" PRId64 ", on average %.3f of the limit, %" PRId64
         " keys used up\n",
         rules[rule].text, by_store, bound_of(rule, raises), most, mean, spent);
  return by_store <= bound_of(rule, raises) && mean <= (rules[rule].is_log ? 2 : 1.1);
}

static bool keeps_bounds(void) {
  bool raises = strncmp(settings.url, "redis", 5) == 0;
  bool kept = true;
  for (size_t rule = 0; rule < RULES; rule++)
    kept = keeps_bound(rule, raises) && kept;
  return kept;
}

static bool report(void) {
  int64_t late = common->by_source[WEIR_SOURCE_LATE];
  int64_t asked =
      common->by_source[WEIR_SOURCE_STORE] + late + common->by_source[WEIR_SOURCE_FALLBACK];
  double percent = asked > 0 ? 100.0 * (double)late / (double)asked : 100.0;
  printf("%s: %" PRId64 " by the store, %" PRId64 " from local knowledge, %" PRId64
         " by the policy, %" PRId64 " late, %.3f %% of those that asked the store; %" PRIu64
         " outages\n",
         settings.url, common->by_source[WEIR_SOURCE_STORE], common->by_source[WEIR_SOURCE_LOCAL],
         common->by_source[WEIR_SOURCE_FALLBACK], late, percent, common->outages);
  for (int status = WEIR_OK + 1; status < WEIR_STATUS_COUNT; status++)
    if (common->statuses[status] > 0)
      printf("  %" PRId64 " %s\n", common->statuses[status], weir_status_name((weir_status)status));
  for (size_t key = 0; key < KEYS_MOST; key++)
    if (common->away_us[key] > 0)
      printf("  the policy answered %" PRId64 " ms after the begin\n",
             (common->away_us[key] - common->begin_us) / 1000);
  return keeps_bounds() && (!settings.strict || percent < 0.5);
}

static void read_arguments(int count, char **arguments) {
  for (int i = 1; i < count; i++) {
    bool has_value = i + 1 < count;
    if (strcmp(arguments[i], "--held-up") == 0) {
      settings.held_up = true;
    } else if (strcmp(arguments[i], "--strict") == 0) {
      settings.strict = true;
    } else if (strcmp(arguments[i], "--store") == 0 && has_value) {
      settings.url = arguments[++i];
    } else if (strcmp(arguments[i], "--seconds") == 0 && has_value) {
      settings.seconds = (int)strtol(arguments[++i], NULL, 10);
    } else {
      give_up("no such option: %s", arguments[i]);
    }
  }
  if (settings.url != NULL && getenv(settings.url) != NULL) settings.url = getenv(settings.url);
  if (settings.url == NULL || settings.seconds < 1 || settings.seconds >= SECONDS_MOST)
    give_up("usage: busy --store URL [--seconds 1 to 599] [--held-up] [--strict]");
}

int main(int count, char **arguments) {
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  share_barrier(&common->begin, PROCESSES * THREADS + 1);
  run();
  return report() ? 0 : 1;
}

/* hot_bucket --store URL --rule token-bucket:L/W,burst=B[,lease=T] [--seconds N] [--strict]
 *
 * 32 threads in 8 processes ask for one key as fast as its denials let them, and two things are
 * checked over all their admissions:
 *
 *   never more than the bound: B + (t + 2d) * L/W in any interval of stamps; where the store has no
 *   compare-and-swap, more by what denied requests can have charged at once
 *   98 % of what is allowed: B + t * L/W from the first call to the last
 *
 * With a lease the stamps are those of the uses, which decisions do not tell: they are what the
 * limiter's clock last showed to the caller, or the stamp of the charge where somebody else's
 * request brought that meanwhile. The bound then is B + t * L/W: these clocks are one. The
 * admissions must reach 97 % of B' + t * L/W. Nobody may be given up for contention: --strict fails
 * at once, else that is measured again, as is what a busy machine let nobody ask.
 *
 * URL may be the name of an environment variable. Exit code 0 only if both hold. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/weir.h>

#include "faults/ground.h"
#include "rule/rule.h"

enum {
  PROCESSES = 8,
  THREADS = 4, /* of each process */
  STAMPS_MOST = 1 << 20,
  CLOCK_ERROR_US = 1000, /* it is one machine */
  DEADLINE_US = 80000,
  DENIED_PAUSE_MOST_US = 1000,
  URL_BYTES = 512,
  KEY_BYTES = 64
};

/* Parent and children share this. */
typedef struct shared {
  pthread_barrier_t begin;
  int64_t begin_us, end_us;
  char key[KEY_BYTES];
  _Atomic size_t used;
  _Atomic int64_t asked;
  _Atomic int64_t leased;  /* admitted without the store */
  _Atomic int64_t last_us; /* the latest clock reading before a call, or stamp */
  _Atomic int64_t statuses[WEIR_STATUS_COUNT];
  int64_t stamps[STAMPS_MOST];
} shared;

static shared *common;
static struct {
  const char *rule_text;
  char url[URL_BYTES];
  weir_rule rule;
  int seconds;
  bool strict;
} settings = {.seconds = 10};

static void note_last(int64_t now_us) {
  int64_t last_us = common->last_us;
  while (now_us > last_us && !atomic_compare_exchange_weak(&common->last_us, &last_us, now_us))
    continue;
}

/* The time that the limiter's clock last showed to this thread. */
static _Thread_local int64_t shown_us;

static int64_t show_time_us(void *context) {
  (void)context;
  return shown_us = real_time_us();
}

static int64_t stamp_of(const weir_decision *decision) {
  if (decision->source != WEIR_SOURCE_LOCAL) return decision->at_us;
  atomic_fetch_add(&common->leased, 1);
  return shown_us > decision->at_us ? shown_us : decision->at_us;
}

static void *hammer(void *limiter) {
  pthread_barrier_wait(&common->begin);
  for (int64_t now_us; (now_us = real_time_us()) < common->end_us;) {
    weir_decision decision = {0};
    weir_status status =
        weir_limiter_take(limiter, common->key, strlen(common->key), 1, &decision, NULL);
    note_last(now_us);
    atomic_fetch_add(&common->asked, 1);
    atomic_fetch_add(&common->statuses[status], 1);
    if (status == WEIR_OK && decision.allowed) {
      size_t place = atomic_fetch_add(&common->used, 1);
      int64_t stamp_us = stamp_of(&decision);
      if (place < STAMPS_MOST) common->stamps[place] = stamp_us;
      note_last(stamp_us);
    } else {
      bool soon = status == WEIR_OK && decision.retry_after_us < DENIED_PAUSE_MOST_US;
      sleep_us(soon ? decision.retry_after_us : DENIED_PAUSE_MOST_US);
    }
  }
  return NULL;
}

static void run_child(void *context) {
  (void)context;
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiter;
  weir_limiter_options options = {.size = sizeof options,
                                  .clock = {.now_us = show_time_us},
                                  .deadline_us = DEADLINE_US,
                                  .clock_error_us = CLOCK_ERROR_US,
                                  .processes = PROCESSES,
                                  .fallback = WEIR_FALLBACK_NONE};
  pthread_t threads[THREADS];
  weir_decision decision;
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, settings.rule_text, &options, &limiter, &message) != WEIR_OK)
    give_up("%s: %s", settings.url, message.text);
  weir_limiter_peek(limiter, "warm", 4, 1, &decision, NULL); /* connects */
  for (size_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, hammer, limiter) != 0) give_up("thread: none left");
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

/* The most that an interval held above what t * L/W refills, times W: exact. */
static int64_t worst_excess(const int64_t *stamps, size_t count) {
  const weir_rule *rule = &settings.rule;
  int64_t lowest = INT64_MAX; /* of first * W - stamp * L, over first */
  int64_t worst = 0;
  for (size_t i = 0; i < count; i++) {
    int64_t refilled = (stamps[i] - stamps[0]) * rule->limit;
    int64_t before = (int64_t)i * rule->period_us - refilled;
    if (before < lowest) lowest = before;
    int64_t excess = ((int64_t)i + 1) * rule->period_us - refilled - lowest;
    if (excess > worst) worst = excess;
  }
  return worst;
}

static int report(bool has_swap) {
  const weir_rule *rule = &settings.rule;
  bool leases = rule->lease_us > 0;
  size_t count = common->used;
  if (count == 0 || count > STAMPS_MOST) give_up("admissions: none, or more than can be noted");
  qsort(common->stamps, count, sizeof common->stamps[0], compare);
  double per_us = (double)rule->limit / (double)rule->period_us;
  double allowed =
      (double)weir_rule_capacity(rule) + (double)(common->last_us - common->stamps[0]) * per_us;
  double share = 100.0 * (double)count / allowed;
  double excess = (double)worst_excess(common->stamps, count) / (double)rule->period_us;
  double bound = (double)rule->burst + (leases ? 0.0 : 2.0 * CLOCK_ERROR_US * per_us);
  if (!has_swap) bound += PROCESSES * THREADS;
  printf(
      "%s on %s: %zu admitted of %.0f allowed, %.2f %%; at most %.3f above the refill in any "
      "interval, bound %.3f; %" PRId64 " asked",
      settings.rule_text, settings.url, count, allowed, share, excess, bound, common->asked);
  for (int status = WEIR_OK + 1; status < WEIR_STATUS_COUNT; status++)
    if (common->statuses[status] > 0)
      printf(", %" PRId64 " %s", common->statuses[status], weir_status_name((weir_status)status));
  if (leases) printf(", %" PRId64 " without the store", common->leased);
  putchar('\n');
  if (excess > bound) return -1;
  if (!leases) return share >= 98.0;
  if (common->leased == 0) return -1;
  if (common->statuses[WEIR_CONTENDED] > 0) return settings.strict ? -1 : 0;
  return share >= 97.0;
}

static void run(int number) {
  int child_status;
  common->used = 0;
  snprintf(common->key, KEY_BYTES, "hot-%ld-%d", (long)getpid(), number);
  common->begin_us = real_time_us() + 500000;
  common->end_us = common->begin_us + settings.seconds * INT64_C(1000000);
  for (int i = 0; i < PROCESSES; i++)
    start_process(run_child, NULL);
  pthread_barrier_wait(&common->begin);
  while (wait(&child_status) > 0)
    if (child_status != 0) give_up("child: ended early");
}

static void read_arguments(int count, char **arguments) {
  weir_message message = {""};
  weir_stack stack;
  const char *url = NULL;
  if (count > 1 && strcmp(arguments[count - 1], "--strict") == 0) {
    settings.strict = true;
    count--;
  }
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0) url = arguments[i + 1];
    if (strcmp(arguments[i], "--rule") == 0) settings.rule_text = arguments[i + 1];
    if (strcmp(arguments[i], "--seconds") == 0)
      settings.seconds = (int)strtol(arguments[i + 1], NULL, 10);
  }
  if (url != NULL && getenv(url) != NULL) url = getenv(url);
  if (url == NULL || settings.rule_text == NULL || settings.seconds < 1 || count % 2 == 0)
    give_up("usage: hot_bucket --store URL --rule RULE [--seconds N] [--strict]");
  snprintf(settings.url, URL_BYTES, "%s%ctimeout=%dms", url, strchr(url, '?') != NULL ? '&' : '?',
           DEADLINE_US / 1000);
  if (weir_stack_parse(settings.rule_text, PROCESSES, &stack, &message) != WEIR_OK)
    give_up("--rule: %s", message.text);
  settings.rule = stack.rules[0];
}

/* The bound must hold in every attempt. Too few may be admitted because a busy machine let nobody
 * ask: that is measured again. */
int main(int count, char **arguments) {
  enum { ATTEMPTS = 3 };
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  share_barrier(&common->begin, PROCESSES * THREADS + 1);
  bool has_swap = strncmp(settings.url, "redis", 5) != 0;
  int found = 0;
  for (int attempt = 0; attempt < ATTEMPTS && found == 0; attempt++) {
    common->asked = common->leased = common->last_us = 0;
    for (int status = 0; status < WEIR_STATUS_COUNT; status++)
      common->statuses[status] = 0;
    run(attempt);
    found = report(has_swap);
  }
  return found == 1 ? 0 : 1;
}

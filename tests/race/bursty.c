/* bursty --store URL --rule RULE --lease DURATION [--idle MS] [--seconds N]
 *
 * 20 processes that are busy for 0.2 s and then idle, one after another, ask for one key far more
 * than it has. A process that goes idle keeps what it has charged ahead, which nobody else can use.
 * So the rule is run without and with lease=DURATION, N seconds each, and checked:
 *
 *   never more than the bound: in any W of decision stamps
 *   with leases at least 99 % of what is admitted without
 *
 * The rule is a window. URL may be the name of an environment variable. Exit code 0 only if both
 * hold. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weir/weir.h>

#include "faults/bound.h"
#include "faults/ground.h"

enum {
  PROCESSES = 20,
  THREADS = 4, /* of each process */
  BUSY_US = 200000,
  ADMISSIONS_MOST = 1 << 21,
  CLOCK_ERROR_US = 1000, /* it is one machine */
  DEADLINE_US = 60000,
  OPEN_US = 1000000, /* for all processes to open the store */
  DENIED_PAUSE_US = 200,
  ATTEMPTS = 3,
  URL_BYTES = 512,
  RULE_BYTES = 128,
  KEY_BYTES = 64,
  LONG_US = 120 * 1000 * 1000
};

/* All processes share this. */
typedef struct shared {
  char key[KEY_BYTES];
  char rule_text[RULE_BYTES];
  int64_t begin_us, end_us;
  _Atomic size_t used;
  _Atomic int64_t asked, local;
  admission admissions[ADMISSIONS_MOST];
} shared;

static shared *common;
static struct {
  char url[URL_BYTES];
  const char *rule_text, *lease;
  int64_t idle_us, run_us;
} settings = {.idle_us = 5 * SECOND_US, .run_us = 16 * SECOND_US};

/* --- a child ------------------------------------------------------------------------------------
 */

typedef struct work {
  weir_limiter *limiter;
  int64_t first_us; /* when this process is busy for the first time */
} work;

static void ask(weir_limiter *limiter) {
  weir_decision decision = {0};
  weir_status status =
      weir_limiter_take(limiter, common->key, strlen(common->key), 1, &decision, NULL);
  atomic_fetch_add(&common->asked, 1);
  if (status != WEIR_OK || !decision.allowed) {
    sleep_us(DENIED_PAUSE_US);
    return;
  }
  size_t place = atomic_fetch_add(&common->used, 1);
  if (place < ADMISSIONS_MOST) common->admissions[place] = (admission){decision.at_us, 1};
  if (decision.source == WEIR_SOURCE_LOCAL) atomic_fetch_add(&common->local, 1);
}

static void *be_busy_and_idle(void *context) {
  const work *own = context;
  int64_t cycle_us = BUSY_US + settings.idle_us;
  for (int64_t begin_us = own->first_us; begin_us < common->end_us; begin_us += cycle_us) {
    int64_t end_us = begin_us + BUSY_US < common->end_us ? begin_us + BUSY_US : common->end_us;
    sleep_us(begin_us - real_time_us());
    while (real_time_us() < end_us)
      ask(own->limiter);
  }
  return NULL;
}

static void run_child(void *context) {
  weir_message message = {""};
  weir_store *store;
  weir_decision decision;
  const int *number = context;
  work own = {.first_us = common->begin_us + *number * (BUSY_US + settings.idle_us) / PROCESSES};
  weir_limiter_options options = {.size = sizeof options,
                                  .deadline_us = DEADLINE_US,
                                  .clock_error_us = CLOCK_ERROR_US,
                                  .processes = PROCESSES,
                                  .fallback = WEIR_FALLBACK_NONE};
  pthread_t threads[THREADS];
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, common->rule_text, &options, &own.limiter, &message) != WEIR_OK)
    give_up("%s", message.text);
  weir_limiter_peek(own.limiter, "warm", 4, 1, &decision, NULL); /* connects */
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, be_busy_and_idle, &own) != 0) give_up("no thread left");
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  weir_limiter_destroy(own.limiter);
  weir_store_close(store);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

/* The sum of all admissions; -1: more than the rule allows. */
static int64_t report(void) {
  weir_message message = {""};
  weir_stack stack;
  size_t count = common->used;
  if (count == 0 || count > ADMISSIONS_MOST) give_up("%zu admissions cannot be noted", count);
  if (weir_stack_parse(common->rule_text, PROCESSES, &stack, &message) != WEIR_OK)
    give_up("--rule: %s", message.text);
  promise rule = promise_of(&stack.rules[0], 1, 0, 0);
  worst found = find_worst(&rule, common->admissions, count, NULL, 0);
  printf("%s on %s: %zu admitted of %" PRId64 " asked, %" PRId64
         " without the store; worst interval %" PRId64 " of %" PRId64 "\n",
         common->rule_text, settings.url, count, common->asked, common->local, found.admitted,
         found.bound);
  return found.excess > 0 ? -1 : (int64_t)count;
}

static int64_t run(const char *option, const char *lease) {
  static int runs;
  pid_t processes[PROCESSES];
  int numbers[PROCESSES];
  snprintf(common->rule_text, RULE_BYTES, "%s%s%s", settings.rule_text, option, lease);
  snprintf(common->key, KEY_BYTES, "bursty-%ld-%d", (long)getpid(), runs++);
  common->used = 0;
  common->asked = common->local = 0;
  common->begin_us = real_time_us() + OPEN_US;
  common->end_us = common->begin_us + settings.run_us;
  for (int i = 0; i < PROCESSES; i++) {
    numbers[i] = i;
    processes[i] = start_process(run_child, &numbers[i]);
  }
  for (int i = 0; i < PROCESSES; i++)
    if (!await_process(processes[i], LONG_US)) give_up("a process ended early");
  return report();
}

static void read_arguments(int count, char **arguments) {
  const char *url = NULL;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0) url = arguments[i + 1];
    if (strcmp(arguments[i], "--rule") == 0) settings.rule_text = arguments[i + 1];
    if (strcmp(arguments[i], "--lease") == 0) settings.lease = arguments[i + 1];
    if (strcmp(arguments[i], "--idle") == 0)
      settings.idle_us = (int64_t)strtol(arguments[i + 1], NULL, 10) * MS_US;
    if (strcmp(arguments[i], "--seconds") == 0)
      settings.run_us = (int64_t)strtol(arguments[i + 1], NULL, 10) * SECOND_US;
  }
  if (url != NULL && getenv(url) != NULL) url = getenv(url);
  if (url == NULL || settings.rule_text == NULL || settings.lease == NULL || count % 2 == 0 ||
      settings.run_us < SECOND_US || settings.idle_us < 0)
    give_up("usage: bursty --store URL --rule RULE --lease DURATION [--idle MS] [--seconds N]");
  snprintf(settings.url, URL_BYTES, "%s%ctimeout=%dms", url, strchr(url, '?') != NULL ? '&' : '?',
           DEADLINE_US / 1000);
}

/* The bound must hold in every attempt. How much is admitted depends on what else the machine does:
 * that is measured again. */
int main(int count, char **arguments) {
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    int64_t without = run("", "");
    int64_t with = run(",lease=", settings.lease);
    if (without < 0 || with < 0) return 1;
    if (common->local == 0) give_up("nobody had a lease");
    printf("%.2f %% of what is admitted without\n", 100.0 * (double)with / (double)without);
    if (with * 100 >= without * 99) return 0;
  }
  return 1;
}

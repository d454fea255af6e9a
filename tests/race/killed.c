/* killed --store URL --rule RULE [--seconds N]
 *
 * Processes are killed at random while they use and renew their leases, and others take their
 * places. Two things are checked:
 *
 *   never more than the bound: in any W of decision stamps, by those who live and those who died
 *   what died with a lease is a loss for one window: when nobody is killed any more, from a window
 *   later on at least 95 % of what was admitted before anybody was
 *
 * For N seconds each nobody is killed, then one process every few milliseconds, then nobody. The
 * rule is a window. URL may be the name of an environment variable. Exit code 0 only if both hold.
 */
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

#include "faults/bound.h"
#include "faults/ground.h"

enum {
  PROCESSES = 8,
  THREADS = 2, /* of each process */
  ADMISSIONS_MOST = 1 << 20,
  CLOCK_ERROR_US = 1000, /* it is one machine */
  DEADLINE_US = 60000,
  PROCESS_LIVES_US = 120000, /* on the average, while they are killed */
  DENIED_PAUSE_US = 500,
  ATTEMPTS = 3,
  URL_BYTES = 512,
  KEY_BYTES = 64
};

/* All processes share this. A process that is killed between the two steps of noting leaves an
 * empty note. */
typedef struct shared {
  char key[KEY_BYTES];
  _Atomic size_t used;
  _Atomic int64_t leased; /* admissions that asked no store */
  admission admissions[ADMISSIONS_MOST];
} shared;

static shared *common;
static struct {
  char url[URL_BYTES];
  const char *rule_text;
  weir_rule rule;
  int64_t phase_us;
} settings = {.phase_us = SECOND_US};

/* --- a child ------------------------------------------------------------------------------------
 */

static void *hammer(void *limiter) {
  for (;;) {
    weir_decision decision = {0};
    weir_status status =
        weir_limiter_take(limiter, common->key, strlen(common->key), 1, &decision, NULL);
    if (status != WEIR_OK || !decision.allowed) {
      sleep_us(DENIED_PAUSE_US);
      continue;
    }
    size_t place = atomic_fetch_add(&common->used, 1);
    if (place < ADMISSIONS_MOST) common->admissions[place] = (admission){decision.at_us, 1};
    if (decision.source == WEIR_SOURCE_LOCAL) atomic_fetch_add(&common->leased, 1);
  }
  return NULL;
}

static void run_child(void *context) {
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiter;
  weir_limiter_options options = {.size = sizeof options,
                                  .deadline_us = DEADLINE_US,
                                  .clock_error_us = CLOCK_ERROR_US,
                                  .processes = PROCESSES,
                                  .fallback = WEIR_FALLBACK_NONE};
  pthread_t thread;
  (void)context;
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK ||
      weir_limiter_create(store, settings.rule_text, &options, &limiter, &message) != WEIR_OK)
    give_up("%s", message.text);
  for (int i = 1; i < THREADS; i++)
    if (pthread_create(&thread, NULL, hammer, limiter) != 0) give_up("no thread left");
  hammer(limiter);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

/* Returns how many were killed. */
static int kill_now_and_then(pid_t processes[PROCESSES], int64_t until_us, uint64_t *random) {
  int killed = 0;
  for (; real_time_us() < until_us; killed++) {
    pid_t *victim = &processes[next_number(random) % PROCESSES];
    sleep_us((int64_t)(next_number(random) % (2 * PROCESS_LIVES_US / PROCESSES)));
    end_process(*victim);
    *victim = start_process(run_child, NULL);
  }
  return killed;
}

static int64_t admitted_between(size_t count, int64_t from_us, int64_t to_us) {
  int64_t admitted = 0;
  for (size_t i = 0; i < count; i++) {
    const admission *each = &common->admissions[i];
    if (each->at_us >= from_us && each->at_us < to_us) admitted += each->cost;
  }
  return admitted;
}

/* A note that a kill left half written is not an admission. */
static size_t drop_empty_notes(size_t count) {
  size_t left = 0;
  for (size_t i = 0; i < count; i++)
    if (common->admissions[i].cost > 0) common->admissions[left++] = common->admissions[i];
  return left;
}

typedef enum verdict { VERDICT_GOOD, VERDICT_TOO_FEW, VERDICT_WRONG } verdict;

static verdict report(int killed, const int64_t phases_us[6]) {
  promise rule = promise_of(&settings.rule, 1, 0, 0);
  size_t count = common->used;
  if (count == 0 || count > ADMISSIONS_MOST) give_up("%zu admissions cannot be noted", count);
  count = drop_empty_notes(count);
  int64_t before = admitted_between(count, phases_us[0], phases_us[1]);
  int64_t during = admitted_between(count, phases_us[2], phases_us[3]);
  int64_t after = admitted_between(count, phases_us[4], phases_us[5]);
  worst found = find_worst(&rule, common->admissions, count, NULL, 0);
  printf("%s on %s: %d killed; %" PRId64 " admitted before, %" PRId64 " meanwhile, %" PRId64
         " after; worst interval %" PRId64 " of %" PRId64 "; %" PRId64 " without the store\n",
         settings.rule_text, settings.url, killed, before, during, after, found.admitted,
         found.bound, common->leased);
  if (found.excess > 0) return VERDICT_WRONG;
  if (common->leased == 0) give_up("nobody had a lease to die with");
  return after * 100 >= before * 95 ? VERDICT_GOOD : VERDICT_TOO_FEW;
}

static verdict run(int number) {
  pid_t processes[PROCESSES];
  uint64_t random = (uint64_t)number + 1;
  int64_t period_us = settings.rule.period_us;
  common->used = 0;
  common->leased = 0;
  memset(common->admissions, 0, sizeof common->admissions);
  snprintf(common->key, KEY_BYTES, "killed-%ld-%d", (long)getpid(), number);
  for (int i = 0; i < PROCESSES; i++)
    processes[i] = start_process(run_child, NULL);
  /* The first window is full at once; what was lost counts for one window. */
  int64_t calm_us = real_time_us() + 2 * period_us;
  int64_t kill_us = calm_us + settings.phase_us;
  int64_t end_us = kill_us + settings.phase_us;
  sleep_us(kill_us - real_time_us());
  int killed = kill_now_and_then(processes, end_us, &random);
  end_us = real_time_us();
  int64_t calm_again_us = end_us + 2 * period_us;
  sleep_us(calm_again_us + settings.phase_us - real_time_us());
  for (int i = 0; i < PROCESSES; i++)
    end_process(processes[i]);
  return report(killed, (const int64_t[]){calm_us, kill_us, kill_us, end_us, calm_again_us,
                                          calm_again_us + settings.phase_us});
}

static void read_arguments(int count, char **arguments) {
  weir_message message = {""};
  weir_stack stack;
  const char *url = NULL;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0) url = arguments[i + 1];
    if (strcmp(arguments[i], "--rule") == 0) settings.rule_text = arguments[i + 1];
    if (strcmp(arguments[i], "--seconds") == 0)
      settings.phase_us = (int64_t)strtol(arguments[i + 1], NULL, 10) * SECOND_US;
  }
  if (url != NULL && getenv(url) != NULL) url = getenv(url);
  if (url == NULL || settings.rule_text == NULL || settings.phase_us < SECOND_US || count % 2 == 0)
    give_up("usage: killed --store URL --rule RULE [--seconds N]");
  snprintf(settings.url, URL_BYTES, "%s%ctimeout=%dms", url, strchr(url, '?') != NULL ? '&' : '?',
           DEADLINE_US / 1000);
  if (weir_stack_parse(settings.rule_text, PROCESSES, &stack, &message) != WEIR_OK)
    give_up("--rule: %s", message.text);
  settings.rule = stack.rules[0];
}

/* The bound must hold in every attempt. Too few may be admitted because a busy machine let nobody
 * ask: that is measured again. */
int main(int count, char **arguments) {
  verdict found = VERDICT_TOO_FEW;
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  for (int attempt = 0; attempt < ATTEMPTS && found == VERDICT_TOO_FEW; attempt++)
    found = run(attempt);
  return found == VERDICT_GOOD ? 0 : 1;
}

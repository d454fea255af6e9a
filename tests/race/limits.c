/* limits --store URL [--changes N] [--rule N] [--seed N]
 *
 * Six processes, whose clocks differ by what clocks may, ask for one key as fast as they can while its limit
 * becomes ten times as large, or a tenth of it, and what they have charged ahead is held. In turns:
 *
 *   by text      each process has two limiters of one name, and goes over to the other at a moment of its own
 *   by record    one process sets the limit of the key again and again, and at times blocks it; in every other
 *                turn the others ask less, so that they hold something when it does
 *
 * Two things are checked, by the stamps of decisions and by the clock that all of them see:
 *
 *   never more than the larger limit allows, in any interval
 *   no request is admitted that came T or more after its key was blocked
 *
 * Every algorithm, N changes of each. Each change has a key of its own. URL may be the name of an environment
 * variable. Exit code 1: something was over, or no lot was ever used. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

#include "faults/bound.h"
#include "faults/ground.h"

enum {
  PROCESSES = 6,
  SMALL = 60,
  LARGE = 600,
  CLOCK_ERROR_US = 10000,
  DEADLINE_US = 60000,
  AGE_US = 4000, /* T: a lot would last for longer */
  SET_US = 20000,
  READ_US = 2000, /* that two readings of a clock may be apart, which say the same to weir */
  CHANGE_US = 500000,
  OPEN_US = 200000,
  DENIED_PAUSE_US = 100,
  QUIET_PAUSE_US = 8000,
  ADMISSIONS_MOST = 1 << 18,
  CHANGES_MOST = 10000,
  RULE_BYTES = 128,
  KEY_BYTES = 64,
  LONG_US = 120 * 1000 * 1000
};

/* A bucket leases one part in 256 at the most: so it has a larger one. */
static const struct {
  const char *text; /* of limit, and queue */
  int times;        /* SMALL or LARGE */
  bool leases;
  int64_t cost_most;
} rules[] = {{"fixed-window:%d/400ms,name=f,most=600,lease=100ms", 1, true, 3},
             {"sliding-window:%d/400ms,cells=4,name=s,most=600,lease=100ms", 1, true, 3},
             {"sliding-window:%d/400ms,cells=4,strict,name=t,most=600,lease=100ms", 1, true, 3},
             {"quota:%d/400ms,name=q,most=600,lease=100ms", 1, true, 3},
             {"token-bucket:%d/400ms,name=b,most=12000,lease=100ms", 20, true, 3},
             {"leaky-bucket:%d/400ms,queue=%d,name=y,most=600", 1, false, 3},
             {"sliding-log:%d/400ms,name=l,most=600", 1, false, 1}};
enum { RULES = sizeof rules / sizeof rules[0] };

static struct {
  const char *url;
  long changes;
  size_t rule;
  uint64_t seed;
} settings = {.changes = 30, .rule = RULES, .seed = 1};

/* All processes share this. */
typedef struct shared {
  pthread_barrier_t turn;
  char key[KEY_BYTES];
  size_t rule;
  bool by_record, grows;

  /* After what was admitted: so lots last, and are there when the key is blocked. */
  int64_t pause_us;
  int64_t begin_us, end_us;
  _Atomic int64_t blocked_us; /* since when the key is; 0: perhaps it is not */
  _Atomic int64_t late;       /* admitted although it was */
  _Atomic int64_t local, blocks;
  _Atomic size_t used;
  admission admissions[ADMISSIONS_MOST];
} shared;

static shared *common;

static void write_rule(size_t rule, int limit, char text[RULE_BYTES]) {
  char format[RULE_BYTES];
  limit *= rules[rule].times;
  snprintf(format, sizeof format, "%s", rules[rule].text);
  snprintf(text, RULE_BYTES, format, limit, limit - 1);
}

/* --- a process ----------------------------------------------------------------------------------
 */

typedef struct asker {
  int64_t off_us; /* its clock */
  uint64_t random;
  bool sets;
  weir_store *store;
  weir_limiter *old, *new;
} asker;

static int64_t now_by(void *context) {
  const asker *own = context;
  return real_time_us() + own->off_us;
}

static weir_limiter *create(asker *own, int limit, int64_t limits_us) {
  char text[RULE_BYTES];
  weir_message message = {""};
  weir_limiter *limiter;
  weir_limiter_options options = {.size = sizeof options,
                                  .clock = {now_by, own},
                                  .deadline_us = DEADLINE_US,
                                  .clock_error_us = CLOCK_ERROR_US,
                                  .processes = PROCESSES,
                                  .limits_us = limits_us,
                                  .fallback = WEIR_FALLBACK_NONE};
  write_rule(common->rule, limit, text);
  if (weir_limiter_create(own->store, text, &options, &limiter, &message) != WEIR_OK)
    give_up("%s: %s", text, message.text);
  return limiter;
}

static void ask(asker *own, weir_limiter *limiter) {
  weir_decision decision = {0};
  int64_t cost = 1 + (int64_t)(next_number(&own->random) % (uint64_t)rules[common->rule].cost_most);
  int64_t blocked_us = atomic_load(&common->blocked_us), from_us = real_time_us();
  weir_status status =
      weir_limiter_take(limiter, common->key, strlen(common->key), cost, &decision, NULL);
  if (status != WEIR_OK || !decision.allowed) {
    sleep_us(DENIED_PAUSE_US);
    return;
  }
  size_t place = atomic_fetch_add(&common->used, 1);
  if (place < ADMISSIONS_MOST)
    common->admissions[place] = (admission){decision.at_us + decision.delay_us, cost};
  if (decision.source == WEIR_SOURCE_LOCAL) atomic_fetch_add(&common->local, 1);
  bool late = blocked_us > 0 && from_us >= blocked_us + AGE_US + READ_US;
  if (late && atomic_load(&common->blocked_us) == blocked_us) atomic_fetch_add(&common->late, 1);
  if (common->pause_us > 0) sleep_us(common->pause_us);
}

static void set(asker *own, unsigned kind, int64_t limit) {
  weir_limit one = {.key = common->key,
                    .key_length = strlen(common->key),
                    .kind = kind,
                    .limit = kind == WEIR_KEY_LIMIT_NUMBER ? limit * rules[common->rule].times : 0};
  atomic_store(&common->blocked_us, 0);
  if (weir_limiter_set_limits(own->new, &one, 1, NULL) != WEIR_OK || kind != WEIR_KEY_LIMIT_BLOCKED)
    return;
  atomic_store(&common->blocked_us, real_time_us());
  atomic_fetch_add(&common->blocks, 1);
}

/* By a limiter that reads none, as another program would. */
static void keep_setting(asker *own) {
  bool large = common->grows;
  while (real_time_us() < common->end_us) {
    bool blocks = next_number(&own->random) % 3 == 0;
    set(own, blocks ? WEIR_KEY_LIMIT_BLOCKED : WEIR_KEY_LIMIT_NUMBER, large ? LARGE : SMALL);
    large = blocks ? large : !large;
    sleep_us(SET_US + (int64_t)(next_number(&own->random) % (3 * SET_US)));
  }
}

static void keep_asking(asker *own, int64_t change_us) {
  int64_t now_us;
  while ((now_us = real_time_us()) < common->end_us)
    ask(own, common->by_record || now_us < change_us ? own->old : own->new);
}

/* The old limiter keeps what it holds, or gives it back, by chance. */
static void change_once(asker *own) {
  int64_t change_us = common->begin_us + (int64_t)(next_number(&own->random) % (uint64_t)CHANGE_US);
  int first = common->grows ? SMALL : LARGE;
  own->old = create(own, common->by_record ? SMALL : first, common->by_record ? AGE_US : 0);
  own->new = create(own, SMALL + LARGE - first, 0);
  sleep_us(common->begin_us - real_time_us());
  if (own->sets && common->by_record)
    keep_setting(own);
  else
    keep_asking(own, change_us);
  weir_limiter_destroy(own->old);
  weir_limiter_destroy(own->new);
}

static void run_process(void *context) {
  asker *own = context;
  weir_message message = {""};
  if (weir_store_open(settings.url, &own->store, &message) != WEIR_OK ||
      weir_store_connect(own->store, 10 * SECOND_US, &message) != WEIR_OK)
    give_up("%s: %s", settings.url, message.text);
  for (;;) {
    pthread_barrier_wait(&common->turn);
    if (common->begin_us == 0) break;
    change_once(own);
    pthread_barrier_wait(&common->turn);
  }
  weir_store_close(own->store);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

typedef struct totals {
  int over;
  int64_t most, bound, late, local, blocks;
} totals;

/* What a bucket on a store that raises is charged in vain, others may be admitted on top. */
static promise promise_of_larger(size_t rule) {
  char text[RULE_BYTES];
  weir_message message = {""};
  weir_stack stack;
  write_rule(rule, LARGE, text);
  if (weir_stack_parse(text, PROCESSES, &stack, &message) != WEIR_OK) give_up("%s", message.text);
  const weir_rule *larger = &stack.rules[0];
  bool bucket = weir_rule_moves_in_time(larger);
  promise given = promise_of(larger, 1, bucket ? PROCESSES * rules[rule].cost_most : 0, 0);
  if (larger->kind == WEIR_QUOTA) given.most *= 2; /* any interval may meet two */
  return given;
}

static void change(size_t rule, long number, totals *sum) {
  common->rule = rule;
  common->by_record = ((size_t)number + rule) % 2 != 0;
  common->grows = ((size_t)number + rule) / 2 % 2 != 0;
  common->pause_us = common->by_record && number / 2 % 2 == 0 ? QUIET_PAUSE_US : 0;
  common->used = 0;
  common->blocked_us = common->late = common->local = common->blocks = 0;
  snprintf(common->key, KEY_BYTES, "limits-%" PRIu64 "-%zu-%ld-%" PRId64, settings.seed, rule,
           number, real_time_us());
  common->begin_us = real_time_us() + OPEN_US;
  common->end_us = common->begin_us + CHANGE_US;
  pthread_barrier_wait(&common->turn);
  pthread_barrier_wait(&common->turn);
  if (common->used > ADMISSIONS_MOST) give_up("too many admissions");
  promise given = promise_of_larger(rule);
  worst found = find_worst(&given, common->admissions, common->used, NULL, 0);
  sum->over += found.excess > 0;
  if (found.admitted > sum->most) sum->most = found.admitted;
  sum->bound = given.most;
  sum->late += common->late;
  sum->local += common->local;
  sum->blocks += common->blocks;
}

static bool run_rule(size_t rule, int64_t *by_lots) {
  totals sum = {0};
  for (long number = 0; number < settings.changes; number++)
    change(rule, number, &sum);
  printf("%s: %ld changes, %d over, at most %" PRId64 " in an interval (%" PRId64
         " and what flows in); %" PRId64 " by lots; blocked %" PRId64 " times, %" PRId64
         " admitted after that\n",
         rules[rule].text, settings.changes, sum.over, sum.most, sum.bound, sum.local, sum.blocks,
         sum.late);
  fflush(stdout);
  *by_lots += sum.local;
  return sum.over == 0 && sum.late == 0;
}

static void read_arguments(int count, char **arguments) {
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0)
      settings.url = arguments[i + 1];
    else if (strcmp(arguments[i], "--changes") == 0)
      settings.changes = strtol(arguments[i + 1], NULL, 10);
    else if (strcmp(arguments[i], "--rule") == 0)
      settings.rule = (size_t)strtol(arguments[i + 1], NULL, 10);
    else if (strcmp(arguments[i], "--seed") == 0)
      settings.seed = strtoull(arguments[i + 1], NULL, 10);
    else
      give_up("no such option: %s", arguments[i]);
  }
  if (settings.url != NULL && getenv(settings.url) != NULL) settings.url = getenv(settings.url);
  if (settings.url == NULL || settings.changes < 1 || settings.changes > CHANGES_MOST)
    give_up("usage: limits --store URL [--changes 1 to %d] [--rule 0 to %d] [--seed N]",
            CHANGES_MOST, RULES - 1);
}

int main(int count, char **arguments) {
  bool good = true, leases = false;
  int64_t by_lots = 0; /* of all rules: a slow process may begin no lot within one change */
  pid_t pids[PROCESSES];
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  asker *askers = share_memory(PROCESSES * sizeof *askers);
  uint64_t random = settings.seed * UINT64_C(0x9e3779b97f4a7c15);
  share_barrier(&common->turn, PROCESSES + 1);
  for (int i = 0; i < PROCESSES; i++) {
    int64_t off_us = (int64_t)(next_number(&random) % (2 * CLOCK_ERROR_US)) - CLOCK_ERROR_US;
    askers[i] = (asker){.off_us = off_us, .random = next_number(&random), .sets = i == 0};
    pids[i] = start_process(run_process, &askers[i]);
  }
  for (size_t rule = 0; rule < RULES; rule++)
    if (settings.rule >= RULES || settings.rule == rule) {
      good = run_rule(rule, &by_lots) && good;
      leases = leases || rules[rule].leases;
    }
  common->begin_us = 0;
  pthread_barrier_wait(&common->turn);
  for (int i = 0; i < PROCESSES; i++)
    if (!await_process(pids[i], LONG_US)) give_up("a process ended early");
  if (leases && by_lots == 0) printf("no rule admitted anything by a lot\n");
  return good && (!leases || by_lots > 0) ? 0 : 1;
}

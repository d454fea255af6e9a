/* edge_race --store URL --rule RULE [--rounds N]
 *
 * 32 threads in 4 processes hammer one key across a window's edge, the window before it full, and
 * two things are checked over all rounds:
 *
 *   never more than the bound of each rule: in any W of decision stamps, or of a fixed window in
 *   any window
 *   98 % of what is allowed: against a serial limiter that is asked without pause
 *
 * RULE may be several logs, "sliding-log:20/50ms;sliding-log:60/400ms", the longest last, and fixed
 * windows in front of them; other windows come alone. A request that a log denies by its own charge
 * stays counted, so of a log half is enough.
 *
 * Each round has a key of its own. It begins somewhat before an edge, where one caller uses up the
 * limit at once, and ends somewhat more than a window after it. URL may be the name of an
 * environment variable. Exit code 0 only if both hold.
 *
 * A machine that is too busy may leave what is allowed to nobody: then all is done again with a
 * period twice as long. With lease= somebody must have been admitted without the store. The stamp
 * of an admitted decision must lie within its call, and agree with reset_after_us, which tells its
 * place within a cell. */
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
#include "fixture/clock.h"
#include "rule/rule.h"

enum {
  PROCESSES = 4,
  THREADS = 8, /* of each process */
  STAMPS_MOST = 65536,
  ATTEMPTS = 5,          /* each with twice the period and the deadline of the one before it */
  ROUNDS_LEAST = 5,      /* where longer rounds are fewer */
  CLOCK_ERROR_US = 1000, /* it is one machine */
  DEADLINE_US = 80000,   /* with W of 400 ms and 4 cells: 2 * clock error + deadline < W/4 */
  SERIAL_US = 60000000,  /* deadline of the limiter that is asked by one caller */
  FILL_US = 5000,        /* for the one that fills the window */
  DENIED_PAUSE_US = 1000,
  KEY_BYTES = 64,
  RULE_BYTES = 128,
  URL_BYTES = 512
};

/* Parent and children share this. */
typedef struct shared {
  pthread_barrier_t turn; /* all threads and the parent: before and after each round */
  int attempt;
  int64_t begin_us, end_us;
  char key[KEY_BYTES];
  atomic_bool over;
  atomic_bool filled;
  _Atomic size_t used;
  int64_t stamps[STAMPS_MOST];
  _Atomic int64_t asked;
  _Atomic int64_t statuses[WEIR_STATUS_COUNT];
  _Atomic int64_t leased;     /* admitted without the store */
  _Atomic int64_t odd_stamps; /* not within their call, or not where the figures say */
} shared;

static shared *common;
static struct {
  char url[URL_BYTES];
  char rule_texts[ATTEMPTS][RULE_BYTES];
  weir_stack stacks[ATTEMPTS];
  int rounds;
} settings = {.rounds = 50};

static weir_limiter *limiters[ATTEMPTS]; /* of this process */

static const weir_stack *stack_now(void) {
  return &settings.stacks[common->attempt];
}

/* Rounds are made for the last rule. */
static const weir_rule *rule_now(void) {
  return &stack_now()->rules[stack_now()->count - 1];
}

static weir_limiter_options options_of_all(int64_t deadline_us) {
  return (weir_limiter_options){.size = sizeof(weir_limiter_options),
                                .deadline_us = deadline_us,
                                .clock_error_us = CLOCK_ERROR_US,
                                .processes = PROCESSES,
                                .fallback = WEIR_FALLBACK_NONE};
}

/* --- a child ------------------------------------------------------------------------------------
 */

/* Whether the figures were made for that moment, as far as they tell. */
static bool tells_moment(const weir_decision *decision, int64_t at_us) {
  const weir_rule *rule = rule_now();
  if (rule->kind == WEIR_SLIDING_LOG) return true;
  if (rule->lease_us > 0 && decision->reset_after_us == WEIR_NOT_KNOWN) return true;
  int64_t end_us = at_us + decision->reset_after_us;
  if (rule->kind == WEIR_SLIDING_WINDOW) end_us -= rule->period_us - 1;
  return end_us % rule->cell_us == 0;
}

/* A cost is as many stamps. */
static void note_admitted(const weir_decision *decision, int64_t cost, int64_t before_us) {
  int64_t stamp_us = decision->at_us;
  size_t place = atomic_fetch_add(&common->used, (size_t)cost);
  if (stamp_us < before_us || stamp_us > real_time_us() || !tells_moment(decision, stamp_us))
    atomic_fetch_add(&common->odd_stamps, 1);
  for (size_t end = place + (size_t)cost; place < end && place < STAMPS_MOST; place++)
    common->stamps[place] = stamp_us;
}

static bool take(int64_t cost) {
  weir_decision decision = {0};
  int64_t before_us = real_time_us();
  weir_status status = weir_limiter_take(limiters[common->attempt], common->key,
                                         strlen(common->key), cost, &decision, NULL);
  atomic_fetch_add(&common->asked, 1);
  atomic_fetch_add(&common->statuses[status], 1);
  if (status != WEIR_OK || !decision.allowed) return false;
  if (decision.source == WEIR_SOURCE_LOCAL) atomic_fetch_add(&common->leased, 1);
  note_admitted(&decision, cost, before_us);
  return true;
}

/* As much as there is, at once; a log takes one by one. */
static void fill(void) {
  if (rule_now()->kind != WEIR_SLIDING_LOG) take(rule_now()->limit);
  while (rule_now()->kind == WEIR_SLIDING_LOG && take(1))
    continue;
}

/* Whoever comes first uses up the whole limit; then everybody asks for more. */
static void hammer(void) {
  bool fills = !atomic_exchange(&common->filled, true);
  sleep_us(common->begin_us - real_time_us());
  if (fills) fill();
  sleep_us(common->begin_us + FILL_US - real_time_us());
  while (real_time_us() < common->end_us)
    if (!take(1)) sleep_us(DENIED_PAUSE_US);
}

static void *run_thread(void *context) {
  (void)context;
  for (;;) {
    pthread_barrier_wait(&common->turn);
    if (common->over) return NULL;
    hammer();
    pthread_barrier_wait(&common->turn);
  }
}

static void run_child(void *context) {
  (void)context;
  weir_message message = {""};
  weir_store *store;
  pthread_t threads[THREADS];
  weir_decision decision;
  if (weir_store_open(settings.url, &store, &message) != WEIR_OK)
    give_up("%s: %s", settings.url, message.text);
  for (int i = 0; i < ATTEMPTS; i++) {
    weir_limiter_options options = options_of_all((int64_t)DEADLINE_US << i);
    if (weir_limiter_create(store, settings.rule_texts[i], &options, &limiters[i], &message) !=
        WEIR_OK)
      give_up("%s: %s", settings.rule_texts[i], message.text);
  }
  weir_limiter_peek(limiters[0], "warm", 4, 1, &decision, NULL); /* connects */
  for (size_t i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, run_thread, NULL) != 0) give_up("thread: none left");
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < ATTEMPTS; i++)
    weir_limiter_destroy(limiters[i]);
  weir_store_close(store);
}

/* --- the parent ---------------------------------------------------------------------------------
 */

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

static bool in_one_window(const weir_rule *rule, int64_t first_us, int64_t last_us) {
  if (rule->kind == WEIR_FIXED_WINDOW)
    return first_us / rule->period_us == last_us / rule->period_us;
  return last_us - first_us < rule->period_us;
}

static size_t most_in_a_window(const weir_rule *rule, size_t count) {
  size_t worst = 0;
  for (size_t first = 0, last = 0; last < count; last++) {
    while (!in_one_window(rule, common->stamps[first], common->stamps[last]))
      first++;
    if (last - first + 1 > worst) worst = last - first + 1;
  }
  return worst;
}

static int64_t bound_of(const weir_rule *rule) {
  bool estimated = rule->kind == WEIR_SLIDING_WINDOW && !rule->strict && rule->cells < 4;
  return estimated ? 2 * rule->limit : weir_rule_upper(rule);
}

/* The admissions of one caller that asks without pause from begin_us on, before end_us. */
static int64_t allowed_serially(int64_t begin_us, int64_t end_us) {
  hand_clock clock = {begin_us};
  weir_store *store;
  weir_limiter *limiter;
  weir_limiter_options options = options_of_all(SERIAL_US);
  int64_t admitted = 0;
  options.clock = hand_clock_as_clock(&clock);
  if (weir_store_open("memory:", &store, NULL) != WEIR_OK ||
      weir_limiter_create(store, settings.rule_texts[common->attempt], &options, &limiter, NULL) !=
          WEIR_OK)
    give_up("memory: cannot be opened");
  while (clock.now_us < end_us) {
    weir_decision decision;
    if (weir_limiter_take(limiter, "k", 1, 1, &decision, NULL) != WEIR_OK)
      give_up("memory: does not answer");
    admitted += decision.allowed;
    clock.now_us += decision.retry_after_us;
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return admitted;
}

typedef struct totals {
  size_t worst[WEIR_RULES_MOST];
  int64_t admitted, allowed;
} totals;

/* False when the round shows nothing: filling the window got no answer in time. */
static bool run_round(int number, totals *sum) {
  const weir_rule *rule = rule_now();
  static const int64_t before_edge[] = {1, 4, 9, 16}; /* 32nds of W: close to an edge, and not */
  int64_t before_edge_us = rule->period_us * before_edge[number % 4] / 32;
  int64_t soonest_us = real_time_us() + before_edge_us + 5000;
  int64_t edge_us = (soonest_us / rule->period_us + 1) * rule->period_us;
  common->begin_us = edge_us - before_edge_us;
  common->end_us =
      edge_us + rule->period_us + rule->period_us / 8; /* no edge: what an edge frees counts */
  common->used = 0;
  common->filled = false;
  snprintf(common->key, KEY_BYTES, "edge-%ld-%d", (long)getpid(), number);
  pthread_barrier_wait(&common->turn);
  pthread_barrier_wait(&common->turn);
  size_t count = common->used;
  if (count == 0) return false;
  if (count > STAMPS_MOST) give_up("a round: admitted more than there is room to note");
  qsort(common->stamps, count, sizeof common->stamps[0], compare);
  for (size_t i = 0; i < stack_now()->count; i++) {
    size_t worst = most_in_a_window(&stack_now()->rules[i], count);
    if (worst > sum->worst[i]) sum->worst[i] = worst;
  }
  sum->admitted += (int64_t)count;
  sum->allowed += allowed_serially(common->stamps[0], common->end_us);
  return true;
}

/* The bound must hold in every attempt. Too few may be admitted because a busy machine let nobody
 * ask: that is measured again. */
typedef enum verdict { VERDICT_GOOD, VERDICT_TOO_FEW, VERDICT_WRONG } verdict;

static int rounds_of(int attempt) {
  int fewer = settings.rounds >> attempt;
  return attempt == 0 || fewer >= ROUNDS_LEAST ? fewer : ROUNDS_LEAST;
}

static bool exceeds_a_bound(const totals *sum) {
  for (size_t i = 0; i < stack_now()->count; i++)
    if ((int64_t)sum->worst[i] > bound_of(&stack_now()->rules[i])) return true;
  return false;
}

static verdict report(const totals *sum, int rounds) {
  const weir_rule *rule = rule_now();
  double least = rule->kind == WEIR_SLIDING_LOG ? 50.0 : 98.0;
  double share = 100.0 * (double)sum->admitted / (double)sum->allowed;
  printf("%s on %s: %d rounds", settings.rule_texts[common->attempt], settings.url, rounds);
  for (size_t i = 0; i < stack_now()->count; i++)
    printf(", at most %zu in a window, bound %" PRId64, sum->worst[i],
           bound_of(&stack_now()->rules[i]));
  printf("; %" PRId64 " admitted of %" PRId64 " allowed, %.2f %%; %" PRId64 " asked", sum->admitted,
         sum->allowed, share, common->asked);
  for (int status = WEIR_OK + 1; status < WEIR_STATUS_COUNT; status++)
    if (common->statuses[status] > 0)
      printf(", %" PRId64 " %s", common->statuses[status], weir_status_name((weir_status)status));
  if (rule->lease_us > 0) printf(", %" PRId64 " without the store", common->leased);
  if (common->odd_stamps > 0) printf(", %" PRId64 " odd stamps", common->odd_stamps);
  putchar('\n');
  if (exceeds_a_bound(sum) || common->odd_stamps > 0) return VERDICT_WRONG;
  if (rule->lease_us > 0 && common->leased == 0) return VERDICT_WRONG;
  return share >= least ? VERDICT_GOOD : VERDICT_TOO_FEW;
}

/* A child that ends before its time would leave the others waiting at the barrier. */
static void child_ended(int signal_number) {
  static const char text[] = "edge_race: a child ended early\n";
  (void)signal_number;
  if (!common->over && write(STDERR_FILENO, text, sizeof text - 1) >= 0) _exit(2);
}

static void parse_rule(const char *text, int attempt) {
  weir_message message = {""};
  snprintf(settings.rule_texts[attempt], RULE_BYTES, "%s", text);
  if (weir_stack_parse(text, PROCESSES, &settings.stacks[attempt], &message) != WEIR_OK)
    give_up("--rule: %s", message.text);
}

/* Copies the text with each period so many times as long: what stands between '/' and an option, or
 * the next rule. */
static void lengthen(const char *text, int64_t times, char longer[RULE_BYTES]) {
  size_t used = 0;
  for (const weir_rule *rule = settings.stacks[0].rules; *text != '\0'; rule++) {
    size_t before = strcspn(text, "/");
    size_t period = strcspn(text + before, ",;");
    size_t after = strcspn(text + before + period, ";");
    after += text[before + period + after] == ';';
    used +=
        (size_t)snprintf(longer + used, RULE_BYTES - used, "%.*s/%" PRId64 "ms%.*s", (int)before,
                         text, rule->period_us / 1000 * times, (int)after, text + before + period);
    text += before + period + after;
    if (used >= RULE_BYTES) give_up("--rule: too long");
  }
}

/* The rules as they stand, then with longer and longer periods. */
static void parse_rules(const char *text) {
  parse_rule(text, 0);
  for (int i = 1; i < ATTEMPTS; i++) {
    char longer[RULE_BYTES];
    lengthen(text, INT64_C(1) << i, longer);
    parse_rule(longer, i);
  }
}

static void read_arguments(int count, char **arguments) {
  const char *rule_text = NULL;
  const char *url = NULL;
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0) url = arguments[i + 1];
    if (strcmp(arguments[i], "--rule") == 0) rule_text = arguments[i + 1];
    if (strcmp(arguments[i], "--rounds") == 0)
      settings.rounds = (int)strtol(arguments[i + 1], NULL, 10);
  }
  if (url != NULL && getenv(url) != NULL) url = getenv(url);
  if (url == NULL || rule_text == NULL || settings.rounds < 1 || count % 2 == 0)
    give_up("usage: edge_race --store URL --rule RULE [--rounds N]");
  snprintf(settings.url, URL_BYTES, "%s%ctimeout=%dms", url, strchr(url, '?') != NULL ? '&' : '?',
           DEADLINE_US / 1000);
  parse_rules(rule_text);
}

int main(int count, char **arguments) {
  verdict found = VERDICT_TOO_FEW;
  int number = 0;
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  share_barrier(&common->turn, PROCESSES * THREADS + 1);
  signal(SIGCHLD, child_ended);
  for (int i = 0; i < PROCESSES; i++)
    start_process(run_child, NULL);
  for (int attempt = 0; attempt < ATTEMPTS && found == VERDICT_TOO_FEW; attempt++) {
    totals sum = {0};
    common->attempt = attempt;
    int rounds = rounds_of(attempt);
    for (int good = 0; good < rounds; number++) {
      good += run_round(number, &sum);
      if (number > 2 * ATTEMPTS * settings.rounds) give_up("rounds: most of them admitted nobody");
    }
    found = report(&sum, rounds);
  }
  common->over = true;
  pthread_barrier_wait(&common->turn);
  while (wait(NULL) > 0)
    continue;
  return found == VERDICT_GOOD ? 0 : 1;
}

/* meets --store memcached|redis [--rounds N] [--seed N] [--round N]
 *
 * Features that meet. Each round draws a rule, the options that it has (lease=, debt=, classes=, most= and limits
 * of keys, a second rule) and processes whose clocks, threads and flags differ. They ask for two keys by every
 * call there is, and give back, settle and cancel what they got. In turns:
 *
 *   short   windows and buckets of 400 ms, and at times two processes are killed half-way: never more than the
 *           bound of the largest limit in any interval, nor of a class than the bound of its part
 *   long    windows of an hour: when all have ended and given back what they hold, the store has neither more
 *           nor less than what was admitted and not given back
 *
 * In some long rounds the store is away for a while, and the processes answer for it: then what it has not got by
 * the end they know to be owed.
 *
 * The draw of a round depends on its number and the seed alone. Exit code 1: something was over, or lost. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

#include "faults/bound.h"
#include "faults/ground.h"
#include "fixture/proxy.h"

enum { PROCESSES = 6, LIMITERS = 2 * PROCESSES + 1, THREADS_MOST = 3, KEYS = 2, RULES = 2 };
enum { COST_MOST = 5, CALL_COST_MOST = KEYS * COST_MOST, MANY = 8 };
enum { CLOCK_ERROR_US = 10000, ROUND_US = 500000, CUT_ROUND_US = 2500000, CUT_MOST_US = 300000 };
enum { OPEN_US = 150000, PATIENCE_US = 60000000, FAILED_PAUSE_US = 1000 };
enum { ENTRIES_MOST = 1 << 18, TEXT_BYTES = 512, KEY_BYTES = 64, ROUNDS_MOST = 100000 };

/* What a round is made of. Limits are those of the first rule. */
typedef struct draw {
  bool is_long, strict, leases, owes, has_classes, has_most, has_second, has_places;
  bool sets_limits; /* of keys */
  bool says_limits; /* in requests */
  bool only_places;
  bool kills, is_cut; /* two processes; the way to the store, for a while */
  int kind;
  int64_t limits[2], most; /* without most= there is but the first */
  int64_t deadline_us, round_us;
  unsigned threads;
  unsigned calls; /* a bit for each of those that may be used */
} draw;

enum { FIXED, SLIDING, QUOTA, BUCKET, KINDS };
static const char *const kinds[] = {"fixed-window", "sliding-window", "quota", "token-bucket"};

typedef struct entry {
  int64_t at_us;
  int64_t cost;
  int key;
  bool low; /* of the lower class */
} entry;

/* Parent and children share this. */
typedef struct shared {
  draw of;
  char key[KEYS][KEY_BYTES];
  int64_t begin_us, end_us, base_us; /* clocks begin at base_us */
  _Atomic size_t used;
  _Atomic int64_t charged[KEYS], from_leases, leases_lost, leases_held, denied, unsure, settled,
      refused;
  _Atomic int64_t by_policy, back, paid, unknown;
  _Atomic int64_t left[KEYS], places_left[KEYS]; /* as the store has it when all is over */
  entry entries[ENTRIES_MOST];
} shared;

static shared *common;
static proxy *way; /* to the store */
static char url[SERVER_URL_BYTES];
static struct {
  const char *store;
  long rounds, only;
  uint64_t seed;
} settings = {.rounds = 10, .only = -1, .seed = 1};

static int64_t pick(uint64_t *random, int64_t least, int64_t most) {
  return least + (int64_t)(next_number(random) % (uint64_t)(most - least + 1));
}

static bool chance(uint64_t *random, int one_in) {
  return pick(random, 1, one_in) == 1;
}

/* --- the draw ------------------------------------------------------------------------------------- */

static int64_t part_of(int64_t limit) {
  return limit / 2;
}

static const char places[] = "in-flight:12/1m,name=places";
enum { PLACES = 12 };

/* Writes the rules with this limit. A bucket leases one part in 256 at the most: so it has a larger one. */
static void write_rules(const draw *of, int64_t limit, char text[TEXT_BYTES]) {
  char debt[KEY_BYTES] = "", most[KEY_BYTES] = "", second[2 * KEY_BYTES] = "";
  const char *strict = of->strict ? ",strict" : "", *leases = of->leases ? ",lease=100ms" : "";
  const char *classes = of->has_classes ? ",classes=low:50%" : "";
  if (of->owes) snprintf(debt, sizeof debt, ",debt=%" PRId64, limit / 5);
  if (of->has_most) snprintf(most, sizeof most, ",most=%" PRId64, of->most);
  if (of->has_places) snprintf(second, sizeof second, ";%s%s", places, classes);
  if (of->has_second)
    snprintf(second, sizeof second, ";fixed-window:1000000/1h,name=second%s%s", leases, classes);
  snprintf(text, TEXT_BYTES, "%s:%" PRId64 "/%s,name=meets%s%s%s%s%s%s", kinds[of->kind], limit,
           of->is_long ? "1h" : "400ms", strict, leases, classes, debt, most, second);
  if (of->only_places) snprintf(text, TEXT_BYTES, "%s", places);
}

enum { TAKE, UP_TO, TOGETHER, ALL, RESERVE, PEEK, WAIT, KNOWN, GIVE_UP_LEASES, CALLS };

static draw draw_round(uint64_t random) {
  draw of = {0};
  for (int i = 0; i < 8; i++)
    next_number(&random);
  of.is_long = chance(&random, 2);
  of.kind = (int)pick(&random, 0, of.is_long ? BUCKET - 1 : BUCKET);
  of.strict = of.kind == SLIDING && chance(&random, 2);
  of.leases = chance(&random, 2);
  of.owes = chance(&random, 3);
  of.has_classes = chance(&random, 2);
  of.has_most = chance(&random, 2);
  of.has_second = chance(&random, 4);
  of.sets_limits = of.has_most && chance(&random, 2);
  of.has_places = !of.has_second && !of.leases && chance(&random, 4);
  of.kills = !of.is_long && chance(&random, 3);
  of.says_limits = of.has_most && chance(&random, 2);
  int64_t times = of.kind == BUCKET ? 20 : of.is_long && !chance(&random, 3) ? 10 : 1;
  of.limits[0] = pick(&random, 40, chance(&random, 2) ? 200 : 3000) * times;
  of.limits[1] = of.has_most ? pick(&random, 40, 1500) * times : of.limits[0];
  of.most = of.has_most ? 4000 * times : of.limits[0];
  of.deadline_us = chance(&random, 3) ? 8000 : 60000;
  of.threads = (unsigned)pick(&random, 1, THREADS_MOST);
  of.is_cut = of.is_long && chance(&random, 3);
  if (of.is_cut) of.has_second = false;
  of.round_us = of.is_cut ? CUT_ROUND_US : ROUND_US;
  of.calls = (unsigned)next_number(&random) | 1U << TAKE;
  return of;
}

/* --- a process ------------------------------------------------------------------------------------ */

typedef struct asker {
  int64_t off_us; /* its clock */
  uint64_t random;
  unsigned number;
  weir_store *store;
  weir_limiter *limiters[2];
} asker;

typedef struct worker {
  asker *of;
  uint64_t random;
} worker;

static int64_t now_by(void *context) {
  const asker *own = context;
  return common->base_us + real_time_us() - common->begin_us + own->off_us;
}

static weir_limiter *create(asker *own, int64_t limit, bool reads_limits) {
  char text[TEXT_BYTES];
  weir_message message = {""};
  weir_limiter *limiter;
  bool caches = !chance(&own->random, 4), combines = !chance(&own->random, 4);
  weir_limiter_options options = {
      .size = sizeof options,
      .clock = {now_by, own},
      .deadline_us = common->of.deadline_us,
      .clock_error_us = CLOCK_ERROR_US,
      .processes = LIMITERS,
      .limits_us = reads_limits ? 4000 : 0,
      .flags = (caches ? 0 : WEIR_NO_CACHED_CELLS) | (combines ? 0 : WEIR_NO_COMBINING) |
               (chance(&own->random, 5) ? WEIR_NO_LEASES : 0),
      .fallback = common->of.is_cut ? WEIR_FALLBACK_LOCAL : WEIR_FALLBACK_NONE};
  write_rules(&common->of, limit, text);
  if (weir_limiter_create(own->store, text, &options, &limiter, &message) != WEIR_OK)
    give_up("%s: %s", text, message.text);
  return limiter;
}

static bool is_by_policy(weir_source source) {
  return source == WEIR_SOURCE_FALLBACK || source == WEIR_SOURCE_LATE;
}

/* An admission as it stands when nothing more becomes of it. `first` is what it was admitted for. */
static void enter(int key, const weir_decision *decision, int64_t first, int64_t charged,
                  bool low) {
  if (decision->source == WEIR_SOURCE_UNLIMITED) return;
  size_t place = atomic_fetch_add(&common->used, 1);
  if (place < ENTRIES_MOST)
    common->entries[place] =
        (entry){decision->at_us + decision->delay_us, charged < first ? charged : first, key, low};
  atomic_fetch_add(&common->charged[key], charged);
  if (is_by_policy(decision->source)) {
    atomic_fetch_add(&common->by_policy, charged);
    if (charged < first) atomic_fetch_add(&common->back, first - charged);
  } else if (common->of.is_cut && charged > first) { /* more than that may be owed, or paid since */
    atomic_fetch_add(&common->by_policy, charged - first);
  }
  if (decision->source == WEIR_SOURCE_LOCAL) atomic_fetch_add(&common->from_leases, 1);
}

/* A decision of a policy does not know whether the store has been charged. */
static void look(const weir_decision *decision, int64_t cost) {
  if (decision->store_status == WEIR_UNKNOWN_OUTCOME) atomic_fetch_add(&common->unknown, cost);
}

/* A call that did not do what it was asked for: what the store has of it is not known. */
static bool failed(weir_status status) {
  if (status == WEIR_OK) return false;
  if (status == WEIR_BAD_ARGUMENT || status == WEIR_BAD_COST) atomic_fetch_add(&common->refused, 1);
  atomic_fetch_add(&common->unsure, 1);
  sleep_us(FAILED_PAUSE_US);
  return true;
}

/* Gives back some of it, or says what it was in truth, by one of the ways there are. */
static void finish(worker *self, weir_limiter *limiter, int key, weir_decision taken,
                   const weir_extra *extra) {
  const char *name = common->key[key];
  size_t length = strlen(name);
  int64_t first = taken.cost;
  bool low = extra != NULL && extra->class_name != NULL, sure = true;
  weir_source source = taken.source;
  int64_t real = pick(&self->random, 0, 2 * first);
  int how = (int)pick(&self->random, 0, 5);
  if (how < 2) {
    sure = !failed(
        weir_limiter_refund(limiter, name, length, pick(&self->random, 1, first), &taken, NULL));
  } else if (how == 2) {
    sure = !failed(weir_limiter_settle(limiter, name, length, real, &taken, NULL));
  } else if (how == 3) {
    weir_request request = {.key = name,
                            .key_length = length,
                            .cost = real,
                            .flags = WEIR_REQUEST_SETTLE,
                            .decision = taken};
    sure = !failed(weir_decide_extra(&limiter, &request, &extra, 1, NULL));
    if (sure) taken = request.decision;
  }
  if (taken.source == WEIR_SOURCE_SETTLED) atomic_fetch_add(&common->settled, 1);
  taken.source = source;
  if (sure)
    enter(key, &taken, first, taken.cost, low);
  else if (is_by_policy(source))
    atomic_fetch_add(&common->back, first);
}

static void reserve(worker *self, weir_limiter *limiter, int key, weir_request *request,
                    const weir_extra *extra) {
  weir_reservation *held = NULL;
  if (failed(weir_reserve_extra(&limiter, request, &extra, 1, &held, NULL))) return;
  look(&request->decision, request->cost);
  if (held == NULL) return;
  weir_decision taken = request->decision;
  int64_t costs[RULES], real = pick(&self->random, 0, 2 * taken.cost);
  bool low = extra != NULL && extra->class_name != NULL;
  switch (pick(&self->random, 0, 2)) {
    case 0:
      if (!failed(weir_reservation_cancel(held, NULL))) enter(key, &taken, taken.cost, 0, low);
      break;
    case 1:
      if (!failed(weir_reservation_commit(held, NULL)))
        enter(key, &taken, taken.cost, taken.cost, low);
      break;
    default:
      costs[0] = real;
      costs[1] = common->of.has_places ? taken.cost : real;
      if (!failed(weir_reservation_settle(held, costs, NULL)))
        enter(key, &taken, taken.cost, costs[0], low);
  }
  weir_reservation_destroy(held);
}

static void ask_together(worker *self, weir_limiter *limiter, const weir_extra *extra, bool known) {
  weir_request requests[MANY] = {{0}};
  weir_limiter *limiters[MANY];
  const weir_extra *extras[MANY];
  bool decided[MANY];
  size_t count = (size_t)pick(&self->random, 1, MANY);
  int keys[MANY];
  for (size_t i = 0; i < count; i++) {
    keys[i] = (int)pick(&self->random, 0, KEYS - 1);
    limiters[i] = limiter;
    extras[i] = extra;
    requests[i] = (weir_request){.key = common->key[keys[i]],
                                 .key_length = strlen(common->key[keys[i]]),
                                 .cost = pick(&self->random, 1, COST_MOST)};
  }
  if (known)
    weir_decide_known_extra(limiters, requests, extras, count, decided, NULL);
  else
    weir_decide_extra(limiters, requests, extras, count, NULL);
  for (size_t i = 0; i < count; i++) {
    if ((known && !decided[i]) || failed(requests[i].status)) continue;
    look(&requests[i].decision, requests[i].cost);
    if (requests[i].decision.allowed) finish(self, limiter, keys[i], requests[i].decision, extra);
  }
}

static void ask_for_all(worker *self, weir_limiter *limiter, const weir_extra *extra) {
  weir_request requests[KEYS] = {{0}};
  weir_limiter *limiters[KEYS];
  const weir_extra *extras[KEYS];
  size_t denied_by;
  for (int i = 0; i < KEYS; i++) {
    limiters[i] = limiter;
    extras[i] = extra;
    requests[i] = (weir_request){.key = common->key[i],
                                 .key_length = strlen(common->key[i]),
                                 .cost = pick(&self->random, 1, COST_MOST)};
  }
  bool fails = failed(weir_decide_all_extra(limiters, requests, extras, KEYS, &denied_by, NULL));
  for (int i = 0; i < KEYS; i++)
    if (fails || denied_by < KEYS) atomic_fetch_add(&common->back, requests[i].cost);
  if (fails) return;
  for (int i = 0; i < KEYS; i++)
    look(&requests[i].decision, requests[i].cost);
  if (denied_by < KEYS) return;
  for (int i = 0; i < KEYS; i++)
    finish(self, limiter, i, requests[i].decision, extra);
}

static void ask(worker *self) {
  const draw *of = &common->of;
  weir_limiter *limiter = self->of->limiters[pick(&self->random, 0, of->has_most)];
  int key = (int)pick(&self->random, 0, KEYS - 1);
  weir_extra low = WEIR_EXTRA_INIT;
  if (of->has_classes && chance(&self->random, 2)) low.class_name = "low";
  if (of->says_limits && chance(&self->random, 2)) low.limit = pick(&self->random, 20, of->most);
  const weir_extra *extra = low.class_name != NULL || low.limit > 0 ? &low : NULL;
  weir_request request = {.key = common->key[key],
                          .key_length = strlen(common->key[key]),
                          .cost = pick(&self->random, 1, COST_MOST)};
  int call = (int)pick(&self->random, 0, CALLS - 1);
  if ((of->calls >> call & 1) == 0) call = TAKE;
  if (of->has_places) call = RESERVE;
  switch (call) {
    case TOGETHER:
    case KNOWN:
      ask_together(self, limiter, extra, call == KNOWN);
      return;
    case ALL:
      ask_for_all(self, limiter, extra);
      return;
    case RESERVE:
      reserve(self, limiter, key, &request, extra);
      return;
    case GIVE_UP_LEASES:
      failed(weir_limiter_return_leases(limiter, NULL));
      return;
    case WAIT:
      if (failed(weir_limiter_wait(limiter, request.key, request.key_length, request.cost, 2000,
                                   &request.decision, NULL)))
        return;
      extra = NULL;
      break;
    default:
      if (call == PEEK) request.flags = WEIR_REQUEST_PEEK;
      if (call == UP_TO) request.flags = WEIR_REQUEST_UP_TO;
      if (failed(weir_decide_extra(&limiter, &request, &extra, 1, NULL))) return;
  }
  look(&request.decision, request.cost);
  if (request.decision.allowed && call != PEEK)
    finish(self, limiter, key, request.decision, extra);
  else if (call != PEEK)
    atomic_fetch_add(&common->denied, 1);
  if (!request.decision.allowed) sleep_us(pick(&self->random, 0, 500));
}

static void set_limit(worker *self) {
  const draw *of = &common->of;
  static const unsigned set[] = {WEIR_KEY_LIMIT_NUMBER, WEIR_KEY_LIMIT_NUMBER, WEIR_KEY_LIMIT_NONE,
                                 WEIR_KEY_LIMIT_BLOCKED, WEIR_KEY_LIMIT_UNLIMITED};
  int key = (int)pick(&self->random, 0, KEYS - 1);
  weir_limit one = {.key = common->key[key],
                    .key_length = strlen(common->key[key]),
                    .kind = set[pick(&self->random, 0, (int)(sizeof set / sizeof set[0]) - 1)]};
  if (one.kind == WEIR_KEY_LIMIT_NUMBER) one.limit = pick(&self->random, 20, of->most);
  weir_limiter_set_limits(self->of->limiters[0], &one, 1, NULL);
  sleep_us(pick(&self->random, 5000, 40000));
}

static void *work(void *context) {
  worker *self = context;
  bool sets = common->of.sets_limits && self->of->number == 0;
  while (real_time_us() < common->end_us)
    if (sets)
      set_limit(self);
    else
      ask(self);
  return NULL;
}

static void open_store(asker *own) {
  weir_message message = {""};
  if (weir_store_open(url, &own->store, &message) != WEIR_OK ||
      weir_store_connect(own->store, 10 * SECOND_US, &message) != WEIR_OK)
    give_up("%s: %s", url, message.text);
}

static void run_process(void *context) {
  asker *own = context;
  const draw *of = &common->of;
  pthread_t threads[THREADS_MOST];
  worker workers[THREADS_MOST];
  open_store(own);
  for (int i = 0; i < 2; i++)
    own->limiters[i] = create(own, of->limits[i], of->sets_limits);
  sleep_us(common->begin_us - real_time_us());
  for (unsigned i = 0; i < of->threads; i++) {
    workers[i] = (worker){own, next_number(&own->random)};
    if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) give_up("no thread left");
  }
  for (unsigned i = 0; i < of->threads; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 2; i++) {
    weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
    failed(weir_limiter_return_leases(own->limiters[i], NULL));
    weir_limiter_read_counts(own->limiters[i], &counts);
    atomic_fetch_add(&common->leases_lost, (int64_t)counts.lease_lost);
    atomic_fetch_add(&common->leases_held, (int64_t)(counts.leased - counts.lease_used -
                                                     counts.lease_returned - counts.lease_lost));
    atomic_fetch_add(&common->paid, (int64_t)counts.paid);
    weir_limiter_destroy(own->limiters[i]);
  }
  weir_store_close(own->store);
}

/* By a limiter that has seen nothing. */
static void read_left(asker *own, int64_t limit, _Atomic int64_t left[KEYS]) {
  weir_decision decision;
  weir_limiter *limiter = create(own, limit, false);
  for (int i = 0; i < KEYS; i++) {
    if (weir_limiter_peek(limiter, common->key[i], strlen(common->key[i]), 1, &decision, NULL) !=
        WEIR_OK)
      give_up("what is left cannot be read");
    atomic_store(&left[i], decision.remaining);
  }
  weir_limiter_destroy(limiter);
}

/* What is left of the first rule, and of the places. */
static void read_rest(void *context) {
  asker *own = context;
  draw *of = &common->of;
  of->has_classes = of->has_places = false;
  of->deadline_us = 5 * SECOND_US;
  open_store(own);
  read_left(own, of->has_most ? of->most : of->limits[0], common->left);
  of->only_places = true;
  read_left(own, 0, common->places_left);
  weir_store_close(own->store);
}

/* --- the parent ----------------------------------------------------------------------------------- */

/* The store is away for a while, in one of several ways. */
static void cut(uint64_t *random) {
  static const proxy_mode modes[] = {PROXY_MUTE, PROXY_SILENT, PROXY_DROPS_REQUESTS,
                                     PROXY_DROPS_REPLIES};
  sleep_us(common->begin_us + pick(random, 50000, 200000) - real_time_us());
  proxy_set(way, modes[pick(random, 0, (int)(sizeof modes / sizeof modes[0]) - 1)]);
  sleep_us(pick(random, 20000, CUT_MOST_US));
  proxy_set(way, PROXY_OPEN);
}

static void run_processes(uint64_t random) {
  asker *askers = share_memory(PROCESSES * sizeof *askers);
  pid_t pids[PROCESSES];
  for (unsigned i = 0; i < PROCESSES; i++) {
    askers[i] = (asker){.off_us = pick(&random, -CLOCK_ERROR_US, CLOCK_ERROR_US),
                        .random = next_number(&random),
                        .number = i};
    pids[i] = start_process(run_process, &askers[i]);
  }
  if (common->of.is_cut) cut(&random);
  unsigned first = common->of.kills ? 2 : 0;
  if (first > 0) sleep_us(common->begin_us + ROUND_US / 2 - real_time_us());
  for (unsigned i = 0; i < first; i++)
    end_process(pids[PROCESSES - 1 - i]);
  for (unsigned i = 0; i < PROCESSES - first; i++)
    if (!await_process(pids[i], PATIENCE_US)) give_up("a process ended early");
  unshare_memory(askers, PROCESSES * sizeof *askers);
}

/* The largest that a request may have gone by. */
static int64_t largest_limit(const draw *of) {
  if (of->sets_limits || of->says_limits) return of->most;
  return of->limits[0] > of->limits[1] ? of->limits[0] : of->limits[1];
}

/* The promise of the largest limit, or of the lower class. What a bucket is charged in vain others may be
 * admitted on top; what goes back to one was stamped by a clock that may be ahead. */
static promise promise_of_round(const draw *of, bool low) {
  char text[TEXT_BYTES];
  weir_message message = {""};
  weir_stack stack;
  write_rules(of, largest_limit(of), text);
  if (weir_stack_parse(text, LIMITERS, &stack, &message) != WEIR_OK) give_up("%s", message.text);
  weir_rule larger = stack.rules[0];
  int64_t rate_us = 3 * (2 * CLOCK_ERROR_US + of->deadline_us);
  int64_t back = larger.limit * rate_us / larger.period_us;
  if (low && of->kind == BUCKET) larger.burst = part_of(larger.burst) + 1;
  if (low && of->kind != BUCKET) larger.limit = part_of(larger.limit) + 1;
  int64_t in_vain = PROCESSES * THREADS_MOST * MANY * COST_MOST;
  promise given = promise_of(&larger, 1, of->kind == BUCKET ? in_vain + back : 0, 0);
  if (of->kind == QUOTA) given.most *= 2; /* any interval may meet two */
  return given;
}

static worst find_round(const draw *of, int key, bool low) {
  size_t used = common->used, count = 0;
  admission *admissions = malloc((used + 1) * sizeof *admissions);
  if (admissions == NULL) give_up("no memory");
  for (size_t i = 0; i < used; i++) {
    const entry *one = &common->entries[i];
    if (one->key == key && (!low || one->low))
      admissions[count++] = (admission){one->at_us, one->cost};
  }
  promise given = promise_of_round(of, low);
  worst found = find_worst(&given, admissions, count, NULL, 0);
  free(admissions);
  return found;
}

static bool judge_short(const draw *of) {
  bool good = true;
  for (int i = 0; i < KEYS; i++)
    for (int low = 0; low <= of->has_classes; low++) {
      worst found = find_round(of, i, low != 0);
      good = good && found.excess <= 0;
      printf(" %s%" PRId64 " of %" PRId64, low ? "low " : "", found.admitted, found.bound);
    }
  return good;
}

/* Where a call did not end well, the store may have more. What debts are above the limit is not seen. */
/* What processes admitted by their policy is not in the store, but for what they have paid; of that some may have
 * been given back since. What is above the limit of the key, as a debt, cannot be read. */
static bool judge_long(const draw *of, asker *reader) {
  bool is_read = true;
  int64_t limit = of->has_most ? of->most : of->limits[0];
  int64_t charged = 0, held = 0, places_held = 0;
  pid_t pid = start_process(read_rest, reader);
  if (!await_process(pid, PATIENCE_US)) give_up("nobody could read what is left");
  for (int i = 0; i < KEYS; i++) {
    charged += common->charged[i];
    held += limit - common->left[i];
    is_read = is_read && common->left[i] > 0;
    places_held += PLACES - common->places_left[i];
  }
  int64_t back = common->paid < common->back ? common->paid : common->back;
  int64_t least = charged - common->by_policy + common->paid - back;
  int64_t most = charged + common->unknown + common->leases_lost + common->unsure * CALL_COST_MOST;
  printf(" %" PRId64 "..%" PRId64 ": %" PRId64 "%s", least, most, held, is_read ? "" : " or more");
  if (of->has_places) printf(", %" PRId64 " places", places_held);
  if (common->unsure == 0 && common->unknown == 0 && places_held > 0) return false;
  bool is_known =
      common->unsure == 0 || !of->leases; /* a charge that is not sure may have a lot in it */
  return (held <= most || !is_known) && (held >= least || !is_read);
}

static void carry(void *context) {
  proxy_run(context);
}

static void start_store(void) {
  struct address address;
  bool is_redis = strcmp(settings.store, "redis") == 0;
  if (!is_redis && strcmp(settings.store, "memcached") != 0)
    give_up("--store %s: accepted are memcached, redis", settings.store);
  struct server *server =
      is_redis ? server_start_redis(SERVER_IPV4, NULL) : server_start_memcached(SERVER_IPV4, NULL);
  way = share_memory(sizeof *way);
  if (address_take_port(&address, SERVER_IPV4) != 0) give_up("no port left");
  proxy_listen(way, server, &address, PROXY_OPEN);
  start_process(carry, way);
  snprintf(url, sizeof url, "%s://127.0.0.1:%u", settings.store, (unsigned)proxy_port(way));
}

static bool run_round(long number) {
  uint64_t random = (settings.seed * 1000003 + (uint64_t)number) * UINT64_C(0x9e3779b97f4a7c15) | 1;
  char text[TEXT_BYTES];
  asker *reader = share_memory(sizeof *reader);
  memset(common, 0, offsetof(shared, entries));
  common->of = draw_round(random);
  const draw of = common->of;
  for (int i = 0; i < KEYS; i++)
    snprintf(common->key[i], KEY_BYTES, "meets-%" PRIu64 "-%ld-%d-%" PRId64, settings.seed, number,
             i, real_time_us());
  common->begin_us = real_time_us() + OPEN_US;
  common->end_us = common->begin_us + of.round_us;
  /* A long round lies within one cell, whatever its cells are. */
  common->base_us =
      of.is_long ? INT64_C(1800000000) * SECOND_US + (7 * 60 + 20) * SECOND_US : common->begin_us;
  *reader = (asker){.random = random};
  run_processes(random);
  if (common->used > ENTRIES_MOST) give_up("too many admissions");
  write_rules(&of, of.limits[0], text);
  printf("%ld: %s, or %" PRId64 "%s%s, %u threads:", number, text, of.limits[1],
         of.sets_limits ? ", of keys" : "", of.kills ? ", kills" : "", of.threads);
  bool good = of.is_long ? judge_long(&of, reader) : judge_short(&of);
  printf("; %zu admitted, %" PRId64 " by lots, %" PRId64 " denied, %" PRId64 " settled, %" PRId64
         " unsure, %" PRId64 " refused, %" PRId64 " of lots lost, %" PRId64 " held%s\n",
         (size_t)common->used, common->from_leases, common->denied, common->settled, common->unsure,
         common->refused, common->leases_lost, common->leases_held, good ? "" : " BAD");
  fflush(stdout);
  unshare_memory(reader, sizeof *reader);
  return good;
}

static void read_arguments(int count, char **arguments) {
  for (int i = 1; i + 1 < count; i += 2) {
    if (strcmp(arguments[i], "--store") == 0)
      settings.store = arguments[i + 1];
    else if (strcmp(arguments[i], "--rounds") == 0)
      settings.rounds = strtol(arguments[i + 1], NULL, 10);
    else if (strcmp(arguments[i], "--round") == 0)
      settings.only = strtol(arguments[i + 1], NULL, 10);
    else if (strcmp(arguments[i], "--seed") == 0)
      settings.seed = strtoull(arguments[i + 1], NULL, 10);
    else
      give_up("no such option: %s", arguments[i]);
  }
  if (settings.store == NULL || settings.rounds < 1 || settings.rounds > ROUNDS_MOST)
    give_up("usage: meets --store memcached|redis [--rounds 1 to %d] [--seed N] [--round N]",
            ROUNDS_MOST);
}

int main(int count, char **arguments) {
  bool good = true;
  read_arguments(count, arguments);
  common = share_memory(sizeof *common);
  start_store();
  if (settings.only >= 0) return run_round(settings.only) ? 0 : 1;
  for (long number = 0; number < settings.rounds; number++)
    good = run_round(number) && good;
  return good ? 0 : 1;
}

/* Logs that are one, at random, against what their definition says: each rule admits at most LIMIT
 * in the last PERIOD, all of the times are kept, and a changed text reads what is there. On every
 * store, beside windows and buckets, by limiters that come and go.
 *
 *     test_limiter_shared_logs [WORLDS [SEED]]
 *
 * Longer by hand: 3000 worlds are three minutes or so. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/chance.h"
#include "limiter/stores.h"
#include "limiter/world.h"

enum { STEPS = 60, PERIODS = 10, LOGS_MOST = 6, TEXT_BYTES = 512, SHARE = 400 };

static int worlds = 48; /* on each store */
static uint32_t first_seed = 1;

/* --- chance ------------------------------------------------------------------------------------
 */

static uint32_t random_state;

/* --- what is true ------------------------------------------------------------------------------
 */

static const struct {
  const char *text;
  int64_t us;
} periods[PERIODS] = {{"1ms", 1000},
                      {"7ms", 7000},
                      {"1s", SECOND_US},
                      {"1500ms", 3 * SECOND_US / 2},
                      {"10s", 10 * SECOND_US},
                      {"1m", 60 * SECOND_US},
                      {"1h", 3600 * SECOND_US},
                      {"1d", 86400 * SECOND_US},
                      {"31d", 31 * 86400 * SECOND_US},
                      {"400d", 400 * 86400 * SECOND_US}};

typedef enum kind { LOG, FIXED, BUCKET } kind;

/* A bucket's burst is its limit, and its period a multiple of that many us. */
typedef struct rule {
  kind kind;
  int period; /* of periods */
  int64_t limit;
} rule;

typedef struct rules {
  int count;
  rule at[LOGS_MOST + 2];
} rules;

typedef struct history {
  int count;
  int64_t times_us[STEPS];
} history;

/* By the longest period of the logs that were in use; of a window and a bucket there is one. */
typedef struct truth {
  history logs[PERIODS];
  history window; /* the times of what it was charged */
  int64_t drained_us;
} truth;

typedef struct answer {
  bool allowed;
  int speaks; /* who denies longest */
  int64_t remaining, retry_after_us, reset_after_us;
} answer;

static int longest_log(const rules *text) {
  int longest = -1;
  for (int i = 0; i < text->count; i++)
    if (text->at[i].kind == LOG && text->at[i].period > longest) longest = text->at[i].period;
  return longest;
}

static answer of_log(const history *log, const rule *one, int64_t now_us) {
  answer says = {.remaining = one->limit};
  int64_t period_us = periods[one->period].us;
  for (int i = log->count - 1; i >= 0 && now_us - log->times_us[i] < period_us; i--) {
    int64_t leaves_us = log->times_us[i] + period_us - now_us;
    if (says.reset_after_us == 0) says.reset_after_us = leaves_us;
    if (says.remaining == 0) break;
    if (--says.remaining == 0) says.retry_after_us = leaves_us;
  }
  return says;
}

static answer of_window(const history *window, const rule *one, int64_t now_us) {
  answer says = {.remaining = one->limit};
  int64_t period_us = periods[one->period].us;
  int64_t left_us = (now_us / period_us + 1) * period_us - now_us;
  for (int i = 0; i < window->count; i++)
    says.remaining -= window->times_us[i] / period_us == now_us / period_us;
  if (says.remaining < one->limit) says.reset_after_us = left_us;
  if (says.remaining < 1) says.retry_after_us = left_us;
  return says;
}

static answer of_bucket(int64_t drained_us, const rule *one, int64_t now_us) {
  answer says = {0};
  int64_t token_us = periods[one->period].us / one->limit;
  says.reset_after_us = drained_us > now_us ? drained_us - now_us : 0;
  int64_t room_us = one->limit * token_us - says.reset_after_us;
  says.remaining = room_us / token_us;
  if (room_us < token_us) says.retry_after_us = token_us - room_us;
  return says;
}

static answer ask(const truth *is, const rules *text, int64_t now_us) {
  answer all = {.allowed = true, .remaining = INT64_MAX};
  const history *log = longest_log(text) < 0 ? NULL : &is->logs[longest_log(text)];
  for (int i = 0; i < text->count; i++) {
    const rule *one = &text->at[i];
    answer says = one->kind == LOG     ? of_log(log, one, now_us)
                  : one->kind == FIXED ? of_window(&is->window, one, now_us)
                                       : of_bucket(is->drained_us, one, now_us);
    if (says.remaining < all.remaining) all.remaining = says.remaining;
    if (says.reset_after_us > all.reset_after_us) all.reset_after_us = says.reset_after_us;
    if (says.retry_after_us <= all.retry_after_us) continue;
    all.retry_after_us = says.retry_after_us;
    all.allowed = false;
    all.speaks = i;
  }
  return all;
}

/* +1: charges; -1: gives back at once, of which a log knows nothing. */
static void charge(truth *is, const rules *text, int64_t now_us, int way) {
  int log = longest_log(text);
  if (log >= 0 && way > 0) is->logs[log].times_us[is->logs[log].count++] = now_us;
  for (int i = 0; i < text->count; i++) {
    const rule *one = &text->at[i];
    if (one->kind == FIXED && way > 0) is->window.times_us[is->window.count++] = now_us;
    if (one->kind == FIXED && way < 0) is->window.count--;
    if (one->kind != BUCKET) continue;
    if (is->drained_us < now_us) is->drained_us = now_us;
    is->drained_us += way * periods[one->period].us / one->limit;
  }
}

static void forget(truth *is, const rules *text) {
  int log = longest_log(text);
  if (log >= 0) is->logs[log].count = 0;
  for (int i = 0; i < text->count; i++) {
    if (text->at[i].kind == FIXED) is->window.count = 0;
    if (text->at[i].kind == BUCKET) is->drained_us = 0;
  }
}

/* --- texts -------------------------------------------------------------------------------------
 */

static void write_rules(const rules *text, char written[TEXT_BYTES]) {
  static const char *const names[] = {"sliding-log", "fixed-window", "token-bucket"};
  size_t used = 0;
  for (int i = 0; i < text->count; i++)
    used += (size_t)snprintf(written + used, TEXT_BYTES - used, "%s%s:%" PRId64 "/%s%s",
                             i > 0 ? ";" : "", names[text->at[i].kind], text->at[i].limit,
                             periods[text->at[i].period].text,
                             text->at[i].kind == LOG ? ",name=shared" : "");
}

static int64_t any_limit(void) {
  static const int64_t limits[] = {1, 1, 2, 3, 3, 5, 9, 20, 100000};
  return limits[chance(&random_state, sizeof limits / sizeof limits[0])];
}

/* One to six logs, each of another period, and at times a window and a bucket, in any order. The
 * periods of those stay, so that what they count continues. */
static rules any_rules(uint32_t first_period, const rule beside[2]) {
  rules text = {0};
  uint32_t taken = 0;
  uint32_t most = PERIODS - first_period;
  int logs = 1 + (int)chance(&random_state, most < LOGS_MOST ? most : LOGS_MOST);
  while (text.count < logs) {
    uint32_t period = first_period + chance(&random_state, most);
    if (taken & 1U << period) continue;
    taken |= 1U << period;
    text.at[text.count++] = (rule){LOG, (int)period, any_limit()};
  }
  for (int i = 0; i < 2; i++)
    if (chance(&random_state, 3) == 0) text.at[text.count++] = beside[i];
  for (int i = text.count - 1; i > 0; i--) {
    int other = (int)chance(&random_state, (uint32_t)i + 1);
    rule moved = text.at[i];
    text.at[i] = text.at[other];
    text.at[other] = moved;
  }
  return text;
}

/* Mostly another limit; at times whole other rules. */
static void change(rules *text, uint32_t first_period, const rule beside[2]) {
  if (chance(&random_state, 3) == 0) *text = any_rules(first_period, beside);
  for (int i = 0; i < text->count; i++)
    if (text->at[i].kind != BUCKET && chance(&random_state, 2) == 0)
      text->at[i].limit = any_limit();
}

/* --- a world -----------------------------------------------------------------------------------
 */

typedef struct run {
  world w;
  weir_limiter_options options;
  int store;
  uint32_t seed;
  int step;
  rules text;
  char written[TEXT_BYTES];
  truth is;
} run;

static void differs(const run *one, const char *what, int64_t given, int64_t wanted) {
  fail_msg("%s, seed %u, step %d, %s: %s is %" PRId64 ", not %" PRId64, stores[one->store].name,
           (unsigned)one->seed, one->step, one->written, what, given, wanted);
}

static void check(const run *one, const char *what, int64_t given, int64_t wanted) {
  if (given != wanted) differs(one, what, given, wanted);
}

static void check_answer(const run *one, const weir_decision *given, bool peeked) {
  answer wanted = ask(&one->is, &one->text, one->w.clock.now_us);
  check(one, "allowed", given->allowed, wanted.allowed);
  check(one, "retry_after_us", given->retry_after_us, wanted.retry_after_us);
  if (!wanted.allowed) check(one, "rule", given->rule, wanted.speaks);
  if (peeked && wanted.allowed) check(one, "remaining", given->remaining, wanted.remaining);
  if (peeked || !wanted.allowed)
    check(one, "reset_after_us", given->reset_after_us, wanted.reset_after_us);
}

static void take(run *one) {
  int64_t now_us = one->w.clock.now_us;
  weir_decision given = {0};
  weir_status status = chance(&random_state, 4) == 0
                           ? weir_limiter_take_up_to(one->w.limiter, "k", 1, 1, &given, NULL)
                           : weir_limiter_take(one->w.limiter, "k", 1, 1, &given, NULL);
  check(one, "status", status, WEIR_OK);
  check_answer(one, &given, false);
  if (!given.allowed) return;
  charge(&one->is, &one->text, now_us, 1);
  answer after = ask(&one->is, &one->text, now_us);
  check(one, "reset_after_us", given.reset_after_us, after.reset_after_us);
}

/* A log keeps what goes back; all others do not. */
static void take_and_give_back(run *one) {
  weir_reservation *reserved = NULL;
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  weir_limiter *limiter = one->w.limiter;
  bool cancels = chance(&random_state, 2) == 0;
  check(one, "status", weir_limiter_reserve(limiter, &request, &reserved, NULL), WEIR_OK);
  check_answer(one, &request.decision, false);
  if (!request.decision.allowed) return;
  charge(&one->is, &one->text, one->w.clock.now_us, 1);
  if (cancels)
    check(one, "cancel", weir_reservation_cancel(reserved, NULL), WEIR_OK);
  else
    check(one, "refund", weir_limiter_refund(limiter, "k", 1, 1, &request.decision, NULL), WEIR_OK);
  weir_reservation_destroy(reserved);
  charge(&one->is, &one->text, one->w.clock.now_us, -1);
}

/* Another limiter, as after a restart with another text. */
static void restart(run *one, uint32_t first_period, const rule beside[2]) {
  change(&one->text, first_period, beside);
  write_rules(&one->text, one->written);
  weir_limiter_destroy(one->w.limiter);
  one->w.limiter = world_limiter(&one->w, one->written, &one->options);
}

/* To where something just leaves a rule's period, or just not yet, or somewhere else. */
static void pass_time(run *one) {
  const rule *which = &one->text.at[chance(&random_state, (uint32_t)one->text.count)];
  int64_t period_us = periods[which->period].us;
  answer now = ask(&one->is, &one->text, one->w.clock.now_us);
  int64_t steps[] = {0,
                     0,
                     1,
                     now.retry_after_us,
                     now.retry_after_us - 1,
                     period_us / 7,
                     period_us - 1,
                     period_us,
                     period_us + period_us / 2,
                     now.reset_after_us};
  int64_t step_us = steps[chance(&random_state, sizeof steps / sizeof steps[0])];
  one->w.clock.now_us += step_us > 0 ? step_us : 0;
}

static void step(run *one, uint32_t first_period, const rule beside[2]) {
  uint32_t what = chance(&random_state, SHARE);
  if (what < 4) {
    world_reset(&one->w, "k");
    forget(&one->is, &one->text);
  } else if (what < 40) {
    restart(one, first_period, beside);
  } else if (what < 80) {
    weir_decision given = world_peek(&one->w, "k", 1);
    check_answer(one, &given, true);
  } else if (what < 110) {
    take_and_give_back(one);
  } else {
    take(one);
  }
  if (chance(&random_state, 2) == 0) pass_time(one);
}

static void run_world(int store, uint32_t seed) {
  static const rule buckets[] = {{BUCKET, 4, 10}, {BUCKET, 5, 4}, {BUCKET, 2, 5}};
  char url[STORE_URL_BYTES];
  run one = {.store = store, .seed = seed};
  random_state = seed * 2654435761U;
  uint32_t first_period = chance(&random_state, PERIODS - 1);
  rule beside[2] = {{FIXED, 2 + (int)chance(&random_state, 6), any_limit()},
                    buckets[chance(&random_state, 3)]};
  one.text = any_rules(first_period, beside);
  write_rules(&one.text, one.written);
  one.options =
      (weir_limiter_options){.deadline_us = (chance(&random_state, 2) == 0 ? 1 : 20) * SECOND_US,
                             .least_ttl_us = 3600 * SECOND_US}; /* time stands still */
  world_open(&one.w, stores_url(store, url), one.written, &one.options);
  for (one.step = 0; one.step < STEPS; one.step++)
    step(&one, first_period, beside);
  world_close(&one.w);
}

static void each_rule_is_its_definition(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (uint32_t i = 0; i < (uint32_t)worlds; i++)
      run_world(store, first_seed + i);
}

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_rule_is_its_definition)};
  if (count > 1) worlds = (int)strtol(arguments[1], NULL, 10);
  if (count > 2) first_seed = (uint32_t)strtoul(arguments[2], NULL, 10);
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

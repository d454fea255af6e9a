/* Logs that are one, at random, where the definition alone does not say what happens: several
 * limiters with texts of their own and clocks that differ, and entries that the store loses.
 *
 *   never more than LIMIT in PERIOD - 2d of real time, by the rules of whoever is admitted
 *   never denied where each of one's rules has room, PERIOD + 2d counted, but once for each entry
 *       that was lost and each LIMIT that counts back to it
 *
 *     test_limiter_shared_log_faults [WORLDS [SEED]] */
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
#include "store/store.h"

enum {
  STEPS = 150,
  LIMITERS = 3,
  RULES = 3, /* of one text */
  TEXT_BYTES = 256,
  KEY_BYTES = 128,
  SKEW_US = 10000
};

#define LONGEST_US (60 * SECOND_US)

static int worlds = 24; /* on each store */
static uint32_t first_seed = 1;
static uint32_t random_state;

typedef struct rule {
  int64_t limit, period_us;
} rule;

/* A limiter in a process of its own, as far as the others can tell. */
typedef struct process {
  hand_clock clock;
  int64_t ahead_us; /* of real time; -SKEW_US to SKEW_US */
  int count;
  rule rules[RULES]; /* the last is the longest */
  char text[TEXT_BYTES];
  weir_limiter *limiter;
} process;

typedef struct times {
  int count;
  int64_t us[STEPS];
} times;

typedef struct run {
  int store;
  uint32_t seed;
  weir_store *opened;
  char name_space[KEY_BYTES];
  process processes[LIMITERS];
  times admitted, counted; /* who is denied by a lost entry leaves his own */
  int64_t real_us;
  int lost, in_vain;
  int64_t limits[LIMITERS * RULES];
  int limit_count;
} run;

static void note_limit(run *one, int64_t limit) {
  for (int i = 0; i < one->limit_count; i++)
    if (one->limits[i] == limit) return;
  one->limits[one->limit_count++] = limit;
}

static void any_rules(run *one, process *who) {
  static const int64_t limits[] = {1, 2, 3, 5, 8, 12};
  static const int64_t shorter_us[] = {SECOND_US, 7 * SECOND_US, 20 * SECOND_US};
  size_t used = 0;
  who->count = 1 + (int)chance(&random_state, RULES);
  int first = (int)chance(&random_state, (uint32_t)(4 - who->count));
  for (int i = 0; i < who->count; i++) {
    rule *made = &who->rules[i];
    made->limit = limits[chance(&random_state, 6)];
    made->period_us = i + 1 < who->count ? shorter_us[first + i] : LONGEST_US;
    note_limit(one, made->limit);
    used += (size_t)snprintf(who->text + used, TEXT_BYTES - used, "%ssliding-log:%" PRId64 "/%ds",
                             i > 0 ? ";" : "", made->limit, (int)(made->period_us / SECOND_US));
  }
}

static void open_process(run *one, process *who) {
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  weir_message message = {""};
  any_rules(one, who);
  who->ahead_us = (int64_t)chance(&random_state, 2 * SKEW_US + 1) - SKEW_US;
  who->clock.now_us = one->real_us + who->ahead_us;
  options.clock = hand_clock_as_clock(&who->clock);
  options.clock_error_us = SKEW_US;
  options.deadline_us = SECOND_US;
  options.least_ttl_us = 3600 * SECOND_US;
  options.fallback = WEIR_FALLBACK_NONE;
  if (weir_limiter_create(one->opened, who->text, &options, &who->limiter, &message) != WEIR_OK)
    fail_msg("%s: %s", who->text, message.text);
}

static int within(const times *all, int64_t since_us) {
  int count = 0;
  for (int i = all->count - 1; i >= 0 && all->us[i] > since_us; i--)
    count++;
  return count;
}

static bool has_room(const run *one, const process *who) {
  for (int i = 0; i < who->count; i++) {
    int64_t since_us = one->real_us - who->rules[i].period_us - 2 * SKEW_US;
    if (within(&one->counted, since_us) >= who->rules[i].limit) return false;
  }
  return true;
}

static void check_bounds(const run *one, const process *who, int step) {
  for (int i = 0; i < who->count; i++) {
    int64_t since_us = one->real_us - who->rules[i].period_us + 2 * SKEW_US;
    int count = within(&one->admitted, since_us);
    if (count > who->rules[i].limit)
      fail_msg("%s, seed %u, step %d, %s: %d admitted", stores[one->store].name,
               (unsigned)one->seed, step, who->text, count);
  }
}

static void take(run *one, process *who, int step) {
  weir_decision decision = {0};
  weir_message message = {""};
  who->clock.now_us = one->real_us + who->ahead_us;
  if (weir_limiter_take(who->limiter, "k", 1, 1, &decision, &message) != WEIR_OK)
    fail_msg("%s: %s", who->text, message.text);
  bool in_vain = !decision.allowed && has_room(one, who);
  if (decision.allowed) one->admitted.us[one->admitted.count++] = one->real_us;
  if (decision.allowed || in_vain) one->counted.us[one->counted.count++] = one->real_us;
  if (decision.allowed) check_bounds(one, who, step);
  one->in_vain += in_vain;
  if (one->in_vain > one->lost * one->limit_count)
    fail_msg("%s, seed %u, step %d, %s: denied with room, %d entries lost", stores[one->store].name,
             (unsigned)one->seed, step, who->text, one->lost);
}

/* As an eviction does: one of the newest entries, if it is there. */
static void lose_an_entry(run *one) {
  char key[KEY_BYTES];
  int64_t epoch = one->real_us / LONGEST_US - (int64_t)chance(&random_state, 2);
  int length =
      snprintf(key, sizeof key, "weir:%s:log-%" PRId64 ":{k}:%" PRId64 ".%d", one->name_space,
               LONGEST_US / 1000, epoch, 1 + (int)chance(&random_state, 10));
  weir_operation operation = {.kind = WEIR_GET,
                              .key = key,
                              .key_length = (uint16_t)length,
                              .home_offset = (uint16_t)(strchr(key, '{') + 1 - key),
                              .home_length = 1};
  weir_store_exec(one->opened, &operation, 1, deadline_in_ms(20000), NULL);
  if (operation.outcome != WEIR_DONE) return;
  operation.kind = WEIR_DROP;
  weir_store_exec(one->opened, &operation, 1, deadline_in_ms(20000), NULL);
  assert_int_equal(operation.outcome, WEIR_DONE);
  one->lost++;
}

static void pass_time(run *one) {
  static const int64_t steps_us[] = {
      0, 0, 1, SKEW_US, 2 * SKEW_US, SECOND_US, SECOND_US + SKEW_US, 7 * SECOND_US, 20 * SECOND_US,
  };
  int64_t step_us = steps_us[chance(&random_state, sizeof steps_us / sizeof steps_us[0])];
  one->real_us += step_us - (step_us > SKEW_US && chance(&random_state, 2) == 0);
}

static int run_world(int store, uint32_t seed) {
  char url[STORE_URL_BYTES];
  run one = {.store = store, .seed = seed, .real_us = START_US - SECOND_US};
  random_state = seed * 2654435761U;
  stores_url(store, url);
  snprintf(one.name_space, sizeof one.name_space, "%s", strstr(url, "namespace=") + 10);
  assert_int_equal(weir_store_open(url, &one.opened, NULL), WEIR_OK);
  bool loses = chance(&random_state, 2) == 0 && store != 0; /* memory: names by numbers */
  for (int i = 0; i < LIMITERS; i++)
    open_process(&one, &one.processes[i]);
  for (int step = 0; step < STEPS; step++) {
    pass_time(&one);
    take(&one, &one.processes[chance(&random_state, LIMITERS)], step);
    if (loses && chance(&random_state, 12) == 0) lose_an_entry(&one);
  }
  for (int i = 0; i < LIMITERS; i++)
    weir_limiter_destroy(one.processes[i].limiter);
  weir_store_close(one.opened);
  return one.lost;
}

static void nobody_exceeds_a_rule_of_his_own(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    int lost = 0;
    for (uint32_t i = 0; i < (uint32_t)worlds; i++)
      lost += run_world(store, first_seed + i);
    assert_true(lost > 0 || store == 0);
  }
}

int main(int count, char **arguments) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_exceeds_a_rule_of_his_own)};
  if (count > 1) worlds = (int)strtol(arguments[1], NULL, 10);
  if (count > 2) first_seed = (uint32_t)strtoul(arguments[2], NULL, 10);
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

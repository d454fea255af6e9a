/* The recommended limit against the definition, on random small traffic: of all limits, each run by
 * itself, the smallest that denies no more than that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/chance.h"
#include "simulate/recommend.h"
#include "simulate/simulation.h"

enum { REQUESTS = 60, KEYS = 4, LIMIT_MOST = 400 };
static const int64_t begin_us = INT64_C(1700000000000000);
static const weir_limiter_options options = {.size = sizeof options};

static weir_record record;
static weir_simulation simulation;

/* Bursts and pauses, some requests at one time. */
static void make_traffic(uint64_t *random, int64_t cost_most) {
  int64_t now_us = begin_us;
  for (int i = 0; i < REQUESTS; i++) {
    char key[8];
    int64_t kind = weir_chance_below(random, 8);
    now_us += kind == 0 ? weir_chance_below(random, 900000) : weir_chance_below(random, 30000);
    int length = snprintf(key, sizeof key, "k%d", (int)weir_chance_below(random, KEYS));
    int64_t cost = 1 + weir_chance_below(random, cost_most);
    assert_true(weir_record_add(&record, now_us, key, (size_t)length, cost));
  }
}

static weir_denials denied_with(const char *rule, int64_t limit, const weir_record_key *only) {
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  const char *const rules[] = {text};
  weir_message why = {""};
  weir_recommend_write(rule, limit, text);
  assert_int_equal(weir_simulation_init(&simulation, rules, 1, &options, &why), WEIR_OK);
  for (size_t i = 0; i < record.count; i++) {
    const weir_recorded *request = &record.requests[i];
    const weir_record_key *key = &record.keys[request->key];
    if (only != NULL && key != only) continue;
    assert_int_equal(weir_simulation_request(&simulation, request->time_us, key->text, key->length,
                                             request->cost, &why),
                     WEIR_OK);
  }
  weir_denials denied = {simulation.measures[0].requests - simulation.measures[0].allowed,
                         simulation.denied[0].used};
  weir_simulation_clean_up(&simulation);
  return denied;
}

static bool is_enough(const weir_goal *goal, const weir_denials *denied) {
  if (goal->key != NULL) return denied->requests == 0;
  if (goal->of_keys)
    return (int64_t)denied->keys * WEIR_RULE_SHARE_WHOLE <= goal->share * (int64_t)record.key_count;
  return (int64_t)denied->requests * WEIR_RULE_SHARE_WHOLE <= goal->share * (int64_t)record.count;
}

static void check(const char *rule, const weir_goal *goal, uint64_t seed) {
  weir_recommendation found;
  weir_message why = {""};
  const weir_record_key *only =
      goal->key != NULL ? weir_record_find(&record, goal->key, strlen(goal->key)) : NULL;
  if (weir_recommend(rule, &options, &record, goal, &found, &why) != WEIR_OK)
    fail_msg("%s: %s", rule, why.text);
  int64_t limit = 1;
  weir_denials denied = denied_with(rule, limit, only), below = {0};
  while (!is_enough(goal, &denied)) {
    below = denied;
    assert_true(++limit <= LIMIT_MOST);
    denied = denied_with(rule, limit, only);
  }
  if (found.limit != limit)
    fail_msg("%s, traffic %d, share %d of %s: %d, and not %d", rule, (int)seed, (int)goal->share,
             goal->of_keys ? "keys" : "requests", (int)limit, (int)found.limit);
  assert_true(found.smallest);
  assert_int_equal(found.denied.requests, denied.requests);
  assert_int_equal(found.denied.keys, denied.keys);
  if (limit == 1) return;
  assert_int_equal(found.denied_below.requests, below.requests);
  assert_int_equal(found.denied_below.keys, below.keys);
}

static void check_all(const char *rule, int64_t cost_most, uint64_t traffics) {
  static const weir_goal goals[] = {{.share = 0},      {.share = 10000},
                                    {.share = 100000}, {.share = 400000},
                                    {.of_keys = true}, {.of_keys = true, .share = 250000},
                                    {.key = "k1"}};
  for (uint64_t seed = 1; seed <= traffics; seed++) {
    uint64_t random = seed;
    make_traffic(&random, cost_most);
    for (size_t i = 0; i < sizeof goals / sizeof *goals; i++)
      check(rule, &goals[i], seed);
    weir_record_clean_up(&record);
  }
}

static const char *const rules[] = {"fixed-window:1/1s",
                                    "sliding-window:1/1s",
                                    "sliding-window:1/1s,cells=1",
                                    "sliding-window:1/1s,strict",
                                    "sliding-window:1/1s,cells=16",
                                    "quota:1/1s",
                                    "token-bucket:1/1s",
                                    "token-bucket:1/1s,burst=5",
                                    "leaky-bucket:1/1s,queue=3",
                                    "sliding-window:1/1s,count=all"};

static void of_single_requests_it_is_the_smallest(void **state) {
  (void)state;
  check_all("sliding-log:1/1s", 1, 12);
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    check_all(rules[i], 1, 12);
}

static void of_costs_it_is_the_smallest(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
    if (strchr(rules[i], ',') == NULL) check_all(rules[i], 9, 12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_single_requests_it_is_the_smallest),
      cmocka_unit_test(of_costs_it_is_the_smallest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

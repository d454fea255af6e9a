/* The recommended limit against the definition, on random small traffic: of all limits, each run by
 * itself, the smallest that denies no more than that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
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
    int64_t kind = weir_random_below(random, 8);
    now_us += kind == 0 ? weir_random_below(random, 900000) : weir_random_below(random, 30000);
    int length = snprintf(key, sizeof key, "k%d", (int)weir_random_below(random, KEYS));
    int64_t cost = 1 + weir_random_below(random, cost_most);
    assert_true(weir_record_add(&record, now_us, key, (size_t)length, cost));
  }
}

struct brute {
  weir_denied_count denied;
  uint64_t top; /* of the key that was denied most */
};

/* False: with that limit it is no rule. */
static bool run(const char *rule, int64_t limit, const weir_record_key *only, struct brute *brute) {
  char text[WEIR_RECOMMENDED_TEXT_BYTES];
  const char *const rules[] = {text};
  weir_message why = {""};
  weir_record_cursor cursor;
  weir_recorded request;
  weir_recommend_write(rule, limit, text);
  if (weir_simulation_init(&simulation, rules, 1, &options, &why) != WEIR_OK) return false;
  weir_record_begin(&record, &cursor);
  while (weir_record_next(&cursor, &request)) {
    size_t length;
    const weir_record_key *key = &record.keys[request.key];
    const char *name = weir_record_name(&record, key, &length);
    if (only != NULL && key != only) continue;
    const weir_simulated asked = {
        .time_us = request.time_us, .key = name, .key_length = length, .cost = request.cost};
    assert_int_equal(weir_simulation_request(&simulation, &asked, &why), WEIR_OK);
  }
  const weir_denied_key *top = NULL;
  brute->denied.requests = simulation.measures[0].requests - simulation.measures[0].allowed;
  brute->denied.keys = simulation.denied[0].table.count;
  brute->top = weir_denied_keys_top(&simulation.denied[0], &top, 1) > 0 ? top->denied : 0;
  weir_simulation_clean_up(&simulation);
  return true;
}

static bool is_enough(const weir_goal *goal, const weir_denied_count *denied) {
  if (goal->key != NULL) return denied->requests == 0;
  if (goal->of_keys)
    return (int64_t)denied->keys * WEIR_RULE_SHARE_WHOLE <= goal->share * (int64_t)record.key_count;
  return (int64_t)denied->requests * WEIR_RULE_SHARE_WHOLE <= goal->share * (int64_t)record.count;
}

static void check_below(const weir_recommendation *found, const struct brute *below) {
  assert_int_equal(found->denied_below.requests, below->denied.requests);
  assert_int_equal(found->denied_below.keys, below->denied.keys);
  bool rests = below->top > below->denied.requests / 2;
  assert_int_equal(found->rests_on != NULL, rests);
  if (rests) assert_int_equal(found->rests_on_requests, below->top);
}

/* Every limit from 1 on; above LIMIT_MOST the search alone knows. */
static void check(const char *rule, const weir_goal *goal, uint64_t seed) {
  weir_recommendation found;
  weir_message why = {""};
  const weir_record_key *only =
      goal->key != NULL ? weir_record_find(&record, goal->key, strlen(goal->key)) : NULL;
  weir_status status = weir_recommend(rule, &options, &record, goal, &found, &why);
  if (status != WEIR_OK && strstr(why.text, "no limit is enough") == NULL)
    fail_msg("%s: %s", rule, why.text);
  struct brute brute = {{0}, 0}, below = {{0}, 0};
  int64_t limit = 1, least = 0, step = status == WEIR_OK ? 1 : 23; /* what is denied has no end */
  for (; limit <= LIMIT_MOST; limit += step) {
    below = brute;
    if (!run(rule, limit, only, &brute)) continue;
    if (least == 0) least = limit;
    if (is_enough(goal, &brute.denied)) break;
  }
  bool reached = limit <= LIMIT_MOST;
  if (!reached && (status != WEIR_OK || found.limit > LIMIT_MOST)) return;
  if (!reached || status != WEIR_OK || found.limit != limit)
    fail_msg("%s, traffic %d, share %d of %s: %d, and not %d", rule, (int)seed, (int)goal->share,
             goal->of_keys ? "keys" : "requests", (int)limit,
             status == WEIR_OK ? (int)found.limit : -1);
  assert_true(found.smallest);
  assert_int_equal(found.least, least);
  assert_int_equal(found.denied.requests, brute.denied.requests);
  assert_int_equal(found.denied.keys, brute.denied.keys);
  if (limit > least) check_below(&found, &below);
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

/* Options with which not every limit is a rule, or not every goal can be reached. */
static void where_limits_are_no_rule_it_is_the_smallest_of_the_others(void **state) {
  static const char *const bounded[] = {
      "token-bucket:100/1s,lease=20ms",         "token-bucket:100/1s,burst=5,lease=10ms",
      "token-bucket:1000/400d,burst=20",        "token-bucket:9/1s,burst=5",
      "leaky-bucket:1000/400d,queue=19",        "leaky-bucket:9/1s,queue=4",
      "sliding-window:9/1s,lease=20ms",         "quota:9/1s,lease=20ms",
      "token-bucket:100/10s,burst=50,lease=1s", "fixed-window:3/1s,hold=5ms,name=a"};
  (void)state;
  for (size_t i = 0; i < sizeof bounded / sizeof *bounded; i++) {
    check_all(bounded[i], 1, 3);
    check_all(bounded[i], 9, 3);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(of_single_requests_it_is_the_smallest),
      cmocka_unit_test(of_costs_it_is_the_smallest),
      cmocka_unit_test(where_limits_are_no_rule_it_is_the_smallest_of_the_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A limiter that takes another's place, as after a change of its limits, while the store is away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/away.h"

static weir_limiter *make_next(world *w, const char *rules) {
  weir_message message = {""};
  weir_limiter *next;
  const weir_limiter_options options = {.size = sizeof options,
                                        .deadline_us = AWAY_DEADLINE_US,
                                        .clock = hand_clock_as_clock(&w->clock),
                                        .peers = 2};
  if (weir_limiter_create(w->store, rules, &options, &next, &message) != WEIR_OK)
    fail_msg("%s", message.text);
  return next;
}

/* How many of `tries` it admits of one key. */
static int admit(weir_limiter *limiter, int tries) {
  int admitted = 0;
  for (int i = 0; i < tries; i++) {
    weir_decision decision = {0};
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
    admitted += decision.allowed;
  }
  return admitted;
}

static int64_t owed_by(const weir_limiter *limiter) {
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(limiter, &counts);
  return (int64_t)(counts.owed - counts.paid - counts.unpaid);
}

/* Half of 20 is 10, and half of 30 is 15: 5 more, and all 15 are owed. */
static void what_was_admitted_counts_on(void **state) {
  static const struct {
    const char *before, *after;
  } cases[] = {{"fixed-window:20/1m", "fixed-window:30/1m"},
               {"quota:20/1m", "quota:30/1m"},
               {"sliding-window:20/1m", "sliding-window:30/1m"},
               {"token-bucket:20/1m,burst=20", "token-bucket:20/1m,burst=30"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w;
    away_open(&w, cases[i].before, 2);
    the_fake.trouble = FAKE_AWAY;
    assert_in_range(admit(w.limiter, 30), 10, 11);
    weir_limiter *next = make_next(&w, cases[i].after);
    assert_int_equal(weir_limiter_follow(next, w.limiter, NULL), WEIR_OK);
    int more = admit(next, 30);
    if (more < 4 || more > 6) fail_msg("%s: %d more", cases[i].after, more);
    the_fake.trouble = FAKE_WELL;
    admit(next, 1);
    int64_t left = away_remaining(&w, cases[i].after, "k");
    if (left < 13 || left > 16) fail_msg("%s: %lld left", cases[i].after, (long long)left);
    assert_true(owed_by(next) <= 0);
    weir_limiter_destroy(next);
    world_close(&w);
  }
}

/* Of limiters that read records, and let all pass while the store is away. */
static weir_limiter_options reading(world *w, unsigned flags) {
  return (weir_limiter_options){.size = sizeof(weir_limiter_options),
                                .deadline_us = AWAY_DEADLINE_US,
                                .clock = hand_clock_as_clock(&w->clock),
                                .fallback = WEIR_FALLBACK_ALLOW,
                                .flags = flags,
                                .limits_us = SECOND_US};
}

/* A record that the other one has read holds on, however the policy would answer. */
static void a_blocked_key_stays_blocked(void **state) {
  static const char rules[] = "fixed-window:20/1m,most=100,name=n";
  weir_limit blocked = {.key = "k", .key_length = 1, .kind = WEIR_KEY_LIMIT_BLOCKED};
  (void)state;
  world w;
  weir_limiter_options options = reading(&w, 0);
  away_open(&w, "fixed-window:1/1m", 2);
  weir_limiter *before, *next;
  assert_int_equal(weir_limiter_create(w.store, rules, &options, &before, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_set_limits(before, &blocked, 1, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(w.store, rules, &options, &next, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_follow(next, before, NULL), WEIR_OK);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(admit(next, 3), 0);
  weir_limiter_destroy(next);
  weir_limiter_destroy(before);
  world_close(&w);
}

/* The other one's rule lacks the tier, and so went by no record. This one's has it. */
static void a_tier_that_was_unknown_may_be_known_now(void **state) {
  static const char lacks[] = "fixed-window:20/1m,most=100,name=n",
                    has[] = "fixed-window:20/1m,most=100,name=n,tiers=gold:50";
  weir_limit gold = {.key = "k", .key_length = 1};
  (void)state;
  world w;
  weir_limiter_options options = reading(&w, WEIR_ABSENT_DENIES);
  away_open(&w, "fixed-window:1/1m", 2);
  weir_limiter *before, *next, *writer;
  assert_int_equal(weir_limiter_create(w.store, lacks, &options, &before, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(w.store, has, &options, &writer, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(w.store, has, &options, &next, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_parse_limit(writer, "gold", 4, &gold, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_set_limits(writer, &gold, 1, NULL), WEIR_OK);
  assert_int_equal(admit(before, 3), 0);
  assert_int_equal(weir_limiter_follow(next, before, NULL), WEIR_OK);
  the_fake.trouble = FAKE_AWAY;
  assert_int_equal(admit(next, 3), 3);
  the_fake.trouble = FAKE_WELL;
  weir_limiter_destroy(writer);
  weir_limiter_destroy(next);
  weir_limiter_destroy(before);
  world_close(&w);
}

/* It was alone: so is this one. */
static void a_share_goes_on(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:1000/1m", 2);
  assert_int_equal(admit(w.limiter, 200), 200);
  weir_limiter *next = make_next(&w, "fixed-window:2000/1m");
  assert_int_equal(weir_limiter_follow(next, w.limiter, NULL), WEIR_OK);
  the_fake.trouble = FAKE_AWAY;
  assert_in_range(admit(next, 2000), 1700, 1800); /* of what is left */
  the_fake.trouble = FAKE_WELL;
  weir_limiter_destroy(next);
  world_close(&w);
}

/* A process's memory of a key has other places where leases come or go: what it knew is still
 * found. */
static void leases_may_come_and_go(void **state) {
  static const struct {
    const char *before, *after;
  } cases[] = {
      {"fixed-window:900/1m,lease=1s;quota:20/1h,lease=1s", "fixed-window:900/1m;quota:20/1h"},
      {"fixed-window:900/1m;quota:20/1h", "fixed-window:900/1m,lease=1s;quota:20/1h,lease=1s"},
      {"quota:900/1m,lease=1s;fixed-window:20/1h,lease=1s", "quota:900/1m;fixed-window:20/1h"},
      {"quota:900/1m;fixed-window:20/1h", "quota:900/1m,lease=1s;fixed-window:20/1h,lease=1s"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    world w;
    away_open(&w, cases[i].before, 2);
    assert_int_equal(admit(w.limiter, 12), 12);
    weir_limiter *next = make_next(&w, cases[i].after);
    assert_int_equal(weir_limiter_follow(next, w.limiter, NULL), WEIR_OK);
    the_fake.trouble = FAKE_AWAY;
    int more = admit(next, 30);
    if (more < 1 || more > 8) fail_msg("%s: %d more", cases[i].after, more);
    the_fake.trouble = FAKE_WELL;
    weir_limiter_destroy(next);
    world_close(&w);
  }
}

static void it_can_follow_nobody_again(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 2);
  the_fake.trouble = FAKE_AWAY;
  assert_in_range(admit(w.limiter, 30), 10, 11);
  weir_limiter *next = make_next(&w, "fixed-window:30/1m");
  assert_int_equal(weir_limiter_follow(next, w.limiter, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_follow(next, NULL, NULL), WEIR_OK);
  assert_in_range(admit(next, 30), 14, 16);
  the_fake.trouble = FAKE_WELL;
  weir_limiter_destroy(next);
  world_close(&w);
}

/* Two that follow each other would wait for each other's keys. */
static void who_is_followed_follows_nobody(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:20/1m", 2);
  the_fake.trouble = FAKE_AWAY;
  weir_limiter *next = make_next(&w, "fixed-window:30/1m");
  assert_int_equal(weir_limiter_follow(w.limiter, next, NULL), WEIR_OK);
  assert_in_range(admit(next, 30), 14, 16);
  assert_int_equal(weir_limiter_follow(next, w.limiter, NULL), WEIR_OK);
  assert_in_range(admit(w.limiter, 30), 9, 11); /* nothing is known of what `next` has admitted */
  assert_int_equal(admit(next, 30), 0);
  the_fake.trouble = FAKE_WELL;
  weir_limiter_destroy(next);
  world_close(&w);
}

static void other_counts_are_not_followed(void **state) {
  static const char *const rules[] = {"fixed-window:20/1h", "quota:20/1m",
                                      "fixed-window:20/1m;quota:20/1m",
                                      "fixed-window:20/1m,name=other"};
  world w;
  weir_message message = {""};
  (void)state;
  away_open(&w, "fixed-window:20/1m", 2);
  assert_int_equal(weir_limiter_follow(w.limiter, w.limiter, &message), WEIR_BAD_ARGUMENT);
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    weir_limiter *next = make_next(&w, rules[i]);
    assert_int_equal(weir_limiter_follow(next, w.limiter, &message), WEIR_BAD_ARGUMENT);
    assert_string_equal(message.text,
                        "the limiter before: accepted is another one on the same store, whose "
                        "rules count on the same keys");
    weir_limiter_destroy(next);
  }
  world_close(&w);
}

int main(void) {
  static const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_admitted_counts_on),
      cmocka_unit_test(a_blocked_key_stays_blocked),
      cmocka_unit_test(a_tier_that_was_unknown_may_be_known_now),
      cmocka_unit_test(a_share_goes_on),
      cmocka_unit_test(leases_may_come_and_go),
      cmocka_unit_test(it_can_follow_nobody_again),
      cmocka_unit_test(who_is_followed_follows_nobody),
      cmocka_unit_test(other_counts_are_not_followed),
  };
  return cmocka_run_group_tests_name("limiter follow", tests, NULL, NULL);
}

/* Rules that change while keys are in use: docs/changing-rules.md, statement by statement. On every
 * store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

static weir_limiter_options patient(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US};
}

/* Where nobody charges in vain, all stores put back at once what is too far ahead. */
static weir_limiter_options alone(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US, .processes = 1};
}

static void open_on(world *w, int store, const char *rules) {
  char url[STORE_URL_BYTES];
  weir_limiter_options options = patient();
  world_open(w, stores_url(store, url), rules, &options);
}

/* Looks at the key under `rules` now, by a limiter of their own. */
static weir_decision look(world *w, const char *rules) {
  weir_limiter_options options = patient();
  weir_limiter *limiter = world_limiter(w, rules, &options);
  weir_decision decision = limiter_peek(limiter, "k", 1);
  weir_limiter_destroy(limiter);
  return decision;
}

/* One rule under which 3 were taken, and another under which so many are left. */
typedef struct change {
  const char *from;
  const char *to;
  int64_t left;
} change;

static void check(int store, const change *one) {
  world w;
  open_on(&w, store, one->from);
  for (int i = 0; i < 3; i++)
    assert_true(world_take(&w, "k", 1).allowed);
  int64_t left = look(&w, one->to).remaining;
  if (left != one->left)
    fail_msg("%s: from %s to %s: %d left instead of %d", stores[store].name, one->from, one->to,
             (int)left, (int)one->left);
  world_close(&w);
}

static void check_all(const change *changes, size_t count) {
  for (int store = 0; store < STORES; store++)
    for (size_t i = 0; i < count; i++)
      check(store, &changes[i]);
}

#define CHECK(changes) check_all(changes, sizeof(changes) / sizeof(changes)[0])

static void what_was_charged_counts_against_another_limit(void **state) {
  static const change changes[] = {
      {"fixed-window:5/1h", "fixed-window:9/1h", 6},
      {"fixed-window:5/1h", "fixed-window:4/1h", 1},
      {"fixed-window:5/1h", "fixed-window:2/1h", 0},
      {"fixed-window:5/1h,count=all", "fixed-window:9/1h,count=all", 6},
      {"sliding-window:5/1h", "sliding-window:9/1h", 6},
      {"sliding-window:5/1h", "sliding-window:4/1h", 1},
      {"sliding-window:5/1h,cells=16", "sliding-window:100/1h,cells=16", 97},
      {"quota:5/1h", "quota:9/1h", 6},
      {"quota:5/1h", "quota:2/1h", 0},
      {"quota:5/1h,count=all", "quota:9/1h,count=all", 6},
      {"sliding-log:5/1h", "sliding-log:9/1h", 6},
      {"sliding-log:5/1h", "sliding-log:4/1h", 1},
      {"sliding-log:5/1h", "sliding-log:3/1h", 0},
  };
  (void)state;
  CHECK(changes);
}

static void options_outside_the_tag_are_free_to_change(void **state) {
  static const change changes[] = {
      {"fixed-window:5/1h", "fixed-window:5/1h,hold=1s", 2},
      {"sliding-window:5/1h", "sliding-window:5/1h,strict", 2},
      {"sliding-window:5/1h,strict,hold=1s", "sliding-window:5/1h", 2},
      {"quota:5/1h,hold=1s", "quota:5/1h", 2},
      {"quota:5/1h,lease=1s", "quota:5/1h", 2},
      {"token-bucket:5/1h", "token-bucket:5/1h,lease=1ms", 1}, /* and one is kept back */
      {"sliding-log:5/1h", "sliding-log:5/1h,hold=60s", 2},
      {"token-bucket:5/1h", "token-bucket:5/1h,hold=1ms", 2},
      {"leaky-bucket:5/1h,queue=4", "leaky-bucket:5/1h,queue=4,hold=1s", 2},
  };
  (void)state;
  CHECK(changes);
}

/* 3 tokens at one a second are 3 s; these are 6 tokens at twice the rate, and 1.5 at half. */
static void a_bucket_keeps_its_time(void **state) {
  static const change changes[] = {
      {"token-bucket:10/10s", "token-bucket:20/10s", 14},
      {"token-bucket:10/10s", "token-bucket:5/10s", 3},
      {"token-bucket:10/10s", "token-bucket:10/10s,burst=12", 9},
      {"token-bucket:10/10s", "token-bucket:10/10s,burst=4", 1},
      {"token-bucket:10/10s", "token-bucket:10/10s,burst=2", 0},
      {"leaky-bucket:10/10s,queue=9", "leaky-bucket:20/10s,queue=9", 4},
      {"leaky-bucket:10/10s,queue=9", "leaky-bucket:10/10s,queue=19", 17},
      {"leaky-bucket:10/10s,queue=9", "leaky-bucket:10/10s,queue=3", 1},
      {"leaky-bucket:10/10s,queue=9", "leaky-bucket:10/10s", 0},
  };
  (void)state;
  CHECK(changes);
}

static void another_meaning_starts_anew(void **state) {
  static const change changes[] = {
      {"fixed-window:5/1h", "fixed-window:5/1d", 5},
      {"fixed-window:60/1m", "fixed-window:1/1s", 1},
      {"fixed-window:5/1h", "fixed-window:5/1h,name=a", 5},
      {"fixed-window:5/1h", "fixed-window:5/1h,count=all", 5},
      {"fixed-window:5/1h", "sliding-window:5/1h,cells=1", 5},
      {"sliding-window:5/1h", "sliding-window:5/1h,cells=8", 5},
      {"sliding-window:5/1h", "sliding-window:5/1h,count=all", 5},
      {"quota:5/1h", "fixed-window:5/1h", 5},
      {"quota:5/1h", "quota:5/1h,count=all", 5},
      {"quota:5/1h", "quota:5/2h", 5},
      {"sliding-log:5/1h", "sliding-log:5/1h,name=a", 5},
      {"sliding-log:5/1h", "sliding-log:5/2h", 5},
      {"sliding-log:5/1h", "sliding-log:5/1h;sliding-log:9/1d", 5}, /* a longer log */
      {"sliding-log:5/1h;sliding-log:9/1d", "sliding-log:5/1h", 5},
      {"token-bucket:10/10s", "token-bucket:60/1m", 60},
      {"token-bucket:5/1h", "leaky-bucket:5/1h,queue=4", 5},
      {"leaky-bucket:5/1h,queue=4", "leaky-bucket:5/1h,queue=4,name=a", 5},
  };
  (void)state;
  CHECK(changes);
}

static void the_other_rules_of_a_stack_continue(void **state) {
  static const change changes[] = {
      {"fixed-window:5/1h", "fixed-window:5/1h;quota:9/1h", 2},
      {"fixed-window:5/1h;quota:9/1h", "fixed-window:5/1h", 2},
      {"fixed-window:5/1h;quota:9/1h;token-bucket:7/1h", "quota:9/1h", 6},
      {"fixed-window:9/1h;token-bucket:7/1h", "token-bucket:7/1h;fixed-window:9/1h", 4},
      {"sliding-window:5/1h;sliding-log:9/1h", "sliding-log:9/1h", 6},
      {"fixed-window:9/1h;quota:9/1d", "fixed-window:5/1h;quota:9/1d", 2},
      {"sliding-log:9/1d", "sliding-log:5/1h;sliding-log:9/1d", 2},
      {"sliding-log:9/1d;sliding-log:5/1h", "sliding-log:9/1d", 6},
      {"sliding-log:5/1m;sliding-log:9/1d", "sliding-log:4/1h;sliding-log:9/1d;sliding-log:6/1s",
       1},
      {"quota:7/1h;sliding-log:5/1m;sliding-log:9/1d", "sliding-log:4/1d", 1},
      {"sliding-log:5/1m;sliding-log:9/1d", "sliding-log:100000/1d;sliding-log:5/1m", 2},
  };
  (void)state;
  CHECK(changes);
}

/* With the default of 64 processes. */
static void layout_classes_of_sliding_windows_start_anew(void **state) {
  static const change changes[] = {
      {"sliding-window:246/1h", "sliding-window:3/1h", 0},
      {"sliding-window:5/1h", "sliding-window:246/1h", 243},
      {"sliding-window:246/1h", "sliding-window:247/1h", 247},
      {"sliding-window:247/1h", "sliding-window:246/1h", 246},
      {"sliding-window:247/1h", "sliding-window:16146493/1h", 16146490},
      {"sliding-window:16146493/1h", "sliding-window:16146494/1h", 16146494},
      {"sliding-window:16146494/1h", "sliding-window:1000000000/1h", 999999997},
      {"sliding-window:16146494/1h", "sliding-window:247/1h", 247},
      {"sliding-window:5/1h,cells=1", "sliding-window:240/1h,cells=1", 237},
      {"sliding-window:240/1h,cells=1", "sliding-window:241/1h,cells=1", 241},
      {"sliding-window:241/1h,cells=1", "sliding-window:15790320/1h,cells=1", 15790317},
      {"sliding-window:241/1h,cells=1", "sliding-window:15790321/1h,cells=1", 15790321},
      {"sliding-window:5/1h,cells=2", "sliding-window:244/1h,cells=2", 241},
      {"sliding-window:244/1h,cells=2", "sliding-window:245/1h,cells=2", 245},
      {"sliding-window:245/1h,cells=2", "sliding-window:16025997/1h,cells=2", 16025994},
      {"sliding-window:245/1h,cells=2", "sliding-window:16025998/1h,cells=2", 16025998},
      {"sliding-window:5/1h,strict", "sliding-window:248/1h,strict", 245},
      {"sliding-window:248/1h,strict", "sliding-window:249/1h,strict", 249},
      {"sliding-window:249/1h,strict", "sliding-window:16268815/1h,strict", 16268812},
      {"sliding-window:249/1h,strict", "sliding-window:16268816/1h,strict", 16268816},
      {"sliding-window:247/1h", "sliding-window:247/1h,strict", 247},
      /* beside a rule that counts all, and not beside it */
      {"sliding-window:5/1h", "sliding-window:5/1h;fixed-window:9/1d,count=all", 5},
      {"sliding-window:5/1h;fixed-window:9/1d,count=all", "sliding-window:5/1h", 5},
      {"fixed-window:5/1h", "fixed-window:5/1h;fixed-window:9/1d,count=all", 2},
  };
  (void)state;
  CHECK(changes);
}

static void the_number_of_processes_moves_the_classes(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_limiter_options few = patient();
    few.processes = 4;
    open_on(&w, store, "sliding-window:100/1h");
    world_take(&w, "k", 3);
    weir_limiter *limiter = world_limiter(&w, "sliding-window:2520/1h", &few);
    assert_int_equal(limiter_peek(limiter, "k", 1).remaining, 2517);
    weir_limiter_destroy(limiter);
    limiter = world_limiter(&w, "sliding-window:2521/1h", &few);
    assert_int_equal(limiter_peek(limiter, "k", 1).remaining, 2521);
    weir_limiter_destroy(limiter);
    weir_limiter_options many = patient();
    many.processes = 1000;
    limiter = world_limiter(&w, "sliding-window:100/1h", &many);
    assert_int_equal(limiter_peek(limiter, "k", 1).remaining, 100);
    weir_limiter_destroy(limiter);
    world_close(&w);
  }
}

static void units_of_buckets_start_anew(void **state) {
  static const change changes[] = {
      {"token-bucket:977/1s", "token-bucket:978/1s", 978},
      {"token-bucket:978/1s", "token-bucket:977/1s", 977},
      {"token-bucket:1000977/1s", "token-bucket:1000978/1s", 1000978},
      {"token-bucket:1000978/1s", "token-bucket:1000977/1s", 1000977},
      {"leaky-bucket:977/1s,queue=9", "leaky-bucket:978/1s,queue=9", 10},
      /* within one: 3 of 977 us and of 978 us are as many at nearly the same rate, rounded down */
      {"token-bucket:976/1s", "token-bucket:977/1s", 973},
      {"token-bucket:978/1s", "token-bucket:979/1s", 975},
      {"token-bucket:1000978/1s", "token-bucket:2001956/1s", 2001950},
      {"leaky-bucket:976/1s,queue=9", "leaky-bucket:977/1s,queue=9", 6},
  };
  (void)state;
  CHECK(changes);
}

static void a_quota_keeps_the_end_of_its_window(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "quota:2/1m");
    world_set(&w, 10 * SECOND_US);
    world_take(&w, "k", 2);
    world_set(&w, 30 * SECOND_US);
    assert_denied(look(&w, "quota:1/1m"), 0, 40 * SECOND_US, 40 * SECOND_US);
    assert_allowed(look(&w, "quota:3/1m"), 1, 40 * SECOND_US);
    world_close(&w);
  }
}

/* Entries at 0, 10, 20 s: a limit of 2 waits for the second newest to leave, one of 1 for the
 * newest. */
static void a_log_decides_as_if_its_limit_had_always_been_there(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "sliding-log:3/1m");
    for (int64_t i = 0; i < 3; i++) {
      world_set(&w, i * 10 * SECOND_US);
      assert_true(world_take(&w, "k", 1).allowed);
    }
    world_set(&w, 30 * SECOND_US);
    assert_int_equal(look(&w, "sliding-log:3/1m").retry_after_us, 30 * SECOND_US);
    assert_int_equal(look(&w, "sliding-log:2/1m").retry_after_us, 40 * SECOND_US);
    assert_int_equal(look(&w, "sliding-log:1/1m").retry_after_us, 50 * SECOND_US);
    assert_int_equal(look(&w, "sliding-log:5/1m").remaining, 2);
    world_close(&w);
  }
}

static void a_window_denies_until_the_charges_have_left_it(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "fixed-window:5/1m");
    world_take(&w, "k", 5);
    world_set(&w, 20 * SECOND_US);
    assert_denied(look(&w, "fixed-window:3/1m"), 0, 40 * SECOND_US, 40 * SECOND_US);
    world_set(&w, 60 * SECOND_US);
    assert_allowed(look(&w, "fixed-window:3/1m"), 3, 0);
    world_close(&w);
  }
}

/* 4 s are ahead; room for one of 1 s within a burst of 2 s is there after 3 s. */
static void a_smaller_bucket_denies_until_what_is_charged_fits_into_it(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    open_on(&w, store, "token-bucket:10/10s");
    world_take(&w, "k", 4);
    assert_denied(look(&w, "token-bucket:10/10s,burst=2"), 0, 3 * SECOND_US, 4 * SECOND_US);
    world_close(&w);
    open_on(&w, store, "leaky-bucket:10/10s,queue=9");
    world_take(&w, "k", 4);
    assert_denied(look(&w, "leaky-bucket:10/10s,queue=1"), 0, 3 * SECOND_US, 4 * SECOND_US);
    world_close(&w);
  }
}

/* 1000 s are ahead; a full bucket is 2 s, and the longest wait is 60 s. */
static void a_bucket_made_much_smaller_counts_as_full(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_limiter_options options = alone();
    open_on(&w, store, "token-bucket:10/10s,burst=1000");
    world_take(&w, "k", 1000);
    weir_limiter *small = world_limiter(&w, "token-bucket:10/10s,burst=2", &options);
    assert_denied(limiter_peek(small, "k", 1), 0, SECOND_US, 2 * SECOND_US);
    assert_false(limiter_take(small, "k", 1).allowed);
    world_set(&w, SECOND_US);
    assert_true(limiter_take(small, "k", 1).allowed);
    assert_false(limiter_take(small, "k", 1).allowed);
    world_set(&w, 3 * SECOND_US);
    assert_int_equal(limiter_peek(small, "k", 1).remaining, 2);
    weir_limiter_destroy(small);
    world_close(&w);
  }
}

static void going_back_continues_what_still_lives(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    world w;
    weir_limiter_options options = patient();
    open_on(&w, store, "sliding-window:246/1h");
    world_take(&w, "k", 3);
    weir_limiter *other = world_limiter(&w, "sliding-window:247/1h", &options);
    limiter_take(other, "k", 100);
    weir_limiter_destroy(other);
    assert_int_equal(look(&w, "sliding-window:246/1h").remaining, 243);
    world_close(&w);
  }
}

static void limiters_with_both_texts_admit_no_more_than_the_larger_limit_allows(void **state) {
  static const change pairs[] = {
      {"fixed-window:5/1h", "fixed-window:9/1h", 9},
      {"sliding-window:5/1h", "sliding-window:9/1h", 9},
      {"quota:5/1h", "quota:9/1h", 9},
      {"sliding-log:5/1h", "sliding-log:9/1h", 9},
      {"sliding-log:5/1h;sliding-log:8/1d", "sliding-log:7/1m;sliding-log:9/1d", 7},
      {"sliding-log:5/1h;sliding-log:8/1d", "sliding-log:6/1d", 6},
      {"token-bucket:9/1m,burst=5", "token-bucket:9/1m", 9},
      {"leaky-bucket:9/1m,queue=4", "leaky-bucket:9/1m,queue=8", 9},
      {"token-bucket:5/1h", "token-bucket:9/1h", 6}, /* of 720 s and of 400 s, in turn */
  };
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
      world w;
      weir_limiter_options options = patient();
      int64_t admitted = 0;
      open_on(&w, store, pairs[i].from);
      weir_limiter *other = world_limiter(&w, pairs[i].to, &options);
      for (int j = 0; j < 12; j++)
        admitted += world_take(&w, "k", 1).allowed + limiter_take(other, "k", 1).allowed;
      if (admitted != pairs[i].left)
        fail_msg("%s: %s and %s: %d admitted", stores[store].name, pairs[i].from, pairs[i].to,
                 (int)admitted);
      weir_limiter_destroy(other);
      world_close(&w);
    }
  }
}

/* A minute a token. Full, the smaller bucket lasts 2 minutes, and the longest wait is one. The
 * smaller rule takes for the mistake of a clock what is further ahead, even while it denies. */
static void a_bucket_pulls_back_one_that_lasts_longer_than_the_wait(void **state) {
  static const struct {
    const char *large;
    int64_t burst, left;
  } cases[] = {{"token-bucket:60/1h,burst=3", 3, 0}, {"token-bucket:60/1h,burst=4", 4, 2}};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < 2; i++) {
      world w;
      weir_limiter_options options = alone();
      open_on(&w, store, cases[i].large);
      weir_limiter *small = world_limiter(&w, "token-bucket:60/1h,burst=2", &options);
      assert_true(world_take(&w, "k", cases[i].burst).allowed);
      assert_false(limiter_take(small, "k", 1).allowed);
      assert_int_equal(look(&w, cases[i].large).remaining, cases[i].left);
      weir_limiter_destroy(small);
      world_close(&w);
    }
  }
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_charged_counts_against_another_limit),
      cmocka_unit_test(options_outside_the_tag_are_free_to_change),
      cmocka_unit_test(a_bucket_keeps_its_time),
      cmocka_unit_test(another_meaning_starts_anew),
      cmocka_unit_test(the_other_rules_of_a_stack_continue),
      cmocka_unit_test(layout_classes_of_sliding_windows_start_anew),
      cmocka_unit_test(the_number_of_processes_moves_the_classes),
      cmocka_unit_test(units_of_buckets_start_anew),
      cmocka_unit_test(a_quota_keeps_the_end_of_its_window),
      cmocka_unit_test(a_log_decides_as_if_its_limit_had_always_been_there),
      cmocka_unit_test(a_window_denies_until_the_charges_have_left_it),
      cmocka_unit_test(a_smaller_bucket_denies_until_what_is_charged_fits_into_it),
      cmocka_unit_test(a_bucket_made_much_smaller_counts_as_full),
      cmocka_unit_test(going_back_continues_what_still_lives),
      cmocka_unit_test(limiters_with_both_texts_admit_no_more_than_the_larger_limit_allows),
      cmocka_unit_test(a_bucket_pulls_back_one_that_lasts_longer_than_the_wait),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

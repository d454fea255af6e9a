/* Lots that were charged ahead are used without the store, where they count; and what goes past
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/leases.h"

static void nothing_is_leased_for_a_few_requests(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    lease_open(&w, lease_windows[i], 0);
    for (int tenth = 0; tenth < 30; tenth++) {
      world_set(&w, tenth * SECOND_US / 10);
      assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
    }
    assert_int_equal(lease_counts(w.limiter).leased, 0);
    lease_close(&w);
  }
}

static void assert_uses_without_the_store(world *w, const char *rules, int64_t held) {
  int64_t remaining = world_peek(w, "k", 1).remaining;
  int64_t limit = world_peek(w, "k", 1).limit;
  uint64_t used = lease_counts(w->limiter).lease_used;
  fake_forget();
  for (int64_t left = held; left > 0; left--) {
    weir_decision decision = world_take(w, "k", 1);
    assert_true(decision.allowed);
    assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
    assert_int_equal(decision.store_status, WEIR_OK);
    assert_int_equal(decision.cost, 1);
    assert_int_equal(decision.limit, limit);
    remaining--;
    if (decision.remaining != WEIR_NOT_KNOWN) assert_int_equal(decision.remaining, remaining);
  }
  if (the_fake.counts.round_trips != 0) fail_msg("%s: the store was asked", rules);
  assert_int_equal(lease_counts(w->limiter).lease_used, used + (uint64_t)held);
  assert_int_equal(lease_held(w->limiter), 0);
}

static void a_use_asks_no_store(void **state) {
  world w;
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    lease_open(&w, lease_windows[i], 40);
    assert_uses_without_the_store(&w, lease_windows[i], lease_held(w.limiter));
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
    lease_close(&w);
  }
  lease_open(&w, lease_bucket, 40);
  assert_uses_without_the_store(&w, lease_bucket, lease_held(w.limiter));
  lease_close(&w);
}

/* The lot has drained from the bucket before it ends: then as much fits as ever does, and no
 * more. */
static void no_more_remains_than_ever_fits(void **state) {
  const char *rules = "token-bucket:100000/1s,burst=20000,lease=20ms"; /* B' is 18000 */
  world w;
  (void)state;
  lease_open(&w, rules, 30);
  world_set(&w, 15000);
  for (int i = 0; i < 2; i++) {
    weir_decision decision = i == 0 ? world_peek(&w, "k", 1) : world_take(&w, "k", 1);
    assert_true(lease_held(w.limiter) > 0);
    assert_int_equal(decision.limit, 18000);
    assert_int_equal(decision.remaining, 18000);
  }
  lease_close(&w);
}

/* A use counts where it was charged: for a window at the time of the use, for a bucket at that of
 * the charge. */
static void a_use_is_stamped(void **state) {
  world w;
  (void)state;
  lease_open(&w, lease_windows[0], 9);
  world_set(&w, 5000);
  assert_int_equal(world_take(&w, "k", 1).at_us, START_US + 5000);
  lease_close(&w);
  lease_open(&w, lease_bucket, 9);
  world_set(&w, 5000);
  weir_decision decision = world_take(&w, "k", 1);
  assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
  assert_int_equal(decision.at_us, START_US);
  lease_close(&w);
}

/* --- what goes past the stock ------------------------------------------------------------------
 */

static void a_refund_finds_where_it_was_charged(void **state) {
  static const char *const rules[] = {"sliding-window:1000/1s,lease=1s",
                                      "fixed-window:1000/1s,lease=1s", "quota:1000/1s,lease=1s"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    lease_open(&w, rules[i], 30);
    world_set(&w, 100000);
    weir_decision decision = world_take(&w, "k", 5);
    assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
    assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
    world_set(&w, 400000); /* cells later: still in the window */
    int64_t room = lease_store_room(&w, rules[i], "k");
    assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 5, &decision, NULL), WEIR_OK);
    assert_int_equal(decision.cost, 0);
    assert_int_equal(lease_store_room(&w, rules[i], "k"), room + 5);
    lease_close(&w);
  }
}

/* A bucket gives back what has not drained since the charge, and that began before the use. */
static void a_refund_of_a_bucket_counts_from_the_charge(void **state) {
  static const char rules[] = "token-bucket:1000/1s,burst=20020,lease=20ms";
  world w;
  (void)state;
  lease_open(&w, rules, 15);
  world_set(&w, 4000);
  weir_decision decision = world_take(&w, "k", 15);
  assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
  world_set(&w, 6000);
  int64_t room = lease_store_room(&w, rules, "k");
  assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 15, &decision, NULL), WEIR_OK);
  assert_in_range(lease_store_room(&w, rules, "k"), room, room + 9);
  lease_close(&w);
}

/* The bucket leaves room for the leases of others all the same. */
static void no_leases_means_none(void **state) {
  const char *rules[LEASE_WINDOWS + 1] = {"token-bucket:1000/1s,burst=1020,lease=20ms"};
  (void)state;
  memcpy(rules + 1, lease_windows, sizeof lease_windows);
  for (size_t i = 0; i < LEASE_WINDOWS + 1; i++) {
    world w;
    weir_limiter_options options = {.processes = 1, .flags = WEIR_NO_LEASES};
    world_open_backend(&w, &fake_backend, "fake:", rules[i], &options);
    for (int n = 0; n < 1000; n++)
      assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
    assert_int_equal(lease_counts(w.limiter).leased, 0);
    weir_decision decision = world_take(&w, "k", 1);
    assert_false(decision.allowed);
    assert_int_equal(decision.limit, 1000);
    lease_close(&w);
  }
}

/* --- readings of the clock ---------------------------------------------------------------------
 */

/* A thread reads the clock, and before it goes on another is granted a lot. */
static struct {
  hand_clock clock;
  weir_limiter *limiter; /* NULL: nobody comes between */
} between;

static int64_t read_and_be_overtaken(void *context) {
  int64_t read_us = between.clock.now_us;
  weir_limiter *limiter = between.limiter;
  (void)context;
  if (limiter == NULL) return read_us;
  between.limiter = NULL;
  between.clock.now_us += 50; /* the clock's guard lets so little pass */
  for (int i = 0; i < 2000 && lease_held(limiter) < 8; i++)
    limiter_take(limiter, "k", 1);
  return read_us;
}

static void a_reading_older_than_a_lot_is_read_again(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    weir_limiter *limiter;
    weir_limiter_options options = {.size = sizeof options,
                                    .processes = 1,
                                    .deadline_us = SECOND_US,
                                    .fallback = WEIR_FALLBACK_NONE,
                                    .clock = {.now_us = read_and_be_overtaken}};
    between.clock.now_us = START_US;
    between.limiter = NULL;
    world_open_backend(&w, &fake_backend, "fake:", lease_windows[i], NULL);
    assert_int_equal(weir_limiter_create(w.store, lease_windows[i], &options, &limiter, NULL),
                     WEIR_OK);
    limiter_take(limiter, "k", 1);
    between.limiter = limiter;
    weir_decision decision = limiter_take(limiter, "k", 1);
    assert_null(between.limiter);
    assert_true(decision.allowed);
    assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
    assert_int_equal(decision.at_us, START_US + 50); /* not before the charge */
    weir_limiter_destroy(limiter);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_leased_for_a_few_requests),
      cmocka_unit_test(a_use_asks_no_store),
      cmocka_unit_test(no_more_remains_than_ever_fits),
      cmocka_unit_test(a_use_is_stamped),
      cmocka_unit_test(a_refund_finds_where_it_was_charged),
      cmocka_unit_test(a_refund_of_a_bucket_counts_from_the_charge),
      cmocka_unit_test(no_leases_means_none),
      cmocka_unit_test(a_reading_older_than_a_lot_is_read_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

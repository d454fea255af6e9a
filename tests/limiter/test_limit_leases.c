/* Limits of keys beside lots: what is charged ahead goes by the key's own limit, and no request is admitted by
 * a record that was read too long ago. On every store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/leases.h"
#include "limiter/stores.h"

enum { RULES = 5, WINDOWS = 4, LIMIT = 1000000, AGE_US = 100000, HELD = 20 };

static const char *const rules[RULES] = {
    "fixed-window:10/1h,lease=1s,most=1000000", "sliding-window:10/1h,lease=1s,most=1000000",
    "sliding-window:10/1h,strict,lease=1s,most=1000000", "quota:10/1h,lease=1s,most=1000000",
    "token-bucket:1/1s,burst=4,lease=1s,most=1000000"};

static weir_limiter_options reading(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US,
                                .limits_us = AGE_US,
                                .processes = 1,
                                .renew = WEIR_RENEW_BY_CALLER};
}

static void set(weir_limiter *limiter, unsigned kind, int64_t limit) {
  weir_limit one = {.key = "k", .key_length = 1, .kind = kind, .limit = limit};
  weir_message why = {""};
  if (weir_limiter_set_limits(limiter, &one, 1, &why) != WEIR_OK) fail_msg("%s", why.text);
}

/* A limiter that holds some of "k", which has a limit of its own, and another process that sets limits. */
typedef struct held {
  world w;
  weir_limiter *writer;
} held;

static void hold_some(held *h, int store, const char *rule) {
  weir_limiter_options options = reading(), plain = {.deadline_us = 20 * SECOND_US};
  char url[STORE_URL_BYTES];
  world_open(&h->w, stores_url(store, url), rule, &options);
  h->writer = world_limiter(&h->w, rule, &plain);
  set(h->writer, WEIR_KEY_LIMIT_NUMBER, LIMIT);
  lease_fill(&h->w, "k", HELD);
}

static void let_go(held *h) {
  weir_limiter_destroy(h->writer);
  world_close(&h->w);
}

static void on_all(void (*check)(held *h, size_t rule), size_t rule_count) {
  for (int store = 0; store < STORES; store++) {
    for (size_t i = 0; i < rule_count; i++) {
      held h;
      hold_some(&h, store, rules[i]);
      check(&h, i);
      let_go(&h);
    }
  }
}

/* --- by the limit of the key -------------------------------------------------------------------
 */

static void tell_the_limit(held *h, size_t rule) {
  bool bucket = rule == WINDOWS;
  weir_decision local = world_take(&h->w, "k", 1);
  assert_int_equal(local.source, WEIR_SOURCE_LOCAL);
  assert_int_equal(local.limit, bucket ? 3 * (int64_t)LIMIT : LIMIT);
  assert_true(local.remaining > LIMIT / 2);
  assert_int_equal(world_peek(&h->w, "k", 1).limit, local.limit);
}

static void a_lot_is_charged_by_the_limit_of_its_key(void **state) {
  (void)state;
  on_all(tell_the_limit, RULES);
}

/* --- by a record that was read lately -----------------------------------------------------------
 */

/* Of the windows no request waits for the reading any longer than for its charge. */
static void use_for_long(held *h, size_t rule) {
  weir_limiter_counts before = lease_counts(h->w.limiter);
  for (int i = 1; i <= 5; i++) {
    world_set(&h->w, i * AGE_US - 1);
    assert_true(world_take(&h->w, "k", 1).allowed);
    world_set(&h->w, i * AGE_US);
    weir_decision decision = world_take(&h->w, "k", 1);
    assert_true(decision.allowed);
    assert_true(decision.limit >= LIMIT);
  }
  uint64_t trips = lease_counts(h->w.limiter).round_trips - before.round_trips;
  assert_in_range(trips, 5, rule < 3 ? 5 : 15);
}

static void lots_do_not_keep_a_record_alive(void **state) {
  (void)state;
  on_all(use_for_long, RULES);
}

static void block(held *h, size_t rule) {
  bool bucket = rule == WINDOWS;
  set(h->writer, WEIR_KEY_LIMIT_BLOCKED, 0);
  world_set(&h->w, AGE_US - 1);
  weir_limiter_counts last = lease_counts(h->w.limiter);
  assert_int_equal(world_take(&h->w, "k", 1).source, WEIR_SOURCE_LOCAL);
  world_set(&h->w, AGE_US);
  weir_decision blocked = world_take(&h->w, "k", 1);
  assert_false(blocked.allowed);
  assert_int_equal(blocked.retry_after_us, WEIR_NEVER);
  assert_int_equal(blocked.remaining, 0);
  assert_false(world_peek(&h->w, "k", 1).allowed);
  assert_false(world_take(&h->w, "k", 1).allowed);
  assert_int_equal(weir_limiter_return_leases(h->w.limiter, NULL), WEIR_OK);
  weir_limiter_counts counts = lease_counts(h->w.limiter);
  assert_int_equal(lease_held(h->w.limiter), 0);
  assert_int_equal(counts.lease_used, last.lease_used + 1);
  assert_true((bucket ? counts.lease_lost : counts.lease_returned) >= HELD - 1);
  set(h->writer, WEIR_KEY_LIMIT_NUMBER, LIMIT);
  world_set(&h->w, 2 * AGE_US);
  weir_decision again = world_take(&h->w, "k", 1);
  assert_true(again.allowed);
  if (!bucket) assert_int_equal(again.remaining, LIMIT - (int64_t)counts.allowed - 1);
}

static void a_key_that_is_blocked_gives_its_lots_back(void **state) {
  (void)state;
  on_all(block, RULES);
}

/* Who blocks a key itself admits nothing more. */
static void block_itself(held *h, size_t rule) {
  (void)rule;
  set(h->w.limiter, WEIR_KEY_LIMIT_BLOCKED, 0);
  assert_false(world_take(&h->w, "k", 1).allowed);
  assert_int_equal(weir_limiter_return_leases(h->w.limiter, NULL), WEIR_OK);
  assert_int_equal(lease_held(h->w.limiter), 0);
}

static void who_blocks_a_key_gives_its_lots_back(void **state) {
  (void)state;
  on_all(block_itself, RULES);
}

/* Once its record is read, nothing more is charged, and nothing of what was is used. */
static void lift(held *h, size_t rule) {
  bool bucket = rule == WINDOWS;
  set(h->writer, WEIR_KEY_LIMIT_UNLIMITED, 0);
  world_set(&h->w, AGE_US);
  uint64_t used = lease_counts(h->w.limiter).lease_used;
  uint64_t charged = lease_counts(h->w.limiter).allowed;
  for (int i = 0; i < 2 * HELD; i++)
    assert_int_equal(world_take(&h->w, "k", LIMIT).source, WEIR_SOURCE_UNLIMITED);
  assert_int_equal(weir_limiter_return_leases(h->w.limiter, NULL), WEIR_OK);
  weir_limiter_counts counts = lease_counts(h->w.limiter);
  assert_int_equal(lease_held(h->w.limiter), 0);
  assert_int_equal(counts.lease_used, used);
  assert_true((bucket ? counts.lease_lost : counts.lease_returned) >= HELD - 1);
  set(h->writer, WEIR_KEY_LIMIT_NUMBER, LIMIT);
  world_set(&h->w, 2 * AGE_US);
  weir_decision again = world_take(&h->w, "k", 1);
  assert_true(again.allowed);
  if (!bucket) assert_int_equal(again.remaining, LIMIT - (int64_t)charged - 1);
}

static void an_unlimited_key_gives_its_lots_back(void **state) {
  (void)state;
  on_all(lift, WINDOWS);
}

/* Of several rules one lets go, and the others count on, without lots. */
static void other_rules_count_on(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    held h;
    hold_some(&h, store, "fixed-window:10/1h,lease=1s,most=1000000;quota:2000/1d,lease=1s");
    set(h.writer, WEIR_KEY_LIMIT_UNLIMITED, 0);
    world_set(&h.w, AGE_US);
    int64_t admitted = 0;
    for (weir_decision decision; admitted < LIMIT; admitted++) {
      decision = world_take(&h.w, "k", 1);
      if (decision.allowed) assert_int_equal(decision.source, WEIR_SOURCE_UNLIMITED);
      if (!decision.allowed) assert_int_equal(decision.limit, 2000);
      if (!decision.allowed) break;
    }
    uint64_t all = lease_counts(h.w.limiter).allowed;
    assert_int_equal(weir_limiter_return_leases(h.w.limiter, NULL), WEIR_OK);
    assert_int_equal(lease_held(h.w.limiter), 0);
    assert_int_equal(all, 2000);
    set(h.writer, WEIR_KEY_LIMIT_NUMBER, LIMIT);
    world_set(&h.w, 2 * AGE_US);
    assert_false(world_take(&h.w, "k", 1).allowed);
    let_go(&h);
  }
}

/* --- settling ------------------------------------------------------------------------------------
 */

/* A bucket that has admitted much may lose more of what is charged ahead. How much is held after a charge behind the
 * use of a lot: by a request, or by a settlement. */
static int64_t held_behind(int store, bool settles) {
  weir_decision taken;
  held h;
  hold_some(&h, store, rules[WINDOWS]);
  for (int i = 0; i < 20; i++)
    assert_true(world_take(&h.w, "k", LIMIT / 20).allowed);
  lease_fill(&h.w, "k", HELD);
  taken = world_take(&h.w, "k", 1);
  uint64_t used = lease_counts(h.w.limiter).lease_used;
  if (settles)
    assert_int_equal(weir_limiter_settle(h.w.limiter, "k", 1, 2, &taken, NULL), WEIR_OK);
  else
    assert_true(world_take(&h.w, "k", 1).allowed);
  assert_int_equal(lease_counts(h.w.limiter).lease_used, used + 1);
  assert_true(world_take(&h.w, "k", lease_held(h.w.limiter) + 1).allowed);
  int64_t left = lease_held(h.w.limiter);
  let_go(&h);
  return left;
}

static void a_settlement_from_a_lot_goes_by_the_limit_of_its_key(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    int64_t left = held_behind(store, false);
    assert_true(left > LIMIT / 100);
    assert_int_equal(held_behind(store, true), left);
  }
}

/* --- other limits -------------------------------------------------------------------------------
 */

/* What is held was charged when there was room for it; nothing more is. A bucket has drained meanwhile. */
static void lower(held *h, size_t rule) {
  (void)rule;
  set(h->writer, WEIR_KEY_LIMIT_NUMBER, 10);
  world_set(&h->w, AGE_US);
  int64_t left = lease_held(h->w.limiter);
  for (int64_t i = 0; i < left; i++)
    assert_true(world_take(&h->w, "k", 1).allowed);
  weir_decision denied = world_take(&h->w, "k", 1);
  assert_false(denied.allowed);
  assert_int_equal(denied.limit, 10);
  assert_int_equal(lease_held(h->w.limiter), 0);
}

static void what_is_held_under_a_lower_limit_is_used_up(void **state) {
  (void)state;
  on_all(lower, WINDOWS);
}

/* Under classes: a lot that a low one charged is of use to all, also when the limit has become another. */
static void classes_go_by_the_limit_of_their_key(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++) {
    weir_extra extra = WEIR_EXTRA_INIT;
    const weir_extra *extras[1] = {&extra};
    weir_request request = {.key = "k", .key_length = 1, .cost = 1};
    int64_t admitted = 0;
    held h;
    extra.class_name = "low";
    hold_some(&h, store, "fixed-window:10/1h,classes=low:50%,lease=1s,most=1000000");
    set(h.writer, WEIR_KEY_LIMIT_NUMBER, 4000);
    world_set(&h.w, AGE_US);
    do {
      assert_int_equal(weir_decide_extra(&h.w.limiter, &request, extras, 1, NULL), WEIR_OK);
      admitted += request.decision.allowed;
    } while (request.decision.allowed && admitted < LIMIT);
    uint64_t all = lease_counts(h.w.limiter).allowed;
    assert_int_equal(request.decision.limit, 2000);
    assert_int_equal(all + (uint64_t)lease_held(h.w.limiter), 2000);
    assert_true(world_take(&h.w, "k", 1).allowed);
    let_go(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_lot_is_charged_by_the_limit_of_its_key),
      cmocka_unit_test(lots_do_not_keep_a_record_alive),
      cmocka_unit_test(a_key_that_is_blocked_gives_its_lots_back),
      cmocka_unit_test(who_blocks_a_key_gives_its_lots_back),
      cmocka_unit_test(an_unlimited_key_gives_its_lots_back),
      cmocka_unit_test(other_rules_count_on),
      cmocka_unit_test(a_settlement_from_a_lot_goes_by_the_limit_of_its_key),
      cmocka_unit_test(what_is_held_under_a_lower_limit_is_used_up),
      cmocka_unit_test(classes_go_by_the_limit_of_their_key),
  };
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

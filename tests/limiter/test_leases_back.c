/* A lot that was charged ahead and not used goes back by one command, and to its own cell alone; or
 * it is forgotten, with a step of the clock or a reset. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/leases.h"
#include "limiter/limiter.h"

/* The operations of the last exec. */
static struct {
  size_t count;
  weir_operation operations[FAKE_ANSWERS_MOST];
} seen;

static void see(weir_store *behind, const weir_operation *operations, size_t count) {
  (void)behind;
  assert_true(count <= FAKE_ANSWERS_MOST);
  seen.count = count;
  memcpy(seen.operations, operations, count * sizeof *operations);
}

static void assert_adds_up(const world *w, int64_t leased, int64_t used, int64_t returned,
                           int64_t lost) {
  weir_limiter_counts counts = lease_counts(w->limiter);
  assert_int_equal(counts.leased, leased);
  assert_int_equal(counts.lease_used, used);
  assert_int_equal(counts.lease_returned, returned);
  assert_int_equal(counts.lease_lost, lost);
}

/* By the next call, in the round trip that it needs anyway, in front of its own charge. */
static void what_was_not_used_goes_back_with_the_next_call(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    lease_open(&w, lease_windows[i], 30);
    weir_limiter_counts before = lease_counts(w.limiter);
    int64_t held = lease_held(w.limiter);
    int64_t room = lease_store_room(&w, lease_windows[i], "k");
    world_set(&w, 20000);
    the_fake.before = see;
    fake_forget();
    assert_true(world_take(&w, "k", 1).allowed);
    assert_int_equal(the_fake.counts.round_trips, 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
    assert_int_equal(seen.operations[0].kind, WEIR_SUB);
    assert_adds_up(&w, (int64_t)before.leased, (int64_t)before.lease_used, held, 0);
    assert_int_equal(lease_held(w.limiter), 0);
    assert_int_equal(lease_store_room(&w, lease_windows[i], "k"), room + held - 1);
    fake_forget();
    world_take(&w, "k", 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
    lease_close(&w);
  }
}

/* The lot lives inside its cell, which ends sooner than the lease; what it left must go back all
 * the same: it counts for the rest of the window. */
static void a_lot_ends_with_its_cell(void **state) {
  static const char *const rules[] = {"sliding-window:1000/1s,lease=1s",
                                      "sliding-window:1000/1s,strict,lease=1s"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world w;
    lease_open(&w, rules[i], 30);
    int64_t held = lease_held(w.limiter);
    world_set(&w, 249999);
    fake_forget();
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_LOCAL);
    assert_int_equal(the_fake.counts.round_trips, 0);
    world_set(&w, 250000);
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    assert_int_equal(lease_counts(w.limiter).lease_returned, held - 1);
    weir_limiter_counts counts = lease_counts(w.limiter);
    int64_t admitted = (int64_t)counts.allowed;
    assert_int_equal(lease_store_room(&w, rules[i], "k") + lease_held(w.limiter), 1000 - admitted);
    lease_close(&w);
  }
}

enum { OTHERS = 512 }; /* so many that every part of a table has some */

static void take_others(world *w) {
  for (int n = 0; n < OTHERS; n++) {
    char key[16];
    snprintf(key, sizeof key, "other%d", n);
    assert_true(world_take(w, key, 1).allowed);
  }
}

/* Whoever stops asking for a key gives back through the others. */
static void what_was_not_used_goes_back_with_calls_on_other_keys(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    lease_open(&w, lease_windows[i], 0);
    take_others(&w); /* what a key's first request needs is another matter */
    lease_fill(&w, "k", 30);
    int64_t held = lease_held(w.limiter);
    int64_t room = lease_store_room(&w, lease_windows[i], "k");
    world_set(&w, 20000);
    fake_forget();
    take_others(&w);
    assert_int_equal(the_fake.counts.round_trips, OTHERS);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    assert_int_equal(lease_counts(w.limiter).lease_returned, held);
    assert_int_equal(lease_store_room(&w, lease_windows[i], "k"), room + held);
    lease_close(&w);
  }
}

static void what_is_held_goes_back_when_asked(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    weir_message message = {""};
    lease_open(&w, lease_windows[i], 30);
    int64_t held = lease_fill(&w, "another", lease_held(w.limiter) + 30);
    weir_limiter_counts before = lease_counts(w.limiter);
    int64_t room = lease_store_room(&w, lease_windows[i], "k");
    fake_forget();
    assert_int_equal(weir_limiter_return_leases(w.limiter, &message), WEIR_OK);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 2);
    assert_int_equal(the_fake.counts.commands, 2);
    assert_adds_up(&w, (int64_t)before.leased, (int64_t)before.lease_used, held, 0);
    assert_true(lease_store_room(&w, lease_windows[i], "k") >= room + 30);
    fake_forget();
    assert_int_equal(weir_limiter_return_leases(w.limiter, &message), WEIR_OK);
    assert_int_equal(the_fake.counts.round_trips, 0);
    lease_close(&w);
  }
}

/* --- while it is on its way --------------------------------------------------------------------- */

enum { NEWCOMERS = 40 };
static world *crowded;
static bool has_crowded;

/* A store that holds back the first SUB while requests for many other keys come. */
static void crowd(weir_store *behind, const weir_operation *operations, size_t count) {
  (void)behind;
  if (has_crowded || count == 0 || operations[0].kind != WEIR_SUB) return;
  has_crowded = true;
  for (int n = 0; n < NEWCOMERS; n++) {
    char key[16];
    snprintf(key, sizeof key, "new%d", n);
    assert_true(world_take(crowded, key, 1).allowed);
  }
}

/* A refill that finds nothing more to charge takes along what its key owes. More keys come than the
 * table keeps, but this one stays until that has its answer: here that nothing was sent, so that the
 * key owes it again. */
static void a_key_stays_while_what_it_owes_is_on_its_way(void **state) {
  static const char rules[] = "quota:1000000/1h,lease=1s";
  (void)state;
  world w;
  weir_limiter_options options = {.processes = 1, .memo_keys = 4};
  int64_t next_us;
  world_open_backend(&w, &fake_backend, "fake:", rules, &options);
  assert_int_equal(weir_limiter_renew(w.limiter, &next_us, NULL), WEIR_OK);
  lease_fill(&w, "k", 1000);
  while (w.limiter->leased.due.count == 0)
    assert_true(world_take(&w, "k", 1).allowed);
  int64_t used = (int64_t)lease_counts(w.limiter).allowed;
  int64_t held = lease_held(w.limiter);
  assert_true(held > 0);
  world_set(&w, 10 * SECOND_US);
  crowded = &w;
  has_crowded = false;
  the_fake.before = crowd;
  fake_fail_next(WEIR_SUB, WEIR_NOT_SENT, false);
  weir_limiter_renew(w.limiter, &next_us, NULL);
  the_fake.before = NULL;
  assert_true(has_crowded);
  assert_int_equal(lease_held(w.limiter), held);
  assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
  assert_int_equal(lease_held(w.limiter), 0);
  assert_int_equal(lease_store_room(&w, rules, "k"), 1000000 - used);
  for (int n = 0; n < NEWCOMERS; n++) {
    char key[16];
    snprintf(key, sizeof key, "new%d", n);
    assert_int_equal(lease_store_room(&w, rules, key), 1000000 - 1);
  }
  lease_close(&w);
}

/* Keys that hold nothing make room first, however many come. */
static void a_key_that_holds_something_goes_last(void **state) {
  enum { PASSERS_BY = 2000 };
  static const char rules[] = "quota:1000000/1h,lease=1s";
  (void)state;
  world w;
  const weir_limiter_options options = {.processes = 1, .memo_keys = 128}; /* two in each shard */
  world_open_backend(&w, &fake_backend, "fake:", rules, &options);
  int64_t held = lease_fill(&w, "k", 100);
  for (int n = 0; n < PASSERS_BY; n++) {
    char key[16];
    snprintf(key, sizeof key, "new%d", n);
    world_peek(&w, key, 1);
  }
  assert_int_equal(lease_held(w.limiter), held);
  lease_close(&w);
}

/* By the time it ends it has drained. */
static void a_bucket_gets_nothing_back(void **state) {
  world w;
  (void)state;
  lease_open(&w, lease_bucket, 30);
  int64_t held = lease_held(w.limiter);
  assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
  assert_int_equal(lease_held(w.limiter) + (int64_t)lease_counts(w.limiter).lease_lost, held);
  assert_int_equal(the_fake.counts.round_trips, 0);
  world_set(&w, 20000);
  assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
  assert_int_equal(lease_counts(w.limiter).lease_lost, held); /* whether or not a request comes */
  assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
  assert_int_equal(lease_counts(w.limiter).lease_returned, 0);
  assert_int_equal(lease_counts(w.limiter).lease_lost, held);
  lease_close(&w);
}

/* --- ends that give nothing back ---------------------------------------------------------------
 */

static void a_clock_set_back_empties_the_stock(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    lease_open(&w, lease_windows[i], 30);
    int64_t held = lease_held(w.limiter);
    world_set(&w, -3600 * SECOND_US);
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
    assert_int_equal(lease_counts(w.limiter).clock_steps, 1);
    assert_int_equal(lease_counts(w.limiter).lease_lost, held);
    assert_int_equal(lease_held(w.limiter), 0);
    world_close(&w);
  }
}

static void a_reset_empties_the_stock(void **state) {
  (void)state;
  for (size_t i = 0; i < LEASE_WINDOWS; i++) {
    world w;
    lease_open(&w, lease_windows[i], 30);
    int64_t held = lease_held(w.limiter);
    world_reset(&w, "k");
    assert_int_equal(lease_counts(w.limiter).lease_lost, held);
    assert_int_equal(lease_held(w.limiter), 0);
    assert_int_equal(lease_store_room(&w, lease_windows[i], "k"), 1000);
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
    world_set(&w, 20000);
    world_take(&w, "k", 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
    lease_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_not_used_goes_back_with_the_next_call),
      cmocka_unit_test(a_lot_ends_with_its_cell),
      cmocka_unit_test(what_was_not_used_goes_back_with_calls_on_other_keys),
      cmocka_unit_test(what_is_held_goes_back_when_asked),
      cmocka_unit_test(a_key_stays_while_what_it_owes_is_on_its_way),
      cmocka_unit_test(a_key_that_holds_something_goes_last),
      cmocka_unit_test(a_bucket_gets_nothing_back),
      cmocka_unit_test(a_clock_set_back_empties_the_stock),
      cmocka_unit_test(a_reset_empties_the_stock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What an account leaves behind once it is over: nothing. No request, group or key pays for it any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/away.h"
#include "limiter/limiter.h"

static const char rule[] = "fixed-window:9/1m";

/* How often some account was asked, or told. */
static int asked;

bool __real_weir_continue_withholds(const weir_inside *inside, weir_account *account,
                                    weir_claim *request, uint64_t secret, int64_t now_us);
bool __wrap_weir_continue_withholds(const weir_inside *inside, weir_account *account,
                                    weir_claim *request, uint64_t secret, int64_t now_us);
bool __wrap_weir_continue_withholds(const weir_inside *inside, weir_account *account,
                                    weir_claim *request, uint64_t secret, int64_t now_us) {
  asked++;
  return __real_weir_continue_withholds(inside, account, request, secret, now_us);
}

bool __real_weir_continue_offer(const weir_stack *rules, const weir_account *account,
                                const weir_claim *requests, int64_t most, weir_payment *payment);
bool __wrap_weir_continue_offer(const weir_stack *rules, const weir_account *account,
                                const weir_claim *requests, int64_t most, weir_payment *payment);
bool __wrap_weir_continue_offer(const weir_stack *rules, const weir_account *account,
                                const weir_claim *requests, int64_t most, weir_payment *payment) {
  asked++;
  return __real_weir_continue_offer(rules, account, requests, most, payment);
}

int64_t __real_weir_account_roll(weir_account *account, const weir_stack *stack, int64_t now_us);
int64_t __wrap_weir_account_roll(weir_account *account, const weir_stack *stack, int64_t now_us);
int64_t __wrap_weir_account_roll(weir_account *account, const weir_stack *stack, int64_t now_us) {
  asked++;
  return __real_weir_account_roll(account, stack, now_us);
}

/* How many calls were acquired: a store in this process decides without one, where it may. */
static int calls;

weir_call *__real_weir_call_acquire(weir_limiter *limiter, size_t count);
weir_call *__wrap_weir_call_acquire(weir_limiter *limiter, size_t count);
weir_call *__wrap_weir_call_acquire(weir_limiter *limiter, size_t count) {
  calls++;
  return __real_weir_call_acquire(limiter, count);
}

/* An outage of "k" that is over, and all that it left: the store was found, the hold is over, and no period
 * lasts in which something was admitted. The take that ends the account is the last that meets it. */
static void go_through(world *w) {
  away_take(w, "k", 1);
  assert_true(away_admits(w, "k", 5) > 0);
  world_set(w, SECOND_US);
  limiter_peek(w->limiter, "k", 1); /* pays */
  world_set(w, 2 * SECOND_US);
  asked = 0;
  away_take(w, "k", 1);
  assert_true(asked > 0); /* it counts on */
  world_set(w, 240 * SECOND_US);
  asked = 0;
  away_take(w, "k", 1);
  assert_true(asked > 0);
  asked = calls = 0;
}

static void no_request_and_no_group_asks_it(void **state) {
  world w;
  (void)state;
  away_open(&w, rule, 4);
  go_through(&w);
  away_take(&w, "k", 1);
  world_peek(&w, "k", 1);
  weir_request batch[2] = {{.key = "k", .key_length = 1, .cost = 1},
                           {.key = "k", .key_length = 1, .cost = 1}};
  assert_int_equal(weir_limiter_decide(w.limiter, batch, 2, NULL), WEIR_OK);
  assert_true(batch[0].decision.allowed && batch[1].decision.allowed);
  assert_false(away_take(&w, "k", 9).allowed);
  world_reset(&w, "k");
  away_take(&w, "k", 1);
  w.clock.now_us -= SECOND_US; /* which has what is known of the key forgotten */
  away_take(&w, "k", 1);
  assert_int_equal(asked, 0);
  world_close(&w);
}

static void what_is_in_this_process_decides_where_it_stands_again(void **state) {
  const weir_backend backend =
      fake_backend_with(WEIR_TRAIT_SWAP | WEIR_TRAIT_IMMEDIATE | WEIR_TRAIT_IDENTITY);
  world w;
  (void)state;
  away_open_on(&w, &backend, rule, &(weir_limiter_options){.peers = 4});
  go_through(&w);
  away_take(&w, "k", 1);
  assert_int_equal(calls, 0);
  assert_int_equal(asked, 0);
  world_close(&w);
}

/* Nothing is charged ahead while something is owed or held; then it is again, and a denial is shown. */
static void the_key_is_leased_again(void **state) {
  world w;
  (void)state;
  const weir_limiter_options options = {
      .peers = 4, .processes = 1, .fallback = WEIR_FALLBACK_LOCAL, .renew = WEIR_RENEW_BY_CALLER};
  away_open_with(&w, "quota:2000/1m,lease=20ms", &options);
  go_through(&w);
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(w.limiter, &counts);
  uint64_t before = counts.lease_used;
  for (int i = 0; i < 300; i++)
    assert_true(world_take(&w, "k", 1).allowed);
  weir_limiter_read_counts(w.limiter, &counts);
  assert_true(counts.lease_used > before);
  assert_int_equal(asked, 0);
  int64_t used = 0;
  while (world_take(&w, "k", 1).allowed)
    assert_true(++used < 2000);
  calls = 0;
  assert_false(world_take(&w, "k", 1).allowed);
  assert_int_equal(calls, 0);
  weir_memo_entry *entry = weir_limiter_lock(w.limiter, "k", 1);
  assert_true(entry->shown);
  weir_lock_leave(&entry->shard->lock);
  assert_int_equal(asked, 0);
  world_close(&w);
}

/* Whether the entry of "k" is still the one that has met the store. */
static bool is_remembered(const world *w) {
  weir_memo_entry *entry = weir_limiter_lock(w->limiter, "k", 1);
  bool met = entry->memo->expected[0].amount > 0;
  weir_lock_leave(&entry->shard->lock);
  return met;
}

/* A table that is full gives the key up like any other, and nothing is counted as unpaid by that. */
static void its_key_may_be_given_up(void **state) {
  enum { NEWCOMERS = 20 };
  world w;
  (void)state;
  away_open_with(&w, rule, &(weir_limiter_options){.peers = 4, .memo_keys = 1});
  go_through(&w);
  weir_limiter_counts before = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_counts after = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(w.limiter, &before);
  assert_true(is_remembered(&w));
  for (int n = 0; n < NEWCOMERS; n++) {
    char key[16];
    snprintf(key, sizeof key, "new%d", n);
    away_take(&w, key, 1);
  }
  assert_false(is_remembered(&w));
  weir_limiter_read_counts(w.limiter, &after);
  assert_int_equal(after.unpaid, before.unpaid);
  away_take(&w, "k", 1);
  assert_int_equal(asked, 0);
  world_close(&w);
}

/* A key that is given up while it owes: that is paid no more, and it comes back as any new one. */
static void a_key_that_is_given_up_takes_its_account_along(void **state) {
  world w;
  (void)state;
  away_open_with(&w, rule, &(weir_limiter_options){.peers = 4, .memo_keys = 1});
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 5), 2);
  for (int n = 0; n < 4; n++) {
    char key[16];
    snprintf(key, sizeof key, "new%d", n);
    away_take(&w, key, 1);
  }
  away_expect(&w, 2, 0, 2);
  asked = 0;
  away_take(&w, "k", 1);
  assert_int_equal(asked, 0);
  world_close(&w);
}

/* One that goes on in another limiter: there it counts, and here no more. */
static void an_account_that_was_moved_is_asked_where_it_is(void **state) {
  world w;
  weir_limiter *next;
  (void)state;
  away_open(&w, rule, 4);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 5), 2);
  const weir_limiter_options options = {.size = sizeof options,
                                        .deadline_us = AWAY_DEADLINE_US,
                                        .clock = hand_clock_as_clock(&w.clock),
                                        .peers = 4};
  assert_int_equal(weir_limiter_create(w.store, "fixed-window:9/1m", &options, &next, NULL),
                   WEIR_OK);
  assert_int_equal(weir_limiter_follow(next, w.limiter, NULL), WEIR_OK);
  the_fake.trouble = FAKE_AWAY;
  assert_false(limiter_take(next, "k", 1).allowed);
  the_fake.trouble = FAKE_WELL;
  asked = 0;
  away_take(&w, "k", 1);
  away_take(&w, "k", 1);
  assert_int_equal(asked, 0);
  weir_decision withheld = limiter_take(next, "k", 1); /* it pays, and holds */
  assert_int_equal(withheld.source, WEIR_SOURCE_FALLBACK);
  assert_true(asked > 0);
  assert_int_equal(away_remaining(&w, rule, "k"), 9 - 1 - 2 - 2);
  weir_limiter_destroy(next);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_request_and_no_group_asks_it),
      cmocka_unit_test(what_is_in_this_process_decides_where_it_stands_again),
      cmocka_unit_test(the_key_is_leased_again),
      cmocka_unit_test(its_key_may_be_given_up),
      cmocka_unit_test(a_key_that_is_given_up_takes_its_account_along),
      cmocka_unit_test(an_account_that_was_moved_is_asked_where_it_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

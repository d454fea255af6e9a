/* A process answers from what it knows, and only for so long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/world.h"

static void repeats_a_denial_without_the_store(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  world_take(&w, "k", 8);
  assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
  world_set(&w, 49999);
  weir_decision decision = world_take(&w, "k", 1);
  assert_int_equal(decision.source, WEIR_SOURCE_LOCAL);
  assert_denied(decision, 0, 60937500 - 49999, 75 * SECOND_US - 1 - 49999);
  world_close(&w);
}

/* All but who told it. Between the fields stands what was there before. */
static void assert_told_alike(const weir_decision *one, const weir_decision *other) {
  assert_int_equal(one->allowed, other->allowed);
  assert_int_equal(one->rule, other->rule);
  assert_int_equal(one->limit, other->limit);
  assert_int_equal(one->remaining, other->remaining);
  assert_int_equal(one->retry_after_us, other->retry_after_us);
  assert_int_equal(one->reset_after_us, other->reset_after_us);
  assert_int_equal(one->delay_us, other->delay_us);
  assert_int_equal(one->cost, other->cost);
  assert_int_equal(one->at_us, other->at_us);
  assert_int_equal(one->store_status, other->store_status);
}

/* The process tells again what the store would tell, at each moment until it fits. */
static void repeats_what_the_store_would_tell(void **state) {
  static const char *const rules[] = {"fixed-window:3/1s",
                                      "sliding-window:8/1s",
                                      "sliding-window:3/1s,cells=1",
                                      "sliding-window:5/1s,strict",
                                      "quota:3/1s",
                                      "token-bucket:7/1s,burst=3",
                                      "token-bucket:1000000/1s,burst=2",
                                      "leaky-bucket:9/1s",
                                      "sliding-window:8/1s,hold=5ms"};
  static const int64_t steps_us[] = {0, 1, 2, 3, 997, 1000, 12345, 20000, 300000};
  weir_limiter_options keeps = {.local_denial_us = SECOND_US, .memo_age_us = SECOND_US};
  weir_limiter_options asks = {.flags = WEIR_NO_LOCAL_DENIAL};
  int told = 0;
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
    world local, store;
    int64_t at_us = 123457;
    world_open(&local, "memory:", rules[i], &keeps);
    world_open(&store, "memory:", rules[i], &asks);
    for (int n = 0; n < 200; n++) {
      at_us += steps_us[n % 9];
      world_set(&local, at_us);
      world_set(&store, at_us);
      weir_decision one = world_take(&local, "k", 1), other = world_take(&store, "k", 1);
      told += one.source == WEIR_SOURCE_LOCAL;
      assert_told_alike(&one, &other);
    }
    world_close(&local);
    world_close(&store);
  }
  assert_true(told > 500);
}

static void asks_again_after_local_denial_us(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  world_take(&w, "k", 8);
  world_take(&w, "k", 1);
  world_set(&w, 50000);
  assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
  world_close(&w);
}

static void takes_its_length_from_the_options(void **state) {
  world w;
  weir_limiter_options options = {.local_denial_us = 7};
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", &options);
  world_take(&w, "k", 1);
  world_take(&w, "k", 1);
  world_set(&w, 6);
  assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_LOCAL);
  world_set(&w, 7);
  assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
  world_close(&w);
}

static void ends_when_the_wait_is_over(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", NULL);
  world_set(&w, 60 * SECOND_US - 10);
  world_take(&w, "k", 1);
  assert_denied(world_take(&w, "k", 1), 0, 10, 10);
  world_set(&w, 60 * SECOND_US);
  assert_true(world_take(&w, "k", 1).allowed);
  world_close(&w);
}

static void is_not_applied_to_a_smaller_cost(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:8/1m", NULL);
  world_take(&w, "k", 6);
  assert_false(world_take(&w, "k", 5).allowed);
  assert_int_equal(world_take(&w, "k", 6).source, WEIR_SOURCE_LOCAL);
  weir_decision smaller = world_take(&w, "k", 2);
  assert_true(smaller.allowed);
  assert_int_equal(smaller.source, WEIR_SOURCE_STORE);
  world_close(&w);
}

static void can_be_switched_off(void **state) {
  world w;
  weir_limiter_options options = {.flags = WEIR_NO_LOCAL_DENIAL};
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", &options);
  world_take(&w, "k", 1);
  for (int i = 0; i < 3; i++)
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
  world_close(&w);
}

static void is_not_used_where_denied_requests_count(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m,count=all", NULL);
  world_take(&w, "k", 1);
  for (int i = 0; i < 3; i++)
    assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_STORE);
  world_close(&w);
}

static void is_forgotten_with_a_reset(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", NULL);
  world_take(&w, "k", 1);
  world_take(&w, "k", 1);
  world_reset(&w, "k");
  assert_true(world_take(&w, "k", 1).allowed);
  world_close(&w);
}

static void a_peek_always_asks(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "fixed-window:1/1m", NULL);
  world_take(&w, "k", 1);
  world_take(&w, "k", 1);
  assert_int_equal(world_peek(&w, "k", 1).source, WEIR_SOURCE_STORE);
  world_close(&w);
}

/* A reset by another limiter is seen when the denial is no longer repeated. */
static void hides_the_reset_of_another_process_for_local_denial_us_at_most(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:4/1m", NULL);
  weir_limiter *other = world_limiter(&w, "sliding-window:4/1m", NULL);
  world_take(&w, "k", 4);
  assert_false(world_take(&w, "k", 1).allowed);
  weir_message message;
  assert_int_equal(weir_limiter_reset(other, "k", 1, &message), WEIR_OK);
  assert_false(world_take(&w, "k", 1).allowed);
  world_set(&w, 50000);
  assert_true(world_take(&w, "k", 4).allowed);
  weir_limiter_destroy(other);
  world_close(&w);
}

/* Cells that are over are remembered for memo_age_us, and no longer. */
static void hides_the_reset_of_finished_cells_for_memo_age_us_at_most(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  weir_limiter *other = world_limiter(&w, "sliding-window:8/1m", NULL);
  world_take(&w, "k", 8);
  world_set(&w, 62 * SECOND_US);
  assert_int_equal(world_take(&w, "k", 1).remaining, 0);
  weir_message message;
  assert_int_equal(weir_limiter_reset(other, "k", 1, &message), WEIR_OK);
  world_set(&w, 62 * SECOND_US + 900000);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 8 - 6);
  world_set(&w, 63 * SECOND_US + 1);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 8);
  weir_limiter_destroy(other);
  world_close(&w);
}

/* The second denial is that of a look, and rests on a finished cell that was read 980 ms before. */
static void repeats_nothing_that_rests_on_knowledge_older_than_memo_age_us(void **state) {
  world w;
  (void)state;
  world_open(&w, "memory:", "sliding-window:8/1m", NULL);
  world_take(&w, "k", 8);
  world_set(&w, 62 * SECOND_US);
  assert_false(world_take(&w, "k", 4).allowed);
  world_set(&w, 62 * SECOND_US + 980000);
  weir_decision denied = world_take(&w, "k", 4);
  assert_false(denied.allowed);
  assert_int_equal(denied.source, WEIR_SOURCE_STORE);
  world_set(&w, 63 * SECOND_US - 1);
  assert_int_equal(world_take(&w, "k", 4).source, WEIR_SOURCE_LOCAL);
  world_set(&w, 63 * SECOND_US);
  assert_int_equal(world_take(&w, "k", 4).source, WEIR_SOURCE_STORE);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(repeats_a_denial_without_the_store),
      cmocka_unit_test(repeats_what_the_store_would_tell),
      cmocka_unit_test(asks_again_after_local_denial_us),
      cmocka_unit_test(takes_its_length_from_the_options),
      cmocka_unit_test(ends_when_the_wait_is_over),
      cmocka_unit_test(is_not_applied_to_a_smaller_cost),
      cmocka_unit_test(can_be_switched_off),
      cmocka_unit_test(is_not_used_where_denied_requests_count),
      cmocka_unit_test(is_forgotten_with_a_reset),
      cmocka_unit_test(a_peek_always_asks),
      cmocka_unit_test(hides_the_reset_of_another_process_for_local_denial_us_at_most),
      cmocka_unit_test(hides_the_reset_of_finished_cells_for_memo_age_us_at_most),
      cmocka_unit_test(repeats_nothing_that_rests_on_knowledge_older_than_memo_age_us),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

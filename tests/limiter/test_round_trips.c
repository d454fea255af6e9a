/* Round trips and commands per decision, counted by a fake store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/world.h"

static void open_spy(world *w, const char *rules, const weir_limiter_options *options) {
  world_open_backend(w, &fake_backend, "fake:", rules, options);
}

/* Asserts what was needed since the last time. */
static void assert_needed(int round_trips, int commands) {
  assert_int_equal(the_fake.counts.round_trips, round_trips);
  assert_int_equal(the_fake.counts.commands, commands);
  fake_forget();
}

static void a_fixed_window_needs_one_command(void **state) {
  world w;
  (void)state;
  open_spy(&w, "fixed-window:9/1m", NULL);
  for (int i = 0; i < 3; i++) {
    world_take(&w, "k", 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
    assert_needed(1, 1);
  }
  world_close(&w);
}

/* The cells of a counter span 4S. Before it stands the one with the far edge, until that is known.
 */
static void up_to_four_packed_cells_need_two_commands_at_first(void **state) {
  static const char *const rules[] = {"sliding-window:9/1m,cells=1", "sliding-window:9/1m,cells=2",
                                      "sliding-window:9/1m", "sliding-window:9/1m,strict"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    open_spy(&w, rules[i], NULL);
    for (int64_t second = 0; second < 480; second += 7) {
      char key[16];
      snprintf(key, sizeof key, "%d", (int)second);
      world_set(&w, second * SECOND_US);
      world_take(&w, key, 1);
      assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
      assert_int_equal(the_fake.counts.round_trips, 1);
      assert_in_range(the_fake.counts.commands, 1, second % 60 < 58 ? 2 : 3); /* see below */
      fake_forget();
    }
    world_close(&w);
  }
}

/* The one exception: within e (here 1.02 s) of the end of a counter, the first cell of
 * the next one may have been charged by a clock that is ahead, so that is read as well. */
static void the_last_moments_of_a_counter_need_one_command_more(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:9/1m", NULL);
  world_set(&w, 60 * SECOND_US - 1020001);
  world_take(&w, "before", 1);
  assert_needed(1, 2);
  world_set(&w, 60 * SECOND_US - 1020000);
  world_take(&w, "within", 1);
  assert_needed(1, 3);
  world_set(&w, 60 * SECOND_US);
  world_take(&w, "after", 1);
  assert_needed(1, 2);
  world_close(&w);
}

/* The counter before ends at the minute; 1.02 s later it is finished, 1 s after that settled. */
static void finished_cells_are_read_once_in_memo_age_us_until_they_are_settled(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:99/1m", NULL);
  world_set(&w, 60 * SECOND_US + 1019999 + 1000000);
  world_take(&w, "k", 1);
  assert_needed(1, 2);
  for (int64_t tenth = 1; tenth <= 10; tenth++) {
    world_set(&w, 60 * SECOND_US + 1019999 + 1000000 + tenth * 100000);
    world_take(&w, "k", 1);
    assert_needed(1, 1);
  }
  world_set(&w, 60 * SECOND_US + 1020000 + 2000000);
  world_take(&w, "k", 1);
  assert_needed(1, 2);
  for (int64_t second = 4; second < 58; second += 6) {
    world_set(&w, 60 * SECOND_US + second * SECOND_US);
    world_take(&w, "k", 1);
    assert_needed(1, 1);
  }
  world_close(&w);
}

/* The counts that deny a charge were read in its own decision: the counter before along with the
 * take-back, once. So another's reset is seen at once; the request is then charged anew. */
static void what_is_settled_is_read_before_it_denies(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:9/1m", NULL);
  world_set(&w, 59 * SECOND_US);
  world_take(&w, "k", 8);
  world_set(&w, 63 * SECOND_US);
  assert_true(world_take(&w, "k", 1).allowed);
  world_set(&w, 64 * SECOND_US);
  fake_forget();
  assert_false(world_take(&w, "k", 1).allowed);
  assert_needed(2, 3);
  world_close(&w);
}

static void finished_cells_are_read_every_time_where_that_is_asked_for(void **state) {
  world w;
  weir_limiter_options options = {.flags = WEIR_NO_CACHED_CELLS};
  (void)state;
  open_spy(&w, "sliding-window:99/1m", &options);
  for (int i = 0; i < 3; i++) {
    world_take(&w, "k", 1);
    assert_needed(1, 2);
  }
  world_close(&w);
}

/* A cell is final only when it was read e after its end: here 1.02 s into the next counter. */
static void a_cell_is_not_remembered_before_it_is_finished(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:99/1m", NULL);
  world_set(&w, 60 * SECOND_US + 1019999);
  for (int i = 0; i < 3; i++) {
    world_take(&w, "k", 1);
    assert_needed(1, 2);
  }
  world_set(&w, 60 * SECOND_US + 1020000);
  world_take(&w, "k", 1);
  assert_needed(1, 2);
  world_take(&w, "k", 1);
  assert_needed(1, 1);
  world_close(&w);
}

static void a_request_denied_by_its_own_increment_needs_two_round_trips(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:9/1m", NULL);
  world_take(&w, "k", 9);
  fake_forget();
  assert_false(world_take(&w, "k", 1).allowed);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
  assert_int_equal(the_fake.counts.round_trips, 2);
  world_close(&w);
}

static void a_key_that_was_denied_is_looked_at_before_it_is_charged(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:9/1m", NULL);
  world_take(&w, "k", 9);
  world_take(&w, "k", 1);
  fake_forget();
  world_set(&w, 60000);
  assert_false(world_take(&w, "k", 1).allowed);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 0);
  assert_int_equal(the_fake.counts.round_trips, 1);
  fake_forget();
  world_set(&w, 61 * SECOND_US); /* one fits again: look, then charge */
  assert_true(world_take(&w, "k", 1).allowed);
  assert_int_equal(the_fake.counts.round_trips, 2);
  fake_forget();
  world_set(&w, 64 * SECOND_US); /* and from then on no look is needed */
  assert_true(world_take(&w, "k", 1).allowed);
  assert_int_equal(the_fake.counts.round_trips, 1);
  world_close(&w);
}

static void a_key_under_attack_is_read_once_in_50_ms(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:9/1m", NULL);
  world_take(&w, "k", 9);
  fake_forget();
  for (int64_t ms = 0; ms < 1000; ms++) {
    world_set(&w, ms * 1000);
    for (int i = 0; i < 20; i++)
      assert_false(world_take(&w, "k", 1).allowed);
  }
  print_message("20000 denied requests within 1 s: %d round trips, %d commands\n",
                the_fake.counts.round_trips, the_fake.counts.commands);
  assert_in_range(the_fake.counts.round_trips, 1, 1 + 20);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
  world_close(&w);
}

static void a_batch_of_keys_needs_one_round_trip(void **state) {
  world w;
  static char keys[64][16];
  static weir_request requests[64];
  (void)state;
  open_spy(&w, "sliding-window:9/1m;fixed-window:99/1h", NULL);
  for (size_t i = 0; i < 64; i++) {
    snprintf(keys[i], sizeof keys[i], "%zu", i);
    requests[i] = (weir_request){.key = keys[i], .key_length = strlen(keys[i]), .cost = 1};
  }
  world_set(&w, 5 * SECOND_US);
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 64, NULL), WEIR_OK);
  assert_needed(1, 64 * 3);
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 64, NULL), WEIR_OK);
  assert_needed(1, 64 * 2);
  world_close(&w);
}

static void requests_for_one_key_share_a_command(void **state) {
  world w;
  static weir_request requests[64];
  (void)state;
  open_spy(&w, "fixed-window:99/1h", NULL);
  for (size_t i = 0; i < 64; i++)
    requests[i] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 64, NULL), WEIR_OK);
  assert_needed(1, 1);
  world_close(&w);
}

static void requests_for_one_key_go_alone_where_that_is_asked_for(void **state) {
  world w;
  weir_limiter_options options = {.flags = WEIR_NO_COMBINING};
  weir_request requests[3];
  (void)state;
  open_spy(&w, "fixed-window:9/1m", &options);
  for (size_t i = 0; i < 3; i++)
    requests[i] = (weir_request){.key = "k", .key_length = 1, .cost = 2};
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 3, NULL), WEIR_OK);
  assert_int_equal(requests[2].decision.remaining, 3);
  assert_needed(3, 3);
  world_close(&w);
}

static void what_never_fits_needs_no_round_trip(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:9/1m", NULL);
  world_take(&w, "k", 10);
  assert_needed(0, 0);
  world_close(&w);
}

static void a_peek_only_reads(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:9/1m", NULL);
  world_peek(&w, "k", 1);
  assert_int_equal(the_fake.counts.of_kind[WEIR_GET], the_fake.counts.commands);
  assert_needed(1, 2);
  world_close(&w);
}

static void a_reset_only_drops(void **state) {
  world w;
  (void)state;
  open_spy(&w, "sliding-window:9/1m", NULL);
  world_reset(&w, "k");
  assert_int_equal(the_fake.counts.of_kind[WEIR_DROP], the_fake.counts.commands);
  assert_int_equal(the_fake.counts.round_trips, 1);
  world_close(&w);
}

static void a_denial_settles_everyone_who_waits_behind_it(void **state) {
  enum { ASKING = 64 };
  world w;
  weir_request requests[ASKING];
  int admitted = 0;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:1/1m", NULL);
  fake_forget();
  for (int i = 0; i < ASKING; i++)
    requests[i] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
  assert_int_equal(weir_limiter_decide(w.limiter, requests, ASKING, NULL), WEIR_OK);
  for (int i = 0; i < ASKING; i++)
    admitted += requests[i].decision.allowed;
  assert_int_equal(admitted, 1);
  assert_in_range(the_fake.counts.round_trips, 1, 3); /* charge; charge and take back */
  world_close(&w);
}

static weir_decision settle(world *w, int64_t real, weir_decision taken) {
  fake_forget();
  assert_int_equal(weir_limiter_settle(w->limiter, "k", 1, real, &taken, NULL), WEIR_OK);
  return taken;
}

/* A settlement that fits is one round; what is cut comes off in a second; what goes back may need a
 * look. */
static void a_settlement_needs_two_round_trips_at_most(void **state) {
  static const char *const rules[] = {"fixed-window:20/1m,debt=4", "sliding-window:20/1m,debt=4",
                                      "sliding-window:20/1m,strict,debt=4", "quota:20/1m,debt=4",
                                      "token-bucket:20/1m,debt=4"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    open_spy(&w, rules[i], NULL);
    weir_decision taken[4];
    for (int n = 0; n < 4; n++)
      taken[n] = world_take(&w, "k", 4);
    assert_int_equal(settle(&w, 4, taken[0]).cost, 4);
    assert_int_equal(the_fake.counts.round_trips, 0);
    assert_int_equal(settle(&w, 7, taken[0]).cost, 7);
    assert_int_equal(the_fake.counts.round_trips, 1);
    assert_int_equal(settle(&w, 1, taken[1]).cost, 1);
    assert_in_range(the_fake.counts.round_trips, 1, 2);
    assert_int_equal(settle(&w, 90, taken[2]).cost, 12);
    assert_in_range(the_fake.counts.round_trips, 1, 2);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fixed_window_needs_one_command),
      cmocka_unit_test(up_to_four_packed_cells_need_two_commands_at_first),
      cmocka_unit_test(the_last_moments_of_a_counter_need_one_command_more),
      cmocka_unit_test(finished_cells_are_read_once_in_memo_age_us_until_they_are_settled),
      cmocka_unit_test(what_is_settled_is_read_before_it_denies),
      cmocka_unit_test(finished_cells_are_read_every_time_where_that_is_asked_for),
      cmocka_unit_test(a_cell_is_not_remembered_before_it_is_finished),
      cmocka_unit_test(a_request_denied_by_its_own_increment_needs_two_round_trips),
      cmocka_unit_test(a_key_that_was_denied_is_looked_at_before_it_is_charged),
      cmocka_unit_test(a_key_under_attack_is_read_once_in_50_ms),
      cmocka_unit_test(a_batch_of_keys_needs_one_round_trip),
      cmocka_unit_test(requests_for_one_key_share_a_command),
      cmocka_unit_test(requests_for_one_key_go_alone_where_that_is_asked_for),
      cmocka_unit_test(what_never_fits_needs_no_round_trip),
      cmocka_unit_test(a_peek_only_reads),
      cmocka_unit_test(a_reset_only_drops),
      cmocka_unit_test(a_denial_settles_everyone_who_waits_behind_it),
      cmocka_unit_test(a_settlement_needs_two_round_trips_at_most),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

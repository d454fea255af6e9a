/* Charges on a store that keeps bounds, as Redis with INCREX: what is denied costs one round trip and
 * one command, and leaves no trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/world.h"

static const weir_extra batch = {.size = sizeof(weir_extra), .class_name = "batch"};
static const weir_extra nine = {.size = sizeof(weir_extra), .limit = 9};

/* In each, 9 fit. */
static const struct kind {
  const char *rules;
  const weir_extra *extra;
} kinds[] = {
    {"fixed-window:9/1m", NULL},
    {"sliding-window:9/1m", NULL},
    {"sliding-window:9/1m,cells=1", NULL},
    {"sliding-window:9/1m,cells=16,strict", NULL},
    {"sliding-window:9/1m,most=1000000", &nine},
    {"quota:9/1m", NULL},
    {"fixed-window:90/1m,most=900", &nine},
    {"fixed-window:18/1m,classes=batch:50%", &batch},
    {"sliding-window:18/1m,classes=batch:50%", &batch},
    {"quota:18/1m,classes=batch:50%", &batch},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

#define BEGIN_US (10 * SECOND_US)

static weir_backend bounding;

static void open_bounded(world *w, const char *rules, const weir_limiter_options *options) {
  the_fake.bounds = true;
  bounding = fake_backend_with(WEIR_TRAIT_SWAP | WEIR_TRAIT_BOUND);
  world_open_backend(w, &bounding, "fake:", rules, options);
  world_set(w, BEGIN_US); /* what was before is over */
  fake_forget();
}

static void assert_needed(int round_trips, int adds, int subs, int gets) {
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], adds);
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], subs);
  assert_int_equal(the_fake.counts.of_kind[WEIR_GET], gets);
  assert_int_equal(the_fake.counts.round_trips, round_trips);
  fake_forget();
}

static weir_decision take_of(const world *w, const weir_extra *extra, int64_t cost) {
  weir_request request = {.key = "k", .key_length = 1, .cost = cost};
  assert_int_equal(weir_decide_extra(&w->limiter, &request, &extra, 1, NULL), WEIR_OK);
  return request.decision;
}

static void a_denial_by_its_own_charge_is_one_command(void **state) {
  (void)state;
  for (size_t i = 0; i < KINDS; i++) {
    const struct kind *kind = &kinds[i];
    world w;
    open_bounded(&w, kind->rules, NULL);
    assert_true(take_of(&w, kind->extra, 4).allowed);
    fake_forget();
    for (int n = 0; n < 5; n++) {
      assert_true(take_of(&w, kind->extra, 1).allowed);
      assert_needed(1, 1, 0, 0);
    }
    assert_false(take_of(&w, kind->extra, 1).allowed);
    assert_needed(1, 1, 0, 0);
    world_close(&w);
  }
}

/* For a higher class something is kept, which another's charge may hide until it has gone back. */
static void only_the_lowest_class_has_a_bound(void **state) {
  (void)state;
  for (size_t i = 0; i < KINDS; i++) {
    world w;
    if (kinds[i].extra != &batch) continue;
    open_bounded(&w, kinds[i].rules, NULL);
    assert_true(take_of(&w, NULL, 15).allowed);
    fake_forget();
    assert_false(take_of(&w, NULL, 4).allowed);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 1);
    world_set(&w, BEGIN_US + 60000);
    fake_forget();
    assert_false(take_of(&w, &batch, 4).allowed);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
    world_close(&w);
  }
}

/* So the next is charged as well, and is admitted or denied at once. */
static void after_a_denial_no_look_is_needed(void **state) {
  (void)state;
  for (size_t i = 0; i < KINDS; i++) {
    const struct kind *kind = &kinds[i];
    world w;
    open_bounded(&w, kind->rules, NULL);
    assert_true(take_of(&w, kind->extra, 8).allowed);
    fake_forget();
    for (int n = 1; n <= 3; n++) {
      assert_false(take_of(&w, kind->extra, 2).allowed);
      assert_needed(1, 1, 0, 0);
      world_set(&w, BEGIN_US + n * INT64_C(60000)); /* it is repeated for 50 ms */
    }
    assert_true(take_of(&w, kind->extra, 1).allowed);
    assert_needed(1, 1, 0, 0);
    world_close(&w);
  }
}

/* What an own charge did not read is read before it denies, as on every store; and then along with it. */
static void what_denies_was_read_in_its_own_decision(void **state) {
  world w;
  (void)state;
  open_bounded(&w, "sliding-window:9/1m", NULL);
  world_take(&w, "k", 1);
  world_set(&w, 59 * SECOND_US);
  world_take(&w, "k", 7);
  world_set(&w, 66 * SECOND_US);
  assert_true(world_take(&w, "k", 1).allowed);
  world_set(&w, 69 * SECOND_US);
  fake_forget();
  assert_false(world_take(&w, "k", 2).allowed);
  assert_needed(2, 1, 0, 2);
  world_set(&w, 71 * SECOND_US);
  assert_false(world_take(&w, "k", 2).allowed);
  assert_needed(1, 1, 0, 1);
  world_close(&w);
}

/* A bound by what was known before refuses; what is there since is charged to, at once. */
static void who_fits_by_the_answer_is_charged_again(void **state) {
  world w;
  (void)state;
  open_bounded(&w, "sliding-window:9/1m", NULL);
  weir_limiter *other = world_limiter(&w, "sliding-window:9/1m", NULL);
  weir_decision given = limiter_take(other, "k", 6);
  assert_true(world_take(&w, "k", 3).allowed);
  assert_int_equal(weir_limiter_refund(other, "k", 1, 6, &given, NULL), WEIR_OK);
  world_set(&w, 20 * SECOND_US); /* another cell of the counter */
  fake_forget();
  assert_true(world_take(&w, "k", 6).allowed);
  assert_needed(2, 2, 0, 1);
  assert_false(world_take(&w, "k", 1).allowed);
  weir_limiter_destroy(other);
  world_close(&w);
}

/* A clock that is ahead has charged the next cell, in a lane above: a bound would refuse all that fits. */
static void near_the_end_of_a_cell_nothing_is_refused(void **state) {
  world w;
  (void)state;
  open_bounded(&w, "sliding-window:9/1m", NULL);
  weir_limiter *ahead = world_limiter(&w, "sliding-window:9/1m", NULL);
  assert_true(world_take(&w, "k", 1).allowed);
  world_set(&w, 15 * SECOND_US + 5000);
  assert_true(limiter_take(ahead, "k", 1).allowed);
  world_set(&w, 15 * SECOND_US - 5000);
  fake_forget();
  assert_true(world_take(&w, "k", 1).allowed);
  assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 1);
  assert_int_equal(the_fake.counts.round_trips, 1);
  weir_limiter_destroy(ahead);
  world_close(&w);
}

static void a_group_charges_what_has_room_and_nothing_in_vain(void **state) {
  enum { ASKING = 64 };
  weir_request requests[ASKING];
  (void)state;
  for (size_t i = 0; i < KINDS; i++) {
    int admitted = 0;
    const weir_extra *extras[ASKING];
    weir_limiter *limiters[ASKING];
    world w;
    open_bounded(&w, kinds[i].rules, NULL);
    take_of(&w, kinds[i].extra, 2);
    fake_forget();
    for (int n = 0; n < ASKING; n++) {
      requests[n] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
      extras[n] = kinds[i].extra;
      limiters[n] = w.limiter;
    }
    assert_int_equal(weir_decide_extra(limiters, requests, extras, ASKING, NULL), WEIR_OK);
    for (int n = 0; n < ASKING; n++)
      admitted += requests[n].decision.allowed;
    assert_int_equal(admitted, 7);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], 0);
    assert_in_range(the_fake.counts.round_trips, 2, 3);
    world_close(&w);
  }
}

/* A node that has lost the command: its answer is above the bound, and all is as on any store. */
static void a_bound_that_is_not_kept_costs_what_it_costs_elsewhere(void **state) {
  (void)state;
  for (size_t i = 0; i < KINDS; i++) {
    const struct kind *kind = &kinds[i];
    world w;
    open_bounded(&w, kind->rules, NULL);
    assert_true(take_of(&w, kind->extra, 9).allowed);
    assert_false(take_of(&w, kind->extra, 1).allowed);
    the_fake.bounds = false;
    world_set(&w, BEGIN_US + 60000);
    fake_forget();
    assert_false(take_of(&w, kind->extra, 1).allowed);
    assert_needed(2, 1, 1, 0);
    world_set(&w, BEGIN_US + 120000);
    assert_false(take_of(&w, kind->extra, 1).allowed); /* by a look */
    assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], 0);
    the_fake.bounds = true;
    world_close(&w);
  }
}

/* Of several rules what one refuses the others must give back, which needs the second round trip anyway;
 * where denied requests count nothing is refused. */
static void several_rules_and_counted_denials_have_no_bound(void **state) {
  static const char *const rules[] = {"fixed-window:9/1m;fixed-window:99/1h",
                                      "fixed-window:9/1m,count=all"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    world w;
    open_bounded(&w, rules[i], NULL);
    world_take(&w, "k", 9);
    fake_forget();
    assert_false(world_take(&w, "k", 1).allowed);
    assert_int_equal(the_fake.counts.of_kind[WEIR_ADD], i == 0 ? 2 : 1);
    assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], i == 0 ? 2 : 0);
    world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_denial_by_its_own_charge_is_one_command),
      cmocka_unit_test(only_the_lowest_class_has_a_bound),
      cmocka_unit_test(after_a_denial_no_look_is_needed),
      cmocka_unit_test(what_denies_was_read_in_its_own_decision),
      cmocka_unit_test(who_fits_by_the_answer_is_charged_again),
      cmocka_unit_test(near_the_end_of_a_cell_nothing_is_refused),
      cmocka_unit_test(a_group_charges_what_has_room_and_nothing_in_vain),
      cmocka_unit_test(a_bound_that_is_not_kept_costs_what_it_costs_elsewhere),
      cmocka_unit_test(several_rules_and_counted_denials_have_no_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>

#include <cmocka.h>

#include "simulate/driver.h"

static weir_slots places[WEIR_PLACES];
static uint64_t version;

static int clean_up(void **state) {
  (void)state;
  weir_slots_clean_up(places);
  return 0;
}

static weir_operation run(int64_t now_us, weir_operation operation) {
  if (operation.ttl_us == 0) operation.ttl_us = 1000;
  assert_true(weir_slots_execute(places, now_us, ++version, &operation));
  return operation;
}

static weir_operation get(int64_t now_us, int64_t index) {
  return run(now_us, (weir_operation){.kind = WEIR_GET, .counter.index = index});
}

static void adding_creates_and_then_adds(void **state) {
  (void)state;
  assert_int_equal(run(0, (weir_operation){.kind = WEIR_ADD, .counter.index = 7, .delta = 3}).value,
                   3);
  weir_operation second =
      run(1, (weir_operation){.kind = WEIR_ADD, .counter.index = 7, .delta = 4});
  assert_int_equal(second.outcome, WEIR_DONE);
  assert_int_equal(second.value, 7);
  assert_int_equal(weir_slots_count(places), 1);
}

static void taking_back_never_creates(void **state) {
  (void)state;
  assert_int_equal(
      run(0, (weir_operation){.kind = WEIR_SUB, .counter.index = 7, .delta = 3}).outcome,
      WEIR_ABSENT);
  assert_int_equal(weir_slots_count(places), 0);
}

static void a_key_is_gone_when_its_ttl_is_over(void **state) {
  (void)state;
  run(0, (weir_operation){.kind = WEIR_ADD, .counter.index = 1, .delta = 1, .ttl_us = 10});
  assert_int_equal(get(9, 1).outcome, WEIR_DONE);
  assert_int_equal(get(10, 1).outcome, WEIR_ABSENT);
  run(0, (weir_operation){.kind = WEIR_ADD, .counter.index = 2, .delta = 1, .ttl_us = 10});
  weir_slots_expire(places, 10);
  assert_int_equal(weir_slots_count(places), 0);
}

static void a_swap_needs_the_version_that_was_read(void **state) {
  (void)state;
  weir_operation made = run(0, (weir_operation){.kind = WEIR_CREATE, .value = 5});
  assert_int_equal(made.outcome, WEIR_DONE);
  assert_int_equal(run(0, (weir_operation){.kind = WEIR_CREATE, .value = 6}).outcome,
                   WEIR_CONFLICT);
  weir_operation swapped =
      run(1, (weir_operation){.kind = WEIR_SWAP, .value = 8, .version = made.version_out});
  assert_int_equal(swapped.outcome, WEIR_DONE);
  assert_int_equal(
      run(2, (weir_operation){.kind = WEIR_SWAP, .value = 9, .version = made.version_out}).outcome,
      WEIR_CONFLICT);
  assert_int_equal(get(2, 0).value, 8);
  assert_int_equal(get(2, 0).version_out, swapped.version_out);
}

static void a_swap_renews_the_ttl_and_an_addition_does_not(void **state) {
  (void)state;
  weir_operation made = run(0, (weir_operation){.kind = WEIR_CREATE, .value = 5, .ttl_us = 10});
  run(5,
      (weir_operation){.kind = WEIR_SWAP, .value = 6, .version = made.version_out, .ttl_us = 10});
  assert_int_equal(get(12, 0).outcome, WEIR_DONE);
  run(13, (weir_operation){.kind = WEIR_ADD, .delta = 1, .ttl_us = 100});
  assert_int_equal(get(15, 0).outcome, WEIR_ABSENT);
}

static void a_raise_lifts_to_its_floor_and_then_adds(void **state) {
  (void)state;
  weir_operation raise = {.kind = WEIR_RAISE, .floor = 10, .delta = 3, .ttl_us = 10};
  assert_int_equal(run(0, raise).outcome, WEIR_ABSENT);
  assert_int_equal(get(0, 0).outcome, WEIR_ABSENT);
  raise.refresh = true;
  assert_int_equal(run(0, raise).value, 13);
  assert_int_equal(run(5, raise).value, 16);
  raise = (weir_operation){.kind = WEIR_RAISE, .floor = 20, .delta = 1, .ttl_us = 10};
  assert_int_equal(run(14, raise).value, 21);
  assert_int_equal(get(15, 0).outcome, WEIR_ABSENT); /* without refresh the TTL stays */
}

static void places_and_entries_are_kept_apart_in_any_order(void **state) {
  (void)state;
  for (int64_t i = 0; i < 100; i++) {
    int64_t index = i * 37 % 100;
    run(0, (weir_operation){.kind = WEIR_PUT,
                            .counter.place = WEIR_PLACE_ENTRY,
                            .counter.index = index / 10,
                            .counter.entry = index % 10,
                            .value = index});
  }
  run(0,
      (weir_operation){
          .kind = WEIR_PUT, .counter.place = WEIR_PLACE_OPEN, .counter.index = 3, .value = 1000});
  for (int64_t i = 0; i < 100; i++) {
    weir_operation found = run(1, (weir_operation){.kind = WEIR_GET,
                                                   .counter.place = WEIR_PLACE_ENTRY,
                                                   .counter.index = i / 10,
                                                   .counter.entry = i % 10});
    assert_int_equal(found.outcome, WEIR_DONE);
    assert_int_equal(found.value, i);
  }
  assert_int_equal(get(1, 3).outcome, WEIR_ABSENT);
  assert_int_equal(
      run(1,
          (weir_operation){.kind = WEIR_DROP, .counter.place = WEIR_PLACE_OPEN, .counter.index = 3})
          .outcome,
      WEIR_DONE);
  assert_int_equal(weir_slots_count(places), 100);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(adding_creates_and_then_adds, clean_up),
      cmocka_unit_test_teardown(taking_back_never_creates, clean_up),
      cmocka_unit_test_teardown(a_key_is_gone_when_its_ttl_is_over, clean_up),
      cmocka_unit_test_teardown(a_swap_needs_the_version_that_was_read, clean_up),
      cmocka_unit_test_teardown(a_swap_renews_the_ttl_and_an_addition_does_not, clean_up),
      cmocka_unit_test_teardown(a_raise_lifts_to_its_floor_and_then_adds, clean_up),
      cmocka_unit_test_teardown(places_and_entries_are_kept_apart_in_any_order, clean_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

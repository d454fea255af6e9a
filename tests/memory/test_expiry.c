/* Time itself, as far as these tests wait for it; what the table does at a given time is in
 * test_table.c. */
#include <time.h>

#include "memory/counter.h"

static void wait_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void a_key_lives_for_its_ttl_and_not_much_longer(void **state) {
  int64_t start_us = weir_monotonic_us();
  add(*state, "k", 1, 200000);
  weir_operation operation = get(*state, "k");
  if (weir_monotonic_us() < start_us + 200000) assert_int_equal(operation.outcome, WEIR_DONE);
  wait_ms(201);
  assert_absent(*state, "k");
}

static void an_expired_key_counts_from_the_start(void **state) {
  add(*state, "k", 5, 1000);
  wait_ms(2);
  assert_int_equal(add(*state, "k", 1, MINUTE_US).value, 1);
}

static void add_leaves_the_ttl_unless_it_refreshes(void **state) {
  add(*state, "left", 1, 1000);
  weir_operation operation = add(*state, "left", 1, MINUTE_US);
  wait_ms(2);
  if (operation.value == 2) assert_absent(*state, "left");
  add(*state, "refreshed", 1, 100000);
  operation = (weir_operation){.kind = WEIR_ADD, .refresh = true, .delta = 1, .ttl_us = MINUTE_US};
  operation = run(*state, "refreshed", operation);
  wait_ms(101);
  assert_holds(*state, "refreshed", operation.value);
}

static void put_and_swap_renew_the_ttl(void **state) {
  weir_operation operation = put(*state, "put", 1, 1000);
  put(*state, "put", 2, MINUTE_US);
  operation = put(*state, "swap", 1, 100000);
  operation = run(
      *state, "swap",
      (weir_operation){
          .kind = WEIR_SWAP, .version = operation.version_out, .value = 2, .ttl_us = MINUTE_US});
  wait_ms(101);
  assert_holds(*state, "put", 2);
  if (operation.outcome == WEIR_DONE) assert_holds(*state, "swap", 2);
}

static void the_longest_ttl_is_kept(void **state) {
  add(*state, "k", 1, WEIR_TTL_MOST_US);
  assert_holds(*state, "k", 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_store, tear_down_store)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(a_key_lives_for_its_ttl_and_not_much_longer),
      TEST(an_expired_key_counts_from_the_start),
      TEST(add_leaves_the_ttl_unless_it_refreshes),
      TEST(put_and_swap_renew_the_ttl),
      TEST(the_longest_ttl_is_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

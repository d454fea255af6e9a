/* GET, CREATE, PUT, DROP. */
#include "contract/suite.h"

static const int64_t values[] = {
    0, 1, 9, 10, 4294967296, (INT64_C(1) << 53) + 1, WEIR_VALUE_MOST - 1, WEIR_VALUE_MOST};
enum { VALUE_COUNT = sizeof values / sizeof values[0] };

static void get_finds_nothing_under_a_fresh_key(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_get(&at), WEIR_ABSENT);
}

static void get_reads_what_was_put(void **state) {
  for (size_t i = 0; i < VALUE_COUNT; i++) {
    key at = subject_lone_key();
    expect_end(*state, op_put(&at, values[i]), WEIR_DONE);
    expect_total(*state, op_get(&at), values[i]);
  }
}

static void put_replaces_whatever_was_there(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_put(&at, 1234567), WEIR_DONE);
  expect_end(*state, op_put(&at, 8), WEIR_DONE);
  expect_total(*state, op_get(&at), 8);
  expect_total(*state, op_add(&at, 1), 9);
}

static void create_stores_only_where_nothing_is(void **state) {
  for (size_t i = 0; i < VALUE_COUNT; i++) {
    key at = subject_lone_key();
    expect_end(*state, op_create(&at, values[i]), WEIR_DONE);
    expect_end(*state, op_create(&at, 77), WEIR_CONFLICT);
    expect_total(*state, op_get(&at), values[i]);
  }
}

static void drop_deletes(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_put(&at, 5), WEIR_DONE);
  expect_end(*state, op_drop(&at), WEIR_DONE);
  expect_end(*state, op_get(&at), WEIR_ABSENT);
  expect_end(*state, op_create(&at, 6), WEIR_DONE);
}

static void drop_of_nothing_is_absent(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_drop(&at), WEIR_ABSENT);
}

const contract_test storing_tests[] = {
    CONTRACT_TEST(get_finds_nothing_under_a_fresh_key),
    CONTRACT_TEST(get_reads_what_was_put),
    CONTRACT_TEST(put_replaces_whatever_was_there),
    CONTRACT_TEST(create_stores_only_where_nothing_is),
    CONTRACT_TEST(drop_deletes),
    CONTRACT_TEST(drop_of_nothing_is_absent),
    CONTRACT_END,
};

/* GET, CREATE, SWAP, PUT, DROP, and versions. */
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

static uint64_t version_of(const subject *on, const key *at) {
  weir_operation got = expect_end(on, op_get(at), WEIR_DONE);
  assert_true(got.version_out != 0);
  return got.version_out;
}

static void swap_stores_over_the_version_it_names(void **state) {
  for (size_t i = 0; i < VALUE_COUNT; i++) {
    key at = subject_lone_key();
    expect_end(*state, op_put(&at, 5), WEIR_DONE);
    expect_end(*state, op_swap(&at, version_of(*state, &at), values[i]), WEIR_DONE);
    expect_total(*state, op_get(&at), values[i]);
  }
}

static void swap_of_nothing_is_absent(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_swap(&at, 1, 5), WEIR_ABSENT);
  expect_end(*state, op_get(&at), WEIR_ABSENT);
}

/* Whatever writes makes a version old, equal value or not. */
static void swap_sees_every_write_in_between(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_put(&at, 5), WEIR_DONE);
  const weir_operation writes[] = {op_add(&at, 1), op_sub(&at, 1), op_put(&at, 5),
                                   op_swap(&at, 0, 5)};
  for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++) {
    weir_operation write = writes[i];
    uint64_t old = version_of(*state, &at);
    if (write.kind == WEIR_SWAP) write.version = old;
    expect_end(*state, write, WEIR_DONE);
    expect_end(*state, op_swap(&at, old, 99), WEIR_CONFLICT);
  }
  expect_total(*state, op_get(&at), 5);
}

static void swap_sees_that_a_key_was_made_anew(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_put(&at, 5), WEIR_DONE);
  uint64_t old = version_of(*state, &at);
  expect_end(*state, op_drop(&at), WEIR_DONE);
  expect_end(*state, op_create(&at, 5), WEIR_DONE);
  expect_end(*state, op_swap(&at, old, 99), WEIR_CONFLICT);
}

static void a_read_keeps_the_version(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_put(&at, 5), WEIR_DONE);
  uint64_t version = version_of(*state, &at);
  assert_true(version_of(*state, &at) == version);
  expect_end(*state, op_swap(&at, version, 6), WEIR_DONE);
}

/* What CREATE and SWAP tell, where they do, is what a GET would. */
static void a_writer_is_told_the_version_it_made(void **state) {
  key at = subject_lone_key();
  weir_operation created = expect_end(*state, op_create(&at, 5), WEIR_DONE);
  uint64_t version = version_of(*state, &at);
  if (created.version_out != 0) assert_true(created.version_out == version);
  weir_operation swapped = expect_end(*state, op_swap(&at, version, 6), WEIR_DONE);
  if (swapped.version_out != 0) assert_true(swapped.version_out == version_of(*state, &at));
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

const contract_test swapping_tests[] = {
    CONTRACT_TEST(swap_stores_over_the_version_it_names),
    CONTRACT_TEST(swap_of_nothing_is_absent),
    CONTRACT_TEST(swap_sees_every_write_in_between),
    CONTRACT_TEST(swap_sees_that_a_key_was_made_anew),
    CONTRACT_TEST(a_read_keeps_the_version),
    CONTRACT_TEST(a_writer_is_told_the_version_it_made),
    CONTRACT_END,
};

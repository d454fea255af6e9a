/* Stores with WEIR_TRAIT_IDENTITY: counters that no text names. */
#include "contract/suite.h"
#include "store/store.h"

/* As a limiter would make one: bits of which nobody knows anything, and a home of its own. */
static void identify(weir_operation *operation, unsigned home, uint64_t number) {
  uint64_t bits = (uint64_t)home << 32 | (number + 1);
  operation->identity[0] = bits * UINT64_C(0x9e3779b97f4a7c15);
  operation->identity[1] = (bits * UINT64_C(0xd1b54a32d192ed03)) << 16 | (home & 0xffff);
}

static weir_operation unnamed(weir_operation operation, unsigned home, uint64_t number) {
  operation.key = NULL;
  operation.key_length = operation.home_offset = operation.home_length = 0;
  identify(&operation, home, number);
  return operation;
}

static const key no_key;

static void an_identity_is_one_counter_for_every_kind(void **state) {
  unsigned home = subject_new_home();
  expect_end(*state, unnamed(op_get(&no_key), home, 1), WEIR_ABSENT);
  expect_total(*state, unnamed(op_add_seed(&no_key, 10, 5), home, 1), 15);
  expect_end(*state, unnamed(op_create(&no_key, 1), home, 1), WEIR_CONFLICT);
  expect_total(*state, unnamed(op_sub(&no_key, 20), home, 1), -5);
  expect_end(*state, unnamed(op_put(&no_key, 7), home, 1), WEIR_DONE);
  expect_total(*state, unnamed(op_get(&no_key), home, 1), 7);
  expect_end(*state, unnamed(op_drop(&no_key), home, 1), WEIR_DONE);
  expect_end(*state, unnamed(op_get(&no_key), home, 1), WEIR_ABSENT);
}

static void identities_that_differ_are_apart(void **state) {
  enum { COUNTERS = 1000 };
  static weir_operation batch[COUNTERS];
  unsigned home = subject_new_home();
  for (int round = 1; round <= 2; round++) {
    for (size_t i = 0; i < COUNTERS; i++)
      batch[i] = unnamed(op_add(&no_key, (int64_t)i + 1), home, i);
    subject_exec(*state, batch, COUNTERS, NULL);
    for (size_t i = 0; i < COUNTERS; i++) {
      assert_int_equal(batch[i].outcome, WEIR_DONE);
      assert_int_equal(batch[i].value, round * (int64_t)(i + 1));
    }
  }
}

static void names_and_identities_work_in_one_exec(void **state) {
  unsigned home = subject_new_home();
  key at = subject_key(home, 1);
  weir_operation batch[] = {op_add(&at, 3), unnamed(op_add(&no_key, 40), home, 1), op_add(&at, 1),
                            unnamed(op_get(&no_key), home, 1), op_get(&at)};
  static const int64_t totals[] = {3, 40, 4, 40, 4};
  subject_exec(*state, batch, 5, NULL);
  for (size_t i = 0; i < 5; i++) {
    assert_int_equal(batch[i].outcome, WEIR_DONE);
    assert_int_equal(batch[i].value, totals[i]);
  }
}

static int64_t execute_at(const subject *on, weir_operation operation, int64_t now_us) {
  weir_store_exec_at(on->store, &operation, 1, &now_us, NULL);
  assert_int_equal(operation.outcome, WEIR_DONE);
  return now_us;
}

static void a_time_is_taken_until_something_came_later(void **state) {
  unsigned home = subject_new_home();
  weir_operation add = unnamed(op_add(&no_key, 1), home, 1);
  expect_total(*state, add, 1);
  int64_t first_us = weir_monotonic_us();
  assert_int_equal(execute_at(*state, add, first_us), first_us);
  assert_int_equal(execute_at(*state, add, first_us), first_us);
  while (weir_monotonic_us() <= first_us) {
  }
  int64_t second_us = weir_monotonic_us();
  weir_operation beside = unnamed(op_add(&no_key, 1), home, 2);
  assert_int_equal(execute_at(*state, beside, second_us), second_us);
  assert_true(execute_at(*state, add, first_us) >= second_us);
  while (weir_monotonic_us() <= second_us) {
  }
  expect_total(*state, beside, 2);
  assert_true(execute_at(*state, add, second_us) > second_us);
  expect_total(*state, add, 6);
}

/* A store is not asked for what it cannot find. */
static void an_identity_is_refused_elsewhere(void **state) {
  weir_message message = {""};
  key at = subject_lone_key();
  weir_operation operation = op_add(&at, 1);
  identify(&operation, 1, 1);
  subject_exec(*state, &operation, 1, &message);
  assert_int_equal(operation.outcome, WEIR_REFUSED);
  assert_true(message.text[0] != '\0');
  expect_end(*state, op_get(&at), WEIR_ABSENT);
}

const contract_test identity_tests[] = {
    CONTRACT_TEST(an_identity_is_one_counter_for_every_kind),
    CONTRACT_TEST(identities_that_differ_are_apart),
    CONTRACT_TEST(names_and_identities_work_in_one_exec),
    CONTRACT_TEST(a_time_is_taken_until_something_came_later),
    CONTRACT_END,
};

const contract_test no_identity_tests[] = {
    CONTRACT_TEST(an_identity_is_refused_elsewhere),
    CONTRACT_END,
};

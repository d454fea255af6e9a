/* RAISE, and what else is asked of a key that it made. */
#include <pthread.h>

#include "contract/plain_client.h"
#include "contract/suite.h"

static weir_operation raised(weir_operation operation) {
  operation.raised = true;
  return operation;
}

static void raise_lifts_to_the_floor_then_adds(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_raise(&at, 100, 5), 105);
  expect_total(*state, op_raise(&at, 50, 5), 110);
  expect_total(*state, op_raise(&at, 200, 5), 205);
  expect_total(*state, op_raise(&at, 205, 5), 210);
}

static weir_operation unrenewed(weir_operation raise) {
  raise.refresh = false;
  return raise;
}

static void a_raise_without_refresh_lifts_and_adds_as_well(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_raise(&at, 100, 5), 105);
  expect_total(*state, unrenewed(op_raise(&at, 50, 5)), 110);
  expect_total(*state, unrenewed(op_raise(&at, 200, 5)), 205);
  expect_total(*state, raised(op_sub(&at, 300)), -95);
  expect_total(*state, unrenewed(op_raise(&at, 0, 2)), 2);
}

/* Nothing at all: the key takes plain operations afterwards. */
static void a_raise_without_refresh_creates_nothing(void **state) {
  key at = subject_lone_key();
  weir_operation batch[] = {unrenewed(op_raise(&at, 100, 5)),
                            raised(op_get(&at)),
                            op_raise(&at, 9, 1),
                            unrenewed(op_raise(&at, 9, 1)),
                            op_drop(&at),
                            unrenewed(op_raise(&at, 100, 5)),
                            raised(op_get(&at))};
  static const int64_t values[] = {-1, -1, 10, 11, 0, -1, -1}; /* -1: ABSENT */
  subject_exec(*state, batch, 7, NULL);
  for (size_t i = 0; i < 7; i++) {
    assert_int_equal(batch[i].outcome, values[i] < 0 ? WEIR_ABSENT : WEIR_DONE);
    if (values[i] > 0) assert_int_equal(batch[i].value, values[i]);
  }
  expect_end(*state, op_drop(&at), WEIR_ABSENT);
  expect_total(*state, op_add(&at, 5), 5);
}

/* By the server's own word, where it can be asked. */
static void only_a_raise_with_refresh_renews_the_ttl(void **state) {
  key at = subject_lone_key();
  const int64_t day_s = DAY_US / SECOND_US;
  expect_total(*state, lasting(op_raise(&at, 100, 5), DAY_US), 105);
  expect_total(*state, unrenewed(lasting(op_raise(&at, 100, 5), 30 * DAY_US)), 110);
  if (plain_sees_servers(*state)) assert_in_range(plain_ttl_s(*state, &at), day_s - 60, day_s + 1);
  expect_total(*state, lasting(op_raise(&at, 100, 5), 30 * DAY_US), 115);
  if (plain_sees_servers(*state))
    assert_in_range(plain_ttl_s(*state, &at), 30 * day_s - 60, 30 * day_s + 1);
}

static void raise_is_exact_below_2_to_the_53(void **state) {
  const int64_t floor = INT64_C(1) << 52;
  key at = subject_lone_key();
  expect_total(*state, op_raise(&at, floor, 1), floor + 1);
  expect_total(*state, op_raise(&at, floor, floor - 2), 2 * floor - 1);
  expect_total(*state, raised(op_get(&at)), 2 * floor - 1);
  expect_total(*state, raised(op_sub(&at, 2 * floor - 2)), 1);
  expect_total(*state, raised(op_sub(&at, 2 * floor - 1)), 2 - 2 * floor);
  expect_total(*state, raised(op_get(&at)), 2 - 2 * floor);
}

static void a_get_of_a_raised_key_reads_its_total(void **state) {
  key at = subject_lone_key();
  expect_end(*state, raised(op_get(&at)), WEIR_ABSENT);
  expect_total(*state, op_raise(&at, 0, 1), 1);
  expect_total(*state, raised(op_get(&at)), 1);
  expect_end(*state, op_drop(&at), WEIR_DONE);
  expect_end(*state, raised(op_get(&at)), WEIR_ABSENT);
}

static void a_sub_of_a_raised_key_goes_below_nothing_and_is_raised_again(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_raise(&at, 10, 5), 15);
  expect_total(*state, raised(op_sub(&at, 5)), 10);
  expect_total(*state, raised(op_sub(&at, 10)), 0);
  expect_total(*state, raised(op_get(&at)), 0);
  expect_total(*state, raised(op_sub(&at, 3)), -3);
  expect_total(*state, raised(op_get(&at)), -3);
  expect_total(*state, op_raise(&at, 7, 2), 9);
}

/* Nothing at all is made: the key takes plain operations afterwards. */
static void a_sub_of_an_absent_raised_key_creates_nothing(void **state) {
  key at = subject_lone_key();
  expect_end(*state, raised(op_sub(&at, 5)), WEIR_ABSENT);
  expect_end(*state, raised(op_get(&at)), WEIR_ABSENT);
  expect_end(*state, op_drop(&at), WEIR_ABSENT);
  expect_total(*state, op_add(&at, 5), 5);
}

/* Each kind of key refuses what is for the other, and stays what it was. */
static void a_raised_key_and_a_plain_one_are_not_mistaken(void **state) {
  key lifted = subject_lone_key();
  key plain = subject_lone_key();
  expect_total(*state, op_raise(&lifted, 100, 5), 105);
  expect_total(*state, op_add(&plain, 5), 5);
  expect_end(*state, op_get(&lifted), WEIR_REFUSED);
  expect_end(*state, op_add(&lifted, 1), WEIR_REFUSED);
  expect_end(*state, op_sub(&lifted, 1), WEIR_REFUSED);
  expect_end(*state, op_create(&lifted, 1), WEIR_CONFLICT);
  expect_end(*state, raised(op_get(&plain)), WEIR_REFUSED);
  expect_end(*state, raised(op_sub(&plain, 1)), WEIR_REFUSED);
  expect_end(*state, op_raise(&plain, 9, 1), WEIR_REFUSED);
  expect_end(*state, unrenewed(op_raise(&plain, 9, 1)), WEIR_REFUSED);
  expect_total(*state, raised(op_get(&lifted)), 105);
  expect_total(*state, op_get(&plain), 5);
}

static void operations_of_a_raised_key_run_in_order(void **state) {
  key at = subject_lone_key();
  weir_operation batch[] = {raised(op_get(&at)),    op_raise(&at, 100, 5), raised(op_get(&at)),
                            raised(op_sub(&at, 5)), op_raise(&at, 90, 1),  raised(op_sub(&at, 1)),
                            raised(op_get(&at)),    op_drop(&at),          raised(op_sub(&at, 1)),
                            op_raise(&at, 3, 1)};
  static const int64_t values[] = {-1, 105, 105, 100, 101, 100, 100, 0, -1, 4}; /* -1: ABSENT */
  subject_exec(*state, batch, 10, NULL);
  for (size_t i = 0; i < 10; i++) {
    assert_int_equal(batch[i].outcome, values[i] < 0 ? WEIR_ABSENT : WEIR_DONE);
    if (values[i] > 0) assert_int_equal(batch[i].value, values[i]);
  }
}

enum { THREADS = 8, ROUNDS = 150 };

typedef struct lifter {
  const subject *on;
  const key *at;
  size_t failures;
} lifter;

/* 3 up, 2 back: one is left. */
static void *lift_and_let_go(void *context) {
  lifter *self = context;
  for (size_t i = 0; i < ROUNDS; i++) {
    weir_operation up = subject_do(self->on, op_raise(self->at, 1000, 3));
    weir_operation back = subject_do(self->on, raised(op_sub(self->at, 2)));
    self->failures += up.outcome != WEIR_DONE || back.outcome != WEIR_DONE;
    self->failures += up.value < 1003 || back.value < 1001;
  }
  return NULL;
}

static void no_raise_of_many_threads_is_lost(void **state) {
  pthread_t threads[THREADS];
  lifter lifters[THREADS];
  key at = subject_lone_key();
  for (size_t i = 0; i < THREADS; i++) {
    lifters[i] = (lifter){*state, &at, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, lift_and_let_go, &lifters[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (size_t i = 0; i < THREADS; i++)
    assert_int_equal(lifters[i].failures, 0);
  expect_total(*state, raised(op_get(&at)), 1000 + THREADS * ROUNDS);
}

const contract_test raising_tests[] = {
    CONTRACT_TEST(raise_lifts_to_the_floor_then_adds),
    CONTRACT_TEST(a_raise_without_refresh_lifts_and_adds_as_well),
    CONTRACT_TEST(a_raise_without_refresh_creates_nothing),
    CONTRACT_TEST(only_a_raise_with_refresh_renews_the_ttl),
    CONTRACT_TEST(raise_is_exact_below_2_to_the_53),
    CONTRACT_TEST(a_get_of_a_raised_key_reads_its_total),
    CONTRACT_TEST(a_sub_of_a_raised_key_goes_below_nothing_and_is_raised_again),
    CONTRACT_TEST(a_sub_of_an_absent_raised_key_creates_nothing),
    CONTRACT_TEST(a_raised_key_and_a_plain_one_are_not_mistaken),
    CONTRACT_TEST(operations_of_a_raised_key_run_in_order),
    CONTRACT_TEST(no_raise_of_many_threads_is_lost),
    CONTRACT_END,
};

/* By the store's own check: nothing is sent. */
static void a_raised_key_is_refused(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_raise(&at, 5, 1), WEIR_REFUSED);
  expect_end(*state, op_get(&at), WEIR_ABSENT);
  expect_total(*state, op_add(&at, 5), 5);
  expect_end(*state, raised(op_get(&at)), WEIR_REFUSED);
  expect_end(*state, raised(op_sub(&at, 1)), WEIR_REFUSED);
  expect_total(*state, op_get(&at), 5);
}

const contract_test no_raising_tests[] = {
    CONTRACT_TEST(a_raised_key_is_refused),
    CONTRACT_END,
};

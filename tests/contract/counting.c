/* ADD, SUB. */
#include <pthread.h>
#include <stdlib.h>

#include "contract/suite.h"

static void add_creates_an_absent_key_with_seed_and_delta(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add_seed(&at, 40, 2), 42);
  expect_total(*state, op_get(&at), 42);
}

static void add_ignores_the_seed_of_a_key_that_is_there(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add_seed(&at, 40, 2), 42);
  expect_total(*state, op_add_seed(&at, 1000, 5), 47);
}

static void add_without_a_seed_starts_at_nothing(void **state) {
  key at = subject_lone_key();
  for (int64_t total = 7; total <= 21; total += 7)
    expect_total(*state, op_add(&at, 7), total);
}

static void add_counts_exactly_whatever_the_size(void **state) {
  static const int64_t sizes[] = {1,
                                  9,
                                  10,
                                  99,
                                  100,
                                  (INT64_C(1) << 31) - 1,
                                  INT64_C(1) << 32,
                                  (INT64_C(1) << 53) + 1,
                                  INT64_C(999999999999999999),
                                  WEIR_VALUE_MOST - 1};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    key at = subject_lone_key();
    expect_total(*state, op_add(&at, sizes[i]), sizes[i]);
    expect_total(*state, op_add(&at, 1), sizes[i] + 1);
    expect_total(*state, op_get(&at), sizes[i] + 1);
  }
}

static void add_takes_the_largest_delta_and_seed(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add(&at, WEIR_VALUE_MOST), WEIR_VALUE_MOST);
  key seeded = subject_lone_key();
  expect_total(*state, op_add_seed(&seeded, WEIR_VALUE_MOST, 1), WEIR_VALUE_MOST + 1);
  expect_total(*state, op_get(&seeded), WEIR_VALUE_MOST + 1);
}

static void sub_takes_back_what_was_added(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add(&at, 10), 10);
  expect_total(*state, op_sub(&at, 4), 6);
  expect_total(*state, op_sub(&at, 6), 0);
  expect_total(*state, op_get(&at), 0);
}

/* Totals that become shorter: a server may leave spaces where digits were. */
static void sub_leaves_a_total_that_can_be_read(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add(&at, 1000000), 1000000);
  expect_total(*state, op_sub(&at, 999999), 1);
  expect_total(*state, op_get(&at), 1);
  expect_total(*state, op_add(&at, 1), 2);
  expect_total(*state, op_get(&at), 2);
}

static void sub_goes_below_nothing_and_comes_back(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add(&at, 3), 3);
  expect_total(*state, op_sub(&at, 5), -2);
  expect_total(*state, op_get(&at), -2);
  expect_total(*state, op_sub(&at, 1), -3);
  expect_total(*state, op_add(&at, 2), -1);
  expect_total(*state, op_add(&at, 2), 1);
  expect_total(*state, op_get(&at), 1);
}

static void sub_goes_far_below_nothing(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add(&at, 1), 1);
  expect_total(*state, op_sub(&at, WEIR_VALUE_MOST), 1 - WEIR_VALUE_MOST);
  expect_total(*state, op_get(&at), 1 - WEIR_VALUE_MOST);
  expect_total(*state, op_add(&at, WEIR_VALUE_MOST), 1);
}

/* What is there is 0, which is not nothing. */
static void sub_takes_from_a_key_of_nothing(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add(&at, 3), 3);
  expect_total(*state, op_sub(&at, 3), 0);
  expect_total(*state, op_sub(&at, 2), -2);
  expect_total(*state, op_get(&at), -2);
}

/* Others must find it there: a bound that is met keeps no seed out. */
static void a_seed_is_stored_above_its_bound(void **state) {
  key at = subject_lone_key();
  weir_operation add = op_add_seed(&at, 1000, 7);
  add.floor = 900;
  expect_total(*state, add, 1007);
  expect_total(*state, op_get(&at), 1007);
}

static void sub_of_an_absent_key_leaves_nothing_or_a_zero(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_sub(&at, 5), WEIR_ABSENT);
  weir_operation seen = subject_do(*state, op_get(&at));
  assert_true(seen.outcome == WEIR_ABSENT || (seen.outcome == WEIR_DONE && seen.value == 0));
  expect_total(*state, op_add(&at, 5), 5);
}

static void sub_of_an_absent_key_leaves_nothing_or_its_seed(void **state) {
  key at = subject_lone_key();
  weir_operation sub = op_sub(&at, 5);
  sub.seed = 1000;
  expect_end(*state, sub, WEIR_ABSENT);
  weir_operation seen = subject_do(*state, op_get(&at));
  assert_true(seen.outcome == WEIR_ABSENT || (seen.outcome == WEIR_DONE && seen.value == 1000));
  expect_total(*state, op_add_seed(&at, 1000, 7), 1007);
  sub = op_sub(&at, 5);
  sub.seed = 1000;
  expect_total(*state, sub, 1002);
}

enum {
  THREADS = 8,
  ROUNDS = 150,
  ADDITIONS = THREADS * ROUNDS,
  SHARED_KEYS = 3,
  BATCH = 2 * SHARED_KEYS
};

typedef struct crowd {
  const subject *on;
  key keys[SHARED_KEYS];
  int64_t totals[THREADS][ROUNDS]; /* that ADD of keys[0] gave */
  pthread_barrier_t start;
} crowd;

typedef struct member {
  crowd *crowd_of;
  size_t number;
  size_t failures;
} member;

/* Every key but the first is left as it was found. */
static void *count_up(void *context) {
  member *mine = context;
  crowd *ours = mine->crowd_of;
  pthread_barrier_wait(&ours->start);
  for (size_t round = 0; round < ROUNDS; round++) {
    weir_operation batch[BATCH] = {op_add(&ours->keys[1], 5), op_add(&ours->keys[0], 1),
                                   op_add(&ours->keys[2], 9), op_get(&ours->keys[0]),
                                   op_sub(&ours->keys[1], 5), op_sub(&ours->keys[2], 8)};
    subject_exec(ours->on, batch, BATCH, NULL);
    for (size_t i = 0; i < BATCH; i++)
      mine->failures += batch[i].outcome != WEIR_DONE;
    mine->failures += batch[3].value < batch[1].value;
    ours->totals[mine->number][round] = batch[1].value;
  }
  return NULL;
}

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left;
  int64_t b = *(const int64_t *)right;
  return (a > b) - (a < b);
}

/* Every total from 1 to the number of additions is given out once: none was lost, none done twice.
 */
static void add_is_atomic_among_many_threads(void **state) {
  static crowd everyone;
  pthread_t threads[THREADS];
  member members[THREADS];
  unsigned home = subject_new_home();
  everyone.on = *state;
  for (unsigned i = 0; i < SHARED_KEYS; i++)
    everyone.keys[i] = subject_key(home, i);
  pthread_barrier_init(&everyone.start, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++) {
    members[i] = (member){&everyone, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, count_up, &members[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&everyone.start);
  for (size_t i = 0; i < THREADS; i++)
    assert_int_equal(members[i].failures, 0);
  int64_t *totals = everyone.totals[0];
  qsort(totals, ADDITIONS, sizeof *totals, compare);
  for (int64_t i = 0; i < ADDITIONS; i++)
    assert_int_equal(totals[i], i + 1);
  expect_total(*state, op_get(&everyone.keys[0]), ADDITIONS);
  expect_total(*state, op_get(&everyone.keys[1]), 0);
  expect_total(*state, op_get(&everyone.keys[2]), ADDITIONS);
}

const contract_test counting_tests[] = {
    CONTRACT_TEST(add_creates_an_absent_key_with_seed_and_delta),
    CONTRACT_TEST(add_ignores_the_seed_of_a_key_that_is_there),
    CONTRACT_TEST(add_without_a_seed_starts_at_nothing),
    CONTRACT_TEST(add_counts_exactly_whatever_the_size),
    CONTRACT_TEST(add_takes_the_largest_delta_and_seed),
    CONTRACT_TEST(a_seed_is_stored_above_its_bound),
    CONTRACT_TEST(sub_takes_back_what_was_added),
    CONTRACT_TEST(sub_leaves_a_total_that_can_be_read),
    CONTRACT_TEST(sub_goes_below_nothing_and_comes_back),
    CONTRACT_TEST(sub_goes_far_below_nothing),
    CONTRACT_TEST(sub_takes_from_a_key_of_nothing),
    CONTRACT_TEST(sub_of_an_absent_key_leaves_nothing_or_a_zero),
    CONTRACT_TEST(sub_of_an_absent_key_leaves_nothing_or_its_seed),
    CONTRACT_TEST(add_is_atomic_among_many_threads),
    CONTRACT_END,
};

/* SWAP, and the versions that it lives by. */
#include <pthread.h>
#include <string.h>

#include "contract/suite.h"

static const int64_t values[] = {
    0, 1, 9, 10, 4294967296, (INT64_C(1) << 53) + 1, WEIR_VALUE_MOST - 1, WEIR_VALUE_MOST};
enum { VALUE_COUNT = sizeof values / sizeof values[0] };

/* The classic commands of memcached tell no version to a writer. */
static bool tells_writers(const subject *on) {
  return strstr(on->name, "CLASSIC") == NULL && strstr(on->name, "TWEMPROXY") == NULL;
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

static void a_read_keeps_the_version(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_put(&at, 5), WEIR_DONE);
  uint64_t version = version_of(*state, &at);
  assert_true(version_of(*state, &at) == version);
  expect_end(*state, op_swap(&at, version, 6), WEIR_DONE);
}

/* The versions that CREATE and SWAP tell, where they do, are those that a GET would: a writer needs
 * no read to go on.
 */
static void a_writer_goes_on_from_the_version_it_made(void **state) {
  key at = subject_lone_key();
  weir_operation last = expect_end(*state, op_create(&at, 0), WEIR_DONE);
  for (size_t i = 0; i < 3 * VALUE_COUNT; i++) {
    uint64_t version = last.version_out;
    assert_int_equal(version != 0, tells_writers(*state));
    if (version == 0) version = version_of(*state, &at);
    if (i % 3 == 2) assert_true(version == version_of(*state, &at));
    last = expect_end(*state, op_swap(&at, version, values[i % VALUE_COUNT]), WEIR_DONE);
  }
  expect_total(*state, op_get(&at), values[VALUE_COUNT - 1]);
}

static void a_version_that_nobody_gave_is_a_conflict(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_create(&at, 5), WEIR_DONE);
  uint64_t version = version_of(*state, &at);
  const uint64_t wrong[] = {version - 1,  version + 1,          version ^ 1, version << 1,
                            version >> 1, version ^ UINT64_MAX, UINT64_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    if (wrong[i] != 0) expect_end(*state, op_swap(&at, wrong[i], 99), WEIR_CONFLICT);
  expect_end(*state, op_swap(&at, version, 6), WEIR_DONE);
}

static void a_version_fits_its_own_key_alone(void **state) {
  unsigned home = subject_new_home();
  key one = subject_key(home, 1);
  key other = subject_key(home, 2);
  expect_end(*state, op_create(&one, 5), WEIR_DONE);
  expect_end(*state, op_create(&other, 5), WEIR_DONE);
  expect_end(*state, op_swap(&other, version_of(*state, &one), 99), WEIR_CONFLICT);
  expect_total(*state, op_get(&other), 5);
}

static void a_key_that_is_gone_is_absent_and_one_made_anew_a_conflict(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_create(&at, 5), WEIR_DONE);
  uint64_t version = version_of(*state, &at);
  expect_end(*state, op_drop(&at), WEIR_DONE);
  expect_end(*state, op_swap(&at, version, 99), WEIR_ABSENT);
  expect_end(*state, op_get(&at), WEIR_ABSENT);
  expect_end(*state, op_create(&at, 5), WEIR_DONE);
  expect_end(*state, op_swap(&at, version, 99), WEIR_CONFLICT);
  expect_end(*state, op_drop(&at), WEIR_DONE);
  expect_total(*state, op_add(&at, 5), 5);
  expect_end(*state, op_swap(&at, version, 99), WEIR_CONFLICT);
  expect_total(*state, op_get(&at), 5);
}

/* The winner's version serves the next; the loser has changed nothing. */
static void of_swaps_over_one_version_in_a_batch_the_first_wins(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_put(&at, 5), WEIR_DONE);
  uint64_t version = version_of(*state, &at);
  weir_operation batch[] = {op_swap(&at, version, 6), op_swap(&at, version, 7), op_get(&at),
                            op_drop(&at), op_swap(&at, version, 8)};
  subject_exec(*state, batch, 5, NULL);
  assert_int_equal(batch[0].outcome, WEIR_DONE);
  assert_int_equal(batch[1].outcome, WEIR_CONFLICT);
  assert_int_equal(batch[2].outcome, WEIR_DONE);
  assert_int_equal(batch[2].value, 6);
  assert_int_equal(batch[3].outcome, WEIR_DONE);
  assert_int_equal(batch[4].outcome, WEIR_ABSENT);
}

/* A counter below nothing, which no SWAP can write, can be swapped away. */
static void swap_replaces_what_additions_left(void **state) {
  key at = subject_lone_key();
  expect_total(*state, op_add(&at, 3), 3);
  expect_total(*state, op_sub(&at, 5), -2);
  expect_end(*state, op_swap(&at, version_of(*state, &at), WEIR_VALUE_MOST), WEIR_DONE);
  expect_total(*state, op_add(&at, 1), WEIR_VALUE_MOST + 1);
  expect_end(*state, op_swap(&at, version_of(*state, &at), 4), WEIR_DONE);
  expect_total(*state, op_sub(&at, 1), 3);
}

enum { THREADS = 8, STEPS = 40 };

typedef struct climb {
  const subject *on;
  key at;
  pthread_barrier_t start;
} climb;

typedef struct climber {
  climb *of;
  int64_t value;    /* that was last read or written */
  uint64_t version; /* of it; 0: not known, or no key */
  size_t done;
  size_t failures;
  bool wrote[THREADS * STEPS + 1];
} climber;

static void look(climber *self) {
  weir_operation got = subject_do(self->of->on, op_get(&self->of->at));
  bool found = got.outcome == WEIR_DONE;
  self->failures += !found && got.outcome != WEIR_ABSENT;
  self->value = found ? got.value : 0;
  self->version = found ? got.version_out : 0;
}

/* As a bucket does: reads where it knows no version, makes the key where there is none, and goes
 * on from what its own write has told. */
static void step_up(climber *self) {
  if (self->version == 0) look(self);
  const key *at = &self->of->at;
  int64_t next = self->value + 1;
  weir_operation write =
      self->version == 0 ? op_create(at, next) : op_swap(at, self->version, next);
  write = subject_do(self->of->on, write);
  self->version = 0;
  if (write.outcome == WEIR_CONFLICT) return;
  if (write.outcome != WEIR_DONE || next > THREADS * STEPS) {
    self->failures++;
    return;
  }
  self->wrote[next] = true;
  self->value = next;
  self->version = write.version_out;
  self->done++;
}

static void *climb_up(void *context) {
  climber *self = context;
  pthread_barrier_wait(&self->of->start);
  while (self->done < STEPS && self->failures == 0)
    step_up(self);
  return NULL;
}

/* Every value from 1 on was written by one thread and no other: no step was lost. */
static void no_step_of_many_threads_is_lost(void **state) {
  static climb hill;
  static climber climbers[THREADS];
  pthread_t threads[THREADS];
  hill.on = *state;
  hill.at = subject_lone_key();
  pthread_barrier_init(&hill.start, NULL, THREADS);
  for (size_t i = 0; i < THREADS; i++) {
    climbers[i] = (climber){.of = &hill};
    assert_int_equal(pthread_create(&threads[i], NULL, climb_up, &climbers[i]), 0);
  }
  for (size_t i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&hill.start);
  for (size_t i = 0; i < THREADS; i++)
    assert_int_equal(climbers[i].failures, 0);
  for (size_t value = 1; value <= THREADS * STEPS; value++) {
    size_t writers = 0;
    for (size_t i = 0; i < THREADS; i++)
      writers += climbers[i].wrote[value];
    assert_int_equal(writers, 1);
  }
  expect_total(*state, op_get(&hill.at), THREADS * STEPS);
}

const contract_test swapping_tests[] = {
    CONTRACT_TEST(swap_stores_over_the_version_it_names),
    CONTRACT_TEST(swap_of_nothing_is_absent),
    CONTRACT_TEST(swap_sees_every_write_in_between),
    CONTRACT_TEST(a_read_keeps_the_version),
    CONTRACT_TEST(a_writer_goes_on_from_the_version_it_made),
    CONTRACT_TEST(a_version_that_nobody_gave_is_a_conflict),
    CONTRACT_TEST(a_version_fits_its_own_key_alone),
    CONTRACT_TEST(a_key_that_is_gone_is_absent_and_one_made_anew_a_conflict),
    CONTRACT_TEST(of_swaps_over_one_version_in_a_batch_the_first_wins),
    CONTRACT_TEST(swap_replaces_what_additions_left),
    CONTRACT_TEST(no_step_of_many_threads_is_lost),
    CONTRACT_END,
};

/* By the store's own check: nothing is sent. */
static void a_swap_is_refused(void **state) {
  key at = subject_lone_key();
  expect_end(*state, op_swap(&at, 1, 5), WEIR_REFUSED);
  expect_end(*state, op_get(&at), WEIR_ABSENT);
}

const contract_test no_swapping_tests[] = {
    CONTRACT_TEST(a_swap_is_refused),
    CONTRACT_END,
};

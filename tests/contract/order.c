/* Order within one exec, large batches, and what two callers see of each other. */
#include <pthread.h>

#include "contract/suite.h"
#include "store/store.h"

static void operations_of_one_key_run_in_order(void **state) {
  key at = subject_lone_key();
  weir_operation batch[] = {op_get(&at),       op_sub(&at, 1), op_add(&at, 5), op_get(&at),
                            op_sub(&at, 2),    op_get(&at),    op_put(&at, 9), op_create(&at, 3),
                            op_add(&at, 1),    op_drop(&at),   op_drop(&at),   op_get(&at),
                            op_create(&at, 4), op_get(&at),    op_add(&at, 1), op_sub(&at, 9),
                            op_get(&at)};
  static const struct {
    weir_outcome outcome;
    int64_t value; /* of ADD, SUB and GET that are done */
  } expected[] = {{WEIR_ABSENT, 0}, {WEIR_ABSENT, 0}, {WEIR_DONE, 5},   {WEIR_DONE, 5},
                  {WEIR_DONE, 3},   {WEIR_DONE, 3},   {WEIR_DONE, 0},   {WEIR_CONFLICT, 0},
                  {WEIR_DONE, 10},  {WEIR_DONE, 0},   {WEIR_ABSENT, 0}, {WEIR_ABSENT, 0},
                  {WEIR_DONE, 0},   {WEIR_DONE, 4},   {WEIR_DONE, 5},   {WEIR_DONE, -4},
                  {WEIR_DONE, -4}};
  size_t count = sizeof batch / sizeof batch[0];
  subject_exec(*state, batch, count, NULL);
  for (size_t i = 0; i < count; i++) {
    bool counts =
        batch[i].kind == WEIR_ADD || batch[i].kind == WEIR_SUB || batch[i].kind == WEIR_GET;
    if (batch[i].outcome != expected[i].outcome ||
        (counts && batch[i].outcome == WEIR_DONE && batch[i].value != expected[i].value))
      fail_msg("operation %zu: outcome %d, value %lld", i, (int)batch[i].outcome,
               (long long)batch[i].value);
  }
}

/* A backend that needs several tries for an ADD of an absent key must not let the GETs overtake it.
 */
static void a_read_sees_the_addition_to_an_absent_key_before_it(void **state) {
  for (int64_t round = 1; round <= 50; round++) {
    unsigned home = subject_new_home();
    key first = subject_key(home, 1);
    key second = subject_key(home, 2);
    weir_operation batch[] = {op_add(&first, round),  op_get(&second), op_get(&first),
                              op_add(&second, round), op_get(&first),  op_get(&second)};
    subject_exec(*state, batch, 6, NULL);
    for (size_t i = 0; i < 6; i++)
      assert_int_equal(batch[i].outcome, i == 1 ? WEIR_ABSENT : WEIR_DONE);
    for (size_t i = 2; i < 6; i++)
      assert_int_equal(batch[i].value, round);
  }
}

enum { LITMUS_ROUNDS = 300 };

typedef struct litmus {
  const subject *on;
  pthread_barrier_t turn;
  unsigned homes[LITMUS_ROUNDS];
} litmus;

typedef struct side {
  litmus *of;
  unsigned mine, other; /* numbers of keys */
  weir_operation read[LITMUS_ROUNDS];
  size_t failures;
} side;

static void *add_mine_then_read_the_other(void *context) {
  side *my = context;
  for (size_t i = 0; i < LITMUS_ROUNDS; i++) {
    key mine = subject_key(my->of->homes[i], my->mine);
    key other = subject_key(my->of->homes[i], my->other);
    weir_operation batch[] = {op_add(&mine, 1), op_get(&other)};
    pthread_barrier_wait(&my->of->turn);
    subject_exec(my->of->on, batch, 2, NULL);
    my->failures += batch[0].outcome != WEIR_DONE;
    my->read[i] = batch[1];
  }
  return NULL;
}

/* Both add to a key of their own, then read the other's: one at least must see what the other did.
 * Every bound of a window over several counters stands on this. */
static void of_two_that_add_and_then_read_one_sees_the_other(void **state) {
  static litmus test;
  static side sides[2];
  pthread_t threads[2];
  test.on = *state;
  for (size_t i = 0; i < LITMUS_ROUNDS; i++)
    test.homes[i] = subject_new_home();
  pthread_barrier_init(&test.turn, NULL, 2);
  for (unsigned i = 0; i < 2; i++) {
    sides[i].of = &test;
    sides[i].mine = i;
    sides[i].other = 1 - i;
    sides[i].failures = 0;
    assert_int_equal(pthread_create(&threads[i], NULL, add_mine_then_read_the_other, &sides[i]), 0);
  }
  for (size_t i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&test.turn);
  assert_int_equal(sides[0].failures + sides[1].failures, 0);
  for (size_t i = 0; i < LITMUS_ROUNDS; i++)
    if (sides[0].read[i].outcome == WEIR_ABSENT && sides[1].read[i].outcome == WEIR_ABSENT)
      fail_msg("round %zu: neither saw the other's addition", i);
}

/* The classic commands of memcached take a round for each addition to one key. */
enum { MANY = 4096, MANY_OF_ONE = 512 };

static void many_operations_on_many_keys_leave_together(void **state) {
  static key keys[MANY];
  static weir_operation batch[MANY];
  for (size_t i = 0; i < MANY; i++) {
    keys[i] = subject_lone_key();
    batch[i] = op_add(&keys[i], (int64_t)i + 1);
  }
  weir_message message = {""};
  subject_exec(*state, batch, MANY, &message);
  for (size_t i = 0; i < MANY; i++) {
    if (batch[i].outcome != WEIR_DONE)
      fail_msg("%zu: outcome %d; %s", i, (int)batch[i].outcome, message.text);
    assert_int_equal(batch[i].value, i + 1);
  }
  for (size_t i = 0; i < MANY; i++)
    batch[i] = op_get(&keys[i]);
  subject_exec(*state, batch, MANY, NULL);
  for (size_t i = 0; i < MANY; i++)
    assert_int_equal(batch[i].value, i + 1);
}

static void many_operations_on_one_key_leave_together(void **state) {
  static weir_operation batch[MANY_OF_ONE];
  weir_message message = {""};
  key at = subject_lone_key();
  for (size_t i = 0; i < MANY_OF_ONE; i++)
    batch[i] = i % 2 == 0 ? op_add(&at, 3) : op_sub(&at, 2);
  subject_exec(*state, batch, MANY_OF_ONE, &message);
  for (size_t i = 0; i < MANY_OF_ONE; i++) {
    if (batch[i].outcome != WEIR_DONE)
      fail_msg("%zu: outcome %d; %s", i, (int)batch[i].outcome, message.text);
    assert_int_equal(batch[i].value, i % 2 == 0 ? 3 + i / 2 : 1 + i / 2);
  }
}

/* No time is left: nothing may have been sent, and every outcome says so. */
static void a_deadline_that_has_passed_sends_nothing(void **state) {
  const subject *on = *state;
  weir_message message = {""};
  key at = subject_lone_key();
  expect_end(on, op_put(&at, 1), WEIR_DONE);
  weir_operation batch[] = {op_add(&at, 1), op_get(&at)};
  weir_store_exec(on->store, batch, 2, weir_monotonic_us() - 1, &message);
  for (size_t i = 0; i < 2; i++)
    assert_int_equal(batch[i].outcome, WEIR_NOT_SENT);
  assert_true(message.text[0] != '\0');
  expect_total(on, op_get(&at), 1);
}

const contract_test order_tests[] = {
    CONTRACT_TEST(operations_of_one_key_run_in_order),
    CONTRACT_TEST(a_read_sees_the_addition_to_an_absent_key_before_it),
    CONTRACT_TEST(of_two_that_add_and_then_read_one_sees_the_other),
    CONTRACT_TEST(many_operations_on_many_keys_leave_together),
    CONTRACT_TEST(many_operations_on_one_key_leave_together),
    CONTRACT_TEST(a_deadline_that_has_passed_sends_nothing),
    CONTRACT_END,
};

/* Other programs leave values in a server. */
#include "contract/plain_client.h"
#include "contract/suite.h"

static const char *const not_integers[] = {
    "hello",
    "12x",
    "-5",
    "",
    "1.5",
    "0x10",
    "99999999999999999999",
    "18446744073709551616",
    "a text that is no number at all and goes on for a while, far longer than any number does"};
enum { NOT_INTEGER_COUNT = sizeof not_integers / sizeof not_integers[0] };

/* memcached itself counts on from these: its incr is content with digits and whitespace. */
static const char *const nearly_integers[] = {" 7", "7 7", "1\r\nEND"};
enum { NEARLY_COUNT = sizeof nearly_integers / sizeof nearly_integers[0] };

/* The connection must be in step afterwards, or a new one be made: the next exec works. */
static void assert_in_step(const subject *on) {
  key at = subject_lone_key();
  weir_operation batch[] = {op_add(&at, 5), op_get(&at), op_add(&at, 6), op_get(&at)};
  subject_exec(on, batch, 4, NULL);
  assert_int_equal(batch[0].value, 5);
  assert_int_equal(batch[1].value, 5);
  assert_int_equal(batch[2].value, 11);
  assert_int_equal(batch[3].value, 11);
}

static void a_get_of_what_is_no_integer_is_refused(void **state) {
  if (!plain_speaks(*state)) return; /* nobody else can write there */
  for (size_t i = 0; i < NOT_INTEGER_COUNT + NEARLY_COUNT; i++) {
    weir_message message = {""};
    key at = subject_lone_key();
    const char *text =
        i < NOT_INTEGER_COUNT ? not_integers[i] : nearly_integers[i - NOT_INTEGER_COUNT];
    plain_set_everywhere(*state, &at, text);
    weir_operation get = op_get(&at);
    subject_exec(*state, &get, 1, &message);
    if (get.outcome != WEIR_REFUSED) fail_msg("\"%s\": %d", text, (int)get.outcome);
    assert_true(message.text[0] != '\0');
    assert_in_step(*state);
  }
}

static void an_addition_to_what_is_no_integer_is_refused(void **state) {
  if (!plain_speaks(*state)) return;
  for (size_t i = 0; i < NOT_INTEGER_COUNT; i++) {
    const weir_operation_kind kinds[] = {WEIR_ADD, WEIR_SUB};
    for (size_t j = 0; j < 2; j++) {
      weir_message message = {""};
      key at = subject_lone_key();
      plain_set_everywhere(*state, &at, not_integers[i]);
      weir_operation change = kinds[j] == WEIR_ADD ? op_add(&at, 1) : op_sub(&at, 1);
      subject_exec(*state, &change, 1, &message);
      if (change.outcome != WEIR_REFUSED)
        fail_msg("\"%s\", kind %d: %d", not_integers[i], (int)kinds[j], (int)change.outcome);
      assert_true(message.text[0] != '\0');
      assert_in_step(*state);
    }
  }
}

/* In the middle of a batch, what stands around it is not harmed: it ends in an outcome of its own.
 */
static void a_wrong_item_harms_no_neighbour(void **state) {
  if (!plain_speaks(*state)) return;
  unsigned home = subject_new_home();
  key good = subject_key(home, 0);
  key bad = subject_key(home, 1);
  plain_set_everywhere(*state, &bad, "no number");
  weir_operation batch[] = {op_put(&good, 5), op_get(&bad), op_get(&good),
                            op_add(&good, 1), op_get(&bad), op_get(&good)};
  subject_exec(*state, batch, 6, NULL);
  assert_int_equal(batch[0].outcome, WEIR_DONE);
  assert_int_equal(batch[1].outcome, WEIR_REFUSED);
  assert_int_equal(batch[4].outcome, WEIR_REFUSED);
  assert_int_equal(batch[2].value, 5);
  assert_int_equal(batch[3].value, 6);
  assert_int_equal(batch[5].value, 6);
}

static void what_is_no_integer_can_be_replaced_and_dropped(void **state) {
  if (!plain_speaks(*state)) return;
  key at = subject_lone_key();
  plain_set_everywhere(*state, &at, "no number");
  expect_end(*state, op_create(&at, 1), WEIR_CONFLICT);
  expect_end(*state, op_put(&at, 5), WEIR_DONE);
  expect_total(*state, op_get(&at), 5);
  plain_set_everywhere(*state, &at, "no number");
  expect_end(*state, op_drop(&at), WEIR_DONE);
  expect_end(*state, op_get(&at), WEIR_ABSENT);
}

/* Digits that a plain client stored are counters as well, with the spaces that decr leaves. */
static void plain_digits_are_counted_on(void **state) {
  if (!plain_speaks(*state)) return;
  key at = subject_lone_key();
  plain_set_everywhere(*state, &at, "41");
  expect_total(*state, op_get(&at), 41);
  expect_total(*state, op_add(&at, 1), 42);
  plain_set_everywhere(*state, &at, "9   ");
  expect_total(*state, op_get(&at), 9);
}

const contract_test foreign_tests[] = {
    CONTRACT_TEST(a_get_of_what_is_no_integer_is_refused),
    CONTRACT_TEST(an_addition_to_what_is_no_integer_is_refused),
    CONTRACT_TEST(a_wrong_item_harms_no_neighbour),
    CONTRACT_TEST(what_is_no_integer_can_be_replaced_and_dropped),
    CONTRACT_TEST(plain_digits_are_counted_on),
    CONTRACT_END,
};

/* Keys: every length and every byte that the contract allows. */
#include <string.h>

#include "contract/suite.h"

/* A key of exactly `length` bytes, all of `fill`, with a home inside. */
static key long_key(uint16_t length, char fill) {
  key made = subject_lone_key();
  memset(made.text + made.length, fill, sizeof made.text - made.length);
  made.length = length;
  return made;
}

static void the_longest_key_is_kept(void **state) {
  key at = long_key(WEIR_STORE_KEY_MOST, 'x');
  expect_total(*state, op_add(&at, 3), 3);
  expect_total(*state, op_add(&at, 4), 7);
  expect_total(*state, op_get(&at), 7);
}

static void keys_that_differ_in_the_last_byte_are_two(void **state) {
  key one = long_key(WEIR_STORE_KEY_MOST, 'x');
  key other = one;
  other.text[WEIR_STORE_KEY_MOST - 1] = 'y';
  key shorter = one;
  shorter.length--;
  expect_total(*state, op_add(&one, 1), 1);
  expect_total(*state, op_add(&other, 2), 2);
  expect_total(*state, op_add(&shorter, 4), 4);
  expect_total(*state, op_get(&one), 1);
}

/* Users behind an access list may touch weir:* alone. */
static void a_key_of_one_byte_is_kept(void **state) {
  const subject *on = *state;
  if (strstr(on->name, "_ACL_") != NULL) return;
  key at = {.text = "!", .length = 1, .home_offset = 0, .home_length = 1};
  expect_end(*state, op_put(&at, 5), WEIR_DONE);
  expect_total(*state, op_get(&at), 5);
  expect_end(*state, op_drop(&at), WEIR_DONE);
}

static void every_printable_byte_is_kept_anywhere(void **state) {
  enum { PRINTABLE = '~' - '!' + 1 };
  static key keys[PRINTABLE];
  static weir_operation batch[PRINTABLE];
  unsigned home = subject_new_home();
  for (size_t i = 0; i < PRINTABLE; i++) {
    char byte = (char)('!' + i);
    keys[i] = subject_key(home, 0);
    if (byte != '{')
      keys[i].text[sizeof "weir:" - 1] = byte; /* it would begin the home too early */
    keys[i].text[keys[i].length++] = byte;
    batch[i] = op_add(&keys[i], (int64_t)i + 1);
  }
  subject_exec(*state, batch, PRINTABLE, NULL);
  for (size_t i = 0; i < PRINTABLE; i++) {
    assert_int_equal(batch[i].outcome, WEIR_DONE);
    assert_int_equal(batch[i].value, i + 1);
  }
}

static void a_home_of_every_printable_byte_finds_its_server_again(void **state) {
  key at = {.text = "weir:{", .length = 6, .home_offset = 6};
  for (int byte = '!'; byte <= '~'; byte++)
    at.text[at.length++] = (char)byte;
  at.home_length = (uint16_t)(at.length - at.home_offset);
  at.text[at.length++] = '}';
  expect_end(*state, op_put(&at, 7), WEIR_DONE);
  expect_total(*state, op_get(&at), 7);
  expect_end(*state, op_drop(&at), WEIR_DONE);
}

/* A command, an option or a reply of some protocol is a name as any other. */
static void names_that_look_like_commands_do_nothing(void **state) {
  static const char *const names[] = {"weir:flush_all", "weir:-1",       "weir:0",
                                      "weir:noreply",   "weir:$5",       "weir:*1",
                                      "weir:END",       "weir:\"quit\"", "weir:\\r\\n"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    key at = {.home_offset = 0};
    at.length = at.home_length = (uint16_t)strlen(names[i]);
    memcpy(at.text, names[i], at.length);
    weir_operation batch[] = {op_drop(&at),   op_add(&at, 5), op_get(&at),
                              op_sub(&at, 2), op_drop(&at),   op_get(&at)};
    subject_exec(*state, batch, 6, NULL);
    assert_int_equal(batch[1].value, 5);
    assert_int_equal(batch[2].value, 5);
    assert_int_equal(batch[3].value, 3);
    assert_int_equal(batch[4].outcome, WEIR_DONE);
    assert_int_equal(batch[5].outcome, WEIR_ABSENT);
  }
}

const contract_test key_tests[] = {
    CONTRACT_TEST(the_longest_key_is_kept),
    CONTRACT_TEST(keys_that_differ_in_the_last_byte_are_two),
    CONTRACT_TEST(a_key_of_one_byte_is_kept),
    CONTRACT_TEST(every_printable_byte_is_kept_anywhere),
    CONTRACT_TEST(a_home_of_every_printable_byte_finds_its_server_again),
    CONTRACT_TEST(names_that_look_like_commands_do_nothing),
    CONTRACT_END,
};

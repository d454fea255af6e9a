/* Rounds in which an ADD may need several tries, played out by hand. */
#include <stdlib.h>

#include "memcached/memcached.h"
#include "wire/operations.h"

static int start(weir_order **order, const weir_operation *operations, size_t count) {
  *order = calloc(1, sizeof **order);
  assert_true(weir_order_start(*order, operations, count));
  return 0;
}

/* Plans a round and checks which operations go: "x.x" is the first and the third. */
static void expect_round(weir_order *order, const weir_operation *operations,
                         const char *expected) {
  size_t count = strlen(expected);
  char found[32] = "";
  bool any = weir_order_plan(order, operations, count);
  for (size_t i = 0; i < count; i++)
    found[i] = weir_order_goes(order, i) ? 'x' : '.';
  assert_string_equal(found, expected);
  assert_int_equal(any, strchr(expected, 'x') != NULL);
}

/* Settles a round: 'd' done, 'a' absent, 'p' still pending, '.' was not sent. */
static void settle(weir_order *order, weir_operation *operations, const char *outcomes) {
  weir_message message = {""};
  size_t count = strlen(outcomes);
  for (size_t i = 0; i < count; i++) {
    if (outcomes[i] == 'd') operations[i].outcome = WEIR_DONE;
    if (outcomes[i] == 'a') operations[i].outcome = WEIR_ABSENT;
    if (outcomes[i] == 'p') operations[i].outcome = WEIR_PENDING;
  }
  assert_false(weir_order_settle(order, operations, count, &message));
}

static void all_goes_at_once_when_every_add_succeeds(void **state) {
  (void)state;
  weir_order *order;
  weir_operation operations[] = {add_to("{a}1", 1), get_of("{a}0"), add_to("{b}1", 1),
                                 get_of("{b}0")};
  start(&order, operations, 4);
  expect_round(order, operations, "xxxx");
  settle(order, operations, "dada");
  expect_round(order, operations, "....");
  weir_order_free(order);
}

static void gets_after_an_unfinished_add_of_their_home_are_read_again(void **state) {
  (void)state;
  weir_order *order;
  weir_operation operations[] = {get_of("{a}0"), add_to("{a}1", 1), get_of("{a}0"),
                                 get_of("{b}0"), get_of("{a}2"),    add_to("{a}3", 1)};
  start(&order, operations, 6);
  expect_round(order, operations, "xxxxxx");
  settle(order, operations, "apaaad");
  expect_round(order, operations, ".xx.x.");
  settle(order, operations, ".pa.a.");
  expect_round(order, operations, ".xx.x.");
  settle(order, operations, ".da.a.");
  expect_round(order, operations, "......");
  weir_order_free(order);
}

static void a_write_waits_for_an_add_of_its_key(void **state) {
  (void)state;
  weir_order *order;
  weir_operation operations[] = {add_to("{a}1", 1), sub_from("{a}1", 1), add_to("{a}2", 1),
                                 operation_on(WEIR_DROP, "{a}1"), get_of("{a}1")};
  start(&order, operations, 5);
  expect_round(order, operations, "x.x.x");
  settle(order, operations, "p.d.a");
  expect_round(order, operations, "x...x");
  settle(order, operations, "d...d");
  expect_round(order, operations, ".x.xx");
  settle(order, operations, ".d.da");
  expect_round(order, operations, ".....");
  weir_order_free(order);
}

static void adds_of_one_key_go_one_after_the_other(void **state) {
  (void)state;
  weir_order *order;
  weir_operation operations[] = {add_to("{a}1", 1), add_to("{a}1", 1), add_to("{a}1", 1)};
  start(&order, operations, 3);
  expect_round(order, operations, "x..");
  settle(order, operations, "d..");
  expect_round(order, operations, ".x.");
  settle(order, operations, ".d.");
  expect_round(order, operations, "..x");
  weir_order_free(order);
}

static void an_add_that_never_succeeds_is_refused(void **state) {
  (void)state;
  weir_order *order;
  weir_message message = {""};
  weir_operation operations[] = {add_to("{a}1", 1), get_of("{a}0")};
  start(&order, operations, 2);
  int rounds = 0;
  bool given_up = false;
  while (weir_order_plan(order, operations, 2)) {
    operations[0].outcome = WEIR_PENDING;
    operations[1].outcome = WEIR_ABSENT;
    given_up = weir_order_settle(order, operations, 2, &message);
    assert_true(++rounds < 20);
  }
  assert_true(given_up);
  assert_outcome(operations[0], WEIR_REFUSED);
  assert_non_null(strstr(message.text, "{a}1"));
  weir_order_free(order);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_goes_at_once_when_every_add_succeeds),
      cmocka_unit_test(gets_after_an_unfinished_add_of_their_home_are_read_again),
      cmocka_unit_test(a_write_waits_for_an_add_of_its_key),
      cmocka_unit_test(adds_of_one_key_go_one_after_the_other),
      cmocka_unit_test(an_add_that_never_succeeds_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "simulate/simulation.h"

/* A poor hash, so that keys meet. */
static void count(weir_denied_keys *tally, const char *key, int64_t now_us) {
  assert_true(weir_denied_keys_add(tally, key, strlen(key), (unsigned char)key[0] & 3, now_us));
}

static void those_denied_most_often_come_first_and_ties_by_name(void **state) {
  weir_denied_keys tally = {0};
  const weir_denied_key *top[3];
  (void)state;
  for (int i = 0; i < 4; i++)
    count(&tally, "often", 100 + i);
  count(&tally, "b", 7);
  count(&tally, "c", 8);
  count(&tally, "ab", 9);
  count(&tally, "a", 10);
  assert_int_equal(weir_denied_keys_top(&tally, top, 3), 3);
  assert_memory_equal(top[0]->key, "often", 5);
  assert_int_equal(top[0]->denied, 4);
  assert_int_equal(top[0]->first_us, 100);
  assert_int_equal(top[1]->key_length, 1);
  assert_memory_equal(top[1]->key, "a", 1);
  assert_memory_equal(top[2]->key, "ab", 2);
  assert_int_equal(tally.table.count, 5);
  weir_denied_keys_clean_up(&tally);
}

static void it_grows_and_loses_nobody(void **state) {
  weir_denied_keys tally = {0};
  const weir_denied_key *top[1];
  char key[16];
  (void)state;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 1000; i++) {
      size_t length = (size_t)snprintf(key, sizeof key, "k%d", i);
      assert_true(weir_denied_keys_add(&tally, key, length, (uint32_t)(i / 3) * 977, round));
    }
  }
  assert_int_equal(tally.table.count, 1000);
  assert_int_equal(weir_denied_keys_top(&tally, top, 1), 1);
  assert_int_equal(top[0]->denied, 3);
  weir_denied_keys_clean_up(&tally);
}

static void nobody_is_on_top_of_an_empty_one(void **state) {
  weir_denied_keys tally = {0};
  const weir_denied_key *top[1];
  (void)state;
  assert_int_equal(weir_denied_keys_top(&tally, top, 1), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(those_denied_most_often_come_first_and_ties_by_name),
      cmocka_unit_test(it_grows_and_loses_nobody),
      cmocka_unit_test(nobody_is_on_top_of_an_empty_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

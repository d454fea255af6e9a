/* Arrays that grow: what was in them stays, and a failure changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "array.h"

static void grows_by_doubling(void **state) {
  (void)state;
  int *items = NULL;
  size_t room = 0, copies = 0;
  for (size_t i = 0; i < 100000; i++) {
    size_t before = room;
    assert_true(weir_array_grow(&items, &room, i + 1, sizeof *items));
    assert_true(room >= i + 1 && room <= 2 * (i + WEIR_ARRAY_FIRST));
    if (room != before) copies += i;
    items[i] = (int)i;
  }
  for (size_t i = 0; i < 100000; i++)
    assert_int_equal(items[i], i);
  assert_true(copies < 2 * 100000);
  free(items);
}

static void grows_by_many_at_once(void **state) {
  (void)state;
  char *items = NULL;
  size_t room = 0;
  assert_true(weir_array_grow(&items, &room, 1000, 1));
  assert_true(room >= 1000);
  memset(items, 'x', 1000);
  const char *before = items;
  assert_true(weir_array_grow(&items, &room, 1000, 1)); /* has it already */
  assert_ptr_equal(items, before);
  free(items);
}

static void leaves_all_as_it_was_without_memory(void **state) {
  (void)state;
  uint64_t *items = NULL;
  size_t room = 0;
  assert_true(weir_array_grow(&items, &room, 1, sizeof *items));
  uint64_t *before = items;
  items[0] = 7;
  assert_false(weir_array_grow(&items, &room, SIZE_MAX, sizeof *items));
  assert_false(weir_array_grow(&items, &room, SIZE_MAX / 8 + 1, sizeof *items));
  assert_false(
      weir_array_grow(&items, &room, SIZE_MAX / 32, sizeof *items)); /* the system says no */
  assert_ptr_equal(items, before);
  assert_int_equal(room, WEIR_ARRAY_FIRST);
  assert_int_equal(items[0], 7);
  free(items);
}

static void a_queue_moves_to_the_front_before_it_grows(void **state) {
  (void)state;
  int *items = NULL;
  size_t first = 0, end = 0, room = 0;
  for (int i = 0; i < 1000; i++) {
    assert_true(weir_array_make_room(&items, &first, &end, &room, sizeof *items, 2));
    items[end++] = i;
    if (end - first > 5) first++; /* six are there at most */
    assert_int_equal(items[first], i < 5 ? 0 : i - 4);
    assert_int_equal(items[end - 1], i);
  }
  assert_int_equal(room, 16); /* more than half of 8 is in use, and not more than half of 16 */
  while (room < 64) {
    assert_true(weir_array_make_room(&items, &first, &end, &room, sizeof *items, 2));
    items[end++] = 0;
  }
  assert_int_equal(items[first], 995);
  free(items);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grows_by_doubling),
      cmocka_unit_test(grows_by_many_at_once),
      cmocka_unit_test(a_queue_moves_to_the_front_before_it_grows),
      cmocka_unit_test(leaves_all_as_it_was_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

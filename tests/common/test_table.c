/* The hash table, held against an array that is searched from end to end; with marks of its own
 * making it meets every kind of crowd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "table.h"

typedef struct item {
  uint32_t key, value;
} item;

enum { KEYS = 600 };

static bool same(const void *context, const void *found, const void *key) {
  (*(size_t *)(uintptr_t)context)++;
  return ((const item *)found)->key == *(const uint32_t *)key;
}

static size_t compared;
static weir_hash_table table;

static int start(void **state) {
  (void)state;
  weir_hash_table_init(&table, sizeof(item), same, &compared);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  weir_hash_table_clean_up(&table);
  return 0;
}

static uint32_t mark_well(uint32_t key) {
  return weir_hash_table_mark(&table, &key, sizeof key);
}

/* All at the last places, so that walks go on at the first. */
static uint32_t mark_last(uint32_t key) {
  return UINT32_MAX - key % 3;
}

static uint32_t mark_in_heaps(uint32_t key) {
  return 1 + key % 7 * (UINT32_MAX / 7);
}

static uint32_t mark_alike(uint32_t key) {
  return key % 2; /* of which 0 is kept as 1 */
}

/* Random adding and removing, and after each step of a few all keys are asked for. */
static void holds_what_was_added(uint32_t (*mark)(uint32_t key), uint32_t keys, int steps) {
  uint32_t values[KEYS] = {0}; /* 0: not there */
  uint64_t generator = keys;
  size_t count = 0;
  for (int step = 1; step <= steps; step++) {
    uint32_t key = (uint32_t)(weir_random_next(&generator) % keys);
    bool fills = step / 1000 % 2 == 0; /* grows for a while, then shrinks */
    bool adds = weir_random_next(&generator) % 4 != 0 ? fills : !fills;
    item *found = weir_hash_table_find(&table, mark(key), &key);
    assert_int_equal(found != NULL, values[key] != 0);
    if (adds && found == NULL) {
      item *added = weir_hash_table_add(&table, mark(key));
      assert_non_null(added);
      assert_int_equal(added->key | added->value, 0);
      *added = (item){key, values[key] = (uint32_t)step};
      count++;
    } else if (!adds && found != NULL) {
      weir_hash_table_remove(&table, found);
      values[key] = 0;
      count--;
    }
    assert_int_equal(table.count, count);
    if (step % 64 == 0) assert_true(weir_hash_table_fit(&table, (size_t)step % 128));
    for (uint32_t other = 0; step % 16 == 0 && other < keys; other++) {
      found = weir_hash_table_find(&table, mark(other), &other);
      assert_int_equal(found != NULL ? found->value : 0, values[other]);
    }
  }
}

static void holds_what_was_added_under_good_marks(void **state) {
  (void)state;
  holds_what_was_added(mark_well, KEYS, 20000);
}

static void holds_what_was_added_at_its_end(void **state) {
  (void)state;
  holds_what_was_added(mark_last, 40, 20000);
}

static void holds_what_was_added_in_heaps(void **state) {
  (void)state;
  holds_what_was_added(mark_in_heaps, 100, 20000);
}

static void holds_what_was_added_under_one_mark(void **state) {
  (void)state;
  holds_what_was_added(mark_alike, 20, 5000);
}

static void walks_past_every_item_once(void **state) {
  (void)state;
  uint32_t seen[KEYS] = {0};
  assert_null(weir_hash_table_next(&table, NULL));
  for (uint32_t key = 0; key < KEYS; key++)
    *(item *)weir_hash_table_add(&table, mark_well(key)) = (item){key, key};
  size_t count = 0;
  for (const item *each = NULL; (each = weir_hash_table_next(&table, each)) != NULL; count++)
    assert_int_equal(seen[each->key]++, 0);
  assert_int_equal(count, KEYS);
}

/* No more room than it needs, and then none is made by so many. */
static void has_the_room_that_was_asked_for(void **state) {
  (void)state;
  for (uint32_t items = 1; items <= KEYS; items++) {
    assert_true(weir_hash_table_fit(&table, items));
    const unsigned char *at = table.items;
    for (uint32_t key = 0; key < items; key++)
      weir_hash_table_add(&table, mark_well(key));
    assert_ptr_equal(table.items, at);
    assert_true(table.room <= items + items / 3 + 8);
    weir_hash_table_clean_up(&table);
  }
}

/* A table whose walks were long, or whose marks told nothing, would compare more. */
static void compares_little_more_than_what_it_finds(void **state) {
  (void)state;
  enum { MANY = 100000 };
  for (uint32_t key = 0; key < MANY; key++)
    *(item *)weir_hash_table_add(&table, mark_well(key)) = (item){key, key};
  compared = 0;
  for (uint32_t key = 0; key < 2 * MANY; key++)
    assert_int_equal(weir_hash_table_find(&table, mark_well(key), &key) != NULL, key < MANY);
  assert_in_range(compared, MANY, MANY + MANY / 100);
}

static void fails_without_memory_and_stays_as_it_was(void **state) {
  (void)state;
  uint32_t key = 5;
  *(item *)weir_hash_table_add(&table, mark_well(key)) = (item){key, 1};
  assert_false(weir_hash_table_fit(&table, SIZE_MAX));
  assert_false(weir_hash_table_fit(&table, (size_t)UINT32_MAX + 1));
  assert_int_equal(((const item *)weir_hash_table_find(&table, mark_well(key), &key))->value, 1);
}

static void a_table_of_zeroes_may_be_cleaned_up(void **state) {
  (void)state;
  weir_hash_table none;
  memset(&none, 0, sizeof none);
  weir_hash_table_clean_up(&none);
}

static void has_a_secret_of_its_own(void **state) {
  (void)state;
  weir_hash_table other;
  weir_hash_table_init(&other, sizeof(item), same, &compared);
  int alike = 0;
  for (uint32_t key = 0; key < 1000; key++)
    alike += weir_hash_table_mark(&other, &key, sizeof key) == mark_well(key);
  assert_in_range(alike, 0, 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, start, tear_down)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(holds_what_was_added_under_good_marks),
      TEST(holds_what_was_added_at_its_end),
      TEST(holds_what_was_added_in_heaps),
      TEST(holds_what_was_added_under_one_mark),
      TEST(walks_past_every_item_once),
      TEST(has_the_room_that_was_asked_for),
      TEST(compares_little_more_than_what_it_finds),
      TEST(fails_without_memory_and_stays_as_it_was),
      TEST(a_table_of_zeroes_may_be_cleaned_up),
      TEST(has_a_secret_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

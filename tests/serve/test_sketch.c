/* The sketch of keys that are named most, against exact counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tell/top.h"

enum { KEYS = 1000 };

static uint64_t random_bits(uint64_t *state) {
  *state = *state * 6364136223846793005U + 1442695040888963407U;
  return *state >> 33;
}

/* Few keys come often, many seldom. */
static uint64_t pick(uint64_t *state) {
  uint64_t most = 1 + random_bits(state) % KEYS;
  return 1 + random_bits(state) % most;
}

static void fill(weir_sketch *sketch, uint64_t exact[KEYS + 1], uint64_t seed, int times) {
  for (int i = 0; i < times; i++) {
    uint64_t key = pick(&seed);
    weir_sketch_key *fresh = weir_sketch_add(sketch, key, 1);
    if (fresh != NULL) fresh->text[0] = (char)('a' + key % 26);
    exact[key]++;
  }
}

/* Never too low, too high by no more than `error`, and whoever is often enough is there. */
static void hold(const weir_sketch *sketch, const uint64_t exact[KEYS + 1]) {
  uint64_t total = 0;
  for (uint64_t key = 1; key <= KEYS; key++) {
    size_t at = 0;
    while (at < sketch->count && sketch->hashes[at] != key)
      at++;
    total += exact[key];
    if (at == sketch->count) {
      assert_true(exact[key] * WEIR_SKETCH_ENTRIES <= sketch->total);
      continue;
    }
    const weir_sketch_entry *entry = &sketch->entries[at];
    assert_true(entry->key.hash == key && entry->key.text[0] == (char)('a' + key % 26));
    assert_true(entry->count >= exact[key] && entry->count - entry->error <= exact[key]);
  }
  assert_true(total == sketch->total);
}

static void test_few_keys_are_exact(void **state) {
  weir_sketch sketch = {0};
  (void)state;
  for (uint64_t key = 0; key < WEIR_SKETCH_ENTRIES; key++)
    for (uint64_t i = 0; i <= key; i++)
      assert_true((weir_sketch_add(&sketch, key, 1) != NULL) == (i == 0));
  weir_sketch_sort(&sketch);
  for (size_t i = 0; i < WEIR_SKETCH_ENTRIES; i++) {
    assert_int_equal(sketch.entries[i].count, WEIR_SKETCH_ENTRIES - i);
    assert_int_equal(sketch.entries[i].error, 0);
  }
}

static void test_bounds_hold(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    weir_sketch sketch = {0};
    uint64_t exact[KEYS + 1] = {0};
    fill(&sketch, exact, seed, 20000);
    assert_int_equal(sketch.count, WEIR_SKETCH_ENTRIES);
    hold(&sketch, exact);
  }
}

/* Merges eight loops, some of which saw little or nothing. */
static void test_bounds_hold_when_merged(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    weir_sketch merged = {0};
    uint64_t exact[KEYS + 1] = {0};
    for (uint64_t loop = 0; loop < 8; loop++) {
      weir_sketch sketch = {0};
      fill(&sketch, exact, seed * 100 + loop, loop % 4 == 3 ? 0 : (int)(1 + loop * 700));
      weir_sketch_merge(&merged, &sketch);
    }
    weir_sketch_sort(&merged);
    hold(&merged, exact);
    for (size_t i = 1; i < merged.count; i++)
      assert_true(merged.entries[i - 1].count >= merged.entries[i].count);
  }
}

/* An attacker with a new key each time does not hide the one that is denied most. */
static void test_a_flood_of_keys_hides_nobody(void **state) {
  weir_sketch sketch = {0};
  (void)state;
  for (uint64_t i = 0; i < 100000; i++)
    weir_sketch_add(&sketch, i % 20 == 0 ? 7 : 1000 + i, 1);
  weir_sketch_sort(&sketch);
  assert_int_equal(sketch.hashes[0], 7);
  assert_true(sketch.entries[0].count - sketch.entries[0].error >= 3000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_few_keys_are_exact),
      cmocka_unit_test(test_bounds_hold),
      cmocka_unit_test(test_bounds_hold_when_merged),
      cmocka_unit_test(test_a_flood_of_keys_hides_nobody),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The table at times and with fingerprints that a test chooses, against a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <weir/backend.h>

#include "memory/table.h"

enum { FINGERPRINTS = 200, STEPS = 200000 };

/* Many share their first place, and the places are the last of the table, so walks are long and
 * wrap. */
static weir_memory_fingerprint make_fingerprint(uint64_t index) {
  return (weir_memory_fingerprint){UINT64_MAX - index % 5, index};
}

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

static weir_memory_entry *insert(weir_memory_table *table, uint64_t index, int64_t expiry_us,
                                 int64_t now_us) {
  weir_memory_entry *entry = weir_memory_table_insert(table, make_fingerprint(index), now_us);
  assert_non_null(entry);
  entry->value = (int64_t)index;
  entry->expiry_us = expiry_us;
  return entry;
}

static void agrees_with_an_array_after_any_steps(void **state) {
  (void)state;
  weir_memory_table table;
  int64_t expiry_us[FINGERPRINTS] = {0};
  uint64_t random = 1;
  assert_true(weir_memory_table_init(&table, FINGERPRINTS));
  for (int64_t now_us = 1; now_us <= STEPS; now_us++) {
    uint64_t index = next_random(&random) % FINGERPRINTS;
    weir_memory_entry *entry = weir_memory_table_find(&table, make_fingerprint(index), now_us);
    assert_int_equal(entry != NULL, expiry_us[index] > now_us);
    if (entry == NULL) {
      expiry_us[index] = now_us + 1 + (int64_t)(next_random(&random) % 300);
      insert(&table, index, expiry_us[index], now_us);
    } else {
      assert_int_equal(entry->value, index);
      if (next_random(&random) % 2 == 0) {
        weir_memory_table_erase(&table, entry);
        expiry_us[index] = 0;
      }
    }
  }
  weir_memory_table_clean_up(&table);
}

static void an_entry_expires_at_its_time_and_not_before(void **state) {
  (void)state;
  weir_memory_table table;
  assert_true(weir_memory_table_init(&table, 10));
  insert(&table, 1, 1000, 1);
  assert_non_null(weir_memory_table_find(&table, make_fingerprint(1), 999));
  assert_null(weir_memory_table_find(&table, make_fingerprint(1), 1000));
  assert_int_equal(table.used, 0);
  weir_memory_table_clean_up(&table);
}

static void expired_entries_do_not_make_it_grow(void **state) {
  (void)state;
  weir_memory_table table;
  assert_true(weir_memory_table_init(&table, 1000000));
  for (uint64_t i = 0; i < 100000; i++) {
    /* 100 live at a time; a place of its own for each */
    weir_memory_fingerprint fingerprint = {i * UINT64_C(0x9e3779b97f4a7c15), i};
    weir_memory_table_insert(&table, fingerprint, (int64_t)i + 1)->expiry_us = (int64_t)i + 101;
  }
  assert_true(table.capacity <= 512);
  weir_memory_table_clean_up(&table);
}

/* A table of eight is looked at as a whole; its last two insertions are recent. Stakes are in
 * 1024ths of a limit. */
static void fill(weir_memory_table *table, const uint32_t stakes[8]) {
  assert_true(weir_memory_table_init(table, 8));
  for (uint64_t i = 0; i < 8; i++)
    insert(table, i, 100, 1)->stake = stakes[i] * (WEIR_STAKE_WHOLE / 1024);
}

static void assert_gives_up(weir_memory_table *table, uint64_t index, int64_t now_us) {
  insert(table, 9, 100, now_us);
  assert_int_equal(table->used, 8);
  for (uint64_t i = 0; i < 8; i++) {
    bool found = weir_memory_table_find(table, make_fingerprint(i), now_us) != NULL;
    if (found == (i == index)) fail_msg("entry %d: %d", (int)i, found);
  }
  assert_non_null(weir_memory_table_find(table, make_fingerprint(9), now_us));
  weir_memory_table_clean_up(table);
}

static void a_full_table_gives_up_the_one_with_the_least_at_stake(void **state) {
  (void)state;
  weir_memory_table table;
  fill(&table, (uint32_t[]){9, 9, 9, 3, 9, 9, 9, 9});
  assert_gives_up(&table, 3, 1);
}

static void of_equals_it_gives_up_what_was_used_longest_ago(void **state) {
  (void)state;
  weir_memory_table table;
  fill(&table, (uint32_t[]){5, 5, 9, 5, 5, 9, 9, 9});
  assert_non_null(weir_memory_table_find(&table, make_fingerprint(0), 1));
  assert_gives_up(&table, 1, 1);
}

static void it_keeps_what_was_used_just_now_whatever_is_at_stake(void **state) {
  (void)state;
  weir_memory_table table;
  fill(&table, (uint32_t[]){1, 9, 9, 3, 9, 9, 9, 1});
  assert_non_null(weir_memory_table_find(&table, make_fingerprint(0), 1));
  assert_gives_up(&table, 3, 1);
}

static void it_gives_up_what_has_expired_before_anything_else(void **state) {
  (void)state;
  weir_memory_table table;
  fill(&table, (uint32_t[]){1, 1, 1, 1, 9, 1, 1, 1});
  weir_memory_table_find(&table, make_fingerprint(4), 1)->expiry_us = 50;
  assert_gives_up(&table, 4, 60);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(agrees_with_an_array_after_any_steps),
      cmocka_unit_test(an_entry_expires_at_its_time_and_not_before),
      cmocka_unit_test(expired_entries_do_not_make_it_grow),
      cmocka_unit_test(a_full_table_gives_up_the_one_with_the_least_at_stake),
      cmocka_unit_test(of_equals_it_gives_up_what_was_used_longest_ago),
      cmocka_unit_test(it_keeps_what_was_used_just_now_whatever_is_at_stake),
      cmocka_unit_test(it_gives_up_what_has_expired_before_anything_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Denials that are read without a lock, from the table's outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

#include "key/key.h"
#include "memo/table.h"

static const unsigned char secret[WEIR_KEY_SECRET_BYTES] = "of this test";

enum { KEYS = 1024, WORDS = 40, MEMO_BYTES = sizeof(weir_memo) + WORDS * sizeof(int64_t) };

static weir_memo_entry *lock_number(weir_table *table, int number) {
  weir_key key;
  weir_key_read(secret, &number, sizeof number, &key);
  return weir_table_lock(table, &key);
}

/* Denied from cost 3 on, between two moments; all that a method remembers is `stamp`. `told`: what a
 * request of cost 1 was told, or NULL. */
static void deny_telling(weir_table *table, int number, int64_t at_us, int64_t until_us,
                         int64_t stamp, const weir_decision *told) {
  weir_memo_entry *entry = lock_number(table, number);
  int64_t *words = (int64_t *)(entry->memo + 1);
  entry->memo->denied_cost = 3;
  entry->memo->denied_at_us = at_us;
  entry->memo->denied_until_us = until_us;
  for (int i = 0; i < WORDS; i++)
    words[i] = stamp;
  weir_table_show_denial(table, entry, told);
  weir_lock_leave(&entry->shard->lock);
}

static void deny(weir_table *table, int number, int64_t at_us, int64_t until_us, int64_t stamp) {
  deny_telling(table, number, at_us, until_us, stamp, NULL);
}

static void allow(weir_table *table, int number) {
  weir_memo_entry *entry = lock_number(table, number);
  entry->memo->denied_cost = 0;
  weir_table_show_denial(table, entry, NULL);
  weir_lock_leave(&entry->shard->lock);
}

static bool read_number(weir_table *table, int number, unsigned steps, int64_t now_us,
                        weir_denial *copy) {
  weir_key key;
  weir_key_read(secret, &number, sizeof number, &key);
  return weir_denials_read(weir_table_denials(table), &key, steps, now_us, copy, NULL) ==
         WEIR_DENIAL_MEMO;
}

static void reads_what_the_memo_says_while_it_denies(void **state) {
  (void)state;
  weir_denial copy;
  weir_table *table = weir_table_create(KEYS, MEMO_BYTES, 0, NULL, secret);
  assert_false(read_number(table, 1, 0, 150, &copy));
  deny(table, 1, 100, 200, 7);
  assert_false(read_number(table, 1, 0, 99, &copy));
  assert_true(read_number(table, 1, 0, 100, &copy));
  assert_true(read_number(table, 1, 0, 199, &copy));
  assert_false(read_number(table, 1, 0, 200, &copy));
  assert_false(read_number(table, 1, 1, 150, &copy)); /* the clock was set back since */
  assert_false(read_number(table, 2, 0, 150, &copy));
  weir_memo_entry *entry = lock_number(table, 1);
  assert_memory_equal(copy.bytes, entry->memo, MEMO_BYTES);
  weir_lock_leave(&entry->shard->lock);
  weir_table_destroy(table);
}

static void a_memo_that_denies_nothing_any_more_is_not_read(void **state) {
  (void)state;
  weir_denial copy;
  weir_table *table = weir_table_create(KEYS, MEMO_BYTES, 0, NULL, secret);
  deny(table, 1, 100, 200, 7);
  allow(table, 1);
  assert_false(read_number(table, 1, 0, 150, &copy));
  deny(table, 1, 120, 200, 8);
  assert_true(read_number(table, 1, 0, 150, &copy));
  weir_table_destroy(table);
}

static void many_keys_are_denied_at_once(void **state) {
  enum { MANY = 4096 };
  (void)state;
  weir_denial copy;
  int found = 0;
  weir_table *table = weir_table_create(16 * MANY, MEMO_BYTES, 0, NULL, secret);
  for (int round = 0; round < 12; round++)
    for (int i = 0; i < MANY; i++)
      deny(table, i, 100 + round, 200, i);
  for (int i = 0; i < MANY; i++) {
    if (!read_number(table, i, 0, 150, &copy)) continue;
    assert_int_equal(((int64_t *)(&copy.memo + 1))[WORDS - 1], i);
    found++;
  }
  print_message("of %d denied keys %d are read without a lock\n", MANY, found);
  assert_true(found > MANY / 4 * 3);
  weir_table_destroy(table);
}

static void a_memo_too_large_to_copy_is_left_to_the_lock(void **state) {
  (void)state;
  weir_denial copy;
  weir_table *table =
      weir_table_create(KEYS, sizeof(weir_denial) + sizeof(int64_t), 0, NULL, secret);
  deny(table, 1, 100, 200, 7);
  assert_false(read_number(table, 1, 0, 150, &copy));
  weir_table_destroy(table);
}

static void a_key_whose_denial_is_read_stays_in_a_full_table(void **state) {
  (void)state;
  weir_denial copy;
  weir_table *table = weir_table_create(KEYS, MEMO_BYTES, 0, NULL, secret);
  for (int i = 0; i < 10 * KEYS; i++)
    weir_lock_leave(&lock_number(table, i)->shard->lock);
  deny(table, -1, 100, 200, 7);
  for (int i = 0; i < 100 * KEYS; i++) {
    assert_true(read_number(table, -1, 0, 150, &copy));
    weir_lock_leave(&lock_number(table, i)->shard->lock);
  }
  weir_memo_entry *entry = lock_number(table, -1);
  assert_int_equal(entry->memo->denied_cost, 3);
  weir_lock_leave(&entry->shard->lock);
  weir_table_destroy(table);
}

/* --- threads -----------------------------------------------------------------------------------
 */

enum { READERS = 2, WRITES = 30000 };

static atomic_bool over;

/* cmocka's asserts are for the main thread: a copy of two moments is counted. */
static void *read_all(void *context) {
  weir_denial copy;
  intptr_t torn = 0;
  while (!atomic_load(&over)) {
    for (int number = 0; number < 8; number++) {
      if (!read_number(context, number, 0, 150, &copy)) continue;
      const int64_t *words = (const int64_t *)(&copy.memo + 1);
      for (int i = 1; i < WORDS; i++)
        torn += words[i] != words[0];
      torn += words[0] % 8 != number;
    }
  }
  return (void *)torn;
}

/* A decision that was told is whole, or the caller's decision stays as it was. */
static void *read_told(void *context) {
  static const weir_decision untouched = {.limit = -1, .remaining = -2, .at_us = -3};
  intptr_t wrong = 0, told = 0;
  while (!atomic_load(&over) || told == 0) {
    for (int number = 0; number < 8; number++) {
      weir_decision decision = untouched;
      weir_key key;
      weir_key_read(secret, &number, sizeof number, &key);
      if (weir_denials_read(weir_table_denials(context), &key, 0, 150, NULL, &decision) ==
          WEIR_DENIAL_NONE) {
        wrong += memcmp(&decision, &untouched, sizeof decision) != 0;
      } else {
        wrong += decision.limit % 8 != number || decision.remaining != decision.limit ||
                 decision.cost != decision.limit || decision.at_us != 150;
        told++;
      }
    }
  }
  return (void *)wrong;
}

/* Readers, each of which returns how often what it read was wrong, beside a thread that writes. */
static void read_while_written(void *(*reader)(void *), bool tells) {
  pthread_t readers[READERS];
  void *wrong;
  weir_table *table = weir_table_create(KEYS, MEMO_BYTES, 0, NULL, secret);
  atomic_store(&over, false);
  for (int i = 0; i < READERS; i++)
    assert_int_equal(pthread_create(&readers[i], NULL, reader, table), 0);
  for (int i = 0; i < WRITES; i++) {
    const weir_decision told = {
        .limit = i, .remaining = i, .cost = i, .at_us = 100, .retry_after_us = 100};
    deny_telling(table, i % 8, 100, 200, i, tells ? &told : NULL);
  }
  atomic_store(&over, true);
  for (int i = 0; i < READERS; i++) {
    assert_int_equal(pthread_join(readers[i], &wrong), 0);
    assert_null(wrong);
  }
  weir_table_destroy(table);
}

static void no_copy_is_of_two_moments(void **state) {
  (void)state;
  read_while_written(read_all, false);
}

static void a_decision_is_told_whole_or_not_touched(void **state) {
  (void)state;
  read_while_written(read_told, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_what_the_memo_says_while_it_denies),
      cmocka_unit_test(a_memo_that_denies_nothing_any_more_is_not_read),
      cmocka_unit_test(many_keys_are_denied_at_once),
      cmocka_unit_test(a_memo_too_large_to_copy_is_left_to_the_lock),
      cmocka_unit_test(a_key_whose_denial_is_read_stays_in_a_full_table),
      cmocka_unit_test(no_copy_is_of_two_moments),
      cmocka_unit_test(a_decision_is_told_whole_or_not_touched),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

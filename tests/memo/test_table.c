#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdio.h>

#include <cmocka.h>

#include "key/key.h"
#include "memo/table.h"

static const unsigned char secret[WEIR_KEY_SECRET_BYTES] = "of this test";

static weir_memo_entry *lock_number(weir_table *table, int number) {
  weir_key key;
  weir_key_read(secret, &number, sizeof number, &key);
  return weir_table_lock(table, &key);
}

static void remembers_a_key_until_its_place_is_needed(void **state) {
  (void)state;
  weir_table *table = weir_table_create(1, sizeof(weir_memo), 0, NULL, secret);
  weir_memo_entry *entry = lock_number(table, 1);
  entry->memo->denied_cost = 7;
  weir_lock_leave(&entry->shard->lock);
  entry = lock_number(table, 1);
  assert_int_equal(entry->memo->denied_cost, 7);
  weir_lock_leave(&entry->shard->lock);
  entry = lock_number(table, 2);
  weir_lock_leave(&entry->shard->lock);
  entry = lock_number(table, 1);
  assert_int_equal(entry->memo->denied_cost, 0);
  weir_lock_leave(&entry->shard->lock);
  weir_table_destroy(table);
}

static void keeps_what_is_in_use_however_many_keys_come(void **state) {
  (void)state;
  weir_table *table = weir_table_create(4, sizeof(weir_memo), 0, NULL, secret);
  weir_claim waiting = {.verdict.charge = 1};
  weir_memo_entry *busy = lock_number(table, -1);
  busy->busy = true;
  busy->memo->denied_cost = 3;
  weir_lock_leave(&busy->shard->lock);
  weir_memo_entry *wanted = lock_number(table, -2);
  weir_memo_entry_append(wanted, &waiting);
  weir_lock_leave(&wanted->shard->lock);
  for (int i = 0; i < 10000; i++)
    weir_lock_leave(&lock_number(table, i)->shard->lock);
  weir_memo_entry *found = lock_number(table, -1);
  assert_ptr_equal(found, busy);
  assert_int_equal(found->memo->denied_cost, 3);
  weir_lock_leave(&found->shard->lock);
  found = lock_number(table, -2);
  assert_ptr_equal(found, wanted);
  weir_lock_leave(&found->shard->lock);
  weir_table_destroy(table);
}

static void gives_up_first_what_was_not_used_again(void **state) {
  (void)state;
  enum { KEYS = 160 };
  weir_table *table = weir_table_create(KEYS, sizeof(weir_memo), 0, NULL, secret);
  for (int round = 0; round < 100; round++) {
    weir_memo_entry *kept = lock_number(table, -1);
    if (round > 0) assert_int_equal(kept->memo->denied_cost, 9);
    kept->memo->denied_cost = 9;
    weir_lock_leave(&kept->shard->lock);
    weir_lock_leave(&lock_number(table, -1)->shard->lock);
    weir_lock_leave(&lock_number(table, round)->shard->lock);
  }
  weir_table_destroy(table);
}

static size_t length(const weir_claim *request) {
  size_t count = 0;
  for (; request != NULL; request = request->next)
    count++;
  return count;
}

static void groups_what_fits_under_the_cap_in_order_of_arrival(void **state) {
  (void)state;
  weir_table *table = weir_table_create(4, sizeof(weir_memo), 0, NULL, secret);
  weir_claim requests[] = {{.verdict.charge = 4},
                           {.verdict.charge = 9, .ask.kind = WEIR_PEEK},
                           {.verdict.charge = 6},
                           {.verdict.charge = 1}};
  weir_memo_entry *entry = lock_number(table, 1);
  for (size_t i = 0; i < 4; i++)
    weir_memo_entry_append(entry, &requests[i]);
  assert_int_equal(length(weir_memo_entry_take_group(entry, 10)), 3); /* a peek charges nothing */
  assert_ptr_equal(entry->first_waiting, &requests[3]);
  assert_int_equal(length(weir_memo_entry_take_group(entry, 10)), 1);
  assert_null(entry->first_waiting);
  weir_lock_leave(&entry->shard->lock);
  weir_table_destroy(table);
}

static void takes_one_even_above_the_cap_and_a_reset_alone(void **state) {
  (void)state;
  weir_table *table = weir_table_create(4, sizeof(weir_memo), 0, NULL, secret);
  weir_claim requests[] = {
      {.verdict.charge = 40}, {.verdict.charge = 1, .ask.kind = WEIR_RESET}, {.verdict.charge = 1}};
  weir_memo_entry *entry = lock_number(table, 1);
  for (size_t i = 0; i < 3; i++)
    weir_memo_entry_append(entry, &requests[i]);
  for (size_t i = 0; i < 3; i++) {
    assert_ptr_equal(weir_memo_entry_take_group(entry, 10), &requests[i]);
    assert_null(requests[i].next);
  }
  weir_lock_leave(&entry->shard->lock);
  weir_table_destroy(table);
}

static void takes_alone_what_must_not_share_its_group(void **state) {
  static const weir_claim loners[] = {
      {.verdict.charge = 1, .ask = {.kind = WEIR_TAKE, .alone = true}},
      {.verdict.charge = 1, .ask = {.kind = WEIR_PEEK, .alone = true}},
      {.verdict.charge = 1, .ask.kind = WEIR_REFUND},
      {.verdict.charge = 1, .ask.kind = WEIR_RESET}};
  (void)state;
  weir_table *table = weir_table_create(4, sizeof(weir_memo), 0, NULL, secret);
  weir_memo_entry *entry = lock_number(table, 1);
  for (size_t i = 0; i < sizeof loners / sizeof loners[0]; i++) {
    weir_claim requests[] = {{.verdict.charge = 1}, {.verdict.charge = 1}, loners[i], loners[i],
                             {.verdict.charge = 1}, {.verdict.charge = 1}};
    for (size_t j = 0; j < 6; j++)
      weir_memo_entry_append(entry, &requests[j]);
    assert_int_equal(length(weir_memo_entry_take_group(entry, 10)), 2);
    for (size_t j = 2; j < 4; j++) {
      assert_ptr_equal(weir_memo_entry_take_group(entry, 10), &requests[j]);
      assert_null(requests[j].next);
    }
    assert_int_equal(length(weir_memo_entry_take_group(entry, 10)), 2);
    assert_null(entry->first_waiting);
  }
  weir_lock_leave(&entry->shard->lock);
  weir_table_destroy(table);
}

static void lets_anyone_leave_the_line(void **state) {
  (void)state;
  weir_table *table = weir_table_create(4, sizeof(weir_memo), 0, NULL, secret);
  weir_claim requests[3] = {{.verdict.charge = 1}, {.verdict.charge = 1}, {.verdict.charge = 1}};
  weir_claim last = {.verdict.charge = 1};
  weir_memo_entry *entry = lock_number(table, 1);
  for (int leaver = 0; leaver < 3; leaver++) {
    for (size_t i = 0; i < 3; i++)
      weir_memo_entry_append(entry, &requests[i]);
    weir_memo_entry_withdraw(entry, &requests[leaver]);
    weir_memo_entry_append(entry, &last);
    assert_int_equal(length(weir_memo_entry_take_group(entry, 10)), 3);
    assert_null(entry->first_waiting);
  }
  weir_lock_leave(&entry->shard->lock);
  weir_table_destroy(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(remembers_a_key_until_its_place_is_needed),
      cmocka_unit_test(keeps_what_is_in_use_however_many_keys_come),
      cmocka_unit_test(gives_up_first_what_was_not_used_again),
      cmocka_unit_test(groups_what_fits_under_the_cap_in_order_of_arrival),
      cmocka_unit_test(takes_one_even_above_the_cap_and_a_reset_alone),
      cmocka_unit_test(takes_alone_what_must_not_share_its_group),
      cmocka_unit_test(lets_anyone_leave_the_line),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

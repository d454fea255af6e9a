/* Keys from outside cannot be chosen to share a chain: whoever knows the hash but not the key of
 * the store finds keys that meet elsewhere. Buckets are as many as the keys need. The source is
 * included, to look inside, and calloc is the wrapper below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sodium.h>

#include "key/key.h"
#include "memo/table.c" /* NOLINT(bugprone-suspicious-include) */
#include "store/store.h"

enum { TABLE_KEYS = 16384, CHOSEN = 512, SHARD_BITS = 6, BUCKET_BITS = 6 };

static unsigned chosen[CHOSEN];

/* Keys alike in what picks the shard and in most of what picks the chain. */
static void choose(const unsigned char *hash_key) {
  weir_key read;
  unsigned key = 0;
  for (size_t found = 0; found < CHOSEN; key++) {
    weir_key_read(hash_key, &key, sizeof key, &read);
    bool alike = (read.hash & ((1U << (SHARD_BITS + BUCKET_BITS)) - 1)) == 0;
    if (alike) chosen[found++] = key;
  }
}

/* The secret of the store that the tables belong to. */
static unsigned char secret[WEIR_KEY_SECRET_BYTES];

static weir_memo_entry *lock_key(weir_table *table, const void *key, size_t key_length) {
  weir_key read;
  weir_key_read(secret, key, key_length, &read);
  return weir_table_lock(table, &read);
}

static size_t longest_chain(const weir_table *table) {
  size_t longest = 0;
  for (size_t i = 0; i < table->shard_count; i++) {
    const weir_shard *shard = table->shards[i];
    if (shard == NULL) continue;
    for (size_t at = 0; at <= shard->bucket_mask; at++) {
      size_t length = 0;
      for (const weir_memo_entry *entry = shard->buckets[at]; entry != NULL; entry = entry->chain)
        length++;
      if (length > longest) longest = length;
    }
  }
  return longest;
}

static size_t flood(const unsigned char *hash_key, const unsigned *keys, unsigned count) {
  weir_table *table = weir_table_create(TABLE_KEYS, sizeof(weir_memo), 0, NULL, secret);
  assert_non_null(table);
  randombytes_buf(secret, sizeof secret);
  if (hash_key != NULL) memcpy(secret, hash_key, sizeof secret);
  for (unsigned i = 0; i < count; i++) {
    const unsigned *key = keys != NULL ? &keys[i] : &i;
    weir_lock_leave(&lock_key(table, key, sizeof *key)->shard->lock);
  }
  size_t longest = longest_chain(table);
  weir_table_destroy(table);
  return longest;
}

static void keys_chosen_without_the_key_share_no_chain(void **state) {
  static const unsigned char known[WEIR_KEY_SECRET_BYTES];
  (void)state;
  choose(known);
  size_t longest = flood(NULL, chosen, CHOSEN);
  size_t leaked = flood(known, chosen, CHOSEN);
  print_message("of %d keys at most %zu in a chain; with the store's key known %zu\n", CHOSEN,
                longest, leaked);
  assert_true(longest < 12);
  assert_true(leaked > 64); /* or this would measure nothing */
}

/* One entry a chain on the average; the longest of 16384 has 7 or so. */
static void a_full_table_has_short_chains(void **state) {
  (void)state;
  size_t longest = flood(NULL, NULL, 20 * TABLE_KEYS);
  print_message("after %d keys at most %zu in a chain\n", 20 * TABLE_KEYS, longest);
  assert_true(longest < 24);
}

static bool no_buckets;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size) {
  return no_buckets && size == sizeof(weir_memo_entry *) ? NULL : __real_calloc(count, size);
}
/* NOLINTEND(bugprone-reserved-identifier) */

static weir_table *fill(unsigned keys) {
  weir_table *table = weir_table_create(TABLE_KEYS, sizeof(weir_memo), 0, NULL, secret);
  assert_non_null(table);
  for (unsigned i = 0; i < keys; i++) {
    weir_memo_entry *entry = lock_key(table, &i, sizeof i);
    entry->memo->denied_cost = i + 1;
    weir_lock_leave(&entry->shard->lock);
  }
  return table;
}

static size_t count_buckets(const weir_table *table) {
  size_t buckets = 0;
  for (size_t i = 0; i < table->shard_count; i++)
    if (table->shards[i] != NULL) buckets += table->shards[i]->bucket_mask + 1;
  return buckets;
}

static size_t count_remembered(weir_table *table, unsigned keys) {
  size_t remembered = 0;
  for (unsigned i = 0; i < keys; i++) {
    weir_memo_entry *entry = lock_key(table, &i, sizeof i);
    remembered += entry->memo->denied_cost == i + 1;
    weir_lock_leave(&entry->shard->lock);
  }
  return remembered;
}

static void buckets_double_with_the_keys_up_to_the_bound(void **state) {
  static const struct {
    unsigned keys;
    size_t least, most; /* buckets: where each shard has its share, and where they differ */
  } cases[] = {{0, 0, 0},
               {1, WEIR_OWN_BUCKETS, WEIR_OWN_BUCKETS},
               {1000, 1000, 5000},
               {8000, 8000, TABLE_KEYS},
               {20 * TABLE_KEYS, TABLE_KEYS, TABLE_KEYS}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_table *table = fill(cases[i].keys);
    assert_in_range(count_buckets(table), cases[i].least, cases[i].most);
    if (cases[i].keys < TABLE_KEYS / 2 + 1)
      assert_int_equal(count_remembered(table, cases[i].keys), cases[i].keys);
    weir_table_destroy(table);
  }
}

static void without_memory_for_buckets_keys_are_remembered_all_the_same(void **state) {
  enum { KEYS = 8000 };
  (void)state;
  no_buckets = true;
  weir_table *table = fill(KEYS);
  assert_int_equal(count_buckets(table), SHARDS_MOST * WEIR_OWN_BUCKETS);
  no_buckets = false;
  assert_int_equal(count_remembered(table, KEYS), KEYS);
  weir_lock_leave(&lock_key(table, "new", 3)->shard->lock);
  assert_true(count_buckets(table) > (size_t)SHARDS_MOST * WEIR_OWN_BUCKETS);
  weir_table_destroy(table);
}

static void no_two_stores_hash_alike(void **state) {
  weir_store *one, *other;
  (void)state;
  assert_int_equal(weir_store_open("memory:", &one, NULL), WEIR_OK);
  assert_int_equal(weir_store_open("memory:", &other, NULL), WEIR_OK);
  assert_memory_not_equal(one->secret, other->secret, sizeof one->secret);
  weir_store_close(one);
  weir_store_close(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_chosen_without_the_key_share_no_chain),
      cmocka_unit_test(a_full_table_has_short_chains),
      cmocka_unit_test(buckets_double_with_the_keys_up_to_the_bound),
      cmocka_unit_test(without_memory_for_buckets_keys_are_remembered_all_the_same),
      cmocka_unit_test(no_two_stores_hash_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

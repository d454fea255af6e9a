/* Keys from outside cannot be chosen to share a chain: whoever knows the hash but not the key of
 * the table finds keys that meet elsewhere. The source is included, to look inside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "memo/table.c" /* NOLINT(bugprone-suspicious-include) */

enum { TABLE_KEYS = 16384, CHOSEN = 512, SHARD_BITS = 6, BUCKET_BITS = 6 };

static unsigned chosen[CHOSEN];

/* Keys alike in what picks the shard and in most of what picks the chain. */
static void choose(const unsigned char *hash_key) {
  uint64_t hash[2];
  unsigned key = 0;
  for (size_t found = 0; found < CHOSEN; key++) {
    crypto_shorthash_siphashx24((unsigned char *)hash, (const unsigned char *)&key, sizeof key,
                                hash_key);
    bool alike =
        (hash[0] & ((1U << SHARD_BITS) - 1)) == 0 && (hash[1] & ((1U << BUCKET_BITS) - 1)) == 0;
    if (alike) chosen[found++] = key;
  }
}

static size_t longest_chain(const weir_table *table) {
  size_t longest = 0;
  for (size_t i = 0; i < table->shard_count; i++) {
    const weir_shard *shard = &table->shards[i];
    for (size_t at = 0; at <= shard->bucket_mask; at++) {
      size_t length = 0;
      for (const weir_entry *entry = shard->buckets[at]; entry != NULL; entry = entry->chain)
        length++;
      if (length > longest) longest = length;
    }
  }
  return longest;
}

static size_t flood(const unsigned char *hash_key, const unsigned *keys, unsigned count) {
  weir_table *table = weir_table_create(TABLE_KEYS, sizeof(weir_memo));
  assert_non_null(table);
  if (hash_key != NULL) memcpy(table->hash_key, hash_key, sizeof table->hash_key);
  for (unsigned i = 0; i < count; i++) {
    const unsigned *key = keys != NULL ? &keys[i] : &i;
    weir_shard_unlock(weir_table_lock(table, key, sizeof *key)->shard);
  }
  size_t longest = longest_chain(table);
  weir_table_destroy(table);
  return longest;
}

static void keys_chosen_without_the_key_share_no_chain(void **state) {
  static const unsigned char known[crypto_shorthash_siphashx24_KEYBYTES];
  (void)state;
  choose(known);
  size_t longest = flood(NULL, chosen, CHOSEN);
  size_t leaked = flood(known, chosen, CHOSEN);
  print_message("of %d keys at most %zu in a chain; with the table's key known %zu\n", CHOSEN,
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

static void no_two_tables_hash_alike(void **state) {
  (void)state;
  weir_table *one = weir_table_create(1, sizeof(weir_memo));
  weir_table *other = weir_table_create(1, sizeof(weir_memo));
  assert_memory_not_equal(one->hash_key, other->hash_key, sizeof one->hash_key);
  weir_table_destroy(one);
  weir_table_destroy(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys_chosen_without_the_key_share_no_chain),
      cmocka_unit_test(a_full_table_has_short_chains),
      cmocka_unit_test(no_two_tables_hash_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Keys from outside cannot be chosen to meet in the table: whoever knows the hash but not the key
 * of the store finds names that meet elsewhere. The source is included, to look inside. */
#include "memory/counter.h"
#include "memory/memory.c" /* NOLINT(bugprone-suspicious-include) */

enum { NAMES = 4096, NAME_BYTES = 32, SAME_BITS = 10 };

static char names[NAMES][NAME_BYTES];

static weir_memory_fingerprint fingerprint_of(const struct memory *memory, const char *name) {
  weir_operation operation = {.key = name, .key_length = (uint16_t)strlen(name)};
  return take_fingerprint(memory, &operation);
}

/* Names that are alike in what picks the place, under the store's key. */
static void choose_names(const struct memory *known) {
  unsigned tried = 0;
  for (size_t found = 0; found < NAMES; tried++) {
    snprintf(names[found], NAME_BYTES, "weir:fw-1000:{%u}:0", tried);
    found += fingerprint_of(known, names[found]).low >> (64 - SAME_BITS) == 0;
  }
}

static struct memory *open_flooded(const unsigned char *hash_key) {
  static const weir_url_option one_shard[] = {{"shards", "1"}};
  const weir_url url = {.scheme = "memory", .options = one_shard, .option_count = 1};
  void *handle = NULL;
  weir_message message = {""};
  assert_int_equal(memory_open(&url, 1000, &handle, &message), WEIR_OK);
  struct memory *memory = handle;
  if (hash_key != NULL) memcpy(memory->hash_key, hash_key, sizeof memory->hash_key);
  for (size_t i = 0; i < NAMES; i++) {
    weir_operation add = {.kind = WEIR_ADD, .key = names[i], .delta = 1, .ttl_us = MINUTE_US};
    add.key_length = add.home_length = (uint16_t)strlen(names[i]);
    memory_exec(memory, &add, 1, deadline_in_ms(60000), &message);
    assert_int_equal(add.outcome, WEIR_DONE);
    assert_int_equal(add.value, 1);
  }
  return memory;
}

/* Places looked at for all entries together, beyond one for each. */
static size_t count_detours(const struct memory *memory, size_t *longest) {
  const weir_memory_table *table = &memory->shards[0].table;
  size_t sum = 0;
  *longest = 0;
  for (size_t at = 0; at < table->capacity; at++) {
    if (table->entries[at].expiry_us == 0) continue;
    size_t begin = weir_memory_table_place(table, table->entries[at].fingerprint);
    size_t detour = (at + table->capacity - begin) % table->capacity;
    if (detour > *longest) *longest = detour;
    sum += detour;
  }
  return sum;
}

static void names_chosen_without_the_key_do_not_meet(void **state) {
  struct memory known = {.shard_count = 1};
  size_t longest, longest_leaked;
  (void)state;
  choose_names(&known);
  struct memory *flooded = open_flooded(NULL);
  size_t detours = count_detours(flooded, &longest);
  memory_close(flooded);
  struct memory *leaked = open_flooded(known.hash_key);
  size_t leaked_detours = count_detours(leaked, &longest_leaked);
  memory_close(leaked);
  print_message(
      "of %d names, %.1f and at most %zu places too far; with the key known %.1f and %zu\n", NAMES,
      (double)detours / NAMES, longest, (double)leaked_detours / NAMES, longest_leaked);
  assert_true(detours < 4 * (size_t)NAMES);
  assert_true(longest < 400);
  assert_true(leaked_detours > 40 * (size_t)NAMES); /* or this would measure nothing */
}

static void no_two_stores_hash_alike(void **state) {
  (void)state;
  struct memory *one = open_flooded(NULL);
  struct memory *other = open_flooded(NULL);
  assert_memory_not_equal(one->hash_key, other->hash_key, sizeof one->hash_key);
  memory_close(one);
  memory_close(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_chosen_without_the_key_do_not_meet),
      cmocka_unit_test(no_two_stores_hash_alike),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The identity of a counter: equal for what is one counter, else different in every part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "key/key.h"

static const unsigned char secret[WEIR_KEY_SECRET_BYTES] = "of this test";

typedef struct identity {
  uint64_t words[2];
} identity;

static identity identify(const char *key, const char *prefix, uint64_t mark, int64_t index,
                         int64_t entry) {
  identity made;
  uint64_t key_hash[2];
  uint64_t prefix_hash[2];
  weir_key_hash(secret, key, strlen(key), key_hash);
  weir_key_hash(secret, prefix, strlen(prefix), prefix_hash);
  weir_key_identify(key_hash, prefix_hash, mark, index, entry, made.words);
  return made;
}

static void what_is_one_counter_has_one_identity(void **state) {
  (void)state;
  identity one = identify("key", "weir:a:{", 2, 77, 3);
  identity other = identify("key", "weir:a:{", 2, 77, 3);
  assert_memory_equal(&one, &other, sizeof one);
}

static int count_bits(uint64_t word) {
  int count = 0;
  for (; word != 0; word &= word - 1)
    count++;
  return count;
}

/* Half of the bits that may differ, give or take what chance would in a million tries. */
static void assert_unlike(identity one, identity other, int may_differ) {
  int differ =
      count_bits(one.words[0] ^ other.words[0]) + count_bits(one.words[1] ^ other.words[1]);
  assert_in_range(differ, may_differ / 2 - 30, may_differ / 2 + 30);
}

static void whatever_differs_changes_half_of_the_bits(void **state) {
  (void)state;
  identity base = identify("key", "weir:a:{", 0, 77, 0);
  assert_unlike(base, identify("kez", "weir:a:{", 0, 77, 0), 128);
  assert_unlike(base, identify("key", "weir:b:{", 0, 77, 0), 112);
  assert_unlike(base, identify("key", "weir:a:{", 1, 77, 0), 112);
  assert_unlike(base, identify("key", "weir:a:{", 2, 77, 0), 112);
  for (int bit = 0; bit < 62; bit++) {
    assert_unlike(base, identify("key", "weir:a:{", 0, 77 ^ INT64_C(1) << bit, 0), 112);
    if (bit < 60) assert_unlike(base, identify("key", "weir:a:{", 0, 77, INT64_C(1) << bit), 112);
  }
}

static void the_low_bits_are_those_of_the_key(void **state) {
  (void)state;
  uint64_t low = identify("key", "weir:a:{", 0, 0, 0).words[1] & 0xffff;
  for (int64_t i = 0; i < 1000; i++)
    assert_int_equal(identify("key", "weir:b:{", 2, i, i + 1).words[1] & 0xffff, low);
}

static int compare(const void *left, const void *right) {
  return memcmp(left, right, sizeof(identity));
}

static void no_two_of_many_counters_meet(void **state) {
  enum { INDEXES = 1000, ENTRIES = 50, MARKS = 3, COUNT = INDEXES * ENTRIES * MARKS };
  static identity all[COUNT];
  (void)state;
  size_t made = 0;
  for (int64_t index = 0; index < INDEXES; index++)
    for (int64_t entry = 0; entry < ENTRIES; entry++)
      for (uint64_t mark = 0; mark < MARKS; mark++)
        all[made++] = identify("key", "weir:a:{", mark, index, entry);
  qsort(all, COUNT, sizeof *all, compare);
  for (size_t i = 1; i < COUNT; i++)
    assert_memory_not_equal(&all[i - 1], &all[i], sizeof *all);
}

static void another_secret_gives_another_hash(void **state) {
  static const unsigned char other_secret[WEIR_KEY_SECRET_BYTES] = "of another";
  uint64_t one[2];
  uint64_t other[2];
  (void)state;
  weir_key_hash(secret, "key", 3, one);
  weir_key_hash(other_secret, "key", 3, other);
  assert_memory_not_equal(one, other, sizeof one);
}

enum { LONGEST = 40 };

/* Keys that differ in their length alone, or in one byte. */
static void keys_are_equal_as_read_if_their_bytes_are(void **state) {
  weir_key keys[2 * LONGEST];
  (void)state;
  for (size_t length = 1; length <= LONGEST; length++) {
    char bytes[LONGEST] = {0};
    weir_key again;
    weir_key_read(secret, bytes, length, &keys[2 * length - 2]);
    weir_key_read(secret, bytes, length, &again);
    assert_memory_equal(&keys[2 * length - 2], &again, sizeof again);
    bytes[length - 1] = 1;
    weir_key_read(secret, bytes, length, &keys[2 * length - 1]);
  }
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    for (size_t n = 0; n < i; n++) {
      assert_memory_not_equal(keys[i].words, keys[n].words, sizeof keys[i].words);
      assert_int_not_equal(keys[i].hash, keys[n].hash);
    }
  }
}

static void a_key_as_read_has_its_fingerprint(void **state) {
  char bytes[LONGEST];
  (void)state;
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (char)(255 - i);
  for (size_t length = 1; length <= LONGEST; length++) {
    uint64_t expected[2], hash[2];
    weir_key key;
    weir_key_hash(secret, bytes, length, expected);
    weir_key_read(secret, bytes, length, &key);
    weir_key_fingerprint(secret, &key, hash);
    assert_memory_equal(hash, expected, sizeof hash);
  }
}

static void another_secret_gives_another_place(void **state) {
  static const unsigned char other_secret[WEIR_KEY_SECRET_BYTES] = "of another";
  weir_key one, other;
  (void)state;
  weir_key_read(secret, "key", 3, &one);
  weir_key_read(other_secret, "key", 3, &other);
  assert_int_not_equal(one.hash, other.hash);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_one_counter_has_one_identity),
      cmocka_unit_test(whatever_differs_changes_half_of_the_bits),
      cmocka_unit_test(the_low_bits_are_those_of_the_key),
      cmocka_unit_test(no_two_of_many_counters_meet),
      cmocka_unit_test(another_secret_gives_another_hash),
      cmocka_unit_test(keys_are_equal_as_read_if_their_bytes_are),
      cmocka_unit_test(a_key_as_read_has_its_fingerprint),
      cmocka_unit_test(another_secret_gives_another_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

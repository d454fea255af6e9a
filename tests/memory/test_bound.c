#include "memory/counter.h"

enum { KEY_BYTES = 32 };

static void name_key(char key[KEY_BYTES], int index) {
  snprintf(key, KEY_BYTES, "weir:{%d}:0", index);
}

static int fill(weir_store *store, int first, int count, int64_t ttl_us) {
  int done = 0;
  for (int i = first; i < first + count; i++) {
    char key[KEY_BYTES];
    name_key(key, i);
    done += add(store, key, i + 1, ttl_us).outcome == WEIR_DONE;
  }
  return done;
}

/* How many are there, each with the value that it was given. */
static int count_present(weir_store *store, int first, int count) {
  int present = 0;
  for (int i = first; i < first + count; i++) {
    char key[KEY_BYTES];
    name_key(key, i);
    weir_operation operation = get(store, key);
    if (operation.outcome == WEIR_DONE) assert_int_equal(operation.value, i + 1);
    present += operation.outcome == WEIR_DONE;
  }
  return present;
}

static void ten_times_as_many_keys_leave_as_many_as_the_bound(void **state) {
  (void)state;
  static const struct {
    const char *url;
    int keys;
  } cases[] = {{"memory:?keys=1", 1},
               {"memory:?keys=7", 7},
               {"memory:?keys=1000&shards=1", 1000},
               {"memory:?keys=20000&shards=256", 20000},
               {"memory:?keys=20001", 20001}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weir_store *store = open_memory(cases[i].url);
    assert_int_equal(fill(store, 0, cases[i].keys * 10, MINUTE_US), cases[i].keys * 10);
    assert_int_equal(count_present(store, 0, cases[i].keys * 10), cases[i].keys);
    weir_store_close(store);
  }
}

static void nothing_is_evicted_before_95_percent(void **state) {
  (void)state;
  weir_store *store = open_memory("memory:?keys=131072&shards=256");
  int most = 131072 / 100 * 95;
  fill(store, 0, most, MINUTE_US);
  assert_int_equal(count_present(store, 0, most), most);
  weir_store_close(store);
}

static void keys_used_longest_ago_make_room_first(void **state) {
  (void)state;
  weir_store *store = open_memory("memory:?keys=4000&shards=1");
  fill(store, 0, 2000, 10 * MINUTE_US);
  fill(store, 2000, 2000, MINUTE_US);
  fill(store, 4000, 1000, MINUTE_US);
  assert_true(count_present(store, 0, 2000) < 1100);
  assert_true(count_present(store, 2000, 3000) > 2900);
  weir_store_close(store);
}

static void expired_keys_make_room_before_live_ones(void **state) {
  (void)state;
  weir_store *store = open_memory("memory:?keys=4000&shards=1");
  fill(store, 0, 2000, 1000);
  int64_t end_us = weir_monotonic_us() + 1000;
  while (weir_monotonic_us() <= end_us)
    continue;
  fill(store, 2000, 3000, MINUTE_US);
  assert_int_equal(count_present(store, 2000, 3000), 3000);
  weir_store_close(store);
}

static void every_number_of_shards_finds_its_keys(void **state) {
  (void)state;
  for (int shards = 1; shards <= 256; shards *= 2) {
    char url[64];
    snprintf(url, sizeof url, "memory:?keys=10000000&shards=%d", shards);
    weir_store *store = open_memory(url);
    fill(store, 0, 5000, MINUTE_US);
    assert_int_equal(count_present(store, 0, 5000), 5000);
    weir_store_close(store);
  }
}

static void says_what_its_options_accept(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"memory:?keys=0", "keys=0: accepted is a whole number from 1 to 100000000"},
      {"memory:?keys=100000001", "keys=100000001"},
      {"memory:?keys=many", "keys=many"},
      {"memory:?shards=0", "shards=0: accepted is a whole number from 1 to 256"},
      {"memory:?shards=257", "shards=257"},
      {"memory:?shards=12", "shards=12: accepted is a power of two from 1 to 256"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weir_store *store;
    weir_message message;
    assert_int_equal(weir_store_open(cases[i][0], &store, &message), WEIR_BAD_URL);
    assert_null(store);
    assert_non_null(strstr(message.text, cases[i][1]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ten_times_as_many_keys_leave_as_many_as_the_bound),
      cmocka_unit_test(nothing_is_evicted_before_95_percent),
      cmocka_unit_test(keys_used_longest_ago_make_room_first),
      cmocka_unit_test(expired_keys_make_room_before_live_ones),
      cmocka_unit_test(every_number_of_shards_finds_its_keys),
      cmocka_unit_test(says_what_its_options_accept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A flood of keys that come once each: what the process keeps of them is bounded, by the memory:
 * store's `keys` and the limiter's `memo_keys`.
 *
 *     test_attack_many_keys [KEYS]      1000000 unless said otherwise; 10000000 takes half a minute
 */
#include "attack/stores.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attack/heap.h"

/* As docs/stores.md states them for the store; memo entries of the rules here are smaller. */
enum { STORE_KEYS = 100000, MEMO_KEYS = 16384, STORE_KEY_BYTES = 107, MEMO_BYTES = 1024 };

static const char *const all_rules[] = {"token-bucket:5/1m", "sliding-window:5/1m"};
enum { RULES = sizeof all_rules / sizeof all_rules[0] };

static unsigned long keys = 1000000 / RULES; /* of each rule */

/* The most bytes that were in use while the flood went on. */
static long flood(const char *rules, unsigned long *allowed) {
  char url[64], key[32];
  weir_limiter_options options = attack_options(NULL);
  options.memo_keys = MEMO_KEYS;
  snprintf(url, sizeof url, "memory:?keys=%d", STORE_KEYS);
  long before = heap_bytes();
  long most = 0;
  weir_store *store = attack_open(url);
  weir_limiter *limiter = attack_limiter(store, rules, &options);
  for (unsigned long i = 0; i < keys; i++) {
    weir_decision decision;
    int length = snprintf(key, sizeof key, "192.0.2.%lu", i);
    assert_int_equal(weir_limiter_take(limiter, key, (size_t)length, 1, &decision, NULL), WEIR_OK);
    *allowed += decision.allowed;
    if (i % 1024 == 0 && heap_bytes() - before > most) most = heap_bytes() - before;
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  assert_int_equal(heap_bytes(), before);
  return most;
}

static void a_flood_of_keys_fills_no_more_than_was_agreed(void **state) {
  const long bound = STORE_KEYS * 3L / 2 * STORE_KEY_BYTES + (long)MEMO_KEYS * MEMO_BYTES;
  (void)state;
  for (size_t i = 0; i < RULES; i++) {
    unsigned long allowed = 0;
    long most = flood(all_rules[i], &allowed);
    print_message("%s: %lu keys, %ld KiB at the most\n", all_rules[i], keys, most / 1024);
    assert_int_equal(allowed, keys);
    assert_in_range(most, 1, bound);
  }
}

int main(int count, char **arguments) {
  if (count > 1) keys = strtoul(arguments[1], NULL, 10) / RULES;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_flood_of_keys_fills_no_more_than_was_agreed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

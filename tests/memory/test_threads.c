#include <pthread.h>

#include "memory/counter.h"

enum { THREADS = 8, ROUNDS = 20000, KEYS = 64 };

static void run_threads(void *(*work)(void *), weir_store *store) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, work, store), 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* cmocka's asserts are for the main thread; what goes wrong here shows in the sums. */
static void *add_and_take_back(void *store) {
  for (int i = 0; i < ROUNDS; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i % KEYS);
    add(store, key, 3, MINUTE_US);
    run(store, key, (weir_operation){.kind = WEIR_SUB, .delta = 2, .ttl_us = MINUTE_US});
  }
  return NULL;
}

static void no_addition_is_lost_or_doubled(void **state) {
  run_threads(add_and_take_back, *state);
  int64_t sum = 0;
  for (int i = 0; i < KEYS; i++) {
    char key[16];
    snprintf(key, sizeof key, "k%d", i);
    sum += get(*state, key).value;
  }
  assert_int_equal(sum, THREADS * ROUNDS);
}

static void *swap_up(void *store) {
  for (int i = 0; i < ROUNDS / 10;) {
    weir_operation seen = get(store, "k");
    weir_operation operation = {.kind = WEIR_SWAP,
                                .version = seen.version_out,
                                .value = seen.value + 1,
                                .ttl_us = MINUTE_US};
    i += run(store, "k", operation).outcome == WEIR_DONE;
  }
  return NULL;
}

static void of_swaps_over_one_version_one_wins(void **state) {
  put(*state, "k", 0, MINUTE_US);
  run_threads(swap_up, *state);
  assert_holds(*state, "k", THREADS * (ROUNDS / 10));
}

static _Atomic int created;

static void *create_all(void *store) {
  for (int i = 0; i < ROUNDS; i++) {
    char key[16];
    snprintf(key, sizeof key, "new%d", i);
    weir_operation operation = {.kind = WEIR_CREATE, .value = 1, .ttl_us = MINUTE_US};
    created += run(store, key, operation).outcome == WEIR_DONE;
  }
  return NULL;
}

static void one_thread_creates_each_key_while_tables_grow(void **state) {
  created = 0;
  run_threads(create_all, *state);
  assert_int_equal(created, ROUNDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_store, tear_down_store)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(no_addition_is_lost_or_doubled),
      TEST(of_swaps_over_one_version_one_wins),
      TEST(one_thread_creates_each_key_while_tables_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

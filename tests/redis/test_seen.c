#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "redis/seen.h"
#include "wire/operations.h"

static weir_redis_seen *seen;

static int create(void **state) {
  (void)state;
  seen = weir_redis_seen_create();
  return seen == NULL;
}

static int destroy(void **state) {
  (void)state;
  weir_redis_seen_destroy(seen);
  return 0;
}

static void who_does_not_know_a_key_asks(void **state) {
  (void)state;
  weir_operation add = add_to("weir:{a}", 1);
  for (int i = 0; i < 3; i++)
    assert_false(weir_redis_seen_use(seen, &add));
  weir_redis_seen_note(seen, &add);
  assert_true(weir_redis_seen_use(seen, &add));
  weir_operation other = add_to("weir:{b}", 1);
  assert_false(weir_redis_seen_use(seen, &other));
}

static void of_64_uses_in_a_row_one_asks(void **state) {
  (void)state;
  weir_operation add = add_to("weir:{a}", 1);
  int in_a_row = 0;
  weir_redis_seen_note(seen, &add);
  for (int i = 0; i < 1000; i++) {
    in_a_row = weir_redis_seen_use(seen, &add) ? in_a_row + 1 : 0;
    assert_true(in_a_row < WEIR_SEEN_USES);
    assert_true(in_a_row > 0 || (i + 1) % WEIR_SEEN_USES == 0);
  }
}

/* The answer to a question of long ago is no reason to ask later. */
static void a_late_note_does_not_put_off_the_next_question(void **state) {
  (void)state;
  weir_operation add = add_to("weir:{a}", 1);
  int in_a_row = 0;
  weir_redis_seen_note(seen, &add);
  for (; weir_redis_seen_use(seen, &add); in_a_row++)
    weir_redis_seen_note(seen, &add);
  assert_int_equal(in_a_row, WEIR_SEEN_USES - 1);
}

static void after_a_key_was_forgotten_the_next_use_asks(void **state) {
  (void)state;
  weir_operation add = add_to("weir:{a}", 1);
  weir_operation other = add_to("weir:{b}", 1);
  weir_redis_seen_note(seen, &add);
  weir_redis_seen_note(seen, &other);
  weir_redis_seen_forget(seen, &add);
  weir_redis_seen_forget(seen, &add);
  assert_false(weir_redis_seen_use(seen, &add));
  assert_true(weir_redis_seen_use(seen, &other));
}

/* More keys than places: none is taken for another, and the later ones are known. */
static void no_key_is_taken_for_another(void **state) {
  enum { KEYS = 200000, LATE = 1000 };
  (void)state;
  char key[32] = "";
  int known = 0;
  weir_operation add = add_to(key, 1);
  for (int i = 0; i < KEYS; i++) {
    snprintf(key, sizeof key, "weir:{%d}", i);
    add.key_length = (uint16_t)strlen(key);
    assert_false(weir_redis_seen_use(seen, &add));
    weir_redis_seen_note(seen, &add);
  }
  for (int i = KEYS - LATE; i < KEYS; i++) {
    snprintf(key, sizeof key, "weir:{%d}", i);
    add.key_length = (uint16_t)strlen(key);
    known += weir_redis_seen_use(seen, &add);
  }
  assert_in_range(known, LATE * 9 / 10, LATE);
}

enum { THREADS = 8, ROUNDS = 8000 };

static atomic_int questions;

static void *use_often(void *unused) {
  (void)unused;
  weir_operation add = add_to("weir:{a}", 1);
  for (int i = 0; i < ROUNDS; i++) {
    if (weir_redis_seen_use(seen, &add)) continue;
    atomic_fetch_add(&questions, 1);
    weir_redis_seen_note(seen, &add);
  }
  return NULL;
}

static void threads_share_one_count(void **state) {
  (void)state;
  weir_operation add = add_to("weir:{a}", 1);
  pthread_t threads[THREADS];
  atomic_store(&questions, 0);
  weir_redis_seen_note(seen, &add);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, use_often, NULL), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&questions), THREADS * ROUNDS / WEIR_SEEN_USES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, create, destroy)

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(who_does_not_know_a_key_asks),
      TEST(of_64_uses_in_a_row_one_asks),
      TEST(a_late_note_does_not_put_off_the_next_question),
      TEST(after_a_key_was_forgotten_the_next_use_asks),
      TEST(no_key_is_taken_for_another),
      TEST(threads_share_one_count),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

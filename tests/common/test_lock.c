/* A lock of one word, held for a moment and held for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <pthread.h>

#include <cmocka.h>

#include "lock.h"

enum { THREADS = 8, TURNS = 20000, LONG_US = 2000 };

static weir_lock lock;
static int64_t count; /* the lock guards it */

static void sleep_us(long us) {
  const struct timespec time = {0, us * 1000};
  nanosleep(&time, NULL);
}

static void *add(void *nothing) {
  (void)nothing;
  for (int i = 0; i < TURNS; i++) {
    if (i % 2 == 0)
      weir_lock_take(&lock);
    else
      weir_lock_take_awake(&lock);
    count++;
    if (i % 4000 == 0) sleep_us(LONG_US); /* the others sleep */
    weir_lock_leave(&lock);
  }
  return NULL;
}

static void one_thread_at_a_time_has_it(void **state) {
  pthread_t threads[THREADS];
  (void)state;
  count = 0;
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, add, NULL), 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(count, THREADS * TURNS);
  assert_int_equal(lock.state, WEIR_LOCK_FREE);
}

static void to_try_waits_for_no_thread(void **state) {
  (void)state;
  assert_true(weir_lock_try(&lock));
  assert_false(weir_lock_try(&lock));
  weir_lock_leave(&lock);
  assert_true(weir_lock_try(&lock));
  weir_lock_leave(&lock);
}

/* A thread that waits uses no processor: it has slept nearly all the time. */
static void *wait_long(void *used_us) {
  struct timespec used;
  weir_lock_take_awake(&lock);
  weir_lock_leave(&lock);
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  *(int64_t *)used_us = (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
  return NULL;
}

static void a_thread_that_waits_long_sleeps(void **state) {
  pthread_t thread;
  int64_t used_us = 0;
  (void)state;
  weir_lock_take(&lock);
  assert_int_equal(pthread_create(&thread, NULL, wait_long, &used_us), 0);
  sleep_us(200000);
  weir_lock_leave(&lock);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_in_range(used_us, 0, 100000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_thread_at_a_time_has_it),
      cmocka_unit_test(to_try_waits_for_no_thread),
      cmocka_unit_test(a_thread_that_waits_long_sleeps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

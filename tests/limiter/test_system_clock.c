/* The system's clock is set: a limiter that reads it beside the monotonic one notices that at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>
#include <weir/backend.h>
#include <weir/weir.h>

#define SECOND_US INT64_C(1000000)

static int64_t ahead_us;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  int status = __real_clock_gettime(clock, now);
  if (clock != CLOCK_REALTIME) return status;
  int64_t told_us = (int64_t)now->tv_sec * SECOND_US + now->tv_nsec / 1000 + ahead_us;
  *now = (struct timespec){.tv_sec = (time_t)(told_us / SECOND_US),
                           .tv_nsec = (long)(told_us % SECOND_US) * 1000};
  return status;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int64_t real_us(void) {
  struct timespec now;
  __wrap_clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

static void a_clock_that_is_set_is_followed(void **state) {
  static const int64_t steps_us[] = {0, 3600 * SECOND_US, 7200 * SECOND_US, 60 * SECOND_US};
  const weir_limiter_options options = {.size = sizeof options, .deadline_us = SECOND_US / 20};
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_store *store;
  weir_limiter *limiter;
  weir_decision decision;
  (void)state;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, "fixed-window:1000000/1h", &options, &limiter, NULL),
                   WEIR_OK);
  for (size_t i = 0; i < sizeof steps_us / sizeof steps_us[0]; i++) {
    ahead_us = steps_us[i];
    int64_t end_us = weir_monotonic_us() + 200; /* until then the time of before may be told */
    while (weir_monotonic_us() < end_us) {
    }
    for (int n = 0; n < 1000; n++) {
      int64_t before_us = real_us();
      assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
      assert_in_range(decision.at_us, before_us, real_us());
    }
  }
  weir_limiter_read_counts(limiter, &counts);
  assert_int_equal(counts.clock_steps, 1);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

/* A limiter holds the time that it has seen until the clock is there again. One that is made meanwhile
 * does not, and the store hears of both. */
static void a_clock_that_is_set_back_a_little_makes_nothing_late(void **state) {
  enum { DEADLINE_US = 20000, BACK_US = 10 * DEADLINE_US };
  const weir_limiter_options options = {
      .size = sizeof options, .deadline_us = DEADLINE_US, .fallback = WEIR_FALLBACK_NONE};
  const char *rule = "fixed-window:100000000/1h";
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_store *store;
  weir_limiter *limiter, *later;
  weir_decision decision;
  (void)state;
  ahead_us = 0;
  assert_int_equal(weir_store_open("memory:?shards=1", &store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, rule, &options, &limiter, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  ahead_us = -BACK_US;
  int64_t until_us = weir_monotonic_us() + BACK_US / 2;
  assert_int_equal(weir_limiter_create(store, rule, &options, &later, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_take(later, "k", 1, 1, &decision, NULL), WEIR_OK);
  while (weir_monotonic_us() < until_us)
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, NULL), WEIR_OK);
  weir_limiter_read_counts(limiter, &counts);
  assert_int_equal(counts.clock_steps, 0);
  weir_limiter_destroy(later);
  weir_limiter_destroy(limiter);
  weir_store_close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_clock_that_is_set_is_followed),
      cmocka_unit_test(a_clock_that_is_set_back_a_little_makes_nothing_late),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The system's clock is set: a limiter that reads it beside the monotonic one notices that at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>
#include <weir/backend.h>
#include <weir/weir.h>

#define SECOND_US INT64_C(1000000)

static time_t ahead_s;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
  int status = __real_clock_gettime(clock, now);
  if (clock == CLOCK_REALTIME) now->tv_sec += ahead_s;
  return status;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int64_t real_us(void) {
  struct timespec now;
  __wrap_clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

static void a_clock_that_is_set_is_followed(void **state) {
  static const time_t steps_s[] = {0, 3600, 7200, 60};
  const weir_limiter_options options = {.size = sizeof options, .deadline_us = SECOND_US / 20};
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_store *store;
  weir_limiter *limiter;
  weir_decision decision;
  (void)state;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(store, "fixed-window:1000000/1h", &options, &limiter, NULL),
                   WEIR_OK);
  for (size_t i = 0; i < sizeof steps_s / sizeof steps_s[0]; i++) {
    ahead_s = steps_s[i];
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_clock_that_is_set_is_followed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

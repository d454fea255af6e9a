/* What is charged arrives within the deadline of its stamp, wherever the thread is held up. Time is
 * made up: it passes only in the reading of the clock at which the thread stalls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <weir/backend.h>
#include <weir/weir.h>

enum { DEADLINE_US = 20000, STALL_US = 60000, READINGS_MOST = 12 };

static int64_t time_us;
static int readings;
static int stalls_at;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants this name */
int64_t __wrap_weir_monotonic_us(void);

int64_t __wrap_weir_monotonic_us(void) {
  return time_us;
}
/* NOLINTEND(bugprone-reserved-identifier) */

static int64_t read_and_stall(void *context) {
  int64_t read_us = time_us;
  (void)context;
  if (++readings == stalls_at) time_us += STALL_US;
  return read_us;
}

static weir_limiter *open_limiter(weir_store **store) {
  weir_limiter *limiter;
  const weir_limiter_options options = {.size = sizeof options,
                                        .clock = {.now_us = read_and_stall},
                                        .deadline_us = DEADLINE_US,
                                        .fallback = WEIR_FALLBACK_NONE};
  time_us = INT64_C(1700000000000000);
  readings = 0;
  assert_int_equal(weir_store_open("memory:", store, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_create(*store, "sliding-window:1000/1m", &options, &limiter, NULL),
                   WEIR_OK);
  return limiter;
}

/* How many of two requests were admitted, each of them soon enough. */
static int admitted_in_time(int stall) {
  weir_store *store;
  weir_limiter *limiter = open_limiter(&store);
  weir_request requests[2] = {{.key = "a", .key_length = 1, .cost = 1},
                              {.key = "b", .key_length = 1, .cost = 1}};
  int admitted = 0;
  stalls_at = stall;
  weir_limiter_decide(limiter, requests, 2, NULL);
  for (int i = 0; i < 2; i++) {
    if (requests[i].status != WEIR_OK) continue;
    admitted += requests[i].decision.allowed;
    assert_in_range(time_us - requests[i].decision.at_us, 0, DEADLINE_US);
  }
  weir_limiter_destroy(limiter);
  weir_store_close(store);
  return admitted;
}

static void no_stall_makes_a_stamp_too_old(void **state) {
  (void)state;
  assert_int_equal(admitted_in_time(0), 2);
  for (int stall = 1; stall <= READINGS_MOST; stall++)
    admitted_in_time(stall);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_stall_makes_a_stamp_too_old)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The largest batch that there may be, all for one key: a few round trips by every rule but the
 * log, whatever the limit, and the answers of requests that come one by one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/world.h"

enum { TRIPS_MOST = 16, HOUR_DEADLINE_US = 60000000 };

static weir_request requests[WEIR_BATCH_MOST];

static void fill(const char *key) {
  for (int i = 0; i < WEIR_BATCH_MOST; i++)
    requests[i] = (weir_request){.key = key, .key_length = 1, .cost = 1 + i % 3};
}

static int round_trips_of_batch(world *w, const char *key) {
  fake_forget();
  fill(key);
  assert_int_equal(weir_limiter_decide(w->limiter, requests, WEIR_BATCH_MOST, NULL), WEIR_OK);
  return the_fake.counts.round_trips;
}

static void assert_as_one_by_one(world *w, const char *key) {
  for (int i = 0; i < WEIR_BATCH_MOST; i++) {
    weir_decision alone = world_take(w, key, requests[i].cost);
    const weir_decision *together = &requests[i].decision;
    assert_int_not_equal(together->source, WEIR_SOURCE_LATE);
    assert_int_equal(together->allowed, alone.allowed);
    assert_int_equal(together->retry_after_us, alone.retry_after_us);
  }
}

static void every_rule_decides_a_whole_batch_in_a_few_round_trips(void **state) {
  static const char *const rules[] = {
      "fixed-window:5/1h",
      "fixed-window:1/1h,count=all",
      "fixed-window:9000/1h,count=all",
      "sliding-window:5/1h",
      "sliding-window:5/1h,strict",
      "sliding-window:5/1h,count=all",
      "sliding-window:5/1h,cells=16",
      "quota:5/1h",
      "quota:3/1h,count=all",
      "token-bucket:5/1h",
      "token-bucket:9000/1h",
      "leaky-bucket:5/1h",
      "leaky-bucket:5/1h,queue=4",
      "fixed-window:5/1h;sliding-window:9/1h",
      "fixed-window:5/1h,count=all;sliding-window:9/1h",
      "fixed-window:5/1h;token-bucket:7/1h;quota:9/1d",
  };
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    const weir_limiter_options options = {.deadline_us = HOUR_DEADLINE_US};
    world_open_backend(&w, &fake_backend, "fake:", rules[i], &options);
    int trips = round_trips_of_batch(&w, "a");
    if (trips > TRIPS_MOST) fail_msg("%s: %d round trips", rules[i], trips);
    assert_as_one_by_one(&w, "b");
    world_close(&w);
  }
}

/* One after another: as many as fit, and the rest is late. */
static void a_log_decides_as_many_as_there_is_time_for(void **state) {
  enum { DEADLINE_US = 200000, DELAY_US = 2000 };
  world w;
  const weir_limiter_options options = {.deadline_us = DEADLINE_US, .fallback = WEIR_FALLBACK_DENY};
  int late = 0;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "sliding-log:9000/1h", &options);
  fill("a");
  for (int i = 0; i < WEIR_BATCH_MOST; i++)
    requests[i].cost = 1;
  the_fake.delay_us = DELAY_US;
  assert_int_equal(weir_limiter_decide(w.limiter, requests, WEIR_BATCH_MOST, NULL), WEIR_OK);
  the_fake.delay_us = 0;
  for (int i = 0; i < WEIR_BATCH_MOST; i++) {
    bool is_late = requests[i].decision.source == WEIR_SOURCE_LATE;
    assert_int_equal(requests[i].decision.allowed, !is_late);
    assert_true(is_late || late == 0); /* in their order */
    late += is_late;
  }
  assert_in_range(late, WEIR_BATCH_MOST - DEADLINE_US / DELAY_US, WEIR_BATCH_MOST);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_rule_decides_a_whole_batch_in_a_few_round_trips),
      cmocka_unit_test(a_log_decides_as_many_as_there_is_time_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

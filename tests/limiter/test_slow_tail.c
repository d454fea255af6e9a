/* A store that never leaves, and answers with a long tail: 4 ms, and an exponential of 8 ms more, where
 * the deadline is 20 ms. Every seventh answer or so is late, and now and then several are in a row. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fixture/proxy.h"
#include "limiter/limiter.h"
#include "random.h"

#include <weir/weir.h>

enum {
  PROCESSES = 2,
  TAKES = 100,
  LEAST_MS = 4,
  TAIL_MS = 8,
  EVERY_US = 25000 /* 40 a second, of 50 */
};

static proxy door;

static int next_delay_ms(uint64_t *random) {
  double chance = (double)(weir_random_next(random) % 1000000 + 1) / 1e6;
  return LEAST_MS + (int)lround(-log(chance) * TAIL_MS);
}

/* Another number of takes is for people: WEIR_SLOW_TAKES. Both stand for a process of its own: one store and limiter each. */
static void those_who_stay_below_the_limit_are_not_denied(void **state) {
  static const char rule[] = "fixed-window:50/1s";
  weir_store *stores[PROCESSES];
  weir_limiter *limiters[PROCESSES];
  weir_message message = {""};
  uint64_t random = 1;
  uint64_t outages = 0;
  int late = 0;
  int denied = 0;
  int by_fallback = 0;
  (void)state;
  struct server *server = server_start_memcached(SERVER_IPV4, NULL);
  proxy_start(&door, server, PROXY_OPEN);
  for (int i = 0; i < PROCESSES; i++) {
    char url[SERVER_URL_BYTES];
    snprintf(url, sizeof url, "memcached://127.0.0.1:%u", (unsigned)address_port(&door.address));
    assert_int_equal(weir_store_open(url, &stores[i], &message), WEIR_OK);
    assert_int_equal(weir_store_connect(stores[i], 10000000, &message), WEIR_OK);
    assert_int_equal(weir_limiter_create(stores[i], rule, NULL, &limiters[i], &message), WEIR_OK);
  }
  const char *takes = getenv("WEIR_SLOW_TAKES");
  int count = takes != NULL ? (int)strtol(takes, NULL, 10) : TAKES;
  int64_t begin_us = weir_monotonic_us();
  for (int i = 0; i < count; i++) {
    weir_decision decision = {0};
    weir_sleep_until(begin_us + i * EVERY_US);
    atomic_store(&door.delay_ms, next_delay_ms(&random));
    weir_limiter *limiter = limiters[weir_random_next(&random) % PROCESSES];
    assert_int_equal(weir_limiter_take(limiter, "k", 1, 1, &decision, &message), WEIR_OK);
    late += decision.source == WEIR_SOURCE_LATE;
    by_fallback += decision.source == WEIR_SOURCE_FALLBACK;
    denied += !decision.allowed;
  }
  for (int i = 0; i < PROCESSES; i++) {
    weir_server_state of = WEIR_SERVER_STATE_INIT;
    weir_store_read_server(stores[i], 0, &of);
    outages += of.outages;
    weir_limiter_destroy(limiters[i]);
    weir_store_close(stores[i]);
  }
  proxy_stop(&door);
  printf("%d takes: %d late, %d by the fallback, %d denied, %d outages\n", count, late, by_fallback,
         denied, (int)outages);
  assert_true(late > count / 20);
  assert_int_equal(outages, 0);
  assert_int_equal(by_fallback, 0);
  assert_int_equal(denied, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(those_who_stay_below_the_limit_are_not_denied),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

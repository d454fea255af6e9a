/* The same requests at the same times, one by one and as a list: every store tells each the same. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/chance.h"
#include "limiter/stores.h"
#include "limiter/world.h"

enum { LISTS = 120, REQUESTS_MOST = 9, KEYS = 2 };

static const char *const all_rules[] = {
    "quota:12/10s;fixed-window:3/1s",
    "quota:5/1s;sliding-window:9/10s,cells=4",
    "token-bucket:4/1s;quota:20/10s",
    "quota:4/1s;leaky-bucket:10/1s,queue=5",
    "quota:9/10s;sliding-log:4/1s",
    "quota:6/3s;quota:14/10s",
    "quota:9/2s;fixed-window:5/3s",
    "quota:7/1s;fixed-window:5/1s;fixed-window:50/1m",
    "fixed-window:7/1s,count=all;sliding-window:30/10s,count=all",
    "sliding-log:4/1s;sliding-window:9/10s",
    "token-bucket:10/10s,burst=4;fixed-window:6/1s;sliding-log:15/10s",
};
enum { RULES = sizeof all_rules / sizeof *all_rules };

/* Close together, or so far apart that windows are over. */
static int64_t step_us(uint32_t *seed) {
  return chance(seed, 10) == 0 ? chance(seed, 12) * SECOND_US : chance(seed, 1500000);
}

/* Answers how many there are. */
static size_t write_list(uint32_t *seed, const char *rules, weir_request requests[REQUESTS_MOST]) {
  static const char *const keys[KEYS] = {"a", "b"};
  size_t count = 2 + chance(seed, REQUESTS_MOST - 1);
  for (size_t i = 0; i < count; i++) {
    uint32_t what = chance(seed, 10);
    requests[i] = (weir_request){.key = keys[chance(seed, KEYS)],
                                 .key_length = 1,
                                 .cost = strstr(rules, "log") != NULL ? 1 : 1 + chance(seed, 3),
                                 .flags = what == 0   ? WEIR_REQUEST_PEEK
                                          : what == 1 ? WEIR_REQUEST_UP_TO
                                                      : 0};
  }
  return count;
}

static void compare(const char *rules, const char *store, int list, size_t number,
                    const weir_request *alone, const weir_request *listed) {
  const weir_decision *a = &alone->decision, *b = &listed->decision;
  if (alone->status == WEIR_OK && listed->status == WEIR_OK && a->allowed == b->allowed &&
      a->rule == b->rule && a->limit == b->limit && a->remaining == b->remaining &&
      a->retry_after_us == b->retry_after_us && a->reset_after_us == b->reset_after_us &&
      a->delay_us == b->delay_us && a->cost == b->cost)
    return;
  fail_msg("%s on %s, list %d, request %zu: allowed %d, remaining %" PRId64 ", retry %" PRId64
           ", reset %" PRId64 "; in the list %d, %" PRId64 ", %" PRId64 ", %" PRId64,
           rules, store, list, number, a->allowed, a->remaining, a->retry_after_us,
           a->reset_after_us, b->allowed, b->remaining, b->retry_after_us, b->reset_after_us);
}

static void run(const char *rules, int store) {
  char url[STORE_URL_BYTES];
  world alone, listed;
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US};
  weir_request requests[2][REQUESTS_MOST];
  uint32_t seed = 7;
  int64_t at_us = 0;
  world_open(&alone, stores_url(store, url), rules, &options);
  world_open(&listed, stores_url(store, url), rules, &options);
  for (int list = 0; list < LISTS; list++) {
    size_t count = write_list(&seed, rules, requests[0]);
    memcpy(requests[1], requests[0], sizeof requests[0]);
    at_us += step_us(&seed);
    world_set(&alone, at_us);
    world_set(&listed, at_us);
    for (size_t i = 0; i < count; i++)
      weir_limiter_decide(alone.limiter, &requests[0][i], 1, NULL);
    weir_limiter_decide(listed.limiter, requests[1], count, NULL);
    for (size_t i = 0; i < count; i++)
      compare(rules, stores[store].name, list, i, &requests[0][i], &requests[1][i]);
  }
  world_close(&alone);
  world_close(&listed);
}

static void a_list_is_told_as_its_requests_alone(void **state) {
  (void)state;
  for (size_t i = 0; i < RULES; i++)
    for (int store = 0; store < STORES; store++)
      run(all_rules[i], store);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_list_is_told_as_its_requests_alone)};
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* How much can a key have beyond its limit in a flood of other keys? Full tables forget something,
 * and it must be what admits least when it is forgotten.
 *
 *     test_attack_forgotten [KEYS]
 *
 * KEYS in each flood: 100000 unless said otherwise, against small tables. From a million on the
 * tables have their default sizes; 10000000 takes half an hour and makes the table of
 * docs/faults.md.
 */
#include "attack/stores.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 50, MOST = 55, VICTIMS_MOST = 1000, FLOOD_STEP_US = 3, SMALL = 1000000 };

/* One flood, and those who hope to be forgotten in it. */
typedef struct attack {
  const char *name;
  const char *rule;
  int64_t cost;     /* of a request of the flood */
  unsigned times;   /* that each of its keys is sent */
  unsigned victims; /* asked one after another */
  unsigned gap;     /* keys of the flood between two requests of a victim */
  bool at_once;     /* a victim takes all it can when its turn comes */
} attack;

static const attack floods[] = {
    {"keys sent once", "fixed-window:50/1d", 1, 1, 1, 100, false},
    {"keys sent twice", "fixed-window:50/1d", 1, 2, 1, 1000, false},
    {"keys sent three times", "fixed-window:50/1d", 1, 3, 1, 1000, false},
    {"cost 49, 10 victims all at once", "fixed-window:50/1d", 49, 1, 10, 3000, true},
    {"cost 50", "fixed-window:50/1d", 50, 1, 1, 1000, false},
    {"keys sent twice, 1000 victims all at once", "fixed-window:50/1d", 1, 2, 1000, 10, true},
    {"keys sent twice, 10 victims all at once", "sliding-window:50/1d", 1, 2, 10, 3000, true},
    {"keys sent twice, 10 victims all at once", "token-bucket:50/1d", 1, 2, 10, 3000, true},
    {"keys sent twice", "quota:50/1d", 1, 2, 1, 1000, false},
    {"keys sent twice, 10 victims all at once", "quota:50/1d", 1, 2, 10, 3000, true},
    {"keys sent twice, 10 victims all at once", "sliding-log:50/1d", 1, 2, 10, 3000, true},
};

static unsigned long keys = 100000;

static bool take(weir_limiter *limiter, char kind, unsigned long number, int64_t cost) {
  char key[32];
  weir_decision decision;
  int length = snprintf(key, sizeof key, "%c%lu", kind, number);
  assert_int_equal(weir_limiter_take(limiter, key, (size_t)length, cost, &decision, NULL), WEIR_OK);
  return decision.allowed;
}

static void send_request(weir_limiter *limiter, const attack *flood, unsigned victim,
                         unsigned *admitted) {
  unsigned tries = flood->at_once ? LIMIT + 1 : 1;
  for (unsigned i = 0; i < tries; i++)
    admitted[victim] += take(limiter, 'v', victim, 1);
}

/* Sends the flood; answers with the most that a victim was admitted. */
static unsigned send(weir_limiter *limiter, const attack *flood, hand_clock *clock) {
  unsigned admitted[VICTIMS_MOST] = {0};
  unsigned most = 0;
  for (unsigned long i = 0; i < keys; i++) {
    if (i % flood->gap == 0)
      send_request(limiter, flood, (unsigned)(i / flood->gap % flood->victims), admitted);
    for (unsigned n = 0; n < flood->times; n++) {
      atomic_fetch_add(&clock->now_us, FLOOD_STEP_US);
      take(limiter, 'f', i, flood->cost);
    }
  }
  for (unsigned victim = 0; victim < flood->victims; victim++) {
    send_request(limiter, flood, victim, admitted);
    if (admitted[victim] > most) most = admitted[victim];
  }
  return most;
}

static void forget(const char *table, const char *url, weir_fallback fallback) {
  for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) {
    hand_clock clock;
    atomic_store(&clock.now_us, START_US);
    weir_limiter_options options = attack_options(&clock);
    options.fallback = fallback;
    options.peers = 1;
    if (keys < SMALL) {
      options.memo_keys = 2048;
      options.local_denial_us = 5000; /* 50 ms are a whole small table of keys */
    }
    weir_store *store = attack_open(url);
    weir_limiter *limiter = attack_limiter(store, floods[i].rule, &options);
    unsigned most = send(limiter, &floods[i], &clock);
    print_message("%s, %s, %s: at most %u of %d\n", table, floods[i].rule, floods[i].name, most,
                  LIMIT);
    assert_in_range(most, LIMIT, MOST);
    weir_limiter_destroy(limiter);
    weir_store_close(store);
  }
}

static void the_store_in_this_process_forgets_what_admits_least(void **state) {
  (void)state;
  forget("memory:", keys < SMALL ? "memory:?keys=10000" : "memory:", WEIR_FALLBACK_NONE);
}

static void the_local_policy_forgets_what_admits_least(void **state) {
  (void)state;
  forget("local policy", "memcached://127.0.0.1:1?probe=60s", WEIR_FALLBACK_LOCAL);
}

int main(int count, char **arguments) {
  if (count > 1) keys = strtoul(arguments[1], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_store_in_this_process_forgets_what_admits_least),
      cmocka_unit_test(the_local_policy_forgets_what_admits_least),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

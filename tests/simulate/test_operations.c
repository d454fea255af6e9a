/* How many operations and round trips windows cost, of one process and of several that share their
 * keys: counted, so that a change is seen. The decisions are the same as where every cell is read
 * each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "simulate/driver.h"
#include "simulate/generator.h"

enum { KEYS = 100 };

typedef struct cost {
  const char *rule, *traffic;
  int processes;
  uint64_t operations, trips;
} cost;

/* Behind each: how many operations there are where no cell is firm; trips are the same. */
static const cost costs[] = {
    {"sliding-window:100/1m", "poisson:requests=20000,load=50", 1, 20652, 20000},   /* 30939 */
    {"sliding-window:100/1m", "poisson:requests=20000,load=50", 8, 23528, 20000},   /* 38140 */
    {"sliding-window:100/1m", "poisson:requests=20000,load=50", 64, 34028, 20000},  /* 39776 */
    {"sliding-window:100/1m", "bursts:requests=20000,load=200", 1, 16506, 15111},   /* 16596 */
    {"sliding-window:100/1m", "bursts:requests=20000,load=200", 8, 26345, 20009},   /* 27720 */
    {"sliding-window:100/1m", "bursts:requests=20000,load=200", 64, 38275, 23113},  /* 39837 */
    {"sliding-window:1000/1m", "poisson:requests=20000,load=10", 1, 20900, 20000},  /* 35065 */
    {"sliding-window:1000/1m", "poisson:requests=20000,load=10", 8, 24665, 20000},  /* 53099 */
    {"sliding-window:1000/1m", "poisson:requests=20000,load=10", 64, 42545, 20000}, /* 59035 */
    {"sliding-window:100/1m,cells=16", "poisson:requests=20000,load=50", 1, 22972,
     20000}, /* 63785 */
    {"sliding-window:100/1m,cells=16", "poisson:requests=20000,load=50", 8, 36104,
     20000}, /* 92566 */
    {"sliding-window:100/1m,cells=16", "poisson:requests=20000,load=50", 64, 77656,
     20000}, /* 99116 */
};

/* All keys of all processes; those of one key share what the store holds. */
static weir_driven_key *add_keys(const weir_driver *driver, int processes) {
  weir_driven_key *keys = calloc((size_t)KEYS * (size_t)processes, sizeof *keys);
  assert_non_null(keys);
  for (int i = 0; i < KEYS * processes; i++) {
    assert_true(weir_driver_add_key(driver, &keys[i]));
    if (i % processes == 0) continue;
    free(keys[i].places);
    keys[i].places = keys[i - i % processes].places;
  }
  return keys;
}

static void remove_keys(const weir_driver *driver, weir_driven_key *keys, int processes) {
  for (int i = 0; i < KEYS * processes; i++) {
    if (i % processes != 0) keys[i].places = NULL;
    weir_driver_remove_key(driver, &keys[i]);
  }
  free(keys);
}

/* The requests of a key go to one process after another, at random. A hash of all that is decided. */
static uint64_t run(const cost *c, unsigned flags, uint64_t *operations, uint64_t *trips) {
  weir_driver driver;
  weir_message message;
  weir_limiter_options options = {.flags = flags};
  assert_int_equal(weir_driver_init(&driver, c->rule, &options, &message), WEIR_OK);
  weir_driven_key *keys = add_keys(&driver, c->processes);
  weir_generator *generator = weir_generator_create(c->traffic, &driver.stack, &message);
  assert_non_null(generator);
  uint64_t hash = 0, chance = 1;
  weir_arrival arrival;
  while (weir_generator_next(generator, &arrival)) {
    int key = 0;
    for (size_t i = 0; i < arrival.key_length; i++)
      if (arrival.key[i] >= '0' && arrival.key[i] <= '9') key = key * 10 + (arrival.key[i] - '0');
    chance = chance * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    int process = (int)((chance >> 33) % (uint64_t)c->processes);
    weir_claim request = {.ask = {.kind = WEIR_TAKE, .cost = 1}};
    assert_int_equal(weir_driver_decide(&driver, &keys[key % KEYS * c->processes + process],
                                        arrival.time_us, &request, &message),
                     WEIR_OK);
    const weir_decision *d = &request.verdict.decision;
    const int64_t said[] = {d->allowed, d->remaining, d->retry_after_us, d->reset_after_us};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
      hash = (hash ^ (uint64_t)said[i]) * UINT64_C(1099511628211);
  }
  *operations = driver.operations;
  *trips = driver.rounds;
  weir_generator_destroy(generator);
  remove_keys(&driver, keys, c->processes);
  weir_driver_clean_up(&driver);
  return hash;
}

static void operations_are_as_many_as_ever(void **state) {
  (void)state;
  bool same = true;
  for (const cost *c = costs; c < costs + sizeof costs / sizeof *costs; c++) {
    uint64_t operations, trips, all, ignored;
    uint64_t decided = run(c, 0, &operations, &trips);
    assert_true(decided == run(c, WEIR_NO_CACHED_CELLS, &all, &ignored));
    assert_true(operations <= all);
    if (operations == c->operations && trips == c->trips) continue;
    print_error("    {\"%s\", \"%s\", %d, %d, %d},\n", c->rule, c->traffic, c->processes,
                (int)operations, (int)trips);
    same = false;
  }
  assert_true(same);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(operations_are_as_many_as_ever)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

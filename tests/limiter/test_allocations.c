/* No decision allocates once the limiter is warm. The linker sends every call that the library and
 * this test make to the wrappers below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "limiter/outage.h"
#include "limiter/world.h"

static _Atomic int allocations;

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  atomic_fetch_add(&allocations, 1);
  return __real_aligned_alloc(alignment, size);
}

/* NOLINTEND(bugprone-reserved-identifier) */

static void wrappers_are_in_place(void **state) {
  weir_store *store;
  (void)state;
  int before = allocations;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  weir_store_close(store);
  assert_true(allocations > before);
}

/* Admitted, denied by its own charge, denied locally, peeked, in batches; in one window. */
static void decide_in_every_way(world *w, int64_t *after_start_us) {
  weir_request requests[] = {{.key = "k", .key_length = 1, .cost = 1},
                             {.key = "other", .key_length = 5, .cost = 1},
                             {.key = "k", .key_length = 1, .cost = 2}};
  for (int i = 0; i < 30; i++) {
    world_set(w, *after_start_us += 20000);
    world_take(w, "k", 1);
    world_take(w, "k", 11);
    world_peek(w, "k", 3);
    assert_int_equal(weir_limiter_decide(w->limiter, requests, 3, NULL), WEIR_OK);
  }
}

static void no_decision_allocates(void **state) {
  static const char *const rules[] = {"fixed-window:10/1h", "sliding-window:10/1h",
                                      "sliding-window:10/1h,cells=64,count=all",
                                      "sliding-window:10/1h;fixed-window:7/1d"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    int64_t after_start_us = 0;
    weir_limiter_options options = {.deadline_us = 30 * SECOND_US};
    world_open(&w, *state, rules[i], &options);
    decide_in_every_way(&w, &after_start_us);
    int before = allocations;
    decide_in_every_way(&w, &after_start_us);
    int during = allocations - before;
    print_message("%s: %d allocations in 120 calls\n", rules[i], during);
    assert_int_equal(during, 0);
    world_close(&w);
  }
}

/* Two limiters in one call, in every order and number; half of it until each has denied each key. */
static void no_call_of_several_limiters_allocates(void **state) {
  world w;
  const weir_limiter_options options = {.deadline_us = 30 * SECOND_US};
  weir_request requests[] = {{.key = "k", .key_length = 1, .cost = 1},
                             {.key = "l", .key_length = 1, .cost = 1},
                             {.key = "m", .key_length = 1, .cost = 1},
                             {.key = "n", .key_length = 1, .cost = 1}};
  int before = 0;
  world_open(&w, *state, "sliding-window:10/1h", &options);
  weir_limiter *other = world_limiter(&w, "fixed-window:10/1h;token-bucket:9/1h", &options);
  weir_limiter *limiters[] = {w.limiter, other, other, w.limiter, other, w.limiter, w.limiter};
  for (int i = 0; i < 120; i++) {
    if (i == 60) before = allocations;
    world_set(&w, i * 20000);
    for (size_t count = 4; count > 0; count--)
      assert_int_equal(weir_decide_together(limiters + i % 4, requests, count, NULL), WEIR_OK);
  }
  assert_int_equal(allocations - before, 0);
  weir_limiter_destroy(other);
  world_close(&w);
}

/* Granted, used, held for more than there is, given back, also for another key; in one window. */
static void lease_in_every_way(world *w, int64_t *after_start_us) {
  for (int i = 0; i < 30; i++) {
    world_set(w, *after_start_us += 30000);
    for (int n = 0; n < 50; n++)
      world_take(w, "k", 1);
    world_take(w, "k", 90);
    for (int n = 0; n < 50; n++)
      world_take(w, "other", 1);
    assert_int_equal(weir_limiter_return_leases(w->limiter, NULL), WEIR_OK);
  }
}

static void no_lease_allocates(void **state) {
  static const char *const rules[] = {
      "fixed-window:100000/1h,lease=20ms", "sliding-window:100000/1h,lease=20ms",
      "quota:100000/1h,lease=20ms", "token-bucket:100000/1s,lease=20ms",
      "sliding-window:100000/1h,lease=20ms;token-bucket:100000/1s,lease=20ms"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    world w;
    int64_t after_start_us = 0;
    weir_limiter_options options = {.deadline_us = 30 * SECOND_US, .processes = 1};
    weir_limiter_counts counts = {.size = sizeof counts};
    world_open(&w, *state, rules[i], &options);
    lease_in_every_way(&w, &after_start_us);
    int before = allocations;
    lease_in_every_way(&w, &after_start_us);
    int during = allocations - before;
    weir_limiter_read_counts(w.limiter, &counts);
    print_message("%s: %d allocations in 3060 calls, %llu leased\n", rules[i], during,
                  (unsigned long long)counts.leased);
    assert_int_equal(during, 0);
    assert_true(counts.lease_used > 1000);
    world_close(&w);
  }
}

/* The answers of every policy while the server is away, and after it. */
static void no_fallback_allocates(void **state) {
  (void)state;
  for (weir_fallback fallback = 0; fallback < WEIR_FALLBACK_NONE; fallback++) {
    outage o;
    outage_start(&o, OUTAGE_META, 1);
    outage_open(&o, "sliding-window:1000/1h;fixed-window:700/1d", fallback, 0);
    outage_take(&o, "k", 1);
    outage_kill(&o, 0);
    weir_request requests[] = {{.key = "k", .key_length = 1, .cost = 1},
                               {.key = "other", .key_length = 5, .cost = 1},
                               {.key = "k", .key_length = 1, .cost = 2}};
    int before = 0;
    for (int i = 0; i < 60; i++) {
      if (i == 30) before = allocations;
      assert_int_equal(outage_take(&o, "k", 1).source, WEIR_SOURCE_FALLBACK);
      assert_int_equal(weir_limiter_decide(o.limiter, requests, 3, NULL), WEIR_OK);
      assert_int_equal(outage_counts(o.limiter).by_fallback, 4 * (i + 1));
    }
    int during = allocations - before;
    print_message("policy %u: %d allocations in 60 calls\n", fallback, during);
    assert_int_equal(during, 0);
    outage_close(&o);
  }
}

int main(void) {
  char memory[] = "memory:";
  char *meta = getenv("WEIR_TEST_MEMCACHED_META");
  char *classic = getenv("WEIR_TEST_MEMCACHED_CLASSIC");
  if (meta == NULL || classic == NULL) {
    fputs("run this with with_servers\n", stderr);
    return 1;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrappers_are_in_place),
      {"no_decision_allocates on memory", no_decision_allocates, NULL, NULL, memory},
      {"no_decision_allocates on memcached, meta", no_decision_allocates, NULL, NULL, meta},
      {"no_decision_allocates on memcached, classic", no_decision_allocates, NULL, NULL, classic},
      {"no_call_of_several_limiters_allocates on memory", no_call_of_several_limiters_allocates,
       NULL, NULL, memory},
      {"no_call_of_several_limiters_allocates on memcached", no_call_of_several_limiters_allocates,
       NULL, NULL, meta},
      {"no_lease_allocates on memory", no_lease_allocates, NULL, NULL, memory},
      {"no_lease_allocates on memcached, meta", no_lease_allocates, NULL, NULL, meta},
      {"no_lease_allocates on memcached, classic", no_lease_allocates, NULL, NULL, classic},
      cmocka_unit_test(no_fallback_allocates),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

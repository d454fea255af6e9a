/* A limiter's counts are exactly what was done. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/outage.h"
#include "limiter/world.h"

enum { THREADS = 40, ROUNDS = 60, BATCH = 5, EMPTY_KEYS = 40000 };

/* The deeds of one thread, by what it was told. */
typedef struct tally {
  weir_limiter *limiter;
  weir_limiter_counts seen;
} tally;

/* One request to take is over. */
static void decided(tally *t, weir_status status, const weir_decision *decision) {
  uint64_t *by[] = {&t->seen.by_store, &t->seen.by_local, &t->seen.by_fallback};
  if (status != WEIR_OK) {
    t->seen.statuses[status]++;
    return;
  }
  t->seen.statuses[decision->store_status]++;
  (*by[decision->source])++;
  if (decision->allowed)
    t->seen.allowed++;
  else
    t->seen.denied++;
}

/* One of the others. */
static void answered(tally *t, weir_status status) {
  t->seen.statuses[status]++;
}

static void decide_batch(tally *t, const char *key, int64_t cost) {
  weir_request requests[BATCH];
  for (int i = 0; i < BATCH; i++)
    requests[i] = (weir_request){.key = key, .key_length = strlen(key), .cost = cost + i};
  requests[1].flags = WEIR_REQUEST_PEEK;
  requests[2].cost = 0;
  requests[3].key_length = 0;
  weir_limiter_decide(t->limiter, requests, BATCH, NULL);
  for (int i = 0; i < BATCH; i++) {
    if (i == 1)
      answered(t, requests[i].status);
    else
      decided(t, requests[i].status, &requests[i].decision);
  }
}

static void reserve_and_cancel(tally *t, const char *key) {
  weir_reservation *reservation;
  weir_request request = {.key = key, .key_length = strlen(key), .cost = 2};
  decided(t, weir_limiter_reserve(t->limiter, &request, &reservation, NULL), &request.decision);
  if (reservation == NULL) return;
  answered(t, weir_reservation_cancel(reservation, NULL));
  answered(t, weir_reservation_cancel(reservation, NULL));
  weir_reservation_destroy(reservation);
}

static void do_everything(tally *t, const char *key) {
  size_t length = strlen(key);
  weir_decision decision;
  weir_status status = weir_limiter_take(t->limiter, key, length, 1, &decision, NULL);
  decided(t, status, &decision);
  if (status == WEIR_OK && decision.allowed)
    answered(t, weir_limiter_refund(t->limiter, key, length, 1, &decision, NULL));
  decided(t, weir_limiter_take_up_to(t->limiter, key, length, 3, &decision, NULL), &decision);
  decided(t, weir_limiter_take(t->limiter, key, length, 1000, &decision, NULL), &decision);
  decided(t, weir_limiter_take(t->limiter, key, 0, 1, &decision, NULL), &decision);
  decided(t, weir_limiter_wait(t->limiter, key, length, 1, 0, &decision, NULL), &decision);
  answered(t, weir_limiter_peek(t->limiter, key, length, 1, &decision, NULL));
  decide_batch(t, key, 1);
  reserve_and_cancel(t, key);
  if (key[0] == 'r') answered(t, weir_limiter_reset(t->limiter, key, length, NULL));
}

/* So many that no ring has them all on one server of three. */
static void *do_everything_often(void *context) {
  static const char *const keys[] = {
      "a", "b", "reset", "long key number four", "c", "d", "e", "f", "g", "h", "i", "j", "k",
      "l", "m", "n"};
  tally *t = context;
  for (size_t i = 0; i < ROUNDS; i++)
    do_everything(t, keys[i % (sizeof keys / sizeof keys[0])]);
  return NULL;
}

static void add(weir_limiter_counts *sum, const weir_limiter_counts *more) {
  sum->by_store += more->by_store;
  sum->by_local += more->by_local;
  sum->by_fallback += more->by_fallback;
  sum->allowed += more->allowed;
  sum->denied += more->denied;
  for (int i = 0; i < WEIR_STATUSES_MOST; i++)
    sum->statuses[i] += more->statuses[i];
}

/* More threads than there are places to count in. */
static void assert_all_is_counted(weir_limiter *limiter) {
  pthread_t threads[THREADS];
  tally tallies[THREADS];
  weir_limiter_counts sum = {.size = sizeof sum};
  for (int i = 0; i < THREADS; i++) {
    tallies[i] = (tally){.limiter = limiter};
    assert_int_equal(pthread_create(&threads[i], NULL, do_everything_often, &tallies[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    add(&sum, &tallies[i].seen);
  }
  weir_limiter_counts counts = outage_counts(limiter);
  sum.keys_lost = counts.keys_lost; /* the resets of some are losses to others */
  sum.round_trips = counts.round_trips;
  sum.waited_us = counts.waited_us;
  sum.owed = counts.owed; /* see what_is_owed_is_paid_or_not */
  sum.paid = counts.paid;
  sum.unpaid = counts.unpaid;
  sum.share = counts.share;
  memcpy(sum.waits, counts.waits, sizeof sum.waits);
  assert_memory_equal(&counts, &sum, sizeof sum);
  assert_int_equal(counts.by_store + counts.by_local + counts.by_fallback,
                   counts.allowed + counts.denied);
}

static void every_request_of_every_thread_is_counted_once(void **state) {
  (void)state;
  outage o = {.url = "memory:", .clock = {START_US}};
  outage_open(&o, "fixed-window:200/1h;token-bucket:300/1m", WEIR_FALLBACK_LOCAL, 0);
  assert_all_is_counted(o.limiter);
  assert_int_equal(outage_counts(o.limiter).by_fallback, 0);
  outage_close(&o);
}

static void so_is_every_one_that_a_policy_answered(void **state) {
  (void)state;
  for (weir_fallback fallback = 0; fallback <= WEIR_FALLBACK_NONE; fallback++) {
    outage o;
    outage_start(&o, OUTAGE_META, OUTAGE_SERVERS);
    outage_open(&o, "fixed-window:200/1h", fallback, 0);
    server_kill(o.servers[0]);
    server_kill(o.servers[2]);
    assert_all_is_counted(o.limiter);
    weir_limiter_counts counts = outage_counts(o.limiter);
    assert_int_equal(counts.by_fallback > 0, fallback != WEIR_FALLBACK_NONE);
    assert_true(counts.statuses[WEIR_UNAVAILABLE] > 0);
    outage_close(&o);
  }
}

static void *ask_for_nothing(void *limiter) {
  weir_decision decision;
  for (int i = 0; i < EMPTY_KEYS; i++)
    weir_limiter_take(limiter, "", 0, 1, &decision, NULL);
  return NULL;
}

/* Nothing but counting: two that add at the same moment must both be heard. */
static void a_crowd_that_only_counts_is_counted(void **state) {
  (void)state;
  outage o = {.url = "memory:", .clock = {START_US}};
  pthread_t threads[THREADS];
  outage_open(&o, "fixed-window:1/1h", WEIR_FALLBACK_LOCAL, 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, ask_for_nothing, o.limiter), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(outage_counts(o.limiter).statuses[WEIR_BAD_KEY], THREADS * EMPTY_KEYS);
  outage_close(&o);
}

static void a_wait_is_counted_once(void **state) {
  (void)state;
  outage o = {.url = "memory:"};
  weir_decision decision;
  outage_open_real(&o, "fixed-window:1/1s", WEIR_FALLBACK_LOCAL, 0);
  for (int i = 0; i < 3; i++)
    assert_int_equal(weir_limiter_wait(o.limiter, "k", 1, 1, 60 * SECOND_US, &decision, NULL),
                     WEIR_OK);
  assert_int_equal(outage_counts(o.limiter).allowed, 3);
  assert_int_equal(outage_counts(o.limiter).denied, 0);
  assert_int_equal(outage_counts(o.limiter).statuses[WEIR_OK], 3);
  outage_close(&o);
}

/* By two rules, so each cost is two. */
static void what_is_owed_is_paid_or_not(void **state) {
  (void)state;
  for (int late = 0; late < 2; late++) {
    outage o;
    uint64_t owed = 0;
    outage_start(&o, OUTAGE_META, 1);
    outage_open(&o, "fixed-window:200/1m;quota:300/1m", WEIR_FALLBACK_LOCAL, 0);
    assert_int_equal(outage_counts(o.limiter).share, 1000000 / OUTAGE_PEERS);
    outage_take(&o, "k", 1);
    outage_kill(&o, 0);
    for (int i = 0; i < 10; i++)
      owed += 2 * outage_take(&o, "k", 1).allowed;
    weir_limiter_counts counts = outage_counts(o.limiter);
    assert_int_equal(counts.owed, owed);
    assert_int_equal(counts.paid, 0);
    assert_int_equal(counts.unpaid, 0);
    server_restart(o.servers[0]);
    if (late) o.clock.now_us += 120 * SECOND_US;
    int64_t end_us = weir_monotonic_us() + 60 * SECOND_US;
    while (outage_take(&o, "k", 1).store_status != WEIR_OK && weir_monotonic_us() < end_us)
      continue;
    counts = outage_counts(o.limiter);
    assert_true(owed > 0 && counts.owed >= owed);
    assert_int_equal(counts.paid, counts.owed - counts.unpaid);
    assert_int_equal(counts.unpaid, late ? owed : 0);
    outage_close(&o);
  }
}

static void a_clock_that_is_set_back_is_counted(void **state) {
  (void)state;
  outage o = {.url = "memory:", .clock = {START_US}};
  outage_open(&o, "fixed-window:9/1m", WEIR_FALLBACK_LOCAL, 0);
  outage_take(&o, "k", 1);
  o.clock.now_us -= SECOND_US / 2; /* held back */
  outage_take(&o, "k", 1);
  assert_int_equal(outage_counts(o.limiter).clock_steps, 0);
  o.clock.now_us -= 3600 * SECOND_US;
  outage_take(&o, "k", 1);
  assert_int_equal(outage_counts(o.limiter).clock_steps, 1);
  outage_close(&o);
}

/* An older program's structure is shorter, a newer one's is longer. */
static void only_what_fits_is_written(void **state) {
  (void)state;
  outage o = {.url = "memory:", .clock = {START_US}};
  struct {
    weir_limiter_counts counts;
    unsigned char beyond[16];
  } longer;
  outage_open(&o, "fixed-window:1/1m", WEIR_FALLBACK_LOCAL, 0);
  outage_take(&o, "k", 1);
  outage_take(&o, "k", 1);
  memset(&longer, 0x55, sizeof longer);
  longer.counts.size = offsetof(weir_limiter_counts, denied);
  weir_limiter_read_counts(o.limiter, &longer.counts);
  assert_int_equal(longer.counts.size, offsetof(weir_limiter_counts, denied));
  assert_int_equal(longer.counts.allowed, 1);
  assert_int_equal(longer.counts.denied, UINT64_C(0x5555555555555555));
  longer.counts.size = sizeof longer;
  weir_limiter_read_counts(o.limiter, &longer.counts);
  assert_int_equal(longer.counts.size, sizeof longer);
  assert_int_equal(longer.counts.denied, 1);
  for (size_t i = 0; i < sizeof longer.beyond; i++)
    assert_int_equal(longer.beyond[i], 0);
  outage_close(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_request_of_every_thread_is_counted_once),
      cmocka_unit_test(so_is_every_one_that_a_policy_answered),
      cmocka_unit_test(a_crowd_that_only_counts_is_counted),
      cmocka_unit_test(a_wait_is_counted_once),
      cmocka_unit_test(what_is_owed_is_paid_or_not),
      cmocka_unit_test(a_clock_that_is_set_back_is_counted),
      cmocka_unit_test(only_what_fits_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* weir_decide_together: requests of several limiters in one call. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/chance.h"
#include "fixture/fake.h"
#include "limiter/leases.h"
#include "limiter/stores.h"
#include "limiter/world.h"

enum { LIMITERS = 8 };

static weir_request request(const char *key, int64_t cost) {
  return (weir_request){.key = key, .key_length = strlen(key), .cost = cost};
}

static int64_t admitted_of(const weir_request *requests, size_t count) {
  int64_t admitted = 0;
  for (size_t i = 0; i < count; i++)
    admitted += requests[i].decision.allowed;
  return admitted;
}

/* --- the same decisions ------------------------------------------------------------------------
 */

enum { KINDS = 5, STEPS = 300, BATCH_MOST = 24 };

static const char *const kinds[KINDS] = {
    "sliding-window:9/1m", "token-bucket:7/1s,burst=9", "sliding-log:6/1m",
    "fixed-window:12/1m;token-bucket:30/1m", "quota:8/1m,lease=10ms"};

/* One by one they are decided by a twin of each limiter, with counts of its own. */
static void assert_same(const weir_request *together, weir_limiter *twin) {
  weir_request alone = *together;
  weir_status status = weir_limiter_decide(twin, &alone, 1, NULL);
  assert_int_equal(together->status, status);
  if (status != WEIR_OK) return;
  assert_int_equal(together->decision.allowed, alone.decision.allowed);
  assert_int_equal(together->decision.rule, alone.decision.rule);
  assert_int_equal(together->decision.limit, alone.decision.limit);
  assert_int_equal(together->decision.remaining, alone.decision.remaining);
  assert_int_equal(together->decision.retry_after_us, alone.decision.retry_after_us);
  assert_int_equal(together->decision.reset_after_us, alone.decision.reset_after_us);
  assert_int_equal(together->decision.delay_us, alone.decision.delay_us);
  assert_int_equal(together->decision.cost, alone.decision.cost);
}

/* Each is counted once, by what it was. */
static void assert_counted(const weir_limiter *limiter, const weir_limiter *twin) {
  weir_limiter_counts one = WEIR_LIMITER_COUNTS_INIT, other = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(limiter, &one);
  weir_limiter_read_counts(twin, &other);
  assert_int_equal(one.allowed, other.allowed);
  assert_int_equal(one.denied, other.denied);
  assert_int_equal(one.by_store + one.by_local, other.by_store + other.by_local);
  assert_memory_equal(one.statuses, other.statuses, sizeof one.statuses);
  assert_in_range(one.statuses[WEIR_BAD_COST], 1, UINT64_MAX);
}

static void decides_as_one_by_one(void **state) {
  static const char *const keys[] = {"a", "b", "c"};
  int store = *(int *)*state;
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 30 * SECOND_US, .flags = WEIR_NO_LEASES};
  world w, alone;
  weir_limiter *limiters[KINDS], *twins[KINDS];
  uint32_t seed = 5;
  int64_t at_us = 0;
  world_open(&w, stores_url(store, url), kinds[0], &options);
  world_open(&alone, stores_url(store, url), kinds[0], &options);
  for (int i = 0; i < KINDS; i++) {
    limiters[i] = world_limiter(&w, kinds[i], &options);
    twins[i] = world_limiter(&alone, kinds[i], &options);
  }
  for (int step = 0; step < STEPS; step++) {
    weir_limiter *of[BATCH_MOST], *twin_of[BATCH_MOST];
    weir_request requests[BATCH_MOST];
    size_t count = 1 + chance(&seed, BATCH_MOST), bad = BATCH_MOST;
    char first[32];
    world_set(&w, at_us += chance(&seed, 2000000));
    world_set(&alone, at_us);
    for (size_t i = 0; i < count; i++) {
      size_t kind = chance(&seed, KINDS);
      of[i] = limiters[kind];
      twin_of[i] = twins[kind];
      requests[i] = request(keys[chance(&seed, 3)], kind == 2 ? 1 : 1 + chance(&seed, 3));
      if (chance(&seed, 6) == 0) requests[i].flags = WEIR_REQUEST_PEEK;
      if (chance(&seed, 20) > 0) continue;
      requests[i].cost = 0;
      if (bad == BATCH_MOST) bad = i;
    }
    weir_message why = {""};
    assert_int_equal(weir_decide_together(of, requests, count, &why),
                     bad < BATCH_MOST ? WEIR_BAD_COST : WEIR_OK);
    snprintf(first, sizeof first, "requests[%zu]: ", bad);
    if (bad < BATCH_MOST && count > 1) assert_memory_equal(why.text, first, strlen(first));
    for (size_t i = 0; i < count; i++)
      assert_same(&requests[i], twin_of[i]);
  }
  for (int i = 0; i < KINDS; i++) {
    assert_counted(limiters[i], twins[i]);
    weir_limiter_destroy(limiters[i]);
    weir_limiter_destroy(twins[i]);
  }
  world_close(&w);
  world_close(&alone);
}

/* --- round trips -------------------------------------------------------------------------------
 */

typedef struct several {
  world w;
  weir_limiter *limiters[LIMITERS];
  weir_request requests[LIMITERS];
} several;

/* "k" under as many limiters of one store, each with counts of its own. */
static void open_several(several *s, const char *rule, const weir_limiter_options *options) {
  world_open_backend(&s->w, &fake_backend, "fake:", "fixed-window:1/1h", NULL);
  for (int i = 0; i < LIMITERS; i++) {
    char named[64];
    snprintf(named, sizeof named, "%s,name=%d", rule, i);
    s->limiters[i] = world_limiter(&s->w, named, options);
    s->requests[i] = request("k", 1);
  }
  world_set(&s->w, 5 * SECOND_US);
  fake_forget();
}

static void close_several(several *s) {
  for (int i = 0; i < LIMITERS; i++)
    weir_limiter_destroy(s->limiters[i]);
  world_close(&s->w);
}

static void eight_limiters_need_one_round_trip(void **state) {
  several s;
  (void)state;
  open_several(&s, "sliding-window:9/1m", NULL);
  assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, NULL), WEIR_OK);
  assert_int_equal(the_fake.counts.round_trips, 1);
  assert_int_equal(the_fake.counts.commands, 2 * LIMITERS);
  assert_int_equal(admitted_of(s.requests, LIMITERS), LIMITERS);
  for (int i = 0; i < LIMITERS; i++) {
    weir_limiter_counts counts = {.size = sizeof counts};
    weir_limiter_read_counts(s.limiters[i], &counts);
    assert_int_equal(counts.round_trips, 1);
    assert_int_equal(counts.allowed, 1);
    assert_int_equal(counts.by_store, 1);
  }
  close_several(&s);
}

/* Some give back, which leaves with what others charge: as many rounds as the slowest needs. */
static void rounds_of_several_limiters_are_shared(void **state) {
  several s;
  (void)state;
  open_several(&s, "fixed-window:2/1m", NULL);
  for (int i = 0; i < LIMITERS; i += 2)
    s.requests[i].cost = 2;
  assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, NULL), WEIR_OK);
  for (int i = 0; i < LIMITERS; i++)
    s.requests[i].cost = 1;
  fake_forget();
  assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, NULL), WEIR_OK);
  assert_int_equal(the_fake.counts.round_trips, 2);
  assert_int_equal(the_fake.counts.of_kind[WEIR_SUB], LIMITERS / 2);
  for (int i = 0; i < LIMITERS; i++)
    assert_int_equal(s.requests[i].decision.allowed, i % 2);
  close_several(&s);
}

static void what_is_known_needs_none(void **state) {
  several s;
  (void)state;
  open_several(&s, "fixed-window:1/1m", NULL);
  for (int n = 0; n < 2; n++)
    assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, NULL), WEIR_OK);
  fake_forget();
  assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, NULL), WEIR_OK);
  assert_int_equal(the_fake.counts.round_trips, 0);
  assert_int_equal(admitted_of(s.requests, LIMITERS), 0);
  close_several(&s);
}

/* Each is held to its own: those who differ leave apart. */
static void deadlines_of_their_own_need_round_trips_of_their_own(void **state) {
  several s;
  const weir_limiter_options longer = {.deadline_us = 2 * WORLD_DEADLINE_US};
  (void)state;
  open_several(&s, "fixed-window:9/1m", NULL);
  weir_limiter *patient = world_limiter(&s.w, "fixed-window:9/1m,name=patient", &longer);
  weir_limiter *of[] = {s.limiters[0], patient, s.limiters[1], patient};
  weir_request requests[] = {request("k", 1), request("k", 1), request("k", 1), request("l", 1)};
  assert_int_equal(weir_decide_together(of, requests, 4, NULL), WEIR_OK);
  assert_int_equal(the_fake.counts.round_trips, 2);
  assert_int_equal(admitted_of(requests, 4), 4);
  weir_limiter_destroy(patient);
  close_several(&s);
}

/* --- keys and stores ---------------------------------------------------------------------------
 */

static void a_key_that_comes_twice_is_decided_in_order(void **state) {
  several s;
  (void)state;
  open_several(&s, "fixed-window:5/1m", NULL);
  weir_limiter *of[] = {s.limiters[0], s.limiters[1], s.limiters[0], s.limiters[1], s.limiters[0]};
  weir_request requests[] = {request("k", 2), request("k", 1), request("k", 2), request("k", 1),
                             request("k", 2)};
  assert_int_equal(weir_decide_together(of, requests, 5, NULL), WEIR_OK);
  assert_int_equal(requests[0].decision.remaining, 3);
  assert_int_equal(requests[1].decision.remaining, 4);
  assert_int_equal(requests[2].decision.remaining, 1);
  assert_int_equal(requests[3].decision.remaining, 3);
  assert_false(requests[4].decision.allowed);
  close_several(&s);
}

/* Two limiters with one rule count together, also within one call. */
static void limiters_that_share_counts_share_them(void **state) {
  world w;
  weir_request requests[40];
  weir_limiter *of[40];
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:10/1m", NULL);
  weir_limiter *other = world_limiter(&w, "fixed-window:10/1m", NULL);
  for (int i = 0; i < 40; i++) {
    of[i] = i % 2 ? other : w.limiter;
    requests[i] = request("k", 1);
  }
  for (int from = 0; from < 40; from += 4)
    assert_int_equal(weir_decide_together(of + from, requests + from, 4, NULL), WEIR_OK);
  assert_int_equal(admitted_of(requests, 40), 10);
  weir_limiter_destroy(other);
  world_close(&w);
}

static void stores_are_decided_one_after_another(void **state) {
  several s;
  world memory;
  (void)state;
  open_several(&s, "fixed-window:3/1m", NULL);
  world_open(&memory, "memory:", "fixed-window:2/1m", NULL);
  weir_limiter *of[] = {memory.limiter, s.limiters[0],  memory.limiter,
                        s.limiters[1],  memory.limiter, s.limiters[0]};
  weir_request requests[6];
  for (int i = 0; i < 6; i++)
    requests[i] = request("k", 1);
  assert_int_equal(weir_decide_together(of, requests, 6, NULL), WEIR_OK);
  assert_int_equal(the_fake.counts.round_trips, 1);
  for (int i = 0; i < 6; i++)
    assert_int_equal(requests[i].decision.allowed, i != 4);
  world_close(&memory);
  close_several(&s);
}

static void as_many_limiters_as_requests(void **state) {
  static weir_limiter *of[WEIR_BATCH_MOST];
  static weir_request requests[WEIR_BATCH_MOST];
  const weir_limiter_options options = {.deadline_us = 30 * SECOND_US, .memo_keys = 1};
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:1/1h", &options);
  for (int i = 0; i < WEIR_BATCH_MOST; i++) {
    char rule[64];
    snprintf(rule, sizeof rule, "fixed-window:%d/1m,name=n%d", 2 + i, i);
    of[i] = world_limiter(&w, rule, &options);
    requests[i] = request("k", 1);
  }
  fake_forget();
  assert_int_equal(weir_decide_together(of, requests, WEIR_BATCH_MOST, NULL), WEIR_OK);
  assert_int_equal(the_fake.counts.round_trips, 1);
  for (int i = 0; i < WEIR_BATCH_MOST; i++) {
    assert_int_equal(requests[i].decision.remaining, 1 + i);
    weir_limiter_destroy(of[i]);
  }
  world_close(&w);
}

/* --- what goes wrong ---------------------------------------------------------------------------
 */

static void refuses_what_is_no_list_of_limiters(void **state) {
  several s;
  weir_message why;
  (void)state;
  open_several(&s, "fixed-window:9/1m", NULL);
  assert_int_equal(weir_decide_together(s.limiters, s.requests, 0, &why), WEIR_BAD_ARGUMENT);
  assert_string_equal(why.text, "a batch of 0 requests: accepted are 1 to 1024");
  assert_int_equal(weir_decide_together(s.limiters, s.requests, 1025, &why), WEIR_BAD_ARGUMENT);
  weir_limiter *of[] = {s.limiters[0], s.limiters[1], NULL};
  s.requests[0].status = WEIR_CONTENDED;
  assert_int_equal(weir_decide_together(of, s.requests, 3, &why), WEIR_BAD_ARGUMENT);
  assert_string_equal(why.text, "limiters[2] is NULL: accepted are limiters");
  assert_int_equal(s.requests[0].status, WEIR_CONTENDED);
  assert_int_equal(the_fake.counts.round_trips, 0);
  close_several(&s);
}

static void bad_requests_fail_alone(void **state) {
  several s;
  weir_message why;
  (void)state;
  open_several(&s, "fixed-window:9/1m", NULL);
  s.requests[5].cost = 0;
  s.requests[6].key_length = 0;
  assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, &why), WEIR_BAD_COST);
  assert_string_equal(why.text, "requests[5]: cost 0 is outside 1 to 2147483648");
  assert_int_equal(s.requests[6].status, WEIR_BAD_KEY);
  assert_int_equal(admitted_of(s.requests, 5), 5);
  assert_true(s.requests[7].decision.allowed);
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(s.limiters[6], &counts);
  assert_int_equal(counts.statuses[WEIR_BAD_KEY], 1);
  close_several(&s);
}

/* The first addition is that of the first limiter: the others have their answers. */
static void a_failure_is_that_of_its_limiter(void **state) {
  several s;
  weir_message why;
  (void)state;
  open_several(&s, "fixed-window:9/1m", NULL);
  fake_fail_next(WEIR_ADD, WEIR_NOT_SENT, false);
  assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, &why), WEIR_UNAVAILABLE);
  assert_memory_equal(why.text, "requests[0]: ", 13);
  assert_int_equal(s.requests[0].status, WEIR_UNAVAILABLE);
  for (int i = 1; i < LIMITERS; i++)
    assert_true(s.requests[i].status == WEIR_OK && s.requests[i].decision.allowed);
  close_several(&s);
}

/* A request that no policy answers speaks before one that a policy does, wherever they stand. */
static void a_status_speaks_before_a_policy(void **state) {
  several s;
  weir_message why = {""};
  const weir_limiter_options denies = {.fallback = WEIR_FALLBACK_DENY};
  (void)state;
  open_several(&s, "fixed-window:9/1m", &denies);
  weir_limiter *frank = world_limiter(&s.w, "fixed-window:9/1m,name=frank", NULL);
  fake_fail_next(WEIR_ADD, WEIR_NOT_SENT, false);
  assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, &why), WEIR_OK);
  assert_memory_equal(why.text, "requests[0]: ", 13);
  assert_int_equal(s.requests[0].decision.source, WEIR_SOURCE_FALLBACK);
  weir_limiter *of[] = {s.limiters[3], s.limiters[4], frank};
  weir_request requests[] = {request("l", 1), request("l", 1), request("", 1)};
  fake_fail_next(WEIR_ADD, WEIR_NOT_SENT, false);
  assert_int_equal(weir_decide_together(of, requests, 3, &why), WEIR_BAD_KEY);
  assert_memory_equal(why.text, "requests[2]: ", 13);
  assert_int_equal(requests[0].decision.source, WEIR_SOURCE_FALLBACK);
  assert_true(requests[1].decision.allowed);
  weir_limiter_destroy(frank);
  close_several(&s);
}

/* --- leases ------------------------------------------------------------------------------------
 */

/* The lots that several limiters lease in one call are used by the next, and go back in one round
 * trip each. */
static void leases_are_each_limiters_own(void **state) {
  several s;
  const weir_limiter_options alone = {.processes = 1};
  int64_t decided = 0;
  (void)state;
  open_several(&s, "fixed-window:1000/1m,lease=20ms", &alone);
  for (int n = 0; n < 200; n++) {
    assert_int_equal(weir_decide_together(s.limiters, s.requests, LIMITERS, NULL), WEIR_OK);
    assert_int_equal(admitted_of(s.requests, LIMITERS), LIMITERS);
    decided += LIMITERS;
  }
  assert_in_range(the_fake.counts.round_trips, 1, 100);
  for (int i = 0; i < LIMITERS; i++) {
    assert_true(lease_counts(s.limiters[i]).lease_used > 100);
    assert_int_equal(weir_limiter_return_leases(s.limiters[i], NULL), WEIR_OK);
    assert_int_equal(lease_held(s.limiters[i]), 0);
    assert_int_equal(limiter_peek(s.limiters[i], "k", 1).remaining, 1000 - decided / LIMITERS);
  }
  close_several(&s);
}

/* --- threads -----------------------------------------------------------------------------------
 */

enum { THREADS = 6, CALLS = 150, OF_ONE = 5, LIMIT = 200 };

typedef struct crowd {
  several s;
  _Atomic int64_t admitted[LIMITERS];
  _Atomic int failures;
} crowd;

typedef struct member {
  crowd *in;
  uint32_t seed;
} member;

/* Any limiters in any order, so that threads wait for each other at several at once; now and then
 * one alone. */
static void *decide_at_random(void *argument) {
  member *mine = argument;
  crowd *in = mine->in;
  for (int n = 0; n < CALLS; n++) {
    weir_limiter *of[OF_ONE];
    weir_request requests[OF_ONE];
    size_t which[OF_ONE];
    size_t count = 1 + chance(&mine->seed, OF_ONE);
    for (size_t i = 0; i < count; i++) {
      which[i] = chance(&mine->seed, LIMITERS);
      of[i] = in->s.limiters[which[i]];
      requests[i] = request("k", 1);
    }
    weir_status status = weir_decide_together(of, requests, count, NULL);
    if (status != WEIR_OK) atomic_fetch_add(&in->failures, 1);
    for (size_t i = 0; i < count; i++)
      atomic_fetch_add(&in->admitted[which[i]], requests[i].decision.allowed);
  }
  return NULL;
}

/* Nobody else charges these keys: as much is admitted as fits, and nobody waits in a circle, which
 * would end with the deadline. */
static void threads_share_limiters(void **state) {
  static crowd c;
  pthread_t threads[THREADS];
  member members[THREADS];
  const weir_limiter_options options = {.deadline_us = 60 * SECOND_US,
                                        .flags = WEIR_NO_LOCAL_DENIAL};
  (void)state;
  open_several(&c.s, "fixed-window:200/1h", &options);
  the_fake.delay_us = 20;
  for (int i = 0; i < THREADS; i++) {
    members[i] = (member){.in = &c, .seed = (uint32_t)i + 1};
    assert_int_equal(pthread_create(&threads[i], NULL, decide_at_random, &members[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(c.failures, 0);
  for (int i = 0; i < LIMITERS; i++) {
    weir_limiter_counts counts = {.size = sizeof counts};
    weir_limiter_read_counts(c.s.limiters[i], &counts);
    assert_int_equal(counts.allowed, c.admitted[i]);
    assert_int_equal(c.admitted[i], counts.allowed + counts.denied < LIMIT
                                        ? (int64_t)(counts.allowed + counts.denied)
                                        : LIMIT);
  }
  close_several(&c.s);
}

int main(void) {
  static int numbers[STORES] = {0, 1, 2, 3};
  struct CMUnitTest tests[STORES + 14];
  size_t count = 0;
  stores_start();
  for (int i = 0; i < STORES; i++)
    tests[count++] =
        (struct CMUnitTest){stores[i].name, decides_as_one_by_one, NULL, NULL, &numbers[i]};
  const struct CMUnitTest others[] = {
      cmocka_unit_test(eight_limiters_need_one_round_trip),
      cmocka_unit_test(rounds_of_several_limiters_are_shared),
      cmocka_unit_test(what_is_known_needs_none),
      cmocka_unit_test(deadlines_of_their_own_need_round_trips_of_their_own),
      cmocka_unit_test(a_key_that_comes_twice_is_decided_in_order),
      cmocka_unit_test(limiters_that_share_counts_share_them),
      cmocka_unit_test(stores_are_decided_one_after_another),
      cmocka_unit_test(as_many_limiters_as_requests),
      cmocka_unit_test(refuses_what_is_no_list_of_limiters),
      cmocka_unit_test(bad_requests_fail_alone),
      cmocka_unit_test(a_failure_is_that_of_its_limiter),
      cmocka_unit_test(a_status_speaks_before_a_policy),
      cmocka_unit_test(leases_are_each_limiters_own),
      cmocka_unit_test(threads_share_limiters),
  };
  memcpy(tests + count, others, sizeof others);
  return cmocka_run_group_tests(tests, NULL, NULL);
}

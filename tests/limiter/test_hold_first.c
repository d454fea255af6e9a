/* The first requests after an outage: what they find out admits no more than the account has room
 * for, and who comes meanwhile does not wait for it. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "limiter/away.h"

/* A fourth of 16, of which one is used: as many as there is room for, and all at once. */
static void a_batch_that_comes_first_gets_its_share(void **state) {
  enum { COUNT = 6 };
  world w;
  weir_request requests[COUNT];
  (void)state;
  away_open(&w, "fixed-window:17/1m", 4);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 1), 1);
  for (int i = 0; i < COUNT; i++)
    requests[i] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
  assert_int_equal(weir_limiter_decide(w.limiter, requests, COUNT, NULL), WEIR_OK);
  for (int i = 0; i < COUNT; i++) {
    const weir_decision *decision = &requests[i].decision;
    assert_int_equal(decision->allowed, i < 3);
    assert_int_equal(decision->source, i < 3 ? WEIR_SOURCE_STORE : WEIR_SOURCE_FALLBACK);
    assert_int_equal(decision->store_status, WEIR_OK);
  }
  away_expect(&w, 1, 1, 0);
  assert_int_equal(away_remaining(&w, "fixed-window:17/1m", "k"), 17 - 1 - 4);
  away_withheld(&w, "k", 1);
  world_close(&w);
}

static void up_to_that_comes_first_gets_its_share(void **state) {
  world w;
  weir_decision decision;
  (void)state;
  away_open(&w, "fixed-window:17/1m", 4);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 1), 1);
  assert_int_equal(weir_limiter_take_up_to(w.limiter, "k", 1, 9, &decision, NULL), WEIR_OK);
  assert_true(decision.allowed);
  assert_int_equal(decision.source, WEIR_SOURCE_STORE);
  assert_int_equal(decision.cost, 3);
  away_expect(&w, 1, 1, 0);
  away_withheld(&w, "k", 1);
  world_close(&w);
}

typedef struct taker {
  world *w;
  weir_decision decision;
  atomic_bool done;
} taker;

static void *take_in_thread(void *context) {
  taker *t = context;
  t->decision = world_take(t->w, "k", 1);
  t->done = true;
  return NULL;
}

/* One request looks for the store; neither one with room nor one without waits for it. */
static void while_one_finds_out_the_others_do_not_wait(void **state) {
  world w;
  pthread_t thread;
  (void)state;
  away_open_with(&w, "fixed-window:17/1m",
                 &(weir_limiter_options){.peers = 4, .deadline_us = 30 * SECOND_US});
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 2), 2);
  taker t = {.w = &w};
  fake_forget();
  the_fake.delay_us = 2 * SECOND_US;
  assert_int_equal(pthread_create(&thread, NULL, take_in_thread, &t), 0);
  while (the_fake.counts.round_trips == 0)
    sched_yield();
  for (int i = 0; i < 3; i++) { /* the thread has the third */
    weir_decision decision = world_take(&w, "k", 1);
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
    assert_int_equal(decision.store_status, WEIR_UNAVAILABLE);
    assert_int_equal(decision.allowed, i == 0);
  }
  assert_false(t.done);
  the_fake.delay_us = 0;
  pthread_join(thread, NULL);
  assert_true(t.decision.allowed);
  assert_int_equal(t.decision.source, WEIR_SOURCE_STORE);
  away_expect(&w, 3, 2, 0);
  away_withheld(&w, "k", 1);
  world_close(&w);
}

static struct {
  pthread_t other;
  atomic_bool finder_asks, other_asks, finder_is_done;
} turns;

/* The finder's exec begins first, and the other's ends last. */
static void take_turns(weir_store *behind, const weir_operation *operations, size_t count) {
  (void)behind;
  (void)operations;
  (void)count;
  bool finds = !pthread_equal(pthread_self(), turns.other);
  *(finds ? &turns.finder_asks : &turns.other_asks) = true;
  while (finds ? !turns.other_asks : !turns.finder_is_done)
    sched_yield();
}

static void *find_store(void *context) {
  away_withheld(context, "k", 1);
  turns.finder_is_done = true;
  return NULL;
}

/* One that did not wait has its answer after the one that found the store: the hold has begun. */
static void who_did_not_wait_ends_no_hold(void **state) {
  world w;
  pthread_t thread;
  weir_request requests[] = {{.key = "other", .key_length = 5, .cost = 1},
                             {.key = "k", .key_length = 1, .cost = 1}};
  (void)state;
  away_open_with(&w, "fixed-window:9/1m",
                 &(weir_limiter_options){.peers = 4, .deadline_us = 30 * SECOND_US});
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 3), 2);
  turns.other = pthread_self();
  the_fake.before = take_turns;
  assert_int_equal(pthread_create(&thread, NULL, find_store, &w), 0);
  while (!turns.finder_asks)
    sched_yield();
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 2, NULL), WEIR_OK);
  the_fake.before = NULL;
  pthread_join(thread, NULL);
  assert_int_equal(requests[1].decision.store_status, WEIR_UNAVAILABLE);
  assert_false(requests[1].decision.allowed);
  fake_forget();
  away_withheld(&w, "k", 1);
  assert_int_equal(the_fake.counts.round_trips, 0);
  world_close(&w);
}

static hand_clock *its_clock;

static void begin_the_next_window(weir_store *behind, const weir_operation *operations,
                                  size_t count) {
  (void)behind;
  (void)operations;
  (void)count;
  its_clock->now_us = START_US + 60 * SECOND_US;
}

/* A request without room looks for the store. By the time of the answer its account has room again,
 * in a new window, but the store that answers has not admitted it. */
static void room_that_comes_while_it_looks_admits_nothing(void **state) {
  world w;
  (void)state;
  away_open(&w, "fixed-window:9/1m", 4);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 3), 2);
  its_clock = &w.clock;
  the_fake.before = begin_the_next_window;
  weir_decision decision = away_withheld(&w, "k", 1);
  the_fake.before = NULL;
  assert_in_range(decision.retry_after_us, 1, SECOND_US);
  away_expect(&w, 2, 0, 2);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_batch_that_comes_first_gets_its_share),
      cmocka_unit_test(up_to_that_comes_first_gets_its_share),
      cmocka_unit_test(while_one_finds_out_the_others_do_not_wait),
      cmocka_unit_test(who_did_not_wait_ends_no_hold),
      cmocka_unit_test(room_that_comes_while_it_looks_admits_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

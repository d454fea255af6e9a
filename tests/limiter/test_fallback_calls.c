/* Policies in the calls that are more than one request: batches, waits, reservations, refunds; and
 * in an outage in which nobody says that there is one. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/outage.h"
#include "limiter/world.h"

enum { KEYS = 30 };

static void lose_server(outage *o, const char *rules, weir_fallback fallback) {
  outage_start(o, OUTAGE_META, 1);
  outage_open(o, rules, fallback, 0);
  outage_kill(o, 0);
}

/* --- batches ------------------------------------------------------------------------------------
 */

typedef struct batch {
  char names[KEYS][8];
  weir_request requests[KEYS];
} batch;

static void fill(batch *b) {
  for (int i = 0; i < KEYS; i++) {
    snprintf(b->names[i], sizeof b->names[i], "k%d", i);
    b->requests[i] =
        (weir_request){.key = b->names[i], .key_length = strlen(b->names[i]), .cost = 1};
  }
}

static int count_source(const batch *b, weir_source source) {
  int count = 0;
  for (int i = 0; i < KEYS; i++)
    count += b->requests[i].status == WEIR_OK && b->requests[i].decision.source == source;
  return count;
}

static void a_dead_server_of_three_costs_only_its_own_keys(void **state) {
  (void)state;
  for (weir_fallback fallback = 0; fallback < WEIR_FALLBACK_NONE; fallback++) {
    outage o;
    batch b;
    outage_start(&o, OUTAGE_META, OUTAGE_SERVERS);
    outage_open(&o, "fixed-window:100/1m", fallback, 0);
    fill(&b);
    assert_int_equal(weir_limiter_decide(o.limiter, b.requests, KEYS, NULL), WEIR_OK);
    assert_int_equal(count_source(&b, WEIR_SOURCE_STORE), KEYS);
    char server[32];
    snprintf(server, sizeof server, "]: 127.0.0.1:%u: ", (unsigned)server_port(o.servers[1]));
    outage_kill(&o, 1);
    for (int round = 0; round < 3; round++) {
      weir_message message = {"untouched"};
      assert_int_equal(weir_limiter_decide(o.limiter, b.requests, KEYS, &message), WEIR_OK);
      assert_memory_equal(message.text, "requests[", 9);
      assert_non_null(strstr(message.text, server)); /* left out, or tried again where it is late */
    }
    int by_policy = count_source(&b, WEIR_SOURCE_FALLBACK);
    assert_in_range(by_policy, 1, KEYS - 1);
    assert_int_equal(count_source(&b, WEIR_SOURCE_STORE), KEYS - by_policy);
    for (int i = 0; i < KEYS; i++) {
      const weir_decision *decision = &b.requests[i].decision;
      bool by_store = decision->source == WEIR_SOURCE_STORE;
      assert_int_equal(decision->store_status, by_store ? WEIR_OK : WEIR_UNAVAILABLE);
      assert_int_equal(decision->allowed, by_store || fallback != WEIR_FALLBACK_DENY);
      if (by_store) assert_int_equal(decision->remaining, 100 - 4);
    }
    outage_close(&o);
  }
}

/* The message is that of the request that failed, not of one that was answered all the same. */
static void a_peek_among_answered_requests_speaks_for_the_batch(void **state) {
  outage o;
  batch b;
  weir_message message = {""};
  (void)state;
  lose_server(&o, "fixed-window:100/1m", WEIR_FALLBACK_ALLOW);
  fill(&b);
  b.requests[7].flags = WEIR_REQUEST_PEEK;
  b.requests[9].cost = 0;
  assert_int_equal(weir_limiter_decide(o.limiter, b.requests, KEYS, &message), WEIR_UNAVAILABLE);
  assert_int_equal(b.requests[7].status, WEIR_UNAVAILABLE);
  assert_int_equal(b.requests[9].status, WEIR_BAD_COST);
  assert_int_equal(count_source(&b, WEIR_SOURCE_FALLBACK), KEYS - 2);
  assert_non_null(strstr(message.text, "127.0.0.1"));
  outage_close(&o);
}

static void a_batch_of_one_key_is_answered_in_its_order(void **state) {
  outage o;
  weir_request requests[4];
  (void)state;
  lose_server(&o, "fixed-window:8/1m", WEIR_FALLBACK_LOCAL);
  for (int i = 0; i < 4; i++)
    requests[i] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
  assert_int_equal(weir_limiter_decide(o.limiter, requests, 4, NULL), WEIR_OK);
  for (int i = 0; i < 4; i++)
    assert_int_equal(requests[i].decision.allowed, i < 8 / OUTAGE_PEERS);
  outage_close(&o);
}

/* --- reservations and refunds -------------------------------------------------------------------
 */

static weir_status reserve(outage *o, int64_t cost, weir_reservation **reservation) {
  weir_request request = {.key = "k", .key_length = 1, .cost = cost};
  weir_status status = weir_limiter_reserve(o->limiter, &request, reservation, NULL);
  if (status == WEIR_OK) assert_int_equal(request.decision.source, WEIR_SOURCE_FALLBACK);
  return status;
}

static void what_local_reserved_can_be_cancelled(void **state) {
  static const char *const rules[] = {"fixed-window:8/1m", "quota:8/1m", "token-bucket:8/1m",
                                      "leaky-bucket:8/1m,queue=7"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    outage o;
    weir_reservation *reservation;
    lose_server(&o, rules[i], WEIR_FALLBACK_LOCAL);
    assert_int_equal(reserve(&o, 2, &reservation), WEIR_OK);
    assert_non_null(reservation);
    assert_false(outage_take(&o, "k", 2).allowed);
    assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
    assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_BAD_ARGUMENT);
    weir_reservation_destroy(reservation);
    assert_true(outage_take(&o, "k", 2).allowed);
    outage_close(&o);
  }
}

/* The server is back when it is cancelled: what was paid to it meanwhile goes back there. */
static void a_cancel_goes_to_where_it_is_charged_by_then(void **state) {
  outage o;
  weir_reservation *reservation;
  weir_decision decision;
  (void)state;
  lose_server(&o, "fixed-window:8/1m", WEIR_FALLBACK_LOCAL);
  assert_true(outage_take(&o, "k", 1).allowed);
  assert_int_equal(reserve(&o, 1, &reservation), WEIR_OK); /* the share of 2 is spent */
  server_restart(o.servers[0]);
  int64_t end_us = weir_monotonic_us() + 60 * SECOND_US;
  do {
    decision = outage_take(&o, "other", 1);
  } while (decision.store_status != WEIR_OK && weir_monotonic_us() < end_us);
  assert_false(outage_take(&o, "k", 1).allowed); /* it pays */
  assert_int_equal(limiter_peek(o.limiter, "k", 1).remaining, 8 - 2);
  assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
  weir_reservation_destroy(reservation);
  assert_int_equal(outage_take(&o, "k", 1).remaining, 8 - 2); /* the one that came back */
  outage_kill(&o, 0);
  assert_false(outage_take(&o, "k", 1).allowed);
  outage_close(&o);
}

static void what_nobody_charged_goes_back_nowhere(void **state) {
  outage o;
  weir_reservation *reservation;
  (void)state;
  lose_server(&o, "fixed-window:8/1m", WEIR_FALLBACK_ALLOW);
  assert_int_equal(reserve(&o, 8, &reservation), WEIR_OK);
  assert_int_equal(weir_reservation_cancel(reservation, NULL), WEIR_OK);
  weir_reservation_destroy(reservation);
  weir_decision taken = outage_take(&o, "k", 5);
  assert_int_equal(weir_limiter_refund(o.limiter, "k", 1, 6, &taken, NULL), WEIR_BAD_COST);
  assert_int_equal(weir_limiter_refund(o.limiter, "k", 1, 3, &taken, NULL), WEIR_OK);
  assert_int_equal(weir_limiter_refund(o.limiter, "k", 1, 2, &taken, NULL), WEIR_OK);
  assert_int_equal(taken.cost, 0);
  assert_int_equal(weir_limiter_refund(o.limiter, "k", 1, 1, &taken, NULL), WEIR_BAD_ARGUMENT);
  outage_close(&o);
}

static void who_is_denied_reserves_nothing(void **state) {
  outage o;
  weir_reservation *reservation;
  (void)state;
  lose_server(&o, "fixed-window:8/1m", WEIR_FALLBACK_DENY);
  assert_int_equal(reserve(&o, 1, &reservation), WEIR_OK);
  assert_null(reservation);
  outage_close(&o);
  lose_server(&o, "fixed-window:8/1m", WEIR_FALLBACK_NONE);
  assert_int_equal(reserve(&o, 1, &reservation), WEIR_UNAVAILABLE);
  assert_null(reservation);
  outage_close(&o);
}

static void what_local_charged_is_refunded_there(void **state) {
  outage o;
  (void)state;
  lose_server(&o, "fixed-window:8/1m", WEIR_FALLBACK_LOCAL);
  weir_decision taken = outage_take(&o, "k", 2);
  assert_false(outage_take(&o, "k", 2).allowed);
  assert_int_equal(weir_limiter_refund(o.limiter, "k", 1, 2, &taken, NULL), WEIR_OK);
  assert_int_equal(taken.cost, 0);
  assert_true(outage_take(&o, "k", 2).allowed);
  outage_close(&o);
}

/* As after a change of the rules: the limiter that answered is gone, and the new one has no account
 * of the key. */
static void what_another_limiter_charged_is_not_refunded(void **state) {
  outage o;
  weir_limiter *next;
  (void)state;
  lose_server(&o, "fixed-window:8/1m", WEIR_FALLBACK_LOCAL);
  weir_decision taken = outage_take(&o, "k", 2);
  const weir_limiter_options options = {.size = sizeof options,
                                        .clock = hand_clock_as_clock(&o.clock)};
  assert_int_equal(weir_limiter_create(o.store, "fixed-window:8/1m", &options, &next, NULL),
                   WEIR_OK);
  assert_int_equal(weir_limiter_refund(next, "k", 1, 2, &taken, NULL), WEIR_BAD_COST);
  assert_int_equal(taken.cost, 2);
  weir_limiter_destroy(next);
  outage_close(&o);
}

/* --- all at once --------------------------------------------------------------------------------
 */

typedef struct crowd {
  weir_limiter *limiter;
  atomic_bool open;
  _Atomic int admitted;
} crowd;

static void *take_when_open(void *context) {
  crowd *c = context;
  while (!c->open)
    sched_yield();
  c->admitted += limiter_take(c->limiter, "k", 1).allowed;
  return NULL;
}

/* The first who need an account make it, and have one between them. */
static void threads_that_come_first_share_what_the_policy_has(void **state) {
  enum { THREADS = 8, SHARE = 3, ROUNDS = 50 };
  outage o;
  const weir_limiter_options options = {
      .size = sizeof options, .deadline_us = 30 * SECOND_US, .peers = 1};
  (void)state;
  lose_server(&o, "quota:1/1h", WEIR_FALLBACK_NONE);
  for (int round = 0; round < ROUNDS; round++) {
    crowd c = {.open = false};
    pthread_t threads[THREADS];
    assert_int_equal(weir_limiter_create(o.store, "quota:3/1h", &options, &c.limiter, NULL),
                     WEIR_OK);
    for (int i = 0; i < THREADS; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, take_when_open, &c), 0);
    c.open = true;
    for (int i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
    assert_int_equal(c.admitted, SHARE);
    weir_limiter_destroy(c.limiter);
  }
  outage_close(&o);
}

/* --- waiting ------------------------------------------------------------------------------------
 */

typedef struct waiter {
  outage *o;
  weir_status status;
  weir_decision decision;
} waiter;

static void *wait_in_thread(void *context) {
  waiter *w = context;
  w->status = weir_limiter_wait(w->o->limiter, "k", 1, 1, 60 * SECOND_US, &w->decision, NULL);
  return NULL;
}

/* Denied at first, again and again, and admitted by the store as soon as it is back. */
static void who_waits_waits_for_the_store(void **state) {
  static const char *const rules[] = {"fixed-window:8/1d", "token-bucket:8/1d"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    outage o;
    weir_decision decision;
    pthread_t thread;
    outage_start(&o, OUTAGE_META, 1);
    outage_open_real(&o, rules[i], WEIR_FALLBACK_DENY, 0);
    outage_kill(&o, 0);
    assert_int_equal(weir_limiter_wait(o.limiter, "k", 1, 1, 0, &decision, NULL), WEIR_OK);
    assert_false(decision.allowed);
    waiter w = {.o = &o};
    assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &w), 0);
    server_restart(o.servers[0]);
    pthread_join(thread, NULL);
    assert_int_equal(w.status, WEIR_OK);
    assert_true(w.decision.allowed);
    assert_int_equal(w.decision.source, WEIR_SOURCE_STORE);
    outage_close(&o);
  }
}

static void who_waits_gets_what_the_policy_has(void **state) {
  outage o;
  weir_decision decision;
  (void)state;
  outage_start(&o, OUTAGE_META, 1);
  outage_open_real(&o, "token-bucket:400/1s,burst=4", WEIR_FALLBACK_LOCAL, 0);
  outage_kill(&o, 0);
  for (int i = 0; i < 5; i++) { /* 100 a second, one at once */
    assert_int_equal(weir_limiter_wait(o.limiter, "k", 1, 1, 60 * SECOND_US, &decision, NULL),
                     WEIR_OK);
    assert_true(decision.allowed);
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
  }
  outage_close(&o);
  lose_server(&o, "token-bucket:400/1s,burst=4", WEIR_FALLBACK_NONE);
  assert_int_equal(weir_limiter_wait(o.limiter, "k", 1, 1, 0, &decision, NULL), WEIR_UNAVAILABLE);
  outage_close(&o);
}

/* --- silence ------------------------------------------------------------------------------------
 */

static void a_silent_server_is_answered_for_and_nothing_is_sent_again(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    int unknown = 0;
    uint64_t admitted = 0;
    outage_start(&o, kind, 1);
    outage_open(&o, "fixed-window:100/1d", WEIR_FALLBACK_LOCAL, 2 * SECOND_US);
    assert_true(outage_take(&o, "k", 1).allowed);
    server_stop(o.servers[0]);
    bool away = false;
    for (int i = 0; i < 6; i++) { /* two misses take four requests, of three quarters each */
      weir_decision decision = outage_take(&o, "k", 1);
      away |= i >= 4 || decision.source == WEIR_SOURCE_FALLBACK;
      assert_int_equal(decision.source, away ? WEIR_SOURCE_FALLBACK : WEIR_SOURCE_LATE);
      assert_true(decision.allowed || !away);
      assert_true(decision.store_status == WEIR_UNKNOWN_OUTCOME ||
                  decision.store_status == WEIR_TIMEOUT ||
                  decision.store_status == WEIR_UNAVAILABLE);
      unknown += decision.allowed && decision.store_status == WEIR_UNKNOWN_OUTCOME;
      admitted += decision.allowed;
    }
    assert_true(unknown >= 1);
    server_continue(o.servers[0]);
    weir_decision decision;
    int64_t end_us = weir_monotonic_us() + 60 * SECOND_US;
    do {
      weir_status status = weir_limiter_peek(o.limiter, "k", 1, 1, &decision, NULL);
      if (status == WEIR_OK) break;
    } while (weir_monotonic_us() < end_us);
    weir_limiter_counts counts = outage_counts(o.limiter);
    assert_int_equal(counts.owed + (uint64_t)unknown, admitted);
    assert_int_equal(counts.paid, counts.owed);
    int64_t paid = (int64_t)counts.paid;
    assert_in_range(decision.remaining, 99 - paid - unknown, 99 - paid);
    outage_close(&o);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_dead_server_of_three_costs_only_its_own_keys),
      cmocka_unit_test(a_peek_among_answered_requests_speaks_for_the_batch),
      cmocka_unit_test(a_batch_of_one_key_is_answered_in_its_order),
      cmocka_unit_test(what_local_reserved_can_be_cancelled),
      cmocka_unit_test(a_cancel_goes_to_where_it_is_charged_by_then),
      cmocka_unit_test(what_nobody_charged_goes_back_nowhere),
      cmocka_unit_test(who_is_denied_reserves_nothing),
      cmocka_unit_test(what_local_charged_is_refunded_there),
      cmocka_unit_test(what_another_limiter_charged_is_not_refunded),
      cmocka_unit_test(threads_that_come_first_share_what_the_policy_has),
      cmocka_unit_test(who_waits_waits_for_the_store),
      cmocka_unit_test(who_waits_gets_what_the_policy_has),
      cmocka_unit_test(a_silent_server_is_answered_for_and_nothing_is_sent_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

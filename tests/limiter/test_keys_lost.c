/* A counter that a server forgets is noticed; one that nobody lost is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fixture/fake.h"
#include "limiter/outage.h"
#include "limiter/world.h"

/* More than half of each is used up: on Redis a bucket is looked at from there on. */
static const char *const rules[] = {
    "fixed-window:10/1h",
    "fixed-window:10/1h,count=all",
    "sliding-window:10/1h",
    "sliding-window:100000/1h",
    "sliding-window:10/1h,cells=16,strict",
    "quota:10/1h",
    "sliding-log:10/1h",
    "token-bucket:10/1h",
    "leaky-bucket:10/1h,queue=9",
    "fixed-window:100/1d;token-bucket:10/1h;quota:50/1h",
};
enum { RULES = sizeof rules / sizeof rules[0], CHARGED = 7 };

static uint64_t lost(const outage *o) {
  return outage_counts(o->limiter).keys_lost;
}

static void charge(outage *o) {
  for (int i = 0; i < CHARGED; i++)
    assert_true(outage_take(o, "k", 1).allowed);
  assert_int_equal(lost(o), 0);
}

/* Once, and the key is as good as new. */
static void assert_noticed(outage *o, const char *text, const char *how) {
  outage_take(o, "k", 1);
  uint64_t found = lost(o);
  if (found == 0) fail_msg("%s on %s: %s was not noticed", text, o->name, how);
  outage_take(o, "k", 1);
  outage_take(o, "k", 1);
  assert_int_equal(lost(o), found);
}

static void a_flush_is_noticed(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    outage_start(&o, kind, 1);
    for (size_t i = 0; i < RULES; i++) {
      outage_open(&o, rules[i], WEIR_FALLBACK_NONE, 0);
      charge(&o);
      outage_flush(&o);
      assert_noticed(&o, rules[i], "a flush");
      outage_close(&o);
      outage_flush(&o);
    }
  }
}

/* When what the process remembers of the key is too old to be used. */
static void a_flush_is_noticed_later_too(void **state) {
  (void)state;
  outage o;
  outage_start(&o, OUTAGE_META, 1);
  for (size_t i = 0; i < RULES; i++) {
    outage_open(&o, rules[i], WEIR_FALLBACK_NONE, 0);
    charge(&o);
    outage_flush(&o);
    o.clock.now_us += 30 * SECOND_US;
    assert_noticed(&o, rules[i], "a flush 30 s ago");
    outage_close(&o);
    outage_flush(&o);
  }
}

/* The failures in between do not make the process forget what it was charged. */
static void a_restart_is_noticed(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    outage_start(&o, kind, 1);
    for (size_t i = 0; i < RULES; i++) {
      weir_decision decision;
      outage_open(&o, rules[i], WEIR_FALLBACK_DENY, 0);
      charge(&o);
      outage_kill(&o, 0);
      assert_int_equal(outage_take(&o, "k", 1).source, WEIR_SOURCE_FALLBACK);
      server_restart(o.servers[0]);
      int64_t end_us = weir_monotonic_us() + 60 * SECOND_US;
      do { /* of another key: the breaker may be open */
        decision = outage_take(&o, "other", 1);
      } while (decision.source == WEIR_SOURCE_FALLBACK && weir_monotonic_us() < end_us);
      assert_noticed(&o, rules[i], "a restart");
      outage_close(&o);
      outage_flush(&o);
    }
  }
}

/* --- eviction -----------------------------------------------------------------------------------
 */

enum { WATCHED = 40, FILL = 512, BATCHES = 40, ROUNDS_MOST = 30 };

/* One more of each; so small a server refuses some. */
static void take_of_all(outage *o) {
  for (int i = 0; i < WATCHED; i++) {
    char key[24];
    weir_decision decision;
    int length = snprintf(key, sizeof key, "watched %d", i);
    weir_limiter_take(o->limiter, key, (size_t)length, 1, &decision, NULL);
  }
}

/* Other keys, more of them in a round than the server holds, by a limiter that remembers none of
 * them. */
static void fill(weir_limiter *filler, int from) {
  static char keys[FILL][24];
  static weir_request requests[FILL];
  for (int i = 0; i < FILL; i++) {
    snprintf(keys[i], sizeof keys[i], "filler %d", from + i);
    requests[i] = (weir_request){.key = keys[i], .key_length = strlen(keys[i]), .cost = 100};
  }
  weir_limiter_decide(filler, requests, FILL, NULL);
}

static void check_eviction(outage *o, const char *text) {
  weir_limiter_options options = {.size = sizeof options,
                                  .clock = hand_clock_as_clock(&o->clock),
                                  .deadline_us = 30 * SECOND_US,
                                  .memo_keys = 1,
                                  .fallback = WEIR_FALLBACK_NONE};
  weir_limiter *filler;
  outage_open(o, text, WEIR_FALLBACK_NONE, 0);
  assert_int_equal(weir_limiter_create(o->store, text, &options, &filler, NULL), WEIR_OK);
  take_of_all(o);
  take_of_all(o);
  assert_int_equal(lost(o), 0);
  for (int round = 0; lost(o) == 0; round++) {
    if (round == ROUNDS_MOST) fail_msg("%s on %s: no eviction was noticed", text, o->name);
    for (int batch = 0; batch < BATCHES; batch++)
      fill(filler, (round * BATCHES + batch) * FILL);
    take_of_all(o);
  }
  weir_limiter_destroy(filler);
  outage_close(o);
}

static void an_eviction_is_noticed(void **state) {
  static const char *const large[] = {"fixed-window:100000/1h", "quota:100000/1h",
                                      "token-bucket:1000/1h"};
  const char *const megabyte[] = {"-m", "1", "-I", "512k", NULL};
  outage here = {.name = "memory", .url = "memory:?keys=1000", .clock = {START_US}};
  (void)state;
  for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
    outage small = {.name = "memcached of 1 MB", .count = 1, .clock = {START_US}};
    small.servers[0] = server_start_memcached(SERVER_IPV4, megabyte);
    server_url(small.servers, 1, "protocol=meta", small.url);
    check_eviction(&small, large[i]);
    check_eviction(&here, large[i]);
  }
}

/* --- no loss ------------------------------------------------------------------------------------
 */

/* The limiter itself gives back or resets, and time passes. */
static void what_is_given_back_or_over_is_not_lost(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    outage_start(&o, kind, 1);
    for (size_t i = 0; i < RULES; i++) {
      outage_open(&o, rules[i], WEIR_FALLBACK_NONE, 0);
      for (int round = 0; round < 4; round++) {
        weir_reservation *reservation;
        weir_request request = {.key = "k", .key_length = 1, .cost = 1};
        charge(&o);
        weir_decision taken = outage_take(&o, "k", 1);
        weir_limiter_refund(o.limiter, "k", 1, 1, &taken, NULL);
        weir_limiter_reserve(o.limiter, &request, &reservation, NULL);
        if (reservation != NULL) weir_reservation_cancel(reservation, NULL);
        weir_reservation_destroy(reservation);
        outage_take(&o, "k", 1);
        if (round < 2) assert_int_equal(weir_limiter_reset(o.limiter, "k", 1, NULL), WEIR_OK);
        if (round == 0) outage_take(&o, "k", 1);
        if (round == 0) assert_int_equal(weir_limiter_reset(o.limiter, "k", 1, NULL), WEIR_OK);
        if (round >= 2) o.clock.now_us += 3 * 24 * 3600 * SECOND_US;
      }
      assert_int_equal(lost(&o), 0);
      outage_close(&o);
      outage_flush(&o);
    }
  }
}

/* A charge in vain was taken back; a log takes single requests only. */
static void what_is_denied_is_not_held(void **state) {
  (void)state;
  for (enum outage_kind kind = 0; kind < OUTAGE_KINDS; kind++) {
    outage o;
    outage_start(&o, kind, 1);
    for (size_t i = 0; i < RULES; i++) {
      if (strstr(rules[i], "log") != NULL || strstr(rules[i], "100000") != NULL) continue;
      outage_open(&o, rules[i], WEIR_FALLBACK_NONE, 0);
      charge(&o);
      for (int round = 0; round < 3; round++) {
        assert_false(outage_take(&o, "k", 9).allowed);
        limiter_peek(o.limiter, "k", 1);
        o.clock.now_us += SECOND_US / 10; /* what was denied is looked at before it is charged */
        outage_take(&o, "k", 1);
        assert_false(outage_take(&o, "k", 9).allowed);
      }
      assert_int_equal(lost(&o), 0);
      outage_close(&o);
      outage_flush(&o);
    }
  }
}

/* Nobody said whether it was carried out: it was. */
static void a_reset_without_an_answer_is_no_loss(void **state) {
  world w;
  (void)state;
  world_open_backend(&w, &fake_backend, "fake:", "fixed-window:10/1h", NULL);
  world_take(&w, "k", 5);
  fake_fail_next(WEIR_DROP, WEIR_UNKNOWN, true);
  assert_int_equal(weir_limiter_reset(w.limiter, "k", 1, NULL), WEIR_UNKNOWN_OUTCOME);
  assert_int_equal(world_take(&w, "k", 1).remaining, 9);
  assert_int_equal(outage_counts(w.limiter).keys_lost, 0);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_flush_is_noticed),
      cmocka_unit_test(a_flush_is_noticed_later_too),
      cmocka_unit_test(a_restart_is_noticed),
      cmocka_unit_test(an_eviction_is_noticed),
      cmocka_unit_test(what_is_given_back_or_over_is_not_lost),
      cmocka_unit_test(what_is_denied_is_not_held),
      cmocka_unit_test(a_reset_without_an_answer_is_no_loss),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A process alone decides with lease= as it would without: the same requests at the same times are
 * admitted, and cost the same, on every store. A lot that was charged ahead is room for its
 * holder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "fixture/chance.h"
#include "limiter/leases.h"
#include "limiter/stores.h"

enum { KEYS = 2 };

typedef struct pair {
  const char *leased, *plain;
  int64_t cost_most; /* now and then a request asks for up to this */
  bool drains;       /* some rule is a bucket: a use is told with the stamp of its charge */
  bool tells_the_end;
} pair;

/* Servers answer one at a time. */
static int requests_of(int store) {
  return store == 0 ? 6000 : 600;
}

/* Mostly at one moment, so that there is something to lease; at times within a lease, past it, past
 * a cell, past the window. */
static int64_t step_us(uint32_t *seed) {
  uint32_t what = chance(seed, 100);
  if (what < 2) return (int64_t)chance(seed, 3000) * 1000;
  if (what < 4) return (int64_t)chance(seed, 300) * 1000;
  if (what < 10) return chance(seed, 30000);
  if (what < 30) return chance(seed, 2000);
  return 0;
}

static int64_t pick_cost(uint32_t *seed, int64_t most) {
  uint32_t what = chance(seed, 30);
  if (what == 0) return 1 + chance(seed, (uint32_t)most);
  if (what < 5) return 1 + chance(seed, 12);
  return 1;
}

/* One request, the same for both. */
typedef struct step {
  const char *key;
  int64_t cost;
  uint32_t what;
} step;

static step pick_step(uint32_t *seed, int64_t cost_most) {
  static const char *const keys[KEYS] = {"a", "b"};
  step s = {.key = keys[chance(seed, 4) == 0], .cost = pick_cost(seed, cost_most)};
  s.what = chance(seed, 200);
  return s;
}

static bool is_refund(const step *s) {
  return s->what >= 20 && s->what < 30;
}

/* `last`: what the key was allowed last, which may be given back. */
static weir_status carry_out(weir_limiter *limiter, const step *s, weir_decision *last,
                             weir_decision *decision) {
  *decision = (weir_decision){.allowed = false};
  if (s->what == 0) {
    *last = *decision; /* nothing is left of it to give back */
    return weir_limiter_reset(limiter, s->key, 1, NULL);
  }
  if (s->what < 20) return weir_limiter_peek(limiter, s->key, 1, s->cost, decision, NULL);
  if (is_refund(s) && last->cost > 0) {
    int64_t back = s->cost < last->cost ? s->cost : last->cost;
    return weir_limiter_refund(limiter, s->key, 1, back, last, NULL);
  }
  weir_status status = s->what < 50
                           ? weir_limiter_take_up_to(limiter, s->key, 1, s->cost, decision, NULL)
                           : weir_limiter_take(limiter, s->key, 1, s->cost, decision, NULL);
  if (status == WEIR_OK && decision->allowed) *last = *decision;
  return status;
}

/* With a quota the moment is told at which its window ends, wherever the charge is stamped. With a
 * sliding window it is known less well, and a bucket's lot drains from its charge. */
static bool ends_alike(const pair *p, const weir_decision *leased, const weir_decision *plain) {
  bool known = leased->reset_after_us > 0 && plain->reset_after_us > 0;
  return !p->tells_the_end || !known ||
         leased->at_us + leased->reset_after_us == plain->at_us + plain->reset_after_us;
}

/* A use tells what is left as far as it is known: not what was given back since the store was
 * asked.
 */
static void assert_same(const pair *p, int number, const step *s, const weir_decision *leased,
                        const weir_decision *plain, bool gave_back) {
  bool known = !(gave_back && leased->source == WEIR_SOURCE_LOCAL);
  known = known && leased->remaining != WEIR_NOT_KNOWN && plain->remaining != WEIR_NOT_KNOWN;
  if (leased->allowed == plain->allowed && leased->cost == plain->cost &&
      (!known || (leased->remaining == plain->remaining && leased->limit == plain->limit)) &&
      (p->drains || leased->at_us == plain->at_us) && ends_alike(p, leased, plain))
    return;
  fail_msg(
      "%s: request %d (kind %u of %lld for %s): %d of %lld, %lld left, at %lld; without "
      "leases %d of %lld, %lld left, at %lld",
      p->leased, number, s->what, (long long)s->cost, s->key, leased->allowed,
      (long long)leased->cost, (long long)leased->remaining, (long long)leased->at_us,
      plain->allowed, (long long)plain->cost, (long long)plain->remaining, (long long)plain->at_us);
}

/* Whoever is admitted, or asks, is told what is left, and until when something counts. */
static void assert_has_figures(const pair *p, int number, const step *s,
                               const weir_decision *leased) {
  if (leased->remaining == WEIR_NOT_KNOWN && leased->retry_after_us != WEIR_NEVER)
    fail_msg("%s: request %d (kind %u of %lld for %s): nothing is known of what is left", p->leased,
             number, s->what, (long long)s->cost, s->key);
  if (leased->allowed && s->what >= 30 && (leased->remaining < 0 || leased->reset_after_us <= 0))
    fail_msg("%s: request %d (kind %u of %lld for %s): %lld left, reset after %lld", p->leased,
             number, s->what, (long long)s->cost, s->key, (long long)leased->remaining,
             (long long)leased->reset_after_us);
}

typedef struct two {
  world leased, plain;
} two;

static void open_two(two *t, int store, const pair *p) {
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US, .processes = 1};
  world_open(&t->leased, stores_url(store, url), p->leased, &options);
  world_open(&t->plain, stores_url(store, url), p->plain, &options);
}

/* The findings: leases were of use, came to an end one way or the other, and were no loss. */
static void close_two(two *t, const char *rules, int store, bool gives_back) {
  weir_limiter_counts counts = lease_counts(t->leased.limiter);
  print_message("%s on %s: leased %llu, used %llu, returned %llu, lost %llu\n", rules,
                stores[store].name, (unsigned long long)counts.leased,
                (unsigned long long)counts.lease_used, (unsigned long long)counts.lease_returned,
                (unsigned long long)counts.lease_lost);
  assert_true((int64_t)counts.lease_used > requests_of(store) / 10);
  if (gives_back) assert_true(counts.lease_returned > 0);
  assert_in_range(lease_held(t->leased.limiter), 0, counts.leased);
  assert_int_equal(counts.keys_lost, 0);
  assert_int_equal(lease_counts(t->plain.limiter).leased, 0);
  world_close(&t->leased);
  world_close(&t->plain);
}

static void decide_side_by_side(int store, const pair *p) {
  two t;
  weir_decision last[2][KEYS] = {0};
  bool gave_back[KEYS] = {false};
  uint32_t seed = 5;
  int64_t at_us = 0;
  open_two(&t, store, p);
  for (int i = 0; i < requests_of(store); i++) {
    weir_decision leased, plain;
    world_set(&t.leased, at_us += step_us(&seed));
    world_set(&t.plain, at_us);
    step s = pick_step(&seed, p->cost_most);
    size_t key = s.key[0] == 'b';
    weir_status status = carry_out(t.leased.limiter, &s, &last[0][key], &leased);
    weir_status expected = carry_out(t.plain.limiter, &s, &last[1][key], &plain);
    if (status != expected)
      fail_msg("%s: request %d (kind %u): %s, without leases %s", p->leased, i, s.what,
               weir_status_name(status), weir_status_name(expected));
    assert_same(p, i, &s, &leased, &plain, gave_back[key]);
    assert_has_figures(p, i, &s, &leased);
    gave_back[key] = is_refund(&s) || (gave_back[key] && leased.source != WEIR_SOURCE_STORE);
  }
  close_two(&t, p->leased, store, true);
}

static void decides_as_without_leases(void **state) {
  static const pair pairs[] = {
      {"fixed-window:600/1s,lease=20ms", "fixed-window:600/1s", 700, false, false},
      {"sliding-window:600/1s,lease=20ms", "sliding-window:600/1s", 700, false, false},
      {"sliding-window:600/1s,cells=1,lease=20ms", "sliding-window:600/1s,cells=1", 700, false,
       false},
      {"sliding-window:600/1s,cells=16,lease=100ms", "sliding-window:600/1s,cells=16", 700, false,
       false},
      {"sliding-window:600/1s,strict,lease=20ms", "sliding-window:600/1s,strict", 700, false,
       false},
      {"quota:600/1s,lease=20ms", "quota:600/1s", 700, false, true},
      {"quota:600/1s,lease=1s", "quota:600/1s", 700, false, true},
      {"quota:600/1s,lease=20ms;token-bucket:1000000/1s,lease=20ms",
       "quota:600/1s;token-bucket:1000000/1s", 700, true, true},
      {"fixed-window:600/1s,lease=1s", "fixed-window:600/1s", 700, false, false},
      {"fixed-window:500/1s,lease=20ms;sliding-window:700/2s,lease=30ms;quota:900/3s,lease=50ms",
       "fixed-window:500/1s;sliding-window:700/2s;quota:900/3s", 700, false, false},
      {"sliding-window:600/1s,lease=20ms;token-bucket:1000000/1s,lease=20ms",
       "sliding-window:600/1s;token-bucket:1000000/1s", 700, true, false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
    for (int store = 0; store < STORES; store++)
      decide_side_by_side(store, &pairs[i]);
}

/* A lease drains as what was used does: at one moment nothing tells them apart. The bucket without
 * leases holds what the other one has left beside its reserve. */
static void a_bucket_decides_at_one_moment_as_without_leases(void **state) {
  static const pair p = {"token-bucket:10000/1s,burst=1000,lease=20ms",
                         "token-bucket:10000/1s,burst=800", 900, true, false};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    two t;
    uint32_t seed = 7;
    open_two(&t, store, &p);
    for (int i = 0; i < requests_of(store); i++) {
      weir_decision leased, plain, none = {0};
      world_set(&t.leased, i / 200 * SECOND_US);
      world_set(&t.plain, i / 200 * SECOND_US);
      step s = pick_step(&seed, p.cost_most);
      if (s.what < 30) s.what = s.what < 5 ? 1 : 200;
      assert_int_equal(carry_out(t.leased.limiter, &s, &none, &leased), WEIR_OK);
      assert_int_equal(carry_out(t.plain.limiter, &s, &none, &plain), WEIR_OK);
      assert_same(&p, i, &s, &leased, &plain, false);
    }
    close_two(&t, p.leased, store, false);
  }
}

/* In any interval t of uses at most B + t * L/W, and no less than without leases but what lies
 * unused when a burst ends. */
static void a_bucket_in_time_is_never_over_its_whole_burst(void **state) {
  static const pair p = {"token-bucket:10000/1s,burst=1000,lease=20ms",
                         "token-bucket:10000/1s,burst=800", 900, true, false};
  enum { PER_MS = 10, BURST = 1000 };
  (void)state;
  for (int store = 0; store < STORES; store++) {
    two t;
    uint32_t seed = 9;
    int64_t at_us = 0, admitted = 0, admitted_plain = 0, lowest = 0;
    open_two(&t, store, &p);
    for (int i = 0; i < requests_of(store); i++) {
      at_us += chance(&seed, 500);
      world_set(&t.leased, at_us);
      world_set(&t.plain, at_us);
      int64_t before = admitted - at_us * PER_MS / 1000;
      if (before < lowest) lowest = before;
      int64_t cost = 1 + chance(&seed, 9);
      if (world_take(&t.leased, "k", cost).allowed) admitted += cost;
      if (world_take(&t.plain, "k", cost).allowed) admitted_plain += cost;
      assert_in_range(admitted - at_us * PER_MS / 1000 - lowest, 0, BURST + 1);
    }
    print_message("%lld admitted, %lld without leases\n", (long long)admitted,
                  (long long)admitted_plain);
    assert_true(admitted * 100 >= admitted_plain * 99);
    close_two(&t, p.leased, store, false);
  }
}

static void takes_700_while_7_lie_in_the_stock(void **state) {
  static const char *const rules[] = {
      "fixed-window:1000/1s,lease=20ms", "sliding-window:1000/1s,lease=20ms",
      "quota:1000/1s,lease=20ms", "token-bucket:1000/1s,burst=20020,lease=20ms"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    for (int store = 0; store < STORES; store++) {
      world w;
      char url[STORE_URL_BYTES];
      weir_limiter_options options = {.deadline_us = 20 * SECOND_US, .processes = 1};
      world_open(&w, stores_url(store, url), rules[i], &options);
      lease_fill(&w, "k", 8);
      lease_use_down_to(&w, "k", 7);
      int64_t room = world_peek(&w, "k", 1).remaining;
      weir_limiter_counts before = lease_counts(w.limiter);
      assert_true(room >= 700);
      assert_int_equal(lease_store_room(&w, rules[i], "k"), room - 7);
      weir_decision decision = world_take(&w, "k", 700);
      assert_true(decision.allowed);
      assert_int_equal(decision.cost, 700);
      assert_int_equal(decision.remaining, room - 700);
      assert_int_equal(lease_counts(w.limiter).lease_used, before.lease_used + 7);
      assert_int_equal(lease_store_room(&w, rules[i], "k") + lease_held(w.limiter), room - 700);
      /* All that is left, to the last one. */
      assert_false(world_take(&w, "k", room - 700 + 1).allowed);
      assert_true(world_take(&w, "k", room - 700).allowed);
      assert_false(world_take(&w, "k", 1).allowed);
      assert_int_equal(lease_held(w.limiter), 0);
      world_close(&w);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decides_as_without_leases),
      cmocka_unit_test(a_bucket_decides_at_one_moment_as_without_leases),
      cmocka_unit_test(a_bucket_in_time_is_never_over_its_whole_burst),
      cmocka_unit_test(takes_700_while_7_lie_in_the_stock),
  };
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

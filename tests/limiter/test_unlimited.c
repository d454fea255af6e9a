/* Keys that are unlimited: all is admitted and nothing is charged, and what was charged before counts as if they
 * had never been. A twin of each is asked only what was asked while its key had a limit. On every store. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/away.h"
#include "limiter/stores.h"
#include "limiter/world.h"

enum { REQUESTS = 150, TAKEN = 12, TEXT_BYTES = 128 };

static uint32_t chance(uint32_t *seed, uint32_t of) {
  *seed = *seed * 1664525U + 1013904223U;
  return (*seed >> 8) % of;
}

static weir_limiter_options patient(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US};
}

static weir_limiter_options reading(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US, .limits_us = SECOND_US};
}

static void set(weir_limiter *limiter, const char *key, unsigned kind) {
  weir_limit one = {.key = key, .key_length = strlen(key), .kind = kind};
  weir_message why = {""};
  if (weir_limiter_set_limits(limiter, &one, 1, &why) != WEIR_OK) fail_msg("%s", why.text);
}

static weir_decision decide(weir_limiter *limiter, weir_request request, const char *class_name) {
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[1] = {&extra};
  weir_message why = {""};
  extra.class_name = class_name;
  if (weir_decide_extra(&limiter, &request, class_name != NULL ? extras : NULL, 1, &why) != WEIR_OK)
    fail_msg("%s", why.text);
  return request.decision;
}

static weir_request ask(int64_t cost, unsigned flags) {
  return (weir_request){.key = "k", .key_length = 1, .cost = cost, .flags = flags};
}

/* --- held against a twin -----------------------------------------------------------------------
 */

static const struct family {
  const char *rule, *class_name; /* of every second request */
  int64_t most, most_of_class;
  int64_t cost_most;
  bool settles;
} families[] = {
    {"fixed-window:10/1m,name=f,most=5000,classes=low:50%", "low", 5000, 2500, 9, true},
    {"sliding-window:10/1m,cells=8,name=s,most=5000", NULL, 5000, 0, 9, true},
    {"sliding-window:10/1m,strict,name=t,most=900,count=all", NULL, 900, 0, 9, true},
    {"sliding-log:10/1m,name=l,most=30", NULL, 30, 0, 1, false},
    {"quota:10/1m,name=q,most=5000,debt=5", NULL, 5000, 0, 9, true},
    {"token-bucket:20/1m,name=b,most=800", NULL, 800, 0, 5, true},
    {"leaky-bucket:20/1m,queue=9,name=y,most=800", NULL, 400, 0, 3, false},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

/* What a limiter and its twin decided at once; `twin` is not written where the key was unlimited. */
typedef struct both_taken {
  weir_decision one, twin;
  bool was_unlimited;
} both_taken;

typedef struct pair {
  const struct family *of;
  world w, twin;
  weir_limiter *writer;
  bool unlimited;
  both_taken taken[TAKEN];
  size_t count;
  char where[TEXT_BYTES];
} pair;

static void assert_alike(const pair *p, int at, weir_decision one, weir_decision other) {
  if (one.allowed != other.allowed || one.limit != other.limit || one.source != other.source ||
      one.remaining != other.remaining || one.retry_after_us != other.retry_after_us ||
      one.reset_after_us != other.reset_after_us || one.delay_us != other.delay_us ||
      one.cost != other.cost)
    fail_msg("%s, request %d: allowed %d %d, limit %d %d, left %d %d, retry %d %d, cost %d %d",
             p->where, at, one.allowed, other.allowed, (int)one.limit, (int)other.limit,
             (int)one.remaining, (int)other.remaining, (int)one.retry_after_us,
             (int)other.retry_after_us, (int)one.cost, (int)other.cost);
}

static void assert_free(const pair *p, int at, weir_decision d, int64_t cost, int64_t most) {
  if (!d.allowed || d.source != WEIR_SOURCE_UNLIMITED || d.limit != most || d.remaining != most ||
      d.cost != cost || d.reset_after_us != 0 || d.delay_us != 0 || d.retry_after_us != 0)
    fail_msg("%s, request %d: allowed %d, source %d, limit %d, left %d, cost %d", p->where, at,
             d.allowed, (int)d.source, (int)d.limit, (int)d.remaining, (int)d.cost);
}

/* By a process that has just begun. */
static weir_limiter *fresh(pair *p) {
  weir_limiter_options options = patient();
  return world_limiter(&p->twin, p->of->rule, &options);
}

static void ask_both(pair *p, int at, uint32_t *seed) {
  uint32_t what = chance(seed, 10);
  unsigned flags = what == 0 ? WEIR_REQUEST_PEEK : what < 3 ? WEIR_REQUEST_UP_TO : 0;
  const char *class_name = chance(seed, 2) == 0 ? p->of->class_name : NULL;
  int64_t cost = 1 + chance(seed, (uint32_t)p->of->cost_most);
  both_taken *next = &p->taken[p->count % TAKEN];
  *next = (both_taken){.was_unlimited = p->unlimited,
                       .one = decide(p->w.limiter, ask(cost, flags), class_name)};
  if (p->unlimited) {
    assert_free(p, at, next->one, cost, class_name != NULL ? p->of->most_of_class : p->of->most);
  } else {
    weir_limiter *limiter = fresh(p);
    next->twin = decide(limiter, ask(cost, flags), class_name);
    weir_limiter_destroy(limiter);
    next->one.source = next->twin.source; /* a denial that is repeated */
    assert_alike(p, at, next->one, next->twin);
  }
  if (next->one.allowed && flags != WEIR_REQUEST_PEEK && class_name == NULL && p->count < TAKEN)
    p->count++;
}

static void end_both(pair *p, int at, uint32_t *seed) {
  if (p->count == 0) return;
  both_taken last = p->taken[--p->count];
  bool settles = p->of->settles && chance(seed, 2) == 0;
  int64_t real = settles ? chance(seed, (uint32_t)last.one.cost + 1) : last.one.cost;
  int64_t back = last.one.cost - real;
  weir_message why = {""};
  weir_status one = settles
                        ? weir_limiter_settle(p->w.limiter, "k", 1, real, &last.one, &why)
                        : weir_limiter_refund(p->w.limiter, "k", 1, last.one.cost, &last.one, &why);
  if (last.was_unlimited) {
    if (one != WEIR_OK) fail_msg("%s, request %d: %s", p->where, at, why.text);
    assert_int_equal(last.one.cost, settles ? real : 0);
    return;
  }
  weir_limiter *limiter = fresh(p);
  weir_status twin = settles
                         ? weir_limiter_settle(limiter, "k", 1, real, &last.twin, NULL)
                         : weir_limiter_refund(limiter, "k", 1, last.twin.cost, &last.twin, NULL);
  weir_limiter_destroy(limiter);
  (void)back;
  if (one != twin || last.one.cost != last.twin.cost)
    fail_msg("%s, request %d: settled %s %s: %d %d, cost %d %d", p->where, at,
             settles ? "to" : "back", why.text, (int)one, (int)twin, (int)last.one.cost,
             (int)last.twin.cost);
}

/* What the key is changes by another process, a second before it is asked of again; what was taken while it was
 * something else is settled and goes back. */
static void check_family(int store, const struct family *of, uint32_t seed) {
  char urls[2][STORE_URL_BYTES];
  weir_limiter_options options = reading(), plain = patient();
  pair p = {.of = of};
  int64_t at_us = 0;
  world_open(&p.w, stores_url(store, urls[0]), of->rule, &options);
  world_open(&p.twin, stores_url(store, urls[1]), of->rule, &plain);
  p.writer = world_limiter(&p.w, of->rule, &plain);
  snprintf(p.where, sizeof p.where, "%.40s on %s, %d", of->rule, stores[store].name, (int)seed);
  for (int n = 0; n < REQUESTS; n++) {
    at_us += chance(&seed, 12) == 0 ? 20 * SECOND_US : chance(&seed, 500000);
    if (chance(&seed, 5) == 0) {
      p.unlimited = !p.unlimited;
      set(p.writer, "k", p.unlimited ? WEIR_KEY_LIMIT_UNLIMITED : WEIR_KEY_LIMIT_NONE);
      at_us += SECOND_US;
    }
    world_set(&p.w, at_us);
    world_set(&p.twin, at_us);
    if (chance(&seed, 4) == 0)
      end_both(&p, n, &seed);
    else
      ask_both(&p, n, &seed);
  }
  weir_limiter_destroy(p.writer);
  world_close(&p.w);
  world_close(&p.twin);
}

static void what_an_unlimited_key_uses_is_not_counted(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (size_t i = 0; i < FAMILIES; i++)
      for (uint32_t seed = 1; seed <= 2; seed++)
        check_family(store, &families[i], seed);
}

/* --- beside other rules ------------------------------------------------------------------------
 */

enum { FREE, COUNTS }; /* rules of the stack */

static weir_decision take_each(weir_limiter *limiter, int64_t free, int64_t counted) {
  const int64_t costs[] = {free, counted};
  weir_request request = {.key = "k", .key_length = 1, .costs = costs};
  return decide(limiter, request, NULL);
}

static int64_t left_of(world *w, const char *rule) {
  weir_limiter_options plain = patient();
  weir_limiter *limiter = world_limiter(w, rule, &plain);
  int64_t left = limiter_peek(limiter, "k", 1).remaining;
  weir_limiter_destroy(limiter);
  return left;
}

/* A stack and its rules, of which the first has most=. Cold the record is read with the charge, or before. */
static void check_stack(int store, const char *free, const char *counts, bool cold) {
  char url[STORE_URL_BYTES], text[2 * TEXT_BYTES];
  weir_limiter_options options = reading(), plain = patient();
  weir_limiter_counts sums = WEIR_LIMITER_COUNTS_INIT;
  world w;
  snprintf(text, sizeof text, "%s;%s", free, counts);
  world_open(&w, stores_url(store, url), text, &options);
  weir_limiter *writer = world_limiter(&w, text, &plain);
  assert_int_equal(limiter_take(writer, "k", 2).remaining, 1);
  set(cold ? writer : w.limiter, "k", WEIR_KEY_LIMIT_UNLIMITED);
  weir_decision taken = world_take(&w, "k", 5);
  assert_true(taken.allowed);
  assert_int_equal(taken.source, WEIR_SOURCE_UNLIMITED);
  assert_int_equal(taken.rule, COUNTS);
  assert_int_equal(taken.remaining, 13);
  assert_int_equal(left_of(&w, free), 1);
  assert_int_equal(left_of(&w, counts), 13);
  assert_int_equal(world_peek(&w, "k", 1).remaining, 13);

  weir_decision seen = decide(w.limiter, ask(40, WEIR_REQUEST_UP_TO | WEIR_REQUEST_PEEK), NULL);
  assert_int_equal(seen.cost, 13);
  weir_decision up_to = decide(w.limiter, ask(40, WEIR_REQUEST_UP_TO), NULL);
  assert_int_equal(up_to.cost, 13);
  assert_int_equal(up_to.source, WEIR_SOURCE_UNLIMITED);
  weir_decision denied = world_take(&w, "k", 1);
  assert_false(denied.allowed);
  assert_int_equal(denied.rule, COUNTS);
  assert_true(take_each(w.limiter, 7, 0).allowed); /* of which the other rule has no say */
  assert_false(take_each(w.limiter, 1, 1).allowed);
  assert_int_equal(left_of(&w, free), 1);
  assert_int_equal(left_of(&w, counts), 0);

  /* What goes back goes back where it was charged, whatever the key is by now. */
  set(w.limiter, "k", WEIR_KEY_LIMIT_NONE);
  assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 3, &up_to, NULL), WEIR_OK);
  assert_int_equal(up_to.cost, 10);
  assert_int_equal(left_of(&w, free), 1);
  assert_int_equal(left_of(&w, counts), 3);
  assert_int_equal(weir_limiter_settle(w.limiter, "k", 1, 6, &taken, NULL), WEIR_OK);
  assert_int_equal(taken.cost, 6);
  assert_int_equal(left_of(&w, free), 1);
  assert_int_equal(left_of(&w, counts), 2);
  weir_limiter_read_counts(w.limiter, &sums);
  assert_int_equal(sums.by_unlimited, 3);
  weir_limiter_destroy(writer);
  world_close(&w);
}

static void other_rules_of_a_stack_count(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (int cold = 0; cold <= 1; cold++) {
      check_stack(store, "sliding-window:3/1h,name=a,most=50", "fixed-window:20/1h,name=b", cold);
      check_stack(store, "fixed-window:3/1h,name=a,most=14", "fixed-window:20/1h,name=b", cold);
      check_stack(store, "fixed-window:3/1h,name=a,most=50", "token-bucket:20/1h,name=b", cold);
      check_stack(store, "token-bucket:3/1h,name=a,most=50", "quota:20/1h,name=b", cold);
    }
}

/* --- what is held ------------------------------------------------------------------------------
 */

static weir_reservation *reserve(weir_limiter *limiter) {
  weir_reservation *made = NULL;
  weir_request request = ask(1, 0);
  assert_int_equal(weir_limiter_reserve(limiter, &request, &made, NULL), WEIR_OK);
  assert_int_equal(made != NULL, request.decision.allowed);
  return made;
}

static void end(weir_reservation *made, weir_status (*ends)(weir_reservation *, weir_message *)) {
  assert_non_null(made);
  weir_message why = {""};
  if (ends(made, &why) != WEIR_OK) fail_msg("%s", why.text);
  weir_reservation_destroy(made);
}

/* Places that were entered before stay held and are left; those of an unlimited key are none. */
static void an_unlimited_key_needs_no_places(void **state) {
  weir_limiter_options options = reading();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "in-flight:2/5m,name=h,most=5", &options);
    weir_reservation *before = reserve(w.limiter);
    set(w.limiter, "k", WEIR_KEY_LIMIT_UNLIMITED);
    weir_reservation *free[9];
    for (int i = 0; i < 9; i++) {
      free[i] = reserve(w.limiter);
      assert_true(weir_reservation_held(free[i]));
      assert_int_equal(weir_reservation_token(free[i]), 0);
    }
    end(free[0], weir_reservation_commit);
    set(w.limiter, "k", WEIR_KEY_LIMIT_NONE);
    end(free[1], weir_reservation_commit);
    end(free[2], weir_reservation_cancel);
    weir_reservation *second = reserve(w.limiter);
    assert_null(reserve(w.limiter)); /* two are held, and no more than two */
    end(free[3], weir_reservation_cancel);
    assert_null(reserve(w.limiter));
    set(w.limiter, "k", WEIR_KEY_LIMIT_UNLIMITED);
    end(before, weir_reservation_commit);
    end(second, weir_reservation_cancel);
    set(w.limiter, "k", WEIR_KEY_LIMIT_NONE);
    before = reserve(w.limiter);
    second = reserve(w.limiter);
    assert_null(reserve(w.limiter));
    end(before, weir_reservation_commit);
    end(second, weir_reservation_commit);
    assert_int_equal(weir_release_together((weir_reservation *const *)(free + 4), 5, NULL, NULL),
                     WEIR_OK);
    for (int i = 4; i < 9; i++)
      weir_reservation_destroy(free[i]);
    assert_int_equal(world_peek(&w, "k", 1).remaining, 2);
    world_close(&w);
  }
}

/* Of a stack each rule has its own part of a reservation. */
static void a_reservation_ends_where_it_was_charged(void **state) {
  weir_limiter_options options = reading();
  static const char *const rules[] = {"fixed-window:3/1h,name=a,most=50", "quota:20/1h,name=b"};
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES], text[TEXT_BYTES];
    int64_t costs[] = {9, 7};
    world w;
    snprintf(text, sizeof text, "%s;%s", rules[FREE], rules[COUNTS]);
    world_open(&w, stores_url(store, url), text, &options);
    assert_true(world_take(&w, "k", 2).allowed);
    set(w.limiter, "k", WEIR_KEY_LIMIT_UNLIMITED);
    weir_reservation *settled = reserve(w.limiter), *cancelled = reserve(w.limiter);
    assert_int_equal(left_of(&w, rules[FREE]), 1);
    assert_int_equal(left_of(&w, rules[COUNTS]), 16);
    set(w.limiter, "k", WEIR_KEY_LIMIT_NONE);
    end(cancelled, weir_reservation_cancel);
    assert_int_equal(left_of(&w, rules[FREE]), 1);
    assert_int_equal(left_of(&w, rules[COUNTS]), 17);
    assert_int_equal(weir_reservation_settle(settled, costs, NULL), WEIR_OK);
    weir_reservation_destroy(settled);
    assert_int_equal(left_of(&w, rules[FREE]), 1);
    assert_int_equal(left_of(&w, rules[COUNTS]), 11);
    world_close(&w);
  }
}

/* --- all or none -------------------------------------------------------------------------------
 */

static bool take_all(weir_limiter *one, weir_limiter *other, weir_request requests[2]) {
  weir_limiter *limiters[] = {one, other};
  size_t denied_by = 0;
  weir_message why = {""};
  requests[0] = requests[1] = ask(1, 0);
  weir_status status = weir_decide_all(limiters, requests, 2, &denied_by, &why);
  if (status != WEIR_OK) fail_msg("%s", why.text);
  return requests[0].decision.allowed && requests[1].decision.allowed;
}

static void a_member_may_be_unlimited(void **state) {
  static const char *const firsts[] = {
      "fixed-window:1/1h,name=a,most=50",
      "fixed-window:1/1h,name=a,most=50;fixed-window:20/1h,name=c",
      "fixed-window:1/1h,name=a,most=50,lease=1s;fixed-window:20/1h,name=c,lease=1s"};
  weir_limiter_options options = reading(), plain = patient();
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (int stacked = 0; stacked <= 2; stacked++) {
      char url[STORE_URL_BYTES];
      weir_request requests[2];
      world w;
      world_open(&w, stores_url(store, url), firsts[stacked], &options);
      weir_limiter *other = world_limiter(&w, "fixed-window:3/1h,name=b", &plain);
      weir_limiter *writer = world_limiter(&w, firsts[stacked], &plain);
      assert_true(limiter_take(writer, "k", 1).allowed);
      assert_false(take_all(w.limiter, other, requests));
      set(writer, "k", WEIR_KEY_LIMIT_UNLIMITED);
      world_set(&w, SECOND_US);
      for (int i = 0; i < 3; i++)
        assert_true(take_all(w.limiter, other, requests));
      assert_int_equal(requests[0].decision.source, WEIR_SOURCE_UNLIMITED);
      for (int i = 0; i < 3; i++)
        assert_false(take_all(w.limiter, other, requests));
      /* By one that knows nothing of the other key: it is denied by its own charge. */
      for (int apart = 0; apart <= 1; apart++) {
        weir_limiter_options unlike = patient();
        if (apart) unlike.deadline_us -= SECOND_US;
        weir_limiter *cold = world_limiter(&w, "fixed-window:3/1h,name=b", &unlike);
        assert_false(take_all(w.limiter, cold, requests));
        weir_limiter_destroy(cold);
      }
      assert_int_equal(weir_limiter_return_leases(w.limiter, NULL), WEIR_OK);
      assert_int_equal(left_of(&w, firsts[0]), 0);
      if (stacked) assert_int_equal(left_of(&w, "fixed-window:20/1h,name=c"), 16);
      set(w.limiter, "k", WEIR_KEY_LIMIT_NONE);
      assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 1, &requests[0].decision, NULL),
                       WEIR_BAD_ARGUMENT); /* a denial */
      assert_int_equal(left_of(&w, firsts[0]), 0);
      weir_limiter_destroy(writer);
      weir_limiter_destroy(other);
      world_close(&w);
    }
}

/* A key that has used all that any may have, and was denied shortly before it is read to be unlimited: by a peek. Neither a
 * member of a decision, for which what is known answers, nor a request alone is told that denial. */
static void no_denial_of_before_answers_for_it(void **state) {
  static const char *const firsts[] = {"fixed-window:1/1h,name=a,most=1",
                                       "fixed-window:1/1h,name=a,most=1,lease=1s"};
  weir_limiter_options options = reading(), plain = patient();
  options.limits_us = SECOND_US / 100;
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (int n = 0; n < 4; n++) {
      char url[STORE_URL_BYTES];
      weir_request requests[2];
      world w;
      world_open(&w, stores_url(store, url), firsts[n / 2], &options);
      weir_limiter *other = world_limiter(&w, "fixed-window:3/1h,name=b", &plain);
      weir_limiter *writer = world_limiter(&w, firsts[0], &plain);
      assert_true(world_take(&w, "k", 1).allowed);
      assert_false(world_take(&w, "k", 1).allowed);
      assert_false(take_all(w.limiter, other, requests));
      set(writer, "k", WEIR_KEY_LIMIT_UNLIMITED);
      world_set(&w, options.limits_us);
      assert_int_equal(world_peek(&w, "k", 1).source, WEIR_SOURCE_UNLIMITED);
      if (n % 2 == 0)
        assert_true(take_all(w.limiter, other, requests));
      else
        assert_int_equal(world_take(&w, "k", 1).source, WEIR_SOURCE_UNLIMITED);
      weir_limiter_destroy(writer);
      weir_limiter_destroy(other);
      world_close(&w);
    }
}

/* --- what it costs, and while the store is away ------------------------------------------------
 */

static uint64_t trips_of_take(world *w) {
  weir_limiter_counts before = WEIR_LIMITER_COUNTS_INIT, after = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(w->limiter, &before);
  assert_int_equal(world_take(w, "k", 4).source, WEIR_SOURCE_UNLIMITED);
  weir_limiter_read_counts(w->limiter, &after);
  return after.round_trips - before.round_trips;
}

static void an_unlimited_key_costs_a_get_in_each_time(void **state) {
  weir_limiter_options options = reading(), plain = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "fixed-window:5/1h,name=w,most=100", &options);
    weir_limiter *writer = world_limiter(&w, "fixed-window:5/1h,name=w,most=100", &plain);
    set(writer, "k", WEIR_KEY_LIMIT_UNLIMITED);
    assert_int_equal(trips_of_take(&w), 2); /* with a charge, which goes back */
    assert_int_equal(trips_of_take(&w), 0);
    world_set(&w, SECOND_US - 1);
    assert_int_equal(trips_of_take(&w), 0);
    world_set(&w, SECOND_US);
    assert_int_equal(trips_of_take(&w), 1);
    set(w.limiter, "k", WEIR_KEY_LIMIT_NONE);
    assert_true(world_take(&w, "k", 1).allowed);
    set(w.limiter, "k", WEIR_KEY_LIMIT_UNLIMITED);
    assert_int_equal(trips_of_take(&w), 0);
    world_set(&w, 2 * SECOND_US);
    assert_int_equal(trips_of_take(&w), 1); /* alone, as it most likely is unlimited still */
    assert_int_equal(limiter_peek(writer, "k", 1).remaining, 4);
    weir_limiter_destroy(writer);
    world_close(&w);
  }
}

static void a_key_that_is_known_to_be_unlimited_stays_so(void **state) {
  weir_limiter_options options = {.deadline_us = AWAY_DEADLINE_US, .limits_us = SECOND_US};
  world w;
  (void)state;
  away_open_with(&w, "fixed-window:5/1h,name=o,most=100", &options);
  set(w.limiter, "k", WEIR_KEY_LIMIT_UNLIMITED);
  assert_true(world_take(&w, "k", 4).allowed);
  the_fake.trouble = FAKE_AWAY;
  world_set(&w, 2 * SECOND_US);
  for (int i = 0; i < 9; i++)
    assert_int_equal(world_take(&w, "k", 4).source, WEIR_SOURCE_UNLIMITED);
  the_fake.trouble = FAKE_WELL;
  world_set(&w, 4 * SECOND_US);
  set(w.limiter, "k", WEIR_KEY_LIMIT_NONE);
  assert_int_equal(world_take(&w, "k", 1).remaining, 4);
  away_expect(&w, 0, 0, 0);
  world_close(&w);
}

/* What an account owes is paid in parts, with groups of its key. One of these reads that the key has become
 * unlimited, and is decided anew: with one payment, as all others. */
static void what_is_owed_of_an_unlimited_key_is_paid_once(void **state) {
  static const char free[] = "fixed-window:9/1m,name=a,most=100",
                    counts[] = "fixed-window:50/1m,name=b";
  weir_limiter_options plain = {.deadline_us = AWAY_DEADLINE_US};
  weir_limiter_options options = {
      .deadline_us = AWAY_DEADLINE_US, .limits_us = SECOND_US, .peers = 1};
  char rules[TEXT_BYTES];
  world w;
  (void)state;
  snprintf(rules, sizeof rules, "%s;%s", free, counts);
  away_open_with(&w, rules, &options);
  weir_limiter *writer = world_limiter(&w, rules, &plain);
  away_take(&w, "k", 1);
  the_fake.trouble = FAKE_AWAY;
  assert_true(take_each(w.limiter, 1, 30).allowed);
  the_fake.trouble = FAKE_WELL;
  away_take(&w, "k", 1);
  away_expect(&w, 31, 1 + 9 - 1, 0); /* a group charges 9 at the most */
  set(writer, "k", WEIR_KEY_LIMIT_UNLIMITED);
  world_set(&w, SECOND_US);
  weir_decision taken = world_take(&w, "k", 2);
  assert_true(taken.allowed);
  assert_int_equal(taken.source, WEIR_SOURCE_UNLIMITED);
  away_expect(&w, 31, 31, 0); /* now 50 */
  assert_int_equal(away_remaining(&w, free, "k"), 9 - 3);
  assert_int_equal(away_remaining(&w, counts, "k"), 50 - 1 - 1 - 2 - 30);
  weir_limiter_destroy(writer);
  world_close(&w);
}

/* What is owed was counted by the rule's limit, so it may be more than the key may have: it takes all the room
 * there is, in front of requests that could have had it. */
static void what_a_key_with_a_lower_limit_owes_is_paid_first(void **state) {
  static const char rule[] = "fixed-window:100/1h,name=d,most=1000";
  weir_limiter_options plain = {.deadline_us = AWAY_DEADLINE_US};
  weir_limiter_options options = {
      .deadline_us = AWAY_DEADLINE_US, .limits_us = 60 * SECOND_US, .peers = 1};
  weir_limit three = {.key = "k", .key_length = 1, .kind = WEIR_KEY_LIMIT_NUMBER, .limit = 3};
  weir_request requests[3];
  world w;
  (void)state;
  away_open_with(&w, rule, &options);
  weir_limiter *writer = world_limiter(&w, rule, &plain);
  assert_int_equal(weir_limiter_set_limits(writer, &three, 1, NULL), WEIR_OK);
  assert_int_equal(world_peek(&w, "k", 1).limit, 3);
  assert_int_equal(away_admits(&w, "k", 10), 10);
  for (int i = 0; i < 3; i++)
    requests[i] = (weir_request){.key = "k", .key_length = 1, .cost = 1};
  assert_int_equal(weir_limiter_decide(w.limiter, requests, 3, NULL), WEIR_OK);
  for (int i = 0; i < 3; i++)
    assert_false(requests[i].decision.allowed);
  weir_limiter_destroy(writer);
  world_close(&w);
}

/* For a second after an outage a process goes on to hold its share; of a key that has become unlimited there is
 * nothing to hold, also while its record is read once more. */
static void an_unlimited_key_is_not_held(void **state) {
  weir_limiter_options plain = {.deadline_us = AWAY_DEADLINE_US};
  weir_limiter_options options = {
      .deadline_us = AWAY_DEADLINE_US, .limits_us = SECOND_US / 10, .peers = 4};
  static const char rule[] = "fixed-window:9/1m,name=h,most=100";
  world w;
  (void)state;
  away_open_with(&w, rule, &options);
  weir_limiter *writer = world_limiter(&w, rule, &plain);
  away_take(&w, "k", 1);
  assert_int_equal(away_admits(&w, "k", 5), 2);
  world_set(&w, 10 * SECOND_US);
  away_withheld(&w, "k", 1);
  set(writer, "k", WEIR_KEY_LIMIT_UNLIMITED);
  world_set(&w, 10 * SECOND_US + options.limits_us);
  assert_int_equal(world_peek(&w, "k", 1).source, WEIR_SOURCE_UNLIMITED);
  for (int i = 2; i < 9; i++) {
    world_set(&w, 10 * SECOND_US + i * options.limits_us);
    assert_int_equal(world_take(&w, "k", 5).source, WEIR_SOURCE_UNLIMITED);
  }
  weir_limiter_destroy(writer);
  world_close(&w);
}

static void rules_that_share_a_log_have_no_unlimited_keys(void **state) {
  weir_limiter_options options = reading();
  char url[STORE_URL_BYTES];
  weir_limit one = {.key = "k", .key_length = 1, .kind = WEIR_KEY_LIMIT_UNLIMITED};
  weir_message why = {""};
  world w;
  (void)state;
  world_open(&w, stores_url(0, url), "sliding-log:2/1m,name=l,most=9;sliding-log:20/1h,name=l",
             &options);
  assert_int_equal(weir_limiter_set_limits(w.limiter, &one, 1, &why), WEIR_BAD_ARGUMENT);
  assert_non_null(strstr(why.text, "shares its log with another rule, and accepted are 1 to 9"));
  assert_int_equal(weir_limiter_parse_limit(w.limiter, "unlimited", 9, &one, &why),
                   WEIR_BAD_ARGUMENT);
  world_close(&w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_an_unlimited_key_uses_is_not_counted),
      cmocka_unit_test(other_rules_of_a_stack_count),
      cmocka_unit_test(an_unlimited_key_needs_no_places),
      cmocka_unit_test(a_reservation_ends_where_it_was_charged),
      cmocka_unit_test(a_member_may_be_unlimited),
      cmocka_unit_test(no_denial_of_before_answers_for_it),
      cmocka_unit_test(an_unlimited_key_costs_a_get_in_each_time),
      cmocka_unit_test(a_key_that_is_known_to_be_unlimited_stays_so),
      cmocka_unit_test(what_is_owed_of_an_unlimited_key_is_paid_once),
      cmocka_unit_test(what_a_key_with_a_lower_limit_owes_is_paid_first),
      cmocka_unit_test(an_unlimited_key_is_not_held),
      cmocka_unit_test(rules_that_share_a_log_have_no_unlimited_keys),
  };
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

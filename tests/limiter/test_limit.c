/* Requests that bring a limit of their own: each is decided as by a rule with that limit which shares the
 * counts, also where it is of a class. On every store. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"

enum { LIMITS = 4, REQUESTS = 150, TEXT_BYTES = 128 };

static uint32_t chance(uint32_t *seed, uint32_t of) {
  *seed = *seed * 1664525U + 1013904223U;
  return (*seed >> 8) % of;
}

static weir_limiter_options patient(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US};
}

static weir_request ask(int64_t cost, unsigned flags) {
  return (weir_request){.key = "k", .key_length = 1, .cost = cost, .flags = flags};
}

static weir_decision decide_in(weir_limiter *limiter, int64_t limit, const char *class_name,
                               weir_request request) {
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[1] = {&extra};
  bool says = limit != 0 || class_name != NULL;
  weir_message why = {""};
  extra.limit = limit;
  extra.class_name = class_name;
  if (weir_decide_extra(&limiter, &request, says ? extras : NULL, 1, &why) != WEIR_OK)
    fail_msg("%s", why.text);
  return request.decision;
}

static weir_decision decide(weir_limiter *limiter, int64_t limit, weir_request request) {
  return decide_in(limiter, limit, NULL, request);
}

static weir_decision take(weir_limiter *limiter, int64_t limit, int64_t cost) {
  return decide(limiter, limit, ask(cost, 0));
}

/* A rule as it is written for each of several limits; the first is the rule's own. */
typedef struct family {
  const char *name, *format; /* of limit, and burst or queue */
  int64_t limits[LIMITS], seconds[LIMITS];
  int64_t cost_most;
} family;

#define CLASSES ",classes=low:50%%|high:80%%"

static const family families[] = {
    {"fixed", "fixed-window:%" PRId64 "/1m,name=f,most=5000" CLASSES, {10, 5000, 3, 40}, {0}, 9},
    {"sliding",
     "sliding-window:%" PRId64 "/1m,cells=8,name=s,most=5000" CLASSES,
     {10, 5000, 3, 40},
     {0},
     9},
    {"strict",
     "sliding-window:%" PRId64 "/1m,strict,name=t,most=900" CLASSES,
     {10, 900, 1, 12},
     {0},
     9},
    {"log", "sliding-log:%" PRId64 "/1m,name=l,most=30" CLASSES, {10, 30, 1, 12}, {0}, 1},
    {"quota", "quota:%" PRId64 "/1m,name=q,most=5000" CLASSES, {10, 5000, 3, 40}, {0}, 9},
    {"token",
     "token-bucket:%" PRId64 "/1m,burst=%" PRId64 ",name=b,most=800" CLASSES,
     {20, 800, 4, 40},
     {10, 400, 2, 20},
     5},
    {"leaky",
     "leaky-bucket:%" PRId64 "/1m,queue=%" PRId64 ",name=y,most=800" CLASSES,
     {20, 800, 4, 40},
     {9, 399, 1, 19},
     3},
};

enum { FAMILIES = sizeof families / sizeof families[0] };

static const char *write_rule(const family *of, int i, char text[TEXT_BYTES]) {
  int written = snprintf(text, TEXT_BYTES, of->format, of->limits[i], of->seconds[i]);
  assert_true(written > 0 && written < TEXT_BYTES);
  return text;
}

/* By a process that has just begun, and whose rule has this limit. */
static weir_decision decide_as_rule(world *w, const family *of, int i, const char *class_name,
                                    weir_request request) {
  char text[TEXT_BYTES];
  weir_limiter_options options = patient();
  weir_limiter *limiter = world_limiter(w, write_rule(of, i, text), &options);
  weir_decision decision = decide_in(limiter, 0, class_name, request);
  weir_limiter_destroy(limiter);
  return decision;
}

static void assert_alike(const char *where, int at, weir_decision one, weir_decision other) {
  if (one.allowed != other.allowed || one.limit != other.limit ||
      one.remaining != other.remaining || one.retry_after_us != other.retry_after_us ||
      one.reset_after_us != other.reset_after_us || one.delay_us != other.delay_us ||
      one.cost != other.cost)
    fail_msg("%s, request %d: allowed %d %d, limit %d %d, left %d %d, retry %d %d, reset %d %d",
             where, at, one.allowed, other.allowed, (int)one.limit, (int)other.limit,
             (int)one.remaining, (int)other.remaining, (int)one.retry_after_us,
             (int)other.retry_after_us, (int)one.reset_after_us, (int)other.reset_after_us);
}

static void set(weir_limiter *limiter, const char *key, unsigned kind, int64_t limit) {
  weir_limit one = {.key = key, .key_length = strlen(key), .kind = kind, .limit = limit};
  weir_message why = {""};
  if (weir_limiter_set_limits(limiter, &one, 1, &why) != WEIR_OK) fail_msg("%s", why.text);
}

/* Costs that never fit, requests that are content with less and looks among them. The limit comes with
 * the request, or it is set for the key by another process, a second before, as a number or by a tier. */
enum { BROUGHT, IS_SET, BY_TIER };

static const char *const class_names[3] = {NULL, "low", "high"};

static void set_tier(weir_limiter *limiter, const char *key, const char *name) {
  weir_limit one = {.key = key, .key_length = strlen(key)};
  weir_message why = {""};
  if (weir_limiter_parse_limit(limiter, name, strlen(name), &one, &why) != WEIR_OK ||
      weir_limiter_set_limits(limiter, &one, 1, &why) != WEIR_OK)
    fail_msg("%s", why.text);
}

static void check_family(int store, const family *of, int how) {
  bool is_set = how != BROUGHT;
  char urls[2][STORE_URL_BYTES], text[2 * TEXT_BYTES], where[TEXT_BYTES];
  static const char *const tiers[LIMITS] = {"t0", "t1", "t2", "t3"};
  weir_limiter_options options = patient(), plain = patient();
  world limited, ruled;
  uint32_t seed = 7;
  int64_t at_us = 0;
  if (is_set) options.limits_us = SECOND_US;
  world_open(&ruled, stores_url(store, urls[1]), write_rule(of, 0, text), &plain);
  if (how == BY_TIER)
    snprintf(text + strlen(text), TEXT_BYTES,
             ",tiers=t0:%" PRId64 "|t1:%" PRId64 "|t2:%" PRId64 "|t3:%" PRId64, of->limits[0],
             of->limits[1], of->limits[2], of->limits[3]);
  world_open(&limited, stores_url(store, urls[0]), text, &options);
  weir_limiter *writer = world_limiter(&limited, text, &plain);
  snprintf(where, sizeof where, "%s on %s%s", of->name, stores[store].name, is_set ? ", set" : "");
  for (int n = 0, i = 0; n < (how == BY_TIER ? REQUESTS / 2 : REQUESTS); n++) {
    bool changes = !is_set || chance(&seed, 4) == 0;
    if (changes) i = (int)chance(&seed, LIMITS);
    uint32_t what = chance(&seed, 10);
    unsigned flags = what == 0 ? WEIR_REQUEST_PEEK : what < 3 ? WEIR_REQUEST_UP_TO : 0;
    const char *class_name = class_names[chance(&seed, 3)];
    weir_request request = ask(1 + chance(&seed, (uint32_t)of->cost_most), flags);
    at_us += chance(&seed, 12) == 0 ? 20 * SECOND_US : chance(&seed, 500000);
    if (how == BY_TIER && changes) set_tier(writer, "k", tiers[i]);
    if (how == IS_SET && changes)
      set(writer, "k", i == 0 ? WEIR_KEY_LIMIT_NONE : WEIR_KEY_LIMIT_NUMBER,
          i == 0 ? 0 : of->limits[i]);
    if (is_set && changes) at_us += SECOND_US;
    world_set(&limited, at_us);
    world_set(&ruled, at_us);
    int64_t limit = i == 0 || is_set ? 0 : of->limits[i];
    weir_decision one = decide_in(limited.limiter, limit, class_name, request);
    assert_alike(where, n, one, decide_as_rule(&ruled, of, i, class_name, request));
  }
  weir_limiter_destroy(writer);
  world_close(&limited);
  world_close(&ruled);
}

static void a_limit_decides_as_a_rule_with_it(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (size_t i = 0; i < FAMILIES; i++)
      check_family(store, &families[i], BROUGHT);
}

static void a_limit_that_is_set_decides_as_a_rule_with_it(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (size_t i = 0; i < FAMILIES; i++)
      check_family(store, &families[i], IS_SET);
}

static void a_tier_decides_as_a_rule_with_its_limit(void **state) {
  (void)state;
  for (int store = 0; store < STORES; store++)
    for (size_t i = 0; i < FAMILIES; i++)
      check_family(store, &families[i], BY_TIER);
}

/* --- limits of keys ----------------------------------------------------------------------------
 */

static weir_limiter_options reading(void) {
  return (weir_limiter_options){.deadline_us = 20 * SECOND_US, .limits_us = SECOND_US};
}

static void refuse_set(weir_limiter *limiter, weir_limit one, weir_status status, const char *why) {
  weir_message message = {""};
  assert_int_equal(weir_limiter_set_limits(limiter, &one, 1, &message), status);
  if (strstr(message.text, why) == NULL) fail_msg("\"%s\" does not say \"%s\"", message.text, why);
}

#define TIERED(tiers) "fixed-window:5/1m,name=a,most=100,tiers=" tiers

/* Who has another limit for a tier goes by that; who has none of the name, as if no limit were set. */
static void a_tier_is_what_each_limiter_says(void **state) {
  weir_limiter_options options = reading(), closed = reading();
  (void)state;
  closed.flags = WEIR_ABSENT_DENIES;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES], text[WEIR_LIMIT_NAME_BYTES];
    weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
    weir_limit read = {.key = "k", .key_length = 1};
    world w;
    world_open(&w, stores_url(store, url), TIERED("gold:50|silver:20"), &options);
    weir_limiter *raised = world_limiter(&w, TIERED("gold:80"), &options);
    weir_limiter *lacking = world_limiter(&w, TIERED("silver:20"), &options);
    weir_limiter *denying = world_limiter(&w, TIERED("silver:20"), &closed);
    set_tier(w.limiter, "k", "gold");
    assert_int_equal(world_take(&w, "k", 1).limit, 50); /* it has set it itself */
    world_set(&w, SECOND_US);
    assert_int_equal(world_take(&w, "k", 1).limit, 50);
    assert_int_equal(limiter_take(raised, "k", 1).limit, 80);
    assert_int_equal(limiter_take(lacking, "k", 1).limit, 5);
    assert_false(limiter_take(denying, "k", 1).allowed);
    weir_limiter_read_counts(lacking, &counts);
    assert_int_equal(counts.tiers_unknown, 1);
    weir_limiter_read_counts(w.limiter, &counts);
    assert_int_equal(counts.tiers_unknown, 0);
    assert_int_equal(weir_limiter_read_limit(lacking, &read, NULL), WEIR_OK);
    assert_int_equal(read.kind, WEIR_KEY_LIMIT_TIER);
    weir_limiter_format_limit(lacking, &read, text);
    assert_string_equal(text, "an unknown tier");
    weir_limiter_format_limit(raised, &read, text);
    assert_string_equal(text, "gold");
    refuse_set(lacking, read, WEIR_BAD_ARGUMENT, "lacks: accepted are silver");
    weir_limiter_destroy(raised);
    weir_limiter_destroy(lacking);
    weir_limiter_destroy(denying);
    world_close(&w);
  }
}

static void a_record_is_believed_for_its_time(void **state) {
  weir_limiter_options options = reading(), plain = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "fixed-window:5/1m,name=a,most=100", &options);
    weir_limiter *writer = world_limiter(&w, "fixed-window:5/1m,name=a,most=100", &plain);
    assert_int_equal(world_take(&w, "k", 1).limit, 5);
    set(writer, "k", WEIR_KEY_LIMIT_NUMBER, 50);
    world_set(&w, SECOND_US - 1);
    assert_int_equal(world_take(&w, "k", 1).limit, 5);
    world_set(&w, SECOND_US);
    weir_decision more = world_take(&w, "k", 1);
    assert_int_equal(more.limit, 50);
    assert_int_equal(more.remaining, 47);
    set(writer, "k", WEIR_KEY_LIMIT_BLOCKED, 0);
    world_set(&w, 2 * SECOND_US - 1);
    assert_true(world_take(&w, "k", 1).allowed);
    world_set(&w, 2 * SECOND_US);
    weir_decision blocked = world_take(&w, "k", 1);
    assert_false(blocked.allowed);
    assert_int_equal(blocked.retry_after_us, WEIR_NEVER);
    assert_false(world_peek(&w, "k", 1).allowed);
    set(writer, "k", WEIR_KEY_LIMIT_NONE, 0);
    world_set(&w, 3 * SECOND_US);
    weir_decision own = world_take(&w, "k", 1);
    assert_int_equal(own.limit, 5);
    assert_int_equal(own.remaining, 0); /* 4 before it: what was blocked was charged nothing */
    set(w.limiter, "k", WEIR_KEY_LIMIT_NUMBER, 80); /* which it knows at once */
    world_set(&w, 3 * SECOND_US + 1);
    assert_int_equal(world_take(&w, "k", 1).limit, 80);
    weir_limiter_destroy(writer);
    world_close(&w);
  }
}

/* As it was set by one whose rule has a larger most=. */
static void a_record_above_most_counts_as_most(void **state) {
  weir_limiter_options options = reading(), plain = patient();
  char url[STORE_URL_BYTES];
  world w;
  (void)state;
  world_open(&w, stores_url(0, url), "fixed-window:5/1m,name=a,most=100", &options);
  weir_limiter *writer = world_limiter(&w, "fixed-window:5/1m,name=a,most=5000", &plain);
  set(writer, "k", WEIR_KEY_LIMIT_NUMBER, 5000);
  assert_int_equal(world_take(&w, "k", 1).limit, 100);
  set(writer, "never", WEIR_KEY_LIMIT_NUMBER, 3);
  weir_decision never = world_take(&w, "never", 4); /* which its rule would admit */
  assert_int_equal(never.limit, 3);
  assert_int_equal(never.retry_after_us, WEIR_NEVER);
  assert_int_equal(world_peek(&w, "never", 1).remaining, 3);
  weir_limiter_destroy(writer);
  world_close(&w);
}

/* One of many that a batch meets cold: each by its own, and in the trips that the slowest needs. */
static void neighbours_have_limits_of_their_own(void **state) {
  static const char *const keys[] = {"a", "b", "c", "d", "e"};
  enum { KEYS = 5 };
  weir_limiter_options options = reading();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    weir_request requests[2 * KEYS];
    weir_limiter_counts before = WEIR_LIMITER_COUNTS_INIT, after = WEIR_LIMITER_COUNTS_INIT;
    world w;
    world_open(&w, stores_url(store, url), "sliding-window:1/1m,name=n,most=100", &options);
    weir_limiter_options other = patient();
    weir_limiter *writer = world_limiter(&w, "sliding-window:1/1m,name=n,most=100", &other);
    set(writer, "b", WEIR_KEY_LIMIT_NUMBER, 2);
    set(writer, "c", WEIR_KEY_LIMIT_BLOCKED, 0);
    set(writer, "e", WEIR_KEY_LIMIT_NUMBER, 100);
    for (int i = 0; i < 2 * KEYS; i++)
      requests[i] = (weir_request){.key = keys[i % KEYS], .key_length = 1, .cost = 1};
    weir_limiter_read_counts(w.limiter, &before);
    assert_int_equal(weir_limiter_decide(w.limiter, requests, KEYS, NULL), WEIR_OK);
    weir_limiter_read_counts(w.limiter, &after);
    assert_in_range(after.round_trips - before.round_trips, 1, 2); /* the second takes back */
    assert_int_equal(weir_limiter_decide(w.limiter, requests + KEYS, KEYS, NULL), WEIR_OK);
    for (int i = 0; i < 2 * KEYS; i++) {
      int key = i % KEYS;
      int64_t limit = key == 1 ? 2 : key == 4 ? 100 : key == 2 ? 0 : 1;
      bool allowed = i < KEYS ? key != 2 : key == 1 || key == 4;
      if (requests[i].decision.limit != limit || requests[i].decision.allowed != allowed)
        fail_msg("%s: request %d: limit %d, allowed %d", stores[store].name, i,
                 (int)requests[i].decision.limit, requests[i].decision.allowed);
    }
    weir_limiter_destroy(writer);
    world_close(&w);
  }
}

/* Who holds a place keeps it; who enters is admitted by the limit that the key has now. */
static void places_are_entered_by_the_limit_of_their_key(void **state) {
  weir_limiter_options options = reading();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    weir_reservation *made[3] = {NULL};
    world w;
    world_open(&w, stores_url(store, url), "in-flight:1/5m,name=h,most=5", &options);
    set(w.limiter, "k", WEIR_KEY_LIMIT_NUMBER, 2);
    for (int i = 0; i < 3; i++) {
      weir_request request = ask(1, 0);
      assert_int_equal(weir_limiter_reserve(w.limiter, &request, &made[i], NULL), WEIR_OK);
      assert_int_equal(request.decision.limit, 2);
      assert_int_equal(made[i] != NULL, i < 2);
    }
    set(w.limiter, "k", WEIR_KEY_LIMIT_NUMBER, 1);
    assert_int_equal(weir_reservation_commit(made[0], NULL), WEIR_OK);
    weir_request request = ask(1, 0);
    assert_int_equal(weir_limiter_reserve(w.limiter, &request, &made[2], NULL), WEIR_OK);
    assert_null(made[2]);
    for (int i = 0; i < 2; i++)
      weir_reservation_destroy(made[i]);
    world_close(&w);
  }
}

static uint64_t trips_of_take(world *w, const char *key) {
  weir_limiter_counts before = WEIR_LIMITER_COUNTS_INIT, after = WEIR_LIMITER_COUNTS_INIT;
  weir_limiter_read_counts(w->limiter, &before);
  assert_true(world_take(w, key, 1).allowed);
  weir_limiter_read_counts(w->limiter, &after);
  return after.round_trips - before.round_trips;
}

/* A key that is met cold costs a window no trip, and a bucket one; then none for as long as it is believed. */
static void reading_costs_a_trip_where_it_must(void **state) {
  weir_limiter_options options = reading(), plain = patient();
  (void)state;
  for (int store = 2; store < STORES; store++) {
    static const char *const rules[] = {"fixed-window:50/1m,name=w,most=100",
                                        "token-bucket:50/1m,name=w,most=100"};
    for (uint64_t bucket = 0; bucket < 2; bucket++) {
      char url[STORE_URL_BYTES];
      world without, with;
      world_open(&without, stores_url(store, url), rules[bucket], &plain);
      world_open(&with, stores_url(store, url), rules[bucket], &options);
      uint64_t cold = trips_of_take(&without, "k"), warm = trips_of_take(&without, "k");
      assert_int_equal(trips_of_take(&with, "k"), cold + bucket);
      assert_int_equal(trips_of_take(&with, "k"), warm);
      set(with.limiter, "k", WEIR_KEY_LIMIT_NUMBER, 77);
      assert_int_equal(trips_of_take(&with, "k"), warm);
      world_set(&with, SECOND_US);
      assert_int_equal(trips_of_take(&with, "k"), warm + bucket);
      world_close(&without);
      world_close(&with);
    }
  }
}

/* What is taken off a key's line together, and what that costs in round trips, goes by the limit that decides it,
 * be that above the rule's or below. */
enum { BATCH = 40 };

static uint64_t trips_of_batch(world *w, int64_t limit, int *allowed) {
  weir_limiter_counts before = {.size = sizeof before}, after = {.size = sizeof after};
  weir_limiter *limiters[BATCH];
  weir_request requests[BATCH];
  const weir_extra *extras[BATCH];
  weir_extra said = WEIR_EXTRA_INIT;
  weir_message why = {""};
  said.limit = limit;
  for (int i = 0; i < BATCH; i++) {
    limiters[i] = w->limiter;
    requests[i] = ask(1, 0);
    extras[i] = &said;
  }
  weir_limiter_read_counts(w->limiter, &before);
  if (weir_decide_extra(limiters, requests, limit != 0 ? extras : NULL, BATCH, &why) != WEIR_OK)
    fail_msg("%s", why.text);
  weir_limiter_read_counts(w->limiter, &after);
  *allowed = 0;
  for (int i = 0; i < BATCH; i++)
    *allowed += requests[i].decision.allowed;
  return after.round_trips - before.round_trips;
}

static void a_group_goes_by_the_limit_that_decides_it(void **state) {
  static const char *const kinds[] = {"fixed-window", "sliding-window", "quota", "token-bucket"};
  static const int64_t limits[][2] = {{8, 900}, {900, 8}};
  weir_limiter_options options = reading(), plain = patient();
  (void)state;
  for (int n = 0; n < (STORES - 2) * 4 * 2 * 2; n++) {
    int store = 2 + n / 16;
    const char *kind = kinds[n / 4 % 4];
    const int64_t *limit = limits[n / 2 % 2];
    bool is_set = n % 2 == 1;
    char urls[2][STORE_URL_BYTES], text[TEXT_BYTES];
    world limited, ruled;
    int allowed, as_rule;
    snprintf(text, sizeof text, "%s:%" PRId64 "/1m,name=g,most=1000", kind, limit[1]);
    world_open(&ruled, stores_url(store, urls[0]), text, &plain);
    snprintf(text, sizeof text, "%s:%" PRId64 "/1m,name=g,most=1000", kind, limit[0]);
    world_open(&limited, stores_url(store, urls[1]), text, is_set ? &options : &plain);
    if (is_set) set(limited.limiter, "k", WEIR_KEY_LIMIT_NUMBER, limit[1]);
    assert_true(take(limited.limiter, is_set ? 0 : limit[1], 1).allowed);
    assert_true(take(ruled.limiter, 0, 1).allowed);
    uint64_t trips = trips_of_batch(&limited, is_set ? 0 : limit[1], &allowed);
    uint64_t trips_as_rule = trips_of_batch(&ruled, 0, &as_rule);
    if (trips != trips_as_rule || allowed != as_rule)
      fail_msg("%s %s, %d in place of %d%s: %d trips, %d of the rule; %d allowed, %d of the rule",
               stores[store].name, kind, (int)limit[1], (int)limit[0], is_set ? ", set" : "",
               (int)trips, (int)trips_as_rule, allowed, as_rule);
    world_close(&limited);
    world_close(&ruled);
  }
}

/* By the store's own clock, which no test moves. */
static void wait_for_the_end_of(weir_limiter *limiter, const char *key) {
  weir_limit read = {.key = key, .key_length = strlen(key)};
  int64_t end_us = weir_monotonic_us() + 20 * SECOND_US;
  do {
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_int_equal(weir_limiter_read_limit(limiter, &read, NULL), WEIR_OK);
  } while (read.kind != WEIR_KEY_LIMIT_ABSENT && weir_monotonic_us() < end_us);
  assert_int_equal(read.kind, WEIR_KEY_LIMIT_ABSENT);
}

static void what_is_lost_is_believed_for_ten_minutes(void **state) {
  weir_limiter_options options = reading();
  int64_t at_us = 0;
  char url[STORE_URL_BYTES];
  weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
  world w;
  (void)state;
  world_open(&w, stores_url(0, url), "fixed-window:5/1m,name=z,most=100", &options);
  weir_limit one = {
      .key = "k", .key_length = 1, .kind = WEIR_KEY_LIMIT_NUMBER, .limit = 50, .for_us = SECOND_US};
  assert_int_equal(weir_limiter_set_limits(w.limiter, &one, 1, NULL), WEIR_OK);
  assert_int_equal(world_take(&w, "k", 1).limit, 50);
  wait_for_the_end_of(w.limiter, "k");
  at_us += 2 * SECOND_US;
  world_set(&w, at_us);
  assert_int_equal(world_take(&w, "k", 1).limit, 50);
  world_set(&w, at_us + 600 * SECOND_US - 1);
  assert_int_equal(world_take(&w, "k", 1).limit, 50);
  weir_limiter_read_counts(w.limiter, &counts);
  assert_int_equal(counts.limits_lost, 1);
  world_set(&w, at_us + 610 * SECOND_US);
  assert_int_equal(world_take(&w, "k", 1).limit, 5);
  weir_limiter_read_counts(w.limiter, &counts);
  assert_int_equal(counts.limits_lost, 1);
  world_close(&w);
}

/* Of the time of a loss a record keeps which step of ten seconds it was, of a turn of some ten minutes. */
static void a_loss_is_dated_wherever_it_falls(void **state) {
  enum { KEYS = 70, APART_S = 20011 };
  weir_limiter_options options = reading();
  char url[STORE_URL_BYTES], keys[KEYS][16];
  weir_limit set[KEYS];
  world w;
  (void)state;
  world_open(&w, stores_url(0, url), "fixed-window:5/1s,name=d,most=100", &options);
  for (int i = 0; i < KEYS; i++)
    set[i] = (weir_limit){.key = keys[i],
                          .key_length = (size_t)snprintf(keys[i], sizeof keys[i], "dated %d", i),
                          .kind = WEIR_KEY_LIMIT_NUMBER,
                          .limit = 50,
                          .for_us = SECOND_US};
  assert_int_equal(weir_limiter_set_limits(w.limiter, set, KEYS, NULL), WEIR_OK);
  for (int i = 0; i < KEYS; i++)
    wait_for_the_end_of(w.limiter, keys[i]);
  for (int i = 0; i < KEYS; i++) {
    int64_t lost_us = (i + 1) * APART_S * SECOND_US + i;
    int64_t apart_us = i % 2 == 0 ? 599 * SECOND_US : 7 * SECOND_US; /* between two readings */
    for (int64_t at_us = lost_us; at_us < lost_us + 600 * SECOND_US; at_us += apart_us) {
      world_set(&w, at_us);
      assert_int_equal(world_take(&w, keys[i], 1).limit, 50);
    }
    world_set(&w, lost_us + (i % 3 == 0 ? 610 : 10000) * SECOND_US);
    assert_int_equal(world_take(&w, keys[i], 1).limit, 5);
  }
  world_close(&w);
}

static void a_key_without_a_record_may_be_denied(void **state) {
  weir_limiter_options options = reading();
  options.flags = WEIR_ABSENT_DENIES;
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "quota:5/1m,name=x,most=100", &options);
    assert_false(world_take(&w, "k", 1).allowed);
    set(w.limiter, "k", WEIR_KEY_LIMIT_NONE, 0);
    weir_decision own = world_take(&w, "k", 1);
    assert_true(own.allowed);
    assert_int_equal(own.limit, 5);
    assert_int_equal(own.remaining, 4);
    world_close(&w);
  }
}

static void what_is_set_is_read_back(void **state) {
  weir_limiter_options plain = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    weir_limit read = {.key = "k", .key_length = 1}, many[200];
    char keys[200][8];
    world w;
    world_open(&w, stores_url(store, url), "quota:5/1m,name=x,most=9007199254740992", &plain);
    assert_int_equal(weir_limiter_read_limit(w.limiter, &read, NULL), WEIR_OK);
    assert_int_equal(read.kind, WEIR_KEY_LIMIT_ABSENT);
    set(w.limiter, "k", WEIR_KEY_LIMIT_NUMBER, INT64_C(9007199254740992));
    assert_int_equal(weir_limiter_read_limit(w.limiter, &read, NULL), WEIR_OK);
    assert_int_equal(read.kind, WEIR_KEY_LIMIT_NUMBER);
    assert_int_equal(read.limit, INT64_C(9007199254740992));
    for (int i = 0; i < 200; i++) {
      snprintf(keys[i], sizeof keys[i], "m%d", i);
      many[i] = (weir_limit){.key = keys[i],
                             .key_length = strlen(keys[i]),
                             .kind = WEIR_KEY_LIMIT_NUMBER,
                             .limit = i + 1};
    }
    assert_int_equal(weir_limiter_set_limits(w.limiter, many, 200, NULL), WEIR_OK);
    for (int i = 0; i < 200; i++) {
      read.key = keys[i];
      read.key_length = strlen(keys[i]);
      assert_int_equal(weir_limiter_read_limit(w.limiter, &read, NULL), WEIR_OK);
      assert_int_equal(read.limit, i + 1);
    }
    world_close(&w);
  }
}

static void bad_sets_are_refused(void **state) {
  const weir_limit good = {.key = "k", .key_length = 1, .kind = WEIR_KEY_LIMIT_NUMBER, .limit = 5};
  weir_limit one = good;
  weir_limit read = {.key = "k", .key_length = 1};
  world w;
  (void)state;
  world_open(&w, "memory:", "token-bucket:60/1m,burst=6,most=600", NULL);
  one.limit = 9;
  refuse_set(w.limiter, one, WEIR_BAD_ARGUMENT,
             "accepted are 10 to 600; to deny all, say that it is");
  one.limit = 0;
  refuse_set(w.limiter, one, WEIR_BAD_ARGUMENT, "a limit of 0");
  one = good;
  one.limit = 601;
  refuse_set(w.limiter, one, WEIR_BAD_ARGUMENT, "a limit of 601");
  one = good;
  one.kind = WEIR_KEY_LIMIT_BLOCKED;
  refuse_set(w.limiter, one, WEIR_BAD_ARGUMENT, "with another kind");
  one.kind = WEIR_KEY_LIMIT_ABSENT;
  refuse_set(w.limiter, one, WEIR_BAD_ARGUMENT, "kind is 0");
  one = good;
  one.limit = 60;
  one.for_us = INT64_C(401) * 24 * 3600 * SECOND_US;
  refuse_set(w.limiter, one, WEIR_BAD_ARGUMENT, "(400d), or 0 for that");
  one.for_us = 0;
  one.key_length = 0;
  refuse_set(w.limiter, one, WEIR_BAD_KEY, "the key is empty");
  assert_int_equal(weir_limiter_read_limit(w.limiter, &read, NULL), WEIR_OK);
  assert_int_equal(read.kind, WEIR_KEY_LIMIT_ABSENT); /* none of these was set */
  world_close(&w);
  world_open(&w, "memory:", "fixed-window:5/1m", NULL);
  refuse_set(w.limiter, good, WEIR_BAD_ARGUMENT, "accepted is a limiter with most= in one of its");
  world_close(&w);
}

static void a_limit_is_read_and_written_as_text(void **state) {
  static const struct {
    const char *text, *told; /* NULL: it is refused */
    unsigned kind;
    int64_t limit;
  } rows[] = {{"500", "500", WEIR_KEY_LIMIT_NUMBER, 500},
              {"500/1m", "500", WEIR_KEY_LIMIT_NUMBER, 500},
              {"500/60s", "500", WEIR_KEY_LIMIT_NUMBER, 500},
              {"blocked", "blocked", WEIR_KEY_LIMIT_BLOCKED, 0},
              {"none", "none", WEIR_KEY_LIMIT_NONE, 0},
              {.text = "absent"},
              {.text = ""},
              {.text = "500/1h"},
              {.text = "500/"},
              {.text = "-5"},
              {.text = "5e2"},
              {.text = "0"},
              {.text = "5001"},
              {.text = "Blocked"},
              {.text = "99999999999999999999"}};
  world w;
  (void)state;
  world_open(&w, "memory:", "quota:100/1d;sliding-window:5/1m,most=5000", NULL);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    weir_limit read = {.limit = 7};
    weir_message message = {""};
    char told[WEIR_LIMIT_TEXT_BYTES];
    weir_status status =
        weir_limiter_parse_limit(w.limiter, rows[i].text, strlen(rows[i].text), &read, &message);
    assert_int_equal(status, rows[i].told != NULL ? WEIR_OK : WEIR_BAD_ARGUMENT);
    if (rows[i].told == NULL) assert_non_null(strstr(message.text, "accepted are"));
    if (rows[i].told == NULL) continue;
    weir_limit_format(&read, told);
    assert_string_equal(told, rows[i].told);
    assert_int_equal(read.kind, rows[i].kind);
    assert_int_equal(read.limit, rows[i].limit);
  }
  world_close(&w);
}

static void refuse_options(const char *rules, weir_limiter_options options, const char *why) {
  weir_message message = {""};
  weir_store *store;
  weir_limiter *limiter;
  options.size = sizeof options;
  assert_int_equal(weir_store_open("memory:", &store, NULL), WEIR_OK);
  assert_int_not_equal(weir_limiter_create(store, rules, &options, &limiter, &message), WEIR_OK);
  if (strstr(message.text, why) == NULL) fail_msg("\"%s\" does not say \"%s\"", message.text, why);
  weir_store_close(store);
}

static void limits_of_keys_need_a_rule_that_has_some(void **state) {
  weir_limiter_options options = reading();
  (void)state;
  refuse_options("fixed-window:5/1m", options, "limits_us: accepted with most= in one");
  refuse_options("in-flight:5/5m,most=9,lease=1s", options,
                 "limits_us with lease= in rule 1 (in-flight)");
  options.limits_us = 999;
  refuse_options("fixed-window:5/1m,most=9", options, "limits_us is 999");
  options = (weir_limiter_options){.flags = WEIR_ABSENT_DENIES};
  refuse_options("fixed-window:5/1m,most=9", options,
                 "WEIR_ABSENT_DENIES: accepted with limits_us");
}

/* --- limits of requests ------------------------------------------------------------------------
 */

/* What one limit denies is no answer for another, higher or lower, nor for the rule's own. */
static void a_denial_is_repeated_for_its_own_limit_alone(void **state) {
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "fixed-window:5/1m,name=d,most=100", &options);
    for (int i = 0; i < 3; i++)
      assert_true(take(w.limiter, 3, 1).allowed);
    assert_false(take(w.limiter, 3, 1).allowed);
    assert_int_equal(take(w.limiter, 3, 1).source, WEIR_SOURCE_LOCAL);
    assert_true(take(w.limiter, 0, 1).allowed);
    assert_true(take(w.limiter, 0, 1).allowed);
    weir_decision denied = take(w.limiter, 0, 1);
    assert_false(denied.allowed);
    assert_int_equal(denied.limit, 5);
    assert_int_equal(limiter_take(w.limiter, "k", 1).source, WEIR_SOURCE_LOCAL);
    weir_decision more = take(w.limiter, 100, 1);
    assert_true(more.allowed);
    assert_int_equal(more.limit, 100);
    assert_int_equal(more.remaining, 94);
    weir_decision less = take(w.limiter, 4, 1);
    assert_false(less.allowed);
    assert_int_equal(less.limit, 4);
    assert_int_equal(limiter_take(w.limiter, "k", 1).limit, 5);
    world_close(&w);
  }
}

/* Of one exchange, in the order of its requests. */
static void one_batch_has_many_limits(void **state) {
  static const int64_t limits[] = {1, 2, 2, 50, 0, 0};
  static const bool allowed[] = {true, true, false, true, true, false};
  enum { COUNT = 6 };
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    weir_extra said[COUNT];
    const weir_extra *extras[COUNT];
    weir_request requests[COUNT];
    weir_limiter *limiters[COUNT];
    world w;
    world_open(&w, stores_url(store, url), "sliding-window:4/1m,name=m,most=100", &options);
    for (int i = 0; i < COUNT; i++) {
      said[i] = (weir_extra)WEIR_EXTRA_INIT;
      said[i].limit = limits[i];
      extras[i] = &said[i];
      requests[i] = ask(1, 0);
      limiters[i] = w.limiter;
    }
    assert_int_equal(weir_decide_extra(limiters, requests, extras, COUNT, NULL), WEIR_OK);
    for (int i = 0; i < COUNT; i++)
      if (requests[i].decision.allowed != allowed[i])
        fail_msg("%s: request %d is %s", stores[store].name, i, allowed[i] ? "denied" : "allowed");
    world_close(&w);
  }
}

/* A lot was charged under the rule's limit: a lower one must not live on it. */
static void a_lease_is_not_for_other_limits(void **state) {
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "fixed-window:1000/1m,lease=1s,name=e,most=2000",
               &options);
    for (int i = 0; i < 400; i++) {
      world_set(&w, i * 1000);
      assert_true(take(w.limiter, 0, 1).allowed);
    }
    for (int i = 0; i < 10; i++)
      assert_false(take(w.limiter, 390, 1).allowed);
    assert_true(take(w.limiter, 2000, 1).allowed);
    assert_true(take(w.limiter, 0, 1).allowed);
    world_close(&w);
  }
}

/* A token of a larger limit takes less of a bucket: no more than that goes back. */
static void what_goes_back_is_what_was_charged(void **state) {
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    world w;
    world_open(&w, stores_url(store, url), "token-bucket:60/1m,name=r,most=600", &options);
    for (int i = 0; i < 60; i++)
      assert_true(take(w.limiter, 0, 1).allowed);
    world_set(&w, 10 * SECOND_US);
    weir_decision large = take(w.limiter, 600, 100);
    assert_true(large.allowed);
    assert_int_equal(take(w.limiter, 0, 1).allowed, false);
    assert_int_equal(weir_limiter_refund(w.limiter, "k", 1, 100, &large, NULL), WEIR_OK);
    int admitted = 0;
    while (admitted < 60 && take(w.limiter, 0, 1).allowed)
      admitted++;
    if (admitted != 10) fail_msg("%s: %d instead of 10", stores[store].name, admitted);
    world_close(&w);
  }
}

/* Places are entered by the limit of the request, and those of one limit are not handed to another. */
static void places_are_entered_by_their_limit(void **state) {
  weir_limiter_options options = patient();
  (void)state;
  for (int store = 0; store < STORES; store++) {
    char url[STORE_URL_BYTES];
    weir_extra extra = WEIR_EXTRA_INIT;
    const weir_extra *extras[1] = {&extra};
    weir_reservation *made[5] = {NULL}, *other = NULL;
    world w;
    world_open(&w, stores_url(store, url), "in-flight:2/5m,lease=1s,name=p,most=5", &options);
    for (int i = 0; i < 5; i++) {
      weir_request request = ask(1, 0);
      extra.limit = i < 2 ? 0 : 5;
      assert_int_equal(weir_reserve_extra(&w.limiter, &request, extras, 1, &made[i], NULL),
                       WEIR_OK);
      assert_non_null(made[i]);
    }
    extra.limit = 5;
    weir_request sixth = ask(1, 0), third = ask(1, 0);
    assert_int_equal(weir_reserve_extra(&w.limiter, &sixth, extras, 1, &other, NULL), WEIR_OK);
    assert_null(other);
    assert_int_equal(weir_reservation_commit(made[4], NULL), WEIR_OK);
    extra.limit = 0;
    assert_int_equal(weir_reserve_extra(&w.limiter, &third, extras, 1, &other, NULL), WEIR_OK);
    assert_null(other);
    for (int i = 0; i < 5; i++)
      weir_reservation_destroy(made[i]);
    world_close(&w);
  }
}

static void refuse(const char *rules, int64_t limit, const char *why) {
  weir_extra extra = WEIR_EXTRA_INIT;
  const weir_extra *extras[1] = {&extra};
  weir_request request = ask(1, 0);
  weir_message message = {""};
  world w;
  world_open(&w, "memory:", rules, NULL);
  extra.limit = limit;
  assert_int_equal(weir_decide_extra(&w.limiter, &request, extras, 1, &message), WEIR_BAD_ARGUMENT);
  if (strstr(message.text, why) == NULL) fail_msg("\"%s\" does not say \"%s\"", message.text, why);
  world_close(&w);
}

static void bad_limits_are_refused(void **state) {
  (void)state;
  refuse("fixed-window:5/1m", 3,
         "a limit of 3 for fixed-window:5/1m: accepted is a limiter with most=");
  refuse("fixed-window:5/1m,most=9;fixed-window:50/1h,most=90", 3, "most= in one of its rules");
  refuse("fixed-window:5/1m,most=9", 10, "accepted are 1 to 9");
  refuse("fixed-window:5/1m,most=9", -1, "a limit of -1 for");
  refuse("token-bucket:60/1m,burst=6,most=600", 9, "accepted are 10 to 600, with which its burst");
  refuse("leaky-bucket:60/1m,most=600", 59, "accepted are 60 to 600");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limit_decides_as_a_rule_with_it),
      cmocka_unit_test(a_limit_that_is_set_decides_as_a_rule_with_it),
      cmocka_unit_test(a_tier_decides_as_a_rule_with_its_limit),
      cmocka_unit_test(a_tier_is_what_each_limiter_says),
      cmocka_unit_test(a_record_is_believed_for_its_time),
      cmocka_unit_test(a_record_above_most_counts_as_most),
      cmocka_unit_test(neighbours_have_limits_of_their_own),
      cmocka_unit_test(places_are_entered_by_the_limit_of_their_key),
      cmocka_unit_test(reading_costs_a_trip_where_it_must),
      cmocka_unit_test(a_group_goes_by_the_limit_that_decides_it),
      cmocka_unit_test(what_is_lost_is_believed_for_ten_minutes),
      cmocka_unit_test(a_loss_is_dated_wherever_it_falls),
      cmocka_unit_test(a_key_without_a_record_may_be_denied),
      cmocka_unit_test(what_is_set_is_read_back),
      cmocka_unit_test(bad_sets_are_refused),
      cmocka_unit_test(a_limit_is_read_and_written_as_text),
      cmocka_unit_test(limits_of_keys_need_a_rule_that_has_some),
      cmocka_unit_test(a_denial_is_repeated_for_its_own_limit_alone),
      cmocka_unit_test(one_batch_has_many_limits),
      cmocka_unit_test(a_lease_is_not_for_other_limits),
      cmocka_unit_test(what_goes_back_is_what_was_charged),
      cmocka_unit_test(places_are_entered_by_their_limit),
      cmocka_unit_test(bad_limits_are_refused),
  };
  stores_start();
  return cmocka_run_group_tests(tests, NULL, NULL);
}

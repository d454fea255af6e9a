/* Limits of up to 2^53, such as a budget in millionths of a dollar: they are exact to the last one, also
 * beside what others charge at the same moment. On every real store. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/stores.h"
#include "limiter/world.h"
#include "store/store.h"

#define LARGEST (INT64_C(1) << 53)

/* What 64 processes may charge in vain at one moment, under the largest limit and as large a debt. */
#define OF_OTHERS (INT64_C(130) << 53)

/* A rule, and the index of the counter of a moment, for a period of one day or four hours. */
static const struct rule {
  const char *text, *tag;
  int64_t index_us; /* 0: the quota's start */
} rules[] = {
    {"fixed-window:9007199254740992/1d", "fw-86400000", INT64_C(86400000000)},
    {"sliding-window:9007199254740992/4h", "sw4-14400000-1x63", INT64_C(3600000000)},
    {"sliding-window:9007199254740992/4h,cells=1", "sw1-14400000-1x63", INT64_C(14400000000)},
    {"sliding-window:9007199254740992/4h,strict,debt=9007199254740992", "sw4-14400000-1x63",
     INT64_C(3600000000)},
    {"sliding-window:5/4h,most=9007199254740992", "sw4-14400000-1x63", INT64_C(3600000000)},
    {"quota:9007199254740992/1d", "quota-86400000", 0},
};

/* As another process would. */
static void add(world *w, const struct rule *rule, int64_t delta) {
  char key[256], name[80] = "";
  int64_t index = rule->index_us > 0 ? START_US / rule->index_us : START_US;
  if (w->store->namespace_text[0] != '\0')
    snprintf(name, sizeof name, "%s:", w->store->namespace_text);
  int length = snprintf(key, sizeof key, "weir:%s%s:{k}:%lld", name, rule->tag, (long long)index);
  weir_operation operation = {
      .kind = delta > 0 ? WEIR_ADD : WEIR_SUB,
      .key = key,
      .key_length = (uint16_t)length,
      .home_offset = (uint16_t)(strchr(key, '{') + 1 - key),
      .home_length = 1,
      .delta = delta > 0 ? delta : -delta,
      .ttl_us = INT64_C(3600000000),
  };
  weir_store_exec(w->store, &operation, 1, weir_monotonic_us() + 20 * SECOND_US, NULL);
  assert_int_equal(operation.outcome, WEIR_DONE);
}

static int64_t left(world *w, const char *text, const weir_limiter_options *options) {
  weir_limiter *fresh = world_limiter(w, text, options);
  int64_t remaining = limiter_peek(fresh, "k", 1).remaining;
  weir_limiter_destroy(fresh);
  return remaining;
}

static void check(int store, const struct rule *rule) {
  char url[STORE_URL_BYTES];
  weir_limiter_options options = {.deadline_us = 20 * SECOND_US};
  weir_rule_info info = WEIR_RULE_INFO_INIT;
  world w;
  world_open(&w, stores_url(store, url), rule->text, &options);
  assert_int_equal(weir_limiter_read_rule(w.limiter, 0, &info), WEIR_OK);
  assert_string_equal(info.tag, rule->tag);
  assert_int_equal(world_take(&w, "k", 1).remaining, info.limit - 1);
  if (info.limit > 11) {
    add(&w, rule, info.limit - 11);
    assert_int_equal(left(&w, rule->text, &options), 10);
  }
  int64_t room = left(&w, rule->text, &options);

  /* Others are charged and denied at this moment: neither lanes nor windows take harm. */
  add(&w, rule, OF_OTHERS);
  weir_limiter *fresh = world_limiter(&w, rule->text, &options);
  assert_false(limiter_take(fresh, "k", 1).allowed);
  assert_int_equal(left(&w, rule->text, &options), 0);
  weir_limiter_destroy(fresh);
  add(&w, rule, -OF_OTHERS);
  assert_int_equal(left(&w, rule->text, &options), room);

  fresh = world_limiter(&w, rule->text, &options);
  assert_false(limiter_take(fresh, "k", room + 1).allowed);
  assert_int_equal(limiter_take(fresh, "k", room).remaining, 0);
  assert_false(limiter_take(fresh, "k", 1).allowed);
  weir_limiter_destroy(fresh);
  world_close(&w);
}

static void the_largest_limits_are_exact(void **state) {
  (void)state;
  for (int store = 1; store < STORES; store++) /* the first has keys of its own kind */
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
      check(store, &rules[i]);
}

/* One of 8 processes, whose store is away: its share is an eighth, in parts of a cost or in whole ones. */
static void an_account_of_a_large_limit_is_its_share(void **state) {
  static const struct {
    const char *rule;
    int64_t limit;
  } cases[] = {
      {"fixed-window:9007199254740992/1d", LARGEST},
      {"sliding-window:9007199254740992/4h", LARGEST},
      {"quota:9007199254740992/1d", LARGEST},
      {"quota:4503599627370496/1d", LARGEST / 2},
      {"quota:8796093022208/1d", LARGEST / 1024},
      {"quota:8796093022209/1d", LARGEST / 1024 + 1},
      {"quota:1000000000/1d", 1000000000},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_limiter_options options = {
        .size = sizeof options, .fallback = WEIR_FALLBACK_LOCAL, .processes = 8};
    weir_store *store;
    weir_limiter *limiter;
    assert_int_equal(weir_store_open("redis://127.0.0.1:1?timeout=1s", &store, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_create(store, cases[i].rule, &options, &limiter, NULL), WEIR_OK);
    weir_decision decision = limiter_take(limiter, "k", INT64_C(1) << 20);
    assert_true(decision.allowed);
    assert_int_equal(decision.source, WEIR_SOURCE_FALLBACK);
    assert_int_equal(decision.limit, cases[i].limit);
    assert_in_range(decision.remaining, cases[i].limit / 8 - (1 << 20) - 8, cases[i].limit / 8);
    weir_limiter_destroy(limiter);
    weir_store_close(store);
  }
}

int main(void) {
  stores_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_largest_limits_are_exact),
      cmocka_unit_test(an_account_of_a_large_limit_is_its_share),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

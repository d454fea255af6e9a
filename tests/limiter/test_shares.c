/* What a policy says by itself: which statuses it answers, and what a share of the rules is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "policy/policy.h"

static weir_stack parse(const char *rules) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(rules, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack;
}

static weir_stack share_of(const char *rules, uint32_t peers) {
  weir_stack whole = parse(rules);
  weir_stack share;
  weir_policy_share(&whole, peers, &share);
  return share;
}

static void answers_what_the_store_did_not_do(void **state) {
  (void)state;
  for (weir_fallback fallback = 0; fallback <= WEIR_FALLBACK_NONE; fallback++) {
    for (weir_status status = 0; status < WEIR_STATUS_COUNT; status++) {
      bool stores = status == WEIR_UNAVAILABLE || status == WEIR_UNKNOWN_OUTCOME ||
                    status == WEIR_REFUSED_BY_STORE || status == WEIR_TIMEOUT ||
                    status == WEIR_CONTENDED;
      assert_int_equal(weir_policy_answers(fallback, status),
                       stores && fallback != WEIR_FALLBACK_NONE);
    }
  }
}

static void a_share_is_rounded_down_and_one_at_least(void **state) {
  static const struct {
    const char *rules;
    uint32_t peers;
    int64_t limit, burst;
  } cases[] = {
      {"fixed-window:100/1m", 1, 100, 0},
      {"fixed-window:100/1m", 3, 33, 0},
      {"fixed-window:100/1m", 64, 1, 0},
      {"fixed-window:100/1m", 100000, 1, 0},
      {"quota:1000000000/1d", 7, 142857142, 0},
      {"sliding-log:100/1m", 8, 12, 0},
      {"token-bucket:100/1m,burst=20", 8, 12, 2},
      {"token-bucket:100/1m,burst=7", 8, 12, 1},
      {"token-bucket:5/1m,burst=800", 8, 1, 100},
      {"token-bucket:5/1m,burst=800,lease=1s", 8, 1, 100},
      {"leaky-bucket:100/1m,queue=50", 8, 12, 6}, /* 51 places, the one in front among them */
      {"leaky-bucket:100/1m", 8, 12, 1},
      {"token-bucket:1000000/1ms", 2, 500000, 500000},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    weir_stack share = share_of(cases[i].rules, cases[i].peers);
    assert_int_equal(share.rules[0].limit, cases[i].limit);
    assert_int_equal(share.rules[0].burst, cases[i].burst);
  }
}

/* Rounded down to one a day, a full burst of 300 would take 300 days instead of 150; of 700, more
 * than the 400 that a bucket may. */
static void a_burst_that_fills_too_slowly_is_cut(void **state) {
  (void)state;
  assert_int_equal(share_of("token-bucket:2/1d,burst=600", 2).rules[0].burst, 300);
  assert_int_equal(share_of("token-bucket:3/1d,burst=1200", 2).rules[0].burst, 400);
  weir_stack share = share_of("token-bucket:1/400d,burst=1", 100);
  assert_int_equal(share.rules[0].burst, 1);
}

/* A share is a rule like any: its rate is no faster than a peer's part of the whole. */
static void a_share_is_measured_anew(void **state) {
  static const char *const rules[] = {"token-bucket:900/1s", "token-bucket:1000000000/1s",
                                      "leaky-bucket:77777/1m,queue=100", "token-bucket:1000/1s"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    for (uint32_t peers = 1; peers <= 1024; peers *= 4) {
      weir_stack whole = parse(rules[i]);
      weir_rule rule = share_of(rules[i], peers).rules[0];
      int64_t widest = ((rule.period_us << rule.unit_bits) + rule.limit - 1) / rule.limit;
      assert_int_equal(rule.token_units, widest);
      assert_true(rule.token_units >= 1024);
      assert_true((long double)rule.token_units / (long double)(1 << rule.unit_bits) >=
                  (long double)whole.rules[0].token_units /
                      (long double)(1 << whole.rules[0].unit_bits) * 0.999L);
    }
  }
}

/* What differs by its layout alone has one layout once divided. */
static void rules_of_a_stack_stay_apart(void **state) {
  static const char *const rules[] = {
      "sliding-window:246/1h;sliding-window:50000/1h",
      "token-bucket:900/1s;token-bucket:1000/1s",
      "fixed-window:5/1m,name=1;fixed-window:9/1m,name=2;quota:7/1m",
      "quota:5/1s;quota:5/2s;quota:5/3s;quota:5/4s;quota:5/5s;quota:5/6s;quota:5/7s;quota:5/8s",
  };
  (void)state;
  for (size_t n = 0; n < sizeof rules / sizeof rules[0]; n++) {
    weir_stack share = share_of(rules[n], 64);
    for (size_t i = 0; i < share.count; i++) {
      assert_true(share.rules[i].tag[0] != '\0');
      assert_true(share.rules[i].cell_us > 0 && share.rules[i].lanes > 0);
      for (size_t j = 0; j < i; j++)
        assert_string_not_equal(share.rules[i].tag, share.rules[j].tag);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_what_the_store_did_not_do),
      cmocka_unit_test(a_share_is_rounded_down_and_one_at_least),
      cmocka_unit_test(a_burst_that_fills_too_slowly_is_cut),
      cmocka_unit_test(a_share_is_measured_anew),
      cmocka_unit_test(rules_of_a_stack_stay_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

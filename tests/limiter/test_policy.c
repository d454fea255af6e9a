/* A policy by itself: which statuses it answers, and how. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/continue.h"

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

static weir_stack parse(const char *rules) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(rules, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack;
}

static void all_but_allow_deny_for_half_a_second_or_soon(void **state) {
  static const weir_fallback policies[] = {WEIR_FALLBACK_LOCAL, WEIR_FALLBACK_DENY,
                                           WEIR_FALLBACK_ALLOW};
  (void)state;
  weir_stack stack = parse("fixed-window:10/1m;token-bucket:7/1s");
  for (size_t i = 0; i < 3; i++) {
    for (int late = 0; late < 2; late++) {
      weir_source source = late ? WEIR_SOURCE_LATE : WEIR_SOURCE_FALLBACK;
      const weir_ask request = {.cost = 3};
      weir_decision decision = weir_policy_decide(policies[i], source, &stack, &request, 99);
      bool allows = policies[i] == WEIR_FALLBACK_ALLOW;
      int64_t soon_us = late ? WEIR_POLICY_LATE_RETRY_US : WEIR_POLICY_RETRY_US;
      assert_int_equal(decision.allowed, allows);
      assert_int_equal(decision.retry_after_us, allows ? 0 : soon_us);
      assert_int_equal(decision.remaining, allows ? WEIR_NOT_KNOWN : 0);
      assert_int_equal(decision.limit, 10);
      assert_int_equal(decision.cost, 3);
      assert_int_equal(decision.at_us, 99);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(answers_what_the_store_did_not_do),
      cmocka_unit_test(all_but_allow_deny_for_half_a_second_or_soon),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

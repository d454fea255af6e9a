#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rule/rule.h"

__extension__ typedef __int128 wide;

#define LONGEST_WAIT_US (INT64_C(1800) * 1000000)

static weir_rule parsed(const char *text) {
  weir_stack stack;
  weir_message message = {""};
  if (weir_stack_parse(text, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack.rules[0];
}

static void counts_in_the_coarsest_unit_that_is_exact_enough(void **state) {
  (void)state;
  static const struct {
    const char *rate;
    int unit_bits;
    int64_t token_units;
  } rates[] = {
      {"1/400d", 0, INT64_C(34560000000000)},
      {"1000000000/400d", 0, 34560},
      {"1/1d", 0, INT64_C(86400000000)},
      {"3/s", 0, 333334},
      {"7/s", 0, 142858},
      {"1/1ms", 10, 1024000},
      {"1/2ms", 0, 2000},
      {"976/s", 0, 1025},
      {"977/s", 0, 1024}, /* 1023.54 */
      {"978/s", 10, 1047035},
      {"300000/s", 10, 3414}, /* 3413.33 */
      {"1000000/s", 10, 1024},
      {"1000977/s", 10, 1024},        /* 1023.0005 */
      {"1000978/s", 20, 1047552},     /* 1022.9995 with 10 */
      {"125000000/s", 20, 8389},      /* 8388.61: a gigabit a second, in bytes */
      {"1000000000/s", 20, 1049},     /* 1048.58 */
      {"1000000/1ms", 20, 1049},      /* the same rate */
      {"1025000/1ms", 20, 1024},      /* 1023.0009 */
      {"999424/1ms", 20, 1050},       /* 1049.18 */
      {"1000000000/976ms", 20, 1024}, /* 1023.41 */
  };
  for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
    char text[80];
    snprintf(text, sizeof text, "token-bucket:%s,burst=1", rates[i].rate);
    weir_rule token = parsed(text);
    snprintf(text, sizeof text, "leaky-bucket:%s", rates[i].rate);
    weir_rule leaky = parsed(text);
    if (token.unit_bits != rates[i].unit_bits || token.token_units != rates[i].token_units)
      fail_msg("%s: %d bits, %lld units", text, token.unit_bits, (long long)token.token_units);
    assert_int_equal(leaky.unit_bits, token.unit_bits);
    assert_int_equal(leaky.token_units, token.token_units);
  }
}

static uint64_t draw(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

/* 1 to most, as often small as large. */
static int64_t draw_size(uint64_t *seed, int64_t most) {
  int64_t top = most >> draw(seed) % 45;
  return 1 + (int64_t)(draw(seed) % (uint64_t)(top > 0 ? top : 1));
}

static void check_exactness(const weir_rule *rule) {
  wide units = (wide)rule->token_units;
  wide true_units = (wide)rule->period_us << rule->unit_bits; /* of L tokens */
  wide taken = units * (wide)rule->limit;
  assert_true(taken >= true_units && taken - true_units < (wide)rule->limit);
  assert_true((taken - true_units) * 1000 < true_units);
  assert_true(units >= 1024);
  /* no smaller unit count would have done */
  if (rule->unit_bits > 0) assert_true((true_units >> 10) <= (wide)1023 * (wide)rule->limit);
  wide span = units * (wide)rule->burst + ((wide)LONGEST_WAIT_US << rule->unit_bits);
  assert_true(span < (wide)1 << 52);
}

static bool too_fast(int64_t limit, int64_t period_us) {
  return (wide)period_us << 20 <= (wide)1023 * (wide)limit;
}

static bool too_long(int64_t limit, int64_t period_us, int64_t burst) {
  return (wide)burst * (wide)period_us > (wide)limit * (wide)WEIR_PERIOD_MOST_US;
}

static void is_never_faster_than_its_rate_nor_a_thousandth_slower(void **state) {
  (void)state;
  uint64_t seed = 88172645463325252U;
  int accepted[3] = {0, 0, 0};
  int fast = 0, longer = 0;
  for (int i = 0; i < 200000; i++) {
    int64_t limit = draw_size(&seed, WEIR_LIMIT_MOST);
    int64_t period_ms = draw_size(&seed, WEIR_PERIOD_MOST_US / 1000);
    int64_t burst = draw_size(&seed, WEIR_LIMIT_MOST);
    bool leaky = draw(&seed) % 2 == 0;
    char text[100];
    weir_stack stack;
    weir_message message = {""};
    snprintf(text, sizeof text, "%s:%lld/%lldms,%s=%lld", leaky ? "leaky-bucket" : "token-bucket",
             (long long)limit, (long long)period_ms, leaky ? "queue" : "burst",
             (long long)burst - leaky);
    weir_status status = weir_stack_parse(text, 64, &stack, &message);
    bool is_fast = too_fast(limit, period_ms * 1000);
    bool is_long = too_long(limit, period_ms * 1000, burst);
    if (status != (is_fast || is_long ? WEIR_BAD_RULE : WEIR_OK))
      fail_msg("\"%s\" gave %d \"%s\"", text, (int)status, message.text);
    fast += is_fast;
    longer += is_long;
    if (status != WEIR_OK) continue;
    assert_int_equal(stack.rules[0].burst, burst);
    check_exactness(&stack.rules[0]);
    accepted[stack.rules[0].unit_bits / 10]++;
  }
  for (int i = 0; i < 3; i++)
    assert_true(accepted[i] > 100); /* every unit was met */
  assert_true(fast > 100 && longer > 100);
}

static weir_status status_of(const char *text, weir_message *message) {
  weir_stack stack;
  message->text[0] = '\0';
  return weir_stack_parse(text, 64, &stack, message);
}

static void names_the_fastest_rate_that_it_takes(void **state) {
  (void)state;
  weir_message message;
  for (int64_t ms = 1; ms <= 1000; ms++) {
    char text[80], accepted[80];
    int64_t most = ((ms * 1000 << 20) - 1) / 1023;
    if (most > WEIR_LIMIT_MOST) most = WEIR_LIMIT_MOST;
    snprintf(text, sizeof text, "leaky-bucket:%lld/%lldms", (long long)most, (long long)ms);
    assert_int_equal(status_of(text, &message), WEIR_OK);
    if (most == WEIR_LIMIT_MOST) continue;
    snprintf(text, sizeof text, "leaky-bucket:%lld/%lldms", (long long)most + 1, (long long)ms);
    snprintf(accepted, sizeof accepted, "accepted are up to %lld per %lldms", (long long)most,
             (long long)ms);
    assert_int_equal(status_of(text, &message), WEIR_BAD_RULE);
    assert_non_null(strstr(message.text, accepted));
  }
}

/* The longest burst or queue of a rate, and one more. */
static void reaches_400_days_and_no_further(void **state) {
  (void)state;
  static const struct {
    const char *prefix;
    int64_t most;
  } edges[] = {
      {"token-bucket:1/400d,burst=", 1},
      {"token-bucket:1/1d,burst=", 400},
      {"token-bucket:3/7d,burst=", 171}, /* 171.4 */
      {"token-bucket:999999999/400d,burst=", 999999999},
      {"token-bucket:1/1ms,burst=", 1000000000},
      {"token-bucket:1/34s,burst=", 1016470}, /* 1016470.6 */
      {"leaky-bucket:1/400d,queue=", 0},
      {"leaky-bucket:1/1d,queue=", 399},
      {"leaky-bucket:2/1d,queue=", 799},
      {"leaky-bucket:999999999/400d,queue=", 999999998},
      {"leaky-bucket:1000000000/400d,queue=", 999999999},
  };
  weir_message message;
  for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
    char text[100], accepted[40];
    snprintf(text, sizeof text, "%s%lld", edges[i].prefix, (long long)edges[i].most);
    assert_int_equal(status_of(text, &message), WEIR_OK);
    snprintf(text, sizeof text, "%s%lld", edges[i].prefix, (long long)edges[i].most + 1);
    snprintf(accepted, sizeof accepted, " to %lld", (long long)edges[i].most);
    assert_int_equal(status_of(text, &message), WEIR_BAD_RULE);
    assert_non_null(strstr(message.text, accepted));
  }
}

static void is_not_fooled_by_a_product_that_64_bits_do_not_hold(void **state) {
  (void)state;
  static const char *const texts[] = {
      /* 2^26 * 2^38 * 125 us: a multiple of 2^64 */
      "token-bucket:1/34359738368ms,burst=67108864",  "leaky-bucket:1/34359738368ms,queue=67108863",
      "leaky-bucket:1/34359738368ms,queue=134217727", "token-bucket:1/400d,burst=1000000000",
      "leaky-bucket:1/400d,queue=999999999",
  };
  weir_message message;
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    assert_int_equal(status_of(texts[i], &message), WEIR_BAD_RULE);
    assert_non_null(strstr(message.text, "more than 400d"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_in_the_coarsest_unit_that_is_exact_enough),
      cmocka_unit_test(is_never_faster_than_its_rate_nor_a_thousandth_slower),
      cmocka_unit_test(names_the_fastest_rate_that_it_takes),
      cmocka_unit_test(reaches_400_days_and_no_further),
      cmocka_unit_test(is_not_fooled_by_a_product_that_64_bits_do_not_hold),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

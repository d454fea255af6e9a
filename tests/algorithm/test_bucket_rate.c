/* Ten million decisions of callers who never stop asking, against the exact rate: in no interval
 * more than B + t * L/W, and in all of them together at least 99.9 % of t * L/W. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <inttypes.h>
#include <stdio.h>

#include <cmocka.h>

#include "test_bucket_store.h"

__extension__ typedef __int128 wide;

enum { DECISIONS = 10000000, START_AGAIN = 100000 };

static const struct {
  const char *rule;
  int64_t most_cost;
} rates[] = {{"token-bucket:3/1s", 1},
             {"token-bucket:7/1s,burst=20", 5},
             {"token-bucket:300000/1s,burst=1000", 20},
             {"token-bucket:125000000/1s,burst=1000000", 1500},
             {"leaky-bucket:7/1s,queue=6", 1}};
enum { RATES = sizeof rates / sizeof rates[0] };

/* admitted * W - t * L, which may rise by no more than B * W: kept as its lowest so far. */
struct account {
  wide admitted, lowest;
  int64_t begin_us;
};

static void check(struct account *account, const weir_rule *rule, const weir_decision *decision) {
  wide since = (wide)(decision->at_us - account->begin_us) * rule->limit;
  wide before = account->admitted * rule->period_us - since;
  if (before < account->lowest) account->lowest = before;
  if (decision->allowed) account->admitted += decision->cost;
  wide after = account->admitted * rule->period_us - since;
  if (after - account->lowest > (wide)rule->burst * rule->period_us)
    fail_msg("%s: too much by %" PRId64, rule->tag, decision->at_us);
}

/* Asks for twice what the rate allows; from time to time all stops, and the bucket fills. */
static void keep_asking(size_t which, unsigned traits) {
  const weir_stack stack = stack_of(rates[which].rule);
  const weir_rule *rule = &stack.rules[0];
  struct client client = client_of(&stack, traits);
  struct fake_store store = {0};
  unsigned seed = 11 + (unsigned)which;
  int64_t most_cost = rates[which].most_cost;
  int64_t burst_us = rule->burst * rule->period_us / rule->limit;
  int64_t now_us = INT64_C(1700000000000000);
  struct account account = {.begin_us = now_us};
  wide wanted = 0;
  for (int i = 0; i < DECISIONS / RATES / 2; i++) {
    if (i % START_AGAIN == 0) {
      now_us += 2 * burst_us;
      account.lowest = 0;
      account.admitted = 0;
      account.begin_us = now_us;
    }
    int64_t cost = 1 + rand_r(&seed) % most_cost;
    check(&account, rule, client_decide(&client, &store, now_us, cost));
    /* half of what the cost is worth, on average */
    int64_t worth = cost * rule->period_us;
    int64_t pause_us = worth / (2 * rule->limit);
    now_us += pause_us + (rand_r(&seed) % (2 * rule->limit) < worth % (2 * rule->limit));
    if (i % START_AGAIN != START_AGAIN - 1) continue;
    wanted = (wide)(now_us - account.begin_us) * rule->limit;
    wide without_burst = account.admitted + most_cost - rule->burst;
    if (without_burst * rule->period_us * 1000 < wanted * 999)
      fail_msg("%s: only %" PRId64 " admitted", rule->tag, (int64_t)account.admitted);
  }
  assert_true(wanted > 0);
  client_free(&client);
}

static void keeps_the_exact_rate_where_it_swaps(void **state) {
  (void)state;
  for (size_t i = 0; i < RATES; i++)
    keep_asking(i, WEIR_TRAIT_SWAP);
}

static void keeps_the_exact_rate_where_it_raises(void **state) {
  (void)state;
  for (size_t i = 0; i < RATES; i++)
    keep_asking(i, WEIR_TRAIT_RAISE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_the_exact_rate_where_it_swaps),
      cmocka_unit_test(keeps_the_exact_rate_where_it_raises),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

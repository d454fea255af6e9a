/* The account's arithmetic: shares, weights and chances, what is owed and paid, and the hold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "memo/account.h"

#define SECOND INT64_C(1000000)
#define MINUTE (60 * SECOND)
#define NOW (INT64_C(28333336) * MINUTE)

enum { WHOLE = WEIR_SHARE_WHOLE, PARTS = WEIR_CONTINUED_PARTS };

typedef struct bench {
  weir_stack stack, continued;
  weir_account *account;
} bench;

/* Away since NOW, with this share of every rule, and nothing known. */
static bench set_up(const char *rules, uint32_t share) {
  bench b;
  weir_message message = {""};
  const weir_known known[WEIR_RULES_MOST] = {{0}};
  uint32_t shares[WEIR_RULES_MOST];
  if (weir_stack_parse(rules, 64, &b.stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  weir_stack_continue(&b.stack, &b.continued);
  b.account = weir_account_create(&b.stack);
  assert_non_null(b.account);
  for (size_t i = 0; i < b.stack.count; i++)
    shares[i] = share;
  weir_account_begin(b.account, &b.stack, known, shares, NOW);
  return b;
}

static void begin_again(bench *b, uint32_t share, const weir_known *known, int64_t now_us) {
  uint32_t shares[WEIR_RULES_MOST] = {share, share};
  weir_account_begin(b->account, &b->stack, known, shares, now_us);
}

static void tear_down(bench *b) {
  free(b->account);
}

static int64_t weigh(const bench *b, int64_t cost, uint32_t chance) {
  return weir_account_weigh(b->account, &b->continued.rules[0], 0, cost, false, chance);
}

static int64_t admit(bench *b, int64_t cost, uint32_t chance, int64_t at_us) {
  return weir_account_admit(b->account, &b->stack.rules[0], 0, cost, weigh(b, cost, chance), at_us,
                            true);
}

/* --- shares -------------------------------------------------------------------------------------
 */

static void a_process_without_charges_is_one_of_its_peers(void **state) {
  const weir_pool none = {0};
  (void)state;
  assert_int_equal(weir_account_process_share(&none, 1), WHOLE);
  assert_int_equal(weir_account_process_share(&none, 8), WHOLE / 8);
  assert_int_equal(weir_account_process_share(&none, 100000), WHOLE / 100000);
}

/* (MINE + m f0) / (ALL + m), with m of four own mean costs. */
static void the_prior_weighs_four_charges(void **state) {
  const weir_pool pool = {.mine = 190, .all = 190, .cost = 200, .charges = 20};
  (void)state;
  assert_int_equal(weir_account_process_share(&pool, 8), (190 + 40 / 8) * INT64_C(1000000) / 230);
  const weir_share share = {.mine = 10, .all = 120};
  const weir_peers eight = {.count = 8};
  int64_t like = weir_account_process_share(&pool, 8);
  assert_int_equal(weir_account_key_share(&share, &pool, eight), (10 * WHOLE + 40 * like) / 160);
  const weir_share unseen = {0};
  assert_int_equal(weir_account_key_share(&unseen, &pool, eight), like);
}

/* All of what it has seen was its own: so it is of a key that it goes on to see, and not of others. */
static void who_was_told_of_peers_takes_their_part_of_an_unseen_key(void **state) {
  const weir_pool pool = {.mine = 4000, .all = 4000, .cost = 4000, .charges = 4000};
  const weir_peers told = {.count = 8, .are_told = true};
  const weir_share unseen = {0}, once = {.before = 3, .last = 1}, seen = {.mine = 99, .all = 99};
  const weir_share shared = {.mine = 99, .all = 990};
  (void)state;
  assert_int_equal(weir_account_key_share(&unseen, &pool, told), WHOLE / 8);
  assert_int_equal(weir_account_key_share(&once, &pool, told), WHOLE / 8);
  assert_in_range(weir_account_key_share(&seen, &pool, told), WHOLE * 98 / 100, WHOLE);
  assert_in_range(weir_account_key_share(&shared, &pool, told), WHOLE * 99 / 1000,
                  WHOLE * 105 / 1000);
  const weir_pool small = {.mine = 100, .all = 4000, .cost = 100, .charges = 100};
  assert_in_range(weir_account_key_share(&unseen, &small, told), 1, WHOLE / 30);
}

/* Sums are signed: what was refunded came off the last own charge. */
static void a_share_is_between_nothing_and_all(void **state) {
  const weir_pool pools[] = {
      {.mine = -500, .all = 100, .cost = 10, .charges = 10},
      {.mine = 500, .all = 100, .cost = 10, .charges = 10},
      {.mine = 5, .all = -100, .cost = 10, .charges = 10},
      {.mine = INT64_MIN / 4, .all = INT64_MAX / 4, .cost = 1, .charges = 1},
      {.mine = INT64_MAX / 4, .all = INT64_MAX / 4, .cost = 1, .charges = 1}};
  const uint32_t shares[] = {1, WHOLE, WHOLE, 1, WHOLE - 1};
  (void)state;
  for (size_t i = 0; i < sizeof pools / sizeof pools[0]; i++)
    assert_int_equal(weir_account_process_share(&pools[i], 2), shares[i]);
}

/* --- weights and chances ------------------------------------------------------------------------
 */

static void a_cost_weighs_as_if_all_others_did_likewise(void **state) {
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 4);
  assert_int_equal(weigh(&b, 3, 0), 12 * PARTS);
  assert_int_equal(weigh(&b, 3, WHOLE / 2), 6 * PARTS); /* the first of a period: less u of it */
  assert_int_equal(weigh(&b, 3, WHOLE - 1), 3 * PARTS); /* but never less than itself */
  admit(&b, 3, WHOLE / 2, NOW);
  assert_int_equal(weigh(&b, 3, WHOLE / 2), 12 * PARTS);       /* u is used */
  assert_int_equal(weigh(&b, 1000000000, 0), 100 * PARTS + 1); /* never fits */
  tear_down(&b);
}

/* So many single costs of what is left, by one u. */
static int64_t admitted_of(const char *rules, uint32_t share, int64_t left, int64_t cost,
                           uint64_t secret) {
  bench b = set_up(rules, share);
  int64_t room = left * b.continued.rules[0].parts;
  int64_t admitted = 0;
  uint32_t chance = weir_account_chance(b.account, 0, secret);
  for (int64_t weight; (weight = weigh(&b, cost, chance)) <= room; admitted += cost) {
    admit(&b, cost, chance, NOW);
    room -= weight;
  }
  tear_down(&b);
  return admitted;
}

/* A large share that is no whole number of costs may be one cost short: the first counts as itself
 * at least. */
static void the_mean_over_processes_is_the_share_of_what_is_left(void **state) {
  enum { SECRETS = 20000 };
  static const struct {
    uint32_t share;
    int64_t left, cost;
    double short_by;
  } cases[] = {{WHOLE / 8, 100, 1, 0}, {WHOLE / 8, 10, 1, 0},    {WHOLE / 64, 10, 1, 0},
               {WHOLE / 2, 100, 1, 0}, {WHOLE / 64, 100, 10, 0}, {WHOLE, 5, 1, 0},
               {WHOLE / 3, 7, 2, 1},   {WHOLE * 9 / 10, 5, 1, 1}};
  (void)state;
  for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
    int64_t sum = 0;
    double mean = (double)cases[n].share / WHOLE * (double)cases[n].left;
    for (uint64_t secret = 0; secret < SECRETS; secret++) {
      int64_t admitted = admitted_of("fixed-window:100/1m", cases[n].share, cases[n].left,
                                     cases[n].cost, secret * UINT64_C(0x123456789abcdef));
      if (admitted > cases[n].left) fail_msg("%lld of what is left", (long long)admitted);
      sum += admitted;
    }
    double found = (double)sum / SECRETS;
    /* Five deviations of a chance of 1/2 of one cost, and the rounding up of parts. */
    double allowed = 2.5 * (double)cases[n].cost / 141.0 + 0.01 * mean;
    double least = mean - cases[n].short_by * (double)cases[n].cost;
    if (found > mean + allowed || found < least - allowed)
      fail_msg("case %zu: %f on average of %f", n, found, mean);
  }
}

static void a_process_alone_has_all_that_is_left_and_no_more(void **state) {
  (void)state;
  for (uint64_t secret = 0; secret < 1000; secret++) {
    assert_int_equal(admitted_of("fixed-window:100/1m", WHOLE, 7, 1, secret), 7);
    assert_int_equal(admitted_of("token-bucket:100/1m", WHOLE, 7, 1, secret), 7);
    assert_int_equal(admitted_of("fixed-window:100/1m", WHOLE, 0, 1, secret), 0);
    assert_int_equal(admitted_of("fixed-window:100/1m", 1, 0, 1, secret), 0);
  }
}

static void a_chance_is_drawn_once_for_a_period(void **state) {
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 4);
  uint32_t chance = weir_account_chance(b.account, 0, 77);
  assert_int_equal(weir_account_chance(b.account, 0, 77), chance);
  assert_int_not_equal(weir_account_chance(b.account, 0, 78), chance);
  weir_account_roll(b.account, &b.stack, NOW + MINUTE - 1);
  assert_int_equal(weir_account_chance(b.account, 0, 77), chance);
  const weir_known known = {0};
  begin_again(&b, WHOLE / 4, &known, NOW + SECOND); /* another outage, the same period */
  assert_int_equal(weir_account_chance(b.account, 0, 77), chance);
  weir_account_roll(b.account, &b.stack, NOW + MINUTE);
  assert_int_not_equal(weir_account_chance(b.account, 0, 77), chance);
  tear_down(&b);
}

static void up_to_takes_the_whole_part(void **state) {
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 4);
  const weir_rule *rule = &b.continued.rules[0];
  for (int64_t left = 0; left <= 20; left++) {
    for (uint32_t chance = 0; chance < WHOLE; chance += WHOLE / 16) {
      int64_t cost = weir_account_cost(b.account, rule, 0, left * PARTS, true, chance);
      int64_t whole = (left * (WHOLE / 4) + chance) / WHOLE;
      assert_int_equal(cost, whole < left ? whole : left);
      if (cost > 0)
        assert_in_range(weir_account_weigh(b.account, rule, 0, cost, true, chance), 1,
                        left * PARTS);
    }
    assert_int_equal(weir_account_cost(b.account, rule, 0, left * PARTS, false, WHOLE - 1),
                     left / 4);
  }
  assert_int_equal(weir_account_cost(b.account, rule, 0, -5, true, WHOLE - 1), 0);
  tear_down(&b);
}

/* It keeps what it is short of a request, so u would come on top with each filling: but where its
 * share could never hold a request it is by u alone that there ever is one. */
static void a_bucket_uses_its_chance_once(void **state) {
  (void)state;
  bench b = set_up("token-bucket:10/1m", WHOLE / 4);
  assert_true(weigh(&b, 1, WHOLE / 2) < weigh(&b, 1, 0));
  admit(&b, 1, WHOLE / 2, NOW);
  weir_account_roll(b.account, &b.stack, NOW + 3 * MINUTE);
  assert_int_equal(weigh(&b, 1, WHOLE / 2), weigh(&b, 1, 0));
  tear_down(&b);
  b = set_up("token-bucket:10/1m", WHOLE / 40);
  admit(&b, 1, WHOLE - 1, NOW);
  weir_account_roll(b.account, &b.stack, NOW + 3 * MINUTE);
  assert_true(weigh(&b, 1, WHOLE - 1) < weigh(&b, 1, 0));
  tear_down(&b);
}

/* --- owing and paying ---------------------------------------------------------------------------
 */

static void what_was_certainly_not_sent_is_owed(void **state) {
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE);
  assert_int_equal(admit(&b, 3, 0, NOW), 3);
  assert_int_equal(weir_account_admit(b.account, &b.stack.rules[0], 0, 4, 4 * PARTS, NOW, false),
                   0);
  assert_int_equal(weir_account_admit(b.account, &b.stack.rules[0], 0, 0, 0, NOW, true), 0);
  assert_int_equal(b.account->parts[0].owed, 3);
  assert_int_equal(b.account->parts[0].charged, 7 * PARTS);
  const int64_t paid = 2;
  assert_int_equal(weir_account_pay(b.account, 0, 3, paid), 1); /* no room for the third */
  assert_int_equal(b.account->parts[0].paid, 0);                /* nothing is confirmed so far */
  weir_account_confirm(b.account, 1, &paid, NOW + 1);
  assert_int_equal(b.account->paid_us, NOW + 1);
  assert_int_equal(b.account->parts[0].owed, 0);
  assert_int_equal(b.account->parts[0].paid, 2);
  tear_down(&b);
}

static void a_log_owes_nothing(void **state) {
  (void)state;
  bench b = set_up("sliding-log:100/1m", WHOLE);
  assert_int_equal(admit(&b, 1, 0, NOW), 0);
  assert_int_equal(b.account->parts[0].owed, 0);
  assert_int_equal(b.account->parts[0].charged, PARTS);
  tear_down(&b);
}

static void what_is_owed_is_dropped_when_its_period_ends(void **state) {
  static const struct {
    const char *rules;
    int64_t admitted_us, end_us;
  } cases[] = {
      {"fixed-window:100/1m", 59 * SECOND, MINUTE},
      {"in-flight:100/1m", 0, MINUTE},                     /* with it ends what is held, ... */
      {"in-flight:100/1m", MINUTE, 2 * MINUTE},            /* ... or later, where it paid ahead */
      {"quota:100/1m", 59 * SECOND, 59 * SECOND + MINUTE}, /* its first admission opens it */
      {"sliding-window:100/1m", 59 * SECOND, 59 * SECOND + MINUTE},
      {"token-bucket:100/1m", 59 * SECOND, 59 * SECOND + MINUTE},
      {"token-bucket:100/1m,burst=50", 0, 30 * SECOND}, /* the time in which it fills */
      {"leaky-bucket:100/1m,queue=49", 0, 30 * SECOND},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench b = set_up(cases[i].rules, WHOLE);
    weir_account_roll(b.account, &b.stack, NOW + cases[i].admitted_us);
    admit(&b, 3, 0, NOW + cases[i].admitted_us);
    assert_int_equal(weir_account_roll(b.account, &b.stack, NOW + cases[i].end_us - 1), 0);
    assert_int_equal(b.account->parts[0].owed, 3);
    int64_t dropped = weir_account_roll(b.account, &b.stack, NOW + cases[i].end_us);
    if (dropped != 3) fail_msg("%s: %lld dropped", cases[i].rules, (long long)dropped);
    assert_int_equal(b.account->parts[0].owed, 0);
    assert_int_equal(weir_account_roll(b.account, &b.stack, NOW + cases[i].end_us), 0);
    tear_down(&b);
  }
}

/* An outage that lasts: one request a second, of which the last period's may still count. */
static void what_is_owed_is_no_more_than_of_two_periods(void **state) {
  static const char *const rules[] = {"sliding-window:30/10s", "token-bucket:30/10s",
                                      "leaky-bucket:30/10s,queue=29"};
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    bench b = set_up(rules[i], WHOLE);
    int64_t dropped = 0;
    for (int second = 0; second < 100; second++) {
      dropped += weir_account_roll(b.account, &b.stack, NOW + second * SECOND);
      admit(&b, 1, 0, NOW + second * SECOND);
      const int64_t owed = b.account->parts[0].owed;
      if (owed > 20 || owed < (second < 10 ? second + 1 : 10))
        fail_msg("%s: %lld owed after %d s", rules[i], (long long)owed, second);
      assert_int_equal(owed + dropped, second + 1);
    }
    weir_account_pay(b.account, 0, 5, 5);
    const int64_t owed = b.account->parts[0].owed;
    weir_account_roll(b.account, &b.stack, NOW + 99 * SECOND + 10 * SECOND - 1);
    assert_in_range(b.account->parts[0].owed, 1, owed);
    weir_account_roll(b.account, &b.stack, NOW + 99 * SECOND + 10 * SECOND);
    assert_int_equal(b.account->parts[0].owed, 0);
    tear_down(&b);
  }
}

static void a_quota_continues_the_window_that_is_open(void **state) {
  (void)state;
  bench b = set_up("quota:100/1m", WHOLE);
  const weir_known open = {.count = 1, .charges = {{.at_us = NOW - 50 * SECOND, .amount = PARTS}}};
  begin_again(&b, WHOLE, &open, NOW);
  admit(&b, 3, 0, NOW);
  assert_int_equal(weir_account_roll(b.account, &b.stack, NOW + 10 * SECOND - 1), 0);
  assert_int_equal(weir_account_roll(b.account, &b.stack, NOW + 10 * SECOND), 3);
  admit(&b, 2, 0, NOW + 25 * SECOND); /* opens the next */
  assert_int_equal(weir_account_roll(b.account, &b.stack, NOW + 85 * SECOND - 1), 0);
  assert_int_equal(weir_account_roll(b.account, &b.stack, NOW + 85 * SECOND), 2);
  tear_down(&b);
}

/* --- giving back --------------------------------------------------------------------------------
 */

static void what_is_owed_goes_back_before_what_was_paid(void **state) {
  int64_t weight;
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 2);
  const weir_rule *rule = &b.continued.rules[0];
  admit(&b, 5, 0, NOW);
  const int64_t paid = 2;
  weir_account_pay(b.account, 0, 2, paid); /* 3 owed, 2 paid */
  weir_account_confirm(b.account, 1, &paid, NOW);
  assert_int_equal(weir_account_refund(b.account, rule, 0, 1, true, &weight), 0);
  assert_int_equal(weight, 2 * PARTS);
  assert_int_equal(b.account->parts[0].owed, 2);
  assert_int_equal(weir_account_refund(b.account, rule, 0, 4, true, &weight), 2);
  assert_int_equal(b.account->parts[0].owed, 0);
  assert_int_equal(b.account->parts[0].paid, 0);
  assert_int_equal(b.account->parts[0].charged, 0);
  tear_down(&b);
}

/* A refund to the store was not owed any more, and frees nothing that is. */
static void what_was_sent_and_not_answered_is_owed_by_nobody(void **state) {
  int64_t weight;
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 2);
  admit(&b, 3, 0, NOW);
  assert_int_equal(weir_account_refund(b.account, &b.continued.rules[0], 0, 2, false, &weight), 0);
  assert_int_equal(weight, 4 * PARTS);
  assert_int_equal(b.account->parts[0].owed, 3);
  tear_down(&b);
}

static void no_more_goes_back_than_is_counted(void **state) {
  int64_t weight;
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 2);
  admit(&b, 3, WHOLE / 2, NOW); /* 3 of 6 */
  weir_account_refund(b.account, &b.continued.rules[0], 0, 3, true, &weight);
  assert_int_equal(weight, 3 * PARTS);
  assert_int_equal(b.account->parts[0].charged, 0);
  weir_account_roll(b.account, &b.stack, NOW + MINUTE); /* of a period that is over */
  assert_int_equal(weir_account_refund(b.account, &b.continued.rules[0], 0, 3, true, &weight), 0);
  assert_int_equal(weight, 0);
  tear_down(&b);
}

static void what_is_older_than_every_period_matters_no_more(void **state) {
  (void)state;
  bench b = set_up("fixed-window:100/1m;token-bucket:10/1m,burst=20", WHOLE);
  assert_true(weir_account_may_matter(&b.stack, NOW, NOW + 2 * MINUTE - 1));
  assert_false(weir_account_may_matter(&b.stack, NOW, NOW + 2 * MINUTE));
  tear_down(&b);
}

/* --- the hold -----------------------------------------------------------------------------------
 */

static void it_holds_as_long_as_the_policy_answered(void **state) {
  static const struct {
    int64_t away_us, hold_us;
  } cases[] = {{0, 40000},
               {30000, 70000},
               {500000, 540000},
               {2 * SECOND - 1, 540000},
               {2 * SECOND, 1040000},
               {60 * SECOND, 1040000},
               {-5, 40000}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bench b = set_up("fixed-window:100/1m", WHOLE / 2);
    int64_t back_us = NOW + cases[i].away_us;
    assert_false(weir_account_holds(b.account, back_us)); /* the store has not answered */
    assert_false(weir_account_is_quiet(b.account, back_us + MINUTE));
    b.account->will_hold = true;
    weir_account_hold(b.account, back_us, 20000);
    assert_true(weir_account_holds(b.account, back_us + cases[i].hold_us - 1));
    assert_false(weir_account_is_quiet(b.account, back_us + cases[i].hold_us - 1));
    assert_false(weir_account_holds(b.account, back_us + cases[i].hold_us));
    assert_true(weir_account_is_quiet(b.account, back_us + cases[i].hold_us));
    tear_down(&b);
  }
}

static void it_holds_nothing_where_the_store_was_only_slow(void **state) {
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 2);
  weir_account_hold(b.account, NOW + SECOND, 20000);
  assert_false(weir_account_holds(b.account, NOW + SECOND));
  assert_true(weir_account_is_quiet(b.account, NOW + SECOND));
  tear_down(&b);
}

static void a_reset_forgives_what_is_owed(void **state) {
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 2);
  admit(&b, 3, 0, NOW);
  assert_int_equal(weir_account_forgive(b.account, &b.stack, NOW), 3);
  assert_int_equal(b.account->parts[0].owed, 0);
  assert_false(weir_account_holds(b.account, NOW));
  assert_true(weir_account_is_quiet(b.account, NOW));
  tear_down(&b);
}

static void it_is_over_when_nothing_is_left_of_it(void **state) {
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 2);
  admit(&b, 3, 0, NOW);
  assert_false(weir_account_is_over(b.account, &b.stack, NOW + 2 * MINUTE));
  weir_account_hold(b.account, NOW, 20000);
  assert_false(weir_account_is_over(b.account, &b.stack, NOW + 2 * MINUTE)); /* it owes */
  weir_account_pay(b.account, 0, 3, 3);
  assert_false(weir_account_is_over(b.account, &b.stack, NOW + 2 * MINUTE - 1));
  assert_true(weir_account_is_over(b.account, &b.stack, NOW + 2 * MINUTE));
  tear_down(&b);
}

/* The next one finds of a period what the one before it left. */
static void another_outage_of_the_period_still_knows_what_was_paid(void **state) {
  const weir_known known = {0};
  const weir_known of_log = {.of_log = true};
  (void)state;
  bench b = set_up("fixed-window:100/1m", WHOLE / 2);
  admit(&b, 5, 0, NOW);
  const int64_t paid = 2;
  weir_account_pay(b.account, 0, 2, paid);
  weir_account_confirm(b.account, 1, &paid, NOW);
  begin_again(&b, WHOLE / 4, &known, NOW + SECOND);
  assert_int_equal(b.account->parts[0].owed, 3);
  assert_int_equal(b.account->parts[0].paid, 2);
  assert_int_equal(b.account->parts[0].charged, 0); /* it is known by the store now */
  assert_int_equal(b.account->parts[0].share, WHOLE / 4);
  begin_again(&b, WHOLE / 4, &known, NOW + MINUTE);
  assert_int_equal(b.account->parts[0].paid, 0);
  tear_down(&b);
  b = set_up("sliding-log:100/1m", WHOLE / 2); /* which the store never has */
  admit(&b, 1, 0, NOW);
  begin_again(&b, WHOLE / 4, &of_log, NOW + SECOND);
  assert_int_equal(b.account->parts[0].charged, 2 * PARTS);
  assert_int_equal(weigh(&b, 1, WHOLE / 2), 4 * PARTS); /* nor is its u drawn again */
  tear_down(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_process_without_charges_is_one_of_its_peers),
      cmocka_unit_test(the_prior_weighs_four_charges),
      cmocka_unit_test(who_was_told_of_peers_takes_their_part_of_an_unseen_key),
      cmocka_unit_test(a_share_is_between_nothing_and_all),
      cmocka_unit_test(a_cost_weighs_as_if_all_others_did_likewise),
      cmocka_unit_test(the_mean_over_processes_is_the_share_of_what_is_left),
      cmocka_unit_test(a_process_alone_has_all_that_is_left_and_no_more),
      cmocka_unit_test(a_chance_is_drawn_once_for_a_period),
      cmocka_unit_test(up_to_takes_the_whole_part),
      cmocka_unit_test(a_bucket_uses_its_chance_once),
      cmocka_unit_test(what_was_certainly_not_sent_is_owed),
      cmocka_unit_test(a_log_owes_nothing),
      cmocka_unit_test(what_is_owed_is_dropped_when_its_period_ends),
      cmocka_unit_test(what_is_owed_is_no_more_than_of_two_periods),
      cmocka_unit_test(a_quota_continues_the_window_that_is_open),
      cmocka_unit_test(what_is_owed_goes_back_before_what_was_paid),
      cmocka_unit_test(what_was_sent_and_not_answered_is_owed_by_nobody),
      cmocka_unit_test(no_more_goes_back_than_is_counted),
      cmocka_unit_test(what_is_older_than_every_period_matters_no_more),
      cmocka_unit_test(it_holds_as_long_as_the_policy_answered),
      cmocka_unit_test(it_holds_nothing_where_the_store_was_only_slow),
      cmocka_unit_test(a_reset_forgives_what_is_owed),
      cmocka_unit_test(it_is_over_when_nothing_is_left_of_it),
      cmocka_unit_test(another_outage_of_the_period_still_knows_what_was_paid),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

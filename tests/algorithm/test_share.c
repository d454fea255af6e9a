/* The measured share: what several processes on one store take to be their own part adds up to 1. The
 * processes are limiters in this one, on a store that they share, with clocks that stand still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "algorithm/algorithm.h"
#include "fixture/clock.h"
#include "limiter/limiter.h"

#define SECOND INT64_C(1000000)
#define BEGIN (INT64_C(1700000160) * SECOND)

enum { PROCESSES_MOST = 64 };

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker wants these names */
int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

/* By this clock nothing ends, however long a busy machine takes. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
  if (clock != CLOCK_BOOTTIME) return __real_clock_gettime(clock, time);
  *time = (struct timespec){.tv_sec = 1000};
  return 0;
}
/* NOLINTEND(bugprone-reserved-identifier) */

typedef struct bench {
  hand_clock clock;
  weir_store *store;
  weir_limiter *limiters[PROCESSES_MOST];
  int processes;
  uint64_t random;
} bench;

static void set_up(bench *b, const char *rules, int processes) {
  weir_message message = {""};
  *b = (bench){.clock = {BEGIN}, .processes = processes, .random = 7};
  const weir_limiter_options options = {.size = sizeof options,
                                        .clock = hand_clock_as_clock(&b->clock),
                                        .processes = PROCESSES_MOST,
                                        .renew = WEIR_RENEW_BY_CALLER,
                                        .flags = WEIR_NO_LOCAL_DENIAL};
  assert_int_equal(weir_store_open("memory:", &b->store, NULL), WEIR_OK);
  for (int i = 0; i < processes; i++)
    if (weir_limiter_create(b->store, rules, &options, &b->limiters[i], &message) != WEIR_OK)
      fail_msg("%s", message.text);
}

static void tear_down(bench *b) {
  for (int i = 0; i < b->processes; i++)
    weir_limiter_destroy(b->limiters[i]);
  weir_store_close(b->store);
}

static int draw(bench *b, int below) {
  b->random = b->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int)((b->random >> 33) % (uint64_t)below);
}

static weir_decision take(bench *b, int process, const char *key, int64_t cost) {
  weir_decision decision = {0};
  assert_int_equal(weir_limiter_take(b->limiters[process], key, strlen(key), cost, &decision, NULL),
                   WEIR_OK);
  return decision;
}

static void give_back(bench *b, int process, const char *key, int64_t cost, weir_decision *taken) {
  assert_int_equal(weir_limiter_refund(b->limiters[process], key, strlen(key), cost, taken, NULL),
                   WEIR_OK);
}

static weir_share share_of(bench *b, int process, const char *key) {
  weir_limiter *limiter = b->limiters[process];
  weir_memo_entry *entry = weir_limiter_lock(limiter, key, strlen(key));
  weir_share share = entry->memo->expected[0].share;
  weir_lock_leave(&entry->shard->lock);
  return share;
}

/* Without a prior, cut to what a share can be. */
static double part_of(const weir_share *share) {
  if (share->all <= 0) return share->mine > 0 ? 1 : 0;
  double part = (double)share->mine / (double)share->all;
  return part < 0 ? 0 : part > 1 ? 1 : part;
}

static double sum_of(bench *b, const char *key) {
  double sum = 0;
  for (int i = 0; i < b->processes; i++) {
    weir_share share = share_of(b, i, key);
    sum += part_of(&share);
  }
  return sum;
}

/* --- several processes --------------------------------------------------------------------------
 */

/* With their last charges they would be 1.92 of 8 charges, 1.60 of 200 among 64. */
static void charges_in_random_order_make_shares_of_1(void **state) {
  static const struct {
    int processes, charges, keys;
    double least, most;
  } cases[] = {{8, 8, 600, 0.5, 0.8},
               {8, 50, 300, 0.95, 1.05},
               {8, 200, 200, 0.97, 1.03},
               {64, 200, 100, 0.88, 1.02}};
  (void)state;
  for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
    bench b;
    double sum = 0;
    set_up(&b, "fixed-window:100000/400d", cases[n].processes);
    for (int key = 0; key < cases[n].keys; key++) {
      char name[16];
      snprintf(name, sizeof name, "key%d", key);
      for (int i = 0; i < cases[n].charges; i++)
        take(&b, draw(&b, b.processes), name, 1 + (n == 1 ? draw(&b, 3) : 0));
      sum += sum_of(&b, name);
    }
    double mean = sum / cases[n].keys;
    print_message("%d processes, %d charges: %.3f\n", cases[n].processes, cases[n].charges, mean);
    assert_true(mean >= cases[n].least && mean <= cases[n].most);
    tear_down(&b);
  }
}

/* Every order of 7 charges by 3 processes. */
static void in_all_orders_the_mean_is_1_at_the_most(void **state) {
  enum { PROCESSES = 3, CHARGES = 7, ORDERS = 2187 };
  bench b;
  double sum = 0;
  (void)state;
  set_up(&b, "fixed-window:100/400d", PROCESSES);
  for (int order = 0; order < ORDERS; order++) {
    char name[16];
    snprintf(name, sizeof name, "key%d", order);
    for (int i = 0, rest = order; i < CHARGES; i++, rest /= PROCESSES)
      take(&b, rest % PROCESSES, name, 1);
    sum += sum_of(&b, name);
  }
  print_message("mean %.4f\n", sum / ORDERS);
  assert_true(sum / ORDERS <= 1 && sum / ORDERS > 0.8);
  tear_down(&b);
}

/* Without the signs 8 processes add up to 4.6. */
static void what_is_settled_comes_off(void **state) {
  enum { PROCESSES = 8, CHARGES = 400, KEYS = 20 };
  static const char *const rules[] = {"fixed-window:1000000/400d", "sliding-window:1000000/1h",
                                      "quota:1000000/1h"};
  (void)state;
  for (size_t n = 0; n < sizeof rules / sizeof rules[0]; n++) {
    bench b;
    double sum = 0;
    set_up(&b, rules[n], PROCESSES);
    for (int key = 0; key < KEYS; key++) {
      char name[16];
      snprintf(name, sizeof name, "key%d", key);
      for (int i = 0; i < CHARGES; i++) {
        int process = draw(&b, PROCESSES);
        weir_decision taken = take(&b, process, name, 10);
        give_back(&b, process, name, 9, &taken);
      }
      sum += sum_of(&b, name);
    }
    print_message("%s: %.3f\n", rules[n], sum / KEYS);
    assert_true(sum / KEYS > 0.95 && sum / KEYS < 1.05);
    tear_down(&b);
  }
}

static void a_process_alone_is_all(void **state) {
  static const char *const rules[] = {"fixed-window:1000/400d", "sliding-window:1000/1h",
                                      "quota:1000/1h",          "sliding-log:1000/1h",
                                      "token-bucket:1000/1h",   "leaky-bucket:1000/1h,queue=999"};
  (void)state;
  for (size_t n = 0; n < sizeof rules / sizeof rules[0]; n++) {
    bench b;
    set_up(&b, rules[n], 1);
    for (int i = 0; i < 20; i++)
      take(&b, 0, "k", 1);
    weir_share share = share_of(&b, 0, "k");
    assert_true(share.mine > 0);
    assert_int_equal(share.mine, share.all);
    tear_down(&b);
  }
}

/* --- one charge after another -------------------------------------------------------------------
 */

static void the_last_own_charge_does_not_count_yet(void **state) {
  bench b;
  (void)state;
  set_up(&b, "fixed-window:1000/400d", 2);
  take(&b, 0, "k", 5);
  weir_share share = share_of(&b, 0, "k");
  assert_int_equal(share.mine, 0);
  assert_int_equal(share.all, 0);
  assert_int_equal(share.last, 5);
  take(&b, 1, "k", 20);
  share = share_of(&b, 1, "k");
  assert_int_equal(share.mine, 0);
  assert_int_equal(share.all, 5);
  take(&b, 0, "k", 1);
  share = share_of(&b, 0, "k");
  assert_int_equal(share.mine, 5);
  assert_int_equal(share.all, 25);
  assert_int_equal(share.before, 25);
  assert_int_equal(share.last, 1);
  tear_down(&b);
}

static void a_denial_teaches_nothing(void **state) {
  bench b;
  (void)state;
  set_up(&b, "fixed-window:10/400d", 2);
  take(&b, 0, "k", 5);
  take(&b, 1, "k", 5);
  weir_share before = share_of(&b, 0, "k");
  assert_false(take(&b, 0, "k", 1).allowed);
  weir_share after = share_of(&b, 0, "k");
  assert_memory_equal(&before, &after, sizeof after);
  tear_down(&b);
}

static void a_period_begins_with_half_of_the_past(void **state) {
  static const struct {
    const char *rules;
    int64_t after_us; /* a period later, and two more */
  } cases[] = {{"fixed-window:1000/1m", 60 * SECOND},
               {"sliding-window:1000/1m", 60 * SECOND},
               {"quota:1000/1m", 60 * SECOND}};
  (void)state;
  for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
    bench b;
    set_up(&b, cases[n].rules, 2);
    take(&b, 0, "k", 8);
    take(&b, 1, "k", 24);
    take(&b, 0, "k", 1); /* mine 8, all 32 */
    b.clock.now_us += cases[n].after_us;
    take(&b, 0, "k", 3);
    weir_share share = share_of(&b, 0, "k");
    assert_int_equal(share.mine, 4);
    assert_int_equal(share.all, 16);
    assert_int_equal(share.before, 0);
    assert_int_equal(share.last, 3);
    b.clock.now_us += 2 * cases[n].after_us;
    take(&b, 0, "k", 3);
    share = share_of(&b, 0, "k");
    assert_int_equal(share.mine, 1);
    assert_int_equal(share.all, 4);
    tear_down(&b);
  }
}

/* Somebody resets the key: less is there than this process was charged. */
static void a_loss_teaches_nothing(void **state) {
  static const char *const rules[] = {"fixed-window:1000/400d", "quota:1000/1h",
                                      "token-bucket:1000/400d"};
  (void)state;
  for (size_t n = 0; n < sizeof rules / sizeof rules[0]; n++) {
    bench b;
    set_up(&b, rules[n], 2);
    take(&b, 0, "k", 8);
    take(&b, 1, "k", 24);
    take(&b, 0, "k", 100);
    weir_share before = share_of(&b, 0, "k");
    assert_int_equal(weir_limiter_reset(b.limiters[1], "k", 1, NULL), WEIR_OK);
    take(&b, 1, "k", 3);
    take(&b, 0, "k", 1);
    weir_share after = share_of(&b, 0, "k");
    if (after.all < before.all || after.mine > after.all || after.last <= 0)
      fail_msg("%s: %lld of %lld", rules[n], (long long)after.mine, (long long)after.all);
    tear_down(&b);
  }
}

/* --- buckets ------------------------------------------------------------------------------------
 */

/* As long as it has not run dry its level says what others took. */
static void a_bucket_teaches_while_it_lasts(void **state) {
  bench b;
  double sum = 0;
  (void)state;
  set_up(&b, "token-bucket:1000/1s,burst=1000", 4);
  for (int i = 0; i < 4000; i++) {
    b.clock.now_us += 1100;
    take(&b, draw(&b, 4), "k", 1);
  }
  for (int i = 0; i < 4; i++) {
    weir_share share = share_of(&b, i, "k");
    sum += part_of(&share);
  }
  print_message("used at 0.9 of the rate: %.3f\n", sum);
  assert_true(sum > 0.6 && sum < 1.15);
  tear_down(&b);
}

/* Then it counts as if it never had: the share is a part of the rate. */
static void a_bucket_that_runs_dry_counts_the_whole_rate(void **state) {
  bench b;
  (void)state;
  set_up(&b, "token-bucket:10/1s,burst=10", 1);
  for (int i = 0; i < 200; i++) {
    b.clock.now_us += 400000; /* a fourth of the rate */
    take(&b, 0, "k", 1);
  }
  weir_share share = share_of(&b, 0, "k");
  assert_true(part_of(&share) > 0.2 && part_of(&share) < 0.35);
  tear_down(&b);
}

/* Longer than it fills, and a second. */
static void a_long_gap_teaches_nothing(void **state) {
  bench b;
  (void)state;
  set_up(&b, "token-bucket:1000/1s,burst=10", 1);
  take(&b, 0, "k", 1);
  take(&b, 0, "k", 1);
  weir_share before = share_of(&b, 0, "k");
  b.clock.now_us += 3 * SECOND;
  take(&b, 0, "k", 1);
  weir_share after = share_of(&b, 0, "k");
  assert_int_equal(after.mine, before.mine);
  assert_int_equal(after.all, before.all);
  tear_down(&b);
}

/* --- places ------------------------------------------------------------------------------------
 */

enum { SLOTS_MOST = 8 };

/* Processes that want places of one key, one after another; until when each is held. */
typedef struct holder {
  weir_reservation *place;
  int64_t until_us;
} holder;

static void leave(holder *one) {
  assert_int_equal(weir_reservation_commit(one->place, NULL), WEIR_OK);
  weir_reservation_destroy(one->place);
  one->place = NULL;
}

static void hold_for_a_while(bench *b, int process, holder *one, int64_t work_us) {
  weir_request request = {.key = "k", .key_length = 1, .cost = 1};
  assert_int_equal(weir_limiter_reserve(b->limiters[process], &request, &one->place, NULL),
                   WEIR_OK);
  one->until_us = b->clock.now_us + 2 * draw(b, (int)work_us);
}

/* The sum of what the processes of a bench take to be theirs, when each had so many callers, who each want
 * a place one moment in `rarity`. */
static double sum_of_held(bench *b, int slots, int rarity, int64_t work_us, int64_t lasts_us) {
  holder holders[PROCESSES_MOST][SLOTS_MOST] = {{{0}}};
  double sum = 0;
  int64_t next_us;
  for (int64_t end_us = b->clock.now_us + lasts_us; b->clock.now_us < end_us;
       b->clock.now_us += 1000)
    for (int i = 0; i < b->processes; i++) {
      weir_limiter_renew(b->limiters[i], &next_us, NULL);
      for (int n = 0; n < slots; n++) {
        holder *one = &holders[i][n];
        if (one->place != NULL && b->clock.now_us >= one->until_us) leave(one);
        if (one->place == NULL && draw(b, rarity) == 0) hold_for_a_while(b, i, one, work_us);
      }
    }
  for (int i = 0; i < b->processes; i++) {
    weir_limiter_counts counts = WEIR_LIMITER_COUNTS_INIT;
    weir_limiter_read_counts(b->limiters[i], &counts);
    sum += (double)counts.share / WEIR_SHARE_WHOLE;
    for (int n = 0; n < slots; n++)
      if (holders[i][n].place != NULL) leave(&holders[i][n]);
  }
  return sum;
}

/* Entries counted against a total from which others leave would be 2 to 8. */
static void places_make_shares_of_1(void **state) {
  static const struct {
    const char *rules;
    int processes, slots, rarity;
    int64_t work_us, lasts_us;
    double least;
  } cases[] = {{"in-flight:20/1s", 8, 8, 10, 100000, 10 * SECOND, 0.9},     /* more are wanted */
               {"in-flight:20/1s", 8, 2, 500, 100000, 10 * SECOND, 0.9},    /* half is used */
               {"in-flight:20/2s", 8, 6, 10, 2 * SECOND, 10 * SECOND, 0.9}, /* for long */
               {"in-flight:100/30s", 8, 8, 50, 20000, 5 * SECOND, 0.9},
               {"in-flight:1/1s", 8, 1, 25, 20000, 10 * SECOND, 0.8},
               {"in-flight:1/1s", 1, 1, 100, 20000, 10 * SECOND, 0.9}}; /* who is alone */
  (void)state;
  for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
    bench b;
    set_up(&b, cases[n].rules, cases[n].processes);
    double sum =
        sum_of_held(&b, cases[n].slots, cases[n].rarity, cases[n].work_us, cases[n].lasts_us);
    print_message("%s, %d processes: %.3f\n", cases[n].rules, cases[n].processes, sum);
    if (sum < cases[n].least || sum > 1.1) fail_msg("%s: %.3f", cases[n].rules, sum);
    tear_down(&b);
  }
}

/* Over all keys: what is said in the counts. */
static void the_count_of_the_share_is_that_of_the_process(void **state) {
  bench b;
  (void)state;
  set_up(&b, "fixed-window:1000/400d", 2);
  weir_limiter_counts counts = {.size = sizeof counts};
  weir_limiter_read_counts(b.limiters[0], &counts);
  assert_int_equal(counts.share, WEIR_SHARE_WHOLE / PROCESSES_MOST);
  for (int i = 0; i < 400; i++) {
    char key[8];
    snprintf(key, sizeof key, "k%d", i % 7);
    take(&b, draw(&b, 4) == 0, key, 1); /* three of four are the first's */
  }
  weir_limiter_read_counts(b.limiters[0], &counts);
  assert_in_range(counts.share, WEIR_SHARE_WHOLE * 65 / 100, WEIR_SHARE_WHOLE * 85 / 100);
  tear_down(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(charges_in_random_order_make_shares_of_1),
      cmocka_unit_test(in_all_orders_the_mean_is_1_at_the_most),
      cmocka_unit_test(what_is_settled_comes_off),
      cmocka_unit_test(a_process_alone_is_all),
      cmocka_unit_test(the_last_own_charge_does_not_count_yet),
      cmocka_unit_test(a_denial_teaches_nothing),
      cmocka_unit_test(a_period_begins_with_half_of_the_past),
      cmocka_unit_test(a_loss_teaches_nothing),
      cmocka_unit_test(a_bucket_teaches_while_it_lasts),
      cmocka_unit_test(a_bucket_that_runs_dry_counts_the_whole_rate),
      cmocka_unit_test(a_long_gap_teaches_nothing),
      cmocka_unit_test(places_make_shares_of_1),
      cmocka_unit_test(the_count_of_the_share_is_that_of_the_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

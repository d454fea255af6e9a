/* A decision's report is exact: thousands of random states, each checked against the definition,
 * worked out anew from a list of everything that was charged. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "limiter/world.h"

__extension__ typedef __int128 wide;

enum { CHARGES_MOST = 4096, STEPS = 4000 };

/* One rule, as its text says. */
struct rule {
  const char *text;
  bool sliding;
  int64_t limit, period_us, cells;
  bool strict, count_all;
};

static const struct rule rules[] = {
    {"fixed-window:7/1s", false, 7, 1000000, 1, false, false},
    {"fixed-window:7/1s,count=all", false, 7, 1000000, 1, false, true},
    {"sliding-window:10/1s,cells=1", true, 10, 1000000, 1, false, false},
    {"sliding-window:9/1s,cells=2", true, 9, 1000000, 2, false, false},
    {"sliding-window:10/1s", true, 10, 1000000, 4, false, false},
    {"sliding-window:1/1s", true, 1, 1000000, 4, false, false},
    {"sliding-window:100/7ms,cells=64", true, 100, 7000, 64, false, false},
    {"sliding-window:13/1m,cells=16", true, 13, 60000000, 16, false, false},
    {"sliding-window:13/1m,cells=16,strict", true, 13, 60000000, 16, true, false},
    {"sliding-window:10/1s,strict", true, 10, 1000000, 4, true, false},
    {"sliding-window:10/1s,cells=1,strict", true, 10, 1000000, 1, true, false},
    {"sliding-window:10/1s,count=all", true, 10, 1000000, 4, false, true},
    {"sliding-window:10/1s,cells=1,count=all", true, 10, 1000000, 1, false, true},
    {"sliding-window:5000000/1s", true, 5000000, 1000000, 4, false, false},
    {"sliding-window:1000000000/400d", true, 1000000000, INT64_C(34560000000000), 4, false, false},
};

struct charge {
  int64_t at_us, cost;
};

/* The truth, by the definition alone. */
struct truth {
  const struct rule *rule;
  int64_t cell_us;
  struct charge charges[CHARGES_MOST];
  size_t count;
};

static int64_t floor_divide(int64_t number, int64_t divisor) {
  return number / divisor - (number % divisor < 0);
}

static void forget_old(struct truth *truth, int64_t now_us) {
  size_t kept = 0;
  for (size_t i = 0; i < truth->count; i++)
    if (truth->charges[i].at_us >= now_us - 3 * truth->rule->period_us)
      truth->charges[kept++] = truth->charges[i];
  truth->count = kept;
}

static void charge(struct truth *truth, int64_t now_us, int64_t cost) {
  forget_old(truth, now_us);
  assert_true(truth->count < CHARGES_MOST);
  truth->charges[truth->count++] = (struct charge){now_us, cost};
}

static bool fixed_fits(const struct truth *truth, int64_t now_us, int64_t cost) {
  wide sum = cost;
  for (size_t i = 0; i < truth->count; i++)
    if (truth->charges[i].at_us / truth->cell_us == now_us / truth->cell_us)
      sum += truth->charges[i].cost;
  return sum <= truth->rule->limit;
}

static bool fits(const struct truth *truth, int64_t now_us, int64_t cost) {
  const struct rule *rule = truth->rule;
  if (!rule->sliding) return fixed_fits(truth, now_us, cost);
  int64_t width = truth->cell_us;
  int64_t far = floor_divide(now_us - rule->period_us, width);
  int64_t left = (far + 1) * width - 1 - (now_us - rule->period_us);
  wide inside = cost;
  wide edge = 0;
  for (size_t i = 0; i < truth->count; i++) {
    int64_t cell = truth->charges[i].at_us / width;
    if (cell > far) inside += truth->charges[i].cost;
    if (cell == far) edge += truth->charges[i].cost;
  }
  wide estimate = inside + (2 * edge * left + width) / ((wide)2 * width);
  wide upper = inside + (left > 0 ? edge : 0);
  int64_t bound = rule->limit + (2 * rule->limit + rule->cells - 1) / rule->cells;
  return rule->strict ? upper <= rule->limit : estimate <= rule->limit && upper <= bound;
}

static int64_t reset_after(const struct truth *truth, int64_t now_us) {
  int64_t end_us = now_us;
  for (size_t i = 0; i < truth->count; i++) {
    int64_t end = (truth->charges[i].at_us / truth->cell_us + 1) * truth->cell_us;
    if (truth->rule->sliding) end += truth->rule->period_us - 1;
    if (end > end_us) end_us = end;
  }
  return end_us - now_us;
}

/* xorshift64: the same states on every machine. */
static uint64_t random_bits(uint64_t *seed) {
  *seed ^= *seed << 13;
  *seed ^= *seed >> 7;
  *seed ^= *seed << 17;
  return *seed;
}

static int64_t random_below(uint64_t *seed, int64_t most) {
  return (int64_t)(random_bits(seed) % (uint64_t)most);
}

/* Mostly within a cell or two, often right at a cell's edge, now and then far. */
static int64_t random_step(uint64_t *seed, const struct truth *truth, int64_t now_us) {
  int64_t to_edge = truth->cell_us - now_us % truth->cell_us;
  switch (random_below(seed, 8)) {
    case 0:
      return to_edge + random_below(seed, 3) - 1;
    case 1:
      return random_below(seed, 2 * truth->rule->period_us + 2);
    case 2:
    case 3:
      return 0;
    default:
      return random_below(seed, truth->cell_us);
  }
}

static int64_t random_cost(uint64_t *seed, int64_t limit) {
  return random_below(seed, 3) == 0 ? 1 + random_below(seed, limit)
                                    : 1 + random_below(seed, (limit + 9) / 10);
}

#define SHOULD(condition)                                                                      \
  do {                                                                                         \
    if (!(condition))                                                                          \
      fail_msg("%s, %" PRId64 " us after the start, cost %" PRId64                             \
               ": not %s (allowed %d, "                                                        \
               "remaining %" PRId64 ", retry %" PRId64 ", reset %" PRId64 ")",                 \
               truth->rule->text, now_us - START_US, cost, #condition, d.allowed, d.remaining, \
               d.retry_after_us, d.reset_after_us);                                            \
  } while (0)

/* `fitted`: whether the cost did, before the decision. */
static void check(const struct truth *truth, int64_t now_us, int64_t cost, bool fitted,
                  weir_decision d) {
  SHOULD(d.allowed == fitted);
  SHOULD(d.limit == truth->rule->limit);
  SHOULD(d.remaining == 0 || fits(truth, now_us, d.remaining));
  SHOULD(!fits(truth, now_us, d.remaining + 1));
  SHOULD(d.allowed ? d.retry_after_us == 0 : d.retry_after_us > 0);
  SHOULD(d.allowed || fits(truth, now_us + d.retry_after_us, cost));
  SHOULD(d.allowed || !fits(truth, now_us + d.retry_after_us - 1, cost));
  SHOULD(d.reset_after_us == reset_after(truth, now_us));
}

static void peek_and_check(world *w, const struct truth *truth, int64_t cost) {
  int64_t now_us = w->clock.now_us;
  check(truth, now_us, cost, fits(truth, now_us, cost), world_peek(w, "k", cost));
}

/* Waits as told: a microsecond before the end it is still denied, then it is admitted. */
static void follow(world *w, struct truth *truth, int64_t cost, int64_t retry_after_us) {
  w->clock.now_us += retry_after_us - 1;
  assert_false(world_peek(w, "k", cost).allowed);
  w->clock.now_us += 1;
  assert_true(world_peek(w, "k", cost).allowed);
  assert_true(world_take(w, "k", cost).allowed);
  charge(truth, w->clock.now_us, cost);
}

static void walk(const struct rule *rule, unsigned flags) {
  static struct truth all_that_was_charged;
  struct truth *truth = &all_that_was_charged;
  weir_limiter_options options = {.flags = flags};
  uint64_t seed = UINT64_C(0x9e3779b97f4a7c15) + flags;
  world w;
  world_open(&w, "memory:", rule->text, &options);
  *truth =
      (struct truth){.rule = rule, .cell_us = (rule->period_us + rule->cells - 1) / rule->cells};
  for (int step = 0; step < STEPS; step++) {
    int64_t cost = random_cost(&seed, rule->limit);
    w.clock.now_us += random_step(&seed, truth, w.clock.now_us);
    int64_t now_us = w.clock.now_us;
    if (random_below(&seed, 4) == 0) peek_and_check(&w, truth, cost);
    bool fitted = fits(truth, now_us, cost);
    weir_decision decision = world_take(&w, "k", cost);
    if (fitted || rule->count_all) charge(truth, now_us, cost);
    check(truth, now_us, cost, fitted, decision);
    if (!fitted && random_below(&seed, 4) == 0) follow(&w, truth, cost, decision.retry_after_us);
  }
  world_close(&w);
}

static void every_figure_is_exact(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    walk(&rules[i], 0);
}

static void local_knowledge_changes_no_figure(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    for (unsigned flags = 1; flags < WEIR_NO_COMBINING << 1; flags++)
      walk(&rules[i], flags);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_figure_is_exact),
      cmocka_unit_test(local_knowledge_changes_no_figure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

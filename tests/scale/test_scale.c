/* The simulation is held against the library in real life, and against what is proved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <string.h>

#include "scale/scale.h"

static scale_plan plan_of(const char *rule) {
  return (scale_plan){.rule = rule,
                      .clients = 10,
                      .asked_per_s = 100000,
                      .burst = 1,
                      .span_us = 100000,
                      .round_trip_us = 150,
                      .command_ns = 1500,
                      .seed = 1};
}

static scale_figures run(const scale_plan *plan) {
  scale_figures figures;
  weir_message why = {""};
  weir_status status = scale_run(plan, &figures, &why);
  if (status != WEIR_OK) fail_msg("%s: %s", plan->rule, why.text);
  return figures;
}

/* --- against the library -----------------------------------------------------------------------
 */

/* The same limiters once more, on a store in this process. */
struct twins {
  weir_store *store;
  weir_limiter *limiters[3];
  int64_t now_us;
  int allowed;
  int denied;
};

static int64_t twin_clock(void *context) {
  return ((struct twins *)context)->now_us;
}

static void begin_twins(struct twins *twins, const scale_plan *plan) {
  weir_message why;
  weir_limiter_options options = WEIR_LIMITER_OPTIONS_INIT;
  *twins = (struct twins){0};
  options.clock = (weir_clock){twin_clock, twins};
  options.processes = (uint32_t)plan->clients;
  options.fallback = WEIR_FALLBACK_NONE;
  assert_int_equal(weir_store_open("memory:", &twins->store, &why), WEIR_OK);
  for (int64_t i = 0; i < plan->clients; i++)
    assert_int_equal(
        weir_limiter_create(twins->store, plan->rule, &options, &twins->limiters[i], &why),
        WEIR_OK);
}

static void end_twins(struct twins *twins) {
  for (size_t i = 0; i < sizeof twins->limiters / sizeof twins->limiters[0]; i++)
    weir_limiter_destroy(twins->limiters[i]);
  weir_store_close(twins->store);
}

static void ask_twin(void *context, size_t client, int64_t at_us, weir_status status,
                     const weir_decision *said) {
  struct twins *twins = context;
  weir_decision decision;
  weir_message why;
  twins->now_us = at_us;
  assert_int_equal(status, WEIR_OK);
  assert_int_equal(weir_limiter_take(twins->limiters[client], "key", 3, 1, &decision, &why),
                   WEIR_OK);
  assert_int_equal(said->allowed, decision.allowed);
  assert_int_equal(said->remaining, decision.remaining);
  assert_int_equal(said->retry_after_us, decision.retry_after_us);
  assert_int_equal(said->reset_after_us, decision.reset_after_us);
  assert_int_equal(said->at_us, decision.at_us);
  twins->allowed += decision.allowed;
  twins->denied += !decision.allowed;
}

/* A server that answers at once, and requests that do not meet. */
static void agrees(const char *rule, int64_t clients, bool raises) {
  struct twins twins;
  scale_plan plan = plan_of(rule);
  plan.clients = clients;
  plan.raises = raises;
  plan.round_trip_us = plan.command_ns = 0;
  plan.asked_per_s = 1000;
  plan.span_us = 5000000;
  plan.told = ask_twin;
  plan.told_context = &twins;
  begin_twins(&twins, &plan);
  scale_figures figures = run(&plan);
  end_twins(&twins);
  assert_true(twins.allowed > 300);
  assert_true(twins.denied > 300);
  assert_int_equal(figures.admitted, twins.allowed);
  assert_int_equal(figures.asked, twins.allowed + twins.denied);
}

static void decides_as_the_library_does_in_this_process(void **state) {
  (void)state;
  agrees("sliding-window:300/1s", 1, false);
  agrees("sliding-window:300/1s", 3, false);
  agrees("sliding-window:300/1s,lease=500ms", 1, false);
  agrees("token-bucket:300/1s", 1, false);
  agrees("token-bucket:300/1s", 1, true);
  agrees("token-bucket:300/1s,burst=600,lease=500ms", 1, false);
}

static void one_process_gets_what_is_allowed(void **state) {
  (void)state;
  const char *const rules[] = {"sliding-window:2000/1s", "token-bucket:20000/1s,burst=100"};
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    scale_plan plan = plan_of(rules[i]);
    plan.clients = 1;
    plan.round_trip_us = plan.command_ns = 0;
    scale_figures figures = run(&plan);
    assert_true(figures.allowed < figures.asked);
    assert_int_equal(figures.admitted, figures.allowed);
    assert_int_equal(figures.p99_us, 0);
  }
}

/* --- against what is proved --------------------------------------------------------------------
 */

static void is_within_its_bound(const scale_plan *plan, const scale_figures *figures) {
  if (figures->most > figures->bound)
    fail_msg("%s, raises=%d: %" PRId64 " where %" PRId64 " are the most", plan->rule, plan->raises,
             figures->most, figures->bound);
  assert_true(figures->admitted > figures->allowed / 4);
}

static const char *const hot_rules[] = {
    "sliding-window:500/100ms", "sliding-window:500/100ms,strict,lease=20ms",
    "fixed-window:500/100ms,lease=20ms", "token-bucket:5000/1s,burst=400",
    "token-bucket:5000/1s,burst=400,lease=20ms"};
enum { HOT_RULES = sizeof hot_rules / sizeof hot_rules[0] };

static scale_plan hot_plan_of(size_t number) {
  scale_plan plan = plan_of(hot_rules[number / 2]);
  plan.raises = number % 2 != 0;
  plan.seed = number + 1;
  plan.asked_per_s = 30000;
  plan.span_us = 500000;
  plan.burst = 5;
  plan.skew_us = 1000;
  return plan;
}

/* Here most of what a rule may admit is admitted: what is too much would be seen. */
static void is_never_over_its_bound(void **state) {
  (void)state;
  for (size_t i = 0; i < 2 * HOT_RULES; i++) {
    scale_plan plan = hot_plan_of(i);
    plan.clients = 4;
    scale_figures figures = run(&plan);
    is_within_its_bound(&plan, &figures);
  }
}

/* Where a lease answers most requests, none may be on its way when a process dies: some run has one. */
static void is_never_over_its_bound_when_all_goes_wrong(void **state) {
  int64_t died = 0;
  (void)state;
  for (size_t i = 0; i < 2 * HOT_RULES; i++) {
    scale_plan plan = hot_plan_of(i);
    plan.lost_ppm = 20000;
    plan.crash_every_us = 100000;
    plan.round_trip_us = 1000;
    scale_figures figures = run(&plan);
    is_within_its_bound(&plan, &figures);
    assert_true(figures.failed > 0);
    died += (int64_t)figures.died;
  }
  assert_true(died > 0);
}

/* Which says that a run over its bound is noticed. */
static void what_a_server_forgets_is_admitted_once_more(void **state) {
  (void)state;
  const char *const rules[] = {"fixed-window:500/1s", "token-bucket:100/1s,burst=500"};
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
    scale_plan plan = plan_of(rules[i]);
    plan.forget_at_us = 50000;
    scale_figures figures = run(&plan);
    assert_in_range(figures.admitted, 900, 1100);
    assert_in_range(figures.most, 900, 1100);
  }
}

/* Eight processes, five times over the limit, with clocks that differ as far as they may. */
static void is_fair_where_clocks_differ(void **state) {
  static const struct { int64_t skew_us, least_ppm; } cases[] = {{0, 950000}, {10000, 800000}};
  (void)state;
  for (int raises = 0; raises < 2; raises++) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
      scale_plan plan = plan_of("token-bucket:10000/1s,burst=1000,lease=20ms");
      plan.clients = 8;
      plan.asked_per_s = 50000;
      plan.warm_up_us = plan.span_us = 1000000;
      plan.raises = raises;
      plan.skew_us = cases[i].skew_us;
      scale_figures figures = run(&plan);
      print_message("%s, clocks %" PRId64 " us off: fairness %" PRId64 " ppm, %" PRId64
                    " of %" PRId64 "\n",
                    raises ? "raise" : "swap", plan.skew_us, figures.fair_ppm, figures.admitted,
                    figures.allowed);
      assert_true(figures.fair_ppm >= cases[i].least_ppm);
      assert_true(figures.admitted * 100 >= figures.allowed * 99);
    }
  }
}

/* Five sites, a store 80 ms away, three times over the limit: what is denied is denied in the site. */
static void few_wait_for_a_store_that_is_far_away(void **state) {
  static const struct {
    const char *rule;
    int raises;
    int64_t most_ppm;
  } cases[] = {
      {"sliding-window:5000/10s,lease=1s", 0, 1000},
      {"token-bucket:500/1s,burst=2500,lease=1s", 1, 1000},
      {"quota:15000/30s,lease=1s", 0, 30000}}; /* who opens a window waits for three trips */
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    scale_plan plan = plan_of(cases[i].rule);
    plan.clients = 5;
    plan.uneven = 2;
    plan.asked_per_s = 1500;
    plan.warm_up_us = 100000000; /* in which a process earns what it may risk of a bucket */
    plan.span_us = 30000000;
    plan.round_trip_us = 80000;
    plan.deadline_us = 500000;
    plan.raises = cases[i].raises;
    scale_figures figures = run(&plan);
    int64_t waited_ppm = figures.waited * 1000000 / figures.asked;
    print_message("%s: waited %" PRId64 " ppm, %" PRId64 " of %" PRId64 "\n", plan.rule, waited_ppm,
                  figures.admitted, figures.allowed);
    assert_true(waited_ppm < cases[i].most_ppm);
    assert_true(figures.admitted * 100 >= figures.allowed * 95);
    is_within_its_bound(&plan, &figures);
  }
}

static void a_run_can_be_repeated(void **state) {
  (void)state;
  scale_plan plan = plan_of("token-bucket:20000/1s,burst=2000,lease=20ms");
  plan.lost_ppm = 1000;
  plan.skew_us = 1000;
  plan.crash_every_us = 50000;
  scale_figures first = run(&plan);
  scale_figures second = run(&plan);
  assert_memory_equal(&first, &second, sizeof first);
  plan.seed = 2;
  scale_figures other = run(&plan);
  assert_memory_not_equal(&first, &other, sizeof first);
}

static void a_bad_rule_is_named(void **state) {
  (void)state;
  scale_figures figures;
  weir_message why = {""};
  scale_plan plan = plan_of("token-bucket:10/1s,lease=1s");
  assert_int_equal(scale_run(&plan, &figures, &why), WEIR_BAD_RULE);
  assert_non_null(strstr(why.text, "lease"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decides_as_the_library_does_in_this_process),
      cmocka_unit_test(one_process_gets_what_is_allowed),
      cmocka_unit_test(is_never_over_its_bound),
      cmocka_unit_test(is_never_over_its_bound_when_all_goes_wrong),
      cmocka_unit_test(what_a_server_forgets_is_admitted_once_more),
      cmocka_unit_test(is_fair_where_clocks_differ),
      cmocka_unit_test(few_wait_for_a_store_that_is_far_away),
      cmocka_unit_test(a_run_can_be_repeated),
      cmocka_unit_test(a_bad_rule_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

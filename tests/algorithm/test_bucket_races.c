/* Whatever happens between processes, no interval may hold more than is promised. */
#include "test_bucket_race.h"

#include <inttypes.h>

__extension__ typedef __int128 wide;

/* --- what must hold ----------------------------------------------------------------------------
 */

/* Any interval of start times: B + (t + slack) * L/W + P; from a leaky bucket the last of them may
 * begin when those before it have drained. */
static void check_bound(const struct race *race, size_t rule_index, int64_t slack_us) {
  const weir_rule *rule = &race->stack.rules[rule_index];
  bool leaky = rule->kind == WEIR_LEAKY_BUCKET;
  bool swaps = race->scene->traits & WEIR_TRAIT_SWAP;
  wide most = (wide)(leaky ? 0 : rule->burst) * rule->token_units;
  if (!swaps && !leaky) most += (wide)race_most_owed(race, rule_index) * rule->token_units;
  for (size_t first = 0; first < race->admitted_count; first++) {
    wide sum = 0;
    for (size_t last = first; last < race->admitted_count; last++) {
      const struct admitted *latest = &race->admitted[last];
      int64_t length_us = latest->start_us - race->admitted[first].start_us;
      wide before = sum;
      if (latest->given_back) continue;
      sum += (wide)latest->cost * rule->token_units;
      wide over = (leaky ? before : sum) - most - ((wide)(length_us + slack_us) << rule->unit_bits);
      if (over > 0)
        fail_msg("%s: %" PRId64 " units over within %" PRId64 " us (seed %u)", rule->tag,
                 (int64_t)over, length_us, race->first_seed);
    }
  }
}

/* Clocks differ by up to twice the skew; rounding a delay up may shift a start by a microsecond; a
 * key of an epoch cannot be raised past its end, so that while it rolls a process that is late may
 * miss what passed since. */
static int64_t slack_of(const struct scene *scene) {
  return 1 + 2 * scene->skew_us + (scene->rolls && scene->waits ? DEADLINE_US : 0);
}

static void check_race(const struct scene *scene, unsigned seed, struct tally *tally) {
  struct race *race = race_run(scene, seed, tally);
  for (size_t i = 0; i < race->stack.count; i++)
    check_bound(race, i, slack_of(scene));
  race_free(race);
}

/* With one clock for all, which allows no slack, and with clocks that differ. */
static struct tally run_races(struct scene scene) {
  struct tally tally = {0};
  if (scene.start_us == 0) scene.start_us = START_US;
  if (scene.length_us == 0) scene.length_us = 60000;
  for (unsigned seed = 1; seed <= RACES; seed++) {
    scene.skew_us = seed % 2 == 0 ? SKEW_US : 0;
    check_race(&scene, seed, &tally);
  }
  return tally;
}

/* --- scenes ------------------------------------------------------------------------------------
 */

/* Full in 20, 20 and 9 ms; units of every size. */
static const struct {
  const char *rule;
  int unit_bits;
} token_rules[] = {{"token-bucket:200/1s,burst=4", 0},
                   {"token-bucket:2000/1s,burst=40", 10},
                   {"token-bucket:1000000000/1s,burst=9000000", 20}};

static const char *const leaky_rules[] = {"leaky-bucket:200/1s,queue=3",
                                          "leaky-bucket:2000/1s,queue=9", "leaky-bucket:200/1s"};

static void admits_no_more_than_the_bucket_holds_where_it_swaps(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    for (int hides = 0; hides <= 1; hides++) {
      struct tally t = run_races((struct scene){.rules = token_rules[i].rule,
                                                .traits = WEIR_TRAIT_SWAP,
                                                .hides_versions = hides,
                                                .faults = true});
      assert_true(t.admitted > 1000 && t.denied > 1000 && t.conflicts > 100 && t.lost > 100);
      assert_true(t.late > 100);
    }
}

static void keeps_places_apart_while_some_go_back_where_it_swaps(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    for (int hides = 0; hides <= 1; hides++) {
      struct scene scene = {.rules = token_rules[i].rule,
                            .traits = WEIR_TRAIT_SWAP,
                            .hides_versions = hides,
                            .waits = true,
                            .gives_back = true,
                            .faults = true};
      struct tally t = run_races(scene);
      assert_true(t.delayed > 500 && t.given_back > 500 && t.conflicts > 100);
      scene.rules = leaky_rules[i];
      t = run_races(scene);
      assert_true(t.denied > 500 && t.given_back > 50 && t.conflicts > 100);
    }
}

static void admits_little_more_than_the_bucket_holds_where_it_raises(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    for (int more = 0; more < 4; more++) {
      struct tally t = run_races((struct scene){.rules = token_rules[i].rule,
                                                .traits = WEIR_TRAIT_RAISE,
                                                .waits = more & 1,
                                                .gives_back = more & 2,
                                                .faults = true});
      assert_true(t.admitted > 1000 && t.denied > 1000 && t.overshoots > 100 && t.lost > 100);
    }
}

static void keeps_places_apart_where_it_raises(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    struct tally t = run_races((struct scene){.rules = leaky_rules[i],
                                              .traits = WEIR_TRAIT_RAISE,
                                              .waits = true,
                                              .gives_back = true,
                                              .faults = true});
    assert_true(t.admitted > 500 && t.denied > 1000 && t.overshoots > 100);
  }
}

/* From well before it until nobody looks at the epoch before any more. */
static void bears_the_roll_of_an_epoch(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++)
    for (int more = 0; more < 8; more++) {
      int64_t epoch_us = INT64_C(1) << (52 - token_rules[i].unit_bits);
      struct tally t =
          run_races((struct scene){.rules = token_rules[i].rule,
                                   .traits = WEIR_TRAIT_RAISE,
                                   .waits = more & 1,
                                   .gives_back = more & 2,
                                   .faults = more & 4,
                                   .rolls = true,
                                   .start_us = (START_US / epoch_us + 1) * epoch_us - 40000,
                                   .length_us = 260000});
      assert_true(t.admitted > 2000 && t.denied > 2000 && t.handovers > 2000);
    }
}

static void admits_by_both_buckets_of_a_stack_or_not_at_all(void **state) {
  (void)state;
  for (int raises = 0; raises <= 1; raises++) {
    struct tally t = run_races(
        (struct scene){.rules = "token-bucket:200/1s,burst=4;token-bucket:1000/10s,burst=6",
                       .traits = raises ? WEIR_TRAIT_RAISE : WEIR_TRAIT_SWAP,
                       .faults = true});
    assert_true(t.admitted > 500 && t.denied > 1000 && t.late > 100);
    assert_true(raises ? t.overshoots > 100 : t.conflicts > 100);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(admits_no_more_than_the_bucket_holds_where_it_swaps),
      cmocka_unit_test(keeps_places_apart_while_some_go_back_where_it_swaps),
      cmocka_unit_test(admits_little_more_than_the_bucket_holds_where_it_raises),
      cmocka_unit_test(keeps_places_apart_where_it_raises),
      cmocka_unit_test(bears_the_roll_of_an_epoch),
      cmocka_unit_test(admits_by_both_buckets_of_a_stack_or_not_at_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

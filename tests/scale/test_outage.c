/* The simulation of an outage: that it shows what the policy was chosen for. Chance is the same in
 * every run, and there are fewer runs than the page has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scale/outage_bucket.h"
#include "scale/outage_chance.h"
#include "scale/outage_run.h"

enum { RUNS = 12 };

static struct outage_figures measure(const struct outage_scene *scene, enum outage_policy policy) {
  struct outage_figures figures;
  assert_true(outage_measure(scene, policy, RUNS, &figures));
  return figures;
}

static void continuing_meets_its_goals(void **state) {
  (void)state;
  for (size_t i = 0; i < outage_scenes_count; i++) {
    const struct outage_scene *scene = &outage_scenes[i];
    struct outage_figures figures = measure(scene, OUTAGE_CONTINUES);
    if (figures.mean > scene->mean || figures.worst > scene->worst)
      fail_msg("%s: mean %.3f of %.2f, worst %.3f of %.2f", scene->name, figures.mean, scene->mean,
               figures.worst, scene->worst);
    if (scene->denied_percent > 0 && figures.denied_percent > scene->denied_percent)
      fail_msg("%s: %.2f %% denied, of %.2f", scene->name, figures.denied_percent,
               scene->denied_percent);
  }
}

static void buckets_meet_their_goals(void **state) {
  (void)state;
  for (size_t i = 0; i < bucket_scenes_count; i++) {
    const struct bucket_scene *scene = &bucket_scenes[i];
    struct bucket_figures figures;
    bucket_measure(scene, OUTAGE_CONTINUES, RUNS, &figures);
    if (figures.mean > scene->mean || figures.worst > scene->worst)
      fail_msg("%s: mean %.3f of %.2f, worst %.3f of %.2f", scene->name, figures.mean, scene->mean,
               figures.worst, scene->worst);
  }
}

/* Which says that a policy that admits too much, or denies too much, is noticed. */
static void beginning_anew_does_not(void **state) {
  (void)state;
  const struct outage_scene *scene = &outage_scenes[OUTAGE_SCENE_OF_PICTURE];
  struct outage_figures fresh = measure(scene, OUTAGE_FRESH);
  struct outage_figures peers = measure(scene, OUTAGE_PEERS);
  assert_true(fresh.worst > 8);
  assert_true(peers.worst > 1.9);
  assert_true(fresh.mean > scene->mean);
  assert_true(peers.mean > scene->mean);
}

static void the_first_answer_comes_within_a_deadline_or_so(void **state) {
  (void)state;
  const struct outage_scene *scene = &outage_scenes[OUTAGE_SCENE_OF_PICTURE];
  struct outage_figures figures = measure(scene, OUTAGE_CONTINUES);
  assert_true(figures.first_ms >= 20);
  assert_true(figures.first_ms <= 24);
}

static void a_run_can_be_repeated(void **state) {
  (void)state;
  const struct outage_scene *scene = &outage_scenes[OUTAGE_SCENE_OF_PICTURE];
  struct outage_figures first = measure(scene, OUTAGE_CONTINUES);
  struct outage_figures second = measure(scene, OUTAGE_CONTINUES);
  assert_memory_equal(&first, &second, sizeof first);
}

/* --- the estimate --------------------------------------------------------------------------------
 */

/* The sum of what the processes estimate after charges in this order, without a guess to begin
 * with. */
static double sum_of_shares(const int *order, int charges, int processes) {
  double sum = 0;
  for (int i = 0; i < processes; i++) {
    struct share_process process = {0};
    struct share_key key = {0};
    for (int charge = 0; charge < charges; charge++)
      if (order[charge] == i) share_learn(&key, &process, charge, false, 0);
    sum += key.all > 0 ? key.own / key.all : 0;
  }
  return sum;
}

/* The mean over all orders in which so many processes can charge. */
static double mean_of_all_orders(int processes, int charges) {
  int order[16] = {0};
  double sum = 0;
  int count = 0;
  for (bool is_last = false; !is_last; count++) {
    sum += sum_of_shares(order, charges, processes);
    is_last = true;
    for (int i = 0; i < charges && is_last; i++) {
      is_last = order[i] == processes - 1;
      order[i] = is_last ? 0 : order[i] + 1;
    }
  }
  return sum / count;
}

static void shares_add_up_to_one_at_most_in_the_mean_of_all_orders(void **state) {
  (void)state;
  assert_true(mean_of_all_orders(2, 8) <= 1);
  assert_true(mean_of_all_orders(3, 7) <= 1);
  assert_true(mean_of_all_orders(3, 7) > .8);
}

static void shares_add_up_to_one_by_chance(void **state) {
  (void)state;
  enum { ORDERS = 300, CHARGES_MOST = 1000 };
  static const struct {
    int processes, charges;
  } cases[] = {{8, 8}, {8, 50}, {8, 200}, {64, 200}, {64, 1000}};
  uint64_t random = 1;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    double sum = 0;
    for (int n = 0; n < ORDERS; n++) {
      int order[CHARGES_MOST];
      for (int charge = 0; charge < cases[i].charges; charge++)
        order[charge] = (int)(chance_part(&random) * cases[i].processes);
      sum += sum_of_shares(order, cases[i].charges, cases[i].processes);
    }
    assert_true(sum / ORDERS < 1.03);
    assert_true(sum / ORDERS > (cases[i].charges > cases[i].processes ? .9 : .6));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(continuing_meets_its_goals),
      cmocka_unit_test(buckets_meet_their_goals),
      cmocka_unit_test(beginning_anew_does_not),
      cmocka_unit_test(the_first_answer_comes_within_a_deadline_or_so),
      cmocka_unit_test(a_run_can_be_repeated),
      cmocka_unit_test(shares_add_up_to_one_at_most_in_the_mean_of_all_orders),
      cmocka_unit_test(shares_add_up_to_one_by_chance),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Shares: three processes charge one key seven times, in every order there is, by the real machines.
 * Whichever part of the traffic each of them is, their measured shares add up to 1 on average over
 * the orders of that traffic, and to no more. Estimators that look as good, and a machine that
 * forgets what went back, add up to more: the same test catches them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fake.h"
#include "memo/account.h"

enum { PROCESSES = 3, CHARGES = 7, ORDERS = 2187, SPLITS = 512, NOW_US = 100000000 };

/* The measures of one process. */
struct measured {
  weir_share share;
  weir_pool pool;
  int64_t own, count; /* charged by itself, and what stood there then */
};

typedef double estimator(const struct measured *measured);

/* How requests go: a cost, and what of it goes back at once. */
struct traffic {
  int64_t cost, back;
  bool forgets; /* the mistake: what goes back does not come off */
};

/* --- estimators --------------------------------------------------------------------------------
 */

static double part(int64_t own, int64_t all) {
  double share = all > 0 ? (double)own / (double)all : 0;
  return share < 0 ? 0 : share > 1 ? 1 : share;
}

/* The share by the key's own sums: where there was no second charge, nothing. */
static double measured_share(const struct measured *m) {
  return part(m->share.mine, m->share.all);
}

/* As an account begins with it, where three processes are told. */
static double told_share(const struct measured *m) {
  uint32_t share = weir_account_key_share(&m->share, &m->pool, (weir_peers){.count = PROCESSES});
  return (double)share / WEIR_SHARE_WHOLE;
}

static double own_over_count(const struct measured *m) {
  return part(m->own, m->count);
}

static double last_charge_counts(const struct measured *m) {
  return part(m->share.mine + m->share.last, m->share.all);
}

/* --- orders ------------------------------------------------------------------------------------
 */

static void learn(struct measured *m, const weir_lesson *lesson) {
  m->pool.mine += lesson->mine;
  m->pool.all += lesson->all;
  m->pool.cost += lesson->cost;
  m->pool.charges += lesson->cost > 0;
}

static void charge(struct fake_world *world, int who, const struct traffic *traffic,
                   struct measured *m) {
  struct fake_client *client = &world->clients[who];
  const weir_decision *decision = fake_take(world, who, traffic->cost);
  int64_t at_us = decision->at_us;
  assert_true(decision->allowed);
  learn(m, &client->machine->lessons[0]);
  m->own += traffic->cost - traffic->back;
  m->count = decision->limit - decision->remaining - traffic->back;
  if (traffic->back > 0) {
    weir_share before = client->memo->expected[0].share;
    fake_run(
        world, who,
        (weir_claim){
            .ask = {.kind = WEIR_REFUND, .alone = true, .cost = traffic->back, .at_us = at_us}});
    if (traffic->forgets) client->memo->expected[0].share = before;
  }
  m->share = client->memo->expected[0].share;
}

/* The sum of all shares after one order; *split says who charged how often. */
static double sum_after(int order, const struct traffic *traffic, estimator *estimate, int *split) {
  struct fake_world *world = fake_open("fixed-window:1000/1h", NOW_US, 1);
  struct measured measured[PROCESSES] = {0};
  double sum = 0;
  *split = 0;
  world->settings.notices_loss = true;
  for (int n = 0; n < CHARGES; n++, order /= PROCESSES) {
    int who = order % PROCESSES;
    charge(world, who, traffic, &measured[who]);
    *split += who == 0 ? 1 : who == 1 ? CHARGES + 1 : 0;
  }
  for (int i = 0; i < PROCESSES; i++)
    sum += estimate(&measured[i]);
  fake_close(world);
  return sum;
}

/* The mean over all orders of one traffic, for the one where it is most; and over all orders. */
static double worst_mean(const struct traffic *traffic, estimator *estimate, double *mean) {
  double sums[SPLITS] = {0};
  int orders[SPLITS] = {0};
  double worst = 0;
  *mean = 0;
  for (int order = 0; order < ORDERS; order++) {
    int split;
    double sum = sum_after(order, traffic, estimate, &split);
    sums[split] += sum;
    orders[split]++;
    *mean += sum / ORDERS;
  }
  for (int i = 0; i < SPLITS; i++)
    if (orders[i] > 0 && sums[i] / orders[i] > worst) worst = sums[i] / orders[i];
  return worst;
}

static const struct traffic plain = {.cost = 1};
static const struct traffic settled = {.cost = 10, .back = 9};
static const double exact = 1e-9;

/* --- tests -------------------------------------------------------------------------------------
 */

static void shares_add_up_to_one_over_all_orders(void **state) {
  (void)state;
  double mean;
  double worst = worst_mean(&plain, measured_share, &mean);
  assert_true(worst <= 1 + exact);
  assert_true(worst >= 1 - exact); /* where each charged twice at least, nothing is left out */
  assert_true(mean <= 1);
}

static void shares_of_three_that_were_told_add_up_to_one(void **state) {
  (void)state;
  double mean;
  worst_mean(&plain, told_share, &mean);
  assert_true(mean <= 1);
}

static void what_goes_back_is_not_the_share_s(void **state) {
  (void)state;
  double mean;
  assert_true(worst_mean(&settled, measured_share, &mean) <= 1 + exact);
}

static void own_charges_over_the_count_would_be_more(void **state) {
  (void)state;
  double mean;
  assert_true(worst_mean(&plain, own_over_count, &mean) > 1.4);
}

static void with_the_last_own_charge_it_would_be_more(void **state) {
  (void)state;
  double mean;
  assert_true(worst_mean(&plain, last_charge_counts, &mean) > 1.5);
}

static void without_what_goes_back_it_would_be_more(void **state) {
  (void)state;
  struct traffic forgetful = settled;
  double mean;
  forgetful.forgets = true;
  assert_true(worst_mean(&forgetful, measured_share, &mean) > 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_add_up_to_one_over_all_orders),
      cmocka_unit_test(shares_of_three_that_were_told_add_up_to_one),
      cmocka_unit_test(what_goes_back_is_not_the_share_s),
      cmocka_unit_test(own_charges_over_the_count_would_be_more),
      cmocka_unit_test(with_the_last_own_charge_it_would_be_more),
      cmocka_unit_test(without_what_goes_back_it_would_be_more),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

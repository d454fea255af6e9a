#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fake.h"

#define W INT64_C(1000000)
#define BEGIN (40 * W)

/* --- against the definition --------------------------------------------------------------------
 */

enum { ADMITTED_MOST = 4096 };

struct definition {
  int64_t limit;
  int64_t times[ADMITTED_MOST]; /* of admitted requests */
  int count;
};

static int64_t free_at(const struct definition *truth, int64_t t) {
  int64_t inside = 0;
  for (int i = truth->count - 1; i >= 0 && truth->times[i] > t - W; i--)
    inside++;
  return truth->limit - inside;
}

static void check(struct definition *truth, const weir_claim *request, int64_t t) {
  const weir_decision *decision = &request->verdict.decision;
  int64_t places = free_at(truth, t);
  int64_t decides = truth->count - (int)truth->limit;
  assert_int_equal(request->verdict.status, WEIR_OK);
  assert_int_equal(decision->allowed, places > 0);
  if (request->ask.kind == WEIR_TAKE && places > 0) truth->times[truth->count++] = t;
  assert_int_equal(decision->remaining, request->ask.kind == WEIR_PEEK ? places : WEIR_NOT_KNOWN);
  assert_int_equal(decision->retry_after_us, places > 0 ? 0 : truth->times[decides] + W - t);
  int64_t newest = truth->count > 0 ? truth->times[truth->count - 1] + W - t : 0;
  assert_int_equal(decision->reset_after_us, newest > 0 ? newest : 0);
}

static void move_time(struct fake_world *world, const struct definition *truth) {
  int64_t back = fake_random(world, 2 * truth->limit) + 1;
  int64_t old = truth->count >= back ? truth->times[truth->count - back] : world->now_us;
  int64_t edges[] = {old + W, (world->now_us / W + 1) * W, old + 2 * W,
                     (world->now_us / W + 1) * W - FAKE_MARGIN_US};
  int64_t to = world->now_us + fake_random(world, 3 * W / truth->limit);
  if (fake_random(world, 3) == 0) to = edges[fake_random(world, 4)] + fake_random(world, 5) - 2;
  if (fake_random(world, 40) == 0) to = world->now_us + fake_random(world, 5 * W);
  if (to > world->now_us) world->now_us = to;
}

static void run_trace(const char *rule, unsigned seed) {
  struct fake_world *world = fake_open(rule, seed % 2 == 0 ? BEGIN + 7 : 0, seed);
  struct definition truth = {.limit = world->stack.rules[0].limit};
  for (int i = 0; i < 1500; i++) {
    int client = (int)fake_random(world, FAKE_CLIENTS_MOST);
    move_time(world, &truth);
    if (fake_random(world, 200) == 0) {
      fake_run(world, client, (weir_claim){.ask = {.kind = WEIR_RESET, .cost = 1}});
      truth.count = 0;
    }
    weir_claim request = {.ask = {.kind = fake_random(world, 4) == 0 ? WEIR_PEEK : WEIR_TAKE,
                                  .cost = 1,
                                  .up_to = fake_random(world, 2) == 0}};
    check(&truth, fake_run(world, client, request), world->now_us);
  }
  fake_close(world);
}

static void decides_as_the_definition_does(void **state) {
  (void)state;
  static const char *const rules[] = {"sliding-log:1/1s", "sliding-log:2/1s", "sliding-log:5/1s",
                                      "sliding-log:40/1s"};
  for (unsigned seed = 1; seed <= 32; seed++)
    run_trace(rules[seed % 4], seed);
}

/* The search reads 16 entries a round. */
static void counts_free_places_of_a_long_log_in_a_few_rounds(void **state) {
  (void)state;
  enum { LIMIT = 100000 };
  struct fake_world *world = fake_open("sliding-log:100000/1000s", 2000 * W, 1);
  fake_write(world, WEIR_PLACE_COUNT, 1, 0, LIMIT - 7);
  for (int64_t entry = 1; entry <= LIMIT - 7; entry++)
    fake_write(world, WEIR_PLACE_ENTRY, 1, entry, 1000 * W + 7 + entry * 10000);
  for (int round = 0; round < 200; round++) {
    int64_t into =
        fake_random(world, 1000 * W); /* so far into the epoch: that much of it is over */
    world->now_us = 2000 * W + into;
    int64_t over = into < 7 ? 0 : (into - 7) / 10000;
    if (over > LIMIT - 7) over = LIMIT - 7;
    assert_int_equal(fake_peek(world, 0, 1)->remaining, 7 + over);
    assert_true(world->clients[0].rounds <= 7);
  }
  fake_close(world);
}

/* By clocks that differ, the second of four entries is later than the rest. */
static void counts_no_place_behind_one_that_is_taken(void **state) {
  (void)state;
  struct fake_world *world = fake_open("sliding-log:4/1s", BEGIN + W, 1);
  fake_write(world, WEIR_PLACE_COUNT, 40, 0, 4);
  for (int64_t entry = 1; entry <= 4; entry++)
    fake_write(world, WEIR_PLACE_ENTRY, 40, entry, BEGIN + (entry == 2 ? 5 : 0));
  assert_int_equal(fake_peek(world, 0, 1)->remaining, 1);
  fake_write(world, WEIR_PLACE_ENTRY, 40, 1, BEGIN + 5);
  assert_int_equal(fake_peek(world, 0, 1)->remaining, 0);
  fake_close(world);
}

/* --- all at once -------------------------------------------------------------------------------
 */

enum { CHARGES_MOST = 512 };

struct race {
  struct fake_world *world;
  int64_t limit;
  struct {
    int64_t epoch, entry;
    int64_t added_us; /* true time */
    bool crashed;     /* and will never write its entry */
  } charges[CHARGES_MOST];
  int charge_count;
  int64_t admitted[CHARGES_MOST];
  int admitted_count;
  int own[FAKE_CLIENTS_MOST];        /* which charge is the client's, or -1 */
  bool explained[FAKE_CLIENTS_MOST]; /* a denial would be right by what it may have seen */
  int denied, holes, unexplained;
};

/* Whether a charge is inside of the W before s as any clock sees it, or may be written so. A
 * process that crashed stays counted. */
static bool is_inside(const struct race *race, int charge, int64_t s) {
  int64_t epoch = race->charges[charge].epoch;
  const struct fake_key *key =
      fake_key(race->world, WEIR_PLACE_ENTRY, epoch, race->charges[charge].entry);
  if (!key->present && !race->charges[charge].crashed) return true;
  int64_t time_us = key->present ? key->value : race->charges[charge].added_us;
  return time_us > s - W - FAKE_MARGIN_US;
}

/* Whether L others are inside. */
static bool is_denial(const struct race *race, int client, int64_t s) {
  int64_t inside = 0;
  for (int i = 0; i < race->charge_count; i++)
    inside += i != race->own[client] && is_inside(race, i, s);
  return inside >= race->limit;
}

/* Before an entry that some may have waited for is there, or will never be. */
static void notice(struct race *race) {
  for (int i = 0; i < FAKE_CLIENTS_MOST; i++) {
    const struct fake_client *who = &race->world->clients[i];
    if (who->busy && is_denial(race, i, who->machine->frame.now_us)) race->explained[i] = true;
  }
}

static int64_t count_in(const struct race *race, int64_t epoch) {
  const struct fake_key *key = fake_key(race->world, WEIR_PLACE_COUNT, epoch, 0);
  return key->present ? key->value : 0;
}

static void land(struct race *race, int client) {
  struct fake_client *who = &race->world->clients[client];
  const weir_operation *operation = fake_next(who);
  bool adds = operation != NULL && operation->kind == WEIR_ADD;
  int64_t before = adds ? count_in(race, operation->counter.index) : 0;
  if (operation != NULL && operation->kind == WEIR_PUT) notice(race);
  fake_step(race->world, who);
  if (!adds || count_in(race, operation->counter.index) == before) return;
  assert_in_range(race->charge_count, 0, CHARGES_MOST - 1);
  int charge = race->own[client] = race->charge_count++;
  race->charges[charge].epoch = operation->counter.index;
  race->charges[charge].entry = before + 1;
  race->charges[charge].added_us = race->world->now_us;
}

/* Nobody is left who would write the client's entry. */
static void abandon(struct race *race, int client) {
  int charge = race->own[client];
  notice(race);
  if (charge < 0 || fake_has(race->world, WEIR_PLACE_ENTRY, race->charges[charge].epoch,
                             race->charges[charge].entry))
    return;
  race->charges[charge].crashed = true;
  race->holes++;
}

/* Never more than L in any W - 2d. */
static void check_bound(struct race *race, int64_t s) {
  race->admitted[race->admitted_count++] = s;
  for (int i = 0; i < race->admitted_count; i++) {
    int64_t inside = 0;
    for (int n = 0; n < race->admitted_count; n++)
      inside += race->admitted[n] >= race->admitted[i] &&
                race->admitted[n] < race->admitted[i] + W - 2 * FAKE_CLOCK_ERROR_US;
    assert_true(inside <= race->limit);
  }
}

static void check_result(struct race *race, int client, const weir_claim *request) {
  if (request->verdict.status != WEIR_OK) {
    abandon(race, client);
    return;
  }
  if (request->verdict.decision.allowed) {
    check_bound(race, request->verdict.decision.at_us);
    return;
  }
  race->denied++;
  bool explained =
      race->explained[client] || is_denial(race, client, request->verdict.decision.at_us);
  race->unexplained += !explained;
}

/* On, a little or far; to where a charge is about W old, or to an edge. */
static void move_on(struct race *race) {
  struct fake_world *world = race->world;
  int64_t now_us = world->now_us;
  int64_t edge_us = (now_us / W + 1) * W;
  int64_t charge = race->charge_count > 0 ? fake_random(world, race->charge_count) : -1;
  int64_t old_us = charge >= 0 ? race->charges[charge].added_us + W : edge_us;
  int64_t near_us = fake_random(world, 2 * FAKE_MARGIN_US) - FAKE_MARGIN_US;
  if (fake_random(world, 6) == 0) now_us += fake_random(world, FAKE_DEADLINE_US / 3);
  if (fake_random(world, 40) == 0) now_us += fake_random(world, W);
  if (fake_random(world, 25) == 0) now_us = old_us + near_us;
  if (fake_random(world, 25) == 0) now_us = edge_us + near_us;
  if (now_us > world->now_us) world->now_us = now_us;
}

/* Near an edge of epochs, in every order; a denial that nothing else explains is one of a hole. */
static void race_once(struct race *race, const char *rule, unsigned seed) {
  struct fake_world *world = fake_open(rule, BEGIN, seed);
  *race = (struct race){.world = world, .limit = world->stack.rules[0].limit};
  world->now_us += W - FAKE_MARGIN_US + fake_random(world, 2 * FAKE_MARGIN_US);
  world->clients[0].offset_us = FAKE_CLOCK_ERROR_US;
  world->clients[1].offset_us = -FAKE_CLOCK_ERROR_US;
  for (int step = 0; step < 300; step++) {
    int client = (int)fake_random(world, FAKE_CLIENTS_MOST);
    struct fake_client *who = &world->clients[client];
    move_on(race);
    if (!who->busy) {
      race->own[client] = -1;
      race->explained[client] = false;
      fake_begin_take(world, client, 1);
    } else if (fake_random(world, 60) == 0) {
      fake_crash(who);
      abandon(race, client);
    } else {
      land(race, client);
      if (!who->busy) check_result(race, client, &who->requests[0]);
    }
  }
  assert_true(race->unexplained <= race->holes);
  fake_close(world);
}

static void keeps_its_promise_whatever_lands_first(void **state) {
  (void)state;
  struct race race;
  int denied = 0, admitted = 0, unexplained = 0;
  for (unsigned seed = 1; seed <= 12000; seed++) {
    race_once(&race, seed % 2 == 0 ? "sliding-log:1/1s" : "sliding-log:3/1s", seed);
    denied += race.denied;
    admitted += race.admitted_count;
    unexplained += race.unexplained;
  }
  assert_true(denied > 1000 && admitted > 1000 && unexplained > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decides_as_the_definition_does),
      cmocka_unit_test(counts_free_places_of_a_long_log_in_a_few_rounds),
      cmocka_unit_test(counts_no_place_behind_one_that_is_taken),
      cmocka_unit_test(keeps_its_promise_whatever_lands_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <string.h>

#include <cmocka.h>

#include "fake.h"

#define W INT64_C(1000000)
#define BEGIN (40 * W)

static struct fake_client *client_of(struct fake_world *world, int client) {
  return &world->clients[client];
}

static weir_status refund(struct fake_world *world, int client, int64_t at_us, int64_t cost) {
  return fake_run(world, client,
                  (weir_claim){
                      .ask = {.kind = WEIR_REFUND, .alone = true, .cost = cost, .at_us = at_us}})
      ->verdict.status;
}

/* --- against the definition --------------------------------------------------------------------
 */

enum { LIMIT = 7, WINDOWS_MOST = 4096 };

/* Windows as they are opened one after another. */
struct definition {
  int64_t starts[WINDOWS_MOST];
  int64_t counts[WINDOWS_MOST];
  int opened;
};

/* The earliest that is not over at t, or -1. */
static int window_at(const struct definition *truth, int64_t t) {
  for (int i = truth->opened > 4 ? truth->opened - 4 : 0; i < truth->opened; i++)
    if (t < truth->starts[i] + W) return i;
  return -1;
}

static void check_figures(const struct definition *truth, int window, int64_t t, bool allowed,
                          const weir_decision *decision) {
  int64_t count = window >= 0 ? truth->counts[window] : 0;
  int64_t left_us = window >= 0 ? truth->starts[window] + W - t : 0;
  assert_int_equal(decision->allowed, allowed);
  assert_int_equal(decision->remaining, count < LIMIT ? LIMIT - count : 0);
  assert_int_equal(decision->retry_after_us, allowed ? 0 : left_us);
  assert_int_equal(decision->reset_after_us, left_us);
  assert_int_equal(decision->limit, LIMIT);
}

static void check_request(struct definition *truth, const weir_claim *request, int64_t cost,
                          int64_t t, bool count_all) {
  int window = window_at(truth, t);
  int64_t room = window >= 0 ? LIMIT - truth->counts[window] : LIMIT;
  if (request->ask.up_to && cost > room && room > 0) cost = room;
  bool allowed = cost <= room;
  if (request->ask.kind == WEIR_TAKE && (allowed || count_all)) {
    if (window < 0) {
      window = truth->opened++;
      truth->starts[window] = t;
      truth->counts[window] = 0;
    }
    truth->counts[window] += cost;
  }
  assert_int_equal(request->verdict.status, WEIR_OK);
  check_figures(truth, window, t, allowed, &request->verdict.decision);
  if (allowed) assert_int_equal(request->verdict.decision.cost, cost);
  assert_int_equal(request->verdict.decision.at_us, t);
}

/* Short and long steps, and to where something happens or nearly does. */
static void move_time(struct fake_world *world, const struct definition *truth) {
  int64_t last = truth->opened > 0 ? truth->starts[truth->opened - 1] : world->now_us;
  int64_t edges[] = {last + W, (world->now_us / W + 1) * W, last + 2 * W,
                     last + W + FAKE_MARGIN_US};
  int64_t to = world->now_us + fake_random(world, 200000);
  if (fake_random(world, 3) == 0) to = edges[fake_random(world, 4)] + fake_random(world, 5) - 2;
  if (fake_random(world, 40) == 0) to = world->now_us + fake_random(world, 5 * W);
  if (to > world->now_us) world->now_us = to;
}

static void try_refund(struct fake_world *world, int client, struct definition *truth,
                       int64_t stamp_us, int window, int64_t cost) {
  int64_t t = fake_clock(world, client_of(world, client));
  bool over = t >= truth->starts[window] + W;
  bool enough = truth->counts[window] >= cost;
  assert_int_equal(refund(world, client, stamp_us, cost), over || enough ? WEIR_OK : WEIR_BAD_COST);
  if (!over && enough) truth->counts[window] -= cost;
}

static void run_trace(const char *rule, bool count_all, unsigned seed) {
  struct fake_world *world = fake_open(rule, BEGIN + 7, seed);
  struct definition truth = {.opened = 0};
  int64_t stamp_us = -1, charged = 0;
  int charged_window = 0;
  for (int i = 0; i < 1500; i++) {
    int client = (int)fake_random(world, FAKE_CLIENTS_MOST);
    struct fake_client *who = client_of(world, client);
    move_time(world, &truth);
    who->offset_us = fake_random(world, 2 * FAKE_CLOCK_ERROR_US + 1) - FAKE_CLOCK_ERROR_US;
    if (fake_random(world, 2) == 0) who->offset_us = 0;
    int64_t t = fake_clock(world, who);
    int64_t costs[2];
    for (int n = 0; n < 2; n++) {
      costs[n] = 1 + fake_random(world, 3);
      who->requests[n] = (weir_claim){.ask.cost = costs[n]};
      if (fake_random(world, 4) == 0) who->requests[n].ask.kind = WEIR_PEEK;
      if (fake_random(world, 6) == 0) who->requests[n].ask.up_to = true;
    }
    size_t requests = 1 + (size_t)fake_random(world, 2);
    fake_begin(world, who, requests);
    fake_finish(world, who);
    for (size_t n = 0; n < requests; n++)
      check_request(&truth, &who->requests[n], costs[n], t, count_all);
    if (who->requests[0].ask.kind == WEIR_TAKE && who->requests[0].verdict.decision.allowed) {
      stamp_us = t;
      charged = who->requests[0].verdict.decision.cost;
      charged_window = window_at(&truth, t);
    }
    if (stamp_us >= 0 && fake_random(world, 12) == 0)
      try_refund(world, client, &truth, stamp_us, charged_window, charged);
  }
  assert_true(truth.opened > 100);
  fake_close(world);
}

static void decides_as_the_definition_does(void **state) {
  (void)state;
  for (unsigned seed = 1; seed <= 30; seed++)
    run_trace("quota:7/1s", false, seed);
}

static void decides_as_the_definition_does_when_denied_requests_count(void **state) {
  (void)state;
  for (unsigned seed = 1; seed <= 10; seed++)
    run_trace("quota:7/1s,count=all", true, seed);
}

/* Beside a log: all or nothing, and a peek tells the least of what is left. */
static void charges_both_or_none_beside_a_log(void **state) {
  (void)state;
  enum { LOG_LIMIT = 5, CHARGED_MOST = 4096 };
  static int64_t charged[CHARGED_MOST];
  struct fake_world *world = fake_open("quota:7/1s;sliding-log:5/700ms", BEGIN, 5);
  struct definition truth = {.opened = 0};
  int count = 0, denied = 0;
  for (int i = 0; i < 4000; i++) {
    int client = (int)fake_random(world, FAKE_CLIENTS_MOST);
    bool peeks = fake_random(world, 3) == 0;
    world->now_us += fake_random(world, 150000);
    int window = window_at(&truth, world->now_us);
    int64_t in_window = window >= 0 ? LIMIT - truth.counts[window] : LIMIT;
    int64_t in_log = LOG_LIMIT;
    for (int n = count - 1; n >= 0 && charged[n] > world->now_us - 700000; n--)
      in_log--;
    int64_t least = in_window < in_log ? in_window : in_log;
    const weir_decision *decision =
        peeks ? fake_peek(world, client, 1) : fake_take(world, client, 1);
    assert_int_equal(decision->allowed, least > 0);
    if (peeks && least > 0) assert_int_equal(decision->remaining, least);
    denied += least == 0;
    if (peeks || least == 0) continue;
    charged[count++] = world->now_us;
    if (window < 0) truth.starts[window = truth.opened++] = world->now_us;
    truth.counts[window]++;
  }
  assert_true(denied > 100 && count > 100);
  fake_close(world);
}

/* --- all at once -------------------------------------------------------------------------------
 */

enum { STARTS_MOST = 64 };

/* The deeds of clients in one run. */
struct race {
  struct fake_world *world;
  int64_t limit;
  int64_t starts[STARTS_MOST];
  int64_t admitted[STARTS_MOST];
  int start_count;
  int64_t stamp_us[FAKE_CLIENTS_MOST]; /* of its last charge, or of the begin of its request */
  int64_t seen[FAKE_CLIENTS_MOST];     /* the most that others had in a window of its */
  int64_t own[FAKE_CLIENTS_MOST];      /* charged, not yet decided */
  int64_t own_window[FAKE_CLIENTS_MOST];
  int denied;
};

static int find_start(struct race *race, int64_t start) {
  int i = 0;
  while (i < race->start_count && race->starts[i] != start)
    i++;
  assert_in_range(i, 0, STARTS_MOST - 1);
  if (i == race->start_count) race->starts[race->start_count++] = start;
  return i;
}

/* Windows of one key to which something was admitted never overlap. One whose count was never made, as only
 * its name reached the store, makes way for another, and nobody was admitted to it. */
static void admit(struct race *race, int window, int64_t cost) {
  int64_t start = race->starts[window];
  for (int n = 0; n < race->start_count; n++)
    if (n != window && race->admitted[n] > 0)
      assert_true(start - race->starts[n] >= W || race->starts[n] - start >= W);
  race->admitted[window] += cost;
  assert_true(race->admitted[window] <= race->limit);
}

static void notice(struct race *race, int client) {
  for (int i = 0; i < race->start_count; i++) {
    int64_t start = race->starts[i];
    int64_t t = race->stamp_us[client];
    if (t >= start + W || start > t + 2 * FAKE_MARGIN_US) continue;
    const struct fake_key *key = fake_key(race->world, WEIR_PLACE_COUNT, start, 0);
    int64_t others = key->present ? key->value : 0;
    if (race->own_window[client] == start) others -= race->own[client];
    if (others > race->seen[client]) race->seen[client] = others;
  }
}

static void land(struct race *race, int client) {
  struct fake_client *who = client_of(race->world, client);
  const weir_operation *operation = fake_next(who);
  weir_operation sent = {.kind = WEIR_GET};
  if (operation != NULL) sent = *operation;
  fake_step(race->world, who);
  if (sent.kind == WEIR_CREATE && sent.value > 0) {
    const struct fake_key *open = fake_key(race->world, WEIR_PLACE_OPEN, sent.counter.index, 0);
    if (open->present && open->value > 0) find_start(race, open->value - 1);
  }
  if (sent.kind == WEIR_ADD && operation->outcome == WEIR_DONE) {
    race->own[client] = sent.delta;
    race->own_window[client] = sent.counter.index;
  }
  if (sent.kind == WEIR_SUB && operation->outcome == WEIR_DONE) race->own[client] -= sent.delta;
  for (int i = 0; i < FAKE_CLIENTS_MOST; i++)
    if (client_of(race->world, i)->busy) notice(race, i);
}

static void check_result(struct race *race, int client, const weir_claim *request) {
  int64_t t = request->verdict.decision.at_us;
  if (request->verdict.status != WEIR_OK) return; /* no decision in time */
  if (!request->verdict.decision.allowed) {
    race->denied++;
    assert_true(race->seen[client] + request->ask.cost > race->limit);
    return;
  }
  int window = find_start(race, race->own_window[client]);
  admit(race, window, request->ask.cost);
  assert_true(t < race->starts[window] + W && t >= race->starts[window] - FAKE_MARGIN_US);
}

static void start_one(struct race *race, int client) {
  struct fake_world *world = race->world;
  struct fake_client *who = client_of(world, client);
  if (fake_random(world, 3) == 0) memset(who->memo, 0, weir_memo_bytes(&world->stack));
  race->seen[client] = race->own[client] = 0;
  race->own_window[client] = -1;
  race->stamp_us[client] = fake_clock(world, who);
  fake_begin_take(world, client, 1 + fake_random(world, 2));
  notice(race, client);
}

/* Near an edge of groups, with every order of what three clients do; requests are cut short by the
 * end of a client, or of its time. */
static int race_once(unsigned seed) {
  struct race race = {.limit = 3, .world = fake_open("quota:3/1s", BEGIN, seed)};
  struct fake_world *world = race.world;
  world->now_us += W - FAKE_MARGIN_US + fake_random(world, 2 * FAKE_MARGIN_US);
  client_of(world, 0)->offset_us = FAKE_CLOCK_ERROR_US;
  client_of(world, 1)->offset_us = -FAKE_CLOCK_ERROR_US;
  for (int step = 0; step < 220; step++) {
    int client = (int)fake_random(world, FAKE_CLIENTS_MOST);
    struct fake_client *who = client_of(world, client);
    if (fake_random(world, 6) == 0) world->now_us += fake_random(world, FAKE_DEADLINE_US / 3);
    if (fake_random(world, 60) == 0) world->now_us += fake_random(world, W);
    if (!who->busy) {
      start_one(&race, client);
    } else if (fake_random(world, 60) == 0) {
      fake_crash(who);
    } else {
      land(&race, client);
      if (!who->busy) check_result(&race, client, &who->requests[0]);
    }
    if (who->busy) race.stamp_us[client] = who->machine->frame.now_us;
  }
  int denied = race.denied;
  fake_close(world);
  return denied;
}

static void keeps_its_promise_whatever_lands_first(void **state) {
  (void)state;
  int denied = 0;
  for (unsigned seed = 1; seed <= 15000; seed++)
    denied += race_once(seed);
  assert_true(denied > 1000);
}

/* Lost keys cost what they held, and never an endless wait. */
static void survives_the_loss_of_any_key(void **state) {
  (void)state;
  for (unsigned seed = 1; seed <= 300; seed++) {
    struct fake_world *world = fake_open("quota:3/1s", BEGIN + 300, seed);
    int64_t admitted = 0, lost = 0;
    for (int i = 0; i < 60; i++) {
      struct fake_client *who = fake_begin_take(world, (int)fake_random(world, 2), 1);
      while (who->busy) {
        if (fake_random(world, 20) == 0) {
          lost++;
          fake_key(world, WEIR_PLACE_OPEN, 39 + fake_random(world, 3), 0)->present = false;
        }
        fake_step(world, who);
      }
      assert_int_equal(who->requests[0].verdict.status, WEIR_OK);
      admitted += who->requests[0].verdict.decision.allowed;
      world->now_us += fake_random(world, 10000);
    }
    assert_true(admitted <= 3 * (lost + 1));
    fake_close(world);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decides_as_the_definition_does),
      cmocka_unit_test(decides_as_the_definition_does_when_denied_requests_count),
      cmocka_unit_test(charges_both_or_none_beside_a_log),
      cmocka_unit_test(keeps_its_promise_whatever_lands_first),
      cmocka_unit_test(survives_the_loss_of_any_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

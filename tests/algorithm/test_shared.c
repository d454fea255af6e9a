#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "algorithm/shared.h"
#include "fake.h"

#define SECOND INT64_C(1000000)
#define BEGIN (INT64_C(1000) * SECOND) /* of a cell and of a window */

/* --- what may be lent ---------------------------------------------------------------------------
 */

/* 8 cells of 1 s, Cf = 50. */
static weir_stack shared_rule(const char *text) {
  weir_stack stack;
  weir_message message;
  if (weir_stack_parse(text, 64, &stack, &message) != WEIR_OK) fail_msg("%s", message.text);
  return stack;
}

/* Where processes remember cells, as they do unless told not to. */
static struct fake_world *open_world(const char *rule, int64_t now_us, unsigned seed) {
  struct fake_world *world = fake_open(rule, now_us, seed);
  world->settings.cached_cells = true;
  return world;
}

static const char *const rule_text = "shared-window:1000/8s,floors=50%,weights=a:3|b:1|c:1";

static int64_t lendable(const weir_rule *rule, const weir_pool_cell *cells, int64_t final_us) {
  return weir_pool_lendable(rule, cells, 1000, final_us, rule->room_of_cell);
}

static void lends_what_all_floors_leave(void **state) {
  (void)state;
  weir_stack stack = shared_rule(rule_text);
  const weir_rule *rule = &stack.rules[0];
  weir_pool_cell cells[10] = {{0}};
  assert_int_equal(rule->cells, 8);
  assert_int_equal(rule->floor_of_cell, 50);
  for (int i = 0; i < 8; i++)
    cells[i].read_us = BEGIN + 9 * SECOND;
  assert_int_equal(lendable(rule, cells, 100000), 1000 - 9 * 50);
  assert_int_equal(rule->capacity, 1000 - 9 * 50);

  /* What a cell from before holds counts until it leaves: floors of later cells take its place. */
  cells[3] = (weir_pool_cell){25, 5, 340, BEGIN + 9 * SECOND};
  assert_int_equal(lendable(rule, cells, 100000), 1000 - 370 - 50 - 3 * 50);
  cells[0] = (weir_pool_cell){50, 0, 350, BEGIN + 9 * SECOND};
  assert_int_equal(lendable(rule, cells, 100000), 1000 - 400 - 370 - 50);

  /* What is lent in this cell and the one ahead, and what may still be on its way. */
  cells[8].lent = 20;
  assert_int_equal(lendable(rule, cells, 100000), 1000 - 400 - 370 - 50 - 20);
  cells[7].read_us = BEGIN + 8 * SECOND - 1;
  assert_int_equal(lendable(rule, cells, 0), 1000 - 400 - 370 - 50 - 20 - 50);
  cells[9].lent = 300;
  assert_int_equal(lendable(rule, cells, 0), 1000 - 370 - 50 - 20 - 50 - 300 - 3 * 50);
}

static void steps_to_the_level_that_fills_the_limit(void **state) {
  (void)state;
  weir_stack stack = shared_rule(rule_text);
  const weir_rule *rule = &stack.rules[0];
  int64_t least = 1024 * 50 / 5, most = 3 * 1024 * 1000 / 16;
  weir_level_before before = {0, 0, 0, 0};
  assert_int_equal(weir_level_next(rule, &before), 1024 * 127 + least);
  before = (weir_level_before){.level = 20 * 1024, .used = 100, .missed = 17, .stopped = 5 * 1024};
  assert_int_equal(weir_level_next(rule, &before), 22 * 1024);
  before.used = 1000;
  assert_int_equal(weir_level_next(rule, &before), least);
  before = (weir_level_before){.level = 180 * 1024};
  assert_int_equal(weir_level_next(rule, &before), most);
  assert_int_equal(weir_level_most(22 * 1024, 3 * 1024), 66);

  /* What a store says that is out of its mind. */
  before = (weir_level_before){INT64_C(1) << 55, INT64_C(1) << 56, INT64_C(1) << 55, 1};
  assert_int_equal(weir_level_next(rule, &before), least);
  assert_int_equal(weir_level_most(INT64_C(1) << 55, INT64_C(1) << 30), INT64_C(1) << 55);

  /* Of many who have one weight together, a few stopped ones have little. */
  before = (weir_level_before){.level = 180 * 1024, .used = 117, .stopped = 102};
  assert_int_equal(weir_level_next(rule, &before) - 180 * 1024, 1024 * 10 * 1024 / 102);
}

/* --- one after another --------------------------------------------------------------------------
 */

/* Each client of the world is one process that asks for one tenant. */
static const weir_decision *take(struct fake_world *world, int client, const char *tenant,
                                 int64_t cost) {
  weir_claim claim = {.ask = {.cost = cost, .tenant_number = tenant[0]}};
  claim.ask.weight = weir_rule_weight(&world->stack.rules[0], tenant, 1);
  const weir_verdict *verdict = &fake_run(world, client, claim)->verdict;
  assert_int_equal(verdict->status, WEIR_OK);
  return &verdict->decision;
}

static int64_t pool(struct fake_world *world, int64_t cell, int64_t entry) {
  const struct fake_key *key = fake_key(world, WEIR_PLACE_ENTRY, cell, entry);
  return key->present ? key->value : 0;
}

static int64_t own(struct fake_world *world, int64_t cell, const char *tenant) {
  const struct fake_key *key = fake_key(world, WEIR_PLACE_TENANT, cell, (int64_t)tenant[0] * 4);
  return key->present ? key->value : 0;
}

static void a_floor_needs_two_additions_and_nothing_else(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  struct fake_client *client = &world->clients[0];
  assert_true(
      take(world, 0, "b", 1)->allowed); /* how the period is divided is known from here on */
  client->requests[0] = (weir_claim){.ask = {.cost = 29, .tenant_number = 'a', .weight = 3}};
  fake_begin(world, client, 1);
  assert_int_equal(client->machine->frame.operation_count, 2);
  fake_expect(client, 0, WEIR_ADD, WEIR_PLACE_TENANT, 1000, 'a' * 4);
  fake_expect(client, 1, WEIR_ADD, WEIR_PLACE_ENTRY, 1000, 1);
  fake_finish_round(world, client);
  assert_false(client->busy);
  assert_true(client->requests[0].verdict.decision.allowed);
  assert_int_equal(pool(world, 1000, 1), 30);
  assert_int_equal(pool(world, 1000, 2), 0);
  fake_close(world);
}

/* The guess of a process that knows less of the tenant than another has charged. */
static void what_is_above_the_floor_moves_to_what_is_lent(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  assert_true(take(world, 0, "a", 20)->allowed);
  assert_true(take(world, 1, "a", 15)->allowed); /* 35 of 30 */
  assert_int_equal(own(world, 1000, "a"), 35);
  assert_int_equal(pool(world, 1000, 1), 20);
  assert_int_equal(pool(world, 1000, 2), 15);
  fake_close(world);
}

/* However full the floors of all are: by its own count it has none, whoever else divides them otherwise. */
static void a_wrong_guess_costs_one_round(void **state) {
  (void)state;
  struct fake_world *world =
      open_world("shared-window:80/8s,floors=100%,weights=a:6|b:1|c:1", BEGIN + 500000, 1);
  assert_true(take(world, 0, "z", 1)->allowed); /* which makes the level, too */
  assert_true(take(world, 1, "a", 6)->allowed);
  assert_true(take(world, 2, "b", 1)->allowed);
  assert_true(take(world, 3, "c", 1)->allowed);
  assert_int_equal(pool(world, 1000, 1), 8);
  assert_true(take(world, 4, "a", 2)->allowed);
  assert_int_equal(world->clients[4].rounds, world->clients[3].rounds + 1);
  assert_int_equal(pool(world, 1000, 1), 8);
  assert_int_equal(pool(world, 1000, 2), 3);
  fake_close(world);
}

static void a_lone_tenant_borrows_all_that_no_floor_needs(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  int64_t admitted = 0;
  while (take(world, 0, "b", 5)->allowed)
    admitted += 5;
  assert_in_range(admitted, 275, 550); /* half of what may be lent needs no level */
  assert_int_equal(own(world, 1000, "b"), admitted);
  assert_int_equal(pool(world, 1000, 1) + pool(world, 1000, 2), admitted);
  /* Others have their floors all the same. */
  assert_true(take(world, 1, "a", 30)->allowed);
  assert_true(take(world, 2, "c", 10)->allowed);
  fake_close(world);
}

static void who_has_no_floor_only_borrows(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  assert_true(take(world, 0, "z", 5)->allowed);
  assert_int_equal(pool(world, 1000, 1), 0);
  assert_int_equal(pool(world, 1000, 2), 5);
  fake_close(world);
}

/* --- who is not named --------------------------------------------------------------------------
 */

/* 8 cells of 1 s, Cf = 100: a has 50 of it and all others 50, of which 2 are for those who come. */
static const char *const others_text = "shared-window:2000/8s,floors=50%,weights=a:1,others=1";

static void has_a_floor_once_it_was_seen(void **state) {
  (void)state;
  struct fake_world *world = open_world(others_text, BEGIN + 500000, 1);
  assert_true(take(world, 0, "x", 1)->allowed);
  assert_true(take(world, 1, "y", 1)->allowed);
  assert_true(take(world, 2, "y", 1)->allowed);
  assert_int_equal(pool(world, 1000, 6), 2); /* others */
  assert_int_equal(pool(world, 1000, 7), 2); /* newcomers, who have 1 each */
  assert_int_equal(pool(world, 1000, 2), 1); /* lent */
  assert_int_equal(pool(world, 250, 8), 2);  /* seen in this epoch */
  world->now_us += 4 * SECOND;
  for (int i = 0; i < 4; i++)
    assert_true(take(world, i, "x", 6)->allowed);
  assert_int_equal(pool(world, 1004, 6), 24); /* half of 48 */
  assert_int_equal(pool(world, 1004, 7), 0);
  assert_int_equal(pool(world, 1004, 2), 0);
  assert_true(take(world, 1, "x", 1)->allowed);
  assert_int_equal(pool(world, 1004, 6), 24);
  assert_int_equal(pool(world, 1004, 2), 1);
  fake_close(world);
}

/* What is stopped is told once for each tenant and cell, whoever asks. */
static void a_stopped_tenant_is_told_once(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  while (take(world, 0, "a", 5)->allowed)
    continue;
  for (int i = 0; i < 4; i++)
    assert_false(take(world, 1 + i % 2, "a", 60)->allowed);
  assert_int_equal(pool(world, 1000, 4), 3 * 1024);
  fake_close(world);
}

/* Until a cell is final room is left for its floors. Who was stopped before is let go then, by the process that knows of
 * it as well as by another. */
static void who_was_stopped_is_let_go_once_a_cell_is_final(void **state) {
  (void)state;
  for (int asks = 0; asks < 2; asks++) {
    struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
    while (take(world, 0, "b", 5)->allowed)
      continue;
    assert_true(take(world, 2, "c", 35)->allowed);
    world->now_us += 510000;
    assert_true(take(world, 0, "b", 10)->allowed);
    assert_false(take(world, 0, "b", 5)->allowed);
    assert_false(take(world, 0, "b", 5)->allowed);
    assert_int_equal(world->clients[0].rounds, 1); /* by what it remembers */
    world->now_us += FAKE_FINAL_US;
    assert_true(take(world, asks, "b", 5)->allowed);
    assert_false(take(world, 0, "b", 5)->allowed);
    fake_close(world);
  }
}

static void what_is_denied_goes_back(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  assert_false(take(world, 0, "a", 551)->allowed);
  assert_int_equal(own(world, 1000, "a"), 0);
  assert_int_equal(pool(world, 1000, 1) + pool(world, 1000, 2), 0);
  fake_close(world);
}

/* Each asks in a pool that has lent nothing, cell by cell, until it is told that it never fits. */
static void who_is_told_to_wait_has_it_at_last(void **state) {
  enum { CELLS = 30, COSTS = 28 /* what is above may not even be lent */ };
  int admitted = 0, never = 0;
  (void)state;
  for (int n = 0; n < 3 * COSTS; n++) {
    struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
    const char *tenant = &"abz"[n % 3];
    int64_t cost = 20 * (n / 3);
    int cell = 0;
    const weir_decision *decision = take(world, 0, tenant, cost + 1);
    for (; !decision->allowed && decision->retry_after_us != WEIR_NEVER && cell < CELLS; cell++) {
      world->now_us += decision->retry_after_us;
      decision = take(world, 0, tenant, cost + 1);
    }
    if (cell == CELLS) fail_msg("%d of %s is told to wait for ever", (int)cost + 1, tenant);
    bool is_never = !decision->allowed;
    admitted += !is_never;
    never += is_never;
    for (cell = 0; is_never && cell < CELLS; cell++) {
      world->now_us += SECOND;
      assert_false(take(world, 1, tenant, cost + 1)->allowed);
    }
    fake_close(world);
  }
  assert_int_equal(admitted, 58);
  assert_int_equal(never, 26);
}

/* Of what may be lent nothing is left. What is content with less has all of its floor, and the rest goes back. */
static void what_is_content_with_less_has_its_floor(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  weir_claim up_to = {.ask = {.cost = 40, .up_to = true, .tenant_number = 'a', .weight = 3}};
  for (const char *none = "xyzuvw"; *none != '\0'; none++)
    while (take(world, *none % 3, none, 1)->allowed)
      continue;
  int64_t lent = pool(world, 1000, 2);
  assert_true(take(world, 3, "a", 4)->allowed);
  const weir_verdict *verdict = &fake_run(world, 4, up_to)->verdict;
  assert_true(verdict->decision.allowed);
  assert_int_equal(verdict->decision.cost, 26);
  assert_int_equal(own(world, 1000, "a"), 30);
  assert_int_equal(pool(world, 1000, 1), 30);
  assert_int_equal(pool(world, 1000, 2), lent);
  assert_false(fake_run(world, 5, up_to)->verdict.decision.allowed);
  assert_int_equal(own(world, 1000, "a"), 30);
  assert_int_equal(pool(world, 1000, 1), 30);
  assert_int_equal(pool(world, 1000, 2), lent);
  fake_close(world);
}

/* So has one who is not named. Of those who come, all that may be had is had here. */
static void so_has_one_who_is_not_named(void **state) {
  (void)state;
  struct fake_world *world = open_world(others_text, BEGIN + 500000, 1);
  weir_claim up_to = {.ask = {.cost = 90, .up_to = true, .tenant_number = 'x'}};
  assert_true(take(world, 0, "x", 1)->allowed);
  world->now_us += 4 * SECOND;
  for (int i = 0; i < 6; i++)
    while (take(world, 6 + i, &"rstuvw"[i], 1)->allowed)
      continue;
  int64_t lent = pool(world, 1004, 2);
  assert_int_equal(pool(world, 1004, 6), 2);
  const weir_verdict *verdict = &fake_run(world, 4, up_to)->verdict;
  assert_true(verdict->decision.allowed);
  assert_int_equal(verdict->decision.cost, 48);
  assert_int_equal(own(world, 1004, "x"), 48);
  assert_int_equal(pool(world, 1004, 6), 50);
  assert_int_equal(pool(world, 1004, 2), lent);
  assert_false(fake_run(world, 5, up_to)->verdict.decision.allowed);
  up_to.ask.tenant_number = 'y';
  assert_false(fake_run(world, 1, up_to)->verdict.decision.allowed);
  assert_int_equal(pool(world, 1004, 6), 50);
  assert_int_equal(pool(world, 1004, 2), lent);
  fake_close(world);
}

/* --- takes and peeks in one list ---------------------------------------------------------------
 */

enum { LISTS = 60, BESIDE = 2 };

/* Two of one tenant, in their order, by the process and in the pool of each. */
static void ask_both(struct fake_world *world, int client, const weir_ask asks[BESIDE], bool listed,
                     weir_verdict verdicts[BESIDE]) {
  struct fake_client *who = &world->clients[client];
  for (int i = 0; i < BESIDE && !listed; i++)
    verdicts[i] = fake_run(world, client, (weir_claim){.ask = asks[i]})->verdict;
  if (!listed) return;
  for (int i = 0; i < BESIDE; i++)
    who->requests[i] = (weir_claim){.ask = asks[i]};
  fake_begin(world, who, BESIDE);
  fake_finish(world, who);
  for (int i = 0; i < BESIDE; i++)
    verdicts[i] = who->requests[i].verdict;
}

static void expect_the_same(const weir_verdict *listed, const weir_verdict *alone) {
  assert_int_equal(listed->status, WEIR_OK);
  assert_int_equal(alone->status, WEIR_OK);
  assert_int_equal(listed->decision.allowed, alone->decision.allowed);
  assert_int_equal(listed->decision.cost, alone->decision.cost);
  assert_int_equal(listed->decision.limit, alone->decision.limit);
  assert_int_equal(listed->decision.retry_after_us, alone->decision.retry_after_us);
}

/* The same requests in two worlds: a take and a peek, in any order, together in one and one after the other in the
 * other one. Three processes ask for a, b, and two who have no name; none repeats what it knows. */
static void ask_lists(const char *rule, unsigned seed) {
  enum { ASKING = 4 };
  struct fake_world *together = fake_open(rule, BEGIN + 500000, seed);
  struct fake_world *alone = fake_open(rule, BEGIN + 500000, seed);
  int64_t floors = together->stack.rules[0].floor_of_cell;
  for (int n = 0; n < LISTS; n++) {
    int client = (int)fake_random(together, FAKE_CLIENTS_ROOM);
    int peek = (int)fake_random(together, BESIDE);
    const char *tenant = &"abyz"[client % ASKING];
    weir_ask asks[BESIDE];
    weir_verdict listed[BESIDE], one_by_one[BESIDE];
    for (int i = 0; i < BESIDE; i++) {
      int64_t most = fake_random(together, 4) == 0 ? 3 * floors : floors;
      asks[i] = (weir_ask){.kind = i == peek ? WEIR_PEEK : WEIR_TAKE,
                           .cost = 1 + fake_random(together, most),
                           .up_to = i == peek && fake_random(together, 3) == 0,
                           .tenant_number = *tenant,
                           .weight = weir_rule_weight(&together->stack.rules[0], tenant, 1)};
    }
    ask_both(together, client, asks, true, listed);
    ask_both(alone, client, asks, false, one_by_one);
    for (int i = 0; i < BESIDE; i++)
      expect_the_same(&listed[i], &one_by_one[i]);
    assert_int_equal(listed[peek].decision.remaining, one_by_one[peek].decision.remaining);
    int64_t passes_us = fake_random(together, 3) == 0 ? fake_random(together, SECOND) : 0;
    together->now_us += passes_us;
    alone->now_us = together->now_us;
  }
  fake_close(together);
  fake_close(alone);
}

static void a_peek_beside_a_take_finds_what_it_finds_alone(void **state) {
  (void)state;
  for (unsigned seed = 1; seed <= 100; seed++) {
    ask_lists(rule_text, seed);
    ask_lists(others_text, seed);
    ask_lists("shared-window:200/8s,floors=90%,weights=a:5|b:2", seed);
    ask_lists("shared-window:200/8s,floors=100%,weights=a:1|b:1,others=2", seed);
  }
}

/* A look that knows less than was lent meanwhile lets no take be denied for one before it that does not fit either. */
static void a_take_is_not_denied_for_one_that_is_denied(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  const weir_ask asks[BESIDE] = {{.cost = 250, .tenant_number = 'z'},
                                 {.cost = 100, .tenant_number = 'z'}};
  weir_verdict verdicts[BESIDE];
  assert_false(take(world, 0, "z", 551)->allowed); /* by which it knows the pool, and looks first */
  assert_true(take(world, 1, "y", 290)->allowed);
  ask_both(world, 0, asks, true, verdicts);
  assert_false(verdicts[0].decision.allowed);
  assert_true(verdicts[1].decision.allowed);
  fake_close(world);
}

/* What the peek rests on is read in the round of the charge. */
static void a_peek_beside_a_floor_costs_no_round(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  struct fake_client *client = &world->clients[0];
  const weir_ask asks[BESIDE] = {
      {.cost = 20, .tenant_number = 'a', .weight = 3},
      {.kind = WEIR_PEEK, .cost = 50, .tenant_number = 'a', .weight = 3}};
  assert_true(take(world, 0, "a", 1)->allowed);
  fake_run(world, 0, (weir_claim){.ask = asks[1]}); /* which finds the level */
  for (int i = 0; i < BESIDE; i++)
    client->requests[i] = (weir_claim){.ask = asks[i]};
  fake_begin(world, client, BESIDE);
  assert_int_equal(client->machine->frame.operation_count, 3);
  fake_expect(client, 0, WEIR_ADD, WEIR_PLACE_TENANT, 1000, 'a' * 4);
  fake_expect(client, 1, WEIR_ADD, WEIR_PLACE_ENTRY, 1000, 1);
  fake_expect(client, 2, WEIR_GET, WEIR_PLACE_ENTRY, 1000, 2);
  fake_finish_round(world, client);
  assert_false(client->busy);
  assert_true(client->requests[0].verdict.decision.allowed);
  assert_true(client->requests[1].verdict.decision.allowed);
  assert_int_equal(pool(world, 1000, 1), 21);
  fake_close(world);
}

/* --- a rule that changes -----------------------------------------------------------------------
 *
 * Cf = 8, of which a has 6 and then 1, b 1 and then 6. Of 80 all that no floor needs is 8, and z has it.
 */

static const char *const weights_before = "shared-window:80/8s,floors=100%,weights=a:6|b:1|c:1",
                         *const weights_after =
                             "shared-window:80/8s,floors=100%,weights=a:1|b:6|c:1";

static int64_t division(int64_t floors, int64_t room) {
  return weir_division_pack(17, floors, room);
}

/* Floors are never more than loans of this period or the one before leave room for, and room is never less than
 * the floors of the period before. */
static void floors_become_larger_a_period_after_the_room(void **state) {
  (void)state;
  assert_int_equal(weir_division_next(0, division(80, 80)), division(80, 80));
  assert_int_equal(weir_division_next(division(50, 50), division(80, 80)), division(50, 80));
  assert_int_equal(weir_division_next(division(50, 80), division(80, 80)), division(80, 80));
  assert_int_equal(weir_division_next(division(80, 80), division(50, 50)), division(50, 80));
  assert_int_equal(weir_division_next(division(50, 80), division(50, 50)), division(50, 50));
  assert_int_equal(weir_division_next(division(50, 80), weir_division_pack(18, 20, 20)),
                   weir_division_pack(18, 20, 50));
}

/* The period is divided as `client` 0 says; 1 and 3 have the new rule, which must live as long. */
static struct fake_world *changing_world(weir_stack *changed) {
  struct fake_world *world = open_world(weights_before, BEGIN + 500000, 1);
  *changed = shared_rule(weights_after);
  assert_true(take(world, 0, "z", 8)->allowed);
  for (int client = 1; client < 4; client += 2)
    weir_machine_init(world->clients[client].machine, changed, &world->settings);
  return world;
}

/* Asks as take() does, by the weights of the client's own rule. */
static bool takes(struct fake_world *world, int client, const char *tenant, int64_t cost) {
  const weir_rule *rule = &world->clients[client].machine->frame.stack->rules[0];
  weir_claim claim = {.ask = {.cost = cost, .tenant_number = tenant[0]}};
  claim.ask.weight = weir_rule_weight(rule, tenant, 1);
  return fake_run(world, client, claim)->verdict.decision.allowed;
}

static void other_weights_have_what_floors_leave(void **state) {
  (void)state;
  weir_stack changed;
  struct fake_world *world = changing_world(&changed);
  assert_true(takes(world, 0, "a", 6));
  assert_false(takes(world, 1, "b", 6)); /* within its new floor; 6 of 8 are in use */
  assert_true(takes(world, 1, "b", 2));
  assert_false(
      takes(world, 2, "c", 1)); /* and so are 8, as is known that some have other weights */
  assert_int_equal(pool(world, 1000, 1), 8);
  fake_close(world);

  world = changing_world(&changed);
  assert_true(takes(world, 1, "b", 6));
  assert_false(takes(world, 2, "a", 6));
  assert_true(takes(world, 0, "a", 2));
  assert_int_equal(pool(world, 1000, 1), 8);
  fake_close(world);
}

static const weir_decision *ask_by_its_rule(struct fake_world *world, int client,
                                            const char *tenant, weir_ask ask) {
  const weir_rule *rule = &world->clients[client].machine->frame.stack->rules[0];
  ask.tenant_number = *tenant;
  ask.weight = weir_rule_weight(rule, tenant, 1);
  const weir_verdict *verdict = &fake_run(world, client, (weir_claim){.ask = ask})->verdict;
  assert_int_equal(verdict->status, WEIR_OK);
  return &verdict->decision;
}

/* Of three processes for each tenant one may have other weights. Whoever asks for up to more than there is has what a
 * peek has found, by a process with the same weights; and who is denied all is denied it again. What other weights
 * have in use of all floors a peek does not see. */
static void ask_for_all(const char *before, const char *after, unsigned seed) {
  enum { TENANTS_HERE = 4, TIMES = 60 };
  struct fake_world *world = open_world(before, BEGIN + 500000, seed);
  weir_stack changed = shared_rule(after);
  for (int client = 0; client < TENANTS_HERE; client++)
    weir_machine_init(world->clients[client].machine, &changed, &world->settings);
  for (int n = 0; n < TIMES; n++) {
    int client = (int)fake_random(world, FAKE_CLIENTS_ROOM);
    const char *tenant = &"abyz"[client % TENANTS_HERE];
    weir_ask ask = {.cost = 1 + fake_random(world, world->stack.rules[0].floor_of_cell)};
    bool fills = fake_random(world, 3) > 0;
    if (!fills) ask = (weir_ask){.kind = WEIR_PEEK, .cost = 1};
    int64_t there = ask_by_its_rule(world, client, tenant, ask)->remaining;
    if (fills) continue;
    ask = (weir_ask){.cost = world->stack.rules[0].limit, .up_to = true};
    if (client >= TENANTS_HERE) client = client % TENANTS_HERE + TENANTS_HERE;
    const weir_decision *decision = ask_by_its_rule(world, client, tenant, ask);
    int64_t got = decision->allowed ? decision->cost : 0;
    if (got > there || (got < there && before == after))
      fail_msg("%s, seed %u: %c got %d of %d", before, seed, *tenant, (int)got, (int)there);
    if (got == 0) assert_false(ask_by_its_rule(world, client, tenant, ask)->allowed);
    if (fake_random(world, 3) == 0) world->now_us += fake_random(world, SECOND);
  }
  fake_close(world);
}

static void what_asks_for_all_has_what_a_peek_finds(void **state) {
  const char *equal = "shared-window:200/8s,floors=90%,weights=a:5|b:2",
             *others_before = "shared-window:200/8s,floors=100%,weights=a:4|b:3|c:1,others=2",
             *others_after = "shared-window:200/8s,floors=100%,weights=a:1|b:1,others=8";
  (void)state;
  for (unsigned seed = 1; seed <= 100; seed++) {
    ask_for_all(rule_text, rule_text, seed);
    ask_for_all(equal, equal, seed);
    ask_for_all(others_text, others_text, seed);
    ask_for_all(others_after, others_after, seed);
    ask_for_all(weights_before, weights_after, seed);
    ask_for_all(others_before, others_after, seed);
  }
}

/* A pool that was idle for a period. By a late clock its last cell is not over, and by an early one the next period
 * has begun: both are the first that anybody charges in theirs, and they have other floors. Their operations land in
 * any order. */
static void two_who_are_first_in_two_periods_agree(void **state) {
  int lent = 0;
  (void)state;
  for (unsigned seed = 1; seed <= 200; seed++) {
    struct fake_world *world =
        open_world("shared-window:100/8s,floors=10%,weights=a:1", BEGIN, seed);
    weir_stack changed = shared_rule("shared-window:100/8s,floors=90%,weights=a:1");
    struct fake_client *late = &world->clients[0], *early = &world->clients[1];
    late->offset_us = -FAKE_CLOCK_ERROR_US;
    late->requests[0] = (weir_claim){.ask = {.cost = 46, .tenant_number = 'z'}};
    early->offset_us = FAKE_CLOCK_ERROR_US;
    early->requests[0] = (weir_claim){.ask = {.cost = 9, .tenant_number = 'a', .weight = 1}};
    weir_machine_init(early->machine, &changed, &world->settings);
    fake_begin(world, late, 1);
    fake_begin(world, early, 1);
    while (late->busy || early->busy) {
      bool second = !late->busy || fake_random(world, 8) > (int64_t)(seed % 8);
      fake_step(world, second && early->busy ? early : late);
    }
    assert_int_equal(late->requests[0].verdict.status, WEIR_OK);
    assert_int_equal(early->requests[0].verdict.status, WEIR_OK);
    int64_t admitted = late->requests[0].verdict.decision.allowed ? 46 : 0;
    if (early->requests[0].verdict.decision.allowed) admitted += 9;
    lent += admitted >= 46;
    for (int cell = 1; cell < 8; cell++) {
      world->now_us = BEGIN + cell * SECOND + 500000;
      if (take(world, 1, "a", 9)->allowed) admitted += 9;
    }
    assert_in_range(admitted, 46, 100);
    fake_close(world);
  }
  assert_in_range(lent, 20, 180); /* where it was faster */
}

/* --- settled ------------------------------------------------------------------------------------
 */

/* How much more than it was charged, or (below 0) less, a request of this stamp was charged. */
static int64_t settle(struct fake_world *world, int client, const char *tenant, int64_t at_us,
                      int64_t difference) {
  int64_t charged = 0;
  weir_claim claim = {.ask = {.kind = WEIR_SETTLE,
                              .at_us = at_us,
                              .costs = &difference,
                              .settlement = &charged,
                              .tenant_number = tenant[0]}};
  claim.ask.weight = weir_rule_weight(&world->stack.rules[0], tenant, 1);
  assert_int_equal(fake_run(world, client, claim)->verdict.status, WEIR_OK);
  return charged;
}

/* Whatever it was charged to goes back in B, of the cell of its stamp; its floor there stays used. */
static void what_was_too_much_goes_back_where_it_counts(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  int64_t floor_us = take(world, 0, "a", 30)->at_us, lent_us = take(world, 1, "z", 20)->at_us;
  world->now_us += 3 * SECOND;
  assert_int_equal(settle(world, 2, "z", lent_us, -15), -15);
  assert_int_equal(pool(world, 1000, 2), 5);
  assert_int_equal(settle(world, 3, "a", floor_us, -3), -3);
  assert_int_equal(pool(world, 1000, 1), 30);
  assert_int_equal(pool(world, 1000, 2), 2);
  assert_int_equal(own(world, 1000, "a"), 30);
  assert_int_equal(own(world, 1000, "z"), 20);
  assert_int_equal(pool(world, 1003, 2), 0);
  assert_int_equal(settle(world, 3, "a", floor_us, -7), -7); /* B has 2 of it */
  assert_int_equal(pool(world, 1000, 1) + pool(world, 1000, 2), 25);
  assert_int_equal(own(world, 1000, "a"), 30);
  world->now_us += 9 * SECOND; /* it counts no more, and nothing is sent */
  assert_int_equal(settle(world, 3, "a", floor_us, -3), -3);
  assert_int_equal(pool(world, 1000, 1) + pool(world, 1000, 2), 25);
  fake_close(world);
}

/* Where nothing was lent there is no B, from which a store takes nothing. */
static void what_only_floors_were_charged_goes_back_from_them(void **state) {
  (void)state;
  struct fake_world *world =
      open_world("shared-window:2000/8s,floors=50%,weights=a:1,others=1", BEGIN + 500000, 1);
  int64_t a_us = take(world, 0, "a", 30)->at_us, x_us = take(world, 1, "x", 1)->at_us;
  world->now_us += 2 * SECOND;
  assert_int_equal(settle(world, 2, "a", a_us, -20), -20);
  assert_int_equal(pool(world, 1000, 1), 10);
  assert_int_equal(settle(world, 2, "x", x_us, -1), -1);
  assert_int_equal(pool(world, 1000, 1) + pool(world, 1000, 6), 10);
  assert_int_equal(pool(world, 1000, 2), 0);
  fake_close(world);
}

/* Of two counters one gives back, and from the other there is no answer: how much did is not known. */
static void what_goes_back_in_part_is_not_told_as_done(void **state) {
  (void)state;
  struct fake_world *world = open_world(rule_text, BEGIN + 500000, 1);
  struct fake_client *client = &world->clients[2];
  int64_t difference = -20, charged = 0;
  int64_t at_us = take(world, 0, "a", 30)->at_us;
  assert_true(take(world, 1, "z", 2)->allowed);
  client->requests[0] = (weir_claim){.ask = {.kind = WEIR_SETTLE,
                                             .at_us = at_us,
                                             .costs = &difference,
                                             .settlement = &charged,
                                             .tenant_number = 'a'}};
  client->requests[0].ask.weight = weir_rule_weight(&world->stack.rules[0], "a", 1);
  fake_begin(world, client, 1);
  fake_step_until(world, client, WEIR_SUB, WEIR_PLACE_ENTRY);
  fake_step(world, client);
  world->now_us += 10 * FAKE_DEADLINE_US;
  fake_finish(world, client);
  assert_int_equal(pool(world, 1000, 2), 0);
  assert_int_equal(client->requests[0].verdict.status, WEIR_UNKNOWN_OUTCOME);
  fake_close(world);
}

/* What was too little is lent, to the limit and the debt, and no floor is less for it. */
static void what_was_too_little_is_lent(void **state) {
  (void)state;
  struct fake_world *world =
      open_world("shared-window:1000/8s,floors=50%,weights=a:3|b:1|c:1,debt=50", BEGIN + 500000, 1);
  int64_t at_us = take(world, 0, "a", 10)->at_us;
  assert_int_equal(settle(world, 1, "a", at_us, 500), 500);
  assert_int_equal(own(world, 1000, "a"), 10);
  assert_int_equal(pool(world, 1000, 2), 500);
  assert_int_equal(settle(world, 2, "a", at_us, 500), 100); /* of 550, and 50 */
  assert_int_equal(pool(world, 1000, 2), 600);
  assert_false(take(world, 3, "z", 1)->allowed);
  assert_true(take(world, 0, "a", 20)->allowed);
  assert_true(take(world, 4, "b", 10)->allowed);
  fake_close(world);
}

/* --- at the edges of cells ----------------------------------------------------------------------
 *
 * One tenant with a floor of 8 in each cell, in a limit that has room for 10 of these: z, who has none, may
 * lend 8. Client 0 is right, 1 is as late as it may be, 2 as early.
 */

static struct fake_world *edge_world(void) {
  struct fake_world *world = open_world("shared-window:80/8s,floors=100%,weights=a:1", BEGIN, 1);
  world->clients[1].offset_us = -FAKE_CLOCK_ERROR_US;
  world->clients[2].offset_us = FAKE_CLOCK_ERROR_US;
  return world;
}

static void at(struct fake_world *world, int64_t ms) {
  world->now_us = BEGIN + ms * 1000;
}

/* Late in cell 1 all that may be lent is lent, and the floor is used there and in each cell up to the 7th. */
static void fill_up_to_the_last_cell(struct fake_world *world) {
  for (int cell = 1; cell <= 7; cell++) {
    at(world, cell * 1000 + 900);
    if (cell == 1) assert_true(take(world, 3, "z", 8)->allowed);
    assert_true(take(world, 0, "a", 8)->allowed);
  }
}

static void keeps_room_for_floors_on_their_way_to_the_last_cell(void **state) {
  (void)state;
  struct fake_world *world = edge_world();
  fill_up_to_the_last_cell(world);
  at(world, 8995);
  assert_false(take(world, 2, "z", 8)->allowed); /* by its clock cell 8 is over */
  assert_true(take(world, 1, "a", 8)->allowed);  /* and by this one it is not */
  at(world, 9030);
  assert_true(take(world, 0, "a", 8)->allowed);
  fake_close(world);
}

static void lends_what_a_floor_has_left_once_that_is_final(void **state) {
  (void)state;
  struct fake_world *world = edge_world();
  fill_up_to_the_last_cell(world);
  at(world, 9050);
  assert_false(take(world, 0, "z", 8)->allowed);
  at(world, 9000 + FAKE_FINAL_US / 1000);
  assert_true(take(world, 0, "z", 8)->allowed);
  assert_true(take(world, 1, "a", 8)->allowed);
  fake_close(world);
}

static void reads_a_cell_anew_that_was_not_final(void **state) {
  (void)state;
  struct fake_world *world = edge_world();
  fill_up_to_the_last_cell(world);
  at(world, 8995);
  assert_false(take(world, 2, "z", 8)->allowed);
  assert_true(take(world, 1, "a", 8)->allowed);
  at(world, 9500);
  assert_false(take(world, 2, "z", 8)->allowed);
  fake_close(world);
}

/* The time is over when all of a cell was read but what its floors have taken. */
static void reads_a_cell_anew_of_which_a_part_is_missing(void **state) {
  (void)state;
  struct fake_world *world = edge_world();
  struct fake_client *client = &world->clients[3];
  at(world, 500);
  assert_true(take(world, 0, "a", 8)->allowed);
  assert_true(take(world, 0, "z", 8)->allowed);
  at(world, 1500);
  client->requests[0] = (weir_claim){.ask = {.cost = 8, .tenant_number = 'z'}};
  fake_begin(world, client, 1);
  const weir_operation *next;
  while ((next = fake_next(client)) != NULL &&
         !(next->counter.place == WEIR_PLACE_ENTRY && next->counter.index == 1000 &&
           next->counter.entry == 1))
    fake_step(world, client);
  assert_non_null(next);
  world->now_us += FAKE_DEADLINE_US;
  fake_finish(world, client);
  assert_int_not_equal(client->requests[0].verdict.status, WEIR_OK);
  assert_false(take(world, 3, "z", 8)->allowed);
  fake_close(world);
}

static void sees_what_is_lent_in_the_cell_ahead(void **state) {
  (void)state;
  struct fake_world *world = edge_world();
  at(world, 8995);
  assert_true(take(world, 2, "z", 8)->allowed);
  assert_false(take(world, 1, "z", 8)->allowed);
  fake_close(world);
}

static void reads_what_is_lent_there_behind_its_own_addition(void **state) {
  (void)state;
  struct fake_world *world = edge_world();
  struct fake_client *late = &world->clients[1];
  at(world, 8995);
  late->requests[0] = (weir_claim){.ask = {.cost = 8, .tenant_number = 'z'}};
  fake_begin(world, late, 1);
  fake_step_until(world, late, WEIR_ADD, WEIR_PLACE_ENTRY);
  assert_true(take(world, 2, "z", 8)->allowed);
  fake_finish(world, late);
  assert_int_equal(late->requests[0].verdict.status, WEIR_OK);
  assert_false(late->requests[0].verdict.decision.allowed);
  fake_close(world);
}

/* Neither a floor nor what is lent: whoever asked has given up by then. Each knows its pool before, so that one
 * answer is all that it needs. */
static void admits_nothing_by_a_late_answer(void **state) {
  (void)state;
  struct fake_world *world = edge_world();
  const weir_ask asks[] = {{.cost = 8, .tenant_number = 'a', .weight = 1},
                           {.cost = 8, .tenant_number = 'z'}};
  for (int i = 0; i < 2; i++) {
    struct fake_client *client = &world->clients[i];
    at(world, 500 + i * 1000);
    assert_true(take(world, i, i == 0 ? "a" : "z", 1)->allowed);
    at(world, 1500 + i * 1000);
    client->requests[0] = (weir_claim){.ask = asks[i]};
    fake_begin(world, client, 1);
    while (fake_next(client) != NULL)
      fake_step(world, client);
    world->now_us += FAKE_DEADLINE_US + 1;
    fake_finish(world, client);
    assert_int_not_equal(client->requests[0].verdict.status, WEIR_OK);
  }
  fake_close(world);
}

/* --- all at once --------------------------------------------------------------------------------
 */

enum { TAKES_MOST = 60000, CELLS_MOST = 32, TENANTS = 4 };

struct hunt {
  struct fake_world *world;
  weir_stack changed; /* what half of all processes have; count 0: all have one rule */
  int seed;
  bool all_floors; /* are asked for in every cell, and no more of those who have one */
  bool less;       /* is welcome to some, who ask for more */
  /* Where in a cell what is asked for. */
  enum { ANYWHERE, LOANS_BETWEEN, LATE_FLOORS, AT_EDGES, MODES } mode;
  int64_t stamps[TAKES_MOST], costs[TAKES_MOST];
  bool settled[TAKES_MOST];
  size_t admitted;
  int64_t differences[FAKE_CLIENTS_ROOM], charged[FAKE_CLIENTS_ROOM]; /* of settlements */
  /* By the cell in which a request began, and by that of its stamp. */
  int64_t begun[CELLS_MOST][TENANTS];
  int64_t asked[CELLS_MOST][TENANTS];
  int denied[CELLS_MOST][TENANTS];
};

static const char *const tenants = "abcz";

/* Where a rule changes, every other process of each tenant has the new one already. */
static const weir_rule *rule_of(const struct hunt *hunt, int client) {
  bool is_new = hunt->changed.count > 0 && client / TENANTS % 2 == 1;
  return is_new ? &hunt->changed.rules[0] : &hunt->world->stack.rules[0];
}

static int64_t floor_of(const struct hunt *hunt, int client) {
  const weir_rule *rule = rule_of(hunt, client);
  return weir_rule_floor(rule, weir_rule_weight(rule, &tenants[client % TENANTS], 1));
}

/* Where requests may have a limit of their own, each client has one. */
static int64_t limit_of(const struct fake_world *world, int client) {
  const weir_rule *rule = &world->stack.rules[0];
  return rule->most > 0 ? rule->limit + client % 5 * 10 : 0;
}

static int64_t largest_limit(const struct fake_world *world) {
  int64_t limit = limit_of(world, 4);
  return limit > 0 ? limit : world->stack.rules[0].limit;
}

/* What was admitted lately turns out to cost another amount. One that is less is so whatever becomes of the
 * settlement. */
static bool begin_settling(struct hunt *hunt, int client) {
  enum { LATELY = 100 };
  struct fake_world *world = hunt->world;
  struct fake_client *who = &world->clients[client];
  if (world->stack.rules[0].debt == 0 || hunt->admitted == 0 || fake_random(world, 3) > 0)
    return false;
  size_t among = hunt->admitted < LATELY ? hunt->admitted : LATELY;
  size_t i = hunt->admitted - 1 - (size_t)fake_random(world, (int64_t)among);
  if (hunt->settled[i] || hunt->costs[i] == 0) return false;
  hunt->settled[i] = true;
  bool up = fake_random(world, 2) == 0;
  hunt->differences[client] =
      up ? 1 + fake_random(world, 9) : -1 - fake_random(world, hunt->costs[i]);
  if (!up) hunt->costs[i] += hunt->differences[client];
  who->requests[0] = (weir_claim){.ask = {.kind = WEIR_SETTLE,
                                          .at_us = hunt->stamps[i],
                                          .costs = &hunt->differences[client],
                                          .settlement = &hunt->charged[client],
                                          .tenant_number = tenants[client % TENANTS]}};
  fake_begin(world, who, 1);
  return true;
}

static void admit(struct hunt *hunt, int64_t at_us, int64_t cost) {
  assert_true(hunt->admitted < TAKES_MOST);
  hunt->stamps[hunt->admitted] = at_us;
  hunt->costs[hunt->admitted++] = cost;
}

/* What a lot has left is used at some later time of its cell; and what is not goes back. */
static void use_lot(struct hunt *hunt, const weir_claim *claim) {
  struct fake_world *world = hunt->world;
  int64_t at_us = claim->verdict.decision.at_us, granted = claim->verdict.charge;
  int64_t used = fake_random(world, 3) == 0 ? fake_random(world, granted + 1) : granted;
  weir_operation back[WEIR_SHARED_RETURN] = {{.counter.index = at_us / SECOND}};
  if (used > 0) admit(hunt, at_us + fake_random(world, SECOND - at_us % SECOND), used);
  weir_shared_return(claim->ask.tenant_number, claim->ask.weight > 0, back);
  for (int i = 0; i < WEIR_SHARED_RETURN; i++) {
    const weir_counter *counter = &back[i].counter;
    fake_key(world, counter->place, counter->index, counter->entry)->value -= granted - used;
  }
}

/* Every client is a process of one of three clocks, asking for one of four tenants. In half of all cells a
 * tenant asks for its floor and no more. */
static void begin(struct hunt *hunt, int client) {
  struct fake_world *world = hunt->world;
  struct fake_client *who = &world->clients[client];
  int tenant = client % TENANTS;
  int64_t cell = fake_clock(world, who) / SECOND - BEGIN / SECOND;
  bool modest = hunt->all_floors || (cell * 7 + tenant * 3 + hunt->seed) % 2 == 0;
  int64_t into_us = fake_clock(world, who) % SECOND;
  int64_t number = tenants[tenant] + (tenants[tenant] == 'z' ? client / TENANTS % 3 : 0);
  bool peeks = fake_random(world, 20) == 0, between = into_us > 40000 && into_us < SECOND - 40000;
  bool leases = world->stack.rules[0].lease_us > 0;
  size_t count = 0;
  if (begin_settling(hunt, client)) return;
  bool borrows = tenants[tenant] == 'z';
  bool elsewhere = between != (hunt->mode == LOANS_BETWEEN && borrows);
  if (hunt->mode == LATE_FLOORS && !borrows) elsewhere = into_us < SECOND - 25000;
  if (hunt->mode != ANYWHERE && elsewhere && fake_random(world, 9) > 0) return;
  for (int i = 0; i < 2; i++) {
    weir_ask ask = {.kind = peeks ? WEIR_PEEK : WEIR_TAKE,
                    .cost = 1 + fake_random(world, 3),
                    .tenant_number = number,
                    .limit = limit_of(world, client)};
    ask.weight = weir_rule_weight(rule_of(hunt, client), &tenants[tenant], 1);
    if (modest && ask.weight > 0 && hunt->begun[cell][tenant] + ask.cost > floor_of(hunt, client))
      continue;
    if (leases && i > 0) {
      ask.up_to = true;
      ask.terms = WEIR_AHEAD;
    } else if (hunt->less && !peeks && fake_random(world, 3) == 0) {
      ask.up_to = true;
      if (!modest) ask.cost += fake_random(world, 20);
    }
    hunt->begun[cell][tenant] += peeks ? 0 : ask.cost;
    who->requests[count++] = (weir_claim){.ask = ask};
    if (fake_random(world, 2) == 0 || (peeks && leases)) break;
  }
  if (count > 0) fake_begin(world, who, count);
}

/* A request that died may have been charged. */
static void collect(struct hunt *hunt, const struct fake_client *who) {
  int64_t cell = who->machine->frame.now_us / SECOND - BEGIN / SECOND;
  int tenant = (int)(who - hunt->world->clients) % TENANTS;
  for (const weir_claim *claim = who->requests; claim != NULL; claim = claim->next) {
    bool decided = claim->verdict.answered && claim->verdict.status == WEIR_OK;
    if (decided && claim->ask.kind == WEIR_SETTLE && *claim->ask.settlement > 0) {
      admit(hunt, claim->verdict.decision.at_us, *claim->ask.settlement);
      hunt->settled[hunt->admitted - 1] = true;
    }
    if (claim->ask.kind != WEIR_TAKE) continue;
    hunt->asked[cell][tenant] += claim->ask.cost;
    if (weir_ask_is_ahead(&claim->ask)) {
      if (decided && claim->verdict.decision.allowed) use_lot(hunt, claim);
      continue;
    }
    const weir_decision *decision = &claim->verdict.decision;
    if (decided && (!decision->allowed || decision->cost < claim->ask.cost))
      hunt->denied[cell][tenant]++;
    if (decided && decision->allowed) admit(hunt, decision->at_us, decision->cost);
  }
}

/* Who asked for no more than its floor in a cell was denied nothing there. */
static size_t check_floors(const struct hunt *hunt) {
  size_t within = 0;
  for (int cell = 0; cell < CELLS_MOST; cell++) {
    for (int tenant = 0; tenant < TENANTS; tenant++) {
      if (hunt->asked[cell][tenant] == 0 || hunt->asked[cell][tenant] > floor_of(hunt, tenant))
        continue;
      within++;
      if (hunt->denied[cell][tenant] > 0)
        fail_msg("seed %d: %d denied within a floor", hunt->seed, hunt->denied[cell][tenant]);
    }
  }
  return within;
}

/* The most in any period of stamps. */
static int64_t most_in_period(const struct hunt *hunt, int64_t period_us) {
  int64_t most = 0;
  for (size_t i = 0; i < hunt->admitted; i++) {
    int64_t sum = 0;
    for (size_t j = 0; j < hunt->admitted; j++)
      if (hunt->stamps[j] >= hunt->stamps[i] && hunt->stamps[j] < hunt->stamps[i] + period_us)
        sum += hunt->costs[j];
    if (sum > most) most = sum;
  }
  return most;
}

static void change_rule(struct hunt *hunt, const char *rule) {
  struct fake_world *world = hunt->world;
  hunt->changed = shared_rule(rule);
  assert_int_equal(weir_machine_bytes(&hunt->changed), weir_machine_bytes(&world->stack));
  assert_string_equal(hunt->changed.rules[0].tag, world->stack.rules[0].tag);
  for (int i = 0; i < FAKE_CLIENTS_ROOM; i++)
    if (rule_of(hunt, i) == &hunt->changed.rules[0])
      weir_machine_init(world->clients[i].machine, &hunt->changed, &world->settings);
}

/* Operations of all land in any order, some late, some clients die; the clocks are apart by all that they
 * may be. */
static int64_t run(unsigned seed, const char *rule, const char *changed, bool less, int64_t *limit,
                   size_t *admitted, size_t *within) {
  struct hunt *hunt = calloc(1, sizeof *hunt);
  hunt->seed = (int)seed;
  hunt->less = less;
  hunt->all_floors = strstr(rule, "=100%") != NULL;
  hunt->mode = seed / 4 % MODES;
  hunt->world =
      open_world(rule, BEGIN + fake_random(&(struct fake_world){.seed = seed}, SECOND), seed);
  struct fake_world *world = hunt->world;
  int64_t end_us = world->now_us + 14 * SECOND;
  int busy = hunt->mode == LATE_FLOORS ? FAKE_CLIENTS_ROOM
                                       : 2 + (int)fake_random(world, FAKE_CLIENTS_ROOM - 1);
  for (int i = 0; i < FAKE_CLIENTS_ROOM; i++)
    world->clients[i].offset_us = (i % 3 - 1) * FAKE_CLOCK_ERROR_US;
  if (changed != NULL) change_rule(hunt, changed);
  while (world->now_us < end_us) {
    int i = (int)fake_random(world, busy);
    struct fake_client *who = &world->clients[i];
    if (!who->busy) {
      bool between = (world->now_us + SECOND - 200000) % SECOND < SECOND - 250000;
      if (fake_random(world, 40) == 0)
        world->now_us += fake_random(world, hunt->mode != ANYWHERE && between ? 300000 : 40000);
      begin(hunt, i);
    } else if (fake_random(world, 3000) == 0) {
      collect(hunt, who);
      fake_crash(who);
    } else {
      world->now_us += fake_random(world, fake_random(world, 400) == 0 ? 12000 : 60);
      fake_step(world, who);
      if (!who->busy) collect(hunt, who);
    }
  }
  for (int i = 0; i < FAKE_CLIENTS_ROOM; i++) /* what is on its way may be charged */
    if (world->clients[i].busy) collect(hunt, &world->clients[i]);
  int64_t most = most_in_period(hunt, world->stack.rules[0].period_us);
  *limit = largest_limit(world) + world->stack.rules[0].debt;
  if (changed != NULL && hunt->changed.rules[0].limit > *limit)
    *limit = hunt->changed.rules[0].limit;
  *admitted += hunt->admitted;
  *within += changed != NULL ? 1 : check_floors(hunt);
  fake_close(world);
  free(hunt);
  return most;
}

/* With floors of 100 % a window has room for all floors, and for little else. */
static const char *const rules[] = {
    "shared-window:100/8s,weights=a:2|b:1|c:1",
    "shared-window:200/8s,floors=90%,weights=a:5|b:2|c:1",
    "shared-window:80/8s,floors=100%,weights=a:3|b:3|c:2",
    "shared-window:84/8s,floors=100%,weights=a:3|b:3|c:2",
    "shared-window:200/8s,floors=100%,weights=a:1|b:1|c:1,others=2",
    "shared-window:200/8s,floors=60%,weights=a:1|b:1|c:1,others=5",
    "shared-window:150/8s,floors=100%,weights=a:1|b:1|c:1,most=190",
    "shared-window:160/8s,floors=90%,weights=a:1|b:1|c:1,debt=10",
    "shared-window:200/8s,floors=60%,weights=a:1|b:1|c:1,others=2,debt=60",
};
enum { RULES = sizeof rules / sizeof rules[0] };

static const char *const leased[] = {
    "shared-window:100/8s,lease=1s,weights=a:2|b:1|c:1",
    "shared-window:80/8s,floors=100%,lease=1s,weights=a:3|b:3|c:2",
    "shared-window:200/8s,floors=100%,lease=1s,weights=a:1|b:1|c:1,others=2",
    "shared-window:160/8s,floors=90%,lease=1s,weights=a:1|b:1|c:1,debt=10",
};
enum { LEASED = sizeof leased / sizeof leased[0] };

/* Before, and after a change. */
static const char *const changes[][2] = {
    {"shared-window:80/8s,floors=100%,weights=a:6|b:1|c:1",
     "shared-window:80/8s,floors=100%,weights=a:1|b:6|c:1"},
    {"shared-window:100/8s,floors=90%,weights=a:3|b:3|c:3",
     "shared-window:100/8s,floors=90%,weights=b:8|z:1"},
    {"shared-window:100/8s,floors=40%,weights=a:2|b:1|c:1",
     "shared-window:100/8s,floors=100%,weights=a:2|b:1|c:1"},
    {"shared-window:200/8s,floors=100%,weights=a:4|b:3|c:1,others=2",
     "shared-window:200/8s,floors=100%,weights=a:1|b:1,others=8"},
    {"shared-window:81/8s,floors=99%,weights=a:3|b:3|c:2",
     "shared-window:84/8s,floors=99%,weights=a:3|b:3|c:2"},
    {"shared-window:90/8s,floors=60%,weights=a:1|b:2|c:2",
     "shared-window:100/8s,floors=95%,weights=a:5|b:1|c:1"},
};
enum { CHANGES = sizeof changes / sizeof changes[0] };

/* `next` says which rule a seed has, and which one comes after it, if any does. */
static void hunt_all(const char *(*next)(int seed, bool changed), bool less) {
  size_t admitted = 0, within = 0;
  int64_t nearest = 0;
  int first = getenv("WEIR_SHARED_FIRST") != NULL ? atoi(getenv("WEIR_SHARED_FIRST")) : 1;
  int seeds = getenv("WEIR_SHARED_SEEDS") != NULL ? atoi(getenv("WEIR_SHARED_SEEDS")) : 40;
  for (int seed = first; seed < first + seeds; seed++) {
    int64_t limit, most = run((unsigned)seed, next(seed, false), next(seed, true), less, &limit,
                              &admitted, &within);
    if (most > limit) fail_msg("seed %d: %d of %d", seed, (int)most, (int)limit);
    if (most * 100 / limit > nearest) nearest = most * 100 / limit;
  }
  print_message("%zu admitted, at most %d %% of the limit, %zu times within a floor\n", admitted,
                (int)nearest, within);
  assert_true(within > 0);
  assert_true(nearest >= 85);
}

static const char *rule_at(int seed, bool changed) {
  return changed ? NULL : rules[seed % RULES];
}

static const char *leased_at(int seed, bool changed) {
  return changed ? NULL : leased[seed % LEASED];
}

static const char *change_at(int seed, bool changed) {
  return changes[seed % CHANGES][changed];
}

static void is_never_over_its_limit_nor_denies_a_floor(void **state) {
  (void)state;
  hunt_all(rule_at, false);
}

static void is_never_over_with_lots_nor_denies_a_floor(void **state) {
  (void)state;
  hunt_all(leased_at, false);
}

static void is_never_over_while_a_rule_changes(void **state) {
  (void)state;
  hunt_all(change_at, false);
}

static void is_never_over_where_less_is_welcome(void **state) {
  (void)state;
  hunt_all(rule_at, true);
}

static void is_never_over_where_less_is_welcome_and_a_rule_changes(void **state) {
  (void)state;
  hunt_all(change_at, true);
}

/* --- fairness -----------------------------------------------------------------------------------
 *
 * Decisions of four processes, one after another and in virtual time: three minutes of a pool of 6000/1m.
 */

enum { PROCESSES = 4, PAIR = 2, PAIR_CELLS = 180 };

struct pair {
  struct fake_world *world;
  int64_t asked[PAIR_CELLS][PAIR], got[PAIR_CELLS][PAIR];
  int64_t decisions, operations;
};

static void ask(struct pair *pair, int tenant) {
  struct fake_world *world = pair->world;
  struct fake_client *who = &world->clients[fake_random(world, PROCESSES) * PAIR + tenant];
  int64_t cell = (world->now_us - BEGIN) / SECOND;
  who->requests[0] = (weir_claim){.ask = {.cost = 1, .tenant_number = 1 + tenant, .weight = 1}};
  fake_begin(world, who, 1);
  while (who->busy) {
    pair->operations += (int64_t)who->machine->frame.operation_count;
    fake_finish_round(world, who);
  }
  pair->decisions++;
  pair->asked[cell][tenant]++;
  pair->got[cell][tenant] += who->requests[0].verdict.decision.allowed;
}

/* From the second minute on. */
static int64_t sum(int64_t counts[PAIR_CELLS][PAIR], int tenant) {
  int64_t all = 0;
  for (int cell = 60; cell < PAIR_CELLS; cell++)
    all += counts[cell][tenant];
  return all;
}

/* a asks for 300 % of the limit, b for 40 % of its half. Max-min fairness gives b all and a the rest. */
static void who_asks_for_little_gets_it_and_the_greedy_the_rest(void **state) {
  (void)state;
  struct pair *pair = calloc(1, sizeof *pair);
  pair->world = open_world("shared-window:6000/1m,floors=80%,weights=a:1|b:1", BEGIN, 7);
  while (pair->world->now_us < BEGIN + PAIR_CELLS * SECOND - 7000) {
    pair->world->now_us += fake_random(pair->world, 6250); /* 320 a second, in all */
    ask(pair, fake_random(pair->world, 16) == 0);
  }
  int64_t limit = 2 * 6000, b = sum(pair->asked, 1);
  int64_t used = 100 * (sum(pair->got, 0) + sum(pair->got, 1)) / limit;
  print_message("b got %d of %d, %d %% of the limit was used, %.2f operations a decision\n",
                (int)sum(pair->got, 1), (int)b, (int)used,
                (double)pair->operations / (double)pair->decisions);
  assert_true(sum(pair->got, 1) * 100 >= b * 99);
  assert_in_range(used, 96, 100);
  assert_true(pair->operations * 10 <= pair->decisions * 22);
  fake_close(pair->world);
  free(pair);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lends_what_all_floors_leave),
      cmocka_unit_test(steps_to_the_level_that_fills_the_limit),
      cmocka_unit_test(a_floor_needs_two_additions_and_nothing_else),
      cmocka_unit_test(what_is_above_the_floor_moves_to_what_is_lent),
      cmocka_unit_test(a_wrong_guess_costs_one_round),
      cmocka_unit_test(a_lone_tenant_borrows_all_that_no_floor_needs),
      cmocka_unit_test(who_has_no_floor_only_borrows),
      cmocka_unit_test(has_a_floor_once_it_was_seen),
      cmocka_unit_test(a_stopped_tenant_is_told_once),
      cmocka_unit_test(who_was_stopped_is_let_go_once_a_cell_is_final),
      cmocka_unit_test(what_is_denied_goes_back),
      cmocka_unit_test(who_is_told_to_wait_has_it_at_last),
      cmocka_unit_test(what_is_content_with_less_has_its_floor),
      cmocka_unit_test(so_has_one_who_is_not_named),
      cmocka_unit_test(a_peek_beside_a_take_finds_what_it_finds_alone),
      cmocka_unit_test(a_take_is_not_denied_for_one_that_is_denied),
      cmocka_unit_test(a_peek_beside_a_floor_costs_no_round),
      cmocka_unit_test(floors_become_larger_a_period_after_the_room),
      cmocka_unit_test(other_weights_have_what_floors_leave),
      cmocka_unit_test(what_asks_for_all_has_what_a_peek_finds),
      cmocka_unit_test(two_who_are_first_in_two_periods_agree),
      cmocka_unit_test(what_was_too_much_goes_back_where_it_counts),
      cmocka_unit_test(what_only_floors_were_charged_goes_back_from_them),
      cmocka_unit_test(what_goes_back_in_part_is_not_told_as_done),
      cmocka_unit_test(what_was_too_little_is_lent),
      cmocka_unit_test(keeps_room_for_floors_on_their_way_to_the_last_cell),
      cmocka_unit_test(lends_what_a_floor_has_left_once_that_is_final),
      cmocka_unit_test(reads_a_cell_anew_that_was_not_final),
      cmocka_unit_test(reads_a_cell_anew_of_which_a_part_is_missing),
      cmocka_unit_test(sees_what_is_lent_in_the_cell_ahead),
      cmocka_unit_test(reads_what_is_lent_there_behind_its_own_addition),
      cmocka_unit_test(admits_nothing_by_a_late_answer),
      cmocka_unit_test(who_asks_for_little_gets_it_and_the_greedy_the_rest),
      cmocka_unit_test(is_never_over_its_limit_nor_denies_a_floor),
      cmocka_unit_test(is_never_over_with_lots_nor_denies_a_floor),
      cmocka_unit_test(is_never_over_while_a_rule_changes),
      cmocka_unit_test(is_never_over_where_less_is_welcome),
      cmocka_unit_test(is_never_over_where_less_is_welcome_and_a_rule_changes),
  };
  if (getenv("WEIR_SHARED_SEEDS") != NULL) cmocka_set_test_filter("is_never_*");
  return cmocka_run_group_tests(tests, NULL, NULL);
}

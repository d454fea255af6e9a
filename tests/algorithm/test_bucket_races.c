/* Random interleavings of processes whose clocks differ: one operation of one of them lands, time
 * goes on, one takes its answers in. Whatever happens, no interval may hold more than is promised.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <inttypes.h>
#include <stdio.h>

#include <cmocka.h>

#include "test_bucket_store.h"

__extension__ typedef __int128 wide;

enum {
  PROCESSES = 3,
  ADMITTED_MOST = 2048,
  OWED_MOST = 2048,
  RULES_MOST = 2,
  RACES = 400,
  DEADLINE_US = 20000,
  LONGEST_WAIT_US = 30000,
  SKEW_US = 10000
};
#define START_US INT64_C(1700000000000000)

struct scene {
  const char *rules;
  unsigned traits;
  bool hides_versions;
  bool waits;      /* some requests accept a delay */
  bool gives_back; /* some are refunded or cancelled */
  bool faults;     /* answers are lost or late, operations are not sent, a process stops */
  bool rolls;      /* an epoch begins meanwhile */
  int64_t skew_us; /* furthest that a clock is from real time */
  int64_t start_us;
  int64_t length_us;
};

/* Who was admitted, by its own clock. */
struct admitted {
  int64_t cost, at_us, start_us;
  int64_t ends[WEIR_RULES_MOST];
  bool given_back;
};

/* What was charged without being admitted, or is being given back, from one step to another: P. */
struct owed {
  size_t rule;
  int64_t cost;
  int64_t from_step, to_step;
};

struct process {
  struct client client;
  int64_t offset_us;
  int64_t deadline_us;
  int64_t charged[RULES_MOST]; /* landed, not decided */
  int64_t first_step;          /* when the first of it landed */
  int64_t ends[CLIENT_ASKS_MOST][WEIR_RULES_MOST];
  bool stopped, lost;
};

struct race {
  const struct scene *scene;
  unsigned first_seed, seed;
  weir_stack stack;
  struct toy_store store;
  struct process processes[PROCESSES];
  struct admitted admitted[ADMITTED_MOST];
  struct owed owed[OWED_MOST];
  size_t admitted_count, owed_count;
  int64_t real_us, step;
  int64_t patience_us; /* until a deadline */
  int64_t rest;        /* about as many steps between two requests of a process */
};

/* Over all races of a test, so that none of it passes for lack of what it tries. */
struct tally {
  unsigned admitted, denied, delayed, conflicts, overshoots, given_back, lost, late, handovers;
};

static int64_t random_to(struct race *race, int64_t most) {
  return most <= 0 ? 0 : rand_r(&race->seed) % (most + 1);
}

static bool one_in(struct race *race, int64_t count) {
  return random_to(race, count - 1) == 0;
}

static int64_t clock_of(const struct race *race, const struct process *process) {
  return race->real_us + process->offset_us;
}

/* --- what is owed ------------------------------------------------------------------------------
 */

static struct owed *owe(struct race *race, size_t rule, int64_t cost, int64_t from_step) {
  assert_true(race->owed_count < OWED_MOST);
  struct owed *owed = &race->owed[race->owed_count++];
  *owed = (struct owed){rule, cost, from_step, INT64_MAX};
  return owed;
}

/* What a process took back it owes no more, if the store confirmed it. */
static void pay_back(struct race *race, const struct process *process) {
  for (size_t i = 0; i < race->owed_count && !process->lost; i++) {
    struct owed *owed = &race->owed[i];
    if (owed->from_step == process->first_step && owed->to_step == INT64_MAX)
      owed->to_step = race->step;
  }
}

/* Most that was owed at one time. */
static int64_t most_owed(const struct race *race, size_t rule) {
  int64_t most = 0;
  for (size_t i = 0; i < race->owed_count; i++) {
    int64_t sum = 0;
    int64_t step = race->owed[i].from_step;
    for (size_t j = 0; j < race->owed_count; j++) {
      const struct owed *owed = &race->owed[j];
      if (owed->rule == rule && owed->from_step <= step && step <= owed->to_step) sum += owed->cost;
    }
    if (sum > most) most = sum;
  }
  return most;
}

/* --- steps -------------------------------------------------------------------------------------
 */

static void begin_takes(struct race *race, struct process *process) {
  struct client *client = &process->client;
  int64_t capacity = weir_stack_least_capacity(&race->stack);
  size_t count = one_in(race, 4) ? 2 : 1;
  for (size_t i = 0; i < count; i++) {
    int64_t most = count == 1 && one_in(race, 3) ? capacity : (capacity + 2) / 3;
    client->asks[i] = (weir_ask){.kind = WEIR_ASK_TAKE,
                                 .cost = 1 + random_to(race, most - 1),
                                 .up_to = one_in(race, 5),
                                 .ends = process->ends[i],
                                 .waits = race->scene->waits && !one_in(race, 3),
                                 .wait_us = random_to(race, LONGEST_WAIT_US)};
  }
  client_start(client, clock_of(race, process), count);
}

/* One of the last four that were admitted and have not begun, or had no delay. */
static bool begin_giving_back(struct race *race, struct process *process) {
  int64_t among = race->admitted_count < 4 ? (int64_t)race->admitted_count : 4;
  if (among == 0) return false;
  size_t from_last = (size_t)random_to(race, among - 1);
  struct admitted *taken = &race->admitted[race->admitted_count - 1 - from_last];
  bool delayed = taken->start_us > taken->at_us;
  if (taken->given_back || (delayed && clock_of(race, process) >= taken->start_us)) return false;
  taken->given_back = true;
  process->client.asks[0] = (weir_ask){.kind = WEIR_ASK_REFUND,
                                       .cost = taken->cost,
                                       .at_us = taken->at_us,
                                       .ends = delayed || one_in(race, 2) ? taken->ends : NULL};
  process->first_step = race->step;
  owe(race, 0, taken->cost, race->step);
  client_start(&process->client, clock_of(race, process), 1);
  return true;
}

static void begin(struct race *race, struct process *process) {
  process->lost = false;
  process->deadline_us = race->real_us + race->patience_us;
  if (race->scene->gives_back && one_in(race, 3) && begin_giving_back(race, process)) return;
  begin_takes(race, process);
}

static void land(struct race *race, struct process *process) {
  struct client *client = &process->client;
  const weir_action *action = &client->machine->actions[client->landed];
  size_t landed = client->landed;
  client_land(client, &race->store);
  if (client->landed == landed || action->outcome != WEIR_DONE || action->kind != WEIR_RAISE ||
      client->machine->phase != WEIR_PHASE_CHARGE)
    return;
  if (process->charged[0] == 0 && process->charged[1] == 0) process->first_step = race->step;
  process->charged[action->rule] = client->machine->parts[action->rule].charge;
}

/* The answer never comes, whether the operation is executed, half executed, or not at all. */
static void lose(struct race *race, struct process *process, struct tally *tally) {
  struct client *client = &process->client;
  size_t lost = client->landed;
  weir_action *action = &client->machine->actions[lost];
  int64_t how = random_to(race, 3);
  if (how <= 1) client_land(client, &race->store);
  if (how == 0 && client->landed == lost) client_land(client, &race->store);
  client->raised = false;
  client->landed = lost + 1;
  action->outcome = how < 3 ? WEIR_UNKNOWN : WEIR_NOT_SENT;
  process->lost = true;
  tally->lost++;
}

static int64_t admitted_of(const struct client *client) {
  int64_t sum = 0;
  for (const weir_ask *ask = client->asks; ask != NULL; ask = ask->next)
    if (ask->kind == WEIR_ASK_TAKE && ask->settled && ask->status == WEIR_OK &&
        ask->decision.allowed)
      sum += ask->decision.cost;
  return sum;
}

static void collect(struct race *race, struct process *process, struct tally *tally) {
  for (weir_ask *ask = process->client.asks; ask != NULL; ask = ask->next) {
    const weir_decision *decision = &ask->decision;
    bool took = ask->kind == WEIR_ASK_TAKE && ask->status == WEIR_OK;
    tally->late += ask->status == WEIR_TIMEOUT;
    tally->denied += took && !decision->allowed;
    tally->given_back += ask->kind == WEIR_ASK_REFUND && ask->status == WEIR_OK;
    if (!took || !decision->allowed) continue;
    assert_true(race->admitted_count < ADMITTED_MOST);
    struct admitted *admitted = &race->admitted[race->admitted_count++];
    *admitted = (struct admitted){.cost = decision->cost,
                                  .at_us = decision->at_us,
                                  .start_us = decision->at_us + decision->delay_us};
    memcpy(admitted->ends, ask->ends, sizeof admitted->ends);
    tally->admitted++;
    tally->delayed += decision->delay_us > 0;
  }
}

/* What was charged and is not admitted denies others until it is back. */
static void owe_overshoot(struct race *race, struct process *process, struct tally *tally) {
  for (size_t i = 0; i < race->stack.count; i++) {
    int64_t over = process->charged[i] - admitted_of(&process->client);
    if (process->charged[i] > 0 && over > 0) {
      owe(race, i, over, process->first_step);
      tally->overshoots++;
    }
    process->charged[i] = 0;
  }
}

static void absorb(struct race *race, struct process *process, struct tally *tally) {
  struct client *client = &process->client;
  bool late = race->real_us > process->deadline_us;
  client->landed = 0;
  client->turn = weir_machine_resume(client->machine, clock_of(race, process), late);
  client_keep(client);
  bool charges = client->turn == WEIR_TURN_EXECUTE && client->machine->phase == WEIR_PHASE_CHARGE;
  if (!charges) owe_overshoot(race, process, tally);
  tally->handovers += charges && client->machine->action_count > 1 && race->scene->rolls;
  tally->conflicts += client->turn == WEIR_TURN_PAUSE;
  if (client->turn != WEIR_TURN_DONE) return;
  collect(race, process, tally);
  if (client->asks[0].kind == WEIR_ASK_REFUND) pay_back(race, process);
}

static void move(struct race *race, struct process *process, struct tally *tally) {
  struct client *client = &process->client;
  if (process->stopped) return;
  if (client->turn == WEIR_TURN_DONE) {
    if (one_in(race, race->rest)) begin(race, process);
  } else if (client->turn == WEIR_TURN_PAUSE || client->landed == client->machine->action_count) {
    absorb(race, process, tally);
  } else {
    if (race->scene->faults && one_in(race, 60))
      lose(race, process, tally);
    else
      land(race, process);
    if (client->machine->phase == WEIR_PHASE_TAKE_BACK &&
        client->landed == client->machine->action_count)
      pay_back(race, process);
  }
  if (race->scene->faults && one_in(race, 3000)) process->stopped = true;
}

/* --- what must hold ----------------------------------------------------------------------------
 */

static int by_start(const void *left, const void *right) {
  const struct admitted *a = left;
  const struct admitted *b = right;
  return (a->start_us > b->start_us) - (a->start_us < b->start_us);
}

/* Any interval of start times: B + (t + slack) * L/W + P; from a leaky bucket the last of them may
 * begin when those before it have drained. */
static void check_bound(const struct race *race, size_t rule_index, int64_t slack_us) {
  const weir_rule *rule = &race->stack.rules[rule_index];
  bool leaky = rule->kind == WEIR_LEAKY_BUCKET;
  bool swaps = race->scene->traits & WEIR_TRAIT_SWAP;
  wide most = (wide)(leaky ? 0 : rule->burst) * rule->token_units;
  if (!swaps && !leaky) most += (wide)most_owed(race, rule_index) * rule->token_units;
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

static void run_race(const struct scene *scene, unsigned seed, struct tally *tally) {
  struct race race = {.scene = scene, .first_seed = seed, .seed = seed};
  race.stack = stack_of(scene->rules);
  race.store = (struct toy_store){.hides_versions = scene->hides_versions, .splits_raises = true};
  race.real_us = scene->start_us;
  race.patience_us = scene->faults && one_in(&race, 2) ? DEADLINE_US / 8 : DEADLINE_US;
  race.rest = one_in(&race, 2) ? 3 : 100;
  for (int i = 0; i < PROCESSES; i++) {
    struct process *process = &race.processes[i];
    process->client = client_of(&race.stack, scene->traits);
    process->client.terms.clock_error_us = scene->skew_us;
    process->client.terms.margin_us = 2 * scene->skew_us + DEADLINE_US;
    process->client.terms.longest_wait_us = LONGEST_WAIT_US;
    process->offset_us = random_to(&race, 2 * scene->skew_us) - scene->skew_us;
  }
  for (; race.real_us < scene->start_us + scene->length_us; race.step++) {
    if (one_in(&race, 5)) race.real_us += random_to(&race, 1000);
    move(&race, &race.processes[random_to(&race, PROCESSES - 1)], tally);
  }
  qsort(race.admitted, race.admitted_count, sizeof race.admitted[0], by_start);
  for (size_t i = 0; i < race.stack.count; i++)
    check_bound(&race, i, slack_of(scene));
  for (int i = 0; i < PROCESSES; i++)
    client_free(&race.processes[i].client);
}

/* With one clock for all, which allows no slack, and with clocks that differ. */
static struct tally run_races(struct scene scene) {
  struct tally tally = {0};
  if (scene.start_us == 0) scene.start_us = START_US;
  if (scene.length_us == 0) scene.length_us = 60000;
  for (unsigned seed = 1; seed <= RACES; seed++) {
    scene.skew_us = seed % 2 == 0 ? SKEW_US : 0;
    run_race(&scene, seed, &tally);
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

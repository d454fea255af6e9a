#include "test_bucket_race.h"

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

/* A process owes no more what it took back, if the store confirmed it. */
static void pay_back(struct race *race, const struct process *process) {
  for (size_t i = 0; i < race->owed_count && !process->lost; i++) {
    struct owed *owed = &race->owed[i];
    if (owed->from_step == process->first_step && owed->to_step == INT64_MAX)
      owed->to_step = race->step;
  }
}

int64_t race_most_owed(const struct race *race, size_t rule) {
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
    client->requests[i] = (weir_claim){.ask = {.kind = WEIR_TAKE,
                                               .cost = 1 + random_to(race, most - 1),
                                               .up_to = one_in(race, 5),
                                               .ends = process->ends[i],
                                               .waits = race->scene->waits && !one_in(race, 3),
                                               .wait_us = random_to(race, LONGEST_WAIT_US)}};
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
  process->client.requests[0] =
      (weir_claim){.ask = {.kind = WEIR_REFUND,
                           .cost = taken->cost,
                           .at_us = taken->at_us,
                           .ends = delayed || one_in(race, 2) ? taken->ends : NULL}};
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
  const weir_operation *operation = &client->machine->frame.operations[client->landed];
  size_t landed = client->landed;
  client_land(client, &race->store);
  if (client->landed == landed || operation->outcome != WEIR_DONE ||
      operation->kind != WEIR_RAISE || client->machine->frame.phase != WEIR_PHASE_CHARGE)
    return;
  if (process->charged[0] == 0 && process->charged[1] == 0) process->first_step = race->step;
  process->charged[operation->counter.rule] =
      client->machine->rule_states[operation->counter.rule].charge;
}

/* The answer never comes, whether the operation is executed, half executed, or not at all. */
static void lose(struct race *race, struct process *process, struct tally *tally) {
  struct client *client = &process->client;
  size_t lost = client->landed;
  weir_operation *operation = &client->machine->frame.operations[lost];
  int64_t how = random_to(race, 3);
  if (how <= 1) client_land(client, &race->store);
  if (how == 0 && client->landed == lost) client_land(client, &race->store);
  client->raised = false;
  client->landed = lost + 1;
  operation->outcome = how < 3 ? WEIR_UNKNOWN : WEIR_NOT_SENT;
  process->lost = true;
  tally->lost++;
}

static int64_t admitted_of(const struct client *client) {
  int64_t sum = 0;
  for (const weir_claim *request = client->requests; request != NULL; request = request->next)
    if (request->ask.kind == WEIR_TAKE && request->verdict.answered &&
        request->verdict.status == WEIR_OK && request->verdict.decision.allowed)
      sum += request->verdict.decision.cost;
  return sum;
}

static void collect(struct race *race, struct process *process, struct tally *tally) {
  for (weir_claim *request = process->client.requests; request != NULL; request = request->next) {
    const weir_decision *decision = &request->verdict.decision;
    bool took = request->ask.kind == WEIR_TAKE && request->verdict.status == WEIR_OK;
    tally->late += request->verdict.status == WEIR_TIMEOUT;
    tally->denied += took && !decision->allowed;
    tally->given_back += request->ask.kind == WEIR_REFUND && request->verdict.status == WEIR_OK;
    if (!took || !decision->allowed) continue;
    assert_true(race->admitted_count < ADMITTED_MOST);
    struct admitted *admitted = &race->admitted[race->admitted_count++];
    *admitted = (struct admitted){.cost = decision->cost,
                                  .at_us = decision->at_us,
                                  .start_us = decision->at_us + decision->delay_us};
    memcpy(admitted->ends, request->ask.ends, sizeof admitted->ends);
    tally->admitted++;
    tally->delayed += decision->delay_us > 0;
  }
}

/* A charge that is not admitted denies others until it is back. */
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
  client->turn =
      weir_machine_resume(client->machine, clock_of(race, process), late, client->operations);
  client_keep(client);
  bool charges =
      client->turn == WEIR_TURN_EXECUTE && client->machine->frame.phase == WEIR_PHASE_CHARGE;
  if (!charges) owe_overshoot(race, process, tally);
  tally->handovers += charges && client->machine->frame.operation_count > 1 && race->scene->rolls;
  tally->conflicts += client->turn == WEIR_TURN_PAUSE;
  if (client->turn != WEIR_TURN_DONE) return;
  collect(race, process, tally);
  if (client->requests[0].ask.kind == WEIR_REFUND) pay_back(race, process);
}

static void move(struct race *race, struct process *process, struct tally *tally) {
  struct client *client = &process->client;
  if (process->stopped) return;
  if (client->turn == WEIR_TURN_DONE) {
    if (one_in(race, race->rest)) begin(race, process);
  } else if (client->turn == WEIR_TURN_PAUSE ||
             client->landed == client->machine->frame.operation_count) {
    absorb(race, process, tally);
  } else {
    if (race->scene->faults && one_in(race, 60))
      lose(race, process, tally);
    else
      land(race, process);
    if (client->machine->frame.phase == WEIR_PHASE_TAKE_BACK &&
        client->landed == client->machine->frame.operation_count)
      pay_back(race, process);
  }
  if (race->scene->faults && one_in(race, 3000)) process->stopped = true;
}

/* --- from start to end -------------------------------------------------------------------------
 */

static int by_start(const void *left, const void *right) {
  const struct admitted *a = left;
  const struct admitted *b = right;
  return (a->start_us > b->start_us) - (a->start_us < b->start_us);
}

static void open_process(struct race *race, struct process *process) {
  const struct scene *scene = race->scene;
  process->client = client_of(&race->stack, scene->traits);
  process->client.settings.clock_error_us = scene->skew_us;
  weir_settings_set_margins(&process->client.settings, DEADLINE_US);
  process->client.settings.longest_wait_us = LONGEST_WAIT_US;
  process->client.settings.processes = PROCESSES;
  process->offset_us = random_to(race, 2 * scene->skew_us) - scene->skew_us;
}

struct race *race_run(const struct scene *scene, unsigned seed, struct tally *tally) {
  struct race *race = calloc(1, sizeof *race);
  race->scene = scene;
  race->first_seed = race->seed = seed;
  race->stack = stack_of(scene->rules);
  race->store.hides_versions = scene->hides_versions;
  race->store.splits_raises = true;
  race->real_us = scene->start_us;
  race->patience_us = scene->faults && one_in(race, 2) ? DEADLINE_US / 8 : DEADLINE_US;
  race->rest = one_in(race, 2) ? 3 : 100;
  for (int i = 0; i < PROCESSES; i++)
    open_process(race, &race->processes[i]);
  for (; race->real_us < scene->start_us + scene->length_us; race->step++) {
    if (one_in(race, 5)) race->real_us += random_to(race, 1000);
    move(race, &race->processes[random_to(race, PROCESSES - 1)], tally);
  }
  qsort(race->admitted, race->admitted_count, sizeof race->admitted[0], by_start);
  return race;
}

void race_free(struct race *race) {
  for (int i = 0; i < PROCESSES; i++)
    client_free(&race->processes[i].client);
  free(race);
}

/* Clients, time and faults: which steps may come next, and what each does. */
#include <string.h>

#include "model.h"
#include "mutants.h"

/* A leader, a late clock, and one that is right. */
static const int64_t offsets_us[CLIENTS_MOST] = {SKEW_US, -SKEW_US, 0};

/* --- time --------------------------------------------------------------------------------------
 */

int64_t world_real_us(const struct model *model) {
  return model->edge_us + model->scope->instants_us[model->world->instant];
}

int world_client_number(const struct model *model, const struct client *client) {
  return (int)(client - model->world->clients);
}

int64_t world_clock_us(const struct model *model, const struct client *client) {
  return world_real_us(model) + offsets_us[world_client_number(model, client)];
}

static bool has_more_time(const struct model *model) {
  const int64_t *instants = model->scope->instants_us;
  int64_t next = model->world->instant + 1;
  return next < INSTANTS_MOST && instants[next] > instants[next - 1];
}

/* --- requests ----------------------------------------------------------------------------------
 */

static const struct request *next_request(const struct model *model, const struct client *client) {
  if (client->crashed || client->next_request == REQUESTS_MOST) return NULL;
  const struct request *request =
      &model->requests[world_client_number(model, client)][client->next_request];
  return request->costs[0] != 0 ? request : NULL;
}

/* A cell that was finished by this client's clock when its last request ended may be remembered as
 * it was then; all others are seen anew. */
static void look(const struct model *model, struct client *client) {
  for (int i = 0; i < (int)model->stack.count; i++) {
    int64_t width = model->stack.rules[i].cell_us;
    for (int slot = 0; slot < CELLS_MOST; slot++) {
      bool kept = (model->first_cell[i] + slot + 1) * width + MARGIN_US <= client->round_us;
      int32_t now = model->world->shadow[i][slot];
      if (!kept || now > client->seen[i][slot]) client->seen[i][slot] = now > 0 ? now : 0;
    }
  }
}

static void begin_round(const struct model *model, struct client *client) {
  int64_t real = world_real_us(model);
  client->landed = 0;
  client->lands_by_us = real > client->deadline_us ? real : client->deadline_us;
  if (client->machine->phase != WEIR_PHASE_TAKE_BACK)
    client->round_us = world_clock_us(model, client);
}

/* Forgets all that can have no effect any more, so that runs which differ in nothing else meet. */
static void rest(const struct model *model, struct client *client) {
  memset(client->machine, 0, weir_machine_bytes(&model->stack));
  memset(client->asks, 0, sizeof client->asks);
  memset(client->charged, 0, sizeof client->charged);
  memset(client->charged_cell, 0, sizeof client->charged_cell);
  client->deadline_us = client->lands_by_us = 0;
  client->landed = 0;
  client->busy = client->late = client->lost = false;
  bool over = next_request(model, client) == NULL;
  if (over) memset(client->memo, 0, weir_memo_bytes(&model->stack));
  if (over || !(model->scope->flags & (CACHED_CELLS | LOCAL_DENIAL))) {
    memset(client->seen, 0, sizeof client->seen);
    client->round_us = client->denied_us = 0;
  }
}

/* The caller has its answer; what the others of its group need to know is whether it was admitted.
 */
static void deliver(weir_ask *ask) {
  bool allowed = ask->decision.allowed;
  memset(&ask->decision, 0, sizeof ask->decision);
  ask->decision.allowed = allowed;
}

static void start(struct model *model, struct client *client) {
  const struct request *request = next_request(model, client);
  int64_t clock = world_clock_us(model, client);
  weir_ask *group = NULL;
  weir_ask **end = &group;
  client->next_request++;
  if (model->mutant->misremember != NULL) model->mutant->misremember(model, client->memo);
  for (int i = 0; i < GROUP_MOST; i++)
    client->asks[i].cost = request->costs[i];
  story_start(model, client);
  for (int i = 0; i < GROUP_MOST && request->costs[i] != 0; i++) {
    weir_ask *ask = &client->asks[i];
    if (weir_settle_locally(&model->stack, &model->terms, client->memo, clock, ask)) {
      check_repeated(model, client, ask, clock);
      story_decision(model, client, ask, clock);
      deliver(ask);
    } else {
      *end = ask;
      end = &ask->next;
    }
  }
  if (group == NULL) {
    rest(model, client);
    return;
  }
  look(model, client);
  client->busy = true;
  client->deadline_us = world_real_us(model) + DEADLINE_US;
  weir_machine_init(client->machine, &model->stack, &model->terms);
  weir_machine_start(client->machine, clock, client->memo, group);
  begin_round(model, client);
}

static struct sent next_operation(const struct model *model, const struct client *client,
                                  size_t *index) {
  size_t (*reorder)(const weir_machine *, size_t) = model->mutant->reorder;
  size_t landed = (size_t)client->landed;
  *index = reorder != NULL ? reorder(client->machine, landed) : landed;
  struct sent sent = {.action = client->machine->actions[*index]};
  int rule = (int)sent.action.rule;
  sent.cell = sent.action.kind == WEIR_SUB ? client->charged_cell[rule]
                                           : store_cell_of(model, rule, client->round_us);
  return sent;
}

static void land(struct model *model, struct client *client) {
  size_t index;
  struct sent sent = next_operation(model, client, &index);
  if (model->mutant->rewrite != NULL) model->mutant->rewrite(model, client, &sent.action);
  store_execute(model, client, &sent);
  if (model->mutant->distort != NULL) model->mutant->distort(&sent.action);
  client->machine->actions[index].outcome = sent.action.outcome;
  client->machine->actions[index].value = sent.action.value;
  client->landed++;
  story_tell(model, "client %d: ", world_client_number(model, client));
  story_operation(model, &sent);
}

static void absorb(struct model *model, struct client *client) {
  bool settled[GROUP_MOST];
  bool charged = client->machine->phase == WEIR_PHASE_CHARGE;
  int64_t stamp = client->round_us;
  bool late = world_real_us(model) > client->deadline_us && !model->mutant->never_late;
  for (int i = 0; i < GROUP_MOST; i++)
    settled[i] = client->asks[i].settled;
  story_tell(model, "client %d has its answers%s", world_client_number(model, client),
             late ? ", late" : "");
  client->late = client->late || late;
  weir_turn turn = weir_machine_resume(client->machine, world_clock_us(model, client), late);
  for (int i = 0; i < GROUP_MOST; i++) {
    if (!client->asks[i].settled || settled[i]) continue;
    check_decision(model, client, &client->asks[i], stamp, charged);
    story_decision(model, client, &client->asks[i], stamp);
    deliver(&client->asks[i]);
  }
  if (turn == WEIR_TURN_EXECUTE) {
    begin_round(model, client);
    return;
  }
  for (int i = 0; i < GROUP_MOST; i++)
    if (client->asks[i].cost != 0 && !client->asks[i].settled)
      check_fails(model, CHECK_STATUS, "a machine is done and left %d without an answer", i);
  memcpy(client->memo, client->machine->notes, weir_memo_bytes(&model->stack));
  rest(model, client);
}

/* --- faults ------------------------------------------------------------------------------------
 */

/* What the client has charged, or is about to take back, may stay for ever. */
static void excuse(struct world *world, const struct client *client) {
  for (int i = 0; i < RULES_MOST; i++)
    world->leak[i] += client->charged[i];
}

static void crash(struct model *model, struct client *client) {
  excuse(model->world, client);
  model->world->crashed = true;
  story_tell(model, "client %d stops for ever", world_client_number(model, client));
  client->crashed = true;
  rest(model, client);
}

/* This operation and the rest of the round get no answer; this one may still land. */
static void lose(struct model *model, struct client *client, weir_outcome outcome) {
  size_t index;
  struct sent sent = next_operation(model, client, &index);
  weir_machine *machine = client->machine;
  story_tell(model, "client %d: no answer to ", world_client_number(model, client));
  story_operation(model, &sent);
  if (machine->phase == WEIR_PHASE_TAKE_BACK) excuse(model->world, client);
  if (!model->mutant->resends) {
    for (; index < machine->action_count; index++)
      machine->actions[index].outcome = outcome;
    client->landed = (int32_t)machine->action_count;
  }
  client->lost = true;
  if (outcome == WEIR_NOT_SENT) return;
  model->world->lost = true;
  if (sent.action.kind == WEIR_GET) return;
  model->world->orphan = sent;
  model->world->has_orphan = true;
  if (sent.action.kind != WEIR_ADD) return;
  const weir_rule *rule = &model->stack.rules[sent.action.rule];
  model->world->leak[sent.action.rule] +=
      sent.action.delta >> (rule->lane_bits * (int)(sent.cell % rule->lanes));
}

static void land_orphan(struct model *model) {
  struct world *world = model->world;
  story_tell(model, "the operation without an answer lands: ");
  store_execute(model, NULL, &world->orphan);
  story_operation(model, &world->orphan);
  memset(&world->orphan, 0, sizeof world->orphan);
  world->has_orphan = false;
}

static void evict(struct model *model, int rule, int counter) {
  int lanes = model->stack.rules[rule].lanes;
  story_tell(model, "the store loses counter %lld of rule %d",
             (long long)(model->first_cell[rule] / lanes + counter), rule);
  store_evict(model, rule, counter);
}

/* --- steps -------------------------------------------------------------------------------------
 */

static size_t client_steps(const struct model *model, int who, struct step *steps) {
  const struct world *world = model->world;
  const struct client *client = &world->clients[who];
  unsigned flags = model->scope->flags;
  size_t count = 0;
  if (!client->busy) {
    if (next_request(model, client) != NULL) steps[count++] = (struct step){START, who, 0};
    return count;
  }
  if (client->landed == (int32_t)client->machine->action_count) {
    steps[count++] = (struct step){ABSORB, who, 0};
  } else {
    bool after = world_real_us(model) > client->deadline_us;
    steps[count++] = (struct step){LAND, who, 0};
    if (flags & LOSS && !world->lost) steps[count++] = (struct step){LOSES, who, 0};
    if (after && client->machine->phase == WEIR_PHASE_TAKE_BACK)
      steps[count++] = (struct step){NOT_SENT, who, 0};
  }
  if (flags & CRASH && !world->crashed) steps[count++] = (struct step){CRASHES, who, 0};
  return count;
}

/* Time waits for operations that must land in time. */
static bool may_tick(const struct model *model) {
  if (!has_more_time(model)) return false;
  int64_t next = model->edge_us + model->scope->instants_us[model->world->instant + 1];
  for (int i = 0; i < CLIENTS_MOST && !(model->scope->flags & OVERDUE); i++) {
    const struct client *client = &model->world->clients[i];
    if (client->busy && client->landed < (int32_t)client->machine->action_count &&
        client->lands_by_us < next)
      return false;
  }
  return true;
}

/* Absorbing what was charged or taken back touches nothing that others see, and reads the clock
 * only to know whether it is late: where neither lateness nor a crash can come in between, it may
 * as well happen at once. */
static bool may_hurry(const struct model *model, const struct client *client) {
  return !(model->scope->flags & (LATE | OVERDUE | CRASH)) && client->busy &&
         client->landed == (int32_t)client->machine->action_count &&
         client->machine->phase != WEIR_PHASE_PEEK;
}

size_t world_steps(const struct model *model, struct step steps[STEPS_MOST]) {
  const struct world *world = model->world;
  size_t count = 0;
  for (int i = 0; i < CLIENTS_MOST; i++) {
    if (!may_hurry(model, &world->clients[i])) continue;
    steps[0] = (struct step){ABSORB, i, 0};
    return 1;
  }
  for (int i = 0; i < CLIENTS_MOST; i++)
    count += client_steps(model, i, steps + count);
  if (count == 0) return 0; /* over */
  if (may_tick(model)) steps[count++] = (struct step){TICK, 0, 0};
  if (world->has_orphan) steps[count++] = (struct step){ORPHAN_LANDS, 0, 0};
  if (!(model->scope->flags & EVICTION) || world->evicted) return count;
  for (int i = 0; i < (int)model->stack.count; i++)
    for (int slot = 0; slot < CELLS_MOST; slot++)
      if (world->present[i][slot]) steps[count++] = (struct step){EVICTS, i, slot};
  return count;
}

void world_apply(struct model *model, struct step step) {
  struct client *client = &model->world->clients[step.who];
  switch (step.kind) {
    case START:
      start(model, client);
      break;
    case LAND:
      land(model, client);
      break;
    case ABSORB:
      absorb(model, client);
      break;
    case TICK:
      model->world->instant++;
      story_tell(model, "time passes to E%+lld",
                 (long long)model->scope->instants_us[model->world->instant]);
      break;
    case CRASHES:
      crash(model, client);
      break;
    case EVICTS:
      evict(model, step.who, step.what);
      break;
    case LOSES:
      lose(model, client, WEIR_UNKNOWN);
      break;
    case NOT_SENT:
      lose(model, client, WEIR_NOT_SENT);
      break;
    case ORPHAN_LANDS:
      land_orphan(model);
      break;
  }
}

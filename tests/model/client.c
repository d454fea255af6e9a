/* What a client does between operations: it asks, takes in answers, and goes on. */
#include <inttypes.h>
#include <string.h>

#include "model.h"
#include "mutants.h"
#include "policy/policy.h"
#include "truth.h"

const struct request *client_next_request(const struct model *model, const struct client *client) {
  if (client->crashed || client->next_request == REQUESTS_MOST) return NULL;
  const struct request *request =
      &model->requests[world_client_number(model, client)][client->next_request];
  return request->asks[0].given ? request : NULL;
}

/* Forgets all that can have no effect any more, so that runs which differ in nothing else meet. */
void client_rest(const struct model *model, struct client *client) {
  memset(client->machine, 0, weir_machine_bytes(&model->stack));
  memset(client->asks, 0, sizeof client->asks);
  memset(client->charged, 0, sizeof client->charged);
  memset(client->charged_cell, 0, sizeof client->charged_cell);
  client->deadline_us = client->lands_by_us = client->start_us = 0;
  client->landed = client->first_record = 0;
  client->met = 0;
  client->busy = client->paused = client->half = client->late = client->lost = false;
  int number = world_client_number(model, client);
  bool over = client_next_request(model, client) == NULL;
  bool seen_counts = !over && model->scope->flags & (CACHED_CELLS | LOCAL_DENIAL);
  for (int i = 0; i < KEYS_MOST; i++) {
    model->world->keys[i].charged[number] = 0;
    if (!seen_counts) model->world->keys[i].seen[number] = 0;
  }
  if (over) {
    memset(client->memo, 0, weir_memo_bytes(&model->stack));
    memset(client->ends, 0, sizeof client->ends);
    client->last_taken = 0;
  }
  if (seen_counts) return;
  memset(client->seen, 0, sizeof client->seen);
  client->round_us = client->denied_us = 0;
  client->denied_after = 0;
}

static void begin_round(struct model *model, struct client *client) {
  int64_t real = model->world->real_us;
  weir_machine *machine = client->machine;
  size_t most = weir_machine_actions_most(&model->stack);
  if (machine->action_count > most)
    check_fails(model, CHECK_STATUS, "%zu operations where %zu are the most", machine->action_count,
                most);
  memset(machine->actions + machine->action_count, 0,
         (most - machine->action_count) * sizeof *machine->actions);
  client->landed = 0;
  client->lands_by_us = real > client->deadline_us ? real : client->deadline_us;
  if (machine->phase == WEIR_PHASE_TAKE_BACK) return;
  client->round_us = world_clock_us(model, client);
  record_round(model, client);
}

/* The caller has its answer; what the others of its group need to know is whether it was admitted.
 */
static void deliver(weir_ask *ask) {
  bool allowed = ask->decision.allowed;
  memset(&ask->decision, 0, sizeof ask->decision);
  ask->decision.allowed = allowed;
}

/* The policy LOCAL, with the share of one peer: while the store is away each process admits the
 * whole rule by itself, whatever the store holds. The store of the model always answers; so whoever
 * is admitted here goes over the bound. */
static void fall_back(const struct model *model, const struct client *client, weir_ask *ask) {
  weir_source source = ask->away ? WEIR_SOURCE_FALLBACK : WEIR_SOURCE_LATE;
  if (ask->kind != WEIR_ASK_TAKE || !weir_policy_answers(WEIR_FALLBACK_LOCAL, ask->status)) return;
  weir_decision answer = weir_policy_decide(WEIR_FALLBACK_LOCAL, source, &model->stack, ask->cost,
                                            ask->costs, world_clock_us(model, client));
  if (ask->away || model->mutant->late_admits) answer.allowed = true;
  if (!answer.allowed) return; /* which denies nothing that the store could be held to */
  ask->status = WEIR_OK;
  ask->decision = answer;
}

static void answered(struct model *model, struct client *client, weir_ask *ask) {
  fall_back(model, client, ask);
  check_decision(model, client, ask);
  story_decision(model, client, ask);
  deliver(ask);
}

static void finish(struct model *model, struct client *client) {
  for (int i = 0; i < GROUP_MOST; i++)
    if (client->asks[i].cost != 0 && !client->asks[i].settled)
      check_fails(model, CHECK_STATUS, "a machine is done and left %d without an answer", i);
  memcpy(client->memo, client->machine->notes, weir_memo_bytes(&model->stack));
  if (model->mutant->remember != NULL) model->mutant->remember(model, client);
  record_over(model, client);
  client_rest(model, client);
}

/* --- beginning ---------------------------------------------------------------------------------
 */

static weir_turn machine_start(struct model *model, struct client *client, weir_ask *group) {
  const struct mutant *mutant = model->mutant;
  weir_machine_init(client->machine, &model->stack, &model->terms);
  if (mutant->start != NULL)
    return mutant->start(client->machine, client->start_us, client->memo, group);
  return weir_machine_start(client->machine, client->start_us, client->memo, group);
}

static void begin(struct model *model, struct client *client, weir_ask *group) {
  for (int i = 0; i < (int)model->stack.count; i++)
    if (truth_of(model, i)->begins != NULL) truth_of(model, i)->begins(model, client, i);
  client->busy = true;
  client->deadline_us = model->world->real_us + DEADLINE_US;
  machine_start(model, client, group);
  begin_round(model, client);
  if (model->one_window) client->start_us = 0; /* makes states equal */
}

static void give_up_charges(struct model *model, struct record *taken) {
  for (int i = 0; i < (int)model->stack.count; i++)
    if (truth_of(model, i)->refunded != NULL) truth_of(model, i)->refunded(model, i, taken);
  taken->state = GIVEN_BACK;
}

/* Fills in a refund or cancel of what the last request took; false: it took nothing. */
static bool make_refund(struct model *model, struct client *client, const struct wanted *wanted) {
  weir_ask *ask = &client->asks[0];
  if (client->last_taken == 0) return false;
  struct record *taken = &model->world->records[client->last_taken - 1];
  int number = client->last_taken - 1;
  const struct wanted *taken_as =
      &model->requests[number / GROUP_MOST / REQUESTS_MOST][number / GROUP_MOST % REQUESTS_MOST]
           .asks[number % GROUP_MOST];
  *ask = (weir_ask){.kind = WEIR_ASK_REFUND, .alone = true, .at_us = taken->stamp_us};
  ask->cost = taken->cost[0];
  if (taken_as->own_costs) ask->costs = taken_as->costs;
  if (wanted->wish == CANCELS) ask->ends = client->ends;
  record_asked(model, client, ask);
  taken->of = (uint8_t)(client->first_record + 1);
  give_up_charges(model, taken);
  client->last_taken = 0;
  return true;
}

static void make_take(struct model *model, struct client *client, weir_ask *ask,
                      const struct wanted *wanted) {
  *ask = (weir_ask){.kind = wanted->wish == PEEKS ? WEIR_ASK_PEEK : WEIR_ASK_TAKE,
                    .cost = wanted->cost,
                    .costs = wanted->own_costs ? wanted->costs : NULL,
                    .up_to = wanted->up_to,
                    .waits = wanted->waits,
                    .wait_us = wanted->wait_us};
  if (model->gives_back && wanted->wish == TAKES) ask->ends = client->ends;
  record_asked(model, client, ask);
}

static bool settled_at_once(struct model *model, struct client *client, weir_ask *ask) {
  if (weir_settle_never(&model->stack, client->start_us, ask)) {
    answered(model, client, ask);
    return true;
  }
  if (!weir_settle_locally(&model->stack, &model->terms, client->memo, client->start_us, ask))
    return false;
  check_repeated(model, client, ask);
  story_decision(model, client, ask);
  deliver(ask);
  return true;
}

/* The asks that need the store; NULL: none. */
static weir_ask *make_group(struct model *model, struct client *client,
                            const struct request *request) {
  weir_ask *group = NULL;
  weir_ask **end = &group;
  for (int i = 0; i < GROUP_MOST && request->asks[i].given; i++) {
    weir_ask *ask = &client->asks[i];
    make_take(model, client, ask, &request->asks[i]);
    if (settled_at_once(model, client, ask)) continue;
    *end = ask;
    end = &ask->next;
  }
  return group;
}

void client_start(struct model *model, struct client *client) {
  const struct request *request = client_next_request(model, client);
  weir_ask *group = NULL;
  client->first_record =
      (world_client_number(model, client) * REQUESTS_MOST + client->next_request) * GROUP_MOST;
  client->next_request++;
  client->start_us = world_clock_us(model, client);
  story_start(model, client, request);
  if (model->mutant->misremember != NULL) model->mutant->misremember(model, client->memo);
  if (request->asks[0].wish != REFUNDS && request->asks[0].wish != CANCELS)
    group = make_group(model, client, request);
  else if (make_refund(model, client, &request->asks[0]))
    group = &client->asks[0];
  if (group == NULL) {
    record_over(model, client);
    client_rest(model, client);
    return;
  }
  if (model->mutant->misask != NULL) model->mutant->misask(model, client, group);
  begin(model, client, group);
}

/* --- going on ----------------------------------------------------------------------------------
 */

void client_land(struct model *model, struct client *client) {
  size_t index;
  const struct mutant *mutant = model->mutant;
  struct sent sent = world_next_operation(model, client, &index);
  if (mutant->rewrite != NULL) mutant->rewrite(model, client, &sent.action);
  bool replaced = mutant->replace != NULL && mutant->replace(model, client, &sent.action);
  if (!replaced && !store_execute(model, client, &sent)) {
    client->half = true;
    story_tell(model, "client %d: ", world_client_number(model, client));
    story_operation(model, &sent);
    return;
  }
  client->half = false;
  if (mutant->distort != NULL) mutant->distort(&sent.action);
  weir_action *action = &client->machine->actions[index];
  action->outcome = sent.action.outcome;
  action->late = false;
  action->value = sent.action.value;
  action->version_out = sent.action.version_out;
  client->landed++;
  story_tell(model, "client %d: ", world_client_number(model, client));
  story_operation(model, &sent);
}

/* What the asks that were just settled were told; then the next round, a pause, or the end. */
static void go_on(struct model *model, struct client *client, bool late) {
  bool settled[GROUP_MOST];
  weir_machine *machine = client->machine;
  const struct mutant *mutant = model->mutant;
  for (int i = 0; i < GROUP_MOST; i++)
    settled[i] = client->asks[i].settled;
  client->late = client->late || late;
  client->paused = false;
  int64_t clock = world_clock_us(model, client);
  weir_turn turn = mutant->resume != NULL ? mutant->resume(machine, clock, late)
                                          : weir_machine_resume(machine, clock, late);
  for (int i = 0; i < GROUP_MOST; i++)
    if (client->asks[i].settled && !settled[i]) answered(model, client, &client->asks[i]);
  if (turn == WEIR_TURN_DONE) {
    finish(model, client);
    return;
  }
  if (turn == WEIR_TURN_PAUSE) {
    client->paused = true;
    machine->action_count = 0;
  }
  begin_round(model, client);
}

static bool is_late(const struct model *model, const struct client *client) {
  return model->world->real_us > client->deadline_us && !model->mutant->never_late;
}

void client_absorb(struct model *model, struct client *client) {
  bool late = is_late(model, client);
  story_tell(model, "client %d has its answers%s", world_client_number(model, client),
             late ? ", late" : "");
  go_on(model, client, late);
}

/* Two that meet again and again need pauses of different lengths; here time runs out instead. */
void client_wake(struct model *model, struct client *client) {
  bool late = is_late(model, client) || client->machine->pauses >= PAUSES_MOST;
  story_tell(model, "client %d tries again%s", world_client_number(model, client),
             late ? ", late" : "");
  go_on(model, client, late);
}

/* --- before the run ----------------------------------------------------------------------------
 */

void client_charge_before(struct model *model, int number, struct charge charge) {
  const struct wanted wanted = {.given = true, .cost = charge.cost};
  struct client *client = &model->world->clients[CLIENTS_MOST - 1];
  FILE *story = model->story;
  model->story = NULL;
  model->world->real_us = model->edge_us + charge.stamp_us;
  client->first_record = ASKS_MOST + number;
  client->start_us = world_clock_us(model, client);
  make_take(model, client, &client->asks[0], &wanted);
  begin(model, client, &client->asks[0]);
  while (client->busy && model->failed == CHECK_NONE) {
    for (size_t i = 0; i < client->machine->action_count; i++) {
      struct sent sent = {.action = client->machine->actions[i]};
      while (!store_execute(model, client, &sent))
        ;
      client->machine->actions[i] = sent.action;
    }
    client_absorb(model, client);
  }
  if (model->world->records[ASKS_MOST + number].state != ADMITTED)
    check_fails(model, CHECK_STATUS, "the charge %d before the run was not admitted", number);
  memset(client->memo, 0, weir_memo_bytes(&model->stack));
  memset(client->seen, 0, sizeof client->seen);
  memset(client->ends, 0, sizeof client->ends);
  client->last_taken = 0;
  client->round_us = 0;
  model->story = story;
}

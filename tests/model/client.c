/* What a client does between operations: it asks, takes in answers, and goes on. */
#include <inttypes.h>
#include <string.h>

#include "cluster.h"
#include "limiter/record.h"
#include "mutants.h"
#include "outage.h"
#include "places.h"
#include "truth.h"

size_t client_sent(const struct client *client) {
  return (size_t)client->returns + client->machine->frame.operation_count;
}

const struct request *client_next_request(const struct model *model, const struct client *client) {
  if (client->crashed || client->next_request == REQUESTS_MOST) return NULL;
  const struct request *request =
      &model->requests[world_client_number(model, client)][client->next_request];
  return request->wanted[0].given ? request : NULL;
}

/* Forgets all that can have no effect any more, so that runs which differ in nothing else meet. */
void client_rest(const struct model *model, struct client *client) {
  memset(client->machine, 0, model->machine_bytes);
  memset(client->operations, 0, model->operations_bytes);
  memset(client->requests, 0, sizeof client->requests);
  memset(client->charged, 0, sizeof client->charged);
  memset(client->charged_cell, 0, sizeof client->charged_cell);
  client->deadline_us = client->lands_by_us = client->start_us = client->from_us = 0;
  client->landed = client->returns = client->first_record = 0;
  client->met = 0;
  memset(&client->above, 0, sizeof client->above);
  client->busy = client->paused = client->half = client->late = client->lost = false;
  client->reads = 0;
  client->found = 0;
  int number = world_client_number(model, client);
  bool over = client_next_request(model, client) == NULL;
  bool seen_counts = !over && model->scope->flags & (CACHED_CELLS | LOCAL_DENIAL);
  for (int i = 0; i < KEYS_MOST; i++) {
    model->world->keys[i].charged[number] = 0;
    if (!seen_counts) model->world->keys[i].seen[number] = 0;
  }
  if (over) {
    memset(client->memo, 0, model->memo_bytes);
    memset(client->ends, 0, sizeof client->ends);
    memset(client->owing, 0, sizeof client->owing);
    memset(client->settled, 0, sizeof client->settled);
    if (client->wallet != NULL) memset(client->wallet, 0, model->wallet_bytes);
    if (client->outage != NULL) memset(client->outage, 0, model->outage_bytes);
    if (model->cluster != NULL) model->cluster->couriers[number] = (struct courier){0};
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
  size_t most = weir_machine_operations_most(&model->stack) + (model->keys != NULL);
  if (machine->frame.operation_count > most)
    check_fails(model, CHECK_STATUS, "%zu operations where %zu are the most",
                machine->frame.operation_count, most);
  memset(machine->frame.operations + machine->frame.operation_count, 0,
         (most - machine->frame.operation_count) * sizeof *machine->frame.operations);
  client->landed = 0;
  classes_round(client);
  client->lands_by_us = real > client->deadline_us ? real : client->deadline_us;
  if (model->cluster != NULL) cluster_send(model, client);
  outage_round(model, client);
  if (machine->frame.phase == WEIR_PHASE_TAKE_BACK) return;
  client->round_us = world_clock_us(model, client);
  record_round(model, client);
}

/* The caller has its answer; what the others of its group need to know is whether it was admitted.
 */
static void deliver(weir_claim *request) {
  bool allowed = request->verdict.decision.allowed;
  memset(&request->verdict.decision, 0, sizeof request->verdict.decision);
  request->verdict.decision.allowed = allowed;
}

static void answered(struct model *model, struct client *client, weir_claim *request) {
  if (request->ask.kind == WEIR_RENEW) {
    story_decision(model, client, request);
    place_renewed(model, client);
    return;
  }
  policy_answer(model, client, request);
  check_decision(model, client, request);
  story_decision(model, client, request);
  deliver(request);
}

static void begin(struct model *model, struct client *client, weir_claim *group);

/* Those that were decided for another cell than what was held for them. */
static bool goes_again(struct model *model, struct client *client) {
  unsigned again = client->wallet != NULL ? client->wallet->again : 0;
  int32_t first_record = client->first_record;
  int64_t costs[GROUP_MOST] = {0};
  weir_claim *group = NULL;
  for (int i = 0; i < GROUP_MOST && again != 0; i++)
    if (again >> i & 1U) costs[i] = record_of(model, client, &client->requests[i])->cost[0];
  if (again == 0) return false;
  client->next_request--; /* it is not over */
  client_rest(model, client);
  client->next_request++;
  client->first_record = first_record;
  client->wallet->again = 0;
  client->start_us = world_clock_us(model, client);
  for (int i = GROUP_MOST - 1; i >= 0; i--) {
    if (costs[i] == 0) continue;
    struct record *record = &model->world->records[first_record + i];
    client->requests[i] = (weir_claim){
        .ask = {.kind = WEIR_TAKE, .cost = costs[i], .class = record->class}, .next = group};
    record->held = 0;
    group = &client->requests[i];
  }
  begin(model, client, group);
  return true;
}

/* What was to go back found no store, or no time, and stays. */
static void excuse_refund(struct model *model, const struct client *client) {
  const weir_claim *request = &client->requests[0];
  for (size_t i = 0; i < model->stack.count; i++)
    if (request->ask.kind == WEIR_REFUND && request->verdict.status != WEIR_OK)
      model->world->leak[i] += weir_claim_cost(request, i);
}

static void finish(struct model *model, struct client *client) {
  for (int i = 0; i < GROUP_MOST; i++)
    if (client->requests[i].ask.cost != 0 && !client->requests[i].verdict.answered)
      check_fails(model, CHECK_STATUS, "a machine is done and left %d without an answer", i);
  excuse_refund(model, client);
  outage_settle(model, client);
  if (client->from_us > 0)
    weir_memo_lay_by(&model->stack, &model->settings, client->memo, client->machine->frame.memo,
                     world_clock_us(model, client));
  else
    memcpy(client->memo, client->machine->frame.memo, weir_memo_bytes(&model->stack));
  for (int i = 0; i < GROUP_MOST; i++)
    if (policy_waits(client, &client->requests[i])) answered(model, client, &client->requests[i]);
  if (model->mutant->remember != NULL) model->mutant->remember(model, client);
  lease_end_group(model, client);
  if (goes_again(model, client)) return;
  record_over(model, client);
  client_rest(model, client);
}

/* --- beginning ---------------------------------------------------------------------------------
 */

const weir_stack *client_stack(const struct model *model, const struct client *client) {
  int number = world_client_number(model, client);
  bool text = model->scope->flags & TEXTS || model->mutant->another != NULL;
  bool other = text ? number == 1 : model->mutant->unreserved && number != 0;
  return other ? &model->another : &model->stack;
}

const weir_stack *client_continued(const struct model *model, const struct client *client) {
  bool other = client_stack(model, client) == &model->another || model->mutant->continues_by_most;
  return other ? &model->another_continued : &model->continued;
}

static bool is_hasty(const struct model *model, const struct client *client) {
  return model->scope->flags & DEADLINES && world_client_number(model, client) == 0;
}

int64_t client_deadline_us(const struct model *model, const struct client *client) {
  return is_hasty(model, client) ? HASTY_US : DEADLINE_US;
}

weir_turn client_start_machine(struct model *model, struct client *client, weir_claim *group) {
  const struct mutant *mutant = model->mutant;
  if (mutant->start != NULL)
    return mutant->start(client->machine, client->start_us, client->memo, group,
                         client->operations);
  return weir_machine_start(
      client->machine, client->from_us > 0 ? client->from_us : client->start_us,
      client->from_us > 0 ? NULL : client->memo, group, client->operations + client->returns);
}

/* All of a group are answered by what is known. */
static void answer_here(struct model *model, struct client *client) {
  for (int i = 0; i < GROUP_MOST; i++)
    if (client->requests[i].verdict.answered) answered(model, client, &client->requests[i]);
  lease_end_group(model, client);
  record_over(model, client);
  if (client->returns == 0) {
    client_rest(model, client);
    return;
  }
  memset(client->machine, 0, model->machine_bytes);
  memset(client->requests, 0, sizeof client->requests);
  client->lands_by_us = client->deadline_us;
}

static void begin(struct model *model, struct client *client, weir_claim *group) {
  group = outage_offer(model, client, group);
  lease_plan_returns(model, client);
  for (int i = 0; i < (int)model->stack.count; i++)
    if (truth_of(model, i)->begins != NULL) truth_of(model, i)->begins(model, client, i);
  client->busy = true;
  client->deadline_us = model->world->real_us + client_deadline_us(model, client);
  weir_machine_init(client->machine, client_stack(model, client),
                    is_hasty(model, client) ? &model->hasty : &model->settings);
  if (model->mutant->method != NULL) client->machine->rule_states[0].method = model->mutant->method;
  if (model->keys == NULL) {
    client_start_machine(model, client, group);
  } else if (keys_start(model, client, &group) == WEIR_TURN_DONE) {
    answer_here(model, client);
    return;
  }
  classes_begin(model, client);
  begin_round(model, client);
  if (model->one_window) client->start_us = 0; /* makes states equal */
}

static void give_up_charges(struct model *model, struct record *taken) {
  for (int i = 0; i < (int)model->stack.count; i++)
    if (truth_of(model, i)->refunded != NULL)
      truth_of(model, i)->refunded(model, i, taken, taken->cost[i]);
  taken->state = GIVEN_BACK;
}

/* Fills in a refund or cancel of what the last request took; false: it took nothing. */
static bool make_refund(struct model *model, struct client *client, const struct wanted *wanted) {
  weir_claim *request = &client->requests[0];
  if (client->last_taken == 0) return false;
  struct record *taken = &model->world->records[client->last_taken - 1];
  int number = client->last_taken - 1;
  const struct wanted *taken_as =
      &model->requests[number / GROUP_MOST / REQUESTS_MOST][number / GROUP_MOST % REQUESTS_MOST]
           .wanted[number % GROUP_MOST];
  int64_t at_us = taken->stamp_us - (model->mutant->refunds_by_use ? 0 : taken->lag_us);
  *request = (weir_claim){.ask = {.kind = WEIR_REFUND, .alone = true, .at_us = at_us}};
  request->ask.cost = taken->cost[0];
  if (taken_as->own_costs) request->ask.costs = taken_as->costs;
  if (wanted->wish == CANCELS) request->ask.ends = client->ends;
  for (int i = 0; i < (int)model->stack.count; i++)
    if (weir_rule_is_held(&model->stack.rules[i])) client->ends[i] = taken->mark[i];
  record_requested(model, client, request);
  taken->of = (uint8_t)(client->first_record + 1);
  client->last_taken = 0;
  if (taken->state == ALLOWED) {
    taken->state = GIVEN_BACK;
    return outage_refund(model, client, request, taken);
  }
  give_up_charges(model, taken);
  return true;
}

void client_name_tenant(const struct model *model, const struct client *client,
                        weir_claim *request) {
  const char *tenant = &model->tenants[world_client_number(model, client)];
  if (*tenant == 0) return;
  request->ask.tenant_number = *tenant;
  request->ask.weight = weir_rule_weight(&client_stack(model, client)->rules[0], tenant, 1);
}

static void make_take(struct model *model, struct client *client, weir_claim *request,
                      const struct wanted *wanted) {
  *request = (weir_claim){.ask = {.kind = wanted->wish == PEEKS ? WEIR_PEEK : WEIR_TAKE,
                                  .cost = wanted->cost,
                                  .costs = wanted->own_costs ? wanted->costs : NULL,
                                  .up_to = wanted->up_to,
                                  .class = wanted->class,
                                  .limit = wanted->limit,
                                  .waits = wanted->waits,
                                  .wait_us = wanted->wait_us}};
  client_name_tenant(model, client, request);
  if (model->gives_back && wanted->wish == TAKES) request->ask.ends = client->ends;
  record_requested(model, client, request);
}

static bool settled_at_once(struct model *model, struct client *client, weir_claim *request) {
  if (weir_settle_never(client_stack(model, client), client->start_us, request)) {
    answered(model, client, request);
    return true;
  }
  if (lease_answers(model, client, request)) {
    check_decision(model, client, request);
    story_decision(model, client, request);
    deliver(request);
    return true;
  }
  client->start_us = world_clock_us(model, client);
  if (!lease_denies(model, client, request)) {
    if (!outage_withholds(model, client, request)) {
      if (client->outage != NULL) dues_asked(client, record_of(model, client, request));
      lease_hold(model, client, request);
      return false;
    }
    check_decision(model, client, request);
    story_decision(model, client, request);
    deliver(request);
    return true;
  }
  check_repeated(model, client, request);
  story_decision(model, client, request);
  deliver(request);
  return true;
}

/* The requests that need the store; NULL: none. */
static weir_claim *make_group(struct model *model, struct client *client,
                              const struct request *request) {
  weir_claim *group = NULL;
  weir_claim **end = &group;
  for (int i = 0; i < GROUP_MOST && request->wanted[i].given; i++) {
    weir_claim *state = &client->requests[i];
    make_take(model, client, state, &request->wanted[i]);
    if (settled_at_once(model, client, state)) continue;
    *end = state;
    end = &state->next;
  }
  if (group != NULL) return lease_ask(model, client, group, request->lease);
  return NULL;
}

/* Only returns: nobody waits for an answer. */
static bool return_leases(struct model *model, struct client *client) {
  weir_stock_end(client->stock, &model->lease);
  lease_plan_returns(model, client);
  client->busy = client->returns > 0;
  client->deadline_us = model->world->real_us + client_deadline_us(model, client);
  client->lands_by_us = client->deadline_us;
  return client->busy;
}

void client_start(struct model *model, struct client *client) {
  const struct request *request = client_next_request(model, client);
  weir_claim *group = NULL;
  client->first_record =
      (world_client_number(model, client) * REQUESTS_MOST + client->next_request) * GROUP_MOST;
  client->next_request++;
  client->start_us = world_clock_us(model, client);
  story_start(model, client, request);
  if (model->mutant->misremember != NULL) model->mutant->misremember(model, client->memo);
  if (request->wanted[0].wish == RETURNS) {
    if (return_leases(model, client)) return;
  } else if (request->wanted[0].wish == SETS) {
    keys_set(model, client, &request->wanted[0]);
    return;
  } else if (request->wanted[0].wish == SETTLES) {
    if (settle_ask(model, client, &request->wanted[0])) group = &client->requests[0];
  } else if (request->wanted[0].wish == RENEWS) {
    group = place_renew(model, client);
  } else if (request->wanted[0].wish == REFILLS) {
    group = lease_refill(model, client, request->lease);
  } else if (request->wanted[0].wish == NEXTS) {
    group = lease_next(model, client, request->lease);
  } else if (request->wanted[0].wish != REFUNDS && request->wanted[0].wish != CANCELS) {
    group = make_group(model, client, request);
  } else if (make_refund(model, client, &request->wanted[0])) {
    group = &client->requests[0];
  }
  if (group == NULL) {
    record_over(model, client);
    client_rest(model, client);
    return;
  }
  if (model->mutant->alter != NULL) model->mutant->alter(model, client, group);
  begin(model, client, group);
}

/* --- going on ----------------------------------------------------------------------------------
 */

void client_land(struct model *model, struct client *client) {
  size_t index;
  const struct mutant *mutant = model->mutant;
  if (model->cluster != NULL) {
    cluster_land(model, client);
    return;
  }
  struct sent sent = world_next_operation(model, client, &index);
  if (mutant->rewrite != NULL) mutant->rewrite(model, client, &sent.operation);
  bool replaced = mutant->replace != NULL && mutant->replace(model, client, &sent.operation);
  uint8_t settles = settle_of(model, client);
  bool returns = index < (size_t)client->returns; /* which is none of the request's own */
  if (!replaced && !store_execute(model, returns ? NULL : client, &sent)) {
    client->half = true;
    story_print(model, "client %d: ", world_client_number(model, client));
    story_operation(model, &sent);
    return;
  }
  client->half = false;
  if (!replaced) settle_landed(model, settles, &sent.operation);
  if (mutant->distort != NULL) mutant->distort(&sent.operation);
  classes_land(model, client);
  weir_operation *operation = &client->operations[index];
  operation->outcome = sent.operation.outcome;
  operation->late = operation->slow = false;
  operation->value = sent.operation.value;
  operation->version_out = sent.operation.version_out;
  client->landed++;
  story_print(model, "client %d: ", world_client_number(model, client));
  story_operation(model, &sent);
}

/* What the requests that were just settled were told; then the next round, a pause, or the end. */
static void go_on(struct model *model, struct client *client, bool late) {
  lease_absorb_returns(model, client);
  if (client->machine->frame.stack == NULL) { /* there was nothing else */
    keys_end_set(model, client);
    client_rest(model, client);
    return;
  }
  bool settled[GROUP_MOST];
  weir_machine *machine = client->machine;
  const struct mutant *mutant = model->mutant;
  bool blocked = client->reads == WEIR_RECORD_DENIES; /* nobody is told before all has gone back */
  for (int i = 0; i < GROUP_MOST; i++)
    settled[i] = client->requests[i].verdict.answered && !blocked;
  client->late = client->late || late;
  client->paused = false;
  int64_t clock = world_clock_us(model, client);
  if (clock < client->from_us) clock = client->from_us;
  weir_turn turn = client->reads != WEIR_RECORD_KNOWN ? keys_resume(model, client, clock, late)
                   : mutant->resume != NULL
                       ? mutant->resume(machine, clock, late, client->operations)
                       : weir_machine_resume(machine, clock, late, client->operations);
  blocked = client->reads == WEIR_RECORD_DENIES && turn != WEIR_TURN_DONE;
  for (int i = 0; i < GROUP_MOST && !blocked; i++)
    if (client->requests[i].verdict.answered && !settled[i] &&
        lease_decided(model, client, &client->requests[i]) &&
        !policy_waits(client, &client->requests[i]))
      answered(model, client, &client->requests[i]);
  lease_granted(model, client);
  if (client->outage != NULL) outage_paid(model, client);
  if (turn == WEIR_TURN_DONE) {
    finish(model, client);
    return;
  }
  if (turn == WEIR_TURN_PAUSE) {
    client->paused = true;
    machine->frame.operation_count = 0;
  }
  begin_round(model, client);
}

static bool is_late(const struct model *model, const struct client *client) {
  return model->world->real_us > client->deadline_us && !model->mutant->never_late;
}

void client_absorb(struct model *model, struct client *client) {
  bool late = is_late(model, client);
  story_print(model, "client %d has its answers%s", world_client_number(model, client),
              late ? ", late" : "");
  go_on(model, client, late);
}

/* Two that meet again and again need pauses of different lengths; here time runs out instead. */
void client_wake(struct model *model, struct client *client) {
  bool late = is_late(model, client) || client->machine->pauses >= PAUSES_MOST;
  story_print(model, "client %d tries again%s", world_client_number(model, client),
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
  client->first_record = WANTED_MOST + number;
  char tenant = model->tenants[CLIENTS_MOST - 1];
  model->tenants[CLIENTS_MOST - 1] = charge.tenant;
  client->start_us = world_clock_us(model, client);
  make_take(model, client, &client->requests[0], &wanted);
  begin(model, client, &client->requests[0]);
  while (client->busy && model->failed == CHECK_NONE) {
    for (size_t i = 0; i < client->machine->frame.operation_count; i++) {
      struct sent sent = {.operation = client->machine->frame.operations[i]};
      while (!store_execute(model, client, &sent))
        ;
      client->machine->frame.operations[i] = sent.operation;
    }
    client_absorb(model, client);
  }
  if (model->world->records[WANTED_MOST + number].state != ADMITTED)
    check_fails(model, CHECK_STATUS, "the charge %d before the run was not admitted", number);
  memset(client->memo, 0, weir_memo_bytes(&model->stack));
  memset(client->seen, 0, sizeof client->seen);
  memset(client->ends, 0, sizeof client->ends);
  client->last_taken = 0;
  client->round_us = 0;
  model->tenants[CLIENTS_MOST - 1] = tenant;
  model->story = story;
}

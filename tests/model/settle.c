/* Settlements: what a client's last request really cost. */
#include <inttypes.h>

#include "mutants.h"
#include "truth.h"

/* Whether what a client has under way gives back under a rule. */
bool settle_gives_back(const struct client *client, int rule) {
  const weir_claim *request = &client->requests[0];
  return request->ask.kind == WEIR_REFUND ||
         (request->ask.kind == WEIR_SETTLE && request->ask.costs[rule] < 0);
}

/* What it is about to give back of a request that cost less. */
int64_t settle_owes(const struct client *client, int rule) {
  const weir_claim *request = &client->requests[0];
  return request->ask.kind == WEIR_SETTLE && request->ask.costs[rule] < 0
             ? -request->ask.costs[rule]
             : 0;
}

/* Which record a client's operations settle, from 1; 0: none. */
uint8_t settle_of(const struct model *model, const struct client *client) {
  const struct record *record = &model->world->records[client->first_record];
  return client->requests[0].ask.kind == WEIR_SETTLE ? record->of : 0;
}

bool settle_ask(struct model *model, struct client *client, const struct wanted *wanted) {
  weir_claim *request = &client->requests[0];
  if (client->last_taken == 0) return false;
  struct record *taken = &model->world->records[client->last_taken - 1];
  if (taken->state != ADMITTED) return false;
  *request = (weir_claim){.ask = {.kind = WEIR_SETTLE,
                                  .alone = true,
                                  .at_us = taken->stamp_us - taken->lag_us,
                                  .cost = 1,
                                  .class = taken->class,
                                  .costs = client->owing,
                                  .settlement = client->settled}};
  client_name_tenant(model, client, request);
  for (int i = 0; i < (int)model->stack.count; i++)
    client->owing[i] = (wanted->own_costs ? wanted->costs[i] : wanted->cost) - taken->cost[i];
  record_requested(model, client, request);
  struct record *record = record_of(model, client, request);
  record->of = client->last_taken;
  record->class = taken->class;
  taken->of = (uint8_t)(client->first_record + 1);
  client->last_taken = 0;
  for (int i = 0; i < (int)model->stack.count; i++) {
    if (client->owing[i] >= 0) continue;
    record->cost[i] = 0;
    taken->less[i] = (int32_t)-client->owing[i];
    if (truth_of(model, i)->refunded != NULL)
      truth_of(model, i)->refunded(model, i, taken, taken->less[i]);
  }
  return true;
}

/* No more is ever added for a request than it really cost. Where times are swapped or raised, what is
 * added again may make up for what was not there. */
void settle_landed(struct model *model, uint8_t settles, const weir_operation *operation) {
  int rule = (int)operation->counter.rule;
  bool counts = truth_of(model, rule) != &truth_bucket && operation->outcome == WEIR_DONE &&
                operation->counter.place == WEIR_PLACE_COUNT;
  if (settles == 0 || !counts) return;
  struct record *taken = &model->world->records[settles - 1];
  const struct record *settlement = &model->world->records[taken->of - 1];
  int64_t amount = operation->delta;
  if (truth_of(model, rule) == &truth_window) window_cell_meant(model, operation, &amount);
  if (settlement->cost[rule] == 0) return;
  if (operation->kind == WEIR_ADD) taken->more[rule] += (int32_t)amount;
  if (operation->kind == WEIR_SUB) taken->more[rule] -= (int32_t)amount;
  if (taken->more[rule] > settlement->cost[rule])
    check_fails(model, CHECK_ONCE, "%" PRId32 " are charged of a cost that was %" PRId32 " more",
                taken->more[rule], settlement->cost[rule]);
}

/* What it was told is charged from now on. What may have been executed is not sent again. */
void settle_answered(struct model *model, struct client *client, struct record *record) {
  if (record->state == FAILED && model->mutant->settles_twice) client->last_taken = record->of;
  for (int i = 0; i < (int)model->stack.count; i++) {
    if (record->state == FAILED) model->world->leak[i] += settle_owes(client, i);
    if (record->state != SETTLED || client->owing[i] <= 0) continue;
    if (client->settled[i] < 0 || client->settled[i] > client->owing[i])
      check_fails(model, CHECK_STATUS, "%" PRId64 " of %" PRId64 " are said to be charged",
                  client->settled[i], client->owing[i]);
    record->less[i] = record->cost[i] - (int32_t)client->settled[i];
    if (client->settled[i] == 0) continue;
    if (truth_of(model, i)->admitted != NULL)
      truth_of(model, i)->admitted(model, client, i, record);
    truth_of(model, i)->bound(model, i);
  }
}

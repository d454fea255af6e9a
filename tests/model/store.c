/* The store of the model: counters with the semantics of weir/backend.h, and beside them a shadow
 * with one counter for every cell, which cannot carry. */
#include <inttypes.h>

#include "algorithm/cells.h"
#include "model.h"
#include "mutants.h"

int64_t store_cell_of(const struct model *model, int rule, int64_t stamp_us) {
  return stamp_us / model->stack.rules[rule].cell_us;
}

/* Where a counter or cell stands in the world's arrays; -1, and the run fails, outside of them. */
static int slot_of(struct model *model, int rule, int64_t index, int64_t first) {
  if (index >= first && index < first + CELLS_MOST) return (int)(index - first);
  check_fails(model, CHECK_STATUS, "rule %d: cell or counter %" PRId64 " is far from the edge",
              rule, index);
  return -1;
}

static int counter_slot(struct model *model, int rule, int64_t index) {
  return slot_of(model, rule, index, model->first_cell[rule] / model->stack.rules[rule].lanes);
}

static int64_t lane_unit(const weir_rule *rule, int64_t cell) {
  return INT64_C(1) << (rule->lane_bits * (int)(cell % rule->lanes));
}

/* Others' part of a cell, as this client might see it. */
static void notice(struct model *model, struct client *client, int rule, int slot) {
  int64_t others = model->world->shadow[rule][slot];
  if (client->charged_cell[rule] == model->first_cell[rule] + slot) others -= client->charged[rule];
  if (others > client->seen[rule][slot]) client->seen[rule][slot] = (int32_t)others;
}

static void add_to_shadow(struct model *model, struct client *client, int rule, int64_t cell,
                          int64_t amount) {
  int slot = slot_of(model, rule, cell, model->first_cell[rule]);
  if (slot < 0) return;
  model->world->shadow[rule][slot] += (int32_t)amount;
  if (client != NULL) {
    if (amount > 0) client->charged_cell[rule] = cell;
    client->charged[rule] += amount;
  }
  for (int i = 0; i < CLIENTS_MOST; i++)
    if (model->world->clients[i].busy) notice(model, &model->world->clients[i], rule, slot);
}

static void change(struct model *model, struct client *client, struct sent *sent, int slot) {
  weir_action *action = &sent->action;
  int rule = (int)action->rule;
  int64_t *value = &model->world->value[rule][slot];
  const weir_rule *layout = &model->stack.rules[rule];
  int64_t cell = action->index * layout->lanes + sent->cell % layout->lanes;
  int64_t amount = action->delta / lane_unit(layout, cell);
  if (action->kind == WEIR_SUB) {
    amount = -amount;
    *value -= action->delta;
    if (model->mutant->saturates && *value < 0) *value = 0;
  } else {
    *value += action->delta;
    model->world->present[rule][slot] = true;
  }
  action->value = *value;
  add_to_shadow(model, client, rule, cell, amount);
  check_counter(model, rule, slot);
}

/* The client is NULL for an orphan: nobody waits for its answer. */
void store_execute(struct model *model, struct client *client, struct sent *sent) {
  weir_action *action = &sent->action;
  int slot = counter_slot(model, (int)action->rule, action->index);
  if (slot < 0) return;
  bool *present = &model->world->present[action->rule][slot];
  check_operation(model, action);
  action->outcome = *present || action->kind == WEIR_ADD ? WEIR_DONE : WEIR_ABSENT;
  if (action->kind == WEIR_ADD || (action->kind == WEIR_SUB && *present))
    change(model, client, sent, slot);
  else if (action->kind == WEIR_GET && *present)
    action->value = model->world->value[action->rule][slot];
  else if (action->kind == WEIR_SUB && client != NULL)
    client->charged[action->rule] = 0;
}

void store_evict(struct model *model, int rule, int counter) {
  struct world *world = model->world;
  int lanes = model->stack.rules[rule].lanes;
  int64_t first = (model->first_cell[rule] / lanes + counter) * lanes;
  world->present[rule][counter] = false;
  world->value[rule][counter] = 0;
  world->evicted = true;
  world->slack[rule] += model->stack.rules[rule].limit;
  for (int64_t cell = first; cell < first + lanes; cell++)
    world->shadow[rule][cell - model->first_cell[rule]] = 0;
  for (int i = 0; i < CLIENTS_MOST; i++) {
    struct client *client = &world->clients[i];
    bool inside = client->charged_cell[rule] / lanes == first / lanes;
    if (client->busy && inside) world->slack[rule] += client->charged[rule];
  }
}

/* What was charged and admitted before the run began. */
void store_prefill(struct model *model, const struct charge *charge) {
  for (int rule = 0; rule < (int)model->stack.count; rule++) {
    const weir_rule *layout = &model->stack.rules[rule];
    int64_t cell = store_cell_of(model, rule, charge->stamp_us);
    struct sent sent = {.action = {.kind = WEIR_ADD,
                                   .rule = (uint32_t)rule,
                                   .index = cell / layout->lanes,
                                   .delta = charge->cost * lane_unit(layout, cell),
                                   .ttl_us = INT64_MAX},
                        .cell = cell};
    store_execute(model, NULL, &sent);
    int slot = slot_of(model, rule, cell, model->first_cell[rule]);
    if (slot >= 0) model->world->owed[rule][slot] += (int32_t)charge->cost;
  }
}

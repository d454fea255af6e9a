/* Makes a scope ready: its rules, its requests, and the memory of its world. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "cluster.h"
#include "mutants.h"
#include "outage.h"
#include "ranges.h"
#include "truth.h"

enum {
  EDGE_CELL = 40,
  EPOCH_BITS = 52,
  STORED_BITS = 62
}; /* 40: the first of a counter, for any number of lanes */

static size_t rounded(size_t bytes) {
  return (bytes + 7) / 8 * 8;
}

static void set_settings(struct model *model) {
  unsigned flags = model->scope->flags;
  model->settings = (weir_settings){
      .clock_error_us = SKEW_US,
      .ahead_us = MARGIN_US,
      .final_us = FINAL_US,
      .memo_age_us = model->scope->memo_age_us > 0 ? model->scope->memo_age_us : 1000000,
      .local_denial_us = REPEAT_US,
      .longest_wait_us = LONGEST_WAIT_US,
      .processes = CLIENTS_MOST,
      .traits = (flags & RAISES ? WEIR_TRAIT_RAISE : WEIR_TRAIT_SWAP) |
                (model->mutant->bounded ? WEIR_TRAIT_BOUND : 0),
      .notices_loss = flags & LEARNS,
      .cached_cells = flags & CACHED_CELLS,
      .local_denial = flags & LOCAL_DENIAL,
  };
}

static void place_edge(struct model *model) {
  const weir_rule *rule = &model->stack.rules[0];
  int64_t cell = model->scope->edge_cell != 0 ? model->scope->edge_cell : EDGE_CELL;
  int64_t width = rule->cell_us > 0 ? rule->cell_us : rule->period_us;
  model->edge_us = cell * width;
  int bits = model->scope->flags & RAISES ? EPOCH_BITS : STORED_BITS;
  if (model->scope->flags & EPOCH) model->edge_us = INT64_C(1) << (bits - rule->unit_bits);
  for (int i = 0; i < INSTANTS_MOST; i++)
    if (model->edge_us + model->scope->instants_us[i] > model->last_us)
      model->last_us = model->edge_us + model->scope->instants_us[i];
  for (int i = 0; i < (int)model->stack.count; i++) { /* a multiple of all lanes */
    bool window = truth_of(model, i) == &truth_window;
    if (window) model->first_cell[i] = window_cell_of(model, i, model->edge_us) / 4 * 4;
    if (window) model->first_cell[i] -= CELLS_MOST / 2;
  }
}

/* What the checks need to know of a scope. */
static void classify(struct model *model) {
  model->one_window = model->stack.count == 1 && truth_of(model, 0) == &truth_window;
  for (int i = 0; i < (int)model->stack.count; i++) {
    bool bucket = weir_rule_moves_in_time(&model->stack.rules[i]);
    if (bucket) model->keeps_order = true;
    bool held = weir_rule_is_held(&model->stack.rules[i]);
    if (held) model->gives_back = true;
    if (held || model->stack.rules[i].kind == WEIR_SLIDING_LOG ||
        (bucket && model->stack.count > 1))
      model->reads_clocks = true;
  }
  bool alone = model->keeps_order && model->stack.count == 1 &&
               !(model->scope->flags & (RAISES | EVICTION | LOCAL_DENIAL | OUTAGES));
  model->linear = alone && model->scope->lease_us == 0;
  for (int i = 0; i < CLIENTS_MOST * REQUESTS_MOST; i++) {
    enum wish wish = model->requests[i / REQUESTS_MOST][i % REQUESTS_MOST].wanted[0].wish;
    const struct wanted *wanted = &model->requests[i / REQUESTS_MOST][i % REQUESTS_MOST].wanted[0];
    if (wanted->limit != 0) model->has_limits = true;
    if (wish == REFUNDS || wish == CANCELS || wish == SETTLES) model->gives_back = true;
    if (wish == SETTLES) model->settles = true;
  }
  bool alone_back = model->keeps_order && model->stack.count == 1 && model->gives_back &&
                    !model->settles && model->scope->lease_us == 0 &&
                    !(model->scope->flags & (EVICTION | LOCAL_DENIAL | OUTAGES));
  model->exact =
      (model->gives_back ? alone_back : alone) && !(model->scope->flags & (LATE | OVERDUE));
}

void model_keep_nothing_back(weir_rule *rule) {
  int64_t lease_us = rule->lease_us;
  rule->lease_us = 0;
  weir_rule_set_limit(rule, rule->limit);
  rule->lease_us = lease_us;
}

static bool configure(struct model *model) {
  const struct scope *scope = model->scope;
  weir_message message;
  if (weir_stack_parse(scope->rules, scope->processes, &model->stack, &message) != WEIR_OK) {
    fprintf(stderr, "%s: %s\n", scope->name, message.text);
    return false;
  }
  bool held = false;
  for (size_t i = 0; i < model->stack.count; i++) {
    weir_rule *rule = &model->stack.rules[i];
    if (!weir_rule_is_held(rule)) continue;
    rule->period_us = EPOCH_US;
    held = true;
  }
  if (held && weir_stack_lay_out(&model->stack, scope->processes, &message) != WEIR_OK)
    return false;
  if (scope->flags & UNEVEN) {
    model->stack.rules[0].period_us -= 2;
    if (weir_stack_lay_out(&model->stack, scope->processes, &message) != WEIR_OK) return false;
  }
  model->text = model->stack;
  model->has_classes = model->text.class_count > 0;
  set_settings(model);
  for (size_t i = 0; i < model->stack.count && scope->lease_us > 0; i++) {
    weir_rule *rule = &model->stack.rules[i];
    rule->lease_us = scope->lease_us;
    weir_rule_set_limit(rule, rule->limit); /* which finds what a bucket keeps back */
  }
  model->hasty = model->settings;
  model->hasty.ahead_us = 2 * SKEW_US + HASTY_US;
  if (model->mutant->misconfigure != NULL) {
    weir_stack once_more = model->stack;
    model->mutant->misconfigure(&once_more, &model->hasty);
    model->mutant->misconfigure(&model->stack, &model->settings);
  }
  model->another = model->stack;
  for (size_t i = 0; i < model->stack.count; i++) {
    model_keep_nothing_back(&model->another.rules[i]);
    int64_t most = model->another.rules[i].most, greater = model->another.rules[i].limit + 1;
    if (scope->flags & TEXTS)
      weir_rule_set_limit(&model->another.rules[i], most > 0 ? most : greater);
  }
  if (scope->changed != NULL &&
      weir_stack_parse(scope->changed, scope->processes, &model->another, &message) != WEIR_OK)
    return false;
  if (scope->flags & TEXTS && scope->changed == NULL &&
      weir_stack_lay_out(&model->another, scope->processes, &message) != WEIR_OK)
    return false;
  if (model->mutant->another != NULL) model->mutant->another(&model->another, &model->settings);
  weir_stack_continue(&model->stack, &model->continued);
  weir_stack_continue(&model->another, &model->another_continued);
  model->inside_settings = model->settings;
  model->inside_settings.traits = WEIR_TRAIT_SWAP;
  weir_lease_init(&model->lease, &model->stack, &model->settings);
  if (model->mutant->misreturn != NULL) model->lease.gives_back = true;
  place_edge(model);
  return true;
}

/* A client's outage is followed by its account and by what the limiter inside remembers; one machine
 * is enough for all of those. */
static bool make_inside(struct model *model) {
  size_t operations = weir_machine_operations_most(&model->continued);
  model->inside_memo_bytes = rounded(weir_memo_bytes(&model->continued));
  model->account_bytes =
      rounded(sizeof(weir_account) + model->stack.count * sizeof(weir_account_part));
  model->outage_bytes =
      rounded(sizeof(struct outage)) + model->account_bytes + model->inside_memo_bytes;
  model->inside_machine = malloc(weir_machine_bytes(&model->continued));
  model->inside_operations = malloc(operations * sizeof *model->inside_operations);
  return model->inside_machine != NULL && model->inside_operations != NULL;
}

bool model_open(struct model *model, const struct scope *scope, const struct mutant *mutant) {
  *model = (struct model){.scope = scope, .mutant = mutant};
  if (!configure(model)) return false;
  requests_read(model);
  classify(model);
  if (!keys_open(model)) return false;
  model->memo_bytes = rounded(weir_memo_bytes(&model->stack)) + keys_memo_bytes(model);
  model->machine_bytes = rounded(weir_machine_bytes(&model->stack));
  bool leases = scope->lease_us > 0;
  size_t returns = 2 * ((size_t)leases + (model->keys != NULL));
  model->operations_bytes =
      (weir_machine_operations_most(&model->stack) + returns) * sizeof(weir_operation);
  model->wallet_bytes =
      leases ? rounded(sizeof(struct wallet)) + rounded(weir_stock_bytes(&model->stack)) : 0;
  if (scope->flags & OUTAGES && !make_inside(model)) return false;
  model->world_bytes =
      rounded(sizeof *model->world) +
      CLIENTS_MOST * (model->memo_bytes + model->machine_bytes + model->operations_bytes +
                      model->wallet_bytes + model->outage_bytes);
  if (scope->flags & CLUSTER) model->world_bytes += sizeof *model->cluster;
  model->world = malloc(model->world_bytes);
  if (model->world == NULL) return false;
  world_reset(model);
  ranges_find(model);
  return true;
}

void model_close(struct model *model) {
  free(model->world);
  free(model->inside_machine);
  free(model->inside_operations);
  keys_close(model);
}

void world_reset(struct model *model) {
  struct world *world = model->world;
  memset(world, 0, model->world_bytes);
  model->failed = CHECK_NONE;
  char *room = (char *)world + rounded(sizeof *world);
  for (int i = 0; i < CLIENTS_MOST; i++) {
    world->clients[i].memo = (weir_memo *)room;
    room += model->memo_bytes;
    world->clients[i].machine = (weir_machine *)room;
    room += model->machine_bytes;
    world->clients[i].operations = (weir_operation *)room;
    room += model->operations_bytes;
    if (model->wallet_bytes > 0) {
      world->clients[i].wallet = (struct wallet *)room;
      world->clients[i].stock = (weir_stock *)(room + rounded(sizeof(struct wallet)));
      room += model->wallet_bytes;
    }
    if (model->outage_bytes == 0) continue;
    world->clients[i].outage = (struct outage *)room;
    world->clients[i].account = (weir_account *)(room + rounded(sizeof(struct outage)));
    world->clients[i].inside =
        (weir_memo *)((char *)world->clients[i].account + model->account_bytes);
    room += model->outage_bytes;
  }
  if (model->scope->flags & CLUSTER) model->cluster = (struct cluster *)room;
  for (int i = 0; i < BEFORE_MOST && model->scope->before[i].cost != 0; i++)
    client_charge_before(model, i, model->scope->before[i]);
  if (model->tenants[0] != 0) shared_check_scope(model);
  world->real_us = model->edge_us + model->scope->instants_us[0];
  model->decisions = 0;
}

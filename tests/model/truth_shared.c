/* Shared windows: what all tenants have of every W of stamps, that a tenant has its floor, and that the counts
 * which say so hold what was admitted. */
#include <inttypes.h>

#include "mutants.h"
#include "truth.h"

/* What the store keeps of a cell (or an epoch) for the pool, and for each tenant. */
enum { FLOORS = 1, LENT, LEVEL, STOPPED, MISSED, OTHERS, NEWCOMERS, SEEN, DIVISION, DISPUTED };
enum { OWN, WANTED, TOLD, MARK, TENANT_KINDS };

static bool is_of_tenant(const struct key *key, int rule, int kind) {
  return key->used && key->rule == rule && key->place == WEIR_PLACE_TENANT &&
         key->entry % TENANT_KINDS == kind;
}

static bool is_in_pool(const struct key *key, int rule) {
  bool counts = key->entry == FLOORS || key->entry == LENT || key->entry == OTHERS;
  return key->used && key->rule == rule && key->place == WEIR_PLACE_ENTRY && counts;
}

static int64_t cell_of(const struct model *model, int rule, int64_t stamp_us) {
  return stamp_us / model->stack.rules[rule].cell_us;
}

void shared_print_place(const struct model *model, weir_place place, int64_t index, int64_t entry) {
  static const char *const of_pool[] = {"",        "floors",   "lent",    "level",
                                        "stopped", "missed",   "others",  "newcomers",
                                        "seen",    "division", "disputed"};
  static const char *const of_tenant[] = {"own", "wanted", "told", "mark"};
  const char *kind = place == WEIR_PLACE_TENANT ? of_tenant[entry % TENANT_KINDS] : of_pool[entry];
  story_print(model, "%s %" PRId64, kind, index);
  if (place == WEIR_PLACE_TENANT) story_print(model, " of %c", (char)(entry / TENANT_KINDS));
}

/* --- reads -------------------------------------------------------------------------------------
 */

/* The earliest cell that a client may still write to. */
static int64_t earliest_cell(const struct model *model, const struct client *client) {
  int64_t cell = cell_of(model, 0, world_clock_us(model, client));
  int64_t place = client->busy ? client->machine->rule_states[0].place : cell;
  return place < cell ? place : cell;
}

bool shared_reads_what_stays(const struct model *model, const struct client *client) {
  size_t index;
  bool sends = client->busy && !client->paused && (size_t)client->landed < client_sent(client);
  bool any = model->settles || model->scope->flags & (LOSS | OVERDUE | EVICTION);
  if (model->tenants[0] == 0 || any || !sends || model->mutant->reorder != NULL) return false;
  struct sent next = world_next_operation(model, client, &index);
  const weir_counter *counter = &next.operation.counter;
  if (next.operation.kind != WEIR_GET || counter->place != WEIR_PLACE_ENTRY) return false;
  if (counter->entry == DIVISION) { /* it is made once */
    const struct key *key = store_find(model, 0, counter->place, counter->index, DIVISION);
    return key != NULL && key->present;
  }
  if (counter->entry == SEEN || counter->entry == DISPUTED) return false;
  for (int i = 0; i < CLIENTS_MOST; i++)
    if (model->tenants[i] != 0 && counter->index >= earliest_cell(model, &model->world->clients[i]))
      return false;
  return true;
}

/* --- what must be there ------------------------------------------------------------------------
 */

/* What was admitted to a tenant in a cell. Real costs change nothing of it. */
static int64_t owed_to_tenant(const struct model *model, int rule, int64_t cell, char tenant) {
  int64_t owed = 0;
  for (int n = 0; n < RECORDS_MOST; n++) {
    const struct record *record = &model->world->records[n];
    if (record->state == ADMITTED && record_tenant(model, n) == tenant &&
        cell_of(model, rule, record->stamp_us) == cell)
      owed += record->cost[rule];
  }
  return owed;
}

static int64_t owed_to_pool(const struct model *model, int rule, int64_t cell) {
  int64_t owed = 0;
  for (int n = 0; n < RECORDS_MOST; n++)
    if (cell_of(model, rule, model->world->records[n].stamp_us) == cell)
      owed += record_charge(&model->world->records[n], rule, true);
  return owed;
}

static int64_t pool_holds(const struct model *model, int rule, int64_t cell) {
  int64_t sum = 0;
  for (int i = 0; i < KEYS_MOST && model->world->keys[i].used; i++) {
    const struct key *key = &model->world->keys[i];
    if (is_in_pool(key, rule) && key->index == cell) sum += key->value;
  }
  return sum;
}

static void check_cell(struct model *model, int rule, int64_t cell) {
  int64_t owed = owed_to_pool(model, rule, cell), there = pool_holds(model, rule, cell);
  if (model->world->evicted) return;
  if (there < owed)
    check_fails(model, CHECK_FORGOTTEN,
                "the pool of cell %" PRId64 " holds %" PRId64 " of the %" PRId64 " it must hold",
                cell, there, owed);
  for (int i = 0; i < KEYS_MOST && model->world->keys[i].used; i++) {
    const struct key *key = &model->world->keys[i];
    if (!is_of_tenant(key, rule, OWN) || key->index != cell) continue;
    owed = owed_to_tenant(model, rule, cell, (char)(key->entry / TENANT_KINDS));
    if (key->value < owed)
      check_fails(model, CHECK_FORGOTTEN,
                  "the count of a tenant in cell %" PRId64 " holds %" PRId64 " of %" PRId64, cell,
                  key->value, owed);
  }
}

/* --- what happens ------------------------------------------------------------------------------
 */

/* What others, or this client before, have asked for its tenant and not given back. */
static void notice(const struct model *model, struct key *key, int client) {
  int64_t others = key->value - key->charged[client];
  if (key->entry / TENANT_KINDS == model->tenants[client] && others > key->seen[client])
    key->seen[client] = (int32_t)others;
}

static void begins(struct model *model, struct client *client, int rule) {
  int number = world_client_number(model, client);
  for (int i = 0; i < KEYS_MOST && model->world->keys[i].used; i++) {
    struct key *key = &model->world->keys[i];
    if (!is_of_tenant(key, rule, OWN)) continue;
    key->seen[number] = 0;
    notice(model, key, number);
  }
}

/* Who was seen in an epoch has a mark there, and counts once. */
static void check_seen(struct model *model, const struct key *seen) {
  int64_t marks = 0;
  for (int i = 0; i < KEYS_MOST && model->world->keys[i].used; i++) {
    const struct key *key = &model->world->keys[i];
    marks += is_of_tenant(key, seen->rule, MARK) && key->present && key->index == seen->index;
  }
  if (seen->value > marks)
    check_fails(model, CHECK_ONCE, "%" PRId64 " are counted where %" PRId64 " were seen",
                seen->value, marks);
}

static void landed(struct model *model, struct client *client, const weir_operation *operation,
                   struct key *key, int64_t before) {
  int rule = key->rule;
  bool of_pool = key->place == WEIR_PLACE_ENTRY;
  if (of_pool && key->entry == LEVEL && before != 0)
    check_fails(model, CHECK_ONCE, "the level of cell %" PRId64 " is made twice", key->index);
  if (of_pool && key->entry == SEEN && !model->world->evicted) check_seen(model, key);
  bool own = is_of_tenant(key, rule, OWN);
  if (own && client != NULL) {
    int64_t change = operation->kind == WEIR_ADD ? operation->delta : key->value - before;
    key->charged[world_client_number(model, client)] += (int32_t)change;
  }
  for (int i = 0; i < CLIENTS_MOST && own; i++)
    if (model->world->clients[i].busy) notice(model, key, i);
  if (own || is_in_pool(key, rule)) check_cell(model, rule, key->index);
}

static void admitted(struct model *model, struct client *client, int rule,
                     const struct record *record) {
  (void)client;
  check_cell(model, rule, cell_of(model, rule, record->stamp_us));
}

/* What has left every window may stay. */
static void refunded(struct model *model, int rule, const struct record *record, int64_t cost) {
  const weir_rule *layout = &model->stack.rules[rule];
  int64_t cell = cell_of(model, rule, record->stamp_us);
  int64_t end_us = (cell + 1) * layout->cell_us + layout->period_us;
  if (end_us - SKEW_US <= model->last_us) model->world->leak[rule] += cost;
}

/* A named tenant has its floor, whatever others do, but while its rule changes. What may be lent is steered. */
static bool denies(const struct model *model, const struct client *client, int i,
                   const weir_claim *request, const struct record *record, int64_t cost) {
  int number = world_client_number(model, client);
  if (model->scope->changed != NULL) return true;
  int64_t floor = weir_rule_floor(&client_stack(model, client)->rules[i], request->ask.weight);
  const struct key *key =
      store_find(model, i, WEIR_PLACE_TENANT, cell_of(model, i, record->stamp_us),
                 model->tenants[number] * TENANT_KINDS + OWN);
  return (key != NULL ? key->seen[number] : 0) + cost > floor;
}

/* --- the scope ---------------------------------------------------------------------------------
 */

/* All that a client may be charged. */
static int64_t asked_by(const struct model *model, int client) {
  int64_t sum = 0, last = 0;
  for (int i = 0; i < REQUESTS_MOST * GROUP_MOST; i++) {
    const struct wanted *wanted = &model->requests[client][i / GROUP_MOST].wanted[i % GROUP_MOST];
    if (!wanted->given) continue;
    bool settles = wanted->wish == SETTLES;
    if (settles && wanted->cost <= last) continue;
    sum += wanted->cost - (settles ? last : 0);
    last = wanted->cost;
  }
  return sum;
}

static int64_t largest_bound(const struct model *model, int i, bool settlements) {
  const weir_rule *rule = &(model->scope->flags & TEXTS ? &model->another : &model->text)->rules[i];
  if (model->text.rules[i].limit > rule->limit) rule = &model->text.rules[i];
  return rule->limit + (settlements ? rule->debt : 0);
}

/* Where all that is asked is within the bound, the bound says nothing. */
void shared_check_scope(struct model *model) {
  int64_t sum = 0, most = largest_bound(model, 0, model->settles);
  for (int i = 0; i < BEFORE_MOST; i++)
    sum += model->scope->before[i].cost;
  for (int i = 0; i < CLIENTS_MOST; i++)
    sum += asked_by(model, i);
  if (sum <= most)
    check_fails(model, CHECK_BOUND, "only %" PRId64 " are asked, where %" PRId64 " are allowed",
                sum, most);
}

/* --- the bound ---------------------------------------------------------------------------------
 */

static void bound_with(struct model *model, int i, bool settlements) {
  const struct record *records = model->world->records;
  const weir_rule *rule = &model->text.rules[i];
  int64_t most = largest_bound(model, i, settlements) + model->world->slack[i];
  for (int first = 0; first < RECORDS_MOST; first++) {
    int64_t begin_us = records[first].stamp_us, sum = 0;
    if (record_charge(&records[first], i, settlements) == 0) continue;
    for (int n = 0; n < RECORDS_MOST; n++)
      if (records[n].stamp_us >= begin_us && records[n].stamp_us < begin_us + rule->period_us)
        sum += record_charge(&records[n], i, settlements);
    if (sum > most)
      check_fails(model, CHECK_BOUND,
                  "%" PRId64 " %s from E%+" PRId64 " us on within one period, %" PRId64 " allowed",
                  sum, settlements ? "charged" : "admitted", begin_us - model->edge_us, most);
  }
}

static void bound(struct model *model, int i) {
  bound_with(model, i, false);
  if (model->settles) bound_with(model, i, true);
}

/* --- the end -----------------------------------------------------------------------------------
 */

/* A cell counts until it has left the window of the latest clock. */
static int64_t least_ttl_us(const struct model *model, int i) {
  const weir_rule *rule = &model->stack.rules[i];
  return rule->period_us + rule->cell_us + FINAL_US;
}

static void end(struct model *model, int rule) {
  int64_t of_tenants = 0, of_pool = 0;
  for (int i = 0; i < KEYS_MOST && model->world->keys[i].used; i++) {
    const struct key *key = &model->world->keys[i];
    if (is_of_tenant(key, rule, OWN)) of_tenants += key->value;
    if (is_in_pool(key, rule)) of_pool += key->value;
  }
  for (int n = 0; n < RECORDS_MOST; n++) {
    const struct record *record = &model->world->records[n];
    if (record->state == ADMITTED) of_tenants -= record->cost[rule];
    of_pool -= record_charge(record, rule, true);
  }
  check_leak(model, rule, of_tenants);
  check_leak(model, rule, of_pool);
}

/* Its tenant has one floor more in that cell; what the pool held is free once more. */
static void evicted(struct model *model, const struct key *key, int64_t value) {
  int rule = key->rule;
  const weir_rule *text = &model->text.rules[rule];
  const char tenant = (char)(key->entry / TENANT_KINDS);
  if (is_of_tenant(key, rule, OWN))
    model->world->slack[rule] += weir_rule_floor(text, weir_rule_weight(text, &tenant, 1));
  if (is_in_pool(key, rule)) model->world->slack[rule] += value;
}

/* While it moves from a floor to what is lent it counts twice. */
static void excuse(struct model *model, const struct client *client, int rule) {
  model->world->leak[rule] += settle_owes(client, rule);
  for (int i = 0; i < GROUP_MOST; i++)
    if (client->requests[i].ask.kind == WEIR_TAKE)
      model->world->leak[rule] += 2 * weir_claim_cost(&client->requests[i], (size_t)rule);
}

static void excuse_sent(struct model *model, const struct client *client,
                        const weir_operation *operation) {
  (void)client;
  bool sums = operation->kind == WEIR_ADD || operation->kind == WEIR_SUB;
  if (sums) model->world->leak[operation->counter.rule] += operation->delta;
}

const struct truth truth_shared = {
    .begins = begins,
    .landed = landed,
    .admitted = admitted,
    .refunded = refunded,
    .denies = denies,
    .least_ttl_us = least_ttl_us,
    .bound = bound,
    .end = end,
    .evicted = evicted,
    .excuse = excuse,
    .excuse_sent = excuse_sent,
};

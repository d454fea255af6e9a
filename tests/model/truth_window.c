/* Windows: what others have in every cell, and what a window may admit. Beside the counters stands
 * a shadow with one counter for every cell, which cannot carry. */
#include <inttypes.h>

#include "algorithm/window.h"
#include "truth.h"

int64_t window_cell_of(const struct model *model, int rule, int64_t stamp_us) {
  return stamp_us / model->stack.rules[rule].cell_us;
}

/* A charge is less than a lane holds: its lane is the highest that it reaches. */
int64_t window_cell_meant(const struct model *model, const weir_operation *operation,
                          int64_t *amount) {
  const weir_rule *rule = &model->stack.rules[operation->counter.rule];
  int lane = rule->lanes - 1;
  while (lane > 0 && operation->delta >> (rule->lane_bits * lane) == 0)
    lane--;
  *amount = operation->delta >> (rule->lane_bits * lane);
  return operation->counter.index * rule->lanes + lane;
}

/* Where a cell stands in the world's arrays; -1, and the run fails, outside of them. */
static int slot_of(struct model *model, int rule, int64_t cell) {
  int64_t slot = cell - model->first_cell[rule];
  if (slot >= 0 && slot < CELLS_MOST) return (int)slot;
  check_fails(model, CHECK_STATUS, "rule %d: cell %" PRId64 " is far from the edge", rule, cell);
  return -1;
}

/* A cell that was finished by this client's clock when its last request ended may be remembered as
 * it was then, for memo_age; all others are seen anew. */
static void begins(struct model *model, struct client *client, int rule) {
  int64_t width = model->stack.rules[rule].cell_us;
  bool lately = client->start_us - client->round_us <= model->settings.memo_age_us;
  for (int slot = 0; slot < CELLS_MOST; slot++) {
    bool kept =
        lately && (model->first_cell[rule] + slot + 1) * width + FINAL_US <= client->round_us;
    int32_t now = model->world->shadow[rule][slot];
    now -= (int32_t)lease_returning(client, model->first_cell[rule] + slot);
    if (!kept || now > client->seen[rule][slot]) client->seen[rule][slot] = now > 0 ? now : 0;
  }
}

/* --- counters ----------------------------------------------------------------------------------
 */

/* Every lane holds what its cell holds, and no admitted cost is gone. */
static void check_counter(struct model *model, int rule, int64_t index) {
  struct world *world = model->world;
  const weir_rule *layout = &model->stack.rules[rule];
  const struct key *key = store_find(model, rule, WEIR_PLACE_COUNT, index, 0);
  int64_t counter = key != NULL && key->present ? key->value : 0;
  int64_t counts[WEIR_LANES_MOST];
  weir_cells_decode(layout, counter, counts);
  for (int lane = 0; lane < layout->lanes; lane++) {
    int64_t cell = index * layout->lanes + lane;
    int64_t slot = cell - model->first_cell[rule];
    if (slot < 0 || slot >= CELLS_MOST) continue;
    int32_t shadow = world->shadow[rule][slot];
    int64_t stored = counts[lane];
    if (stored != (shadow > 0 ? shadow : 0))
      check_fails(model, CHECK_LANES,
                  "cell %" PRId64 " was charged %" PRId32 ", its lane reads %" PRId64, cell, shadow,
                  stored);
    if (!world->evicted && shadow < world->owed[rule][slot])
      check_fails(model, CHECK_FORGOTTEN, "cell %" PRId64 " holds %d of the %d it must hold", cell,
                  (int)shadow, (int)world->owed[rule][slot]);
  }
}

/* Others' part of a cell, as this client might see it. */
static void notice(const struct model *model, struct client *client, int rule, int slot) {
  int64_t others = model->world->shadow[rule][slot];
  others -= lease_returning(client, model->first_cell[rule] + slot);
  if (client->charged_cell[rule] == model->first_cell[rule] + slot) others -= client->charged[rule];
  if (others > client->seen[rule][slot]) client->seen[rule][slot] = (int32_t)others;
}

static void landed(struct model *model, struct client *client, const weir_operation *operation,
                   struct key *key, int64_t before) {
  (void)key;
  (void)before;
  int rule = (int)operation->counter.rule;
  int64_t amount;
  int64_t cell = window_cell_meant(model, operation, &amount);
  int slot = slot_of(model, rule, cell);
  if (slot < 0) return;
  if (operation->kind == WEIR_SUB) amount = -amount;
  model->world->shadow[rule][slot] += (int32_t)amount;
  if (client != NULL && !settle_gives_back(client, rule)) {
    if (amount > 0) client->charged_cell[rule] = cell;
    if (amount > 0 && model->has_limits) client->found = model->world->shadow[rule][slot];
    client->charged[rule] += amount;
  }
  for (int i = 0; i < CLIENTS_MOST; i++)
    if (model->world->clients[i].busy) notice(model, &model->world->clients[i], rule, slot);
  check_counter(model, rule, operation->counter.index);
}

static void evicted(struct model *model, const struct key *key, int64_t value) {
  (void)value;
  struct world *world = model->world;
  int rule = key->rule;
  int lanes = model->stack.rules[rule].lanes;
  const weir_rule *layout = &model->stack.rules[rule];
  world->slack[rule] += model->has_limits ? layout->most : layout->limit;
  for (int64_t cell = key->index * lanes; cell < (key->index + 1) * lanes; cell++) {
    int64_t slot = cell - model->first_cell[rule];
    if (slot >= 0 && slot < CELLS_MOST) world->shadow[rule][slot] = 0;
  }
  for (int i = 0; i < CLIENTS_MOST; i++) {
    struct client *client = &world->clients[i];
    if (client->busy && client->charged_cell[rule] / lanes == key->index)
      world->slack[rule] += client->charged[rule];
  }
}

/* --- decisions ---------------------------------------------------------------------------------
 */

static void owes(struct model *model, int rule, int64_t cell, int64_t cost) {
  int slot = slot_of(model, rule, cell);
  if (slot < 0) return;
  model->world->owed[rule][slot] += (int32_t)cost;
  check_counter(model, rule, cell / model->stack.rules[rule].lanes);
}

static void owe(struct model *model, int rule, int64_t stamp_us, int64_t cost) {
  owes(model, rule, window_cell_of(model, rule, stamp_us), cost);
}

/* The most that any interval W of decision stamps may hold. */
static int64_t bound_of(const weir_rule *rule, int64_t limit) {
  if (!weir_rule_slides(rule) || rule->strict) return limit;
  if (rule->cells <= 2) return 2 * limit;
  return limit + (2 * limit + rule->cells - 1) / rule->cells;
}

static void admitted(struct model *model, struct client *client, int rule,
                     const struct record *record) {
  const weir_rule *layout = &model->stack.rules[rule];
  bool alone = client->requests[1].ask.cost == 0;
  int64_t found = client->found - lease_asked(client);
  if (model->has_limits && alone && found > bound_of(layout, record->limit))
    check_fails(model, CHECK_BOUND,
                "client %d was admitted where its cell held %" PRId64 ", by a limit of %" PRId32,
                world_client_number(model, client), found, record->limit);
  owe(model, rule, record->stamp_us, record->cost[rule] - record->less[rule] - record->held);
}

static void denied(struct model *model, struct client *client, int rule,
                   const struct record *record) {
  if (model->stack.rules[rule].count_all && client->charged[rule] > 0)
    owe(model, rule, record->stamp_us, record->cost[rule]);
}

/* What has left every window may stay. */
static void refunded(struct model *model, int rule, const struct record *record, int64_t cost) {
  const weir_rule *layout = &model->stack.rules[rule];
  int64_t cell = window_cell_of(model, rule, record->stamp_us);
  int64_t end = (cell + 1) * layout->cell_us;
  if (weir_rule_slides(layout)) end += layout->period_us;
  owe(model, rule, record->stamp_us, -cost);
  if (end - SKEW_US <= model->last_us) model->world->leak[rule] += cost;
}

static int64_t seen_in(const struct model *model, const struct client *client, int rule,
                       int64_t cell) {
  int64_t slot = cell - model->first_cell[rule];
  return slot >= 0 && slot < CELLS_MOST ? client->seen[rule][slot] : 0;
}

static bool denies(const struct model *model, const struct client *client, int i,
                   const weir_claim *request, const struct record *record, int64_t cost) {
  const weir_rule *rule = &client_stack(model, client)->rules[i];
  int64_t limit = class_limit_of(model, i, rule, request->ask.class);
  if (model->has_limits) limit = keys_least(model, client, record);
  int64_t stamp_us = record->stamp_us;
  int64_t width = rule->cell_us;
  int64_t current = stamp_us / width;
  int64_t inside = cost;
  if (!weir_rule_slides(rule)) return inside + seen_in(model, client, i, current) > limit;
  int64_t edge = (stamp_us - rule->period_us) / width; /* stamps are far above one period */
  int64_t left = (edge + 1) * width - 1 - (stamp_us - rule->period_us);
  int64_t own_ahead_us = 2 * SKEW_US + client_deadline_us(model, client);
  int64_t ahead = (stamp_us + own_ahead_us) / width > current ? current + 1 : current;
  for (int64_t cell = edge + 1; cell <= ahead; cell++)
    inside += seen_in(model, client, i, cell);
  int64_t old = seen_in(model, client, i, edge);
  int64_t upper = inside + (left > 0 ? old : 0);
  if (rule->strict) return upper > limit;
  int64_t estimate = inside + (2 * old * left + width) / (2 * width);
  return estimate > limit || upper > limit + (2 * limit + rule->cells - 1) / rule->cells;
}

/* --- the bound ---------------------------------------------------------------------------------
 */

/* Whether an admission at `stamp` lies in the interval that begins with one at `first`. */
static bool same_interval(const weir_rule *rule, int64_t first, int64_t stamp) {
  if (!weir_rule_slides(rule)) return first / rule->period_us == stamp / rule->period_us;
  return stamp >= first && stamp < first + rule->period_us;
}

static void bound_with(struct model *model, int i, bool settlements, unsigned class) {
  const struct record *records = model->world->records;
  bool texts = model->scope->flags & TEXTS;
  const weir_rule *rule =
      &(texts ? &model->another : &model->stack)->rules[i]; /* the larger limit */
  int64_t limit = class_limit_of(model, i, rule, class);
  int64_t more = model->world->slack[i] + (settlements ? rule->debt : 0);
  for (int first = 0; first < RECORDS_MOST; first++) {
    if (!class_is_within(&records[first], class) ||
        record_charge(&records[first], i, settlements) == 0)
      continue;
    int64_t sum = 0;
    int64_t begin = records[first].stamp_us;
    int32_t largest = 0; /* that any of them may have been judged by */
    for (int n = 0; n < RECORDS_MOST; n++) {
      if (!class_is_within(&records[n], class) || !same_interval(rule, begin, records[n].stamp_us))
        continue;
      sum += record_charge(&records[n], i, settlements);
      if (records[n].state == ADMITTED && records[n].limit > largest) largest = records[n].limit;
    }
    int64_t most = bound_of(rule, model->has_limits ? largest : limit) + more;
    if (sum > most)
      check_fails(model, CHECK_BOUND,
                  "rule %d: %" PRId64 " %s from E%+" PRId64 " us on within one period, %" PRId64
                  " allowed",
                  i, sum, settlements ? "charged" : "admitted", begin - model->edge_us, most);
  }
}

static void bound(struct model *model, int i) {
  bool settles = model->settles && !model->stack.rules[i].count_all;
  for (unsigned class = 0; class <= model->text.class_count; class ++) {
    bound_with(model, i, false, class);
    if (settles) bound_with(model, i, true, class);
  }
}

/* --- the end -----------------------------------------------------------------------------------
 */

/* A counter is needed until its last cell has left the window of the latest clock. */
static int64_t least_ttl_us(const struct model *model, int i) {
  const weir_rule *rule = &model->stack.rules[i];
  return rule->lanes * rule->cell_us + rule->period_us + FINAL_US;
}

static void end(struct model *model, int rule) {
  const struct world *world = model->world;
  int64_t left = 0;
  for (int slot = 0; slot < CELLS_MOST; slot++)
    left += world->shadow[rule][slot] - world->owed[rule][slot];
  check_leak(model, rule, left);
}

static void excuse(struct model *model, const struct client *client, int rule) {
  model->world->leak[rule] += client->charged[rule] + settle_owes(client, rule);
}

static void excuse_sent(struct model *model, const struct client *client,
                        const weir_operation *operation) {
  (void)client;
  int64_t amount;
  window_cell_meant(model, operation, &amount);
  if (operation->kind == WEIR_ADD) model->world->leak[operation->counter.rule] += amount;
}

const struct truth truth_window = {
    .begins = begins,
    .landed = landed,
    .admitted = admitted,
    .denied = denied,
    .refunded = refunded,
    .owes = owes,
    .denies = denies,
    .least_ttl_us = least_ttl_us,
    .bound = bound,
    .end = end,
    .evicted = evicted,
    .excuse = excuse,
    .excuse_sent = excuse_sent,
};

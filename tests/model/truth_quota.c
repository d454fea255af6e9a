/* Quotas: windows of one key never overlap, and hold at most L each. */
#include <inttypes.h>
#include <string.h>

#include "algorithm/plan.h"
#include "truth.h"

bool is_count(const struct key *key, int rule) {
  return key->used && key->rule == rule && key->place == WEIR_PLACE_COUNT;
}

/* A count that was made by an addition which found none: nobody is admitted there. */
static bool is_void(const struct model *model, const struct key *key) {
  return weir_count_is_lost(&model->stack.rules[key->rule], key->value);
}

/* Others' part of a window, as this client might see it. */
static void notice(const struct model *model, struct key *key, int client) {
  if (is_void(model, key)) return;
  int64_t others = key->value - key->charged[client];
  others -= lease_returning(&model->world->clients[client], key->index);
  if (others > key->seen[client]) key->seen[client] = (int32_t)others;
}

static void begins(struct model *model, struct client *client, int rule) {
  int number = world_client_number(model, client);
  for (int i = 0; i < KEYS_MOST; i++) {
    struct key *key = &model->world->keys[i];
    if (!is_count(key, rule)) continue;
    key->seen[number] = 0;
    notice(model, key, number);
  }
}

static void check_count(struct model *model, const struct key *key) {
  const struct world *world = model->world;
  int64_t slack = world->flushed ? world->slack[key->rule] : 0;
  if (!world->evicted && key->value + slack < key->owed)
    check_fails(model, CHECK_FORGOTTEN,
                "the window from E%+" PRId64 " on holds %" PRId64 " of the %" PRId32
                " it must hold",
                key->index - model->edge_us, key->value, key->owed);
}

static void landed(struct model *model, struct client *client, const weir_operation *operation,
                   struct key *key, int64_t before) {
  int rule = (int)operation->counter.rule;
  if (!is_count(key, rule)) return;
  if (client != NULL && !settle_gives_back(client, rule)) {
    int64_t change = operation->kind == WEIR_ADD ? operation->delta : key->value - before;
    key->charged[world_client_number(model, client)] += (int32_t)change;
    if (operation->kind == WEIR_ADD) client->charged_cell[rule] = key->index;
  }
  for (int i = 0; i < CLIENTS_MOST; i++)
    if (model->world->clients[i].busy) notice(model, key, i);
  check_count(model, key);
}

static void owe(struct model *model, int rule, int64_t start_us, int64_t cost) {
  struct key *key = store_find(model, rule, WEIR_PLACE_COUNT, start_us, 0);
  if (key == NULL) {
    check_fails(model, CHECK_OVERLAP, "admitted, but charged to no window");
    return;
  }
  if (model->world->flushed && (!key->present || is_void(model, key))) return; /* charged before */
  key->owed += (int32_t)cost;
  check_count(model, key);
}

static void admitted(struct model *model, struct client *client, int rule,
                     const struct record *record) {
  int64_t start = client->charged_cell[rule];
  int64_t since = record->stamp_us - start;
  int64_t cost = record->cost[rule] - record->less[rule] - record->held;
  const struct key *key = store_find(model, rule, WEIR_PLACE_COUNT, start, 0);
  bool before =
      model->world->flushed && key != NULL && key->charged[world_client_number(model, client)] <= 0;
  if (before) return; /* it was charged before the flush */
  if (cost > 0 && key != NULL && is_void(model, key))
    check_fails(model, CHECK_BOUND, "admitted into a window that was lost");
  model->world->records[record - model->world->records].mark[rule] = start;
  owe(model, rule, start, cost);
  if (since < -MARGIN_US || since >= model->stack.rules[rule].period_us)
    check_fails(model, CHECK_OVERLAP, "admitted at E%+" PRId64 " into the window from E%+" PRId64,
                record->stamp_us - model->edge_us, start - model->edge_us);
}

static void denied(struct model *model, struct client *client, int rule,
                   const struct record *record) {
  const struct key *key = store_find(model, rule, WEIR_PLACE_COUNT, client->charged_cell[rule], 0);
  bool charged = key != NULL && key->charged[world_client_number(model, client)] > 0;
  if (model->stack.rules[rule].count_all && charged)
    owe(model, rule, client->charged_cell[rule], record->cost[rule]);
}

static void refunded(struct model *model, int rule, const struct record *record, int64_t cost) {
  int64_t end = record->mark[rule] + model->stack.rules[rule].period_us;
  owe(model, rule, record->mark[rule], -cost);
  if (end - SKEW_US <= model->last_us) model->world->leak[rule] += cost;
}

/* Of limits that differ, the larger one. */
static const weir_rule *largest(const struct model *model, int i) {
  return &(model->scope->flags & TEXTS ? &model->another : &model->stack)->rules[i];
}

static bool denies(const struct model *model, const struct client *client, int i,
                   const weir_claim *request, const struct record *record, int64_t cost) {
  const weir_rule *rule = &model->stack.rules[i];
  bool texts = model->scope->flags & TEXTS;
  const weir_rule *own = texts ? &client_stack(model, client)->rules[i] : rule;
  int64_t limit = class_limit_of(model, i, own, request->ask.class);
  int number = world_client_number(model, client);
  if (cost > limit) return true;
  for (int n = 0; n < KEYS_MOST; n++) {
    const struct key *key = &model->world->keys[n];
    if (!is_count(key, i) || key->seen[number] + cost <= limit) continue;
    int64_t since = record->stamp_us - key->index;
    if (since >= -MARGIN_US && since < rule->period_us) return true;
  }
  return false;
}

static void check_apart(struct model *model, int i, const struct key *a, const struct key *b) {
  if (a->owed > 0 && b->owed > 0 && b->index - a->index < model->stack.rules[i].period_us)
    check_fails(model, CHECK_OVERLAP, "windows from E%+" PRId64 " and from E%+" PRId64 " overlap",
                a->index - model->edge_us, b->index - model->edge_us);
}

/* What was admitted into a window, or (with settlements) charged. */
static void check_admitted(struct model *model, int i, const struct key *key, bool settlements,
                           unsigned class) {
  int64_t most = class_limit_of(model, i, largest(model, i), class) + model->world->slack[i] +
                 (settlements ? model->stack.rules[i].debt : 0);
  int64_t sum = 0;
  for (int n = 0; n < RECORDS_MOST; n++)
    if (class_is_within(&model->world->records[n], class) &&
        model->world->records[n].mark[i] == key->index)
      sum += record_charge(&model->world->records[n], i, settlements);
  if (sum > most)
    check_fails(model, CHECK_BOUND,
                "%" PRId64 " %s in the window from E%+" PRId64 ", %" PRId64 " allowed", sum,
                settlements ? "charged" : "admitted", key->index - model->edge_us, most);
}

static void bound(struct model *model, int i) {
  const struct world *world = model->world;
  int64_t limit = largest(model, i)->limit + world->slack[i];
  int64_t most = limit + model->stack.rules[i].debt;
  for (int n = 0; n < KEYS_MOST; n++) {
    const struct key *key = &world->keys[n];
    if (!is_count(key, i)) continue;
    if (model->settles) check_admitted(model, i, key, false, 0);
    for (unsigned class = 1; class <= model->text.class_count; class ++) {
      check_admitted(model, i, key, false, class);
      if (model->settles) check_admitted(model, i, key, true, class);
    }
    if (key->owed > most && !model->stack.rules[i].count_all)
      check_fails(model, CHECK_BOUND,
                  "%" PRId32 " admitted in the window from E%+" PRId64 ", %" PRId64 " allowed",
                  key->owed, key->index - model->edge_us, most);
    for (int m = n + 1; m < KEYS_MOST && !world->evicted; m++)
      if (is_count(&world->keys[m], i)) check_apart(model, i, key, &world->keys[m]);
  }
}

static int64_t least_ttl_us(const struct model *model, int rule) {
  return 3 * model->stack.rules[rule].period_us + FINAL_US;
}

void counts_check_end(struct model *model, int rule) {
  const struct world *world = model->world;
  int64_t left = 0;
  for (int i = 0; i < KEYS_MOST; i++)
    if (is_count(&world->keys[i], rule) && !is_void(model, &world->keys[i]))
      left += world->keys[i].value - world->keys[i].owed;
  check_leak(model, rule, left);
}

static int64_t in_flight(const struct key *key) {
  int64_t sum = 0;
  for (int i = 0; i < CLIENTS_MOST; i++)
    sum += key->charged[i];
  return sum;
}

static void evicted(struct model *model, const struct key *key, int64_t value) {
  (void)value;
  if (key->place == WEIR_PLACE_COUNT)
    model->world->slack[key->rule] += model->stack.rules[key->rule].limit + in_flight(key);
}

/* From now on all must be as it is on an empty store: nothing is owed that was charged before. But what
 * is on its way back may meet a window that begins when a lost one did. */
static void flushed(struct model *model, struct key *key) {
  model->world->slack[key->rule] += in_flight(key);
  key->owed = 0;
  memset(key->charged, 0, sizeof key->charged);
}

static void excuse(struct model *model, const struct client *client, int rule) {
  int number = world_client_number(model, client);
  model->world->leak[rule] += settle_owes(client, rule);
  for (int i = 0; i < KEYS_MOST; i++)
    if (is_count(&model->world->keys[i], rule))
      model->world->leak[rule] += model->world->keys[i].charged[number];
}

void counts_excuse_sent(struct model *model, const struct client *client,
                        const weir_operation *operation) {
  (void)client;
  if (operation->kind == WEIR_ADD) model->world->leak[operation->counter.rule] += operation->delta;
}

const struct truth truth_quota = {
    .begins = begins,
    .landed = landed,
    .admitted = admitted,
    .denied = denied,
    .refunded = refunded,
    .owes = owe,
    .denies = denies,
    .least_ttl_us = least_ttl_us,
    .bound = bound,
    .end = counts_check_end,
    .evicted = evicted,
    .flushed = flushed,
    .excuse = excuse,
    .excuse_sent = counts_excuse_sent,
};

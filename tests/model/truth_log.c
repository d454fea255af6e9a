/* Sliding logs: at most L in any W - 2d of real time. Those of one stack are one log, which the
 * first of them writes: what is in the store is that rule's. */
#include <inttypes.h>

#include "truth.h"

static int keeper_of(const struct model *model) {
  int rule = 0;
  while (truth_of(model, rule) != &truth_log)
    rule++;
  return rule;
}

static void begins(struct model *model, struct client *client, int rule) {
  (void)model;
  client->met &= ~(UINT32_C(1) << rule);
}

enum { NOT_CHARGED, ADDED, WRITTEN }; /* client->charged[] */

/* Others are under way: what they do to the log may be what this one is denied by. */
static void meet(struct model *model, const struct client *client, int rule) {
  for (int i = 0; i < CLIENTS_MOST; i++)
    if (model->world->clients[i].busy && &model->world->clients[i] != client)
      model->world->clients[i].met |= UINT32_C(1) << rule;
}

static void landed(struct model *model, struct client *client, const weir_operation *operation,
                   struct key *key, int64_t before) {
  (void)before;
  int rule = (int)operation->counter.rule;
  meet(model, client, rule);
  if (client == NULL) return;
  if (operation->kind == WEIR_PUT) client->charged[rule] = WRITTEN;
  if (operation->kind != WEIR_ADD) return;
  key->charged[world_client_number(model, client)] = 1;
  client->charged_cell[rule] = key->value;
  client->charged[rule] = ADDED;
}

/* How many indices of an epoch have no entry. */
static int64_t holes(const struct model *model, int rule, int64_t epoch) {
  int64_t missing = 0;
  for (int n = 0; n < KEYS_MOST; n++) {
    const struct key *key = &model->world->keys[n];
    if (!key->present || key->rule != rule || key->index != epoch) continue;
    missing += key->place == WEIR_PLACE_COUNT ? key->value : -1;
  }
  return missing;
}

/* A request that looks first and is denied leaves nothing, unless others wrote meanwhile, or it
 * was measured against a hole: then its entry is what the next one is measured against. */
static void denied(struct model *model, struct client *client, int rule,
                   const struct record *record) {
  int64_t epoch = record->stamp_us / model->stack.rules[rule].log_us;
  int64_t missing = 0;
  for (int64_t g = epoch - 1; g <= epoch + 1; g++)
    missing += holes(model, rule, g);
  if (client->charged[rule] != NOT_CHARGED && !(client->met >> rule & 1U) && missing == 0 &&
      !model->world->evicted)
    check_fails(model, CHECK_LEAK, "client %d was denied and left an entry, alone",
                world_client_number(model, client));
}

/* Indices of one epoch that count at `since_us`, and in *missing those of them that have no entry.
 */
static int64_t counted(const struct model *model, const struct client *client, int i, int64_t epoch,
                       int64_t since_us, int64_t *missing) {
  const struct world *world = model->world;
  int number = world_client_number(model, client);
  const struct key *count = NULL;
  int64_t over = 0;
  int64_t written = 0;
  for (int n = 0; n < KEYS_MOST; n++) {
    const struct key *key = &world->keys[n];
    if (!key->used || key->rule != i || key->index != epoch || !key->present) continue;
    if (key->place == WEIR_PLACE_COUNT) count = key;
    bool own = count != NULL && count->charged[number] > 0 && key->entry == client->charged_cell[i];
    if (key->place != WEIR_PLACE_ENTRY || own) continue;
    written++;
    if (key->value <= since_us) over++;
  }
  if (count == NULL) return 0;
  *missing += count->value - count->charged[number] - written;
  return count->value - count->charged[number] - over;
}

/* Whether the entry that `limit` counts back to is there, and younger than that. */
static bool is_held(const struct model *model, int i, int64_t limit, int64_t epoch,
                    int64_t since_us) {
  int64_t counts[3] = {0};
  const struct world *world = model->world;
  for (int n = 0; n < KEYS_MOST; n++) {
    const struct key *key = &world->keys[n];
    int64_t at = key->index - epoch + 1;
    if (key->used && key->present && key->rule == i && key->place == WEIR_PLACE_COUNT && at >= 0 &&
        at < 3)
      counts[at] = key->value;
  }
  int64_t entry = counts[0] + counts[1] + counts[2] - limit + 1;
  for (int at = 0; at < 2 && entry > counts[at]; at++, epoch++)
    entry -= counts[at];
  for (int n = 0; n < KEYS_MOST; n++) {
    const struct key *key = &world->keys[n];
    if (key->used && key->present && key->rule == i && key->place == WEIR_PLACE_ENTRY &&
        key->index == epoch - 1 && key->entry == entry)
      return key->value > since_us;
  }
  return false;
}

/* Clocks differ: an entry that decides may be e older than others before it. What is not written
 * yet counts. What never will be denies only who uses up an index of his own for it: else it would
 * deny for as long as its epoch counts. */
static bool denies(const struct model *model, const struct client *client, int i,
                   const weir_claim *request, const struct record *record, int64_t cost) {
  const weir_rule *rule = &client_stack(model, client)->rules[i];
  int64_t limit = class_limit_of(model, i, rule, request->ask.class);
  int keeper = keeper_of(model);
  int64_t since = record->stamp_us - rule->period_us - MARGIN_US;
  int64_t epoch = record->stamp_us / rule->log_us;
  int64_t sum = cost;
  int64_t missing = 0;
  bool met = client->met >> keeper & 1U;
  if (model->world->evicted) return true;
  for (int64_t g = epoch - 1; g <= epoch + 1; g++)
    sum += counted(model, client, keeper, g, since, &missing);
  for (int other = 0; other < CLIENTS_MOST; other++) /* on their way */
    if (&model->world->clients[other] != client)
      missing -= model->world->clients[other].charged[keeper] == ADDED;
  if (client->charged[keeper] == NOT_CHARGED && !met && missing > 0)
    return is_held(model, keeper, limit, epoch, since);
  return sum > limit;
}

static int64_t real_us(const struct model *model, int number) {
  return model->world->records[number].stamp_us - world_offset_us(model, record_client(number));
}

static bool counts(const struct record *record, int i, unsigned class) {
  return record->state == ADMITTED && record->cost[i] > 0 && class_is_within(record, class);
}

static void bound_of(struct model *model, int i, unsigned class) {
  const struct record *records = model->world->records;
  const weir_rule *rule = &model->another.rules[i]; /* the larger limit */
  int64_t span = rule->period_us - 2 * SKEW_US;
  int64_t most = class_limit_of(model, i, rule, class) + model->world->slack[i];
  for (int first = 0; first < RECORDS_MOST; first++) {
    if (!counts(&records[first], i, class)) continue;
    int64_t sum = 0;
    int64_t begin = real_us(model, first);
    for (int n = 0; n < RECORDS_MOST; n++)
      if (counts(&records[n], i, class) && real_us(model, n) >= begin &&
          real_us(model, n) < begin + span)
        sum += records[n].cost[i];
    if (sum > most)
      check_fails(model, CHECK_BOUND,
                  "%" PRId64 " admitted from E%+" PRId64 " us on within one period, %" PRId64
                  " allowed",
                  sum, begin - model->edge_us, most);
  }
}

static void bound(struct model *model, int i) {
  for (unsigned class = 0; class <= model->text.class_count; class ++)
    bound_of(model, i, class);
}

static int64_t least_ttl_us(const struct model *model, int rule) {
  return 3 * model->stack.rules[rule].log_us + FINAL_US;
}

static void evicted(struct model *model, const struct key *key, int64_t value) {
  (void)value;
  if (key->place != WEIR_PLACE_COUNT) return;
  for (int rule = key->rule; rule < (int)model->stack.count; rule++) {
    if (truth_of(model, rule) != &truth_log) continue;
    model->world->slack[rule] += model->stack.rules[rule].limit;
    for (int i = 0; i < CLIENTS_MOST; i++)
      model->world->slack[rule] += key->charged[i];
  }
}

/* What is cut short leaves a hole, which those under way may have met. */
static void excuse(struct model *model, const struct client *client, int rule) {
  meet(model, client, rule);
}

static void excuse_sent(struct model *model, const struct client *client,
                        const weir_operation *operation) {
  meet(model, client, (int)operation->counter.rule);
}

const struct truth truth_log = {
    .begins = begins,
    .landed = landed,
    .denied = denied,
    .denies = denies,
    .least_ttl_us = least_ttl_us,
    .bound = bound,
    .evicted = evicted,
    .excuse = excuse,
    .excuse_sent = excuse_sent,
};

/* What is in flight: never more than N are held at once, each by its client's clock, and each epoch's
 * counter holds all that have paid into it and not left. */
#include <inttypes.h>

#include "algorithm/in_flight.h"
#include "places.h"
#include "truth.h"

static void notice(struct key *key, int client) {
  int64_t others = key->value - key->charged[client];
  if (others > key->seen[client]) key->seen[client] = (int32_t)others;
}

static void begins(struct model *model, struct client *client, int rule) {
  int number = world_client_number(model, client);
  for (int i = 0; i < KEYS_MOST; i++) {
    struct key *key = &model->world->keys[i];
    if (!is_count(key, rule)) continue;
    key->seen[number] = 0;
    notice(key, number);
  }
}

static void check_count(struct model *model, const struct key *key) {
  if (!model->world->evicted && key->value < key->owed)
    check_fails(model, CHECK_FORGOTTEN,
                "epoch %" PRId64 " holds %" PRId64 " of the %" PRId32 " it must hold", key->index,
                key->value, key->owed);
}

static void landed(struct model *model, struct client *client, const weir_operation *operation,
                   struct key *key, int64_t before) {
  if (!is_count(key, (int)operation->counter.rule)) return;
  if (client != NULL && client->requests[0].ask.kind != WEIR_REFUND)
    key->charged[world_client_number(model, client)] += (int32_t)(key->value - before);
  for (int i = 0; i < CLIENTS_MOST; i++)
    if (model->world->clients[i].busy) notice(key, i);
  check_count(model, key);
}

/* `place` is an epoch. */
static void owe(struct model *model, int rule, int64_t place, int64_t cost) {
  struct key *key = store_find(model, rule, WEIR_PLACE_COUNT, place, 0);
  if (key == NULL) {
    check_fails(model, CHECK_FORGOTTEN, "held, and epoch %" PRId64 " was never paid", place);
    return;
  }
  key->owed += (int32_t)cost;
  check_count(model, key);
}

static void admitted(struct model *model, struct client *client, int rule,
                     const struct record *record) {
  int64_t period = model->stack.rules[rule].period_us;
  int64_t end_us = client->ends[rule];
  model->world->records[record - model->world->records].mark[rule] = end_us;
  for (int64_t at_us = record->stamp_us; at_us < end_us; at_us += period)
    owe(model, rule, at_us / period, record->cost[rule]);
}

/* Of the epochs that are over by its clock nothing goes back. */
static void refunded(struct model *model, int rule, const struct record *record, int64_t cost) {
  int64_t period = model->stack.rules[rule].period_us;
  int number = record_client((int)(record - model->world->records));
  int64_t now_us = world_clock_us(model, &model->world->clients[number]);
  for (int64_t at_us = record->stamp_us; at_us < record->mark[rule]; at_us += period)
    if (at_us / period >= now_us / period) owe(model, rule, at_us / period, -cost);
}

static bool denies(const struct model *model, const struct client *client, int i,
                   const weir_claim *request, const struct record *record, int64_t cost) {
  const weir_rule *rule = &model->stack.rules[i];
  int64_t limit = class_limit(model, i, request->ask.class);
  int64_t epoch = record->stamp_us / rule->period_us;
  if (cost > limit) return true;
  for (int n = 0; n < KEYS_MOST; n++) {
    const struct key *key = &model->world->keys[n];
    if (is_count(key, i) && (key->index == epoch || key->index == epoch + 1) &&
        key->seen[world_client_number(model, client)] + cost > limit)
      return true;
  }
  return false;
}

/* A place is believed no longer as time goes by: more are held only after an admission, or a renewal.
 * Where one clock was wrong two epochs may stand side by side. */
static void bound_of(struct model *model, int i, unsigned class) {
  int64_t limit = class_limit(model, i, class);
  int64_t most = limit + model->world->slack[i];
  int64_t held = 0;
  if (model->scope->flags & SET_BACK) most += limit;
  for (int n = 0; n < WANTED_MOST; n++)
    if (class_is_within(&model->world->records[n], class) &&
        place_is_held(model, i, &model->world->records[n]))
      held += model->world->records[n].cost[i];
  if (held > most)
    check_fails(model, CHECK_BOUND, "%" PRId64 " held at once, %" PRId64 " allowed", held, most);
}

static void bound(struct model *model, int i) {
  for (unsigned class = 0; class <= model->text.class_count; class ++)
    bound_of(model, i, class);
}

/* Charged first R before its epoch, and left until the end of it; clocks and deadlines come on top. */
static int64_t least_ttl_us(const struct model *model, int rule) {
  const weir_rule *of = &model->stack.rules[rule];
  return of->period_us + weir_held_run_up_us(of, &model->settings) + FINAL_US;
}

/* Who is denied takes back from a counter that has forgotten his charge. */
static void evicted(struct model *model, const struct key *key, int64_t value) {
  (void)value;
  model->world->slack[key->rule] += model->stack.rules[key->rule].limit;
  for (int i = 0; i < CLIENTS_MOST; i++)
    model->world->slack[key->rule] += key->charged[i];
}

/* What leaves may stay in both epochs. */
static void excuse(struct model *model, const struct client *client, int rule) {
  int number = world_client_number(model, client);
  int64_t *leak = &model->world->leak[rule];
  for (int i = 0; i < KEYS_MOST; i++)
    if (is_count(&model->world->keys[i], rule)) *leak += model->world->keys[i].charged[number];
  if (client->requests[0].ask.kind == WEIR_REFUND)
    *leak += 2 * weir_claim_cost(&client->requests[0], (size_t)rule);
}

const struct truth truth_in_flight = {
    .begins = begins,
    .landed = landed,
    .admitted = admitted,
    .refunded = refunded,
    .owes = owe,
    .denies = denies,
    .least_ttl_us = least_ttl_us,
    .bound = bound,
    .end = counts_check_end,
    .evicted = evicted,
    .excuse = excuse,
    .excuse_sent = counts_excuse_sent,
};

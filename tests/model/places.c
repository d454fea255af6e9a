/* What a client does with the places that it holds: what src/limits/limiter does around the machines of
 * rules whose places are held. A record that was admitted is a place, its mark the end of what it has
 * paid. */
#include "places.h"

#include <string.h>

#include "algorithm/in_flight.h"
#include "mutants.h"
#include "truth.h"

static int64_t guard_us(const struct model *model, int rule) {
  return weir_held_guard_us(&model->stack.rules[rule], &model->settings) - model->mutant->lax_us;
}

/* Its client has begun to give it back. */
static bool is_leaving(const struct client *client, const struct record *record) {
  return record->state == GIVEN_BACK && client->busy &&
         client->requests[0].ask.kind == WEIR_REFUND && client->first_record + 1 == record->of;
}

bool place_is_held(const struct model *model, int rule, const struct record *record) {
  int number = record_client((int)(record - model->world->records));
  if (number < 0) return false;
  const struct client *client = &model->world->clients[number];
  bool believed =
      record->state == ADMITTED || (model->mutant->believes_on && is_leaving(client, record));
  return believed && record->wish == TAKES && !client->crashed &&
         world_clock_us(model, client) < record->mark[rule] - guard_us(model, rule);
}

/* Those that a renewal of what ends then is for. */
static bool is_renewed(const struct model *model, int rule, const struct record *record,
                       int64_t end_us) {
  if (record->wish != TAKES || record->cost[rule] == 0) return false;
  if (record->state == GIVEN_BACK) return model->mutant->renews_left;
  bool paid_ahead = record->mark[rule] > end_us && model->mutant->renews_twice;
  return record->state == ADMITTED && (record->mark[rule] == end_us || paid_ahead);
}

static struct record *first_of(const struct model *model, const struct client *client) {
  int number = world_client_number(model, client);
  return &model->world->records[number * REQUESTS_MOST * GROUP_MOST];
}

weir_claim *place_renew(struct model *model, struct client *client) {
  weir_claim *request = &client->requests[0];
  const struct record *first = first_of(model, client);
  int64_t now_us = world_clock_us(model, client);
  bool some = false;
  memset(client->ends, 0, sizeof client->ends);
  memset(client->renewed, 0, sizeof client->renewed);
  for (int i = 0; i < (int)model->stack.count; i++) {
    const weir_rule *rule = &model->stack.rules[i];
    int64_t end_us = (now_us / rule->period_us + 1) * rule->period_us;
    if (!weir_rule_is_held(rule) || now_us >= end_us - guard_us(model, i) ||
        now_us < end_us - weir_held_run_up_us(rule, &model->settings))
      continue;
    client->ends[i] = end_us;
    for (const struct record *at = first; at < first + REQUESTS_MOST * GROUP_MOST; at++)
      if (is_renewed(model, i, at, end_us)) client->renewed[i] += at->cost[i];
    some = some || client->renewed[i] > 0;
  }
  if (!some) return NULL;
  *request = (weir_claim){.ask = {.kind = WEIR_RENEW,
                                  .alone = true,
                                  .cost = 1,
                                  .costs = client->renewed,
                                  .ends = client->ends}};
  record_requested(model, client, request);
  return request;
}

void place_renewed(struct model *model, struct client *client) {
  struct record *first = first_of(model, client);
  for (int i = 0; i < (int)model->stack.count; i++) {
    int64_t period = model->stack.rules[i].period_us;
    int64_t end_us = client->ends[i] - period; /* what it was before, where it was paid */
    if (client->renewed[i] == 0) continue;
    int64_t latest_us =
        client->ends[i] - weir_held_guard_us(&model->stack.rules[i], &model->settings);
    bool in_time = world_clock_us(model, client) < latest_us;
    if (client->requests[0].verdict.status != WEIR_OK && in_time && !client->lost)
      check_fails(model, CHECK_STATUS, "client %d has not paid on for what it holds, for nothing",
                  world_client_number(model, client));
    for (struct record *at = first; at < first + REQUESTS_MOST * GROUP_MOST; at++) {
      if (at->state != ADMITTED || at->mark[i] != end_us || at->cost[i] == 0) continue;
      at->mark[i] = client->ends[i];
      truth_of(model, i)->owes(model, i, end_us / period, at->cost[i]);
    }
    truth_of(model, i)->bound(model, i);
  }
  memset(client->renewed, 0, sizeof client->renewed);
  *record_of(model, client, &client->requests[0]) = (struct record){0};
}

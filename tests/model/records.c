/* Records: what was asked, and what became of it. Where no check needs more, only what was admitted
 * is kept, so that runs which differ in nothing else meet. */
#include "truth.h"

struct record *record_of(const struct model *model, const struct client *client,
                         const weir_claim *request) {
  return &model->world->records[client->first_record + (int)(request - client->requests)];
}

int record_client(int number) {
  return number < WANTED_MOST ? number / (REQUESTS_MOST * GROUP_MOST) : -1;
}

char record_tenant(const struct model *model, int number) {
  if (number < WANTED_MOST) return model->tenants[record_client(number)];
  return number < WANTED_MOST + BEFORE_MOST ? model->scope->before[number - WANTED_MOST].tenant : 0;
}

static const struct wanted *wanted_of(const struct model *model, int number) {
  static const struct wanted before = {.given = true};
  if (number >= WANTED_MOST) return &before;
  int request = number / GROUP_MOST;
  return &model->requests[request / REQUESTS_MOST][request % REQUESTS_MOST]
              .wanted[number % GROUP_MOST];
}

void record_requested(struct model *model, struct client *client, const weir_claim *request) {
  struct record *record = record_of(model, client, request);
  const struct wanted *wanted = wanted_of(model, (int)(record - model->world->records));
  *record = (struct record){.state = OPEN,
                            .wish = (uint8_t)wanted->wish,
                            .class = (uint8_t)wanted->class,
                            .limit = (int32_t)wanted->limit,
                            .stamp_us = client->start_us,
                            .after = model->keeps_order ? model->world->answered : 0};
  for (int i = 0; i < (int)model->stack.count; i++)
    record->cost[i] =
        (int32_t)(request->ask.costs != NULL ? request->ask.costs[i] : request->ask.cost);
  if (request->ask.kind == WEIR_REFUND) record->of = client->last_taken;
  if (model->has_classes) classes_asked(model);
  for (int i = 0; i < (int)model->stack.count && wanted->wish == SETTLES; i++) {
    int64_t most = model->stack.rules[i].capacity + model->stack.rules[i].debt;
    if (record->cost[i] > most && !model->stack.rules[i].count_all) record->cost[i] = (int32_t)most;
  }
}

/* The stamp of what is open is its latest frame: nothing of it was raised further. */
void record_round(struct model *model, struct client *client) {
  for (int i = 0; i < GROUP_MOST; i++) {
    struct record *record = &model->world->records[client->first_record + i];
    bool charges = record->wish == TAKES || record->wish == LEASES || record->wish == SETTLES;
    if (record->state == OPEN && charges) record->stamp_us = client->round_us;
  }
}

static enum state state_after(const struct client *client, const struct record *record,
                              const weir_claim *request) {
  if (request->verdict.status != WEIR_OK) return FAILED;
  if (record->wish == SETTLES) return SETTLED;
  if (record->wish != TAKES) return DONE;
  if (request->verdict.decision.source == WEIR_SOURCE_UNLIMITED)
    return DONE; /* it counts nowhere */
  bool by_policy = request->verdict.decision.source == WEIR_SOURCE_FALLBACK ||
                   request->verdict.decision.source == WEIR_SOURCE_LATE;
  if (by_policy && client->outage != NULL)
    return request->verdict.decision.allowed ? ALLOWED : FAILED;
  return request->verdict.decision.allowed ? ADMITTED : DENIED;
}

/* The policy answered a request that was sent. */
static bool is_unsure(const struct client *client, const weir_claim *request) {
  return client->outage != NULL && request->verdict.status == WEIR_OK &&
         request->verdict.decision.store_status == WEIR_UNKNOWN_OUTCOME;
}

static void keep_figures(struct record *record, const weir_decision *decision) {
  record->remaining = decision->remaining;
  record->retry_after_us = decision->retry_after_us;
  record->reset_after_us = decision->reset_after_us;
}

void record_answered(struct model *model, struct client *client, const weir_claim *request) {
  struct record *record = record_of(model, client, request);
  record->state = (uint8_t)state_after(client, record, request);
  bool unknown = request->verdict.status == WEIR_UNKNOWN_OUTCOME || is_unsure(client, request);
  if (unknown && record->charged) record->may_stay = true;
  record->unsure = record->state == ALLOWED && is_unsure(client, request);
  if (record->state == ADMITTED || record->state == DENIED || record->state == ALLOWED) {
    record->stamp_us = request->verdict.decision.at_us;
    record->delay_us = request->verdict.decision.allowed ? request->verdict.decision.delay_us : 0;
    for (int i = 0; i < (int)model->stack.count; i++)
      record->cost[i] =
          (int32_t)(weir_claim_cost(request, (size_t)i) + lease_held(client, request));
  }
  if ((record->wish == PEEKS || record->wish == SETTLES) && request->verdict.status == WEIR_OK)
    record->stamp_us = request->verdict.decision.at_us;
  if (model->linear && record->wish != REFUNDS && record->wish != CANCELS)
    keep_figures(record, &request->verdict.decision);
}

void record_tidy(struct model *model, struct client *client, const weir_claim *request) {
  struct record *record = record_of(model, client, request);
  bool kept = record->state == ADMITTED || record->state == ALLOWED || record->state == SETTLED;
  if (!model->keeps_order && !kept) *record = (struct record){0};
}

/* All that a client did for a request is over: what begins now comes after it. */
void record_over(struct model *model, struct client *client) {
  for (int i = 0; i < GROUP_MOST && model->keeps_order; i++) {
    int number = client->first_record + i;
    struct record *record = &model->world->records[number];
    if (record->state == NOT_ASKED) continue;
    model->world->answered |= UINT32_C(1) << number;
    for (int rule = 0; rule < (int)model->stack.count; rule++)
      if (truth_of(model, rule)->over != NULL)
        truth_of(model, rule)->over(model, client, rule, record);
  }
}

/* Records: what was asked, and what became of it. Where no check needs more, only what was admitted
 * is kept, so that runs which differ in nothing else meet. */
#include "truth.h"

struct record *record_of(const struct model *model, const struct client *client,
                         const weir_ask *ask) {
  return &model->world->records[client->first_record + (int)(ask - client->asks)];
}

int record_client(int number) {
  return number < ASKS_MOST ? number / (REQUESTS_MOST * GROUP_MOST) : -1;
}

static const struct wanted *wanted_of(const struct model *model, int number) {
  static const struct wanted before = {.given = true};
  if (number >= ASKS_MOST) return &before;
  int request = number / GROUP_MOST;
  return &model->requests[request / REQUESTS_MOST][request % REQUESTS_MOST]
              .asks[number % GROUP_MOST];
}

void record_asked(struct model *model, struct client *client, const weir_ask *ask) {
  struct record *record = record_of(model, client, ask);
  const struct wanted *wanted = wanted_of(model, (int)(record - model->world->records));
  *record = (struct record){.state = OPEN,
                            .wish = (uint8_t)wanted->wish,
                            .stamp_us = client->start_us,
                            .after = model->keeps_order ? model->world->answered : 0};
  for (int i = 0; i < (int)model->stack.count; i++)
    record->cost[i] = (int32_t)weir_ask_cost(ask, (size_t)i);
  if (ask->kind == WEIR_ASK_REFUND) record->of = client->last_taken;
}

/* The stamp of what is open is its latest frame: nothing of it was raised further. */
void record_round(struct model *model, struct client *client) {
  for (int i = 0; i < GROUP_MOST; i++) {
    struct record *record = &model->world->records[client->first_record + i];
    if (record->state == OPEN && record->wish == TAKES) record->stamp_us = client->round_us;
  }
}

static enum state state_after(const struct record *record, const weir_ask *ask) {
  if (ask->status != WEIR_OK) return FAILED;
  if (record->wish != TAKES) return DONE;
  return ask->decision.allowed ? ADMITTED : DENIED;
}

static void keep_figures(struct record *record, const weir_decision *decision) {
  record->remaining = decision->remaining;
  record->retry_after_us = decision->retry_after_us;
  record->reset_after_us = decision->reset_after_us;
}

void record_answered(struct model *model, struct client *client, const weir_ask *ask) {
  struct record *record = record_of(model, client, ask);
  record->state = (uint8_t)state_after(record, ask);
  if (ask->status == WEIR_UNKNOWN_OUTCOME && record->charged) record->may_stay = true;
  if (record->state == ADMITTED || record->state == DENIED) {
    record->stamp_us = ask->decision.at_us;
    record->delay_us = ask->decision.allowed ? ask->decision.delay_us : 0;
    for (int i = 0; i < (int)model->stack.count; i++)
      record->cost[i] = (int32_t)weir_ask_cost(ask, (size_t)i);
  }
  if (record->wish == PEEKS && ask->status == WEIR_OK) record->stamp_us = ask->decision.at_us;
  if (model->linear && record->wish != REFUNDS && record->wish != CANCELS)
    keep_figures(record, &ask->decision);
}

void record_tidy(struct model *model, struct client *client, const weir_ask *ask) {
  struct record *record = record_of(model, client, ask);
  if (!model->keeps_order && record->state != ADMITTED) *record = (struct record){0};
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

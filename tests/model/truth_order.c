/* Buckets on a store with SWAP: there is an order of all requests, in which none comes before one
 * that was answered when it was asked, and which the rule, applied to one after another, explains
 * to the last figure. All orders are tried. */
#include <inttypes.h>

#include "truth.h"

/* Only a wrong clock leaves that much ahead; scopes have either far more or far less. */
enum { FAR_US = 1000000 };

struct order {
  const struct model *model;
  const weir_rule *rule;
  uint32_t asked;             /* records, one bit each */
  uint32_t must;              /* of these, those that took place */
  int64_t ends[RECORDS_MOST]; /* v after each */
  int64_t last;               /* v as the store has it, or -1 */
};

static uint32_t bit(int number) {
  return UINT32_C(1) << number;
}

static int64_t us(const weir_rule *rule, int64_t units) {
  int64_t unit = bucket_units(rule, 1);
  return units > 0 ? (units + unit - 1) / unit : 0;
}

static int64_t positive(int64_t number) {
  return number > 0 ? number : 0;
}

static const struct wanted *wanted_of(const struct order *order, int number) {
  static const struct wanted before = {.given = true};
  int request = number / GROUP_MOST;
  if (number >= WANTED_MOST) return &before;
  return &order->model->requests[request / REQUESTS_MOST][request % REQUESTS_MOST]
              .wanted[number % GROUP_MOST];
}

/* How far the class of a record may fill the bucket. */
static int64_t full_of(const struct order *order, const struct record *record) {
  return class_limit(order->model, 0, record->class) * order->rule->token_units;
}

/* How much a cost is too much, with so much ahead; 0 or below: it fits. */
static int64_t excess(const struct order *order, int number, int64_t ahead, int64_t cost) {
  const weir_rule *rule = order->rule;
  const struct wanted *wanted = wanted_of(order, number);
  int64_t wait = bucket_units(rule, wanted->waits ? wanted->wait_us : 0);
  int64_t full = full_of(order, &order->model->world->records[number]);
  int64_t over = ahead + cost * rule->token_units - full;
  if (rule->kind == WEIR_TOKEN_BUCKET) return over - wait;
  return wanted->waits && ahead - wait > over ? ahead - wait : over;
}

/* What is ahead of a clock; where a clock was wrong, a full bucket. */
static int64_t ahead_of(const struct order *order, int number, int64_t v) {
  const weir_rule *rule = order->rule;
  int64_t ahead = v - bucket_units(rule, order->model->world->records[number].stamp_us);
  int64_t full = rule->burst * rule->token_units;
  if (ahead > full + bucket_units(rule, FAR_US)) return full;
  return positive(ahead);
}

static bool figures_are(const struct order *order, const struct record *record, int64_t ahead,
                        int64_t too_much) {
  const weir_rule *rule = order->rule;
  int64_t room = (full_of(order, record) - ahead) / rule->token_units;
  return record->remaining == positive(room) && record->retry_after_us == us(rule, too_much) &&
         record->reset_after_us == us(rule, ahead);
}

/* What a request that was denied in a look may have had before it: those of its group that fitted
 * then, though others may have been faster in the end. */
static int64_t denied_before(const struct order *order, int number) {
  const struct record *records = order->model->world->records;
  int64_t cost = 0;
  for (int mate = number / GROUP_MOST * GROUP_MOST; mate < number; mate++)
    if (records[mate].state == DENIED) cost += records[mate].cost[0];
  return cost * order->rule->token_units;
}

static bool is_denied(const struct order *order, int number, int64_t ahead) {
  const struct record *record = &order->model->world->records[number];
  int64_t least = wanted_of(order, number)->up_to ? 1 : record->cost[0];
  return excess(order, number, ahead, least) > 0 &&
         figures_are(order, record, ahead, excess(order, number, ahead, least));
}

static bool take(struct order *order, int number, int64_t *v) {
  const struct record *record = &order->model->world->records[number];
  const weir_rule *rule = order->rule;
  int64_t now = bucket_units(rule, record->stamp_us);
  int64_t ahead = ahead_of(order, number, *v);
  int64_t cost = record->cost[0];
  bool up_to = wanted_of(order, number)->up_to;
  if (ahead < *v - now) *v = now + ahead;
  if (record->state == DENIED)
    return is_denied(order, number, ahead) ||
           is_denied(order, number, ahead + denied_before(order, number));
  int64_t delay = ahead;
  if (rule->kind == WEIR_TOKEN_BUCKET) delay += cost * rule->token_units - full_of(order, record);
  if (excess(order, number, ahead, cost) > 0 || us(rule, delay) != record->delay_us) return false;
  if (up_to && cost < wanted_of(order, number)->cost && excess(order, number, ahead, cost + 1) <= 0)
    return false;
  *v = order->ends[number] = now + ahead + cost * rule->token_units;
  return figures_are(order, record, ahead + cost * rule->token_units, 0);
}

/* As much of what is settled as the debt leaves room for; on what a wrong clock has left, nothing. */
static int64_t overrun(const struct order *order, int number, int64_t v, int64_t ahead) {
  const weir_rule *rule = order->rule;
  const struct record *record = &order->model->world->records[number];
  int64_t deepest = full_of(order, record) + rule->debt * rule->token_units;
  int64_t room = positive(deepest - ahead) / rule->token_units;
  if (ahead < v - bucket_units(rule, record->stamp_us)) return 0;
  return record->cost[0] < room ? record->cost[0] : room;
}

/* What has no answer may have charged what fitted. */
static void take_perhaps(struct order *order, int number, int64_t *v) {
  const struct record *record = &order->model->world->records[number];
  int64_t now = bucket_units(order->rule, record->stamp_us);
  int64_t ahead = ahead_of(order, number, *v);
  if (record->wish == SETTLES && record->cost[0] == 0) *v -= record->mark[0];
  int64_t settled = record->wish == SETTLES ? overrun(order, number, *v, ahead) : 0;
  if (settled > 0) *v = now + ahead + settled * order->rule->token_units;
  if (record->wish == TAKES && excess(order, number, ahead, record->cost[0]) <= 0)
    *v = now + ahead + record->cost[0] * order->rule->token_units;
}

static bool peek(const struct order *order, int number, int64_t v) {
  const struct record *record = &order->model->world->records[number];
  int64_t ahead = ahead_of(order, number, v);
  int64_t too_much = excess(order, number, ahead, record->cost[0]);
  return figures_are(order, record, ahead, positive(too_much));
}

static bool settle(const struct order *order, int number, int64_t *v) {
  const struct record *record = &order->model->world->records[number];
  const weir_rule *rule = order->rule;
  int64_t ahead = ahead_of(order, number, *v);
  int64_t charged = overrun(order, number, *v, ahead);
  if (charged != record->cost[0] - record->less[0]) return false;
  ahead += charged * rule->token_units;
  if (charged > 0) *v = bucket_units(rule, record->stamp_us) + ahead;
  return figures_are(order, record, ahead, 0);
}

/* A place in a queue goes back if it is still the last; else what has not drained, as long as
 * nobody waits. A refund may look at its clock at any time until it is over. */
static bool give_back(const struct order *order, int number, int64_t *v) {
  const weir_rule *rule = order->rule;
  const struct record *refund = &order->model->world->records[number];
  const struct record *taken = &order->model->world->records[refund->of - 1];
  bool leaky = rule->kind == WEIR_LEAKY_BUCKET;
  bool is_slot = refund->wish == CANCELS && (leaky || taken->delay_us > 0);
  bool is_last = *v == order->ends[refund->of - 1];
  bool waits = rule->debt == 0 &&
               *v - bucket_units(rule, refund->stamp_us) > rule->burst * rule->token_units;
  int64_t cost = refund->wish == SETTLES ? taken->less[0] : taken->cost[0];
  int64_t units = cost * rule->token_units;
  int64_t elapsed_us = refund->stamp_us + refund->delay_us - taken->stamp_us;
  int64_t least = waits ? 0 : positive(units - bucket_units(rule, elapsed_us));
  int64_t given = refund->mark[0];
  *v -= given;
  if (is_slot) return given == (is_last ? units : 0);
  return leaky ? given == 0 : given >= least && given <= units;
}

static bool apply(struct order *order, int number, int64_t *v) {
  const struct record *record = &order->model->world->records[number];
  if (!(order->must & bit(number))) {
    take_perhaps(order, number, v);
    return true;
  }
  if (record->wish == TAKES) return take(order, number, v);
  if (record->wish == PEEKS) return peek(order, number, *v);
  if (record->wish == SETTLES && record->cost[0] > 0) return settle(order, number, v);
  return give_back(order, number, v);
}

static bool explains(struct order *order, uint32_t placed, int64_t v) {
  if ((order->must & ~placed) == 0 && (order->last < 0 || v == order->last)) return true;
  for (int i = 0; i < RECORDS_MOST; i++) {
    uint32_t before = order->model->world->records[i].after & order->must;
    if (!(order->asked & ~placed & bit(i)) || before & ~placed) continue;
    int64_t after = v;
    if (apply(order, i, &after) && explains(order, placed | bit(i), after)) return true;
  }
  return false;
}

/* False: a charge came too late and went back, which no serial order has. */
static bool collect(struct order *order) {
  const struct record *records = order->model->world->records;
  for (int i = 0; i < RECORDS_MOST; i++) {
    if (records[i].state == NOT_ASKED) continue;
    bool open = records[i].state == OPEN || records[i].state == FAILED;
    if (records[i].state == FAILED && records[i].charged && !records[i].may_stay) return false;
    if (open && !records[i].may_stay) continue;
    order->asked |= bit(i);
    if (!open) order->must |= bit(i);
  }
  return true;
}

void order_check(struct model *model) {
  struct order order = {
      .model = model, .rule = &model->stack.rules[0], .last = bucket_stored(model, 0)};
  if (collect(&order) && !explains(&order, 0, 0))
    check_fails(model, CHECK_ORDER, "no serial order explains what was decided");
}

/* --- delivery ----------------------------------------------------------------------------------
 */

/* The next take by stamp, after `number`; -1: none. */
static int next_take(const struct model *model, int number) {
  const struct record *records = model->world->records;
  int next = -1;
  for (int i = 0; i < RECORDS_MOST; i++) {
    if (records[i].state != ADMITTED && records[i].state != DENIED) continue;
    bool later = number < 0 || records[i].stamp_us > records[number].stamp_us ||
                 (records[i].stamp_us == records[number].stamp_us && i > number);
    if (later && (next < 0 || records[i].stamp_us < records[next].stamp_us)) next = i;
  }
  return next;
}

void order_check_delivery(struct model *model) {
  struct order order = {.model = model, .rule = &model->stack.rules[0]};
  const struct record *records = model->world->records;
  int64_t serial = 0;
  int64_t delivered = 0;
  int64_t v = 0;
  for (int i = next_take(model, -1); i >= 0; i = next_take(model, i)) {
    int64_t before = v;
    take_perhaps(&order, i, &v);
    if (v != before) serial += records[i].cost[0];
    if (records[i].state == ADMITTED) delivered += records[i].cost[0];
  }
  if (2 * delivered < serial)
    check_fails(model, CHECK_DELIVERY,
                "%" PRId64 " admitted, where one after another %" PRId64 " were", delivered,
                serial);
}

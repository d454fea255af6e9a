/* What must hold in every run. What holds for one kind of rule stands in truth_*.c. */
#include <inttypes.h>
#include <stdarg.h>

#include "mutants.h"
#include "outage.h"
#include "truth.h"

static const char *const names[CHECK_COUNT] = {
    [CHECK_NONE] = "holds",        [CHECK_BOUND] = "bound",
    [CHECK_DENIAL] = "denial",     [CHECK_ORDER] = "order",
    [CHECK_OVERLAP] = "overlap",   [CHECK_DELIVERY] = "delivery",
    [CHECK_LANES] = "lanes",       [CHECK_FORGOTTEN] = "forgotten",
    [CHECK_LEAK] = "leak",         [CHECK_TTL] = "ttl",
    [CHECK_CONTRACT] = "contract", [CHECK_REPEAT] = "repeat",
    [CHECK_STATUS] = "status",     [CHECK_HOPS] = "hops",
    [CHECK_DUES] = "dues",         [CHECK_ALLOWANCE] = "allowance",
    [CHECK_SHARE] = "share",       [CHECK_ONCE] = "once",
    [CHECK_KEPT] = "kept",         [CHECK_ENDLESS] = "endless",
};

const char *check_name(enum check check) {
  return names[check];
}

/* The first failure of a run is the one that is told. */
void check_fails(struct model *model, enum check check, const char *format, ...) {
  if (model->failed != CHECK_NONE || model->mutant->unchecked >> check & 1U) return;
  model->failed = check;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(model->failure, sizeof model->failure, format, arguments);
  va_end(arguments);
}

const struct truth *truth_of(const struct model *model, int rule) {
  static const struct truth *const truths[] = {
      [WEIR_FIXED_WINDOW] = &truth_window, [WEIR_SLIDING_WINDOW] = &truth_window,
      [WEIR_SLIDING_LOG] = &truth_log,     [WEIR_QUOTA] = &truth_quota,
      [WEIR_TOKEN_BUCKET] = &truth_bucket, [WEIR_LEAKY_BUCKET] = &truth_bucket,
      [WEIR_IN_FLIGHT] = &truth_in_flight, [WEIR_SHARED_WINDOW] = &truth_shared,
  };
  return truths[model->stack.rules[rule].kind];
}

/* --- decisions ---------------------------------------------------------------------------------
 */

int64_t check_taken_before(const struct model *model, const struct client *client,
                           const weir_claim *request, int rule) {
  int64_t sum = 0;
  for (const weir_claim *other = client->requests; other != request; other++)
    if (!other->verdict.answered || other->verdict.decision.allowed)
      sum += weir_claim_cost(other, (size_t)rule);
  if (client->outage == NULL) return sum;
  const struct record *payment = &model->world->records[client->first_record + GROUP_MOST - 1];
  bool of_others = truth_of(model, rule) == &truth_bucket && payment->state != OPEN;
  return of_others ? sum : sum + client->outage->paid.costs[rule]; /* it comes first */
}

/* A denial must hold against what was in the store during the request, every charge in flight
 * included, and the requests before it in its group that were not denied themselves. */
static void check_denial(struct model *model, const struct client *client,
                         const weir_claim *request) {
  const struct record *record = record_of(model, client, request);
  for (int i = 0; i < (int)model->stack.count; i++) {
    int64_t cost = request->ask.up_to ? 1 : weir_claim_cost(request, (size_t)i);
    if (cost > 0 &&
        truth_of(model, i)->denies(model, client, i, request, record,
                                   cost + check_taken_before(model, client, request, i)))
      return;
  }
  check_fails(model, CHECK_DENIAL, "client %d was denied %" PRId64 " that fitted at E%+" PRId64,
              world_client_number(model, client), request->ask.cost,
              record->stamp_us - model->edge_us);
}

/* The decision was made for a moment of this request, by this client's clock. What its account
 * counts already it counted when the request came. */
static void check_stamp(struct model *model, const struct client *client,
                        const weir_claim *request) {
  int64_t at_us = request->verdict.decision.at_us;
  bool of_round = model->one_window && !request->verdict.in_account;
  int64_t first_us = of_round ? client->round_us : client->start_us;
  if (at_us < first_us || at_us > world_clock_us(model, client))
    check_fails(model, CHECK_STATUS, "a decision for E%+" PRId64 " was made at E%+" PRId64,
                at_us - model->edge_us, world_clock_us(model, client) - model->edge_us);
}

static void admitted(struct model *model, struct client *client, const struct record *record) {
  for (int i = 0; i < (int)model->stack.count; i++) {
    const struct truth *truth = truth_of(model, i);
    if (record->cost[i] == 0) continue;
    if (truth->admitted != NULL) truth->admitted(model, client, i, record);
    truth->bound(model, i);
  }
  if (model->gives_back) client->last_taken = (uint8_t)(record - model->world->records + 1);
}

/* By its client's account: what of it was sent may be in the store. */
static void allowed(struct model *model, struct client *client, struct record *record) {
  dues_allowed(model, client, record);
  if (model->gives_back) client->last_taken = (uint8_t)(record - model->world->records + 1);
}

static void denied(struct model *model, struct client *client, const weir_claim *request,
                   const struct record *record) {
  check_denial(model, client, request);
  classes_check_kept(model, client, request);
  for (int i = 0; i < (int)model->stack.count; i++)
    if (truth_of(model, i)->denied != NULL && record->cost[i] > 0)
      truth_of(model, i)->denied(model, client, i, record);
  if (!model->settings.local_denial) return;
  client->denied_us = world_clock_us(model, client); /* when its answer came */
  client->denied_after = record->after;
}

void check_leak(struct model *model, int rule, int64_t left) {
  if (left > model->world->leak[rule])
    check_fails(model, CHECK_LEAK,
                "rule %d: %" PRId64 " stay charged that nobody used, %" PRId64
                " explained by faults",
                rule, left, model->world->leak[rule]);
}

/* What others take back where the store raises may have drained: then a refund finds less than its
 * charge, and is refused. */
static bool may_find_less(const struct model *model, const struct record *refund) {
  bool in_vain = false;
  for (int i = 0; i < RECORDS_MOST; i++)
    in_vain |= model->world->records[i].state == DENIED && model->world->records[i].charged;
  return in_vain && refund->wish == REFUNDS && model->settings.traits & WEIR_TRAIT_RAISE;
}

static void unlimited(struct model *model, const struct client *client,
                      const struct record *record) {
  if (keys_most(model, client, record) != KEY_UNLIMITED)
    check_fails(model, CHECK_BOUND, "client %d was admitted as if the key were unlimited",
                world_client_number(model, client));
}

/* No lot is used where the key has been blocked for longer than a record is believed. */
static void limited(struct model *model, struct client *client, const weir_claim *request) {
  struct record *record = record_of(model, client, request);
  record->limit = (int32_t)keys_most(model, client, record);
  if (record->limit == 0)
    check_fails(model, CHECK_BOUND, "client %d was admitted where the key was blocked",
                world_client_number(model, client));
}

void check_decision(struct model *model, struct client *client, const weir_claim *request) {
  const struct record *record = record_of(model, client, request);
  model->decisions++;
  record_answered(model, client, request);
  bool less = request->verdict.status == WEIR_BAD_COST && may_find_less(model, record);
  if (request->verdict.status != WEIR_OK && !less && !client->late && !client->lost)
    check_fails(model, CHECK_STATUS, "client %d was told %s for nothing",
                world_client_number(model, client), weir_status_name(request->verdict.status));
  bool leased = record->held > 0 && request->verdict.decision.source == WEIR_SOURCE_LOCAL;
  if (request->verdict.status == WEIR_OK && request->ask.kind != WEIR_REFUND && !leased)
    check_stamp(model, client, request);
  if (record->wish == SETTLES) settle_answered(model, client, record_of(model, client, request));
  if (record->state == ALLOWED) allowed(model, client, record_of(model, client, request));
  if (request->verdict.decision.source == WEIR_SOURCE_UNLIMITED) unlimited(model, client, record);
  if (record->state == ADMITTED && model->has_limits) limited(model, client, request);
  if (record->state == ADMITTED) admitted(model, client, record);
  if (record->state == ADMITTED) dues_admitted(model, client, record);
  if (record->state == DENIED) denied(model, client, request, record);
  record_tidy(model, client, request);
}

/* Denied out of the memo: as above with what was seen then, and not for long. */
void check_repeated(struct model *model, struct client *client, const weir_claim *request) {
  int64_t stamp_us = request->verdict.decision.at_us;
  model->decisions++;
  record_answered(model, client, request);
  if (request->verdict.decision.allowed || stamp_us - client->denied_us >= REPEAT_US)
    check_fails(model, CHECK_REPEAT, "client %d repeats a denial of E%+" PRId64 " at E%+" PRId64,
                world_client_number(model, client), client->denied_us - model->edge_us,
                stamp_us - model->edge_us);
  record_of(model, client, request)->after = client->denied_after;
  check_denial(model, client, request);
  record_tidy(model, client, request);
}

/* --- the end -----------------------------------------------------------------------------------
 */

static void check_sum(struct model *model) {
  int64_t sum = 0;
  for (int i = 0; i < RECORDS_MOST; i++) {
    const struct record *record = &model->world->records[i];
    if (record->state == ADMITTED && record->wish == TAKES) sum += record->cost[0];
  }
  if (sum < model->scope->delivers)
    check_fails(model, CHECK_DELIVERY, "%" PRId64 " admitted, %" PRId64 " must be", sum,
                model->scope->delivers);
}

/* Nobody does anything any more: what is charged is what must be, but for what faults left behind.
 */
void check_end(struct model *model) {
  for (int i = 0; i < (int)model->stack.count && !model->world->evicted; i++)
    if (truth_of(model, i)->end != NULL) truth_of(model, i)->end(model, i);
  if (model->linear) order_check(model);
  if (model->scope->delivers > 0) check_sum(model);
  if (model->scope->flags & DELIVERY && model->keeps_order) order_check_delivery(model);
}

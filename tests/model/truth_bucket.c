/* Token and leaky buckets. Times are units of 2^-k us; cT is what a cost takes, BT a full bucket.
 *
 * What others did to a bucket is known from the records alone: in any order of them, v is the most,
 * over every record i, of its clock and all that was charged from i on. So the most that a request
 * can have found is that maximum with everything counted that may stand in any such order. */
#include <inttypes.h>

#include "mutants.h"
#include "truth.h"

/* What is charged at most; a reserve is left for what was leased before. */
static int64_t full(const weir_rule *rule) {
  return (rule->burst - rule->reserve) * rule->token_units;
}

static uint32_t bit(int number) {
  return UINT32_C(1) << number;
}

static bool raises(const struct model *model) {
  return model->settings.traits & WEIR_TRAIT_RAISE;
}

/* The group that a client has under way, but for what it has leased before it asks again. */
static uint32_t own_records(const struct model *model, const struct client *client) {
  const struct record *lease = &model->world->records[client->first_record + GROUP_MOST - 1];
  uint32_t group = (bit(GROUP_MOST) - 1) << client->first_record;
  bool leased = lease->wish == LEASES && lease->state == ADMITTED;
  return leased ? group & ~bit(client->first_record + GROUP_MOST - 1) : group;
}

/* Takes, leases and settlements; what was used was charged before. */
static bool may_charge(const struct record *record) {
  bool charges = record->wish == TAKES || record->wish == LEASES || record->wish == SETTLES;
  return record->state != NOT_ASKED && charges;
}

static bool charges_nothing(const struct record *record, int rule) {
  if (record->wish == SETTLES) return record->cost[rule] == 0;
  return record->wish == TAKES && record->held > 0 && record->held == record->cost[rule];
}

/* --- the most that a bucket may hold -----------------------------------------------------------
 */

/* What of a record's charge may have been there for a request that was asked when those in `over`
 * had been answered. */
static int64_t weight(const struct model *model, int rule, int number, uint32_t over) {
  const struct record *record = &model->world->records[number];
  const weir_rule *layout = &model->stack.rules[rule];
  int64_t charged = record->wish == LEASES ? record->cost[rule] : record->cost[rule] - record->held;
  int64_t units = charged * layout->token_units;
  if (!may_charge(record)) return 0;
  if (record->wish == LEASES && record->state == ADMITTED) {
    bool went_back = over & bit(number) && !record->may_stay;
    return units + (went_back ? record->mark[rule] : record->held * layout->token_units);
  }
  if (record->may_stay || !(over & bit(number))) return units;
  if (record->state == SETTLED)
    return units - record->less[rule] * layout->token_units + record->mark[rule];
  bool given_back = record->state == GIVEN_BACK || record->less[rule] > 0;
  if (record->state == ADMITTED && !given_back) return units;
  if (given_back) {
    const struct record *refund = &model->world->records[record->of - 1];
    return over & bit(record->of - 1) ? units - refund->mark[rule] : units;
  }
  return record->mark[rule];
}

/* Whether j was charged before i in every order; what got no answer may land at any time. */
static bool precedes(const struct record *records, int j, int i) {
  return records[i].after & bit(j) && !records[j].may_stay;
}

static int64_t most(const struct model *model, int rule, uint32_t others, uint32_t over) {
  const struct record *records = model->world->records;
  int64_t result = 0;
  for (int i = 0; i < RECORDS_MOST; i++) {
    if (!(others & bit(i)) || !may_charge(&records[i]) || charges_nothing(&records[i], rule))
      continue;
    int64_t sum = bucket_units(&model->stack.rules[rule], records[i].stamp_us);
    for (int j = 0; j < RECORDS_MOST; j++)
      if (others & bit(j) && !precedes(records, j, i)) sum += weight(model, rule, j, over);
    if (sum > result) result = sum;
  }
  return result;
}

/* What others have charged that were not answered before this client asked, or never were. */
static int64_t in_flight(const struct model *model, int rule, const struct client *client,
                         uint32_t after) {
  int64_t sum = 0;
  for (int j = 0; j < RECORDS_MOST; j++)
    if (!(own_records(model, client) & bit(j)) &&
        (!(after & bit(j)) || model->world->records[j].may_stay))
      sum += weight(model, rule, j, after);
  return sum;
}

/* RAISE may lift v to this clock before others charge, who then charge on top of it. */
static bool denies(const struct model *model, const struct client *client, int i,
                   const weir_claim *request, const struct record *record, int64_t cost) {
  const weir_rule *rule = &model->stack.rules[i];
  int64_t now = bucket_units(rule, record->stamp_us);
  int64_t wait = bucket_units(rule, request->ask.waits ? request->ask.wait_us : 0);
  int64_t base = most(model, i, ~own_records(model, client), record->after);
  int64_t raised = now + (raises(model) ? in_flight(model, i, client, record->after) : 0);
  if (base < raised) base = raised;
  int64_t full_of = class_limit_of(model, i, rule, request->ask.class) * rule->token_units;
  int64_t over = base + cost * rule->token_units - full_of - now;
  if (rule->kind == WEIR_TOKEN_BUCKET) return over > wait;
  return over > 0 || (request->ask.waits && base - now > wait);
}

/* --- what is charged ---------------------------------------------------------------------------
 */

/* v as the store has it, over all keys; below 0: nothing is stored. */
int64_t bucket_stored(const struct model *model, int rule) {
  int64_t latest = -1;
  int64_t near = bucket_units(&model->stack.rules[rule], model->edge_us);
  int64_t wrap = INT64_C(1) << 62;
  for (int i = 0; i < KEYS_MOST; i++) {
    const struct key *key = &model->world->keys[i];
    if (!key->present || key->rule != rule) continue;
    int64_t value = key->value + (key->index << 52);
    if (!key->raised) value = near + ((key->value - near + wrap + wrap / 2) % wrap - wrap / 2);
    if (value > latest) latest = value;
  }
  return latest;
}

/* What was leased drains from its charge on, not from its use; and no debt goes back with a charge. */
static void check_refund(struct model *model, const struct client *client, int rule,
                         const struct record *refund) {
  const weir_rule *layout = &model->stack.rules[rule];
  const struct record *taken = &model->world->records[refund->of - 1];
  int64_t charged_us = taken->stamp_us - taken->lag_us;
  int64_t cost = refund->wish == SETTLES ? taken->less[rule] : taken->cost[rule];
  int64_t left = cost * layout->token_units - bucket_units(layout, client->start_us - charged_us);
  if (refund->wish != CANCELS && refund->mark[rule] > (left > 0 ? left : 0))
    check_fails(model, CHECK_FORGOTTEN,
                "%" PRId64 " units go back of a charge that has %" PRId64 " left",
                refund->mark[rule], left);
}

/* What a refund gave back. */
static void note_refund(struct model *model, struct client *client, const weir_operation *operation,
                        int64_t before) {
  int rule = (int)operation->counter.rule;
  int64_t units = operation->kind == WEIR_SUB ? operation->delta : before - operation->value;
  struct record *refund = &model->world->records[client->first_record];
  refund->mark[rule] += units & ((INT64_C(1) << 62) - 1);
  refund->charged = refund->wish == SETTLES; /* whether it is over or not */
  if (model->lease.life_us > 0 || model->settles) check_refund(model, client, rule, refund);
}

static void landed(struct model *model, struct client *client, const weir_operation *operation,
                   struct key *key, int64_t before) {
  (void)key;
  if (client == NULL || operation->kind == WEIR_DROP) return;
  if (settle_gives_back(client, (int)operation->counter.rule)) {
    note_refund(model, client, operation, before);
    return;
  }
  for (int i = 0; i < GROUP_MOST; i++)
    model->world->records[client->first_record + i].charged |=
        model->world->records[client->first_record + i].state != NOT_ASKED;
}

/* What a request charged in vain goes back but for what drained meanwhile; where places in a queue
 * may follow it, nothing does: always on a store with RAISE, and where more is ahead than a bucket
 * holds. */
static void over(struct model *model, struct client *client, int rule, struct record *record) {
  const weir_rule *layout = &model->stack.rules[rule];
  const weir_claim *request = &client->requests[(record - model->world->records) % GROUP_MOST];
  int64_t clock = world_clock_us(model, client);
  bool queues = request->ask.waits || layout->kind == WEIR_LEAKY_BUCKET;
  bool stays = raises(model) ? queues
                             : bucket_stored(model, rule) - bucket_units(layout, client->start_us) >
                                   full(layout);
  int64_t units = record->cost[rule] * layout->token_units;
  int64_t charged_us = record->state == ALLOWED ? client->round_us : record->stamp_us;
  int64_t elapsed = bucket_units(layout, clock - charged_us);
  if (settle_gives_back(client, rule)) {
    record->delay_us = clock - record->stamp_us;
    return;
  }
  bool less = (record->wish == LEASES && record->state == ADMITTED) || record->state == SETTLED;
  if (less)
    units = (record->state == SETTLED ? record->less[rule] : record->held) * layout->token_units;
  bool in_vain = record->state == DENIED || record->state == FAILED || record->state == ALLOWED;
  if (!record->charged || (!in_vain && !less)) return;
  record->mark[rule] = elapsed < units && !stays ? elapsed : units;
}

/* --- the bound ---------------------------------------------------------------------------------
 */

/* Whether somebody was given a place to wait for: a refund that looked before may free it again. */
static bool somebody_waits(const struct model *model) {
  for (int i = 0; i < RECORDS_MOST; i++) {
    const struct record *record = &model->world->records[i];
    if (record->state == ADMITTED && record->delay_us > 0) return true;
  }
  return false;
}

/* The most that one request of a client has charged and not used, or not yet. */
static int64_t largest_unused(const struct model *model, int client, int rule) {
  int64_t largest = 0;
  for (int request = 0; request < REQUESTS_MOST; request++) {
    const struct record *group =
        &model->world->records[(client * REQUESTS_MOST + request) * GROUP_MOST];
    int64_t sum = 0;
    for (int i = 0; i < GROUP_MOST; i++) {
      if (group[i].wish == LEASES && group[i].state == ADMITTED) sum += group[i].held;
      if (group[i].charged && group[i].state != ADMITTED &&
          (group[i].state != GIVEN_BACK || somebody_waits(model)))
        sum += group[i].state == SETTLED ? group[i].less[rule] : group[i].cost[rule];
    }
    if (sum > largest) largest = sum;
  }
  return largest;
}

/* P: what denied requests had charged and not yet taken back when the first of `clients`, one bit
 * each, was admitted, and what refunds gave back just then: at most a group of each other one. */
static int64_t pending_cost(const struct model *model, int rule, unsigned clients) {
  int64_t sum = 0;
  int64_t least = INT64_MAX;
  if (!raises(model) || model->mutant->without_p) return 0;
  for (int i = 0; i < CLIENTS_MOST; i++) {
    int64_t largest = largest_unused(model, i, rule);
    sum += largest;
    if (clients >> i & 1U && largest < least) least = largest;
  }
  return least < sum ? sum - least : 0;
}

/* When a record's holder may act: by its own clock, or in real time. */
static int64_t act_us(const struct model *model, int number, bool real) {
  const struct record *record = &model->world->records[number];
  int64_t offset = real ? world_offset_us(model, record_client(number)) : 0;
  return record->stamp_us + record->delay_us - offset;
}

/* Units admitted from one moment to another, and by whom. */
static int64_t admitted_between(const struct model *model, int rule, int64_t from_us, int64_t to_us,
                                bool real, bool settlements, unsigned class, unsigned *clients) {
  int64_t units = 0;
  for (int i = 0; i < RECORDS_MOST; i++) {
    const struct record *record = &model->world->records[i];
    int64_t at = act_us(model, i, real);
    int64_t charge = record->wish == LEASES ? 0 : record_charge(record, rule, settlements);
    if (charge == 0 || at < from_us || at > to_us || !class_is_within(record, class)) continue;
    units += charge * model->stack.rules[rule].token_units;
    if (record_client(i) >= 0) *clients |= 1U << record_client(i);
  }
  return units;
}

/* Longer than an interval by clocks: what drains while clocks differ. By stamps that counts where
 * charges go back, by another's clock than the one that saw them drain; and where the store raises, they
 * are on their way for D besides. */
static int64_t longer_us(const struct model *model, bool real) {
  bool on_its_way = raises(model) && model->gives_back && !model->mutant->without_way;
  return (real || model->gives_back ? 2 * SKEW_US : 0) + (on_its_way ? DEADLINE_US : 0);
}

/* Any interval [from, to] between the acts of two records. */
static void check_interval(struct model *model, int i, int64_t from_us, int64_t to_us, bool real,
                           bool settlements, unsigned class) {
  const weir_rule *rule = &model->stack.rules[i];
  unsigned clients = 0;
  int64_t span = to_us - from_us + longer_us(model, real);
  int64_t burst = class == 0 ? rule->burst : class_limit(model, i, class);
  int64_t most = burst + (settlements ? rule->debt : 0);
  int64_t sum = admitted_between(model, i, from_us, to_us, real, settlements, class, &clients);
  int64_t excess = sum - most * rule->token_units - bucket_units(rule, span);
  int64_t spare = pending_cost(model, i, clients) + model->world->slack[i];
  if (excess > spare * rule->token_units)
    check_fails(model, CHECK_BOUND,
                "%" PRId64 " units %s from E%+" PRId64 " to E%+" PRId64 ", %" PRId64 " allowed",
                sum, settlements ? "charged" : "admitted", from_us - model->edge_us,
                to_us - model->edge_us, sum - excess + spare * rule->token_units);
}

static void check_spacing(struct model *model, int i, int a, int b) {
  const weir_rule *rule = &model->stack.rules[i];
  int64_t apart = bucket_units(rule, act_us(model, b, false) - act_us(model, a, false));
  int64_t units = model->world->records[a].cost[i] * rule->token_units;
  int64_t rounding = bucket_units(rule, 1) - 1; /* a delay is told in whole microseconds */
  if (apart >= 0 && apart + rounding < units)
    check_fails(model, CHECK_BOUND,
                "two acts at E%+" PRId64 " and E%+" PRId64 ", %" PRId64 " units apart is the least",
                act_us(model, a, false) - model->edge_us, act_us(model, b, false) - model->edge_us,
                units);
}

static void check_pair(struct model *model, int i, int a, int b) {
  bool leaky = model->stack.rules[i].kind == WEIR_LEAKY_BUCKET;
  for (int real = 0; real < 2; real++) {
    int64_t from = act_us(model, a, real);
    int64_t to = act_us(model, b, real);
    if (from > to || leaky || !(real || model->exact)) continue;
    for (unsigned class = 0; class <= model->text.class_count; class ++) {
      check_interval(model, i, from, to, real, false, class);
      if (model->settles) check_interval(model, i, from, to, real, true, class);
    }
  }
  if (leaky && a != b && !model->world->evicted) check_spacing(model, i, a, b);
}

static void bound(struct model *model, int rule) {
  const struct record *records = model->world->records;
  for (int a = 0; a < RECORDS_MOST; a++) {
    if (records[a].wish == LEASES || record_charge(&records[a], rule, true) == 0) continue;
    for (int b = 0; b < RECORDS_MOST; b++)
      if (records[b].wish != LEASES && record_charge(&records[b], rule, true) > 0)
        check_pair(model, rule, a, b);
  }
}

/* --- the end -----------------------------------------------------------------------------------
 */

/* What every TTL has besides. */
enum { SLACK_US = 2000000 };

/* Until a full bucket has drained behind the longest wait for every reader; where the store raises, until the same
 * time after the end of the epoch, which may be now. */
static int64_t least_ttl_us(const struct model *model, int i) {
  const weir_rule *rule = &model->stack.rules[i];
  int64_t unit = bucket_units(rule, 1);
  int64_t debt_us = (rule->debt * rule->token_units + unit - 1) / unit;
  int64_t span_us =
      (full(rule) + unit - 1) / unit + (debt_us > LONGEST_WAIT_US ? debt_us : LONGEST_WAIT_US);
  return raises(model) ? 2 * span_us + 4 * FINAL_US + SLACK_US : span_us + FINAL_US;
}

/* Then what is stored may have been locked, further ahead still, until somebody puts it back. */
static bool clock_was_wrong(const struct model *model) {
  for (int i = 0; i < BEFORE_MOST; i++)
    if (model->scope->before[i].stamp_us > model->last_us - model->edge_us) return true;
  return false;
}

static void end(struct model *model, int rule) {
  int64_t v = bucket_stored(model, rule);
  if (raises(model) && clock_was_wrong(model)) return;
  int64_t explained = most(model, rule, UINT32_MAX, model->world->answered);
  if (v > explained)
    check_fails(model, CHECK_LEAK, "rule %d: %" PRId64 " units stay charged that nobody used", rule,
                v - explained);
}

static void evicted(struct model *model, const struct key *key, int64_t value) {
  (void)value;
  const struct record *records = model->world->records;
  model->world->slack[key->rule] += model->stack.rules[key->rule].burst;
  for (int i = 0; i < RECORDS_MOST; i++)
    if (may_charge(&records[i]) && records[i].charged && !(model->world->answered & bit(i)))
      model->world->slack[key->rule] += records[i].cost[key->rule];
}

static void excuse(struct model *model, const struct client *client, int rule) {
  (void)rule;
  for (int i = 0; i < GROUP_MOST; i++) {
    struct record *record = &model->world->records[client->first_record + i];
    if (record->charged) record->may_stay = true;
  }
}

static void excuse_sent(struct model *model, const struct client *client,
                        const weir_operation *operation) {
  (void)operation;
  for (int i = 0; i < GROUP_MOST; i++) {
    struct record *record = &model->world->records[client->first_record + i];
    if (record->state != NOT_ASKED) record->may_stay = true;
  }
}

const struct truth truth_bucket = {
    .landed = landed,
    .over = over,
    .denies = denies,
    .least_ttl_us = least_ttl_us,
    .bound = bound,
    .end = end,
    .evicted = evicted,
    .excuse = excuse,
    .excuse_sent = excuse_sent,
};

/* What is true of an account: what it owes, and how much it may admit. Written from
 * docs/guarantees.md, "Outages", and not from src/limits/memo/account.c: by what this client admitted,
 * paid and was answered. */
#include <inttypes.h>

#include "algorithm/in_flight.h"
#include "outage.h"
#include "truth.h"

/* Of each client, where shares are not learnt: one half. */
enum { CLIENTS = 2 };

static int64_t span_us(const weir_rule *rule) {
  if (!weir_rule_moves_in_time(rule)) return rule->period_us;
  return rule->burst * rule->period_us / rule->limit;
}

/* --- what is owed ------------------------------------------------------------------------------
 */

static void check_dues(struct model *model, const struct client *client) {
  int64_t owed = 0;
  for (size_t i = 0; i < model->stack.count; i++)
    owed += client->account->parts[i].owed;
  if (owed != client->outage->dues.owed)
    check_fails(model, CHECK_DUES, "client %d owes %" PRId64 ", its account says %" PRId64,
                world_client_number(model, client), client->outage->dues.owed, owed);
}

static struct record *first_record(const struct model *model, const struct client *client) {
  int number = world_client_number(model, client);
  return &model->world->records[number * REQUESTS_MOST * GROUP_MOST];
}

/* The answer of a new outage, or of one that goes on. The client is cut off, or was only late. */
void dues_begin(struct model *model, struct client *client, int64_t now_us, bool gone) {
  struct outage *outage = client->outage;
  bool over = outage->hold_until_us > 0 && now_us >= outage->hold_until_us;
  struct record *records = first_record(model, client);
  outage->hold_until_us = 0;
  outage->gone = (outage->gone && !over) || gone;
  if (outage->began_us > 0 && !over) return;
  outage->began_us = now_us;
  for (int i = 0; i < REQUESTS_MOST * GROUP_MOST; i++)
    records[i].known = records[i].state == ADMITTED || records[i].state == ALLOWED;
}

/* Of what is held, and was sent without an answer, a second period was not. */
static bool is_owed(const struct model *model, size_t i, const struct record *record) {
  const weir_rule *rule = &model->stack.rules[i];
  int64_t end_us = (record->stamp_us / rule->period_us + 1) * rule->period_us;
  return !record->unsure || (weir_rule_is_held(rule) &&
                             weir_held_end_us(rule, &model->settings, record->stamp_us) > end_us);
}

/* Whether what was admitted then may be paid now. */
static bool is_payable(const struct model *model, size_t i, int64_t admitted_us, int64_t now_us) {
  const weir_rule *rule = &model->stack.rules[i];
  if (weir_rule_is_held(rule))
    return now_us < weir_held_end_us(rule, &model->settings, admitted_us);
  if (rule->kind == WEIR_FIXED_WINDOW)
    return admitted_us / rule->period_us == now_us / rule->period_us;
  return now_us < admitted_us + span_us(rule);
}

/* What this client was allowed under rule i, is not sure to have been sent, and may be paid now. */
static int64_t payable_of(const struct model *model, const struct client *client, size_t i,
                          int64_t now_us) {
  const struct record *records = first_record(model, client);
  int64_t sum = 0;
  for (int n = 0; n < REQUESTS_MOST * GROUP_MOST; n++) {
    if (records[n].state == ALLOWED && is_owed(model, i, &records[n]) &&
        is_payable(model, i, records[n].stamp_us, now_us))
      sum += records[n].cost[i];
  }
  return sum;
}

/* What is dropped is of a period that is over. Older admissions go first, so what stays owed is at
 * least what may be paid. */
void dues_rolled(struct model *model, struct client *client, const int64_t *before, int64_t dropped,
                 int64_t now_us) {
  struct dues *dues = &client->outage->dues;
  dues->owed -= dropped;
  for (size_t i = 0; i < model->stack.count; i++) {
    const weir_rule *rule = &model->stack.rules[i];
    int64_t owed = client->account->parts[i].owed;
    if (owed == before[i] || weir_rule_opens_windows(rule) ||
        !is_payable(model, i, dues->admitted_us, now_us) ||
        owed >= payable_of(model, client, i, now_us))
      continue;
    check_fails(model, CHECK_DUES, "client %d drops what may be paid",
                world_client_number(model, client));
  }
  check_dues(model, client);
}

void dues_paid(struct model *model, struct client *client, int64_t paid, int64_t unpaid) {
  client->outage->dues.owed -= paid + unpaid;
  check_dues(model, client);
}

/* What was taken goes back once: what is owed of it, or what was paid. */
void dues_given_back(struct model *model, struct client *client, const struct record *taken,
                     int64_t unpaid, const int64_t *rest) {
  int64_t sum = unpaid;
  int64_t cost = 0;
  client->outage->dues.owed -= unpaid;
  for (size_t i = 0; i < model->stack.count; i++) {
    sum += rest[i];
    cost += taken->cost[i];
  }
  if (sum > cost)
    check_fails(model, CHECK_DUES, "client %d gives back %" PRId64 " of %" PRId64,
                world_client_number(model, client), sum, cost);
  check_dues(model, client);
}

/* The end of the last epoch that a payment of this stamp has paid by now, as an entry does. */
static int64_t paid_until_us(const struct model *model, const struct client *client, int i,
                             int64_t stamp_us) {
  const weir_rule *rule = &model->stack.rules[i];
  int64_t end_us = (stamp_us / rule->period_us + 1) * rule->period_us;
  bool ahead =
      world_clock_us(model, client) >= end_us - weir_held_run_up_us(rule, &model->settings);
  return end_us + (ahead ? rule->period_us : 0);
}

/* What is paid was admitted in a period that lasts. */
void check_paid(struct model *model, struct client *client, const struct record *record) {
  for (int i = 0; i < (int)model->stack.count; i++) {
    const struct truth *truth = truth_of(model, i);
    if (record->cost[i] == 0) continue;
    if (!is_payable(model, (size_t)i, client->outage->dues.admitted_us, record->stamp_us))
      check_fails(model, CHECK_DUES, "client %d pays what was admitted in a period before",
                  world_client_number(model, client));
    int64_t end_us = client->ends[i];
    client->ends[i] = paid_until_us(model, client, i, record->stamp_us);
    if (truth->admitted != NULL) truth->admitted(model, client, i, record);
    client->ends[i] = end_us;
    if (record->wish == TAKES) truth->bound(model, i);
  }
}

/* What of it was paid, last, goes back, and is not to be in the store any more. */
void dues_refunded(struct model *model, struct client *client, const int64_t *rest) {
  struct record *records = first_record(model, client);
  for (int i = 0; i < (int)model->stack.count; i++) {
    int64_t left = rest[i];
    for (int n = REQUESTS_MOST * GROUP_MOST - 1; n > 0; n -= GROUP_MOST) {
      struct record *payment = &records[n];
      int32_t part = payment->cost[i];
      if (payment->state != ADMITTED || part == 0 || left == 0) continue;
      if (part > left) part = (int32_t)left;
      left -= part;
      if (truth_of(model, i)->refunded != NULL)
        truth_of(model, i)->refunded(model, i, payment, part);
      payment->cost[i] -= part;
    }
  }
}

/* --- what may be admitted ----------------------------------------------------------------------
 */

/* Costs of the account's own since its outage began, and of this client's before, which it knows. */
struct sums {
  int64_t used, before, first, largest;
};

static struct sums sums_of(const struct model *model, const struct client *client, int rule,
                           int64_t from_us, int64_t to_us) {
  const struct record *records = first_record(model, client);
  struct sums sums = {0};
  for (int n = 0; n < REQUESTS_MOST * GROUP_MOST; n++) {
    const struct record *record = &records[n];
    bool now = record->state == ALLOWED || (record->state == ADMITTED && record->beside);
    int64_t cost = record->cost[rule];
    if (record->stamp_us < from_us || record->stamp_us > to_us) continue;
    if (now && !record->known) {
      if (sums.used == 0) sums.first = cost;
      sums.used += cost;
      if (cost > sums.largest) sums.largest = cost;
    } else if (record->state == ADMITTED && record->known) {
      sums.before += cost;
    }
  }
  return sums;
}

/* Twice the used is what is left at most, and twice the part of one request that u spares: of the
 * first, or, where that may have gone back or it is not told which it was, less than the largest. */
static bool fits(struct sums sums, int64_t left, int64_t chance) {
  if (sums.used > (left > 0 ? left : 0)) return false;
  int64_t over = CLIENTS * sums.used - left;
  return chance < 0 ? over < CLIENTS * sums.largest
                    : over * WEIR_SHARE_WHOLE <= CLIENTS * sums.first * chance;
}

static void check_share(struct model *model, const struct client *client, int i, struct sums sums,
                        int64_t limit, int64_t chance) {
  int64_t left = limit - sums.before;
  if (sums.used > 0 && !fits(sums, left, chance))
    check_fails(model, CHECK_ALLOWANCE,
                "rule %d: client %d admits %" PRId64 " of %" PRId64 " that were left", i,
                world_client_number(model, client), sums.used, left);
}

static void check_fixed(struct model *model, const struct client *client, int i, int64_t at_us) {
  const weir_rule *rule = &client_stack(model, client)->rules[i];
  int64_t begin_us = at_us - at_us % rule->period_us;
  struct sums sums = sums_of(model, client, i, begin_us, begin_us + rule->period_us - 1);
  int64_t chance = -1;
  if (!model->gives_back)
    chance =
        weir_account_chance(client->account, (size_t)i, outage_secret(model, client) + (uint64_t)i);
  check_share(model, client, i, sums, rule->limit, chance);
}

/* Every interval that ends now: a window, or the time in which a bucket fills again. */
static void check_sliding(struct model *model, const struct client *client, int i, int64_t at_us) {
  const weir_rule *rule = &client_stack(model, client)->rules[i];
  int64_t limit = weir_rule_moves_in_time(rule) ? rule->burst : weir_rule_bound(rule);
  int64_t span = weir_rule_moves_in_time(rule) ? 1 : rule->period_us;
  struct sums sums = sums_of(model, client, i, at_us - span + 1, at_us);
  sums.before = 0;
  check_share(model, client, i, sums, limit, -1);
}

/* In one epoch: what it allowed since its outage began stands beside what it had paid for before. */
static void check_held(struct model *model, const struct client *client, int i, int64_t epoch) {
  const weir_rule *rule = &client_stack(model, client)->rules[i];
  const struct record *records = first_record(model, client);
  struct sums sums = {0};
  for (int n = 0; n < REQUESTS_MOST * GROUP_MOST; n++) {
    const struct record *record = &records[n];
    bool is_new = !record->known &&
                  (record->state == ALLOWED || (record->state == ADMITTED && record->beside));
    bool is_own = record->known && record->state == ADMITTED;
    int64_t end_us =
        is_own ? record->mark[i] : weir_held_end_us(rule, &model->settings, record->stamp_us);
    if (record->wish != TAKES || (!is_new && !is_own) ||
        epoch < record->stamp_us / rule->period_us || epoch >= end_us / rule->period_us)
      continue;
    if (is_own) sums.before += record->cost[i];
    if (is_new) sums.used += record->cost[i];
    if (is_new && record->cost[i] > sums.largest) sums.largest = record->cost[i];
  }
  int64_t all = sums.used + sums.before;
  if (sums.used > 0 && CLIENTS * all >= rule->limit + CLIENTS * sums.largest)
    check_fails(model, CHECK_ALLOWANCE,
                "rule %d: client %d has %" PRId64 " places, %" PRId64 " of them by its account", i,
                world_client_number(model, client), all, sums.used);
}

static void check_allowance(struct model *model, const struct client *client, int64_t at_us) {
  for (int i = 0; i < (int)model->stack.count && !(model->scope->flags & LEARNS); i++) {
    if (model->stack.rules[i].kind == WEIR_FIXED_WINDOW)
      check_fixed(model, client, i, at_us);
    else if (weir_rule_is_held(&model->stack.rules[i]))
      for (int64_t ahead = 0; ahead <= 1; ahead++)
        check_held(model, client, i, at_us / model->stack.rules[i].period_us + ahead);
    else
      check_sliding(model, client, i, at_us);
  }
}

/* By the account. */
void dues_allowed(struct model *model, struct client *client, struct record *record) {
  struct dues *dues = &client->outage->dues;
  for (size_t i = 0; i < model->stack.count; i++) {
    if (weir_rule_takes_one(&model->stack.rules[i]) || !is_owed(model, i, record)) continue;
    dues->owed += record->cost[i];
    dues->admitted_us = record->stamp_us;
  }
  check_dues(model, client);
  check_allowance(model, client, record->stamp_us);
}

/* A request goes to the store, maybe while the account holds. */
void dues_asked(struct client *client, struct record *record) {
  const struct outage *outage = client->outage;
  record->beside = outage->hold_until_us > 0 && client->start_us < outage->hold_until_us;
}

/* By the store. */
void dues_admitted(struct model *model, struct client *client, const struct record *record) {
  if (record->beside) check_allowance(model, client, record->stamp_us);
}

/* --- what is learnt ----------------------------------------------------------------------------
 */

/* Denied beside the store. A client that was only late has left no room to others. */
void dues_withheld(struct model *model, const struct client *client) {
  if (!client->outage->gone)
    check_fails(model, CHECK_DENIAL, "client %d was only late, and holds back",
                world_client_number(model, client));
}

/* The first answer of the store begins the hold; until it is over nothing is learnt. */
void dues_settled(struct model *model, struct client *client, const weir_claim *first,
                  const weir_machine *machine) {
  struct outage *outage = client->outage;
  int64_t now_us = machine->frame.clock_us;
  int64_t away_us = now_us > outage->began_us ? now_us - outage->began_us : 0;
  if (first->verdict.status == WEIR_OK && outage->hold_until_us == 0)
    outage->hold_until_us =
        now_us + (outage->gone ? (away_us < 500000 ? away_us : 500000) + 2 * DEADLINE_US : 0);
  for (size_t i = 0; i < model->stack.count; i++) {
    const weir_share *before = &client->memo->expected[i].share;
    const weir_share *after = &machine->frame.memo->expected[i].share;
    bool learnt = before->mine != after->mine || before->all != after->all;
    bool holds = outage->hold_until_us == 0 || now_us < outage->hold_until_us;
    if (learnt && holds)
      check_fails(model, CHECK_SHARE, "client %d learns a share while others may not be back",
                  world_client_number(model, client));
  }
}

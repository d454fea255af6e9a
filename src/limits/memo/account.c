#include "memo/account.h"

#include <stdlib.h>

#include "random.h"
#include "wide.h"

enum { PRIOR_CHARGES = 4, HOLD_MOST_US = 500000, LONG_US = 2000000 };

/* --- shares ------------------------------------------------------------------------------------
 */

/* (own + prior * share) / (all + prior), cut to what a share can be. */
static uint32_t mix(int64_t own, int64_t all, int64_t prior, uint32_t share) {
  weir_wide whole = (weir_wide)all + prior;
  weir_wide mixed = (weir_wide)own * WEIR_SHARE_WHOLE + (weir_wide)prior * share;
  if (whole <= 0 || mixed >= whole * WEIR_SHARE_WHOLE) return WEIR_SHARE_WHOLE;
  return mixed < whole ? 1 : (uint32_t)(mixed / whole);
}

/* As much as a few own charges. */
static int64_t prior_of(const weir_pool *pool) {
  int64_t mean = pool->charges > 0 ? pool->cost / pool->charges : 0;
  return PRIOR_CHARGES * (mean > 0 ? mean : 1);
}

uint32_t weir_account_process_share(const weir_pool *pool, uint32_t peers) {
  return mix(pool->mine, pool->all, prior_of(pool), WEIR_SHARE_WHOLE / peers);
}

/* Told, the more this process has measured of the key the more it is taken to be like its other keys. */
static uint32_t expected_share(const weir_share *share, const weir_pool *pool, weir_peers peers) {
  uint32_t like = weir_account_process_share(pool, peers.count);
  uint32_t even = WEIR_SHARE_WHOLE / peers.count;
  if (!peers.are_told || like <= even) return like;
  if (share->mine <= 0) return even;
  int64_t prior = prior_of(pool);
  return even +
         (uint32_t)((weir_wide)(like - even) * share->mine / ((weir_wide)share->mine + prior));
}

uint32_t weir_account_key_share(const weir_share *share, const weir_pool *pool, weir_peers peers) {
  return mix(share->mine, share->all, prior_of(pool), expected_share(share, pool, peers));
}

int64_t weir_account_whole(int64_t own, uint32_t share) {
  const int64_t most = INT64_C(1) << 53;
  weir_wide whole = (weir_wide)own * WEIR_SHARE_WHOLE / share;
  return whole < most ? (int64_t)whole : most;
}

/* --- periods -----------------------------------------------------------------------------------
 */

/* A bucket's is the time in which it fills: below 400 days. */
static int64_t span_us(const weir_rule *rule) {
  if (!weir_rule_moves_in_time(rule)) return rule->period_us;
  int64_t fills_us = (int64_t)((weir_wide)rule->capacity * rule->period_us / rule->limit);
  return fills_us > 0 ? fills_us : 1;
}

/* What is owed of it can be paid until this rule's next period begins; else for a span. What is held
 * is owed from the begin of the last period that it is held in. */
static bool ends_at_once(const weir_rule *rule) {
  return !weir_rule_is_held(rule) && weir_rule_keeps_counts(rule) && !weir_rule_slides(rule);
}

static void begin_period(weir_account_part *part, int64_t begin_us) {
  part->begin_us = begin_us;
  part->opened = part->open = false;
  part->charged = part->ahead = part->paid = 0;
}

/* What is held on has used the u of the period that it comes into. */
static void follow_period(weir_account_part *part, int64_t span, int64_t now_us) {
  int64_t begin_us = now_us - now_us % span;
  int64_t stays = begin_us == part->begin_us + span ? part->ahead : 0;
  begin_period(part, begin_us);
  part->charged = stays;
  part->opened = stays > 0;
}

weir_account *weir_account_create(const weir_stack *stack) {
  weir_account *account = NULL;
  return calloc(1, sizeof *account + stack->count * sizeof account->parts[0]);
}

void weir_account_begin(weir_account *account, const weir_stack *stack, const weir_known *known,
                        const uint32_t *shares, int64_t now_us) {
  account->began_us = now_us;
  account->hold_until_us = 0;
  account->will_hold = false;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    weir_account_part *part = &account->parts[i];
    const weir_account_part before = *part;
    int64_t begin_us = now_us - now_us % span_us(rule);
    bool open = weir_rule_opens_windows(rule) && known[i].count > 0;
    if (open) begin_us = known[i].charges[0].at_us;
    begin_period(part, begin_us);
    part->share = shares[i];
    part->begun = false;
    part->open = open;
    if (before.begin_us != begin_us) continue;
    part->paid = before.paid;
    if (!known[i].of_log) continue;
    part->opened = before.opened;
    part->charged = before.charged;
  }
}

int64_t weir_account_payable_until(const weir_account *account, const weir_rule *rule, size_t i) {
  const weir_account_part *part = &account->parts[i];
  return (ends_at_once(rule) ? part->begin_us : part->owed_us) + span_us(rule);
}

/* The older half goes first: what is left is then paid too long rather than not long enough. */
static void take_off_owed(weir_account_part *part, int64_t cost) {
  part->owed -= cost;
  part->old -= cost < part->old ? cost : part->old;
}

/* The half that was admitted first may be of a period that is over, though the other is not: a sliding
 * window has forgotten it, and a bucket has drained as much. */
int64_t weir_account_roll(weir_account *account, const weir_stack *stack, int64_t now_us) {
  int64_t dropped = 0;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    weir_account_part *part = &account->parts[i];
    int64_t span = span_us(rule);
    int64_t until_us = weir_account_payable_until(account, rule, i);
    if (now_us >= part->begin_us + span) follow_period(part, span, now_us);
    int64_t over = now_us >= part->old_us + span ? part->old : 0;
    if (now_us >= until_us) over = part->owed;
    take_off_owed(part, over);
    dropped += over;
  }
  return dropped;
}

/* --- weights -----------------------------------------------------------------------------------
 */

/* The number of the generator that began at the secret, which no client can know, after as many
 * steps as the period's begin has microseconds. */
uint32_t weir_account_chance(const weir_account *account, size_t i, uint64_t secret) {
  uint64_t steps_before = (uint64_t)account->parts[i].begin_us - 1;
  uint64_t state = secret + steps_before * WEIR_RANDOM_STEP;
  return (uint32_t)(weir_random_next(&state) % WEIR_SHARE_WHOLE);
}

/* A bucket keeps what it is short of a request until it has that much: its u is used once, unless
 * it could never hold a whole one. */
static bool has_chance(const weir_account_part *part, const weir_rule *continued,
                       weir_wide weight) {
  if (part->opened) return false;
  return !weir_rule_moves_in_time(continued) || !part->begun || weight > continued->capacity;
}

static weir_wide divide_up(weir_wide number, int64_t by) {
  return (number + by - 1) / by;
}

/* Never less than the cost itself: so no process admits more than what is left. */
int64_t weir_account_weigh(const weir_account *account, const weir_rule *continued, size_t i,
                           int64_t cost, bool up_to, uint32_t chance) {
  const weir_account_part *part = &account->parts[i];
  weir_wide least = (weir_wide)cost * continued->parts;
  weir_wide weight = divide_up(least * WEIR_SHARE_WHOLE, part->share);
  if (has_chance(part, continued, weight)) {
    weir_wide spared = (weir_wide)(up_to ? 1 : cost) * continued->parts * chance;
    weight = divide_up(least * WEIR_SHARE_WHOLE - spared, part->share);
  }
  if (weight < least) weight = least;
  weir_wide never = (weir_wide)continued->capacity + 1;
  return (int64_t)(weight < never ? weight : never);
}

int64_t weir_account_cost(const weir_account *account, const weir_rule *continued, size_t i,
                          int64_t parts, bool up_to, uint32_t chance) {
  const weir_account_part *part = &account->parts[i];
  weir_wide room = (weir_wide)parts * part->share;
  if (parts <= 0) return 0;
  if (up_to &&
      has_chance(part, continued, (weir_wide)continued->parts * WEIR_SHARE_WHOLE / part->share))
    room += (weir_wide)continued->parts * chance;
  weir_wide cost = room / ((weir_wide)continued->parts * WEIR_SHARE_WHOLE);
  int64_t most = parts / continued->parts;
  return cost < most ? (int64_t)cost : most;
}

/* --- keeping it --------------------------------------------------------------------------------
 */

int64_t weir_account_admit(weir_account *account, const weir_rule *rule, size_t i, int64_t cost,
                           int64_t weight, int64_t at_us, bool owed) {
  weir_account_part *part = &account->parts[i];
  if (cost == 0) return 0;
  if (weir_rule_opens_windows(rule) && !part->open) part->begin_us = at_us;
  part->open = part->opened = part->begun = true;
  part->charged += weight;
  if (weir_rule_is_held(rule) && at_us > part->begin_us) part->ahead += weight;
  if (!owed || weir_rule_takes_one(rule)) return 0; /* a log has no entry for what is paid later */
  if (part->owed == 0) {
    part->young_us = at_us;
  } else if (!ends_at_once(rule) && at_us >= part->young_us + span_us(rule)) {
    part->old = part->owed;
    part->old_us = part->owed_us;
    part->young_us = at_us;
  }
  part->owed += cost;
  part->owed_us = at_us;
  return cost;
}

int64_t weir_account_pay(weir_account *account, size_t i, int64_t offered, int64_t paid) {
  take_off_owed(&account->parts[i], offered);
  return offered - paid;
}

void weir_account_confirm(weir_account *account, size_t rules, const int64_t *paid, int64_t at_us) {
  account->paid_us = at_us;
  for (size_t i = 0; i < rules; i++)
    account->parts[i].paid = paid[i];
}

void weir_account_hold(weir_account *account, int64_t now_us, int64_t deadline_us) {
  int64_t answered_us = now_us - account->began_us;
  int64_t most_us = answered_us < LONG_US ? HOLD_MOST_US : 2 * HOLD_MOST_US;
  int64_t hold_us = answered_us < most_us ? answered_us : most_us;
  if (hold_us < 0) hold_us = 0;
  account->hold_until_us = account->will_hold ? now_us + hold_us + 2 * deadline_us : now_us;
}

bool weir_account_holds(const weir_account *account, int64_t now_us) {
  return account->hold_until_us > 0 && now_us < account->hold_until_us;
}

bool weir_account_is_quiet(const weir_account *account, int64_t now_us) {
  return account->hold_until_us > 0 && now_us >= account->hold_until_us;
}

int64_t weir_account_refund(weir_account *account, const weir_rule *continued, size_t i,
                            int64_t cost, bool owed, int64_t *weight) {
  weir_account_part *part = &account->parts[i];
  weir_wide counted = (weir_wide)cost * continued->parts * WEIR_SHARE_WHOLE / part->share;
  *weight = counted < part->charged ? (int64_t)counted : part->charged;
  part->charged -= *weight;
  if (part->ahead > part->charged) part->ahead = part->charged;
  if (!owed) return 0;
  int64_t of_owed = cost < part->owed ? cost : part->owed;
  int64_t of_paid = cost - of_owed < part->paid ? cost - of_owed : part->paid;
  take_off_owed(part, of_owed);
  part->paid -= of_paid;
  return of_paid;
}

bool weir_account_may_matter(const weir_stack *stack, int64_t at_us, int64_t now_us) {
  for (size_t i = 0; i < stack->count; i++)
    if (now_us - at_us < span_us(&stack->rules[i])) return true;
  return false;
}

int64_t weir_account_forgive(weir_account *account, const weir_stack *stack, int64_t now_us) {
  int64_t owed = 0;
  if (account->hold_until_us == 0 || account->hold_until_us > now_us)
    account->hold_until_us = now_us > 0 ? now_us : 1;
  for (size_t i = 0; i < stack->count; i++) {
    owed += account->parts[i].owed;
    account->parts[i].owed = account->parts[i].old = account->parts[i].paid = 0;
  }
  return owed;
}

bool weir_account_is_over(const weir_account *account, const weir_stack *stack, int64_t now_us) {
  if (!weir_account_is_quiet(account, now_us)) return false;
  for (size_t i = 0; i < stack->count; i++) {
    int64_t span = span_us(&stack->rules[i]);
    if (account->parts[i].owed > 0 || now_us < account->hold_until_us + 2 * span) return false;
  }
  return true;
}

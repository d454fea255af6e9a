/* Token and leaky buckets: what they allow, and what may be given back.
 *
 * Giving back is not the reverse of a charge. What was charged drains; once the rest of the bucket
 * has run dry it drains for real, and given back it would be there twice. And where a request waits
 * for a place behind it, a later request would be given a place beside that one. So
 *
 *     still the last charge     all of it: the time before it is put back
 *     a token bucket            what has not drained, while no request waits
 *     else                      nothing
 *
 * A bucket with debt= gives no delays: a request that would wait is denied, as by a window, and comes
 * again. What is ahead of a full one is then a debt, and no request's place: settlements have charged it,
 * up to now + B'T + DT, and it drains like all else before any request is admitted again. So it may be as
 * long as a wait, or longer, and counts where that does.
 */
#include "algorithm/bucket.h"

#include "algorithm/plan.h"

enum { EPOCH_BITS = 52, STORED_BITS = 62, AHEAD_BITS = 58, UNITS_BITS_MOST = 61 };

#define LOW_BITS(count) ((INT64_C(1) << (count)) - 1)

/* --- arithmetic --------------------------------------------------------------------------------
 */

int64_t weir_bucket_units(const weir_rule *rule, int64_t us) {
  int64_t most_us = INT64_C(1) << (UNITS_BITS_MOST - rule->unit_bits);
  return (us < most_us ? us : most_us) << rule->unit_bits;
}

int64_t weir_bucket_us(const weir_rule *rule, int64_t units) {
  return (units + LOW_BITS(rule->unit_bits)) >> rule->unit_bits;
}

int64_t weir_bucket_full(const weir_rule *rule) {
  return (rule->burst - rule->reserve) * rule->token_units;
}

int64_t weir_bucket_fullest(const weir_rule *rule) {
  int64_t full = weir_bucket_full(rule);
  if (rule->fullest_us == 0) return full;
  int64_t of_any = weir_bucket_units(rule, rule->fullest_us);
  return full > of_any ? full : of_any;
}

int64_t weir_bucket_full_of(const weir_rule *rule, const weir_ask *ask) {
  return weir_ask_capacity(rule, ask) * rule->token_units;
}

int64_t weir_bucket_deepest(const weir_rule *rule) {
  return weir_bucket_full(rule) + rule->debt * rule->token_units;
}

int64_t weir_bucket_beyond(const weir_rule *rule, const weir_settings *settings) {
  int64_t wait = weir_bucket_units(rule, settings->longest_wait_us);
  int64_t debt = rule->debt * rule->token_units;
  return wait > debt ? wait : debt;
}

/* Room in units; below 0: that much too little. And, of a leaky bucket, by how much the place in the
 * queue is later than the request accepts. */
static int64_t bucket_free_units(const weir_rule *rule, int64_t ahead, const weir_ask *ask,
                                 int64_t *late) {
  int64_t room = (ask != NULL ? weir_bucket_full_of(rule, ask) : weir_bucket_full(rule)) - ahead;
  *late = 0;
  if (ask == NULL || !ask->waits || rule->debt > 0) return room;
  int64_t wait = weir_bucket_units(rule, ask->wait_us);
  if (rule->kind == WEIR_TOKEN_BUCKET)
    room += wait;
  else if (ahead > wait)
    *late = ahead - wait;
  return room;
}

int64_t weir_bucket_room(const weir_rule *rule, int64_t ahead, const weir_ask *ask) {
  int64_t late;
  int64_t room = bucket_free_units(rule, ahead, ask, &late) / rule->token_units;
  int64_t capacity = weir_rule_capacity_of(rule, ask != NULL ? ask->class : 0);
  if (room <= 0 || late > 0) return 0;
  return room < capacity ? room : capacity;
}

int64_t weir_bucket_retry_after_us(const weir_rule *rule, int64_t ahead, const weir_ask *ask,
                                   int64_t cost) {
  int64_t late;
  int64_t wait = cost * rule->token_units - bucket_free_units(rule, ahead, ask, &late);
  if (wait < late) wait = late;
  return wait > 0 ? weir_bucket_us(rule, wait) : 0;
}

int64_t weir_bucket_delay_us(const weir_rule *rule, int64_t ahead, const weir_ask *ask,
                             int64_t cost) {
  int64_t delay = ahead;
  if (rule->kind == WEIR_TOKEN_BUCKET)
    delay += cost * rule->token_units - weir_bucket_full_of(rule, ask);
  return delay > 0 ? weir_bucket_us(rule, delay) : 0;
}

int64_t weir_bucket_undrained(const weir_rule *rule, int64_t cost, int64_t before,
                              int64_t elapsed_us) {
  int64_t drained = elapsed_us > 0 ? weir_bucket_units(rule, elapsed_us) - before : 0;
  int64_t left = cost * rule->token_units - (drained > 0 ? drained : 0);
  return left > 0 ? left : 0;
}

int64_t weir_bucket_wrap(const weir_rule *rule, int64_t now_us, int64_t ahead) {
  int64_t now = (now_us & LOW_BITS(STORED_BITS - rule->unit_bits)) << rule->unit_bits;
  return (now + ahead) & LOW_BITS(STORED_BITS);
}

int64_t weir_bucket_unwrap(const weir_rule *rule, int64_t now_us, int64_t stored) {
  int64_t ahead = (stored - weir_bucket_wrap(rule, now_us, 0)) & LOW_BITS(STORED_BITS);
  return ahead <= LOW_BITS(AHEAD_BITS) ? ahead : 0;
}

int64_t weir_bucket_told_apart_us(const weir_rule *rule) {
  return (LOW_BITS(STORED_BITS) - LOW_BITS(AHEAD_BITS)) >> rule->unit_bits;
}

int64_t weir_bucket_wrapped_less(int64_t stored, int64_t units) {
  return (stored - units) & LOW_BITS(STORED_BITS);
}

int64_t weir_bucket_epoch(const weir_rule *rule, int64_t now_us) {
  return now_us >> (EPOCH_BITS - rule->unit_bits);
}

int64_t weir_bucket_offset(const weir_rule *rule, int64_t now_us) {
  return (now_us & LOW_BITS(EPOCH_BITS - rule->unit_bits)) << rule->unit_bits;
}

/* A process that reads may have taken its stamp up to its deadline before others charge by a clock
 * that is 2d ahead. */
int64_t weir_bucket_furthest(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_fullest(rule) + weir_bucket_beyond(rule, settings) +
         weir_bucket_units(rule, settings->final_us);
}

int64_t weir_bucket_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_us(rule, weir_bucket_furthest(rule, settings)) + WEIR_TTL_SLACK_US;
}

/* --- what is known -----------------------------------------------------------------------------
 */

void weir_bucket_set_ahead(weir_rule_state *r, int64_t ahead, bool far) {
  weir_bucket_state *state = r->state;
  state->far = far;
  state->ahead = far ? weir_bucket_full(r->rule) : ahead;
  state->furthest = weir_bucket_furthest(r->rule, r->frame->settings);
}

bool weir_bucket_has_waiters(const weir_rule *rule, int64_t ahead) {
  return rule->debt == 0 && ahead > weir_bucket_full(rule);
}

bool weir_bucket_mends(const weir_rule_state *r) {
  return ((const weir_bucket_state *)r->state)->far && weir_has_takes(r->frame);
}

bool weir_bucket_is_fresh(const weir_rule_state *r) {
  const weir_bucket_memory *memory = r->memory;
  int64_t age_us = r->frame->now_us - memory->read_us;
  return memory->known && age_us >= 0 && age_us <= r->frame->settings->memo_age_us;
}

bool weir_bucket_all_fit(const weir_rule_state *r) {
  int64_t ahead = ((const weir_bucket_state *)r->state)->ahead;
  for (const weir_claim *request = r->frame->requests; request != NULL; request = request->next) {
    int64_t cost = weir_claim_cost(request, r->index);
    if (!weir_claim_is_open(request)) continue;
    if (weir_bucket_room(r->rule, ahead, &request->ask) < cost) return false;
    ahead += cost * r->rule->token_units;
  }
  return true;
}

void weir_bucket_forget(void *memory) {
  weir_bucket_memory *cached = memory;
  cached->known = false;
  cached->version = 0;
  cached->far_since_us = cached->locked_us = 0;
}

void weir_bucket_known(const weir_rule_state *r, int64_t ahead, weir_known *known) {
  int64_t token = r->rule->token_units;
  if (ahead > weir_bucket_furthest(r->rule, r->frame->settings)) ahead = weir_bucket_full(r->rule);
  known->charges[0].at_us = r->frame->now_us;
  /* A token takes less than 2^45 units. */
  known->charges[0].amount =
      weir_known_parts(r->rule, ahead / token) + ahead % token * WEIR_CONTINUED_PARTS / token;
  known->count = ahead > 0;
}

/* --- what it means -----------------------------------------------------------------------------
 */

int64_t weir_bucket_allows(const weir_rule_state *r, const weir_ask *ask) {
  return weir_bucket_room(r->rule, ((const weir_bucket_state *)r->state)->ahead, ask);
}

int64_t weir_bucket_count(weir_rule_state *r, int64_t cost) {
  return ((weir_bucket_state *)r->state)->ahead += cost * r->rule->token_units;
}

static int64_t bucket_delay(const weir_rule_state *r, const weir_ask *ask, int64_t cost) {
  return weir_bucket_delay_us(r->rule, ((const weir_bucket_state *)r->state)->ahead, ask, cost);
}

static int64_t bucket_slot(const weir_rule_state *r) {
  int64_t ahead = ((const weir_bucket_state *)r->state)->ahead, now_us = r->frame->now_us;
  bool swaps = r->frame->settings->traits & WEIR_TRAIT_SWAP;
  return swaps ? weir_bucket_wrap(r->rule, now_us, ahead)
               : weir_bucket_offset(r->rule, now_us) + ahead;
}

const weir_delaying_table weir_bucket_delaying = {.delay = bucket_delay, .slot = bucket_slot};

/* On what a wrong clock has left nothing is charged: it may be put back at any time. */
int64_t weir_bucket_settles(const weir_rule_state *r, int64_t cost) {
  const weir_bucket_state *state = r->state;
  int64_t beyond = r->rule->debt * r->rule->token_units;
  int64_t deepest = weir_bucket_full_of(r->rule, &r->frame->requests->ask) + beyond;
  int64_t room = (deepest - state->ahead) / r->rule->token_units;
  if (room <= 0 || state->far) return 0;
  return room < cost ? room : cost;
}

/* What a wrong clock left too far ahead does not drain: it is put back in two steps from now, by
 * those who come when each is due, and counts as full from then on. */
void weir_bucket_figures(const weir_rule_state *r, const weir_ask *ask, int64_t cost, bool denied,
                         weir_decision *decision) {
  const weir_bucket_state *state = r->state;
  const weir_rule *rule = r->rule;
  int64_t ahead = state->ahead;
  int64_t full = weir_bucket_full_of(rule, ask);
  decision->remaining = ahead < full ? (full - ahead) / rule->token_units : 0;
  if (denied) decision->retry_after_us = weir_bucket_retry_after_us(rule, ahead, ask, cost);
  decision->reset_after_us = weir_bucket_us(rule, ahead);
  if (ahead <= state->furthest || state->step_us == 0) return;
  int64_t put_back_us = 2 * state->step_us + weir_bucket_us(rule, weir_bucket_full(rule));
  if (decision->retry_after_us > state->step_us) decision->retry_after_us = state->step_us;
  if (decision->reset_after_us > put_back_us) decision->reset_after_us = put_back_us;
}

/* The share, in the bucket's time, which belongs to no period: its past is halved when it holds so many
 * own charges. At `now` the bucket is empty; after a gap longer than it takes to drain, and than a second,
 * nothing is learnt: it was dry, for an unknown time. Where it may have run dry between two looks, it
 * counts as if it never had: the share is then the part of the rate that this process used itself, and
 * those of all stay below 1.
 *
 * The key. By what this process was charged alone, it lives at least until that has drained. That it
 * stands for less than that is no proof: what others give back is measured by their clocks. */
void weir_bucket_expect(weir_rule_state *r, int64_t cost) {
  enum { CHARGES_OF_A_PAST = 16 };
  const weir_rule *rule = r->rule;
  weir_expected *expected = r->expected;
  weir_share *share = &expected->share;
  int64_t index = ((const weir_bucket_memory *)r->memory)->index;
  int64_t now_us = r->frame->now_us;
  int64_t units = cost * rule->token_units;
  if (cost > 0) {
    int64_t now = weir_bucket_wrap(rule, now_us, 0);
    int64_t before = now + ((const weir_bucket_state *)r->state)->ahead - units;
    int64_t second = INT64_C(1000000) << rule->unit_bits;
    int64_t full = weir_bucket_full(rule);
    bool had_some = share->before != 0 || share->last != 0;
    bool lately = now - share->before - share->last <= (full > second ? full : second) &&
                  before >= share->before;
    weir_share_learn(share, r->lesson, had_some && lately, before, units);
    if (share->mine > CHARGES_OF_A_PAST * units) weir_share_halve(share, 1);
  } else {
    share->last += units;
  }
  int64_t until_us = expected->index == index ? expected->amount : 0;
  int64_t begin_us = cost > 0 && until_us < now_us ? now_us : until_us;
  int64_t drains_in_us = units / (INT64_C(1) << rule->unit_bits);
  weir_expect_add(r, index, begin_us + drains_in_us - until_us);
}

void weir_bucket_watch(weir_rule_state *r, const weir_operation *operation) {
  bool absent = operation->outcome == WEIR_ABSENT || operation->kind == WEIR_CREATE;
  int64_t lives_until_us = absent ? r->frame->clock_us : INT64_MAX;
  weir_expect_compare(r, operation->counter.index, lives_until_us);
}

/* After a charge at the stamp v was at least that and cT more; nothing but what gives back has
 * lowered it since. So what is missing of cT - elapsed was lost, reset or given back before. Every
 * place in a leaky bucket is one in its queue: one without a delay began at the stamp. Without compare and
 * swap a process cannot know whether a place still is the last. */
bool weir_bucket_refund(weir_rule_state *r, const weir_ask *ask, int64_t cost) {
  weir_bucket_state *state = r->state;
  const weir_rule *rule = r->rule;
  bool swaps = r->frame->settings->traits & WEIR_TRAIT_SWAP;
  r->unused = 0;
  state->before = 0;
  state->slot = WEIR_NO_SLOT;
  state->stamp_us = ask->at_us;
  if (cost > weir_rule_capacity(rule)) return false;
  if (ask->ends != NULL) {
    state->slot = ask->ends[r->index];
    if (state->slot == WEIR_NO_SLOT && rule->kind == WEIR_LEAKY_BUCKET && swaps)
      state->slot = weir_bucket_wrap(rule, ask->at_us, cost * rule->token_units);
  }
  if (state->slot != WEIR_NO_SLOT || rule->kind == WEIR_LEAKY_BUCKET) return true;
  int64_t left = weir_bucket_undrained(rule, cost, 0, r->frame->now_us - ask->at_us);
  if (left > state->ahead) return false;
  if (left > 0 && !weir_bucket_has_waiters(rule, state->ahead)) r->unused = cost;
  return true;
}

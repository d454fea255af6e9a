/* Token and leaky buckets: what they allow, and what may be given back.
 *
 * Giving back is not the reverse of a charge. What was charged drains; once the rest of the bucket
 * has run dry it drains for real, and given back it would be there twice. And where somebody waits
 * for a place behind it, a later request would be given a place beside theirs. So
 *
 *     still the last charge     all of it: the time before it is put back
 *     a token bucket            what has not drained, while nobody waits
 *     else                      nothing
 */
#include "algorithm/bucket.h"

#include "algorithm/expected.h"
#include "algorithm/share.h"

static const weir_bucket_storage *bucket_storage_of(const weir_settings *settings) {
  return settings->traits & WEIR_TRAIT_SWAP ? &weir_bucket_swap : &weir_bucket_raise;
}

/* Who reads may have taken its stamp up to its deadline before others charge by a clock that is 2d
 * ahead. */
static int64_t bucket_wait_units(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_units(rule, settings->longest_wait_us + settings->final_us);
}

int64_t weir_bucket_furthest(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_full(rule) + bucket_wait_units(rule, settings);
}

int64_t weir_bucket_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_us(rule, weir_bucket_full(rule) + bucket_wait_units(rule, settings)) +
         WEIR_TTL_SLACK_US;
}

static int64_t bucket_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return settings->traits & WEIR_TRAIT_SWAP ? weir_bucket_ttl_us(rule, settings)
                                            : weir_bucket_raised_ttl_us(rule, settings);
}

static unsigned bucket_needs(unsigned traits) {
  if (traits & WEIR_TRAIT_SWAP) return WEIR_NEED_GET | WEIR_NEED_CREATE | WEIR_NEED_SWAP;
  return WEIR_NEED_RAISE | WEIR_NEED_RAISED_GET | WEIR_NEED_RAISED_SUB;
}

/* --- what is known -----------------------------------------------------------------------------
 */

/* False: not known, taken as nothing. */
static bool bucket_load(const weir_rule *rule, const weir_settings *settings,
                        const weir_bucket_memory *memory, weir_rule_state *rule_state) {
  weir_bucket_state *state = rule_state->state;
  int64_t ahead = 0;
  bool known =
      bucket_storage_of(settings)->ahead(rule, settings, memory, rule_state->now_us, &ahead);
  state->far =
      bucket_storage_of(settings)->is_far(rule, settings, memory, rule_state->now_us, ahead);
  state->ahead = state->far ? weir_bucket_full(rule) : ahead;
  state->furthest = weir_bucket_furthest(rule, settings);
  state->step_us = bucket_storage_of(settings)->step_us != NULL
                       ? bucket_storage_of(settings)->step_us(rule, settings)
                       : 0;
  return known;
}

void weir_bucket_load(weir_machine *machine, size_t i) {
  bucket_load(&machine->stack->rules[i], machine->settings, machine->rule_states[i].memory,
              &machine->rule_states[i]);
}

/* What is cached of a key that must be gone by now, unless others have used it, is not known. */
static void bucket_frame(weir_machine *machine, size_t i) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  if (machine->now_us - memory->read_us > machine->rule_states[i].ttl_us) memory->known = false;
  weir_bucket_load(machine, i);
}

bool weir_bucket_mends(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->rule_states[i].state;
  return state->far && weir_machine_has_takes(machine);
}

bool weir_bucket_is_fresh(const weir_machine *machine, const weir_bucket_memory *memory) {
  int64_t age_us = machine->now_us - memory->read_us;
  return memory->known && age_us >= 0 && age_us <= machine->settings->memo_age_us;
}

/* One after another, each on top of those before it. */
static bool bucket_all_fit(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t ahead = state->ahead;
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next) {
    int64_t cost = weir_request_cost(request, i);
    if (request->settled || request->kind != WEIR_TAKE) continue;
    if (weir_bucket_room(rule, ahead, request) < cost) return false;
    ahead += cost * rule->token_units;
  }
  return true;
}

static bool bucket_blind(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->rule_states[i].state;
  return !state->far && bucket_storage_of(machine->settings)->blind(machine, i) &&
         bucket_all_fit(machine, i);
}

/* --- rounds ------------------------------------------------------------------------------------
 */

/* A new time for two keys, each dropped and made anew, is the most. */
static size_t bucket_memory_bytes(const weir_rule *rule) {
  (void)rule;
  return sizeof(weir_bucket_memory);
}

static size_t bucket_operations_most(const weir_rule *rule) {
  (void)rule;
  return 4;
}

static void bucket_look(weir_machine *machine, size_t i) {
  bucket_storage_of(machine->settings)->look(machine, i);
}

static void bucket_charge(weir_machine *machine, size_t i) {
  bucket_storage_of(machine->settings)->charge(machine, i);
}

static void bucket_take_back(weir_machine *machine, size_t i) {
  bucket_storage_of(machine->settings)->take_back(machine, i);
}

static void bucket_reset(weir_machine *machine, size_t i) {
  if (machine->rule_states[i].step++ == 0) bucket_storage_of(machine->settings)->reset(machine, i);
}

static void bucket_answer(weir_machine *machine, size_t i, const weir_operation *operation) {
  bucket_storage_of(machine->settings)->answer(machine, i, operation);
}

/* --- what it means -----------------------------------------------------------------------------
 */

static int64_t bucket_room(const weir_rule *rule, const weir_rule_state *rule_state,
                           const weir_request_state *request) {
  const weir_bucket_state *state = rule_state->state;
  return weir_bucket_room(rule, state->ahead, request);
}

static void bucket_note(weir_machine *machine, size_t i, int64_t cost) {
  weir_bucket_state *state = machine->rule_states[i].state;
  state->ahead += cost * machine->stack->rules[i].token_units;
}

/* What a wrong clock left too far ahead does not drain: it is put back in two steps from now, by
 * those who come when each is due, and counts as full from then on. */
static void bucket_figures(const weir_rule *rule, const weir_rule_state *rule_state,
                           const weir_request_state *request, int64_t cost, bool denied,
                           weir_decision *decision) {
  const weir_bucket_state *state = rule_state->state;
  int64_t ahead = state->ahead;
  decision->remaining = weir_bucket_room(rule, ahead, NULL);
  if (denied) decision->retry_after_us = weir_bucket_retry_after_us(rule, ahead, request, cost);
  decision->reset_after_us = weir_bucket_us(rule, ahead);
  if (ahead <= state->furthest || state->step_us == 0) return;
  int64_t put_back_us = 2 * state->step_us + weir_bucket_us(rule, weir_bucket_full(rule));
  if (decision->retry_after_us > state->step_us) decision->retry_after_us = state->step_us;
  if (decision->reset_after_us > put_back_us) decision->reset_after_us = put_back_us;
}

static int64_t bucket_delay(const weir_rule *rule, const weir_rule_state *rule_state,
                            int64_t cost) {
  const weir_bucket_state *state = rule_state->state;
  return weir_bucket_delay_us(rule, state->ahead, cost);
}

static int64_t bucket_slot(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->rule_states[i].state;
  return bucket_storage_of(machine->settings)
      ->stored(&machine->stack->rules[i], machine->now_us, state->ahead);
}

/* Where the bucket may have run dry between two looks, it counts as if it never had: the share is
 * then the part of the rate that this process used itself, and those of all stay below 1. */
static void bucket_learn(weir_machine *machine, size_t i, int64_t cost) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_bucket_state *state = machine->rule_states[i].state;
  weir_share *share = &machine->notes->expected[i].share;
  int64_t units = cost * rule->token_units;
  int64_t now = weir_bucket_wrap(rule, machine->rule_states[i].now_us, 0);
  int64_t second = INT64_C(1000000) << rule->unit_bits;
  int64_t full = weir_bucket_full(rule);
  if (cost > 0)
    weir_share_learn_time(share, &machine->lessons[i], now + state->ahead - units, units, now,
                          full > second ? full : second);
  else
    share->last += units;
}

/* By what this process was charged alone, the key lives at least until that has drained. That it
 * stands for less than that is no proof: what others give back is measured by their clocks. */
static void bucket_expect(weir_machine *machine, size_t i, int64_t cost) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_expected *expected = &machine->notes->expected[i];
  int64_t now_us = machine->rule_states[i].now_us;
  bool swaps = machine->settings->traits & WEIR_TRAIT_SWAP;
  int64_t index = swaps ? 0 : weir_bucket_epoch(rule, now_us);
  bucket_learn(machine, i, cost);
  int64_t until_us = expected->index == index ? expected->amount : 0;
  int64_t begin_us = cost > 0 && until_us < now_us ? now_us : until_us;
  int64_t drains_in_us = cost * rule->token_units / (INT64_C(1) << rule->unit_bits);
  weir_expected_add(machine, i, index, begin_us + drains_in_us - until_us);
}

void weir_bucket_watch(weir_machine *machine, size_t i, const weir_operation *operation) {
  bool absent = operation->outcome == WEIR_ABSENT || operation->kind == WEIR_CREATE;
  int64_t lives_until_us = absent ? machine->clock_us : INT64_MAX;
  weir_expected_compare(machine, i, operation->counter.index, lives_until_us);
}

/* --- giving back -------------------------------------------------------------------------------
 */

/* Every place in a leaky bucket is one in its queue: who had no delay began at the stamp. */
static int64_t bucket_slot_of(const weir_machine *machine, size_t i,
                              const weir_request_state *request, int64_t cost) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t end = request->ends != NULL ? request->ends[i] : WEIR_NO_SLOT;
  if (request->ends == NULL || end != WEIR_NO_SLOT || rule->kind == WEIR_TOKEN_BUCKET) return end;
  return bucket_storage_of(machine->settings)
      ->stored(rule, request->at_us, cost * rule->token_units);
}

/* After a charge at the stamp v was at least that and cT more; nothing but what gives back has
 * lowered it since. So what is missing of cT - elapsed was lost, reset or given back before. */
static bool bucket_refund(weir_machine *machine, size_t i, const weir_request_state *request,
                          int64_t cost) {
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  rule_state->unused = 0;
  state->before = 0;
  state->slot = WEIR_NO_SLOT;
  state->stamp_us = request->at_us;
  if (cost > weir_rule_capacity(rule)) return false;
  int64_t end = bucket_slot_of(machine, i, request, cost);
  if (end != WEIR_NO_SLOT) bucket_storage_of(machine->settings)->cancel(machine, i, end, cost);
  if (end != WEIR_NO_SLOT || rule->kind == WEIR_LEAKY_BUCKET) return true;
  int64_t left = weir_bucket_undrained(rule, cost, 0, rule_state->now_us - request->at_us);
  if (left > state->ahead) return false;
  if (left > 0 && state->ahead <= weir_bucket_full(rule)) rule_state->unused = cost;
  return true;
}

static bool bucket_recall(const weir_rule *rule, const weir_settings *settings, const void *memory,
                          int64_t now_us, const weir_request_state *request, int64_t cost,
                          int64_t *room, weir_decision *figures) {
  weir_bucket_state state = {0};
  weir_rule_state rule_state = {.now_us = now_us, .state = &state};
  if (!bucket_load(rule, settings, memory, &rule_state)) return false;
  *room = bucket_room(rule, &rule_state, request);
  bucket_figures(rule, &rule_state, request, cost, *room < cost, figures);
  return true;
}

/* --- going on without the store ----------------------------------------------------------------
 */

static void bucket_forget(void *memory) {
  weir_bucket_memory *cached = memory;
  cached->known = false;
  cached->version = 0;
  cached->far_since_us = cached->locked_us = 0;
}

static void bucket_known(const weir_rule *rule, const weir_settings *settings, const void *memory,
                         const weir_expected *expected, int64_t now_us, weir_known *known) {
  (void)expected;
  weir_bucket_memory cached = *(const weir_bucket_memory *)memory;
  int64_t ahead = 0;
  if (cached.read_us == 0) return;
  cached.known = true;
  if (!bucket_storage_of(settings)->ahead(rule, settings, &cached, now_us, &ahead)) return;
  if (ahead > weir_bucket_furthest(rule, settings)) ahead = weir_bucket_full(rule);
  known->charges[0].at_us = now_us;
  /* A token takes less than 2^45 units. */
  known->charges[0].amount = weir_known_parts(ahead / rule->token_units) +
                             ahead % rule->token_units * WEIR_CONTINUED_PARTS / rule->token_units;
  known->count = ahead > 0;
}

static void bucket_begin(weir_machine *machine, size_t i, const weir_known *known, bool afresh) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t amount = known->count > 0 ? weir_known_here(rule, known->charges[0].amount) : 0;
  int64_t ahead = amount * rule->token_units;
  if (amount == 0 && !afresh) return;
  weir_operation_kind kind = amount == 0 ? WEIR_DROP : afresh ? WEIR_PUT : WEIR_CREATE;
  weir_operation *operation = weir_plan(machine, i, kind, WEIR_PLACE_COUNT, 0);
  operation->value = weir_bucket_wrap(rule, machine->now_us, ahead);
  operation->stake = weir_plan_stake(ahead, weir_bucket_full(rule));
}

const weir_method weir_bucket_method = {
    .stage = WEIR_STAGE_BUCKETS,
    .moves_in_time = true,
    .needs = bucket_needs,
    .ttl_us = bucket_ttl_us,
    .memory_bytes = bucket_memory_bytes,
    .state_bytes = sizeof(weir_bucket_state),
    .operations_most = bucket_operations_most,
    .frame = bucket_frame,
    .blind = bucket_blind,
    .look = bucket_look,
    .charge = bucket_charge,
    .take_back = bucket_take_back,
    .reset = bucket_reset,
    .answer = bucket_answer,
    .room = bucket_room,
    .note = bucket_note,
    .figures = bucket_figures,
    .delay = bucket_delay,
    .slot = bucket_slot,
    .expect = bucket_expect,
    .refund = bucket_refund,
    .recall = bucket_recall,
    .forget = bucket_forget,
    .known = bucket_known,
    .begin = bucket_begin,
};

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

#include "algorithm/held.h"
#include "algorithm/stage.h"

static const weir_bucket_storage *bucket_storage_of(const weir_terms *terms) {
  return terms->traits & WEIR_TRAIT_SWAP ? &weir_bucket_swap : &weir_bucket_raise;
}

static int64_t bucket_wait_units(const weir_rule *rule, const weir_terms *terms) {
  return weir_bucket_units(rule, terms->longest_wait_us + 2 * terms->clock_error_us);
}

int64_t weir_bucket_furthest(const weir_rule *rule, const weir_terms *terms) {
  return weir_bucket_full(rule) + bucket_wait_units(rule, terms);
}

int64_t weir_bucket_ttl_us(const weir_rule *rule, const weir_terms *terms) {
  return weir_bucket_us(rule, weir_bucket_full(rule) + bucket_wait_units(rule, terms)) +
         WEIR_TTL_SLACK_US;
}

static int64_t bucket_ttl_us(const weir_rule *rule, const weir_terms *terms) {
  return terms->traits & WEIR_TRAIT_SWAP ? weir_bucket_ttl_us(rule, terms)
                                         : weir_bucket_raised_ttl_us(rule, terms);
}

static unsigned bucket_needs(unsigned traits) {
  if (traits & WEIR_TRAIT_SWAP) return WEIR_NEED_GET | WEIR_NEED_CREATE | WEIR_NEED_SWAP;
  return WEIR_NEED_RAISE | WEIR_NEED_RAISED_GET | WEIR_NEED_RAISED_SUB;
}

/* --- what is known -----------------------------------------------------------------------------
 */

/* False: not known, taken as nothing. */
static bool bucket_load(const weir_rule *rule, const weir_terms *terms,
                        const weir_bucket_memory *memory, weir_part *part) {
  weir_bucket_state *state = part->state;
  int64_t ahead = 0;
  bool known = bucket_storage_of(terms)->ahead(rule, terms, memory, part->now_us, &ahead);
  state->far = bucket_storage_of(terms)->is_far(rule, terms, memory, part->now_us, ahead);
  state->ahead = state->far ? weir_bucket_full(rule) : ahead;
  return known;
}

void weir_bucket_load(weir_machine *machine, size_t i) {
  bucket_load(&machine->stack->rules[i], machine->terms, machine->parts[i].memory,
              &machine->parts[i]);
}

static void bucket_frame(weir_machine *machine, size_t i) {
  weir_bucket_load(machine, i);
}

bool weir_bucket_mends(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->parts[i].state;
  return state->far && weir_stage_has_takes(machine);
}

static bool bucket_is_fresh(const weir_machine *machine, const weir_bucket_memory *memory) {
  int64_t age_us = machine->now_us - memory->read_us;
  return memory->known && age_us >= 0 && age_us <= machine->terms->memo_age_us;
}

/* One after another, each on top of those before it. */
static bool bucket_all_fit(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->parts[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t ahead = state->ahead;
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    int64_t cost = weir_ask_cost(ask, i);
    if (ask->settled || ask->kind != WEIR_ASK_TAKE) continue;
    if (weir_bucket_room(rule, ahead, ask) < cost) return false;
    ahead += cost * rule->token_units;
  }
  return true;
}

static bool bucket_blind(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->parts[i].state;
  return bucket_is_fresh(machine, machine->parts[i].memory) && !state->far &&
         bucket_storage_of(machine->terms)->blind(machine, i) && bucket_all_fit(machine, i);
}

/* --- rounds ------------------------------------------------------------------------------------
 */

/* A new time for two keys, each dropped and made anew, is the most. */
static size_t bucket_memory_bytes(const weir_rule *rule) {
  (void)rule;
  return sizeof(weir_bucket_memory);
}

static size_t bucket_actions_most(const weir_rule *rule) {
  (void)rule;
  return 4;
}

static void bucket_look(weir_machine *machine, size_t i) {
  bucket_storage_of(machine->terms)->look(machine, i);
}

static void bucket_charge(weir_machine *machine, size_t i) {
  bucket_storage_of(machine->terms)->charge(machine, i);
}

static void bucket_take_back(weir_machine *machine, size_t i) {
  bucket_storage_of(machine->terms)->take_back(machine, i);
}

static void bucket_reset(weir_machine *machine, size_t i) {
  if (machine->parts[i].step++ == 0) bucket_storage_of(machine->terms)->reset(machine, i);
}

static void bucket_answer(weir_machine *machine, size_t i, const weir_action *action) {
  bucket_storage_of(machine->terms)->answer(machine, i, action);
}

/* --- what it means -----------------------------------------------------------------------------
 */

static int64_t bucket_room(const weir_rule *rule, const weir_part *part, const weir_ask *ask) {
  const weir_bucket_state *state = part->state;
  return weir_bucket_room(rule, state->ahead, ask);
}

static void bucket_note(weir_machine *machine, size_t i, int64_t cost) {
  weir_bucket_state *state = machine->parts[i].state;
  state->ahead += cost * machine->stack->rules[i].token_units;
}

static void bucket_figures(const weir_rule *rule, const weir_part *part, const weir_ask *ask,
                           int64_t cost, bool denied, weir_decision *decision) {
  const weir_bucket_state *state = part->state;
  int64_t ahead = state->ahead;
  decision->remaining = weir_bucket_room(rule, ahead, NULL);
  if (denied) decision->retry_after_us = weir_bucket_retry_after_us(rule, ahead, ask, cost);
  decision->reset_after_us = weir_bucket_us(rule, ahead);
}

static int64_t bucket_delay(const weir_rule *rule, const weir_part *part, int64_t cost) {
  const weir_bucket_state *state = part->state;
  return weir_bucket_delay_us(rule, state->ahead, cost);
}

static int64_t bucket_slot(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->parts[i].state;
  return bucket_storage_of(machine->terms)
      ->stored(&machine->stack->rules[i], machine->now_us, state->ahead);
}

/* By what this process was charged alone, the key lives at least until that has drained. That it
 * stands for less than that is no proof: what others give back is measured by their clocks. */
static void bucket_hold(weir_machine *machine, size_t i, int64_t cost) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_held *held = &machine->notes->held[i];
  int64_t now_us = machine->parts[i].now_us;
  bool swaps = machine->terms->traits & WEIR_TRAIT_SWAP;
  int64_t index = swaps ? 0 : weir_bucket_epoch(rule, now_us);
  int64_t until_us = held->index == index ? held->amount : 0;
  int64_t begin_us = cost > 0 && until_us < now_us ? now_us : until_us;
  int64_t drains_in_us = cost * rule->token_units / (INT64_C(1) << rule->unit_bits);
  weir_held_add(machine, i, index, begin_us + drains_in_us - until_us);
}

void weir_bucket_watch(weir_machine *machine, size_t i, const weir_action *action) {
  int64_t lives_until_us = action->outcome == WEIR_ABSENT ? machine->clock_us : INT64_MAX;
  weir_held_compare(machine, i, action->index, lives_until_us);
}

/* --- giving back -------------------------------------------------------------------------------
 */

/* Every place in a leaky bucket is one in its queue: who had no delay began at the stamp. */
static int64_t bucket_slot_of(const weir_machine *machine, size_t i, const weir_ask *ask,
                              int64_t cost) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t end = ask->ends != NULL ? ask->ends[i] : WEIR_NO_SLOT;
  if (ask->ends == NULL || end != WEIR_NO_SLOT || rule->kind == WEIR_TOKEN_BUCKET) return end;
  return bucket_storage_of(machine->terms)->stored(rule, ask->at_us, cost * rule->token_units);
}

/* After a charge at the stamp v was at least that and cT more; nothing but what gives back has
 * lowered it since. So what is missing of cT - elapsed was lost, reset or given back before. */
static bool bucket_refund(weir_machine *machine, size_t i, const weir_ask *ask, int64_t cost) {
  weir_bucket_state *state = machine->parts[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  part->unused = 0;
  state->before = 0;
  state->slot = WEIR_NO_SLOT;
  state->stamp_us = ask->at_us;
  if (cost > rule->burst) return false;
  int64_t end = bucket_slot_of(machine, i, ask, cost);
  if (end != WEIR_NO_SLOT) bucket_storage_of(machine->terms)->cancel(machine, i, end, cost);
  if (end != WEIR_NO_SLOT || rule->kind == WEIR_LEAKY_BUCKET) return true;
  int64_t left = weir_bucket_undrained(rule, cost, 0, part->now_us - ask->at_us);
  if (left > state->ahead) return false;
  if (left > 0 && state->ahead <= weir_bucket_full(rule)) part->unused = cost;
  return true;
}

static bool bucket_recall(const weir_rule *rule, const weir_terms *terms, const void *memory,
                          int64_t now_us, const weir_ask *ask, int64_t cost, int64_t *room,
                          weir_decision *figures) {
  weir_bucket_state state = {0};
  weir_part part = {.now_us = now_us, .state = &state};
  if (!bucket_load(rule, terms, memory, &part)) return false;
  *room = bucket_room(rule, &part, ask);
  bucket_figures(rule, &part, ask, cost, *room < cost, figures);
  return true;
}

const weir_method weir_bucket_method = {
    .stage = WEIR_STAGE_BUCKETS,
    .moves_in_time = true,
    .needs = bucket_needs,
    .ttl_us = bucket_ttl_us,
    .memory_bytes = bucket_memory_bytes,
    .state_bytes = sizeof(weir_bucket_state),
    .actions_most = bucket_actions_most,
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
    .hold = bucket_hold,
    .refund = bucket_refund,
    .recall = bucket_recall,
};

/* Buckets where the store compares and swaps: linearizable.
 *
 *     GET ──> fits ──> CREATE or SWAP ──> done
 *      ^                    │ others were faster
 *      └───── pause <───────┘
 *
 * What is not known, or was read too long ago, is tried all the same, with a GET behind it in the
 * same round trip: a key that is new to the process is mostly new to the store as well, one that
 * comes back has often not been used by any other process, and where that is wrong nothing is
 * touched.
 *
 * The version of the last write is cached, so that a process alone on a key needs one round trip.
 * Where others write too, it is stale by the next one: a process that met a conflict looks first for
 * a second, so that what it compares with is a round trip old, not as old as its last decision. What
 * is cached stops being true with every write that is sent: its answer may never come.
 */
#include "algorithm/bucket.h"
#include "algorithm/method.h"
#include "algorithm/plan.h"

enum { SWAPS_TO_TAKE_BACK = 3, LOOK_FIRST_US = 1000000 };

/* Brings r to what is cached. False: it is not known, and counts as nothing. Nothing is charged in vain:
 * what is ahead was admitted, and what is further ahead than honest clocks leave it was not. */
static bool swap_load(weir_rule_state *r) {
  const weir_bucket_memory *memory = r->memory;
  int64_t ahead = 0;
  if (memory->known && !memory->absent)
    ahead = weir_bucket_unwrap(r->rule, r->frame->now_us, memory->value);
  weir_bucket_set_ahead(r, ahead, ahead > weir_bucket_furthest(r->rule, r->frame->settings));
  return memory->known;
}

/* What is cached of a key that must be gone by now, unless others have used it, is not known. */
static void swap_begin(weir_rule_state *r) {
  weir_bucket_memory *memory = r->memory;
  if (r->frame->now_us - memory->read_us > r->ttl_us) memory->known = false;
  swap_load(r);
}

static bool swap_can_write(const weir_bucket_memory *memory) {
  return memory->known && (memory->absent || memory->version != 0);
}

/* What is settled must fit: nothing is written that would have to be taken back. */
static bool swap_settles_blind(const weir_rule_state *r) {
  int64_t cost = r->frame->requests->ask.costs[r->index];
  return swap_can_write(r->memory) && r->frame->now_us >= r->frame->memo->look_until_us &&
         weir_bucket_settles(r, cost) == cost;
}

/* Not every server says which version it gave to what it wrote. */
static bool swap_blind(const weir_rule_state *r) {
  const weir_bucket_memory *memory = r->memory;
  int64_t now_us = r->frame->now_us;
  bool may = !memory->known || (memory->version != 0 && now_us >= memory->read_us);
  return may && now_us >= r->frame->memo->look_until_us &&
         !((const weir_bucket_state *)r->state)->far && weir_bucket_all_fit(r);
}

/* --- planning ----------------------------------------------------------------------------------
 */

/* However long keys are to live at least: one that is so old that its number comes round again
 * would pass for a bucket that was just charged. A server rounds up by 2 s. */
static weir_operation *swap_plan_one(weir_rule_state *r, weir_operation_kind kind) {
  int64_t most_us = weir_bucket_told_apart_us(r->rule) - WEIR_TTL_SLACK_US;
  weir_operation *operation = weir_plan(r, kind, WEIR_PLACE_COUNT, 0);
  if (operation->ttl_us > most_us) operation->ttl_us = most_us;
  return operation;
}

/* In the place of what is cached, which stops being true with that. */
static void swap_plan_value(weir_rule_state *r, int64_t value) {
  const weir_bucket_memory *memory = r->memory;
  weir_operation *operation = swap_plan_one(r, memory->absent ? WEIR_CREATE : WEIR_SWAP);
  operation->value = value;
  operation->version = memory->version;
  operation->stake = weir_plan_stake(weir_bucket_unwrap(r->rule, r->frame->now_us, value),
                                     weir_bucket_full(r->rule));
  ((weir_bucket_state *)r->state)->written = value;
}

static void swap_plan_write(weir_rule_state *r, int64_t value) {
  swap_plan_value(r, value);
  ((weir_bucket_memory *)r->memory)->known = false;
}

/* Looked at before; only a clock that was set back since can make it too much. Or not: what fits
 * on top of what is cached, or into an empty bucket, is written where nothing has changed since, or
 * nothing is; and if that may be long ago, what is there is read along. */
static void swap_charge(weir_rule_state *r) {
  weir_bucket_state *state = r->state;
  weir_bucket_memory *memory = r->memory;
  if (r->charged || r->conflict || state->looks_along) return;
  state->looks_along = r->frame->blind && !weir_bucket_is_fresh(r);
  if (r->step++ == 0 && !state->looks_along && !swap_can_write(memory)) {
    swap_plan_one(r, WEIR_GET);
    return;
  }
  if (!memory->known) {
    memory->absent = true;
    memory->version = 0;
  }
  int64_t after = state->ahead + r->charge * r->rule->token_units;
  state->stamp_us = r->frame->now_us;
  state->slot = weir_bucket_wrap(r->rule, r->frame->now_us, after);
  state->only_last = r->rule->kind == WEIR_LEAKY_BUCKET;
  swap_plan_write(r, state->slot);
  if (state->looks_along) swap_plan_one(r, WEIR_GET);
}

/* What goes back of what is stored now, in units: all of the last charge, else what has not drained,
 * unless a request waits behind it. */
static int64_t swap_give_back(weir_rule_state *r) {
  const weir_bucket_state *state = r->state;
  const weir_rule *rule = r->rule;
  int64_t clock_us = r->frame->clock_us;
  int64_t stored = ((const weir_bucket_memory *)r->memory)->value;
  if (stored == state->slot) return r->unused * rule->token_units;
  int64_t ahead = weir_bucket_unwrap(rule, clock_us, stored);
  if (state->only_last || weir_bucket_has_waiters(rule, ahead)) return 0;
  int64_t units = weir_bucket_undrained(rule, r->unused, 0, clock_us - state->stamp_us);
  if (units == 0) r->unused = 0; /* it has drained */
  return units;
}

/* A look brings back what is too far ahead. What cannot go back stays charged, and `unused` as it is. */
static void swap_plan(weir_rule_state *r, weir_phase phase) {
  const weir_bucket_memory *memory = r->memory;
  const weir_rule *rule = r->rule;
  int64_t units;
  switch (phase) {
    case WEIR_PHASE_LOOK:
      if (r->step == 0)
        swap_plan_one(r, WEIR_GET);
      else if (r->step == 1 && weir_bucket_mends(r))
        swap_plan_write(r, weir_bucket_wrap(rule, r->frame->now_us, weir_bucket_full(rule)));
      r->step++;
      break;
    case WEIR_PHASE_CHARGE:
      swap_charge(r);
      break;
    case WEIR_PHASE_TAKE_BACK:
      if (r->step == SWAPS_TO_TAKE_BACK) break;
      if (!swap_can_write(memory)) {
        swap_plan_one(r, WEIR_GET);
        break;
      }
      units = swap_give_back(r);
      r->step = units == 0 ? SWAPS_TO_TAKE_BACK : r->step + 1;
      if (units > 0) swap_plan_write(r, weir_bucket_wrapped_less(memory->value, units));
      break;
    case WEIR_PHASE_RESET:
      if (r->step++ == 0) swap_plan_one(r, WEIR_DROP);
      break;
    default:
      break;
  }
}

static void swap_store(weir_rule_state *r, const weir_known *known, bool afresh) {
  int64_t amount = known->count > 0 ? weir_known_here(r->rule, known->charges[0].amount) : 0;
  int64_t ahead = amount * r->rule->token_units;
  if (amount == 0 && !afresh) return;
  weir_operation_kind kind = amount == 0 ? WEIR_DROP : afresh ? WEIR_PUT : WEIR_CREATE;
  weir_operation *operation = weir_plan(r, kind, WEIR_PLACE_COUNT, 0);
  operation->value = weir_bucket_wrap(r->rule, r->frame->now_us, ahead);
  operation->stake = weir_plan_stake(ahead, weir_bucket_full(r->rule));
}

/* --- answers -----------------------------------------------------------------------------------
 */

static void swap_cache(weir_rule_state *r, const weir_operation *operation, int64_t value) {
  weir_bucket_memory *memory = r->memory;
  memory->known = true;
  memory->absent = operation->outcome == WEIR_ABSENT;
  memory->value = weir_bucket_wrapped_less(value, 0);
  memory->version = operation->outcome == WEIR_DONE ? operation->version_out : 0;
  memory->read_us = r->frame->now_us;
}

static void swap_answer_read(weir_rule_state *r, const weir_operation *operation) {
  weir_phase phase = r->frame->phase;
  if (phase == WEIR_PHASE_CHARGE && r->charged) return; /* it has read what was written before it */
  weir_bucket_watch(r, operation);
  swap_cache(r, operation, operation->outcome == WEIR_DONE ? operation->value : 0);
  if (phase != WEIR_PHASE_TAKE_BACK)
    swap_load(r);
  else if (operation->outcome == WEIR_ABSENT)
    r->unused = 0;
}

/* Of what goes back. Where others keep it out there are some more tries. */
static void swap_answer_back(weir_rule_state *r, const weir_operation *operation) {
  if (operation->outcome != WEIR_CONFLICT) r->unused = 0;
  r->conflict = r->unused > 0 && r->step == SWAPS_TO_TAKE_BACK;
  if (operation->outcome == WEIR_DONE && r->frame->settles)
    swap_load(r); /* which is told what is left */
}

/* Where that is not DONE others were faster, and are looked out for from now on. */
static void swap_answer_write(weir_rule_state *r, const weir_operation *operation) {
  const weir_bucket_state *state = r->state;
  weir_phase phase = r->frame->phase;
  bool done = operation->outcome == WEIR_DONE, charges = phase == WEIR_PHASE_CHARGE;
  if (!done && charges && state->looks_along) return; /* the GET behind this says what there is */
  if (done && operation->kind == WEIR_CREATE) weir_bucket_watch(r, operation);
  if (done)
    swap_cache(r, operation, state->written);
  else
    r->frame->memo->look_until_us = r->frame->clock_us + LOOK_FIRST_US;
  if (phase == WEIR_PHASE_TAKE_BACK)
    swap_answer_back(r, operation);
  else if (!done)
    r->conflict = true;
  else if (charges)
    r->charged = true;
  else
    swap_load(r);
}

static void swap_answer(weir_rule_state *r, const weir_operation *operation) {
  if (operation->kind == WEIR_GET)
    swap_answer_read(r, operation);
  else if (operation->kind != WEIR_DROP)
    swap_answer_write(r, operation);
}

/* --- a plain charge ----------------------------------------------------------------------------
 *
 * Of a request to a token bucket on top of what was written or read lately, so that none may have come
 * between. It is alone: each is told another time until the bucket is empty.
 */

static bool swap_plan_plain(weir_rule_state *r) {
  const weir_bucket_memory *memory = r->memory;
  const weir_rule *rule = r->rule;
  weir_bucket_state *state = r->state;
  int64_t now_us = r->frame->now_us;
  if (rule->kind != WEIR_TOKEN_BUCKET || r->frame->requests->next != NULL || memory->version == 0 ||
      !weir_bucket_is_fresh(r) || now_us - memory->read_us > r->ttl_us ||
      now_us < r->frame->memo->look_until_us)
    return false;
  state->before = weir_bucket_unwrap(rule, now_us, memory->value);
  state->ahead = state->before + r->charge * rule->token_units;
  if (state->ahead > weir_bucket_full_of(rule, &r->frame->requests->ask)) return false;
  swap_plan_value(r, weir_bucket_wrap(rule, now_us, state->ahead));
  return true;
}

static bool swap_end_plain(weir_rule_state *r, const weir_operation *operation) {
  const weir_bucket_state *state = r->state;
  swap_cache(r, operation, state->written);
  int64_t used = (state->before + r->rule->token_units - 1) / r->rule->token_units;
  weir_plain_fits(r, used, used); /* it does: plan has looked */
  r->reset_after_us = weir_bucket_us(r->rule, state->ahead);
  return true;
}

/* --- what it means -----------------------------------------------------------------------------
 */

/* A slot is cancelled if it still is the last. */
static bool swap_refund(weir_rule_state *r, const weir_ask *ask, int64_t cost) {
  const weir_bucket_memory *memory = r->memory;
  weir_bucket_state *state = r->state;
  bool good = weir_bucket_refund(r, ask, cost);
  if (state->slot == WEIR_NO_SLOT) return good;
  state->only_last = true;
  if (!memory->absent && memory->value == state->slot) r->unused = cost;
  return good;
}

static void swap_known(const weir_rule_state *r, weir_known *known) {
  const weir_bucket_memory *memory = r->memory;
  int64_t now_us = r->frame->now_us;
  if (memory->read_us == 0) return;
  weir_bucket_known(r, memory->absent ? 0 : weir_bucket_unwrap(r->rule, now_us, memory->value),
                    known);
}

static const weir_plain_table swap_plain = {.plan = swap_plan_plain, .end = swap_end_plain};

static const weir_settling_table swap_settling = {.blind = swap_settles_blind,
                                                  .overrun = weir_bucket_settles};

const weir_method weir_swap_method = {
    .stage = WEIR_STAGE_BUCKETS,
    .needs = WEIR_NEED_GET | WEIR_NEED_CREATE | WEIR_NEED_SWAP,
    .memory_bytes = sizeof(weir_bucket_memory),
    .state_bytes = sizeof(weir_bucket_state),
    .operations_most = 4, /* as a bucket that is raised, so that a machine has room for either */
    .ttl_us = weir_bucket_ttl_us,
    .begin = swap_begin,
    .blind = swap_blind,
    .plan = swap_plan,
    .store = swap_store,
    .answer = swap_answer,
    .room = weir_bucket_allows,
    .oldest_us = weir_read_now_us,
    .count = weir_bucket_count,
    .figures = weir_bucket_figures,
    .expect = weir_bucket_expect,
    .refund = swap_refund,
    .recall = swap_load,
    .known = swap_known,
    .forget = weir_bucket_forget,
    .delaying = &weir_bucket_delaying,
    .plain = &swap_plain,
    .settling = &swap_settling,
};

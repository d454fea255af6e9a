/* Buckets where the store raises a value and adds to it: decided on what the addition returned
 * (docs/guarantees.md, "Token bucket where the store raises").
 *
 *     GET ──> fits ──> RAISE ──> fits ──> done
 *                        │ others came between
 *                        └─> SUB        overshoot goes back, unless places in a queue may follow it
 *
 * Times are kept per epoch, because the store counts in doubles. For as long as anything charged
 * before an epoch's start may count after it (the handover), both keys are read, both are charged,
 * and what is ahead is the later of the two: a process whose clock is behind still charges the old
 * key alone. The new key is raised to what the old one holds, so that in the end it knows all.
 *
 * A charge renews the TTL only where less than is needed may be left of it. A RAISE that does not
 * renew never creates, so it may find nothing: then the one that does follows.
 *
 * A time that a wrong clock has left too far ahead is brought back. Requests that are denied, and
 * settlements that are cut, charge in vain, at most a full bucket and its debt for each other process
 * at once, and take it back. Were the time put back before they have, it would be short of that. So
 * it is locked first, by a process that wants to charge:
 *
 *     too far ahead ──> still so ──> locked ──> locked until now: put back
 *              one settle time   one settle time
 *
 * The lock raises it so high that no request is admitted, whatever is taken back, until all that was
 * charged in vain before the lock is back ("Putting back what a wrong clock has left").
 */
#include "algorithm/bucket.h"
#include "algorithm/method.h"
#include "algorithm/plan.h"

enum { NEXT = -1, PRESENT, PAST, KEYS_MOST }; /* epochs, and how many count at once */
enum { NOT_READ = -1 };

/* --- lives of keys -----------------------------------------------------------------------------
 */

static int64_t raise_handover_units(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_fullest(rule) + weir_bucket_beyond(rule, settings) +
         weir_bucket_units(rule, 3 * settings->final_us);
}

/* How long a key must live after a charge: until its epoch's handover is over. */
static int64_t raise_needed_us(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_ttl_us(rule, settings) +
         weir_bucket_us(rule, raise_handover_units(rule, settings));
}

/* With a spare, so that not every charge must renew it: a quarter of the whole. */
static int64_t raise_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  int64_t needed_us = raise_needed_us(rule, settings);
  return needed_us + (needed_us + 2) / 3;
}

/* Whether a charge that leaves so much ahead finds at least needed_us left of the key's life; and
 * should others have renewed it since whose bucket or debt is smaller, at least until that has drained
 * (docs/guarantees.md, "How long a bucket's key lives where the store raises"). A charge that counts
 * reaches the store at most D after now, and clocks may err by d at both ends: e in all. A clock that
 * does not keep the pace of real time cannot tell. */
static bool raise_lives_long_enough(const weir_rule_state *r, int64_t ahead) {
  const weir_bucket_memory *memory = r->memory;
  const weir_rule *rule = r->rule;
  const weir_settings *settings = r->frame->settings;
  int64_t age_us = r->frame->now_us - memory->renewed_us;
  int64_t spare_us = raise_ttl_us(rule, settings) - raise_needed_us(rule, settings);
  int64_t others_us = 2 * (settings->longest_wait_us + 2 * settings->final_us) + WEIR_TTL_SLACK_US;
  return memory->renewed_us > 0 && settings->least_ttl_us == 0 && age_us >= 0 &&
         age_us + settings->ahead_us <= spare_us &&
         age_us + settings->ahead_us + weir_bucket_us(rule, ahead) <= others_us + others_us / 3;
}

/* --- the lock ----------------------------------------------------------------------------------
 *
 * How high things stand, from the bottom up:
 *
 *     furthest                  what was admitted, by honest clocks
 *     + overshoot               what others have charged in vain, now or when the lock is over
 *     + 2 settle                for as long as a lock counts
 *     + overshoot               what is taken back while it does
 *     = the lock: a time above the first three terms shows that the lock is still set
 *     + 2d                      the lock of a clock that is ahead: more is no lock at all
 */

/* With an offset in its epoch on top, and what others add, a double is still exact. */
#define LOCK_MOST (INT64_C(1) << 51)

typedef struct lock_heights {
  int64_t furthest, overshoot, unlocked, lock; /* units; `unlocked`: the first three terms */
  int64_t settle_us;
  bool locks; /* a process alone charges nothing in vain, and a lock must not be too high */
} lock_heights;

/* By one settle time every process that believed that something fits has learnt better, and taken
 * back: knowledge is so old at most, and a decision, by another clock, lasts so long, by any
 * deadline. */
static lock_heights raise_heights(const weir_rule *rule, const weir_settings *settings) {
  int64_t others = settings->processes > 1 ? settings->processes - 1 : 0;
  int64_t most = weir_bucket_deepest(rule); /* of one group, or one settlement */
  lock_heights heights = {
      .furthest = weir_bucket_furthest(rule, settings),
      .overshoot = most <= LOCK_MOST / (others + 1) ? others * most : LOCK_MOST,
      .settle_us = settings->memo_age_us + 2 * settings->final_us,
  };
  heights.unlocked =
      heights.furthest + heights.overshoot + weir_bucket_units(rule, 2 * heights.settle_us);
  heights.lock = heights.unlocked + heights.overshoot;
  heights.locks = others > 0 && heights.lock < LOCK_MOST;
  return heights;
}

/* How long ago this process locked the bucket; below 0: it did not, or so long ago that the lock
 * counts no more, as it may have been put back and gone ahead again: two settle times. */
static int64_t raise_locked_since_us(const weir_bucket_memory *memory, const lock_heights *heights,
                                     int64_t now_us) {
  int64_t since_us = now_us - memory->locked_us;
  return since_us <= 2 * heights->settle_us ? since_us : -1;
}

/* Whether what is so far ahead can be put back now: a lock of this process has held, or nothing but a
 * wrong clock leaves so much ahead. */
static bool raise_is_far(const weir_rule_state *r, const lock_heights *heights, int64_t ahead) {
  if (ahead <= heights->furthest) return false;
  if (!heights->locks) return ahead > heights->furthest + heights->overshoot;
  int64_t ahead_of_all_us = 2 * r->frame->settings->clock_error_us;
  if (ahead > heights->lock + weir_bucket_units(r->rule, ahead_of_all_us)) return true;
  int64_t since_us = raise_locked_since_us(r->memory, heights, r->frame->now_us);
  return since_us >= heights->settle_us &&
         ahead + weir_bucket_units(r->rule, since_us) > heights->unlocked;
}

/* After a look: takes down since when that is too far, and answers whether it is to be locked now. A
 * process that only peeks changes nothing. */
static bool raise_is_to_lock(weir_rule_state *r) {
  weir_bucket_memory *memory = r->memory;
  lock_heights heights = raise_heights(r->rule, r->frame->settings);
  int64_t now_us = r->frame->now_us;
  if (((const weir_bucket_state *)r->state)->ahead <= heights.furthest) {
    memory->far_since_us = 0;
    return false;
  }
  if (memory->far_since_us == 0 || memory->far_since_us > now_us) memory->far_since_us = now_us;
  return heights.locks && raise_locked_since_us(memory, &heights, now_us) < 0 &&
         now_us - memory->far_since_us >= heights.settle_us && weir_has_takes(r->frame);
}

/* --- what is known -----------------------------------------------------------------------------
 */

/* How many keys count. */
static int raise_keys(const weir_rule_state *r) {
  int64_t now_us = r->frame->now_us;
  bool handover =
      weir_bucket_epoch(r->rule, now_us) > 0 &&
      weir_bucket_offset(r->rule, now_us) < raise_handover_units(r->rule, r->frame->settings);
  return handover ? KEYS_MOST : 1;
}

/* Now, as a key would hold it. */
static int64_t raise_now_in(const weir_rule_state *r, int key) {
  return weir_bucket_offset(r->rule, r->frame->now_us) + key * WEIR_BUCKET_EPOCH;
}

/* What was last read of the keys; a key of which nothing is known holds the start of its epoch, as one
 * that is absent does. A look just before a roll has read what is now the past. */
static bool raise_read(const weir_rule_state *r, int64_t values[KEYS_MOST]) {
  const weir_bucket_memory *memory = r->memory;
  int64_t behind = weir_bucket_epoch(r->rule, r->frame->now_us) - memory->index;
  if (behind < 0 || behind > 1) return false;
  values[PRESENT] = behind == 0 ? memory->value : 0;
  values[PAST] = behind == 0 ? memory->past : memory->value;
  return values[PAST] != NOT_READ || raise_keys(r) == 1;
}

static bool raise_knows(const weir_rule_state *r, int64_t values[KEYS_MOST]) {
  return ((const weir_bucket_memory *)r->memory)->known && raise_read(r, values);
}

/* The later of the keys. */
static int64_t raise_ahead(const weir_rule_state *r, const int64_t values[KEYS_MOST]) {
  int64_t ahead = 0;
  for (int key = 0; key < raise_keys(r); key++) {
    int64_t later = values[key] - raise_now_in(r, key);
    if (later > ahead) ahead = later;
  }
  return ahead;
}

/* Brings r to what is cached. False: it is not known, and counts as nothing. */
static bool raise_load(weir_rule_state *r) {
  lock_heights heights = raise_heights(r->rule, r->frame->settings);
  int64_t values[KEYS_MOST];
  bool known = raise_knows(r, values);
  int64_t ahead = known ? raise_ahead(r, values) : 0;
  weir_bucket_set_ahead(r, ahead, raise_is_far(r, &heights, ahead));
  ((weir_bucket_state *)r->state)->step_us = heights.locks ? heights.settle_us : 0;
  return known;
}

/* What is cached of a key that must be gone by now, unless others have used it, is not known. */
static void raise_begin(weir_rule_state *r) {
  weir_bucket_memory *memory = r->memory;
  if (r->frame->now_us - memory->read_us > r->ttl_us) memory->known = false;
  raise_load(r);
}

static bool raise_may_wait(const weir_rule *rule, const weir_ask *ask) {
  return rule->kind == WEIR_LEAKY_BUCKET || (ask->waits && ask->wait_us > 0 && rule->debt == 0);
}

/* A charge that turns out too large denies others until it is back, and stays where places in a
 * queue may follow: so none without a look unless the bucket is far from full. */
static bool raise_blind(const weir_rule_state *r) {
  const weir_bucket_memory *memory = r->memory;
  const weir_bucket_state *state = r->state;
  if (!weir_bucket_is_fresh(r) || raise_keys(r) > 1 ||
      memory->index != weir_bucket_epoch(r->rule, r->frame->now_us))
    return false;
  for (const weir_claim *request = r->frame->requests; request != NULL; request = request->next)
    if (raise_may_wait(r->rule, &request->ask) ||
        2 * state->ahead >= weir_bucket_full_of(r->rule, &request->ask))
      return false;
  return !state->far && weir_bucket_all_fit(r);
}

/* --- planning ----------------------------------------------------------------------------------
 */

static weir_operation *raise_plan_one(weir_rule_state *r, weir_operation_kind kind, int key) {
  int64_t epoch = weir_bucket_epoch(r->rule, r->frame->now_us);
  weir_operation *operation = weir_plan(r, kind, WEIR_PLACE_COUNT, epoch - key);
  operation->raised = kind == WEIR_GET || kind == WEIR_SUB;
  return operation;
}

/* An epoch's length is the highest floor there is: where now is past it, that much less. */
static weir_operation *raise_plan_raise(weir_rule_state *r, int key, int64_t floor, int64_t delta) {
  weir_operation *operation = raise_plan_one(r, WEIR_RAISE, key);
  operation->refresh = true;
  operation->floor = floor < WEIR_BUCKET_EPOCH ? floor : WEIR_BUCKET_EPOCH;
  operation->delta = delta;
  return operation;
}

/* What is cached stops being true with what is sent. */
static void raise_forget(weir_rule_state *r) {
  weir_bucket_memory *memory = r->memory;
  memory->known = false;
  if (memory->index != weir_bucket_epoch(r->rule, r->frame->now_us)) memory->renewed_us = 0;
}

static void raise_plan_reads(weir_rule_state *r) {
  raise_forget(r);
  for (int key = 0; key < raise_keys(r); key++)
    raise_plan_one(r, WEIR_GET, key);
}

/* The second round brings back what is too far ahead, or locks it. From too far ahead to a full bucket:
 * dropped and made anew, not lowered by the difference, as several may find it at once. A lock stands
 * at the same height whichever process sets it. */
static void raise_look(weir_rule_state *r) {
  weir_bucket_memory *memory = r->memory;
  const weir_settings *settings = r->frame->settings;
  int step = r->step++;
  if (step == 0) {
    raise_plan_reads(r);
  } else if (step == 1 && weir_bucket_mends(r)) {
    int64_t values[KEYS_MOST] = {memory->value, memory->past};
    for (int key = 0; key < raise_keys(r); key++) {
      int64_t now = raise_now_in(r, key);
      if (values[key] - now <= weir_bucket_furthest(r->rule, settings)) continue;
      int64_t full = now + weir_bucket_full(r->rule);
      int64_t floor = full - 1 < WEIR_BUCKET_EPOCH ? full - 1 : WEIR_BUCKET_EPOCH;
      raise_plan_one(r, WEIR_DROP, key);
      raise_plan_raise(r, key, floor, full - floor);
    }
  } else if (step == 1 && raise_is_to_lock(r)) {
    int64_t top = raise_now_in(r, PRESENT) + raise_heights(r->rule, settings).lock;
    memory->locked_us = r->frame->now_us;
    raise_plan_raise(r, PRESENT, top - 1, 1);
  }
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* What takes that may wait cost together: those that are open, or those that were admitted. */
static int64_t raise_waiting_cost(const weir_rule_state *r, bool admitted) {
  int64_t sum = 0;
  for (const weir_claim *request = r->frame->requests; request != NULL; request = request->next) {
    bool counts =
        request->verdict.answered == admitted && (!admitted || request->verdict.decision.allowed);
    if (weir_ask_charges(&request->ask) && counts && raise_may_wait(r->rule, &request->ask))
      sum += weir_claim_cost(request, r->index);
  }
  return sum;
}

/* Where a take-back that came between left less than the floor under a charge, what is missing is
 * added. Of two keys the present one comes first: should this process stop in between, that is the one
 * that stays. */
static void raise_charge(weir_rule_state *r) {
  weir_bucket_state *state = r->state;
  int64_t values[KEYS_MOST] = {0};
  if (r->charged) {
    for (int key = 0; key < KEYS_MOST; key++) {
      int64_t missing = state->missing[key];
      state->missing[key] = 0;
      if (missing > 0) raise_plan_raise(r, key, raise_now_in(r, key), missing);
    }
    return;
  }
  bool known = raise_knows(r, values);
  int keys = raise_keys(r);
  if (r->step++ == 0 && keys > 1 && !known) {
    raise_plan_reads(r);
    return;
  }

  int64_t units = r->charge * r->rule->token_units;
  int64_t floor = raise_now_in(r, PRESENT);
  bool lives = raise_lives_long_enough(r, state->ahead + units);
  state->ahead = state->before = 0;
  state->stamp_us = r->frame->now_us;
  state->stays = raise_waiting_cost(r, false);
  raise_forget(r);
  if (keys == 1) {
    raise_plan_raise(r, PRESENT, floor, units)->refresh = !lives;
    return;
  }
  int64_t inherited = values[PAST] - WEIR_BUCKET_EPOCH;
  raise_plan_raise(r, PRESENT, floor > inherited ? floor : inherited, units);
  raise_plan_raise(r, PAST, raise_now_in(r, PAST), units);
}

static void raise_plan(weir_rule_state *r, weir_phase phase) {
  weir_bucket_state *state = r->state;
  const weir_rule *rule = r->rule;
  int64_t now_us = r->frame->now_us;
  if (phase == WEIR_PHASE_LOOK) {
    raise_look(r);
  } else if (phase == WEIR_PHASE_CHARGE) {
    raise_charge(r);
  } else if (phase == WEIR_PHASE_TAKE_BACK && r->step++ == 0) {
    state->stays -= raise_waiting_cost(r, true);
    int64_t units = weir_bucket_undrained(rule, r->unused - state->stays, state->before,
                                          r->frame->clock_us - state->stamp_us);
    if (units == 0) {
      r->unused = state->stays;
      return;
    }
    for (int key = 0; key < raise_keys(r); key++)
      if (!r->charged || state->landed[key]) raise_plan_one(r, WEIR_SUB, key)->delta = units;
    raise_forget(r);
  } else if (phase == WEIR_PHASE_RESET &&
             r->step++ == 0) { /* a clock ahead may have begun the next */
    int64_t fastest_us = now_us + 2 * r->frame->settings->clock_error_us;
    bool begun = weir_bucket_epoch(rule, fastest_us) > weir_bucket_epoch(rule, now_us);
    for (int key = begun ? NEXT : PRESENT; key < raise_keys(r); key++)
      raise_plan_one(r, WEIR_DROP, key);
  }
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* What was known before stays readable until there is an answer: for an outage. */
static void raise_learn(weir_rule_state *r, int key, int64_t value) {
  weir_bucket_memory *memory = r->memory;
  if (!memory->known) {
    memory->index = weir_bucket_epoch(r->rule, r->frame->now_us);
    memory->value = 0;
    memory->past = raise_keys(r) > 1 ? 0 : NOT_READ;
  }
  memory->known = true;
  memory->read_us = r->frame->now_us;
  if (key == PRESENT)
    memory->value = value;
  else
    memory->past = value;
}

/* What a key holds, or what has gone back has left there. */
static void raise_answer_read(weir_rule_state *r, const weir_operation *operation, int key) {
  const weir_bucket_state *state = r->state;
  bool goes_back = operation->kind == WEIR_SUB;
  if (!goes_back) weir_bucket_watch(r, operation);
  raise_learn(r, key, operation->outcome == WEIR_DONE ? operation->value : 0);
  if (goes_back) r->unused = state->stays;
  if (!goes_back || r->frame->settles) raise_load(r); /* a settlement is told what is left */
}

/* What was there without a charge is what decides; of two keys the later. */
static void raise_answer_charge(weir_rule_state *r, const weir_operation *operation, int key) {
  weir_bucket_state *state = r->state;
  int64_t base = operation->value - operation->delta;
  int64_t missing = operation->floor - base;
  if (missing > 0) {
    state->missing[key] = missing < operation->delta ? missing : operation->delta;
    base = operation->floor;
  }
  int64_t before = base - raise_now_in(r, key);
  if (before > state->before) state->ahead = state->before = before;
  state->landed[key] = r->charged = true;
  if (!r->frame->settles) return;
  lock_heights heights = raise_heights(r->rule, r->frame->settings);
  weir_bucket_set_ahead(r, state->before, raise_is_far(r, &heights, state->before));
}

/* Of a charge, of what it missed, or of a look that mends or locks. One that renews no TTL fails where the key
 * is gone. */
static void raise_answer_raise(weir_rule_state *r, const weir_operation *operation, int key) {
  weir_bucket_memory *memory = r->memory;
  weir_bucket_state *state = r->state;
  if (operation->outcome != WEIR_DONE) {
    state->landed[key] = false;
    r->conflict = operation->refresh;
    if (!operation->refresh) weir_bucket_watch(r, operation);
    return;
  }
  if (operation->refresh && key == PRESENT) memory->renewed_us = r->frame->now_us;
  raise_learn(r, key, operation->value);
  if (r->frame->phase == WEIR_PHASE_LOOK)
    raise_load(r);
  else if (!state->landed[key])
    raise_answer_charge(r, operation, key);
}

static void raise_answer(weir_rule_state *r, const weir_operation *operation) {
  weir_bucket_memory *memory = r->memory;
  int key = (int)(weir_bucket_epoch(r->rule, r->frame->now_us) - operation->counter.index);
  if (operation->outcome == WEIR_ABSENT && key == PRESENT) memory->renewed_us = 0;
  if (operation->kind == WEIR_RAISE)
    raise_answer_raise(r, operation, key);
  else if (operation->kind != WEIR_DROP)
    raise_answer_read(r, operation, key);
}

/* --- what it means -----------------------------------------------------------------------------
 */

static void raise_known(const weir_rule_state *r, weir_known *known) {
  int64_t values[KEYS_MOST];
  if (((const weir_bucket_memory *)r->memory)->read_us == 0 || !raise_read(r, values)) return;
  weir_bucket_known(r, raise_ahead(r, values), known);
}

/* A settlement is mostly charged whole, and no place follows it. */
static const weir_settling_table raise_settling = {.blind = weir_always_blind,
                                                   .overrun = weir_bucket_settles};

const weir_method weir_raise_method = {
    .stage = WEIR_STAGE_BUCKETS,
    .needs = WEIR_NEED_RAISE | WEIR_NEED_RAISED_GET | WEIR_NEED_RAISED_SUB,
    .memory_bytes = sizeof(weir_bucket_memory),
    .state_bytes = sizeof(weir_bucket_state),
    .operations_most = 4, /* a new time for two keys, each dropped and made anew */
    .ttl_us = raise_ttl_us,
    .begin = raise_begin,
    .blind = raise_blind,
    .plan = raise_plan,
    .answer = raise_answer,
    .room = weir_bucket_allows,
    .oldest_us = weir_read_now_us,
    .count = weir_bucket_count,
    .figures = weir_bucket_figures,
    .expect = weir_bucket_expect,
    .refund = weir_bucket_refund,
    .recall = raise_load,
    .known = raise_known,
    .forget = weir_bucket_forget,
    .settling = &raise_settling,
    .delaying = &weir_bucket_delaying,
};

/* Buckets where the store raises a value and adds to it: decided on what the addition returned.
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
 */
#include "algorithm/bucket_lock.h"

enum { NEXT = -1, PRESENT, PAST, KEYS_MOST }; /* epochs, and how many count at once */
enum { NOT_READ = -1 };

static int64_t raise_handover_units(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_full(rule) +
         weir_bucket_units(rule, settings->longest_wait_us + 3 * settings->final_us);
}

/* How long a key must live after a charge. */
static int64_t raise_needed_us(const weir_rule *rule, const weir_settings *settings) {
  return weir_bucket_ttl_us(rule, settings) +
         weir_bucket_us(rule, raise_handover_units(rule, settings));
}

/* How much longer it is given: a quarter of the whole. */
static int64_t raise_spare_us(const weir_rule *rule, const weir_settings *settings) {
  return (raise_needed_us(rule, settings) + 2) / 3;
}

int64_t weir_bucket_raised_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return raise_needed_us(rule, settings) + raise_spare_us(rule, settings);
}

/* How many keys count. */
static int raise_keys(const weir_rule *rule, const weir_settings *settings, int64_t now_us) {
  bool handover = weir_bucket_epoch(rule, now_us) > 0 &&
                  weir_bucket_offset(rule, now_us) < raise_handover_units(rule, settings);
  return handover ? KEYS_MOST : 1;
}

/* Now, as a key would hold it. */
static int64_t raise_now_in(const weir_rule *rule, int64_t now_us, int key) {
  return weir_bucket_offset(rule, now_us) + key * WEIR_BUCKET_EPOCH;
}

/* What is cached of the keys; a key of which nothing is known holds the start of its epoch, as one
 * that is absent does. A look just before a roll has read what is now the past. */
static bool raise_recall(const weir_rule *rule, const weir_settings *settings,
                         const weir_bucket_memory *memory, int64_t now_us,
                         int64_t values[KEYS_MOST]) {
  int64_t behind = weir_bucket_epoch(rule, now_us) - memory->index;
  if (!memory->known || behind < 0 || behind > 1) return false;
  values[PRESENT] = behind == 0 ? memory->value : 0;
  values[PAST] = behind == 0 ? memory->past : memory->value;
  return values[PAST] != NOT_READ || raise_keys(rule, settings, now_us) == 1;
}

static bool raise_ahead(const weir_rule *rule, const weir_settings *settings,
                        const weir_bucket_memory *memory, int64_t now_us, int64_t *units) {
  int64_t values[KEYS_MOST];
  if (!raise_recall(rule, settings, memory, now_us, values)) return false;
  *units = 0;
  for (int key = 0; key < raise_keys(rule, settings, now_us); key++) {
    int64_t later = values[key] - raise_now_in(rule, now_us, key);
    if (later > *units) *units = later;
  }
  return true;
}

static int64_t raise_stored(const weir_rule *rule, int64_t now_us, int64_t units) {
  return weir_bucket_offset(rule, now_us) + units;
}

static bool raise_may_wait(const weir_rule *rule, const weir_request_state *request) {
  return rule->kind == WEIR_LEAKY_BUCKET || (request->waits && request->wait_us > 0);
}

/* A charge that turns out too large denies others until it is back, and stays where places in a
 * queue may follow: so none without a look unless the bucket is far from full. */
static bool raise_blind(const weir_machine *machine, size_t i) {
  const weir_bucket_memory *memory = machine->rule_states[i].memory;
  const weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t now_us = machine->now_us;
  if (!weir_bucket_is_fresh(machine, memory) || raise_keys(rule, machine->settings, now_us) > 1 ||
      memory->index != weir_bucket_epoch(rule, now_us))
    return false;
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next)
    if (raise_may_wait(rule, request)) return false;
  return 2 * state->ahead < weir_bucket_full(rule);
}

/* --- planning ----------------------------------------------------------------------------------
 */

static int raise_keys_now(const weir_machine *machine, size_t i) {
  return raise_keys(&machine->stack->rules[i], machine->settings, machine->rule_states[i].now_us);
}

static weir_operation *raise_plan(weir_machine *machine, size_t i, weir_operation_kind kind,
                                  int key) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t epoch = weir_bucket_epoch(rule, machine->rule_states[i].now_us);
  weir_operation *operation = weir_plan(machine, i, kind, WEIR_PLACE_COUNT, epoch - key);
  operation->raised = kind == WEIR_GET || kind == WEIR_SUB;
  return operation;
}

/* An epoch's length is the highest floor there is: where now is past it, that much less. */
static weir_operation *raise_plan_raise(weir_machine *machine, size_t i, int key, int64_t floor,
                                        int64_t delta) {
  weir_operation *operation = raise_plan(machine, i, WEIR_RAISE, key);
  operation->refresh = true;
  operation->floor = floor < WEIR_BUCKET_EPOCH ? floor : WEIR_BUCKET_EPOCH;
  operation->delta = delta;
  return operation;
}

/* Whether a charge that leaves so much ahead finds at least needed_us left of the key's life; and
 * should others have renewed it since whose bucket is smaller, at least until that has drained. A
 * charge that counts reaches the store at most D after now, and clocks may err by d at both ends: e
 * in all. A clock that does not keep the pace of real time cannot tell. */
static bool raise_lives_long_enough(const weir_machine *machine, size_t i, int64_t ahead) {
  const weir_bucket_memory *memory = machine->rule_states[i].memory;
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_settings *settings = machine->settings;
  int64_t renewed_us = memory->renewed_us;
  int64_t age_us = machine->rule_states[i].now_us - renewed_us;
  int64_t others_us =
      raise_needed_us(rule, settings) - 2 * weir_bucket_us(rule, weir_bucket_full(rule));
  return renewed_us > 0 && settings->least_ttl_us == 0 && age_us >= 0 &&
         age_us + settings->ahead_us <= raise_spare_us(rule, settings) &&
         age_us + settings->ahead_us + weir_bucket_us(rule, ahead) <= others_us + others_us / 3;
}

/* What is cached stops being true with what is sent. */
static void raise_forget(weir_machine *machine, size_t i) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  int64_t index = weir_bucket_epoch(&machine->stack->rules[i], machine->rule_states[i].now_us);
  memory->known = false;
  if (memory->index != index) memory->renewed_us = 0;
}

static void raise_plan_reads(weir_machine *machine, size_t i) {
  raise_forget(machine, i);
  for (int key = 0; key < raise_keys_now(machine, i); key++)
    raise_plan(machine, i, WEIR_GET, key);
}

/* From too far ahead to a full bucket. Dropped and made anew, not lowered by the difference:
 * several may find it at once. */
static void raise_plan_mending(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_bucket_memory *memory = machine->rule_states[i].memory;
  int64_t values[KEYS_MOST] = {memory->value, memory->past};
  for (int key = 0; key < raise_keys_now(machine, i); key++) {
    int64_t now = raise_now_in(rule, machine->rule_states[i].now_us, key);
    if (values[key] - now <= weir_bucket_furthest(rule, machine->settings)) continue;
    int64_t full = now + weir_bucket_full(rule);
    int64_t floor = full - 1 < WEIR_BUCKET_EPOCH ? full - 1 : WEIR_BUCKET_EPOCH;
    raise_plan(machine, i, WEIR_DROP, key);
    raise_plan_raise(machine, i, key, floor, full - floor);
  }
}

/* To the same height whoever does it. */
static void raise_plan_lock(weir_machine *machine, size_t i) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t now_us = machine->rule_states[i].now_us;
  int64_t top =
      raise_now_in(rule, now_us, PRESENT) + weir_bucket_lock_units(rule, machine->settings);
  memory->locked_us = now_us;
  raise_plan_raise(machine, i, PRESENT, top - 1, 1);
}

/* Whoever only peeks changes nothing. */
static bool raise_locks(const weir_machine *machine, size_t i) {
  const weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule_state *rule_state = &machine->rule_states[i];
  bool due =
      weir_bucket_lock_is_due(&machine->stack->rules[i], machine->settings,
                              machine->rule_states[i].memory, rule_state->now_us, state->ahead);
  return due && weir_machine_has_takes(machine);
}

static void raise_look(weir_machine *machine, size_t i) {
  int step = machine->rule_states[i].step++;
  if (step == 0)
    raise_plan_reads(machine, i);
  else if (step == 1 && weir_bucket_mends(machine, i))
    raise_plan_mending(machine, i);
  else if (step == 1 && raise_locks(machine, i))
    raise_plan_lock(machine, i);
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* What takes that may wait cost together: those that are open, or those that were admitted. */
static int64_t raise_waiting_cost(const weir_machine *machine, size_t i, bool admitted) {
  int64_t sum = 0;
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next) {
    bool counts = request->settled == admitted && (!admitted || request->decision.allowed);
    if (request->kind == WEIR_TAKE && counts && raise_may_wait(&machine->stack->rules[i], request))
      sum += weir_request_cost(request, i);
  }
  return sum;
}

/* The present key first: should this process stop in between, that is the one that stays. */
static void raise_plan_charge(weir_machine *machine, size_t i) {
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t values[KEYS_MOST] = {0};
  raise_recall(rule, machine->settings, memory, rule_state->now_us, values);
  int64_t units = rule_state->charge * rule->token_units;
  int64_t floor = raise_now_in(rule, rule_state->now_us, PRESENT);
  bool lives = raise_lives_long_enough(machine, i, state->ahead + units);
  state->ahead = state->before = 0;
  state->stamp_us = rule_state->now_us;
  state->stays = raise_waiting_cost(machine, i, false);
  raise_forget(machine, i);
  if (raise_keys_now(machine, i) == 1) {
    raise_plan_raise(machine, i, PRESENT, floor, units)->refresh = !lives;
    return;
  }
  int64_t inherited = values[PAST] - WEIR_BUCKET_EPOCH;
  raise_plan_raise(machine, i, PRESENT, floor > inherited ? floor : inherited, units);
  raise_plan_raise(machine, i, PAST, raise_now_in(rule, rule_state->now_us, PAST), units);
}

/* A take-back that came between left less than the floor under a charge: what is missing is added.
 */
static void raise_plan_missing(weir_machine *machine, size_t i) {
  weir_bucket_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  for (int key = 0; key < KEYS_MOST; key++) {
    int64_t missing = state->missing[key];
    state->missing[key] = 0;
    if (missing > 0)
      raise_plan_raise(machine, i, key,
                       raise_now_in(&machine->stack->rules[i], rule_state->now_us, key), missing);
  }
}

static void raise_charge(weir_machine *machine, size_t i) {
  int64_t values[KEYS_MOST];
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (rule_state->charged)
    raise_plan_missing(machine, i);
  else if (rule_state->step++ == 0 && raise_keys_now(machine, i) > 1 &&
           !raise_recall(&machine->stack->rules[i], machine->settings,
                         machine->rule_states[i].memory, rule_state->now_us, values))
    raise_plan_reads(machine, i);
  else
    raise_plan_charge(machine, i);
}

static void raise_take_back(weir_machine *machine, size_t i) {
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (rule_state->step++ > 0) return;
  bool refunds = machine->requests->kind == WEIR_REFUND;
  state->stays -= raise_waiting_cost(machine, i, true);
  int64_t units = weir_bucket_undrained(rule, rule_state->unused - state->stays, state->before,
                                        machine->clock_us - state->stamp_us);
  if (units == 0) {
    rule_state->unused = state->stays;
    return;
  }
  for (int key = 0; key < raise_keys_now(machine, i); key++)
    if (refunds || state->landed[key]) raise_plan(machine, i, WEIR_SUB, key)->delta = units;
  raise_forget(machine, i);
}

static void raise_reset(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t now_us = machine->rule_states[i].now_us;
  int64_t fastest_us = now_us + 2 * machine->settings->clock_error_us;
  bool begun = weir_bucket_epoch(rule, fastest_us) > weir_bucket_epoch(rule, now_us);
  for (int key = begun ? NEXT : PRESENT; key < raise_keys_now(machine, i); key++)
    raise_plan(machine, i, WEIR_DROP, key);
}

/* Without compare and swap nobody knows whether a place still is the last. */
static void raise_cancel(weir_machine *machine, size_t i, int64_t slot, int64_t cost) {
  (void)machine;
  (void)i;
  (void)slot;
  (void)cost;
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* What was known before stays readable until there is an answer: for an outage. */
static void raise_learn(weir_machine *machine, size_t i, int key, int64_t value) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  if (!memory->known) {
    memory->index = weir_bucket_epoch(&machine->stack->rules[i], machine->rule_states[i].now_us);
    memory->value = 0;
    memory->past = raise_keys_now(machine, i) > 1 ? 0 : NOT_READ;
  }
  memory->known = true;
  memory->read_us = machine->now_us;
  if (key == PRESENT)
    memory->value = value;
  else
    memory->past = value;
}

/* What was there without this charge is what decides; of two keys the later. */
static void raise_answer_charge(weir_machine *machine, size_t i, int key,
                                const weir_operation *operation) {
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t base = operation->value - operation->delta;
  int64_t missing = operation->floor - base;
  if (missing > 0) {
    state->missing[key] = missing < operation->delta ? missing : operation->delta;
    base = operation->floor;
  }
  int64_t before = base - raise_now_in(rule, rule_state->now_us, key);
  if (before > state->before) state->ahead = state->before = before;
  state->landed[key] = rule_state->charged = true;
}

static void raise_answer_raise(weir_machine *machine, size_t i, int key,
                               const weir_operation *operation) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  weir_bucket_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (operation->outcome != WEIR_DONE) {
    state->landed[key] = false;
    rule_state->conflict = operation->refresh;
    if (!operation->refresh) weir_bucket_watch(machine, i, operation);
    return;
  }
  if (operation->refresh && key == PRESENT) memory->renewed_us = rule_state->now_us;
  raise_learn(machine, i, key, operation->value);
  if (machine->phase == WEIR_PHASE_LOOK)
    weir_bucket_load(machine, i);
  else if (!state->landed[key])
    raise_answer_charge(machine, i, key, operation);
}

static void raise_answer(weir_machine *machine, size_t i, const weir_operation *operation) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  int key = (int)(weir_bucket_epoch(rule, rule_state->now_us) - operation->counter.index);
  if (operation->outcome == WEIR_ABSENT && key == PRESENT) memory->renewed_us = 0;
  if (operation->kind == WEIR_RAISE) {
    raise_answer_raise(machine, i, key, operation);
  } else if (operation->kind != WEIR_DROP) {
    if (operation->kind == WEIR_GET) weir_bucket_watch(machine, i, operation);
    raise_learn(machine, i, key, operation->outcome == WEIR_DONE ? operation->value : 0);
    if (operation->kind == WEIR_SUB)
      rule_state->unused = state->stays;
    else
      weir_bucket_load(machine, i);
  }
}

const weir_bucket_storage weir_bucket_raise = {
    .ahead = raise_ahead,
    .stored = raise_stored,
    .step_us = weir_bucket_lock_step_us,
    .is_far = weir_bucket_lock_is_over,
    .blind = raise_blind,
    .look = raise_look,
    .charge = raise_charge,
    .take_back = raise_take_back,
    .reset = raise_reset,
    .answer = raise_answer,
    .cancel = raise_cancel,
};

/* Buckets where the store compares and swaps: linearizable.
 *
 *     GET ──> fits ──> CREATE or SWAP ──> done
 *      ^                    │ others were faster
 *      └───── pause <───────┘
 *
 * What is not known, or was read too long ago, is tried all the same, with a GET behind it in the
 * same round trip: a key that is new to the process is mostly new to the store as well, one that
 * comes back has often not been used by anybody else, and where that is wrong nothing is touched.
 *
 * The version of the last write is cached, so that a process alone on a key needs one round trip.
 * Where others write too, it is stale by the next one: whoever met a conflict looks first for a
 * second, so that what it compares with is a round trip old, not as old as its last decision. What
 * is cached stops being true with every write that is sent: its answer may never come.
 */
#include "algorithm/bucket.h"

enum { SWAPS_TO_TAKE_BACK = 3, LOOK_FIRST_US = 1000000 };

static bool swap_ahead(const weir_rule *rule, const weir_settings *settings,
                       const weir_bucket_memory *memory, int64_t now_us, int64_t *units) {
  (void)settings;
  if (!memory->known) return false;
  *units = memory->absent ? 0 : weir_bucket_unwrap(rule, now_us, memory->value);
  return true;
}

/* Nothing is charged in vain: what is ahead was admitted. */
static bool swap_is_far(const weir_rule *rule, const weir_settings *settings,
                        const weir_bucket_memory *memory, int64_t now_us, int64_t units) {
  (void)memory;
  (void)now_us;
  return units > weir_bucket_furthest(rule, settings);
}

/* Not every server says which version it gave to what it wrote. */
static bool swap_blind(const weir_machine *machine, size_t i) {
  const weir_bucket_memory *memory = machine->rule_states[i].memory;
  bool may = !memory->known || (memory->version != 0 && machine->now_us >= memory->read_us);
  return may && machine->now_us >= machine->notes->look_until_us;
}

/* --- planning ----------------------------------------------------------------------------------
 */

/* However long keys are to live at least: one that is so old that its number comes round again
 * would pass for a bucket that was just charged. A server rounds up by 2 s. */
static weir_operation *swap_plan(weir_machine *machine, size_t i, weir_operation_kind kind) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t most_us = weir_bucket_told_apart_us(rule) - WEIR_TTL_SLACK_US;
  weir_operation *operation = weir_plan(machine, i, kind, WEIR_PLACE_COUNT, 0);
  if (operation->ttl_us > most_us) operation->ttl_us = most_us;
  return operation;
}

/* In the place of what is cached. */
static void swap_plan_write(weir_machine *machine, size_t i, int64_t value) {
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  weir_operation *operation = swap_plan(machine, i, memory->absent ? WEIR_CREATE : WEIR_SWAP);
  operation->value = value;
  operation->version = memory->version;
  operation->stake = weir_plan_stake(
      weir_bucket_unwrap(rule, machine->rule_states[i].now_us, value), weir_bucket_full(rule));
  state->written = value;
  memory->known = false;
}

static bool swap_can_write(const weir_machine *machine, size_t i) {
  const weir_bucket_memory *memory = machine->rule_states[i].memory;
  return memory->known && (memory->absent || memory->version != 0);
}

static void swap_look(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  int step = rule_state->step++;
  if (step == 0)
    swap_plan(machine, i, WEIR_GET);
  else if (step == 1 && weir_bucket_mends(machine, i))
    swap_plan_write(machine, i, weir_bucket_wrap(rule, rule_state->now_us, weir_bucket_full(rule)));
}

/* Looked at before; only a clock that was set back since can make it too much. Or not: what fits
 * on top of what is cached, or into an empty bucket, is written where nothing has changed since, or
 * nothing is; and if that may be long ago, what is there is read along. */
static void swap_charge(weir_machine *machine, size_t i) {
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (rule_state->charged || state->looks_along) return;
  state->looks_along = machine->blind && !weir_bucket_is_fresh(machine, memory);
  if (rule_state->step++ == 0 && !state->looks_along && !swap_can_write(machine, i)) {
    swap_plan(machine, i, WEIR_GET);
    return;
  }
  if (!memory->known) {
    memory->absent = true;
    memory->version = 0;
  }
  int64_t after = state->ahead + rule_state->charge * rule->token_units;
  state->stamp_us = rule_state->now_us;
  state->slot = weir_bucket_wrap(rule, rule_state->now_us, after);
  state->only_last = rule->kind == WEIR_LEAKY_BUCKET;
  swap_plan_write(machine, i, state->slot);
  if (state->looks_along) swap_plan(machine, i, WEIR_GET);
}

/* What goes back of what is stored now, in units. */
static int64_t swap_give_back(weir_machine *machine, size_t i) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t stored = memory->value;
  if (stored == state->slot) return rule_state->unused * rule->token_units;
  bool somebody_waits =
      weir_bucket_unwrap(rule, machine->clock_us, stored) > weir_bucket_full(rule);
  if (state->only_last || somebody_waits) return 0;
  int64_t units =
      weir_bucket_undrained(rule, rule_state->unused, 0, machine->clock_us - state->stamp_us);
  if (units == 0) rule_state->unused = 0; /* it has drained */
  return units;
}

/* What cannot go back stays charged, and `unused` as it is. */
static void swap_take_back(weir_machine *machine, size_t i) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (rule_state->step == SWAPS_TO_TAKE_BACK) return;
  if (!swap_can_write(machine, i)) {
    swap_plan(machine, i, WEIR_GET);
    return;
  }
  int64_t units = swap_give_back(machine, i);
  if (units == 0) {
    rule_state->step = SWAPS_TO_TAKE_BACK;
    return;
  }
  rule_state->step++;
  swap_plan_write(machine, i, weir_bucket_wrapped_less(memory->value, units));
}

static void swap_reset(weir_machine *machine, size_t i) {
  swap_plan(machine, i, WEIR_DROP);
}

static void swap_cancel(weir_machine *machine, size_t i, int64_t slot, int64_t cost) {
  weir_bucket_state *state = machine->rule_states[i].state;
  const weir_bucket_memory *memory = machine->rule_states[i].memory;
  weir_rule_state *rule_state = &machine->rule_states[i];
  state->slot = slot;
  state->only_last = true;
  if (!memory->absent && memory->value == slot) rule_state->unused = cost;
}

/* --- answers -----------------------------------------------------------------------------------
 */

static void swap_cache(weir_machine *machine, size_t i, const weir_operation *operation,
                       int64_t value) {
  weir_bucket_memory *memory = machine->rule_states[i].memory;
  memory->known = true;
  memory->absent = operation->outcome == WEIR_ABSENT;
  memory->value = weir_bucket_wrapped_less(value, 0);
  memory->version = operation->outcome == WEIR_DONE ? operation->version_out : 0;
  memory->read_us = machine->now_us;
}

static void swap_answer_look(weir_machine *machine, size_t i, const weir_operation *operation) {
  weir_bucket_watch(machine, i, operation);
  swap_cache(machine, i, operation, operation->outcome == WEIR_DONE ? operation->value : 0);
  if (machine->phase != WEIR_PHASE_TAKE_BACK)
    weir_bucket_load(machine, i);
  else if (operation->outcome == WEIR_ABSENT)
    machine->rule_states[i].unused = 0;
}

static void swap_answer_write(weir_machine *machine, size_t i, const weir_operation *operation) {
  weir_bucket_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  bool charges = machine->phase == WEIR_PHASE_CHARGE;
  if (operation->outcome != WEIR_DONE && charges && state->looks_along)
    return; /* the GET behind this says what there is */
  if (operation->outcome == WEIR_DONE && operation->kind == WEIR_CREATE)
    weir_bucket_watch(machine, i, operation);
  if (operation->outcome == WEIR_DONE)
    swap_cache(machine, i, operation, state->written);
  else
    machine->notes->look_until_us = machine->clock_us + LOOK_FIRST_US;
  if (machine->phase == WEIR_PHASE_TAKE_BACK) {
    if (operation->outcome != WEIR_CONFLICT) rule_state->unused = 0;
    rule_state->conflict = rule_state->unused > 0 && rule_state->step == SWAPS_TO_TAKE_BACK;
  } else if (operation->outcome != WEIR_DONE) {
    rule_state->conflict = true;
  } else if (charges) {
    rule_state->charged = true;
  } else {
    weir_bucket_load(machine, i);
  }
}

static void swap_answer(weir_machine *machine, size_t i, const weir_operation *operation) {
  bool own = machine->phase == WEIR_PHASE_CHARGE && machine->rule_states[i].charged;
  if (operation->kind == WEIR_GET && own) return; /* it has read what was written before it */
  if (operation->kind == WEIR_GET)
    swap_answer_look(machine, i, operation);
  else if (operation->kind != WEIR_DROP)
    swap_answer_write(machine, i, operation);
}

const weir_bucket_storage weir_bucket_swap = {
    .ahead = swap_ahead,
    .stored = weir_bucket_wrap,
    .is_far = swap_is_far,
    .blind = swap_blind,
    .look = swap_look,
    .charge = swap_charge,
    .take_back = swap_take_back,
    .reset = swap_reset,
    .answer = swap_answer,
    .cancel = swap_cancel,
};

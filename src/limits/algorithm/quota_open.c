/* Which window of a quota is open: the keys open:G, which are created once and never changed. The
 * agreement that they are for is told in quota.c; here is what one process knows of the three
 * groups around a moment, what it asks and writes to know more, and what it concludes.
 */
#include "algorithm/expected.h"
#include "algorithm/quota.h"

/* Where clocks end: the year 9999. */
#define LATEST_STAMP_US INT64_C(253402300799999999)

/* --- what is known of the groups ---------------------------------------------------------------
 */

/* Asks for the window of a moment. */
void weir_quota_aim(weir_machine *machine, size_t i, int64_t at_us) {
  weir_quota_state *state = machine->rule_states[i].state;
  state->at_us = at_us;
  state->group = at_us / machine->stack->rules[i].period_us;
  state->opens[WEIR_QUOTA_BEFORE] = state->group > 0 ? WEIR_QUOTA_UNREAD : WEIR_QUOTA_CLOSED;
  state->opens[WEIR_QUOTA_OWN] = state->opens[WEIR_QUOTA_AFTER] = WEIR_QUOTA_UNREAD;
  state->start_us = -1;
}

bool weir_quota_is_stamp(int64_t at_us) {
  return at_us >= 0 && at_us <= LATEST_STAMP_US;
}

/* The latest that an honest clock may have stored; for a refund, one of the time of its stamp. */
static int64_t quota_latest_us(const weir_machine *machine) {
  const weir_request_state *request = machine->requests;
  bool later = request->kind == WEIR_REFUND && weir_quota_is_stamp(request->at_us) &&
               request->at_us > machine->now_us;
  return (later ? request->at_us : machine->now_us) + machine->settings->ahead_us;
}

static int64_t quota_decode(const weir_rule *rule, const weir_operation *operation,
                            int64_t latest_us) {
  int64_t begin = operation->counter.index * rule->period_us;
  if (operation->outcome == WEIR_ABSENT) return WEIR_QUOTA_ABSENT;
  if (operation->value == 0)
    return begin + rule->period_us <= latest_us ? WEIR_QUOTA_CLOSED : WEIR_QUOTA_WRONG;
  int64_t start = operation->value > 0 ? operation->value - 1 : -1;
  bool honest = start >= begin && start - begin < rule->period_us && start <= latest_us;
  return honest ? start : WEIR_QUOTA_WRONG;
}

static void quota_cache_start(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_quota_memory *memory = machine->rule_states[i].memory;
  memory->known = true;
  memory->start_us = state->start_us;
  memory->count = memory->reported = 0;
  memory->read_us = machine->clock_us;
}

/* Draws the conclusion from what was read: a start, or the next group if this one is closed, or
 * neither: no window is open. */
void weir_quota_find_window(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  int64_t *opens = state->opens;
  int64_t period = machine->stack->rules[i].period_us;
  if (state->start_us >= 0 || opens[WEIR_QUOTA_OWN] == WEIR_QUOTA_UNREAD) return;
  if (opens[WEIR_QUOTA_BEFORE] >= 0 && state->at_us - opens[WEIR_QUOTA_BEFORE] < period) {
    state->start_us = opens[WEIR_QUOTA_BEFORE];
  } else if (opens[WEIR_QUOTA_OWN] >= 0) {
    state->start_us = opens[WEIR_QUOTA_OWN];
  } else if (opens[WEIR_QUOTA_OWN] == WEIR_QUOTA_CLOSED) {
    weir_quota_aim(machine, i, (state->group + 1) * period);
    opens[WEIR_QUOTA_BEFORE] = WEIR_QUOTA_CLOSED;
  }
  if (state->start_us >= 0) quota_cache_start(machine, i);
}

/* --- rounds ------------------------------------------------------------------------------------
 */

/* One of the three groups; nothing was opened before the epoch. On the key of a window rests what
 * is charged to the window. */
void weir_quota_plan_open(weir_machine *machine, size_t i, weir_operation_kind kind, int which) {
  weir_quota_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_quota_memory *memory = machine->rule_states[i].memory;
  int64_t group = state->group + which - WEIR_QUOTA_OWN;
  if (group < 0) return;
  weir_operation *operation = weir_plan(machine, i, kind, WEIR_PLACE_OPEN, group);
  if (kind == WEIR_GET && memory->start_us / rule->period_us == group)
    operation->stake = weir_plan_stake(memory->count, rule->limit);
}

/* Closing before it is known whether it must be costs a round less, and does no harm: this clock is
 * past the group before. */
void weir_quota_plan_closing(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  if (state->opens[WEIR_QUOTA_BEFORE] == WEIR_QUOTA_UNREAD) {
    weir_quota_plan_open(machine, i, WEIR_CREATE, WEIR_QUOTA_BEFORE); /* with 0 */
    weir_quota_plan_open(machine, i, WEIR_GET, WEIR_QUOTA_BEFORE);
  }
  weir_quota_plan_open(machine, i, WEIR_GET, WEIR_QUOTA_OWN);
}

/* The group before is decided, and its window, if any, is over. */
void weir_quota_plan_opening(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  int64_t period = machine->stack->rules[i].period_us;
  int64_t start = state->at_us;
  bool wrong = state->opens[WEIR_QUOTA_OWN] == WEIR_QUOTA_WRONG;
  if (wrong) {
    start = state->group * period;
    if (state->opens[WEIR_QUOTA_BEFORE] >= 0) start = state->opens[WEIR_QUOTA_BEFORE] + period;
  }
  weir_plan(machine, i, wrong ? WEIR_PUT : WEIR_CREATE, WEIR_PLACE_OPEN, state->group)->value =
      start + 1;
  weir_quota_plan_open(machine, i, WEIR_GET, WEIR_QUOTA_OWN);
  state->opening = state->opened = true;
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* A window in use: whether it is still the one that is stored. */
static void quota_confirm_start(weir_machine *machine, size_t i, const weir_operation *operation) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_quota_memory *memory = machine->rule_states[i].memory;
  int64_t start = state->start_us;
  memory->known = operation->outcome == WEIR_DONE && operation->value == start + 1;
  memory->read_us = machine->clock_us;
}

/* Whether an expected window is still in use by this clock: longer than that no key has to live. */
bool weir_quota_is_held(const weir_machine *machine, size_t i, int64_t start_us) {
  return machine->clock_us - start_us < machine->stack->rules[i].period_us;
}

/* The window that this process charges is named by a key that never changes. */
static void quota_look_for_expected_start(weir_machine *machine, size_t i,
                                          const weir_operation *operation) {
  int64_t start = machine->notes->expected[i].index;
  bool there = operation->outcome == WEIR_DONE && operation->value == start + 1;
  if (start / machine->stack->rules[i].period_us == operation->counter.index && !there &&
      weir_quota_is_held(machine, i, start))
    weir_expected_compare(machine, i, start, 0);
}

/* A group that was opened and is not is lost to eviction, or was just overwritten: from the start.
 */
void weir_quota_answer_open(weir_machine *machine, size_t i, const weir_operation *operation) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t which = operation->counter.index - state->group + WEIR_QUOTA_OWN;
  if (operation->kind != WEIR_GET) return;
  quota_look_for_expected_start(machine, i, operation);
  if (state->start_us >= 0 && machine->phase == WEIR_PHASE_CHARGE) {
    quota_confirm_start(machine, i, operation);
    return;
  }
  int64_t found = quota_decode(&machine->stack->rules[i], operation, quota_latest_us(machine));
  if (state->opening && (found == WEIR_QUOTA_ABSENT || found == WEIR_QUOTA_WRONG))
    rule_state->conflict = true;
  state->opening = false;
  state->opens[which] = found;
}

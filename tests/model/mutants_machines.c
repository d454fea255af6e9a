#include "mutants_machines.h"

#include <string.h>

#include "algorithm/method.h"

enum { LIFE_US = 100000000 };

static void begin(weir_machine *machine, int64_t now_us, const weir_memo *memo, weir_ask *asks) {
  memcpy(machine->notes, memo, weir_memo_bytes(machine->stack));
  machine->asks = asks;
  machine->phase = WEIR_PHASE_CHARGE;
  machine->now_us = machine->clock_us = now_us;
}

static weir_action *plan(weir_machine *machine, weir_operation_kind kind, weir_place place) {
  weir_action *action = weir_plan(machine, 0, kind, place, 0);
  action->ttl_us = LIFE_US;
  return action;
}

/* Time comes to an end for a machine that must not go on. */
static weir_turn fail(weir_machine *machine) {
  machine->asks->status = WEIR_TIMEOUT;
  machine->asks->settled = true;
  return WEIR_TURN_DONE;
}

static weir_turn settle(weir_machine *machine, bool allowed) {
  weir_ask *ask = machine->asks;
  ask->status = WEIR_OK;
  ask->decision.allowed = allowed;
  ask->decision.cost = ask->cost;
  ask->decision.at_us = machine->now_us;
  ask->settled = true;
  return WEIR_TURN_DONE;
}

static int64_t units_of(const weir_machine *machine) {
  return machine->asks->cost * machine->stack->rules[0].token_units;
}

static int64_t now_of(const weir_machine *machine) {
  return machine->now_us << machine->stack->rules[0].unit_bits;
}

static bool fits(const weir_machine *machine, int64_t value) {
  const weir_rule *rule = &machine->stack->rules[0];
  return value <= now_of(machine) + rule->burst * rule->token_units;
}

static weir_turn execute(weir_machine *machine, int step) {
  machine->parts[0].step = step;
  return WEIR_TURN_EXECUTE;
}

static weir_turn plan_addition(weir_machine *machine, int step) {
  plan(machine, WEIR_ADD, WEIR_PLACE_COUNT)->delta = units_of(machine);
  return execute(machine, step);
}

static weir_turn plan_take_back(weir_machine *machine, int step) {
  machine->phase = WEIR_PHASE_TAKE_BACK;
  plan(machine, WEIR_SUB, WEIR_PLACE_COUNT)->delta = units_of(machine);
  return execute(machine, step);
}

/* --- adds first and compensates ----------------------------------------------------------------
 */

enum { IDLE_ADDED, IDLE_COMPENSATED, IDLE_TAKEN_BACK };

weir_turn idle_start(weir_machine *machine, int64_t now_us, const weir_memo *memo, weir_ask *asks) {
  begin(machine, now_us, memo, asks);
  return plan_addition(machine, IDLE_ADDED);
}

weir_turn idle_resume(weir_machine *machine, int64_t now_us, bool late) {
  int64_t value = machine->actions[0].value;
  int64_t idle = now_of(machine) - (value - units_of(machine));
  (void)now_us;
  machine->action_count = 0;
  if (machine->parts[0].step == IDLE_COMPENSATED) return settle(machine, !late);
  if (machine->parts[0].step == IDLE_TAKEN_BACK) return settle(machine, false);
  if (idle > 0) {
    plan(machine, WEIR_ADD, WEIR_PLACE_COUNT)->delta = idle;
    return execute(machine, IDLE_COMPENSATED);
  }
  if (fits(machine, value)) return settle(machine, true);
  return plan_take_back(machine, IDLE_TAKEN_BACK);
}

/* --- somebody discarded mine -------------------------------------------------------------------
 */

enum { MINE_ADDED, MINE_READ, MINE_SWAPPED, MINE_TAKEN_BACK };

weir_turn discarded_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                          weir_ask *asks) {
  begin(machine, now_us, memo, asks);
  return plan_addition(machine, MINE_ADDED);
}

static weir_turn read_again(weir_machine *machine) {
  plan(machine, WEIR_GET, WEIR_PLACE_COUNT);
  return execute(machine, MINE_READ);
}

static weir_turn swap_in_now(weir_machine *machine, uint64_t version) {
  weir_action *action = plan(machine, WEIR_SWAP, WEIR_PLACE_COUNT);
  action->value = now_of(machine) + units_of(machine);
  action->version = version;
  return execute(machine, MINE_SWAPPED);
}

weir_turn discarded_resume(weir_machine *machine, int64_t now_us, bool late) {
  weir_action action = machine->actions[0];
  (void)now_us;
  machine->action_count = 0;
  if (late && machine->parts[0].step != MINE_TAKEN_BACK) return fail(machine);
  switch (machine->parts[0].step) {
    case MINE_ADDED:
      if (action.value - units_of(machine) < now_of(machine)) return read_again(machine);
      if (fits(machine, action.value)) return settle(machine, true);
      return plan_take_back(machine, MINE_TAKEN_BACK);
    case MINE_READ:
      if (action.value >= now_of(machine)) return plan_addition(machine, MINE_ADDED);
      return swap_in_now(machine, action.version_out);
    case MINE_SWAPPED:
      return action.outcome == WEIR_DONE ? settle(machine, true) : read_again(machine);
    default:
      return settle(machine, false);
  }
}

/* --- a log without epochs ----------------------------------------------------------------------
 */

enum { LOG_ADDED, LOG_WRITTEN };

weir_turn naive_log_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                          weir_ask *asks) {
  begin(machine, now_us, memo, asks);
  plan(machine, WEIR_ADD, WEIR_PLACE_COUNT)->delta = 1;
  return execute(machine, LOG_ADDED);
}

weir_turn naive_log_resume(weir_machine *machine, int64_t now_us, bool late) {
  const weir_rule *rule = &machine->stack->rules[0];
  bool reads = machine->action_count > 1;
  weir_action first = machine->actions[0];
  weir_action entry = machine->actions[1];
  machine->action_count = 0;
  if (machine->parts[0].step == LOG_WRITTEN) {
    bool allowed =
        !reads || entry.outcome == WEIR_ABSENT || machine->now_us - entry.value >= rule->period_us;
    return late ? fail(machine) : settle(machine, allowed);
  }
  weir_action *action = plan(machine, WEIR_PUT, WEIR_PLACE_ENTRY);
  action->entry = first.value;
  action->value = now_us;
  if (first.value > rule->limit)
    plan(machine, WEIR_GET, WEIR_PLACE_ENTRY)->entry = first.value - rule->limit;
  return execute(machine, LOG_WRITTEN);
}

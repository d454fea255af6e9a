#include "mutants_machines.h"

#include <string.h>

#include "algorithm/plan.h"

enum { LIFE_US = 100000000 };

static void begin(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                  weir_claim *requests, weir_operation *operations) {
  machine->frame.operations = operations;
  memcpy(machine->frame.memo, memo, weir_memo_bytes(machine->frame.stack));
  machine->frame.requests = requests;
  machine->frame.phase = WEIR_PHASE_CHARGE;
  machine->frame.now_us = machine->frame.clock_us = now_us;
}

static weir_operation *plan(weir_machine *machine, weir_operation_kind kind, weir_place place) {
  weir_operation *operation = weir_plan(&machine->rule_states[0], kind, place, 0);
  operation->ttl_us = LIFE_US;
  return operation;
}

/* Time comes to an end for a machine that must not go on. */
static weir_turn fail(weir_machine *machine) {
  machine->frame.requests->verdict.status = WEIR_TIMEOUT;
  machine->frame.requests->verdict.answered = true;
  return WEIR_TURN_DONE;
}

static weir_turn settle(weir_machine *machine, bool allowed) {
  weir_claim *request = machine->frame.requests;
  request->verdict.status = WEIR_OK;
  request->verdict.decision.allowed = allowed;
  request->verdict.decision.cost = request->ask.cost;
  request->verdict.decision.at_us = machine->frame.now_us;
  request->verdict.answered = true;
  return WEIR_TURN_DONE;
}

static int64_t units_of(const weir_machine *machine) {
  return machine->frame.requests->verdict.charge * machine->frame.stack->rules[0].token_units;
}

static int64_t now_of(const weir_machine *machine) {
  return machine->frame.now_us << machine->frame.stack->rules[0].unit_bits;
}

static bool fits(const weir_machine *machine, int64_t value) {
  const weir_rule *rule = &machine->frame.stack->rules[0];
  return value <= now_of(machine) + rule->burst * rule->token_units;
}

static weir_turn execute(weir_machine *machine, int step) {
  machine->rule_states[0].step = step;
  return WEIR_TURN_EXECUTE;
}

static weir_turn plan_addition(weir_machine *machine, int step) {
  plan(machine, WEIR_ADD, WEIR_PLACE_COUNT)->delta = units_of(machine);
  return execute(machine, step);
}

static weir_turn plan_take_back(weir_machine *machine, int step) {
  machine->frame.phase = WEIR_PHASE_TAKE_BACK;
  plan(machine, WEIR_SUB, WEIR_PLACE_COUNT)->delta = units_of(machine);
  return execute(machine, step);
}

/* --- adds first and compensates ----------------------------------------------------------------
 */

enum { IDLE_ADDED, IDLE_COMPENSATED, IDLE_TAKEN_BACK };

weir_turn idle_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                     weir_claim *requests, weir_operation *operations) {
  begin(machine, now_us, memo, requests, operations);
  return plan_addition(machine, IDLE_ADDED);
}

weir_turn idle_resume(weir_machine *machine, int64_t now_us, bool late,
                      weir_operation *operations) {
  int64_t value = machine->frame.operations[0].value;
  int64_t idle = now_of(machine) - (value - units_of(machine));
  (void)now_us;
  (void)operations; /* one place for every round */
  machine->frame.operation_count = 0;
  if (machine->rule_states[0].step == IDLE_COMPENSATED) return settle(machine, !late);
  if (machine->rule_states[0].step == IDLE_TAKEN_BACK) return settle(machine, false);
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
                          weir_claim *requests, weir_operation *operations) {
  begin(machine, now_us, memo, requests, operations);
  return plan_addition(machine, MINE_ADDED);
}

static weir_turn read_again(weir_machine *machine) {
  plan(machine, WEIR_GET, WEIR_PLACE_COUNT);
  return execute(machine, MINE_READ);
}

static weir_turn swap_in_now(weir_machine *machine, uint64_t version) {
  weir_operation *operation = plan(machine, WEIR_SWAP, WEIR_PLACE_COUNT);
  operation->value = now_of(machine) + units_of(machine);
  operation->version = version;
  return execute(machine, MINE_SWAPPED);
}

weir_turn discarded_resume(weir_machine *machine, int64_t now_us, bool late,
                           weir_operation *operations) {
  weir_operation operation = machine->frame.operations[0];
  (void)now_us;
  (void)operations; /* one place for every round */
  machine->frame.operation_count = 0;
  if (late && machine->rule_states[0].step != MINE_TAKEN_BACK) return fail(machine);
  switch (machine->rule_states[0].step) {
    case MINE_ADDED:
      if (operation.value - units_of(machine) < now_of(machine)) return read_again(machine);
      if (fits(machine, operation.value)) return settle(machine, true);
      return plan_take_back(machine, MINE_TAKEN_BACK);
    case MINE_READ:
      if (operation.value >= now_of(machine)) return plan_addition(machine, MINE_ADDED);
      return swap_in_now(machine, operation.version_out);
    case MINE_SWAPPED:
      return operation.outcome == WEIR_DONE ? settle(machine, true) : read_again(machine);
    default:
      return settle(machine, false);
  }
}

/* --- a log without epochs ----------------------------------------------------------------------
 */

enum { LOG_ADDED, LOG_WRITTEN };

weir_turn naive_log_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                          weir_claim *requests, weir_operation *operations) {
  begin(machine, now_us, memo, requests, operations);
  plan(machine, WEIR_ADD, WEIR_PLACE_COUNT)->delta = 1;
  return execute(machine, LOG_ADDED);
}

weir_turn naive_log_resume(weir_machine *machine, int64_t now_us, bool late,
                           weir_operation *operations) {
  const weir_rule *rule = &machine->frame.stack->rules[0];
  bool reads = machine->frame.operation_count > 1;
  weir_operation first = machine->frame.operations[0];
  weir_operation entry = machine->frame.operations[1];
  (void)operations;
  machine->frame.operation_count = 0;
  if (machine->rule_states[0].step == LOG_WRITTEN) {
    bool allowed = !reads || entry.outcome == WEIR_ABSENT ||
                   machine->frame.now_us - entry.value >= rule->period_us;
    return late ? fail(machine) : settle(machine, allowed);
  }
  weir_operation *operation = plan(machine, WEIR_PUT, WEIR_PLACE_ENTRY);
  operation->counter.entry = first.value;
  operation->value = now_us;
  if (first.value > rule->limit)
    plan(machine, WEIR_GET, WEIR_PLACE_ENTRY)->counter.entry = first.value - rule->limit;
  return execute(machine, LOG_WRITTEN);
}

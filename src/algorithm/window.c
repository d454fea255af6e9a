#include "algorithm/window.h"

#include "algorithm/cells.h"
#include "algorithm/judge.h"
#include "algorithm/notes.h"

static const weir_rule *rule_of(const weir_machine *machine, size_t i) {
  return &machine->stack->rules[i];
}

/* Its own span, so that every cell in it can still be charged; then W and e until nobody asks; 2 s
 * for whole seconds. */
static int64_t ttl_us(const weir_rule *rule, const weir_terms *terms) {
  int64_t ttl = rule->lanes * rule->cell_us + rule->period_us + terms->margin_us + 2000000;
  return ttl > terms->least_ttl_us ? ttl : terms->least_ttl_us;
}

static void plan(weir_machine *machine, size_t i, weir_operation_kind kind, int64_t index,
                 int64_t delta) {
  machine->actions[machine->action_count++] = (weir_action){
      .kind = kind,
      .rule = (uint32_t)i,
      .index = index,
      .delta = delta,
      .ttl_us = ttl_us(rule_of(machine, i), machine->terms),
  };
}

/* Where the current cell stands in its counter, as the factor of one. */
static int64_t lane_unit(const weir_rule *rule, int64_t cell) {
  return INT64_C(1) << (rule->lane_bits * (int)(cell % rule->lanes));
}

/* The counter of the far edge; nothing was charged before the epoch. */
static int64_t first_counter(const weir_rule *rule, const weir_part *part) {
  return part->first > 0 ? part->first / rule->lanes : 0;
}

/* Counters from the far edge to the cell ahead that are not known well enough, but for `except`. */
static void plan_reads(weir_machine *machine, size_t i, int64_t except) {
  const weir_rule *rule = rule_of(machine, i);
  const weir_part *part = &machine->parts[i];
  for (int64_t index = first_counter(rule, part); index <= part->last / rule->lanes; index++)
    if (index != except && !weir_notes_cover(machine, i, index))
      plan(machine, i, WEIR_GET, index, 0);
}

static weir_turn plan_peek(weir_machine *machine, int64_t now_us) {
  machine->phase = WEIR_PHASE_PEEK;
  weir_notes_frame(machine, now_us);
  for (size_t i = 0; i < machine->stack->count; i++)
    plan_reads(machine, i, -1);
  return WEIR_TURN_EXECUTE;
}

static int64_t wanted(const weir_machine *machine) {
  int64_t sum = 0;
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && ask->kind == WEIR_ASK_TAKE) sum += ask->cost;
  return sum;
}

static weir_turn plan_charge(weir_machine *machine, int64_t now_us) {
  int64_t charge = wanted(machine);
  machine->phase = WEIR_PHASE_CHARGE;
  weir_notes_frame(machine, now_us);
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule *rule = rule_of(machine, i);
    weir_part *part = &machine->parts[i];
    part->charge = charge;
    part->charged = false;
    int64_t index = part->current / rule->lanes;
    plan(machine, i, WEIR_ADD, index, charge * lane_unit(rule, part->current));
    plan_reads(machine, i, index);
  }
  return WEIR_TURN_EXECUTE;
}

static weir_turn plan_reset(weir_machine *machine, int64_t now_us) {
  machine->phase = WEIR_PHASE_RESET;
  weir_notes_frame(machine, now_us);
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule *rule = rule_of(machine, i);
    const weir_part *part = &machine->parts[i];
    int64_t last = (part->current + (rule->kind == WEIR_SLIDING_WINDOW)) / rule->lanes;
    for (int64_t index = first_counter(rule, part); index <= last; index++)
      plan(machine, i, WEIR_DROP, index, 0);
  }
  return WEIR_TURN_EXECUTE;
}

/* Gives back, from the counters that were charged, what no admitted request uses. */
static weir_turn plan_take_back(weir_machine *machine) {
  machine->phase = WEIR_PHASE_TAKE_BACK;
  machine->action_count = 0;
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule *rule = rule_of(machine, i);
    const weir_part *part = &machine->parts[i];
    if (!part->charged || part->unused == 0) continue;
    plan(machine, i, WEIR_SUB, part->current / rule->lanes,
         part->unused * lane_unit(rule, part->current));
  }
  return machine->action_count > 0 ? WEIR_TURN_EXECUTE : WEIR_TURN_DONE;
}

static weir_status status_of(weir_operation_kind kind, weir_outcome outcome) {
  switch (outcome) {
    case WEIR_DONE:
    case WEIR_ABSENT:
      return WEIR_OK;
    case WEIR_NOT_SENT:
      return WEIR_UNAVAILABLE;
    case WEIR_UNKNOWN:
      return kind == WEIR_GET ? WEIR_UNAVAILABLE : WEIR_UNKNOWN_OUTCOME;
    case WEIR_REFUSED:
      return WEIR_REFUSED_BY_STORE;
    case WEIR_PENDING:
    case WEIR_CONFLICT:
      break;
  }
  return WEIR_BROKEN_BACKEND;
}

/* The worst of the round: an addition whose outcome is unknown weighs more than any other failure.
 */
static weir_status round_status(const weir_machine *machine) {
  weir_status worst = WEIR_OK;
  for (size_t i = 0; i < machine->action_count; i++) {
    weir_status status = status_of(machine->actions[i].kind, machine->actions[i].outcome);
    if (status == WEIR_UNKNOWN_OUTCOME) return status;
    if (status != WEIR_OK) worst = status;
  }
  return worst;
}

static weir_turn fail(weir_machine *machine, weir_status status) {
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    if (ask->settled) continue;
    ask->settled = true;
    ask->status = status;
  }
  machine->notes->must_peek = true;
  machine->notes->denied_cost = 0;
  return WEIR_TURN_DONE;
}

/* The round is lost, but its additions may have counted: they go back before anyone is told. */
static weir_turn undo(weir_machine *machine, weir_status status) {
  machine->failure = status;
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->parts[i].unused = machine->parts[i].charge;
  if (plan_take_back(machine) == WEIR_TURN_EXECUTE) return WEIR_TURN_EXECUTE;
  return fail(machine, status);
}

/* What every rule's counts are, the group's own additions left out. */
static void note_outcomes(weir_machine *machine) {
  for (size_t i = 0; i < machine->action_count; i++) {
    const weir_action *action = &machine->actions[i];
    weir_part *part = &machine->parts[action->rule];
    if (action->kind == WEIR_ADD) part->charged = action->outcome == WEIR_DONE;
    if (status_of(action->kind, action->outcome) != WEIR_OK) continue;
    int64_t value = action->outcome == WEIR_DONE ? action->value : 0;
    if (action->kind == WEIR_ADD) value = (int64_t)((uint64_t)value - (uint64_t)action->delta);
    weir_notes_read(machine, action->rule, action->index, value);
  }
}

static weir_turn resume_peek(weir_machine *machine, int64_t now_us, weir_status status) {
  if (status != WEIR_OK) return fail(machine, status);
  note_outcomes(machine);
  return weir_judge_peek(machine) ? plan_charge(machine, now_us) : WEIR_TURN_DONE;
}

static weir_turn resume_charge(weir_machine *machine, weir_status status) {
  note_outcomes(machine);
  if (status != WEIR_OK) return undo(machine, status);
  weir_judge_charge(machine);
  return plan_take_back(machine);
}

/* A denial stands whether or not its cost went back; a lost round is unknown if its cost did not.
 */
static weir_turn resume_take_back(weir_machine *machine, weir_status status) {
  machine->notes->must_peek = true;
  if (machine->failure == WEIR_OK) return WEIR_TURN_DONE;
  return fail(machine, status == WEIR_OK ? machine->failure : WEIR_UNKNOWN_OUTCOME);
}

/* What is left behind by a reset that failed is unknown: the next touch looks first. */
static weir_turn resume_reset(weir_machine *machine, weir_status status) {
  weir_notes_forget(machine);
  machine->notes->must_peek = status != WEIR_OK;
  machine->asks->settled = true;
  machine->asks->status = status;
  return WEIR_TURN_DONE;
}

weir_turn weir_window_start(weir_machine *machine, int64_t now_us) {
  bool look_first = machine->notes->must_peek && !machine->stack->count_all;
  machine->failure = WEIR_OK;
  machine->notes->denied_cost = 0;
  if (machine->asks->kind == WEIR_ASK_RESET) return plan_reset(machine, now_us);
  return look_first || wanted(machine) == 0 ? plan_peek(machine, now_us)
                                            : plan_charge(machine, now_us);
}

/* What came after the deadline admits nobody, and what was not sent by then had no time. */
static weir_status when_late(weir_status status) {
  return status == WEIR_OK || status == WEIR_UNAVAILABLE ? WEIR_TIMEOUT : status;
}

weir_turn weir_window_resume(weir_machine *machine, int64_t now_us, bool late) {
  weir_status status = round_status(machine);
  weir_status in_time = late ? when_late(status) : status;
  switch (machine->phase) {
    case WEIR_PHASE_PEEK:
      return resume_peek(machine, now_us, in_time);
    case WEIR_PHASE_CHARGE:
      return resume_charge(machine, in_time);
    case WEIR_PHASE_TAKE_BACK:
      return resume_take_back(machine, status);
    case WEIR_PHASE_RESET:
      break;
  }
  return resume_reset(machine, status == WEIR_OK ? status : in_time);
}

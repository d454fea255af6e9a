/* The way of a group, the same for every rule:
 *
 *   start ─┬─> LOOK ─────────┬──> done         nothing fits, or nobody wants to charge
 *          │   read          │
 *          └─> CHARGE <──────┤                 one stage after another; stages are
 *              add, decide   │                 windows and quotas; buckets; the log
 *                ├─────────> done              all fit
 *                └─> TAKE_BACK ─┬─> done       some did not, or the round failed
 *                               ├─> CHARGE     what denied them was in flight: once more, in order
 *                               └─> PAUSE ──> LOOK    others were faster
 *
 * Windows alone are charged without a look. Any other stack looks at all its rules first, so that a
 * request that does not fit leaves no trace. One clock reading stamps a whole charge.
 */
#include <string.h>

#include "algorithm/held.h"
#include "algorithm/judge.h"
#include "algorithm/method.h"
#include "algorithm/notes.h"
#include "algorithm/stage.h"

static const weir_method *method_of(const weir_machine *machine, size_t i) {
  return weir_method_of(weir_machine_rule(machine, i));
}

/* --- memory ------------------------------------------------------------------------------------
 */

size_t weir_memo_bytes(const weir_stack *stack) {
  return sizeof(weir_memo) + stack->count * sizeof(weir_memo_rule) +
         weir_notes_offset(stack, stack->count) * sizeof(weir_memo_cell);
}

size_t weir_machine_actions_most(const weir_stack *stack) {
  size_t actions = 0;
  for (size_t i = 0; i < stack->count; i++)
    actions += weir_method_of(&stack->rules[i])->actions_most(&stack->rules[i]);
  return actions;
}

size_t weir_machine_bytes(const weir_stack *stack) {
  return sizeof(weir_machine) + weir_machine_actions_most(stack) * sizeof(weir_action) +
         weir_memo_bytes(stack);
}

weir_machine *weir_machine_init(void *memory, const weir_stack *stack, const weir_terms *terms) {
  weir_machine *machine = memory;
  *machine = (weir_machine){.stack = stack, .terms = terms};
  machine->actions = (weir_action *)(machine + 1);
  machine->notes = (weir_memo *)(machine->actions + weir_machine_actions_most(stack));
  machine->cells = (weir_memo_cell *)(machine->notes->rules + stack->count);
  return machine;
}

/* --- planning ----------------------------------------------------------------------------------
 */

static void plan_part(weir_machine *machine, size_t i) {
  const weir_method *method = method_of(machine, i);
  const weir_part *part = &machine->parts[i];
  switch (machine->phase) {
    case WEIR_PHASE_LOOK:
      if (weir_stage_concerns(machine, i)) method->look(machine, i);
      break;
    case WEIR_PHASE_CHARGE:
      if (machine->charging >> i & 1U) method->charge(machine, i);
      break;
    case WEIR_PHASE_TAKE_BACK:
      if (part->unused > 0) method->take_back(machine, i);
      break;
    case WEIR_PHASE_RESET:
      method->reset(machine, i);
      break;
    case WEIR_PHASE_PAUSE:
      break;
  }
}

/* The next round of this phase; false when no part wants one. */
static bool plan_round(weir_machine *machine) {
  machine->action_count = 0;
  for (size_t i = 0; i < machine->stack->count; i++)
    plan_part(machine, i);
  return machine->action_count > 0;
}

/* --- phases ------------------------------------------------------------------------------------
 */

static weir_turn go_on(weir_machine *machine);

static void frame(weir_machine *machine, int64_t now_us) {
  machine->now_us = machine->clock_us = now_us;
  for (size_t i = 0; i < machine->stack->count; i++) {
    machine->parts[i] = (weir_part){.now_us = now_us};
    method_of(machine, i)->frame(machine, i);
  }
}

static weir_turn enter(weir_machine *machine, weir_phase phase) {
  machine->phase = phase;
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->parts[i].step = 0;
  return go_on(machine);
}

static weir_turn look(weir_machine *machine, int64_t now_us) {
  frame(machine, now_us);
  return enter(machine, WEIR_PHASE_LOOK);
}

static weir_turn fail(weir_machine *machine, weir_status status) {
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    if (ask->settled) continue;
    ask->settled = true;
    ask->status = status;
    ask->away = machine->away;
  }
  weir_held_survive(machine);
  machine->notes->must_peek = true;
  return WEIR_TURN_DONE;
}

/* The charge is lost, but what the store confirmed of it counts: it goes back before anyone is
 * told. */
static weir_turn undo(weir_machine *machine, weir_status status) {
  machine->failure = status;
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_part *part = &machine->parts[i];
    part->unused = part->charged ? part->charge : 0;
  }
  return enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* Two requests of several rules can deny each other, each holding the other's last place. What was
 * denied by its own charge is looked at again in the round that takes the charge back. */
static bool may_go_again(const weir_machine *machine) {
  return machine->stack->count > 1 && weir_stage_only_windows(machine->stack) &&
         !machine->stack->count_all && !machine->in_order;
}

static weir_turn take_back(weir_machine *machine) {
  weir_held_keep(machine);
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->parts[i].unused > 0) machine->notes->must_peek = true;
  if (!machine->again) return enter(machine, WEIR_PHASE_TAKE_BACK);
  machine->phase = WEIR_PHASE_TAKE_BACK;
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->parts[i].step = 0;
  plan_round(machine);
  for (size_t i = 0; i < machine->stack->count; i++) {
    machine->parts[i].step = 0;
    method_of(machine, i)->look(machine, i);
  }
  return WEIR_TURN_EXECUTE;
}

/* Begins the next stage that has something to charge, if any take is left to charge it. */
static weir_turn next_stage(weir_machine *machine) {
  for (; machine->stage < weir_stage_count(machine); machine->stage++) {
    machine->charging = 0;
    for (size_t i = 0; i < machine->stack->count; i++) {
      if (weir_stage_of(machine, i) != machine->stage) continue;
      machine->parts[i].charge = weir_stage_wants(machine, i);
      if (machine->parts[i].charge > 0) machine->charging |= 1U << i;
    }
    if (machine->charging != 0) return enter(machine, WEIR_PHASE_CHARGE);
  }
  return take_back(machine);
}

static weir_turn charge(weir_machine *machine) {
  machine->notes->must_peek = false;
  machine->stage = 0;
  return next_stage(machine);
}

static weir_turn finish_stage(weir_machine *machine) {
  bool last = weir_stage_is_last(machine);
  bool denied = weir_judge_stage(machine, machine->charging, last, !may_go_again(machine));
  machine->stage++;
  if (!last && weir_stage_has_takes(machine)) return next_stage(machine);
  if (denied && may_go_again(machine)) {
    machine->again = true;
  } else {
    weir_judge_rest(machine);
  }
  return take_back(machine);
}

static weir_turn refund(weir_machine *machine) {
  weir_ask *ask = machine->asks;
  for (size_t i = 0; i < machine->stack->count; i++) {
    int64_t cost = weir_ask_cost(ask, i);
    if (cost == 0 || method_of(machine, i)->refund(machine, i, ask, cost)) continue;
    ask->settled = true;
    ask->status = WEIR_BAD_COST;
    return WEIR_TURN_DONE;
  }
  weir_held_release(machine);
  return enter(machine, WEIR_PHASE_TAKE_BACK);
}

static weir_turn finish_look(weir_machine *machine) {
  if (machine->asks->kind == WEIR_ASK_REFUND) return refund(machine);
  if (!weir_judge_look(machine)) return WEIR_TURN_DONE;
  frame(machine, machine->clock_us);
  return charge(machine);
}

static weir_turn settle_alone(weir_machine *machine, weir_status status) {
  machine->asks->settled = true;
  machine->asks->status = status;
  return WEIR_TURN_DONE;
}

static bool some_conflict(const weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->parts[i].conflict) return true;
  return false;
}

static bool some_went_back(const weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->parts[i].went_back) return true;
  return false;
}

/* A refund that reached only some of its rules is not to be asked for again. */
static weir_turn settle_refund(weir_machine *machine, weir_status status) {
  if (status == WEIR_OK && some_conflict(machine)) status = WEIR_CONTENDED;
  if (status == WEIR_OK) return settle_alone(machine, WEIR_OK);
  return fail(machine, some_went_back(machine) ? WEIR_UNKNOWN_OUTCOME : status);
}

/* Some of the charge cannot go back (an index in a log, a place that others wait behind), or others
 * kept it out. */
static bool some_stays(const weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->parts[i].unused > 0) return true;
  return false;
}

static weir_turn finish_take_back(weir_machine *machine) {
  if (machine->failure != WEIR_OK && some_stays(machine))
    return fail(machine, WEIR_UNKNOWN_OUTCOME);
  if (machine->failure == WEIR_CONTENDED) {
    machine->failure = WEIR_OK;
    machine->pauses++;
    machine->phase = WEIR_PHASE_PAUSE;
    return WEIR_TURN_PAUSE;
  }
  if (machine->failure != WEIR_OK) return fail(machine, machine->failure);
  if (machine->asks->kind == WEIR_ASK_REFUND) return settle_refund(machine, WEIR_OK);
  if (!machine->again) return WEIR_TURN_DONE;
  machine->again = false;
  if (!weir_judge_look(machine)) return WEIR_TURN_DONE;
  machine->in_order = true;
  frame(machine, machine->clock_us);
  return charge(machine);
}

static weir_turn finish_reset(weir_machine *machine) {
  memset(machine->notes, 0, weir_memo_bytes(machine->stack));
  return settle_alone(machine, WEIR_OK);
}

/* Another round of this phase, or what comes after it. */
static weir_turn go_on(weir_machine *machine) {
  if (plan_round(machine)) return WEIR_TURN_EXECUTE;
  switch (machine->phase) {
    case WEIR_PHASE_LOOK:
      return finish_look(machine);
    case WEIR_PHASE_CHARGE:
      return finish_stage(machine);
    case WEIR_PHASE_TAKE_BACK:
      return finish_take_back(machine);
    case WEIR_PHASE_RESET:
      return finish_reset(machine);
    case WEIR_PHASE_PAUSE:
      break;
  }
  return WEIR_TURN_PAUSE;
}

/* --- rounds ------------------------------------------------------------------------------------
 */

static weir_status status_of(weir_operation_kind kind, weir_outcome outcome) {
  switch (outcome) {
    case WEIR_DONE:
    case WEIR_ABSENT:
    case WEIR_CONFLICT:
      return WEIR_OK;
    case WEIR_NOT_SENT:
      return WEIR_UNAVAILABLE;
    case WEIR_UNKNOWN:
      return kind == WEIR_GET ? WEIR_UNAVAILABLE : WEIR_UNKNOWN_OUTCOME;
    case WEIR_REFUSED:
      return WEIR_REFUSED_BY_STORE;
    case WEIR_PENDING:
      break;
  }
  return WEIR_BROKEN_BACKEND;
}

/* What only a store that is away gives: a policy may answer in its stead. */
static bool shows_absence(const weir_action *action) {
  bool lost = action->outcome == WEIR_NOT_SENT || action->outcome == WEIR_UNKNOWN;
  return action->outcome == WEIR_REFUSED || (lost && !action->late);
}

/* Hands every answer to its part. The worst of the round: a change whose outcome is unknown weighs
 * more than any other failure. */
static weir_status take_answers(weir_machine *machine) {
  weir_status worst = WEIR_OK;
  for (size_t i = 0; i < machine->action_count; i++) {
    const weir_action *action = &machine->actions[i];
    weir_status status = status_of(action->kind, action->outcome);
    machine->away |= shows_absence(action);
    if (machine->phase == WEIR_PHASE_TAKE_BACK && action->kind != WEIR_GET &&
        action->outcome == WEIR_DONE)
      machine->parts[action->rule].went_back = true;
    if (action->kind == WEIR_SUB && status == WEIR_OK) machine->parts[action->rule].unused = 0;
    if (status == WEIR_OK)
      method_of(machine, action->rule)->answer(machine, action->rule, action);
    else if (worst != WEIR_UNKNOWN_OUTCOME)
      worst = status;
  }
  return worst;
}

static bool store_was_silent(const weir_machine *machine) {
  for (size_t i = 0; i < machine->action_count; i++)
    if (machine->actions[i].outcome == WEIR_UNKNOWN) return true;
  return false;
}

/* What came after the deadline admits nobody, and what was not sent by then had no time, unless the
 * server is away. Where the store did answer, and there were pauses, it was others who took that
 * time. */
static weir_status when_late(const weir_machine *machine, weir_status status) {
  if (machine->away || (status != WEIR_OK && status != WEIR_UNAVAILABLE)) return status;
  return machine->pauses > 0 && !store_was_silent(machine) ? WEIR_CONTENDED : WEIR_TIMEOUT;
}

/* A denial stands whether or not its cost went back; a lost charge is unknown if its cost did not.
 */
static weir_turn resume_take_back(weir_machine *machine, weir_status status, bool late) {
  bool too_late = late && machine->again; /* to charge once more */
  if (status == WEIR_OK && !too_late) return go_on(machine);
  if (machine->asks->kind == WEIR_ASK_REFUND) return settle_refund(machine, status);
  if (machine->failure != WEIR_OK) return fail(machine, WEIR_UNKNOWN_OUTCOME);
  machine->again = false;
  weir_judge_denied(machine);
  return WEIR_TURN_DONE;
}

weir_turn weir_machine_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                             weir_ask *asks) {
  memcpy(machine->notes, memo, weir_memo_bytes(machine->stack));
  machine->asks = asks;
  machine->failure = WEIR_OK;
  machine->in_order = machine->again = machine->away = false;
  machine->pauses = machine->lost = 0;
  bool look_first = machine->notes->must_peek && !machine->stack->count_all;
  machine->notes->denied_cost = 0;
  frame(machine, now_us);
  if (asks->kind == WEIR_ASK_RESET) return enter(machine, WEIR_PHASE_RESET);
  bool blind = weir_stage_has_takes(machine) && !look_first &&
               (machine->stack->count == 1 ? method_of(machine, 0)->blind(machine, 0)
                                           : weir_stage_only_windows(machine->stack));
  return blind ? charge(machine) : enter(machine, WEIR_PHASE_LOOK);
}

weir_turn weir_machine_resume(weir_machine *machine, int64_t now_us, bool late) {
  machine->clock_us = now_us;
  if (machine->phase == WEIR_PHASE_PAUSE)
    return late ? fail(machine, WEIR_CONTENDED) : look(machine, now_us);
  weir_status status = take_answers(machine);
  if (machine->phase == WEIR_PHASE_TAKE_BACK) return resume_take_back(machine, status, late);
  if (late && !(machine->phase == WEIR_PHASE_RESET && status == WEIR_OK))
    status = when_late(machine, status);
  if (status != WEIR_OK)
    return machine->phase == WEIR_PHASE_CHARGE ? undo(machine, status) : fail(machine, status);
  if (some_conflict(machine)) return undo(machine, WEIR_CONTENDED);
  return go_on(machine);
}

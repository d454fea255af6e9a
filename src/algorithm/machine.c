/* The way of a group, the same for every rule. One loop, advance(), goes through its phases:
 *
 *   start ─┬─> LOOK ─────────┬──> DONE         nothing fits, or nobody wants to charge
 *          │   read          │
 *          └─> CHARGE <──────┤                 one stage after another; stages are
 *              add, decide   │                 windows and quotas; buckets; the log
 *                └─> TAKE_BACK ─┬─> DONE       what did not fit has gone back
 *                               ├─> CHARGE     what denied them was in flight: once more, in order
 *                               └─> PAUSE ──> LOOK    others were faster
 *   start ───> RESET ───> DONE
 *
 * Each phase plans operations, round after round, until no rule wants more; then the phase is over,
 * and says which comes next. Windows alone are charged without a look. Any other stack looks at all
 * its rules first, so that a request that does not fit leaves no trace. One clock reading stamps a
 * whole charge.
 */
#include <string.h>

#include "algorithm/held.h"
#include "algorithm/judge.h"
#include "algorithm/method.h"
#include "algorithm/stage.h"

/* Two requests of several rules can deny each other, each holding the other's last place. What was
 * denied by its own charge is looked at again in the round that takes the charge back. */
static bool may_go_again(const weir_machine *machine) {
  return machine->stack->count > 1 && machine->only_windows && !machine->stack->count_all &&
         !machine->in_order;
}

/* --- beginning a phase -------------------------------------------------------------------------
 */

static void enter(weir_machine *machine, weir_phase phase) {
  machine->phase = phase;
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->parts[i].step = 0;
}

static void frame(weir_machine *machine, int64_t now_us) {
  machine->now_us = machine->clock_us = now_us;
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_part *part = &machine->parts[i];
    *part = (weir_part){
        .method = part->method, .memory = part->memory, .state = part->state, .now_us = now_us};
    memset(part->state, 0, part->method->state_bytes);
    part->method->frame(machine, i);
  }
}

/* Begins the stage that weir_stage_find() found; without one the charge is over. */
static void charge_stage(weir_machine *machine) {
  machine->charged_before |= machine->charging;
  machine->charging = weir_stage_find(machine, &machine->stage);
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->charging >> i & 1U) machine->parts[i].charge = weir_stage_cost(machine, i);
  enter(machine, WEIR_PHASE_CHARGE);
}

static void begin_charge(weir_machine *machine) {
  machine->notes->must_peek = false;
  machine->stage = machine->charging = machine->charged_before = 0;
  charge_stage(machine);
}

/* With `again` the take-back's first round also looks, behind what goes back. */
static void begin_take_back(weir_machine *machine) {
  weir_held_keep(machine);
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->parts[i].unused > 0) machine->notes->must_peek = true;
  machine->looks_along = machine->again;
  enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* --- ending ------------------------------------------------------------------------------------
 */

static void fail(weir_machine *machine, weir_status status) {
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    if (ask->settled) continue;
    ask->settled = true;
    ask->status = status;
    ask->away = machine->away;
  }
  weir_held_survive(machine);
  machine->notes->must_peek = true;
  machine->phase = WEIR_PHASE_DONE;
}

static void settle_alone(weir_machine *machine, weir_status status) {
  machine->asks->settled = true;
  machine->asks->status = status;
  machine->phase = WEIR_PHASE_DONE;
}

/* The charge is lost, but what the store confirmed of it counts: it goes back before anyone is
 * told. */
static void undo(weir_machine *machine, weir_status status) {
  machine->failure = status;
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_part *part = &machine->parts[i];
    part->unused = part->charged ? part->charge : 0;
  }
  enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* A refund that reached only some of its rules is not to be asked for again. */
static void settle_refund(weir_machine *machine, weir_status status) {
  bool went_back = false;
  for (size_t i = 0; i < machine->stack->count; i++) {
    if (machine->parts[i].conflict && status == WEIR_OK) status = WEIR_CONTENDED;
    went_back = went_back || machine->parts[i].went_back;
  }
  if (status == WEIR_OK)
    settle_alone(machine, WEIR_OK);
  else
    fail(machine, went_back ? WEIR_UNKNOWN_OUTCOME : status);
}

/* --- the end of a phase ------------------------------------------------------------------------
 */

static void choose_refund(weir_machine *machine) {
  weir_ask *ask = machine->asks;
  for (size_t i = 0; i < machine->stack->count; i++) {
    int64_t cost = weir_ask_cost(ask, i);
    if (cost == 0 || machine->parts[i].method->refund(machine, i, ask, cost)) continue;
    settle_alone(machine, WEIR_BAD_COST);
    return;
  }
  weir_held_release(machine);
  enter(machine, WEIR_PHASE_TAKE_BACK);
}

static void finish_look(weir_machine *machine) {
  if (machine->asks->kind == WEIR_ASK_REFUND) {
    choose_refund(machine);
  } else if (!weir_judge_look(machine)) {
    machine->phase = WEIR_PHASE_DONE;
  } else {
    frame(machine, machine->clock_us);
    begin_charge(machine);
  }
}

/* A stage is charged: who fits under its rules goes on to the next. */
static void finish_stage(weir_machine *machine) {
  unsigned next = machine->stage + 1;
  bool last = weir_stage_find(machine, &next) == 0;
  bool denied = false;
  if (machine->charging != 0)
    denied = weir_judge_stage(machine, machine->charging, last, !may_go_again(machine));
  if (!last && weir_stage_has_takes(machine)) {
    machine->stage++;
    charge_stage(machine);
    if (machine->charging != 0) return;
  }
  machine->again = denied && may_go_again(machine);
  if (!machine->again) weir_judge_rest(machine);
  begin_take_back(machine);
}

/* Some of the charge cannot go back (an index in a log, a place that others wait behind), or others
 * kept it out. */
static bool some_stays(const weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->parts[i].unused > 0) return true;
  return false;
}

static void finish_take_back(weir_machine *machine) {
  if (machine->failure != WEIR_OK && some_stays(machine)) {
    fail(machine, WEIR_UNKNOWN_OUTCOME);
  } else if (machine->failure == WEIR_CONTENDED) {
    machine->failure = WEIR_OK;
    machine->pauses++;
    machine->phase = WEIR_PHASE_PAUSE;
  } else if (machine->failure != WEIR_OK) {
    fail(machine, machine->failure);
  } else if (machine->asks->kind == WEIR_ASK_REFUND) {
    settle_refund(machine, WEIR_OK);
  } else if (machine->again && weir_judge_look(machine)) {
    machine->again = false;
    machine->in_order = true;
    frame(machine, machine->clock_us);
    begin_charge(machine);
  } else {
    machine->phase = WEIR_PHASE_DONE;
  }
}

/* --- the loop ----------------------------------------------------------------------------------
 */

/* What rule i wants of the next round of this phase. */
static void plan(weir_machine *machine, size_t i) {
  const weir_part *part = &machine->parts[i];
  if (machine->phase == WEIR_PHASE_CHARGE) {
    if (machine->charging >> i & 1U) part->method->charge(machine, i);
  } else if (machine->phase == WEIR_PHASE_TAKE_BACK) {
    if (part->unused > 0) part->method->take_back(machine, i);
  } else if (machine->phase == WEIR_PHASE_LOOK) {
    if (weir_stage_concerns(machine, i)) part->method->look(machine, i);
  } else if (machine->phase == WEIR_PHASE_RESET) {
    part->method->reset(machine, i);
  }
}

/* Behind the take-back of all rules, in the same round. */
static void plan_looks_along(weir_machine *machine) {
  machine->looks_along = false;
  for (size_t i = 0; i < machine->stack->count; i++) {
    machine->parts[i].step = 0;
    machine->parts[i].method->look(machine, i);
  }
}

static weir_turn advance(weir_machine *machine) {
  for (;;) {
    machine->action_count = 0;
    for (size_t i = 0; i < machine->stack->count; i++)
      plan(machine, i);
    if (machine->looks_along) plan_looks_along(machine);
    if (machine->action_count > 0) return WEIR_TURN_EXECUTE;
    switch (machine->phase) {
      case WEIR_PHASE_LOOK:
        finish_look(machine);
        break;
      case WEIR_PHASE_CHARGE:
        finish_stage(machine);
        break;
      case WEIR_PHASE_TAKE_BACK:
        finish_take_back(machine);
        break;
      case WEIR_PHASE_RESET:
        memset(machine->notes, 0, machine->memo_bytes);
        settle_alone(machine, WEIR_OK);
        break;
      case WEIR_PHASE_PAUSE:
        return WEIR_TURN_PAUSE;
      case WEIR_PHASE_DONE:
        return WEIR_TURN_DONE;
    }
  }
}

/* --- answers -----------------------------------------------------------------------------------
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

/* Hands every answer to its rule. The worst of the round: a change whose outcome is unknown weighs
 * more than any other failure. */
static weir_status take_answers(weir_machine *machine) {
  weir_status worst = WEIR_OK;
  for (size_t n = 0; n < machine->action_count; n++) {
    const weir_action *action = &machine->actions[n];
    weir_part *part = &machine->parts[action->rule];
    weir_status status = status_of(action->kind, action->outcome);
    machine->away |= shows_absence(action);
    if (machine->phase == WEIR_PHASE_TAKE_BACK && action->kind != WEIR_GET &&
        action->outcome == WEIR_DONE)
      part->went_back = true;
    if (action->kind == WEIR_SUB && status == WEIR_OK) part->unused = 0;
    if (status == WEIR_OK)
      part->method->answer(machine, action->rule, action);
    else if (worst != WEIR_UNKNOWN_OUTCOME)
      worst = status;
  }
  return worst;
}

/* What came after the deadline admits nobody, and what was not sent by then had no time, unless the
 * server is away. Where the store did answer, and there were pauses, it was others who took that
 * time. */
static weir_status when_late(const weir_machine *machine, weir_status status) {
  bool had_no_time = status == WEIR_UNAVAILABLE && !machine->away;
  if (status != WEIR_OK && !had_no_time) return status;
  for (size_t n = 0; n < machine->action_count; n++)
    if (machine->actions[n].outcome == WEIR_UNKNOWN) return WEIR_TIMEOUT;
  return machine->pauses > 0 ? WEIR_CONTENDED : WEIR_TIMEOUT;
}

/* A denial stands whether or not its cost went back; a lost charge is unknown if its cost did not.
 */
static void end_take_back(weir_machine *machine, weir_status status) {
  if (machine->asks->kind == WEIR_ASK_REFUND) {
    settle_refund(machine, status);
  } else if (machine->failure != WEIR_OK) {
    fail(machine, WEIR_UNKNOWN_OUTCOME);
  } else {
    weir_judge_denied(machine);
    machine->phase = WEIR_PHASE_DONE;
  }
}

static bool some_conflict(const weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->parts[i].conflict) return true;
  return false;
}

/* --- entry -------------------------------------------------------------------------------------
 */

weir_turn weir_machine_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                             weir_ask *asks) {
  memcpy(machine->notes, memo, machine->memo_bytes);
  machine->asks = asks;
  machine->failure = WEIR_OK;
  machine->in_order = machine->again = machine->looks_along = machine->away = false;
  machine->pauses = machine->lost = 0;
  bool look_first = machine->notes->must_peek && !machine->stack->count_all;
  machine->notes->denied_cost = 0;
  frame(machine, now_us);
  bool unseen = machine->stack->count == 1 ? machine->parts[0].method->blind(machine, 0)
                                           : machine->only_windows;
  if (asks->kind == WEIR_ASK_RESET)
    enter(machine, WEIR_PHASE_RESET);
  else if (unseen && !look_first && weir_stage_has_takes(machine))
    begin_charge(machine);
  else
    enter(machine, WEIR_PHASE_LOOK);
  return advance(machine);
}

weir_turn weir_machine_resume(weir_machine *machine, int64_t now_us, bool late) {
  machine->clock_us = now_us;
  if (machine->phase == WEIR_PHASE_PAUSE) {
    frame(machine, now_us);
    enter(machine, WEIR_PHASE_LOOK);
    if (late) fail(machine, WEIR_CONTENDED);
    return advance(machine);
  }
  weir_status status = take_answers(machine);
  if (machine->phase == WEIR_PHASE_TAKE_BACK) {
    bool too_late = late && machine->again; /* to charge once more */
    if (status != WEIR_OK || too_late) end_take_back(machine, status);
    return advance(machine);
  }
  if (late && !(machine->phase == WEIR_PHASE_RESET && status == WEIR_OK))
    status = when_late(machine, status);
  if (status == WEIR_OK && some_conflict(machine))
    undo(machine, WEIR_CONTENDED);
  else if (status != WEIR_OK && machine->phase == WEIR_PHASE_CHARGE)
    undo(machine, status);
  else if (status != WEIR_OK)
    fail(machine, status);
  return advance(machine);
}

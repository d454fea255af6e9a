/* The way of a group, the same for every rule. One loop, machine_advance(), goes through its
 * phases:
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
 * and says which comes next. Windows alone are charged without a look, as is another rule that is
 * alone and `blind`. Any other stack looks at all its rules first, so that a request that does not
 * fit leaves no trace. One clock reading stamps a whole charge.
 */
#include <string.h>

#include "algorithm/decide.h"
#include "algorithm/expected.h"
#include "algorithm/failure.h"
#include "algorithm/method.h"

/* --- beginning a phase -------------------------------------------------------------------------
 */

void weir_machine_enter(weir_machine *machine, weir_phase phase) {
  machine->phase = phase;
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->rule_states[i].step = 0;
}

bool weir_machine_has_takes(const weir_machine *machine) {
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next)
    if (!request->settled && request->kind == WEIR_TAKE) return true;
  return false;
}

/* Begins anew at this moment, knowing no more than the notes do. */
static void machine_frame(weir_machine *machine, int64_t now_us) {
  machine->now_us = machine->clock_us = now_us;
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_rule_state *rule_state = &machine->rule_states[i];
    *rule_state = (weir_rule_state){.method = rule_state->method,
                                    .memory = rule_state->memory,
                                    .state = rule_state->state,
                                    .ttl_us = rule_state->ttl_us,
                                    .now_us = now_us};
    memset(rule_state->state, 0, rule_state->method->state_bytes);
    rule_state->method->frame(machine, i);
  }
}

/* What the open takes cost together under each rule. The costs of a group come to 2^62 at most. */
static void machine_sum_takes(weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->rule_states[i].wanted = 0;
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next)
    for (size_t i = 0; i < machine->stack->count; i++)
      if (!request->settled && request->kind == WEIR_TAKE)
        machine->rule_states[i].wanted += weir_request_cost(request, i);
}

/* How many rules are tighter than rule i. */
static unsigned machine_rank(const weir_stack *stack, size_t i) {
  int64_t limit = stack->rules[i].limit;
  unsigned tighter = 0;
  for (size_t j = 0; j < stack->count; j++) {
    int64_t other = stack->rules[j].limit;
    if (other < limit || (other == limit && j < i)) tighter++;
  }
  return tighter;
}

/* Begins the first stage from `from` on under which the open takes want something, if there is one.
 * In order every rule is a stage of its own, the smallest limit first. */
static void machine_charge_stage(weir_machine *machine, unsigned from) {
  unsigned stages[WEIR_RULES_MOST];
  machine->charged_before |= machine->charging;
  machine->charging = 0;
  machine->stage = WEIR_RULES_MOST;
  machine->last_stage = true;
  weir_machine_enter(machine, WEIR_PHASE_CHARGE);
  machine_sum_takes(machine);
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule_state *rule_state = &machine->rule_states[i];
    stages[i] = machine->in_order ? machine_rank(machine->stack, i) : rule_state->method->stage;
    if (rule_state->wanted == 0 || stages[i] < from) stages[i] = WEIR_RULES_MOST;
    if (stages[i] < machine->stage) machine->stage = stages[i];
  }
  for (size_t i = 0; i < machine->stack->count; i++) {
    if (stages[i] == WEIR_RULES_MOST) continue;
    if (stages[i] > machine->stage) {
      machine->last_stage = false;
      continue;
    }
    machine->charging |= 1U << i;
    machine->rule_states[i].charge = machine->rule_states[i].wanted;
  }
}

static void machine_begin_charge(weir_machine *machine) {
  machine->notes->must_peek = false;
  machine->charging = machine->charged_before = 0;
  machine_charge_stage(machine, 0);
}

/* What of the charge does not go back is held from now on; what does calls for a look next time.
 * With `again` the first round also looks, behind what goes back. */
static void machine_begin_take_back(weir_machine *machine) {
  bool goes_back = false;
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule_state *rule_state = &machine->rule_states[i];
    if (rule_state->charged)
      weir_expected_change(machine, i, rule_state->charge - rule_state->unused);
    goes_back = goes_back || rule_state->unused > 0;
  }
  if (goes_back) machine->notes->must_peek = true;
  machine->looks_along = machine->again;
  weir_machine_enter(machine, goes_back || machine->again ? WEIR_PHASE_TAKE_BACK : WEIR_PHASE_DONE);
}

/* --- the end of a phase ------------------------------------------------------------------------
 */

static void machine_finish_look(weir_machine *machine) {
  machine->blind = false;
  if (machine->requests->kind == WEIR_REFUND) {
    weir_machine_choose_refund(machine);
  } else if (!weir_decide_look(machine)) {
    machine->phase = WEIR_PHASE_DONE;
  } else {
    machine_frame(machine, machine->clock_us);
    machine_begin_charge(machine);
  }
}

/* A stage is charged: who fits under its rules goes on to the next. Two requests of several rules
 * can deny each other, each holding the other's last place: what was denied by its own charge is
 * looked at again in the round that takes the charge back. */
static void machine_finish_stage(weir_machine *machine) {
  bool in_vain = machine->blind && machine->stack->count == 1 && !machine->rule_states[0].charged;
  if (in_vain) { /* what was known is no longer so: that was the first step of a look */
    weir_machine_enter(machine, WEIR_PHASE_LOOK);
    machine->rule_states[0].step = 1;
    return;
  }
  bool may_retry = machine->retries && !machine->in_order;
  bool denied = false;
  if (machine->charging != 0)
    denied = weir_decide_stage(machine, machine->charging, machine->last_stage, !may_retry);
  if (!machine->last_stage) {
    machine_charge_stage(machine, machine->stage + 1);
    if (machine->charging != 0) return;
  }
  machine->again = denied && may_retry;
  if (!machine->again) weir_decide_rest(machine);
  machine_begin_take_back(machine);
}

static void machine_finish_take_back(weir_machine *machine) {
  if (machine->failure != WEIR_OK) {
    weir_machine_finish_undo(machine);
  } else if (machine->requests->kind == WEIR_REFUND) {
    weir_machine_settle_refund(machine, WEIR_OK);
  } else if (machine->again && weir_decide_look(machine)) {
    machine->again = false;
    machine->in_order = true;
    machine_frame(machine, machine->clock_us);
    machine_begin_charge(machine);
  } else {
    machine->phase = WEIR_PHASE_DONE;
  }
}

/* Of a reset, and of what a key begins with: what was known is no longer so. */
static void machine_finish_reset(weir_machine *machine) {
  memset(machine->notes, 0, machine->memo_bytes);
  weir_machine_settle_alone(machine, WEIR_OK);
}

/* --- the loop ----------------------------------------------------------------------------------
 */

weir_operation *weir_plan(weir_machine *machine, size_t i, weir_operation_kind kind,
                          weir_place place, int64_t index) {
  const weir_rule_state *rule_state = &machine->rule_states[i];
  weir_operation *operation = &machine->operations[machine->operation_count++];
  *operation = (weir_operation){
      .kind = kind,
      .ttl_us = rule_state->ttl_us,
      .counter = {.rule = (uint32_t)i, .place = place, .index = index},
  };
  /* Few stores want to know; and a read says nothing by itself. */
  if (machine->settings->traits & WEIR_TRAIT_STAKE && kind != WEIR_GET && kind != WEIR_DROP)
    operation->stake = weir_plan_stake(kind == WEIR_SUB ? rule_state->unused : rule_state->charge,
                                       machine->stack->rules[i].capacity);
  return operation;
}

/* Whether some open request is about rule i. */
static bool machine_concerns(const weir_machine *machine, size_t i) {
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next)
    if (!request->settled && weir_request_cost(request, i) > 0) return true;
  return false;
}

/* What each rule wants of the next round of this phase; nothing from any: the phase is over. */
static void machine_plan_round(weir_machine *machine) {
  machine->operation_count = 0;
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule_state *rule_state = &machine->rule_states[i];
    if (machine->phase == WEIR_PHASE_CHARGE) {
      if (machine->charging >> i & 1U) rule_state->method->charge(machine, i);
    } else if (machine->phase == WEIR_PHASE_TAKE_BACK) {
      if (rule_state->unused > 0) rule_state->method->take_back(machine, i);
    } else if (machine->phase == WEIR_PHASE_LOOK) {
      if (machine_concerns(machine, i)) rule_state->method->look(machine, i);
    } else if (machine->phase == WEIR_PHASE_RESET) {
      rule_state->method->reset(machine, i);
    } else if (machine->phase == WEIR_PHASE_BEGIN && machine->rule_states[i].step++ == 0) {
      const weir_known *known = &machine->requests->known[i];
      bool keeps = known->of_log && known->count == 0;
      rule_state->method->begin(machine, i, known, machine->requests->afresh && !keeps);
    }
  }
  for (size_t i = 0; machine->looks_along && i < machine->stack->count; i++) {
    machine->rule_states[i].step = 0; /* behind the take-back of all rules */
    machine->rule_states[i].method->look(machine, i);
  }
  machine->looks_along = false;
}

static weir_turn machine_advance(weir_machine *machine, weir_operation *operations) {
  machine->operations = operations;
  for (;;) {
    machine_plan_round(machine);
    if (machine->operation_count > 0) return WEIR_TURN_EXECUTE;
    switch (machine->phase) {
      case WEIR_PHASE_LOOK:
        machine_finish_look(machine);
        break;
      case WEIR_PHASE_CHARGE:
        machine_finish_stage(machine);
        break;
      case WEIR_PHASE_TAKE_BACK:
        machine_finish_take_back(machine);
        break;
      case WEIR_PHASE_RESET:
      case WEIR_PHASE_BEGIN:
        machine_finish_reset(machine);
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

/* Hands every answer to its rule. Returns the worst of the round: a change whose outcome is unknown
 * weighs more than any other failure. */
static weir_status machine_take_answers(weir_machine *machine) {
  weir_status worst = WEIR_OK;
  for (size_t n = 0; n < machine->operation_count; n++) {
    const weir_operation *operation = &machine->operations[n];
    weir_outcome outcome = operation->outcome;
    weir_rule_state *rule_state = &machine->rule_states[operation->counter.rule];
    if (outcome != WEIR_DONE && outcome != WEIR_ABSENT && outcome != WEIR_CONFLICT) {
      weir_status status = weir_machine_failure(machine, operation);
      if (worst != WEIR_UNKNOWN_OUTCOME) worst = status;
      continue;
    }
    if (machine->phase == WEIR_PHASE_TAKE_BACK && operation->kind != WEIR_GET &&
        outcome == WEIR_DONE)
      rule_state->went_back = true;
    if (operation->kind == WEIR_SUB) rule_state->unused = 0;
    if (machine->phase == WEIR_PHASE_BEGIN) continue; /* or what is there stays */
    rule_state->method->answer(machine, operation->counter.rule, operation);
  }
  return worst;
}

static bool machine_has_conflict(const weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->rule_states[i].conflict) return true;
  return false;
}

/* --- entry -------------------------------------------------------------------------------------
 */

weir_turn weir_machine_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                             weir_request_state *requests, weir_operation *operations) {
  memcpy(machine->notes, memo, machine->memo_bytes);
  machine->requests = requests;
  for (weir_request_state *request = requests; request != NULL; request = request->next)
    weir_request_offer(machine->stack, request);
  machine->failure = WEIR_OK;
  machine->in_order = machine->again = machine->looks_along = machine->away = false;
  machine->pauses = machine->lost = 0;
  bool look_first = (machine->notes->must_peek && !machine->stack->count_all) || requests->pays;
  machine->notes->denied_cost = 0;
  machine_frame(machine, now_us);
  bool unseen = machine->only_windows ||
                (machine->stack->count == 1 && machine->rule_states[0].method->blind(machine, 0));
  machine->blind = unseen && !look_first && weir_machine_has_takes(machine);
  if (requests->kind == WEIR_RESET)
    weir_machine_enter(machine, WEIR_PHASE_RESET);
  else if (requests->kind == WEIR_BEGIN)
    weir_machine_enter(machine, WEIR_PHASE_BEGIN);
  else if (machine->blind)
    machine_begin_charge(machine);
  else
    weir_machine_enter(machine, WEIR_PHASE_LOOK);
  return machine_advance(machine, operations);
}

void weir_machine_places(const weir_machine *machine, int64_t places[WEIR_RULES_MOST]) {
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_method *method = machine->rule_states[i].method;
    places[i] = method->place != NULL ? method->place(machine, i) : 0;
  }
}

weir_turn weir_machine_resume(weir_machine *machine, int64_t now_us, bool late,
                              weir_operation *operations) {
  machine->clock_us = now_us;
  if (machine->phase == WEIR_PHASE_PAUSE) {
    machine_frame(machine, now_us);
    weir_machine_enter(machine, WEIR_PHASE_LOOK);
    if (late) weir_machine_fail(machine, WEIR_CONTENDED);
    return machine_advance(machine, operations);
  }
  weir_status status = machine_take_answers(machine);
  if (machine->phase == WEIR_PHASE_TAKE_BACK) {
    bool too_late = late && machine->again; /* to charge once more */
    if (status != WEIR_OK || too_late) weir_machine_end_take_back(machine, status);
    return machine_advance(machine, operations);
  }
  if (late && !(machine->phase == WEIR_PHASE_RESET && status == WEIR_OK))
    status = weir_machine_when_late(machine, status);
  if (status == WEIR_OK && machine_has_conflict(machine))
    weir_machine_undo(machine, WEIR_CONTENDED);
  else if (status != WEIR_OK && machine->phase == WEIR_PHASE_CHARGE)
    weir_machine_undo(machine, status);
  else if (status != WEIR_OK)
    weir_machine_fail(machine, status);
  return machine_advance(machine, operations);
}

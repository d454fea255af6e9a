/* What becomes of a group whose way through the phases ends early, and of requests that are alone
 * in theirs: refunds and resets. */
#include "algorithm/failure.h"

#include "algorithm/decide.h"
#include "algorithm/expected.h"
#include "algorithm/method.h"

/* --- what an outcome means ---------------------------------------------------------------------
 */

/* A GET has changed nothing: one without an answer is as good as not sent. */
static weir_status failure_status(const weir_operation *operation) {
  switch (operation->outcome) {
    case WEIR_NOT_SENT:
      return WEIR_UNAVAILABLE;
    case WEIR_UNKNOWN:
      return operation->kind == WEIR_GET ? WEIR_UNAVAILABLE : WEIR_UNKNOWN_OUTCOME;
    case WEIR_REFUSED:
      return WEIR_REFUSED_BY_STORE;
    default: /* nothing that an operation may end in */
      return WEIR_BROKEN_BACKEND;
  }
}

weir_status weir_machine_failure(weir_machine *machine, const weir_operation *operation) {
  bool lost = operation->outcome == WEIR_NOT_SENT || operation->outcome == WEIR_UNKNOWN;
  if (operation->outcome == WEIR_REFUSED || (lost && !operation->late)) machine->away = true;
  return failure_status(operation);
}

weir_status weir_machine_when_late(const weir_machine *machine, weir_status status) {
  bool had_no_time = status == WEIR_UNAVAILABLE && !machine->away;
  if (status != WEIR_OK && !had_no_time) return status;
  for (size_t n = 0; n < machine->operation_count; n++)
    if (machine->operations[n].outcome == WEIR_UNKNOWN) return WEIR_TIMEOUT;
  return machine->pauses > 0 ? WEIR_CONTENDED : WEIR_TIMEOUT;
}

/* --- ending ------------------------------------------------------------------------------------
 */

void weir_machine_fail(weir_machine *machine, weir_status status) {
  for (weir_request_state *request = machine->requests; request != NULL; request = request->next) {
    if (request->settled) continue;
    request->settled = true;
    request->status = status;
    request->away = machine->away;
  }
  weir_expected_survive(machine);
  machine->notes->must_peek = true;
  machine->phase = WEIR_PHASE_DONE;
}

void weir_machine_settle_alone(weir_machine *machine, weir_status status) {
  machine->requests->settled = true;
  machine->requests->status = status;
  machine->phase = WEIR_PHASE_DONE;
}

/* --- a charge that is lost ---------------------------------------------------------------------
 */

void weir_machine_undo(weir_machine *machine, weir_status status) {
  machine->failure = status;
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_rule_state *rule_state = &machine->rule_states[i];
    rule_state->unused = rule_state->charged ? rule_state->charge : 0;
  }
  weir_machine_enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* Some of the charge cannot go back (an index in a log, a place that others wait behind), or others
 * kept it out. */
static bool failure_some_stays(const weir_machine *machine) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->rule_states[i].unused > 0) return true;
  return false;
}

void weir_machine_finish_undo(weir_machine *machine) {
  if (failure_some_stays(machine)) {
    weir_machine_fail(machine, WEIR_UNKNOWN_OUTCOME);
  } else if (machine->failure == WEIR_CONTENDED) {
    machine->failure = WEIR_OK;
    machine->pauses++;
    machine->phase = WEIR_PHASE_PAUSE;
  } else {
    weir_machine_fail(machine, machine->failure);
  }
}

void weir_machine_end_take_back(weir_machine *machine, weir_status status) {
  if (machine->requests->kind == WEIR_REFUND) {
    weir_machine_settle_refund(machine, status);
  } else if (machine->failure != WEIR_OK) {
    weir_machine_fail(machine, WEIR_UNKNOWN_OUTCOME);
  } else {
    weir_decide_denied(machine);
    machine->phase = WEIR_PHASE_DONE;
  }
}

/* --- refunds -----------------------------------------------------------------------------------
 */

/* Whether what goes back arrives or not, it is expected no more. */
void weir_machine_choose_refund(weir_machine *machine) {
  weir_request_state *request = machine->requests;
  for (size_t i = 0; i < machine->stack->count; i++) {
    int64_t cost = weir_request_cost(request, i);
    if (cost == 0 || machine->rule_states[i].method->refund(machine, i, request, cost)) continue;
    weir_machine_settle_alone(machine, WEIR_BAD_COST);
    return;
  }
  for (size_t i = 0; i < machine->stack->count; i++)
    weir_expected_change(machine, i, -machine->rule_states[i].unused);
  weir_machine_enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* What reached only some of its rules is not to be asked for again. */
void weir_machine_settle_refund(weir_machine *machine, weir_status status) {
  bool went_back = false;
  for (size_t i = 0; i < machine->stack->count; i++) {
    if (machine->rule_states[i].conflict && status == WEIR_OK) status = WEIR_CONTENDED;
    went_back = went_back || machine->rule_states[i].went_back;
  }
  if (status == WEIR_OK)
    weir_machine_settle_alone(machine, WEIR_OK);
  else
    weir_machine_fail(machine, went_back ? WEIR_UNKNOWN_OUTCOME : status);
}

/* Refunds: what was charged earlier goes back. A refund is alone in its group: it looks, chooses by
 * what it saw how much of its cost still stands under each rule, and takes that back. */
#include "algorithm/machine.h"
#include "algorithm/method.h"
#include "algorithm/plan.h"

/* Whether what goes back arrives or not, it is expected no more. */
void weir_refund_choose(weir_machine *machine) {
  const weir_request_state *request = machine->frame.requests;
  size_t count = machine->frame.stack->count;
  for (size_t i = 0; i < count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = weir_request_cost(request, i);
    if (cost == 0 || r->method->refund(r, request, cost)) continue;
    weir_machine_settle_alone(machine, WEIR_BAD_COST);
    return;
  }
  for (size_t i = 0; i < count; i++)
    weir_expect_change(&machine->rule_states[i], -machine->rule_states[i].unused);
  weir_machine_enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* What reached only some of its rules is not to be asked for again. */
void weir_refund_settle(weir_machine *machine, weir_status status) {
  bool went_back = false;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    if (machine->rule_states[i].conflict && status == WEIR_OK) status = WEIR_CONTENDED;
    went_back = went_back || machine->rule_states[i].went_back;
  }
  if (status == WEIR_OK)
    weir_machine_settle_alone(machine, WEIR_OK);
  else
    weir_machine_fail(machine, went_back ? WEIR_UNKNOWN_OUTCOME : status);
}

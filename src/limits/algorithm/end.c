/* The end of a group that cannot be decided: what an outcome without an answer means, and what the
 * requests are told. A leaf: it goes on to no phase. */
#include <string.h>

#include "algorithm/machine.h"
#include "algorithm/method.h"

/* A GET has changed nothing: one without an answer is as good as not sent. */
weir_status weir_machine_failure(weir_machine *machine, const weir_operation *operation) {
  weir_outcome outcome = operation->outcome;
  bool lost = outcome == WEIR_NOT_SENT || outcome == WEIR_UNKNOWN;
  if (outcome == WEIR_REFUSED || (lost && !operation->late)) machine->away = true;
  if (outcome == WEIR_REFUSED) return WEIR_REFUSED_BY_STORE;
  if (!lost) return WEIR_BROKEN_BACKEND; /* nothing that an operation may end in */
  return outcome == WEIR_NOT_SENT || operation->kind == WEIR_GET ? WEIR_UNAVAILABLE
                                                                 : WEIR_UNKNOWN_OUTCOME;
}

weir_status weir_machine_when_late(const weir_machine *machine, weir_status status) {
  bool had_no_time = status == WEIR_UNAVAILABLE && !machine->away;
  if (status != WEIR_OK && !had_no_time) return status;
  for (size_t n = 0; n < machine->frame.operation_count; n++)
    if (machine->frame.operations[n].outcome == WEIR_UNKNOWN) return WEIR_TIMEOUT;
  return machine->pauses > 0 ? WEIR_CONTENDED : WEIR_TIMEOUT;
}

/* The memo is believed no more, but for what is expected and that others swap the key. What was last
 * known stays readable for weir_memo_known(); after a reset, nothing does. */
void weir_machine_fail(weir_machine *machine, weir_status status) {
  weir_frame *frame = &machine->frame;
  weir_memo *memo = frame->memo;
  for (weir_request_state *request = frame->requests; request != NULL; request = request->next) {
    if (request->settled) continue;
    request->settled = true;
    request->status = status;
    request->away = machine->away;
  }
  if (frame->requests->kind == WEIR_RESET) {
    int64_t look_until_us = memo->look_until_us;
    memset(memo, 0, machine->memo_bytes);
    memo->look_until_us = look_until_us;
  } else {
    memo->denied_cost = memo->denied_at_us = memo->denied_until_us = 0;
    for (size_t i = 0; i < frame->stack->count; i++)
      machine->rule_states[i].method->forget(machine->rule_states[i].memory);
  }
  memo->must_peek = memo->unsure = true;
  frame->phase = WEIR_PHASE_DONE;
}

void weir_machine_settle_alone(weir_machine *machine, weir_status status) {
  machine->frame.requests->settled = true;
  machine->frame.requests->status = status;
  machine->frame.phase = WEIR_PHASE_DONE;
}

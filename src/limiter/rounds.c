/* Rounds: all operations that the machines of a call want next, of all keys and rules, leave in one
 * exec.
 *
 *     prepare ──> exec ──> absorb ──> again, until no machine wants more
 *
 * prepare and absorb never block; only exec talks to the store.
 */
#include "limiter/limiter.h"

static void prepare_group(weir_call *call, const weir_group *group, size_t *used) {
  const weir_limiter *limiter = call->limiter;
  for (size_t i = 0; i < group->machine->action_count; i++) {
    const weir_action *action = &group->machine->actions[i];
    const weir_key_front *front = &limiter->fronts[action->rule];
    char *text = call->key_texts[*used];
    size_t length = weir_key_counter(front->text, front->length, group->encoded,
                                     group->encoded_length, action->index, text);
    call->operations[(*used)++] = (weir_operation){
        .kind = action->kind,
        .key = text,
        .key_length = (uint16_t)length,
        .home_offset = (uint16_t)front->length,
        .home_length = (uint16_t)group->encoded_length,
        .delta = action->delta,
        .ttl_us = action->ttl_us,
    };
  }
}

static size_t prepare(weir_call *call) {
  size_t used = 0;
  for (size_t i = 0; i < call->group_count; i++)
    if (call->groups[i].turn == WEIR_TURN_EXECUTE) prepare_group(call, &call->groups[i], &used);
  return used;
}

static void absorb(weir_call *call) {
  const weir_operation *operation = call->operations;
  int64_t now_us = weir_limiter_now(call->limiter);
  bool late = weir_monotonic_us() > call->deadline_us;
  for (size_t i = 0; i < call->group_count; i++) {
    weir_group *group = &call->groups[i];
    if (group->turn != WEIR_TURN_EXECUTE) continue;
    for (size_t j = 0; j < group->machine->action_count; j++, operation++) {
      group->machine->actions[j].outcome = operation->outcome;
      group->machine->actions[j].value = operation->value;
    }
    group->turn = weir_machine_resume(group->machine, now_us, late);
  }
}

/* Only what gives back may use the reserve: a server that keeps silent must not spend the time in
 * which charges at the others go back. */
static int64_t round_end_us(const weir_call *call) {
  for (size_t i = 0; i < call->group_count; i++) {
    const weir_group *group = &call->groups[i];
    if (group->turn == WEIR_TURN_EXECUTE && group->machine->phase != WEIR_PHASE_TAKE_BACK)
      return call->charge_end_us;
  }
  return call->deadline_us;
}

/* In one exec, unless there is more than one takes: then one after another, which keeps the order.
 */
static void execute(weir_call *call, size_t count) {
  int64_t end_us = round_end_us(call);
  for (size_t at = 0; at < count; at += WEIR_OPERATIONS_MOST) {
    size_t part = count - at < WEIR_OPERATIONS_MOST ? count - at : WEIR_OPERATIONS_MOST;
    weir_message why = {.text[0] = '\0'};
    weir_store_exec(call->limiter->store, call->operations + at, part, end_us, &why);
    if (call->failure.text[0] == '\0' && why.text[0] != '\0') call->failure = why;
  }
}

void weir_rounds_run(weir_call *call) {
  call->failure.text[0] = '\0';
  for (size_t count; (count = prepare(call)) > 0; absorb(call))
    execute(call, count);
}

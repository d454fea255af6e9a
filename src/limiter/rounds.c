/* Rounds: all operations that the machines of a call want next, of all keys and rules, leave in one
 * exec.
 *
 *     prepare ──> exec ──> absorb ──> wake ──> again, until no machine wants more
 *                                      ^ groups that pause join later rounds; while all that are
 *                                        left pause, the call sleeps
 *
 * prepare and absorb never block; only exec talks to the store.
 */
#include <weir/backoff.h>

#include "limiter/limiter.h"

/* A pause after others were faster: at first about as long as a round trip on a local network, in
 * which they are done if there are few of them; then longer, as there are many, up to a tenth of
 * the default deadline. */
enum { PAUSE_BASE_US = 50, PAUSE_MOST_US = 2000 };

static const char place_marks[] = {
    [WEIR_PLACE_COUNT] = '\0', [WEIR_PLACE_OPEN] = 'o', [WEIR_PLACE_ENTRY] = '\0'};

static size_t write_key(const weir_call *call, const weir_group *group, const weir_action *action,
                        char *text) {
  const weir_key_front *front = &call->limiter->fronts[action->rule];
  return weir_key_counter(front->text, front->length, group->encoded, group->encoded_length,
                          place_marks[action->place], action->index,
                          action->place == WEIR_PLACE_ENTRY ? action->entry : 0, text);
}

static void prepare_group(weir_call *call, weir_group *group, size_t *used) {
  group->first_operation = *used;
  for (size_t i = 0; i < group->machine->action_count; i++) {
    const weir_action *action = &group->machine->actions[i];
    char *text = call->key_texts[*used];
    call->operations[(*used)++] = (weir_operation){
        .kind = action->kind,
        .refresh = action->refresh,
        .raised = action->raised,
        .key = text,
        .key_length = (uint16_t)write_key(call, group, action, text),
        .home_offset = (uint16_t)call->limiter->fronts[action->rule].length,
        .home_length = (uint16_t)group->encoded_length,
        .stake = action->stake,
        .delta = action->delta,
        .floor = action->floor,
        .ttl_us = action->ttl_us,
        .version = action->version,
        .value = action->value,
    };
  }
}

static bool gives_back(const weir_group *group) {
  return group->machine->phase == WEIR_PHASE_TAKE_BACK;
}

static void prepare_those(weir_call *call, bool that_give_back, size_t *used) {
  for (size_t i = 0; i < call->group_count; i++) {
    weir_group *group = &call->groups[i];
    if (group->turn == WEIR_TURN_EXECUTE && gives_back(group) == that_give_back)
      prepare_group(call, group, used);
  }
}

/* What gives back comes first: of `count` operations these are the first *giving. */
static size_t prepare(weir_call *call, size_t *giving) {
  size_t count = 0;
  prepare_those(call, true, &count);
  *giving = count;
  prepare_those(call, false, &count);
  return count;
}

static void resume(weir_group *group, int64_t now_us, bool late) {
  group->turn = weir_machine_resume(group->machine, now_us, late);
  if (group->turn != WEIR_TURN_PAUSE) return;
  group->wake_us =
      weir_monotonic_us() + weir_backoff_us(group->machine->pauses, PAUSE_BASE_US, PAUSE_MOST_US);
}

/* Hands the machine its outcomes; false when something was not sent. */
static bool hand_over(const weir_call *call, const weir_group *group) {
  const weir_operation *operation = &call->operations[group->first_operation];
  bool sent = true;
  for (size_t i = 0; i < group->machine->action_count; i++, operation++) {
    weir_action *action = &group->machine->actions[i];
    action->outcome = operation->outcome;
    action->late = operation->late;
    action->value = operation->value;
    action->version_out = operation->version_out;
    sent = sent && operation->outcome != WEIR_NOT_SENT;
  }
  return sent;
}

/* What was not sent when its time was over is late, not the store's fault. */
static void absorb(weir_call *call) {
  int64_t now_us = weir_limiter_now(call->limiter);
  call->monotonic_us = weir_monotonic_us();
  for (size_t i = 0; i < call->group_count; i++) {
    weir_group *group = &call->groups[i];
    if (group->turn != WEIR_TURN_EXECUTE) continue;
    bool sent = hand_over(call, group);
    int64_t end_us = sent || gives_back(group) ? call->deadline_us : call->charge_end_us;
    resume(group, now_us, call->monotonic_us >= end_us);
  }
}

/* In one exec, unless there is more than one takes: then one after another, which keeps the order.
 */
static void execute_part(weir_call *call, size_t from, size_t end, int64_t end_us) {
  for (size_t at = from; at < end; at += WEIR_OPERATIONS_MOST) {
    size_t part = end - at < WEIR_OPERATIONS_MOST ? end - at : WEIR_OPERATIONS_MOST;
    weir_message why = {.text[0] = '\0'};
    weir_store_exec(call->limiter->store, call->operations + at, part, end_us, &why);
    weir_counts_round_trip(call->limiter->counts);
    if (call->failure.text[0] == '\0' && why.text[0] != '\0') call->failure = why;
  }
}

static void give_up_part(weir_call *call, size_t from, size_t end) {
  for (size_t at = from; at < end; at++) {
    call->operations[at].outcome = WEIR_NOT_SENT;
    call->operations[at].late = true;
  }
  if (from < end && call->failure.text[0] == '\0')
    weir_message_set(&call->failure, "the time for reading and charging was over");
}

/* Only what gives back may use the reserve: a server that keeps silent must not spend the time in
 * which charges at the others go back. */
static void execute(weir_call *call, size_t giving, size_t count) {
  if (giving == count) {
    execute_part(call, 0, count, call->deadline_us);
  } else if (call->monotonic_us < call->charge_end_us) {
    execute_part(call, 0, count, call->charge_end_us);
  } else {
    execute_part(call, 0, giving, call->deadline_us);
    give_up_part(call, giving, count);
  }
}

/* Groups whose pause is over go on. One that would pause until there is no time left to charge has
 * had its last try. */
static void wake(weir_call *call) {
  for (size_t i = 0; i < call->group_count; i++) {
    weir_group *group = &call->groups[i];
    if (group->turn != WEIR_TURN_PAUSE) continue;
    bool late = group->wake_us >= call->charge_end_us || call->monotonic_us >= call->charge_end_us;
    if (late || call->monotonic_us >= group->wake_us)
      resume(group, weir_limiter_now(call->limiter), late);
  }
}

/* Sleeps until the first pause is over; false where nobody pauses. */
static bool sleep_through_pause(weir_call *call) {
  int64_t first_us = INT64_MAX;
  for (size_t i = 0; i < call->group_count; i++) {
    const weir_group *group = &call->groups[i];
    if (group->turn == WEIR_TURN_PAUSE && group->wake_us < first_us) first_us = group->wake_us;
  }
  if (first_us == INT64_MAX) return false;
  weir_sleep_until(first_us);
  call->monotonic_us = weir_monotonic_us();
  return true;
}

void weir_rounds_run(weir_call *call) {
  size_t giving;
  call->failure.text[0] = '\0';
  for (;;) {
    size_t count = prepare(call, &giving);
    if (count > 0) {
      execute(call, giving, count);
      absorb(call);
    } else if (!sleep_through_pause(call)) {
      return;
    }
    wake(call);
  }
}

/* A round: what calls have planned gets its names, and leaves in one exec.
 *
 * Each operation gets its key, those that give back come first, and what has no time left stays.
 * Calls of a list, one for each limiter, plan in memory of their own: what they send is copied to
 * one place, and the outcomes back. Only exec talks to the store.
 */
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter.h"

static const char place_marks[] = {
    [WEIR_PLACE_COUNT] = '\0', [WEIR_PLACE_OPEN] = 'o', [WEIR_PLACE_ENTRY] = '\0'};

/* --- one call ----------------------------------------------------------------------------------
 */

/* Moves all operations that give back before the others. Their answers being taken in, the other
 * array is free. */
static void order(weir_call *call) {
  weir_operation *next = call->answered + call->returning;
  memcpy(call->answered, call->planned, call->returning * sizeof *next);
  for (int giving = 1; giving >= 0; giving--) {
    for (size_t i = 0; i < call->group_count; i++) {
      weir_machine *machine = call->groups[i].machine;
      if (machine->operation_count == 0 || weir_group_gives_back(&call->groups[i]) != giving)
        continue;
      memcpy(next, machine->operations, machine->operation_count * sizeof *next);
      machine->operations = next;
      next += machine->operation_count;
    }
  }
  call->answered = call->planned;
  call->planned = next - call->planned_count;
}

/* Gives a key's operations their names: the counters' keys, or their identities where the store
 * takes these. `used` texts are in use. */
static inline void name_counters(weir_call *call, const weir_memo_entry *entry, const char *encoded,
                                 size_t encoded_length, weir_operation *operations, size_t count,
                                 size_t used) {
  bool by_identity = call->limiter->settings.traits & WEIR_TRAIT_IDENTITY;
  for (size_t n = 0; n < count; n++) {
    weir_operation *operation = &operations[n];
    const weir_counter *counter = &operation->counter;
    const weir_prefix *prefix = &call->limiter->prefixes[counter->rule];
    char *text = call->key_texts[used + n];
    if (by_identity) {
      weir_key_identify(entry->fingerprint, prefix->hash, counter->place, counter->index,
                        counter->entry, operation->identity);
      continue;
    }
    operation->key = text;
    operation->key_length = (uint16_t)weir_key_counter(prefix->text, prefix->length, encoded,
                                                       encoded_length, place_marks[counter->place],
                                                       counter->index, counter->entry, text);
    operation->home_offset = (uint16_t)prefix->length;
    operation->home_length = (uint16_t)encoded_length;
  }
}

/* What leases give back stands first. */
static void name_returns(weir_call *call) {
  size_t used = 0;
  for (size_t i = 0; i < call->return_count; i++) {
    const weir_return *back = &call->returns[i];
    name_counters(call, back->entry, back->entry->leased->key, back->entry->leased->key_length,
                  call->planned + used, back->operation_count, used);
    used += back->operation_count;
  }
}

/* Names what is planned. What gives back comes first.
 *
 * Only what gives back may use the reserve behind charge_end_us: a server that keeps silent must
 * not spend the time in which charges at the others go back. When that time has come, the rest is
 * not sent. */
static void prepare(weir_call *call) {
  size_t giving = call->returning;
  size_t used = giving;
  if (giving > 0) name_returns(call);
  for (size_t i = 0; i < call->group_count; i++) {
    const weir_group *group = &call->groups[i];
    if (weir_group_gives_back(group)) giving += group->machine->operation_count;
    name_counters(call, group->entry, group->encoded, group->encoded_length,
                  group->machine->operations, group->machine->operation_count, used);
    used += group->machine->operation_count;
  }
  if (giving > 0 && giving < used) order(call);
  call->giving = giving;
  call->sending = weir_call_is_out_of_time(call) ? giving : used;
}

/* In one exec, unless there is more than one takes: then one after another, which keeps the order.
 * The first failure is kept in *why, which may hold one already. Returns how many it took. */
static unsigned send(weir_store *store, weir_operation *operations, size_t count, int64_t end_us,
                     weir_message *why) {
  unsigned round_trips = 0;
  for (size_t at = 0; at < count; at += WEIR_OPERATIONS_MOST) {
    size_t part = count - at < WEIR_OPERATIONS_MOST ? count - at : WEIR_OPERATIONS_MOST;
    weir_store_exec(store, operations + at, part, end_us, why->text[0] == '\0' ? why : NULL);
    round_trips++;
  }
  return round_trips;
}

/* What could not leave has not been sent. */
static void leave_rest(weir_call *call) {
  if (call->sending == call->planned_count) return;
  for (size_t at = call->sending; at < call->planned_count; at++) {
    call->planned[at].outcome = WEIR_NOT_SENT;
    call->planned[at].late = true;
  }
  if (call->failure.text[0] == '\0')
    weir_message_set(&call->failure, "the time for reading and charging was over");
}

static void execute(weir_call *call) {
  const weir_call *head = call->head;
  bool charges = call->sending > call->giving;
  call->round_trips += send(call->limiter->store, call->planned, call->sending,
                            charges ? head->charge_end_us : head->deadline_us, &call->failure);
  leave_rest(call);
}

/* --- several -----------------------------------------------------------------------------------
 */

/* Room grows by doubling, so that lists of many lengths allocate a few times at first. False: there
 * is no memory. */
static bool make_joint_room(weir_call *call, size_t count) {
  size_t room = call->joint_room > 0 ? call->joint_room : 64;
  if (count <= call->joint_room) return true;
  while (room < count)
    room *= 2;
  weir_operation *joint = malloc(room * sizeof *joint);
  if (joint == NULL) return false;
  free(call->joint);
  call->joint = joint;
  call->joint_room = room;
  return true;
}

/* What gives back of all calls, and then the rest. There (out), or back again. */
static void copy(weir_call *first, weir_operation *joint, bool out) {
  for (int giving = 1; giving >= 0; giving--) {
    for (weir_call *call = first; call != NULL; call = call->also) {
      weir_operation *own = giving ? call->planned : call->planned + call->giving;
      size_t count = giving ? call->giving : call->sending - call->giving;
      if (count > 0) memcpy(out ? joint : own, out ? own : joint, count * sizeof *own);
      joint += count;
    }
  }
}

/* False: nothing was sent. Where nobody waits, and for one call alone, there is nothing to be saved
 * by leaving together; and there may be no memory for it. */
static bool execute_jointly(weir_call *first) {
  weir_message why = {""};
  bool charges = false;
  size_t senders = 0;
  size_t count = 0;
  weir_call *roomy = first;
  for (weir_call *call = first; call != NULL; call = call->also) {
    count += call->sending;
    senders += call->sending > 0;
    charges = charges || call->sending > call->giving;
    if (call->joint_room > roomy->joint_room) roomy = call;
  }
  if (first->limiter->settings.traits & WEIR_TRAIT_IMMEDIATE || senders < 2 ||
      !make_joint_room(roomy, count))
    return false;
  copy(first, roomy->joint, true);
  unsigned round_trips = send(first->limiter->store, roomy->joint, count,
                              charges ? first->charge_end_us : first->deadline_us, &why);
  copy(first, roomy->joint, false);
  for (weir_call *call = first; call != NULL; call = call->also) {
    if (call->sending > 0) call->round_trips += round_trips;
    if (call->sending > 0 && call->failure.text[0] == '\0') call->failure = why;
    leave_rest(call);
  }
  return true;
}

void weir_call_execute(weir_call *first) {
  for (weir_call *call = first; call != NULL; call = call->also)
    prepare(call);
  if (first->also != NULL && execute_jointly(first)) return;
  for (weir_call *call = first; call != NULL; call = call->also)
    execute(call);
}

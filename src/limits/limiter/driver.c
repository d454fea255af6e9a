/* The driver: the line of a key, and the groups that are taken off it. A request joins its key's line, leads
 * or waits, and leaves with an answer. The call that leads a key takes those who wait there as one group, has
 * the group's machine decide, tells everyone, and passes the lead on.
 *
 *     join ──> lead: take ──> name ──> send ──> absorb ──┬──────> finish
 *        └───> wait    ^                                 │
 *                      └──────────── wake <──────────────┘   others were faster: pause, another round
 *
 * A call drives all its groups at once, and so do the calls of one list: what their machines plan, for all
 * keys and rules and limiters, leaves in one exec. Calls of a list plan in memory of their own: what they send
 * is copied to one place, and the outcomes back.
 *
 * Whatever else can answer a request, or rides along with a group, is a stand-in (stand_in.h).
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm/machine.h"
#include "condition.h"
#include "limiter/limiter.h"
#include "limiter/record.h"

/* Polls before sleeping: the leader is usually a fraction of a round trip from done. */
enum { YIELDS_BEFORE_SLEEP = 3 };

/* --- joining -----------------------------------------------------------------------------------
 */

/* A request that no machine has, and no other thread knows of. */
static void fail(weir_waiting *request, weir_status status) {
  request->claim.verdict.answered = true;
  request->claim.verdict.status = status;
  if (request->call != NULL) weir_call_explain(request, status, "");
  atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_release);
}

/* The request stands in line, and leads where no thread does. A peek must not meet takes that are
 * half decided, as those of several rules can be. */
void weir_call_queue(const weir_limiter *limiter, weir_memo_entry *entry, weir_waiting *request) {
  bool peeks = request->claim.ask.kind == WEIR_PEEK && limiter->stack.count > 1;
  if (limiter->one_by_one || peeks) request->claim.ask.alone = true;
  request->entry = entry;
  request->shard = entry->shard;
  atomic_store_explicit(&request->standing,
                        entry->busy ? WEIR_STANDING_WAITING : WEIR_STANDING_LEADS,
                        memory_order_release);
  entry->busy = true;
  weir_memo_entry_append(entry, &request->claim);
}

void weir_call_join(weir_call **call, weir_limiter *limiter, weir_waiting *request,
                    weir_moment at) {
  weir_key key;
  if (weir_ask_is_decided(&request->claim.ask) &&
      weir_limiter_never(limiter, at.now_us, &request->claim)) {
    request->call = *call;
    atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_relaxed);
    return;
  }
  weir_limiter_find(limiter, &request->claim.ask, &key);
  weir_call_join_at(call, limiter, request, &key, at);
}

/* The first request of a call that waits at an entry; NULL: none does. */
static const weir_waiting *find_earlier(const weir_memo_entry *entry, const weir_call *call) {
  const weir_waiting *earlier = call != NULL ? weir_waiting_of(entry->first_waiting) : NULL;
  while (earlier != NULL && earlier->call != call)
    earlier = weir_waiting_of(earlier->claim.next);
  return earlier;
}

/* What is known is answered first, but not past an earlier request of the same call that waits for the key,
 * as they are decided in order. Most that are answered need no call. */
void weir_call_join_at(weir_call **call, weir_limiter *limiter, weir_waiting *request,
                       const weir_key *key, weir_moment at) {
  const weir_stand_in *known = limiter->known;
  request->call = *call;
  atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_relaxed);
  weir_memo_entry *entry = weir_limiter_lock_known(limiter, key);
  if (entry == NULL) {
    fail(request, WEIR_NO_MEMORY);
    return;
  }

  const weir_waiting *earlier = find_earlier(entry, request->call);
  weir_found found = WEIR_PASS;
  if (known->came != NULL) known->came(limiter, entry, &request->claim, at);
  if (earlier == NULL && weir_limiter_recall(limiter, entry, request, at)) found = WEIR_ANSWERED;
  if (found == WEIR_PASS && entry->stand_ins & WEIR_DIVERTS)
    found = limiter->other->divert(limiter, entry, request, earlier, at);

  if (found != WEIR_ANSWERED && request->call == NULL)
    request->call = *call = weir_call_acquire(limiter, 1);
  if (found != WEIR_ANSWERED && request->call == NULL)
    fail(request, WEIR_NO_MEMORY);
  else if (found == WEIR_PAST)
    fail(request, WEIR_UNAVAILABLE);
  else if (found == WEIR_PASS)
    weir_call_queue(limiter, entry, request);
  weir_lock_leave(&entry->shard->lock);
}

/* --- taking ------------------------------------------------------------------------------------
 */

/* What was given back beside a group is not what its memo says. */
static void doubt(const weir_limiter *limiter, weir_memo_entry *entry) {
  if (!entry->doubted) return;
  weir_memo_doubt_all(&limiter->stack, &limiter->settings, entry->memo);
  entry->doubted = false;
}

/* The entry of the pool of which a request names a tenant. What its memo has is what any tenant's group has read
 * of it; no request waits there. NULL: there is no memory for it, or the clock was set back meanwhile. */
static weir_memo_entry *lock_pool(weir_limiter *limiter, const weir_claim *request,
                                  unsigned clock_steps) {
  weir_key key;
  weir_key_read(limiter->store->secret, request->ask.key, request->ask.key_length, &key);
  weir_memo_entry *entry = weir_limiter_lock_known(limiter, &key);
  if (entry == NULL || entry->clock_steps == clock_steps) return entry;
  weir_lock_leave(&entry->shard->lock);
  return NULL;
}

/* Before a group starts: copies what is known of its pool to where its machine will work. */
static bool read_pool(weir_limiter *limiter, const weir_waiting *leader, unsigned clock_steps,
                      weir_group *group) {
  weir_memo_entry *pool = lock_pool(limiter, &leader->claim, clock_steps);
  if (pool == NULL) return false;
  memcpy(group->machine->frame.memo, pool->memo, group->machine->memo_bytes);
  weir_lock_leave(&pool->shard->lock);
  return true;
}

/* Behind it: what it has read spares other tenants' groups their reads. */
static void tell_pool(weir_limiter *limiter, const weir_group *group, unsigned clock_steps) {
  weir_memo_entry *pool = lock_pool(limiter, group->requests, clock_steps);
  if (pool == NULL) return;
  weir_memo_share(&limiter->stack, pool->memo, group->machine->frame.memo);
  weir_lock_leave(&pool->shard->lock);
}

/* The group's entry is locked. */
static void start(weir_call *call, weir_group *group) {
  weir_limiter *limiter = call->limiter;
  weir_round *round = &call->round;
  if (group->entry->stand_ins & WEIR_DIVERTS) limiter->other->wrap(call, group);
  group->turn = weir_machine_start(group->machine, group->starts_us, group->memo, group->requests,
                                   round->planned + round->planned_count);
  round->planned_count += group->machine->frame.operation_count;
}

/* Before it starts. False: all of it are answered, and the lead is passed on. */
static bool wrap(weir_call *call, weir_group *group) {
  const weir_stand_in *known = call->limiter->known;
  if (known->wrap != NULL) known->wrap(call, group);
  if (group->starts_us < group->not_before_us) group->starts_us = group->not_before_us;
  if (group->requests != NULL) return true;
  doubt(call->limiter, group->entry);
  if (!group->keeps_lead) weir_call_pass_lead(call, group->entry);
  return false;
}

int64_t weir_group_most(const weir_limiter *limiter, const weir_group *group,
                        const weir_claim *first) {
  if (group->machine->limited == NULL || limiter->stack.count_all) return limiter->group_most;
  return weir_machine_capacity(group->machine, group->entry->memo, first->ask.limit);
}

/* Where not all groups are bare: what a pool is known to hold (`shares`), its key's record, and what a stand-in
 * adds come first. */
__attribute__((noinline)) static void prepare_and_start(weir_call *call, weir_group *group,
                                                        bool shares) {
  const weir_limiter *limiter = call->limiter;
  if (shares) weir_memo_share(&limiter->stack, group->entry->memo, group->machine->frame.memo);
  if (limiter->limits_us > 0) group->reads = weir_record_seek(call, group);
  if (group->reads == WEIR_RECORD_FIRST) {
    weir_record_plan(call, group, true);
  } else if (wrap(call, group)) {
    start(call, group);
    if (group->reads == WEIR_RECORD_RIDES) weir_record_plan(call, group, false);
  } else {
    call->group_count--;
  }
}

/* Takes the next group off the key's line, the leader's own request first, and starts its machine.
 *
 * A group is stamped no earlier than any of its requests was made, and not with a time of before a
 * step of the clock that others have seen: then the clock is read again. */
static void take_group(weir_call *call, const weir_waiting *leader) {
  weir_limiter *limiter = call->limiter;
  weir_group *group = &call->groups[call->group_count++];
  weir_memo_entry *entry = leader->entry;
  group->entry = entry;
  const weir_stand_in *known = limiter->known;
  bool is_named = known->needs_text || !(limiter->settings.traits & WEIR_TRAIT_IDENTITY);
  group->encoded_length = is_named ? weir_call_encode(leader, group->encoded) : 0;
  unsigned before = 0;
  bool shares = false;
  if (limiter->shared) {
    before = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
    shares = read_pool(limiter, leader, before, group);
  }
  weir_lock_take(&entry->shard->lock);
  unsigned steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
  bool as_read = call->at.clock_steps == steps;
  if (entry->clock_steps != steps) weir_call_forget(limiter, entry);
  group->requests =
      weir_memo_entry_take_group(entry, weir_group_most(limiter, group, entry->first_waiting));
  for (weir_claim *request = group->requests; request != NULL; request = request->next) {
    weir_waiting *taken = weir_waiting_of(request);
    atomic_store_explicit(&taken->standing, WEIR_STANDING_TAKEN, memory_order_release);
    if (taken->call != call) as_read = false;
  }
  group->starts_us = as_read ? call->at.now_us : weir_limiter_now(limiter);
  group->not_before_us = 0;
  group->keeps_lead = false;
  group->memo = entry->memo;
  group->reads = WEIR_RECORD_KNOWN;
  if (limiter->bare_groups)
    start(call, group);
  else
    prepare_and_start(call, group, shares && before == steps);
  weir_lock_leave(&entry->shard->lock);
}

/* --- naming ------------------------------------------------------------------------------------
 */

/* Moves all operations that give back before the others. Their answers being taken in, the other
 * array is free. */
static void order(weir_call *call) {
  weir_round *round = &call->round;
  weir_operation *next = round->answered + round->beside;
  memcpy(round->answered, round->planned, round->beside * sizeof *next);
  for (int giving = 1; giving >= 0; giving--) {
    for (size_t i = 0; i < call->group_count; i++) {
      weir_machine *machine = call->groups[i].machine;
      bool gives = machine->frame.phase == WEIR_PHASE_TAKE_BACK;
      if (machine->frame.operation_count == 0 || gives != giving) continue;
      memcpy(next, machine->frame.operations, machine->frame.operation_count * sizeof *next);
      machine->frame.operations = next;
      next += machine->frame.operation_count;
    }
  }
  round->answered = round->planned;
  round->planned = next - round->planned_count;
}

void weir_call_name(const weir_limiter *limiter, const uint64_t fingerprint[2], const char *encoded,
                    size_t encoded_length, weir_operation *operations, size_t count,
                    char (*texts)[WEIR_COUNTER_KEY_MOST]) {
  static const char place_marks[] = {[WEIR_PLACE_COUNT] = '\0',
                                     [WEIR_PLACE_OPEN] = 'o',
                                     [WEIR_PLACE_ENTRY] = '\0',
                                     [WEIR_PLACE_TENANT] = 't',
                                     [WEIR_PLACE_LIMIT] = 'l'};
  if (limiter->settings.traits & WEIR_TRAIT_IDENTITY) {
    weir_limiter_identify(limiter, fingerprint, operations, count);
    return;
  }
  for (size_t n = 0; n < count; n++) {
    weir_operation *operation = &operations[n];
    const weir_counter *counter = &operation->counter;
    const weir_prefix *prefix = &limiter->prefixes[counter->rule];
    operation->key = texts[n];
    operation->key_length = (uint16_t)weir_key_counter(prefix->text, prefix->length, encoded,
                                                       encoded_length, place_marks[counter->place],
                                                       counter->index, counter->entry, texts[n]);
    operation->home_offset = (uint16_t)prefix->length;
    operation->home_length = (uint16_t)encoded_length;
  }
}

/* Names what is planned. What gives back comes first, and of that what stand-ins do.
 *
 * Only what gives back may use the reserve behind charge_end_us: a server that keeps silent must
 * not spend the time in which charges at the others go back. When that time has come, the rest is
 * not sent. */
static void prepare(weir_call *call) {
  weir_round *round = &call->round;
  size_t giving = round->beside;
  size_t used = round->beside;
  for (size_t i = 0; i < call->group_count; i++) {
    const weir_group *group = &call->groups[i];
    const weir_frame *frame = &group->machine->frame;
    if (frame->operation_count == 0) continue;
    if (frame->phase == WEIR_PHASE_TAKE_BACK) giving += frame->operation_count;
    weir_call_name(call->limiter, group->entry->fingerprint, group->encoded, group->encoded_length,
                   frame->operations, frame->operation_count, round->key_texts + used);
    used += frame->operation_count;
  }
  if (giving > 0 && giving < used) order(call);
  round->giving = giving;
  round->sending = weir_call_is_out_of_time(call) ? giving : used;
}

/* --- sending -----------------------------------------------------------------------------------
 */

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
  const weir_round *round = &call->round;
  for (size_t at = round->sending; at < round->planned_count; at++) {
    round->planned[at].outcome = WEIR_NOT_SENT;
    round->planned[at].late = round->planned[at].slow = true;
  }
  if (call->failure.text[0] == '\0')
    weir_message_set(&call->failure, "the time for reading and charging was over");
}

/* Room for what calls send together grows by doubling, so that lists of many lengths allocate a few
 * times at first. False: there is no memory. */
static bool make_joint_room(weir_round *round, size_t count) {
  size_t room = round->joint_room > 0 ? round->joint_room : 64;
  if (count <= round->joint_room) return true;
  while (room < count)
    room *= 2;
  weir_operation *joint = malloc(room * sizeof *joint);
  if (joint == NULL) return false;
  free(round->joint);
  round->joint = joint;
  round->joint_room = room;
  return true;
}

/* There (out), or back again. Returns where the next go. */
static weir_operation *copy(weir_operation *own, size_t count, weir_operation *joint, bool out) {
  memcpy(out ? joint : own, out ? own : joint, count * sizeof *own);
  return joint + count;
}

/* What gives back of all calls, and then the rest. Where looks come last, all goes back before any of it is looked
 * at again. */
static void copy_all(const weir_call *first, weir_operation *joint, bool out) {
  for (int looks = 0; looks <= 1; looks++) {
    for (const weir_call *call = first; call != NULL; call = call->also) {
      for (size_t n = 0; n < call->round.giving; n++) {
        weir_operation *own = &call->round.planned[n];
        bool is_last = first->looks_last && own->kind == WEIR_GET;
        if (is_last == looks) joint = copy(own, 1, joint, out);
      }
    }
  }
  for (const weir_call *call = first; call != NULL; call = call->also) {
    const weir_round *round = &call->round;
    joint = copy(round->planned + round->giving, round->sending - round->giving, joint, out);
  }
}

/* False: nothing was sent. Where exec waits for nothing, and for one call alone, leaving together
 * saves nothing; and there may be no memory for it. */
static bool send_jointly(weir_call *first) {
  if (first->limiter->settings.traits & WEIR_TRAIT_IMMEDIATE) return false;
  weir_message why = {""};
  bool charges = false;
  size_t senders = 0;
  size_t count = 0;
  weir_round *roomy = &first->round;
  for (weir_call *call = first; call != NULL; call = call->also) {
    count += call->round.sending;
    senders += call->round.sending > 0;
    charges = charges || call->round.sending > call->round.giving;
    if (call->round.joint_room > roomy->joint_room) roomy = &call->round;
  }
  if (senders < 2 || !make_joint_room(roomy, count)) return false;
  copy_all(first, roomy->joint, true);
  unsigned round_trips = send(first->limiter->store, roomy->joint, count,
                              charges ? first->charge_end_us : first->deadline_us, &why);
  copy_all(first, roomy->joint, false);
  for (weir_call *call = first; call != NULL; call = call->also) {
    if (call->round.sending > 0) call->work.round_trips += round_trips;
    if (call->round.sending > 0 && call->failure.text[0] == '\0') call->failure = why;
    if (call->round.sending < call->round.planned_count) leave_rest(call);
  }
  return true;
}

void weir_call_send(weir_call *first) {
  if (first->also != NULL && send_jointly(first)) return;
  for (weir_call *call = first; call != NULL; call = call->also) {
    const weir_round *round = &call->round;
    bool charges = round->sending > round->giving;
    call->work.round_trips +=
        send(call->limiter->store, round->planned, round->sending,
             charges ? first->charge_end_us : first->deadline_us, &call->failure);
    if (round->sending < round->planned_count) leave_rest(call);
  }
}

void weir_call_execute(weir_call *first) {
  for (weir_call *call = first; call != NULL; call = call->also)
    prepare(call);
  weir_call_send(first);
}

/* --- going on ----------------------------------------------------------------------------------
 */

/* A machine goes on, and plans its next round behind what others have planned. */
static inline void resume(weir_call *call, weir_group *group, int64_t now_us, bool late) {
  weir_round *round = &call->round;
  weir_machine *machine = group->machine;
  if (now_us < group->not_before_us) now_us = group->not_before_us;
  group->turn = weir_machine_resume(machine, now_us, late, round->planned + round->planned_count);
  round->planned_count += machine->frame.operation_count;
  if (group->turn != WEIR_TURN_PAUSE) return;
  if (call->head->deadline_us == INT64_MAX) weir_call_begin_deadline(call);
  group->wake_us = weir_call_pause_end_us(machine->pauses);
  call->pausing++;
}

/* A group of which all are answered leaves its call. */
static void leave(weir_group *group) {
  group->turn = WEIR_TURN_DONE;
  group->entry = NULL;
}

/* With the key's record. The entry is locked. */
static void start_known(weir_call *call, weir_group *group, int64_t now_us) {
  group->reads = WEIR_RECORD_KNOWN;
  group->starts_us = now_us;
  weir_record_apply(call, group);
  if (wrap(call, group))
    start(call, group);
  else
    leave(group);
}

/* One that charged while its key's record was read. */
static void resume_rode(weir_call *call, weir_group *group, int64_t now_us, bool late) {
  weir_shard *shard = group->entry->shard;
  resume(call, group, now_us, late);
  if (group->turn != WEIR_TURN_DONE || !weir_record_tell(call, group)) return;
  weir_lock_take(&shard->lock);
  start_known(call, group, now_us);
  weir_lock_leave(&shard->lock);
}

/* The record is there, or is not: the machine starts, or goes on where it was charged meanwhile. What may
 * not stay of that goes back as if it were late. */
__attribute__((cold, noinline)) static void resume_read(weir_call *call, weir_group *group,
                                                        int64_t now_us, bool late) {
  weir_memo_entry *entry = group->entry;
  weir_operation read;
  bool rode = group->reads == WEIR_RECORD_RIDES;
  if (group->reads >= WEIR_RECORD_RODE) {
    resume_rode(call, group, now_us, late);
    return;
  }
  weir_record_read found = weir_record_absorb(call, group, rode, &read);
  bool known = !late && found != WEIR_RECORD_NOT_READ;
  if (rode) {
    group->reads = found == WEIR_RECORD_BLOCKS  ? WEIR_RECORD_DENIES
                   : found == WEIR_RECORD_LIFTS ? WEIR_RECORD_SPARES
                                                : WEIR_RECORD_RODE;
    if (found == WEIR_RECORD_NOT_READ) weir_machine_failure(group->machine, &read);
    resume_rode(call, group, now_us, !known || group->reads != WEIR_RECORD_RODE);
    return;
  }
  group->reads = WEIR_RECORD_KNOWN;
  group->starts_us = now_us;
  weir_lock_take(&entry->shard->lock);
  if (known)
    start_known(call, group, now_us);
  else if (wrap(call, group))
    group->turn =
        weir_machine_refuse(group->machine, now_us, group->memo, group->requests, &read, late);
  else
    leave(group);
  weir_lock_leave(&entry->shard->lock);
}

static inline void go_on(weir_call *call, weir_group *group, int64_t now_us, bool late) {
  if (group->reads == WEIR_RECORD_KNOWN)
    resume(call, group, now_us, late);
  else
    resume_read(call, group, now_us, late);
}

/* Every machine takes its answers in and plans its next round, into the other array.
 *
 * What arrived after the deadline admits nothing, and what was not sent when its time was over is
 * late, not the store's fault. Where exec waits for nothing no deadline runs, and this thread alone
 * can have been held up between a stamp and its charge: the limiter's own clock shows for how long,
 * and no other process's clock differs from it by more than clocks may. */
static void absorb(weir_call *call) {
  weir_call *head = call->head;
  weir_limiter *limiter = call->limiter;
  weir_round *round = &call->round;
  weir_operation *answered = round->planned;
  bool immediate = limiter->settings.traits & WEIR_TRAIT_IMMEDIATE;
  int64_t now_us = weir_limiter_now(limiter);
  if (head->deadline_us != INT64_MAX) head->monotonic_us = weir_monotonic_us();
  round->planned = round->answered;
  round->answered = answered;
  round->planned_count = 0;
  for (size_t i = 0; i < call->group_count; i++) {
    weir_group *group = &call->groups[i];
    const weir_frame *frame = &group->machine->frame;
    if (group->turn != WEIR_TURN_EXECUTE) continue;
    int64_t end_us = head->deadline_us;
    bool is_timed = end_us != INT64_MAX && frame->phase != WEIR_PHASE_TAKE_BACK;
    for (size_t n = 0; is_timed && n < frame->operation_count; n++)
      if (frame->operations[n].outcome == WEIR_NOT_SENT) end_us = head->charge_end_us;
    bool held_up = immediate && now_us - frame->now_us >= limiter->deadline_us;
    bool late = held_up || head->monotonic_us >= end_us;
    go_on(call, group, now_us, late);
  }
}

/* Groups whose pause is over go on; one that would pause until there is no time left to charge has
 * had its last try. */
static void wake(weir_call *call) {
  const weir_call *head = call->head;
  for (size_t i = 0; i < call->group_count; i++) {
    weir_group *group = &call->groups[i];
    if (group->turn != WEIR_TURN_PAUSE) continue;
    bool late = group->wake_us >= head->charge_end_us || weir_call_is_out_of_time(call);
    if (!late && head->monotonic_us < group->wake_us) continue;
    call->pausing--;
    go_on(call, group, weir_limiter_now(call->limiter), late);
  }
}

/* While all that are left pause, the calls sleep. */
static void sleep_until_first(weir_call *first) {
  int64_t first_us = INT64_MAX;
  for (const weir_call *call = first; call != NULL; call = call->also) {
    for (size_t i = 0; i < call->group_count; i++) {
      const weir_group *group = &call->groups[i];
      if (group->turn == WEIR_TURN_PAUSE && group->wake_us < first_us) first_us = group->wake_us;
    }
  }
  weir_sleep_until(first_us);
  first->monotonic_us = weir_monotonic_us();
}

/* --- finishing ---------------------------------------------------------------------------------
 */

/* What was learnt stays with the key, unless the group began with nothing of that. */
static void keep(const weir_limiter *limiter, weir_group *group) {
  weir_memo_entry *entry = group->entry;
  weir_machine *machine = group->machine;
  weir_call_learn(&limiter->stack, entry->shard, machine, ++group->decided);
  if (group->memo != NULL) memcpy(entry->memo, machine->frame.memo, machine->memo_bytes);
  doubt(limiter, entry);
}

/* It may answer those who wait behind the group, up to the first that it does not answer: what comes after
 * that one is decided after it. */
static void answer_those_behind(weir_call *call, weir_memo_entry *entry) {
  if (entry->first_waiting == NULL || !(entry->stand_ins & WEIR_KNOWS)) return;
  weir_moment at = weir_limiter_moment(call->limiter);
  for (weir_claim *request = entry->first_waiting, *next; request != NULL; request = next) {
    next = request->next;
    if (!weir_limiter_recall(call->limiter, entry, weir_waiting_of(request), at)) break;
    weir_memo_entry_withdraw(entry, request);
    weir_call_finish(call, weir_waiting_of(request));
  }
}

/* Before another call leads the key, and before anyone is told. */
static void finish(weir_call *call, weir_group *group) {
  weir_limiter *limiter = call->limiter;
  weir_memo_entry *entry = group->entry;
  call->work.keys_lost += group->machine->frame.lost;
  weir_lock_take(&entry->shard->lock);
  if (entry->stand_ins & WEIR_DIVERTS) limiter->other->after(call, group);
  keep(limiter, group);
  limiter->known->after(call, group);
  answer_those_behind(call, entry);
  unsigned clock_steps = entry->clock_steps;
  weir_call_pass_lead(call, entry);
  weir_lock_leave(&entry->shard->lock);
  if (limiter->shared && group->requests != NULL) tell_pool(limiter, group, clock_steps);
  for (weir_claim *request = group->requests, *next; request != NULL; request = next) {
    next = request->next;
    if (request->ask.places != NULL && request->verdict.decision.source == WEIR_SOURCE_STORE)
      weir_machine_places(group->machine, request->ask.places);
    if (limiter->limits_us > 0) weir_record_end(limiter, group, request);
    weir_call_finish(call, weir_waiting_of(request));
  }
}

/* --- leading -----------------------------------------------------------------------------------
 */

/* Each call takes the groups whose keys it leads. */
static void take_groups(weir_call *first) {
  for (weir_call *call = first; call != NULL; call = call->also) {
    weir_call_clear(call);
    if (call->limiter->known->begin != NULL) call->limiter->known->begin(call);
    for (size_t i = 0; i < call->ask_count; i++) {
      const weir_waiting *request = &call->requests[i];
      if (atomic_load_explicit(&request->standing, memory_order_acquire) == WEIR_STANDING_LEADS)
        take_group(call, request);
    }
  }
}

/* A round of all that have planned something; where all that are left pause, until the first of them may go
 * on. False: all are decided. */
static bool run_round(weir_call *first) {
  bool has_planned = false;
  bool pauses = false;
  for (const weir_call *call = first; call != NULL; call = call->also) {
    has_planned = has_planned || call->round.planned_count > 0;
    pauses = pauses || call->pausing > 0;
  }
  if (has_planned)
    weir_call_execute(first);
  else if (pauses)
    sleep_until_first(first);
  return has_planned || pauses;
}

/* What a round has brought; and pauses that are over by now. */
static void take_round(weir_call *call) {
  if (call->round.beside > 0) call->limiter->known->absorb(call);
  if (call->round.planned_count > 0) absorb(call);
  if (call->pausing > 0) wake(call);
}

void weir_call_lead(weir_call *first) {
  take_groups(first);
  while (run_round(first)) {
    for (weir_call *call = first; call != NULL; call = call->also)
      take_round(call);
    if (first->behind_round != NULL) first->behind_round(first);
  }
  for (weir_call *call = first; call != NULL; call = call->also)
    for (size_t i = 0; i < call->group_count; i++)
      if (call->groups[i].entry != NULL) finish(call, &call->groups[i]);
  for (weir_call *call = first; call != NULL; call = call->also)
    if (call->limiter->known->led != NULL) call->limiter->known->led(call);
}

/* --- waiting -----------------------------------------------------------------------------------
 */

/* What the calls must do next: lead, wait (also for a group that was taken), or nothing more. To
 * lead comes before to wait: two calls that waited first could wait for each other. */
static weir_standing next_step(const weir_call *first) {
  weir_standing next = WEIR_STANDING_DONE;
  for (const weir_call *call = first; call != NULL; call = call->also) {
    for (size_t i = 0; i < call->ask_count; i++) {
      weir_standing standing =
          atomic_load_explicit(&call->requests[i].standing, memory_order_acquire);
      if (standing == WEIR_STANDING_LEADS) return WEIR_STANDING_LEADS;
      if (standing != WEIR_STANDING_DONE) next = WEIR_STANDING_WAITING;
    }
  }
  return next;
}

/* Out of time: a request that no group has taken leaves the line. Nothing was sent for these, and they
 * must not lead: their time would fail everyone behind them. The state is looked at again under the
 * lock, as a leader may have been faster. */
static void withdraw_all(weir_call *call) {
  for (size_t i = 0; i < call->ask_count; i++) {
    weir_waiting *request = &call->requests[i];
    if (atomic_load_explicit(&request->standing, memory_order_acquire) >= WEIR_STANDING_TAKEN)
      continue;
    weir_lock_take(&request->shard->lock);
    weir_standing standing = atomic_load_explicit(&request->standing, memory_order_acquire);
    if (standing < WEIR_STANDING_TAKEN) weir_memo_entry_withdraw(request->entry, &request->claim);
    if (standing == WEIR_STANDING_LEADS) weir_call_pass_lead(call, request->entry);
    weir_lock_leave(&request->shard->lock);
    if (standing >= WEIR_STANDING_TAKEN) continue;
    request->end_us = call->head->charge_end_us;
    fail(request, WEIR_TIMEOUT);
  }
}

/* Sleeps until another thread moved one of the requests, or until there is no time left to charge.
 * A group that was taken is settled by its leader's deadline, and must be waited for: the leader's
 * thread writes the results into these requests. */
static void wait_for_step(weir_call *first) {
  weir_waiter *waiter = first->waiter;
  int64_t end_us = first->charge_end_us;
  bool in_time = true;
  for (int i = 0; i < YIELDS_BEFORE_SLEEP && next_step(first) == WEIR_STANDING_WAITING; i++)
    sched_yield();
  pthread_mutex_lock(&waiter->mutex);
  for (unsigned seen = waiter->events;
       seen == waiter->events && in_time && next_step(first) == WEIR_STANDING_WAITING;)
    in_time = weir_condition_wait_until(&waiter->changed, &waiter->mutex, end_us);
  pthread_mutex_unlock(&waiter->mutex);
  if (in_time) return;

  for (weir_call *call = first; call != NULL; call = call->also)
    withdraw_all(call);
  pthread_mutex_lock(&waiter->mutex);
  while (next_step(first) != WEIR_STANDING_DONE)
    pthread_cond_wait(&waiter->changed, &waiter->mutex);
  pthread_mutex_unlock(&waiter->mutex);
}

/* What the calls did, and how long their requests waited, by readings of the clock that were needed
 * anyway: the call that led a request made the last one, perhaps before the request came. Requests of one
 * round waited as long, and are counted at once. */
static void count_work(weir_call *first) {
  bool waited = first->deadline_us != INT64_MAX;
  int64_t begin_us = first->deadline_us - first->limiter->deadline_us;
  for (weir_call *call = first; call != NULL; call = call->also) {
    for (size_t i = 0; waited && i < call->ask_count; i++) {
      int64_t end_us = call->requests[i].end_us;
      if (end_us == 0) continue;
      call->work.waits++;
      if (i + 1 < call->ask_count && call->requests[i + 1].end_us == end_us) continue;
      call->work.wait_us = end_us - begin_us;
      weir_counts_add_work(call->limiter->counts, &call->work);
      call->work = (weir_work){0};
    }
  }
}

/* Looks at the clocks again, and gives up what has no time left. */
static void look_at_clocks(weir_call *first) {
  if (first->deadline_us != INT64_MAX) first->monotonic_us = weir_monotonic_us();
  for (weir_call *call = first; call != NULL; call = call->also) {
    if (weir_call_is_out_of_time(call)) withdraw_all(call);
    call->at = weir_limiter_moment(call->limiter);
  }
}

/* A request that needs no store needs no deadline. A store in this process needs none either: absorb()
 * compares the age of the stamp. A call without time to charge must not lead: it would fail everyone behind
 * it. */
void weir_call_run(weir_call *first) {
  bool immediate = first->limiter->settings.traits & WEIR_TRAIT_IMMEDIATE;
  weir_standing next = next_step(first);
  if (next != WEIR_STANDING_DONE && !immediate && first->deadline_us == INT64_MAX)
    weir_call_begin_deadline(first);
  while (next != WEIR_STANDING_DONE) {
    if (next == WEIR_STANDING_LEADS) {
      weir_call_lead(first);
    } else {
      if (first->deadline_us == INT64_MAX) weir_call_begin_deadline(first);
      wait_for_step(first);
    }
    next = next_step(first);
    if (next == WEIR_STANDING_DONE) break;
    look_at_clocks(first);
    next = next_step(first);
  }
  count_work(first);
}

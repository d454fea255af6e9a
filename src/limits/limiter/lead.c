/* The way of a group: whoever leads a key takes those who wait there as one group, has the group's
 * machine decide, tells everyone, and passes the lead on.
 *
 *     take ──> prepare ──> execute ──> absorb ──┬──────> finish
 *                 ^                             │
 *                 └─────────── wake <───────────┘   others were faster: pause, then another round
 *
 * A call drives all its groups at once, and so do the calls of one list: what their machines plan,
 * for all keys and rules and limiters, leaves in one exec (rounds.c).
 */
#include <string.h>

#include <weir/backoff.h>

#include "limiter/limiter.h"

/* A pause after others were faster: at first about as long as a round trip on a local network, in
 * which they are done if there are few of them; then longer, as there are many, up to a tenth of
 * the default deadline. */
enum { PAUSE_BASE_US = 50, PAUSE_MOST_US = 2000 };

/* What so many groups have taught is handed over at once; at first, each time. */
enum { LESSONS = 8 };

/* --- taking ------------------------------------------------------------------------------------
 */

/* Takes the next group off the key's line, the leader's own request first, and starts its machine.
 *
 * A group is stamped no earlier than any of its requests was made, and not with a time of before a
 * step of the clock that others have seen: then the clock is read again. */
static void take_group(weir_call *call, const weir_request_state *leader) {
  weir_limiter *limiter = call->limiter;
  weir_group *group = &call->groups[call->group_count++];
  weir_memo_entry *entry = leader->entry;
  group->entry = entry;
  group->encoded_length = weir_key_encode(leader->key, leader->key_length, group->encoded);
  weir_shard_lock(entry->shard);
  unsigned steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
  bool as_read = call->at.clock_steps == steps;
  if (entry->clock_steps != steps) weir_call_forget(limiter, entry);
  group->requests = weir_memo_entry_take_group(entry, limiter->group_most);
  for (weir_request_state *request = group->requests; request != NULL; request = request->next) {
    atomic_store_explicit(&request->standing, WEIR_STANDING_TAKEN, memory_order_release);
    if (request->call != call) as_read = false;
  }
  int64_t now_us = as_read ? call->at.now_us : weir_limiter_now(limiter);
  if (limiter->leases) weir_leases_hold(call, group, now_us);
  if (group->requests != NULL) {
    if (entry->account != NULL) weir_outage_offer(limiter, group);
    group->turn = weir_machine_start(group->machine, now_us, entry->memo, group->requests,
                                     call->planned + call->planned_count);
    call->planned_count += group->machine->operation_count;
  } else { /* a lease was enough for all of them */
    call->group_count--;
    weir_call_pass_lead(call, entry);
  }
  weir_shard_unlock(entry->shard);
}

/* --- rounds ------------------------------------------------------------------------------------
 */

/* A machine goes on, and plans its next round behind what others have planned. */
static void resume(weir_call *call, weir_group *group, int64_t now_us, bool late) {
  weir_machine *machine = group->machine;
  group->turn = weir_machine_resume(machine, now_us, late, call->planned + call->planned_count);
  call->planned_count += machine->operation_count;
  if (group->turn != WEIR_TURN_PAUSE) return;
  if (call->head->deadline_us == INT64_MAX) weir_call_begin_deadline(call);
  group->wake_us =
      weir_monotonic_us() + weir_backoff_us(machine->pauses, PAUSE_BASE_US, PAUSE_MOST_US);
  call->pausing++;
}

/* Every machine takes its answers in and plans its next round, into the other array.
 *
 * What arrived after the deadline admits nobody, and what was not sent when its time was over is
 * late, not the store's fault. Where nobody waits in exec no deadline runs, and this thread alone
 * can have been held up between a stamp and its charge: the limiter's own clock shows for how long,
 * and no other process's clock differs from it by more than clocks may. */
static void absorb(weir_call *call) {
  weir_call *head = call->head;
  weir_limiter *limiter = call->limiter;
  weir_operation *answered = call->planned;
  bool immediate = limiter->settings.traits & WEIR_TRAIT_IMMEDIATE;
  int64_t now_us = weir_limiter_now(limiter);
  if (head->deadline_us != INT64_MAX) head->monotonic_us = weir_monotonic_us();
  call->planned = call->answered;
  call->answered = answered;
  call->planned_count = 0;
  for (size_t i = 0; i < call->group_count; i++) {
    weir_group *group = &call->groups[i];
    const weir_machine *machine = group->machine;
    if (group->turn != WEIR_TURN_EXECUTE) continue;
    int64_t end_us = head->deadline_us;
    for (size_t n = 0; n < machine->operation_count && !weir_group_gives_back(group); n++)
      if (machine->operations[n].outcome == WEIR_NOT_SENT) end_us = head->charge_end_us;
    bool held_up = immediate && now_us - machine->now_us >= limiter->deadline_us;
    resume(call, group, now_us, held_up || head->monotonic_us >= end_us);
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
    resume(call, group, weir_limiter_now(call->limiter), late);
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

static void notify(weir_call *call) {
  pthread_mutex_lock(&call->mutex);
  call->events++;
  if (call->sleeper != NULL) notify(call->sleeper);
  pthread_cond_signal(&call->changed);
  pthread_mutex_unlock(&call->mutex);
}

void weir_call_pass_lead(const weir_call *call, weir_memo_entry *entry) {
  weir_request_state *next = entry->first_waiting;
  entry->busy = next != NULL;
  if (next == NULL) return;
  weir_call *owner = next->call;
  atomic_store_explicit(&next->standing, WEIR_STANDING_LEADS, memory_order_release);
  if (owner != call) notify(owner);
}

/* A request has its answer, or the reason why not: what the store said, unless the store did all
 * that it was asked to. After the step to done its own thread may go on, and its memory be gone:
 * nothing of it is touched but its call, which outlives every use. */
void weir_call_finish(const weir_call *call, weir_request_state *request) {
  weir_call *owner = request->call;
  request->end_us = call->head->monotonic_us;
  if (request->status != WEIR_OK) {
    bool store_did_all = request->status == WEIR_CONTENDED || request->status == WEIR_BAD_COST;
    weir_call_explain(request, request->status, store_did_all ? "" : call->failure.text);
  }
  atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_release);
  if (owner != call) notify(owner);
}

/* What this group learned, or charged ahead, may answer those who wait behind it, up to the first
 * whom it does not: what comes after that one is decided after it. The entry is locked. */
static void answer_waiting(const weir_call *call, weir_memo_entry *entry) {
  weir_moment at = weir_limiter_moment(call->limiter);
  for (weir_request_state *request = entry->first_waiting, *next; request != NULL; request = next) {
    next = request->next;
    if (!weir_call_answer(call->limiter, entry, request, at)) break;
    weir_memo_entry_withdraw(entry, request);
    weir_call_finish(call, request);
  }
}

/* What was learnt stays with the key, before anybody else leads it and before anybody is told. */
static void finish(weir_call *call, weir_group *group) {
  weir_memo_entry *entry = group->entry;
  call->keys_lost += group->machine->lost;
  group->decided++;
  weir_shard_lock(entry->shard);
  if (entry->account != NULL) weir_outage_settle(call->limiter, group);
  if (group->decided < LESSONS || group->decided % LESSONS == 0)
    weir_shard_learn(entry->shard, group->machine->lessons, call->limiter->stack.count,
                     group->machine->now_us);
  memcpy(entry->memo, group->machine->notes, group->machine->memo_bytes);
  if (entry->leased != NULL)
    weir_leases_settle(call, group);
  else
    weir_table_show_denial(call->limiter->table, entry);
  bool knows = entry->leased != NULL || entry->memo->denied_cost != 0;
  if (knows && entry->first_waiting != NULL) answer_waiting(call, entry);
  weir_call_pass_lead(call, entry);
  weir_shard_unlock(entry->shard);
  for (weir_request_state *request = group->requests, *next; request != NULL; request = next) {
    next = request->next;
    weir_call_finish(call, request);
  }
}

void weir_call_give_back(weir_call *call) {
  weir_call_execute(call);
  weir_leases_absorb(call);
}

static void begin(weir_call *call) {
  call->group_count = call->planned_count = call->pausing = 0;
  call->failure.text[0] = '\0';
  if (call->returns != NULL) weir_leases_plan(call);
  for (size_t i = 0; i < call->ask_count; i++) {
    const weir_request_state *request = &call->requests[i];
    if (atomic_load_explicit(&request->standing, memory_order_acquire) == WEIR_STANDING_LEADS)
      take_group(call, request);
  }
}

static void go_on(weir_call *call) {
  if (call->returning > 0) weir_leases_absorb(call);
  if (call->planned_count > 0) absorb(call);
  if (call->pausing > 0) wake(call);
}

static bool has_planned(const weir_call *first) {
  for (const weir_call *call = first; call != NULL; call = call->also)
    if (call->planned_count > 0) return true;
  return false;
}

static bool is_pausing(const weir_call *first) {
  for (const weir_call *call = first; call != NULL; call = call->also)
    if (call->pausing > 0) return true;
  return false;
}

/* A round of all that have planned something; where all that are left pause, until the first of
 * them may go on. */
void weir_call_lead(weir_call *first) {
  for (weir_call *call = first; call != NULL; call = call->also)
    begin(call);
  for (;;) {
    if (has_planned(first))
      weir_call_execute(first);
    else if (is_pausing(first))
      sleep_until_first(first);
    else
      break;
    for (weir_call *call = first; call != NULL; call = call->also)
      go_on(call);
  }
  for (weir_call *call = first; call != NULL; call = call->also)
    for (size_t i = 0; i < call->group_count; i++)
      finish(call, &call->groups[i]);
}

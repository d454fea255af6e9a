#include "limiter/call.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "limiter/limiter.h"

/* Polls before sleeping: the leader is usually a fraction of a round trip from done. */
enum { YIELDS_BEFORE_SLEEP = 3 };

/* The part of a deadline that is kept for giving back. */
enum { RESERVE_DIVISOR = 4 };

static weir_member *member_of(weir_ask *ask) {
  return (weir_member *)ask; /* its first member */
}

static weir_member_state state_of(const weir_member *member) {
  return atomic_load_explicit(&member->state, memory_order_acquire);
}

static void set_state(weir_member *member, weir_member_state state) {
  atomic_store_explicit(&member->state, state, memory_order_release);
}

/* --- memory ------------------------------------------------------------------------------------
 */

static void free_room(weir_call *call) {
  for (size_t i = 0; call->groups != NULL && i < call->room; i++)
    free(call->groups[i].machine);
  free(call->members);
  free(call->groups);
  free(call->operations);
  free(call->key_texts);
  call->members = NULL;
  call->groups = NULL;
  call->operations = NULL;
  call->key_texts = NULL;
  call->room = 0;
}

static bool make_room(weir_call *call, size_t count) {
  const weir_limiter *limiter = call->limiter;
  size_t actions = count * weir_machine_actions_most(&limiter->stack);
  free_room(call);
  call->members = calloc(count, sizeof *call->members);
  call->groups = calloc(count, sizeof *call->groups);
  call->operations = calloc(actions, sizeof *call->operations);
  call->key_texts = calloc(actions, sizeof *call->key_texts);
  if (!call->members || !call->groups || !call->operations || !call->key_texts) return false;
  for (; call->room < count; call->room++) {
    void *memory = malloc(weir_machine_bytes(&limiter->stack));
    if (memory == NULL) return false;
    call->groups[call->room].machine = weir_machine_init(memory, &limiter->stack, &limiter->terms);
  }
  return true;
}

static weir_call *create_call(weir_limiter *limiter) {
  pthread_condattr_t monotonic;
  weir_call *call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  weir_counts_part(limiter->counts);
  call->limiter = limiter;
  if (pthread_condattr_init(&monotonic) != 0) goto no_attributes;
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC); /* a clock there is: cannot fail */
  if (pthread_cond_init(&call->changed, &monotonic) != 0) goto no_condition;
  if (pthread_mutex_init(&call->mutex, NULL) != 0) goto no_mutex;
  pthread_condattr_destroy(&monotonic);
  return call;

no_mutex:
  pthread_cond_destroy(&call->changed);
no_condition:
  pthread_condattr_destroy(&monotonic);
no_attributes:
  free(call);
  return NULL;
}

weir_call *weir_call_acquire(weir_limiter *limiter, size_t count) {
  weir_call *call = weir_idle_take(limiter->idle);
  if (call == NULL) call = create_call(limiter);
  if (call == NULL) return NULL;
  if (call->room < count && !make_room(call, count)) {
    free_room(call);
    weir_call_release(call); /* not destroyed: another thread may be about to notify it */
    return NULL;
  }
  call->member_count = 0;
  call->group_count = 0;
  call->explained = NULL;
  return call;
}

void weir_call_release(weir_call *call) {
  weir_idle_give(call->limiter->idle, call);
}

void weir_call_destroy(weir_call *call) {
  free_room(call);
  pthread_cond_destroy(&call->changed);
  pthread_mutex_destroy(&call->mutex);
  free(call);
}

void weir_call_add(weir_call *call, const void *key, size_t key_length, const weir_ask *ask) {
  weir_member *member = &call->members[call->member_count++];
  bool several_rules = call->limiter->stack.count > 1; /* a peek must not meet takes half decided */
  member->ask = *ask;
  member->call = call;
  member->key = key;
  member->key_length = key_length;
  set_state(member, WEIR_MEMBER_WAITING);
  if (call->limiter->one_by_one || (several_rules && ask->kind == WEIR_ASK_PEEK))
    member->ask.alone = true;
}

/* --- joining and leading -----------------------------------------------------------------------
 */

/* Whether this member's failure is what its caller is told, and not the one that stands. */
static bool explains_first(const weir_call *call, const weir_member *member, bool has_answer) {
  if (call->explained == NULL) return true;
  if (call->explained_has_answer != has_answer) return !has_answer;
  return member < call->explained;
}

/* Writes down why the store did not decide a member. */
static void explain(weir_member *member, weir_status status, const char *why) {
  weir_call *call = member->call;
  bool has_answer = weir_limiter_has_answer(call->limiter, &member->ask, status);
  pthread_mutex_lock(&call->mutex);
  if (explains_first(call, member, has_answer)) {
    weir_message_set(&call->explanation, "%s", why[0] != '\0' ? why : weir_status_text(status));
    call->explained = member;
    call->explained_has_answer = has_answer;
  }
  pthread_mutex_unlock(&call->mutex);
}

static void settle_with(weir_member *member, weir_status status) {
  member->ask.settled = true;
  member->ask.status = status;
  explain(member, status, "");
  set_state(member, WEIR_MEMBER_DONE);
}

/* A clock that was set back makes read times of before mean something else. Nobody may be working
 * on the memo. */
static void forget_if_clock_stepped(const weir_limiter *limiter, weir_entry *entry) {
  unsigned steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
  if (entry->clock_steps == steps) return;
  entry->clock_steps = steps;
  bool must_peek = entry->memo->must_peek;
  memset(entry->memo, 0, weir_memo_bytes(&limiter->stack));
  entry->memo->must_peek = must_peek;
}

static bool is_decided(weir_ask_kind kind) {
  return kind == WEIR_ASK_TAKE || kind == WEIR_ASK_PEEK;
}

/* Whether an earlier request of the same call waits for the same key, so that this one comes after
 * it. */
static bool waits_before(const weir_member *member) {
  for (weir_ask *ask = member->entry->first_waiting; ask != NULL; ask = ask->next)
    if (member_of(ask)->call == member->call) return true;
  return false;
}

/* Answers at once, or waits in line; leads where nobody does. */
static void join(weir_member *member, int64_t now_us) {
  weir_limiter *limiter = member->call->limiter;
  if (is_decided(member->ask.kind) && weir_settle_never(&limiter->stack, now_us, &member->ask)) {
    set_state(member, WEIR_MEMBER_DONE);
    return;
  }
  weir_entry *entry = weir_table_lock(limiter->table, member->key, member->key_length);
  if (entry == NULL) {
    settle_with(member, WEIR_NO_MEMORY);
    return;
  }
  member->entry = entry;
  member->shard = entry->shard;
  if (!entry->busy) forget_if_clock_stepped(limiter, entry);
  if (!waits_before(member) &&
      weir_settle_locally(&limiter->stack, &limiter->terms, entry->memo, now_us, &member->ask)) {
    set_state(member, WEIR_MEMBER_DONE);
  } else {
    weir_entry_append(entry, &member->ask);
    if (!entry->busy) set_state(member, WEIR_MEMBER_LEADS);
    entry->busy = true;
  }
  weir_shard_unlock(entry->shard);
}

/* A clock costs as much as everything else that is done for a request of a batch. */
static void read_now(weir_call *call) {
  weir_limiter *limiter = call->limiter;
  call->clock_steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
  call->now_us = weir_limiter_now(limiter);
}

/* When a group is decided: not before one of its requests was made, nor at a time of before a step
 * of the clock that others have seen. */
static int64_t stamp(const weir_call *call, const weir_group *group) {
  weir_limiter *limiter = call->limiter;
  if (atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed) != call->clock_steps)
    return weir_limiter_now(limiter);
  for (weir_ask *ask = group->asks; ask != NULL; ask = ask->next)
    if (member_of(ask)->call != call) return weir_limiter_now(limiter);
  return call->now_us;
}

/* Takes the next group off the key's list, the leader's own request first, and starts its machine.
 */
static void lead(weir_call *call, weir_member *leader) {
  weir_limiter *limiter = call->limiter;
  weir_group *group = &call->groups[call->group_count++];
  group->entry = leader->entry;
  group->encoded_length = weir_key_encode(leader->key, leader->key_length, group->encoded);
  weir_shard_lock(group->entry->shard);
  forget_if_clock_stepped(limiter, group->entry);
  group->asks = weir_entry_take_group(group->entry, limiter->group_most);
  for (weir_ask *ask = group->asks; ask != NULL; ask = ask->next)
    set_state(member_of(ask), WEIR_MEMBER_TAKEN);
  group->turn =
      weir_machine_start(group->machine, stamp(call, group), group->entry->memo, group->asks);
  weir_shard_unlock(group->entry->shard);
}

static void notify(weir_call *call) {
  pthread_mutex_lock(&call->mutex);
  call->events++;
  pthread_cond_signal(&call->changed);
  pthread_mutex_unlock(&call->mutex);
}

/* Passes the lead to the first who waits. The entry is locked. */
static void pass_lead(const weir_call *call, weir_entry *entry) {
  entry->busy = entry->first_waiting != NULL;
  if (!entry->busy) return;
  weir_member *next = member_of(entry->first_waiting);
  weir_call *next_call = next->call;
  set_state(next, WEIR_MEMBER_LEADS);
  if (next_call != call) notify(next_call);
}

/* What the store said, unless the store did all that it was asked to. */
static const char *reason_of(const weir_call *call, weir_status status) {
  return status == WEIR_CONTENDED || status == WEIR_BAD_COST ? "" : call->failure.text;
}

/* After the step to done the member's own thread may go on and reuse it: nothing of it is touched
 * but its call, which outlives every use. */
static void finish_ask(const weir_call *call, weir_ask *ask) {
  weir_member *member = member_of(ask);
  weir_call *owner = member->call;
  if (ask->status != WEIR_OK) explain(member, ask->status, reason_of(call, ask->status));
  set_state(member, WEIR_MEMBER_DONE);
  if (owner != call) notify(owner);
}

/* What this group learned may deny those who wait behind it, up to the first whom it does not: what
 * comes after that one is decided after it. The entry is locked. */
static void deny_waiting(const weir_call *call, weir_entry *entry) {
  weir_limiter *limiter = call->limiter;
  if (entry->first_waiting == NULL || entry->memo->denied_cost == 0) return;
  int64_t now_us = weir_limiter_now(limiter);
  for (weir_ask *ask = entry->first_waiting, *next; ask != NULL; ask = next) {
    next = ask->next;
    if (!weir_settle_locally(&limiter->stack, &limiter->terms, entry->memo, now_us, ask)) break;
    weir_entry_withdraw(entry, ask);
    finish_ask(call, ask);
  }
}

static void finish(weir_call *call, weir_group *group) {
  if (group->machine->lost > 0) weir_counts_lose(call->limiter->counts, group->machine->lost);
  weir_shard_lock(group->entry->shard);
  memcpy(group->entry->memo, group->machine->notes, weir_memo_bytes(&call->limiter->stack));
  deny_waiting(call, group->entry);
  pass_lead(call, group->entry);
  weir_shard_unlock(group->entry->shard);
  for (weir_ask *ask = group->asks; ask != NULL;) {
    weir_ask *next = ask->next;
    finish_ask(call, ask);
    ask = next;
  }
}

/* One set of groups, as far as this call leads any. */
static bool lead_all(weir_call *call) {
  call->group_count = 0;
  for (size_t i = 0; i < call->member_count; i++)
    if (state_of(&call->members[i]) == WEIR_MEMBER_LEADS) lead(call, &call->members[i]);
  if (call->group_count == 0) return false;
  weir_rounds_run(call);
  for (size_t i = 0; i < call->group_count; i++)
    finish(call, &call->groups[i]);
  return true;
}

/* --- waiting -----------------------------------------------------------------------------------
 */

static bool all_done(const weir_call *call) {
  for (size_t i = 0; i < call->member_count; i++)
    if (state_of(&call->members[i]) != WEIR_MEMBER_DONE) return false;
  return true;
}

/* Out of time: whoever has not been taken leaves the line. */
static void withdraw_all(weir_call *call) {
  for (size_t i = 0; i < call->member_count; i++) {
    weir_member *member = &call->members[i];
    if (state_of(member) >= WEIR_MEMBER_TAKEN) continue;
    weir_shard_lock(member->shard);
    weir_member_state state = state_of(member);
    if (state < WEIR_MEMBER_TAKEN) {
      weir_entry_withdraw(member->entry, &member->ask);
      if (state == WEIR_MEMBER_LEADS) pass_lead(call, member->entry);
    }
    weir_shard_unlock(member->shard);
    if (state >= WEIR_MEMBER_TAKEN) continue;
    settle_with(member, WEIR_TIMEOUT);
  }
}

static bool some_step(const weir_call *call) {
  for (size_t i = 0; i < call->member_count; i++)
    if (state_of(&call->members[i]) == WEIR_MEMBER_LEADS) return true;
  return all_done(call);
}

/* Sleeps until another thread moved one of the members, or until there is no time left to charge.
 * A group that was taken is settled by its leader's deadline. */
static void wait_for_step(weir_call *call) {
  for (int i = 0; i < YIELDS_BEFORE_SLEEP && !some_step(call); i++)
    sched_yield();
  struct timespec until = {.tv_sec = (time_t)(call->charge_end_us / 1000000),
                           .tv_nsec = (long)(call->charge_end_us % 1000000) * 1000};
  int error = 0;
  pthread_mutex_lock(&call->mutex);
  for (unsigned seen = call->events;
       seen == call->events && error != ETIMEDOUT && !some_step(call);)
    error = pthread_cond_timedwait(&call->changed, &call->mutex, &until);
  pthread_mutex_unlock(&call->mutex);
  if (error != ETIMEDOUT) return;
  withdraw_all(call);
  pthread_mutex_lock(&call->mutex);
  while (!all_done(call))
    pthread_cond_wait(&call->changed, &call->mutex);
  pthread_mutex_unlock(&call->mutex);
}

/* A call without time to charge must not lead: it would fail everyone behind it. */
static void look_at_clocks(weir_call *call) {
  call->monotonic_us = weir_monotonic_us();
  if (call->monotonic_us >= call->charge_end_us) withdraw_all(call);
  read_now(call);
}

/* What is charged is stamped after the deadline began: others rely on it that a charge arrives
 * within the deadline of its stamp, whatever held this thread up in between. */
static void begin_deadline(weir_call *call) {
  int64_t longest_us = call->limiter->deadline_us;
  call->monotonic_us = weir_monotonic_us();
  call->deadline_us = call->monotonic_us + longest_us;
  call->charge_end_us = call->deadline_us - longest_us / RESERVE_DIVISOR;
  read_now(call);
}

/* What is answered without the store needs no deadline. */
void weir_call_run(weir_call *call) {
  read_now(call);
  for (size_t i = 0; i < call->member_count; i++)
    join(&call->members[i], call->now_us);
  if (!all_done(call)) begin_deadline(call);
  while (!all_done(call)) {
    if (!lead_all(call)) wait_for_step(call);
    if (!all_done(call)) look_at_clocks(call);
  }
}

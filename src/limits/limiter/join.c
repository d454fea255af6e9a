/* The way of a request: it joins its key's line, leads or waits, and leaves with an answer. */
#include <sched.h>

#include "condition.h"
#include "limiter/limiter.h"

/* Polls before sleeping: the leader is usually a fraction of a round trip from done. */
enum { YIELDS_BEFORE_SLEEP = 3 };

/* --- joining -----------------------------------------------------------------------------------
 */

/* A request that no machine has, and no other thread knows of. */
static void fail(weir_request_state *request, weir_status status) {
  request->settled = true;
  request->status = status;
  if (request->call != NULL) weir_call_explain(request, status, "");
  atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_release);
}

/* The key's entry, locked, with what is known of it. NULL: no memory. */
static weir_memo_entry *lock_known(weir_limiter *limiter, const weir_key *key) {
  weir_memo_entry *entry = weir_table_lock(limiter->table, key);
  if (entry == NULL) return NULL;
  unsigned steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
  if (!entry->busy && entry->clock_steps != steps) weir_call_forget(limiter, entry);
  return entry;
}

/* The request stands in line, and leads where no thread does. A peek must not meet takes that are
 * half decided, as those of several rules can be. */
void weir_call_queue(const weir_limiter *limiter, weir_memo_entry *entry,
                     weir_request_state *request) {
  bool peeks = request->kind == WEIR_PEEK && limiter->stack.count > 1;
  if (limiter->one_by_one || peeks) request->alone = true;
  request->entry = entry;
  request->shard = entry->shard;
  atomic_store_explicit(&request->standing,
                        entry->busy ? WEIR_STANDING_WAITING : WEIR_STANDING_LEADS,
                        memory_order_release);
  entry->busy = true;
  weir_memo_entry_append(entry, request);
}

void weir_call_join(weir_call **call, weir_limiter *limiter, weir_request_state *request,
                    weir_moment at) {
  weir_key key;
  bool decided = request->kind == WEIR_TAKE || request->kind == WEIR_PEEK;
  if (decided && weir_settle_never(&limiter->stack, at.now_us, request)) {
    request->call = *call;
    atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_relaxed);
    return;
  }
  weir_key_read(limiter->store->secret, request->key, request->key_length, &key);
  weir_call_join_at(call, limiter, request, &key, at);
}

/* What is known is answered first: a denial that still holds from the key's memo, but not past an
 * earlier request of the same call that waits for the key, as they are decided in order; with leases,
 * from what was charged ahead; after an outage, from the key's account. All others stand in line.
 * With leases most requests need no call. */
void weir_call_join_at(weir_call **call, weir_limiter *limiter, weir_request_state *request,
                       const weir_key *key, weir_moment at) {
  if (!limiter->leases && *call == NULL) *call = weir_call_acquire(limiter, 1);
  request->call = *call;
  atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_relaxed);
  weir_memo_entry *entry = NULL;
  if (limiter->leases || request->call != NULL) entry = lock_known(limiter, key);
  if (entry == NULL) {
    fail(request, WEIR_NO_MEMORY);
    return;
  }

  const weir_request_state *earlier = request->call != NULL ? entry->first_waiting : NULL;
  while (earlier != NULL && earlier->call != request->call)
    earlier = earlier->next;
  if (limiter->leases) weir_leases_count(limiter, entry, request, at);
  bool answered = earlier == NULL && weir_call_answer(limiter, entry, request, at);
  bool goes_past = false;
  if (!answered && entry->account != NULL) {
    answered = weir_outage_withholds(limiter, entry, request, at.now_us);
    goes_past = weir_outage_goes_past(entry, request, earlier);
  }

  if (!answered && request->call == NULL) request->call = *call = weir_call_acquire(limiter, 1);
  if (!answered && request->call == NULL) {
    fail(request, WEIR_NO_MEMORY);
  } else if (!answered && goes_past) {
    request->away = request->unasked = true;
    fail(request, WEIR_UNAVAILABLE);
  } else if (!answered) {
    weir_call_queue(limiter, entry, request);
  }
  weir_lock_leave(&entry->shard->lock);
}

/* An account counts the requests that it answers: those are left to the call that joins. */
bool weir_call_know(weir_limiter *limiter, weir_request_state *request, weir_moment at) {
  weir_key key;
  if (weir_settle_never(&limiter->stack, at.now_us, request)) return true;
  weir_key_read(limiter->store->secret, request->key, request->key_length, &key);
  if (weir_call_answer_denied(limiter, &key, at, request)) return true;
  weir_memo_entry *entry = lock_known(limiter, &key);
  if (entry == NULL) return false;
  bool answered = weir_call_answer(limiter, entry, request, at);
  if (answered && limiter->leases) weir_leases_count(limiter, entry, request, at);
  weir_lock_leave(&entry->shard->lock);
  return answered;
}

/* A remembered denial, and whether the key's last was one. Where a group is under way, what was known
 * before it. */
bool weir_call_recall(weir_limiter *limiter, weir_request_state *request, weir_moment at,
                      bool *must_look) {
  const weir_stack *stack = &limiter->stack;
  *must_look = false;
  if (weir_settle_never(stack, at.now_us, request)) return true;
  weir_memo_entry *entry = weir_limiter_lock(limiter, request->key, request->key_length);
  if (entry == NULL) return false;
  unsigned steps = atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
  bool known = entry->clock_steps == steps;
  bool denied = known && (limiter->leases ? weir_leases_deny(limiter, entry, request, at.now_us)
                                          : weir_settle_locally(stack, &limiter->settings,
                                                                entry->memo, at.now_us, request));
  *must_look = entry->memo->must_peek && !stack->count_all;
  for (size_t i = 0; i < stack->count && !denied; i++) {
    weir_decision figures;
    int64_t room;
    if (weir_rule_keeps_counts(&stack->rules[i])) continue;
    bool read = known && stack->count == 1 && weir_rule_moves_in_time(&stack->rules[i]);
    if (!read || !weir_memo_recall(stack, &limiter->settings, entry->memo, i, at.now_us, request,
                                   request->charge, &room, &figures))
      *must_look = true;
  }
  weir_lock_leave(&entry->shard->lock);
  return denied;
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
    weir_request_state *request = &call->requests[i];
    if (atomic_load_explicit(&request->standing, memory_order_acquire) >= WEIR_STANDING_TAKEN)
      continue;
    weir_lock_take(&request->shard->lock);
    weir_standing standing = atomic_load_explicit(&request->standing, memory_order_acquire);
    if (standing < WEIR_STANDING_TAKEN) weir_memo_entry_withdraw(request->entry, request);
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
static void go_on(weir_call *first) {
  if (first->deadline_us != INT64_MAX) first->monotonic_us = weir_monotonic_us();
  for (weir_call *call = first; call != NULL; call = call->also) {
    if (weir_call_is_out_of_time(call)) withdraw_all(call);
    call->at = weir_limiter_moment(call->limiter);
  }
}

/* What is answered without the store needs no deadline, and neither does a store in which no
 * thread waits: lead.c then looks at the age of the stamp instead. A call without time to charge must not
 * lead: it would fail everyone behind it. */
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
    go_on(first);
    next = next_step(first);
  }
  count_work(first);
}

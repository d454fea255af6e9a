/* Lots on their way: refilled before requests need them, and given back when they have ended.
 *
 *     use, deny ── low ──> due ── pass ──> a group that only charges ahead ──> a lot like any other
 *
 * Requests tell which keys run out: a key that none asks for is not looked at. A refill leads its key like any
 * request, and those that came meanwhile are decided with it; where another leads already, that charges
 * ahead itself. All that are due leave in one exec, up to KEYS_AT_ONCE.
 *
 * What ended before it was used goes back in front of the next operations, of the same key or of another, or
 * when a limiter is told to.
 */
#include <string.h>

#include <weir/backend.h>
#include <weir/backoff.h>

#include "algorithm/method.h"
#include "algorithm/plan.h"
#include "algorithm/shared.h"
#include "limiter/lease.h"
#include "limiter/limiter.h"
#include "limiter/renew.h"

enum { KEYS_AT_ONCE = 64 };

/* After so many lives in which none was due, nothing that was charged ahead is left. */
enum { LIVES_IDLE = 2 };

/* --- refilling ---------------------------------------------------------------------------------
 */

/* Where another leads the key, that charges ahead. The entry is locked. */
static void join_refill(weir_call *call, weir_memo_entry *entry, char text[WEIR_ENCODED_MOST]) {
  const weir_leased *leased = entry->leased;
  if (entry->busy || leased->key_length == 0) return;
  memcpy(text, leased->key, leased->key_length);
  weir_waiting *refill = &call->batch[call->ask_count++];
  *refill = (weir_waiting){
      .claim.ask = {.kind = WEIR_REFILL, .key = text, .key_length = leased->key_length},
      .call = call};
  weir_call_queue(call->limiter, entry, refill);
}

/* The next that are due; 0: there are none. */
static size_t refill_some(weir_limiter *limiter, weir_call *call, weir_status *worst) {
  char texts[KEYS_AT_ONCE][WEIR_ENCODED_MOST];
  weir_memo_entry *entry = NULL;
  size_t looked = 0;
  pthread_mutex_lock(&limiter->renewer.refills);
  weir_call_begin(call, call->batch, 0, weir_limiter_moment(limiter));
  while (call->ask_count < KEYS_AT_ONCE &&
         (entry = weir_leased_take_due(&limiter->leased)) != NULL) {
    join_refill(call, entry, texts[call->ask_count]);
    weir_lock_leave(&entry->shard->lock);
    looked++;
  }
  if (call->ask_count > 0) weir_call_run(call);
  pthread_mutex_unlock(&limiter->renewer.refills);
  for (size_t n = 0; n < call->ask_count; n++)
    if (*worst == WEIR_OK) *worst = call->batch[n].claim.verdict.status;
  return looked;
}

weir_status weir_refill_due(weir_limiter *limiter, int64_t *next_us, weir_message *message) {
  weir_status status = WEIR_OK;
  atomic_store(&limiter->renewed_us, weir_monotonic_us());
  if (atomic_load(&limiter->leased.due.count) > 0) {
    weir_call *call = weir_call_acquire(limiter, KEYS_AT_ONCE);
    if (call == NULL) {
      *next_us = WEIR_RENEW_AGAIN_MOST_US;
      return weir_no_memory(message);
    }
    while (status == WEIR_OK && refill_some(limiter, call, &status) > 0)
      atomic_store(&limiter->refilled_us, weir_monotonic_us());
    if (status != WEIR_OK) weir_message_set(message, "%s", call->failure.text);
    weir_call_release(call);
  }
  int64_t since_us = weir_monotonic_us() - atomic_load(&limiter->refilled_us);
  int64_t most_us = LIVES_IDLE * limiter->lease.life_us;
  *next_us = since_us < most_us ? most_us - since_us : WEIR_NEVER;
  if (status != WEIR_OK)
    *next_us = WEIR_RENEW_AGAIN_LEAST_US +
               weir_backoff_us(0, WEIR_RENEW_AGAIN_MOST_US, WEIR_RENEW_AGAIN_MOST_US) / 2;
  return status;
}

/* --- giving back -------------------------------------------------------------------------------
 */

size_t weir_returns_room(const weir_limiter *limiter, size_t count, size_t *operations) {
  size_t returns = WEIR_RETURNS_OF_ONE * (count + WEIR_RETURNS_OF_OTHERS);
  *operations += returns * (limiter->shared ? WEIR_SHARED_RETURN : limiter->stack.count);
  return sizeof(weir_returns) + returns * sizeof(weir_return);
}

/* Plans what a key owes. It must not be led by anybody else meanwhile: the memo changes. */
static void plan_returns(weir_call *call, weir_memo_entry *entry, bool of_other) {
  weir_limiter *limiter = call->limiter;
  weir_round *round = &call->round;
  weir_returns *returns = call->own;
  weir_stock *stock = entry->leased->stock;
  for (int n = 0; n < WEIR_RETURNS_OF_ONE; n++) {
    weir_return *back = &returns->all[returns->count];
    weir_operation *operations = round->planned + round->beside;
    if (!weir_stock_take_owed(stock, &limiter->lease, &back->lot, back->places)) return;
    weir_lease_let_go(&limiter->lease, entry->memo, back->lot.left, back->places);
    back->entry = entry;
    back->of_other = of_other;
    back->operation_count = 0;
    for (size_t i = 0; i < limiter->stack.count; i++) {
      const weir_rule *rule = &limiter->stack.rules[i];
      weir_operation *operation = &operations[back->operation_count];
      *operation = (weir_operation){.kind = WEIR_SUB,
                                    .ttl_us = weir_method_ttl_us(rule, &limiter->settings),
                                    .counter = {.rule = (uint32_t)i, .place = WEIR_PLACE_COUNT}};
      if (!weir_rule_return(rule, back->places[i], back->lot.left, operation)) continue;
      back->operation_count++;
      if (!limiter->shared) continue;
      weir_shared_return(stock->tenant_number, stock->weight > 0, operation);
      back->operation_count++;
    }
    weir_call_name(limiter, entry->fingerprint, entry->leased->key, entry->leased->key_length,
                   operations, back->operation_count, round->key_texts + round->beside);
    round->beside += back->operation_count;
    round->planned_count = round->beside;
    returns->count++;
  }
}

/* Others' keys on another server would make this call wait for both. */
static bool same_server(const weir_call *call, const weir_memo_entry *entry,
                        const weir_waiting *leader) {
  const weir_store *store = call->limiter->store;
  char home[WEIR_ENCODED_MOST];
  size_t count = 1;
  const char *name;
  if (leader == NULL || !WEIR_BACKEND_HAS(store->backend, locate)) return true;
  size_t length = weir_call_encode(leader, home);
  size_t own = store->backend->locate(store->handle, home, length, &count, &name);
  return count == 1 || own == store->backend->locate(store->handle, entry->leased->key,
                                                     entry->leased->key_length, &count, &name);
}

/* Plans what `most` other keys owe: of the server that has the leader's key, or (NULL) of any. */
static void plan_others(weir_call *call, const weir_waiting *leader, weir_leased_look look,
                        size_t most) {
  weir_limiter *limiter = call->limiter;
  for (size_t n = 0; n < most; n++) {
    weir_memo_entry *entry = weir_leased_find_owing(&limiter->leased, call->at.now_us, look);
    if (entry == NULL) return;
    weir_shard *shard = entry->shard;
    if (weir_limiter_is_stale(limiter, entry)) {
      weir_leased_forget(&limiter->leased, entry->leased);
    } else if (same_server(call, entry, leader)) {
      entry->busy = true;
      plan_returns(call, entry, true);
    }
    weir_lock_leave(&shard->lock);
  }
}

/* Costs that differ by rule have no one lot. A settlement that is charged more, and that what is held does
 * not cover, must find its room in the store; of a shared window that is lent, and lots are not. */
static bool has_no_use(const weir_limiter *limiter, const weir_waiting *request) {
  bool up = false;
  for (size_t i = 0;
       !limiter->shared && request->claim.ask.kind == WEIR_SETTLE && i < limiter->stack.count; i++)
    up = up || request->claim.ask.costs[i] > 0;
  bool decided = weir_ask_is_decided(&request->claim.ask);
  return up || (decided && request->claim.ask.costs != NULL);
}

/* A request that leads and cannot use what the key holds: all of that is owed from now on, and goes back
 * before it is decided. Not where some rule is a bucket, to which nothing goes back. */
void weir_returns_plan(weir_call *call) {
  weir_limiter *limiter = call->limiter;
  const weir_waiting *leader = NULL;
  weir_returns *returns = call->own;
  returns->count = 0;
  returns->refills = false;
  for (size_t i = 0; i < call->ask_count; i++) {
    const weir_waiting *request = &call->requests[i];
    if (atomic_load_explicit(&request->standing, memory_order_acquire) != WEIR_STANDING_LEADS)
      continue;
    leader = request;
    weir_lock_take(&request->shard->lock);
    if (has_no_use(limiter, request) && !limiter->lease.drains)
      weir_stock_end(request->entry->leased->stock, &limiter->lease);
    if (!weir_limiter_is_stale(limiter, request->entry) &&
        weir_stock_owes(request->entry->leased->stock, &limiter->lease, call->at.now_us))
      plan_returns(call, request->entry, false);
    weir_lock_leave(&request->shard->lock);
  }
  if (leader == NULL) return;
  if (weir_leased_is_due(&limiter->leased, call->at.now_us))
    plan_others(call, leader, WEIR_LOOK_SOME, WEIR_RETURNS_OF_OTHERS);
  else if (atomic_load_explicit(&limiter->leased.given_up.count, memory_order_relaxed) > 0)
    plan_others(call, leader, WEIR_LOOK_GIVEN_UP, WEIR_RETURNS_OF_OTHERS);
}

/* Of two returns of a key both say so; the last passes the lead on. */
bool weir_returns_keep_lead(weir_call *call, const weir_memo_entry *entry) {
  weir_returns *returns = call->own;
  bool keeps = false;
  for (size_t i = 0; i < returns->count; i++) {
    if (returns->all[i].entry != entry) continue;
    returns->all[i].of_other = keeps = true;
  }
  return keeps;
}

/* What was not sent is owed again; what may have gone back is not: twice would admit too much. */
static void absorb_return(weir_call *call, const weir_return *back,
                          const weir_operation *operations) {
  weir_limiter *limiter = call->limiter;
  weir_returns *returns = call->own;
  size_t done = 0;
  size_t not_sent = 0;
  for (size_t n = 0; n < back->operation_count; n++) {
    weir_outcome outcome = operations[n].outcome;
    if (outcome == WEIR_DONE || outcome == WEIR_ABSENT) done++;
    if (outcome == WEIR_NOT_SENT) not_sent++;
  }
  if (done < back->operation_count && returns->status == WEIR_OK)
    returns->status = not_sent > 0 ? WEIR_UNAVAILABLE : WEIR_UNKNOWN_OUTCOME;
  if (done == back->operation_count)
    weir_counts_add_lease(limiter->counts, WEIR_LEASE_RETURNED, back->lot.left);
  else if (not_sent < back->operation_count)
    weir_counts_add_lease(limiter->counts, WEIR_LEASE_LOST, back->lot.left);
  else { /* the line may have let go of an entry that had nothing more */
    weir_stock_owe(back->entry->leased->stock, &limiter->lease, &back->lot, back->places);
    weir_table_hide_denial(limiter->table, back->entry);
    weir_leased_enter(&limiter->leased, back->entry);
  }
}

void weir_returns_absorb(weir_call *call) {
  weir_limiter *limiter = call->limiter;
  weir_returns *returns = call->own;
  const weir_operation *operations = call->round.planned;
  for (size_t i = 0; i < returns->count; i++) {
    const weir_return *back = &returns->all[i];
    weir_memo_entry *entry = back->entry;
    bool last = i + 1 == returns->count || returns->all[i + 1].entry != entry;
    weir_shard *shard = entry->shard;
    weir_lock_take(&shard->lock);
    absorb_return(call, back, operations);
    operations += back->operation_count;
    if (back->of_other && last) {
      weir_call_pass_lead(call, entry);
      weir_leased_let_go(&limiter->leased, entry->leased);
    }
    weir_lock_leave(&shard->lock);
  }
  returns->count = call->round.beside = 0;
}

enum { RETURNED_AT_ONCE = 32 };

static weir_status return_all(weir_limiter *limiter, weir_message *message) {
  weir_status status;
  weir_call *call = weir_call_acquire(limiter, RETURNED_AT_ONCE);
  if (call == NULL) return weir_no_memory(message);
  weir_returns *returns = call->own;
  returns->status = WEIR_OK;
  weir_call_begin_deadline(call);
  while (returns->status == WEIR_OK) {
    weir_call_clear(call);
    returns->count = 0;
    plan_others(call, NULL, WEIR_LOOK_END, RETURNED_AT_ONCE);
    if (call->round.beside == 0) break;
    weir_call_execute(call);
    weir_returns_absorb(call);
  }
  status = returns->status;
  if (status != WEIR_OK)
    weir_message_set(message, "%s",
                     call->failure.text[0] != '\0' ? call->failure.text : weir_status_text(status));
  weir_call_release(call);
  return status;
}

/* Behind refills that are on their way, whose answers would bring more; and none comes after it for what
 * requests of before have asked. */
weir_status weir_limiter_return_leases(weir_limiter *limiter, weir_message *message) {
  weir_memo_entry *entry;
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status == WEIR_OK && limiter->places != NULL) return weir_pay_return_spares(limiter, message);
  if (status != WEIR_OK || !limiter->leases) return status;
  if (limiter->refills) pthread_mutex_lock(&limiter->renewer.refills);
  while ((entry = weir_leased_take_due(&limiter->leased)) != NULL)
    weir_lock_leave(&entry->shard->lock);
  status = return_all(limiter, message);
  if (limiter->refills) pthread_mutex_unlock(&limiter->renewer.refills);
  return status;
}

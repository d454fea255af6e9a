/* Giving back what was charged ahead and not used: in front of the next operations, of the same key
 * or of another, or when a limiter is told to. */
#include <weir/backend.h>

#include "algorithm/method.h"
#include "limiter/limiter.h"

/* Plans what a key owes. It must not be led by anybody else meanwhile: the memo changes. */
static void plan_returns(weir_call *call, weir_memo_entry *entry, bool of_other) {
  weir_limiter *limiter = call->limiter;
  weir_purse *purse = entry->leased->purse;
  for (int n = 0; n < WEIR_RETURNS_OF_ONE; n++) {
    weir_return *back = &call->returns[call->return_count];
    if (!weir_purse_take_owed(purse, &limiter->lease, &back->lot, back->places)) return;
    weir_lease_let_go(&limiter->lease, entry->memo, back->lot.left, back->places);
    back->entry = entry;
    back->of_other = of_other && n == 0;
    back->operation_count = 0;
    for (size_t i = 0; i < limiter->stack.count; i++) {
      const weir_rule *rule = &limiter->stack.rules[i];
      weir_operation *operation = &call->planned[call->planned_count];
      *operation = (weir_operation){.kind = WEIR_SUB,
                                    .ttl_us = weir_method_ttl_us(rule, &limiter->settings),
                                    .counter = {.rule = (uint32_t)i, .place = WEIR_PLACE_COUNT}};
      if (!weir_lease_return(rule, back->places[i], back->lot.left, &operation->counter.index,
                             &operation->delta))
        continue;
      call->planned_count++;
      call->returning++;
      back->operation_count++;
    }
    call->return_count++;
  }
}

/* Others' keys on another server would make this call wait for both. */
static bool same_server(const weir_call *call, const weir_memo_entry *entry,
                        const weir_request_state *leader) {
  const weir_store *store = call->limiter->store;
  char home[WEIR_ENCODED_MOST];
  size_t count = 1;
  const char *name;
  if (leader == NULL || !WEIR_BACKEND_HAS(store->backend, locate)) return true;
  size_t length = weir_key_encode(leader->key, leader->key_length, home);
  size_t own = store->backend->locate(store->handle, home, length, &count, &name);
  return count == 1 || own == store->backend->locate(store->handle, entry->leased->key,
                                                     entry->leased->key_length, &count, &name);
}

/* `leader` is on whose server they must be; NULL: on any. */
static void plan_others(weir_call *call, const weir_request_state *leader, weir_leased_look look,
                        size_t most) {
  weir_limiter *limiter = call->limiter;
  for (size_t n = 0; n < most; n++) {
    weir_memo_entry *entry = weir_leased_find_owing(&limiter->leased, call->at.now_us, look);
    if (entry == NULL) return;
    weir_shard *shard = entry->shard;
    if (weir_leases_are_void(limiter, entry)) {
      weir_leased_forget(&limiter->leased, entry->leased);
    } else if (same_server(call, entry, leader)) {
      entry->busy = true;
      plan_returns(call, entry, true);
    }
    weir_shard_unlock(shard);
  }
}

void weir_leases_plan(weir_call *call) {
  weir_limiter *limiter = call->limiter;
  const weir_request_state *leader = NULL;
  call->return_count = call->returning = 0;
  for (size_t i = 0; i < call->ask_count; i++) {
    const weir_request_state *request = &call->requests[i];
    if (atomic_load_explicit(&request->standing, memory_order_acquire) != WEIR_STANDING_LEADS)
      continue;
    leader = request;
    weir_shard_lock(request->shard);
    weir_leases_make_way(limiter, request->entry, request);
    if (!weir_leases_are_void(limiter, request->entry) &&
        weir_purse_owes(request->entry->leased->purse, &limiter->lease, call->at.now_us))
      plan_returns(call, request->entry, false);
    weir_shard_unlock(request->shard);
  }
  if (leader == NULL) return;
  if (weir_leased_is_due(&limiter->leased, call->at.now_us))
    plan_others(call, leader, WEIR_LOOK_SOME, WEIR_RETURNS_OF_OTHERS);
  else if (atomic_load_explicit(&limiter->leased.given_up.count, memory_order_relaxed) > 0)
    plan_others(call, leader, WEIR_LOOK_GIVEN_UP, WEIR_RETURNS_OF_OTHERS);
}

/* What was not sent is owed again; what may have gone back is not: twice would admit too much. */
static void absorb_return(weir_call *call, const weir_return *back,
                          const weir_operation *operations) {
  weir_limiter *limiter = call->limiter;
  size_t done = 0;
  size_t not_sent = 0;
  for (size_t n = 0; n < back->operation_count; n++) {
    weir_outcome outcome = operations[n].outcome;
    if (outcome == WEIR_DONE || outcome == WEIR_ABSENT) done++;
    if (outcome == WEIR_NOT_SENT) not_sent++;
  }
  if (done < back->operation_count && call->returned == WEIR_OK)
    call->returned = not_sent > 0 ? WEIR_UNAVAILABLE : WEIR_UNKNOWN_OUTCOME;
  if (done == back->operation_count)
    weir_counts_add_lease(limiter->counts, WEIR_LEASE_RETURNED, back->lot.left);
  else if (not_sent < back->operation_count)
    weir_counts_add_lease(limiter->counts, WEIR_LEASE_LOST, back->lot.left);
  else { /* the line may have let go of an entry that had nothing more */
    weir_purse_owe(back->entry->leased->purse, &limiter->lease, &back->lot, back->places);
    weir_leased_enter(&limiter->leased, back->entry);
  }
}

void weir_leases_absorb(weir_call *call) {
  weir_limiter *limiter = call->limiter;
  const weir_operation *operations = call->planned;
  for (size_t i = 0; i < call->return_count; i++) {
    const weir_return *back = &call->returns[i];
    weir_memo_entry *entry = back->entry;
    bool last = i + 1 == call->return_count || call->returns[i + 1].entry != entry;
    weir_shard *shard = entry->shard;
    weir_shard_lock(shard);
    absorb_return(call, back, operations);
    operations += back->operation_count;
    bool of_other = back->of_other ||
                    (i > 0 && call->returns[i - 1].entry == entry && call->returns[i - 1].of_other);
    if (of_other && last) {
      weir_call_pass_lead(call, entry);
      weir_leased_let_go(&limiter->leased, entry->leased);
    }
    weir_shard_unlock(shard);
  }
  call->return_count = call->returning = 0;
}

weir_status weir_limiter_return_leases(weir_limiter *limiter, weir_message *message) {
  enum { KEYS_AT_ONCE = 32 };
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status != WEIR_OK || !limiter->leases) return status;
  weir_call *call = weir_call_acquire(limiter, KEYS_AT_ONCE);
  if (call == NULL) return weir_no_memory(message);
  call->returned = WEIR_OK;
  weir_call_begin_deadline(call);
  for (bool more = true; more && call->returned == WEIR_OK;) {
    call->group_count = call->planned_count = call->return_count = call->returning = 0;
    call->failure.text[0] = '\0';
    plan_others(call, NULL, WEIR_LOOK_END, KEYS_AT_ONCE);
    more = call->returning > 0;
    if (more) weir_call_give_back(call);
  }
  status = call->returned;
  if (status != WEIR_OK)
    weir_message_set(message, "%s",
                     call->failure.text[0] != '\0' ? call->failure.text : weir_status_text(status));
  weir_call_release(call);
  return status;
}

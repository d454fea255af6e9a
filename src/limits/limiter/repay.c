/* After an outage: what the policy LOCAL admitted without the store is paid to it, or given back.
 *
 *     the store is back: the first group of a key pays what its account owes, in front of its
 *     requests; and for a while a request also needs room in the account: the hold
 */
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter.h"

/* --- holding, and paying -----------------------------------------------------------------------
 */

bool weir_outage_withholds(weir_limiter *limiter, weir_memo_entry *entry,
                           weir_request_state *request, int64_t now_us) {
  weir_limiter *local = atomic_load_explicit(&limiter->local, memory_order_acquire);
  if (local == NULL) return false;
  const weir_inside inside = weir_outage_inside(limiter, local);
  weir_outage_roll(limiter, entry->account);
  return weir_continue_withholds(&inside, entry->account, request, entry->fingerprint[0], now_us);
}

void weir_outage_offer(weir_limiter *limiter, weir_group *group) {
  weir_account *account = group->entry->account;
  weir_outage_roll(limiter, account);
  if (!weir_continue_offer(&limiter->stack, account, group->requests, limiter->group_most,
                           &group->paid))
    return;
  memcpy(group->offered, group->paid.costs, sizeof group->offered);
  group->payment = (weir_request_state){.next = group->requests,
                                        .kind = WEIR_TAKE,
                                        .pays = true,
                                        .payment = &group->paid,
                                        .costs = group->paid.costs};
  group->requests = &group->payment;
}

static void settle_payment(weir_limiter *limiter, weir_group *group) {
  const weir_request_state *payment = &group->payment;
  int64_t paid, unpaid;
  if (group->requests != payment) return;
  group->requests = payment->next;
  if (!weir_continue_pay(&limiter->stack, group->entry->account, payment, group->offered, &paid,
                         &unpaid))
    return;
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_PAID, paid);
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, unpaid);
}

void weir_outage_settle(weir_limiter *limiter, weir_group *group) {
  weir_memo_entry *entry = group->entry;
  weir_limiter *local = atomic_load_explicit(&limiter->local, memory_order_acquire);
  const weir_inside inside = weir_outage_inside(limiter, local);
  int64_t dropped;
  settle_payment(limiter, group);
  bool over =
      weir_continue_settle(&inside, entry->account, entry->memo, group->requests, group->machine,
                           entry->fingerprint[0], limiter->deadline_us, &dropped);
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, dropped);
  if (!over) return;
  free(entry->account);
  entry->account = NULL;
}

/* --- giving back -------------------------------------------------------------------------------
 */

static bool take_off(weir_limiter *limiter, weir_limiter *local, weir_account *account,
                     const weir_request_state *request, bool owed, int64_t rest[WEIR_RULES_MOST],
                     int64_t *paid_us) {
  const weir_inside inside = weir_outage_inside(limiter, local);
  int64_t unpaid;
  weir_outage_roll(limiter, account);
  bool some = weir_continue_refund(&inside, account, request, owed, rest, paid_us, &unpaid);
  weir_counts_add_outage(limiter->counts, WEIR_OUTAGE_UNPAID, unpaid);
  return some;
}

/* Without an account all is over that it admitted, or another limiter did. */
weir_status weir_outage_refund(weir_limiter *limiter, const weir_request_state *request, bool owed,
                               weir_message *message) {
  int64_t rest[WEIR_RULES_MOST];
  int64_t paid_us = 0;
  uint64_t fingerprint[2];
  bool some = false;
  weir_limiter *local = atomic_load_explicit(&limiter->local, memory_order_acquire);
  weir_key_hash(limiter->store->secret, request->key, request->key_length, fingerprint);
  weir_memo_entry *entry = weir_table_lock(limiter->table, fingerprint);
  if (entry == NULL) return weir_no_memory(message);
  bool known = local != NULL && entry->account != NULL;
  if (known) some = take_off(limiter, local, entry->account, request, owed, rest, &paid_us);
  weir_shard_unlock(entry->shard);
  if (!known)
    return weir_account_may_matter(&limiter->stack, request->at_us, weir_limiter_now(limiter))
               ? WEIR_BAD_COST
               : WEIR_OK;
  weir_request_state back = *request;
  back.costs = rest;
  back.at_us = paid_us;
  back.ends = NULL;
  return some ? weir_limiter_answer(limiter, &back, message) : WEIR_OK;
}

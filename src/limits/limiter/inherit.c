/* Taking the place of another limiter, as after a change of its limits. What that one has measured of its
 * shares, and what it admitted while the store is away, goes on in this one:
 *
 *     limiter ── before ──> its pools    added to this one's own
 *                      ├──> a record     copied, while this one has read none
 *                      ├──> a memo       copied, with the share of its key, while this one has none
 *                      └──> an account   moved, with what it owes; what it counted is counted anew
 *
 * Key by key, when an outage asks for it: nothing of it is on the way of a request that the store
 * decides. Locks: an entry of this limiter, then `before_lock`, then entries of the other. Who is followed
 * follows nobody, so no two wait for each other.
 */
#include <string.h>

#include "limiter/account.h"
#include "limiter/limiter.h"
#include "limiter/record.h"

weir_status weir_limiter_follow(weir_limiter *limiter, weir_limiter *before,
                                weir_message *message) {
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status != WEIR_OK) return status;
  bool fits = before == NULL || (before != limiter && before->store == limiter->store &&
                                 before->stack.count == limiter->stack.count);
  for (size_t i = 0; fits && before != NULL && i < limiter->stack.count; i++)
    fits = strcmp(before->stack.rules[i].tag, limiter->stack.rules[i].tag) == 0;
  if (!fits) {
    weir_message_set(message,
                     "the limiter before: accepted is another one on the same store, whose rules "
                     "count on the same keys");
    return WEIR_BAD_ARGUMENT;
  }
  weir_lock_take(&limiter->before_lock);
  limiter->before = before;
  weir_lock_leave(&limiter->before_lock);
  if (before != NULL) (void)weir_limiter_follow(before, NULL, NULL);
  return WEIR_OK;
}

void weir_limiter_read_pools(weir_limiter *limiter, weir_pool pools[WEIR_RULES_MOST]) {
  weir_pool more[WEIR_RULES_MOST] = {{0}};
  weir_table_read_pools(limiter->table, pools);
  weir_lock_take(&limiter->before_lock);
  if (limiter->before != NULL) weir_table_read_pools(limiter->before->table, more);
  weir_lock_leave(&limiter->before_lock);
  for (size_t i = 0; i < limiter->stack.count; i++) {
    pools[i].mine += more[i].mine;
    pools[i].all += more[i].all;
    pools[i].cost += more[i].cost;
    pools[i].charges += more[i].charges;
  }
}

static void copy_memo(const weir_limiter *limiter, weir_memo_entry *entry,
                      const weir_memo_entry *old) {
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_expected *expected = &entry->memo->expected[i];
    if (expected->share.mine != 0 || expected->share.all != 0 || expected->amount != 0) return;
  }
  weir_memo_take_over(&limiter->stack, entry->memo, &limiter->before->stack, old->memo);
}

/* Has the limiter inside count what that of the other one has counted of this key. */
static bool count_anew(const weir_inside *inside, weir_limiter *old_local,
                       const weir_claim *request, int64_t now_us) {
  weir_known known[WEIR_RULES_MOST];
  weir_memo_entry *counted =
      weir_limiter_lock(old_local, request->ask.key, request->ask.key_length);
  if (counted == NULL) return false;
  const weir_view view = weir_limiter_view(old_local, counted->memo, now_us);
  for (size_t i = 0; i < inside->continued->count; i++) {
    weir_view_known(&view, i, &known[i]);
    for (size_t n = 0; n < known[i].count; n++)
      known[i].charges[n].amount /= old_local->stack.rules[i].parts;
  }
  weir_lock_leave(&counted->shard->lock);
  weir_claim first = {.ask = {.kind = WEIR_BEGIN_AFRESH,
                              .known = known,
                              .key = request->ask.key,
                              .key_length = request->ask.key_length}};
  return inside->settle(inside->owner, &first) == WEIR_OK;
}

static void move_account(const weir_stack *continued, const weir_stack *old_continued,
                         weir_memo_entry *entry, weir_memo_entry *old) {
  weir_account_place(entry, old->account);
  weir_account_place(old, NULL);
  for (size_t i = 0; i < continued->count; i++) {
    weir_account_part *part = &entry->account->parts[i];
    part->charged = part->charged / old_continued->rules[i].parts * continued->rules[i].parts;
    part->ahead = part->ahead / old_continued->rules[i].parts * continued->rules[i].parts;
  }
}

void weir_record_inherit(weir_limiter *limiter, weir_record *record, const weir_ask *ask) {
  weir_lock_take(&limiter->before_lock);
  weir_limiter *before = limiter->before;
  bool has_records = before != NULL && before->limits_us > 0 && before->steered == limiter->steered;
  weir_memo_entry *old = has_records ? weir_limiter_lock(before, ask->key, ask->key_length) : NULL;
  if (old != NULL) {
    *record = *weir_record_of(before, old);
    weir_lock_leave(&old->shard->lock);
  }
  weir_lock_leave(&limiter->before_lock);
}

/* One that is being decided there stays: a payment may be under way. */
void weir_account_inherit(weir_limiter *limiter, const weir_inside *inside, weir_memo_entry *entry,
                          const weir_claim *request, int64_t now_us) {
  if (entry->account != NULL) return;
  weir_lock_take(&limiter->before_lock);
  weir_limiter *before = limiter->before;
  weir_memo_entry *old =
      before != NULL ? weir_limiter_lock(before, request->ask.key, request->ask.key_length) : NULL;
  if (old != NULL) {
    weir_limiter *old_local = atomic_load_explicit(&before->local, memory_order_acquire);
    copy_memo(limiter, entry, old);
    if (old->account != NULL && old_local != NULL && !old->busy &&
        count_anew(inside, old_local, request, now_us))
      move_account(inside->continued, &old_local->stack, entry, old);
    weir_lock_leave(&old->shard->lock);
  }
  weir_lock_leave(&limiter->before_lock);
}

/* The answer where the store gave none, of a shared window: its part of the tenant's floor.
 *
 * There is no account: nothing is owed, as what is within floors has its room in each cell whether it is used
 * or not. So nothing is lent, and each process admits its own part of a tenant's floor. */
#include "limiter/floor.h"

#include <string.h>

#include "algorithm/shared.h"
#include "limiter/limiter.h"

/* Behind what leases keep. */
static weir_floor_used *floor_used(const weir_limiter *limiter, const weir_memo_entry *entry) {
  size_t before = weir_memo_bytes(&limiter->stack);
  if (limiter->leases) before += weir_leased_bytes(&limiter->stack);
  return (void *)((char *)entry->memo + before);
}

void weir_floor_answer(weir_limiter *limiter, const weir_ask *ask, weir_decision *decision) {
  const weir_rule *rule = &limiter->stack.rules[0];
  weir_key key;
  weir_rule limited = *rule;
  if (ask->limit != 0) weir_rule_set_limit(&limited, ask->limit);
  weir_limiter_find(limiter, ask, &key);
  weir_memo_entry *entry = weir_table_lock(limiter->table, &key);
  if (entry == NULL) return;
  weir_floor_used *used = floor_used(limiter, entry);
  const weir_pool none = {0};
  weir_floor_part part = {.whole = WEIR_SHARE_WHOLE};
  uint32_t secret;
  memcpy(&secret, limiter->store->secret, sizeof secret);
  part.phase = secret % WEIR_SHARE_WHOLE;
  part.share = weir_account_key_share(&entry->memo->expected[0].share, &none, limiter->peers);
  int64_t now_us = weir_limiter_now(limiter), cell = now_us / rule->cell_us;
  if (used->cell != cell) *used = (weir_floor_used){.cell = cell};
  int64_t left = weir_floor_away(&limited, ask, weir_memo_own(&limiter->stack, entry->memo, 0),
                                 now_us, &part) -
                 used->cost;
  int64_t cost = ask->costs != NULL ? ask->costs[0] : ask->cost;
  if (ask->up_to && left > 0 && left < cost) cost = left;
  decision->allowed = cost <= left;
  decision->remaining = left > 0 ? left : 0;
  if (decision->allowed) {
    used->cost += cost;
    decision->remaining -= cost;
    decision->retry_after_us = 0;
    decision->reset_after_us = (cell + 1) * rule->cell_us - now_us;
    if (ask->costs == NULL) decision->cost = cost;
  }
  weir_lock_leave(&entry->shard->lock);
}

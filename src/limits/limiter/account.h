/* The account of a key whose store does not answer: what account.c and inherit.c share. All want the entry's
 * shard locked, but where they say so. */
#ifndef WEIR_LIMITER_ACCOUNT_H
#define WEIR_LIMITER_ACCOUNT_H

#include "limiter/call.h"

/* Gives the key this account, or none, which the caller has freed or given another; and says so in the
 * entry's bits. */
static inline void weir_account_place(weir_memo_entry *entry, weir_account *account) {
  entry->account = account;
  weir_memo_entry_mark(entry, WEIR_DIVERTS, account != NULL);
}

/* Where the limiter takes another's place, and has no account of the entry's key: the other's, and what
 * that knows of the key. */
void weir_account_inherit(struct weir_limiter *limiter, const weir_inside *inside,
                          weir_memo_entry *entry, const weir_claim *request, int64_t now_us);

/* What groups have taught, those of the limiter before among them. No entry is locked. */
void weir_limiter_read_pools(struct weir_limiter *limiter, weir_pool pools[WEIR_RULES_MOST]);

#endif

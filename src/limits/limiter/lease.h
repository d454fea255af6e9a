/* Lots of a limiter whose rules have a lease: what its stand-in (lease.c) and those who refill and give back
 * (refill.c) share. Those that take an entry, or a group's, want its shard locked. */
#ifndef WEIR_LIMITER_LEASE_H
#define WEIR_LIMITER_LEASE_H

#include "limiter/call.h"
#include "memo/lease.h"

/* What one key gives back of its lease, in the first round. */
typedef struct weir_return {
  weir_memo_entry *entry; /* busy meanwhile */
  bool of_other; /* no group of ours leads its key: its lead is passed on behind the answer */
  size_t operation_count; /* one for each rule that takes back */
  weir_lot lot;
  int64_t places[WEIR_RULES_MOST];
} weir_return;

/* The first round also gives back lots of four other keys. It gives back two lots of one key. */
enum { WEIR_RETURNS_OF_OTHERS = 4, WEIR_RETURNS_OF_ONE = 2 };

/* What a call keeps for leases. */
typedef struct weir_returns {
  bool refills;       /* some key is worth it */
  weir_status status; /* WEIR_OK, or why something did not go back */
  size_t count;
  weir_return all[];
} weir_returns;

/* Whether what a request was charged may be a lot. */
bool weir_claim_has_lot(const weir_claim *request);

/* What such a request was admitted for is held again: charged at its time, to its places. False: the store has to
 * give it back. Locks the key's entry. */
bool weir_leases_return(struct weir_limiter *limiter, const weir_claim *request);

/* Whether what the key holds covers a settlement of one cost for all rules, charged at at_us: above 0 it
 * is used, below 0 it is put back. Locks the key's entry. */
bool weir_leases_cover(struct weir_limiter *limiter, const weir_claim *request, int64_t cost);

/* What a limiter that reads records keeps with each shard of its table: what lease= means under the limit
 * that keys have whose limit was asked for last. */
typedef struct weir_key_lease {
  int64_t limit; /* 0: none was asked for */
  weir_lease lease;
  weir_stack stack; /* last: there is room for as many rules as it has */
} weir_key_lease;
size_t weir_key_lease_bytes(const weir_stack *stack);

/* --- giving back (refill.c) --------------------------------------------------------------------
 */

/* What the stand-in's `room` says. */
size_t weir_returns_room(const struct weir_limiter *limiter, size_t count, size_t *operations);

/* Plans what the keys that this call leads owe, and now and then what a few others do. */
void weir_returns_plan(weir_call *call);

/* Takes in the answers to what was given back, behind the first exec. */
void weir_returns_absorb(weir_call *call);

/* Whether something of the key is on its way back, when the call has no group of it to lead any more. Then
 * its entry stays busy, as others' do: it is given up no sooner than it has the answer. */
bool weir_returns_keep_lead(weir_call *call, const weir_memo_entry *entry);

#endif

/* The account: what a process admits of a key while the store does not decide.
 *
 *     the store    20 of 100 left ──┐
 *     f = 1/4      this process's share of what is left: 5 ── admitted: owed ──> paid, when the
 *                                                                                store is back
 *
 * It admits a share f of what was left, by the same kind of rule, in which each cost counts as
 * cost / f: as if all others went on as they did. f was measured while the store decided
 * (algorithm/plan.h), and stands still until the hold is over. So however many processes there
 * are, all together admit on average what was left, and no more: docs/guarantees.md, "Outages".
 *
 * The first admission of a period counts as (1 - u) cost / f. u is drawn once for a process, key and
 * period, as f times what is left is seldom whole: so a share below one request is a chance.
 *
 *     away ── begin ──> admit, owe ── the store answers ──> pay; hold the share ── over ──> gone
 *
 * Hold: the first process that returns leaves room for the others, which still have to pay. So it goes
 * on to hold its share, beside the store's answer, as long as the policy answered, 500 ms at the most; a
 * second after a long outage, as pauses between probes are long then, and one of others may be missed.
 * Not where the store was only slow, and has got all that was admitted: what it says counts that.
 *
 * Plain arithmetic on a struct, which its owner locks with the key's entry. Times are those of the
 * limiter's clock. */
#ifndef WEIR_MEMO_ACCOUNT_H
#define WEIR_MEMO_ACCOUNT_H

#include "algorithm/algorithm.h"

/* Shares and chances are counted in millionths. */
enum { WEIR_SHARE_WHOLE = 1000000 };

/* What a process's charges of one rule were, over many keys; in the rule's own units. */
typedef struct weir_pool {
  int64_t mine, all; /* as in weir_share */
  int64_t cost;      /* of all own charges, ... */
  int64_t charges;   /* ... and how many they were; 0: this process has not met its store */
} weir_pool;

/* What one rule admitted without the store. */
typedef struct weir_account_part {
  uint32_t share;   /* f; 1 at least */
  bool begun;       /* something was admitted since the outage began, ... */
  bool opened;      /* ... and in this period: its u is used */
  bool open;        /* of a quota: its window is */
  int64_t begin_us; /* of this period */
  int64_t charged;  /* in it, weighed, in parts; ... */
  int64_t ahead;    /* ... of that, what is held in the next one as well */
  int64_t owed;     /* cost: admitted, certainly not in the store, and not paid */
  int64_t owed_us;  /* when the last of it was admitted */
  int64_t old;      /* of what is owed: admitted before the rest of it, ... */
  int64_t old_us;   /* ... the last of that then, ... */
  int64_t young_us; /* ... and the first of the rest then */
  int64_t paid;     /* of this period, by the last payment */
} weir_account_part;

typedef struct weir_account {
  int64_t began_us;      /* the first answer of the policy */
  int64_t hold_until_us; /* 0: the store has not answered since the last */
  int64_t paid_us;       /* the stamp of the last payment that the store confirmed */
  bool away;             /* the last answer of the policy was for a store that is away */
  bool will_hold; /* for one of them since it began others may owe, too: they may be missing */
  bool met;       /* this process had two answers of the store before: shares rest on those */
  weir_account_part parts[];
} weir_account;

/* How many processes share the rules. That counts where nothing is known; told, it is also what a
 * process goes by under a key that it has not seen: so a key that comes to others than it came to
 * is not all of each. */
typedef struct weir_peers {
  uint32_t count;
  bool are_told;
} weir_peers;

/* The share of a process that has this pool, and of a key of its. */
uint32_t weir_account_process_share(const weir_pool *pool, uint32_t peers);
uint32_t weir_account_key_share(const weir_share *share, const weir_pool *pool, weir_peers peers);

/* What all have where this share of it is `own`: 2^53 at the most. */
int64_t weir_account_whole(int64_t own, uint32_t share);

/* An empty one. NULL: no memory. Freed with free(). */
weir_account *weir_account_create(const weir_stack *stack);

/* An outage begins for the key: what is known of it, and the share of each rule. What is owed of
 * the one before stays so. */
void weir_account_begin(weir_account *account, const weir_stack *stack, const weir_known *known,
                        const uint32_t *shares, int64_t now_us);

/* Periods that are over are left. Returns the cost that was owed in them: it is paid no more. In a
 * period that begins anywhere, what is owed ages in two halves, as one that lasts has no end of its
 * own: so it is never more than was admitted in two spans. */
int64_t weir_account_roll(weir_account *account, const weir_stack *stack, int64_t now_us);

/* When what rule i is owed is paid no more: then it is of a period that is over. */
int64_t weir_account_payable_until(const weir_account *account, const weir_rule *rule, size_t i);

/* What a cost counts as under rule i, in the parts of the continued rule; `chance` is the u of the
 * period, from weir_account_chance(). An up-to request adds u of a cost of 1 instead. */
int64_t weir_account_weigh(const weir_account *account, const weir_rule *continued, size_t i,
                           int64_t cost, bool up_to, uint32_t chance);
uint32_t weir_account_chance(const weir_account *account, size_t i, uint64_t secret);

/* The largest cost that so many parts are room for. */
int64_t weir_account_cost(const weir_account *account, const weir_rule *continued, size_t i,
                          int64_t parts, bool up_to, uint32_t chance);

/* Admitted, at this time; what is held: in the period that began then, and is the last that it is held
 * in. Owed unless the store perhaps has it. Returns what is owed of it. */
int64_t weir_account_admit(weir_account *account, const weir_rule *rule, size_t i, int64_t cost,
                           int64_t weight, int64_t at_us, bool owed);

/* What the store answered in front of the first group: so much was paid of what was offered, and
 * the rest it had no room for. Returns the rest. Only what was paid for certain, and last, can be
 * given back later: by its own stamp. */
int64_t weir_account_pay(weir_account *account, size_t i, int64_t offered, int64_t paid);
void weir_account_confirm(weir_account *account, size_t rules, const int64_t *paid, int64_t at_us);

/* The store has answered. Where that was only slow nothing is held: the account is quiet. */
void weir_account_hold(weir_account *account, int64_t now_us, int64_t deadline_us);
bool weir_account_holds(const weir_account *account, int64_t now_us);

/* It holds nothing any more: another outage begins anew. */
bool weir_account_is_quiet(const weir_account *account, int64_t now_us);

/* Takes an admitted cost off again: what was owed of it, if it was (`owed`). Returns what of it was
 * paid: it is to go back to the store. *weight is what comes off the counts of the account. */
int64_t weir_account_refund(weir_account *account, const weir_rule *continued, size_t i,
                            int64_t cost, bool owed, int64_t *weight);

/* Whether what was admitted then, without the store, may still count for some rule. */
bool weir_account_may_matter(const weir_stack *stack, int64_t at_us, int64_t now_us);

/* The key was reset, or the clock set back: nothing is owed, and from now on nothing held. Returns what was
 * owed. */
int64_t weir_account_forgive(weir_account *account, const weir_stack *stack, int64_t now_us);

/* Nothing is left to hold or to pay, and no period lasts of what was admitted: all of that was before the
 * hold ended. Where the present period began says nothing, as it rolls on. */
bool weir_account_is_over(const weir_account *account, const weir_stack *stack, int64_t now_us);

#endif

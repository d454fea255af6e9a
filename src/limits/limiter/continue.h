/* Going on without the store: what a policy answers, and what an account begins with, admits, pays
 * and gives back.
 *
 * The store is away, or a decision is late: it ran out of its own time. Which of the two it was
 * cannot be told in time, so both have one answer. DENY and ALLOW give it by themselves. LOCAL goes
 * on as the store began; DENY is also what LOCAL says where it has no memory, or where others kept
 * writing the key.
 *
 *     account.c ─ lock the key's entry, count ───────────┐
 *                                                        ├──> continue.c ──> memo/account.h
 *     the model checker's clients ───────────────────────┘        └──> the limiter inside
 *
 * No locks, no threads, no clock: the same code runs under the model checker (tests/model). */
#ifndef WEIR_LIMITER_CONTINUE_H
#define WEIR_LIMITER_CONTINUE_H

#include "algorithm/algorithm.h"
#include "memo/account.h"

/* --- what a policy says ------------------------------------------------------------------------
 */

/* When a caller may ask again that was denied for no reason of its own: because the store is away,
 * or because its own decision was late. */
#define WEIR_POLICY_RETRY_US INT64_C(500000)
#define WEIR_POLICY_LATE_RETRY_US INT64_C(50000)

/* Whether a request to take that ended in this status gets an answer all the same: the store is
 * away, or time was over. What the caller brought about is no business of a policy. */
bool weir_policy_answers(weir_fallback fallback, weir_status status);

/* The answer to a request, with the figures of
 * the first rule that it concerns: everything by ALLOW, nothing by any other policy. `source` is
 * WEIR_SOURCE_FALLBACK where the store is away, else WEIR_SOURCE_LATE. */
weir_decision weir_policy_decide(weir_fallback fallback, weir_source source,
                                 const weir_stack *rules, const weir_ask *ask, int64_t now_us);

/* --- accounts ----------------------------------------------------------------------------------
 */

/* The rules of one limiter, and the limiter inside that counts for its accounts. */
typedef struct weir_inside {
  const weir_stack *rules;
  const weir_stack *continued;   /* the same in parts: weir_stack_continue() */
  const weir_settings *settings; /* of the rules */
  /* Has the limiter inside decide one request. */
  weir_status (*settle)(void *owner, weir_claim *request);
  void *owner;
} weir_inside;

/* What an account is asked for. */
typedef enum weir_continue_manner {
  WEIR_CONTINUE_OWES,   /* the policy answers, and the store certainly does not have it */
  WEIR_CONTINUE_UNSURE, /* the policy answers, and the store may have it */
  WEIR_CONTINUE_HOLDS   /* the store answers, or is asked: it only counts */
} weir_continue_manner;

/* An outage begins for a key, with what its memo knows of it: an account that is new (zeroed), or
 * one that goes on (`afresh`). False: no memory, and nothing begins. */
bool weir_continue_begin(const weir_inside *inside, weir_account *account, bool afresh,
                         const weir_claim *request, const weir_memo *memo, const weir_pool *pools,
                         weir_peers peers, int64_t now_us);

/* Admits or denies a request in its own units; the account is rolled. `secret` makes the chances of
 * this process and key. *owed is what of it the account owes from now on. False: no memory. */
bool weir_continue_admit(const weir_inside *inside, weir_account *account,
                         const weir_claim *request, uint64_t secret, weir_continue_manner manner,
                         weir_decision *decision, int64_t *owed);

/* What an admitted request cost on top of what it was admitted for, by rule: counted as far as there
 * is room for it, and owed. The account is rolled. False: no memory. */
bool weir_continue_overrun(const weir_inside *inside, weir_account *account,
                           const weir_claim *request, const int64_t *costs, uint64_t secret,
                           int64_t now_us, int64_t *owed);

/* Whether the account counts this request already, in a period that lasts, and the store gave no
 * answer for it. The second function returns what it owes of it. */
bool weir_continue_counts(const weir_stack *rules, const weir_account *account,
                          const weir_claim *request);
int64_t weir_continue_owe_held(const weir_inside *inside, weir_account *account,
                               const weir_claim *request, bool owes);

/* Whether a request for which the account has no room is denied by that: for a while after an
 * outage. During it, such a request is made one that only looks. Counts any other. The account
 * is rolled. */
bool weir_continue_withholds(const weir_inside *inside, weir_account *account, weir_claim *request,
                             uint64_t secret, int64_t now_us);

/* What a group may pay in front of these requests if it charges `most` at the most. False: nothing
 * is to be paid, or there is no room for it. */
bool weir_continue_offer(const weir_stack *rules, const weir_account *account,
                         const weir_claim *requests, int64_t most, weir_payment *offer);

/* The group with this payment is decided: what was sent and not answered counts as paid, what was
 * not sent is still owed. False: that. Else *paid and *unpaid are what came of it under all rules. */
bool weir_continue_pay(const weir_stack *rules, weir_account *account, const weir_claim *payment,
                       const int64_t *offered, int64_t *paid, int64_t *unpaid);

/* A group that began with this memo is decided, its payment apart: the hold begins with the first
 * answer of the store, and until it is over the group teaches no share. *dropped is what is owed no
 * more. True: the account is over. */
bool weir_continue_settle(const weir_inside *inside, weir_account *account, const weir_memo *memo,
                          const weir_claim *requests, weir_machine *machine, uint64_t secret,
                          int64_t deadline_us, int64_t *dropped);

/* Takes a refund's cost off the account, which is rolled, and off what it has counted: there less
 * may be left by now, if a period has passed. `owed` says whether it was; rest[] is what was paid of
 * it meanwhile, at *paid_us, and *unpaid what is owed no more. True: there is a rest. */
bool weir_continue_refund(const weir_inside *inside, weir_account *account,
                          const weir_claim *request, bool owed, int64_t rest[WEIR_RULES_MOST],
                          int64_t *paid_us, int64_t *unpaid);

#endif

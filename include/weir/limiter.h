/* Limiters: a rule applied to keys, with the counts in a store. */
#ifndef WEIR_LIMITER_H
#define WEIR_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/options.h>
#include <weir/status.h>
#include <weir/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_limiter weir_limiter;

/* Makes a limiter that applies `rules` with counts in `store`. Rule text:
 *
 *   fixed-window:LIMIT/PERIOD[,option...]     LIMIT in each aligned PERIOD
 *   sliding-window:LIMIT/PERIOD[,option...]   LIMIT in the last PERIOD, by weighted cells
 *   sliding-log:LIMIT/PERIOD[,option...]      LIMIT in the last PERIOD, exactly; every cost is 1
 *   quota:LIMIT/PERIOD[,option...]            LIMIT in the PERIOD that a key's first request opens,
 *                                             whatever goes back of what was charged in it
 *   token-bucket:LIMIT/PERIOD[,option...]     a bucket that fills at this rate
 *   leaky-bucket:LIMIT/PERIOD[,option...]     a queue that drains at this rate: callers wait
 *   in-flight:LIMIT/PERIOD[,option...]        LIMIT held at once, by weir_limiter_reserve(); what a
 *                                             process holds that died is free after a PERIOD
 *
 *   shared-window:LIMIT/PERIOD[,option...]    LIMIT in any PERIOD, divided among tenants: each has a
 *                                             floor that no other takes, and the rest is lent. A
 *                                             request names its tenant: weir_extra
 *
 * LIMIT 1 to 1000000000; of the windows and quota to 9007199254740992, which is 2^53 (with more than 124
 * processes somewhat less), of sliding-log to 100000. PERIOD a whole number and ms, s, m, h or d (or the
 * unit alone: 5/s), 1ms to 400d. Options of
 *
 *   sliding-window   cells=N, a power of two, 1 to 64, default 4; 1 is the weighted estimate over
 *                    two windows. strict: never more than LIMIT in any PERIOD
 *   shared-window    weights=TENANT:WEIGHT|..., 1 to 1000000, together 2048 bytes; others=WEIGHT, of all
 *                    that are not named; one of both must be given. Without others= who is not named has
 *                    no floor, and borrows as one of weight 1. floors=P%, 1% to 100%, default 50%: the
 *                    part of LIMIT in floors. cells=N, 8 to 60, each 500ms or more: default 60, fewer
 *                    where they would be shorter than 1s. Alone, without another rule; docs/shares.md
 *   token-bucket     burst=B, 1 to 1000000000: what a full bucket holds; default LIMIT
 *   leaky-bucket     queue=Q, 0 to 999999999: how many may wait; default 0, strict spacing
 *   the windows and quota   count=admitted (default), or count=all, which charges denied requests
 *                    as well; in a stack with other rules than windows, admitted only
 *   the windows, quota, token-bucket, shared-window   lease=DURATION, 1ms to 1s: a process may
 *                    charge more than it was asked for, and admit later requests from that without
 *                    the store; of a shared-window only within a tenant's floor. Every
 *                    rule of a stack, or none, and not with count=all. docs/leases.md says when to
 *                    use it. A token-bucket then never gives more at once than B' = B -
 *                    LIMIT * lease / PERIOD, rounded down, which is the limit of its decisions; its
 *                    lease is B * PERIOD / (4 * LIMIT) at the most, the same for all limiters
 *   windows, quota, token-bucket       debt=D, 0 (default) to LIMIT, of a token-bucket to what it
 *                    gives at once: how far beyond its limit a rule may charge what turns out to
 *                    have cost more than was taken, when that is settled. Requests are admitted as
 *                    without it; but a token-bucket gives no delays then: who would wait is denied.
 *                    Not with count=all, which charges all of it
 *   every rule       hold=DURATION, 1ms to 60s: denied requests are told this delay.
 *                    name=TEXT, 1 to 32 of A-Z a-z 0-9 _ . -, keeps apart the counts of rules that
 *                    are otherwise alike.
 *                    most=M, LIMIT and debt or more: the largest limit that this name will ever have. Rules
 *                    that are alike but for their limits then share their counts, whatever those
 *                    limits become. What a process decides by this rule does not change by it
 *                    tiers=NAME:LIMIT|..., 1 to 16 of them, with most=: names for limits of keys
 *                    (weir_limiter_set_limits()), each up to most=. NAME is 1 to 32 of A-Z a-z 0-9 _ . -,
 *                    begins with no digit, and is not absent, none, blocked or unlimited
 *
 *                    classes=NAME:PART|..., 1 to 8 of them, each with more than the one before it: classes
 *                    of requests, which a request says by weir_extra. One of a class is admitted as if
 *                    that PART, 1% to 100% or a whole number, of what the rule admits at once
 *                    (LIMIT; B' of a token-bucket; Q + 1) were all of it; one of none has all. So
 *                    the rest is kept for higher classes. Not with count=all; rules of a stack that have
 *                    classes have the same names in the same order
 *
 * A full bucket or queue must drain within 400d. docs/guarantees.md states what each rule promises,
 * and docs/changing-rules.md which counts continue under a changed rule.
 *
 * Several rules separated by ';' are one decision: all admit or nothing is charged. Those of them
 * that are a sliding-log, of different periods, share one log:
 * "sliding-log:30/1m;sliding-log:500/1h" keeps one entry a request, for the longest period, and is
 * exact for each. Their names are the same, and so are the costs of a request under them.
 *
 * `options` may be NULL. Errors: WEIR_BAD_RULE (also a rule that this store cannot keep),
 * WEIR_BAD_ARGUMENT (an option; the message names it and what is accepted), WEIR_NO_MEMORY. On
 * error *limiter is NULL. */
WEIR_EXPORT weir_status weir_limiter_create(weir_store *store, const char *rules,
                                            const weir_limiter_options *options,
                                            weir_limiter **limiter, weir_message *message);

/* Warnings: what the owner of this limiter should know of it and may not have meant, one sentence
 * each. Gives the index-th, and NULL from their number on. weir_limiter_warning() is the first.
 * They are settled when the limiter is created, and live as long as it does. Any thread. There is
 * one
 *
 * - where the rules promise less with these options than docs/guarantees.md states: cells shorter
 *   than 2 * clock_error_us + deadline_us;
 * - where deadline_us is above 100 ms: all limiters on the same keys then need the same one. Up to
 *   there each may have its own. None of a limiter with `processes` 1, or on memory:;
 * - where a token-bucket has a lease= too short for `processes` (64, unless they are set) on a
 *   store with compare-and-swap, at round trips of 200 us: they would meet too often, and some
 *   requests would run out of their deadline. docs/leases.md has the law;
 * - for each rule that shares its counts with a rule of another limiter on the same weir_store
 *   whose text means something else, where they have no name=: "fixed-window:5/1m" and
 *   "fixed-window:50/1m". Two limits on the same keys need a name= each; a limit that is being changed
 *   does not, nor do rules that are one limit by their name=;
 * - for each rule that does not share its counts with such a rule, though algorithm, period and name=
 *   are the same: "sliding-window:100/1m" and "sliding-window:5000/1m". They are laid out apart, so
 *   a key may have both limits in full: docs/changing-rules.md says where that is so. The warning says
 *   which most= in both would have them share their counts, where one would.
 *
 * The limiter that was there first has no warning of it. */
WEIR_EXPORT const char *weir_limiter_warning_at(const weir_limiter *limiter, size_t index);
WEIR_EXPORT const char *weir_limiter_warning(const weir_limiter *limiter);

/* Whether rule `index` of a limiter has other counts than rule `other_index` of another one, though
 * algorithm, PERIOD and name= are the same: then `message` (it may be NULL) says what such a warning does,
 * "would share its counts with RULE but for its layout: give both most=5000". They may be on stores of
 * their own. False where there is no such rule. Any thread. */
WEIR_EXPORT bool weir_limiter_tell_apart(const weir_limiter *limiter, size_t index,
                                         const weir_limiter *other, size_t other_index,
                                         weir_message *message);

/* No call may be under way. NULL is fine. Asks no store, and waits for the limiter's thread where that is
 * just paying for places or charging ahead: as long as weir_limiter_renew() blocks. With
 * weir_limiter_options.renew BY_CALLER there is none to wait for.
 *
 * In a child of the process that created it a limiter answers WEIR_BAD_ARGUMENT to every call, at
 * once; destroying it frees what no other thread of the parent was changing at the fork. */
WEIR_EXPORT void weir_limiter_destroy(weir_limiter *limiter);

/* Takes the place of another limiter on the same store, as after a change of its limits: goes on with
 * the shares that it has measured, and while the store is away with what it admitted and owes. The
 * other may still be in use; no key is to be asked of both. It must live until this one is destroyed,
 * or follows another; `before` NULL: none. The other follows none any more. Does nothing to what the
 * store decides.
 * WEIR_BAD_ARGUMENT: the rules do not count on the same keys, and nothing is taken over. Any thread. */
WEIR_EXPORT weir_status weir_limiter_follow(weir_limiter *limiter, weir_limiter *before,
                                            weir_message *message);

/* The decision's maker. */
typedef enum weir_source {
  WEIR_SOURCE_STORE,    /* the store was asked for this decision */
  WEIR_SOURCE_LOCAL,    /* the arguments, or what this process knew, were enough */
  WEIR_SOURCE_FALLBACK, /* the store is away, or came back just now: the limiter's policy decided */
  WEIR_SOURCE_LATE,     /* the request ran out of its own time, and the policy decided */
  WEIR_SOURCE_SETTLED,  /* none of these any more: what was taken has been settled, and can be
                           neither settled nor given back again */
  WEIR_SOURCE_UNLIMITED /* the key is unlimited under the rule that has most=, which was charged
                           nothing; other rules were, by the store */
} weir_source;

enum { WEIR_NEVER = -1, WEIR_NOT_KNOWN = -1, WEIR_OWN_COSTS = 0 };

/* Times are microseconds from the moment of decision. With several rules, the figures are those of
 * the rule that denies longest, else of the one with least remaining; ties go to the first in the
 * text; reset_after_us and delay_us are the longest of all. This structure never changes. */
typedef struct weir_decision {
  bool allowed;
  weir_source source;
  uint32_t rule;          /* whose figures these are: 0 is the first rule of the text */
  int64_t limit;          /* LIMIT; B of a token bucket; Q + 1 of a leaky bucket */
  int64_t remaining;      /* the largest cost that would be admitted right now, after this decision;
                             WEIR_NOT_KNOWN where the store was not asked because the cost never fits,
                             and for a sliding-log unless peeked */
  int64_t retry_after_us; /* 0 when allowed; else the shortest wait after which the same request,
                             alone, is admitted; WEIR_NEVER when its cost is above the limit */
  int64_t reset_after_us; /* the wait until nothing charged so far counts any more; 0 for an unused
                             key; WEIR_NOT_KNOWN as for a cost that never fits */
  int64_t delay_us; /* allowed: wait this long before acting (leaky-bucket, accepted waits); denied:
                       hold the refusal this long (hold=) */
  int64_t cost; /* what was charged, or by a peek would be, and after it was settled what is charged
                    now; asked when denied; WEIR_OWN_COSTS for a cost per rule */
  int64_t at_us;            /* the stamp: the clock reading that this was decided for */
  weir_status store_status; /* WEIR_OK, unless source is WEIR_SOURCE_FALLBACK or WEIR_SOURCE_LATE:
                               why the store did not decide. WEIR_UNKNOWN_OUTCOME: it may have been
                               charged there too. WEIR_OK of a policy: the store is back, and for
                               a moment this process holds its share (docs/failure.md) */
} weir_decision;

/* Decides one request of `cost` for `key` and, if it is admitted, charges it.
 *
 * key: 1 byte or more, any bytes (WEIR_BAD_KEY when empty). cost: 1 to 2147483648 (WEIR_BAD_COST);
 * for a sliding-log 1 (WEIR_BAD_COST). A cost above the limit is a decision: denied, never.
 * *decision is written when the answer is WEIR_OK. Any other answer means that there is no
 * decision; with WEIR_FALLBACK_NONE alone, those of WEIR_CLASS_STORE, WEIR_TIMEOUT and
 * WEIR_CONTENDED are among them. Whatever answers, nothing that may have been charged is sent twice.
 * WEIR_CONTENDED: others wrote the key faster until the deadline; nothing is charged.
 *
 * Blocks up to the deadline; does not sleep what delay_us says. Any number of threads may call at
 * once. */
WEIR_EXPORT weir_status weir_limiter_take(weir_limiter *limiter, const void *key, size_t key_length,
                                          int64_t cost, weir_decision *decision,
                                          weir_message *message);

/* The same for as much of `cost` as fits: decision->cost says how much was admitted, 1 or more when
 * allowed. Denied where not even 1 fits. */
WEIR_EXPORT weir_status weir_limiter_take_up_to(weir_limiter *limiter, const void *key,
                                                size_t key_length, int64_t cost,
                                                weir_decision *decision, weir_message *message);

/* Takes, sleeping as long as it must and may: decision->delay_us has been slept, and an allowed
 * caller may act. Buckets hand out places in the order of arrival; for windows it sleeps
 * retry_after_us and tries again. Comes back denied as soon as longest_wait_us cannot be enough,
 * after sleeping what hold= asks for (within longest_wait_us).
 *
 * While the store is away the limiter's policy answers every try, and a caller that is denied goes
 * on waiting for the time it was told, so that the store decides again as soon as it is back; so
 * does one whose try was late.
 *
 * longest_wait_us: 0 to the limiter's option of that name (WEIR_BAD_ARGUMENT). The deadline applies
 * to every single try. The limiter's clock must run at the pace of real time. */
WEIR_EXPORT weir_status weir_limiter_wait(weir_limiter *limiter, const void *key, size_t key_length,
                                          int64_t cost, int64_t longest_wait_us,
                                          weir_decision *decision, weir_message *message);

/* Tells what weir_limiter_take would decide now; changes nothing. */
WEIR_EXPORT weir_status weir_limiter_peek(weir_limiter *limiter, const void *key, size_t key_length,
                                          int64_t cost, weir_decision *decision,
                                          weir_message *message);

/* Gives back `cost` of what `taken`, an allowed decision for this key by a limiter with these
 * rules, has charged, and takes it off taken->cost. Windows and quotas get it back where it came
 * from, if that still matters. A token bucket gets back what it has not refilled since: giving back
 * more would admit too much. A leaky bucket and a sliding-log keep the charge, and of a decision
 * that had a delay all buckets do (cancel its reservation instead). A shared-window is settled instead,
 * which names the tenant: WEIR_REQUEST_SETTLE of weir_decide_extra(). A policy's decision goes back
 * by the limiter that took it: with WEIR_FALLBACK_LOCAL off what it owes, or where that has been
 * paid meanwhile to the store; else nowhere.
 *
 * cost: 1 to taken->cost, else WEIR_BAD_COST; WEIR_BAD_ARGUMENT for a decision that is not allowed,
 * or has no one cost left (taken with a cost per rule, or given back in full). WEIR_BAD_COST as
 * well where less than that is charged in the store. After any error nothing was given back, save
 * that WEIR_UNKNOWN_OUTCOME leaves it open: it is off taken->cost all the same, so that it is not
 * given back twice. Only taken->cost says what was given back before: a copy of *taken must not be
 * refunded beside it. */
WEIR_EXPORT weir_status weir_limiter_refund(weir_limiter *limiter, const void *key,
                                            size_t key_length, int64_t cost, weir_decision *taken,
                                            weir_message *message);

/* Settles what `taken`, an allowed decision for this key by a limiter with these rules, has charged:
 * the request cost `real` in truth, which was not known when it was taken. docs/settling.md.
 *
 * Less than taken->cost: the rest goes back, as by weir_limiter_refund(). More: the difference is
 * charged now, as much of it as fits under LIMIT, or under LIMIT and debt= where the rule has that;
 * with count=all, all of it. The part that does not fit is cut: it is charged nowhere, and
 * taken->cost tells. No request is denied here, as its work is done. A lease covers the difference,
 * or takes it back, where it can. As much as was taken: no store is asked.
 *
 * On WEIR_OK *taken is settled: its source is WEIR_SOURCE_SETTLED, and a second settlement or a
 * refund by it is WEIR_BAD_ARGUMENT. taken->cost is what is charged now, under the rule that was
 * charged least: `real` less that was cut. remaining and reset_after_us are those of this moment
 * where the store was asked, else they stay; at_us stays that of the charge. As of a refund, what a
 * window that is over or a token bucket that has refilled should give back goes nowhere. A copy of
 * *taken does not know of this: it must be neither settled nor given back beside it.
 *
 * A policy's admission never lowers the store: with WEIR_FALLBACK_LOCAL it goes back to what this
 * limiter owes, or to the store where that was paid; with the other policies only taken->cost
 * changes. While the store is away WEIR_FALLBACK_LOCAL takes a difference upwards as owed.
 *
 * real: 0 to 2147483648, else WEIR_BAD_COST, as is a taken->cost that the rules never admit, and one
 * of which less is charged in the store than should go back: the decision is of another key, or the
 * key was reset or lost. WEIR_BAD_ARGUMENT, and no store asked, for a decision that is not allowed,
 * was settled before or given back in full, or has a cost per rule (WEIR_REQUEST_SETTLE settles
 * that); for a taken->at_us that is ahead of the limiter's clock by more than clocks may differ, or
 * longer ago than a day and the longest PERIOD; and for a rule that cannot be settled, by name: a
 * sliding-log, a leaky-bucket. Whether a decision is one for this key only what goes back can show:
 * it is the caller's duty to settle it under the key that it was taken for.
 *
 * After any error nothing was charged or given back, and *taken may be settled later; save that
 * WEIR_UNKNOWN_OUTCOME leaves it open: nothing is sent again, *taken is settled all the same,
 * and its cost is the lesser of what was taken and `real`. Blocks up to the deadline. Any thread. */
WEIR_EXPORT weir_status weir_limiter_settle(weir_limiter *limiter, const void *key,
                                            size_t key_length, int64_t real, weir_decision *taken,
                                            weir_message *message);

/* Forgets what was charged to `key` under these rules. A charge in flight in another process may
 * survive. Another process sees it with the first request that it admits, once it repeats no denial
 * (local_denial_us); one that denied the key before, within its memo_age_us. */
WEIR_EXPORT weir_status weir_limiter_reset(weir_limiter *limiter, const void *key,
                                           size_t key_length, weir_message *message);

/* Gives back what lease= has charged ahead and no request used: before a process ends, or goes idle
 * for longer than a lease, once no request is under way. Buckets get nothing back: it has drained by then.
 * Blocks up to the deadline, and as long again where something is being charged ahead; 32 keys go back in
 * one round trip to each server. WEIR_OK also where there is nothing; else why something did not go back,
 * which stays charged as long as it counts; but an empty place that could not be sent, or was refused, goes
 * back with the next call, or by who renews. Where the policy has given places meanwhile it stands for those:
 * then it stays, and this is WEIR_OK. Any thread. weir_limiter_destroy() talks to no store: what is
 * held then stays charged. */
WEIR_EXPORT weir_status weir_limiter_return_leases(weir_limiter *limiter, weir_message *message);

/* Switches for weir_request.flags. */
enum weir_request_flag {
  WEIR_REQUEST_PEEK = 1 << 0,  /* decide, change nothing */
  WEIR_REQUEST_UP_TO = 1 << 1, /* as weir_limiter_take_up_to; needs one cost for every rule */
  /* As weir_limiter_settle(), with no other flag and longest_wait_us 0. `decision` is in and out: as
   * it was taken, here or in another process, of which allowed (true), cost, at_us and source are
   * enough, and delay_us where a bucket gave one. `cost` is what it cost in truth. With a cost per
   * rule `costs` points to writable memory of the caller, 2 numbers for each rule: first what it
   * cost in truth under each, 0 to 2147483648; then what was taken under each, which becomes what
   * is charged now. A request that is settled is no request to take: it is counted in statuses[]
   * and settled_... alone. Nothing is decided by a policy. */
  WEIR_REQUEST_SETTLE = 1 << 2
};

/* A request with all that can be said of it; zero the rest. This structure never changes. */
typedef struct weir_request {
  const void *key;         /* in */
  size_t key_length;       /* in, bytes */
  int64_t cost;            /* in: for every rule, unless costs is given */
  const int64_t *costs;    /* in: NULL, or one cost per rule of the text, as weir_limiter_rules()
                              counts them: 0 (the rule has no say) to 2147483648, one above 0;
                              WEIR_REQUEST_SETTLE: two */
  int64_t longest_wait_us; /* in: the delay that a bucket may answer with, 0 to the limiter's
                              option; 0: no delay but a leaky bucket's own */
  unsigned flags;          /* in: enum weir_request_flag */
  weir_status status;      /* out: as weir_limiter_take would answer for this request alone */
  weir_decision decision; /* out: written when status is WEIR_OK; WEIR_REQUEST_SETTLE: in as well */
} weir_request;

/* What a request says of itself, beside it. Begin with WEIR_EXTRA_INIT; members are only ever appended.
 * It is read where it stands, so it must stay until its request is decided; several may share one. */
typedef struct weir_extra {
  size_t size;
  const char *class_name; /* NULL: none. One that no rule of the limiter has is WEIR_BAD_ARGUMENT */
  int64_t limit;        /* in the place of the rule's, which has most=, up to that; 0: the rule's. A
                           bucket's burst and debt= are in proportion. See weir_decide_extra() */
  const void *tenant;   /* NULL: none. A shared-window must have one, and no other rule may */
  size_t tenant_length; /* bytes: 1 or more where there is a tenant, else 0 */
} weir_extra;

#define WEIR_EXTRA_INIT WEIR_SIZED(weir_extra)

/* Counts of all that a limiter has done so far. Begin with WEIR_LIMITER_COUNTS_INIT; members are
 * only ever appended. A request to take is one of take, take_up_to, wait (once, by its last try),
 * reserve and of those of decide() that are no peeks. */
enum { WEIR_STATUSES_MOST = 32, WEIR_WAIT_BUCKETS = 14 };

typedef struct weir_limiter_counts {
  size_t size;
  /* Requests to take that got a decision, by its source, and again by what it was. */
  uint64_t by_store, by_local, by_fallback;
  uint64_t allowed, denied;
  /* All requests, also peeks, refunds, settlements, cancels and resets, by what they would have been answered
   * without a policy: of every request exactly one. */
  uint64_t statuses[WEIR_STATUSES_MOST];
  uint64_t clock_steps; /* how often the clock was set back, by more than is held back */
  /* Counters found to hold less than this limiter's own charges, or to be gone with them: by
   * eviction, a restart or a flush. Where another limiter resets a key or gives back what this one
   * was charged, that counts as well; some losses cannot be noticed (docs/failure.md). */
  uint64_t keys_lost;
  /* How often operations left together and were waited for, one round trip for each server; a retry
   * that an operation's own protocol needs is part of it. */
  uint64_t round_trips;
  uint64_t by_late; /* beside by_store, by_local and by_fallback: requests that ran out of time */
  /* With lease=, in cost: what was charged ahead; what requests were admitted from of it; what went
   * back; what cannot go back any more (it drained from a bucket, its window ended with it, its key
   * was forgotten, or the answer was lost). `leased` less the other three is still held. */
  uint64_t leased, lease_used, lease_returned, lease_lost;
  /* Requests of all kinds that waited for servers, by how long: waits[i] are those that took longer
   * than weir_wait_bound_us(i - 1) and no longer than weir_wait_bound_us(i), from the start of
   * their deadline to the last reply they needed, or to their giving up. waited_us is the sum.
   * Requests that were answered without servers are not among them. */
  uint64_t waits[WEIR_WAIT_BUCKETS];
  uint64_t waited_us;
  /* By WEIR_FALLBACK_LOCAL, in cost, every rule counted: what was admitted that is certainly not in
   * the store; what of it was paid to the store when that was back; what will not be, as its window
   * was over, the limit reached, or it was given back. `owed` less the other two is still owed. */
  uint64_t owed, paid, unpaid;
  uint64_t share; /* of all that is charged, this process's own part as measured, in millionths; of
                     several rules the least; without a charge yet 1 / peers */
  /* Places, under rules that hold some: how many are held now; and so far, how many were entered,
   * denied (of those who waited the last try), released, and lost before they were released. */
  uint64_t places_held, places_entered, places_denied, places_released, places_lost;
  uint64_t renewals; /* payments for what is held on, answered or not: one a key and PERIOD */
  /* Settlements, of decisions and of reservations, that charged more, gave back, and found no room
   * for some of their cost: how many they were, and in cost, every rule counted. One may be among
   * several of them; one that was exact is among none. Not commit and cancel. */
  uint64_t settled_up, settled_down, settled_cut;
  uint64_t settled_up_cost, settled_down_cost, settled_cut_cost;
  /* Limits of keys that were there and are not any more, by eviction, a restart, a flush or their end: each
   * is believed for 10 minutes more. */
  uint64_t limits_lost;
  uint64_t by_unlimited;  /* beside by_store and the like: admitted, as their key is unlimited */
  uint64_t tiers_unknown; /* limits of keys that were read and name no tier of the rule */
} weir_limiter_counts;

#define WEIR_LIMITER_COUNTS_INIT WEIR_SIZED(weir_limiter_counts)
/* The longest wait of a bucket, in microseconds: 100, 200, 500, 1000, ... 1000000; INT64_MAX for
 * the last, WEIR_WAIT_BUCKETS - 1, and for any index beyond. */
WEIR_EXPORT int64_t weir_wait_bound_us(size_t bucket);

/* Adds up the counts, which other threads may go on adding to; of one that is under way some may be
 * in and some not. Writes what fits into counts->size, and 0 where that is more than this version
 * knows. */
WEIR_EXPORT void weir_limiter_read_counts(const weir_limiter *limiter, weir_limiter_counts *counts);

/* Decides up to WEIR_BATCH_MOST requests in as many round trips per server as the slowest of them
 * needs alone. Requests for one key are decided in their order; those that have a cost per rule, or
 * meet a sliding-log, one after another, each in round trips of its own: as many as fit into the
 * deadline, the rest is late. Answers WEIR_OK when every request has a decision, else the first
 * status that is not WEIR_OK; WEIR_BAD_ARGUMENT for a count of 0 or above WEIR_BATCH_MOST, nothing
 * touched. A request with bad arguments fails alone. Where nothing can be asked at all (no memory;
 * a child of the process that created the limiter), every request's status says so. */
enum { WEIR_BATCH_MOST = 1024 };

WEIR_EXPORT weir_status weir_limiter_decide(weir_limiter *limiter, weir_request *requests,
                                            size_t count, weir_message *message);

/* weir_limiter_decide() for requests of several limiters: limiters[i] decides requests[i], as many
 * of them alike as the caller likes, in any order. Each request is decided, counted and answered as
 * by its own limiter's weir_limiter_decide(): same statuses, policy, leases and deadline.
 *
 * Requests to limiters of one store leave together, so that all of them need as many round trips
 * per server as the slowest alone. Limiters of several stores, or with deadlines of their own, are
 * decided store by store and deadline by deadline, in the order of their first request; each
 * deadline begins when its turn comes. Requests for one key and limiter are decided in their order.
 *
 * Answers WEIR_OK when every request has a decision, else the first status (in the order of the
 * requests) that is not WEIR_OK; the message names the request: "requests[3]: ...".
 * WEIR_BAD_ARGUMENT for a count of 0 or above WEIR_BATCH_MOST (1024) and for a limiter that is
 * NULL, nothing touched. Otherwise every request has a status (also where a limiter has no memory:
 * its own requests alone say so). Nothing is allocated once each limiter has seen as many requests
 * from this thread. Any number of threads may call at once. Uses 36 KiB of stack. */
WEIR_EXPORT weir_status weir_decide_together(weir_limiter *const *limiters, weir_request *requests,
                                             size_t count, weir_message *message);

/* Decides those of these requests, any number of them, for which this process knows enough, and waits
 * for no store: a cost that never fits, a denial that still holds, what a lease= covers. known[i] says
 * whether requests[i] is decided, or refused for its arguments; then it is counted and answered as by
 * weir_decide_together(). All others are as they were, nothing charged or counted: they are to be
 * decided by that, or by weir_limiter_decide(). Among them are all that settle, all for which
 * a policy would answer, and those behind another for the same key and limiter that is one of
 * them, so that the order of a key's requests is kept.
 *
 * For an event loop, which answers these at once and has a thread decide the rest. Answers WEIR_OK, or
 * WEIR_BAD_ARGUMENT for a limiter that is NULL, nothing touched. Allocates at most what is kept of
 * keys that are new to the process. Any thread. */
WEIR_EXPORT weir_status weir_decide_known(weir_limiter *const *limiters, weir_request *requests,
                                          size_t count, bool *known, weir_message *message);

/* Decides several requests as one: all of them are charged, or none. limiters[i] decides requests[i],
 * as a login by its address and by its account; the limiters may be on different stores.
 *
 * *denied_by is `count` where all are admitted. Else it is the index of the request whose answer is
 * that of the whole: of those that deny, the one that denies longest. Then every decision has
 * allowed = false, and its figures are those behind the giving back: retry_after_us is 0 where this
 * request alone would be admitted. A request that was not asked, as another was known to deny, has
 * remaining and reset_after_us WEIR_NOT_KNOWN.
 *
 * Longer denials are repeated from memory, and keys that denied lately are looked at before any is
 * charged. Else all that share a store and a deadline are charged in one round trip. Where one
 * denies, the others give back along with it, in a second. Where that leaves room for all, others
 * who were half-way have denied them: they are charged once more, one after another in an order
 * that is the same for all callers. Each store, and each deadline, is asked in turn, with a
 * deadline of its own; giving back has a quarter of one for itself.
 *
 * Until it has gone back, what one caller charges to a key denies another there. A process that
 * dies in between leaves it charged, as long as it counts. Rules with count=all keep their charge.
 * Cost that came from a lease is held again.
 *
 * Answers WEIR_OK when there is a decision; a policy may have answered for some (decision.source), and
 * the message says why of the first of them. Else the status of requests[*denied_by], which has no
 * decision; the others were given back, and what has WEIR_UNKNOWN_OUTCOME may be charged itself.
 * WEIR_BAD_ARGUMENT, with nothing asked: a count of 0 or above WEIR_ALL_MOST; a limiter that is NULL;
 * a limiter and key that come twice; WEIR_REQUEST_UP_TO; WEIR_REQUEST_PEEK in some (in all: nothing is
 * charged). And what cannot give back: more than one request under a sliding-log, a leaky-bucket or with
 * longest_wait_us; one of the last two on a store without compare-and-swap (Redis). Any thread; uses
 * 16 KiB of stack, of peeks 42 KiB. */
enum { WEIR_ALL_MOST = 16 };

WEIR_EXPORT weir_status weir_decide_all(weir_limiter *const *limiters, weir_request *requests,
                                        size_t count, size_t *denied_by, weir_message *message);

/* The functions above for requests that say more of themselves: extras[i] is what requests[i] says,
 * NULL where that is nothing, as is `extras` where none says anything. Each does what the function
 * without extras does, and answers as that. They are
 *
 *   weir_decide_extra()        weir_decide_together(): each request has an answer of its own
 *   weir_decide_known_extra()  weir_decide_known()
 *   weir_decide_all_extra()    weir_decide_all(): one answer for all, and each member may say its own
 *   weir_reserve_extra()       weir_reserve_together()
 *
 * What an extra says wrongly is WEIR_BAD_ARGUMENT of its request, as other bad arguments are: nothing is
 * charged for it. With WEIR_REQUEST_SETTLE it should say what it said when it was taken.
 *
 * Tenants of one pool are decided side by side: the requests of one tenant in their order, and an earlier one
 * of another tenant may be charged later.
 *
 * A limit is for callers that know what a key may have, and are trusted with it. One rule of the limiter
 * has most= and is meant; with none or several, and for a limit below 1 or above most=, it is an error. Each
 * request is admitted within its own limit, which sees what all others were charged: so all together have
 * the bound of the largest. What was denied to one limit is no answer for another. A lease is not used, and
 * a weir_limiter_refund() of a bucket, or a settlement that says no limit, may give back less than was
 * charged where the decision does not tell by which limit that was. While the store is away the policy
 * counts by the rule's own limit. */
WEIR_EXPORT weir_status weir_decide_extra(weir_limiter *const *limiters, weir_request *requests,
                                          const weir_extra *const *extras, size_t count,
                                          weir_message *message);
WEIR_EXPORT weir_status weir_decide_known_extra(weir_limiter *const *limiters,
                                                weir_request *requests,
                                                const weir_extra *const *extras, size_t count,
                                                bool *known, weir_message *message);
WEIR_EXPORT weir_status weir_decide_all_extra(weir_limiter *const *limiters, weir_request *requests,
                                              const weir_extra *const *extras, size_t count,
                                              size_t *denied_by, weir_message *message);

/* Whether a request of this limiter may say this of itself; NULL: nothing. WEIR_OK, or what a decision would
 * answer, and the message says what is accepted. A limiter that refuses NULL needs a tenant. Asks no
 * store. Any thread. */
WEIR_EXPORT weir_status weir_limiter_check_extra(weir_limiter *limiter, const weir_extra *extra,
                                                 weir_message *message);

/* Writes the name of class `index` of its rules, where 0 is the lowest. WEIR_BAD_ARGUMENT: they do not have so
 * many. Any thread. */
enum { WEIR_CLASS_NAME_BYTES = 33 };
WEIR_EXPORT weir_status weir_limiter_read_class(const weir_limiter *limiter, size_t index,
                                                char name[WEIR_CLASS_NAME_BYTES]);

/* The limit that a program has set for one key, in the place of the rule's. It stands in the store, beside
 * the key's counts, and limiters with the option limits_us go by it. One rule of the limiter has most=, and
 * is meant. */
typedef enum weir_limit_kind {
  WEIR_KEY_LIMIT_ABSENT,  /* out: none was ever set, it has ended, or it was lost */
  WEIR_KEY_LIMIT_NONE,    /* the rule's own; to be told from a loss it is written for 400 days */
  WEIR_KEY_LIMIT_NUMBER,  /* `limit`, up to most=; a bucket's burst and debt= are in proportion */
  WEIR_KEY_LIMIT_BLOCKED, /* all is denied */
  /* The rule has no say, and counts nothing of the key: decisions have WEIR_SOURCE_UNLIMITED, and their limit
   * and remaining are what most= gives, which is also the most that one request may cost. Not where the rule
   * shares a log with another one (WEIR_BAD_ARGUMENT). */
  WEIR_KEY_LIMIT_UNLIMITED,
  /* That of tiers= of the rule with this name, of which `limit` is a number (weir_limiter_parse_limit()). Who has
   * another limit for the tier goes by that. Where the rule has none of the name it is as if there were no record,
   * and tiers_unknown counts each reading. */
  WEIR_KEY_LIMIT_TIER
} weir_limit_kind;

typedef struct weir_limit {
  const void *key;
  size_t key_length;
  unsigned kind;      /* enum weir_limit_kind */
  int64_t limit;      /* of a number, or a tier; else 0 */
  int64_t for_us;     /* in: its end, by the store's clock; 0: 400 days. Out: 0 */
  weir_status status; /* out */
} weir_limit;

/* Sets the limits of some keys, in as few round trips as that takes, and reads each back. Two that set one
 * key at once: the last one stays, and the other may be told WEIR_CONTENDED. WEIR_REFUSED_BY_STORE: the
 * store did not keep it. WEIR_UNKNOWN_OUTCOME: it may be set. Nothing is set where one of them is bad.
 * Answers the first status that is not WEIR_OK. A round trip may take 2 s, or the limiter's deadline. */
WEIR_EXPORT weir_status weir_limiter_set_limits(weir_limiter *limiter, weir_limit *limits,
                                                size_t count, weir_message *message);

/* What the store has for one key: writes kind, limit and status. */
WEIR_EXPORT weir_status weir_limiter_read_limit(weir_limiter *limiter, weir_limit *limit,
                                                weir_message *message);

/* A limit as text: a number, which may have the period of its rule behind it ("500", "500/1m"), "blocked",
 * "unlimited", "none", or the name of a tier. Reads it: writes kind and limit. WEIR_BAD_ARGUMENT: it is
 * none, or none that the limiter takes. */
WEIR_EXPORT weir_status weir_limiter_parse_limit(const weir_limiter *limiter, const char *text,
                                                 size_t length, weir_limit *limit,
                                                 weir_message *message);

/* The same text of kind and limit, the number without its period; "absent", and "of a later version". Of a tier
 * the limiter tells the name, or "an unknown tier", where it has none of it; the first says "a tier". */
enum { WEIR_LIMIT_TEXT_BYTES = 24, WEIR_LIMIT_NAME_BYTES = 40 };
WEIR_EXPORT void weir_limit_format(const weir_limit *limit, char text[WEIR_LIMIT_TEXT_BYTES]);
WEIR_EXPORT void weir_limiter_format_limit(const weir_limiter *limiter, const weir_limit *limit,
                                           char text[WEIR_LIMIT_NAME_BYTES]);

/* Whether weir_decide_all() accepts these limiters together, whatever the keys: for programs that are
 * told them by a configuration. Asks no store. WEIR_BAD_ARGUMENT, with what is wrong in `message`: a
 * count of 0 or above WEIR_ALL_MOST; a limiter that is NULL; an in-flight; a leaky-bucket on a store
 * without compare-and-swap; two that keep what they are charged (sliding-log, leaky-bucket). The same
 * limiter may stand there twice. Any thread. */
WEIR_EXPORT weir_status weir_check_all(weir_limiter *const *limiters, size_t count,
                                       weir_message *message);

/* How many rules the limiter's text holds: 1 to 8. */
WEIR_EXPORT size_t weir_limiter_rules(const weir_limiter *limiter);

/* One of them. Begin with WEIR_RULE_INFO_INIT; members are only ever appended. Texts live as
 * long as the limiter. */
typedef struct weir_rule_info {
  size_t size;
  const char *text;      /* the shortest that means this rule: "sliding-window:100/1m" */
  const char *algorithm; /* "sliding-window" */
  const char *name;      /* what stands behind name=; "" without it */
  int64_t limit;         /* LIMIT ... */
  int64_t period_us;     /* ... in PERIOD */
  int64_t capacity;      /* the largest cost that is ever admitted: weir_decision.limit */
  const char *tag;       /* names its counts in the store. Rules share them exactly where these are
                            alike: docs/changing-rules.md */
} weir_rule_info;

#define WEIR_RULE_INFO_INIT WEIR_SIZED(weir_rule_info)

/* Writes as much of rule `index`, from 0 on, as info->size has room for, and 0 where that is more
 * than this version knows. WEIR_BAD_ARGUMENT where there is no such rule. Any thread. */
WEIR_EXPORT weir_status weir_limiter_read_rule(const weir_limiter *limiter, size_t index,
                                               weir_rule_info *info);

/* An admitted request that can be undone exactly. Under an in-flight rule also a place: it is held from
 * then on until it is released by commit or cancel, or lost (weir_reservation_held()). */
typedef struct weir_reservation weir_reservation;

/* Decides one request and keeps what is needed to cancel it. *reservation is NULL unless the status
 * is WEIR_OK and the request is allowed. WEIR_REQUEST_PEEK is WEIR_BAD_ARGUMENT. The limiter must
 * outlive it. A reservation that is neither committed nor cancelled simply stays charged; a place that
 * is destroyed so is not paid for again, and free at the end of what was paid.
 *
 * A refund by request->decision, where it stands, is a use of the reservation: what it gives back
 * is no longer there to cancel, and what is left can be cancelled. A copy of the decision is not
 * known to the reservation: a caller that refunds by one and cancels as well gives back twice, as
 * does a caller that refunds by two copies. */
WEIR_EXPORT weir_status weir_limiter_reserve(weir_limiter *limiter, weir_request *request,
                                             weir_reservation **reservation, weir_message *message);

/* The same, waiting for a place, or for what other rules of the limiter have to give, up to
 * longest_wait_us: 0 to the limiter's option of that name (WEIR_BAD_ARGUMENT); what the request says of
 * that is not read. A place that is released in this process is handed to the one of its threads
 * that has waited longest for as much of the key, for up to the shorter of PERIOD and 1 s after it was
 * entered; then other processes get their chance. A thread that waits looks every 5 to 50 ms, at random.
 * WEIR_OK and no reservation: the time was over, or the cost is above LIMIT. */
WEIR_EXPORT weir_status weir_limiter_reserve_wait(weir_limiter *limiter, weir_request *request,
                                                  int64_t longest_wait_us,
                                                  weir_reservation **reservation,
                                                  weir_message *message);

/* Whether the reservation is open and its place is still one's own; without an in-flight rule, whether
 * it is open. False is final, and false in a child of the process. A process that was stopped, or
 * could not pay for its places because the store was away, has lost them: ask before what must not
 * happen while others have the place. Locks for less than a microsecond, asks no store; any thread,
 * while no other ends the reservation. */
WEIR_EXPORT bool weir_reservation_held(const weir_reservation *reservation);

/* Until when it is held if it is not paid for again, by the limiter's clock: microseconds. 0 where
 * it is not held; INT64_MAX where nothing ends it. Work that was begun before, and is over by then,
 * was done while it was held. */
WEIR_EXPORT int64_t weir_reservation_held_until_us(const weir_reservation *reservation);

/* A number for those who cannot ask: what is written to while a place is held may keep the largest
 * token that it has seen, and refuse lower ones. Rises from holder to holder: the time of entry in
 * microseconds, 4096 times. Where two processes follow one another within 2 * clock_error_us the
 * second may have the lower one; a process that lost its place and goes on always has the lower
 * one. 0 without a place. */
WEIR_EXPORT uint64_t weir_reservation_token(const weir_reservation *reservation);

/* Pays again for what is held, and charges ahead for busy keys whose leases run out, where that is due.
 * With weir_limiter_options.renew BY_CALLER it is to be called again when *next_us microseconds are over,
 * and after a place was entered, or requests of rules with lease= were decided; WEIR_NEVER: nothing is
 * held. Without such calls there are leases all the same, but requests wait for the store when one ends.
 * By default a thread does all of it, and this may be called all the same. Blocks for up to the
 * deadline for every 64 keys. WEIR_OK, or why some were not paid: then *next_us is short, as there is
 * another try until what was paid before is over. Any thread. */
WEIR_EXPORT weir_status weir_limiter_renew(weir_limiter *limiter, int64_t *next_us,
                                           weir_message *message);

/* The caller used what it reserved: it stays charged. A place is released, so that others may
 * enter: first it counts as held no more, then the store is told. WEIR_PLACE_LOST in place of
 * WEIR_OK where the place was lost before (weir_reservation_held()): others may have entered while
 * work went on. An error of WEIR_CLASS_STORE or WEIR_TIMEOUT: the place is free at the end of what
 * was paid, within PERIOD. It is free before that, once the store is back, where nothing was sent and
 * the policy has given no place of the key: who renews gives it back then, or
 * weir_limiter_return_leases(). WEIR_BAD_ARGUMENT when it was committed, cancelled or settled before,
 * also by its request's decision. One thread at a time may use a reservation. Blocks up to the
 * deadline where there is a place, and for the answer to a payment that is under way; else it asks
 * no store. */
WEIR_EXPORT weir_status weir_reservation_commit(weir_reservation *reservation,
                                                weir_message *message);

/* weir_limiter_reserve() for many, as weir_decide_together() decides many: limiters[i] decides
 * requests[i], and what limiters of one store ask leaves together. reservations[] has room for `count`;
 * reservations[i] is NULL where requests[i] has a status other than WEIR_OK or is denied. The answer,
 * the message and what is refused for all of them are those of weir_decide_together(). Any thread. Uses 44 KiB
 * of stack, and allocates one block for each reservation, and one for its place. */
WEIR_EXPORT weir_status weir_reserve_together(weir_limiter *const *limiters, weir_request *requests,
                                              size_t count, weir_reservation **reservations,
                                              weir_message *message);

/* The same, as weir_decide_extra() is to weir_decide_together(). */
WEIR_EXPORT weir_status weir_reserve_extra(weir_limiter *const *limiters, weir_request *requests,
                                           const weir_extra *const *extras, size_t count,
                                           weir_reservation **reservations, weir_message *message);

/* weir_reservation_commit() for many, of one limiter or of several: all stop to count as held, then what
 * has to be sent leaves together. Places of one key that were paid for as long are one operation.
 * statuses[i], where that is not NULL, says what became of reservations[i], as commit would. Answers
 * WEIR_OK where each was committed, else the first status that is not: the message names it,
 * "reservations[3]: ...". WEIR_BAD_ARGUMENT for a count of 0 or above WEIR_BATCH_MOST and for a
 * reservation that is NULL, WEIR_NO_MEMORY for the whole: nothing is touched. Any thread, while no other
 * uses these. Each is to be destroyed by weir_reservation_destroy(). */
WEIR_EXPORT weir_status weir_release_together(weir_reservation *const *reservations, size_t count,
                                              weir_status *statuses, weir_message *message);

/* Gives back what was reserved, as weir_limiter_refund does; a place in a queue only if it is still
 * the last (in stores without compare-and-swap: never). WEIR_BAD_ARGUMENT, WEIR_PLACE_LOST as for commit. Whatever
 * the answer, the reservation is over: an answer that was lost must not give back twice. */
WEIR_EXPORT weir_status weir_reservation_cancel(weir_reservation *reservation,
                                                weir_message *message);

/* Settles the reservation as weir_limiter_settle() does a decision: costs[] are its real costs, one
 * for each rule of the limiter. costs[] become what is charged now. Under each rule the estimate is
 * what refunds have left of the reservation; a sliding-log or a leaky-bucket accepts this and 0. So
 * does in-flight: its place is left with either, and costs[] become 0 there. To commit is to settle
 * what was reserved, to cancel is to settle 0.
 *
 * WEIR_BAD_COST for a number below 0 or above 2147483648. WEIR_BAD_ARGUMENT as for commit, and for
 * another cost where a rule accepts those two alone. Then the reservation stays as it is. So it does
 * where the store has charged and given back nothing (WEIR_UNAVAILABLE, WEIR_TIMEOUT, WEIR_CONTENDED,
 * WEIR_REFUSED_BY_STORE, WEIR_NO_MEMORY), unless it had a place: it may be settled again. After any other
 * answer it is over. costs[] are written on WEIR_OK, WEIR_UNKNOWN_OUTCOME and WEIR_PLACE_LOST (as for commit). */
WEIR_EXPORT weir_status weir_reservation_settle(weir_reservation *reservation, int64_t *costs,
                                                weir_message *message);

/* Frees the memory; NULL is fine. */
WEIR_EXPORT void weir_reservation_destroy(weir_reservation *reservation);

#ifdef __cplusplus
}
#endif

#endif

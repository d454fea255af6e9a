/* A call: up to WEIR_BATCH_MOST requests of one limiter that one thread wants decided together.
 *
 * Every request joins the waiting list of its key's entry. Where no thread leads that key the call
 * leads it: it takes a group off the list, drives its machine, settles all requests in it, and passes
 * the lead to the first that still waits. So a process has one group under way per key, whatever
 * its threads do. A call first finishes what it leads and only then waits for others, so calls
 * never wait for each other in a circle.
 *
 *     waiting ──> taken ──> done        decided by the call that leads
 *        │ └────> leads ──> taken       the call must take the next group
 *        └──────> done                  out of time: withdrawn, nothing was sent
 *
 * Calls of several limiters of one store can be a list: then they lead together, so that what all
 * of them plan leaves in one exec, and wait together. Their limiters have equal deadlines.
 *
 * join.c is the way of a request that joins and waits; group.c that of the group it leads; lease.c
 * what was charged ahead of both; call.c a call's own life, and what other threads do to it.
 */
#ifndef WEIR_LIMITER_CALL_H
#define WEIR_LIMITER_CALL_H

#include <pthread.h>

#include <weir/backend.h>
#include <weir/limiter.h>

#include "algorithm/algorithm.h"
#include "key/key.h"
#include "limiter/continue.h"
#include "memo/lease.h"
#include "memo/table.h"
#include "metrics/counts.h"
#include "store/store.h"

/* A reading of the limiter's clock. A step of that clock makes it mean another time. */
typedef struct weir_moment {
  int64_t now_us;
  unsigned clock_steps; /* so many the clock had made before */
} weir_moment;

/* The requests for one key that this call decides together. */
typedef struct weir_group {
  weir_memo_entry *entry;
  weir_request_state *requests;
  weir_machine *machine;
  weir_turn turn;
  unsigned decided; /* groups, by this machine */
  int64_t wake_us;  /* while it pauses: until then, weir_monotonic_us() */
  size_t encoded_length;
  char encoded[WEIR_ENCODED_MOST];
  int64_t from_us;            /* it charges the window that begins then, ahead of time; 0: none */
  weir_request_state *refill; /* that leads it; NULL: none does */
  weir_request_state ahead;   /* what is charged for requests that may come; cost 0: nothing */
  weir_request_state payment; /* for what was admitted without the store: first of the group, if
                                 there is something; of each rule so much was ... */
  int64_t offered[WEIR_RULES_MOST]; /* ... owed and can go with the group, ... */
  weir_payment paid;                /* ... and had room in the store */
} weir_group;

/* What one key gives back of its lease, in the first round. */
typedef struct weir_return {
  weir_memo_entry *entry; /* busy meanwhile */
  bool of_other; /* no group of ours leads its key: its lead is passed on behind the answer */
  size_t operation_count; /* one for each rule that takes back */
  weir_lot lot;
  int64_t places[WEIR_RULES_MOST];
} weir_return;

/* Of other keys than those that a call leads, a few in each; and of one key, two. */
enum { WEIR_RETURNS_OF_OTHERS = 4, WEIR_RETURNS_OF_ONE = 2 };

/* What the machines of a call have planned, and what leaves of it at once. */
typedef struct weir_round {
  weir_operation *planned;  /* of this round, all groups; while the answers of one round are ... */
  weir_operation *answered; /* ... read here, the next is planned there: they change places */
  size_t planned_count;
  size_t giving;  /* of what is planned, the first that give back; ... */
  size_t sending; /* ... and the first that may leave */
  char (*key_texts)[WEIR_COUNTER_KEY_MOST];
  weir_operation *joint; /* what the calls of a list send together; of one of them, as it comes */
  size_t joint_room;
} weir_round;

typedef struct weir_call {
  struct weir_call *next_idle;
  struct weir_idle_place *idle_place; /* where it was taken, and goes back to */
  struct weir_call *head;             /* the first of its list; itself, where it is alone */
  struct weir_call *also;             /* the next of its list, or NULL */
  struct weir_limiter *limiter;
  weir_moment at; /* read since the deadline began, or the call last led or waited */
  bool
      all_or_none; /* of a list, its head's: a member that is admitted gives up where another is not */

  /* Of a list, its head's. All by weir_monotonic_us(). A deadline that has not begun is INT64_MAX,
   * and so is charge_end_us then. */
  int64_t deadline_us;
  int64_t charge_end_us; /* nothing is read or charged from here on; the rest is for giving back */
  int64_t monotonic_us;  /* when the call last did anything but wait, or before */

  size_t room; /* requests and groups there is memory for */
  size_t ask_count;
  weir_request_state *requests;        /* its caller's, or those of its own batch */
  weir_request_state *batch;           /* memory for a caller who has none */
  struct weir_settlement *settlements; /* of these, by place; NULL: there were none so far */

  /* What it leads. */
  size_t group_count;
  weir_group *groups;
  size_t pausing; /* groups that do */
  bool refills;   /* some key is worth it */
  weir_round round;
  weir_message failure; /* of the first round that failed */
  weir_work work;       /* that is not counted yet: once a call has run, not at every round trip */
  weir_return *returns; /* NULL: the rules have no lease */
  size_t return_count;
  size_t returning;     /* operations of these: the first that are planned */
  weir_status returned; /* WEIR_OK, or why something did not go back */

  /* The waiter's lock guards what follows. */
  weir_waiter *waiter;                 /* the one of its list: that of the first */
  weir_waiter *own_waiter;             /* the store's, as long as there is the limiter */
  const weir_request_state *explained; /* the first that has no answer; else the first that only a
                                policy has one for; else NULL */
  bool explained_has_answer;           /* it is of the second kind */
  weir_message explanation;            /* why the store did not decide it */
} weir_call;

/* Calls that are ready for reuse, so that nothing is allocated per decision. NULL: no memory. NULL is
 * fine to destroy. */
typedef struct weir_idle weir_idle;
weir_idle *weir_idle_create(void);
void weir_idle_destroy(weir_idle *idle);

/* The settlement of a request of its batch. NULL: no memory. */
struct weir_settlement *weir_call_settlement(weir_call *call, const weir_request_state *request);

/* A call with room for `count` requests, from the limiter's idle ones or new. NULL: no memory. */
weir_call *weir_call_acquire(struct weir_limiter *limiter, size_t count);
void weir_call_release(weir_call *call);

/* A request that has been checked joins: what is known already answers it, or it stands in line.
 * Then it belongs to *call, which is acquired only now where it was NULL; without memory for that
 * the request ends in WEIR_NO_MEMORY. The request, and what it points to, must stay until the call
 * has run. */
void weir_call_join(weir_call **call, struct weir_limiter *limiter, weir_request_state *request,
                    weir_moment at);

/* Says which requests joined, and when. */
static inline void weir_call_begin(weir_call *call, weir_request_state *requests, size_t count,
                                   weir_moment at) {
  call->requests = requests;
  call->ask_count = count;
  call->at = at;
  call->deadline_us = call->charge_end_us = INT64_MAX;
  call->monotonic_us = 0;
}

/* The same where it may fit, and its key has been read. */
void weir_call_join_at(weir_call **call, struct weir_limiter *limiter, weir_request_state *request,
                       const weir_key *key, weir_moment at);

/* Answers a request to take or to look by what is known, and else leaves it as it was: false. It joins
 * nothing, and waits for no thread that asks a store. */
bool weir_call_know(struct weir_limiter *limiter, weir_request_state *request, weir_moment at);

/* Whether what is known of its key denies a request, which takes part in nothing and waits for none;
 * else whether it must look before it charges. */
bool weir_call_recall(struct weir_limiter *limiter, weir_request_state *request, weir_moment at,
                      bool *must_look);

/* The request stands in line at a locked entry, and leads where no thread does. */
void weir_call_queue(const struct weir_limiter *limiter, weir_memo_entry *entry,
                     weir_request_state *request);

/* Has every request that joined a call of this list decided, or given a status, by the deadline: that
 * of its head, where one has begun. */
void weir_call_run(weir_call *first);

/* What a machine has taught is handed over with its first groups, and then by eight of them at once. */
static inline bool weir_call_hands_over(unsigned decided) {
  return decided < 8 || decided % 8 == 0;
}

/* --- leading a group (group.c) ------------------------------------------------------------------
 */

/* Takes a group for each request of these calls that has the lead, and decides all of them. */
void weir_call_lead(weir_call *first);

/* Whether what this process knows of a locked entry's key answers the request, without the store.
 */
bool weir_call_answer(struct weir_limiter *limiter, weir_memo_entry *entry,
                      weir_request_state *request, weir_moment at);

/* Gives a key's operations their names: the counters' keys, in `texts`, or their identities where the
 * store takes these. */
void weir_call_name(const struct weir_limiter *limiter, const uint64_t fingerprint[2],
                    const char *encoded, size_t encoded_length, weir_operation *operations,
                    size_t count, char (*texts)[WEIR_COUNTER_KEY_MOST]);

/* Names and sends what these calls have planned, and fills in the outcomes; sends what has its names.
 */
void weir_call_execute(weir_call *first);
void weir_call_send(weir_call *first);

/* --- while a request is under way (call.c) -------------------------------------------------------
 */

/* That of the call's list. What is charged is stamped after the deadline began. */
void weir_call_begin_deadline(weir_call *call);

/* When a pause ends that begins now, as others were faster so many times. */
int64_t weir_call_pause_end_us(unsigned pauses);

static inline bool weir_call_is_out_of_time(const weir_call *call) {
  return call->head->monotonic_us >= call->head->charge_end_us;
}

/* A request's key as stores have it; that of a refill is so already. */
size_t weir_call_encode(const weir_request_state *request, char encoded[WEIR_ENCODED_MOST]);

/* Writes down why the store did not decide a request; `why` may be empty. */
void weir_call_explain(weir_request_state *request, weir_status status, const char *why);

/* Forgets what is known of a key, which no group may be working on. */
void weir_call_forget(struct weir_limiter *limiter, weir_memo_entry *entry);

/* Has what a locked entry denies be found without its lock, or nothing where it denies nothing. */
void weir_call_show_denial(const struct weir_limiter *limiter, weir_memo_entry *entry);

/* Whether a denial that is shown, and still holds, answers the request: without a lock. */
bool weir_call_answer_denied(const struct weir_limiter *limiter, const weir_key *key,
                             weir_moment at, weir_request_state *request);

/* Makes the first who waits at a locked entry its leader, if anyone does. */
void weir_call_pass_lead(const weir_call *call, weir_memo_entry *entry);

/* A request has its answer, or the reason why not. */
void weir_call_finish(const weir_call *call, weir_request_state *request);

/* --- leases (lease.c) --------------------------------------------------------------------------
 *
 * Those that take an entry, or a group's, want its shard locked.
 */

/* A clock that was set back makes times of before mean others, and what was charged then is of no
 * use. */
bool weir_leases_are_void(struct weir_limiter *limiter, const weir_memo_entry *entry);

/* A request came for the key, answered or not: what is asked tells how much to charge ahead. */
void weir_leases_count(struct weir_limiter *limiter, weir_memo_entry *entry,
                       const weir_request_state *request, weir_moment at);

/* One denial in so many is decided under the lock, though it is shown, and counts for all of them.
 * The time alone says which. */
enum { WEIR_LEASES_LOOK = 16 };
static inline bool weir_leases_look(weir_moment at) {
  uint64_t mixed = (uint64_t)at.now_us * UINT64_C(0x9e3779b97f4a7c15);
  return mixed >> 32 <= UINT32_MAX / WEIR_LEASES_LOOK;
}

/* Answers a request from what was charged ahead, or from what is known when that is not enough. */
bool weir_leases_answer(struct weir_limiter *limiter, weir_memo_entry *entry,
                        weir_request_state *request, weir_moment at);

/* Denies a request for which what is held and what is known are not enough. */
bool weir_leases_deny(struct weir_limiter *limiter, weir_memo_entry *entry,
                      weir_request_state *request, int64_t now_us);

/* What a request was admitted for is held again: charged at this time, to these places. */
void weir_leases_return(struct weir_limiter *limiter, weir_memo_entry *entry,
                        const weir_request_state *request);

/* Whether what the key holds covers a settlement of one cost for all rules, charged at at_us: above 0 it
 * is used, below 0 it is put back. Locks the key's entry. */
bool weir_leases_cover(struct weir_limiter *limiter, const weir_request_state *request,
                       int64_t cost);

/* Takes what the key holds for the requests of a group, and settles those that need no more;
 * appends what is to be charged ahead. */
void weir_leases_hold(weir_call *call, weir_group *group, int64_t now_us);

/* The group is decided: what it held is used or free again, what was granted is usable. */
void weir_leases_settle(weir_call *call, weir_group *group);

/* Plans what the keys that this call leads owe, and now and then what a few others do. */
void weir_leases_plan(weir_call *call);

/* Takes in the answers to what was given back, behind the first exec. */
void weir_leases_absorb(weir_call *call);

/* Whether something of the key is on its way back, when the call has no group of it to lead any more. Then
 * its entry stays busy, as others' do: it is given up no sooner than it has the answer. */
bool weir_leases_keep_lead(weir_call *call, const weir_memo_entry *entry);

/* Plans what `most` other keys owe: of the server that has the leader's key, or (NULL) of any. */
void weir_leases_plan_others(weir_call *call, const weir_request_state *leader,
                             weir_leased_look look, size_t most);

/* --- outages (outage.c) ------------------------------------------------------------------------
 *
 * All want the entry's shard locked, and an account.
 */

/* The limiter inside, for continue.c. */
weir_inside weir_outage_inside(const struct weir_limiter *limiter, struct weir_limiter *local);

/* Where the limiter takes another's place, and has no account of the entry's key: the other's, and what
 * that knows of the key. The entry is locked. */
void weir_outage_inherit(struct weir_limiter *limiter, struct weir_limiter *local,
                         weir_memo_entry *entry, const weir_request_state *request, int64_t now_us);

/* What groups have taught, those of the limiter before among them. No entry is locked. */
void weir_limiter_read_pools(struct weir_limiter *limiter, weir_pool pools[WEIR_RULES_MOST]);

/* Leaves the account's periods that are over: what was owed in them is not paid any more. */
void weir_outage_roll(struct weir_limiter *limiter, weir_account *account);

/* Whether a request for which the account has no room is denied by that: for a while after an
 * outage. During it, such a request is made one that only looks. Counts any other. */
bool weir_outage_withholds(struct weir_limiter *limiter, weir_memo_entry *entry,
                           weir_request_state *request, int64_t now_us);

/* Whether a request need not wait for another that finds out whether the store is back: it was away
 * for the key's last request, and has not answered since. Then the account answers it. One of the same
 * call, `earlier` or NULL, goes with it. */
bool weir_outage_goes_past(const weir_memo_entry *entry, const weir_request_state *request,
                           const weir_request_state *earlier);

/* Puts what the key's account owes in front of a group that is about to start. */
void weir_outage_offer(struct weir_limiter *limiter, weir_group *group);

/* The group is decided: what was paid, and what its notes may teach. */
void weir_outage_settle(struct weir_limiter *limiter, weir_group *group);

#endif

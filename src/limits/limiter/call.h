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
 * driver.c is the way of a request, and of the group that its call leads; call.c a call's own life, and
 * what other threads do to it. Whatever else answers, or rides along, is a stand-in: stand_in.h.
 */
#ifndef WEIR_LIMITER_CALL_H
#define WEIR_LIMITER_CALL_H

#include <pthread.h>

#include <weir/backend.h>
#include <weir/limiter.h>

#include "algorithm/algorithm.h"
#include "key/key.h"
#include "limiter/continue.h"
#include "memo/table.h"
#include "metrics/counts.h"
#include "store/store.h"

/* A reading of the limiter's clock. A step of that clock makes it mean another time. */
typedef struct weir_moment {
  int64_t now_us;
  unsigned clock_steps; /* so many the clock had made before */
} weir_moment;

/* Where a request stands in its line. */
typedef enum weir_standing {
  WEIR_STANDING_WAITING,
  WEIR_STANDING_LEADS,
  WEIR_STANDING_TAKEN,
  WEIR_STANDING_DONE
} weir_standing;

/* How a request goes its way. */
typedef enum weir_way {
  WEIR_WAY_ASKS,   /* as any other */
  WEIR_WAY_PROBES, /* it only looks whether the store is back: its account has no room for it */
  WEIR_WAY_PAST,   /* nothing asks the store for it: its status says what was known before */
  WEIR_WAY_AGAIN   /* it was decided too late for what it held, and holds nothing now */
} weir_way;

/* A request that a thread waits for, around its claim. Claims of stand-ins have none. */
typedef struct weir_waiting {
  weir_claim claim; /* first, see weir_waiting_of() */
  struct weir_call *call;
  struct weir_memo_entry *entry; /* there as long as the request waits or leads or is taken */
  struct weir_shard *shard;      /* of the entry, and there for ever */
  _Atomic weir_standing standing;
  weir_way way;
  bool uncounted; /* in: a decision to be counted; out: false where that is done */
  int64_t end_us; /* when its wait for servers was over, weir_monotonic_us(); 0: there was none */
} weir_waiting;

/* Of a claim in a line, or in a group but for those that stand-ins added. NULL is fine. */
static inline weir_waiting *weir_waiting_of(weir_claim *claim) {
  return (weir_waiting *)claim;
}

/* A request that nobody has asked yet. A compiler would set all of it to 0 at once, which takes a processor twice
 * as long as member by member: every take comes by here. */
static inline void weir_waiting_begin(weir_waiting *request, weir_request_kind kind,
                                      const void *key, size_t key_length, int64_t cost) {
  weir_ask *ask = &request->claim.ask;
  weir_verdict *verdict = &request->claim.verdict;
  request->claim.next = NULL;
  ask->kind = kind;
  ask->terms = WEIR_PLAIN;
  ask->alone = ask->up_to = ask->waits = false;
  ask->spares = 0;
  ask->class = 0;
  ask->key = key;
  ask->key_length = key_length;
  ask->cost = cost;
  ask->costs = NULL;
  ask->most = ask->wait_us = ask->limit = ask->tenant_number = ask->weight = ask->at_us = 0;
  ask->ends = ask->places = ask->settlement = NULL;
  verdict->answered = verdict->away = verdict->gone = false;
  verdict->has_room = verdict->in_account = false;
  verdict->denying = 0;
  verdict->status = WEIR_OK;
  verdict->limit = verdict->held = 0;
  verdict->charge = cost;
  verdict->decision = (weir_decision){0};
  request->call = NULL;
  request->entry = NULL;
  request->shard = NULL;
  atomic_init(&request->standing, WEIR_STANDING_WAITING);
  request->way = WEIR_WAY_ASKS;
  request->uncounted = false;
  request->end_us = 0;
}

/* It has its answer, and asks for nothing. */
static inline void weir_waiting_skip(weir_waiting *request) {
  atomic_store_explicit(&request->standing, WEIR_STANDING_DONE, memory_order_relaxed);
}

/* How a group comes to know its key's record (record.h). */
typedef enum weir_record_reads {
  WEIR_RECORD_KNOWN,  /* there is none, or it was read lately */
  WEIR_RECORD_FIRST,  /* it is being read, and the machine starts then */
  WEIR_RECORD_RIDES,  /* it is being read while the machine charges; ... */
  WEIR_RECORD_RODE,   /* ... was, ... */
  WEIR_RECORD_DENIES, /* ... and nothing of it may stay, as its key is blocked, ... */
  WEIR_RECORD_SPARES  /* ... or unlimited */
} weir_record_reads;

/* The requests for one key that this call decides together. */
typedef struct weir_group {
  weir_memo_entry *entry;
  weir_claim *requests;
  weir_machine *machine;
  weir_turn turn;
  unsigned decided; /* groups, by this machine */
  int64_t wake_us;  /* while it pauses: until then, weir_monotonic_us() */
  size_t encoded_length;
  char encoded[WEIR_ENCODED_MOST];
  int64_t starts_us;     /* the stamp of its first round */
  int64_t not_before_us; /* no round is stamped earlier; 0: any may be */
  const weir_memo *memo; /* that it begins with; NULL: with nothing, and nothing is kept of it */
  weir_record_reads reads;
  bool keeps_lead; /* where all of it are answered: another stand-in's answer passes it on */

  /* What stand-ins keep of it. */
  weir_waiting *refill; /* that leads it; NULL: none does */
  weir_claim ahead;     /* what is charged for requests that may come; cost 0: nothing */
  weir_claim payment;   /* for what was admitted without the store: first of the group, if
                                 there is something; of each rule so much was ... */
  int64_t offered[WEIR_RULES_MOST]; /* ... owed and can go with the group, ... */
  weir_payment paid;                /* ... and had room in the store */
} weir_group;

/* What the machines of a call have planned, and what leaves of it at once. */
typedef struct weir_round {
  weir_operation *planned;  /* of this round, all groups; while the answers of one round are ... */
  weir_operation *answered; /* ... read here, the next is planned there: they change places */
  size_t planned_count;
  size_t beside;  /* of what is planned, the first that are a stand-in's, of no group */
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

  /* Of a list, its head's: its caller looks at what each round has brought, and may plan more; or NULL. */
  void (*behind_round)(struct weir_call *first);
  bool looks_last; /* likewise: behind all that goes back in the same round */

  /* Of a list, its head's. All by weir_monotonic_us(). A deadline that has not begun is INT64_MAX,
   * and so is charge_end_us then. */
  int64_t deadline_us;
  int64_t charge_end_us; /* nothing is read or charged from here on; the rest is for giving back */
  int64_t monotonic_us;  /* when the call last did anything but wait, or before */

  size_t room; /* requests and groups there is memory for */
  size_t ask_count;
  weir_waiting *requests;              /* its caller's, or those of its own batch */
  weir_waiting *batch;                 /* memory for a caller who has none */
  struct weir_settlement *settlements; /* of these, by place; NULL: there were none so far */

  /* What it leads. */
  size_t group_count;
  weir_group *groups;
  size_t pausing; /* groups that do */
  weir_round round;
  weir_message failure; /* of the first round that failed */
  weir_work work;       /* that is not counted yet: once a call has run, not at every round trip */
  void *own;            /* of the stand-in that knows, which says how much; NULL: nothing */

  /* The waiter's lock guards what follows. */
  weir_waiter *waiter;           /* the one of its list: that of the first */
  weir_waiter *own_waiter;       /* the store's, as long as there is the limiter */
  const weir_waiting *explained; /* the first that has no answer; else the first that only a
                                policy has one for; else NULL */
  bool explained_has_answer;     /* it is of the second kind */
  weir_message explanation;      /* why the store did not decide it */
} weir_call;

/* Calls that are ready for reuse, so that nothing is allocated per decision. NULL is fine to destroy. */
typedef struct weir_idle weir_idle;
void weir_idle_destroy(weir_idle *idle);

/* The settlement of a request of its batch. NULL: no memory. */
struct weir_settlement *weir_call_settlement(weir_call *call, const weir_waiting *request);

/* A call with room for `count` requests, from the limiter's idle ones or new. NULL: no memory. */
weir_call *weir_call_acquire(struct weir_limiter *limiter, size_t count);
void weir_call_release(weir_call *call);

/* A request that has been checked joins: what is known already answers it, or it stands in line.
 * Then it belongs to *call, which is acquired only now where it was NULL; without memory for that
 * the request ends in WEIR_NO_MEMORY. The request, and what it points to, must stay until the call
 * has run. */
void weir_call_join(weir_call **call, struct weir_limiter *limiter, weir_waiting *request,
                    weir_moment at);

/* Says which requests joined, and when. */
static inline void weir_call_begin(weir_call *call, weir_waiting *requests, size_t count,
                                   weir_moment at) {
  call->requests = requests;
  call->ask_count = count;
  call->at = at;
  call->deadline_us = call->charge_end_us = INT64_MAX;
  call->monotonic_us = 0;
}

/* Puts a call behind the last of a list, or makes it the first; returns where the next goes. */
static inline weir_call **weir_call_list(weir_call **first, weir_call **link, weir_call *call) {
  *link = call;
  call->head = *first;
  call->waiter = (*first)->own_waiter;
  return &call->also;
}

/* The same where it may fit, and its key has been read. */
void weir_call_join_at(weir_call **call, struct weir_limiter *limiter, weir_waiting *request,
                       const weir_key *key, weir_moment at);

/* The request stands in line at a locked entry, and leads where no thread does. */
void weir_call_queue(const struct weir_limiter *limiter, weir_memo_entry *entry,
                     weir_waiting *request);

/* Has every request that joined a call of this list decided, or given a status, by the deadline: that
 * of its head, where one has begun. */
void weir_call_run(weir_call *first);

/* What a machine has taught is handed over with its first groups, and then by eight of them at once. */
static inline void weir_call_learn(const weir_stack *stack, weir_shard *shard,
                                   weir_machine *machine, unsigned decided) {
  if (decided < 8 || decided % 8 == 0)
    weir_shard_learn(shard, machine->lessons, stack->count, machine->frame.now_us);
}

/* A take that is decided under the lock of its shard is counted by it: one addition. False: who asked counts
 * it, or it was no take. */
static inline bool weir_call_count(weir_shard *shard, weir_waiting *request) {
  if (!request->uncounted) return false;
  weir_shard_count(shard, request->claim.verdict.decision.allowed);
  request->uncounted = false;
  return true;
}

/* --- leading a group (driver.c) -----------------------------------------------------------------
 */

/* Of no group, so far. */
static inline void weir_call_clear(weir_call *call) {
  call->group_count = call->pausing = 0;
  call->round.planned_count = call->round.beside = 0;
  call->failure.text[0] = '\0';
}

/* Takes a group for each request of these calls that has the lead, and decides all of them. */
void weir_call_lead(weir_call *first);

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
size_t weir_call_encode(const weir_waiting *request, char encoded[WEIR_ENCODED_MOST]);

/* Writes down why the store did not decide a request; `why` may be empty. */
void weir_call_explain(weir_waiting *request, weir_status status, const char *why);

/* Forgets what is known of a key, which no group may be working on. */
void weir_call_forget(struct weir_limiter *limiter, weir_memo_entry *entry);

/* Makes the first who waits at a locked entry its leader, if anyone does. */
void weir_call_pass_lead(const weir_call *call, weir_memo_entry *entry);

/* Cost: the most that a group charges which begins with this request. Its entry is locked. Another limit of the
 * key may show before it starts, or with its charge. */
int64_t weir_group_most(const struct weir_limiter *limiter, const weir_group *group,
                        const weir_claim *first);

/* A request has its answer, or the reason why not. */
void weir_call_finish(const weir_call *call, weir_waiting *request);

#endif

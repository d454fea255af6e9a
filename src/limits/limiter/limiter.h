/* Inside a limiter. The files of this folder, in the order a request passes them:
 *
 *     limiter.c   a limiter's own life
 *     options.c   the caller's options, read once
 *     warning.c   what the caller should know of them, and of other limiters on the store
 *     wait.c      public entry point of those who sleep until they are admitted
 *     reserve.c   public entry points of reservations
 *     reserved.c  which reservations are open
 *     place.c     what is held, by key: entering, believing, leaving, handing on
 *     renew.c     what is done before it is needed, by a thread of its own or the caller's loop
 *     pay.c       paying again for what is held
 *     end.c       public entry points of those who pay what it really was, and of those who give back
 *     request.c   public entry points of one request; has it decided
 *     check.c     what a caller may ask for
 *     many.c      public entry points of many requests, each of which has an answer of its own
 *     all.c       public entry points of several that are one decision: all are charged, or none
 *     clock.c     now, with the guard; sleeping
 *     known.c     what answers without the store; denials
 *     here.c      one request on a store in this process: decided where it stands
 *     driver.c    joining the line of a key, waiting there; taking a group off it, its rounds
 *     record.c    the limit of a key, as it was set: reading it beside a group
 *     limits.c    public entry points of those who set it
 *     lease.c     lots, which were charged ahead: using them, charging them
 *     refill.c    refilling lots that run out; giving back what has ended
 *     call.c      calls for reuse; what other threads do to their requests
 *     account.c   the answer of the limiter's policy where the store gave none, and what follows
 *     inherit.c   public entry point of one that takes another's place, and goes on where that is
 *     continue.c  what a policy says, and what is done with a key's account: without locks
 */
#ifndef WEIR_LIMITER_LIMITER_H
#define WEIR_LIMITER_LIMITER_H

#include <stdatomic.h>

#include <weir/limiter.h>

#include "algorithm/view.h"
#include "key/key.h"
#include "limiter/call.h"
#include "limiter/renew.h"
#include "limiter/stand_in.h"
#include "memo/leased.h"
#include "memo/table.h"
#include "metrics/counts.h"
#include "rule/rule.h"
#include "store/process.h"
#include "store/store.h"

typedef struct weir_prefix {
  size_t length;
  uint64_t hash[2]; /* under the store's secret */
  const char *text; /* in the limiter's `prefix_texts` */
} weir_prefix;

/* Of one request under one rule. */
#define WEIR_COST_MOST (INT64_C(1) << 31)

enum { WEIR_WARNINGS_MOST = 20 }; /* more than there are reasons for, two of them for each rule */
enum { WEIR_RESERVED_BUCKETS = 32 };
enum { WEIR_DIRECT_MOST = 16 }; /* threads that decide under a lock at once; more of them join */
enum { WEIR_MEMO_KEYS_DEFAULT = 16384, WEIR_MEMO_KEYS_MOST = 1 << 24 };

struct weir_limiter {
  weir_store *store;
  char *text; /* in which rules find their names; NULL: another's, which lives longer */
  weir_settings settings;
  weir_clock clock;
  int64_t deadline_us;
  size_t memo_keys; /* as the options say; else set by weir_limiter_finish() */

  /* Cost: the most that a group charges, of keys and requests without a limit of their own. What is denied goes
   * back, so more than fits is charged in vain. Where denied requests stay charged all of them may as well go
   * together; no rule with lanes is among those. */
  int64_t group_most;
  bool held;       /* some rule's places are held */
  bool shared;     /* the rule divides its limit: every request names a tenant */
  bool one_by_one; /* every request is a group of its own: always under a log */

  /* Of one request, by rule; 1 under a log, which has entries for them. */
  int64_t cost_most[WEIR_RULES_MOST];
  size_t steered;      /* weir_stack_steered() */
  int64_t limit_least; /* weir_rule_limit_least() of that rule */
  atomic_bool limited; /* some request has a limit of its own, or keys have */
  int64_t limits_us;   /* how old the record of a key may be; 0: keys have none */
  bool absent_denies;  /* a key without one is denied */
  bool may_spare;      /* a key may be unlimited under the steered rule */

  /* What costs more under `widest` never fits, of requests without a limit of their own: it is `stack`, or
   * the other, which has the largest limit that a key may have. */
  const weir_stack *widest;
  weir_stack *limited_most;
  int64_t plain_cost_most; /* the least of `cost_most`, ... */
  int64_t capacity_least;  /* ... and of all rules: what costs more never fits */
  weir_prefix prefixes[WEIR_RULES_MOST];
  char *prefix_texts;
  weir_table *table;
  const weir_denials_place *denials; /* the table's */
  const weir_stand_in *known;        /* of denials, or of lots */
  const weir_stand_in *other;        /* of accounts */
  /* The driver starts a group as it comes: nothing of it is read or shared first, nor added but by an account. */
  bool bare_groups;
  bool direct; /* one request needs no line, and no pool: here.c, whose are ... */
  struct weir_direct *_Atomic directs[WEIR_DIRECT_MOST]; /* ... these; NULL: not needed so far */
  bool leases; /* the rules have a lease, and it is used: then the next two mean something */
  weir_lease lease;
  weir_leased_line leased;
  bool refills;                /* lots that run out, on stores that are waited for */
  _Atomic int64_t refilled_us; /* weir_monotonic_us(): a lot was due, ... */
  _Atomic int64_t renewed_us;  /* ... and who renews looked */
  bool renews;                 /* there is a renewer: for that, and for places */
  weir_renewer renewer;
  struct weir_places *places;         /* NULL: no rule is held; else ... */
  bool hands_on;                      /* ... all are, and what one leaves is another's, and ... */
  bool caller_renews;                 /* ... no thread does */
  char *warnings[WEIR_WARNINGS_MOST]; /* its own */
  size_t warning_count;
  weir_store_use uses[WEIR_RULES_MOST]; /* of the store, by rule: of its counts, ... */
  weir_store_use kin[WEIR_RULES_MOST];  /* ... and of its limit, whatever the layout of these */

  /* Of the rules, and behind them what several logs mean, for `uses`. */
  char *texts[WEIR_RULES_MOST + 1];
  weir_counts *counts;
  unsigned process; /* that created it: weir_process_number */

  weir_fallback fallback;
  weir_peers peers;
  weir_limiter *_Atomic local; /* that counts for accounts (account.c); NULL: not needed so far */
  weir_lock before_lock;       /* guards the next; */
  weir_limiter *before;        /* whose place this one takes (inherit.c); NULL: none's */

  int64_t held_back_us;      /* the clock guard's: the largest backward step that is held back, */
  int64_t grain_us;          /* and how often it writes down the time, by what clocks may differ */
  atomic_uint clock_steps;   /* backward steps that were followed */
  _Atomic int64_t latest_us; /* the clock guard's */
  weir_idle *_Atomic idle;   /* NULL: no call was needed so far */

  pthread_mutex_t reserved_mutex;                    /* guards the next; */
  weir_reservation *reserved[WEIR_RESERVED_BUCKETS]; /* open ones, by where their decision is */
  weir_stack stack; /* last: there is room for as many rules as it has */
};

/* A limiter with room for so many rules, all of it 0. NULL: no memory. */
weir_limiter *weir_limiter_allocate(size_t rules);

/* Reads the given options (NULL: all defaults) into the limiter. `store_timeout_us` is the default
 * deadline. *processes goes to the layout. WEIR_BAD_ARGUMENT names the member and what is accepted.
 */
weir_status weir_limiter_configure(weir_limiter *limiter, const weir_limiter_options *given,
                                   int64_t store_timeout_us, uint32_t *processes,
                                   weir_message *message);

/* WEIR_BAD_RULE where the store lacks what some rule needs, or the options leave it no time. */
weir_status weir_limiter_check_store(const weir_limiter *limiter, weir_message *message);

/* WEIR_BAD_RULE where keys are to have limits, and the rules have none that can be theirs. */
weir_status weir_limiter_check_limits(const weir_limiter *limiter, weir_message *message);

/* WEIR_OK, or WEIR_BAD_KEY: a key has 1 byte or more. */
weir_status weir_check_key(const void *key, size_t length, weir_message *message);

/* WEIR_OK, or what is wrong with a caller's request, or with what it says beside it (NULL: nothing), with a
 * message that names it and what is accepted. A reset's key is checked as that of a peek of cost 1. Under rules whose places are held
 * only a peek is accepted: a reservation is checked as one. */
weir_status weir_request_check_all(weir_limiter *limiter, const weir_request *request,
                                   const weir_extra *extra, weir_message *message);

/* Most requests have a key and one cost that every rule accepts, and nothing else. */
static inline bool weir_request_is_plain(const weir_limiter *limiter, const void *key,
                                         size_t key_length, int64_t cost) {
  return limiter->process == weir_process_number && key != NULL && key_length > 0 && cost >= 1 &&
         cost <= limiter->plain_cost_most;
}

/* Whether it is one that weir_limiter_take() could make. */
static inline bool weir_request_is_take(const weir_limiter *limiter, const weir_request *request) {
  return weir_request_is_plain(limiter, request->key, request->key_length, request->cost) &&
         request->costs == NULL && request->flags == 0 && request->longest_wait_us == 0;
}

static inline weir_status weir_request_check(weir_limiter *limiter, const weir_request *request,
                                             const weir_extra *extra, weir_message *message) {
  return extra == NULL && weir_request_is_take(limiter, request)
             ? WEIR_OK
             : weir_request_check_all(limiter, request, extra, message);
}

/* Checks one request, has it decided and counted; it gets its status and decision. */
weir_status weir_request_decide(weir_limiter *limiter, weir_request *request,
                                const weir_extra *extra, weir_message *message);

/* What a checked request asks for. Its key, costs and tenant must stay as long as the request is in use. */
void weir_request_begin(const weir_limiter *limiter, const weir_request *request,
                        const weir_extra *extra, weir_waiting *state);

/* Whether it never fits, whatever limits its key may have: then it is answered. Most fit by one look. */
bool weir_limiter_may_never(const weir_limiter *limiter, int64_t now_us, weir_claim *request);
static inline bool weir_limiter_never(const weir_limiter *limiter, int64_t now_us,
                                      weir_claim *request) {
  const weir_ask *ask = &request->ask;
  if (ask->cost > limiter->capacity_least || ask->costs != NULL || ask->up_to || ask->class != 0 ||
      ask->limit != 0)
    return weir_limiter_may_never(limiter, now_us, request);
  request->verdict.charge = ask->cost - request->verdict.held;
  return false;
}

/* What it was decided, as its caller is told it: for costs of its own also where they came to one. */
static inline void weir_request_tell(weir_request *request, const weir_verdict *verdict) {
  if (verdict->status != WEIR_OK) return;
  request->decision = verdict->decision;
  if (request->costs != NULL) request->decision.cost = WEIR_OWN_COSTS;
}

/* What a checked request says of itself beside that. */
void weir_request_say(const weir_limiter *limiter, const weir_extra *extra, weir_ask *ask);

/* Of the i-th of several requests; NULL: it says nothing. */
static inline const weir_extra *weir_extra_of(const weir_extra *const *extras, size_t i) {
  return extras != NULL ? extras[i] : NULL;
}

/* WEIR_OK in the process that created the limiter. Comes before anything that locks. */
static inline weir_status weir_limiter_check_process(const weir_limiter *limiter,
                                                     weir_message *message) {
  return weir_process_check(limiter->process, "the limiter", message);
}

/* Whether their calls can be one list. */
static inline bool weir_limiter_goes_with(const weir_limiter *limiter, const weir_limiter *other) {
  return limiter->store == other->store && limiter->deadline_us == other->deadline_us;
}

/* Of several at once: whether there are 1 to `most` (WEIR_BATCH_MOST or WEIR_ALL_MOST); and none of their limiters is
 * NULL, unless all of it is. */
weir_status weir_check_many(weir_limiter *const *limiters, size_t count, size_t most,
                            weir_message *message);
weir_status weir_limiters_check(weir_limiter *const *limiters, size_t count, weir_message *message);

/* Of several that are one decision: whether all of them can be asked; *bad is else the first that cannot. */
weir_status weir_all_check(weir_limiter *const *limiters, const weir_request *requests,
                           const weir_extra *const *extras, size_t count, size_t *bad,
                           weir_message *message);

/* Whether something of what a request charges cannot go back. */
bool weir_charge_may_stay(const weir_limiter *limiter, bool waits);

void weir_limiter_destroy_local(weir_limiter *limiter);

/* Add what there is to warn of; a warning beyond WEIR_WARNINGS_MOST is dropped. False: no memory. */
bool weir_limiter_warn_of_long_deadline(weir_limiter *limiter);
bool weir_limiter_warn_of_short_cells(weir_limiter *limiter);
bool weir_limiter_warn_of_short_leases(weir_limiter *limiter);
void weir_limiter_clean_up_warnings(weir_limiter *limiter);

/* Makes its rules known to others on the store. Warns of those whose counts are shared, and of those
 * whose layout keeps them from it. False: no memory; rules that were entered can leave. */
bool weir_limiter_enter_store(weir_limiter *limiter);

void weir_limiter_leave_store(weir_limiter *limiter);

/* A limiter with the parsed rules of `made`, which has all that options say. Frees it on error. */
weir_status weir_limiter_finish(weir_limiter *made, weir_message *message);

/* What is known of a key at a moment. */
static inline weir_view weir_limiter_view(const weir_limiter *limiter, const weir_memo *memo,
                                          int64_t now_us) {
  return (weir_view){&limiter->stack, &limiter->settings, memo, now_us};
}

/* Whether the policy answers a request that ended in this status. */
static inline bool weir_limiter_has_answer(const weir_limiter *limiter, const weir_waiting *request,
                                           weir_status status) {
  bool probes = request->way == WEIR_WAY_PROBES;
  if (status == WEIR_OK) return probes;
  return (request->claim.ask.kind == WEIR_TAKE || probes || request->way == WEIR_WAY_PAST) &&
         weir_policy_answers(limiter->fallback, status);
}

/* Answers by the policy a request that the store failed to answer. The message, if not NULL, says
 * why it did; what the policy has to say is added. */
void weir_limiter_fall_back(weir_limiter *limiter, weir_waiting *request, weir_message *message);

/* Gives back to the account what the policy LOCAL admitted, a request with a cost per rule. `owed`: it
 * was not sent to the store. rest[] is what goes back to the store, as it was paid to that meanwhile,
 * by the stamp *paid_us; 0 without an account. WEIR_BAD_COST: there is none, and what was admitted may
 * still count. */
weir_status weir_outage_give_back(weir_limiter *limiter, const weir_claim *request, bool owed,
                                  int64_t rest[WEIR_RULES_MOST], int64_t *paid_us);

/* Charges to the account what requests that were admitted before cost on top of that, once the store
 * failed to answer this one: costs[] of 0 and more, by rule. False: there is no account for it, and
 * none can be made. */
bool weir_outage_charge(weir_limiter *limiter, const weir_waiting *request, const int64_t *costs);

/* Decides one request under the lock of its key, in a limiter that is `direct`. False: it could not,
 * and the request is as open as it was; it may have paused, and *at is a later moment then. Else it
 * is answered; the message says why, where it has no answer. */
bool weir_direct_answer(weir_limiter *limiter, weir_waiting *request, const weir_key *key,
                        weir_moment *at, weir_message *message);
void weir_direct_clean_up(weir_limiter *limiter);

/* Has one request answered, alone in its call, by the store or the policy; returns its status. */
weir_status weir_limiter_answer(weir_limiter *limiter, weir_waiting *request,
                                weir_message *message);

/* WEIR_NO_MEMORY, and says so. */
static inline weir_status weir_no_memory(weir_message *message) {
  weir_message_set(message, "%s", weir_status_text(WEIR_NO_MEMORY));
  return WEIR_NO_MEMORY;
}

/* Where this process finds what it knows of what is asked for: a key, or one tenant of it. */
static inline void weir_limiter_find(const weir_limiter *limiter, const weir_ask *ask,
                                     weir_key *key) {
  const unsigned char *secret = limiter->store->secret;
  if (ask->tenant_number == 0)
    weir_key_read(secret, ask->key, ask->key_length, key);
  else
    weir_key_read_tenant(secret, ask->key, ask->key_length, ask->tenant_number, key);
}

/* The entry of a key, its shard locked. NULL, and nothing locked, when there is no memory. */
static inline weir_memo_entry *weir_limiter_lock(const weir_limiter *limiter, const void *bytes,
                                                 size_t length) {
  weir_key key;
  weir_key_read(limiter->store->secret, bytes, length, &key);
  return weir_table_lock(limiter->table, &key);
}

/* Whether the clock was set back since the entry's memo was begun: times of before mean others now, and what
 * was charged then is of no use. */
static inline bool weir_limiter_is_stale(const weir_limiter *limiter,
                                         const weir_memo_entry *entry) {
  return entry->clock_steps != atomic_load_explicit(&limiter->clock_steps, memory_order_relaxed);
}

/* The same of a key that has been read; what is known of it is forgotten where the clock was set back since. */
static inline weir_memo_entry *weir_limiter_lock_known(weir_limiter *limiter, const weir_key *key) {
  weir_memo_entry *entry = weir_table_lock(limiter->table, key);
  if (entry == NULL) return NULL;
  if (!entry->busy && weir_limiter_is_stale(limiter, entry)) weir_call_forget(limiter, entry);
  return entry;
}

/* Whether its key is known to be blocked, or unlimited, which answers the request. */
bool weir_record_recall(const struct weir_limiter *limiter, const weir_memo_entry *entry,
                        weir_claim *request, int64_t now_us);

/* Whether what this process knows of a locked entry's key answers the request. */
static inline bool weir_limiter_recall(weir_limiter *limiter, weir_memo_entry *entry,
                                       weir_waiting *request, weir_moment at) {
  return (entry->stand_ins & WEIR_KNOWS && limiter->known->answer(limiter, entry, request, at)) ||
         (limiter->limits_us > 0 && weir_record_recall(limiter, entry, &request->claim, at.now_us));
}

/* One shown denial in so many is decided under the lock, where what is asked is counted there, and counts for
 * all of them. The time alone says which. */
enum { WEIR_LEASES_LOOK = 16 };
static inline bool weir_leases_look(weir_moment at) {
  uint64_t mixed = (uint64_t)at.now_us * UINT64_C(0x9e3779b97f4a7c15);
  return mixed >> 32 <= UINT32_MAX / WEIR_LEASES_LOOK;
}

/* Whether there may be a denial to be read without a lock. */
static inline bool weir_limiter_has_denial(const weir_limiter *limiter, const weir_key *key,
                                           weir_moment at) {
  return weir_denials_has(limiter->denials, key) && !(limiter->leases && weir_leases_look(at));
}

/* Gives operations on a key their identities, in a store that takes these. */
static inline void weir_limiter_identify(const weir_limiter *limiter, const uint64_t fingerprint[2],
                                         weir_operation *operations, size_t count) {
  for (size_t n = 0; n < count; n++) {
    const weir_counter *counter = &operations[n].counter;
    weir_key_identify(fingerprint, limiter->prefixes[counter->rule].hash, counter->place,
                      counter->index, counter->entry, operations[n].identity);
  }
}

/* Sets the guard's limits by the clock error. */
void weir_limiter_guard_clock(weir_limiter *limiter);

/* The injected clock, kept within its range, small backward steps held back. */
int64_t weir_limiter_now(weir_limiter *limiter);
weir_moment weir_limiter_moment(weir_limiter *limiter);

/* weir_monotonic_us() as it was at that moment, or a little before. Where that cannot be told, both
 * clocks are read anew. */
int64_t weir_limiter_monotonic(weir_limiter *limiter, weir_moment *at);

/* The clock of a limiter that was given none: CLOCK_REALTIME. */
int64_t weir_real_time_us(void *context);

/* The last moment that a clock may show: the end of year 9999. */
#define WEIR_TIME_MOST_US INT64_C(253402300799999999)

/* Sleeps until weir_monotonic_us() is that far, whatever signals come. */
void weir_sleep_until(int64_t monotonic_us);

#endif

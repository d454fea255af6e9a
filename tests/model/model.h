/* The model: a store, one real time, and clients that run the real machines of src/limits/algorithm.
 *
 *     scope + mutant ──> world ──> steps that may come next ──> explore every order of them
 *                          │
 *                          └──> what is true, and checks after every step
 *
 * The state is one block of memory, saved and restored in place: machines hold pointers into
 * themselves. README.md says what is explored and what is checked.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "algorithm/view.h"
#include "memo/account.h"
#include "memo/lease.h"

enum {
  CLIENTS_MOST = 3,
  REQUESTS_MOST = 4,
  GROUP_MOST = 2, /* wanted in one request */
  RULES_MOST = 3,
  CLASSES_MOST = 2,
  CELLS_MOST = 16, /* cells of a window that a run may touch */
  KEYS_MOST = 36,  /* of the store */
  ORPHANS_MOST = 4,
  PAUSES_MOST = 3, /* of one request */
  PAST_MOST = 4,   /* limits that a key had */
  INSTANTS_MOST = 12,
  BEFORE_MOST = 6,
  WANTED_MOST = CLIENTS_MOST * REQUESTS_MOST * GROUP_MOST,
  RECORDS_MOST = WANTED_MOST + BEFORE_MOST + GROUP_MOST, /* one bit each in a uint32_t */
  RANGES_MOST = 64,
  STEPS_MOST = 64 /* that may come next in one state */
};

/* Every process is off by at most d, and is done D after its clock read: e = 2d + D. Nobody's D is
 * longer, one client's may be shorter: x = e but for that one. */
enum {
  SKEW_US = 4,
  DEADLINE_US = 8,
  HASTY_US = 2,
  MARGIN_US = 2 * SKEW_US + DEADLINE_US,
  FINAL_US = MARGIN_US,
  REPEAT_US = 10,
  LONGEST_WAIT_US = 100000,
  WRONG_US = 24,
  EPOCH_US = 336 /* T of what is in flight: 21 (2d + D), so that G = 21 and R = 50 */
};

enum scope_flag {
  CACHED_CELLS = 1 << 0,
  LOCAL_DENIAL = 1 << 1,
  CRASH = 1 << 2,      /* one client may stop for ever */
  EVICTION = 1 << 3,   /* one key may vanish */
  LOSS = 1 << 4,       /* one round may get no answer, and land at any later time or never */
  LATE = 1 << 5,       /* answers may come after the deadline */
  OVERDUE = 1 << 6,    /* and operations may land after it */
  UNEVEN = 1 << 7,     /* a period that the cells do not divide */
  RAISES = 1 << 8,     /* a store with RAISE; else with SWAP */
  UNTOLD = 1 << 9,     /* SWAP and CREATE do not answer with the new version */
  EPOCH = 1 << 10,     /* the edge is where a bucket's first epoch ends */
  DELIVERY = 1 << 11,  /* all clocks are right, and enough must be admitted */
  DEEP = 1 << 12,      /* explored with --deep only */
  LIVES = 1 << 13,     /* checks how long keys have to live after every charge */
  STALE = 1 << 14,     /* a thread may read the clock, and ask only after another has its answer */
  SET_BACK = 1 << 15,  /* the leader's clock is wrong by WRONG_US until it is set back */
  CLUSTER = 1 << 16,   /* of two nodes; the slot of all keys may move from one to the other */
  LAGS = 1 << 17,      /* the late client's clock is wrong, and late by WRONG_US */
  TEXTS = 1 << 18,     /* one client has a text in which each limit is most=, or one more */
  OUTAGES = 1 << 19,   /* each client may be cut off, and be back, at any step */
  LEARNS = 1 << 20,    /* shares are learnt; else each of two has a half */
  DEADLINES = 1 << 21, /* the leader's deadline is HASTY_US */
  FLUSH = 1 << 22,     /* all keys may vanish at once */
  STICKY =
      1 << 23, /* keys came to one client each, this one to none; each knows that there are two */
  ABSENT_DENIES = 1 << 24 /* a key without a record is blocked */
};

struct charge {
  int64_t stamp_us; /* the charging client's clock, relative to the edge */
  int64_t cost;
  char tenant; /* of a shared window */
};

/* What is explored: everything that these clients can do, in every order. */
struct scope {
  const char *name;
  const char *rules;
  uint32_t processes; /* what the storage layout is chosen for */
  int64_t edge_cell;  /* instants are relative to where this cell of the first rule begins; 0: 40 */
  const char *changed;                /* with TEXTS: what one client has in the place of `rules` */
  const char *requests;               /* requests.c says how they are written */
  int64_t instants_us[INSTANTS_MOST]; /* end where they stop growing */
  struct charge before[BEFORE_MOST];  /* taken before the run, by a client that is right */
  unsigned flags;
  uint64_t secret;     /* of the chances of accounts */
  int64_t lease_us;    /* of every rule; 0: nothing is leased */
  int64_t delivers;    /* at least so much must be admitted, where there are no faults */
  int64_t memo_age_us; /* 0: longer than any run */
  int64_t limits_us;   /* how old a record of a key may be; 0: keys have none */
  int64_t rest_us;     /* a client asks again only so long after its last round */
};

/* --- what is asked -----------------------------------------------------------------------------
 */

enum wish {
  TAKES,
  PEEKS,
  REFUNDS,
  CANCELS,
  LEASES,
  RETURNS,
  SETTLES,
  RENEWS,
  REFILLS,
  NEXTS,
  SETS
};

struct wanted {
  enum wish wish;
  int64_t cost;
  int64_t costs[WEIR_RULES_MOST]; /* for each rule, where own_costs */
  int64_t wait_us;
  int64_t limit; /* its own; SETS: as the store has it */
  unsigned class;
  bool given, own_costs, up_to, waits;
};

struct request {
  struct wanted wanted[GROUP_MOST];
  int64_t lease; /* charged ahead with them */
};

/* What became of one request. */
/* ALLOWED: by its client's account, without the store. */
enum state { NOT_ASKED, OPEN, ADMITTED, DENIED, FAILED, GIVEN_BACK, DONE, ALLOWED, SETTLED };

struct record {
  int64_t stamp_us; /* of the decision; while open, of the latest round */
  int64_t delay_us;
  int64_t mark[RULES_MOST]; /* quota: the window charged; bucket: the units that a refund gave back;
                           in flight: the end of what is paid */
  int64_t remaining, retry_after_us, reset_after_us;
  int32_t cost[RULES_MOST]; /* SETTLES: what is to be charged */
  int32_t less[RULES_MOST]; /* of the cost: what a settlement gives back; SETTLES: what it cut */
  int32_t more[RULES_MOST]; /* what settlements have charged of it, by ADD, and not taken off */
  uint32_t after;           /* those that had their answer when this one was asked, one bit each */
  int32_t held;   /* of the cost: what its client had charged before; LEASES: what it got less */
  int32_t lag_us; /* how much the stamp that was told is before the use */
  int32_t limit;  /* where limits differ: its own; ADMITTED: the most that may have judged it */
  uint8_t state;
  uint8_t wish;
  uint8_t class;
  uint8_t of;    /* refunds, settlements: which record, and what was done to this one; from 1 */
  bool may_stay; /* what it charged may stay for ever: no answer, or its client has stopped */
  bool charged;  /* some of it has landed */
  bool known;    /* of an outage's client: from before the outage began */
  bool beside;   /* ADMITTED while its client's account held its share */
  bool unsure;   /* ALLOWED: it was sent, so that the store may have it */
};

/* --- the world ---------------------------------------------------------------------------------
 */

/* A key of the store, in the order of rule, place, index and entry. */
struct key {
  int64_t index, entry;
  int64_t value;
  uint64_t version;              /* how often it was written; goes on when the key is gone */
  int64_t lives_until_us;        /* with LIVES, of raised keys: real time; 0: for ever */
  int32_t owed;                  /* counts: what it must hold */
  int32_t charged[CLIENTS_MOST]; /* counts: by the request under way */
  int32_t seen[CLIENTS_MOST];    /* counts: the most that others had in it during this request */
  uint8_t rule, place;
  bool used, present, raised;
  bool away; /* in a cluster: on the node to which the slot moves */
};

/* An operation on its way. */
struct sent {
  weir_operation operation;
  bool half;             /* a RAISE that has raised and not yet added */
  bool asking;           /* in a cluster: behind ASKING, ... */
  uint8_t command, node; /* ... which command of the operation, and where it goes */
  uint8_t settles;       /* which record; from 1 */
};

/* Of a request: what the classes above each may have used of what is kept for it, and how many of its rounds
 * met what lower ones were charged, which may go back. */
struct above {
  int32_t used[RULES_MOST][CLASSES_MOST];
  int16_t rounds;
  bool met; /* in this round */
  bool looked;
  int32_t padding;
};

/* A client that leases. */
struct wallet {
  weir_claim request;       /* of the lease; its cost is 0 where none is asked for */
  int64_t ahead;            /* what was granted of it, ... */
  int64_t ahead_us;         /* ... with this stamp */
  int64_t early_us;         /* the clock as another thread has read it; 0: none did */
  weir_lot returning[2];    /* on their way back in this round */
  int64_t places[2];        /* where they were charged */
  int32_t held[GROUP_MOST]; /* by the requests of the group */
  uint32_t again;           /* those that must ask again, one bit each */
  int32_t early_for;        /* which request that thread has */
  bool reported;            /* what became of the lease */
};

struct client {
  weir_memo *memo;
  struct outage *outage; /* outage.h; NULL: no outages */
  weir_account *account;
  weir_memo *inside;     /* of the limiter inside */
  struct wallet *wallet; /* with the stock right behind it; NULL: no leases */
  weir_stock *stock;
  weir_machine *machine;      /* zero while not busy, as are ... */
  weir_operation *operations; /* ... those of its round, right behind it */
  weir_claim requests[GROUP_MOST];
  int64_t ends[WEIR_RULES_MOST]; /* of the last take */
  int64_t owing[RULES_MOST];     /* what a settlement asks for, ... */
  int64_t settled[RULES_MOST];   /* ... and what it was told */
  int64_t renewed[RULES_MOST];   /* under each rule, by the renewal under way */
  int64_t deadline_us;           /* real time */
  int64_t lands_by_us;           /* the operations of this round land by then; real time */
  int64_t start_us;              /* its clock when this request began */
  int64_t from_us;               /* it charges the window that begins then; 0: that of its clock */
  int64_t round_us;              /* its clock when this round began */
  int64_t denied_us;             /* its clock when the store last denied it */
  int64_t charged[RULES_MOST];   /* windows: landed, not taken back, not decided */
  int64_t charged_cell[RULES_MOST];
  uint32_t denied_after; /* what was answered before the request that was denied */
  int32_t next_request;
  int32_t first_record; /* of its present request */
  int32_t landed;       /* operations of this round */
  int32_t returns;      /* the first of them give back leases; then come the machine's */
  uint8_t last_taken;   /* record, from 1 */
  bool half;            /* the RAISE that lands now has raised */
  bool busy, paused, crashed, late, lost;
  uint8_t reads; /* the key's record: enum weir_record_reads */
  int32_t found; /* where limits differ: what its cell held with its charge */

  /* What steps of others may change, too. */
  uint64_t met;                         /* rules whose log others wrote during this request */
  struct above above;                   /* where there are classes */
  int32_t seen[RULES_MOST][CELLS_MOST]; /* the most that others had in a cell during this request */
};

/* In the place of a key's limit: it is unlimited. More than any run asks for. */
enum { KEY_UNLIMITED = 1 << 20 };

/* A limit that the key had until then. INT64_MAX: it was lost, and who knew of it believes it on. */
struct past {
  int64_t limit, until_us;
};

struct world {
  int64_t instant;
  int64_t real_us;
  int64_t slack[RULES_MOST]; /* cost that an eviction may add to the bound */
  int64_t leak[RULES_MOST];  /* cost that faults may leave charged without being owed */
  uint32_t answered;         /* records, one bit each */
  bool crashed, evicted, flushed, lost, set_back, withdrawn;
  struct client clients[CLIENTS_MOST];
  struct key keys[KEYS_MOST];
  struct record records[RECORDS_MOST];
  struct sent orphans[ORPHANS_MOST];      /* without an answer; may still land, in order */
  int32_t shadow[RULES_MOST][CELLS_MOST]; /* windows: a counter for every cell */
  int32_t owed[RULES_MOST][CELLS_MOST]; /* what a cell must hold: admitted, or all with count=all */
  struct past past[PAST_MOST];          /* limits of keys */
};

enum step_kind {
  START,
  LAND,
  ABSORB,
  WAKE,
  TICK,
  CRASHES,
  EVICTS,
  FLUSHES,
  WITHDRAWS,
  LOSES,
  NOT_SENT,
  ORPHAN_LANDS,
  READS,
  SETS_BACK,
  MIGRATES,
  CUTS,
  COMES_BACK
};

struct step {
  enum step_kind kind;
  int who;  /* client */
  int what; /* EVICTS, MIGRATES: which of the keys; KEYS_MOST: the slot itself */
};

enum check {
  CHECK_NONE,
  CHECK_BOUND,
  CHECK_DENIAL,
  CHECK_KEPT,
  CHECK_ORDER,
  CHECK_OVERLAP,
  CHECK_DELIVERY,
  CHECK_LANES,
  CHECK_FORGOTTEN,
  CHECK_LEAK,
  CHECK_TTL,
  CHECK_CONTRACT,
  CHECK_REPEAT,
  CHECK_STATUS,
  CHECK_HOPS,
  CHECK_DUES,
  CHECK_ALLOWANCE,
  CHECK_SHARE,
  CHECK_ONCE,
  CHECK_ENDLESS,
  CHECK_COUNT
};

struct mutant;
struct cluster;
struct keys;

/* Bytes of the world that a scope can change. */
enum { ANYBODY = -1 };
struct range {
  size_t offset, bytes;
  int who; /* no step of another client changes it */
};

struct model {
  const struct scope *scope;
  const struct mutant *mutant;
  weir_stack text; /* as the scope has it, whatever a mutant makes of it */
  weir_stack stack;
  weir_stack continued, another_continued; /* of an account */
  weir_settings inside_settings;
  weir_machine *inside_machine; /* of whichever client's account decides, and ... */
  weir_operation *inside_operations;
  weir_stack another; /* the same for who knows of no leases, or has another text */
  weir_settings settings;
  weir_settings hasty; /* the same, with that deadline */
  weir_lease lease;
  int64_t edge_us;
  int64_t last_us;                /* the latest instant */
  int64_t first_cell[RULES_MOST]; /* which cell is number 0 of the world's arrays */
  struct request requests[CLIENTS_MOST][REQUESTS_MOST];
  char tenants[CLIENTS_MOST]; /* of shared windows: for whom each client asks; 0: there are none */
  bool one_window;            /* of all there is: every round has a stamp of its own */
  bool keeps_order;           /* a bucket is checked: records say what came before what */
  bool linear;                /* and must have a serial order that explains every figure */
  bool reads_clocks; /* answers must not be hurried: what follows depends on the clock then */
  bool has_classes;
  bool has_limits;   /* of keys, or of requests */
  struct keys *keys; /* NULL: keys have no records */
  bool gives_back;   /* some request is a refund, a cancel or a settlement */
  bool settles;      /* some request is a settlement */
  bool exact;        /* a bucket's bound is held by stamps as well */
  struct world *world;
  struct cluster *cluster; /* behind the world; NULL: one store */
  size_t world_bytes, memo_bytes, machine_bytes, operations_bytes, wallet_bytes;
  size_t inside_memo_bytes, account_bytes, outage_bytes; /* the last is all of a client's outage */
  struct range ranges[RANGES_MOST]; /* all of the world that is not zero in every run */
  size_t range_count;
  size_t live_bytes; /* of all ranges */
  uint64_t decisions;
  enum check failed;
  char failure[256];
  FILE *story; /* where steps are told, or NULL */
};

/* model.c: one scope, made ready. */
bool model_open(struct model *model, const struct scope *scope, const struct mutant *mutant);
void model_close(struct model *model);
void world_reset(struct model *model);

/* A bucket gives all of its burst at once, as one without a lease. */
void model_keep_nothing_back(weir_rule *rule);

/* requests.c: the text of a scope's requests. */
void requests_read(struct model *model);

/* world.c: the steps of a run. */
size_t world_steps(const struct model *model, struct step steps[STEPS_MOST]);
void world_apply(struct model *model, struct step step);
int64_t world_clock_us(const struct model *model, const struct client *client);
int64_t world_offset_us(const struct model *model, int client);
int world_client_number(const struct model *model, const struct client *client);
struct sent world_next_operation(const struct model *model, const struct client *client,
                                 size_t *index);

/* client.c: what a client does between operations. */
size_t client_sent(const struct client *client); /* operations of its round */
const struct request *client_next_request(const struct model *model, const struct client *client);
void client_start(struct model *model, struct client *client);
weir_turn client_start_machine(struct model *model, struct client *client, weir_claim *group);
void client_land(struct model *model, struct client *client);
void client_absorb(struct model *model, struct client *client);
void client_wake(struct model *model, struct client *client);
void client_rest(const struct model *model, struct client *client);

/* The rules as its text has them. */
const weir_stack *client_stack(const struct model *model, const struct client *client);

/* The same for its account. */
const weir_stack *client_continued(const struct model *model, const struct client *client);

/* Of shared windows: asks for its client's tenant. */
void client_name_tenant(const struct model *model, const struct client *client,
                        weir_claim *request);

/* D of this client. */
int64_t client_deadline_us(const struct model *model, const struct client *client);

/* A request that nobody meets, before the run. */
void client_charge_before(struct model *model, int number, struct charge charge);

/* leases.c: what a client does with its stock. Without leases there is nothing to do. */
bool lease_answers(struct model *model, struct client *client, weir_claim *request);
bool lease_denies(struct model *model, struct client *client, weir_claim *request);
void lease_hold(struct model *model, struct client *client, weir_claim *request);
weir_claim *lease_refill(struct model *model, struct client *client, int64_t lease);
weir_claim *lease_next(struct model *model, struct client *client, int64_t lease);
weir_claim *lease_ask(struct model *model, struct client *client, weir_claim *group, int64_t lease);
void lease_plan_returns(struct model *model, struct client *client);
void lease_absorb_returns(struct model *model, struct client *client);
bool lease_decided(struct model *model, struct client *client, weir_claim *request);
void lease_granted(struct model *model, struct client *client);
void lease_end_group(struct model *model, struct client *client);
void lease_lose_returns(struct model *model, const struct client *client, weir_outcome outcome);
void lease_empty(struct model *model, struct client *client);
int64_t lease_returning(const struct client *client, int64_t place);
int64_t lease_asked(const struct client *client); /* ahead, by the group under way */
int64_t lease_held(const struct client *client, const weir_claim *request);

/* keys.c: limits of keys. Without them there is nothing to do. */
bool keys_open(struct model *model);
void keys_close(struct model *model);
size_t keys_memo_bytes(const struct model *model);
void keys_set(struct model *model, struct client *client, const struct wanted *wanted);
void keys_end_set(struct model *model, struct client *client);
weir_turn keys_start(struct model *model, struct client *client, weir_claim **group);
weir_turn keys_resume(struct model *model, struct client *client, int64_t now_us, bool late);
bool keys_let(const struct model *model, struct client *client, int64_t now_us);
bool keys_bar(const struct model *model, struct client *client);
void keys_changed(struct model *model, int64_t before);
void keys_lost(struct model *model, int64_t before);
int64_t keys_most(const struct model *model, const struct client *client,
                  const struct record *record);
int64_t keys_least(const struct model *model, const struct client *client,
                   const struct record *record);

/* faults.c */
void fault_make_orphan(struct model *model, struct client *client, const struct sent *sent);
void fault_crash(struct model *model, struct client *client);
void fault_lose(struct model *model, struct client *client, weir_outcome outcome);
void fault_land_orphan(struct model *model);
void fault_evict(struct model *model, struct key *key);
void fault_flush(struct model *model);

/* settle.c: what a client does about real costs. False: there is nothing to settle. */
bool settle_ask(struct model *model, struct client *client, const struct wanted *wanted);
bool settle_gives_back(const struct client *client, int rule);
int64_t settle_owes(const struct client *client, int rule);
void settle_landed(struct model *model, uint8_t settles, const weir_operation *operation);
void settle_answered(struct model *model, struct client *client, struct record *record);
uint8_t settle_of(const struct model *model, const struct client *client);

/* classes.c: what is kept for higher classes is there. Without classes there is nothing to do. */
void classes_begin(struct model *model, struct client *client);
void classes_asked(struct model *model);
void classes_round(struct client *client);
void classes_land(const struct model *model, struct client *client);
void classes_check_kept(struct model *model, const struct client *client,
                        const weir_claim *request);

/* store.c: the semantics of weir/backend.h. The client is NULL for an orphan: nobody waits for its
 * answer. False: a RAISE has raised, and its addition is still to land. */
bool store_execute(struct model *model, struct client *client, struct sent *sent);
void store_make(struct model *model, const weir_operation *operation); /* empty, if it is absent */
struct key *store_find(const struct model *model, int rule, weir_place place, int64_t index,
                       int64_t entry);

/* records.c: what was asked, and what became of it. */
struct record *record_of(const struct model *model, const struct client *client,
                         const weir_claim *request);
int record_client(int number); /* -1: before the run */
char record_tenant(const struct model *model, int number);
void record_requested(struct model *model, struct client *client, const weir_claim *request);
void record_answered(struct model *model, struct client *client, const weir_claim *request);
void record_round(struct model *model, struct client *client);
void record_tidy(struct model *model, struct client *client, const weir_claim *request);
void record_over(struct model *model, struct client *client);

/* story.c: prints a run to people. */
void story_begin(const struct model *model, int number);
void story_print(const struct model *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void story_start(const struct model *model, const struct client *client,
                 const struct request *request);
void story_operation(const struct model *model, const struct sent *sent);
void story_decision(const struct model *model, const struct client *client,
                    const weir_claim *request);
void story_key(const struct model *model, const struct key *key);
void story_end(const struct model *model);

#endif

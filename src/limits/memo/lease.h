/* The stock: what a process has charged to a key ahead of its requests, and not used yet.
 *
 *     lead ── wish ──> one request more, last of its group: take up to k ──> grant ──> a lot
 *     join ── use ───> admitted without the store
 *     lead ── hold ──> its own lots first, the store for the rest ──> release: what was denied
 *     time ──────────> a lot has ended ── owed ──> one SUB from where it was charged
 *
 * A lot is used only inside the cell, the window and the quota that it was charged to, never before
 * its charge, and only while it lives: so every use counts in the store as if it had been charged
 * by itself. docs/guarantees.md has the proof. What buckets were charged drains and is not given
 * back: so a process risks no more of a bucket than drains in a lease, and a small part of what it
 * has admitted.
 *
 * Plain arithmetic on a struct: no lock, no clock, no memory of its own. Its owner locks it with
 * the key's entry, and hands in the time by the limiter's guarded clock.
 */
#ifndef WEIR_MEMO_LEASE_H
#define WEIR_MEMO_LEASE_H

#include "algorithm/algorithm.h"

/* What lease= means for a limiter's rules; fixed for its life. */
typedef struct weir_lease {
  const weir_stack *stack;
  const weir_settings *settings;
  int64_t life_us;       /* the shortest lease of the stack; 0: nothing is leased */
  int64_t pause_most_us; /* after many conflicts */
  bool drains;           /* some rule is a bucket: a use is told with the stamp of its charge */
  bool gives_back;       /* some rule is none: what was not used is returned */
  bool by_windows;       /* each rule counts in one window at a time: the next is charged ahead */
  int64_t drained_most;  /* what surely drains from every bucket in that time; without one, all */
  int64_t burst;         /* the least that a full bucket holds */
  size_t slowest;        /* the slowest bucket: a process that was charged for it waits ... */
  int64_t way;           /* ... until it has room for so much again, or it is its turn */
} weir_lease;

/* Two lots may live at once, so that a refill need not discard what is left. Behind them stand what
 * the group under way holds of them, and what ended before it was used. */
enum {
  WEIR_LOTS = 2,
  WEIR_LOT_HELD = WEIR_LOTS,
  WEIR_LOTS_OWED,
  WEIR_LOTS_IN_ALL = WEIR_LOTS_OWED + 2
};

/* What one charge has left. Without anything left there is no lot. */
typedef struct weir_lot {
  int64_t left;
  int64_t stamp_us; /* of its charge; of several, the first */
  int64_t from_us;  /* usable from here on: the stamp, of several the last */
  int64_t until_us; /* and before this */
  unsigned class;   /* by whose threshold it was charged: of use to that class and higher ones */
} weir_lot;

typedef struct weir_stock {
  weir_lot lots[WEIR_LOTS_IN_ALL];
  int64_t asked, asked_before; /* in this half of a lease, and in the one before it */
  int64_t half_us;             /* when this half began */
  int64_t wanted;              /* by the group that is under way; 0: no lease */
  unsigned class;              /* that it charges for; what lower ones ask is not counted */
  int64_t paused_until_us;
  union {
    struct {
      int64_t short_since_us, short_seen_us; /* a bucket was almost used up from then to then */
    };
    struct {                /* of rules by windows: */
      int64_t next_us;      /* begin of the last window that was charged ahead, or tried; and ... */
      int64_t next_from_us; /* ... when to charge the next one; 0: that is not known */
    };
    struct { /* of a pool, whose floor is charged ahead: as weir_ask has them */
      int64_t tenant_number, weight;
    };
  };
  int64_t low;       /* less is to be refilled; 0: nothing is */
  int64_t need;      /* what is asked while a refill is under way */
  int64_t trip_us;   /* how long the store's answers take */
  int64_t due_us;    /* since when a refill is; 0: none is */
  int64_t scarce_us; /* since when there is hardly room; 0: there is enough */
  int64_t tight_us;  /* when an answer last said so; 0: the last one did not */
  int64_t lost;      /* charged, not used, and it cannot go back; its owner counts and clears it */
  int64_t debt;      /* of a bucket: lost, less what was earned, in parts of a cost; see lease.c */
  int64_t places[];  /* of every lot, by rule: the cell of a window, the start of a quota */
} weir_stock;

void weir_lease_init(weir_lease *lease, const weir_stack *stack, const weir_settings *settings);

/* Zeroed, a stock is empty. */
size_t weir_stock_bytes(const weir_stack *stack);

/* --- using -------------------------------------------------------------------------------------
 */

/* A request came: what is asked tells how much to lease. */
void weir_stock_count(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t cost);

/* The group under way has its answers, which the memo has taken in: so much was admitted, and
 * `charged` in all, at stamp_us. */
void weir_stock_earn(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                     int64_t stamp_us, int64_t admitted, int64_t charged);

/* Whether some lot was charged after this reading of the clock, which then must be read again with
 * the entry locked: a use before its charge would be one too many. */
bool weir_stock_is_ahead(const weir_stock *stock, int64_t now_us);

/* What is usable now for a class: room that no other process has. */
int64_t weir_stock_room(const weir_stock *stock, int64_t now_us, unsigned class);

/* Where what is usable now was charged, by rule; as they were where nothing is. */
void weir_stock_places(weir_stock *stock, const weir_lease *lease, int64_t now_us,
                       int64_t places[WEIR_RULES_MOST], unsigned class);

/* Uses `cost`, where all of it is there, for a request that needs no store: of the lowest classes first. *at_us:
 * its stamp. */
bool weir_stock_use(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t cost,
                    int64_t *at_us, unsigned class);

/* Puts back what a class took from these places, by this stamp: into a lot that was charged to the same
 * ones, for that class or a higher one, and is usable. False: there is none. Buckets drain: theirs never goes
 * back to a lot. */
bool weir_stock_put_back(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t cost,
                         int64_t at_us, unsigned class);

/* --- a group -----------------------------------------------------------------------------------
 */

/* Takes up to `cost` for a request of the group that is under way, which charges the rest. */
int64_t weir_stock_hold(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t cost,
                        unsigned class);

/* Whether what is held may be used by a decision with this stamp: else it is released, and the
 * request asks again, without it. */
bool weir_stock_holds(const weir_stock *stock, int64_t at_us);

/* Of what is held, `cost` was used. */
void weir_stock_spend(weir_stock *stock, int64_t cost);

/* The group is done: what is still held goes back to the lots. */
void weir_stock_release(weir_stock *stock, const weir_lease *lease, int64_t now_us);

/* Requests of this class are charged, and none of a lower one beside them: what is charged ahead is for it, as
 * higher classes may use that as well; unless it has no room for that. */
void weir_stock_serve(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                      int64_t now_us, unsigned class);

/* How much the group should charge ahead, when it charges `cost` for its requests and may charge
 * `most` in all; 0: nothing. It is no more than what `memo` shows to be free, and than what may be
 * lost of a bucket. */
int64_t weir_stock_wish(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                        int64_t now_us, int64_t cost, int64_t most);

/* The same for a refill, which charges ahead and nothing else. Where nothing is known to be free, and
 * requests are denied for that, it must look again: *looks. */
int64_t weir_stock_wish_refill(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                               int64_t now_us, int64_t most, bool *looks);

/* The wish was granted in part or whole, by an answer that is certain and in time: `cost` is usable
 * from its stamp on, which is later than now where the next window was charged. places:
 * weir_machine_places(). `class`: the highest by whose threshold some of it was charged. */
void weir_stock_grant(weir_stock *stock, const weir_lease *lease, int64_t now_us, int64_t stamp_us,
                      int64_t cost, const int64_t *places, unsigned class);

/* What a group has brought. */
typedef struct weir_harvest {
  int64_t got;     /* of the wish */
  int64_t charged; /* in all */
  unsigned conflicts;
  uint32_t random; /* for what is done by chance */
  int64_t trip_us; /* from the stamp to the answer */
} weir_harvest;

/* The group has its answers, which the memo has taken in. Who got less than half of the wish gives
 * way to others for a while; of a bucket that is almost used up, and that others use, also who got
 * it. */
void weir_stock_pace(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                     int64_t now_us, const weir_harvest *harvest);

bool weir_stock_is_paused(const weir_stock *stock, const weir_lease *lease, int64_t now_us);

/* --- refilling ---------------------------------------------------------------------------------
 *
 * What is asked tells how long a lot will last, and answers how long a refill takes: one is due when
 * what is held would hardly last until then, or ends before. Who gives way to others refills nothing.
 */

bool weir_stock_is_low(const weir_stock *stock, const weir_lease *lease, int64_t now_us);

/* Whether there is hardly room for anyone, by an answer of just now, and a refill that is due or under
 * way finds out whether there is some again: then requests do not ask for themselves, if the store is
 * far away. */
bool weir_stock_is_tight(const weir_stock *stock, const weir_lease *lease, int64_t now_us);

/* --- the next window ---------------------------------------------------------------------------
 *
 * A lot ends with its window. Where the store is far away the next window is charged shortly before it
 * begins, as if it had begun: so it is empty for others as long as nothing was charged, and holds what
 * its limit allows. That lot is usable from the begin on, like any other.
 */

/* When the window begins that is to be charged now; 0: none is. */
int64_t weir_stock_next(const weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                        int64_t now_us);

/* How much of it, of `most`; 0: nothing. Either way that window was had. */
int64_t weir_stock_wish_next(weir_stock *stock, const weir_lease *lease, int64_t now_us,
                             int64_t next_us, int64_t most);

/* The memo knows more: finds out when a window is to be charged. */
void weir_stock_plan_next(weir_stock *stock, const weir_lease *lease, const weir_memo *memo,
                          int64_t now_us);

static inline bool weir_stock_has_next_due(const weir_stock *stock, const weir_lease *lease,
                                           int64_t now_us) {
  return lease->by_windows && stock->next_from_us > 0 && now_us >= stock->next_from_us;
}

/* --- giving back -------------------------------------------------------------------------------
 */

/* Lots that have ended are owed from now on; false: nothing is. */
bool weir_stock_owes(weir_stock *stock, const weir_lease *lease, int64_t now_us);

/* Ends all lots: an idle process gives them back. */
void weir_stock_end(weir_stock *stock, const weir_lease *lease);

/* The same where nothing of it may be used any more: what cannot go back is lost. */
void weir_stock_drop(weir_stock *stock, const weir_lease *lease);

/* Takes out what is owed longest, with its places by rule; false: nothing is. */
bool weir_stock_take_owed(weir_stock *stock, const weir_lease *lease, weir_lot *lot,
                          int64_t places[WEIR_RULES_MOST]);

/* It was not sent: it is owed again. */
void weir_stock_owe(weir_stock *stock, const weir_lease *lease, const weir_lot *lot,
                    const int64_t *places);

/* A return is on its way: what is known of its counters must be read again, and the store is not
 * held to it any more. */
void weir_lease_let_go(const weir_lease *lease, weir_memo *memo, int64_t cost,
                       const int64_t *places);

/* The clock was set back, the key was reset, this is a child of the process that was charged:
 * nothing is usable, and nothing owed. */
void weir_stock_empty(weir_stock *stock, const weir_lease *lease);

#endif

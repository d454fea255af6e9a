/* Algorithms: pure state machines that decide a group of requests for one key.
 *
 *     start(now) -> actions -> resume(now) -> more actions ... -> done: every ask is settled
 *
 * A machine does no I/O, reads no clock, allocates nothing and cannot fail by itself. Its driver
 * carries out the actions of a round, in order, through a store, writes their outcomes back, and
 * calls resume with a fresh `now`. The same machines run under src/limiter and under the model
 * checker.
 *
 * Files, in the order of a decision: machine.c leads a group through its phases; stage.c says which
 * rules are charged together; window.c, bucket.c, quota.c and log.c plan operations and take in
 * their answers, each a weir_method (method.h) with a memory and a state that nobody else knows;
 * judge.c says who is admitted and what each is told; held.c notices what was lost. Arithmetic
 * stands apart: cells.c, bucket_math.c. Where what is kept: machine_memory.c.
 */
#ifndef WEIR_ALGORITHM_ALGORITHM_H
#define WEIR_ALGORITHM_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>
#include <weir/limiter.h>

#include "rule/rule.h"

/* What a limiter's options and its store mean to its algorithms; fixed for its life. Microseconds.
 */
typedef struct weir_terms {
  int64_t clock_error_us;  /* d */
  int64_t margin_us;       /* e = 2d + D */
  int64_t memo_age_us;     /* oldest local knowledge in use */
  int64_t local_denial_us; /* longest repetition of a denial */
  int64_t longest_wait_us; /* that a request may accept as delay */
  int64_t least_ttl_us;
  int64_t processes; /* that may use a key at once; 0 is as 1 */
  unsigned traits;   /* of the store: enum weir_trait */
  bool cached_cells;
  bool local_denial;
  bool notices_loss; /* of keys that must be there */
} weir_terms;

typedef enum weir_ask_kind {
  WEIR_ASK_TAKE,
  WEIR_ASK_PEEK,
  WEIR_ASK_RESET, /* always alone in its group */
  WEIR_ASK_REFUND /* always alone in its group */
} weir_ask_kind;

/* One request of a group; groups are lists, first come, first decided. */
typedef struct weir_ask {
  struct weir_ask *next;
  weir_ask_kind kind;
  bool alone;           /* must not share its group */
  bool settled;         /* out */
  bool away;            /* out, with a status other than WEIR_OK: the store is away */
  unsigned denying;     /* rules that its own charge was denied by, one bit each; the machine's */
  bool up_to;           /* a smaller cost is welcome: `cost` becomes what was admitted */
  bool waits;           /* in: a delay up to wait_us is accepted; else what the rule itself gives */
  int64_t wait_us;      /* in: 0 or more */
  int64_t cost;         /* in: for every rule, 1 to the least capacity of the stack */
  int64_t asked;        /* with up_to: the cost before it was cut; the judge's */
  const int64_t *costs; /* in: or one per rule, 0 to its capacity, some above 0; NULL: `cost` */
  int64_t at_us;        /* in for REFUND: the stamp of the charge */
  /* WEIR_RULES_MOST, or NULL. TAKE writes where each bucket's slot ends, REFUND reads it: with
   * ends, a slot that had a delay goes back only if it still is the last. */
  int64_t *ends;
  weir_status status;     /* out, when settled */
  weir_decision decision; /* out, when settled with WEIR_OK */
} weir_ask;

enum { WEIR_NO_SLOT = -1 };

/* The cost of an ask under rule i; 0: the rule does not take part. */
static inline int64_t weir_ask_cost(const weir_ask *ask, size_t i) {
  return ask->costs != NULL ? ask->costs[i] : ask->cost;
}

/* An operation on one key of a rule of the stack; members as in weir_operation. */
typedef struct weir_action {
  weir_operation_kind kind;
  uint32_t rule;
  weir_place place; /* with index and entry: which key */
  bool refresh;
  bool raised;
  uint32_t stake;
  int64_t index;
  int64_t entry;
  int64_t delta;
  int64_t floor;
  int64_t ttl_us;
  uint64_t version;
  weir_outcome outcome; /* written by the driver, with late, value and version_out */
  bool late;
  int64_t value;
  uint64_t version_out;
} weir_action;

/* What the store must hold of one rule, by what this process was charged itself. */
typedef struct weir_held {
  int64_t index;  /* a window's cell, a quota's start, a log's epoch, a bucket's key */
  int64_t amount; /* a cost; of a log its highest entry; of a bucket the time until which its key
                     must be there. 0: nothing */
} weir_held;

/* What a process keeps of a key: weir_memo_bytes() of its stack, zeroed means nothing known. Every
 * decision reads and writes it, so it has no room for rules that are not there. */
typedef struct weir_memo {
  bool must_peek;          /* a denial or an unknown outcome came last: look before charging */
  int64_t look_until_us;   /* others swap this key too: until then look before swapping */
  int64_t denied_cost;     /* costs from this on were denied; 0: none */
  int64_t denied_at_us;    /* at this time */
  int64_t denied_until_us; /* and are denied without the store before this one */
  weir_held held[];        /* by rule; behind them what each method keeps: weir_memo_own() */
} weir_memo;

typedef enum weir_phase {
  WEIR_PHASE_LOOK,
  WEIR_PHASE_CHARGE,
  WEIR_PHASE_TAKE_BACK,
  WEIR_PHASE_PAUSE,
  WEIR_PHASE_RESET,
  WEIR_PHASE_DONE
} weir_phase;

typedef enum weir_turn {
  WEIR_TURN_EXECUTE, /* carry out actions[0 .. action_count - 1], then resume */
  WEIR_TURN_PAUSE,   /* others were faster: resume after a random pause that grows with `pauses` */
  WEIR_TURN_DONE     /* every ask is settled */
} weir_turn;

/* One rule's part in a machine: a moment, and what is known for it. */
typedef struct weir_part {
  const struct weir_method *method; /* of the rule; set once, as are ... */
  void *memory;   /* ... what the machine's notes keep of it for the method, ... */
  void *state;    /* ... and what the method knows besides while it runs */
  int64_t now_us; /* of the frame */
  int64_t charge; /* cost that is added in this phase, of which ... */
  int64_t unused; /* ... this was not admitted and goes back */
  bool charged;   /* the store confirmed the addition */
  bool conflict;  /* others were faster: nothing was written */
  bool went_back; /* some of it was given back */
  int step;       /* within a phase; 0 at its begin */
} weir_part;

/* The machine of one group. Lives in memory of weir_machine_bytes(), laid out by
 * weir_machine_init(). */
typedef struct weir_machine {
  const weir_stack *stack;
  const weir_terms *terms;
  size_t memo_bytes; /* of the stack's memos */
  bool only_windows; /* a charge of all rules is one round and goes back whole */
  weir_ask *asks;
  weir_phase phase;
  weir_status failure;     /* what a failed round means for the asks that are not settled */
  int64_t now_us;          /* of this phase: every part's frame, and the stamp of its charge */
  int64_t clock_us;        /* of this round */
  unsigned stage;          /* of the charge: rules of one stage are charged together */
  unsigned charging;       /* those of the stage that have something to charge, one bit each */
  unsigned charged_before; /* those of the stages before */
  bool in_order;           /* every rule is a stage of its own, tightest first */
  bool again;       /* after the take-back: judge once more what was denied by its own charge */
  bool looks_along; /* the next round also looks, for that */
  unsigned pauses;  /* so far */
  unsigned lost;    /* keys that were found to hold less than they must */
  bool away;        /* the store refused, or its server is away */
  size_t action_count;
  weir_action *actions;
  weir_memo *notes; /* the machine's own copy; kept by its driver when it is done */
  weir_part parts[WEIR_RULES_MOST];
} weir_machine;

size_t weir_memo_bytes(const weir_stack *stack);

/* Where a memo keeps what rule i's method remembers: its memory_bytes(). */
const void *weir_memo_own(const weir_stack *stack, const weir_memo *memo, size_t i);

/* Most actions in one round. */
size_t weir_machine_actions_most(const weir_stack *stack);

size_t weir_machine_bytes(const weir_stack *stack);
weir_machine *weir_machine_init(void *memory, const weir_stack *stack, const weir_terms *terms);

/* Begins a group with what is remembered of its key. `asks` must stay until the machine is done. */
weir_turn weir_machine_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                             weir_ask *asks);

/* Goes on after a round or a pause. `late`: the deadline passed before the outcomes were there, so
 * that they may no longer admit anyone. */
weir_turn weir_machine_resume(weir_machine *machine, int64_t now_us, bool late);

/* Settles an ask that needs no store: a cost that never fits, or one that the memo shows to be
 * denied. An up-to ask is cut to what can fit at all. */
bool weir_settle_never(const weir_stack *stack, int64_t now_us, weir_ask *ask);
bool weir_settle_locally(const weir_stack *stack, const weir_terms *terms, const weir_memo *memo,
                         int64_t now_us, weir_ask *ask);

#endif

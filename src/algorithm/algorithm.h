/* Algorithms: pure state machines that decide a group of requests for one key.
 *
 *     start(now) -> actions -> resume(now) -> more actions ... -> done: every ask is settled
 *
 * A machine does no I/O, reads no clock, allocates nothing and cannot fail by itself. Its driver
 * carries out the actions of a round, in order, through a store, writes their outcomes back, and
 * calls resume with a fresh `now`. The same machines run under src/limiter and under the model
 * checker.
 */
#ifndef WEIR_ALGORITHM_ALGORITHM_H
#define WEIR_ALGORITHM_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>
#include <weir/limiter.h>

#include "rule/rule.h"

/* What a limiter's options mean to its algorithms; fixed for its life. Microseconds. */
typedef struct weir_terms {
  int64_t clock_error_us;  /* d */
  int64_t margin_us;       /* e = 2d + D */
  int64_t memo_age_us;     /* oldest local knowledge in use */
  int64_t local_denial_us; /* longest repetition of a denial */
  int64_t least_ttl_us;
  bool cached_cells;
  bool local_denial;
} weir_terms;

typedef enum weir_ask_kind {
  WEIR_ASK_TAKE,
  WEIR_ASK_PEEK,
  WEIR_ASK_RESET /* always alone in its group */
} weir_ask_kind;

/* One request of a group; groups are lists, first come, first decided. */
typedef struct weir_ask {
  struct weir_ask *next;
  weir_ask_kind kind;
  bool settled;
  int64_t cost;           /* in: 1 to the least limit of the stack */
  weir_status status;     /* out, when settled */
  weir_decision decision; /* out, when settled with WEIR_OK */
} weir_ask;

/* An operation on counter `index` of one rule of the stack. */
typedef struct weir_action {
  weir_operation_kind kind;
  uint32_t rule;
  int64_t index;
  int64_t delta;
  int64_t ttl_us;
  weir_outcome outcome; /* written by the driver, with value */
  int64_t value;
} weir_action;

/* A cell as it was read. */
typedef struct weir_memo_cell {
  int64_t count;
  int64_t read_us; /* `now` of the round that read it; below 0: not read */
} weir_memo_cell;

/* What a process keeps of a key: fixed size for a stack, zeroed means nothing known. */
typedef struct weir_memo {
  bool must_peek;          /* a denial or an unknown outcome came last: look before charging */
  int64_t denied_cost;     /* costs from this on were denied; 0: none */
  int64_t denied_at_us;    /* at this time */
  int64_t denied_until_us; /* and are denied without the store before this one */
  struct {
    int64_t first; /* which cell cells[0] of this rule is */
    int count;     /* how many are kept */
  } kept[WEIR_RULES_MOST];
  weir_memo_cell cells[]; /* rule after rule, weir_cells_room() each */
} weir_memo;

typedef enum weir_phase {
  WEIR_PHASE_PEEK,
  WEIR_PHASE_CHARGE,
  WEIR_PHASE_TAKE_BACK,
  WEIR_PHASE_RESET
} weir_phase;

typedef enum weir_turn {
  WEIR_TURN_EXECUTE, /* carry out actions[0 .. action_count - 1], then resume */
  WEIR_TURN_DONE     /* every ask is settled */
} weir_turn;

/* One rule's part in a machine. */
typedef struct weir_part {
  int64_t first, current, last; /* cells o, k, K of this round */
  int64_t left_us;              /* r: how much of cell o is still inside */
  int64_t charge;               /* added to the current cell in this round, of which ... */
  int64_t unused;               /* ... this was not admitted */
  bool charged;                 /* the store confirmed the addition */
  const weir_memo_cell *cells;  /* cells first .. last, in the machine's notes or a memo */
} weir_part;

/* The machine of one group. Lives in memory of weir_machine_bytes(), laid out by
 * weir_machine_init(). */
typedef struct weir_machine {
  const weir_stack *stack;
  const weir_terms *terms;
  weir_ask *asks;
  weir_phase phase;
  weir_status failure; /* what a failed round means for the asks that are not settled */
  int64_t now_us;      /* of this round */
  size_t action_count;
  weir_action *actions;
  weir_memo *notes; /* the machine's own copy; kept by its driver when it is done */
  weir_part parts[WEIR_RULES_MOST];
} weir_machine;

size_t weir_memo_bytes(const weir_stack *stack);

/* Most actions in one round. */
size_t weir_machine_actions_most(const weir_stack *stack);

size_t weir_machine_bytes(const weir_stack *stack);
weir_machine *weir_machine_init(void *memory, const weir_stack *stack, const weir_terms *terms);

/* Begins a group with what is remembered of its key. `asks` must stay until the machine is done. */
weir_turn weir_machine_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                             weir_ask *asks);

/* Goes on after a round. `late`: the deadline passed before the outcomes were there, so that they
 * may no longer admit anyone. */
weir_turn weir_machine_resume(weir_machine *machine, int64_t now_us, bool late);

/* Settles an ask that needs no store: a cost that never fits, or one that the memo shows to be
 * denied. */
bool weir_settle_never(const weir_stack *stack, weir_ask *ask);
bool weir_settle_locally(const weir_stack *stack, const weir_terms *terms, const weir_memo *memo,
                         int64_t now_us, weir_ask *ask);

#endif

/* Algorithms: pure state machines that decide a group of requests for one key.
 *
 *     start(now) -> operations -> resume(now) -> more operations ... -> done: every request is
 * answered
 *
 * A machine does no I/O, reads no clock, allocates nothing and cannot fail by itself. It plans the
 * operations of a round into memory of its driver, which gives each its key, has them executed in
 * their order, and calls resume with a fresh `now`. The same machines run under src/limits/limiter and
 * under the model checker.
 *
 * Files, in the order of a decision: ask.h is a request in three parts, of one writer each, of which a
 * machine sees two; machine.c leads a group through its phases; window.c, bucket_swap.c,
 * bucket_raise.c, quota.c, log.c, in_flight.c and shared.c plan operations and take in their answers, each a
 * weir_method (method.h) with a memory and a state of its own; decide.c says which requests are
 * admitted and what each is told, and ends what cannot be decided; settle.c gives back, and charges or
 * gives back what the real cost was beside the estimate. Below the methods stand plan.c (planning, what
 * the store must still hold, and what part of all is this process's own) and bucket.c, what buckets
 * mean however they are stored. method.c says which method serves a rule, and lays memos out; view.c
 * says what a memo alone knows.
 */
#ifndef WEIR_ALGORITHM_ALGORITHM_H
#define WEIR_ALGORITHM_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/backend.h>
#include <weir/limiter.h>

#include "algorithm/ask.h"
#include "rule/rule.h"

/* What a limiter's options and its store mean to its algorithms; fixed for its life. Microseconds.
 */
typedef struct weir_settings {
  int64_t clock_error_us;  /* d */
  int64_t ahead_us;        /* e = 2d + D, by weir_settings_set_margins() ... */
  int64_t final_us;        /* ... as is x = 2d + max(D, WEIR_DEADLINE_OF_ANYBODY_US) */
  int64_t memo_age_us;     /* oldest local knowledge in use */
  int64_t local_denial_us; /* longest repetition of a denial */
  int64_t longest_wait_us; /* that a request may accept as delay */
  int64_t least_ttl_us;
  int64_t processes; /* that may use a key at once; 0 is as 1 */
  unsigned traits;   /* of the store: enum weir_trait */
  bool cached_cells;
  bool local_denial;
  bool notices_loss; /* of keys that must be there */
} weir_settings;

/* Processes with different deadlines share counts. Each is sure of its own deadline alone: a charge
 * of its own reaches the store, and what it reads was read, within e of its stamp by anybody's
 * clock. What others charged has reached the store x after their stamps, as long as their deadlines
 * are no longer than the longer of its own and this. Whatever rests on what others do, and whatever
 * all must agree on, rests on x. */
#define WEIR_DEADLINE_OF_ANYBODY_US INT64_C(100000)

/* `clock_error_us` is set. Both are at most a minute: far from any overflow. */
static inline void weir_settings_set_margins(weir_settings *settings, int64_t deadline_us) {
  int64_t of_anybody_us = WEIR_DEADLINE_OF_ANYBODY_US;
  settings->ahead_us = 2 * settings->clock_error_us + deadline_us;
  settings->final_us =
      2 * settings->clock_error_us + (deadline_us > of_anybody_us ? deadline_us : of_anybody_us);
}

/* What remains of a rule where a process holds `room` of it beside what is left there: never more than it
 * ever admits. A bucket has drained of what is still held. */
static inline int64_t weir_ask_remaining(const weir_rule *rule, const weir_ask *ask, int64_t left,
                                         int64_t room) {
  int64_t capacity = weir_ask_capacity(rule, ask);
  return left < capacity - room ? left + room : capacity;
}

/* What was last known to be charged under one rule, for a process that must go on without its
 * store: so much, when. One entry a cell of a window, else one. */
enum { WEIR_KNOWN_MOST = WEIR_CELLS_MOST + 2 };
typedef struct weir_known {
  size_t count;

  /* A log is not paid: where nothing is known, what was admitted before still counts. */
  bool of_log;
  struct {
    /* A moment of the cell; the start of a quota; the entry of a log; of a bucket, now. */
    int64_t at_us;
    int64_t amount; /* cost, in weir_rule_parts(); ... */
    int64_t own;    /* ... of what is held: of this process alone, so much at least */
  } charges[WEIR_KNOWN_MOST];
} weir_known;

/* What part of all charges is this process's own (plan.h). Of a bucket in its units of time. Unsure, of a
 * window or a quota: `before` is ~ of that, and `last` all that was charged since, without an answer, too. */
typedef struct weir_share {
  int64_t before; /* what stood there before the last own charge of this period, and that charge: */
  int64_t last;   /* less than 0 where more went back since */
  int64_t mine;   /* own charges before the last, and everybody's: halved as periods begin */
  int64_t all;
} weir_share;

/* What a machine found out about the share of one rule, since its driver cleared it. */
typedef struct weir_lesson {
  int64_t mine, all; /* more than before */
  int64_t cost;      /* of own charges, ... */
  int64_t charges;   /* ... and how many they were */
} weir_lesson;

/* What the store must hold of one rule, by what this process was charged itself. */
typedef struct weir_expected {
  int64_t index;  /* a window's cell, a quota's start, a log's epoch, a bucket's key */
  int64_t amount; /* a cost; of a log its highest entry; of a bucket the time until which its key
                     must be there. 0: nothing */
  weir_share share;
} weir_expected;

/* What a process keeps of a key: weir_memo_bytes() of its stack, zeroed means nothing known. Every
 * decision reads and writes it, so it has no room for rules that are not there. */
typedef struct weir_memo {
  /* A denial or an unknown outcome came last: requests up to this rank look before they charge. 0: none
   * does. */
  uint8_t must_peek;
  uint8_t denied_rank; /* of a class that was denied: it speaks for this and lower ones */
  bool unsure;  /* what was charged or went back may not have: no settlement charges unseen */
  bool far;     /* the last charge of a window was plain, and left a quarter of the limit or more */
  bool bounded; /* the store kept the last bound that was met: denials need no look next time */
  int64_t look_until_us;   /* others swap this key too: until then look before swapping */
  int64_t denied_cost;     /* costs from this on were denied; 0: none */
  int64_t denied_at_us;    /* at this time */
  int64_t denied_until_us; /* and are denied without the store before this one */
  /* By rule; behind them what each method keeps, weir_memo_own(), and then a weir_memo_limits, where there
   * is one. */
  weir_expected expected[];
} weir_memo;

/* Of rules that have a most=. */
typedef struct weir_memo_limits {
  int64_t denied; /* of requests with this limit, weir_ask.limit, is what was denied */
  int64_t ruled;  /* what is known here is told by this limit, which the key has; 0: the rule's */
} weir_memo_limits;

typedef enum weir_phase {
  WEIR_PHASE_LOOK,
  WEIR_PHASE_CHARGE,
  WEIR_PHASE_TAKE_BACK,
  WEIR_PHASE_PAUSE,
  WEIR_PHASE_RESET,
  WEIR_PHASE_BEGIN,
  WEIR_PHASE_RENEW,
  WEIR_PHASE_DONE
} weir_phase;

typedef enum weir_turn {
  WEIR_TURN_EXECUTE, /* carry out operations[0 .. operation_count - 1], then resume */
  WEIR_TURN_PAUSE,   /* others were faster: resume after a random pause that grows with `pauses` */
  WEIR_TURN_DONE     /* every request is answered */
} weir_turn;

/* What the rules of one group share: all that a method sees beside its own rule. */
typedef struct weir_frame {
  const weir_stack *stack;
  const weir_settings *settings;
  weir_claim *requests;
  weir_memo *memo; /* the machine's own copy, or what it works on: weir_machine_work_on() */
  weir_phase phase;
  bool blind; /* has charged, or is about to, without a look */
  /* Windows: each request fits whole or is looked at once more, so that a charge need not read again
   * what is firm (window.c). And that look, where nothing else can have changed meanwhile. */
  bool believes_firm, looks_at_old;
  bool looks_at_back; /* what the take-back itself finds in its counter is part of that look */
  bool bounds;        /* the store may refuse what does not fit: charges have a bound */
  bool settles;       /* a settlement: an overrun is charged, and nothing follows what goes back */
  bool refunds;       /* a refund: all that it names goes back */
  unsigned refusals;  /* by one, of this group */
  unsigned lost;      /* keys that were found to hold less than they must */
  int64_t now_us;     /* of this phase, and the stamp of its charge */
  int64_t clock_us;   /* of this round */
  const weir_ask *asked; /* in no machine: the only request, or NULL */
  size_t operation_count;
  weir_operation *operations; /* of this round, where its driver wants them */
} weir_frame;

/* One rule in a machine. A method's functions take it as their only state, and call it `r`. */
typedef struct weir_rule_state {
  /* Set once. */
  weir_frame *frame;
  const weir_rule *rule;
  const struct weir_method *method;
  void *memory;            /* what the frame's memo keeps of the rule for the method */
  void *state;             /* what the method knows besides while it runs */
  weir_expected *expected; /* of the frame's memo */
  weir_lesson *lesson;
  struct weir_rule_state *keeper; /* the first of the stack that has the same method */
  uint32_t index;                 /* in the stack */
  int64_t ttl_us;                 /* how long its keys live */

  /* Begun anew with the frame's moment. */
  int step;       /* within a phase; 0 at its begin */
  bool charged;   /* the store confirmed the addition */
  bool stays;     /* it got no answer, or could not go back: most likely it counts */
  bool conflict;  /* others were faster: nothing was written */
  bool full;      /* the store has refused the addition by its bound: nothing was written */
  bool went_back; /* some of it was given back */
  bool tells;     /* in a take-back: wants rounds to tell others of it, behind what goes back */
  int64_t wanted; /* what the takes that are open cost together */
  int64_t charge; /* cost that is added in this phase, of which ... */
  int64_t unused; /* ... this was not admitted and goes back */
  int64_t place;  /* what is charged: a window's cell, a quota's start; else 0 */

  /* Of a plain charge that fits: the largest cost that fitted; of rules with classes what was there by
   * estimate and in whole cells, and then with the requests that are told so far; and what each is told. */
  int64_t room;
  int64_t used, whole;
  int64_t reset_after_us;
} weir_rule_state;

/* The machine of one group. Lives in memory of weir_machine_bytes(), laid out by
 * weir_machine_init(). */
typedef struct weir_machine {
  weir_frame frame;
  const weir_stack *stack; /* that it was made for, and ... */
  weir_stack *limited;     /* ... a copy for a limit of requests; NULL: they have none */
  int64_t limit; /* of the group: as its requests say, else as its memo knows of the key */
  const struct weir_course *course; /* of the group: machine.h */
  size_t memo_bytes;                /* of the stack's memos */
  bool only_windows;                /* a charge of all rules is one round and goes back whole */
  bool may_bound;                   /* the store may refuse a charge by a bound */
  bool may_believe;                 /* charges may believe what is firm */
  bool retries;                     /* what its own charge denied is judged once more, in order */
  weir_status failure;     /* what a failed round means for the requests without an answer */
  unsigned stage;          /* of the charge: rules of one stage are charged together */
  unsigned charging;       /* those of the stage that have something to charge, one bit each */
  unsigned charged_before; /* those of the stages before */
  bool last_stage;         /* no take wants anything of a later one */
  bool in_order;           /* every rule is a stage of its own, tightest first */
  bool again;       /* after the take-back: decide once more what was denied by its own charge */
  bool looks_along; /* the next round also looks, for that */
  bool away;        /* the store refused, or its server is away */
  bool gone;        /* or was lost; it was not only slow */
  bool plain;       /* this round is a plain charge */
  bool phases_only; /* tests: no charge is plain */
  unsigned open;    /* of a settlement: rules that it has still to settle, one bit each ... */
  bool written;     /* ... and whether it has changed something */
  unsigned pauses;  /* so far */
  weir_lesson lessons[WEIR_RULES_MOST];
  weir_rule_state rule_states[WEIR_RULES_MOST];
} weir_machine;

size_t weir_memo_bytes(const weir_stack *stack);

/* NULL: no request can have a limit of its own. */
weir_memo_limits *weir_memo_limits_of(const weir_stack *stack, const weir_memo *memo);

/* Where a memo keeps what rule i's method remembers. Inline, as is weir_method_of(): requests that are answered
 * out of a lease come by here, most of them of a rule that is alone. */
size_t weir_memo_behind(const weir_stack *stack, size_t i);

static inline size_t weir_memo_offset(const weir_stack *stack, size_t i) {
  size_t first = sizeof(weir_memo) + stack->count * sizeof(weir_expected);
  return i == 0 ? first : first + weir_memo_behind(stack, i);
}

static inline const void *weir_memo_own(const weir_stack *stack, const weir_memo *memo, size_t i) {
  return (const char *)memo + weir_memo_offset(stack, i);
}

/* Most operations in one round. */
size_t weir_machine_operations_most(const weir_stack *stack);

size_t weir_machine_bytes(const weir_stack *stack);
weir_machine *weir_machine_init(void *memory, const weir_stack *stack,
                                const weir_settings *settings);

/* Works from now on with this memo itself, in the place of a copy: for a driver under whose lock no other
 * thread meets the memo before the machine is done. */
static inline void weir_machine_work_on(weir_machine *machine, weir_memo *memo) {
  const weir_memo *before = machine->frame.memo;
  machine->frame.memo = memo;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    r->memory = (char *)memo + ((const char *)r->memory - (const char *)before);
    r->expected = &memo->expected[i];
  }
}

/* Begins a group with what is remembered of its key, or (NULL) nothing: it works with a copy of that,
 * which its driver keeps when the machine is done, unless it was told to work on this very memo.
 * `requests` must stay until the machine is done. `operations` is where the first round is planned: room
 * for weir_machine_operations_most(). */
weir_turn weir_machine_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                             weir_claim *requests, weir_operation *operations);

/* Goes on after a round or a pause. `late`: the deadline passed before the outcomes were there, so
 * that they may no longer admit anyone. The next round is planned into `operations`; the outcomes
 * of the last one have been taken in before, so that it may be the same place.
 * A machine that is done stays so. */
weir_turn weir_machine_resume(weir_machine *machine, int64_t now_us, bool late,
                              weir_operation *operations);

/* Before it starts, of rules that have a most=: the largest cost that fits into an empty key under all of them, by
 * the limit `asked` of its requests, or where that is 0 by what the memo knows of the key. */
int64_t weir_machine_capacity(weir_machine *machine, const weir_memo *memo, int64_t asked);

/* The key has another limit than was thought, which is known before what was charged is judged: by rules
 * that are windows and quotas. */
void weir_machine_rule(weir_machine *machine, int64_t limit);

/* In the place of start: nothing is asked of the store, as something that was to be known first could not
 * be read, by this operation. */
weir_turn weir_machine_refuse(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                              weir_claim *requests, const weir_operation *read, bool late);

/* Where a machine that is done has charged what it admitted, by rule: the cell of a window, the
 * start of a quota; else 0. */
void weir_machine_places(const weir_machine *machine, int64_t places[WEIR_RULES_MOST]);

/* A member of a group that is done and was admitted gives back what it was charged: denied, with the
 * figures behind that. Another round follows, or none. Not where weir_machine_keeps() it: what goes
 * back to a bucket rests on the whole group. */
bool weir_machine_keeps(const weir_machine *machine, const weir_claim *request);
weir_turn weir_machine_give_up(weir_machine *machine, weir_claim *request,
                               weir_operation *operations);

/* Of what was charged to this place of rule i `cost` goes back without a machine: it is expected no
 * more, and what else is there has to be read again. Buckets and logs are not concerned. */
void weir_memo_doubt(const weir_stack *stack, weir_memo *memo, size_t i, int64_t place,
                     int64_t cost);

/* The same of all that a memo believes: what was given back is not known. */
void weir_memo_doubt_all(const weir_stack *stack, const weir_settings *settings, weir_memo *memo);

/* Brings what a memo knows of a pool up to what another one does, of whatever tenant of it. */
void weir_memo_share(const weir_stack *stack, weir_memo *memo, const weir_memo *other);

/* Keeps what the memo `next` of a machine says, which charged the next windows ahead of time: it
 * counts once they have begun. */
void weir_memo_lay_by(const weir_stack *stack, const weir_settings *settings, weir_memo *memo,
                      const weir_memo *next, int64_t now_us);

/* Makes a memo what that of another stack is, whose rules have the same tags: limits and leases may differ.
 * What was denied there was above another limit. */
void weir_memo_take_over(const weir_stack *stack, weir_memo *memo, const weir_stack *old_stack,
                         const weir_memo *old);

#endif

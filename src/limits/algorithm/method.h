/* A method: what one kind of rule is to the machine. The machine owns order, groups, failures and
 * time; a method knows which operations its rule needs and what their answers mean.
 *
 * Its functions take a rule state `r`: one rule in one machine (algorithm.h). What `r` believes of the
 * key begins with what the memo has cached; answers replace it, and `count` adds what was admitted
 * since.
 */
#ifndef WEIR_ALGORITHM_METHOD_H
#define WEIR_ALGORITHM_METHOD_H

#include "algorithm/algorithm.h"

/* Of what a method knows besides, at the most: view.c keeps one, of whatever method. */
enum { WEIR_STATE_BYTES_MOST = 136 };

/* Rules of one stage are charged together: those that can take back come first, the log, which
 * cannot, last. */
enum weir_stage { WEIR_STAGE_COUNTERS, WEIR_STAGE_BUCKETS, WEIR_STAGE_LOG };

/* A plain charge (machine.c), without begin(): of a group that most likely fits, and that needs one
 * operation.
 *
 * plan: plans r->charge in one operation, at the frame's `now`; false: that does not suffice.
 * end: takes in that operation, which is DONE, and answers whether all requests fit: weir_plain_fits(). If so
 *   r->charge is counted, and r->reset_after_us is set.
 *
 * Where one does not fit, begin() and charge() follow for the same `now`, which must plan the same
 * operation, and answer() takes it in. So plan writes nothing to the memory, and end nothing that answer()
 * does not overwrite. */
typedef struct weir_plain_table {
  bool (*plan)(weir_rule_state *r);
  bool (*end)(weir_rule_state *r, const weir_operation *operation);
} weir_plain_table;

/* Of rules that count in windows, in one of them at a time: what a memory knows of each. */
typedef struct weir_windows_table {
  /* Behind the memory, with leases: bytes for a window that was charged ahead of time. */
  size_t next_bytes;

  /* When the window of the frame's moment ends, by what `recall` has read; 0: it slides. */
  int64_t (*next)(const weir_rule_state *r);

  /* weir_memo_lay_by(), of what the memory `next` has of the windows at its moment, read by now_us. */
  void (*lay_by)(void *memory, const void *next, int64_t now_us);

  /* Forgets what lies behind the memory, with the windows that were charged ahead of time. */
  void (*drop_next)(void *memory);

  /* After `begin`, of a settlement: whether what the memory knows shows that `cost` (above 0) of the charge
   * of that stamp is there, so that `refund` can choose without a look. The take-back then reads along what
   * `figures` needs. */
  bool (*sure)(const weir_rule_state *r, int64_t at_us, int64_t cost);
} weir_windows_table;

/* Of rules whose requests can be settled (settle.c). */
typedef struct weir_settling_table {
  /* Whether an overrun may be charged without a look; asked after `begin`. */
  bool (*blind)(const weir_rule_state *r);

  /* After a look, or for a charge that was confirmed: how much of `cost` (above 0) fits under the limit and
   * the rule's debt on top of what r believes. */
  int64_t (*overrun)(const weir_rule_state *r, int64_t cost);
} weir_settling_table;

/* Of rules that delay requests. */
typedef struct weir_delaying_table {
  /* How long the holder of this cost must wait, asked before it is counted. */
  int64_t (*delay)(const weir_rule_state *r, const weir_ask *ask, int64_t cost);

  /* Where the slot of what was just counted ends, as it is stored (weir_ask.ends). */
  int64_t (*slot)(const weir_rule_state *r);
} weir_delaying_table;

/* Of rules whose places are held. */
typedef struct weir_holding_table {
  /* Where the last period ends that is paid of what was just counted (weir_ask.ends). */
  int64_t (*end)(const weir_rule_state *r);

  /* Pays `cost` (above 0) of what is held for one period more, round after round as the first ones;
   * *end_us is the end of what is paid, in and out: later than it was only once the store has confirmed
   * that in time. */
  void (*renew)(weir_rule_state *r, int64_t cost, int64_t *end_us);
} weir_holding_table;

/* What a rule needs of a method, and tables of what only some can do: where one of these is missing, all
 * that is in it is. */
typedef struct weir_method {
  unsigned stage;       /* enum weir_stage */
  unsigned needs;       /* of a store: bits of enum weir_need */
  bool charges_at_once; /* a charge is one round and goes back whole: no look is needed before it */
  bool bounds;          /* a charge is one addition, which gets a bound where its frame says so */
  bool refunds_unseen;  /* `refund` needs no look */

  /* Bytes of what a memo keeps of one rule, multiples of 8, where zeroed means nothing known: so many,
   * and so many for each cell of the rule. And of what the method knows besides while a machine runs,
   * zeroed before each begin(). */
  size_t memory_bytes, cell_bytes;
  size_t state_bytes;

  /* Most operations of one round; one for each counter that cells fill comes on top. */
  size_t operations_most;

  /* How long a key must live after it was written: as long as some process may ask for it. */
  int64_t (*ttl_us)(const weir_rule *rule, const weir_settings *settings);

  /* Moves r to the frame's `now`: what the memory keeps and is still true stays, all else is not
   * known. Begins every look and every charge. */
  void (*begin)(weir_rule_state *r);

  /* Whether r, the only rule, may be charged without a look; asked after `begin`. */
  bool (*blind)(const weir_rule_state *r);

  /* Plans operations for one round of a phase with weir_plan(). It is called again after every round,
   * and is through when it plans nothing; r->step counts the rounds.
   *
   * LOOK: reads until `room` and `figures` have what they need; changes nothing. Also along with a
   *   TAKE_BACK, behind what that plans: then the frame's phase says so.
   * CHARGE: adds r->charge (above 0); sets r->charged once the store confirmed it, or r->conflict when
   *   others were faster and nothing of it stays. Neither: the only rule, charged blind, has read
   *   instead what there was, and that decides. In a settlement what it adds is an overrun: room is no
   *   question of it.
   * TAKE_BACK: gives back r->unused (above 0) of what was charged, or of what `refund` chose. It is 0
   *   afterwards, which after a SUB the machine sees to, unless something has to stay charged;
   *   r->conflict when others kept it out.
   * RESET: removes all that is stored. */
  void (*plan)(weir_rule_state *r, weir_phase phase);

  /* Writes what `known` says, in the place of what there is (afresh) or where there is nothing. Once, and
   * no answer is asked for. NULL: no process goes on by such a rule. */
  void (*store)(weir_rule_state *r, const weir_known *known, bool afresh);

  /* Takes in one outcome: DONE, ABSENT or CONFLICT. After a charge r believes what was there without
   * it. */
  void (*answer)(weir_rule_state *r, const weir_operation *operation);

  /* The largest cost that fits on top of what r believes, for a request with these wishes; 0: none. */
  int64_t (*room)(const weir_rule_state *r, const weir_ask *ask);

  /* When the oldest that r believes was read. */
  int64_t (*oldest_us)(const weir_rule_state *r);

  /* Counts a cost as admitted (below 0: no longer), in r and the memory. Called before `figures` of the
   * same request. Of rules with count=all it answers what then stands where r charges; with
   * a cost of 0 what does now. Of others the answer means nothing. */
  int64_t (*count)(weir_rule_state *r, int64_t cost);

  /* remaining, retry_after_us (where the cost is denied) and reset_after_us. */
  void (*figures)(const weir_rule_state *r, const weir_ask *ask, int64_t cost, bool denied,
                  weir_decision *decision);

  /* Writes down that this much of a charge stays in the store, once what was admitted is counted;
   * below 0: goes back: with weir_expect_count() or weir_expect_add(), and what it teaches of the
   * share (plan.h). */
  void (*expect)(weir_rule_state *r, int64_t cost);

  /* After a look: chooses what a refund of `cost` (above 0) gives back, in r->unused; 0 where it no
   * longer matters. False when less than that is charged. */
  bool (*refund)(weir_rule_state *r, const weir_ask *ask, int64_t cost);

  /* By the memory alone, which they do not change, and without a machine: r has a rule, a memory, an
   * empty state and what is expected, its frame the settings, a moment and the request, or NULL.
   *
   * recall: brings r to what the memory says, for `room` and `figures`; false: it says too little.
   * known: weir_view_known(). */
  bool (*recall)(weir_rule_state *r);
  void (*known)(const weir_rule_state *r, weir_known *known);

  /* What the memory says must be read again before anything rests on it. */
  void (*forget)(void *memory);

  /* weir_memo_doubt(), of rules whose charges go back to their places; else NULL. */
  void (*doubt)(void *memory, int64_t place, int64_t cost);

  /* weir_memo_share(), of rules that divide a limit; else NULL. */
  void (*share)(const weir_rule *rule, void *memory, const void *other);

  const weir_plain_table *plain; /* NULL: no charge is plain */
  const weir_windows_table *windows;
  const weir_settling_table *settling;
  const weir_delaying_table *delaying; /* NULL: no request waits */
  const weir_holding_table *holding;
} weir_method;

extern const weir_method weir_window_method; /* fixed and sliding windows */
extern const weir_method weir_swap_method;   /* token and leaky buckets, where the store swaps */
extern const weir_method weir_raise_method;  /* the same, where it raises */
extern const weir_method weir_quota_method;
extern const weir_method weir_log_method;
extern const weir_method weir_in_flight_method;
extern const weir_method weir_shared_method;

extern const weir_method *const weir_methods[]; /* by the kind of a rule, where no store swaps */

/* By the rule and the store's traits. */
static inline const weir_method *weir_method_of(const weir_rule *rule, unsigned traits) {
  const weir_method *method = weir_methods[rule->kind];
  bool swaps = method == &weir_raise_method && traits & WEIR_TRAIT_SWAP;
  return swaps ? &weir_swap_method : method;
}

/* A method's ttl_us: at least what the limiter asks for, at most what a store takes. */
int64_t weir_method_ttl_us(const weir_rule *rule, const weir_settings *settings);

#endif

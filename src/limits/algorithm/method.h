/* A method: what one kind of rule is to the machine. The machine owns order, groups, failures and
 * time; a method knows which operations its rule needs and what their answers mean.
 *
 * A rule state stands for one rule in one machine. What a rule state believes of the key is called
 * its notes: it begins with what the memo has cached, answers replace it, and `note` adds what was
 * admitted since.
 */
#ifndef WEIR_ALGORITHM_METHOD_H
#define WEIR_ALGORITHM_METHOD_H

#include "algorithm/algorithm.h"

/* Rules of one stage are charged together: those that can take back come first, the log, which
 * cannot, last. */
enum weir_stage { WEIR_STAGE_COUNTERS, WEIR_STAGE_BUCKETS, WEIR_STAGE_LOG };

typedef struct weir_method {
  unsigned stage;       /* enum weir_stage */
  bool charges_at_once; /* a charge is one round and goes back whole: no look is needed before it */
  bool one_by_one;      /* every cost is 1, and every request is a group of its own */
  bool moves_in_time; /* a charge takes a place in time: who is denied may wait for one, and a place
                         that had a delay goes back only as a whole */

  /* What it needs of a store with these traits: bits of enum weir_need. */
  unsigned (*needs)(unsigned traits);

  /* How long a key must live after it was written: as long as anybody may ask for it. */
  int64_t (*ttl_us)(const weir_rule *rule, const weir_settings *settings);

  /* Bytes of what a memo keeps of one rule, a multiple of 8, where zeroed means nothing known; and
   * of what the method knows besides while a machine runs, zeroed before each frame(). */
  size_t (*memory_bytes)(const weir_rule *rule);
  size_t state_bytes;

  /* Most operations that the rule state plans for one round. */
  size_t (*operations_most)(const weir_rule *rule);

  /* Moves rule state i to machine->now_us: what the memo keeps and is still true stays, all else is
   * not known. Begins every look and every charge. */
  void (*frame)(weir_machine *machine, size_t i);

  /* Whether rule state i, the only one, may be charged without a look; asked after `frame`, unless
   * `charges_at_once` says so already. */
  bool (*blind)(const weir_machine *machine, size_t i);

  /* Each plans operations for one round with weir_plan(). They are called again after every round,
   * and are through when they plan nothing; rule_state->step counts the rounds.
   *
   * look: reads until `room` and `figures` have what they need; changes nothing.
   * charge: adds rule_state->charge (above 0); sets rule_state->charged once the store confirmed
   * it, or rule_state->conflict when others were faster and nothing of it stays. Neither: the only
   * rule, charged blind, has read instead what there was, and that decides. take_back: gives
   * back rule_state->unused (above 0) of what was charged, or of what `refund` chose. It is 0
   * afterwards, which after a SUB the machine sees to, unless something has to stay charged;
   *   rule_state->conflict when others kept it out.
   * reset: removes all that is stored. */
  void (*look)(weir_machine *machine, size_t i);
  void (*charge)(weir_machine *machine, size_t i);
  void (*take_back)(weir_machine *machine, size_t i);
  void (*reset)(weir_machine *machine, size_t i);

  /* Takes in one outcome of this rule state: DONE, ABSENT or CONFLICT. After a charge the rule
   * state's notes hold what was there without it. */
  void (*answer)(weir_machine *machine, size_t i, const weir_operation *operation);

  /* With count=all: whether the cost of a denied request may stay, or the count is about to
   * overflow. NULL: rules without that option. */
  bool (*keeps_denied)(const weir_rule_state *rule_state);

  /* The largest cost that fits on top of the notes, for a request with these wishes; 0: none. */
  int64_t (*room)(const weir_rule *rule, const weir_rule_state *rule_state,
                  const weir_request_state *request);

  /* When the oldest of the notes was read. NULL: rules that read all of them in every decision. */
  int64_t (*oldest_us)(const weir_machine *machine, size_t i);

  /* Counts a cost as admitted (below 0: no longer), in rule state and memo. Called before `figures`
   * and `delay` of the same request. */
  void (*note)(weir_machine *machine, size_t i, int64_t cost);

  /* remaining, retry_after_us (where the cost is denied) and reset_after_us, as the notes stand. */
  void (*figures)(const weir_rule *rule, const weir_rule_state *rule_state,
                  const weir_request_state *request, int64_t cost, bool denied,
                  weir_decision *decision);

  /* How long the holder of this cost must wait, asked before it is noted. NULL: never. */
  int64_t (*delay)(const weir_rule *rule, const weir_rule_state *rule_state, int64_t cost);

  /* Where the slot of what was just noted ends (weir_request_state.ends). NULL: rules without
   * slots. */
  int64_t (*slot)(const weir_machine *machine, size_t i);

  /* Writes down that this much of a charge stays in the store, once what was admitted is noted;
   * below 0: goes back, as the rule state's notes say: with weir_expected_count() or
   * weir_expected_add(), and what it teaches of the share (share.h). NULL: the method sees to it by
   * itself. */
  void (*expect)(weir_machine *machine, size_t i, int64_t cost);

  /* After a look: chooses what a refund of `cost` (above 0) gives back, in rule_state->unused; 0
   * where it no longer matters. False when less than that is charged. */
  bool (*refund)(weir_machine *machine, size_t i, const weir_request_state *request, int64_t cost);

  /* Room and figures for this cost by the memory alone, for a denial without the store; false: it
   * does not know enough. */
  bool (*recall)(const weir_rule *rule, const weir_settings *settings, const void *memory,
                 int64_t now_us, const weir_request_state *request, int64_t cost, int64_t *room,
                 weir_decision *figures);

  /* What the memory says must be read again before anything rests on it. */
  void (*forget)(void *memory);

  /* What the memory last knew, read or not since: weir_memo_known(). */
  void (*known)(const weir_rule *rule, const weir_settings *settings, const void *memory,
                const weir_expected *expected, int64_t now_us, weir_known *known);

  /* Stores what `known` says, in the place of what there is or where there is nothing. NULL: no
   * process goes on by such a rule. */
  void (*begin)(weir_machine *machine, size_t i, const weir_known *known, bool afresh);

  /* Which place was charged: a window's cell, a quota's start. NULL: what buckets and logs charge
   * is in no place that stands still. */
  int64_t (*place)(const weir_machine *machine, size_t i);

  /* Of what was charged to this place `cost` goes back without a machine: what else is there has to
   * be read again. NULL: what buckets and logs charge does not go back in this way. */
  void (*doubt)(const weir_stack *stack, weir_memo *memo, size_t i, int64_t place, int64_t cost);
} weir_method;

/* The same as weir_memo_own(), to write. */
void *weir_memo_memory(const weir_stack *stack, weir_memo *memo, size_t i);

extern const weir_method weir_window_method; /* fixed and sliding windows */
extern const weir_method weir_bucket_method; /* token and leaky buckets */
extern const weir_method weir_quota_method;
extern const weir_method weir_log_method;

const weir_method *weir_method_of(const weir_rule *rule);

/* Appends an operation of rule state i to this round; the caller sets what the kind needs beyond
 * these.
 */
weir_operation *weir_plan(weir_machine *machine, size_t i, weir_operation_kind kind,
                          weir_place place, int64_t index);

/* Whether some take is open. */
bool weir_machine_has_takes(const weir_machine *machine);

/* A method's ttl_us: at least what the limiter asks for, at most what a store takes. */
int64_t weir_method_ttl_us(const weir_rule *rule, const weir_settings *settings);

/* A cost in parts, as weir_known has it, and a known amount in those of a continued rule. What is
 * above every limit is as good as 2^40. */
static inline int64_t weir_known_parts(int64_t cost) {
  int64_t most = INT64_C(1) << 40;
  return (cost < most ? cost : most) * WEIR_CONTINUED_PARTS;
}

static inline int64_t weir_known_here(const weir_rule *continued, int64_t amount) {
  return amount / (WEIR_CONTINUED_PARTS / continued->parts);
}

/* On top of every TTL: stores count whole seconds. */
#define WEIR_TTL_SLACK_US INT64_C(2000000)

/* weir_operation.stake of so much of a limit; `part` and `whole` in one unit, `whole` above 0.
 * weir_plan() sets that of what is charged or goes back; who knows better overwrites it. */
uint32_t weir_plan_stake(int64_t part, int64_t whole);

#endif

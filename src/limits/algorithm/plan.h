/* What methods share, and stand on: planning an operation, reading a counter, what of this process's own
 * charges the store must still hold, and what part of all charges they are.
 *
 * A counter that shows less than this process alone was charged and did not give back has been
 * evicted, flushed or restarted, or another process has reset or refunded it. There is no other way:
 * each takes back only what it added. Only what is certain counts, so one index is watched per rule,
 * the last that was charged: its cell, its window, its epoch. Decisions do not depend on it.
 */
#ifndef WEIR_ALGORITHM_PLAN_H
#define WEIR_ALGORITHM_PLAN_H

#include "algorithm/algorithm.h"

/* On top of every TTL: stores count whole seconds. */
#define WEIR_TTL_SLACK_US INT64_C(2000000)

/* Appends an operation of r to this round; the caller sets what the kind needs beyond these. */
weir_operation *weir_plan(weir_rule_state *r, weir_operation_kind kind, weir_place place,
                          int64_t index);

/* weir_operation.stake of so much of a limit; `part` and `whole` in one unit, `whole` above 0.
 * weir_plan() sets that of what is charged or goes back; a method that knows better overwrites it. */
uint32_t weir_plan_stake(int64_t part, int64_t whole);

/* The highest threshold of a group's requests: what a store refuses by it, fits for none of them all. */
static inline weir_threshold weir_plan_threshold(const weir_rule_state *r) {
  weir_threshold most = {r->rule->capacity, r->rule->upper};
  const weir_claim *request = r->frame->requests;
  if (r->frame->stack->class_count == 0) return most;
  most = weir_ask_threshold(r->rule, &request->ask);
  while ((request = request->next) != NULL) {
    const weir_threshold other = weir_ask_threshold(r->rule, &request->ask);
    if (other.capacity > most.capacity) most = other;
  }
  return most;
}

/* Whether all requests of a plain charge fit on top of what is there, one after another; and each by its own
 * class, of rules that have some. */
bool weir_plain_fits_classes(weir_rule_state *r, int64_t used, int64_t whole);
static inline bool weir_plain_fits(weir_rule_state *r, int64_t used, int64_t whole) {
  if (r->frame->stack->class_count > 0) return weir_plain_fits_classes(r, used, whole);
  int64_t by_upper = r->rule->upper - whole;
  r->room = r->rule->capacity - used;
  if (r->room > by_upper) r->room = by_upper;
  return r->room >= r->charge;
}

/* Makes of a SUB the one that gives `cost` back to a rule: from which counter, and how much. False: by no
 * subtraction, as it drains. */
bool weir_rule_return(const weir_rule *rule, int64_t place, int64_t cost,
                      weir_operation *operation);

/* Begins a phase, with no round of it planned yet. */
void weir_machine_enter(weir_machine *machine, weir_phase phase);

/* What r wants of the next round of a charge, and of a take-back: weir_phase_row.plan of several courses. */
void weir_plan_charge(weir_machine *machine, weir_rule_state *r);
void weir_plan_take_back(weir_machine *machine, weir_rule_state *r);

/* weir_method.blind, where a charge asks for all that it must know, or goes back whole. */
bool weir_always_blind(const weir_rule_state *r);

/* weir_method.oldest_us, where every decision reads all that it rests on. */
int64_t weir_read_now_us(const weir_rule_state *r);

/* Whether some take is open. */
bool weir_has_takes(const weir_frame *frame);

/* Counts are read as at most this: far above every limit, and the sum of all cells fits 63 bits. Below 0
 * is what a counter shows that was lost and then given back to: nothing. */
#define WEIR_COUNT_MOST (INT64_C(1) << 55)

static inline int64_t weir_count_of(int64_t value) {
  return value < 0 ? 0 : value < WEIR_COUNT_MOST ? value : WEIR_COUNT_MOST;
}

/* What a counter is seeded with that must be there: no charge fits on top of it, and whoever reads it sees
 * that what was charged is lost. */
static inline int64_t weir_count_lost(const weir_rule *rule) {
  return 2 * rule->lost_from;
}

static inline bool weir_count_is_lost(const weir_rule *rule, int64_t stored) {
  return stored >= rule->lost_from;
}

/* What an answer says of its key: what an addition found there, else what there is. */
static inline int64_t weir_stored_before(const weir_operation *operation) {
  if (operation->outcome == WEIR_FULL) return operation->value;
  int64_t value = operation->outcome == WEIR_DONE ? operation->value : 0;
  if (operation->kind == WEIR_ADD) value = (int64_t)((uint64_t)value - (uint64_t)operation->delta);
  return value;
}

/* A cost in parts, as weir_known has it, and a known amount in those of a continued rule. What is
 * above every limit is as good as 2^60 parts. */
static inline int64_t weir_known_parts(const weir_rule *rule, int64_t cost) {
  int64_t parts = weir_rule_parts(rule), most = (INT64_C(1) << 60) / parts;
  return (cost < most ? cost : most) * parts;
}

static inline int64_t weir_known_here(const weir_rule *continued, int64_t amount) {
  if (!weir_rule_moves_in_time(continued)) return amount;
  return amount / (WEIR_CONTINUED_PARTS / continued->parts);
}

/* So much more (below 0: less) of a charge stays in the store: the method's `expect`, where losses are
 * looked for. */
void weir_expect_change(weir_rule_state *r, int64_t cost);

/* The same of what a request cost beyond its estimate: it is a part of that charge, not another one. */
void weir_expect_overrun(weir_rule_state *r, int64_t cost);

/* A charge got no answer. Most likely it counts, but what is found there next may show that it does not:
 * until then the share is unsure. */
void weir_expect_unanswered(weir_rule_state *r);

/* The same, and what it teaches of the share, of a rule that counts what is charged: `after` is what
 * stands under `index` with it; `per_period` indices are one period. */
void weir_expect_count(weir_rule_state *r, int64_t index, int64_t per_period, int64_t after,
                       int64_t cost);

/* So much more (below 0: less) is expected under `index`. A new index takes the place of the one
 * before. */
void weir_expect_add(weir_rule_state *r, int64_t index, int64_t amount);

/* There is so much under `index`: where that is less than what is expected, a key was lost. */
static inline void weir_expect_compare(weir_rule_state *r, int64_t index, int64_t found) {
  if (r->expected->index != index || found >= r->expected->amount) return;
  r->expected->amount = 0;
  r->frame->lost++;
}

/* --- the share ---------------------------------------------------------------------------------
 *
 * What part of a key's charges is this process's own, so that it can go on without the store as it began
 * with it (memo/account.h).
 *
 *     own charges      c1         c2                  c3
 *     the count   0 ---+--+--+----+--+----+--+--+--+--+---
 *                      |<- c1 is mine, all: up to c2  |     learnt at c2
 *                                 |<- c2 is mine, all ->|   learnt at c3
 *
 * An own charge counts only when the next one shows what came after it. Own charges over the total,
 * with the last, would add up to more than 1: a process that came first and left would take itself
 * to be alone. Where charges come in random order, the shares of all processes so add up to 1 on
 * average, however many there are: docs/guarantees.md, "Outages".
 *
 * Sums are signed: what goes back comes off the last own charge. Only an admitted charge teaches,
 * or in a window a look at what became of charges without an answer: a share is unsure until then. Windows
 * and counts learn in weir_expect_count(), buckets in bucket.c. */

/* An own charge of `cost` stands on top of `before`: what there is since the last one is learnt,
 * where the two are connected. */
void weir_share_learn(weir_share *share, weir_lesson *lesson, bool connected, int64_t before,
                      int64_t cost);

/* What an unsure share waited for: of what came to stand there since its last answer, as much as was charged
 * without one is taken to be own, and no more than came. It stays unsure until an own charge is answered. */
void weir_share_reconcile(weir_share *share, weir_lesson *lesson, int64_t found);

/* Halves what was learnt, so many times. */
void weir_share_halve(weir_share *share, int64_t times);

/* Of a rule that counts what is charged, in windows: whether its share is unsure, and waits for what is found. */
static inline bool weir_expect_waits(const weir_rule_state *r) {
  return r->expected->share.before < 0;
}
void weir_expect_reconcile(weir_rule_state *r, int64_t index, int64_t found);

/* weir_expect_compare() of such a rule. */
static inline void weir_expect_found(weir_rule_state *r, int64_t index, int64_t found) {
  if (weir_expect_waits(r)) weir_expect_reconcile(r, index, found);
  weir_expect_compare(r, index, found);
}

#endif

/* The way of a group, the same for every rule. One loop, machine_advance(), goes through the phases of its
 * course, which the kind of its first request decides. That of takes and peeks:
 *
 *   start ─┬─> LOOK ─────────┬──> DONE         nothing fits, or no request wants to charge
 *          │   read          │
 *          └─> CHARGE <──────┤                 one stage after another; stages are
 *              add, decide   │                 windows and quotas; buckets; the log
 *                └─> TAKE_BACK ─┬─> DONE       what did not fit has gone back
 *                               ├─> CHARGE     what denied them was in flight: once more, in order
 *                               └─> PAUSE ──> LOOK    others were faster
 * Of a reset, a begin and a renewal there is one phase each; refunds and settlements are in settle.c.
 *
 * Each phase plans operations, round after round, until no rule wants more; then the phase is over,
 * and says which comes next. Windows alone are charged without a look, as is another rule that is
 * alone and `blind`. Any other stack looks at all its rules first, so that a request that does not
 * fit leaves no trace. One clock reading stamps a whole charge.
 *
 * Most groups are plain: takes with one cost each, under rules that need one operation to charge all of
 * them, and all of it fits. Such a charge goes from start to resume and is done. Where a rule says no,
 * or the round failed, the phase CHARGE gets the same answers as if it had planned them: nothing is
 * sent twice.
 */
#include "algorithm/machine.h"

#include <string.h>

#include "algorithm/method.h"
#include "algorithm/plan.h"

enum { BOUNDS_MOST = 2 }; /* charges of a group that have one: a bound may be too low */

/* --- beginning a phase -------------------------------------------------------------------------
 */

/* Begins anew at this moment, knowing no more than the memo does. */
static void machine_begin(weir_machine *machine, int64_t now_us) {
  machine->frame.now_us = machine->frame.clock_us = now_us;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    r->step = 0;
    r->charged = r->stays = r->conflict = r->full = r->went_back = r->tells = false;
    r->wanted = r->charge = r->unused = r->place = 0;
    memset(r->state, 0, r->method->state_bytes);
    r->method->begin(r);
  }
}

/* Whether every rule is a counter: it gives back a part of its group's charge as well as all of it. */
static bool machine_only_counters(const weir_machine *machine) {
  bool counts = true;
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    counts = counts && machine->rule_states[i].method->stage == WEIR_STAGE_COUNTERS;
  return counts;
}

/* Whether some request of the group is such. */
static bool machine_has(const weir_frame *frame, bool (*is_such)(const weir_ask *ask)) {
  const weir_claim *request = frame->requests;
  while (request != NULL && !is_such(&request->ask))
    request = request->next;
  return request != NULL;
}

/* Of rules with classes: something is kept for it, which charges of lower ones can deny it. */
static bool is_of_higher_class(const weir_ask *ask) {
  return ask->class != 1 && weir_ask_charges(ask) && !ask->waits;
}

/* Whether some rule goes by what was read before the charge: others may have given back or reset since. */
static bool machine_believes_old(const weir_machine *machine) {
  const weir_frame *frame = &machine->frame;
  bool old = false;
  for (size_t i = 0; frame->believes_firm && i < frame->stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    old = old || r->method->oldest_us(r) < frame->now_us;
  }
  return old;
}

/* Whether what its own charge denies is judged once more, in the round that takes the charge back.
 *
 * Two requests of several rules can deny each other, each holding the other's last place. So can two
 * requests for several keys: their members are looked at as well, where what is charged goes back whole: then a
 * look says what is left. So can lower classes deny a higher one, what is kept for it, by what they are denied
 * themselves and have not given back yet. And so is what is denied by what was known from before. */
static bool machine_judges_again(weir_machine *machine) {
  weir_frame *frame = &machine->frame;
  bool alone = frame->stack->count == 1,
       raises = machine->rule_states->method == &weir_raise_method;
  bool whole = machine_only_counters(machine) && !frame->stack->count_all &&
               !machine_has(frame, weir_ask_is_ahead);
  bool above = frame->stack->class_count > 0 && machine_has(frame, is_of_higher_class);
  bool in_flight = machine->retries || (whole && machine_has(frame, weir_ask_is_member));
  frame->looks_at_old = !in_flight;
  frame->looks_at_back = alone && above && whole;
  if (above && (whole || (alone && raises))) in_flight = true;
  return (in_flight || machine_believes_old(machine)) && !machine->in_order;
}

__attribute__((cold, noinline)) static bool machine_some_must_peek(const weir_frame *frame) {
  const weir_claim *request = frame->requests;
  while (request != NULL && weir_ask_rank(&request->ask) > frame->memo->must_peek)
    request = request->next;
  return request != NULL;
}

/* Whether what is known calls for a look before some request of the group is charged. What denied lower classes
 * says nothing of higher ones, and stays for the lower ones when those are charged. */
static inline bool machine_must_peek(const weir_frame *frame) {
  return frame->memo->must_peek != 0 && machine_some_must_peek(frame);
}

/* What the open takes cost together under a rule: 2^62 at most. */
static int64_t machine_wanted(const weir_machine *machine, size_t i) {
  int64_t wanted = 0;
  for (const weir_claim *request = machine->frame.requests; request != NULL;
       request = request->next)
    if (weir_claim_is_open(request)) wanted += weir_claim_cost(request, i);
  return wanted;
}

/* In order every rule is a stage of its own, the smallest limit first. */
static unsigned machine_stage_of(const weir_machine *machine, size_t i) {
  const weir_stack *stack = machine->frame.stack;
  unsigned before = 0;
  if (!machine->in_order) return machine->rule_states[i].method->stage;
  for (size_t j = 0; j < stack->count; j++) {
    int64_t other = stack->rules[j].limit, own = stack->rules[i].limit;
    if (other < own || (other == own && j < i)) before++;
  }
  return before;
}

/* Begins the first stage from `from` on under which the open takes want something, if there is one. */
static void machine_charge_stage(weir_machine *machine, unsigned from) {
  const weir_stack *stack = machine->frame.stack;
  unsigned stages[WEIR_RULES_MOST];
  machine->charged_before |= machine->charging;
  machine->charging = 0;
  machine->stage = WEIR_RULES_MOST;
  machine->last_stage = true;
  weir_machine_enter(machine, WEIR_PHASE_CHARGE);
  for (size_t i = 0; i < stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    r->wanted = machine_wanted(machine, i);
    stages[i] = machine_stage_of(machine, i);
    if (r->wanted == 0 || stages[i] < from) stages[i] = WEIR_RULES_MOST;
    if (stages[i] < machine->stage) machine->stage = stages[i];
  }
  for (size_t i = 0; i < stack->count; i++) {
    if (stages[i] == WEIR_RULES_MOST) continue;
    if (stages[i] > machine->stage) {
      machine->last_stage = false;
      continue;
    }
    machine->charging |= 1U << i;
    machine->rule_states[i].charge = machine->rule_states[i].wanted;
  }
}

static void machine_begin_charge(weir_machine *machine) {
  if (machine_must_peek(&machine->frame)) machine->frame.memo->must_peek = 0;
  machine->frame.memo->unsure = false;
  machine->charging = machine->charged_before = 0;
  machine_charge_stage(machine, 0);
}

/* The charge is lost, but what the store confirmed of it counts: it goes back before any request is
 * told. */
static void machine_undo(weir_machine *machine, weir_status status) {
  machine->failure = status;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    r->unused = r->charged ? r->charge : 0;
  }
  weir_machine_enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* --- takes and peeks: phase by phase -----------------------------------------------------------
 */

/* Whether what is known calls for a look before any charge. */
static bool machine_looks_first(const weir_machine *machine) {
  const weir_frame *frame = &machine->frame;
  bool must_peek = machine_must_peek(frame) && !frame->stack->count_all &&
                   frame->requests->ask.terms != WEIR_MEMBER_SEEN;
  return must_peek || frame->requests->ask.terms == WEIR_DEBT;
}

static void decide_begin(weir_machine *machine) {
  weir_frame *frame = &machine->frame;
  const weir_rule_state *first = &machine->rule_states[0];
  bool unseen = machine->only_windows || (frame->stack->count == 1 && first->method->blind(first));
  frame->blind = unseen && !machine_looks_first(machine) && weir_has_takes(frame);
  if (frame->blind) machine_begin_charge(machine);
}

/* Where an open request is about this rule. */
static void decide_look_plan(weir_machine *machine, weir_rule_state *r) {
  const weir_claim *request = machine->frame.requests;
  while (request != NULL && (request->verdict.answered || weir_claim_cost(request, r->index) == 0))
    request = request->next;
  if (request != NULL) r->method->plan(r, WEIR_PHASE_LOOK);
}

/* Whether others were faster under some rule. */
static bool machine_has_conflict(const weir_machine *machine) {
  bool conflict = false;
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    conflict = conflict || machine->rule_states[i].conflict;
  return conflict;
}

static void decide_look_round(weir_machine *machine, weir_status status, bool late) {
  weir_machine_answered(machine, status, late);
  bool lost = machine->frame.phase == WEIR_PHASE_DONE;
  if (!lost && machine_has_conflict(machine)) machine_undo(machine, WEIR_CONTENDED);
}

static void decide_look_end(weir_machine *machine) {
  machine->frame.blind = false;
  if (!weir_decide_look(machine)) {
    machine->frame.phase = WEIR_PHASE_DONE;
  } else {
    machine_begin(machine, machine->frame.clock_us);
    machine_begin_charge(machine);
  }
}

static void decide_charge_round(weir_machine *machine, weir_status status, bool late) {
  if (late) status = weir_machine_when_late(machine, status);
  if (status == WEIR_OK && machine_has_conflict(machine)) status = WEIR_CONTENDED;
  if (status != WEIR_OK) machine_undo(machine, status);
}

/* The store has refused the charge, and said what is there at that instant. That was a look, or, where the
 * charge believed what is firm, the reason for one, unless the only request fits. Who fits is charged again. */
static void machine_judge_refused(weir_machine *machine) {
  weir_frame *frame = &machine->frame;
  weir_rule_state *r = machine->rule_states;
  const weir_claim *first = frame->requests;
  bool fits = first->next == NULL && r->method->room(r, &first->ask) >= r->wanted;
  bool old = frame->believes_firm && !fits && r->method->oldest_us(r) < frame->now_us;
  frame->memo->bounded = true;
  frame->believes_firm = frame->looks_at_old = false;
  frame->bounds = ++frame->refusals < BOUNDS_MOST;
  if (old) machine_begin(machine, frame->clock_us);
  weir_machine_enter(machine, WEIR_PHASE_LOOK);
  if (!old) r->step = 1;
}

/* What of the charge does not go back is held from now on; what does calls for a look next time. */
static bool machine_hold_charge(weir_machine *machine) {
  bool goes_back = false;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    if (r->charged) weir_expect_change(r, r->charge - r->unused);
    goes_back = goes_back || r->unused > 0;
  }
  for (const weir_claim *request = machine->frame.requests; goes_back && request != NULL;
       request = request->next)
    if (request->verdict.denying != 0 || request->ask.up_to || request->ask.terms == WEIR_DEBT)
      weir_must_peek(&machine->frame, &request->ask);
  return goes_back;
}

/* A stage is charged: what fits under its rules goes on to the next, behind the last to what goes back. */
static void decide_charge_end(weir_machine *machine) {
  weir_rule_state *first = machine->rule_states;
  if (first->full) {
    machine_judge_refused(machine);
    return;
  }
  bool in_vain = machine->frame.blind && machine->frame.stack->count == 1 && !first->charged;
  if (in_vain) { /* what was known is no longer so: that was the first step of a look */
    weir_machine_enter(machine, WEIR_PHASE_LOOK);
    first->step = 1;
    return;
  }
  bool may_retry = machine_judges_again(machine);
  bool denied = false;
  if (machine->charging != 0)
    denied = weir_decide_stage(machine, machine->charging, machine->last_stage, !may_retry);
  if (!machine->last_stage) {
    machine_charge_stage(machine, machine->stage + 1);
    if (machine->charging != 0) return;
  }
  machine->again = machine->looks_along = denied && may_retry;
  if (!machine->again) weir_decide_rest(machine);
  bool goes_back = machine_hold_charge(machine);
  weir_machine_enter(machine, goes_back || machine->again ? WEIR_PHASE_TAKE_BACK : WEIR_PHASE_DONE);
}

/* A denial stands whether or not its cost went back; a lost charge is unknown if its cost did not. */
static void decide_back_round(weir_machine *machine, weir_status status, bool late) {
  bool too_late = late && machine->again; /* to charge once more */
  if (status == WEIR_OK && !too_late) return;
  if (status != WEIR_OK) weir_machine_is_unsure(machine);
  if (machine->failure != WEIR_OK) {
    weir_machine_fail(machine, WEIR_UNKNOWN_OUTCOME);
  } else {
    weir_decide_denied(machine);
    machine->frame.phase = WEIR_PHASE_DONE;
  }
}

/* After an undo, some of the charge may not have gone back: an index in a log, a place that others
 * wait behind, or what others kept out. Where only others were in the way, the group tries once more
 * after a pause. */
static void decide_back_end(weir_machine *machine) {
  bool some_stays = false;
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    some_stays = some_stays || machine->rule_states[i].unused > 0;
  if (machine->failure == WEIR_CONTENDED && !some_stays) {
    machine->failure = WEIR_OK;
    machine->pauses++;
    machine->frame.phase = WEIR_PHASE_PAUSE;
  } else if (machine->failure != WEIR_OK) {
    weir_machine_fail(machine, some_stays ? WEIR_UNKNOWN_OUTCOME : machine->failure);
  } else if (machine->again && weir_decide_look(machine)) {
    machine->again = false;
    machine->in_order = true;
    machine_begin(machine, machine->frame.clock_us);
    machine_begin_charge(machine);
  } else {
    machine->frame.phase = WEIR_PHASE_DONE;
  }
}

static void decide_pause_round(weir_machine *machine, weir_status status, bool late) {
  (void)status; /* nothing was sent */
  machine_begin(machine, machine->frame.clock_us);
  weir_machine_enter(machine, WEIR_PHASE_LOOK);
  if (late) weir_machine_fail(machine, WEIR_CONTENDED);
}

/* What got no answer counts most likely. */
static void decide_doubt(weir_machine *machine) {
  weir_machine_doubt(machine);
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    if (machine->rule_states[i].stays) weir_expect_unanswered(&machine->rule_states[i]);
}

static const weir_course decide_course = {
    .first = WEIR_PHASE_LOOK,
    .decides = true,
    .begin = decide_begin,
    .doubt = decide_doubt,
    .rows = {[WEIR_PHASE_LOOK] = {.plan = decide_look_plan,
                                  .round = decide_look_round,
                                  .end = decide_look_end},
             [WEIR_PHASE_CHARGE] = {.plan = weir_plan_charge,
                                    .round = decide_charge_round,
                                    .end = decide_charge_end},
             [WEIR_PHASE_TAKE_BACK] = {.plan = weir_plan_take_back,
                                       .round = decide_back_round,
                                       .end = decide_back_end},
             [WEIR_PHASE_PAUSE] = {.round = decide_pause_round}}};

/* --- resets, begins and renewals ---------------------------------------------------------------
 */

static void reset_plan(weir_machine *machine, weir_rule_state *r) {
  (void)machine;
  r->method->plan(r, WEIR_PHASE_RESET);
}

/* What is gone is gone, however late. */
static void reset_round(weir_machine *machine, weir_status status, bool late) {
  if (status != WEIR_OK) weir_machine_answered(machine, status, late);
}

/* Nor is anything that was known still so, whatever became of it. */
static void reset_doubt(weir_machine *machine) {
  weir_memo *memo = machine->frame.memo;
  int64_t look_until_us = memo->look_until_us;
  memset(memo, 0, machine->memo_bytes);
  memo->look_until_us = look_until_us;
}

/* What was known is no longer so. */
static void afresh_end(weir_machine *machine) {
  memset(machine->frame.memo, 0, machine->memo_bytes);
  weir_machine_settle_alone(machine, WEIR_OK);
}

static const weir_known *known_of(const weir_machine *machine, const weir_rule_state *r) {
  return &machine->frame.requests->ask.known[r->index];
}

static void begin_plan(weir_machine *machine, weir_rule_state *r) {
  if (r->step++ == 0) r->method->store(r, known_of(machine, r), false);
}

static void afresh_plan(weir_machine *machine, weir_rule_state *r) {
  const weir_known *known = known_of(machine, r);
  bool keeps = known->of_log && known->count == 0;
  if (r->step++ == 0) r->method->store(r, known, !keeps);
}

static void renew_plan(weir_machine *machine, weir_rule_state *r) {
  const weir_claim *request = machine->frame.requests;
  int64_t cost = weir_claim_cost(request, r->index);
  if (cost > 0 && r->method->holding != NULL)
    r->method->holding->renew(r, cost, &request->ask.ends[r->index]);
}

/* By the clock alone it is late, or not. */
static void renew_round(weir_machine *machine, weir_status status, bool late) {
  (void)late;
  if (status != WEIR_OK) machine->failure = status;
}

/* What was paid is paid, whatever became of the rest. */
static void renew_end(weir_machine *machine) {
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    bool late = r->unused > 0 && !r->charged; /* it was to be paid */
    if (late && machine->failure == WEIR_OK) machine->failure = WEIR_TIMEOUT;
  }
  if (machine->failure != WEIR_OK)
    weir_machine_fail(machine, machine->failure);
  else
    weir_machine_settle_alone(machine, WEIR_OK);
}

static const weir_course reset_course = {
    .first = WEIR_PHASE_RESET,
    .doubt = reset_doubt,
    .rows = {[WEIR_PHASE_RESET] = {.plan = reset_plan, .round = reset_round, .end = afresh_end}}};

static const weir_course begin_course = {
    .first = WEIR_PHASE_BEGIN,
    .doubt = weir_machine_doubt,
    .rows = {[WEIR_PHASE_BEGIN] = {
                 .plan = begin_plan, .round = weir_machine_answered, .end = afresh_end}}};

static const weir_course afresh_course = {
    .first = WEIR_PHASE_BEGIN,
    .doubt = weir_machine_doubt,
    .rows = {[WEIR_PHASE_BEGIN] = {
                 .plan = afresh_plan, .round = weir_machine_answered, .end = afresh_end}}};

static const weir_course renew_course = {
    .first = WEIR_PHASE_RENEW,
    .doubt = weir_machine_doubt,
    .rows = {[WEIR_PHASE_RENEW] = {.plan = renew_plan, .round = renew_round, .end = renew_end}}};

/* By the kind of a group's first request; the others of it are takes and peeks, as it is. */
static const weir_course *const courses[] = {
    [WEIR_TAKE] = &decide_course,         [WEIR_PEEK] = &decide_course,
    [WEIR_RESET] = &reset_course,         [WEIR_REFUND] = &weir_refund_course,
    [WEIR_SETTLE] = &weir_settle_course,  [WEIR_BEGIN] = &begin_course,
    [WEIR_BEGIN_AFRESH] = &afresh_course, [WEIR_RENEW] = &renew_course,
};

/* --- the loop ----------------------------------------------------------------------------------
 */

static weir_turn machine_advance(weir_machine *machine, weir_operation *operations) {
  weir_frame *frame = &machine->frame;
  weir_rule_state *end = machine->rule_states + frame->stack->count;
  frame->operations = operations;
  for (;;) {
    frame->operation_count = 0;
    if (frame->phase == WEIR_PHASE_PAUSE) return WEIR_TURN_PAUSE;
    if (frame->phase == WEIR_PHASE_DONE) return WEIR_TURN_DONE;
    const weir_phase_row *row = &machine->course->rows[frame->phase];
    for (weir_rule_state *r = machine->rule_states; r < end; r++)
      row->plan(machine, r);
    for (weir_rule_state *r = machine->rule_states; machine->looks_along && r < end; r++) {
      r->step = 0; /* behind the take-back of all rules */
      r->method->plan(r, WEIR_PHASE_LOOK);
    }
    machine->looks_along = false;
    if (frame->operation_count > 0) return WEIR_TURN_EXECUTE;
    row->end(machine);
  }
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* An answer is the rule's. */
static void machine_take_answer(weir_machine *machine, const weir_operation *operation) {
  weir_rule_state *r = &machine->rule_states[operation->counter.rule];
  weir_phase phase = machine->frame.phase;
  bool done = operation->outcome == WEIR_DONE;
  if (operation->outcome == WEIR_FULL) r->full = true;
  if (phase == WEIR_PHASE_TAKE_BACK && operation->kind != WEIR_GET && done) r->went_back = true;
  if (operation->kind == WEIR_ADD && operation->floor > 0 && done &&
      operation->value >= operation->floor)
    machine->frame.memo->bounded = false;
  if (operation->kind == WEIR_SUB && phase != WEIR_PHASE_RENEW) r->unused = 0;
  if (phase != WEIR_PHASE_BEGIN) r->method->answer(r, operation); /* else what is there stays */
}

/* Without an answer a charge that was sent most likely counts; and so does what was to go back, and was not sent. */
static weir_status machine_take_failure(weir_machine *machine, const weir_operation *operation) {
  weir_rule_state *r = &machine->rule_states[operation->counter.rule];
  bool back = machine->frame.phase == WEIR_PHASE_TAKE_BACK;
  weir_outcome stays = back ? WEIR_NOT_SENT : WEIR_UNKNOWN;
  if (operation->kind != WEIR_GET && operation->outcome == stays) r->stays = true;
  return weir_machine_failure(machine, operation);
}

/* Returns the worst of the round: a change whose outcome is unknown weighs more than any other failure. */
static weir_status machine_take_answers(weir_machine *machine) {
  weir_status worst = WEIR_OK;
  for (size_t n = 0; n < machine->frame.operation_count; n++) {
    const weir_operation *operation = &machine->frame.operations[n];
    if (weir_is_answered(operation)) {
      machine_take_answer(machine, operation);
    } else {
      weir_status status = machine_take_failure(machine, operation);
      if (worst != WEIR_UNKNOWN_OUTCOME) worst = status;
    }
  }
  return worst;
}

/* --- a plain charge ----------------------------------------------------------------------------
 */

/* Plans a charge of so much for a group that is plain, if each rule agrees. */
static bool machine_plan_plain(weir_machine *machine, int64_t now_us, int64_t charge,
                               weir_operation *operations) {
  weir_frame *frame = &machine->frame;
  weir_rule_state *end = machine->rule_states + frame->stack->count;
  if (machine->phases_only || (!machine->only_windows && frame->stack->count > 1)) return false;
  frame->now_us = now_us;
  frame->operations = operations;
  frame->operation_count = 0;
  for (weir_rule_state *r = machine->rule_states; r < end; r++) {
    r->charge = charge;
    r->unused = 0;
    if (r->method->plain == NULL || !r->method->plain->plan(r)) return false;
  }
  if (machine_must_peek(frame)) frame->memo->must_peek = 0;
  frame->blind = true;
  frame->phase = WEIR_PHASE_CHARGE;
  return true;
}

/* Of a rule with classes: what is left for that of a request, and its limit. */
__attribute__((noinline)) static int64_t machine_class_room(weir_rule_state *r,
                                                            const weir_claim *request) {
  const weir_threshold most = weir_ask_threshold(r->rule, &request->ask);
  r->used += request->verdict.charge;
  r->whole += request->verdict.charge;
  r->room = most.capacity - r->used;
  if (r->room > most.upper - r->whole) r->room = most.upper - r->whole;
  return most.capacity;
}

/* What is left behind a request of it. */
static inline void machine_tell_plain(weir_rule_state *r, const weir_claim *request,
                                      weir_decision *decision) {
  int64_t limit = r->rule->capacity;
  r->room -= request->verdict.charge;
  if (r->frame->stack->class_count > 0) limit = machine_class_room(r, request);
  *decision = (weir_decision){.allowed = true,
                              .limit = limit,
                              .remaining = r->room,
                              .reset_after_us = r->reset_after_us,
                              .delay_us = request->verdict.decision.delay_us,
                              .cost = request->verdict.held + request->verdict.charge,
                              .at_us = r->frame->now_us};
}

__attribute__((noinline)) static void machine_tell_all(weir_machine *machine, weir_claim *request) {
  weir_decision figures[WEIR_RULES_MOST];
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    machine_tell_plain(&machine->rule_states[i], request, &figures[i]);
  request->verdict.decision = weir_decide_speak(machine->frame.stack, figures, request, 0);
}

/* Whether all of it fits, which settles the group. A rule that is alone speaks for itself. */
static bool machine_end_plain(weir_machine *machine) {
  weir_frame *frame = &machine->frame;
  weir_rule_state *rules = machine->rule_states;
  size_t rule_count = frame->stack->count;
  for (size_t i = 0; i < rule_count; i++) {
    const weir_operation *operation = &frame->operations[i];
    if (operation->outcome != WEIR_DONE || !rules[i].method->plain->end(&rules[i], operation))
      return false;
  }
  for (weir_claim *request = frame->requests; request != NULL; request = request->next) {
    if (rule_count == 1)
      machine_tell_plain(rules, request, &request->verdict.decision);
    else
      machine_tell_all(machine, request);
    request->verdict.status = WEIR_OK;
    request->verdict.answered = true;
  }
  for (size_t i = 0; i < rule_count; i++)
    weir_expect_change(&rules[i], rules[i].charge);
  frame->phase = WEIR_PHASE_DONE;
  frame->operation_count = 0;
  machine->plain = false;
  return true;
}

/* Makes of it a charge that the phases go on with. What they plan is what was sent. */
static void machine_leave_plain(weir_machine *machine) {
  weir_frame *frame = &machine->frame;
  weir_operation planned[WEIR_RULES_MOST];
  weir_operation *answered = frame->operations;
  int64_t clock_us = frame->clock_us;
  machine->plain = false;
  frame->operations = planned;
  frame->operation_count = 0;
  machine_begin(machine, frame->now_us);
  machine_begin_charge(machine);
  for (size_t i = 0; i < frame->stack->count; i++)
    weir_plan_charge(machine, &machine->rule_states[i]);
  frame->operations = answered;
  frame->clock_us = clock_us;
}

/* --- entry -------------------------------------------------------------------------------------
 */

/* What is charged for higher classes alone leaves no more room for a class that was denied. */
__attribute__((cold, noinline)) static void machine_keep_denial(const weir_frame *frame) {
  weir_memo *memo = frame->memo;
  for (const weir_claim *request = frame->requests; request != NULL; request = request->next)
    if (!weir_ask_charges(&request->ask) || request->ask.terms == WEIR_DEBT ||
        weir_ask_rank(&request->ask) <= memo->denied_rank)
      memo->denied_cost = 0;
}

/* A group of requests with a limit of their own is decided by rules that differ in nothing else. */
__attribute__((cold, noinline)) static void machine_set_limit(weir_machine *machine,
                                                              int64_t limit) {
  if (limit != 0) weir_stack_set_limit(machine->stack, limit, machine->limited);
  machine->limit = limit;
  machine->frame.stack = limit != 0 ? machine->limited : machine->stack;
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->rule_states[i].rule = &machine->frame.stack->rules[i];
}

void weir_machine_rule(weir_machine *machine, int64_t limit) {
  weir_memo_limits_of(machine->stack, machine->frame.memo)->ruled = limit;
  if (limit != machine->limit) machine_set_limit(machine, limit);
}

/* Of rules that have a most=: that of the requests, else that of the key. */
static void machine_take_limit(weir_machine *machine, const weir_memo *memo, int64_t asked) {
  int64_t limit = asked != 0 ? asked : weir_memo_limits_of(machine->stack, memo)->ruled;
  if (limit != machine->limit) machine_set_limit(machine, limit);
}

int64_t weir_machine_capacity(weir_machine *machine, const weir_memo *memo, int64_t asked) {
  machine_take_limit(machine, memo, asked);
  return weir_stack_least_capacity(machine->frame.stack);
}

/* Whether all are of the lowest class. For a higher one something is kept, which the charges hide that a lower one
 * was denied, until they have gone back: a refusal would deny at once, where a charge is judged once more. */
__attribute__((noinline)) static bool machine_keeps_nothing(const weir_claim *requests) {
  for (const weir_claim *request = requests; request != NULL; request = request->next)
    if (request->ask.class != 1) return false;
  return true;
}

/* Of a group of which some request is not bare: takes off it what it cannot have. A bound is not for members,
 * whose denials wait for the others, nor for what is never denied. False: its charge is not plain. */
__attribute__((noinline)) static bool machine_look_at(weir_machine *machine,
                                                      const weir_claim *requests) {
  weir_frame *frame = &machine->frame;
  bool plain = true;
  if (!machine->course->decides) frame->bounds = false;
  for (const weir_claim *request = requests; request != NULL; request = request->next) {
    const weir_ask *ask = &request->ask;
    bool charges = weir_ask_charges(ask);
    bool alike = ask->terms == WEIR_PLAIN || weir_ask_is_ahead(ask);
    if (!charges || ask->up_to) frame->believes_firm = false;
    if (!alike) frame->bounds = false;
    plain = plain && charges && alike && weir_ask_is_simple(ask) &&
            (ask->ends == NULL || machine->only_windows) && request->verdict.charge >= 1;
  }
  return plain;
}

static void machine_take_in(weir_machine *machine, const weir_memo *memo, weir_claim *requests) {
  weir_frame *frame = &machine->frame;
  if (memo == NULL)
    memset(frame->memo, 0, machine->memo_bytes);
  else if (memo != frame->memo)
    memcpy(frame->memo, memo, machine->memo_bytes);
  frame->requests = requests;
  if (machine->limited != NULL) machine_take_limit(machine, frame->memo, requests->ask.limit);
}

weir_turn weir_machine_refuse(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                              weir_claim *requests, const weir_operation *read, bool late) {
  machine_take_in(machine, memo, requests);
  machine->course = courses[requests->ask.kind];
  machine->away = machine->gone = machine->plain = false;
  machine->frame.lost = 0;
  machine->frame.now_us = machine->frame.clock_us = now_us;
  machine->frame.operation_count = 0;
  machine->pauses = 0;
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    machine->rule_states[i].stays = false;
  weir_status status = weir_machine_failure(machine, read);
  weir_machine_fail(machine, late && !machine->away ? WEIR_TIMEOUT : status);
  return WEIR_TURN_DONE;
}

weir_turn weir_machine_start(weir_machine *machine, int64_t now_us, const weir_memo *memo,
                             weir_claim *requests, weir_operation *operations) {
  weir_frame *frame = &machine->frame;
  machine_take_in(machine, memo, requests);
  frame->lost = 0;
  frame->looks_at_back = false;
  machine->course = courses[requests->ask.kind];
  frame->settles = machine->course->settles;
  frame->refunds = machine->course->refunds;
  frame->believes_firm = machine->may_believe;
  frame->bounds =
      machine->may_bound && (frame->stack->class_count == 0 || machine_keeps_nothing(requests));
  frame->refusals = 0;
  bool bare = true;
  int64_t charge = 0;
  for (weir_claim *request = requests; request != NULL; request = request->next) {
    weir_claim_offer(frame->stack, request);
    if (!weir_ask_is_bare(&request->ask) || request->verdict.charge < 1) bare = false;
    charge += request->verdict.charge;
  }
  bool plain = bare || machine_look_at(machine, requests);
  machine->failure = WEIR_OK;
  machine->in_order = machine->again = machine->looks_along = false;
  machine->away = machine->gone = false;
  machine->pauses = 0;
  if (frame->memo->denied_cost != 0) machine_keep_denial(frame);
  if (frame->memo->must_peek != 0 && machine_looks_first(machine)) plain = false;
  machine->plain = plain && machine_plan_plain(machine, now_us, charge, operations);
  if (machine->plain) return WEIR_TURN_EXECUTE;
  frame->blind = false;
  machine_begin(machine, now_us);
  weir_machine_enter(machine, machine->course->first);
  if (machine->course->begin != NULL) machine->course->begin(machine);
  return machine_advance(machine, operations);
}

static weir_turn machine_go_on(weir_machine *machine, bool late, weir_operation *operations) {
  if (machine->plain) machine_leave_plain(machine);
  weir_status status = machine_take_answers(machine);
  if (machine->frame.phase != WEIR_PHASE_DONE) /* nothing was sent: none is late */
    machine->course->rows[machine->frame.phase].round(machine, status, late);
  return machine_advance(machine, operations);
}

weir_turn weir_machine_resume(weir_machine *machine, int64_t now_us, bool late,
                              weir_operation *operations) {
  machine->frame.clock_us = now_us;
  if (machine->plain && !late && machine_end_plain(machine)) return WEIR_TURN_DONE;
  return machine_go_on(machine, late, operations);
}

/* --- giving up ---------------------------------------------------------------------------------
 */

bool weir_machine_keeps(const weir_machine *machine, const weir_claim *request) {
  const weir_frame *frame = &machine->frame;
  bool alone = frame->requests == request && request->next == NULL;
  return frame->stack->count_all || (!machine_only_counters(machine) && !alone);
}

weir_turn weir_machine_give_up(weir_machine *machine, weir_claim *request,
                               weir_operation *operations) {
  weir_decide_give_up(machine, request);
  machine->again = machine->looks_along = false;
  weir_machine_enter(machine, WEIR_PHASE_TAKE_BACK);
  return machine_advance(machine, operations);
}

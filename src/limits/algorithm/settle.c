/* What was charged earlier goes back, or is settled: each such request is alone in its group.
 *
 * A refund looks, chooses by what it saw how much of its cost still stands under each rule, and takes that
 * back.
 *
 * A settlement says what a request really cost, once that is known. Each rule has its own difference to what
 * is charged: above 0 it is charged as well, as much as fits under the rule's limit and its debt; below
 * 0 it goes back, as a refund does. The work is done, so that no rule denies, and none waits for
 * another: one may be charged more while another gives back, and what one was charged stays.
 *
 *     start ─┬─> LOOK ──┐     where something must be known first
 *            └──────────┴─> CHARGE ──> TAKE_BACK ──> DONE
 *                             │        what is beyond, and what goes back
 *                             └──> PAUSE ──> LOOK    others were faster, under some rule
 *
 * What is not sent, or kept out, may be asked for again as long as nothing was written. What may have
 * been executed is never sent again: then the settlement's outcome is unknown, and the next one of the
 * key looks first, so that no process leaves more than one such charge in a lane. */
#include <string.h>

#include "algorithm/machine.h"
#include "algorithm/method.h"
#include "algorithm/plan.h"

/* --- refunds -----------------------------------------------------------------------------------
 */

static void refund_look_plan(weir_machine *machine, weir_rule_state *r) {
  if (weir_claim_cost(machine->frame.requests, r->index) != 0 && !r->method->refunds_unseen)
    r->method->plan(r, WEIR_PHASE_LOOK);
}

/* What goes back, and whether that much is charged at all. Whether it arrives or not, it is expected no
 * more. */
static void refund_look_end(weir_machine *machine) {
  const weir_claim *request = machine->frame.requests;
  size_t count = machine->frame.stack->count;
  for (size_t i = 0; i < count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = weir_claim_cost(request, i);
    if (cost == 0 || r->method->refund(r, &request->ask, cost)) continue;
    weir_machine_settle_alone(machine, WEIR_BAD_COST);
    return;
  }
  for (size_t i = 0; i < count && request->ask.terms != WEIR_AGAIN; i++)
    weir_expect_change(&machine->rule_states[i], -machine->rule_states[i].unused);
  weir_machine_enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* It has gone back, as far as the store answered. What reached only some of its rules is not to be asked for
 * again. */
static void refund_settle(weir_machine *machine, weir_status status) {
  bool went_back = false;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    if (machine->rule_states[i].conflict && status == WEIR_OK) status = WEIR_CONTENDED;
    went_back = went_back || machine->rule_states[i].went_back;
  }
  if (status == WEIR_OK)
    weir_machine_settle_alone(machine, WEIR_OK);
  else
    weir_machine_fail(machine, went_back ? WEIR_UNKNOWN_OUTCOME : status);
}

static void refund_back_round(weir_machine *machine, weir_status status, bool late) {
  (void)late; /* it has its own time */
  if (status == WEIR_OK) return;
  machine->frame.memo->unsure = true;
  refund_settle(machine, status);
}

static void refund_back_end(weir_machine *machine) {
  refund_settle(machine, WEIR_OK);
}

const weir_course weir_refund_course = {
    .first = WEIR_PHASE_LOOK,
    .refunds = true,
    .doubt = weir_machine_doubt,
    .rows = {[WEIR_PHASE_LOOK] = {.plan = refund_look_plan,
                                  .round = weir_machine_answered,
                                  .end = refund_look_end},
             [WEIR_PHASE_TAKE_BACK] = {
                 .plan = weir_plan_take_back, .round = refund_back_round, .end = refund_back_end}}};

/* --- settlements: what is done next ------------------------------------------------------------
 */

/* What of its cost is still to be settled under rule i: above 0 charged, below 0 given back. */
static int64_t open_cost(const weir_machine *machine, size_t i) {
  return machine->open >> i & 1U ? machine->frame.requests->ask.costs[i] : 0;
}

/* Moves what is to be charged to the moment of its charge. What goes back was chosen by what was seen
 * before, and stays so. */
static void begin_anew(weir_rule_state *r) {
  r->frame->now_us = r->frame->clock_us;
  r->charged = r->stays = r->conflict = r->full = r->went_back = false;
  r->charge = r->unused = r->place = 0;
  memset(r->state, 0, r->method->state_bytes);
  r->method->begin(r);
}

static void settle_look_plan(weir_machine *machine, weir_rule_state *r) {
  if (machine->open >> r->index & 1U) r->method->plan(r, WEIR_PHASE_LOOK);
}

/* False: less is charged under some rule than should go back. */
static bool settle_choose_back(weir_machine *machine) {
  const weir_frame *frame = &machine->frame;
  for (size_t i = 0; i < frame->stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = open_cost(machine, i);
    if (cost < 0 && !r->method->refund(r, &frame->requests->ask, -cost)) return false;
  }
  return true;
}

/* Where less is charged than should go back, nothing is done. Whether what goes back arrives or not, it
 * is expected no more.
 *
 * No settlement charges more than lanes have room for; where denied requests count there are none. What
 * cannot fit by what was just read is cut at once. */
static void settle_look_end(weir_machine *machine) {
  weir_frame *frame = &machine->frame;
  if (!settle_choose_back(machine)) {
    weir_machine_settle_alone(machine, WEIR_BAD_COST);
    return;
  }
  machine->charging = 0;
  for (size_t i = 0; i < frame->stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = open_cost(machine, i);
    if (cost < 0) weir_expect_change(r, -r->unused);
    if (cost <= 0) continue;
    int64_t capacity = weir_ask_capacity(r->rule, &frame->requests->ask);
    int64_t most = r->rule->count_all ? cost : capacity + r->rule->debt;
    if (!frame->blind && !r->rule->count_all) most = r->method->settling->overrun(r, cost);
    if (most == 0) {
      machine->open &= ~(1U << i);
      continue;
    }
    if (!frame->blind) begin_anew(r);
    r->charge = cost < most ? cost : most;
    machine->charging |= 1U << i;
  }
  if (!frame->blind && machine->charging != 0) frame->memo->unsure = false;
  weir_machine_enter(machine, WEIR_PHASE_CHARGE);
}

/* It begins without a look where each rule may be charged unseen, or gives back what this process knows to
 * be there. */
static void settle_begin(weir_machine *machine) {
  weir_frame *frame = &machine->frame;
  const weir_claim *request = frame->requests;
  frame->blind = !frame->memo->unsure;
  machine->written = false;
  machine->open = 0;
  for (size_t i = 0; i < frame->stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    const weir_method *method = r->method;
    int64_t cost = request->ask.costs[i];
    if (request->ask.settlement != NULL) request->ask.settlement[i] = 0;
    if (cost == 0) continue;
    machine->open |= 1U << i;
    if (cost < 0)
      frame->blind = frame->blind && method->windows != NULL &&
                     method->windows->sure(r, request->ask.at_us, -cost);
    else
      frame->blind = frame->blind && method->settling->blind(r);
  }
  if (frame->blind) settle_look_end(machine);
}

/* --- settlements: what became of it ------------------------------------------------------------
 */

/* What fits of a confirmed charge stays, the rest goes back. Where denied requests count all of it
 * stays, unless the count would overflow. What fits beside a rule's failed reads is not known: then all
 * of its charge goes back. */
static void settle_charges(weir_machine *machine, unsigned failed) {
  const weir_claim *request = machine->frame.requests;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    if (open_cost(machine, i) <= 0 || !r->charged) continue;
    bool all = weir_decide_keeps(r);
    bool reads = !(failed >> i & 1U);
    int64_t kept = all ? r->charge : reads ? r->method->settling->overrun(r, r->charge) : 0;
    r->unused = r->charge - kept;
    if (r->unused > 0) weir_must_peek(&machine->frame, &request->ask);
    if (!reads && !all) continue;
    if (kept > 0) {
      r->method->count(r, kept);
      weir_expect_overrun(r, kept);
    }
    if (request->ask.settlement != NULL) request->ask.settlement[i] = kept;
    machine->open &= ~(1U << i);
    machine->written = true;
  }
}

static void settle_charge_end(weir_machine *machine) {
  settle_charges(machine, 0);
  weir_machine_enter(machine, WEIR_PHASE_TAKE_BACK);
}

/* A settlement that wrote something is not to be asked for again; of any other nothing is settled, also
 * where there was nothing to write. */
static void fail(weir_machine *machine, weir_status status) {
  const weir_claim *request = machine->frame.requests;
  bool written = machine->written;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = open_cost(machine, i);
    written = written || (cost < 0 && r->went_back) || (cost > 0 && r->unused > 0);
  }
  for (size_t i = 0; !written && request->ask.settlement != NULL && i < machine->frame.stack->count;
       i++)
    request->ask.settlement[i] = 0;
  weir_machine_fail(machine, written ? WEIR_UNKNOWN_OUTCOME : status);
}

/* What some rule has to keep charged is told. Charges that others were faster than are tried again: after
 * a pause, or, where it was read meanwhile what there is, at once. */
static void settle_back_end(weir_machine *machine) {
  weir_claim *request = machine->frame.requests;
  bool kept_out = false, others = false;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = open_cost(machine, i);
    if (r->conflict && cost > 0) others = true;
    if (r->conflict && cost < 0) kept_out = true;
    if (cost >= 0 || r->conflict) continue;
    if (request->ask.settlement != NULL) request->ask.settlement[i] = cost + r->unused;
    machine->written = machine->written || r->went_back;
    machine->open &= ~(1U << i);
  }
  if (kept_out && machine->failure == WEIR_OK) machine->failure = WEIR_CONTENDED;
  machine->frame.blind = false;
  if (machine->failure != WEIR_OK) {
    fail(machine, machine->failure);
  } else if (machine->open == 0) {
    weir_decide_settled(machine, request);
    machine->frame.phase = WEIR_PHASE_DONE;
  } else if (others) {
    machine->pauses++;
    machine->frame.phase = WEIR_PHASE_PAUSE;
  } else {
    weir_machine_enter(machine, WEIR_PHASE_LOOK);
    for (size_t i = 0; i < machine->frame.stack->count; i++)
      machine->rule_states[i].step = 1;
  }
}

static void settle_pause_round(weir_machine *machine, weir_status status, bool late) {
  (void)status; /* nothing was sent */
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    if (open_cost(machine, i) > 0) begin_anew(&machine->rule_states[i]);
  weir_machine_enter(machine, WEIR_PHASE_LOOK);
  if (late) fail(machine, WEIR_CONTENDED);
}

static void settle_look_round(weir_machine *machine, weir_status status, bool late) {
  if (late) status = weir_machine_when_late(machine, status);
  if (status == WEIR_OK) return;
  weir_machine_is_unsure(machine);
  fail(machine, status);
}

/* The rules that an operation of this round has no answer for, one bit each. */
static unsigned failed_rules(const weir_frame *frame) {
  unsigned failed = 0;
  for (size_t n = 0; n < frame->operation_count; n++) {
    const weir_operation *operation = &frame->operations[n];
    if (!weir_is_answered(operation)) failed |= 1U << operation->counter.rule;
  }
  return failed;
}

/* A charge that was confirmed counts, however late: only what waits for more rounds is out of time. What
 * should go back does so beside a charge that failed only where there is no way back any more; a charge
 * stands where the rest of it does not. */
static void settle_charge_round(weir_machine *machine, weir_status status, bool late) {
  weir_frame *frame = &machine->frame;
  bool waits = false;
  for (size_t i = 0; i < frame->stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    waits = waits || (machine->charging >> i & 1U && !r->charged && !r->conflict);
  }
  if (late && waits) status = weir_machine_when_late(machine, status);
  if (status == WEIR_OK) return;

  weir_machine_is_unsure(machine);
  settle_charges(machine, failed_rules(frame));
  machine->failure = status;
  machine->written = machine->written || status == WEIR_UNKNOWN_OUTCOME;
  bool goes_back = false;
  for (size_t i = 0; i < frame->stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    if (open_cost(machine, i) < 0 && !machine->written) {
      r->unused = 0;
      machine->open &= ~(1U << i);
    }
    goes_back = goes_back || r->unused > 0;
  }
  if (goes_back)
    weir_machine_enter(machine, WEIR_PHASE_TAKE_BACK);
  else
    fail(machine, status);
}

/* Whether some of what goes back under a rule has no answer: it may go back to several counters. */
static bool some_is_unsure(const weir_frame *frame, size_t rule) {
  for (size_t n = 0; n < frame->operation_count; n++) {
    const weir_operation *operation = &frame->operations[n];
    if (operation->kind == WEIR_SUB && operation->counter.rule == rule &&
        !weir_is_answered(operation))
      return true;
  }
  return false;
}

/* What goes back has its own time. */
static void settle_back_round(weir_machine *machine, weir_status status, bool late) {
  (void)late;
  if (status == WEIR_OK) return;
  weir_machine_is_unsure(machine);
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    if (open_cost(machine, i) < 0 &&
        (machine->rule_states[i].unused > 0 || some_is_unsure(&machine->frame, i)))
      machine->failure = status;
  settle_back_end(machine);
}

const weir_course weir_settle_course = {
    .first = WEIR_PHASE_LOOK,
    .settles = true,
    .begin = settle_begin,
    .doubt = weir_machine_doubt,
    .rows = {[WEIR_PHASE_LOOK] = {.plan = settle_look_plan,
                                  .round = settle_look_round,
                                  .end = settle_look_end},
             [WEIR_PHASE_CHARGE] = {.plan = weir_plan_charge,
                                    .round = settle_charge_round,
                                    .end = settle_charge_end},
             [WEIR_PHASE_TAKE_BACK] = {.plan = weir_plan_take_back,
                                       .round = settle_back_round,
                                       .end = settle_back_end},
             [WEIR_PHASE_PAUSE] = {.round = settle_pause_round}}};

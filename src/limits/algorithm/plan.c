#include "algorithm/plan.h"

#include "algorithm/method.h"

weir_operation *weir_plan(weir_rule_state *r, weir_operation_kind kind, weir_place place,
                          int64_t index) {
  weir_frame *frame = r->frame;
  weir_operation *operation = &frame->operations[frame->operation_count++];
  *operation = (weir_operation){
      .kind = kind,
      .ttl_us = r->ttl_us,
      .counter = {.rule = r->index, .place = place, .index = index},
  };
  /* Few stores want to know; and a read says nothing by itself. */
  if (frame->settings->traits & WEIR_TRAIT_STAKE && kind != WEIR_GET && kind != WEIR_DROP)
    operation->stake = weir_plan_stake(kind == WEIR_SUB ? r->unused : r->charge, r->rule->capacity);
  return operation;
}

uint32_t weir_plan_stake(int64_t part, int64_t whole) {
  if (part <= 0) return 0;
  if (part >= whole) return WEIR_STAKE_WHOLE;
  int shift = 0; /* what is above 2^32 is divided coarsely */
  while (whole >> shift >= INT64_C(1) << 32)
    shift++;
  int64_t half = whole >> shift >> 1;
  return (uint32_t)(((part >> shift) * (int64_t)WEIR_STAKE_WHOLE + half) / (whole >> shift));
}

/* At most L in a lane, as a charge. */
bool weir_rule_return(const weir_rule *rule, int64_t place, int64_t cost,
                      weir_operation *operation) {
  if (weir_rule_moves_in_time(rule)) return false;
  bool slides = weir_rule_has_cells(rule);
  operation->counter.index = slides ? place / rule->lanes : place;
  operation->delta = slides ? cost << (rule->lane_bits * (int)(place % rule->lanes)) : cost;
  if (weir_rule_opens_windows(rule)) operation->seed = weir_count_lost(rule);
  return true;
}

void weir_machine_enter(weir_machine *machine, weir_phase phase) {
  machine->frame.phase = phase;
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    machine->rule_states[i].step = 0;
}

void weir_plan_charge(weir_machine *machine, weir_rule_state *r) {
  if (machine->charging >> r->index & 1U && !r->conflict) r->method->plan(r, WEIR_PHASE_CHARGE);
}

void weir_plan_take_back(weir_machine *machine, weir_rule_state *r) {
  (void)machine;
  if (r->unused > 0 || r->tells) r->method->plan(r, WEIR_PHASE_TAKE_BACK);
}

bool weir_plain_fits_classes(weir_rule_state *r, int64_t used, int64_t whole) {
  int64_t before = 0;
  r->room = r->charge; /* so much at least */
  r->used = used;
  r->whole = whole;
  for (const weir_claim *request = r->frame->requests; request != NULL; request = request->next) {
    const weir_threshold most = weir_ask_threshold(r->rule, &request->ask);
    before += request->verdict.charge;
    if (most.capacity - used < before || most.upper - whole < before) return false;
  }
  return true;
}

bool weir_has_takes(const weir_frame *frame) {
  for (const weir_claim *request = frame->requests; request != NULL; request = request->next)
    if (weir_claim_is_open(request)) return true;
  return false;
}

bool weir_always_blind(const weir_rule_state *r) {
  (void)r;
  return true;
}

int64_t weir_read_now_us(const weir_rule_state *r) {
  return r->frame->now_us;
}

/* --- what is expected --------------------------------------------------------------------------
 */

void weir_expect_change(weir_rule_state *r, int64_t cost) {
  if (r->frame->settings->notices_loss && cost != 0) r->method->expect(r, cost);
}

void weir_expect_overrun(weir_rule_state *r, int64_t cost) {
  int64_t charges = r->lesson->charges;
  weir_expect_change(r, cost);
  r->lesson->charges = charges;
}

/* A period, or a cell of one, begins with nothing charged in it. */
static void begin_place(weir_expected *expected, int64_t index, int64_t per_period) {
  weir_share *share = &expected->share;
  int64_t passed = index / per_period - expected->index / per_period;
  if (passed != 0) weir_share_halve(share, passed > 0 ? passed : 1);
  share->before = share->last = 0;
  expected->index = index;
  expected->amount = 0;
}

void weir_expect_unanswered(weir_rule_state *r) {
  const weir_rule *rule = r->rule;
  weir_share *share = &r->expected->share;
  if (!r->frame->settings->notices_loss || r->place == 0 || weir_rule_is_held(rule) ||
      weir_rule_takes_one(rule) || weir_rule_moves_in_time(rule))
    return;
  if (r->expected->index != r->place)
    begin_place(r->expected, r->place,
                weir_rule_opens_windows(rule) ? rule->period_us : rule->cells);
  if (share->before >= 0) share->before = ~share->before;
  share->last += r->charge;
}

/* An unsure share gets the answer that it waited for. */
__attribute__((cold, noinline)) static void learn_at_last(weir_rule_state *r, int64_t before,
                                                          int64_t cost) {
  weir_share *share = &r->expected->share;
  weir_share_reconcile(share, r->lesson, before);
  share->before = before;
  weir_share_learn(share, r->lesson, true, before, cost);
}

/* After a loss, when less is expected than was charged, only the new place is known. */
void weir_expect_count(weir_rule_state *r, int64_t index, int64_t per_period, int64_t after,
                       int64_t cost) {
  weir_expected *expected = r->expected;
  weir_share *share = &expected->share;
  if (cost < 0) {
    if (expected->index == index) share->last += cost;
    weir_expect_add(r, index, cost);
    return;
  }
  if (expected->index != index) begin_place(expected, index, per_period);
  expected->amount += cost;
  if (weir_expect_waits(r)) {
    learn_at_last(r, after - cost, cost);
    return;
  }
  bool connected = expected->amount > cost || (share->before == 0 && share->last == 0);
  weir_share_learn(share, r->lesson, connected, after - cost, cost);
}

void weir_expect_reconcile(weir_rule_state *r, int64_t index, int64_t found) {
  weir_share *share = &r->expected->share;
  if (share->last != 0 && r->expected->index == index)
    weir_share_reconcile(share, r->lesson, found);
}

void weir_expect_add(weir_rule_state *r, int64_t index, int64_t amount) {
  weir_expected *expected = r->expected;
  if (expected->index != index) {
    if (amount < 0) return; /* it was expected before, and is not watched any more */
    expected->index = index;
    expected->amount = 0;
  }
  expected->amount += amount;
  if (expected->amount < 0) expected->amount = 0;
}

/* --- the share ---------------------------------------------------------------------------------
 */

static void learn(weir_share *share, weir_lesson *lesson, int64_t mine, int64_t all) {
  share->mine += mine;
  share->all += all;
  lesson->mine += mine;
  lesson->all += all;
}

void weir_share_learn(weir_share *share, weir_lesson *lesson, bool connected, int64_t before,
                      int64_t cost) {
  if (connected) learn(share, lesson, share->last, before - share->before);
  lesson->cost += cost;
  lesson->charges++;
  share->before = before;
  share->last = cost;
}

void weir_share_reconcile(weir_share *share, weir_lesson *lesson, int64_t found) {
  int64_t all = found - ~share->before;
  if (all > 0) learn(share, lesson, share->last < all ? share->last : all, all);
  share->before = ~found;
  share->last = 0;
}

void weir_share_halve(weir_share *share, int64_t times) {
  if (times > 62) times = 62;
  share->mine /= INT64_C(1) << times;
  share->all /= INT64_C(1) << times;
}

/* Deciding: which requests of a group fit, first come, first served, and what each is told; and the end of
 * a group that cannot be decided, by what an outcome without an answer means. A leaf: it goes on to no
 * phase.
 *
 * A request that does not fit does not stop a later, smaller one (greedy): the outcome is that of
 * some serial order in which each denied request came and went before the next one. After a look,
 * those before count as admitted: a denial holds if all that is in flight is charged.
 */
#include "algorithm/machine.h"
#include "algorithm/method.h"
#include "algorithm/plan.h"

static unsigned all_rules(const weir_stack *stack) {
  return (1U << stack->count) - 1;
}

/* What a request is charged under rule i, if that is one of `rules`. */
static int64_t cost_under(const weir_claim *request, unsigned rules, size_t i) {
  return rules >> i & 1U ? weir_claim_cost(request, i) : 0;
}

/* Those of `rules` that deny, one bit each. A request that is content with less needs room for 1.
 */
static unsigned denying_rules(const weir_machine *machine, const weir_claim *request,
                              unsigned rules) {
  unsigned denying = 0;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = cost_under(request, rules, i);
    if (cost > 0 && r->method->room(r, &request->ask) < (request->ask.up_to ? 1 : cost))
      denying |= 1U << i;
  }
  return denying;
}

/* Lets an up-to request be content with what all `rules` admit, if they admit anything. */
static void cut_to_room(const weir_machine *machine, weir_claim *request, unsigned rules) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    bool counts = (rules & ~(unsigned)request->ask.spares) >> i & 1U;
    int64_t room = counts ? r->method->room(r, &request->ask) : INT64_MAX;
    if (room < least) least = room;
  }
  if (least >= 1 && least < request->verdict.charge) request->verdict.charge = least;
}

/* --- what is reported --------------------------------------------------------------------------
 */

/* Of the rules that deny the one that denies longest speaks, else the one with least remaining; the
 * first of equals. What is not known counts as most. */
weir_decision weir_decide_speak(const weir_stack *stack, const weir_decision figures[],
                                const weir_claim *request, unsigned denying) {
  weir_decision spoken = {0};
  int64_t reset_after_us = 0;
  int64_t hold_us = 0;
  bool first = true;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_decision *figure = &figures[i];
    if (figure->cost == 0) continue;
    if (figure->reset_after_us > reset_after_us) reset_after_us = figure->reset_after_us;
    if (denying >> i & 1U && stack->rules[i].hold_us > hold_us) hold_us = stack->rules[i].hold_us;
    bool speaks = denying != 0 ? figure->retry_after_us > spoken.retry_after_us
                               : (uint64_t)figure->remaining < (uint64_t)spoken.remaining;
    if (first || speaks) {
      spoken = *figure;
      spoken.rule = (uint32_t)i;
      spoken.limit = weir_ask_capacity(&stack->rules[i], &request->ask);
    }
    first = false;
  }
  spoken.allowed = denying == 0;
  spoken.reset_after_us = reset_after_us;
  spoken.delay_us = spoken.allowed ? request->verdict.decision.delay_us : hold_us;
  spoken.cost =
      spoken.allowed ? request->verdict.held + request->verdict.charge : request->ask.cost;
  if (request->ask.costs != NULL) spoken.cost = WEIR_OWN_COSTS;
  return spoken;
}

/* Whether the denial that is kept already is that of less; of as much, of no lower class. */
static bool is_spoken_for(const weir_memo *memo, const weir_claim *request) {
  if (memo->denied_cost == 0 || memo->denied_cost > request->verdict.charge) return false;
  return memo->denied_cost < request->verdict.charge ||
         memo->denied_rank >= weir_ask_rank(&request->ask);
}

/* A denial that speaks for others is kept for as long as what it rests on may be used, and, from its answer
 * on, as the option allows: of a store that is far away it would be over on arrival. */
static void keep_denial(weir_machine *machine, const weir_claim *request) {
  weir_memo *memo = machine->frame.memo;
  const weir_settings *settings = machine->frame.settings;
  int64_t now_us = machine->frame.now_us, oldest_us = now_us;
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    int64_t read_us = r->method->oldest_us(r);
    if (read_us < oldest_us) oldest_us = read_us;
  }
  int64_t until_us = machine->frame.clock_us + settings->local_denial_us;
  int64_t wait_us = request->verdict.decision.retry_after_us;
  if (wait_us < until_us - now_us) until_us = now_us + wait_us;
  if (until_us > oldest_us + settings->memo_age_us) until_us = oldest_us + settings->memo_age_us;
  memo->denied_cost = request->verdict.charge;
  memo->denied_rank = (uint8_t)weir_ask_rank(&request->ask);
  if (machine->limited != NULL)
    weir_memo_limits_of(machine->stack, memo)->denied = request->ask.limit;
  memo->denied_at_us = now_us;
  memo->denied_until_us = until_us;
}

/* Tells a request what all rules say, and whether they deny. */
static void settle(weir_machine *machine, weir_claim *request, unsigned denying) {
  const weir_memo *memo = machine->frame.memo;
  weir_decision figures[WEIR_RULES_MOST];
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    bool denies = denying >> i & 1U;
    int64_t cost = weir_claim_cost(request, i);
    figures[i] = (weir_decision){.cost = cost};
    if (cost != 0) /* below 0: of a settlement */
      r->method->figures(r, &request->ask, denies && request->ask.up_to ? 1 : cost, denies,
                         &figures[i]);
  }
  request->verdict.decision = weir_decide_speak(machine->frame.stack, figures, request, denying);
  request->verdict.decision.at_us = machine->frame.now_us;
  request->verdict.status = WEIR_OK;
  request->verdict.answered = true;
  if (denying == 0 || !weir_ask_charges(&request->ask) || weir_ask_is_ahead(&request->ask)) return;

  if (!memo->bounded) weir_must_peek(&machine->frame, &request->ask);
  if (weir_is_repeatable(&request->ask) && !is_spoken_for(memo, request))
    keep_denial(machine, request);
}

void weir_decide_settled(weir_machine *machine, weir_claim *request) {
  request->verdict.decision.delay_us = 0;
  settle(machine, request, 0);
}

/* --- counting ----------------------------------------------------------------------------------
 */

/* A request that takes this now waits as long as the rule that asks for the longest delay. */
static void add_delay(const weir_rule_state *r, weir_claim *request, int64_t cost) {
  int64_t delay_us = r->method->delaying->delay(r, &request->ask, cost);
  if (delay_us > request->verdict.decision.delay_us) request->verdict.decision.delay_us = delay_us;
  if (request->ask.ends != NULL) request->ask.ends[r->index] = delay_us > 0 ? 0 : WEIR_NO_SLOT;
}

/* Counts a request under `rules`, or (sign -1) no longer. */
static void count(weir_machine *machine, const weir_claim *request, unsigned rules, int sign) {
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = cost_under(request, rules, i);
    if (cost > 0) r->method->count(r, sign * cost);
  }
}

/* The same for what was admitted of the requests behind this one. */
static void count_behind(weir_machine *machine, const weir_claim *request, unsigned rules,
                         int sign) {
  for (const weir_claim *other = request->next; other != NULL; other = other->next)
    if (weir_ask_charges(&other->ask) && other->verdict.answered && other->verdict.decision.allowed)
      count(machine, other, rules, sign);
}

/* A take that was looked at once more is told what it found when it came: not what was admitted
 * behind it meanwhile, unless that alone is why it does not fit now. */
static void settle_denied(weir_machine *machine, weir_claim *request, unsigned denying) {
  unsigned rules = all_rules(machine->frame.stack);
  count_behind(machine, request, rules, -1);
  unsigned without = denying_rules(machine, request, rules);
  if (without != 0) settle(machine, request, without);
  count_behind(machine, request, rules, 1);
  if (without == 0) settle(machine, request, denying);
}

/* What each of `rules` has no room for is not paid there. */
static void cut_payment(weir_machine *machine, weir_claim *request, unsigned rules) {
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    if (!(rules >> i & 1U) || request->ask.payment->costs[i] == 0) continue;
    int64_t room = r->method->room(r, &request->ask);
    int64_t cut = request->ask.payment->costs[i] > room ? request->ask.payment->costs[i] - room : 0;
    if (machine->frame.phase == WEIR_PHASE_CHARGE) r->unused += cut;
    request->ask.payment->costs[i] -= cut;
  }
}

/* --- after a look ------------------------------------------------------------------------------
 */

/* It finds what it would find in its turn. By a first look nobody behind it was admitted yet. */
static void decide_peek(weir_machine *machine, weir_claim *request) {
  unsigned rules = all_rules(machine->frame.stack);
  bool some_behind = machine->frame.phase != WEIR_PHASE_LOOK;
  if (some_behind) count_behind(machine, request, rules, -1);
  if (request->ask.up_to) cut_to_room(machine, request, rules);
  unsigned denying = denying_rules(machine, request, rules);
  for (size_t i = 0; denying == 0 && i < machine->frame.stack->count; i++) {
    const weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = weir_claim_cost(request, i);
    if (cost > 0 && r->method->delaying != NULL) add_delay(r, request, cost);
  }
  settle(machine, request, denying);
  if (some_behind) count_behind(machine, request, rules, 1);
}

/* False: no rule has room for any of it, which settles it. */
static bool pay_at_look(weir_machine *machine, weir_claim *request, unsigned rules) {
  size_t rule_count = machine->frame.stack->count;
  int64_t *costs = request->ask.payment->costs;
  bool some = false;
  for (size_t i = 0; i < rule_count; i++)
    if (machine->frame.clock_us >= request->ask.payment->until_us[i]) costs[i] = 0;
  cut_payment(machine, request, rules);
  for (size_t i = 0; i < rule_count; i++)
    some = some || costs[i] > 0;
  if (some) return true;
  request->verdict.decision.allowed = request->verdict.answered = true;
  request->verdict.status = WEIR_OK;
  return false;
}

/* Whether it is left to be charged: then it counts for those behind it. */
static bool look_at_take(weir_machine *machine, weir_claim *request, unsigned rules) {
  if (request->ask.terms == WEIR_DEBT && !pay_at_look(machine, request, rules)) return false;
  if (request->ask.up_to) cut_to_room(machine, request, rules);
  unsigned denying = denying_rules(machine, request, rules);
  if (denying != 0) {
    settle_denied(machine, request, denying);
    return false;
  }
  if (weir_ask_is_member(&request->ask) && request->verdict.denying != 0) {
    /* By its own charge: it waits for its others. */
    settle(machine, request, 0);
    request->verdict.decision.allowed = false;
    request->verdict.has_room = true;
    return false;
  }
  count(machine, request, rules, 1);
  return true;
}

/* A peek behind a take that is still open is decided with it. When all are decided the memo says again what
 * was read. */
bool weir_decide_look(weir_machine *machine) {
  weir_claim *first = machine->frame.requests;
  unsigned rules = all_rules(machine->frame.stack);
  bool left = false;
  for (weir_claim *request = first; request != NULL; request = request->next) {
    if (request->verdict.answered) continue;
    request->verdict.decision.delay_us = 0;
    if (request->ask.up_to) weir_claim_offer(machine->frame.stack, request); /* all, once more */
    if (weir_ask_charges(&request->ask))
      left = look_at_take(machine, request, rules) || left;
    else if (!left)
      decide_peek(machine, request);
  }
  for (const weir_claim *request = first; request != NULL; request = request->next)
    if (weir_claim_is_open(request)) count(machine, request, rules, -1);
  return left;
}

/* --- after a charge ----------------------------------------------------------------------------
 */

bool weir_decide_keeps(weir_rule_state *r) {
  return r->rule->count_all && r->method->count(r, 0) < WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
}

/* A request that is content with less gives back what there is no room for, to earlier stages as well. */
static void cut_charge(weir_machine *machine, weir_claim *request, unsigned rules) {
  int64_t offered = request->verdict.charge;
  if (request->ask.terms == WEIR_DEBT) cut_payment(machine, request, rules);
  if (request->ask.up_to) cut_to_room(machine, request, rules);
  int64_t less = offered - request->verdict.charge;
  for (size_t i = 0; less > 0 && i < machine->frame.stack->count; i++)
    if (cost_under(request, rules | machine->charged_before, i) > 0)
      machine->rule_states[i].unused += less;
}

/* Where what was just counted ends: a place that is held, or a slot, where add_delay() found one. */
static void set_end(const weir_rule_state *r, int64_t *end_us) {
  const weir_holding_table *holding = r->method->holding;
  const weir_delaying_table *delaying = r->method->delaying;
  if (holding != NULL) *end_us = holding->end(r);
  if (delaying != NULL && *end_us != WEIR_NO_SLOT) *end_us = delaying->slot(r);
}

/* What it was charged counts from now on, under earlier stages once more. */
static void admit_take(weir_machine *machine, weir_claim *request, unsigned rules) {
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = cost_under(request, rules, i);
    if (cost == 0) continue;
    if (r->method->delaying != NULL) add_delay(r, request, cost);
    r->method->count(r, cost);
    if (request->ask.ends != NULL) set_end(r, &request->ask.ends[i]);
  }
  count(machine, request, machine->charged_before, 1);
}

/* What it was charged stays where denied requests count, and goes back elsewhere. */
static void deny_take(weir_machine *machine, const weir_claim *request, unsigned rules) {
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = cost_under(request, rules | machine->charged_before, i);
    if (cost > 0 && rules >> i & 1U && weir_decide_keeps(r))
      r->method->count(r, cost);
    else
      r->unused += cost;
  }
}

/* Answers whether it was denied. Earlier stages do not count this request, nor those behind it. */
static bool decide_take(weir_machine *machine, weir_claim *request, unsigned rules, bool last,
                        bool final) {
  cut_charge(machine, request, rules);
  unsigned denying = denying_rules(machine, request, rules);
  request->verdict.denying = denying;
  if (denying == 0) {
    admit_take(machine, request, rules);
    if (last) settle(machine, request, 0);
    return false;
  }
  deny_take(machine, request, rules);
  if (machine->frame.stack->count_all) /* its own charge may fill other rules */
    denying |= denying_rules(machine, request, all_rules(machine->frame.stack));
  if (final) settle(machine, request, denying);
  return true;
}

/* Takes out of the rules of earlier stages what the open takes have counted there, so that each can be
 * told what it found when it came. */
bool weir_decide_stage(weir_machine *machine, unsigned rules, bool last, bool final) {
  weir_claim *first = machine->frame.requests;
  bool denied = false;
  if (machine->charged_before != 0)
    for (const weir_claim *request = first; request != NULL; request = request->next)
      if (weir_claim_is_open(request)) count(machine, request, machine->charged_before, -1);
  for (weir_claim *request = first; request != NULL; request = request->next) {
    if (request->verdict.answered) continue;
    if (weir_ask_charges(&request->ask))
      denied = decide_take(machine, request, rules, last, final) || denied;
    else if (last && (final || !denied))
      decide_peek(machine, request);
  }
  return denied;
}

void weir_decide_give_up(weir_machine *machine, weir_claim *request) {
  for (size_t i = 0; i < machine->frame.stack->count; i++) {
    weir_rule_state *r = &machine->rule_states[i];
    int64_t cost = weir_claim_cost(request, i);
    if (cost == 0) continue;
    r->method->count(r, -cost);
    r->unused = cost;
    weir_expect_change(r, -cost);
  }
  settle(machine, request, 0);
  request->verdict.decision.allowed = false;
  request->verdict.decision.delay_us = 0;
}

void weir_decide_rest(weir_machine *machine) {
  for (weir_claim *request = machine->frame.requests; request != NULL; request = request->next)
    if (!request->verdict.answered && !weir_ask_charges(&request->ask))
      decide_peek(machine, request);
}

void weir_decide_denied(weir_machine *machine) {
  for (weir_claim *request = machine->frame.requests; request != NULL; request = request->next)
    if (weir_claim_is_open(request)) settle_denied(machine, request, request->verdict.denying);
  weir_decide_rest(machine);
}

/* --- what cannot be decided --------------------------------------------------------------------
 */

/* A GET has changed nothing: one without an answer is as good as not sent. */
weir_status weir_machine_failure(weir_machine *machine, const weir_operation *operation) {
  weir_outcome outcome = operation->outcome;
  bool lost = outcome == WEIR_NOT_SENT || outcome == WEIR_UNKNOWN;
  if (outcome == WEIR_REFUSED || (lost && !operation->late)) machine->away = true;
  if (outcome == WEIR_REFUSED || (lost && !operation->slow)) machine->gone = true;
  if (outcome == WEIR_REFUSED) return WEIR_REFUSED_BY_STORE;
  if (!lost) return WEIR_BROKEN_BACKEND; /* nothing that an operation may end in */
  return outcome == WEIR_NOT_SENT || operation->kind == WEIR_GET ? WEIR_UNAVAILABLE
                                                                 : WEIR_UNKNOWN_OUTCOME;
}

weir_status weir_machine_when_late(const weir_machine *machine, weir_status status) {
  bool had_no_time = status == WEIR_UNAVAILABLE && !machine->away;
  if (status != WEIR_OK && !had_no_time) return status;
  for (size_t n = 0; n < machine->frame.operation_count; n++)
    if (machine->frame.operations[n].outcome == WEIR_UNKNOWN) return WEIR_TIMEOUT;
  return machine->pauses > 0 ? WEIR_CONTENDED : WEIR_TIMEOUT;
}

void weir_machine_doubt(weir_machine *machine) {
  weir_memo *memo = machine->frame.memo;
  memo->denied_cost = memo->denied_at_us = memo->denied_until_us = 0;
  for (size_t i = 0; i < machine->frame.stack->count; i++)
    machine->rule_states[i].method->forget(machine->rule_states[i].memory);
}

void weir_machine_fail(weir_machine *machine, weir_status status) {
  for (weir_claim *request = machine->frame.requests; request != NULL; request = request->next) {
    if (request->verdict.answered) continue;
    request->verdict.answered = true;
    request->verdict.status = status;
    request->verdict.away = machine->away;
    request->verdict.gone = machine->gone;
  }
  machine->course->doubt(machine);
  weir_machine_is_unsure(machine);
  machine->frame.phase = WEIR_PHASE_DONE;
}

void weir_machine_answered(weir_machine *machine, weir_status status, bool late) {
  if (late) status = weir_machine_when_late(machine, status);
  if (status != WEIR_OK) weir_machine_fail(machine, status);
}

void weir_machine_settle_alone(weir_machine *machine, weir_status status) {
  machine->frame.requests->verdict.answered = true;
  machine->frame.requests->verdict.status = status;
  machine->frame.phase = WEIR_PHASE_DONE;
}

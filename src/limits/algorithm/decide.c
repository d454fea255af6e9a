#include "algorithm/decide.h"

#include "algorithm/method.h"

static unsigned all_rules(const weir_stack *stack) {
  return (1U << stack->count) - 1;
}

/* Those of `rules` that deny, one bit each. A request that is content with less needs room for 1.
 */
static unsigned denying_rules(const weir_machine *machine, const weir_request_state *request,
                              unsigned rules) {
  unsigned denying = 0;
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule_state *rule_state = &machine->rule_states[i];
    int64_t cost = rules >> i & 1U ? weir_request_cost(request, i) : 0;
    if (cost == 0) continue;
    if (rule_state->method->room(&machine->stack->rules[i], rule_state, request) <
        (request->up_to ? 1 : cost))
      denying |= 1U << i;
  }
  return denying;
}

/* Lets an up-to request be content with what all `rules` admit, if they admit anything. */
static void cut_to_room(const weir_machine *machine, weir_request_state *request, unsigned rules) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule_state *rule_state = &machine->rule_states[i];
    if (!(rules >> i & 1U)) continue;
    int64_t room = rule_state->method->room(&machine->stack->rules[i], rule_state, request);
    if (room < least) least = room;
  }
  if (least >= 1 && least < request->charge) request->charge = least;
}

/* --- what is reported --------------------------------------------------------------------------
 */

/* The rule that denies longest speaks, else the one with least remaining; the first of equals. What
 * is not known counts as most. */
static bool speaks_before(const weir_decision *other, const weir_decision *spoken,
                          unsigned denying) {
  return denying != 0 ? other->retry_after_us > spoken->retry_after_us
                      : (uint64_t)other->remaining < (uint64_t)spoken->remaining;
}

/* One answer out of those of all rules that take part: those with a cost. */
weir_decision weir_decide_speak(const weir_stack *stack, const weir_decision figures[],
                                const weir_request_state *request, unsigned denying) {
  weir_decision spoken = {0};
  int64_t reset_after_us = 0;
  int64_t hold_us = 0;
  bool first = true;
  for (size_t i = 0; i < stack->count; i++) {
    if (figures[i].cost == 0) continue;
    if (figures[i].reset_after_us > reset_after_us) reset_after_us = figures[i].reset_after_us;
    if (denying >> i & 1U && stack->rules[i].hold_us > hold_us) hold_us = stack->rules[i].hold_us;
    if (first || speaks_before(&figures[i], &spoken, denying)) {
      spoken = figures[i];
      spoken.rule = (uint32_t)i;
      spoken.limit = stack->rules[i].capacity;
    }
    first = false;
  }
  spoken.allowed = denying == 0;
  spoken.reset_after_us = reset_after_us;
  spoken.delay_us = spoken.allowed ? request->decision.delay_us : hold_us;
  spoken.cost = spoken.allowed ? request->held + request->charge : request->cost;
  if (request->costs != NULL) spoken.cost = WEIR_OWN_COSTS;
  return spoken;
}

/* A denial that can be repeated speaks for every request that asks no less. */
bool weir_decide_is_plain(const weir_request_state *request) {
  return request->kind == WEIR_TAKE && request->costs == NULL && !request->up_to && !request->waits;
}

/* Until when what this decision rests on may be used. */
static int64_t knowledge_ends_us(const weir_machine *machine) {
  int64_t oldest_us = machine->now_us;
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_method *method = machine->rule_states[i].method;
    int64_t read_us = method->oldest_us != NULL ? method->oldest_us(machine, i) : oldest_us;
    if (read_us < oldest_us) oldest_us = read_us;
  }
  return oldest_us + machine->settings->memo_age_us;
}

static void remember_denial(weir_machine *machine, const weir_request_state *request) {
  weir_memo *notes = machine->notes;
  int64_t wait = request->decision.retry_after_us;
  int64_t ends_us = knowledge_ends_us(machine);
  notes->must_peek = true;
  if (!weir_decide_is_plain(request) ||
      (notes->denied_cost != 0 && notes->denied_cost <= request->charge))
    return;
  if (wait > machine->settings->local_denial_us) wait = machine->settings->local_denial_us;
  notes->denied_cost = request->charge;
  notes->denied_at_us = machine->now_us;
  notes->denied_until_us = machine->now_us + wait;
  if (notes->denied_until_us > ends_us) notes->denied_until_us = ends_us;
}

static void settle(weir_machine *machine, weir_request_state *request, unsigned denying) {
  weir_decision figures[WEIR_RULES_MOST];
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule_state *rule_state = &machine->rule_states[i];
    bool denies = denying >> i & 1U;
    int64_t cost = weir_request_cost(request, i);
    figures[i] = (weir_decision){.cost = cost};
    if (cost > 0)
      rule_state->method->figures(&machine->stack->rules[i], rule_state, request,
                                  denies && request->up_to ? 1 : cost, denies, &figures[i]);
  }
  request->decision = weir_decide_speak(machine->stack, figures, request, denying);
  request->decision.at_us = machine->now_us;
  request->status = WEIR_OK;
  request->settled = true;
  if (denying != 0 && request->kind == WEIR_TAKE && !request->ahead)
    remember_denial(machine, request);
}

/* --- counting ----------------------------------------------------------------------------------
 */

/* Whoever takes this now waits as long as the rule that asks for the longest delay. */
static void add_delay(const weir_machine *machine, weir_request_state *request, size_t i,
                      int64_t cost) {
  const weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t delay_us = rule_state->method->delay(&machine->stack->rules[i], rule_state, cost);
  if (delay_us > request->decision.delay_us) request->decision.delay_us = delay_us;
  if (request->ends != NULL) request->ends[i] = delay_us > 0 ? 0 : WEIR_NO_SLOT;
}

/* Counts what a request takes under `rules`. */
static void admit(weir_machine *machine, weir_request_state *request, unsigned rules) {
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_method *method = machine->rule_states[i].method;
    if (!(rules >> i & 1U)) continue;
    int64_t cost = weir_request_cost(request, i);
    if (cost > 0 && method->delay != NULL) add_delay(machine, request, i, cost);
    if (cost > 0) method->note(machine, i, cost);
    if (request->ends != NULL && method->slot != NULL && request->ends[i] != WEIR_NO_SLOT)
      request->ends[i] = method->slot(machine, i);
  }
}

/* Counts a request under `rules`, or (sign -1) no longer. */
static void count(weir_machine *machine, const weir_request_state *request, unsigned rules,
                  int sign) {
  for (size_t i = 0; i < machine->stack->count; i++) {
    int64_t cost = rules >> i & 1U ? weir_request_cost(request, i) : 0;
    if (cost > 0) machine->rule_states[i].method->note(machine, i, sign * cost);
  }
}

/* `cost` less of a request goes back under the rules of earlier stages. */
static void give_up_earlier(weir_machine *machine, const weir_request_state *request,
                            int64_t cost) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->charged_before >> i & 1U && weir_request_cost(request, i) > 0)
      machine->rule_states[i].unused += request->costs != NULL ? request->costs[i] : cost;
}

/* The same, under every rule, for what was admitted of the requests behind this one. */
static void count_behind(weir_machine *machine, const weir_request_state *request, int sign) {
  for (const weir_request_state *other = request->next; other != NULL; other = other->next)
    if (other->kind == WEIR_TAKE && other->settled && other->decision.allowed)
      count(machine, other, all_rules(machine->stack), sign);
}

/* A take that was looked at once more is told what it found when it came: not what was admitted
 * behind it meanwhile, unless that alone is why it does not fit now. */
static void settle_denied(weir_machine *machine, weir_request_state *request, unsigned denying) {
  count_behind(machine, request, -1);
  unsigned without = denying_rules(machine, request, all_rules(machine->stack));
  if (without != 0) settle(machine, request, without);
  count_behind(machine, request, 1);
  if (without == 0) settle(machine, request, denying);
}

/* What each of `rules` has no room for is not paid there. */
static void cut_payment(weir_machine *machine, weir_request_state *request, unsigned rules) {
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_rule_state *rule_state = &machine->rule_states[i];
    if (!(rules >> i & 1U) || request->payment->costs[i] == 0) continue;
    int64_t room = rule_state->method->room(&machine->stack->rules[i], rule_state, request);
    int64_t cut = request->payment->costs[i] > room ? request->payment->costs[i] - room : 0;
    if (machine->phase == WEIR_PHASE_CHARGE) rule_state->unused += cut;
    request->payment->costs[i] -= cut;
  }
}

/* False: no rule has room for any of it. */
static bool pay_at_look(weir_machine *machine, weir_request_state *request, unsigned rules) {
  bool some = false;
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->clock_us >= request->payment->until_us[i]) request->payment->costs[i] = 0;
  cut_payment(machine, request, rules);
  for (size_t i = 0; i < machine->stack->count; i++)
    some = some || request->payment->costs[i] > 0;
  if (some) return true;
  request->decision.allowed = request->settled = true;
  request->status = WEIR_OK;
  return false;
}

/* --- after a look ------------------------------------------------------------------------------
 */

static void decide_peek(weir_machine *machine, weir_request_state *request) {
  unsigned rules = all_rules(machine->stack);
  if (request->up_to) cut_to_room(machine, request, rules);
  unsigned denying = denying_rules(machine, request, rules);
  for (size_t i = 0; denying == 0 && i < machine->stack->count; i++) {
    int64_t cost = weir_request_cost(request, i);
    if (cost > 0 && machine->rule_states[i].method->delay != NULL)
      add_delay(machine, request, i, cost);
  }
  settle(machine, request, denying);
}

/* Those that are left count for those behind them; when all are decided the notes say again what
 * was read. */
bool weir_decide_look(weir_machine *machine) {
  unsigned rules = all_rules(machine->stack);
  bool left = false;
  for (weir_request_state *request = machine->requests; request != NULL; request = request->next) {
    if (request->settled) continue;
    request->decision.delay_us = 0;
    if (request->up_to) weir_request_offer(machine->stack, request);
    if (request->kind == WEIR_PEEK) { /* behind a take that is still open it is decided with it */
      if (!left) decide_peek(machine, request);
      continue;
    }
    if (request->pays && !pay_at_look(machine, request, rules)) continue;
    if (request->up_to) cut_to_room(machine, request, rules);
    unsigned denying = denying_rules(machine, request, rules);
    if (denying != 0) {
      settle_denied(machine, request, denying);
      continue;
    }
    count(machine, request, rules, 1);
    left = true;
  }
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next)
    if (!request->settled && request->kind == WEIR_TAKE) count(machine, request, rules, -1);
  return left;
}

/* --- after a charge ----------------------------------------------------------------------------
 */

/* What a denied take has charged stays where denied requests count, and goes back elsewhere. */
static void deny(weir_machine *machine, const weir_request_state *request, unsigned rules) {
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_rule_state *rule_state = &machine->rule_states[i];
    int64_t cost = rules >> i & 1U ? weir_request_cost(request, i) : 0;
    if (cost == 0) continue;
    const weir_rule *rule = &machine->stack->rules[i];
    if (rule->count_all && rule_state->method->keeps_denied(rule_state))
      rule_state->method->note(machine, i, cost);
    else
      rule_state->unused += cost;
  }
  give_up_earlier(machine, request, request->charge);
}

/* Takes out of the rules of earlier stages what the open takes have counted there, so that each can
 * be told what it found when it came. */
static void lift_earlier(weir_machine *machine) {
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next)
    if (!request->settled && request->kind == WEIR_TAKE)
      count(machine, request, machine->charged_before, -1);
}

/* Answers whether it was denied. Earlier stages do not count this request, nor those behind it. */
static bool decide_take(weir_machine *machine, weir_request_state *request, unsigned rules,
                        bool last, bool final) {
  int64_t offered = request->charge;
  if (request->pays) cut_payment(machine, request, rules);
  if (request->up_to) cut_to_room(machine, request, rules);
  if (request->charge < offered) {
    for (size_t i = 0; i < machine->stack->count; i++)
      if (rules >> i & 1U) machine->rule_states[i].unused += offered - request->charge;
    give_up_earlier(machine, request, offered - request->charge);
  }
  unsigned denying = denying_rules(machine, request, rules);
  request->denying = denying;
  if (denying == 0) {
    admit(machine, request, rules);
    if (machine->charged_before != 0) count(machine, request, machine->charged_before, 1);
    if (last) settle(machine, request, 0);
    return false;
  }
  deny(machine, request, rules);
  if (machine->stack->count_all) /* its own charge may fill other rules */
    denying |= denying_rules(machine, request, all_rules(machine->stack));
  if (final) settle(machine, request, denying);
  return true;
}

bool weir_decide_stage(weir_machine *machine, unsigned rules, bool last, bool final) {
  bool denied = false;
  if (machine->charged_before != 0) lift_earlier(machine);
  for (weir_request_state *request = machine->requests; request != NULL; request = request->next) {
    if (request->settled) continue;
    if (request->kind == WEIR_TAKE)
      denied = decide_take(machine, request, rules, last, final) || denied;
    else if (last && (final || !denied))
      decide_peek(machine, request);
  }
  return denied;
}

void weir_decide_rest(weir_machine *machine) {
  for (weir_request_state *request = machine->requests; request != NULL; request = request->next)
    if (!request->settled && request->kind == WEIR_PEEK) decide_peek(machine, request);
}

void weir_decide_denied(weir_machine *machine) {
  for (weir_request_state *request = machine->requests; request != NULL; request = request->next)
    if (!request->settled && request->kind == WEIR_TAKE)
      settle_denied(machine, request, request->denying);
  weir_decide_rest(machine);
}

#include "algorithm/judge.h"

#include "algorithm/method.h"

static unsigned all_rules(const weir_stack *stack) {
  return (1U << stack->count) - 1;
}

static int64_t room_of(const weir_stack *stack, const weir_part *parts, size_t i,
                       const weir_ask *ask) {
  const weir_rule *rule = &stack->rules[i];
  return parts[i].method->room(rule, &parts[i], ask);
}

/* What must fit under rule i: a request that is content with less needs room for 1. */
static int64_t needed_cost(const weir_ask *ask, size_t i) {
  return ask->up_to ? 1 : weir_ask_cost(ask, i);
}

/* Those of `rules` that deny, one bit each. */
static unsigned denying_rules(const weir_stack *stack, const weir_part *parts, const weir_ask *ask,
                              unsigned rules) {
  unsigned denying = 0;
  for (size_t i = 0; i < stack->count; i++) {
    int64_t cost = rules >> i & 1U ? needed_cost(ask, i) : 0;
    if (cost > 0 && room_of(stack, parts, i, ask) < cost) denying |= 1U << i;
  }
  return denying;
}

/* The largest cost that `rules` admit together. */
static int64_t common_room(const weir_stack *stack, const weir_part *parts, const weir_ask *ask,
                           unsigned rules) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < stack->count; i++) {
    if (!(rules >> i & 1U)) continue;
    int64_t room = room_of(stack, parts, i, ask);
    if (room < least) least = room;
  }
  return least;
}

/* --- what is told ------------------------------------------------------------------------------
 */

/* The rule that denies longest speaks, else the one with least remaining; the first of equals. What
 * is not known counts as most. */
static bool speaks_before(const weir_decision *other, const weir_decision *spoken,
                          unsigned denying) {
  return denying != 0 ? other->retry_after_us > spoken->retry_after_us
                      : (uint64_t)other->remaining < (uint64_t)spoken->remaining;
}

/* One answer out of those of all rules. */
static weir_decision speak(const weir_stack *stack, const weir_decision told[], const weir_ask *ask,
                           unsigned denying) {
  weir_decision spoken = {0};
  int64_t reset_after_us = 0;
  int64_t hold_us = 0;
  bool first = true;
  for (size_t i = 0; i < stack->count; i++) {
    if (weir_ask_cost(ask, i) == 0) continue;
    if (told[i].reset_after_us > reset_after_us) reset_after_us = told[i].reset_after_us;
    if (denying >> i & 1U && stack->rules[i].hold_us > hold_us) hold_us = stack->rules[i].hold_us;
    if (first || speaks_before(&told[i], &spoken, denying)) {
      spoken = told[i];
      spoken.rule = (uint32_t)i;
      spoken.limit = weir_rule_capacity(&stack->rules[i]);
    }
    first = false;
  }
  spoken.allowed = denying == 0;
  spoken.reset_after_us = reset_after_us;
  spoken.delay_us = spoken.allowed ? ask->decision.delay_us : hold_us;
  spoken.cost = ask->costs != NULL ? WEIR_OWN_COSTS : ask->cost;
  if (denying != 0 && ask->asked > 0) spoken.cost = ask->asked;
  return spoken;
}

/* A denial that can be repeated speaks for every request that asks no less. */
static bool is_plain(const weir_ask *ask) {
  return ask->kind == WEIR_ASK_TAKE && ask->costs == NULL && !ask->up_to && !ask->waits;
}

/* Until when what this decision rests on may be used. */
static int64_t knowledge_ends_us(const weir_machine *machine) {
  int64_t oldest_us = machine->now_us;
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_method *method = machine->parts[i].method;
    int64_t read_us = method->oldest_us != NULL ? method->oldest_us(machine, i) : oldest_us;
    if (read_us < oldest_us) oldest_us = read_us;
  }
  return oldest_us + machine->terms->memo_age_us;
}

static void remember_denial(weir_machine *machine, const weir_ask *ask) {
  weir_memo *notes = machine->notes;
  int64_t wait = ask->decision.retry_after_us;
  int64_t ends_us = knowledge_ends_us(machine);
  notes->must_peek = true;
  if (!is_plain(ask) || (notes->denied_cost != 0 && notes->denied_cost <= ask->cost)) return;
  if (wait > machine->terms->local_denial_us) wait = machine->terms->local_denial_us;
  notes->denied_cost = ask->cost;
  notes->denied_at_us = machine->now_us;
  notes->denied_until_us = machine->now_us + wait;
  if (notes->denied_until_us > ends_us) notes->denied_until_us = ends_us;
}

static void settle(weir_machine *machine, weir_ask *ask, unsigned denying) {
  weir_decision told[WEIR_RULES_MOST];
  for (size_t i = 0; i < machine->stack->count; i++) {
    bool denies = denying >> i & 1U;
    int64_t cost = denies ? needed_cost(ask, i) : weir_ask_cost(ask, i);
    told[i] = (weir_decision){0};
    if (weir_ask_cost(ask, i) > 0)
      machine->parts[i].method->figures(&machine->stack->rules[i], &machine->parts[i], ask, cost,
                                        denies, &told[i]);
  }
  ask->decision = speak(machine->stack, told, ask, denying);
  ask->decision.at_us = machine->now_us;
  ask->status = WEIR_OK;
  ask->settled = true;
  if (denying != 0 && ask->kind == WEIR_ASK_TAKE) remember_denial(machine, ask);
}

/* --- counting ----------------------------------------------------------------------------------
 */

/* The longest wait that `rules` ask of whoever takes this now. */
static void find_delay(const weir_machine *machine, weir_ask *ask, unsigned rules) {
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule *rule = &machine->stack->rules[i];
    const weir_method *method = machine->parts[i].method;
    int64_t cost = rules >> i & 1U ? weir_ask_cost(ask, i) : 0;
    if (cost == 0 || method->delay == NULL) continue;
    int64_t delay_us = method->delay(rule, &machine->parts[i], cost);
    if (delay_us > ask->decision.delay_us) ask->decision.delay_us = delay_us;
    if (ask->ends != NULL) ask->ends[i] = delay_us > 0 ? 0 : WEIR_NO_SLOT;
  }
}

static void note(weir_machine *machine, size_t i, int64_t cost) {
  if (cost != 0) machine->parts[i].method->note(machine, i, cost);
}

/* Counts what an ask takes under `rules`. */
static void admit(weir_machine *machine, weir_ask *ask, unsigned rules) {
  find_delay(machine, ask, rules);
  for (size_t i = 0; i < machine->stack->count; i++) {
    if (!(rules >> i & 1U)) continue;
    const weir_method *method = machine->parts[i].method;
    note(machine, i, weir_ask_cost(ask, i));
    if (ask->ends != NULL && method->slot != NULL && ask->ends[i] != WEIR_NO_SLOT)
      ask->ends[i] = method->slot(machine, i);
  }
}

/* Lets an up-to ask be content with what fits, if anything does. */
static void cut_to_room(const weir_machine *machine, weir_ask *ask, unsigned rules) {
  if (!ask->up_to) return;
  int64_t room = common_room(machine->stack, machine->parts, ask, rules);
  if (room < 1 || room >= ask->cost) return;
  if (ask->asked == 0) ask->asked = ask->cost;
  ask->cost = room;
}

/* Every look offers an up-to ask all that it asked for. */
static void offer_all(const weir_stack *stack, weir_ask *ask) {
  int64_t most = weir_stack_least_capacity(stack);
  if (ask->asked > 0) ask->cost = ask->asked < most ? ask->asked : most;
}

/* Counts an ask under the rules of earlier stages, or (sign -1) no longer. */
static void count_earlier(weir_machine *machine, const weir_ask *ask, int sign) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->charged_before >> i & 1U) note(machine, i, sign * weir_ask_cost(ask, i));
}

/* `cost` less of an ask goes back under the rules of earlier stages. */
static void give_up_earlier(weir_machine *machine, const weir_ask *ask, int64_t cost) {
  for (size_t i = 0; i < machine->stack->count; i++)
    if (machine->charged_before >> i & 1U && weir_ask_cost(ask, i) > 0)
      machine->parts[i].unused += ask->costs != NULL ? ask->costs[i] : cost;
}

/* Counts an ask under every rule, or (sign -1) no longer. */
static void count_whole(weir_machine *machine, const weir_ask *ask, int sign) {
  for (size_t i = 0; i < machine->stack->count; i++)
    note(machine, i, sign * weir_ask_cost(ask, i));
}

/* The same for what was admitted of the asks behind this one. */
static void count_behind(weir_machine *machine, const weir_ask *ask, int sign) {
  for (const weir_ask *other = ask->next; other != NULL; other = other->next)
    if (other->kind == WEIR_ASK_TAKE && other->settled && other->decision.allowed)
      count_whole(machine, other, sign);
}

/* A take that was looked at once more is told what it found when it came: not what was admitted
 * behind it meanwhile, unless that alone is why it does not fit now. */
static void settle_denied(weir_machine *machine, weir_ask *ask, unsigned denying) {
  count_behind(machine, ask, -1);
  unsigned without = denying_rules(machine->stack, machine->parts, ask, all_rules(machine->stack));
  if (without != 0) settle(machine, ask, without);
  count_behind(machine, ask, 1);
  if (without == 0) settle(machine, ask, denying);
}

/* --- after a look ------------------------------------------------------------------------------
 */

static void judge_peek(weir_machine *machine, weir_ask *ask) {
  unsigned rules = all_rules(machine->stack);
  cut_to_room(machine, ask, rules);
  unsigned denying = denying_rules(machine->stack, machine->parts, ask, rules);
  if (denying == 0) find_delay(machine, ask, rules);
  settle(machine, ask, denying);
}

/* Those that are left count for those behind them; when all are judged the notes say again what was
 * read. */
bool weir_judge_look(weir_machine *machine) {
  unsigned rules = all_rules(machine->stack);
  bool left = false;
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    if (ask->settled) continue;
    ask->decision.delay_us = 0;
    offer_all(machine->stack, ask);
    if (ask->kind == WEIR_ASK_PEEK) { /* behind a take that is still open it is decided with it */
      if (!left) judge_peek(machine, ask);
      continue;
    }
    cut_to_room(machine, ask, rules);
    unsigned denying = denying_rules(machine->stack, machine->parts, ask, rules);
    if (denying != 0) {
      settle_denied(machine, ask, denying);
      continue;
    }
    count_whole(machine, ask, 1);
    left = true;
  }
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && ask->kind == WEIR_ASK_TAKE) count_whole(machine, ask, -1);
  return left;
}

/* --- after a charge ----------------------------------------------------------------------------
 */

/* What a denied take has charged stays where denied requests count, and goes back elsewhere. */
static void deny(weir_machine *machine, const weir_ask *ask, unsigned rules) {
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_part *part = &machine->parts[i];
    int64_t cost = rules >> i & 1U ? weir_ask_cost(ask, i) : 0;
    if (cost == 0) continue;
    const weir_rule *rule = &machine->stack->rules[i];
    if (rule->count_all && part->method->keeps_denied(part))
      note(machine, i, cost);
    else
      part->unused += cost;
  }
  give_up_earlier(machine, ask, ask->cost);
}

/* Takes out of the rules of earlier stages what the open takes have counted there, so that each can
 * be told what it found when it came. */
static void lift_earlier(weir_machine *machine) {
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && ask->kind == WEIR_ASK_TAKE) count_earlier(machine, ask, -1);
}

/* Answers whether it was denied. Earlier stages do not count this ask, nor those behind it. */
static bool judge_take(weir_machine *machine, weir_ask *ask, unsigned rules, bool last,
                       bool final) {
  int64_t asked = ask->cost;
  cut_to_room(machine, ask, rules);
  if (ask->cost < asked) {
    for (size_t i = 0; i < machine->stack->count; i++)
      if (rules >> i & 1U) machine->parts[i].unused += asked - ask->cost;
    give_up_earlier(machine, ask, asked - ask->cost);
  }
  unsigned denying = denying_rules(machine->stack, machine->parts, ask, rules);
  ask->denying = denying;
  if (denying == 0) {
    admit(machine, ask, rules);
    if (machine->charged_before != 0) count_earlier(machine, ask, 1);
    if (last) settle(machine, ask, 0);
    return false;
  }
  deny(machine, ask, rules);
  if (machine->stack->count_all) /* its own charge may fill other rules */
    denying |= denying_rules(machine->stack, machine->parts, ask, all_rules(machine->stack));
  if (final) settle(machine, ask, denying);
  return true;
}

bool weir_judge_stage(weir_machine *machine, unsigned rules, bool last, bool final) {
  bool denied = false;
  if (machine->charged_before != 0) lift_earlier(machine);
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    if (ask->settled) continue;
    if (ask->kind == WEIR_ASK_TAKE)
      denied = judge_take(machine, ask, rules, last, final) || denied;
    else if (last && (final || !denied))
      judge_peek(machine, ask);
  }
  return denied;
}

void weir_judge_rest(weir_machine *machine) {
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && ask->kind == WEIR_ASK_PEEK) judge_peek(machine, ask);
}

void weir_judge_denied(weir_machine *machine) {
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (!ask->settled && ask->kind == WEIR_ASK_TAKE) settle_denied(machine, ask, ask->denying);
  weir_judge_rest(machine);
}

/* --- without the store -------------------------------------------------------------------------
 */

bool weir_settle_never(const weir_stack *stack, int64_t now_us, weir_ask *ask) {
  if (ask->up_to) {
    ask->asked = ask->cost;
    offer_all(stack, ask);
  }
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    if (weir_ask_cost(ask, i) <= weir_rule_capacity(rule)) continue;
    ask->decision = (weir_decision){
        .source = WEIR_SOURCE_LOCAL,
        .rule = (uint32_t)i,
        .limit = weir_rule_capacity(rule),
        .remaining = WEIR_NOT_KNOWN,
        .retry_after_us = WEIR_NEVER,
        .reset_after_us = WEIR_NOT_KNOWN,
        .delay_us = rule->hold_us,
        .cost = ask->costs != NULL ? WEIR_OWN_COSTS : ask->cost,
        .at_us = now_us,
    };
    ask->status = WEIR_OK;
    return ask->settled = true;
  }
  return false;
}

bool weir_settle_locally(const weir_stack *stack, const weir_terms *terms, const weir_memo *memo,
                         int64_t now_us, weir_ask *ask) {
  weir_decision told[WEIR_RULES_MOST];
  unsigned denying = 0;
  if (!terms->local_denial || stack->count_all || !is_plain(ask) || memo->denied_cost == 0 ||
      ask->cost < memo->denied_cost || now_us < memo->denied_at_us ||
      now_us >= memo->denied_until_us)
    return false;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    const void *memory = weir_memo_own(stack, memo, i);
    int64_t room;
    told[i] = (weir_decision){0};
    if (!weir_method_of(rule)->recall(rule, terms, memory, now_us, ask, ask->cost, &room, &told[i]))
      return false;
    if (room < ask->cost) denying |= 1U << i;
  }
  if (denying == 0) return false;
  ask->decision = speak(stack, told, ask, denying);
  ask->decision.source = WEIR_SOURCE_LOCAL;
  ask->decision.at_us = now_us;
  ask->status = WEIR_OK;
  return ask->settled = true;
}

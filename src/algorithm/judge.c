#include "algorithm/judge.h"

#include "algorithm/cells.h"
#include "algorithm/notes.h"

/* One bit per rule that denies. */
static unsigned denying_rules(const weir_stack *stack, const weir_part *parts, int64_t cost) {
  unsigned denying = 0;
  for (size_t i = 0; i < stack->count; i++)
    if (weir_cells_remaining(&stack->rules[i], &parts[i]) < cost) denying |= 1U << i;
  return denying;
}

/* Figures of one rule as they stand after the decision. */
static weir_decision figures(const weir_rule *rule, const weir_part *part, int64_t now_us,
                             int64_t cost, bool denies) {
  return (weir_decision){
      .limit = rule->limit,
      .remaining = weir_cells_remaining(rule, part),
      .retry_after_us = denies ? weir_cells_retry_after(rule, part, now_us, cost) : 0,
      .reset_after_us = weir_cells_reset_after(rule, part, now_us),
  };
}

/* The rule that denies longest speaks, else the one with least remaining; the first of equals. */
static weir_decision speak(const weir_stack *stack, const weir_part *parts, int64_t now_us,
                           int64_t cost, unsigned denying) {
  weir_decision spoken = figures(&stack->rules[0], &parts[0], now_us, cost, denying & 1U);
  int64_t reset_after_us = spoken.reset_after_us;
  for (size_t i = 1; i < stack->count; i++) {
    weir_decision other = figures(&stack->rules[i], &parts[i], now_us, cost, denying >> i & 1U);
    other.rule = (uint32_t)i;
    if (other.reset_after_us > reset_after_us) reset_after_us = other.reset_after_us;
    if (denying != 0 ? other.retry_after_us > spoken.retry_after_us
                     : other.remaining < spoken.remaining)
      spoken = other;
  }
  spoken.reset_after_us = reset_after_us;
  spoken.allowed = denying == 0;
  return spoken;
}

static void remember_denial(weir_machine *machine, const weir_ask *ask) {
  weir_memo *notes = machine->notes;
  int64_t wait = ask->decision.retry_after_us;
  notes->must_peek = true;
  if (notes->denied_cost != 0 && notes->denied_cost <= ask->cost) return;
  if (wait > machine->terms->local_denial_us) wait = machine->terms->local_denial_us;
  notes->denied_cost = ask->cost;
  notes->denied_at_us = machine->now_us;
  notes->denied_until_us = machine->now_us + wait;
}

static void settle(weir_machine *machine, weir_ask *ask, unsigned denying) {
  ask->decision = speak(machine->stack, machine->parts, machine->now_us, ask->cost, denying);
  ask->status = WEIR_OK;
  ask->settled = true;
  if (denying != 0 && ask->kind == WEIR_ASK_TAKE) remember_denial(machine, ask);
}

bool weir_judge_peek(weir_machine *machine) {
  bool left = false;
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    if (ask->settled) continue;
    unsigned denying = denying_rules(machine->stack, machine->parts, ask->cost);
    if (ask->kind == WEIR_ASK_TAKE && denying == 0) {
      for (size_t i = 0; i < machine->stack->count; i++)
        weir_notes_charge(machine, i, ask->cost);
      left = true;
    } else if (ask->kind == WEIR_ASK_TAKE || !left) {
      settle(machine, ask, denying);
    } /* a peek behind a take that is still open is decided with it */
  }
  return left;
}

/* Charges an admitted take; where denied requests count, those as well. */
static void apply(weir_machine *machine, const weir_ask *ask, unsigned denying) {
  if (ask->kind != WEIR_ASK_TAKE) return;
  for (size_t i = 0; i < machine->stack->count; i++) {
    weir_part *part = &machine->parts[i];
    bool full = part->cells[part->current - part->first].count >= WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
    bool stays = denying == 0 || (machine->stack->rules[i].count_all && !full);
    if (stays)
      weir_notes_charge(machine, i, ask->cost);
    else
      part->unused += ask->cost;
  }
}

void weir_judge_charge(weir_machine *machine) {
  machine->notes->must_peek = false;
  for (size_t i = 0; i < machine->stack->count; i++)
    machine->parts[i].unused = 0;
  for (weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    if (ask->settled) continue;
    unsigned denying = denying_rules(machine->stack, machine->parts, ask->cost);
    apply(machine, ask, denying);
    settle(machine, ask, denying);
  }
}

bool weir_settle_never(const weir_stack *stack, weir_ask *ask) {
  for (size_t i = 0; i < stack->count; i++) {
    if (ask->cost <= stack->rules[i].limit) continue;
    ask->decision = (weir_decision){
        .source = WEIR_SOURCE_LOCAL,
        .rule = (uint32_t)i,
        .limit = stack->rules[i].limit,
        .remaining = WEIR_NOT_KNOWN,
        .retry_after_us = WEIR_NEVER,
        .reset_after_us = WEIR_NOT_KNOWN,
    };
    ask->status = WEIR_OK;
    return ask->settled = true;
  }
  return false;
}

/* The parts as the memo has them, at `now_us`; false where it lacks a cell that counts now. */
static bool parts_of_memo(const weir_stack *stack, const weir_terms *terms, const weir_memo *memo,
                          int64_t now_us, weir_part *parts) {
  const weir_memo_cell *cells = memo->cells;
  for (size_t i = 0; i < stack->count; i++) {
    weir_part *part = &parts[i];
    weir_cells_span(&stack->rules[i], now_us, terms->margin_us, part);
    int64_t skipped = part->first - memo->kept[i].first;
    if (skipped < 0 || part->last >= memo->kept[i].first + memo->kept[i].count) return false;
    part->cells = cells + skipped;
    cells += weir_cells_room(&stack->rules[i]);
  }
  return true;
}

bool weir_settle_locally(const weir_stack *stack, const weir_terms *terms, const weir_memo *memo,
                         int64_t now_us, weir_ask *ask) {
  weir_part parts[WEIR_RULES_MOST];
  bool known = terms->local_denial && !stack->count_all && ask->kind == WEIR_ASK_TAKE &&
               memo->denied_cost != 0 && ask->cost >= memo->denied_cost &&
               now_us >= memo->denied_at_us && now_us < memo->denied_until_us;
  if (!known || !parts_of_memo(stack, terms, memo, now_us, parts)) return false;
  unsigned denying = denying_rules(stack, parts, ask->cost);
  if (denying == 0) return false;
  ask->decision = speak(stack, parts, now_us, ask->cost, denying);
  ask->decision.source = WEIR_SOURCE_LOCAL;
  ask->status = WEIR_OK;
  return ask->settled = true;
}

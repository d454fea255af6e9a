/* Windows: increment first, then decide.
 *
 * A request is admitted only on the value that its own group's addition returned, and every other
 * cell that can still change is read after that addition, in the same write. Reading before it
 * violates every serial order. What was charged and not used goes back to the very counter that was
 * charged.
 */
#include "algorithm/cells.h"
#include "algorithm/held.h"
#include "algorithm/method.h"
#include "algorithm/notes.h"

/* Its own span, so that every cell in it can still be charged; then W and e until nobody asks; 2 s
 * for whole seconds. */
static int64_t ttl_us(const weir_machine *machine, const weir_rule *rule) {
  return rule->lanes * rule->cell_us + rule->period_us + machine->terms->margin_us + 2000000;
}

static weir_action *plan(weir_machine *machine, size_t i, weir_operation_kind kind, int64_t index) {
  int64_t ttl = ttl_us(machine, &machine->stack->rules[i]);
  return weir_plan(machine, i, kind, WEIR_PLACE_COUNT, index, ttl);
}

/* Where a cell stands in its counter, as the factor of one. */
static int64_t lane_unit(const weir_rule *rule, int64_t cell) {
  return INT64_C(1) << (rule->lane_bits * (int)(cell % rule->lanes));
}

/* The counter of the far edge; nothing was charged before the epoch. */
static int64_t first_counter(const weir_rule *rule, const weir_part *part) {
  return part->window.first > 0 ? part->window.first / rule->lanes : 0;
}

/* Counters from the far edge to the cell ahead that are not known well enough, but for `except`. */
static void plan_reads(weir_machine *machine, size_t i, int64_t except) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_part *part = &machine->parts[i];
  int64_t last = part->window.last / rule->lanes;
  for (int64_t index = first_counter(rule, part); index <= last; index++)
    if (index != except && !weir_notes_cover(machine, i, index)) plan(machine, i, WEIR_GET, index);
}

/* The cells of a span touch at most two counters more than they fill; one more to take back. */
static size_t actions_most(const weir_rule *rule) {
  return (size_t)(weir_cells_room(rule) / rule->lanes) + 3;
}

static bool blind(const weir_machine *machine, size_t i) {
  (void)machine;
  (void)i;
  return true;
}

static void look(weir_machine *machine, size_t i) {
  if (machine->parts[i].step++ == 0) plan_reads(machine, i, -1);
}

static void charge(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  if (part->step++ > 0) return;
  part->window.charged_cell = part->window.current;
  int64_t index = part->window.current / rule->lanes;
  plan(machine, i, WEIR_ADD, index)->delta = part->charge * lane_unit(rule, part->window.current);
  plan_reads(machine, i, index);
}

static void take_back(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  if (part->step++ > 0) return;
  int64_t cell = part->window.charged_cell;
  plan(machine, i, WEIR_SUB, cell / rule->lanes)->delta = part->unused * lane_unit(rule, cell);
}

static void reset(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  if (part->step++ > 0) return;
  int64_t last = (part->window.current + (rule->kind == WEIR_SLIDING_WINDOW)) / rule->lanes;
  for (int64_t index = first_counter(rule, part); index <= last; index++)
    plan(machine, i, WEIR_DROP, index);
}

static void answer(weir_machine *machine, size_t i, const weir_action *action) {
  int64_t value = action->outcome == WEIR_DONE ? action->value : 0;
  if (action->kind == WEIR_ADD) {
    machine->parts[i].charged = true;
    value = (int64_t)((uint64_t)value - (uint64_t)action->delta);
  }
  if (action->kind == WEIR_ADD || action->kind == WEIR_GET)
    weir_notes_read(machine, i, action->index, value);
  if (action->kind == WEIR_SUB) weir_notes_doubt(machine, i, action->index);
}

static bool keeps_denied(const weir_part *part) {
  int64_t cell = part->window.current - part->window.first;
  return part->window.cells[cell].count < WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
}

static int64_t room(const weir_rule *rule, const weir_part *part, const weir_ask *ask) {
  (void)ask;
  return weir_cells_remaining(rule, part);
}

static void figures(const weir_rule *rule, const weir_part *part, const weir_ask *ask, int64_t cost,
                    bool denied, weir_decision *decision) {
  (void)ask;
  decision->remaining = weir_cells_remaining(rule, part);
  if (denied) decision->retry_after_us = weir_cells_retry_after(rule, part, part->now_us, cost);
  decision->reset_after_us = weir_cells_reset_after(rule, part, part->now_us);
}

static void hold(weir_machine *machine, size_t i, int64_t cost) {
  weir_held_add(machine, i, machine->parts[i].window.charged_cell, cost);
}

static bool refund(weir_machine *machine, size_t i, const weir_ask *ask, int64_t cost) {
  weir_part *part = &machine->parts[i];
  int64_t cell = ask->at_us / machine->stack->rules[i].cell_us;
  part->unused = 0;
  if (cell < part->window.first ||
      (cell == part->window.first && part->window.left_us == 0 && cell != part->window.current))
    return true;
  if (cell > part->window.last || part->window.cells[cell - part->window.first].count < cost)
    return false;
  part->window.charged_cell = cell;
  part->unused = cost;
  return true;
}

/* The memo's cells, where it has all that count now. */
static bool recall(const weir_stack *stack, size_t i, const weir_terms *terms,
                   const weir_memo *memo, int64_t now_us, weir_part *part) {
  weir_cells_span(&stack->rules[i], now_us, terms->margin_us, part);
  int64_t first = memo->rules[i].kept.window.first;
  int64_t skipped = part->window.first - first;
  if (skipped < 0 || part->window.last >= first + memo->rules[i].kept.window.count) return false;
  const weir_memo_cell *cells = (const weir_memo_cell *)(memo->rules + stack->count);
  part->window.cells = cells + weir_notes_offset(stack, i) + skipped;
  return true;
}

const weir_method weir_window_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .charges_at_once = true,
    .actions_most = actions_most,
    .frame = weir_notes_frame,
    .blind = blind,
    .look = look,
    .charge = charge,
    .take_back = take_back,
    .reset = reset,
    .answer = answer,
    .keeps_denied = keeps_denied,
    .room = room,
    .oldest_us = weir_notes_oldest_us,
    .note = weir_notes_charge,
    .figures = figures,
    .hold = hold,
    .refund = refund,
    .recall = recall,
};

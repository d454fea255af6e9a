/* Windows: increment first, then decide.
 *
 * A request is admitted only on the value that its own group's addition returned, and every other
 * cell that can still change is read after that addition, in the same write. Reading before it
 * violates every serial order. What was charged and not used goes back to the very counter that was
 * charged.
 *
 *     charge      ADD the current counter, GET the others that are not known well enough
 *     look        GET all that are not
 *     take_back   SUB from the counter that was charged
 *
 * A cell is known well enough when it was read after its end + e, when no charge of it can be under
 * way any more, and not longer than memo_age ago, as others may have given back or reset since.
 */
#include "algorithm/window.h"

#include "algorithm/held.h"
#include "algorithm/method.h"

typedef struct window_state {
  weir_cell_span span;  /* its cells are the memory's */
  int64_t charged_cell; /* where the charge went */
} window_state;

static const weir_cell unread = {0, -1};

/* --- what is known of cells --------------------------------------------------------------------
 */

static size_t window_memory_bytes(const weir_rule *rule) {
  return sizeof(weir_window_memory) + (size_t)weir_cells_room(rule) * sizeof(weir_cell);
}

/* Slides the memory so that cells[0] is cell `first`. The order of the loop keeps it in place. */
static void window_slide(weir_window_memory *memory, int64_t first, int64_t count) {
  int64_t shift = first - memory->first;
  for (int64_t n = 0; n < count; n++) {
    int64_t to = shift >= 0 ? n : count - 1 - n;
    int64_t from = to + shift;
    memory->cells[to] = from >= 0 && from < memory->count ? memory->cells[from] : unread;
  }
  memory->first = first;
  memory->count = count;
}

static void window_frame(weir_machine *machine, size_t i) {
  weir_window_memory *memory = machine->parts[i].memory;
  weir_cell_span *span = &((window_state *)machine->parts[i].state)->span;
  weir_cells_span(&machine->stack->rules[i], machine->now_us, machine->terms->margin_us, span);
  int64_t count = span->last - span->first + 1;
  if (memory->first != span->first || memory->count != count)
    window_slide(memory, span->first, count);
  span->cells = memory->cells;
  for (int64_t cell = span->first; cell < 0; cell++) /* before the epoch: nothing */
    memory->cells[cell - span->first] = (weir_cell){0, machine->now_us};
}

/* The cells of counter `index` that lie in the span, as places in it: from the one returned on,
 * before *end. *lane: that of the first. */
static int64_t window_places(const weir_rule *rule, const weir_cell_span *span, int64_t index,
                             int64_t *end, int64_t *lane) {
  int64_t begin = index * rule->lanes;
  int64_t first = begin > span->first ? begin : span->first;
  int64_t past = begin + rule->lanes <= span->last ? begin + rule->lanes : span->last + 1;
  *end = past - span->first;
  *lane = first - begin;
  return first - span->first;
}

/* Whether every cell of the counter within the span is finished, read after it was, and fresh. A
 * charge stamped inside a cell reaches the store before its end + e on this process's clock. */
static bool window_knows(const weir_machine *machine, size_t i, int64_t index) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_terms *terms = machine->terms;
  const weir_cell_span *span = &((const window_state *)machine->parts[i].state)->span;
  int64_t end;
  int64_t lane;
  int64_t place = window_places(rule, span, index, &end, &lane);
  for (; place < end; place++) {
    int64_t read_us = span->cells[place].read_us;
    int64_t final_us = (span->first + place + 1) * rule->cell_us + terms->margin_us;
    if (!terms->cached_cells || read_us < final_us || read_us > machine->now_us ||
        machine->now_us - read_us > terms->memo_age_us)
      return false;
  }
  return true;
}

/* When the cell was read that was read first. What has changed since it was read was changed, and
 * read, in this decision. */
static int64_t window_oldest_us(const weir_machine *machine, size_t i) {
  const weir_cell_span *span = &((const window_state *)machine->parts[i].state)->span;
  int64_t oldest_us = machine->now_us;
  for (int64_t place = 0; place <= span->last - span->first; place++) {
    int64_t read_us = span->cells[place].read_us;
    if (read_us >= 0 && read_us < oldest_us) oldest_us = read_us;
  }
  return oldest_us;
}

/* Writes down what the counter held at machine->now_us or later. */
static void window_read(weir_machine *machine, size_t i, int64_t index, int64_t counter) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_window_memory *memory = machine->parts[i].memory;
  const weir_cell_span *span = &((const window_state *)machine->parts[i].state)->span;
  int64_t counts[WEIR_LANES_MOST];
  int64_t end;
  int64_t lane;
  int64_t place = window_places(rule, span, index, &end, &lane);
  weir_cells_decode(rule, counter, counts);
  for (; place < end; place++, lane++) {
    memory->cells[place] = (weir_cell){counts[lane], machine->now_us};
    weir_held_compare(machine, i, span->first + place, counts[lane]);
  }
}

/* The counter has changed since it was read: it has to be read again. */
static void window_doubt(weir_machine *machine, size_t i, int64_t index) {
  weir_window_memory *memory = machine->parts[i].memory;
  const weir_cell_span *span = &((const window_state *)machine->parts[i].state)->span;
  int64_t end;
  int64_t lane;
  int64_t place = window_places(&machine->stack->rules[i], span, index, &end, &lane);
  for (; place < end; place++)
    memory->cells[place].read_us = unread.read_us;
}

/* --- rounds ------------------------------------------------------------------------------------
 */

/* A counter lives for its own span, so that every cell in it can still be charged; then for W and e
 * until nobody asks. */
static int64_t window_ttl_us(const weir_rule *rule, const weir_terms *terms) {
  return rule->lanes * rule->cell_us + rule->period_us + terms->margin_us + WEIR_TTL_SLACK_US;
}

static unsigned window_needs(unsigned traits) {
  (void)traits;
  return WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB;
}

/* Where a cell stands in its counter, as the factor of one. */
static int64_t lane_unit(const weir_rule *rule, int64_t cell) {
  return INT64_C(1) << (rule->lane_bits * (int)(cell % rule->lanes));
}

/* The counter of the far edge; nothing was charged before the epoch. */
static int64_t first_counter(const weir_rule *rule, const weir_cell_span *span) {
  return span->first > 0 ? span->first / rule->lanes : 0;
}

/* Counters from the far edge to the cell ahead that are not known well enough, but for `except`. */
static void window_plan_reads(weir_machine *machine, size_t i, int64_t except) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_cell_span *span = &((const window_state *)machine->parts[i].state)->span;
  int64_t last = span->last / rule->lanes;
  for (int64_t index = first_counter(rule, span); index <= last; index++)
    if (index != except && !window_knows(machine, i, index))
      weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, index);
}

/* The cells of a span touch at most two counters more than they fill; one more to take back. */
static size_t window_actions_most(const weir_rule *rule) {
  return (size_t)(weir_cells_room(rule) / rule->lanes) + 3;
}

static bool window_blind(const weir_machine *machine, size_t i) {
  (void)machine;
  (void)i;
  return true;
}

static void window_look(weir_machine *machine, size_t i) {
  if (machine->parts[i].step++ == 0) window_plan_reads(machine, i, -1);
}

static void window_charge(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  window_state *state = part->state;
  if (part->step++ > 0) return;
  state->charged_cell = state->span.current;
  int64_t index = state->span.current / rule->lanes;
  weir_plan(machine, i, WEIR_ADD, WEIR_PLACE_COUNT, index)->delta =
      part->charge * lane_unit(rule, state->span.current);
  window_plan_reads(machine, i, index);
}

static void window_take_back(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  int64_t cell = ((const window_state *)part->state)->charged_cell;
  if (part->step++ > 0) return;
  weir_plan(machine, i, WEIR_SUB, WEIR_PLACE_COUNT, cell / rule->lanes)->delta =
      part->unused * lane_unit(rule, cell);
}

static void window_reset(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_cell_span *span = &((const window_state *)machine->parts[i].state)->span;
  if (machine->parts[i].step++ > 0) return;
  int64_t last = (span->current + (rule->kind == WEIR_SLIDING_WINDOW)) / rule->lanes;
  for (int64_t index = first_counter(rule, span); index <= last; index++)
    weir_plan(machine, i, WEIR_DROP, WEIR_PLACE_COUNT, index);
}

static void window_answer(weir_machine *machine, size_t i, const weir_action *action) {
  int64_t value = action->outcome == WEIR_DONE ? action->value : 0;
  if (action->kind == WEIR_ADD) {
    machine->parts[i].charged = true;
    value = (int64_t)((uint64_t)value - (uint64_t)action->delta);
  }
  if (action->kind == WEIR_ADD || action->kind == WEIR_GET)
    window_read(machine, i, action->index, value);
  if (action->kind == WEIR_SUB) window_doubt(machine, i, action->index);
}

/* --- what the counts mean ----------------------------------------------------------------------
 */

static bool window_keeps_denied(const weir_part *part) {
  const weir_cell_span *span = &((const window_state *)part->state)->span;
  return span->cells[span->current - span->first].count < WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
}

static int64_t window_room(const weir_rule *rule, const weir_part *part, const weir_ask *ask) {
  (void)ask;
  return weir_cells_remaining(rule, &((const window_state *)part->state)->span);
}

static void window_note(weir_machine *machine, size_t i, int64_t cost) {
  weir_window_memory *memory = machine->parts[i].memory;
  const weir_cell_span *span = &((const window_state *)machine->parts[i].state)->span;
  memory->cells[span->current - span->first].count += cost;
}

static void window_figures(const weir_rule *rule, const weir_part *part, const weir_ask *ask,
                           int64_t cost, bool denied, weir_decision *decision) {
  const weir_cell_span *span = &((const window_state *)part->state)->span;
  (void)ask;
  decision->remaining = weir_cells_remaining(rule, span);
  if (denied) decision->retry_after_us = weir_cells_retry_after(rule, span, part->now_us, cost);
  decision->reset_after_us = weir_cells_reset_after(rule, span, part->now_us);
}

static void window_hold(weir_machine *machine, size_t i, int64_t cost) {
  weir_held_add(machine, i, ((const window_state *)machine->parts[i].state)->charged_cell, cost);
}

static bool window_refund(weir_machine *machine, size_t i, const weir_ask *ask, int64_t cost) {
  weir_part *part = &machine->parts[i];
  window_state *state = part->state;
  const weir_cell_span *span = &state->span;
  int64_t cell = ask->at_us / machine->stack->rules[i].cell_us;
  part->unused = 0;
  if (cell < span->first || (cell == span->first && span->left_us == 0 && cell != span->current))
    return true;
  if (cell > span->last || span->cells[cell - span->first].count < cost) return false;
  state->charged_cell = cell;
  part->unused = cost;
  return true;
}

/* The memory's cells, where it has all that count now. */
static bool window_recall(const weir_rule *rule, const weir_terms *terms, const void *memory,
                          int64_t now_us, const weir_ask *ask, int64_t cost, int64_t *room,
                          weir_decision *figures) {
  const weir_window_memory *kept = memory;
  window_state state;
  weir_part part = {.now_us = now_us, .state = &state};
  weir_cells_span(rule, now_us, terms->margin_us, &state.span);
  int64_t skipped = state.span.first - kept->first;
  if (skipped < 0 || state.span.last >= kept->first + kept->count) return false;
  state.span.cells = kept->cells + skipped;
  *room = window_room(rule, &part, ask);
  window_figures(rule, &part, ask, cost, *room < cost, figures);
  return true;
}

const weir_method weir_window_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .charges_at_once = true,
    .needs = window_needs,
    .ttl_us = window_ttl_us,
    .memory_bytes = window_memory_bytes,
    .state_bytes = sizeof(window_state),
    .actions_most = window_actions_most,
    .frame = window_frame,
    .blind = window_blind,
    .look = window_look,
    .charge = window_charge,
    .take_back = window_take_back,
    .reset = window_reset,
    .answer = window_answer,
    .keeps_denied = window_keeps_denied,
    .room = window_room,
    .oldest_us = window_oldest_us,
    .note = window_note,
    .figures = window_figures,
    .hold = window_hold,
    .refund = window_refund,
    .recall = window_recall,
};

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
 * A cell is known well enough when it was read after its end + x, when nobody's charge of it can be
 * under way any more, and not longer than memo_age ago, as others may have given back or reset since.
 */
#include "algorithm/window.h"

#include <string.h>

#include "algorithm/expected.h"
#include "algorithm/method.h"

typedef struct window_state {
  weir_cell_span span;   /* its cells are the memory's */
  int64_t first_counter; /* that of the far edge; nothing was charged before the epoch */
  int64_t charged_cell;  /* where the charge went */
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
  weir_window_memory *memory = machine->rule_states[i].memory;
  const weir_rule *rule = &machine->stack->rules[i];
  window_state *state = machine->rule_states[i].state;
  weir_cell_span *span = &state->span;
  weir_cells_span(rule, machine->now_us, machine->settings->ahead_us, span);
  state->first_counter = span->first > 0 ? span->first / rule->lanes : 0;
  int64_t count = span->last - span->first + 1;
  if (memory->first != span->first || memory->count != count)
    window_slide(memory, span->first, count);
  span->cells = memory->cells;
  for (int64_t cell = span->first; cell < 0; cell++) /* before the epoch: nothing */
    memory->cells[cell - span->first] = (weir_cell){0, machine->now_us};
}

/* Whether every cell of the counter within the span is finished, read after it was, and fresh. A
 * charge stamped inside a cell reaches the store before its end + x on this process's clock, by
 * whichever deadline it was made. */
static bool window_knows(const weir_machine *machine, size_t i, int64_t index) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_settings *settings = machine->settings;
  const weir_cell_span *span = &((const window_state *)machine->rule_states[i].state)->span;
  int64_t end = (index + 1) * rule->lanes;
  if (!settings->cached_cells) return false;
  for (int64_t cell = end - rule->lanes; cell < end; cell++) {
    if (cell < span->first || cell > span->last) continue;
    int64_t read_us = span->cells[cell - span->first].read_us;
    int64_t final_us = (cell + 1) * rule->cell_us + settings->final_us;
    if (read_us < final_us || read_us > machine->now_us ||
        machine->now_us - read_us > settings->memo_age_us)
      return false;
  }
  return true;
}

/* When the cell was read that was read first. What has changed since it was read was changed, and
 * read, in this decision. */
static int64_t window_oldest_us(const weir_machine *machine, size_t i) {
  const weir_cell_span *span = &((const window_state *)machine->rule_states[i].state)->span;
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
  weir_window_memory *memory = machine->rule_states[i].memory;
  const weir_cell_span *span = &((const window_state *)machine->rule_states[i].state)->span;
  int64_t counts[WEIR_LANES_MOST];
  weir_cells_decode(rule, counter, counts);
  for (int lane = 0; lane < rule->lanes; lane++) {
    int64_t cell = index * rule->lanes + lane;
    if (cell < span->first || cell > span->last) continue;
    memory->cells[cell - span->first] = (weir_cell){counts[lane], machine->now_us};
    weir_expected_compare(machine, i, cell, counts[lane]);
  }
}

/* The counter has changed since it was read: it has to be read again. */
static void window_doubt(weir_machine *machine, size_t i, int64_t index) {
  int lanes = machine->stack->rules[i].lanes;
  weir_window_memory *memory = machine->rule_states[i].memory;
  const weir_cell_span *span = &((const window_state *)machine->rule_states[i].state)->span;
  for (int64_t cell = index * lanes; cell < (index + 1) * lanes; cell++)
    if (cell >= span->first && cell <= span->last)
      memory->cells[cell - span->first].read_us = unread.read_us;
}

/* --- rounds ------------------------------------------------------------------------------------
 */

/* A counter lives for its own span, so that every cell in it can still be charged; then for W and x
 * until nobody asks. */
static int64_t window_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return rule->lanes * rule->cell_us + rule->period_us + settings->final_us + WEIR_TTL_SLACK_US;
}

static unsigned window_needs(unsigned traits) {
  (void)traits;
  return WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB;
}

/* Where a cell stands in its counter, as the factor of one. */
static int64_t window_unit(const weir_rule *rule, int64_t cell) {
  return INT64_C(1) << (rule->lane_bits * (int)(cell % rule->lanes));
}

/* Counters from the far edge to the cell ahead that are not known well enough, but for `except`. */
static void window_plan_reads(weir_machine *machine, size_t i, int64_t except) {
  const weir_rule *rule = &machine->stack->rules[i];
  const window_state *state = machine->rule_states[i].state;
  int64_t last = state->span.last / rule->lanes;
  for (int64_t index = state->first_counter; index <= last; index++)
    if (index != except && !window_knows(machine, i, index))
      weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, index);
}

/* The cells of a span touch at most two counters more than they fill; one more to take back. */
static size_t window_operations_most(const weir_rule *rule) {
  return (size_t)(weir_cells_room(rule) / rule->lanes) + 3;
}

static void window_look(weir_machine *machine, size_t i) {
  if (machine->rule_states[i].step++ == 0) window_plan_reads(machine, i, -1);
}

static void window_charge(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  window_state *state = rule_state->state;
  if (rule_state->step++ > 0) return;
  state->charged_cell = state->span.current;
  int64_t index = state->span.current / rule->lanes;
  weir_plan(machine, i, WEIR_ADD, WEIR_PLACE_COUNT, index)->delta =
      rule_state->charge * window_unit(rule, state->span.current);
  window_plan_reads(machine, i, index);
}

static void window_take_back(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t cell = ((const window_state *)rule_state->state)->charged_cell;
  if (rule_state->step++ > 0) return;
  weir_plan(machine, i, WEIR_SUB, WEIR_PLACE_COUNT, cell / rule->lanes)->delta =
      rule_state->unused * window_unit(rule, cell);
}

static void window_reset(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  const window_state *state = machine->rule_states[i].state;
  if (machine->rule_states[i].step++ > 0) return;
  int64_t last = (state->span.current + (rule->kind == WEIR_SLIDING_WINDOW)) / rule->lanes;
  for (int64_t index = state->first_counter; index <= last; index++)
    weir_plan(machine, i, WEIR_DROP, WEIR_PLACE_COUNT, index);
}

static void window_answer(weir_machine *machine, size_t i, const weir_operation *operation) {
  int64_t value = operation->outcome == WEIR_DONE ? operation->value : 0;
  if (operation->kind == WEIR_ADD) {
    machine->rule_states[i].charged = true;
    value = (int64_t)((uint64_t)value - (uint64_t)operation->delta);
  }
  if (operation->kind == WEIR_ADD || operation->kind == WEIR_GET)
    window_read(machine, i, operation->counter.index, value);
  if (operation->kind == WEIR_SUB) window_doubt(machine, i, operation->counter.index);
}

/* --- what the counts mean ----------------------------------------------------------------------
 */

static bool window_keeps_denied(const weir_rule_state *rule_state) {
  const weir_cell_span *span = &((const window_state *)rule_state->state)->span;
  return span->cells[span->current - span->first].count < WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
}

static int64_t window_room(const weir_rule *rule, const weir_rule_state *rule_state,
                           const weir_request_state *request) {
  (void)request;
  return weir_cells_remaining(rule, &((const window_state *)rule_state->state)->span);
}

static void window_note(weir_machine *machine, size_t i, int64_t cost) {
  weir_window_memory *memory = machine->rule_states[i].memory;
  const weir_cell_span *span = &((const window_state *)machine->rule_states[i].state)->span;
  memory->cells[span->current - span->first].count += cost;
}

static void window_figures(const weir_rule *rule, const weir_rule_state *rule_state,
                           const weir_request_state *request, int64_t cost, bool denied,
                           weir_decision *decision) {
  const weir_cell_span *span = &((const window_state *)rule_state->state)->span;
  (void)request;
  decision->remaining = weir_cells_remaining(rule, span);
  if (denied)
    decision->retry_after_us = weir_cells_retry_after(rule, span, rule_state->now_us, cost);
  decision->reset_after_us = weir_cells_reset_after(rule, span, rule_state->now_us);
}

static void window_expect(weir_machine *machine, size_t i, int64_t cost) {
  const window_state *state = machine->rule_states[i].state;
  weir_expected_count(machine, i, state->charged_cell, machine->stack->rules[i].cells,
                      state->span.cells[state->charged_cell - state->span.first].count, cost);
}

static bool window_refund(weir_machine *machine, size_t i, const weir_request_state *request,
                          int64_t cost) {
  weir_rule_state *rule_state = &machine->rule_states[i];
  window_state *state = rule_state->state;
  const weir_cell_span *span = &state->span;
  int64_t cell = request->at_us / machine->stack->rules[i].cell_us;
  rule_state->unused = 0;
  if (cell < span->first || (cell == span->first && span->left_us == 0 && cell != span->current))
    return true;
  if (cell > span->last || span->cells[cell - span->first].count < cost) return false;
  state->charged_cell = cell;
  rule_state->unused = cost;
  return true;
}

/* The memory's cells, where it has all that count now. A cell ahead that counts since the memory
 * was begun holds nothing that this process knows of. */
static bool window_recall(const weir_rule *rule, const weir_settings *settings, const void *memory,
                          int64_t now_us, const weir_request_state *request, int64_t cost,
                          int64_t *room, weir_decision *figures) {
  const weir_window_memory *cached = memory;
  window_state state;
  weir_rule_state rule_state = {.now_us = now_us, .state = &state};
  weir_cells_span(rule, now_us, settings->ahead_us, &state.span);
  int64_t skipped = state.span.first - cached->first;
  int64_t known = cached->first + cached->count - state.span.first;
  weir_cell cells[WEIR_CELLS_MOST + 2];
  if (skipped < 0 || state.span.current - state.span.first >= known) return false;
  state.span.cells = cached->cells + skipped;
  if (state.span.last - state.span.first >= known) {
    memset(cells, 0, sizeof cells);
    memcpy(cells, state.span.cells, (size_t)known * sizeof cells[0]);
    state.span.cells = cells;
  }
  *room = window_room(rule, &rule_state, request);
  window_figures(rule, &rule_state, request, cost, *room < cost, figures);
  return true;
}

static int64_t window_place(const weir_machine *machine, size_t i) {
  return ((const window_state *)machine->rule_states[i].state)->charged_cell;
}

static void window_doubt_cell(const weir_stack *stack, weir_memo *memo, size_t i, int64_t place,
                              int64_t cost) {
  weir_window_memory *memory = weir_memo_memory(stack, memo, i);
  if (place < memory->first || place >= memory->first + memory->count) return;
  weir_cell *cell = &memory->cells[place - memory->first];
  cell->count = cell->count > cost ? cell->count - cost : 0;
  cell->read_us = unread.read_us;
}

/* --- going on without the store ----------------------------------------------------------------
 */

static void window_forget(void *memory) {
  weir_window_memory *cached = memory;
  for (int64_t n = 0; n < cached->count; n++)
    cached->cells[n].read_us = unread.read_us;
}

static void window_known(const weir_rule *rule, const weir_settings *settings, const void *memory,
                         const weir_expected *expected, int64_t now_us, weir_known *known) {
  (void)expected;
  const weir_window_memory *cached = memory;
  (void)settings;
  (void)now_us;
  for (int64_t n = 0; n < cached->count; n++) {
    if (cached->cells[n].count == 0) continue;
    known->charges[known->count].at_us = (cached->first + n) * rule->cell_us;
    known->charges[known->count++].amount = weir_known_parts(cached->cells[n].count);
  }
}

static void window_begin(weir_machine *machine, size_t i, const weir_known *known, bool afresh) {
  const weir_rule *rule = &machine->stack->rules[i];
  const window_state *state = machine->rule_states[i].state;
  for (int64_t index = state->first_counter; index <= state->span.last / rule->lanes; index++) {
    weir_operation *operation =
        weir_plan(machine, i, afresh ? WEIR_PUT : WEIR_CREATE, WEIR_PLACE_COUNT, index);
    int64_t sum = 0;
    for (size_t n = 0; n < known->count; n++) {
      int64_t cell = known->charges[n].at_us / rule->cell_us;
      if (cell / rule->lanes != index) continue;
      int64_t amount = weir_known_here(rule, known->charges[n].amount);
      if (amount > rule->limit) amount = rule->limit; /* a lane has room for that */
      operation->value += amount * window_unit(rule, cell);
      sum += amount;
    }
    operation->stake = weir_plan_stake(sum, rule->capacity);
  }
}

const weir_method weir_window_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .charges_at_once = true,
    .needs = window_needs,
    .ttl_us = window_ttl_us,
    .memory_bytes = window_memory_bytes,
    .state_bytes = sizeof(window_state),
    .operations_most = window_operations_most,
    .frame = window_frame,
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
    .expect = window_expect,
    .refund = window_refund,
    .recall = window_recall,
    .forget = window_forget,
    .known = window_known,
    .begin = window_begin,
    .place = window_place,
    .doubt = window_doubt_cell,
};

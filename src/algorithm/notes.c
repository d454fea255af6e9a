#include "algorithm/notes.h"

#include "algorithm/cells.h"
#include "algorithm/held.h"
#include "algorithm/method.h"

static const weir_memo_cell unread = {0, -1};

/* Slides cells[] so that cells[0] is cell `first`. The order of the loop keeps it in place. */
static void slide(weir_memo *notes, size_t i, weir_memo_cell *cells, int64_t first, int count) {
  int64_t shift = first - notes->rules[i].kept.window.first;
  if (shift == 0 && count == notes->rules[i].kept.window.count) return;
  for (int n = 0; n < count; n++) {
    int to = shift >= 0 ? n : count - 1 - n;
    int64_t from = to + shift;
    cells[to] = from >= 0 && from < notes->rules[i].kept.window.count ? cells[from] : unread;
  }
  notes->rules[i].kept.window.first = first;
  notes->rules[i].kept.window.count = count;
}

/* A cell of the span, to be written. */
static weir_memo_cell *cell_at(weir_machine *machine, size_t i, int64_t cell) {
  return machine->cells + weir_notes_offset(machine->stack, i) +
         (cell - machine->parts[i].window.first);
}

size_t weir_notes_offset(const weir_stack *stack, size_t i) {
  size_t cells = 0;
  for (size_t j = 0; j < i; j++)
    cells += (size_t)weir_cells_room(&stack->rules[j]);
  return cells;
}

void weir_notes_frame(weir_machine *machine, size_t i) {
  weir_memo *notes = machine->notes;
  weir_part *part = &machine->parts[i];
  weir_memo_cell *cells = machine->cells + weir_notes_offset(machine->stack, i);
  weir_cells_span(&machine->stack->rules[i], machine->now_us, machine->terms->margin_us, part);
  slide(notes, i, cells, part->window.first, (int)(part->window.last - part->window.first) + 1);
  part->window.cells = cells;
  for (int64_t cell = part->window.first; cell < 0; cell++) /* before the epoch: nothing */
    *cell_at(machine, i, cell) = (weir_memo_cell){0, machine->now_us};
}

/* A charge stamped inside the cell reaches the store before its end + e on this process's clock. */
static bool is_final(const weir_machine *machine, const weir_rule *rule, int64_t cell,
                     const weir_memo_cell *known) {
  const weir_terms *terms = machine->terms;
  return terms->cached_cells && known->read_us >= (cell + 1) * rule->cell_us + terms->margin_us &&
         known->read_us <= machine->now_us &&
         machine->now_us - known->read_us <= terms->memo_age_us;
}

/* The cells of a counter that lie in the span: from *cell on, before the end returned. */
static int64_t in_span(const weir_rule *rule, const weir_part *part, int64_t index, int64_t *cell) {
  int64_t first = index * rule->lanes;
  int64_t end = first + rule->lanes;
  *cell = first > part->window.first ? first : part->window.first;
  return end <= part->window.last ? end : part->window.last + 1;
}

bool weir_notes_cover(const weir_machine *machine, size_t i, int64_t index) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_part *part = &machine->parts[i];
  int64_t cell;
  int64_t end = in_span(rule, part, index, &cell);
  for (; cell < end; cell++)
    if (!is_final(machine, rule, cell, &part->window.cells[cell - part->window.first]))
      return false;
  return true;
}

int64_t weir_notes_oldest_us(const weir_machine *machine, size_t i) {
  const weir_part *part = &machine->parts[i];
  int64_t oldest_us = machine->now_us;
  for (int64_t cell = part->window.first; cell <= part->window.last; cell++) {
    int64_t read_us = part->window.cells[cell - part->window.first].read_us;
    if (read_us >= 0 && read_us < oldest_us) oldest_us = read_us;
  }
  return oldest_us;
}

void weir_notes_read(weir_machine *machine, size_t i, int64_t index, int64_t counter) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t cell;
  int64_t end = in_span(rule, &machine->parts[i], index, &cell);
  for (; cell < end; cell++) {
    int64_t count = weir_cells_decode(rule, counter, (int)(cell % rule->lanes));
    *cell_at(machine, i, cell) = (weir_memo_cell){count, machine->now_us};
    weir_held_compare(machine, i, cell, count);
  }
}

void weir_notes_doubt(weir_machine *machine, size_t i, int64_t index) {
  int64_t cell;
  int64_t end = in_span(&machine->stack->rules[i], &machine->parts[i], index, &cell);
  for (; cell < end; cell++)
    cell_at(machine, i, cell)->read_us = unread.read_us;
}

void weir_notes_charge(weir_machine *machine, size_t i, int64_t cost) {
  cell_at(machine, i, machine->parts[i].window.current)->count += cost;
}

#include "algorithm/notes.h"

#include <string.h>

#include "algorithm/cells.h"

static const weir_memo_cell unread = {0, -1};

/* Slides cells[] so that cells[0] is cell `first`. The order of the loop keeps it in place. */
static void slide(weir_memo *notes, size_t i, weir_memo_cell *cells, int64_t first, int count) {
  int64_t shift = first - notes->kept[i].first;
  for (int n = 0; n < count; n++) {
    int to = shift >= 0 ? n : count - 1 - n;
    int64_t from = to + shift;
    cells[to] = from >= 0 && from < notes->kept[i].count ? cells[from] : unread;
  }
  notes->kept[i].first = first;
  notes->kept[i].count = count;
}

/* A cell of the span, to be written. */
static weir_memo_cell *cell_at(weir_machine *machine, size_t i, int64_t cell) {
  const weir_part *part = &machine->parts[i];
  return machine->notes->cells + (part->cells - machine->notes->cells) + (cell - part->first);
}

void weir_notes_frame(weir_machine *machine, int64_t now_us) {
  machine->now_us = now_us;
  machine->action_count = 0;
  weir_memo_cell *cells = machine->notes->cells;
  for (size_t i = 0; i < machine->stack->count; i++) {
    const weir_rule *rule = &machine->stack->rules[i];
    weir_part *part = &machine->parts[i];
    weir_cells_span(rule, now_us, machine->terms->margin_us, part);
    slide(machine->notes, i, cells, part->first, (int)(part->last - part->first) + 1);
    part->cells = cells;
    for (int64_t cell = part->first; cell < 0; cell++) /* before the epoch nothing was charged */
      *cell_at(machine, i, cell) = (weir_memo_cell){0, now_us};
    cells += weir_cells_room(rule);
  }
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
  *cell = first > part->first ? first : part->first;
  return end <= part->last ? end : part->last + 1;
}

bool weir_notes_cover(const weir_machine *machine, size_t i, int64_t index) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_part *part = &machine->parts[i];
  int64_t cell;
  int64_t end = in_span(rule, part, index, &cell);
  for (; cell < end; cell++)
    if (!is_final(machine, rule, cell, &part->cells[cell - part->first])) return false;
  return true;
}

void weir_notes_read(weir_machine *machine, size_t i, int64_t index, int64_t counter) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t cell;
  int64_t end = in_span(rule, &machine->parts[i], index, &cell);
  for (; cell < end; cell++) {
    int64_t count = weir_cells_decode(rule, counter, (int)(cell % rule->lanes));
    *cell_at(machine, i, cell) = (weir_memo_cell){count, machine->now_us};
  }
}

void weir_notes_charge(weir_machine *machine, size_t i, int64_t cost) {
  cell_at(machine, i, machine->parts[i].current)->count += cost;
}

void weir_notes_forget(weir_machine *machine) {
  memset(machine->notes, 0, weir_memo_bytes(machine->stack));
}

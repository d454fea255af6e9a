#include "algorithm/cells.h"

/* Sums of counts reach 2^62 and times 2^45: their product needs 128 bits. */
__extension__ typedef __int128 wide;

int weir_cells_room(const weir_rule *rule) {
  return rule->kind == WEIR_SLIDING_WINDOW ? rule->cells + 2 : 1;
}

void weir_cells_span(const weir_rule *rule, int64_t now_us, int64_t ahead_us,
                     weir_cell_span *span) {
  int64_t width = rule->cell_us;
  span->current = now_us / width;
  if (rule->kind == WEIR_FIXED_WINDOW) {
    span->first = span->last = span->current;
    span->left_us = 0;
    return;
  }
  int64_t edge = now_us - rule->period_us;
  int64_t ahead = (now_us + ahead_us) / width;
  span->first = edge / width - (edge % width < 0); /* towards minus infinity */
  span->left_us = (span->first + 1) * width - 1 - edge;
  span->last = ahead > span->current ? span->current + 1 : span->current;
}

/* Below 0: so much too much is there. */
static inline int64_t cells_room(const weir_rule *rule, int64_t edge, int64_t left_us,
                                 int64_t inside) {
  int64_t width = rule->cell_us;
  int64_t room = rule->limit - edge; /* of a fixed window, which is its own edge */
  if (rule->kind == WEIR_SLIDING_WINDOW) {
    int64_t product, weighted; /* 64 bits hold it but for counts that are far above any limit */
    if (!__builtin_mul_overflow(2 * edge, left_us, &product) && product <= INT64_MAX - width)
      weighted = (product + width) / (2 * width);
    else
      weighted = (int64_t)(((wide)2 * edge * left_us + width) / ((wide)2 * width));
    int64_t by_upper = rule->upper - inside - (left_us > 0 ? edge : 0);
    room = rule->limit - inside - weighted;
    if (room > by_upper) room = by_upper;
  }
  return room;
}

int64_t weir_cells_fit(const weir_rule *rule, int64_t edge, int64_t left_us, int64_t inside) {
  int64_t room = cells_room(rule, edge, left_us, inside);
  return room > 0 ? room : 0;
}

static int64_t cells_inside(const weir_cell_span *span) {
  int64_t inside = 0;
  for (int64_t i = 1; i <= span->last - span->first; i++)
    inside += span->cells[i].count;
  return inside;
}

int64_t weir_cells_remaining(const weir_rule *rule, const weir_cell_span *span) {
  return weir_cells_fit(rule, span->cells[0].count, span->left_us, cells_inside(span));
}

/* Of two windows' estimate `upper` is more than what it promises, which admissions keep all the same: each
 * cell has at most L. Where a cell may have D more, only the sum of both keeps it. */
int64_t weir_cells_overrun(const weir_rule *rule, const weir_cell_span *span) {
  int64_t edge = span->cells[0].count, inside = cells_inside(span);
  int64_t room = cells_room(rule, edge, span->left_us, inside);
  int64_t by_bound = weir_rule_bound(rule) - inside - (span->left_us > 0 ? edge : 0);
  if (rule->kind == WEIR_SLIDING_WINDOW && room > by_bound) room = by_bound;
  room += rule->debt;
  return room > 0 ? room : 0;
}

/* Of a sliding window, drops cells from the far edge on until the cost fits beside what is left: then r
 * is the most that may be left of the edge cell, by estimate <= L solved for r, and the same for upper.
 */
int64_t weir_cells_retry_after(const weir_rule *rule, const weir_cell_span *span, int64_t now_us,
                               int64_t cost) {
  if (rule->kind == WEIR_FIXED_WINDOW) {
    if (span->cells[0].count + cost <= rule->limit) return 0;
    return (span->current + 1) * rule->cell_us - now_us;
  }
  int64_t place = 0;
  int64_t inside = cost;
  for (int64_t i = 1; i <= span->last - span->first; i++)
    inside += span->cells[i].count;
  while (inside > rule->limit)
    inside -= span->cells[++place].count;

  int64_t edge = span->cells[place].count;
  int64_t left = rule->cell_us - 1;
  if (inside + edge > rule->upper) {
    left = 0;
  } else if (edge > 0) {
    wide most = ((wide)(2 * (rule->limit - inside) + 1) * rule->cell_us - 1) / ((wide)2 * edge);
    if (most < left) left = (int64_t)most;
  }
  int64_t at = (span->first + place + 1) * rule->cell_us - 1 - left + rule->period_us;
  return at > now_us ? at - now_us : 0;
}

int64_t weir_cells_reset_after(const weir_rule *rule, const weir_cell_span *span, int64_t now_us) {
  int64_t newest = span->last;
  while (newest >= span->first && span->cells[newest - span->first].count == 0)
    newest--;
  if (newest < span->first) return 0;
  int64_t end = (newest + 1) * rule->cell_us;
  if (rule->kind == WEIR_SLIDING_WINDOW) end += rule->period_us - 1;
  return end > now_us ? end - now_us : 0;
}

void weir_cells_decode(const weir_rule *rule, int64_t counter, int64_t counts[WEIR_LANES_MOST]) {
  if (rule->lanes == 1) {
    counts[0] = counter < 0 ? 0 : counter < WEIR_COUNT_MOST ? counter : WEIR_COUNT_MOST;
    return;
  }
  int64_t base = INT64_C(1) << rule->lane_bits;
  for (int lane = 0; lane < rule->lanes; lane++) {
    int64_t digit = counter & (base - 1); /* of a negative number too: two's complement */
    if (digit >= base / 2) digit -= base;
    counter = (counter >> rule->lane_bits) + (digit < 0);
    counts[lane] = digit > 0 ? digit : 0;
  }
}

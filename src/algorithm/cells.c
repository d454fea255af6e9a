#include "algorithm/cells.h"

#include "algorithm/method.h"

/* Sums of counts reach 2^62 and times 2^45: their product needs 128 bits. */
__extension__ typedef __int128 wide;

int weir_cells_room(const weir_rule *rule) {
  if (rule->kind == WEIR_SLIDING_WINDOW) return rule->cells + 2;
  return rule->kind == WEIR_FIXED_WINDOW ? 1 : 0;
}

void weir_cells_span(const weir_rule *rule, int64_t now_us, int64_t margin_us, weir_part *part) {
  int64_t width = rule->cell_us;
  part->window.current = now_us / width;
  if (rule->kind == WEIR_FIXED_WINDOW) {
    part->window.first = part->window.last = part->window.current;
    part->window.left_us = 0;
    return;
  }
  int64_t edge = now_us - rule->period_us;
  int64_t ahead = (now_us + margin_us) / width;
  part->window.first = weir_floor_divide(edge, width);
  part->window.left_us = (part->window.first + 1) * width - 1 - edge;
  part->window.last =
      ahead > part->window.current ? part->window.current + 1 : part->window.current;
}

static int64_t count_of(const weir_part *part, int64_t cell) {
  return part->window.cells[cell - part->window.first].count;
}

static int64_t sum_after(const weir_part *part, int64_t cell) {
  int64_t sum = 0;
  for (int64_t i = cell + 1; i <= part->window.last; i++)
    sum += count_of(part, i);
  return sum;
}

static int64_t weighted(int64_t count, int64_t left_us, int64_t width) {
  return (int64_t)(((wide)2 * count * left_us + width) / ((wide)2 * width));
}

int64_t weir_cells_remaining(const weir_rule *rule, const weir_part *part) {
  int64_t room;
  if (rule->kind == WEIR_FIXED_WINDOW) {
    room = rule->limit - count_of(part, part->window.current);
  } else {
    int64_t inside = sum_after(part, part->window.first);
    int64_t edge = count_of(part, part->window.first);
    int64_t by_estimate =
        rule->limit - inside - weighted(edge, part->window.left_us, rule->cell_us);
    int64_t by_upper = weir_rule_upper(rule) - inside - (part->window.left_us > 0 ? edge : 0);
    room = by_estimate < by_upper ? by_estimate : by_upper;
  }
  return room > 0 ? room : 0;
}

/* The most that may be left of an edge cell holding `edge` so that `inside` (cost included, at most
 * L) still fits: estimate <= L solved for r, then the same for upper. */
static int64_t most_left(const weir_rule *rule, int64_t inside, int64_t edge) {
  int64_t whole = rule->cell_us - 1;
  if (edge == 0) return whole;
  if (inside + edge > weir_rule_upper(rule)) return 0;
  wide left = ((wide)(2 * (rule->limit - inside) + 1) * rule->cell_us - 1) / ((wide)2 * edge);
  return left < whole ? (int64_t)left : whole;
}

static int64_t sliding_retry_after(const weir_rule *rule, const weir_part *part, int64_t now_us,
                                   int64_t cost) {
  int64_t inside = sum_after(part, part->window.first) + cost;
  int64_t edge = part->window.first;
  while (inside > rule->limit)
    inside -= count_of(part, ++edge);
  int64_t left = most_left(rule, inside, count_of(part, edge));
  int64_t at = (edge + 1) * rule->cell_us - 1 - left + rule->period_us;
  return at > now_us ? at - now_us : 0;
}

int64_t weir_cells_retry_after(const weir_rule *rule, const weir_part *part, int64_t now_us,
                               int64_t cost) {
  if (rule->kind == WEIR_SLIDING_WINDOW) return sliding_retry_after(rule, part, now_us, cost);
  if (count_of(part, part->window.current) + cost <= rule->limit) return 0;
  return (part->window.current + 1) * rule->cell_us - now_us;
}

int64_t weir_cells_reset_after(const weir_rule *rule, const weir_part *part, int64_t now_us) {
  int64_t newest = part->window.last;
  while (newest >= part->window.first && count_of(part, newest) == 0)
    newest--;
  if (newest < part->window.first) return 0;
  int64_t end = (newest + 1) * rule->cell_us;
  if (rule->kind == WEIR_SLIDING_WINDOW) end += rule->period_us - 1;
  return end > now_us ? end - now_us : 0;
}

int64_t weir_cells_decode(const weir_rule *rule, int64_t counter, int lane) {
  if (rule->lanes == 1)
    return counter < 0 ? 0 : counter < WEIR_COUNT_MOST ? counter : WEIR_COUNT_MOST;
  int64_t base = INT64_C(1) << rule->lane_bits;
  int64_t digit = 0;
  for (int i = 0; i <= lane; i++) {
    digit = counter - weir_floor_divide(counter, base) * base;
    if (digit >= base / 2) digit -= base;
    counter = (int64_t)(((wide)counter - digit) / base);
  }
  return digit > 0 ? digit : 0;
}

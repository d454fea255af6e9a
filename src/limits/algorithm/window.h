/* The arithmetic of windows, at the head of window.c: which cells matter at a moment, and what their
 * counts allow.
 *
 * Time is cut into cells of width S = ceil(W/N), indexed from the epoch. At time t
 *
 *     k = t/S            the current cell, the one that is charged
 *     o = (t-W)/S        the cell at the far edge, of which r microseconds are still inside
 *     K = min((t+e)/S, k+1)   a cell ahead that a process with an earlier clock may have charged
 *
 *     A = cells o+1 .. K       O = cell o
 *     estimate = A + O*r/S, rounded half up      upper = A + (r > 0 ? O : 0)
 *     fits iff estimate <= L and upper <= L + ceil(2L/N)           strict: iff upper <= L
 *
 * A request of a class has its part of L in the place of L: its threshold.
 *
 * N = 1 is the weighted estimate over two windows of the literature. A fixed window is one cell
 * with nothing before it.
 */
#ifndef WEIR_ALGORITHM_WINDOW_H
#define WEIR_ALGORITHM_WINDOW_H

#include "algorithm/algorithm.h"

/* A cell as it was read. */
typedef struct weir_cell {
  int64_t count;
  int64_t read_us; /* `now` of the round that read it; below 0: not read */
} weir_cell;

/* What a process keeps of a key under a window. */
typedef struct weir_window_memory {
  int64_t first; /* which cell cells[0] is */
  int64_t count; /* how many are cached */

  /* Between these, not at the later, a charge needs to read nothing but what it adds to; equal: that
   * is not known. */
  int64_t plain_from_us, plain_until_us;
  int64_t plain_lately_until_us; /* the same by what was read lately alone */
  int64_t plain_inside; /* what counts whole, but for the cells of the counter that is added to */
  weir_cell cells[];
} weir_window_memory;

/* The cells that count at a moment. */
typedef struct weir_cell_span {
  int64_t first, current, last; /* cells o, k, K */
  int64_t left_us;              /* r: how much of cell o is still inside */
  const weir_cell *cells;       /* first .. last */
} weir_cell_span;

/* Most cells from o to K. */
int weir_cells_room(const weir_rule *rule);

/* Sets all of a span but its cells. */
void weir_cells_span(const weir_rule *rule, int64_t now_us, int64_t ahead_us, weir_cell_span *span);

/* The largest cost that fits now for a class; 0 when none does. */
int64_t weir_cells_remaining(const weir_rule *rule, weir_threshold most,
                             const weir_cell_span *span);

/* The largest part of a real cost that may be charged now: as what fits, but under the limit and the
 * rule's debt, and in no period more than weir_rule_bound() and that. */
int64_t weir_cells_overrun(const weir_rule *rule, weir_threshold most, const weir_cell_span *span);

/* The shortest wait after which `cost` (1 to L) fits if nothing else is charged; 0: now. */
int64_t weir_cells_retry_after(const weir_rule *rule, weir_threshold most,
                               const weir_cell_span *span, int64_t now_us, int64_t cost);

/* The wait until no cell of the span counts any more. */
int64_t weir_cells_reset_after(const weir_rule *rule, const weir_cell_span *span, int64_t now_us);

/* What a counter says of its cells, out of its signed lanes: borrows of lower lanes given back,
 * negative is 0. */
enum { WEIR_LANES_MOST = 4 };
void weir_cells_decode(const weir_rule *rule, int64_t counter, int64_t counts[WEIR_LANES_MOST]);

#endif

/* Windows: increment first, then decide (docs/guarantees.md, "Sliding window").
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
 * A cell is known when it was read after its end + x, when no charge of it can be under way any more.
 * From then on others only make it smaller, as they give back or reset. So a charge may be admitted by
 * it however old it is: once it was read memo_age after its end + x, it is firm, and is read no more
 * before it leaves. What would be denied is first looked at by all that was not read in its own
 * decision, in the round that takes the charge back. What is told without a charge rests on nothing older
 * than memo_age.
 *
 * window.h has the picture of the cells, and what is computed with them.
 */
#include "algorithm/window.h"

#include "algorithm/method.h"
#include "algorithm/plan.h"
#include "wide.h"

/* --- arithmetic --------------------------------------------------------------------------------
 */

int weir_cells_room(const weir_rule *rule) {
  return rule->kind == WEIR_FIXED_WINDOW ? 1 : rule->cells + 2;
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

/* What is there, of the far cell, of which left_us are still inside, and the sum of all others: the
 * estimate, and *whole, which counts all of the far cell. A fixed window is its own edge. */
static inline int64_t cells_used(const weir_rule *rule, int64_t edge, int64_t left_us,
                                 int64_t inside, int64_t *whole) {
  int64_t width = rule->cell_us;
  int64_t product, weighted; /* 64 bits hold it but for counts that are far above any limit */
  *whole = edge;
  if (rule->kind != WEIR_SLIDING_WINDOW) return edge;
  if (!__builtin_mul_overflow(2 * edge, left_us, &product) && product <= INT64_MAX - width)
    weighted = (product + width) / (2 * width);
  else /* sums of counts reach 2^62, and times 2^45 */
    weighted = (int64_t)(((weir_wide)2 * edge * left_us + width) / ((weir_wide)2 * width));
  *whole = inside + (left_us > 0 ? edge : 0);
  return inside + weighted;
}

/* What fits for a class beside that. Below 0: so much too much is there. */
static inline int64_t cells_room(weir_threshold most, int64_t used, int64_t whole) {
  int64_t room = most.capacity - used, by_upper = most.upper - whole;
  return room < by_upper ? room : by_upper;
}

static int64_t cells_inside(const weir_cell_span *span) {
  int64_t inside = 0;
  for (int64_t i = 1; i <= span->last - span->first; i++)
    inside += span->cells[i].count;
  return inside;
}

int64_t weir_cells_remaining(const weir_rule *rule, weir_threshold most,
                             const weir_cell_span *span) {
  int64_t whole;
  int64_t used = cells_used(rule, span->cells[0].count, span->left_us, cells_inside(span), &whole);
  int64_t room = cells_room(most, used, whole);
  return room > 0 ? room : 0;
}

/* Of two windows' estimate `upper` is more than what it promises, which admissions keep all the same: each
 * cell has at most L. Where a cell may have D more, only the sum of both keeps it. */
int64_t weir_cells_overrun(const weir_rule *rule, weir_threshold most, const weir_cell_span *span) {
  int64_t whole;
  int64_t used = cells_used(rule, span->cells[0].count, span->left_us, cells_inside(span), &whole);
  int64_t room = cells_room(most, used, whole);
  int64_t by_bound = weir_rule_bound_of(rule, most) - whole;
  if (rule->kind == WEIR_SLIDING_WINDOW && room > by_bound) room = by_bound;
  room += rule->debt;
  return room > 0 ? room : 0;
}

/* Of a sliding window, drops cells from the far edge on until the cost fits beside what is left: then r
 * is the most that may be left of the edge cell, by estimate <= L solved for r, and the same for upper.
 */
int64_t weir_cells_retry_after(const weir_rule *rule, weir_threshold most,
                               const weir_cell_span *span, int64_t now_us, int64_t cost) {
  int64_t limit = most.capacity;
  if (rule->kind == WEIR_FIXED_WINDOW) {
    if (span->cells[0].count + cost <= limit) return 0;
    return (span->current + 1) * rule->cell_us - now_us;
  }
  int64_t place = 0;
  int64_t inside = cost + cells_inside(span);
  while (inside > limit)
    inside -= span->cells[++place].count;

  int64_t edge = span->cells[place].count;
  int64_t left = rule->cell_us - 1;
  if (inside + edge > most.upper) {
    left = 0;
  } else if (edge > 0) {
    weir_wide stays =
        ((weir_wide)(2 * (limit - inside) + 1) * rule->cell_us - 1) / ((weir_wide)2 * edge);
    if (stays < left) left = (int64_t)stays;
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

/* What the lowest of a counter's lanes says, which is taken off it. */
static inline int64_t cells_take(int lanes, int lane_bits, int64_t *counter) {
  int above = 64 - lane_bits;
  if (lanes == 1) return weir_count_of(*counter);
  int64_t digit = (int64_t)((uint64_t)*counter << above) >> above; /* with the lane's own sign */
  *counter = (*counter >> lane_bits) + (digit < 0);
  return digit > 0 ? digit : 0;
}

void weir_cells_decode(const weir_rule *rule, int64_t counter, int64_t counts[WEIR_LANES_MOST]) {
  for (int lane = 0; lane < rule->lanes; lane++)
    counts[lane] = cells_take(rule->lanes, rule->lane_bits, &counter);
}

/* Where a cell stands in its counter, as the factor of one. */
static int64_t window_unit(const weir_rule *rule, int64_t cell) {
  return INT64_C(1) << (rule->lane_bits * (int)(cell % rule->lanes));
}

/* --- what is known -----------------------------------------------------------------------------
 */

typedef struct window_state {
  weir_cell_span span;   /* its cells are the memory's */
  int64_t first_counter; /* that of the far edge; nothing was charged before the epoch */
} window_state;
_Static_assert(sizeof(window_state) <= WEIR_STATE_BYTES_MOST, "WEIR_STATE_BYTES_MOST");

enum { NOT_READ = -1 };

/* A counter lives for its own span, so that every cell in it can still be charged; then for W and x,
 * as long as it may be asked for. */
static int64_t window_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return rule->lanes * rule->cell_us + rule->period_us + settings->final_us + WEIR_TTL_SLACK_US;
}

/* What was found out for plain charges holds for the cells as they stood. */
static void window_forget_plain(weir_window_memory *memory) {
  memory->plain_from_us = memory->plain_until_us = 0;
}

/* Slides the memory so that cells[0] is the cell at the far edge. The order of the loop keeps it in
 * place. Before the epoch there is nothing. */
static void window_begin(weir_rule_state *r) {
  int64_t now_us = r->frame->now_us;
  weir_window_memory *memory = r->memory;
  window_state *state = r->state;
  weir_cell_span *span = &state->span;
  weir_cells_span(r->rule, now_us, r->frame->settings->ahead_us, span);
  window_forget_plain(memory);
  span->cells = memory->cells;
  r->place = span->current;
  state->first_counter = span->first > 0 ? span->first / r->rule->lanes : 0;
  int64_t shift = span->first - memory->first;
  int64_t count = span->last - span->first + 1;
  bool laid_by = r->rule->kind == WEIR_FIXED_WINDOW && shift == 0 && memory->count > count;
  if (!laid_by && (shift != 0 || memory->count != count)) {
    for (int64_t n = 0; n < count; n++) {
      int64_t to = shift >= 0 ? n : count - 1 - n;
      int64_t from = to + shift;
      bool cached = from >= 0 && from < memory->count;
      memory->cells[to] = cached ? memory->cells[from] : (weir_cell){0, NOT_READ};
    }
    memory->first = span->first;
    memory->count = count;
  }
  for (int64_t cell = span->first; cell < 0; cell++)
    memory->cells[cell - span->first] = (weir_cell){0, now_us};
}

/* Of what an answer says, what became of charges without one: of the one cell that is watched. */
__attribute__((cold, noinline)) static void window_find(weir_rule_state *r,
                                                        const weir_operation *operation) {
  const weir_window_memory *memory = r->memory;
  int64_t counts[WEIR_LANES_MOST];
  int64_t cell = r->expected->index, place = cell - memory->first;
  if (place < 0 || place >= memory->count || cell / r->rule->lanes != operation->counter.index)
    return;
  weir_cells_decode(r->rule, weir_stored_before(operation), counts);
  weir_expect_reconcile(r, cell, counts[cell % r->rule->lanes]);
}

/* What is remembered of a counter is no longer so. */
static void window_doubt_counter(weir_rule_state *r, int64_t index) {
  weir_window_memory *memory = r->memory;
  int64_t place = index * r->rule->lanes - memory->first;
  for (int lane = 0; lane < r->rule->lanes; lane++, place++)
    if (place >= 0 && place < memory->count) memory->cells[place].read_us = NOT_READ;
}

/* What a counter holds, at `now` or later. Returns what its cells have together, without the memory's first. */
static inline int64_t window_take_in(weir_rule_state *r, const weir_operation *operation,
                                     int64_t counter) {
  weir_window_memory *memory = r->memory;
  int lanes = r->rule->lanes, lane_bits = r->rule->lane_bits;
  int64_t now_us = r->frame->now_us, cells = memory->count, behind_first = 0;
  int64_t place = operation->counter.index * lanes - memory->first;
  int64_t watched = r->expected->index - memory->first;
  for (int lane = 0; lane < lanes; lane++, place++) {
    int64_t count = cells_take(lanes, lane_bits, &counter);
    if (place < 0 || place >= cells) continue;
    memory->cells[place] = (weir_cell){count, now_us};
    if (place == watched) weir_expect_compare(r, memory->first + place, count);
    if (place > 0) behind_first += count;
  }
  if (weir_expect_waits(r)) window_find(r, operation);
  return behind_first;
}

/* An addition's total, without its own cost, is what was there. What was taken off has changed a counter since
 * it was read: it has to be read again, unless that was all that this group did, or the last of it, as in a
 * settlement. */
static void window_answer(weir_rule_state *r, const weir_operation *operation) {
  if (operation->kind == WEIR_DROP) return;
  if (operation->kind == WEIR_ADD) r->charged = operation->outcome == WEIR_DONE;
  if (operation->kind == WEIR_SUB && !r->frame->settles && !r->frame->looks_at_back)
    window_doubt_counter(r, operation->counter.index);
  else
    window_take_in(r, operation, weir_stored_before(operation));
}

/* --- rounds ------------------------------------------------------------------------------------
 */

/* Which cells from before may be used: for a denial none but those that this phase has read; to tell
 * figures those that were read lately; to charge those that are firm, too. */
typedef enum window_use { TO_DENY, TO_TELL, TO_CHARGE } window_use;

/* The most that the cell that is charged may come to hold, as far as is known. */
static int64_t window_most(const weir_rule_state *r) {
  const weir_rule *rule = r->rule;
  const weir_window_memory *memory = r->memory;
  int64_t current = r->place - memory->first, edge = 0, inside = 0, whole;
  int64_t left_us = (memory->first + 1) * rule->cell_us - 1 - (r->frame->now_us - rule->period_us);
  for (int64_t place = 0; place < memory->count; place++) {
    const weir_cell *cell = &memory->cells[place];
    if (place == current || cell->read_us < 0) continue;
    if (place == 0)
      edge = cell->count;
    else
      inside += cell->count;
  }
  int64_t used = cells_used(rule, edge, left_us, inside, &whole);
  int64_t room = cells_room(weir_plan_threshold(r), used, whole);
  return room > 0 ? room : 0;
}

/* Gives the charge its bound, which says nothing of the cells below. Those above must be empty, so that near the
 * end of a cell there is none. Whether the charge fits, as far as is known. */
__attribute__((noinline)) static bool window_bound(weir_rule_state *r, weir_operation *operation) {
  const weir_window_memory *memory = r->memory;
  int64_t most = window_most(r);
  bool top = (r->place + 1) % r->rule->lanes == 0;
  bool ahead = memory->first + memory->count - 1 > r->place;
  if (top || !ahead) operation->floor = (most + 1) * window_unit(r->rule, r->place);
  return memory->cells[r->place - memory->first].count + r->charge <= most;
}

/* Whether a charge may leave less than a quarter of the limit, or the store is known to keep bounds. Any other
 * is so likely to fit that finding its bound would cost more than it spares. */
static bool window_is_near(const weir_rule_state *r) {
  const weir_memo *memo = r->frame->memo;
  return !memo->far || memo->bounded || 4 * r->charge > r->rule->capacity;
}

static inline weir_operation *window_plan_add(weir_rule_state *r) {
  weir_operation *operation = weir_plan(r, WEIR_ADD, WEIR_PLACE_COUNT, r->place / r->rule->lanes);
  operation->delta = r->charge * window_unit(r->rule, r->place);
  return operation;
}

/* Whether a cell is finished, was read after it was, and may be used so. A charge stamped inside a cell reaches
 * the store before its end + x on this process's clock, by whichever deadline it was made (docs/guarantees.md,
 * "Cells known from before"). */
static bool window_knows(const weir_rule_state *r, const weir_cell_span *span, int64_t cell,
                         window_use use) {
  const weir_settings *settings = r->frame->settings;
  int64_t now_us = r->frame->now_us, age_us = use == TO_DENY ? 0 : settings->memo_age_us;
  int64_t read_us = span->cells[cell - span->first].read_us;
  int64_t final_us = (cell + 1) * r->rule->cell_us + settings->final_us;
  if (read_us < final_us || read_us > now_us) return false;
  bool firm = use == TO_CHARGE && read_us - final_us >= settings->memo_age_us;
  return firm || now_us - read_us <= age_us;
}

/* Reads the counters from the far edge to the cell ahead, but for `except` and those of which every cell within the
 * span is known. */
static void window_plan_reads(weir_rule_state *r, int64_t except, window_use use) {
  const weir_rule *rule = r->rule;
  const window_state *state = r->state;
  const weir_cell_span *span = &state->span;
  for (int64_t index = state->first_counter; index <= span->last / rule->lanes; index++) {
    int64_t cell = index * rule->lanes, last = cell + rule->lanes - 1;
    bool known = r->frame->settings->cached_cells;
    if (index == except) continue;
    if (cell < span->first) cell = span->first;
    if (last > span->last) last = span->last;
    for (; known && cell <= last; cell++)
      known = window_knows(r, span, cell, use);
    if (!known) weir_plan(r, WEIR_GET, WEIR_PLACE_COUNT, index);
  }
}

/* Every phase is one round. The look along with a take-back is before a denial. The addition has said
 * what its counter holds: only where others may be about to give back as well, that is read again. A
 * settlement that gives back without a look reads along what its figures need. */
static void window_plan(weir_rule_state *r, weir_phase phase) {
  const weir_rule *rule = r->rule;
  const weir_frame *frame = r->frame;
  const window_state *state = r->state;
  bool denies = frame->phase == WEIR_PHASE_TAKE_BACK || frame->refusals > 0;
  weir_operation *operation;
  if (r->step++ > 0) return;
  int64_t charged = r->place / rule->lanes;
  int64_t last = (state->span.current + (rule->kind == WEIR_SLIDING_WINDOW)) / rule->lanes;
  switch (phase) {
    case WEIR_PHASE_LOOK:
      window_plan_reads(r, denies && frame->looks_at_old ? charged : -1,
                        denies ? TO_DENY : TO_TELL);
      break;
    case WEIR_PHASE_CHARGE:
      frame->memo->far = false;
      operation = window_plan_add(r);
      if (frame->bounds) window_bound(r, operation);
      window_plan_reads(r, charged, frame->believes_firm ? TO_CHARGE : TO_TELL);
      break;
    case WEIR_PHASE_TAKE_BACK:
      weir_plan(r, WEIR_SUB, WEIR_PLACE_COUNT, charged)->delta =
          r->unused * window_unit(rule, r->place);
      if (frame->blind && frame->settles && !r->charged) window_plan_reads(r, charged, TO_TELL);
      break;
    case WEIR_PHASE_RESET:
      for (int64_t index = state->first_counter; index <= last; index++)
        weir_plan(r, WEIR_DROP, WEIR_PLACE_COUNT, index);
      break;
    default:
      break;
  }
}

static void window_store(weir_rule_state *r, const weir_known *known, bool afresh) {
  const weir_rule *rule = r->rule;
  const window_state *state = r->state;
  for (int64_t index = state->first_counter; index <= state->span.last / rule->lanes; index++) {
    weir_operation *operation =
        weir_plan(r, afresh ? WEIR_PUT : WEIR_CREATE, WEIR_PLACE_COUNT, index);
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

/* --- a plain charge ----------------------------------------------------------------------------
 */

/* From when until when a charge needs only its addition: the cells that count are those of the memory,
 * the one ahead is not among them, and all that the addition does not read is known well enough. False:
 * not now. */
static bool window_find_plain(weir_rule_state *r) {
  const weir_rule *rule = r->rule;
  const weir_settings *settings = r->frame->settings;
  weir_window_memory *memory = r->memory;
  int64_t now_us = r->frame->now_us, width = rule->cell_us;
  weir_cell_span span;
  weir_cells_span(rule, now_us, settings->ahead_us, &span);
  if (span.first < 0 || memory->first != span.first || span.last != span.current ||
      memory->count != span.last - span.first + 1)
    return false;
  int64_t from_us = span.current * width, until_us = from_us + width;
  if (rule->kind == WEIR_SLIDING_WINDOW) {
    int64_t edge_us = span.first * width + rule->period_us;
    until_us -= settings->ahead_us;
    if (from_us < edge_us) from_us = edge_us;
    if (until_us > edge_us + width) until_us = edge_us + width;
  }
  int64_t added = span.current - span.current % rule->lanes; /* the counter's first cell */
  int64_t inside = 0, lately_until_us = until_us;
  for (int64_t cell = span.first; cell < added; cell++) {
    int64_t read_us = memory->cells[cell - span.first].read_us;
    int64_t final_us = (cell + 1) * width + settings->final_us;
    int64_t old_us = read_us + settings->memo_age_us + 1;
    if (cell > span.first) inside += memory->cells[cell - span.first].count;
    if (!settings->cached_cells || read_us < final_us) return false;
    if (from_us < read_us) from_us = read_us;
    if (lately_until_us > old_us) lately_until_us = old_us;
    if (read_us - final_us < settings->memo_age_us && until_us > old_us) until_us = old_us;
  }
  memory->plain_from_us = from_us;
  memory->plain_until_us = until_us;
  memory->plain_lately_until_us = lately_until_us;
  memory->plain_inside = inside;
  return now_us >= from_us && now_us < until_us;
}

static bool window_plan_plain(weir_rule_state *r) {
  const weir_window_memory *memory = r->memory;
  int64_t now_us = r->frame->now_us;
  if ((now_us < memory->plain_from_us || now_us >= memory->plain_until_us) && !window_find_plain(r))
    return false;
  r->place = memory->first + memory->count - 1;
  weir_operation *operation = window_plan_add(r);
  if (r->frame->bounds && window_is_near(r) && !window_bound(r, operation) &&
      r->frame->memo->bounded)
    r->frame->believes_firm = false; /* then all that the denial rests on is read along */
  return r->frame->believes_firm || now_us < memory->plain_lately_until_us;
}

/* The cell that was charged is the newest that counts; with those of its counter, the cells are all that
 * count. */
static bool window_end_plain(weir_rule_state *r, const weir_operation *operation) {
  const weir_rule *rule = r->rule;
  weir_window_memory *memory = r->memory;
  int64_t since_us = r->frame->now_us - rule->period_us; /* of a sliding window */
  int64_t end_us = (r->place + 1) * rule->cell_us;
  bool slides = rule->kind == WEIR_SLIDING_WINDOW;
  r->charged = true;
  int64_t behind_first = window_take_in(
      r, operation, (int64_t)((uint64_t)operation->value - (uint64_t)operation->delta));
  int64_t left_us = slides ? (memory->first + 1) * rule->cell_us - 1 - since_us : 0;
  int64_t inside = memory->plain_inside + behind_first;
  int64_t whole, used = cells_used(rule, memory->cells[0].count, left_us, inside, &whole);
  if (!weir_plain_fits(r, used, whole)) return false;
  memory->cells[memory->count - 1].count += r->charge;
  if (r->frame->bounds) r->frame->memo->far = 4 * (r->room - r->charge) >= rule->capacity;
  r->reset_after_us = slides ? end_us - 1 - since_us : end_us - r->frame->now_us;
  return true;
}

/* --- deciding ----------------------------------------------------------------------------------
 */

static int64_t window_room(const weir_rule_state *r, const weir_ask *ask) {
  return weir_cells_remaining(r->rule, weir_ask_threshold(r->rule, ask),
                              &((const window_state *)r->state)->span);
}

/* When the cell was read that was read first. What has changed since it was read was changed, and
 * read, in this decision. */
static int64_t window_oldest_us(const weir_rule_state *r) {
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  int64_t oldest_us = r->frame->now_us;
  for (int64_t place = 0; place <= span->last - span->first; place++) {
    int64_t read_us = span->cells[place].read_us;
    if (read_us >= 0 && read_us < oldest_us) oldest_us = read_us;
  }
  return oldest_us;
}

static int64_t window_count(weir_rule_state *r, int64_t cost) {
  weir_window_memory *memory = r->memory;
  return memory->cells[r->place - memory->first].count += cost;
}

static void window_figures(const weir_rule_state *r, const weir_ask *ask, int64_t cost, bool denied,
                           weir_decision *decision) {
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  int64_t now_us = r->frame->now_us;
  const weir_threshold most = weir_ask_threshold(r->rule, ask);
  decision->remaining = weir_cells_remaining(r->rule, most, span);
  if (denied) decision->retry_after_us = weir_cells_retry_after(r->rule, most, span, now_us, cost);
  decision->reset_after_us = weir_cells_reset_after(r->rule, span, now_us);
}

static void window_expect(weir_rule_state *r, int64_t cost) {
  const weir_window_memory *memory = r->memory;
  weir_expect_count(r, r->place, r->rule->cells, memory->cells[r->place - memory->first].count,
                    cost);
}

static bool window_refund(weir_rule_state *r, const weir_ask *ask, int64_t cost) {
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  int64_t cell = ask->at_us / r->rule->cell_us;
  r->unused = 0;
  if (cell < span->first || (cell == span->first && span->left_us == 0 && cell != span->current))
    return true;
  if (cell > span->last || span->cells[cell - span->first].count < cost) return false;
  r->place = cell;
  r->unused = cost;
  return true;
}

static int64_t window_overrun(const weir_rule_state *r, int64_t cost) {
  const weir_threshold most = weir_ask_threshold(r->rule, &r->frame->requests->ask);
  int64_t room = weir_cells_overrun(r->rule, most, &((const window_state *)r->state)->span);
  return cost < room ? cost : room;
}

static bool window_sure(const weir_rule_state *r, int64_t at_us, int64_t cost) {
  const weir_settings *settings = r->frame->settings;
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  int64_t place = at_us / r->rule->cell_us - span->first, now_us = r->frame->now_us;
  bool counts = place > 0 || (place == 0 && span->left_us > 0) || span->first == span->current;
  if (!settings->cached_cells || !counts || place < 0 || place > span->last - span->first)
    return false;
  const weir_cell *cell = &span->cells[place];
  return cell->read_us >= 0 && cell->read_us <= now_us &&
         now_us - cell->read_us <= settings->memo_age_us && cell->count >= cost;
}

/* --- by the memory alone -----------------------------------------------------------------------
 */

/* The memory's cells, where it has all that count now. A cell ahead that counts since the memory
 * was begun holds nothing that this process knows of. */
static bool window_recall(weir_rule_state *r) {
  const weir_window_memory *memory = r->memory;
  weir_cell_span *span = &((window_state *)r->state)->span;
  weir_cells_span(r->rule, r->frame->now_us, r->frame->settings->ahead_us, span);
  int64_t skipped = span->first - memory->first;
  int64_t known = memory->first + memory->count - span->first;
  if (skipped < 0 || span->current - span->first >= known) return false;
  if (span->last - span->first >= known) span->last = span->first + known - 1;
  span->cells = memory->cells + skipped;
  return true;
}

static void window_known(const weir_rule_state *r, weir_known *known) {
  const weir_window_memory *memory = r->memory;
  for (int64_t n = 0; n < memory->count; n++) {
    bool later = r->rule->kind == WEIR_FIXED_WINDOW &&
                 memory->first + n > r->frame->now_us / r->rule->cell_us;
    if (memory->cells[n].count == 0 || later) continue;
    known->charges[known->count].at_us = (memory->first + n) * r->rule->cell_us;
    known->charges[known->count++].amount = weir_known_parts(r->rule, memory->cells[n].count);
  }
}

static int64_t window_next(const weir_rule_state *r) {
  if (r->rule->kind != WEIR_FIXED_WINDOW) return 0;
  return (((const window_state *)r->state)->span.current + 1) * r->rule->cell_us;
}

static void window_lay_by(void *memory, const void *next, int64_t now_us) {
  weir_window_memory *kept = memory;
  const weir_window_memory *from = next;
  int64_t place = from->first - kept->first;
  if (from->count == 0 || place < 0 || place > kept->count || place > 1) return;
  kept->cells[place] = from->cells[0];
  if (kept->cells[place].read_us > now_us) kept->cells[place].read_us = now_us;
  window_forget_plain(kept);
  if (place == kept->count) kept->count++;
}

static void window_drop_next(void *memory) {
  weir_window_memory *kept = memory;
  if (kept->count > 1) kept->count = 1;
}

static void window_forget(void *memory) {
  weir_window_memory *cached = memory;
  window_forget_plain(cached);
  for (int64_t n = 0; n < cached->count; n++)
    cached->cells[n].read_us = NOT_READ;
}

static void window_doubt(void *memory, int64_t place, int64_t cost) {
  weir_window_memory *cached = memory;
  if (place < cached->first || place >= cached->first + cached->count) return;
  weir_cell *cell = &cached->cells[place - cached->first];
  window_forget_plain(cached);
  cell->count = cell->count > cost ? cell->count - cost : 0;
  cell->read_us = NOT_READ;
}

static const weir_plain_table window_plain = {.plan = window_plan_plain, .end = window_end_plain};

static const weir_windows_table window_windows = {
    .next_bytes = sizeof(weir_cell),
    .next = window_next,
    .lay_by = window_lay_by,
    .drop_next = window_drop_next,
    .sure = window_sure,
};

static const weir_settling_table window_settling = {.blind = weir_always_blind,
                                                    .overrun = window_overrun};

const weir_method weir_window_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .needs = WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB,
    .charges_at_once = true,
    .bounds = true,
    .memory_bytes = sizeof(weir_window_memory),
    .cell_bytes = sizeof(weir_cell),
    .state_bytes = sizeof(window_state),
    .operations_most = 3, /* cells touch two counters more than they fill; one more to take back */
    .ttl_us = window_ttl_us,
    .begin = window_begin,
    .blind = weir_always_blind,
    .plan = window_plan,
    .store = window_store,
    .answer = window_answer,
    .room = window_room,
    .oldest_us = window_oldest_us,
    .count = window_count,
    .figures = window_figures,
    .expect = window_expect,
    .refund = window_refund,
    .recall = window_recall,
    .known = window_known,
    .forget = window_forget,
    .doubt = window_doubt,
    .plain = &window_plain,
    .windows = &window_windows,
    .settling = &window_settling,
};

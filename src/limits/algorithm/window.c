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
 */
#include "algorithm/cells.h"
#include "algorithm/method.h"
#include "algorithm/plan.h"

typedef struct window_state {
  weir_cell_span span;   /* its cells are the memory's */
  int64_t first_counter; /* that of the far edge; nothing was charged before the epoch */
} window_state;

enum { NOT_READ = -1 };

/* A counter lives for its own span, so that every cell in it can still be charged; then for W and x,
 * as long as it may be asked for. */
static int64_t window_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return rule->lanes * rule->cell_us + rule->period_us + settings->final_us + WEIR_TTL_SLACK_US;
}

/* Slides the memory so that cells[0] is the cell at the far edge. The order of the loop keeps it in
 * place. Before the epoch there is nothing. */
static void window_begin(weir_rule_state *r) {
  int64_t now_us = r->frame->now_us;
  weir_window_memory *memory = r->memory;
  window_state *state = r->state;
  weir_cell_span *span = &state->span;
  weir_cells_span(r->rule, now_us, r->frame->settings->ahead_us, span);
  memory->plain_from_us = memory->plain_until_us = 0;
  span->cells = memory->cells;
  state->first_counter = span->first > 0 ? span->first / r->rule->lanes : 0;
  int64_t shift = span->first - memory->first;
  int64_t count = span->last - span->first + 1;
  if (shift != 0 || memory->count != count) {
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

/* --- rounds ------------------------------------------------------------------------------------
 */

/* Which cells from before may be used: for a denial none but those that this phase has read; to tell
 * figures those that were read lately; to charge those that are firm, too. */
typedef enum window_use { TO_DENY, TO_TELL, TO_CHARGE } window_use;

/* Whether every cell of the counter within the span is finished, was read after it was, and may be used
 * so. A charge stamped inside a cell reaches the store before its end + x on this process's clock, by
 * whichever deadline it was made (docs/guarantees.md, "Cells known from before"). */
static bool window_knows(const weir_rule_state *r, int64_t index, window_use use) {
  const weir_rule *rule = r->rule;
  const weir_settings *settings = r->frame->settings;
  int64_t age_us = use == TO_DENY ? 0 : settings->memo_age_us;
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  int64_t now_us = r->frame->now_us;
  int64_t cell = index * rule->lanes, last = cell + rule->lanes - 1;
  if (!settings->cached_cells) return false;
  if (cell < span->first) cell = span->first;
  if (last > span->last) last = span->last;
  for (; cell <= last; cell++) {
    int64_t read_us = span->cells[cell - span->first].read_us;
    int64_t final_us = (cell + 1) * rule->cell_us + settings->final_us;
    if (read_us < final_us || read_us > now_us) return false;
    if (use == TO_CHARGE && read_us - final_us >= settings->memo_age_us) continue;
    if (now_us - read_us > age_us) return false;
  }
  return true;
}

/* Counters from the far edge to the cell ahead that are not known well enough, but for `except`. */
static void window_plan_reads(weir_rule_state *r, int64_t except, window_use use) {
  const window_state *state = r->state;
  int64_t last = state->span.last / r->rule->lanes;
  for (int64_t index = state->first_counter; index <= last; index++)
    if (index != except && !window_knows(r, index, use))
      weir_plan(r, WEIR_GET, WEIR_PLACE_COUNT, index);
}

/* The look along with a take-back is before a denial. The addition has said what its counter holds: only
 * where others may be about to give back as well, that is read again. */
static void window_look(weir_rule_state *r) {
  bool denies = r->frame->phase == WEIR_PHASE_TAKE_BACK;
  int64_t except = denies && r->frame->looks_at_old ? r->place / r->rule->lanes : -1;
  if (r->step++ == 0) window_plan_reads(r, except, denies ? TO_DENY : TO_TELL);
}

/* Where a cell stands in its counter, as the factor of one. */
static int64_t window_unit(const weir_rule *rule, int64_t cell) {
  return INT64_C(1) << (rule->lane_bits * (int)(cell % rule->lanes));
}

static void window_charge(weir_rule_state *r) {
  if (r->step++ > 0) return;
  r->place = ((const window_state *)r->state)->span.current;
  int64_t index = r->place / r->rule->lanes;
  weir_plan(r, WEIR_ADD, WEIR_PLACE_COUNT, index)->delta =
      r->charge * window_unit(r->rule, r->place);
  window_plan_reads(r, index, r->frame->believes_firm ? TO_CHARGE : TO_TELL);
}

/* A settlement that gives back without a look reads along what its figures need. */
static void window_take_back(weir_rule_state *r) {
  if (r->step++ > 0) return;
  int64_t index = r->place / r->rule->lanes;
  weir_plan(r, WEIR_SUB, WEIR_PLACE_COUNT, index)->delta =
      r->unused * window_unit(r->rule, r->place);
  if (r->frame->blind && r->frame->requests->kind == WEIR_SETTLE && !r->charged)
    window_plan_reads(r, index, TO_TELL);
}

static void window_reset(weir_rule_state *r) {
  const weir_rule *rule = r->rule;
  const window_state *state = r->state;
  if (r->step++ > 0) return;
  int64_t last = (state->span.current + (rule->kind == WEIR_SLIDING_WINDOW)) / rule->lanes;
  for (int64_t index = state->first_counter; index <= last; index++)
    weir_plan(r, WEIR_DROP, WEIR_PLACE_COUNT, index);
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

/* What a counter holds, at `now` or later. An addition's total, without its own cost, is what was
 * there. What was taken off has changed a counter since it was read: it has to be read again, unless
 * that was all that this group did, or the last of it, as in a settlement. */
static void window_take_in(weir_rule_state *r, const weir_operation *operation) {
  weir_window_memory *memory = r->memory;
  int64_t counts[WEIR_LANES_MOST];
  int64_t value = operation->outcome == WEIR_DONE ? operation->value : 0;
  if (operation->kind == WEIR_ADD) value = (int64_t)((uint64_t)value - (uint64_t)operation->delta);
  weir_cells_decode(r->rule, value, counts);
  int64_t place = operation->counter.index * r->rule->lanes - memory->first;
  for (int lane = 0; lane < r->rule->lanes; lane++, place++) {
    if (place < 0 || place >= memory->count) continue;
    weir_cell *cell = &memory->cells[place];
    if (operation->kind == WEIR_SUB && r->frame->requests->kind != WEIR_SETTLE) {
      cell->read_us = NOT_READ;
    } else {
      *cell = (weir_cell){counts[lane], r->frame->now_us};
      weir_expect_compare(r, memory->first + place, counts[lane]);
    }
  }
}

static void window_answer(weir_rule_state *r, const weir_operation *operation) {
  if (operation->kind == WEIR_ADD) r->charged = true;
  if (operation->kind != WEIR_DROP) window_take_in(r, operation);
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
  if (!r->frame->believes_firm && now_us >= memory->plain_lately_until_us) return false;
  r->place = memory->first + memory->count - 1;
  weir_plan(r, WEIR_ADD, WEIR_PLACE_COUNT, r->place / r->rule->lanes)->delta =
      r->charge * window_unit(r->rule, r->place);
  return true;
}

/* The cell that was charged is the newest that counts. */
static bool window_end_plain(weir_rule_state *r, const weir_operation *operation) {
  const weir_rule *rule = r->rule;
  weir_window_memory *memory = r->memory;
  weir_cell *charged = &memory->cells[memory->count - 1];
  int64_t now_us = r->frame->now_us;
  int64_t left_us = 0, inside = memory->plain_inside;
  int64_t end_us = (r->place + 1) * rule->cell_us;
  window_take_in(r, operation);
  if (rule->kind == WEIR_SLIDING_WINDOW) {
    left_us = (memory->first + 1) * rule->cell_us - 1 - (now_us - rule->period_us);
    end_us += rule->period_us - 1;
    int64_t n = memory->count - 1 - r->place % rule->lanes; /* the counter's first cell */
    for (n = n < 1 ? 1 : n; n < memory->count; n++)
      inside += memory->cells[n].count;
  }
  r->room = weir_cells_fit(rule, memory->cells[0].count, left_us, inside);
  if (r->room < r->charge) return false;
  charged->count += r->charge;
  r->reset_after_us = end_us - now_us;
  return true;
}

/* --- what the counts mean ----------------------------------------------------------------------
 */

static bool window_keeps_denied(const weir_rule_state *r) {
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  return span->cells[span->current - span->first].count < WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
}

static int64_t window_room(const weir_rule_state *r, const weir_request_state *request) {
  (void)request;
  return weir_cells_remaining(r->rule, &((const window_state *)r->state)->span);
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

static void window_count(weir_rule_state *r, int64_t cost) {
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  weir_window_memory *memory = r->memory;
  memory->cells[span->current - span->first].count += cost;
}

static void window_figures(const weir_rule_state *r, const weir_request_state *request,
                           int64_t cost, bool denied, weir_decision *decision) {
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  int64_t now_us = r->frame->now_us;
  decision->remaining = window_room(r, request);
  if (denied) decision->retry_after_us = weir_cells_retry_after(r->rule, span, now_us, cost);
  decision->reset_after_us = weir_cells_reset_after(r->rule, span, now_us);
}

static void window_expect(weir_rule_state *r, int64_t cost) {
  const weir_window_memory *memory = r->memory;
  weir_expect_count(r, r->place, r->rule->cells, memory->cells[r->place - memory->first].count,
                    cost);
}

static bool window_refund(weir_rule_state *r, const weir_request_state *request, int64_t cost) {
  const weir_cell_span *span = &((const window_state *)r->state)->span;
  int64_t cell = request->at_us / r->rule->cell_us;
  r->unused = 0;
  if (cell < span->first || (cell == span->first && span->left_us == 0 && cell != span->current))
    return true;
  if (cell > span->last || span->cells[cell - span->first].count < cost) return false;
  r->place = cell;
  r->unused = cost;
  return true;
}

static int64_t window_overrun(const weir_rule_state *r, int64_t cost) {
  int64_t room = weir_cells_overrun(r->rule, &((const window_state *)r->state)->span);
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
    if (memory->cells[n].count == 0) continue;
    known->charges[known->count].at_us = (memory->first + n) * r->rule->cell_us;
    known->charges[known->count++].amount = weir_known_parts(memory->cells[n].count);
  }
}

static void window_forget(void *memory) {
  weir_window_memory *cached = memory;
  cached->plain_from_us = cached->plain_until_us = 0;
  for (int64_t n = 0; n < cached->count; n++)
    cached->cells[n].read_us = NOT_READ;
}

static void window_doubt(void *memory, int64_t place, int64_t cost) {
  weir_window_memory *cached = memory;
  if (place < cached->first || place >= cached->first + cached->count) return;
  weir_cell *cell = &cached->cells[place - cached->first];
  cached->plain_from_us = cached->plain_until_us = 0;
  cell->count = cell->count > cost ? cell->count - cost : 0;
  cell->read_us = NOT_READ;
}

const weir_method weir_window_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .needs = WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB,
    .charges_at_once = true,
    .memory_bytes = sizeof(weir_window_memory),
    .cell_bytes = sizeof(weir_cell),
    .state_bytes = sizeof(window_state),
    .operations_most = 3, /* cells touch two counters more than they fill; one more to take back */
    .ttl_us = window_ttl_us,
    .begin = window_begin,
    .plan_plain = window_plan_plain,
    .end_plain = window_end_plain,
    .look = window_look,
    .charge = window_charge,
    .take_back = window_take_back,
    .reset = window_reset,
    .store = window_store,
    .answer = window_answer,
    .keeps_denied = window_keeps_denied,
    .room = window_room,
    .oldest_us = window_oldest_us,
    .count = window_count,
    .figures = window_figures,
    .expect = window_expect,
    .refund = window_refund,
    .overrun = window_overrun,
    .sure = window_sure,
    .recall = window_recall,
    .known = window_known,
    .forget = window_forget,
    .doubt = window_doubt,
};

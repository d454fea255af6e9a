/* Sliding log: exact, from the times of the requests themselves. Every cost is 1, and every request
 * comes alone: a stack with a log has no groups.
 *
 * Time is cut into epochs of width W. An epoch g has a counter, and entry i of it holds the time of
 * the request that the counter counted as its i-th:
 *
 *     count:g    how many requests have an index in epoch g
 *     g.i        when request i of epoch g was charged
 *
 * A request, s being its stamp and g = s/W:
 *
 *     add 1 to count:g, which gives its index i; in the same write, after that, read count:(g-1) =
 * n and, within e of the epoch's end, count:(g+1) = m store entry g.i = t, the clock read after the
 * addition; in the same write, after that, read entry j, j being the (n + i + m - L)-th of the
 * entries of g-1, g and g+1 in that order admitted iff there is no such entry, or s - entry j >= W
 *
 * Why never more than L in W - 2d: of L + 1 admitted stamps that lie closer, all in g-1 and g, take
 * the request that was added last. It sees the indices of all others: in its own epoch by its
 * index, in the one before because it read that count later, in the one after because it is within
 * e of it. So its entry j stands at or behind the first of them, and was stored after that one was
 * stamped: its time is at least that stamp - 2d, and the last one is W after it. Deciding with the
 * time read before the addition, and storing the time read after it, makes either side safe.
 *
 * An index is used up for good: what a denied request would leave behind would deny others. So
 * every request looks first, and is charged only if it fits; only one that is overtaken in between
 * is denied by its own charge, and stays counted.
 *
 * An entry that is absent is not written yet, never expired: entries live until nobody reads them.
 * It denies, after it was asked for once more. Where its writer crashed it will always be absent;
 * a hole therefore does not deny in a look, but the request goes on to use up an index, and is
 * denied then: the next request is measured against the next entry. So a hole costs one denial.
 * An entry later than any honest clock could have stored (later than now + e) is a hole too: each
 * is replaced by the entry of the request that it denies, and none denies for longer than W. */
#include "algorithm/cells.h"
#include "algorithm/held.h"
#include "algorithm/method.h"

/* What a process keeps of one key. */
typedef struct log_memory {
  bool known;
  int64_t decides_us; /* the entry that the next request is measured against */
  int64_t newest_us;
} log_memory;

typedef struct log_state {
  int64_t epoch;              /* g */
  int64_t before, own, after; /* counts of epochs g-1, g and g+1, before the charge */
  int64_t index;              /* of the charge's own entry in g; 0: none */
  int64_t stored_us;          /* what the charge's own entry holds; below 0: not confirmed */
  int64_t decides_us; /* the entry that decides, or why there is none; the one after it, ... */
  int64_t follows_us; /* ... which decides once the charge has used up an index */
  int64_t newest_us;
  int64_t low, high; /* of the search: so many single requests fit, so many do not */
} log_state;

/* Why there is no time in decides_us, follows_us or newest_us. */
enum { NO_ENTRY = -1, NOT_WRITTEN = -2 };

/* Entries that a search reads in one round. */
enum { PROBES = 16 };

/* An epoch is read for W after its end, and e. */
static int64_t log_ttl_us(const weir_rule *rule, const weir_terms *terms) {
  return 3 * rule->period_us + terms->margin_us + WEIR_TTL_SLACK_US;
}

static unsigned log_needs(unsigned traits) {
  (void)traits;
  return WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_PUT;
}

static size_t log_memory_bytes(const weir_rule *rule) {
  (void)rule;
  return sizeof(log_memory);
}

static size_t log_actions_most(const weir_rule *rule) {
  (void)rule;
  return PROBES + 2;
}

static void log_frame(weir_machine *machine, size_t i) {
  log_memory *memory = machine->parts[i].memory;
  log_state *state = machine->parts[i].state;
  state->epoch = machine->now_us / machine->stack->rules[i].period_us;
  state->decides_us = state->follows_us = state->newest_us = NO_ENTRY;
  state->stored_us = NO_ENTRY;
  memory->known = false;
}

static bool log_blind(const weir_machine *machine, size_t i) {
  (void)machine;
  (void)i;
  return false;
}

/* --- entries -----------------------------------------------------------------------------------
 *
 * Positions run through the entries of g-1, g and g+1, from 1 on; the place of the next entry of g
 * is among them, whether it is written already or not.
 */

static int64_t log_own_position(const weir_part *part) {
  const log_state *state = part->state;
  return state->before + state->own + 1;
}

/* Of the entry that the next request, or the one being charged, is measured against; below 1: none.
 * Where L and more are ahead of this clock in g+1, it would be its own or one of theirs, which are
 * all later than it: then the one that will still deny it when this clock is there, too. */
static int64_t log_deciding_position(const weir_rule *rule, const weir_part *part) {
  const log_state *state = part->state;
  int64_t position = log_own_position(part) + state->after - rule->limit;
  return position < log_own_position(part) ? position : position + 1;
}

/* Of the newest that was there before; 0: none. */
static int64_t log_newest_position(const weir_part *part) {
  const log_state *state = part->state;
  int64_t own = log_own_position(part);
  return state->after > 0 ? own + state->after : own - 1;
}

static void log_plan_entry(weir_machine *machine, size_t i, int64_t position) {
  log_state *state = machine->parts[i].state;
  int64_t epoch = state->epoch - 1;
  int64_t entry = position;
  if (entry > state->before) {
    epoch++;
    entry -= state->before;
    if (entry > state->own + 1) {
      epoch++;
      entry -= state->own + 1;
    }
  }
  weir_plan(machine, i, WEIR_GET, WEIR_PLACE_ENTRY, epoch)->entry = entry;
}

static int64_t log_position_of(const weir_part *part, const weir_action *action) {
  const log_state *state = part->state;
  if (action->index < state->epoch) return action->entry;
  if (action->index == state->epoch) return state->before + action->entry;
  return log_own_position(part) + action->entry;
}

/* A time, or NOT_WRITTEN. What is earlier than its epoch is nothing that we wrote; so it counts for
 * as long as an entry of that epoch can. */
static int64_t log_decode(const weir_machine *machine, size_t i, const weir_action *action) {
  int64_t begin = action->index * machine->stack->rules[i].period_us;
  int64_t latest = machine->now_us + machine->terms->margin_us;
  if (action->outcome != WEIR_DONE || action->value > latest) return NOT_WRITTEN;
  return action->value > begin ? action->value : begin;
}

static void log_keep(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  log_memory *memory = machine->parts[i].memory;
  memory->known = true;
  memory->decides_us = state->decides_us;
  memory->newest_us = state->newest_us;
}

static bool log_is_over(const weir_rule *rule, const weir_part *part, int64_t entry_us) {
  return entry_us >= 0 && part->now_us - entry_us >= rule->period_us;
}

/* --- looking -----------------------------------------------------------------------------------
 */

/* Within e of the epoch's end a clock ahead of this one may have charged the next. */
static void log_plan_neighbours(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  int64_t epoch = state->epoch;
  int64_t ahead = machine->now_us + machine->terms->margin_us;
  if (epoch > 0) weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, epoch - 1);
  if (ahead / machine->stack->rules[i].period_us > epoch)
    weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, epoch + 1);
}

static bool log_some_peek(const weir_machine *machine) {
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (ask->kind == WEIR_ASK_PEEK) return true;
  return false;
}

/* How many single requests fit now: the k-th is measured against the entry k - 1 behind the one
 * that decides, and needs it to be W old. Entries are in the order of time (save for a moment's
 * difference between clocks), so the number is found by search. */
static void log_begin_search(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  int64_t first = log_deciding_position(rule, part);
  state->low = first < 1 ? 1 - first : 0;
  state->high = rule->limit + 1;
}

static void log_plan_search(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  const weir_part *part = &machine->parts[i];
  int64_t first = log_deciding_position(&machine->stack->rules[i], part);
  int64_t between = state->high - state->low - 1;
  int64_t probes = between < PROBES ? between : PROBES;
  for (int64_t n = 1; n <= probes; n++) {
    int64_t fits = state->low + n * (between + 1) / (probes + 1);
    log_plan_entry(machine, i, first + fits - 1);
  }
}

static void log_take_in_probe(const weir_rule *rule, weir_part *part, int64_t position, bool over) {
  log_state *state = part->state;
  int64_t fits = position - log_deciding_position(rule, part) + 1;
  if (over && fits > state->low && fits < state->high) state->low = fits;
  if (over || fits < 1 || fits >= state->high) return;
  state->high = fits;
  if (state->low >= fits) state->low = fits - 1;
}

static void log_plan_figures(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  int64_t position = log_deciding_position(&machine->stack->rules[i], part);
  int64_t newest = log_newest_position(part);
  if (position >= 1) log_plan_entry(machine, i, position);
  bool told = position >= 1 || machine->stack->count > 1 || log_some_peek(machine);
  if (told && newest >= 1 && newest != position) log_plan_entry(machine, i, newest);
  log_keep(machine, i); /* where no entry was asked for, that is all there is to know */
}

static void log_look(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  int step = part->step++;
  if (machine->asks->kind == WEIR_ASK_REFUND) return; /* nothing goes back */
  if (step == 0) {
    weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, state->epoch);
    log_plan_neighbours(machine, i);
  } else if (step == 1) {
    if (log_some_peek(machine)) log_begin_search(machine, i);
    log_plan_figures(machine, i);
  }
  if (step > 0) log_plan_search(machine, i);
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* The clock as it is after the addition; whatever it did, and however long this process stood
 * still, neither before the stamp nor later than the deadline, by which the addition was over. */
static int64_t log_entry_time(const weir_machine *machine) {
  const weir_terms *terms = machine->terms;
  int64_t latest_us = machine->now_us + terms->margin_us - 2 * terms->clock_error_us;
  if (machine->clock_us > latest_us) return latest_us;
  return machine->clock_us > machine->now_us ? machine->clock_us : machine->now_us;
}

static void log_plan_own_entry(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  weir_action *action = weir_plan(machine, i, WEIR_PUT, WEIR_PLACE_ENTRY, state->epoch);
  action->entry = state->index;
  action->value = state->newest_us = log_entry_time(machine);
}

static void log_charge(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  int64_t position = log_deciding_position(&machine->stack->rules[i], part);
  switch (part->step++) {
    case 0:
      weir_plan(machine, i, WEIR_ADD, WEIR_PLACE_COUNT, state->epoch)->delta = part->charge;
      log_plan_neighbours(machine, i);
      break;
    case 1:
      log_plan_own_entry(machine, i);
      if (position >= 1) log_plan_entry(machine, i, position);
      break;
    case 2: /* once more; and the one that decides next, now that an index was used up */
      if (state->decides_us != NOT_WRITTEN) break;
      log_plan_entry(machine, i, position);
      log_plan_entry(machine, i, position + 1);
      break;
    default:
      break;
  }
}

/* An index cannot be given back. Where the charge was cut short, its entry is written at last: the
 * request stays counted, but leaves no hole. */
static void log_take_back(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  if (part->step++ == 0 && part->charged && state->stored_us < 0) log_plan_own_entry(machine, i);
}

/* Without counts no entry is ever read. The entries themselves, up to L in each epoch, stay until
 * their TTL: dropping them one by one would take as many operations. New ones take their places,
 * each written before it is read for the first time, but for the moment between an addition and
 * its entry: who is measured against that one sees an older time instead of none, and may be
 * admitted too early, one for each request that is just then on its way, or was cut short there. */
static void log_reset(weir_machine *machine, size_t i) {
  log_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  if (part->step++ > 0) return;
  for (int64_t epoch = state->epoch - 1; epoch <= state->epoch + 1; epoch++)
    if (epoch >= 0) weir_plan(machine, i, WEIR_DROP, WEIR_PLACE_COUNT, epoch);
}

/* --- answers -----------------------------------------------------------------------------------
 */

static int64_t log_count_of(int64_t value) {
  return value < 0 ? 0 : value < WEIR_COUNT_MOST ? value : WEIR_COUNT_MOST;
}

/* An index cannot be given back: whatever becomes of the charge, the count is at least that from
 * now on. */
static void log_hold_index(weir_machine *machine, size_t i, int64_t epoch) {
  log_state *state = machine->parts[i].state;
  const weir_held *held = &machine->notes->held[i];
  int64_t index = state->index;
  weir_held_compare(machine, i, epoch, index - 1);
  if (machine->terms->notices_loss)
    weir_held_add(machine, i, epoch, held->index == epoch ? index - held->amount : index);
}

static void log_answer_count(weir_machine *machine, size_t i, const weir_action *action) {
  log_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  int64_t value = action->outcome == WEIR_DONE ? action->value : 0;
  if (action->kind == WEIR_ADD) {
    part->charged = true;
    state->own = log_count_of((int64_t)((uint64_t)value - (uint64_t)action->delta));
    state->index = state->own + 1;
    log_hold_index(machine, i, action->index);
  } else if (action->kind == WEIR_GET) {
    int64_t count = log_count_of(value);
    weir_held_compare(machine, i, action->index, count);
    if (action->index < state->epoch)
      state->before = count;
    else if (action->index > state->epoch)
      state->after = count;
    else
      state->own = count;
  }
}

static void log_answer_entry(weir_machine *machine, size_t i, const weir_action *action) {
  log_state *state = machine->parts[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  int64_t position = log_position_of(part, action);
  int64_t first = log_deciding_position(rule, part);
  int64_t entry_us = log_decode(machine, i, action);
  if (position == first) state->decides_us = entry_us;
  if (position == first + 1) state->follows_us = entry_us;
  if (position == log_newest_position(part) && !part->charged) state->newest_us = entry_us;
  if (state->high > 0) log_take_in_probe(rule, part, position, log_is_over(rule, part, entry_us));
  log_keep(machine, i);
}

static void log_answer(weir_machine *machine, size_t i, const weir_action *action) {
  log_state *state = machine->parts[i].state;
  if (action->place == WEIR_PLACE_COUNT)
    log_answer_count(machine, i, action);
  else if (action->kind == WEIR_GET)
    log_answer_entry(machine, i, action);
  else if (action->kind == WEIR_PUT)
    state->stored_us = state->newest_us;
}

/* --- judging -----------------------------------------------------------------------------------
 */

static int64_t log_room(const weir_rule *rule, const weir_part *part, const weir_ask *ask) {
  const log_state *state = part->state;
  if (state->decides_us == NO_ENTRY) return 1;
  if (state->decides_us == NOT_WRITTEN) return !part->charged && ask->kind != WEIR_ASK_PEEK;
  return log_is_over(rule, part, state->decides_us);
}

static void log_note(weir_machine *machine, size_t i, int64_t cost) {
  log_memory *memory = machine->parts[i].memory;
  (void)cost;
  memory->known = false; /* the next one is measured against another */
}

/* Behind a hole, the next request is measured against the next entry, now if that is not known. */
static int64_t log_retry_after(const weir_rule *rule, const weir_part *part) {
  const log_state *state = part->state;
  bool hole = state->decides_us == NOT_WRITTEN;
  int64_t entry_us = hole ? state->follows_us : state->decides_us;
  int64_t wait_us = entry_us >= 0 ? entry_us + rule->period_us - part->now_us : 0;
  return wait_us > 0 ? wait_us : 1;
}

static void log_figures(const weir_rule *rule, const weir_part *part, const weir_ask *ask,
                        int64_t cost, bool denied, weir_decision *decision) {
  const log_state *state = part->state;
  (void)ask;
  (void)cost;
  int64_t newest_us = state->newest_us == NOT_WRITTEN ? part->now_us : state->newest_us;
  decision->remaining = state->high > 0 ? state->low : WEIR_NOT_KNOWN;
  if (denied) decision->retry_after_us = log_retry_after(rule, part);
  if (newest_us != NO_ENTRY && part->now_us - newest_us < rule->period_us)
    decision->reset_after_us = newest_us + rule->period_us - part->now_us;
}

static bool log_refund(weir_machine *machine, size_t i, const weir_ask *ask, int64_t cost) {
  (void)ask;
  (void)cost;
  machine->parts[i].unused = 0;
  return true;
}

/* A denial is known until the entry that decided it is W old: then there is room. */
static bool log_recall(const weir_rule *rule, const weir_terms *terms, const void *memory,
                       int64_t now_us, const weir_ask *ask, int64_t cost, int64_t *room,
                       weir_decision *figures) {
  const log_memory *kept = memory;
  log_state state = {.decides_us = kept->decides_us, .newest_us = kept->newest_us};
  weir_part part = {.now_us = now_us, .state = &state};
  (void)terms;
  if (!kept->known) return false;
  *room = log_room(rule, &part, ask);
  log_figures(rule, &part, ask, cost, *room < cost, figures);
  return true;
}

const weir_method weir_log_method = {
    .stage = WEIR_STAGE_LOG,
    .one_by_one = true,
    .needs = log_needs,
    .ttl_us = log_ttl_us,
    .memory_bytes = log_memory_bytes,
    .state_bytes = sizeof(log_state),
    .actions_most = log_actions_most,
    .frame = log_frame,
    .blind = log_blind,
    .look = log_look,
    .charge = log_charge,
    .take_back = log_take_back,
    .reset = log_reset,
    .answer = log_answer,
    .room = log_room,
    .note = log_note,
    .figures = log_figures,
    .refund = log_refund,
    .recall = log_recall,
};

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

/* Why there is no time in decides_us, follows_us or newest_us. */
enum { NO_ENTRY = -1, NOT_WRITTEN = -2 };

/* Entries that a search reads in one round. */
enum { PROBES = 16 };

/* An epoch is read for W after its end, and e; 2 s for whole seconds. */
static weir_action *plan(weir_machine *machine, size_t i, weir_operation_kind kind,
                         weir_place place, int64_t index) {
  int64_t period = machine->stack->rules[i].period_us;
  int64_t ttl = 3 * period + machine->terms->margin_us + 2000000;
  return weir_plan(machine, i, kind, place, index, ttl);
}

static size_t actions_most(const weir_rule *rule) {
  (void)rule;
  return PROBES + 2;
}

static void frame(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  part->log.epoch = machine->now_us / machine->stack->rules[i].period_us;
  part->log.decides_us = part->log.follows_us = part->log.newest_us = NO_ENTRY;
  part->log.stored_us = NO_ENTRY;
  machine->notes->rules[i].kept.log.known = false;
}

static bool blind(const weir_machine *machine, size_t i) {
  (void)machine;
  (void)i;
  return false;
}

/* --- entries -----------------------------------------------------------------------------------
 *
 * Positions run through the entries of g-1, g and g+1, from 1 on; the place of the next entry of g
 * is among them, whether it is written already or not.
 */

static int64_t own_position(const weir_part *part) {
  return part->log.before + part->log.own + 1;
}

/* Of the entry that the next request, or the one being charged, is measured against; below 1: none.
 * Where L and more are ahead of this clock in g+1, it would be its own or one of theirs, which are
 * all later than it: then the one that will still deny it when this clock is there, too. */
static int64_t deciding_position(const weir_rule *rule, const weir_part *part) {
  int64_t position = own_position(part) + part->log.after - rule->limit;
  return position < own_position(part) ? position : position + 1;
}

/* Of the newest that was there before; 0: none. */
static int64_t newest_position(const weir_part *part) {
  int64_t own = own_position(part);
  return part->log.after > 0 ? own + part->log.after : own - 1;
}

static void plan_entry(weir_machine *machine, size_t i, int64_t position) {
  const weir_part *part = &machine->parts[i];
  int64_t epoch = part->log.epoch - 1;
  int64_t entry = position;
  if (entry > part->log.before) {
    epoch++;
    entry -= part->log.before;
    if (entry > part->log.own + 1) {
      epoch++;
      entry -= part->log.own + 1;
    }
  }
  plan(machine, i, WEIR_GET, WEIR_PLACE_ENTRY, epoch)->entry = entry;
}

static int64_t position_of(const weir_part *part, const weir_action *action) {
  if (action->index < part->log.epoch) return action->entry;
  if (action->index == part->log.epoch) return part->log.before + action->entry;
  return own_position(part) + action->entry;
}

/* A time, or NOT_WRITTEN. What is earlier than its epoch is nothing that we wrote; so it counts for
 * as long as an entry of that epoch can. */
static int64_t decode(const weir_machine *machine, size_t i, const weir_action *action) {
  int64_t begin = action->index * machine->stack->rules[i].period_us;
  int64_t latest = machine->now_us + machine->terms->margin_us;
  if (action->outcome != WEIR_DONE || action->value > latest) return NOT_WRITTEN;
  return action->value > begin ? action->value : begin;
}

static void keep(weir_machine *machine, size_t i) {
  const weir_part *part = &machine->parts[i];
  weir_kept *kept = &machine->notes->rules[i].kept;
  kept->log.known = true;
  kept->log.decides_us = part->log.decides_us;
  kept->log.newest_us = part->log.newest_us;
}

static bool is_over(const weir_rule *rule, const weir_part *part, int64_t entry_us) {
  return entry_us >= 0 && part->now_us - entry_us >= rule->period_us;
}

/* --- looking -----------------------------------------------------------------------------------
 */

/* Within e of the epoch's end a clock ahead of this one may have charged the next. */
static void plan_neighbours(weir_machine *machine, size_t i) {
  int64_t epoch = machine->parts[i].log.epoch;
  int64_t ahead = machine->now_us + machine->terms->margin_us;
  if (epoch > 0) plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, epoch - 1);
  if (ahead / machine->stack->rules[i].period_us > epoch)
    plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, epoch + 1);
}

static bool some_peek(const weir_machine *machine) {
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (ask->kind == WEIR_ASK_PEEK) return true;
  return false;
}

/* How many single requests fit now: the k-th is measured against the entry k - 1 behind the one
 * that decides, and needs it to be W old. Entries are in the order of time (save for a moment's
 * difference between clocks), so the number is found by search. */
static void begin_search(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  int64_t first = deciding_position(rule, part);
  part->log.low = first < 1 ? 1 - first : 0;
  part->log.high = rule->limit + 1;
}

static void plan_search(weir_machine *machine, size_t i) {
  const weir_part *part = &machine->parts[i];
  int64_t first = deciding_position(&machine->stack->rules[i], part);
  int64_t between = part->log.high - part->log.low - 1;
  int64_t probes = between < PROBES ? between : PROBES;
  for (int64_t n = 1; n <= probes; n++) {
    int64_t fits = part->log.low + n * (between + 1) / (probes + 1);
    plan_entry(machine, i, first + fits - 1);
  }
}

static void take_in_probe(const weir_rule *rule, weir_part *part, int64_t position, bool over) {
  int64_t fits = position - deciding_position(rule, part) + 1;
  if (over && fits > part->log.low && fits < part->log.high) part->log.low = fits;
  if (over || fits < 1 || fits >= part->log.high) return;
  part->log.high = fits;
  if (part->log.low >= fits) part->log.low = fits - 1;
}

static void plan_figures(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  int64_t position = deciding_position(&machine->stack->rules[i], part);
  int64_t newest = newest_position(part);
  if (position >= 1) plan_entry(machine, i, position);
  bool told = position >= 1 || machine->stack->count > 1 || some_peek(machine);
  if (told && newest >= 1 && newest != position) plan_entry(machine, i, newest);
  keep(machine, i); /* where no entry was asked for, that is all there is to know */
}

static void look(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  int step = part->step++;
  if (machine->asks->kind == WEIR_ASK_REFUND) return; /* nothing goes back */
  if (step == 0) {
    plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, part->log.epoch);
    plan_neighbours(machine, i);
  } else if (step == 1) {
    if (some_peek(machine)) begin_search(machine, i);
    plan_figures(machine, i);
  }
  if (step > 0) plan_search(machine, i);
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* The clock as it is after the addition; whatever it did, and however long this process stood
 * still, neither before the stamp nor later than the deadline, by which the addition was over. */
static int64_t entry_time(const weir_machine *machine) {
  const weir_terms *terms = machine->terms;
  int64_t latest_us = machine->now_us + terms->margin_us - 2 * terms->clock_error_us;
  if (machine->clock_us > latest_us) return latest_us;
  return machine->clock_us > machine->now_us ? machine->clock_us : machine->now_us;
}

static void plan_own_entry(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  weir_action *action = plan(machine, i, WEIR_PUT, WEIR_PLACE_ENTRY, part->log.epoch);
  action->entry = part->log.index;
  action->value = part->log.newest_us = entry_time(machine);
}

static void charge(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  int64_t position = deciding_position(&machine->stack->rules[i], part);
  switch (part->step++) {
    case 0:
      plan(machine, i, WEIR_ADD, WEIR_PLACE_COUNT, part->log.epoch)->delta = part->charge;
      plan_neighbours(machine, i);
      break;
    case 1:
      plan_own_entry(machine, i);
      if (position >= 1) plan_entry(machine, i, position);
      break;
    case 2: /* once more; and the one that decides next, now that an index was used up */
      if (part->log.decides_us != NOT_WRITTEN) break;
      plan_entry(machine, i, position);
      plan_entry(machine, i, position + 1);
      break;
    default:
      break;
  }
}

/* An index cannot be given back. Where the charge was cut short, its entry is written at last: the
 * request stays counted, but leaves no hole. */
static void take_back(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  if (part->step++ == 0 && part->charged && part->log.stored_us < 0) plan_own_entry(machine, i);
}

/* Without counts no entry is ever read. The entries themselves, up to L in each epoch, stay until
 * their TTL: dropping them one by one would take as many operations. New ones take their places,
 * each written before it is read for the first time, but for the moment between an addition and
 * its entry: who is measured against that one sees an older time instead of none, and may be
 * admitted too early, one for each request that is just then on its way, or was cut short there. */
static void reset(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  if (part->step++ > 0) return;
  for (int64_t epoch = part->log.epoch - 1; epoch <= part->log.epoch + 1; epoch++)
    if (epoch >= 0) plan(machine, i, WEIR_DROP, WEIR_PLACE_COUNT, epoch);
}

/* --- answers -----------------------------------------------------------------------------------
 */

static int64_t count_of(int64_t value) {
  return value < 0 ? 0 : value < WEIR_COUNT_MOST ? value : WEIR_COUNT_MOST;
}

/* An index cannot be given back: whatever becomes of the charge, the count is at least that from
 * now on. */
static void hold_index(weir_machine *machine, size_t i, int64_t epoch) {
  const weir_held *held = &machine->notes->rules[i].held;
  int64_t index = machine->parts[i].log.index;
  weir_held_compare(machine, i, epoch, index - 1);
  if (machine->terms->notices_loss)
    weir_held_add(machine, i, epoch, held->index == epoch ? index - held->amount : index);
}

static void answer_count(weir_machine *machine, size_t i, const weir_action *action) {
  weir_part *part = &machine->parts[i];
  int64_t value = action->outcome == WEIR_DONE ? action->value : 0;
  if (action->kind == WEIR_ADD) {
    part->charged = true;
    part->log.own = count_of((int64_t)((uint64_t)value - (uint64_t)action->delta));
    part->log.index = part->log.own + 1;
    hold_index(machine, i, action->index);
  } else if (action->kind == WEIR_GET) {
    int64_t count = count_of(value);
    weir_held_compare(machine, i, action->index, count);
    if (action->index < part->log.epoch)
      part->log.before = count;
    else if (action->index > part->log.epoch)
      part->log.after = count;
    else
      part->log.own = count;
  }
}

static void answer_entry(weir_machine *machine, size_t i, const weir_action *action) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  int64_t position = position_of(part, action);
  int64_t first = deciding_position(rule, part);
  int64_t entry_us = decode(machine, i, action);
  if (position == first) part->log.decides_us = entry_us;
  if (position == first + 1) part->log.follows_us = entry_us;
  if (position == newest_position(part) && !part->charged) part->log.newest_us = entry_us;
  if (part->log.high > 0) take_in_probe(rule, part, position, is_over(rule, part, entry_us));
  keep(machine, i);
}

static void answer(weir_machine *machine, size_t i, const weir_action *action) {
  if (action->place == WEIR_PLACE_COUNT)
    answer_count(machine, i, action);
  else if (action->kind == WEIR_GET)
    answer_entry(machine, i, action);
  else if (action->kind == WEIR_PUT)
    machine->parts[i].log.stored_us = machine->parts[i].log.newest_us;
}

/* --- judging -----------------------------------------------------------------------------------
 */

static int64_t room(const weir_rule *rule, const weir_part *part, const weir_ask *ask) {
  if (part->log.decides_us == NO_ENTRY) return 1;
  if (part->log.decides_us == NOT_WRITTEN) return !part->charged && ask->kind != WEIR_ASK_PEEK;
  return is_over(rule, part, part->log.decides_us);
}

static void note(weir_machine *machine, size_t i, int64_t cost) {
  (void)cost;
  machine->notes->rules[i].kept.log.known = false; /* the next one is measured against another */
}

/* Behind a hole, the next request is measured against the next entry, now if that is not known. */
static int64_t retry_after(const weir_rule *rule, const weir_part *part) {
  bool hole = part->log.decides_us == NOT_WRITTEN;
  int64_t entry_us = hole ? part->log.follows_us : part->log.decides_us;
  int64_t wait_us = entry_us >= 0 ? entry_us + rule->period_us - part->now_us : 0;
  return wait_us > 0 ? wait_us : 1;
}

static void figures(const weir_rule *rule, const weir_part *part, const weir_ask *ask, int64_t cost,
                    bool denied, weir_decision *decision) {
  (void)ask;
  (void)cost;
  int64_t newest_us = part->log.newest_us == NOT_WRITTEN ? part->now_us : part->log.newest_us;
  decision->remaining = part->log.high > 0 ? part->log.low : WEIR_NOT_KNOWN;
  if (denied) decision->retry_after_us = retry_after(rule, part);
  if (newest_us != NO_ENTRY && part->now_us - newest_us < rule->period_us)
    decision->reset_after_us = newest_us + rule->period_us - part->now_us;
}

static bool refund(weir_machine *machine, size_t i, const weir_ask *ask, int64_t cost) {
  (void)ask;
  (void)cost;
  machine->parts[i].unused = 0;
  return true;
}

/* A denial is known until the entry that decided it is W old: then there is room. */
static bool recall(const weir_stack *stack, size_t i, const weir_terms *terms,
                   const weir_memo *memo, int64_t now_us, weir_part *part) {
  (void)stack;
  (void)terms;
  (void)now_us;
  const weir_kept *kept = &memo->rules[i].kept;
  if (!kept->log.known) return false;
  part->log.decides_us = kept->log.decides_us;
  part->log.newest_us = kept->log.newest_us;
  return true;
}

const weir_method weir_log_method = {
    .stage = WEIR_STAGE_LOG,
    .actions_most = actions_most,
    .frame = frame,
    .blind = blind,
    .look = look,
    .charge = charge,
    .take_back = take_back,
    .reset = reset,
    .answer = answer,
    .room = room,
    .note = note,
    .figures = figures,
    .refund = refund,
    .recall = recall,
};

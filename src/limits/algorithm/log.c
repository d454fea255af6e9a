/* Sliding log: exact, from the times of the requests themselves. Every cost is 1, and every request
 * comes alone: a stack with a log has no groups.
 *
 * Several logs of a stack are one log: 30/1m;500/1h reads two entries of it, and writes one. Each
 * rule is held against the entry that its own L counts back to, as if it had the log to itself;
 * what follows is true of each, W being its period, as long as epochs are no shorter than W.
 *
 * Time is cut into epochs as wide as the longest W. An epoch g has a counter, and entry i of it
 * holds the time of the request that the counter counted as its i-th:
 *
 *     count:g    how many requests have an index in epoch g
 *     g.i        when request i of epoch g was charged
 *
 * A request, s being its stamp and g its epoch:
 *
 *     add 1 to count:g, which gives its index i; in the same write, after that,
 *         read count:(g-1) = n and, within e of the epoch's end, count:(g+1) = m
 *     store entry g.i = t, the clock read after the addition; in the same write, after that,
 *         for each rule read entry j, the (n + i + m - L)-th of those of g-1, g and g+1 in that
 * order admitted iff for each rule there is no such entry, or s - entry j >= W
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
 * is replaced by the entry of the request that it denies, and none denies for longer than W. A
 * request that meets one under one rule uses up its index under all. */
#include "algorithm/log.h"

#include "algorithm/cells.h"
#include "algorithm/expected.h"

/* An epoch is read for as long as it lasts after its end, and x. */
static int64_t log_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return 3 * rule->log_us + settings->final_us + WEIR_TTL_SLACK_US;
}

static unsigned log_needs(unsigned traits) {
  (void)traits;
  return WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_PUT;
}

static size_t log_memory_bytes(const weir_rule *rule) {
  (void)rule;
  return sizeof(weir_log_memory);
}

static size_t log_operations_most(const weir_rule *rule) {
  (void)rule;
  return WEIR_LOG_PROBES + 2;
}

static void log_frame(weir_machine *machine, size_t i) {
  weir_log_memory *memory = machine->rule_states[i].memory;
  weir_log_state *state = machine->rule_states[i].state;
  state->epoch = machine->now_us / machine->stack->rules[i].log_us;
  state->decides_us = state->follows_us = state->newest_us = WEIR_LOG_NO_ENTRY;
  state->stored_us = WEIR_LOG_NO_ENTRY;
  memory->known = false;
}

static bool log_blind(const weir_machine *machine, size_t i) {
  (void)machine;
  (void)i;
  return false;
}

/* --- looking -----------------------------------------------------------------------------------
 */

/* Within e of the epoch's end a clock ahead of this one may have charged the next. */
static void log_plan_neighbours(weir_machine *machine, size_t i) {
  weir_log_state *state = machine->rule_states[i].state;
  int64_t epoch = state->epoch;
  int64_t ahead = machine->now_us + machine->settings->ahead_us;
  if (epoch > 0) weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, epoch - 1);
  if (ahead / machine->stack->rules[i].log_us > epoch)
    weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, epoch + 1);
}

static bool log_some_peek(const weir_machine *machine) {
  for (const weir_request_state *request = machine->requests; request != NULL;
       request = request->next)
    if (request->kind == WEIR_PEEK) return true;
  return false;
}

static void log_plan_figures(weir_machine *machine, size_t i) {
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t position = weir_log_deciding_position(&machine->stack->rules[i], rule_state);
  int64_t newest = weir_log_newest_position(rule_state);
  if (position >= 1) weir_log_plan_entry(machine, i, position);
  bool reported = position >= 1 || machine->stack->count > 1 || log_some_peek(machine);
  if (i != weir_log_keeper(machine)) reported = false;
  if (reported && newest >= 1 && newest != position) weir_log_plan_entry(machine, i, newest);
  weir_log_keep(machine, i); /* where no entry was asked for, that is all there is to know */
}

static void log_look(weir_machine *machine, size_t i) {
  weir_log_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  int step = rule_state->step++;
  if (machine->requests->kind == WEIR_REFUND) return; /* nothing goes back */
  if (step == 0 && i == weir_log_keeper(machine)) {
    weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, state->epoch);
    log_plan_neighbours(machine, i);
  } else if (step == 1) {
    if (log_some_peek(machine)) weir_log_begin_search(machine, i);
    log_plan_figures(machine, i);
  }
  if (step > 0) weir_log_plan_search(machine, i);
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* The clock as it is after the addition; whatever it did, and however long this process stood
 * still, neither before the stamp nor later than the deadline, by which the addition was over. */
static int64_t log_entry_time(const weir_machine *machine) {
  const weir_settings *settings = machine->settings;
  int64_t latest_us = machine->now_us + settings->ahead_us - 2 * settings->clock_error_us;
  if (machine->clock_us > latest_us) return latest_us;
  return machine->clock_us > machine->now_us ? machine->clock_us : machine->now_us;
}

/* One entry is most of what the least of the limits allows. */
static weir_operation *log_plan_write(weir_machine *machine, size_t i, weir_operation_kind kind,
                                      weir_place place) {
  const weir_log_state *state = machine->rule_states[i].state;
  weir_operation *operation = weir_plan(machine, i, kind, place, state->epoch);
  int64_t least = machine->stack->rules[i].limit;
  if (!(machine->settings->traits & WEIR_TRAIT_STAKE)) return operation;
  for (size_t j = i + 1; j < machine->stack->count; j++) {
    int64_t limit = machine->stack->rules[j].limit;
    if (weir_log_is_log(machine, j) && limit < least) least = limit;
  }
  operation->stake = weir_plan_stake(machine->rule_states[i].charge, least);
  return operation;
}

static void log_plan_own_entry(weir_machine *machine, size_t i) {
  weir_log_state *state = machine->rule_states[i].state;
  weir_operation *operation = log_plan_write(machine, i, WEIR_PUT, WEIR_PLACE_ENTRY);
  operation->counter.entry = state->index;
  operation->value = state->newest_us = log_entry_time(machine);
}

static void log_charge(weir_machine *machine, size_t i) {
  const weir_log_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t position = weir_log_deciding_position(&machine->stack->rules[i], rule_state);
  bool keeps = i == weir_log_keeper(machine);
  switch (rule_state->step++) {
    case 0:
      if (!keeps) break;
      log_plan_write(machine, i, WEIR_ADD, WEIR_PLACE_COUNT)->delta = rule_state->charge;
      log_plan_neighbours(machine, i);
      break;
    case 1:
      if (keeps) log_plan_own_entry(machine, i);
      if (position >= 1) weir_log_plan_entry(machine, i, position);
      break;
    case 2: /* once more; and the one that decides next, now that an index was used up */
      if (state->decides_us != WEIR_LOG_NOT_WRITTEN) break;
      weir_log_plan_entry(machine, i, position);
      weir_log_plan_entry(machine, i, position + 1);
      break;
    default:
      break;
  }
}

/* An index cannot be given back. Where the charge was cut short, its entry is written at last: the
 * request stays counted, but leaves no hole. */
static void log_take_back(weir_machine *machine, size_t i) {
  weir_log_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (i != weir_log_keeper(machine)) return;
  if (rule_state->step++ == 0 && rule_state->charged && state->stored_us < 0)
    log_plan_own_entry(machine, i);
}

/* Without counts no entry is ever read. The entries themselves, up to L in each epoch, stay until
 * their TTL: dropping them one by one would take as many operations. New ones take their places,
 * each written before it is read for the first time, but for the moment between an addition and
 * its entry: who is measured against that one sees an older time instead of none, and may be
 * admitted too early, one for each request that is just then on its way, or was cut short there. */
static void log_reset(weir_machine *machine, size_t i) {
  weir_log_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (rule_state->step++ > 0 || i != weir_log_keeper(machine)) return;
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
  weir_log_state *state = machine->rule_states[i].state;
  const weir_expected *expected = &machine->notes->expected[i];
  int64_t index = state->index;
  weir_expected_compare(machine, i, epoch, index - 1);
  if (machine->settings->notices_loss) weir_expected_count(machine, i, epoch, 1, index, 1);
  if (machine->settings->notices_loss)
    weir_expected_add(machine, i, epoch,
                      expected->index == epoch ? index - expected->amount : index);
}

static void log_answer_count(weir_machine *machine, size_t i, const weir_operation *operation) {
  weir_log_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  bool keeps = i == operation->counter.rule;
  int64_t value = operation->outcome == WEIR_DONE ? operation->value : 0;
  if (operation->kind == WEIR_ADD) {
    rule_state->charged = true;
    state->own = log_count_of((int64_t)((uint64_t)value - (uint64_t)operation->delta));
    state->index = state->own + 1;
    if (keeps) log_hold_index(machine, i, operation->counter.index);
  } else if (operation->kind == WEIR_GET) {
    int64_t count = log_count_of(value);
    if (keeps) weir_expected_compare(machine, i, operation->counter.index, count);
    if (operation->counter.index < state->epoch)
      state->before = count;
    else if (operation->counter.index > state->epoch)
      state->after = count;
    else
      state->own = count;
  }
}

static void log_answer_put(weir_machine *machine, size_t i, const weir_operation *operation) {
  const weir_log_state *keeper = machine->rule_states[operation->counter.rule].state;
  weir_log_state *state = machine->rule_states[i].state;
  state->stored_us = state->newest_us = keeper->newest_us;
}

/* The keeper asks, and all learn of it. */
static void log_answer(weir_machine *machine, size_t i, const weir_operation *operation) {
  for (size_t j = i; j < machine->stack->count; j++) {
    if (!weir_log_is_log(machine, j)) continue;
    if (operation->counter.place == WEIR_PLACE_COUNT)
      log_answer_count(machine, j, operation);
    else if (operation->kind == WEIR_GET)
      weir_log_answer_entry(machine, j, operation);
    else if (operation->kind == WEIR_PUT)
      log_answer_put(machine, j, operation);
  }
}

/* --- deciding ----------------------------------------------------------------------------------
 */

static int64_t log_room(const weir_rule *rule, const weir_rule_state *rule_state,
                        const weir_request_state *request) {
  const weir_log_state *state = rule_state->state;
  if (state->decides_us == WEIR_LOG_NO_ENTRY) return 1;
  if (state->decides_us == WEIR_LOG_NOT_WRITTEN)
    return !rule_state->charged && request->kind != WEIR_PEEK;
  return weir_log_is_over(rule, rule_state, state->decides_us);
}

static void log_note(weir_machine *machine, size_t i, int64_t cost) {
  weir_log_memory *memory = machine->rule_states[i].memory;
  (void)cost;
  memory->known = false; /* the next one is measured against another */
}

/* Behind a hole, the next request is measured against the next entry, now if that is not known. */
static int64_t log_retry_after(const weir_rule *rule, const weir_rule_state *rule_state) {
  const weir_log_state *state = rule_state->state;
  bool hole = state->decides_us == WEIR_LOG_NOT_WRITTEN;
  int64_t entry_us = hole ? state->follows_us : state->decides_us;
  int64_t wait_us = entry_us >= 0 ? entry_us + rule->period_us - rule_state->now_us : 0;
  return wait_us > 0 ? wait_us : 1;
}

static void log_figures(const weir_rule *rule, const weir_rule_state *rule_state,
                        const weir_request_state *request, int64_t cost, bool denied,
                        weir_decision *decision) {
  const weir_log_state *state = rule_state->state;
  (void)request;
  (void)cost;
  int64_t newest_us =
      state->newest_us == WEIR_LOG_NOT_WRITTEN ? rule_state->now_us : state->newest_us;
  decision->remaining = state->high > 0 ? state->low : WEIR_NOT_KNOWN;
  if (denied) decision->retry_after_us = log_retry_after(rule, rule_state);
  if (newest_us != WEIR_LOG_NO_ENTRY && rule_state->now_us - newest_us < rule->period_us)
    decision->reset_after_us = newest_us + rule->period_us - rule_state->now_us;
}

static bool log_refund(weir_machine *machine, size_t i, const weir_request_state *request,
                       int64_t cost) {
  (void)request;
  (void)cost;
  machine->rule_states[i].unused = 0;
  return true;
}

/* A denial is known until the entry that decided it is W old: then there is room. */
static bool log_recall(const weir_rule *rule, const weir_settings *settings, const void *memory,
                       int64_t now_us, const weir_request_state *request, int64_t cost,
                       int64_t *room, weir_decision *figures) {
  const weir_log_memory *cached = memory;
  weir_log_state state = {.decides_us = cached->decides_us, .newest_us = cached->newest_us};
  weir_rule_state rule_state = {.now_us = now_us, .state = &state};
  (void)settings;
  if (!cached->known) return false;
  *room = log_room(rule, &rule_state, request);
  log_figures(rule, &rule_state, request, cost, *room < cost, figures);
  return true;
}

/* --- going on without the store ----------------------------------------------------------------
 */

static void log_forget(void *memory) {
  weir_log_memory *cached = memory;
  cached->known = false;
}

/* Since the entry that the last request was measured against there were as many as the limit, or
 * else as many as this epoch has: as if they had come evenly. */
static void log_known(const weir_rule *rule, const weir_settings *settings, const void *memory,
                      const weir_expected *expected, int64_t now_us, weir_known *known) {
  enum { PIECES = 16 };
  const weir_log_memory *cached = memory;
  bool measured = cached->decides_us > 0;
  int64_t first_us = measured ? cached->decides_us : expected->index * rule->log_us;
  int64_t last_us = cached->newest_us > first_us ? cached->newest_us : now_us;
  int64_t amount = weir_known_parts(measured ? rule->limit : expected->amount);
  (void)settings;
  known->of_log = true;
  if (amount == 0 || now_us - last_us >= rule->period_us || last_us < first_us) return;
  for (int64_t n = 0; n < PIECES; n++) {
    int64_t at_us = first_us + (last_us - first_us) / PIECES * n;
    if (now_us - at_us >= rule->period_us) continue;
    known->charges[known->count].at_us = at_us;
    known->charges[known->count++].amount = (amount + PIECES - 1) / PIECES;
  }
}

const weir_method weir_log_method = {
    .stage = WEIR_STAGE_LOG,
    .one_by_one = true,
    .needs = log_needs,
    .ttl_us = log_ttl_us,
    .memory_bytes = log_memory_bytes,
    .state_bytes = sizeof(weir_log_state),
    .operations_most = log_operations_most,
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
    .forget = log_forget,
    .known = log_known,
};

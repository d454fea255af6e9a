/* Entries of a log: which of them decides, reading it, and the search for how many requests fit.
 *
 * Positions run through the entries of g-1, g and g+1, from 1 on; the place of the next entry of g
 * is among them, whether it is written already or not. Each epoch holds at most WEIR_COUNT_MOST
 * entries by how its count is read, so that no sum of positions comes near 2^63.
 */
#include "algorithm/log.h"

size_t weir_log_keeper(const weir_machine *machine) {
  size_t i = 0;
  while (!weir_log_is_log(machine, i))
    i++;
  return i;
}

static int64_t log_own_position(const weir_rule_state *rule_state) {
  const weir_log_state *state = rule_state->state;
  return state->before + state->own + 1;
}

/* Of the entry that the next request, or the one being charged, is measured against; below 1: none.
 * Where L and more are ahead of this clock in g+1, it would be its own or one of theirs, which are
 * all later than it: then the one that will still deny it when this clock is there, too. */
int64_t weir_log_deciding_position(const weir_rule *rule, const weir_rule_state *rule_state) {
  const weir_log_state *state = rule_state->state;
  int64_t position = log_own_position(rule_state) + state->after - rule->limit;
  return position < log_own_position(rule_state) ? position : position + 1;
}

/* Of the newest that was there before; 0: none. */
int64_t weir_log_newest_position(const weir_rule_state *rule_state) {
  const weir_log_state *state = rule_state->state;
  int64_t own = log_own_position(rule_state);
  return state->after > 0 ? own + state->after : own - 1;
}

void weir_log_plan_entry(weir_machine *machine, size_t i, int64_t position) {
  weir_log_state *state = machine->rule_states[i].state;
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
  size_t keeper = weir_log_keeper(machine);
  weir_plan(machine, keeper, WEIR_GET, WEIR_PLACE_ENTRY, epoch)->counter.entry = entry;
}

static int64_t log_position_of(const weir_rule_state *rule_state, const weir_operation *operation) {
  const weir_log_state *state = rule_state->state;
  if (operation->counter.index < state->epoch) return operation->counter.entry;
  if (operation->counter.index == state->epoch) return state->before + operation->counter.entry;
  return log_own_position(rule_state) + operation->counter.entry;
}

/* A time, or WEIR_LOG_NOT_WRITTEN. What is earlier than its epoch is nothing that we wrote; so it
 * counts for as long as an entry of that epoch can. */
static int64_t log_decode(const weir_machine *machine, size_t i, const weir_operation *operation) {
  int64_t begin = operation->counter.index * machine->stack->rules[i].log_us;
  int64_t latest = machine->now_us + machine->settings->ahead_us;
  if (operation->outcome != WEIR_DONE || operation->value > latest) return WEIR_LOG_NOT_WRITTEN;
  return operation->value > begin ? operation->value : begin;
}

void weir_log_keep(weir_machine *machine, size_t i) {
  weir_log_state *state = machine->rule_states[i].state;
  weir_log_memory *memory = machine->rule_states[i].memory;
  memory->known = true;
  memory->decides_us = state->decides_us;
  memory->newest_us = state->newest_us;
}

bool weir_log_is_over(const weir_rule *rule, const weir_rule_state *rule_state, int64_t entry_us) {
  return entry_us >= 0 && rule_state->now_us - entry_us >= rule->period_us;
}

/* --- a search ----------------------------------------------------------------------------------
 */

/* How many single requests fit now: the k-th is measured against the entry k - 1 behind the one
 * that decides, and needs it to be W old. Entries are in the order of time (save for a moment's
 * difference between clocks), so the number is found by search. */
void weir_log_begin_search(weir_machine *machine, size_t i) {
  weir_log_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t first = weir_log_deciding_position(rule, rule_state);
  state->low = first < 1 ? 1 - first : 0;
  state->high = rule->limit + 1;
}

void weir_log_plan_search(weir_machine *machine, size_t i) {
  weir_log_state *state = machine->rule_states[i].state;
  const weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t first = weir_log_deciding_position(&machine->stack->rules[i], rule_state);
  int64_t between = state->high - state->low - 1;
  int64_t probes = between < WEIR_LOG_PROBES ? between : WEIR_LOG_PROBES;
  for (int64_t n = 1; n <= probes; n++) {
    int64_t fits = state->low + n * (between + 1) / (probes + 1);
    weir_log_plan_entry(machine, i, first + fits - 1);
  }
}

static void log_take_in_probe(const weir_rule *rule, weir_rule_state *rule_state, int64_t position,
                              bool over) {
  weir_log_state *state = rule_state->state;
  int64_t fits = position - weir_log_deciding_position(rule, rule_state) + 1;
  if (over && fits > state->low && fits < state->high) state->low = fits;
  if (over || fits < 1 || fits >= state->high) return;
  state->high = fits;
  if (state->low >= fits) state->low = fits - 1;
}

/* --- an answer ---------------------------------------------------------------------------------
 */

void weir_log_answer_entry(weir_machine *machine, size_t i, const weir_operation *operation) {
  weir_log_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t position = log_position_of(rule_state, operation);
  int64_t first = weir_log_deciding_position(rule, rule_state);
  int64_t entry_us = log_decode(machine, i, operation);
  if (position == first) state->decides_us = entry_us;
  if (position == first + 1) state->follows_us = entry_us;
  if (position == weir_log_newest_position(rule_state) && !rule_state->charged)
    state->newest_us = entry_us;
  if (state->high > 0)
    log_take_in_probe(rule, rule_state, position, weir_log_is_over(rule, rule_state, entry_us));
  weir_log_keep(machine, i);
}

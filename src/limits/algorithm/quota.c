/* Quota: the first request of a key opens a window of W; L may be charged to it; when it is over,
 * the next request opens another.
 *
 * Which window is open is agreed on with keys that are created once and never changed. Time is cut
 * into groups of width W, and every group opens at most one window:
 *
 *     open:G     absent     nothing was decided for this group
 *                0          closed: none opens in it any more
 *                s + 1      a window [s, s+W) opened in it
 *     count:s    what was charged to that window
 *
 * A request at t, in group g, wants the earliest window that ends after t:
 *
 *     open:(g-1) has a start s with t < s + W?       that one
 *     open:g     has a start?                        that one (a clock ahead of this one may have
 *                                                    set it a little after t)
 *                is closed?                          others are in g+1: the same for g+1, as of its
 *                                                    begin
 *                is absent?                          open it: store t + 1, if it still is absent
 *
 * and then adds to its count. Windows do not overlap: before open:g is created, open:(g-1) is
 * closed (if it is absent) and read after that, so that its window is known, is over, and no other
 * can still open there. Without closing, a late clock opens a window in g-1 while one opens in g.
 *
 * As what is stored never changes, the stamp of a charge alone tells later which window it went to;
 * a refund needs nothing else. Nor does a window close early: where all that it was charged has
 * gone back it is empty, and still ends when it was to end, which is what a peek tells.
 *
 * A clock that was wrong can leave a start, or a closed group, that no honest clock could have left
 * yet: later than t + e. It is read as if it were absent; only that it is there makes it necessary
 * to overwrite it. What is written is the same for everybody, the end of the window before, or the
 * begin of the group: so those who meet it at once still agree on one window. What was charged to
 * the wrong one no longer counts, at most L. */
#include "algorithm/quota.h"

#include "algorithm/cells.h"
#include "algorithm/expected.h"

/* A group is asked for until W after its end and x; a count until W after its start. One W more
 * leaves room for starts that are set ahead. */
static int64_t quota_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return 3 * rule->period_us + settings->final_us + WEIR_TTL_SLACK_US;
}

static unsigned quota_needs(unsigned traits) {
  (void)traits;
  return WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB | WEIR_NEED_CREATE;
}

/* Whether what the memo keeps is a window for now_us that may still be used unasked. */
static bool quota_is_usable(const weir_rule *rule, const weir_settings *settings,
                            const weir_quota_memory *memory, int64_t now_us) {
  return memory->known && memory->read_us <= now_us &&
         now_us - memory->read_us <= settings->memo_age_us &&
         memory->start_us <= now_us + settings->ahead_us &&
         now_us - memory->start_us < rule->period_us;
}

static size_t quota_memory_bytes(const weir_rule *rule) {
  (void)rule;
  return sizeof(weir_quota_memory);
}

static size_t quota_operations_most(const weir_rule *rule) {
  (void)rule;
  return 2 * WEIR_QUOTA_GROUPS; /* a reset: all that is known of three groups */
}

static void quota_frame(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_quota_memory *memory = machine->rule_states[i].memory;
  weir_quota_aim(machine, i, machine->now_us);
  if (quota_is_usable(&machine->stack->rules[i], machine->settings, memory, machine->now_us))
    state->start_us = memory->start_us;
  else
    memory->known = false;
}

/* A charge asks for itself which window is open, so that it needs no look; a window opens only
 * where the request that opens it fits. */
static bool quota_blind(const weir_machine *machine, size_t i) {
  (void)machine;
  (void)i;
  return true;
}

/* The moment of a refund is that of its charge; a stamp that no clock makes is refused later. */
static void quota_aim_at_stamp(weir_machine *machine, size_t i) {
  int64_t at_us = machine->requests->at_us;
  weir_quota_aim(machine, i, weir_quota_is_stamp(at_us) ? at_us : machine->now_us);
}

/* The window before, if it is still open, is wanted first: a stamp then belongs to one window,
 * whatever is opened after it. */
static void quota_look(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (state->counted) return;
  if (rule_state->step++ == 0 && machine->requests->kind == WEIR_REFUND)
    quota_aim_at_stamp(machine, i);
  weir_quota_find_window(machine, i);
  if (state->start_us >= 0) {
    weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, state->start_us);
  } else if (state->opens[WEIR_QUOTA_OWN] == WEIR_QUOTA_UNREAD) {
    if (state->opens[WEIR_QUOTA_BEFORE] == WEIR_QUOTA_UNREAD)
      weir_quota_plan_open(machine, i, WEIR_GET, WEIR_QUOTA_BEFORE);
    weir_quota_plan_open(machine, i, WEIR_GET, WEIR_QUOTA_OWN);
  }
}

/* --- charging ----------------------------------------------------------------------------------
 */

static bool quota_reports_stakes(const weir_machine *machine) {
  return machine->settings->traits & WEIR_TRAIT_STAKE;
}

/* Reads the key that opened the window along; a store that evicts by stakes learns its stake. */
static void quota_plan_start(weir_machine *machine, size_t i, int64_t charged) {
  weir_quota_state *state = machine->rule_states[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t group = state->start_us / rule->period_us;
  weir_plan(machine, i, WEIR_GET, WEIR_PLACE_OPEN, group)->stake =
      weir_plan_stake(charged, rule->limit);
}

/* With knowledge that will soon be too old, the key that opened the window is read along: a key in
 * steady use never needs a round more. A store that evicts by stakes is told whenever the count has
 * doubled, so that it knows of half of what rests on that key, or more; and by a process that knows
 * the key anew as soon as it knows the count. */
static void quota_plan_addition(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  const weir_rule_state *rule_state = &machine->rule_states[i];
  weir_quota_memory *memory = machine->rule_states[i].memory;
  int64_t known_for = machine->now_us - memory->read_us;
  int64_t charged = memory->count + rule_state->charge;
  bool grew = quota_reports_stakes(machine) && memory->count > 0 && charged >= 2 * memory->reported;
  if (grew) memory->reported = charged;
  weir_plan(machine, i, WEIR_ADD, WEIR_PLACE_COUNT, state->start_us)->delta = rule_state->charge;
  if (known_for > machine->settings->memo_age_us / 2 || grew) quota_plan_start(machine, i, charged);
}

static void quota_charge(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (rule_state->charged) return;
  weir_quota_find_window(machine, i);
  if (state->start_us >= 0)
    quota_plan_addition(machine, i);
  else if (state->opens[WEIR_QUOTA_OWN] == WEIR_QUOTA_UNREAD)
    weir_quota_plan_closing(machine, i);
  else
    weir_quota_plan_opening(machine, i);
}

static void quota_take_back(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  if (rule_state->step++ > 0) return;
  weir_plan(machine, i, WEIR_SUB, WEIR_PLACE_COUNT, state->start_us)->delta = rule_state->unused;
  if (quota_reports_stakes(machine)) quota_plan_start(machine, i, state->count);
}

/* Reads, then drops: three groups, as this clock may be late or early. A process that is under way
 * meanwhile, or remembers the window, may charge the old one once more; a window that opens then is
 * a new one, which may overlap with it. */
static void quota_reset(weir_machine *machine, size_t i) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  int step = rule_state->step++;
  if (step > 1) return;
  for (int which = WEIR_QUOTA_BEFORE; which < WEIR_QUOTA_GROUPS; which++) {
    weir_quota_plan_open(machine, i, step == 0 ? WEIR_GET : WEIR_DROP, which);
    if (step == 1 && state->opens[which] >= 0)
      weir_plan(machine, i, WEIR_DROP, WEIR_PLACE_COUNT, state->opens[which]);
  }
}

/* --- answers -----------------------------------------------------------------------------------
 */

static void quota_set_count(weir_machine *machine, size_t i, int64_t count) {
  weir_quota_memory *memory = machine->rule_states[i].memory;
  weir_quota_state *state = machine->rule_states[i].state;
  int64_t start = state->start_us;
  count = count < 0 ? 0 : count < WEIR_COUNT_MOST ? count : WEIR_COUNT_MOST;
  if (weir_quota_is_held(machine, i, start)) weir_expected_compare(machine, i, start, count);
  state->count = memory->count = count;
}

static void quota_answer(weir_machine *machine, size_t i, const weir_operation *operation) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  int64_t value = operation->outcome == WEIR_DONE ? operation->value : 0;
  if (operation->counter.place == WEIR_PLACE_OPEN) {
    weir_quota_answer_open(machine, i, operation);
  } else if (operation->kind == WEIR_GET) {
    state->counted = true;
    quota_set_count(machine, i, value);
  } else if (operation->kind == WEIR_ADD) {
    rule_state->charged = true;
    quota_set_count(machine, i, (int64_t)((uint64_t)value - (uint64_t)operation->delta));
  }
}

/* --- deciding ----------------------------------------------------------------------------------
 */

static bool quota_keeps_denied(const weir_rule_state *rule_state) {
  const weir_quota_state *state = rule_state->state;
  return state->count < WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
}

static int64_t quota_room(const weir_rule *rule, const weir_rule_state *rule_state,
                          const weir_request_state *request) {
  const weir_quota_state *state = rule_state->state;
  (void)request;
  return state->count < rule->limit ? rule->limit - state->count : 0;
}

static void quota_note(weir_machine *machine, size_t i, int64_t cost) {
  weir_quota_memory *memory = machine->rule_states[i].memory;
  weir_quota_state *state = machine->rule_states[i].state;
  state->count += cost;
  memory->count += cost;
}

static void quota_figures(const weir_rule *rule, const weir_rule_state *rule_state,
                          const weir_request_state *request, int64_t cost, bool denied,
                          weir_decision *decision) {
  const weir_quota_state *state = rule_state->state;
  (void)cost;
  int64_t left = state->start_us >= 0 ? state->start_us + rule->period_us - rule_state->now_us : 0;
  decision->remaining = quota_room(rule, rule_state, request);
  if (denied) decision->retry_after_us = left;
  decision->reset_after_us = state->count > 0 || !state->opened ? left : 0;
}

static void quota_expect(weir_machine *machine, size_t i, int64_t cost) {
  weir_quota_state *state = machine->rule_states[i].state;
  weir_expected_count(machine, i, state->start_us, machine->stack->rules[i].period_us, state->count,
                      cost);
}

/* Where the window of the stamp is not to be found it was lost, or reset: less is charged than was,
 * which matters only as long as that window would be open. */
static bool quota_refund(weir_machine *machine, size_t i, const weir_request_state *request,
                         int64_t cost) {
  weir_quota_memory *memory = machine->rule_states[i].memory;
  weir_quota_state *state = machine->rule_states[i].state;
  weir_rule_state *rule_state = &machine->rule_states[i];
  memory->known = false; /* perhaps it is not the window of now */
  int64_t period = machine->stack->rules[i].period_us;
  bool found = state->start_us >= 0;
  rule_state->unused = 0;
  if (!weir_quota_is_stamp(request->at_us)) return false;
  if (machine->now_us - (found ? state->start_us : request->at_us) >= period) return true;
  if (!found || state->count < cost) return false;
  rule_state->unused = cost;
  return true;
}

static bool quota_recall(const weir_rule *rule, const weir_settings *settings, const void *memory,
                         int64_t now_us, const weir_request_state *request, int64_t cost,
                         int64_t *room, weir_decision *figures) {
  const weir_quota_memory *cached = memory;
  weir_quota_state state = {.start_us = cached->start_us, .count = cached->count};
  weir_rule_state rule_state = {.now_us = now_us, .state = &state};
  if (!quota_is_usable(rule, settings, cached, now_us)) return false;
  *room = quota_room(rule, &rule_state, request);
  quota_figures(rule, &rule_state, request, cost, *room < cost, figures);
  return true;
}

static void quota_doubt(const weir_stack *stack, weir_memo *memo, size_t i, int64_t place,
                        int64_t cost) {
  weir_quota_memory *memory = weir_memo_memory(stack, memo, i);
  if (memory->start_us == place) memory->count = memory->count > cost ? memory->count - cost : 0;
}

static int64_t quota_place(const weir_machine *machine, size_t i) {
  return ((const weir_quota_state *)machine->rule_states[i].state)->start_us;
}

/* --- going on without the store ----------------------------------------------------------------
 */

static void quota_forget(void *memory) {
  weir_quota_memory *cached = memory;
  cached->known = false;
  cached->reported = 0;
}

static void quota_known(const weir_rule *rule, const weir_settings *settings, const void *memory,
                        const weir_expected *expected, int64_t now_us, weir_known *known) {
  (void)expected;
  const weir_quota_memory *cached = memory;
  (void)settings;
  if (cached->read_us == 0 || now_us - cached->start_us >= rule->period_us) return;
  known->charges[0].at_us = cached->start_us;
  known->charges[0].amount = weir_known_parts(cached->count);
  known->count = 1;
}

/* A window that was opened without the store makes way for the store's. */
static void quota_begin(weir_machine *machine, size_t i, const weir_known *known, bool afresh) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_quota_state *state = machine->rule_states[i].state;
  int64_t start = known->count > 0 ? known->charges[0].at_us : -1;
  int64_t count = known->count > 0 ? weir_known_here(rule, known->charges[0].amount) : 0;
  for (int64_t group = state->group - 1; group <= state->group + 1; group++) {
    bool here = start >= 0 && start / rule->period_us == group;
    if (group < 0 || !(here || afresh)) continue;
    weir_operation_kind kind = !here ? WEIR_DROP : afresh ? WEIR_PUT : WEIR_CREATE;
    weir_operation *open = weir_plan(machine, i, kind, WEIR_PLACE_OPEN, group);
    open->value = start + 1;
    open->stake = weir_plan_stake(count, rule->limit);
  }
  if (start < 0) return;
  weir_operation *counter =
      weir_plan(machine, i, afresh ? WEIR_PUT : WEIR_CREATE, WEIR_PLACE_COUNT, start);
  counter->value = count;
  counter->stake = weir_plan_stake(count, rule->limit);
}

const weir_method weir_quota_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .needs = quota_needs,
    .ttl_us = quota_ttl_us,
    .memory_bytes = quota_memory_bytes,
    .state_bytes = sizeof(weir_quota_state),
    .operations_most = quota_operations_most,
    .frame = quota_frame,
    .blind = quota_blind,
    .look = quota_look,
    .charge = quota_charge,
    .take_back = quota_take_back,
    .reset = quota_reset,
    .answer = quota_answer,
    .keeps_denied = quota_keeps_denied,
    .room = quota_room,
    .note = quota_note,
    .figures = quota_figures,
    .expect = quota_expect,
    .refund = quota_refund,
    .recall = quota_recall,
    .forget = quota_forget,
    .known = quota_known,
    .begin = quota_begin,
    .place = quota_place,
    .doubt = quota_doubt,
};

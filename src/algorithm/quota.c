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
#include "algorithm/cells.h"
#include "algorithm/held.h"
#include "algorithm/method.h"

/* What a process keeps of one key. */
typedef struct quota_memory {
  bool known;
  int64_t start_us; /* of the open window */
  int64_t count;
  int64_t told;    /* the count that a store which evicts by stakes was told; 0: none */
  int64_t read_us; /* the clock of the round that read it */
} quota_memory;

typedef struct quota_state {
  int64_t group;    /* G: g, or a later one where g is closed */
  int64_t at_us;    /* within G: the moment that a window is wanted for */
  int64_t opens[3]; /* what is known of groups G-1, G and G+1: a start, or why there is none */
  int64_t start_us; /* of the window in question; below 0: none */
  int64_t count;
  bool counted; /* the count was read */
  bool opening; /* this round opens G */
  bool opened;  /* some round of this phase did: before its first charge nothing was open */
} quota_state;

/* Why a group has no start. */
enum { UNREAD = -1, ABSENT = -2, CLOSED = -3, WRONG = -4 };

/* Which of quota_state.opens. */
enum { BEFORE, OWN, AFTER, GROUPS };

/* Where clocks end: the year 9999. */
#define LATEST_STAMP_US INT64_C(253402300799999999)

/* A group is asked for until W after its end and e; a count until W after its start. One W more
 * leaves room for starts that are set ahead. */
static int64_t quota_ttl_us(const weir_rule *rule, const weir_terms *terms) {
  return 3 * rule->period_us + terms->margin_us + WEIR_TTL_SLACK_US;
}

static unsigned quota_needs(unsigned traits) {
  (void)traits;
  return WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB | WEIR_NEED_CREATE;
}

/* One of the three groups; nothing was opened before the epoch. On the key of a window rests what
 * is charged to the window. */
static void quota_plan_open(weir_machine *machine, size_t i, weir_operation_kind kind, int which) {
  quota_state *state = machine->parts[i].state;
  const weir_rule *rule = &machine->stack->rules[i];
  const quota_memory *memory = machine->parts[i].memory;
  int64_t group = state->group + which - OWN;
  if (group < 0) return;
  weir_action *action = weir_plan(machine, i, kind, WEIR_PLACE_OPEN, group);
  if (kind == WEIR_GET && memory->start_us / rule->period_us == group)
    action->stake = weir_plan_stake(memory->count, rule->limit);
}

/* Asks for the window of a moment. */
static void quota_aim(weir_machine *machine, size_t i, int64_t at_us) {
  quota_state *state = machine->parts[i].state;
  state->at_us = at_us;
  state->group = at_us / machine->stack->rules[i].period_us;
  state->opens[BEFORE] = state->group > 0 ? UNREAD : CLOSED;
  state->opens[OWN] = state->opens[AFTER] = UNREAD;
  state->start_us = -1;
}

/* Whether what the memo keeps is a window for now_us that may still be used unasked. */
static bool quota_is_usable(const weir_rule *rule, const weir_terms *terms,
                            const quota_memory *memory, int64_t now_us) {
  return memory->known && memory->read_us <= now_us &&
         now_us - memory->read_us <= terms->memo_age_us &&
         memory->start_us <= now_us + terms->margin_us &&
         now_us - memory->start_us < rule->period_us;
}

static size_t quota_memory_bytes(const weir_rule *rule) {
  (void)rule;
  return sizeof(quota_memory);
}

static size_t quota_actions_most(const weir_rule *rule) {
  (void)rule;
  return 2 * GROUPS; /* a reset: all that is known of three groups */
}

static void quota_frame(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  quota_memory *memory = machine->parts[i].memory;
  quota_aim(machine, i, machine->now_us);
  if (quota_is_usable(&machine->stack->rules[i], machine->terms, memory, machine->now_us))
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

/* --- which window ------------------------------------------------------------------------------
 */

static bool quota_is_stamp(int64_t at_us) {
  return at_us >= 0 && at_us <= LATEST_STAMP_US;
}

/* The latest that an honest clock may have stored; for a refund, one of the time of its stamp. */
static int64_t quota_latest_us(const weir_machine *machine) {
  const weir_ask *ask = machine->asks;
  bool later =
      ask->kind == WEIR_ASK_REFUND && quota_is_stamp(ask->at_us) && ask->at_us > machine->now_us;
  return (later ? ask->at_us : machine->now_us) + machine->terms->margin_us;
}

static int64_t quota_decode(const weir_rule *rule, const weir_action *action, int64_t latest_us) {
  int64_t begin = action->index * rule->period_us;
  if (action->outcome == WEIR_ABSENT) return ABSENT;
  if (action->value == 0) return begin + rule->period_us <= latest_us ? CLOSED : WRONG;
  int64_t start = action->value > 0 ? action->value - 1 : -1;
  bool honest = start >= begin && start - begin < rule->period_us && start <= latest_us;
  return honest ? start : WRONG;
}

static void quota_keep_start(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  quota_memory *memory = machine->parts[i].memory;
  memory->known = true;
  memory->start_us = state->start_us;
  memory->count = memory->told = 0;
  memory->read_us = machine->clock_us;
}

/* Draws the conclusion from what was read: a start, or the next group if this one is closed, or
 * neither: no window is open. */
static void quota_find_window(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  int64_t *opens = state->opens;
  int64_t period = machine->stack->rules[i].period_us;
  if (state->start_us >= 0 || opens[OWN] == UNREAD) return;
  if (opens[BEFORE] >= 0 && state->at_us - opens[BEFORE] < period) {
    state->start_us = opens[BEFORE];
  } else if (opens[OWN] >= 0) {
    state->start_us = opens[OWN];
  } else if (opens[OWN] == CLOSED) {
    quota_aim(machine, i, (state->group + 1) * period);
    opens[BEFORE] = CLOSED;
  }
  if (state->start_us >= 0) quota_keep_start(machine, i);
}

/* The moment of a refund is that of its charge; a stamp that no clock makes is refused later. */
static void quota_aim_at_stamp(weir_machine *machine, size_t i) {
  int64_t at_us = machine->asks->at_us;
  quota_aim(machine, i, quota_is_stamp(at_us) ? at_us : machine->now_us);
}

/* The window before, if it is still open, is wanted first: a stamp then belongs to one window,
 * whatever is opened after it. */
static void quota_look(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  if (state->counted) return;
  if (part->step++ == 0 && machine->asks->kind == WEIR_ASK_REFUND) quota_aim_at_stamp(machine, i);
  quota_find_window(machine, i);
  if (state->start_us >= 0) {
    weir_plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, state->start_us);
  } else if (state->opens[OWN] == UNREAD) {
    if (state->opens[BEFORE] == UNREAD) quota_plan_open(machine, i, WEIR_GET, BEFORE);
    quota_plan_open(machine, i, WEIR_GET, OWN);
  }
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* Closing before it is known whether it must be costs a round less, and does no harm: this clock is
 * past the group before. */
static void quota_plan_closing(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  if (state->opens[BEFORE] == UNREAD) {
    quota_plan_open(machine, i, WEIR_CREATE, BEFORE); /* with 0 */
    quota_plan_open(machine, i, WEIR_GET, BEFORE);
  }
  quota_plan_open(machine, i, WEIR_GET, OWN);
}

/* The group before is decided, and its window, if any, is over. */
static void quota_plan_opening(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  int64_t period = machine->stack->rules[i].period_us;
  int64_t start = state->at_us;
  bool wrong = state->opens[OWN] == WRONG;
  if (wrong) {
    start = state->group * period;
    if (state->opens[BEFORE] >= 0) start = state->opens[BEFORE] + period;
  }
  weir_plan(machine, i, wrong ? WEIR_PUT : WEIR_CREATE, WEIR_PLACE_OPEN, state->group)->value =
      start + 1;
  quota_plan_open(machine, i, WEIR_GET, OWN);
  state->opening = state->opened = true;
}

static bool quota_tells_stakes(const weir_machine *machine) {
  return machine->terms->traits & WEIR_TRAIT_STAKE;
}

/* Reads the key that opened the window along; a store that evicts by stakes learns its stake. */
static void quota_plan_start(weir_machine *machine, size_t i, int64_t charged) {
  quota_state *state = machine->parts[i].state;
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
  quota_state *state = machine->parts[i].state;
  const weir_part *part = &machine->parts[i];
  quota_memory *memory = machine->parts[i].memory;
  int64_t known_for = machine->now_us - memory->read_us;
  int64_t charged = memory->count + part->charge;
  bool grew = quota_tells_stakes(machine) && memory->count > 0 && charged >= 2 * memory->told;
  if (grew) memory->told = charged;
  weir_plan(machine, i, WEIR_ADD, WEIR_PLACE_COUNT, state->start_us)->delta = part->charge;
  if (known_for > machine->terms->memo_age_us / 2 || grew) quota_plan_start(machine, i, charged);
}

static void quota_charge(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  if (part->charged) return;
  quota_find_window(machine, i);
  if (state->start_us >= 0)
    quota_plan_addition(machine, i);
  else if (state->opens[OWN] == UNREAD)
    quota_plan_closing(machine, i);
  else
    quota_plan_opening(machine, i);
}

static void quota_take_back(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  if (part->step++ > 0) return;
  weir_plan(machine, i, WEIR_SUB, WEIR_PLACE_COUNT, state->start_us)->delta = part->unused;
  if (quota_tells_stakes(machine)) quota_plan_start(machine, i, state->count);
}

/* Reads, then drops: three groups, as this clock may be late or early. A process that is under way
 * meanwhile, or remembers the window, may charge the old one once more; a window that opens then is
 * a new one, which may overlap with it. */
static void quota_reset(weir_machine *machine, size_t i) {
  quota_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  int step = part->step++;
  if (step > 1) return;
  for (int which = BEFORE; which < GROUPS; which++) {
    quota_plan_open(machine, i, step == 0 ? WEIR_GET : WEIR_DROP, which);
    if (step == 1 && state->opens[which] >= 0)
      weir_plan(machine, i, WEIR_DROP, WEIR_PLACE_COUNT, state->opens[which]);
  }
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* A window in use: whether it is still the one that is stored. */
static void quota_confirm_start(weir_machine *machine, size_t i, const weir_action *action) {
  quota_state *state = machine->parts[i].state;
  quota_memory *memory = machine->parts[i].memory;
  int64_t start = state->start_us;
  memory->known = action->outcome == WEIR_DONE && action->value == start + 1;
  memory->read_us = machine->clock_us;
}

/* Whether a held window is still in use by this clock: longer than that no key has to live. */
static bool quota_is_held(const weir_machine *machine, size_t i, int64_t start_us) {
  return machine->clock_us - start_us < machine->stack->rules[i].period_us;
}

/* The window that this process charges is named by a key that never changes. */
static void quota_look_for_held_start(weir_machine *machine, size_t i, const weir_action *action) {
  int64_t start = machine->notes->held[i].index;
  bool there = action->outcome == WEIR_DONE && action->value == start + 1;
  if (start / machine->stack->rules[i].period_us == action->index && !there &&
      quota_is_held(machine, i, start))
    weir_held_compare(machine, i, start, 0);
}

/* A group that was opened and is not is lost to eviction, or was just overwritten: from the start.
 */
static void quota_answer_open(weir_machine *machine, size_t i, const weir_action *action) {
  quota_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  int64_t which = action->index - state->group + OWN;
  if (action->kind != WEIR_GET) return;
  quota_look_for_held_start(machine, i, action);
  if (state->start_us >= 0 && machine->phase == WEIR_PHASE_CHARGE) {
    quota_confirm_start(machine, i, action);
    return;
  }
  int64_t found = quota_decode(&machine->stack->rules[i], action, quota_latest_us(machine));
  if (state->opening && (found == ABSENT || found == WRONG)) part->conflict = true;
  state->opening = false;
  state->opens[which] = found;
}

static void quota_set_count(weir_machine *machine, size_t i, int64_t count) {
  quota_memory *memory = machine->parts[i].memory;
  quota_state *state = machine->parts[i].state;
  int64_t start = state->start_us;
  count = count < 0 ? 0 : count < WEIR_COUNT_MOST ? count : WEIR_COUNT_MOST;
  if (quota_is_held(machine, i, start)) weir_held_compare(machine, i, start, count);
  state->count = memory->count = count;
}

static void quota_answer(weir_machine *machine, size_t i, const weir_action *action) {
  quota_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  int64_t value = action->outcome == WEIR_DONE ? action->value : 0;
  if (action->place == WEIR_PLACE_OPEN) {
    quota_answer_open(machine, i, action);
  } else if (action->kind == WEIR_GET) {
    state->counted = true;
    quota_set_count(machine, i, value);
  } else if (action->kind == WEIR_ADD) {
    part->charged = true;
    quota_set_count(machine, i, (int64_t)((uint64_t)value - (uint64_t)action->delta));
  }
}

/* --- judging -----------------------------------------------------------------------------------
 */

static bool quota_keeps_denied(const weir_part *part) {
  const quota_state *state = part->state;
  return state->count < WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
}

static int64_t quota_room(const weir_rule *rule, const weir_part *part, const weir_ask *ask) {
  const quota_state *state = part->state;
  (void)ask;
  return state->count < rule->limit ? rule->limit - state->count : 0;
}

static void quota_note(weir_machine *machine, size_t i, int64_t cost) {
  quota_memory *memory = machine->parts[i].memory;
  quota_state *state = machine->parts[i].state;
  state->count += cost;
  memory->count += cost;
}

static void quota_figures(const weir_rule *rule, const weir_part *part, const weir_ask *ask,
                          int64_t cost, bool denied, weir_decision *decision) {
  const quota_state *state = part->state;
  (void)cost;
  int64_t left = state->start_us >= 0 ? state->start_us + rule->period_us - part->now_us : 0;
  decision->remaining = quota_room(rule, part, ask);
  if (denied) decision->retry_after_us = left;
  decision->reset_after_us = state->count > 0 || !state->opened ? left : 0;
}

static void quota_hold(weir_machine *machine, size_t i, int64_t cost) {
  quota_state *state = machine->parts[i].state;
  weir_held_add(machine, i, state->start_us, cost);
}

/* Where the window of the stamp is not to be found it was lost, or reset: less is charged than was,
 * which matters only as long as that window would be open. */
static bool quota_refund(weir_machine *machine, size_t i, const weir_ask *ask, int64_t cost) {
  quota_memory *memory = machine->parts[i].memory;
  quota_state *state = machine->parts[i].state;
  weir_part *part = &machine->parts[i];
  memory->known = false; /* perhaps it is not the window of now */
  int64_t period = machine->stack->rules[i].period_us;
  bool found = state->start_us >= 0;
  part->unused = 0;
  if (!quota_is_stamp(ask->at_us)) return false;
  if (machine->now_us - (found ? state->start_us : ask->at_us) >= period) return true;
  if (!found || state->count < cost) return false;
  part->unused = cost;
  return true;
}

static bool quota_recall(const weir_rule *rule, const weir_terms *terms, const void *memory,
                         int64_t now_us, const weir_ask *ask, int64_t cost, int64_t *room,
                         weir_decision *figures) {
  const quota_memory *kept = memory;
  quota_state state = {.start_us = kept->start_us, .count = kept->count};
  weir_part part = {.now_us = now_us, .state = &state};
  if (!quota_is_usable(rule, terms, kept, now_us)) return false;
  *room = quota_room(rule, &part, ask);
  quota_figures(rule, &part, ask, cost, *room < cost, figures);
  return true;
}

const weir_method weir_quota_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .needs = quota_needs,
    .ttl_us = quota_ttl_us,
    .memory_bytes = quota_memory_bytes,
    .state_bytes = sizeof(quota_state),
    .actions_most = quota_actions_most,
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
    .hold = quota_hold,
    .refund = quota_refund,
    .recall = quota_recall,
};

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

/* Why a group has no start. */
enum { UNREAD = -1, ABSENT = -2, CLOSED = -3, WRONG = -4 };

/* Which of weir_part.quota.opens. */
enum { BEFORE, OWN, AFTER, GROUPS };

/* Where clocks end: the year 9999. */
#define LATEST_STAMP_US INT64_C(253402300799999999)

/* A group is asked for until W after its end and e; a count until W after its start. One W more
 * leaves room for starts that are set ahead; 2 s for whole seconds. */
static weir_action *plan(weir_machine *machine, size_t i, weir_operation_kind kind,
                         weir_place place, int64_t index) {
  int64_t period = machine->stack->rules[i].period_us;
  int64_t ttl = 3 * period + machine->terms->margin_us + 2000000;
  return weir_plan(machine, i, kind, place, index, ttl);
}

/* One of the three groups; nothing was opened before the epoch. On the key of a window rests what
 * is charged to the window. */
static void plan_open(weir_machine *machine, size_t i, weir_operation_kind kind, int which) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_kept *kept = &machine->notes->rules[i].kept;
  int64_t group = machine->parts[i].quota.group + which - OWN;
  if (group < 0) return;
  weir_action *action = plan(machine, i, kind, WEIR_PLACE_OPEN, group);
  if (kind == WEIR_GET && kept->quota.start_us / rule->period_us == group)
    action->stake = weir_plan_stake(kept->quota.count, rule->limit);
}

/* Asks for the window of a moment. */
static void aim(weir_machine *machine, size_t i, int64_t at_us) {
  weir_part *part = &machine->parts[i];
  part->quota.at_us = at_us;
  part->quota.group = at_us / machine->stack->rules[i].period_us;
  part->quota.opens[BEFORE] = part->quota.group > 0 ? UNREAD : CLOSED;
  part->quota.opens[OWN] = part->quota.opens[AFTER] = UNREAD;
  part->quota.start_us = -1;
}

/* Whether what the memo keeps is a window for now_us that may still be used unasked. */
static bool is_usable(const weir_rule *rule, const weir_terms *terms, const weir_kept *kept,
                      int64_t now_us) {
  return kept->quota.known && kept->quota.read_us <= now_us &&
         now_us - kept->quota.read_us <= terms->memo_age_us &&
         kept->quota.start_us <= now_us + terms->margin_us &&
         now_us - kept->quota.start_us < rule->period_us;
}

static size_t actions_most(const weir_rule *rule) {
  (void)rule;
  return 2 * GROUPS; /* a reset: all that is known of three groups */
}

static void frame(weir_machine *machine, size_t i) {
  weir_kept *kept = &machine->notes->rules[i].kept;
  aim(machine, i, machine->now_us);
  if (is_usable(&machine->stack->rules[i], machine->terms, kept, machine->now_us))
    machine->parts[i].quota.start_us = kept->quota.start_us;
  else
    kept->quota.known = false;
}

/* A charge asks for itself which window is open, so that it needs no look; a window opens only
 * where the request that opens it fits. */
static bool blind(const weir_machine *machine, size_t i) {
  (void)machine;
  (void)i;
  return true;
}

/* --- which window ------------------------------------------------------------------------------
 */

static bool is_stamp(int64_t at_us) {
  return at_us >= 0 && at_us <= LATEST_STAMP_US;
}

/* The latest that an honest clock may have stored; for a refund, one of the time of its stamp. */
static int64_t latest_us(const weir_machine *machine) {
  const weir_ask *ask = machine->asks;
  bool later = ask->kind == WEIR_ASK_REFUND && is_stamp(ask->at_us) && ask->at_us > machine->now_us;
  return (later ? ask->at_us : machine->now_us) + machine->terms->margin_us;
}

static int64_t decode(const weir_rule *rule, const weir_action *action, int64_t latest_us) {
  int64_t begin = action->index * rule->period_us;
  if (action->outcome == WEIR_ABSENT) return ABSENT;
  if (action->value == 0) return begin + rule->period_us <= latest_us ? CLOSED : WRONG;
  int64_t start = action->value > 0 ? action->value - 1 : -1;
  bool honest = start >= begin && start - begin < rule->period_us && start <= latest_us;
  return honest ? start : WRONG;
}

static void keep_start(weir_machine *machine, size_t i) {
  weir_kept *kept = &machine->notes->rules[i].kept;
  kept->quota.known = true;
  kept->quota.start_us = machine->parts[i].quota.start_us;
  kept->quota.count = 0;
  kept->quota.read_us = machine->clock_us;
}

/* Draws the conclusion from what was read: a start, or the next group if this one is closed, or
 * neither: no window is open. */
static void find_window(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  int64_t *opens = part->quota.opens;
  int64_t period = machine->stack->rules[i].period_us;
  if (part->quota.start_us >= 0 || opens[OWN] == UNREAD) return;
  if (opens[BEFORE] >= 0 && part->quota.at_us - opens[BEFORE] < period) {
    part->quota.start_us = opens[BEFORE];
  } else if (opens[OWN] >= 0) {
    part->quota.start_us = opens[OWN];
  } else if (opens[OWN] == CLOSED) {
    aim(machine, i, (part->quota.group + 1) * period);
    opens[BEFORE] = CLOSED;
  }
  if (part->quota.start_us >= 0) keep_start(machine, i);
}

/* The moment of a refund is that of its charge; a stamp that no clock makes is refused later. */
static void aim_at_stamp(weir_machine *machine, size_t i) {
  int64_t at_us = machine->asks->at_us;
  aim(machine, i, is_stamp(at_us) ? at_us : machine->now_us);
}

/* The window before, if it is still open, is wanted first: a stamp then belongs to one window,
 * whatever is opened after it. */
static void look(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  if (part->quota.counted) return;
  if (part->step++ == 0 && machine->asks->kind == WEIR_ASK_REFUND) aim_at_stamp(machine, i);
  find_window(machine, i);
  if (part->quota.start_us >= 0) {
    plan(machine, i, WEIR_GET, WEIR_PLACE_COUNT, part->quota.start_us);
  } else if (part->quota.opens[OWN] == UNREAD) {
    if (part->quota.opens[BEFORE] == UNREAD) plan_open(machine, i, WEIR_GET, BEFORE);
    plan_open(machine, i, WEIR_GET, OWN);
  }
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* Closing before it is known whether it must be costs a round less, and does no harm: this clock is
 * past the group before. */
static void plan_closing(weir_machine *machine, size_t i) {
  if (machine->parts[i].quota.opens[BEFORE] == UNREAD) {
    plan_open(machine, i, WEIR_CREATE, BEFORE); /* with 0 */
    plan_open(machine, i, WEIR_GET, BEFORE);
  }
  plan_open(machine, i, WEIR_GET, OWN);
}

/* The group before is decided, and its window, if any, is over. */
static void plan_opening(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  int64_t period = machine->stack->rules[i].period_us;
  int64_t start = part->quota.at_us;
  bool wrong = part->quota.opens[OWN] == WRONG;
  if (wrong) {
    start = part->quota.group * period;
    if (part->quota.opens[BEFORE] >= 0) start = part->quota.opens[BEFORE] + period;
  }
  plan(machine, i, wrong ? WEIR_PUT : WEIR_CREATE, WEIR_PLACE_OPEN, part->quota.group)->value =
      start + 1;
  plan_open(machine, i, WEIR_GET, OWN);
  part->quota.opening = part->quota.opened = true;
}

static bool tells_stakes(const weir_machine *machine) {
  return machine->terms->traits & WEIR_TRAIT_STAKE;
}

/* Reads the key that opened the window along; a store that evicts by stakes learns what rests on
 * it.
 */
static void plan_start(weir_machine *machine, size_t i, int64_t charged) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t group = machine->parts[i].quota.start_us / rule->period_us;
  plan(machine, i, WEIR_GET, WEIR_PLACE_OPEN, group)->stake = weir_plan_stake(charged, rule->limit);
}

/* With knowledge that will soon be too old, the key that opened the window is read along: a key in
 * steady use never needs a round more. A store that evicts by stakes is told whenever the count
 * gets another binary digit, so that it knows of half of what rests on that key, or more. */
static void plan_addition(weir_machine *machine, size_t i) {
  const weir_part *part = &machine->parts[i];
  const weir_kept *kept = &machine->notes->rules[i].kept;
  int64_t known_for = machine->now_us - kept->quota.read_us;
  int64_t count = kept->quota.count;
  int64_t charged = count + part->charge;
  bool grew = tells_stakes(machine) && count > 0 && (count ^ charged) > count;
  plan(machine, i, WEIR_ADD, WEIR_PLACE_COUNT, part->quota.start_us)->delta = part->charge;
  if (known_for > machine->terms->memo_age_us / 2 || grew) plan_start(machine, i, charged);
}

static void charge(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  if (part->charged) return;
  find_window(machine, i);
  if (part->quota.start_us >= 0)
    plan_addition(machine, i);
  else if (part->quota.opens[OWN] == UNREAD)
    plan_closing(machine, i);
  else
    plan_opening(machine, i);
}

static void take_back(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  if (part->step++ > 0) return;
  plan(machine, i, WEIR_SUB, WEIR_PLACE_COUNT, part->quota.start_us)->delta = part->unused;
  if (tells_stakes(machine)) plan_start(machine, i, part->quota.count);
}

/* Reads, then drops: three groups, as this clock may be late or early. A process that is under way
 * meanwhile, or remembers the window, may charge the old one once more; a window that opens then is
 * a new one, which may overlap with it. */
static void reset(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  int step = part->step++;
  if (step > 1) return;
  for (int which = BEFORE; which < GROUPS; which++) {
    plan_open(machine, i, step == 0 ? WEIR_GET : WEIR_DROP, which);
    if (step == 1 && part->quota.opens[which] >= 0)
      plan(machine, i, WEIR_DROP, WEIR_PLACE_COUNT, part->quota.opens[which]);
  }
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* A window in use: whether it is still the one that is stored. */
static void confirm_start(weir_machine *machine, size_t i, const weir_action *action) {
  weir_kept *kept = &machine->notes->rules[i].kept;
  int64_t start = machine->parts[i].quota.start_us;
  kept->quota.known = action->outcome == WEIR_DONE && action->value == start + 1;
  kept->quota.read_us = machine->clock_us;
}

/* Whether a held window is still in use by this clock: longer than that no key has to live. */
static bool is_held(const weir_machine *machine, size_t i, int64_t start_us) {
  return machine->clock_us - start_us < machine->stack->rules[i].period_us;
}

/* The window that this process charges is named by a key that never changes. */
static void look_for_held_start(weir_machine *machine, size_t i, const weir_action *action) {
  int64_t start = machine->notes->rules[i].held.index;
  bool there = action->outcome == WEIR_DONE && action->value == start + 1;
  if (start / machine->stack->rules[i].period_us == action->index && !there &&
      is_held(machine, i, start))
    weir_held_compare(machine, i, start, 0);
}

/* A group that was opened and is not is lost to eviction, or was just overwritten: from the start.
 */
static void answer_open(weir_machine *machine, size_t i, const weir_action *action) {
  weir_part *part = &machine->parts[i];
  int64_t which = action->index - part->quota.group + OWN;
  if (action->kind != WEIR_GET) return;
  look_for_held_start(machine, i, action);
  if (part->quota.start_us >= 0 && machine->phase == WEIR_PHASE_CHARGE) {
    confirm_start(machine, i, action);
    return;
  }
  int64_t found = decode(&machine->stack->rules[i], action, latest_us(machine));
  if (part->quota.opening && (found == ABSENT || found == WRONG)) part->conflict = true;
  part->quota.opening = false;
  part->quota.opens[which] = found;
}

static void set_count(weir_machine *machine, size_t i, int64_t count) {
  int64_t start = machine->parts[i].quota.start_us;
  count = count < 0 ? 0 : count < WEIR_COUNT_MOST ? count : WEIR_COUNT_MOST;
  if (is_held(machine, i, start)) weir_held_compare(machine, i, start, count);
  machine->parts[i].quota.count = machine->notes->rules[i].kept.quota.count = count;
}

static void answer(weir_machine *machine, size_t i, const weir_action *action) {
  weir_part *part = &machine->parts[i];
  int64_t value = action->outcome == WEIR_DONE ? action->value : 0;
  if (action->place == WEIR_PLACE_OPEN) {
    answer_open(machine, i, action);
  } else if (action->kind == WEIR_GET) {
    part->quota.counted = true;
    set_count(machine, i, value);
  } else if (action->kind == WEIR_ADD) {
    part->charged = true;
    set_count(machine, i, (int64_t)((uint64_t)value - (uint64_t)action->delta));
  }
}

/* --- judging -----------------------------------------------------------------------------------
 */

static bool keeps_denied(const weir_part *part) {
  return part->quota.count < WEIR_COUNT_MOST - WEIR_LIMIT_MOST;
}

static int64_t room(const weir_rule *rule, const weir_part *part, const weir_ask *ask) {
  (void)ask;
  return part->quota.count < rule->limit ? rule->limit - part->quota.count : 0;
}

static void note(weir_machine *machine, size_t i, int64_t cost) {
  machine->parts[i].quota.count += cost;
  machine->notes->rules[i].kept.quota.count += cost;
}

static void figures(const weir_rule *rule, const weir_part *part, const weir_ask *ask, int64_t cost,
                    bool denied, weir_decision *decision) {
  (void)cost;
  int64_t left =
      part->quota.start_us >= 0 ? part->quota.start_us + rule->period_us - part->now_us : 0;
  decision->remaining = room(rule, part, ask);
  if (denied) decision->retry_after_us = left;
  decision->reset_after_us = part->quota.count > 0 || !part->quota.opened ? left : 0;
}

static void hold(weir_machine *machine, size_t i, int64_t cost) {
  weir_held_add(machine, i, machine->parts[i].quota.start_us, cost);
}

/* Where the window of the stamp is not to be found it was lost, or reset: less is charged than was,
 * which matters only as long as that window would be open. */
static bool refund(weir_machine *machine, size_t i, const weir_ask *ask, int64_t cost) {
  weir_part *part = &machine->parts[i];
  machine->notes->rules[i].kept.quota.known = false; /* perhaps it is not the window of now */
  int64_t period = machine->stack->rules[i].period_us;
  bool found = part->quota.start_us >= 0;
  part->unused = 0;
  if (!is_stamp(ask->at_us)) return false;
  if (machine->now_us - (found ? part->quota.start_us : ask->at_us) >= period) return true;
  if (!found || part->quota.count < cost) return false;
  part->unused = cost;
  return true;
}

static bool recall(const weir_stack *stack, size_t i, const weir_terms *terms,
                   const weir_memo *memo, int64_t now_us, weir_part *part) {
  const weir_kept *kept = &memo->rules[i].kept;
  if (!is_usable(&stack->rules[i], terms, kept, now_us)) return false;
  part->quota.start_us = kept->quota.start_us;
  part->quota.count = kept->quota.count;
  return true;
}

const weir_method weir_quota_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .actions_most = actions_most,
    .frame = frame,
    .blind = blind,
    .look = look,
    .charge = charge,
    .take_back = take_back,
    .reset = reset,
    .answer = answer,
    .keeps_denied = keeps_denied,
    .room = room,
    .note = note,
    .figures = figures,
    .hold = hold,
    .refund = refund,
    .recall = recall,
};

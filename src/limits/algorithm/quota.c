/* Quota (docs/guarantees.md, "Quota"): the first request of a key opens a window of W; L may be charged to
 * it; when it is over, the next request opens another.
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
 * and then adds to its count. The count is made before the name of its window is, and an addition that
 * finds none seeds it so high that nobody is admitted there. So what a process remembers of a window is
 * never used once the store has forgotten it: who finds such a count asks again which window is open.
 * Where that is still the same one, its count alone was lost: it makes way for a window that begins a
 * microsecond later, the same for all who find that out.
 *
 * Windows do not overlap: before open:g is created, open:(g-1) is
 * closed (if it is absent) and read after that, so that its window is known, is over, and no other
 * can still open there. Without closing, a late clock opens a window in g-1 while one opens in g.
 *
 * As what is stored never changes, the stamp of a charge alone tells later which window it went to;
 * a refund needs nothing else. What a settlement charges beyond goes to the window of now, which it
 * opens where there is none. Nor does a window close early: where all that it was charged has
 * gone back it is empty, and still ends when it was to end, which is what a peek tells.
 *
 * A clock that was wrong can leave a start, or a closed group, that no honest clock could have left
 * yet: later than t + e. It is read as if it were absent; only that it is there makes it necessary
 * to overwrite it. What is written is the same for every process, the end of the window before, or the
 * begin of the group: so those that meet it at once still agree on one window. What was charged to
 * the wrong one no longer counts, at most L. */
#include "algorithm/method.h"
#include "algorithm/plan.h"

/* What a process keeps of one key. Behind it stands the same of the window that follows, where that was
 * charged ahead of time: with leases alone. */
typedef struct quota_memory {
  bool known;
  int64_t start_us; /* of the open window */
  int64_t count;
  int64_t reported; /* the count that a store which evicts by stakes was told; 0: none */
  int64_t read_us;  /* the clock of the round that read it */
} quota_memory;

/* Groups G-1, G and G+1. */
enum { BEFORE, OWN, AFTER, GROUPS };

typedef struct quota_state {
  int64_t group;         /* G: g, or a later one where g is closed */
  int64_t at_us;         /* within G: the moment that a window is wanted for */
  int64_t opens[GROUPS]; /* what is known of the groups: a start, or why there is none */
  int64_t start_us;      /* of the window in question; below 0: none */
  int64_t count;
  bool counted;    /* the count was read */
  bool read_again; /* the key of G, which holds what no honest clock can have left */
  bool opening;    /* this round opens G */
  bool opened;     /* some round of this phase did: before its first charge nothing was open */
  bool over;       /* what a settlement should give back is in a window that is over: r is of now */
  bool gone;       /* the count of the window in question is lost, and so may its name be */
  int64_t lost_us; /* the window of which that was found; below 0: none */
} quota_state;
_Static_assert(sizeof(quota_state) <= WEIR_STATE_BYTES_MOST, "WEIR_STATE_BYTES_MOST");

/* Why a group has no start. */
enum { UNREAD = -1, ABSENT = -2, CLOSED = -3, WRONG = -4 };

/* Where clocks end: the year 9999. */
#define LATEST_STAMP_US INT64_C(253402300799999999)

/* Whether some clock may show this. */
static bool quota_is_stamp(int64_t at_us) {
  return at_us >= 0 && at_us <= LATEST_STAMP_US;
}

/* A group is asked for until W after its end and x; a count until W after its start. One W more
 * leaves room for starts that are set ahead. */
static int64_t quota_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return 3 * rule->period_us + settings->final_us + WEIR_TTL_SLACK_US;
}

/* Whether what the memo keeps is a window for now that may still be used unasked. */
static bool quota_is_usable_in(const weir_rule_state *r, const quota_memory *memory) {
  int64_t now_us = r->frame->now_us;
  return memory->known && memory->read_us <= now_us &&
         now_us - memory->read_us <= r->frame->settings->memo_age_us &&
         memory->start_us <= now_us + r->frame->settings->ahead_us &&
         now_us - memory->start_us < r->rule->period_us;
}

static bool quota_is_usable(const weir_rule_state *r) {
  return quota_is_usable_in(r, r->memory);
}

/* What is known of the window that was charged ahead of time, where it has begun; NULL: there is none. */
static const quota_memory *quota_laid_by(const weir_rule_state *r) {
  const quota_memory *memory = r->memory;
  bool has_begun = r->rule->lease_us > 0 && r->frame->now_us >= memory[1].start_us &&
                   quota_is_usable_in(r, &memory[1]);
  return has_begun ? &memory[1] : NULL;
}

/* Whether the window that the memo keeps will soon be too old to be used: before the next charge, which
 * with leases is a lease later. */
static bool quota_is_ageing(const weir_rule_state *r) {
  const quota_memory *memory = r->memory;
  int64_t spare_us = r->frame->settings->memo_age_us - r->rule->lease_us;
  return r->frame->now_us - memory->read_us > (spare_us > 0 ? spare_us / 2 : 0);
}

/* Whether what goes back was charged earlier, at the stamp of its request. */
static bool quota_gives_back(const weir_rule_state *r) {
  return r->frame->refunds || (r->frame->settles && r->frame->requests->ask.costs[r->index] < 0);
}

/* What goes back of a charge of this stamp; below 0: nothing does. */
static int64_t quota_back_us(const weir_rule_state *r) {
  return quota_gives_back(r) ? r->frame->requests->ask.at_us : -1;
}

/* Whether what the memo keeps is a window for now, and the one that was charged at that moment: a window
 * that begins later, as clocks differ, may be it or not. */
static bool quota_covers(const weir_rule_state *r, int64_t at_us) {
  const quota_memory *memory = r->memory;
  return quota_is_usable(r) && memory->start_us <= at_us &&
         at_us - memory->start_us < r->rule->period_us;
}

/* --- which window is open ----------------------------------------------------------------------
 */

/* On the count of a window, which is there as long as the window is. */
static weir_operation *quota_plan_count(weir_rule_state *r, weir_operation_kind kind,
                                        int64_t start_us) {
  weir_operation *operation = weir_plan(r, kind, WEIR_PLACE_COUNT, start_us);
  operation->seed = weir_count_lost(r->rule);
  return operation;
}

static weir_operation *quota_plan_add(weir_rule_state *r, int64_t start_us) {
  weir_operation *operation = quota_plan_count(r, WEIR_ADD, start_us);
  operation->delta = r->charge;
  if (r->frame->bounds) operation->floor = weir_plan_threshold(r).capacity + 1;
  return operation;
}

/* Asks for the window of a moment: nothing is known of its group and those beside it. */
static void quota_aim(weir_rule_state *r, int64_t at_us) {
  quota_state *state = r->state;
  state->at_us = at_us;
  state->group = at_us / r->rule->period_us;
  state->opens[BEFORE] = state->group > 0 ? UNREAD : CLOSED;
  state->opens[OWN] = state->opens[AFTER] = UNREAD;
  state->start_us = r->place = -1;
}

static void quota_begin(weir_rule_state *r) {
  quota_state *state = r->state;
  quota_memory *memory = r->memory;
  quota_aim(r, r->frame->now_us);
  state->lost_us = -1;
  const quota_memory *laid_by = quota_laid_by(r);
  if (laid_by != NULL && !quota_is_usable(r)) *memory = *laid_by;
  memory->known = quota_is_usable(r);
  if (memory->known) state->start_us = r->place = memory->start_us;
}

/* What this process remembers was lost: all begins with the question which window is open. */
static void quota_ask_anew(weir_rule_state *r) {
  quota_state *state = r->state;
  quota_memory *memory = r->memory;
  if (!state->gone) return;
  state->gone = memory->known = false;
  if (r->rule->lease_us > 0) memory[1].known = false;
  state->lost_us = state->start_us;
  r->step = 0;
  quota_aim(r, r->frame->now_us);
}

/* Whether a window is charged before its time that follows none. The group before is not over then, and
 * stays open: it must still hold the window before. */
static bool quota_follows_none(const weir_rule_state *r) {
  const quota_state *state = r->state;
  const weir_claim *request = r->frame->requests; /* NULL: by the memory alone */
  int64_t own = state->opens[OWN];
  bool inside =
      own >= 0 && own < state->at_us; /* another rule's window begins within one of this */
  return request != NULL && request->ask.terms == WEIR_AHEAD_NEXT && own != UNREAD && !inside &&
         state->opens[BEFORE] < 0;
}

/* Draws the conclusion from what was read: a start, or the next group if this one is closed, or
 * neither: no window is open. */
static void quota_find_window(weir_rule_state *r) {
  quota_state *state = r->state;
  quota_memory *memory = r->memory;
  int64_t period = r->rule->period_us;
  int64_t before = state->opens[BEFORE], own = state->opens[OWN];
  if (state->start_us >= 0 || own == UNREAD || quota_follows_none(r)) return;
  if (own >= 0 && before >= 0 && own - before < period) own = state->opens[OWN] = WRONG;
  if (before >= 0 && state->at_us - before < period) {
    state->start_us = before;
  } else if (own >= 0) {
    state->start_us = own;
  } else {
    if (own != CLOSED) return;
    quota_aim(r, (state->group + 1) * period);
    state->opens[BEFORE] = CLOSED;
    return;
  }
  r->place = state->start_us;
  memory->known = true;
  memory->start_us = state->start_us;
  memory->count = memory->reported = 0;
  memory->read_us = r->frame->clock_us;
}

/* On the key of one of the three groups; nothing was opened before the epoch. On the key of a window
 * rests what is charged to the window. */
static weir_operation *quota_plan_open(weir_rule_state *r, weir_operation_kind kind, int which) {
  const quota_memory *memory = r->memory;
  int64_t group = ((const quota_state *)r->state)->group + which - OWN;
  if (group < 0) return NULL;
  weir_operation *operation = weir_plan(r, kind, WEIR_PLACE_OPEN, group);
  if (kind == WEIR_GET && memory->start_us / r->rule->period_us == group)
    operation->stake = weir_plan_stake(memory->count, r->rule->limit);
  return operation;
}

/* Whether an expected window is still in use by this clock: longer than that no key has to live. */
static bool quota_is_held(const weir_rule_state *r, int64_t start_us) {
  return r->frame->clock_us - start_us < r->rule->period_us;
}

/* The latest start that an honest clock may have stored: that of now; for a refund, of the time of its stamp. */
static int64_t quota_latest_us(const weir_rule_state *r) {
  int64_t latest_us = r->frame->now_us, back_us = quota_back_us(r);
  if (quota_is_stamp(back_us) && back_us > latest_us) latest_us = back_us;
  return latest_us + r->frame->settings->ahead_us;
}

/* What the key of a group holds: a start, or why there is none. */
static int64_t quota_found(const weir_rule_state *r, const weir_operation *operation) {
  int64_t period = r->rule->period_us, begin = operation->counter.index * period;
  int64_t value = operation->value, latest_us = quota_latest_us(r);
  if (operation->outcome == WEIR_ABSENT) return ABSENT;
  if (value == 0) return begin + period <= latest_us ? CLOSED : WRONG;
  bool is_start = value > begin && value <= begin + period && value <= latest_us + 1;
  return is_start ? value - 1 : WRONG;
}

/* Takes in what the key of a group holds. The window that this process charges is named by a key that never
 * changes; of a window in use, it says whether it is still the one that is stored. A group that was opened and
 * is not is lost to eviction, or was just overwritten: from the start. */
static void quota_answer_open(weir_rule_state *r, const weir_operation *operation) {
  quota_state *state = r->state;
  quota_memory *memory = r->memory;
  int64_t group = operation->counter.index, expected = r->expected->index;
  int64_t value = operation->outcome == WEIR_DONE ? operation->value : -1;
  if (operation->kind != WEIR_GET) return;
  if (expected / r->rule->period_us == group && value != expected + 1 && quota_is_held(r, expected))
    weir_expect_compare(r, expected, 0);
  if (state->start_us >= 0 &&
      (r->frame->phase == WEIR_PHASE_CHARGE || r->frame->phase == WEIR_PHASE_LOOK)) {
    memory->known = value == state->start_us + 1;
    memory->read_us = r->frame->clock_us;
    return;
  }

  int64_t found = quota_found(r, operation);
  if (state->opening && (found == ABSENT || found == WRONG)) r->conflict = true;
  state->opening = false;
  state->opens[group - state->group + OWN] = found;
}

/* --- rounds ------------------------------------------------------------------------------------
 */

/* Reads the key that opened the window along; a store that evicts by stakes learns its stake. */
static void quota_plan_start(weir_rule_state *r, int64_t charged) {
  int64_t group = ((const quota_state *)r->state)->start_us / r->rule->period_us;
  weir_plan(r, WEIR_GET, WEIR_PLACE_OPEN, group)->stake = weir_plan_stake(charged, r->rule->limit);
}

/* Whether the window of what goes back is over: one that was found to be, or one that is nowhere and was to be
 * over by now if it was ever there. */
static bool quota_is_over(const weir_rule_state *r, int64_t back_us) {
  const quota_state *state = r->state;
  bool found = state->start_us >= 0;
  bool nowhere = state->opens[BEFORE] != UNREAD && state->opens[OWN] != UNREAD;
  int64_t began_us = found ? state->start_us : back_us;
  return (found || nowhere) && r->frame->now_us - began_us >= r->rule->period_us;
}

/* The window before, if it is still open, is wanted first: a stamp then belongs to one window,
 * whatever is opened after it. The moment of what goes back is that of its charge; a stamp that no clock
 * makes is refused later. A settlement whose charge is in a window that is over is told of now.
 *
 * With leases what is known denies until the next look: so a look reads along what will soon be too old. */
static void quota_look(weir_rule_state *r) {
  quota_state *state = r->state;
  int64_t back_us = quota_back_us(r), now_us = r->frame->now_us;
  bool settles = r->frame->settles, is_stamp = quota_is_stamp(back_us);
  if (state->counted) return;
  quota_ask_anew(r);
  if (r->step++ == 0 && quota_gives_back(r) && !(settles && quota_covers(r, back_us)))
    quota_aim(r, is_stamp ? back_us : now_us);
  quota_find_window(r);
  if (settles && is_stamp && !state->over && quota_is_over(r, back_us)) {
    state->over = true;
    quota_aim(r, now_us);
  }
  if (state->start_us >= 0) {
    quota_plan_count(r, WEIR_GET, state->start_us);
    if (r->rule->lease_us > 0 && quota_is_ageing(r))
      quota_plan_start(r, ((const quota_memory *)r->memory)->count);
  } else if (state->opens[OWN] == UNREAD) {
    if (state->opens[BEFORE] == UNREAD) quota_plan_open(r, WEIR_GET, BEFORE);
    quota_plan_open(r, WEIR_GET, OWN);
  }
}

/* Closes the group before, unless something opened in it. */
static void quota_plan_closing(weir_rule_state *r) {
  if (r->frame->requests->ask.terms != WEIR_AHEAD_NEXT)
    quota_plan_open(r, WEIR_CREATE, BEFORE); /* with 0 */
  quota_plan_open(r, WEIR_GET, BEFORE);
}

/* Opens a window: first its count, then its name. Is the group before closed after that, still? */
static void quota_plan_opening(weir_rule_state *r, weir_operation_kind kind, int64_t start_us) {
  quota_state *state = r->state;
  int which = (int)(start_us / r->rule->period_us - state->group) + OWN;
  weir_plan(r, WEIR_CREATE, WEIR_PLACE_COUNT, start_us);
  quota_plan_open(r, kind, which)->value = start_us + 1;
  quota_plan_open(r, WEIR_GET, which);
  if (which == OWN) quota_plan_open(r, WEIR_GET, BEFORE);
  state->opening = state->opened = true;
}

/* Where none is open: the start of the one that a charge opens. */
static int64_t quota_next_start_us(const weir_rule_state *r) {
  const quota_state *state = r->state;
  int64_t period = r->rule->period_us;
  if (state->opens[OWN] != WRONG) return state->at_us;
  return state->opens[BEFORE] >= 0 ? state->opens[BEFORE] + period : state->group * period;
}

/* A window whose count is lost makes way for one that begins a microsecond later. Where that is in the next
 * group its own is closed, as that group then opens one as of its begin. */
static void quota_plan_after_loss(weir_rule_state *r) {
  quota_state *state = r->state;
  int64_t period = r->rule->period_us, next_us = state->lost_us + 1;
  int which = (int)(state->lost_us / period - state->group) + OWN;
  if (next_us % period != 0) {
    quota_plan_opening(r, WEIR_PUT, next_us);
  } else {
    quota_plan_open(r, WEIR_PUT, which)->value = 0;
    quota_plan_open(r, WEIR_GET, which);
  }
  ((quota_memory *)r->memory)->known = false;
  state->start_us = r->place = -1;
}

/* Seeks the window of a charge: closes the group before, then opens its own. Closing before it is known whether
 * it must be costs a round less, and does no harm: this clock is past the group before. When its own is opened,
 * the group before is decided, and its window, if any, is over. False: it is known. */
static bool quota_plan_seeking(weir_rule_state *r) {
  quota_state *state = r->state;
  if (state->start_us < 0 && state->opens[BEFORE] == ABSENT) {
    quota_plan_closing(r); /* it was closed, and the store has lost that */
    return true;
  }
  quota_find_window(r);
  if (state->start_us >= 0) return false;
  bool wrong = state->opens[OWN] == WRONG;
  if (state->opens[OWN] == UNREAD) {
    quota_plan_open(r, WEIR_GET, OWN);
    if (state->opens[BEFORE] == UNREAD) quota_plan_closing(r);
  } else if (wrong && !state->read_again) { /* it may have been lost since, and opened by others */
    state->read_again = true;
    quota_plan_open(r, WEIR_GET, OWN);
  } else {
    quota_plan_opening(r, wrong ? WEIR_PUT : WEIR_CREATE, quota_next_start_us(r));
  }
  return true;
}

/* Adds to the window, once it is known.
 *
 * With knowledge that will soon be too old, the key that opened the window is read along: a key in
 * steady use never needs a round more. A store that evicts by stakes is told whenever the count has
 * doubled, so that it knows of half of what rests on that key, or more; and by a process that knows
 * the key anew as soon as it knows the count. */
static void quota_charge(weir_rule_state *r) {
  const quota_state *state = r->state;
  quota_memory *memory = r->memory;
  const weir_settings *settings = r->frame->settings;
  if (r->charged || r->full) return;
  quota_ask_anew(r);
  if (quota_follows_none(r) || quota_plan_seeking(r)) return;
  if (state->start_us == state->lost_us) {
    quota_plan_after_loss(r);
    return;
  }
  int64_t charged = memory->count + r->charge;
  bool grew =
      settings->traits & WEIR_TRAIT_STAKE && memory->count > 0 && charged >= 2 * memory->reported;
  if (grew) memory->reported = charged;
  quota_plan_add(r, state->start_us);
  if (quota_is_ageing(r) || grew) quota_plan_start(r, charged);
}

/* A reset reads, then drops: three groups, as this clock may be late or early. A process that
 * remembers the window asks anew, as after a loss; what is under way meanwhile may be charged to the
 * old one, with which a window that opens then may overlap. */
static void quota_plan(weir_rule_state *r, weir_phase phase) {
  const quota_state *state = r->state;
  if (phase == WEIR_PHASE_LOOK) {
    quota_look(r);
  } else if (phase == WEIR_PHASE_CHARGE) {
    quota_charge(r);
  } else if (phase == WEIR_PHASE_TAKE_BACK && r->step++ == 0) {
    quota_plan_count(r, WEIR_SUB, state->start_us)->delta = r->unused;
    if (r->frame->settings->traits & WEIR_TRAIT_STAKE) quota_plan_start(r, state->count);
  } else if (phase == WEIR_PHASE_RESET && r->step < 2) {
    bool drops = r->step++ == 1;
    for (int which = BEFORE; which < GROUPS; which++) {
      quota_plan_open(r, drops ? WEIR_DROP : WEIR_GET, which);
      if (drops && state->opens[which] >= 0)
        weir_plan(r, WEIR_DROP, WEIR_PLACE_COUNT, state->opens[which]);
    }
  }
}

/* A window that was opened without the store makes way for the store's. */
static void quota_store(weir_rule_state *r, const weir_known *known, bool afresh) {
  const quota_state *state = r->state;
  const weir_rule *rule = r->rule;
  int64_t start = known->count > 0 ? known->charges[0].at_us : -1;
  int64_t count = known->count > 0 ? weir_known_here(rule, known->charges[0].amount) : 0;
  weir_operation_kind writes = afresh ? WEIR_PUT : WEIR_CREATE;
  if (start >= 0) {
    weir_operation *counter = weir_plan(r, writes, WEIR_PLACE_COUNT, start);
    counter->value = count;
    counter->stake = weir_plan_stake(count, rule->limit);
  }
  for (int64_t group = state->group - 1; group <= state->group + 1; group++) {
    bool here = start >= 0 && start / rule->period_us == group;
    if (group < 0 || !(here || afresh)) continue;
    weir_operation *open = weir_plan(r, here ? writes : WEIR_DROP, WEIR_PLACE_OPEN, group);
    open->value = start + 1;
    open->stake = weir_plan_stake(count, rule->limit);
  }
}

/* A count that was read, or an addition's total without its own cost. */
static void quota_answer_count(weir_rule_state *r, const weir_operation *operation) {
  quota_state *state = r->state;
  quota_memory *memory = r->memory;
  int64_t stored = weir_stored_before(operation);
  bool lost = operation->outcome == WEIR_ABSENT || weir_count_is_lost(r->rule, stored);
  bool asked = operation->kind == WEIR_GET && state->opens[OWN] != UNREAD; /* for the name, too */
  int64_t count = lost ? 0 : weir_count_of(stored);
  if (lost) memory->known = false;
  state->gone = lost && !asked;
  if (state->gone) {
    r->full = false; /* nothing was charged, and all is asked anew */
  } else {
    bool adds = operation->kind == WEIR_ADD && operation->outcome == WEIR_DONE;
    state->counted = state->counted || (operation->kind != WEIR_SUB && !adds);
    r->charged = r->charged || adds;
  }
  if (quota_is_held(r, state->start_us)) weir_expect_found(r, state->start_us, count);
  state->count = memory->count = count;
}

/* What a settlement has taken off is the last that it does: the total is what there is. */
static void quota_answer(weir_rule_state *r, const weir_operation *operation) {
  bool reads = operation->kind == WEIR_GET || operation->kind == WEIR_ADD;
  bool settles = operation->kind == WEIR_SUB && r->frame->settles;
  if (operation->counter.place == WEIR_PLACE_OPEN)
    quota_answer_open(r, operation);
  else if (reads || settles)
    quota_answer_count(r, operation);
}

/* --- a plain charge ----------------------------------------------------------------------------
 */

/* Of a window that is known, and whose key need not be read along. */
static bool quota_plan_plain(weir_rule_state *r) {
  const quota_memory *memory = r->memory;
  const weir_settings *settings = r->frame->settings;
  if (settings->traits & WEIR_TRAIT_STAKE || !quota_is_usable(r) || quota_is_ageing(r))
    return false;
  r->place = memory->start_us;
  quota_plan_add(r, r->place);
  return true;
}

static bool quota_end_plain(weir_rule_state *r, const weir_operation *operation) {
  quota_memory *memory = r->memory;
  int64_t count = weir_count_of(weir_stored_before(operation));
  if (!weir_plain_fits(r, count, count)) return false;
  if (quota_is_held(r, r->place)) weir_expect_found(r, r->place, count);
  memory->count = count + r->charge;
  r->reset_after_us = r->place + r->rule->period_us - r->frame->now_us;
  return true;
}

/* --- deciding ----------------------------------------------------------------------------------
 */

static int64_t quota_room(const weir_rule_state *r, const weir_ask *ask) {
  const quota_state *state = r->state;
  int64_t limit = weir_ask_capacity(r->rule, ask);
  if (quota_follows_none(r)) return 0;
  return state->count < limit ? limit - state->count : 0;
}

static int64_t quota_count(weir_rule_state *r, int64_t cost) {
  quota_memory *memory = r->memory;
  memory->count += cost;
  return ((quota_state *)r->state)->count += cost;
}

/* A look counts what it lets pass, of which the first is to open the window. */
static void quota_figures(const weir_rule_state *r, const weir_ask *ask, int64_t cost, bool denied,
                          weir_decision *decision) {
  const quota_state *state = r->state;
  (void)cost;
  int64_t start_us = state->start_us;
  if (start_us < 0 && state->count > 0) start_us = quota_next_start_us(r);
  int64_t left = start_us >= 0 ? start_us + r->rule->period_us - r->frame->now_us : 0;
  decision->remaining = quota_room(r, ask);
  if (denied) decision->retry_after_us = left;
  decision->reset_after_us = state->count > 0 || !state->opened ? left : 0;
}

static void quota_expect(weir_rule_state *r, int64_t cost) {
  const quota_memory *memory = r->memory;
  weir_expect_count(r, r->place, r->rule->period_us, memory->count, cost);
}

/* Where the window of the stamp is not to be found it was lost, or reset: less is charged than was,
 * which matters only as long as that window would be open. */
static bool quota_refund(weir_rule_state *r, const weir_ask *ask, int64_t cost) {
  const quota_state *state = r->state;
  quota_memory *memory = r->memory;
  bool found = state->start_us >= 0;
  int64_t count = state->counted ? state->count : memory->count;
  r->unused = 0;
  if (state->over) return true;
  if (!r->frame->settles) memory->known = false; /* perhaps it is not the window of now */
  if (!quota_is_stamp(ask->at_us)) return false;
  int64_t start_us = found ? state->start_us : ask->at_us;
  if (r->frame->now_us - start_us >= r->rule->period_us) return true;
  if (!found || count < cost) return false;
  r->unused = cost;
  return true;
}

/* A count that is as old as a plain charge may have it. */
static bool quota_sure(const weir_rule_state *r, int64_t at_us, int64_t cost) {
  const quota_memory *memory = r->memory;
  return quota_covers(r, at_us) && memory->count >= cost;
}

static int64_t quota_overrun(const weir_rule_state *r, int64_t cost) {
  int64_t limit = weir_ask_capacity(r->rule, &r->frame->requests->ask);
  int64_t room = limit + r->rule->debt - ((const quota_state *)r->state)->count;
  return room < 0 ? 0 : cost < room ? cost : room;
}

/* --- by the memory alone -----------------------------------------------------------------------
 */

static bool quota_recall(weir_rule_state *r) {
  const quota_memory *memory = r->memory;
  quota_state *state = r->state;
  bool usable = quota_is_usable(r);
  const quota_memory *laid_by = usable ? NULL : quota_laid_by(r);
  if (laid_by != NULL) memory = laid_by;
  state->start_us = memory->start_us;
  state->count = memory->count;
  return usable || laid_by != NULL;
}

static int64_t quota_next(const weir_rule_state *r) {
  return ((const quota_state *)r->state)->start_us + r->rule->period_us;
}

static void quota_lay_by(void *memory, const void *next, int64_t now_us) {
  const quota_memory *from = next;
  quota_memory *kept = memory;
  if (!from->known) return;
  if (from->start_us != kept->start_us) kept++;
  *kept = *from;
  if (kept->read_us > now_us) kept->read_us = now_us;
}

/* Without a lease nothing looks behind the memory. */
static void quota_drop_next(void *memory) {
  (void)memory;
}

static void quota_known(const weir_rule_state *r, weir_known *known) {
  const quota_memory *memory = r->memory;
  if (memory->read_us == 0 || r->frame->now_us - memory->start_us >= r->rule->period_us) return;
  known->charges[0].at_us = memory->start_us;
  known->charges[0].amount = weir_known_parts(r->rule, memory->count);
  known->count = 1;
}

static void quota_forget(void *memory) {
  quota_memory *cached = memory;
  cached->known = false;
  cached->reported = 0;
}

static void quota_doubt(void *memory, int64_t place, int64_t cost) {
  quota_memory *cached = memory;
  if (cached->start_us == place) cached->count = cached->count > cost ? cached->count - cost : 0;
}

static const weir_plain_table quota_plain = {.plan = quota_plan_plain, .end = quota_end_plain};

static const weir_windows_table quota_windows = {
    .next_bytes = sizeof(quota_memory),
    .next = quota_next,
    .lay_by = quota_lay_by,
    .drop_next = quota_drop_next,
    .sure = quota_sure,
};

static const weir_settling_table quota_settling = {.blind = weir_always_blind,
                                                   .overrun = quota_overrun};

const weir_method weir_quota_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .needs = WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB | WEIR_NEED_CREATE | WEIR_NEED_PUT,
    .bounds = true,
    .memory_bytes = sizeof(quota_memory),
    .state_bytes = sizeof(quota_state),
    .operations_most = 2 * GROUPS, /* a reset: all that is known of three groups */
    .ttl_us = quota_ttl_us,
    .begin = quota_begin,
    .blind = weir_always_blind, /* a window opens only where the request that opens it fits */
    .plan = quota_plan,
    .store = quota_store,
    .answer = quota_answer,
    .room = quota_room,
    .oldest_us = weir_read_now_us,
    .count = quota_count,
    .figures = quota_figures,
    .expect = quota_expect,
    .refund = quota_refund,
    .recall = quota_recall,
    .known = quota_known,
    .forget = quota_forget,
    .doubt = quota_doubt,
    .plain = &quota_plain,
    .windows = &quota_windows,
    .settling = &quota_settling,
};

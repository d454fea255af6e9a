/* Shared windows: a tenant's floor is its own, and what all leave of the limit is lent (docs/shares.md).
 *
 *     charge      ADD the tenant's own count; ADD what is expected to be within its floor to F, the rest to B,
 *                 and GET what says how much may be lent
 *                 what the own count shows to be above the floor moves: ADD to B, SUB from F, and GET anew
 *     look        GET the own count, and what says how much may be lent; nothing, where the level has stopped
 *                 the tenant in this cell before and stops all that it asks now
 *     take_back   SUB from the own count, and from B, or, where nothing is decided, from F as well
 *     settle      up: ADD to B, and GET what says how much may be lent; down: SUB from B in the cell of the stamp,
 *                 and from F what B has not
 *
 * Promises. What is charged within a floor is admitted by the own count alone: so no other tenant can take
 * it, and all floors of a cell come to Cf at the most. What is lent is admitted on the B that its own
 * addition returned, with all cells that can still change read behind that. Of all that are lent in cells
 * m-N to m, the one that added last saw all others, and left room for every floor that may come after it.
 * What is charged in vain, or counts in F and B at once while it moves, only denies.
 *
 * What a request really cost is settled in B, wherever the request was charged, and never in the own count: up it
 * is lent, to L + D, and takes no floor; down the tenant's floor in that cell stays used by the whole charge. So
 * a floor that turns out smaller leaves Cf less of itself than B has lost. B has room for it at once, and F once the
 * cell is final; but what is not there cannot be taken from: so F gives what B has not.
 *
 * F is never read of the current cell, as Cf stands for it: so a floor needs no word with those who lend.
 *
 * The level steers, and promises nothing: up to where all who ask for more are let go, alike by weight.
 * Each cell has one that is made once, by whoever comes first, out of what the cell before it has seen: a
 * step of Newton's towards the level at which all that is asked below it fills the limit. It is lost, late or
 * counted wrongly at the cost of a cell's fairness alone.
 *
 * F and B are counters of their own, as a process charges several tenants at once: no lane is wide enough for
 * what all of them may charge in vain.
 */
#include "algorithm/shared.h"

#include "algorithm/method.h"
#include "algorithm/plan.h"
#include "algorithm/window.h"
#include "wide.h"

/* --- arithmetic --------------------------------------------------------------------------------
 */

static int64_t division_floors(int64_t division) {
  return division >> WEIR_DIVISION_PERCENT_BITS & WEIR_DIVISION_PERCENT;
}

static int64_t division_room(int64_t division) {
  return division & WEIR_DIVISION_PERCENT;
}

static int64_t division_weights(int64_t division) {
  return division >> 2 * WEIR_DIVISION_PERCENT_BITS;
}

/* Whether some process can have said it. */
static bool division_is_sound(int64_t division) {
  return division_floors(division) >= 1 && division_floors(division) <= division_room(division) &&
         division_room(division) <= 100;
}

/* Before its end + x, and of one that was read before that, floors may be missing. */
static bool is_final(const weir_rule *rule, const weir_pool_cell *cells, int64_t first, int i,
                     int64_t final_us) {
  return cells[i].read_us >= (first + i + 1) * rule->cell_us + final_us;
}

int64_t weir_pool_lendable(const weir_rule *rule, const weir_pool_cell *cells, int64_t first,
                           int64_t final_us, int64_t room) {
  int current = rule->cells, open = 1;
  int64_t before = 0, most = 0;
  for (int j = current; j >= 0; j--) { /* of the latest end, the least cells count */
    bool counts = j < current && first + j >= 0, final = is_final(rule, cells, first, j, final_us);
    if (counts) before += cells[j].lent + (final ? cells[j].floors + cells[j].others : 0);
    if (counts && !final) open++;
    int64_t all = before + (j > 0 ? cells[current + 1].lent : 0);
    all += weir_rule_room_whole((open + j) * room);
    if (all > most) most = all;
  }
  return rule->limit - most - cells[current].lent;
}

/* Floors become more only where a whole period's loans have left room for that. */
int64_t weir_division_next(int64_t before, int64_t own) {
  int64_t floors = division_floors(own), room = floors;
  if (before == 0) return own;
  if (floors > division_room(before)) floors = division_room(before);
  if (room < division_floors(before)) room = division_floors(before);
  return weir_division_pack(division_weights(own), floors, room);
}

/* Where those who are stopped weigh 1 at least. */
static int64_t highest_level(const weir_rule *rule) {
  return INT64_C(3) * WEIR_LEVEL_PARTS * rule->limit / (INT64_C(2) * rule->cells);
}

/* Where nobody is stopped the level follows what is left over as if one tenant were, up to where that one could
 * have all. */
int64_t weir_level_next(const weir_rule *rule, const weir_level_before *before) {
  int64_t parts = WEIR_LEVEL_PARTS;
  int64_t least = parts * rule->floor_of_cell / rule->weight_of_all;
  int64_t most = highest_level(rule);
  int64_t aim = 102 * rule->limit / (INT64_C(100) * rule->cells); /* above L/N, the bound stops */
  int64_t gap = aim - before->used - before->missed;
  int64_t level = before->level > 0 ? before->level : least;
  int64_t stopped = before->stopped > 0 ? before->stopped : WEIR_WEIGHT_PARTS;
  weir_wide next = level + (weir_wide)parts * gap * WEIR_WEIGHT_PARTS / stopped;
  if (before->stopped < WEIR_WEIGHT_PARTS && before->stopped > 0) most *= WEIR_WEIGHT_PARTS;
  if (next > most) next = most;
  if (next < least) next = least;
  return next > 0 ? (int64_t)next : 1;
}

int64_t weir_level_most(int64_t level, int64_t weight) {
  const weir_wide parts = (weir_wide)WEIR_LEVEL_PARTS * WEIR_WEIGHT_PARTS;
  weir_wide most = (weir_wide)level * weight / parts;
  return most < WEIR_COUNT_MOST ? (int64_t)most : WEIR_COUNT_MOST; /* whatever the store says */
}

/* Of `others`, what the floors of all come to who are not named: that of those who come. */
static int64_t part_of_newcomers(int64_t others) {
  enum { OF_ALL = 20 };
  return others >= OF_ALL ? others / OF_ALL : 1;
}

/* One who comes has half of what there is for all who do. */
static int64_t other_floor(int64_t others, int64_t seen) {
  int64_t coming = part_of_newcomers(others);
  if (seen > 0) return (others - coming) / seen;
  return coming > 1 ? coming / 2 : 1;
}

int64_t weir_other_floor(const weir_rule *rule, int64_t seen) {
  return other_floor(weir_rule_floor(rule, rule->others), seen);
}

/* --- what is known -----------------------------------------------------------------------------
 */

/* What the store keeps of a cell, for the pool and for each tenant. */
enum {
  POOL_FLOORS = 1,
  POOL_LENT,
  POOL_LEVEL,
  POOL_STOPPED,
  POOL_MISSED,
  POOL_OTHERS,
  POOL_NEWCOMERS,
  POOL_SEEN,     /* by epoch */
  POOL_DIVISION, /* by period, ... */
  POOL_DISPUTED  /* ... as well */
};
enum { TENANT_OWN, TENANT_WANTED, TENANT_TOLD, TENANT_SEEN /* by epoch */, TENANT_KINDS };

enum { NOT_READ = -1, LONG_PAST = -1000 /* of an index: no cell that counts is so early */ };

typedef struct shared_state {
  /* Of the charge, what the store is certain to have: in the own count; and in F and B together. */
  int64_t own, floors, lent;
  int64_t kept;            /* of what is in B: admitted */
  int64_t within;          /* of what is in floors: admitted */
  int64_t newcomers;       /* of the charge, what counts among the floors of newcomers as well */
  int64_t among, coming;   /* what is there without it of all such floors, and of newcomers' */
  int64_t division_before; /* of the last period before that has one; 0: none was read */
  int64_t wanted; /* to be told of the tenant: what it asked below the level in vain, ... */
  int64_t missed; /* ... and to the pool: so much of that is new */
  weir_level_before before; /* as far as it is read */
  bool level_absent;        /* nobody has made the level of this cell */
  bool stopped;             /* to be told of the tenant: the level stops it, ... */
  bool tells_stopped;       /* ... and to the pool: nobody has told it before */
  bool comes;               /* it is new among others, and was charged as such */
  bool tells_seen;          /* to the pool: this tenant was not seen before in this epoch */
  bool brief;               /* this look has asked for the own count alone so far */
  bool telling;             /* what is to be told is found */
  bool recalls;             /* this phase asks nobody */
  bool reads;               /* this phase has read what says how much may be lent */
  bool asks_for_dispute; /* this charge has asked whether floors are divided otherwise elsewhere */
  bool makes_before; /* nobody has said how the period before is divided, and somebody still may */
} shared_state;
_Static_assert(sizeof(shared_state) <= WEIR_STATE_BYTES_MOST, "WEIR_STATE_BYTES_MOST");

static const weir_ask *asking(const weir_rule_state *r) {
  return r->frame->requests != NULL ? &r->frame->requests->ask : r->frame->asked;
}

/* Whether it is one of others=. */
static bool is_other(const weir_rule_state *r) {
  return asking(r)->weight == 0 && r->rule->others > 0;
}

/* How many share what others have, as far as that is known; 0: it comes new. */
static int64_t sharers_by(const weir_shared_memory *memory) {
  return memory->was_seen ? memory->seen : 0;
}

static int64_t sharers(const weir_rule_state *r) {
  return sharers_by(r->memory);
}

/* Whether that is so in this epoch; else it is guessed that one alone does. */
static bool knows_others(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  return memory->asked && memory->seen_epoch == memory->epoch;
}

/* --- how floors are divided --------------------------------------------------------------------
 *
 * What is agreed for a period is what its first process says, with floors that the loans of the period before have
 * left room for. Whoever divides them otherwise says so before it has floors, and these are counted in F for all.
 */

static int64_t period_of(const weir_rule_state *r) {
  return r->place / r->rule->cells;
}

static bool knows_division(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  return memory->division != 0 && memory->period == period_of(r);
}

static int64_t next_division(const weir_rule_state *r) {
  const shared_state *state = r->state;
  return weir_division_next(state->division_before, r->rule->division);
}

static int64_t division_of(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  return knows_division(r) ? memory->division : r->rule->division;
}

/* Whether this process has the weights that are agreed. */
static bool agrees(const weir_rule_state *r) {
  return division_weights(division_of(r)) == division_weights(r->rule->division);
}

static bool is_disputed(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  return memory->disputed == period_of(r) || !agrees(r);
}

/* Cf, and what is left for it in parts. */
static int64_t floors_of_cell(const weir_rule_state *r) {
  int64_t percent = division_floors(division_of(r));
  return percent == r->rule->floors ? r->rule->floor_of_cell : weir_rule_floors(r->rule, percent);
}

static int64_t room_of_cell(const weir_rule_state *r) {
  int64_t percent = division_room(division_of(r));
  return percent == r->rule->floors ? r->rule->room_of_cell : weir_rule_room(r->rule, percent);
}

/* What all who are not named have of Cf here; and of the one that is agreed, those who are. */
static int64_t others_floors(const weir_rule_state *r) {
  int64_t floors = floors_of_cell(r), others = weir_rule_floor_of(r->rule, floors, r->rule->others);
  int64_t agreed = floors * (division_weights(division_of(r)) & WEIR_DIVISION_ALL);
  if (agrees(r)) return others;
  agreed = agreed > floors ? (agreed - floors) / WEIR_DIVISION_ALL : 0;
  return agreed < others ? agreed : others;
}

static int64_t named_floors(const weir_rule_state *r) {
  int64_t floors = floors_of_cell(r);
  int64_t others = floors * (division_weights(division_of(r)) & WEIR_DIVISION_ALL);
  if (agrees(r)) return floors - others_floors(r);
  return floors - (others + WEIR_DIVISION_ALL - 1) / WEIR_DIVISION_ALL;
}

static bool is_named(const weir_rule *rule, const weir_ask *ask) {
  return ask->weight > 0 || rule->others == 0;
}

static int64_t own_floor(const weir_rule_state *r) {
  if (!is_named(r->rule, asking(r))) return other_floor(others_floors(r), sharers(r));
  return weir_rule_floor_of(r->rule, floors_of_cell(r), asking(r)->weight);
}

/* --- what a floor has left ---------------------------------------------------------------------
 */

/* By the own count alone, as far as r knows it. */
static int64_t own_left(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  return own_floor(r) - (memory->own_cell == r->place ? memory->own : 0);
}

/* For one of others=. What these have together is never more than theirs, however many they turn out to be. */
static int64_t other_left(const weir_rule_state *r, bool charges) {
  const weir_shared_memory *memory = r->memory;
  const shared_state *state = r->state;
  int64_t left = own_left(r), of_all = others_floors(r);
  if (charges && r->step == 0) return knows_others(r) ? left : other_floor(of_all, 1) - memory->own;
  int64_t coming = part_of_newcomers(of_all) - state->coming;
  of_all -= state->among;
  if (charges && coming > state->newcomers - state->within)
    coming = state->newcomers - state->within;
  if (left > of_all) left = of_all;
  bool comes = sharers(r) == 0 && (state->comes || !charges);
  return comes && left > coming ? coming : left;
}

/* The same of any tenant. While floors are divided otherwise elsewhere, those of all who are named are looked at. */
static int64_t floor_room(const weir_rule_state *r, bool charges) {
  const shared_state *state = r->state;
  if (is_other(r)) return other_left(r, charges);
  int64_t left = own_left(r), named = named_floors(r) - state->among;
  bool counted = r->frame->phase == WEIR_PHASE_CHARGE && r->step > 0;
  return counted && is_disputed(r) && left > named ? named : left;
}

/* What is left of the floor on top of what r believes. Of a charge only what is counted among floors is one; a peek
 * beside it is charged nothing. */
static int64_t floor_left(const weir_rule_state *r, bool peeks) {
  const shared_state *state = r->state;
  bool charges = r->frame->phase == WEIR_PHASE_CHARGE && !peeks;
  int64_t left = floor_room(r, charges), counted = state->floors - state->within;
  return charges && r->step > 0 && left > counted ? counted : left;
}

/* In parts. Who has no floor is let go as one of the weight 1. */
static int64_t weight_of(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  if (!is_other(r)) return WEIR_WEIGHT_PARTS * (asking(r)->weight > 0 ? asking(r)->weight : 1);
  int64_t all = memory->seen + !memory->was_seen;
  int64_t weight = WEIR_WEIGHT_PARTS * r->rule->others / (all > 0 ? all : 1);
  return weight > 0 ? weight : 1;
}

/* As long as a cell counts anywhere. */
static int64_t shared_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return rule->period_us + 3 * rule->cell_us + settings->final_us + WEIR_TTL_SLACK_US;
}

static int64_t epoch_of(const weir_rule_state *r) {
  return r->place / WEIR_EPOCH_CELLS;
}

/* Whoever this process has seen in the epoch before needs not be asked for. */
static void begin_epoch(weir_shared_memory *memory, int64_t epoch) {
  if (memory->epoch == epoch) return;
  memory->was_seen = memory->asked = memory->marked && memory->epoch == epoch - 1;
  memory->marked = false;
  memory->epoch = epoch;
}

/* What is known of cells that are still there stays. */
static void move_to(const weir_rule *rule, weir_shared_memory *memory, int64_t first) {
  int64_t shift = first - memory->first;
  int room = weir_cells_room(rule);
  for (int n = 0; n < room && shift != 0; n++) {
    int to = shift > 0 ? n : room - 1 - n;
    int64_t from = to + shift;
    bool cached = from >= 0 && from < room;
    memory->cells[to] = cached ? memory->cells[from] : (weir_pool_cell){.read_us = NOT_READ};
  }
  memory->first = first;
}

static void shared_begin(weir_rule_state *r) {
  weir_shared_memory *memory = r->memory;
  r->place = r->frame->now_us / r->rule->cell_us;
  move_to(r->rule, memory, r->place - r->rule->cells);
  if (memory->own_cell != r->place) memory->own = 0;
  memory->own_cell = r->place;
  if (is_other(r)) begin_epoch(memory, epoch_of(r));
}

/* What is the pool's: of each cell what was read last, the newest level, and the number of others. */
static void shared_share(const weir_rule *rule, void *memory, const void *other) {
  weir_shared_memory *to = memory;
  const weir_shared_memory *from = other;
  int room = weir_cells_room(rule);
  if (from->first > to->first) move_to(rule, to, from->first);
  int64_t shift = to->first - from->first;
  for (int n = 0; n + shift < room && n < room; n++)
    if (from->cells[n + shift].read_us > to->cells[n].read_us)
      to->cells[n] = from->cells[n + shift];
  if (from->level_cell > to->level_cell) {
    to->level = from->level;
    to->level_cell = from->level_cell;
  }
  if (from->seen_epoch > to->seen_epoch) {
    to->seen = from->seen;
    to->seen_epoch = from->seen_epoch;
  }
  if (from->period > to->period) {
    to->division = from->division;
    to->period = from->period;
  }
  if (from->disputed > to->disputed) to->disputed = from->disputed;
}

/* --- what may be had ---------------------------------------------------------------------------
 */

static int64_t lendable(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  return weir_pool_lendable(r->rule, memory->cells, memory->first, r->frame->settings->final_us,
                            room_of_cell(r));
}

/* While less than half of what may be lent at once is lent, no level stops anybody. */
static int64_t free_of(const weir_rule *rule, int64_t lendable) {
  int64_t lent_most = rule->limit - rule->limit * rule->floors / 100;
  return lent_most > 0 ? lendable - lent_most / 2 : 0;
}

static int64_t free_of_level(const weir_rule_state *r) {
  return free_of(r->rule, lendable(r));
}

/* What a request never has is more than any level lets go, of a pool that has lent nothing. Where some are not
 * named, or there are other limits, levels may be higher. */
static bool never_fits(const weir_rule_state *r, int64_t cost) {
  const weir_rule *rule = r->rule;
  return rule->others == 0 && rule->most == 0 && cost > own_floor(r) &&
         cost > weir_rule_floor(rule, asking(r)->weight) && cost > free_of(rule, rule->capacity) &&
         cost > weir_level_most(highest_level(rule), weight_of(r));
}

static int64_t level_room(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  int64_t level = memory->level_cell == r->place ? memory->level : 0;
  return weir_level_most(level, weight_of(r)) - memory->own;
}

/* What costs more is stopped by the level. */
static int64_t unstopped_most(const weir_rule_state *r) {
  int64_t level = level_room(r), free = free_of_level(r);
  return level > free ? level : free;
}

/* What this tenant may borrow, once what says that is read. */
static int64_t loan_room(const weir_rule_state *r) {
  int64_t lent = lendable(r), level = level_room(r), free = free_of_level(r);
  if (lent > level) lent = level;
  return lent < free ? free : lent;
}

/* What is charged ahead is within the floor, or is not. */
static int64_t shared_room(const weir_rule_state *r, const weir_ask *ask) {
  const shared_state *state = r->state;
  int64_t room = floor_left(r, !weir_ask_charges(ask));
  if (state->reads && !weir_ask_is_ahead(ask)) {
    int64_t lent = loan_room(r);
    if (room < lent) room = lent;
  }
  return room > 0 ? room : 0;
}

/* What is lent counts in the cell as well. */
static int64_t shared_count(weir_rule_state *r, int64_t cost) {
  weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  if (r->frame->settles) {
    memory->cells[r->rule->cells].lent += cost;
    state->kept += cost;
    return 0;
  }
  bool is_lent = cost > 0 ? cost > floor_left(r, false) : memory->own > own_floor(r);
  memory->own += cost;
  if (!is_lent) {
    state->within += cost;
    state->among += cost;
    state->coming += cost;
    return 0;
  }
  memory->cells[r->rule->cells].lent += cost;
  state->kept += cost;
  return 0;
}

static void shared_figures(const weir_rule_state *r, const weir_ask *ask, int64_t cost, bool denied,
                           weir_decision *decision) {
  int64_t end_us = (r->place + 1) * r->rule->cell_us;
  decision->remaining = shared_room(r, ask);
  if (((const shared_state *)r->state)->recalls) decision->source = WEIR_SOURCE_LOCAL;
  if (denied)
    decision->retry_after_us = never_fits(r, cost) ? WEIR_NEVER : end_us - r->frame->now_us;
  decision->reset_after_us = end_us + r->rule->period_us - r->frame->now_us;
}

/* --- answers -----------------------------------------------------------------------------------
 */

static int64_t tenant_entry(const weir_rule_state *r, int kind) {
  return asking(r)->tenant_number * TENANT_KINDS + kind;
}

/* What is told is told on top of what the last answer showed: so much of it is below the level. */
static void answer_wanted(weir_rule_state *r, const weir_operation *operation) {
  shared_state *state = r->state;
  int64_t below = level_room(r) > 0 ? level_room(r) : 0;
  int64_t before = operation->value - operation->delta, after = operation->value;
  state->missed = (after < below ? after : below) - (before < below ? before : below);
  if (state->missed < 0) state->missed = 0;
  if (after >= below) state->stopped = true;
}

/* A mark: of the epoch before it is read, of this one it is made or read. */
static void answer_mark(weir_rule_state *r, const weir_operation *operation) {
  weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  if (operation->counter.index == memory->epoch) {
    memory->marked = true;
    state->tells_seen = operation->outcome == WEIR_DONE;
  } else {
    memory->asked = true;
    memory->was_seen = operation->outcome == WEIR_DONE;
  }
}

static void answer_tenant(weir_rule_state *r, const weir_operation *operation) {
  weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  int kind = (int)(operation->counter.entry % TENANT_KINDS);
  int64_t found = operation->outcome == WEIR_DONE ? operation->value : 0;
  if (kind == TENANT_WANTED) {
    answer_wanted(r, operation);
  } else if (kind == TENANT_SEEN) {
    answer_mark(r, operation);
  } else if (kind == TENANT_TOLD) {
    memory->told_cell = r->place;
    state->tells_stopped = operation->outcome == WEIR_DONE;
  } else if (operation->kind == WEIR_ADD || operation->kind == WEIR_GET) {
    int64_t added = operation->kind == WEIR_ADD ? operation->delta : 0;
    state->own += added;
    if (added > 0) r->charged = true;
    weir_expect_found(r, r->place, found - added);
    memory->own = weir_count_of(found - added);
  }
}

/* What an addition found there without all of this charge, else what there is. */
static int64_t found_without(const weir_operation *operation, int64_t *charged) {
  int64_t found = operation->outcome == WEIR_DONE ? operation->value : 0;
  if (operation->kind == WEIR_ADD) *charged += operation->delta;
  return weir_count_of(operation->kind == WEIR_ADD ? found - *charged : found);
}

/* A cell is final once all of it was read as that: a round that fails may have brought some of it alone. Until then
 * read_us says, below 0, which parts were read when. */
static void read_part(const weir_rule_state *r, weir_pool_cell *cell,
                      const weir_operation *operation) {
  enum { LENT = 1, FLOORS = 2, OTHERS = 4, PARTS_BITS = 3 };
  int entry = (int)operation->counter.entry;
  int64_t part = entry == POOL_LENT ? LENT : entry == POOL_OTHERS ? OTHERS : FLOORS;
  int64_t all = LENT | FLOORS | (r->rule->others > 0 ? OTHERS : 0);
  int64_t now_us = r->frame->now_us, end_us = (operation->counter.index + 1) * r->rule->cell_us;
  int64_t before = cell->read_us < 0 ? -cell->read_us : 0;
  if (before >> PARTS_BITS == now_us) part |= before & ((1 << PARTS_BITS) - 1);
  bool whole = part == all || now_us < end_us + r->frame->settings->final_us;
  cell->read_us = whole ? now_us : -(now_us << PARTS_BITS | part);
}

static int64_t *counted(weir_pool_cell *cell, int64_t entry) {
  return entry == POOL_LENT ? &cell->lent : entry == POOL_OTHERS ? &cell->others : &cell->floors;
}

/* A cell of the pool. */
static void answer_cell(weir_rule_state *r, const weir_operation *operation) {
  weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  weir_pool_cell *cell = &memory->cells[operation->counter.index - memory->first];
  if (operation->kind == WEIR_SUB && r->frame->settles && operation->outcome == WEIR_DONE &&
      r->place < memory->first + r->rule->cells)
    *counted(cell, operation->counter.entry) = weir_count_of(operation->value);
  if (operation->kind == WEIR_SUB) return;
  if (operation->kind == WEIR_ADD) r->charged = true;
  if (operation->counter.entry == POOL_LENT) {
    cell->lent = found_without(operation, &state->lent);
  } else if (operation->counter.entry == POOL_OTHERS) {
    cell->others = found_without(operation, &state->floors);
    if (operation->counter.index == r->place) state->among = cell->others;
  } else {
    cell->floors = found_without(operation, &state->floors);
    bool read = operation->kind == WEIR_GET;
    if (operation->counter.index == r->place && !is_other(r))
      state->among = cell->floors - (read ? state->floors : 0);
  }
  read_part(r, cell, operation);
  if (operation->counter.index == r->place - 1)
    state->before.used = cell->floors + cell->others + cell->lent;
}

/* A store that says what no process does is not believed: then each goes by what it would have said. */
static void answer_division(weir_rule_state *r, const weir_operation *operation, int64_t found) {
  weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  bool creates = operation->kind == WEIR_CREATE, now = operation->counter.index == period_of(r);
  if (operation->counter.entry == POOL_DISPUTED) {
    if (creates || found > 0) memory->disputed = period_of(r);
    return;
  }
  if (creates) found = operation->outcome == WEIR_DONE ? next_division(r) : 0;
  bool sound = division_is_sound(found);
  if (!sound && (creates || !now || operation->outcome != WEIR_DONE)) return;
  if (!sound) found = next_division(r);
  if (now) memory->division = found;
  if (now) memory->period = period_of(r);
  if (!now) state->division_before = found;
  if (operation->counter.index == period_of(r) - 1) state->makes_before = false;
}

static void answer_pool(weir_rule_state *r, const weir_operation *operation) {
  weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  int64_t found = operation->outcome == WEIR_DONE ? weir_count_of(operation->value) : 0;
  bool now = operation->counter.index == r->place;
  switch (operation->counter.entry) {
    case POOL_LEVEL:
      if (operation->kind == WEIR_CREATE) break;
      if (!now) state->before.level = found;
      if (now) state->level_absent = found == 0;
      if (now && found > 0) memory->level = found;
      if (now && found > 0) memory->level_cell = r->place;
      break;
    case POOL_STOPPED:
      if (operation->kind == WEIR_GET) state->before.stopped = found;
      break;
    case POOL_MISSED:
      if (operation->kind == WEIR_GET) state->before.missed = found;
      break;
    case POOL_NEWCOMERS:
      if (operation->kind != WEIR_SUB) state->coming = found_without(operation, &state->newcomers);
      break;
    case POOL_SEEN:
      if (operation->kind != WEIR_GET) break;
      memory->seen = found;
      memory->seen_epoch = memory->epoch;
      break;
    case POOL_DIVISION:
    case POOL_DISPUTED:
      answer_division(r, operation, found);
      break;
    default:
      answer_cell(r, operation);
      break;
  }
}

static void shared_answer(weir_rule_state *r, const weir_operation *operation) {
  if (operation->kind == WEIR_DROP) return;
  if (operation->counter.place == WEIR_PLACE_TENANT)
    answer_tenant(r, operation);
  else
    answer_pool(r, operation);
}

/* --- rounds ------------------------------------------------------------------------------------
 */

static weir_operation *plan_pool(weir_rule_state *r, weir_operation_kind kind, int64_t cell,
                                 int entry) {
  weir_operation *operation = weir_plan(r, kind, WEIR_PLACE_ENTRY, cell);
  operation->counter.entry = entry;
  return operation;
}

static weir_operation *plan_tenant(weir_rule_state *r, weir_operation_kind kind, int tenant_kind) {
  weir_operation *operation = weir_plan(r, kind, WEIR_PLACE_TENANT, r->place);
  operation->counter.entry = tenant_entry(r, tenant_kind);
  return operation;
}

static weir_operation *plan_mark(weir_rule_state *r, weir_operation_kind kind, int64_t epoch) {
  weir_operation *operation = plan_tenant(r, kind, TENANT_SEEN);
  operation->counter.index = epoch;
  return operation;
}

/* What may be lent rests on B of all cells, and on F of those that are final. A cell that was read as that is read
 * no more: from then on it only becomes smaller. Where real costs make it so, and there is no room without, it is
 * read once more in each cell. */
static void plan_cells(weir_rule_state *r, bool makes_level) {
  const weir_settings *settings = r->frame->settings;
  bool shrinks = r->rule->debt > 0 && free_of_level(r) < 0;
  const weir_shared_memory *memory = r->memory;
  int64_t width = r->rule->cell_us, current = r->place;
  bool ahead = (r->frame->now_us + settings->ahead_us) / width > current;
  for (int64_t cell = memory->first > 0 ? memory->first : 0; cell < current; cell++) {
    int64_t read_us = memory->cells[cell - memory->first].read_us;
    bool known = read_us >= (cell + 1) * width + settings->final_us && settings->cached_cells;
    bool is_old = shrinks && read_us + width <= r->frame->now_us;
    if (known && read_us <= r->frame->now_us && !is_old) continue;
    plan_pool(r, WEIR_GET, cell, POOL_LENT);
    if (!makes_level && r->frame->now_us < (cell + 1) * width + settings->final_us) continue;
    plan_pool(r, WEIR_GET, cell, POOL_FLOORS);
    if (r->rule->others > 0) plan_pool(r, WEIR_GET, cell, POOL_OTHERS);
  }
  if (ahead) plan_pool(r, WEIR_GET, current + 1, POOL_LENT);
}

/* The level of this cell, once; and, should nobody have made it, what it is made of. */
static void plan_level(weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  const weir_pool_cell *last = &memory->cells[r->rule->cells - 1];
  state->before.used = last->floors + last->others + last->lent;
  plan_pool(r, WEIR_GET, r->place, POOL_LEVEL);
  if (r->place == 0) return;
  plan_pool(r, WEIR_GET, r->place - 1, POOL_LEVEL);
  plan_pool(r, WEIR_GET, r->place - 1, POOL_STOPPED);
  plan_pool(r, WEIR_GET, r->place - 1, POOL_MISSED);
}

static void plan_lending(weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  bool makes_level = memory->level_cell != r->place && !state->reads;
  if (makes_level) plan_level(r);
  plan_cells(r, makes_level);
  state->reads = true;
}

/* Whoever finds none makes the level. Should another have made it meanwhile, it was out of much the same. */
static void make_level(weir_rule_state *r) {
  weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  if (!state->level_absent) return;
  state->level_absent = false;
  memory->level = weir_level_next(r->rule, &state->before);
  memory->level_cell = r->place;
  plan_pool(r, WEIR_CREATE, r->place, POOL_LEVEL)->value = memory->level;
}

/* What its floor rests on, for one of others=: once in an epoch. */
static void plan_epoch(weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  if (!is_other(r)) return;
  if (memory->seen_epoch != memory->epoch) plan_pool(r, WEIR_GET, memory->epoch - 1, POOL_SEEN);
  if (!memory->asked) plan_mark(r, WEIR_GET, memory->epoch - 1);
}

/* The part of the charge that is within the floor: up to what is lent instead, and not behind that; what is content
 * with less and would be lent less than the floor has left, as far as that goes; and what is charged ahead, last of
 * all, which goes back as far as it is not. */
static int64_t within_floor(const weir_rule_state *r, int64_t floor) {
  const shared_state *state = r->state;
  int64_t within = 0;
  bool fits = true;
  for (const weir_claim *claim = r->frame->requests; claim != NULL; claim = claim->next) {
    int64_t cost = weir_claim_cost(claim, r->index);
    if (!weir_claim_is_open(claim)) continue;
    int64_t left = fits ? floor - within : 0;
    if (cost <= left || weir_ask_is_ahead(&claim->ask))
      within += cost;
    else if (left > 0 && claim->ask.up_to && state->reads && loan_room(r) < left)
      within = floor;
    else if (!state->reads || cost <= shared_room(r, &claim->ask))
      fits = false;
  }
  return within;
}

/* Where floors are counted. Those of newcomers count twice: none of them takes the floors of others who were
 * there before. */
static void plan_floors(weir_rule_state *r, weir_operation_kind kind, int64_t floors,
                        int64_t newcomers) {
  int entry = is_other(r) ? POOL_OTHERS : POOL_FLOORS;
  if (floors > 0) plan_pool(r, kind, r->place, entry)->delta = floors;
  if (newcomers > 0) plan_pool(r, kind, r->place, POOL_NEWCOMERS)->delta = newcomers;
}

/* Once in a period each process finds how that is divided, and what it follows from. Before the last cell of the
 * period before is final, some process may be the first to charge anything there. */
static void plan_division(weir_rule_state *r) {
  shared_state *state = r->state;
  int64_t period = period_of(r), begin_us = period * r->rule->cells * r->rule->cell_us;
  if (knows_division(r)) return;
  state->makes_before = period > 0 && r->frame->now_us < begin_us + r->frame->settings->final_us;
  plan_pool(r, WEIR_GET, period, POOL_DIVISION);
  if (period > 1 && state->makes_before) plan_pool(r, WEIR_GET, period - 2, POOL_DIVISION);
  if (period > 0) plan_pool(r, WEIR_GET, period - 1, POOL_DIVISION);
}

/* It counts for all of the next period as well. */
static void plan_first_division(weir_rule_state *r) {
  shared_state *state = r->state;
  int64_t period = period_of(r) - state->makes_before;
  weir_operation *made = plan_pool(r, WEIR_CREATE, period, POOL_DIVISION);
  made->value = next_division(r);
  made->ttl_us += r->rule->period_us;
  plan_pool(r, WEIR_GET, period, POOL_DIVISION);
  state->makes_before = false;
}

/* What must be known of the division before a charge is judged, behind its first round. False: all is. Where floors
 * come to more than all may have, as what was charged in vain is among them, it matters whether somebody
 * divides them otherwise; and to nobody whose own count is above its floor. */
static bool plan_agreement(weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  if (!knows_division(r)) {
    plan_first_division(r);
    return true;
  }
  if (r->frame->settles || is_other(r) || state->floors == 0 || memory->disputed == period_of(r))
    return false;
  if (within_floor(r, own_left(r)) == 0) return false;
  if (!agrees(r)) {
    plan_pool(r, WEIR_CREATE, period_of(r), POOL_DISPUTED)->value = 1;
    plan_pool(r, WEIR_GET, r->place, POOL_FLOORS);
    return true;
  }
  if (state->among + state->floors <= named_floors(r) || state->asks_for_dispute) return false;
  plan_pool(r, WEIR_GET, period_of(r), POOL_DISPUTED);
  state->asks_for_dispute = true;
  return true;
}

/* An overrun: nothing of the level is asked. */
static void plan_loan(weir_rule_state *r) {
  plan_pool(r, WEIR_ADD, r->place, POOL_LENT)->delta = r->charge;
  plan_cells(r, false);
  plan_division(r);
}

/* What was thought to be lent and is within the floor is counted among floors, before it is admitted as that. What that
 * finds there may say that it is not. */
static bool plan_more_floors(weir_rule_state *r) {
  shared_state *state = r->state;
  int64_t more = within_floor(r, floor_room(r, false)) - state->floors;
  if (more <= 0) return false;
  plan_floors(r, WEIR_ADD, more, state->comes ? more : 0);
  plan_pool(r, WEIR_SUB, r->place, POOL_LENT)->delta = more;
  state->lent -= more;
  state->asks_for_dispute = false;
  return true;
}

static bool has_peek(const weir_rule_state *r) {
  const weir_claim *claim = r->frame->requests;
  while (claim != NULL && (claim->verdict.answered || weir_ask_charges(&claim->ask)))
    claim = claim->next;
  return claim != NULL;
}

/* A peek beside what is charged is told what its own look would find there: so what a charge within the floor does
 * not ask for is read along. */
static void plan_peek(weir_rule_state *r, int64_t floors, int64_t newcomers) {
  const shared_state *state = r->state;
  if (is_other(r) && floors == 0) plan_pool(r, WEIR_GET, r->place, POOL_OTHERS);
  if (is_other(r) && newcomers == 0) plan_pool(r, WEIR_GET, r->place, POOL_NEWCOMERS);
  if (state->reads) return;
  plan_pool(r, WEIR_GET, r->place, POOL_LENT);
  plan_lending(r);
}

/* What is thought to be within the floor, and the rest to be lent. */
static void plan_first_charge(weir_rule_state *r, int64_t floors, bool comes) {
  const weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  int64_t lent = r->charge - floors, newcomers = comes ? floors : 0;
  plan_tenant(r, WEIR_ADD, TENANT_OWN)->delta = r->charge;
  plan_floors(r, WEIR_ADD, floors, newcomers);
  plan_epoch(r);
  if (is_other(r) && !memory->marked) plan_mark(r, WEIR_CREATE, memory->epoch)->value = 1;
  if (lent > 0) plan_pool(r, WEIR_ADD, r->place, POOL_LENT)->delta = lent;
  if (lent > 0) plan_lending(r);
  if (has_peek(r)) plan_peek(r, floors, newcomers);
  plan_division(r);
  state->comes = comes;
}

/* What turned out to be above the floor moves to B, in this order: at no moment is it in neither. */
static void plan_moves(weir_rule_state *r, int64_t floors, bool comes) {
  const weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  int64_t moves = state->floors - floors;
  int64_t newcomers = moves < state->newcomers ? moves : state->newcomers;
  make_level(r);
  if (state->tells_seen) plan_pool(r, WEIR_ADD, memory->epoch, POOL_SEEN)->delta = 1;
  state->tells_seen = false;
  if (moves > 0) plan_pool(r, WEIR_ADD, r->place, POOL_LENT)->delta = moves;
  plan_floors(r, WEIR_SUB, moves, newcomers);
  if (comes) plan_floors(r, WEIR_ADD, 0, floors);
  state->comes = state->comes || comes;
  if (moves <= 0) return;
  state->floors -= moves; /* whatever the answer says: none of it is subtracted once more */
  state->newcomers -= newcomers;
  plan_lending(r);
}

/* What the tenant's own count was said to be decides where the charge goes. */
static void plan_charge(weir_rule_state *r) {
  const shared_state *state = r->state;
  if (r->step > 0 && plan_agreement(r)) return;
  if (r->frame->settles) {
    if (r->step == 0) plan_loan(r);
    return;
  }
  bool comes = is_other(r) && knows_others(r) && sharers(r) == 0 && !state->comes;
  int64_t floors = within_floor(r, floor_left(r, false));
  if (r->step == 0)
    plan_first_charge(r, floors, comes);
  else if (!plan_more_floors(r))
    plan_moves(r, floors, comes);
}

/* --- what the next level is made of ------------------------------------------------------------
 */

/* Of the takes that are denied, or will be: whether the level stops them; else what they cost is told. */
static void begin_telling(weir_rule_state *r) {
  shared_state *state = r->state;
  int64_t most = unstopped_most(r);
  bool looks = r->frame->phase == WEIR_PHASE_LOOK;
  state->telling = true;
  for (const weir_claim *claim = r->frame->requests; claim != NULL; claim = claim->next) {
    const weir_verdict *verdict = &claim->verdict;
    int64_t cost = weir_claim_cost(claim, r->index);
    bool denied = verdict->answered ? verdict->status == WEIR_OK && !verdict->decision.allowed
                                    : looks && cost > shared_room(r, &claim->ask);
    if (!weir_ask_charges(&claim->ask) || !denied || claim->ask.up_to) continue;
    if (cost > most)
      state->stopped = true;
    else
      state->wanted += cost;
  }
}

/* A tenant is told of once in a cell, whoever does; what it asked in vain, as often as it does. */
static void plan_telling(weir_rule_state *r) {
  weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  if (state->wanted > 0) plan_tenant(r, WEIR_ADD, TENANT_WANTED)->delta = state->wanted;
  if (state->missed > 0) plan_pool(r, WEIR_ADD, r->place, POOL_MISSED)->delta = state->missed;
  if (state->tells_stopped) plan_pool(r, WEIR_ADD, r->place, POOL_STOPPED)->delta = weight_of(r);
  if (state->stopped && memory->told_cell != r->place)
    plan_tenant(r, WEIR_CREATE, TENANT_TOLD)->value = 1;
  state->wanted = state->missed = 0;
  state->stopped = state->tells_stopped = false;
}

/* Of a charge that is settled: what cost less comes off wherever that cell has something, as a SUB of what is not
 * there is lost. An overrun comes off where it was charged. */
static void plan_settled_back(weir_rule_state *r) {
  static const int entries[] = {POOL_LENT, POOL_FLOORS, POOL_OTHERS};
  weir_shared_memory *memory = r->memory;
  weir_pool_cell *cell = &memory->cells[r->place - memory->first];
  int64_t left = r->unused;
  if (r->charge > 0) {
    plan_pool(r, WEIR_SUB, r->place, POOL_LENT)->delta = left;
    return;
  }
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    int64_t there = *counted(cell, entries[i]), part = there < left ? there : left;
    if (part > 0) plan_pool(r, WEIR_SUB, r->place, entries[i])->delta = part;
    left -= part;
  }
}

/* In one round, and behind that as many as there is something to tell. What was admitted stays: what is
 * lent in B, what is within a floor where it was charged. */
static void plan_take_back(weir_rule_state *r) {
  const shared_state *state = r->state;
  if (r->frame->settles) {
    if (r->step == 0) plan_settled_back(r);
    return;
  }
  if (r->step == 0) {
    int64_t lent = state->lent - state->kept;
    if (lent > r->unused) lent = r->unused;
    if (state->own > 0) plan_tenant(r, WEIR_SUB, TENANT_OWN)->delta = r->unused;
    if (lent > 0) plan_pool(r, WEIR_SUB, r->place, POOL_LENT)->delta = lent;
    int64_t floors = r->unused - lent < state->floors ? r->unused - lent : state->floors;
    plan_floors(r, WEIR_SUB, floors, floors < state->newcomers ? floors : state->newcomers);
    r->tells = true;
    begin_telling(r);
  }
  plan_telling(r);
}

/* Cells that were not final when they were read, and are by now, may hold less than was left for their floors. Whether
 * so much less that no level stops anybody. */
static bool may_be_free(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  int64_t final_us = r->frame->settings->final_us, old = 0;
  for (int i = 0; i < r->rule->cells; i++) {
    bool was = is_final(r->rule, memory->cells, memory->first, i, final_us);
    bool is = r->frame->now_us >= (memory->first + i + 1) * r->rule->cell_us + final_us;
    old += is && !was;
  }
  return old > 0 && free_of_level(r) + weir_rule_room_whole(old * room_of_cell(r)) > 0;
}

/* Whether the level stops all that is asked, as it did before in this cell: then it does until the cell ends, or one
 * before is final, and there is nothing more to be told. */
static bool is_stopped_again(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  int64_t most = unstopped_most(r), floor = own_floor(r) - memory->own;
  if (most < floor) most = floor;
  if (is_other(r) && !knows_others(r)) return false;
  if (memory->told_cell != r->place || !r->frame->settings->cached_cells || may_be_free(r))
    return false;
  for (const weir_claim *claim = r->frame->requests; claim != NULL; claim = claim->next) {
    int64_t cost = claim->ask.up_to ? 1 : weir_claim_cost(claim, r->index);
    if (!weir_ask_is_ahead(&claim->ask) && cost <= most) return false;
  }
  return true;
}

/* Whether the own count and what is known of the pool will do for a look: the level stops a take, or it fits by them
 * with all before it, as its charge will find out. */
static bool is_clear(const weir_rule_state *r) {
  int64_t most = unstopped_most(r), before = 0;
  if (may_be_free(r)) return false;
  for (const weir_claim *claim = r->frame->requests; claim != NULL; claim = claim->next) {
    int64_t cost = weir_claim_cost(claim, r->index), least = claim->ask.up_to ? 1 : cost;
    if (weir_ask_is_ahead(&claim->ask)) continue;
    if (!weir_ask_charges(&claim->ask)) return false;
    if (least > most) continue;
    before += cost;
    if (before > shared_room(r, &claim->ask)) return false;
  }
  return true;
}

/* Where a charge of this stamp counts, as far as it does. */
static int64_t settled_cell(const weir_rule_state *r) {
  return asking(r)->at_us / r->rule->cell_us;
}

static bool counts_still(const weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  int64_t cell = settled_cell(r);
  return cell >= memory->first && cell <= r->place + 1;
}

static void plan_settled_look(weir_rule_state *r) {
  if (r->step > 0) return;
  plan_pool(r, WEIR_GET, r->place, POOL_LENT);
  plan_cells(r, false);
  if (!counts_still(r)) return;
  plan_pool(r, WEIR_GET, settled_cell(r), POOL_FLOORS);
  plan_pool(r, WEIR_GET, settled_cell(r), POOL_LENT);
  if (r->rule->others > 0) plan_pool(r, WEIR_GET, settled_cell(r), POOL_OTHERS);
}

static void plan_look(weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  shared_state *state = r->state;
  if (r->frame->settles) {
    plan_settled_look(r);
    return;
  }
  if (r->step == 0) {
    state->recalls = state->reads = is_stopped_again(r);
    if (state->recalls) return;
    plan_tenant(r, WEIR_GET, TENANT_OWN);
    if (is_other(r)) plan_pool(r, WEIR_GET, r->place, POOL_OTHERS);
    if (is_other(r)) plan_pool(r, WEIR_GET, r->place, POOL_NEWCOMERS);
    plan_epoch(r);
    state->brief = memory->level_cell == r->place && r->frame->settings->cached_cells;
  }
  if (state->brief && (r->step == 0 || is_clear(r)))
    state->reads = true;
  else if (state->brief || r->step == 0) {
    state->brief = false;
    plan_pool(r, WEIR_GET, r->place, POOL_LENT);
    plan_lending(r);
    return;
  }
  if (r->step == 0) return;
  make_level(r);
  if (!state->telling) begin_telling(r);
  plan_telling(r);
}

static void shared_plan(weir_rule_state *r, weir_phase phase) {
  if (phase == WEIR_PHASE_LOOK) plan_look(r);
  if (phase == WEIR_PHASE_CHARGE) plan_charge(r);
  if (phase == WEIR_PHASE_TAKE_BACK) plan_take_back(r);
  r->step++;
}

/* --- by the memory alone -----------------------------------------------------------------------
 */

static void shared_expect(weir_rule_state *r, int64_t cost) {
  const weir_shared_memory *memory = r->memory;
  if (r->frame->settles) return; /* it is not in the own count */
  weir_expect_count(r, r->place, r->rule->cells, memory->own, cost);
}

/* A part of a floor is seldom whole. What it leaves of one goes to the next cell, from a place on that differs
 * from process to process: so all of them together have the floor on average. */
int64_t weir_floor_away(const weir_rule *rule, const weir_ask *ask, const void *memory,
                        int64_t now_us, const weir_floor_part *part) {
  int64_t floor = is_named(rule, ask) ? weir_rule_floor(rule, ask->weight)
                                      : weir_other_floor(rule, sharers_by(memory));
  weir_wide mine = (weir_wide)floor * part->share;
  weir_wide cell = now_us / rule->cell_us;
  weir_wide before = cell * mine + part->phase;
  return (int64_t)((before + mine) / part->whole - before / part->whole);
}

/* Of a settlement: what was read of the cell of the stamp has to hold it. */
static bool shared_refund(weir_rule_state *r, const weir_ask *ask, int64_t cost) {
  const weir_shared_memory *memory = r->memory;
  int64_t cell = settled_cell(r);
  (void)ask;
  r->unused = 0;
  if (cell < memory->first) return true; /* it counts no more */
  if (!counts_still(r)) return false;
  const weir_pool_cell *there = &memory->cells[cell - memory->first];
  if (there->floors + there->others + there->lent < cost) return false;
  r->place = cell;
  r->unused = cost;
  return true;
}

static int64_t shared_overrun(const weir_rule_state *r, int64_t cost) {
  int64_t room = lendable(r) + r->rule->debt;
  if (room < 0) room = 0;
  return cost < room ? cost : room;
}

/* Of the floor alone, for what is charged ahead of requests: what it has left, as far as this process knows. */
static bool shared_recall(weir_rule_state *r) {
  const weir_shared_memory *memory = r->memory;
  if (r->frame->asked == NULL) return false;
  r->place = r->frame->now_us / r->rule->cell_us;
  return !is_other(r) || (memory->epoch == epoch_of(r) && knows_others(r) && sharers(r) > 0);
}

static void shared_doubt(void *of, int64_t place, int64_t cost) {
  weir_shared_memory *memory = of;
  if (memory->own_cell == place) memory->own = memory->own > cost ? memory->own - cost : 0;
}

void weir_shared_return(int64_t tenant_number, bool is_named,
                        weir_operation operations[WEIR_SHARED_RETURN]) {
  operations[1] = operations[0];
  operations[0].counter.place = WEIR_PLACE_TENANT;
  operations[0].counter.entry = tenant_number * TENANT_KINDS + TENANT_OWN;
  operations[1].counter.place = WEIR_PLACE_ENTRY;
  operations[1].counter.entry = is_named ? POOL_FLOORS : POOL_OTHERS;
}

static void shared_known(const weir_rule_state *r, weir_known *known) {
  (void)r;
  known->count = 0;
}

/* A cell that was final when it was read stays so: what lands there later was charged in vain. All others are
 * read by every request that rests on them. */
static void shared_forget(void *memory) {
  weir_shared_memory *shared = memory;
  shared->own_cell = LONG_PAST;
  shared->marked = shared->asked = false;
}

static const weir_settling_table shared_settling = {.blind = weir_always_blind,
                                                    .overrun = shared_overrun};

const weir_method weir_shared_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .needs = WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB | WEIR_NEED_CREATE,
    .memory_bytes = sizeof(weir_shared_memory),
    .cell_bytes = sizeof(weir_pool_cell),
    .state_bytes = sizeof(shared_state),
    /* Each cell is read up to three times, and counts once in all machines. */
    .operations_most = 2 * WEIR_SHARED_CELLS_MOST + 20,
    .ttl_us = shared_ttl_us,
    .begin = shared_begin,
    .blind = weir_always_blind,
    .plan = shared_plan,
    .answer = shared_answer,
    .room = shared_room,
    .oldest_us = weir_read_now_us,
    .count = shared_count,
    .figures = shared_figures,
    .expect = shared_expect,
    .refund = shared_refund,
    .recall = shared_recall,
    .known = shared_known,
    .forget = shared_forget,
    .doubt = shared_doubt,
    .share = shared_share,
    .settling = &shared_settling,
};

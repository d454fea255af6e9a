/* Sliding log (docs/guarantees.md, "Sliding log"): exact, from the times of the requests themselves. Every
 * cost is 1, and every request comes alone: a stack with a log has no groups.
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
 * An entry that is absent is not written yet, never expired: entries live for as long as they are read.
 * It denies, after it was asked for once more. Where its writer crashed it will always be absent;
 * a hole therefore does not deny in a look, but the request goes on to use up an index, and is
 * denied then: the next request is measured against the next entry. So a hole costs one denial.
 * An entry later than any honest clock could have stored (later than now + e) is a hole too: each
 * is replaced by the entry of the request that it denies, and none denies for longer than W. A
 * request that meets one under one rule uses up its index under all. */
#include "algorithm/method.h"
#include "algorithm/plan.h"

/* What a process keeps of one key. */
typedef struct log_memory {
  bool known;
  unsigned class
      ; /* of the request that was measured so: others are measured against other entries */
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
_Static_assert(sizeof(log_state) <= WEIR_STATE_BYTES_MOST, "WEIR_STATE_BYTES_MOST");

/* Why there is no time in decides_us, follows_us or newest_us. */
enum { NO_ENTRY = -1, NOT_WRITTEN = -2 };

/* Entries that a search reads in one round. */
enum { PROBES = 16 };

/* An epoch is read for as long as it lasts after its end, and x. */
static int64_t log_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  return 3 * rule->log_us + settings->final_us + WEIR_TTL_SLACK_US;
}

static void log_begin(weir_rule_state *r) {
  log_state *state = r->state;
  state->epoch = r->frame->now_us / r->rule->log_us;
  state->decides_us = state->follows_us = state->newest_us = state->stored_us = NO_ENTRY;
  ((log_memory *)r->memory)->known = false;
}

static bool log_blind(const weir_rule_state *r) {
  (void)r;
  return false;
}

/* The logs of a stack are one log. The first of them keeps it (r->keeper): it alone counts and writes,
 * and reads what all need to know; each of the others reads the entry that decides for its own limit
 * and period. The keeper is answered, and tells all of them. */
static bool log_keeps(const weir_rule_state *r) {
  return r->keeper == r;
}

/* --- entries -----------------------------------------------------------------------------------
 *
 * Positions run through the entries of g-1, g and g+1, from 1 on; the place of the next entry of g
 * is among them, whether it is written already or not. Each epoch holds at most WEIR_COUNT_MOST
 * entries by how its count is read, so that no sum of positions comes near 2^63.
 */

static int64_t log_own_position(const log_state *state) {
  return state->before + state->own + 1;
}

/* Its L, by the class of the request, which is alone. */
static int64_t log_limit(const weir_rule_state *r) {
  return weir_ask_capacity(r->rule, &r->frame->requests->ask);
}

/* Of the entry that the next request, or the one being charged, is measured against; below 1: none.
 * Where L and more are ahead of this clock in g+1, it would be its own or one of theirs, which are
 * all later than it: then the one that will still deny it when this clock is there, too. */
static int64_t log_deciding_position(const weir_rule_state *r) {
  const log_state *state = r->state;
  int64_t position = log_own_position(state) + state->after - log_limit(r);
  return position < log_own_position(state) ? position : position + 1;
}

/* Of the newest that was there before; 0: none. */
static int64_t log_newest_position(const log_state *state) {
  return log_own_position(state) + (state->after > 0 ? state->after : -1);
}

/* The keeper reads the entry at a position. */
static void log_plan_entry(weir_rule_state *r, int64_t position) {
  const log_state *state = r->state;
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
  weir_plan(r->keeper, WEIR_GET, WEIR_PLACE_ENTRY, epoch)->counter.entry = entry;
}

/* Whether an entry of this time denies no request any more. */
static bool log_is_over(const weir_rule_state *r, int64_t entry_us) {
  return entry_us >= 0 && r->frame->now_us - entry_us >= r->rule->period_us;
}

/* What the state says of the entry that decides, and of the newest. */
static void log_remember(weir_rule_state *r) {
  const log_state *state = r->state;
  log_memory *memory = r->memory;
  memory->known = true;
  memory->class = r->frame->requests->ask.class;
  memory->decides_us = state->decides_us;
  memory->newest_us = state->newest_us;
}

/* --- looking -----------------------------------------------------------------------------------
 */

/* Within e of the epoch's end a clock ahead of this one may have charged the next. */
static void log_plan_neighbours(weir_rule_state *r) {
  int64_t epoch = ((const log_state *)r->state)->epoch;
  int64_t ahead = r->frame->now_us + r->frame->settings->ahead_us;
  if (epoch > 0) weir_plan(r, WEIR_GET, WEIR_PLACE_COUNT, epoch - 1);
  if (ahead / r->rule->log_us > epoch) weir_plan(r, WEIR_GET, WEIR_PLACE_COUNT, epoch + 1);
}

/* First the counts, then the entry that decides, and the newest for the figures. Where some request peeks
 * it is told how many single requests fit now: the k-th is measured against the entry k - 1 behind the one
 * that decides, and needs it to be W old. Entries are in the order of time (save for a moment's difference
 * between clocks), so the number is found by search. */
static void log_look(weir_rule_state *r) {
  log_state *state = r->state;
  int step = r->step++;
  if (step == 0) {
    if (!log_keeps(r)) return;
    weir_plan(r, WEIR_GET, WEIR_PLACE_COUNT, state->epoch);
    log_plan_neighbours(r);
    return;
  }
  int64_t position = log_deciding_position(r);
  if (step == 1) {
    int64_t newest = log_newest_position(state);
    bool some_peek = false;
    for (const weir_claim *request = r->frame->requests; request != NULL; request = request->next)
      some_peek = some_peek || !weir_ask_charges(&request->ask);
    if (some_peek) {
      state->low = position < 1 ? 1 - position : 0;
      state->high = log_limit(r) + 1;
    }
    if (position >= 1) log_plan_entry(r, position);
    bool reported = log_keeps(r) && (position >= 1 || r->frame->stack->count > 1 || some_peek);
    if (reported && newest >= 1 && newest != position) log_plan_entry(r, newest);
    log_remember(r); /* where no entry was asked for, that is all there is to know */
  }
  int64_t between = state->high - state->low - 1;
  int64_t probes = between < PROBES ? between : PROBES;
  for (int64_t n = 1; n <= probes; n++)
    log_plan_entry(r, position + state->low + n * (between + 1) / (probes + 1) - 1);
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* One entry is most of what the least of the limits allows. */
static weir_operation *log_plan_write(weir_rule_state *r, weir_operation_kind kind,
                                      weir_place place) {
  const weir_rule_state *end = r - r->index + r->frame->stack->count;
  weir_operation *operation = weir_plan(r, kind, place, ((const log_state *)r->state)->epoch);
  int64_t least = r->rule->limit;
  if (!(r->frame->settings->traits & WEIR_TRAIT_STAKE)) return operation;
  for (const weir_rule_state *other = r + 1; other < end; other++)
    if (other->keeper == r && other->rule->limit < least) least = other->rule->limit;
  operation->stake = weir_plan_stake(r->charge, least);
  return operation;
}

/* With the clock as it is after the addition; whatever it did, and however long this process stood
 * still, neither before the stamp nor later than the deadline, by which the addition was over. */
static void log_plan_own_entry(weir_rule_state *r) {
  log_state *state = r->state;
  const weir_settings *settings = r->frame->settings;
  int64_t stamp_us = r->frame->now_us, at_us = r->frame->clock_us;
  int64_t latest_us = stamp_us + settings->ahead_us - 2 * settings->clock_error_us;
  if (at_us < stamp_us) at_us = stamp_us;
  if (at_us > latest_us) at_us = latest_us;
  weir_operation *operation = log_plan_write(r, WEIR_PUT, WEIR_PLACE_ENTRY);
  operation->counter.entry = state->index;
  operation->value = state->newest_us = at_us;
}

static void log_charge(weir_rule_state *r) {
  const log_state *state = r->state;
  int64_t position = log_deciding_position(r);
  switch (r->step++) {
    case 0:
      if (!log_keeps(r)) break;
      log_plan_write(r, WEIR_ADD, WEIR_PLACE_COUNT)->delta = r->charge;
      log_plan_neighbours(r);
      break;
    case 1:
      if (log_keeps(r)) log_plan_own_entry(r);
      if (position >= 1) log_plan_entry(r, position);
      break;
    case 2: /* once more; and the one that decides next, now that an index was used up */
      if (state->decides_us != NOT_WRITTEN) break;
      log_plan_entry(r, position);
      log_plan_entry(r, position + 1);
      break;
    default:
      break;
  }
}

/* A take-back: an index cannot be given back. Where the charge was cut short, its entry is written at last:
 * the request stays counted, but leaves no hole.
 *
 * A reset: without counts no entry is ever read. The entries themselves, up to L in each epoch, stay until
 * their TTL: dropping them one by one would take as many operations. New ones take their places,
 * each written before it is read for the first time, but for the moment between an addition and
 * its entry: a request that is measured against that one sees an older time instead of none, and may
 * be admitted too early, one for each request that is just then on its way, or was cut short there. */
static void log_plan(weir_rule_state *r, weir_phase phase) {
  const log_state *state = r->state;
  int64_t own = state->epoch;
  if (phase == WEIR_PHASE_LOOK) {
    log_look(r);
  } else if (phase == WEIR_PHASE_CHARGE) {
    log_charge(r);
  } else if (!log_keeps(r) || r->step++ > 0) {
    return;
  } else if (phase == WEIR_PHASE_TAKE_BACK && r->charged && state->stored_us < 0) {
    log_plan_own_entry(r);
  } else if (phase == WEIR_PHASE_RESET) {
    for (int64_t epoch = own > 0 ? own - 1 : 0; epoch <= own + 1; epoch++)
      weir_plan(r, WEIR_DROP, WEIR_PLACE_COUNT, epoch);
  }
}

/* --- answers -----------------------------------------------------------------------------------
 */

/* An index cannot be given back: whatever becomes of the charge, the count is at least that from now
 * on. */
static void log_answer_count(weir_rule_state *r, const weir_operation *operation) {
  log_state *state = r->state;
  int64_t epoch = operation->counter.index;
  int64_t count = weir_count_of(weir_stored_before(operation));
  if (operation->kind != WEIR_ADD && operation->kind != WEIR_GET) return;
  if (log_keeps(r)) weir_expect_compare(r, epoch, count);
  if (operation->kind == WEIR_ADD) {
    r->charged = true;
    state->own = count;
    state->index = count + 1;
    if (!log_keeps(r) || !r->frame->settings->notices_loss) return;
    weir_expect_count(r, epoch, 1, state->index, 1);
    int64_t expected = r->expected->index == epoch ? r->expected->amount : 0;
    weir_expect_add(r, epoch, state->index - expected);
  } else if (epoch < state->epoch) {
    state->before = count;
  } else if (epoch > state->epoch) {
    state->after = count;
  } else {
    state->own = count;
  }
}

/* A time, or NOT_WRITTEN. What is earlier than its epoch is nothing that a machine wrote; so it counts
 * for as long as an entry of that epoch can. */
static int64_t log_entry_us(const weir_rule_state *r, const weir_operation *operation) {
  int64_t begin = operation->counter.index * r->rule->log_us;
  int64_t latest = r->frame->now_us + r->frame->settings->ahead_us;
  if (operation->outcome != WEIR_DONE || operation->value > latest) return NOT_WRITTEN;
  return operation->value > begin ? operation->value : begin;
}

/* A search learns how many fit, or that as many do not. */
static void log_narrow(log_state *state, int64_t fits, bool over) {
  if (fits >= state->high) return;
  if (over && fits > state->low) state->low = fits;
  if (over || fits < 1) return;
  state->high = fits;
  if (state->low >= fits) state->low = fits - 1;
}

static void log_answer_entry(weir_rule_state *r, const weir_operation *operation) {
  log_state *state = r->state;
  int64_t epoch = operation->counter.index;
  int64_t position = operation->counter.entry;
  if (epoch > state->epoch)
    position += log_own_position(state);
  else if (epoch == state->epoch)
    position += state->before;
  int64_t entry_us = log_entry_us(r, operation);
  int64_t first = log_deciding_position(r);
  if (position == first) state->decides_us = entry_us;
  if (position == first + 1) state->follows_us = entry_us;
  if (position == log_newest_position(state) && !r->charged) state->newest_us = entry_us;
  if (state->high > 0) log_narrow(state, position - first + 1, log_is_over(r, entry_us));
  log_remember(r);
}

/* The keeper asks, and all learn of it. */
static void log_answer(weir_rule_state *r, const weir_operation *operation) {
  const weir_rule_state *end = r - r->index + r->frame->stack->count;
  int64_t newest_us = ((const log_state *)r->state)->newest_us;
  for (weir_rule_state *other = r; other < end; other++) {
    log_state *state = other->state;
    if (other->keeper != r) continue;
    if (operation->counter.place == WEIR_PLACE_COUNT)
      log_answer_count(other, operation);
    else if (operation->kind == WEIR_GET)
      log_answer_entry(other, operation);
    else if (operation->kind == WEIR_PUT)
      state->stored_us = state->newest_us = newest_us;
  }
}

/* --- deciding ----------------------------------------------------------------------------------
 */

static int64_t log_room(const weir_rule_state *r, const weir_ask *ask) {
  const log_state *state = r->state;
  if (state->decides_us == NO_ENTRY) return 1;
  if (state->decides_us == NOT_WRITTEN) return !r->charged && weir_ask_charges(ask);
  return log_is_over(r, state->decides_us);
}

/* The next one is measured against another. */
static int64_t log_count(weir_rule_state *r, int64_t cost) {
  (void)cost;
  ((log_memory *)r->memory)->known = false;
  return 0;
}

/* Behind a hole, the next request is measured against the next entry, now if that is not known. */
static void log_figures(const weir_rule_state *r, const weir_ask *ask, int64_t cost, bool denied,
                        weir_decision *decision) {
  const log_state *state = r->state;
  int64_t now_us = r->frame->now_us, period = r->rule->period_us;
  (void)ask;
  (void)cost;
  decision->remaining = state->high > 0 ? state->low : WEIR_NOT_KNOWN;
  if (denied) {
    int64_t entry_us = state->decides_us == NOT_WRITTEN ? state->follows_us : state->decides_us;
    int64_t wait_us = entry_us >= 0 ? entry_us + period - now_us : 0;
    decision->retry_after_us = wait_us > 0 ? wait_us : 1;
  }
  int64_t newest_us = state->newest_us == NOT_WRITTEN ? now_us : state->newest_us;
  if (newest_us != NO_ENTRY && now_us - newest_us < period)
    decision->reset_after_us = newest_us + period - now_us;
}

/* An index that was used stays so, admitted or not: log_answer_count() has written it down. */
static void log_expect(weir_rule_state *r, int64_t cost) {
  (void)r;
  (void)cost;
}

static bool log_refund(weir_rule_state *r, const weir_ask *ask, int64_t cost) {
  (void)ask;
  (void)cost;
  r->unused = 0;
  return true;
}

/* --- by the memory alone -----------------------------------------------------------------------
 */

/* A denial is known until the entry that decided it is W old: then there is room. */
static bool log_recall(weir_rule_state *r) {
  const log_memory *memory = r->memory;
  log_state *state = r->state;
  state->decides_us = memory->decides_us;
  state->newest_us = memory->newest_us;
  const weir_ask *asked = r->frame->asked;
  return memory->known && (asked == NULL || asked->class == memory->class);
}

/* Since the entry that the last request was measured against there were as many as the limit, or
 * else as many as this epoch has: as if they had come evenly. */
static void log_known(const weir_rule_state *r, weir_known *known) {
  enum { PIECES = 16 };
  const log_memory *memory = r->memory;
  const weir_rule *rule = r->rule;
  int64_t now_us = r->frame->now_us;
  bool measured = memory->decides_us > 0;
  int64_t first_us = measured ? memory->decides_us : r->expected->index * rule->log_us;
  int64_t last_us = memory->newest_us > first_us ? memory->newest_us : now_us;
  int64_t limit = weir_rule_capacity_of(rule, memory->class);
  int64_t amount = weir_known_parts(rule, measured ? limit : r->expected->amount);
  known->of_log = true;
  if (amount == 0 || now_us - last_us >= rule->period_us || last_us < first_us) return;
  for (int64_t n = 0; n < PIECES; n++) {
    int64_t at_us = first_us + (last_us - first_us) / PIECES * n;
    if (now_us - at_us >= rule->period_us) continue;
    known->charges[known->count].at_us = at_us;
    known->charges[known->count++].amount = (amount + PIECES - 1) / PIECES;
  }
}

static void log_forget(void *memory) {
  ((log_memory *)memory)->known = false;
}

const weir_method weir_log_method = {
    .stage = WEIR_STAGE_LOG,
    .needs = WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_PUT,
    .refunds_unseen = true, /* nothing goes back */
    .memory_bytes = sizeof(log_memory),
    .state_bytes = sizeof(log_state),
    .operations_most = PROBES + 2,
    .ttl_us = log_ttl_us,
    .begin = log_begin,
    .blind = log_blind,
    .plan = log_plan,
    .answer = log_answer,
    .room = log_room,
    .oldest_us = weir_read_now_us,
    .count = log_count,
    .figures = log_figures,
    .expect = log_expect,
    .refund = log_refund,
    .recall = log_recall,
    .known = log_known,
    .forget = log_forget,
};

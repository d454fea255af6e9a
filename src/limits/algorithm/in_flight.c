/* In flight (docs/guarantees.md, "In flight"): at most N at once. A place is entered, held, paid for again
 * in each period, and left; who died does not pay, and so his place is free when the period ends.
 *
 * Time is cut into epochs of width T, and each has a counter. In epoch E, which ends at X:
 *
 *     charge      ADD to C(E); who is answered from X - R on adds to C(E+1) behind it, and needs room
 *                 in both
 *     look        GET C(E), and from X - R on C(E+1)
 *     take_back   SUB from what was certainly charged of the two
 *     refund      a place is left: SUB from all that it has paid and that has not ended
 *     renew       ADD to the counter behind the last that was paid, before X - G, and unchecked: who
 *                 held a place in this epoch has one in the next
 *
 * The value that one's own addition returned is the only witness: each counter holds at least all who
 * have paid into it, as each is taken off only after it stopped believing. A renewal that is certain
 * too late is taken back, since its place was lost before; what nothing is known of is never taken back,
 * and leaks until its epoch ends. A total below 0 shows what a lost counter was given back: it is read as
 * 0.
 *
 * The share (plan.h) is the own part of what is held at once, by the time that it is held: at each answer
 * what this process has held since the one before, and what all hold, count for the time between. Entries
 * would not do, as a count does not show who entered and left between two of them. */
#include "algorithm/in_flight.h"

#include "algorithm/method.h"
#include "algorithm/plan.h"

enum { NOW, NEXT, EPOCHS }; /* E and E+1 */

/* When a denied request is told to come back: a place may be left at any time. */
#define LOOK_AGAIN_US INT64_C(50000)

/* A period, in what the share is measured in: costs for so long. */
enum { PERIOD_WEIGHT = 65536 };

/* What a process keeps of one key. */
typedef struct in_flight_memory {
  bool known;
  bool of_next;          /* the second count was read as well */
  int64_t epoch;         /* E */
  int64_t count[EPOCHS]; /* what was charged to E and E+1 */
  int64_t read_us;       /* 0: nothing was ever read */
  int64_t own_epoch;     /* of what this process holds: */
  int64_t own[EPOCHS];   /* what it has paid into that one and the next, and not left */
  int64_t learnt_us;     /* until then its share is measured; 0: not at all */
} in_flight_memory;

typedef struct in_flight_state {
  int64_t epoch;
  bool ahead;        /* the next epoch counts as well */
  bool paid[EPOCHS]; /* the store confirmed the addition */
  bool read[EPOCHS];
  int64_t count[EPOCHS]; /* without what this machine adds */
  int64_t from, to;      /* the epochs that are charged, and that go back */
} in_flight_state;
_Static_assert(sizeof(in_flight_state) <= WEIR_STATE_BYTES_MOST, "WEIR_STATE_BYTES_MOST");

/* A counter is first charged up to R before its epoch, and left until one T after that begins. */
static int64_t in_flight_ttl_us(const weir_rule *rule, const weir_settings *settings) {
  (void)settings;
  return 3 * rule->period_us;
}

static bool in_flight_is_run_up(const weir_rule_state *r, int64_t epoch, int64_t at_us) {
  int64_t end_us = (epoch + 1) * r->rule->period_us;
  return at_us >= end_us - weir_held_run_up_us(r->rule, r->frame->settings);
}

static void in_flight_begin(weir_rule_state *r) {
  in_flight_state *state = r->state;
  state->epoch = r->place = r->frame->now_us / r->rule->period_us;
  state->from = state->to = state->epoch;
  state->ahead = in_flight_is_run_up(r, state->epoch, r->frame->now_us);
}

/* --- what this process holds -------------------------------------------------------------------
 */

static int64_t own_in(const in_flight_memory *memory, int64_t epoch) {
  int64_t which = epoch - memory->own_epoch;
  return which == NOW || which == NEXT ? memory->own[which] : 0;
}

/* So much more (below 0: less). An epoch that is over is forgotten, and what is later than the next of
 * them moves them on. */
static void own_add(in_flight_memory *memory, int64_t epoch, int64_t cost) {
  if (epoch < memory->own_epoch) return;
  if (epoch > memory->own_epoch + NEXT) {
    memory->own[NOW] = own_in(memory, epoch - 1);
    memory->own[NEXT] = 0;
    memory->own_epoch = epoch - 1;
  }
  int64_t *own = &memory->own[epoch - memory->own_epoch];
  *own = *own + cost > 0 ? *own + cost : 0;
}

/* Held until now: by this process, and by all, as far as they may. What passed in too short a time to weigh
 * waits for more. */
static void in_flight_learn(weir_rule_state *r, int64_t own, int64_t held) {
  in_flight_memory *memory = r->memory;
  weir_share *share = &r->expected->share;
  int64_t period = r->rule->period_us;
  int64_t now_us = r->frame->clock_us;
  int64_t since_us = now_us - memory->learnt_us;
  if (!r->frame->settings->notices_loss) return;
  if (memory->learnt_us == 0 || since_us < 0) {
    memory->learnt_us = now_us;
    return;
  }
  int64_t weight = (since_us < period ? since_us : period) * PERIOD_WEIGHT / period;
  if (weight == 0) return;
  int64_t passed = now_us / period - memory->learnt_us / period;
  memory->learnt_us = now_us;
  if (held > r->rule->limit) held = r->rule->limit; /* who is denied has added, too */
  if (held < own) held = own;
  if (passed > 0) weir_share_halve(share, passed);
  share->mine += own * weight;
  share->all += held * weight;
  r->lesson->mine += own * weight;
  r->lesson->all += held * weight;
  r->lesson->cost += own * weight;
}

/* Where all was taken, who enters finds less than there was until a moment before. */
static int64_t held_until_entry(const weir_rule_state *r, int64_t epoch, int64_t count) {
  const in_flight_memory *memory = r->memory;
  bool was_full = memory->epoch == epoch && memory->count[NOW] >= r->rule->limit;
  return was_full ? r->rule->limit : count;
}

/* --- rounds ------------------------------------------------------------------------------------
 */

static int64_t in_flight_room(const weir_rule_state *r, const weir_ask *ask) {
  const in_flight_state *state = r->state;
  int64_t limit = weir_ask_capacity(r->rule, ask);
  int64_t most = state->count[NOW];
  if (state->ahead && state->count[NEXT] > most) most = state->count[NEXT];
  return most < limit ? limit - most : 0;
}

/* Whether something is free in this epoch for some request that wants to enter. */
static bool in_flight_some_free(const weir_rule_state *r) {
  const in_flight_state *state = r->state;
  for (const weir_claim *request = r->frame->requests; request != NULL; request = request->next)
    if (state->count[NOW] < weir_ask_capacity(r->rule, &request->ask)) return true;
  return false;
}

/* A charge: where nothing is free in this epoch the next one need not be asked. A reset: a clock that is
 * late or early by less than T may have charged the epoch before. */
static void in_flight_plan(weir_rule_state *r, weir_phase phase) {
  in_flight_state *state = r->state;
  int64_t own = state->epoch, step = r->step++;
  if (phase == WEIR_PHASE_CHARGE && step == 1 && state->paid[NOW] && state->ahead &&
      in_flight_some_free(r))
    weir_plan(r, WEIR_ADD, WEIR_PLACE_COUNT, own + 1)->delta = r->charge;
  if (step > 0) return;
  if (phase == WEIR_PHASE_LOOK) {
    weir_plan(r, WEIR_GET, WEIR_PLACE_COUNT, own);
    if (state->ahead) weir_plan(r, WEIR_GET, WEIR_PLACE_COUNT, own + 1);
  } else if (phase == WEIR_PHASE_CHARGE) {
    weir_plan(r, WEIR_ADD, WEIR_PLACE_COUNT, own)->delta = r->charge;
  } else if (phase == WEIR_PHASE_TAKE_BACK) {
    for (int64_t epoch = state->from; epoch <= state->to; epoch++)
      weir_plan(r, WEIR_SUB, WEIR_PLACE_COUNT, epoch)->delta = r->unused;
  } else if (phase == WEIR_PHASE_RESET) {
    for (int64_t epoch = own > 0 ? own - 1 : 0; epoch <= own + 1; epoch++)
      weir_plan(r, WEIR_DROP, WEIR_PLACE_COUNT, epoch);
  }
}

/* What was held when the store went away is not renewed by this process, and counts until its epoch
 * ends. */
static void in_flight_store(weir_rule_state *r, const weir_known *known, bool afresh) {
  const in_flight_state *state = r->state;
  const weir_rule *rule = r->rule;
  for (int64_t epoch = state->epoch; epoch <= state->epoch + 1; epoch++) {
    int64_t count = 0;
    for (size_t n = 0; n < known->count; n++)
      if (known->charges[n].at_us / rule->period_us == epoch)
        count += weir_known_here(rule, known->charges[n].amount);
    weir_operation *operation =
        weir_plan(r, afresh ? WEIR_PUT : WEIR_CREATE, WEIR_PLACE_COUNT, epoch);
    operation->value = count;
    operation->stake = weir_plan_stake(count, rule->limit);
  }
}

/* Pays only in the epoch that is paid, and before its guard; a clock that was set has lost the place. A
 * payment that was confirmed too late goes back. */
static void in_flight_renew(weir_rule_state *r, int64_t cost, int64_t *end_us) {
  const in_flight_state *state = r->state;
  int64_t period = r->rule->period_us;
  int64_t latest_us = *end_us - weir_held_guard_us(r->rule, r->frame->settings);
  int step = r->step++;
  if (step == 0) {
    r->charge = r->unused = cost;
    r->place = *end_us / period;
    if (r->frame->now_us < *end_us - period || r->frame->now_us >= latest_us) return;
    weir_plan(r, WEIR_ADD, WEIR_PLACE_COUNT, r->place)->delta = cost;
  } else if (step == 1 && state->paid[NEXT]) {
    r->charged = r->frame->clock_us < latest_us;
    if (!r->charged) {
      weir_plan(r, WEIR_SUB, WEIR_PLACE_COUNT, r->place)->delta = cost;
      return;
    }
    *end_us += period;
    in_flight_memory *memory = r->memory;
    own_add(memory, r->place, cost);
    if (memory->epoch + NEXT == r->place) memory->count[NEXT] = state->count[NEXT] + cost;
    r->lesson->charges += cost;
    if (r->frame->settings->notices_loss) weir_expect_add(r, r->place, cost);
  }
}

/* A place was left, and what stays is known. What a machine has charged itself was not held. */
static void in_flight_left(weir_rule_state *r, const weir_operation *operation) {
  const in_flight_state *state = r->state;
  in_flight_memory *memory = r->memory;
  int64_t index = operation->counter.index;
  int64_t stays = weir_count_of(operation->value);
  if (r->charged || operation->outcome != WEIR_DONE || index != state->epoch) return;
  in_flight_learn(r, own_in(memory, index) + operation->delta, stays + operation->delta);
  if (memory->epoch == index) memory->count[NOW] = stays;
}

/* What was read stays with the key. */
static void in_flight_remember(weir_rule_state *r) {
  const in_flight_state *state = r->state;
  in_flight_memory *memory = r->memory;
  memory->known = state->read[NOW];
  memory->of_next = state->read[NEXT];
  memory->epoch = state->epoch;
  memory->count[NOW] = state->count[NOW];
  memory->count[NEXT] = state->count[NEXT];
  memory->read_us = r->frame->clock_us;
}

/* What stands in a counter, without one's own addition. */
static void in_flight_answer(weir_rule_state *r, const weir_operation *operation) {
  in_flight_state *state = r->state;
  bool adds = operation->kind == WEIR_ADD;
  int64_t index = operation->counter.index;
  if (r->frame->phase == WEIR_PHASE_RENEW) {
    if (!adds) return;
    state->paid[NEXT] = true;
    state->count[NEXT] = weir_count_of(weir_stored_before(operation));
    return;
  }
  if (operation->kind == WEIR_SUB) in_flight_left(r, operation);
  int64_t own = own_in(r->memory, index);
  if ((!adds && operation->kind != WEIR_GET) || index < state->epoch || index > state->epoch + 1)
    return;
  int which = (int)(index - state->epoch);
  int64_t count = weir_count_of(weir_stored_before(operation));
  state->count[which] = count;
  state->read[which] = true;
  if (which == NOW) in_flight_learn(r, own, adds ? held_until_entry(r, index, count) : count);
  if (adds) {
    state->paid[which] = true;
    state->to = index;
  }
  if (adds && which == NOW) {
    r->charged = true;
    state->ahead = state->ahead || in_flight_is_run_up(r, index, r->frame->clock_us);
  }
  in_flight_remember(r);
  weir_expect_compare(r, index, count);
}

/* --- deciding ----------------------------------------------------------------------------------
 */

static int64_t in_flight_count(weir_rule_state *r, int64_t cost) {
  in_flight_state *state = r->state;
  in_flight_memory *memory = r->memory;
  for (int which = NOW; which <= (state->ahead ? NEXT : NOW); which++) {
    state->count[which] += cost;
    memory->count[which] += cost;
    own_add(memory, state->epoch + which, cost);
  }
  return 0;
}

/* Who holds goes on holding: nothing is sure to be free but what is free now. */
static void in_flight_figures(const weir_rule_state *r, const weir_ask *ask, int64_t cost,
                              bool denied, weir_decision *decision) {
  const in_flight_state *state = r->state;
  (void)cost;
  decision->remaining = in_flight_room(r, ask);
  if (denied) decision->retry_after_us = LOOK_AGAIN_US;
  bool none = state->count[NOW] == 0 && !(state->ahead && state->count[NEXT] > 0);
  int64_t end_us = (state->epoch + (state->ahead ? 2 : 1)) * r->rule->period_us;
  decision->reset_after_us = none ? 0 : end_us - r->frame->now_us;
}

/* Of what was just counted, the end of the last epoch that is paid. */
static int64_t in_flight_end(const weir_rule_state *r) {
  const in_flight_state *state = r->state;
  return (state->epoch + (state->paid[NEXT] ? 2 : 1)) * r->rule->period_us;
}

static void in_flight_expect(weir_rule_state *r, int64_t cost) {
  const in_flight_state *state = r->state;
  if (cost > 0) {
    weir_expect_add(r, r->place, cost);
    r->lesson->charges++;
  }
  for (int64_t epoch = state->from; cost < 0 && epoch <= state->to; epoch++)
    weir_expect_add(r, epoch, cost);
}

/* From the epoch of now, or that of the entry where that is later, to the last that is paid: never
 * more than two, the clock having been set back if they seem to be. */
static bool in_flight_refund(weir_rule_state *r, const weir_ask *ask, int64_t cost) {
  in_flight_state *state = r->state;
  int64_t period = r->rule->period_us;
  r->unused = 0;
  if (ask->ends == NULL || ask->ends[r->index] < period || ask->at_us < 0) return false;
  state->from = ask->at_us / period;
  state->to = ask->ends[r->index] / period - 1;
  if (state->from < state->epoch) state->from = state->epoch;
  if (state->from < state->to - 1) state->from = state->to - 1;
  if (state->from <= state->to) r->unused = cost;
  for (int64_t epoch = state->from; ask->terms != WEIR_AGAIN && epoch <= state->to; epoch++)
    own_add(r->memory, epoch, -cost);
  return true;
}

/* --- by the memory alone -----------------------------------------------------------------------
 */

static bool in_flight_recall(weir_rule_state *r) {
  const in_flight_memory *memory = r->memory;
  in_flight_state *state = r->state;
  int64_t now_us = r->frame->now_us;
  state->epoch = now_us / r->rule->period_us;
  state->ahead = in_flight_is_run_up(r, state->epoch, now_us);
  state->count[NOW] = memory->count[NOW];
  state->count[NEXT] = memory->count[NEXT];
  return memory->known && memory->epoch == state->epoch && (memory->of_next || !state->ahead) &&
         memory->read_us <= now_us && now_us - memory->read_us <= r->frame->settings->memo_age_us;
}

static void in_flight_known(const weir_rule_state *r, weir_known *known) {
  const in_flight_memory *memory = r->memory;
  int64_t period = r->rule->period_us;
  int64_t now = r->frame->now_us / period;
  for (int64_t epoch = now; epoch < now + EPOCHS; epoch++) {
    int64_t which = epoch - memory->epoch;
    int64_t own = own_in(memory, epoch);
    int64_t count = which == NOW || which == NEXT ? memory->count[which] : 0;
    if (count == 0 && own == 0) continue;
    known->charges[known->count].at_us = epoch * period;
    known->charges[known->count].own = weir_known_parts(r->rule, own);
    known->charges[known->count++].amount = weir_known_parts(r->rule, count);
  }
}

static void in_flight_forget(void *memory) {
  ((in_flight_memory *)memory)->known = false;
}

static const weir_holding_table in_flight_holding = {.end = in_flight_end,
                                                     .renew = in_flight_renew};

const weir_method weir_in_flight_method = {
    .stage = WEIR_STAGE_COUNTERS,
    .needs = WEIR_NEED_ADD | WEIR_NEED_GET | WEIR_NEED_SUB,
    .charges_at_once = true,
    .refunds_unseen = true,
    .memory_bytes = sizeof(in_flight_memory),
    .state_bytes = sizeof(in_flight_state),
    .operations_most = 2 * EPOCHS, /* takes back both and looks at both */
    .ttl_us = in_flight_ttl_us,
    .begin = in_flight_begin,
    .blind = weir_always_blind,
    .plan = in_flight_plan,
    .store = in_flight_store,
    .answer = in_flight_answer,
    .room = in_flight_room,
    .oldest_us = weir_read_now_us,
    .count = in_flight_count,
    .figures = in_flight_figures,
    .expect = in_flight_expect,
    .refund = in_flight_refund,
    .recall = in_flight_recall,
    .known = in_flight_known,
    .forget = in_flight_forget,
    .holding = &in_flight_holding,
};

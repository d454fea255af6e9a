/* Records of keys: reading them beside a decision. record.h says what they are.
 *
 *     take_group ──> seek ──┬──> known ──────────────> the machine starts, with that limit
 *                           ├──> rides: GET leaves with the charge ──> absorb ──> the machine goes on
 *                           └──> GET leaves alone ──> absorb ──> the machine starts
 *
 * A record that was read up to T ago (limits_us) is known. What a window is charged is the same under any
 * limit: so the reading costs no trip there, and the answer only says what was admitted. A bucket is charged
 * time, which the limit measures, and a log is searched by it: they are charged once it is known. */
#include "limiter/record.h"

#include "algorithm/machine.h"
#include "limiter/limiter.h"

/* How long what is lost is believed: ten minutes, by steps of ten seconds. What a record has room for is
 * which step of a turn it was, from 1 on. */
enum { KEPT_STEPS = 60, TURN_STEPS = 63 };
#define STEP_US INT64_C(10000000)

/* What is kept of a record: that of a tier is the limit that it has here, so that no request looks for it. */
int64_t weir_record_resolve(const weir_limiter *limiter, int64_t stored) {
  const weir_rule *rule = &limiter->stack.rules[limiter->steered];
  if (weir_record_kind(stored) != WEIR_KEY_LIMIT_TIER) return stored;
  int64_t limit = weir_rule_read_tier(rule, weir_record_number(stored), NULL);
  return limit == 0 ? stored : weir_record_of_kind(WEIR_KEY_LIMIT_NUMBER, limit);
}

/* In the place of a limit. */
enum { RULES_OWN = 0, BLOCKED = -1, UNLIMITED = -2 };

/* The limit that holds for the key. One above most= counts as that. What a later version has stored, and
 * this one cannot read, is the rule's. A tier that the rule lacks says as little as no record. */
static int64_t limit_of(const weir_limiter *limiter, const weir_record *record) {
  const weir_rule *rule = &limiter->stack.rules[limiter->steered];
  int64_t number = weir_record_number(record->stored);
  unsigned kind = weir_record_kind(record->stored);
  if (record->stored == 0 || kind == WEIR_KEY_LIMIT_TIER)
    return limiter->absent_denies ? BLOCKED : RULES_OWN;
  if (kind == WEIR_KEY_LIMIT_BLOCKED) return BLOCKED;
  if (kind == WEIR_KEY_LIMIT_UNLIMITED) return limiter->may_spare ? UNLIMITED : rule->most;
  if (kind != WEIR_KEY_LIMIT_NUMBER) return RULES_OWN;
  if (number > rule->most) number = rule->most;
  return number < limiter->limit_least ? limiter->limit_least : number;
}

/* What machines know of the key by. Where it is unlimited that is for what was charged before. */
static int64_t ruled_by(const weir_limiter *limiter, int64_t limit) {
  return limit == BLOCKED     ? RULES_OWN
         : limit == UNLIMITED ? limiter->stack.rules[limiter->steered].most
                              : limit;
}

/* --- what it answers by itself -----------------------------------------------------------------
 */

static void deny(const weir_limiter *limiter, weir_claim *request, int64_t now_us) {
  size_t i = limiter->steered;
  weir_claim_refuse(&limiter->stack.rules[i], i, now_us, request);
  request->verdict.away = request->verdict.gone = false;
}

/* Whether no other rule has a say. */
static bool is_steered_alone(const weir_limiter *limiter, const weir_ask *ask) {
  for (size_t i = 0; i < limiter->stack.count; i++)
    if (i != limiter->steered && (ask->costs == NULL || ask->costs[i] > 0)) return false;
  return true;
}

/* Of an unlimited key. Nothing is charged, and nothing is ever due: so each is told what is the most that a
 * key may have. */
static void admit(const weir_limiter *limiter, weir_claim *request, int64_t now_us) {
  const weir_stack *most = limiter->limited_most;
  int64_t limit = weir_ask_capacity(&most->rules[limiter->steered], &request->ask);
  weir_claim_offer(most, request);
  request->verdict.decision = (weir_decision){
      .allowed = true,
      .source = WEIR_SOURCE_UNLIMITED,
      .rule = (uint32_t)limiter->steered,
      .limit = limit,
      .remaining = limit,
      .cost = request->ask.costs != NULL ? WEIR_OWN_COSTS
                                         : request->verdict.held + request->verdict.charge,
      .at_us = now_us,
  };
  request->verdict.status = WEIR_OK;
  request->verdict.answered = true;
  request->verdict.away = request->verdict.gone = false;
}

/* As by a rule with this limit. */
static bool never_fits(const weir_limiter *limiter, int64_t limit, weir_claim *request,
                       int64_t now_us) {
  weir_claim limited = *request;
  limited.ask.limit = limit;
  if (!weir_settle_never(&limiter->stack, now_us, &limited)) return false;
  request->verdict = limited.verdict;
  return true;
}

/* A claim of a stand-in's is asked for by nobody. */
static bool is_asked(const weir_claim *request) {
  return weir_ask_is_decided(&request->ask) && request->ask.terms != WEIR_DEBT;
}

/* What it really cost is charged as far as the key's limit goes. */
static bool charges_more(const weir_limiter *limiter, const weir_ask *ask) {
  return ask->kind == WEIR_SETTLE && ask->costs[limiter->steered] > 0;
}

/* At this moment. */
static bool is_known(const weir_limiter *limiter, const weir_record *record, int64_t now_us) {
  int64_t read_us = (int64_t)record->read_us;
  return read_us != 0 && read_us <= now_us && now_us - read_us < limiter->limits_us;
}

/* Whether this limit of its key is an answer. */
static bool answer(const weir_limiter *limiter, int64_t limit, weir_claim *request,
                   int64_t now_us) {
  bool admits = limit == UNLIMITED && is_steered_alone(limiter, &request->ask);
  if (limit == BLOCKED) deny(limiter, request, now_us);
  if (admits) admit(limiter, request, now_us);
  return limit == BLOCKED || admits;
}

/* What is charged ahead is of no use under such a limit. */
static bool bars(int64_t limit) {
  return limit == BLOCKED || limit == UNLIMITED;
}

bool weir_record_says_bar(const weir_limiter *limiter, const weir_memo_entry *entry) {
  const weir_record *record = weir_record_of(limiter, entry);
  return record->read_us != 0 && bars(limit_of(limiter, record));
}

void weir_record_bar(weir_limiter *limiter, weir_memo_entry *entry) {
  if (!weir_record_bars(limiter, entry)) return;
  entry->memo->denied_cost = 0;
  weir_table_hide_denial(limiter->table, entry);
  if (limiter->known->drop != NULL) limiter->known->drop(limiter, entry);
}

bool weir_record_says_let(const weir_limiter *limiter, const weir_memo_entry *entry,
                          int64_t now_us) {
  const weir_record *record = weir_record_of(limiter, entry);
  return is_known(limiter, record, now_us) && !bars(limit_of(limiter, record));
}

bool weir_record_recall(const weir_limiter *limiter, const weir_memo_entry *entry,
                        weir_claim *request, int64_t now_us) {
  const weir_record *record = weir_record_of(limiter, entry);
  if (request->ask.limit != 0 || !is_asked(request) || !is_known(limiter, record, now_us))
    return false;
  return answer(limiter, limit_of(limiter, record), request, now_us);
}

void weir_record_apply(weir_call *call, weir_group *group) {
  weir_limiter *limiter = call->limiter;
  int64_t limit = limit_of(limiter, weir_record_of(limiter, group->entry));
  int64_t ruled = ruled_by(limiter, limit);
  weir_memo_limits_of(&limiter->stack, group->entry->memo)->ruled = ruled;
  weir_claim **link = &group->requests;
  for (weir_claim *request = *link; request != NULL; request = *link) {
    bool asked = is_asked(request);
    request->ask.spares = asked && limit == UNLIMITED ? (uint8_t)(1U << limiter->steered) : 0;
    if (asked && (answer(limiter, limit, request, group->starts_us) ||
                  never_fits(limiter, ruled, request, group->starts_us))) {
      *link = request->next;
      weir_call_finish(call, weir_waiting_of(request));
    } else {
      link = &request->next;
    }
  }
}

/* --- reading -----------------------------------------------------------------------------------
 */

/* A plain take, or a refill. */
static bool rides(const weir_ask *ask) {
  bool plain = ask->kind == WEIR_TAKE && ask->terms == WEIR_PLAIN && !ask->up_to;
  return plain || ask->kind == WEIR_REFILL;
}

/* What most likely is unlimited still is not charged. And a group that charges ahead, or pays, cannot begin anew,
 * as it must where its key is unlimited and other rules have a say. */
static bool may_ride(const weir_limiter *limiter, const weir_group *group) {
  bool starts_once = limiter->leases || group->entry->stand_ins & WEIR_DIVERTS;
  bool may = !group->entry->memo->must_peek && group->machine->only_windows &&
             !(starts_once && limiter->stack.count > 1) &&
             limit_of(limiter, weir_record_of(limiter, group->entry)) != UNLIMITED;
  for (size_t i = 0; i < limiter->stack.count; i++)
    may = may && weir_rule_keeps_counts(&limiter->stack.rules[i]);
  for (const weir_claim *request = group->requests; request != NULL; request = request->next)
    may = may && rides(&request->ask);
  return may;
}

/* Requests that bring a limit of their own need no record; and what only gives back, is paid on or forgets is
 * done by what is known. A refill reads it before it is too old. For one alone no request waits, and perhaps
 * it charges nothing. */
weir_record_reads weir_record_seek(weir_call *call, weir_group *group) {
  const weir_limiter *limiter = call->limiter;
  weir_memo_entry *entry = group->entry;
  bool asks = false, refills = false;
  for (const weir_claim *request = group->requests; request != NULL; request = request->next) {
    refills = refills || request->ask.kind == WEIR_REFILL;
    asks = asks || is_asked(request) || charges_more(limiter, &request->ask);
  }
  if (group->requests->ask.limit != 0 || !(asks || refills)) return WEIR_RECORD_KNOWN;
  bool is_due = refills && weir_record_is_due(limiter, entry, group->starts_us);
  if (!is_due && is_known(limiter, weir_record_of(limiter, entry), group->starts_us)) {
    weir_record_apply(call, group);
    return WEIR_RECORD_KNOWN;
  }
  return asks && may_ride(limiter, group) ? WEIR_RECORD_RIDES : WEIR_RECORD_FIRST;
}

void weir_record_plan(weir_call *call, weir_group *group, bool alone) {
  weir_round *round = &call->round;
  weir_frame *frame = &group->machine->frame;
  if (alone) {
    frame->operations = round->planned + round->planned_count;
    frame->operation_count = 0;
    frame->phase = WEIR_PHASE_LOOK;
    frame->now_us = group->starts_us;
    frame->lost = 0;
    group->turn = WEIR_TURN_EXECUTE;
  }
  frame->operations[frame->operation_count++] = (weir_operation){
      .kind = WEIR_GET,
      .counter = {.rule = (uint32_t)call->limiter->steered, .place = WEIR_PLACE_LIMIT}};
  round->planned_count++;
}

static unsigned lost_step(int64_t now_us) {
  return (unsigned)(now_us / STEP_US % TURN_STEPS) + 1;
}

/* How many steps have begun since it was lost. When it was read last they were less than a turn. */
static int64_t steps_lost(const weir_record *record, int64_t now_us) {
  int64_t read_us = (int64_t)record->read_us;
  unsigned then = lost_step(read_us) + TURN_STEPS - (unsigned)record->lost_step;
  return then % TURN_STEPS + now_us / STEP_US - read_us / STEP_US;
}

/* What was there and is not any more is believed for a while: `unset` would have said so. */
static void learn(weir_call *call, weir_record *record, int64_t stored, int64_t read_us) {
  if (stored != 0) {
    stored = weir_record_resolve(call->limiter, stored);
    if (weir_record_kind(stored) == WEIR_KEY_LIMIT_TIER) call->work.tiers_unknown++;
    *record = weir_record_read_at(stored, read_us);
    return;
  }
  bool says = record->stored != 0 && (call->limiter->absent_denies ||
                                      weir_record_kind(record->stored) != WEIR_KEY_LIMIT_NONE);
  unsigned lost = says ? record->lost_step : 0;
  if (says && lost == 0) call->work.limits_lost++;
  /* Its clock was set back, or this group is stamped before the loss: steps of before mean others. */
  if (says && (lost == 0 || record->read_us == 0 || steps_lost(record, read_us) < 0))
    lost = lost_step(read_us);
  else if (says && steps_lost(record, read_us) > KEPT_STEPS)
    lost = 0;
  *record = weir_record_read_at(lost != 0 ? record->stored : 0, read_us);
  record->lost_step = lost & 63U;
}

weir_record_read weir_record_absorb(weir_call *call, weir_group *group, bool rode,
                                    weir_operation *read) {
  weir_limiter *limiter = call->limiter;
  weir_memo_entry *entry = group->entry;
  weir_frame *frame = &group->machine->frame;
  *read = frame->operations[--frame->operation_count];
  if (read->outcome != WEIR_DONE && read->outcome != WEIR_ABSENT) return WEIR_RECORD_NOT_READ;
  weir_lock_take(&entry->shard->lock);
  weir_record *record = weir_record_of(limiter, entry);
  learn(call, record, read->outcome == WEIR_DONE ? read->value : 0, frame->now_us);
  int64_t limit = limit_of(limiter, record);
  int64_t ruled = ruled_by(limiter, limit);
  if (limit != BLOCKED) weir_memo_limits_of(&limiter->stack, entry->memo)->ruled = ruled;
  if (limit != BLOCKED && rode) weir_machine_rule(group->machine, ruled);
  weir_record_bar(limiter, entry);
  weir_lock_leave(&entry->shard->lock);
  return limit == BLOCKED     ? WEIR_RECORD_BLOCKS
         : limit == UNLIMITED ? WEIR_RECORD_LIFTS
                              : WEIR_RECORD_READ;
}

int64_t weir_record_safe(const weir_limiter *limiter) {
  return limiter->stack.rules[limiter->steered].most;
}

void weir_record_end(const weir_limiter *limiter, const weir_group *group, weir_claim *request) {
  weir_verdict *verdict = &request->verdict;
  int64_t limit = verdict->held > 0 ? weir_record_safe(limiter) : group->machine->limit;
  verdict->limit = limit != 0 ? limit : limiter->stack.rules[limiter->steered].limit;
  if (request->ask.spares != 0 && verdict->status == WEIR_OK && verdict->decision.allowed)
    verdict->decision.source = WEIR_SOURCE_UNLIMITED;
}

/* What could not go back, or may not have, is left: of other rules nothing is charged a second time then. */
static bool begin_anew(weir_group *group) {
  bool unknown = false;
  for (const weir_claim *request = group->requests; request != NULL; request = request->next)
    unknown = unknown || request->verdict.status == WEIR_UNKNOWN_OUTCOME;
  for (weir_claim *request = group->requests; !unknown && request != NULL; request = request->next)
    request->verdict =
        (weir_verdict){.held = request->verdict.held, .charge = request->verdict.charge};
  return !unknown;
}

bool weir_record_tell(const weir_call *call, weir_group *group) {
  const weir_machine *machine = group->machine;
  const weir_limiter *limiter = call->limiter;
  int64_t now_us = machine->frame.now_us;
  int64_t ruled = weir_memo_limits_of(machine->stack, machine->frame.memo)->ruled;
  if (group->reads == WEIR_RECORD_SPARES && limiter->stack.count > 1) return begin_anew(group);
  for (weir_claim *request = group->requests; request != NULL; request = request->next) {
    if (!is_asked(request)) continue;
    bool denied = request->verdict.status == WEIR_OK && !request->verdict.decision.allowed;
    bool ahead = weir_ask_is_ahead(&request->ask); /* nothing of it was left */
    if (group->reads == WEIR_RECORD_DENIES || (group->reads == WEIR_RECORD_SPARES && ahead))
      deny(limiter, request, now_us);
    else if (group->reads == WEIR_RECORD_SPARES)
      admit(limiter, request, now_us);
    else if (denied)
      never_fits(limiter, ruled, request, now_us);
  }
  return false;
}

bool weir_record_answers(weir_limiter *limiter, weir_waiting *request) {
  const weir_ask *ask = &request->claim.ask;
  if (ask->limit != 0 || !is_asked(&request->claim)) return false;
  weir_memo_entry *entry = weir_limiter_lock(limiter, ask->key, ask->key_length);
  if (entry == NULL) return false;
  weir_record *record = weir_record_of(limiter, entry);
  if (record->read_us == 0) {
    weir_record_inherit(limiter, record, ask);
    record->stored = weir_record_resolve(limiter, record->stored); /* its rule may know the tier */
  }
  int64_t limit = record->read_us != 0 ? limit_of(limiter, record) : RULES_OWN;
  weir_lock_leave(&entry->shard->lock);
  return answer(limiter, limit, &request->claim, weir_limiter_now(limiter));
}

/* Buckets where the store raises a value and adds to it: decided on what the addition returned.
 *
 *     GET ──> fits ──> RAISE ──> fits ──> done
 *                        │ others came between
 *                        └─> SUB        overshoot goes back, unless places in a queue may follow it
 *
 * Times are kept per epoch, because the store counts in doubles. For as long as anything charged
 * before an epoch's start may count after it (the handover), both keys are read, both are charged,
 * and what is ahead is the later of the two: a process whose clock is behind still charges the old
 * key alone. The new key is raised to what the old one holds, so that in the end it knows all.
 *
 * A charge renews the TTL only where less than is needed may be left of it. A RAISE that does not
 * renew never creates, so it may find nothing: then the one that does follows.
 */
#include "algorithm/bucket_lock.h"

enum { NEXT = -1, PRESENT, PAST, KEYS_MOST }; /* epochs, and how many count at once */
enum { NOT_READ = -1 };

static int64_t handover_units(const weir_rule *rule, const weir_terms *terms) {
  return weir_bucket_full(rule) +
         weir_bucket_units(rule, terms->longest_wait_us + 3 * terms->margin_us);
}

/* How long a key must live after a charge. */
static int64_t needed_us(const weir_rule *rule, const weir_terms *terms) {
  return weir_bucket_ttl_us(rule, terms) + weir_bucket_us(rule, handover_units(rule, terms));
}

/* How much longer it is given: a quarter of the whole. */
static int64_t spare_us(const weir_rule *rule, const weir_terms *terms) {
  return (needed_us(rule, terms) + 2) / 3;
}

int64_t weir_bucket_raised_ttl_us(const weir_rule *rule, const weir_terms *terms) {
  return needed_us(rule, terms) + spare_us(rule, terms);
}

/* How many keys count. */
static int keys(const weir_rule *rule, const weir_terms *terms, int64_t now_us) {
  bool handover = weir_bucket_epoch(rule, now_us) > 0 &&
                  weir_bucket_offset(rule, now_us) < handover_units(rule, terms);
  return handover ? KEYS_MOST : 1;
}

/* Now, as a key would hold it. */
static int64_t now_in(const weir_rule *rule, int64_t now_us, int key) {
  return weir_bucket_offset(rule, now_us) + key * WEIR_BUCKET_EPOCH;
}

/* What is kept of the keys; a key of which nothing is known holds the start of its epoch, as one
 * that is absent does. A look just before a roll has read what is now the past. */
static bool recall(const weir_rule *rule, const weir_terms *terms, const weir_kept *kept,
                   int64_t now_us, int64_t values[KEYS_MOST]) {
  int64_t behind = weir_bucket_epoch(rule, now_us) - kept->bucket.index;
  if (!kept->bucket.known || behind < 0 || behind > 1) return false;
  values[PRESENT] = behind == 0 ? kept->bucket.value : 0;
  values[PAST] = behind == 0 ? kept->bucket.past : kept->bucket.value;
  return values[PAST] != NOT_READ || keys(rule, terms, now_us) == 1;
}

static bool ahead(const weir_rule *rule, const weir_terms *terms, const weir_kept *kept,
                  int64_t now_us, int64_t *units) {
  int64_t values[KEYS_MOST];
  if (!recall(rule, terms, kept, now_us, values)) return false;
  *units = 0;
  for (int key = 0; key < keys(rule, terms, now_us); key++) {
    int64_t later = values[key] - now_in(rule, now_us, key);
    if (later > *units) *units = later;
  }
  return true;
}

static int64_t stored(const weir_rule *rule, int64_t now_us, int64_t units) {
  return weir_bucket_offset(rule, now_us) + units;
}

static bool may_wait(const weir_rule *rule, const weir_ask *ask) {
  return rule->kind == WEIR_LEAKY_BUCKET || (ask->waits && ask->wait_us > 0);
}

/* A charge that turns out too large denies others until it is back, and stays where places in a
 * queue may follow: so none without a look unless the bucket is far from full. */
static bool blind(const weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t now_us = machine->now_us;
  if (keys(rule, machine->terms, now_us) > 1 ||
      machine->notes->rules[i].kept.bucket.index != weir_bucket_epoch(rule, now_us))
    return false;
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next)
    if (may_wait(rule, ask)) return false;
  return 2 * machine->parts[i].bucket.ahead < weir_bucket_full(rule);
}

/* --- planning ----------------------------------------------------------------------------------
 */

static int keys_now(const weir_machine *machine, size_t i) {
  return keys(&machine->stack->rules[i], machine->terms, machine->parts[i].now_us);
}

static weir_action *plan(weir_machine *machine, size_t i, weir_operation_kind kind, int key) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t ttl_us = weir_bucket_raised_ttl_us(rule, machine->terms);
  int64_t epoch = weir_bucket_epoch(rule, machine->parts[i].now_us);
  weir_action *action = weir_plan(machine, i, kind, WEIR_PLACE_COUNT, epoch - key, ttl_us);
  action->raised = kind == WEIR_GET || kind == WEIR_SUB;
  return action;
}

/* An epoch's length is the highest floor there is: where now is past it, that much less. */
static weir_action *plan_raise(weir_machine *machine, size_t i, int key, int64_t floor,
                               int64_t delta) {
  weir_action *action = plan(machine, i, WEIR_RAISE, key);
  action->refresh = true;
  action->floor = floor < WEIR_BUCKET_EPOCH ? floor : WEIR_BUCKET_EPOCH;
  action->delta = delta;
  return action;
}

/* Whether a charge that leaves so much ahead finds at least needed_us left of the key's life; and
 * should others have renewed it since whose bucket is smaller, at least until that has drained. A
 * charge that counts reaches the store at most D after now, and clocks may err by d at both ends: e
 * in all. A clock that does not keep the pace of real time cannot tell. */
static bool lives_long_enough(const weir_machine *machine, size_t i, int64_t ahead) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_terms *terms = machine->terms;
  int64_t renewed_us = machine->notes->rules[i].kept.bucket.renewed_us;
  int64_t age_us = machine->parts[i].now_us - renewed_us;
  int64_t others_us = needed_us(rule, terms) - 2 * weir_bucket_us(rule, weir_bucket_full(rule));
  return renewed_us > 0 && terms->least_ttl_us == 0 && age_us >= 0 &&
         age_us + terms->margin_us <= spare_us(rule, terms) &&
         age_us + terms->margin_us + weir_bucket_us(rule, ahead) <= others_us + others_us / 3;
}

/* What is kept stops being true with what is sent. */
static void forget(weir_machine *machine, size_t i) {
  weir_kept *kept = &machine->notes->rules[i].kept;
  int64_t index = weir_bucket_epoch(&machine->stack->rules[i], machine->parts[i].now_us);
  kept->bucket.known = false;
  if (kept->bucket.index != index) kept->bucket.renewed_us = 0;
  kept->bucket.index = index;
  kept->bucket.value = 0;
  kept->bucket.past = keys_now(machine, i) > 1 ? 0 : NOT_READ;
}

static void plan_reads(weir_machine *machine, size_t i) {
  forget(machine, i);
  for (int key = 0; key < keys_now(machine, i); key++)
    plan(machine, i, WEIR_GET, key);
}

/* From too far ahead to a full bucket. Dropped and made anew, not lowered by the difference:
 * several may find it at once. */
static void plan_mending(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  const weir_kept *kept = &machine->notes->rules[i].kept;
  int64_t values[KEYS_MOST] = {kept->bucket.value, kept->bucket.past};
  for (int key = 0; key < keys_now(machine, i); key++) {
    int64_t now = now_in(rule, machine->parts[i].now_us, key);
    if (values[key] - now <= weir_bucket_furthest(rule, machine->terms)) continue;
    int64_t full = now + weir_bucket_full(rule);
    int64_t floor = full - 1 < WEIR_BUCKET_EPOCH ? full - 1 : WEIR_BUCKET_EPOCH;
    plan(machine, i, WEIR_DROP, key);
    plan_raise(machine, i, key, floor, full - floor);
  }
}

/* To the same height whoever does it. */
static void plan_lock(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t now_us = machine->parts[i].now_us;
  int64_t top = now_in(rule, now_us, PRESENT) + weir_bucket_lock_units(rule, machine->terms);
  machine->notes->rules[i].kept.bucket.locked_us = now_us;
  plan_raise(machine, i, PRESENT, top - 1, 1);
}

/* Whoever only peeks changes nothing. */
static bool locks(const weir_machine *machine, size_t i) {
  const weir_part *part = &machine->parts[i];
  bool due =
      weir_bucket_lock_is_due(&machine->stack->rules[i], machine->terms,
                              &machine->notes->rules[i].kept, part->now_us, part->bucket.ahead);
  return due && weir_machine_has_takes(machine);
}

static void look(weir_machine *machine, size_t i) {
  int step = machine->parts[i].step++;
  if (step == 0)
    plan_reads(machine, i);
  else if (step == 1 && weir_bucket_mends(machine, i))
    plan_mending(machine, i);
  else if (step == 1 && locks(machine, i))
    plan_lock(machine, i);
}

/* --- charging ----------------------------------------------------------------------------------
 */

/* What takes that may wait cost together: those that are open, or those that were admitted. */
static int64_t waiting_cost(const weir_machine *machine, size_t i, bool admitted) {
  int64_t sum = 0;
  for (const weir_ask *ask = machine->asks; ask != NULL; ask = ask->next) {
    bool counts = ask->settled == admitted && (!admitted || ask->decision.allowed);
    if (ask->kind == WEIR_ASK_TAKE && counts && may_wait(&machine->stack->rules[i], ask))
      sum += weir_ask_cost(ask, i);
  }
  return sum;
}

/* The present key first: should this process stop in between, that is the one that stays. */
static void plan_charge(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_kept *kept = &machine->notes->rules[i].kept;
  weir_part *part = &machine->parts[i];
  int64_t values[KEYS_MOST] = {0};
  recall(rule, machine->terms, kept, part->now_us, values);
  int64_t units = part->charge * rule->token_units;
  int64_t floor = now_in(rule, part->now_us, PRESENT);
  bool lives = lives_long_enough(machine, i, part->bucket.ahead + units);
  part->bucket.ahead = part->bucket.before = 0;
  part->bucket.stamp_us = part->now_us;
  part->bucket.stays = waiting_cost(machine, i, false);
  forget(machine, i);
  if (keys_now(machine, i) == 1) {
    plan_raise(machine, i, PRESENT, floor, units)->refresh = !lives;
    return;
  }
  int64_t inherited = values[PAST] - WEIR_BUCKET_EPOCH;
  plan_raise(machine, i, PRESENT, floor > inherited ? floor : inherited, units);
  plan_raise(machine, i, PAST, now_in(rule, part->now_us, PAST), units);
}

/* A take-back that came between left less than the floor under a charge: what is missing is added.
 */
static void plan_missing(weir_machine *machine, size_t i) {
  weir_part *part = &machine->parts[i];
  for (int key = 0; key < KEYS_MOST; key++) {
    int64_t missing = part->bucket.missing[key];
    part->bucket.missing[key] = 0;
    if (missing > 0)
      plan_raise(machine, i, key, now_in(&machine->stack->rules[i], part->now_us, key), missing);
  }
}

static void charge(weir_machine *machine, size_t i) {
  int64_t values[KEYS_MOST];
  weir_part *part = &machine->parts[i];
  if (part->charged)
    plan_missing(machine, i);
  else if (part->step++ == 0 && keys_now(machine, i) > 1 &&
           !recall(&machine->stack->rules[i], machine->terms, &machine->notes->rules[i].kept,
                   part->now_us, values))
    plan_reads(machine, i);
  else
    plan_charge(machine, i);
}

static void take_back(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  if (part->step++ > 0) return;
  bool refunds = machine->asks->kind == WEIR_ASK_REFUND;
  part->bucket.stays -= waiting_cost(machine, i, true);
  int64_t units =
      weir_bucket_undrained(rule, part->unused - part->bucket.stays, part->bucket.before,
                            machine->clock_us - part->bucket.stamp_us);
  if (units == 0) {
    part->unused = part->bucket.stays;
    return;
  }
  for (int key = 0; key < keys_now(machine, i); key++)
    if (refunds || part->bucket.landed[key]) plan(machine, i, WEIR_SUB, key)->delta = units;
  forget(machine, i);
}

static void reset(weir_machine *machine, size_t i) {
  const weir_rule *rule = &machine->stack->rules[i];
  int64_t now_us = machine->parts[i].now_us;
  int64_t fastest_us = now_us + 2 * machine->terms->clock_error_us;
  bool begun = weir_bucket_epoch(rule, fastest_us) > weir_bucket_epoch(rule, now_us);
  for (int key = begun ? NEXT : PRESENT; key < keys_now(machine, i); key++)
    plan(machine, i, WEIR_DROP, key);
}

/* Without compare and swap nobody knows whether a place still is the last. */
static void cancel(weir_machine *machine, size_t i, int64_t slot, int64_t cost) {
  (void)machine;
  (void)i;
  (void)slot;
  (void)cost;
}

/* --- answers -----------------------------------------------------------------------------------
 */

static void learn(weir_machine *machine, size_t i, int key, int64_t value) {
  weir_kept *kept = &machine->notes->rules[i].kept;
  kept->bucket.known = true;
  kept->bucket.read_us = machine->now_us;
  if (key == PRESENT)
    kept->bucket.value = value;
  else
    kept->bucket.past = value;
}

/* What was there without this charge is what decides; of two keys the later. */
static void answer_charge(weir_machine *machine, size_t i, int key, const weir_action *action) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  int64_t base = action->value - action->delta;
  int64_t missing = action->floor - base;
  if (missing > 0) {
    part->bucket.missing[key] = missing < action->delta ? missing : action->delta;
    base = action->floor;
  }
  int64_t before = base - now_in(rule, part->now_us, key);
  if (before > part->bucket.before) part->bucket.ahead = part->bucket.before = before;
  part->bucket.landed[key] = part->charged = true;
}

static void answer_raise(weir_machine *machine, size_t i, int key, const weir_action *action) {
  weir_part *part = &machine->parts[i];
  if (action->outcome != WEIR_DONE) {
    part->bucket.landed[key] = false;
    part->conflict = action->refresh;
    if (!action->refresh) weir_bucket_watch(machine, i, action);
    return;
  }
  if (action->refresh && key == PRESENT)
    machine->notes->rules[i].kept.bucket.renewed_us = part->now_us;
  learn(machine, i, key, action->value);
  if (machine->phase == WEIR_PHASE_LOOK)
    weir_bucket_load(machine, i);
  else if (!part->bucket.landed[key])
    answer_charge(machine, i, key, action);
}

static void answer(weir_machine *machine, size_t i, const weir_action *action) {
  const weir_rule *rule = &machine->stack->rules[i];
  weir_part *part = &machine->parts[i];
  int key = (int)(weir_bucket_epoch(rule, part->now_us) - action->index);
  if (action->outcome == WEIR_ABSENT && key == PRESENT)
    machine->notes->rules[i].kept.bucket.renewed_us = 0;
  if (action->kind == WEIR_RAISE) {
    answer_raise(machine, i, key, action);
  } else if (action->kind != WEIR_DROP) {
    if (action->kind == WEIR_GET) weir_bucket_watch(machine, i, action);
    learn(machine, i, key, action->outcome == WEIR_DONE ? action->value : 0);
    if (action->kind == WEIR_SUB)
      part->unused = part->bucket.stays;
    else
      weir_bucket_load(machine, i);
  }
}

const weir_bucket_storage weir_bucket_raise = {
    .ahead = ahead,
    .stored = stored,
    .is_far = weir_bucket_lock_is_over,
    .blind = blind,
    .look = look,
    .charge = charge,
    .take_back = take_back,
    .reset = reset,
    .answer = answer,
    .cancel = cancel,
};

/* Records of keys: reading them beside a decision, and setting them. record.h says what they are.
 *
 *     take_group ──> must_read ──┬──> known ──────────────> the machine starts, with that limit
 *                                ├──> rides: GET leaves with the charge ──> absorb ──> the machine goes on
 *                                └──> GET leaves alone ──> absorb ──> the machine starts
 *
 * A record that was read up to T ago (limits_us) is known. What a window is charged is the same under any
 * limit: so the reading costs no trip there, and the answer only says what was admitted. A bucket is charged
 * time, which the limit measures, and a log is searched by it: they are charged once it is known. */
#include "limiter/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "algorithm/machine.h"
#include "limiter/limiter.h"

/* What is stored: a kind, and behind it a number up to 2^53. */
enum { NUMBER_BITS = 56, KEPT_S = 600, EXCHANGE_US = 2000000 };
_Static_assert(WEIR_COUNT_LIMIT_MOST < INT64_C(1) << NUMBER_BITS, "a limit has room");
#define NUMBER_MASK ((INT64_C(1) << NUMBER_BITS) - 1)
#define KEPT_US (KEPT_S * INT64_C(1000000))

/* In the place of a limit. */
enum { RULES_OWN = 0, BLOCKED = -1 };

static weir_record *record_of(const weir_limiter *limiter, const weir_memo_entry *entry) {
  return (weir_record *)(void *)((char *)entry->memo + weir_memo_bytes(&limiter->stack));
}

static unsigned kind_of(int64_t stored) {
  return (unsigned)(stored >> NUMBER_BITS);
}

/* The limit that holds for the key. One above most= counts as that. What a later version has stored, and
 * this one cannot read, is the rule's. */
static int64_t limit_of(const weir_limiter *limiter, const weir_record *record) {
  const weir_rule *rule = &limiter->stack.rules[limiter->steered];
  int64_t number = record->stored & NUMBER_MASK;
  if (record->stored == 0) return limiter->absent_denies ? BLOCKED : RULES_OWN;
  if (kind_of(record->stored) == WEIR_KEY_LIMIT_BLOCKED) return BLOCKED;
  if (kind_of(record->stored) != WEIR_KEY_LIMIT_NUMBER) return RULES_OWN;
  if (number > rule->most) number = rule->most;
  return number < limiter->limit_least ? limiter->limit_least : number;
}

/* --- what it answers by itself -----------------------------------------------------------------
 */

static void deny(const weir_limiter *limiter, weir_claim *request, int64_t now_us) {
  request->verdict.decision =
      (weir_decision){.source = WEIR_SOURCE_LOCAL,
                      .rule = (uint32_t)limiter->steered,
                      .retry_after_us = WEIR_NEVER,
                      .reset_after_us = WEIR_NOT_KNOWN,
                      .delay_us = limiter->stack.rules[limiter->steered].hold_us,
                      .cost = request->ask.costs != NULL ? WEIR_OWN_COSTS : request->ask.cost,
                      .at_us = now_us};
  request->verdict.status = WEIR_OK;
  request->verdict.away = request->verdict.gone = false;
  request->verdict.answered = true;
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
  return (request->ask.kind == WEIR_TAKE || request->ask.kind == WEIR_PEEK) &&
         request->ask.terms != WEIR_DEBT;
}

void weir_record_apply(weir_call *call, weir_group *group) {
  weir_limiter *limiter = call->limiter;
  int64_t limit = limit_of(limiter, record_of(limiter, group->entry));
  group->machine->ruled = limit == BLOCKED ? RULES_OWN : limit;
  group->entry->memo->ruled = group->machine->ruled;
  weir_claim **link = &group->requests;
  for (weir_claim *request = *link; request != NULL; request = *link) {
    bool denied = is_asked(request);
    if (denied && limit == BLOCKED)
      deny(limiter, request, group->starts_us);
    else if (denied)
      denied = never_fits(limiter, limit, request, group->starts_us);
    if (denied) {
      *link = request->next;
      weir_call_finish(call, weir_waiting_of(request));
    } else {
      link = &request->next;
    }
  }
}

/* --- reading -----------------------------------------------------------------------------------
 */

/* Requests that bring a limit of their own need no record; and what gives back, is paid on or forgets is
 * done by what is known. */
bool weir_record_must_read(weir_call *call, weir_group *group) {
  const weir_limiter *limiter = call->limiter;
  const weir_record *record = record_of(limiter, group->entry);
  bool known = record->read_us != 0 && record->read_us <= group->starts_us &&
               group->starts_us - record->read_us < limiter->limits_us;
  group->machine->ruled = group->entry->memo->ruled;
  if (group->requests->ask.limit != 0 || !is_asked(group->requests)) return false;
  if (known) weir_record_apply(call, group);
  return !known;
}

bool weir_record_may_ride(const weir_limiter *limiter, const weir_group *group) {
  bool rides = !group->entry->memo->must_peek && group->machine->only_windows;
  for (size_t i = 0; i < limiter->stack.count; i++)
    rides = rides && weir_rule_keeps_counts(&limiter->stack.rules[i]);
  for (const weir_claim *request = group->requests; request != NULL; request = request->next)
    rides = rides && request->ask.kind == WEIR_TAKE && request->ask.terms == WEIR_PLAIN &&
            !request->ask.up_to;
  return rides;
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

/* What was there and is not any more is believed for a while: `unset` would have said so. */
static void learn(weir_call *call, weir_record *record, int64_t stored, int64_t read_us) {
  if (stored != 0) {
    *record = (weir_record){.stored = stored, .read_us = read_us};
    return;
  }
  bool says = record->stored != 0 && kind_of(record->stored) != WEIR_KEY_LIMIT_NONE;
  if (says && record->lost_us == 0) {
    record->lost_us = read_us;
    call->work.limits_lost++;
  }
  if (!says || read_us - record->lost_us >= KEPT_US) *record = (weir_record){.stored = 0};
  record->read_us = read_us;
}

weir_record_read weir_record_absorb(weir_call *call, weir_group *group, bool rode,
                                    weir_operation *read) {
  weir_limiter *limiter = call->limiter;
  weir_memo_entry *entry = group->entry;
  weir_frame *frame = &group->machine->frame;
  *read = frame->operations[--frame->operation_count];
  if (read->outcome != WEIR_DONE && read->outcome != WEIR_ABSENT) return WEIR_RECORD_NOT_READ;
  weir_lock_take(&entry->shard->lock);
  weir_record *record = record_of(limiter, entry);
  learn(call, record, read->outcome == WEIR_DONE ? read->value : 0, frame->now_us);
  int64_t limit = limit_of(limiter, record);
  if (limit != BLOCKED) entry->memo->ruled = limit;
  if (limit != BLOCKED && rode) weir_machine_rule(group->machine, limit);
  weir_lock_leave(&entry->shard->lock);
  return limit == BLOCKED ? WEIR_RECORD_BLOCKS : WEIR_RECORD_READ;
}

void weir_record_tell(const weir_call *call, weir_group *group, bool blocks) {
  const weir_machine *machine = group->machine;
  for (weir_claim *request = group->requests; request != NULL; request = request->next) {
    if (!is_asked(request)) continue;
    bool decided = request->verdict.status == WEIR_OK && !request->verdict.decision.allowed;
    if (blocks)
      deny(call->limiter, request, machine->frame.now_us);
    else if (decided)
      never_fits(call->limiter, machine->ruled, request, machine->frame.now_us);
  }
}

bool weir_record_denies(weir_limiter *limiter, weir_waiting *request) {
  const weir_ask *ask = &request->claim.ask;
  if (ask->limit != 0 || !is_asked(&request->claim)) return false;
  weir_memo_entry *entry = weir_limiter_lock(limiter, ask->key, ask->key_length);
  if (entry == NULL) return false;
  const weir_record *record = record_of(limiter, entry);
  bool denies = record->read_us != 0 && limit_of(limiter, record) == BLOCKED;
  weir_lock_leave(&entry->shard->lock);
  if (denies) deny(limiter, &request->claim, weir_limiter_now(limiter));
  return denies;
}

void weir_record_forget(const weir_limiter *limiter, weir_memo_entry *entry) {
  record_of(limiter, entry)->read_us = 0;
}

/* --- setting -----------------------------------------------------------------------------------
 */

/* Longest that a record is written for; it is written for as long where no end is said. */
#define FOR_MOST_US WEIR_PERIOD_MOST_US

static weir_status check_limiter(const weir_limiter *limiter, weir_message *message) {
  weir_status status = weir_limiter_check_process(limiter, message);
  if (status != WEIR_OK || limiter->steered < limiter->stack.count) return status;
  weir_message_set(message,
                   "limits of keys of %s: accepted is a limiter with most= in one of its rules",
                   limiter->texts[0]);
  return WEIR_BAD_ARGUMENT;
}

static weir_status check_set(const weir_limiter *limiter, const weir_limit *set,
                             weir_message *message) {
  const weir_rule *rule = &limiter->stack.rules[limiter->steered];
  if (set->key == NULL || set->key_length == 0) {
    weir_message_set(message, "the key is empty: accepted are keys of 1 byte or more");
    return WEIR_BAD_KEY;
  }
  if (set->kind < WEIR_KEY_LIMIT_NONE || set->kind > WEIR_KEY_LIMIT_BLOCKED) {
    weir_message_set(message, "kind is %u: accepted are those of enum weir_limit_kind, but absent",
                     set->kind);
    return WEIR_BAD_ARGUMENT;
  }
  int64_t least = limiter->limit_least;
  if (set->kind == WEIR_KEY_LIMIT_NUMBER && (set->limit < least || set->limit > rule->most)) {
    weir_message_set(message,
                     "a limit of %" PRId64 " for %s: accepted are %" PRId64 " to %" PRId64
                     "; to deny all, say that it is blocked",
                     set->limit, limiter->texts[limiter->steered], least, rule->most);
    return WEIR_BAD_ARGUMENT;
  }
  if (set->kind != WEIR_KEY_LIMIT_NUMBER && set->limit != 0) {
    weir_message_set(message, "a limit of %" PRId64 " with another kind: accepted is 0",
                     set->limit);
    return WEIR_BAD_ARGUMENT;
  }
  if (set->for_us == 0 || (set->for_us >= 1000000 && set->for_us <= FOR_MOST_US)) return WEIR_OK;
  weir_message_set(
      message, "for_us is %" PRId64 ": accepted are 1000000 to %" PRId64 " (400d), or 0 for that",
      set->for_us, FOR_MOST_US);
  return WEIR_BAD_ARGUMENT;
}

/* Operations on the records of some keys, and the memory for their names. */
enum { SETS_AT_ONCE = 512, OPERATIONS_OF_ONE = 2 };
typedef struct weir_exchange_of_records {
  size_t count;
  weir_operation operations[SETS_AT_ONCE * OPERATIONS_OF_ONE];
  char texts[SETS_AT_ONCE * OPERATIONS_OF_ONE][WEIR_COUNTER_KEY_MOST];
} weir_exchange_of_records;

static void name(const weir_limiter *limiter, const weir_limit *limit, weir_operation *operation,
                 char text[1][WEIR_COUNTER_KEY_MOST]) {
  weir_key key;
  uint64_t fingerprint[2];
  char encoded[WEIR_ENCODED_MOST];
  size_t length = weir_key_encode(limit->key, limit->key_length, encoded);
  operation->counter =
      (weir_counter){.rule = (uint32_t)limiter->steered, .place = WEIR_PLACE_LIMIT};
  weir_key_read(limiter->store->secret, limit->key, limit->key_length, &key);
  weir_key_fingerprint(limiter->store->secret, &key, fingerprint);
  weir_call_name(limiter, fingerprint, encoded, length, operation, 1, text);
}

static void plan(const weir_limiter *limiter, weir_exchange_of_records *exchange,
                 const weir_limit *limit, weir_operation operation) {
  size_t at = exchange->count++;
  exchange->operations[at] = operation;
  name(limiter, limit, &exchange->operations[at], &exchange->texts[at]);
}

/* No request waits for it, and it is larger than what a decision asks. */
static int64_t end_us(const weir_limiter *limiter) {
  int64_t longest_us = limiter->deadline_us > EXCHANGE_US ? limiter->deadline_us : EXCHANGE_US;
  return weir_monotonic_us() + longest_us;
}

static weir_status status_of(const weir_operation *operation) {
  switch (operation->outcome) {
    case WEIR_DONE:
    case WEIR_ABSENT:
      return WEIR_OK;
    case WEIR_REFUSED:
      return WEIR_REFUSED_BY_STORE;
    case WEIR_NOT_SENT:
      return WEIR_UNAVAILABLE;
    case WEIR_UNKNOWN:
      return operation->kind == WEIR_GET ? WEIR_UNAVAILABLE : WEIR_UNKNOWN_OUTCOME;
    default:
      return WEIR_BROKEN_BACKEND;
  }
}

/* What this process has set it knows at once. */
static void keep(weir_limiter *limiter, const weir_limit *set, int64_t stored, int64_t now_us) {
  if (limiter->limits_us == 0) return;
  weir_memo_entry *entry = weir_limiter_lock(limiter, set->key, set->key_length);
  if (entry == NULL) return;
  *record_of(limiter, entry) = (weir_record){.stored = stored, .read_us = now_us};
  weir_lock_leave(&entry->shard->lock);
}

/* A store that evicts, or whose memory is full, may not have what it said was written: so it is read. */
static void end_set(weir_limiter *limiter, weir_limit *set, const weir_operation *put,
                    int64_t stored, int64_t now_us) {
  const weir_operation *get = put + 1;
  set->status = status_of(put);
  if (set->status != WEIR_OK) return;
  set->status = status_of(get);
  if (set->status == WEIR_OK && get->outcome == WEIR_ABSENT) set->status = WEIR_REFUSED_BY_STORE;
  if (set->status == WEIR_OK && get->value != stored) set->status = WEIR_CONTENDED;
  if (set->status == WEIR_OK) keep(limiter, set, stored, now_us);
}

static int64_t stored_of(const weir_limit *set) {
  return ((int64_t)set->kind << NUMBER_BITS) | set->limit;
}

static void set_some(weir_limiter *limiter, weir_exchange_of_records *exchange, weir_limit *sets,
                     size_t count, weir_message *why) {
  int64_t now_us = weir_limiter_now(limiter);
  exchange->count = 0;
  for (size_t i = 0; i < count; i++) {
    int64_t ttl_us = sets[i].for_us != 0 ? sets[i].for_us : FOR_MOST_US;
    plan(limiter, exchange, &sets[i],
         (weir_operation){.kind = WEIR_PUT,
                          .ttl_us = ttl_us,
                          .value = stored_of(&sets[i]),
                          .stake = WEIR_STAKE_WHOLE});
    plan(limiter, exchange, &sets[i], (weir_operation){.kind = WEIR_GET});
  }
  weir_store_exec(limiter->store, exchange->operations, exchange->count, end_us(limiter), why);
  for (size_t i = 0; i < count; i++)
    end_set(limiter, &sets[i], &exchange->operations[OPERATIONS_OF_ONE * i], stored_of(&sets[i]),
            now_us);
}

weir_status weir_limiter_set_limits(weir_limiter *limiter, weir_limit *limits, size_t count,
                                    weir_message *message) {
  weir_status status = check_limiter(limiter, message);
  for (size_t i = 0; i < count && status == WEIR_OK; i++) {
    status = check_set(limiter, &limits[i], message);
    limits[i].status = status;
  }
  if (status != WEIR_OK) return status;
  weir_exchange_of_records *exchange = malloc(sizeof *exchange);
  if (exchange == NULL) return weir_no_memory(message);
  weir_message why = {""};
  for (size_t at = 0; at < count; at += SETS_AT_ONCE)
    set_some(limiter, exchange, limits + at, count - at < SETS_AT_ONCE ? count - at : SETS_AT_ONCE,
             why.text[0] == '\0' ? &why : NULL);
  free(exchange);
  for (size_t i = 0; i < count && status == WEIR_OK; i++)
    status = limits[i].status;
  if (status != WEIR_OK)
    weir_message_set(message, "%s", why.text[0] != '\0' ? why.text : weir_status_text(status));
  return status;
}

weir_status weir_limiter_read_limit(weir_limiter *limiter, weir_limit *limit,
                                    weir_message *message) {
  weir_operation get = {.kind = WEIR_GET};
  weir_message why = {""};
  limit->status = check_limiter(limiter, message);
  if (limit->status != WEIR_OK) return limit->status;
  if (limit->key == NULL || limit->key_length == 0) {
    weir_message_set(message, "the key is empty: accepted are keys of 1 byte or more");
    return limit->status = WEIR_BAD_KEY;
  }
  char text[1][WEIR_COUNTER_KEY_MOST];
  name(limiter, limit, &get, text);
  weir_store_exec(limiter->store, &get, 1, end_us(limiter), &why);
  limit->status = status_of(&get);
  if (limit->status != WEIR_OK) {
    weir_message_set(message, "%s",
                     why.text[0] != '\0' ? why.text : weir_status_text(limit->status));
    return limit->status;
  }
  int64_t stored = get.outcome == WEIR_DONE ? get.value : 0;
  limit->kind = kind_of(stored);
  limit->limit = limit->kind == WEIR_KEY_LIMIT_NUMBER ? stored & NUMBER_MASK : 0;
  limit->for_us = 0;
  return WEIR_OK;
}

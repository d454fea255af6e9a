/* Public entry points of those who set the limits of keys, and read what is set (record.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/duration.h>

#include "limiter/limiter.h"
#include "limiter/record.h"
#include "number.h"

enum { EXCHANGE_US = 2000000 };

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

static weir_status check_number(const weir_limiter *limiter, const weir_limit *set,
                                weir_message *message) {
  const weir_rule *rule = &limiter->stack.rules[limiter->steered];
  int64_t least = limiter->limit_least;
  if (set->kind != WEIR_KEY_LIMIT_NUMBER || (set->limit >= least && set->limit <= rule->most))
    return WEIR_OK;
  weir_message_set(message,
                   "a limit of %" PRId64 " for %s: accepted are %" PRId64 " to %" PRId64
                   "; to deny all, say that it is blocked",
                   set->limit, limiter->texts[limiter->steered], least, rule->most);
  return WEIR_BAD_ARGUMENT;
}

static weir_status check_unlimited(const weir_limiter *limiter, const weir_limit *set,
                                   weir_message *message) {
  if (set->kind != WEIR_KEY_LIMIT_UNLIMITED || limiter->may_spare) return WEIR_OK;
  const weir_rule *rule = &limiter->stack.rules[limiter->steered];
  char tiers[WEIR_TIER_LIST_BYTES];
  weir_rule_list_tiers(rule, tiers);
  weir_message_set(message,
                   "unlimited for %s: it shares its log with another rule, and accepted are "
                   "%" PRId64 " to %" PRId64 ", blocked and none%s%s",
                   limiter->texts[limiter->steered], limiter->limit_least, rule->most,
                   tiers[0] != '\0' ? ", and the tiers " : "", tiers);
  return WEIR_BAD_ARGUMENT;
}

static weir_status check_tier(const weir_limiter *limiter, const weir_limit *set,
                              weir_message *message) {
  const weir_rule *rule = &limiter->stack.rules[limiter->steered];
  if (set->kind != WEIR_KEY_LIMIT_TIER || weir_rule_read_tier(rule, set->limit, NULL) > 0)
    return WEIR_OK;
  char tiers[WEIR_TIER_LIST_BYTES];
  weir_rule_list_tiers(rule, tiers);
  weir_message_set(message, "a tier that %s lacks: accepted are %s",
                   limiter->texts[limiter->steered],
                   tiers[0] != '\0' ? tiers : "none, as there is no tiers=");
  return WEIR_BAD_ARGUMENT;
}

static weir_status check_set(const weir_limiter *limiter, const weir_limit *set,
                             weir_message *message) {
  weir_status status = weir_check_key(set->key, set->key_length, message);
  if (status != WEIR_OK) return status;
  if (set->kind < WEIR_KEY_LIMIT_NONE || set->kind > WEIR_KEY_LIMIT_TIER) {
    weir_message_set(message, "kind is %u: accepted are those of enum weir_limit_kind, but absent",
                     set->kind);
    return WEIR_BAD_ARGUMENT;
  }
  status = check_number(limiter, set, message);
  if (status == WEIR_OK) status = check_unlimited(limiter, set, message);
  if (status == WEIR_OK) status = check_tier(limiter, set, message);
  if (status != WEIR_OK) return status;
  if (set->kind != WEIR_KEY_LIMIT_NUMBER && set->kind != WEIR_KEY_LIMIT_TIER && set->limit != 0) {
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

/* --- texts -------------------------------------------------------------------------------------
 */

static const char *const words[] = {[WEIR_KEY_LIMIT_ABSENT] = "absent",
                                    [WEIR_KEY_LIMIT_NONE] = "none",
                                    [WEIR_KEY_LIMIT_NUMBER] = "",
                                    [WEIR_KEY_LIMIT_BLOCKED] = "blocked",
                                    [WEIR_KEY_LIMIT_UNLIMITED] = "unlimited"};
enum { WORDS = sizeof words / sizeof *words };

static unsigned find_word(const char *text, size_t length) {
  unsigned kind = WEIR_KEY_LIMIT_NONE;
  while (kind < WORDS && (kind == WEIR_KEY_LIMIT_NUMBER || strlen(words[kind]) != length ||
                          memcmp(words[kind], text, length) != 0))
    kind++;
  return kind;
}

weir_status weir_limiter_parse_limit(const weir_limiter *limiter, const char *text, size_t length,
                                     weir_limit *limit, weir_message *message) {
  weir_status status = check_limiter(limiter, message);
  if (status != WEIR_OK) return status;
  limit->limit = 0;
  limit->kind = find_word(text, length);
  if (limit->kind < WORDS) return check_unlimited(limiter, limit, message);
  const weir_rule *rule = &limiter->stack.rules[limiter->steered];
  limit->kind = WEIR_KEY_LIMIT_TIER;
  if (weir_rule_find_tier(rule, text, length, &limit->limit)) return WEIR_OK;
  int64_t own_us = rule->period_us;
  int64_t period_us = own_us;
  const char *slash = memchr(text, '/', length);
  size_t digits = slash != NULL ? (size_t)(slash - text) : length;
  limit->kind = WEIR_KEY_LIMIT_NUMBER;
  if (weir_number_read(text, digits, INT64_MAX, &limit->limit) &&
      (slash == NULL || weir_duration_parse(slash + 1, length - digits - 1, &period_us)) &&
      period_us == own_us)
    return check_number(limiter, limit, message);
  char period[WEIR_DURATION_BYTES], tiers[WEIR_TIER_LIST_BYTES];
  weir_duration_format(own_us, period, sizeof period);
  weir_rule_list_tiers(rule, tiers);
  weir_message_set(message,
                   "the limit is no number, or of another period: accepted are a number, which "
                   "may have /%s behind it, blocked, unlimited and none%s%s",
                   period, tiers[0] != '\0' ? ", and the tiers " : "", tiers);
  return WEIR_BAD_ARGUMENT;
}

void weir_limit_format(const weir_limit *limit, char text[WEIR_LIMIT_TEXT_BYTES]) {
  if (limit->kind == WEIR_KEY_LIMIT_NUMBER)
    snprintf(text, WEIR_LIMIT_TEXT_BYTES, "%" PRId64, limit->limit);
  else if (limit->kind == WEIR_KEY_LIMIT_TIER)
    snprintf(text, WEIR_LIMIT_TEXT_BYTES, "a tier");
  else
    snprintf(text, WEIR_LIMIT_TEXT_BYTES, "%s",
             limit->kind < WORDS ? words[limit->kind] : "of a later version");
}

void weir_limiter_format_limit(const weir_limiter *limiter, const weir_limit *limit,
                               char text[WEIR_LIMIT_NAME_BYTES]) {
  bool has_tiers = limiter->steered < limiter->stack.count;
  if (limit->kind != WEIR_KEY_LIMIT_TIER)
    weir_limit_format(limit, text);
  else if (!has_tiers ||
           weir_rule_read_tier(&limiter->stack.rules[limiter->steered], limit->limit, text) == 0)
    snprintf(text, WEIR_LIMIT_NAME_BYTES, "an unknown tier");
}
_Static_assert((int)WEIR_LIMIT_NAME_BYTES > (int)WEIR_NAME_MOST &&
                   (int)WEIR_LIMIT_NAME_BYTES >= (int)WEIR_LIMIT_TEXT_BYTES,
               "room for the name of each tier");

/* --- exchanges ---------------------------------------------------------------------------------
 */

/* Operations on the records of some keys, and the memory for their names. */
enum { SETS_AT_ONCE = 1024, OPERATIONS_OF_ONE = 2 };
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
  *weir_record_of(limiter, entry) =
      weir_record_read_at(weir_record_resolve(limiter, stored), now_us);
  entry->memo->denied_cost = 0;           /* under another limit, as is ... */
  if (entry->busy) entry->doubted = true; /* ... what a group under way denies */
  weir_table_hide_denial(limiter->table, entry);
  weir_record_bar(limiter, entry);
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
  return weir_record_of_kind(set->kind, set->limit);
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
  for (size_t i = 0; i < count && exchange == NULL; i++)
    limits[i].status = WEIR_NO_MEMORY;
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
  if (limit->status == WEIR_OK)
    limit->status = weir_check_key(limit->key, limit->key_length, message);
  if (limit->status != WEIR_OK) return limit->status;
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
  limit->kind = weir_record_kind(stored);
  limit->limit = weir_record_number(stored);
  limit->for_us = 0;
  return WEIR_OK;
}

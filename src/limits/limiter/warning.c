/* Warnings: what a caller should know of a new limiter, one sentence each. They are written
 * while the limiter is created, and never change. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/duration.h>

#include "limiter/limiter.h"

/* What a bucket's lease is held against where swaps can fail: docs/leases.md has the law. The round
 * trip is that of a local network; nothing has been measured when a limiter is made. */
enum { ROUND_TRIP_US = 200, ROUND_TRIPS_OF_A_PROCESS = 10 };

__attribute__((format(printf, 2, 3))) static bool warn(weir_limiter *limiter, const char *format,
                                                       ...) {
  char text[WEIR_MESSAGE_BYTES];
  weir_message warning;
  va_list arguments;
  if (limiter->warning_count == WEIR_WARNINGS_MOST) return true;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  weir_message_set(&warning, "%s", text);
  size_t bytes = strlen(warning.text) + 1;
  char *kept = malloc(bytes);
  if (kept == NULL) return false;
  memcpy(kept, warning.text, bytes);
  limiter->warnings[limiter->warning_count++] = kept;
  return true;
}

void weir_limiter_clean_up_warnings(weir_limiter *limiter) {
  for (size_t i = 0; i < limiter->warning_count; i++)
    free(limiter->warnings[i]);
}

/* The margins of others cover no more (algorithm.h). A process alone has no others, nor has a store
 * that lives and dies with its handle. */
bool weir_limiter_warn_of_long_deadline(weir_limiter *limiter) {
  char deadline[WEIR_DURATION_BYTES];
  char most[WEIR_DURATION_BYTES];
  bool alone =
      limiter->settings.processes == 1 || (limiter->settings.traits & WEIR_TRAIT_IDENTITY) != 0;
  if (alone || limiter->deadline_us <= WEIR_DEADLINE_OF_ANYBODY_US) return true;
  weir_duration_format(limiter->deadline_us, deadline, sizeof deadline);
  weir_duration_format(WEIR_DEADLINE_OF_ANYBODY_US, most, sizeof most);
  return warn(limiter,
              "the deadline is %s, longer than %s: every process that uses the same keys needs the "
              "same one, else the bound can be exceeded; processes=1 says that there is no other",
              deadline, most);
}

/* Only one cell ahead is read; see docs/guarantees.md. */
bool weir_limiter_warn_of_short_cells(weir_limiter *limiter) {
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    if (!weir_rule_has_cells(rule) || rule->cell_us >= limiter->settings.ahead_us) continue;
    return warn(limiter,
                "the cells of rule %zu are %" PRId64
                " us wide, less than 2 * clock error + deadline (%" PRId64
                " us): what other processes charge within that time can exceed the bound",
                i + 1, rule->cell_us, limiter->settings.ahead_us);
  }
  return true;
}

/* Says which lease would do, and with which burst where this one is too small for it; and for how
 * many processes the lease that there is would do: one alone meets no other. `enough_us` is above the
 * lease of the rule. 4 * limit * lease is below 2^60. */
static bool warn_of_short_lease(weir_limiter *limiter, size_t index, int64_t enough_us) {
  const weir_rule *rule = &limiter->stack.rules[index];
  int64_t a_process_us = ROUND_TRIPS_OF_A_PROCESS * ROUND_TRIP_US;
  int64_t processes = rule->lease_us < a_process_us ? 1 : rule->lease_us / a_process_us;
  char lease[WEIR_DURATION_BYTES];
  char enough[WEIR_DURATION_BYTES];
  char longer[2 * WEIR_DURATION_BYTES + 48] = "";
  weir_duration_format(rule->lease_us, lease, sizeof lease);
  weir_duration_format(enough_us, enough, sizeof enough);
  int64_t burst = (4 * rule->limit * enough_us + rule->period_us - 1) / rule->period_us;
  if (enough_us <= WEIR_LEASE_MOST_US && burst <= rule->burst)
    snprintf(longer, sizeof longer, "lease=%s would do, and ", enough);
  else if (enough_us <= WEIR_LEASE_MOST_US && burst <= WEIR_LIMIT_MOST)
    snprintf(longer, sizeof longer, "lease=%s,burst=%" PRId64 " would do, and ", enough, burst);
  return warn(limiter,
              "rule %zu has lease=%s: %" PRId64
              " processes would swap its bucket too often, at round trips of %d us; "
              "%sprocesses=%" PRId64 " would do if there are no more",
              index + 1, lease, limiter->settings.processes, ROUND_TRIP_US, longer, processes);
}

/* A swap fails where another came between, so that too many of them leave each other no time. */
bool weir_limiter_warn_of_short_leases(weir_limiter *limiter) {
  unsigned traits = limiter->settings.traits;
  int64_t processes = limiter->settings.processes; /* 100000 at the most */
  int64_t enough_us = ROUND_TRIPS_OF_A_PROCESS * ROUND_TRIP_US * processes;
  if (!(traits & WEIR_TRAIT_SWAP) || traits & WEIR_TRAIT_IMMEDIATE) return true;
  if (!limiter->leases || processes == 1) return true;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    const weir_rule *rule = &limiter->stack.rules[i];
    if (!weir_rule_moves_in_time(rule) || rule->lease_us == 0) continue;
    if (rule->lease_us < enough_us) return warn_of_short_lease(limiter, i, enough_us);
  }
  return true;
}

/* The texts of all rules; behind them, where several are logs, what their one log means: the texts
 * of those, joined. */
static bool write_texts(weir_limiter *limiter, size_t logs) {
  char text[WEIR_RULE_TEXT_BYTES + WEIR_WEIGHTS_MOST];
  char joined[WEIR_RULES_MOST * WEIR_RULE_TEXT_BYTES]; /* of logs, which have no weights */
  size_t length = 0, rules = limiter->stack.count;
  for (size_t i = 0; i < rules; i++) {
    weir_rule_write(&limiter->stack.rules[i], text);
    limiter->texts[i] = strdup(text);
    if (limiter->texts[i] == NULL) return false;
    if (logs < 2 || !weir_rule_takes_one(&limiter->stack.rules[i])) continue;
    length += (size_t)snprintf(joined + length, sizeof joined - length, "%s%s",
                               length > 0 ? ";" : "", text);
  }
  if (length > 0) limiter->texts[rules] = strdup(joined);
  return length == 0 || limiter->texts[rules] != NULL;
}

static void copy_text(void *text, const weir_store_use *other) {
  snprintf(text, WEIR_RULE_TEXT_BYTES, "%s", other->text);
}

/* A login's 5/1m and a search's 50/1m have the same keys in the store: fifty searches deny the
 * login. Limits may be changed while they are in use, so this is no error. Who gives both one name=
 * says that they are one limit. */
static bool enter_counts(weir_limiter *limiter, size_t index, const char *text) {
  const weir_rule *rule = &limiter->stack.rules[index];
  char other[WEIR_RULE_TEXT_BYTES];
  if (rule->name[0] != '\0') return true;
  limiter->uses[index] = (weir_store_use){.tag = rule->tag, .meaning = text, .text = text};
  if (!weir_store_enter(limiter->store, &limiter->uses[index], copy_text, other)) return true;
  return warn(limiter,
              "rule %zu, %s, shares its counts with %s of another limiter on this store: "
              "give one of them a name=, unless this is the same limit being changed",
              index + 1, text, other);
}

/* What is said of a rule whose counts are not those of another, though both are one limit: whose, and what
 * would mend it. `where` says whose the other is. */
static void say_apart(int64_t most_for_both, const char *text, const char *where,
                      weir_message *said) {
  if (most_for_both > 0)
    weir_message_set(said,
                     "would share its counts with %s%s but for its layout: give both most=%" PRId64,
                     text, where, most_for_both);
  else
    weir_message_set(said, "does not share its counts with %s%s, as they are laid out apart", text,
                     where);
}

static int64_t most_for_both(const weir_limiter *one, size_t i, const weir_limiter *other,
                             size_t j) {
  return weir_rule_most_for_both(&one->stack, i, (uint32_t)one->settings.processes, &other->stack,
                                 j, (uint32_t)other->settings.processes);
}

/* A rule that enters, and what it is told. */
typedef struct newcomer {
  const weir_limiter *limiter;
  size_t index;
  weir_message *said;
} newcomer;

static void tell_of_kin(void *self, const weir_store_use *use) {
  const newcomer *fresh = self;
  const weir_limiter *other = use->owner;
  size_t index = (size_t)(use - other->kin);
  say_apart(most_for_both(fresh->limiter, fresh->index, other, index), use->text,
            " of another limiter on this store", fresh->said);
}

/* 100/1m and 5000/1m are laid out in counters of their own, whatever their names say. */
static bool enter_kin(weir_limiter *limiter, size_t index, const char *text) {
  const weir_rule *rule = &limiter->stack.rules[index];
  weir_message said;
  newcomer fresh = {limiter, index, &said};
  limiter->kin[index] =
      (weir_store_use){.tag = rule->kin, .meaning = rule->tag, .text = text, .owner = limiter};
  if (!weir_store_enter(limiter->store, &limiter->kin[index], tell_of_kin, &fresh)) return true;
  return warn(limiter,
              "rule %zu, %s, %s; a key may have both limits in full; give one of them a%s name=, "
              "if they are two limits",
              index + 1, text, said.text, rule->name[0] != '\0' ? "nother" : "");
}

bool weir_limiter_tell_apart(const weir_limiter *limiter, size_t index, const weir_limiter *other,
                             size_t other_index, weir_message *message) {
  if (index >= limiter->stack.count || other_index >= other->stack.count) return false;
  const weir_rule *one = &limiter->stack.rules[index];
  const weir_rule *kin = &other->stack.rules[other_index];
  if (strcmp(one->kin, kin->kin) != 0 || strcmp(one->tag, kin->tag) == 0) return false;
  say_apart(most_for_both(limiter, index, other, other_index), other->texts[other_index], "",
            message);
  return true;
}

bool weir_limiter_enter_store(weir_limiter *limiter) {
  size_t logs = 0;
  size_t entered = 0; /* of these */
  for (size_t i = 0; i < limiter->stack.count; i++)
    logs += weir_rule_takes_one(&limiter->stack.rules[i]);
  if (!write_texts(limiter, logs)) return false;
  for (size_t i = 0; i < limiter->stack.count; i++) {
    bool is_log = weir_rule_takes_one(&limiter->stack.rules[i]);
    const char *text = limiter->texts[is_log && logs > 1 ? limiter->stack.count : i];
    bool whole = !is_log || entered++ == 0;
    if (whole && !enter_counts(limiter, i, text)) return false;
    if (!enter_kin(limiter, i, text)) return false;
  }
  return true;
}

void weir_limiter_leave_store(weir_limiter *limiter) {
  for (size_t i = 0; i < limiter->stack.count; i++) {
    if (limiter->uses[i].tag != NULL) weir_store_leave(limiter->store, &limiter->uses[i]);
    if (limiter->kin[i].tag != NULL) weir_store_leave(limiter->store, &limiter->kin[i]);
  }
  for (size_t i = 0; i <= limiter->stack.count; i++)
    free(limiter->texts[i]);
}

const char *weir_limiter_warning_at(const weir_limiter *limiter, size_t index) {
  return index < limiter->warning_count ? limiter->warnings[index] : NULL;
}

const char *weir_limiter_warning(const weir_limiter *limiter) {
  return weir_limiter_warning_at(limiter, 0);
}

/* Tiers: names for limits of keys, "gold:5000|silver:500". What is stored for a key is a part of a hash of the
 * name, so that who changes the limit of a tier changes it for all of its keys. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/word.h>

#include "hash.h"
#include "number.h"
#include "rule/kind.h"

/* Every version of the library, on every machine, must find the same. */
static int64_t number_of(const char *name, size_t length) {
  static const unsigned char known[WEIR_HASH_SECRET_BYTES] = "weir.tier.name";
  enum { UNUSED_BITS = 24 };
  return (int64_t)(weir_hash_64(known, name, length) >> UNUSED_BITS);
}

typedef struct tier {
  weir_part part;
  int64_t limit, number;
} tier;

/* Moves *at behind the next one. False: there is none, or none that is accepted. */
static bool next_tier(const char **at, const char *end, tier *next) {
  if (!weir_parts_next(at, end, &next->part) ||
      !weir_number_read(next->part.value, next->part.value_length, WEIR_COUNT_LIMIT_MOST,
                        &next->limit))
    return false;
  next->number = number_of(next->part.name, next->part.name_length);
  return true;
}

static const char *end_of(const weir_rule *rule) {
  return rule->tiers != NULL ? rule->tiers + rule->tiers_length : NULL;
}

/* What a limit may be besides is no name. */
static bool is_word(const weir_part *part) {
  static const char *const words[] = {"absent", "none", "blocked", "unlimited"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (weir_part_is_named(part, words[i], strlen(words[i]))) return true;
  return part->name[0] >= '0' && part->name[0] <= '9';
}

bool weir_tiers_read(weir_rule *rule, const char *text, size_t length) {
  const char *at = text, *end = text + length;
  tier next;
  if (length == 0 || end[-1] == '|') return false;
  for (size_t count = 0; at < end; count++)
    if (count == WEIR_TIERS_MOST || !next_tier(&at, end, &next) || next.limit < 1 ||
        !weir_name_is_accepted(next.part.name, next.part.name_length, WEIR_NAME_MOST) ||
        is_word(&next.part))
      return false;
  rule->tiers = text;
  rule->tiers_length = length;
  return true;
}

weir_status weir_tiers_check(const weir_rule *rule, weir_message *message) {
  int64_t least = weir_rule_limit_least(rule);
  tier next, before;
  if (rule->most == 0) {
    weir_message_set(message, "tiers= without most=: accepted are both, or none");
    return WEIR_BAD_RULE;
  }
  for (const char *at = rule->tiers; next_tier(&at, end_of(rule), &next);) {
    int length = (int)next.part.name_length;
    if (next.limit < least || next.limit > rule->most) {
      weir_message_set(message,
                       "tier %.*s has a limit of %" PRId64 ": accepted are %" PRId64 " to %" PRId64
                       ", that of most=",
                       length, next.part.name, next.limit, least, rule->most);
      return WEIR_BAD_RULE;
    }
    for (const char *from = rule->tiers; next_tier(&from, end_of(rule), &before) && from < at;) {
      if (before.number != next.number) continue;
      weir_message_set(message, "tier %.*s is given twice", length, next.part.name);
      return WEIR_BAD_RULE;
    }
  }
  return WEIR_OK;
}

int weir_tiers_write(const weir_rule *rule, char *text, size_t size) {
  return weir_parts_write(rule->tiers, end_of(rule), text, size);
}

/* --- found --------------------------------------------------------------------------------------
 */

bool weir_rule_find_tier(const weir_rule *rule, const char *name, size_t length, int64_t *number) {
  tier next;
  for (const char *at = rule->tiers; next_tier(&at, end_of(rule), &next);) {
    if (!weir_part_is_named(&next.part, name, length)) continue;
    *number = next.number;
    return true;
  }
  return false;
}

int64_t weir_rule_read_tier(const weir_rule *rule, int64_t number, char name[WEIR_NAME_MOST + 1]) {
  tier next;
  for (const char *at = rule->tiers; next_tier(&at, end_of(rule), &next);) {
    if (next.number != number) continue;
    if (name != NULL)
      snprintf(name, WEIR_NAME_MOST + 1, "%.*s", (int)next.part.name_length, next.part.name);
    return next.limit;
  }
  return 0;
}

void weir_rule_list_tiers(const weir_rule *rule, char list[WEIR_TIER_LIST_BYTES]) {
  char name[WEIR_NAME_MOST + 1];
  const char *at = rule->tiers, *end = end_of(rule);
  list[0] = '\0';
  for (tier next; next_tier(&at, end, &next);) {
    snprintf(name, sizeof name, "%.*s", (int)next.part.name_length, next.part.name);
    weir_word_list(list, WEIR_TIER_LIST_BYTES, name, at >= end);
  }
}

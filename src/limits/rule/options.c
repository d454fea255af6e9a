/* Options of a rule: which there are, whose they are, what they accept. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/duration.h>
#include <weir/word.h>

#include "rule/parse.h"

static weir_status read_cells(weir_rule_piece value, weir_rule *rule, weir_message *message) {
  int64_t cells = weir_rule_number(value, WEIR_CELLS_MOST);
  if (cells >= 1 && (cells & (cells - 1)) == 0) {
    rule->cells = (int)cells;
    return WEIR_OK;
  }
  weir_message_set(message, "cells=%.*s: accepted are 1, 2, 4, 8, 16, 32 and 64",
                   WEIR_RULE_SHOW(value));
  return WEIR_BAD_RULE;
}

static weir_status read_strict(weir_rule_piece value, weir_rule *rule, weir_message *message) {
  if (value.text == NULL) {
    rule->strict = true;
    return WEIR_OK;
  }
  weir_message_set(message, "strict=%.*s: strict takes no value", WEIR_RULE_SHOW(value));
  return WEIR_BAD_RULE;
}

static weir_status read_count(weir_rule_piece value, weir_rule *rule, weir_message *message) {
  rule->count_all = weir_rule_piece_is(value, "all");
  if (rule->count_all || weir_rule_piece_is(value, "admitted")) return WEIR_OK;
  weir_message_set(message, "count=%.*s: accepted are admitted and all", WEIR_RULE_SHOW(value));
  return WEIR_BAD_RULE;
}

static weir_status read_burst(weir_rule_piece value, weir_rule *rule, weir_message *message) {
  rule->burst = weir_rule_number(value, WEIR_LIMIT_MOST);
  if (rule->burst >= 1) return WEIR_OK;
  weir_message_set(message, "burst=%.*s: accepted are 1 to %" PRId64, WEIR_RULE_SHOW(value),
                   WEIR_LIMIT_MOST);
  return WEIR_BAD_RULE;
}

/* One acts at once, `queue` more may wait. */
static weir_status read_queue(weir_rule_piece value, weir_rule *rule, weir_message *message) {
  int64_t queue = weir_rule_number(value, WEIR_LIMIT_MOST - 1);
  rule->burst = queue + 1;
  if (queue >= 0) return WEIR_OK;
  weir_message_set(message, "queue=%.*s: accepted are 0 to %" PRId64, WEIR_RULE_SHOW(value),
                   WEIR_LIMIT_MOST - 1);
  return WEIR_BAD_RULE;
}

static weir_status read_hold(weir_rule_piece value, weir_rule *rule, weir_message *message) {
  if (weir_duration_parse(value.text, value.length, &rule->hold_us) &&
      rule->hold_us >= WEIR_HOLD_LEAST_US && rule->hold_us <= WEIR_HOLD_MOST_US)
    return WEIR_OK;
  weir_message_set(
      message, "hold=%.*s: accepted is a duration from 1ms to 60s (a whole number and ms, s or m)",
      WEIR_RULE_SHOW(value));
  return WEIR_BAD_RULE;
}

static weir_status read_lease(weir_rule_piece value, weir_rule *rule, weir_message *message) {
  if (weir_duration_parse(value.text, value.length, &rule->lease_us) &&
      rule->lease_us >= WEIR_LEASE_LEAST_US && rule->lease_us <= WEIR_LEASE_MOST_US)
    return WEIR_OK;
  weir_message_set(message,
                   "lease=%.*s: accepted is a duration from 1ms to 1s (a whole number and ms or s)",
                   WEIR_RULE_SHOW(value));
  return WEIR_BAD_RULE;
}

static weir_status read_name(weir_rule_piece value, weir_rule *rule, weir_message *message) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  bool good = value.length >= 1 && value.length <= WEIR_NAME_MOST;
  for (size_t i = 0; good && i < value.length; i++)
    good = value.text[i] != '\0' && strchr(accepted, value.text[i]) != NULL;
  if (!good) {
    weir_message_set(message, "name=%.*s: accepted are 1 to %d of A-Z a-z 0-9 _ . -",
                     WEIR_RULE_SHOW(value), WEIR_NAME_MOST);
    return WEIR_BAD_RULE;
  }
  memcpy(rule->name, value.text, value.length);
  return WEIR_OK;
}

/* An option belongs to the kinds that have all traits of one set and none of the other. */
static const struct option {
  const char *name;
  bool needs_value;
  unsigned all, none; /* enum weir_kind_trait */
  weir_status (*read)(weir_rule_piece value, weir_rule *rule, weir_message *message);
} options[] = {
    {"cells", true, WEIR_KIND_CELLS, 0, read_cells},
    {"strict", false, WEIR_KIND_CELLS, 0, read_strict},
    {"count", true, WEIR_KIND_COUNTS, 0, read_count},
    {"burst", true, WEIR_KIND_MOVES, WEIR_KIND_PLACES, read_burst},
    {"queue", true, WEIR_KIND_PLACES, 0, read_queue},
    {"hold", true, 0, 0, read_hold},
    {"lease", true, WEIR_KIND_LEASES, 0, read_lease},
    {"name", true, 0, 0, read_name},
};
enum {
  OPTION_COUNT = sizeof options / sizeof options[0],
  OPTION_BYTES = 16 /* a name, and "=" where it needs a value */
};

static bool belongs(const struct option *option, weir_rule_kind kind) {
  return weir_rule_kind_has(kind, option->all, option->none);
}

/* One bit per weir_rule_kind. */
static unsigned owners_of(const struct option *option) {
  unsigned owners = 0;
  for (unsigned kind = 0; kind < WEIR_RULE_KINDS; kind++)
    if (belongs(option, (weir_rule_kind)kind)) owners |= 1U << kind;
  return owners;
}

/* "cells=, strict and name=" */
static void list_options(weir_rule_kind kind, char list[WEIR_RULE_LIST_BYTES]) {
  size_t last = OPTION_COUNT;
  while (last > 0 && !belongs(&options[last - 1], kind))
    last--;
  list[0] = '\0';
  for (size_t i = 0; i < last; i++) {
    char word[OPTION_BYTES];
    if (!belongs(&options[i], kind)) continue;
    snprintf(word, sizeof word, "%s%s", options[i].name, options[i].needs_value ? "=" : "");
    weir_word_list(list, WEIR_RULE_LIST_BYTES, word, i + 1 == last);
  }
}

/* NULL where none is. */
static const char *nearest_option(weir_rule_piece name, weir_rule_kind kind) {
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (size_t i = 0; i < OPTION_COUNT; i++) {
    if (!belongs(&options[i], kind)) continue;
    if (weir_word_nearer(name.text, name.length, options[i].name, &distance))
      nearest = options[i].name;
  }
  return nearest;
}

/* `option` is NULL where no algorithm has one of this name. */
static weir_status refuse_option(weir_rule_piece name, const struct option *option,
                                 const weir_rule *rule, weir_message *message) {
  char owners[WEIR_RULE_LIST_BYTES];
  char accepted[WEIR_RULE_LIST_BYTES];
  list_options(rule->kind, accepted);
  const char *kind = weir_rule_kind_name(rule->kind);
  if (option == NULL) {
    const char *nearest = nearest_option(name, rule->kind);
    weir_message_set(message, "unknown option \"%.*s\": %s accepts %s%s%s", WEIR_RULE_SHOW(name),
                     kind, accepted, nearest != NULL ? "; the nearest is " : "",
                     nearest != NULL ? nearest : "");
  } else {
    weir_rule_list_kinds(owners_of(option), owners);
    weir_message_set(message, "option %s belongs to %s: %s accepts %s", option->name, owners, kind,
                     accepted);
  }
  return WEIR_BAD_RULE;
}

static const struct option *find_option(weir_rule_piece name) {
  for (size_t i = 0; i < OPTION_COUNT; i++)
    if (weir_rule_piece_is(name, options[i].name)) return &options[i];
  return NULL;
}

/* `seen` has one bit per option. */
weir_status weir_rule_read_option(weir_rule_piece text, unsigned *seen, weir_rule *rule,
                                  weir_message *message) {
  weir_rule_piece value = text;
  weir_rule_piece name;
  if (!weir_rule_cut(&value, '=', &name)) value = (weir_rule_piece){NULL, 0};
  const struct option *option = find_option(name);
  if (option == NULL || !belongs(option, rule->kind))
    return refuse_option(name, option, rule, message);
  unsigned bit = 1U << (option - options);
  if (*seen & bit) {
    weir_message_set(message, "option %s is given twice", option->name);
    return WEIR_BAD_RULE;
  }
  *seen |= bit;
  if (option->needs_value && value.text == NULL) {
    weir_message_set(message, "option %s needs a value: %s=...", option->name, option->name);
    return WEIR_BAD_RULE;
  }
  return option->read(value, rule, message);
}

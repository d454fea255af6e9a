/* How the limit of a shared window is divided: its cells, its tenants and their floors.
 *
 *     Cf = floors * L / (N + 2)                  the floors of a cell, of all tenants together
 *     g  = Cf * weight / all weights             that of one tenant, rounded down
 *
 * N + 2 of them are at most L: an interval of the length W meets N + 1 cells, and another may still have
 * floors on their way. */
#include <inttypes.h>

#include <weir/backend.h>
#include <weir/duration.h>

#include "number.h"
#include "rule/kind.h"

/* One tenant of weights=. */
typedef struct share {
  weir_part part;
  int64_t weight;
} share;

/* Moves *at behind the next one. False: there is none, or none that is accepted. */
static bool next_share(const char **at, const char *end, share *next) {
  return weir_parts_next(at, end, WEIR_TENANT_MOST, &next->part) &&
         weir_number_read(next->part.value, next->part.value_length, WEIR_WEIGHT_MOST,
                          &next->weight) &&
         next->weight >= 1;
}

static const char *end_of(const weir_rule *rule) {
  return rule->weights + rule->weights_length;
}

int64_t weir_rule_weight(const weir_rule *rule, const void *tenant, size_t length) {
  share next;
  for (const char *at = rule->weights, *end = end_of(rule); next_share(&at, end, &next);)
    if (weir_part_is_named(&next.part, tenant, length)) return next.weight;
  return 0;
}

int64_t weir_rule_floor(const weir_rule *rule, int64_t weight) {
  return rule->floor_of_cell * weight / rule->weight_of_all;
}

bool weir_shares_read(weir_rule *rule, const char *text, size_t length) {
  const char *at = text, *end = text + length;
  share next;
  if (length > WEIR_WEIGHTS_MOST || length == 0 || end[-1] == '|') return false;
  rule->weights = text;
  while (at < end) {
    rule->weights_length = (size_t)(at - text); /* those before it */
    if (!next_share(&at, end, &next)) return false;
    if (weir_rule_weight(rule, next.part.name, next.part.name_length) > 0) return false;
  }
  rule->weights_length = length;
  return true;
}

int weir_shares_cells(int64_t period_us) {
  int64_t seconds = period_us / 1000000;
  if (seconds > WEIR_SHARED_CELLS_MOST) return WEIR_SHARED_CELLS_MOST;
  return seconds < WEIR_SHARED_CELLS_LEAST ? WEIR_SHARED_CELLS_LEAST : (int)seconds;
}

static weir_status check_cells(const weir_rule *rule, weir_message *message) {
  int64_t least_us = rule->cells * WEIR_SHARED_CELL_LEAST_US;
  char least[WEIR_DURATION_BYTES];
  weir_duration_format(least_us, least, sizeof least);
  if (rule->period_us >= least_us) return WEIR_OK;
  weir_message_set(
      message,
      "%d cells of such a period are shorter than 500ms: accepted are periods of %s or "
      "more%s",
      rule->cells, least, rule->cells > WEIR_SHARED_CELLS_LEAST ? ", or fewer cells" : "");
  return WEIR_BAD_RULE;
}

/* The tenant with the least weight needs a floor of 1. */
static weir_status check_floors(const weir_rule *rule, const share *least, weir_message *message) {
  if (weir_rule_floor(rule, least->weight) >= 1) return WEIR_OK;
  int64_t of_cell = (rule->weight_of_all + least->weight - 1) / least->weight;
  int64_t limit = (of_cell * (rule->cells + 2) * 100 + rule->floors - 1) / rule->floors;
  weir_message_set(
      message,
      "tenant \"%.*s\" has a part of %" PRId64 " in %" PRId64
      ", and its floor in each of the %d cells is less than 1: accepted are a limit of %" PRId64
      " or more, larger floors, or fewer tenants or cells",
      (int)least->part.name_length, least->part.name, least->weight, rule->weight_of_all,
      rule->cells, limit);
  return WEIR_BAD_RULE;
}

weir_status weir_shares_measure(weir_rule *rule, weir_message *message) {
  enum { FLOORS_DEFAULT = 50 };
  share next, least = {.weight = WEIR_WEIGHT_MOST + 1};
  if (rule->weights_length == 0) {
    weir_message_set(message,
                     "%s needs weights=, its tenants and their parts: weights=north:5|south:3",
                     weir_rule_kind_name(rule->kind));
    return WEIR_BAD_RULE;
  }
  if (rule->cells == weir_kinds[rule->kind].cells) rule->cells = weir_shares_cells(rule->period_us);
  if (rule->floors == 0) rule->floors = FLOORS_DEFAULT;
  rule->weight_of_all = 0;
  for (const char *at = rule->weights, *end = end_of(rule); next_share(&at, end, &next);) {
    rule->weight_of_all += next.weight;
    if (next.weight < least.weight) least = next;
  }
  rule->floor_of_cell = rule->floors * rule->limit / (100 * (rule->cells + 2));
  weir_status status = check_cells(rule, message);
  return status == WEIR_OK ? check_floors(rule, &least, message) : status;
}

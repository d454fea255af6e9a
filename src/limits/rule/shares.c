/* How the limit of a shared window is divided: its cells, its tenants and their floors.
 *
 *     Cf = floors * L / (N + 2)                  the floors of a cell, of all tenants together
 *     g  = Cf * weight / all weights             that of one tenant, rounded down
 *
 * N + 2 of them are at most L: an interval of the length W meets N + 1 cells, and another may still have
 * floors on their way. What a loan leaves for floors is not rounded down: of floors of another limit L', n cells
 * have n (Cf' - Cf) more, and that is at most L' - L. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
  return weir_parts_next(at, end, &next->part) &&
         weir_number_read(next->part.value, next->part.value_length, WEIR_WEIGHT_MOST,
                          &next->weight) &&
         next->weight >= 1;
}

static const char *end_of(const weir_rule *rule) {
  return rule->weights != NULL ? rule->weights + rule->weights_length : NULL;
}

int64_t weir_rule_weight(const weir_rule *rule, const void *tenant, size_t length) {
  share next;
  for (const char *at = rule->weights, *end = end_of(rule); next_share(&at, end, &next);)
    if (weir_part_is_named(&next.part, tenant, length)) return next.weight;
  return 0;
}

int64_t weir_rule_floor_of(const weir_rule *rule, int64_t floors, int64_t weight) {
  return floors * weight / rule->weight_of_all;
}

int64_t weir_rule_floor(const weir_rule *rule, int64_t weight) {
  return weir_rule_floor_of(rule, rule->floor_of_cell, weight);
}

int weir_shares_write(const weir_rule *rule, char *text, size_t size) {
  return weir_parts_write(rule->weights, end_of(rule), text, size);
}

int weir_shares_cells(int64_t period_us) {
  int64_t seconds = period_us / 1000000;
  if (seconds > WEIR_SHARED_CELLS_MOST) return WEIR_SHARED_CELLS_MOST;
  return seconds < WEIR_SHARED_CELLS_LEAST ? WEIR_SHARED_CELLS_LEAST : (int)seconds;
}

/* Tells what is wrong with a list of tenants, at the first that is none. */
static weir_status refuse_weights(const char *at, const char *end, weir_message *message) {
  const char *stop = at < end ? memchr(at, '|', (size_t)(end - at)) : NULL;
  int length = (int)((stop != NULL ? stop : end) - at);
  weir_message_set(message,
                   "weights= has \"%.*s\", which is no tenant with its weight: accepted are "
                   "north:5|south:3, names of 1 to %d of A-Z a-z 0-9 _ . - and weights of 1 to %d",
                   length < WEIR_TENANT_MOST ? length : WEIR_TENANT_MOST, at, WEIR_TENANT_MOST,
                   WEIR_WEIGHT_MOST);
  return WEIR_BAD_RULE;
}

/* Each name once: of those that are read so far, as the rule has them. */
static weir_status check_weights(weir_rule *rule, weir_message *message) {
  size_t length = rule->weights_length;
  const char *at = rule->weights, *end = end_of(rule);
  share next;
  if (length > WEIR_WEIGHTS_MOST) {
    weir_message_set(message, "weights= is %zu bytes long: accepted are up to %d, or fewer tenants",
                     length, WEIR_WEIGHTS_MOST);
    return WEIR_BAD_RULE;
  }
  if (length == 0 || end[-1] == '|') return refuse_weights(end, end, message);
  while (at < end) {
    const char *from = at;
    if (!next_share(&at, end, &next) ||
        !weir_name_is_accepted(next.part.name, next.part.name_length, WEIR_TENANT_MOST))
      return refuse_weights(from, end, message);
    rule->weights_length = (size_t)(from - rule->weights);
    if (weir_rule_weight(rule, next.part.name, next.part.name_length) > 0) {
      weir_message_set(message,
                       "weights= names tenant \"%.*s\" twice: accepted is each tenant once",
                       (int)next.part.name_length, next.part.name);
      return WEIR_BAD_RULE;
    }
  }
  rule->weights_length = length;
  return WEIR_OK;
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

/* The least limit that gives this weight such a floor. */
static int64_t limit_of_floor(const weir_rule *rule, int64_t weight, int64_t floor) {
  int64_t of_cell = (floor * rule->weight_of_all + weight - 1) / weight;
  return (of_cell * (rule->cells + 2) * 100 + rule->floors - 1) / rule->floors;
}

enum { OTHERS_LEAST = 2 /* one for who comes, and one for who was there before */ };

int64_t weir_rule_floors(const weir_rule *rule, int64_t percent) {
  return percent * rule->limit / (INT64_C(100) * (rule->cells + 2));
}

int64_t weir_rule_room(const weir_rule *rule, int64_t percent) {
  int64_t whole = INT64_C(100) * (rule->cells + 2);
  return (percent * rule->limit * WEIR_ROOM_PARTS + whole - 1) / whole;
}

void weir_shares_set_floors(weir_rule *rule) {
  rule->floor_of_cell = weir_rule_floors(rule, rule->floors);
  rule->room_of_cell = weir_rule_room(rule, rule->floors);
}

static share least_share(const weir_rule *rule) {
  share next, least = {.weight = WEIR_WEIGHT_MOST + 1};
  for (const char *at = rule->weights, *end = end_of(rule); next_share(&at, end, &next);)
    if (next.weight < least.weight) least = next;
  return least;
}

int64_t weir_shares_limit_least(const weir_rule *rule) {
  int64_t named = rule->weights == NULL ? 0 : limit_of_floor(rule, least_share(rule).weight, 1);
  int64_t others = rule->others == 0 ? 0 : limit_of_floor(rule, rule->others, OTHERS_LEAST);
  return named > others ? named : others;
}

static weir_status check_others(const weir_rule *rule, weir_message *message) {
  if (rule->others == 0 || weir_rule_floor(rule, rule->others) >= OTHERS_LEAST) return WEIR_OK;
  weir_message_set(message,
                   "others= has a part of %" PRId64 " in %" PRId64
                   ", and its floors in each of the %d cells come to less than %d: accepted are a "
                   "limit of %" PRId64 " or more, larger floors, or fewer cells",
                   rule->others, rule->weight_of_all, rule->cells, OTHERS_LEAST,
                   limit_of_floor(rule, rule->others, OTHERS_LEAST));
  return WEIR_BAD_RULE;
}

/* The tenant with the least weight needs a floor of 1. */
static weir_status check_floors(const weir_rule *rule, weir_message *message) {
  const share least = least_share(rule);
  if (weir_rule_floor(rule, least.weight) >= 1) return WEIR_OK;
  int64_t limit = limit_of_floor(rule, least.weight, 1);
  weir_message_set(
      message,
      "tenant \"%.*s\" has a part of %" PRId64 " in %" PRId64
      ", and its floor in each of the %d cells is less than 1: accepted are a limit of %" PRId64
      " or more, larger floors, or fewer tenants or cells",
      (int)least.part.name_length, least.part.name, least.weight, rule->weight_of_all, rule->cells,
      limit);
  return WEIR_BAD_RULE;
}

/* Whoever has the same tenants, of the same weights, has the same number, in whatever order they stand. */
static int64_t hash_of_weights(const weir_rule *rule) {
  uint64_t all = (uint64_t)rule->others;
  share next;
  for (const char *at = rule->weights, *end = end_of(rule); next_share(&at, end, &next);) {
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a, and the end of MurmurHash3 */
    for (size_t i = 0; i < next.part.name_length; i++)
      hash = (hash ^ (unsigned char)next.part.name[i]) * UINT64_C(1099511628211);
    hash = (hash ^ (uint64_t)next.weight) * UINT64_C(1099511628211);
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    all += hash ^ hash >> 33;
  }
  return (int64_t)((all * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - WEIR_DIVISION_HASH_BITS));
}

static void set_division(weir_rule *rule) {
  int64_t others =
      (rule->others * WEIR_DIVISION_ALL + rule->weight_of_all - 1) / rule->weight_of_all;
  rule->division = weir_division_pack(hash_of_weights(rule) << WEIR_DIVISION_OTHERS_BITS | others,
                                      rule->floors, rule->floors);
}

weir_status weir_shares_measure(weir_rule *rule, weir_message *message) {
  enum { FLOORS_DEFAULT = 50 };
  share next;
  if (rule->weights == NULL && rule->others == 0) {
    weir_message_set(message,
                     "%s needs weights=, its tenants and their parts: weights=north:5|south:3; or "
                     "others=1, for any tenants",
                     weir_rule_kind_name(rule->kind));
    return WEIR_BAD_RULE;
  }
  weir_status status = rule->weights != NULL ? check_weights(rule, message) : WEIR_OK;
  if (status != WEIR_OK) return status;
  if (rule->cells == weir_kinds[rule->kind].cells) rule->cells = weir_shares_cells(rule->period_us);
  if (rule->floors == 0) rule->floors = FLOORS_DEFAULT;
  rule->weight_of_all = rule->others;
  for (const char *at = rule->weights, *end = end_of(rule); next_share(&at, end, &next);)
    rule->weight_of_all += next.weight;
  weir_shares_set_floors(rule);
  set_division(rule);
  status = check_cells(rule, message);
  if (status == WEIR_OK && rule->weights != NULL) status = check_floors(rule, message);
  return status == WEIR_OK ? check_others(rule, message) : status;
}

/* What a rule's text leaves open, in numbers: the unit in which a bucket counts time, what a lease
 * keeps back, which counters hold the cells of a window, and the tag that names what is stored.
 *
 * Buckets. A token takes W/L, which is rarely a whole number of microseconds, so that it is rounded
 * up: a bucket never gives more than its rate. Units of 2^-k us make that exact enough. T >= 1024
 * of them exceed the true W*2^k/L by less than one, so the rate falls short by less than 1/1024. k
 * = 0, 10 or 20 and no more, so that most changes of a limit keep the unit and with it what is
 * stored.
 *
 * A full bucket spans B*T units. With k = 0 that is under 400 days + 10^9 us < 2^45; otherwise T
 * with the k before was at most 1023, so T is at most 1023 * 1024, and B*T < 2^50. With the longest
 * wait on top (1800 s < 2^51 units) that is below 2^52, whose sums with a 2^52 are exact in
 * doubles.
 *
 * most=. One layout serves all limits of a name up to M, so that M chooses unit and lanes in the place
 * of L, and nothing else. A token of L takes longer than one of M, at least 1024 units too. Only a full
 * bucket may span too much of so fine a unit: up to 2^50 of them are accepted.
 *
 * Leases. A process may charge more than it needs, and use the rest for as long as the lease says.
 * A window counts such a use where it was charged. A bucket drains meanwhile: what is used at the
 * end of a lease was charged when the bucket held up to r * lease less than it holds now, where r =
 * L/W. So all processes, with a lease or without, leave that much of B alone:
 *
 *     B' = B - ceil(L * lease / W)
 *
 * A lease of a bucket is at most a quarter of what a full bucket takes to fill, so that the reserve
 * is at most a quarter of B, rounded up.
 *
 * Cells. Only sliding windows have cells to share a counter; other rules count in whole ones.
 * Several cells share one 64-bit counter, so that one increment answers with all of them. A lane
 * must never carry into its neighbour, whatever happens at once. A cell holds at most
 *
 *     what may be admitted          upper(M, N)
 *   + what settlements may charge   D
 *   + one charge per process that is not yet taken back, each at most M + D
 *   + one more, left behind by a crash or an unknown outcome
 *
 * because a process has one group under way per key, a group charges at most L, a settlement, which
 * is a group of its own, at most L + D, and after a denial or an unknown outcome the next touch of
 * the key is a peek. M is L, or the largest limit of all that share the cells. Lanes are signed
 * digits, so that sum must stay below half a lane. Where denied requests stay charged there is no
 * such bound, and each cell has a counter of its own.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/duration.h>

#include "rule/kind.h"
#include "wide.h"

/* --- what follows from the rule -----------------------------------------------------------------
 */

/* M: the limit that the counts are laid out for. */
static int64_t largest_limit(const weir_rule *rule) {
  return rule->most > 0 ? rule->most : rule->limit;
}

int64_t weir_rule_upper_of(const weir_rule *rule, int64_t limit) {
  if (rule->strict || !weir_rule_has_cells(rule)) return limit;
  return limit + (2 * limit + rule->cells - 1) / rule->cells;
}

int64_t weir_rule_upper(const weir_rule *rule) {
  return weir_rule_upper_of(rule, rule->limit);
}

/* A window of less than four cells meets two of its estimates, each of at most L. */
int64_t weir_rule_bound_of(const weir_rule *rule, weir_threshold most) {
  bool estimates = weir_rule_has_cells(rule) && !rule->strict;
  return estimates && rule->cells < 4 ? 2 * most.capacity : most.upper;
}

int64_t weir_rule_bound(const weir_rule *rule) {
  return weir_rule_bound_of(rule, (weir_threshold){rule->limit, weir_rule_upper(rule)});
}

int64_t weir_rule_capacity(const weir_rule *rule) {
  if (weir_rule_is_shared(rule)) {
    int64_t lent = rule->limit - weir_rule_room_whole((rule->cells + 1) * rule->room_of_cell);
    return lent > rule->floor_of_cell ? lent : rule->floor_of_cell;
  }
  return weir_rule_moves_in_time(rule) ? rule->burst - rule->reserve : rule->limit;
}

static void set_capacities(weir_rule *rule) {
  rule->capacity = weir_rule_capacity(rule);
  rule->upper = weir_rule_moves_in_time(rule) ? rule->capacity : weir_rule_upper(rule);
  weir_classes_measure(rule, rule->capacity);
}

int64_t weir_stack_least_capacity(const weir_stack *stack) {
  return weir_stack_least_of_class(stack, 0);
}

int64_t weir_stack_least_of_class(const weir_stack *stack, unsigned number) {
  int64_t least = INT64_MAX;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    int64_t capacity = weir_rule_takes_one(rule) ? 1 : weir_rule_capacity_of(rule, number);
    if (capacity < least) least = capacity;
  }
  return least;
}

/* --- measured -----------------------------------------------------------------------------------
 */

enum {
  TOKEN_UNITS_LEAST = 1024,
  UNIT_BITS_STEP = 10,
  UNIT_BITS_MOST = 20,
  LEASE_SHARE = 4 /* of what a full bucket takes to fill, a lease is at most one in so many */
};

/* A full bucket spans less. */
#define FULL_UNITS_MOST (INT64_C(1) << 50)

/* Does not overflow: the period is below 2^45, and 2^20 are tried only where the largest limit, below
 * 2^40 in parts, is above the period. */
static int64_t token_units_in(const weir_rule *rule, int unit_bits) {
  return ((rule->period_us << unit_bits) + rule->limit - 1) / rule->limit;
}

/* The largest limit whose tokens take enough of such units. */
static int64_t fastest_in(const weir_rule *rule, int unit_bits) {
  return ((rule->period_us << unit_bits) - 1) / (TOKEN_UNITS_LEAST - 1);
}

/* In a unit that L chose it never takes too long, nor a burst of 1 in any, nor any in microseconds. */
static weir_status check_span(const weir_rule *rule, weir_message *message) {
  bool queues = weir_rule_gives_places(rule);
  const char *option = queues ? "queue" : "burst";
  int64_t burst_most = (FULL_UNITS_MOST - 1) / rule->token_units;
  int unit_bits = rule->unit_bits;
  if (rule->burst <= burst_most) return WEIR_OK;
  while ((weir_wide)rule->burst * token_units_in(rule, unit_bits) >= FULL_UNITS_MOST)
    unit_bits -= UNIT_BITS_STEP;
  weir_message_set(
      message,
      "%s=%" PRId64 " takes too long to %s for most=%" PRId64
      ", by which time is counted in units of 2^-%d us, and a bucket has 2^50 of them: "
      "accepted are %s=%" PRId64 " or less, or most=%" PRId64 " or less",
      option, rule->burst - queues, queues ? "drain" : "fill", rule->most, rule->unit_bits, option,
      burst_most - queues, fastest_in(rule, unit_bits));
  return WEIR_BAD_RULE;
}

static weir_status measure_bucket(weir_rule *rule, weir_message *message) {
  char period[WEIR_DURATION_BYTES];
  weir_duration_format(rule->period_us, period, sizeof period);
  bool queues = weir_rule_gives_places(rule);
  assert(rule->limit > 0);
  if (rule->burst == 0) rule->burst = queues ? 1 : rule->limit;

  for (rule->unit_bits = 0; largest_limit(rule) > fastest_in(rule, rule->unit_bits);
       rule->unit_bits += UNIT_BITS_STEP) {
    if (rule->unit_bits < UNIT_BITS_MOST) continue;
    weir_message_set(
        message, "%s%" PRId64 " per %s is too fast for %s: accepted are up to %" PRId64 " per %s",
        rule->most > 0 ? "most=" : "", largest_limit(rule), period, weir_rule_kind_name(rule->kind),
        fastest_in(rule, UNIT_BITS_MOST), period);
    return WEIR_BAD_RULE;
  }
  rule->token_units = token_units_in(rule, rule->unit_bits);

  /* The period is at most 400 days, so that a burst of L, and every queue of none, is in range. */
  weir_wide most = (weir_wide)WEIR_PERIOD_MOST_US * rule->limit / rule->period_us;
  if (rule->burst <= most) return check_span(rule, message);
  weir_message_set(message,
                   "%s=%" PRId64 " at %" PRId64
                   " per %s takes more than 400d to %s: accepted are %d to %" PRId64,
                   queues ? "queue" : "burst", rule->burst - queues, rule->limit, period,
                   queues ? "drain" : "fill", queues ? 0 : 1, (int64_t)most - queues);
  return WEIR_BAD_RULE;
}

/* L * lease is below 2^50. The reserve is at most B/4, rounded up: lease <= B*W/4L. */
static weir_status measure_lease(weir_rule *rule, weir_message *message) {
  if (rule->count_all) {
    weir_message_set(message, "lease= with count=all: accepted is count=admitted, or no lease=");
    return WEIR_BAD_RULE;
  }
  if (!weir_rule_moves_in_time(rule)) return WEIR_OK;

  weir_wide most_us =
      (weir_wide)rule->burst * rule->period_us / ((weir_wide)LEASE_SHARE * rule->limit);
  if (most_us > WEIR_LEASE_MOST_US) most_us = WEIR_LEASE_MOST_US;
  int64_t longest_us = /* in whole milliseconds, as a rule can say it; 0: none is short enough */
      (int64_t)most_us / WEIR_LEASE_LEAST_US * WEIR_LEASE_LEAST_US;
  if (rule->lease_us > longest_us) {
    char lease[WEIR_DURATION_BYTES], longest[WEIR_DURATION_BYTES];
    weir_duration_format(rule->lease_us, lease, sizeof lease);
    weir_duration_format(longest_us, longest, sizeof longest);
    if (longest_us == 0)
      weir_message_set(message, "lease=%s: a burst of %" PRId64 " fills too fast for any lease",
                       lease, rule->burst);
    else
      weir_message_set(message,
                       "lease=%s is more than a quarter of what a burst of %" PRId64
                       " takes to fill: accepted are 1ms to %s",
                       lease, rule->burst, longest);
    return WEIR_BAD_RULE;
  }

  rule->reserve = (rule->limit * rule->lease_us + rule->period_us - 1) / rule->period_us;
  if (rule->burst > rule->reserve) return WEIR_OK;
  weir_message_set(message,
                   "a lease keeps back %" PRId64 " of burst=%" PRId64
                   ": accepted is a burst of %" PRId64 " or more, or no lease=",
                   rule->reserve, rule->burst, rule->reserve + 1);
  return WEIR_BAD_RULE;
}

static weir_status check_debt(const weir_rule *rule, weir_message *message) {
  if (rule->count_all) {
    weir_message_set(message,
                     "debt= with count=all, which charges all that a request really cost: "
                     "accepted is count=admitted, or no debt=");
    return WEIR_BAD_RULE;
  }
  int64_t most = weir_rule_capacity(rule);
  if (rule->debt <= most) return WEIR_OK;
  weir_message_set(
      message, "debt=%" PRId64 " is more than the rule admits at once: accepted are 0 to %" PRId64,
      rule->debt, most);
  return WEIR_BAD_RULE;
}

weir_status weir_rule_measure(weir_rule *rule, weir_message *message) {
  weir_status status = WEIR_OK;
  if (weir_rule_moves_in_time(rule)) status = measure_bucket(rule, message);
  if (weir_rule_is_shared(rule)) status = weir_shares_measure(rule, message);
  if (status == WEIR_OK && rule->lease_us > 0) status = measure_lease(rule, message);
  if (status == WEIR_OK && rule->debt > 0) status = check_debt(rule, message);
  return status;
}

/* What fits into a counter, beside which a lost one begins with twice as much: where limits are as large
 * as ever, and where they are larger. */
#define COUNT_ROOM (INT64_C(1) << 55)
#define WIDE_COUNT_ROOM (INT64_C(1) << 61)

/* --- laid out -----------------------------------------------------------------------------------
 */

/* The most that a cell holds, whatever happens at once. */
static weir_wide most_in_cell(const weir_rule *rule, int64_t limit, uint32_t processes) {
  return weir_rule_upper_of(rule, limit) + (weir_wide)rule->debt +
         ((weir_wide)processes + 1) * (limit + rule->debt);
}

static void choose_lanes(weir_rule *rule, uint32_t processes, bool packable) {
  static const struct {
    int lanes;
    int bits;
  } layouts[] = {{4, 15}, {2, 31}, {1, 63}};
  weir_wide most = most_in_cell(rule, largest_limit(rule), processes);
  size_t i = 0;
  while (layouts[i].lanes > 1 && (!packable || most >= INT64_C(1) << (layouts[i].bits - 1)))
    i++;
  rule->lanes = layouts[i].lanes;
  rule->lane_bits = layouts[i].bits;
  rule->lost_from = most < COUNT_ROOM ? COUNT_ROOM : WIDE_COUNT_ROOM;
}

/* A whole counter has room for less than 2^61: twice that is what a lost one begins with. Limits of 2^53
 * leave room for more than 100 processes. Logs and buckets count less. */
static weir_status check_room(const weir_rule *rule, uint32_t processes, weir_message *message) {
  int64_t limit = largest_limit(rule), below = 0;
  if (!weir_rule_keeps_counts(rule) || most_in_cell(rule, limit, processes) < WIDE_COUNT_ROOM)
    return WEIR_OK;
  while (limit - below > 1) {
    int64_t middle = below + (limit - below) / 2;
    *(most_in_cell(rule, middle, processes) < WIDE_COUNT_ROOM ? &below : &limit) = middle;
  }
  weir_message_set(message,
                   "a counter has no room for what %" PRIu32
                   " processes may charge at once under "
                   "%s %" PRId64 "%s: accepted are up to %" PRId64 ", or fewer processes",
                   processes, rule->most > 0 ? "most=" : "limit", largest_limit(rule),
                   rule->debt > 0 ? " and debt=" : "", below);
  return WEIR_BAD_RULE;
}

enum { PREFIX_BYTES = 32 };
_Static_assert(PREFIX_BYTES + WEIR_NAME_MOST <= WEIR_TAG_MOST, "prefix, '+' and name are a tag");

/* "sw4-60000-4x15": everything that changes the meaning of what is stored, and nothing else. */
static void write_tag(weir_rule *rule) {
  char prefix[PREFIX_BYTES]; /* "sw64-34560000000-1x63-all" is the longest */
  char *at = prefix, *end = prefix + sizeof prefix;
  bool cells = weir_rule_has_cells(rule);
  at += snprintf(at, (size_t)(end - at), "%s", weir_kinds[rule->kind].tag);
  if (cells || weir_rule_is_shared(rule)) at += snprintf(at, (size_t)(end - at), "%d", rule->cells);
  int64_t period_us = rule->log_us > 0 ? rule->log_us : rule->period_us;
  at += snprintf(at, (size_t)(end - at), "-%" PRId64, period_us / 1000);
  if (cells) at += snprintf(at, (size_t)(end - at), "-%dx%d", rule->lanes, rule->lane_bits);
  if (weir_rule_moves_in_time(rule))
    at += snprintf(at, (size_t)(end - at), "-u%d", rule->unit_bits);
  snprintf(at, (size_t)(end - at), "%s", rule->count_all ? "-all" : rule->others > 0 ? "-o" : "");
  const char *plus = rule->name[0] != '\0' ? "+" : ""; /* no name holds one */
  snprintf(rule->tag, sizeof rule->tag, "%s%s%s", prefix, plus, rule->name);
  snprintf(rule->kin, sizeof rule->kin, "~%s-%" PRId64 "%s%s", weir_kinds[rule->kind].tag,
           rule->period_us / 1000, plus, rule->name); /* no tag begins so */
}

static bool is_window(const weir_rule *rule) {
  return weir_rule_keeps_counts(rule) && !weir_rule_opens_windows(rule);
}

/* A log's charge cannot be given back, so it must come last, and only one log can: all rules of a stack that are
 * logs read the same one. NULL: these two do. */
static const char *logs_fault(const weir_rule *one, const weir_rule *other) {
  if (strcmp(one->name, other->name) != 0)
    return "share one log: accepted is one name= for both, or none";
  bool same = one->period_us == other->period_us;
  return same ? "have one period: accepted is one limit for it" : NULL;
}

/* Whether rules `i` and `j` of a stack can be one decision. */
static weir_status check_pair(const weir_stack *stack, size_t i, size_t j, weir_message *message) {
  const weir_rule *one = &stack->rules[i];
  const weir_rule *other = &stack->rules[j];

  if (weir_rule_takes_one(one) && weir_rule_takes_one(other)) {
    const char *fault = logs_fault(one, other);
    if (fault == NULL) return WEIR_OK;
    weir_message_set(message, "rules %zu and %zu are both %s and %s", i + 1, j + 1,
                     weir_rule_kind_name(one->kind), fault);
    return WEIR_BAD_RULE;
  }

  /* What is charged to a tenant in one round and judged in the next leaves no look for others. */
  if (weir_rule_is_shared(one) || weir_rule_is_shared(other)) {
    weir_message_set(
        message, "rules %zu and %zu: a %s is accepted as the only rule, without any other", i + 1,
        j + 1, weir_rule_kind_name((weir_rule_is_shared(one) ? one : other)->kind));
    return WEIR_BAD_RULE;
  }

  /* Only windows alone are charged without a look, and so for denied requests too. */
  if ((one->count_all || other->count_all) && !(is_window(one) && is_window(other))) {
    const weir_rule *counting = one->count_all ? one : other;
    const weir_rule *beside = counting == one ? other : one;
    const weir_rule *no_window = is_window(counting) ? beside : counting;
    weir_message_set(message,
                     "count=all in a stack with a %s: accepted is count=admitted, unless all rules "
                     "are windows",
                     weir_rule_kind_name(no_window->kind));
    return WEIR_BAD_RULE;
  }

  if (strcmp(one->tag, other->tag) != 0) return WEIR_OK;
  weir_message_set(
      message, "rules %zu and %zu would share their counts (%s): give one of them a name=", i + 1,
      j + 1, one->tag);
  return WEIR_BAD_RULE;
}

/* T is rounded up by less than 1/1023 of it. */
static int64_t find_fullest_us(const weir_rule *rule) {
  if (rule->most == 0 || !weir_rule_moves_in_time(rule)) return 0;
  int64_t burst_us = (int64_t)((weir_wide)rule->burst * rule->period_us / rule->limit);
  int64_t debt_us = (int64_t)((weir_wide)rule->debt * rule->period_us / rule->limit);
  return burst_us + (burst_us + debt_us) / 1023 + 2;
}

weir_status weir_stack_lay_out(weir_stack *stack, uint32_t processes, weir_message *message) {
  weir_status status = WEIR_OK;
  int64_t log_us = 0; /* the longest period of all logs, which are one */
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    if (weir_rule_takes_one(rule) && rule->period_us > log_us) log_us = rule->period_us;
  }
  for (size_t i = 0; i < stack->count && status == WEIR_OK; i++) {
    weir_rule *rule = &stack->rules[i];
    set_capacities(rule);
    rule->fullest_us = find_fullest_us(rule);
    rule->log_us = weir_rule_takes_one(rule) ? log_us : 0;
    rule->cell_us = (rule->period_us + rule->cells - 1) / rule->cells;
    choose_lanes(rule, processes, weir_rule_has_cells(rule) && !stack->count_all);
    write_tag(rule);
    status = check_room(rule, processes, message);
    for (size_t j = 0; j < i && status == WEIR_OK; j++)
      status = check_pair(stack, j, i, message);
  }
  return status;
}

/* Laid out anew for limits up to `most`; false: it cannot be. */
static bool lay_out_for(int64_t most, uint32_t processes, bool count_all, weir_rule *rule) {
  rule->most = most;
  if (rule->debt > most || weir_rule_measure(rule, NULL) != WEIR_OK) return false;
  choose_lanes(rule, processes, weir_rule_has_cells(rule) && !count_all);
  write_tag(rule);
  return check_room(rule, processes, NULL) == WEIR_OK;
}

int64_t weir_rule_most_for_both(const weir_stack *one, size_t i, uint32_t processes,
                                const weir_stack *other, size_t j, uint32_t other_processes) {
  weir_rule rules[] = {one->rules[i], other->rules[j]};
  int64_t most = largest_limit(&rules[0]), other_most = largest_limit(&rules[1]);
  if (other_most > most) most = other_most;
  bool share = lay_out_for(most, processes, one->count_all, &rules[0]) &&
               lay_out_for(most, other_processes, other->count_all, &rules[1]) &&
               strcmp(rules[0].tag, rules[1].tag) == 0;
  return share ? most : 0;
}

/* --- another limit ------------------------------------------------------------------------------
 */

size_t weir_stack_steered(const weir_stack *stack) {
  size_t steered = stack->count;
  for (size_t i = 0; i < stack->count; i++) {
    if (stack->rules[i].most == 0) continue;
    if (steered < stack->count) return stack->count;
    steered = i;
  }
  return steered;
}

static int64_t in_proportion(int64_t part, int64_t limit, int64_t whole) {
  return (int64_t)((weir_wide)part * limit / whole);
}

/* A full bucket lasts as long, but for what T and its burst are rounded by. So it still spans less than 2^51
 * units. A debt stays one, as without it there would be delays. */
void weir_rule_set_limit(weir_rule *rule, int64_t limit) {
  rule->debt = (int64_t)(((weir_wide)rule->debt * limit + rule->limit - 1) / rule->limit);
  if (weir_rule_moves_in_time(rule)) {
    rule->burst = in_proportion(rule->burst, limit, rule->limit);
    rule->reserve = (limit * rule->lease_us + rule->period_us - 1) / rule->period_us;
  }
  for (size_t i = 0; rule->classes_length > 0 && i < WEIR_CLASSES_MOST; i++)
    rule->class_capacities[i] = in_proportion(rule->class_capacities[i], limit, rule->limit);
  rule->limit = limit;
  if (weir_rule_is_shared(rule)) weir_shares_set_floors(rule);
  if (weir_rule_moves_in_time(rule)) rule->token_units = token_units_in(rule, rule->unit_bits);
  set_capacities(rule);
  if (rule->debt > rule->capacity) rule->debt = rule->capacity;
}

/* What a burst keeps beyond its reserve grows with the limit, but for the rounding of both. */
int64_t weir_rule_limit_least(const weir_rule *rule) {
  int64_t below = 0, least = rule->limit;
  if (weir_rule_is_shared(rule)) return weir_shares_limit_least(rule);
  if (!weir_rule_moves_in_time(rule)) return 1;
  while (least - below > 1) {
    int64_t middle = below + (least - below) / 2;
    weir_rule tried = *rule;
    weir_rule_set_limit(&tried, middle);
    *(tried.capacity >= 1 ? &least : &below) = middle;
  }
  return least;
}

void weir_stack_set_limit(const weir_stack *stack, int64_t limit, weir_stack *limited) {
  memcpy(limited, stack, offsetof(weir_stack, rules));
  memcpy(limited->rules, stack->rules, stack->count * sizeof stack->rules[0]);
  weir_rule_set_limit(&limited->rules[weir_stack_steered(stack)], limit);
}

int64_t weir_rule_capacity_most(const weir_rule *rule) {
  if (rule->most == 0) return rule->capacity;
  weir_rule largest = *rule;
  weir_rule_set_limit(&largest, rule->most);
  return largest.capacity;
}

/* --- the rules of an outage ---------------------------------------------------------------------
 */

int weir_rule_parts(const weir_rule *rule) {
  int parts = WEIR_CONTINUED_PARTS;
  while (rule->limit > WEIR_COUNT_LIMIT_MOST / parts)
    parts /= 2;
  return parts;
}

/* What a process may admit of its share of a limit is seldom whole, so limits and costs are counted
 * in parts. A bucket's limit is 10^9 at the most: below 2^40 in parts. */
void weir_stack_continue(const weir_stack *rules, weir_stack *continued) {
  memcpy(continued, rules, offsetof(weir_stack, rules));
  memcpy(continued->rules, rules->rules, rules->count * sizeof rules->rules[0]);
  for (size_t i = 0; i < continued->count; i++) {
    weir_rule *rule = &continued->rules[i];
    int64_t limit = rule->limit, capacity = weir_rule_capacity(rule), debt = rule->debt;
    rule->lease_us = rule->reserve = rule->most = 0; /* no other process charges them */
    if (weir_rule_takes_one(rule)) weir_rule_count_entries(rule);

    /* A bucket in as many parts as leave a token 1024 units of time. The limit itself, of one part,
     * does. */
    for (rule->parts = weir_rule_parts(rule); rule->parts > 0; rule->parts /= 2) {
      rule->limit = limit * rule->parts;
      rule->debt = debt * rule->parts;
      if (!weir_rule_moves_in_time(rule)) break;
      rule->burst = capacity * rule->parts;
      if (weir_rule_measure(rule, NULL) == WEIR_OK) break;
    }

    for (size_t n = 0; n < WEIR_CLASSES_MOST; n++) {
      rule->percents[n] = 0;
      rule->class_capacities[n] *= rule->parts > 0 ? rule->parts : 1;
    }

    /* No other rule of the stack may have this one's tag; only this process reads their counts. */
    rule->name[0] = (char)('1' + i);
    rule->name[1] = '\0';
  }
  weir_stack_lay_out(continued, 1, NULL);
}

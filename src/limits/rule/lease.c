/* Leases: which rules can have one, and what a bucket keeps back for it.
 *
 * A process may charge more than it needs, and use the rest for as long as the lease says. A window
 * counts such a use where it was charged. A bucket drains meanwhile: what is used at the end of a
 * lease was charged when the bucket held up to r * lease less than it holds now, where r = L/W. So
 * everybody, with a lease or without, leaves that much of B alone:
 *
 *     B' = B - ceil(L * lease / W)
 *
 * A lease of a bucket is at most a quarter of what a full bucket takes to fill, so that the reserve
 * is at most a quarter of B, rounded up.
 */
#include <inttypes.h>

#include <weir/backend.h>
#include <weir/duration.h>

#include "rule/parse.h"

__extension__ typedef __int128 wide;

enum { SHARE_OF_FILL = 4 };

/* In whole milliseconds, as a rule can say it; 0: none is short enough. */
static int64_t longest_lease_us(const weir_rule *rule) {
  wide most_us = (wide)rule->burst * rule->period_us / (SHARE_OF_FILL * rule->limit);
  if (most_us > WEIR_LEASE_MOST_US) most_us = WEIR_LEASE_MOST_US;
  return (int64_t)most_us / WEIR_LEASE_LEAST_US * WEIR_LEASE_LEAST_US;
}

static weir_status refuse_long_lease(const weir_rule *rule, int64_t longest_us,
                                     weir_message *message) {
  char lease[WEIR_DURATION_BYTES];
  char longest[WEIR_DURATION_BYTES];
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

/* L * lease is below 2^50. The reserve is at most B/4, rounded up: lease <= B*W/4L. */
weir_status weir_rule_measure_lease(weir_rule *rule, weir_message *message) {
  if (rule->count_all) {
    weir_message_set(message, "lease= with count=all: accepted is count=admitted, or no lease=");
    return WEIR_BAD_RULE;
  }
  if (!weir_rule_moves_in_time(rule)) return WEIR_OK;
  int64_t longest_us = longest_lease_us(rule);
  if (rule->lease_us > longest_us) return refuse_long_lease(rule, longest_us, message);
  rule->reserve = (rule->limit * rule->lease_us + rule->period_us - 1) / rule->period_us;
  if (rule->burst > rule->reserve) return WEIR_OK;
  weir_message_set(message,
                   "a lease keeps back %" PRId64 " of burst=%" PRId64
                   ": accepted is a burst of %" PRId64 " or more, or no lease=",
                   rule->reserve, rule->burst, rule->reserve + 1);
  return WEIR_BAD_RULE;
}

weir_status weir_stack_check_leases(const weir_stack *stack, weir_message *message) {
  for (size_t i = 0; i < stack->count; i++) {
    if ((stack->rules[i].lease_us > 0) == (stack->rules[0].lease_us > 0)) continue;
    weir_message_set(message,
                     "rules 1 and %zu: accepted is lease= for every rule of a stack, or for none",
                     i + 1);
    return WEIR_BAD_RULE;
  }
  return WEIR_OK;
}

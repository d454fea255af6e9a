/* Buckets: the unit in which they count time.
 *
 * A token takes W/L, which is rarely a whole number of microseconds, so that it is rounded up: a
 * bucket never gives more than its rate. Units of 2^-k us make that exact enough. T >= 1024 of them
 * exceed the true W*2^k/L by less than one, so the rate falls short by less than 1/1024. k = 0, 10
 * or 20 and no more, so that most changes of a limit keep the unit and with it what is stored.
 *
 * A full bucket spans B*T units. With k = 0 that is under 400 days + 10^9 us < 2^45; otherwise T
 * with the k before was at most 1023, so T is at most 1023 * 1024, and B*T < 2^50. With the longest
 * wait on top (1800 s < 2^51 units) that is below 2^52, whose sums with a 2^52 are exact in
 * doubles.
 */
#include <inttypes.h>

#include <weir/backend.h>
#include <weir/duration.h>

#include "rule/parse.h"

__extension__ typedef __int128 wide;

enum { TOKEN_UNITS_LEAST = 1024, UNIT_BITS_STEP = 10, UNIT_BITS_MOST = 20 };

/* Does not overflow: the period is below 2^45, and 2^20 are tried only where the limit, 10^9 at the
 * most, is above the period. */
static int64_t token_units(const weir_rule *rule, int unit_bits) {
  return ((rule->period_us << unit_bits) + rule->limit - 1) / rule->limit;
}

static weir_status choose_unit(weir_rule *rule, weir_message *message) {
  rule->unit_bits = 0;
  while ((rule->token_units = token_units(rule, rule->unit_bits)) < TOKEN_UNITS_LEAST) {
    if (rule->unit_bits == UNIT_BITS_MOST) {
      char period[WEIR_DURATION_BYTES];
      int64_t most = ((rule->period_us << UNIT_BITS_MOST) - 1) / (TOKEN_UNITS_LEAST - 1);
      weir_duration_format(rule->period_us, period, sizeof period);
      weir_message_set(
          message, "%" PRId64 " per %s is too fast for %s: accepted are up to %" PRId64 " per %s",
          rule->limit, period, weir_rule_kind_name(rule->kind), most, period);
      return WEIR_BAD_RULE;
    }
    rule->unit_bits += UNIT_BITS_STEP;
  }
  return WEIR_OK;
}

/* The period is at most 400 days, so that a burst of L, and every queue of none, is in range. */
static weir_status check_span(const weir_rule *rule, weir_message *message) {
  wide most = (wide)WEIR_PERIOD_MOST_US * rule->limit / rule->period_us;
  if (rule->burst <= most) return WEIR_OK;
  char period[WEIR_DURATION_BYTES];
  weir_duration_format(rule->period_us, period, sizeof period);
  bool queue = weir_rule_gives_places(rule);
  weir_message_set(message,
                   "%s=%" PRId64 " at %" PRId64
                   " per %s takes more than 400d to %s: accepted are %d to %" PRId64,
                   queue ? "queue" : "burst", rule->burst - queue, rule->limit, period,
                   queue ? "drain" : "fill", queue ? 0 : 1, (int64_t)most - queue);
  return WEIR_BAD_RULE;
}

weir_status weir_bucket_measure(weir_rule *rule, weir_message *message) {
  if (rule->burst == 0) rule->burst = weir_rule_gives_places(rule) ? 1 : rule->limit;
  weir_status status = choose_unit(rule, message);
  return status == WEIR_OK ? check_span(rule, message) : status;
}

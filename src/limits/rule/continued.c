/* The rules of an outage: what a process may admit of its share of a limit is seldom whole, so limits
 * and costs are counted in parts. */
#include "rule/parse.h"

__extension__ typedef __int128 wide;

/* What bucket.c says of a full bucket with a unit below a microsecond. */
#define FULL_UNITS_MOST (INT64_C(1) << 50)

/* No other rule of the stack may have this one's tag; nobody else reads the store of these. */
static void name_it(weir_rule *rule, size_t i) {
  rule->name[0] = (char)('1' + i);
  rule->name[1] = '\0';
}

/* In as many parts as leave a token 1024 units of time. The limit itself, of one part, does. */
static void divide_bucket(weir_rule *rule, int64_t limit, int64_t capacity) {
  for (int parts = WEIR_CONTINUED_PARTS; parts > 0; parts /= 2) {
    rule->parts = parts;
    rule->limit = limit * parts;
    rule->burst = capacity * parts;
    if (weir_bucket_measure(rule, NULL) == WEIR_OK &&
        (wide)rule->burst * rule->token_units < FULL_UNITS_MOST)
      return;
  }
}

/* Limits are 10^9 at the most: below 2^40 in parts. */
void weir_stack_continue(const weir_stack *rules, weir_stack *continued) {
  *continued = *rules;
  for (size_t i = 0; i < continued->count; i++) {
    weir_rule *rule = &continued->rules[i];
    int64_t capacity = weir_rule_capacity(rule);
    rule->lease_us = rule->reserve = 0; /* nobody else charges them */
    if (weir_rule_takes_one(rule)) weir_rule_count_entries(rule);
    if (weir_rule_moves_in_time(rule))
      divide_bucket(rule, rule->limit, capacity);
    else
      rule->limit *= rule->parts = WEIR_CONTINUED_PARTS;
    name_it(rule, i);
  }
  weir_stack_lay_out(continued, 1, NULL);
}

#include "rule/rule.h"

#include <inttypes.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/duration.h>
#include <weir/word.h>

#include "rule/parse.h"

void weir_rule_list_kinds(unsigned set, char list[WEIR_RULE_LIST_BYTES]) {
  list[0] = '\0';
  for (unsigned kind = 0; set != 0; kind++) {
    if (!(set & 1U << kind)) continue;
    set &= ~(1U << kind);
    weir_word_list(list, WEIR_RULE_LIST_BYTES, weir_rule_kind_name((weir_rule_kind)kind), set == 0);
  }
}

/* A store URL in the place of a rule must not show its password. */
static bool may_be_a_name(weir_rule_piece word) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-";
  for (size_t i = 0; i < word.length; i++)
    if (strchr(letters, word.text[i]) == NULL) return false;
  return true;
}

static weir_status read_kind(weir_rule_piece word, weir_rule *rule, weir_message *message) {
  char accepted[WEIR_RULE_LIST_BYTES];
  const char *nearest = NULL;
  size_t distance = WEIR_WORD_FAR;
  for (unsigned kind = 0; kind < WEIR_RULE_KINDS; kind++) {
    weir_rule_kind tried = (weir_rule_kind)kind;
    if (weir_word_nearer(word.text, word.length, weir_rule_kind_name(tried), &distance))
      nearest = weir_rule_kind_name(tried);
    if (!weir_rule_piece_is(word, weir_rule_kind_name(tried))) continue;
    *rule = (weir_rule){.kind = tried, .cells = weir_rule_default_cells(tried)};
    return WEIR_OK;
  }
  weir_rule_list_kinds((1U << WEIR_RULE_KINDS) - 1, accepted);
  if (may_be_a_name(word))
    weir_message_set(message, "unknown algorithm \"%.*s\": accepted are %s%s%s",
                     WEIR_RULE_SHOW(word), accepted, nearest != NULL ? "; the nearest is " : "",
                     nearest != NULL ? nearest : "");
  else
    weir_message_set(message, "no algorithm that is known: accepted are %s", accepted);
  return WEIR_BAD_RULE;
}

static weir_status read_limit(weir_rule_piece word, weir_rule *rule, weir_message *message) {
  int64_t most = weir_rule_limit_most(rule->kind);
  rule->limit = weir_rule_number(word, most);
  if (rule->limit >= 1) return WEIR_OK;
  weir_message_set(message, "limit \"%.*s\" is not a whole number from 1 to %" PRId64,
                   WEIR_RULE_SHOW(word), most);
  return WEIR_BAD_RULE;
}

static weir_status read_period(weir_rule_piece word, weir_rule *rule, weir_message *message) {
  if (weir_duration_parse(word.text, word.length, &rule->period_us) &&
      rule->period_us >= WEIR_PERIOD_LEAST_US && rule->period_us <= WEIR_PERIOD_MOST_US)
    return WEIR_OK;
  weir_message_set(
      message,
      "period \"%.*s\" is not a duration from 1ms to 400d (a whole number and ms, s, m, h or d)",
      WEIR_RULE_SHOW(word));
  return WEIR_BAD_RULE;
}

/* "algorithm:limit/period" */
static weir_status read_head(weir_rule_piece head, weir_rule *rule, weir_message *message) {
  weir_rule_piece kind;
  weir_rule_piece limit;
  weir_rule_piece period = head;
  weir_rule_cut(&period, ':', &kind);
  weir_status status = read_kind(kind, rule, message);
  if (status != WEIR_OK) return status;
  if (!weir_rule_cut(&period, '/', &limit)) {
    weir_message_set(message, "\"%.*s\" lacks LIMIT/PERIOD: write %s:100/1m", WEIR_RULE_SHOW(head),
                     weir_rule_kind_name(rule->kind));
    return WEIR_BAD_RULE;
  }
  status = read_limit(limit, rule, message);
  return status == WEIR_OK ? read_period(period, rule, message) : status;
}

static weir_status read_rule(weir_rule_piece text, weir_rule *rule, weir_message *message) {
  weir_rule_piece rest = text;
  weir_rule_piece head;
  weir_rule_piece option;
  bool more = weir_rule_cut(&rest, ',', &head);
  weir_status status = read_head(head, rule, message);
  for (unsigned seen = 0; status == WEIR_OK && more;) {
    more = weir_rule_cut(&rest, ',', &option);
    status = weir_rule_read_option(option, &seen, rule, message);
  }
  if (status == WEIR_OK && weir_rule_moves_in_time(rule))
    status = weir_bucket_measure(rule, message);
  if (status == WEIR_OK && rule->lease_us > 0) status = weir_rule_measure_lease(rule, message);
  return status;
}

weir_status weir_stack_parse(const char *text, uint32_t processes, weir_stack *stack,
                             weir_message *message) {
  weir_rule_piece rest = {text, strlen(text)};
  weir_rule_piece one;
  *stack = (weir_stack){0};
  for (bool more = true; more;) {
    more = weir_rule_cut(&rest, ';', &one);
    if (stack->count == WEIR_RULES_MOST) {
      weir_message_set(message, "more than %d rules: accepted are 1 to %d", WEIR_RULES_MOST,
                       WEIR_RULES_MOST);
      return WEIR_BAD_RULE;
    }
    weir_rule *rule = &stack->rules[stack->count];
    weir_status status = read_rule(one, rule, message);
    if (status != WEIR_OK) {
      if (rule->cells > 0) /* the algorithm is known, so that this is a rule and nothing else */
        weir_message_prefix(message, "rule \"%.*s\": ", WEIR_RULE_SHOW(one));
      else
        weir_message_prefix(message, "rule %zu: ", stack->count + 1);
      return status;
    }
    stack->count++;
    stack->count_all = stack->count_all || rule->count_all;
  }
  weir_status status = weir_stack_check_leases(stack, message);
  return status == WEIR_OK ? weir_stack_lay_out(stack, processes, message) : status;
}

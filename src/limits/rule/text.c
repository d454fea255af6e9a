/* The way back: from a rule to its text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/duration.h>

#include "rule/parse.h"

/* Appends to what stands in `text`; its size is enough for every rule. */
static void append(char text[WEIR_RULE_TEXT_BYTES], const char *name, const char *value) {
  size_t used = strlen(text);
  snprintf(text + used, WEIR_RULE_TEXT_BYTES - used, "%s%s", name, value);
}

static void append_number(char text[WEIR_RULE_TEXT_BYTES], const char *name, int64_t value) {
  char number[24];
  snprintf(number, sizeof number, "%" PRId64, value);
  append(text, name, number);
}

void weir_rule_write(const weir_rule *rule, char text[WEIR_RULE_TEXT_BYTES]) {
  char duration[WEIR_DURATION_BYTES];
  text[0] = '\0';
  append(text, weir_rule_kind_name(rule->kind), ":");
  append_number(text, "", rule->limit);
  weir_duration_format(rule->period_us, duration, sizeof duration);
  append(text, "/", duration);
  bool queues = weir_rule_gives_places(rule);
  bool bursts = weir_rule_moves_in_time(rule) && !queues;
  if (rule->cells != weir_rule_default_cells(rule->kind))
    append_number(text, ",cells=", rule->cells);
  if (rule->strict) append(text, ",strict", "");
  if (bursts && rule->burst != rule->limit) append_number(text, ",burst=", rule->burst);
  if (queues && rule->burst != 1) append_number(text, ",queue=", rule->burst - 1);
  if (rule->count_all) append(text, ",count=all", "");
  weir_duration_format(rule->hold_us, duration, sizeof duration);
  if (rule->hold_us > 0) append(text, ",hold=", duration);
  weir_duration_format(rule->lease_us, duration, sizeof duration);
  if (rule->lease_us > 0) append(text, ",lease=", duration);
  if (rule->name[0] != '\0') append(text, ",name=", rule->name);
}

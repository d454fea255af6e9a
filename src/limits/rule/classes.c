/* Classes of requests: how far each may fill a rule. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/word.h>

#include "number.h"
#include "rule/kind.h"
#include "wide.h"

static bool next_class(const char **at, const weir_rule *rule, weir_part *next) {
  return rule->classes != NULL && weir_parts_next(at, rule->classes + rule->classes_length, next);
}

bool weir_classes_read(weir_rule *rule, const char *text, size_t length) {
  const char *at = text, *end = text + length;
  weir_part next;
  if (length == 0 || end[-1] == '|') return false;
  for (size_t count = 0; at < end; count++) {
    if (count == WEIR_CLASSES_MOST || !weir_parts_next(&at, end, &next) ||
        !weir_name_is_accepted(next.name, next.name_length, WEIR_NAME_MOST))
      return false;
    bool percent = next.value_length > 0 && next.value[next.value_length - 1] == '%';
    int64_t most = percent ? 100 : WEIR_COUNT_LIMIT_MOST;
    int64_t *part = &rule->class_capacities[count];
    if (!weir_number_read(next.value, next.value_length - percent, most, part) || *part < 1)
      return false;
    rule->percents[count] = percent ? (uint8_t)*part : 0;
  }
  rule->classes = text;
  rule->classes_length = length;
  return true;
}

void weir_classes_measure(weir_rule *rule, int64_t capacity) {
  for (size_t i = 0; i < WEIR_CLASSES_MOST; i++) {
    int64_t *part = &rule->class_capacities[i];
    if (rule->classes_length == 0)
      *part = capacity;
    else if (rule->percents[i] > 0)
      *part = (int64_t)((weir_wide)capacity * rule->percents[i] / 100);
    if (*part < 1) *part = 1;
  }
}

/* --- checked ------------------------------------------------------------------------------------
 */

/* Two percentages of a small limit may come to the same. */
static bool rises(const weir_rule *rule, size_t i) {
  const uint8_t *percents = rule->percents;
  if (percents[i] > 0 && percents[i - 1] > 0) return percents[i] > percents[i - 1];
  return rule->class_capacities[i] > rule->class_capacities[i - 1];
}

static bool is_twice(const weir_rule *rule, size_t i, const weir_part *named) {
  const char *at = rule->classes;
  weir_part before;
  for (size_t j = 0; j < i && next_class(&at, rule, &before); j++)
    if (weir_part_is_named(&before, named->name, named->name_length)) return true;
  return false;
}

static weir_status check_class(const weir_rule *rule, int64_t capacity, size_t i,
                               const weir_part *class, const weir_part *before,
                               weir_message *message) {
  int64_t part = rule->class_capacities[i];
  if (part > capacity) {
    weir_message_set(message,
                     "class %.*s has %" PRId64 " of %" PRId64
                     ", which is all that the rule admits at once: accepted are 1 to %" PRId64,
                     (int)class->name_length, class->name, part, capacity, capacity);
    return WEIR_BAD_RULE;
  }
  if (is_twice(rule, i, class)) {
    weir_message_set(message, "class %.*s is given twice", (int)class->name_length, class->name);
    return WEIR_BAD_RULE;
  }
  if (i == 0 || rises(rule, i)) return WEIR_OK;
  weir_message_set(message,
                   "class %.*s has no more than class %.*s before it: accepted are parts that rise",
                   (int)class->name_length, class->name, (int)before->name_length, before->name);
  return WEIR_BAD_RULE;
}

weir_status weir_classes_check(weir_rule *rule, int64_t capacity, weir_message *message) {
  const char *at = rule->classes;
  weir_part class, before = {0};
  weir_status status = WEIR_OK;
  weir_classes_measure(rule, capacity);
  for (size_t i = 0; status == WEIR_OK && next_class(&at, rule, &class); i++) {
    status = check_class(rule, capacity, i, &class, &before, message);
    before = class;
  }
  if (status != WEIR_OK || !rule->count_all) return status;
  weir_message_set(message,
                   "classes= with count=all, by which denied requests of one class would fill what "
                   "is kept for others: accepted is count=admitted, or no classes=");
  return WEIR_BAD_RULE;
}

int weir_classes_write(const weir_rule *rule, char *text, size_t size) {
  const char *at = rule->classes;
  int used = 0;
  weir_part class;
  for (size_t i = 0; next_class(&at, rule, &class); i++) {
    bool percent = rule->percents[i] > 0;
    used += snprintf(text + used, size - (size_t)used, "%s%.*s:%" PRId64 "%s", i == 0 ? "" : "|",
                     (int)class.name_length, class.name,
                     percent ? rule->percents[i] : rule->class_capacities[i], percent ? "%" : "");
  }
  return used;
}

/* --- of a stack ---------------------------------------------------------------------------------
 */

/* The same names in the same order. */
static bool are_same(const weir_rule *one, const weir_rule *other) {
  const char *at = one->classes, *other_at = other->classes;
  weir_part class, of_other;
  for (;;) {
    bool more = next_class(&at, one, &class);
    if (more != next_class(&other_at, other, &of_other)) return false;
    if (!more) return true;
    if (!weir_part_is_named(&class, of_other.name, of_other.name_length)) return false;
  }
}

weir_status weir_classes_of_stack(weir_stack *stack, weir_message *message) {
  const weir_rule *first = NULL;
  for (size_t i = 0; i < stack->count; i++) {
    const weir_rule *rule = &stack->rules[i];
    weir_part class;
    if (rule->classes_length == 0 || (first != NULL && are_same(first, rule))) continue;
    if (first != NULL) {
      weir_message_set(
          message,
          "rules %zu and %zu have other classes: accepted are the same names in the same "
          "order in each rule that has some",
          stack->classed + 1, i + 1);
      return WEIR_BAD_RULE;
    }
    first = rule;
    stack->classed = i;
    for (const char *at = rule->classes; next_class(&at, rule, &class);)
      stack->class_count++;
  }
  return WEIR_OK;
}

unsigned weir_stack_find_class(const weir_stack *stack, const char *name) {
  const weir_rule *rule = &stack->rules[stack->classed];
  size_t length = strlen(name);
  const char *at = rule->classes;
  weir_part class;
  for (unsigned i = 1; next_class(&at, rule, &class); i++)
    if (weir_part_is_named(&class, name, length)) return i;
  return 0;
}

bool weir_stack_read_class(const weir_stack *stack, size_t index, char name[WEIR_NAME_MOST + 1]) {
  const weir_rule *rule = &stack->rules[stack->classed];
  const char *at = rule->classes;
  weir_part class;
  if (index >= stack->class_count) return false;
  for (size_t i = 0; i <= index; i++)
    next_class(&at, rule, &class);
  snprintf(name, WEIR_NAME_MOST + 1, "%.*s", (int)class.name_length, class.name);
  return true;
}

void weir_stack_list_classes(const weir_stack *stack, char list[WEIR_CLASS_LIST_BYTES]) {
  char name[WEIR_NAME_MOST + 1];
  list[0] = '\0';
  for (size_t i = 0; weir_stack_read_class(stack, i, name); i++)
    weir_word_list(list, WEIR_CLASS_LIST_BYTES, name, i + 1 == stack->class_count);
}

/* Mistakes about classes. */
#include "mutants.h"

static void judge_by_all(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].class_capacities[0] = stack->rules[0].capacity;
}

static void judge_none_by_part(weir_stack *stack, weir_settings *settings) {
  (void)settings;
  stack->rules[0].capacity = stack->rules[0].class_capacities[1];
  stack->rules[0].upper = weir_rule_upper_of(&stack->rules[0], stack->rules[0].capacity);
}

const struct mutant class_mutants[] = {
    {.name = "judges a low class by all of the limit",
     .scope = "classes, fixed window",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges a low class by all of a quota",
     .scope = "classes, quota",
     .killed_by = CHECK_BOUND,
     .misconfigure = judge_by_all},
    {.name = "judges who says no class by a class",
     .scope = "classes, fixed window",
     .killed_by = CHECK_DENIAL,
     .misconfigure = judge_none_by_part},
};
const size_t class_mutant_count = sizeof class_mutants / sizeof class_mutants[0];

/* Mistakes about what a store refuses by a bound. All is on a store that keeps bounds. */
#include "mutants.h"

/* As if the answer were the total that the addition would have come to. */
static void take_for_added(weir_operation *operation) {
  if (operation->outcome != WEIR_FULL) return;
  operation->outcome = WEIR_DONE;
  operation->value += operation->delta;
}

/* As if it were cut at the bound. */
static void take_for_cut(weir_operation *operation) {
  if (operation->outcome != WEIR_FULL) return;
  operation->outcome = WEIR_DONE;
  operation->value = operation->floor - 1;
}

/* What was known before says that nothing fits, and is believed in the place of the answer. */
static void believe_the_bound(weir_operation *operation) {
  if (operation->outcome == WEIR_FULL) operation->value = operation->floor - 1;
}

/* What is there is not looked at: as of an empty key. */
static void take_for_nothing(weir_operation *operation) {
  if (operation->outcome != WEIR_FULL) return;
  operation->outcome = WEIR_DONE;
  operation->value = operation->delta;
}

const struct mutant bound_mutants[] = {
    {.name = "takes what was refused for an addition",
     .scope = "fixed window",
     .killed_by = CHECK_FORGOTTEN,
     .bounded = true,
     .distort = take_for_added},
    {.name = "takes what was refused for one up to the bound",
     .scope = "fixed window",
     .killed_by = CHECK_FORGOTTEN,
     .bounded = true,
     .distort = take_for_cut},
    {.name = "denies by the bound in the place of the answer",
     .scope = "fixed window, groups",
     .killed_by = CHECK_DENIAL,
     .bounded = true,
     .distort = believe_the_bound},
    {.name = "takes what a quota refused for its first charge",
     .scope = "quota",
     .killed_by = CHECK_OVERLAP,
     .bounded = true,
     .distort = take_for_nothing},
};
const size_t bound_mutant_count = sizeof bound_mutants / sizeof bound_mutants[0];

/* Mistakes about what a store refuses by a bound. All is on a store that keeps bounds.
 *
 * A bound that is off by one, of another lane or kept near a cell's end decides nothing: weir_model --contrary
 * has all of them too low, --mixed and --withdrawn too high. What they cost is in tests/limiter/test_bounds.c; that
 * nothing is sent twice, and no node taken for another, in tests/redis/test_form.c. */
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

/* What a node has added that keeps no bounds, as if the bound had been kept. */
static void believe_it_was_kept(weir_operation *operation) {
  if (operation->kind == WEIR_ADD && operation->floor > 0 && operation->outcome == WEIR_DONE &&
      operation->value >= operation->floor)
    operation->value = operation->floor - 1;
}

/* What is held is there, and counts, however much it is. */
static void bound_what_is_held(const struct model *model, const struct client *client,
                               weir_operation *operation) {
  if (client->machine->frame.phase == WEIR_PHASE_RENEW && operation->kind == WEIR_ADD)
    operation->floor = model->stack.rules[0].limit + 1;
}

/* However often it is refused. */
static weir_turn bound_for_ever(weir_machine *machine, int64_t now_us, bool late,
                                weir_operation *operations) {
  machine->frame.refusals = 0;
  return weir_machine_resume(machine, now_us, late, operations);
}

/* What was refused is denied by what was known of other cells. */
static weir_turn deny_by_what_was_known(weir_machine *machine, int64_t now_us, bool late,
                                        weir_operation *operations) {
  machine->frame.believes_firm = false;
  return weir_machine_resume(machine, now_us, late, operations);
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
    {.name = "takes what no bound has stopped for what is within it",
     .scope = "fixed window",
     .killed_by = CHECK_BOUND,
     .bounded = true,
     .ignores = true,
     .distort = believe_it_was_kept},
    {.name = "adds up to the bound",
     .scope = "fixed window",
     .killed_by = CHECK_FORGOTTEN,
     .bounded = true,
     .cuts = true},
    {.name = "gives what is held a bound",
     .scope = "in flight, N=1, one leaves, one is renewed",
     .killed_by = CHECK_FORGOTTEN,
     .bounded = true,
     .rewrite = bound_what_is_held},
    {.name = "charges with a bound for ever",
     .scope = "requests with limits, fixed window",
     .killed_by = CHECK_ENDLESS,
     .bounded = true,
     .contrary = true,
     .resume = bound_for_ever},
    {.name = "denies what was refused by firm cells, without a look",
     .scope = "N=4, strict, firm cells",
     .killed_by = CHECK_DENIAL,
     .bounded = true,
     .resume = deny_by_what_was_known},
    {.name = "subtracts nothing where less is there",
     .scope = "shared, settled beside what is denied",
     .killed_by = CHECK_LEAK,
     .bounded = true,
     .spares = true},
    {.name = "refuses what should make a key with its seed",
     .scope = "quota, flush",
     .killed_by = CHECK_OVERLAP,
     .bounded = true,
     .refuses_seeds = true},
    {.name = "takes a key of 0 for none",
     .scope = "shared, settled beside what is denied",
     .killed_by = CHECK_LEAK,
     .bounded = true,
     .spends = true},
};
const size_t bound_mutant_count = sizeof bound_mutants / sizeof bound_mutants[0];

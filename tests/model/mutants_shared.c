/* Mistakes of shared windows. Most are in the text of the machine: mutate.py. */
#include "algorithm/method.h"
#include "mutants.h"

extern const weir_method forgets_the_floors_of_this_cell,
    forgets_the_floors_on_their_way_to_the_last_cell, forgets_the_floors_of_later_cells,
    does_not_look_at_the_cell_ahead, moves_to_what_is_lent_without_a_look,
    has_floors_that_come_to_more_than_Cf, takes_a_cell_for_final_at_its_end,
    lets_the_far_cell_out_at_once, does_not_count_in_the_pool_what_floors_take,
    takes_out_of_B_what_is_in_F, finds_a_floor_by_a_count_that_it_remembers,
    settles_down_in_the_cell_of_now, makes_a_level_that_is_there, counts_who_has_a_mark;

/* A charge adds first, to one count after another. */
static size_t reads_first(const weir_machine *machine, size_t landed) {
  size_t adds = 0, count = machine->frame.operation_count;
  if (machine->frame.phase != WEIR_PHASE_CHARGE) return landed;
  while (adds < count && machine->frame.operations[adds].kind == WEIR_ADD)
    adds++;
  return (landed + adds) % count;
}

const struct mutant shared_mutants[] = {
    {.name = "forgets the floors of this cell",
     .scope = "shared, a cell ends",
     .killed_by = CHECK_BOUND,
     .method = &forgets_the_floors_of_this_cell},
    {.name = "forgets floors on their way to the last cell",
     .scope = "shared, a cell ends",
     .killed_by = CHECK_BOUND,
     .method = &forgets_the_floors_on_their_way_to_the_last_cell},
    {.name = "takes a cell for final at its end",
     .scope = "shared, a cell ends",
     .killed_by = CHECK_BOUND,
     .method = &takes_a_cell_for_final_at_its_end},
    {.name = "lets the far cell out at once",
     .scope = "shared, a cell ends",
     .killed_by = CHECK_BOUND,
     .method = &lets_the_far_cell_out_at_once},
    {.name = "forgets the floors of later cells",
     .scope = "shared, later cells",
     .killed_by = CHECK_BOUND,
     .method = &forgets_the_floors_of_later_cells},
    {.name = "does not look at the cell ahead",
     .scope = "shared, the cell ahead",
     .killed_by = CHECK_BOUND,
     .method = &does_not_look_at_the_cell_ahead},
    {.name = "reads before it adds",
     .scope = "shared, the cell ahead",
     .killed_by = CHECK_BOUND,
     .reorder = reads_first},
    {.name = "moves to what is lent without a look",
     .scope = "shared, one tenant twice",
     .killed_by = CHECK_BOUND,
     .method = &moves_to_what_is_lent_without_a_look},
    {.name = "finds a floor by a count that it remembers",
     .scope = "shared, one tenant twice",
     .killed_by = CHECK_BOUND,
     .method = &finds_a_floor_by_a_count_that_it_remembers},
    {.name = "has floors that come to more than Cf",
     .scope = "shared, all floors",
     .killed_by = CHECK_BOUND,
     .method = &has_floors_that_come_to_more_than_Cf},
    {.name = "does not count in the pool what floors take",
     .scope = "shared, a cell is final",
     .killed_by = CHECK_BOUND,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .method = &does_not_count_in_the_pool_what_floors_take},
    {.name = "takes out of B what is in F",
     .scope = "shared, late answers",
     .killed_by = CHECK_BOUND,
     .method = &takes_out_of_B_what_is_in_F},
    {.name = "admits by a late answer, of a shared window",
     .scope = "shared, overdue operations",
     .killed_by = CHECK_BOUND,
     .never_late = true},
    {.name = "settles down in the cell of now",
     .scope = "shared, settled",
     .killed_by = CHECK_LEAK,
     .unchecked = 1U << CHECK_FORGOTTEN,
     .method = &settles_down_in_the_cell_of_now},
    {.name = "makes a level that is there",
     .scope = "shared, two that borrow",
     .killed_by = CHECK_ONCE,
     .method = &makes_a_level_that_is_there},
    {.name = "counts who has a mark",
     .scope = "shared, others",
     .killed_by = CHECK_ONCE,
     .method = &counts_who_has_a_mark},
};
const size_t shared_mutant_count = sizeof shared_mutants / sizeof shared_mutants[0];

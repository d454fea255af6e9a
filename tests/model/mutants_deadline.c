/* Mistakes about the deadlines of others. */
#include "mutants.h"

/* A cell would be final, and a key dead, as if others had no more time than this process. */
static void by_its_own_deadline(weir_stack *stack, weir_settings *settings) {
  (void)stack;
  settings->final_us = settings->ahead_us;
}

/* As if a stamp were as old as the reading that it is held against. */
static void by_clocks_alone(weir_stack *stack, weir_settings *settings) {
  (void)stack;
  settings->final_us = 2 * SKEW_US;
}

const struct mutant deadline_mutants[] = {
    {.name = "takes a cell for final by its own deadline",
     .scope = "N=4, strict, cached cells, deadlines differ",
     .killed_by = CHECK_BOUND,
     .misconfigure = by_its_own_deadline},
    {.name = "keeps a bucket's key for as long as its own deadline needs",
     .scope = "token bucket, RAISE, renewals, deadlines differ",
     .killed_by = CHECK_TTL,
     .misconfigure = by_its_own_deadline},
    {.name = "takes for far what was charged since its stamp",
     .scope = "token bucket, SWAP, longest waits, deadlines differ",
     .killed_by = CHECK_BOUND,
     .misconfigure = by_clocks_alone},
};
const size_t deadline_mutant_count = sizeof deadline_mutants / sizeof deadline_mutants[0];

/* Mistakes of clients that follow a slot from node to node. */
#include "mutants.h"

const struct mutant cluster_mutants[] = {
    {.name = "reads no more behind a redirected addition",
     .scope = "N=1, strict, a slot moves",
     .killed_by = CHECK_BOUND,
     .keeps_reads = true},
    {.name = "reads again where the addition went",
     .scope = "N=1, strict, a slot moves",
     .killed_by = CHECK_BOUND,
     .reads_along = true},
    {.name = "sends all again although the sum was executed",
     .scope = "fixed window, a slot moves",
     .killed_by = CHECK_DENIAL,
     .resends_whole = true},
    {.name = "sends a sum again that got no answer, in a cluster",
     .scope = "fixed window, a slot moves, answer lost",
     .killed_by = CHECK_FORGOTTEN,
     .unchecked = 1U << CHECK_HOPS, /* it meets the slot once more on its second way */
     .resends = true},
    {.name = "takes ASK for MOVED",
     .scope = "fixed window, a slot moves",
     .killed_by = CHECK_HOPS,
     .learns_ask = true},
    {.name = "one ASKING for all commands of an operation",
     .scope = "fixed window, a slot moves",
     .killed_by = CHECK_HOPS,
     .asks_once = true},
};
const size_t cluster_mutant_count = sizeof cluster_mutants / sizeof cluster_mutants[0];

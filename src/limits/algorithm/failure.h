/* Inside a machine: rounds that failed, charges that are undone, and requests that are alone in
 * their group. machine.c calls these where its own way ends. */
#ifndef WEIR_ALGORITHM_FAILURE_H
#define WEIR_ALGORITHM_FAILURE_H

#include "algorithm/algorithm.h"

/* Begins a phase, with no round of it planned yet. */
void weir_machine_enter(weir_machine *machine, weir_phase phase);

/* What an outcome that is no answer means for the requests. Notes it where it shows that the store
 * is away: then a policy may answer in its stead. */
weir_status weir_machine_failure(weir_machine *machine, const weir_operation *operation);

/* The status of a round that came late. What came after the deadline admits nobody, and what was
 * not sent by then had no time, unless the server is away. Where the store did answer, and there
 * were pauses, it was others who took that time. */
weir_status weir_machine_when_late(const weir_machine *machine, weir_status status);

/* Settles all that is open with a status; the group is done. */
void weir_machine_fail(weir_machine *machine, weir_status status);

/* The same for the one request of a group that others cannot join. */
void weir_machine_settle_alone(weir_machine *machine, weir_status status);

/* The charge is lost, but what the store confirmed of it counts: it goes back before anyone is
 * told. */
void weir_machine_undo(weir_machine *machine, weir_status status);

/* It has gone back. Where only others were in the way, the group tries once more after a pause. */
void weir_machine_finish_undo(weir_machine *machine);

/* A take-back failed. A denial stands whether or not its cost went back; a lost charge is unknown
 * if its cost did not. */
void weir_machine_end_take_back(weir_machine *machine, weir_status status);

/* A refund has looked: what goes back of it, and whether that much is charged at all. */
void weir_machine_choose_refund(weir_machine *machine);
void weir_machine_settle_refund(weir_machine *machine, weir_status status);

#endif

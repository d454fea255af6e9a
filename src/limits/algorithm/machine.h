/* Inside a machine: what machine.c, which leads a group through its phases, asks of the files that
 * decide, give back and end. */
#ifndef WEIR_ALGORITHM_MACHINE_H
#define WEIR_ALGORITHM_MACHINE_H

#include "algorithm/algorithm.h"

/* A phase of a course. Its operations are planned round after round, until no rule wants more. PAUSE plans
 * nothing, and has a round alone: it is over. */
typedef struct weir_phase_row {
  /* What one rule wants of the next round. */
  void (*plan)(weir_machine *machine, weir_rule_state *r);

  /* A round has its answers, of which `status` is the worst; `late`: behind the deadline. It stays in the
   * phase where it enters no other. */
  void (*round)(weir_machine *machine, weir_status status, bool late);

  /* No rule wants more: enters the next phase. */
  void (*end)(weir_machine *machine);
} weir_phase_row;

/* The way of one kind of group, from its first phase to DONE. */
typedef struct weir_course {
  weir_phase first;
  bool decides; /* its requests are admitted or denied: a charge of them can have a bound */
  bool settles, refunds; /* those of weir_frame */

  /* Enters a later phase where the first can be left out; or NULL. */
  void (*begin)(weir_machine *machine);

  /* It has failed: makes of its memo what is still believed. */
  void (*doubt)(weir_machine *machine);
  weir_phase_row rows[WEIR_PHASE_DONE];
} weir_course;

/* --- decide.c: which requests fit, and what each is told ---------------------------------------
 */

/* After a look: settles peeks, and takes that do not fit. True when some take is left to be
 * charged. */
bool weir_decide_look(weir_machine *machine);

/* After `rules` (one bit each) were charged for every open take: settles takes that do not fit, and
 * where this stage is the last all that are left; what goes back is in each rule state's `unused`.
 * True when something was denied. Unless `final`, denied takes stay open. */
bool weir_decide_stage(weir_machine *machine, unsigned rules, bool last, bool final);

/* Whether what a denied request was charged stays, as count=all has it: until the count is about to
 * overflow. */
bool weir_decide_keeps(weir_rule_state *r);

/* Requests of this one's class and of lower ones look before they charge. */
static inline void weir_must_peek(const weir_frame *frame, const weir_ask *ask) {
  unsigned rank = weir_ask_rank(ask);
  if (frame->memo->must_peek < rank) frame->memo->must_peek = (uint8_t)rank;
}

/* What was charged or went back may not have: all look first. */
static inline void weir_machine_is_unsure(weir_machine *machine) {
  machine->frame.memo->unsure = true;
  machine->frame.memo->must_peek = WEIR_RANK_MOST;
}

/* One answer out of what all rules that take part say: those with a cost. `denying`: one bit for each
 * that denies. */
weir_decision weir_decide_speak(const weir_stack *stack, const weir_decision figures[],
                                const weir_claim *request, unsigned denying);

/* A member that was admitted no longer is: what goes back is in each rule state's `unused`. */
void weir_decide_give_up(weir_machine *machine, weir_claim *request);

/* Settles peeks that waited for takes before them. */
void weir_decide_rest(weir_machine *machine);

/* Settles as denied what is still open. */
void weir_decide_denied(weir_machine *machine);

/* What a settlement is told: as a request that was admitted behind it. */
void weir_decide_settled(weir_machine *machine, weir_claim *request);

/* Whether the store has answered it: with what is there, what it wrote, or that it did not. */
static inline bool weir_is_answered(const weir_operation *operation) {
  const unsigned answers =
      1U << WEIR_DONE | 1U << WEIR_ABSENT | 1U << WEIR_CONFLICT | 1U << WEIR_FULL;
  return answers >> operation->outcome & 1U;
}

/* What an outcome that is no answer means for the requests. Notes it where it shows that the store
 * is away: then a policy may answer in its stead. */
weir_status weir_machine_failure(weir_machine *machine, const weir_operation *operation);

/* The status of a round that came late. What came after the deadline admits no request, and what was
 * not sent by then had no time, unless the server is away. Where the store did answer, and there
 * were pauses, it was others who took that time. */
weir_status weir_machine_when_late(const weir_machine *machine, weir_status status);

/* Fails a group whose round brought no answer, or brought it late: the round of phases that charge nothing. */
void weir_machine_answered(weir_machine *machine, weir_status status, bool late);

/* Settles all that is open with a status; the group is done. */
void weir_machine_fail(weir_machine *machine, weir_status status);

/* weir_course.doubt of most: the memo is believed no more, but for what is expected and that others swap
 * the key. What was last known stays readable for weir_view_known(). */
void weir_machine_doubt(weir_machine *machine);

/* The same for the one request of a group that others cannot join. */
void weir_machine_settle_alone(weir_machine *machine, weir_status status);

/* --- settle.c: what was charged earlier goes back, or is settled -------------------------------
 */

extern const weir_course weir_refund_course, weir_settle_course;

#endif

#include "redis/conclude.h"

#include "redis/nodes.h"
#include "redis/refusal.h"

/* Notes that stay for rounds.c, which makes them 0. */
static const uint64_t notes_kept = WEIR_NOTE_SHORT | WEIR_NOTE_FOREIGN | WEIR_NOTE_BARRED |
                                   (uint64_t)(WEIR_REDIS_SLOTS - 1) << WEIR_NOTE_SLOT_SHIFT;

/* What an operation knows when it goes again as a whole. */
static const uint64_t notes_again =
    WEIR_NOTES_REDIRECTED | WEIR_NOTE_MADE | WEIR_NOTE_SEEN | WEIR_NOTE_NODE;

static bool is_redirected(const weir_operation *operation) {
  return (operation->version_out & WEIR_NOTES_REDIRECTED) != 0;
}

/* Nothing that counts was executed. That SET has created the key stays true. */
static void go_again(weir_operation *operation) {
  operation->outcome = WEIR_PENDING;
  operation->version_out &= notes_kept | notes_again;
}

/* After the first attempt. A refused SET is of no consequence where the key was there. */
static void conclude_first(weir_operation *operation) {
  bool get = operation->kind == WEIR_GET;
  if (is_redirected(operation) && (get || operation->outcome == WEIR_PENDING)) {
    go_again(operation);
    return;
  }
  if (get) { /* nothing to mend; should it go again, then in the same way */
    operation->version_out &= notes_kept;
    return;
  }
  int64_t own = operation->kind == WEIR_SUB ? -operation->delta : operation->delta;
  bool summed = operation->outcome == WEIR_DONE || operation->outcome == WEIR_ABSENT;
  bool created = summed && operation->value == own;          /* or it stood at 0 */
  bool asks = weir_redis_has_note(operation, WEIR_NOTE_ASK); /* PTTL was redirected */
  if (summed && (weir_redis_has_note(operation, WEIR_NOTE_BARE) || asks)) {
    if (created) operation->version_out |= WEIR_NOTE_OWED;
    operation->outcome = WEIR_PENDING; /* the second attempt asks, or mends the key */
    return;
  }
  if (created && weir_redis_has_note(operation, WEIR_NOTE_SEEN)) {
    operation->version_out |= WEIR_NOTE_ASK;
    operation->outcome = WEIR_PENDING;
    return;
  }
  if (summed && weir_redis_has_note(operation, WEIR_NOTE_RENEW)) {
    operation->outcome = WEIR_PENDING;
    return;
  }
  if (summed && weir_redis_has_note(operation, WEIR_NOTE_DOUBT)) operation->outcome = WEIR_UNKNOWN;
  operation->version_out &= notes_kept;
}

/* For a sum that is in doubt since an attempt whose message is gone: only the cause was kept. */
static void explain_doubt(const weir_operation *operation, weir_message *message) {
  bool unseeded = weir_redis_has_note(operation, WEIR_NOTE_UNSEEDED);
  if (!unseeded && message->text[0] != '\0') return;
  unsigned cause = (unsigned)(operation->version_out >> WEIR_NOTE_CAUSE_SHIFT) - 1;
  weir_redis_step step = unseeded ? WEIR_STEP_SET_SEED : WEIR_STEP_PEXPIRE;
  weir_redis_refusal_explain(cause, weir_redis_commands[step].name, operation, NULL, message);
}

/* What the first attempt wrote stands, so a refusal since leaves doubt. */
static void conclude_sum(weir_operation *operation, bool absent, bool doubt,
                         weir_message *message) {
  operation->outcome = absent ? WEIR_ABSENT : WEIR_DONE;
  if (doubt) {
    operation->outcome = WEIR_UNKNOWN;
    explain_doubt(operation, message);
  }
  operation->version_out &= notes_kept;
}

static bool is_sub_with(const weir_operation *operation, uint64_t notes) {
  return operation->kind == WEIR_SUB && (operation->version_out & notes) != 0;
}

/* After PTTL in an attempt of its own. */
static void conclude_question(weir_operation *operation, weir_message *message) {
  operation->outcome = WEIR_PENDING;
  if (is_redirected(operation)) return;
  operation->version_out &= ~(uint64_t)WEIR_NOTE_ASK;
  if ((operation->version_out & (WEIR_NOTE_BARE | WEIR_NOTE_RENEW)) != 0)
    return; /* the next attempt mends the key */
  conclude_sum(operation, is_sub_with(operation, WEIR_NOTE_MADE),
               weir_redis_has_note(operation, WEIR_NOTE_DOUBT), message);
}

/* After the repair. */
static void conclude_repair(weir_operation *operation, weir_message *message) {
  bool added = operation->outcome == WEIR_DONE; /* what was owed */
  if (is_redirected(operation) && operation->outcome != WEIR_UNKNOWN) {
    if (added) { /* the TTL is missing still */
      operation->version_out &= ~(uint64_t)WEIR_NOTE_OWED;
      operation->version_out |= WEIR_NOTE_MADE;
    }
    operation->outcome = WEIR_PENDING;
    return;
  }
  conclude_sum(operation, is_sub_with(operation, WEIR_NOTE_OWED | WEIR_NOTE_MADE),
               (operation->version_out & (WEIR_NOTE_UNSEEDED | WEIR_NOTE_DOUBT)) != 0, message);
}

void weir_redis_conclude(weir_wire_command *command, const weir_redis_plan *plan,
                         weir_message *message) {
  weir_operation *operation = &command->operation;
  if ((command->attempt & WEIR_ATTEMPT_FOLLOWS) == 0)
    conclude_first(operation);
  else if (plan == &weir_redis_plans[WEIR_PLAN_ASK])
    conclude_question(operation, message);
  else
    conclude_repair(operation, message);
}

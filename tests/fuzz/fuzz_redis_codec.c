/* Any bytes as the replies to one operation: nothing is read beyond them, nothing is left behind,
 * what they end in is an outcome that the operation may have, and cutting them changes nothing.
 *
 * Input: the operation's letter; a byte of flags (a digit or : ; < = > ?), 1 for an ADD that
 * refreshes, 2 for a key that RAISE made, 4 for one lately seen with a TTL (of a GET: to be read
 * with care; of a sum with 8: it goes by INCREX), 8 for the question or repair that may follow a sum,
 * or for two GETs that are one MGET; a byte that is the delta less 1,
 * or what is known by the time of the question (enum weir_redis_fact); a digit, 1 for an ADD with
 * a seed, 2 for one with a bound; a newline (not looked at); the replies. */
#include "fuzz/operation.h"
#include "redis/codec.h"
#include "redis/reply.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { HEADER_BYTES = 5, REFRESHES = 1, RAISED = 2, SEEN = 4, FOLLOWS = 8 };

static bool is_plain_sum(const weir_operation *operation) {
  return operation->kind == WEIR_ADD || (operation->kind == WEIR_SUB && !operation->raised);
}

/* Everything but its parser. */
static weir_wire_command command_of(const unsigned char *header) {
  weir_wire_command command = {.operation = {.kind = kind_of(header[0]),
                                             .refresh = (header[1] & REFRESHES) != 0,
                                             .raised = (header[1] & RAISED) != 0,
                                             .key = "weir:{k}",
                                             .key_length = 8,
                                             .delta = 1 + header[2],
                                             .seed = header[3] % 2 * 40,
                                             .floor = header[3] / 2 % 2 * 300,
                                             .ttl_us = 1000}};
  weir_operation *operation = &command.operation;
  if (operation->kind == WEIR_SWAP) operation->kind = WEIR_GET;
  operation->raised &= operation->kind == WEIR_GET || operation->kind == WEIR_SUB;
  weir_redis_attempt attempt = {.stage = WEIR_STAGE_FIRST};
  bool bounded = (header[1] & SEEN) != 0 && (header[1] & FOLLOWS) != 0;
  if (bounded && weir_redis_may_be_bounded(operation)) {
    attempt.facts = WEIR_FACT_BOUNDED;
  } else if (is_plain_sum(operation) && (header[1] & FOLLOWS) != 0) {
    attempt.facts = header[2] % WEIR_FACT_PAID;
    attempt.cause = 1;
    attempt.stage = (attempt.facts & WEIR_FACT_BARE) != 0 ? WEIR_STAGE_MEND : WEIR_STAGE_ASK_TTL;
  } else if (operation->kind == WEIR_GET && !operation->raised && (header[1] & SEEN) != 0) {
    attempt.facts = WEIR_FACT_SHORT;
  } else if (weir_redis_may_be_seen(operation) && (header[1] & SEEN) != 0) {
    attempt.facts = WEIR_FACT_SEEN;
  }
  attempt.plan = (uint8_t)weir_redis_plan_of(operation, &attempt);
  memcpy(command.notes, &attempt, sizeof attempt);
  return command;
}

static weir_redis_attempt attempt_of(const weir_wire_command *command) {
  weir_redis_attempt attempt;
  memcpy(&attempt, command->notes, sizeof attempt);
  return attempt;
}

static bool may_be_mended(const weir_wire_command *command) {
  return is_plain_sum(&command->operation) && attempt_of(command).stage != WEIR_STAGE_MEND;
}

static void check_outcome(const weir_wire_command *command, bool mendable) {
  static const unsigned allowed[] = {
      [WEIR_ADD] = 1 << WEIR_DONE | 1 << WEIR_FULL,
      [WEIR_SUB] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_GET] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_CREATE] = 1 << WEIR_DONE | 1 << WEIR_CONFLICT,
      [WEIR_RAISE] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_PUT] = 1 << WEIR_DONE,
      [WEIR_DROP] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
  };
  const weir_operation *operation = &command->operation;
  unsigned outcomes = allowed[operation->kind] | 1 << WEIR_REFUSED | 1 << WEIR_UNKNOWN;
  if (mendable) outcomes |= 1 << WEIR_PENDING;
  require((outcomes & 1U << operation->outcome) != 0);
  require(operation->outcome != WEIR_FULL ||
          operation->value >= operation->floor - operation->delta);
  bool settled = attempt_of(command).stage == WEIR_STAGE_SETTLED;
  require(settled == (operation->outcome != WEIR_PENDING) && operation->version_out == 0);
}

enum { MEMBERS = 2 };

/* An operation, or two that are joined. */
typedef struct asked {
  weir_wire_command commands[MEMBERS];
  size_t count;
  size_t answered;
} asked;

static asked ask(const unsigned char *header, weir_redis_parser *parser) {
  asked made = {.commands = {command_of(header)}, .count = 1};
  weir_wire_command *first = &made.commands[0];
  first->parser = parser;
  if (first->operation.kind != WEIR_GET || first->operation.raised ||
      attempt_of(first).facts != 0 || (header[1] & FOLLOWS) == 0)
    return made;
  made.count = MEMBERS;
  made.commands[1] = *first;
  made.commands[1].follows = true;
  first->followers = MEMBERS - 1;
  return made;
}

/* Takes replies from `used` on, as far as `length` bytes go. */
static weir_reading decode_all(asked *self, const char *bytes, size_t length, size_t *used,
                               weir_message *message) {
  weir_reading reading = WEIR_READING_REPLY;
  while (self->answered < self->count && reading != WEIR_READING_LAST && *used < length) {
    weir_wire_command *command = &self->commands[self->answered];
    size_t taken = 0;
    reading = weir_redis_codec.decode(command, bytes + *used, length - *used, &taken, message);
    if (reading == WEIR_READING_MORE || reading == WEIR_READING_BROKEN) return reading;
    require(taken > 0);
    command->replies++;
    *used += taken;
    if (reading != WEIR_READING_REPLY) self->answered += 1U + command->shared;
    require(self->answered <= self->count);
  }
  bool ended = self->answered == self->count || reading == WEIR_READING_LAST;
  return ended ? reading : WEIR_READING_MORE;
}

static weir_reading decode_in_parts(asked *self, const char *bytes, size_t cut, size_t length,
                                    size_t *used) {
  weir_message message = {""};
  bool failed = false;
  weir_reading reading = decode_all(self, bytes, cut, used, &message);
  if (reading == WEIR_READING_MORE) reading = decode_all(self, bytes, length, used, &message);
  for (size_t i = 0; i < self->count && reading == WEIR_READING_DONE; i++)
    failed |= self->commands[i].operation.outcome >= WEIR_NOT_SENT &&
              self->commands[i].operation.outcome != WEIR_FULL;
  if (failed) require_readable(&message);
  return reading;
}

static void check(const unsigned char *header, const char *bytes, size_t length,
                  weir_redis_parser *parser) {
  asked whole = ask(header, parser);
  bool mendable = may_be_mended(&whole.commands[0]) || whole.count > 1;
  size_t used = 0;
  weir_reading reading = decode_in_parts(&whole, bytes, length, length, &used);
  for (size_t i = 0; i < whole.count && reading == WEIR_READING_DONE; i++)
    check_outcome(&whole.commands[i], mendable);
  if (reading == WEIR_READING_BROKEN) return; /* the parser ends with its connection */
  for (size_t cut = 0; cut < length && length < 256; cut++) {
    asked parts = ask(header, parser);
    size_t parts_used = 0;
    require(decode_in_parts(&parts, bytes, cut, length, &parts_used) == reading);
    require(parts_used == used);
    for (size_t i = 0; i < whole.count; i++)
      require(parts.commands[i].operation.outcome == whole.commands[i].operation.outcome &&
              parts.commands[i].operation.value == whole.commands[i].operation.value);
  }
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size < HEADER_BYTES) return 0;
  weir_redis_parser *parser = weir_redis_parser_create(NULL);
  char *bytes = malloc(size - HEADER_BYTES); /* of its own, so that reading past it is seen */
  if (parser != NULL && bytes != NULL) {
    memcpy(bytes, data + HEADER_BYTES, size - HEADER_BYTES);
    check(data, bytes, size - HEADER_BYTES, parser);
  }
  free(bytes);
  weir_redis_parser_destroy(parser);
  return 0;
}

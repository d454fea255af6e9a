/* A codec without a server: the words that it sends, and what it makes of replies. */
#ifndef TESTS_REDIS_ANSWER_H
#define TESTS_REDIS_ANSWER_H

#include <stdio.h>

#include "redis/codec.h"
#include "redis/reply.h"
#include "wire/operations.h"

static weir_redis_parser *parser;
static weir_message message;

static inline int make_parser(void **state) {
  (void)state;
  parser = weir_redis_parser_create(NULL);
  return parser == NULL;
}

static inline int free_parser(void **state) {
  (void)state;
  weir_redis_parser_destroy(parser);
  return 0;
}

static inline weir_operation raised(weir_operation operation) {
  operation.raised = true;
  return operation;
}

static inline weir_operation raise_to(int64_t floor, int64_t delta) {
  weir_operation raise = operation_on(WEIR_RAISE, "k");
  raise.refresh = true;
  raise.floor = floor;
  raise.delta = delta;
  return raise;
}

/* An operation's history goes from one attempt to the next in its counter, which a backend does not
 * look at. */
static inline weir_redis_attempt attempt_of(const weir_operation *operation) {
  weir_redis_attempt attempt;
  memcpy(&attempt, &operation->counter, sizeof attempt);
  return attempt;
}

static inline void set_attempt(weir_operation *operation, weir_redis_attempt attempt) {
  memcpy(&operation->counter, &attempt, sizeof attempt);
}

/* As attempt number `which`, from 0 on. */
static inline weir_wire_command command_of(const weir_operation *operation, unsigned which) {
  weir_wire_command command = {.operation = *operation, .parser = parser};
  weir_redis_attempt attempt = attempt_of(operation);
  assert_int_equal(which == 0, attempt.stage == WEIR_STAGE_FIRST);
  attempt.plan = (uint8_t)weir_redis_plan_of(operation, &attempt);
  memcpy(command.notes, &attempt, sizeof attempt);
  return command;
}

/* The words that are sent, apart by spaces. */
static inline const char *words(const weir_operation *operation, unsigned attempt) {
  static char text[WEIR_WIRE_COMMAND_MOST];
  char bytes[WEIR_WIRE_COMMAND_MOST];
  const weir_wire_command command = command_of(operation, attempt);
  size_t length = weir_redis_codec.encode(&command, 0, bytes);
  size_t used = 0;
  for (size_t at = 0; at < length;) {
    const char *end = memchr(bytes + at, '\r', length - at);
    size_t size = (size_t)(end - bytes) - at;
    if (bytes[at] != '*' && bytes[at] != '$') {
      memcpy(text + used, bytes + at, size);
      used += size;
      text[used++] = ' ';
    }
    at += size + 2;
  }
  text[used - 1] = '\0';
  return text;
}

/* Gives the replies one by one, whole; the operation as it is after the last. */
static inline weir_operation answer(weir_operation operation, unsigned attempt,
                                    const char *replies) {
  weir_wire_command command = command_of(&operation, attempt);
  weir_reading reading = WEIR_READING_REPLY;
  size_t length = strlen(replies);
  message.text[0] = '\0';
  for (size_t at = 0; at < length; command.replies++) {
    size_t taken = 0;
    assert_int_equal(reading, WEIR_READING_REPLY);
    reading = weir_redis_codec.decode(&command, replies + at, length - at, &taken, &message);
    at += taken;
  }
  assert_int_equal(reading, WEIR_READING_DONE);
  assert_int_equal(command.operation.version_out, operation.version_out);
  memcpy(&command.operation.counter, command.notes, sizeof command.notes);
  return command.operation;
}

#endif

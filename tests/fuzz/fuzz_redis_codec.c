/* Any bytes as the replies to one operation: nothing is read beyond them, nothing is left behind,
 * and what they end in is an outcome that the operation may have. */
#include <stdlib.h>
#include <string.h>

#include "redis/codec.h"
#include "redis/reply.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { HEADER_BYTES = 4 };

static void check(const weir_operation *operation, bool mendable) {
  static const unsigned allowed[] = {
      [WEIR_ADD] = 1 << WEIR_DONE,
      [WEIR_SUB] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_GET] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_CREATE] = 1 << WEIR_DONE | 1 << WEIR_CONFLICT,
      [WEIR_RAISE] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_PUT] = 1 << WEIR_DONE,
      [WEIR_DROP] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
  };
  unsigned outcomes = allowed[operation->kind] | 1 << WEIR_REFUSED | 1 << WEIR_UNKNOWN;
  if (mendable) outcomes |= 1 << WEIR_PENDING;
  if ((outcomes & 1U << operation->outcome) == 0) abort();
  if (operation->outcome != WEIR_PENDING && operation->version_out != 0) abort();
}

/* As it is sent first, or as the question or repair that may follow a sum. */
static weir_wire_command command_of(const unsigned char *data) {
  static const weir_operation_kind kinds[] = {WEIR_ADD,   WEIR_SUB, WEIR_GET, WEIR_CREATE,
                                              WEIR_RAISE, WEIR_PUT, WEIR_DROP};
  weir_wire_command command = {.operation = {.kind = kinds[data[0] % 7],
                                             .refresh = data[1] % 2 != 0,
                                             .raised = data[1] / 2 % 2 != 0,
                                             .key = "weir:{k}",
                                             .key_length = 8,
                                             .delta = 1 + data[2],
                                             .seed = data[3] % 2 * 40,
                                             .ttl_us = 1000},
                               .parser = weir_redis_parser_create()};
  weir_operation *operation = &command.operation;
  operation->raised &= operation->kind == WEIR_GET || operation->kind == WEIR_SUB;
  bool sum = operation->kind == WEIR_ADD || (operation->kind == WEIR_SUB && !operation->raised);
  command.attempt = sum && data[1] > 127;
  if (command.attempt == 1) {
    operation->version_out = data[2] % 128;
  } else if (weir_redis_may_be_seen(operation) && data[1] / 4 % 2 != 0) {
    operation->version_out = WEIR_NOTE_SEEN;
  }
  return command;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  if (size < HEADER_BYTES) return 0;
  weir_wire_command command = command_of(data);
  if (command.parser == NULL) return 0;
  bool sum = command.operation.kind == WEIR_ADD || command.operation.kind == WEIR_SUB;
  bool asks = command.attempt == 1 && (command.operation.version_out & WEIR_NOTE_BARE) == 0;
  bool mendable = sum && !command.operation.raised && (command.attempt == 0 || asks);
  char *bytes = malloc(size - HEADER_BYTES + 1); /* of its own, so that reading past it is seen */
  memcpy(bytes, data + HEADER_BYTES, size - HEADER_BYTES);
  weir_message message = {""};
  weir_reading reading = WEIR_READING_REPLY;
  for (size_t at = 0; reading == WEIR_READING_REPLY && at < size - HEADER_BYTES;) {
    size_t taken = 0;
    reading =
        weir_redis_codec.decode(&command, bytes + at, size - HEADER_BYTES - at, &taken, &message);
    if (reading == WEIR_READING_MORE || reading == WEIR_READING_BROKEN) break;
    if (taken == 0) abort();
    command.replies++;
    at += taken;
  }
  if (reading == WEIR_READING_DONE) check(&command.operation, mendable);
  free(bytes);
  weir_redis_parser_destroy(command.parser);
  return 0;
}

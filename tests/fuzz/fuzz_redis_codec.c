/* Any bytes as the replies to one operation: nothing is read beyond them, nothing is left behind,
 * and what they end in is an outcome that the operation may have. */
#include <stdlib.h>
#include <string.h>

#include "redis/codec.h"
#include "redis/reply.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

enum { HEADER_BYTES = 4 };

static void check(const weir_operation *operation, uint8_t attempt) {
  static const unsigned allowed[] = {
      [WEIR_ADD] = 1 << WEIR_DONE,
      [WEIR_SUB] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_GET] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_CREATE] = 1 << WEIR_DONE | 1 << WEIR_CONFLICT,
      [WEIR_RAISE] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_PUT] = 1 << WEIR_DONE,
      [WEIR_DROP] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
  };
  bool mendable = attempt == 0 && (operation->kind == WEIR_ADD || operation->kind == WEIR_SUB);
  unsigned outcomes = allowed[operation->kind] | 1 << WEIR_REFUSED | 1 << WEIR_UNKNOWN;
  if (mendable) outcomes |= 1 << WEIR_PENDING;
  if ((outcomes & 1U << operation->outcome) == 0) abort();
  if (operation->outcome != WEIR_PENDING && operation->version_out != 0) abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static const weir_operation_kind kinds[] = {WEIR_ADD,   WEIR_SUB, WEIR_GET, WEIR_CREATE,
                                              WEIR_RAISE, WEIR_PUT, WEIR_DROP};
  if (size < HEADER_BYTES) return 0;
  weir_wire_command command = {.operation = {.kind = kinds[data[0] % 7],
                                             .refresh = data[1] % 2 != 0,
                                             .key = "weir:{k}",
                                             .key_length = 8,
                                             .delta = 1 + data[2],
                                             .seed = data[3] % 2 * 40,
                                             .ttl_us = 1000},
                               .attempt = data[0] < 14 && data[1] > 127 && data[0] % 7 < 2,
                               .parser = weir_redis_parser_create()};
  if (command.parser == NULL) return 0;
  if (command.attempt == 1) command.operation.version_out = data[2] % 32;
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
  if (reading == WEIR_READING_DONE) check(&command.operation, command.attempt);
  free(bytes);
  weir_redis_parser_destroy(command.parser);
  return 0;
}

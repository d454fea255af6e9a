/* Hostile replies to every operation in both dialects. Beyond not crashing: what is taken makes
 * progress, an outcome is one that the operation may have, and cutting the reply changes nothing.
 *
 * Input: the operation's letter; a digit, 1 for an ADD that refreshes, 2 for its second attempt, 3
 * for both; a newline (not looked at); the reply. */
#include "fuzz/operation.h"
#include "memcached/codec.h"

enum { HEADER_BYTES = 3 };

static weir_wire_command command_of(const uint8_t *header) {
  weir_wire_command command = {.attempt = header[1] >> 1 & 1};
  command.operation = (weir_operation){.kind = kind_of(header[0]),
                                       .refresh = (header[1] & 1) != 0,
                                       .key = "k",
                                       .key_length = 1,
                                       .home_length = 1,
                                       .delta = 1,
                                       .seed = 1,
                                       .ttl_us = 1000000,
                                       .version = 1};
  if (command.operation.kind == WEIR_RAISE) command.operation.kind = WEIR_GET;
  return command;
}

/* Decodes until the command has all its replies, or no more can be made of the bytes. */
static weir_reading decode_all(const weir_wire_codec *codec, weir_wire_command *command,
                               const char *bytes, size_t length, size_t *used,
                               weir_message *message) {
  for (;;) {
    size_t taken = 0;
    weir_reading reading = codec->decode(command, bytes + *used, length - *used, &taken, message);
    if (reading == WEIR_READING_MORE || reading == WEIR_READING_BROKEN) return reading;
    require(taken > 0);
    *used += taken;
    command->replies++;
    require(command->replies <= 2);
    if (reading != WEIR_READING_REPLY) {
      bool failed = command->operation.outcome >= WEIR_NOT_SENT;
      require(command->operation.outcome != WEIR_NOT_SENT);
      if (failed) require_readable(message);
      return reading;
    }
    if (*used >= length) return WEIR_READING_MORE;
  }
}

/* Checks the outcome that an operation may have when its last reply was taken. */
static void check_outcome(const weir_wire_codec *codec, const weir_operation *operation) {
  static const unsigned allowed[] = {
      [WEIR_ADD] = 1 << WEIR_DONE,
      [WEIR_SUB] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_GET] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
      [WEIR_CREATE] = 1 << WEIR_DONE | 1 << WEIR_CONFLICT,
      [WEIR_SWAP] = 1 << WEIR_DONE | 1 << WEIR_CONFLICT | 1 << WEIR_ABSENT,
      [WEIR_PUT] = 1 << WEIR_DONE,
      [WEIR_DROP] = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
  };
  unsigned outcomes = allowed[operation->kind] | 1 << WEIR_REFUSED | 1 << WEIR_UNKNOWN;
  if (codec == &weir_classic_codec && operation->kind == WEIR_ADD) outcomes |= 1 << WEIR_PENDING;
  require((outcomes & 1U << operation->outcome) != 0);
  require(operation->kind != WEIR_GET || operation->outcome != WEIR_DONE ||
          operation->version_out != 0);
}

static void check(const weir_wire_codec *codec, const uint8_t *header, const char *bytes,
                  size_t length) {
  weir_wire_command whole = command_of(header);
  weir_message message = {""};
  size_t used = 0;
  weir_reading reading = decode_all(codec, &whole, bytes, length, &used, &message);
  if (reading == WEIR_READING_DONE) check_outcome(codec, &whole.operation);
  for (size_t cut = 0; cut <= length && length < 256; cut++) {
    weir_wire_command parts = command_of(header);
    size_t parts_used = 0;
    message.text[0] = '\0';
    weir_reading first = decode_all(codec, &parts, bytes, cut, &parts_used, &message);
    if (first == WEIR_READING_MORE && parts_used <= length) {
      first = decode_all(codec, &parts, bytes, length, &parts_used, &message);
    }
    require(first == reading);
    require(first != WEIR_READING_DONE ||
            (parts_used == used && parts.operation.outcome == whole.operation.outcome &&
             parts.operation.value == whole.operation.value));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < HEADER_BYTES) return 0;
  const char *reply = (const char *)data + HEADER_BYTES;
  check(&weir_meta_codec, data, reply, size - HEADER_BYTES);
  check(&weir_classic_codec, data, reply, size - HEADER_BYTES);
  return 0;
}

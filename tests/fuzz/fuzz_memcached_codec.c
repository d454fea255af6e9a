/* Hostile replies to every operation in both dialects. Beyond not crashing: what is taken makes
 * progress, an outcome is one that the operation may have, and cutting the reply changes nothing.
 */
#include <stdlib.h>

#include "memcached/codec.h"

static void require(bool condition) {
  if (!condition) abort();
}

static weir_wire_command command_of(uint8_t choice) {
  weir_wire_command command = {.attempt = choice >> 4 & 1};
  command.operation = (weir_operation){.kind = (weir_operation_kind)(choice % (WEIR_DROP + 1)),
                                       .refresh = (choice >> 5 & 1) != 0,
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
      require(!failed || message->text[0] != '\0');
      return reading;
    }
    if (*used >= length) return WEIR_READING_MORE;
  }
}

static void check(const weir_wire_codec *codec, uint8_t choice, const char *bytes, size_t length) {
  weir_wire_command whole = command_of(choice);
  weir_message message = {""};
  size_t used = 0;
  weir_reading reading = decode_all(codec, &whole, bytes, length, &used, &message);
  if (whole.operation.outcome == WEIR_PENDING && reading == WEIR_READING_DONE) {
    require(codec == &weir_classic_codec && whole.operation.kind == WEIR_ADD);
  }
  for (size_t cut = 0; cut <= length && length < 256; cut++) {
    weir_wire_command parts = command_of(choice);
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
  if (size < 1) return 0;
  check(&weir_meta_codec, data[0], (const char *)data + 1, size - 1);
  check(&weir_classic_codec, data[0], (const char *)data + 1, size - 1);
  return 0;
}

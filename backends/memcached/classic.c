/* The classic text commands, all that proxies let through.
 *
 * ADD has no command of its own: even attempts are `incr`, odd ones `add`. An attempt that finds
 * the key absent (or present) has changed nothing and leaves the operation PENDING. Replies carry
 * no number to pair them by; a value names its key, which is compared. */
#include "memcached/codec.h"

static bool is_incr(const weir_wire_command *command) {
  return command->operation.kind == WEIR_ADD && command->attempt % 2 == 0;
}

static bool carries_data(const weir_wire_command *command) {
  weir_operation_kind kind = command->operation.kind;
  return kind == WEIR_CREATE || kind == WEIR_SWAP || kind == WEIR_PUT ||
         (kind == WEIR_ADD && !is_incr(command));
}

static bool is_renewed(const weir_wire_command *command) {
  return is_incr(command) && command->operation.refresh;
}

/* Behind a command: one renews the TTL, and where a date was written the last finds whether the item is
 * still there. A proxy lets no shorter look through. */
static unsigned count_touches(const weir_wire_command *command) {
  bool stores = carries_data(command) || is_renewed(command);
  bool looks = stores && weir_operation_writes_date(&command->operation);
  return (unsigned)is_renewed(command) + (unsigned)looks;
}

static const char *verb(const weir_wire_command *command) {
  switch (command->operation.kind) {
    case WEIR_ADD:
      return is_incr(command) ? "incr " : "add ";
    case WEIR_SUB:
      return "incr "; /* of 2^64 - delta: `decr` stops at 0 */
    case WEIR_GET:
      return "gets ";
    case WEIR_CREATE:
      return "add ";
    case WEIR_SWAP:
      return "cas ";
    case WEIR_DROP:
      return "delete ";
    case WEIR_RAISE:
    case WEIR_PUT:
      break;
  }
  return "set ";
}

/* The value that ADD stores where nothing was; wraps as the server's own sums do. */
static uint64_t first_value(const weir_operation *operation) {
  if (operation->kind != WEIR_ADD) return (uint64_t)operation->value;
  return (uint64_t)operation->seed + (uint64_t)operation->delta;
}

/* " <flags> <ttl> <length>[ <version>]" and the data. */
static char *put_item(char *out, const weir_wire_command *command, int64_t unix_s) {
  const weir_operation *operation = &command->operation;
  char data[WEIR_NUMBER_MOST];
  size_t length = (size_t)(weir_number_put(data, "", first_value(operation)) - data);
  out = weir_number_put(out, " 0 ", weir_ttl_seconds(operation->ttl_us, unix_s));
  out = weir_number_put(out, " ", length);
  if (operation->kind == WEIR_SWAP) {
    out = weir_number_put(out, " ", weir_version_to_cas(command, operation->version));
  }
  out = weir_text_put(out, "\r\n");
  memcpy(out, data, length);
  return out + length;
}

/* "<verb> <key>" */
static char *put_key(char *out, const char *word, const weir_operation *operation) {
  out = weir_text_put(out, word);
  memcpy(out, operation->key, operation->key_length);
  return out + operation->key_length;
}

static size_t encode(const weir_wire_command *command, int64_t unix_s, char *out) {
  const weir_operation *operation = &command->operation;
  char *end = put_key(out, verb(command), operation);
  if (carries_data(command)) end = put_item(end, command, unix_s);
  if (is_incr(command)) end = weir_number_put(end, " ", (uint64_t)operation->delta);
  if (operation->kind == WEIR_SUB) end = weir_number_put(end, " ", -(uint64_t)operation->delta);
  end = weir_text_put(end, "\r\n");
  for (unsigned touches = count_touches(command); touches > 0; touches--) {
    end = put_key(end, "touch ", operation);
    end = weir_number_put(end, " ", weir_ttl_seconds(operation->ttl_us, unix_s));
    end = weir_text_put(end, "\r\n");
  }
  return (size_t)(end - out);
}

/* Answers of one word. False: this command cannot have that answer. */
static bool apply_word(weir_wire_command *command, const weir_line *line) {
  weir_operation *operation = &command->operation;
  weir_operation_kind kind = operation->kind;
  bool stores = carries_data(command);
  if ((stores && weir_line_is(line, "STORED")) ||
      (kind == WEIR_DROP && weir_line_is(line, "DELETED"))) {
    if (kind == WEIR_ADD) operation->value = (int64_t)first_value(operation);
    operation->version_out = 0;
    operation->outcome = WEIR_DONE;
  } else if (weir_line_is(line, "NOT_STORED") && stores && kind != WEIR_SWAP) {
    operation->outcome = kind == WEIR_ADD ? WEIR_PENDING : WEIR_CONFLICT;
    return kind != WEIR_PUT;
  } else if (weir_line_is(line, "EXISTS") && kind == WEIR_SWAP) {
    operation->outcome = WEIR_CONFLICT;
  } else if (weir_line_is(line, "NOT_FOUND") && (!stores || kind == WEIR_SWAP)) {
    operation->outcome = is_incr(command) ? WEIR_PENDING : WEIR_ABSENT;
  } else {
    return false;
  }
  return true;
}

/* "VALUE <key> <flags> <length> <version>": false if it is not that. */
static bool parse_value_line(const weir_operation *operation, const weir_line *line, uint64_t *size,
                             uint64_t *version) {
  const char *text = line->text;
  size_t at = 6;
  uint64_t flags = 0;
  uint64_t *const numbers[] = {&flags, size, version};
  if (!weir_line_starts(line, "VALUE ") || line->length < at + operation->key_length) return false;
  if (memcmp(text + at, operation->key, operation->key_length) != 0) return false;
  at += operation->key_length;
  for (size_t i = 0; i < 3; i++) {
    if (at >= line->length || text[at++] != ' ') return false;
    size_t digits = weir_number_scan(text + at, line->length - at, numbers[i]);
    if (digits == 0) return false;
    at += digits;
  }
  return at == line->length && *size <= INT32_MAX;
}

static weir_reading take_value(weir_wire_command *command, const weir_line *line, const char *data,
                               size_t length, size_t *taken, weir_message *message) {
  weir_operation *operation = &command->operation;
  uint64_t size = 0;
  uint64_t version = 0;
  if (!parse_value_line(operation, line, &size, &version)) return WEIR_READING_BROKEN;
  bool small = size <= WEIR_VALUE_TEXT_MOST;
  if (small && length < size + 2) return WEIR_READING_MORE;
  if (small && memcmp(data + size, "\r\n", 2) != 0) return WEIR_READING_BROKEN;
  weir_value_read(operation, data, (size_t)size, message);
  weir_version_read(command, version, message);
  *taken += (size_t)size + 2;
  return WEIR_READING_REPLY; /* END follows */
}

/* One of the touches that follow: the first renews where the operation does, any other looks. */
static weir_reading take_touch(weir_wire_command *command, const weir_line *line, unsigned touches,
                               weir_message *message) {
  weir_operation *operation = &command->operation;
  weir_reading reading = command->replies == 1 && is_renewed(command)
                             ? weir_touch_read(operation, line, "TOUCHED", "NOT_FOUND", message)
                             : weir_look_read(operation, line, "TOUCHED", "NOT_FOUND", message);
  return reading == WEIR_READING_DONE && command->replies < touches ? WEIR_READING_REPLY : reading;
}

/* A GET is answered by the value, if there is one, and END. */
static weir_reading take_found(weir_wire_command *command, const weir_line *line, const char *data,
                               size_t length, size_t *taken, weir_message *message) {
  bool ends = weir_line_is(line, "END");
  if (command->replies > 0) return ends ? WEIR_READING_DONE : WEIR_READING_BROKEN;
  if (!ends) return take_value(command, line, data, length, taken, message);
  command->operation.outcome = WEIR_ABSENT;
  return WEIR_READING_DONE;
}

static weir_reading decode(weir_wire_command *command, const char *bytes, size_t length,
                           size_t *taken, weir_message *message) {
  weir_operation *operation = &command->operation;
  weir_line line = weir_line_find(bytes, length);
  unsigned touches = count_touches(command);
  bool counts = is_incr(command) || operation->kind == WEIR_SUB;
  bool stray = false;
  if (line.bad) return WEIR_READING_BROKEN;
  if (line.taken == 0) return WEIR_READING_MORE;
  *taken = line.taken;
  if (touches > 0 && command->replies > 0) return take_touch(command, &line, touches, message);
  if (weir_reply_is_error(operation, &line, carries_data(command), &stray, message)) {
    if (stray) return WEIR_READING_LAST;
    return touches > 0 ? WEIR_READING_REPLY : WEIR_READING_DONE;
  }
  if (operation->kind == WEIR_GET)
    return take_found(command, &line, bytes + line.taken, length - line.taken, taken, message);
  if (counts && line.length > 0 && line.text[0] >= '0' && line.text[0] <= '9') {
    weir_value_read(operation, line.text, line.length, message);
    if (operation->outcome != WEIR_DONE) return WEIR_READING_BROKEN;
  } else if (!apply_word(command, &line)) {
    return WEIR_READING_BROKEN;
  }
  return touches > 0 ? WEIR_READING_REPLY : WEIR_READING_DONE;
}

const weir_wire_codec weir_classic_codec = {
    .name = "memcached classic commands", .encode = encode, .decode = decode};

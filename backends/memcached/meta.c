/* The meta commands: one command and one reply for every operation, paired by an opaque number.
 * Only an addition that renews the TTL takes two: `ma` has a flag for it, which the server forgets
 * when the sum outgrows the item and moves to a new one. */
#include "memcached/codec.h"
#include "memcached/version.h"

static bool carries_data(weir_operation_kind kind) {
  return kind == WEIR_CREATE || kind == WEIR_SWAP || kind == WEIR_PUT;
}

static bool renews(const weir_operation *operation) {
  return operation->kind == WEIR_ADD && operation->refresh;
}

/* " D<number>", for instance. */
static char *put_flag(char *out, char flag, uint64_t number) {
  *out++ = ' ';
  *out++ = flag;
  return weir_number_put(out, number);
}

static char *put_verb(char *out, const char verb[3], const weir_operation *operation) {
  memcpy(out, verb, 3);
  memcpy(out + 3, operation->key, operation->key_length);
  return out + 3 + operation->key_length;
}

/* What a sum is made with, and what to answer. Sums wrap as the server's own do. */
static char *put_sum(char *end, const weir_operation *operation, int64_t unix_s) {
  uint64_t delta = (uint64_t)operation->delta;
  end = put_verb(end, "ma ", operation);
  if (operation->kind == WEIR_ADD) { /* creates the item where there is none */
    end = put_flag(end, 'N', weir_ttl_seconds(operation->ttl_us, unix_s));
    end = put_flag(end, 'J', (uint64_t)operation->seed + delta);
  }
  end = put_flag(end, 'D', operation->kind == WEIR_ADD ? delta : -delta);
  return weir_text_put(end, " v", 2);
}

/* The line of what stores a value, without the value. */
static char *put_store(char *end, const weir_wire_command *command, size_t data_length,
                       int64_t unix_s) {
  const weir_operation *operation = &command->operation;
  end = put_verb(end, "ms ", operation);
  *end++ = ' ';
  end = weir_number_put(end, data_length);
  if (operation->kind == WEIR_CREATE) end = weir_text_put(end, " ME c", 5);
  if (operation->kind == WEIR_SWAP) {
    end = put_flag(end, 'C', weir_version_to_cas(command, operation->version));
    end = weir_text_put(end, " c", 2);
  }
  return put_flag(end, 'T', weir_ttl_seconds(operation->ttl_us, unix_s));
}

/* Behind an addition: a read that returns nothing and sets the TTL. */
static char *put_touch(char *out, const weir_operation *add, int64_t unix_s) {
  out = put_flag(put_verb(out, "mg ", add), 'T', weir_ttl_seconds(add->ttl_us, unix_s));
  return weir_text_put(out, "\r\n", 2);
}

static size_t encode(const weir_wire_command *command, int64_t unix_s, char *out) {
  const weir_operation *operation = &command->operation;
  char data[WEIR_NUMBER_MOST];
  size_t data_length = 0;
  char *end = out;
  if (carries_data(operation->kind)) {
    data_length = (size_t)(weir_number_put(data, (uint64_t)operation->value) - data);
    end = put_store(end, command, data_length, unix_s);
  } else if (operation->kind == WEIR_GET) {
    end = weir_text_put(put_verb(end, "mg ", operation), " v c", 4);
  } else if (operation->kind == WEIR_DROP) {
    end = put_verb(end, "md ", operation);
  } else {
    end = put_sum(end, operation, unix_s);
  }
  end = weir_text_put(put_flag(end, 'O', command->serial), "\r\n", 2);
  if (renews(operation)) end = put_touch(end, operation, unix_s);
  if (data_length > 0) end = weir_text_put(weir_text_put(end, data, data_length), "\r\n", 2);
  return (size_t)(end - out);
}

/* A reply line taken apart. */
typedef struct meta_reply {
  char code[2];
  uint64_t size; /* VA */
  uint64_t version;
  uint64_t opaque;
  bool has_version;
  bool has_opaque;
} meta_reply;

/* " c123 O5": the flags that were asked for, and no others. */
static bool parse_flags(meta_reply *reply, const char *text, size_t length) {
  while (length > 0) {
    if (length < 3 || text[0] != ' ') return false;
    bool opaque = text[1] == 'O';
    if (!opaque && text[1] != 'c') return false;
    size_t digits =
        weir_number_scan(text + 2, length - 2, opaque ? &reply->opaque : &reply->version);
    if (digits == 0) return false;
    reply->has_opaque |= opaque;
    reply->has_version |= !opaque;
    text += digits + 2;
    length -= digits + 2;
  }
  return true;
}

static bool parse_line(meta_reply *reply, const weir_line *line) {
  *reply = (meta_reply){0};
  if (line->length < 2) return false;
  memcpy(reply->code, line->text, 2);
  size_t at = 2;
  if (memcmp(reply->code, "VA", 2) == 0) {
    if (line->length < 4 || line->text[2] != ' ') return false;
    size_t digits = weir_number_scan(line->text + 3, line->length - 3, &reply->size);
    if (digits == 0 || reply->size > INT32_MAX) return false;
    at = 3 + digits;
  }
  return parse_flags(reply, line->text + at, line->length - at);
}

static bool has_code(const meta_reply *reply, const char *code) {
  return memcmp(reply->code, code, 2) == 0;
}

/* Codes without a value. False: this command cannot have that answer. */
static bool apply_code(weir_wire_command *command, const meta_reply *reply, weir_message *message) {
  weir_operation *operation = &command->operation;
  weir_operation_kind kind = operation->kind;
  bool found_not = has_code(reply, "NF");
  if (has_code(reply, "HD") && reply->has_opaque) {
    bool versioned = kind == WEIR_CREATE || kind == WEIR_SWAP;
    if (reply->has_version != versioned) return false;
    operation->version_out = weir_version_of_cas(command, reply->version);
    operation->outcome = WEIR_DONE;
    return versioned || kind == WEIR_PUT || kind == WEIR_DROP;
  }
  if ((found_not && (kind == WEIR_SUB || kind == WEIR_SWAP || kind == WEIR_DROP)) ||
      (has_code(reply, "EN") && kind == WEIR_GET)) {
    operation->outcome = WEIR_ABSENT;
    return true;
  }
  if ((has_code(reply, "NS") && kind == WEIR_CREATE) ||
      (has_code(reply, "EX") && kind == WEIR_SWAP)) {
    operation->outcome = WEIR_CONFLICT;
    return true;
  }
  /* The server found no room to create or store the item. */
  if (!has_code(reply, "NS") || (kind != WEIR_ADD && kind != WEIR_SWAP && kind != WEIR_PUT)) {
    return false;
  }
  operation->outcome = WEIR_REFUSED;
  weir_message_set(message, "the server did not store the item (NS)");
  return true;
}

static weir_reading take_value(weir_wire_command *command, const meta_reply *reply,
                               const char *data, size_t length, size_t *taken,
                               weir_message *message) {
  weir_operation *operation = &command->operation;
  bool get = operation->kind == WEIR_GET;
  bool counts = operation->kind == WEIR_ADD || operation->kind == WEIR_SUB;
  if (!reply->has_opaque || reply->has_version != get || (!get && !counts)) {
    return WEIR_READING_BROKEN;
  }
  size_t size = (size_t)reply->size;
  bool small = size <= WEIR_VALUE_TEXT_MOST;
  if (small && length < size + 2) return WEIR_READING_MORE;
  if (small && memcmp(data + size, "\r\n", 2) != 0) return WEIR_READING_BROKEN;
  weir_value_read(operation, data, size, message);
  if (get) weir_version_read(command, reply->version, message);
  *taken += size + 2;
  return WEIR_READING_DONE;
}

/* The reply to the operation itself. */
static weir_reading take_reply(weir_wire_command *command, const weir_line *line, const char *data,
                               size_t length, size_t *taken, weir_message *message) {
  weir_operation *operation = &command->operation;
  bool stray = false;
  if (weir_reply_is_error(operation, line, carries_data(operation->kind), &stray, message)) {
    return stray ? WEIR_READING_LAST : WEIR_READING_DONE;
  }
  meta_reply reply;
  if (!parse_line(&reply, line)) return WEIR_READING_BROKEN;
  if (reply.has_opaque && reply.opaque != command->serial) return WEIR_READING_BROKEN;
  if (has_code(&reply, "VA")) {
    return take_value(command, &reply, data, length, taken, message);
  }
  return apply_code(command, &reply, message) ? WEIR_READING_DONE : WEIR_READING_BROKEN;
}

static weir_reading decode(weir_wire_command *command, const char *bytes, size_t length,
                           size_t *taken, weir_message *message) {
  weir_operation *operation = &command->operation;
  weir_line line = weir_line_find(bytes, length);
  if (line.bad) return WEIR_READING_BROKEN;
  if (line.taken == 0) return WEIR_READING_MORE;
  *taken = line.taken;
  if (command->replies > 0) return weir_touch_read(operation, &line, "HD", "EN", message);
  weir_reading reading =
      take_reply(command, &line, bytes + line.taken, length - line.taken, taken, message);
  return reading == WEIR_READING_DONE && renews(operation) ? WEIR_READING_REPLY : reading;
}

const weir_wire_codec weir_meta_codec = {
    .name = "memcached meta commands", .encode = encode, .decode = decode};

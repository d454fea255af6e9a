/* The meta commands: one command and one reply for every operation, paired by an opaque number.
 * An addition that renews the TTL takes one more: `ma` has a flag for it, which the server forgets
 * when the sum outgrows the item and moves to a new one. So does what stores a date. */
#include "memcached/codec.h"

/* An addition that renews the TTL goes with a read behind it, which does that. */
static bool renews(const weir_operation *operation) {
  return operation->kind == WEIR_ADD && operation->refresh;
}

/* "ma <key>", for instance. */
static char *put_verb(char *out, const char verb[3], const weir_operation *operation) {
  memcpy(out, verb, 3);
  memcpy(out + 3, operation->key, operation->key_length);
  return out + 3 + operation->key_length;
}

/* " T90", for instance. */
static char *put_flag(char *out, char flag, uint64_t number) {
  out[0] = ' ';
  out[1] = flag;
  return weir_number_write(out + 2, number);
}

/* The number that a command is sent with and its reply has to show, of two digits at the most: a reply
 * that is missing, or too many, is noticed within the next. */
static uint32_t opaque_of(const weir_wire_command *command) {
  return command->serial % 64;
}

/* The line of what stores a value, up to its flags, and the value that follows the line. */
static char *put_store(char *end, const weir_wire_command *command, int64_t unix_s, char *data) {
  const weir_operation *operation = &command->operation;
  char *data_end = weir_number_write(data, (uint64_t)operation->value);
  end = weir_number_put(put_verb(end, "ms ", operation), " ", (uint64_t)(data_end - data));
  memcpy(data_end, "\r\n", sizeof "\r\n");
  if (operation->kind == WEIR_CREATE) end = weir_text_put(end, " ME c");
  if (operation->kind == WEIR_SWAP) {
    end = put_flag(end, 'C', weir_version_to_cas(command, operation->version));
    end = weir_text_put(end, " c");
  }
  return put_flag(end, 'T', weir_ttl_seconds(operation->ttl_us, unix_s));
}

/* The bytes of one operation. Flags ask for what a command answers with: v the value, c the CAS id;
 * O is sent back as it is. Sums wrap as the server's own do. */
static size_t encode(const weir_wire_command *command, int64_t unix_s, char *out) {
  const weir_operation *operation = &command->operation;
  uint64_t delta = (uint64_t)operation->delta;
  char data[WEIR_NUMBER_MOST + sizeof "\r\n"] = "";
  char *end = out, *first;
  switch (operation->kind) {
    case WEIR_ADD: /* creates the item where there is none: N how long it lives, J its value */
      end = put_verb(end, "ma ", operation);
      end = put_flag(end, 'N', weir_ttl_seconds(operation->ttl_us, unix_s));
      first = end;
      end = put_flag(end, 'J', (uint64_t)operation->seed + delta);
      if (operation->seed == 0) { /* the same digits again, and what is written over */
        memmove(end, first, WEIR_NUMBER_MOST + 2);
        end[1] = 'D';
        end += end - first;
      } else {
        end = put_flag(end, 'D', delta);
      }
      end = weir_text_put(end, " v");
      break;
    case WEIR_GET:
      end = weir_text_put(put_verb(end, "mg ", operation), " v c");
      break;
    case WEIR_DROP:
      end = put_verb(end, "md ", operation);
      break;
    case WEIR_CREATE:
    case WEIR_SWAP:
    case WEIR_PUT:
      end = put_store(end, command, unix_s, data);
      break;
    case WEIR_SUB:
    case WEIR_RAISE: /* never asked for: the backend lacks the trait */
      end = put_verb(end, "ma ", operation);
      end = weir_text_put(put_flag(end, 'D', -delta), " v");
      break;
  }
  end = weir_text_put(put_flag(end, 'O', opaque_of(command)), "\r\n");
  if (data[0] != '\0') end = weir_text_put(end, data);
  if (renews(operation)) { /* returns nothing and sets the TTL */
    end = put_verb(end, "mg ", operation);
    end = put_flag(end, 'T', weir_ttl_seconds(operation->ttl_us, unix_s));
    end = weir_text_put(end, "\r\n");
  }
  if (weir_operation_writes_date(operation))
    end = weir_text_put(put_verb(end, "mg ", operation), "\r\n");
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

/* "VA 2 c123 O5": a code, the size of a value, the flags that were asked for, and no others. */
static bool parse_line(meta_reply *reply, const weir_line *line) {
  const char *text = line->text + 2;
  const char *end = line->text + line->length;
  *reply = (meta_reply){0};
  if (line->length < 2) return false;
  memcpy(reply->code, line->text, 2);
  if (memcmp(reply->code, "VA", 2) == 0) {
    if (end - text < 2 || *text++ != ' ') return false;
    size_t digits = weir_number_scan(text, (size_t)(end - text), &reply->size);
    if (digits == 0 || reply->size > INT32_MAX) return false;
    text += digits;
  }
  while (text < end) {
    if (end - text < 3 || text[0] != ' ') return false;
    bool opaque = text[1] == 'O';
    if (!opaque && text[1] != 'c') return false;
    text += 2;
    size_t digits =
        weir_number_scan(text, (size_t)(end - text), opaque ? &reply->opaque : &reply->version);
    if (digits == 0) return false;
    reply->has_opaque |= opaque;
    reply->has_version |= !opaque;
    text += digits;
  }
  return true;
}

static bool has_code(const meta_reply *reply, const char *code) {
  return memcmp(reply->code, code, 2) == 0;
}

/* What a code without a value, other than HD, means to the kinds that may have it as an answer. */
static const struct {
  char code[3];
  unsigned kinds; /* bits */
  weir_outcome outcome;
} meanings[] = {
    {"EN", 1U << WEIR_GET, WEIR_ABSENT},
    {"NF", 1U << WEIR_SUB | 1U << WEIR_SWAP | 1U << WEIR_DROP, WEIR_ABSENT},
    {"EX", 1U << WEIR_SWAP, WEIR_CONFLICT},
    {"NS", 1U << WEIR_CREATE, WEIR_CONFLICT},
    /* The server found no room to create or store the item. */
    {"NS", 1U << WEIR_ADD | 1U << WEIR_SWAP | 1U << WEIR_PUT, WEIR_REFUSED},
};

/* Codes without a value. False: this command cannot have that answer. */
static bool apply_code(weir_wire_command *command, const meta_reply *reply, weir_message *message) {
  weir_operation *operation = &command->operation;
  weir_operation_kind kind = operation->kind;
  if (has_code(reply, "HD") && reply->has_opaque) {
    bool versioned = kind == WEIR_CREATE || kind == WEIR_SWAP;
    if (reply->has_version != versioned) return false;
    operation->version_out = weir_version_of_cas(command, reply->version);
    operation->outcome = WEIR_DONE;
    return versioned || kind == WEIR_PUT || kind == WEIR_DROP;
  }
  for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
    if (!has_code(reply, meanings[i].code) || (meanings[i].kinds >> kind & 1U) == 0) continue;
    operation->outcome = meanings[i].outcome;
    if (operation->outcome == WEIR_REFUSED)
      weir_message_set(message, "the server did not store the item (NS)");
    return true;
  }
  return false;
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

/* The reply to the operation itself. An error is what no code is: its line is no line of flags. */
static weir_reading take_reply(weir_wire_command *command, const weir_line *line, const char *data,
                               size_t length, size_t *taken, weir_message *message) {
  weir_operation *operation = &command->operation;
  meta_reply reply;
  if (!parse_line(&reply, line)) {
    bool stray = false;
    bool stores = operation->kind == WEIR_CREATE || operation->kind == WEIR_SWAP ||
                  operation->kind == WEIR_PUT;
    if (!weir_reply_is_error(operation, line, stores, &stray, message)) return WEIR_READING_BROKEN;
    return stray ? WEIR_READING_LAST : WEIR_READING_DONE;
  }
  if (reply.has_opaque && reply.opaque != opaque_of(command)) return WEIR_READING_BROKEN;
  if (memcmp(reply.code, "VA", 2) == 0)
    return take_value(command, &reply, data, length, taken, message);
  return apply_code(command, &reply, message) ? WEIR_READING_DONE : WEIR_READING_BROKEN;
}

/* "VA 12 O42\r\n347892350976\r\n", which nearly every decision is answered with, in one go. Returns its
 * length; 0: it is something else, or not whole, or a longer number. */
static size_t read_total(weir_wire_command *command, const char *bytes, size_t length) {
  enum { LEAST = sizeof "VA 1 O0\r\n1\r\n" - 1, DIGITS_MOST = 18 };
  uint32_t opaque = opaque_of(command);
  int64_t total;
  if (command->operation.kind != WEIR_ADD || length < LEAST || memcmp(bytes, "VA ", 3) != 0)
    return 0;
  unsigned size = (unsigned char)bytes[3] - (unsigned)'0';
  const char *at = bytes + 4;
  if (*at != ' ') {
    unsigned digit = (unsigned char)*at++ - (unsigned)'0';
    if (size > 9 || digit > 9) return 0;
    size = size * 10 + digit;
  }
  if (size < 1 || size > DIGITS_MOST || memcmp(at, " O", 2) != 0) return 0;
  at += 2;
  if (opaque > 9 && *at++ != (char)('0' + opaque / 10)) return 0;
  if (*at++ != (char)('0' + opaque % 10)) return 0;
  size_t whole = (size_t)(at - bytes) + size + 4;
  if (length < whole || memcmp(at, "\r\n", 2) != 0 || memcmp(at + 2 + size, "\r\n", 2) != 0 ||
      !weir_number_read(at + 2, size, INT64_MAX, &total))
    return 0;
  command->operation.value = total;
  command->operation.outcome = WEIR_DONE;
  return whole;
}

static weir_reading decode(weir_wire_command *command, const char *bytes, size_t length,
                           size_t *taken, weir_message *message) {
  weir_operation *operation = &command->operation;
  unsigned more = (unsigned)renews(operation) + (unsigned)weir_operation_writes_date(operation);
  *taken = command->replies == 0 ? read_total(command, bytes, length) : 0;
  if (*taken > 0) return more > 0 ? WEIR_READING_REPLY : WEIR_READING_DONE;
  weir_line line = weir_line_find(bytes, length);
  if (line.bad) return WEIR_READING_BROKEN;
  if (line.taken == 0) return WEIR_READING_MORE;
  *taken = line.taken;
  weir_reading reading = command->replies == 0 ? take_reply(command, &line, bytes + line.taken,
                                                            length - line.taken, taken, message)
                         : command->replies == 1 && renews(operation)
                             ? weir_touch_read(operation, &line, "HD", "EN", message)
                             : weir_look_read(operation, &line, "HD", "EN", message);
  return reading == WEIR_READING_DONE && command->replies < more ? WEIR_READING_REPLY : reading;
}

const weir_wire_codec weir_meta_codec = {
    .name = "memcached meta commands", .encode = encode, .decode = decode};

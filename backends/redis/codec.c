/* Operations as commands, replies as outcomes. */
#include "redis/codec.h"

#include <string.h>

#include "redis/conclude.h"
#include "redis/nodes.h"
#include "redis/refusal.h"

#define SCORE_END (INT64_C(1) << 53)

/* What is longer is not waited for. Dropping it as it comes would take the connection's time, and
 * the server's, from everybody else. */
enum { REPLY_DROPPED_MOST = 4 << 20 };

static char *put_text(char *out, const char *text, size_t length) {
  memcpy(out, text, length);
  return out + length;
}

static char *put_digits(char *out, uint64_t number) {
  char digits[20];
  size_t start = sizeof digits;
  do {
    digits[--start] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  return put_text(out, digits + start, sizeof digits - start);
}

/* "$<length>\r\n<text>\r\n" */
static char *put_argument(char *out, const char *text, size_t length) {
  *out++ = '$';
  out = put_text(put_digits(out, length), "\r\n", 2);
  return put_text(put_text(out, text, length), "\r\n", 2);
}

/* Takes no negative number. */
static char *put_number(char *out, int64_t number) {
  char digits[20];
  return put_argument(out, digits, (size_t)(put_digits(digits, (uint64_t)number) - digits));
}

static char *put_negative(char *out, int64_t number) {
  char text[21] = "-";
  return put_argument(out, text, (size_t)(put_digits(text + 1, (uint64_t)number) - text));
}

/* The server counts from a clock cut to whole ms: one more than the ceiling keeps the promise. */
static int64_t ttl_ms(const weir_operation *operation) {
  return (operation->ttl_us + 999) / 1000 + 1;
}

static char *put_hole(char *out, weir_redis_hole hole, const weir_operation *operation) {
  switch (hole) {
    case WEIR_HOLE_KEY:
      return put_argument(out, operation->key, operation->key_length);
    case WEIR_HOLE_TTL:
      return put_number(out, ttl_ms(operation));
    case WEIR_HOLE_SEED:
      return put_number(out, operation->seed);
    case WEIR_HOLE_DELTA:
      return put_number(out, operation->delta);
    case WEIR_HOLE_LESS:
      return put_negative(out, operation->delta);
    case WEIR_HOLE_VALUE:
      return put_number(out, operation->value);
    case WEIR_HOLE_FLOOR:
      return put_number(out, operation->floor);
    case WEIR_HOLE_OWED:
      return put_number(out, weir_redis_owed(operation));
    case WEIR_HOLE_END:
    case WEIR_HOLE_COUNT:
      break;
  }
  return out;
}

static char *put_step(char *out, weir_redis_step step, const weir_operation *operation) {
  const weir_redis_piece *pieces = weir_redis_commands[step].pieces;
  for (size_t i = 0; i < WEIR_REDIS_PIECES_MOST && pieces[i].text != NULL; i++) {
    out = put_text(out, pieces[i].text, pieces[i].length);
    out = put_hole(out, pieces[i].hole, operation);
  }
  return out;
}

static size_t encode(const weir_wire_command *command, int64_t unix_s, char *out) {
  (void)unix_s; /* Redis takes TTLs of any length */
  char *end = out;
  bool asking = (command->attempt & WEIR_ATTEMPT_ASKING) != 0;
  const weir_redis_step *step = weir_redis_plan_of(command)->steps;
  for (; *step != WEIR_STEP_END; step++) {
    if (asking) end = put_step(end, WEIR_STEP_ASKING, &command->operation);
    end = put_step(end, *step, &command->operation);
  }
  return (size_t)(end - out);
}

static void note_refusal(weir_wire_command *command, weir_redis_step step,
                         const weir_redis_reply *error, weir_message *message) {
  weir_operation *operation = &command->operation;
  const weir_redis_command *refused = &weir_redis_commands[step];
  unsigned cause;
  weir_outcome outcome = weir_redis_refusal_classify(error, &cause);
  command->demoted |= weir_redis_refusal_is_demotion(error);
  if (operation->version_out >> WEIR_NOTE_CAUSE_SHIFT == 0) { /* the first is the one to explain */
    operation->version_out |= (uint64_t)(cause + 1) << WEIR_NOTE_CAUSE_SHIFT;
    weir_redis_refusal_explain(cause, refused->name, operation, error, message);
  }
  if (step == WEIR_STEP_BITFIELD && weir_redis_refusal_bars(error))
    operation->version_out |= WEIR_NOTE_BARRED;
  if (weir_redis_refusal_is_foreign(error)) operation->version_out |= WEIR_NOTE_FOREIGN;
  if (operation->kind == WEIR_GET) outcome = WEIR_REFUSED; /* changes nothing, executed or not */
  if (refused->decides) operation->outcome = outcome;
  if (step == WEIR_STEP_INCRBY_OWED) operation->outcome = WEIR_UNKNOWN;
  if (step == WEIR_STEP_SET_SEED || step == WEIR_STEP_SET_DELTA) {
    operation->version_out |= WEIR_NOTE_UNSEEDED;
  } else if (!refused->decides) {
    operation->version_out |= WEIR_NOTE_DOUBT;
  }
}

/* What it means that a command of the first attempt was not executed although the one that decides
 * may have been. */
static uint64_t note_of_missed(weir_redis_step step) {
  switch (step) {
    case WEIR_STEP_SET_SEED:
    case WEIR_STEP_SET_DELTA:
      return WEIR_NOTE_UNSEEDED;
    case WEIR_STEP_PTTL:
      return WEIR_NOTE_ASK;
    case WEIR_STEP_PEXPIRE:
      return WEIR_NOTE_RENEW;
    default:
      return WEIR_NOTE_DOUBT;
  }
}

/* A node of a cluster did not execute it. False: nor says it where to go, or nobody follows, or a
 * node that was asked says so because ASKING was refused. */
static bool take_redirect(weir_wire_command *command, weir_redis_step step,
                          const weir_redis_reply *error, weir_message *message) {
  weir_operation *operation = &command->operation;
  const weir_redis_login *login = weir_redis_parser_settings(command->parser);
  bool asking = (command->attempt & WEIR_ATTEMPT_ASKING) != 0;
  weir_redirect redirect;
  if (login == NULL || login->nodes == NULL ||
      !weir_redirect_read(error->text, error->length, &redirect) ||
      (asking && operation->version_out >> WEIR_NOTE_CAUSE_SHIFT != 0))
    return false;
  int node = weir_redis_nodes_follow(login->nodes, login->node, &redirect,
                                     weir_redis_has_note(operation, WEIR_NOTE_ELSEWHERE));
  if (node == WEIR_REDIS_FULL) {
    const weir_redis_reply full = {.kind = WEIR_REPLY_ERROR, .text = WEIR_REDIS_TABLE_IS_FULL};
    note_refusal(command, step, &full, message);
    return true;
  }
  if (node < 0) return false;
  uint64_t how = WEIR_NOTE_MOVED;
  if (redirect.kind == WEIR_REDIRECT_CLUSTERDOWN) how = WEIR_NOTE_DOWN;
  if (redirect.kind == WEIR_REDIRECT_ASK || (redirect.kind == WEIR_REDIRECT_TRYAGAIN && asking))
    how = WEIR_NOTE_ASKED;
  operation->version_out &= ~(WEIR_NOTES_REDIRECTED | WEIR_NOTE_NODE);
  operation->version_out |= how | (uint64_t)node << WEIR_NOTE_NODE_SHIFT;
  bool first = (command->attempt & WEIR_ATTEMPT_FOLLOWS) == 0;
  if (first && !weir_redis_commands[step].decides && operation->kind != WEIR_GET)
    operation->version_out |= note_of_missed(step);
  return true;
}

static bool take_ok_or_nil(weir_operation *operation, weir_redis_step step,
                           const weir_redis_reply *reply) {
  bool ok = weir_redis_reply_is_ok(reply);
  if (!ok && (reply->kind != WEIR_REPLY_NIL || step == WEIR_STEP_SET_ALWAYS)) return false;
  if (weir_redis_commands[step].decides) {
    operation->outcome = ok ? WEIR_DONE : WEIR_CONFLICT;
  } else if (ok) {
    operation->version_out |= WEIR_NOTE_MADE;
  }
  return true;
}

static bool take_integer(weir_operation *operation, weir_redis_step step,
                         const weir_redis_reply *reply) {
  bool sub = operation->kind == WEIR_SUB;
  if (reply->kind != WEIR_REPLY_INTEGER) return false;
  if (step == WEIR_STEP_INCRBY || step == WEIR_STEP_DECRBY) {
    operation->value = reply->integer;
    operation->outcome =
        sub && weir_redis_has_note(operation, WEIR_NOTE_MADE) ? WEIR_ABSENT : WEIR_DONE;
  } else if (step == WEIR_STEP_INCRBY_OWED) {
    if (!sub) operation->value = reply->integer;
    operation->outcome = WEIR_DONE; /* of this step */
  } else if (step == WEIR_STEP_DEL) {
    operation->outcome = reply->integer > 0 ? WEIR_DONE : WEIR_ABSENT;
  } else if (step == WEIR_STEP_PTTL && operation->kind == WEIR_GET) {
    if (reply->integer == -2) operation->version_out |= WEIR_NOTE_GONE;
  } else if (step == WEIR_STEP_PTTL && reply->integer == -1) {
    operation->version_out |= WEIR_NOTE_BARE;
  }
  return true;
}

/* Scores are doubles: from 2^53 on a sum may have been rounded, to 2^53 itself as well. */
static bool is_exact_score(int64_t number) {
  return number > -SCORE_END && number < SCORE_END;
}

/* What is no integer was read, or written, all the same: the key is somebody else's. Nothing is
 * lost by refusing a SUB of it; a RAISE may have been counted. */
static bool take_value(weir_operation *operation, weir_redis_step step,
                       const weir_redis_reply *reply, weir_message *message) {
  bool text = reply->kind == WEIR_REPLY_STRING || reply->kind == WEIR_REPLY_LONG;
  int64_t number;
  if (reply->kind == WEIR_REPLY_NIL) {
    operation->outcome = WEIR_ABSENT;
    return true;
  }
  if (!text) return false;
  bool integer = weir_redis_reply_number(reply, &number);
  bool score = step != WEIR_STEP_GET && step != WEIR_STEP_BITFIELD;
  if (integer && (!score || is_exact_score(number))) {
    operation->value = number;
    operation->outcome = WEIR_DONE;
    return true;
  }
  operation->outcome = operation->kind == WEIR_RAISE ? WEIR_UNKNOWN : WEIR_REFUSED;
  if (!score) operation->version_out |= WEIR_NOTE_FOREIGN;
  char key[WEIR_KEY_SHOWN_BYTES];
  weir_message_set(
      message, "%s of key \"%s\": it holds %s", weir_redis_commands[step].name,
      weir_operation_show_key(operation, key),
      integer ? "a score beyond what is exact, 2^53" : "something that is not an integer");
  return true;
}

/* The first bytes of a key, as two integers of 8 and one of 5; where it ends they are 0. */
static bool take_first_bytes(weir_operation *operation, const weir_redis_reply *reply,
                             weir_message *message) {
  static const int bytes[WEIR_REPLY_ARRAY_LENGTH] = {8, 8, 5};
  weir_redis_reply text = {.kind = WEIR_REPLY_STRING};
  size_t length = 0;
  if (reply->kind != WEIR_REPLY_ARRAY) return false;
  for (size_t i = 0; i < WEIR_REPLY_ARRAY_LENGTH; i++)
    for (int left = bytes[i] - 1; left >= 0; left--)
      text.text[length++] = (char)((uint64_t)reply->array[i] >> 8 * left & 0xff);
  while (length > 0 && text.text[length - 1] == '\0')
    length--;
  text.length = length;
  if (text.length == 0 && weir_redis_has_note(operation, WEIR_NOTE_GONE))
    text.kind = WEIR_REPLY_NIL;
  return take_value(operation, WEIR_STEP_BITFIELD, &text, message);
}

/* False: no server answers this command so. */
static bool take_reply(weir_wire_command *command, weir_redis_step step,
                       const weir_redis_reply *reply, weir_message *message) {
  weir_operation *operation = &command->operation;
  if (reply->kind == WEIR_REPLY_ERROR) {
    if (!take_redirect(command, step, reply, message)) note_refusal(command, step, reply, message);
    return true;
  }
  switch (step) {
    case WEIR_STEP_ASKING:
      return weir_redis_reply_is_ok(reply);
    case WEIR_STEP_SET_SEED:
    case WEIR_STEP_SET_DELTA:
    case WEIR_STEP_SET_ABSENT:
    case WEIR_STEP_SET_ALWAYS:
      return take_ok_or_nil(operation, step, reply);
    case WEIR_STEP_GET:
    case WEIR_STEP_ZSCORE:
    case WEIR_STEP_ZADD_DELTA:
    case WEIR_STEP_ZADD_LESS:
      return take_value(operation, step, reply, message);
    case WEIR_STEP_BITFIELD:
      return take_first_bytes(operation, reply, message);
    default:
      return take_integer(operation, step, reply);
  }
}

static weir_reading decode(weir_wire_command *command, const char *bytes, size_t length,
                           size_t *taken, weir_message *message) {
  const weir_redis_reply *reply;
  weir_reading reading = weir_redis_parser_read(command->parser, bytes, length, taken, &reply);
  if (reading == WEIR_READING_BROKEN && weir_redis_parser_lacks_memory(command->parser))
    weir_message_set(message, "no memory to read the server's reply");
  if (reading != WEIR_READING_REPLY) return reading;
  const weir_redis_plan *plan = weir_redis_plan_of(command);
  bool asking = (command->attempt & WEIR_ATTEMPT_ASKING) != 0;
  bool asked = asking && command->replies % 2 == 0; /* the reply to ASKING */
  const weir_redis_step *step = plan->steps + (asking ? command->replies / 2 : command->replies);
  if (!take_reply(command, asked ? WEIR_STEP_ASKING : step[0], reply, message))
    return WEIR_READING_BROKEN;
  if (asked || step[1] != WEIR_STEP_END) return WEIR_READING_REPLY;
  weir_redis_conclude(command, plan, message);
  if (reply->kind == WEIR_REPLY_LONG && *taken > REPLY_DROPPED_MOST) return WEIR_READING_LAST;
  return WEIR_READING_DONE;
}

const weir_wire_codec weir_redis_codec = {.name = "Redis", .encode = encode, .decode = decode};

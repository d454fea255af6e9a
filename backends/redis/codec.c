/* Operations as commands, replies as outcomes.
 *
 * encode() writes the commands of an operation's plan (commands.c). decode() takes their replies
 * one by one: each says something of the operation, and the last of an attempt lets conclude() say
 * whether it is settled, or what another attempt must still find out or mend. */
#include "redis/codec.h"

#include <string.h>

#include "number.h"
#include "redis/cluster.h"
#include "redis/form.h"
#include "redis/refusal.h"

#define SCORE_END (INT64_C(1) << 53)

/* What is longer is not waited for. Dropping it as it comes would take the connection's time, and
 * the server's, from all other operations. */
enum { REPLY_DROPPED_MOST = 4 << 20 };

/* --- commands ----------------------------------------------------------------------------------
 */

/* What is known of the operation while its commands are written. */
typedef struct writing {
  const weir_wire_command *command;
  const weir_operation *operation; /* the command's */
  weir_redis_attempt attempt;
  const char *key; /* where the key was written first, as an argument; NULL: not yet */
  size_t key_length;
} writing;

/* "$<length>\r\n<digits>\r\n": the digits first, behind room for their length, which has two digits
 * itself from ten on. No figure of an operation has more than 20, sign and all. */
static char *put_number(char *out, uint64_t number, bool negative) {
  bool is_long = number >= (negative ? UINT64_C(100000000) : UINT64_C(1000000000));
  char *first = out + (is_long ? 5 : 4);
  *first = '-';
  char *end = weir_number_write(first + negative, number);
  int length = (int)(end - first);
  if (is_long) {
    memcpy(out, length < 20 ? "$10\r\n" : "$20\r\n", 5);
    out[2] = (char)('0' + length % 10);
  } else {
    memcpy(out, "$0\r\n", 4);
    out[1] = (char)('0' + length);
  }
  memcpy(end, "\r\n", 2);
  return end + 2;
}

/* An argument: its length and bytes. */
static char *put_key(const weir_operation *operation, char *out) {
  *out = '$';
  out = weir_number_write(out + 1, operation->key_length);
  memcpy(out, "\r\n", 2);
  memcpy(out + 2, operation->key, operation->key_length);
  out += 2 + operation->key_length;
  memcpy(out, "\r\n", 2);
  return out + 2;
}

static int64_t value_of(const writing *self, weir_redis_hole hole) {
  const weir_operation *operation = self->operation;
  switch (hole) {
    case WEIR_HOLE_TTL: /* a clock cut to whole ms: one more than the ceiling keeps the promise */
      return (operation->ttl_us + 999) / 1000 + 1;
    case WEIR_HOLE_SEED:
      return operation->seed;
    case WEIR_HOLE_WHOLE:
      return weir_redis_whole(operation);
    case WEIR_HOLE_VALUE:
      return operation->value;
    case WEIR_HOLE_FLOOR:
      return operation->floor;
    case WEIR_HOLE_OWED:
      return weir_redis_owed(operation, &self->attempt);
    case WEIR_HOLE_MORE:
      return operation->delta + 1;
    case WEIR_HOLE_MOST:
      return operation->floor - 1;
    case WEIR_HOLE_LEAST:
      return operation->delta - 1;
    default:
      return operation->delta;
  }
}

static char *put_step(writing *self, weir_redis_step step, char *out) {
  enum { AT_ONCE = 16 };
  const weir_redis_piece *piece = weir_redis_commands[step].pieces;
  for (; piece->text != NULL; piece++) {
    /* Sixteen bytes take as long as one. What is written behind a piece is written over, or not
     * sent. */
    memcpy(out, piece->text, AT_ONCE);
    if (piece->length > AT_ONCE)
      memcpy(out + AT_ONCE, piece->text + AT_ONCE, piece->length - AT_ONCE);
    out += piece->length;
    if (piece->hole == WEIR_HOLE_KEY && self->key != NULL) {
      memcpy(out, self->key, self->key_length);
      out += self->key_length;
    } else if (piece->hole == WEIR_HOLE_KEY) {
      self->key = out;
      out = put_key(self->operation, out);
      self->key_length = (size_t)(out - self->key);
    } else if (piece->hole == WEIR_HOLE_END) {
      break;
    } else if (piece->hole == WEIR_HOLE_KEYS) {
      for (unsigned i = 0; i <= self->command->followers; i++)
        out = put_key(&self->command[i].operation, out);
    } else {
      int64_t value = value_of(self, piece->hole);
      out = put_number(out, (uint64_t)value, piece->hole >= WEIR_HOLE_LESS && value != 0);
    }
  }
  return out;
}

static size_t encode(const weir_wire_command *command, int64_t unix_s, char *out) {
  writing text = {.command = command, .operation = &command->operation};
  char *end = out;
  (void)unix_s; /* Redis takes TTLs of any length */
  if (command->followers > 0) {
    *end = '*';
    end = weir_number_write(end + 1, command->followers + UINT64_C(2));
    memcpy(end, "\r\n", 2);
    return (size_t)(put_step(&text, WEIR_STEP_MGET, end + 2) - out);
  }
  memcpy(&text.attempt, command->notes, sizeof text.attempt);
  const weir_redis_step *step = weir_redis_plans[text.attempt.plan].steps;
  for (; *step != WEIR_STEP_END; step++) {
    if (text.attempt.route == WEIR_ROUTE_ONCE) end = put_step(&text, WEIR_STEP_ASKING, end);
    end = put_step(&text, *step, end);
  }
  return (size_t)(end - out);
}

/* --- replies -----------------------------------------------------------------------------------
 */

/* One reply, to one command of an operation. */
typedef struct redis_answer {
  weir_wire_command *command;
  weir_operation *operation; /* the command's */
  weir_redis_attempt *attempt;
  weir_redis_step step;
  const weir_redis_reply *reply;
  weir_message *message;
} redis_answer;

static bool is_seeding(weir_redis_step step) {
  return step == WEIR_STEP_SET_SEED || step == WEIR_STEP_SET_ZERO || step == WEIR_STEP_SET_DELTA;
}

/* Out of line, as is all that few replies are: what nearly every one goes through is short. */
__attribute__((cold, noinline)) static void take_refusal(const redis_answer *at,
                                                         const weir_redis_reply *error) {
  const weir_redis_command *refused = &weir_redis_commands[at->step];
  weir_operation *operation = at->operation;
  weir_redis_attempt *attempt = at->attempt;
  unsigned cause;
  weir_outcome outcome = weir_redis_refusal_classify(error, &cause);
  at->command->demoted |= weir_redis_refusal_is_demotion(error);
  if (attempt->cause == 0) { /* the first is the one to explain */
    attempt->cause = (uint8_t)(cause + 1);
    weir_redis_refusal_explain(cause, refused->name, operation, error, at->message);
  }
  if (at->step == WEIR_STEP_BITFIELD && weir_redis_refusal_bars(error))
    attempt->facts |= WEIR_FACT_BARRED;
  if (weir_redis_refusal_is_foreign(error)) attempt->facts |= WEIR_FACT_FOREIGN;
  if (operation->kind == WEIR_GET) outcome = WEIR_REFUSED; /* changes nothing, executed or not */
  if (refused->decides) operation->outcome = outcome;
  if (at->step == WEIR_STEP_INCRBY_OWED) operation->outcome = WEIR_UNKNOWN;
  if (is_seeding(at->step))
    attempt->facts |= WEIR_FACT_UNSEEDED;
  else if (!refused->decides)
    attempt->facts |= WEIR_FACT_DOUBT;
}

/* A node of a cluster did not execute it. False: nor does it say where to go, or redirections are
 * not followed, or a node that was asked says so because ASKING was refused. */
__attribute__((cold, noinline)) static bool take_redirection(const redis_answer *at) {
  const weir_redis_login *login = weir_redis_parser_settings(at->command->parser);
  weir_redis_attempt *attempt = at->attempt;
  bool asking = attempt->route == WEIR_ROUTE_ONCE;
  weir_redirect redirect;
  if (login == NULL || login->nodes == NULL || (asking && attempt->cause != 0) ||
      !weir_redirect_read(at->reply->text, at->reply->length, &redirect))
    return false;
  int node = weir_redis_nodes_follow(login->nodes, login->node, &redirect,
                                     attempt->route == WEIR_ROUTE_STAND_IN);
  if (node == WEIR_REDIS_FULL) {
    const weir_redis_reply full = {.kind = WEIR_REPLY_ERROR, .text = WEIR_REDIS_TABLE_IS_FULL};
    take_refusal(at, &full);
    return true;
  }
  if (node < 0) return false;
  attempt->node = (uint16_t)node;
  attempt->told = WEIR_TOLD_MOVED;
  if (redirect.kind == WEIR_REDIRECT_CLUSTERDOWN) attempt->told = WEIR_TOLD_DOWN;
  if (redirect.kind == WEIR_REDIRECT_ASK || (redirect.kind == WEIR_REDIRECT_TRYAGAIN && asking))
    attempt->told = WEIR_TOLD_ASK;

  /* It was not executed although the command that decides may have been. */
  if (attempt->stage != WEIR_STAGE_FIRST || weir_redis_commands[at->step].decides ||
      at->operation->kind == WEIR_GET)
    return true;
  if (is_seeding(at->step))
    attempt->facts |= WEIR_FACT_UNSEEDED;
  else if (at->step == WEIR_STEP_PTTL)
    attempt->facts |= WEIR_FACT_UNASKED;
  else if (at->step == WEIR_STEP_PEXPIRE)
    attempt->facts |= WEIR_FACT_UNRENEWED;
  else
    attempt->facts |= WEIR_FACT_DOUBT;
  return true;
}

/* What is no integer was read, or written, all the same: the key is another program's. Nothing is
 * lost by refusing a SUB of it; a RAISE may have been counted. Scores are doubles: from 2^53 on a
 * sum may have been rounded, to 2^53 itself as well. */
static bool take_value(const redis_answer *at, const weir_redis_reply *reply) {
  weir_operation *operation = at->operation;
  int64_t number;
  if (reply->kind == WEIR_REPLY_NIL) {
    operation->outcome = WEIR_ABSENT;
    return true;
  }
  if (reply->kind != WEIR_REPLY_STRING && reply->kind != WEIR_REPLY_LONG) return false;
  bool integer = weir_redis_reply_number(reply, &number);
  bool score = at->step != WEIR_STEP_GET && at->step != WEIR_STEP_BITFIELD;
  if (integer && (!score || (number > -SCORE_END && number < SCORE_END))) {
    operation->value = number;
    operation->outcome = WEIR_DONE;
    return true;
  }
  operation->outcome = operation->kind == WEIR_RAISE ? WEIR_UNKNOWN : WEIR_REFUSED;
  if (!score) at->attempt->facts |= WEIR_FACT_FOREIGN;
  char key[WEIR_KEY_SHOWN_BYTES];
  weir_message_set(
      at->message, "%s of key \"%s\": it holds %s", weir_redis_commands[at->step].name,
      weir_operation_show_key(operation, key),
      integer ? "a score beyond what is exact, 2^53" : "something that is not an integer");
  return true;
}

/* The first bytes of a key, as two integers of 8 and one of 5; where it ends they are 0. */
__attribute__((cold, noinline)) static bool take_first_bytes(const redis_answer *at) {
  static const int bytes[WEIR_REPLY_ARRAY_LENGTH] = {8, 8, 5};
  weir_redis_reply text = {.kind = WEIR_REPLY_STRING};
  if (at->reply->kind != WEIR_REPLY_ARRAY || at->reply->length != WEIR_REPLY_ARRAY_LENGTH)
    return false;
  for (size_t i = 0; i < WEIR_REPLY_ARRAY_LENGTH; i++)
    for (int left = bytes[i] - 1; left >= 0; left--)
      text.text[text.length++] = (char)((uint64_t)at->reply->array[i] >> 8 * left & 0xff);
  while (text.length > 0 && text.text[text.length - 1] == '\0')
    text.length--;
  if (text.length == 0 && (at->attempt->facts & WEIR_FACT_GONE) != 0) text.kind = WEIR_REPLY_NIL;
  return take_value(at, &text);
}

/* Nothing was executed, and the plain form can do it. */
static void go_plainly(weir_redis_attempt *attempt) {
  attempt->told = WEIR_TOLD_PLAIN;
  attempt->facts |= WEIR_FACT_PLAIN;
}

/* The node does not have the command, or not any more, or not for this user. */
__attribute__((cold, noinline)) static bool take_withdrawal(const redis_answer *at) {
  const weir_redis_login *login = weir_redis_parser_settings(at->command->parser);
  bool bounded = (at->attempt->facts & WEIR_FACT_BOUNDED) != 0;
  if (!bounded || !weir_redis_refusal_lacks(at->reply)) return false;
  if (login != NULL && login->form != NULL) weir_redis_form_withdraw(login->form);
  go_plainly(at->attempt);
  return true;
}

/* Nothing was added. An ADD has met its bound, or the total would be beyond an int64; with a seed it may have
 * met no key. A SUB has met no key, or one of 0 or less, which is there all the same: the plain form tells
 * which, and takes from it. */
__attribute__((cold, noinline)) static bool take_nothing(const redis_answer *at, int64_t total) {
  static const weir_redis_reply overflow = {.kind = WEIR_REPLY_ERROR,
                                            .text = "ERR increment or decrement would overflow"};
  weir_operation *operation = at->operation;
  bool adds = operation->kind == WEIR_ADD;
  if (total <= 0 && (!adds || operation->seed > 0)) {
    go_plainly(at->attempt);
  } else if (adds && operation->floor > 0) {
    operation->value = total;
    operation->outcome = WEIR_FULL;
    return total > operation->floor - 1 - operation->delta;
  } else if (adds)
    take_refusal(at, &overflow);
  else
    return false;
  return true;
}

/* What is there now, and what was added to it: all, or nothing. */
static bool take_total(const redis_answer *at) {
  const weir_redis_reply *reply = at->reply;
  weir_operation *operation = at->operation;
  bool sub = operation->kind == WEIR_SUB;
  if (reply->kind != WEIR_REPLY_ARRAY || reply->length != 2) return false;
  if (reply->array[1] == 0) return take_nothing(at, reply->array[0]);
  operation->value = reply->array[0];
  operation->outcome = WEIR_DONE;
  return reply->array[1] == (sub ? -operation->delta : operation->delta);
}

/* PTTL answers -1 where the key has no TTL, and -2 where there is no such key. */
static void take_time_left(const redis_answer *at) {
  bool reads = at->operation->kind == WEIR_GET;
  if (at->reply->integer == (reads ? -2 : -1))
    at->attempt->facts |= reads ? WEIR_FACT_GONE : WEIR_FACT_BARE;
}

/* False: no server answers this command so. */
static bool take_reply(const redis_answer *at) {
  const weir_redis_reply *reply = at->reply;
  weir_operation *operation = at->operation;
  bool sub = operation->kind == WEIR_SUB;
  bool nil = reply->kind == WEIR_REPLY_NIL;
  bool integer = reply->kind == WEIR_REPLY_INTEGER;
  if (reply->kind == WEIR_REPLY_ERROR) {
    if (!take_redirection(at) && !take_withdrawal(at)) take_refusal(at, reply);
    return true;
  }
  switch (at->step) {
    case WEIR_STEP_ASKING:
      return weir_redis_reply_is_ok(reply);
    case WEIR_STEP_SET_SEED:
    case WEIR_STEP_SET_ZERO:
    case WEIR_STEP_SET_DELTA:
      if (nil) return true;
      at->attempt->facts |= WEIR_FACT_MADE;
      return weir_redis_reply_is_ok(reply);
    case WEIR_STEP_SET_ABSENT:
      operation->outcome = nil ? WEIR_CONFLICT : WEIR_DONE;
      return nil || weir_redis_reply_is_ok(reply);
    case WEIR_STEP_SET_ALWAYS:
      operation->outcome = WEIR_DONE;
      return weir_redis_reply_is_ok(reply);
    case WEIR_STEP_INCRBY:
    case WEIR_STEP_DECRBY:
      operation->value = reply->integer;
      operation->outcome =
          sub && (at->attempt->facts & WEIR_FACT_MADE) != 0 ? WEIR_ABSENT : WEIR_DONE;
      return integer;
    case WEIR_STEP_INCREX:
    case WEIR_STEP_INCREX_RENEW:
    case WEIR_STEP_INCREX_MOST:
    case WEIR_STEP_INCREX_THERE:
    case WEIR_STEP_INCREX_LESS:
      return take_total(at);
    case WEIR_STEP_INCRBY_OWED:
      if (!sub) operation->value = reply->integer;
      operation->outcome = WEIR_DONE; /* of this step */
      return integer;
    case WEIR_STEP_DEL:
      operation->outcome = reply->integer > 0 ? WEIR_DONE : WEIR_ABSENT;
      return integer;
    case WEIR_STEP_PTTL:
      take_time_left(at);
      return integer;
    case WEIR_STEP_BITFIELD:
      return take_first_bytes(at);
    case WEIR_STEP_GET:
    case WEIR_STEP_ZSCORE:
    case WEIR_STEP_ZADD_DELTA:
    case WEIR_STEP_ZADD_LESS:
      return take_value(at, reply);
    default: /* PEXPIRE, ZADD: whether they have changed something */
      return integer;
  }
}

/* --- what an attempt adds up to ----------------------------------------------------------------
 *
 * After the last reply of an attempt the first row holds that has the operation's stage, kind and
 * outcome, as the replies have left it, and all of whose facts are known. */

/* Besides enum weir_redis_fact: a node named another, or said that the cluster is down; and the
 * total is what the operation's own sum makes of an absent key, or of one that stood at 0. */
enum { TOLD = WEIR_FACTS_END, OWN_TOTAL = WEIR_FACTS_END << 1 };

enum { ANY = 0xffff, GET = 1 << WEIR_GET, SUB = 1 << WEIR_SUB };
enum {
  PENDING = 1 << WEIR_PENDING,
  DONE = 1 << WEIR_DONE,
  SUMMED = 1 << WEIR_DONE | 1 << WEIR_ABSENT,
  KNOWN = ANY & ~(1 << WEIR_UNKNOWN)
};
enum { AS_IT_IS = WEIR_FULL + 1 };

typedef struct conclusion {
  uint8_t stage;
  uint16_t kinds, outcomes; /* bits */
  uint32_t facts;
  uint8_t next_stage, outcome;
} conclusion;

static const conclusion conclusions[] = {
    /* A GET changes nothing, and goes again until a node answers it. */
    {WEIR_STAGE_FIRST, GET, ANY, TOLD, WEIR_STAGE_FIRST, WEIR_PENDING},
    {WEIR_STAGE_FIRST, GET, ANY, 0, WEIR_STAGE_SETTLED, AS_IT_IS},
    /* What decides was not executed. */
    {WEIR_STAGE_FIRST, ANY, PENDING, TOLD, WEIR_STAGE_FIRST, WEIR_PENDING},
    /* The sum stands. Its key has no TTL, or may have none. */
    {WEIR_STAGE_FIRST, ANY, SUMMED, WEIR_FACT_BARE, WEIR_STAGE_MEND, WEIR_PENDING},
    {WEIR_STAGE_FIRST, ANY, SUMMED, WEIR_FACT_UNASKED, WEIR_STAGE_ASK_TTL, WEIR_PENDING},
    {WEIR_STAGE_FIRST, ANY, SUMMED, WEIR_FACT_SEEN | OWN_TOTAL, WEIR_STAGE_ASK_TTL, WEIR_PENDING},
    {WEIR_STAGE_FIRST, ANY, DONE, WEIR_FACT_UNRENEWED, WEIR_STAGE_MEND, WEIR_PENDING},
    {WEIR_STAGE_FIRST, ANY, SUMMED, WEIR_FACT_DOUBT, WEIR_STAGE_SETTLED, WEIR_UNKNOWN},
    {WEIR_STAGE_FIRST, ANY, ANY, 0, WEIR_STAGE_SETTLED, AS_IT_IS}, /* a refused SET is of no
                                                                      consequence here */

    {WEIR_STAGE_ASK_TTL, ANY, ANY, TOLD, WEIR_STAGE_ASK_TTL, WEIR_PENDING},
    {WEIR_STAGE_ASK_TTL, ANY, ANY, WEIR_FACT_BARE, WEIR_STAGE_MEND, WEIR_PENDING},
    {WEIR_STAGE_ASK_TTL, ANY, ANY, WEIR_FACT_UNRENEWED, WEIR_STAGE_MEND, WEIR_PENDING},
    {WEIR_STAGE_ASK_TTL, ANY, ANY, WEIR_FACT_DOUBT, WEIR_STAGE_SETTLED, WEIR_UNKNOWN},
    {WEIR_STAGE_ASK_TTL, SUB, ANY, WEIR_FACT_MADE, WEIR_STAGE_SETTLED, WEIR_ABSENT},
    {WEIR_STAGE_ASK_TTL, ANY, ANY, 0, WEIR_STAGE_SETTLED, WEIR_DONE},

    /* What the first attempt wrote stands, so a refusal since leaves doubt. */
    {WEIR_STAGE_MEND, ANY, KNOWN, TOLD, WEIR_STAGE_MEND, WEIR_PENDING},
    {WEIR_STAGE_MEND, ANY, ANY, WEIR_FACT_UNSEEDED, WEIR_STAGE_SETTLED, WEIR_UNKNOWN},
    {WEIR_STAGE_MEND, ANY, ANY, WEIR_FACT_DOUBT, WEIR_STAGE_SETTLED, WEIR_UNKNOWN},
    {WEIR_STAGE_MEND, SUB, ANY, WEIR_FACT_OWED, WEIR_STAGE_SETTLED, WEIR_ABSENT},
    {WEIR_STAGE_MEND, SUB, ANY, WEIR_FACT_MADE, WEIR_STAGE_SETTLED, WEIR_ABSENT},
    {WEIR_STAGE_MEND, ANY, ANY, 0, WEIR_STAGE_SETTLED, WEIR_DONE},
};

void weir_redis_go_again(weir_redis_attempt *attempt) {
  attempt->stage = WEIR_STAGE_FIRST;
  attempt->cause = 0;
  attempt->facts &= WEIR_FACT_MADE | WEIR_FACT_SEEN | WEIR_FACT_SHORT | WEIR_FACT_FOREIGN |
                    WEIR_FACT_BARRED | WEIR_FACT_PLAIN;
}

static const conclusion *conclusion_of(const weir_operation *operation,
                                       const weir_redis_attempt *attempt, uint32_t facts) {
  const conclusion *row = conclusions;
  while (row->stage != attempt->stage || (row->kinds >> operation->kind & 1) == 0 ||
         (row->outcomes >> operation->outcome & 1) == 0 || (facts & row->facts) != row->facts)
    row++;
  return row;
}

/* In doubt since an attempt whose message is gone: only the cause was kept. */
static void explain_doubt(const weir_operation *operation, const weir_redis_attempt *attempt,
                          weir_message *message) {
  bool unseeded = (attempt->facts & WEIR_FACT_UNSEEDED) != 0;
  weir_redis_step step = unseeded ? WEIR_STEP_SET_SEED : WEIR_STEP_PEXPIRE;
  if (unseeded || message->text[0] == '\0')
    weir_redis_refusal_explain(attempt->cause - 1U, weir_redis_commands[step].name, operation, NULL,
                               message);
}

void weir_redis_conclude(weir_operation *operation, weir_redis_attempt *attempt,
                         weir_message *message) {
  int64_t own = operation->kind == WEIR_SUB ? -operation->delta : operation->delta;
  uint32_t open = TOLD | WEIR_FACT_BARE | WEIR_FACT_UNASKED | WEIR_FACT_UNRENEWED | WEIR_FACT_DOUBT;
  uint32_t facts = attempt->facts;
  bool first = attempt->stage == WEIR_STAGE_FIRST;
  if (attempt->told != WEIR_TOLD_NOTHING) facts |= TOLD;
  if (operation->value == own && (facts & WEIR_FACT_BOUNDED) == 0) {
    facts |= OWN_TOTAL;
    open |= WEIR_FACT_SEEN;
  }
  /* Nearly always nothing is left open: the last row of the first stage, without a look at all. */
  if (first && (facts & open) == 0) {
    attempt->stage = WEIR_STAGE_SETTLED;
    return;
  }
  const conclusion *row = conclusion_of(operation, attempt, facts);
  bool mended = attempt->stage == WEIR_STAGE_MEND && operation->outcome == WEIR_DONE;
  bool may_owe = first && (row->facts & (WEIR_FACT_BARE | WEIR_FACT_UNASKED | WEIR_FACT_SEEN)) != 0;
  if (may_owe && (facts & OWN_TOTAL) != 0) attempt->facts |= WEIR_FACT_OWED;
  if (mended) attempt->facts |= WEIR_FACT_PAID;
  attempt->stage = row->next_stage;
  if (row->outcome != AS_IT_IS) operation->outcome = (weir_outcome)row->outcome;
  if (first && attempt->stage == WEIR_STAGE_FIRST) weir_redis_go_again(attempt);
  if (!first && operation->outcome == WEIR_UNKNOWN) explain_doubt(operation, attempt, message);
}

/* --- several GETs that are one MGET --------------------------------------------------------------
 *
 * Of a member that is a string MGET says what GET would. "nil" may be a key of another type, for which
 * GET has an error; and an error is for all members. So in both cases GET asks, in another round. As
 * only keys go together to which this process has lately added, that is rare. */

/* The member goes again alone. */
static void part(weir_wire_command *command, weir_redis_attempt *attempt, weir_message *message) {
  if (attempt->told == WEIR_TOLD_NOTHING) attempt->told = WEIR_TOLD_ALONE;
  attempt->parted = true;
  weir_redis_conclude(&command->operation, attempt, message);
}

/* None of the members was read. A cluster may say where they are instead; else each learns why from a
 * GET. */
static weir_reading take_error_of_all(weir_wire_command *first, const weir_redis_reply *error,
                                      weir_message *message) {
  for (unsigned i = 0; i <= first->followers; i++) {
    weir_wire_command *command = &first[i];
    weir_redis_attempt attempt;
    memcpy(&attempt, command->notes, sizeof attempt);
    const redis_answer at = {.command = command,
                             .operation = &command->operation,
                             .attempt = &attempt,
                             .step = WEIR_STEP_MGET,
                             .reply = error,
                             .message = message};
    attempt.unjoined = weir_redis_refusal_bars(error);
    take_redirection(&at);
    part(command, &attempt, message);
    memcpy(command->notes, &attempt, sizeof attempt);
  }
  first->shared = first->followers;
  return WEIR_READING_DONE;
}

/* The count of members, an error for all of them, or what there is of one. */
__attribute__((cold, noinline)) static weir_reading decode_joined(weir_wire_command *command,
                                                                  const char *bytes, size_t length,
                                                                  size_t *taken,
                                                                  weir_message *message) {
  weir_redis_attempt attempt;
  const weir_redis_reply *reply;
  bool begins = command->followers > 0 && command->replies == 0;
  if (begins && bytes[0] == '*')
    return weir_redis_reply_opens(bytes, length, command->followers + 1U, taken);
  weir_reading reading = weir_redis_parser_read(command->parser, bytes, length, taken, &reply);
  if (reading != WEIR_READING_REPLY) return reading;
  if (begins)
    return reply->kind == WEIR_REPLY_ERROR ? take_error_of_all(command, reply, message)
                                           : WEIR_READING_BROKEN;
  memcpy(&attempt, command->notes, sizeof attempt);
  const redis_answer at = {.command = command,
                           .operation = &command->operation,
                           .attempt = &attempt,
                           .step = WEIR_STEP_GET,
                           .reply = reply,
                           .message = message};
  if (reply->kind != WEIR_REPLY_NIL && !take_reply(&at)) return WEIR_READING_BROKEN;
  if (reply->kind == WEIR_REPLY_NIL)
    part(command, &attempt, message);
  else
    weir_redis_conclude(at.operation, &attempt, message);
  memcpy(command->notes, &attempt, sizeof attempt);
  bool dropped = reply->kind == WEIR_REPLY_LONG && *taken > REPLY_DROPPED_MOST;
  return dropped ? WEIR_READING_LAST : WEIR_READING_DONE;
}

static weir_reading decode(weir_wire_command *command, const char *bytes, size_t length,
                           size_t *taken, weir_message *message) {
  weir_redis_attempt attempt;
  const weir_redis_reply *reply;
  if (weir_wire_is_joined(command)) return decode_joined(command, bytes, length, taken, message);
  weir_reading reading = weir_redis_parser_read(command->parser, bytes, length, taken, &reply);
  if (reading != WEIR_READING_REPLY) {
    if (reading == WEIR_READING_BROKEN && weir_redis_parser_lacks_memory(command->parser))
      weir_message_set(message, "no memory to read the server's reply");
    return reading;
  }

  /* Which command it answers: each has one reply, and so has ASKING where it stands before each. */
  memcpy(&attempt, command->notes, sizeof attempt);
  const weir_redis_step *step = weir_redis_plans[attempt.plan].steps;
  bool asking = attempt.route == WEIR_ROUTE_ONCE;
  bool asked = asking && command->replies % 2 == 0;
  step += asking ? command->replies / 2 : command->replies;
  bool more = asked || step[1] != WEIR_STEP_END;
  const redis_answer at = {.command = command,
                           .operation = &command->operation,
                           .attempt = &attempt,
                           .step = asked ? WEIR_STEP_ASKING : *step,
                           .reply = reply,
                           .message = message};
  if (!take_reply(&at)) return WEIR_READING_BROKEN;
  if (!more) weir_redis_conclude(at.operation, &attempt, message);
  memcpy(command->notes, &attempt, sizeof attempt);
  if (more) return WEIR_READING_REPLY;
  if (reply->kind == WEIR_REPLY_LONG && *taken > REPLY_DROPPED_MOST) return WEIR_READING_LAST;
  return WEIR_READING_DONE;
}

const weir_wire_codec weir_redis_codec = {.name = "Redis", .encode = encode, .decode = decode};

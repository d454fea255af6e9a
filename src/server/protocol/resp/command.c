/* From a request's words to its answer, or to what is asked of a limiter.
 *
 * A request finds its command in the table at the end of the first part. Most answer at once, with bytes
 * in `out`; those that ask for a decision fill in `ask`, and weir_resp_answer() words it when it is
 * there. A command is named by Redis, by redis-cell (CL.THROTTLE), by throttlecrab (THROTTLE) or by
 * weir (WEIR.TAKE, ...), and answers as that one does. */
#include "protocol/resp/command.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* How an answer is worded: weir_order.form. Names and values are a flat array in RESP2 and a map in RESP3,
 * by what the connection spoke when it asked. */
enum form { FLAT, MAP, CL_THROTTLE, THROTTLE };

/* One request on its way through the table. */
typedef struct weir_resp_call {
  weir_resp_session *session;
  const weir_resp_server *server;
  const weir_resp_argument *arguments; /* [0] is the command's name */
  size_t count;
  weir_bytes *out;
  weir_order *order;
  weir_order_room *room;
  const weir_verb_row *row; /* of a command that names a limiter */
  enum form form;           /* of one that brings its rule */
} weir_resp_call;

/* Whether an argument is this word, in letters of either case. */
static bool is(const weir_resp_argument *argument, const char *word) {
  return strlen(word) == argument->length &&
         strncasecmp(argument->bytes, word, argument->length) == 0;
}

void weir_resp_error(weir_bytes *out, const char *text) {
  weir_bytes_text(out, "-ERR ");
  size_t begin = out->length;
  weir_bytes_text(out, text);
  for (size_t i = begin; i < out->length; i++)
    if (out->data[i] < 0x20 || out->data[i] > 0x7e) out->data[i] = '?';
  weir_bytes_text(out, "\r\n");
}

void weir_resp_bulk(weir_bytes *out, const char *bytes, size_t length) {
  weir_bytes_text(out, "$");
  weir_bytes_number(out, (int64_t)length);
  weir_bytes_text(out, "\r\n");
  weir_bytes_add(out, bytes, length);
  weir_bytes_text(out, "\r\n");
}

/* The head of `count` names, each with its value behind it. */
static void begin_pairs(weir_bytes *out, enum form form, size_t count) {
  weir_bytes_text(out, form == MAP ? "%" : "*");
  weir_bytes_number(out, (int64_t)(form == MAP ? count : 2 * count));
  weir_bytes_text(out, "\r\n");
}

static enum form pairs_of(const weir_resp_session *session) {
  return session->speaks_3 ? MAP : FLAT;
}

static weir_resp_outcome say(const weir_resp_call *call, const char *line) {
  weir_bytes_text(call->out, line);
  return WEIR_RESP_ANSWERED;
}

static weir_resp_outcome refuse(const weir_resp_call *call, const char *text) {
  weir_resp_error(call->out, text);
  return WEIR_RESP_ANSWERED;
}

/* The words behind the name may be a secret. */
static weir_resp_outcome refuse_unknown(const weir_resp_call *call) {
  enum { SHOWN_MOST = 64 };
  char text[SHOWN_MOST + 32];
  const weir_resp_argument *name = &call->arguments[0];
  snprintf(text, sizeof text, "unknown command '%.*s'",
           name->length < SHOWN_MOST ? (int)name->length : SHOWN_MOST, name->bytes);
  return refuse(call, text);
}

/* --- who a client is, and what it would like to speak ------------------------------------------ */

/* Looks at every credential, whichever fits, so that the time tells nothing. Says nothing where one is
 * good. */
static bool log_in(const weir_resp_call *call, const weir_resp_argument *user,
                   const weir_resp_argument *secret) {
  const weir_resp_server *server = call->server;
  bool found = false;
  for (size_t i = 0; i < server->credential_count; i++) {
    const weir_config_credential *one = &server->credentials[i];
    bool named = weir_secret_equals(one->user, strlen(one->user), user->bytes, user->length);
    bool fits = weir_secret_equals(one->secret, one->secret_length, secret->bytes, secret->length);
    found |= named & fits;
  }
  if (found) call->session->known = true;
  if (!found) say(call, "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
  return found;
}

static weir_resp_outcome run_auth(const weir_resp_call *call) {
  static const weir_resp_argument everybody = {"default", 7};
  if (call->server->credential_count == 0)
    return refuse(call, "AUTH is not needed: this server asks for no password");
  const weir_resp_argument *user = call->count == 3 ? &call->arguments[1] : &everybody;
  if (!log_in(call, user, &call->arguments[call->count - 1])) return WEIR_RESP_STRANGER;
  return say(call, "+OK\r\n");
}

static bool set_name(const weir_resp_call *call, const weir_resp_argument *name) {
  if (name->length > WEIR_RESP_NAME_MOST) {
    refuse(call, "the name is too long: 64 bytes are accepted");
    return false;
  }
  for (size_t i = 0; i < name->length; i++)
    if (name->bytes[i] < 0x21 || name->bytes[i] > 0x7e) {
      refuse(call, "Client names cannot contain spaces, newlines or special characters.");
      return false;
    }
  memcpy(call->session->name, name->bytes, name->length);
  call->session->name[name->length] = '\0';
  return true;
}

/* HELLO [2|3 [AUTH user password] [SETNAME name]]. A refusal changes no version. */
static weir_resp_outcome run_hello(const weir_resp_call *call) {
  static const char version[] = WEIR_VERSION_TEXT;
  const weir_resp_argument *arguments = call->arguments;
  weir_resp_session *session = call->session;
  bool wants_3 = call->count > 1 ? is(&arguments[1], "3") : session->speaks_3;
  if (call->count > 1 && !wants_3 && !is(&arguments[1], "2"))
    return say(call, "-NOPROTO unsupported protocol version: 2 and 3 are accepted\r\n");
  for (size_t i = 2; i < call->count;) {
    if (is(&arguments[i], "AUTH") && i + 2 < call->count) {
      if (!log_in(call, &arguments[i + 1], &arguments[i + 2])) return WEIR_RESP_STRANGER;
      i += 3;
    } else if (is(&arguments[i], "SETNAME") && i + 1 < call->count) {
      if (!set_name(call, &arguments[i + 1])) return WEIR_RESP_ANSWERED;
      i += 2;
    } else {
      return refuse(call, "HELLO: AUTH USER PASSWORD and SETNAME NAME are accepted");
    }
  }
  if (!session->known)
    return say(call,
               "-NOAUTH HELLO must be called with AUTH USER PASSWORD, or after "
               "AUTH\r\n");
  session->speaks_3 = wants_3;
  begin_pairs(call->out, pairs_of(session), 7);
  say(call, "$6\r\nserver\r\n$4\r\nweir\r\n$7\r\nversion\r\n");
  weir_resp_bulk(call->out, version, sizeof version - 1);
  say(call, wants_3 ? "$5\r\nproto\r\n:3\r\n" : "$5\r\nproto\r\n:2\r\n");
  say(call, "$2\r\nid\r\n:");
  weir_bytes_number(call->out, (int64_t)session->id);
  return say(call,
             "\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
             "$7\r\nmodules\r\n*0\r\n");
}

/* The connection is as at its start. Its places stay held: it has not ended. */
static weir_resp_outcome run_reset(const weir_resp_call *call) {
  *call->session = (weir_resp_session){.id = call->session->id};
  return say(call, "+RESET\r\n");
}

static weir_resp_outcome run_client(const weir_resp_call *call) {
  const weir_resp_argument *what = &call->arguments[1];
  const char *name = call->session->name;
  if (is(what, "SETNAME") && call->count == 3)
    return set_name(call, &call->arguments[2]) ? say(call, "+OK\r\n") : WEIR_RESP_ANSWERED;
  if (is(what, "SETINFO") && call->count == 4) return say(call, "+OK\r\n");
  if (is(what, "NO-EVICT") && call->count == 3 && /* none is evicted */
      (is(&call->arguments[2], "ON") || is(&call->arguments[2], "OFF")))
    return say(call, "+OK\r\n");
  if (is(what, "TRACKING"))
    return refuse(call, "CLIENT TRACKING: no key has a value that a client could keep");
  if (is(what, "GETNAME") && call->count == 2) {
    weir_resp_bulk(call->out, name, strlen(name));
    return WEIR_RESP_ANSWERED;
  }
  if (!is(what, "ID") || call->count != 2)
    return refuse(call,
                  "CLIENT: SETNAME NAME, GETNAME, SETINFO NAME VALUE, NO-EVICT ON or OFF, and ID "
                  "are accepted");
  weir_bytes_format(call->out, ":%llu\r\n", (unsigned long long)call->session->id);
  return WEIR_RESP_ANSWERED;
}

static weir_resp_outcome run_select(const weir_resp_call *call) {
  if (is(&call->arguments[1], "0")) return say(call, "+OK\r\n");
  return refuse(call, "DB index is out of range: 0 is accepted");
}

/* PING and ECHO. */
static weir_resp_outcome run_ping(const weir_resp_call *call) {
  if (call->count == 1) return say(call, "+PONG\r\n");
  weir_resp_bulk(call->out, call->arguments[1].bytes, call->arguments[1].length);
  return WEIR_RESP_ANSWERED;
}

/* --- what is asked of a limiter ----------------------------------------------------------------- */

static bool take_key(const weir_resp_call *call, const weir_resp_argument *key) {
  if (key->length == 0 || key->length > call->server->key_most) {
    weir_bytes_format(call->out, "-ERR the key has %zu bytes: 1 to %zu are accepted\r\n",
                      key->length, call->server->key_most);
    return false;
  }
  call->order->key = key->bytes;
  call->order->key_length = key->length;
  return true;
}

/* The keys behind the limiter's name; how many words have been read then. 0: they are none, which is
 * answered. */
static size_t take_keys(const weir_resp_call *call) {
  const weir_resp_server *server = call->server;
  const weir_resp_argument *arguments = call->arguments;
  bool is_group = server->count_keys != NULL && weir_verb_accepts(call->row, WEIR_ARG_KEYS);
  size_t keys =
      is_group ? server->count_keys(server->context, arguments[1].bytes, arguments[1].length) : 1;
  if (call->count < keys + 2) {
    weir_bytes_format(call->out, "-ERR this is a group of %zu: a key for each is accepted\r\n",
                      keys);
    return 0;
  }
  for (size_t i = 0; i < keys; i++) {
    if (!take_key(call, &arguments[2 + i])) return 0;
    if (keys > 1)
      call->room->keys[i] = (weir_order_key){arguments[2 + i].bytes, arguments[2 + i].length};
  }
  if (keys > 1) call->order->keys = call->room->keys;
  if (keys > 1) call->order->key_count = keys;
  return keys + 2;
}

/* False: the refusal is answered. */
static bool take_argument(const weir_resp_call *call, weir_arg arg,
                          const weir_resp_argument *argument) {
  const weir_arg_row *row = &weir_args[arg];
  const weir_said said = {row->resp, argument->bytes, argument->length, false};
  weir_message why;
  if (weir_arg_is_amount(row)) weir_arg_read_amount(arg, call->room, said.text, said.length);
  if (row->read(call->order, call->room, &said, &why)) return true;
  refuse(call, why.text);
  return false;
}

/* The argument that a word stands in front of; WEIR_ARGS: it is no word of this verb. */
static weir_arg find_word(const weir_verb_row *verb, const weir_resp_argument *word) {
  for (size_t i = 0; i < WEIR_ARGS; i++)
    if (weir_verb_accepts(verb, i) && !weir_verb_needs(verb, i) && weir_args[i].resp != NULL &&
        is(word, weir_args[i].resp))
      return (weir_arg)i;
  return WEIR_ARGS;
}

/* COMMAND limiter key, what the verb needs, and then words, most with a value behind them. */
static weir_resp_outcome run_verb(const weir_resp_call *call) {
  const weir_resp_argument *arguments = call->arguments;
  if (call->row->flags & WEIR_VERB_OF_LIMIT && !call->server->sets_limits)
    return refuse(call, "WEIR.LIMIT is off: sets_limits of this listener");
  *call->order = (weir_order){.verb = call->row,
                              .form = pairs_of(call->session),
                              .limiter = arguments[1].bytes,
                              .limiter_length = arguments[1].length};
  size_t next = take_keys(call);
  if (next == 0) return WEIR_RESP_ANSWERED;
  for (size_t i = WEIR_ARG_KEYS + 1; i < WEIR_ARGS; i++)
    if (weir_verb_needs(call->row, i) && !take_argument(call, (weir_arg)i, &arguments[next++]))
      return WEIR_RESP_ANSWERED;
  while (next < call->count) {
    weir_arg arg = find_word(call->row, &arguments[next]);
    bool has_value = arg != WEIR_ARGS && weir_args[arg].kind != WEIR_ARG_IS_FLAG;
    if (arg == WEIR_ARGS || next + has_value == call->count) return refuse(call, call->row->usage);
    if (!take_argument(call, arg, &arguments[next + has_value])) return WEIR_RESP_ANSWERED;
    next += 1 + (size_t)has_value;
  }
  if (call->order->up_to && call->order->costs != NULL)
    return refuse(call, "UPTO needs one cost for every rule");
  return WEIR_RESP_ASKS;
}

/* Reads what stands behind the key, unless it is what the last one brought: as many arguments in the same
 * bytes. False: they are no numbers. */
static bool read_figures(const weir_resp_call *call, weir_resp_figures *figures) {
  const weir_resp_argument *first = &call->arguments[2];
  const weir_resp_argument *last = &call->arguments[call->count - 1];
  size_t length = (size_t)(last->bytes + last->length - first->bytes);
  if (length == figures->length && call->count == figures->count &&
      memcmp(first->bytes, figures->text, length) == 0)
    return true;
  figures->length = 0;
  figures->count = call->count;
  figures->each[WEIR_RESP_FIGURES - 1] = 1;
  for (size_t i = 0; i < call->count - 2; i++)
    if (!weir_order_number(first[i].bytes, first[i].length, &figures->each[i])) return false;
  if (length > sizeof figures->text) return true;
  memcpy(figures->text, first->bytes, length);
  figures->length = length;
  return true;
}

/* CL.THROTTLE and THROTTLE key max_burst count period [quantity]. Under CL.THROTTLE a full bucket
 * holds one more than max_burst. A quantity of 0 looks and takes nothing. */
static weir_resp_outcome run_with_rule(const weir_resp_call *call) {
  bool is_cell = call->form == CL_THROTTLE;
  if (is_cell && !call->server->throttle)
    return refuse(call, "CL.THROTTLE is off: throttle.enabled");
  if (!is_cell && !call->server->throttlecrab) return refuse_unknown(call);
  weir_resp_figures *figures = &call->session->figures;
  weir_order *order = call->order;
  *order = (weir_order){.form = call->form, .brings_rule = true};
  if (!take_key(call, &call->arguments[1])) return WEIR_RESP_ANSWERED;
  if (!read_figures(call, figures)) return refuse(call, "value is not an integer or out of range");
  order->burst = figures->each[0] + is_cell;
  order->count = figures->each[1];
  order->period_s = figures->each[2];
  int64_t quantity = figures->each[3];
  if (figures->each[0] < 0) return refuse(call, "max_burst: 0 or more is accepted");
  if (order->count == 0 || order->period_s == 0)
    return refuse(call, "Zero rates are not supported");
  if (order->count < 0 || order->period_s < 0)
    return refuse(call, "count and period: 1 or more is accepted");
  if (quantity < 0 || quantity > WEIR_ORDER_COST_MOST)
    return refuse(call, "quantity: 0 to 2147483648 is accepted; nothing is given back");
  order->verb = &weir_verbs[quantity == 0 ? WEIR_VERB_PEEK : WEIR_VERB_TAKE];
  order->cost = quantity;
  return WEIR_RESP_ASKS;
}

/* There are no transactions. But clients send what stands in one together, and read of it later: so nothing of it
 * may be decided, lest it be charged for an error. It is discarded in Redis's words, as one that has failed. */
static weir_resp_outcome run_multi(const weir_resp_call *call) {
  if (call->session->discards) return refuse(call, "MULTI calls can not be nested");
  call->session->discards = true;
  return say(call, "+OK\r\n");
}

static weir_resp_outcome run_exec(const weir_resp_call *call) {
  if (!call->session->discards) return refuse(call, "EXEC without MULTI");
  call->session->discards = false;
  return say(call,
             "-EXECABORT Transaction discarded: there are none here, and nothing of it was "
             "decided; a pipeline without MULTI is accepted\r\n");
}

static weir_resp_outcome run_discard(const weir_resp_call *call) {
  if (!call->session->discards) return refuse(call, "DISCARD without MULTI");
  call->session->discards = false;
  return say(call, "+OK\r\n");
}

/* --- the table ---------------------------------------------------------------------------------- */

typedef struct command {
  const char *name;
  size_t least, most; /* arguments, its name included */
  bool anybody;       /* also without a credential */
  bool at_once;       /* also behind MULTI */
  weir_resp_outcome (*run)(const weir_resp_call *call);
  enum form form;
  const char *says; /* without run(): always the same, */
  weir_resp_outcome outcome;
} command;

enum { MOST = WEIR_RESP_ARGUMENTS_MOST };
/* A browser was talked into sending these: what follows are its fields and what it was made to send. */
#define NO_HTTP "-ERR this is RESP, not HTTP\r\n"
/* In the words by which clients know a server that stands alone. */
#define NO_CLUSTER "-ERR This instance has cluster support disabled\r\n"

/* Those that are no verb of weir. Gone through in order: what comes often stands first. */
static const command commands[] = {
    {"CL.THROTTLE", 5, 6, false, .run = run_with_rule, .form = CL_THROTTLE},
    {"PING", 1, 2, false, .run = run_ping},
    {"THROTTLE", 5, 6, false, .run = run_with_rule, .form = THROTTLE},
    {"ECHO", 2, 2, false, .run = run_ping},
    {"AUTH", 2, 3, true, .run = run_auth},
    {"HELLO", 1, MOST, true, .run = run_hello},
    {"MULTI", 1, 1, false, true, .run = run_multi},
    {"EXEC", 1, 1, false, true, .run = run_exec},
    {"DISCARD", 1, 1, false, true, .run = run_discard},
    {"QUIT", 1, 1, true, true, .says = "+OK\r\n", .outcome = WEIR_RESP_LEAVES},
    {"SELECT", 2, 2, false, .run = run_select},
    {"CLIENT", 2, MOST, false, .run = run_client},
    {"RESET", 1, 1, true, true, .run = run_reset},
    {"CLUSTER", 2, MOST, false, .says = NO_CLUSTER, .outcome = WEIR_RESP_ANSWERED},
    {"COMMAND", 1, MOST, false, .says = "*0\r\n", .outcome = WEIR_RESP_ANSWERED},
    {"INFO", 1, MOST, false, .says = "", .outcome = WEIR_RESP_INFO},
    {"POST", 1, MOST, true, true, .says = NO_HTTP, .outcome = WEIR_RESP_LEAVES},
    {"HOST:", 1, MOST, true, true, .says = NO_HTTP, .outcome = WEIR_RESP_LEAVES},
};

bool weir_resp_shows_credential(const weir_resp_request *request) {
  const weir_resp_argument *name = &request->arguments[0];
  return is(name, "AUTH") || (is(name, "HELLO") && request->count > 2);
}

static const command *find_command(const weir_resp_argument *name) {
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
    if (is(name, commands[i].name)) return &commands[i];
  return NULL;
}

/* NULL: it is none, as anything with no dot behind four letters; or a command of several whose word is none,
 * which is answered. */
static const weir_verb_row *find_verb(const weir_resp_call *call, bool *refused) {
  const weir_resp_argument *name = &call->arguments[0];
  enum { DOT = 4 }; /* of "WEIR." */
  bool may_be = name->length > DOT && name->bytes[DOT] == '.';
  bool has_words = false;
  for (size_t i = 0; may_be && i < WEIR_VERBS; i++) {
    const weir_verb_row *row = &weir_verbs[i];
    if (!is(name, row->resp)) continue;
    has_words = row->word != NULL;
    if (!has_words || (call->count > 1 && is(&call->arguments[1], row->word))) return row;
  }
  *refused = has_words;
  return NULL;
}

/* How many arguments a verb has, as a command has them in its table. */
static command describe(const weir_verb_row *verb) {
  command made = {.name = verb->resp, .least = 3, .most = 3, .run = run_verb};
  for (size_t i = WEIR_ARG_KEYS; i < WEIR_ARGS; i++) {
    bool is_needed = weir_verb_needs(verb, i);
    made.least += is_needed;
    if (weir_verb_accepts(verb, i))
      made.most += i == WEIR_ARG_KEYS ? WEIR_CONFIG_MEMBERS_MOST - 1
                   : is_needed || weir_args[i].kind == WEIR_ARG_IS_FLAG ? 1
                                                                        : 2;
  }
  return made;
}

weir_resp_outcome weir_resp_run(weir_resp_session *session, const weir_resp_server *server,
                                const weir_resp_request *request, weir_bytes *out,
                                weir_order *order, weir_order_room *room) {
  weir_resp_call asked = {.session = session,
                          .server = server,
                          .arguments = request->arguments,
                          .count = request->count,
                          .out = out,
                          .order = order,
                          .room = room};
  command verb;
  const command *found = &verb;
  bool has_no_word = false;
  asked.row = find_verb(&asked, &has_no_word);
  if (asked.row != NULL)
    verb = describe(asked.row);
  else
    found = find_command(&request->arguments[0]);
  if (!session->known && server->credential_count == 0) session->known = true;
  if (!session->known && (found == NULL || !found->anybody))
    return say(&asked, "-NOAUTH Authentication required.\r\n");
  if (has_no_word) return refuse(&asked, "WEIR.LIMIT: SET, GET and UNSET are accepted");
  if (found == NULL) return refuse_unknown(&asked);
  if (asked.row != NULL && asked.row->word != NULL) {
    asked.arguments++;
    asked.count--;
  }
  if (asked.count < found->least || asked.count > found->most) {
    weir_bytes_format(out, "-ERR wrong number of arguments for '%s' command\r\n", found->name);
    return WEIR_RESP_ANSWERED;
  }
  if (session->discards && !found->at_once) return say(&asked, "+QUEUED\r\n");
  asked.form = found->form;
  if (found->run != NULL) return found->run(&asked);
  weir_bytes_text(out, found->says);
  return found->outcome;
}

/* --- what is answered --------------------------------------------------------------------------- */

/* Every decision has some of these, so they are written in place. */
static void write_integers(weir_bytes *out, const char *head, const int64_t *numbers,
                           size_t count) {
  size_t length = strlen(head);
  char *room = weir_bytes_room(out, length + count * (WEIR_NUMBER_BYTES + 3));
  if (room == NULL) return;
  memcpy(room, head, length);
  char *at = room + length;
  for (size_t i = 0; i < count; i++) {
    *at++ = ':';
    at = weir_digits(at, numbers[i]);
    *at++ = '\r';
    *at++ = '\n';
  }
  out->length += (size_t)(at - room);
}

/* limited, limit, remaining, retry_after (-1 when allowed), reset_after. As redis-cell has it, these
 * are rounded up from whole milliseconds: 3 at 3 per 2 s are 2 s, not a microsecond more. Only a
 * client that waits for the whole bucket waits as long as it takes to be full. */
static void write_cl_throttle(weir_bytes *out, bool allowed, const weir_decision *decision) {
  int64_t reset_us = decision->reset_after_us;
  int64_t reset = weir_seconds_up(reset_us < 0 ? reset_us : reset_us / 1000 * 1000);
  int64_t retry = weir_seconds_up(decision->retry_after_us);
  if (retry > reset && reset > 0) retry = reset;
  const int64_t five[] = {!allowed, decision->limit, decision->remaining, allowed ? -1 : retry,
                          reset};
  write_integers(out, "*5\r\n", five, 5);
}

/* As they were asked for: "1,480". */
static void write_costs(weir_bytes *out, const int64_t *costs, size_t count) {
  char text[WEIR_ORDER_COSTS_MOST * (WEIR_NUMBER_BYTES + 1)];
  char *end = text;
  for (size_t i = 0; i < count; i++) {
    if (i > 0) *end++ = ',';
    end = weir_digits(end, costs[i]);
  }
  weir_resp_bulk(out, text, (size_t)(end - text));
}

/* A number that may be larger than what some clients read as one. */
static void write_large(weir_bytes *out, uint64_t number) {
  char text[WEIR_NUMBER_BYTES];
  weir_resp_bulk(out, text, (size_t)(weir_digits(text, (int64_t)number) - text));
}

/* The place that is held: its name, which only an answer that gives one has, and until when. */
static void write_held(weir_bytes *out, const weir_reply *reply, bool names_it) {
  static const weir_reply_held nothing = {.is_held = false};
  char name[WEIR_PLACE_NAME_BYTES];
  bool has_place = reply->kind == WEIR_REPLY_HELD;
  const weir_reply_held *held = has_place ? &reply->is.held : &nothing;
  if (names_it) {
    weir_bytes_text(out, "$5\r\nplace\r\n");
    weir_resp_bulk(out, name, has_place ? weir_place_name_write(&held->place, name) : 0);
  }
  weir_bytes_text(out, "$5\r\ntoken\r\n");
  write_large(out, held->token);
  write_integers(out, "$13\r\nheld_until_us\r\n", &held->held_until_us, 1);
}

static void write_place(weir_bytes *out, const weir_order *order, const weir_reply *reply) {
  const int64_t held = reply->is.held.is_held;
  bool releases = weir_order_is(order, WEIR_VERB_RELEASES);
  begin_pairs(out, (enum form)order->form, releases ? 2 : 3);
  write_integers(out, "$4\r\nheld\r\n", &held, 1);
  if (!releases) {
    write_held(out, reply, false);
    return;
  }
  const char *store = weir_status_name(reply->is.held.store);
  weir_bytes_text(out, "$5\r\nstore\r\n");
  weir_resp_bulk(out, store, strlen(store));
}

/* The answer to a take or a settlement has a stamp behind all else: empty where there is nothing to
 * be settled. That to an acquire has its place behind it, and a group's the name of the limiter
 * that denies. */
static void write_fields(weir_bytes *out, const weir_order *order, const weir_reply *reply) {
  const weir_decision *decision = reply->decision;
  bool may_charge = !weir_order_is(order, WEIR_VERB_LOOKS);
  bool holds = weir_order_is(order, WEIR_VERB_HOLDS);
  const struct {
    const char *head; /* the field's name, as a bulk string */
    int64_t value;
  } fields[] = {{"$7\r\nallowed\r\n", decision->allowed},
                {"$5\r\nlimit\r\n", decision->limit},
                {"$9\r\nremaining\r\n", decision->remaining},
                {"$14\r\nretry_after_us\r\n", decision->retry_after_us},
                {"$14\r\nreset_after_us\r\n", decision->reset_after_us},
                {"$8\r\ndelay_us\r\n", decision->delay_us}};
  bool is_group = reply->kind == WEIR_REPLY_GROUP;
  size_t pairs = 9 + (size_t)may_charge + (holds ? 3 : 0) + (size_t)is_group;
  begin_pairs(out, (enum form)order->form, pairs);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    write_integers(out, fields[i].head, &fields[i].value, 1);
  if (reply->costs == NULL) write_integers(out, "$4\r\ncost\r\n", &decision->cost, 1);
  if (reply->costs != NULL) weir_bytes_text(out, "$4\r\ncost\r\n");
  if (reply->costs != NULL) write_costs(out, reply->costs, reply->cost_count);
  const char *source = weir_source_name(decision->source);
  const int64_t rule = decision->rule;
  weir_bytes_text(out, "$6\r\nsource\r\n");
  weir_resp_bulk(out, source, strlen(source));
  write_integers(out, "$4\r\nrule\r\n", &rule, 1);
  if (may_charge) {
    char stamps[WEIR_REPLY_STAMPS_BYTES];
    weir_bytes_text(out, "$5\r\nstamp\r\n");
    weir_resp_bulk(out, stamps, weir_reply_write_stamps(reply, stamps));
  }
  if (holds) write_held(out, reply, true);
  if (!is_group) return;
  const char *denied_by = reply->is.group.denied_by != NULL ? reply->is.group.denied_by : "";
  weir_bytes_text(out, "$9\r\ndenied_by\r\n");
  weir_resp_bulk(out, denied_by, strlen(denied_by));
}

void weir_resp_answer(const weir_order *order, const weir_reply *reply, weir_bytes *out) {
  const weir_decision *decision = reply->decision;
  if (reply->status != WEIR_OK) {
    weir_message text;
    snprintf(text.text, sizeof text.text, "%s %s", weir_status_name(reply->status), reply->why);
    weir_resp_error(out, text.text);
    return;
  }
  if (weir_order_is(order, WEIR_VERB_OF_PLACE)) {
    write_place(out, order, reply);
    return;
  }
  if (reply->kind == WEIR_REPLY_LIMIT && !weir_order_is(order, WEIR_VERB_SETS_LIMIT)) {
    const char *text = reply->is.limit.text;
    weir_resp_bulk(out, text, strlen(text));
    return;
  }
  if (decision == NULL) {
    weir_bytes_text(out, "+OK\r\n");
    return;
  }
  bool allowed =
      decision->allowed || (order->brings_rule && order->cost == 0); /* that only looked */
  switch ((enum form)order->form) {
    case CL_THROTTLE:
      write_cl_throttle(out, allowed, decision);
      break;
    case THROTTLE: { /* allowed, limit, remaining, reset_after, retry_after (0 when allowed) */
      const int64_t five[] = {allowed, decision->limit, decision->remaining,
                              weir_seconds_up(decision->reset_after_us),
                              allowed ? 0 : weir_seconds_up(decision->retry_after_us)};
      write_integers(out, "*5\r\n", five, 5);
      break;
    }
    case FLAT:
    case MAP:
      write_fields(out, order, reply);
      break;
  }
}

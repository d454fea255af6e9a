/* Every verb in every protocol, byte for byte: bytes to what is asked, what is answered to bytes.
 *
 *     test_serve_protocols FILE            compares
 *     test_serve_protocols FILE --write    writes FILE anew, which is a change of what clients see
 *
 * FILE has requests, a line each, and below it, indented, what they come to. `resp2` and `resp3` have
 * words behind them; a word may be empty ("") and hold escapes (\n, \x00). `http` has a method, a target
 * and a body; `grpc` a message in hexadecimal digits. Where a line begins with `+`, what the verb may be
 * answered follows, too. The server's tests see what is asked of limiters and stores. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/grpc/session.h"
#include "protocol/http/call.h"
#include "protocol/resp/command.h"

enum { LINE_MOST = 4096, WORDS_MOST = 32 };

/* The decision of all answers, and the limiter that has made it, whose fields HTTP shows. */
static weir_limiter *decider;

static void write_escaped(FILE *to, const char *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c == '\r')
      fputs("\\r", to);
    else if (c == '\n')
      fputs("\\n", to);
    else if (c == '\\')
      fputs("\\\\", to);
    else if (c < ' ' || c > '~')
      fprintf(to, "\\x%02x", c);
    else
      fputc(c, to);
  }
}

static void write_line(FILE *to, const char *name, const char *bytes, size_t length) {
  fprintf(to, "    %s ", name);
  write_escaped(to, bytes, length);
  fputc('\n', to);
}

static void write_amount(FILE *to, const char *name, const weir_order_amount *amount, int64_t one) {
  fprintf(to, " %s=", name);
  for (size_t i = 0; amount != NULL && i < amount->count; i++)
    fprintf(to, "%s%" PRId64, i > 0 ? "," : "", amount->each[i]);
  if (amount == NULL) fprintf(to, "%" PRId64, one);
}

/* --- what is asked ------------------------------------------------------------------------------ */

static const char *name_verb(const weir_order *order) {
  static const char *const names[] = {
      [WEIR_VERB_TAKE] = "take",        [WEIR_VERB_PEEK] = "peek",
      [WEIR_VERB_RESET] = "reset",      [WEIR_VERB_SETTLE] = "settle",
      [WEIR_VERB_REFUND] = "settle",    [WEIR_VERB_ACQUIRE] = "acquire",
      [WEIR_VERB_RELEASE] = "release",  [WEIR_VERB_HELD] = "held",
      [WEIR_VERB_LIMIT_SET] = "set",    [WEIR_VERB_LIMIT_GET] = "get",
      [WEIR_VERB_LIMIT_UNSET] = "unset"};
  return names[order->verb - weir_verbs];
}

static void write_key(FILE *to, const char *name, const char *bytes, size_t length) {
  fprintf(to, " %s=", name);
  write_escaped(to, bytes, length);
}

static void write_asked(FILE *to, const weir_order *order) {
  char place[WEIR_PLACE_NAME_BYTES], stamp[WEIR_STAMP_BYTES];
  fprintf(to, "    asks %s", name_verb(order));
  if (order->brings_rule)
    fprintf(to, " burst=%" PRId64 " count=%" PRId64 " period=%" PRId64, order->burst, order->count,
            order->period_s);
  else
    write_key(to, "limiter", order->limiter, order->limiter_length);
  if (order->keys == NULL && order->key != NULL)
    write_key(to, "key", order->key, order->key_length);
  for (size_t i = 0; i < order->key_count; i++)
    write_key(to, "keys", order->keys[i].bytes, order->keys[i].length);
  write_amount(to, "cost", order->costs, order->cost);
  if (order->takens != NULL || order->taken != 0)
    write_amount(to, "taken", order->takens, order->taken);
  if (order->up_to) fputs(" up_to", to);
  const weir_order_says *says = order->says;
  if (says != NULL && says->class_length > 0)
    write_key(to, "class", says->class_name, says->class_length);
  if (says != NULL && says->limit != 0) fprintf(to, " limit=%" PRId64, says->limit);
  if (says != NULL && says->tenant_length > 0)
    write_key(to, "tenant", says->tenant, says->tenant_length);
  if (order->for_us != 0) fprintf(to, " for_us=%" PRId64, order->for_us);
  if (order->verb == &weir_verbs[WEIR_VERB_RELEASE] || order->verb == &weir_verbs[WEIR_VERB_HELD])
    write_key(to, "place", place, weir_place_name_write(&order->place, place));
  if (order->value != NULL) write_key(to, "value", order->value, order->value_length);
  if (order->has_stamp) write_key(to, "stamp", stamp, weir_stamp_write(&order->stamp, stamp));
  fputc('\n', to);
}

/* --- what is answered --------------------------------------------------------------------------- */

/* The outcomes of a request: each verb has those that it can have. */
typedef enum outcome { ALLOWED, DENIED, COSTS, NOTHING, GROUP, FAILED, OUTCOMES } outcome;
static const char *const outcomes[] = {"allowed", "denied", "costs", "nothing", "group", "failed"};

/* ALLOWED and DENIED of a limit: a number, and one that is none. */
static weir_reply make_limit(outcome how) {
  weir_reply reply = {
      .status = how == FAILED ? WEIR_UNKNOWN_OUTCOME : WEIR_OK,
      .why = how == FAILED ? "the store may have it" : "",
      .of.name = "api",
      .of.key = "al\"ice",
      .of.key_length = 6,
      .kind = WEIR_REPLY_LIMIT,
      .is.limit.limit = {.kind = how == DENIED ? WEIR_KEY_LIMIT_BLOCKED : WEIR_KEY_LIMIT_NUMBER,
                         .limit = how == DENIED ? 0 : 500}};
  weir_limit_format(&reply.is.limit.limit, reply.is.limit.text);
  return reply;
}

static const weir_take_stamp stamp = {
    .at_us = 1764028800123456, .source = WEIR_SOURCE_STORE, .mark = 0x1f3a9c20};
static const int64_t costs[] = {1, 480};

static weir_reply make_reply(const weir_order *order, outcome how, weir_decision *decision,
                             weir_reply members[2]) {
  bool is_of_place =
      order->verb == &weir_verbs[WEIR_VERB_RELEASE] || order->verb == &weir_verbs[WEIR_VERB_HELD];
  bool acquires = order->verb == &weir_verbs[WEIR_VERB_ACQUIRE];
  bool allowed = how != DENIED;
  if (weir_order_is(order, WEIR_VERB_OF_LIMIT)) return make_limit(how);
  *decision = (weir_decision){.allowed = allowed,
                              .source = how == COSTS ? WEIR_SOURCE_LOCAL : WEIR_SOURCE_STORE,
                              .limit = 100,
                              .remaining = allowed ? 41 : 0,
                              .retry_after_us = allowed ? 0 : 2500001,
                              .reset_after_us = 12000000,
                              .cost = order->cost > 0 ? order->cost : 1,
                              .at_us = 1764028800123456};
  weir_reply reply = {.status = how == FAILED ? WEIR_UNAVAILABLE : WEIR_OK,
                      .why = how == FAILED ? "the store is away" : "",
                      .of.name = order->brings_rule ? NULL : "api",
                      .of.limiter = decider,
                      .of.key = "al\"ice",
                      .of.key_length = 6,
                      .retry_after_us = decision->retry_after_us};
  if (order->verb == &weir_verbs[WEIR_VERB_RESET] || is_of_place) reply.of.limiter = NULL;
  if (is_of_place || (acquires && how != FAILED)) {
    reply.kind = is_of_place || allowed ? WEIR_REPLY_HELD : WEIR_REPLY_PLAIN;
    reply.is.held.is_held = allowed && how != NOTHING;
    reply.is.held.place =
        (weir_place_name){.is_none = how == NOTHING, .server = 0x5f3a9c20, .number = 17};
    reply.is.held.token = reply.is.held.is_held ? UINT64_C(9007199254740993) : 0;
    reply.is.held.held_until_us = reply.is.held.is_held ? 1764028830123456 : 0;
    reply.is.held.store = how == DENIED ? WEIR_UNAVAILABLE : WEIR_OK;
  }
  if (is_of_place || order->verb == &weir_verbs[WEIR_VERB_RESET] || how == FAILED) return reply;
  reply.decision = decision;
  if (how == COSTS) reply.costs = costs, reply.cost_count = 2;
  if (order->verb == &weir_verbs[WEIR_VERB_TAKE] && allowed && !order->brings_rule) {
    reply.kind = WEIR_REPLY_TAKEN;
    reply.is.stamp = stamp;
  }
  if (how != GROUP) return reply;
  for (size_t i = 0; i < 2; i++) {
    members[i] = reply;
    members[i].of.name = i == 0 ? "user" : "all";
    members[i].of.group = "api";
  }
  reply.kind = WEIR_REPLY_GROUP;
  reply.is.group.members = members;
  reply.is.group.member_count = 2;
  reply.is.group.speaker = 1;
  reply.is.group.denied_by = order->verb == &weir_verbs[WEIR_VERB_PEEK] ? "all" : NULL;
  decision->allowed = reply.is.group.denied_by == NULL;
  return reply;
}

static bool may_be(const weir_order *order, outcome how) {
  bool decides =
      order->verb == &weir_verbs[WEIR_VERB_TAKE] || order->verb == &weir_verbs[WEIR_VERB_PEEK];
  bool acquires = order->verb == &weir_verbs[WEIR_VERB_ACQUIRE];
  switch (how) {
    case DENIED:
      return order->verb != &weir_verbs[WEIR_VERB_RESET];
    case COSTS:
      return !order->brings_rule &&
             (decides || acquires || weir_order_is(order, WEIR_VERB_SETTLES));
    case NOTHING:
      return acquires;
    case GROUP:
      return !order->brings_rule && decides;
    default:
      return true;
  }
}

typedef void word_reply(const weir_order *order, const weir_reply *reply, weir_bytes *out);

static void write_answers(FILE *to, const weir_order *order, word_reply *word) {
  for (int how = 0; how < OUTCOMES; how++) {
    weir_bytes out = {0};
    weir_decision decision;
    weir_reply members[2];
    if (!may_be(order, (outcome)how)) continue;
    const weir_reply reply = make_reply(order, (outcome)how, &decision, members);
    word(order, &reply, &out);
    write_line(to, outcomes[how], out.data, out.length);
    weir_bytes_free(&out);
  }
}

/* --- RESP --------------------------------------------------------------------------------------- */

/* A name with a digit in front is a group of so many. */
static size_t count_keys(const void *context, const char *name, size_t length) {
  (void)context;
  return length > 0 && name[0] > '1' && name[0] <= '8' ? (size_t)(name[0] - '0') : 1;
}

static int hex(char digit) {
  return weir_http_hex_value(digit);
}

/* In place: "" is empty, \n and \x00 are bytes. */
static size_t unescape(char *word) {
  char *to = word;
  if (strcmp(word, "\"\"") == 0) return 0;
  for (const char *from = word; *from != '\0'; from++) {
    if (from[0] == '\\' && from[1] == 'n') {
      *to++ = '\n';
      from++;
    } else if (from[0] == '\\' && from[1] == 'x') {
      *to++ = (char)(hex(from[2]) * 16 + hex(from[3]));
      from += 3;
    } else {
      *to++ = *from;
    }
  }
  return (size_t)(to - word);
}

static void run_resp(FILE *to, char *line, bool speaks_3, bool tells) {
  static weir_resp_request request;
  weir_resp_session session = {.id = 7, .speaks_3 = speaks_3};
  const weir_resp_server server = {.throttle = true,
                                   .throttlecrab = true,
                                   .sets_limits = true,
                                   .key_most = 16,
                                   .count_keys = count_keys};
  weir_bytes out = {0};
  weir_order order;
  weir_order_room room;
  request.count = 0;
  for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) {
    weir_resp_argument *argument = &request.arguments[request.count++];
    *argument = (weir_resp_argument){word, unescape(word)};
  }
  weir_resp_outcome came = weir_resp_run(&session, &server, &request, &out, &order, &room);
  if (came == WEIR_RESP_ASKS) {
    write_asked(to, &order);
    if (tells) write_answers(to, &order, weir_resp_answer);
  } else {
    write_line(to, came == WEIR_RESP_LEAVES ? "leaves" : "says", out.data, out.length);
  }
  weir_bytes_free(&out);
}

/* --- HTTP --------------------------------------------------------------------------------------- */

/* Without the day, which is another each time. */
static void write_http(FILE *to, const char *name, weir_bytes *out) {
  weir_bytes_add(out, "", 1);
  char *date = strstr(out->data, "Date: ");
  const char *behind = date != NULL ? strchr(date, '\n') + 1 : NULL;
  if (date != NULL) memmove(date, behind, strlen(behind) + 1);
  write_line(to, name, out->data, strlen(out->data));
  weir_bytes_free(out);
}

/* The fields of one are those of all: a status and a body. */
static void write_refusal(FILE *to, int status, weir_bytes *out) {
  weir_bytes_add(out, "", 1);
  const char *body = strstr(out->data, "\r\n\r\n") + 4;
  fprintf(to, "    says %d ", status);
  write_escaped(to, body, strlen(body));
  fputc('\n', to);
}

static const weir_config_listener listener = {.denied_status = 429};

static void word_http(const weir_order *order, const weir_reply *reply, weir_bytes *out) {
  weir_http_answer(order, 0, &listener, reply, out);
  weir_bytes_add(out, "", 1);
  char *date = strstr(out->data, "Date: ");
  const char *behind = strchr(date, '\n') + 1;
  size_t length = strlen(behind);
  memmove(date, behind, length);
  out->length = (size_t)(date - out->data) + length;
}

static void write_envoy(FILE *to, const weir_envoy_request *request) {
  write_key(to, "   asks envoy domain", request->domain, request->domain_length);
  for (size_t i = 0; i < request->count; i++) {
    const weir_envoy_descriptor *one = &request->descriptors[i];
    fprintf(to, " hits=%" PRId64 "%s", one->hits, one->gives_back ? " gives_back" : "");
    if (one->has_limit) fprintf(to, " limit=%" PRId64 "/%d", one->requests, (int)one->unit);
    for (size_t j = 0; j < one->count; j++) {
      write_key(to, "entry", one->entries[j].key, one->entries[j].key_length);
      write_key(to, "value", one->entries[j].value, one->entries[j].value_length);
    }
  }
  fputc('\n', to);
}

static const weir_envoy_answer told = {
    .is_over = true,
    .count = 2,
    .statuses = {{.is_over = true,
                  .has_limit = true,
                  .requests = 10,
                  .unit = WEIR_CONFIG_MINUTE,
                  .name = "ten",
                  .remaining = 0,
                  .reset_after_us = 2500000},
                 {.remaining = UINT32_MAX, .reset_after_us = -1}},
    .fields = {{.name = "Retry-After", .value = "3"}},
    .field_count = 1};

static void run_http(FILE *to, char *line, bool tells) {
  static const weir_http_limits limits = {.header_bytes = 2048, .body_bytes = 2048};
  const char *method = strtok(line, " ");
  const char *target = strtok(NULL, " ");
  const char *body = strtok(NULL, "");
  weir_bytes bytes = {0}, out = {0};
  weir_http_parser parser = {0};
  weir_http_request request;
  weir_http_call call = {0};
  weir_http_refusal refusal = {0};
  size_t used;
  const char *why;
  weir_bytes_format(&bytes, "%s %s HTTP/1.1\r\nHost: localhost\r\n", method, target);
  if (body != NULL)
    weir_bytes_format(&bytes, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                      strlen(body));
  weir_bytes_format(&bytes, "\r\n%s", body != NULL ? body : "");
  if (weir_http_parse(&parser, &limits, bytes.data, bytes.length, &used, &request, &refusal.status,
                      &why) != WEIR_HTTP_REQUEST) {
    write_line(to, "is no request:", why, strlen(why));
  } else if (!weir_http_read_call(&request, &call, &refusal)) {
    weir_http_refuse(&refusal, WEIR_HTTP_CLOSES, &out);
    write_refusal(to, refusal.status, &out);
  } else if (call.envoy != NULL) {
    write_envoy(to, call.envoy);
    weir_http_answer_envoy(&told, 0, &out);
    if (tells) write_http(to, "answer", &out);
  } else {
    write_asked(to, &call.order);
    if (tells) write_answers(to, &call.order, word_http);
  }
  weir_bytes_free(&out);
  weir_http_call_free(&call);
  weir_bytes_free(&bytes);
}

/* --- gRPC --------------------------------------------------------------------------------------- */

static void write_hex(FILE *to, const weir_bytes *bytes) {
  fputs("    answer ", to);
  for (size_t i = 0; i < bytes->length; i++)
    fprintf(to, "%02x", (unsigned char)bytes->data[i]);
  fputc('\n', to);
}

static void run_grpc(FILE *to, const char *digits, bool tells) {
  static weir_envoy_request request;
  weir_bytes message = {0}, out = {0};
  weir_message why = {""};
  for (size_t i = 0; digits[i] != '\0'; i += 2) {
    char byte = (char)(hex(digits[i]) * 16 + hex(digits[i + 1]));
    weir_bytes_add(&message, &byte, 1);
  }
  const char *bytes = message.length > 0 ? message.data : ""; /* none is a message, too */
  if (weir_grpc_read_request(bytes, message.length, &request, &why))
    write_envoy(to, &request);
  else
    write_line(to, "says", why.text, strlen(why.text));
  weir_grpc_write_answer(&told, &out);
  if (tells) write_hex(to, &out);
  weir_bytes_free(&message);
  weir_bytes_free(&out);
}

/* --- the file ----------------------------------------------------------------------------------- */

static void run_line(FILE *to, char *line) {
  bool tells = line[0] == '+';
  char *words = strchr(line, ' ') + 1;
  const char *protocol = line + tells;
  if (strncmp(protocol, "resp", 4) == 0)
    run_resp(to, words, protocol[4] == '3', tells);
  else if (strncmp(protocol, "http", 4) == 0)
    run_http(to, words, tells);
  else
    run_grpc(to, words, tells);
}

/* The text of FILE now, and what it should be; free() both. */
static char *run_file(FILE *from, char **now) {
  char line[LINE_MOST];
  char *made;
  size_t now_length, made_length;
  FILE *before = open_memstream(now, &now_length), *to = open_memstream(&made, &made_length);
  if (before == NULL || to == NULL) abort();
  while (fgets(line, sizeof line, from) != NULL) {
    fputs(line, before);
    if (strncmp(line, "    ", 4) == 0) continue;
    fputs(line, to);
    line[strcspn(line, "\n")] = '\0';
    if (line[0] != '#' && line[0] != '\0') run_line(to, line);
  }
  fclose(before);
  fclose(to);
  return made;
}

/* The first line that differs. */
static void tell_difference(const char *now, const char *made) {
  size_t start = 0;
  for (size_t i = 0; now[i] == made[i] && now[i] != '\0'; i++)
    if (now[i] == '\n') start = i + 1;
  printf("the file says\n%.*s\nand the code\n%.*s\n", (int)strcspn(now + start, "\n"), now + start,
         (int)strcspn(made + start, "\n"), made + start);
}

static bool open_decider(weir_store **store) {
  weir_message why;
  return weir_store_open("memory:", store, &why) == WEIR_OK &&
         weir_limiter_create(*store, "sliding-window:100/1m", NULL, &decider, &why) == WEIR_OK;
}

int main(int count, char **arguments) {
  bool writes = count == 3 && strcmp(arguments[2], "--write") == 0;
  FILE *file = count > 1 ? fopen(arguments[1], "r") : NULL;
  weir_store *store;
  char *now;
  if (file == NULL || !open_decider(&store)) return 2;
  char *made = run_file(file, &now);
  bool is_same = strcmp(now, made) == 0;
  fclose(file);
  if (writes) {
    file = fopen(arguments[1], "w");
    if (file == NULL) return 2;
    fputs(made, file);
    fclose(file);
  } else if (!is_same) {
    tell_difference(now, made);
  }
  free(now);
  free(made);
  weir_limiter_destroy(decider);
  weir_store_close(store);
  return is_same || writes ? 0 : 1;
}

/* Asks a Redis, or what stands in front of it, what no operation shows.
 *
 * A proxy hangs up on INFO. Behind one, keys with one home may still be spread over servers: a
 * proxy sends SUNION to the server of the first key, and only if the second is there as well is its
 * type found wrong. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/inspect.h"
#include "redis/refusal.h"
#include "redis/reply.h"

/* The order of questions: INFO, TIME, a command each, two for a node of a cluster, then two for
 * each pair of keys. */
enum { INFO, TIME, COMMANDS, CLUSTER_QUESTIONS = 2, PAIRS = 8 };

static size_t first_of_cluster(const weir_redis_questions *questions) {
  return COMMANDS + questions->step_count;
}

static size_t first_pair(const weir_redis_questions *questions) {
  return first_of_cluster(questions) + CLUSTER_QUESTIONS;
}

/* Whether it makes sense to ask question `now`. */
static bool applies(const weir_redis_questions *questions) {
  if (questions->now == TIME) return !questions->is_proxy && questions->info.time_us < 0;
  if (questions->now < first_of_cluster(questions)) return true;
  return questions->now < first_pair(questions) ? questions->info.cluster > 0 : questions->is_proxy;
}

static void go_on(weir_redis_questions *questions) {
  size_t end = first_pair(questions) + 2 * PAIRS;
  do
    questions->now++;
  while (questions->now < end && !applies(questions));
}

/* "SET key1 1 PX 60000", then "SUNION key0 key1". The keys differ so far from the end that no hash
 * of all of a key leaves them close together. */
static size_t ask_pair(const weir_redis_questions *questions, char *say) {
  size_t step = questions->now - first_pair(questions);
  size_t pair = step / 2;
  size_t length = strlen(questions->key) + strlen("0.0.apart");
  const char *format =
      step % 2 == 0 ? "*5\r\n$3\r\nSET\r\n$%zu\r\n%s%zu.1.apart\r\n$1\r\n1\r\n$2\r\nPX\r\n"
                      "$5\r\n60000\r\n"
                    : "*3\r\n$6\r\nSUNION\r\n$%zu\r\n%s%zu.0.apart\r\n$%zu\r\n%s%zu.1.apart\r\n";
  return (size_t)snprintf(say, WEIR_WIRE_GREETING_MOST, format, length, questions->key, pair,
                          length, questions->key, pair);
}

static size_t ask_cluster(const weir_redis_questions *questions, char *say) {
  static const char *const texts[CLUSTER_QUESTIONS] = {"*1\r\n$6\r\nASKING\r\n",
                                                       "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n"};
  const char *text = texts[questions->now - first_of_cluster(questions)];
  memcpy(say, text, strlen(text));
  return strlen(text);
}

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  static const char info[] = "*1\r\n$4\r\nINFO\r\n", time[] = "*1\r\n$4\r\nTIME\r\n";
  const weir_redis_questions *questions = (const weir_redis_questions *)exchange;
  size_t now = questions->now;
  if (now >= first_pair(questions) + 2 * PAIRS) return 0;
  if (now >= first_pair(questions)) return ask_pair(questions, say);
  if (now >= first_of_cluster(questions)) return ask_cluster(questions, say);
  if (now >= COMMANDS)
    return weir_redis_harmless(questions->steps[now - COMMANDS], questions->key, say);
  memcpy(say, now == INFO ? info : time, strlen(info));
  return strlen(info);
}

/* --- what is heard -----------------------------------------------------------------------------
 */

/* The value of a line "name:value"; empty when there is none. */
static void find_word(const char *text, const char *name, char word[WEIR_REDIS_WORD_BYTES]) {
  size_t length = strlen(name);
  word[0] = '\0';
  for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
    if (*at == '\n') at++;
    if (strncmp(at, name, length) != 0 || at[length] != ':') continue;
    size_t most = strcspn(at + length + 1, "\r\n");
    if (most >= WEIR_REDIS_WORD_BYTES) most = WEIR_REDIS_WORD_BYTES - 1;
    memcpy(word, at + length + 1, most);
    word[most] = '\0';
    return;
  }
}

static int64_t find_number(const char *text, const char *name) {
  char word[WEIR_REDIS_WORD_BYTES];
  char *end;
  find_word(text, name, word);
  long long number = strtoll(word, &end, 10);
  return word[0] != '\0' && *end == '\0' ? number : -1;
}

static void read_info(const char *text, weir_redis_info *info) {
  find_word(text, "redis_version", info->version);
  find_word(text, "valkey_version", info->valkey);
  find_word(text, "role", info->role);
  find_word(text, "maxmemory_policy", info->policy);
  info->uptime_s = find_number(text, "uptime_in_seconds");
  info->time_us = find_number(text, "server_time_usec");
  info->used_bytes = find_number(text, "used_memory");
  info->maxmemory_bytes = find_number(text, "maxmemory");
  info->evicted = find_number(text, "evicted_keys");
  info->cluster = find_number(text, "cluster_enabled");
}

static void note_time(weir_redis_questions *questions) {
  questions->before_us = questions->exchange.asked_unix_us;
  questions->after_us = questions->exchange.received_unix_us;
}

static void explain(const char *name, const redisReply *reply, weir_message *message) {
  weir_redis_reply error = {.kind = WEIR_REPLY_ERROR};
  unsigned cause;
  snprintf(error.text, sizeof error.text, "%s", reply->str);
  error.length = strlen(error.text);
  weir_redis_refusal_classify(&error, &cause);
  weir_redis_refusal_explain(cause, name, NULL, &error, message);
}

static void hear_info(weir_redis_questions *questions, const redisReply *reply) {
  questions->reported = reply->type == REDIS_REPLY_STRING;
  if (questions->reported) {
    read_info(reply->str, &questions->info);
    note_time(questions);
  } else if (reply->type == REDIS_REPLY_ERROR) {
    explain("info", reply, &questions->info_refused);
  }
}

/* Seconds and microseconds. */
static void hear_time(weir_redis_questions *questions, const redisReply *reply) {
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) return;
  const redisReply *seconds = reply->element[0];
  const redisReply *rest = reply->element[1];
  if (seconds->type != REDIS_REPLY_STRING || rest->type != REDIS_REPLY_STRING) return;
  questions->info.time_us =
      strtoll(seconds->str, NULL, 10) * 1000000 + strtoll(rest->str, NULL, 10);
  note_time(questions);
}

static weir_redis_denied *deny(weir_redis_questions *questions) {
  const char *name = weir_redis_commands[questions->steps[questions->now - COMMANDS]].name;
  for (size_t i = 0; i < questions->denied_count; i++)
    if (strcmp(questions->denied[i].name, name) == 0) return NULL;
  weir_redis_denied *denied = &questions->denied[questions->denied_count++];
  denied->name = name;
  return denied;
}

/* The argument "x" is what it should complain of. A node of a cluster may say instead that the key
 * is another's: it would let this user. */
static void hear_command(weir_redis_questions *questions, const redisReply *reply) {
  static const char wanted[] = "ERR value is not ";
  weir_redirect redirect;
  if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, wanted, strlen(wanted)) == 0) return;
  if (weir_redirect_read(reply->str, (size_t)reply->len, &redirect)) return;
  weir_redis_denied *denied = deny(questions);
  if (denied != NULL) explain(denied->name, reply, &denied->why);
}

static void hear_cluster(weir_redis_questions *questions, const redisReply *reply) {
  bool asking = questions->now == first_of_cluster(questions);
  if (reply->type != REDIS_REPLY_ERROR) return;
  if (asking)
    questions->lacks_asking = true;
  else
    questions->lacks_map = true;
}

static void hear_pair(weir_redis_questions *questions, const redisReply *reply) {
  bool asked = (questions->now - first_pair(questions)) % 2 == 1;
  questions->is_spread |= asked && reply->type == REDIS_REPLY_ARRAY && reply->elements == 0;
}

static void hear_reply(weir_redis_questions *questions, const redisReply *reply) {
  if (questions->now >= first_pair(questions))
    hear_pair(questions, reply);
  else if (questions->now >= first_of_cluster(questions))
    hear_cluster(questions, reply);
  else if (questions->now >= COMMANDS)
    hear_command(questions, reply);
  else if (questions->now == TIME)
    hear_time(questions, reply);
  else
    hear_info(questions, reply);
  go_on(questions);
}

/* What is no answer at all is taken for none: time runs out. */
static bool receive(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  bool sound;
  redisReply *reply = weir_redis_reply_whole(bytes, length, &sound);
  if (reply == NULL) return false;
  *taken = length;
  hear_reply((weir_redis_questions *)exchange, reply);
  freeReplyObject(reply);
  return true;
}

static void lose(weir_exchange *exchange) {
  weir_redis_questions *questions = (weir_redis_questions *)exchange;
  if (questions->now == INFO) questions->is_proxy = true;
  if (questions->now >= COMMANDS && questions->now < first_of_cluster(questions)) {
    weir_redis_denied *denied = deny(questions);
    if (denied != NULL)
      weir_message_set(&denied->why, "%s: the server hung up on it; a proxy may not know it",
                       denied->name);
  }
  go_on(questions);
}

void weir_redis_questions_init(weir_redis_questions *questions, const weir_redis_login *login,
                               unsigned needs, const char *key) {
  *questions = (weir_redis_questions){.exchange = {.protocol = &weir_redis_protocol,
                                                   .settings = login,
                                                   .ask = ask,
                                                   .receive = receive,
                                                   .lose = lose},
                                      .key = key,
                                      .info = {.time_us = -1}};
  questions->step_count = weir_redis_steps(needs, questions->steps);
}

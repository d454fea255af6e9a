/* Asks sentinels, one after the other, who is the primary of a name: in a thread that no decision
 * waits for. Each question has a connection and a time of its own, so one that is dead, silent or
 * answers nonsense is passed by for the next. One alone is not believed while others answer. */
#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/reply.h"
#include "redis/store.h"
#include "wire/exchange.h"

enum {
  SENTINEL_PORT = 26379,
  SENTINELS_MOST = 64,
  NAME_MOST = 128,
  ASK_US = 500000,     /* for one sentinel: connecting, TLS and all */
  SPARE_US = 10000000, /* one that did not answer is left out for so long, if others do */
  LOOKUP_US = 60000000 /* for its name: a resolver ends by itself */
};

typedef struct sentinels {
  weir_resolver resolver; /* first */
  weir_redis_login login;
  weir_tls *tls; /* NULL: plain */
  size_t next;   /* the one to ask first; touched by the thread that asks */
  size_t count;
  weir_endpoint places[SENTINELS_MOST];
  int64_t spared_until_us[SENTINELS_MOST]; /* the same */
  char primary[NAME_MOST + 1];
  char shown[NAME_MOST + 16];
} sentinels;

/* --- one question ------------------------------------------------------------------------------
 */

/* What one sentinel says of the name. */
typedef struct sentinel_answer {
  bool known;
  weir_endpoint primary;
  char flags[64]; /* the rest only where it was asked for all that it knows */
  long long replicas, others, quorum, down_after_ms, epoch;
} sentinel_answer;

typedef struct sentinel_question {
  weir_exchange exchange; /* first */
  const char *name;
  bool in_full;
  bool asked;
  bool understood;
  sentinel_answer answer;
  weir_message why; /* not understood */
} sentinel_question;

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  sentinel_question *question = (sentinel_question *)exchange;
  const char *command = question->in_full ? "MASTER" : "GET-MASTER-ADDR-BY-NAME";
  if (question->asked) return 0;
  question->asked = true;
  return (size_t)snprintf(say, WEIR_WIRE_GREETING_MOST,
                          "*3\r\n$8\r\nSENTINEL\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(command),
                          command, strlen(question->name), question->name);
}

static bool read_place(const char *host, const char *port, weir_endpoint *place) {
  char *end;
  long number = strtol(port, &end, 10);
  size_t length = strlen(host);
  if (length == 0 || length >= sizeof place->host || number < 1 || number > UINT16_MAX ||
      *end != '\0')
    return false;
  memcpy(place->host, host, length + 1);
  place->port = (uint16_t)number;
  return true;
}

static bool is_text(const redisReply *reply, size_t elements) {
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements < elements) return false;
  for (size_t i = 0; i < reply->elements; i++)
    if (reply->element[i]->type != REDIS_REPLY_STRING) return false;
  return true;
}

/* Names and values by turns. */
static const char *field(const redisReply *reply, const char *name) {
  for (size_t i = 0; i + 1 < reply->elements; i += 2)
    if (strcmp(reply->element[i]->str, name) == 0) return reply->element[i + 1]->str;
  return "";
}

/* The address, or all that is known. */
static bool read_answer(const redisReply *reply, bool in_full, sentinel_answer *answer) {
  if (!is_text(reply, 2)) return false;
  if (!in_full) {
    answer->known = read_place(reply->element[0]->str, reply->element[1]->str, &answer->primary);
    return answer->known;
  }
  snprintf(answer->flags, sizeof answer->flags, "%s", field(reply, "flags"));
  answer->replicas = strtoll(field(reply, "num-slaves"), NULL, 10);
  answer->others = strtoll(field(reply, "num-other-sentinels"), NULL, 10);
  answer->quorum = strtoll(field(reply, "quorum"), NULL, 10);
  answer->epoch = strtoll(field(reply, "config-epoch"), NULL, 10);
  answer->down_after_ms = strtoll(field(reply, "down-after-milliseconds"), NULL, 10);
  answer->known = read_place(field(reply, "ip"), field(reply, "port"), &answer->primary);
  return answer->known;
}

static bool receive(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  static const char unknown[] = "ERR No such master";
  sentinel_question *question = (sentinel_question *)exchange;
  bool sound;
  redisReply *reply = weir_redis_reply_whole(bytes, length, &sound);
  if (reply == NULL && sound) return false;
  *taken = length;
  if (!sound) weir_message_set(&question->why, "it does not speak as Redis does");
  if (reply == NULL) return true;
  bool error = reply->type == REDIS_REPLY_ERROR;
  question->understood = reply->type == REDIS_REPLY_NIL ||
                         (error && strncmp(reply->str, unknown, strlen(unknown)) == 0);
  if (error && !question->understood)
    weir_message_set(&question->why, "it answers \"%s\"", reply->str);
  if (!error && !question->understood) {
    question->understood = read_answer(reply, question->in_full, &question->answer);
    if (!question->understood)
      weir_message_set(&question->why, "it does not answer as sentinels do");
  }
  freeReplyObject(reply);
  return true;
}

static void lose(weir_exchange *exchange) {
  sentinel_question *question = (sentinel_question *)exchange;
  weir_message_set(&question->why, "it hung up instead of answering");
}

/* Whether one of them gives an answer, which may be that it does not know the name. */
static bool ask_one(const sentinels *self, size_t which, sentinel_question *question,
                    bool in_full) {
  static const weir_wire_options plain = {
      .timeout_us = ASK_US, .connect_us = ASK_US, .probe_us = ASK_US};
  weir_wire_options options = plain;
  const weir_wire_place place = {
      .host = self->places[which].host, .port = self->places[which].port, .tls = self->tls};
  weir_wire *wire;
  weir_message why = {""};
  *question = (sentinel_question){.exchange = {.protocol = &weir_redis_protocol,
                                               .settings = &self->login,
                                               .ask = ask,
                                               .receive = receive,
                                               .lose = lose},
                                  .name = self->primary,
                                  .in_full = in_full};
  options.lookup_end_us = weir_monotonic_us() + LOOKUP_US;
  weir_status status =
      weir_wire_open(&place, &weir_redis_protocol, &self->login, &options, &wire, &why);
  if (status == WEIR_OK) {
    weir_wire_exchange(wire, &question->exchange, "weir", ASK_US, &why);
    weir_wire_close(wire);
  }
  if (question->understood) return true;
  if (status == WEIR_NO_MEMORY) weir_message_set(&why, "no memory");
  if (question->why.text[0] != '\0') {
    weir_message_prefix(&question->why, "%s:%u: ", place.host, (unsigned)place.port);
  } else {
    question->why = why; /* the wire has named itself */
  }
  weir_message_prefix(&question->why, "sentinel ");
  return false;
}

/* --- the resolver -------------------------------------------------------------------------------
 */

/* A server that some name, and how many they are. */
typedef struct candidate {
  weir_endpoint place;
  size_t votes;
  size_t voter; /* one of them */
} candidate;

typedef struct ballot {
  size_t count;
  candidate list[SENTINELS_MOST];
  bool asked[SENTINELS_MOST];
  bool denied; /* one does not know the name */
} ballot;

static size_t most_votes(const ballot *votes) {
  size_t most = 0;
  for (size_t i = 0; i < votes->count; i++)
    if (votes->list[i].votes > most) most = votes->list[i].votes;
  return most;
}

static void ask_for_vote(sentinels *self, size_t which, ballot *votes, weir_message *why) {
  sentinel_question question;
  bool answered = ask_one(self, which, &question, false);
  const weir_endpoint *place = &question.answer.primary;
  votes->asked[which] = true;
  self->spared_until_us[which] = answered ? 0 : weir_monotonic_us() + SPARE_US;
  if (!answered && why->text[0] == '\0') *why = question.why; /* the first fault is told */
  votes->denied |= answered && !question.answer.known;
  if (!answered || !question.answer.known) return;
  size_t i = 0;
  while (i < votes->count && (votes->list[i].place.port != place->port ||
                              strcmp(votes->list[i].place.host, place->host) != 0))
    i++;
  if (i == votes->count) votes->list[votes->count++] = (candidate){.place = *place, .voter = which};
  votes->list[i].votes++;
}

/* Until the rest could not change it. A sentinel that did not answer lately is asked where no other
 * says anything. */
static void take_votes(sentinels *self, size_t first, ballot *votes, weir_message *why) {
  for (int pass = 0; pass < 2; pass++) {
    for (size_t i = 0; i < self->count && 2 * most_votes(votes) <= self->count; i++) {
      size_t which = (first + i) % self->count;
      bool spared = weir_monotonic_us() < self->spared_until_us[which];
      if (votes->asked[which] || (spared && (pass == 0 || votes->count > 0))) continue;
      ask_for_vote(self, which, votes, why);
    }
  }
}

/* Of several that as many name, the one with the newest configuration; where that may not be asked,
 * the one that was named first. */
static const candidate *choose(const sentinels *self, const ballot *votes) {
  const candidate *chosen = NULL;
  size_t most = most_votes(votes);
  size_t rivals = 0;
  long long newest = 0;
  for (size_t i = 0; i < votes->count; i++)
    rivals += votes->list[i].votes == most;
  for (size_t i = 0; i < votes->count; i++) {
    const candidate *each = &votes->list[i];
    sentinel_question question;
    if (each->votes < most) continue;
    bool told = rivals > 1 && ask_one(self, each->voter, &question, true) && question.answer.known;
    long long epoch = told ? question.answer.epoch : 0;
    if (chosen != NULL && epoch <= newest) continue;
    chosen = each;
    newest = epoch;
  }
  return chosen;
}

/* What most of them say. One that does not know the name may be new, or another's: the others may
 * know it. */
static weir_lookup_result ask_all(weir_resolver *resolver, bool in_doubt, weir_endpoint *found,
                                  weir_message *why) {
  sentinels *self = (sentinels *)resolver;
  ballot votes = {.count = 0};
  size_t first = in_doubt ? (self->next + 1) % self->count : self->next;
  why->text[0] = '\0';
  take_votes(self, first, &votes, why);
  const candidate *chosen = choose(self, &votes);
  self->next = chosen != NULL ? chosen->voter : first;
  if (chosen != NULL) {
    *found = chosen->place;
    return WEIR_LOOKUP_FOUND;
  }
  if (!votes.denied) return WEIR_LOOKUP_FAILED;
  weir_message_set(why, "no sentinel knows a primary of the name \"%s\"", self->primary);
  return WEIR_LOOKUP_NO_SUCH_NAME;
}

static void destroy(weir_resolver *resolver) {
  sentinels *self = (sentinels *)resolver;
  weir_tls_close(self->tls);
  free(self);
}

/* --- the URL -----------------------------------------------------------------------------------
 */

bool weir_redis_url_has_sentinels(const weir_url *url) {
  return strstr(url->scheme, "+sentinel") != NULL;
}

/* Not quoted: it may be the end of a password whose URL lacks its '@'. */
static weir_status read_name(const weir_url *url, sentinels *self, weir_message *message) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
  const char *name = url->path != NULL ? url->path + 1 : "";
  size_t length = strlen(name);
  if (length == 0 || length > NAME_MOST || strspn(name, accepted) != length) {
    weir_message_set(message,
                     "the path is not the name under which sentinels know the primary: accepted "
                     "are 1 to %d of A-Z a-z 0-9 . - _",
                     NAME_MOST);
    return WEIR_BAD_URL;
  }
  memcpy(self->primary, name, length + 1);
  snprintf(self->shown, sizeof self->shown, "primary %s", name);
  return WEIR_OK;
}

static weir_status read_places(const weir_url *url, sentinels *self, weir_message *message) {
  if (url->host_count > SENTINELS_MOST) {
    weir_message_set(message, "%zu sentinels: accepted are %d at most", url->host_count,
                     SENTINELS_MOST);
    return WEIR_BAD_URL;
  }
  for (; self->count < url->host_count; self->count++) {
    const weir_url_host *host = &url->hosts[self->count];
    weir_endpoint *place = &self->places[self->count];
    if (host->weight != 1) {
      weir_message_set(message, "%s takes no weight after the port", url->scheme);
      return WEIR_BAD_URL;
    }
    snprintf(place->host, sizeof place->host, "%s", host->name);
    place->port = host->port == 0 ? SENTINEL_PORT : host->port;
  }
  return WEIR_OK;
}

/* Of user, password and TLS, which is as the data servers have it unless the URL says otherwise. */
static weir_status read_options(const weir_url *url, sentinels *self, weir_message *message) {
  static const char *const words[] = {"off", "on", NULL};
  const char *user = weir_url_find(url, "sentinel-user");
  const char *password = weir_url_find(url, "sentinel-password");
  bool secure = strncmp(url->scheme, "rediss", 6) == 0;
  size_t word;
  if (user != NULL && password == NULL) {
    weir_message_set(message, "sentinel-user without sentinel-password: a user needs both");
    return WEIR_BAD_URL;
  }
  if (!weir_redis_login_write(&self->login, user, password, 0)) {
    weir_message_set(message,
                     "sentinel-user and sentinel-password are longer than %d bytes together",
                     WEIR_WIRE_GREETING_MOST - 100);
    return WEIR_BAD_URL;
  }
  weir_status status = weir_url_word(url, "sentinel-tls", words, secure, &word, message);
  if (status == WEIR_OK && word == 1) status = weir_tls_open(url, true, &self->tls, message);
  return status;
}

weir_status weir_redis_sentinels_open(const weir_url *url, weir_resolver **resolver,
                                      const char **name, weir_message *message) {
  static const char *const names[] = {WEIR_SENTINEL_OPTIONS, NULL};
  bool named = weir_redis_url_has_sentinels(url);
  *resolver = NULL;
  for (size_t i = 0; !named && names[i] != NULL; i++) {
    if (weir_url_find(url, names[i]) == NULL) continue;
    weir_message_set(message, "%s is an option of redis+sentinel:// and rediss+sentinel://",
                     names[i]);
    return WEIR_BAD_URL;
  }
  if (!named) return WEIR_OK;
  sentinels *made = calloc(1, sizeof *made);
  if (made == NULL) return WEIR_NO_MEMORY;
  made->resolver.ask = ask_all;
  made->resolver.destroy = destroy;
  atomic_init(&made->resolver.holders, 1);
  weir_status status = read_name(url, made, message);
  if (status == WEIR_OK) status = read_places(url, made, message);
  if (status == WEIR_OK) status = read_options(url, made, message);
  if (status != WEIR_OK) {
    destroy(&made->resolver);
    return status;
  }
  *resolver = &made->resolver;
  *name = made->shown;
  return WEIR_OK;
}

/* --- what an inspection is told --------------------------------------------------------------
 */

static void report_one(const sentinels *self, size_t which, const sentinel_question *question,
                       const weir_inspection *inspection) {
  const weir_endpoint *place = &self->places[which];
  const sentinel_answer *answer = &question->answer;
  bool doubted = strstr(answer->flags, "down") != NULL;
  if (!answer->known)
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "sentinel",
                     "%s:%u knows no primary of the name %s", place->host, (unsigned)place->port,
                     self->primary);
  else
    weir_wire_report(inspection, doubted ? WEIR_FINDING_WARNING : WEIR_FINDING_FACT, "sentinel",
                     "%s:%u says that %s is %s:%u%s", place->host, (unsigned)place->port,
                     self->primary, answer->primary.host, (unsigned)answer->primary.port,
                     doubted ? ", and finds it down" : "");
}

weir_status weir_redis_sentinels_prepare(weir_resolver *resolver, weir_message *message) {
  return weir_tls_prepare(((sentinels *)resolver)->tls, message);
}

weir_status weir_redis_sentinels_renew(weir_resolver *resolver, weir_message *message) {
  return weir_tls_renew(((sentinels *)resolver)->tls, message);
}

int64_t weir_redis_sentinels_certificate_end_s(weir_resolver *resolver) {
  return weir_tls_certificate_end_s(((sentinels *)resolver)->tls);
}

/* Where they differ a fail-over is under way, or one of them was cut off from the others. */
void weir_redis_sentinels_inspect(weir_resolver *resolver, const weir_inspection *inspection) {
  const sentinels *self = (const sentinels *)resolver;
  sentinel_answer first = {.known = false};
  bool differ = false;
  for (size_t i = 0; i < self->count; i++) {
    sentinel_question question;
    if (!ask_one(self, i, &question, true)) {
      weir_wire_report(inspection, WEIR_FINDING_WARNING, "sentinel", "%s", question.why.text);
      continue;
    }
    report_one(self, i, &question, inspection);
    if (!question.answer.known) continue;
    differ |= first.known && (question.answer.primary.port != first.primary.port ||
                              strcmp(question.answer.primary.host, first.primary.host) != 0);
    if (!first.known) first = question.answer;
  }
  if (differ)
    weir_wire_report(
        inspection, WEIR_FINDING_FAULT, "sentinel",
        "they do not agree who is the primary: processes that ask different ones count "
        "apart, so that each limit is admitted once for each");
  if (!first.known) return;
  weir_wire_report(
      inspection, WEIR_FINDING_FACT, "fail-over",
      "%lld of %lld sentinels must find the primary silent, for %lld ms; until another "
      "is primary its keys are decided by the policy. Each counter that the other had "
      "not received yet admits its limit once more",
      first.quorum, first.others + 1, first.down_after_ms);
  if (first.replicas <= 0)
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "fail-over",
                     "the primary has no replica, so no server can take its part");
}

/* What a Redis says of itself, and what it lets this user do.
 *
 * The doctor asks by weir_redis_inspect(). Questions go one after another on a connection of their
 * own: INFO, or TIME where that does not tell the clock; each command that the rules come to, with
 * an argument that is refused; of a node of a cluster ASKING and CLUSTER SLOTS. Then the findings
 * are reported, and in any case the ACL that would do.
 *
 * A proxy hangs up on INFO. Behind one, keys with one home may still be spread over servers: a
 * proxy sends SUNION to the server of the first key, and only if the second is there as well is its
 * type found wrong. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/refusal.h"
#include "redis/reply.h"
#include "redis/store.h"
#include "wire/exchange.h"

/* --- which commands are needed -------------------------------------------------------------------
 */

/* What an operation, and the repairs that may follow it, send. */
static const struct need {
  unsigned need;
  weir_redis_plan_name plans[7];
  size_t count;
} table[] = {
    {WEIR_NEED_ADD,
     {WEIR_PLAN_ADD, WEIR_PLAN_ADD_SEEN, WEIR_PLAN_ADD_SEEN_SEED, WEIR_PLAN_ADD_REFRESH,
      WEIR_PLAN_ASK, WEIR_PLAN_MEND, WEIR_PLAN_MEND_OWED},
     7},
    {WEIR_NEED_SUB, {WEIR_PLAN_SUB, WEIR_PLAN_MEND, WEIR_PLAN_MEND_OWED}, 3},
    {WEIR_NEED_GET, {WEIR_PLAN_GET, WEIR_PLAN_GET_JOINED, WEIR_PLAN_GET_SHORT}, 3},
    {WEIR_NEED_DROP, {WEIR_PLAN_DROP}, 1},
    {WEIR_NEED_CREATE, {WEIR_PLAN_CREATE}, 1},
    {WEIR_NEED_PUT, {WEIR_PLAN_PUT}, 1},
    {WEIR_NEED_RAISE, {WEIR_PLAN_RAISE, WEIR_PLAN_RAISE_REFRESH}, 2},
    {WEIR_NEED_RAISED_GET, {WEIR_PLAN_GET_RAISED}, 1},
    {WEIR_NEED_RAISED_SUB, {WEIR_PLAN_SUB_RAISED}, 1},
};

/* The commands that some needs come to, each once. Returns how many. */
static size_t list_steps(unsigned needs, weir_redis_step steps[WEIR_STEP_COUNT]) {
  size_t count = 0;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    for (size_t j = 0; needs & table[i].need && j < table[i].count; j++) {
      const weir_redis_step *step = weir_redis_plans[table[i].plans[j]].steps;
      for (; *step != WEIR_STEP_END; step++) {
        size_t known = 0;
        while (known < count && steps[known] != *step)
          known++;
        if (known == count) steps[count++] = *step;
      }
    }
  }
  return count;
}

/* DEL is asked for besides: reset needs it, and so does tidying up. */
static unsigned asked_for(const weir_inspection *inspection) {
  return inspection->needs | WEIR_NEED_DROP;
}

/* --- questions -----------------------------------------------------------------------------------
 */

enum { WORD_BYTES = 32, ACL_BYTES = 512 };

/* From INFO; -1, or an empty word: not told. */
typedef struct redis_info {
  char version[WORD_BYTES], valkey[WORD_BYTES];
  char role[WORD_BYTES], policy[WORD_BYTES];
  int64_t uptime_s, time_us, used_bytes, maxmemory_bytes, evicted, cluster;
  int64_t keys, mortal_keys; /* of all databases; mortal: with a TTL */
} redis_info;

/* A command that the server would not execute. */
typedef struct redis_denied {
  const char *name;
  weir_message why;
} redis_denied;

typedef struct redis_questions {
  weir_exchange exchange; /* first */
  const char *key;
  weir_redis_step steps[WEIR_STEP_COUNT]; /* commands to try */
  size_t step_count;
  bool sums;  /* ADD or SUB is needed */
  size_t now; /* 0 and on: which question */

  bool is_proxy;
  bool lacks_asking, lacks_map; /* ASKING, CLUSTER SLOTS: refused by a node of a cluster */
  bool is_spread;               /* keys of one home are on several servers */
  bool reported;                /* INFO was answered */
  weir_redis_form_answer form;  /* of sums; where they are needed, */
  weir_message form_why;        /* and why not the better one */
  bool form_known;              /* the server has INCREX, for this user or not */
  weir_message info_refused;
  redis_info info;
  int64_t before_us, after_us; /* between which the server's clock was read */
  redis_denied denied[WEIR_STEP_COUNT];
  size_t denied_count;
} redis_questions;

/* The order of questions: INFO, TIME, the form of sums, a command each, two for a node of a cluster,
 * then two for each pair of keys. */
enum { INFO, TIME, FORM, COMMANDS, CLUSTER_QUESTIONS = 2, PAIRS = 8 };

static size_t first_of_cluster(const redis_questions *questions) {
  return COMMANDS + questions->step_count;
}

static size_t first_pair(const redis_questions *questions) {
  return first_of_cluster(questions) + CLUSTER_QUESTIONS;
}

/* To the next question that it makes sense to ask. */
static void go_on(redis_questions *questions) {
  size_t end = first_pair(questions) + 2 * PAIRS;
  bool applies = false;
  while (!applies && ++questions->now < end) {
    if (questions->now == TIME)
      applies = !questions->is_proxy && questions->info.time_us < 0;
    else if (questions->now == FORM)
      applies = questions->sums;
    else if (questions->now < first_of_cluster(questions))
      applies = true;
    else if (questions->now < first_pair(questions))
      applies = questions->info.cluster > 0;
    else
      applies = questions->is_proxy;
  }
}

/* A command in a form that every server refuses for its argument "x", if it would execute it
 * otherwise: nothing is changed. Returns the length. */
static size_t ask_harmlessly(weir_redis_step step, const char *key,
                             char say[WEIR_WIRE_GREETING_MOST]) {
  const weir_redis_piece *pieces = weir_redis_commands[step].pieces;
  size_t used = 0;
  if (pieces[0].hole == WEIR_HOLE_KEYS) { /* MGET of one key */
    memcpy(say, "*2\r\n", 4);
    used = 4;
  }
  for (size_t i = 0; i < WEIR_REDIS_PIECES_MOST && pieces[i].text != NULL; i++) {
    memcpy(say + used, pieces[i].text, pieces[i].length);
    used += pieces[i].length;
    if (pieces[i].hole == WEIR_HOLE_END) continue;
    bool named = pieces[i].hole == WEIR_HOLE_KEY || pieces[i].hole == WEIR_HOLE_KEYS;
    const char *argument = named ? key : "x";
    used += (size_t)snprintf(say + used, WEIR_WIRE_GREETING_MOST - used, "$%zu\r\n%s\r\n",
                             strlen(argument), argument);
  }
  return used;
}

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  const redis_questions *questions = (const redis_questions *)exchange;
  size_t now = questions->now;
  const char *text = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
  if (now >= first_pair(questions) + 2 * PAIRS) return 0;
  if (now >= first_pair(questions)) {
    /* "SET key1 1 PX 60000", then "SUNION key0 key1". The keys differ so far from the end that no
     * hash of all of a key leaves them close together. */
    size_t step = now - first_pair(questions);
    size_t pair = step / 2;
    size_t length = strlen(questions->key) + strlen("0.0.apart");
    const char *format =
        step % 2 == 0 ? "*5\r\n$3\r\nSET\r\n$%zu\r\n%s%zu.1.apart\r\n$1\r\n1\r\n$2\r\nPX\r\n"
                        "$5\r\n60000\r\n"
                      : "*3\r\n$6\r\nSUNION\r\n$%zu\r\n%s%zu.0.apart\r\n$%zu\r\n%s%zu.1.apart\r\n";
    return (size_t)snprintf(say, WEIR_WIRE_GREETING_MOST, format, length, questions->key, pair,
                            length, questions->key, pair);
  }
  if (now == FORM) return weir_redis_form_question(questions->key, say);
  if (now >= COMMANDS && now < first_of_cluster(questions))
    return ask_harmlessly(questions->steps[now - COMMANDS], questions->key, say);
  if (now == first_of_cluster(questions)) text = "*1\r\n$6\r\nASKING\r\n";
  if (now == INFO) text = "*1\r\n$4\r\nINFO\r\n";
  if (now == TIME) text = "*1\r\n$4\r\nTIME\r\n";
  memcpy(say, text, strlen(text));
  return strlen(text);
}

/* --- answers -------------------------------------------------------------------------------------
 */

/* The value of a line "name:value"; empty when there is none. */
static void find_word(const char *text, const char *name, char word[WORD_BYTES]) {
  size_t length = strlen(name);
  word[0] = '\0';
  for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
    if (*at == '\n') at++;
    if (strncmp(at, name, length) != 0 || at[length] != ':') continue;
    size_t most = strcspn(at + length + 1, "\r\n");
    if (most >= WORD_BYTES) most = WORD_BYTES - 1;
    memcpy(word, at + length + 1, most);
    word[most] = '\0';
    return;
  }
}

static int64_t find_number(const char *text, const char *name) {
  char word[WORD_BYTES];
  char *end;
  find_word(text, name, word);
  long long number = strtoll(word, &end, 10);
  return word[0] != '\0' && *end == '\0' ? number : -1;
}

/* Lines "db0:keys=3,expires=1,avg_ttl=0". */
static void count_keys(const char *text, redis_info *info) {
  for (const char *at = strstr(text, "\ndb"); at != NULL; at = strstr(at + 1, "\ndb")) {
    const char *keys = strstr(at, ":keys="), *mortal = strstr(at, ",expires=");
    if (keys == NULL || mortal == NULL) return;
    info->keys += strtoll(keys + strlen(":keys="), NULL, 10);
    info->mortal_keys += strtoll(mortal + strlen(",expires="), NULL, 10);
  }
}

static void note_time(redis_questions *questions) {
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

static void receive_info(redis_questions *questions, const redisReply *reply) {
  redis_info *info = &questions->info;
  questions->reported = reply->type == REDIS_REPLY_STRING;
  if (reply->type == REDIS_REPLY_ERROR) explain("info", reply, &questions->info_refused);
  if (!questions->reported) return;
  find_word(reply->str, "redis_version", info->version);
  find_word(reply->str, "valkey_version", info->valkey);
  find_word(reply->str, "role", info->role);
  find_word(reply->str, "maxmemory_policy", info->policy);
  info->uptime_s = find_number(reply->str, "uptime_in_seconds");
  info->time_us = find_number(reply->str, "server_time_usec");
  info->used_bytes = find_number(reply->str, "used_memory");
  info->maxmemory_bytes = find_number(reply->str, "maxmemory");
  info->evicted = find_number(reply->str, "evicted_keys");
  info->cluster = find_number(reply->str, "cluster_enabled");
  count_keys(reply->str, info);
  note_time(questions);
}

static redis_denied *deny(redis_questions *questions) {
  const char *name = weir_redis_commands[questions->steps[questions->now - COMMANDS]].name;
  for (size_t i = 0; i < questions->denied_count; i++)
    if (strcmp(questions->denied[i].name, name) == 0) return NULL;
  redis_denied *denied = &questions->denied[questions->denied_count++];
  denied->name = name;
  return denied;
}

/* Seconds and microseconds. */
static void receive_time(redis_questions *questions, const redisReply *reply) {
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) return;
  const redisReply *seconds = reply->element[0];
  const redisReply *rest = reply->element[1];
  if (seconds->type != REDIS_REPLY_STRING || rest->type != REDIS_REPLY_STRING) return;
  questions->info.time_us =
      strtoll(seconds->str, NULL, 10) * 1000000 + strtoll(rest->str, NULL, 10);
  note_time(questions);
}

static void receive_form(redis_questions *questions, const redisReply *reply) {
  static const char unknown[] = "ERR unknown command";
  bool error = reply->type == REDIS_REPLY_ERROR;
  questions->form = weir_redis_form_read(reply);
  questions->form_known = questions->form == WEIR_FORM_BOUNDED ||
                          (error && strncmp(reply->str, "NOPERM", strlen("NOPERM")) == 0);
  if (error && strncmp(reply->str, unknown, strlen(unknown)) == 0)
    weir_message_set(&questions->form_why,
                     "increx: the server does not have this command, as Redis has from 8.8 on and "
                     "Valkey from 9.2 on");
  else if (error)
    explain("increx", reply, &questions->form_why);
  else if (questions->form == WEIR_FORM_PLAIN)
    weir_message_set(&questions->form_why, "increx: the server does not keep to its bounds");
}

/* What is no answer at all is taken for none: time runs out. */
static bool receive(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  static const char wanted[] = "ERR value is not ";
  redis_questions *questions = (redis_questions *)exchange;
  size_t now = questions->now, cluster = first_of_cluster(questions), pair = first_pair(questions);
  weir_redirect redirect;
  bool sound;
  redisReply *reply = weir_redis_reply_whole(bytes, length, &sound);
  if (reply == NULL) return false;
  *taken = length;
  bool error = reply->type == REDIS_REPLY_ERROR;
  if (now == INFO) {
    receive_info(questions, reply);
  } else if (now == TIME) {
    receive_time(questions, reply);
  } else if (now == FORM) {
    receive_form(questions, reply);
  } else if (now < cluster) {
    /* The argument "x" is what it should complain of. A node of a cluster may say instead that the
     * key is another's: it would let this user. */
    bool denies = error && strncmp(reply->str, wanted, strlen(wanted)) != 0 &&
                  !weir_redirect_read(reply->str, (size_t)reply->len, &redirect);
    redis_denied *denied = denies ? deny(questions) : NULL;
    if (denied != NULL) explain(denied->name, reply, &denied->why);
  } else if (now == cluster) {
    questions->lacks_asking |= error;
  } else if (now < pair) {
    questions->lacks_map |= error;
  } else if ((now - pair) % 2 == 1) { /* the second key of a pair is not where the first is */
    questions->is_spread |= reply->type == REDIS_REPLY_ARRAY && reply->elements == 0;
  }
  freeReplyObject(reply);
  go_on(questions);
  return true;
}

static void lose(weir_exchange *exchange) {
  redis_questions *questions = (redis_questions *)exchange;
  if (questions->now == INFO) questions->is_proxy = true;
  if (questions->now == FORM) {
    questions->form = WEIR_FORM_PLAIN;
    weir_message_set(&questions->form_why,
                     "increx: the server hung up on it; a proxy may not know it");
  }
  if (questions->now >= COMMANDS && questions->now < first_of_cluster(questions)) {
    redis_denied *denied = deny(questions);
    if (denied != NULL)
      weir_message_set(&denied->why, "%s: the server hung up on it; a proxy may not know it",
                       denied->name);
  }
  go_on(questions);
}

/* --- findings ------------------------------------------------------------------------------------
 */

static void report_memory(const redis_info *info, const weir_inspection *inspection) {
  double used_mb = (double)info->used_bytes / (1 << 20);
  double most_mb = (double)info->maxmemory_bytes / (1 << 20);
  if (info->maxmemory_bytes <= 0)
    weir_wire_report(inspection, WEIR_FINDING_FACT, "memory", "%.1f MB used, no maxmemory",
                     used_mb);
  else
    weir_wire_report(inspection, WEIR_FINDING_FACT, "memory", "%.1f MB used, maxmemory %.1f MB",
                     used_mb, most_mb);
  if (info->evicted > 0) {
    weir_wire_report(
        inspection, WEIR_FINDING_WARNING, "eviction",
        "%lld keys since it started: each may be a counter whose limit is then admitted "
        "once more; give it more memory",
        (long long)info->evicted);
  } else if (info->maxmemory_bytes <= 0) {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "eviction", "never: there is no maxmemory");
  } else if (strcmp(info->policy, "noeviction") == 0) {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "eviction",
                     "never (noeviction): at maxmemory nothing more is counted, and there are no "
                     "decisions");
  } else if (strncmp(info->policy, "volatile-", strlen("volatile-")) == 0 &&
             info->mortal_keys < info->keys) {
    weir_wire_report(
        inspection, WEIR_FINDING_WARNING, "eviction",
        "allowed at maxmemory for keys with a TTL alone (%s), which are %lld of %lld: "
        "counters are the first to go, a lost one admits its limit once more, and "
        "where nothing is left to evict nothing more is counted; give counters a Redis "
        "of their own",
        info->policy, (long long)info->mortal_keys, (long long)info->keys);
  } else {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "eviction",
                     "allowed at maxmemory (%s), none so far: a lost counter admits its limit once "
                     "more",
                     info->policy);
  }
}

static void report_info(const redis_questions *questions, const weir_inspection *inspection) {
  const redis_info *info = &questions->info;
  bool valkey = info->valkey[0] != '\0';
  char age[WEIR_AGE_BYTES];
  weir_wire_report(inspection, WEIR_FINDING_FACT, "server", "%s %s, up %s",
                   valkey ? "Valkey" : "Redis", valkey ? info->valkey : info->version,
                   weir_wire_age(info->uptime_s, age));
  if (strcmp(info->role, "slave") == 0 && info->cluster <= 0)
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "role",
                     "a replica: what is written to it is refused or lost; its primary is needed");
  report_memory(info, inspection);
}

static void report_rights_in_cluster(const redis_questions *questions, bool guarded,
                                     const weir_inspection *inspection) {
  if (questions->lacks_asking)
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "access",
                     "asking: refused, so that keys whose slot moves are refused meanwhile: let it "
                     "with ACL SETUSER <user> +asking");
  if (questions->lacks_map && guarded)
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "access",
                     "cluster|slots: refused, so that nodes which the URL does not name are not "
                     "told the password: let it with ACL SETUSER <user> +cluster|slots, or name "
                     "all nodes in the URL");
  else if (questions->lacks_map)
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "access",
                     "cluster|slots: refused, so that owners are learnt slot by slot, each by a "
                     "round trip more: let it with ACL SETUSER <user> +cluster|slots");
}

/* Of a node of a cluster. */
static void report_cluster(const weir_redis_store *store, const redis_questions *questions,
                           const weir_inspection *inspection) {
  unsigned node = (unsigned)inspection->server;
  bool replica = strcmp(questions->info.role, "slave") == 0;
  if (!weir_redis_nodes_plan_of(store->nodes)->follows) {
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "cluster",
                     "a node of a cluster, whose redirections cluster=off forbids to follow");
    return;
  }
  if (!questions->lacks_map) weir_redis_map_read(store->nodes, node, inspection->timeout_us);
  size_t slots = weir_redis_nodes_slots(store->nodes, node);
  if (replica)
    weir_wire_report(inspection, WEIR_FINDING_FACT, "cluster",
                     "a replica, which takes over when its master fails");
  else
    weir_wire_report(inspection, WEIR_FINDING_FACT, "cluster",
                     "a master, which owns %zu of %d slots", slots, WEIR_REDIS_SLOTS);
  weir_wire_report(inspection, WEIR_FINDING_FACT, "fail-over",
                   "a planned one costs nothing; one that is not may forget what the replica had "
                   "not got: each counter there admits its limit once more, and so does a master "
                   "cut off from the others for up to cluster-node-timeout");
  if (weir_redis_nodes_seeds(store->nodes) == 1)
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "cluster",
                     "the URL names one of its nodes: while that is away, a process that starts "
                     "does not find the others; name several");
  report_rights_in_cluster(questions, weir_redis_nodes_plan_of(store->nodes)->guarded, inspection);
}

static void report_access(const redis_questions *questions, const weir_redis_login *login,
                          const char *user, const weir_inspection *inspection) {
  bool known = login->count > 1 && strcmp(login->names[0], "auth") == 0;
  bool drops = (inspection->needs & WEIR_NEED_DROP) != 0;
  for (size_t i = 0; i < questions->denied_count; i++) {
    const redis_denied *denied = &questions->denied[i];
    const char *use = NULL; /* what decisions are made without: what it is for */
    if (strcmp(denied->name, "del") == 0 && !drops) use = "only a reset needs it";
    if (strcmp(denied->name, "mget") == 0) use = "without it several counters are read one by one";
    if (strcmp(denied->name, "bitfield") == 0)
      use = "only for keys that hold something else: a long text there is else read whole";
    if (use == NULL)
      weir_wire_report(inspection, WEIR_FINDING_FAULT, "access", "%s", denied->why.text);
    else
      weir_wire_report(inspection, WEIR_FINDING_WARNING, "access", "%s (%s)", denied->why.text,
                       use);
  }
  if (questions->denied_count == 0)
    weir_wire_report(inspection, WEIR_FINDING_FACT, "access", "user %.64s may run all that %s",
                     known && user != NULL ? user : "default",
                     drops ? "is needed" : "these rules need");
}

static void report_form(const redis_questions *questions, const weir_inspection *inspection) {
  if (!questions->sums) return;
  if (questions->form == WEIR_FORM_BOUNDED)
    weir_wire_report(inspection, WEIR_FINDING_FACT, "sums", "one command each, INCREX");
  else
    weir_wire_report(inspection, WEIR_FINDING_FACT, "sums",
                     "two commands each or more, SET and INCRBY, %s (%s)",
                     questions->form == WEIR_FORM_PLAIN ? "as INCREX is not to be had"
                                                        : "as far as can be told at present",
                     questions->form_why.text);
}

static size_t allow(char acl[ACL_BYTES], size_t used, const char *name) {
  return used + (size_t)snprintf(acl + used, ACL_BYTES - used, " +%s", name);
}

/* "ACL SETUSER ..." for a user who may do that and nothing else; of a cluster also what its nodes
 * are asked, and INCREX of a server that knows it: others refuse such a line. Long enough for every
 * command and the longest pattern; a user's name is cut. */
static void report_acl(const weir_redis_store *store, bool with_increx,
                       const weir_inspection *inspection) {
  weir_redis_step steps[WEIR_STEP_COUNT];
  char acl[ACL_BYTES];
  size_t count = list_steps(asked_for(inspection), steps);
  /* The user without a name is for administrators. */
  bool named = store->user[0] != '\0' && strcmp(store->user, "default") != 0;
  size_t used = (size_t)snprintf(acl, sizeof acl,
                                 "ACL SETUSER %.64s reset on >PASSWORD ~%s resetchannels -@all",
                                 named ? store->user : "limiter", inspection->pattern);
  used = allow(acl, used, "ping");
  if (store->login.selects) used = allow(acl, used, "select");
  for (size_t i = 0; i < count; i++) {
    const char *name = weir_redis_commands[steps[i]].name;
    size_t before = 0; /* a name that another step brought already */
    while (before < i && strcmp(weir_redis_commands[steps[before]].name, name) != 0)
      before++;
    if (before == i) used = allow(acl, used, name);
  }
  if (with_increx) used = allow(acl, used, "increx");
  if (weir_redis_nodes_is_cluster(store->nodes)) {
    used = allow(acl, used, "asking");
    allow(acl, used, "cluster|slots");
  }
  weir_wire_report(inspection, WEIR_FINDING_FACT, "ACL", "%s", acl);
}

static void report_answers(weir_wire *wire, const redis_questions *questions,
                           const weir_redis_store *store, const weir_inspection *inspection) {
  int64_t half_us = (questions->after_us - questions->before_us) / 2;
  if (questions->reported) {
    report_info(questions, inspection);
    if (questions->info.cluster > 0) report_cluster(store, questions, inspection);
  } else if (questions->is_proxy) {
    weir_wire_report_proxy(inspection, questions->is_spread);
  } else {
    weir_wire_report(
        inspection, WEIR_FINDING_WARNING, "server",
        "INFO is refused, so that version, role, maxmemory and eviction are not known: "
        "%s",
        questions->info_refused.text);
  }
  weir_wire_report_any(wire, inspection, questions->is_proxy);
  if (questions->info.time_us > 0)
    weir_wire_report_clock(inspection, questions->info.time_us - questions->before_us - half_us,
                           half_us);
  report_form(questions, inspection);
  report_access(questions, &store->login, store->user[0] != '\0' ? store->user : NULL, inspection);
}

/* INFO only reads, and most commands that are asked for write. */
static void report_silence(const redis_questions *questions, const weir_inspection *inspection,
                           const weir_message *why) {
  size_t now = questions->now;
  if (questions->reported && now >= COMMANDS && now < first_of_cluster(questions))
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "questions",
                     "INFO was answered, and %s was not: writes hang, as after CLIENT PAUSE WRITE, "
                     "which CLIENT UNPAUSE ends",
                     weir_redis_commands[questions->steps[now - COMMANDS]].name);
  else
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "questions",
                     "not all were answered in time: %s", why->text);
}

void weir_redis_inspect(weir_wire *wire, const weir_redis_store *store,
                        const weir_inspection *inspection) {
  redis_questions questions = {.exchange = {.protocol = &weir_redis_protocol,
                                            .settings = &store->login,
                                            .ask = ask,
                                            .receive = receive,
                                            .lose = lose},
                               .key = inspection->key,
                               .sums = (inspection->needs & (WEIR_NEED_ADD | WEIR_NEED_SUB)) != 0,
                               .form = WEIR_FORM_UNKNOWN,
                               .info = {.time_us = -1}};
  weir_message why = {""};
  questions.step_count = list_steps(asked_for(inspection), questions.steps);
  if (inspection->answers) {
    weir_wire_report_security(wire, inspection);
    if (weir_wire_exchange(wire, &questions.exchange, inspection->key, inspection->timeout_us,
                           &why))
      report_answers(wire, &questions, store, inspection);
    else
      report_silence(&questions, inspection, &why);
  }
  report_acl(store, questions.form_known, inspection);
}

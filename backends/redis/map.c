/* CLUSTER SLOTS: the whole map at once, where MOVED tells a slot at a time. On a connection of its
 * own: the reply is long, and no decision should wait behind it. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "redis/nodes_internal.h"
#include "redis/reply.h"
#include "wire/exchange.h"

enum { PAUSE_US = 1000000, TIMEOUT_US = 500000 };

typedef struct map_question {
  weir_exchange exchange; /* first */
  weir_redis_nodes *nodes;
  unsigned node; /* whom it is asked of */
  bool asked;
  weir_redis_map_answer answer;
} map_question;

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  static const char slots[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
  map_question *question = (map_question *)exchange;
  if (question->asked) return 0;
  question->asked = true;
  memcpy(say, slots, sizeof slots - 1);
  return sizeof slots - 1;
}

/* The node at the front of [from, to, [host, port, ...], replicas ...]; -1: not to be understood.
 */
static int read_owner(const map_question *question, const redisReply *owner) {
  if (owner->type != REDIS_REPLY_ARRAY || owner->elements < 2) return -1;
  const redisReply *name = owner->element[0];
  const redisReply *port = owner->element[1];
  bool text = name->type == REDIS_REPLY_STRING;
  const char *host = text ? name->str : "";
  size_t length = text ? (size_t)name->len : 0;
  if ((!text && name->type != REDIS_REPLY_NIL) || port->type != REDIS_REPLY_INTEGER) return -1;
  if (port->integer < 1 || port->integer > UINT16_MAX || length > WEIR_REDIS_HOST_MOST) return -1;
  if (length == 1 && host[0] == '?') return -1;
  if (!weir_redis_nodes_resolve(question->nodes, question->node, &host, &length)) return -1;
  return weir_redis_nodes_find(question->nodes, host, length, (uint16_t)port->integer);
}

static void read_range(const map_question *question, const redisReply *range) {
  if (range->type != REDIS_REPLY_ARRAY || range->elements < 3) return;
  const redisReply *from = range->element[0];
  const redisReply *to = range->element[1];
  if (from->type != REDIS_REPLY_INTEGER || to->type != REDIS_REPLY_INTEGER) return;
  if (from->integer < 0 || to->integer >= WEIR_REDIS_SLOTS) return;
  int owner = read_owner(question, range->element[2]);
  for (long long slot = from->integer; owner >= 0 && slot <= to->integer; slot++)
    weir_redis_slots_learn(&question->nodes->slots, (uint16_t)slot, (unsigned)owner);
}

static void read_map(map_question *question, const redisReply *reply) {
  if (reply->type == REDIS_REPLY_ERROR) {
    bool none = strstr(reply->str, "cluster support disabled") != NULL;
    question->answer = none ? WEIR_MAP_NO_CLUSTER : WEIR_MAP_REFUSED;
    return;
  }
  if (reply->type != REDIS_REPLY_ARRAY) return;
  for (size_t i = 0; i < reply->elements; i++)
    read_range(question, reply->element[i]);
  question->answer = WEIR_MAP_LEARNT;
}

/* What is no answer at all is taken for none: time runs out. */
static bool hear(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  bool sound;
  redisReply *reply = weir_redis_reply_whole(bytes, length, &sound);
  if (reply == NULL) return false;
  *taken = length;
  read_map((map_question *)exchange, reply);
  freeReplyObject(reply);
  return true;
}

/* A proxy, which hangs up on what it does not know. */
static void lose(weir_exchange *exchange) {
  ((map_question *)exchange)->answer = WEIR_MAP_REFUSED;
}

weir_redis_map_answer weir_redis_map_read(weir_redis_nodes *nodes, unsigned node,
                                          int64_t timeout_us) {
  map_question question = {.exchange = {.protocol = &weir_redis_protocol,
                                        .settings = nodes->plan.login,
                                        .ask = ask,
                                        .hear = hear,
                                        .lose = lose},
                           .nodes = nodes,
                           .node = node,
                           .answer = WEIR_MAP_UNANSWERED};
  weir_wire *wire = weir_redis_nodes_wire(nodes, node);
  weir_message why;
  if (wire == NULL) return WEIR_MAP_UNANSWERED;
  weir_wire_exchange(wire, &question.exchange, NULL, timeout_us, &why);
  if (question.answer == WEIR_MAP_LEARNT)
    atomic_store_explicit(&nodes->cluster, true, memory_order_relaxed);
  if (question.answer == WEIR_MAP_REFUSED)
    atomic_store_explicit(&nodes->refused, true, memory_order_relaxed);
  return question.answer;
}

/* --- in a thread -------------------------------------------------------------------------------
 */

typedef struct renewal {
  weir_redis_nodes *nodes;
  unsigned node;
} renewal;

static void end_reading(weir_redis_nodes *nodes) {
  pthread_mutex_lock(&nodes->lock);
  nodes->readers--;
  pthread_cond_broadcast(&nodes->read);
  pthread_mutex_unlock(&nodes->lock);
}

static void *renew(void *context) {
  renewal asked = *(renewal *)context;
  free(context);
  weir_redis_map_read(asked.nodes, asked.node, TIMEOUT_US);
  end_reading(asked.nodes);
  return NULL;
}

void weir_redis_map_renew(weir_redis_nodes *nodes, unsigned node, int64_t now_us) {
  int64_t due_us = atomic_load_explicit(&nodes->map_due_us, memory_order_relaxed);
  if (now_us < due_us || !atomic_load_explicit(&nodes->outdated, memory_order_relaxed) ||
      atomic_load_explicit(&nodes->refused, memory_order_relaxed) ||
      !atomic_compare_exchange_strong(&nodes->map_due_us, &due_us, now_us + PAUSE_US))
    return;
  renewal *asked = malloc(sizeof *asked);
  if (asked == NULL) return;
  *asked = (renewal){nodes, node};
  atomic_store_explicit(&nodes->outdated, false, memory_order_relaxed);
  pthread_mutex_lock(&nodes->lock);
  nodes->readers++;
  pthread_mutex_unlock(&nodes->lock);
  if (weir_wire_detach(renew, asked)) return;
  free(asked);
  end_reading(nodes);
}

/* CLUSTER SLOTS: the whole map at once, where MOVED tells a slot at a time. On a connection of its
 * own: the reply is long, and no decision should wait behind it. */
#include <hiredis/hiredis.h>
#include <string.h>
#include <time.h>

#include "redis/nodes_internal.h"
#include "redis/reply.h"
#include "wire/exchange.h"

/* Between two maps, and where a stranger was named; for one answer, and for how many. */
enum { PAUSE_US = 1000000, HASTE_US = 100000, TIMEOUT_US = 500000, ASKED_MOST = 3 };

typedef struct map_question {
  weir_exchange exchange; /* first */
  weir_redis_nodes *nodes;
  unsigned node; /* the one that is asked */
  bool asked;
  weir_redis_map_answer answer;
  weir_redis_listing listing;
  size_t ranges; /* whose owner was understood */
} map_question;

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  static const char slots[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
  map_question *question = (map_question *)exchange;
  if (question->asked) return 0;
  question->asked = true;
  memcpy(say, slots, sizeof slots - 1);
  return sizeof slots - 1;
}

/* A node of [from, to, [host, port, ...], replicas ...], of which the first is the owner; negative:
 * not to be understood, or there is no room. */
static int read_node(const map_question *question, const redisReply *node,
                     weir_redis_source source) {
  if (node->type != REDIS_REPLY_ARRAY || node->elements < 2) return WEIR_REDIS_NOBODY;
  const redisReply *name = node->element[0];
  const redisReply *port = node->element[1];
  bool text = name->type == REDIS_REPLY_STRING;
  const char *host = text ? name->str : "";
  size_t length = text ? (size_t)name->len : 0;
  if ((!text && name->type != REDIS_REPLY_NIL) || port->type != REDIS_REPLY_INTEGER ||
      port->integer < 1 || port->integer > UINT16_MAX || length > WEIR_REDIS_HOST_MOST ||
      (length == 1 && host[0] == '?') ||
      !weir_redis_nodes_resolve(question->nodes, question->node, &host, &length))
    return WEIR_REDIS_NOBODY;
  return weir_redis_nodes_find(question->nodes, host, length, (uint16_t)port->integer, source);
}

static void read_range(map_question *question, const redisReply *range) {
  if (range->type != REDIS_REPLY_ARRAY || range->elements < 3) return;
  const redisReply *from = range->element[0];
  const redisReply *to = range->element[1];
  if (from->type != REDIS_REPLY_INTEGER || to->type != REDIS_REPLY_INTEGER) return;
  if (from->integer < 0 || to->integer >= WEIR_REDIS_SLOTS) return;
  int owner = read_node(question, range->element[2], WEIR_REDIS_MAP_OWNER);
  for (long long slot = from->integer; owner >= 0 && slot <= to->integer; slot++)
    weir_redis_slots_learn(&question->nodes->slots, (uint16_t)slot, (unsigned)owner);
  if (owner >= 0) question->listing.owners[owner] = true;
  question->ranges += owner >= 0;
  for (size_t i = 3; i < range->elements; i++) {
    int other = read_node(question, range->element[i], WEIR_REDIS_MAP_OTHER);
    if (other >= 0) question->listing.others[other] = true;
  }
}

/* What a node says at present, to all alike. */
static bool will_pass(const char *error) {
  static const char *const causes[] = {"LOADING", "CLUSTERDOWN", "MASTERDOWN", "BUSY"};
  for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
    if (strncmp(error, causes[i], strlen(causes[i])) == 0) return true;
  return false;
}

static void read_map(map_question *question, const redisReply *reply) {
  if (reply->type == REDIS_REPLY_ERROR) {
    if (strstr(reply->str, "cluster support disabled") != NULL)
      question->answer = WEIR_MAP_NO_CLUSTER;
    else if (!will_pass(reply->str))
      question->answer = WEIR_MAP_REFUSED;
    return;
  }
  if (reply->type != REDIS_REPLY_ARRAY) return;
  for (size_t i = 0; i < reply->elements; i++)
    read_range(question, reply->element[i]);
  if (question->ranges > 0) weir_redis_nodes_list(question->nodes, &question->listing);
  question->answer = WEIR_MAP_LEARNT;
}

/* What is no answer at all is taken for none: time runs out. */
static bool receive(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  bool sound;
  redisReply *reply = weir_redis_reply_whole(bytes, length, &sound);
  if (reply == NULL) return false;
  *taken = length;
  read_map((map_question *)exchange, reply);
  freeReplyObject(reply);
  return true;
}

/* A proxy, which hangs up on what it does not know; or a node that has just gone. */
static void lose(weir_exchange *exchange) {
  map_question *question = (map_question *)exchange;
  if (!weir_redis_nodes_is_cluster(question->nodes)) question->answer = WEIR_MAP_REFUSED;
}

weir_redis_map_answer weir_redis_map_read(weir_redis_nodes *nodes, unsigned node,
                                          int64_t timeout_us) {
  map_question question = {.exchange = {.protocol = &weir_redis_protocol,
                                        .settings = nodes->plan.login,
                                        .ask = ask,
                                        .receive = receive,
                                        .lose = lose},
                           .nodes = nodes,
                           .node = node,
                           .answer = WEIR_MAP_UNANSWERED};
  weir_wire *wire = weir_redis_nodes_hold(nodes, node);
  weir_message why;
  if (wire == NULL) return WEIR_MAP_UNANSWERED;
  question.listing.asked_us = weir_monotonic_us();
  weir_wire_exchange(wire, &question.exchange, NULL, timeout_us, &why);
  weir_redis_nodes_release(nodes, node);
  if (question.answer == WEIR_MAP_LEARNT)
    atomic_store_explicit(&nodes->cluster, true, memory_order_relaxed);
  if (question.answer == WEIR_MAP_REFUSED)
    atomic_store_explicit(&nodes->refused, true, memory_order_relaxed);
  return question.answer;
}

/* --- in a thread -------------------------------------------------------------------------------
 */

/* Who sent the last redirection is there, and knows more than others. */
static weir_redis_map_answer ask_some(weir_redis_nodes *nodes) {
  size_t count = weir_redis_nodes_count(nodes);
  unsigned told_by = atomic_load_explicit(&nodes->told_by, memory_order_relaxed);
  weir_redis_map_answer answer = WEIR_MAP_UNANSWERED;
  int asked = 0;
  for (unsigned i = 0; i < count && asked < ASKED_MOST && answer == WEIR_MAP_UNANSWERED; i++) {
    unsigned number = (unsigned)((told_by + i) % count);
    if (!weir_redis_nodes_is_usable(nodes, number)) continue;
    answer = weir_redis_map_read(nodes, number, TIMEOUT_US);
    asked++;
  }
  return answer;
}

/* A map that no node told is still to be read. */
static void *renew(void *context) {
  weir_redis_nodes *nodes = context;
  weir_redis_map_answer answer = ask_some(nodes);
  if (answer == WEIR_MAP_UNANSWERED)
    atomic_store_explicit(&nodes->outdated, true, memory_order_relaxed);
  pthread_mutex_lock(&nodes->lock);
  nodes->answer = answer;
  nodes->ended = nodes->begun;
  nodes->reading = false;
  pthread_cond_broadcast(&nodes->read);
  pthread_mutex_unlock(&nodes->lock);
  return NULL;
}

/* Under the lock: one thread at a time. */
static void begin(weir_redis_nodes *nodes, int64_t now_us) {
  atomic_store_explicit(&nodes->outdated, false, memory_order_relaxed);
  nodes->begun_us = now_us;
  nodes->begun++;
  nodes->reading = weir_wire_detach(renew, nodes);
  if (nodes->reading) return;
  nodes->begun--;
  atomic_store_explicit(&nodes->outdated, true, memory_order_relaxed);
}

void weir_redis_map_renew(weir_redis_nodes *nodes) {
  if (!atomic_load_explicit(&nodes->outdated, memory_order_relaxed) ||
      atomic_load_explicit(&nodes->refused, memory_order_relaxed))
    return;
  int64_t now_us = weir_monotonic_us();
  pthread_mutex_lock(&nodes->lock);
  if (!nodes->reading && (nodes->begun == 0 || now_us >= nodes->begun_us + PAUSE_US))
    begin(nodes, now_us);
  pthread_mutex_unlock(&nodes->lock);
}

/* Under the lock, which it lets go. */
static void wait_until(weir_redis_nodes *nodes, int64_t end_us) {
  const struct timespec until = {.tv_sec = (time_t)(end_us / 1000000),
                                 .tv_nsec = (long)(end_us % 1000000) * 1000};
  pthread_cond_timedwait(&nodes->read, &nodes->lock, &until);
}

/* One that was begun before may be too old. */
weir_redis_map_answer weir_redis_map_await(weir_redis_nodes *nodes, int64_t end_us) {
  weir_redis_map_answer answer = WEIR_MAP_UNANSWERED;
  if (atomic_load_explicit(&nodes->refused, memory_order_relaxed)) return WEIR_MAP_REFUSED;
  pthread_mutex_lock(&nodes->lock);
  uint64_t wanted = nodes->begun + 1;
  int64_t now_us = weir_monotonic_us();
  while (nodes->ended < wanted && now_us < end_us) {
    int64_t due_us = nodes->begun > 0 ? nodes->begun_us + HASTE_US : 0;
    bool waits = nodes->reading || now_us < due_us;
    if (!waits) begin(nodes, now_us);
    if (!waits && !nodes->reading) break;
    wait_until(nodes, nodes->reading || end_us < due_us ? end_us : due_us);
    now_us = weir_monotonic_us();
  }
  if (nodes->ended >= wanted) answer = nodes->answer;
  pthread_mutex_unlock(&nodes->lock);
  return answer;
}

/* The servers of a store: the hosts of its URL, then every node that a cluster has named. A node
 * keeps its number, its place and its wire as long as the store. Any number of threads. */
#ifndef WEIR_REDIS_NODES_H
#define WEIR_REDIS_NODES_H

#include "redis/codec.h"
#include "redis/redirect.h"

enum { WEIR_REDIS_NODES_MOST = 256 };

typedef struct weir_redis_nodes weir_redis_nodes;

/* What the wires have in common; login and tls must outlive the nodes. */
typedef struct weir_redis_nodes_plan {
  const weir_redis_login *login;
  const weir_tls *tls; /* NULL: plain */
  weir_wire_options wire;
  bool follows; /* redirections; else each is a refusal */
} weir_redis_nodes_plan;

/* NULL: no memory. */
weir_redis_nodes *weir_redis_nodes_create(const weir_redis_nodes_plan *plan);

/* Waits for a map that is being read, at most for as long as that may take. In a child of the
 * process that opened the store it waits for nothing. NULL is fine. */
void weir_redis_nodes_destroy(weir_redis_nodes *nodes);

/* Adds a host of the URL, as weir_wire_open(). */
weir_status weir_redis_nodes_seed(weir_redis_nodes *nodes, const weir_wire_place *place,
                                  weir_message *message);
size_t weir_redis_nodes_seeds(const weir_redis_nodes *nodes);
size_t weir_redis_nodes_count(const weir_redis_nodes *nodes);

/* Opens the wire on first use, without waiting for anything: a name is looked up by a thread of its
 * own, and until that is back nothing is sent. NULL: no memory, or there is no such name. */
weir_wire *weir_redis_nodes_wire(weir_redis_nodes *nodes, unsigned node);

/* Whether redirections are followed, and whether the servers are known to be a cluster. */
bool weir_redis_nodes_follows(const weir_redis_nodes *nodes);
bool weir_redis_nodes_is_cluster(const weir_redis_nodes *nodes);

/* Whom to ask for a slot: its owner, else any node. */
unsigned weir_redis_nodes_route(weir_redis_nodes *nodes, uint16_t slot);
size_t weir_redis_nodes_slots(weir_redis_nodes *nodes, unsigned node);

/* What the node `asked` has answered, for a slot that was asked of it though another owns it
 * (`elsewhere`, see weir_redis_nodes_stand_in()) or not. Returns the number of the node to ask
 * next, which after TRYAGAIN and CLUSTERDOWN is the same, or -1: the redirection leads nowhere.
 * Learns from MOVED. */
int weir_redis_nodes_follow(weir_redis_nodes *nodes, unsigned asked, const weir_redirect *redirect,
                            bool elsewhere);

/* A node that does not answer cannot say who has taken its place. Another node to ask in its stead,
 * ten times a second; -1: not now, or there is none. While no owner is known at all, the next
 * host of the URL. */
int weir_redis_nodes_stand_in(weir_redis_nodes *nodes, unsigned away, uint16_t slot,
                              int64_t now_us);

/* --- map.c: CLUSTER SLOTS ----------------------------------------------------------------------
 */

typedef enum weir_redis_map_answer {
  WEIR_MAP_LEARNT,
  WEIR_MAP_NO_CLUSTER, /* the server is none's node */
  WEIR_MAP_REFUSED,    /* this user may not ask; MOVED must do */
  WEIR_MAP_UNANSWERED
} weir_redis_map_answer;

/* Asks a node, on a connection of its own, and learns. Waits. */
weir_redis_map_answer weir_redis_map_read(weir_redis_nodes *nodes, unsigned node,
                                          int64_t timeout_us);

/* After a MOVED, at most once a second: has a thread read the map that nobody waits for. */
void weir_redis_map_renew(weir_redis_nodes *nodes, unsigned node, int64_t now_us);

#endif

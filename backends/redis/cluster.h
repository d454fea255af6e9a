/* The servers of a store: the hosts of its URL, then every node that a cluster has named. A node
 * keeps its number for as long as it is known: the hosts of the URL as long as the store, the
 * others until they own nothing and the cluster no longer names them, or room is needed. Any number
 * of threads. */
#ifndef WEIR_REDIS_CLUSTER_H
#define WEIR_REDIS_CLUSTER_H

#include <stdatomic.h>

#include "redis/codec.h"
#include "redis/form.h"
#include "redis/refusal.h"

/* --- slots ---------------------------------------------------------------------------------------
 */

/* The 16,384 slots of a cluster: which one a home is in, and which node owns it as far as this
 * process has learnt. Any number of threads. */

/* CRC16 (XMODEM) of the home, modulo 16384. A home is what stands between the braces of a key,
 * which is what a node hashes; or the whole key where there are no braces. */
uint16_t weir_redis_slot(const char *home, size_t length);

/* Zero bytes are a table of which nothing is learnt. */
typedef struct weir_redis_slots {
  _Atomic uint16_t owners[WEIR_REDIS_SLOTS]; /* a node's number + 1; 0: none was named yet */
} weir_redis_slots;

/* The node's number, or -1. */
int weir_redis_slots_owner(weir_redis_slots *slots, uint16_t slot);

/* Returns the number of the node that owned it before, or -1. */
int weir_redis_slots_learn(weir_redis_slots *slots, uint16_t slot, unsigned node);

/* All that one owned is another's. */
void weir_redis_slots_inherit(weir_redis_slots *slots, unsigned dead, unsigned heir);

/* What one owned has no owner. */
void weir_redis_slots_release(weir_redis_slots *slots, unsigned node);

/* Adds to owned[node] for each node that owns slots. */
void weir_redis_slots_count_all(weir_redis_slots *slots, size_t *owned);

/* How many slots a node owns. */
size_t weir_redis_slots_count(weir_redis_slots *slots, unsigned node);

/* --- nodes ---------------------------------------------------------------------------------------
 */

enum { WEIR_REDIS_NODES_MOST = 256, WEIR_REDIS_NAME_BYTES = WEIR_REDIS_HOST_MOST + 16 };

/* In place of a node's number: no node is meant, or there is no memory; too many are known. */
enum { WEIR_REDIS_NO_NODE = -1, WEIR_REDIS_FULL = -2 };

typedef struct weir_redis_nodes weir_redis_nodes;

/* What the wires have in common; login and tls must outlive the nodes. */
typedef struct weir_redis_nodes_plan {
  const weir_wire_protocol *protocol; /* whose settings a login is */
  const weir_redis_login *login;
  weir_tls *tls; /* NULL: plain */
  weir_wire_options wire;
  bool follows; /* redirections; else each is a refusal */
  bool guarded; /* the login is a secret that only nodes may hear for which the URL or the cluster's
                   own list vouches; the rest are strangers, and not connected to */
} weir_redis_nodes_plan;

/* NULL: no memory. */
weir_redis_nodes *weir_redis_nodes_create(const weir_redis_nodes_plan *plan);

/* Waits for errands, and for a map that is being read, at most for as long as these may take. In a
 * child of the process that opened the store it waits for nothing. NULL is fine. */
void weir_redis_nodes_destroy(weir_redis_nodes *nodes);

/* Adds a host of the URL, as weir_wire_open(). */
weir_status weir_redis_nodes_seed(weir_redis_nodes *nodes, const weir_wire_place *place,
                                  weir_message *message);
size_t weir_redis_nodes_seeds(const weir_redis_nodes *nodes);

/* One more than the highest number in use; below it may be numbers of no node at present. */
size_t weir_redis_nodes_count(const weir_redis_nodes *nodes);

/* The node's wire, which stays until it is released. It is opened on first use, without waiting for
 * anything: a name is looked up by a thread of its own, and until that is back nothing is sent.
 * NULL, and nothing to release: no memory, no such name, no node has that number any more, or a
 * stranger. */
weir_wire *weir_redis_nodes_hold(weir_redis_nodes *nodes, unsigned number);
/* The same if it is open; else NULL. */
weir_wire *weir_redis_nodes_hold_open(weir_redis_nodes *nodes, unsigned number);
void weir_redis_nodes_release(weir_redis_nodes *nodes, unsigned number);

bool weir_redis_nodes_is_stranger(const weir_redis_nodes *nodes, unsigned number);

/* "host:port", for messages. */
void weir_redis_nodes_show(weir_redis_nodes *nodes, unsigned number,
                           char name[WEIR_REDIS_NAME_BYTES]);
/* The same for as long as the store is open; NULL: no node has that number, or no memory. */
const char *weir_redis_nodes_name(weir_redis_nodes *nodes, unsigned number);

/* How often those nodes were away that had the number before. */
uint64_t weir_redis_nodes_outages(weir_redis_nodes *nodes, unsigned number);

/* Whether any node ever had INCREX: only then is it worth while to look whose form is which. */
bool weir_redis_nodes_are_bounded(const weir_redis_nodes *nodes);
void weir_redis_nodes_note_bounded(weir_redis_nodes *nodes);

/* Which form of commands the node takes; NULL: no node ever had that number. */
weir_redis_form *weir_redis_nodes_form(const weir_redis_nodes *nodes, unsigned number);

/* What a thread of its own does beside all decisions: first member of a struct from malloc(), which
 * is freed after `run`. The nodes are not destroyed before. False: no thread, and nothing was
 * freed. */
typedef struct weir_redis_errand {
  weir_redis_nodes *nodes;
  void (*run)(struct weir_redis_errand *errand);
} weir_redis_errand;
bool weir_redis_nodes_send(weir_redis_errand *errand);

/* Whether the servers are known to be a cluster. */
bool weir_redis_nodes_is_cluster(const weir_redis_nodes *nodes);

/* What they were created with. */
const weir_redis_nodes_plan *weir_redis_nodes_plan_of(const weir_redis_nodes *nodes);

/* The node to ask for a slot: its owner, else any. */
unsigned weir_redis_nodes_route(weir_redis_nodes *nodes, uint16_t slot);
size_t weir_redis_nodes_slots(weir_redis_nodes *nodes, unsigned node);

/* What the node `asked` has answered, for a slot that was asked of it though another owns it
 * (`elsewhere`, see weir_redis_nodes_stand_in()) or not. Returns the number of the node to ask
 * next, which after TRYAGAIN and CLUSTERDOWN is the same, or WEIR_REDIS_NO_NODE or WEIR_REDIS_FULL:
 * the redirection leads nowhere. Learns from MOVED, unless it names a stranger. */
int weir_redis_nodes_follow(weir_redis_nodes *nodes, unsigned asked, const weir_redirect *redirect,
                            bool elsewhere);

/* A node that does not answer cannot say who has taken its place. Another node to ask in its stead,
 * ten times a second; -1: not now, or there is none. While no owner is known at all, the next
 * host of the URL. */
int weir_redis_nodes_stand_in(weir_redis_nodes *nodes, unsigned away, uint16_t slot,
                              int64_t now_us);

/* --- CLUSTER SLOTS -------------------------------------------------------------------------------
 */

/* What a node said when the map was asked for. */
typedef enum weir_redis_map_answer {
  WEIR_MAP_LEARNT,
  WEIR_MAP_NO_CLUSTER, /* the server is none's node */
  WEIR_MAP_REFUSED,    /* this user may not ask; MOVED must do */
  WEIR_MAP_UNANSWERED
} weir_redis_map_answer;

/* Asks a node, on a connection of its own, and learns: which node owns what, for which nodes the
 * cluster vouches, and which are no longer named. Waits. */
weir_redis_map_answer weir_redis_map_read(weir_redis_nodes *nodes, unsigned node,
                                          int64_t timeout_us);

/* After a MOVED, at most once a second: has a thread read the map that no decision waits for. */
void weir_redis_map_renew(weir_redis_nodes *nodes);

/* A stranger was named: has the map read, ten times a second at most, and waits until that is over.
 * UNANSWERED: not in time. */
weir_redis_map_answer weir_redis_map_await(weir_redis_nodes *nodes, int64_t end_us);

#endif

/* The servers of a store. Of a single one this is a table with one place. A cluster's nodes are
 * learnt while operations run: MOVED and ASK name them one at a time, CLUSTER SLOTS all at once.
 *
 *     slots     which node owns which of the 16,384 slots
 *     places    which node has which number; one that is not needed makes room for another
 *     wires     to each node, opened on first use and held while they are used
 *     names     of nodes, for people
 *     owners    what redirections say; which node to ask; which one while an owner is away
 *     errands   what is done beside all decisions, in threads of their own
 *     the map   CLUSTER SLOTS, read on a connection of its own: the reply is long, and no decision
 *               should wait behind it
 *
 * Reading slots and wires takes no lock. Adding, forgetting and opening are done under the lock of
 * the nodes, which is never held while a node is waited for. */
#include "redis/cluster.h"

#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "condition.h"
#include "redis/reply.h"
#include "wire/exchange.h"

enum {
  GRACE_US = 1000000,   /* a node that was named so lately is not forgotten */
  STAND_IN_US = 100000, /* between two questions to others while an owner is away */
  NAMES_MOST = 4096,    /* names that were told stay told; a node whose name is one more has none */
  MAP_PAUSE_US = 1000000,  /* between two maps, */
  MAP_HASTE_US = 100000,   /* and where a stranger was named */
  MAP_TIMEOUT_US = 500000, /* for one answer, */
  MAP_ASKED_MOST = 3       /* and from how many nodes */
};

/* --- slots ---------------------------------------------------------------------------------------
 */

/* Half a byte at a time. */
uint16_t weir_redis_slot(const char *home, size_t length) {
  static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                     0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                     0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
  unsigned crc = 0;
  for (size_t i = 0; i < length; i++) {
    unsigned byte = (unsigned char)home[i];
    crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ byte >> 4];
    crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ (byte & 0xf)];
  }
  return (uint16_t)(crc % WEIR_REDIS_SLOTS);
}

int weir_redis_slots_owner(weir_redis_slots *slots, uint16_t slot) {
  return atomic_load_explicit(&slots->owners[slot], memory_order_acquire) - 1;
}

int weir_redis_slots_learn(weir_redis_slots *slots, uint16_t slot, unsigned node) {
  return atomic_exchange_explicit(&slots->owners[slot], (uint16_t)(node + 1),
                                  memory_order_acq_rel) -
         1;
}

static void replace(weir_redis_slots *slots, uint16_t from, uint16_t to) {
  for (size_t i = 0; i < WEIR_REDIS_SLOTS; i++) {
    uint16_t owner = from;
    if (atomic_load_explicit(&slots->owners[i], memory_order_relaxed) == from)
      atomic_compare_exchange_strong_explicit(&slots->owners[i], &owner, to, memory_order_acq_rel,
                                              memory_order_relaxed);
  }
}

void weir_redis_slots_inherit(weir_redis_slots *slots, unsigned dead, unsigned heir) {
  replace(slots, (uint16_t)(dead + 1), (uint16_t)(heir + 1));
}

void weir_redis_slots_release(weir_redis_slots *slots, unsigned node) {
  replace(slots, (uint16_t)(node + 1), 0);
}

void weir_redis_slots_count_all(weir_redis_slots *slots, size_t *owned) {
  for (unsigned i = 0; i < WEIR_REDIS_SLOTS; i++) {
    int owner = weir_redis_slots_owner(slots, (uint16_t)i);
    if (owner >= 0) owned[owner]++;
  }
}

size_t weir_redis_slots_count(weir_redis_slots *slots, unsigned node) {
  size_t count = 0;
  for (unsigned i = 0; i < WEIR_REDIS_SLOTS; i++)
    count += weir_redis_slots_owner(slots, (uint16_t)i) == (int)node;
  return count;
}

/* --- places --------------------------------------------------------------------------------------
 */

/* A place in the table; another node may have it once the wire is not held. */
typedef struct weir_redis_node {
  weir_redis_login login;              /* a copy that knows which node it is told to */
  char host[WEIR_REDIS_HOST_MOST + 1]; /* empty: a socket's path, which no redirection names */
  uint16_t port;
  atomic_bool present;            /* a node has it */
  atomic_bool vouched;            /* and may be told the login */
  atomic_uint holders;            /* of its wire; hosts of the URL are not counted */
  _Atomic(weir_wire *) wire;      /* NULL until it is used */
  _Atomic int64_t stand_in_at_us; /* when another may be asked in its stead again */
  atomic_uint turn;               /* which one */
  weir_redis_form form;
  /* Under the lock: */
  bool listed;       /* the last map names it */
  int64_t named_us;  /* when it was named last */
  uint64_t outages;  /* of those who were here before */
  const char *shown; /* one of the names, NULL until it is asked for */
} weir_redis_node;

/* A name that was told to a caller who may keep it. */
typedef struct weir_redis_shown {
  struct weir_redis_shown *next;
  char text[];
} weir_redis_shown;

struct weir_redis_nodes {
  weir_redis_nodes_plan plan;
  size_t seeds;

  /* Guards adding, forgetting, opening, names, and reading the map. No wire is locked under it but one that
   * is not held. */
  pthread_mutex_t lock;
  pthread_cond_t read;
  pid_t process;         /* whose thread reads the map */
  bool reading;          /* there is one; */
  size_t errands;        /* other threads */
  uint64_t begun, ended; /* maps */
  int64_t begun_us;      /* the last */
  weir_redis_map_answer answer;
  weir_redis_shown *names;
  size_t name_count;
  atomic_size_t count;
  _Atomic(weir_redis_node *) list[WEIR_REDIS_NODES_MOST];
  weir_redis_slots slots;
  atomic_bool cluster;
  atomic_bool bounded;  /* a node has INCREX, or had */
  atomic_uint entry;    /* the node to ask for a slot without a known owner */
  atomic_uint told_by;  /* who sent the last redirection */
  atomic_bool outdated; /* there was a MOVED since the map was read */
  atomic_bool refused;  /* the map is not for this user */
};

static weir_redis_node *node_at(const weir_redis_nodes *nodes, unsigned number) {
  return atomic_load_explicit(&nodes->list[number], memory_order_acquire);
}

size_t weir_redis_nodes_seeds(const weir_redis_nodes *nodes) {
  return nodes->seeds;
}

size_t weir_redis_nodes_count(const weir_redis_nodes *nodes) {
  return atomic_load_explicit(&nodes->count, memory_order_acquire);
}

/* False: its wire is held. A thread that wants to hold it from here on finds that the node has
 * gone; one that did so before is counted. */
static bool forget(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = node_at(nodes, number);
  atomic_store(&node->present, false);
  if (atomic_load(&node->holders) > 0) {
    atomic_store(&node->present, true);
    return false;
  }
  weir_wire *wire = atomic_exchange(&node->wire, NULL);
  if (wire != NULL) node->outages += weir_wire_outages(wire);
  weir_wire_close(wire);
  node->shown = NULL;
  node->listed = false;
  weir_redis_slots_release(&nodes->slots, number);
  return true;
}

static bool may_go(const weir_redis_node *node, int64_t now_us) {
  return atomic_load(&node->present) && !node->listed && node->named_us + GRACE_US <= now_us;
}

/* Forgets each node that owns nothing, is not listed and was not named lately. Under the lock. */
static void sweep(weir_redis_nodes *nodes) {
  size_t owned[WEIR_REDIS_NODES_MOST] = {0};
  int64_t now_us = weir_monotonic_us();
  weir_redis_slots_count_all(&nodes->slots, owned);
  size_t count = weir_redis_nodes_count(nodes);
  for (unsigned i = (unsigned)nodes->seeds; i < count; i++)
    if (owned[i] == 0 && may_go(node_at(nodes, i), now_us)) forget(nodes, i);
  while (count > nodes->seeds && !atomic_load(&node_at(nodes, (unsigned)count - 1)->present))
    count--;
  atomic_store_explicit(&nodes->count, count, memory_order_release);
}

/* Of a full table, in which each owns something as redirections have it: who was named longest ago.
 * Its slots are asked of others again. */
static void make_room(weir_redis_nodes *nodes) {
  int64_t now_us = weir_monotonic_us();
  for (;;) {
    int oldest = -1;
    for (unsigned i = (unsigned)nodes->seeds; i < WEIR_REDIS_NODES_MOST; i++) {
      const weir_redis_node *node = node_at(nodes, i);
      bool held = atomic_load(&node->holders) > 0;
      if (held || !may_go(node, now_us)) continue;
      if (oldest < 0 || node->named_us < node_at(nodes, (unsigned)oldest)->named_us)
        oldest = (int)i;
    }
    if (oldest < 0 || forget(nodes, (unsigned)oldest)) return;
  }
}

/* A new node in a free place, under the lock. A cluster whose nodes change their addresses names
 * new ones for ever, so one that is not needed is forgotten for it. */
static int add(weir_redis_nodes *nodes, const char *host, size_t length, uint16_t port) {
  sweep(nodes);
  int place = -1; /* the lowest that is free */
  for (int tries = 0; place < 0 && tries < 2; tries++) {
    if (tries > 0) make_room(nodes);
    for (unsigned i = 0; i < WEIR_REDIS_NODES_MOST && place < 0; i++) {
      const weir_redis_node *each = node_at(nodes, i);
      if (each == NULL || !atomic_load(&each->present)) place = (int)i;
    }
  }
  if (place < 0) return WEIR_REDIS_FULL;
  weir_redis_node *node = node_at(nodes, (unsigned)place);
  if (node == NULL) {
    /* A place that was in use stays in the list, and so does its memory: threads may look at it any
     * time. */
    node = calloc(1, sizeof *node);
    if (node == NULL) return WEIR_REDIS_NO_NODE;
    node->login = *nodes->plan.login;
    node->login.nodes = nodes->plan.follows ? nodes : NULL;
    node->login.node = (unsigned)place;
    node->login.form = &node->form;
    atomic_store_explicit(&nodes->list[place], node, memory_order_release);
  }
  memcpy(node->host, host, length);
  node->host[length] = '\0';
  node->port = port;
  node->named_us = weir_monotonic_us();
  atomic_store(&node->stand_in_at_us, 0);
  atomic_store(&node->vouched, !nodes->plan.guarded);
  atomic_store(&node->present, true);
  if ((size_t)place >= weir_redis_nodes_count(nodes))
    atomic_store_explicit(&nodes->count, (size_t)place + 1, memory_order_release);
  return place;
}

/* Who is it that names a node? */
typedef enum naming {
  BY_REDIRECTION,
  BY_MAP_AS_OWNER, /* the cluster vouches for it, */
  BY_MAP_AS_OTHER  /* and for this one, which is not added where it is new */
} naming;

/* The number of the node with that name, which is noted as named now. An empty one is that of the
 * node `asked` itself. */
static int find(weir_redis_nodes *nodes, unsigned asked, const char *host, size_t length,
                uint16_t port, naming by) {
  int number = WEIR_REDIS_NO_NODE;
  if (length == 0) host = node_at(nodes, asked)->host;
  if (length == 0) length = strlen(host);
  if (length == 0) return WEIR_REDIS_NO_NODE;
  pthread_mutex_lock(&nodes->lock);
  size_t count = weir_redis_nodes_count(nodes);
  for (unsigned i = 0; i < count && number < 0; i++) {
    const weir_redis_node *node = node_at(nodes, i);
    if (atomic_load(&node->present) && node->port == port && strlen(node->host) == length &&
        memcmp(node->host, host, length) == 0)
      number = (int)i;
  }
  if (number < 0 && by != BY_MAP_AS_OTHER) number = add(nodes, host, length, port);
  if (number >= 0) {
    weir_redis_node *node = node_at(nodes, (unsigned)number);
    node->named_us = weir_monotonic_us();
    if (by != BY_REDIRECTION) atomic_store(&node->vouched, true);
  }
  pthread_mutex_unlock(&nodes->lock);
  return number;
}

/* --- open and close ------------------------------------------------------------------------------
 */

weir_redis_nodes *weir_redis_nodes_create(const weir_redis_nodes_plan *plan) {
  weir_redis_nodes *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  if (pthread_mutex_init(&made->lock, NULL) != 0) goto no_lock;
  if (!weir_condition_init(&made->read)) goto no_condition;
  made->plan = *plan;
  made->process = getpid();
  return made;

no_condition:
  pthread_mutex_destroy(&made->lock);
no_lock:
  free(made);
  return NULL;
}

void weir_redis_nodes_destroy(weir_redis_nodes *nodes) {
  if (nodes == NULL) return;
  bool own = nodes->process == getpid();
  if (own) pthread_mutex_lock(&nodes->lock);
  while (own && (nodes->reading || nodes->errands > 0))
    pthread_cond_wait(&nodes->read, &nodes->lock);
  if (own) pthread_mutex_unlock(&nodes->lock);
  for (unsigned i = 0; i < WEIR_REDIS_NODES_MOST; i++) {
    weir_redis_node *node = node_at(nodes, i);
    if (node != NULL) weir_wire_close(atomic_load(&node->wire));
    free(node);
  }
  for (weir_redis_shown *name = nodes->names, *next; name != NULL; name = next) {
    next = name->next;
    free(name);
  }
  if (own) pthread_cond_destroy(&nodes->read);
  if (own) pthread_mutex_destroy(&nodes->lock);
  free(nodes);
}

weir_status weir_redis_nodes_seed(weir_redis_nodes *nodes, const weir_wire_place *place,
                                  weir_message *message) {
  const char *host = place->host != NULL ? place->host : "";
  size_t length = strlen(host);
  if (length > WEIR_REDIS_HOST_MOST) length = WEIR_REDIS_HOST_MOST;
  int number = add(nodes, host, length, place->port);
  if (number < 0) return WEIR_NO_MEMORY;
  weir_redis_node *node = node_at(nodes, (unsigned)number);
  weir_wire *wire;
  weir_status status =
      weir_wire_open(place, nodes->plan.protocol, &node->login, &nodes->plan.wire, &wire, message);
  atomic_store(&node->vouched, true);
  atomic_store(&node->wire, wire);
  if (status == WEIR_OK) nodes->seeds++;
  return status;
}

/* --- wires ---------------------------------------------------------------------------------------
 */

/* A host of the URL stays; any other may be forgotten, unless it is held. */
static weir_redis_node *hold(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = node_at(nodes, number);
  if (number < nodes->seeds || node == NULL) return node;
  atomic_fetch_add(&node->holders, 1);
  if (atomic_load(&node->present) && atomic_load(&node->vouched)) return node;
  atomic_fetch_sub(&node->holders, 1);
  return NULL;
}

void weir_redis_nodes_release(weir_redis_nodes *nodes, unsigned number) {
  if (number >= nodes->seeds) atomic_fetch_sub(&node_at(nodes, number)->holders, 1);
}

weir_wire *weir_redis_nodes_hold(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = hold(nodes, number);
  if (node == NULL) return NULL;
  weir_wire *wire = atomic_load_explicit(&node->wire, memory_order_acquire);
  if (wire != NULL) return wire;
  weir_wire_options options = nodes->plan.wire;
  options.lookup_end_us = 0;
  options.named_by_others = true;
  const weir_wire_place place = {.host = node->host, .port = node->port, .tls = nodes->plan.tls};
  pthread_mutex_lock(&nodes->lock);
  wire = atomic_load_explicit(&node->wire, memory_order_relaxed);
  if (wire == NULL) {
    weir_wire_open(&place, nodes->plan.protocol, &node->login, &options, &wire, NULL);
    atomic_store_explicit(&node->wire, wire, memory_order_release);
  }
  pthread_mutex_unlock(&nodes->lock);
  if (wire == NULL) weir_redis_nodes_release(nodes, number);
  return wire;
}

weir_wire *weir_redis_nodes_hold_open(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = hold(nodes, number);
  if (node == NULL) return NULL;
  weir_wire *wire = atomic_load_explicit(&node->wire, memory_order_acquire);
  if (wire == NULL) weir_redis_nodes_release(nodes, number);
  return wire;
}

bool weir_redis_nodes_is_stranger(const weir_redis_nodes *nodes, unsigned number) {
  const weir_redis_node *node = node_at(nodes, number);
  return atomic_load(&node->present) && !atomic_load(&node->vouched);
}

/* Whether it answers as far as is known, and may be spoken to. */
static bool is_usable(weir_redis_nodes *nodes, unsigned number) {
  const weir_redis_node *node = hold(nodes, number);
  if (node == NULL) return false;
  weir_wire *wire = atomic_load_explicit(&node->wire, memory_order_acquire);
  bool usable = wire == NULL || !weir_wire_is_away(wire);
  weir_redis_nodes_release(nodes, number);
  return usable;
}

weir_redis_form *weir_redis_nodes_form(const weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = node_at(nodes, number);
  return node != NULL ? &node->form : NULL;
}

bool weir_redis_nodes_are_bounded(const weir_redis_nodes *nodes) {
  return atomic_load_explicit(&nodes->bounded, memory_order_relaxed);
}

void weir_redis_nodes_note_bounded(weir_redis_nodes *nodes) {
  atomic_store_explicit(&nodes->bounded, true, memory_order_relaxed);
}

/* --- errands -------------------------------------------------------------------------------------
 */

static void leave(weir_redis_nodes *nodes) {
  pthread_mutex_lock(&nodes->lock);
  nodes->errands--;
  pthread_cond_broadcast(&nodes->read);
  pthread_mutex_unlock(&nodes->lock);
}

static void *go(void *context) {
  weir_redis_errand *errand = context;
  weir_redis_nodes *nodes = errand->nodes;
  errand->run(errand);
  free(errand);
  leave(nodes);
  return NULL;
}

bool weir_redis_nodes_send(weir_redis_errand *errand) {
  weir_redis_nodes *nodes = errand->nodes;
  pthread_mutex_lock(&nodes->lock);
  nodes->errands++;
  pthread_mutex_unlock(&nodes->lock);
  bool sent = weir_wire_detach(go, errand);
  if (!sent) leave(nodes);
  return sent;
}

/* --- names ---------------------------------------------------------------------------------------
 */

/* Under the lock. */
static void write_name(const weir_redis_node *node, char name[WEIR_REDIS_NAME_BYTES]) {
  bool v6 = strchr(node->host, ':') != NULL;
  snprintf(name, WEIR_REDIS_NAME_BYTES, v6 ? "[%s]:%u" : "%s:%u", node->host, (unsigned)node->port);
}

void weir_redis_nodes_show(weir_redis_nodes *nodes, unsigned number,
                           char name[WEIR_REDIS_NAME_BYTES]) {
  pthread_mutex_lock(&nodes->lock);
  write_name(node_at(nodes, number), name);
  pthread_mutex_unlock(&nodes->lock);
}

const char *weir_redis_nodes_name(weir_redis_nodes *nodes, unsigned number) {
  weir_redis_node *node = node_at(nodes, number);
  if (number < nodes->seeds) return weir_wire_name(atomic_load(&node->wire));
  if (node == NULL) return NULL;
  pthread_mutex_lock(&nodes->lock);
  bool present = atomic_load(&node->present);
  if (present && node->shown == NULL) {
    /* Told before, perhaps of another place? Else it is kept. */
    char name[WEIR_REDIS_NAME_BYTES];
    write_name(node, name);
    weir_redis_shown *each = nodes->names;
    while (each != NULL && strcmp(each->text, name) != 0)
      each = each->next;
    if (each == NULL && nodes->name_count < NAMES_MOST) {
      size_t size = strlen(name) + 1;
      each = malloc(sizeof *each + size);
      if (each != NULL) {
        memcpy(each->text, name, size);
        each->next = nodes->names;
        nodes->names = each;
        nodes->name_count++;
      }
    }
    node->shown = each != NULL ? each->text : NULL;
  }
  const char *shown = present ? node->shown : NULL;
  pthread_mutex_unlock(&nodes->lock);
  return shown;
}

uint64_t weir_redis_nodes_outages(weir_redis_nodes *nodes, unsigned number) {
  const weir_redis_node *node = node_at(nodes, number);
  if (node == NULL) return 0;
  pthread_mutex_lock(&nodes->lock);
  uint64_t outages = node->outages;
  pthread_mutex_unlock(&nodes->lock);
  return outages;
}

/* --- owners --------------------------------------------------------------------------------------
 */

const weir_redis_nodes_plan *weir_redis_nodes_plan_of(const weir_redis_nodes *nodes) {
  return &nodes->plan;
}

bool weir_redis_nodes_is_cluster(const weir_redis_nodes *nodes) {
  return atomic_load_explicit(&nodes->cluster, memory_order_relaxed);
}

/* The table of slots may lag behind who has a number. */
static bool may_be_asked(const weir_redis_nodes *nodes, unsigned number) {
  if (number < nodes->seeds) return true;
  const weir_redis_node *node = node_at(nodes, number);
  return atomic_load_explicit(&node->present, memory_order_relaxed) &&
         atomic_load_explicit(&node->vouched, memory_order_relaxed);
}

unsigned weir_redis_nodes_route(weir_redis_nodes *nodes, uint16_t slot) {
  int owner = weir_redis_slots_owner(&nodes->slots, slot);
  if (owner >= 0 && may_be_asked(nodes, (unsigned)owner)) return (unsigned)owner;
  unsigned entry = atomic_load_explicit(&nodes->entry, memory_order_relaxed);
  return may_be_asked(nodes, entry) ? entry : 0;
}

size_t weir_redis_nodes_slots(weir_redis_nodes *nodes, unsigned node) {
  return weir_redis_slots_count(&nodes->slots, node);
}

int weir_redis_nodes_follow(weir_redis_nodes *nodes, unsigned asked, const weir_redirect *redirect,
                            bool elsewhere) {
  bool moved = redirect->kind == WEIR_REDIRECT_MOVED;
  atomic_store_explicit(&nodes->cluster, true, memory_order_relaxed);
  if (!moved && redirect->kind != WEIR_REDIRECT_ASK) return (int)asked;
  if (redirect->unknown) return WEIR_REDIS_NO_NODE;
  int node = find(nodes, asked, redirect->host, redirect->length, redirect->port, BY_REDIRECTION);
  atomic_store_explicit(&nodes->told_by, asked, memory_order_relaxed);
  if (moved) atomic_store_explicit(&nodes->outdated, true, memory_order_relaxed);
  if (node >= 0 && moved && !weir_redis_nodes_is_stranger(nodes, (unsigned)node)) {
    int before = weir_redis_slots_learn(&nodes->slots, redirect->slot, (unsigned)node);
    /* The node that takes the place of one that is away takes all its slots; where that is wrong,
     * the next MOVED says so. */
    if (elsewhere && before >= 0 && before != node)
      weir_redis_slots_inherit(&nodes->slots, (unsigned)before, (unsigned)node);
  }
  return node;
}

/* The next of `count` that is not known to be away, after so many of these. */
static int next_usable(weir_redis_nodes *nodes, unsigned away, size_t count, unsigned passed) {
  for (unsigned i = 0; i + 1 < count; i++) {
    unsigned number = (unsigned)((away + 1 + (i + passed) % (count - 1)) % count);
    if (is_usable(nodes, number)) return (int)number;
  }
  return WEIR_REDIS_NO_NODE;
}

int weir_redis_nodes_stand_in(weir_redis_nodes *nodes, unsigned away, uint16_t slot,
                              int64_t now_us) {
  weir_redis_node *node = node_at(nodes, away);
  size_t count = weir_redis_nodes_count(nodes);
  if (weir_redis_slots_owner(&nodes->slots, slot) < 0) {
    int next = WEIR_REDIS_NO_NODE;
    if (away < nodes->seeds) next = next_usable(nodes, away, nodes->seeds, 0);
    if (next < 0) next = next_usable(nodes, away, count, 0);
    if (next >= 0) atomic_store_explicit(&nodes->entry, (unsigned)next, memory_order_relaxed);
    return next;
  }
  int64_t due_us = atomic_load_explicit(&node->stand_in_at_us, memory_order_relaxed);
  if (now_us < due_us ||
      !atomic_compare_exchange_strong(&node->stand_in_at_us, &due_us, now_us + STAND_IN_US))
    return WEIR_REDIS_NO_NODE;
  unsigned passed = atomic_fetch_add(&node->turn, 1);
  return away < count ? next_usable(nodes, away, count, passed) : WEIR_REDIS_NO_NODE;
}

/* --- the map -------------------------------------------------------------------------------------
 */

/* One node is asked for it. What it names is noted while it is read. */
typedef struct map_question {
  weir_exchange exchange; /* first */
  weir_redis_nodes *nodes;
  unsigned node; /* the one that is asked */
  bool asked;
  weir_redis_map_answer answer;
  int64_t asked_us;
  bool owners[WEIR_REDIS_NODES_MOST];
  bool others[WEIR_REDIS_NODES_MOST];
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
static int read_node(const map_question *question, const redisReply *node, naming by) {
  if (node->type != REDIS_REPLY_ARRAY || node->elements < 2) return WEIR_REDIS_NO_NODE;
  const redisReply *name = node->element[0];
  const redisReply *port = node->element[1];
  bool text = name->type == REDIS_REPLY_STRING;
  const char *host = text ? name->str : "";
  size_t length = text ? (size_t)name->len : 0;
  if ((!text && name->type != REDIS_REPLY_NIL) || port->type != REDIS_REPLY_INTEGER ||
      port->integer < 1 || port->integer > UINT16_MAX || length > WEIR_REDIS_HOST_MOST ||
      (length == 1 && host[0] == '?'))
    return WEIR_REDIS_NO_NODE;
  return find(question->nodes, question->node, host, length, (uint16_t)port->integer, by);
}

static void read_range(map_question *question, const redisReply *range) {
  if (range->type != REDIS_REPLY_ARRAY || range->elements < 3) return;
  const redisReply *from = range->element[0];
  const redisReply *to = range->element[1];
  if (from->type != REDIS_REPLY_INTEGER || to->type != REDIS_REPLY_INTEGER) return;
  if (from->integer < 0 || to->integer >= WEIR_REDIS_SLOTS) return;
  int owner = read_node(question, range->element[2], BY_MAP_AS_OWNER);
  for (long long slot = from->integer; owner >= 0 && slot <= to->integer; slot++)
    weir_redis_slots_learn(&question->nodes->slots, (uint16_t)slot, (unsigned)owner);
  if (owner >= 0) question->owners[owner] = true;
  question->ranges += owner >= 0;
  for (size_t i = 3; i < range->elements; i++) {
    int other = read_node(question, range->element[i], BY_MAP_AS_OTHER);
    if (other >= 0) question->others[other] = true;
  }
}

static void read_map(map_question *question, const redisReply *reply) {
  /* What a node says at present, to all alike. */
  static const char *const passing[] = {"LOADING", "CLUSTERDOWN", "MASTERDOWN", "BUSY"};
  if (reply->type == REDIS_REPLY_ERROR) {
    bool will_pass = false;
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++)
      will_pass |= strncmp(reply->str, passing[i], strlen(passing[i])) == 0;
    if (strstr(reply->str, "cluster support disabled") != NULL)
      question->answer = WEIR_MAP_NO_CLUSTER;
    else if (!will_pass)
      question->answer = WEIR_MAP_REFUSED;
    return;
  }
  if (reply->type != REDIS_REPLY_ARRAY) return;
  for (size_t i = 0; i < reply->elements; i++)
    read_range(question, reply->element[i]);
  question->answer = WEIR_MAP_LEARNT;
  if (question->ranges == 0) return;

  /* A node that is not listed owns nothing, and is forgotten, unless it was named since the map was
   * asked for. */
  weir_redis_nodes *nodes = question->nodes;
  pthread_mutex_lock(&nodes->lock);
  for (unsigned i = 0; i < weir_redis_nodes_count(nodes); i++) {
    weir_redis_node *node = node_at(nodes, i);
    node->listed = question->owners[i] || question->others[i];
    if (!question->owners[i] && node->named_us < question->asked_us)
      weir_redis_slots_release(&nodes->slots, i);
  }
  sweep(nodes);
  pthread_mutex_unlock(&nodes->lock);
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
  map_question question = {.exchange = {.protocol = nodes->plan.protocol,
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
  question.asked_us = weir_monotonic_us();
  weir_wire_exchange(wire, &question.exchange, NULL, timeout_us, &why);
  weir_redis_nodes_release(nodes, node);
  if (question.answer == WEIR_MAP_LEARNT)
    atomic_store_explicit(&nodes->cluster, true, memory_order_relaxed);
  if (question.answer == WEIR_MAP_REFUSED)
    atomic_store_explicit(&nodes->refused, true, memory_order_relaxed);
  return question.answer;
}

/* In a thread of its own. The node that sent the last redirection is there, and knows more than
 * others. A map that no node told is still to be read. */
static void *renew(void *context) {
  weir_redis_nodes *nodes = context;
  size_t count = weir_redis_nodes_count(nodes);
  unsigned told_by = atomic_load_explicit(&nodes->told_by, memory_order_relaxed);
  weir_redis_map_answer answer = WEIR_MAP_UNANSWERED;
  int asked = 0;
  for (unsigned i = 0; i < count && asked < MAP_ASKED_MOST && answer == WEIR_MAP_UNANSWERED; i++) {
    unsigned number = (unsigned)((told_by + i) % count);
    if (!is_usable(nodes, number)) continue;
    answer = weir_redis_map_read(nodes, number, MAP_TIMEOUT_US);
    asked++;
  }
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
  if (!nodes->reading && (nodes->begun == 0 || now_us >= nodes->begun_us + MAP_PAUSE_US))
    begin(nodes, now_us);
  pthread_mutex_unlock(&nodes->lock);
}

/* One that was begun before may be too old. */
weir_redis_map_answer weir_redis_map_await(weir_redis_nodes *nodes, int64_t end_us) {
  weir_redis_map_answer answer = WEIR_MAP_UNANSWERED;
  if (atomic_load_explicit(&nodes->refused, memory_order_relaxed)) return WEIR_MAP_REFUSED;
  pthread_mutex_lock(&nodes->lock);
  uint64_t wanted = nodes->begun + 1;
  int64_t now_us = weir_monotonic_us();
  while (nodes->ended < wanted && now_us < end_us) {
    int64_t due_us = nodes->begun > 0 ? nodes->begun_us + MAP_HASTE_US : 0;
    bool waits = nodes->reading || now_us < due_us;
    if (!waits) begin(nodes, now_us);
    if (!waits && !nodes->reading) break;
    int64_t until_us = nodes->reading || end_us < due_us ? end_us : due_us;
    weir_condition_wait_until(&nodes->read, &nodes->lock, until_us);
    now_us = weir_monotonic_us();
  }
  if (nodes->ended >= wanted) answer = nodes->answer;
  pthread_mutex_unlock(&nodes->lock);
  return answer;
}

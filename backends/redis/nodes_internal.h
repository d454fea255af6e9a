/* What nodes.c, places.c and map.c share. */
#ifndef WEIR_REDIS_NODES_INTERNAL_H
#define WEIR_REDIS_NODES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "redis/nodes.h"
#include "redis/slots.h"

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
  pthread_mutex_t
      lock; /* guards adding, forgetting, opening, names, and reading the map; no wire is
                           locked under it but one that is not held */
  pthread_cond_t read;
  pid_t process;         /* whose thread reads the map */
  bool reading;          /* there is one; */
  uint64_t begun, ended; /* maps */
  int64_t begun_us;      /* the last */
  weir_redis_map_answer answer;
  weir_redis_shown *names;
  size_t name_count;
  atomic_size_t count;
  _Atomic(weir_redis_node *) list[WEIR_REDIS_NODES_MOST];
  weir_redis_slots slots;
  atomic_bool cluster;
  atomic_uint entry;    /* the node to ask for a slot without a known owner */
  atomic_uint told_by;  /* who sent the last redirection */
  atomic_bool outdated; /* there was a MOVED since the map was read */
  atomic_bool refused;  /* the map is not for this user */
};

static inline weir_redis_node *weir_redis_node_at(const weir_redis_nodes *nodes, unsigned number) {
  return atomic_load_explicit(&nodes->list[number], memory_order_acquire);
}

/* Whether it answers as far as is known, and may be spoken to. */
bool weir_redis_nodes_is_usable(weir_redis_nodes *nodes, unsigned number);

/* Who is it that names a node? */
typedef enum weir_redis_source {
  WEIR_REDIS_REDIRECTION,
  WEIR_REDIS_MAP_OWNER, /* the cluster vouches for it, */
  WEIR_REDIS_MAP_OTHER  /* and for this one, which is not added where it is new */
} weir_redis_source;

/* The number of the node with that name, which is noted as named now. */
int weir_redis_nodes_find(weir_redis_nodes *nodes, const char *host, size_t length, uint16_t port,
                          weir_redis_source source);

/* The host as the node `asked` meant it: an empty one is its own. False: nobody knows. */
bool weir_redis_nodes_resolve(weir_redis_nodes *nodes, unsigned asked, const char **host,
                              size_t *length);

/* The nodes that a map names. */
typedef struct weir_redis_listing {
  int64_t asked_us; /* a node that was named since is not forgotten */
  bool owners[WEIR_REDIS_NODES_MOST];
  bool others[WEIR_REDIS_NODES_MOST];
} weir_redis_listing;

/* Who is not listed owns nothing, and is forgotten. */
void weir_redis_nodes_list(weir_redis_nodes *nodes, const weir_redis_listing *listing);

/* places.c: a new node in a free place, under the lock; who is not needed is forgotten for it. */
int weir_redis_nodes_add(weir_redis_nodes *nodes, const char *host, size_t length, uint16_t port);
/* places.c: forgets who owns nothing, is not listed and was not named lately. Under the lock. */
void weir_redis_nodes_sweep(weir_redis_nodes *nodes);

#endif

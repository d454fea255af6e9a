/* What nodes.c and map.c share. */
#ifndef WEIR_REDIS_NODES_INTERNAL_H
#define WEIR_REDIS_NODES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "redis/nodes.h"
#include "redis/slots.h"

typedef struct weir_redis_node {
  weir_redis_login login;              /* a copy that knows which node it is told to */
  char host[WEIR_REDIS_HOST_MOST + 1]; /* empty: a socket's path, which no redirection names */
  uint16_t port;
  _Atomic(weir_wire *) wire;      /* NULL until it is used */
  _Atomic int64_t stand_in_at_us; /* when another may be asked in its stead again */
} weir_redis_node;

struct weir_redis_nodes {
  weir_redis_nodes_plan plan;
  size_t seeds;
  pthread_mutex_t lock; /* guards adding, opening, and `readers` */
  pthread_cond_t read;
  unsigned readers; /* threads that read the map */
  pid_t process;    /* whose they are */
  atomic_size_t count;
  _Atomic(weir_redis_node *) list[WEIR_REDIS_NODES_MOST];
  weir_redis_slots slots;
  atomic_bool cluster;
  atomic_uint entry;          /* whom to ask for a slot of which no owner is known */
  atomic_bool outdated;       /* there was a MOVED since the map was read */
  atomic_bool refused;        /* the map is not for this user */
  _Atomic int64_t map_due_us; /* not to be read before */
};

/* The number of the node with that name, which is added if it is new; -1: no room, no memory. */
int weir_redis_nodes_find(weir_redis_nodes *nodes, const char *host, size_t length, uint16_t port);

/* The host as the node `asked` meant it: an empty one is its own. False: nobody knows. */
bool weir_redis_nodes_resolve(weir_redis_nodes *nodes, unsigned asked, const char **host,
                              size_t *length);

#endif

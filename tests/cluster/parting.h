/* A cut between node 0 of a cluster and all others: of their bus, of replication, and of every
 * client that goes by what the cluster says of it. A client that connects to the node's own port
 * stays with it, as one on its side of the cut does.
 *
 * All of that goes through relays. The nodes announce relays in place of their ports; what node 0
 * sends is told from the rest by where it comes from, 127.0.0.2. */
#ifndef TESTS_CLUSTER_PARTING_H
#define TESTS_CLUSTER_PARTING_H

#include "fixture/cluster.h"
#include "fixture/proxy.h"
#include "fixture/server.h"

typedef struct parting {
  const cluster *nodes;
  struct server behind[CLUSTER_NODES_MOST]; /* the buses */
  proxy buses[CLUSTER_NODES_MOST];
  proxy clients; /* of node 0, and its replicas */
} parting;

/* Comes back when every node speaks to every other through a relay. */
void parting_start(parting *made, const cluster *nodes);

/* Nothing passes, and nobody is told; then all does again, what waited first. */
void parting_cut(parting *self);
void parting_heal(parting *self);

/* After the cluster has ended. */
void parting_stop(parting *done);

#endif

/* A cluster of two nodes, and what a client knows of it. */
#ifndef MODEL_CLUSTER_H
#define MODEL_CLUSTER_H

#include "model.h"

enum { ROUTED_MOST = 6 }; /* operations of a round */

/* An operation in a cluster. */
struct hop {
  bool going;           /* in this attempt, ... */
  uint8_t command;      /* ... from this command on */
  uint8_t node, to;     /* where it goes, and where it was told to go */
  bool asking, asks;    /* so, behind ASKING */
  bool redirected;      /* some command of it, in this attempt */
  bool decided;         /* its sum was executed */
  bool again;           /* it read too early */
  uint8_t hops, pad[6]; /* how often it was redirected */
};

/* How a client brings its round to the nodes of a cluster. */
struct courier {
  struct hop hops[ROUTED_MOST];
  uint8_t operation, command; /* that land next */
  uint8_t table, pad[5];      /* whose the slot is, as far as it knows */
};

struct cluster {
  int64_t slot; /* whose it is */
  struct courier couriers[CLIENTS_MOST];
};

/* cluster.c: a slot that moves from one node to another, and clients that follow it. */
void cluster_send(struct model *model, struct client *client); /* a round begins */
struct sent cluster_next(const struct model *model, const struct client *client);
void cluster_land(struct model *model, struct client *client);
void cluster_lose(struct model *model, struct client *client, weir_outcome outcome);
bool cluster_land_orphan(struct model *model, struct sent *sent); /* false: there is more of it */
size_t cluster_steps(const struct model *model, struct step *steps);
void cluster_migrate(struct model *model, int what);

#endif

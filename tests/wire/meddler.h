/* Stands between a client and a server that speaks TLS, cannot read a word, and meddles. */
#ifndef TESTS_WIRE_MEDDLER_H
#define TESTS_WIRE_MEDDLER_H

#include <stdint.h>

#include "fixture/servers.h"

struct meddler;

typedef struct meddling {
  size_t piece;   /* bytes carried at a time; 0: all there are */
  bool down;      /* it is the server's bytes that are flipped */
  size_t flip_at; /* one bit of the byte of this number, from 1, on each connection; 0: none */
} meddling;

struct meddler *meddler_start(const struct server *server);
uint16_t meddler_port(const struct meddler *self);

/* For connections from now on. */
void meddler_set(struct meddler *self, meddling plan);

void meddler_stop(struct meddler *self);

#endif

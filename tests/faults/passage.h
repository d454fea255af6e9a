/* The way between clients and one server, which can be made to fail. A process of its own. */
#ifndef TESTS_FAULTS_PASSAGE_H
#define TESTS_FAULTS_PASSAGE_H

#include "fixture/servers.h"

typedef enum passage_mode {
  PASSAGE_OPEN,
  PASSAGE_MUTE,    /* all that is connected hangs up; new ones are accepted, never answered */
  PASSAGE_TRICKLE, /* replies come one byte in 80 ms */
  PASSAGE_DROPS_REQUESTS, /* nothing comes through to the server, as when packets are lost: it
                             waits, and goes on when the passage is open again */
  PASSAGE_DROPS_REPLIES,  /* nothing comes back */
  PASSAGE_DROPS_ALL,
  PASSAGE_FULL, /* hangs up, and its queue is full: a new connection is not even refused */
  PASSAGE_MODES
} passage_mode;

typedef struct passage passage;

passage *passage_start(const struct server *behind);

/* As if it were that server: for URLs, and for a proxy. It is no server that could be stopped. */
struct server *passage_server(const passage *self);

/* Comes back when the passage does what it was told to. */
void passage_set(passage *self, passage_mode mode);

#endif

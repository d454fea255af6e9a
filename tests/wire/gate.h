/* Stands between clients and a server that answers, and can be shut: for what a real server does
 * not do on demand. */
#ifndef TESTS_WIRE_GATE_H
#define TESTS_WIRE_GATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "fixture/servers.h"

typedef enum gate_mode {
  GATE_OPEN,
  GATE_GREETS, /* passes the question of a greeting on, and loses all others; hangs up when opened
                */
  GATE_SILENT, /* accepts connections and passes nothing on; what comes waits */
  GATE_AWAY    /* accepts nothing, and its queue is full: a new connection is not even refused */
} gate_mode;

enum { GATE_PAIRS_MOST = 512, GATE_FILLERS = 4 };

typedef struct gate_pair {
  int client;
  int server;
  bool has_lost; /* a question: what is answered after it would be another's answer */
} gate_pair;

typedef struct gate {
  const struct server *_Atomic behind; /* may be changed: for connections from then on */
  bool secure; /* it leads to where that speaks TLS; set after the start, before the first client */
  struct address address;
  int listener;
  int wake[2]; /* a pipe; closed to end the thread */
  pthread_t thread;
  _Atomic gate_mode mode;
  atomic_int delay_ms; /* before each answer */
  atomic_int
      byte_ms; /* not 0: answers longer than a greeting's come byte by byte, this far apart */
  atomic_int connections; /* accepted */
  int fillers[GATE_FILLERS];
  gate_pair pairs[GATE_PAIRS_MOST]; /* from here on the thread's own */
  size_t count;
} gate;

void gate_start(gate *made, const struct server *behind, gate_mode mode);
void gate_set(gate *self, gate_mode mode);
void gate_stop(gate *done);

#endif

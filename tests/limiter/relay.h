/* Stands between one client and one memcached and counts commands, and round trips: how often the
 * client spoke again after the server had. (The server's own statistics leave out every counter
 * that a meta command creates.) */
#ifndef TESTS_LIMITER_RELAY_H
#define TESTS_LIMITER_RELAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "fixture/servers.h"

typedef struct relay {
  const struct server *server;
  struct address address; /* where it listens */
  int listener;
  int stop[2]; /* a pipe that ends the thread */
  pthread_t thread;
  bool inside_line; /* of what the client says; the thread's own */
  _Atomic int round_trips;
  _Atomic int commands; /* lines that begin with a letter: data blocks here are numbers */
} relay;

/* False when it cannot listen. */
bool relay_start(relay *made, const struct server *server);
void relay_stop(relay *done);

#endif

/* The whole server: its loops, what it listens at, its snapshot of the configuration. */
#ifndef WEIR_SERVE_SERVER_H
#define WEIR_SERVE_SERVER_H

#include <pthread.h>

#include "config/watch.h"
#include "serve/listen.h"
#include "serve/loop.h"

struct weir_server {
  const char *file;
  weir_registry *first; /* the snapshot it began with: what only a restart changes */
  weir_registry *registry;
  weir_config_watch *watch;
  weir_peers *peers;
  weir_socket *sockets; /* of each listener of the first snapshot */
  weir_serve_tls **tls; /* of each; NULL: none */
  pthread_mutex_t tls_lock;
  weir_loop front; /* the main thread's: signals, admin */
  weir_loop *loops;
  pthread_t *threads;
  unsigned loop_count, started;
  uint64_t reloads, reload_failures;
  int64_t began_us;
  bool is_draining;
  struct event signals[3], ticks;
};

/* Runs a server until a signal ends it. How it ended: 0 well; 2 the configuration is wrong; 3 it
 * could not start. Everything that is to be said goes to stderr, a line each. */
int weir_serve_run(const char *file);

/* --- for its loops ------------------------------------------------------------------------------ */

/* A loop is done. */
void weir_server_hear_end(weir_server *server);

/* What a new connection of a listener speaks below its protocol; NULL: nothing. The caller destroys
 * it when the connection has begun. */
weir_serve_tls *weir_server_tls(weir_server *server, size_t listener);

/* The listener `index` of the first snapshot as a later one has it; where that has it no longer, as
 * the first had it. */
const weir_config_listener *weir_server_listener(const weir_server *server,
                                                 const weir_registry *registry, size_t index);

#endif

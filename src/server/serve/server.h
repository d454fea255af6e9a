/* The whole server: its loops, what it listens at, its snapshot of the configuration. */
#ifndef WEIR_SERVE_SERVER_H
#define WEIR_SERVE_SERVER_H

#include <pthread.h>

#include "config/watch.h"
#include "serve/ahead.h"
#include "serve/denials.h"
#include "serve/listen.h"
#include "serve/loop.h"

struct weir_server {
  const char *file;
  weir_registry *registry;
  _Atomic(weir_registry *) anchor; /* the last snapshot that has every listener */
  weir_registry **retired;         /* older ones, until no loop uses them */
  size_t retired_count;
  weir_config_watch *watch;
  weir_clients *peers;
  weir_socket *sockets; /* of each listener that it began with */
  size_t socket_count;
  weir_serve_tls **tls; /* of each; NULL: none */
  pthread_mutex_t tls_lock;
  weir_loop front; /* the main thread's: signals, admin */
  weir_loop *loops;
  pthread_t *threads;
  unsigned loop_count, started;
  uint64_t reloads, reload_failures;
  weir_denial_log denials;
  weir_guesses guesses;
  int64_t began_us;     /* of CLOCK_MONOTONIC */
  weir_ahead *ahead;    /* stores that are being connected to; NULL: none are */
  weir_registry *fresh; /* a newer configuration that waits for them */
  bool must_reload;     /* the file is to be read once they are */
  bool is_serving;      /* it listens to clients */
  bool is_draining;
  struct event signals[3], ticks;
};

/* Runs a server until a signal ends it. How it ended: 0 well; 2 the configuration is wrong; 3 it
 * could not start. Everything that is to be said goes to stderr, a line each. */
int weir_serve_run(const char *file);

/* --- for its loops ------------------------------------------------------------------------------
 */

/* A loop is done. */
void weir_server_hear_end(weir_server *server);

/* What a new connection of a listener speaks below its protocol; NULL: nothing. The caller destroys
 * it when the connection has begun. */
weir_serve_tls *weir_server_tls(weir_server *server, size_t listener);

/* A listener that the server began with, as this snapshot has it; where it has it no longer, as the
 * last had that did. */
const weir_config_listener *weir_server_listener(const weir_server *server,
                                                 const weir_registry *registry, size_t index);

#endif

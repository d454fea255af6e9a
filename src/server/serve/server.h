/* The whole server: its loops, what it listens at, its snapshot of the configuration. */
#ifndef WEIR_SERVE_SERVER_H
#define WEIR_SERVE_SERVER_H

#include <pthread.h>

#include "config/config.h"
#include "serve/loop.h"

/* Runs a server until a signal ends it. How it ended: 0 well; 2 the configuration is wrong; 3 it
 * could not start. Everything that is to be said goes to stderr, a line each. */
int weir_serve_run(const char *file);

/* --- for server.c and reload.c: all of the main thread ------------------------------------------- */

typedef struct weir_ahead weir_ahead;
typedef struct weir_outages weir_outages;

typedef struct weir_server {
  const char *file;
  weir_service service; /* what its loops share */
  weir_loop front;      /* the main thread's: signals, admin */
  weir_loop *loops;
  pthread_t *threads;
  unsigned loop_count, started;
  struct event signals[5], ticks;
  /* The configuration. */
  weir_registry *registry;
  weir_registry **retired; /* older ones, until no loop uses them */
  size_t retired_count, retired_room;
  weir_config_watch *watch;
  weir_outages *outages;      /* of the registry's stores, as the log tells them */
  weir_ahead *ahead;          /* stores that are being connected to; NULL: none are */
  weir_registry *fresh;       /* a newer configuration that waits for them */
  bool must_reload;           /* the file is to be read once they are */
  int64_t certificates_at_us; /* when they are to be looked at again */
} weir_server;

/* Reads and builds the server's file. NULL: what is wrong has been said. */
weir_registry *weir_server_load(weir_server *server);

/* Reads the certificates of all listeners; keeps the old ones where there is any fault. */
bool weir_server_read_certificates(weir_server *server, const weir_registry *registry);

/* Lets this process have the files that so many connections need, or says that it may not. */
void weir_server_make_room(weir_service *service, const weir_config *config);

/* Begins to connect to every store of `fresh` that `old` (NULL: none) does not have: all at once,
 * each for its connect-timeout= at most. `fresh` must outlive it. The front is woken when all is over.
 * NULL: there is none to connect to. */
weir_ahead *weir_ahead_begin(const weir_registry *fresh, const weir_registry *old,
                             weir_loop *front);

/* Whether every store is ready, or has had its time. */
bool weir_ahead_is_over(const weir_ahead *ahead);

/* Says which stores were not reached, and why. One that is not over is given up, which takes a
 * second at most, and nothing is said. NULL is fine. */
void weir_ahead_end(weir_ahead *ahead);

/* Reads a newer configuration. It is in use once its new stores are connected to, or have had their
 * time; where it is no good the old one stays, and it is said why. */
void weir_server_reload(weir_server *server);

/* Goes on with that, where it can. */
void weir_server_go_on(weir_server *server);

/* Begins to log what becomes of the registry's stores, in place of those before, which are still there; looks,
 * once a second; and ends it. Of a store that stays nothing is missed. */
void weir_server_watch_stores(weir_server *server);
void weir_server_look_at_stores(weir_server *server);
void weir_server_forget_stores(weir_server *server);

/* Older snapshots go as soon as no loop uses them. */
void weir_server_release_retired(weir_server *server);

#endif

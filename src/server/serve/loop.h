/* One thread with its event loop, connections and tick. */
#ifndef WEIR_SERVE_LOOP_H
#define WEIR_SERVE_LOOP_H

#include "serve/connection.h"
#include "serve/tally.h"

typedef struct weir_server weir_server;

struct weir_loop {
  weir_server *server;
  unsigned index;
  struct event_base *base;
  weir_registry_mailbox mailbox;
  weir_tick tick; /* its registry is the snapshot in use */
  weir_serve_counts counts;
  weir_tally tally;
  _Atomic(weir_registry *) in_use; /* the tick's registry, for others to compare with */
  weir_port *ports;
  size_t port_count;
  weir_connection *connections, *touched, *resumed;
  size_t connection_count;
  uint64_t connections_made; /* for ids */
  char *buffer;              /* what is received at once, of whichever connection */
  size_t buffer_bytes;
  weir_bytes reply; /* and what is answered at once */
  struct event wakes, sweeps;
  int wake_fd; /* eventfd: another thread wants something */
  bool is_draining;
  bool accepts_paused;
  int64_t drain_until_us;
  _Atomic bool must_drain;
  _Atomic bool is_done; /* nothing runs here any more */
};

/* The ports are the caller's: zeroed but for their listener. False: no memory. */
bool weir_loop_init(weir_loop *loop, weir_server *server, unsigned index, weir_registry *registry);
void weir_loop_free(weir_loop *loop); /* one of zeros is fine */

/* Begins to accept at a socket that listens. */
bool weir_loop_listen(weir_loop *loop, weir_port *port);

/* Waits for something to do, and does it. */
void weir_loop_turn(weir_loop *loop);

/* Turns until it has been told to drain, and all connections have ended. */
void weir_loop_run(weir_loop *loop);

/* Any thread: have a look at the flags and the mailbox. */
void weir_loop_wake(weir_loop *loop);

/* What its limits are now. */
const weir_config_limits *weir_loop_limits(const weir_loop *loop);

#endif

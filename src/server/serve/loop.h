/* The turns of one thread: clients are accepted, their bytes received and read as requests, these
 * decided together, the answers worded and sent. */
#ifndef WEIR_SERVE_LOOP_H
#define WEIR_SERVE_LOOP_H

#include "serve/client.h"

/* The ports are the caller's: zeroed but for their listener. False: no memory. */
bool weir_loop_init(weir_loop *loop, weir_service *service, unsigned index,
                    weir_registry *registry);
void weir_loop_free(weir_loop *loop); /* one of zeros is fine */

/* Begins to accept at a socket that listens. */
bool weir_loop_listen(weir_loop *loop, weir_port *port);

/* Waits for something to do, and does it. */
void weir_loop_turn(weir_loop *loop);

/* Turns until it has been told to drain, and all connections have ended. */
void weir_loop_run(weir_loop *loop);

/* Any thread: have a look at the flags and the mailbox. */
void weir_loop_wake(weir_loop *loop);

#endif

/* The configuration in use, and what a newer one changes. Of the main thread. */
#ifndef WEIR_SERVE_RELOAD_H
#define WEIR_SERVE_RELOAD_H

#include "serve/server.h"

/* Reads and builds the server's file. NULL: what is wrong has been said. */
weir_registry *weir_server_load(weir_server *server);

/* Reads the certificates of all listeners; keeps the old ones where there is any fault. */
bool weir_server_read_certificates(weir_server *server, const weir_registry *registry);

/* Lets this process have the files that so many connections need, or says that it may not. */
void weir_server_make_room(const weir_config *config);

/* Reads a newer configuration. It is in use once its new stores are connected to, or have had their
 * time; where it is no good the old one stays, and it is said why. */
void weir_server_reload(weir_server *server);

/* Goes on with that, where it can. */
void weir_server_go_on(weir_server *server);

/* Older snapshots go as soon as no loop uses them. */
void weir_server_release_retired(weir_server *server);

#endif

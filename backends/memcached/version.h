/* CAS ids as versions.
 *
 * A memcached that starts again counts its CAS ids from the beginning, so an old id soon fits a new
 * item. But no connection outlives its server: a version is the id under a random mask of the
 * connection that it came by, and fits nothing by any other. Behind a proxy, whose connections stay
 * when a server goes, this cannot be told.
 *
 * A server has two connections: a bit of the version says by which of them it came, and so by which
 * it must go back. Where that is gone by then, or another stands in its place, the masks differ and
 * the SWAP ends in a conflict. */
#ifndef WEIR_MEMCACHED_VERSION_H
#define WEIR_MEMCACHED_VERSION_H

#include "wire/wire.h"

/* What a connection keeps as its parser. NULL: no memory. */
void *weir_version_mask_create(const void *settings, int connection);
void weir_version_mask_destroy(void *mask);

/* The number of the connection that it came by. */
int weir_version_connection(uint64_t version);

/* By a command's own connection; without one there is no mask. 0 for 0: the server gave no id. */
uint64_t weir_version_of_cas(const weir_wire_command *command, uint64_t cas);

/* Never 0, which the server would take for "whatever is there". */
uint64_t weir_version_to_cas(const weir_wire_command *command, uint64_t version);

#endif

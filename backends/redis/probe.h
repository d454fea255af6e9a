/* When and how a server is asked for the form of commands that it takes. */
#ifndef WEIR_REDIS_PROBE_H
#define WEIR_REDIS_PROBE_H

#include "redis/cluster.h"

/* Whether operations may go by INCREX. Sometimes this has the server be asked, on a connection of
 * its own, for which nobody waits: a key beside that of the operation, which goes there. */
bool weir_redis_probe_use(weir_redis_nodes *nodes, unsigned node, const weir_operation *operation);

#endif

/* A TCP relay in front of a server that cuts each connection after some bytes. */
#ifndef TESTS_REDIS_RELAY_H
#define TESTS_REDIS_RELAY_H

#include <stdint.h>

#include "fixture/servers.h"

struct relay;

/* From now on each connection is cut after 1 to `most` bytes from its client, by a seeded choice.
 * Fails the process where there is no port, thread or memory. */
struct relay *relay_start(const struct server *server, unsigned seed, unsigned most);
uint16_t relay_port(const struct relay *relay);

/* Stops; how many connections were cut. */
unsigned relay_stop(struct relay *relay);

#endif

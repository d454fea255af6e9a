/* The list of servers that a configuration endpoint tells: "config get cluster". */
#ifndef WEIR_MEMCACHED_DISCOVERY_H
#define WEIR_MEMCACHED_DISCOVERY_H

#include "memcached/codec.h"

enum {
  WEIR_DISCOVERY_SERVERS_MOST = 256,
  WEIR_DISCOVERY_BYTES_MOST = 1 << 17 /* of an answer: names and addresses of as many servers */
};

/* The servers, in the order in which they were told. The names stand in the answer. */
typedef struct weir_discovery {
  weir_url_host hosts[WEIR_DISCOVERY_SERVERS_MOST];
  size_t host_count;
  size_t length; /* of what came of the answer */
  char answer[WEIR_DISCOVERY_BYTES_MOST + 1];
} weir_discovery;

/* Whether no more of the answer is to come, be it right or wrong. Pure. */
bool weir_discovery_is_whole(weir_discovery *discovery);

/* Takes a whole answer apart. False: it is none, and the message says what is. Pure. */
bool weir_discovery_read(weir_discovery *discovery, weir_message *message);

/* Asks the server at that place, on a connection of its own, and waits for the answer.
 * WEIR_BAD_URL: it tells no list of servers; WEIR_UNAVAILABLE: there was no answer in time. */
weir_status weir_discovery_ask(const weir_wire_place *place, const weir_wire_options *options,
                               const weir_memcached_login *login, weir_discovery *discovery,
                               weir_message *message);

#endif

/* What a place leads to: addresses, in an order that is the same for every process. */
#ifndef WEIR_WIRE_ADDRESSES_H
#define WEIR_WIRE_ADDRESSES_H

#include <netdb.h>
#include <sys/socket.h>
#include <weir/status.h>

#include "wire/wire.h"

typedef struct weir_address {
  struct sockaddr_storage bytes;
  socklen_t length;
} weir_address;

/* Sorted, each once: IPv4 before IPv6, then by the bytes of the address, then by port. Resolvers
 * give any order, and often another each time; processes that went by it would count on different
 * servers. IPv4 is first as most servers have it, also where a name such as localhost has both. */
typedef struct weir_addresses {
  weir_address *list;
  size_t count;
} weir_addresses;

/* Of a unix socket. WEIR_BAD_URL: the path is too long. */
weir_status weir_addresses_of_path(const char *path, weir_addresses *addresses,
                                   weir_message *message);

/* Of what getaddrinfo found, which stays the caller's. False: no memory. */
bool weir_addresses_sort(const struct addrinfo *found, weir_addresses *addresses);

bool weir_addresses_equal(const weir_addresses *one, const weir_addresses *other);

/* Where in the list it stands; the count: nowhere. */
size_t weir_addresses_find(const weir_addresses *addresses, const weir_address *address);

/* How many are of one family, of whichever has more. */
size_t weir_addresses_alike(const weir_addresses *addresses);

void weir_addresses_free(weir_addresses *addresses);

#endif

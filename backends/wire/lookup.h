/* Names to addresses, within a bound. */
#ifndef WEIR_WIRE_LOOKUP_H
#define WEIR_WIRE_LOOKUP_H

#include <netdb.h>

#include "wire/wire.h"

/* Looks a host up until options->lookup_end_us at the latest; *found is for freeaddrinfo. An
 * address in digits needs no time. WEIR_BAD_URL names what cannot be found, or not in time. */
weir_status weir_lookup_host(const char *host, uint16_t port, const weir_wire_options *options,
                             struct addrinfo **found, weir_message *message);

#endif

/* A look-up of a name, in a thread that nobody needs to wait for. */
#ifndef WEIR_WIRE_LOOKUP_H
#define WEIR_WIRE_LOOKUP_H

#include "wire/addresses.h"

typedef struct weir_lookup weir_lookup;

/* NULL: no memory, or, with an errno that is not ENOMEM, no thread. */
weir_lookup *weir_lookup_start(const weir_endpoint *asked);

/* The same for a name that a server told. Only so many threads of this process look up such names at
 * a time: NULL and EBUSY where there is none left. */
enum { WEIR_LOOKUP_TOLD_MOST = 4 };
weir_lookup *weir_lookup_start_told(const weir_endpoint *asked);

/* The same of what a resolver says, who is asked first. */
weir_lookup *weir_lookup_start_resolver(weir_resolver *resolver, bool in_doubt);

/* Whether the answer is there; never waits. */
bool weir_lookup_is_done(const weir_lookup *lookup);

/* The same, and waits for it until `end_us`. */
bool weir_lookup_await(weir_lookup *lookup, int64_t end_us);

/* Takes the answer of one that is done, and frees it. *addresses is the caller's with FOUND, and
 * *asked says whose they are; the reason is told otherwise. */
weir_lookup_result weir_lookup_take(weir_lookup *lookup, weir_endpoint *asked,
                                    weir_addresses *addresses, weir_message *why);

/* Lets go of one that is done or not; waits for nothing, not in a child of its process either. NULL
 * is fine. */
void weir_lookup_leave(weir_lookup *lookup);

/* An address in digits needs no look-up: WEIR_OK or WEIR_NO_MEMORY; WEIR_BAD_URL: it is a name. */
weir_status weir_lookup_digits(const char *host, uint16_t port, weir_addresses *addresses);

#endif

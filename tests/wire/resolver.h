/* A resolver that says what a test wants: the linker puts it in place of the system's, with
 * --wrap=getaddrinfo. Names that end in ".test" are its own; all others go to the system's. */
#ifndef TESTS_WIRE_RESOLVER_H
#define TESTS_WIRE_RESOLVER_H

#include <stddef.h>
#include <stdint.h>

/* The answer in order: an address in digits, and a port of its own, as servers on one machine have.
 * The port that is asked for is not looked at. */
typedef struct resolver_address {
  const char *digits;
  uint16_t port;
} resolver_address;

/* Every name leads here from now on. */
void resolver_lead(const resolver_address *addresses, size_t count);

/* The same for addresses that differ in their port alone. */
void resolver_lead_to_ports(const uint16_t *ports, size_t count);

/* From now on every look-up ends with this error of getaddrinfo. */
void resolver_fail(int error);

/* Look-ups hang until the resolver is told to lead or to fail. */
void resolver_hang(void);

/* Look-ups that have begun, since the program started. */
unsigned resolver_asked(void);

#endif

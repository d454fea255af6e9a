#include "memcached/version.h"

#include <sodium.h>
#include <stdlib.h>

/* No id reaches these bits by counting: with the first no version is 0, the second is the number of
 * the connection. */
enum { NEVER_ZERO_BIT = 63, CONNECTION_BIT = 62 };
_Static_assert(WEIR_WIRE_CONNECTIONS == 2, "the number of a connection has one bit");

void *weir_version_mask_create(const void *settings, int connection) {
  (void)settings;
  uint64_t *mask = sodium_init() < 0 ? NULL : malloc(sizeof *mask);
  if (mask == NULL) return NULL;
  randombytes_buf(mask, sizeof *mask);
  *mask |= UINT64_C(1) << NEVER_ZERO_BIT;
  *mask &= ~(UINT64_C(1) << CONNECTION_BIT);
  *mask |= (uint64_t)connection << CONNECTION_BIT;
  return mask;
}

void weir_version_mask_destroy(void *mask) {
  free(mask);
}

int weir_version_connection(uint64_t version) {
  return (int)(version >> CONNECTION_BIT & 1);
}

static uint64_t mask_of(const weir_wire_command *command) {
  const uint64_t *mask = command->parser;
  return mask != NULL ? *mask : 0;
}

uint64_t weir_version_of_cas(const weir_wire_command *command, uint64_t cas) {
  return cas != 0 ? cas ^ mask_of(command) : 0;
}

uint64_t weir_version_to_cas(const weir_wire_command *command, uint64_t version) {
  uint64_t cas = version ^ mask_of(command);
  return cas != 0 ? cas : UINT64_MAX;
}

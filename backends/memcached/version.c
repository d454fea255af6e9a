#include "memcached/version.h"

#include <sodium.h>
#include <stdlib.h>

void *weir_version_mask_create(void) {
  uint64_t *mask = sodium_init() < 0 ? NULL : malloc(sizeof *mask);
  if (mask == NULL) return NULL;
  randombytes_buf(mask, sizeof *mask);
  *mask |= UINT64_C(1) << 63; /* a bit that no id reaches by counting: no version is 0 */
  return mask;
}

void weir_version_mask_destroy(void *mask) {
  free(mask);
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

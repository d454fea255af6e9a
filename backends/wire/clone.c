/* A second wire to the same place, for what must not disturb the first. */
#include <stdlib.h>
#include <string.h>

#include "wire/internal.h"

enum { PROBE_US = 10000 };

static bool copy_addresses(const weir_addresses *from, weir_addresses *to) {
  to->list = calloc(from->count + 1, sizeof *to->list);
  if (to->list == NULL) return false;
  if (from->count > 0) memcpy(to->list, from->list, from->count * sizeof *to->list);
  to->count = from->count;
  return true;
}

weir_status weir_wire_clone(weir_wire *wire, const weir_wire_protocol *protocol,
                            const void *settings, int64_t timeout_us, weir_wire **clone) {
  const weir_wire_options options = {
      .timeout_us = timeout_us, .connect_us = timeout_us, .probe_us = PROBE_US};
  weir_wire *made = weir_wire_make(protocol, settings, wire->tls, &options);
  *clone = NULL;
  if (made == NULL) return WEIR_NO_MEMORY;
  memcpy(made->name, wire->name, sizeof made->name);
  pthread_mutex_lock(&wire->lock);
  made->asked = wire->asked;
  bool copied = copy_addresses(&wire->addresses, &made->addresses);
  made->address = wire->address;
  made->connections[0].why = wire->connections[0].why;
  weir_wire_unlock(wire);
  if (!copied) {
    weir_wire_close(made);
    return WEIR_NO_MEMORY;
  }
  *clone = made;
  return WEIR_OK;
}

const char *weir_wire_name(const weir_wire *wire) {
  return wire->name;
}

weir_wire_choice weir_wire_read_choice(weir_wire *wire) {
  pthread_mutex_lock(&wire->lock);
  weir_wire_choice choice = {.count = wire->addresses.count,
                             .alike = weir_addresses_alike(&wire->addresses),
                             .any = wire->any_address};
  weir_wire_unlock(wire);
  return choice;
}

const weir_tls *weir_wire_tls(const weir_wire *wire) {
  return wire->tls;
}

/* A second wire to the same place, for what must not disturb the first. */
#include <stdlib.h>
#include <string.h>

#include "wire/internal.h"

enum { PROBE_US = 10000 };

static bool copy_addresses(const weir_addresses *from, weir_addresses *to) {
  to->list = calloc(from->count, sizeof *to->list);
  if (to->list == NULL) return false;
  memcpy(to->list, from->list, from->count * sizeof *to->list);
  to->count = from->count;
  return true;
}

weir_status weir_wire_open_beside(const weir_wire *wire, const weir_wire_protocol *protocol,
                                  const void *settings, int64_t timeout_us, weir_wire **beside) {
  weir_wire *made = calloc(1, sizeof *made);
  *beside = NULL;
  if (made == NULL) return WEIR_NO_MEMORY;
  made->protocol = protocol;
  made->greeting.settings = settings;
  made->timeout_us = timeout_us;
  made->fd = -1;
  made->tls = wire->tls;
  atomic_init(&made->leading, false);
  atomic_init(&made->dialect, -1);
  weir_breaker_init(&made->breaker, PROBE_US, (uint64_t)weir_monotonic_us());
  memcpy(made->host, wire->host, sizeof made->host);
  memcpy(made->name, wire->name, sizeof made->name);
  if (!copy_addresses(&wire->addresses, &made->addresses)) goto failed;
  if (pthread_mutex_init(&made->lock, NULL) != 0) goto failed;
  *beside = made;
  return WEIR_OK;

failed:
  weir_addresses_free(&made->addresses);
  free(made);
  return WEIR_NO_MEMORY;
}

const char *weir_wire_name(const weir_wire *wire) {
  return wire->name;
}

const weir_tls *weir_wire_tls(const weir_wire *wire) {
  return wire->tls;
}

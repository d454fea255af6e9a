/* Opening and closing a wire. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/internal.h"

static void set_name(weir_wire *wire, const weir_wire_place *place) {
  if (place->path != NULL) {
    snprintf(wire->name, sizeof wire->name, "%s", place->path);
  } else if (strchr(place->host, ':') != NULL) {
    snprintf(wire->name, sizeof wire->name, "[%s]:%u", place->host, (unsigned)place->port);
  } else {
    snprintf(wire->name, sizeof wire->name, "%s:%u", place->host, (unsigned)place->port);
  }
}

weir_status weir_wire_open(const weir_wire_place *place, const weir_wire_protocol *protocol,
                           const void *settings, int64_t timeout_us, weir_wire **wire,
                           weir_message *message) {
  *wire = NULL;
  weir_wire *made = calloc(1, sizeof *made);
  if (made == NULL) return WEIR_NO_MEMORY;
  made->protocol = protocol;
  made->greeting.settings = settings;
  made->timeout_us = timeout_us;
  made->fd = -1;
  atomic_init(&made->leading, false);
  atomic_init(&made->dialect, -1);
  set_name(made, place);
  weir_status status = weir_addresses_find(place, &made->addresses, message);
  if (status != WEIR_OK) goto failed;
  status = WEIR_NO_MEMORY;
  if (pthread_mutex_init(&made->lock, NULL) != 0) goto failed;
  *wire = made;
  return WEIR_OK;

failed:
  weir_addresses_free(&made->addresses);
  free(made);
  return status;
}

static void free_slots(weir_wire_slot *slot) {
  while (slot != NULL) {
    weir_wire_slot *next = slot->next;
    weir_wire_slot_free(slot);
    slot = next;
  }
}

void weir_wire_close(weir_wire *wire) {
  if (wire == NULL) return;
  if (wire->fd >= 0) close(wire->fd);
  weir_wire_parser_drop(wire);
  free_slots(wire->first);
  free_slots(wire->pool);
  pthread_mutex_destroy(&wire->lock);
  weir_addresses_free(&wire->addresses);
  free(wire);
}

int weir_wire_dialect(const weir_wire *wire) {
  return atomic_load_explicit(&wire->dialect, memory_order_relaxed);
}

/* The name that a wire leads to: looked up when the wire is opened, and again while it is used, by
 * a thread that no decision waits for. One at a time: a resolver that hangs holds one thread of a
 * wire, however long. */
#include "wire/internal.h"
#include "wire/lookup.h"

/* How long an answer is good for, and the least time between two questions where a server is in
 * doubt: a name that has moved is followed within a second. */
enum { RENEW_US = 30000000, RETRY_US = 500000 };

static void name_begin(weir_wire *wire, int64_t now_us) {
  wire->lookup = weir_lookup_start(wire->host, wire->port);
  wire->looked_up_us = now_us;
  wire->lookup_at_us = now_us + (wire->lookup != NULL ? RENEW_US : RETRY_US);
}

/* Without an answer the known addresses stay. */
static weir_lookup_result name_take(weir_wire *wire, int64_t now_us, weir_message *why) {
  weir_addresses found;
  weir_lookup_result result = weir_lookup_take(wire->lookup, &found, why);
  wire->lookup = NULL;
  if (result == WEIR_LOOKUP_FOUND) weir_wire_adopt(wire, &found);
  wire->looked_up_us = now_us;
  wire->lookup_at_us = now_us + (wire->addresses.count > 0 ? RENEW_US : RETRY_US);
  return result;
}

weir_status weir_wire_name_open(weir_wire *wire, const weir_wire_place *place,
                                const weir_wire_options *options, weir_message *message) {
  if (place->path != NULL) return weir_addresses_of_path(place->path, &wire->addresses, message);
  weir_status status = weir_lookup_digits(place->host, place->port, &wire->addresses);
  if (status != WEIR_BAD_URL) return status;
  wire->port = place->port;
  name_begin(wire, weir_monotonic_us());
  if (wire->lookup == NULL) return WEIR_NO_MEMORY;
  weir_message_set(&wire->connections[0].why, "host \"%s\": the name is not resolved yet",
                   place->host);
  if (!weir_lookup_await(wire->lookup, options->lookup_end_us)) return WEIR_OK;
  weir_lookup_result result = name_take(wire, weir_monotonic_us(), &wire->connections[0].why);
  if (result == WEIR_LOOKUP_NO_MEMORY) return WEIR_NO_MEMORY;
  if (result != WEIR_LOOKUP_NO_SUCH_NAME) return WEIR_OK;
  weir_message_set(message, "%s", wire->connections[0].why.text);
  return WEIR_BAD_URL;
}

void weir_wire_name_follow(weir_wire *wire, int64_t now_us) {
  weir_message why;
  if (wire->lookup != NULL && weir_lookup_is_done(wire->lookup) &&
      name_take(wire, now_us, &why) != WEIR_LOOKUP_FOUND && wire->addresses.count == 0)
    wire->connections[0].why = why;
  if (wire->lookup == NULL && now_us >= wire->lookup_at_us) name_begin(wire, now_us);
}

void weir_wire_name_doubt(weir_wire *wire) {
  int64_t soonest_us = wire->looked_up_us + RETRY_US;
  bool named = wire->lookup_at_us != INT64_MAX;
  if (named && wire->lookup_at_us > soonest_us) wire->lookup_at_us = soonest_us;
}

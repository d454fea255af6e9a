/* The name that a wire leads to: looked up when the wire is opened, and again while it is used, by
 * a thread that no decision waits for. One at a time: a resolver that hangs holds one thread of a
 * wire, however long. */
#include <errno.h>
#include <string.h>

#include "wire/internal.h"
#include "wire/lookup.h"

/* How long an answer is good for, a resolver's and a name's, and the least time between two questions
 * where a server is in doubt: what has moved is followed within a second. */
enum { RENEW_TOLD_US = 1000000, RENEW_US = 30000000, RETRY_US = 500000 };

/* Until there may be room among those who look up names that servers told. */
enum { ROOM_US = 10000 };

/* How long those in line wait for a resolver, within their own time. */
enum { RESOLVER_PATIENCE_US = 100000 };

static int64_t renew_us(const weir_wire *wire) {
  return wire->resolver != NULL ? RENEW_TOLD_US : RENEW_US;
}

/* Threads that may be started are bounded as memory is, and another will do in a moment. */
static void explain_no_lookup(const weir_wire *wire, int error, weir_message *why) {
  char text[128] = "";
  if (error == ENOMEM) {
    weir_message_set(why, "%s: no memory to look it up", wire->name);
  } else if (error == EBUSY) {
    weir_message_set(why, "host \"%s\": as many names that servers told are being looked up as may",
                     wire->asked.host);
  } else {
    if (strerror_r(error, text, sizeof text) != 0) text[0] = '\0';
    weir_message_set(why, "a thread to find %s by could not be started: %s", wire->name, text);
  }
}

/* False, with errno: it cannot be begun; that is tried again. */
static bool name_begin(weir_wire *wire, int64_t now_us) {
  bool in_doubt = wire->answered_us < wire->lost_us;
  if (wire->resolver != NULL)
    wire->lookup = weir_lookup_start_resolver(wire->resolver, in_doubt);
  else
    wire->lookup = wire->named_by_others ? weir_lookup_start_told(&wire->asked)
                                         : weir_lookup_start(&wire->asked);
  int64_t retry_us = errno == EBUSY ? ROOM_US : RETRY_US;
  wire->looked_up_us = now_us;
  wire->lookup_at_us = now_us + (wire->lookup != NULL ? renew_us(wire) : retry_us);
  return wire->lookup != NULL;
}

/* Without an answer the known addresses stay. A resolver is asked again soon after one that came too
 * early to be used. */
static weir_lookup_result name_take(weir_wire *wire, int64_t now_us, weir_message *why) {
  weir_addresses found;
  weir_endpoint asked;
  weir_lookup_result result = weir_lookup_take(wire->lookup, &asked, &found, why);
  wire->lookup = NULL;
  if (result == WEIR_LOOKUP_FOUND) {
    if (weir_wire_name_is_stale(wire, now_us)) weir_breaker_hasten(&wire->breaker);
    wire->answered_us = wire->looked_up_us;
    wire->answer_end_us = now_us + RENEW_TOLD_US;
    wire->asked = asked;
    weir_message_set(&wire->unresolved, "who has its part is being asked for");
    weir_wire_adopt(wire, &found);
  }
  if (result != WEIR_LOOKUP_FOUND) wire->unresolved = *why;
  wire->looked_up_us = now_us;
  bool known = wire->addresses.count > 0 && !weir_wire_name_is_stale(wire, now_us);
  wire->lookup_at_us = now_us + (known ? renew_us(wire) : RETRY_US);
  return result;
}

/* Begins the first look-up, and waits for it until options->lookup_end_us. */
static weir_status name_open(weir_wire *wire, const weir_wire_options *options,
                             weir_message *message) {
  weir_message *why = &wire->connections[0].why;
  if (!name_begin(wire, weir_monotonic_us())) {
    if (errno == ENOMEM) return WEIR_NO_MEMORY;
    explain_no_lookup(wire, errno, why);
    wire->unresolved = *why;
    return WEIR_OK;
  }
  if (!weir_lookup_await(wire->lookup, options->lookup_end_us)) return WEIR_OK;
  weir_lookup_result result = name_take(wire, weir_monotonic_us(), why);
  if (result == WEIR_LOOKUP_NO_MEMORY) return WEIR_NO_MEMORY;
  if (result != WEIR_LOOKUP_NO_SUCH_NAME) return WEIR_OK;
  weir_message_set(message, "%s", why->text);
  return WEIR_BAD_URL;
}

weir_status weir_wire_name_open(weir_wire *wire, const weir_wire_place *place,
                                const weir_wire_options *options, weir_message *message) {
  weir_message *why = &wire->connections[0].why;
  if (place->path != NULL) return weir_addresses_of_path(place->path, &wire->addresses, message);
  if (place->resolver != NULL) {
    atomic_fetch_add(&place->resolver->holders, 1);
    wire->resolver = place->resolver;
    weir_message_set(why, "who has its part is being asked for");
    wire->unresolved = *why;
    return name_open(wire, options, message);
  }
  weir_status status = weir_lookup_digits(place->host, place->port, &wire->addresses);
  if (status != WEIR_BAD_URL) return status;
  weir_message_set(why, "host \"%s\": the name is not resolved yet", place->host);
  return name_open(wire, options, message);
}

void weir_wire_name_follow(weir_wire *wire, int64_t now_us) {
  weir_message why;
  if (wire->lookup != NULL && weir_lookup_is_done(wire->lookup) &&
      name_take(wire, now_us, &why) != WEIR_LOOKUP_FOUND && wire->addresses.count == 0)
    wire->connections[0].why = why;
  if (wire->lookup != NULL || now_us < wire->lookup_at_us || name_begin(wire, now_us)) return;
  explain_no_lookup(wire, errno, &wire->unresolved);
  if (wire->addresses.count == 0) wire->connections[0].why = wire->unresolved;
}

void weir_wire_name_doubt(weir_wire *wire) {
  int64_t soonest_us = wire->looked_up_us + RETRY_US;
  bool named = wire->lookup_at_us != INT64_MAX;
  if (named && wire->lookup_at_us > soonest_us) wire->lookup_at_us = soonest_us;
}

bool weir_wire_name_is_stale(const weir_wire *wire, int64_t now_us) {
  return wire->resolver != NULL &&
         (wire->answered_us < wire->lost_us || now_us > wire->answer_end_us);
}

int64_t weir_wire_name_due_us(const weir_wire *wire) {
  return wire->resolver != NULL && wire->lookup != NULL ? wire->looked_up_us + RESOLVER_PATIENCE_US
                                                        : 0;
}

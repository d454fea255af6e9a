/* Opening and closing a wire. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "wire/internal.h"

enum { PROBE_LEAST_US = 10000, PROBE_MOST_US = 60000000, PROBE_DEFAULT_US = 500000 };
enum { CONNECT_LEAST_US = 1000, CONNECT_MOST_US = 60000000, CONNECT_DEFAULT_US = 1000000 };

/* Opening a store is no decision: a resolver that has lost a packet needs seconds. */
enum { LOOKUP_LEAST_US = 5000000 };

static void set_name(weir_wire *wire, const weir_wire_place *place) {
  if (place->path != NULL) {
    snprintf(wire->name, sizeof wire->name, "%s", place->path);
    return;
  }
  if (place->resolver != NULL) {
    snprintf(wire->name, sizeof wire->name, "%s", place->host);
    return;
  }
  snprintf(wire->asked.host, sizeof wire->asked.host, "%s", place->host);
  wire->asked.port = place->port;
  if (strchr(place->host, ':') != NULL) {
    snprintf(wire->name, sizeof wire->name, "[%s]:%u", place->host, (unsigned)place->port);
  } else {
    snprintf(wire->name, sizeof wire->name, "%s:%u", place->host, (unsigned)place->port);
  }
}

weir_status weir_wire_read_options(const weir_url *url, int64_t timeout_us,
                                   weir_wire_options *options, weir_message *message) {
  enum { OFF, ON };
  static const char *const switches[] = {[OFF] = "off", [ON] = "on", NULL};
  static const char *const choices[] = {"first", "any", NULL};
  int64_t lookup_us = timeout_us > LOOKUP_LEAST_US ? timeout_us : LOOKUP_LEAST_US;
  size_t word;
  *options = (weir_wire_options){.timeout_us = timeout_us,
                                 .lookup_end_us = weir_monotonic_us() + lookup_us};
  weir_status status = weir_url_word(url, "pipelining", switches, ON, &word, message);
  options->one_at_a_time = status == WEIR_OK && word == OFF;
  if (status == WEIR_OK) status = weir_url_word(url, "addresses", choices, 0, &word, message);
  options->any_address = status == WEIR_OK && word == 1;
  int64_t connect_us = timeout_us > CONNECT_DEFAULT_US ? timeout_us : CONNECT_DEFAULT_US;
  if (status == WEIR_OK)
    status = weir_url_duration(url, "connect-timeout", CONNECT_LEAST_US, CONNECT_MOST_US,
                               connect_us, &options->connect_us, message);
  if (status != WEIR_OK) return status;
  return weir_url_duration(url, "probe", PROBE_LEAST_US, PROBE_MOST_US, PROBE_DEFAULT_US,
                           &options->probe_us, message);
}

/* Without the system's random numbers the time and the address must do. */
static uint64_t make_seed(const weir_wire *wire) {
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed) return seed;
  return (uint64_t)weir_monotonic_us() ^ (uint64_t)(uintptr_t)wire;
}

weir_wire *weir_wire_make(const weir_wire_protocol *protocol, const void *settings,
                          const weir_tls *tls, const weir_wire_options *options) {
  weir_wire *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  if (pthread_mutex_init(&made->lock, NULL) != 0) {
    free(made);
    return NULL;
  }
  if (pthread_cond_init(&made->sent, NULL) != 0) {
    pthread_mutex_destroy(&made->lock);
    free(made);
    return NULL;
  }
  made->protocol = protocol;
  made->tls = tls;
  made->timeout_us = options->timeout_us;
  made->connect_us = options->connect_us;
  made->any_address = options->any_address;
  made->one_at_a_time = options->one_at_a_time;
  made->named_by_others = options->named_by_others;
  made->patience_us = weir_socket_patience_us();
  made->lookup_at_us = INT64_MAX;
  for (int i = 0; i < WEIR_WIRE_CONNECTIONS; i++) {
    made->connections[i].wire = made;
    made->connections[i].fd = -1;
    made->connections[i].greeting.settings = settings;
  }
  atomic_init(&made->dialect, -1);
  weir_breaker_init(&made->breaker, options->timeout_us, options->probe_us, make_seed(made));
  return made;
}

weir_status weir_wire_open(const weir_wire_place *place, const weir_wire_protocol *protocol,
                           const void *settings, const weir_wire_options *options, weir_wire **wire,
                           weir_message *message) {
  *wire = NULL;
  weir_wire *made = weir_wire_make(protocol, settings, place->tls, options);
  if (made == NULL) return WEIR_NO_MEMORY;
  set_name(made, place);
  weir_status status = weir_wire_name_open(made, place, options, message);
  if (status == WEIR_OK) {
    *wire = made;
  } else {
    weir_wire_close(made);
  }
  return status;
}

static void free_slots(weir_wire_slot *slot) {
  while (slot != NULL) {
    weir_wire_slot *next = slot->next;
    weir_wire_slot_free(slot);
    slot = next;
  }
}

/* In line are those whose callers have left; and in a child of the process that opened the wire,
 * those of its threads, whom nobody will ever wake. */
static void free_line(weir_wire_slot *slot) {
  while (slot != NULL) {
    weir_wire_slot *next = slot->next;
    if (slot->abandoned) weir_wire_slot_free(slot);
    slot = next;
  }
}

/* False in a child of the process that opened the wire, where a thread of its parent was changing
 * it at the fork: it must not be walked, and stays. */
static bool is_at_rest(weir_wire *wire) {
  if (pthread_mutex_trylock(&wire->lock) != 0) return false;
  bool leading = wire->connections[0].leading || wire->connections[1].leading;
  pthread_mutex_unlock(&wire->lock);
  return !leading;
}

void weir_wire_close(weir_wire *wire) {
  if (wire == NULL) return;
  bool at_rest = is_at_rest(wire);
  for (int i = 0; i < WEIR_WIRE_CONNECTIONS; i++) {
    weir_wire_connection *connection = &wire->connections[i];
    if (at_rest) weir_tls_session_end(connection->session);
    if (connection->fd >= 0) close(connection->fd);
    if (!at_rest) continue;
    weir_wire_parser_drop(connection);
    free_line(connection->first);
  }
  if (!at_rest) return;
  weir_lookup_leave(wire->lookup);
  weir_resolver_leave(wire->resolver);
  free_slots(wire->pool);
  pthread_cond_destroy(&wire->sent);
  pthread_mutex_destroy(&wire->lock);
  weir_addresses_free(&wire->addresses);
  free(wire);
}

void weir_wire_read_server(weir_wire *wire, weir_server_state *state) {
  const weir_breaker *breaker = &wire->breaker;
  state->name = wire->name;
  pthread_mutex_lock(&wire->lock);
  int64_t wait_us = breaker->probe_at_us - weir_monotonic_us();
  state->breaker = breaker->state;
  state->outages = breaker->opened;
  state->next_try_us = breaker->state == WEIR_BREAKER_OPEN && wait_us > 0 ? wait_us : 0;
  state->last_error = breaker->why;
  pthread_mutex_unlock(&wire->lock);
}

bool weir_wire_is_away(weir_wire *wire) {
  pthread_mutex_lock(&wire->lock);
  bool away = wire->breaker.state != WEIR_BREAKER_CLOSED;
  pthread_mutex_unlock(&wire->lock);
  return away;
}

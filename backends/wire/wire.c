/* Opening and closing a wire, and what is done with several of them at once. */
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "wire/line.h"
#include "wire/socket.h"

enum { PROBE_LEAST_US = 10000, PROBE_MOST_US = 60000000, PROBE_DEFAULT_US = 500000 };
enum { CONNECT_LEAST_US = 1000, CONNECT_MOST_US = 60000000, CONNECT_DEFAULT_US = 1000000 };

/* Opening a store is no decision: a resolver that has lost a packet needs seconds. */
enum { LOOKUP_LEAST_US = 5000000 };

/* The longest pause of a clone, which has few questions to ask and little time. */
enum { CLONE_PROBE_US = 10000 };

/* Several servers are waited for by turns, so long each; between tries to connect is a pause. */
enum { SLICE_US = 1000, PAUSE_US = 5000 };

/* --- opening and closing --------------------------------------------------------------------- */

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

/* A wire that leads nowhere yet; NULL: no memory. */
static weir_wire *wire_new(const weir_wire_protocol *protocol, const void *settings, weir_tls *tls,
                           const weir_wire_options *options) {
  weir_wire *made = calloc(1, sizeof *made);
  if (made == NULL) return NULL;
  if (pthread_mutex_init(&made->lock, NULL) != 0) goto no_lock;
  if (pthread_cond_init(&made->sent, NULL) != 0) goto no_condition;
  weir_wire_server *server = &made->server;
  made->tls = tls;
  made->patience_us = weir_socket_patience_us();
  server->protocol = protocol;
  server->timeout_us = options->timeout_us;
  server->connect_us = options->connect_us;
  server->one_at_a_time = options->one_at_a_time;
  server->secure = tls != NULL;
  server->destination.lookup_at_us = INT64_MAX;
  atomic_init(&server->dialect, -1);
  for (int i = 0; i < WEIR_WIRE_CONNECTIONS; i++) {
    weir_connection *connection = &server->connections[i];
    connection->server = server;
    connection->number = (uint8_t)i;
    connection->greeting.settings = settings;
    made->lines[i].wire = made;
    made->lines[i].connection = connection;
    made->lines[i].fd = -1;
  }
  /* Without the system's random numbers the time and the address must do. */
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed)
    seed = (uint64_t)weir_monotonic_us() ^ (uint64_t)(uintptr_t)made;
  weir_breaker_init(&server->breaker, options->timeout_us, options->probe_us, seed);
  return made;

no_condition:
  pthread_mutex_destroy(&made->lock);
no_lock:
  free(made);
  return NULL;
}

weir_status weir_wire_open(const weir_wire_place *place, const weir_wire_protocol *protocol,
                           const void *settings, const weir_wire_options *options, weir_wire **wire,
                           weir_message *message) {
  *wire = NULL;
  weir_wire *made = wire_new(protocol, settings, place->tls, options);
  if (made == NULL) return WEIR_NO_MEMORY;
  if (place->path != NULL || place->resolver != NULL) {
    snprintf(made->name, sizeof made->name, "%s", place->path != NULL ? place->path : place->host);
  } else {
    bool v6 = strchr(place->host, ':') != NULL;
    snprintf(made->name, sizeof made->name, v6 ? "[%s]:%u" : "%s:%u", place->host,
             (unsigned)place->port);
  }
  weir_status status =
      weir_destination_open(&made->server.destination, made->name, place, options, message);
  if (status == WEIR_OK) {
    *wire = made;
  } else {
    weir_wire_close(made);
  }
  return status;
}

weir_status weir_wire_clone(weir_wire *wire, const weir_wire_protocol *protocol,
                            const void *settings, int64_t timeout_us, weir_wire **clone) {
  const weir_wire_options options = {
      .timeout_us = timeout_us, .connect_us = timeout_us, .probe_us = CLONE_PROBE_US};
  weir_wire *made = wire_new(protocol, settings, wire->tls, &options);
  *clone = NULL;
  if (made == NULL) return WEIR_NO_MEMORY;
  memcpy(made->name, wire->name, sizeof made->name);
  made->server.destination.name = made->name;
  pthread_mutex_lock(&wire->lock);
  bool copied = weir_destination_copy(&wire->server.destination, &made->server.destination);
  pthread_mutex_unlock(&wire->lock);
  if (!copied) {
    weir_wire_close(made);
    return WEIR_NO_MEMORY;
  }
  *clone = made;
  return WEIR_OK;
}

static void slot_free(weir_wire_slot *slot) {
  pthread_cond_destroy(&slot->wake);
  free(slot->commands);
  free(slot->keys);
  free(slot);
}

void weir_wire_close(weir_wire *wire) {
  if (wire == NULL) return;
  /* In a child of the process that opened the wire a thread of its parent may have been changing it
   * at the fork: then it must not be walked, and stays. */
  bool at_rest = pthread_mutex_trylock(&wire->lock) == 0;
  if (at_rest) {
    for (int i = 0; i < WEIR_WIRE_CONNECTIONS; i++)
      at_rest = at_rest && wire->lines[i].worker == WEIR_WORKER_NONE;
    pthread_mutex_unlock(&wire->lock);
  }
  for (int i = 0; i < WEIR_WIRE_CONNECTIONS; i++) {
    weir_wire_line *line = &wire->lines[i];
    weir_connection *connection = line->connection;
    if (at_rest) weir_tls_session_end(line->session);
    if (line->fd >= 0) close(line->fd);
    if (!at_rest) continue;
    if (connection->parser != NULL) wire->server.protocol->destroy_parser(connection->parser);
    /* In line are those whose callers have left; and in such a child those of its parent's threads,
     * which will never come for them. */
    for (weir_wire_slot *slot = connection->first, *next = NULL; slot != NULL; slot = next) {
      next = slot->next;
      if (slot->state == WEIR_SLOT_ABANDONED) slot_free(slot);
    }
  }
  if (!at_rest) return;
  if (wire->spare != NULL) slot_free(wire->spare);
  for (weir_wire_slot *slot = wire->pool, *next = NULL; slot != NULL; slot = next) {
    next = slot->next;
    slot_free(slot);
  }
  weir_destination_close(&wire->server.destination);
  pthread_cond_destroy(&wire->sent);
  pthread_mutex_destroy(&wire->lock);
  free(wire);
}

/* --- what is known of a server --------------------------------------------------------------- */

uint64_t weir_wire_outages(const weir_wire *wire) {
  return wire->server.breaker.opened;
}

void weir_wire_read_server(weir_wire *wire, weir_server_state *state) {
  const weir_breaker *breaker = &wire->server.breaker;
  state->name = wire->name;
  pthread_mutex_lock(&wire->lock);
  const weir_destination *destination = &wire->server.destination;
  int64_t wait_us = breaker->probe_at_us - weir_monotonic_us();
  state->breaker = breaker->state;
  state->outages = breaker->opened;
  state->next_try_us = breaker->state == WEIR_BREAKER_OPEN && wait_us > 0 ? wait_us : 0;
  state->last_error = breaker->why;
  state->refusals = wire->server.refusals;
  state->last_refusal = wire->server.refusal;
  if (breaker->opened == 0 && destination->addresses.count == 0)
    state->last_error = destination->why;
  state->addresses = destination->any_address && destination->addresses.count > 0
                         ? 1
                         : weir_addresses_alike(&destination->addresses);
  state->address = destination->any_address ? 0 : destination->address;
  int64_t ahead_s = atomic_load_explicit(&wire->server.clock_ahead_s, memory_order_relaxed);
  state->clock_ahead_us = ahead_s > 0 ? (uint64_t)ahead_s * 1000000 : 0;
  pthread_mutex_unlock(&wire->lock);
}

void weir_wire_set_clock(weir_wire *wire, int64_t ahead_s) {
  atomic_store_explicit(&wire->server.clock_ahead_s, ahead_s, memory_order_relaxed);
}

bool weir_wire_is_away(weir_wire *wire) {
  pthread_mutex_lock(&wire->lock);
  bool away = wire->server.breaker.state != WEIR_BREAKER_CLOSED;
  pthread_mutex_unlock(&wire->lock);
  return away;
}

int weir_wire_dialect(const weir_wire *wire) {
  return atomic_load_explicit(&wire->server.dialect, memory_order_relaxed);
}

const char *weir_wire_name(const weir_wire *wire) {
  return wire->name;
}

weir_wire_choice weir_wire_read_choice(weir_wire *wire) {
  const weir_destination *destination = &wire->server.destination;
  pthread_mutex_lock(&wire->lock);
  weir_wire_choice choice = {.count = destination->addresses.count,
                             .alike = weir_addresses_alike(&destination->addresses),
                             .any = destination->any_address};
  pthread_mutex_unlock(&wire->lock);
  return choice;
}

weir_tls *weir_wire_tls(const weir_wire *wire) {
  return wire->tls;
}

/* --- several servers at once ----------------------------------------------------------------- */

/* Waits for all a little at a time, until no more than `may_stay` are not done: one that keeps silent
 * must not hold up the others. */
static void wait_in_turn(weir_wire *const *wires, weir_wire_slot *const *slots, size_t count,
                         size_t may_stay, int64_t deadline_us) {
  size_t open = may_stay + 1;
  for (int64_t now_us = 0; open > may_stay && now_us < deadline_us;) {
    open = 0;
    for (size_t i = 0; i < count; i++) {
      now_us = weir_monotonic_us();
      open += slots[i] != NULL && !weir_wire_wait(wires[i], slots[i], now_us + SLICE_US);
    }
  }
}

bool weir_wire_fleet_run(weir_wire *const *wires, weir_wire_slot *const *slots, size_t count,
                         const weir_wire_round *round, weir_message *message) {
  bool explained = false;
  if (count == 1 && slots[0] != NULL) return weir_wire_run(wires[0], slots[0], round, message);
  for (size_t i = 0; i < count; i++) {
    if (slots[i] == NULL) continue;
    weir_wire_submit(wires[i], slots[i], round->dialects, round->deadline_us);
  }
  for (size_t i = 0; i < count; i++)
    if (slots[i] != NULL) weir_wire_flush(wires[i]);
  /* The slowest costs its own keys and no others. */
  wait_in_turn(wires, slots, count, 1, round->deadline_us);
  for (size_t i = 0; i < count; i++) {
    if (slots[i] == NULL) continue;
    explained |= weir_wire_finish(wires[i], slots[i], explained ? NULL : message);
  }
  return explained;
}

/* One try of every server that is not ready yet; once is enough, as a try with little time left must
 * not take it back. The message is about the first of those that still are not. */
static bool connect_once(weir_wire *const *wires, weir_wire_slot **slots, bool *ready, size_t count,
                         int64_t deadline_us, weir_message *message) {
  bool all = true;
  for (size_t i = 0; i < count; i++) {
    slots[i] = ready[i] ? NULL : weir_wire_slot_take(wires[i]);
    if (slots[i] == NULL) continue;
    slots[i]->connects = true;
    weir_wire_submit(wires[i], slots[i], ~0U, deadline_us);
    weir_wire_flush(wires[i]);
  }
  wait_in_turn(wires, slots, count, 0, deadline_us);
  for (size_t i = 0; i < count; i++) {
    weir_message *why = all ? message : NULL;
    if (ready[i]) continue;
    if (slots[i] == NULL)
      weir_message_set(why, "%s: no memory, or too many unanswered requests", wires[i]->name);
    else
      ready[i] = !weir_wire_finish(wires[i], slots[i], why);
    all = all && ready[i];
  }
  return all;
}

bool weir_wire_connect_all(weir_wire *const *wires, size_t count, int64_t deadline_us,
                           weir_message *message) {
  weir_wire_slot **slots = calloc(count, sizeof *slots);
  bool *ready = calloc(count, sizeof *ready);
  bool all = false;
  if (slots == NULL || ready == NULL) {
    weir_message_set(message, "no memory");
  } else {
    for (bool more = true; more && !all;) {
      all = connect_once(wires, slots, ready, count, deadline_us, message);
      more = weir_monotonic_us() + PAUSE_US < deadline_us;
      if (more && !all) nanosleep(&(struct timespec){.tv_nsec = PAUSE_US * 1000L}, NULL);
    }
  }
  free(slots);
  free(ready);
  return all;
}

/* Calls to one server by way of its wire alone, and what became of them. */
#ifndef TESTS_WIRE_OUTAGE_H
#define TESTS_WIRE_OUTAGE_H

#include <time.h>

#include "memcached/codec.h"
#include "wire/line.h"
#include "wire/operations.h"

#define MS INT64_C(1000)
#define PATIENCE_US (PATIENCE_MS * MS)

static inline void pause_ms(long ms) {
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static inline weir_wire *open_wire_at(const char *host, uint16_t port, int64_t timeout_us,
                                      int64_t probe_us) {
  static const weir_memcached_login login = {.wanted = WEIR_DIALECT_META};
  const weir_wire_place place = {.host = host, .port = port};
  const weir_wire_options options = {.timeout_us = timeout_us,
                                     .connect_us = PATIENCE_US,
                                     .probe_us = probe_us,
                                     .lookup_end_us = weir_monotonic_us() + PATIENCE_US};
  weir_message message = {""};
  weir_wire *wire = NULL;
  if (weir_wire_open(&place, &weir_memcached_protocol, &login, &options, &wire, &message) !=
      WEIR_OK)
    fail_msg("%s", message.text);
  return wire;
}

static inline weir_wire *open_wire(uint16_t port, int64_t timeout_us, int64_t probe_us) {
  return open_wire_at("127.0.0.1", port, timeout_us, probe_us);
}

static inline weir_wire_slot *submit(weir_wire *wire, weir_operation *operation,
                                     int64_t deadline_us) {
  weir_wire_slot *slot = weir_wire_slot_take(wire);
  assert_non_null(slot);
  assert_true(weir_wire_slot_add(slot, operation, 0));
  weir_wire_submit(wire, slot, 1U << WEIR_DIALECT_META, weir_monotonic_us() + deadline_us);
  return slot;
}

typedef struct answer {
  weir_outcome outcome;
  bool turned_away; /* at once, by the breaker */
  bool late;
  bool slow;
  weir_message message;
} answer;

/* One addition. Between submit and finish nobody but the breaker ends a slot while the server keeps
 * silent; with a server that answers, `turned_away` looks at the message as well. */
static inline answer ask(weir_wire *wire, int64_t deadline_us) {
  weir_operation add = add_to("weir:t:{outage}:1", 1);
  answer made = {.message = {""}};
  weir_wire_slot *slot = submit(wire, &add, deadline_us);
  weir_wire_finish(wire, slot, &made.message);
  made.outcome = add.outcome;
  made.late = add.late;
  made.slow = add.slow;
  made.turned_away =
      add.outcome == WEIR_NOT_SENT && strstr(made.message.text, ": not answering (last: ") != NULL;
  return made;
}

typedef struct outages {
  uint64_t count; /* times it stopped answering */
  bool present;   /* and has not answered since */
  weir_message last;
} outages;

static inline outages outages_of(weir_wire *wire) {
  weir_server_state state;
  weir_wire_read_server(wire, &state);
  return (outages){state.outages, state.breaker != WEIR_BREAKER_CLOSED, state.last_error};
}

/* As if it could not be reached just now. */
static inline void open_breaker(weir_wire *wire) {
  pthread_mutex_lock(&wire->lock);
  weir_breaker_fail(&wire->server.breaker, "for this test", weir_monotonic_us());
  pthread_mutex_unlock(&wire->lock);
}

/* Until the breaker would let a probe through. */
static inline void await_probe_time(weir_wire *wire) {
  for (bool due = false; !due;) {
    pthread_mutex_lock(&wire->lock);
    assert_int_equal(wire->server.breaker.state, WEIR_BREAKER_OPEN);
    due = weir_monotonic_us() >= wire->server.breaker.probe_at_us;
    pthread_mutex_unlock(&wire->lock);
    if (!due) pause_ms(1);
  }
}

/* The server is back: the very next call that is let through must be answered, and no pause until
 * then may be longer than `probe`. */
static inline void expect_recovery(weir_wire *wire) {
  for (int64_t end_us = weir_monotonic_us() + PATIENCE_US;;) {
    assert_true(weir_monotonic_us() < end_us);
    answer each = ask(wire, PATIENCE_US);
    if (!each.turned_away) {
      if (each.outcome != WEIR_DONE) fail_msg("%d: %s", (int)each.outcome, each.message.text);
      break;
    }
    pthread_mutex_lock(&wire->lock);
    int64_t pause_us = wire->server.breaker.probe_at_us - weir_monotonic_us();
    pthread_mutex_unlock(&wire->lock);
    assert_true(pause_us <= wire->server.breaker.most_us);
    pause_ms(1);
  }
  assert_false(outages_of(wire).present);
}

#endif

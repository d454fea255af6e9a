/* Questions to one server that are no operations, on a connection of their own: one after another,
 * as a part of its greeting. */
#ifndef WEIR_WIRE_EXCHANGE_H
#define WEIR_WIRE_EXCHANGE_H

#include "wire/wire.h"

typedef struct weir_exchange weir_exchange;

struct weir_exchange {
  const weir_wire_protocol *protocol; /* how a connection is greeted before */
  const void *settings;               /* of that */

  /* Writes the next question; 0: there is none. */
  size_t (*ask)(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]);
  /* Whether the answer is whole; then *taken says how long it is. */
  bool (*receive)(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken);
  /* The server hung up instead of answering. The next question goes to a new connection. */
  void (*lose)(weir_exchange *exchange);

  unsigned dialect;         /* of the greeting */
  int64_t asked_unix_us;    /* this machine's clock when the question left, */
  int64_t received_unix_us; /* and when bytes of the answer were there */
  bool finished;            /* every question was answered or lost */
};

/* Connects beside `wire`, and asks. `key` is of a key that may be read; NULL: none is. False: not
 * every question was asked in time, or the server could not be reached; `message` says why. */
bool weir_wire_exchange(weir_wire *wire, weir_exchange *exchange, const char *key,
                        int64_t timeout_us, weir_message *message);

/* For people: how the connection is protected. */
void weir_wire_report_security(const weir_wire *wire, const weir_inspection *inspection);

/* Where the URL lets any address of a name do, and a server itself answers, not a proxy. */
void weir_wire_report_any(weir_wire *wire, const weir_inspection *inspection, bool is_proxy);

/* What a proxy in between needs, or lacks where it spreads the keys of one home over servers. */
void weir_wire_report_proxy(const weir_inspection *inspection, bool spreads);

/* One finding about the inspection's server. */
void weir_wire_report(const weir_inspection *inspection, weir_finding_level level,
                      const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A server's clock was `ahead_us` of this one's, give or take `error_us`. */
void weir_wire_report_clock(const weir_inspection *inspection, int64_t ahead_us, int64_t error_us);

/* How long a server has run, for people: "3 days". */
enum { WEIR_AGE_BYTES = 32 };
const char *weir_wire_age(long long seconds, char text[WEIR_AGE_BYTES]);

#endif

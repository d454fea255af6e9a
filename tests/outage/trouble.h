/* A server in virtual time to which everything may happen, and the wire before it: what is sent lands,
 * late or never, and what it answers comes back or does not. It keeps what the embedded store keeps, and
 * stands in for fixture/servers.h: the faults of the hunt are its, too.
 *
 * Each process has one connection, whose messages stay in order, and the breaker of backends/wire. */
#ifndef TESTS_OUTAGE_TROUBLE_H
#define TESTS_OUTAGE_TROUBLE_H

#include <weir/store.h>

#include "fixture/servers.h"
#include "wire/breaker.h"

/* How things are between faults. Pauses of processes and of the server, and how long they run in between,
 * are drawn by chance around their means. */
struct trouble {
  int64_t way_us;    /* of a message: half of that to one and a half */
  int64_t tail_us;   /* more of an answer's, exponential; 0: none */
  int64_t reset_ppm; /* of messages: the connection is lost; every other one has been executed */
  int64_t run_us, pause_us; /* 0: nobody is held up */
};

struct wire {
  struct server *server;
  weir_breaker breaker;
  uint64_t life;             /* of the server that it is connected to; 0: none */
  int64_t there_us, back_us; /* the last message is, on its way */
  int64_t paused_until_us;
};

struct server *trouble_begin(const struct trouble *trouble);
void trouble_end(struct server *server);

/* Told before it is stopped or killed. */
void trouble_tell(struct server *server, void (*before)(void *context), void *context);

/* As long as this lasts, all of a busy machine are held up: by the trouble's means, or others that are
 * usual where there are none. */
void trouble_busy(struct server *server, bool is_busy);

/* Nobody is held up any more. */
void trouble_over(struct server *server);

/* A process's end of it. */
void wire_begin(struct wire *wire, struct server *server, weir_store **store);

/* Only from within a fiber: it waits as long as its process is held up. */
void wire_pass_pauses(struct wire *wire);

#endif

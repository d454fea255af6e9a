/* memcached servers and proxies for them, in the order in which an exec meets what is here: which
 * server, in which order; and what is asked apart from operations. codec.h says what is said to
 * them, and how. */
#ifndef WEIR_MEMCACHED_MEMCACHED_H
#define WEIR_MEMCACHED_MEMCACHED_H

#include "memcached/codec.h"

/* Options: protocol=auto|meta|classic, distribution=ketama-weighted|ketama|modula, discovery=on|off. */
extern const weir_backend weir_memcached_backend;

/* --- ring.c: which server a key lives on --------------------------------------------------------
 *
 * As libmemcached and every other client of the pool decide it. */

typedef enum weir_distribution { WEIR_KETAMA_WEIGHTED, WEIR_KETAMA, WEIR_MODULA } weir_distribution;

typedef struct weir_ring weir_ring;

/* Host names count as spelled: another spelling is another ring. */
weir_status weir_ring_create(const weir_url_host *hosts, size_t count, uint16_t default_port,
                             weir_distribution distribution, weir_ring **ring,
                             weir_message *message);
void weir_ring_destroy(weir_ring *ring);

/* Index of the host. Any thread: nothing is written. */
size_t weir_ring_pick(const weir_ring *ring, const char *home, size_t length);

/* --- order.c: order among operations where an ADD may take several tries ------------------------
 *
 * With the classic commands an ADD of an absent key is known only after the reply. Operations then
 * go in rounds, and two rules keep what the contract of `exec` promises:
 *   - a write waits until an earlier ADD of its key is finished;
 *   - a GET is good only if no earlier write of its home was left unfinished by the same round,
 * else it is read again. Writes are never repeated. */

typedef struct weir_order_step {
  uint32_t home_before;  /* 1 + index of the operation before with the same home, or 0 */
  uint32_t write_before; /* 1 + index of the write before with the same key, or 0 */
  uint8_t attempt;
  bool open;      /* still to be done */
  bool held;      /* but not in this round */
  bool unsettled; /* some write of the same home before it is open */
} weir_order_step;

/* Scratch memory, pooled by its owner. */
typedef struct weir_order weir_order;
struct weir_order {
  weir_order *next;
  weir_order_step *steps;
  uint32_t *table;
  size_t room;
};

bool weir_order_start(weir_order *order, const weir_operation *operations, size_t count);
/* Before a round: which operations go. False when none is left. */
bool weir_order_plan(weir_order *order, const weir_operation *operations, size_t count);
/* After it: which are finished. True: some ADD was given up, which `message` explains. */
bool weir_order_settle(weir_order *order, weir_operation *operations, size_t count,
                       weir_message *message);
static inline bool weir_order_goes(const weir_order *order, size_t i) {
  return order->steps[i].open && !order->steps[i].held;
}
void weir_order_free(weir_order *order);

/* --- discovery.c: the servers that a configuration endpoint tells ------------------------------- */

enum {
  WEIR_DISCOVERY_SERVERS_MOST = 256,
  WEIR_DISCOVERY_BYTES_MOST = 1 << 17 /* of an answer: names and addresses of as many servers */
};

/* The servers, in the order in which they were told. The names stand in the answer. */
typedef struct weir_discovery {
  weir_url_host hosts[WEIR_DISCOVERY_SERVERS_MOST];
  size_t host_count;
  size_t length; /* of what came of the answer */
  char answer[WEIR_DISCOVERY_BYTES_MOST + 1];
} weir_discovery;

/* Whether no more of the answer is to come, be it right or wrong. Pure. */
bool weir_discovery_is_whole(weir_discovery *discovery);

/* Takes a whole answer apart. False: it is none, and the message says what is. Pure. */
bool weir_discovery_read(weir_discovery *discovery, weir_message *message);

/* Asks the server at that place, on a connection of its own, and waits for the answer.
 * WEIR_BAD_URL: it tells no list of servers; WEIR_UNAVAILABLE: there was no answer in time. */
weir_status weir_discovery_ask(const weir_wire_place *place, const weir_wire_options *options,
                               const weir_memcached_login *login, weir_discovery *discovery,
                               weir_message *message);

/* --- clock.c: what time it is for a server -------------------------------------------------------- */

typedef struct weir_memcached_clock {
  _Atomic int64_t ask_at_us; /* when the server is asked again */
  atomic_bool is_asking;
} weir_memcached_clock;

/* Asks the server that `wire` leads to, where it is time, and tells the wire: before a command that
 * writes a date. Takes half of the time until the deadline at the most. */
void weir_memcached_clock_tend(weir_memcached_clock *clock, weir_wire *wire,
                               const weir_memcached_login *login, int64_t deadline_us);

/* An item was gone as soon as it was written: another server may be there. */
void weir_memcached_clock_doubt(weir_memcached_clock *clock);

/* --- inspect.c: asks the server that `wire` leads to what no operation shows, and reports ------- */

void weir_memcached_inspect(weir_wire *wire, const weir_memcached_login *login,
                            const weir_inspection *inspection);

#endif

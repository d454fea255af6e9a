/* The servers that are measured, as URLs name them; and the raw loop that decisions are compared
 * with: one increment per decision on a socket of its own, and nothing else. It also asks a server
 * how many commands it has executed. */
#ifndef WEIR_BENCH_RAW_H
#define WEIR_BENCH_RAW_H

#include <stdbool.h>
#include <weir/weir.h>

#include "bench/bench.h"

/* --- servers (target.c) ---------------------------------------------------------------------- */

enum { WEIR_BENCH_HOSTS_MOST = 64, WEIR_BENCH_HOST_BYTES = 256, WEIR_BENCH_LIMITER_BYTES = 65 };

/* How a decision is asked for: of a store by this process, or of a server of weir. */
typedef enum weir_bench_protocol {
  WEIR_BENCH_STORE,
  WEIR_BENCH_RESP,
  WEIR_BENCH_HTTP,
  WEIR_BENCH_GRPC
} weir_bench_protocol;

/* The servers behind a URL. */
typedef struct weir_bench_target {
  weir_bench_protocol via;

  /* Of a server of weir: its limiter, or DOMAIN/KEY. */
  char limiter[WEIR_BENCH_LIMITER_BYTES];
  bool redis;
  bool raw; /* a raw loop can talk to it: no TLS, and not within this process */
  size_t host_count;
  struct weir_bench_host {
    char name[WEIR_BENCH_HOST_BYTES]; /* or the path of a socket */
    uint16_t port;                    /* 0: a path */
  } hosts[WEIR_BENCH_HOSTS_MOST];
  char user[WEIR_BENCH_HOST_BYTES];
  char password[WEIR_BENCH_HOST_BYTES];
} weir_bench_target;

/* Reads the target that the URL names. URLs that weir_store_open() refuses are WEIR_BAD_URL here as
 * well. */
weir_status weir_bench_target_read(const char *url, weir_bench_target *target,
                                   weir_message *message);

/* The same of redis://HOST[:PORT]/LIMITER, http://HOST[:PORT]/LIMITER and
 * grpc://HOST[:PORT]/DOMAIN/KEY, which a server of weir answers. The raw loop of RESP is PING; the
 * others have none. */
weir_status weir_bench_target_read_via(const char *url, weir_bench_target *target,
                                       weir_message *message);

/* --- the raw loop ---------------------------------------------------------------------------- */

/* A connection to the first server. */
typedef struct weir_bench_raw weir_bench_raw;

/* NULL: message says why. Blocking, with a time limit of its own on every read and write. */
weir_bench_raw *weir_bench_raw_open(const weir_bench_target *target, size_t host,
                                    weir_message *message);
void weir_bench_raw_close(weir_bench_raw *raw);

/* Sets all keys to 0, to live ten minutes. */
bool weir_bench_raw_prepare(weir_bench_raw *raw, const weir_bench_key *keys, uint32_t count,
                            weir_message *message);

/* Adds 1 to each of `count` keys in one write and reads the replies. `pair`, on Redis: before each
 * INCRBY goes the SET NX without which an addition may make a counter that never expires. */
bool weir_bench_raw_add(weir_bench_raw *raw, const weir_bench_key *const *keys, unsigned count,
                        bool pair, weir_message *message);

/* The answers of a server of weir. */
typedef struct weir_bench_answers {
  uint64_t allowed, late; /* late: it had no decision */
} weir_bench_answers;

/* Asks a server of weir for `count` decisions in one write, and adds up its answers. */
weir_status weir_bench_raw_ask(weir_bench_raw *raw, const weir_bench_key *const *keys,
                               unsigned count, weir_bench_answers *answers, weir_message *message);

/* The commands that the servers of a target have executed since they began. Memcached counts a meta
 * command as such, and again as what it does. */
typedef struct weir_bench_served {
  uint64_t meta;
  uint64_t commands;
} weir_bench_served;

/* False: they do not tell (a proxy, a user who may not ask). */
bool weir_bench_served_read(const weir_bench_target *target, weir_bench_served *served);

/* Commands between two readings. */
uint64_t weir_bench_served_between(const weir_bench_served *before, const weir_bench_served *after);

/* --- how a server is spoken to (target.c) ----------------------------------------------------------
 *
 * A blocking socket with room for what leaves together and what comes; and how a server of weir is
 * asked for one decision, and which answer came. */

enum { WEIR_BENCH_OUT_BYTES = 640 * 1024, WEIR_BENCH_IN_BYTES = 256 * 1024 };

typedef struct weir_bench_wire {
  int fd;
  struct weir_bench_http2 *http2; /* NULL: another protocol is spoken */
  size_t out_length;
  size_t in_start, in_end;
  char out[WEIR_BENCH_OUT_BYTES];
  char in[WEIR_BENCH_IN_BYTES];
} weir_bench_wire;

/* A host's name and port, or the path of a socket and 0. Every read and write has a time limit. */
bool weir_bench_wire_open(weir_bench_wire *wire, const char *name, uint16_t port,
                          weir_message *message);
void weir_bench_wire_close(weir_bench_wire *wire);

/* Puts bytes behind what is to leave, which must have room. */
void weir_bench_wire_say(weir_bench_wire *wire, const char *text, size_t length);
void weir_bench_wire_say_text(weir_bench_wire *wire, const char *text);

/* One word of a command of RESP. */
void weir_bench_wire_say_word(weir_bench_wire *wire, const char *word, size_t length);

bool weir_bench_wire_flush(weir_bench_wire *wire, weir_message *message);

/* One line of an answer, without its end; NULL: it does not come. Valid until the next call. */
const char *weir_bench_wire_line(weir_bench_wire *wire, weir_message *message);

/* Reads so many bytes, and keeps as many of the first as `room` holds with their end. */
bool weir_bench_wire_read(weir_bench_wire *wire, size_t length, char *text, size_t room,
                          weir_message *message);

/* --- a server of weir (via.c) ---------------------------------------------------------------- */

/* The exchanges that a new connection needs before the first request, and at its end. */
bool weir_bench_via_begin(const weir_bench_target *target, weir_bench_wire *wire,
                          weir_message *message);
void weir_bench_via_end(weir_bench_wire *wire);

/* Puts the request behind what is to leave. */
void weir_bench_via_say(const weir_bench_target *target, const weir_bench_key *key,
                        weir_bench_wire *wire);

/* Reads the answer. A reply that is no answer to a decision is WEIR_UNAVAILABLE, said in the
 * message. */
weir_status weir_bench_via_read(const weir_bench_target *target, weir_bench_wire *wire,
                                weir_bench_answers *answers, weir_message *message);

/* --- gRPC (via_grpc.c) --------------------------------------------------------------------------
 *
 * Envoy's ShouldRateLimit, of one descriptor with one entry.
 */

enum { WEIR_BENCH_GRPC_MOST = 500 }; /* calls under way, of the 1000 that a server may accept */

/* Begins HTTP/2 on a new connection: what is said leaves with the first call. */
bool weir_bench_grpc_begin(weir_bench_wire *wire, weir_message *message);
void weir_bench_grpc_end(weir_bench_wire *wire);

/* As weir_bench_via_say() and weir_bench_via_read(). Answers come in any order, and are counted. */
void weir_bench_grpc_say(const weir_bench_target *target, const weir_bench_key *key,
                         weir_bench_wire *wire);
weir_status weir_bench_grpc_read(weir_bench_wire *wire, weir_bench_answers *answers,
                                 weir_message *message);

#endif

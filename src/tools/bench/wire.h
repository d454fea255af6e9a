/* How a server is spoken to: a blocking socket with room for what leaves together and what comes;
 * and how a server of weir is asked for one decision, and which answer came. */
#ifndef WEIR_BENCH_WIRE_H
#define WEIR_BENCH_WIRE_H

#include "bench/raw.h"

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

/* What a new connection needs before the first request, and at its end. */
bool weir_bench_via_begin(const weir_bench_target *target, weir_bench_wire *wire,
                          weir_message *message);
void weir_bench_via_end(weir_bench_wire *wire);

/* Puts the request behind what is to leave. */
void weir_bench_via_say(const weir_bench_target *target, const weir_bench_key *key,
                        weir_bench_wire *wire);

/* Reads the answer. What is no answer to a decision is WEIR_UNAVAILABLE, said in the message. */
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

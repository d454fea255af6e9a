/* A blocking socket with room for what leaves together and what comes. */
#ifndef WEIR_BENCH_WIRE_H
#define WEIR_BENCH_WIRE_H

#include <weir/weir.h>

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

#endif

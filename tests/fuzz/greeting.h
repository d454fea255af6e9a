/* Plays the server of a greeting, as the wire does it: bytes come in two deliveries, and at each
 * '~' the server hangs up, so that what follows is said on the next connection. */
#ifndef TESTS_FUZZ_GREETING_H
#define TESTS_FUZZ_GREETING_H

#include "fuzz/require.h"
#include "wire/wire.h"

enum { FUZZ_CONNECTIONS_MOST = 4, FUZZ_SAYINGS_MOST = 16 };

typedef struct fuzz_talk {
  weir_greeting_answer answer; /* MORE: the server hung up and the protocol had no say in it */
  unsigned dialect;
  size_t said; /* bytes, on all connections */
  size_t connections;
  weir_message message;
} fuzz_talk;

/* One connection, of which `length` bytes are heard, at first only as many as `cut`. */
static inline weir_greeting_answer fuzz_connection(const weir_wire_protocol *protocol,
                                                   weir_greeting *greeting, const char *bytes,
                                                   size_t length, size_t cut, fuzz_talk *talk) {
  size_t start = 0;
  size_t come = 0;
  bool closed = false;
  for (size_t sayings = 0;;) {
    greeting->taken = 0;
    weir_greeting_answer answer =
        protocol->greet(greeting, bytes + start, come - start, closed, &talk->message);
    require(greeting->taken <= come - start);
    start += greeting->taken;
    if (answer == WEIR_GREETING_SAY) {
      require(greeting->say_length > 0 && greeting->say_length <= WEIR_WIRE_GREETING_MOST);
      require(++sayings <= FUZZ_SAYINGS_MOST);
      talk->said += greeting->say_length;
    } else if (answer == WEIR_GREETING_MORE && !closed) {
      closed = come == length;
      come = come < cut && cut < length ? cut : length;
    } else {
      return answer;
    }
  }
}

static inline fuzz_talk fuzz_greet(const weir_wire_protocol *protocol, const void *settings,
                                   const char *bytes, size_t length, size_t cut) {
  fuzz_talk talk = {.answer = WEIR_GREETING_RECONNECT};
  weir_greeting greeting = {.settings = settings};
  while (talk.answer == WEIR_GREETING_RECONNECT) {
    const char *end = length == 0 ? NULL : memchr(bytes, '~', length);
    size_t heard = end == NULL ? length : (size_t)(end - bytes);
    require(++talk.connections <= FUZZ_CONNECTIONS_MOST);
    talk.answer = fuzz_connection(protocol, &greeting, bytes, heard, cut, &talk);
    size_t over = end == NULL ? heard : heard + 1;
    bytes += over;
    length -= over;
    cut = cut > over ? cut - over : 0;
  }
  talk.dialect = greeting.dialect;
  if (talk.answer == WEIR_GREETING_FAILED) require_readable(&talk.message);
  return talk;
}

/* However the bytes are cut, the talk comes to the same. */
static inline fuzz_talk fuzz_greet_in_every_cut(const weir_wire_protocol *protocol,
                                                const void *settings, const char *bytes,
                                                size_t length) {
  fuzz_talk whole = fuzz_greet(protocol, settings, bytes, length, length);
  for (size_t cut = 0; cut < length && length < 256; cut++) {
    fuzz_talk parts = fuzz_greet(protocol, settings, bytes, length, cut);
    require(parts.answer == whole.answer && parts.said == whole.said);
    require(parts.connections == whole.connections);
    require(parts.answer != WEIR_GREETING_READY || parts.dialect == whole.dialect);
    require(strcmp(parts.message.text, whole.message.text) == 0);
  }
  return whole;
}

#endif

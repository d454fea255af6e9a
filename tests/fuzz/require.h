/* A fuzzer holds this true of what it fed. */
#ifndef TESTS_FUZZ_REQUIRE_H
#define TESTS_FUZZ_REQUIRE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <weir/status.h>

/* Like assert, in every build. */
static inline void require(bool holds) {
  if (!holds) abort();
}

/* Messages are shown to people, on terminals and in logs, so they hold no control characters. */
static inline void require_readable(const weir_message *message) {
  require(message->text[0] != '\0' && memchr(message->text, '\0', sizeof message->text) != NULL);
  for (const char *at = message->text; *at != '\0'; at++)
    require((unsigned char)*at >= ' ' && *at != 0x7f);
}

#endif

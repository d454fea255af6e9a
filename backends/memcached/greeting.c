/* How a new connection is found to speak one dialect: `mn` is answered by memcached itself, and
 * closes a connection to a proxy that knows no meta commands. */
#include "memcached/codec.h"
#include "memcached/version.h"

enum { START, ASKED_META, FALL_BACK, ASKED_VERSION };

static weir_greeting_answer say(weir_greeting *greeting, const char *text, unsigned next) {
  greeting->say_length = strlen(text);
  memcpy(greeting->say, text, greeting->say_length);
  greeting->step = next;
  return WEIR_GREETING_SAY;
}

static weir_greeting_answer ready(weir_greeting *greeting, weir_memcached_dialect dialect) {
  greeting->dialect = dialect;
  return WEIR_GREETING_READY;
}

static weir_greeting_answer no_meta(weir_greeting *greeting, weir_message *message) {
  const weir_memcached_dialect *wanted = greeting->settings;
  greeting->step = FALL_BACK;
  if (*wanted == WEIR_DIALECT_AUTO) return WEIR_GREETING_RECONNECT;
  weir_message_set(message, "the server knows no meta commands; protocol=classic may work");
  return WEIR_GREETING_FAILED;
}

static weir_greeting_answer hear_version(weir_greeting *greeting, const weir_line *line,
                                         weir_message *message) {
  if (weir_line_starts(line, "VERSION ")) return ready(greeting, WEIR_DIALECT_CLASSIC);
  weir_message_set(message, "the server does not answer \"version\" as memcached does");
  return WEIR_GREETING_FAILED;
}

static weir_greeting_answer greet(weir_greeting *greeting, const char *bytes, size_t length,
                                  bool closed, weir_message *message) {
  const weir_memcached_dialect *wanted = greeting->settings;
  weir_line line = weir_line_find(bytes, length);
  if (greeting->step == START && *wanted != WEIR_DIALECT_CLASSIC) {
    return say(greeting, "mn\r\n", ASKED_META);
  }
  if (greeting->step == START || greeting->step == FALL_BACK) {
    return say(greeting, "version\r\n", ASKED_VERSION);
  }
  greeting->taken = line.taken;
  if (greeting->step == ASKED_VERSION) {
    return line.taken == 0 ? WEIR_GREETING_MORE : hear_version(greeting, &line, message);
  }
  if (line.taken == 0 && !closed) return WEIR_GREETING_MORE;
  if (line.taken > 0 && weir_line_is(&line, "MN")) return ready(greeting, WEIR_DIALECT_META);
  return no_meta(greeting, message);
}

static const weir_wire_codec *const codecs[] = {
    [WEIR_DIALECT_META] = &weir_meta_codec, [WEIR_DIALECT_CLASSIC] = &weir_classic_codec};

const weir_wire_protocol weir_memcached_protocol = {.codecs = codecs,
                                                    .greet = greet,
                                                    .create_parser = weir_version_mask_create,
                                                    .destroy_parser = weir_version_mask_destroy};

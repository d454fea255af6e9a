/* How a new connection is found to speak one dialect: `mn` is answered by memcached itself, and
 * closes a connection to a proxy that knows no meta commands. Spaces make it six bytes long: without a
 * password memcached 1.6.44 and newer hang up on a shorter line, and do not say that they want one.
 *
 * A user is known by the first command: a `set` of any key, whose value is the user and the
 * password. A server that was started without -Y takes it for what it says, so the item is born
 * expired: no client can read the password. */
#include <stdio.h>

#include "memcached/codec.h"
#include "wire/tls.h"

enum { START, SAID_WHO, ASKED_META, FALL_BACK, SAID_WHO_AGAIN, ASKED_VERSION };

bool weir_memcached_login_write(weir_memcached_login *login, weir_memcached_dialect wanted,
                                const char *user, const char *password) {
  *login = (weir_memcached_login){.wanted = wanted};
  if (user == NULL || password == NULL) return true;
  int used = snprintf(login->text, sizeof login->text, "set weir:auth 0 -1 %zu\r\n%s %s\r\n",
                      strlen(user) + 1 + strlen(password), user, password);
  if (used < 0 || (size_t)used >= sizeof login->text) return false;
  login->length = (size_t)used;
  return true;
}

static weir_greeting_answer say(weir_greeting *greeting, const char *text, size_t length,
                                unsigned next) {
  greeting->say_length = length;
  memcpy(greeting->say, text, length);
  greeting->step = next;
  return WEIR_GREETING_SAY;
}

static weir_greeting_answer ask_meta(weir_greeting *greeting) {
  static const char question[] = "mn    \r\n";
  return say(greeting, question, strlen(question), ASKED_META);
}

static weir_greeting_answer ask_version(weir_greeting *greeting) {
  return say(greeting, "version\r\n", strlen("version\r\n"), ASKED_VERSION);
}

static weir_greeting_answer fail(const char *why, weir_message *message) {
  weir_message_set(message, "%s", why);
  return WEIR_GREETING_FAILED;
}

/* A reply that is no answer of memcached's to the question is told as it came. It is not told where
 * a password was said, as callers see to, for a server may repeat that. */
static weir_greeting_answer fail_with(const weir_line *line, weir_message *message) {
  enum { SHOWN_MOST = 200 };
  int length = (int)(line->length < SHOWN_MOST ? line->length : SHOWN_MOST);
  weir_message_set(message, "the server answers the greeting with \"%.*s\"", length, line->text);
  return WEIR_GREETING_FAILED;
}

/* A proxy hangs up on `mn`, or answers with an error. */
static weir_greeting_answer fall_back(weir_greeting *greeting, weir_message *message) {
  const weir_memcached_login *login = greeting->settings;
  greeting->step = FALL_BACK;
  if (login->wanted == WEIR_DIALECT_AUTO) return WEIR_GREETING_RECONNECT;
  return fail("the server knows no meta commands; protocol=classic may work", message);
}

static weir_greeting_answer receive(weir_greeting *greeting, const weir_line *line,
                                    weir_message *message) {
  /* Said to anybody before it hangs up, whatever the dialect. */
  if (weir_line_is(line, "ERROR Too many open connections")) return fail_with(line, message);
  bool said_who = greeting->step == SAID_WHO || greeting->step == SAID_WHO_AGAIN;
  if (said_who) { /* nothing of the answer is shown: a server may repeat what it was told */
    if (weir_line_is(line, "STORED"))
      return greeting->step == SAID_WHO ? ask_meta(greeting) : ask_version(greeting);
    if (weir_line_starts(line, "CLIENT_ERROR"))
      return fail("the server does not accept the user and password of the URL", message);
    return fail("the server does not answer the user and password of the URL as memcached does",
                message);
  }
  if (weir_line_is(line, "CLIENT_ERROR unauthenticated"))
    return fail("the server wants a user and a password: user:password@ before the host", message);
  if (greeting->step == ASKED_META) {
    if (!weir_line_is(line, "MN")) return fall_back(greeting, message);
    greeting->dialect = WEIR_DIALECT_META;
    return WEIR_GREETING_READY;
  }
  if (!weir_line_starts(line, "VERSION ")) {
    const weir_memcached_login *login = greeting->settings;
    if (login->length == 0) return fail_with(line, message);
    return fail("the server does not answer \"version\" as memcached does", message);
  }
  greeting->dialect = WEIR_DIALECT_CLASSIC;
  return WEIR_GREETING_READY;
}

static weir_greeting_answer greet(weir_greeting *greeting, const char *bytes, size_t length,
                                  bool closed, weir_message *message) {
  const weir_memcached_login *login = greeting->settings;
  if (greeting->step == START || greeting->step == FALL_BACK) {
    bool meta = greeting->step == START && login->wanted != WEIR_DIALECT_CLASSIC;
    if (login->length > 0)
      return say(greeting, login->text, login->length, meta ? SAID_WHO : SAID_WHO_AGAIN);
    return meta ? ask_meta(greeting) : ask_version(greeting);
  }
  if (weir_tls_is_alert(bytes, length))
    return fail("the server speaks TLS: write memcacheds://", message);
  weir_line line = weir_line_find(bytes, length);
  greeting->taken = line.taken;
  if (line.taken > 0) return receive(greeting, &line, message);
  if (!closed) return WEIR_GREETING_MORE;
  if (greeting->step == ASKED_META) return fall_back(greeting, message);
  return fail(
      "the server hung up during the greeting: so does one that speaks TLS (write "
      "memcacheds://) or the binary protocol alone (-B binary, -S), and a proxy without "
      "servers",
      message);
}

static const weir_wire_codec *const codecs[] = {
    [WEIR_DIALECT_META] = &weir_meta_codec, [WEIR_DIALECT_CLASSIC] = &weir_classic_codec};

const weir_wire_protocol weir_memcached_protocol = {.codecs = codecs,
                                                    .greet = greet,
                                                    .silence =
                                                        "so does a memcached that speaks "
                                                        "the binary protocol alone "
                                                        "(-B binary, -S)",
                                                    .create_parser = weir_version_mask_create,
                                                    .destroy_parser = weir_version_mask_destroy};

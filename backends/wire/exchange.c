#include "wire/exchange.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "wire/connection.h"

/* A step of the greeting above all that a protocol counts for itself. */
enum { ASKING = 1 << 16, FINDING_BYTES = 768 };

/* A clock that is told no finer says nothing of milliseconds. */
enum { COARSE_US = 1000000 };

/* What the wire keeps as the protocol's settings, which it hands out as read-only. */
typedef struct exchange_handle {
  weir_exchange *exchange;
} exchange_handle;

static weir_greeting_answer ask_next(weir_exchange *exchange, weir_greeting *greeting) {
  greeting->say_length = exchange->ask(exchange, greeting->say);
  greeting->step = ASKING;
  greeting->dialect = exchange->dialect;
  exchange->asked_unix_us = weir_clock_us(CLOCK_REALTIME);
  exchange->finished = greeting->say_length == 0;
  return exchange->finished ? WEIR_GREETING_READY : WEIR_GREETING_SAY;
}

static weir_greeting_answer greet_first(weir_exchange *exchange, weir_greeting *greeting,
                                        const char *bytes, size_t length, bool closed,
                                        weir_message *message) {
  const void *handle = greeting->settings;
  greeting->settings = exchange->settings;
  weir_greeting_answer answer = exchange->protocol->greet(greeting, bytes, length, closed, message);
  greeting->settings = handle;
  if (answer != WEIR_GREETING_READY) return answer;
  exchange->dialect = greeting->dialect;
  return ask_next(exchange, greeting);
}

static weir_greeting_answer greet(weir_greeting *greeting, const char *bytes, size_t length,
                                  bool closed, weir_message *message) {
  const exchange_handle *handle = greeting->settings;
  weir_exchange *exchange = handle->exchange;
  if (greeting->step < ASKING)
    return greet_first(exchange, greeting, bytes, length, closed, message);
  exchange->received_unix_us = weir_clock_us(CLOCK_REALTIME);
  if (length > 0 && exchange->receive(exchange, bytes, length, &greeting->taken))
    return ask_next(exchange, greeting);
  if (!closed) return WEIR_GREETING_MORE;
  exchange->lose(exchange);
  greeting->step = 0;
  return WEIR_GREETING_RECONNECT;
}

static void *create_parser(const void *settings, const void *first) {
  const weir_exchange *exchange = ((const exchange_handle *)settings)->exchange;
  return exchange->protocol->create_parser(exchange->settings, first);
}

/* A slot must wait for the connection: a read of that key, whose answer does not matter, or one that
 * asks for nothing else. */
static void wait_for_all(weir_wire *wire, const char *key, int64_t timeout_us,
                         weir_message *message) {
  weir_wire_slot *slot = weir_wire_slot_take(wire);
  weir_operation read = {.kind = WEIR_GET, .key = key}; /* there until the slot is finished */
  bool ready = slot != NULL;
  if (ready && key == NULL) {
    slot->connects = true;
  } else if (ready) {
    read.key_length = read.home_length = (uint16_t)strlen(key);
    ready = weir_wire_slot_add(slot, &read, 0);
  }
  if (!ready) {
    weir_message_set(message, "no memory");
    return;
  }
  weir_wire_submit(wire, slot, ~0U, weir_monotonic_us() + timeout_us);
  weir_wire_finish(wire, slot, message);
}

bool weir_wire_exchange(weir_wire *wire, weir_exchange *exchange, const char *key,
                        int64_t timeout_us, weir_message *message) {
  const exchange_handle handle = {exchange};
  const weir_wire_protocol protocol = {.codecs = exchange->protocol->codecs,
                                       .greet = greet,
                                       .create_parser = create_parser,
                                       .destroy_parser = exchange->protocol->destroy_parser};
  weir_wire *clone;
  exchange->finished = false;
  if (weir_wire_clone(wire, &protocol, &handle, timeout_us, &clone) != WEIR_OK) {
    weir_message_set(message, "no memory");
    return false;
  }
  wait_for_all(clone, key, timeout_us, message);
  weir_wire_close(clone);
  return exchange->finished;
}

/* A server chose part of it: what is not plain ASCII becomes '?'. */
void weir_wire_report(const weir_inspection *inspection, weir_finding_level level,
                      const char *topic, const char *format, ...) {
  char text[FINDING_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (char *at = text; *at != '\0'; at++)
    if (*at < ' ' || *at > '~') *at = '?';
  const weir_finding finding = {
      .level = level, .server = inspection->name, .topic = topic, .text = text};
  inspection->tell(inspection->context, &finding);
}

void weir_wire_report_security(const weir_wire *wire, const weir_inspection *inspection) {
  weir_tls *tls = weir_wire_tls(wire);
  if (weir_wire_name(wire)[0] == '/') {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "security", "a socket of this machine");
  } else if (tls == NULL) {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "security", "plain text, no TLS");
  } else if (weir_tls_verifies(tls)) {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "security",
                     "TLS; chain and name of the certificate are verified");
  } else {
    weir_wire_report(inspection, WEIR_FINDING_WARNING, "security",
                     "TLS that verifies nothing: an attacker in between can read and answer; "
                     "leave out tls-verify=none");
  }
}

void weir_wire_report_any(weir_wire *wire, const weir_inspection *inspection, bool is_proxy) {
  weir_wire_choice choice = weir_wire_read_choice(wire);
  if (is_proxy || !choice.any || choice.count < 2) return;
  weir_wire_report(
      inspection, WEIR_FINDING_FAULT, "name",
      "addresses=any is for proxies in front of one set of servers, and a server itself "
      "answers: each of its %zu addresses counts for itself, so that more than the limit "
      "is admitted; leave it out",
      choice.count);
}

void weir_wire_report_proxy(const weir_inspection *inspection, bool spreads) {
  if (spreads) {
    weir_wire_report(inspection, WEIR_FINDING_FAULT, "proxy",
                     "it spreads the counters of one key over servers, so that more than the limit "
                     "is admitted: it needs hash_tag: \"{}\"");
    return;
  }
  weir_wire_report(inspection, WEIR_FINDING_WARNING, "proxy",
                   "one stands in between and hides its servers, their memory and their clocks; it "
                   "needs hash_tag: \"{}\" (keys do stay together), server_connections: 1, and "
                   "auto_eject_hosts: false");
}

void weir_wire_report_clock(const weir_inspection *inspection, int64_t ahead_us, int64_t error_us) {
  int64_t off_us = ahead_us < 0 ? -ahead_us : ahead_us;
  double off_ms = (double)off_us / 1000;
  double error_ms = (double)error_us / 1000;
  if (off_us - error_us > *inspection->clock_off_us) *inspection->clock_off_us = off_us - error_us;
  if (off_us <= error_us && error_us >= COARSE_US) {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "clock",
                     "as this machine's, to within %.0f s, which is all that the server tells",
                     error_ms / 1000);
    return;
  }
  if (off_us <= error_us + inspection->clock_error_us) {
    weir_wire_report(inspection, WEIR_FINDING_FACT, "clock",
                     "%.1f ms %s this machine's, give or take %.1f ms", off_ms,
                     ahead_us < 0 ? "behind" : "ahead of", error_ms);
    return;
  }
  weir_wire_report(
      inspection, WEIR_FINDING_WARNING, "clock",
      "%.1f ms %s this machine's, give or take %.1f ms: decisions do not use it, but if "
      "this machine's is the wrong one, it is further off than the %.1f ms allowed",
      off_ms, ahead_us < 0 ? "behind" : "ahead of", error_ms,
      (double)inspection->clock_error_us / 1000);
}

const char *weir_wire_age(long long seconds, char text[WEIR_AGE_BYTES]) {
  if (seconds < 120)
    snprintf(text, WEIR_AGE_BYTES, "%lld s", seconds);
  else if (seconds < 7200)
    snprintf(text, WEIR_AGE_BYTES, "%lld min", seconds / 60);
  else if (seconds < 172800)
    snprintf(text, WEIR_AGE_BYTES, "%lld h", seconds / 3600);
  else
    snprintf(text, WEIR_AGE_BYTES, "%lld days", seconds / 86400);
  return text;
}

/* Reads the answer of a configuration endpoint:
 *
 *     CONFIG cluster 0 <bytes>
 *     <version>
 *     <host>|<ip>|<port> <host>|<ip>|<port> ...
 *
 *     END
 *
 * Lines end with CR LF, those inside the counted bytes with LF alone. The host may be empty, and
 * then the address names the server. Names and their order make the ring, as if they stood in the
 * URL. */
#include "memcached/memcached.h"

#include <arpa/inet.h>

#include "wire/exchange.h"

enum { NAME_MOST = 253, PATIENCE_US = 5000000 };

static const char question[] = "config get cluster\r\n";

/* --- an answer ---------------------------------------------------------------------------------
 */

/* A piece of the answer. */
typedef struct span {
  char *text;
  size_t length;
} span;

/* The counted bytes, and how long the answer is with all around them. False: this is no such
 * answer. */
static bool find_counted(weir_discovery *discovery, span *counted, size_t *whole) {
  static const char start[] = "CONFIG cluster 0 ";
  static const char end[] = "\r\nEND\r\n";
  weir_line line = weir_line_find(discovery->answer, discovery->length);
  size_t digits = sizeof start - 1;
  uint64_t bytes;
  if (line.bad || !weir_line_starts(&line, start) ||
      !weir_number_parse(line.text + digits, line.length - digits, &bytes) ||
      bytes > WEIR_DISCOVERY_BYTES_MOST)
    return false;
  *counted = (span){discovery->answer + line.taken, (size_t)bytes};
  *whole = line.taken + counted->length + sizeof end - 1;
  return discovery->length < *whole ||
         memcmp(counted->text + counted->length, end, sizeof end - 1) == 0;
}

bool weir_discovery_is_whole(weir_discovery *discovery) {
  span counted;
  size_t whole;
  weir_line line = weir_line_find(discovery->answer, discovery->length);
  if (discovery->length == WEIR_DISCOVERY_BYTES_MOST) return true;
  if (line.taken == 0) return false;
  return !find_counted(discovery, &counted, &whole) || discovery->length >= whole;
}

/* Cuts off what is before the next `end`, which is taken as well and becomes the piece's own end.
 * The last piece has none. */
static span cut(span *rest, char end) {
  char *at = rest->length == 0 ? NULL : memchr(rest->text, end, rest->length);
  span piece = {rest->text, at == NULL ? rest->length : (size_t)(at - rest->text)};
  size_t taken = piece.length + (at != NULL);
  rest->text += taken;
  rest->length -= taken;
  piece.text[piece.length] = '\0'; /* there is always a byte behind: the answer's own end */
  return piece;
}

/* "host|ip|port". */
static bool read_server(span server, weir_url_host *host) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
  struct in6_addr parsed;
  span name = cut(&server, '|');
  span address = cut(&server, '|');
  uint64_t port;
  bool known = weir_number_scan(server.text, server.length, &port) == server.length;
  if (name.length == 0) name = address;
  if (!known || server.length == 0 || port < 1 || port > UINT16_MAX) return false;
  if (name.length == 0 || name.length > NAME_MOST || strlen(name.text) != name.length) return false;
  if (strspn(name.text, accepted) != name.length && inet_pton(AF_INET6, name.text, &parsed) != 1)
    return false;
  *host = (weir_url_host){.name = name.text, .port = (uint16_t)port, .weight = 1};
  return true;
}

static bool refuse(const char *why, weir_message *message) {
  weir_message_set(
      message,
      "discovery=on: the host does not answer \"config get cluster\" as a configuration "
      "endpoint does: %s; accepted are a version, and host|ip|port of 1 to %d servers",
      why, WEIR_DISCOVERY_SERVERS_MOST);
  return false;
}

bool weir_discovery_read(weir_discovery *discovery, weir_message *message) {
  span rest;
  size_t whole;
  uint64_t version;
  discovery->host_count = 0;
  discovery->answer[discovery->length] = '\0';
  if (!find_counted(discovery, &rest, &whole) || whole != discovery->length)
    return refuse("there is no \"CONFIG cluster\"", message);
  span first = cut(&rest, '\n');
  bool numbered = first.length > 0 && first.text + first.length < rest.text;
  if (!numbered || weir_number_scan(first.text, first.length, &version) != first.length)
    return refuse("its first line is no version", message);
  span list = cut(&rest, '\n');
  if (rest.length > 0) return refuse("more follows the list of servers", message);
  while (list.length > 0) {
    if (discovery->host_count == WEIR_DISCOVERY_SERVERS_MOST)
      return refuse("there are more servers", message);
    span server = cut(&list, ' ');
    if (!read_server(server, &discovery->hosts[discovery->host_count]))
      return refuse("a server is not host|ip|port", message);
    discovery->host_count++;
  }
  return discovery->host_count > 0 || refuse("there is no server", message);
}

/* --- asking ------------------------------------------------------------------------------------
 */

typedef struct discovery_question {
  weir_exchange exchange; /* first */
  weir_discovery *discovery;
  bool asked;
} discovery_question;

static size_t ask(weir_exchange *exchange, char say[WEIR_WIRE_GREETING_MOST]) {
  discovery_question *asking = (discovery_question *)exchange;
  if (asking->asked) return 0;
  asking->asked = true;
  memcpy(say, question, sizeof question - 1);
  return sizeof question - 1;
}

/* An answer may be longer than what a connection keeps, so it is taken as it comes. */
static bool receive(weir_exchange *exchange, const char *bytes, size_t length, size_t *taken) {
  weir_discovery *discovery = ((discovery_question *)exchange)->discovery;
  size_t room = WEIR_DISCOVERY_BYTES_MOST - discovery->length;
  *taken = length < room ? length : room;
  memcpy(discovery->answer + discovery->length, bytes, *taken);
  discovery->length += *taken;
  return weir_discovery_is_whole(discovery);
}

/* An endpoint that hangs up has answered nothing, and is not asked again. */
static void lose(weir_exchange *exchange) {
  ((discovery_question *)exchange)->discovery->length = 0;
}

static weir_status ask_wire(weir_wire *wire, const weir_memcached_login *login, int64_t timeout_us,
                            weir_discovery *discovery, weir_message *message) {
  weir_message why = {""};
  discovery_question asking = {.exchange = {.protocol = &weir_memcached_protocol,
                                            .settings = login,
                                            .ask = ask,
                                            .receive = receive,
                                            .lose = lose},
                               .discovery = discovery};
  if (weir_wire_exchange(wire, &asking.exchange, "weir:discovery", timeout_us, &why))
    return weir_discovery_read(discovery, message) ? WEIR_OK : WEIR_BAD_URL;
  weir_message_set(message,
                   "discovery=on: the configuration endpoint %s did not answer in time: %s",
                   weir_wire_name(wire), why.text);
  return WEIR_UNAVAILABLE;
}

weir_status weir_discovery_ask(const weir_wire_place *place, const weir_wire_options *options,
                               const weir_memcached_login *login, weir_discovery *discovery,
                               weir_message *message) {
  weir_wire *wire = NULL;
  int64_t timeout_us = options->timeout_us > PATIENCE_US ? options->timeout_us : PATIENCE_US;
  weir_status status =
      weir_wire_open(place, &weir_memcached_protocol, login, options, &wire, message);
  discovery->length = 0;
  if (status == WEIR_OK) status = ask_wire(wire, login, timeout_us, discovery, message);
  weir_wire_close(wire);
  return status;
}

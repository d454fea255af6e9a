/* The authority of a store URL: user, password, hosts.
 *
 * None of it is quoted in a message: in a URL that lacks its '@', or has it in an odd place, any
 * part may be of the password. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>

#include "store/url.h"

/* Digits only; `most` for a number that is larger; -1 for anything else. */
static int64_t read_digits(weir_url_piece piece, int64_t most) {
  int64_t number = 0;
  if (piece.length == 0) return -1;
  for (size_t i = 0; i < piece.length; i++) {
    if (piece.text[i] < '0' || piece.text[i] > '9') return -1;
    number = number * 10 + (piece.text[i] - '0');
    if (number > most) number = most;
  }
  return number;
}

static weir_status read_number(weir_url_reader *reader, weir_url_piece piece, const char *part,
                               int64_t most, uint32_t *value) {
  int64_t number = read_digits(piece, most + 1);
  if (number >= 1 && number <= most) {
    *value = (uint32_t)number;
    return WEIR_OK;
  }
  weir_message_set(reader->message, "the %s is not a number from 1 to %" PRId64, part, most);
  return WEIR_BAD_URL;
}

static bool is_host_name(const char *name) {
  static const char accepted[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
  size_t length = strlen(name);
  return length > 0 && length <= WEIR_URL_HOST_NAME_MOST && strspn(name, accepted) == length;
}

/* A zone may follow, which is the name of an interface: fe80::1%eth0 */
static bool is_ipv6(const char *name) {
  char address[INET6_ADDRSTRLEN];
  struct in6_addr parsed;
  size_t length = strcspn(name, "%");
  if (length >= sizeof address || (name[length] == '%' && !is_host_name(name + length + 1)))
    return false;
  memcpy(address, name, length);
  address[length] = '\0';
  return inet_pton(AF_INET6, address, &parsed) == 1;
}

static weir_status read_name(weir_url_reader *reader, weir_url_piece piece, bool bracketed,
                             weir_url_host *host) {
  weir_status status = weir_url_decode(reader, piece, "the host", &host->name);
  if (status != WEIR_OK) return status;
  if (host->name == NULL) {
    weir_message_set(reader->message,
                     "the host is missing: accepted are a name, 192.0.2.1 and [::1]");
    return WEIR_BAD_URL;
  }
  if (bracketed ? is_ipv6(host->name) : is_host_name(host->name)) return WEIR_OK;
  if (bracketed)
    weir_message_set(reader->message, "what stands in brackets is not an IPv6 address");
  else
    weir_message_set(reader->message,
                     "the host is no name: accepted are A-Z a-z 0-9 . - _, at most %d bytes",
                     WEIR_URL_HOST_NAME_MOST);
  return WEIR_BAD_URL;
}

/* ":port[:weight]" or nothing. */
static weir_status read_port(weir_url_reader *reader, weir_url_piece rest, weir_url_host *host) {
  weir_url_piece port;
  uint32_t number;
  if (rest.length == 0) return WEIR_OK;
  rest = (weir_url_piece){rest.text + 1, rest.length - 1};
  bool has_weight = weir_url_cut(&rest, ':', &port);
  weir_status status = read_number(reader, port, "port", UINT16_MAX, &number);
  if (status != WEIR_OK) return status;
  host->port = (uint16_t)number;
  if (!has_weight) return WEIR_OK;
  if (reader->scheme->parts & WEIR_URL_HOSTS)
    return read_number(reader, rest, "weight", WEIR_URL_WEIGHT_MOST, &host->weight);
  weir_message_set(reader->message, "%s takes no weight after the port", reader->scheme->name);
  return WEIR_BAD_URL;
}

/* "[address]rest" */
static weir_status split_bracketed(weir_url_reader *reader, weir_url_piece text,
                                   weir_url_piece *name, weir_url_piece *rest) {
  *rest = (weir_url_piece){text.text + 1, text.length - 1};
  if (weir_url_cut(rest, ']', name) && (rest->length == 0 || rest->text[0] == ':')) return WEIR_OK;
  weir_message_set(reader->message, "an IPv6 address must end in ']', then :port or nothing");
  return WEIR_BAD_URL;
}

/* "name:port:weight"; more colons, or two in a row, are an IPv6 address without its brackets. */
static weir_status split_plain(weir_url_reader *reader, weir_url_piece text, weir_url_piece *name,
                               weir_url_piece *rest) {
  size_t colons = 0;
  bool doubled = false;
  *name = text;
  for (size_t i = text.length; i-- > 0;) {
    if (text.text[i] != ':') continue;
    doubled = doubled || (i > 0 && text.text[i - 1] == ':');
    colons++;
    name->length = i;
  }
  *rest = (weir_url_piece){text.text + name->length, text.length - name->length};
  if (colons <= 2 && !doubled) return WEIR_OK;
  weir_message_set(reader->message,
                   "too many colons: an IPv6 address stands in brackets, as [::1]");
  return WEIR_BAD_URL;
}

static weir_status read_host(weir_url_reader *reader, weir_url_piece text, weir_url_host *host) {
  weir_url_piece name;
  weir_url_piece rest;
  bool bracketed = text.length > 0 && text.text[0] == '[';
  *host = (weir_url_host){.weight = 1};
  weir_status status = bracketed ? split_bracketed(reader, text, &name, &rest)
                                 : split_plain(reader, text, &name, &rest);
  if (status == WEIR_OK) status = read_name(reader, name, bracketed, host);
  if (status == WEIR_OK) status = read_port(reader, rest, host);
  return status;
}

static weir_status read_hosts(weir_url_reader *reader, weir_url_piece rest) {
  size_t *count = &reader->parsed->url.host_count;
  bool many = (reader->scheme->parts & WEIR_URL_HOSTS) != 0;
  for (bool more = true; more; (*count)++) {
    weir_url_piece text;
    more = weir_url_cut(&rest, ',', &text);
    if (more && !many) {
      weir_message_set(reader->message, "%s takes one host", reader->scheme->name);
      return WEIR_BAD_URL;
    }
    weir_status status = read_host(reader, text, &reader->hosts[*count]);
    if (status == WEIR_OK) continue;
    if (many) weir_message_prefix(reader->message, "host %zu of the list: ", *count + 1);
    return status;
  }
  return WEIR_OK;
}

/* "user[:password]", before the last '@'. */
static weir_status read_user(weir_url_reader *reader, weir_url_piece password) {
  weir_url_piece user;
  if (!(reader->scheme->parts & WEIR_URL_USER)) {
    weir_message_set(reader->message, "%s takes no user and no password", reader->scheme->name);
    return WEIR_BAD_URL;
  }
  weir_url_cut(&password, ':', &user);
  weir_status status = weir_url_decode(reader, user, "the user", &reader->parsed->url.user);
  if (status != WEIR_OK) return status;
  return weir_url_decode(reader, password, "the password", &reader->parsed->url.password);
}

weir_status weir_url_read_authority(weir_url_reader *reader, weir_url_piece authority) {
  weir_url_piece hosts = authority;
  weir_url_piece before;
  while (memchr(hosts.text, '@', hosts.length) != NULL)
    weir_url_cut(&hosts, '@', &before);
  if (hosts.text != authority.text) {
    weir_url_piece user = {authority.text, (size_t)(hosts.text - authority.text) - 1};
    weir_status status = read_user(reader, user);
    if (status != WEIR_OK) return status;
  }
  if (reader->scheme->parts & (WEIR_URL_HOST | WEIR_URL_HOSTS)) return read_hosts(reader, hosts);
  if (hosts.length == 0) return WEIR_OK;
  weir_message_set(reader->message, "%s takes no host", reader->scheme->name);
  return WEIR_BAD_URL;
}

/* Which client does a request come from? All addresses are 16 bytes here, IPv4 as ::ffff:0:0/96,
 * so that a network is one comparison of bits. */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/backend.h>
#include <weir/http.h>

#include "number.h"

enum {
  ADDRESS_BYTES = 16,
  ADDRESS_BITS = 128,
  IPV4_AT = 12, /* where an IPv4 address begins in one of IPv6 */
  IPV6_DEFAULT_BITS = 64,
  PIECE_MOST = 64 /* longer than any address with brackets and a port */
};

typedef struct address {
  unsigned char bytes[ADDRESS_BYTES];
} address;

typedef struct network {
  address first;
  unsigned bits; /* of `first` that count, IPv4 ones from 96 on */
} network;

struct weir_http_networks {
  size_t count;
  network list[WEIR_HTTP_NETWORKS_MOST];
};

static const unsigned char ipv4_prefix[IPV4_AT] = {[10] = 0xff, [11] = 0xff};

static bool is_ipv4(const address *a) {
  return memcmp(a->bytes, ipv4_prefix, sizeof ipv4_prefix) == 0;
}

/* --- reading -----------------------------------------------------------------------------------
 */

/* A zone ("%eth0") says on which link of this machine an address is: it is not the client's. */
static bool read_bare(char *text, address *a) {
  char *zone = strchr(text, '%');
  if (zone != NULL && strchr(text, ':') != NULL) *zone = '\0';
  if (inet_pton(AF_INET6, text, a->bytes) == 1) return true;
  memcpy(a->bytes, ipv4_prefix, sizeof ipv4_prefix);
  return inet_pton(AF_INET, text, a->bytes + IPV4_AT) == 1;
}

static bool is_port(const char *text) {
  size_t digits = strspn(text, "0123456789");
  return digits >= 1 && digits <= 5 && text[digits] == '\0';
}

/* "192.0.2.7", "192.0.2.7:80", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:80". */
static bool read_address(const char *text, size_t length, address *a) {
  char piece[PIECE_MOST];
  if (length == 0 || length >= sizeof piece || memchr(text, '\0', length) != NULL) return false;
  memcpy(piece, text, length);
  piece[length] = '\0';
  if (piece[0] == '[') {
    char *end = strchr(piece, ']');
    if (end == NULL || (end[1] != '\0' && !(end[1] == ':' && is_port(end + 2)))) return false;
    *end = '\0';
    return strchr(piece, ':') != NULL && read_bare(piece + 1, a);
  }
  char *colon = strchr(piece, ':');
  if (colon != NULL && strchr(colon + 1, ':') == NULL) { /* one colon: before a port */
    if (!is_port(colon + 1)) return false;
    *colon = '\0';
  }
  return read_bare(piece, a);
}

/* "10.0.0.0/8"; without '/' all bits count. */
static bool read_network(const char *text, size_t length, network *n) {
  const char *slash = memchr(text, '/', length);
  size_t address_length = slash != NULL ? (size_t)(slash - text) : length;
  if (!read_address(text, address_length, &n->first)) return false;
  unsigned most = is_ipv4(&n->first) ? 32 : ADDRESS_BITS;
  int64_t bits = most;
  size_t digits = slash != NULL ? length - address_length - 1 : 0;
  if (slash != NULL && (digits > 3 || !weir_number_read(slash + 1, digits, most, &bits)))
    return false;
  n->bits = (unsigned)bits + ADDRESS_BITS - most;
  return true;
}

/* --- networks ----------------------------------------------------------------------------------
 */

/* Clears what does not count. */
static void cut(address *a, unsigned bits) {
  for (unsigned i = 0; i < ADDRESS_BYTES; i++) {
    unsigned counting = bits <= i * 8 ? 0 : bits - i * 8;
    if (counting < 8) a->bytes[i] = (unsigned char)(a->bytes[i] & ~(0xffU >> counting));
  }
}

/* "::/0" is all of IPv6, and no IPv4. */
static bool is_trusted(const weir_http_networks *networks, const address *a) {
  for (size_t i = 0; networks != NULL && i < networks->count; i++) {
    const network *n = &networks->list[i];
    address other = *a;
    if (is_ipv4(&n->first) != is_ipv4(a)) continue;
    cut(&other, n->bits);
    if (memcmp(other.bytes, n->first.bytes, ADDRESS_BYTES) == 0) return true;
  }
  return false;
}

static weir_status read_networks(const char *text, weir_http_networks *networks,
                                 weir_message *message) {
  static const char separators[] = ", \t";
  for (text += strspn(text, separators); *text != '\0'; text += strspn(text, separators)) {
    size_t length = strcspn(text, separators);
    network *n = &networks->list[networks->count];
    if (networks->count == WEIR_HTTP_NETWORKS_MOST) {
      weir_message_set(message, "more than %d networks", WEIR_HTTP_NETWORKS_MOST);
      return WEIR_BAD_ARGUMENT;
    }
    if (!read_network(text, length, n)) {
      weir_message_set(message,
                       "\"%.*s\" is no network: accepted are addresses of IPv4 and IPv6, with "
                       "\"/BITS\" behind them where not all of them count",
                       (int)(length < PIECE_MOST ? length : PIECE_MOST), text);
      return WEIR_BAD_ARGUMENT;
    }
    cut(&n->first, n->bits);
    networks->count++;
    text += length;
  }
  return WEIR_OK;
}

weir_status weir_http_networks_create(const char *text, weir_http_networks **networks,
                                      weir_message *message) {
  *networks = NULL;
  if (text == NULL) {
    weir_message_set(message, "the networks are NULL: accepted is text, \"\" for none");
    return WEIR_BAD_ARGUMENT;
  }
  weir_http_networks *made = calloc(1, sizeof *made);
  if (made == NULL) {
    weir_message_set(message, "no memory for networks");
    return WEIR_NO_MEMORY;
  }
  weir_status status = read_networks(text, made, message);
  if (status == WEIR_OK)
    *networks = made;
  else
    free(made);
  return status;
}

void weir_http_networks_destroy(weir_http_networks *networks) {
  free(networks);
}

bool weir_http_networks_contain(const weir_http_networks *networks, const char *text) {
  address a;
  return text != NULL && read_address(text, strlen(text), &a) && is_trusted(networks, &a);
}

/* --- the client --------------------------------------------------------------------------------
 */

/* From the right, as each proxy appends the address that it was asked from; *client is the peer
 * before. */
static void follow_forwarded(const weir_http_networks *trusted, const char *field,
                             address *client) {
  size_t end = field != NULL ? strlen(field) : 0;
  while (end > 0 && is_trusted(trusted, client)) {
    size_t begin = end;
    address heard;
    while (begin > 0 && field[begin - 1] != ',')
      begin--;
    size_t first = begin;
    size_t last = end;
    while (first < last && (field[first] == ' ' || field[first] == '\t'))
      first++;
    while (last > first && (field[last - 1] == ' ' || field[last - 1] == '\t'))
      last--;
    if (!read_address(field + first, last - first, &heard)) return;
    *client = heard;
    end = begin > 0 ? begin - 1 : 0; /* before the comma */
  }
}

static weir_status check_bits(const char *name, unsigned bits, unsigned most,
                              weir_message *message) {
  if (bits <= most) return WEIR_OK;
  weir_message_set(message, "%s is %u: accepted are 1 to %u, and 0 for the default", name, bits,
                   most);
  return WEIR_BAD_ARGUMENT;
}

static void write_key(address client, unsigned ipv4_bits, unsigned ipv6_bits,
                      char key[WEIR_HTTP_CLIENT_KEY_BYTES]) {
  char text[INET6_ADDRSTRLEN];
  bool ipv4 = is_ipv4(&client);
  unsigned most = ipv4 ? 32 : ADDRESS_BITS;
  unsigned bits = ipv4 ? ipv4_bits : ipv6_bits;
  if (bits == 0) bits = ipv4 ? most : IPV6_DEFAULT_BITS;
  cut(&client, bits + ADDRESS_BITS - most);
  inet_ntop(ipv4 ? AF_INET : AF_INET6, client.bytes + (ipv4 ? IPV4_AT : 0), text, sizeof text);
  if (bits == most)
    snprintf(key, WEIR_HTTP_CLIENT_KEY_BYTES, "%s", text);
  else
    snprintf(key, WEIR_HTTP_CLIENT_KEY_BYTES, "%s/%u", text, bits);
}

weir_status weir_http_client_key(const weir_http_networks *trusted, const char *peer,
                                 const char *forwarded_for, unsigned ipv4_bits, unsigned ipv6_bits,
                                 char key[WEIR_HTTP_CLIENT_KEY_BYTES], weir_message *message) {
  address client;
  key[0] = '\0';
  weir_status status = check_bits("ipv4_bits", ipv4_bits, 32, message);
  if (status == WEIR_OK) status = check_bits("ipv6_bits", ipv6_bits, ADDRESS_BITS, message);
  if (status != WEIR_OK) return status;
  if (peer == NULL || !read_address(peer, strlen(peer), &client)) {
    weir_message_set(message, "the peer \"%.*s\" is no address of IPv4 or IPv6", PIECE_MOST,
                     peer != NULL ? peer : "");
    return WEIR_BAD_ARGUMENT;
  }
  follow_forwarded(trusted, forwarded_for, &client);
  write_key(client, ipv4_bits, ipv6_bits, key);
  return WEIR_OK;
}

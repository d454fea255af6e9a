/* Who has sent a request: a program that means this server, or a page of another origin through
 * somebody's browser? A browser adds Origin, Sec-Fetch-Site and Host, and no page can change them. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "protocol/http/internal.h"

enum { ADDRESS_TEXT_BYTES = 64 };

static bool is_same(weir_http_text a, weir_http_text b) {
  return a.length == b.length && strncasecmp(a.bytes, b.bytes, a.length) == 0;
}

/* --- the host -----------------------------------------------------------------------------------
 */

/* Without its port, and an address of IPv6 without its brackets. */
static weir_http_text name_of(weir_http_text host) {
  bool is_v6 = host.length > 0 && host.bytes[0] == '[';
  const char *end = memchr(host.bytes, is_v6 ? ']' : ':', host.length);
  if (end != NULL) host.length = (size_t)(end - host.bytes);
  if (!is_v6) return host;
  return (weir_http_text){host.bytes + 1, host.length - 1};
}

static bool read_address(weir_http_text name, struct sockaddr_storage *address) {
  char text[ADDRESS_TEXT_BYTES];
  struct sockaddr_in *v4 = (void *)address;
  struct sockaddr_in6 *v6 = (void *)address;
  if (name.length >= sizeof text) return false;
  memcpy(text, name.bytes, name.length);
  text[name.length] = '\0';
  memset(address, 0, sizeof *address);
  address->ss_family = AF_INET;
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) return true;
  address->ss_family = AF_INET6;
  return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

/* A server that listens at all of its host's addresses has each of them: no name is turned to
 * another address there, as a name could be. */
static bool is_at(const struct sockaddr_storage *asked, const struct sockaddr_storage *own) {
  const struct sockaddr_in *asked_v4 = (const void *)asked, *own_v4 = (const void *)own;
  const struct sockaddr_in6 *asked_v6 = (const void *)asked, *own_v6 = (const void *)own;
  if (own->ss_family == AF_INET && own_v4->sin_addr.s_addr == htonl(INADDR_ANY)) return true;
  if (own->ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&own_v6->sin6_addr)) return true;
  if (asked->ss_family != own->ss_family) return false;
  return own->ss_family == AF_INET
             ? asked_v4->sin_addr.s_addr == own_v4->sin_addr.s_addr
             : memcmp(&asked_v6->sin6_addr, &own_v6->sin6_addr, sizeof own_v6->sin6_addr) == 0;
}

static bool is_host(weir_http_text host, const weir_config_listener *listener,
                    const struct sockaddr_storage *own) {
  struct sockaddr_storage asked;
  weir_http_text name = name_of(host);
  if (own->ss_family != AF_INET && own->ss_family != AF_INET6)
    return true; /* no browser gets there */
  if (weir_http_is(name, "localhost")) return true;
  for (size_t i = 0; i < listener->host_count; i++)
    if (weir_http_is(name, listener->hosts[i])) return true;
  if (!read_address(name, &asked)) return false;
  return weir_config_is_local((const struct sockaddr *)(const void *)&asked) || is_at(&asked, own);
}

/* --- the origin ---------------------------------------------------------------------------------
 */

/* That of a page which this server has sent: behind a proxy it may have come by https. */
static bool is_own(weir_http_text origin, weir_http_text host) {
  static const char *const schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < 2; i++) {
    size_t length = strlen(schemes[i]);
    if (origin.length <= length || strncasecmp(origin.bytes, schemes[i], length) != 0) continue;
    return is_same((weir_http_text){origin.bytes + length, origin.length - length}, host);
  }
  return false;
}

/* Somebody has followed a link, or typed the address, and will see what comes: no page reads it. */
static bool is_opened(const weir_http_request *request) {
  weir_http_text mode = {"", 0}, to = {"", 0};
  size_t first = 0, second = 0;
  weir_http_next_field(request, "Sec-Fetch-Mode", &first, &mode);
  weir_http_next_field(request, "Sec-Fetch-Dest", &second, &to);
  return weir_http_is(request->method, "GET") && weir_http_is(mode, "navigate") &&
         weir_http_is(to, "document");
}

bool weir_http_is_from_here(const weir_http_request *request, const weir_config_listener *listener,
                            const struct sockaddr_storage *own, bool may_be_opened,
                            weir_http_refusal *refusal) {
  weir_http_text host = {"", 0}, value;
  for (size_t position = 0; weir_http_next_field(request, "Host", &position, &host);)
    if (!is_host(host, listener, own))
      return weir_http_decline(refusal, 403, "Host \"%.*s\" is not known here: see hosts",
                               host.length < 64 ? (int)host.length : 64, host.bytes);
  for (size_t position = 0; weir_http_next_field(request, "Origin", &position, &value);)
    if (!is_own(value, host))
      return weir_http_decline(refusal, 403, "a page of another origin has sent this");
  for (size_t position = 0; weir_http_next_field(request, "Sec-Fetch-Site", &position, &value);)
    if (!weir_http_is(value, "same-origin") && !weir_http_is(value, "none") &&
        !(may_be_opened && is_opened(request)))
      return weir_http_decline(refusal, 403, "a page of another site has sent this");
  return true;
}

/* --- the body -----------------------------------------------------------------------------------
 */

/* No page may send this type to another origin before that has agreed, which nothing here does. */
bool weir_http_is_json(const weir_http_request *request, weir_http_refusal *refusal) {
  static const weir_http_text prefix = {"application/", 12}, suffix = {"+json", 5};
  weir_http_text type = {"", 0}, second;
  size_t position = 0;
  weir_http_next_field(request, "Content-Type", &position, &type);
  bool is_one = !weir_http_next_field(request, "Content-Type", &position, &second);
  const char *end = memchr(type.bytes, ';', type.length);
  if (end != NULL) type.length = (size_t)(end - type.bytes);
  while (type.length > 0 &&
         (type.bytes[type.length - 1] == ' ' || type.bytes[type.length - 1] == '\t'))
    type.length--;
  bool named =
      type.length > prefix.length + suffix.length &&
      is_same((weir_http_text){type.bytes, prefix.length}, prefix) &&
      is_same((weir_http_text){type.bytes + type.length - suffix.length, suffix.length}, suffix);
  if (is_one && (named || weir_http_is(type, "application/json"))) return true;
  return weir_http_decline(refusal, 415, "Content-Type: application/json is accepted");
}

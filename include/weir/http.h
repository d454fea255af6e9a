/* Limits in an HTTP service: a decision as response fields, a client's address as a key.
 *
 * Nothing here waits, reads a clock or talks to a store. docs/http.md tells how they are used.
 */
#ifndef WEIR_HTTP_H
#define WEIR_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/export.h>
#include <weir/limiter.h>
#include <weir/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which fields say it. Both end with Retry-After where the request is denied. */
typedef enum weir_http_style {
  /* RateLimit-Policy and RateLimit, as the IETF's draft-ietf-httpapi-ratelimit-headers-10 has them:
   * lists with an item for each rule,
   *
   *   RateLimit-Policy: "api";q=100;w=60
   *   RateLimit: "api";r=41;t=12
   *
   * q is the most that is admitted at once (of the rule that decided: decision->limit, that of the
   * request's class or own limit), w in how many seconds so much is admitted again. r is
   * what remains, t how many seconds until more does: the wait of a request that is denied, else
   * the time until nothing counts any more. A decision has the figures of one rule, so RateLimit
   * has that one item; none where they are not known. */
  WEIR_HTTP_DRAFT_10,
  /* X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, the latter in seconds from now:
   * what many services have sent for years. */
  WEIR_HTTP_X_RATELIMIT
} weir_http_style;

enum {
  WEIR_HTTP_FIELDS_MOST = 4,
  WEIR_HTTP_NAME_MOST = 64,    /* bytes of a policy's name: A-Z a-z 0-9 _ . - */
  WEIR_HTTP_VALUE_BYTES = 1024 /* room for any field's value, and a NUL */
};

typedef struct weir_http_field {
  const char *name; /* lives for ever */
  char value[WEIR_HTTP_VALUE_BYTES];
} weir_http_field;

/* Writes the fields of `decision`, made by this limiter, and how many they are.
 *
 * `name` is the policy's: of the limiter's only rule; with several rules the first is NAME-1, the
 * second NAME-2. A rule with name=TEXT in its text is called TEXT instead. NAME/CLASS says the class
 * that was decided for: "/CLASS" then stands behind the policy whose limit is that of the class, where
 * the decision tells it. Seconds are rounded up, so a client that waits so long is not denied for
 * having come too early. A denial without an end (WEIR_NEVER) has no Retry-After. WEIR_BAD_ARGUMENT for
 * a name, style or rule that is not accepted; then *count is 0. Any thread. */
WEIR_EXPORT weir_status weir_http_write_fields(const weir_limiter *limiter, const char *name,
                                               const weir_decision *decision, unsigned style,
                                               weir_http_field fields[WEIR_HTTP_FIELDS_MOST],
                                               size_t *count, weir_message *message);

/* Networks whose word is taken for who sent a request: the proxies in front of the service. */
typedef struct weir_http_networks weir_http_networks;

/* Reads networks separated by commas or spaces: "10.0.0.0/8, 192.0.2.7, fd00::/8". At most
 * WEIR_HTTP_NETWORKS_MOST; none is fine. WEIR_BAD_ARGUMENT names the one that is wrong. On error
 * *networks is NULL. */
enum { WEIR_HTTP_NETWORKS_MOST = 256 };
WEIR_EXPORT weir_status weir_http_networks_create(const char *text, weir_http_networks **networks,
                                                  weir_message *message);
WEIR_EXPORT void weir_http_networks_destroy(weir_http_networks *networks);

/* Whether an address, as text, lies in one of them: what is no address does not. For lists of who
 * is not limited at all, or more. Any thread. */
WEIR_EXPORT bool weir_http_networks_contain(const weir_http_networks *networks,
                                            const char *address);

/* Writes under which key a client is limited: its address, cut to a network.
 *
 * `peer` is the address the connection comes from, as text. Only where it lies in one of `trusted`
 * (NULL: none is), `forwarded_for` is read: the X-Forwarded-For field, several of them joined by
 * commas; NULL: none. From its right end on, addresses that are trusted as well are passed over;
 * the first that is not is the client. The client itself may have written all that stands left of
 * it, which is never looked at. Where every address is trusted the leftmost is the client; what is
 * no address ends the search, and the one right of it is.
 *
 * Addresses may have a port, IPv6 ones brackets. IPv4 in IPv6 (::ffff:192.0.2.7) is IPv4.
 * `ipv4_bits`, 1 to 32, and `ipv6_bits`, 1 to 128, say how much of an address counts; 0 is the
 * default: 32 and 64, as one customer has a /64 to choose addresses from.
 *
 * key: "192.0.2.7", "192.0.2.0/24", "2001:db8:1:2::/64"; without "/32" and "/128".
 * WEIR_BAD_ARGUMENT where the peer is no address, or bits are out of range. Any thread. */
enum { WEIR_HTTP_CLIENT_KEY_BYTES = 64 };
WEIR_EXPORT weir_status weir_http_client_key(const weir_http_networks *trusted, const char *peer,
                                             const char *forwarded_for, unsigned ipv4_bits,
                                             unsigned ipv6_bits,
                                             char key[WEIR_HTTP_CLIENT_KEY_BYTES],
                                             weir_message *message);

#ifdef __cplusplus
}
#endif

#endif

/* Store URLs, from text to the parts that a backend is given:
 *
 *     scheme:[//[user[:password]@]host[:port[:weight]][,...]][/path][?option=value[&...]]
 *
 * Parts are cut at their separators first and percent-decoded after, so an escaped separator is an
 * ordinary byte. A raw '@' may stand only in front of the hosts.
 *
 * Messages name the part that is wrong, and quote only a scheme, and an option's name or value: in
 * a malformed URL everything else can be a piece of a password.
 */
#ifndef WEIR_STORE_URL_H
#define WEIR_STORE_URL_H

#include <weir/backend.h>

enum {
  WEIR_URL_BYTES_MOST = 4096,
  WEIR_URL_HOST_NAME_MOST = 253, /* RFC 1035 */
  WEIR_URL_WEIGHT_MOST = 1000000,
  WEIR_NAMESPACE_MOST = 32
};

typedef struct weir_parsed_url {
  weir_url url;
  const weir_backend *backend; /* whose scheme it is */
  void *memory;                /* what url points into */
} weir_parsed_url;

/* Reads `text`, whose scheme must be one of `backends` (which end with NULL). WEIR_OK, WEIR_BAD_URL
 * or WEIR_NO_MEMORY; nothing to clear on error. */
weir_status weir_url_parse(const char *text, const weir_backend *const *backends,
                           weir_parsed_url *parsed, weir_message *message);

void weir_url_clear(weir_parsed_url *parsed);

#endif

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

/* The steps of weir_url_parse() share this. */
typedef struct weir_url_piece {
  const char *text;
  size_t length;
} weir_url_piece;

typedef struct weir_url_reader {
  weir_parsed_url *parsed;
  const weir_scheme *scheme;
  weir_url_host *hosts;
  weir_url_option *options;
  char *free; /* room for decoded text */
  weir_message *message;
} weir_url_reader;

/* Cuts what stands before `separator` off the front of *rest, and the separator; false where there
 * is none, and then all of *rest goes to *front. */
bool weir_url_cut(weir_url_piece *rest, char separator, weir_url_piece *prefix);

/* *text is the piece percent-decoded, NULL for an empty one. `part` names it in a message. */
weir_status weir_url_decode(weir_url_reader *reader, weir_url_piece piece, const char *part,
                            const char **text);

/* The text between "//" and the path or the options; empty where there is no "//". */
weir_status weir_url_read_authority(weir_url_reader *reader, weir_url_piece authority);

/* The text after '?'. */
weir_status weir_url_read_options(weir_url_reader *reader, weir_url_piece query);

/* Room for the names of all schemes, or of all options of one, in one list. */
enum { WEIR_URL_LIST_BYTES = 256 };

#endif

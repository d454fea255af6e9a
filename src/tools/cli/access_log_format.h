/* A log's own format, in Apache's notation or in nginx's:
 *
 *     %h %l %u %t "%r" %>s %b "%{X-Forwarded-For}i"
 *     $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent
 */
#ifndef WEIR_CLI_ACCESS_LOG_FORMAT_H
#define WEIR_CLI_ACCESS_LOG_FORMAT_H

#include "access_log.h"

enum { WEIR_ACCESS_PIECES_MOST = 64 };

typedef struct weir_access_piece {
  const char *text; /* in the pattern */
  size_t length;
  bool is_field; /* else what stands there as it is */
  int means;     /* of a field: a weir_access_field, or another of access_log_format.c */
  int other;     /* what it is besides, from WEIR_ACCESS_FIELDS on; 0: nothing */
} weir_access_piece;

typedef struct weir_access_format {
  size_t count;
  weir_access_piece pieces[WEIR_ACCESS_PIECES_MOST];
} weir_access_format;

/* The pattern must stay. False with a message that names what is wrong with it. */
bool weir_access_format_read(const char *pattern, weir_access_format *format,
                             weir_message *message);

/* Has these fields read, too, which must be in the format. False with a message that names the one
 * which is not, and those there are. */
bool weir_access_format_ask(weir_access_format *format, const weir_access_others *others,
                            weir_message *message);

/* A line of that format, without its newline. Where the pattern ends, a blank and more may follow.
 */
bool weir_access_format_parse(const weir_access_format *format, const char *text, size_t length,
                              weir_access *access, weir_message *message);

#endif

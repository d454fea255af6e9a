/* One line of an access log of Apache or nginx, in common or combined format:
 *
 *     192.0.2.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326 "from" "agent"
 */
#ifndef WEIR_CLI_ACCESS_LOG_H
#define WEIR_CLI_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

typedef enum weir_access_key {
  WEIR_ACCESS_CLIENT,
  WEIR_ACCESS_USER,
  WEIR_ACCESS_PATH /* up to a question mark */
} weir_access_key;

typedef struct weir_access {
  int64_t time_us;   /* since the Unix epoch */
  const char *key;   /* in the line */
  size_t key_length; /* 0: the line has no such thing, only a dash */
} weir_access;

/* Reads a line without its newline; a carriage return at its end is ignored. False, with what is
 * wrong and what is accepted, for everything that is no such line. */
bool weir_access_log_parse(const char *text, size_t length, weir_access_key key,
                           weir_access *access, weir_message *message);

#endif

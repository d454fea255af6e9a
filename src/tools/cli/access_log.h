/* One line of an access log: of Apache or nginx in common, combined or vhost_combined format, in a
 * format that is given as a pattern, or a JSON object.
 *
 *     192.0.2.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326 "from" "agent"
 *     www.example.com:80 192.0.2.7 - alice [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326
 */
#ifndef WEIR_CLI_ACCESS_LOG_H
#define WEIR_CLI_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/status.h>

/* What a line may say, whatever its format calls it. */
typedef enum weir_access_field {
  WEIR_ACCESS_CLIENT,
  WEIR_ACCESS_USER,
  WEIR_ACCESS_PATH, /* up to a question mark */
  WEIR_ACCESS_METHOD,
  WEIR_ACCESS_STATUS,
  WEIR_ACCESS_BYTES,
  WEIR_ACCESS_HOST,
  WEIR_ACCESS_REFERER,
  WEIR_ACCESS_AGENT,
  WEIR_ACCESS_FORWARDED, /* X-Forwarded-For */
  WEIR_ACCESS_FIELDS,
  /* Behind them others, that have no meaning but were asked for by name. */
  WEIR_ACCESS_OTHERS_MOST = 5,
  WEIR_ACCESS_ALL = WEIR_ACCESS_FIELDS + WEIR_ACCESS_OTHERS_MOST
} weir_access_field;

typedef struct weir_access_text {
  const char *at;
  size_t length; /* 0: the line has no such thing, or only a dash */
} weir_access_text;

typedef struct weir_access {
  int64_t time_us; /* since the Unix epoch */
  weir_access_text fields[WEIR_ACCESS_ALL];
} weir_access;

/* The names of other fields: of a format as they stand in it, of an object its members. */
typedef struct weir_access_others {
  size_t count;
  weir_access_text names[WEIR_ACCESS_OTHERS_MOST];
} weir_access_others;

/* As options call it; NULL behind the last. */
const char *weir_access_field_name(weir_access_field field);

/* Reads a line without its newline; a carriage return at its end is ignored. The fields are within
 * the line. False, with what is wrong and what is accepted, for everything that is no such line. */
bool weir_access_log_parse(const char *text, size_t length, weir_access *access,
                           weir_message *message);

/* Sets a field, which a dash leaves as it is. */
void weir_access_set(weir_access *access, int field, const char *text, size_t length);

/* Sets method and path from "GET /path?query HTTP/1.1". Anything may be logged as a request; what
 * has no such part has no path. */
void weir_access_set_request(weir_access *access, const char *request, size_t length);

/* Up to the first question mark. */
void weir_access_set_path(weir_access *access, const char *text, size_t length);

#endif

/* One line of an access log, whatever its form says of a request:
 *
 *   common      192.0.2.7 - alice [10/Oct/2000:13:55:36 -0700] "GET /a?b HTTP/1.0" 200 2326
 *     combined    ... "from" "agent"
 *     vhost       www.example.com:80 192.0.2.7 - alice [10/Oct/2000:13:55:36 -0700] "GET / ...
 *   a pattern   in Apache's notation or in nginx's, as the servers' configurations have it:
 *                 %h %l %u %t "%r" %>s %b "%{X-Forwarded-For}i"
 *                 $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent
 *   JSON        an object a line, as nginx, Caddy and others write them
 */
#ifndef WEIR_LOGS_ACCESS_LOG_H
#define WEIR_LOGS_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weir/status.h>

/* The fields that a line may have, whatever its form calls them. */
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
  WEIR_ACCESS_OTHERS_MOST = 6,
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

/* The names of other fields: of a pattern as they stand in it, of an object its members. */
typedef struct weir_access_others {
  size_t count;
  weir_access_text names[WEIR_ACCESS_OTHERS_MOST];
} weir_access_others;

/* As options call it; NULL behind the last. */
const char *weir_access_field_name(weir_access_field field);

/* --- common, combined and vhost_combined ----------------------------------------------------- */

/* Reads a line without its newline; a carriage return at its end is ignored. The fields are within
 * the line. False, with what is wrong and what is accepted, for everything that is no such line. */
bool weir_access_log_parse(const char *text, size_t length, weir_access *access,
                           weir_message *message);

/* --- a pattern ------------------------------------------------------------------------------- */

enum { WEIR_ACCESS_PIECES_MOST = 64 };

typedef struct weir_access_piece {
  const char *text; /* in the pattern */
  size_t length;
  bool is_field; /* else what stands there as it is */
  int means;     /* of a field: a weir_access_field, or another of pattern.c */
  int other;     /* what it is besides, from WEIR_ACCESS_FIELDS on; 0: nothing */
} weir_access_piece;

typedef struct weir_access_format {
  size_t count;
  bool tells_begin; /* the time is that of a request's begin, as of Apache's %t; else of its end */
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

/* --- JSON ------------------------------------------------------------------------------------ */

enum { WEIR_ACCESS_NUMBER_BYTES = 32 };

/* The fields of the latest line point into this; begins zeroed. */
typedef struct weir_access_json {
  struct json_t *line; /* jansson's */
  char numbers[WEIR_ACCESS_ALL][WEIR_ACCESS_NUMBER_BYTES];
  const weir_access_others *others; /* set by the caller that asks for them; NULL: none */
} weir_access_json;

void weir_access_json_clean_up(weir_access_json *json);

/* The fields are good until the next line. False with a message. */
bool weir_access_json_parse(weir_access_json *json, const char *text, size_t length,
                            weir_access *access, weir_message *message);

/* --- what all forms share -------------------------------------------------------------------- */

/* Sets a field, which a dash leaves as it is; of a path what stands before a question mark. */
void weir_access_set(weir_access *access, int field, const char *text, size_t length);

/* Sets method and path from "GET /path?query HTTP/1.1". Anything may be logged as a request; what
 * has no such part has no path. */
void weir_access_set_request(weir_access *access, const char *request, size_t length);

/* --- reading along a line -----------------------------------------------------------------------
 *
 * Reading along a line from left to right: what is taken is gone from the rest. Nothing is taken
 * where the answer is false, but for a time, of which a part may be. */

/* The rest of a line. */
typedef struct weir_line_rest {
  const char *at;
  const char *end;
} weir_line_rest;

bool weir_line_take_text(weir_line_rest *rest, const char *text);

/* As many digits as there are, perhaps none: how many. */
size_t weir_line_take_digits(weir_line_rest *rest);

/* 10/Oct/2000:13:55:36 -0700; years from 1971 to 9998, a leap second being the end of its minute.
 */
bool weir_line_take_time(weir_line_rest *rest, int64_t *time_us);

/* 2000-10-10T13:55:36.25-07:00, also with a blank for the T and Z, +0000 or nothing (UTC) for the
 * zone. */
bool weir_line_take_iso_time(weir_line_rest *rest, int64_t *time_us);

/* Seconds since 1970, which may have a fraction; from 10^11 on they are milliseconds, from 10^14 on
 * microseconds. */
bool weir_line_take_seconds(weir_line_rest *rest, int64_t *time_us);

/* How long something took, in so many microseconds each: "0.012", "3"; up to 400 days. */
bool weir_line_take_duration(weir_line_rest *rest, int64_t unit_us, int64_t *duration_us);

#endif

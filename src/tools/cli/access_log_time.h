/* Times as logs write them. */
#ifndef WEIR_CLI_ACCESS_LOG_TIME_H
#define WEIR_CLI_ACCESS_LOG_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of a line. */
typedef struct weir_access_rest {
  const char *at;
  const char *end;
} weir_access_rest;

bool weir_access_take_text(weir_access_rest *rest, const char *text);

/* 10/Oct/2000:13:55:36 -0700; years from 1971 to 9998, a leap second being the end of its minute.
 */
bool weir_access_take_time(weir_access_rest *rest, int64_t *time_us);

/* 2000-10-10T13:55:36.25-07:00, also with a blank for the T and Z, +0000 or nothing (UTC) for the
 * zone. */
bool weir_access_take_iso_time(weir_access_rest *rest, int64_t *time_us);

/* Seconds since 1970, which may have a fraction; from 10^11 on they are milliseconds, from 10^14 on
 * microseconds. */
bool weir_access_take_seconds(weir_access_rest *rest, int64_t *time_us);

#endif

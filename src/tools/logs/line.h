/* Reading along a line from left to right: what is taken is gone from the rest. Nothing is taken
 * where the answer is false, but for a time, of which a part may be. */
#ifndef WEIR_LOGS_LINE_H
#define WEIR_LOGS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left of a line. */
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

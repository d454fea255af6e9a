/* Numbers and lines of the memcached protocols, without allocation, locale or snprintf. */
#ifndef WEIR_MEMCACHED_TEXT_H
#define WEIR_MEMCACHED_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { WEIR_NUMBER_MOST = 20 }; /* digits of 2^64 - 1 */

/* Writes `before` and the number's digits; returns where they end. */
char *weir_number_put(char *out, const char *before, uint64_t number);

/* Decimal digits, then nothing but spaces: a server pads what it shortens. False for all else and
 * above 2^64 - 1. */
bool weir_number_parse(const char *text, size_t length, uint64_t *number);

/* Digits at the front of `text`; how many, 0 when there is none or the number does not fit. */
size_t weir_number_scan(const char *text, size_t length, uint64_t *number);

/* What memcached is told for a TTL: whole seconds, or above 30 days a date. An item with N seconds
 * goes somewhere in the last of them, and its clock may be late, so two seconds more than the
 * ceiling keep it alive for ttl_us; a date has a day to spare for a server whose clock is ahead. */
uint64_t weir_ttl_seconds(int64_t ttl_us, int64_t unix_s);

/* The line at the front of `bytes`, without CR LF. */
typedef struct weir_line {
  const char *text;
  size_t length;
  size_t taken; /* with CR LF; 0: the line is not whole yet */
  bool bad;     /* LF without CR */
} weir_line;

weir_line weir_line_find(const char *bytes, size_t length);
bool weir_line_is(const weir_line *line, const char *text);
bool weir_line_starts(const weir_line *line, const char *text);

#endif

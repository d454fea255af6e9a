/* Times as logs write them: each is taken piece by piece, and counted as microseconds since 1970.
 */
#include "line.h"

#include <string.h>

#include "number.h"

bool weir_line_take_text(weir_line_rest *rest, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(rest->end - rest->at) < length || memcmp(rest->at, text, length) != 0) return false;
  rest->at += length;
  return true;
}

size_t weir_line_take_digits(weir_line_rest *rest) {
  const char *first = rest->at;
  while (rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9')
    rest->at++;
  return (size_t)(rest->at - first);
}

/* Exactly `digits` digits, with a value up to `most`. */
static bool take_number(weir_line_rest *rest, size_t digits, int64_t most, int64_t *value) {
  if ((size_t)(rest->end - rest->at) < digits || !weir_number_read(rest->at, digits, most, value))
    return false;
  rest->at += digits;
  return true;
}

/* 13:55:36, as seconds of its day. */
static bool take_clock(weir_line_rest *rest, int64_t *seconds) {
  int64_t hour, minute, second;
  if (!take_number(rest, 2, 23, &hour) || !weir_line_take_text(rest, ":") ||
      !take_number(rest, 2, 59, &minute) || !weir_line_take_text(rest, ":") ||
      !take_number(rest, 2, 60, &second))
    return false;
  *seconds = (hour * 60 + minute) * 60 + second;
  return true;
}

/* Digits after a point, as microseconds; what is finer is cut off. None is 0. */
static int64_t take_fraction(weir_line_rest *rest) {
  int64_t us = 0;
  if (!weir_line_take_text(rest, ".")) return 0;
  for (int64_t unit = 100000; rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9';
       unit /= 10)
    us += (*rest->at++ - '0') * unit;
  return us;
}

/* -0700, as seconds to the east; `between` may stand between hours and minutes. */
static bool take_zone(weir_line_rest *rest, const char *between, int64_t *seconds) {
  int64_t hours, minutes;
  bool west = weir_line_take_text(rest, "-");
  if (!west && !weir_line_take_text(rest, "+")) return false;
  if (!take_number(rest, 2, 14, &hours)) return false;
  (void)weir_line_take_text(rest, between);
  if (!take_number(rest, 2, 59, &minutes)) return false;
  *seconds = (hours * 60 + minutes) * (west ? -60 : 60);
  return true;
}

/* False where the calendar has no such day. Up to the year 9998 microseconds fit 64 bits. */
static bool count_time(int64_t year, int64_t month, int64_t day, int64_t seconds,
                       int64_t *time_us) {
  static const int64_t days_in[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (year < 1971 || month < 1 || day < 1) return false;
  if (day > days_in[month - 1] + (month == 2 ? leap : 0)) return false;
  int64_t before = year - 1; /* 719162: days from 1 January of the year 1 to that of 1970 */
  int64_t days = before * 365 + before / 4 - before / 100 + before / 400 - 719162 + day - 1;
  for (int64_t m = 1; m < month; m++)
    days += days_in[m - 1] + (m == 2 ? leap : 0);
  *time_us = (days * 24 * 3600 + seconds) * 1000000;
  return true;
}

bool weir_line_take_time(weir_line_rest *rest, int64_t *time_us) {
  static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                       "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  int64_t day, month = 1, year, seconds, zone;
  if (!take_number(rest, 2, 31, &day) || !weir_line_take_text(rest, "/")) return false;
  while (month <= 12 && !weir_line_take_text(rest, months[month - 1]))
    month++;
  return month <= 12 && weir_line_take_text(rest, "/") && take_number(rest, 4, 9998, &year) &&
         weir_line_take_text(rest, ":") && take_clock(rest, &seconds) &&
         weir_line_take_text(rest, " ") && take_zone(rest, "", &zone) &&
         count_time(year, month, day, seconds - zone, time_us);
}

bool weir_line_take_iso_time(weir_line_rest *rest, int64_t *time_us) {
  int64_t day, month, year, seconds, us, zone = 0;
  if (!take_number(rest, 4, 9998, &year) || !weir_line_take_text(rest, "-") ||
      !take_number(rest, 2, 12, &month) || !weir_line_take_text(rest, "-") ||
      !take_number(rest, 2, 31, &day) ||
      (!weir_line_take_text(rest, "T") && !weir_line_take_text(rest, " ")) ||
      !take_clock(rest, &seconds))
    return false;
  us = take_fraction(rest);
  bool is_utc = rest->at == rest->end || weir_line_take_text(rest, "Z");
  if (!is_utc && !take_zone(rest, ":", &zone)) return false;
  if (!count_time(year, month, day, seconds - zone, time_us)) return false;
  *time_us += us;
  return true;
}

bool weir_line_take_seconds(weir_line_rest *rest, int64_t *time_us) {
  static const int64_t latest_us = INT64_C(253402300799999999); /* the end of the year 9999 */
  int64_t whole;
  const char *first = rest->at;
  size_t digits = weir_line_take_digits(rest);
  if (!weir_number_read(first, digits, latest_us, &whole)) return false;
  int64_t us = take_fraction(rest);
  if (whole >= INT64_C(100000000000000))
    *time_us = whole;
  else if (whole >= INT64_C(100000000000))
    *time_us = whole * 1000 + us / 1000;
  else
    *time_us = whole * 1000000 + us;
  return *time_us <= latest_us;
}

bool weir_line_take_duration(weir_line_rest *rest, int64_t unit_us, int64_t *duration_us) {
  static const int64_t most_us = INT64_C(400) * 24 * 3600 * 1000000;
  int64_t whole;
  const char *first = rest->at;
  size_t digits = weir_line_take_digits(rest);
  if (!weir_number_read(first, digits, most_us / unit_us, &whole)) return false;
  *duration_us = whole * unit_us + take_fraction(rest) * unit_us / 1000000;
  return true;
}

/* Reads times as logs write them. */
#include "access_log_time.h"

#include <string.h>

#include "number.h"

bool weir_access_take_text(weir_access_rest *rest, const char *text) {
  size_t length = strlen(text);
  if ((size_t)(rest->end - rest->at) < length || memcmp(rest->at, text, length) != 0) return false;
  rest->at += length;
  return true;
}

/* Exactly `digits` digits, with a value up to `most`. */
static bool take_number(weir_access_rest *rest, size_t digits, int64_t most, int64_t *value) {
  if ((size_t)(rest->end - rest->at) < digits ||
      !weir_cli_parse_integer(rest->at, digits, most, value))
    return false;
  rest->at += digits;
  return true;
}

/* --- time ------------------------------------------------------------------------------------ */

static bool take_month(weir_access_rest *rest, int64_t *month) {
  static const char *const names[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  for (*month = 1; *month <= 12; ++*month)
    if (weir_access_take_text(rest, names[*month - 1])) return true;
  return false;
}

static bool is_leap(int64_t year) {
  return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int64_t days_in(int64_t month, int64_t year) {
  static const int64_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 1 January 1970 to that day. */
static int64_t days_until(int64_t year, int64_t month, int64_t day) {
  int64_t before = year - 1;
  int64_t days = before * 365 + before / 4 - before / 100 + before / 400 - 719162;
  for (int64_t m = 1; m < month; m++)
    days += days_in(m, year);
  return days + day - 1;
}

static bool take_zone(weir_access_rest *rest, int64_t *seconds) {
  int64_t hours, minutes;
  bool west = weir_access_take_text(rest, "-");
  if (!west && !weir_access_take_text(rest, "+")) return false;
  if (!take_number(rest, 2, 14, &hours) || !take_number(rest, 2, 59, &minutes)) return false;
  *seconds = (hours * 60 + minutes) * 60;
  if (west) *seconds = -*seconds;
  return true;
}

static int64_t time_of(int64_t days, int64_t hour, int64_t minute, int64_t seconds) {
  return (((days * 24 + hour) * 60 + minute) * 60 + seconds) * 1000000;
}

bool weir_access_take_time(weir_access_rest *rest, int64_t *time_us) {
  int64_t day, month, year, hour, minute, second, zone;
  if (!take_number(rest, 2, 31, &day) || !weir_access_take_text(rest, "/") ||
      !take_month(rest, &month) || !weir_access_take_text(rest, "/") ||
      !take_number(rest, 4, 9998, &year) || !weir_access_take_text(rest, ":") ||
      !take_number(rest, 2, 23, &hour) || !weir_access_take_text(rest, ":") ||
      !take_number(rest, 2, 59, &minute) || !weir_access_take_text(rest, ":") ||
      !take_number(rest, 2, 60, &second) || !weir_access_take_text(rest, " ") ||
      !take_zone(rest, &zone))
    return false;
  if (year < 1971 || day < 1 || day > days_in(month, year)) return false;
  *time_us = time_of(days_until(year, month, day), hour, minute, second - zone);
  return true;
}

/* Digits after a point, as microseconds; what is finer is cut off. None is 0. */
static void take_fraction(weir_access_rest *rest, int64_t *us) {
  int64_t unit = 100000;
  *us = 0;
  if (!weir_access_take_text(rest, ".")) return;
  for (; rest->at < rest->end && *rest->at >= '0' && *rest->at <= '9'; rest->at++, unit /= 10)
    *us += (*rest->at - '0') * unit;
}

static bool take_iso_zone(weir_access_rest *rest, int64_t *seconds) {
  int64_t hours, minutes;
  *seconds = 0;
  if (rest->at == rest->end || weir_access_take_text(rest, "Z")) return true;
  bool west = weir_access_take_text(rest, "-");
  if (!west && !weir_access_take_text(rest, "+")) return false;
  if (!take_number(rest, 2, 14, &hours)) return false;
  (void)weir_access_take_text(rest, ":");
  if (!take_number(rest, 2, 59, &minutes)) return false;
  *seconds = (hours * 60 + minutes) * (west ? -60 : 60);
  return true;
}

bool weir_access_take_iso_time(weir_access_rest *rest, int64_t *time_us) {
  int64_t day, month, year, hour, minute, second, us, zone;
  if (!take_number(rest, 4, 9998, &year) || !weir_access_take_text(rest, "-") ||
      !take_number(rest, 2, 12, &month) || !weir_access_take_text(rest, "-") ||
      !take_number(rest, 2, 31, &day) ||
      (!weir_access_take_text(rest, "T") && !weir_access_take_text(rest, " ")) ||
      !take_number(rest, 2, 23, &hour) || !weir_access_take_text(rest, ":") ||
      !take_number(rest, 2, 59, &minute) || !weir_access_take_text(rest, ":") ||
      !take_number(rest, 2, 60, &second))
    return false;
  take_fraction(rest, &us);
  if (!take_iso_zone(rest, &zone)) return false;
  if (year < 1971 || month < 1 || day < 1 || day > days_in(month, year)) return false;
  *time_us = time_of(days_until(year, month, day), hour, minute, second - zone) + us;
  return true;
}

bool weir_access_take_seconds(weir_access_rest *rest, int64_t *time_us) {
  static const int64_t latest_us = INT64_C(253402300799999999); /* the end of the year 9999 */
  int64_t whole, us;
  size_t digits = 0;
  while (rest->at + digits < rest->end && rest->at[digits] >= '0' && rest->at[digits] <= '9')
    digits++;
  if (!take_number(rest, digits, latest_us, &whole)) return false;
  take_fraction(rest, &us);
  if (whole >= INT64_C(100000000000000))
    *time_us = whole;
  else if (whole >= INT64_C(100000000000))
    *time_us = whole * 1000 + us / 1000;
  else
    *time_us = whole * 1000000 + us;
  return *time_us <= latest_us;
}

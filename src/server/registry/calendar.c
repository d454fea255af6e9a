/* The Gregorian calendar, reckoned in days since 1970. */
#include "registry/calendar.h"

#include <stdio.h>

enum { DAY_S = 86400, ERA_DAYS = 146097, ERA_YEARS = 400 };

/* Days from 1970-01-01 to the first of a month, 1 to 12; months run from March, so that a leap day is
 * the last of its year. 719468 days lie between 0000-03-01 and then. */
static int64_t days_to(int64_t year, int month) {
  if (month <= 2) year--;
  int64_t era = (year >= 0 ? year : year - ERA_YEARS + 1) / ERA_YEARS;
  int64_t of_era = year - era * ERA_YEARS;
  int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5;
  return era * ERA_DAYS + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

weir_calendar weir_calendar_at(weir_config_unit unit, int64_t now_s) {
  weir_calendar made;
  int64_t day = now_s / DAY_S;
  int64_t year = 1970 + day / 366; /* too early rather than too late */
  int month = 1;
  while (days_to(year + 1, 1) <= day)
    year++;
  while (month < 12 && days_to(year, month + 1) <= day)
    month++;
  bool is_month = unit == WEIR_CONFIG_MONTH;
  int length = is_month
                   ? snprintf(made.text, sizeof made.text, "/%04lld-%02d", (long long)year, month)
                   : snprintf(made.text, sizeof made.text, "/%04lld", (long long)year);
  made.length = (size_t)length;
  bool is_last = !is_month || month == 12;
  made.end_s = DAY_S * (is_last ? days_to(year + 1, 1) : days_to(year, month + 1));
  return made;
}

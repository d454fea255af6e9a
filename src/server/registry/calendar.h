/* Months and years of the calendar, in UTC: where a domain says `calendar: true`, the date stands in a
 * limit's key, so that its count begins anew with it. */
#ifndef WEIR_REGISTRY_CALENDAR_H
#define WEIR_REGISTRY_CALENDAR_H

#include <stddef.h>
#include <stdint.h>

#include "config/envoy.h"

enum { WEIR_CALENDAR_BYTES = 24 };

typedef struct weir_calendar {
  char text
      [WEIR_CALENDAR_BYTES]; /* behind the key: "/2026-03" or "/2026", which no entry is written as */
  size_t length;
  int64_t end_s; /* when the next one begins: seconds since 1970 */
} weir_calendar;

/* The month or year that a time is in. `unit`: WEIR_CONFIG_MONTH or WEIR_CONFIG_YEAR. */
weir_calendar weir_calendar_at(weir_config_unit unit, int64_t now_s);

#endif

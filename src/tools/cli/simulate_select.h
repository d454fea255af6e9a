/* Which requests of a log take part in a simulation, under which key and at which cost. */
#ifndef WEIR_CLI_SIMULATE_SELECT_H
#define WEIR_CLI_SIMULATE_SELECT_H

#include <weir/http.h>

#include "logs/access_log.h"
#include "options.h"

enum { WEIR_CLI_KEY_PARTS_MOST = 4 };

typedef struct weir_cli_key_part {
  int field;   /* of weir_access */
  bool is_cut; /* to a network: */
  unsigned ipv4_bits, ipv6_bits;
} weir_cli_key_part;

typedef struct weir_cli_selection {
  weir_cli_format format; /* as asked for */
  weir_cli_key_part parts[WEIR_CLI_KEY_PARTS_MOST];
  size_t part_count;
  weir_http_networks *trusted; /* NULL: X-Forwarded-For is not looked at */
  const char *status;          /* NULL: any */
  const char *path;            /* NULL: any */
  int cost;                    /* the field that says it; WEIR_ACCESS_ALL: each costs 1 */
  int real;     /* the same of what it cost in truth; WEIR_ACCESS_ALL: it is not asked */
  int duration; /* the same of how long it took, in units of: */
  int64_t duration_unit_us;
  weir_access_others others;
  char *key; /* of the latest request, where it is made of parts */
  size_t key_room;
} weir_cli_selection;

/* False after one line on stderr. */
bool weir_cli_selection_init(weir_cli_selection *selection, const weir_cli_options *options);
void weir_cli_selection_clean_up(weir_cli_selection *selection);

typedef enum weir_cli_selected {
  WEIR_CLI_SELECTED,
  WEIR_CLI_FILTERED,
  WEIR_CLI_KEYLESS,
  WEIR_CLI_COSTLESS, /* what should be the cost is no number */
  WEIR_CLI_TOO_DEAR, /* ... or more than any request can cost */
  WEIR_CLI_REALLESS, /* the same of what it cost in truth */
  WEIR_CLI_REAL_TOO_DEAR,
  WEIR_CLI_TIMELESS, /* what should be its duration is none */
  WEIR_CLI_SELECT_NO_MEMORY
} weir_cli_selected;

/* What a simulation has of a request. */
typedef struct weir_cli_selected_request {
  weir_access_text key; /* within the line or the selection, good until the next request */
  int64_t cost, real, duration_us;
} weir_cli_selected_request;

weir_cli_selected weir_cli_select(weir_cli_selection *selection, const weir_access *access,
                                  weir_cli_selected_request *request);

#endif

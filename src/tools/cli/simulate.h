/* The outcome of simulate's requests: a report, recommended limits, a picture. */
#ifndef WEIR_CLI_SIMULATE_H
#define WEIR_CLI_SIMULATE_H

#include <jansson.h>
#include <string.h>
#include <weir/http.h>

#include "logs/access_log.h"
#include "logs/trace.h"
#include "options.h"
#include "report.h"
#include "simulate/generator.h"
#include "simulate/held.h"
#include "simulate/record.h"
#include "simulate/simulation.h"
#include "simulate/tenants.h"

/* --- which of a log take part -------------------------------------------------------------------
 *
 * Which requests of a log take part in a simulation, under which key and at which cost. */

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
  int class;    /* the same of which class it is of */
  int tenant;   /* the same of who asks */
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

/* A simulation's view of a request. */
typedef struct weir_cli_selected_request {
  weir_access_text key;        /* within the line or the selection, good until the next request */
  weir_access_text class_name; /* the same; of length 0: of none */
  weir_access_text tenant;     /* the same; of length 0: it was not asked */
  int64_t cost, real, duration_us;
} weir_cli_selected_request;

weir_cli_selected weir_cli_select(weir_cli_selection *selection, const weir_access *access,
                                  weir_cli_selected_request *request);

/* --- where requests come from -------------------------------------------------------------------
 *
 * Where the requests of a simulation come from: traces and access logs, merged by time, or a
 * generator. */

enum { WEIR_CLI_MALFORMED_SHOWN = 5, WEIR_CLI_FILES_MOST = 256 };

/* A line that is no request. */
typedef struct weir_cli_malformed {
  const char *name; /* of the file */
  uint64_t line;
  weir_message reason;
} weir_cli_malformed;

typedef struct weir_cli_arrival {
  int64_t time_us;
  const char *key; /* good until the next one */
  size_t key_length;
  weir_access_text class_name; /* as long as the key; of length 0: of none */
  weir_access_text tenant;     /* the same; of length 0: it was not asked */
  int64_t cost;
  int64_t real;        /* of a log, where it was asked for, ... */
  int64_t duration_us; /* ... and this as well */
  uint64_t line;       /* of its file */
} weir_cli_arrival;

/* One file, and the request that it has next. */
typedef struct weir_cli_source {
  const char *name; /* for messages */
  weir_trace_file *file;
  weir_cli_format format; /* WEIR_CLI_FORMAT_AUTO until the first good line */
  weir_cli_selection selection;
  weir_access_json json;
  uint64_t line; /* the latest, from 1 */
  bool has_next;
  weir_cli_arrival next;
  bool has_after; /* the one after it was read as well: */
  weir_cli_arrival after;
  bool has_latest; /* the latest time of all before: */
  int64_t latest_us;
  char *kept; /* the texts of `next`, where `after` was read */
  size_t kept_room;
} weir_cli_source;

typedef struct weir_cli_input {
  const char *name; /* of the latest request: a file, "stdin", or the generator */
  uint64_t line;    /* of the latest request, from 1; or how many were generated */
  const weir_cli_options *options;
  weir_access_format pattern; /* of --format */
  weir_generator *generator;  /* NULL: files */
  weir_cli_source *sources;
  size_t source_count;
  weir_cli_source *latest;    /* whose request was handed out; NULL: none was */
  uint64_t lines;             /* read so far, of all files */
  weir_cli_progress progress; /* of that, between its begin and end */
  uint64_t keyless;           /* lines of an access log without what is the key, or the tenant */
  uint64_t filtered;          /* lines that --status or --path leave out */
  uint64_t malformed;         /* how many; the first of them: */
  weir_cli_malformed first[WEIR_CLI_MALFORMED_SHOWN];
} weir_cli_input;

typedef enum weir_cli_step {
  WEIR_CLI_ARRIVAL,
  WEIR_CLI_INPUT_END,
  WEIR_CLI_INPUT_BROKEN /* cannot be read on; the message says why, name and line where */
} weir_cli_step;

/* False after one line on stderr. Generators take limit, period and classes from `stack`. */
bool weir_cli_input_open(const weir_cli_options *options, const weir_stack *stack,
                         weir_cli_input *input);
void weir_cli_input_close(weir_cli_input *input);

weir_cli_step weir_cli_input_next(weir_cli_input *input, weir_cli_arrival *arrival,
                                  weir_message *message);

/* Requests are read into these; NULL: not wanted. With `held` or `tenants`, nothing else is. */
typedef struct weir_cli_readers {
  weir_simulation *simulation;
  weir_record *record;
  weir_reals *reals;
  weir_held *held;
  weir_tenants *tenants;
} weir_cli_readers;

/* Reads all of it into these. The exit status, after one line on stderr where it is not 0. */
int weir_cli_input_read(weir_cli_input *input, const weir_cli_readers *readers);

/* --- what is done with them ---------------------------------------------------------------------
 */

/* These give the exit status, after one line on stderr where it is not 0. */

/* The findings of a simulation. */
typedef struct weir_cli_found {
  const weir_simulation *simulation;
  const weir_reals *reals; /* what settling would have spent; NULL: not asked */
  const weir_held *held;   /* requests with their durations; NULL: they hold nothing */
  const weir_cli_input *input;
  weir_record *record; /* without --top, NULL is fine */
} weir_cli_found;

/* Prints what the rules decided, how they differ from an exact window, and what they cost: tables,
 * or with --json one object a line, the input's, then a rule's each. With --top it says of so many
 * keys all that the record knows; else less, of a few. */
int weir_cli_simulate_report(const weir_cli_options *options, const weir_cli_found *found);

/* Of that what is told of the input; with `held`, what was in flight as well. False: not enough memory. */
bool weir_cli_simulate_report_input(const weir_cli_options *options,
                                    const weir_simulation *simulation, const weir_cli_input *input,
                                    const weir_held *held);

/* Prints how shared windows would have divided their limits among tenants, and as a picture. */
int weir_cli_simulate_tenants(const weir_cli_options *options, const char *const *rules,
                              size_t rule_count);

/* Whether --tenant means the key of a trace or of made-up requests, not a field of a log. */
static inline bool weir_cli_tenant_is_key(const weir_cli_options *options) {
  return options->tenant_field != NULL && strcmp(options->tenant_field, "key") == 0 &&
         (options->format == WEIR_CLI_FORMAT_AUTO || options->format == WEIR_CLI_FORMAT_TRACE);
}

/* Prints what rules on what is in flight would have denied, of requests with their durations; and
 * as a picture, what was in flight over time. */
int weir_cli_simulate_held(const weir_cli_options *options, const char *const *rules,
                           size_t rule_count);

/* Says which limit each rule needs for what --recommend wants, and reports on these; draws how many
 * keys have which peak, and the limits among them, into --plot. */
int weir_cli_simulate_recommend(const weir_cli_options *options, const char *const *rules,
                                size_t rule_count);

/* Draws estimate against truth over time, one panel a rule, into --plot: reads the input once
 * more. */
int weir_cli_simulate_plot(const weir_cli_options *options, const weir_simulation *simulation);

/* Whether --plot can be drawn, as far as it shows before the work begins. False after one line on
 * stderr. */
bool weir_cli_simulate_plot_check(const weir_cli_options *options);

/* How many keys have which peak, as it was found last; in any such period, 0: in flight at once. */
void weir_cli_print_peaks(const weir_record *record, int64_t period_us);
/* Sets them as "peaks" and "histogram". False: not enough memory. */
bool weir_cli_peaks_json(const weir_record *record, json_t *object);

/* A limit as a line in a picture. */
typedef struct weir_cli_limit {
  const char *rule;
  int64_t limit;
} weir_cli_limit;

/* Draws how many keys have which peak, and these limits. The exit status. */
int weir_cli_plot_peaks(const char *path, weir_record *record, int64_t period_us,
                        const weir_cli_limit *limits, size_t count);

/* 0 where the whole is. */
double weir_cli_percent(int64_t part, int64_t whole);

#endif

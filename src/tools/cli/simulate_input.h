/* Where the requests of a simulation come from: traces and access logs, merged by time, or a
 * generator. */
#ifndef WEIR_CLI_SIMULATE_INPUT_H
#define WEIR_CLI_SIMULATE_INPUT_H

#include "logs/access_log.h"
#include "logs/trace.h"
#include "options.h"
#include "simulate/generator.h"
#include "simulate/held.h"
#include "simulate/real.h"
#include "simulate/record.h"
#include "simulate/simulation.h"
#include "simulate_select.h"

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
  char *kept; /* the key of `next`, where `after` was read */
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
  weir_cli_source *latest; /* whose request was handed out; NULL: none was */
  uint64_t lines;          /* read so far, of all files */
  uint64_t keyless;        /* lines of an access log without what is the key */
  uint64_t filtered;       /* lines that --status or --path leave out */
  uint64_t malformed;      /* how many; the first of them: */
  weir_cli_malformed first[WEIR_CLI_MALFORMED_SHOWN];
} weir_cli_input;

typedef enum weir_cli_step {
  WEIR_CLI_ARRIVAL,
  WEIR_CLI_INPUT_END,
  WEIR_CLI_INPUT_BROKEN /* cannot be read on; the message says why, name and line where */
} weir_cli_step;

/* False after one line on stderr. Generators take limit and period from `rule`. */
bool weir_cli_input_open(const weir_cli_options *options, const weir_rule *rule,
                         weir_cli_input *input);
void weir_cli_input_close(weir_cli_input *input);

weir_cli_step weir_cli_input_next(weir_cli_input *input, weir_cli_arrival *arrival,
                                  weir_message *message);

/* What requests are read into; NULL: not wanted. With `held`, nothing else is. */
typedef struct weir_cli_readers {
  weir_simulation *simulation;
  weir_record *record;
  weir_reals *reals;
  weir_held *held;
} weir_cli_readers;

/* Reads all of it into these. The exit status, after one line on stderr where it is not 0. */
int weir_cli_input_read(weir_cli_input *input, const weir_cli_readers *readers);

#endif

/* Where the requests of a simulation come from: a trace, an access log, or a generator. */
#ifndef WEIR_CLI_SIMULATE_INPUT_H
#define WEIR_CLI_SIMULATE_INPUT_H

#include "options.h"
#include "simulate/generator.h"
#include "trace_file.h"

enum { WEIR_CLI_MALFORMED_SHOWN = 5 };

/* A line that is no request. */
typedef struct weir_cli_malformed {
  uint64_t line;
  weir_message reason;
} weir_cli_malformed;

typedef struct weir_cli_input {
  const char *name; /* for messages: a file, "stdin", or the generator */
  const weir_cli_options *options;
  weir_cli_format format; /* WEIR_CLI_FORMAT_AUTO until the first good line */
  weir_trace_file *file;  /* NULL: the generator */
  weir_generator *generator;
  uint64_t line;      /* the latest, from 1; or how many were generated */
  uint64_t keyless;   /* lines of an access log without what is the key */
  uint64_t malformed; /* how many; the first of them: */
  weir_cli_malformed first[WEIR_CLI_MALFORMED_SHOWN];
} weir_cli_input;

typedef struct weir_cli_arrival {
  int64_t time_us;
  const char *key; /* good until the next one */
  size_t key_length;
  int64_t cost;
} weir_cli_arrival;

typedef enum weir_cli_step {
  WEIR_CLI_ARRIVAL,
  WEIR_CLI_INPUT_END,
  WEIR_CLI_INPUT_BROKEN /* cannot be read on; the message says why */
} weir_cli_step;

/* False after one line on stderr. Generators take limit and period from `rule`. */
bool weir_cli_input_open(const weir_cli_options *options, const weir_rule *rule,
                         weir_cli_input *input);
void weir_cli_input_close(weir_cli_input *input);

weir_cli_step weir_cli_input_next(weir_cli_input *input, weir_cli_arrival *arrival,
                                  weir_message *message);

const char *weir_cli_format_name(weir_cli_format format);

#endif

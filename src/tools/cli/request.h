/* What is asked about one key, from the command line or from a line of a trace. */
#ifndef WEIR_CLI_REQUEST_H
#define WEIR_CLI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_CLI_NO_TIME = -1 };

#define WEIR_CLI_COST_MOST (INT64_C(1) << 31)

typedef struct weir_cli_request {
  int64_t time_ms; /* since the Unix epoch, or WEIR_CLI_NO_TIME: asked now */
  const char *key; /* not terminated */
  size_t key_length;
  int64_t cost;         /* for every rule, unless there are several */
  const int64_t *costs; /* one per rule, or NULL */
  int cost_count;
  bool peek; /* nothing is charged */
} weir_cli_request;

#endif

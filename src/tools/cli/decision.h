/* Decisions in writing: a line for people, a line of JSON, a line of a replay. */
#ifndef WEIR_CLI_DECISION_H
#define WEIR_CLI_DECISION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <weir/weir.h>

enum { WEIR_CLI_NO_TIME = -1 };

/* A request for one key, from the command line or from a line of a trace. */
typedef struct weir_cli_request {
  int64_t time_ms; /* since the Unix epoch, or WEIR_CLI_NO_TIME: asked now */
  const char *key; /* not terminated */
  size_t key_length;
  int64_t cost;         /* for every rule, unless there are several */
  const int64_t *costs; /* one per rule, or NULL */
  int cost_count;
  const char *verdict; /* of a line of a replay, beside "allowed" and "denied"; or NULL */
  bool peek;           /* nothing is charged */
  int64_t *lists; /* of settle: what each rule cost, then what was taken, and comes to be charged */
} weir_cli_request;

/* Enough for every duration below. */
enum { WEIR_CLI_DURATION_BYTES = 32 };

/* "250us", "12ms", "9.98s", "1m5s", "2h30m", "3d4h": always rounded up, so that waiting as long as
 * it says is enough. Negative: "unknown". */
void weir_cli_format_duration(int64_t us, char text[WEIR_CLI_DURATION_BYTES]);

/* For people. `several_rules`: say which rule the figures come from. `up_to`: and how much was
 * taken. */
void weir_cli_decision_text(FILE *out, const weir_decision *decision, bool several_rules,
                            bool up_to);

/* The tab-separated line of a replay, its key as weir_cli_print_key() writes it. */
void weir_cli_decision_tabs(FILE *out, const weir_cli_request *request,
                            const weir_decision *decision);

/* The same for what was released: its cost, and no figures. */
void weir_cli_released_tabs(FILE *out, const weir_cli_request *request);

/* One JSON object; time_ms is left out when the request has none. False when memory is short. */
bool weir_cli_decision_json(FILE *out, const weir_cli_request *request,
                            const weir_decision *decision);

/* The charge now, for each rule that had a cost of its own, and what was cut. */
typedef struct weir_cli_settled {
  const int64_t *reals, *charged;
  int count;
  const weir_decision *decision;
} weir_cli_settled;

/* For people, and as a JSON object. */
void weir_cli_settled_text(FILE *out, const weir_cli_settled *settled);
bool weir_cli_settled_json(FILE *out, const weir_cli_request *request,
                           const weir_cli_settled *settled);

/* The JSON object that says what was done to a key: "reset" or "refunded" is true. False when
 * memory is short. */
bool weir_cli_done_json(FILE *out, const weir_cli_request *request, const char *what);

#endif

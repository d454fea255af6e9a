/* A decision in writing: a line for people, a line of replay, an object for programs. */
#include "decision.h"

#include <inttypes.h>

#include "options.h"
#include "output.h"
#include "report.h"

enum { DIGITS = 0 }; /* every number of the objects is whole */

/* --- for people ------------------------------------------------------------------------------ */

static int64_t divide_up(int64_t us, int64_t unit_us) {
  return us / unit_us + (us % unit_us != 0);
}

/* Two neighbouring units, the smaller one left out when it is zero. */
static void format_pair(int64_t count, int64_t per_large, char large, char small, char *text) {
  if (count % per_large == 0)
    snprintf(text, WEIR_CLI_DURATION_BYTES, "%" PRId64 "%c", count / per_large, large);
  else
    snprintf(text, WEIR_CLI_DURATION_BYTES, "%" PRId64 "%c%" PRId64 "%c", count / per_large, large,
             count % per_large, small);
}

/* Each unit is chosen by the rounded count, so that no "60s" or "1000ms" comes out. */
void weir_cli_format_duration(int64_t us, char text[WEIR_CLI_DURATION_BYTES]) {
  const int64_t second_us = 1000000, minute_us = 60 * second_us, hour_us = 60 * minute_us;
  int64_t hundredths = divide_up(us, second_us / 100);
  if (us < 0)
    snprintf(text, WEIR_CLI_DURATION_BYTES, "unknown");
  else if (us == 0)
    snprintf(text, WEIR_CLI_DURATION_BYTES, "0s");
  else if (us < 1000)
    snprintf(text, WEIR_CLI_DURATION_BYTES, "%" PRId64 "us", us);
  else if (divide_up(us, 1000) < 1000)
    snprintf(text, WEIR_CLI_DURATION_BYTES, "%" PRId64 "ms", divide_up(us, 1000));
  else if (hundredths < 6000 && hundredths % 100 == 0)
    snprintf(text, WEIR_CLI_DURATION_BYTES, "%" PRId64 "s", hundredths / 100);
  else if (hundredths < 6000 && hundredths % 10 == 0)
    snprintf(text, WEIR_CLI_DURATION_BYTES, "%" PRId64 ".%" PRId64 "s", hundredths / 100,
             hundredths % 100 / 10);
  else if (hundredths < 6000)
    snprintf(text, WEIR_CLI_DURATION_BYTES, "%" PRId64 ".%02" PRId64 "s", hundredths / 100,
             hundredths % 100);
  else if (divide_up(us, second_us) < 3600)
    format_pair(divide_up(us, second_us), 60, 'm', 's', text);
  else if (divide_up(us, minute_us) < INT64_C(24) * 60)
    format_pair(divide_up(us, minute_us), 60, 'h', 'm', text);
  else
    format_pair(divide_up(us, hour_us), 24, 'd', 'h', text);
}

static void print_duration(FILE *out, const char *name, int64_t us) {
  char text[WEIR_CLI_DURATION_BYTES];
  weir_cli_format_duration(us, text);
  fprintf(out, "  %s %s", name, text);
}

void weir_cli_decision_text(FILE *out, const weir_decision *decision, bool several_rules,
                            bool up_to) {
  fprintf(out, "%s%s%s", weir_cli_colour_on(out, decision->allowed ? WEIR_CLI_GREEN : WEIR_CLI_RED),
          decision->allowed ? "allowed" : "denied", weir_cli_colour_on(out, WEIR_CLI_PLAIN));
  if (up_to && decision->allowed) fprintf(out, "  cost %" PRId64, decision->cost);
  fprintf(out, "  limit %" PRId64, decision->limit);
  if (decision->remaining == WEIR_NOT_KNOWN)
    fputs("  remaining unknown", out);
  else
    fprintf(out, "  remaining %" PRId64, decision->remaining);
  if (decision->retry_after_us == WEIR_NEVER)
    fputs("  retry-after never", out);
  else
    print_duration(out, "retry-after", decision->retry_after_us);
  print_duration(out, "reset-after", decision->reset_after_us);
  if (decision->delay_us > 0) print_duration(out, "delay", decision->delay_us);
  if (several_rules) fprintf(out, "  rule %" PRIu32, decision->rule);
  if (decision->source == WEIR_SOURCE_LOCAL) fputs("  source local", out);
  if (decision->source == WEIR_SOURCE_FALLBACK) fputs("  source fallback", out);
  if (decision->source == WEIR_SOURCE_LATE) fputs("  source late", out);
  if (decision->source == WEIR_SOURCE_UNLIMITED) fputs("  source unlimited", out);
  fputc('\n', out);
}

static void print_numbers(FILE *out, const char *name, const int64_t *numbers, int count) {
  fprintf(out, "  %s ", name);
  for (int i = 0; i < count; i++)
    fprintf(out, i == 0 ? "%" PRId64 : ",%" PRId64, numbers[i]);
}

/* The cost that was charged nowhere, and whether there is any. */
static bool find_cut(const weir_cli_settled *settled, int64_t *cut) {
  bool some = false;
  for (int i = 0; i < settled->count; i++) {
    int64_t rest = settled->reals[i] - settled->charged[i];
    cut[i] = rest > 0 ? rest : 0;
    some |= rest > 0;
  }
  return some;
}

void weir_cli_settled_text(FILE *out, const weir_cli_settled *settled) {
  int64_t cut[WEIR_CLI_COSTS_MOST];
  const weir_decision *decision = settled->decision;
  fputs("settled", out);
  print_numbers(out, "charged", settled->charged, settled->count);
  if (find_cut(settled, cut)) print_numbers(out, "cut", cut, settled->count);
  if (decision->remaining != WEIR_NOT_KNOWN)
    fprintf(out, "  remaining %" PRId64, decision->remaining);
  if (decision->reset_after_us >= 0) print_duration(out, "reset-after", decision->reset_after_us);
  fputc('\n', out);
}

void weir_cli_decision_tabs(FILE *out, const weir_cli_request *request,
                            const weir_decision *decision) {
  const char *verdict = decision->allowed ? "allowed" : "denied";
  if (request->verdict != NULL) verdict = request->verdict;
  fprintf(out, "%" PRId64 "\t", request->time_ms);
  weir_cli_print_key(out, request->key, request->key_length, request->key_length);
  fprintf(out,
          "\t%" PRId64 "\t%s\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\t%" PRId64 "\n",
          request->cost, verdict, decision->limit, decision->remaining, decision->retry_after_us,
          decision->reset_after_us, decision->delay_us);
}

void weir_cli_released_tabs(FILE *out, const weir_cli_request *request) {
  fprintf(out, "%" PRId64 "\t", request->time_ms);
  weir_cli_print_key(out, request->key, request->key_length, request->key_length);
  fprintf(out, "\t%" PRId64 "\treleased\t0\t0\t0\t0\t0\n", request->cost);
}

/* --- for programs ---------------------------------------------------------------------------- */

static bool set_integer(json_t *object, const char *name, int64_t value) {
  return json_object_set_new(object, name, json_integer(value)) == 0;
}

static bool set_text(json_t *object, const char *name, const char *value) {
  return json_object_set_new(object, name, json_string(value)) == 0;
}

static bool set_list(json_t *object, const char *name, const int64_t *numbers, int count) {
  json_t *list = json_array();
  bool set = list != NULL;
  for (int i = 0; set && i < count; i++)
    set = json_array_append_new(list, json_integer(numbers[i])) == 0;
  if (set) return json_object_set_new(object, name, list) == 0;
  json_decref(list);
  return false;
}

/* One cost, or a list of one per rule. */
static bool set_cost(json_t *object, const weir_cli_request *request) {
  if (request->costs == NULL) return set_integer(object, "cost", request->cost);
  return set_list(object, "costs", request->costs, request->cost_count);
}

/* The same of what is settled, under one name. */
static bool set_numbers(json_t *object, const char *name, const int64_t *numbers, int count) {
  return count == 1 ? set_integer(object, name, numbers[0])
                    : set_list(object, name, numbers, count);
}

bool weir_cli_decision_json(FILE *out, const weir_cli_request *request,
                            const weir_decision *decision) {
  static const char *const sources[] = {[WEIR_SOURCE_STORE] = "store",
                                        [WEIR_SOURCE_LOCAL] = "local",
                                        [WEIR_SOURCE_FALLBACK] = "fallback",
                                        [WEIR_SOURCE_LATE] = "late",
                                        [WEIR_SOURCE_UNLIMITED] = "unlimited"};
  bool timeless = request->time_ms == WEIR_CLI_NO_TIME;
  bool one_cost =
      decision->cost != WEIR_OWN_COSTS; /* of all rules, so that its sum means something */
  int64_t charged = decision->allowed && !request->peek ? decision->cost : 0;
  json_t *object = json_object();
  bool printed = (timeless || set_integer(object, "time_ms", request->time_ms)) &&
                 weir_cli_json_set_bytes(object, "key", request->key, request->key_length) &&
                 set_cost(object, request) &&
                 set_text(object, "decision", decision->allowed ? "allowed" : "denied") &&
                 set_integer(object, "limit", decision->limit) &&
                 set_integer(object, "remaining", decision->remaining) &&
                 set_integer(object, "retry_after_us", decision->retry_after_us) &&
                 set_integer(object, "reset_after_us", decision->reset_after_us) &&
                 set_integer(object, "delay_us", decision->delay_us) &&
                 set_text(object, "source", sources[decision->source]) &&
                 set_integer(object, "rule", decision->rule) &&
                 (!one_cost || set_integer(object, "charged", charged)) &&
                 set_integer(object, "at_us", decision->at_us) &&
                 weir_cli_json_print(out, object, DIGITS);
  json_decref(object);
  return printed;
}

bool weir_cli_settled_json(FILE *out, const weir_cli_request *request,
                           const weir_cli_settled *settled) {
  int64_t cut[WEIR_CLI_COSTS_MOST];
  const weir_decision *decision = settled->decision;
  int count = settled->count;
  find_cut(settled, cut);
  json_t *object = json_object();
  bool printed = weir_cli_json_set_bytes(object, "key", request->key, request->key_length) &&
                 set_cost(object, request) && set_numbers(object, "real", settled->reals, count) &&
                 json_object_set_new(object, "settled", json_true()) == 0 &&
                 set_numbers(object, "charged", settled->charged, count) &&
                 set_numbers(object, "cut", cut, count) &&
                 set_integer(object, "remaining", decision->remaining) &&
                 set_integer(object, "reset_after_us", decision->reset_after_us) &&
                 set_integer(object, "at_us", decision->at_us) &&
                 weir_cli_json_print(out, object, DIGITS);
  json_decref(object);
  return printed;
}

bool weir_cli_done_json(FILE *out, const weir_cli_request *request, const char *what) {
  json_t *object = json_object();
  bool printed = weir_cli_json_set_bytes(object, "key", request->key, request->key_length) &&
                 json_object_set_new(object, what, json_true()) == 0 &&
                 weir_cli_json_print(out, object, DIGITS);
  json_decref(object);
  return printed;
}
